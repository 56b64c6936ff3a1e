// SPDX-License-Identifier: Apache-2.0
/* Arithmetic, comparisons, intrinsics of single lanes.
 *   (a + b), f32x8     ->   %x = fadd <8 x float> %a, %b
 *   (a / b), s32       ->   a trap if b is 0, then the quotient
 * Floats are never contracted or reordered unless the engine's options say so; integer division by zero traps. */
#include "backend/llvm/llvm.h"

#include <math.h>

static tdtype as_f32(tdtype d) { return anfi_t_with(d, ANF_TIR_f32); }

void anfi_ll_trap_if(lgen *g, LLVMValueRef bad, anf_trap_kind k, uint32_t line, uint32_t col) {
  LLVMBasicBlockRef trap = anfi_ll_new_block(g, "trap"), go = anfi_ll_new_block(g, "");
  if (!line) line = g->line, col = g->col;
  ll.BuildCondBr(g->b, bad, trap, go);
  anfi_ll_block(g, trap);
  const LLVMValueRef in[] = {anfi_ll_i32(g, (uint64_t)k), anfi_ll_i32(g, line), anfi_ll_i32(g, col),
                             g->func_name, ll.ConstNull(g->ptr)};
  anfi_ll_call_rt(g, "anf_rt_trap", g->none, 5, in);
  ll.BuildUnreachable(g->b);
  anfi_ll_block(g, go);
}

/* ---- integers ---- */

static LLVMValueRef any_lane(lgen *g, LLVMValueRef v, uint32_t n) {
  return n == 1 ? v : anfi_ll_intrinsic(g, "llvm.vector.reduce.or", ll.TypeOf(v), 1, &v);
}

/* The least number has no opposite: by -1 is negation, which wraps. A divisor of 0 has trapped, or
 * is replaced here, so that nothing is undefined. */
static LLVMValueRef signed_division(lgen *g, tkind k, LLVMValueRef a, LLVMValueRef b) {
  LLVMTypeRef t = ll.TypeOf(b);
  LLVMValueRef minus = ll.ConstAllOnes(t), zero = ll.ConstNull(t), one = anfi_ll_int(t, 1);
  if (ll.IsConstant(b)) {
    bool odd = b == minus;
    if (ll.IsAConstantInt(b) && !odd)
      return k == TX_div ? ll.BuildSDiv(g->b, a, b, "") : ll.BuildSRem(g->b, a, b, "");
  }
  LLVMValueRef is = ll.BuildICmp(g->b, LLVMIntEQ, b, minus, ""),
               safe = ll.BuildSelect(g->b, is, one, b, "");
  if (k == TX_mod) return ll.BuildSelect(g->b, is, zero, ll.BuildSRem(g->b, a, safe, ""), "");
  return ll.BuildSelect(g->b, is, ll.BuildSub(g->b, zero, a, ""), ll.BuildSDiv(g->b, a, safe, ""),
                        "");
}

static LLVMValueRef division(lgen *g, tkind k, tdtype d, LLVMValueRef a, LLVMValueRef b) {
  if (anfi_t_class(d) == TC_BOOL) // by true
    return k == TX_div ? a : ll.ConstNull(ll.TypeOf(a));
  if (anfi_t_class(d) == TC_SINT) return signed_division(g, k, a, b);
  return k == TX_div ? ll.BuildUDiv(g->b, a, b, "") : ll.BuildURem(g->b, a, b, "");
}

static LLVMIntPredicate int_predicate(tkind k, bool is_signed) {
  switch (k) {
  case TX_cmp_eq: return LLVMIntEQ;
  case TX_cmp_ne: return LLVMIntNE;
  case TX_cmp_lt: return is_signed ? LLVMIntSLT : LLVMIntULT;
  case TX_cmp_le: return is_signed ? LLVMIntSLE : LLVMIntULE;
  case TX_cmp_gt: return is_signed ? LLVMIntSGT : LLVMIntUGT;
  default: return is_signed ? LLVMIntSGE : LLVMIntUGE;
  }
}
static LLVMRealPredicate real_predicate(tkind k) {
  static const LLVMRealPredicate p[] = {LLVMRealOEQ, LLVMRealUNE, LLVMRealOLT,
                                        LLVMRealOLE, LLVMRealOGT, LLVMRealOGE};
  return p[k - TX_cmp_eq];
}
static bool is_cmp(tkind k) { return k >= TX_cmp_eq && k <= TX_cmp_ge; }

