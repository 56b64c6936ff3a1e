// SPDX-License-Identifier: Apache-2.0
/* Statements, values and indices while ops are lowered (low.h has the invariants).
 *   for (i, 0, n) { y[i] = (x[i] * (a + b)) }   ->   t = (a + b); for (i, 0, n) { y[i] = (x[i] * t) }
 * A value is put into the outermost list that has its operands: loop-invariant code is hoisted as it is made. */
#include "backend/lower/low.h"

anfi_low *anfi_low_new(anf_ctx *cx, anfi_arena *a, tmod *m, const anfi_low_opts *o) {
  anfi_low *L = ANFI_NEW(a, anfi_low);
  L->cx = cx;
  L->a = a;
  L->m = m;
  L->t = m->t;
  if (o) L->o = *o;
  L->next_view = 1;
  L->first_var = m->t->next_id;
  anfi_map_init(&L->memo, a);
  anfi_map_init(&L->constants, a);
  anfi_map_init(&L->row_memo, a);
  anfi_map_init(&L->exchanged, a);
  return L;
}

/* ---- lists ---- */

static anfi_low_scope *innermost(anfi_low *L) { return L->scope.at[L->scope.n - 1]; }

static void open(anfi_low *L, bool barrier) {
  anfi_low_scope *s = ANFI_NEW(L->a, anfi_low_scope);
  s->barrier = barrier;
  anfi_push(L->a, &L->scope, s);
}

void anfi_low_open(anfi_low *L) { open(L, true); }

void anfi_low_add(anfi_low *L, tstmt s) { anfi_push(L->a, &innermost(L)->list, s); }

tstmt anfi_low_close(anfi_low *L) {
  anfi_low_scope *s = innermost(L);
  for (size_t i = 0; i < s->made.n; i++) *anfi_map_at(&L->memo, s->made.at[i]) = 0;
  for (size_t i = 0; i < s->forced.n; i++) s->forced.at[i]->tensor = NULL;
  L->scope.n--;
  return anfi_t_stmts(L->t, s->list.n, s->list.at);
}

uint64_t anfi_low_depth(const anfi_low *L, texpr v) {
  size_t i = v->id - L->first_var;
  return v->id >= L->first_var && i < L->depth.n ? L->depth.at[i] : 0;
}

/* INVARIANT: v was made after L. */
void anfi_low_set_depth(anfi_low *L, texpr v, uint64_t depth) {
  size_t i = v->id - L->first_var;
  while (L->depth.n <= i) anfi_push(L->a, &L->depth, 0);
  L->depth.at[i] = depth;
}

/* The innermost list that values must not leave. */
static size_t barrier(const anfi_low *L) {
  size_t k = L->scope.n - 1;
  while (k > 0 && !L->scope.at[k]->barrier) k--;
  return k;
}

/* The innermost scope of what e uses, where e can be computed. A variable that is assigned again has its present value in the
 * current scope alone. */
static void deepest(const anfi_low *L, texpr e, size_t *depth) {
  if (e->kind == TX_var || e->kind == TX_tensor) {
    uint64_t d = anfi_low_depth(L, e);
    if (d & ANFI_LOW_CHANGES) d = L->scope.n;
    if (d > *depth + 1) *depth = d - 1;
    return;
  }
  for (uint32_t i = 0; i < e->n; i++) deepest(L, e->in[i], depth);
}

static texpr define_in(anfi_low *L, size_t depth, texpr e, const char *name) {
  texpr v = anfi_t_var(L->t, e->dtype, name);
  anfi_low_set_depth(L, v, depth + 1);
  anfi_push(L->a, &L->scope.at[depth]->list, anfi_t_define(L->t, TL_local, v, e));
  return v;
}

bool anfi_low_is_atom(texpr e) { return e->kind == TX_var || e->kind == TX_constant; }

texpr anfi_low_atom(anfi_low *L, texpr e) {
  if (anfi_low_is_atom(e)) return e;
  size_t depth = barrier(L);
  deepest(L, e, &depth);
  return define_in(L, depth, e, "v");
}

texpr anfi_low_let(anfi_low *L, texpr value, const char *name) {
  return define_in(L, L->scope.n - 1, value, name);
}

texpr anfi_low_var(anfi_low *L, tdtype d, const char *name, texpr init) {
  texpr v = anfi_t_var(L->t, d, name);
  anfi_low_set_depth(L, v, L->scope.n | ANFI_LOW_CHANGES);
  anfi_low_add(L, anfi_t_define(L->t, TL_local, v, init));
  return v;
}

