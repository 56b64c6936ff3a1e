// SPDX-License-Identifier: Apache-2.0
#include "tensor_program.h"

#include "generate.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANK = TENSOR_RANK, NAMES = 64, INPUTS = 3, MOST = 60000 };
typedef tensor_shape shape;

typedef struct {
  char *at;
  size_t len, cap;
} text;

typedef struct {
  uint64_t state;
  text body;
  shape name[NAMES]; // of p0, p1, p2, v3, v4, ..
  int n, params;
  tensor_param param[TENSOR_PARAMS]; // p0, p1, p2 and the weights of layers
} gen;

static uint64_t below(gen *g, uint64_t n) { return generate_next(&g->state) % n; }

static void put_list(text *t, const char *fmt, va_list ap) {
  va_list measured;
  va_copy(measured, ap);
  size_t n = (size_t)vsnprintf(NULL, 0, fmt, measured) + 1;
  va_end(measured);
  if (t->cap - t->len < n && !(t->at = realloc(t->at, t->cap = 2 * t->cap + n))) abort();
  t->len += (size_t)vsnprintf(t->at + t->len, n, fmt, ap);
}

static void write_text(text *t, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  put_list(t, fmt, ap);
  va_end(ap);
}

static void put(gen *g, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  put_list(&g->body, fmt, ap);
  va_end(ap);
}

int64_t tensor_elements(const shape *s) {
  int64_t n = 1;
  for (int k = 0; k < s->rank; k++) n *= s->dim[k];
  return n;
}

static void put_name(gen *g, int i) { put(g, "%c%d", i < INPUTS ? 'p' : 'v', i); }

/* Of a mean over the dim. */
static double part_of(int64_t dim) { return 1.0 / (double)(dim ? dim : 1); }

/* `(d, d,)` of ints */
static void put_ints(gen *g, int n, const int64_t *v) {
  put(g, "(");
  for (int k = 0; k < n; k++) put(g, "%lld,%s", (long long)v[k], k + 1 < n ? " " : "");
  put(g, ")");
}

static void begin(gen *g) { put(g, "  v%d = ", g->n); }

static void end(gen *g, const shape *s) {
  put(g, "\n");
  g->name[g->n++] = *s;
}

/* A recent name more often than an old one. */
static int pick(gen *g) {
  int from = g->n > 5 && below(g, 3) ? g->n - 5 : 0;
  return from + (int)below(g, (uint64_t)(g->n - from));
}

static int pick_of_rank(gen *g, int least) {
  for (int tries = 0; tries < 20; tries++) {
    int i = pick(g);
    if (g->name[i].rank >= least) return i;
  }
  return -1;
}

static void put_unary(gen *g, int i) {
  static const char *const form[] = {"Tanh(%s)",
                                     "Sigmoid(%s)",
                                     "Gelu(%s)",
                                     "Relu(%s)",
                                     "Sin(%s)",
                                     "Cos(%s)",
                                     "Erf(%s)",
                                     "-%s",
                                     "Abs(%s)",
                                     "Exp(Minimum(%s, 1.0))",
                                     "Sqrt(Abs(%s) + 0.5)",
                                     "Log(Abs(%s) + 0.5)",
                                     "Square(%s)",
                                     "1.5 / (Abs(%s) + 1.0)",
                                     "Softplus(%s)",
                                     "Log1p(Abs(%s))",
                                     "%s * 3.0",
                                     "%s + 0.25",
                                     "Where(%s > 0.0, %s, 0.25 * %s)"};
  for (const char *f = form[below(g, sizeof form / sizeof *form)]; *f; f++)
    if (f[0] == '%' && f[1] == 's') put_name(g, i), f++;
    else put(g, "%c", *f);
}

static void unary(gen *g) {
  int i = pick(g);
  begin(g);
  put_unary(g, i);
  end(g, &g->name[i]);
}

/* Several readers of one name. */
static void siblings(gen *g) {
  int i = pick(g), n = 2 + (int)below(g, 2);
  for (int k = 0; k < n && g->n < NAMES; k++) {
    begin(g);
    put_unary(g, i);
    end(g, &g->name[i]);
  }
}

