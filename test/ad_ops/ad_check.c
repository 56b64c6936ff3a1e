// SPDX-License-Identifier: Apache-2.0
/* Derivatives of every op of the table against finite differences: ad_check [OP...], prints TAP.
 *
 * Cases are those of `.sample`, in f64 and c128. For each: the gradient of <u, y>, element by
 * element, against central differences; <u, J v> = <J'u, v>; J v against the complex step where the
 * op takes complex numbers and is analytic; the derivative of the gradient, swept backwards over
 * the nodes that the formulas built, against differences of the gradient; all again in the sample's
 * own types, roughly. An op that varies with a float input and has no derivative fails. */
#include "autodiff/derive/derive.h"
#include "test/ad_ops/sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_NODES = 4000, MAX_PLACES = 16 };

/* Where an op is smooth, when its samples do not say so, and what to add to diagonals. */
static const struct {
  anfi_opcode op;
  int arg; // -1: all
  double lo, hi, diagonal;
} domains[] = {
    {ANF_OP_Acos, -1, -0.9, 0.9, 0},
    {ANF_OP_Asin, -1, -0.9, 0.9, 0},
    {ANF_OP_Atanh, -1, -0.9, 0.9, 0},
    {ANF_OP_Acosh, -1, 1.2, 4, 0},
    {ANF_OP_Log, -1, 0.3, 3, 0},
    {ANF_OP_Log2, -1, 0.3, 3, 0},
    {ANF_OP_Log10, -1, 0.3, 3, 0},
    {ANF_OP_Log1p, -1, -0.6, 3, 0},
    {ANF_OP_Sqrt, -1, 0.3, 3, 0},
    {ANF_OP_Rsqrt, -1, 0.3, 3, 0},
    {ANF_OP_Power, 0, 0.3, 3, 0},
    {ANF_OP_Lgamma, -1, 0.4, 4, 0},
    {ANF_OP_Digamma, -1, 0.4, 4, 0},
    {ANF_OP_Tan, -1, -1.2, 1.2, 0},
    {ANF_OP_Cholesky, 0, -1, 1, 4},
    {ANF_OP_Inverse, 0, -1, 1, 3},
    {ANF_OP_Det, 0, -1, 1, 2},
    {ANF_OP_Solve, 0, -1, 1, 3},
    {ANF_OP_TriangularSolve, 0, -1, 1, 2},
    {ANF_OP_BatchNorm, 4, 0.3, 3, 0},
    {ANF_OP_Cbrt, -1, 0.3, 3, 0},
    {ANF_OP_Exp, -1, -2, 2, 0},
    {ANF_OP_Sin, -1, -3, 3, 0},
    {ANF_OP_Cos, -1, -3, 3, 0},
    {ANF_OP_Dropout, 0, -2, 2, 0},
};

typedef struct world {
  anf_ctx *cx;
  anf_module *m;
  anfi_ad *ad;
  sample *c;
  const anf_type *type[MAX_ARGS];
  anf_value *in[MAX_ARGS];
  uint64_t seed;
  bool undefined; // the result is not finite, or a second derivative is one
  char problem[1000];
} world;

static bool problem(world *w, const char *fmt, ...) {
  va_list a;
  if (w->problem[0]) return false;
  va_start(a, fmt);
  int n = snprintf(w->problem, sizeof w->problem, "%s: ", w->c->text);
  vsnprintf(w->problem + n, sizeof w->problem - (size_t)n, fmt, a);
  va_end(a);
  return false;
}

static void release(void *v) { anf_value_release((anf_value *)v); }
static anf_value *later(anf_value *v) {
  if (v) anfi_defer(v->cx, ANFI_ALWAYS, release, v);
  return v;
}

static double uniform(world *w, double lo, double hi) {
  return lo + (hi - lo) * sample_random(&w->seed);
}

/* ---- values as arrays of doubles ---- */

static bool is_real(const anf_type *t) {
  return t->kind == ANF_TYPE_TENSOR && anfi_dtype_class((anf_dtype)t->dtype) == ANFI_CLASS_FLOAT;
}
static bool is_complex(const anf_type *t) {
  return t->kind == ANF_TYPE_TENSOR && anfi_dtype_class((anf_dtype)t->dtype) == ANFI_CLASS_COMPLEX;
}
static bool varies(const anf_type *t) { return is_real(t) || is_complex(t); }

