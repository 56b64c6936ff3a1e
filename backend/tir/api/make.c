// SPDX-License-Identifier: Apache-2.0
/* Public makers of more than a scalar of one type: constants of any type, tensors of any dims and strides, values and
 * scalars of the module, tiles, products, statements and functions made anew.
 *   anf_tir_make_bits(m, f32, 1, (uint64_t[]){0x3f800000})   ->   the constant 1.f */
#include "backend/tir/api/api.h"

static bool good_type(tdtype t) { return t.elem < ANF_TIR_ELEM_COUNT && t.lanes; }
static bool is_number(tdtype t) {
  return good_type(t) && (anfi_t_rank_of(t) || anfi_t_is_elem(t, ANF_TIR_bool));
}

anf_tir_dtype anf_tir_tile(anf_tir_elem e, uint16_t rows, uint16_t lanes) {
  return (tdtype){(uint8_t)e, 0, lanes ? lanes : 1, rows};
}

/* ---- constants ---- */

texpr anf_tir_make_int(tmod *m, tdtype t, int64_t v) {
  if (!is_number(t)) return (texpr)bad(m);
  MAKE(texpr, anfi_t_int(m->t, t, v));
}
texpr anf_tir_make_real(tmod *m, tdtype t, double v) {
  if (!is_number(t)) return (texpr)bad(m);
  MAKE(texpr, anfi_t_real(m->t, t, v));
}

/* Of each lane those bits that its element has. */
static texpr lanes_of(tstore *t, tdtype d, uint32_t n, const uint64_t *bits) {
  size_t width = 8 * anfi_t_bytes(d);
  uint64_t *lane = ANFI_NEW_N(anfi_scratch(t->cx), uint64_t, n);
  for (uint32_t i = 0; i < n; i++)
    lane[i] = width < 64 ? bits[i] & ((UINT64_C(1) << width) - 1) : bits[i];
  return anfi_t_bits(t, d, n, lane);
}
texpr anf_tir_make_bits(tmod *m, tdtype t, size_t n, const uint64_t *bits) {
  bool good = is_number(t) || (anfi_t_is_void(t) && anfi_t_total(t) == 1);
  if (!good || !bits || (n != 1 && n != anfi_t_total(t))) return (texpr)bad(m);
  MAKE(texpr, lanes_of(m->t, t, (uint32_t)n, bits));
}

texpr anf_tir_make_values(tmod *m, anf_tir_elem e, size_t n, const void *data) {
  if (!data || !n || n > UINT32_MAX / 8 || e >= ANF_TIR_ELEM_COUNT || e == ANF_TIR_void)
    return (texpr)bad(m);
  MAKE(texpr, anfi_t_list_copy(m->t, anfi_t_dt(e), (uint32_t)n, (const unsigned char *)data));
}

/* ---- tensors ---- */

static bool good_tensor(anf_tir_elem e, const char *name, size_t rank) {
  return name && rank && rank <= 1024 && e < ANF_TIR_ELEM_COUNT;
}

static void as_indices(tstore *t, size_t n, const texpr *from, texpr *to) {
  int64_t k;
  for (size_t i = 0; i < n; i++)
    to[i] = anfi_t_const_i64(from[i], &k) && k >= 0 ? anfi_t_index(t, (uint64_t)k) : from[i];
}
static texpr tensor_of(tstore *t, anf_tir_elem e, const char *name, size_t rank, const texpr *dims,
                       const texpr *strides) {
  texpr *in = ANFI_NEW_N(anfi_scratch(t->cx), texpr, 2 * rank);
  as_indices(t, rank, dims, in);
  if (strides) as_indices(t, rank, strides, in + rank);
  return anfi_t_tensor(t, e, e == ANF_TIR_void, name, (uint32_t)rank, in,
                       strides ? in + rank : NULL);
}
static bool all_integers(size_t n, const texpr *e) {
  for (size_t i = 0; i < n; i++) {
    int64_t k;
    if (!anfi_t_is_int(e[i]->dtype) || anfi_t_total(e[i]->dtype) != 1) return false;
    if (anfi_t_const_i64(e[i], &k) && k < 0) return false;
  }
  return true;
}
texpr anf_tir_make_tensor_of(tmod *m, anf_tir_elem e, const char *name, size_t rank,
                             const texpr *dims, const texpr *strides) {
  bool good = good_tensor(e, name, rank) && GIVEN(rank, dims) && (!strides || GIVEN(rank, strides));
  if (!good || !all_integers(rank, dims) || (strides && !all_integers(rank, strides)))
    return (texpr)bad(m);
  MAKE(texpr, tensor_of(m->t, e, name, rank, dims, strides));
}