static bool broadcast(const shape *x, const shape *y, shape *r) {
  *r = (shape){.rank = x->rank > y->rank ? x->rank : y->rank};
  for (int k = 0; k < r->rank; k++) {
    int i = k - (r->rank - x->rank), j = k - (r->rank - y->rank);
    int64_t p = i < 0 ? 1 : x->dim[i], q = j < 0 ? 1 : y->dim[j];
    if (p != q && p != 1 && q != 1) return false;
    r->dim[k] = p == 1 ? q : p;
  }
  return tensor_elements(r) <= MOST;
}

static void binary(gen *g) {
  static const char *const op[] = {"+", "-", "*"};
  shape r;
  for (int tries = 0; tries < 30; tries++) {
    int i = pick(g), j = pick(g);
    if (!broadcast(&g->name[i], &g->name[j], &r)) continue;
    begin(g);
    uint64_t which = below(g, 5);
    if (which > 2) put(g, which == 3 ? "Maximum(" : "Minimum(");
    put_name(g, i);
    put(g, which > 2 ? ", " : " %s ", which > 2 ? "" : op[which]);
    put_name(g, j);
    if (which > 2) put(g, ")");
    end(g, &r);
    return;
  }
}

static void reduce(gen *g) {
  static const char *const op[] = {"Mean", "Max", "Min", "Sum", "LogSumExp", "Var"};
  int i = pick_of_rank(g, 1);
  if (i < 0) return;
  const shape *x = &g->name[i];
  int axis = (int)below(g, (uint64_t)x->rank);
  bool keep = below(g, 2), sum = below(g, 6) == 3;
  shape r = {0};
  for (int k = 0; k < x->rank; k++)
    if (k != axis) r.dim[r.rank++] = x->dim[k];
    else if (keep) r.dim[r.rank++] = 1;
  begin(g);
  put(g, "%s(", op[sum ? 3 : below(g, 6)]);
  put_name(g, i);
  put(g, ", axis=%d, keepdims=%s)", axis, keep ? "true" : "false");
  if (sum) put(g, " * %g", part_of(x->dim[axis]));
  end(g, &r);
}

static void rows(gen *g) {
  static const char *const op[] = {"Softmax", "LogSoftmax", "LayerNorm", "CumSum"};
  int i = pick_of_rank(g, 1);
  if (i < 0) return;
  int last = g->name[i].rank - 1, axis = below(g, 4) ? last : (int)below(g, (uint64_t)last + 1);
  uint64_t which = below(g, 4);
  begin(g);
  put(g, "%s(", op[which]);
  put_name(g, i);
  put(g, ", axis=%d)", axis);
  if (which == 3) put(g, " * %g", part_of(g->name[i].dim[axis]));
  end(g, &g->name[i]);
}

static void transpose(gen *g) {
  int i = pick_of_rank(g, 2);
  if (i < 0) return;
  shape r = g->name[i];
  int64_t axes[RANK] = {0, 1, 2, 3};
  for (int k = r.rank - 1; k > 0; k--) {
    int j = (int)below(g, (uint64_t)k + 1);
    int64_t t = axes[k];
    axes[k] = axes[j];
    axes[j] = t;
  }
  for (int k = 0; k < r.rank; k++) r.dim[k] = g->name[i].dim[axes[k]];
  begin(g);
  put(g, "Transpose(");
  put_name(g, i);
  put(g, ", axes=");
  put_ints(g, r.rank, axes);
  put(g, ")");
  end(g, &r);
}

