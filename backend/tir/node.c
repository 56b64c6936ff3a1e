// SPDX-License-Identifier: Apache-2.0
/* Stores, modules and the makers of nodes.
 *   anfi_t_add(t, a, b)   ->   the node (a + b): depth 1 + the deeper of both, size 1 + both
 * INVARIANT: every node is made here, whole, with the depth and size of its tree checked. */
#include "backend/tir/tir.h"

#include <math.h>

enum { MAX_SIZE = 1 << 24, MAX_DEPTH = 2000 };

const tintrin_info anfi_t_intrins[TI_COUNT] = {
#define ANF_TIR_INTRIN(name, lo, hi, typing, cls, fn) {#name, lo, hi, TT_##typing, TP_##cls},
#include "backend/tir/intrin.def"
#undef ANF_TIR_INTRIN
};
const char *const anfi_t_attr_names[TA_COUNT] = {
#define ANF_TIR_ATTR(name, doc) #name,
#include "backend/tir/attr.def"
#undef ANF_TIR_ATTR
};
const char *const anfi_t_kind_names[TX_COUNT] = {
#define ANF_TIR_EXPR(name, group, text) #name,
#include "backend/tir/expr.def"
#undef ANF_TIR_EXPR
};
const char *const anfi_t_kind_text[TX_COUNT] = {
#define ANF_TIR_EXPR(name, group, text) text,
#include "backend/tir/expr.def"
#undef ANF_TIR_EXPR
};
static const uint8_t groups[TX_COUNT] = {
#define ANF_TIR_EXPR(name, group, text) TG_##group,
#include "backend/tir/expr.def"
#undef ANF_TIR_EXPR
};
const char *const anfi_t_stmt_names[TS_COUNT] = {
#define ANF_TIR_STMT(name, nexpr, nstmt) #name,
#include "backend/tir/stmt.def"
#undef ANF_TIR_STMT
};

tgroup anfi_t_group(texpr e) { return (tgroup)groups[e->kind]; }

int anfi_t_intrin_of(const char *s, size_t len) {
  for (int i = 0; i < TI_COUNT && len; i++) // the parser asks of every name: the first byte says no
    if (*anfi_t_intrins[i].name == *s && strlen(anfi_t_intrins[i].name) == len &&
        memcmp(anfi_t_intrins[i].name, s, len) == 0)
      return i;
  return -1;
}
int anfi_t_attr_of(const char *s, size_t len) {
  for (int i = 0; i < TA_COUNT; i++)
    if (strlen(anfi_t_attr_names[i]) == len && memcmp(anfi_t_attr_names[i], s, len) == 0) return i;
  return -1;
}

double anfi_t_math(tintrin i, double a, double b) {
  switch (i) { /* dispatch */
#define FN_PURE(name, fn)
#define FN_MEMORY(name, fn)
#define FN_EFFECT(name, fn)
// clang-format off
#define FN_MATH1(name, fn) case TI_##name: return fn(a);
#define FN_MATH2(name, fn) case TI_##name: return fn(a, b);
#define ANF_TIR_INTRIN(name, lo, hi, typing, cls, fn) FN_##cls(name, fn)
#include "backend/tir/intrin.def"
#undef ANF_TIR_INTRIN
    // clang-format on
  default: return 0;
  }
}

/* ---- stores and modules ---- */

tstore *anfi_t_store_new(anf_ctx *cx) {
  tstore *t = (tstore *)anfi_object(cx, sizeof *t);
  if (!t) anfi_throw_nomem(cx);
  *t = (tstore){.cx = cx, .refs = 0, .next_id = 1};
  t->max_depth = cx->max_nesting < MAX_DEPTH ? cx->max_nesting : MAX_DEPTH;
  anfi_arena_init(&t->arena, cx);
  anfi_strtab_init(&t->names, &t->arena);
  return t;
}

void anfi_t_store_release(tstore *t) {
  if (t->refs > 1) {
    t->refs--;
    return;
  }
  anf_ctx *cx = t->cx;
  for (size_t i = 0; i < t->blocks.n; i++) anfi_os_block_release(t->blocks.at[i]);
  anfi_arena_free(&t->arena);
  anfi_object_free(cx, t);
}

static void leave_mod(void *p) {
  tmod *m = (tmod *)p;
  if (!m->keep) anf_tir_module_free(m);
}

