// SPDX-License-Identifier: Apache-2.0
/* Types, constants and conversions: the meaning of backend/tir/value.c as LLVM IR.
 *   bf16 in memory: i16;  as a value: i16;  bf16 -> f32: a shift by 16 bits, as a float */
#include "backend/llvm/llvm.h"

static LLVMTypeRef lane_type(lgen *g, tdtype d) {
  if (d.ptr) return g->ptr;
  switch (d.elem) {
  case ANF_TIR_void: return g->none;
  case ANF_TIR_bool: return g->i1;
  case ANF_TIR_s8:
  case ANF_TIR_u8: return g->i8;
  case ANF_TIR_s16:
  case ANF_TIR_u16:
  case ANF_TIR_f16:
  case ANF_TIR_bf16: return g->i16;
  case ANF_TIR_s32:
  case ANF_TIR_u32: return g->i32;
  case ANF_TIR_f32: return g->f32;
  case ANF_TIR_f64: return g->f64;
  default: return g->i64;
  }
}

LLVMTypeRef anfi_ll_vector_of(LLVMTypeRef lane, uint32_t n) {
  return n == 1 ? lane : ll.VectorType(lane, n);
}
LLVMTypeRef anfi_ll_type(lgen *g, tdtype d) {
  return anfi_ll_vector_of(lane_type(g, d), anfi_t_total(d));
}
LLVMTypeRef anfi_ll_memory_type(lgen *g, tdtype d) {
  LLVMTypeRef t = lane_type(g, d);
  return anfi_ll_vector_of(t == g->i1 ? g->i8 : t, anfi_t_total(d));
}

static bool is_vector(LLVMTypeRef t) { return ll.GetTypeKind(t) == LLVMVectorTypeKind; }

static LLVMValueRef in_all(LLVMTypeRef t, LLVMValueRef one) {
  LLVMValueRef lane[1024];
  unsigned n = ll.GetVectorSize(t);
  for (unsigned i = 0; i < n && i < 1024; i++) lane[i] = one;
  return ll.ConstVector(lane, n);
}

LLVMValueRef anfi_ll_int(LLVMTypeRef t, uint64_t v) {
  if (is_vector(t)) return in_all(t, ll.ConstInt(ll.GetElementType(t), v, 0));
  return ll.ConstInt(t, v, 0);
}
LLVMValueRef anfi_ll_i64(lgen *g, uint64_t v) { return ll.ConstInt(g->i64, v, 0); }
LLVMValueRef anfi_ll_i32(lgen *g, uint64_t v) { return ll.ConstInt(g->i32, v, 0); }

LLVMValueRef anfi_ll_lane(lgen *g, LLVMValueRef v, uint32_t total, uint32_t k) {
  return total == 1 ? v : ll.BuildExtractElement(g->b, v, anfi_ll_i32(g, k), "");
}
LLVMValueRef anfi_ll_put_lane(lgen *g, LLVMValueRef v, uint32_t total, uint32_t k, LLVMValueRef x) {
  return total == 1 ? x : ll.BuildInsertElement(g->b, v, x, anfi_ll_i32(g, k), "");
}

LLVMValueRef anfi_ll_splat(lgen *g, LLVMValueRef scalar, uint32_t n) {
  if (n == 1) return scalar;
  LLVMTypeRef t = ll.VectorType(ll.TypeOf(scalar), n);
  LLVMValueRef v = ll.BuildInsertElement(g->b, ll.GetPoison(t), scalar, anfi_ll_i32(g, 0), "");
  return ll.BuildShuffleVector(g->b, v, ll.GetPoison(t), ll.ConstNull(ll.VectorType(g->i32, n)),
                               "");
}

