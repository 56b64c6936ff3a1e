// SPDX-License-Identifier: Apache-2.0
/* random_passes [--programs N] [--seed S] [--show SEED]
 * Random programs on which one pass over graphs fires, a family for each pass that general programs seldom reach: `eta`,
 * `count`, `factor`, `batchwise_merge` and those of the quantised path; one for operands that are computed while a product packs them. A program is compiled with the pass and without it, and interpreted;
 * results are the same bits, or within a bound where the pass rounds otherwise. A pass that fires in fewer than half of
 * its programs fails, too. Speaks TAP, one line a pass; a failure prints the program. */
#include "generate.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "anfora/anfora.h"
#include "anfora/exec.h"
#include "anfora/opt.h"

enum { TEXT = 8192, MOST_PARAMS = 8, MOST_ELEMENTS = 6400 };

/* ---- texts ---- */

typedef struct maker {
  uint64_t state;
  char text[TEXT];
  size_t n;
} maker;

static unsigned below(maker *m, unsigned n) { return (unsigned)(generate_next(&m->state) % n); }

static void put(maker *m, const char *format, ...) {
  va_list args;
  va_start(args, format);
  m->n += (size_t)vsnprintf(m->text + m->n, TEXT - m->n, format, args);
  va_end(args);
  if (m->n >= TEXT) abort();
}

static const char *one_of(maker *m, const char *const *list, unsigned n) {
  return list[below(m, n)];
}
#define ONE_OF(m, list) one_of(m, list, (unsigned)(sizeof(list) / sizeof *(list)))

/* A smooth expression of the names, near 1. */
static void put_number(maker *m, const char *const *name, unsigned n, int depth) {
  static const char *const unary[] = {"Sin", "Cos", "Tanh", "Sigmoid"};
  unsigned k = depth ? below(m, 5) : 4;
  if (k < 2) {
    put(m, "(");
    put_number(m, name, n, depth - 1);
    put(m, k ? " * " : " + 0.5 * ");
    put_number(m, name, n, depth - 1);
    put(m, ")");
  } else if (k < 4) {
    put(m, "%s(", ONE_OF(m, unary));
    put_number(m, name, n, depth - 1);
    put(m, ")");
  } else if (below(m, 4)) put(m, "%s", name[below(m, n)]);
  else put(m, "f64(%u.%u)", below(m, 2), below(m, 10));
}

/* Branches that only call: specialisation makes an adapter of each. */
static void eta(maker *m) {
  static const char *const names[] = {"x", "y"};
  unsigned helpers = 2 + below(m, 3);
  for (unsigned i = 0; i < helpers; i++) {
    put(m, "def h%u(c: bool, x: f64, y: f64) {\n  inner = fn (y) { if c { ", i);
    put_number(m, names, 2, 2);
    put(m, " } else { ");
    put_number(m, names, 2, 2);
    put(m, " } }\n  inner(x) + inner(y * 0.5)\n}\n");
  }
  put(m, "def main(c: bool, d: bool, x: f64, y: f64) {\n");
  put(m, "  s = if c { h%u(d, x, y) } else { h%u(d, x, y) }\n", below(m, helpers),
      below(m, helpers));
  put(m, "  t = if d { h%u(c, s, y) } else { h%u(%s, y, s) }\n  s + 0.5 * t\n}\n",
      below(m, helpers), below(m, helpers), below(m, 2) ? "c" : "false");
}

