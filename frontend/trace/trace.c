// SPDX-License-Identifier: Apache-2.0
/* The evaluator of templates (trace.h): one frame for each call, nodes in evaluation order.
 *   a call of def Twice(x) { y = x + x; y } with the node n   ->   the node Add(n, n) in the model's graph
 * A call in result position replaces its frame, so a loop of the templates costs no C stack; other calls recurse,
 * MAX_DEPTH deep at most. */
#include "frontend/trace/trace.h"
#include "anfora/text.h"

enum {
  MAX_DEPTH = 200,
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
  MAX_TURNS = 1 << 9, // fuzzers want many inputs, not long ones
#else
  MAX_TURNS = 1 << 16, // of all loops of one node
#endif
  MAX_NESTING = 64,
  MAX_LEAVES = 1 << 20,
  MOST_FOLDED = 1 << 14
};

struct anfi_trace_frame {
  anf_graph *graph;
  struct anfi_trace_frame *env; // of the enclosing graph
  anfi_map at;                  // node -> traced
};

/* ---- templates ---- */

/* Templates once parsed, which live as long as the context. */
typedef struct {
  anf_ctx *cx;
  anf_module *m;
  anf_analysis *an;
  anfi_map functions; // interned name -> graph
  bool named;         // functions has all of them
} parsed;

static void free_parsed(void *p) {
  parsed *t = (parsed *)p;
  anf_analysis_free(t->an);
  anf_module_free(t->m);
}

static void names_of(anf_ctx *cx, const anf_module *m, anfi_arena *a, anfi_map *names) {
  anfi_map_init(names, a);
  for (size_t i = 0; i < m->graphs.n; i++) {
    anf_graph *g = m->graphs.at[i];
    if (!g || g->flags & ANFI_GRAPH_PRIVATE) continue;
    *anfi_map_at(names, anfi_key(anfi_intern(&cx->strings, g->name->s, g->name->len))) =
        anfi_key(g);
  }
}

/* Again where memory ended the first time. */
static void name_functions(parsed *t) {
  if (t->named) return;
  names_of(t->cx, t->m, &t->cx->arena, &t->functions);
  t->named = true;
}

static const parsed *parsed_templates(anf_ctx *cx, const char *text, size_t len, const char *file) {
  parsed *t = (parsed *)anfi_ctx_kept(cx, text);
  if (t) return name_functions(t), t;
  t = ANFI_NEW(&cx->arena, parsed);
  *t = (parsed){.cx = cx};
  anf_status st = anf_parse_n(cx, text, len, file, NULL, &t->m);
  if (st == ANF_OK) st = anf_analyse(t->m, NULL, &t->an);
  if (st != ANF_OK) {
    anf_module_free(t->m);
    return (void)anfi_fail_as(cx, st), NULL;
  }
  anfi_ctx_keep(cx, text, t, free_parsed);
  name_functions(t);
  return t;
}

static void release_live(void *p) {
  anfi_trace *t = (anfi_trace *)p;
  for (size_t i = 0; i < t->live.n; i++) anf_value_release(t->live.at[i]);
}

anfi_trace *anfi_trace_new(anf_ctx *cx, const char *text, size_t len, const char *file) {
  const parsed *p = parsed_templates(cx, text, len, file);
  if (!p) return NULL;
  anfi_trace *t = ANFI_NEW(anfi_scratch(cx), anfi_trace);
  *t = (anfi_trace){.cx = cx,
                    .arena = anfi_scratch(cx),
                    .most_folded = MOST_FOLDED,
                    .templates = p->m,
                    .an = p->an,
                    .functions = p->functions};
  anfi_defer(cx, ANFI_ALWAYS, release_live, t);
  return t;
}

