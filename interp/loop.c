// SPDX-License-Identifier: Apache-2.0
/* Loop(step, [n or go], w.., s.., xs..), as its row says.
 *   Loop(step, 3, w, s)    s = step(w, s) three times, in slot[base + 2]
 * A frame without a plan holds the step at slot[base] and w.., s.., xs.. after it, the state being replaced in place, so
 * a loop of any length runs in constant space, its stacks excepted. */
#include "interp/interp.h"

struct anfi_looping {
  /* signature */
  size_t nw, ns, nx, nout;
  bool counted, guarded, reverse, gives_rounds, finished;
  /* progress */
  size_t n, done;  // rounds to go, if counted; rounds that were done
  size_t cap;      // rows of `out`
  anf_value **out; // row of a round: its value for each stack; owned, or NULL
};
typedef struct anfi_looping looping;

static bool fail(anfi_machine *m, const char *why) {
  return anfi_fail(m->cx, anfi_machine_loc(m), ANF_E0450, why);
}

void anfi_loop_free(anf_ctx *cx, looping *l) {
  for (size_t i = 0; i < l->cap * l->nout; i++) anf_value_release(l->out[i]);
  anfi_raw(cx, l->out, l->cap * l->nout * sizeof *l->out, 0);
  anfi_raw(cx, l, sizeof *l, 0);
}

static void reserve_rows(anf_ctx *cx, looping *l, size_t rows) {
  if (rows <= l->cap || !l->nout) return;
  size_t cap = l->cap * 2 > rows ? l->cap * 2 : rows, row = l->nout * sizeof *l->out;
  anf_value **out = (anf_value **)anfi_raw(cx, l->out, l->cap * row, anfi_size_mul(cx, cap, row));
  if (!out) anfi_throw_nomem(cx);
  memset(out + l->cap * l->nout, 0, (cap - l->cap) * row);
  l->out = out;
  l->cap = cap;
}

/* ---- attributes ---- */

static bool read_count(anfi_machine *m, uint32_t k, size_t left, size_t *out) {
  const anfi_fn *loop = anfi_value_fn(m->slot[m->sp - 1]);
  const anf_value *v = anfi_attr_value(m->cx, ANF_OP_Loop, loop->attrs, k);
  int64_t n = -1;
  if (!v || !anfi_value_is_int(v, &n) || n < 0 || (k != ANFI_LOOP_OUTS && (size_t)n > left))
    return fail(m, k == ANFI_LOOP_INVARIANT
                       ? "`invariant` must say how many of the arguments do not change"
                       : "`stacks` and `outs` must count arguments and results");
  *out = (size_t)n;
  return true;
}

static bool is_set(anfi_machine *m, uint32_t k) {
  const anfi_fn *loop = anfi_value_fn(m->slot[m->sp - 1]);
  const anf_value *v = anfi_attr_value(m->cx, ANF_OP_Loop, loop->attrs, k);
  return v && v->kind == ANF_VALUE_TENSOR && anfi_get_i64(v, 0) != 0;
}

/* Reads the attributes of the Loop on top of the stack, which has nargs arguments. */
static bool read_attrs(anfi_machine *m, size_t nargs, looping *l) {
  *l = (looping){.counted = is_set(m, ANFI_LOOP_COUNTED),
                 .reverse = is_set(m, ANFI_LOOP_REVERSE),
                 .gives_rounds = is_set(m, ANFI_LOOP_ROUNDS)};
  l->guarded = is_set(m, ANFI_LOOP_GUARDED);
  if (l->counted && l->guarded) return fail(m, "a counted loop has no guard");
  if (l->counted && !nargs--) return fail(m, "a counted loop needs its number of rounds");
  if (l->guarded && !nargs--) return fail(m, "a guarded loop needs its guard");
  if (!read_count(m, ANFI_LOOP_INVARIANT, nargs, &l->nw) ||
      !read_count(m, ANFI_LOOP_STACKS, nargs - l->nw, &l->nx) ||
      !read_count(m, ANFI_LOOP_OUTS, 0, &l->nout))
    return false;
  if (!l->counted && (l->nx || l->reverse))
    return fail(m, "only a counted loop reads stacks or runs backwards");
  l->ns = nargs - l->nw - l->nx;
  return true;
}

static bool is_truth(const anf_value *v) {
  return v->kind == ANF_VALUE_TENSOR && !v->type->n && v->type->dtype == ANF_BOOL;
}

/* The number of rounds, or the guard. */
static bool take_first(anfi_machine *m, size_t p, looping *l) {
  int64_t n = 0;
  const anf_value *v = m->slot[p];
  if (l->guarded && !is_truth(v)) return fail(m, "the guard must be a bool");
  if (l->counted && !anfi_value_is_int(v, &n))
    return fail(m, "the number of rounds must be an integer");
  l->n = n > 0 ? (size_t)n : 0;
  l->finished = l->counted ? !l->n : !anfi_get_i64(v, 0);
  anfi_drop(m->slot[p]);
  memmove(m->slot + p, m->slot + p + 1, (--m->sp - p) * sizeof *m->slot);
  return true;
}

