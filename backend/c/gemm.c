// SPDX-License-Identifier: Apache-2.0
/* brgemm in C source, where it was not lowered to a kernel:
 *   brgemm(A, B, C, ..) of f32   ->   anf_brgemm_f32_f32_f32(&(anf_brgemm){.A = A, .B = B, .C = C, .., .flags = 0})
 * One function for each triple of types; its body is the plain loop (base/brgemm_loop.h, embedded by the build) behind
 * definitions of its macros. */
#include "backend/c/c.h"
#include "backend/kernel/kernel.h"

#define SAY(...)          anfi_sprintf(c->a, __VA_ARGS__)
#define PUT(...)          anfi_putf(c->helper, __VA_ARGS__)
#define DEFINE(name, ...) PUT("#define " name "\n", __VA_ARGS__)

extern const unsigned char anfi_brgemm_loop[];

static const char *name_of(tdtype d) { return anfi_t_elem_names[d.elem]; }
static const char *as_f64(cgen *c, tdtype d, const char *x) {
  return anfi_c_cast(c, anfi_t_dt(ANF_TIR_f64), d, x);
}

/* A value as kernels hold it between two steps of the epilogue. */
static const char *rounded(cgen *c, tdtype tc, bool pairs) {
  if (pairs && tc.elem == ANF_TIR_bf16)
    return as_f64(c, tc, anfi_c_cast(c, tc, anfi_t_dt(ANF_TIR_f32), "(f32)(x)"));
  return tc.elem == ANF_TIR_f32 ? "(f64)(f32)(x)" : "(x)";
}

/* The operands of a call, by name, and the flags. */
static void declare_operands(cgen *c) {
  if (!anfi_c_helper(c, "anf_brgemm")) return;
  PUT("typedef struct anf_brgemm {\n");
#define FIELD_SIZE(name)       PUT("  s64 " #name ";\n");
#define FIELD_MATRIX(name)     PUT("  const void *" #name ";\n");
#define FIELD_EPILOGUE(name)   PUT("  const void *" #name ";\n");
#define ANF_BRGEMM(name, kind) FIELD_##kind(name)
#include "base/brgemm.def"
#undef ANF_BRGEMM
  PUT("  s64 flags;\n} anf_brgemm;\nenum {\n");
#define FLAG(name, bit) PUT("  GEMM_" #name " = %d,\n", GEMM_##name);
  GEMM_FLAGS(FLAG)
#undef FLAG
  PUT("  GEMM_BINARY_AT = %d,\n  GEMM_BINARY = %d\n};\n", GEMM_BINARY_AT, GEMM_BINARY);
}

static const char *flags_of(cgen *c, int64_t flags) {
  const char *all =
      SAY("%lld << GEMM_BINARY_AT", (long long)(flags & GEMM_BINARY) >> GEMM_BINARY_AT);
  if (!(flags & GEMM_BINARY)) all = "0";
#define FLAG(name, bit)                                                                            \
  if (flags & GEMM_##name) all = SAY("%s | GEMM_" #name, all);
  GEMM_FLAGS(FLAG)
#undef FLAG
  return all;
}

/* A cast may add helper functions to the text, so macros are defined before the function begins. */
static void define_load(cgen *c, const char *name, const char *operand, tdtype d) {
  const char *at = SAY("((const %s *)%s)[i]", name_of(d), operand);
  DEFINE("LOAD_%s(x, i) x = %s", name, as_f64(c, d, at));
}

static void define_blocks(cgen *c, tdtype ta, tdtype tb, bool list) {
  static const char *const entry[] = {
      "(const %s *)g->%s + (h) * g->stride_%s",
      "((const %s *const *)g->%s)[(h) / g->num] + (h) %% g->num * g->stride_%s"};
  const char *a = SAY(entry[list], name_of(ta), "A", "a"),
             *b = SAY(entry[list], name_of(tb), "B", "b");
  DEFINE("FIND_BLOCKS(h) a = %s, b = %s", a, b);
}

static const char *function(cgen *c, tdtype ta, tdtype tb, tdtype tc, bool list) {
  static const char *const macros[] = {"FIND_BLOCKS", "LOAD_A",     "LOAD_B",     "LOAD_C",
                                       "LOAD_BIAS",   "LOAD_SCALE", "LOAD_RHS",   "STORE_C",
                                       "SUMS_F32",    "PAIRS",      "VNNI_GROUP", "ROUND"};
  const char *name =
      SAY("anf_%sbrgemm_%s_%s_%s", list ? "list_" : "", name_of(ta), name_of(tb), name_of(tc));
  bool pairs = anfi_sums_pairs(ta.elem, tb.elem, tc.elem);
  const char *round = rounded(c, tc, pairs), *out = anfi_c_cast(c, tc, anfi_t_dt(ANF_TIR_f64), "x");
  declare_operands(c);
  if (!anfi_c_helper(c, name)) return name;
  define_blocks(c, ta, tb, list);
  define_load(c, "A", "a", ta);
  define_load(c, "B", "b", tb);
  define_load(c, "C", "g->C", tc);
  define_load(c, "BIAS", "g->bias", tc);
  define_load(c, "SCALE", "g->scales", anfi_t_dt(ANF_TIR_f32));
  define_load(c, "RHS", "g->rhs", tc);
  DEFINE("STORE_C(i, x) ((%s *)g->C)[i] = %s", name_of(tc), out);
  DEFINE("SUMS_F32 %d", tc.elem == ANF_TIR_f32 || pairs);
  DEFINE("PAIRS %d", pairs);
  DEFINE("VNNI_GROUP %u", anfi_vnni_group(ta.elem, tb.elem));
  DEFINE("ROUND(x) (%s)", round);
  PUT("static void %s(const anf_brgemm *g) {\n  const %s *a;\n  const %s *b;\n", name, name_of(ta),
      name_of(tb));
  anfi_puts(c->helper, (const char *)anfi_brgemm_loop);
  PUT("}\n");
  for (size_t i = 0; i < ANFI_LEN(macros); i++) PUT("#undef %s\n", macros[i]);
  return name;
}

const char *anfi_c_gemm(cgen *c, texpr e, const char *const *in) {
  static const char *const field[] = {
#define ANF_BRGEMM(name, kind) #name,
#include "base/brgemm.def"
#undef ANF_BRGEMM
  };
  bool list = e->sub == TI_list_brgemm;
  anf_tir_elem type[3];
  anfi_t_brgemm_types(e, type);
  const char *all = SAY(".flags = %s", flags_of(c, anfi_t_brgemm_flags(e->u.attrs)));
  if (!list) all = SAY(".len = 1, %s", all);
  for (uint32_t k = BRGEMM_COUNT; k-- > 0;) {
    texpr x = anfi_t_brgemm_in(e, k);
    if (x) all = SAY(".%s = %s, %s", field[k], in[anfi_t_brgemm_at(e, k)], all);
  }
  return SAY("%s(&(anf_brgemm){%s})",
             function(c, anfi_t_dt(type[0]), anfi_t_dt(type[1]), anfi_t_dt(type[2]), list), all);
}
