// SPDX-License-Identifier: Apache-2.0
/* From an op to its hook, and what all hooks share.
 *   Softmax  ->  anfi_lower_softmax, by its row of lower.def;   Sin  ->  anfi_lower_pointwise, by its scalar code
 * A node that is not fused into its consumers is stored when its hook returns. */
#include "backend/lower/low.h"

typedef bool (*hook)(anfi_low *L, const anfi_low_op *q, anfi_view **out);

static const hook hooks[ANF_OP_COUNT] = {
#define ANF_LOWER(op, name) [ANF_OP_##op] = anfi_lower_##name,
#include "backend/lower/ops/lower.def"
#undef ANF_LOWER
};

static hook hook_of(anfi_opcode op) {
  if (op >= ANF_OP_COUNT) return NULL;
  return hooks[op] ? hooks[op] : anfi_op[op].scalar ? anfi_lower_pointwise : NULL;
}

bool anfi_lower_knows(anfi_opcode op) { return hook_of(op) != NULL; }

bool anfi_lower_is_scalar(anfi_opcode op) {
  return op < ANF_OP_COUNT && !hooks[op] && anfi_op[op].scalar;
}

static bool refuse(anfi_low *L, const anfi_low_op *q) {
  return anfi_failed(L->cx) ||
         anfi_fail(L->cx, q->loc, ANF_E0970, anfi_op[q->op].name,
                   q->n && q->in[0] ? anfi_type_text(L->cx, q->in[0]->type) : "");
}

static bool sizes(anfi_low *L, const anfi_low_op *q, const anf_type *t) {
  uint64_t n;
  if (anfi_lower_size(t, &n)) return true;
  return anfi_fail(L->cx, q->loc, ANF_E0953, anfi_type_text(L->cx, t));
}

/* A scalar is computed in the place of its op; a node that is not fused into its consumers is written there. */
static void settle(anfi_low *L, const anfi_low_op *q, size_t i, anfi_view *v) {
  texpr to = q->to ? q->to[i] : NULL;
  if (to && v->tensor != to) {
    anfi_view_store(L, v, to);
    v->tensor = to;
    v->kind = VIEW_BUFFER;
  } else if (anfi_view_is_lazy(v) && v->n == 1 && v->type->n == 0) {
    anfi_view_settle(L, v);
  } else if (anfi_view_is_lazy(v) && (!q->inlined || L->o.no_fuse)) anfi_view_force(L, v);
}

bool anfi_lower_op(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  hook h = hook_of(q->op);
  bool tuple = q->type->kind == ANF_TYPE_TUPLE;
  size_t n = tuple ? q->type->n : 1;
  for (size_t i = 0; i < n; i++)
    if (!sizes(L, q, tuple ? q->type->items[i] : q->type)) return false;
  if (!h || !h(L, q, out)) return refuse(L, q), false;
  for (size_t i = 0; i < n; i++) settle(L, q, i, out[i]);
  return true;
}
