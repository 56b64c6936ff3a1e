// SPDX-License-Identifier: Apache-2.0
/* Losses. Each is a loss of every element, or of every row, which is then reduced: to the mean, the
 * sum, or not at all. PyTorch's own operators have the reduction as a number. */
#include "frontend/pnnx/pnnx.h"

static bool op1(const anfi_layer *l, anfi_opcode op, const anfi_operand *a, anfi_operand *out) {
  return anfi_layer_op1(l, op, a, out);
}
static bool op2(const anfi_layer *l, anfi_opcode op, const anfi_operand *a, const anfi_operand *b,
                anfi_operand *out) {
  return anfi_layer_op2(l, op, a, b, out);
}

typedef enum { NONE, MEAN, SUM } reduction;

static bool read_reduction(const anfi_layer *l, reduction *out) {
  static const char *const words[] = {"none", "mean", "sum"};
  int64_t v = MEAN;
  const char *w = anfi_layer_text(l, "reduction");
  *out = MEAN;
  for (int i = 0; w && i < 3; i++)
    if (strcmp(words[i], w) == 0) return *out = (reduction)i, true;
  if (!anfi_layer_int(l, "reduction", MEAN, &v)) return false;
  if (v < NONE || v > SUM) return anfi_layer_error(l, ANF_E1055, "reduction is out of range");
  return *out = (reduction)v, true;
}

/* The mean is of the weights' sum, if there are weights. */
static bool reduce(anfi_layer *l, reduction how, anfi_operand x, const anfi_operand *weight) {
  anfi_operand sum;
  l->nresult = 1;
  if (how == NONE) return l->out[0] = x, true;
  if (how == SUM || !weight) return op1(l, how == SUM ? ANF_OP_Sum : ANF_OP_Mean, &x, &l->out[0]);
  return op1(l, ANF_OP_Sum, &x, &x) && op1(l, ANF_OP_Sum, weight, &sum) &&
         op2(l, ANF_OP_Div, &x, &sum, &l->out[0]);
}

/* ---- of classes ---- */

typedef struct {
  anfi_operand logp, target, weight; // weight: one a class, or None
  double smoothing;
  int64_t ignored;
  size_t axis; // of the classes
} classes;

/* Classes as dims of a tensor of this rank: [c] to [c, 1, ..]. */
static bool along_classes(const anfi_layer *l, const classes *c, anfi_operand *x) {
  int64_t dims[ANF_MAX_RANK];
  size_t n = c->logp.type->n - c->axis;
  for (size_t i = 0; i < n; i++) dims[i] = i ? 1 : -1;
  return anfi_layer_reshape(l, x, n, dims, x);
}

/* -sum over classes of p log p', p being given or even. */
static bool expected(const anfi_layer *l, const classes *c, const anfi_operand *p,
                     anfi_operand *out) {
  anfi_operand w = c->weight, x = c->logp;
  if (w.kind != ANFI_OPERAND_NONE && (!along_classes(l, c, &w) || !op2(l, ANF_OP_Mul, &x, &w, &x)))
    return false;
  return (!p || op2(l, ANF_OP_Mul, &x, p, &x)) &&
         anfi_layer_along(l, ANF_OP_Sum, 1, &x, (int64_t)c->axis, out) &&
         op1(l, ANF_OP_Neg, out, out);
}

/* Adds the share that label smoothing gives to all classes alike. */
static bool smooth(const anfi_layer *l, const classes *c, const anfi_operand *counted,
                   anfi_operand *loss) {
  anfi_operand even, keep = anfi_layer_number(l, 1 - c->smoothing), share;
  int64_t n = c->logp.type->dims[c->axis];
  if (c->smoothing == 0) return true;
  if (n < 1) return anfi_layer_error(l, ANF_E1053, "a number of classes that is not known");
  share = anfi_layer_number(l, c->smoothing / (double)n);
  return expected(l, c, NULL, &even) && op2(l, ANF_OP_Mul, &even, &share, &even) &&
         (!counted || op2(l, ANF_OP_Mul, &even, counted, &even)) &&
         op2(l, ANF_OP_Mul, loss, &keep, loss) && op2(l, ANF_OP_Add, loss, &even, loss);
}