anf_module *anfi_trace_own(anfi_trace *t) {
  const anf_module *m = t->templates;
  anf_graph **all = ANFI_NEW_N(t->arena, anf_graph *, m->graphs.n + 1);
  anf_graph **copies = ANFI_NEW_N(t->arena, anf_graph *, m->graphs.n + 1);
  size_t n = 0;
  for (size_t i = 0; i < m->graphs.n; i++)
    if (m->graphs.at[i]) all[n++] = m->graphs.at[i];
  t->templates = anfi_module_copy(t->an, all, n, copies);
  t->an = anfi_analyse(t->templates);
  names_of(t->cx, t->templates, t->arena, &t->functions);
  return t->templates;
}

anf_graph *anfi_trace_find(const anfi_trace *t, const char *name) {
  const anfi_str *s = anfi_interned(&t->cx->strings, name, strlen(name));
  const uint64_t *g = s ? anfi_map_find(&t->functions, anfi_key(s)) : NULL;
  return g ? (anf_graph *)(uintptr_t)*g : NULL;
}

/* ---- traced values ---- */

static anfi_traced *new_traced(anfi_trace *t, anfi_traced_kind kind) {
  anfi_traced *x = ANFI_NEW(t->arena, anfi_traced);
  *x = (anfi_traced){.kind = kind, .op = ANF_OP_NONE};
  return x;
}

anf_value *anfi_trace_hold(anfi_trace *t, anf_value *v) {
  anfi_value_guard(v);
  anfi_push(t->arena, &t->live, v);
  anfi_value_unguard(v);
  return v;
}

const anfi_traced *anfi_traced_value(anfi_trace *t, anf_value *v) {
  anfi_trace_hold(t, v);
  if (v->kind == ANF_VALUE_TUPLE) {
    const anfi_traced **item = ANFI_NEW_N(t->arena, const anfi_traced *, v->n + 1);
    for (size_t i = 0; i < v->n; i++)
      item[i] = anfi_traced_value(t, anf_value_retain(v->u.item[i]));
    return anfi_traced_tuple(t, v->n, item);
  }
  anfi_traced *x = new_traced(t, ANFI_TRACED_DATA);
  x->value = v;
  x->type = anfi_value_type(t->cx, v);
  return x;
}

const anfi_traced *anfi_traced_node(anfi_trace *t, anf_node *n, const anf_type *type) {
  anfi_traced *x = new_traced(t, ANFI_TRACED_DATA);
  x->node = n;
  x->type = type && type->kind != ANF_TYPE_ANY ? type : NULL;
  return x;
}

const anfi_traced *anfi_traced_tuple(anfi_trace *t, size_t n, const anfi_traced *const *items) {
  anfi_traced *x = new_traced(t, ANFI_TRACED_TUPLE);
  const anfi_traced **own = ANFI_NEW_N(t->arena, const anfi_traced *, n + 1);
  for (size_t i = 0; i < n; i++) {
    own[i] = items[i];
    bool tuple = items[i]->kind == ANFI_TRACED_TUPLE;
    if (tuple && items[i]->depth + 1 > x->depth) x->depth = items[i]->depth + 1;
    x->leaves += tuple ? items[i]->leaves : 1;
  }
  if (x->depth > MAX_NESTING || x->leaves > MAX_LEAVES)
    return (void)anfi_fail(t->cx, t->loc, ANF_E1151, "tuples that nest so deeply, or are so large"),
           NULL;
  x->n = n;
  x->item = own;
  return x;
}

const anfi_traced *anfi_traced_host(anfi_trace *t, anfi_trace_host *f, void *user) {
  anfi_traced *x = new_traced(t, ANFI_TRACED_HOST);
  x->host = f;
  x->user = user;
  return x;
}

const anfi_traced *anfi_traced_int(anfi_trace *t, int64_t v) {
  return anfi_traced_value(t, anfi_value_new_i64(t->cx, ANF_INT, v));
}

const anfi_traced *anfi_traced_none(anfi_trace *t) {
  return anfi_traced_value(t, anfi_value_new_none(t->cx));
}