LLVMValueRef anfi_ll_bits_constant(lgen *g, tdtype d, const uint64_t *bits, uint32_t n) {
  uint32_t total = anfi_t_total(d);
  LLVMTypeRef t = lane_type(g, d),
              raw = d.ptr ? g->i64 : ll.IntTypeInContext(g->c, (unsigned)anfi_t_bytes(d) * 8);
  LLVMValueRef *lane = ANFI_NEW_N(g->a, LLVMValueRef, total);
  for (uint32_t i = 0; i < total; i++) {
    uint64_t v = bits[n == 1 ? 0 : i];
    if (t == g->i1) lane[i] = ll.ConstInt(t, v != 0, 0);
    else if (d.ptr) lane[i] = ll.ConstIntToPtr(ll.ConstInt(raw, v, 0), t);
    else lane[i] = ll.ConstBitCast(ll.ConstInt(raw, v, 0), t);
  }
  return total == 1 ? lane[0] : ll.ConstVector(lane, total);
}

LLVMValueRef anfi_ll_constant(lgen *g, texpr e) {
  if (anfi_t_is_void(e->dtype)) return ll.ConstNull(g->ptr); // none
  return anfi_ll_bits_constant(g, e->dtype, e->u.k.bits, e->u.k.n);
}

LLVMValueRef anfi_ll_intrinsic(lgen *g, const char *name, LLVMTypeRef over, uint32_t n,
                               LLVMValueRef *args) {
  unsigned id = ll.LookupIntrinsicID(name, strlen(name));
  LLVMValueRef fn = ll.GetIntrinsicDeclaration(g->m, id, &over, 1);
  LLVMTypeRef t = ll.IntrinsicGetType(g->c, id, &over, 1);
  return ll.BuildCall2(g->b, t, fn, args, n, "");
}

LLVMValueRef anfi_ll_each_lane(lgen *g, const char *fn, LLVMTypeRef ret, LLVMTypeRef arg,
                               uint32_t total, uint32_t n, const LLVMValueRef *v) {
  LLVMTypeRef params[2] = {arg, arg}, t = ll.FunctionType(ret, params, n, 0);
  LLVMValueRef f = anfi_ll_extern(g, fn, t), r = ll.GetPoison(anfi_ll_vector_of(ret, total));
  for (uint32_t k = 0; k < total; k++) {
    LLVMValueRef in[2];
    for (uint32_t i = 0; i < n; i++) in[i] = anfi_ll_lane(g, v[i], total, k);
    LLVMValueRef call = ll.BuildCall2(g->b, t, f, in, n, "");
    anfi_ll_attr(g, call, (unsigned)LLVMAttributeFunctionIndex, "nobuiltin", true);
    r = anfi_ll_put_lane(g, r, total, k, call);
  }
  return r;
}

/* ---- bits ---- */

LLVMValueRef anfi_ll_to_bits(lgen *g, tdtype d, LLVMValueRef v) {
  uint32_t n = anfi_t_total(d);
  if (d.ptr) return ll.BuildPtrToInt(g->b, v, anfi_ll_vector_of(g->i64, n), "");
  if (d.elem == ANF_TIR_bool) return ll.BuildZExt(g->b, v, anfi_ll_vector_of(g->i8, n), "");
  if (d.elem == ANF_TIR_f32) return ll.BuildBitCast(g->b, v, anfi_ll_vector_of(g->i32, n), "");
  if (d.elem == ANF_TIR_f64) return ll.BuildBitCast(g->b, v, anfi_ll_vector_of(g->i64, n), "");
  return v;
}

LLVMValueRef anfi_ll_from_bits(lgen *g, tdtype d, LLVMValueRef v) {
  LLVMTypeRef t = anfi_ll_type(g, d);
  if (d.ptr) return ll.BuildIntToPtr(g->b, v, t, "");
  if (d.elem == ANF_TIR_bool)
    return ll.BuildICmp(g->b, LLVMIntNE, v, ll.ConstNull(ll.TypeOf(v)), "");
  return anfi_t_is_float(d) ? ll.BuildBitCast(g->b, v, t, "") : v;
}

static LLVMValueRef resize(lgen *g, LLVMValueRef v, uint32_t bits_from, uint32_t bits_to,
                           uint32_t n, bool is_signed) {
  LLVMTypeRef t = anfi_ll_vector_of(ll.IntTypeInContext(g->c, bits_to), n);
  if (bits_from == bits_to) return v;
  if (bits_from > bits_to) return ll.BuildTrunc(g->b, v, t, "");
  return is_signed ? ll.BuildSExt(g->b, v, t, "") : ll.BuildZExt(g->b, v, t, "");
}

