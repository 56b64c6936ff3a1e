// SPDX-License-Identifier: Apache-2.0
/* One op through the writer and the reader of a format. */
#include "written.h"

#include "anfora/run.h"
#include "anfora/text.h"

/* def main(x0, x1..) { Op(x0, x1.., attributes) }; absent inputs are constants. */
static anf_graph *program(anfi_eval *q, anf_module *m, const anf_type **types, anf_value **args,
                          size_t *n) {
  const anfi_schema *s = anfi_op_schema(q->cx, q->op);
  anf_graph *g = anfi_graph_new(m, anfi_intern_z(&m->strings, "main"));
  anf_node **in = ANFI_NEW_N(q->scratch, anf_node *, q->n + 1);
  anf_value **attr = ANFI_NEW_N(q->scratch, anf_value *, s->nattr + 1);
  const anfi_attrs *at = NULL;
  for (size_t i = 0; i < q->n; i++) {
    const anf_type *t = anfi_value_type(q->cx, q->in[i]);
    bool data = q->in[i]->kind == ANF_VALUE_TENSOR;
    in[i] = data ? anfi_param(g, NULL, t) : anfi_value(m, anf_value_retain(q->in[i]));
    if (data) types[*n] = t, args[(*n)++] = q->in[i];
  }
  for (uint32_t k = 0; k < s->nattr; k++)
    attr[k] = q->attr[k] == s->attr[k].initial ? NULL : q->attr[k];
  if (!anfi_attrs_new(m, q->op, attr, anfi_nowhere(), &at)) return NULL;
  anfi_set_result(g, anfi_apply(g, q->op, at, q->n, in));
  return g;
}

static const struct {
  anf_status (*write)(anf_graph *g, size_t n, const anf_type *const *types, anf_diag *d,
                      anf_text *out);
  anf_status (*read)(anf_ctx *cx, const char *data, size_t len, const char *file, anf_diag *d,
                     anf_module **out);
  const char *file;
} forms[] = {[FORM_MINDIR] = {anf_write_mindir, anf_read_mindir, "x.mindir"},
             [FORM_ONNX] = {anf_write_onnx, anf_read_onnx, "x.onnx"},
             [FORM_STABLEHLO] = {anf_write_stablehlo, anf_read_stablehlo, "x.mlir"}};

bool run_written(anfi_eval *q, written_form form) {
  q->scratch = anfi_scratch(q->cx);
  anf_module *m = anfi_module_new(q->cx), *back = NULL;
  anfi_undefer(q->cx, m); // it was to go on failure
  anfi_defer(q->cx, ANFI_ALWAYS, anfi_free_module, m);
  const anf_type **types = ANFI_NEW_N(q->scratch, const anf_type *, q->n + 1);
  anf_value **args = ANFI_NEW_N(q->scratch, anf_value *, q->n + 1);
  size_t n = 0;
  anf_graph *g = program(q, m, types, args, &n);
  anf_text *t = ANFI_NEW(q->scratch, anf_text);
  *t = (anf_text){.cx = q->cx};
  anfi_defer(q->cx, ANFI_ALWAYS, anfi_free_text, t);
  anf_status st = g ? forms[form].write(g, n, types, NULL, t) : ANF_INVALID;
  if (st == ANF_OK) st = forms[form].read(q->cx, t->text, t->len, forms[form].file, NULL, &back);
  if (st == ANF_OK) st = anf_run(anf_module_find(back, "main"), n, args, NULL, NULL, &q->out);
  anf_module_free(back);
  return st == ANF_OK || anfi_fail_as(q->cx, st);
}
