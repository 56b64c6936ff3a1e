// SPDX-License-Identifier: Apache-2.0
/* Intrinsics that permute lanes: broadcast, shuffle, permute, insert, extract.
 *
 *   unpack_low(a, b)     →     shufflevector a, b, <0, 4, 1, 5>
 *
 * Constant lane indices make one shufflevector; others are extracted and inserted lane by lane. */
#include "backend/llvm/llvm.h"

/* The source of a lane: a place in `of`, constant or not. */
typedef struct source {
  LLVMValueRef of;
  uint32_t total;  // lanes of it
  LLVMValueRef at; // NULL: `k`
  uint32_t k;
} source;

static LLVMValueRef take(lgen *g, source s) {
  if (s.total == 1) return s.of;
  return ll.BuildExtractElement(g->b, s.of, s.at ? s.at : anfi_ll_i32(g, s.k), "");
}

/* Do all lanes come from at most two vectors of one type, at constant places? */
static bool plain(const source *s, uint32_t n, LLVMValueRef *a, LLVMValueRef *b) {
  *a = s[0].of;
  *b = NULL;
  for (uint32_t i = 0; i < n; i++) {
    if (s[i].at || s[i].total == 1) return false;
    if (s[i].of == *a) continue;
    if (*b && s[i].of != *b) return false;
    *b = s[i].of;
  }
  return !*b || ll.TypeOf(*a) == ll.TypeOf(*b);
}

static LLVMValueRef gather_lanes(lgen *g, tdtype d, const source *s) {
  uint32_t n = anfi_t_total(d);
  LLVMValueRef a, b, r = ll.GetPoison(anfi_ll_type(g, d));
  if (n == 1) return take(g, s[0]);
  if (plain(s, n, &a, &b)) {
    LLVMValueRef *mask = ANFI_NEW_N(g->a, LLVMValueRef, n);
    for (uint32_t i = 0; i < n; i++)
      mask[i] = anfi_ll_i32(g, s[i].k + (s[i].of == a ? 0 : s[i].total));
    return ll.BuildShuffleVector(g->b, a, b ? b : ll.GetPoison(ll.TypeOf(a)),
                                 ll.ConstVector(mask, n), "");
  }
  for (uint32_t i = 0; i < n; i++) r = anfi_ll_put_lane(g, r, n, i, take(g, s[i]));
  return r;
}

/* The integer `v` (of any type) modulo n, as i64. */
static LLVMValueRef modulo(lgen *g, tdtype d, LLVMValueRef v, uint64_t n) {
  tdtype wide = anfi_t_dt(anfi_t_class(d) == TC_SINT ? ANF_TIR_s64 : ANF_TIR_u64);
  tdtype zero = d;
  if (anfi_t_class(d) == TC_SINT) zero.elem = (uint8_t)(d.elem - ANF_TIR_s8 + ANF_TIR_u8);
  v = anfi_ll_cast(g, anfi_t_dt(ANF_TIR_u64), zero, v); // bits are zero-extended
  (void)wide;
  return ll.BuildURem(g->b, v, anfi_ll_i64(g, n), "");
}

/* At an index that is an argument */
static source picked(lgen *g, texpr place, LLVMValueRef v, LLVMValueRef of, uint32_t total,
                     uint64_t n) {
  if (place->kind == TX_constant)
    return (source){of, total, NULL, (uint32_t)(place->u.k.bits[0] % n)};
  return (source){of, total, modulo(g, place->dtype, v, n), 0};
}

/* Two vectors as one, for places that are not known */
static LLVMValueRef both(lgen *g, LLVMValueRef a, LLVMValueRef b, uint32_t n) {
  LLVMValueRef r =
      ll.GetPoison(ll.VectorType(n == 1 ? ll.TypeOf(a) : ll.GetElementType(ll.TypeOf(a)), 2 * n));
  for (uint32_t i = 0; i < n; i++) {
    r = ll.BuildInsertElement(g->b, r, anfi_ll_lane(g, a, n, i), anfi_ll_i32(g, i), "");
    r = ll.BuildInsertElement(g->b, r, anfi_ll_lane(g, b, n, i), anfi_ll_i32(g, n + i), "");
  }
  return r;
}

static source from_two(lgen *g, texpr place, LLVMValueRef v, LLVMValueRef a, LLVMValueRef b,
                       uint32_t n) {
  if (place->kind != TX_constant)
    return (source){both(g, a, b, n), 2 * n, modulo(g, place->dtype, v, 2 * (uint64_t)n), 0};
  uint32_t k = (uint32_t)(place->u.k.bits[0] % (2 * (uint64_t)n));
  return k < n ? (source){a, n, NULL, k} : (source){b, n, NULL, k - n};
}

