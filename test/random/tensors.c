// SPDX-License-Identifier: Apache-2.0
/* random_tensors [--programs N] [--seed S] [--size N] [--show SEED]
 * Random programs over tensors, of ops that fuse with one another: pointwise ones, index maps,
 * reductions, rows, products. Compiled code must give what the interpreter does, plain, with loops on
 * many threads, with fast sums, and by the C compiler: within BOUND of the largest element of each
 * tensor, for values and for gradients. All functions are smooth enough that rounding does not grow.
 * Speaks TAP, one line a way of compiling; a failure prints the seed and the program. */
#include "generate.h"

#include "anfora/anfora.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { RANK = 4, NAMES = 64, INPUTS = 3, MOST = 60000 };

/* ---- programs ---- */

typedef struct {
  int rank;
  int64_t dim[RANK];
} shape;

typedef struct {
  uint64_t state;
  char *text;
  size_t len, cap;
  shape name[NAMES]; // of a, b, c, v3, v4, ..
  int n;
} gen;

static uint64_t below(gen *g, uint64_t n) { return generate_next(&g->state) % n; }

static void put(gen *g, const char *fmt, ...) {
  va_list ap;
  if (g->cap - g->len < 512 && !(g->text = realloc(g->text, g->cap = 2 * g->cap + 1024))) abort();
  va_start(ap, fmt);
  g->len += (size_t)vsnprintf(g->text + g->len, g->cap - g->len, fmt, ap);
  va_end(ap);
}

static int64_t elements(const shape *s) {
  int64_t n = 1;
  for (int k = 0; k < s->rank; k++) n *= s->dim[k];
  return n;
}

static void put_name(gen *g, int i) {
  if (i < INPUTS) put(g, "%c", 'a' + i);
  else put(g, "v%d", i);
}

/* `(d, d,)` of ints */
static void put_ints(gen *g, int n, const int64_t *v) {
  put(g, "(");
  for (int k = 0; k < n; k++) put(g, "%lld,%s", (long long)v[k], k + 1 < n ? " " : "");
  put(g, ")");
}

static void put_type(gen *g, const char *dtype, const shape *s) {
  put(g, "%s[", dtype);
  for (int k = 0; k < s->rank; k++) put(g, "%s%lld", k ? ", " : "", (long long)s->dim[k]);
  put(g, "]");
}

static void begin(gen *g) {
  put(g, "  ");
  put_name(g, g->n);
  put(g, " = ");
}

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

static void unary(gen *g) {
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
                                     "Where(%s > 0.0, %s, 0.25 * %s)"};
  int i = pick(g);
  char name[16];
  snprintf(name, sizeof name, i < INPUTS ? "%c" : "v%d", i < INPUTS ? 'a' + i : i);
  begin(g);
  const char *f = form[below(g, sizeof form / sizeof *form)];
  for (; *f; f++)
    if (f[0] == '%' && f[1] == 's') put(g, "%s", name), f++;
    else put(g, "%c", *f);
  end(g, &g->name[i]);
}

static bool broadcast(const shape *x, const shape *y, shape *r) {
  *r = (shape){.rank = x->rank > y->rank ? x->rank : y->rank};
  for (int k = 0; k < r->rank; k++) {
    int i = k - (r->rank - x->rank), j = k - (r->rank - y->rank);
    int64_t p = i < 0 ? 1 : x->dim[i], q = j < 0 ? 1 : y->dim[j];
    if (p != q && p != 1 && q != 1) return false;
    r->dim[k] = p > q ? p : q;
  }
  return elements(r) <= MOST;
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
  if (sum) put(g, " * %g", 1.0 / (double)x->dim[axis]);
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
  if (which == 3) put(g, " * %g", 1.0 / (double)g->name[i].dim[axis]);
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
  int64_t by = x.dim[at] % 3 == 0 ? 3 : x.dim[at] % 2 == 0 ? 2 : 1;
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
    int64_t n = r.dim[k], from = (int64_t)below(g, (uint64_t)n), step = 1 + (int64_t)below(g, 2);
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
  if (2 * elements(&r) > MOST) return;
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
  if (elements(&r) > MOST) return;
  begin(g);
  put(g, "(");
  put_name(g, i);
  put(g, " @ ");
  put_name(g, j);
  put(g, "%s) * %g", own ? ".T" : "", 1.0 / (double)x.dim[1]);
  end(g, &r);
}

static void statement(gen *g) {
  static void (*const kinds[])(gen *) = {unary,   unary,  unary,  binary, binary,
                                         binary,  reduce, reduce, rows,   transpose,
                                         reshape, slice,  concat, gather, product};
  kinds[below(g, sizeof kinds / sizeof *kinds)](g);
}

