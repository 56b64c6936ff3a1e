// SPDX-License-Identifier: Apache-2.0
/* row_inplace: in-place rows: a tensor that a loop writes row by row takes the buffer of one that dies there.
 *
 *   for row: part = &logits[row * 4096]         →    gradient: [..] = &logits[0]
 *     .. reads of part ..                            the loop as it was
 *     to = &gradient[row * 4096]
 *     .. writes of to ..
 *
 * A row of the loop's body is a view of each tensor, at the same place; the tensors are used in no other way there, and no
 * statement of the body from the first that uses the row written on uses the row read. So each element is read for the last
 * time before it is written, and other turns use other rows. The loop may be the body of a private function, which then says
 * by inplace_hint that two of its parameters may be one buffer. Loops of threads are left alone: their bodies become functions
 * of both tensors (closurizer_cpu). */
#include "takeover.h"

enum { MOST_VIEWS = 16 };

typedef struct user {
  tpass_cx *p;
  takeovers t;
  anfi_map hint; // function → 1 + hint
} user;

/* ---- rows of a loop ---- */

typedef struct row { // a view at the top of a loop's body
  texpr view, of, from;
} row;

typedef struct counter {
  texpr tensor;
  uint32_t n;
} counter;

static bool count(tviewer *v, texpr e) {
  counter *c = (counter *)v->user;
  c->n += e == c->tensor;
  return true;
}
static uint32_t uses_in(tstmt s, texpr tensor) {
  counter c = {tensor, 0};
  tviewer v = {.user = &c, .enter_expr = count};
  anfi_t_view_stmt(&v, s);
  return c.n;
}

static uint32_t rows_of(tstmt loop, row *out) {
  uint32_t n = 0;
  tstmt body = loop->s[0];
  for (uint32_t i = 0; i < body->n && n < MOST_VIEWS; i++) {
    tstmt s = body->s[i];
    texpr at = s->kind == TS_define && s->e[0]->kind == TX_tensor ? s->e[1] : NULL;
    if (!at || at->kind != TX_tensorptr || at->nidx != 1 || at->in[0]->kind != TX_tensor) continue;
    out[n++] = (row){s->e[0], at->in[0], at->in[1]};
  }
  return n;
}

/* Elements from one row to the next, if `from` is the row's number times that; or 0. */
static uint64_t row_size(tstmt loop, texpr from) {
  int64_t c;
  if (from == loop->e[0]) return 1;
  if (from->kind != TX_mul || from->in[0] != loop->e[0] || !anfi_t_const_i64(from->in[1], &c))
    return 0;
  return c > 0 ? (uint64_t)c : 0;
}

static bool is_row(const row *r, uint64_t size) {
  uint64_t n;
  return !anfi_t_has_strides(r->view) && anfi_t_const_elems(r->view, &n) && n <= size;
}

/* Is every use of `in` before the first of `out`, and neither the start of another view? */
static bool in_order(tstmt body, const row *in, const row *out) {
  bool written = false;
  for (uint32_t i = 0; i < body->n; i++) {
    tstmt s = body->s[i];
    bool own = s->kind == TS_define && (s->e[0] == in->view || s->e[0] == out->view);
    if (own) continue;
    uint32_t reads = uses_in(s, in->view), writes = uses_in(s, out->view);
    bool view = s->kind == TS_define && s->e[0]->kind == TX_tensor && s->e[1];
    if (view && (reads || writes)) return false;
    written |= writes > 0;
    if (written && reads) return false;
  }
  return true;
}

static bool may_share(tstmt loop, const row *in, const row *out) {
  uint64_t size = row_size(loop, in->from);
  return in->of != out->of && size && anfi_t_identical(in->from, out->from) && is_row(in, size) &&
         is_row(out, size) && anfi_t_same(in->of->dtype, out->of->dtype) &&
         uses_in(loop, in->of) == 1 && uses_in(loop, out->of) == 1 && in_order(loop->s[0], in, out);
}

static tstmt serial_loop(tstmt s) {
  while (s && s->kind == TS_stmts && s->n == 1) s = s->s[0];
  int64_t step;
  return s && s->kind == TS_for_loop && !s->sub && s->s[0]->kind == TS_stmts &&
                 anfi_t_const_i64(s->e[3], &step) && step > 0
             ? s
             : NULL;
}

/* ---- where the tensors live ---- */

