// SPDX-License-Identifier: Apache-2.0
/* Exchange between ranks. The communicator is that of the context; without one there is one rank.
 *   x: f32[4, 2] on each of 2 ranks      AllGather: f32[8, 2]      ReduceScatter: f32[2, 2]      AllReduce: f32[4, 2]
 * Each rank has a value of its own, so derivatives are those of the sum over ranks of all results. */
#include "ir/ops/kernel.h"

#include "comm/comm.h"

/* ---- inference ---- */

static bool is_reducible(anf_dtype d) {
  return d != ANF_BOOL && anfi_dtype_class(d) != ANFI_CLASS_KEY;
}

bool anfi_infer_reduced(anfi_infer *q) {
  if (anfi_is_any(q->in[0])) return anfi_infer_any(q);
  if (!anfi_infer_tensors(q)) return false;
  anf_dtype d = (anf_dtype)q->in[0]->dtype;
  return is_reducible(d) ? anfi_infer_is(q, q->in[0]) : anfi_infer_bad_dtype(q, d);
}

/* Axis 0 times `more`, cut in `parts`. */
static bool along(anfi_infer *q, int64_t more, int64_t parts) {
  const anf_type *t = q->in[0];
  int64_t dims[ANF_MAX_RANK], ranks = anfi_attr_int(q->attr[0]);
  if (anfi_is_any(t)) return anfi_infer_any(q);
  if (!anfi_infer_tensors(q)) return false;
  if (ranks < 1) return anfi_infer_fail(q, "ranks must be at least 1");
  if (!t->n) return anfi_infer_fail(q, "a tensor with an axis 0 is needed");
  if (t->dims[0] >= 0 && parts > 1 && t->dims[0] % parts)
    return anfi_infer_fail(q, "axis 0 must divide by the number of ranks");
  for (uint32_t k = 0; k < t->n; k++) dims[k] = t->dims[k];
  if (dims[0] >= 0) dims[0] = anfi_dims_mul(dims[0], more) / parts;
  else if (more != parts) dims[0] = ANF_DIM_UNKNOWN;
  return anfi_infer_result(q, (anf_dtype)t->dtype, t->n, dims);
}

bool anfi_infer_all_gather(anfi_infer *q) { return along(q, anfi_attr_int(q->attr[0]), 1); }
bool anfi_infer_reduce_scatter(anfi_infer *q) {
  const anf_type *t = q->in[0];
  if (anfi_is_tensor(t) && !is_reducible((anf_dtype)t->dtype))
    return anfi_infer_bad_dtype(q, (anf_dtype)t->dtype);
  return along(q, 1, anfi_attr_int(q->attr[0]));
}
bool anfi_infer_all_to_all(anfi_infer *q) {
  int64_t ranks = anfi_attr_int(q->attr[0]);
  return along(q, ranks, ranks);
}

bool anfi_infer_comm_number(anfi_infer *q) {
  return anfi_infer_is(q, anfi_type_scalar(q->cx, ANF_I64));
}

bool anfi_infer_send_recv(anfi_infer *q) {
  for (size_t i = 1; i < 3; i++) {
    const anf_type *t = q->in[i];
    if (!anfi_is_any(t) && !(anfi_is_scalar(t) && anfi_dtype_is_int((anf_dtype)t->dtype)))
      return anfi_infer_want(q, i, "an integer");
  }
  return anfi_is_any(q->in[0]) || anfi_is_tensor(q->in[0]) ? anfi_infer_is(q, q->in[0])
                                                           : anfi_infer_no_tensor(q, 0);
}

/* ---- evaluation ---- */

bool anfi_collective(anf_ctx *cx, anfi_opcode op, anf_value *const *attr, anf_comm_call *k) {
  static const struct {
    anfi_opcode op;
    anf_comm_kind kind;
  } kinds[] = {
      {ANF_OP_AllReduce, ANF_COMM_ALL_REDUCE}, {ANF_OP_AllGather, ANF_COMM_ALL_GATHER},
      {ANF_OP_AllToAll, ANF_COMM_ALL_TO_ALL},  {ANF_OP_Broadcast, ANF_COMM_BROADCAST},
      {ANF_OP_Reduce, ANF_COMM_REDUCE},        {ANF_OP_ReduceScatter, ANF_COMM_REDUCE_SCATTER},
      {ANF_OP_SendRecv, ANF_COMM_SEND_RECV}};
  size_t i = 0;
  while (i < ANFI_LEN(kinds) && kinds[i].op != op) i++;
  if (i == ANFI_LEN(kinds)) return false;
  *k = (anf_comm_call){.size = sizeof *k, .kind = kinds[i].kind};
  int mean = anfi_attr_index(cx, op, "mean"), root = anfi_attr_index(cx, op, "root"),
      ranks = anfi_attr_index(cx, op, "ranks");
  if (mean >= 0) k->mean = anfi_attr_bool(attr[mean]);
  if (root >= 0) k->root = anfi_comm_number(anfi_attr_int(attr[root]));
  if (ranks >= 0) k->ranks = anfi_comm_number(anfi_attr_int(attr[ranks]));
  return true;
}

anfi_code anfi_collective_code(unsigned why) {
  static const anfi_code code[ANF_COMM_WHY_COUNT] = {[ANF_COMM_LATE] = ANF_E1200,
                                                     [ANF_COMM_LOST] = ANF_E1201,
                                                     [ANF_COMM_RANKS] = ANF_E1202,
                                                     [ANF_COMM_BROKEN] = ANF_E1203};
  return code[why];
}

bool anfi_eval_collective(anfi_eval *q) {
  anf_comm_call k;
  anf_comm_error e;
  anfi_collective(q->cx, q->op, q->attr, &k);
  k.dtype = (anf_dtype)q->in[0]->type->dtype;
  k.in = q->in[0]->data;
  k.out = q->out->data;
  k.n = q->in[0]->n;
  if (q->op == ANF_OP_SendRecv) {
    k.to = anfi_comm_number(anfi_get_i64(q->in[1], 0));
    k.from = anfi_comm_number(anfi_get_i64(q->in[2], 0));
  }
  if (anf_comm_wait(q->cx->comm, anf_comm_start(q->cx->comm, &k), &e)) return true;
  return anfi_fail(q->cx, q->loc, anfi_collective_code(e.why), anfi_op[q->op].name,
                   (long long)e.rank, (long long)e.ms);
}

/* ---- lanes of a batch: of a tensor of all of them, once they are side by side (autodiff/batch/named.c) ---- */

bool anfi_infer_lane_gather(anfi_infer *q) {
  const anf_type *t = q->in[0];
  int64_t dims[ANF_MAX_RANK + 1] = {ANF_DIM_UNKNOWN};
  if (anfi_is_any(t)) return anfi_infer_any(q);
  if (!anfi_infer_tensors(q)) return false;
  if (t->n == ANF_MAX_RANK) return anfi_infer_fail(q, "the result would have too many dims");
  for (uint32_t k = 0; k < t->n; k++) dims[k + 1] = t->dims[k];
  return anfi_infer_result(q, (anf_dtype)t->dtype, t->n + 1u, dims);
}

bool anfi_eval_lanes(anfi_eval *q) {
  return anfi_fail(q->cx, q->loc, ANF_E0714, anfi_op[q->op].name, q->attr[0]->u.text);
}

bool anfi_eval_comm_rank(anfi_eval *q) {
  anfi_set_i64(q->out, 0, anf_comm_rank(q->cx->comm));
  return true;
}
bool anfi_eval_comm_size(anfi_eval *q) {
  anfi_set_i64(q->out, 0, anf_comm_ranks(q->cx->comm));
  return true;
}
