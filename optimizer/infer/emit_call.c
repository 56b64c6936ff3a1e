// SPDX-License-Identifier: Apache-2.0
/* Calls in first-order form (defunctionalisation, Reynolds 1972; Cejtin, Jagannathan, Weeks 2000):
 *   k(x), k is f with environment e        ->  f(e, x)
 *   k(x), k is one of f, g                 ->  Switch(tag, ✓f, ✗g)(environments.., x)
 * The adapters ✓f and ✗g are closed graphs of one signature: they unpack the environment of their function,
 * call it and widen its result. */
#include "optimizer/infer/emit.h"
#include "base/mark.h"

/* One code with its bound data spread out, applied. The result is data of `result`. */
static anf_node *call_code(anfi_emit *e, const anfi_abs *code, anf_node *const *bound, size_t n,
                           const anfi_abs *const *aabs, anf_node *const *args,
                           const anfi_abs *result, anf_node *at) {
  size_t all = code->n + n;
  anf_node **in = ANFI_NEW_N(e->arena, anf_node *, all + 1);
  const anfi_abs **iabs = ANFI_NEW_N(e->arena, const anfi_abs *, all + 1);
  for (size_t i = 0; i < all; i++) {
    in[i + 1] = i < code->n ? bound[i] : args[i - code->n];
    iabs[i] = i < code->n ? code->item[i] : aabs[i - code->n];
  }
  if (anfi_is_transformed(e->q->cx, code)) {
    const anfi_abs *r = anfi_infer_transformed(e->q, code, n, aabs, at);
    anf_node *t = r ? anfi_emit_transformed(e, code, bound, n, aabs, args, at) : NULL;
    return t ? anfi_emit_coerce(e, t, r, result) : NULL;
  }
  if (!code->graph) {
    const anfi_abs *r = anfi_infer_code(e->q, code, n, aabs, at);
    return r ? anfi_emit_coerce(
                   e, anfi_emit_op(e, (anfi_opcode)code->op, code->attrs, all, iabs, in + 1, r, at),
                   r, result)
             : NULL;
  }
  anfi_spec *s = anfi_infer_callee(e->q, e->spec, code, n, aabs, at);
  if (!s) return NULL;
  in[0] = anfi_graph_value(anfi_emit_graph(e, s));
  for (size_t i = 0; i < all; i++) {
    in[i + 1] = anfi_emit_open(e, in[i + 1], iabs[i]);
    in[i + 1] = anfi_emit_coerce(e, in[i + 1], anfi_abs_open(e->abs, iabs[i]), s->arg[i]);
  }
  anf_node *call = anfi_call(e->g, all + 1, in);
  call->type = anfi_abs_type(e->abs, s->result);
  call->debug = e->debug;
  return anfi_emit_coerce(e, anfi_emit_effect(e, call), s->result, result);
}

static anf_node **spread(anfi_emit *e, anf_node *bound, size_t n) {
  anf_node **items = ANFI_NEW_N(e->arena, anf_node *, n);
  for (size_t i = 0; i < n; i++) items[i] = anfi_emit_get(e, bound, i);
  return items;
}

/* ---- adapters ---- */

typedef struct {
  size_t nshared;          // leading parameters: the data of function values
  anf_node *const *shared; // at the call; their types make the parameters
  size_t n;                // then the arguments
  const anfi_abs *const *aabs;
  anf_node *const *args;
  const anfi_abs *result;
  anf_node *at;
  const anfi_abs *set; // by tag: of the shared parameter
} site;

static const char *mark_of(size_t branch) { return branch == 0 ? ANFI_THEN : ANFI_ELSE; }

/* ✓outer; a branch that was named so before, as in a module that was written and read, keeps its name. */
static const char *name_of(const anfi_emit *e, const anfi_abs *code, size_t branch) {
  const char *mark = mark_of(branch);
  const anfi_str *had = code->graph ? code->graph->name : NULL;
  return had && strncmp(had->s, mark, strlen(mark)) == 0
             ? had->s
             : anfi_sprintf(e->arena, "%s%s", mark, e->g->name->s);
}

