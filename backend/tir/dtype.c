// SPDX-License-Identifier: Apache-2.0
/* Element types and their text.
 *   "f32x16"   ->   {f32, lanes 16}       "s8*"   ->   a pointer to s8       "bf16x16x4"   ->   4 rows of 16 lanes */
#include "backend/tir/tir.h"

const char *const anfi_t_elem_names[ANF_TIR_ELEM_COUNT] = {
#define ANF_TIR_ELEM(name, ...) #name,
#include "backend/tir/dtype.def"
#undef ANF_TIR_ELEM
};
static const struct {
  uint8_t bytes, cls, rank, dtype;
} info[ANF_TIR_ELEM_COUNT] = {
#define ANF_TIR_ELEM(name, bytes, cls, rank, dtype) {bytes, TC_##cls, rank, dtype},
#include "backend/tir/dtype.def"
#undef ANF_TIR_ELEM
};

tclass anfi_t_class(tdtype t) { return t.ptr ? TC_UINT : (tclass)info[t.elem].cls; }
size_t anfi_t_bytes(tdtype t) { return t.ptr ? 8 : info[t.elem].bytes; }
int anfi_t_rank_of(tdtype t) { return t.ptr ? 0 : info[t.elem].rank; }
bool anfi_t_is_int(tdtype t) {
  return !t.ptr && (info[t.elem].cls == TC_SINT || info[t.elem].cls == TC_UINT);
}
bool anfi_t_is_float(tdtype t) { return !t.ptr && info[t.elem].cls == TC_FLOAT; }
bool anfi_t_is_half(tdtype t) { return !t.ptr && anfi_t_elem_is_half((anf_tir_elem)t.elem); }
tdtype anfi_t_accumulator(tdtype t) { return anfi_t_is_half(t) ? anfi_t_dt(ANF_TIR_f32) : t; }

anf_dtype anfi_t_value_dtype(tdtype t) { return t.ptr ? ANF_U64 : (anf_dtype)info[t.elem].dtype; }
anf_tir_elem anfi_t_elem_of(anf_dtype d) {
  anf_tir_elem e = ANF_TIR_bool; // void has no element type of values
  if (d == ANF_INT || d == ANF_FLOAT) return d == ANF_INT ? ANF_TIR_s64 : ANF_TIR_f64;
  while (e < ANF_TIR_ELEM_COUNT && info[e].dtype != d) e++;
  return e < ANF_TIR_ELEM_COUNT ? e : ANF_TIR_void;
}

void anfi_t_put_dtype(anf_text *out, tdtype t) {
  anfi_puts(out, anfi_t_elem_names[t.elem]);
  if (t.lanes != 1 || t.rows) anfi_putf(out, "x%u", (unsigned)t.lanes);
  if (t.rows) anfi_putf(out, "x%u", (unsigned)t.rows);
  if (t.ptr) anfi_putc(out, '*');
}

const char *anfi_t_dtype_str(anfi_arena *a, tdtype t) {
  char rest[32] = "";
  if (t.rows) snprintf(rest, sizeof rest, "x%ux%u", (unsigned)t.lanes, (unsigned)t.rows);
  else if (t.lanes != 1) snprintf(rest, sizeof rest, "x%u", (unsigned)t.lanes);
  return anfi_sprintf(a, "%s%s%s", anfi_t_elem_names[t.elem], rest, t.ptr ? "*" : "");
}

/* "x16": a count of 1..65535 without leading zeros */
static bool count(const char **s, const char *end, uint16_t *n) {
  const char *p = *s;
  uint32_t v = 0;
  if (p == end || *p++ != 'x' || p == end || *p == '0') return false;
  for (; p < end && *p >= '0' && *p <= '9' && v <= UINT16_MAX; p++)
    v = v * 10 + (uint32_t)(*p - '0');
  if (!v || v > UINT16_MAX) return false;
  *n = (uint16_t)v;
  *s = p;
  return true;
}

bool anfi_t_dtype_of(const char *s, size_t len, tdtype *t) {
  const char *end = s + len;
  for (uint32_t e = 0; e < ANF_TIR_ELEM_COUNT && len; e++) {
    if (*anfi_t_elem_names[e] != *s) continue;
    size_t n = strlen(anfi_t_elem_names[e]);
    if (n > len || memcmp(s, anfi_t_elem_names[e], n) != 0) continue;
    const char *p = s + n;
    *t = anfi_t_dt((anf_tir_elem)e);
    if (p < end && (!count(&p, end, &t->lanes) || (p < end && !count(&p, end, &t->rows)))) continue;
    if (p == end) return true;
  }
  return false;
}
