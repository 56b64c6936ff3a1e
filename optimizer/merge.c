// SPDX-License-Identifier: Apache-2.0
/* Equal arguments, in functions that are derived: a call that gives an array twice calls a copy that takes it once.
 *   def f(x, y) { .. x[i] * y[i-1] .. }   f(z, z)     ->  f2(z), where f2(x) { .. x[i] * x[i-1] .. }
 * An array has then one adjoint, which the copy adds to in place; two would be summed at each call, and a loop that calls f
 * would take a time quadratic in the array.
 * The branches of a choice take it once, all of them.
 *
 * Hard case: f calls g(x, y). In the copy that is g(x, x), so copies are searched, too. A function that calls itself stays:
 * what its first call gives twice, the next ones may not, and a copy would be its first round. */
#include "optimizer/group.h"

/* A copy of a function; calls of it give parameter i only where same[i] == i. */
typedef struct merged {
  anf_graph *copy;
  const uint32_t *same; // by parameter of the function: the first that has its argument
  uint64_t before;      // another copy of it, as in merging.last
} merged;

typedef struct merging {
  anfi_pass *pass;
  anfi_arena *a;
  const anf_analysis *an; // of the module as it was
  ANFI_VEC(merged) made;
  anfi_map last;              // graph id -> 1 + the last of its copies in `made`
  anfi_map seen;              // graph ids
  ANFI_VEC(anf_graph *) todo; // graphs that are derived
} merging;

static void visit(merging *w, anf_graph *g) {
  uint64_t *at = g ? anfi_map_at(&w->seen, g->id) : NULL;
  if (!at || *at) return;
  *at = 1;
  anfi_push(w->a, &w->todo, g);
}

/* ---- which arguments are equal ---- */

static bool is_array(const anf_type *t) { return t && (t->kind != ANF_TYPE_TENSOR || t->n); }

/* NULL: all arrays differ. */
static uint32_t *find_same(merging *w, const anf_node *call, const anf_graph *f) {
  size_t n = f->params.n;
  uint32_t *same = ANFI_NEW_N(w->a, uint32_t, n);
  bool some = false;
  anfi_map first; // node id -> 1 + the parameter that gets it first
  anfi_map_init(&first, w->a);
  for (uint32_t i = 0; i < n; i++) {
    const anf_node *x = call->in[i + 1].def;
    same[i] = i;
    if (x->kind == ANFI_VALUE || !is_array(x->type)) continue;
    uint64_t *at = anfi_map_at(&first, x->id);
    if (!*at) *at = i + 1u;
    else if (f->params.at[*at - 1]->type == f->params.at[i]->type) same[i] = (uint32_t)*at - 1;
    some |= same[i] != i;
  }
  return some ? same : NULL;
}

/* ---- copies ---- */

static anf_graph *copy_merged(merging *w, anf_graph *f, const uint32_t *same) {
  anf_graph *g = anfi_graph_new(f->module, f->name);
  anfi_node_vec order = {0};
  anfi_map copies;
  anfi_map_init(&copies, w->a);
  g->flags = f->flags | ANFI_GRAPH_PRIVATE;
  g->result_type = f->result_type;
  g->debug = f->debug;
  for (uint32_t i = 0; i < f->params.n; i++) {
    const anf_node *was = f->params.at[i];
    uint64_t by = 0;
    if (same[i] != i) by = *anfi_map_find(&copies, f->params.at[same[i]]->id);
    else {
      anf_node *p = anfi_param(g, NULL, was->type);
      p->debug = was->debug;
      by = anfi_key(p);
    }
    *anfi_map_at(&copies, was->id) = by;
  }
  anfi_graph_order(f, w->a, &order);
  for (size_t i = 0; i < order.n; i++) anfi_copy_node(w->a, g, order.at[i], &copies);
  for (size_t i = 0; i < f->effects.n; i++)
    anfi_add_effect(g, anfi_copy_of(&copies, f->effects.at[i]));
  anfi_set_result(g, anfi_copy_of(&copies, f->result));
  return g;
}

