// SPDX-License-Identifier: Apache-2.0
/* The tests of the rewrite rules, made from their table. Of every rule: it parses; it fires on
 * instances of its own left side and keeps their type; the right side gives the same bits (any NaN
 * is as good as another) through the interpreter, or with `fast`, where the left side is finite,
 * the same numbers up to rounding; it leaves instances alone that fail exactly one guard, and each
 * guard has such instances; without `fast` a fast rule does nothing; the right side is never
 * dearer; the rules end on it, and the result verifies and gives the same. Rules that are wrong on
 * purpose must each be caught. Speaks TAP, one line a rule. rules [--filter WORD] [--seed S]
 * [--draws N] */
#include "sample.h"

#include <math.h>
#include <stdlib.h>

enum { WANT = 120 }; // instances that fire

typedef struct job {
  anf_ctx *cx;
  anf_diag *d;
  const anfi_rule_row *row;
  bool fast; // the variant of the row for --fast
  anfi_rule rule;
  sample s;
  anfi_pass pass;
  anfi_rewriter r;
  anfi_ruleset set;
  anf_node *by;
  uint32_t count; // of the rewriter
  size_t fired, compared, violated[ANFI_RULE_GUARDS], draws;
  char problem[200];
  anf_text program; // that has the problem
} job;

static void complain(job *j, const char *what) {
  if (j->problem[0]) return;
  snprintf(j->problem, sizeof j->problem, "%s", what);
  if (j->s.m) anfi_print_ir(&j->program, j->s.m);
}

/* ---- does it fire ---- */

static anfi_match found;
static bool matched;
static anf_node *note_match(anfi_rewriter *r, const anfi_match *m) {
  (void)r;
  found = *m;
  matched = true;
  return NULL;
}
static const anfi_rule_row probe_row = {.name = "probe", .fn = note_match};

static anf_node *fires(job *j, bool fast) {
  j->pass.fast = fast;
  anf_node *by = anfi_rule_try(&j->r, &j->rule, j->s.root);
  if (anfi_failed(j->cx)) complain(j, "a template that does not type leaves an error behind");
  return by;
}

static void try_rule(job *j) {
  const anfi_rule probe = {.row = &probe_row, .lhs = j->rule.lhs, .nvar = j->rule.nvar};
  uint32_t lies = 0, lie = 0;
  j->by = NULL;
  matched = false;
  anfi_rule_try(&j->r, &probe, j->s.root);
  if (!matched) return;
  for (uint32_t k = 0; k < j->rule.nguard; k++)
    if (!j->rule.guard[k].holds(&j->r, &found, j->rule.guard[k].vars)) lies++, lie = k;
  if (lies == 1) {
    j->violated[lie]++;
    if (fires(j, true)) complain(j, "it fires though a guard does not hold");
  }
  if (lies) return;
  if (j->rule.fast && fires(j, false)) complain(j, "it fires without fast");
  j->by = fires(j, j->rule.fast);
  if (!j->by) return;
  if (j->by->type != j->s.root->type) complain(j, "the type changes");
  anf_node *n = j->by;
  for (int steps = 0; n && n->kind == ANFI_APPLY; steps++, n = anfi_rule_try(&j->r, &j->rule, n))
    if (steps == 50) {
      complain(j, "it does not end");
      return;
    }
}

/* ---- what it costs ---- */

typedef struct {
  double work;
  size_t nodes;
  bool known;
} price;

/* 0 when it is not known; pairs at most nest. */
static size_t elements_of(const anf_type *t) {
  size_t n = 0;
  if (t->kind != ANF_TYPE_TUPLE && t->kind != ANF_TYPE_RECORD)
    return t->kind != ANF_TYPE_TENSOR || !anfi_type_elements(t, &n) ? 0 : n;
  for (uint32_t i = 0; i < t->n; i++) {
    size_t item = elements_of(t->items[i]);
    if (!item) return 0;
    n += item;
  }
  return n;
}

/* Bounded by the depth of patterns. */
static bool is_constant(const anf_node *n) {
  if (n->kind != ANFI_APPLY) return n->kind == ANFI_VALUE;
  for (uint32_t i = 0; i < n->nin; i++)
    if (!is_constant(n->in[i].def)) return false;
  return true;
}

/* Of everything that n needs, each node once; what is made of constants is computed once and for
 * all. Tensors without elements say nothing about cost. */
