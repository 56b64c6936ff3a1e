// SPDX-License-Identifier: Apache-2.0
/* anf_ctx_trim: what a context shares between its programs (types, names, symbols, graphs of generators) goes with
 * the last of them that has a use for it.
 *   m1 uses f32[3], m2 uses f64: m1 is freed, then trim   ->   the type f32[3] is freed, f64 stays
 * Conservative marking from the live blocks (base/trim.c). */
#include "ir/ir.h"

static void trim(anf_ctx *cx) {
  anfi_generators_trim(cx);
  anfi_marking *m = anfi_mark(cx);
  anfi_types_mark(cx, m);
  anfi_mark_on(m);
  anfi_types_trim(cx);
  anfi_strtab_trim(&cx->strings);
  anfi_free_unmarked(cx);
}

static anf_status trim_all(anf_ctx *cx) {
  ANFI_ENTRY(cx, NULL);
  trim(cx);
  return anfi_leave(cx);
}

size_t anf_ctx_trim(anf_ctx *cx) {
  if (!cx || cx->frame) return 0;
  size_t before = cx->bytes;
  trim_all(cx);
  return before > cx->bytes ? before - cx->bytes : 0;
}
