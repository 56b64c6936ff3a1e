// SPDX-License-Identifier: Apache-2.0
/* The pullback of an op that is linear in an argument is the transpose of its matrix: transpose_check [OP...], prints TAP.
 *
 *     y = MatMul(a, b), linear in a:   MatMul(e_i, b)[j] == ◀MatMul(e_j)[i]   for each element i of a and j of y
 *
 * Arguments are those of `.sample`, in f64, of few binary digits, so that sums and products are exact. An op is linear in
 * an argument if f(a + b) = f(a) + f(b) and f(-3a) = -3 f(a) for such numbers: no list says so. Where that holds exactly,
 * the matrices must be equal to the bit; where it holds but for rounding, as of a mean, but for rounding. An op that the
 * table calls linear must be found so. Pullbacks are compiled for the interpreter of Tensor IR. */
#include "anfora/anfora.h"
#include "autodiff/derive/derive.h"
#include "test/ad_ops/sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 4096, ROWS = 48, ITEMS = 16 };
static const double rounding = 1e-11;

typedef struct {
  size_t n;
  double at[MOST];
} vector;

typedef struct {
  anf_ctx *cx;
  anf_diag *d;
  sample *c;
  uint64_t seed;
  anf_value *x[MAX_ARGS], *y;
  anf_module *m;
  anf_graph *f, *back;
  anf_exec *code;
  size_t nreal;         // arguments that vary
  size_t shift;         // of rows: of a check that is to fail
  size_t linear, exact; // of them
  char why[600];
} job;

static bool problem(job *j, const char *fmt, ...) {
  va_list a;
  const anf_diag_item *e = anf_diag_at(j->d, 0);
  int n = snprintf(j->why, sizeof j->why, "%s: ", j->c->text);
  va_start(a, fmt);
  n += vsnprintf(j->why + n, sizeof j->why - (size_t)n, fmt, a);
  va_end(a);
  if (e) snprintf(j->why + n, sizeof j->why - (size_t)n, " [%s %s]", e->code, e->message);
  return false;
}

/* ---- values and vectors of their real numbers ---- */

static bool is_real(const anf_type *t) {
  return t->kind == ANF_TYPE_TENSOR && anfi_dtype_is_float((anf_dtype)t->dtype);
}

static bool only_real(const anf_value *v) {
  if (v->kind != ANF_VALUE_TUPLE) return v->kind == ANF_VALUE_TENSOR && is_real(v->type);
  for (size_t i = 0; i < v->n; i++)
    if (!only_real(v->u.item[i])) return false;
  return v->n > 0 && v->n <= ITEMS;
}

static void list_numbers(const anf_value *v, vector *to) {
  to->n = 0;
  size_t parts = v->kind == ANF_VALUE_TUPLE ? v->n : 1;
  for (size_t k = 0; k < parts; k++) {
    const anf_value *p = v->kind == ANF_VALUE_TUPLE ? v->u.item[k] : v;
    for (size_t i = 0; i < p->n; i++)
      if (to->n < MOST) to->at[to->n++] = anf_value_get_f64(p, i);
  }
}

/* A value like `v` that has these numbers. */
static anf_value *with_numbers(const anf_value *v, const vector *from) {
  anf_value *part[ITEMS] = {NULL};
  size_t parts = v->kind == ANF_VALUE_TUPLE ? v->n : 1, at = 0;
  for (size_t k = 0; k < parts; k++) {
    const anf_value *p = v->kind == ANF_VALUE_TUPLE ? v->u.item[k] : v;
    part[k] = anfi_value_new_tensor(v->cx, p->type);
    for (size_t i = 0; i < p->n; i++) anfi_set_f64(part[k], i, from->at[at++]);
  }
  if (v->kind != ANF_VALUE_TUPLE) return part[0];
  anf_value *t = anf_value_tuple(v->cx, parts, part);
  for (size_t k = 0; k < parts; k++) anf_value_release(part[k]);
  return t;
}

static size_t numbers_in(const anf_value *v) {
  size_t n = v->n;
  if (v->kind != ANF_VALUE_TUPLE) return n;
  for (size_t i = n = 0; i < v->n; i++) n += v->u.item[i]->n;
  return n;
}

static int64_t random_int(job *j, int64_t lo, int64_t hi) {
  return lo + (int64_t)floor(sample_random(&j->seed) * (double)(hi - lo));
}

static vector random_vector(job *j, size_t n) {
  vector v = {.n = n};
  for (size_t i = 0; i < n; i++) v.at[i] = (double)random_int(j, -12, 13) / 4;
  return v;
}

static vector basis(size_t n, size_t k) {
  vector v = {.n = n};
  v.at[k] = 1;
  return v;
}

