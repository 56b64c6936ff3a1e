// SPDX-License-Identifier: Apache-2.0
/* footprint_check [RANDOM [FIRST]]: what each pass of Tensor IR makes of a function reads and writes what the function did
 * (footprint.h): of the ops of the table as they are lowered, by their samples, and of random modules. Prints TAP, one line a
 * pass. Nothing is run on numbers: an index that is wrong is found for all of them. */
#include "test/ad_ops/sample.h"
#include "test/tir/footprint.h"
#include "test/tir/values.h"

#include "anfora/anfora.h"

#include <stdlib.h>

enum { MOST_PASSES = 64, SHOWN = 10 };
static const char *const pipelines[] = {"nests", "codegen", "structured"};

typedef struct {
  footprint_counts n;
  size_t changed, failed;
} row;

typedef struct {
  anf_ctx *cx;
  anf_diag *d;
  const char *name[MOST_PASSES];
  row of[MOST_PASSES];
  size_t npass, modules, shown;
} bench;

static void try_pass(bench *b, const anf_tir_module *m, size_t i, const char *what) {
  anf_tir_module *o = NULL;
  char why[300] = "";
  row *r = &b->of[i];
  anf_diag_clear(b->d);
  if (anf_tir_opt(m, b->name[i], NULL, b->d, &o) != ANF_OK) return; // it needs what others make
  bool changed = anf_tir_hash(m) != anf_tir_hash(o);
  r->changed += changed;
  if (changed && !footprints_agree(m, o, &r->n, why, sizeof why)) {
    r->failed++;
    if (b->shown++ < SHOWN) printf("# %s of %s: %s\n", b->name[i], what, why);
    if (b->shown == 1 && getenv("SHOW")) {
      anf_text x = {b->cx, NULL, 0, 0}, y = {b->cx, NULL, 0, 0};
      anf_tir_print(m, &x);
      anf_tir_print(o, &y);
      printf("%s\n---- after\n%s\n", x.text, y.text);
      anf_text_free(&x);
      anf_text_free(&y);
    }
  }
  anf_tir_module_free(o);
}

static void try_text(bench *b, const char *text, size_t len, const char *what) {
  anf_tir_module *m = NULL, *exact = NULL;
  anf_diag_clear(b->d);
  if (anf_tir_parse(b->cx, text, len, "module.tir", b->d, &m) == ANF_OK &&
      anf_tir_opt(m, "index_flattener auto_caster", NULL, b->d, &exact) == ANF_OK) {
    b->modules++;
    for (size_t i = 0; i < b->npass; i++) try_pass(b, exact, i, what);
  }
  anf_tir_module_free(exact);
  anf_tir_module_free(m);
}

/* ---- the ops as they are lowered ---- */

static void try_case(bench *b, anfi_opcode op, const sample *c) {
  const anfi_schema *s = anfi_op_schema(b->cx, op);
  anf_module *m = anf_module_new(b->cx);
  anf_graph *g = anf_graph_new(m, "f");
  anf_attr attr[MAX_ATTRS];
  anf_node *x[MAX_ARGS];
  const anf_type *types[MAX_ARGS];
  size_t nattr = 0, n = 0;
  for (uint32_t k = 0; k < s->nattr; k++)
    if (c->attr[k]) attr[nattr++] = (anf_attr){.name = s->attr[k].name->s, .value = c->attr[k]};
  for (size_t i = 0; i < c->n; i++) {
    const sample_arg *a = &c->arg[i];
    anf_value *none = anf_value_none(b->cx);
    if (!a->absent) types[n] = anf_type_tensor(b->cx, a->dtype, a->rank, a->dims);
    x[i] = a->absent ? anf_constant(m, none) : anf_param(g, "x", types[n++]);
    anf_value_release(none);
  }
  anf_return(g, anf_op_attrs(g, s->name->s, c->n, x, nattr, attr));
  anf_text out = {b->cx, NULL, 0, 0};
  anf_diag_clear(b->d);
  if (anf_module_status(m) == ANF_OK &&
      anf_lowered_print(g, n, types, "tir", NULL, b->d, &out) == ANF_OK)
    try_text(b, out.text, out.len, c->text[0] ? s->name->s : "an op");
  anf_text_free(&out);
  anf_module_free(m);
}

