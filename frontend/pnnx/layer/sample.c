// SPDX-License-Identifier: Apache-2.0
/* Grids and sampling along them. A sample is the sum of a few elements of the image by weights: in
 * each dim a number of taps, each an index and a weight that are computed from the grid, and one
 * gather for each combination of taps. */
#include "frontend/pnnx/pnnx.h"

typedef enum { NEAREST, LINEAR, CUBIC } mode;
typedef enum { ZEROS, BORDER, REFLECTION } padding;

/* All coordinates are [n, 1, samples]. */
typedef struct {
  mode how;
  padding outside;
  bool corners;
  size_t dims; // spatial
  int64_t n, channels, samples, size[3];
  anfi_operand planes;       // [n, channels, elements]
  anfi_operand index[3][4];  // of dim and tap, as reals
  anfi_operand weight[3][4]; // None: 1
} sampler;

static bool op1(const anfi_layer *l, anfi_opcode op, const anfi_operand *x, anfi_operand *out) {
  return anfi_layer_op1(l, op, x, out);
}

static bool op2(const anfi_layer *l, anfi_opcode op, const anfi_operand *a, const anfi_operand *b,
                anfi_operand *out) {
  return anfi_layer_op2(l, op, a, b, out);
}

/* x by a number on the right. */
static bool by(const anfi_layer *l, anfi_opcode op, const anfi_operand *x, double v,
               anfi_operand *out) {
  anfi_operand number = anfi_layer_number(l, v);
  return op2(l, op, x, &number, out);
}

static bool clip(const anfi_layer *l, const anfi_operand *x, int64_t size, anfi_operand *out) {
  return by(l, ANF_OP_Maximum, x, 0, out) && by(l, ANF_OP_Minimum, out, (double)(size - 1), out);
}

/* ---- coordinates ---- */

/* From -1 .. 1 to elements. */
static bool unnormalise(const anfi_layer *l, const sampler *s, anfi_operand *x, int64_t size) {
  if (s->corners)
    return by(l, ANF_OP_Add, x, 1, x) && by(l, ANF_OP_Mul, x, 0.5 * (double)(size - 1), x);
  return by(l, ANF_OP_Add, x, 1, x) && by(l, ANF_OP_Mul, x, (double)size, x) &&
         by(l, ANF_OP_Sub, x, 1, x) && by(l, ANF_OP_Mul, x, 0.5, x);
}

/* Back and forth between the borders: a wave of triangles. */
static bool reflect(const anfi_layer *l, const sampler *s, anfi_operand *x, int64_t size) {
  double low = s->corners ? 0 : -0.5, span = s->corners ? (double)(size - 1) : (double)size;
  if (span == 0) return by(l, ANF_OP_Mul, x, 0, x);
  return by(l, ANF_OP_Sub, x, low, x) && op1(l, ANF_OP_Abs, x, x) &&
         by(l, ANF_OP_Fmod, x, 2 * span, x) && by(l, ANF_OP_Sub, x, span, x) &&
         op1(l, ANF_OP_Abs, x, x) && op1(l, ANF_OP_Neg, x, x) &&
         by(l, ANF_OP_Add, x, span + low, x) && clip(l, x, size, x);
}

static bool pad(const anfi_layer *l, const sampler *s, anfi_operand *x, int64_t size) {
  if (s->outside == BORDER) return clip(l, x, size, x);
  return s->outside == ZEROS || reflect(l, s, x, size);
}

/* ---- taps ---- */

