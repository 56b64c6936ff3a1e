// SPDX-License-Identifier: Apache-2.0
/* random_gradients [--programs N] [--seed S] [--size N] [--show SEED]
 * Derivatives of random programs, of f64: out(x, y, v) gives what a program computes, pulled its
 * pullback of weights a, b, c, pushed its pushforward of a direction. Checked are
 *   duality      <w, J u> = <J^T w, u> to DUAL of the terms' size, or to what rounding
 *                makes of the tangent close by
 *   differences  J u is what central differences at two distances say, to STEP of the scale, at
 *                points where they show no kink, jump or pole, or to what rounding makes of the values
 *   optimised    both derivatives after `standard`, to SAME; of each VERIFY-th, with all the other
 *                derivatives in one module, which is verified after each pass
 *   settled      their text, read again, has nothing for `simplify` and `cse`, which pass over what they
 *                know: that holds of all derivatives in one module
 *   second       the pushforward of the pullback is the pullback of <pullback, u>, to DUAL
 *   batch        vmap of the pullback gives each lane what the pullback gives alone, to SAME
 *   compiled     the pullback by LLVM, to SAME
 * Speaks TAP, one line a check; a failure prints the seed and the program. */
#include "generate.h"

#include "anfora/anfora.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NX = 5, LANES = 3 }; // numbers in (x, y, v), and in the outputs
enum { VERIFY = 10 };
static const double DUAL = 1e-9, STEP = 2e-5, SAME = 1e-10;

typedef enum { DUALITY, DIFFERENCES, OPTIMISED, SETTLED, SECOND, BATCH, COMPILED, CHECKS } check;
static const char *const what[] = {"duality",      "differences", "optimised", "settled",
                                   "second order", "batch",       "compiled"};
static const uint64_t every[] = {1, 1, 1, 10, 10, 10, 25}; // one in so many programs

static const char tail[] = "\ndef out(x: f64, y: f64, v: f64[3]) {\n"
                           "  program(5, 2, x, y, true, v)\n}\n";
static const char first[] = // order
    "def pulled(x: f64, y: f64, v: f64[3], a: f64, b: f64, c: f64[3]) {\n"
    "  vjp(out, x, y, v)[1]((a, b, c))\n}\n"
    "def pushed(x: f64, y: f64, v: f64[3], a: f64, b: f64, c: f64[3]) {\n"
    "  jvp(out, (x, y, v), (a, b, c))[1]\n}\n";
static const char others[] =
    "def along(x: f64, y: f64, v: f64[3], a: f64, b: f64, c: f64[3]) {\n"
    "  d = pulled(x, y, v, 0.7, -1.3, f64[3]([0.4, 1.1, -0.6]))\n"
    "  d[0] * a + d[1] * b + Sum(d[2] * c)\n}\n"
    "def reverse_twice(x: f64, y: f64, v: f64[3], a: f64, b: f64, c: f64[3]) {\n"
    "  grad(along, wrt=(0, 1, 2))(x, y, v, a, b, c)\n}\n"
    "def forward_over(x: f64, y: f64, v: f64[3], a: f64, b: f64, c: f64[3]) {\n"
    "  p = fn (s, t, u) { pulled(s, t, u, 0.7, -1.3, f64[3]([0.4, 1.1, -0.6])) }\n"
    "  jvp(p, (x, y, v), (a, b, c))[1]\n}\n"
    "def lanes(x: f64[3], y: f64, v: f64[3, 3], a: f64, b: f64, c: f64[3]) {\n"
    "  vmap(pulled, in_axes=(0, None, 0, None, None, None))(x, y, v, a, b, c)\n}\n";

static const double point[NX] = {1.3702, -0.8311, 0.5713, -1.2127, 2.8341},
                    weight[NX] = {0.7, -1.3, 0.4, 1.1, -0.6},
                    direction[NX] = {0.37, 0.81, -0.53, 0.29, 0.47};
static const double lane_x[LANES] = {1.3702, -0.4119, 0.2203};

typedef struct {
  anf_ctx *cx;
  anf_diag *d;
  anf_jit_engine *engine;
  size_t ran, unsupported, rough, tried[CHECKS], failed[CHECKS];
  uint64_t seed;
  const char *text;
} bench;

/* ---- values ---- */