/* `large`: loops over them are worth threads. */
static void make_input_shapes(gen *g, bool large) {
  static const int64_t dims[] = {1, 2, 3, 4, 5, 7, 8, 16, 17, 33, 64, 70, 100};
  g->name[0].rank = 1 + (int)below(g, 3);
  for (int k = 0; k < g->name[0].rank; k++) g->name[0].dim[k] = dims[below(g, 13)];
  while (elements(&g->name[0]) > 10000) g->name[0].rank--;
  if (large) g->name[0] = (shape){2, {200, 150 + (int64_t)below(g, 60)}};
  g->name[1] = g->name[2] = g->name[0];
  if (below(g, 2)) g->name[1].dim[below(g, (uint64_t)g->name[1].rank)] = 1;
  if (g->name[2].rank > 1 && below(g, 2)) { // without the first dim
    g->name[2].rank--;
    memmove(g->name[2].dim, g->name[2].dim + 1, 3 * sizeof(int64_t));
  }
  g->n = INPUTS;
}

/* `main` of a, b and c gives the last names; with its gradient for half of the seeds. */
static gen program(uint64_t seed, size_t size) {
  gen g = {.state = seed};
  const char *dtype = below(&g, 4) ? "f32" : "f64";
  bool grad = seed & 2;
  make_input_shapes(&g, seed % 7 == 0);
  put(&g, "def %s(", grad ? "body" : "main");
  for (int i = 0; i < INPUTS; i++) {
    put(&g, "%s%c: ", i ? ", " : "", 'a' + i);
    put_type(&g, dtype, &g.name[i]);
  }
  put(&g, ") {\n");
  for (size_t i = 0; i < size && g.n < NAMES; i++) statement(&g);
  put(&g, grad ? "  " : "  (");
  for (int i = g.n > 4 ? g.n - 4 : 0; i < g.n; i++) {
    put(&g, grad ? "Mean(" : "");
    put_name(&g, i);
    put(&g, grad ? i + 1 < g.n ? ") + " : ")" : i + 1 < g.n ? ", " : "");
  }
  put(&g, grad ? "\n}\ndef main(a, b, c) { value_and_grad(body, wrt=(0, 1, 2))(a, b, c) }\n"
               : ")\n}\n");
  return g;
}

/* ---- ways to compile ---- */

static const struct {
  const char *name;
  anf_jit_kind kind;
  bool parallel, fast;
  uint64_t every; // one in so many programs
} ways[] = {{"LLVM", ANF_JIT_LLVM, false, false, 1},
            {"LLVM, parallel", ANF_JIT_LLVM, true, false, 2},
            {"LLVM, fast", ANF_JIT_LLVM, false, true, 3},
            {"the C compiler, parallel and fast", ANF_JIT_CJIT, true, true, 20}};
enum { WAYS = sizeof ways / sizeof *ways };

typedef struct {
  anf_ctx *cx;
  anf_diag *d;
  anf_jit_engine *engine[WAYS];
  size_t ran, tried[WAYS], failed[WAYS];
} bench;

static double bound(anf_dtype d) { return d == ANF_F32 ? 2e-4 : 1e-10; }

static double element(const anf_value *v, size_t i) {
  const void *p = anf_value_data(v);
  return anf_value_dtype(v) == ANF_F32 ? (double)((const float *)p)[i] : ((const double *)p)[i];
}

static bool close(const anf_value *a, const anf_value *b) {
  size_t n = anf_value_elements(a);
  double most = 1;
  if (anf_value_dtype(a) != anf_value_dtype(b) || n != anf_value_elements(b)) return false;
  for (size_t i = 0; i < n; i++) most = fmax(most, fabs(element(a, i)));
  for (size_t i = 0; i < n; i++) {
    double x = element(a, i), y = element(b, i);
    if (!(fabs(x - y) <= bound(anf_value_dtype(a)) * most) && !(x != x && y != y)) return false;
  }
  return true;
}

static bool same(const anf_value *a, const anf_value *b) {
  if (anf_value_get_kind(a) != anf_value_get_kind(b)) return false;
  if (anf_value_get_kind(a) != ANF_VALUE_TUPLE) return close(a, b);
  for (size_t i = 0; i < anf_value_count(a); i++)
    if (!same(anf_value_at(a, i), anf_value_at(b, i))) return false;
  return anf_value_count(a) == anf_value_count(b);
}