tmod *anfi_t_mod_new(tstore *t) {
  tmod *m = (tmod *)anfi_raw(t->cx, NULL, 0, sizeof *m);
  if (!m) {
    anf_ctx *cx = t->cx;
    if (!t->refs) anfi_t_store_release(t);
    anfi_throw_nomem(cx);
  }
  *m = (tmod){.t = t, .cx = t->cx};
  t->refs++;
  anfi_map_init(&m->by_name, &t->arena);
  anfi_defer(t->cx, ANFI_ALWAYS, leave_mod, m);
  return m;
}

void anfi_t_mod_drop(tmod *m) {
  tstore *t = m->t;
  if (m->keep || !t) return;
  m->t = NULL;
  anfi_t_store_release(t);
}

void anf_tir_module_free(tmod *m) {
  if (!m) return;
  anf_ctx *cx = m->cx;
  if (m->t) anfi_t_store_release(m->t);
  anfi_raw(cx, m, sizeof *m, 0);
}
void anfi_free_tir(void *m) { anf_tir_module_free((tmod *)m); }

void anfi_t_mod_add(tmod *m, tfunc f) {
  anfi_push(&m->t->arena, &m->func, f);
  uint64_t *at = anfi_map_at(&m->by_name, anfi_key(f->name));
  if (!*at) *at = m->func.n; // a second one of the name is the validator's to report
}

void anfi_t_mod_replace(tmod *m, size_t i, tfunc f) { m->func.at[i] = f; }

tfunc anfi_t_mod_find(const tmod *m, const anfi_str *name) {
  uint64_t *at = name ? anfi_map_find(&m->by_name, anfi_key(name)) : NULL;
  return at ? m->func.at[*at - 1] : NULL;
}

tmod *anfi_t_mod_like(const tmod *m) {
  tmod *o = anfi_t_mod_new(m->t);
  for (size_t i = 0; i < m->global.n; i++) anfi_push(&m->t->arena, &o->global, m->global.at[i]);
  o->props = m->props;
  o->image = m->image;
  o->image_size = m->image_size;
  o->binds = m->binds;
  for (size_t i = 0; i < m->bound.n; i++) anfi_push(&m->t->arena, &o->bound, m->bound.at[i]);
  return o;
}

const anfi_str *anfi_t_fresh_func(const tmod *m, const char *base) {
  char buf[256];
  const anfi_str *s = anfi_t_name(m->t, base);
  for (uint32_t k = 1; anfi_t_mod_find(m, s); k++) {
    snprintf(buf, sizeof buf, "%.200s_%u", base, k);
    s = anfi_t_name(m->t, buf);
  }
  return s;
}

static bool ident_char(unsigned char c, bool first) {
  return c >= 0x80 || c == '_' || c == '.' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (!first && c >= '0' && c <= '9');
}

const anfi_str *anfi_t_name(tstore *t, const char *s) {
  if (t->named && strcmp(t->named->s, s) == 0) return t->named;
  size_t n = strlen(s);
  bool good = n && !anfi_t_is_keyword(s, n);
  for (size_t i = 0; good && i < n; i++) good = ident_char((unsigned char)s[i], i == 0);
  if (good) return t->named = anfi_intern(&t->names, s, n);
  char *p = (char *)anfi_alloc(&t->arena, n + 3);
  size_t k = 0;
  if (!n || !ident_char((unsigned char)s[0], true)) p[k++] = '_';
  for (size_t i = 0; i < n; i++) p[k++] = ident_char((unsigned char)s[i], false) ? s[i] : '_';
  if (anfi_t_is_keyword(p, k)) p[k++] = '_';
  return anfi_intern(&t->names, p, k);
}

/* ---- expressions ---- */

typedef struct anf_tir_expr_node xnode;
typedef struct anf_tir_stmt_node snode;

ANFI_NORETURN static void too_big(tstore *t, const char *what) {
  anfi_fail(t->cx, anfi_t_loc(t, t->line, t->col), ANF_E0801, what);
  anfi_throw(t->cx);
}

static xnode *fresh(tstore *t, tkind k, tdtype d, size_t n) {
  if (n > MAX_SIZE) too_big(t, "expression");
  xnode *e = (xnode *)anfi_alloc(&t->arena, sizeof *e + n * sizeof(texpr));
  memset(e, 0, sizeof *e);
  e->kind = (uint8_t)k;
  e->dtype = d;
  e->n = (uint32_t)n;
  e->line = t->line;
  e->col = t->col;
  return e;
}