/* Joins two dims, or splits one by two or three. */
static void reshape(gen *g) {
  int i = pick_of_rank(g, 1);
  if (i < 0) return;
  shape x = g->name[i], r = {0};
  int at = (int)below(g, (uint64_t)x.rank);
  bool join = at + 1 < x.rank && below(g, 2);
  int64_t by = x.dim[at] == 0 ? 1 : x.dim[at] % 3 == 0 ? 3 : x.dim[at] % 2 == 0 ? 2 : 1;
  if (!join && x.rank == RANK) return;
  for (int k = 0; k < x.rank; k++) {
    if (join && k == at + 1) r.dim[r.rank - 1] *= x.dim[k];
    else if (!join && k == at) r.dim[r.rank++] = by, r.dim[r.rank++] = x.dim[k] / by;
    else r.dim[r.rank++] = x.dim[k];
  }
  begin(g);
  put(g, "Reshape(");
  put_name(g, i);
  put(g, ", shape=");
  put_ints(g, r.rank, r.dim);
  put(g, ")");
  end(g, &r);
}

static void slice(gen *g) {
  int i = pick_of_rank(g, 1);
  if (i < 0) return;
  shape r = g->name[i];
  begin(g);
  put_name(g, i);
  put(g, "[");
  for (int k = 0; k < r.rank; k++) {
    int64_t n = r.dim[k], from = n ? (int64_t)below(g, (uint64_t)n) : 0,
            step = 1 + (int64_t)below(g, 2);
    uint64_t way = below(g, 4);
    if (way == 0) put(g, "%s::-1", k ? ", " : "");
    else if (way == 1) {
      put(g, "%s%lld::%lld", k ? ", " : "", (long long)from, (long long)step);
      r.dim[k] = (n - from + step - 1) / step;
    } else put(g, "%s:", k ? ", " : "");
  }
  put(g, "]");
  end(g, &r);
}

static void concat(gen *g) {
  int i = pick_of_rank(g, 1);
  if (i < 0) return;
  shape r = g->name[i];
  int axis = (int)below(g, (uint64_t)r.rank);
  if (2 * tensor_elements(&r) > MOST) return;
  r.dim[axis] *= 2;
  begin(g);
  put(g, "Concat(");
  put_name(g, i);
  put(g, ", Tanh(");
  put_name(g, i);
  put(g, "), axis=%d)", axis);
  end(g, &r);
}

static void gather(gen *g) {
  int i = pick_of_rank(g, 1);
  if (i < 0) return;
  shape r = g->name[i];
  int axis = (int)below(g, (uint64_t)r.rank);
  int64_t at[3];
  if (!r.dim[axis]) return;
  for (int k = 0; k < 3; k++) at[k] = (int64_t)below(g, (uint64_t)r.dim[axis]);
  r.dim[axis] = 3;
  begin(g);
  put(g, "Take(");
  put_name(g, i);
  put(g, ", [%lld, %lld, %lld], axis=%d)", (long long)at[0], (long long)at[1], (long long)at[2],
      axis);
  end(g, &r);
}

/* x @ x transposed, or x @ y, scaled. */
static void product(gen *g) {
  int i = pick_of_rank(g, 2), j = pick_of_rank(g, 2);
  if (i < 0 || j < 0) return;
  shape x = g->name[i], y = g->name[j];
  if (x.rank != 2 || y.rank != 2 || x.dim[1] != y.dim[0]) y = x, j = i;
  if (x.rank != 2) return;
  bool own = i == j && x.dim[0] != x.dim[1];
  shape r = {2, {x.dim[0], own ? x.dim[0] : y.dim[1]}};
  if (tensor_elements(&r) > MOST) return;
  begin(g);
  put(g, "(");
  put_name(g, i);
  put(g, " @ ");
  put_name(g, j);
  put(g, "%s) * %g", own ? ".T" : "", part_of(x.dim[1]));
  end(g, &r);
}

/* Softmax(x xT) x, of x as it is or in a view: products of batches that read one another. */
static void batches(gen *g) {
  static const char *const op[] = {"Softmax", "Relu", "Tanh"};
  int i = pick_of_rank(g, 3);
  if (i < 0) return;
  shape x = g->name[i], s = x;
  s.dim[s.rank - 1] = s.dim[s.rank - 2];
  if (tensor_elements(&s) > MOST) return;
  begin(g);
  put(g, "%s((", op[below(g, 3)]);
  put_name(g, i);
  put(g, " @ SwapAxes(");
  put_name(g, i);
  put(g, ", -1, -2)) * %g)", part_of(x.dim[x.rank - 1]));
  end(g, &s);
  int m = g->n - 1;
  begin(g);
  put(g, "(");
  put_name(g, m);
  bool flipped = below(g, 2);
  put(g, flipped ? " @ Flip(" : " @ ");
  put_name(g, i);
  put(g, "%s) * %g", flipped ? ", axis=-1)" : "", part_of(x.dim[x.rank - 2]));
  end(g, &x);
}

