// SPDX-License-Identifier: Apache-2.0
/* Sums of adjoints of arrays. What reads x[i] adds one number to the adjoint of x:
 *   IndexWrite(Zeros, i, d, mode=add)      is the rule's adjoint of x, an array of zeros and d
 *   sum + that                       ->    IndexWrite(sum, i, d, mode=add)
 * So the adjoints of reads become a chain of writes over one accumulator, which lowering and the interpreter write in
 * place; no array of zeros is made or added. A rule that replaces a part of zeros (SliceUpdate) reads that part of the sum
 * first. */
#include "autodiff/derive/derive.h"

/* Does x add something at some places of its input 0? */
static bool adds_at_places(const anf_node *x, anf_ctx *cx) {
  if (!anfi_is_op(x, ANF_OP_IndexWrite) && !anfi_is_op(x, ANF_OP_WriteAlongAxis) &&
      !anfi_is_op(x, ANF_OP_ScatterNd))
    return false;
  int k = anfi_attr_index(cx, (anfi_opcode)x->op, "mode");
  const anf_value *mode = anfi_attr_value(cx, (anfi_opcode)x->op, x->u.attrs, (uint32_t)k);
  return mode && strcmp(mode->u.text, "add") == 0;
}

/* Is x zeros with a part replaced? That adds the part. */
static bool is_part_of_zeros(const anf_node *x) {
  if (!anfi_is_op(x, ANF_OP_SliceUpdate) && !anfi_is_op(x, ANF_OP_DynamicUpdateSlice)) return false;
  const anf_node *to = x->in[0].def;
  return x->type && x->type->kind == ANF_TYPE_TENSOR && x->nin == anfi_arg_count(x) &&
         x->in[1].def->type && (anfi_is_op(to, ANF_OP_Zeros) || anfi_is_op(to, ANF_OP_ZerosLike));
}

/* The number of writes that make x out of zeros by adding, one after the other: they can add to another sum instead, in
 * place. 0: x is made otherwise. */
static size_t writes_of(const anf_node *x, anf_ctx *cx) {
  enum { MOST = 64 };
  size_t n = 0;
  for (; n < MOST && adds_at_places(x, cx); n++) x = x->in[0].def;
  if (is_part_of_zeros(x)) return n + 1;
  return anfi_is_op(x, ANF_OP_Zeros) || anfi_is_op(x, ANF_OP_ZerosLike) ? n : 0;
}

bool anfi_ad_is_written(anfi_ad *ad, const anf_node *x) { return writes_of(x, ad->m->cx) > 0; }

/* What w, which writes a part into zeros, has to write into `sum` instead: the part of `sum` there, plus its own. */
static anf_node *sum_of_part(anfi_ad *ad, anf_graph *g, const anf_node *w, anf_node *sum) {
  anf_ctx *cx = ad->m->cx;
  bool dynamic = w->op == ANF_OP_DynamicUpdateSlice;
  anfi_opcode op = dynamic ? ANF_OP_DynamicSlice : ANF_OP_Slice;
  const anf_type *t = w->in[1].def->type;
  anf_value *v[4] = {NULL}; // of Slice: start, stop, step and axis, as of SliceUpdate
  if (dynamic) anfi_value_guard(v[0] = anfi_value_new_ints(cx, t->n, t->dims));
  for (uint32_t i = 0; !dynamic && i < 4; i++)
    v[i] = anf_value_retain(anfi_attr_value(cx, ANF_OP_SliceUpdate, w->u.attrs, i)),
    anfi_value_guard(v[i]);
  anf_node **in = ANFI_NEW_N(ad->arena, anf_node *, w->nin);
  in[0] = sum;
  for (uint32_t i = 2; i < w->nin; i++) in[i - 1] = w->in[i].def;
  anf_node *part = anfi_ad_apply(ad, g, op, anfi_ad_attrs(ad, op, v), w->nin - 1u, in);
  return part ? anfi_ad_add(ad, g, part, w->in[1].def) : NULL;
}

/* The n writes that make x, with the sum instead of zeros. */
static anf_node *written_to(anfi_ad *ad, anf_graph *g, anf_node *x, size_t n, anf_node *sum) {
  anf_node **write = ANFI_NEW_N(ad->arena, anf_node *, n);
  for (size_t i = n; i-- > 0; x = x->in[0].def) write[i] = x;
  for (size_t k = 0; k < n; k++) {
    const anf_node *w = write[k];
    anf_node **in = ANFI_NEW_N(ad->arena, anf_node *, w->nin);
    for (uint32_t i = 0; i < w->nin; i++) in[i] = i ? w->in[i].def : sum;
    if (is_part_of_zeros(w)) in[1] = sum_of_part(ad, g, w, sum);
    sum = anfi_apply(g, (anfi_opcode)w->op, w->u.attrs, w->nin, in);
    sum->debug = w->debug;
    sum->type = w->type;
  }
  return sum;
}

anf_node *anfi_ad_sum(anfi_ad *ad, anf_graph *g, anf_node *a, anf_node *b) {
  size_t n;
  bool same = a && b && anfi_ad_type_of(ad, a) == anfi_ad_type_of(ad, b);
  if (same && (n = writes_of(b, ad->m->cx))) return written_to(ad, g, b, n, a);
  if (same && (n = writes_of(a, ad->m->cx))) return written_to(ad, g, a, n, b);
  return anfi_ad_add(ad, g, a, b);
}