/* Depth and size of the tree, from its children. A tensor counts as a leaf where it is used. */
static texpr finish(tstore *t, xnode *e) {
  uint32_t depth = 1;
  uint64_t size = 1;
  for (uint32_t i = 0; i < e->n; i++) {
    texpr c = e->in[i];
    bool leaf = c->kind == TX_tensor;
    if (!leaf && c->depth >= depth) depth = c->depth + 1u;
    size += leaf ? 1 : c->size;
  }
  if (depth > t->max_depth) too_big(t, "expression");
  if (size > MAX_SIZE) too_big(t, "expression");
  e->depth = (uint16_t)depth;
  e->size = (uint32_t)size;
  return e;
}

static xnode *with(tstore *t, tkind k, tdtype d, size_t n, const texpr *in) {
  xnode *e = fresh(t, k, d, n);
  if (n) memcpy(e->in, in, n * sizeof *in);
  return e;
}

texpr anfi_t_bits(tstore *t, tdtype d, uint32_t n, const uint64_t *bits) {
  bool splat = n > 1;
  for (uint32_t i = 1; splat && i < n; i++) splat = bits[i] == bits[0];
  if (splat) n = 1;
  xnode *e = fresh(t, TX_constant, d, 0);
  uint64_t *p = (uint64_t *)anfi_alloc(&t->arena, anfi_size_mul(t->cx, n, sizeof *p));
  if (n) memcpy(p, bits, n * sizeof *p);
  e->u.k.bits = p;
  e->u.k.n = n;
  return finish(t, e);
}

size_t anfi_t_list_width(tdtype d) {
  return anfi_t_is_void(d) ? sizeof(uint64_t) : anfi_t_bytes(d); // void: generic slots
}

uint64_t anfi_t_list_lane(texpr list, uint64_t i) {
  size_t width = anfi_t_list_width(list->dtype);
  uint64_t bits = 0;
  memcpy(&bits, list->u.list.data + (list->u.list.n == 1 ? 0 : i) * width, width);
  return bits;
}

static texpr list(tstore *t, tdtype d, uint32_t n, const unsigned char *data, anfi_os_block *b) {
  xnode *e = fresh(t, TX_constant, d, 0);
  e->sub = 1;
  e->u.list.data = data;
  e->u.list.n = n;
  e->u.list.block = b;
  return finish(t, e);
}

static unsigned char *list_room(tstore *t, tdtype d, uint32_t n) {
  return (unsigned char *)anfi_alloc(&t->arena, anfi_size_mul(t->cx, n, anfi_t_list_width(d)) + 1);
}

texpr anfi_t_list(tstore *t, tdtype d, uint32_t n, const uint64_t *bits) {
  size_t width = anfi_t_list_width(d);
  unsigned char *p = list_room(t, d, n);
  for (uint32_t i = 0; i < n; i++) memcpy(p + i * width, &bits[i], width); // little-endian
  return list(t, d, n, p, NULL);
}

texpr anfi_t_list_copy(tstore *t, tdtype d, uint32_t n, const unsigned char *data) {
  unsigned char *p = list_room(t, d, n);
  if (n) memcpy(p, data, n * anfi_t_list_width(d));
  return list(t, d, n, p, NULL);
}

texpr anfi_t_list_block(tstore *t, tdtype d, uint32_t n, anfi_os_block *b) {
  anfi_push(&t->arena, &t->blocks, b);
  anfi_os_block_retain(b);
  return list(t, d, n, anfi_os_block_data(b), b);
}

texpr anfi_t_int(tstore *t, tdtype d, int64_t v) {
  uint64_t bits = anfi_t_lane_of_i64(d, v);
  return anfi_t_bits(t, d, 1, &bits);
}
texpr anfi_t_real(tstore *t, tdtype d, double v) {
  uint64_t bits = anfi_t_lane_of_f64(d, v);
  return anfi_t_bits(t, d, 1, &bits);
}
texpr anfi_t_none(tstore *t) { return anfi_t_bits(t, anfi_t_dt(ANF_TIR_void), 1, &(uint64_t){0}); }