texpr anf_tir_make_tile(tmod *m, texpr tensor, size_t n, const texpr *idx, uint16_t rows,
                        uint16_t lanes, texpr mask) {
  if (!anfi_t_isa(tensor, TX_tensor) || n < 2 || n > UINT16_MAX || !rows || !lanes ||
      !GIVEN(n, idx))
    return (texpr)bad(m);
  MAKE(texpr, anfi_t_at(m->t, tensor, (uint32_t)n, idx, lanes, rows, mask));
}

/* ---- scalars of the module ---- */

static texpr first_element(tmod *m, texpr tensor) {
  texpr zero = anf_tir_make_index(m, 0);
  return zero ? anf_tir_make_indexing(m, tensor, 1, &zero, 1, NULL) : NULL;
}

texpr anf_tir_module_add_scalar(tmod *m, anf_tir_elem e, const char *name, texpr value,
                                bool is_private) {
  int64_t one = 1;
  uint64_t bits = 0;
  bool good = m && good_tensor(e, name, 1) && is_number(anfi_t_dt(e));
  if (good && value)
    good = anfi_t_total(value->dtype) == 1 && is_number(value->dtype) &&
           anf_tir_const_bits(value, 0, &bits);
  if (!good) return (texpr)bad(m);
  if (value) bits = anfi_t_lane_cast(anfi_t_dt(e), value->dtype, bits);
  texpr tensor = anf_tir_make_tensor(m, e, name, 1, &one),
        init = tensor ? anf_tir_make_values(m, e, 1, &bits) : NULL; // little-endian
  tstmt define = init ? anf_tir_make_define_unattached(m, tensor, init) : NULL;
  if (!define) return NULL;
  anf_status st =
      is_private ? anf_tir_module_add_private(m, define) : anf_tir_module_add_global(m, define);
  return st == ANF_OK ? first_element(m, tensor) : (anfi_t_remember(m, st), NULL);
}

/* ---- intrinsics ---- */

static texpr expr_with(tstore *t, texpr e, tattr_key k, int64_t value) {
  return anfi_t_intrin(t, (tintrin)e->sub, e->dtype, e->n, e->in,
                       anfi_t_attr_set(t, e->u.attrs, k, value));
}
texpr anf_tir_expr_with_attr(tmod *m, texpr e, const char *name, int64_t value) {
  int k = name ? anfi_t_attr_of(name, strlen(name)) : -1;
  if (!anfi_t_isa(e, TX_intrin_call) || k < 0) return (texpr)bad(m);
  MAKE(texpr, expr_with(m->t, e, (tattr_key)k, value));
}

static bool product_of(const anf_tir_brgemm *o, texpr operand[BRGEMM_COUNT]) {
  const texpr in[BRGEMM_COUNT] = {[BRGEMM_A] = o->a,
                                  [BRGEMM_B] = o->b,
                                  [BRGEMM_C] = o->c,
                                  [BRGEMM_num] = o->num,
                                  [BRGEMM_M] = o->m,
                                  [BRGEMM_N] = o->n,
                                  [BRGEMM_K] = o->k,
                                  [BRGEMM_LDA] = o->lda,
                                  [BRGEMM_LDB] = o->ldb,
                                  [BRGEMM_LDC] = o->ldc,
                                  [BRGEMM_len] = o->entries,
                                  [BRGEMM_stride_a] = o->stride_a,
                                  [BRGEMM_stride_b] = o->stride_b,
                                  [BRGEMM_bias] = o->bias,
                                  [BRGEMM_scales] = o->scales,
                                  [BRGEMM_rhs] = o->rhs};
  for (uint32_t i = 0; i < BRGEMM_COUNT; i++) {
    operand[i] = in[i];
    bool optional = anfi_t_brgemm_kinds[i] == BRGEMM_IS_EPILOGUE || i == BRGEMM_len;
    if (!in[i] && !optional) return false;
  }
  return o->rhs ? o->rhs_op >= 1 && o->rhs_op <= 4 : !o->rhs_op;
}

