// SPDX-License-Identifier: Apache-2.0
/* Outcomes of a program in every engine, compared: a value, or a refusal by its code and place, and what was
 * printed. A program that is running is shown if it crashes. */
#include "oracle.h"

#include "ir/ir.h"
#include "rebuild.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PRINTED = 4096, SHOWN = 20 };

typedef struct {
  anf_status status;
  bool not_made; // refused before it ran
  anf_value *value;
  anf_module *module; // of the functions in it
  anf_module *read;   // that it was built from, which has attributes of ops as values
  char code[8];
  uint32_t line, col;
  char message[256];
  char printed[PRINTED + 1];
  size_t nprinted;
} outcome;

static const char *const names[ORACLE_ENGINES] = {"interpreter",
                                                  "interpreter of Tensor IR",
                                                  "LLVM, not optimised",
                                                  "LLVM",
                                                  "C compiler",
                                                  "interpreter, of what functions of C built",
                                                  "Tensor IR, of what functions of C built",
                                                  "LLVM, of what functions of C built",
                                                  "Tensor IR, of what was optimised before"};
static const struct {
  anf_jit_kind kind;
  anf_jit_level level;
  bool built;
  const char *passes; // before it is compiled
} kinds[ORACLE_ENGINES] = {
    [ORACLE_TIR] = {.kind = ANF_JIT_INTERP, .level = ANF_JIT_O0},
    [ORACLE_LLVM_O0] = {.kind = ANF_JIT_LLVM, .level = ANF_JIT_O0},
    [ORACLE_LLVM] = {.kind = ANF_JIT_LLVM, .level = ANF_JIT_O2},
    [ORACLE_CJIT] = {.kind = ANF_JIT_CJIT, .level = ANF_JIT_O2},
    [ORACLE_BUILT] = {.built = true},
    [ORACLE_BUILT_TIR] = {.kind = ANF_JIT_INTERP, .level = ANF_JIT_O0, .built = true},
    [ORACLE_BUILT_LLVM] = {.kind = ANF_JIT_LLVM, .level = ANF_JIT_O2, .built = true},
    [ORACLE_STANDARD_TIR] = {.kind = ANF_JIT_INTERP, .level = ANF_JIT_O0, .passes = "standard"}};

static bool interprets(int e) { return e == ORACLE_INTERP || e == ORACLE_BUILT; }

/* ---- crashes ---- */

static const char *volatile running, *volatile running_by;

static void put_fd(const char *s) {
  if (write(2, s, strlen(s)) < 0) _exit(3);
}

static void crashed(int sig) {
  put_fd("# crashed by ");
  put_fd(running_by ? running_by : "nothing");
  put_fd(":\n");
  put_fd(running ? running : "");
  put_fd("\n");
  signal(sig, SIG_DFL);
  raise(sig);
}

/* ---- outcomes ---- */

static void take_text(void *user, const char *text, size_t len) {
  outcome *to = (outcome *)user;
  if (len > PRINTED - to->nprinted) len = PRINTED - to->nprinted;
  memcpy(to->printed + to->nprinted, text, len);
  to->nprinted += len;
}

static void take_refusal(const anf_diag *d, outcome *to) {
  const anf_diag_item *first = anf_diag_at(d, 0);
  if (!first) return;
  snprintf(to->code, sizeof to->code, "%s", first->code);
  snprintf(to->message, sizeof to->message, "%s", first->message);
  to->line = first->line;
  to->col = first->col;
}

static anf_status run_main(oracle *o, anf_module *m, int e, size_t n, anf_value *const *args,
                           outcome *to) {
  anf_run_opts ro = {.size = sizeof ro,
                     .max_steps = o->max_steps ? o->max_steps : 1000000,
                     .max_depth = 10000,
                     .print = take_text,
                     .print_user = to};
  anf_graph *g = anf_module_find(m, o->function ? o->function : "main");
  anf_value *f = o->callee;
  if (interprets(e) && f) return anf_run_value(o->cx, f, n, args, &ro, o->d, &to->value);
  if (interprets(e)) return anf_run(g, n, args, &ro, o->d, &to->value);
  anf_exec_opts eo = {.size = sizeof eo, .engine = o->engine[e]};
  anf_exec *x = NULL;
  anf_status st = f ? anf_compile_value(o->cx, f, &eo, o->d, &x) : anf_compile(g, &eo, o->d, &x);
  to->not_made = st != ANF_OK;
  ro.max_steps = 0;
  if (st == ANF_OK) st = anf_exec_run(x, n, args, &ro, o->d, &to->value);
  anf_exec_free(x);
  return st;
}

