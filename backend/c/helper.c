// SPDX-License-Identifier: Apache-2.0
/* Helper functions of the printed C: operations that C lacks, or that are undefined where Tensor IR is not.
 *
 *   a / b (s32)     →     anf_div_s32(a, b), which checks b and wraps
 *
 * Each helper is printed once, before its first use. */
#include "backend/c/c.h"

#define SAY(...) anfi_sprintf(c->a, __VA_ARGS__)
#define PUT(...) anfi_putf(c->helper, __VA_ARGS__)

bool anfi_c_helper(cgen *c, const char *name) {
  uint64_t *at = anfi_map_at(&c->have, anfi_key(anfi_intern_z(&c->names, name)));
  if (*at) return false;
  return *at = 1, true;
}

static const char *elem(tdtype d) { return anfi_t_elem_names[d.elem]; }
static unsigned bits(tdtype d) { return (unsigned)anfi_t_bytes(d) * 8; }

/* The type of arithmetic: unsigned, at least 32 bits, so that nothing is promoted. */
static const char *work_type(tdtype d) { return bits(d) == 64 ? "u64" : "u32"; }

static void division(cgen *c, const char *name, bool mod, tdtype d) {
  const char *t = elem(d);
  PUT("static inline %s %s(%s a, %s b, ANF_PLACE) {\n", t, name, t, t);
  PUT("  if (b == 0) ANF_TRAP(%d);\n", (int)ANF_TRAP_DIVISION);
  if (anfi_t_class(d) == TC_SINT) { // the least number has no opposite
    if (mod) PUT("  if (b == -1) return 0;\n");
    else PUT("  if (b == -1) return (%s)(0 - (%s)a);\n", t, work_type(d));
  }
  PUT("  return (%s)(a %s b);\n}\n", t, mod ? "%" : "/");
}

static void shift(cgen *c, const char *name, bool left, tdtype d) {
  const char *t = elem(d);
  PUT("static inline %s %s(%s a, %s b) {\n", t, name, t, t);
  if (left) PUT("  return (%s)((%s)a << (b & %u));\n}\n", t, work_type(d), bits(d) - 1);
  else PUT("  return (%s)(a >> (b & %u));\n}\n", t, bits(d) - 1);
}

const char *anfi_c_int_op(cgen *c, const char *op, tdtype d) {
  const char *name = SAY("anf_%s_%s", op, elem(d)), *t = elem(d), *w = work_type(d);
  if (!anfi_c_helper(c, name)) return name;
  if (strcmp(op, "div") == 0 || strcmp(op, "mod") == 0) division(c, name, *op == 'm', d);
  else if (strcmp(op, "shl") == 0 || strcmp(op, "shr") == 0) shift(c, name, op[2] == 'l', d);
  else if (strcmp(op, "abs") == 0)
    PUT("static inline %s %s(%s a) { return a < 0 ? (%s)(0 - (%s)a) : a; }\n", t, name, t, t, w);
  else
    PUT("static inline %s %s(%s a, %s b) { return (%s)((%s)a %s (%s)b); }\n", t, name, t, t, t, w,
        *op == 'a'   ? "+"
        : *op == 's' ? "-"
                     : "*",
        w);
  return name;
}

const char *anfi_c_to_int(cgen *c, tdtype to) {
  const char *name = SAY("anf_%s_of_real", elem(to)), *t = elem(to);
  bool sign = anfi_t_class(to) == TC_SINT;
  if (!anfi_c_helper(c, name)) return name;
  double edge = (double)(UINT64_C(1) << (bits(to) - 1)) * (sign ? 1 : 2);
  uint64_t most = UINT64_MAX >> (64 - bits(to) + sign);
  PUT("// truncates into the range of the type, NaN gives 0\n");
  PUT("static inline %s %s(f64 x) {\n", t, name);
  if (!sign)
    PUT("  return !(x > 0) ? 0 : x >= %.1f ? %lluULL : (%s)x;\n}\n", edge, (unsigned long long)most,
        t);
  else
    PUT("  return x != x ? 0 : x >= %.1f ? %lldLL : x < -%.1f ? (%s)(-%lldLL - 1) : (%s)x;\n}\n",
        edge, (long long)most, edge, t, (long long)most, t);
  return name;
}