texpr anfi_t_var(tstore *t, tdtype d, const char *name) {
  xnode *e = fresh(t, TX_var, d, 0);
  e->u.name = anfi_t_name(t, name);
  e->id = t->next_id++;
  return finish(t, e);
}

texpr anfi_t_tensor(tstore *t, anf_tir_elem el, bool ptr, const char *name, uint32_t rank,
                    const texpr *dims, const texpr *strides) {
  if (rank > UINT16_MAX) too_big(t, "tensor");
  /* elements that are pointers have no pointer type of their own: void* */
  xnode *e = fresh(t, TX_tensor, ptr ? anfi_t_ptr(ANF_TIR_void) : anfi_t_ptr(el),
                   strides ? 2 * rank : rank);
  e->sub = ptr;
  e->nidx = (uint16_t)rank;
  if (rank) memcpy(e->in, dims, rank * sizeof *dims);
  if (strides) memcpy(e->in + rank, strides, rank * sizeof *strides);
  e->u.name = anfi_t_name(t, name);
  e->id = t->next_id++;
  return finish(t, e);
}

texpr anfi_t_tensor1(tstore *t, anf_tir_elem e, const char *name, uint64_t n) {
  texpr dim = anfi_t_index(t, n);
  return anfi_t_tensor(t, e, false, name, 1, &dim, NULL);
}

static tdtype elem_of(texpr tensor) {
  if (tensor->kind == TX_tensor && tensor->sub) return anfi_t_ptr(ANF_TIR_void);
  return anfi_t_dt((anf_tir_elem)tensor->dtype.elem);
}

texpr anfi_t_bin(tstore *t, tkind k, texpr l, texpr r) {
  tdtype d = anfi_t_same(l->dtype, r->dtype) ? l->dtype : anfi_t_dt(ANF_TIR_void);
  if (groups[k] != TG_BINARY)
    d = anfi_t_with(l->dtype.lanes > 1 || l->dtype.rows ? l->dtype : r->dtype, ANF_TIR_bool);
  return finish(t, with(t, k, d, 2, (const texpr[]){l, r}));
}
texpr anfi_t_cast(tstore *t, tdtype d, texpr x) {
  return anfi_t_same(d, x->dtype) ? x : finish(t, with(t, TX_cast, d, 1, &x));
}
texpr anfi_t_not(tstore *t, texpr x) {
  return finish(t, with(t, TX_logic_not, anfi_t_with(x->dtype, ANF_TIR_bool), 1, &x));
}
texpr anfi_t_select(tstore *t, texpr c, texpr l, texpr r) {
  tdtype d = anfi_t_same(l->dtype, r->dtype) ? l->dtype : anfi_t_dt(ANF_TIR_void);
  return finish(t, with(t, TX_select, d, 3, (const texpr[]){c, l, r}));
}

texpr anfi_t_at(tstore *t, texpr tensor, uint32_t n, const texpr *idx, uint16_t lanes,
                uint16_t rows, texpr mask) {
  tdtype d = elem_of(tensor);
  d.lanes = lanes;
  d.rows = rows;
  if (n > UINT16_MAX) too_big(t, "index");
  xnode *e = fresh(t, TX_indexing, d, 1u + n + (mask ? 1u : 0u));
  e->nidx = (uint16_t)n;
  e->in[0] = tensor;
  if (n) memcpy(e->in + 1, idx, n * sizeof *idx);
  if (mask) e->in[1 + n] = mask;
  return finish(t, e);
}

texpr anfi_t_addr(tstore *t, texpr tensor, uint32_t n, const texpr *idx) {
  if (n > UINT16_MAX) too_big(t, "index");
  xnode *e = fresh(t, TX_tensorptr, tensor->dtype, 1u + n);
  e->nidx = (uint16_t)n;
  e->in[0] = tensor;
  if (n) memcpy(e->in + 1, idx, n * sizeof *idx);
  return finish(t, e);
}

