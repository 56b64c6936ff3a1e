// SPDX-License-Identifier: Apache-2.0
/* Reading a .mindir file. */
#include "anfora/text.h"
#include "frontend/load.h"
#include "frontend/mindir/mindir.h"

static anf_module *read_model(anf_ctx *cx, const char *data, size_t len, const char *file) {
  anfi_mi_model m = {
      .cx = cx, .arena = anfi_scratch(cx), .file = anfi_intern_z(&cx->strings, file)->s};
  if (!anfi_mi_read(&m, data, len)) return NULL;
  if (m.big_endian) {
    anfi_fail(cx, (anfi_loc){m.file, 0, 0}, ANF_E1161, "big-endian weights, version",
              (long long)m.version);
    return NULL;
  }
  anf_module *made = anfi_module_new(cx);
  return anfi_mi_module(&m, made) ? made : NULL;
}

anf_module *anfi_read_mindir(anf_ctx *cx, const anfi_input *f) {
  return read_model(cx, f->text, f->len, f->path);
}

anf_status anf_read_mindir(anf_ctx *cx, const char *data, size_t len, const char *file, anf_diag *d,
                           anf_module **out) {
  ANFI_NEED(d, cx, data, out);
  *out = NULL;
  ANFI_ENTRY(cx, d);
  *out = read_model(cx, data, len, file ? file : "");
  anf_status st = anfi_leave(cx);
  if (st != ANF_OK) *out = NULL;
  return st;
}