static texpr product(tmod *m, const anf_tir_brgemm *given) {
  anf_tir_brgemm o;
  texpr operand[BRGEMM_COUNT];
  tstore *t = m->t;
  tattrs a = {0};
  if (!ANFI_OPTS_IN(t->cx, anf_tir_brgemm, entries, given, &o)) return NULL;
  if (!product_of(&o, operand)) {
    anfi_fail(t->cx, anfi_nowhere(), ANF_E0005, "anf_tir_make_brgemm");
    return NULL;
  }
  a = anfi_t_attr_set(t, a, TA_init, o.init);
  if (o.bias) a = anfi_t_attr_set(t, a, TA_post_bias, 1);
  if (o.scales) a = anfi_t_attr_set(t, a, TA_post_scale, 1);
  if (o.relu) a = anfi_t_attr_set(t, a, TA_post_relu, 1);
  if (o.rhs) a = anfi_t_attr_set(t, a, TA_post_binary, o.rhs_op);
  return anfi_t_brgemm(t, operand, a);
}
texpr anf_tir_make_brgemm(tmod *m, const anf_tir_brgemm *o) {
  if (!o) return (texpr)bad(m);
  MAKE(texpr, product(m, o));
}

/* ---- made anew ---- */

/* Is the new part of a kind that may stand there? What was there may be left out only where it may be absent. */
static bool good_place(tstmt s, size_t i, texpr e) {
  bool optional = (s->kind == TS_define && i == 1) || s->kind == TS_returns;
  if (!e) return optional;
  bool names = (s->kind == TS_define || s->kind == TS_for_loop) && i == 0;
  if (names) return e->kind == TX_var || (s->kind == TS_define && e->kind == TX_tensor);
  bool place = s->kind == TS_assign && i == 0;
  return !place || e->kind == TX_var || e->kind == TX_indexing;
}

static bool good_parts(tstmt s, const texpr *e, const tstmt *sub) {
  size_t n = anf_tir_stmt_expr_count(s);
  if ((n && !e) || (s->n && !sub)) return false;
  for (size_t i = 0; i < n; i++)
    if (!good_place(s, i, e[i])) return false;
  for (uint32_t i = 0; i < s->n; i++)
    if (!sub[i] && !(s->kind == TS_if_else && i == 1)) return false;
  return true;
}

static tstmt remade(tstore *t, tstmt s, const texpr *e, const tstmt *sub) {
  texpr in[4] = {0};
  for (size_t i = 0; i < anf_tir_stmt_expr_count(s); i++) in[i] = e[i];
  return anfi_t_remake_stmt(t, s, in, sub);
}
tstmt anf_tir_remake_stmt(tmod *m, tstmt s, const texpr *e, const tstmt *sub) {
  if (!s || !good_parts(s, e, sub)) return (tstmt)bad(m);
  MAKE(tstmt, remade(m->t, s, e, sub));
}

static tfunc func_of(tstore *t, tfunc f, tstmt body) {
  if (body) return anfi_t_with_body(t, f, body);
  struct anf_tir_func_node *r = ANFI_NEW(&t->arena, struct anf_tir_func_node);
  *r = *f;
  r->body = NULL;
  return r;
}
tfunc anf_tir_remake_func(tmod *m, tfunc f, tstmt body) {
  if (!f) return (tfunc)bad(m);
  MAKE(tfunc, func_of(m->t, f, body));
}