static size_t count(const anf_type *t) { // of doubles
  size_t n = 0;
  if (!varies(t)) return 0;
  anfi_type_elements(t, &n);
  return is_complex(t) ? 2 * n : n;
}

static anf_value *random_like(world *w, const anf_type *t) {
  anf_value *v = later(anfi_value_new_tensor(w->cx, t));
  for (size_t i = 0; i < count(t); i++) anfi_set_f64(v, i, uniform(w, -1, 1));
  return v;
}

static anf_value *moved(world *w, const anf_value *x, const anf_value *t, double h) {
  anf_value *v = anfi_value_new_tensor(w->cx, x->type);
  for (size_t i = 0; i < count(x->type); i++)
    anfi_set_f64(v, i, anfi_get_f64(x, i) + h * anfi_get_f64(t, i));
  return v;
}

static double dot(const anf_value *a, const anf_value *b) {
  double s = 0;
  for (size_t i = 0; a && b && i < count(a->type); i++)
    s += anfi_get_f64(a, i) * anfi_get_f64(b, i);
  return s;
}

/* ---- graphs, computed node by node ---- */

typedef struct {
  anf_graph *g;
  anf_node *x[MAX_ARGS], *y, *u[MAX_PLACES];
  size_t nout;
  anf_node *out[MAX_ARGS + MAX_PLACES];
} program;

static size_t places(const anf_type *t) { return t->kind == ANF_TYPE_TUPLE ? t->n : 1; }
static const anf_type *place(const anf_type *t, size_t k) {
  return t->kind == ANF_TYPE_TUPLE ? t->items[k] : t;
}

/* The primal in a graph of its own. */
static bool make(world *w, program *p) {
  const anf_type *t[MAX_ARGS];
  const anfi_attrs *attrs;
  anf_value *attr[MAX_ATTRS];
  const anfi_schema *s = anfi_op_schema(w->cx, w->c->op);
  p->g = anfi_graph_new(w->m, s->name);
  for (size_t i = 0; i < w->c->n; i++) {
    t[i] = w->type[i];
    p->x[i] = anfi_param(p->g, s->in[0], t[i]);
  }
  if (!anfi_attrs_new(w->m, w->c->op, w->c->attr, anfi_nowhere(), &attrs)) return false;
  for (uint32_t k = 0; k < s->nattr; k++) attr[k] = anfi_attr_value(w->cx, w->c->op, attrs, k);
  anfi_infer q = {.cx = w->cx, .op = w->c->op, .n = w->c->n, .in = t, .attr = attr};
  if (!anfi_infer_op(&q)) return false;
  p->y = anfi_apply(p->g, w->c->op, attrs, w->c->n, p->x);
  p->y->type = q.out;
  return true;
}

static bool reverse(world *w, program *p) {
  bool want[MAX_ARGS];
  const anfi_str *name = anfi_op_schema(w->cx, w->c->op)->name;
  for (size_t k = 0; k < places(p->y->type); k++)
    p->u[k] = varies(place(p->y->type, k)) ? anfi_param(p->g, name, place(p->y->type, k)) : NULL;
  for (size_t i = 0; i < w->c->n; i++) want[i] = varies(w->type[i]);
  p->nout = w->c->n;
  if (!anfi_vjp_op(w->ad, p->g, p->y, p->x, p->y, places(p->y->type), p->u, want, p->out))
    return false;
  for (size_t i = 0; i < w->c->n; i++)
    if (p->out[i] && p->out[i]->type != w->type[i]) return problem(w, "type of gradient %zu", i);
  return true;
}

static bool forward(world *w, program *p) {
  anf_node *t[MAX_ARGS];
  const anfi_str *name = anfi_op_schema(w->cx, w->c->op)->name;
  for (size_t i = 0; i < w->c->n; i++)
    t[i] = varies(w->type[i]) ? anfi_param(p->g, name, w->type[i]) : NULL;
  p->nout = places(p->y->type);
  if (!anfi_jvp_op(w->ad, p->g, p->y, p->x, p->y, t, p->out)) return false;
  for (size_t k = 0; k < p->nout; k++)
    if (p->out[k] && p->out[k]->type != place(p->y->type, k))
      return problem(w, "type of tangent %zu", k);
  return true;
}