/* What nothing but other functions than main uses is not compiled. */
static void keep_main(anf_module *m) {
  anf_graph *g = anf_module_find(m, "main");
  if (g) anfi_only_public(g);
}

/* What functions of C make in the place of what was read. */
static anf_status build(oracle *o, anf_module *read, anf_module **built) {
  *built = rebuild(read);
  anf_status st = anf_module_status(*built);
  return st == ANF_OK && anf_verify(read, NULL) == ANF_OK ? anf_verify(*built, o->d) : st;
}

/* The outcome of the text after the passes of a pipeline, or of the text as it is. */
static void find_after(oracle *o, const char *text, const char *passes, int e, size_t n,
                       anf_value *const *args, outcome *to) {
  anf_module *m = NULL;
  memset(to, 0, sizeof *to);
  anf_diag_clear(o->d);
  running = text;
  running_by = names[e];
  to->status = anf_parse(o->cx, text, "main.anf", o->d, &m);
  if (to->status == ANF_OK && kinds[e].built) {
    to->read = m;
    to->status = build(o, to->read, &m);
  }
  if (to->status == ANF_OK && passes) {
    keep_main(m);
    to->status = anf_optimise(m, passes, NULL, o->d);
  }
  to->not_made = passes && to->status != ANF_OK;
  if (to->status == ANF_OK) to->status = run_main(o, m, e, n, args, to);
  bool built = !m || anf_module_status(m) == ANF_OK;
  if (to->status != ANF_OK) take_refusal(built ? o->d : anf_module_diag(m), to);
  to->module = m;
  running = NULL;
}

static void find_outcome(oracle *o, const char *text, int e, size_t n, anf_value *const *args,
                         outcome *to) {
  find_after(o, text, NULL, e, n, args, to);
}

static void free_outcome(outcome *x) {
  anf_value_release(x->value);
  anf_module_free(x->module);
  anf_module_free(x->read);
}

/* ---- comparison ---- */

static bool near(double x, double y, double part) {
  if (x != x || y != y) return x != x && y != y;
  if (isinf(x) || isinf(y)) return x == y;
  double size = fabs(x) > fabs(y) ? fabs(x) : fabs(y);
  return x == y || fabs(x - y) <= part * (size > 1 ? size : 1);
}

/* What rounding may grow to in a type. */
static double part_of(const anf_value *v) {
  switch (anf_value_dtype(v)) {
  case ANF_F64:
  case ANF_C128:
  case ANF_INT:
  case ANF_FLOAT:
  case ANF_COMPLEX: return 1e-12;
  case ANF_BF16: return 2e-2;
  case ANF_F16: return 2e-3;
  default: return 1e-4;
  }
}

/* Of the narrowest type that the program names: compiled code may give a number that has no type that of another branch. */
static double named_part(const char *text) {
  return strstr(text, "bf16(")  ? 2e-2
         : strstr(text, "f16(") ? 2e-3
         : strstr(text, "f32(") ? 1e-4
         : strstr(text, "c64(") ? 1e-4
                                : 0;
}

static double branch_part; // of the program that is compared

/* The real (0) or imaginary (1) part of element i. */
static double part_at(const anf_value *v, size_t i, size_t k) {
  anf_dtype d = anf_value_dtype(v);
  const void *at = anf_value_data(v);
  if (d == ANF_C64) return (double)((const float *)at)[2 * i + k];
  if (d == ANF_C128 || d == ANF_COMPLEX) return ((const double *)at)[2 * i + k];
  return k ? 0 : anf_value_get_f64(v, i);
}

