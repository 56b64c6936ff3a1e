// SPDX-License-Identifier: Apache-2.0
/* Memory and ranges: aliases of tensors, effects of statements, bounds of integers.
 *
 *   tensor V = &A[8]; V[i] = x       root of V: A;  effects: writes A, reads i and x
 *   for i in (0, 8, 2) { A[i + 1] }  i + 1 = 1 * i + 1, in [1, 7]
 *
 * Answers are conservative: an unknown pointer may alias any memory that is not provably the function's own. */
#include "backend/tir/tir.h"

/* ---- aliases ---- */

texpr anfi_t_root(const talias *a, texpr tensor) {
  uint64_t *at = anfi_map_find(&a->root, anfi_key(tensor));
  return at ? (texpr)(uintptr_t)*at : NULL;
}

static void escape(talias *a, texpr tensor) {
  texpr r = anfi_t_root(a, tensor);
  if (r) *anfi_map_at(&a->escaped, anfi_key(r)) = 1;
}

/* Arguments of calls of functions by name, and of intrinsics but write_struct, are theirs while they
 * run and no longer, if no pointer comes back. */
static bool lends(texpr e) {
  if (e->kind == TX_intrin_call) return e->sub != TI_write_struct && !e->dtype.ptr;
  return e->kind == TX_call && e->u.name && !e->dtype.ptr && e->n == e->nidx;
}

/* The buffers of an exchange are lent from its start to its wait, which names them again (backend/lower/ops/comm.c). */
static bool is_exchange(texpr e) {
  int f = lends(e) && e->kind == TX_call ? anfi_t_rt_of(e->u.name->s) : -1;
  return f == TRT_anf_rt_comm_start || f == TRT_anf_rt_comm_wait;
}

static bool is_tensor(texpr e) { return e->kind == TX_tensor || e->kind == TX_tensorptr; }

/* What a statement or expression does with a tensor but lend it. */
static void keep(talias *a, texpr e) {
  texpr r = anfi_t_root(a, e->kind == TX_tensor ? e : e->in[0]);
  if (r) *anfi_map_at(&a->kept, anfi_key(r)) = 1;
}

static void keep_below(talias *a, texpr e) {
  for (uint32_t i = 0; i < e->n && !lends(e); i++)
    if (is_tensor(e->in[i]) && !(i == 0 && (e->kind == TX_indexing || e->kind == TX_tensorptr)))
      keep(a, e->in[i]);
}

/* A tensor anywhere but as the base of an index hands out its address. */
static bool see_expr(tviewer *v, texpr e) {
  talias *a = (talias *)v->user;
  keep_below(a, e);
  if (e->kind == TX_tensor) escape(a, e);
  if (e->kind == TX_tensorptr) escape(a, e->in[0]);
  if (is_exchange(e)) {
    for (uint32_t i = 0; i < e->n; i++)
      anfi_t_view_expr(v, e->in[i]->kind == TX_cast ? e->in[i]->in[0] : e->in[i]);
    return false;
  }
  if (e->kind != TX_indexing && e->kind != TX_tensorptr) return true;
  for (uint32_t i = 1; i < e->n; i++) anfi_t_view_expr(v, e->in[i]);
  return false;
}

static bool see_stmt(tviewer *v, tstmt s) {
  talias *a = (talias *)v->user;
  if (s->kind == TS_define || s->kind == TS_for_loop)
    *anfi_map_at(&a->where, anfi_key(s->e[0])) = anfi_key(s);
  if (s->kind == TS_assign && s->e[0]->kind == TX_var)
    ++*anfi_map_at(&a->assigned, anfi_key(s->e[0]));
  for (int i = s->kind == TS_define || s->kind == TS_evaluate ? 1 : 0; i < 4; i++)
    if (s->e[i] && is_tensor(s->e[i]) &&
        !(s->kind == TS_define && s->e[0]->kind == TX_tensor)) // a view
      keep(a, s->e[i]);
  if (s->kind != TS_define || s->e[0]->kind != TX_tensor) return true;
  texpr t = s->e[0], init = s->e[1], root = NULL;
  if (!init || init->kind == TX_constant) {
    root = t;
    *anfi_map_at(&a->local, anfi_key(t)) = 1;
  } else if (init->kind == TX_tensorptr || init->kind == TX_tensor)
    root = anfi_t_root(a, init->kind == TX_tensor ? init : init->in[0]);
  if (root) *anfi_map_at(&a->root, anfi_key(t)) = anfi_key(root);
  for (uint32_t i = 0; i < t->n; i++) anfi_t_view_expr(v, t->in[i]);
  if (init && init->kind == TX_tensorptr)
    for (uint32_t i = 1; i < init->n; i++) anfi_t_view_expr(v, init->in[i]);
  else if (init && init->kind != TX_tensor) anfi_t_view_expr(v, init);
  return false;
}