/* (((t - 5) t + 8) t - 4) a for 1 <= t <= 2, ((a + 2) t - (a + 3)) t t + 1 below, with a = -0.75. */
static bool cubic_weight(const anfi_layer *l, const anfi_operand *t, bool near, anfi_operand *w) {
  const double a = -0.75;
  if (near)
    return by(l, ANF_OP_Mul, t, a + 2, w) && by(l, ANF_OP_Sub, w, a + 3, w) &&
           op2(l, ANF_OP_Mul, w, t, w) && op2(l, ANF_OP_Mul, w, t, w) && by(l, ANF_OP_Add, w, 1, w);
  return by(l, ANF_OP_Sub, t, 5, w) && op2(l, ANF_OP_Mul, w, t, w) && by(l, ANF_OP_Add, w, 8, w) &&
         op2(l, ANF_OP_Mul, w, t, w) && by(l, ANF_OP_Sub, w, 4, w) && by(l, ANF_OP_Mul, w, a, w);
}

static bool weight_of(const anfi_layer *l, const sampler *s, const anfi_operand *part, size_t tap,
                      anfi_operand *w) {
  anfi_operand one = anfi_layer_number(l, 1), t = *part;
  if (s->how == LINEAR) return tap ? (*w = t, true) : op2(l, ANF_OP_Sub, &one, &t, w);
  double from = (double)tap - 1; // |part - from|
  if (from <= 0 ? !by(l, ANF_OP_Add, &t, -from, &t)
                : !by(l, ANF_OP_Sub, &t, from, &t) || !op1(l, ANF_OP_Neg, &t, &t))
    return false;
  return cubic_weight(l, &t, tap == 1 || tap == 2, w);
}

/* Elements outside count as zeros: their weight is 0. */
static bool mask_out(const anfi_layer *l, const anfi_operand *index, int64_t size,
                     anfi_operand *w) {
  anfi_operand low, high, one = anfi_layer_number(l, 1);
  anf_dtype d = (anf_dtype)index->type->dtype;
  if (!by(l, ANF_OP_GreaterEqual, index, 0, &low) ||
      !by(l, ANF_OP_LessEqual, index, (double)(size - 1), &high) ||
      !op2(l, ANF_OP_LogicalAnd, &low, &high, &low) || !anfi_torch_cast(l->t, &low, d, &low))
    return false;
  return op2(l, ANF_OP_Mul, w->kind == ANFI_OPERAND_NONE ? &one : w, &low, w);
}

static size_t tap_count(const sampler *s) {
  return s->how == NEAREST ? 1 : s->how == LINEAR ? 2 : 4;
}

static bool make_taps(const anfi_layer *l, sampler *s, size_t dim, anfi_operand x) {
  anfi_operand low, part = {.kind = ANFI_OPERAND_NONE};
  int64_t size = s->size[dim];
  if (!unnormalise(l, s, &x, size) || (s->how != CUBIC && !pad(l, s, &x, size)) ||
      !op1(l, s->how == NEAREST ? ANF_OP_Round : ANF_OP_Floor, &x, &low) ||
      (s->how != NEAREST && !op2(l, ANF_OP_Sub, &x, &low, &part)))
    return false;
  for (size_t k = 0; k < tap_count(s); k++) {
    anfi_operand *i = &s->index[dim][k], *w = &s->weight[dim][k];
    *w = (anfi_operand){.kind = ANFI_OPERAND_NONE};
    if (!by(l, ANF_OP_Add, &low, s->how == CUBIC ? (double)k - 1 : (double)k, i) ||
        (s->how != NEAREST && !weight_of(l, s, &part, k, w)) ||
        (s->how == CUBIC && !pad(l, s, i, size)) ||
        (s->outside == ZEROS && !mask_out(l, i, size, w)) || !clip(l, i, size, i))
      return false;
  }
  return true;
}

/* ---- samples ---- */

