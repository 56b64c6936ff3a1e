// SPDX-License-Identifier: Apache-2.0
/* Resizing.
 *   F.interpolate scale_factor=(2,2) mode=nearest   ->   Resize(x, shape, mode="nearest")
 * Where the op Resize says the same, it is used. Else each spatial axis is resized by itself: element i of the result
 * is the sum of a few elements of the input (Take) by weights that are computed here, as PyTorch's CPU kernels do in
 * single precision. */
#include "frontend/pnnx/pnnx.h"

#include <math.h>
#include <stdlib.h>

typedef enum { NEAREST, EXACT, LINEAR, CUBIC, AREA } mode;

typedef struct {
  mode how;
  bool corners, antialias;
  anfi_sizes to;
  double scale[ANF_MAX_RANK]; // given in the file, or 0
} resizing;

/* `count` elements of the input for each of n elements of the result. */
typedef struct {
  int64_t n, count;
  double *at, *weight; // [count][n]
} taps;

/* ---- the request ---- */

static bool read_mode(const anfi_layer *l, mode *out) {
  static const struct {
    const char *name;
    mode is;
  } row[] = {{"nearest", NEAREST}, {"nearest-exact", EXACT}, {"linear", LINEAR},
             {"bilinear", LINEAR}, {"trilinear", LINEAR},    {"bicubic", CUBIC},
             {"area", AREA}};
  const char *w = anfi_layer_text(l, "mode");
  *out = strstr(l->op->type, "ilinear") ? LINEAR : NEAREST;
  if (!w) return true;
  for (size_t i = 0; i < ANFI_LEN(row); i++)
    if (strcmp(row[i].name, w) == 0) return *out = row[i].is, true;
  return anfi_layer_only(l, "mode", "nearest");
}

/* size = floor(size * scale). The scale is rounded in the file, so where the file tells a size that
 * is one off, that is taken. */
static bool scaled_size(const anfi_layer *l, const anfi_operand *x, size_t i, double scale,
                        int64_t *out) {
  const anf_type *given = l->op->nout ? l->op->model->operands.at[l->op->out[0]].type : NULL;
  double size = (double)x->type->dims[i + 2] * scale;
  if (!(size >= 0 && size < 1e9))
    return anfi_layer_error(l, ANF_E1055, "a size that it gives is out of range");
  *out = (int64_t)size;
  if (given && given->n == x->type->n && llabs(given->dims[i + 2] - *out) == 1 &&
      fabs(size - (double)given->dims[i + 2]) < 1e-3)
    *out = given->dims[i + 2];
  return true;
}

static bool read_scales(const anfi_layer *l, const anfi_operand *x, resizing *r) {
  anfi_operand o;
  bool again;
  if (!anfi_layer_arg(l, "scale_factor", &o) ||
      !anfi_layer_bool(l, "recompute_scale_factor", false, &again))
    return false;
  r->to.n = x->type->n - 2;
  r->to.known = true;
  for (size_t i = 0; i < r->to.n; i++) {
    const anfi_operand *f = o.kind != ANFI_OPERAND_LIST ? &o
                            : i < o.n                   ? &o.item[i]
                            : o.n                       ? &o.item[o.n - 1]
                                                        : &o;
    if (f->kind != ANFI_OPERAND_TENSOR || !f->value || x->type->dims[i + 2] < 0)
      return anfi_layer_error(l, ANF_E1053, "a scale or a size that is not known");
    r->scale[i] = anf_value_get_f64(f->value, 0);
    if (!scaled_size(l, x, i, r->scale[i], &r->to.dims[i])) return false;
    if (again) r->scale[i] = 0;
  }
  return true;
}