static bool compute_node(world *w, const anf_node *n, anf_value **val) {
  anf_value *in[MAX_ARGS + 8], *attr[MAX_ATTRS];
  const anfi_schema *s = anfi_op_schema(w->cx, (anfi_opcode)n->op);
  for (uint32_t i = 0; i < n->nin; i++) in[i] = val[n->in[i].def->id];
  for (uint32_t k = 0; k < s->nattr; k++)
    attr[k] = anfi_attr_value(w->cx, (anfi_opcode)n->op, n->u.attrs, k);
  anfi_eval q = {.cx = w->cx, .op = (anfi_opcode)n->op, .n = n->nin, .in = in, .attr = attr};
  if (!anfi_eval_op(&q)) return problem(w, "%s could not be computed", anfi_op_of(n)->name);
  val[n->id] = q.out;
  return true;
}

static bool is_ready(const anf_node *n, anf_value *const *val) {
  for (uint32_t i = 0; i < n->nin; i++)
    if (!val[n->in[i].def->id]) return false;
  return true;
}

/* Computes all nodes of the graph; val[] is by id. Most nodes follow their inputs, not all. */
static bool compute(world *w, anf_graph *g, anf_value *const *args, anf_value **val) {
  size_t size = w->m->nodes.n;
  for (uint32_t id = 0; id < size; id++) {
    const anf_node *n = w->m->nodes.at[id];
    val[id] = NULL;
    if (n && n->kind == ANFI_VALUE) val[id] = anf_value_retain(n->u.value);
    if (n && n->graph == g && n->kind == ANFI_PARAM) val[id] = anf_value_retain(args[n->u.index]);
  }
  for (bool more = true, waits; more;) {
    more = waits = false;
    for (uint32_t id = 0; id < size; id++) {
      const anf_node *n = w->m->nodes.at[id];
      if (!n || n->graph != g || n->kind != ANFI_APPLY || val[id]) continue;
      if (!is_ready(n, val)) waits = true;
      else if (!compute_node(w, n, val)) return false;
      else more = true;
    }
    if (!waits) break;
  }
  return true;
}

/* The values of `out`, each a new reference or NULL. */
static bool results(world *w, anf_graph *g, anf_value *const *args, size_t n, anf_node *const *out,
                    anf_value **to) {
  static anf_value *val[MAX_NODES];
  if (w->m->nodes.n > MAX_NODES) return problem(w, "too many nodes");
  if (!compute(w, g, args, val)) return false;
  for (size_t i = 0; i < n; i++) to[i] = out[i] ? anf_value_retain(val[out[i]->id]) : NULL;
  for (uint32_t id = 0; id < w->m->nodes.n; id++) anf_value_release(val[id]);
  return true;
}

static bool primal(world *w, program *p, anf_value *const *args, anf_value **y) {
  anf_value *v = NULL;
  if (!results(w, p->g, args, 1, &p->y, &v)) return false;
  for (size_t k = 0; k < places(p->y->type); k++)
    y[k] = anf_value_retain(p->y->type->kind == ANF_TYPE_TUPLE ? v->u.item[k] : v);
  anf_value_release(v);
  return true;
}

static void drop(size_t n, anf_value **v) {
  for (size_t i = 0; i < n; i++) anf_value_release(v[i]);
}

static bool near(double a, double b, double scale, double tolerance) {
  return a == b || fabs(a - b) <= tolerance * (1 + scale) || (isnan(a) && isnan(b));
}

/* ---- the checks ---- */

/* <u, y> at the inputs, with input `i` replaced. */
static bool loss(world *w, program *p, size_t i, anf_value *x, anf_value *const *u, double *out) {
  anf_value *args[MAX_ARGS], *y[MAX_PLACES];
  for (size_t k = 0; k < w->c->n; k++) args[k] = k == i ? x : w->in[k];
  if (!primal(w, p, args, y)) return false;
  *out = 0;
  for (size_t k = 0; k < places(p->y->type); k++) *out += u[k] ? dot(u[k], y[k]) : 0;
  drop(places(p->y->type), y);
  return true;
}

/* Casts to a narrow type round: their differences are coarse, and being linear, may be. */
static bool is_coarse(const world *w, const program *p) {
  return (w->c->op == ANF_OP_Cast || w->c->op == ANF_OP_CastLike) && p->y->type->dtype != ANF_F64 &&
         p->y->type->dtype != ANF_C128;
}