static texpr call(tstore *t, const anfi_str *name, texpr fn, tdtype ret, uint32_t n,
                  const texpr *args, uint32_t npar, const texpr *triples) {
  if (n > UINT16_MAX) too_big(t, "call");
  xnode *e = fresh(t, TX_call, ret, (size_t)n + (fn ? 1u : 0u) + (size_t)npar * 3);
  e->nidx = (uint16_t)n;
  e->u.name = name;
  if (n) memcpy(e->in, args, n * sizeof *args);
  if (fn) e->in[n++] = fn;
  if (npar) memcpy(e->in + n, triples, (size_t)npar * 3 * sizeof *triples);
  return finish(t, e);
}
texpr anfi_t_call(tstore *t, const anfi_str *name, tdtype ret, uint32_t n, const texpr *args) {
  return call(t, name, NULL, ret, n, args, 0, NULL);
}
texpr anfi_t_call_ptr(tstore *t, texpr fn, tdtype ret, uint32_t n, const texpr *args) {
  return call(t, NULL, fn, ret, n, args, 0, NULL);
}
texpr anfi_t_call_par(tstore *t, const anfi_str *name, tdtype ret, uint32_t n, const texpr *args,
                      uint32_t npar, const texpr *triples) {
  return call(t, name, NULL, ret, n, args, npar, triples);
}

/* The type by the arguments; void when they disagree. */
static tdtype intrin_type(tintrin i, tdtype given, uint32_t n, const texpr *args) {
  const tintrin_info *in = &anfi_t_intrins[i];
  tdtype first = n ? args[0]->dtype : anfi_t_dt(ANF_TIR_void);
  switch (in->typing) {
  case TT_SAME:
    for (uint32_t k = 1; k < n; k++)
      if (!anfi_t_same(first, args[k]->dtype)) return anfi_t_dt(ANF_TIR_void);
    return first;
  case TT_SAME1: return first;
  case TT_BOOLS: return anfi_t_with(first, ANF_TIR_bool);
  case TT_ELEM: return anfi_t_dt((anf_tir_elem)first.elem);
  case TT_GIVEN: return given;
  case TT_NONE: break;
  }
  return anfi_t_dt(ANF_TIR_void);
}

texpr anfi_t_intrin(tstore *t, tintrin i, tdtype given, uint32_t n, const texpr *args,
                    tattrs attrs) {
  xnode *e = with(t, TX_intrin_call, intrin_type(i, given, n, args), n, args);
  e->sub = (uint8_t)i;
  e->u.attrs = attrs;
  return finish(t, e);
}
texpr anfi_t_intrin2(tstore *t, tintrin i, texpr a, texpr b) {
  return anfi_t_intrin(t, i, a->dtype, 2, (const texpr[]){a, b}, (tattrs){0});
}
texpr anfi_t_func_addr(tstore *t, const anfi_str *name) {
  xnode *e = fresh(t, TX_func_addr, anfi_t_ptr(ANF_TIR_void), 0);
  e->u.name = name;
  return finish(t, e);
}
texpr anfi_t_phi(tstore *t, uint32_t n, const texpr *values, bool loop) {
  xnode *e = with(t, TX_ssa_phi, values[0]->dtype, n, values);
  e->sub = loop;
  return finish(t, e);
}

texpr anfi_t_remake(tstore *t, texpr e, const texpr *in) {
  xnode *r;
  switch ((tkind)e->kind) {
  case TX_add:
  case TX_sub:
  case TX_mul:
  case TX_div:
  case TX_mod:
  case TX_cmp_eq:
  case TX_cmp_ne:
  case TX_cmp_lt:
  case TX_cmp_le:
  case TX_cmp_gt:
  case TX_cmp_ge:
  case TX_logic_and:
  case TX_logic_or: return anfi_t_bin(t, (tkind)e->kind, in[0], in[1]);
  case TX_cast: return anfi_t_cast(t, e->dtype, in[0]);
  case TX_logic_not: return anfi_t_not(t, in[0]);
  case TX_select: return anfi_t_select(t, in[0], in[1], in[2]);
  case TX_intrin_call: return anfi_t_intrin(t, (tintrin)e->sub, e->dtype, e->n, in, e->u.attrs);
  case TX_ssa_phi: return anfi_t_phi(t, e->n, in, e->sub);
  case TX_tensorptr: return anfi_t_addr(t, in[0], e->nidx, in + 1);
  case TX_indexing:
    return anfi_t_at(t, in[0], e->nidx, in + 1, e->dtype.lanes, e->dtype.rows,
                     anfi_t_mask(e) ? in[e->n - 1] : NULL);
  case TX_tensor:
    return anfi_t_tensor(t, (anf_tir_elem)e->dtype.elem, e->sub, e->u.name->s, e->nidx, in,
                         anfi_t_has_strides(e) ? in + e->nidx : NULL);
  case TX_call:
    r = with(t, TX_call, e->dtype, e->n, in);
    r->nidx = e->nidx;
    r->u = e->u;
    return finish(t, r);
  case TX_constant:
  case TX_var:
  case TX_func_addr:
  case TX_COUNT: break;
  }
  return e;
}

