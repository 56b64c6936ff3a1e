// SPDX-License-Identifier: Apache-2.0
/* Writes to nested slices:
 *   x[1:-1][:, 1:-1] = v                 ->  one write of v into x
 * so that x is copied once. */
#include "ir/ops/op.h"
#include "optimizer/rules/rule.h"

/* The written part of a SliceUpdate of x, if its steps are 1. */
typedef struct window {
  size_t axis;
  int64_t start, n;
} window;

static bool window_of(const anfi_rewriter *r, const anf_node *n, const anf_node *x, window *w) {
  anf_value *attr[4];
  int64_t step;
  for (uint32_t k = 0; k < 4; k++)
    attr[k] = anfi_attr_value(r->m->cx, ANF_OP_SliceUpdate, n->u.attrs, k);
  if (!anfi_axis_in(anfi_attr_int(attr[3]), x->type->n, &w->axis)) return false;
  w->n = (int64_t)anfi_slice((size_t)x->type->dims[w->axis], attr, &w->start, &step);
  return w->n > 0 && step == 1;
}

anf_node *anfi_rule_update_of_part(anfi_rewriter *r, const anfi_match *m) {
  anf_node *x = m->root->in[0].def, *inner = m->root->in[1].def, *part = inner->in[0].def,
           *v = inner->in[1].def;
  window outside, inside;
  if (!window_of(r, m->root, x, &outside) || !window_of(r, inner, part, &inside)) return NULL;
  if (v->type->n != x->type->n) return NULL; // it is broadcast
  anf_node *in[2 + ANF_MAX_RANK] = {x, v};
  for (uint32_t k = 0; k < x->type->n; k++) {
    bool cut = k == inside.axis;
    int64_t start = (cut ? inside.start : 0) + (k == outside.axis ? outside.start : 0);
    if (v->type->dims[k] != (cut ? inside.n : part->type->dims[k])) return NULL;
    in[2 + k] = anfi_rewrite_const(r, anfi_value_new_i64(r->m->cx, ANF_I64, start));
  }
  return anfi_rewrite_apply(r, m->root, ANF_OP_DynamicUpdateSlice, NULL, 2 + x->type->n, in);
}

anf_node *anfi_rule_update_of_all(anfi_rewriter *r, const anfi_match *m) {
  const anf_node *x = m->root->in[0].def;
  window w; // of one element, it may be empty
  if (!window_of(r, m->root, x, &w) || w.n != x->type->dims[w.axis]) return NULL;
  return m->root->in[1].def;
}