/* ---- f16 and bf16 ---- */

static LLVMValueRef bf16_to_f32(lgen *g, LLVMValueRef v, uint32_t n) {
  LLVMTypeRef t = anfi_ll_vector_of(g->i32, n);
  v = ll.BuildShl(g->b, ll.BuildZExt(g->b, v, t, ""), anfi_ll_int(t, 16), "");
  return ll.BuildBitCast(g->b, v, anfi_ll_vector_of(g->f32, n), "");
}

static LLVMValueRef f16_to_f32(lgen *g, LLVMValueRef v, uint32_t n) {
  if (!g->f16c) return anfi_ll_each_lane(g, "anf_rt_f16_to_f32", g->f32, g->i16, n, 1, &v);
  g->halves += n == 1;
  LLVMTypeRef half = anfi_ll_vector_of(ll.HalfTypeInContext(g->c), n);
  return ll.BuildFPExt(g->b, ll.BuildBitCast(g->b, v, half, ""), anfi_ll_vector_of(g->f32, n), "");
}

/* (bits + 0x7fff + last kept bit) >> 16; a NaN stays one */
static LLVMValueRef f32_to_bf16(lgen *g, LLVMValueRef v, uint32_t n) {
  LLVMTypeRef t = anfi_ll_vector_of(g->i32, n), small = anfi_ll_vector_of(g->i16, n);
  LLVMValueRef nan = ll.BuildFCmp(g->b, LLVMRealUNO, v, v, ""), u = ll.BuildBitCast(g->b, v, t, ""),
               high = ll.BuildLShr(g->b, u, anfi_ll_int(t, 16), ""),
               odd = ll.BuildAnd(g->b, high, anfi_ll_int(t, 1), "");
  LLVMValueRef sum = ll.BuildAdd(g->b, ll.BuildAdd(g->b, u, anfi_ll_int(t, 0x7fff), ""), odd, "");
  LLVMValueRef r = ll.BuildSelect(g->b, nan, ll.BuildOr(g->b, high, anfi_ll_int(t, 0x40), ""),
                                  ll.BuildLShr(g->b, sum, anfi_ll_int(t, 16), ""), "");
  return ll.BuildTrunc(g->b, r, small, "");
}

/* Rounded to odd, from which a half is rounded as if from f64: towards zero, with the last bit set if that is not exact. */
static LLVMValueRef f64_to_odd_f32(lgen *g, LLVMValueRef v, uint32_t n) {
  LLVMTypeRef f32 = anfi_ll_vector_of(g->f32, n), f64 = ll.TypeOf(v),
              t = anfi_ll_vector_of(g->i32, n);
  LLVMValueRef near = ll.BuildFPTrunc(g->b, v, f32, ""), back = ll.BuildFPExt(g->b, near, f64, "");
  LLVMValueRef above =
                   ll.BuildFCmp(g->b, LLVMRealOGT, anfi_ll_intrinsic(g, "llvm.fabs", f64, 1, &back),
                                anfi_ll_intrinsic(g, "llvm.fabs", f64, 1, &v), ""),
               other = ll.BuildFCmp(g->b, LLVMRealONE, back, v, "");
  LLVMValueRef bits = ll.BuildBitCast(g->b, near, t, "");
  bits = ll.BuildSub(g->b, bits, ll.BuildZExt(g->b, above, t, ""), "");
  bits = ll.BuildOr(g->b, bits, ll.BuildZExt(g->b, other, t, ""), "");
  return ll.BuildBitCast(g->b, bits, f32, "");
}

