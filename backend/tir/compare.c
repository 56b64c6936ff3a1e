// SPDX-License-Identifier: Apache-2.0
/* Structural equality up to names of variables, and content hashes.
 *
 *   f(x) { return x * 2 }   =   f(y) { return y * 2 }
 *   f(x) { return x * 2 }   ≠   f(x) { return x * 3 }     first difference: (in f, return): 2 and 3
 *
 * INVARIANT: equal functions have equal hashes; a variable hashes by the order of its definition. */
#include "backend/tir/tir.h"

void anfi_t_compare_init(tcompare *c, anfi_arena *scratch) {
  *c = (tcompare){0};
  anfi_map_init(&c->map, scratch);
  anfi_map_init(&c->back, scratch);
}

static bool differ(tcompare *c, const void *l, const void *r, bool is_expr, const char *what) {
  if (c->what) return false;
  c->l = l;
  c->r = r;
  c->is_expr = is_expr;
  c->what = what;
  return false;
}
/* Remembers the way to a difference while the comparison returns. */
static bool through(tcompare *c, const char *step) {
  anfi_push(c->map.arena, &c->path, step);
  return false;
}

static bool note(tcompare *c, texpr a, texpr b) {
  uint64_t *to = anfi_map_at(&c->map, anfi_key(a)), *from;
  if (*to && *to != anfi_key(b)) return false;
  *to = anfi_key(b);
  from = anfi_map_at(&c->back, anfi_key(b));
  if (*from && *from != anfi_key(a)) return false;
  *from = anfi_key(a);
  return true;
}

static bool same_attrs(const tcompare *c, tattrs a, tattrs b) {
  if (c->ignore_attrs) return true;
  if (a.n != b.n) return false;
  for (uint32_t i = 0; i < a.n; i++)
    if (a.at[i].key != b.at[i].key || a.at[i].value != b.at[i].value) return false;
  return true;
}

static bool same_var(tcompare *c, texpr a, texpr b) {
  uint64_t *to = anfi_map_find(&c->map, anfi_key(a)), *from = anfi_map_find(&c->back, anfi_key(b));
  if (!to && !from)
    return a == b || differ(c, a, b, true, "different variables"); // of the module, or free
  if (to && *to == anfi_key(b)) return true;
  return differ(c, a, b, true, "different variables");
}

static bool bind(tcompare *c, texpr a, texpr b) {
  if (a->kind != b->kind) return differ(c, a, b, true, "different kinds");
  if (!anfi_t_same(a->dtype, b->dtype) || a->sub != b->sub || a->nidx != b->nidx || a->n != b->n)
    return differ(c, a, b, true, "different types");
  if (c->names && strcmp(a->u.name->s, b->u.name->s) != 0)
    return differ(c, a, b, true, "different names");
  if (a->kind == TX_tensor)
    for (uint32_t i = 0; i < a->n; i++)
      if (!anfi_t_equal_expr(c, a->in[i], b->in[i])) return through(c, "dims");
  return note(c, a, b) || differ(c, a, b, true, "different variables");
}

static bool same_list(texpr a, texpr b) {
  size_t bytes = anfi_t_list_bytes(a);
  if (a->sub != b->sub || bytes != anfi_t_list_bytes(b)) return false;
  return a->u.list.data == b->u.list.data || memcmp(a->u.list.data, b->u.list.data, bytes) == 0;
}

static bool same_payload(const tcompare *c, texpr a, texpr b) {
  switch ((tkind)a->kind) {
  case TX_constant:
    if (a->sub || b->sub) return same_list(a, b);
    return a->u.k.n == b->u.k.n &&
           memcmp(a->u.k.bits, b->u.k.bits, a->u.k.n * sizeof *a->u.k.bits) == 0;
  case TX_call:
  case TX_func_addr:
    if (!a->u.name || !b->u.name) return a->u.name == b->u.name;
    return (!c->names && !c->callees) || strcmp(a->u.name->s, b->u.name->s) == 0;
  case TX_intrin_call: return same_attrs(c, a->u.attrs, b->u.attrs);
  default: return true;
  }
}

/* A phi may name a definition further down. */
static void ahead(tcompare *c, texpr a, texpr b) {
  for (uint32_t i = 0; i < a->n; i++) {
    bool both = a->in[i]->kind == TX_var && b->in[i]->kind == TX_var && a->in[i] != b->in[i];
    if (both && !anfi_map_find(&c->map, anfi_key(a->in[i])) &&
        !anfi_map_find(&c->back, anfi_key(b->in[i])))
      note(c, a->in[i], b->in[i]);
  }
}

static bool children(tcompare *c, texpr a, texpr b) {
  if (a->kind == TX_ssa_phi) ahead(c, a, b);
  for (uint32_t i = 0; i < a->n; i++)
    if (!anfi_t_equal_expr(c, a->in[i], b->in[i])) return through(c, anfi_t_kind_names[a->kind]);
  return true;
}

static bool commutes(texpr e) {
  return e->kind == TX_add || e->kind == TX_mul || e->kind == TX_cmp_eq || e->kind == TX_cmp_ne;
}

