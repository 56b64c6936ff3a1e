// SPDX-License-Identifier: Apache-2.0
/* Every pass of the Tensor IR on functions of 12,500 and 100,000 statements: processor time a
 * statement, and how it grows with eight times the size. A linear pass keeps it; parse and print are
 * measured alike. Then programs that single passes may find hard. */
#define _POSIX_C_SOURCE 200809L
#include "bench.h"

#include "anfora/tir.h"

#include <string.h>
#include <time.h>

enum { SMALL = 12500, LARGE = 100000, MOST_PASSES = 64 };
static const double growth_limit =
    5; // of the time a statement takes: caches cost some, and so does
       // moving a module to a new store, which the next pass pays

typedef struct timed {
  const char *name[MOST_PASSES];
  double ns[2][MOST_PASSES];
  size_t n[2];
  int at;
  double since;
} timed;

static double cpu_ns(void) { // of this process: other work on the machine does not count
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void note(void *user, const char *pass, uint64_t ns) {
  timed *t = (timed *)user;
  size_t i = t->n[t->at]++;
  double now = cpu_ns();
  (void)ns;
  if (i >= MOST_PASSES) return;
  t->name[i] = pass;
  t->ns[t->at][i] = now - t->since;
  t->since = cpu_ns();
}

static char *program(size_t statements, size_t *len) {
  size_t cap = statements * 64 + 4096;
  char *s = (char *)malloc(cap);
  if (!s) exit(2);
  int n = sprintf(
      s, "func f(n: s32, A: [f32 * 64 * 64], B: [f32 * 64 * 64]): f32 {\n  var x: f32 = 0.f\n");
  for (size_t i = 0; i < statements / 5; i++) {
    unsigned a = (unsigned)(i * 7 % 64), b = (unsigned)(i * 13 % 64);
    n +=
        sprintf(s + n, "  for i%zu in (0, 64, 1)%s {\n    A[%u, i%zu] = (B[%u, i%zu] + 1.f)\n  }\n",
                i, i % 3 ? "" : " parallel", a, i, b, i);
    n += sprintf(s + n,
                 "  if (n > %u) {\n    x = (x + A[%u, %u])\n  }\n  var t%zu: f32 = (x * 2.f)\n  "
                 "B[%u, 0] = t%zu\n",
                 a, a, b, i, b, i);
  }
  n += sprintf(s + n, "  return x\n}\n");
  *len = (size_t)n;
  return s;
}

/* ---- programs that a pass may find hard ---- */

/* Loops that all may become one */
static size_t neighbours(char *s, size_t i) {
  return (size_t)sprintf(
      s, "  for i in (0, 64, 1) parallel @[merge_loop] {\n    A[%zu, i] = 1.f\n  }\n", i % 64);
}
/* Variables of one name, each hiding the one before */
static size_t one_name(char *s, size_t i) {
  return (size_t)sprintf(s, "  var y: f32 = (x + %zu.f)\n  B[0, 0] = y\n", i % 9);
}
/* A variable that every branch assigns */
static size_t branches(char *s, size_t i) {
  return (size_t)sprintf(s, "  if (n > %zu) {\n    x = (x + 1.f)\n  }\n", i % 9);
}
/* Local tensors, each dead before the next is defined, written and read by constants */
static size_t locals(char *s, size_t i) {
  return (size_t)sprintf(s, "  tensor T: [f32 * 8]\n  T[%zu] = x\n  x = (T[%zu] + 2.f)\n", i % 8,
                         i % 8);
}
static const struct {
  const char *what, *passes;
  size_t (*part)(char *s, size_t i);
  size_t statements; // of a part
} hard[] = {{"neighbours: loop_merger", "loop_merger", neighbours, 2},
            {"neighbours: parallel_merge", "parallel_merge", neighbours, 2},
            {"one name: default", "default", one_name, 2},
            {"branches: default", "default", branches, 2},
            {"locals: default", "default", locals, 3}};

static char *hard_program(size_t k, size_t statements, size_t *len) {
  char *s = (char *)malloc(statements * 64 + 4096);
  if (!s) exit(2);
  size_t n = (size_t)sprintf(
      s, "func f(n: s32, A: [f32 * 64 * 64], B: [f32 * 64 * 64]): f32 {\n  var x: f32 = 0.f\n");
  for (size_t i = 0; i < statements / hard[k].statements; i++) n += hard[k].part(s + n, i);
  n += (size_t)sprintf(s + n, "  return x\n}\n");
  *len = n;
  return s;
}

/* A program and what is made of it. */
typedef struct {
  char *source;
  size_t len;
  anf_ctx *cx;
  anf_diag *d;
  anf_tir_module *m, *o;
  anf_text out;
} job;

static job open_job(char *source, size_t len) {
  anf_ctx *cx = anf_ctx_new(NULL);
  if (!cx) exit(2);
  return (job){.source = source, .len = len, .cx = cx, .d = anf_diag_new(cx), .out = {.cx = cx}};
}

static void close_job(job *j) {
  anf_diag_print(j->d, stdout, false);
  anf_text_free(&j->out);
  anf_tir_module_free(j->o);
  anf_tir_module_free(j->m);
  anf_diag_free(j->d);
  anf_ctx_free(j->cx);
  free(j->source);
}

static double parse_ns(job *j) {
  double start = cpu_ns();
  bench_check(anf_tir_parse(j->cx, j->source, j->len, "bench", j->d, &j->m) == ANF_OK,
              "the program does not parse");
  return cpu_ns() - start;
}

static double opt_ns(job *j, const char *passes, const anf_tir_opt_opts *opts) {
  double start = cpu_ns();
  bench_check(anf_tir_opt(j->m, passes, opts, j->d, &j->o) == ANF_OK, "a pass failed");
  return cpu_ns() - start;
}

static double print_ns(job *j, const anf_tir_module *m) {
  double start = cpu_ns();
  bench_check(anf_tir_print(m, &j->out) == ANF_OK, "the program does not print");
  return cpu_ns() - start;
}

/* All of it: read, passes, text */
static double hard_ns(size_t k, size_t statements) {
  size_t len;
  char *source = hard_program(k, statements, &len);
  job j = open_job(source, len);
  double ns = parse_ns(&j);
  ns += opt_ns(&j, hard[k].passes, NULL);
  ns += print_ns(&j, j.o);
  close_job(&j);
  return ns;
}

static void once(size_t statements, int at, timed *t, const char *passes, double *parse,
                 double *print) {
  size_t len;
  char *source = program(statements, &len);
  job j = open_job(source, len);
  anf_tir_opt_opts opts = {.size = sizeof opts, .timed = note, .user = t};
  parse[at] = parse_ns(&j);
  print[at] = print_ns(&j, j.m);
  t->since = cpu_ns();
  t->at = at;
  t->n[at] = 0;
  opt_ns(&j, passes, &opts);
  close_job(&j);
}

static void line(const char *name, double small, double large) {
  double a = small / SMALL, b = large / LARGE;
  bool fast = large < 2e7; // too short to tell
  printf("  %-30s %8.0f %8.0f ns a statement, growth %.2f%s\n", name, a, b, b / a,
         fast || b / a < growth_limit ? "" : "  BROKEN");
  if (!fast && b / a >= growth_limit) bench_bad = 1;
}

/* A pass that is not measured would not be known to be linear. */
static void every_pass(const timed *t) {
  for (size_t i = 0; i < anf_tir_pass_count(); i++) {
    bool met = false;
    for (size_t k = 0; k < t->n[1] && k < MOST_PASSES; k++)
      met |= strcmp(t->name[k], anf_tir_pass_name(i)) == 0;
    bench_check(met, anf_tir_pass_name(i));
  }
}

int main(void) {
  static timed t;
  double parse[2], print[2];
  const char *passes =
      "trace_inserter dyn_boundary_check default bf16_eliminator function_splitter";
  once(SMALL, 0, &t, passes, parse, print);
  once(LARGE, 1, &t, passes, parse, print);
  every_pass(&t);
  line("parse", parse[0], parse[1]);
  line("print", print[0], print[1]);
  for (size_t i = 0; i < t.n[1] && i < MOST_PASSES; i++) line(t.name[i], t.ns[0][i], t.ns[1][i]);
  for (size_t k = 0; k < sizeof hard / sizeof *hard; k++)
    line(hard[k].what, hard_ns(k, SMALL), hard_ns(k, LARGE));
  return bench_bad;
}
