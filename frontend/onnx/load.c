// SPDX-License-Identifier: Apache-2.0
/* Reading an .onnx file. */
#include "anfora/text.h"
#include "frontend/load.h"
#include "frontend/onnx/onnx.h"

static anf_module *read_model(anf_ctx *cx, const char *data, size_t len, const char *file,
                              bool weights) {
  anfi_ox_model m = {
      .cx = cx, .arena = anfi_scratch(cx), .file = anfi_intern_z(&cx->strings, file)->s};
  return anfi_ox_read(&m, data, len) ? anfi_ox_module(&m, weights) : NULL;
}

anf_module *anfi_read_onnx(anf_ctx *cx, const anfi_input *f) {
  return read_model(cx, f->text, f->len, f->path, f->weights);
}

anf_status anf_read_onnx(anf_ctx *cx, const char *data, size_t len, const char *file, anf_diag *d,
                         anf_module **out) {
  ANFI_NEED(d, cx, data, out);
  *out = NULL;
  ANFI_ENTRY(cx, d);
  *out = read_model(cx, data, len, file ? file : "", false);
  anf_status st = anfi_leave(cx);
  if (st != ANF_OK) *out = NULL;
  return st;
}