static bool pair(tcompare *c, texpr a, texpr b, uint32_t swap) {
  return (anfi_t_equal_expr(c, a->in[0], b->in[swap]) &&
          anfi_t_equal_expr(c, a->in[1], b->in[1 - swap])) ||
         through(c, anfi_t_kind_names[a->kind]);
}

bool anfi_t_equal_expr(tcompare *c, texpr a, texpr b) {
  if (!a || !b) return a == b || differ(c, a, b, true, "one is absent");
  if (a->kind != b->kind) return differ(c, a, b, true, "different kinds");
  if (a->kind == TX_var || a->kind == TX_tensor) return same_var(c, a, b);
  if (!anfi_t_same(a->dtype, b->dtype)) return differ(c, a, b, true, "different types");
  if (a->n != b->n || a->sub != b->sub || a->nidx != b->nidx)
    return differ(c, a, b, true, "different shapes");
  if (!same_payload(c, a, b))
    return differ(c, a, b, true,
                  a->kind == TX_constant ? "different values" : "different callees or attributes");
  if (!c->commutative || !commutes(a)) return children(c, a, b);
  /* Sizes say which order can agree, so that deep sums stay cheap. */
  bool in_order = a->in[0]->size == b->in[0]->size, exchanged = a->in[0]->size == b->in[1]->size;
  tcompare quiet = *c; // a difference in one order is none if the other order agrees
  if (!in_order || !exchanged) return exchanged ? pair(c, a, b, 1) : pair(c, a, b, 0);
  return pair(&quiet, a, b, 0) || pair(c, a, b, 1);
}

static const char *const roles[TS_COUNT][4] = {
    [TS_define] = {"define", "define.init"},
    [TS_assign] = {"assign.to", "assign.value"},
    [TS_if_else] = {"if.condition"},
    [TS_for_loop] = {"for.var", "for.begin", "for.end", "for.step"},
    [TS_while_loop] = {"while.condition"},
    [TS_evaluate] = {"evaluate"},
    [TS_returns] = {"return"}};

/* The condition of a while sees the phis that its body begins with. */
static void loop_phis(tcompare *c, tstmt a, tstmt b) {
  for (uint32_t i = 0; i < a->n && i < b->n; i++) {
    if (a->s[i]->kind != TS_define || b->s[i]->kind != TS_define ||
        !anfi_t_isa(a->s[i]->e[1], TX_ssa_phi))
      return;
    note(c, a->s[i]->e[0], b->s[i]->e[0]);
  }
}

static bool expressions(tcompare *c, tstmt a, tstmt b) {
  if (a->kind == TS_while_loop) loop_phis(c, a->s[0], b->s[0]);
  bool defines = a->kind == TS_define || a->kind == TS_for_loop;
  for (int i = defines; i < 4; i++)
    if (!anfi_t_equal_expr(c, a->e[i], b->e[i])) return through(c, roles[a->kind][i]);
  return !defines || bind(c, a->e[0], b->e[0]) || through(c, roles[a->kind][0]);
}

static const char *step_name(const tcompare *c, tstmt s, uint32_t i) {
  if (s->kind == TS_stmts) return anfi_sprintf(c->map.arena, "statement %u", i + 1);
  return s->kind == TS_if_else ? i ? "else" : "then" : "body";
}

bool anfi_t_equal_stmt(tcompare *c, tstmt a, tstmt b) {
  if (!a || !b) return a == b || differ(c, a, b, false, "one is absent");
  if (a->kind != b->kind) return differ(c, a, b, false, "different kinds");
  if ((a->kind != TS_stmts && a->sub != b->sub) || a->threads != b->threads)
    return differ(c, a, b, false, "different linkage or parallelism");
  if (!same_attrs(c, a->attrs, b->attrs)) return differ(c, a, b, false, "different attributes");
  if (!expressions(c, a, b)) return false;
  for (uint32_t i = 0; i < a->n && i < b->n; i++)
    if (!anfi_t_equal_stmt(c, a->s[i], b->s[i])) return through(c, step_name(c, a, i));
  return a->n == b->n || differ(c, a, b, false, "different numbers of statements");
}

bool anfi_t_equal_func(tcompare *c, tfunc a, tfunc b) {
  if (a->n != b->n) return differ(c, NULL, NULL, true, "different numbers of parameters");
  if (!anfi_t_same(a->ret, b->ret)) return differ(c, NULL, NULL, true, "different result types");
  if (c->names && strcmp(a->name->s, b->name->s) != 0)
    return differ(c, NULL, NULL, true, "different names");
  if (!same_attrs(c, a->attrs, b->attrs))
    return differ(c, NULL, NULL, true, "different attributes");
  for (uint32_t i = 0; i < a->n; i++)
    if (!bind(c, a->param[i], b->param[i]))
      return through(c, anfi_sprintf(c->map.arena, "parameter %u", i + 1));
  return anfi_t_equal_stmt(c, a->body, b->body) || through(c, "body");
}

