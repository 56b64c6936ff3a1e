// SPDX-License-Identifier: Apache-2.0
/* Runs a model: set inputs, forward, get outputs.
 *   anf_pnnx_set_input(p, 0, x, d); anf_pnnx_forward(p, d); anf_pnnx_output(p, 0)   ->   net(x)
 * A function is built and compiled for the types of the inputs when they are first met, so shapes that the file leaves
 * open are known when it runs; those used last are kept.
 * INVARIANT: a build in the list has all that it needs to run, and was made with the options that are set. */
#include "frontend/pnnx/pnnx.h"

enum { MAX_BUILDS = 16 };

typedef struct build {
  /* the program */
  struct build *next; // used before
  anfi_arena arena;
  anf_module *module;
  anf_graph *graph;
  anf_exec *exec; // NULL: the interpreter runs it
  /* its inputs and outputs */
  const anf_type **types; // of the inputs
  bool tuple;             // the graph gives its results in a tuple: the outputs, then `kept`
  size_t noutput, nkept;
  uint32_t *kept; // operands
} build;

typedef struct anfi_pnnx_run {
  anf_pnnx_opts o;
  build *builds; // used last first
  size_t nbuild;
  anf_value **input; // set by the host, or NULL
  anf_value *result; // of the last forward, or NULL
  size_t noutput;    // in it
  bool tuple;
} run;

/* ---- life ---- */

static void free_build(void *p) {
  build *b = (build *)p;
  anf_ctx *cx = b->arena.cx;
  anf_exec_free(b->exec);
  anf_module_free(b->module);
  anfi_arena_free(&b->arena);
  anfi_raw(cx, b, sizeof *b, 0);
}

static void forget_builds(run *r) {
  for (build *b = r->builds; b;) {
    build *next = b->next;
    free_build(b);
    b = next;
  }
  r->builds = NULL;
  r->nbuild = 0;
}

void anfi_pnnx_run_new(anf_pnnx *p) {
  run *r = ANFI_NEW(&p->arena, run);
  r->input = ANFI_NEW_N(&p->arena, anf_value *, p->input.n + 1);
  p->run = r;
}

void anfi_pnnx_run_free(anf_pnnx *p) {
  run *r = p->run;
  if (!r) return;
  forget_builds(r);
  anf_value_release(r->result);
  for (size_t i = 0; i < p->input.n; i++) anf_value_release(r->input[i]);
}

/* ---- inputs ---- */

static bool fits(const anf_type *declared, const anf_type *t) {
  if (!declared) return true;
  if (declared->n != t->n || declared->dtype != t->dtype) return false;
  for (uint32_t i = 0; i < t->n; i++)
    if (declared->dims[i] >= 0 && declared->dims[i] != t->dims[i]) return false;
  return true;
}

static bool wrong_type(anf_pnnx *p, size_t i, const anf_type *declared, const anf_type *t) {
  const anf_pnnx_op *op = anfi_pnnx_input_op(p, i);
  const char *want = declared ? anfi_type_text(p->cx, declared) : "a tensor";
  return anfi_fail(p->cx, anfi_pnnx_at(op, 1), ANF_E1059, op->name, anfi_type_text(p->cx, t), want);
}

static bool set_input(anf_pnnx *p, size_t i, anf_value *v) {
  if (i >= p->input.n) return anfi_fail(p->cx, anfi_nowhere(), ANF_E1057, i, p->input.n);
  const anf_type *declared = anf_pnnx_input_type(p, i), *t = anf_value_type(p->cx, v);
  if (!t) anfi_throw_nomem(p->cx);
  if (!anfi_is_tensor(t) || !fits(declared, t)) return wrong_type(p, i, declared, t);
  anf_value_retain(v);
  anf_value_release(p->run->input[i]);
  p->run->input[i] = v;
  return true;
}

anf_status anf_pnnx_set_input(anf_pnnx *p, size_t i, anf_value *v, anf_diag *d) {
  ANFI_NEED(d, p, v);
  ANFI_ENTRY(p->cx, d);
  set_input(p, i, v);
  return anfi_leave(p->cx);
}

/* ---- building ---- */

static build *find_build(run *r, size_t n, const anf_type *const *types) {
  for (build **at = &r->builds; *at; at = &(*at)->next) {
    build *b = *at;
    if (n && memcmp(b->types, types, n * sizeof *types) != 0) continue;
    *at = b->next;
    b->next = r->builds;
    return r->builds = b;
  }
  return NULL;
}

static void drop_oldest(run *r) {
  build **at = &r->builds;
  while ((*at)->next) at = &(*at)->next;
  free_build(*at);
  *at = NULL;
  r->nbuild--;
}