static bool is_empty(const world *w) {
  bool empty = false;
  for (size_t i = 0; i < w->c->n; i++) empty |= varies(w->type[i]) && !count(w->type[i]);
  return empty;
}

/* Steps whose derivative is that of the line through them: test/golden/grad/quantised.anf has its values. */
static bool is_straight_through(const world *w) { return w->c->op == ANF_OP_FakeQuantize; }

static bool check_elements(world *w, program *p, anf_value *const *u, anf_value *const *grad) {
  bool coarse = is_coarse(w, p);
  if (is_straight_through(w)) return true;
  for (size_t i = 0; i < w->c->n; i++) {
    size_t n = count(w->type[i]);
    for (size_t e = 0; e < n && e < 60; e++) {
      double h = coarse ? 0.25 : 1e-5, up, down, got = grad[i] ? anfi_get_f64(grad[i], e) : 0;
      anf_value *a = anfi_value_new_tensor(w->cx, w->type[i]);
      memcpy(a->data, w->in[i]->data, a->n * anf_dtype_bytes((anf_dtype)a->type->dtype));
      double at = anfi_get_f64(a, e);
      anfi_set_f64(a, e, at + h);
      bool good = loss(w, p, i, a, u, &up);
      anfi_set_f64(a, e, at - h);
      good = good && loss(w, p, i, a, u, &down);
      anf_value_release(a);
      if (!good) return false;
      double want = (up - down) / (2 * h);
      if (isnan(want)) continue; // of inf and NaN no difference tells
      if (!near(got, want, fabs(want) + fabs(up) * 1e-3, coarse ? 0.03 : 2e-6))
        return problem(w, "gradient of input %zu at %zu is %.9g, differences say %.9g", i, e, got,
                       want);
    }
  }
  return true;
}

/* J t by the op's own derivative; the sum of <u, J t> must be that of <J'u, t>. */
static bool check_forward(world *w, anf_value *const *u, anf_value *const *grad) {
  program p;
  anf_value *args[2 * MAX_ARGS], *ty[MAX_PLACES], *t[MAX_ARGS];
  size_t n = w->c->n;
  double a = 0, b = 0, scale = 0;
  if (!make(w, &p) || !forward(w, &p)) return problem(w, "no forward derivative");
  for (size_t i = 0; i < w->c->n; i++) {
    args[i] = w->in[i];
    t[i] = varies(w->type[i]) ? random_like(w, w->type[i]) : NULL;
    if (t[i]) args[n++] = t[i];
    b += dot(grad[i], t[i]);
    if (grad[i]) scale += fabs(dot(grad[i], t[i]));
  }
  if (!results(w, p.g, args, p.nout, p.out, ty)) return false;
  for (size_t k = 0; k < p.nout; k++) a += u[k] ? dot(u[k], ty[k]) : 0;
  drop(p.nout, ty);
  if (!isfinite(a) && (w->undefined || is_empty(w))) return true; // means of nothing
  double tolerance = is_coarse(w, &p) ? 1e-2 : 1e-9;
  return near(a, b, scale, tolerance) || problem(w, "<u, Jv> is %.15g, <J'u, v> is %.15g", a, b);
}

/* Sweeps backwards over the nodes of p's graph after its primal's arguments; grads by node id. */
static bool sweep(world *w, program *p, anf_node *const *seed, anf_node **grad) {
  uint32_t last = (uint32_t)w->m->nodes.n;
  static anf_node *part[MAX_NODES][MAX_PLACES];
  if (last >= MAX_NODES) return problem(w, "too many nodes");
  memset(part, 0, sizeof part);
  for (size_t i = 0; i < p->nout; i++)
    if (p->out[i])
      part[p->out[i]->id][0] = anfi_ad_add(w->ad, p->g, part[p->out[i]->id][0], seed[i]);
  for (uint32_t id = last; id-- > 0;) {
    anf_node *n = w->m->nodes.at[id], *in[MAX_ARGS + 8], *out[MAX_ARGS + 8];
    bool want[MAX_ARGS + 8], some = false;
    grad[id] = part[id][0];
    if (!n || n->graph != p->g || n->kind != ANFI_APPLY) continue;
    for (size_t k = 0; k < places(n->type); k++) some |= part[id][k] != NULL;
    if (!some) continue;
    if (n->op == ANF_OP_TupleGet) {
      int64_t k = anfi_attr_int(anfi_attr_value(w->cx, ANF_OP_TupleGet, n->u.attrs, 0));
      anf_node **to = &part[n->in[0].def->id][k];
      *to = anfi_ad_add(w->ad, p->g, *to, part[id][0]);
      continue;
    }
    for (uint32_t i = 0; i < n->nin; i++) {
      in[i] = n->in[i].def;
      want[i] = in[i]->graph == p->g;
    }
    if (!anfi_vjp_op(w->ad, p->g, n, in, n, places(n->type), part[id], want, out))
      return problem(w, "no derivative of %s in the gradient", anfi_op_of(n)->name);
    for (uint32_t i = 0; i < n->nin; i++)
      part[in[i]->id][0] = anfi_ad_add(w->ad, p->g, part[in[i]->id][0], out[i]);
  }
  return true;
}

