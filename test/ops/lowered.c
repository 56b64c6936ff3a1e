// SPDX-License-Identifier: Apache-2.0
/* One op through the compiler's lowering: a Tensor IR function of its arguments is made, passed
 * through the default pipeline's first passes, and run by the Tensor IR's interpreter. */
#include "lowered.h"

#include <stdio.h>

#include "backend/lower/op.h"

enum { MOST = 64 };

typedef struct job {
  anfi_eval *q;
  anfi_arena *a;
  tmod *m;
  texpr param[MOST];
  anf_tir_arg arg[MOST];
  size_t nparam;
} job;

static texpr add_param(job *j, const anf_type *t, void *data, const char *name) {
  uint64_t n = 0;
  anfi_lower_size(t, &n);
  anf_tir_elem e = anfi_lower_elem((anf_dtype)t->dtype);
  texpr p = anfi_t_tensor1(j->m->t, e, name, n ? n : 1);
  j->param[j->nparam] = p;
  j->arg[j->nparam++] =
      (anf_tir_arg){.data = data, .bytes = (n ? n : 1) * anfi_t_bytes(anfi_t_dt(e))};
  return p;
}

/* Memory of its own, so that a byte too far is noticed. */
static void *copy_of(job *j, const anf_value *v) {
  size_t bytes = v->n * anf_dtype_bytes((anf_dtype)v->type->dtype);
  void *p = anfi_zalloc(j->a, bytes + 16);
  memcpy(p, v->data, bytes);
  return p;
}

static anfi_view *input(job *j, anfi_low *L, size_t i) {
  const anf_value *v = j->q->in[i];
  if (v->kind != ANF_VALUE_TENSOR) return NULL;
  texpr p = add_param(j, v->type, copy_of(j, v), "x");
  bool scalar =
      v->type->n == 0 && anfi_dtype_class((anf_dtype)v->type->dtype) != ANFI_CLASS_COMPLEX;
  if (!scalar) return anfi_view_buffer(L, v->type, p);
  texpr zero = anfi_t_index(j->m->t, 0);
  return anfi_view_scalar(L, v->type,
                          anfi_low_let(L, anfi_t_at(j->m->t, p, 1, &zero, 1, 0, NULL), "x"));
}

static bool build(job *j, bool print) {
  anfi_eval *q = j->q;
  bool tuple = q->type->kind == ANF_TYPE_TUPLE;
  size_t nout = tuple ? q->type->n : 1;
  anfi_view *in[MOST], *out[MOST];
  texpr to[MOST];
  anfi_low *L = anfi_low_new(q->cx, j->a, j->m, NULL);
  anfi_low_open(L);
  if (q->n > MOST / 2 || nout > MOST / 2)
    return anfi_fail(q->cx, q->loc, ANF_E0001, "too many arguments");
  for (size_t i = 0; i < q->n; i++) in[i] = input(j, L, i);
  q->out = tuple ? anfi_value_new_tuple(q->cx, nout) : anfi_value_new_tensor(q->cx, q->type);
  for (size_t i = 0; i < nout; i++) {
    anf_value *v = q->out;
    if (tuple) v = q->out->u.item[i] = anfi_value_new_tensor(q->cx, q->type->items[i]);
    void *data = v->n ? v->data : anfi_zalloc(j->a, 16);
    to[i] = add_param(j, v->type, data, "y");
  }
  anfi_low_op op = {
      .op = q->op, .loc = q->loc, .type = q->type, .n = q->n, .in = in, .attr = q->attr, .to = to};
  if (!anfi_lower_op(L, &op, out)) return false;
  tfunc f = anfi_t_func(j->m->t, anfi_intern_z(&j->m->t->names, "f"), anfi_t_dt(ANF_TIR_void),
                        (uint32_t)j->nparam, j->param, anfi_low_close(L), (tattrs){0});
  anfi_t_mod_add(j->m, f);
  anfi_t_declare_rt(j->m);
  if (print) {
    anf_text text = {.cx = q->cx};
    anfi_t_print_mod(j->m, &text);
    fprintf(stderr, "%s\n", text.text);
    anf_text_free(&text);
  }
  return true;
}

static bool infer(anfi_eval *q) {
  const anf_type **in = ANFI_NEW_N(q->scratch, const anf_type *, q->n + 1);
  for (size_t i = 0; i < q->n; i++) in[i] = anf_value_type(q->cx, q->in[i]);
  anfi_infer t = {.cx = q->cx, .op = q->op, .loc = q->loc, .n = q->n, .in = in, .attr = q->attr};
  if (!anfi_infer_op(&t)) return false;
  q->type = t.out;
  return true;
}

bool run_lowered(anfi_eval *q, bool print) {
  q->scratch = anfi_scratch(q->cx);
  if (!infer(q)) return false;
  job j = {.q = q, .a = q->scratch, .m = anfi_t_mod_new(anfi_t_store_new(q->cx))};
  if (!build(&j, print)) return false;
  if (!anfi_t_validate(q->cx, j.m)) return false;
  anf_tir_run_opts o = {.size = sizeof o};
  return anfi_t_interp(q->cx, j.m, "f", j.nparam, j.arg, &o, NULL);
}