static void complain(bench *b, uint64_t seed, int way, const char *what, const char *text) {
  if (b->failed[way]++) return;
  printf("# seed %llu, %s: %s\n", (unsigned long long)seed, ways[way].name, what);
  for (size_t i = 0; i < anf_diag_count(b->d); i++)
    printf("# %s %s\n", anf_diag_at(b->d, i)->code, anf_diag_at(b->d, i)->message);
  for (const char *s = text, *stop; *s; s = stop + 1) {
    stop = strchr(s, '\n');
    printf("#   %.*s\n", (int)(stop - s), s);
  }
}

static void try_way(bench *b, uint64_t seed, int way, anf_graph *g, anf_value *const *args,
                    const anf_value *want, const char *text) {
  anf_exec_opts o = {.size = sizeof o,
                     .engine = b->engine[way],
                     .parallel = ways[way].parallel,
                     .fast = ways[way].fast};
  anf_exec *e = NULL;
  anf_value *got = NULL;
  anf_diag_clear(b->d);
  b->tried[way]++;
  anf_status st = anf_compile(g, &o, b->d, &e);
  if (st == ANF_OK) st = anf_exec_run(e, INPUTS, args, NULL, b->d, &got);
  if (st != ANF_OK) complain(b, seed, way, anf_status_name(st), text);
  else if (!same(want, got)) complain(b, seed, way, "another value", text);
  anf_value_release(got);
  anf_exec_free(e);
}

static anf_value *input(bench *b, const shape *s, bool single, uint64_t *state) {
  int64_t n = elements(s);
  float *f = malloc((size_t)n * sizeof *f);
  double *d = malloc((size_t)n * sizeof *d);
  if (!f || !d) abort();
  for (int64_t i = 0; i < n; i++) {
    d[i] = (double)(generate_next(state) % 4001) / 1000.0 - 2.0;
    f[i] = (float)d[i];
  }
  anf_value *v = single ? anf_value_tensor(b->cx, ANF_F32, (size_t)s->rank, s->dim, f)
                        : anf_value_tensor(b->cx, ANF_F64, (size_t)s->rank, s->dim, d);
  free(f);
  free(d);
  return v;
}

static void try_program(bench *b, uint64_t seed, size_t size) {
  gen g = program(seed, size);
  bool single = strstr(g.text, "f32[") != NULL;
  anf_value *args[INPUTS], *want = NULL;
  anf_module *m = NULL;
  uint64_t state = seed;
  for (int i = 0; i < INPUTS; i++) args[i] = input(b, &g.name[i], single, &state);
  anf_diag_clear(b->d);
  anf_graph *main_ = NULL;
  if (anf_parse(b->cx, g.text, "tensors.anf", b->d, &m) == ANF_OK)
    main_ = anf_module_find(m, "main");
  if (main_ && anf_run(main_, INPUTS, args, NULL, b->d, &want) == ANF_OK) {
    b->ran++;
    for (int w = 0; w < WAYS; w++)
      if (seed % ways[w].every == 0) try_way(b, seed, w, main_, args, want, g.text);
  } else complain(b, seed, 0, "the interpreter does not run it", g.text);
  anf_value_release(want);
  for (int i = 0; i < INPUTS; i++) anf_value_release(args[i]);
  anf_module_free(m);
  free(g.text);
}

static bool start(bench *b) {
  *b = (bench){.cx = anf_ctx_new(NULL)};
  b->d = anf_diag_new(b->cx);
  for (int w = 0; w < WAYS; w++)
    if (anf_jit_engine_new(b->cx, ways[w].kind, NULL, b->d, &b->engine[w]) != ANF_OK) return false;
  return true;
}

int main(int argc, char **argv) {
  uint64_t seed = 1;
  size_t programs = 100, size = 16;
  for (int i = 1; i + 1 < argc; i += 2) {
    uint64_t v = strtoull(argv[i + 1], NULL, 10);
    if (strcmp(argv[i], "--programs") == 0) programs = (size_t)v;
    else if (strcmp(argv[i], "--seed") == 0) seed = v;
    else if (strcmp(argv[i], "--size") == 0) size = (size_t)v;
    else if (strcmp(argv[i], "--show") == 0) {
      gen g = program(v, size);
      fputs(g.text, stdout);
      free(g.text);
      return 0;
    }
  }
  bench b;
  if (!start(&b)) return 1;
  for (size_t i = 0; i < programs; i++) try_program(&b, seed + i, size);
  printf("1..%d\n", WAYS);
  for (int w = 0; w < WAYS; w++)
    printf("%s %d - %zu random tensor programs: %s\n", b.failed[w] ? "not ok" : "ok", w + 1,
           b.tried[w], ways[w].name);
  for (int w = 0; w < WAYS; w++) anf_jit_engine_free(b.engine[w]);
  anf_diag_free(b.d);
  anf_ctx_free(b.cx);
  return b.ran == programs ? 0 : 1;
}