/* <v, gradient> at the arguments moved by h along the directions. */
static bool second_loss(world *w, program *p, size_t narg, anf_value *const *args,
                        anf_value *const *dir, double h, anf_value *const *v, double *out) {
  anf_value *at[2 * MAX_ARGS] = {NULL}, *g[MAX_ARGS];
  for (size_t i = 0; i < narg; i++)
    at[i] = dir[i] ? moved(w, args[i], dir[i], h) : anf_value_retain(args[i]);
  bool good = results(w, p->g, at, p->nout, p->out, g);
  *out = 0;
  for (size_t i = 0; good && i < p->nout; i++) *out += dot(v[i], g[i]);
  if (good) drop(p->nout, g);
  drop(narg, at);
  return good;
}

/* The derivative of <v, J'u> along random directions of all inputs and of u. */
static bool check_second(world *w, anf_value *const *u) {
  program p;
  anf_value *args[3 * MAX_ARGS], *dir[3 * MAX_ARGS], *v[MAX_ARGS] = {NULL};
  anf_node *seed[MAX_ARGS] = {NULL}, *want[2 * MAX_ARGS];
  static anf_node *grad[MAX_NODES];
  size_t n = w->c->n;
  if (!make(w, &p) || !reverse(w, &p)) return false;
  for (size_t i = 0; i < w->c->n; i++) args[i] = w->in[i];
  for (size_t k = 0; k < places(p.y->type); k++)
    if (u[k]) args[n++] = u[k];
  size_t narg = n;
  for (size_t i = 0; i < narg; i++)
    dir[i] = args[i]->type && varies(args[i]->type) ? random_like(w, args[i]->type) : NULL;
  for (size_t i = 0; i < p.nout; i++) {
    if (!p.out[i]) continue;
    seed[i] = anfi_param(p.g, anfi_op_schema(w->cx, w->c->op)->name, p.out[i]->type);
    args[n++] = v[i] = random_like(w, p.out[i]->type);
  }
  double up, down, h = 1e-5, got = 0, scale = 0;
  program first = p; // before the sweep adds nodes
  if (!second_loss(w, &first, n, args, (anf_value * [3 * MAX_ARGS]){NULL}, 0, v, &up)) return false;
  for (size_t i = narg; i < n; i++) dir[i] = NULL;
  if (!second_loss(w, &first, n, args, dir, h, v, &up) ||
      !second_loss(w, &first, n, args, dir, -h, v, &down))
    return false;
  if (!sweep(w, &p, seed, grad)) return false;
  anf_value *second[2 * MAX_ARGS];
  for (size_t i = 0; i < narg; i++) want[i] = grad[p.g->params.at[i]->id];
  if (!results(w, p.g, args, narg, want, second)) return false;
  for (size_t i = 0; i < narg; i++) {
    got += dot(second[i], dir[i]);
    scale += second[i] ? fabs(dot(second[i], dir[i])) : 0;
  }
  drop(narg, second);
  double diff = (up - down) / (2 * h);
  if (is_straight_through(w) || is_coarse(w, &p) ||
      (!isfinite(got) && (w->undefined || is_empty(w))))
    return true; // no slope but rounding
  return near(got, diff, scale + fabs(up), 2e-5) ||
         problem(w, "the second derivative is %.9g, differences say %.9g", got, diff);
}

/* ---- the complex step ---- */