static LLVMValueRef bool_bin(lgen *g, tkind k, LLVMValueRef a, LLVMValueRef b) {
  if (k == TX_add) return ll.BuildOr(g->b, a, b, "");
  if (k == TX_sub) return ll.BuildXor(g->b, a, b, "");
  return ll.BuildAnd(g->b, a, b, "");
}

static LLVMValueRef int_bin(lgen *g, tkind k, tdtype d, LLVMValueRef a, LLVMValueRef b) {
  if (d.ptr) a = anfi_ll_to_bits(g, d, a), b = anfi_ll_to_bits(g, d, b);
  if (is_cmp(k)) return ll.BuildICmp(g->b, int_predicate(k, anfi_t_class(d) == TC_SINT), a, b, "");
  if (k == TX_logic_and) return ll.BuildAnd(g->b, a, b, "");
  if (k == TX_logic_or) return ll.BuildOr(g->b, a, b, "");
  LLVMValueRef r;
  if (k == TX_div || k == TX_mod) r = division(g, k, d, a, b);
  else if (anfi_t_class(d) == TC_BOOL) r = bool_bin(g, k, a, b);
  else if (k == TX_add) r = ll.BuildAdd(g->b, a, b, "");
  else if (k == TX_sub) r = ll.BuildSub(g->b, a, b, "");
  else r = ll.BuildMul(g->b, a, b, "");
  return d.ptr ? anfi_ll_from_bits(g, d, r) : r;
}

/* ---- floats ---- */

static LLVMValueRef contract(lgen *g, LLVMValueRef v) {
  if (g->e->o.contract && ll.CanValueUseFastMathFlags(v))
    ll.SetFastMathFlags(v, LLVMFastMathAllowContract);
  return v;
}

static LLVMValueRef real_bin(lgen *g, tkind k, LLVMValueRef a, LLVMValueRef b) {
  if (is_cmp(k)) return ll.BuildFCmp(g->b, real_predicate(k), a, b, "");
  switch (k) {
  case TX_add: return contract(g, ll.BuildFAdd(g->b, a, b, ""));
  case TX_sub: return contract(g, ll.BuildFSub(g->b, a, b, ""));
  case TX_mul: return contract(g, ll.BuildFMul(g->b, a, b, ""));
  case TX_div: return ll.BuildFDiv(g->b, a, b, "");
  default: return ll.BuildFRem(g->b, a, b, "");
  }
}

LLVMValueRef anfi_ll_bin(lgen *g, tkind k, tdtype d, LLVMValueRef a, LLVMValueRef b) {
  if (anfi_t_is_half(d)) {
    tdtype w = as_f32(d);
    LLVMValueRef r = real_bin(g, k, anfi_ll_cast(g, w, d, a), anfi_ll_cast(g, w, d, b));
    return is_cmp(k) ? r : anfi_ll_cast(g, d, w, r);
  }
  if (!anfi_t_is_float(d)) return int_bin(g, k, d, a, b);
  g->floats += anfi_t_total(d) == 1;
  return real_bin(g, k, a, b);
}

static bool divides(texpr e) {
  return (e->kind == TX_div || e->kind == TX_mod) && !anfi_t_is_float(e->in[0]->dtype);
}
static bool has_zero(texpr e) {
  if (e->kind != TX_constant) return true;
  for (uint32_t i = 0; i < e->u.k.n; i++)
    if (!e->u.k.bits[i]) return true;
  return false;
}

