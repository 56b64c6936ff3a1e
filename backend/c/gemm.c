// SPDX-License-Identifier: Apache-2.0
/* brgemm that was not lowered to a kernel: plain loops, in the interpreter's order of summation. */
#include "backend/c/c.h"
#include "backend/kernel/kernel.h"

#define SAY(...)   anfi_sprintf(c->a, __VA_ARGS__)
#define PUT(...)   anfi_putf(c->helper, __VA_ARGS__)
#define NAME(flag) "anf_brgemm_" #flag

static const char *name_of(tdtype d) { return anfi_t_elem_names[d.elem]; }
static tdtype element(texpr e) { return anfi_t_dt((anf_tir_elem)e->dtype.elem); }
static const char *as_f64(cgen *c, tdtype d, const char *x) {
  return anfi_c_cast(c, anfi_t_dt(ANF_TIR_f64), d, x);
}

static const char *rounded(cgen *c, tdtype tc, bool pairs, const char *x) { // each step is
  tdtype f32 = anfi_t_dt(ANF_TIR_f32);
  if (pairs && tc.elem == ANF_TIR_bf16)
    return as_f64(c, tc, anfi_c_cast(c, tc, f32, SAY("(f32)(%s)", x)));
  return tc.elem == ANF_TIR_f32 ? SAY("(f64)(f32)(%s)", x) : x;
}

/* Flags have names in the text, too. */
static void name_flags(cgen *c) {
  if (!anfi_c_helper(c, "anf_brgemm_flags")) return;
  PUT("enum {\n");
#define FLAG(name, bit) PUT("  " NAME(name) " = %d,\n", GEMM_##name);
  GEMM_FLAGS(FLAG)
#undef FLAG
  PUT("  " NAME(BINARY_AT) " = %d,\n  " NAME(BINARY) " = %d\n};\n", GEMM_BINARY_AT, GEMM_BINARY);
}

