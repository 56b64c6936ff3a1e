// SPDX-License-Identifier: Apache-2.0
/* Runs a function on values, whatever executes it.
 *   f(x), x: f32[3]    ->   x is copied to memory;  the call;  memory is copied to a value
 * Tensors are copied in before, and out again after. */
#include "backend/tir/tir.h"

static uint64_t lane_of(tdtype want, const anf_value *v) {
  anf_tir_elem have = anfi_t_elem_of(anf_value_dtype(v));
  if (anfi_t_is_float(anfi_t_dt(have))) return anfi_t_lane_of_f64(want, anf_value_get_f64(v, 0));
  if (have == ANF_TIR_u64 && anfi_t_is_float(want))
    return anfi_t_lane_of_f64(want, anf_value_get_f64(v, 0));
  return anfi_t_lane_of_i64(want, anf_value_get_i64(v, 0));
}

static bool number(const anf_value *v) {
  return v && anf_value_get_kind(v) == ANF_VALUE_TENSOR &&
         anfi_t_elem_of(anf_value_dtype(v)) != ANF_TIR_void;
}

/* A tensor's memory is the run's own; its elements must be of the parameter's type. */
static bool tensor_arg(anf_ctx *cx, anfi_arena *a, tfunc f, size_t i, const anf_value *v,
                       anf_tir_arg *out) {
  texpr p = f->param[i];
  anf_tir_elem e = number(v) ? anfi_t_elem_of(anf_value_dtype(v)) : ANF_TIR_void;
  bool same = e != ANF_TIR_void &&
              (e == p->dtype.elem || (e == ANF_TIR_u64 && p->dtype.elem == ANF_TIR_index) ||
               p->dtype.elem == ANF_TIR_void || p->dtype.elem == ANF_TIR_generic);
  if (!same)
    return anfi_fail(cx, anfi_nowhere(), ANF_E0869, i + 1, f->name->s,
                     anfi_sprintf(a, "a tensor of %s", anfi_t_elem_names[p->dtype.elem]));
  out->bytes = anf_value_elements(v) * anfi_t_bytes(anfi_t_dt(e));
  out->data = anfi_alloc(a, out->bytes);
  memcpy(out->data, anf_value_data(v), out->bytes);
  return true;
}

static bool one_arg(anf_ctx *cx, anfi_arena *a, tfunc f, size_t i, const anf_value *v,
                    anf_tir_arg *out) {
  texpr p = f->param[i];
  if (p->dtype.ptr) return tensor_arg(cx, a, f, i, v, out);
  uint32_t lanes = anfi_t_total(p->dtype);
  if (!number(v) || anf_value_elements(v) != lanes)
    return anfi_fail(cx, anfi_nowhere(), ANF_E0869, i + 1, f->name->s,
                     lanes == 1 ? "a number" : "as many numbers as it has lanes");
  if (lanes == 1) {
    uint64_t bits = lane_of(p->dtype, v);
    if (anfi_t_class(p->dtype) == TC_BOOL) out->v.b = bits != 0;
    else out->v.bits = bits;
    return true;
  }
  return tensor_arg(cx, a, f, i, v, out);
}

static anf_value *given_back(anf_ctx *cx, tdtype d, const anf_tir_arg *r) {
  if (anfi_t_is_void(d)) return anf_value_none(cx);
  return anf_value_tensor(cx, anfi_t_value_dtype(d), 0, NULL, &r->v);
}

static anf_value *left(anf_ctx *cx, anf_value *in, texpr p, const anf_tir_arg *arg) {
  if (!p->dtype.ptr) return anf_value_retain(in);
  int64_t dims[ANF_MAX_RANK];
  for (size_t k = 0; k < anf_value_rank(in); k++) dims[k] = anf_value_dim(in, k);
  return anf_value_tensor(cx, anf_value_dtype(in), anf_value_rank(in), dims, arg->data);
}

void anfi_t_call_values(anf_ctx *cx, tfunc f, size_t n, anf_value *const *args, anfi_t_caller call,
                        void *user, anf_value **result, anf_value **outs) {
  anfi_arena *a = anfi_scratch(cx);
  anf_tir_arg *in = ANFI_NEW_N(a, anf_tir_arg, n + 1), r = {0};
  size_t hidden = f && anfi_t_attr(f->attrs, TA_resolved, NULL) ? 2 : 0;
  for (size_t i = 0; f && i < n && i + hidden < f->n; i++)
    if (!one_arg(cx, a, f, i + hidden, args[i], &in[i])) return;
  if (!call(cx, user, n, in, &r)) return;
  *result = given_back(cx, f->ret, &r);
  bool good = *result != NULL;
  for (size_t i = 0; outs && i < n; i++)
    good &= (outs[i] = left(cx, args[i], f->param[i + hidden], &in[i])) != NULL;
  if (good) return;
  anf_value_release(*result);
  for (size_t i = 0; outs && i < n; i++) {
    if (outs[i]) anf_value_release(outs[i]);
    outs[i] = NULL;
  }
  *result = NULL;
  anfi_throw_nomem(cx);
}

typedef struct interpreted {
  const tmod *m;
  const char *func;
  const anf_tir_run_opts *o;
} interpreted;

static bool interpret(anf_ctx *cx, void *user, size_t n, const anf_tir_arg *in, anf_tir_arg *r) {
  const interpreted *u = (const interpreted *)user;
  return anfi_t_interp(cx, u->m, u->func, n, in, u->o, r);
}

static void run(anf_ctx *cx, const tmod *m, const char *func, size_t n, anf_value *const *args,
                const anf_tir_run_opts *o, anf_value **result, anf_value **outs) {
  interpreted u = {m, func, o};
  anfi_t_call_values(cx, anf_tir_find(m, func), n, args, interpret, &u, result, outs);
}

anf_status anf_tir_run_values(const anf_tir_module *m, const char *func, size_t n,
                              anf_value *const *args, const anf_tir_run_opts *o, anf_diag *d,
                              anf_value **result, anf_value **outs) {
  ANFI_NEED(d, m, func, result);
  if (n) ANFI_NEED(d, args);
  *result = NULL;
  for (size_t i = 0; outs && i < n; i++) outs[i] = NULL;
  ANFI_ENTRY(m->t->cx, d);
  run(m->t->cx, m, func, n, args, o, result, outs);
  return anfi_leave(m->t->cx);
}
