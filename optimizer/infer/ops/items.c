// SPDX-License-Identifier: Apache-2.0
/* Ops that make a tuple or record of the items of others: where each item comes from.
 *   TupleConcat((a, b), (c,))            item 2 is item 0 of input 1
 * Items may be functions, so inference and emission both ask here. */
#include "optimizer/infer/rules.h"

static void add(anfi_inference *q, anfi_items *to, size_t input, int64_t item) {
  anfi_push(q->arena, to, ((anfi_item){input, item}));
}

static bool is_tuple(const anfi_abs *a) { return a->kind == ANFI_ABS_TUPLE; }

static bool concatenated(anfi_inference *q, size_t n, const anfi_abs *const *in, anfi_items *to) {
  for (size_t i = 0; i < n; i++) {
    if (!is_tuple(in[i])) return false;
    for (uint32_t k = 0; k < in[i]->n; k++) add(q, to, i, k);
  }
  return true;
}

/* All items but the one at `place`, which is the second input. */
static bool replaced(anfi_inference *q, const anfi_abs *t, int64_t place, anfi_items *to) {
  if (place < 0 || place >= (int64_t)t->n) return false;
  for (int64_t k = 0; k < (int64_t)t->n; k++) add(q, to, k == place, k == place ? ANFI_WHOLE : k);
  return true;
}

static int64_t field(const anfi_abs *r, const char *name) {
  for (uint32_t k = 0; r->kind == ANFI_ABS_RECORD && k < r->n; k++)
    if (strcmp(r->type->names[k]->s, name) == 0) return k;
  return -1;
}

static bool sliced(anfi_inference *q, const anfi_abs *t, anf_value *const *attr, anfi_items *to) {
  int64_t v[3] = {0, 0, 1}, first = 0;
  bool given[3];
  for (int k = 0; k < 3; k++) {
    given[k] = anfi_attr_given(attr[k]);
    if (given[k] && !anfi_value_is_int(attr[k], &v[k])) return false;
  }
  if (!is_tuple(t) || !v[2]) return false;
  size_t n = anfi_slice_ints(t->n, given[0] ? &v[0] : NULL, given[1] ? &v[1] : NULL, v[2], &first);
  for (size_t i = 0; i < n; i++) add(q, to, 0, first + (int64_t)i * v[2]);
  return true;
}

bool anfi_find_items(anfi_inference *q, anfi_opcode op, anf_value *const *attr, size_t n,
                     const anfi_abs *const *in, anfi_items *to) {
  int64_t i = 0;
  switch (op) {
  case ANF_OP_TupleConcat: return concatenated(q, n, in, to);
  case ANF_OP_TupleSlice: return sliced(q, in[0], attr, to);
  case ANF_OP_RecordSet: return replaced(q, in[0], field(in[0], attr[0]->u.text), to);
  case ANF_OP_TupleSet:
    if (!is_tuple(in[0]) || !anfi_value_is_int(attr[0], &i)) return false;
    return replaced(q, in[0], i < 0 ? i + in[0]->n : i, to);
  default: return false;
  }
}
