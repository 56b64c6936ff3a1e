// SPDX-License-Identifier: Apache-2.0
/* Types, constants and operations of one value as text (backend/tir/value.c defines what they mean).
 *   a + b of f32   ->   (a + b)              a / b of s32   ->   a helper function that traps at 0
 *   0.5 of f32     ->   0.5f                 f16            ->   to f32, the operation, back to f16
 * Vectors go the same way, through functions over their lanes. */
#include "backend/c/c.h"

#include <math.h>

#define SAY(...) anfi_sprintf(c->a, __VA_ARGS__)

static bool is_real(tdtype d) { return !d.ptr && (d.elem == ANF_TIR_f32 || d.elem == ANF_TIR_f64); }
static tdtype one(tdtype d) { return (tdtype){d.elem, d.ptr, 1, 0}; }
static bool is_generic(tdtype d) { return anfi_t_class(d) == TC_GENERIC; }

const char *anfi_c_type(cgen *c, tdtype d) {
  if (anfi_c_is_lanes(d)) return anfi_c_lanes_type(c, d);
  return d.ptr ? SAY("%s *", anfi_t_elem_names[d.elem]) : anfi_t_elem_names[d.elem];
}

const char *anfi_c_elem(const cgen *c, texpr tensor) {
  (void)c;
  return tensor->sub ? "pointer" : anfi_t_elem_names[tensor->dtype.elem];
}

/* The unsigned type of as many bytes. */
static const char *word(tdtype d) {
  static const char *const names[] = {"", "u8", "u16", "", "u32", "", "", "", "u64"};
  return names[anfi_t_bytes(d)];
}

/* ---- constants ---- */

static const char *real(cgen *c, tdtype d, uint64_t bits) {
  double v = anfi_t_lane_f64(d, bits);
  anf_text *t = c->tmp;
  if (!isfinite(v))
    return isnan(v) ? SAY("%s(0x%llx)", anfi_c_of_bits(c, d), (unsigned long long)bits)
                    : (v < 0 ? "(-INFINITY)" : "INFINITY");
  t->len = 0;
  if (d.elem == ANF_TIR_f32) anfi_put_f32(t, (float)v);
  else anfi_put_f64(t, v);
  const char *f = d.elem == ANF_TIR_f32 ? "f" : "",
             *s = signbit(v) ? SAY("(%s%s)", t->text, f) : SAY("%s%s", t->text, f);
  return s;
}

static const char *integer(cgen *c, tdtype d, uint64_t bits) {
  int64_t v = anfi_t_lane_i64(d, bits);
  const char *suffix = anfi_t_bytes(d) == 8 ? "LL" : "";
  if (anfi_t_class(d) == TC_UINT)
    return SAY("%llu%s", (unsigned long long)bits,
               anfi_t_bytes(d) == 8   ? "ULL"
               : anfi_t_bytes(d) == 4 ? "U"
                                      : "");
  if (v == INT64_MIN) return "INT64_MIN";
  if (v == INT32_MIN && d.elem == ANF_TIR_s32) return "INT32_MIN";
  return v < 0 ? SAY("(%lld%s)", (long long)v, suffix) : SAY("%lld%s", (long long)v, suffix);
}

const char *anfi_c_lane(cgen *c, tdtype d, uint64_t bits) {
  if (d.ptr)
    return bits ? SAY("(%s)(uintptr_t)0x%llxULL", anfi_c_type(c, one(d)), (unsigned long long)bits)
                : "NULL";
  switch (anfi_t_class(d)) {
  case TC_BOOL: return bits ? "true" : "false";
  case TC_FLOAT:
    return anfi_t_is_half(d) ? SAY("0x%04x /* %g */", (unsigned)bits, anfi_t_lane_f64(d, bits))
                             : real(c, d, bits);
  case TC_GENERIC: return SAY("0x%llxULL", (unsigned long long)bits);
  case TC_NONE: return "0";
  case TC_SINT:
  case TC_UINT: break;
  }
  return integer(c, d, bits);
}