static LLVMValueRef unpack(lgen *g, texpr e, const LLVMValueRef *v) {
  int64_t given = 0;
  uint32_t lanes = e->dtype.lanes, half = e->sub == TI_unpack_high ? lanes / 2 : 0,
           total = anfi_t_total(e->dtype);
  if (!anfi_t_const_i64(e->in[2], &given))
    return anfi_ll_unsupported(g, e, "an unpack of a width that is not constant");
  uint32_t w = given < 1 || given > lanes ? 1 : (uint32_t)given;
  source *s = ANFI_NEW_N(g->a, source, total);
  for (uint32_t k = 0; k < total; k++)
    s[k] = (source){v[k / w & 1 ? 1 : 0], total, NULL, (half + k / (2 * w) * w + k % w) % lanes};
  return gather_lanes(g, e->dtype, s);
}

static LLVMValueRef by_vector(lgen *g, texpr e, const LLVMValueRef *v) {
  bool two = e->sub == TI_permutex2var;
  texpr idx = e->in[two ? 1 : 0];
  uint32_t n = anfi_t_total(e->dtype);
  tdtype one = anfi_t_dt((anf_tir_elem)idx->dtype.elem);
  LLVMValueRef of = two ? both(g, v[0], v[2], n) : v[1], places = v[two ? 1 : 0];
  uint32_t total = two ? 2 * n : n;
  source *s = ANFI_NEW_N(g->a, source, n);
  for (uint32_t k = 0; k < n; k++) {
    if (idx->kind == TX_constant)
      s[k] = (source){of, total, NULL, (uint32_t)(idx->u.k.bits[idx->u.k.n == 1 ? 0 : k] % total)};
    else s[k] = (source){of, total, modulo(g, one, anfi_ll_lane(g, places, n, k), total), 0};
  }
  return gather_lanes(g, e->dtype, s);
}

/* insert(a, x, lane): what does not fit is left out */
static LLVMValueRef insert(lgen *g, texpr e, const LLVMValueRef *v) {
  uint32_t n = anfi_t_total(e->dtype), nx = anfi_t_total(e->in[1]->dtype);
  int64_t place;
  LLVMValueRef r = v[0];
  if (anfi_t_const_i64(e->in[2], &place)) {
    uint32_t at = (uint32_t)((uint64_t)e->in[2]->u.k.bits[0] % n);
    for (uint32_t k = 0; k < nx && at + k < n; k++)
      r = anfi_ll_put_lane(g, r, n, at + k, anfi_ll_lane(g, v[1], nx, k));
    return r;
  }
  if (n == 1) return anfi_ll_lane(g, v[1], nx, 0);
  LLVMValueRef at = modulo(g, e->in[2]->dtype, v[2], n);
  for (uint32_t k = 0; k < nx; k++) {
    LLVMValueRef to = ll.BuildAdd(g->b, at, anfi_ll_i64(g, k), ""),
                 in = ll.BuildICmp(g->b, LLVMIntULT, to, anfi_ll_i64(g, n), ""),
                 safe = ll.BuildSelect(g->b, in, to, anfi_ll_i64(g, 0), ""),
                 put = ll.BuildInsertElement(g->b, r, anfi_ll_lane(g, v[1], nx, k), safe, "");
    r = ll.BuildSelect(g->b, in, put, r, "");
  }
  return r;
}

static LLVMValueRef extract(lgen *g, texpr e, const LLVMValueRef *v) {
  uint32_t n = anfi_t_total(e->dtype), from = anfi_t_total(e->in[0]->dtype);
  source first = picked(g, e->in[1], v[1], v[0], from, from), *s = ANFI_NEW_N(g->a, source, n);
  for (uint32_t k = 0; k < n; k++) {
    s[k] = first;
    s[k].k = (first.k + k) % from;
    if (!first.at) continue;
    LLVMValueRef at = ll.BuildAdd(g->b, first.at, anfi_ll_i64(g, k), "");
    s[k].at = ll.BuildURem(g->b, at, anfi_ll_i64(g, from), "");
  }
  return gather_lanes(g, e->dtype, s);
}

LLVMValueRef anfi_ll_shuffle(lgen *g, texpr e, const LLVMValueRef *v) {
  uint32_t n = anfi_t_total(e->dtype), from = anfi_t_total(e->in[0]->dtype);
  source *s = ANFI_NEW_N(g->a, source, n);
  switch ((tintrin)e->sub) { /* dispatch */
  case TI_unpack_low:
  case TI_unpack_high: return unpack(g, e, v);
  case TI_permutexvar:
  case TI_permutex2var: return by_vector(g, e, v);
  case TI_insert: return insert(g, e, v);
  case TI_extract: return extract(g, e, v);
  case TI_shuffle:
    for (uint32_t k = 0; k < n; k++) s[k] = from_two(g, e->in[2 + k], v[2 + k], v[0], v[1], from);
    return gather_lanes(g, e->dtype, s);
  case TI_permute:
    for (uint32_t k = 0; k < n; k++) s[k] = picked(g, e->in[1 + k], v[1 + k], v[0], from, from);
    return gather_lanes(g, e->dtype, s);
  default: // broadcast
    if (from == 1) return anfi_ll_splat(g, v[0], n);
    for (uint32_t k = 0; k < n; k++) s[k] = (source){v[0], from, NULL, k % from};
    return gather_lanes(g, e->dtype, s);
  }
}