static bool not_analytic(anfi_opcode op) {
  switch (op) {
  case ANF_OP_Abs:
  case ANF_OP_Conj:
  case ANF_OP_Real:
  case ANF_OP_Imag:
  case ANF_OP_Softsign:
  case ANF_OP_Cast:
  case ANF_OP_CastLike: return true;
  default: return false;
  }
}

/* Im f(x + iht) / h, exact to rounding, against J t. */
static bool check_complex_step(world *w) {
  program p, q;
  const anf_type *real[MAX_ARGS];
  anf_value *args[MAX_ARGS], *two[2 * MAX_ARGS], *z[MAX_PLACES], *ty[MAX_PLACES];
  double h = 1e-30;
  size_t n = w->c->n;
  if (not_analytic(w->c->op) || anfi_op[w->c->op].attrs) return true;
  memcpy(real, w->type, sizeof real);
  for (size_t i = 0; i < n; i++) {
    if (is_complex(real[i])) return true;
    if (is_real(real[i])) w->type[i] = anfi_type_with_dtype(w->cx, real[i], ANF_C128);
  }
  anfi_frame *f = w->cx->frame; // an op without complex numbers is no failure
  const anfi_frame before = {.diag = f->diag, .status = f->status, .nerror = f->nerror};
  f->diag = NULL;
  bool has = make(w, &p) && is_complex(p.y->type);
  f->diag = before.diag;
  f->status = before.status;
  f->nerror = before.nerror;
  const anf_type *complex[MAX_ARGS];
  memcpy(complex, w->type, sizeof complex);
  memcpy(w->type, real, sizeof real);
  if (!has) return true;
  if (!make(w, &q) || !forward(w, &q)) return false;
  for (size_t i = 0; i < w->c->n; i++) {
    two[i] = w->in[i];
    args[i] = w->in[i];
    if (!varies(real[i])) continue;
    anf_value *t = two[n++] = random_like(w, real[i]);
    args[i] = later(anfi_value_new_tensor(w->cx, complex[i]));
    for (size_t e = 0; e < count(real[i]); e++) {
      anfi_set_f64(args[i], 2 * e, anfi_get_f64(w->in[i], e));
      anfi_set_f64(args[i], 2 * e + 1, h * anfi_get_f64(t, e));
    }
  }
  if (!primal(w, &p, args, z) || !results(w, q.g, two, q.nout, q.out, ty)) return false;
  bool good = true;
  for (size_t e = 0; good && ty[0] && e < count(ty[0]->type); e++) {
    double want = anfi_get_f64(z[0], 2 * e + 1) / h, got = anfi_get_f64(ty[0], e);
    good = near(got, want, fabs(want), 1e-11) ||
           problem(w, "the tangent at %zu is %.15g, a complex step says %.15g", e, got, want);
  }
  drop(1, z);
  drop(q.nout, ty);
  return good;
}

/* ---- one case ---- */

static void limits_of(const world *w, size_t i, double *lo, double *hi, double *diagonal) {
  const sample_arg *a = &w->c->arg[i];
  *lo = -2, *hi = 2, *diagonal = 0;
  if (a->limited) *lo = a->lo, *hi = a->hi;
  for (size_t k = 0; k < ANFI_LEN(domains); k++) {
    if (domains[k].op != w->c->op || (domains[k].arg >= 0 && (size_t)domains[k].arg != i)) continue;
    if (anfi_dtype_is_int(a->dtype)) continue;
    *lo = domains[k].lo, *hi = domains[k].hi, *diagonal = domains[k].diagonal;
  }
}

static anf_value *input(world *w, size_t i) {
  const anf_type *t = w->type[i];
  double lo, hi, diagonal;
  if (t->kind == ANF_TYPE_NONE) return later(anfi_value_new_none(w->cx));
  anf_value *v = later(anfi_value_new_tensor(w->cx, t));
  limits_of(w, i, &lo, &hi, &diagonal);
  if (!varies(t)) {
    if (!w->c->arg[i].limited) lo = 1, hi = 5;
    for (size_t e = 0; e < v->n; e++)
      anfi_set_i64(
          v, e, t->dtype == ANF_BOOL ? uniform(w, 0, 1) < 0.6 : (int64_t)floor(uniform(w, lo, hi)));
    return v;
  }
  for (size_t e = 0; e < count(t); e++) {
    double x = uniform(w, lo, hi);
    if (fabs(x) < 0.05 && hi > 0.1) x += x < 0 ? -0.07 : 0.07; // kinks and poles are at 0
    anfi_set_f64(v, e, x);
  }
  for (size_t e = 0; diagonal > 0 && t->n >= 2 && e < v->n; e++) {
    size_t col = e % (size_t)t->dims[t->n - 1],
           row = e / (size_t)t->dims[t->n - 1] % (size_t)t->dims[t->n - 2];
    if (row == col) anfi_set_f64(v, e, anfi_get_f64(v, e) + diagonal);
  }
  return v;
}

