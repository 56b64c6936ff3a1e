// SPDX-License-Identifier: Apache-2.0
/* Recursions without a base case: a least fixpoint over each strongly connected component of the call graph.
 *   def f(n) { f(n - 1) }                          never returns
 *   def f(n) { map(f, (n, n)) }                    nor does this
 *   def f(n) { if n < 0 { 0 } else { f(n - 1) } }  may: the other branch returns
 * A graph may return if each call that it makes may; a call of a choice, if one of the branches may. What is not known
 * before the program runs, a parameter that is called, is taken to return, so what is found is certain. */
#include "base/mark.h"
#include "ir/ir.h"

enum { MOST_ROUNDS = 64, MOST_CHOICES = 64 }; // beyond them nothing is claimed

typedef struct grounding {
  const anf_analysis *an;
  uint8_t *returns; // by graph id
} grounding;

static bool code_returns(const grounding *q, const anf_node *f, int *budget) {
  if (--*budget < 0) return true;
  const anf_graph *g = anfi_value_graph(f);
  if (g) return q->returns[g->id];
  if (anfi_is_op(f, ANF_OP_Partial)) return code_returns(q, f->in[0].def, budget);
  if (!anfi_is_op(f, ANF_OP_Switch)) return true;
  return code_returns(q, f->in[1].def, budget) || code_returns(q, f->in[2].def, budget);
}

/* ---- maps ---- */

static bool is_leaf_type(const anf_type *t) { return t && t->kind == ANF_TYPE_TENSOR; }
static bool is_leaf_value(const anf_value *v) {
  return v->kind != ANF_VALUE_TUPLE && v->kind != ANF_VALUE_RECORD;
}
static bool is_leaf(const anf_node *x) {
  return x->kind == ANFI_VALUE ? is_leaf_value(x->u.value) : is_leaf_type(x->type);
}

static bool value_maps(const anf_value *v, bool leaves) {
  if (is_leaf_value(v)) return leaves || (v->kind == ANF_VALUE_TENSOR && v->n);
  for (size_t i = 0; i < v->n; i++)
    if (!leaves || is_leaf_value(v->u.item[i])) return true;
  return false;
}

static bool type_maps(const anf_type *t, bool leaves) {
  if (!t) return false;
  if (t->kind == ANF_TYPE_TENSOR) return leaves || (t->n && t->dims[0] > 0);
  if (t->kind != ANF_TYPE_TUPLE && t->kind != ANF_TYPE_RECORD) return false;
  for (uint32_t i = 0; i < t->n; i++)
    if (!leaves || is_leaf_type(t->items[i])) return true;
  return false;
}

/* Does a map over x surely call its function? Map does for each item, HyperMap for each leaf; an item that is not known
 * may be an empty tuple. */
static bool surely_maps(const anf_node *x, bool leaves) {
  if (x->kind == ANFI_VALUE) return value_maps(x->u.value, leaves);
  if (!anfi_is_op(x, ANF_OP_MakeTuple) && !anfi_is_op(x, ANF_OP_MakeRecord))
    return type_maps(x->type, leaves);
  for (uint32_t i = 0; i < x->nin; i++)
    if (!leaves || is_leaf(x->in[i].def)) return true;
  return false;
}

/* ---- what a node calls for sure ---- */

static bool node_returns(const grounding *q, const anf_node *n) {
  int budget = MOST_CHOICES;
  bool map = anfi_is_op(n, ANF_OP_Map), hyper = anfi_is_op(n, ANF_OP_HyperMap);
  bool calls =
      n->kind == ANFI_CALL || ((map || hyper) && n->nin > 1 && surely_maps(n->in[1].def, hyper));
  return !calls || code_returns(q, n->in[0].def, &budget);
}

static bool may_return(const grounding *q, const anf_graph *g) {
  const anfi_graph_info *gi = &q->an->graphs[g->id];
  for (size_t i = 0; i < gi->order.n; i++)
    if (!node_returns(q, gi->order.at[i])) return false;
  return true;
}

/* Of graphs from..to of by_scc, one component. False: too many rounds to tell. */
static bool settle(grounding *q, size_t from, size_t to) {
  bool changed = true;
  for (int round = 0; changed; round++) {
    if (round == MOST_ROUNDS) return false;
    changed = false;
    for (size_t i = from; i < to; i++) {
      const anf_graph *g = q->an->by_scc.at[i];
      if (q->returns[g->id] || !may_return(q, g)) continue;
      q->returns[g->id] = changed = true;
    }
  }
  return true;
}

/* The function that the user wrote, one with a name of his if there is one; a loop without an end is his to write. */
static bool tell(const grounding *q, size_t from, size_t to) {
  const anf_graph *found = NULL;
  size_t len;
  for (size_t i = from; i < to; i++) {
    const anf_graph *g = q->an->by_scc.at[i];
    if (q->returns[g->id] || anfi_mark_word(g->name->s, &len)) continue;
    if (!found || (found->flags & ~g->flags & ANFI_GRAPH_PRIVATE)) found = g;
  }
  return !found || anfi_fail(found->module->cx, anfi_graph_loc(found), ANF_E0518, found->name->s);
}

bool anfi_check_grounded(anf_module *m) {
  const anf_analysis *an = anfi_analyse(m);
  grounding q = {an, ANFI_NEW_N(anfi_scratch(m->cx), uint8_t, an->ngraph + 1)};
  bool good = true;
  for (size_t i = 0, to; i < an->by_scc.n; i = to) {
    uint32_t scc = an->graphs[an->by_scc.at[i]->id].scc;
    bool recursive = false;
    for (to = i; to < an->by_scc.n && an->graphs[an->by_scc.at[to]->id].scc == scc; to++)
      recursive |= an->graphs[an->by_scc.at[to]->id].recursive;
    if (recursive && settle(&q, i, to)) good &= tell(&q, i, to);
    for (size_t k = i; k < to; k++) q.returns[an->by_scc.at[k]->id] = true; // one finding each
  }
  return good;
}