const char *anfi_c_bits_of(cgen *c, tdtype d) {
  const char *name = SAY("anf_bits_of_%s", elem(d)), *w = bits(d) == 64 ? "u64" : "u32";
  if (anfi_c_helper(c, name))
    PUT("static inline %s %s(%s x) {\n  %s u;\n  memcpy(&u, &x, sizeof u);\n  return u;\n}\n", w,
        name, elem(d), w);
  return name;
}
const char *anfi_c_of_bits(cgen *c, tdtype d) {
  const char *name = SAY("anf_%s_of_bits", elem(d)), *w = bits(d) == 64 ? "u64" : "u32";
  if (anfi_c_helper(c, name))
    PUT("static inline %s %s(%s u) {\n  %s x;\n  memcpy(&x, &u, sizeof x);\n  return x;\n}\n",
        elem(d), name, w, elem(d));
  return name;
}

/* ---- f16 and bf16 ---- */

const char *anfi_c_of_half(cgen *c, tdtype d) {
  const char *name = SAY("anf_f32_of_%s", elem(d));
  const char *of = anfi_c_of_bits(c, anfi_t_dt(ANF_TIR_f32));
  if (!anfi_c_helper(c, name)) return name;
  PUT("static inline f32 %s(%s h) {\n", name, elem(d));
  if (d.elem == ANF_TIR_bf16) {
    PUT("  return %s((u32)h << 16);\n}\n", of);
    return name;
  }
  PUT("  u32 sign = (u32)(h & 0x8000) << 16, exp = (h >> 10) & 31, frac = h & 0x3ffU;\n"
      "  if (exp == 31) return %s(sign | 0x7f800000U | frac << 13);\n"
      "  if (exp) return %s(sign | (exp + 112) << 23 | frac << 13);\n"
      "  f32 tiny = (f32)frac * (1.0f / 16777216.0f);\n"
      "  return sign ? -tiny : tiny;\n}\n",
      of, of);
  return name;
}

/* A double between two floats keeps a sticky last bit, so that the second rounding is right. */
static void round_to_odd(cgen *c) {
  const char *bits_of = anfi_c_bits_of(c, anfi_t_dt(ANF_TIR_f32)),
             *of = anfi_c_of_bits(c, anfi_t_dt(ANF_TIR_f32));
  if (!anfi_c_helper(c, "anf_round_to_odd")) return;
  PUT("static inline u32 anf_round_to_odd(f64 x) {\n"
      "  f32 f = (f32)x;\n"
      "  u32 u = %s(f);\n"
      "  if (x != x || (f64)f == x || u & 1) return u;\n"
      "  return (x > 0 ? (f64)f > x : (f64)f < x) ? u - 1 : u + 1;\n}\n",
      bits_of);
  (void)of;
}

const char *anfi_c_to_half(cgen *c, tdtype d) {
  const char *name = SAY("anf_%s_of_real", elem(d));
  round_to_odd(c);
  if (!anfi_c_helper(c, name)) return name;
  PUT("static inline %s %s(f64 x) {\n  u32 u = anf_round_to_odd(x);\n", elem(d), name);
  if (d.elem == ANF_TIR_bf16) {
    PUT("  if (x != x) return (u16)(u >> 16 | 0x40);\n"
        "  return (u16)((u + 0x7fff + (u >> 16 & 1)) >> 16);\n}\n");
    return name;
  }
  PUT("  u32 sign = u >> 16 & 0x8000, mag = u & 0x7fffffff;\n"
      "  if (mag > 0x7f800000) return (u16)(sign | 0x7e00 | (mag >> 13 & 0x3ff));\n"
      "  if (mag >= 0x477ff000) return (u16)(sign | 0x7c00);\n"
      "  if (mag < 0x38800000)\n"
      "    return (u16)(sign | (anf_bits_of_f32(anf_f32_of_bits(mag) + 0.5f) - 0x3f000000U));\n"
      "  return (u16)(sign | (mag - 0x38000000U + 0xfff + (mag >> 13 & 1)) >> 13);\n}\n");
  return name;
}