static anf_dtype widened(anf_dtype d) {
  return anfi_dtype_class(d) == ANFI_CLASS_FLOAT ? ANF_F64 : d == ANF_C64 ? ANF_C128 : d;
}

static bool any_varies(const world *w) {
  bool some = false;
  for (size_t i = 0; i < w->c->n; i++) some |= varies(w->type[i]);
  return some;
}

static void take_inputs(world *w, bool wide) {
  for (size_t i = 0; i < w->c->n; i++) {
    const sample_arg *a = &w->c->arg[i];
    w->type[i] =
        a->absent ? anfi_type_simple(w->cx, ANF_TYPE_NONE)
                  : anfi_type_tensor(w->cx, wide ? widened(a->dtype) : a->dtype, a->rank, a->dims);
  }
  for (size_t i = 0; i < w->c->n; i++) w->in[i] = input(w, i);
}

/* Gradients in the sample's own types: they have these types, and about the same values. */
static bool check_narrow(world *w, uint64_t seed) {
  program p, q;
  anf_value *args[2 * MAX_ARGS], *a[MAX_ARGS], *b[MAX_ARGS];
  size_t n = w->c->n;
  w->seed = seed;
  take_inputs(w, false);
  if (!make(w, &p) || !reverse(w, &p)) return problem(w, "no derivative in these types");
  for (size_t k = 0; k < places(p.y->type); k++)
    if (p.u[k]) args[n++] = random_like(w, p.u[k]->type);
  memcpy(args, w->in, w->c->n * sizeof *args);
  if (!results(w, p.g, args, p.nout, p.out, a)) return false;
  for (size_t i = 0; i < n; i++)
    args[i] = args[i]->kind == ANF_VALUE_TENSOR
                  ? later(anfi_value_cast(args[i], widened((anf_dtype)args[i]->type->dtype)))
                  : args[i];
  for (size_t i = 0; i < w->c->n; i++) w->type[i] = anf_value_type(w->cx, args[i]);
  if (!make(w, &q) || !reverse(w, &q) || !results(w, q.g, args, q.nout, q.out, b)) return false;
  bool good = true;
  for (size_t i = 0; i < p.nout; i++) {
    double most = 0;
    for (size_t e = 0; b[i] && e < count(b[i]->type); e++)
      most = fmax(most, fabs(anfi_get_f64(b[i], e)));
    for (size_t e = 0; good && a[i] && b[i] && e < count(a[i]->type); e++)
      good = near(anfi_get_f64(a[i], e), anfi_get_f64(b[i], e), most, 0.05) ||
             problem(w, "gradient of input %zu is %g, in f64 %g", i, anfi_get_f64(a[i], e),
                     anfi_get_f64(b[i], e));
  }
  drop(p.nout, a);
  drop(q.nout, b);
  return good;
}

static bool check_wide(world *w) {
  program p;
  anf_value *u[MAX_PLACES] = {NULL}, *grad[MAX_ARGS], *args[2 * MAX_ARGS], *y[MAX_PLACES];
  size_t n = w->c->n;
  take_inputs(w, true);
  if (!any_varies(w)) return true;
  if (!make(w, &p)) return problem(w, "the sample does not fit");
  if (!anfi_ad_varies(p.y->type)) return true;
  program bare;
  if (!make(w, &bare) || !reverse(w, &p)) return problem(w, "no derivative");
  memcpy(args, w->in, w->c->n * sizeof *args);
  if (!primal(w, &bare, w->in, y)) return false;
  for (size_t k = 0; k < places(p.y->type); k++) // of y's own type, where dims were not known
    if (p.u[k]) args[n++] = u[k] = random_like(w, y[k]->type);
  for (size_t k = 0; k < places(p.y->type); k++)
    for (size_t e = 0; u[k] && e < count(y[k]->type); e++)
      w->undefined |= !isfinite(anfi_get_f64(y[k], e)) || // and a deviation has its kink at 0
                      (w->c->op == ANF_OP_Std && anfi_get_f64(y[k], e) == 0);
  drop(places(p.y->type), y);
  if (!results(w, p.g, args, p.nout, p.out, grad)) return false;
  for (size_t i = 0; i < p.nout; i++) later(grad[i]);
  return check_elements(w, &bare, u, grad) && check_forward(w, u, grad) && check_second(w, u) &&
         check_complex_step(w);
}