static void flatten(const anf_value *v, double *out, size_t *n, size_t max) {
  if (anf_value_get_kind(v) == ANF_VALUE_TUPLE) {
    for (size_t i = 0; i < anf_value_count(v); i++) flatten(anf_value_at(v, i), out, n, max);
    return;
  }
  const double *x = (const double *)anf_value_data(v);
  for (size_t i = 0; i < anf_value_elements(v) && *n < max; i++) out[(*n)++] = x[i];
}

static void arguments(bench *b, const double *x, anf_value **out) {
  int64_t three = 3;
  out[0] = anf_value_f64(b->cx, x[0]);
  out[1] = anf_value_f64(b->cx, x[1]);
  out[2] = anf_value_tensor(b->cx, ANF_F64, 1, &three, x + 2);
}

static void release(anf_value **v, size_t n) {
  for (size_t i = 0; i < n; i++) anf_value_release(v[i]);
}

/* The numbers that function `name` of m gives for x and, if it takes them, u. */
static anf_status numbers(bench *b, anf_module *m, const char *name, const double *x,
                          const double *u, size_t n, double *out) {
  anf_run_opts o = {.size = sizeof o, .max_steps = 20000000, .max_depth = 100000};
  anf_value *arg[6] = {0}, *y = NULL;
  arguments(b, x, arg);
  if (u) arguments(b, u, arg + 3);
  anf_diag_clear(b->d);
  anf_status st = anf_run(anf_module_find(m, name), u ? 6 : 3, arg, &o, b->d, &y);
  size_t got = 0;
  if (st == ANF_OK) flatten(y, out, &got, n);
  anf_value_release(y);
  release(arg, 6);
  return st;
}

static double dot(const double *a, const double *b, double *size) {
  double s = 0;
  *size = 1;
  for (int i = 0; i < NX; i++) s += a[i] * b[i], *size += fabs(a[i] * b[i]);
  return s;
}

static bool finite(const double *a, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (!isfinite(a[i]) || fabs(a[i]) > 1e12) return false;
  return true;
}

/* Is `got` within `tolerance` of the largest of `want`? Where that has a NaN or an infinity, passes
 * that drop what is not needed may make it finite. */
static bool near(const double *want, const double *got, size_t n, double tolerance) {
  double size = 1;
  for (size_t i = 0; i < n; i++)
    if (isfinite(want[i])) size = fmax(size, fabs(want[i]));
  for (size_t i = 0; i < n; i++)
    if (isfinite(want[i]) && !(fabs(want[i] - got[i]) <= tolerance * size)) return false;
  return true;
}

static void complain(bench *b, check c, const char *how, const double *x, const double *y,
                     size_t n) {
  if (b->failed[c]++ >= 3) return;
  printf("# seed %llu, %s: %s\n", (unsigned long long)b->seed, what[c], how);
  for (size_t i = 0; i < anf_diag_count(b->d); i++)
    printf("# %s %s\n", anf_diag_at(b->d, i)->code, anf_diag_at(b->d, i)->message);
  for (size_t i = 0; x && i < n; i++) printf("# %.17g against %.17g\n", x[i], y[i]);
  if (b->failed[c] > 1) return;
  for (const char *s = b->text, *end; *s && (end = strchr(s, '\n')); s = end + 1)
    printf("#   %.*s\n", (int)(end - s), s);
}

/* What is too large for the compiler or the interpreter is said, and no mistake. */
static bool good(bench *b, check c, anf_status st) {
  if (st == ANF_OK) return true;
  if (st == ANF_UNSUPPORTED || st == ANF_LIMIT) b->unsupported++;
  else complain(b, c, anf_status_name(st), NULL, NULL, 0);
  return false;
}

/* ---- differences ---- */

typedef struct {
  double up[NX], down[NX];
} sides;

static bool sides_at(bench *b, anf_module *m, double h, sides *s) {
  double x[NX];
  for (int k = 0; k < 2; k++) {
    for (int i = 0; i < NX; i++) x[i] = point[i] + (k ? -h : h) * direction[i];
    if (numbers(b, m, "out", x, NULL, NX, k ? s->down : s->up) != ANF_OK) return false;
  }
  return finite(s->up, NX) && finite(s->down, NX);
}