anf_value *anfi_traced_known(anfi_trace *t, const anfi_traced *x) {
  if (x->kind != ANFI_TRACED_TUPLE) return x->value;
  for (size_t i = 0; i < x->n; i++)
    if (!anfi_traced_known(t, x->item[i])) return NULL;
  anf_value *v = anfi_trace_hold(t, anfi_value_new_tuple(t->cx, x->n));
  for (size_t i = 0; i < x->n; i++)
    v->u.item[i] = anf_value_retain(anfi_traced_known(t, x->item[i]));
  return v;
}

const anf_type *anfi_traced_type(anfi_trace *t, const anfi_traced *x) {
  bool function = x->kind == ANFI_TRACED_FN || x->kind == ANFI_TRACED_HOST;
  if (function || (x->kind == ANFI_TRACED_DATA && !x->type))
    return anfi_type_simple(t->cx, ANF_TYPE_ANY);
  if (x->kind == ANFI_TRACED_DATA) return x->type;
  const anf_type **item = ANFI_NEW_N(t->arena, const anf_type *, x->n + 1);
  for (size_t i = 0; i < x->n; i++) item[i] = anfi_traced_type(t, x->item[i]);
  return anfi_type_tuple(t->cx, x->n, item);
}

static anf_node *function_node(anfi_trace *t, const anfi_traced *x) {
  if (x->graph || x->n || x->kind == ANFI_TRACED_HOST)
    return (void)anfi_fail(t->cx, t->loc, ANF_E0001,
                           "a function of a template becomes part of the model"),
           NULL;
  return anfi_op_value(t->to->module, (anfi_opcode)x->op);
}

anf_node *anfi_traced_to_node(anfi_trace *t, const anfi_traced *x) {
  if (x->node) return x->node;
  if (x->kind == ANFI_TRACED_FN || x->kind == ANFI_TRACED_HOST) return function_node(t, x);
  anf_value *v = anfi_traced_known(t, x);
  if (v) return anfi_value(t->to->module, anf_value_retain(v));
  anf_node **item = ANFI_NEW_N(t->arena, anf_node *, x->n + 1);
  for (size_t i = 0; i < x->n; i++)
    if (!(item[i] = anfi_traced_to_node(t, x->item[i]))) return NULL;
  anf_node *n = anfi_apply(t->to, ANF_OP_MakeTuple, NULL, x->n, item);
  n->debug = t->debug;
  if (t->typed) n->type = anfi_traced_type(t, x);
  return n;
}

/* ---- frames ---- */

static const anfi_traced *closure(anfi_trace *t, anfi_trace_frame *fr, anf_graph *g) {
  const anf_graph *parent = t->an->graphs[g->id].parent;
  anfi_traced *x = new_traced(t, ANFI_TRACED_FN);
  while (fr && fr->graph != parent) fr = fr->env;
  x->graph = g;
  x->env = fr;
  return x;
}

static const anfi_traced *of_constant(anfi_trace *t, anfi_trace_frame *fr, anf_value *v) {
  if (v->kind != ANF_VALUE_FN) return anfi_traced_value(t, anf_value_retain(v));
  const anfi_fn *f = anfi_value_fn(v);
  anfi_traced *x =
      (anfi_traced *)(uintptr_t)(const void *)(f->graph ? closure(t, fr, f->graph)
                                                        : new_traced(t, ANFI_TRACED_FN));
  if (!f->graph) x->op = f->op, x->attrs = f->attrs;
  const anfi_traced **bound = ANFI_NEW_N(t->arena, const anfi_traced *, f->nbound + 1);
  for (uint32_t i = 0; i < f->nbound; i++) bound[i] = of_constant(t, fr, f->at[f->ncapture + i]);
  x->n = f->nbound;
  x->item = bound;
  return x;
}

static const anfi_traced *lookup(anfi_trace *t, anfi_trace_frame *fr, const anf_node *n) {
  if (n->kind == ANFI_VALUE) return of_constant(t, fr, n->u.value);
  while (fr && fr->graph != n->graph) fr = fr->env;
  const uint64_t *at = fr ? anfi_map_find(&fr->at, n->id) : NULL;
  return at ? (const anfi_traced *)(uintptr_t)*at : NULL;
}

