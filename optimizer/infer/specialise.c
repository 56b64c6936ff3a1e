// SPDX-License-Identifier: Apache-2.0
/* Monomorphisation: a typed copy of a graph for each signature, in first-order form (emit*.c).
 *   id(x) = x; (id(1), id((2.0,)))       ->  one id: i64 -> i64, one id: (f64,) -> (f64,)
 * Function values become data, calls are direct or a Switch among closed graphs, and the originals are removed.
 * A worklist of specialisations; no recursion. */
#include "optimizer/infer/emit.h"

#include <stdlib.h>

enum { FEW = 8 };

anf_graph *anfi_emit_graph(anfi_emit *e, anfi_spec *s) {
  s = anfi_spec_final(s);
  if (s->made) return s->made;
  anf_graph *old = s->graph, *g = anfi_graph_new(e->q->m, old->name);
  g->debug = old->debug;
  g->flags = s->entry ? old->flags : ANFI_GRAPH_PRIVATE;
  for (size_t i = 0; i < old->params.n; i++) {
    anf_node *p = anfi_param(g, NULL, anfi_abs_type(e->abs, s->arg[i]));
    p->debug = old->params.at[i]->debug;
  }
  s->made = g;
  anfi_push(e->arena, &e->todo, s);
  return g;
}

/* A constant as data: a function is its environment. Constants nest as deep as the program's text. */
static anf_node *constant(anfi_emit *e, anf_value *v) {
  if (v->kind != ANF_VALUE_FN) return anfi_emit_const(e, anf_value_retain(v));
  const anfi_fn *f = anfi_value_fn(v);
  uint32_t n = f->ncapture + f->nbound;
  anf_node **items = ANFI_NEW_N(e->arena, anf_node *, n + 1);
  for (uint32_t i = 0; i < n; i++) items[i] = constant(e, f->at[i]);
  return anfi_emit_tuple(e, n, items);
}

/* An original operand as data. */
static anf_node *operand(anfi_emit *e, anf_node *n) {
  if (n->kind == ANFI_PARAM) return e->g->params.at[n->u.index];
  if (n->kind != ANFI_VALUE) return e->node[e->q->local[n->id]];
  if (n->u.value->kind == ANF_VALUE_FN) return constant(e, n->u.value);
  if (!n->type) n->type = anfi_value_type(e->q->cx, n->u.value);
  return n;
}

/* The callee of a call is a Switch of two single functions: a branch, with nothing stored. */
static bool is_branch(anfi_emit *e, const anf_node *call, const anfi_abs *fabs[2]) {
  const anf_node *sw = call->in[0].def;
  if (!anfi_is_op(sw, ANF_OP_Switch) || sw->graph != call->graph) return false;
  if (anfi_spec_abs(e->q, e->spec, sw->in[0].def)->value) return false;
  for (int i = 0; i < 2; i++) {
    fabs[i] = anfi_spec_abs(e->q, e->spec, sw->in[i + 1].def);
    if (fabs[i]->kind != ANFI_ABS_FN || fabs[i]->n != 1) return false;
  }
  return true;
}

static anf_node *emit_call(anfi_emit *e, anf_node *n, const anfi_abs *const *iabs,
                           anf_node *const *in, const anfi_abs *result) {
  const anfi_abs *fabs[2];
  if (iabs[0]->kind == ANFI_ABS_BOTTOM) return anfi_emit_coerce(e, in[0], iabs[0], result);
  if (!is_branch(e, n, fabs))
    return anfi_emit_call(e, iabs[0], in[0], n->nin - 1u, iabs + 1, in + 1, result, n);
  anf_node *sw = n->in[0].def, *f[2] = {operand(e, sw->in[1].def), operand(e, sw->in[2].def)};
  return anfi_emit_branch(e, operand(e, sw->in[0].def), fabs, f, n->nin - 1u, iabs + 1, in + 1,
                          result, n);
}

