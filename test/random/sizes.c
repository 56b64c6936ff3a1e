// SPDX-License-Identifier: Apache-2.0
/* sizes [--n N] [--only NAME] [--show]
 * Growth with the size of a program: each stage allocates at most a little more than four times the bytes for a program
 * four times as long. What walks all nodes for each node, or copies a table for each graph, allocates sixteen times as
 * much, or is seen in the size of what it makes. Bytes are counted, no clock is read.
 *
 *   chain(n):   def main(x: f64) { y = x; y = Sin(y) + x; y = Sin(y) + x; ... y }
 *
 * Stages: parse, optimise, compile (for the interpreter of Tensor IR, with all its passes), run in the interpreter, the
 * gradient, that run in the interpreter, and its optimisation. A row below is a family of programs: before, n times the repeated text (# is its number
 * from 0, ~ the next), after, where # is n. */
#include "anfora/anfora.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* FLAT: there is no gradient. LARGE: four times as many, as what is few takes another way. */
typedef enum { LINEAR, FLAT, LARGE } growth;

typedef struct family {
  growth growth;
  const char *name, *part[7]; // part[1], [3], [5] are repeated
} family;

#define MAIN "def main(x: f64) { "
#define PROGRAMS(growth, name, ...)                                                                \
  {                                                                                                \
    growth, name, { __VA_ARGS__ }                                                                  \
  }
static const family families[] = {
    PROGRAMS(LINEAR, "chain", MAIN "y = x; ", "y = Sin(y) + x; ", "y }"),
    PROGRAMS(LINEAR, "wide", MAIN "y = 0.0; ", "y# = Sin(x + #); ", "(y0", " + y#", ") }"),
    PROGRAMS(LINEAR, "functions", "def g0(x) { x }\n", "def g~(x) { g#(x) * 1.5 + # }\n",
             MAIN "g#(x) }"),
    PROGRAMS(LINEAR, "one function",
             "def f(x, k) { if x > k { x * k } else { x + k } }\n" MAIN "y = x; ", "y = f(y, #); ",
             "y }"),
    PROGRAMS(LINEAR, "branches", MAIN "y = x; ", "if y > # { y = y * 1.5 }; ", "y }"),
    PROGRAMS(LINEAR, "joined", MAIN, "y# = x; ", "if x > 1 { ", "y# = x * #; ", "}; y = 0.0; ",
             "y = y + y#; ", "y }"),
    PROGRAMS(LINEAR, "loops", MAIN "y = x; ", "for i in 0..3 { y = y * 0.5 + i }; ", "y }"),
    PROGRAMS(LINEAR, "carried", MAIN, "y# = x; ", "for i in 0..9 { ", "y# = y# * 0.5 + #; ",
             "}; y = 0.0; ", "y = y + y#; ", "y }"),
    PROGRAMS(LINEAR, "tuple", MAIN "t = (x", ", x * #", "); y = 0.0; ", "y = y + t[#]; ", "y }"),
    PROGRAMS(LINEAR, "record", MAIN "t = {a = x", ", a# = x * #", "}; y = 0.0; ", "y = y + t.a#; ",
             "y }"),
    PROGRAMS(LINEAR, "parameters", "def f(a", ", a#", ") { ", "a# + ", "a }\n" MAIN "f(x",
             ", x * #", ") }"),
    PROGRAMS(LINEAR, "closures", MAIN, "def g#(y) { y * x + # }; ", "y = x; ", "y = g#(y) * 0.5; ",
             "y }"),
    PROGRAMS(LINEAR, "captured", MAIN, "y# = x * #; ", "f = fn (z) { z", " + y#",
             " }; f(x) + f(2.0) }"),
    PROGRAMS(LINEAR, "list of functions", MAIN "fs = (Sin", ", fn (y) { y * # }", "); y = x; ",
             "y = fs[#](y); ", "y }"),
    PROGRAMS(LINEAR, "list of closures", MAIN "fs = (Sin", ", fn (y) { y * # + x }", "); y = x; ",
             "y = fs[#](y); ", "y }"),
    PROGRAMS(LINEAR, "row", "", "def g#(x) { if x > # { x * # } else { x + # } }\n", MAIN "y = x; ",
             "y = g#(y); ", "y }"),
    PROGRAMS(LINEAR, "choice", "def main(x: f64, k: i64) { switch(k, (Sin", ", fn (y) { y * # }",
             "))(x) }"),
    PROGRAMS(LINEAR, "choice of closures", "def main(x: f64, k: i64) { switch(k, (Sin",
             ", fn (y) { y * # + x }", "))(x) }"),
    PROGRAMS(LINEAR, "map", MAIN "t = map(fn (y) { y * y }, (x", ", x * #", ")); y = 0.0; ",
             "y = y + t[#]; ", "y }"),
    PROGRAMS(LINEAR, "asserts", MAIN, "assert(x > -#, \"small\"); ", "x }"),
    PROGRAMS(FLAT, "prints", MAIN, "print(x, #); ", "x }"),
    PROGRAMS(LINEAR, "reads", "def main(v: f64[8]) { y = 0.0; ", "y = y + v[# % 8]; ", "y }"),
    PROGRAMS(LINEAR, "writes", "def main(v: f64[8]) { ",
             "v = IndexWrite(v, # % 8, v[~ % 8] * 0.5); ", "Sum(v) }"),
    PROGRAMS(LINEAR, "rows", "def main(v: f64[8, 8]) { y = v; ", "y = Softmax(y + # * v); ",
             "Sum(y) }"),
    PROGRAMS(LINEAR, "products", "def main(v: f64[8, 8]) { y = v; ", "y = Tanh(y @ v); ",
             "Sum(y) }"),
    PROGRAMS(LINEAR, "stacked", MAIN "Sum(Stack(x", ", x * #", ")) }"),
    PROGRAMS(LARGE, "large choice of closures", "def main(x: f64, k: i64) { switch(k, (Sin",
             ", fn (y) { y * # + x }", "))(x) }"),
    PROGRAMS(LINEAR, "closures chosen in a row", "def main(x: f64, k: i64) { f = Sin; ",
             "if k == # { f = fn (y) { y * # + x } }; ", "f(x) }"),
    PROGRAMS(LINEAR, "chain of branches", "def g0(x) { x }\n",
             "def g~(x) { if x > # { g#(x) } else { g#(x * 0.5) } }\n", MAIN "g#(x) }"),
    PROGRAMS(LINEAR, "chain of branches with two arguments", "def g0(x, y) { x * y }\n",
             "def g~(x, y) { if x > # { g#(x, y) } else { g#(y, x * 0.5) } }\n",
             MAIN "g#(x, 1.0) }"),
    PROGRAMS(LINEAR, "chain of branches, each twice", "def g0(x) { Sin(x) }\n",
             "def g~(x) { if x > # { g#(g#(x)) } else { x } }\n", MAIN "g#(x) }"),
    PROGRAMS(LINEAR, "mutual", "def g0(n, x) { if n > 0 { g1(n - 1, x) } else { x } }\n",
             "def g~(n, x) { if n > 0 { g0(n - ~, x * 1.5) } else { x } }\n", MAIN "g0(3, x) }"),
};
#undef PROGRAMS
#undef MAIN
enum { FAMILIES = sizeof families / sizeof *families, STAGES = 7, ROOM = 1 << 17, N = 60 };
static const char *const stages[STAGES] = {"parse",
                                           "optimise",
                                           "compile",
                                           "run",
                                           "differentiate",
                                           "run the gradient",
                                           "optimise the gradient"};