static build *new_build(anf_pnnx *p, const anf_type *const *types) {
  build *b = (build *)anfi_raw(p->cx, NULL, 0, sizeof *b);
  if (!b) anfi_throw_nomem(p->cx);
  memset(b, 0, sizeof *b);
  anfi_arena_init(&b->arena, p->cx);
  anfi_defer(p->cx, ANFI_ON_FAIL, free_build, b);
  b->types = ANFI_NEW_N(&b->arena, const anf_type *, p->input.n + 1);
  if (p->input.n) memcpy(b->types, types, p->input.n * sizeof *types);
  return b;
}

static bool compile(build *b, const anf_pnnx_opts *o) {
  if (o->interpret) return true;
  anf_status st = anf_compile(b->graph, o->exec, NULL, &b->exec);
  return st == ANF_OK || anfi_fail_as(b->arena.cx, st);
}

static build *make_build(anf_pnnx *p, const anf_type *const *types) {
  run *r = p->run;
  build *b = new_build(p, types);
  b->module = anfi_module_new(p->cx);
  anfi_undefer(p->cx, b->module); // from now on the build's
  if (r->o.debug) b->kept = ANFI_NEW_N(&b->arena, uint32_t, p->operands.n + 1);
  b->graph = anfi_pnnx_function(p, b->module, types, false, b->kept, &b->nkept);
  if (!b->graph) return NULL;
  b->tuple = anfi_is_op(b->graph->result, ANF_OP_MakeTuple);
  b->noutput = b->tuple ? anfi_arg_count(b->graph->result) - b->nkept : 1;
  if (!compile(b, &r->o)) return NULL;
  anfi_undefer(p->cx, b); // from now on the list's
  if (r->nbuild == MAX_BUILDS) drop_oldest(r);
  b->next = r->builds;
  r->nbuild++;
  return r->builds = b;
}

/* The build for the inputs that are set; where none is, for the type that the file tells. */
static build *build_now(anf_pnnx *p) {
  const anf_type **types = ANFI_NEW_N(anfi_scratch(p->cx), const anf_type *, p->input.n + 1);
  for (size_t i = 0; i < p->input.n; i++) {
    anf_value *v = p->run->input[i];
    types[i] = v ? anf_value_type(p->cx, v) : anf_pnnx_input_type(p, i);
    if (v && !types[i]) anfi_throw_nomem(p->cx);
  }
  build *b = find_build(p->run, p->input.n, types);
  return b ? b : make_build(p, types);
}

static void set_options(anf_ctx *cx, run *r, const anf_pnnx_opts *o) {
  forget_builds(r);
  if (!ANFI_OPTS_IN(cx, anf_pnnx_opts, user, o, &r->o)) anfi_throw(cx);
}

anf_status anf_pnnx_build(anf_pnnx *p, const anf_pnnx_opts *o, anf_diag *d) {
  ANFI_NEED(d, p);
  ANFI_ENTRY(p->cx, d);
  set_options(p->cx, p->run, o);
  build_now(p);
  return anfi_leave(p->cx);
}

/* ---- forward ---- */

static void tell(const anf_pnnx *p, const build *b) {
  const run *r = p->run;
  for (size_t i = 0; i < b->nkept; i++) {
    const anfi_pnnx_operand *x = &p->operands.at[b->kept[i]];
    r->o.debug(r->o.user, x->name->s, p->ops.at[x->producer],
               anf_value_at(r->result, b->noutput + i));
  }
}

static bool forward(anf_pnnx *p) {
  run *r = p->run;
  anf_value_release(r->result);
  r->result = NULL;
  for (size_t i = 0; i < p->input.n; i++) {
    const anf_pnnx_op *op = anfi_pnnx_input_op(p, i);
    if (!r->input[i]) return anfi_fail(p->cx, anfi_pnnx_at(op, 1), ANF_E1058, op->name);
  }
  const build *b = build_now(p);
  if (!b) return false;
  anf_status st = b->exec ? anf_exec_run(b->exec, p->input.n, r->input, NULL, NULL, &r->result)
                          : anf_run(b->graph, p->input.n, r->input, NULL, NULL, &r->result);
  if (st != ANF_OK) return anfi_fail_as(p->cx, st);
  r->noutput = b->noutput;
  r->tuple = b->tuple;
  tell(p, b);
  return true;
}

anf_status anf_pnnx_forward(anf_pnnx *p, anf_diag *d) {
  ANFI_NEED(d, p);
  ANFI_ENTRY(p->cx, d);
  forward(p);
  return anfi_leave(p->cx);
}

size_t anf_pnnx_output_count(const anf_pnnx *p) {
  if (!p) return 0;
  return p->run->result ? p->run->noutput : 0;
}

const anf_value *anf_pnnx_output(const anf_pnnx *p, size_t i) {
  if (!p) return NULL;
  const run *r = p->run;
  if (i >= anf_pnnx_output_count(p)) return NULL;
  return r->tuple ? anf_value_at(r->result, i) : r->result;
}