static anfi_trace_frame *enter(anfi_trace *t, anf_graph *g, anfi_trace_frame *env, size_t n,
                               const anfi_traced *const *args) {
  if (n != g->params.n) return (void)anfi_fail(t->cx, t->loc, ANF_E0001, g->name->s), NULL;
  anfi_trace_frame *fr = ANFI_NEW(t->arena, anfi_trace_frame);
  *fr = (anfi_trace_frame){.graph = g, .env = env};
  anfi_map_init(&fr->at, t->arena);
  for (size_t i = 0; i < n; i++) *anfi_map_at(&fr->at, g->params.at[i]->id) = anfi_key(args[i]);
  return fr;
}

/* The traced operands `from` to `to` of n. */
static const anfi_traced **operands(anfi_trace *t, anfi_trace_frame *fr, const anf_node *n,
                                    size_t from, size_t to) {
  const anfi_traced **in = ANFI_NEW_N(t->arena, const anfi_traced *, to - from + 1);
  for (size_t i = from; i < to; i++) in[i - from] = lookup(t, fr, n->in[i].def);
  return in;
}

static const anfi_traced *primitive(anfi_trace *t, anfi_trace_frame *fr, const anf_node *n) {
  anfi_opcode op = (anfi_opcode)n->op;
  const anfi_schema *s = anfi_op_schema(t->cx, op);
  anf_value **attr = ANFI_NEW_N(t->arena, anf_value *, s->nattr + 1);
  size_t narg = anfi_arg_count(n);
  for (uint32_t k = 0; k < s->nattr; k++) {
    anf_node *from = anfi_attr_node(n, k);
    if (!from) attr[k] = anfi_attr_value(t->cx, op, n->u.attrs, k);
    else if (!(attr[k] = anfi_traced_known(t, lookup(t, fr, from))))
      return t->unknown = true,
             (void)anfi_fail(t->cx, t->loc, ANF_E1150, s->attr[k].name->s, s->name->s), NULL;
  }
  return anfi_trace_op(t, op, narg, operands(t, fr, n, 0, narg), attr);
}

/* A function with its bound arguments in front. */
static const anfi_traced *const *with_bound(anfi_trace *t, const anfi_traced *f, size_t *n,
                                            const anfi_traced *const *args) {
  if (!f->n) return args;
  const anfi_traced **all = ANFI_NEW_N(t->arena, const anfi_traced *, f->n + *n + 1);
  for (size_t i = 0; i < f->n; i++) all[i] = f->item[i];
  for (size_t i = 0; i < *n; i++) all[f->n + i] = args[i];
  *n += f->n;
  return all;
}

static const anfi_traced *primitive_call(anfi_trace *t, const anfi_traced *f, size_t n,
                                         const anfi_traced *const *args) {
  const anfi_schema *s = anfi_op_schema(t->cx, (anfi_opcode)f->op);
  anf_value **attr = ANFI_NEW_N(t->arena, anf_value *, s->nattr + 1);
  size_t nin = s->variadic || n < s->nin ? n : s->nin;
  for (uint32_t k = 0; k < s->nattr; k++) {
    attr[k] = anfi_attr_value(t->cx, (anfi_opcode)f->op, f->attrs, k);
    if (nin + k < n && !(attr[k] = anfi_traced_known(t, args[nin + k])))
      return t->unknown = true,
             (void)anfi_fail(t->cx, t->loc, ANF_E1150, s->attr[k].name->s, s->name->s), NULL;
  }
  return anfi_trace_op(t, (anfi_opcode)f->op, nin, args, attr);
}

static const anfi_traced *run(anfi_trace *t, anfi_trace_frame *fr);