/* Is output i smooth between the outermost points? Then its slope, by Richardson's step. */
static bool slope(const sides *s, const double *h, double y, int i, double *out, double *scale) {
  double d[2], bend[2];
  for (int k = 0; k < 2; k++) {
    d[k] = (s[k].up[i] - s[k].down[i]) / (2 * h[k]);
    bend[k] = (s[k].up[i] - 2 * y + s[k].down[i]) / h[k];
  }
  *out = (4 * d[1] - d[0]) / 3;
  *scale = 1 + fabs(y) + fabs(*out);
  bool kink = fabs(bend[1]) > 0.6 * fabs(bend[0]) + 1e-7 * *scale;
  return !kink && fabs(d[0] - d[1]) < 1e-5 * *scale;
}

/* How far rounding reaches, which is far where large numbers cancel: how much the numbers at points
 * close to each other are off a line. */
static double noise(bench *b, anf_module *m, const char *name, const double *u) {
  double x[NX], y[3][NX], most = 0;
  for (int k = 0; k < 10; k++) {
    for (int i = 0; i < NX; i++) x[i] = point[i] + k * 1e-6 * direction[i];
    if (numbers(b, m, name, x, u, NX, y[k % 3]) != ANF_OK) return 0;
    for (int i = 0; k > 1 && i < NX; i++)
      most = fmax(most, fabs(y[k % 3][i] - 2 * y[(k + 2) % 3][i] + y[(k + 1) % 3][i]));
  }
  return 4 * most;
}

static void check_duality(bench *b, anf_module *m, const double *pulled, const double *pushed) {
  double s1, s2, jvp = dot(weight, pushed, &s1), vjp = dot(direction, pulled, &s2);
  b->tried[DUALITY]++;
  if (!finite(pulled, NX) || !finite(pushed, NX) || fabs(jvp - vjp) <= DUAL * (s1 + s2)) return;
  if (!(fabs(jvp - vjp) <= noise(b, m, "pushed", direction)))
    complain(b, DUALITY, "they differ", &jvp, &vjp, 1);
  else b->rough++;
}

static void check_differences(bench *b, anf_module *m, const double *y, const double *pushed) {
  static const double h[2] = {2e-4, 1e-4};
  sides s[2];
  if (!finite(pushed, NX)) { // an infinity on the way
    b->rough++;
    return;
  }
  for (int k = 0; k < 2; k++)
    if (!sides_at(b, m, h[k], &s[k])) {
      b->rough++;
      return;
    }
  b->tried[DIFFERENCES]++;
  for (int i = 0; i < NX; i++) {
    double want, scale;
    if (!slope(s, h, y[i], i, &want, &scale)) b->rough++;
    else if (fabs(want - pushed[i]) <= STEP * scale) continue;
    else if (fabs(want - pushed[i]) <= noise(b, m, "out", NULL) / h[1]) b->rough++;
    else {
      complain(b, DIFFERENCES, "another slope", &pushed[i], &want, 1);
      return;
    }
  }
}

/* ---- the other checks ---- */

static void compare_optimised(bench *b, anf_module *m, const double *pulled, const double *pushed) {
  anf_opt_opts o = {.size = sizeof o, .verify_each = b->seed % VERIFY == 0};
  double got[NX];
  b->tried[OPTIMISED]++;
  anf_diag_clear(b->d);
  if (!good(b, OPTIMISED, anf_optimise(m, "standard", &o, b->d))) return;
  if (good(b, OPTIMISED, numbers(b, m, "pulled", point, weight, NX, got)) &&
      !near(pulled, got, NX, SAME))
    complain(b, OPTIMISED, "another pullback", got, pulled, NX);
  if (good(b, OPTIMISED, numbers(b, m, "pushed", point, direction, NX, got)) &&
      !near(pushed, got, NX, SAME))
    complain(b, OPTIMISED, "another pushforward", got, pushed, NX);
}

static void check_optimised(bench *b, const char *text, const double *pulled,
                            const double *pushed) {
  anf_module *m = NULL;
  if (anf_parse(b->cx, text, "random.anf", b->d, &m) == ANF_OK)
    compare_optimised(b, m, pulled, pushed);
  anf_module_free(m);
}

static void count_rewrites(void *user, anf_module *m, const char *pass, double ms,
                           uint64_t rewrites) {
  (void)m, (void)ms;
  if (strcmp(pass, "simplify") == 0 || strcmp(pass, "cse") == 0) *(uint64_t *)user += rewrites;
}