static vector combine(double p, const vector *a, double q, const vector *b) {
  vector v = {.n = a->n};
  for (size_t i = 0; i < a->n; i++) v.at[i] = p * a->at[i] + q * b->at[i];
  return v;
}

static double distance(const vector *a, const vector *b) {
  double most = 0;
  for (size_t i = 0; i < a->n; i++) {
    if (a->at[i] == b->at[i]) continue;
    double by = fabs(a->at[i] - b->at[i]) / (1 + fabs(a->at[i]));
    if (!isfinite(by)) return INFINITY;
    if (by > most) most = by;
  }
  return a->n == b->n ? most : INFINITY;
}

/* ---- the op and its pullback ---- */

static anf_value *input(job *j, size_t i) {
  const sample_arg *a = &j->c->arg[i];
  if (a->absent) return anf_value_none(j->cx);
  anf_dtype d = anfi_dtype_is_float(a->dtype) ? ANF_F64 : a->dtype;
  anf_value *v = anf_value_tensor(j->cx, d, a->rank, a->dims, NULL);
  if (v && d == ANF_F64) {
    vector r = random_vector(j, v->n);
    for (size_t e = 0; e < v->n; e++) anfi_set_f64(v, e, r.at[e]);
    return v;
  }
  int64_t lo = a->limited ? (int64_t)a->lo : 1, hi = a->limited ? (int64_t)a->hi : 5;
  for (size_t e = 0; v && e < v->n; e++)
    anfi_set_i64(v, e, d == ANF_BOOL ? random_int(j, 0, 2) : random_int(j, lo, hi));
  return v;
}

static bool takes_reals(const job *j) {
  bool some = false;
  for (size_t i = 0; i < j->c->n; i++) {
    const sample_arg *a = &j->c->arg[i];
    if (!a->absent && anfi_dtype_class(a->dtype) == ANFI_CLASS_COMPLEX) return false;
    some |= !a->absent && anfi_dtype_is_float(a->dtype);
  }
  return some;
}

static bool varies(const job *j, size_t i) { return is_real(anf_value_type(j->cx, j->x[i])); }

/* Parameters for what varies; all else is constant. Returns how many. */
static size_t params(job *j, anf_graph *g, anf_node **to, anf_node **some) {
  size_t n = 0;
  for (size_t i = 0; i < j->c->n; i++) {
    to[i] = varies(j, i) ? anf_param(g, "x", anf_value_type(j->cx, j->x[i]))
                         : anf_constant(j->m, j->x[i]);
    if (varies(j, i)) some[n++] = to[i];
  }
  return n;
}

static bool build_op(job *j) {
  const anfi_schema *s = anfi_op_schema(j->cx, j->c->op);
  anf_attr attr[MAX_ATTRS];
  anf_node *x[MAX_ARGS], *some[MAX_ARGS];
  size_t n = 0;
  for (uint32_t k = 0; k < s->nattr; k++)
    if (j->c->attr[k]) attr[n++] = (anf_attr){.name = s->attr[k].name->s, .value = j->c->attr[k]};
  j->f = anf_graph_new(j->m, "f");
  j->nreal = params(j, j->f, x, some);
  anf_return(j->f, anf_op_attrs(j->f, s->name->s, j->c->n, x, n, attr));
  return anf_module_status(j->m) == ANF_OK;
}

/* ◀(x.., u): vjp(f, x..)[1](u) */
static bool build_pullback(job *j) {
  anf_node *x[MAX_ARGS], *in[MAX_ARGS + 1], *u, *pair;
  j->back = anf_graph_new(j->m, "back");
  params(j, j->back, x, in + 1);
  u = anf_param(j->back, "u", anf_value_type(j->cx, j->y));
  in[0] = anf_graph_node(j->f);
  pair = anf_op(j->back, "Vjp", j->nreal + 1, in);
  anf_return(j->back, anf_call(j->back, anf_tuple_get(j->back, pair, 1), 1, &u));
  anf_exec_opts o = {.size = sizeof o, .kind = ANF_JIT_INTERP};
  return anf_module_status(j->m) == ANF_OK && anf_compile(j->back, &o, j->d, &j->code) == ANF_OK;
}

/* f of the arguments x, with vectors in place of those that are given; of all that vary. */
static bool apply(job *j, const vector *const *in, vector *to) {
  anf_value *x[MAX_ARGS] = {NULL}, *y = NULL;
  size_t n = 0;
  for (size_t i = 0; i < j->c->n; i++)
    if (varies(j, i)) x[n++] = in[i] ? with_numbers(j->x[i], in[i]) : anf_value_retain(j->x[i]);
  bool good = anf_run(j->f, n, x, NULL, j->d, &y) == ANF_OK;
  if (good) list_numbers(y, to);
  for (size_t i = 0; i < n; i++) anf_value_release(x[i]);
  anf_value_release(y);
  return good || problem(j, "it does not run");
}

