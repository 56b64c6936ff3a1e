// SPDX-License-Identifier: Apache-2.0
/* Numbers that are none. The outputs are looked at after each run; to name the operation that made
 * the first NaN, the step is run once more, by the interpreter, from the state that was before. */
#include "backend/step/step.h"

#include "ir/interp.h"

#include <math.h>

double anfi_step_number_at(anf_dtype t, const void *p) {
  union {
    bool b;
    int8_t i8;
    int16_t i16;
    int32_t i32;
    int64_t i64;
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
    float f32;
    double f64;
  } x;
  memcpy(&x, p, anf_dtype_bytes(t));
  switch (t) {
  case ANF_BOOL: return x.b;
  case ANF_I8: return x.i8;
  case ANF_I16: return x.i16;
  case ANF_I32: return x.i32;
  case ANF_U8: return x.u8;
  case ANF_U16: return x.u16;
  case ANF_U32: return x.u32;
  case ANF_U64: return (double)x.u64;
  case ANF_F16: return (double)anfi_f16_to_f32(x.u16);
  case ANF_BF16: return (double)anfi_bf16_to_f32(x.u16);
  case ANF_F32: return (double)x.f32;
  case ANF_F64:
  case ANF_FLOAT: return x.f64;
  default: return (double)x.i64;
  }
}

/* The first element that is no finite number; 0 if there is none. */
static double first_bad(anf_dtype t, const char *p, size_t bytes) {
  size_t size = anf_dtype_bytes(t);
  anf_dtype part = t == ANF_C64 ? ANF_F32 : t == ANF_C128 ? ANF_F64 : t;
  if (t == ANF_C64 || t == ANF_C128) size /= 2;
  if (!anfi_dtype_is_float(part)) return 0.0;
  for (size_t i = 0; i < bytes; i += size) {
    double x = anfi_step_number_at(part, p + i);
    if (!isfinite(x)) return x;
  }
  return 0.0;
}

/* ---- the state before a run ---- */

static size_t state_bytes(const anf_step *s) {
  size_t n = 0;
  for (size_t i = 0; i < s->nleaf[ANF_STATE]; i++) n += s->leaf[ANF_STATE][i].bytes;
  return n;
}

void anfi_step_remember(anf_step *s) {
  if (!s->before) s->before = anfi_step_memory(s->cx, state_bytes(s), &s->before_bytes);
  char *to = s->before;
  for (size_t i = 0; i < s->nleaf[ANF_STATE]; i++) {
    const anfi_step_leaf *l = &s->leaf[ANF_STATE][i];
    anfi_step_gather(l);
    memcpy(to, l->at, l->bytes);
    to += l->bytes;
  }
}

static void restore(anf_step *s) {
  const char *from = s->before;
  for (size_t i = 0; i < s->nleaf[ANF_STATE]; i++) {
    const anfi_step_leaf *l = &s->leaf[ANF_STATE][i];
    memcpy(l->at, from, l->bytes);
    anfi_step_scatter(l);
    from += l->bytes;
  }
  s->count--;
}

/* ---- finding the operation ---- */

typedef struct found {
  const anf_node *node; // that made the first NaN, or, `inf`, the first infinity
  const char *op;
  anfi_loc loc;
} found;
typedef struct search {
  found nan, inf;
} search;

/* The worst of its elements: NaN, or else an infinity, or else 0. */
static double worst(const anf_value *v) {
  if (v->kind != ANF_VALUE_TENSOR) return 0.0;
  anf_dtype t = (anf_dtype)v->type->dtype;
  size_t size = anf_dtype_bytes(t);
  double r = 0.0;
  for (size_t i = 0; i < v->n && !isnan(r); i++) {
    double x = first_bad(t, (const char *)v->u.data + i * size, size);
    if (x != 0.0) r = x;
  }
  return r;
}

static void watch(void *user, const anf_node *node, size_t n, anf_value *const *in,
                  const anf_value *out) {
  search *k = (search *)user;
  if (k->nan.node) return;
  double made = worst(out);
  found *f = isnan(made) ? &k->nan : &k->inf;
  if (made == 0.0 || f->node) return;
  for (size_t i = 0; i < n; i++) {
    double was = in[i] ? worst(in[i]) : 0.0;
    if (isnan(made) ? isnan(was) : was != 0.0) return; // it was so before
  }
  // the node may be of a copy that is gone when this is read
  *f = (found){.node = node, .op = anfi_op[node->op].name, .loc = anfi_node_loc(node)};
}

static void release(void *v) { anf_value_release((anf_value *)v); }

/* Runs the step from the state as it is now. */
static void find(anf_step *s, search *k) {
  size_t n = s->g->params.n;
  anf_value **v = ANFI_NEW_N(anfi_scratch(s->cx), anf_value *, n + 1);
  for (size_t i = 0; i < n; i++) {
    bool state = i < s->nstate;
    const anfi_step_leaf *l = state ? &s->leaf[ANF_STATE][s->first[i]]
                                    : &s->leaf[ANF_INPUT][s->first[i] - s->nleaf[ANF_STATE]];
    v[i] = anfi_step_value(s, s->param[i], l);
    anfi_defer(s->cx, ANFI_ALWAYS, release, v[i]);
  }
  anf_value *r = anfi_run_watched(s->g, n, v, watch, k);
  anf_value_release(r);
}

static anf_status find_in_frame(anf_step *s, search *k) {
  ANFI_ENTRY(s->cx, NULL);
  find(s, k);
  return anfi_leave(s->cx);
}

static const char *input_that_is_bad(const anf_step *s) {
  for (int r = ANF_STATE; r <= ANF_INPUT; r++)
    for (size_t i = 0; i < s->nleaf[r]; i++) {
      const anfi_step_leaf *l = &s->leaf[r][i];
      if (first_bad((anf_dtype)l->type->dtype, l->at, l->bytes) != 0.0) return l->name;
    }
  return NULL;
}

static void explain(anf_step *s) {
  search k = {0};
  restore(s);
  const char *name = input_that_is_bad(s);
  if (name) anfi_hint(s->cx, "'%s' holds NaN or infinity before the step", name);
  if (find_in_frame(s, &k) == ANF_NOMEM) anfi_throw_nomem(s->cx);
  if (k.nan.node)
    anfi_note(s->cx, k.nan.loc, "%s made the first NaN of numbers that were none", k.nan.op);
  if (k.inf.node)
    anfi_note(s->cx, k.inf.loc, "%s made the first infinity of finite numbers", k.inf.op);
}

bool anfi_step_check(anf_step *s) {
  for (size_t i = 0; i < s->nleaf[ANF_OUTPUT]; i++) {
    const anfi_step_leaf *l = &s->leaf[ANF_OUTPUT][i];
    double x = first_bad((anf_dtype)l->type->dtype, l->at, l->bytes);
    if (x == 0.0) continue;
    anfi_fail(s->cx, anfi_nowhere(), ANF_E1117, l->name, (unsigned long long)s->count,
              isnan(x) ? "NaN" : "an infinity");
    if (s->o.nan == ANF_NAN_FIND) explain(s);
    return false;
  }
  return true;
}