texpr anfi_low_local(anfi_low *L, anf_tir_elem e, uint64_t n, const char *name) {
  texpr v = anfi_t_tensor1(L->t, e, name, n ? n : 1);
  anfi_low_set_depth(L, v, L->scope.n);
  anfi_low_add(L, anfi_t_define(L->t, TL_local, v, NULL));
  return v;
}

texpr anfi_low_part(anfi_low *L, texpr tensor, anf_tir_elem e, texpr from, uint64_t n) {
  texpr v = anfi_t_tensor1(L->t, e, "part", n ? n : 1);
  anfi_low_set_depth(L, v, L->scope.n);
  anfi_low_add(L, anfi_t_define(L->t, TL_local, v, anfi_t_addr(L->t, tensor, 1, &from)));
  return v;
}

void anfi_low_set(anfi_low *L, texpr to, texpr value) {
  anfi_low_add(L, anfi_t_assign(L->t, to, value));
}

static void put_one(anfi_low *L, texpr to, texpr i, texpr value) {
  anfi_low_set(L, anfi_t_at(L->t, to, 1, &i, 1, 0, NULL), value);
}

void anfi_low_put(anfi_low *L, texpr to, texpr i, anfi_elem value, bool complex) {
  if (!complex) {
    put_one(L, to, i, value.re);
    return;
  }
  texpr twice = anfi_ix_mulc(L, i, 2);
  put_one(L, to, twice, value.re);
  put_one(L, to, anfi_ix_addc(L, twice, 1), value.im);
}

texpr anfi_low_load(anfi_low *L, texpr tensor, texpr i) {
  return anfi_t_at(L->t, tensor, 1, &i, 1, 0, NULL);
}

texpr anfi_low_const(anfi_low *L, tdtype d, double v) { return anfi_t_real(L->t, d, v); }

static void emit_trap(anfi_low *L, texpr bad, anfi_code code, anfi_opcode op, anfi_loc loc, texpr a,
                      texpr b) {
  if (L->o.trap) {
    L->o.trap(L, L->o.user, bad, code, op, loc, a, b);
    return;
  }
  texpr zero = anfi_ix(L, 0), in[3] = {zero, zero, anfi_t_s32(L->t, (int32_t)code)};
  anfi_low_if(L);
  anfi_low_add(L, anfi_t_eval(L->t, anfi_t_rt_call(L->t, TRT_anf_rt_check, 3, in)));
  anfi_low_if_end(L, bad);
}

/* The check is emitted where its condition is defined: code that relies on it may have moved as far out. */
void anfi_low_trap(anfi_low *L, texpr bad, anfi_code code, anfi_opcode op, anfi_loc loc, texpr a,
                   texpr b) {
  size_t depth = barrier(L), n = L->scope.n;
  if (anfi_t_is_const(bad, 0)) return;
  bad = anfi_low_atom(L, bad);
  deepest(L, bad, &depth);
  size_t inner = n - depth - 1;
  anfi_low_scope **keep = ANFI_NEW_N(L->a, anfi_low_scope *, inner + 1);
  if (inner) memcpy(keep, L->scope.at + depth + 1, inner * sizeof *keep);
  L->scope.n = depth + 1;
  emit_trap(L, bad, code, op, loc, a, b);
  if (inner) memcpy(L->scope.at + depth + 1, keep, inner * sizeof *keep);
  L->scope.n = n;
}

/* ---- loops and branches ---- */

static void enter_loop(anfi_low *L, anfi_loop *l, const char *name) {
  l->var = anfi_t_var(L->t, ANFI_IX, name);
  open(L, false);
  anfi_low_set_depth(L, l->var, L->scope.n);
}

void anfi_low_loop(anfi_low *L, anfi_loop *l, uint64_t extent, const char *name) {
  *l = (anfi_loop){.extent = extent, .step = 1, .none = extent == 1};
  if (l->none) {
    l->var = anfi_ix(L, 0);
    return;
  }
  l->begin = anfi_ix(L, 0);
  l->end = anfi_ix(L, extent);
  enter_loop(L, l, name);
}

/* The loop may have no rounds: nothing is hoisted out of it. */
void anfi_low_loop_range(anfi_low *L, anfi_loop *l, texpr begin, texpr end, uint64_t step,
                         const char *name) {
  *l = (anfi_loop){.begin = begin, .end = end, .step = step};
  enter_loop(L, l, name);
  innermost(L)->barrier = true;
}

/* A turn of a parallel loop is a call of a function, which costs more than an element. So long loops
 * are cut into ranges: a turn is a plain loop, which can become vectors. */
