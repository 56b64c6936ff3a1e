// SPDX-License-Identifier: Apache-2.0
/* Reads an .onnx file: its bytes   ->   messages (read.c)   ->   a module (build.c). */
#include "frontend/load.h"
#include "frontend/onnx/onnx.h"

anf_module *anfi_read_onnx(anf_ctx *cx, const anfi_input *f) {
  anfi_ox_model m = {.cx = cx,
                     .arena = anfi_scratch(cx),
                     .file = anfi_intern_z(&cx->strings, f->path)->s,
                     .view = f->view};
  return anfi_ox_read(&m, f->text, f->len) ? anfi_ox_module(&m, f->weights) : NULL;
}