/* ---- the rest ---- */

const char *anfi_c_clamp(cgen *c, tdtype to, tdtype from) {
  const char *name = SAY("anf_clamp_%s_%s", elem(to), elem(from)), *t = elem(to);
  bool from_signed = anfi_t_class(from) == TC_SINT, to_signed = anfi_t_class(to) == TC_SINT;
  unsigned nt = bits(to) - to_signed, nf = bits(from) - from_signed;
  if (!anfi_c_helper(c, name)) return name;
  unsigned long long most = UINT64_MAX >> (64 - nt);
  PUT("static inline %s %s(%s x) {\n", t, name, elem(from));
  if (from_signed && !to_signed) PUT("  if (x < 0) return 0;\n");
  if (from_signed && to_signed && nf > nt)
    PUT("  if (x < -%lluLL - 1) return (%s)(-%lluLL - 1);\n", most, t, most);
  if (nf > nt) PUT("  if (x > %llu%s) return %lluULL;\n", most, from_signed ? "LL" : "ULL", most);
  PUT("  return (%s)x;\n}\n", t);
  return name;
}

const char *anfi_c_min_max(cgen *c, tintrin i, tdtype d) {
  bool min = i == TI_min;
  const char *name = SAY("anf_%s_%s", min ? "min" : "max", elem(d)), *t = elem(d), *x = "a",
             *y = "b";
  if (anfi_t_is_float(d) && anfi_t_bytes(d) == 2)
    x = SAY("%s(a)", anfi_c_of_half(c, d)), y = SAY("%s(b)", anfi_c_of_half(c, d));
  if (!anfi_c_helper(c, name)) return name;
  PUT("static inline %s %s(%s a, %s b) {\n", t, name, t, t);
  if (anfi_t_is_float(d)) PUT("  if (isnan(%s)) return a;\n  if (isnan(%s)) return b;\n", x, y);
  PUT("  return %s < %s ? %s;\n}\n", x, y, min ? "a : b" : "b : a");
  return name;
}

const char *anfi_c_check(cgen *c, texpr e, const char *const *in) {
  if (anfi_c_helper(c, "anf_check")) {
    PUT("static inline void anf_check(index i, index n, ANF_PLACE) {\n");
    PUT("  if (i >= n) ANF_TRAP(%d);\n}\n", (int)ANF_TRAP_BOUNDS);
  }
  return SAY("anf_check(%s, %s, %s)", in[0], in[1], anfi_c_at(c, e->line, e->col));
}

const char *anfi_c_poll(cgen *c) {
  if (anfi_c_helper(c, "anf_poll")) {
    PUT("static inline void anf_poll(ANF_PLACE) {\n");
    PUT("  if (*(const volatile uintptr_t *)stream == UINTPTR_MAX) ANF_TRAP(%d);\n}\n",
        (int)ANF_TRAP_CANCELLED);
  }
  return SAY("anf_poll(%s)", anfi_c_at(c, 0, 0));
}

const char *anfi_c_trip(cgen *c, tdtype d) {
  const char *name = SAY("anf_trip_%s", elem(d)), *t = elem(d);
  if (!anfi_c_helper(c, name)) return name;
  PUT("// how often a loop runs\n");
  PUT("static inline u64 %s(%s begin, %s end, %s step, ANF_PLACE) {\n", name, t, t, t);
  PUT("  if (step <= 0) ANF_TRAP(%d);\n", (int)ANF_TRAP_STEP);
  PUT("  return begin < end ? ((u64)end - (u64)begin - 1) / (u64)step + 1 : 0;\n}\n");
  return name;
}
