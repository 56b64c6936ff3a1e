// SPDX-License-Identifier: Apache-2.0
/* Functions that lowered ops call, written in Tensor IR: the files beside this one, which the build makes a table of
 * (embed_tir.py). One is parsed and added to the module when it is first called, with those that it calls.
 *   y = tanh(x), in a loop over f32   ->   y = anf_tanh32(x), and func anf_tanh32 of vecmath.tir */
#include "backend/lower/low.h"

extern const anfi_helper anfi_low_helpers[]; // up to one without a name

static const anfi_helper *find(const char *name, size_t len) {
  const anfi_helper *h = anfi_low_helpers;
  while (strlen(h->name) != len || memcmp(h->name, name, len) != 0) h++;
  return h;
}

/* The functions are parsed together, for they call each other; those that are there stay. */
static void add(anfi_low *L, const anfi_helper *h) {
  anf_text *text = anfi_text_begin(L->cx);
  for (const char *s = h->needs; *s;) {
    size_t n = strcspn(s, " ");
    anfi_puts(text, find(s, n)->text);
    s += n + (s[n] == ' ');
  }
  anfi_puts(text, h->text);
  const char *copy = anfi_sprintf(L->a, "%s", text->text);
  anfi_text_done(text);
  tmod *from = anfi_t_parse(L->cx, copy, strlen(copy), h->name);
  if (!from) return;
  tmod *missing = anfi_t_mod_like(from);
  for (size_t i = 0; i < from->func.n; i++) {
    const anfi_str *name = anfi_intern_z(&L->t->names, from->func.at[i]->name->s);
    if (!anfi_t_mod_find(L->m, name)) anfi_t_mod_add(missing, from->func.at[i]);
  }
  anfi_t_import(L->m, missing);
}

texpr anfi_low_help(anfi_low *L, const char *name, tdtype ret, uint32_t n, const texpr *args) {
  if (!anfi_t_mod_find(L->m, anfi_intern_z(&L->t->names, name))) add(L, find(name, strlen(name)));
  return anfi_t_call(L->t, anfi_intern_z(&L->t->names, name), ret, n, args);
}

/* ---- functions of intrinsics ---- */

typedef struct math_name {
  tintrin f;
  const char *f32, *f64;
} math_name;
static const math_name names[] = {
    {TI_exp, "anf_exp32", "anf_exp64"},       {TI_expm1, "anf_expm132", "anf_expm164"},
    {TI_log, "anf_log32", "anf_log64"},       {TI_log1p, "anf_log1p32", "anf_log1p64"},
    {TI_tanh, "anf_tanh32", "anf_tanh64"},    {TI_pow, "anf_pow32", "anf_pow64"},
    {TI_sin, "anf_sin32", "anf_sin64"},       {TI_cos, "anf_cos32", "anf_cos64"},
    {TI_tan, "anf_tan32", "anf_tan64"},       {TI_erf, "anf_erf32", "anf_erf64"},
    {TI_erfc, "anf_erfc32", "anf_erfc64"},    {TI_exp2, "anf_exp2_32", "anf_exp2_64"},
    {TI_log2, "anf_log2_32", "anf_log2_64"},  {TI_log10, "anf_log10_32", "anf_log10_64"},
    {TI_sinh, "anf_sinh32", "anf_sinh64"},    {TI_cosh, "anf_cosh32", "anf_cosh64"},
    {TI_asinh, "anf_asinh32", "anf_asinh64"}, {TI_acosh, "anf_acosh32", "anf_acosh64"},
    {TI_atanh, "anf_atanh32", "anf_atanh64"}, {TI_cbrt, "anf_cbrt32", NULL},
    {TI_atan, "anf_atan32", "anf_atan64"},    {TI_atan2, "anf_atan2_32", "anf_atan2_64"},
    {TI_asin, "anf_asin32", "anf_asin64"},    {TI_acos, "anf_acos32", "anf_acos64"},
    {TI_hypot, "anf_hypot32", "anf_hypot64"},
};

const char *anfi_low_math_name(tintrin f, tdtype t) {
  for (size_t i = 0; i < ANFI_LEN(names); i++)
    if (names[i].f == f) return t.elem == ANF_TIR_f64 ? names[i].f64 : names[i].f32;
  return NULL;
}