/* A loop that its counter ends: up or down, by 1 to 3, with or without the end, tested before or in the round. */
static void count(maker *m) {
  static const char *const names[] = {"s", "x", "f64(i) * 0.1"};
  bool down = below(m, 2), swapped = below(m, 2), to_n = below(m, 3);
  unsigned by = 1 + below(m, 3), end = below(m, 4);
  const char *op = down ? below(m, 2) ? ">" : ">=" : below(m, 2) ? "<" : "<=";
  const char *turned = op[0] == '<' ? op[1] ? ">=" : ">" : op[1] ? "<=" : "<";
  char bound[8], first[8];
  snprintf(bound, sizeof bound, to_n && !down ? "n" : "%u", end);
  snprintf(first, sizeof first, to_n && down ? "n" : down ? "7" : "%u", below(m, 3));
  put(m, "def main(x: f64, n: i64) {\n  s = x\n  i = %s\n", first);
  if (swapped) put(m, "  while %s %s i", bound, turned);
  else put(m, "  while i %s %s", op, bound);
  put(m, " {\n    s = 0.5 * ");
  put_number(m, names, 3, 3);
  put(m, "\n    i = i %c %u\n  }\n  (s, i)\n}\n", down ? '-' : '+', by);
}

/* The derivative of a recurrence: the adjoint is linear in itself. */
static void factor(maker *m) {
  static const char *const names[] = {"x", "x", "y"};
  put(m, "def f(x: f64, y: f64, n: i64) {\n  while n > 0 {\n    x = 0.5 * x + 0.25 * ");
  put_number(m, names, 3, 2);
  put(m, " * x + 0.125 * x * ");
  put_number(m, names, 3, 1);
  put(m, "\n    n = n - 1\n  }\n  x\n}\ndef main(x: f64, y: f64, n: i64) { grad(f, wrt=(0, 1))(x, "
         "y, n) }\n");
}

static const char *const codes[] = {"i8", "u8"};

/* None, one near the middle, or one at an end of the range. */
static int zero_point(maker *m, const char *code) {
  int least = code[0] == 'i' ? -128 : 0;
  switch (below(m, 6)) {
  case 0:
  case 1: return (int)below(m, 40) - (least ? 20 : 0);
  case 2: return below(m, 2) ? least : least + 255;
  default: return 0;
  }
}

/* Codes of [m, k] as reals: by Dequantize or by hand, the zero point a number. */
static void put_real(maker *m, const char *name, const char *code, bool by_hand) {
  int zero = zero_point(m, code);
  if (by_hand) put(m, "(Cast(%s, f32) - %d.0) * 0.0%u", name, zero, 1 + below(m, 9));
  else put(m, "Dequantize(%s, 0.0%u, Cast(%d, %s))", name, 1 + below(m, 9), zero, code);
}

static void product(maker *m, bool by_hand, const char *before, const char *shape) {
  static const unsigned widths[] = {32, 32, 33, 7, 1};
  const char *a = ONE_OF(m, codes), *b = ONE_OF(m, codes);
  unsigned n = widths[below(m, 5)];
  put(m, "def main(q: %s%s, w: %s[48, %u], b: f32[%u]) {\n  x = ", a, shape, b, n, n);
  put_real(m, "q", a, by_hand);
  put(m, "\n  x = %s\n  y = x @ (", before);
  put_real(m, "w", b, by_hand);
  put(m, ")%s\n", below(m, 2) ? " + b" : "");
  switch (below(m, 3)) {
  case 0: put(m, "  Quantize(Relu(y), 0.5, dtype=u8)\n}\n"); break;
  case 1: put(m, "  Relu(y)\n}\n"); break;
  default: put(m, "  y * 0.5\n}\n"); break;
  }
}

/* Many rows, few, a batch, none. */
static const char *const rows_of_48[] = {"[24, 48]", "[24, 48]",   "[1, 48]",
                                         "[3, 48]",  "[2, 5, 48]", "[0, 48]"};
static void recognised(maker *m) { product(m, true, "x", ONE_OF(m, rows_of_48)); }
static void rescheduled(maker *m) { product(m, below(m, 2), "x", ONE_OF(m, rows_of_48)); }
static void compensated(maker *m) {
  const char *b = ONE_OF(m, codes);
  put(m,
      "def main(q: u8[24, 48], w: %s[48, 32]) {\n  Dequantize(q, 0.0%u, Cast(%u, u8)) @ "
      "Dequantize(w, 0.02",
      b, 1 + below(m, 9), 1 + below(m, 250));
  if (below(m, 2)) put(m, ", Cast(%u, %s)", 1 + below(m, 100), b);
  put(m, ")\n}\n");
}

