// SPDX-License-Identifier: Apache-2.0
#include "test/tir/values.h"

#include <math.h>
#include <stdlib.h>

uint64_t next_random(uint64_t *s) { // splitmix64
  uint64_t z = (*s += UINT64_C(0x9e3779b97f4a7c15));
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

enum { MAX_PARAMS = 16, UNKNOWN_ELEMS = 1024 };

typedef struct call {
  anf_tir_arg arg[MAX_PARAMS], result;
  size_t elems[MAX_PARAMS], n;
  tdtype type[MAX_PARAMS];
} call;

static uint64_t random_lane(tdtype d, uint64_t *s) {
  uint64_t r = next_random(s);
  if (anfi_t_class(d) == TC_BOOL) return r & 1;
  if (anfi_t_is_float(d)) return anfi_t_lane_of_f64(d, ((double)(r >> 40) / 16777216.0 - 0.5) * 4);
  return anfi_t_lane_of_i64(d, (int64_t)(r % 8));
}

static bool make_args(tfunc f, call *c, uint64_t seed) {
  c->n = f->n;
  if (f->n > MAX_PARAMS) return false;
  for (size_t i = 0; i < c->n; i++) {
    texpr p = f->param[i];
    uint64_t n = UNKNOWN_ELEMS;
    c->arg[i] = (anf_tir_arg){0};
    c->elems[i] = 0;
    c->type[i] = anfi_t_dt((anf_tir_elem)p->dtype.elem);
    if (p->kind == TX_var && p->dtype.ptr) return false;
    if (p->kind == TX_var && anfi_t_total(p->dtype) == 1) {
      uint64_t bits = random_lane(p->dtype, &seed);
      if (anfi_t_class(p->dtype) == TC_BOOL) c->arg[i].v.b = bits != 0;
      else c->arg[i].v.bits = bits;
      continue;
    }
    if (p->kind == TX_tensor && (p->sub || p->dtype.elem == ANF_TIR_generic)) return false;
    if (p->kind == TX_tensor) anfi_t_const_elems(p, &n);
    else n = anfi_t_total(p->dtype);
    size_t bytes = anfi_t_bytes(c->type[i]);
    c->elems[i] = (size_t)n;
    c->arg[i].bytes = (size_t)n * bytes;
    c->arg[i].data = calloc((size_t)n + 1, bytes);
    for (uint64_t k = 0; k < n; k++) {
      uint64_t bits = random_lane(c->type[i], &seed);
      memcpy((char *)c->arg[i].data + k * bytes, &bits, bytes);
    }
  }
  return true;
}
static void free_args(call *c) {
  for (size_t i = 0; i < c->n && i < MAX_PARAMS; i++) free(c->arg[i].data);
}

static bool close_lane(tdtype d, uint64_t a, uint64_t b, double tolerance) {
  if (a == b) return true;
  if (!anfi_t_is_float(d)) return false;
  double x = anfi_t_lane_f64(d, a), y = anfi_t_lane_f64(d, b);
  if (isnan(x) || isnan(y)) return isnan(x) && isnan(y);
  if (tolerance == 0) return false;
  return fabs(x - y) <= tolerance * fmax(1, fabs(x));
}

static bool same_call(tfunc f, const call *a, const call *b, double tol, char *why, size_t len) {
  if (!anfi_t_is_void(f->ret) && !close_lane(f->ret, a->result.v.bits, b->result.v.bits, tol)) {
    snprintf(why, len, "%s gives %llx, not %llx", f->name->s, (unsigned long long)b->result.v.bits,
             (unsigned long long)a->result.v.bits);
    return false;
  }
  for (size_t i = 0; i < a->n; i++) {
    size_t bytes = anfi_t_bytes(a->type[i]);
    for (size_t k = 0; k < a->elems[i]; k++) {
      uint64_t x = 0, y = 0;
      memcpy(&x, (char *)a->arg[i].data + k * bytes, bytes);
      memcpy(&y, (char *)b->arg[i].data + k * bytes, bytes);
      if (close_lane(a->type[i], x, y, tol)) continue;
      snprintf(why, len, "%s: element %zu of argument %zu is %g, not %g", f->name->s, k, i,
               anfi_t_lane_f64(a->type[i], y), anfi_t_lane_f64(a->type[i], x));
      return false;
    }
  }
  return true;
}

static bool one(const anf_tir_module *a, const anf_tir_module *b, tfunc f, const values_opts *o,
                char *why, size_t len, unsigned *ran) {
  call x = {.n = 0}, y = {.n = 0};
  anf_diag *d = anf_diag_new(a->cx);
  anf_tir_run_opts ro = {.size = sizeof ro, .plain = o->plain, .max_steps = 2000000};
  bool good = make_args(f, &x, o->seed) && make_args(f, &y, o->seed);
  if (good && anf_tir_run(a, f->name->s, x.n, x.arg, &ro, NULL, &x.result) == ANF_OK) {
    ++*ran;
    ro.max_steps *= 20;
    if (anf_tir_run(b, f->name->s, y.n, y.arg, &ro, d, &y.result) != ANF_OK) {
      const anf_diag_item *it = anf_diag_at(d, 0);
      snprintf(why, len, "%s fails: %s (line %u)", f->name->s, it ? it->message : "?",
               it ? it->line : 0);
      good = false;
    } else good = same_call(f, &x, &y, o->tolerance, why, len);
  } else good = true;
  free_args(&x);
  free_args(&y);
  anf_diag_free(d);
  return good;
}

bool same_values(const anf_tir_module *a, const anf_tir_module *b, const values_opts *o, char *why,
                 size_t len, unsigned *ran) {
  for (size_t i = 0; i < a->func.n; i++) {
    tfunc f = a->func.at[i], g = anf_tir_find(b, f->name->s);
    if (!f->body || anfi_t_attr(f->attrs, TA_is_private, NULL)) continue;
    if (!g) return snprintf(why, len, "%s is gone", f->name->s), false;
    if (!one(a, b, f, o, why, len, ran)) return false;
  }
  return true;
}