static bool same_floats(const anf_value *a, const anf_value *b, size_t n) {
  double part = fmax(fmax(part_of(a), part_of(b)), branch_part);
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k < 2; k++)
      if (!near(part_at(a, i, k), part_at(b, i, k), part)) return false;
  return true;
}

/* A number that has no type yet in the interpreter may have taken that of another branch. */
static bool is_weak(const anf_value *v) {
  anf_dtype d = anf_value_dtype(v);
  return d == ANF_INT || d == ANF_FLOAT || d == ANF_COMPLEX;
}

static bool same(const anf_value *a, const anf_value *b) {
  if (!a || !b) return a == b;
  if (anf_value_get_kind(a) != anf_value_get_kind(b)) return false;
  anf_value_kind k = anf_value_get_kind(a);
  if (k == ANF_VALUE_FN) return true; // called elsewhere
  if (k == ANF_VALUE_TUPLE || k == ANF_VALUE_RECORD) {
    if (anf_value_count(a) != anf_value_count(b)) return false;
    for (size_t i = 0; i < anf_value_count(a); i++)
      if (!same(anf_value_at(a, i), anf_value_at(b, i))) return false;
    return true;
  }
  if (anf_value_same(a, b)) return true;
  if (k != ANF_VALUE_TENSOR || (anf_value_dtype(a) != anf_value_dtype(b) && !is_weak(a)))
    return false;
  if (anf_value_rank(a) != anf_value_rank(b)) return false;
  for (size_t i = 0; i < anf_value_rank(a); i++)
    if (anf_value_dim(a, i) != anf_value_dim(b, i)) return false;
  if (anf_value_dtype(a) < ANF_F16) return false; // integers and bools are exact
  if (is_weak(a) && anf_value_dtype(b) < ANF_F16)
    return anf_value_get_i64(a, 0) == anf_value_get_i64(b, 0);
  return same_floats(a, b, anf_value_elements(a));
}

/* A number that is too large for the float type of another branch, which compiled code refuses, as it does an integer that
 * wraps there. */
static bool overflows(const outcome *x) {
  static const char *const of[] = {"outside f", "outside bf", "outside c", "outside int"};
  for (size_t i = 0; i < 4; i++)
    if (strcmp(x->code, "E0561") == 0 && strstr(x->message, of[i])) return true;
  return false;
}

/* Compiled code has one type where the interpreter takes each branch as it is: E0515, E0562, and E0561 for floats. */
static bool unsupported(const outcome *x) {
  return x->status == ANF_UNSUPPORTED || x->status == ANF_LIMIT || overflows(x) ||
         strcmp(x->code, "E0515") == 0 || strcmp(x->code, "E0562") == 0;
}

/* One error has two codes where inference finds what the interpreter meets: inference says of an op that its
 * arguments are bad, the op itself which; one index of a choice is an assertion in compiled code. */
static bool same_code(const char *a, const char *b) {
  static const char *const pairs[][2] = {{"E0441", "E0442"}};
  if (strcmp(a, b) == 0) return true;
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
    if (strcmp(a, pairs[i][0]) == 0 && strcmp(b, pairs[i][1]) == 0) return true;
  return false;
}

/* Inference looks at a whole program: it may find another error than the one that is met first, or one in a branch
 * that is not taken. */
static bool found_earlier(oracle *o, const outcome *want, const outcome *got) {
  bool types = strncmp(got->code, "E05", 3) == 0 || strncmp(got->code, "E02", 3) == 0;
  bool place = want->status == ANF_OK || want->line != got->line || want->col != got->col;
  types |= (want->status != ANF_OK || got->not_made) &&
           strncmp(got->code, "E04", 3) == 0; // of constants
  if (!o->several || !types || got->status != ANF_INVALID || !place) return false;
  o->earlier++;
  return true;
}