/* Between the codes and the product they are moved: reshaped, transposed, sliced, looked up. */
static void propagated(maker *m) {
  static const char *const moves[][2] = {{"Reshape(x, (24, 48))", "[24, 6, 8]"},
                                         {"Transpose(Reshape(x, (48, 24)))", "[48, 3, 8]"},
                                         {"x[2:20]", "[24, 48]"},
                                         {"x[:, 3:51]", "[24, 60]"},
                                         {"Take(x, [3, 1, 1, 0, 7], axis=0)", "[24, 48]"},
                                         {"Reshape(Transpose(x), (12, 48))", "[48, 12]"},
                                         {"Reshape(x[1:5], (24, 48))", "[7, 6, 48]"}};
  unsigned k = below(m, 7);
  product(m, false, moves[k][0], moves[k][1]);
}

/* Quantize, FakeQuantize and DynamicQuantize of reals, with pointwise ops around. */
static void inlined(maker *m) {
  const char *code = ONE_OF(m, codes);
  static const char *const shapes[] = {"[24, 48]", "[24, 48]", "[1, 1]", "[3, 5]"};
  const char *shape = ONE_OF(m, shapes);
  int zero = zero_point(m, code);
  put(m, "def main(x: f32%s, y: f32%s) {\n", shape, shape);
  switch (below(m, 4)) {
  case 0:
    put(m, "  Quantize(x * y, 0.0%u, Cast(%d, %s), dtype=%s)\n}\n", 1 + below(m, 9), zero, code,
        code);
    break;
  case 1:
    put(m, "  FakeQuantize(x + y, 0.0%u, Cast(%d, %s), dtype=%s) * y\n}\n", 1 + below(m, 9), zero,
        code, code);
    break;
  case 2:
    put(m,
        "  (q, s, z) = DynamicQuantize(x * y, dtype=%s%s)\n  (q, s, z, Dequantize(q, s, z) + "
        "x)\n}\n",
        code, below(m, 2) ? ", axis=-1" : "");
    break;
  default:
    put(m, "  Dequantize(Quantize(x / y, 0.0%u, dtype=%s), 0.0%u) - y\n}\n", 1 + below(m, 9), code,
        1 + below(m, 9));
    break;
  }
}

/* A layer of many rows and the next: pointwise ops between, with operands of columns. One in five has another reader between. */
static void hidden(maker *m) {
  static const char *const unary[] = {"Relu", "Tanh", "Sigmoid", "Sin", "Abs"};
  unsigned rows = below(m, 2) ? 1024 : 2048, wide = (1u << 19) / rows;
  unsigned k = 1 + below(m, 4096 / rows), p = 1 + below(m, 4);
  bool other = below(m, 5) == 0, exchanged = below(m, 3) == 0;
  put(m, "def main(x: f32[%u, %u], y: f32[%u, %u], b: f32[%u], z: f32[%u, %u]) {\n", rows, k, k,
      wide, wide, exchanged ? p : wide, exchanged ? wide : p);
  put(m, "  h = x @ y\n");
  for (unsigned i = 0, n = below(m, 4); i < n; i++) {
    if (below(m, 2)) put(m, "  h = %s(h)\n", ONE_OF(m, unary));
    else put(m, "  h = %s\n", below(m, 2) ? "h * 0.5 + b" : "b - h");
  }
  put(m, "  %sh @ %s%s\n}\n", other ? "(Sum(h), " : "", exchanged ? "Transpose(z)" : "z",
      other ? ")" : "");
}