static bool read_resizing(const anfi_layer *l, const anfi_operand *x, resizing *r) {
  bool corners = strstr(l->op->type, "ilinear") != NULL;
  if (!read_mode(l, &r->how) || !anfi_layer_bool(l, "align_corners", corners, &r->corners) ||
      !anfi_layer_bool(l, "antialias", false, &r->antialias))
    return false;
  anfi_layer_ignore(l, "recompute_scale_factor");
  if (x->type->n < 3) return anfi_layer_error(l, ANF_E1055, "its input must have spatial dims");
  if (!anfi_layer_given(l, "size")) return read_scales(l, x, r);
  if (!anfi_layer_sizes(l, "size", &r->to)) return false;
  if (r->to.known && r->to.n == 1 && x->type->n > 3) {
    r->to.n = x->type->n - 2;
    for (size_t i = 1; i < r->to.n; i++) r->to.dims[i] = r->to.dims[0];
  }
  return true;
}

/* ---- where elements come from ---- */

/* How far the result's neighbours are apart in the input. */
static float step_of(const resizing *r, size_t i, int64_t in, int64_t out) {
  if (r->corners && r->how >= LINEAR) return out > 1 ? (float)(in - 1) / (float)(out - 1) : 0;
  return r->scale[i] > 0 ? (float)(1 / r->scale[i]) : (float)in / (float)out;
}

static double clamp_index(double v, int64_t in) {
  return v < 0 ? 0 : v > (double)(in - 1) ? (double)(in - 1) : v;
}