texpr anfi_t_retype(tstore *t, texpr e, tdtype d) {
  xnode *r = with(t, (tkind)e->kind, d, e->n, e->in);
  r->sub = e->sub;
  r->nidx = e->nidx;
  r->u = e->u;
  r->id = e->kind == TX_var || e->kind == TX_tensor ? t->next_id++ : 0;
  if (anfi_t_is_list(e)) {
    uint64_t *p = ANFI_NEW_N(anfi_scratch(t->cx), uint64_t, e->u.list.n + 1);
    for (uint32_t i = 0; i < e->u.list.n; i++)
      p[i] = anfi_t_lane_cast(d, e->dtype, anfi_t_list_lane(e, i));
    return anfi_t_list(t, d, e->u.list.n, p);
  }
  if (e->kind == TX_constant) {
    uint64_t *p = (uint64_t *)anfi_alloc(&t->arena, anfi_size_mul(t->cx, e->u.k.n, sizeof *p));
    for (uint32_t i = 0; i < e->u.k.n; i++) p[i] = anfi_t_lane_cast(d, e->dtype, e->u.k.bits[i]);
    r->u.k.bits = p;
  }
  return finish(t, r);
}

/* ---- statements ---- */

static snode *fresh_stmt(tstore *t, tskind k, size_t n) {
  snode *s = (snode *)anfi_alloc(&t->arena, sizeof *s + n * sizeof(tstmt));
  memset(s, 0, sizeof *s);
  s->kind = (uint8_t)k;
  s->n = (uint32_t)n;
  s->line = t->line;
  s->col = t->col;
  return s;
}

static tstmt finish_stmt(tstore *t, snode *s) {
  uint32_t depth = 0;
  uint64_t size = 1;
  for (uint32_t i = 0; i < 4; i++)
    if (s->e[i]) size += s->e[i]->size;
  for (uint32_t i = 0; i < s->n; i++) {
    if (!s->s[i]) continue;
    if (s->s[i]->depth > depth) depth = s->s[i]->depth;
    size += s->s[i]->size;
  }
  if (++depth > t->max_depth) too_big(t, "statement");
  s->depth = (uint16_t)depth;
  s->size = size < UINT32_MAX ? (uint32_t)size : UINT32_MAX;
  return s;
}

static tstmt sequence(tstore *t, size_t n, const tstmt *s, bool splice) {
  size_t total = 0, k = 0;
  for (size_t i = 0; i < n; i++) total += s[i]->kind == TS_stmts && s[i]->sub ? s[i]->n : 1;
  if (total > UINT32_MAX / 16) too_big(t, "scope");
  snode *r = fresh_stmt(t, TS_stmts, total);
  for (size_t i = 0; i < n; i++) {
    if (s[i]->kind == TS_stmts && s[i]->sub) {
      if (s[i]->n) memcpy(r->s + k, s[i]->s, s[i]->n * sizeof(tstmt));
      k += s[i]->n;
    } else r->s[k++] = s[i];
  }
  r->sub = splice;
  return finish_stmt(t, r);
}
tstmt anfi_t_stmts(tstore *t, size_t n, const tstmt *s) { return sequence(t, n, s, false); }
tstmt anfi_t_splice(tstore *t, size_t n, const tstmt *s) { return sequence(t, n, s, true); }

tstmt anfi_t_body(tstore *t, tstmt s) {
  return s->kind == TS_stmts && !s->sub ? s : anfi_t_stmts(t, 1, &s);
}