static bool add_sample(const anfi_layer *l, const sampler *s, const size_t *tap,
                       anfi_operand *sum) {
  anfi_operand at, w = {.kind = ANFI_OPERAND_NONE}, v;
  for (size_t d = 0; d < s->dims; d++) {
    const anfi_operand *i = &s->index[d][tap[d]], *part = &s->weight[d][tap[d]];
    anfi_operand whole;
    if (!anfi_torch_cast(l->t, i, ANF_I64, &whole)) return false;
    anfi_operand size = anfi_operand_number(l->t, s->size[d]);
    if (d && (!op2(l, ANF_OP_Mul, &at, &size, &at) || !op2(l, ANF_OP_Add, &at, &whole, &at)))
      return false;
    if (!d) at = whole;
    if (part->kind == ANFI_OPERAND_NONE) continue;
    if (w.kind == ANFI_OPERAND_NONE) w = *part;
    else if (!op2(l, ANF_OP_Mul, &w, part, &w)) return false;
  }
  anf_attr shape = {
      "shape", anfi_layer_v_ints(l, 3, (const int64_t[]){s->n, s->channels, s->samples}), NULL};
  if (!anfi_layer_op(l, ANF_OP_BroadcastTo, 1, &at, 1, &shape, &at) ||
      !anfi_layer_along(l, ANF_OP_TakeAlongAxis, 2, (const anfi_operand[]){s->planes, at}, 2, &v) ||
      (w.kind != ANFI_OPERAND_NONE && !op2(l, ANF_OP_Mul, &v, &w, &v)))
    return false;
  if (sum->kind != ANFI_OPERAND_NONE && !op2(l, ANF_OP_Add, sum, &v, &v)) return false;
  return *sum = v, true;
}

static bool all_samples(const anfi_layer *l, const sampler *s, anfi_operand *sum) {
  size_t n = tap_count(s), all = 1;
  for (size_t d = 0; d < s->dims; d++) all *= n;
  *sum = (anfi_operand){.kind = ANFI_OPERAND_NONE};
  for (size_t k = 0; k < all; k++) {
    size_t tap[3], rest = k;
    for (size_t d = s->dims; d-- > 0; rest /= n) tap[d] = rest % n;
    if (!add_sample(l, s, tap, sum)) return false;
  }
  return true;
}

static bool read_words(const anfi_layer *l, sampler *s) {
  static const char *const modes[] = {"bilinear", "nearest", "bicubic"};
  static const char *const pads[] = {"zeros", "border", "reflection"};
  static const mode how[] = {LINEAR, NEAREST, CUBIC};
  const char *m = anfi_layer_text(l, "mode"), *p = anfi_layer_text(l, "padding_mode");
  size_t i = 0, k = 0;
  while (m && i < 3 && strcmp(modes[i], m) != 0) i++;
  while (p && k < 3 && strcmp(pads[k], p) != 0) k++;
  if (i == 3) return anfi_layer_only(l, "mode", "bilinear");
  if (k == 3) return anfi_layer_only(l, "padding_mode", "zeros");
  s->how = how[i];
  s->outside = (padding)k;
  return anfi_layer_bool(l, "align_corners", false, &s->corners);
}

static bool read_image(const anfi_layer *l, sampler *s, const anfi_operand *x,
                       const anfi_operand *grid) {
  const anf_type *t = x->type, *g = grid->type;
  int64_t elements = 1;
  s->dims = t->n - 2;
  for (size_t i = 0; i < t->n; i++)
    if (t->dims[i] < 1) return anfi_layer_error(l, ANF_E1053, "a size that is 0 or not known");
  for (size_t i = 0; i < g->n; i++)
    if (g->dims[i] < 0) return anfi_layer_error(l, ANF_E1053, "a size that is not known");
  if ((t->n != 4 && t->n != 5) || g->n != t->n || g->dims[g->n - 1] != (int64_t)s->dims ||
      g->dims[0] != t->dims[0])
    return anfi_layer_error(l, ANF_E1055, "its grid does not fit its input");
  if (s->how == CUBIC && s->dims == 3)
    return anfi_layer_error(l, ANF_E1053, "mode=bicubic in three dims");
  s->n = t->dims[0], s->channels = t->dims[1], s->samples = 1;
  for (size_t d = 0; d < s->dims; d++) {
    s->size[d] = t->dims[d + 2];
    elements *= s->size[d];
    s->samples *= g->dims[d + 1];
  }
  const int64_t flat[] = {s->n, s->channels, elements};
  return anfi_layer_reshape(l, x, 3, flat, &s->planes);
}