/* Numbers may differ by rounding. */
static bool same_text(const char *a, const char *b) {
  while (*a && *b) {
    char *enda, *endb;
    double x = strtod(a, &enda), y = strtod(b, &endb);
    if (enda > a && endb > b && near(x, y, 1e-4)) a = enda, b = endb;
    else if (*a++ != *b++) return false;
  }
  return *a == *b;
}

static const char *difference(oracle *o, const outcome *want, const outcome *got) {
  if (got->status == ANF_INTERNAL) return "an internal error";
  if (unsupported(got) || unsupported(want) || found_earlier(o, want, got)) return NULL;
  if (want->status != got->status) return "another status";
  if (want->status != ANF_OK) {
    if (!same_code(want->code, got->code)) return "another code";
    if (want->line != got->line || want->col != got->col) return "another place";
    return NULL; // what is printed before an error that is found early is not
  }
  if (!same_text(want->printed, got->printed)) return "other printed text";
  return same(want->value, got->value) ? NULL : "another value";
}

/* ---- values that nothing uses ---- */

/* What a value cannot be made of, such as an index outside or a type that an op does not take, is found where the value is
 * used (docs/language.md), elsewhere by some engines only. Assertions always are. */
static bool by_value(const outcome *x) {
  bool of_value = strncmp(x->code, "E04", 3) == 0 || strncmp(x->code, "E05", 3) == 0;
  return x->status == ANF_INVALID && of_value && strcmp(x->code, "E0442") != 0;
}

/* Where the interpreter met such an error, its outcome without unused values replaces that. */
static void use_only(oracle *o, const char *text, size_t n, anf_value *const *args, outcome *x) {
  if (!by_value(x)) return;
  free_outcome(x);
  find_after(o, text, "first_order clean need dce", ORACLE_INTERP, n, args, x);
}

/* How `got` of an engine differs from `want` of the interpreter. */
static const char *difference_of(oracle *o, const char *text, size_t n, anf_value *const *args,
                                 const outcome *want, const outcome *got) {
  const char *what = difference(o, want, got);
  if (!what || !by_value(want)) return what;
  outcome used = {.status = want->status, .code = "E0404"};
  use_only(o, text, n, args, &used);
  what = difference(o, &used, got);
  o->unused += !what;
  free_outcome(&used);
  return what;
}

static void put_outcome(oracle *o, const char *name, const outcome *x) {
  printf("#   %s: %s", name, anf_status_name(x->status));
  if (x->status != ANF_OK) printf(" %s at %u:%u %s", x->code, x->line, x->col, x->message);
  else {
    anf_text text = {.cx = o->cx};
    if (anf_value_print(o->cx, x->value, 20, &text) == ANF_OK) printf(" %s", text.text);
    anf_text_free(&text);
  }
  printf("\n");
}

static void put_program(const char *text) {
  for (const char *s = text; *s;) {
    size_t n = strcspn(s, "\n");
    printf("#     %.*s\n", (int)n, s);
    s += n + (s[n] == '\n');
  }
}

bool oracle_refuses(oracle *o, const char *text, size_t n, anf_value *const *args,
                    const char *code) {
  outcome x;
  find_outcome(o, text, ORACLE_INTERP, n, args, &x);
  bool refused = x.status != ANF_OK && strcmp(x.code, code) == 0;
  free_outcome(&x);
  return refused;
}

/* The parser makes whole graphs, whatever the text says: E0210 to E0223 of the verifier are its own, but for a call with another
 * number of arguments (E0217) and what types say (E0222). */
static bool broken(oracle *o, const char *text) {
  anf_module *m = NULL;
  outcome x = {0};
  anf_diag_clear(o->d);
  x.status = anf_parse(o->cx, text, "main.anf", o->d, &m);
  if (x.status == ANF_OK) x.status = anf_verify(m, o->d);
  if (x.status != ANF_OK) take_refusal(o->d, &x);
  anf_module_free(m);
  bool own = strcmp(x.code, "E0210") >= 0 && strcmp(x.code, "E0223") <= 0;
  if (!own || strcmp(x.code, "E0217") == 0 || strcmp(x.code, "E0222") == 0) return false;
  put_outcome(o, "verifier", &x);
  put_program(text);
  return true;
}