/* A call of a function of the model. */
static const anfi_traced *model_call(anfi_trace *t, anf_node *f, size_t n,
                                     const anfi_traced *const *args) {
  anf_node **in = ANFI_NEW_N(t->arena, anf_node *, n + 2);
  in[0] = f;
  for (size_t i = 0; i < n; i++)
    if (!(in[i + 1] = anfi_traced_to_node(t, args[i]))) return NULL;
  anf_node *c = anfi_call(t->to, n + 1, in);
  c->debug = t->debug;
  return anfi_traced_node(t, c, NULL);
}

const anfi_traced *anfi_trace_apply(anfi_trace *t, const anfi_traced *f, size_t n,
                                    const anfi_traced *const *args) {
  if (f->kind == ANFI_TRACED_DATA && f->node && !f->type) return model_call(t, f->node, n, args);
  if (f->kind == ANFI_TRACED_HOST) return f->host(f->user, n, args);
  if (f->kind != ANFI_TRACED_FN)
    return (void)anfi_fail(t->cx, t->loc, ANF_E1151, "a call of a value that is no function"), NULL;
  args = with_bound(t, f, &n, args);
  if (!f->graph) return primitive_call(t, f, n, args);
  anfi_trace_frame *fr = enter(t, f->graph, f->env, n, args);
  return fr ? run(t, fr) : NULL;
}

static bool is_tail(const anfi_trace_frame *fr, const anf_node *n) {
  return n->kind == ANFI_CALL && n == fr->graph->result;
}

/* The frame of a call in result position, or NULL: an error, or a primitive, whose result goes to *out. */
static anfi_trace_frame *tail(anfi_trace *t, anfi_trace_frame *fr, const anf_node *n,
                              const anfi_traced **out) {
  const anfi_traced *f = lookup(t, fr, n->in[0].def), *const *args = operands(t, fr, n, 1, n->nin);
  size_t count = n->nin - 1;
  if (f->kind == ANFI_TRACED_FN && f->graph) {
    args = with_bound(t, f, &count, args);
    return enter(t, f->graph, f->env, count, args);
  }
  *out = anfi_trace_apply(t, f, count, args);
  return NULL;
}

/* Builds all nodes of a frame's graph. The frame of its last call, if it ends with one. */
static anfi_trace_frame *turn(anfi_trace *t, anfi_trace_frame *fr, const anfi_traced **out) {
  const anfi_graph_info *gi = &t->an->graphs[fr->graph->id];
  for (size_t i = 0; i < gi->order.n; i++) {
    const anf_node *n = gi->order.at[i];
    if (is_tail(fr, n)) return tail(t, fr, n, out);
    const anfi_traced *x = n->kind == ANFI_APPLY
                               ? primitive(t, fr, n)
                               : anfi_trace_apply(t, lookup(t, fr, n->in[0].def), n->nin - 1,
                                                  operands(t, fr, n, 1, n->nin));
    if (!x) return NULL;
    *anfi_map_at(&fr->at, n->id) = anfi_key(x);
  }
  *out = lookup(t, fr, fr->graph->result);
  return NULL;
}

static const anfi_traced *run(anfi_trace *t, anfi_trace_frame *fr) {
  const anfi_traced *out = NULL;
  if (!t->depth) t->turns = 0;
  if (++t->depth > MAX_DEPTH) anfi_fail(t->cx, t->loc, ANF_E1151, "calls that nest too deeply");
  while (fr && !anfi_failed(t->cx)) {
    if (++t->turns > MAX_TURNS)
      anfi_fail(t->cx, t->loc, ANF_E1151, "more turns of loops than a node may take");
    fr = turn(t, fr, &out);
  }
  t->depth--;
  return anfi_failed(t->cx) ? NULL : out;
}

const anfi_traced *anfi_trace_call(anfi_trace *t, anf_graph *f, size_t n,
                                   const anfi_traced *const *args) {
  anfi_trace_frame *fr = enter(t, f, NULL, n, args);
  return fr ? run(t, fr) : NULL;
}

/* ---- templates ---- */

const char *anfi_template_param(const anf_graph *f, size_t i) {
  const anfi_str *s = f->module->debugs.at[f->params.at[i]->debug].name;
  return s ? s->s : "";
}