static anf_node *emit_node(anfi_emit *e, anf_node *n) {
  anfi_inference *q = e->q;
  const anfi_abs *few_abs[FEW], **iabs = few_abs, *result = anfi_spec_abs(q, e->spec, n);
  anf_node *few[FEW], **in = few;
  if (result->kind == ANFI_ABS_DATA && result->value && !(n->flags & ANFI_NODE_EFFECT))
    return anfi_emit_const(e, anf_value_retain(result->value));
  if (n->nin > FEW) {
    iabs = ANFI_NEW_N(e->arena, const anfi_abs *, n->nin);
    in = ANFI_NEW_N(e->arena, anf_node *, n->nin);
  }
  for (uint32_t i = 0; i < n->nin; i++) {
    in[i] = operand(e, n->in[i].def);
    iabs[i] = anfi_spec_abs(q, e->spec, n->in[i].def);
  }
  if (n->kind == ANFI_CALL) return emit_call(e, n, iabs, in, result);
  return anfi_emit_op(e, (anfi_opcode)n->op, n->u.attrs, n->nin, iabs, in, result, n);
}

/* Functions in boxes are not in the form: the host could not call them. */
static bool check_form(anfi_emit *e, const anfi_spec *s) {
  const anfi_abs *in_box = s->entry ? anfi_abs_find_boxed(s->result) : NULL;
  anfi_demanded d = {s->graph->result, NULL, in_box ? in_box->param->graph->name->s : "", NULL};
  return !in_box || anfi_endless_closures(e->q, d);
}

static bool write_body(anfi_emit *e, anfi_spec *s) {
  const anfi_graph_info *gi = &e->q->an->graphs[s->graph->id];
  e->spec = s;
  e->q->now = s;
  e->g = s->made;
  e->node = ANFI_NEW_N(e->arena, anf_node *, gi->order.n);
  for (size_t i = 0; i < gi->order.n; i++) {
    anf_node *n = gi->order.at[i];
    e->debug = n->debug;
    e->effect = n->flags & ANFI_NODE_EFFECT;
    if (!(e->node[i] = emit_node(e, n))) return false;
  }
  anf_node *r = s->graph->result;
  if (!anfi_fit_result(e->q, s, anfi_spec_abs(e->q, s, r))) return false;
  bool own = anfi_is_cnode(r) && r->graph == s->graph;
  e->debug = own ? r->debug : s->graph->debug; // of an error about the result
  anf_node *out = anfi_emit_coerce(e, operand(e, r), anfi_spec_abs(e->q, s, r), s->result);
  anfi_set_result(s->made, out);
  s->made->form = anfi_abs_form(e->abs, e->q->m, s->result);
  return check_form(e, s);
}

/* ---- effects that emission added: numbers and indices that are checked when the program runs ---- */

typedef ANFI_VEC(anf_graph *) graphs;

/* By id: may the graph do more than check? Derivatives and batches of such a one have its effects where they should be,
 * once; checks may be made again. */
static bool *find_printing(anfi_arena *a, anf_module *m, size_t first) {
  bool *prints = ANFI_NEW_N(a, bool, m->graphs.n + 1);
  graphs todo = {0};
  for (size_t i = first; i < m->graphs.n; i++) {
    anf_graph *g = m->graphs.at[i];
    for (size_t k = 0; g && k < g->effects.n && !prints[i]; k++) {
      const anf_node *n = g->effects.at[k];
      prints[i] = n->kind == ANFI_APPLY && n->op != ANF_OP_Assert && n->op != ANF_OP_Derive;
    }
    if (prints[i]) anfi_push(a, &todo, g);
  }
  while (todo.n) {
    const anf_node *f = todo.at[--todo.n]->self;
    for (const anfi_use *u = f ? f->uses : NULL; u; u = u->next) {
      anf_graph *user = u->user->graph;
      if (!user || prints[user->id]) continue;
      prints[user->id] = true;
      anfi_push(a, &todo, user);
    }
  }
  return prints;
}

