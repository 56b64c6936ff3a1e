// SPDX-License-Identifier: Apache-2.0
/* Element types and their text. */
#include "backend/tir/tir.h"

const char *const anfi_t_elem_names[ANF_TIR_ELEM_COUNT] = {
#define ANF_TIR_ELEM(name, bytes, cls, rank) #name,
#include "backend/tir/dtype.def"
#undef ANF_TIR_ELEM
};
static const struct {
  uint8_t bytes, cls, rank;
} info[ANF_TIR_ELEM_COUNT] = {
#define ANF_TIR_ELEM(name, bytes, cls, rank) {bytes, TC_##cls, rank},
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
bool anfi_t_is_half(tdtype t) {
  return anfi_t_is_elem(t, ANF_TIR_f16) || anfi_t_is_elem(t, ANF_TIR_bf16);
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