static price price_of(anf_node *n) {
  anf_node *todo[256] = {n};
  size_t seen = 1;
  price p = {0, 0, true};
  for (size_t i = 0; i < seen; i++) {
    if (todo[i]->kind != ANFI_APPLY || is_constant(todo[i])) continue;
    size_t elements = elements_of(todo[i]->type);
    p.known &= elements != 0;
    p.work += (double)elements * anfi_op_of(todo[i])->cost;
    p.nodes++;
    for (uint32_t k = 0; k < todo[i]->nin; k++) {
      size_t at = 0;
      while (at < seen && todo[at] != todo[i]->in[k].def) at++;
      if (at == seen && seen < ANFI_LEN(todo)) todo[seen++] = todo[i]->in[k].def;
    }
  }
  return p;
}

/* A hook that takes a tuple apart may make more nodes of the same work. */
static void check_price(job *j) {
  price l = price_of(j->s.root), r = price_of(j->by);
  if (!l.known || !r.known) return;
  if (r.work > l.work || (r.work == l.work && r.nodes > l.nodes && !j->row->fn))
    complain(j, "the right side is dearer");
}

/* ---- values ---- */

static bool near(double want, double got, bool exact, double tolerance) {
  if (exact) return (isnan(want) && isnan(got)) || (want == got && signbit(want) == signbit(got));
  return !isfinite(want) || fabs(want - got) <= tolerance * (1 + fabs(want));
}

static bool same_tensor(const anf_value *a, const anf_value *b, bool exact) {
  anf_dtype d = (anf_dtype)a->type->dtype;
  const void *p = a->data, *q = b->data;
  if (anfi_dtype_class(d) == ANFI_CLASS_COMPLEX) {
    for (size_t i = 0; i < 2 * a->n; i++) {
      double x = d == ANF_C64 ? (double)((const float *)p)[i] : ((const double *)p)[i];
      double y = d == ANF_C64 ? (double)((const float *)q)[i] : ((const double *)q)[i];
      if (!near(x, y, exact, 1e-5)) return false;
    }
    return true;
  }
  if (!anfi_dtype_is_float(d)) return anf_value_same(a, b);
  for (size_t i = 0; i < a->n; i++)
    if (!near(anfi_get_f64(a, i), anfi_get_f64(b, i), exact, d == ANF_F32 ? 1e-5 : 1e-12))
      return false;
  return true;
}

/* Pairs at most: what samples have. */
static bool same(const anf_value *a, const anf_value *b, bool exact) {
  if (a->kind != b->kind || a->n != b->n) return false;
  if (a->kind == ANF_VALUE_TENSOR) return a->type == b->type && same_tensor(a, b, exact);
  if (a->kind != ANF_VALUE_TUPLE) return anf_value_same(a, b);
  for (size_t i = 0; i < a->n; i++)
    if (!same(a->u.item[i], b->u.item[i], exact)) return false;
  return true;
}

static anf_value *run(job *j, anf_value *const *args) {
  anf_value *out = NULL;
  anf_diag_clear(j->d);
  return anf_run(j->s.g, j->s.nparam, args, NULL, j->d, &out) == ANF_OK ? out : NULL;
}

/* An arm that is Undef is never read: the condition must choose the other. False: it is a constant
 * that does not. */
static bool choose_defined_arms(job *j, anf_value **args) {
  for (size_t i = 0; i < j->s.m->nodes.n; i++) {
    const anf_node *n = j->s.m->nodes.at[i];
    if (!n || !anfi_is_op(n, ANF_OP_Switch)) continue;
    const anf_node *c = n->in[0].def;
    for (int arm = 1; arm <= 2; arm++) {
      if (!anfi_is_op(n->in[arm].def, ANF_OP_Undef)) continue;
      if (c->kind == ANFI_PARAM) anfi_set_i64(args[c->u.index], 0, arm == 2);
      if (c->kind == ANFI_VALUE && (anfi_get_i64(c->u.value, 0) != 0) == (arm == 1)) return false;
    }
  }
  return true;
}

static anf_status simplify(job *j) {
  ANFI_ENTRY(j->cx, j->d);
  anfi_pass p = {.m = j->s.m, .fast = j->rule.fast, .limit = UINT64_MAX};
  if (anfi_opt_simplify(&p)) anfi_verify(j->s.m);
  return anfi_leave(j->cx);
}