static tstmt simple(tstore *t, tskind k, texpr a, texpr b) {
  snode *s = fresh_stmt(t, k, 0);
  s->e[0] = a;
  s->e[1] = b;
  return finish_stmt(t, s);
}
tstmt anfi_t_define(tstore *t, tlinkage l, texpr var, texpr init) {
  snode *s = fresh_stmt(t, TS_define, 0);
  s->sub = (uint8_t)l;
  s->e[0] = var;
  s->e[1] = init;
  return finish_stmt(t, s);
}
tstmt anfi_t_assign(tstore *t, texpr to, texpr value) { return simple(t, TS_assign, to, value); }
tstmt anfi_t_eval(tstore *t, texpr value) { return simple(t, TS_evaluate, value, NULL); }
tstmt anfi_t_return(tstore *t, texpr value) { return simple(t, TS_returns, value, NULL); }
tstmt anfi_t_if(tstore *t, texpr cond, tstmt then_, tstmt else_) {
  snode *s = fresh_stmt(t, TS_if_else, 2);
  s->e[0] = cond;
  s->s[0] = anfi_t_body(t, then_);
  s->s[1] = else_ ? anfi_t_body(t, else_) : NULL;
  return finish_stmt(t, s);
}
tstmt anfi_t_for(tstore *t, texpr var, texpr b, texpr e, texpr step, tstmt body, bool parallel,
                 uint32_t threads) {
  snode *s = fresh_stmt(t, TS_for_loop, 1);
  s->sub = parallel;
  s->threads = threads;
  s->e[0] = var;
  s->e[1] = b;
  s->e[2] = e;
  s->e[3] = step;
  s->s[0] = anfi_t_body(t, body);
  return finish_stmt(t, s);
}
tstmt anfi_t_while(tstore *t, texpr cond, tstmt body) {
  snode *s = fresh_stmt(t, TS_while_loop, 1);
  s->e[0] = cond;
  s->s[0] = anfi_t_body(t, body);
  return finish_stmt(t, s);
}

tstmt anfi_t_remake_stmt(tstore *t, tstmt s, const texpr *e, const tstmt *sub) {
  if (s->kind == TS_stmts) return sequence(t, s->n, sub, s->sub);
  snode *r = fresh_stmt(t, (tskind)s->kind, s->n);
  r->sub = s->sub;
  r->threads = s->threads;
  r->attrs = s->attrs;
  r->comment = s->comment;
  r->line = s->line;
  r->col = s->col;
  memcpy(r->e, e, sizeof r->e);
  for (uint32_t i = 0; i < s->n; i++) r->s[i] = sub[i] ? anfi_t_body(t, sub[i]) : NULL;
  return finish_stmt(t, r);
}

tfunc anfi_t_func(tstore *t, const anfi_str *name, tdtype ret, uint32_t n, const texpr *param,
                  tstmt body, tattrs attrs) {
  struct anf_tir_func_node *f = ANFI_NEW(&t->arena, struct anf_tir_func_node);
  texpr *p = ANFI_NEW_N(&t->arena, texpr, n);
  if (n) memcpy(p, param, n * sizeof *p);
  *f = (struct anf_tir_func_node){.name = name,
                                  .ret = ret,
                                  .n = n,
                                  .param = p,
                                  .body = body ? anfi_t_body(t, body) : NULL,
                                  .attrs = attrs,
                                  .line = t->line,
                                  .col = t->col};
  return f;
}

tfunc anfi_t_with_body(tstore *t, tfunc f, tstmt body) {
  if (body == f->body) return f;
  struct anf_tir_func_node *r = ANFI_NEW(&t->arena, struct anf_tir_func_node);
  *r = *f;
  r->body = anfi_t_body(t, body);
  return r;
}

tfunc anfi_t_func_without(tstore *t, tfunc f, tattr_key k) {
  if (!anfi_t_attr(f->attrs, k, NULL)) return f;
  struct anf_tir_func_node *r = ANFI_NEW(&t->arena, struct anf_tir_func_node);
  *r = *f;
  r->attrs = anfi_t_attr_del(t, f->attrs, k);
  return r;
}

/* ---- attributes ---- */

bool anfi_t_shares_buffer(tfunc f, uint32_t param) {
  int64_t hint;
  if (!anfi_t_attr(f->attrs, TA_inplace_hint, &hint) || hint < 0) return false;
  return param == (hint >> 8) || param == (hint & 255);
}

bool anfi_t_attr(tattrs a, tattr_key k, int64_t *value) {
  for (uint32_t i = 0; i < a.n; i++)
    if (a.at[i].key == k) {
      if (value) *value = a.at[i].value;
      return true;
    }
  return false;
}