int oracle_try(oracle *o, const char *text, size_t n, anf_value *const *args, unsigned engines) {
  outcome want, got;
  int bad = 0;
  bool lacking = false;
  branch_part = o->several ? named_part(text) : 0;
  find_outcome(o, text, ORACLE_INTERP, n, args, &want);
  o->tried++;
  o->ran += want.status == ANF_OK;
  o->refused += want.status != ANF_OK;
  bad += broken(o, text);
  if (want.status == ANF_INTERNAL) bad++, put_outcome(o, names[0], &want), put_program(text);
  for (int e = ORACLE_INTERP + 1; e < ORACLE_ENGINES; e++) {
    if (!(engines >> e & 1) || want.status == ANF_LIMIT) continue; // compiled code has other limits
    find_outcome(o, text, e, n, args, &got);
    const char *what = difference_of(o, text, n, args, &want, &got);
    lacking |= unsupported(&got) && !unsupported(&want);
    if (what && !bad++ && o->shown++ < SHOWN) {
      printf("# %s: %s\n", names[e], what);
      put_program(text);
      put_outcome(o, names[ORACLE_INTERP], &want);
      put_outcome(o, names[e], &got);
    }
    free_outcome(&got);
  }
  free_outcome(&want);
  o->unsupported += lacking;
  o->differ += bad > 0;
  return bad;
}

bool oracle_equal(oracle *o, const char *text, const char *variant, size_t n,
                  anf_value *const *args, int engine) {
  outcome a, b;
  find_outcome(o, text, engine, n, args, &a);
  find_outcome(o, variant, engine, n, args, &b);
  o->pairs++;
  o->values += a.status == ANF_OK;
  b.line = a.line, b.col = a.col;
  bool parsed = strncmp(a.code, "E01", 3) != 0 && strncmp(a.code, "E02", 3) != 0;
  if (o->several && a.status != ANF_OK && b.status != ANF_OK) parsed = false;
  const char *what =
      parsed ? difference(o, &a, &b) : NULL; // a known callee is checked as it is read
  if (what && engine == ORACLE_INTERP && by_value(&a) != by_value(&b)) {
    use_only(o, text, n, args, &a);
    use_only(o, variant, n, args, &b);
    b.line = a.line, b.col = a.col;
    if (!(what = difference(o, &a, &b))) o->unused++;
  }
  bool functions =
      strstr(a.printed, "fn_") || strstr(b.printed, "fn_") || strstr(b.printed, "_other");
  if (what && functions && same(a.value, b.value)) what = NULL; // they print their names
  if (what && o->shown++ < SHOWN) {
    printf("# %s: a variant has %s\n", names[engine], what);
    put_program(text);
    put_program(variant);
    put_outcome(o, "program", &a);
    put_outcome(o, "variant", &b);
  }
  o->differ += what != NULL;
  free_outcome(&a);
  free_outcome(&b);
  return !what;
}

oracle *oracle_new(void) {
  oracle *o = (oracle *)calloc(1, sizeof *o);
  if (!o || !(o->cx = anf_ctx_new(NULL)) || !(o->d = anf_diag_new(o->cx))) abort();
  for (int e = ORACLE_TIR; e < ORACLE_ENGINES; e++) {
    if (interprets(e)) continue;
    anf_jit_opts jo = {.size = sizeof jo, .level = kinds[e].level};
    if (anf_jit_engine_new(o->cx, kinds[e].kind, &jo, o->d, &o->engine[e]) == ANF_OK) continue;
    anf_diag_print(o->d, stderr, false);
    oracle_free(o);
    return NULL;
  }
  signal(SIGSEGV, crashed);
  signal(SIGABRT, crashed);
  signal(SIGFPE, crashed);
  return o;
}

void oracle_free(oracle *o) {
  for (int e = 0; e < ORACLE_ENGINES; e++) anf_jit_engine_free(o->engine[e]);
  anf_diag_free(o->d);
  anf_ctx_free(o->cx);
  free(o);
}