LLVMValueRef anfi_ll_binary(lgen *g, texpr e, LLVMValueRef a, LLVMValueRef b) {
  if (divides(e) && has_zero(e->in[1])) {
    tdtype d = e->in[1]->dtype;
    LLVMValueRef zero = ll.BuildICmp(g->b, LLVMIntEQ, b, ll.ConstNull(ll.TypeOf(b)), "");
    anfi_ll_trap_if(g, any_lane(g, zero, anfi_t_total(d)), ANF_TRAP_DIVISION, e->line, e->col);
  }
  return anfi_ll_bin(g, (tkind)e->kind, e->in[0]->dtype, a, b);
}

/* ---- intrinsics, lane by lane ---- */

/* NaN wins, the first if both are; of equals the second for min, the first for max. */
static LLVMValueRef min_max(lgen *g, tintrin i, tdtype d, LLVMValueRef a, LLVMValueRef b) {
  bool is_min = i == TI_min;
  if (!anfi_t_is_float(d)) {
    LLVMValueRef lt =
        ll.BuildICmp(g->b, int_predicate(TX_cmp_lt, anfi_t_class(d) == TC_SINT), a, b, "");
    return ll.BuildSelect(g->b, lt, is_min ? a : b, is_min ? b : a, "");
  }
  LLVMValueRef nan = ll.BuildFCmp(g->b, LLVMRealUNO, a, a, ""),
               lt = ll.BuildFCmp(g->b, is_min ? LLVMRealOLT : LLVMRealULT, a, b, ""),
               r = ll.BuildSelect(g->b, lt, is_min ? a : b, is_min ? b : a, "");
  return ll.BuildSelect(g->b, nan, a, r, "");
}

static LLVMValueRef one_arg(lgen *g, const char *name, LLVMValueRef v) {
  return anfi_ll_intrinsic(g, name, ll.TypeOf(v), 1, &v);
}

/* Through the C function of double, as the interpreter computes it. */
static LLVMValueRef by_libm(lgen *g, tintrin i, tdtype d, const LLVMValueRef *v) {
  tdtype w = anfi_t_with(d, ANF_TIR_f64);
  uint32_t n = anfi_t_intrins[i].purity == TP_MATH2 ? 2 : 1;
  LLVMValueRef in[2] = {NULL, NULL}, r;
  for (uint32_t k = 0; k < n; k++) in[k] = anfi_ll_cast(g, w, d, v[k]);
  if (i == TI_rsqrt)
    r = ll.BuildFDiv(g->b,
                     anfi_ll_bits_constant(g, w, &(uint64_t){UINT64_C(0x3ff0000000000000)}, 1),
                     one_arg(g, "llvm.sqrt", in[0]), "");
  else r = anfi_ll_each_lane(g, anfi_t_intrins[i].name, g->f64, g->f64, anfi_t_total(d), n, in);
  return anfi_ll_cast(g, d, w, r);
}

static LLVMValueRef fma_of(lgen *g, tintrin i, const LLVMValueRef *v) {
  LLVMValueRef in[3] = {i == TI_fnmadd ? ll.BuildFNeg(g->b, v[0], "") : v[0], v[1], v[2]};
  return anfi_ll_intrinsic(g, "llvm.fma", ll.TypeOf(v[0]), 3, in);
}

static LLVMValueRef is_infinite(lgen *g, tdtype d, LLVMValueRef v) {
  uint64_t inf = anfi_t_lane_of_f64(d, (double)INFINITY);
  return ll.BuildFCmp(g->b, LLVMRealOEQ, one_arg(g, "llvm.fabs", v),
                      anfi_ll_bits_constant(g, d, &inf, 1), "");
}