static void check_values(job *j, values how, bool exact, bool last) {
  anf_value *args[MAX_PARAMS], *want, *got = NULL;
  sample_arguments(&j->s, how, args);
  anfi_set_result(j->s.g, j->s.root);
  want = choose_defined_arms(j, args) ? run(j, args) : NULL;
  anfi_set_result(j->s.g, j->by);
  if (want) {
    got = run(j, args);
    j->compared++;
    if (!got) complain(j, "the right side fails where the left side gives a value");
    else if (!same(want, got, exact)) complain(j, "another value");
    anf_value_release(got);
  }
  anfi_set_result(j->s.g, j->s.root);
  anf_diag_clear(j->d);
  if (last && simplify(j) != ANF_OK)
    complain(j, "the rules do not end, or leave what does not verify");
  else if (last && want) {
    got = run(j, args);
    if (!got || !same(want, got, exact)) complain(j, "another value after all rules");
    anf_value_release(got);
  }
  anf_value_release(want);
  for (size_t i = 0; i < j->s.nparam; i++) anf_value_release(args[i]);
}

/* ---- a rule ---- */

static bool rounds(const anf_type *t) {
  return t->kind != ANF_TYPE_TENSOR || anfi_dtype_is_float((anf_dtype)t->dtype) ||
         anfi_dtype_class((anf_dtype)t->dtype) == ANFI_CLASS_COMPLEX;
}

static void check_firing(job *j) {
  bool exact = !(j->rule.fast || j->rule.sums) || !rounds(j->s.root->type);
  j->fired++;
  if (!j->rule.sums) check_price(j); // which does not know how much is summed
  check_values(j, exact ? ANY_BITS : TAME_SIGNED, exact, false);
  check_values(j, TAME, exact, false);
  check_values(j, exact ? ANY_BITS : TAME, exact, true);
}

static void start(job *j) {
  j->pass = (anfi_pass){.limit = UINT64_MAX};
  j->set = (anfi_ruleset){.rules = &j->rule, .n = 1};
  j->r = (anfi_rewriter){.pass = &j->pass,
                         .m = j->s.m,
                         .arena = anfi_scratch(j->cx),
                         .set = &j->set,
                         .fired = &j->count};
}

static anf_status draw_one(job *j) {
  ANFI_ENTRY(j->cx, j->d);
  start(j);
  sample_draw(&j->s);
  return anfi_leave(j->cx);
}
static anf_status try_one(job *j) {
  ANFI_ENTRY(j->cx, j->d);
  start(j);
  j->pass.m = j->s.m;
  try_rule(j);
  return anfi_leave(j->cx);
}

static bool enough(const job *j) {
  for (uint32_t k = 0; k < j->rule.nguard; k++)
    if (!j->violated[k]) return false;
  return (j->fired >= WANT && j->compared >= WANT) || j->problem[0];
}

static void try_instances(job *j, size_t draws) {
  for (; j->draws < draws && !enough(j); j->draws++) {
    anf_diag_clear(j->d);
    bool typed = draw_one(j) == ANF_OK; // else the module went with the frame
    if (typed && j->s.root) {
      if (try_one(j) == ANF_OK && j->by && j->fired < WANT) check_firing(j);
    }
    if (typed) anf_module_free(j->s.m);
    j->s.m = NULL;
  }
  if (!j->fired) complain(j, "it never fires on its own left side");
  if (!j->compared) complain(j, "its sides could never be compared");
  for (uint32_t k = 0; k < j->rule.nguard; k++)
    if (!j->violated[k]) complain(j, "a guard holds whenever the rest does");
}

static anf_status check(job *j, size_t draws) {
  ANFI_ENTRY(j->cx, j->d);
  j->s.cx = j->cx;
  j->s.r = &j->r;
  j->s.rule = &j->rule;
  if (anfi_rule_parse(j->cx, anfi_scratch(j->cx), j->row, j->fast, &j->rule))
    try_instances(j, draws);
  else complain(j, "it does not parse");
  return anfi_leave(j->cx);
}

/* ---- rules that are wrong on purpose, and what is to be found ---- */

static anf_node *same_input(anfi_rewriter *r, const anfi_match *m) {
  (void)r;
  return m->root->in[0].def;
}