static anf_status try_op(bench *b, anfi_opcode op) {
  ANFI_ENTRY(b->cx, NULL);
  static sample c;
  const char *s = anfi_op[op].sample;
  while (s && sample_next(b->cx, op, &s, &c))
    for (size_t choice = 0; choice < 2 && sample_shapes(&c, choice); choice++) try_case(b, op, &c);
  return anfi_leave(b->cx);
}

/* ---- that it can fail ---- */

static bool differ(bench *b, const char *one, const char *other) {
  anf_tir_module *m = NULL, *o = NULL;
  footprint_counts n = {0};
  char why[300] = "";
  bool found = anf_tir_parse(b->cx, one, strlen(one), "one", b->d, &m) == ANF_OK &&
               anf_tir_parse(b->cx, other, strlen(other), "other", b->d, &o) == ANF_OK &&
               !footprints_agree(m, o, &n, why, sizeof why);
  anf_tir_module_free(m);
  anf_tir_module_free(o);
  return found;
}

static bool finds_others(bench *b) {
#define LOOP(to, at_i)                                                                             \
  "func f(x: [f32 * 3], y: [f32 * 3]): void {\n  for i in (0, " to ", 1) {\n    y[i] = " at_i      \
  "\n  }\n}\n"
  static const char *const sum = LOOP("3", "(x[i] + y[i])");
  static const char *const others[] = {LOOP("3", "(x[(2 - i)] + y[i])"), LOOP("2", "(x[i] + y[i])"),
                                       LOOP("3", "x[i]")};
#undef LOOP
  bool all = !differ(b, sum, sum);
  for (size_t i = 0; i < ANFI_LEN(others); i++) all &= differ(b, sum, others[i]);
  return all;
}

int main(int argc, char **argv) {
  static bench b;
  uint64_t random = argc > 1 ? strtoull(argv[1], NULL, 10) : 40,
           first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  b.cx = anf_ctx_new(NULL);
  b.d = anf_diag_new(b.cx);
  for (size_t i = 0; i < anf_tir_pass_count() && b.npass + 4 < MOST_PASSES; i++)
    b.name[b.npass++] = anf_tir_pass_name(i);
  for (size_t i = 0; i < ANFI_LEN(pipelines); i++) b.name[b.npass++] = pipelines[i];
  for (int op = 1; op < ANF_OP_COUNT; op++) try_op(&b, (anfi_opcode)op);
  for (uint64_t s = first; s < first + random; s++) {
    char *text = random_module(s, 6 + (unsigned)(s % 25), s % 8 == 7), name[40];
    snprintf(name, sizeof name, "module %llu", (unsigned long long)s);
    try_text(&b, text, strlen(text), name);
    free(text);
  }
  size_t failed = 0, followed = 0;
  for (size_t i = 0; i < b.npass; i++) {
    const row *r = &b.of[i];
    failed += r->failed > 0;
    followed += r->n.functions;
    printf("%s %zu - %s: of %zu modules that it changed %zu functions followed and %zu not, %zu "
           "elements written, %zu as the same term\n",
           r->failed ? "not ok" : "ok", i + 1, b.name[i], r->changed, r->n.functions, r->n.skipped,
           r->n.elements, r->n.terms);
  }
  bool useful = b.modules > 200 && followed > 1000, fails = finds_others(&b);
  printf("%s %zu - %zu modules, %zu functions followed\n", useful ? "ok" : "not ok", b.npass + 1,
         b.modules, followed);
  printf("%s %zu - other reads and writes are found\n1..%zu\n", fails ? "ok" : "not ok",
         b.npass + 2, b.npass + 2);
  anf_diag_free(b.d);
  anf_ctx_free(b.cx);
  return failed > 0 || !useful || !fails;
}