/* Left operands of 4096 elements that are moved, activated or both: heads that come together or part, columns, batches. */
static void packed(maker *m) {
  static const char *const unary[] = {"Relu(%s)", "Tanh(%s)", "(%s * 0.5)", "Gelu(%s + 1.0)", "%s"};
  static const char *const operand[][4] = {
      {"x: f32[2, 2, 32, 32]", "Reshape(Transpose(x, (0, 2, 1, 3)), (64, 64))", "64", "Relu(%s)"},
      {"x: f32[1, 8, 32, 16]", "Reshape(Transpose(x, (0, 2, 1, 3)), (1, 32, 128))", "128", "%s"},
      {"x: f32[2, 2, 32, 32], p: f32[32, 32]", "Reshape(Transpose(p @ x, (0, 2, 1, 3)), (64, 64))",
       "64", "%s"},
      {"x: f32[32, 128]", "Transpose(x)", "32", "Tanh(%s)"},
      {"x: f32[2, 48, 64]", "SwapAxes(x, 1, 2)[:, :, 0:48]", "48", "(%s + 0.5)"},
      {"x: f32[1, 64, 64]", "Transpose(x, (0, 2, 1))", "64", "Relu(%s)"},
      {"x: f32[64, 64], c: f32[64], s: f32[64, 1]", "(x * c + s)", "64", "%s"},
      {"x: f32[2, 32, 64]", "(x - 0.25)", "64", "Relu(%s)"}};
  static const unsigned columns[] = {32, 33, 40, 48};
  unsigned k = below(m, 8), n = columns[below(m, k == 4 ? 2 : 4)];
  char inner[256], outer[256];
  bool tb = below(m, 3) == 0;
  snprintf(inner, sizeof inner, operand[k][3], operand[k][1]);
  snprintf(outer, sizeof outer, ONE_OF(m, unary), inner);
  put(m, "def main(%s, w: f32[%s, %u], b: f32[%u]) {\n  y = %s @ %s\n", operand[k][0],
      operand[k][2], n, n, outer, tb ? "SwapAxes(SwapAxes(w, 0, 1) * 1.5, 0, 1)" : "w");
  put(m, "  %s\n}\n", below(m, 2) ? "y" : below(m, 2) ? "Relu(y + b)" : "(y * b, Sum(y))");
}

/* bound: of the largest element, 0 for the same bits; needed: no code is made without the pass; pipeline: one that has
 * the pass, NULL for `standard`. */
static const struct {
  const char *pass;
  void (*make)(maker *m);
  double bound;
  bool needed;
  const char *pipeline;
  unsigned fewer;    // its programs are large: one in so many is run; 0: all
  const char *words; // of --explain, if the lowering does it and no pipeline is without it
} families[] = {{"eta", eta, 0, false, "first_order eta dce clean derive", 0, NULL},
                {"count", count, 0, false, NULL, 0, NULL},
                {"factor", factor, 1e-12, false, NULL, 0, NULL},
                {"analysis_quantized", recognised, 1e-5, false, NULL, 0, NULL},
                {"quantized_info_propagation", propagated, 1e-5, false, NULL, 0, NULL},
                {"quantized_graph_reschedule", rescheduled, 1e-5, false, NULL, 0, NULL},
                {"quantize_op_compensation", compensated, 1e-5, false, NULL, 0, NULL},
                {"quantize_inline", inlined, 0, true, NULL, 0, NULL},
                {"batchwise_merge", hidden, 1e-5, false, "standard batchwise_merge", 5, NULL},
                {"a prologue", packed, 1e-5, true, NULL, 0, "computed while a product packs it"}};
enum { FAMILIES = sizeof families / sizeof *families };

/* ---- runs ---- */

typedef struct bench {
  anf_ctx *cx;
  anf_diag *d;
  size_t fired[FAMILIES], tried[FAMILIES], bad[FAMILIES];
} bench;

