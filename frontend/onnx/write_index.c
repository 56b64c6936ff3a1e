// SPDX-License-Identifier: Apache-2.0
/* x[..] for the writer: Slice, then Gather for each index from the last axis on, then Unsqueeze.
 *   x[i, 1:3, n]  ->  Unsqueeze(Gather(Slice(x, [1], [3], axes = [1]), i, axis = 0), [1]) */
#include "frontend/onnx/write.h"
#include "ir/ops/array/getitem.h"

typedef struct {
  anfi_flat *w;
  const anf_node *n;
  anfi_subscript s;
  int64_t axis[ANFI_PARTS]; // of x, for each part
  bool arrays;              // an index is a tensor
} subscript;

/* Finds the axis of x of each part. */
static bool find_axes(subscript *q, uint32_t rank) {
  size_t used = 0;
  int64_t axis = 0;
  for (size_t i = 0; i < q->s.n; i++)
    used += q->s.part[i].kind == ANFI_PART_INDEX || q->s.part[i].kind == ANFI_PART_SLICE;
  if (used > rank) return anfi_flat_refuse(q->w, q->n, "a subscript", "with more parts than dims");
  for (size_t i = 0; i < q->s.n; i++) {
    const anfi_part *p = &q->s.part[i];
    q->axis[i] = axis;
    axis += p->kind == ANFI_PART_DOTS ? (int64_t)(rank - used) : p->kind != ANFI_PART_NEW;
    if (p->kind != ANFI_PART_INDEX || p->given[0] != ANFI_INPUT) continue;
    const anf_node *x = q->n->in[p->v[0]].def;
    const anf_type *t = x->kind == ANFI_VALUE ? x->u.value->type : x->type;
    if (!t || !anfi_is_tensor(t) || !anfi_dtype_is_int((anf_dtype)t->dtype) || (t->n && q->arrays))
      return anfi_flat_refuse(q->w, q->n, "a subscript", "of several tensors, or of bools");
    q->arrays = q->arrays || t->n > 0;
  }
  return true;
}

static const char *number(subscript *q, const anfi_part *p, size_t k, int64_t usual) {
  if (p->given[k] != ANFI_INPUT)
    return anfi_ox_ints(q->w, 1, p->given[k] == ANFI_CONSTANT ? &p->v[k] : &usual);
  const anfi_out *x = anfi_flat_operand(q->w, q->n->in[p->v[k]].def);
  return x && x->name ? anfi_ox_as_list(q->w, x) : NULL;
}

/* One Slice for an axis; what is computed may be anywhere in the list. */
static const char *sliced(subscript *q, const char *x, size_t i) {
  const anfi_part *p = &q->s.part[i];
  bool down = p->given[2] == ANFI_CONSTANT && p->v[2] < 0;
  if (!p->given[0] && !p->given[1] && !p->given[2]) return x;
  if (p->given[2] == ANFI_INPUT && (!p->given[0] || !p->given[1]))
    return (void)anfi_flat_refuse(q->w, q->n, "a slice", "whose step is computed"), NULL;
  const char *in[5] = {x, number(q, p, 0, down ? INT64_MAX : 0),
                       number(q, p, 1, down ? INT64_MIN + 1 : INT64_MAX),
                       anfi_ox_ints(q->w, 1, &q->axis[i]), number(q, p, 2, 1)};
  return in[1] && in[2] && in[4] ? anfi_ox_put(q->w, "Slice", 5, in) : NULL;
}

static const char *gathered(subscript *q, const char *x, size_t i) {
  const anfi_part *p = &q->s.part[i];
  const anfi_out *at =
      p->given[0] == ANFI_INPUT ? anfi_flat_operand(q->w, q->n->in[p->v[0]].def) : NULL;
  if (p->given[0] == ANFI_INPUT && !at) return NULL;
  const char *in[2] = {x, !at ? anfi_ox_int(q->w, p->v[0])
                          : at->type->dtype == ANF_I32 || at->type->dtype == ANF_I64 ||
                                  at->type->dtype == ANF_INT
                              ? at->name
                              : anfi_ox_cast(q->w, at->name, ANF_I64)};
  size_t node = anfi_ox_open(q->w, "Gather", 2, in);
  anfi_ox_attr_int(q->w, "axis", q->axis[i]);
  return anfi_ox_close(q->w, node);
}

/* New axes, at their positions in the result; a tensor index may have several dims, or none. */
static const char *widened(subscript *q, const char *x, uint32_t rank) {
  int64_t at[ANFI_PARTS], result = 0;
  size_t n = 0;
  for (size_t i = 0; i < q->s.n; i++) {
    const anfi_part *p = &q->s.part[i];
    if (p->kind == ANFI_PART_NEW) at[n++] = result++;
    else if (p->kind == ANFI_PART_SLICE) result++;
    else if (p->kind == ANFI_PART_DOTS)
      result += (i + 1 < q->s.n ? q->axis[i + 1] : (int64_t)rank) - q->axis[i];
    else if (p->given[0] == ANFI_INPUT && q->n->in[p->v[0]].def->type)
      result += q->n->in[p->v[0]].def->type->n;
  }
  const char *in[2] = {x, anfi_ox_ints(q->w, n, at)};
  return n ? anfi_ox_put(q->w, "Unsqueeze", 2, in) : x;
}

static const char *part_of(subscript *q, const anfi_out *whole) {
  const char *x = whole->name;
  for (size_t i = 0; x && i < q->s.n; i++)
    if (q->s.part[i].kind == ANFI_PART_SLICE) x = sliced(q, x, i);
  for (size_t i = q->s.n; x && i-- > 0;)
    if (q->s.part[i].kind == ANFI_PART_INDEX) x = gathered(q, x, i);
  return x ? widened(q, x, whole->type->n) : NULL;
}

const anfi_out *anfi_ox_get_item(anfi_flat *w, const anf_node *n) {
  subscript q = {.w = w, .n = n};
  const anfi_out *x = anfi_flat_operand(w, n->in[0].def);
  const anf_value *spec = anfi_attr_value(w->cx, ANF_OP_GetItem, n->u.attrs, 0);
  if (!x) return NULL;
  if (!x->name)
    return (void)anfi_flat_refuse(w, n, "a subscript", "of a tuple, which is computed"), NULL;
  if (!anfi_subscript_read(w->cx, anfi_node_loc(n), spec, n->nin, &q.s) ||
      !find_axes(&q, x->type->n))
    return NULL;
  const char *name = part_of(&q, x);
  return name ? anfi_out_leaf(w, name, n->type) : NULL;
}
