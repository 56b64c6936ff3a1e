// SPDX-License-Identifier: Apache-2.0
/* Forms: which part of a result is data of which function.
 *   f(c, x): (x, if c { fn (y) { x + y } } else { Sin })    the copy gives (x, (tag, (x,)))
 *   its form: a nest of data and a function: fn_f with one value bound, or Sin
 * The host gets {tag, environment} for a returned closure, and its form tells how to call it (infer.h). */
#include "optimizer/infer/emit.h"

static anfi_form *form_of(anfi_abs_table *t, anf_module *m, const anfi_abs *a) {
  anfi_form *f = (anfi_form *)anfi_zalloc(&m->arena, sizeof *f + a->n * sizeof(const anfi_form *));
  bool fn = a->kind == ANFI_ABS_FN, code = a->kind == ANFI_ABS_CODE;
  bool nest = a->kind == ANFI_ABS_TUPLE || a->kind == ANFI_ABS_RECORD;
  f->kind = fn ? ANFI_FORM_FN : code ? ANFI_FORM_CODE : nest ? ANFI_FORM_NEST : ANFI_FORM_DATA;
  f->op = a->op;
  f->attrs = anfi_attrs_hold(m->cx, (anfi_opcode)a->op, a->attrs);
  f->graph = a->graph ? a->graph->id : UINT32_MAX;
  f->n = f->kind == ANFI_FORM_DATA ? 0 : a->n;
  for (uint32_t i = 0; i < f->n; i++) {
    anfi_form *item = form_of(t, m, a->item[i]);
    if (fn && a->n > 1) item->slot = anfi_abs_slot(t, a, i);
    f->item[i] = item;
  }
  return f;
}

const anfi_form *anfi_abs_form(anfi_abs_table *t, anf_module *m, const anfi_abs *a) {
  return anfi_abs_has_fn(a) ? form_of(t, m, a) : NULL;
}