/* Does n run its input k, g? Derivatives of Custom run the rules, inputs 1 and 2. */
static bool runs(const anf_node *n, size_t k, const anf_graph *g, const bool *prints) {
  if (n->kind == ANFI_CALL) return k == 0;
  if (!(anfi_op_of(n)->flags & ANFI_CALLS)) return false;
  if (n->op == ANF_OP_Custom) return k < 3;
  return k == 0 && (n->op != ANF_OP_Derive || (g && !prints[g->id]));
}

static void calls_have_effects(anfi_arena *a, graphs *todo, const anf_node *f, const bool *prints) {
  const anf_graph *g = anfi_value_graph(f);
  for (const anfi_use *u = f->uses; u; u = u->next) {
    anf_node *call = u->user;
    if (!runs(call, (size_t)(u - call->in), g, prints) || (call->flags & ANFI_NODE_EFFECT))
      continue;
    if (!call->graph->effects.n) anfi_push(a, todo, call->graph);
    anfi_add_effect(call->graph, call);
  }
}

static int by_id(const void *a, const void *b) {
  uint32_t x = (*(anf_node *const *)a)->id, y = (*(anf_node *const *)b)->id;
  return (x > y) - (x < y);
}

/* Calls that have become effects, which stand after the first `own`, go where they are made: what checks their results comes
 * after them. */
static void place_calls(anfi_arena *a, anf_graph *g, size_t own) {
  size_t n = g->effects.n, e = 0, c = own;
  if (own == n) return;
  anf_node **all = ANFI_NEW_N(a, anf_node *, n);
  memcpy(all, g->effects.at, n * sizeof *all);
  qsort(all + own, n - own, sizeof *all, by_id);
  for (size_t i = 0; i < n; i++) {
    bool call = c < n && (e == own || all[c]->id < all[e]->id);
    g->effects.at[i] = call ? all[c++] : all[e++];
  }
}

/* def byte(n: i8) { n };  def g(x) { byte(x + 0) };  g(x):  g checks its number, so calls of g have an effect. */
static void spread_effects(anfi_arena *a, anf_module *m, size_t first) {
  graphs todo = {0};
  const bool *prints = find_printing(a, m, first);
  size_t *own = ANFI_NEW_N(a, size_t, m->graphs.n + 1);
  for (size_t i = first; i < m->graphs.n; i++)
    if (m->graphs.at[i] && (own[i] = m->graphs.at[i]->effects.n))
      anfi_push(a, &todo, m->graphs.at[i]);
  while (todo.n) {
    const anf_node *f = todo.at[--todo.n]->self;
    if (!f) continue; // nobody names it
    calls_have_effects(a, &todo, f, prints);
    for (const anfi_use *u = f->uses; u; u = u->next)
      if (anfi_is_op(u->user, ANF_OP_Switch) || anfi_is_op(u->user, ANF_OP_SwitchLayer))
        calls_have_effects(a, &todo, u->user, prints);
  }
  for (size_t i = first; i < m->graphs.n; i++)
    if (m->graphs.at[i]) place_calls(a, m->graphs.at[i], own[i]);
}

static void remove_originals(anf_module *m, size_t ngraph) {
  for (size_t i = 0; i < ngraph; i++) {
    anf_graph *g = m->graphs.at[i];
    if (!g) continue;
    while (g->effects.n) anfi_remove_effect(g->effects.at[g->effects.n - 1]);
    anfi_graph_remove(g);
  }
  anfi_sweep(m);
}

/* ---- inference ---- */

typedef struct task {
  anf_module *m;
  size_t n;
  anf_graph *const *entry;
  const anf_type *const *const *types;
} task;

/* NULL after an error */
static anfi_inference *infer(const task *t, anfi_generated_graphs *made, size_t *nentry) {
  anfi_inference *q = anfi_infer_new(t->m);
  q->generated = made;
  for (size_t i = 0; i < t->n; i++)
    if (!anfi_infer_entry(q, t->entry[i], t->entry[i]->params.n, t->types[i])) return NULL;
  *nentry = q->specs.n;
  return anfi_infer_run(q) ? q : NULL;
}

