// SPDX-License-Identifier: Apache-2.0
/* Loop(step, w.., s..): calls step(w.., s..) -> (again, s'..) until `again` is false; the result is
 * the tuple of the last s'. A frame without a plan holds the step at slot[base] and the arguments
 * after it, the state being replaced in place, so a loop of any length runs in constant space. */
#include "ir/interp.h"

static bool fail(anfi_machine *m, const char *why) {
  return anfi_fail(m->cx, anfi_machine_loc(m), ANF_E0450, why);
}

/* How many of the arguments stay as they are. */
static bool invariants(anfi_machine *m, size_t p, size_t nargs, size_t *out) {
  const anfi_fn *loop = anfi_value_fn(m->slot[p]);
  const anf_value *v = anfi_attr_value(m->cx, ANF_OP_Loop, loop->attrs, 0);
  int64_t n = -1;
  if (!v || !anfi_value_is_int(v, &n) || n < 0 || (size_t)n > nargs)
    return fail(m, "`invariant` must say how many of the arguments do not change");
  *out = (size_t)n;
  return true;
}

bool anfi_loop_start(anfi_machine *m, size_t p) {
  size_t n = 0;
  if (m->sp - p < 2)
    return anfi_fail(m->cx, anfi_machine_loc(m), ANF_E0202, "Loop", m->sp - p - 1, "step args*");
  if (!invariants(m, p, m->sp - p - 2, &n)) return false;
  anfi_call_frame *f = anfi_machine_enter_map(m, p + 1);
  if (!f) return false;
  f->looping = true;
  f->invariant = (uint32_t)n;
  return true;
}

bool anfi_loop_step(anfi_machine *m, anfi_call_frame *f) {
  size_t first = f->base + 1, end = m->sp, n = end - first;
  if (f->finished) {
    size_t from = first + f->invariant;
    anf_value *v = m->acc = anfi_value_new_tuple(m->cx, end - from);
    for (size_t i = from; i < end; i++) v->u.item[i - from] = anfi_keep(m->slot[i]);
    return anfi_machine_leave(m);
  }
  anfi_machine_reserve(m, n + 1);
  anfi_machine_push(m, anfi_keep(m->slot[f->base]));
  for (size_t i = 0; i < n; i++) anfi_machine_push(m, anfi_keep(m->slot[first + i]));
  return anfi_machine_call(m, end, false);
}

bool anfi_loop_take(anfi_machine *m, anfi_call_frame *f, anf_value *v) {
  size_t from = f->base + 1 + f->invariant, n = m->sp - from;
  const anf_value *k = v->kind == ANF_VALUE_TUPLE && v->n == n + 1 ? v->u.item[0] : NULL;
  bool good = k && k->kind == ANF_VALUE_TENSOR && !k->type->n && k->type->dtype == ANF_BOOL;
  for (size_t i = 0; good && i < n; i++) {
    anfi_drop(m->slot[from + i]);
    m->slot[from + i] = anfi_keep(v->u.item[i + 1]);
  }
  if (good) f->finished = !anfi_get_i64(k, 0);
  anfi_drop(v);
  return good || fail(m, "the step must give a tuple: a bool, then the next state");
}