static bool check_stacks(anfi_machine *m, const looping *l) {
  for (size_t i = m->sp - l->nx; i < m->sp; i++)
    if (m->slot[i]->kind != ANF_VALUE_STACK || m->slot[i]->n < l->n)
      return fail(m, "a stack must have an element for each round");
  return true;
}

bool anfi_loop_start(anfi_machine *m, size_t p) {
  looping l;
  if (m->sp - p < 2)
    return anfi_fail(m->cx, anfi_machine_loc(m), ANF_E0202, "Loop", m->sp - p - 1, "step args*");
  anfi_machine_reserve(m, 1);
  anfi_machine_push(m, anfi_keep(m->slot[p]));
  bool good = read_attrs(m, m->sp - p - 3, &l);
  anfi_machine_drop_to(m, m->sp - 1);
  bool first = l.counted || l.guarded;
  if (!good || (first && !take_first(m, p + 2, &l)) || !check_stacks(m, &l)) return false;
  anfi_call_frame *f = anfi_machine_enter_map(m, p + 1);
  if (!f) return false;
  f->loop = (looping *)anfi_raw(m->cx, NULL, 0, sizeof l);
  if (!f->loop) anfi_throw_nomem(m->cx);
  *f->loop = l;
  if (l.counted) reserve_rows(m->cx, f->loop, l.n);
  return true;
}

/* ---- rounds ---- */

static size_t index_of(const looping *l) { return l->reverse ? l->n - 1 - l->done : l->done; }

static bool finish(anfi_machine *m, anfi_call_frame *f) {
  looping *l = f->loop;
  size_t from = f->base + 1 + l->nw, rounds = l->gives_rounds;
  anf_value *v = m->acc = anfi_value_new_tuple(m->cx, l->ns + l->nout + rounds);
  for (size_t i = 0; i < l->ns; i++) v->u.item[i] = anfi_keep(m->slot[from + i]);
  for (size_t k = 0; k < l->nout; k++) {
    anf_value *s = v->u.item[l->ns + k] = anfi_value_new_residual(m->cx, ANF_VALUE_STACK, l->done);
    for (size_t i = 0; i < l->done; i++) {
      s->u.item[i] = l->out[i * l->nout + k];
      l->out[i * l->nout + k] = NULL;
    }
  }
  if (rounds) v->u.item[l->ns + l->nout] = anfi_value_new_i64(m->cx, ANF_I64, (int64_t)l->done);
  return anfi_machine_leave(m);
}

bool anfi_loop_finished(const anfi_call_frame *f) { return f->loop->finished; }

bool anfi_loop_step(anfi_machine *m, anfi_call_frame *f) {
  const looping *l = f->loop;
  size_t first = f->base + 1, end = m->sp, n = l->nw + l->ns;
  if (l->finished) return finish(m, f);
  anfi_machine_reserve(m, n + l->nx + 1);
  anfi_machine_push(m, anfi_keep(m->slot[f->base]));
  for (size_t i = 0; i < l->nw; i++) anfi_machine_push(m, anfi_keep(m->slot[first + i]));
  for (size_t i = l->nw; i < n; i++) { // the round owns the state, and may write it in place
    anfi_machine_push(m, m->slot[first + i]);
    m->slot[first + i] = NULL;
  }
  for (size_t i = 0; i < l->nx; i++)
    anfi_machine_push(m, anfi_keep(m->slot[first + n + i]->u.item[index_of(l)]));
  return anfi_machine_call(m, end, false);
}

/* The round's result v: [again], state, outs. */
static bool take(anfi_machine *m, anfi_call_frame *f, const anf_value *v) {
  looping *l = f->loop;
  size_t at = !l->counted, from = f->base + 1 + l->nw;
  if (v->kind != ANF_VALUE_TUPLE || v->n != at + l->ns + l->nout) return false;
  const anf_value *k = at ? v->u.item[0] : NULL;
  if (k && !is_truth(k)) return false;
  reserve_rows(m->cx, l, l->done + 1);
  for (size_t i = 0; i < l->ns; i++) {
    m->slot[from + i] = anfi_keep(v->u.item[at + i]);
  }
  for (size_t i = 0; i < l->nout; i++)
    l->out[index_of(l) * l->nout + i] = anfi_keep(v->u.item[at + l->ns + i]);
  l->done++;
  l->finished = k ? !anfi_get_i64(k, 0) : l->done == l->n;
  return true;
}

bool anfi_loop_take(anfi_machine *m, anfi_call_frame *f) {
  anf_value *v = m->acc; // stays there while memory may run out
  bool good = take(m, f, v);
  m->acc = NULL;
  anfi_drop(v);
  return good || fail(m, "the step must give a tuple: a bool unless the loop is counted, then the "
                         "next state, then what goes to stacks");
}