const char *anfi_c_constant(cgen *c, texpr e) {
  tdtype d = e->dtype;
  if (!anfi_c_is_lanes(d)) return anfi_c_lane(c, d, e->u.k.bits[0]);
  if (e->u.k.n == 1)
    return SAY("%s(%s)", anfi_c_splat(c, d), anfi_c_lane(c, one(d), e->u.k.bits[0]));
  const char **in = ANFI_NEW_N(c->a, const char *, e->u.k.n);
  for (uint32_t i = 0; i < e->u.k.n; i++) in[i] = anfi_c_lane(c, one(d), e->u.k.bits[i]);
  return SAY("(%s){{%s}}", anfi_c_type(c, d), anfi_c_list(c, e->u.k.n, in));
}

/* ---- + - * / % == < && ---- */

static const char *const op_names[TX_COUNT] = {
    [TX_add] = "add",    [TX_sub] = "sub",   [TX_mul] = "mul",   [TX_div] = "div",
    [TX_mod] = "mod",    [TX_cmp_eq] = "eq", [TX_cmp_ne] = "ne", [TX_cmp_lt] = "lt",
    [TX_cmp_le] = "le",  [TX_cmp_gt] = "gt", [TX_cmp_ge] = "ge", [TX_logic_and] = "and",
    [TX_logic_or] = "or"};

static const char *infix(cgen *c, tkind k, const char *a, const char *b) {
  return SAY("(%s %s %s)", a, anfi_t_kind_text[k], b);
}

static bool is_compare(tkind k) { return k >= TX_cmp_eq && k <= TX_cmp_ge; }

static const char *half_bin(cgen *c, tkind k, tdtype d, const char *a, const char *b) {
  const char *f = anfi_c_of_half(c, d);
  a = SAY("%s(%s)", f, a), b = SAY("%s(%s)", f, b);
  if (is_compare(k)) return infix(c, k, a, b);
  const char *r = k == TX_mod ? SAY("fmodf(%s, %s)", a, b) : infix(c, k, a, b);
  return SAY("%s(%s)", anfi_c_to_half(c, d), r);
}

static const char *bool_bin(cgen *c, tkind k, const char *a, const char *b, const char *at) {
  switch (k) {
  case TX_add: return SAY("(%s | %s)", a, b);
  case TX_sub: return SAY("(%s != %s)", a, b);
  case TX_mul: return SAY("(%s & %s)", a, b);
  case TX_div:
  case TX_mod:
    return SAY("((bool)%s(%s, %s, %s))", anfi_c_int_op(c, op_names[k], anfi_t_dt(ANF_TIR_u8)), a, b,
               at);
  default: return infix(c, k, a, b);
  }
}

/* Is the text of the divisor b a constant that is neither 0 nor -1? Then C's operator does. */
static bool safe_divisor(const char *b) { return *b >= '1' && *b <= '9'; }

bool anfi_c_bin_traps(tkind k, tdtype d, const char *b) {
  if ((k != TX_div && k != TX_mod) || anfi_t_is_float(d)) return false;
  return anfi_c_is_lanes(d) || anfi_t_class(d) == TC_BOOL || !safe_divisor(b);
}

static const char *int_bin(cgen *c, tkind k, tdtype d, const char *a, const char *b,
                           const char *at) {
  bool natural = anfi_t_class(d) != TC_SINT && anfi_t_bytes(d) >= 4;
  if (is_compare(k) || k == TX_logic_and || k == TX_logic_or) return infix(c, k, a, b);
  if (k == TX_div || k == TX_mod) {
    if (safe_divisor(b)) return infix(c, k, a, b);
    return SAY("%s(%s, %s, %s)", anfi_c_int_op(c, op_names[k], d), a, b, at);
  }
  if (natural) return infix(c, k, a, b);
  return SAY("%s(%s, %s)", anfi_c_int_op(c, op_names[k], d), a, b);
}