static LLVMValueRef real_intrin(lgen *g, tintrin i, tdtype d, const LLVMValueRef *v) {
  switch (i) { /* dispatch */
  case TI_abs: return one_arg(g, "llvm.fabs", v[0]);
  case TI_round: return one_arg(g, "llvm.rint", v[0]);
  case TI_floor: return one_arg(g, "llvm.floor", v[0]);
  case TI_ceil: return one_arg(g, "llvm.ceil", v[0]);
  case TI_trunc: return one_arg(g, "llvm.trunc", v[0]);
  case TI_sqrt: return one_arg(g, "llvm.sqrt", v[0]); // rounding twice is rounding once here
  case TI_fmod: return ll.BuildFRem(g->b, v[0], v[1], "");
  case TI_copysign: {
    LLVMValueRef in[2] = {v[0], v[1]};
    return anfi_ll_intrinsic(g, "llvm.copysign", ll.TypeOf(v[0]), 2, in);
  }
  case TI_isnan: return ll.BuildFCmp(g->b, LLVMRealUNO, v[0], v[0], "");
  case TI_isinf: return is_infinite(g, d, v[0]);
  case TI_fmadd:
  case TI_fnmadd: return fma_of(g, i, v);
  default: return by_libm(g, i, d, v);
  }
}

static LLVMValueRef absolute(lgen *g, tdtype d, LLVMValueRef v) {
  if (anfi_t_class(d) != TC_SINT) return v;
  LLVMValueRef in[2] = {v, ll.ConstInt(g->i1, 0, 0)};
  return anfi_ll_intrinsic(g, "llvm.abs", ll.TypeOf(v), 2, in);
}

static LLVMValueRef shift(lgen *g, tintrin i, tdtype d, LLVMValueRef a, LLVMValueRef b) {
  LLVMTypeRef t = ll.TypeOf(a);
  if (anfi_t_class(d) == TC_BOOL) { // 8 bits wide, as in memory
    tdtype w = anfi_t_with(d, ANF_TIR_u8);
    LLVMValueRef r = shift(g, i, w, anfi_ll_cast(g, w, d, a), anfi_ll_cast(g, w, d, b));
    return anfi_ll_from_bits(g, d, r);
  }
  b = ll.BuildAnd(g->b, b, anfi_ll_int(t, anfi_t_bytes(d) * 8 - 1), "");
  if (i == TI_shl) return ll.BuildShl(g->b, a, b, "");
  return anfi_t_class(d) == TC_SINT ? ll.BuildAShr(g->b, a, b, "") : ll.BuildLShr(g->b, a, b, "");
}

static LLVMValueRef int_intrin(lgen *g, tintrin i, tdtype d, const LLVMValueRef *v) {
  switch (i) { /* dispatch */
  case TI_abs: return absolute(g, d, v[0]);
  case TI_fmadd:
  case TI_fnmadd:
    return anfi_ll_bin(g, i == TI_fmadd ? TX_add : TX_sub, d, v[2],
                       anfi_ll_bin(g, TX_mul, d, v[0], v[1]));
  case TI_int_and: return ll.BuildAnd(g->b, v[0], v[1], "");
  case TI_int_or: return ll.BuildOr(g->b, v[0], v[1], "");
  case TI_int_xor: return ll.BuildXor(g->b, v[0], v[1], "");
  case TI_int_not: return ll.BuildNot(g->b, v[0], "");
  case TI_shl:
  case TI_shr: return shift(g, i, d, v[0], v[1]);
  case TI_isnan:
  case TI_isinf: return ll.ConstNull(anfi_ll_vector_of(g->i1, anfi_t_total(d)));
  case TI_round:
  case TI_floor:
  case TI_ceil:
  case TI_trunc: return v[0];
  default: return by_libm(g, i, d, v);
  }
}

static LLVMValueRef lanewise(lgen *g, tintrin i, tdtype d, const LLVMValueRef *v) {
  if (anfi_t_is_half(d)) {
    tdtype w = as_f32(d);
    uint32_t n = anfi_t_intrins[i].hi;
    LLVMValueRef in[3] = {NULL, NULL, NULL};
    for (uint32_t k = 0; k < n && k < 3; k++) in[k] = anfi_ll_cast(g, w, d, v[k]);
    LLVMValueRef r = lanewise(g, i, w, in);
    return anfi_t_intrins[i].typing == TT_BOOLS ? r : anfi_ll_cast(g, d, w, r);
  }
  if (i == TI_min || i == TI_max) return min_max(g, i, d, v[0], v[1]);
  if (!anfi_t_is_float(d)) return int_intrin(g, i, d, v);
  g->floats += anfi_t_total(d) == 1;
  return real_intrin(g, i, d, v);
}