/* Targets are numbers of classes; those that are ignored have no weight. */
static bool of_indices(anfi_layer *l, const classes *c, reduction how) {
  anfi_operand t = c->target, seen, counted, weight, loss;
  anfi_operand ignored = anfi_operand_number(l->t, c->ignored), zero = anfi_operand_number(l->t, 0);
  anf_dtype d = (anf_dtype)c->logp.type->dtype;
  if (!op2(l, ANF_OP_NotEqual, &t, &ignored, &seen) ||
      !anfi_layer_op(l, ANF_OP_Where, 3, (const anfi_operand[]){seen, t, zero}, 0, NULL, &t) ||
      !anfi_torch_cast(l->t, &seen, d, &counted))
    return false;
  weight = counted;
  if (c->weight.kind != ANFI_OPERAND_NONE && (!anfi_layer_take(l, &c->weight, &t, 0, &weight) ||
                                              !op2(l, ANF_OP_Mul, &weight, &counted, &weight)))
    return false;
  if (!anfi_layer_along(l, ANF_OP_ExpandDims, 1, &t, (int64_t)c->axis, &t) ||
      !anfi_layer_along(l, ANF_OP_TakeAlongAxis, 2, (const anfi_operand[]){c->logp, t},
                        (int64_t)c->axis, &loss) ||
      !anfi_layer_along(l, ANF_OP_Squeeze, 1, &loss, (int64_t)c->axis, &loss) ||
      !op1(l, ANF_OP_Neg, &loss, &loss) || !op2(l, ANF_OP_Mul, &loss, &weight, &loss))
    return false;
  return smooth(l, c, &counted, &loss) && reduce(l, how, loss, &weight);
}

/* Targets are probabilities; the mean is of the rows. */
static bool of_probabilities(anfi_layer *l, const classes *c, reduction how) {
  anfi_operand loss;
  return expected(l, c, &c->target, &loss) && smooth(l, c, NULL, &loss) &&
         reduce(l, how, loss, NULL);
}

static bool cross_entropy(anfi_layer *l) {
  classes c;
  reduction how;
  bool logs = strstr(l->op->type, "nll") != NULL;
  if (!anfi_layer_tensor(l, "input", 0, &c.logp) || !anfi_layer_tensor(l, "target", 1, &c.target) ||
      !anfi_layer_weight_or_input(l, "weight", 2, &c.weight) || !read_reduction(l, &how) ||
      !anfi_layer_int(l, "ignore_index", -100, &c.ignored) ||
      !anfi_layer_real(l, "label_smoothing", 0, &c.smoothing))
    return false;
  if (!c.logp.type->n) return anfi_layer_error(l, ANF_E1055, "its input must have a dim");
  c.axis = c.logp.type->n > 1;
  if (!logs && !anfi_layer_along(l, ANF_OP_LogSoftmax, 1, &c.logp, (int64_t)c.axis, &c.logp))
    return false;
  if (anfi_dtype_is_int((anf_dtype)c.target.type->dtype)) return of_indices(l, &c, how);
  return of_probabilities(l, &c, how);
}

/* ---- of elements ---- */

static bool square_or_distance(anfi_layer *l) {
  anfi_operand x, y, d;
  reduction how;
  return anfi_layer_tensor(l, "input", 0, &x) && anfi_layer_tensor(l, "target", 1, &y) &&
         read_reduction(l, &how) && op2(l, ANF_OP_Sub, &x, &y, &d) && op1(l, l->code, &d, &d) &&
         reduce(l, how, d, NULL);
}

/* Below beta d^2 / (2 beta), above it |d| - beta / 2; Huber's is beta times that. */
static bool smooth_distance(anfi_layer *l) {
  anfi_operand in[3], d, x, y;
  reduction how;
  double beta;
  bool huber = strstr(l->op->type, "huber") != NULL;
  if (!anfi_layer_tensor(l, "input", 0, &x) || !anfi_layer_tensor(l, "target", 1, &y) ||
      !read_reduction(l, &how) || !anfi_layer_real(l, huber ? "delta" : "beta", 1, &beta) ||
      !op2(l, ANF_OP_Sub, &x, &y, &d) || !op1(l, ANF_OP_Abs, &d, &d))
    return false;
  if (beta < 0) return anfi_layer_error(l, ANF_E1055, "beta must not be negative");
  if (beta == 0) return reduce(l, how, d, NULL);
  anfi_operand limit = anfi_layer_number(l, beta), half = anfi_layer_number(l, beta / 2),
               scale = anfi_layer_number(l, 0.5 / beta);
  if (!op2(l, ANF_OP_Less, &d, &limit, &in[0]) || !op1(l, ANF_OP_Square, &d, &in[1]) ||
      !op2(l, ANF_OP_Mul, &in[1], &scale, &in[1]) || !op2(l, ANF_OP_Sub, &d, &half, &in[2]) ||
      !anfi_layer_op(l, ANF_OP_Where, 3, in, 0, NULL, &d) ||
      (huber && !op2(l, ANF_OP_Mul, &d, &limit, &d)))
    return false;
  return reduce(l, how, d, NULL);
}