static const char *scalar_bin(cgen *c, tkind k, tdtype d, const char *a, const char *b,
                              const char *at) {
  if (d.ptr) {
    a = SAY("(u64)(uintptr_t)%s", a), b = SAY("(u64)(uintptr_t)%s", b);
    const char *r = int_bin(c, k, anfi_t_dt(ANF_TIR_u64), a, b, at);
    return is_compare(k) ? r : SAY("((%s)(uintptr_t)%s)", anfi_c_type(c, d), r);
  }
  if (anfi_t_class(d) == TC_BOOL) return bool_bin(c, k, a, b, at);
  if (anfi_t_is_half(d)) return half_bin(c, k, d, a, b);
  if (is_real(d))
    return k == TX_mod ? SAY("%s(%s, %s)", d.elem == ANF_TIR_f32 ? "fmodf" : "fmod", a, b)
                       : infix(c, k, a, b);
  return int_bin(c, k, d, a, b, at);
}

const char *anfi_c_at(cgen *c, uint32_t line, uint32_t col) {
  c->traps = true;
  return SAY("ANF_AT(%u, %u)", line, col);
}

const char *anfi_c_bin(cgen *c, tkind k, tdtype d, const char *a, const char *b, const char *at) {
  if (!anfi_c_is_lanes(d)) return scalar_bin(c, k, d, a, b, at);
  tdtype ret = k <= TX_mod ? d : anfi_t_with(d, ANF_TIR_bool);
  bool traps = (k == TX_div || k == TX_mod) && !anfi_t_is_float(d);
  const char *name = SAY("anf_%s_%s", op_names[k], anfi_c_lanes_type(c, d)),
             *lane = scalar_bin(c, k, one(d), "a.v[k]", "b.v[k]", "ANF_AT(line, col)");
  name = anfi_c_lanewise(c, name, ret, 2, (const tdtype[]){d, d}, lane, traps);
  return traps ? SAY("%s(%s, %s, %s)", name, a, b, at) : SAY("%s(%s, %s)", name, a, b);
}

const char *anfi_c_not(cgen *c, tdtype d, const char *x) {
  if (!anfi_c_is_lanes(d)) return SAY("!%s", x);
  tdtype b = anfi_t_with(d, ANF_TIR_bool);
  return SAY(
      "%s(%s)",
      anfi_c_lanewise(c, SAY("anf_not_%s", anfi_c_lanes_type(c, d)), b, 1, &d, "!a.v[k]", false),
      x);
}

/* ---- casts ---- */

/* The bits of a value as an unsigned number of its size, and back. */
static const char *to_bits(cgen *c, tdtype d, const char *x) {
  if (d.ptr) return SAY("(u64)(uintptr_t)%s", x);
  if (is_real(d)) return SAY("%s(%s)", anfi_c_bits_of(c, d), x);
  return anfi_t_is_half(d) || is_generic(d) ? x : SAY("(%s)%s", word(d), x);
}
static const char *from_bits(cgen *c, tdtype d, const char *x) {
  if (d.ptr) return SAY("(%s)(uintptr_t)%s", anfi_c_type(c, d), x);
  if (is_real(d)) return SAY("%s((%s)%s)", anfi_c_of_bits(c, d), word(d), x);
  if (anfi_t_class(d) == TC_BOOL) return SAY("((u8)%s != 0)", x);
  return SAY("(%s)%s", anfi_t_is_half(d) ? "u16" : anfi_c_type(c, d), x);
}

static const char *scalar_cast(cgen *c, tdtype to, tdtype from, const char *x) {
  bool raw = is_generic(to) || is_generic(from) || to.ptr || from.ptr;
  const char *type = anfi_c_type(c, to);
  if (to.elem == from.elem && to.ptr == from.ptr) return x;
  if (to.ptr && from.ptr) return SAY("(%s)%s", type, x);
  if (raw) return SAY("(%s)", from_bits(c, to, SAY("(%s)", to_bits(c, from, x))));
  if (anfi_t_is_half(from)) {
    x = SAY("%s(%s)", anfi_c_of_half(c, from), x);
    from = anfi_t_dt(ANF_TIR_f32);
    if (to.elem == ANF_TIR_f32) return x;
  }
  if (anfi_t_class(to) == TC_BOOL) return SAY("(%s != 0)", x);
  if (anfi_t_is_half(to)) return SAY("%s(%s)", anfi_c_to_half(c, to), x);
  if (is_real(from) && anfi_t_is_int(to)) return SAY("%s(%s)", anfi_c_to_int(c, to), x);
  return SAY("(%s)%s", type, x);
}