enum { RANGE = 1024, FEWEST_RANGES = 16 };

static tstmt in_ranges(anfi_low *L, const anfi_loop *l, tstmt body) {
  texpr from = anfi_t_var(L->t, ANFI_IX, "from"), until = anfi_ix_add(L, from, anfi_ix(L, RANGE));
  if (l->extent % RANGE) until = anfi_t_intrin2(L->t, TI_min, until, l->end);
  tstmt range = anfi_t_for(L->t, l->var, from, until, anfi_ix(L, 1), body, false, 0);
  return anfi_t_for(L->t, from, l->begin, l->end, anfi_ix(L, RANGE), anfi_t_body(L->t, range), true,
                    0);
}

static tstmt with_workload(anfi_low *L, tstmt loop) {
  int64_t cost = anfi_low_cost(loop->s[0]);
  return anfi_t_with_attrs(L->t, loop, anfi_t_attr_set(L->t, loop->attrs, TA_workload, cost));
}

void anfi_low_loop_end(anfi_low *L, anfi_loop *l) {
  if (l->none) return;
  tstmt body = anfi_low_close(L);
  bool cut = l->parallel && l->step == 1 && l->extent >= RANGE * FEWEST_RANGES;
  tstmt s =
      cut ? in_ranges(L, l, body)
          : anfi_t_for(L->t, l->var, l->begin, l->end, anfi_ix(L, l->step), body, l->parallel, 0);
  anfi_low_add(L, l->parallel ? with_workload(L, s) : s);
}

void anfi_low_put_part(anfi_low *L, const anfi_low_op *q, texpr from, texpr to, texpr i,
                       uint64_t n) {
  tdtype d = anfi_low_dt((anf_dtype)q->type->dtype);
  anfi_loop k;
  anfi_low_loop(L, &k, n, "k");
  texpr at = anfi_ix_add(L, anfi_ix_mulc(L, i, n), k.var);
  anfi_low_put(L, to, at, (anfi_elem){anfi_t_cast(L->t, d, anfi_low_load(L, from, k.var)), NULL},
               false);
  anfi_low_loop_end(L, &k);
}

enum { ENOUGH_TURNS = 64 };

void anfi_low_share(anfi_loop *l, size_t n) {
  uint64_t turns = 1;
  for (size_t k = 0; k < n && turns < ENOUGH_TURNS; k++) {
    l[k].parallel = !l[k].none;
    turns *= l[k].extent;
  }
}

void anfi_low_if(anfi_low *L) { open(L, true); }

tstmt anfi_low_then(anfi_low *L) { return anfi_low_close(L); }

void anfi_low_if_end(anfi_low *L, texpr cond) {
  tstmt body = anfi_low_close(L);
  anfi_low_add(L, anfi_t_if(L->t, cond, body, NULL));
}

void anfi_low_if_else_end(anfi_low *L, texpr cond, tstmt then_) {
  tstmt other = anfi_low_close(L);
  anfi_low_add(L, anfi_t_if(L->t, cond, then_, other));
}

bool anfi_low_each_size(anfi_low *L, anfi_sizes *s, texpr i, uint64_t n) {
  bool alike = s->full == s->last;
  if (s->turn == 2) anfi_low_if_else_end(L, anfi_t_lt(L->t, i, anfi_ix(L, n - 1)), s->then_);
  if (s->turn == 2 || (s->turn == 1 && alike)) return false;
  if (s->turn == 1) s->then_ = anfi_low_then(L);
  if (!alike) anfi_low_if(L);
  s->size = s->turn++ ? s->last : s->full;
  return true;
}

/* ---- indices ---- */

static bool known(texpr e, uint64_t *v) {
  if (e->kind != TX_constant || e->u.k.n != 1) return false;
  *v = e->u.k.bits[0];
  return true;
}

texpr anfi_ix(anfi_low *L, uint64_t v) { return anfi_t_index(L->t, v); }

texpr anfi_ix_add(anfi_low *L, texpr a, texpr b) {
  uint64_t x, y;
  if (known(a, &x)) {
    texpr t = a;
    a = b;
    b = t;
  }
  if (!known(b, &y)) return anfi_ix_trim(L, anfi_t_add(L->t, a, b));
  if (y == 0) return a;
  if (known(a, &x)) return anfi_ix(L, x + y);
  bool sum = a->kind == TX_add || a->kind == TX_sub;
  if (sum && known(a->in[1], &x))
    return anfi_ix_add(L, a->in[0], anfi_ix(L, a->kind == TX_add ? y + x : y - x));
  if ((int64_t)y < 0) return anfi_ix_trim(L, anfi_t_sub(L->t, a, anfi_ix(L, 0 - y)));
  return anfi_ix_trim(L, anfi_t_add(L->t, a, b));
}