/* ---- text ---- */

static size_t put_repeated(char *to, size_t room, const char *text, size_t i) {
  size_t at = 0;
  for (const char *s = text; *s && at + 24 < room; s++) {
    if (*s == '#' || *s == '~')
      at += (size_t)snprintf(to + at, room - at, "%zu", *s == '#' ? i : i + 1);
    else to[at++] = *s;
  }
  to[at] = 0;
  return at;
}

static void put_program(char *to, const family *f, size_t n) {
  size_t at = 0;
  for (size_t p = 0; p < 7 && f->part[p]; p++) {
    size_t times = p % 2 ? n : 1;
    for (size_t i = 0; i < times; i++)
      at += put_repeated(to + at, ROOM - at, f->part[p], p % 2 ? i : n);
  }
  if (at + 64 > ROOM) abort();
}

/* ---- bytes of each stage ---- */

static void *count_alloc(void *user, void *p, size_t old, size_t size) {
  uint64_t *bytes = (uint64_t *)user;
  if (size > (p ? old : 0)) *bytes += size - (p ? old : 0);
  if (size) return realloc(p, size);
  free(p);
  return NULL;
}

typedef struct {
  uint64_t allocated, bytes[STAGES];
  anf_ctx *cx;
  anf_diag *d;
  anf_module *m;
} counter;

static void take_text(void *user, const char *text, size_t len) {
  (void)user, (void)text, (void)len;
}