void anfi_t_alias_init(talias *a, tstore *t, anfi_arena *scratch, tfunc f) {
  *a = (talias){.t = t, .scratch = scratch};
  anfi_map_init(&a->root, scratch);
  anfi_map_init(&a->escaped, scratch);
  anfi_map_init(&a->kept, scratch);
  anfi_map_init(&a->local, scratch);
  anfi_map_init(&a->where, scratch);
  anfi_map_init(&a->assigned, scratch);
  for (uint32_t i = 0; i < f->n; i++)
    if (f->param[i]->kind == TX_tensor)
      *anfi_map_at(&a->root, anfi_key(f->param[i])) = anfi_key(f->param[i]);
  tviewer v = {.user = a, .enter_expr = see_expr, .enter_stmt = see_stmt};
  if (f->body) anfi_t_view_stmt(&v, f->body);
}

bool anfi_t_is_local(const talias *a, texpr root) {
  return root && anfi_map_find(&a->local, anfi_key(root)) &&
         !anfi_map_find(&a->escaped, anfi_key(root));
}
bool anfi_t_is_confined(const talias *a, texpr root) {
  return root && anfi_map_find(&a->local, anfi_key(root)) &&
         !anfi_map_find(&a->kept, anfi_key(root));
}
uint32_t anfi_t_assigned(const talias *a, texpr var) {
  uint64_t *at = anfi_map_find(&a->assigned, anfi_key(var));
  return at ? (uint32_t)*at : 0;
}

/* ---- effects ---- */

void anfi_t_effects_init(teffects *e, anfi_arena *scratch) {
  *e = (teffects){0};
  anfi_map_init(&e->seen, scratch);
}

static void touch(teffects *e, texpr x, uint64_t how) {
  uint64_t *at = anfi_map_at(&e->seen, anfi_key(x));
  if (!*at) anfi_push(e->seen.arena, &e->all, x);
  *at |= how;
}

typedef struct effect_user {
  teffects *e;
  const talias *a;
} effect_user;

static void touch_memory(effect_user *u, texpr tensor, bool write) {
  texpr root = anfi_t_root(u->a, tensor);
  if (root) touch(u->e, root, write ? 2 : 1);
  else if (write) u->e->writes_unknown = true;
  else u->e->reads_unknown = true;
}

/* A brgemm reads and writes some of what its operands point into. */
static void touch_brgemm(effect_user *u, texpr x) {
  for (uint32_t i = 0; i < BRGEMM_COUNT; i++) {
    texpr p = anfi_t_brgemm_kinds[i] == BRGEMM_IS_SIZE ? NULL : anfi_t_brgemm_in(x, i);
    if (!p) continue;
    texpr tensor = p->kind == TX_tensorptr ? p->in[0] : p;
    touch_memory(u, tensor, false);
    if (i == BRGEMM_C) touch_memory(u, tensor, true);
  }
}

static void touch_intrinsic(effect_user *u, texpr x) {
  tpurity p = anfi_t_intrins[x->sub].purity;
  if (x->sub == TI_brgemm) {
    touch_brgemm(u, x);
    return;
  }
  if (p == TP_MEMORY) u->e->reads_unknown = true;
  if (p != TP_EFFECT) return;
  u->e->reads_unknown = u->e->writes_unknown = true;
  u->e->effect |= x->sub != TI_write_struct && x->sub != TI_list_brgemm;
}

static bool effect_expr(tviewer *v, texpr e) {
  effect_user *u = (effect_user *)v->user;
  if (e->kind == TX_var) touch(u->e, e, v->lvalue ? 2 : 1);
  if (e->kind == TX_indexing) {
    touch_memory(u, e->in[0], v->lvalue > 0);
    for (uint32_t i = 1; i < e->n; i++) {
      uint32_t keep = v->lvalue;
      v->lvalue = 0;
      anfi_t_view_expr(v, e->in[i]);
      v->lvalue = keep;
    }
    return false;
  }
  if (e->kind == TX_intrin_call) touch_intrinsic(u, e);
  bool calls = e->kind == TX_call && !(u->a->m && anfi_t_pure_call(u->a->m, e));
  if (calls) u->e->reads_unknown = u->e->writes_unknown = u->e->effect = true;
  return true;
}

static bool effect_stmt(tviewer *v, tstmt s) {
  effect_user *u = (effect_user *)v->user;
  if (s->kind == TS_returns) u->e->returns = true;
  if (s->kind == TS_define || s->kind == TS_for_loop) touch(u->e, s->e[0], 2);
  return true;
}