texpr anfi_ix_addc(anfi_low *L, texpr a, int64_t c) {
  return anfi_ix_add(L, a, anfi_ix(L, (uint64_t)c));
}

texpr anfi_ix_mulc(anfi_low *L, texpr a, uint64_t c) {
  uint64_t x;
  if (known(a, &x)) return anfi_ix(L, x * c);
  if (c == 0) return anfi_ix(L, 0);
  if (c == 1) return a;
  if (a->kind == TX_mul && known(a->in[1], &x)) return anfi_ix_mulc(L, a->in[0], x * c);
  return anfi_ix_trim(L, anfi_t_mul(L->t, a, anfi_ix(L, c)));
}

texpr anfi_ix_divc(anfi_low *L, texpr a, uint64_t c) {
  uint64_t x;
  if (c == 1) return a;
  if (known(a, &x)) return anfi_ix(L, x / c);
  return anfi_ix_trim(L, anfi_t_bin(L->t, TX_div, a, anfi_ix(L, c)));
}

texpr anfi_ix_modc(anfi_low *L, texpr a, uint64_t c) {
  uint64_t x;
  if (c == 1) return anfi_ix(L, 0);
  if (known(a, &x)) return anfi_ix(L, x % c);
  return anfi_ix_trim(L, anfi_t_bin(L->t, TX_mod, a, anfi_ix(L, c)));
}

enum { MAX_INDEX = 24 }; // nodes of an index expression

texpr anfi_ix_trim(anfi_low *L, texpr e) { return e->size > MAX_INDEX ? anfi_low_atom(L, e) : e; }

/* ---- points ---- */

void anfi_pt_push(anfi_pt *p, texpr at, uint64_t extent) {
  if (extent == 1) return;
  p->at[p->n] = at;
  p->extent[p->n++] = extent;
}

anfi_pt anfi_pt_of(size_t rank, const int64_t *dims, const texpr *at) {
  anfi_pt p = {0};
  for (size_t k = 0; k < rank; k++) anfi_pt_push(&p, at[k], (uint64_t)dims[k]);
  return p;
}

anfi_pt anfi_pt_flat(texpr at, uint64_t extent) {
  anfi_pt p = {0};
  anfi_pt_push(&p, at, extent);
  return p;
}

/* The digits from..to as one number. */
static texpr number(anfi_low *L, const anfi_pt *p, uint32_t from, uint32_t to) {
  uint64_t stride = 1;
  texpr sum = NULL;
  for (uint32_t k = to; k-- > from;) stride *= p->extent[k];
  for (uint32_t k = from; k < to; k++) {
    stride /= p->extent[k];
    texpr x = anfi_ix_mulc(L, p->at[k], stride);
    sum = sum ? anfi_ix_add(L, sum, x) : x;
  }
  return sum ? sum : anfi_ix(L, 0);
}

texpr anfi_pt_linear(anfi_low *L, const anfi_pt *p) { return number(L, p, 0, p->n); }

/* Splits a number into the dims from..to. */
static void split(anfi_low *L, texpr x, size_t from, size_t to, const int64_t *dims, texpr *at) {
  for (size_t k = to; k-- > from;) {
    if (dims[k] == 1) at[k] = anfi_ix(L, 0);
    else {
      bool first = true; // no dim before it is larger than 1
      for (size_t j = from; j < k; j++) first &= dims[j] == 1;
      at[k] = first ? x : anfi_ix_modc(L, x, (uint64_t)dims[k]);
      if (!first) x = anfi_low_atom(L, anfi_ix_divc(L, x, (uint64_t)dims[k]));
    }
  }
}

/* Digits and dims that span the same range are matched, from the innermost on, so that divisions
 * are left only where the two really cut differently. */
void anfi_pt_dims(anfi_low *L, const anfi_pt *p, size_t rank, const int64_t *dims, texpr *at) {
  size_t d = rank;
  uint32_t k = p->n;
  while (d > 0) {
    size_t d1 = d--;
    uint32_t k1 = k;
    uint64_t span = (uint64_t)dims[d], have = 1;
    while (have != span) {
      if (have < span && k > 0) have *= p->extent[--k];
      else if (d > 0) span *= (uint64_t)dims[--d];
      else break;
    }
    split(L, number(L, p, k, k1), d, d1, dims, at);
  }
}