const char *anfi_c_cast(cgen *c, tdtype to, tdtype from, const char *x) {
  if (!anfi_c_is_lanes(to)) return scalar_cast(c, to, from, x);
  if (to.elem == from.elem && to.ptr == from.ptr) return x;
  const char *name = SAY("anf_%s_of_%s", anfi_c_lanes_type(c, to), anfi_c_lanes_type(c, from));
  const char *lane = scalar_cast(c, one(to), one(from), "a.v[k]");
  return SAY("%s(%s)", anfi_c_lanewise(c, name, to, 1, &from, lane, false), x);
}

static const char *scalar_convert(cgen *c, tintrin i, tdtype to, tdtype from, const char *x) {
  if (i == TI_reinterpret)
    return anfi_t_same(to, from) ? x
                                 : SAY("(%s)", from_bits(c, to, SAY("(%s)", to_bits(c, from, x))));
  if (anfi_t_is_float(to)) return scalar_cast(c, to, from, x);
  if (anfi_t_is_float(from)) {
    if (anfi_t_is_half(from)) x = SAY("%s(%s)", anfi_c_of_half(c, from), x);
    if (anfi_t_class(to) == TC_BOOL) return SAY("(rint(%s) != 0)", x);
    return SAY("%s(rint(%s))", anfi_c_to_int(c, to), x);
  }
  if (i == TI_round_and_cast || anfi_t_class(to) == TC_BOOL || anfi_t_class(from) == TC_BOOL)
    return scalar_cast(c, to, from, x);
  return SAY("%s(%s)", anfi_c_clamp(c, to, from), x);
}

const char *anfi_c_convert(cgen *c, tintrin i, tdtype to, tdtype from, const char *x) {
  if (!anfi_c_is_lanes(to)) return scalar_convert(c, i, to, from, x);
  const char *name = SAY("anf_%s_%s_of_%s", anfi_t_intrins[i].name, anfi_c_lanes_type(c, to),
                         anfi_c_lanes_type(c, from)),
             *lane = scalar_convert(c, i, one(to), one(from), "a.v[k]");
  return SAY("%s(%s)", anfi_c_lanewise(c, name, to, 1, &from, lane, false), x);
}

/* ---- intrinsics that work lane by lane ---- */

static const char *const math_names[TI_COUNT] = {
#define ANF_TIR_INTRIN(name, lo, hi, typing, cls, fn) [TI_##name] = #fn,
#include "backend/tir/intrin.def"
#undef ANF_TIR_INTRIN
};

/* In double, rounded once: but these are exact, or rounded right, in float too. */
static const char *own_float(tintrin i) {
  switch (i) {
  case TI_round: return "rintf";
  case TI_floor: return "floorf";
  case TI_ceil: return "ceilf";
  case TI_trunc: return "truncf";
  case TI_sqrt: return "sqrtf";
  case TI_fmod: return "fmodf";
  case TI_copysign: return "copysignf";
  default: return NULL;
  }
}

static const char *math_call(cgen *c, tintrin i, uint32_t n, const char *const *in) {
  if (i == TI_rsqrt) return SAY("(1 / sqrt(%s))", in[0]);
  return n == 1 ? SAY("%s(%s)", math_names[i], in[0])
                : SAY("%s(%s, %s)", math_names[i], in[0], in[1]);
}

static const char *real_math(cgen *c, tintrin i, tdtype d, uint32_t n, const char *const *in) {
  bool f32 = d.elem == ANF_TIR_f32;
  switch (i) {
  case TI_abs: return SAY("%s(%s)", f32 ? "fabsf" : "fabs", in[0]);
  case TI_isnan:
  case TI_isinf: return SAY("(%s(%s) != 0)", i == TI_isnan ? "isnan" : "isinf", in[0]);
  case TI_fmadd:
  case TI_fnmadd:
    return SAY("%s(%s%s, %s, %s)", f32 ? "fmaf" : "fma", i == TI_fnmadd ? "-" : "", in[0], in[1],
               in[2]);
  default: break;
  }
  if (f32 && own_float(i))
    return n == 1 ? SAY("%s(%s)", own_float(i), in[0])
                  : SAY("%s(%s, %s)", own_float(i), in[0], in[1]);
  return f32 ? SAY("(f32)%s", math_call(c, i, n, in)) : math_call(c, i, n, in);
}

