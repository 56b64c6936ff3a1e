// SPDX-License-Identifier: Apache-2.0
/* Reads an .mlir file: its text   ->   functions (parse.c)   ->   a module (build.c), by the templates of
 * stablehlo.anf. */
#include "frontend/load.h"
#include "frontend/stablehlo/stablehlo.h"

extern const unsigned char anfi_templates_stablehlo[];
extern const size_t anfi_templates_stablehlo_len;

/* MLIR's bytecode is read by its own library alone. */
static anf_module *refuse_bytecode(anf_ctx *cx, const anfi_input *f) {
  anfi_fail(cx, (anfi_loc){f->path, 1, 1}, ANF_E1220, "text, not bytecode,");
  anfi_hint(cx,
            "anfora.read of the Python package reads it, by jaxlib: anfora.read(\"x.mlir.bc\")");
  return NULL;
}

anf_module *anfi_read_stablehlo(anf_ctx *cx, const anfi_input *f) {
  if (f->len >= 4 && memcmp(f->text, "ML\357R", 4) == 0) return refuse_bytecode(cx, f);
  anfi_sh_model m = {
      .cx = cx, .arena = anfi_scratch(cx), .file = anfi_intern_z(&cx->strings, f->path)->s};
  anfi_map_init(&m.by_name, m.arena);
  anfi_map_init(&m.aliases, m.arena);
  m.t = anfi_trace_new(cx, (const char *)anfi_templates_stablehlo, anfi_templates_stablehlo_len,
                       "stablehlo.anf");
  if (!m.t) return NULL;
  return anfi_sh_read(&m, anfi_strndup(m.arena, f->text, f->len), f->len) ? anfi_sh_module(&m)
                                                                          : NULL;
}