/* The graph of one branch: `pick` finds the code's environment among the shared parameters. */
static anf_node *adapter(anfi_emit *e, const site *s, const anfi_abs *code, size_t branch,
                         anf_node **(*pick)(anfi_emit *, const site *, const anfi_abs *, size_t,
                                            anf_node **)) {
  anf_graph *outer = e->g;
  const char *name = name_of(e, code, branch);
  anf_graph *g = anfi_graph_new(e->q->m, anfi_intern_z(&e->q->m->strings, name));
  g->flags = ANFI_GRAPH_PRIVATE;
  anf_node **params = ANFI_NEW_N(e->arena, anf_node *, s->nshared + s->n + 1);
  for (size_t i = 0; i < s->nshared; i++) {
    params[i] = anfi_param(g, NULL, s->shared[i]->type);
    params[i]->debug = s->shared[i]->debug;
  }
  for (size_t i = 0; i < s->n; i++) {
    bool stack = s->args[i]->type->kind == ANF_TYPE_STACK; // of which a loop's step has an element
    params[s->nshared + i] =
        anfi_param(g, NULL, stack ? anfi_abs_type(e->abs, s->aabs[i]) : s->args[i]->type);
    params[s->nshared + i]->debug = s->args[i]->debug;
  }
  e->g = g;
  anf_node **bound = pick(e, s, code, branch, params);
  anf_node *r = call_code(e, code, bound, s->n, s->aabs, params + s->nshared, s->result, s->at);
  if (r) anfi_set_result(g, r);
  e->g = outer;
  return r ? anfi_graph_value(g) : NULL;
}

anf_graph *anfi_emit_target(anfi_emit *e, anfi_arg f, size_t n, const anfi_arg *args,
                            const anfi_abs *result, anf_node *at) {
  anf_graph *outer = e->g, *g;
  anf_node **p = ANFI_NEW_N(e->arena, anf_node *, n + 1);
  const anfi_abs **aabs = ANFI_NEW_N(e->arena, const anfi_abs *, n + 1);
  const anf_graph *named = f.abs->n == 1 ? f.abs->item[0]->graph : NULL;
  g = anfi_graph_new(e->q->m, named ? named->name : outer->name);
  g->flags = ANFI_GRAPH_PRIVATE;
  g->debug = named ? named->debug : outer->debug;
  p[0] = anfi_param(g, NULL, f.node->type);
  for (size_t i = 0; i < n; i++) {
    aabs[i] = args[i].abs;
    p[i + 1] = anfi_param(g, NULL, args[i].node->type);
    p[i + 1]->debug = args[i].node->debug;
  }
  e->g = g;
  anf_node *r = anfi_emit_call(e, f.abs, p[0], n, aabs, p + 1, result, at);
  if (r) anfi_set_result(g, r);
  e->g = outer;
  return r ? g : NULL;
}

static anf_node *call_chosen(anfi_emit *e, const site *s, anf_node *chosen) {
  anf_node **in = ANFI_NEW_N(e->arena, anf_node *, s->nshared + s->n + 1);
  in[0] = chosen;
  if (s->nshared) memcpy(in + 1, s->shared, s->nshared * sizeof *in);
  if (s->n) memcpy(in + 1 + s->nshared, s->args, s->n * sizeof *in);
  anf_node *call = anfi_call(e->g, s->nshared + s->n + 1, in);
  call->type = anfi_abs_type(e->abs, s->result);
  call->debug = e->debug;
  return anfi_emit_effect(e, call);
}

/* ---- one of a flow set, by tag ---- */

static anf_node **pick_by_tag(anfi_emit *e, const site *s, const anfi_abs *code, size_t branch,
                              anf_node **params) {
  if (!code->n) return NULL;
  return spread(e, anfi_emit_get(e, params[0], anfi_abs_slot(e->abs, s->set, (uint32_t)branch)),
                code->n);
}

static anf_node *choose(anfi_emit *e, anf_node *tag, uint32_t n, anf_node *const *branch) {
  if (n == 2) {
    anf_node *eq[2] = {tag, anfi_emit_i32(e, 0)};
    anf_node *is =
        anfi_emit_apply(e, ANF_OP_Equal, NULL, anfi_type_scalar(e->q->cx, ANF_BOOL), 2, eq);
    return anfi_emit_apply(e, ANF_OP_Switch, NULL, NULL, 3,
                           (anf_node *const[]){is, branch[0], branch[1]});
  }
  anf_node **in = ANFI_NEW_N(e->arena, anf_node *, n + 1);
  in[0] = tag;
  memcpy(in + 1, branch, n * sizeof *in);
  return anfi_emit_apply(e, ANF_OP_SwitchLayer, NULL, NULL, n + 1, in);
}

anf_node *anfi_emit_call(anfi_emit *e, const anfi_abs *fabs, anf_node *f, size_t n,
                         const anfi_abs *const *aabs, anf_node *const *args, const anfi_abs *result,
                         anf_node *at) {
  if (fabs->n == 1)
    return call_code(e, fabs->item[0], spread(e, f, fabs->item[0]->n), n, aabs, args, result, at);
  site s = {1, &f, n, aabs, args, result, at, fabs};
  anf_node **branch = ANFI_NEW_N(e->arena, anf_node *, fabs->n);
  for (uint32_t i = 0; i < fabs->n; i++)
    if (!(branch[i] = adapter(e, &s, fabs->item[i], i, pick_by_tag))) return NULL;
  return call_chosen(e, &s, choose(e, anfi_emit_get(e, f, 0), fabs->n, branch));
}