/* The adjoint of argument i for that of the result. */
static bool pull(job *j, size_t i, const vector *u, vector *to) {
  anf_value *x[MAX_ARGS + 1], *all = NULL;
  size_t n = 0, at = 0;
  for (size_t k = 0; k < j->c->n; k++) {
    if (k == i) at = n;
    if (varies(j, k)) x[n++] = j->x[k];
  }
  x[n] = with_numbers(j->y, u);
  bool good = anf_exec_run(j->code, n + 1, x, NULL, j->d, &all) == ANF_OK;
  if (good) list_numbers(all->u.item[at], to);
  anf_value_release(x[n]);
  anf_value_release(all);
  return good || problem(j, "its pullback does not run");
}

/* ---- the checks ---- */

/* f(.., a, ..) - f(.., 0, ..), of argument i or, if i is not one, of all. */
static bool part_of(job *j, size_t i, double p, vector *const a, double q, vector *const b,
                    vector *to) {
  static vector at[MAX_ARGS], zero[MAX_ARGS], origin, y;
  const vector *in[MAX_ARGS] = {NULL}, *none[MAX_ARGS] = {NULL};
  for (size_t k = 0; k < j->c->n; k++) {
    if (!varies(j, k) || (i < j->c->n && k != i)) continue;
    at[k] = combine(p, &a[k], q, &b[k]);
    zero[k] = (vector){.n = a[k].n};
    in[k] = &at[k];
    none[k] = &zero[k];
  }
  if (!apply(j, in, &y) || !apply(j, none, &origin)) return false;
  *to = combine(1, &y, -1, &origin);
  return true;
}

/* How far f is from linear in argument i (or in all), but for a constant: 0, rounding, or more. */
static bool find_linear(job *j, size_t i, double *by) {
  static vector a[MAX_ARGS], b[MAX_ARGS], fa, fb, fc, sum;
  *by = 0;
  for (int turn = 0; turn < 3; turn++) {
    double p = turn ? 1 : -3, q = turn ? 1 : 0;
    for (size_t k = 0; k < j->c->n; k++)
      if (varies(j, k)) a[k] = random_vector(j, j->x[k]->n), b[k] = random_vector(j, j->x[k]->n);
    if (!part_of(j, i, 1, a, 0, b, &fa) || !part_of(j, i, 0, a, 1, b, &fb) ||
        !part_of(j, i, p, a, q, b, &fc))
      return false;
    sum = combine(p, &fa, q, &fb);
    *by = fmax(*by, distance(&sum, &fc));
  }
  return true;
}

static bool same_number(double a, double b, bool exact) {
  return a == b || (!exact && fabs(a - b) <= rounding * (1 + fabs(a)));
}

/* Column k of the matrix of argument i. */
static bool column(job *j, size_t i, size_t k, vector *to) {
  static vector e[MAX_ARGS], nothing[MAX_ARGS];
  e[i] = basis(j->x[i]->n, k);
  nothing[i] = (vector){.n = j->x[i]->n};
  return part_of(j, i, 1, e, 0, nothing, to);
}

/* Rows that the pullback gives, against columns that the op gives. */
static bool check_matrix(job *j, size_t i, bool exact) {
  size_t nin = j->x[i]->n, nout = numbers_in(j->y), rows = nout < ROWS ? nout : ROWS;
  static vector row[ROWS], v;
  static size_t at[ROWS];
  for (size_t r = 0; r < rows; r++) {
    at[r] = rows == nout ? r : (size_t)random_int(j, 0, (int64_t)nout);
    v = basis(nout, at[r]);
    if (!pull(j, i, &v, &row[r])) return false;
    if (row[r].n != nin) return problem(j, "the adjoint of argument %zu has another size", i);
  }
  for (size_t k = 0; k < nin; k++) {
    if (!column(j, i, k, &v)) return false;
    for (size_t r = 0; r < rows; r++)
      if (!same_number(v.at[at[r]], row[(r + j->shift) % rows].at[k], exact))
        return problem(j,
                       "element %zu of argument %zu gives %.17g of element %zu, its adjoint %.17g",
                       k, i, v.at[at[r]], at[r], row[r].at[k]);
  }
  return true;
}

static bool check_argument(job *j, size_t i) {
  double by = 0;
  if (!find_linear(j, i, &by)) return false;
  if (by > rounding) return true;
  j->linear++;
  j->exact += by == 0;
  return check_matrix(j, i, by == 0);
}