/* Bytes since the last stage. */
static bool done(counter *c, size_t stage, anf_status st) {
  c->bytes[stage] = c->allocated;
  c->allocated = 0;
  if (st != ANF_OK)
    printf("# %s: %s\n", stages[stage], anf_status_name(st)), anf_diag_print(c->d, stderr, false);
  return st == ANF_OK;
}

static size_t arguments(counter *c, anf_graph *g, anf_value **arg) {
  static const double numbers[64] = {0.5, 0.25, 0.75};
  size_t n = anf_graph_param_count(g);
  const anf_type *t = anf_node_type(anf_graph_param(g, 0));
  int64_t dims[2] = {8, 8};
  arg[0] = anf_value_tensor(c->cx, ANF_F64, anf_type_rank(t), dims, numbers);
  if (n > 1) arg[1] = anf_value_i64(c->cx, 1);
  return n;
}

static bool run_graph(counter *c, size_t stage, anf_graph *g) {
  anf_value *arg[2] = {NULL, NULL}, *out = NULL;
  anf_run_opts o = {.size = sizeof o, .print = take_text};
  size_t n = arguments(c, g, arg);
  bool good = done(c, stage, anf_run(g, n, arg, &o, c->d, &out));
  for (size_t i = 0; i < n; i++) anf_value_release(arg[i]);
  anf_value_release(out);
  return good;
}

static bool run_stages(counter *c, const family *f, const char *text) {
  anf_exec *x = NULL;
  anf_graph *gradient = NULL;
  anf_exec_opts eo = {.size = sizeof eo, .kind = ANF_JIT_INTERP};
  bool good = done(c, 0, anf_parse(c->cx, text, "main.anf", c->d, &c->m));
  anf_graph *g = good ? anf_module_find(c->m, "main") : NULL;
  if (good) good = done(c, 2, anf_compile(g, &eo, c->d, &x));
  anf_exec_free(x);
  if (good) good = run_graph(c, 3, g);
  if (good && f->growth != FLAT)
    good = done(c, 4, anf_grad(g, NULL, c->d, &gradient)) && run_graph(c, 5, gradient);
  if (good) good = done(c, f->growth == FLAT ? 1 : 6, anf_optimise(c->m, "standard", NULL, c->d));
  return good;
}

static bool count(const family *f, size_t n, uint64_t *bytes) {
  static char text[ROOM];
  counter c = {0};
  anf_ctx_opts o = {.size = sizeof o, .allocator = {count_alloc, &c.allocated}};
  put_program(text, f, n);
  c.cx = anf_ctx_new(&o);
  c.d = anf_diag_new(c.cx);
  bool good = run_stages(&c, f, text);
  anf_module_free(c.m);
  anf_diag_free(c.d);
  anf_ctx_free(c.cx);
  memcpy(bytes, c.bytes, sizeof c.bytes);
  return good;
}

/* Four times as much, a quarter more for tables that double, and what does not grow. */
static bool is_linear(uint64_t one, uint64_t four) { return four <= 5 * one + 65536; }

static bool try_family(const family *f, size_t n) {
  uint64_t one[STAGES], four[STAGES];
  if (f->growth == LARGE) n *= 4;
  bool good = count(f, n, one) && count(f, 4 * n, four);
  for (size_t s = 0; good && s < STAGES; s++) {
    if (is_linear(one[s], four[s])) continue;
    printf("# %s: to %s takes %llu bytes at %zu and %llu at %zu\n", f->name, stages[s],
           (unsigned long long)one[s], n, (unsigned long long)four[s], 4 * n);
    good = false;
  }
  return good;
}

int main(int argc, char **argv) {
  size_t n = N;
  const char *only = NULL;
  bool show = false;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--show") == 0) show = true;
    else if (i + 1 < argc && strcmp(argv[i], "--n") == 0) n = strtoul(argv[++i], NULL, 10);
    else if (i + 1 < argc && strcmp(argv[i], "--only") == 0) only = argv[++i];
  }
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (!show) printf("1..%d\n", only ? 1 : FAMILIES);
  size_t failed = 0, number = 0;
  for (size_t i = 0; i < FAMILIES; i++) {
    static char text[ROOM];
    if (only && strcmp(only, families[i].name) != 0) continue;
    put_program(text, &families[i], n);
    if (show) {
      puts(text);
      continue;
    }
    bool good = try_family(&families[i], n);
    failed += !good;
    printf("%s %zu - %s\n", good ? "ok" : "not ok", ++number, families[i].name);
  }
  return failed > 0;
}