/* -y log p - (1 - y) log(1 - p), logarithms not below -100. */
static bool of_probability(const anfi_layer *l, const anfi_operand *p, const anfi_operand *y,
                           anfi_operand *out) {
  anfi_operand one = anfi_layer_number(l, 1), least = anfi_layer_number(l, -100), a, b, q;
  return op1(l, ANF_OP_Log, p, &a) && op2(l, ANF_OP_Maximum, &a, &least, &a) &&
         op1(l, ANF_OP_Neg, p, &b) && op1(l, ANF_OP_Log1p, &b, &b) &&
         op2(l, ANF_OP_Maximum, &b, &least, &b) && op2(l, ANF_OP_Mul, &a, y, &a) &&
         op2(l, ANF_OP_Sub, &one, y, &q) && op2(l, ANF_OP_Mul, &b, &q, &b) &&
         op2(l, ANF_OP_Add, &a, &b, out) && op1(l, ANF_OP_Neg, out, out);
}

/* (1 - y) x - (1 + (w - 1) y) log sigmoid(x), w being the weight of positives. */
static bool of_logit(const anfi_layer *l, const anfi_operand *x, const anfi_operand *y,
                     const anfi_operand *w, anfi_operand *out) {
  anfi_operand one = anfi_layer_number(l, 1), a, b, scale;
  if (!op2(l, ANF_OP_Sub, &one, y, &a) || !op2(l, ANF_OP_Mul, &a, x, &a) ||
      !op1(l, ANF_OP_LogSigmoid, x, &b))
    return false;
  if (w->kind != ANFI_OPERAND_NONE &&
      (!op2(l, ANF_OP_Sub, w, &one, &scale) || !op2(l, ANF_OP_Mul, &scale, y, &scale) ||
       !op2(l, ANF_OP_Add, &scale, &one, &scale) || !op2(l, ANF_OP_Mul, &b, &scale, &b)))
    return false;
  return op2(l, ANF_OP_Sub, &a, &b, out);
}

static bool binary(anfi_layer *l) {
  anfi_operand x, y, w, positive, loss;
  reduction how;
  bool logits = strstr(l->op->type, "logits") != NULL;
  if (!anfi_layer_tensor(l, "input", 0, &x) || !anfi_layer_tensor(l, "target", 1, &y) ||
      !anfi_layer_weight_or_input(l, "weight", 2, &w) ||
      !anfi_layer_weight_or_input(l, "pos_weight", 3, &positive) || !read_reduction(l, &how))
    return false;
  if (!(logits ? of_logit(l, &x, &y, &positive, &loss) : of_probability(l, &x, &y, &loss)))
    return false;
  if (w.kind != ANFI_OPERAND_NONE && !op2(l, ANF_OP_Mul, &loss, &w, &loss)) return false;
  return reduce(l, how, loss, NULL);
}

const anfi_layer_row anfi_layers_loss[] = {
    ANFI_LAYER("F.cross_entropy", cross_entropy, LogSoftmax),
    ANFI_LAYER("F.nll_loss", cross_entropy, TakeAlongAxis),
    ANFI_LAYER("F.mse_loss", square_or_distance, Square),
    ANFI_LAYER("F.l1_loss", square_or_distance, Abs),
    ANFI_LAYER("F.smooth_l1_loss", smooth_distance, Abs),
    ANFI_LAYER("F.huber_loss", smooth_distance, Abs),
    ANFI_LAYER("F.binary_cross_entropy", binary, Log),
    ANFI_LAYER("F.binary_cross_entropy_with_logits", binary, LogSigmoid),
    {NULL, NULL, ANF_OP_NONE},
};
