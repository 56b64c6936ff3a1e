// SPDX-License-Identifier: Apache-2.0
/* x[a:b] where a or b are inputs whose values are known: they become part of the subscript, and the
 * result's size is known. */
#include "optimizer/infer/rules.h"

/* One number of a part: as it stands, or the known value of the input. */
static void put_number(anf_text *o, const anfi_part *p, int k, const anfi_abs *const *in,
                       bool *gone) {
  int64_t v = p->v[k];
  if (p->given[k] == ANFI_ABSENT) return;
  bool input = p->given[k] == ANFI_INPUT;
  const anfi_abs *a = input ? in[v] : NULL;
  bool known = input && p->kind == ANFI_PART_SLICE && a->kind == ANFI_ABS_DATA && a->value &&
               a->value->kind == ANF_VALUE_TENSOR && anfi_value_is_int(a->value, &v);
  if (known) gone[p->v[k]] = true;
  if (input && !known) anfi_putc(o, 'i');
  else anfi_putf(o, "%lld", (long long)v);
}

static void put_part(anf_text *o, const anfi_part *p, const anfi_abs *const *in, bool *gone) {
  if (p->kind == ANFI_PART_NEW) anfi_putc(o, 'n');
  if (p->kind == ANFI_PART_DOTS) anfi_puts(o, "...");
  for (int k = 0; k < 3; k++) {
    if (k && p->kind == ANFI_PART_SLICE && (k == 1 || p->given[2])) anfi_putc(o, ':');
    put_number(o, p, k, in, gone);
  }
}

anf_value *anfi_known_bounds(anfi_inference *q, const anf_value *spec, size_t n,
                             const anfi_abs *const *in, anf_node *at, bool *gone) {
  anfi_subscript s;
  anf_text o = {.cx = q->cx};
  bool any = false;
  if (n < 2 || !anfi_subscript_read(q->cx, anfi_node_loc(at), spec, n, &s)) return NULL;
  for (size_t i = 0; i < s.n; i++) {
    if (i) anfi_putc(&o, ',');
    put_part(&o, &s.part[i], in, gone);
  }
  for (size_t i = 0; i < n; i++) any |= gone[i];
  anf_value *v = any ? anfi_value_new_string(q->cx, o.text, o.len) : NULL;
  anf_text_free(&o);
  return v;
}