static anf_value *argument(anf_ctx *cx, const anf_type *t, uint64_t *state) {
  int64_t dims[4], n = 1;
  float real[MOST_ELEMENTS];
  double wide[4];
  int64_t whole[4];
  unsigned char byte[MOST_ELEMENTS];
  size_t rank = anf_type_rank(t);
  anf_dtype d = anf_type_dtype(t);
  for (size_t i = 0; i < rank; i++) n *= dims[i] = anf_type_dim(t, i);
  if (n > MOST_ELEMENTS) abort();
  for (int64_t i = 0; i < n; i++) {
    uint64_t bits = generate_next(state);
    byte[i] = d == ANF_BOOL ? bits & 1 : bits & 255;
    real[i] = (float)(bits >> 40) * 0x1p-23f - 1;
    if (n == 1)
      wide[0] = (double)(bits >> 11) * 0x1p-53 + 0.25, whole[0] = (int64_t)(bits >> 8) % 9 - 1;
  }
  const void *from = d == ANF_F32   ? (void *)real
                     : d == ANF_F64 ? (void *)wide
                     : d == ANF_I64 ? (void *)whole
                                    : (void *)byte;
  return anf_value_tensor(cx, d, rank, dims, from);
}

static bool near(const anf_value *a, const anf_value *b, double bound) {
  if (anf_value_get_kind(a) != anf_value_get_kind(b)) return false;
  if (anf_value_get_kind(a) == ANF_VALUE_TUPLE) {
    for (size_t i = 0; i < anf_value_count(a); i++)
      if (!near(anf_value_at(a, i), anf_value_at(b, i), bound)) return false;
    return anf_value_count(a) == anf_value_count(b);
  }
  anf_dtype d = anf_value_dtype(a);
  if (d != anf_value_dtype(b) || anf_value_elements(a) != anf_value_elements(b)) return false;
  if (bound == 0 || (d != ANF_F32 && d != ANF_F64 && anf_dtype_bytes(d) > 1))
    return anf_value_same(a, b);
  double most = 0, off = 0, steps = anf_dtype_bytes(d) == 1; // a code may round to its neighbour
  for (size_t i = 0; i < anf_value_elements(a); i++) {
    double x = anf_value_get_f64(a, i), y = anf_value_get_f64(b, i);
    if (x != y && !(isnan(x) && isnan(y))) off = fmax(off, fabs(x - y));
    most = fmax(most, fabs(x));
  }
  return off <= fmax(bound * most, steps);
}

static const char *pipeline_text(const char *name) {
  const char *text, *found;
  for (size_t i = 0; (found = anf_pipeline_name(i, &text)); i++)
    if (strcmp(found, name) == 0) return text;
  return NULL;
}

/* The pipeline, and those that it names, without the pass. */
static void put_without(maker *out, const char *text, const char *pass) {
  while (*text) {
    size_t len = strcspn(text, " ()*");
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)len, text);
    if (!len) put(out, "%c", *text++);
    else if (pipeline_text(word)) put_without(out, pipeline_text(word), pass);
    else if (strcmp(word, pass) != 0) put(out, "%s", word);
    text += len;
  }
}

static anf_value *compiled(bench *b, anf_graph *g, size_t n, anf_value **arg,
                           const char *pipeline) {
  anf_jit_opts jit = {.size = sizeof jit, .level = ANF_JIT_O0};
  anf_exec_opts o = {.size = sizeof o, .jit = &jit, .pipeline = pipeline};
  anf_exec *e = NULL;
  anf_value *v = NULL;
  if (anf_compile(g, &o, b->d, &e) == ANF_OK) anf_exec_run(e, n, arg, NULL, b->d, &v);
  anf_exec_free(e);
  return v;
}

