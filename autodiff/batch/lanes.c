// SPDX-License-Identifier: Apache-2.0
/* The fallback for an op without a batching rule: one lane after the other.
 *   vmap(Sort)(xs)                       ->  Loop over lane l: ys[l] = Sort(xs[l]) */
#include "autodiff/batch/batch.h"
#include "base/mark.h"

typedef struct {
  /* the loop over lanes */
  anfi_batch *b;
  anf_graph *step;
  /* operands */
  size_t nw;        // operands that are no constants
  anf_node **w;     // those
  anf_node **param; // by operand: its counterpart in the step
  anf_node *i;      // the lane's number, in the step
  /* results */
  size_t nout;                 // tensors that the op gives
  const anf_type *const *type; // of each
  bool tuple;
} lanes;

static anf_node *row(const lanes *l, anf_graph *g, anf_node *x, anf_node *i) {
  anfi_attr_edit e = anfi_edit_attrs(l->b->ad, ANF_OP_Take, NULL);
  anfi_edit_int(&e, "axis", 0);
  return anfi_ad_apply(l->b->ad, g, ANF_OP_Take, anfi_edit_done(&e), 2, (anf_node *const[]){x, i});
}

/* The op on one lane, its operands in g. */
static anf_node *one_lane(const lanes *l, anf_graph *g, anf_node *const *from, anf_node *i) {
  const anfi_batch *b = l->b;
  anf_node **in = ANFI_NEW_N(b->ad->arena, anf_node *, b->n + 1);
  for (size_t k = 0; k < b->n; k++) {
    in[k] = b->batched[k] ? row(l, g, from[k], i) : from[k];
    if (!in[k]) return NULL;
  }
  return anfi_ad_apply(b->ad, g, (anfi_opcode)b->primal->op, b->primal->u.attrs, b->n, in);
}

static anf_node *out_of(const lanes *l, anf_graph *g, anf_node *y, size_t k) {
  return l->tuple ? anfi_ad_get(l->b->ad, g, y, k) : y;
}

/* The initial value of result k, before lanes are written to it: zeros. The shape may come from the op itself. */
static anf_node *room(const lanes *l, size_t k) {
  anfi_batch *b = l->b;
  anf_ctx *cx = b->ad->m->cx;
  const anf_type *t = l->type[k];
  if (anfi_is_static(t)) {
    bool keys = t->dtype == ANF_KEY;
    anfi_attr_edit e = anfi_edit_attrs(b->ad, ANF_OP_Zeros, NULL);
    anfi_edit_ints(&e, "shape", t->n, t->dims);
    anfi_edit_set(
        &e, "dtype",
        anfi_value_new_type(cx, anfi_type_scalar(cx, keys ? ANF_I64 : (anf_dtype)t->dtype)));
    anf_node *zeros = anfi_b_apply(b, ANF_OP_Zeros, anfi_edit_done(&e), 0, NULL);
    return anfi_b_spread(b, keys ? anfi_b_1(b, ANF_OP_Key, zeros) : zeros);
  }
  anf_node *y = one_lane(l, b->g, b->in, anfi_b_i64(b, 0));
  return y ? anfi_b_spread(b, anfi_b_1(b, ANF_OP_ZerosLike, out_of(l, b->g, y, k))) : NULL;
}

static anf_node *param(const lanes *l, const anf_type *t) {
  anf_node *p = anfi_param(l->step, NULL, t);
  p->type = t;
  return p;
}

static void bind_operands(lanes *l) {
  anfi_batch *b = l->b;
  l->w = ANFI_NEW_N(b->ad->arena, anf_node *, b->n + 1);
  l->param = ANFI_NEW_N(b->ad->arena, anf_node *, b->n + 1);
  for (size_t k = 0; k < b->n; k++) {
    l->param[k] = b->in[k];
    if (b->in[k]->kind == ANFI_VALUE) continue;
    l->param[k] = param(l, b->in[k]->type);
    l->w[l->nw++] = b->in[k];
  }
}

/* The number of lanes, in the step or outside. */
static anf_node *count(const lanes *l) {
  const anfi_batch *b = l->b;
  if (b->size >= 0) return anfi_b_i64(b, b->size);
  size_t k = 0;
  while (!b->batched[k]) k++;
  anf_node *shape = anfi_ad_apply1(b->ad, l->step, ANF_OP_Shape, l->param[k]);
  return shape ? anfi_ad_get(b->ad, l->step, shape, 0) : NULL;
}

static anf_node *written(const lanes *l, anf_node *into, anf_node *y) {
  anfi_attr_edit e = anfi_edit_attrs(l->b->ad, ANF_OP_IndexWrite, NULL);
  anfi_edit_int(&e, "axis", 0);
  return anfi_ad_apply(l->b->ad, l->step, ANF_OP_IndexWrite, anfi_edit_done(&e), 3,
                       (anf_node *const[]){into, l->i, y});
}

static bool fill_step(lanes *l, anf_node *const *state) {
  anfi_ad *ad = l->b->ad;
  anf_node **out = ANFI_NEW_N(ad->arena, anf_node *, l->nout + 2);
  anf_node **acc = ANFI_NEW_N(ad->arena, anf_node *, l->nout + 1);
  l->i = param(l, anfi_type_scalar(ad->m->cx, ANF_I64));
  for (size_t k = 0; k < l->nout; k++) acc[k] = param(l, state[k]->type);
  anf_node *y = one_lane(l, l->step, l->param, l->i);
  out[1] = anfi_ad_apply2(ad, l->step, ANF_OP_Add, l->i, anfi_b_i64(l->b, 1));
  anf_node *n = count(l);
  if (!y || !out[1] || !n) return false;
  out[0] = anfi_ad_apply2(ad, l->step, ANF_OP_Less, out[1], n);
  for (size_t k = 0; k < l->nout; k++)
    if (!(out[k + 2] = written(l, acc[k], out_of(l, l->step, y, k)))) return false;
  anfi_set_result(l->step, anfi_ad_tuple(ad, l->step, l->nout + 2, out));
  return true;
}

anf_node *anfi_batch_by_lane(anfi_batch *b) {
  const anf_type *t = b->primal->type;
  lanes l = {.b = b, .tuple = t->kind == ANF_TYPE_TUPLE};
  l.nout = l.tuple ? t->n : 1;
  l.type = l.tuple ? t->items : &t;
  anf_node **args = ANFI_NEW_N(b->ad->arena, anf_node *, b->n + l.nout + 2);
  anf_node **y = ANFI_NEW_N(b->ad->arena, anf_node *, l.nout + 1);
  for (size_t k = 0; k < l.nout; k++)
    if (!(y[k] = room(&l, k))) return NULL;
  if (b->size != 0) {
    l.step = anfi_graph_beside(b->g, ANFI_BATCHED);
    bind_operands(&l);
    memcpy(args, l.w, l.nw * sizeof *args);
    args[l.nw] = anfi_b_i64(b, 0);
    memcpy(args + l.nw + 1, y, l.nout * sizeof *args);
    if (!fill_step(&l, y)) return NULL;
    anfi_loop_op parts = {.step = l.step, .nw = l.nw, .ns = l.nout + 1};
    anf_node *loop = anfi_ad_loop(b->ad, b->g, &parts, args);
    for (size_t k = 0; k < l.nout; k++) y[k] = anfi_ad_get(b->ad, b->g, loop, k + 1);
  }
  return l.tuple ? anfi_ad_tuple(b->ad, b->g, l.nout, y) : y[0];
}