static anf_graph *merged_of(merging *w, anf_graph *f, const uint32_t *same) {
  uint64_t *last = anfi_map_at(&w->last, f->id);
  for (uint64_t k = *last; k; k = w->made.at[k - 1].before)
    if (memcmp(w->made.at[k - 1].same, same, f->params.n * sizeof *same) == 0)
      return w->made.at[k - 1].copy;
  merged m = {.copy = copy_merged(w, f, same), .same = same, .before = *last};
  anfi_push(w->a, &w->made, m);
  *last = w->made.n;
  return m.copy;
}

/* What the call calls in place of its callee: a function, or a choice of functions. */
static anf_node *merged_callee(merging *w, const anf_node *call, const uint32_t *same) {
  anf_node *f = call->in[0].def, **in = ANFI_NEW_N(w->a, anf_node *, f->nin);
  anf_graph *g = anfi_value_graph(f);
  if (g) return visit(w, g = merged_of(w, g, same)), anfi_graph_value(g);
  in[0] = f->in[0].def;
  for (uint32_t i = 1; i < f->nin; i++) {
    visit(w, g = merged_of(w, anfi_value_graph(f->in[i].def), same));
    in[i] = anfi_graph_value(g);
  }
  anf_node *by = anfi_apply(f->graph, (anfi_opcode)f->op, f->u.attrs, f->nin, in);
  by->type = f->type;
  by->debug = f->debug;
  return by;
}

static void call_merged(merging *w, anf_node *call, const uint32_t *same) {
  anf_node **in = ANFI_NEW_N(w->a, anf_node *, call->nin);
  size_t n = 0;
  in[n++] = merged_callee(w, call, same);
  for (uint32_t i = 1; i < call->nin; i++)
    if (same[i - 1] == i - 1) in[n++] = call->in[i].def;
  anf_node *by = anfi_call(call->graph, n, in);
  by->type = call->type;
  by->debug = call->debug;
  anfi_substitute(call, by);
}

/* ---- the functions that are derived ---- */

static bool may_copy(const merging *w, const anf_graph *f, const anf_node *call) {
  bool was = f->id < w->an->ngraph && !w->an->graphs[f->id].recursive;
  return was && f->result && f->params.n == call->nin - 1u;
}

/* A function that n calls, if copies of all that it may call can stand in their place. */
static const anf_graph *callee_of(const merging *w, const anf_node *n) {
  if (n->kind != ANFI_CALL) return NULL;
  anf_graph **f = ANFI_NEW_N(w->a, anf_graph *, n->in[0].def->nin + 1u);
  size_t k = anfi_call_targets(n, f);
  for (size_t i = 0; i < k; i++)
    if (!may_copy(w, f[i], n)) return NULL;
  return k ? f[0] : NULL;
}

static void search(merging *w, anf_graph *g) {
  anfi_node_vec order = {0};
  anfi_graph_order(g, w->a, &order);
  for (size_t i = 0; i < order.n; i++) {
    anf_node *n = order.at[i];
    const anf_graph *f = callee_of(w, n);
    const uint32_t *same = f ? find_same(w, n, f) : NULL;
    for (uint32_t k = 0; k < n->nin; k++) visit(w, anfi_value_graph(n->in[k].def));
    if (same && anfi_rewrite(w->pass)) call_merged(w, n, same);
  }
}

bool anfi_opt_merge(anfi_pass *p) {
  anf_module *m = p->m;
  if (!anfi_has_calls(m)) return true;
  merging w = {.pass = p, .a = anfi_scratch(m->cx)};
  anfi_map_init(&w.seen, w.a);
  anfi_map_init(&w.last, w.a);
  for (size_t i = 0; i < m->nodes.n; i++) {
    const anf_node *n = m->nodes.at[i];
    if (n && anfi_is_op(n, ANF_OP_Derive)) visit(&w, anfi_value_graph(n->in[0].def));
  }
  if (w.todo.n) w.an = anfi_analyse(m);
  for (size_t i = 0; i < w.todo.n; i++) search(&w, w.todo.at[i]);
  return true;
}