/* ---- a branch: Switch(cond, f, h)(args) ---- */

/* Both environments are passed, equal values once; e->where has the positions for each branch. */
static anf_node **pick_by_branch(anfi_emit *e, const site *s, const anfi_abs *code, size_t branch,
                                 anf_node **params) {
  (void)s;
  anf_node **items = ANFI_NEW_N(e->arena, anf_node *, code->n);
  for (uint32_t i = 0; i < code->n; i++) items[i] = params[e->where[branch][i]];
  return items;
}

/* Both branches' bound data, equal nodes once. */
static size_t share(anfi_emit *e, const anfi_abs *const code[2], anf_node *const f[2],
                    anf_node **shared) {
  size_t n = 0;
  for (int branch = 0; branch < 2; branch++) {
    anf_node **items = spread(e, f[branch], code[branch]->n);
    e->where[branch] = ANFI_NEW_N(e->arena, size_t, code[branch]->n);
    for (uint32_t i = 0; i < code[branch]->n; i++) {
      size_t k = 0;
      while (k < n && shared[k] != items[i]) k++;
      if (k == n) shared[n++] = items[i];
      e->where[branch][i] = k;
    }
  }
  return n;
}

anf_node *anfi_emit_branch(anfi_emit *e, anf_node *cond, const anfi_abs *const fabs[2],
                           anf_node *const f[2], size_t n, const anfi_abs *const *aabs,
                           anf_node *const *args, const anfi_abs *result, anf_node *at) {
  const anfi_abs *code[2] = {fabs[0]->item[0], fabs[1]->item[0]};
  anf_node **shared = ANFI_NEW_N(e->arena, anf_node *, code[0]->n + code[1]->n);
  size_t nshared = share(e, code, f, shared);
  size_t *where[2] = {e->where[0], e->where[1]};
  site s = {nshared, shared, n, aabs, args, result, at, NULL};
  anf_node *branch[3] = {cond};
  for (size_t i = 0; i < 2; i++) {
    e->where[i] = where[i];
    if (!(branch[i + 1] = adapter(e, &s, code[i], i, pick_by_branch))) return NULL;
    e->where[0] = where[0], e->where[1] = where[1];
  }
  return call_chosen(e, &s, anfi_emit_apply(e, ANF_OP_Switch, NULL, NULL, 3, branch));
}

/* ---- Loop: the step is an adapter too, and what it binds joins the arguments that do not change
 * ---- */

anf_node *anfi_emit_loop(anfi_emit *e, const anfi_emit_head *head, const anfi_abs *fabs,
                         anf_node *f, size_t n, const anfi_abs *const *aabs, anf_node *const *args,
                         anf_node *at) {
  if (fabs->n != 1)
    return (void)anfi_fail(e->q->cx, anfi_node_loc(at), ANF_E0450, "the step must be one function"),
           NULL;
  size_t ns = n - (size_t)head->invariant - head->nx, again = !head->counted;
  const anfi_abs *code = fabs->item[0],
                 **state = ANFI_NEW_N(e->arena, const anfi_abs *, ns + head->nout + 1);
  size_t nb = code->n, nr = ns + head->nout + again;
  state[0] = anfi_abs_data(e->abs, anfi_type_scalar(e->q->cx, ANF_BOOL));
  for (size_t i = 0; i < ns; i++) state[i + 1] = aabs[(size_t)head->invariant + i];
  for (size_t i = 0; i < head->nout; i++) state[ns + i + 1] = head->outs[i];
  e->where[0] = ANFI_NEW_N(e->arena, size_t, nb);
  for (size_t i = 0; i < nb; i++) e->where[0][i] = i;
  site s = {nb,   spread(e, f, nb),
            n,    aabs,
            args, anfi_abs_items(e->abs, ANFI_ABS_TUPLE, NULL, nr, state + !again),
            at,   NULL};
  anf_node **in = ANFI_NEW_N(e->arena, anf_node *, nb + n + 2);
  size_t first = head->lead ? 2 : 1;
  if (!(in[0] = adapter(e, &s, code, 0, pick_by_branch))) return NULL;
  if (head->lead) in[1] = head->lead;
  memcpy(in + first, s.shared, nb * sizeof *in);
  memcpy(in + first + nb, args, n * sizeof *in);
  anf_node *loop = anfi_emit_apply(e, ANF_OP_Loop, head->attrs, anfi_abs_type(e->abs, head->result),
                                   first + nb + n, in);
  anfi_set_attrs(
      loop, anfi_attrs_set(e->q->m, loop, ANFI_LOOP_INVARIANT,
                           anfi_value_new_i64(e->q->cx, ANF_INT, head->invariant + (int64_t)nb)));
  return anfi_emit_effect(e, loop);
}