void anfi_t_effects_expr(teffects *e, const talias *a, texpr x) {
  effect_user u = {e, a};
  tviewer v = {.user = &u, .enter_expr = effect_expr};
  anfi_t_view_expr(&v, x);
}
void anfi_t_effects_stmt(teffects *e, const talias *a, tstmt s) {
  effect_user u = {e, a};
  tviewer v = {.user = &u, .enter_expr = effect_expr, .enter_stmt = effect_stmt};
  anfi_t_view_stmt(&v, s);
}

/* May unknown memory be this? */
static bool exposed(const talias *a, texpr x) {
  return !x || (x->kind == TX_tensor && !anfi_t_is_local(a, x));
}

static bool any_exposed(const teffects *e, const talias *a, uint64_t how) {
  for (size_t i = 0; i < e->all.n; i++)
    if (e->all.at[i]->kind == TX_tensor && *anfi_map_find(&e->seen, anfi_key(e->all.at[i])) & how &&
        exposed(a, e->all.at[i]))
      return true;
  return false;
}
bool anfi_t_reads(const teffects *e, const talias *a, texpr x) {
  uint64_t *at = x ? anfi_map_find(&e->seen, anfi_key(x)) : NULL;
  if (at && *at & 1) return true;
  return exposed(a, x) && (e->reads_unknown || (!x && any_exposed(e, a, 1)));
}
bool anfi_t_writes(const teffects *e, const talias *a, texpr x) {
  uint64_t *at = x ? anfi_map_find(&e->seen, anfi_key(x)) : NULL;
  if (at && *at & 2) return true;
  return exposed(a, x) && (e->writes_unknown || (!x && any_exposed(e, a, 2)));
}

typedef struct written {
  const teffects *e;
  const talias *a;
  bool variables, yes;
} written;
static bool see_written(tviewer *v, texpr x) {
  written *w = (written *)v->user;
  if (w->variables && x->kind == TX_var) w->yes |= anfi_t_writes(w->e, w->a, x);
  if (!w->variables && x->kind == TX_indexing)
    w->yes |= anfi_t_writes(w->e, w->a, anfi_t_root(w->a, x->in[0]));
  return true;
}
bool anfi_t_writes_part(const teffects *e, const talias *a, texpr x, bool variables) {
  written w = {e, a, variables, false};
  tviewer v = {.user = &w, .enter_expr = see_written};
  anfi_t_view_expr(&v, x);
  return w.yes;
}

static bool clash(const teffects *x, const teffects *y, const talias *a) {
  for (size_t i = 0; i < x->all.n; i++) {
    texpr r = x->all.at[i];
    uint64_t how = *anfi_map_find(&x->seen, anfi_key(r));
    if (anfi_t_writes(y, a, r) || (how & 2 && anfi_t_reads(y, a, r))) return true;
  }
  return false;
}
bool anfi_t_conflict(const teffects *x, const teffects *y, const talias *a) {
  if (x->returns || y->returns || (x->effect && y->effect)) return true;
  if (x->writes_unknown && (anfi_t_reads(y, a, NULL) || anfi_t_writes(y, a, NULL))) return true;
  if (y->writes_unknown && (anfi_t_reads(x, a, NULL) || anfi_t_writes(x, a, NULL))) return true;
  if (x->reads_unknown && anfi_t_writes(y, a, NULL)) return true;
  if (y->reads_unknown && anfi_t_writes(x, a, NULL)) return true;
  return clash(x, y, a) || clash(y, x, a);
}

/* ---- integers ---- */

static bool lossless(texpr cast) {
  return anfi_t_is_int(cast->dtype) && anfi_t_is_int(cast->in[0]->dtype) &&
         anfi_t_bytes(cast->dtype) >= anfi_t_bytes(cast->in[0]->dtype) && cast->dtype.lanes == 1;
}

