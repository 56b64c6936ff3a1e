// SPDX-License-Identifier: Apache-2.0
/* Dumps: what each stage of a compilation made of a program, as numbered files of a folder.
 *   00_parse.ir .dat .dot   01_lift.ir ..   07_expand.ir ..   19_lowered.tir
 * The texts are for people, so large constants are elided; .dat is exact. */
#include "ir/ir.h"

#include "anfora/text.h"

#include <errno.h>

typedef anf_status writer(anf_module *m, anf_text *out);

static anf_status dot(anf_module *m, anf_text *out) { return anf_write_dot(m, NULL, out); }

static bool put(anf_ctx *cx, const anf_dump *d, const char *stage, const char *ending,
                const char *text, size_t n) {
  const char *path =
      anfi_sprintf(anfi_scratch(cx), "%s/%02u_%s.%s", d->folder, d->count, stage, ending);
  return anfi_os_write(cx, path, text, n);
}

static bool put_graphs(anf_ctx *cx, const anf_dump *d, const char *stage, anf_module *m) {
  static const struct {
    const char *ending;
    writer *write;
  } forms[] = {{"ir", anfi_print_ir_brief}, {"dat", anf_write_dat}, {"dot", dot}};
  bool good = true;
  for (size_t i = 0; i < ANFI_LEN(forms) && good; i++) {
    anf_text *t = anfi_text_begin(cx);
    anf_status st = forms[i].write(m, t);
    good = st == ANF_OK ? put(cx, d, stage, forms[i].ending, t->text ? t->text : "", t->len)
                        : anfi_fail_as(cx, st);
    anfi_text_done(t);
  }
  return good;
}

static void dump(anf_ctx *cx, anf_dump *d, const char *stage, anf_module *m, const char *tir) {
  if (!anfi_os_make_dirs(cx, d->folder)) {
    anfi_fail(cx, anfi_nowhere(), ANF_E0301, "make the folder", d->folder, strerror(errno));
    return;
  }
  if (m) put_graphs(cx, d, stage, m);
  if (tir) put(cx, d, stage, "tir", tir, strlen(tir));
  d->count++;
}

static anf_status dump_in_frame(anf_ctx *cx, anf_dump *d, const char *stage, anf_module *m,
                                const char *tir) {
  ANFI_ENTRY(cx, d->diag);
  dump(cx, d, stage, m, tir);
  return anfi_leave(cx);
}

void anf_dump_stage(void *user, anf_ctx *cx, const char *stage, anf_module *m, const char *tir) {
  anf_dump *d = (anf_dump *)user;
  bool on = d && cx && stage && d->folder && *d->folder && d->status == ANF_OK;
  if (on) d->status = dump_in_frame(cx, d, stage, m, tir);
}