static const struct {
  anfi_rule_row row;
  const char *finds;
} wrong[] = {
    {{"sub_lost_neg", "(Sub x (Neg y))", "(Sub x y)", "", NULL, "control"}, "another value"},
    {{"sub_swapped", "(Sub x y)", "(Sub y x)", "", NULL, "control"}, "it does not end"},
    {{"add_0_of_floats", "(Add x 0)", "x", "", NULL, "control"}, "another value"},
    {{"mul_0_of_floats", "(Mul x 0)", "(ZerosLike x)", "", NULL, "control"}, "another value"},
    {{"max_is_first", "(Maximum x y)", NULL, "", same_input, "control"}, "another value"},
    {{"not_less_of_floats", "(LogicalNot (Less x y))", "(LessEqual y x)", "", NULL, "control"},
     "another value"},
    {{"fast_and_wrong", "(Mul (Exp x) (Exp y))", "(Exp (Mul x y))", "fast, same_type x y, float x",
      NULL, "control"},
     "another value"},
    {{"log_is_less_1", "(Log x)", "(Sub x 1)", "fast", NULL, "control"}, "another value"},
    {{"dearer", "(Square x)", "(Mul (Neg x) (Neg x))", "", NULL, "control"},
     "the right side is dearer"},
    {{"unknown_shape", "(Mul x (OnesLike y))", NULL, "real x", same_input, "control"},
     "another value"},
    {{"narrow", "(Add (Add x a:const) b:const)", "(Add x (Add a b))", "exact root, variable x",
      NULL, "control"},
     "another value"},
    {{"unsigned", "(Abs (Neg x))", "(Abs x)", "real x", NULL, "control"}, "another value"},
    {{"shared_reciprocal", "(Mul x (Reciprocal y))", "(Div x y)", "fast, same_dtype y root", NULL,
      "control"},
     "the right side is dearer"},
    {{"divides", "(Mod x y)", "(Sub x (Mul y (FloorDiv x y)))", "int x", NULL, "control"},
     "the right side is dearer"},
    {{"never", "(BitNot x)", "x", "float x", NULL, "control"},
     "it never fires on its own left side"},
    {{"endless", "(Maximum x y)", "(Maximum y x)", "", NULL, "control"}, "it does not end"},
    {{"useless_guard", "(BitNot (BitNot x))", "x", "exact x", NULL, "control"},
     "a guard holds whenever the rest does"},
    {{"no_op", "(Frobnicate x)", "x", "", NULL, "control"}, "it does not parse"},
    {{"no_guard", "(Neg x)", "x", "nonsense x", NULL, "control"}, "it does not parse"},
    {{"unbound", "(Neg x)", "y", "", NULL, "control"}, "it does not parse"},
};

/* ---- */

static void report(size_t i, const job *j, bool good, const char *what) {
  printf("%s %zu - %s %s: %zu instances, %zu comparisons, %zu draws\n", good ? "ok" : "not ok", i,
         what, j->row->name, j->fired, j->compared, j->draws);
  if (good) return;
  printf("# (%s) -> %s if %s: %s\n", j->row->lhs, j->row->rhs ? j->row->rhs : "a hook",
         j->row->guards, j->problem[0] ? j->problem : "nothing was found");
  for (const char *s = j->program.text ? j->program.text : ""; *s;) {
    size_t n = strcspn(s, "\n");
    printf("#   %.*s\n", (int)n, s);
    s += n + (s[n] == '\n');
  }
}

/* One row, or its variant for --fast (anfi_rule_has_fast); `finds`: the problem that a control must show, else NULL. */
static void test_row(const anfi_rule_row *row, const char *finds, bool fast, uint64_t seed,
                     size_t draws, size_t number) {
  job j = {.cx = anf_ctx_new(NULL), .row = row, .fast = fast, .s = {.seed = seed}};
  j.d = anf_diag_new(j.cx);
  j.program.cx = j.cx;
  anf_status st = check(&j, draws);
  bool good = finds ? strcmp(j.problem, finds) == 0 : st == ANF_OK && !j.problem[0];
  report(number, &j, good, finds ? "caught:" : fast ? "rule (fast)" : "rule");
  anf_text_free(&j.program);
  anf_diag_free(j.d);
  anf_ctx_free(j.cx);
}

int main(int argc, char **argv) {
  const char *filter = "";
  uint64_t seed = 1;
  size_t draws = 120000, n = 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--filter") == 0) filter = argv[i + 1];
    else if (strcmp(argv[i], "--seed") == 0) seed = strtoull(argv[i + 1], NULL, 10);
    else if (strcmp(argv[i], "--draws") == 0) draws = (size_t)strtoull(argv[i + 1], NULL, 10);
  }
  for (size_t i = 0; i < anfi_nrules + ANFI_LEN(wrong); i++) {
    bool control = i >= anfi_nrules;
    const anfi_rule_row *row = control ? &wrong[i - anfi_nrules].row : &anfi_rule_rows[i];
    if (!strstr(row->name, filter)) continue;
    for (int fast = 0; fast <= anfi_rule_has_fast(row); fast++)
      test_row(row, control ? wrong[i - anfi_nrules].finds : NULL, fast, seed * 1000 + i, draws,
               ++n);
  }
  printf("1..%zu\n", n);
  return 0;
}