tattrs anfi_t_attr_del(tstore *t, tattrs a, tattr_key k) {
  if (!anfi_t_attr(a, k, NULL)) return a;
  tattr *p = ANFI_NEW_N(&t->arena, tattr, a.n);
  uint32_t n = 0;
  for (uint32_t i = 0; i < a.n; i++)
    if (a.at[i].key != k) p[n++] = a.at[i];
  return (tattrs){p, n};
}

tattrs anfi_t_attr_set(tstore *t, tattrs a, tattr_key k, int64_t value) {
  a = anfi_t_attr_del(t, a, k);
  tattr *p = ANFI_NEW_N(&t->arena, tattr, a.n + 1u);
  uint32_t n = 0, i = 0;
  for (; i < a.n && a.at[i].key < k; i++) p[n++] = a.at[i];
  p[n++] = (tattr){k, value};
  for (; i < a.n; i++) p[n++] = a.at[i];
  return (tattrs){p, n};
}

static snode *copy_stmt(tstore *t, tstmt s) {
  size_t size = sizeof *s + s->n * sizeof(tstmt);
  return (snode *)memcpy(anfi_alloc(&t->arena, size), s, size);
}
tstmt anfi_t_with_attrs(tstore *t, tstmt s, tattrs a) {
  snode *r = copy_stmt(t, s);
  r->attrs = a;
  return r;
}
tstmt anfi_t_with_comment(tstore *t, tstmt s, const anfi_str *comment) {
  snode *r = copy_stmt(t, s);
  r->comment = comment;
  return r;
}

/* ---- questions ---- */

bool anfi_t_const_i64(texpr e, int64_t *v) {
  if (!anfi_t_isa(e, TX_constant) || e->sub || e->dtype.lanes != 1 || e->dtype.rows) return false;
  if (!anfi_t_is_int(e->dtype) && !anfi_t_is_elem(e->dtype, ANF_TIR_bool)) return false;
  *v = anfi_t_lane_i64(e->dtype, e->u.k.bits[0]);
  return true;
}
bool anfi_t_is_const(texpr e, int64_t v) {
  int64_t have;
  return anfi_t_const_i64(e, &have) && have == v;
}

bool anfi_t_const_elems(texpr tensor, uint64_t *n) {
  uint64_t total = 1;
  for (uint32_t i = 0; i < tensor->nidx; i++) {
    int64_t d;
    if (!anfi_t_const_i64(tensor->in[i], &d) || d < 0) return false;
    if (d && total > (UINT64_MAX >> 8) / (uint64_t)d) return false;
    total *= (uint64_t)d;
  }
  *n = total;
  return true;
}

static bool all(texpr e, bool (*ok)(texpr)) {
  if (!ok(e)) return false;
  if (e->kind == TX_tensor) return true;
  for (uint32_t i = 0; i < e->n; i++)
    if (!all(e->in[i], ok)) return false;
  return true;
}
static bool pure_node(texpr e) {
  if (e->kind == TX_intrin_call) return anfi_t_intrins[e->sub].purity <= TP_MATH2;
  return e->kind != TX_call && e->kind != TX_indexing && e->kind != TX_ssa_phi;
}
static bool quiet_node(texpr e) {
  if (e->kind == TX_intrin_call) return anfi_t_intrins[e->sub].purity != TP_EFFECT;
  return e->kind != TX_call;
}
static bool total_node(texpr e) {
  int64_t d;
  if (e->kind == TX_indexing || e->kind == TX_call) return false;
  if (e->kind == TX_intrin_call) return anfi_t_intrins[e->sub].purity <= TP_MATH2;
  if ((e->kind == TX_div || e->kind == TX_mod) && !anfi_t_is_float(e->dtype))
    return anfi_t_const_i64(e->in[1], &d) && d != 0;
  return true;
}
bool anfi_t_pure(texpr e) { return all(e, pure_node); }
bool anfi_t_no_effect(texpr e) { return all(e, quiet_node); }
bool anfi_t_may_trap(texpr e) { return !all(e, total_node); }

bool anfi_t_uses(texpr e, texpr var) {
  if (e == var) return true;
  for (uint32_t i = 0; i < e->n; i++)
    if (anfi_t_uses(e->in[i], var)) return true;
  return false;
}

anfi_loc anfi_t_loc(const tstore *t, uint32_t line, uint32_t col) {
  return (anfi_loc){line ? t->file : NULL, line, col};
}