/* Brings the graphs that inference asked for into the module. */
static bool bring(anf_module *m, anfi_generated_graphs *made) {
  while (made->wanted.n) {
    anfi_wanted w = made->wanted.at[--made->wanted.n];
    uint64_t *at = anfi_map_at(&made->graph_of, anfi_key(w.of));
    if (*at) continue; // asked for twice
    if (!anfi_generate(m->cx, w.of, w.loc)) return false;
    anfi_pass part = {.m = w.of->graph->module, .limit = UINT64_MAX};
    if (!anfi_opt_lift(&part)) return false;
    anfi_module_borrow(m, w.of->graph->module);
    anf_graph *g = anfi_merge_graph(anfi_merge_new(m, w.of->graph->module), w.of->graph);
    g->flags |= ANFI_GRAPH_PRIVATE;
    *at = anfi_key(g);
  }
  return true;
}

/* Tables of inference are as large as the module, so it begins again when graphs of generators are added. */
static anfi_inference *infer_all(const task *t, size_t *nentry) {
  enum { MOST_ROUNDS = 200 };
  anfi_arena *a = anfi_scratch(t->m->cx);
  anfi_generated_graphs *made =
      ANFI_NEW(a, anfi_generated_graphs); // emission looks graphs up as well
  anfi_map_init(&made->graph_of, a);
  for (int round = 0;; round++) {
    anfi_inference *q = infer(t, made, nentry);
    if (!q || !made->wanted.n) return q;
    anfi_wanted w = made->wanted.at[0];
    if (round == MOST_ROUNDS) {
      anfi_fail(t->m->cx, w.loc, ANF_E1587, w.of->of->name->s, (int)MOST_ROUNDS);
      return NULL;
    }
    if (!bring(t->m, made)) return NULL;
  }
}

bool anfi_specialise(anf_module *m, size_t n, anf_graph **entry,
                     const anf_type *const *const *types) {
  size_t nentry = 0;
  anfi_inference *q = infer_all(&(task){m, n, entry, types}, &nentry);
  if (!q) return false;
  size_t ngraph = m->graphs.n;
  anfi_emit e = {.q = q, .abs = &q->abs, .arena = q->arena};
  q->emitting = true;
  for (size_t i = 0; i < nentry; i++) entry[i] = anfi_emit_graph(&e, q->specs.at[i]);
  while (e.todo.n)
    if (!write_body(&e, e.todo.at[--e.todo.n])) return false;
  spread_effects(q->arena, m, ngraph);
  remove_originals(m, ngraph);
  return true;
}

/* All functions for the host whose parameters have types are entries. */
static bool has_signature(const anf_graph *g) {
  for (size_t i = 0; i < g->params.n; i++) {
    const anf_type *t = g->params.at[i]->type;
    if (!t || t->kind == ANF_TYPE_FN || t->kind == ANF_TYPE_ANY) return false;
  }
  return g->result != NULL;
}

bool anfi_opt_specialise(anfi_pass *p) {
  anf_module *m = p->m;
  anfi_arena *a = anfi_scratch(m->cx);
  anf_graph **entry = ANFI_NEW_N(a, anf_graph *, m->graphs.n);
  const anf_type *const **types = ANFI_NEW_N(a, const anf_type *const *, m->graphs.n);
  size_t n = 0;
  for (size_t i = 0; i < m->graphs.n; i++) {
    anf_graph *g = m->graphs.at[i];
    if (!g || (g->flags & ANFI_GRAPH_PRIVATE) || !has_signature(g)) continue;
    const anf_type **t = ANFI_NEW_N(a, const anf_type *, g->params.n);
    for (size_t k = 0; k < g->params.n; k++) t[k] = g->params.at[k]->type;
    types[n] = t;
    entry[n++] = g;
  }
  if (!n) return anfi_fail(m->cx, anfi_nowhere(), ANF_E0526);
  return anfi_specialise(m, n, entry, types);
}
