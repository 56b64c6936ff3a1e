// SPDX-License-Identifier: Apache-2.0
/* Reading a .mindir file. */
#include "frontend/load.h"
#include "frontend/mindir/mindir.h"

anf_module *anfi_read_mindir(anf_ctx *cx, const anfi_input *f) {
  anfi_mi_model m = {.cx = cx,
                     .arena = anfi_scratch(cx),
                     .file = anfi_intern_z(&cx->strings, f->path)->s,
                     .view = f->view};
  if (!anfi_mi_read(&m, f->text, f->len)) return NULL;
  if (m.big_endian) {
    anfi_fail(cx, (anfi_loc){m.file, 0, 0}, ANF_E1161, "big-endian weights, version",
              (long long)m.version);
    return NULL;
  }
  anf_module *made = anfi_module_new(cx);
  return anfi_mi_module(&m, made) ? made : NULL;
}