typedef struct {
  anf_ctx *cx;
  sample *c;
  uint64_t seed;
  char *problem;
  size_t size;
  anf_diag *d;
} job;

static bool in_module(world *w, uint64_t seed) {
  w->seed = seed;
  w->m = anfi_module_new(w->cx);
  w->ad = anfi_ad_new(w->m);
  if (!check_wide(w)) return false;
  bool narrow = false;
  for (size_t i = 0; i < w->c->n; i++)
    narrow |= !w->c->arg[i].absent && widened(w->c->arg[i].dtype) != w->c->arg[i].dtype;
  return !narrow || check_narrow(w, seed + 1);
}

static anf_status check_frame(job *j) {
  ANFI_ENTRY(j->cx, j->d);
  static world w;
  w = (world){.cx = j->cx, .c = j->c};
  bool good = in_module(&w, j->seed);
  if (!good) problem(&w, "failed");
  if (w.m && !anfi_failed(j->cx)) anf_module_free(w.m); // else it goes with the frame
  snprintf(j->problem, j->size, "%s", good ? "" : w.problem);
  return anfi_leave(j->cx);
}

/* Does the row say that there is no derivative, or one that the transforms know? */
static bool is_excused(anf_ctx *cx, anfi_opcode op) {
  anfi_derivative d = anfi_derivative_of(cx, op, 0);
  bool bits = op == ANF_OP_Bitcast; // of one width: its samples have no wide form
  return bits || d == ANFI_DERIVATIVE_GRAPH || d == ANFI_DERIVATIVE_NONE;
}

/* Two seeds: the first may have hit a kink. */
static bool check_case(anf_ctx *cx, sample *c, char *why, size_t size) {
  for (uint64_t seed = 1; seed < 3; seed++) {
    anf_diag *d = anf_diag_new(cx);
    job j = {cx, c, seed * 7919, why, size, d};
    check_frame(&j);
    const anf_diag_item *e = anf_diag_count(d) ? anf_diag_at(d, 0) : NULL;
    if (e) {
      size_t n = strlen(why);
      snprintf(why + n, size - n, " [%s %s]", e->code, e->message);
    }
    anf_diag_free(d);
    if (!*why) return true;
  }
  return false;
}

typedef struct {
  anf_ctx *cx;
  anfi_opcode op;
  char *why;
  size_t size, ncase;
} row;

static anf_status check_row(row *r) {
  ANFI_ENTRY(r->cx, NULL);
  static sample c;
  const char *s = anfi_op[r->op].sample;
  while (!*r->why && s && sample_next(r->cx, r->op, &s, &c))
    for (size_t choice = 0; !*r->why && sample_shapes(&c, choice); choice++, r->ncase++)
      check_case(r->cx, &c, r->why, r->size);
  return anfi_leave(r->cx);
}

int main(int argc, char **argv) {
  int failed = 0, number = 0;
  for (int i = 0; i < ANF_OP_COUNT; i++) {
    bool asked = argc < 2;
    for (int k = 1; k < argc; k++) asked |= strcmp(argv[k], anfi_op[i].name) == 0;
    if (!asked || !anfi_op[i].sample) continue;
    static char why[1400];
    why[0] = 0;
    anf_ctx *cx = anf_ctx_new(NULL);
    row r = {cx, (anfi_opcode)i, why, sizeof why, 0};
    if (!is_excused(cx, r.op)) check_row(&r);
    anf_ctx_free(cx);
    printf("%sok %d - %s (%zu cases)\n", *why ? "not " : "", ++number, anfi_op[i].name, r.ncase);
    if (*why) printf("# %s\n", why);
    failed += *why != 0;
  }
  printf("1..%d\n", number);
  return failed != 0;
}