static void by_loop(user *u, tstmt loop, uint32_t at) {
  row r[MOST_VIEWS];
  uint32_t n = rows_of(loop, r);
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < n; k++)
      if (i != k && anfi_t_use_of(&u->t, r[i].of) && anfi_t_use_of(&u->t, r[k].of) &&
          may_share(loop, &r[i], &r[k]) && anfi_t_take_over(&u->t, r[i].of, r[k].of, at, 1))
        return;
}

/* The number of a parameter, or UINT32_MAX. */
static uint32_t argument(tfunc f, texpr param) {
  for (uint32_t i = 0; i < f->n; i++)
    if (f->param[i] == param) return i;
  return UINT32_MAX;
}

static bool passed_once(texpr call, uint32_t i, uint32_t k) {
  for (uint32_t j = 0; j < call->nidx; j++) {
    if (j != i && anfi_t_uses(call->in[j], call->in[i])) return false;
    if (j != k && anfi_t_uses(call->in[j], call->in[k])) return false;
  }
  return true;
}

static void by_call(user *u, texpr call, uint32_t at) {
  row r[MOST_VIEWS];
  tfunc f = anfi_t_mod_find(u->p->m, call->u.name);
  tstmt loop = f && f->body ? serial_loop(f->body) : NULL;
  if (!loop || !anfi_t_attr(f->attrs, TA_is_private, NULL) ||
      anfi_t_attr(f->attrs, TA_inplace_hint, NULL))
    return;
  uint64_t *known = anfi_map_at(&u->hint, anfi_key(f));
  uint32_t n = rows_of(loop, r);
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < n; k++) {
      uint32_t in = argument(f, r[i].of), out = argument(f, r[k].of);
      if (in > 255 || out == UINT32_MAX || in == out || out >= call->nidx || in >= call->nidx)
        continue;
      uint64_t hint = 256 * (uint64_t)out + in + 1;
      if ((*known && *known != hint) || !passed_once(call, in, out) ||
          !may_share(loop, &r[i], &r[k]) ||
          !anfi_t_take_over(&u->t, call->in[in], call->in[out], at, 0))
        continue;
      *known = hint;
      return;
    }
}

static tstmt enter(tvisitor *v, tstmt s) {
  user *u = (user *)v->user;
  if (s->kind != TS_stmts || !anfi_t_takeovers_read(&u->t, v->scratch, s)) return s;
  for (uint32_t i = 0; i < s->n; i++) {
    tstmt x = s->s[i], loop = serial_loop(x);
    if (loop) by_loop(u, loop, i);
    else if (x->kind == TS_evaluate && x->e[0]->kind == TX_call) by_call(u, x->e[0], i);
  }
  return s;
}

static tstmt define(tvisitor *v, tstmt s) { return anfi_t_taken(&((user *)v->user)->t, v, s); }

static tfunc hinted(user *u, tfunc f) {
  uint64_t *hint = anfi_map_find(&u->hint, anfi_key(f));
  if (!hint || !*hint) return f;
  struct anf_tir_func_node *r = ANFI_NEW(&u->p->t->arena, struct anf_tir_func_node);
  *r = *f;
  r->attrs = anfi_t_attr_set(u->p->t, f->attrs, TA_inplace_hint, (int64_t)(*hint - 1));
  return r;
}

const tmod *anfi_t_pass_row_inplace(tpass_cx *p, const tmod *m) {
  tmod *o = anfi_t_mod_like(m);
  user u = {.p = p};
  tfunc *done = ANFI_NEW_N(p->scratch, tfunc, m->func.n + 1);
  anfi_map_init(&u.hint, p->scratch);
  for (size_t i = 0; i < m->func.n; i++) {
    tvisitor v;
    anfi_t_takeovers_init(&u.t, p->scratch);
    anfi_t_visitor_init(&v, p->t, p->scratch, &u);
    v.enter = enter;
    v.stmt = define;
    done[i] = m->func.at[i]->body ? anfi_t_visit_func(&v, m->func.at[i]) : m->func.at[i];
  }
  for (size_t i = 0; i < m->func.n; i++) {
    uint64_t *hint = anfi_map_find(&u.hint, anfi_key(m->func.at[i]));
    if (hint && *hint) *anfi_map_at(&u.hint, anfi_key(done[i])) = *hint;
    anfi_t_mod_add(o, hinted(&u, done[i]));
  }
  return o;
}