/* rest is kept as an expression of the type of e, NULL for none. */
bool anfi_t_affine(tstore *t, texpr e, texpr var, int64_t *coef, texpr *rest) {
  int64_t c = 0, k = 0;
  texpr r1 = NULL, r2 = NULL;
  *coef = 0;
  *rest = NULL;
  if (e == var) return *coef = 1, true;
  if (!anfi_t_uses(e, var)) return *rest = e, true;
  switch ((tkind)e->kind) {
  case TX_cast:
    if (!lossless(e) || !anfi_t_affine(t, e->in[0], var, coef, &r1)) return false;
    *rest = r1 ? anfi_t_cast(t, e->dtype, r1) : NULL;
    return true;
  case TX_add:
    if (!anfi_t_affine(t, e->in[0], var, &c, &r1) || !anfi_t_affine(t, e->in[1], var, &k, &r2))
      return false;
    *coef = c + k;
    *rest = r1 && r2 ? anfi_t_add(t, r1, r2) : r1 ? r1 : r2;
    return true;
  case TX_sub:
    if (!anfi_t_affine(t, e->in[0], var, coef, &r1) || anfi_t_uses(e->in[1], var)) return false;
    *rest = anfi_t_sub(t, r1 ? r1 : anfi_t_int(t, e->dtype, 0), e->in[1]);
    return true;
  case TX_mul: {
    texpr x = e->in[0], y = e->in[1];
    if (anfi_t_const_i64(x, &k)) x = e->in[1], y = e->in[0];
    if (!anfi_t_const_i64(y, &k) || !anfi_t_affine(t, x, var, &c, &r1)) return false;
    if (k < 0 || k > INT32_MAX || c < 0 || c > INT32_MAX) return false;
    *coef = c * k;
    *rest = r1 ? anfi_t_mul(t, r1, y) : NULL;
    return true;
  }
  default: return false;
  }
}

void anfi_t_ranges_init(tranges *r, anfi_arena *a) {
  r->a = a;
  anfi_map_init(&r->at, a);
}

void anfi_t_ranges_loop(tranges *r, tstmt loop) {
  trange b, e;
  int64_t step;
  if (!anfi_t_range(r, loop->e[1], &b) || !anfi_t_range(r, loop->e[2], &e)) return;
  if (!anfi_t_const_i64(loop->e[3], &step) || step <= 0 || e.hi <= b.lo) return;
  trange *x = ANFI_NEW(r->a, trange);
  x->lo = b.lo;
  x->hi = e.hi - 1;
  if (b.lo == b.hi && e.lo == e.hi) x->hi = b.lo + (e.hi - 1 - b.lo) / step * step;
  *anfi_map_at(&r->at, anfi_key(loop->e[0])) = anfi_key(x);
}

/* Does the type hold the whole range, so that nothing wrapped? */
static bool fits(tdtype d, const trange *r) {
  unsigned bits = (unsigned)anfi_t_bytes(d) * 8;
  if (anfi_t_class(d) == TC_UINT) return r->lo >= 0 && (bits >= 63 || r->hi < INT64_C(1) << bits);
  if (anfi_t_class(d) != TC_SINT) return false;
  return bits == 64 || (r->lo >= -(INT64_C(1) << (bits - 1)) && r->hi < INT64_C(1) << (bits - 1));
}

static bool small(const trange *r) { return r->lo > INT32_MIN && r->hi < INT32_MAX; }

static bool range_of_binary(const tranges *r, texpr e, trange *out) {
  trange x, y;
  if (!anfi_t_range(r, e->in[0], &x) || !anfi_t_range(r, e->in[1], &y) || !small(&x) || !small(&y))
    return false;
  switch ((tkind)e->kind) {
  case TX_add: *out = (trange){x.lo + y.lo, x.hi + y.hi}; return true;
  case TX_sub: *out = (trange){x.lo - y.hi, x.hi - y.lo}; return true;
  case TX_mul:
    if (x.lo < 0 || y.lo < 0) return false;
    *out = (trange){x.lo * y.lo, x.hi * y.hi};
    return true;
  case TX_div:
    if (x.lo < 0 || y.lo <= 0) return false;
    *out = (trange){x.lo / y.hi, x.hi / y.lo};
    return true;
  case TX_mod:
    if (x.lo < 0 || y.lo <= 0) return false;
    *out = (trange){0, x.hi < y.hi - 1 ? x.hi : y.hi - 1};
    return true;
  default: return false;
  }
}

bool anfi_t_range(const tranges *r, texpr e, trange *out) {
  int64_t k;
  if (e->dtype.lanes != 1 || !anfi_t_is_int(e->dtype)) return false;
  if (anfi_t_const_i64(e, &k)) {
    *out = (trange){k, k};
    return k >= 0 || anfi_t_class(e->dtype) == TC_SINT;
  }
  if (e->kind == TX_var) {
    uint64_t *at = anfi_map_find(&r->at, anfi_key(e));
    if (!at) return false;
    *out = *(const trange *)(uintptr_t)*at;
    return true;
  }
  if (e->kind == TX_cast) {
    if (!anfi_t_is_int(e->in[0]->dtype) || !anfi_t_range(r, e->in[0], out)) return false;
  } else if (anfi_t_group(e) != TG_BINARY || !range_of_binary(r, e, out)) return false;
  return fits(e->dtype, out);
}