static const int64_t dims[] = {1, 2, 3, 4, 5, 7, 8, 16, 17, 32, 33, 64, 70, 100};

static int64_t any_dim(gen *g) { return dims[below(g, sizeof dims / sizeof *dims)]; }

static int new_param(gen *g, shape s, double scale) {
  g->param[g->params] = (tensor_param){s, scale};
  return g->params++;
}

/* Weights of `in` rows, or columns if `transposed`: some that are there, or new ones. -1: no room. */
static int weights(gen *g, int64_t in, bool transposed) {
  for (int i = INPUTS; i < g->params; i++) {
    const shape *s = &g->param[i].shape;
    if (s->rank == 2 && s->dim[transposed] == in && below(g, 2)) return i;
  }
  if (g->params + 2 > TENSOR_PARAMS) return -1;
  int64_t out = any_dim(g);
  shape s = {2, {transposed ? out : in, transposed ? in : out}};
  return new_param(g, s, 1 / sqrt((double)(in ? in : 1)));
}

/* A bias of shape [out], [1, out], [1] or that of the result, if there is room for one more parameter. */
static int bias(gen *g, const shape *r) {
  int64_t out = r->dim[r->rank - 1];
  const shape s[] = {{1, {out}}, {1, {out}}, {2, {1, out}}, {1, {1}}, *r};
  return g->params < TENSOR_PARAMS ? new_param(g, s[below(g, 5)], 1) : -1;
}

/* act(x @ w + b), what is before the activation with a name or without; Linear. */
static void layer(gen *g) {
  int i = pick_of_rank(g, 2);
  if (i < 0 || g->name[i].rank > 3 || g->n + 2 > NAMES) return;
  shape r = g->name[i];
  bool turned = below(g, 3) == 0;
  int w = weights(g, r.dim[r.rank - 1], turned);
  if (w < 0) return;
  r.dim[r.rank - 1] = g->param[w].shape.dim[!turned];
  if (tensor_elements(&r) > MOST) return;
  bool linear = turned && below(g, 2);
  int b = linear || below(g, 4) == 0 ? -1 : bias(g, &r);
  begin(g);
  put(g, linear ? "Linear(" : "");
  put_name(g, i);
  if (linear) put(g, ", p%d)", w);
  else put(g, " @ p%d%s", w, turned ? ".T" : "");
  if (b >= 0) put(g, " + p%d", b);
  end(g, &r);
  if (below(g, 3) == 0) return;
  begin(g);
  put_unary(g, g->n - 1);
  end(g, &r);
}

static void statement(gen *g) {
  static void (*const kinds[])(gen *) = {unary,  unary,  siblings, binary,    binary,  binary,
                                         reduce, reduce, rows,     transpose, reshape, slice,
                                         concat, gather, product,  layer,     layer};
  kinds[below(g, sizeof kinds / sizeof *kinds)](g);
}

/* `large`: loops over them are worth threads. */
static void make_inputs(gen *g, bool large, bool empty) {
  shape *s = g->name;
  s[0].rank = 1 + (int)below(g, 3);
  for (int k = 0; k < s[0].rank; k++) s[0].dim[k] = any_dim(g);
  while (tensor_elements(&s[0]) > 10000) s[0].rank--;
  if (large) s[0] = (shape){2, {200, 150 + (int64_t)below(g, 60)}};
  if (empty) s[0].dim[below(g, (uint64_t)s[0].rank)] = 0;
  s[1] = s[2] = s[0];
  if (below(g, 2)) s[1].dim[below(g, (uint64_t)s[1].rank)] = 1;
  if (s[2].rank > 1 && below(g, 2)) { // without the first dim
    s[2].rank--;
    memmove(s[2].dim, s[2].dim + 1, 3 * sizeof(int64_t));
  }
  for (g->n = 0; g->n < INPUTS; g->n++) new_param(g, s[g->n], 1);
}