static LLVMValueRef to_half(lgen *g, tdtype to, tdtype from, LLVMValueRef v) {
  uint32_t n = anfi_t_total(to);
  bool bf16 = to.elem == ANF_TIR_bf16, f32 = from.elem == ANF_TIR_f32;
  if (!bf16 && !g->f16c) {
    if (f32) v = ll.BuildFPExt(g->b, v, anfi_ll_vector_of(g->f64, n), "");
    return anfi_ll_each_lane(g, "anf_rt_f64_to_f16", g->i16, g->f64, n, 1, &v);
  }
  if (!f32) v = f64_to_odd_f32(g, v, n);
  if (bf16) return f32_to_bf16(g, v, n);
  LLVMTypeRef half = anfi_ll_vector_of(ll.HalfTypeInContext(g->c), n);
  g->halves += n == 1;
  return ll.BuildBitCast(g->b, ll.BuildFPTrunc(g->b, v, half, ""), anfi_ll_type(g, to), "");
}

/* f16 and bf16 widened to f32; `d` follows */
static LLVMValueRef widen(lgen *g, tdtype *d, LLVMValueRef v) {
  uint32_t n = anfi_t_total(*d);
  if (!anfi_t_elem_is_half((anf_tir_elem)d->elem)) return v;
  v = d->elem == ANF_TIR_f16 ? f16_to_f32(g, v, n) : bf16_to_f32(g, v, n);
  *d = anfi_t_with(*d, ANF_TIR_f32);
  return v;
}

/* ---- casts ---- */

static LLVMValueRef float_to_float(lgen *g, tdtype to, tdtype from, LLVMValueRef v) {
  v = widen(g, &from, v);
  if (anfi_t_elem_is_half((anf_tir_elem)to.elem)) return to_half(g, to, from, v);
  if (to.elem == from.elem) return v;
  LLVMTypeRef t = anfi_ll_type(g, to);
  return to.elem == ANF_TIR_f64 ? ll.BuildFPExt(g->b, v, t, "") : ll.BuildFPTrunc(g->b, v, t, "");
}

/* To s32 or s64, saturating as the intrinsic, which is not made vector code; NaN gives 0. */
static LLVMValueRef float_to_signed(lgen *g, tdtype to, tdtype from, LLVMValueRef v) {
  bool wide = from.elem == ANF_TIR_f64, word = to.elem == ANF_TIR_s32;
  uint32_t n = anfi_t_total(from);
  uint64_t edge = wide ? (uint64_t)(word ? 0x41e : 0x43e) << 52
                       : (uint64_t)(word ? 0x4f : 0x5f) << 24; // 2^31 or 2^63
  uint64_t sign = wide ? UINT64_C(1) << 63 : UINT64_C(1) << 31;
  LLVMTypeRef bits = anfi_ll_vector_of(wide ? g->i64 : g->i32, n), real = anfi_ll_type(g, from),
              whole = anfi_ll_vector_of(word ? g->i32 : g->i64, n);
  LLVMValueRef high = ll.BuildBitCast(g->b, anfi_ll_int(bits, edge), real, ""),
               low = ll.BuildBitCast(g->b, anfi_ll_int(bits, edge | sign), real, "");
  LLVMValueRef above = ll.BuildFCmp(g->b, LLVMRealOGE, v, high, ""),
               least = ll.BuildFCmp(g->b, LLVMRealOLT, v, low, ""),
               inside = ll.BuildAnd(g->b, ll.BuildFCmp(g->b, LLVMRealOGE, v, low, ""),
                                    ll.BuildFCmp(g->b, LLVMRealOLT, v, high, ""), "");
  uint64_t top = word ? INT32_MAX : INT64_MAX;
  v = ll.BuildFPToSI(g->b, ll.BuildSelect(g->b, inside, v, ll.ConstNull(real), ""), whole, "");
  v = ll.BuildSelect(g->b, above, anfi_ll_int(whole, top), v, "");
  return ll.BuildSelect(g->b, least, anfi_ll_int(whole, top + 1), v, "");
}