static const char *half_math(cgen *c, tintrin i, tdtype d, uint32_t n, const char *const *in) {
  const char *x[3] = {NULL};
  for (uint32_t k = 0; k < n && k < 3; k++) x[k] = SAY("%s(%s)", anfi_c_of_half(c, d), in[k]);
  if (i == TI_isnan || i == TI_isinf) return real_math(c, i, anfi_t_dt(ANF_TIR_f32), n, x);
  bool fused = i == TI_fmadd || i == TI_fnmadd; // in float, then rounded again
  const char *r = fused ? real_math(c, i, anfi_t_dt(ANF_TIR_f32), n, x)
                        : real_math(c, i, anfi_t_dt(ANF_TIR_f64), n, x);
  return SAY("%s(%s)", anfi_c_to_half(c, d), r);
}

static const char *int_math(cgen *c, tintrin i, tdtype d, uint32_t n, const char *const *in) {
  bool is_bool = anfi_t_class(d) == TC_BOOL;
  tdtype w = is_bool ? anfi_t_dt(ANF_TIR_u8) : d;
  switch (i) {
  case TI_abs:
    return anfi_t_class(d) == TC_SINT ? SAY("%s(%s)", anfi_c_int_op(c, "abs", d), in[0]) : in[0];
  case TI_fmadd:
  case TI_fnmadd:
    return scalar_bin(c, i == TI_fmadd ? TX_add : TX_sub, d, in[2],
                      scalar_bin(c, TX_mul, d, in[0], in[1], ""), "");
  case TI_int_and: return SAY("(%s & %s)", in[0], in[1]);
  case TI_int_or: return SAY("(%s | %s)", in[0], in[1]);
  case TI_int_xor: return SAY("(%s ^ %s)", in[0], in[1]);
  case TI_int_not: return is_bool ? SAY("!%s", in[0]) : SAY("(%s)~%s", anfi_c_type(c, d), in[0]);
  case TI_shl:
  case TI_shr:
    return SAY("%s%s(%s, %s)", is_bool ? "(bool)" : "",
               anfi_c_int_op(c, i == TI_shl ? "shl" : "shr", w), in[0], in[1]);
  case TI_isnan:
  case TI_isinf: return SAY("((void)%s, false)", in[0]);
  case TI_round:
  case TI_floor:
  case TI_ceil:
  case TI_trunc: return in[0];
  default: break;
  }
  const char *r = math_call(c, i, n, in);
  return is_bool ? SAY("(%s != 0)", r) : SAY("%s(%s)", anfi_c_to_int(c, d), r);
}

static const char *scalar_math(cgen *c, tintrin i, tdtype d, uint32_t n, const char *const *in) {
  if (i == TI_min || i == TI_max) return SAY("%s(%s, %s)", anfi_c_min_max(c, i, d), in[0], in[1]);
  return is_real(d)          ? real_math(c, i, d, n, in)
         : anfi_t_is_half(d) ? half_math(c, i, d, n, in)
                             : int_math(c, i, d, n, in);
}

const char *anfi_c_math(cgen *c, tintrin i, tdtype d, uint32_t n, const char *const *in) {
  if (!anfi_c_is_lanes(d)) return scalar_math(c, i, d, n, in);
  const tdtype all[3] = {d, d, d};
  tdtype ret = anfi_t_intrins[i].typing == TT_BOOLS ? anfi_t_with(d, ANF_TIR_bool) : d;
  const char *lane =
                 scalar_math(c, i, one(d), n, (const char *const[]){"a.v[k]", "b.v[k]", "c.v[k]"}),
             *name = anfi_c_lanewise(
                 c, SAY("anf_%s_%s", anfi_t_intrins[i].name, anfi_c_lanes_type(c, d)), ret, n, all,
                 lane, false);
  return n == 1   ? SAY("%s(%s)", name, in[0])
         : n == 2 ? SAY("%s(%s, %s)", name, in[0], in[1])
                  : SAY("%s(%s, %s, %s)", name, in[0], in[1], in[2]);
}