static const char *flags_of(cgen *c, int64_t flags) {
  const char *all =
      SAY("%lld << " NAME(BINARY_AT), (long long)(flags & GEMM_BINARY) >> GEMM_BINARY_AT);
  if (!(flags & GEMM_BINARY)) all = "0";
#define FLAG(name, bit)                                                                            \
  if (flags & GEMM_##name) all = SAY("%s | " NAME(name), all);
  GEMM_FLAGS(FLAG)
#undef FLAG
  return all;
}

static const char *helper(cgen *c, tdtype ta, tdtype tb, tdtype tc, bool list) {
  const char *name =
      SAY("anf_%sbrgemm_%s_%s_%s", list ? "list_" : "", name_of(ta), name_of(tb), name_of(tc));
  tdtype f64 = anfi_t_dt(ANF_TIR_f64);
  const char *x = as_f64(c, ta, "pa[flags & " NAME(TA) " ? l * lda + i : i * lda + l]"),
             *y = as_f64(c, tb, "pb[l / w * w * ldb + j * w + l % w]"),
             *c0 = as_f64(c, tc, "pc[i * ldc + j]"), *bias = as_f64(c, tc, "bias[j]"),
             *rhs = as_f64(c, tc, "rhs[i * ldc + j]"), *out = anfi_c_cast(c, tc, f64, "acc");
  bool pairs = anfi_sums_pairs(ta.elem, tb.elem, tc.elem);
  name_flags(c);
  if (!anfi_c_helper(c, name)) return name;
  PUT("static void %s(const void *a, const void *b, %s *pc, s64 num, s64 m, s64 n, s64 kk, s64 "
      "lda,\n"
      "    s64 ldb, s64 ldc, s64 sa, s64 sb, s64 len, s64 flags, const %s *bias, const f32 "
      "*scales,\n"
      "    const %s *rhs) {\n",
      name, name_of(tc), name_of(tc), name_of(tc));
  PUT("  const s64 w = flags & " NAME(VNNI) " ? %u : 1;\n", anfi_vnni_group(tb.elem));
  PUT("  for (s64 i = 0; i < m; i++)\n    for (s64 j = 0; j < n; j++) {\n"
      "      f64 acc = flags & " NAME(INIT) " ? 0 : %s;\n"
                                            "      for (s64 h = 0; h < num * len; h++) {\n",
      c0);
  if (list)
    PUT("        const %s *pa = ((const %s *const *)a)[h / num] + h %% num * sa;\n"
        "        const %s *pb = ((const %s *const *)b)[h / num] + h %% num * sb;\n",
        name_of(ta), name_of(ta), name_of(tb), name_of(tb));
  else
    PUT("        const %s *pa = (const %s *)a + h * sa;\n"
        "        const %s *pb = (const %s *)b + h * sb;\n",
        name_of(ta), name_of(ta), name_of(tb), name_of(tb));
  PUT("        for (s64 at = 0; at < kk; at++) {\n          s64 l = %s;\n",
      pairs ? "(at | 1) < kk ? at ^ 1 : at" : "at");
  if (tc.elem == ANF_TIR_f32 || pairs)
    PUT("          acc = fmaf((f32)%s, (f32)%s, (f32)acc);\n", x, y);
  else PUT("          acc = fma(%s, %s, acc);\n", x, y);
  PUT("        }\n      }\n      if (flags & " NAME(
          BIAS_IN) ") acc = (f32)(acc + %s);\n      acc = %s;\n",
      bias, rounded(c, tc, pairs, "acc"));
  PUT("      if (flags & " NAME(SCALE) ") acc = %s;\n"
                                       "      if (flags & " NAME(BIAS) " && !(flags & " NAME(
                                           BIAS_IN) ")) acc = %s;\n",
      rounded(c, tc, pairs, "acc * scales[j]"), rounded(c, tc, pairs, SAY("acc + %s", bias)));
  PUT("      if (flags & " NAME(
          BINARY) ") {\n        f64 r = %s;\n"
                  "        s64 how = (flags & " NAME(BINARY) ") >> " NAME(
                      BINARY_AT) ";\n"
                                 "        acc = how == 1 ? acc + r : how == 2 ? acc * r : how == 3 "
                                 "? fmax(acc, r) : fmin(acc, r);\n"
                                 "        acc = %s;\n      }\n",
      rhs, rounded(c, tc, pairs, "acc"));
  PUT("      if (flags & " NAME(
          RELU) " && acc < 0) acc = 0;\n      pc[i * ldc + j] = %s;\n    }\n}\n",
      out);
  return name;
}

const char *anfi_c_gemm(cgen *c, texpr e, const char *const *in) {
  bool list = e->sub == TI_list_brgemm;
  uint32_t slot = list ? 13 : 12;
  for (uint32_t k = slot + TSLOT_binary_rhs + 1; k < e->n; k++)
    if (!anfi_t_is_void(e->in[k]->dtype)) {
      anfi_fail(c->cx, anfi_t_loc(c->m->t, e->line, e->col), ANF_E0940,
                "this post-operation of brgemm");
      return "(void)0";
    }
  tdtype tc = element(e->in[2]), ta = list ? tc : element(e->in[0]),
         tb = list ? tc : element(e->in[1]);
  const char *name = helper(c, ta, tb, tc, list), *post[3], *sizes = "";
  for (uint32_t k = 0; k < 3; k++) {
    bool there = slot + k < e->n && !anfi_t_is_void(e->in[slot + k]->dtype);
    post[k] = there ? SAY("(%s *)%s", k == 1 ? "f32" : name_of(tc), in[slot + k]) : "NULL";
  }
  for (uint32_t k = 3; k < 12; k++) sizes = SAY("%s, (s64)%s", sizes, in[k]);
  return SAY("%s(%s, %s, (%s *)%s%s, %s, %s, %s, %s, %s)", name, in[0], in[1], name_of(tc), in[2],
             sizes, list ? in[12] : "1", flags_of(c, anfi_gemm_flags(e->u.attrs)), post[0], post[1],
             post[2]);
}