static float cubic(float x, float a) {
  x = fabsf(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

static void fill_nearest(const resizing *r, float step, int64_t in, taps *t) {
  for (int64_t i = 0; i < t->n; i++) {
    float from = r->how == EXACT ? ((float)i + 0.5F) * step : (float)i * step;
    t->at[i] = clamp_index(floor((double)from), in);
    t->weight[i] = 1;
  }
}

static void fill_smooth(const resizing *r, float step, int64_t in, taps *t) {
  for (int64_t i = 0; i < t->n; i++) {
    float from = r->corners ? (float)i * step : ((float)i + 0.5F) * step - 0.5F;
    if (r->how == LINEAR && from < 0) from = 0;
    float low = floorf(from), part = from - low;
    for (int64_t k = 0; k < t->count; k++) {
      float w = r->how == CUBIC ? cubic(part - (float)(k - 1), -0.75F) : k ? part : 1 - part;
      t->at[k * t->n + i] = clamp_index((double)low + (double)(r->how == CUBIC ? k - 1 : k), in);
      t->weight[k * t->n + i] = (double)w;
    }
  }
}

/* The filter is as wide as the step, and its weights sum to 1. */
static void fill_antialias(const resizing *r, float step, int64_t in, taps *t) {
  float wide = step > 1 ? step : 1, support = (r->how == CUBIC ? 2.0F : 1.0F) * wide;
  for (int64_t i = 0; i < t->n; i++) {
    float center = step * ((float)i + 0.5F), sum = 0;
    int64_t from = (int64_t)(center - support + 0.5F), until = (int64_t)(center + support + 0.5F);
    if (from < 0) from = 0;
    if (until > in) until = in;
    for (int64_t k = 0; k < t->count; k++) {
      float x = ((float)(from + k) - center + 0.5F) / wide, w = 0;
      if (from + k < until) w = r->how == CUBIC ? cubic(x, -0.5F) : fmaxf(0, 1 - fabsf(x));
      t->at[k * t->n + i] = clamp_index((double)(from + k), in);
      t->weight[k * t->n + i] = (double)w;
      sum += w;
    }
    for (int64_t k = 0; sum != 0 && k < t->count; k++) t->weight[k * t->n + i] /= (double)sum;
  }
}

static bool make_taps(const anfi_layer *l, const resizing *r, size_t i, int64_t in, taps *t) {
  if (in < 1 || in > INT32_MAX || t->n < 0 || t->n > INT32_MAX)
    return anfi_layer_error(l, ANF_E1055, "a size that it gives is out of range");
  float step = step_of(r, i, in, t->n);
  bool wide = r->antialias && (r->how == LINEAR || r->how == CUBIC);
  t->count = r->how < LINEAR ? 1 : r->how == LINEAR ? 2 : 4;
  if (wide) t->count = (int64_t)ceilf((step > 1 ? step : 1) * (r->how == CUBIC ? 2 : 1)) * 2 + 1;
  if (t->count > 4096 || t->n > (1 << 24) / t->count)
    return anfi_layer_error(l, ANF_E1055, "a size that it gives is out of range");
  t->at = ANFI_NEW_N(l->t->arena, double, (size_t)(t->n * t->count) + 1);
  t->weight = ANFI_NEW_N(l->t->arena, double, (size_t)(t->n * t->count) + 1);
  if (wide) fill_antialias(r, step, in, t);
  else if (r->how < LINEAR) fill_nearest(r, step, in, t);
  else fill_smooth(r, step, in, t);
  return true;
}

static bool resize_axis(const anfi_layer *l, const resizing *r, size_t i, anfi_operand *x) {
  size_t axis = i + 2;
  int64_t dims[ANF_MAX_RANK];
  taps t = {.n = r->to.dims[i]};
  anfi_operand sum = {0}, part;
  anf_dtype d = (anf_dtype)x->type->dtype;
  if (!make_taps(l, r, i, x->type->dims[axis], &t)) return false;
  for (size_t k = 0; k < x->type->n - axis; k++) dims[k] = k ? 1 : t.n;
  for (int64_t k = 0; k < t.count; k++) {
    anfi_operand at = anfi_layer_constant(l, ANF_I64, 1, &t.n, t.at + k * t.n);
    anfi_operand w = anfi_layer_constant(l, d, x->type->n - axis, dims, t.weight + k * t.n);
    if (!anfi_layer_take(l, x, &at, (int64_t)axis, &part)) return false;
    if (r->how >= LINEAR && !anfi_layer_op2(l, ANF_OP_Mul, &part, &w, &part)) return false;
    if (k && !anfi_layer_op2(l, ANF_OP_Add, &sum, &part, &part)) return false;
    sum = part;
  }
  return *x = sum, true;
}

/* ---- layers ---- */

/* Whether Resize steps through the input as PyTorch does: by the ratio of the sizes. */
static bool same_as_op(const anfi_operand *x, const resizing *r) {
  if (r->how != NEAREST && r->how != LINEAR) return false;
  if (!r->to.known) return true;
  if (r->antialias) return false;
  for (size_t i = 0; i < r->to.n; i++)
    if (r->scale[i] > 0 && !(r->corners && r->how == LINEAR) &&
        (double)r->to.dims[i] != (double)x->type->dims[i + 2] * r->scale[i])
      return false;
  return true;
}

bool anfi_pnnx_make_resize(anfi_layer *l) {
  anfi_operand x;
  resizing r = {.to.n = 0};
  if (!anfi_layer_tensor(l, "input", 0, &x) || !read_resizing(l, &x, &r)) return false;
  if (r.to.n + 2 != x.type->n)
    return anfi_layer_error(l, ANF_E1055, "it needs one size for each spatial dim");
  if (r.antialias && !r.to.known) return anfi_layer_error(l, ANF_E1053, "antialias=True");
  if (same_as_op(&x, &r)) {
    anf_attr a[] = {{"mode", anfi_layer_v_text(l, r.how == LINEAR ? "linear" : "nearest"), NULL},
                    {"align_corners", anfi_layer_v_bool(l, r.corners), NULL}};
    return anfi_layer_sized(l, ANF_OP_Resize, 1, &x, "shape", &r.to, a, 2, (anf_dtype)x.type->dtype,
                            x.type->n);
  }
  if (!r.to.known) return anfi_layer_error(l, ANF_E1053, "this mode and a size that is not known");
  if (r.how == AREA) {
    anf_attr a = {"shape", anfi_layer_v_ints(l, r.to.n, r.to.dims), NULL};
    if (r.to.n > 3) return anfi_layer_error(l, ANF_E1053, "mode=area and more than three sizes");
    return anfi_layer_result(l, (anfi_opcode)(ANF_OP_AdaptiveAvgPool1D + (int)r.to.n - 1), 1, &x, 1,
                             &a);
  }
  for (size_t i = 0; i < r.to.n; i++)
    if (!resize_axis(l, &r, i, &x)) return false;
  l->nresult = 1;
  return l->out[0] = x, true;
}