static bool grid_sample(anfi_layer *l) {
  anfi_operand x, grid, sum;
  sampler s;
  if (!anfi_layer_tensor(l, "input", 0, &x) || !anfi_layer_tensor(l, "grid", 1, &grid) ||
      !read_words(l, &s) || !read_image(l, &s, &x, &grid))
    return false;
  for (size_t d = 0; d < s.dims; d++) {
    anfi_operand at = anfi_operand_number(l->t, (int64_t)(s.dims - 1 - d)), c; // x is the last dim
    const int64_t dims[] = {s.n, 1, s.samples};
    if (!anfi_layer_take(l, &grid, &at, -1, &c) || !anfi_layer_reshape(l, &c, 3, dims, &c) ||
        !make_taps(l, &s, d, c))
      return false;
  }
  int64_t dims[5] = {s.n, s.channels};
  for (size_t d = 0; d < s.dims; d++) dims[d + 2] = grid.type->dims[d + 1];
  l->nresult = 1;
  return all_samples(l, &s, &sum) && anfi_layer_reshape(l, &sum, s.dims + 2, dims, &l->out[0]);
}

/* ---- grids ---- */

/* Coordinate i of n between -1 and 1: of the corners, or of the middles of elements. */
static double coordinate(int64_t i, int64_t n, bool corners) {
  if (n == 1) return 0;
  double v = -1 + 2 * (double)i / (double)(n - 1);
  return corners ? v : v * (double)(n - 1) / (double)n;
}

static bool affine_grid(anfi_layer *l) {
  anfi_operand theta, base, y;
  int64_t size[ANF_MAX_RANK], samples = 1, dims[5];
  size_t n;
  bool corners;
  if (!anfi_layer_tensor(l, "theta", 0, &theta) || !anfi_layer_ints(l, "size", &n, size) ||
      !anfi_layer_bool(l, "align_corners", false, &corners))
    return false;
  size_t d = n - 2;
  if ((n != 4 && n != 5) || theta.type->n != 3 || theta.type->dims[1] != (int64_t)d)
    return anfi_layer_error(l, ANF_E1055, "theta does not fit size");
  for (size_t i = 0; i < d; i++) {
    if (size[i + 2] < 1 || size[i + 2] > (1 << 24) / samples)
      return anfi_layer_error(l, ANF_E1055, "size is out of range");
    samples *= size[i + 2];
  }
  double *v = ANFI_NEW_N(l->t->arena, double, (size_t)samples *(d + 1));
  for (int64_t i = 0; i < samples; i++) {
    int64_t rest = i;
    for (size_t k = 0; k < d; rest /= size[n - 1 - k], k++)
      v[i * (int64_t)(d + 1) + (int64_t)k] =
          coordinate(rest % size[n - 1 - k], size[n - 1 - k], corners);
    v[i * (int64_t)(d + 1) + (int64_t)d] = 1;
  }
  base = anfi_layer_constant(l, (anf_dtype)theta.type->dtype, 2,
                             (const int64_t[]){samples, (int64_t)d + 1}, v);
  anf_attr tb = {"tb", anfi_layer_v_bool(l, true), NULL};
  dims[0] = size[0];
  for (size_t i = 0; i < d; i++) dims[i + 1] = size[i + 2];
  dims[d + 1] = (int64_t)d;
  l->nresult = 1;
  return anfi_layer_op(l, ANF_OP_MatMul, 2, (const anfi_operand[]){base, theta}, 1, &tb, &y) &&
         anfi_layer_reshape(l, &y, d + 2, dims, &l->out[0]);
}

const anfi_layer_row anfi_layers_sample[] = {
    ANFI_LAYER("F.grid_sample", grid_sample, TakeAlongAxis),
    ANFI_LAYER("F.affine_grid", affine_grid, MatMul),
    {NULL, NULL, ANF_OP_NONE},
};