/* What passes take for simple and unlike all others is so, if they look at it for the first time, too. */
static void check_settled(bench *b, const char *text) {
  anf_module *m = NULL, *again = NULL;
  anf_text ir = {.cx = b->cx};
  uint64_t rewrites = 0;
  anf_opt_opts o = {.size = sizeof o, .after = count_rewrites, .user = &rewrites};
  anf_diag_clear(b->d);
  anf_status st = anf_parse(b->cx, text, "random.anf", b->d, &m);
  if (st == ANF_OK) st = anf_optimise(m, "first_order clean (expand clean)*", NULL, b->d);
  if (st == ANF_OK) st = anf_print_ir(m, &ir);
  if (st == ANF_OK) st = anf_parse_n(b->cx, ir.text, ir.len, "random.ir", b->d, &again);
  if (st == ANF_OK) st = anf_optimise(again, "simplify cse", &o, b->d);
  if (good(b, SETTLED, st)) b->tried[SETTLED]++;
  if (rewrites) complain(b, SETTLED, "there is more to do", NULL, NULL, 0);
  anf_text_free(&ir);
  anf_module_free(again);
  anf_module_free(m);
}

static void check_second(bench *b, anf_module *m) {
  double forward[NX], reverse[NX];
  if (!good(b, SECOND, numbers(b, m, "forward_over", point, direction, NX, forward)) ||
      !good(b, SECOND, numbers(b, m, "reverse_twice", point, direction, NX, reverse)) ||
      !finite(forward, NX))
    return;
  b->tried[SECOND]++;
  if (!near(forward, reverse, NX, DUAL)) complain(b, SECOND, "they differ", forward, reverse, NX);
}

/* x and v change by lane, y does not. */
static void check_batch(bench *b, anf_module *m) {
  int64_t dims[2] = {LANES, 3};
  double v[LANES][3], want[LANES][NX], got[LANES * NX];
  for (int k = 0; k < LANES; k++) {
    double x[NX] = {lane_x[k], point[1]};
    for (int i = 0; i < 3; i++) x[2 + i] = v[k][i] = point[2 + i] * (1 - 0.7 * k);
    if (numbers(b, m, "pulled", x, weight, NX, want[k]) != ANF_OK) return;
  }
  anf_value *arg[6] = {anf_value_tensor(b->cx, ANF_F64, 1, dims, lane_x),
                       anf_value_f64(b->cx, point[1]),
                       anf_value_tensor(b->cx, ANF_F64, 2, dims, v)},
            *y = NULL;
  arguments(b, weight, arg + 3);
  anf_run_opts o = {.size = sizeof o, .max_steps = 20000000, .max_depth = 100000};
  anf_diag_clear(b->d);
  anf_status st = anf_run(anf_module_find(m, "lanes"), 6, arg, &o, b->d, &y);
  release(arg, 6);
  if (!good(b, BATCH, st)) return;
  b->tried[BATCH]++;
  size_t n = 0;
  flatten(y, got, &n, LANES * NX);
  anf_value_release(y);
  for (int k = 0; k < LANES; k++) {
    double lane[NX] = {got[k], got[LANES + k]};
    memcpy(lane + 2, got + 2 * LANES + (size_t)k * 3, 3 * sizeof *lane);
    if (!near(want[k], lane, NX, SAME)) complain(b, BATCH, "a lane", lane, want[k], NX);
  }
}

static void check_compiled(bench *b, const char *text, const double *pulled) {
  anf_exec_opts o = {.size = sizeof o, .engine = b->engine};
  anf_run_opts ro = {.size = sizeof ro};
  anf_module *m = NULL;
  anf_exec *x = NULL;
  anf_value *arg[6], *y = NULL;
  double got[NX];
  size_t n = 0;
  if (anf_parse(b->cx, text, "random.anf", b->d, &m) != ANF_OK) return;
  arguments(b, point, arg);
  arguments(b, weight, arg + 3);
  anf_diag_clear(b->d);
  anf_status st = anf_compile(anf_module_find(m, "pulled"), &o, b->d, &x);
  if (st == ANF_OK) st = anf_exec_run(x, 6, arg, &ro, b->d, &y);
  if (good(b, COMPILED, st)) {
    b->tried[COMPILED]++;
    flatten(y, got, &n, NX);
    if (!near(pulled, got, NX, SAME)) complain(b, COMPILED, "another pullback", got, pulled, NX);
  }
  anf_value_release(y);
  release(arg, 6);
  anf_exec_free(x);
  anf_module_free(m);
}