/* To an integer of fewer bits through s32, and to u32 through s64: these are made vector code. */
static LLVMValueRef float_to_narrow(lgen *g, tdtype to, tdtype from, LLVMValueRef v) {
  unsigned bits = (unsigned)anfi_t_bytes(to) * 8;
  bool neg = anfi_t_class(to) == TC_SINT;
  tdtype mid = anfi_t_with(to, bits == 32 ? ANF_TIR_s64 : ANF_TIR_s32);
  v = float_to_signed(g, mid, from, v);
  uint64_t top = (UINT64_C(1) << (neg ? bits - 1 : bits)) - 1;
  LLVMTypeRef t = ll.TypeOf(v);
  LLVMValueRef high = anfi_ll_int(t, top), low = anfi_ll_int(t, neg ? ~top : 0);
  v = ll.BuildSelect(g->b, ll.BuildICmp(g->b, LLVMIntSGT, v, high, ""), high, v, "");
  v = ll.BuildSelect(g->b, ll.BuildICmp(g->b, LLVMIntSLT, v, low, ""), low, v, "");
  return ll.BuildTrunc(g->b, v, anfi_ll_type(g, to), "");
}

static LLVMValueRef float_to_int(lgen *g, tdtype to, tdtype from, LLVMValueRef v) {
  v = widen(g, &from, v);
  if (to.elem == ANF_TIR_s64 || to.elem == ANF_TIR_s32) return float_to_signed(g, to, from, v);
  if (anfi_t_bytes(to) < 8 && anfi_t_is_int(to)) return float_to_narrow(g, to, from, v);
  LLVMTypeRef over[2] = {anfi_ll_type(g, to), anfi_ll_type(g, from)};
  const char *name = anfi_t_class(to) == TC_SINT ? "llvm.fptosi.sat" : "llvm.fptoui.sat";
  unsigned id = ll.LookupIntrinsicID(name, strlen(name));
  LLVMValueRef fn = ll.GetIntrinsicDeclaration(g->m, id, over, 2);
  return ll.BuildCall2(g->b, ll.IntrinsicGetType(g->c, id, over, 2), fn, &v, 1, "");
}

/* Floats narrower than f32 are reached through f64, rounded once from there. */
static LLVMValueRef int_to_float(lgen *g, tdtype to, tdtype from, LLVMValueRef v) {
  bool half = anfi_t_elem_is_half((anf_tir_elem)to.elem);
  tdtype mid = half ? anfi_t_with(to, ANF_TIR_f64) : to;
  LLVMTypeRef t = anfi_ll_type(g, mid);
  v = anfi_t_class(from) == TC_SINT ? ll.BuildSIToFP(g->b, v, t, "")
                                    : ll.BuildUIToFP(g->b, v, t, "");
  return half ? to_half(g, to, mid, v) : v;
}

static uint32_t width(tdtype d) { return (uint32_t)anfi_t_bytes(d) * 8; }

LLVMValueRef anfi_ll_cast(lgen *g, tdtype to, tdtype from, LLVMValueRef v) {
  tclass tc = anfi_t_class(to), fc = anfi_t_class(from);
  uint32_t n = anfi_t_total(from);
  if (to.elem == from.elem && to.ptr == from.ptr) return v;
  if (to.ptr && from.ptr) return v;
  if (tc == TC_GENERIC || fc == TC_GENERIC || to.ptr || from.ptr) {
    v = resize(g, anfi_ll_to_bits(g, from, v), width(from), width(to), n, false);
    return anfi_ll_from_bits(g, to, v);
  }
  if (fc == TC_FLOAT) {
    if (tc == TC_FLOAT) return float_to_float(g, to, from, v);
    if (tc != TC_BOOL) return float_to_int(g, to, from, v);
    v = widen(g, &from, v);
    return ll.BuildFCmp(g->b, LLVMRealUNE, v, ll.ConstNull(ll.TypeOf(v)), "");
  }
  if (tc == TC_FLOAT) return int_to_float(g, to, from, v);
  if (tc == TC_BOOL) return ll.BuildICmp(g->b, LLVMIntNE, v, ll.ConstNull(ll.TypeOf(v)), "");
  if (fc == TC_BOOL) return ll.BuildZExt(g->b, v, anfi_ll_type(g, to), "");
  return resize(g, v, width(from), width(to), n, fc == TC_SINT);
}