static bool check_flag(job *j) {
  double by = 0;
  if (!(anfi_op[j->c->op].flags & ANFI_LINEAR)) return true;
  if (!find_linear(j, j->c->n, &by)) return false;
  return by <= rounding || problem(j, "the table calls it linear, and it is not");
}

static bool check_arguments(job *j) {
  anf_value *x[MAX_ARGS] = {NULL};
  size_t n = 0;
  for (size_t i = 0; i < j->c->n; i++)
    if (varies(j, i) && j->x[i]->n > 0) x[n++] = j->x[i];
  if (n < j->nreal || anf_run(j->f, n, x, NULL, j->d, &j->y) != ANF_OK) {
    anf_diag_clear(j->d); // of numbers that it is not defined for
    return true;
  }
  n = j->y->kind == ANF_VALUE_TUPLE || j->y->kind == ANF_VALUE_TENSOR ? numbers_in(j->y) : 0;
  if (!only_real(j->y) || n == 0 || n > MOST) return true;
  if (!build_pullback(j)) return problem(j, "it has no pullback");
  for (size_t i = 0; i < j->c->n; i++)
    if (varies(j, i) && j->x[i]->n <= MOST && !check_argument(j, i)) return false;
  return check_flag(j);
}

static bool check_case(job *j) {
  bool good = true, made = true;
  if (!takes_reals(j)) return true;
  j->m = anf_module_new(j->cx);
  for (size_t i = 0; i < j->c->n; i++) made &= (j->x[i] = input(j, i)) != NULL;
  if (made && build_op(j)) good = check_arguments(j);
  for (size_t i = 0; i < j->c->n; i++) anf_value_release(j->x[i]);
  anf_value_release(j->y);
  anf_exec_free(j->code);
  anf_module_free(j->m);
  j->y = NULL;
  j->code = NULL;
  return good;
}

/* ---- the table ---- */

/* Cases are read within a frame of the library. */
static anf_status check_row(job *j, anfi_opcode op, bool *good) {
  ANFI_ENTRY(j->cx, j->d);
  static sample c;
  const char *s = anfi_op[op].sample;
  j->c = &c;
  while (*good && sample_next(j->cx, op, &s, &c))
    for (size_t choice = 0; *good && sample_shapes(&c, choice); choice++) {
      j->seed = 7919 * (choice + 1);
      *good = check_case(j);
    }
  return anfi_leave(j->cx);
}

/* Is there a derivative that is not zero everywhere? */
static bool has_pullback(anf_ctx *cx, anfi_opcode op) {
  size_t n = anfi_op_schema(cx, op)->nin;
  for (size_t i = 0; i < n; i++)
    if (anfi_derivative_of(cx, op, i) == ANFI_DERIVATIVE) return true;
  return false;
}

static job new_job(void) {
  job j = {.cx = anf_ctx_new(NULL)};
  if (!j.cx || !(j.d = anf_diag_new(j.cx))) abort();
  return j;
}

static void end_job(job *j) {
  anf_diag_free(j->d);
  anf_ctx_free(j->cx);
}

/* Rows in another order are no transpose. */
static bool can_fail(void) {
  static job j;
  bool good = true;
  j = new_job();
  j.shift = 1;
  check_row(&j, ANF_OP_MatMul, &good);
  end_job(&j);
  return !good;
}

int main(int argc, char **argv) {
  int failed = 0, number = 0;
  size_t linear = 0, exact = 0, ops = 0;
  for (int i = 1; i < ANF_OP_COUNT; i++) {
    bool asked = argc < 2, good = true;
    for (int k = 1; k < argc; k++) asked |= strcmp(argv[k], anfi_op[i].name) == 0;
    if (!asked || !anfi_op[i].sample) continue;
    static job j;
    j = new_job();
    if (has_pullback(j.cx, (anfi_opcode)i)) {
      anf_status st = check_row(&j, (anfi_opcode)i, &good);
      if (good && st != ANF_OK) good = problem(&j, "failed");
    }
    if (j.linear || !good)
      printf("%sok %d - %s (%zu arguments are linear, %zu exactly)\n", good ? "" : "not ", ++number,
             anfi_op[i].name, j.linear, j.exact);
    if (!good) printf("# %s\n", j.why);
    ops += j.linear > 0;
    linear += j.linear;
    exact += j.exact;
    failed += !good;
    end_job(&j);
  }
  bool many = argc > 1 || ops > 60;
  bool fails = can_fail();
  printf("%sok %d - %zu ops, %zu arguments, %zu exactly\n", many ? "" : "not ", number + 1, ops,
         linear, exact);
  printf("%sok %d - rows in another order are found\n1..%d\n", fails ? "" : "not ", number + 2,
         number + 2);
  return failed != 0 || !many || !fails;
}