LLVMValueRef anfi_ll_lanewise(lgen *g, texpr e, const LLVMValueRef *v) {
  return lanewise(g, (tintrin)e->sub, e->in[0]->dtype, v);
}

/* Of f16 and bf16 in f32, rounded once. */
LLVMValueRef anfi_ll_reduce(lgen *g, texpr e, LLVMValueRef v) {
  tdtype d = e->in[0]->dtype, lane = anfi_t_dt((anf_tir_elem)d.elem),
         one = anfi_t_accumulator(lane);
  uint32_t n = anfi_t_total(d);
  LLVMValueRef acc = anfi_ll_cast(g, one, lane, anfi_ll_lane(g, v, n, 0));
  for (uint32_t k = 1; k < n; k++) {
    LLVMValueRef in[2] = {acc, anfi_ll_cast(g, one, lane, anfi_ll_lane(g, v, n, k))};
    if (e->sub == TI_reduce_add) acc = anfi_ll_bin(g, TX_add, one, in[0], in[1]);
    else if (e->sub == TI_reduce_mul) acc = anfi_ll_bin(g, TX_mul, one, in[0], in[1]);
    else acc = lanewise(g, e->sub == TI_reduce_max ? TI_max : TI_min, one, in);
  }
  return anfi_ll_cast(g, lane, one, acc);
}

/* ---- the three conversions ---- */

static LLVMValueRef limit(lgen *g, LLVMValueRef v, bool is_signed, bool upper, uint64_t bound) {
  LLVMValueRef k = anfi_ll_int(ll.TypeOf(v), bound);
  LLVMIntPredicate p = upper ? (is_signed ? LLVMIntSGT : LLVMIntUGT) : LLVMIntSLT;
  return ll.BuildSelect(g->b, ll.BuildICmp(g->b, p, v, k, ""), k, v, "");
}

/* An integer into the range of another type, in 64 bits */
static LLVMValueRef clamp(lgen *g, tdtype to, tdtype from, LLVMValueRef v) {
  unsigned n = (unsigned)anfi_t_bytes(to) * 8;
  bool neg = anfi_t_class(from) == TC_SINT;
  tdtype wide = anfi_t_with(from, neg ? ANF_TIR_s64 : ANF_TIR_u64);
  if (anfi_t_class(to) == TC_BOOL) return anfi_ll_cast(g, to, from, v);
  v = anfi_ll_cast(g, wide, from, v);
  if (anfi_t_class(to) == TC_UINT) {
    if (neg) v = limit(g, v, true, false, 0);
    if (n < 64) v = limit(g, v, neg, true, (UINT64_C(1) << n) - 1);
  } else {
    uint64_t hi = (UINT64_C(1) << (n - 1)) - 1;
    if (n < 64 || !neg) v = limit(g, v, neg, true, hi);
    if (n < 64 && neg) v = limit(g, v, true, false, ~hi);
  }
  return anfi_ll_cast(g, to, wide, v);
}

LLVMValueRef anfi_ll_convert(lgen *g, texpr e, LLVMValueRef v) {
  tdtype to = e->dtype, from = e->in[0]->dtype;
  if (e->sub == TI_reinterpret) return anfi_ll_from_bits(g, to, anfi_ll_to_bits(g, from, v));
  if (anfi_t_is_float(to)) return anfi_ll_cast(g, to, from, v);
  if (anfi_t_is_float(from)) return anfi_ll_cast(g, to, from, lanewise(g, TI_round, from, &v));
  return e->sub == TI_saturated_cast ? clamp(g, to, from, v) : anfi_ll_cast(g, to, from, v);
}
