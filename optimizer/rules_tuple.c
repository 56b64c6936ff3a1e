// SPDX-License-Identifier: Apache-2.0
/* Hooks of rules/tuple.def. */
#include "optimizer/rule.h"

/* TupleGet(MakeTuple(a, b, ...), i) -> the i-th; of a constant tuple, its item. */
anf_node *anfi_rule_get_make(anfi_rewriter *r, const anfi_match *m) {
  anf_node *t = m->root->in[0].def;
  int64_t i = 0;
  anfi_value_is_int(anfi_attr_value(r->m->cx, ANF_OP_TupleGet, m->root->u.attrs, 0), &i);
  size_t n = anfi_is_op(t, ANF_OP_MakeTuple) ? t->nin : t->kind == ANFI_VALUE ? t->u.value->n : 0;
  if (i < 0) i += (int64_t)n;
  if (i < 0 || i >= (int64_t)n) return NULL;
  if (t->kind == ANFI_VALUE) return anfi_rewrite_const(r, anf_value_retain(t->u.value->u.item[i]));
  return t->in[i].def;
}