/* ---- results ---- */

/* Names at the end; sometimes others, which the program reads too, or one twice. */
static int result(gen *g, int k) {
  if (below(g, 3) == 0) return pick(g);
  return g->n - 1 - k > 0 ? g->n - 1 - k : 0;
}

static void put_values(gen *g, int n) {
  bool nested = below(g, 4) == 0;
  put(g, "(");
  for (int k = 0; k < n; k++) {
    put(g, nested ? "(" : "");
    put_name(g, result(g, k));
    put(g, nested ? ", 1.0), " : ", ");
  }
  put(g, ")");
}

static void put_loss(gen *g, int n) {
  static const char *const of[] = {"Mean(", "Mean(", "Sum(Tanh(", "Sum("};
  for (int k = 0; k < n; k++) {
    uint64_t way = below(g, 4);
    int i = result(g, k);
    put(g, "%s%s", k ? " + " : "", of[way]);
    put_name(g, i);
    put(g, way == 2 ? "))" : ")");
    if (way > 1) put(g, " * %g", part_of(tensor_elements(&g->name[i])));
  }
}

static void put_params(text *t, const gen *g, const char *dtype) {
  for (int i = 0; i < g->params; i++) {
    const shape *s = &g->param[i].shape;
    write_text(t, "%sp%d: %s[", i ? ", " : "", i, dtype);
    for (int k = 0; k < s->rank; k++) write_text(t, "%s%lld", k ? ", " : "", (long long)s->dim[k]);
    write_text(t, "]");
  }
}

static void put_each(text *t, const gen *g, const char *prefix) {
  for (int i = 0; i < g->params; i++) write_text(t, "%s%d, ", prefix, i);
}

/* def main(p0, ..) { value_and_grad(body, wrt=(0, ..))(p0, ..) } */
static void put_gradient(text *t, const gen *g, bool aux) {
  write_text(t, "def main(");
  put_each(t, g, "p");
  write_text(t, ") { value_and_grad(body, wrt=(");
  put_each(t, g, "");
  write_text(t, ")%s)(", aux ? ", has_aux=true" : "");
  put_each(t, g, "p");
  write_text(t, ") }\n");
}

/* Derivatives of bf16 jump where its few bits cross a kink: those are of values alone. */
tensor_program generate_tensors(uint64_t seed, size_t size) {
  static const anf_dtype types[] = {ANF_F32, ANF_F32, ANF_F64, ANF_BF16};
  static const char *const names[] = {"f32", "f32", "f64", "bf16"};
  gen g = {.state = seed};
  text t = {0};
  uint64_t type = below(&g, 4);
  bool grad = seed & 2 && type != 3, aux = grad && below(&g, 3) == 0;
  tensor_program r = {.dtype = types[type], .may_fail = seed % 11 == 0};
  make_inputs(&g, seed % 7 == 0, r.may_fail);
  for (size_t i = 0; i < size && g.n < NAMES; i++) statement(&g);
  uint64_t state = g.state; // values and losses are those of the program without
  if (seed % 3 != 2 && g.n + 2 < NAMES) batches(&g);
  g.state = state;
  int n = 1 + (int)below(&g, 5);
  put(&g, "  ");
  put(&g, aux ? "(" : "");
  if (grad) put_loss(&g, n);
  put(&g, aux ? ", " : "");
  if (!grad || aux) put_values(&g, n);
  put(&g, aux ? ")\n" : "\n");
  write_text(&t, "def %s(", grad ? "body" : "main");
  put_params(&t, &g, names[type]);
  write_text(&t, ") {\n%s}\n", g.body.at);
  if (grad) put_gradient(&t, &g, aux);
  free(g.body.at);
  r.text = t.at;
  r.params = g.params;
  memcpy(r.param, g.param, sizeof g.param);
  return r;
}
