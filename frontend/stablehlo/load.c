// SPDX-License-Identifier: Apache-2.0
/* Reading an .mlir file. */
#include "anfora/text.h"
#include "frontend/load.h"
#include "frontend/stablehlo/stablehlo.h"

extern const unsigned char anfi_templates_stablehlo[];
extern const size_t anfi_templates_stablehlo_len;

static anf_module *read_model(anf_ctx *cx, const char *text, size_t len, const char *file) {
  anfi_sh_model m = {
      .cx = cx, .arena = anfi_scratch(cx), .file = anfi_intern_z(&cx->strings, file)->s};
  anfi_map_init(&m.by_name, m.arena);
  anfi_map_init(&m.aliases, m.arena);
  m.t = anfi_trace_new(cx, (const char *)anfi_templates_stablehlo, anfi_templates_stablehlo_len,
                       "stablehlo.anf");
  if (!m.t) return NULL;
  return anfi_sh_read(&m, anfi_strndup(m.arena, text, len), len) ? anfi_sh_module(&m) : NULL;
}

anf_module *anfi_read_stablehlo(anf_ctx *cx, const anfi_input *f) {
  return read_model(cx, f->text, f->len, f->path);
}

anf_status anf_read_stablehlo(anf_ctx *cx, const char *text, size_t len, const char *file,
                              anf_diag *d, anf_module **out) {
  ANFI_NEED(d, cx, text, out);
  *out = NULL;
  ANFI_ENTRY(cx, d);
  *out = read_model(cx, text, len, file ? file : "");
  anf_status st = anfi_leave(cx);
  if (st != ANF_OK) *out = NULL;
  return st;
}