static bool has_fired(bench *b, anf_graph *g, size_t f) {
  const char *pass = families[f].pass;
  anf_text t = {.cx = b->cx};
  anf_exec_opts o = {.size = sizeof o, .pipeline = families[f].pipeline};
  const anf_type *type[MOST_PARAMS];
  size_t n = anf_graph_param_count(g), len = strlen(pass);
  for (size_t i = 0; i < n; i++) type[i] = anf_node_type(anf_graph_param(g, i));
  bool fired = false;
  if (anf_lowered_print(g, n, type, "fusion", &o, b->d, &t) == ANF_OK && t.text) {
    const char *at = strstr(t.text, "passes of graphs: "), *words = families[f].words;
    if (words) fired = strstr(t.text, words) != NULL;
    for (const char *w = words ? NULL : at; w && (w = strstr(w, pass)); w += len)
      fired |= (w[-1] == ' ' || w[-1] == ',') && w[len] == ' ';
  }
  anf_text_free(&t);
  return fired;
}

static void complain(bench *b, size_t f, const maker *m, const char *what) {
  if (b->bad[f]++) return;
  printf("# %s: %s\n", families[f].pass, what);
  for (size_t i = 0; i < anf_diag_count(b->d); i++)
    printf("# %s %s\n", anf_diag_at(b->d, i)->code, anf_diag_at(b->d, i)->message);
  for (const char *s = m->text, *stop; (stop = strchr(s, '\n')); s = stop + 1)
    printf("#   %.*s\n", (int)(stop - s), s);
}

static void one(bench *b, size_t f, uint64_t seed, bool show) {
  maker m = {.state = seed * 0x9e3779b97f4a7c15U + f}, without = {0};
  anf_module *module = NULL;
  anf_value *arg[MOST_PARAMS], *want = NULL, *with, *other;
  families[f].make(&m);
  if (show) printf("%s\n", m.text);
  anf_diag_clear(b->d);
  if (anf_parse(b->cx, m.text, "random.anf", b->d, &module) != ANF_OK) {
    complain(b, f, &m, "is not read");
    return;
  }
  anf_graph *g = anf_module_find(module, "main");
  size_t n = anf_graph_param_count(g);
  for (size_t i = 0; i < n; i++)
    arg[i] = argument(b->cx, anf_node_type(anf_graph_param(g, i)), &m.state);
  put_without(&without, families[f].pipeline ? families[f].pipeline : "standard", families[f].pass);
  b->tried[f]++;
  b->fired[f] += has_fired(b, g, f);
  anf_run(g, n, arg, NULL, b->d, &want);
  with = compiled(b, g, n, arg, families[f].pipeline);
  other = families[f].needed ? NULL : compiled(b, g, n, arg, without.text);
  if (!want || !with || (!other && !families[f].needed)) complain(b, f, &m, "is refused");
  else if (!near(want, with, fmax(families[f].bound, 1e-12)))
    complain(b, f, &m, "compiled code differs from the interpreter");
  else if (other && !near(with, other, families[f].bound))
    complain(b, f, &m, "with the pass and without it results differ");
  for (size_t i = 0; i < n; i++) anf_value_release(arg[i]);
  anf_value_release(want), anf_value_release(with), anf_value_release(other);
  anf_module_free(module);
}

int main(int argc, char **argv) {
  generate_opts o = generate_read_opts(argc, argv, 25, 0);
  anf_ctx *cx = anf_ctx_new(NULL);
  bench b = {.cx = cx, .d = anf_diag_new(cx)};
  bool bad = false;
  for (size_t f = 0; f < FAMILIES; f++) {
    size_t step = families[f].fewer ? families[f].fewer : 1;
    for (size_t i = 0; i < (o.show ? 1 : o.programs); i += step) one(&b, f, o.seed + i, o.show);
    bool good = !b.bad[f] && 2 * b.fired[f] >= b.tried[f];
    bad |= !good;
    printf("%s %zu - %s, which fires in %zu of %zu programs\n", good ? "ok" : "not ok", f + 1,
           families[f].pass, b.fired[f], b.tried[f]);
  }
  printf("1..%d\n", FAMILIES);
  anf_diag_free(b.d);
  anf_ctx_free(cx);
  return bad;
}