bool anfi_t_identical(texpr a, texpr b) {
  if (a == b) return true;
  if (!a || !b || a->kind != b->kind || a->kind == TX_var || a->kind == TX_tensor) return false;
  if (!anfi_t_same(a->dtype, b->dtype) || a->n != b->n || a->sub != b->sub || a->nidx != b->nidx)
    return false;
  tcompare plain = {.names = true};
  if (!same_payload(&plain, a, b)) return false;
  for (uint32_t i = 0; i < a->n; i++)
    if (!anfi_t_identical(a->in[i], b->in[i])) return false;
  return true;
}

/* ---- hashes ---- */

typedef struct hasher {
  anfi_map order; // variable → 1 + its number; NULL arena: by identity
  uint64_t n;
} hasher;

static uint64_t dtype_hash(tdtype d) {
  return (uint64_t)d.elem | (uint64_t)d.ptr << 8 | (uint64_t)d.lanes << 16 | (uint64_t)d.rows << 32;
}

static uint64_t attrs_hash(uint64_t h, tattrs a) {
  for (uint32_t i = 0; i < a.n; i++)
    h = anfi_hash_mix(anfi_hash_mix(h, a.at[i].key), (uint64_t)a.at[i].value);
  return h;
}

static uint64_t hash_expr(hasher *s, texpr e) {
  uint64_t h = anfi_hash_mix(e->kind, dtype_hash(e->dtype));
  if (e->kind == TX_var || e->kind == TX_tensor) {
    uint64_t *at = s->order.arena ? anfi_map_find(&s->order, anfi_key(e)) : NULL;
    return anfi_hash_mix(h, s->order.arena ? at ? *at : anfi_hash(e->u.name->s, e->u.name->len, 1)
                                           : e->id);
  }
  h = anfi_hash_mix(h, (uint64_t)e->sub << 32 | e->n);
  if (anfi_t_is_list(e)) h = anfi_hash(e->u.list.data, anfi_t_list_bytes(e), h);
  else if (e->kind == TX_constant) h = anfi_hash(e->u.k.bits, e->u.k.n * sizeof *e->u.k.bits, h);
  else if (e->kind == TX_intrin_call) h = attrs_hash(h, e->u.attrs);
  else if (e->kind == TX_func_addr || e->kind == TX_call)
    h = e->u.name ? anfi_hash(e->u.name->s, e->u.name->len, h) : h;
  for (uint32_t i = 0; i < e->n; i++) h = anfi_hash_mix(h, hash_expr(s, e->in[i]));
  return h;
}

uint64_t anfi_t_hash_expr(texpr e) {
  hasher s = {0};
  return hash_expr(&s, e);
}

static uint64_t hash_def(hasher *s, texpr v) {
  uint64_t h = dtype_hash(v->dtype);
  *anfi_map_at(&s->order, anfi_key(v)) = ++s->n;
  if (v->kind == TX_tensor)
    for (uint32_t i = 0; i < v->n; i++) h = anfi_hash_mix(h, hash_expr(s, v->in[i]));
  return h;
}

static uint64_t hash_stmt(hasher *s, tstmt x) {
  uint64_t h = attrs_hash(anfi_hash_mix(x->kind, (uint64_t)x->threads << 32 | x->n), x->attrs);
  bool defines = x->kind == TS_define || x->kind == TS_for_loop;
  if (x->kind != TS_stmts) h = anfi_hash_mix(h, x->sub);
  for (int i = defines; i < 4; i++) h = anfi_hash_mix(h, x->e[i] ? hash_expr(s, x->e[i]) : 0);
  if (defines) h = anfi_hash_mix(h, hash_def(s, x->e[0]));
  for (uint32_t i = 0; i < x->n; i++) h = anfi_hash_mix(h, x->s[i] ? hash_stmt(s, x->s[i]) : 0);
  return h;
}

static uint64_t hash_func(hasher *s, tfunc f) {
  uint64_t h = anfi_hash(f->name->s, f->name->len, dtype_hash(f->ret));
  for (uint32_t i = 0; i < f->n; i++) h = anfi_hash_mix(h, hash_def(s, f->param[i]));
  return attrs_hash(anfi_hash_mix(h, f->body ? hash_stmt(s, f->body) : 0), f->attrs);
}

uint64_t anfi_t_hash_func(tfunc f, anfi_arena *scratch) {
  hasher s = {0};
  anfi_map_init(&s.order, scratch);
  return hash_func(&s, f);
}

uint64_t anfi_t_hash_mod(const tmod *m, anfi_arena *scratch) {
  hasher s = {0};
  uint64_t h = m->func.n;
  anfi_map_init(&s.order, scratch);
  for (size_t i = 0; i < m->global.n; i++) h = anfi_hash_mix(h, hash_stmt(&s, m->global.at[i]));
  if (m->image) h = anfi_hash(m->image, (size_t)m->image_size, h);
  for (size_t i = 0; i < m->func.n; i++) h = anfi_hash_mix(h, hash_func(&s, m->func.at[i]));
  return h;
}
