// SPDX-License-Identifier: Apache-2.0
/* One op on values.
 *   Add, (1.0, f32[2]([1, 2]))    checks;  types: f32[2];  makes the result;  runs the kernel:  [2, 3]
 * Each call is a frame of its own: a kernel may hold scratch memory and guarded values, and all of it is gone when the
 * call returns, however it ends. */
#include "ir/ops/kernel.h"

/* Attributes that came from nodes have not been checked yet. */
static bool attributes(const anfi_eval *q) {
  const anfi_schema *s = anfi_op_schema(q->cx, q->op);
  for (uint32_t k = 0; k < s->nattr; k++) {
    if (!q->attr[k]) return anfi_fail(q->cx, q->loc, ANF_E0206, s->name->s, s->attr[k].name->s);
    if (q->attr[k] != s->attr[k].initial && !anfi_attr_check(q->cx, q->op, k, q->attr[k], q->loc))
      return false;
  }
  return true;
}

bool anfi_eval_want(const anfi_eval *q, const char *want) {
  char text[120];
  snprintf(text, sizeof text, "it needs %s", want);
  return anfi_fail(q->cx, q->loc, ANF_E0501, anfi_op[q->op].name, text);
}

bool anfi_eval_give(anfi_eval *q, anf_value *v) {
  q->out = anf_value_retain(v);
  return true;
}

static bool infer(anfi_eval *q) {
  const anf_type *few[8], **in = few;
  if (q->n > ANFI_LEN(few)) in = ANFI_NEW_N(anfi_scratch(q->cx), const anf_type *, q->n);
  for (size_t i = 0; i < q->n; i++) in[i] = anfi_value_type(q->cx, q->in[i]);
  anfi_infer t = {.cx = q->cx, .op = q->op, .loc = q->loc, .n = q->n, .in = in, .attr = q->attr};
  if (!anfi_infer_op(&t)) return false;
  for (size_t i = t.meet[0]; i < t.meet[1]; i++)
    if (!anfi_infer_holds(&t, i, q->in[i])) return anfi_infer_outside(&t);
  q->type = t.out;
  return true;
}

/* == and != of values that are no tensors. */
static bool compares_values(const anfi_eval *q) {
  bool equality = q->op == ANF_OP_Equal || q->op == ANF_OP_NotEqual;
  return equality && !(q->in[0]->kind == ANF_VALUE_TENSOR && q->in[1]->kind == ANF_VALUE_TENSOR);
}

static bool compute(anfi_eval *q) {
  const anfi_op_info *op = &anfi_op[q->op];
  if (!anfi_op_check_count(q->cx, q->op, q->n, q->loc) || !attributes(q) || !infer(q)) return false;
  if (!op->eval && !op->scalar) return anfi_fail(q->cx, q->loc, ANF_E0403, op->name);
  size_t n;
  bool over = q->over && op->flags & ANFI_WRITES_OVER && q->in[0]->type == q->type;
  if (over) q->out = anf_value_retain(q->in[0]);
  else if (anfi_is_tensor(q->type) && anfi_type_elements(q->type, &n))
    q->out = anfi_value_new_tensor(q->cx, q->type);
  if (!op->eval && compares_values(q)) {
    anfi_set_i64(q->out, 0, anfi_value_same(q->in[0], q->in[1]) == (q->op == ANF_OP_Equal));
    return true;
  }
  if (!op->eval) return anfi_eval_scalar(q);
  if (!q->scratch) q->scratch = anfi_scratch(q->cx);
  anf_value *made = q->out;
  bool good = op->eval(q);
  if (q->out != made) anf_value_release(made); // the hook gave a value that was there already
  return good;
}

static anf_status in_frame(anfi_eval *q) {
  ANFI_ENTRY(q->cx, NULL);
  if (!compute(q) && !anfi_failed(q->cx)) anfi_fail(q->cx, q->loc, ANF_E0001, anfi_op[q->op].name);
  return anfi_leave(q->cx);
}

/* Does the op compute with a size, other than to hand it on or to make a tensor of such dims? */
static bool uses(const anfi_eval *q, int64_t size) {
  size_t first = 0;
  bool used = false, shaped = false;
  switch (q->op) {
  case ANF_OP_MakeTuple:
  case ANF_OP_MakeRecord: return false;
  case ANF_OP_TupleGet:
  case ANF_OP_RecordGet:
  case ANF_OP_GetItem: first = 1; break;
  case ANF_OP_Reshape:
  case ANF_OP_BroadcastTo:
  case ANF_OP_Zeros:
  case ANF_OP_Ones:
  case ANF_OP_Full: shaped = true; break;
  default: break;
  }
  for (size_t i = first; i < q->n; i++) used |= anfi_value_has_multiple(q->in[i], size);
  const anfi_schema *s = anfi_op_schema(q->cx, q->op);
  for (uint32_t k = 0; !shaped && q->attr && k < s->nattr; k++)
    used |= q->attr[k] && anfi_value_has_multiple(q->attr[k], size);
  return used;
}

bool anfi_eval_op(anfi_eval *q) {
  anfi_arena *given = q->scratch;
  if (q->cx->watched && uses(q, q->cx->watched)) q->cx->watched_used = true;
  q->out = NULL;
  q->type = NULL;
  anf_status st = in_frame(q);
  q->scratch = given;
  if (st == ANF_OK) return true;
  anf_value_release(q->out);
  q->out = NULL;
  if (st == ANF_NOMEM) anfi_throw_nomem(q->cx);
  anfi_frame *f = q->cx->frame; // the caller's: it failed too
  if (f->status == ANF_OK) f->status = st;
  f->nerror++;
  return false;
}