static void check_all(bench *b, anf_module *plain, anf_module *m, const char *text) {
  double y[NX], pulled[NX], pushed[NX];
  if (numbers(b, plain, "out", point, NULL, NX, y) != ANF_OK || !finite(y, NX)) return;
  b->ran++;
  if (!good(b, DUALITY, numbers(b, m, "pulled", point, weight, NX, pulled)) ||
      !good(b, DUALITY, numbers(b, m, "pushed", point, direction, NX, pushed)))
    return;
  check_duality(b, m, pulled, pushed);
  check_differences(b, plain, y, pushed);
  if (b->seed % every[OPTIMISED] == 0) check_optimised(b, text, pulled, pushed);
  if (b->seed % every[SETTLED] == 0) check_settled(b, text);
  if (b->seed % every[SECOND] == 0 && finite(pulled, NX) && finite(pushed, NX)) check_second(b, m);
  if (b->seed % every[BATCH] == 0) check_batch(b, m);
  if (b->seed % every[COMPILED] == 0) check_compiled(b, text, pulled);
}

/* ---- programs ---- */

static void replace_all(char *s, const char *from, const char *to) { // of one length
  for (char *p = s; (p = strstr(p, from));) memcpy(p, to, strlen(to));
}

/* The text of a program with `more` and `rest` after it. */
static char *with_tail(uint64_t seed, size_t size, const char *more, const char *rest) {
  char *text = generate_function(seed, size);
  size_t need = strlen(text) + strlen(tail) + strlen(more) + strlen(rest) + 16;
  char *s = (char *)malloc(need);
  if (!s) abort();
  snprintf(s, need, "def program%s%s%s%s", text + strlen("def main"), tail, more, rest);
  replace_all(s, "f32", "f64");
  free(text);
  return s;
}

static bool wants_all(uint64_t seed) {
  return seed % VERIFY == 0 || seed % every[SECOND] == 0 || seed % every[BATCH] == 0;
}

static void try_program(bench *b, uint64_t seed, size_t size) {
  char *plain = with_tail(seed, size, "", ""),
       *text = with_tail(seed, size, first, wants_all(seed) ? others : "");
  anf_module *p = NULL, *m = NULL;
  b->seed = seed;
  b->text = text;
  anf_diag_clear(b->d);
  if (anf_parse(b->cx, plain, "random.anf", b->d, &p) != ANF_OK ||
      anf_parse(b->cx, text, "random.anf", b->d, &m) != ANF_OK)
    complain(b, DUALITY, "it does not parse", NULL, NULL, 0);
  else check_all(b, p, m, text);
  anf_module_free(p);
  anf_module_free(m);
  free(plain);
  free(text);
}

static int report(const bench *b, size_t programs) {
  printf("1..%d\n", CHECKS + 1);
  for (int c = 0; c < CHECKS; c++)
    printf("%s %d - %zu random programs: %s\n", b->failed[c] ? "not ok" : "ok", c + 1, b->tried[c],
           what[c]);
  bool useful = b->tried[DIFFERENCES] * 10 >= programs * 6;
  printf("%s %d - of %zu programs %zu run, %zu checks are not supported, %zu points are rough\n",
         useful ? "ok" : "not ok", CHECKS + 1, programs, b->ran, b->unsupported, b->rough);
  return !useful;
}

int main(int argc, char **argv) {
  generate_opts given = generate_read_opts(argc, argv, 600, 30);
  if (given.show) {
    char *text = with_tail(given.seed, given.size, first, others);
    fputs(text, stdout);
    free(text);
    return 0;
  }
  bench b = {.cx = anf_ctx_new(NULL)};
  anf_jit_opts o = {.size = sizeof o, .level = ANF_JIT_O1};
  b.d = anf_diag_new(b.cx);
  if (anf_jit_engine_new(b.cx, ANF_JIT_LLVM, &o, b.d, &b.engine) != ANF_OK) return 1;
  for (size_t i = 0; i < given.programs; i++) try_program(&b, given.seed + i, given.size);
  int rc = report(&b, given.programs);
  anf_jit_engine_free(b.engine);
  anf_diag_free(b.d);
  anf_ctx_free(b.cx);
  return rc;
}
