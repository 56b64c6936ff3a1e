// SPDX-License-Identifier: Apache-2.0
/* Ops over the lanes of a batch with a name.
 *   vmap(fn (x) { x / LaneSum(x :axis "i") } :axis_name "i")(xs)     ->  xs / Sum(xs :axis 0)
 * Their results are the same for all lanes, LaneIndex's alone differs. Those of another name are of a batch further out and stay,
 * by their rules in comm.c. An inner batch of the same name hides the outer one, since it is expanded first.
 * INVARIANT: all lanes run the op. Where some may not, it is refused. */
#include "autodiff/batch/vmap.h"

static bool is_lane_op(const anf_node *n) {
  return n->kind == ANFI_APPLY && n->op >= ANF_OP_LaneGather && n->op <= ANF_OP_LaneSum;
}

bool anfi_vmap_names(const anfi_vmap *v, const anf_node *n) {
  if (!v->name || !is_lane_op(n)) return false;
  return strcmp(anfi_attr_value(v->ad->m->cx, (anfi_opcode)n->op, n->u.attrs, 0)->u.text,
                v->name->u.text) == 0;
}

void anfi_vmap_find_named(anfi_vmap *v) {
  const anf_module *m = v->ad->m;
  if (!v->name) return;
  bool *has = ANFI_NEW_N(v->ad->arena, bool, m->graphs.n + 1);
  for (size_t i = 0; i < m->nodes.n; i++)
    if (m->nodes.at[i] && anfi_vmap_names(v, m->nodes.at[i])) has[m->nodes.at[i]->graph->id] = true;
  v->nnamed = m->graphs.n;
  anfi_spread_to_users(v->ad, has);
  v->named = has;
}

bool anfi_vmap_is_named(const anfi_vmap *v, const anf_graph *g) {
  return g && g->id < v->nnamed && v->named[g->id];
}

bool anfi_vmap_whole(const anfi_vmap *v, const anf_graph *g, const anf_node *at,
                     const char *where) {
  if (!anfi_vmap_is_named(v, g)) return true;
  return anfi_fail(v->ad->m->cx, anfi_node_loc(at), ANF_E0715, v->name->u.text, where);
}

/* The number of lanes, as a number of x's type. */
static anf_node *count(anfi_vmap *v, const anf_type *t) {
  anfi_batch *b = &v->b;
  if (v->size >= 0) return anfi_b_cast(b, anfi_b_i64(b, v->size), (anf_dtype)t->dtype);
  anf_node *one = anfi_b_cast(b, anfi_b_1(b, ANF_OP_LogicalNot, anfi_b_lanes(b)), ANF_I64);
  return anfi_b_cast(b, anfi_b_1(b, ANF_OP_Sum, one), (anf_dtype)t->dtype);
}

static anf_node *reduced(anfi_vmap *v, anfi_opcode op, anf_node *x) {
  anfi_attr_edit e = anfi_edit_attrs(v->ad, op, NULL);
  int64_t first = 0;
  anfi_edit_ints(&e, "axis", 1, &first);
  anf_node *y = anfi_b_apply(&v->b, op, anfi_edit_done(&e), 1, &x);
  return anfi_b_cast(&v->b, y, (anf_dtype)x->type->dtype); // sums of integers are i64
}

anf_node *anfi_vmap_over_lanes(anfi_vmap *v, const anf_node *n, anf_node *x, bool batched) {
  anfi_batch *b = &v->b;
  if (n->op == ANF_OP_LaneIndex) return anfi_b_iota(b);
  if (n->op == ANF_OP_LaneGather) return batched ? x : anfi_b_spread(b, x);
  if (!batched)
    return n->op != ANF_OP_LaneSum
               ? x
               : anfi_b_2(b, ANF_OP_Mul, x, count(v, anfi_ad_type_of(v->ad, x)));
  return reduced(v,
                 n->op == ANF_OP_LaneSum   ? ANF_OP_Sum
                 : n->op == ANF_OP_LaneMax ? ANF_OP_Max
                                           : ANF_OP_Min,
                 x);
}
