// SPDX-License-Identifier: Apache-2.0
/* test_tir FOLDER: golden cases of the Tensor IR, and what needs C. TAP.
 * A file FOLDER/NAME.tir holds one case, or several with lines ====== between: a head of comments,
 * a module, a line ---, what is expected. The head says
 *   // run: cat                 parse and print
 *   // run: opt PASSES          and the result must compute the same as before, unless it says
 *                               `// values: no`
 *   // run: run FUNC NUMBERS    the result, in decimal; tensors are filled with 0, 1, 2, ...
 *   // run: verify              errors, one a line: CODE LINE: message
 * and why. What passes print is also read back and printed again. FOLDER/passes/PASS.tir has the
 * cases of a pass, `// case: fires`, `// case: kept` and `// case: edge`: every pass needs all three,
 * and that it fires, or does not, is checked. BLESS=1 writes what came out into the files. */
#define _XOPEN_SOURCE 700
#include "test/tir/values.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>

static unsigned count, failed;

static void report(bool good, const char *name, const char *got, const char *want) {
  printf("%sok %u - %s\n", good ? "" : "not ", ++count, name);
  if (good) return;
  failed++;
  printf("# got:\n%s\n# wanted:\n%s\n", got ? got : "(nothing)", want ? want : "(nothing)");
}

static char *slurp(const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f) return NULL;
  char *s = (char *)calloc(1, 1 << 20);
  size_t n = s ? fread(s, 1, (1 << 20) - 1, f) : 0;
  fclose(f);
  (void)n;
  return s;
}

static bool head_value(const char *text, const char *key, char *buf, size_t len) {
  const char *at = strstr(text, key);
  if (!at) return false;
  at += strlen(key);
  snprintf(buf, len, "%.*s", (int)strcspn(at, "\n"), at);
  return true;
}
static uint64_t head_number(const char *text, const char *key, uint64_t otherwise) {
  char buf[64];
  return head_value(text, key, buf, sizeof buf) ? strtoull(buf, NULL, 10) : otherwise;
}

/* Comments of the head become blank, so that lines keep their numbers. */
static void blank_head(char *s) {
  while (s[0] == '/' && s[1] == '/') {
    for (; *s && *s != '\n'; s++) *s = ' ';
    if (*s) s++;
  }
}

static void put_errors(anf_diag *d, char *out, size_t len) {
  size_t n = 0;
  for (size_t i = 0; i < anf_diag_count(d); i++) {
    const anf_diag_item *it = anf_diag_at(d, i);
    n += (size_t)snprintf(out + n, len - n, "%s %u: %s\n", it->code, it->line, it->message);
  }
}

/* Memory for tensor `p`, elements 0, 1, 2, ...; `short_by` bytes are left out. */
static void tensor_arg(texpr p, uint64_t short_by, anf_tir_arg *arg) {
  uint64_t k = 0;
  tdtype e = anfi_t_dt((anf_tir_elem)p->dtype.elem);
  if (!anfi_t_const_elems(p, &k)) k = 64;
  size_t bytes = p->sub ? 8 : anfi_t_bytes(e);
  arg->bytes = k * bytes - short_by;
  arg->data = calloc(k + 1, bytes);
  for (uint64_t x = 0; x < k && !p->sub; x++) {
    uint64_t bits = anfi_t_lane_of_i64(e, (int64_t)x);
    memcpy((char *)arg->data + x * bytes, &bits, bytes);
  }
}

/* "FUNC NUMBERS": `// max_steps: 1`, `// max_depth: 1`, `// plain: 1`, `// short: BYTES` may be in
 * the head. */
static void run_case(anf_tir_module *m, const char *head, char *words, char *out, size_t len,
                     anf_diag *d) {
  anf_tir_arg arg[16] = {{{0}, NULL, 0}}, r = {{0}, NULL, 0};
  char *name = strtok(words, " "), *w;
  tfunc f = anf_tir_find(m, name);
  size_t n = f ? f->n : 0;
  for (size_t i = 0; i < n && i < 16; i++) {
    texpr p = f->param[i];
    if (p->kind == TX_tensor) tensor_arg(p, head_number(head, "// short: ", 0), &arg[i]);
    else if ((w = strtok(NULL, " "))) arg[i].v.bits = anfi_t_lane_of_f64(p->dtype, strtod(w, NULL));
  }
  anf_tir_run_opts o = {.size = sizeof o,
                        .max_steps = head_number(head, "// max_steps: ", 0),
                        .max_depth = (uint32_t)head_number(head, "// max_depth: ", 0),
                        .plain = head_number(head, "// plain: ", 0) != 0};
  n = (size_t)head_number(head, "// arguments: ", n);
  if (anf_tir_run(m, name, n, arg, &o, d, &r) != ANF_OK) put_errors(d, out, len);
  else if (anfi_t_is_void(f->ret)) snprintf(out, len, "void\n");
  else snprintf(out, len, "%.9g\n", anfi_t_lane_f64(f->ret, r.v.bits));
  for (size_t i = 0; i < 16; i++) free(arg[i].data);
}

/* What a case of passes/ says of its pass: it changes the module (fires), leaves it as it was
 * (kept), or either (edge). */
enum { FIRES = 1, KEPT = 2, EDGE = 4 };
static unsigned seen_of[64]; // of each pass: FIRES | KEPT | EDGE

static unsigned kind_of_case(const char *head) {
  char kind[64] = "";
  head_value(head, "// case: ", kind, sizeof kind);
  return strncmp(kind, "fires", 5) == 0  ? FIRES
         : strncmp(kind, "kept", 4) == 0 ? KEPT
         : strncmp(kind, "edge", 4) == 0 ? EDGE
                                         : 0;
}

static bool note_case(const char *pass, unsigned kind, bool changed, char *out, size_t len) {
  for (size_t i = 0; i < anf_tir_pass_count(); i++)
    if (strcmp(anf_tir_pass_name(i), pass) == 0) seen_of[i] |= kind;
  bool good = kind == EDGE || (kind == FIRES) == changed;
  if (!good) snprintf(out, len, "the pass %s\n", changed ? "fired" : "did not fire");
  return good;
}

static void every_pass_has_cases(void) {
  char why[4096] = "";
  size_t n = 0;
  for (size_t i = 0; i < anf_tir_pass_count(); i++)
    if (seen_of[i] != (FIRES | KEPT | EDGE))
      n += (size_t)snprintf(why + n, sizeof why - n, "%s lacks%s%s%s\n", anf_tir_pass_name(i),
                            seen_of[i] & FIRES ? "" : " fires", seen_of[i] & KEPT ? "" : " kept",
                            seen_of[i] & EDGE ? "" : " edge");
  report(n == 0, "every pass has cases where it fires, where it does not, and at an edge", why, "");
}

static bool values_kept(anf_tir_module *m, anf_tir_module *o, const char *head, const char *passes,
                        char *out, size_t len) {
  unsigned ran = 0;
  values_opts vo = {
      .seed = 7,
      .tolerance = strstr(passes, "target_specific") || strstr(passes, "bf16_elim") ? 1e-2 : 0};
  if (strstr(head, "// values: no")) return true;
  if (!same_values(m, o, &vo, out, len, &ran)) return false;
  return ran || (snprintf(out, len, "nothing ran: `// values: no` says so\n"), false);
}

/* opt PASSES: the last is the one that the case is about; those before it make the input ready. */
static bool opt_case(anf_tir_module *m, const char *head, const char *passes, const char *file,
                     char *out, size_t len, anf_diag *d) {
  anf_ctx *cx = m->cx;
  anf_tir_module *before = NULL, *o = NULL, *back = NULL;
  anf_text again = {cx, NULL, 0, 0}, t = {cx, NULL, 0, 0};
  anf_tir_compare_opts same = {.size = sizeof same, .names = true};
  anf_tir_opt_opts oo = {.size = sizeof oo,
                         .max_threads = (uint32_t)head_number(head, "// max_threads: ", 0)};
  const char *last = strrchr(passes, ' ') ? strrchr(passes, ' ') + 1 : passes;
  char first[512];
  snprintf(first, sizeof first, "%.*s", (int)(last - passes), passes);
  unsigned kind = kind_of_case(head);
  bool good = anf_tir_opt(m, first, &oo, d, &before) == ANF_OK;
  good = good && anf_tir_opt(before, last, &oo, d, &o) == ANF_OK;
  if (!good) put_errors(d, out, len); // which may be what is wanted
  else {
    anf_tir_print(o, &t);
    snprintf(out, len, "%s", t.text ? t.text : "");
    good = anf_tir_parse(cx, out, strlen(out), "back", d, &back) == ANF_OK &&
           anf_tir_print(back, &again) == ANF_OK && strcmp(out, again.text ? again.text : "") == 0;
    if (!good) put_errors(d, out, len);
    good = good && values_kept(m, o, head, passes, out, len);
    if (kind && good)
      good = note_case(file, kind, !anf_tir_equal(before, o, &same, NULL), out, len);
  }
  anf_text_free(&t);
  anf_text_free(&again);
  anf_tir_module_free(before);
  anf_tir_module_free(o);
  anf_tir_module_free(back);
  return good || anf_diag_count(d);
}

static bool cat_case(anf_tir_module *m, char *out, size_t len, anf_diag *d) {
  anf_tir_module *back = NULL;
  anf_text t = {m->cx, NULL, 0, 0}, again = {m->cx, NULL, 0, 0};
  anf_tir_print(m, &t);
  snprintf(out, len, "%s", t.text ? t.text : "");
  bool good = anf_tir_parse(m->cx, out, strlen(out), "back", d, &back) == ANF_OK &&
              anf_tir_print(back, &again) == ANF_OK &&
              strcmp(out, again.text ? again.text : "") == 0;
  if (!good) put_errors(d, out, len);
  anf_text_free(&t);
  anf_text_free(&again);
  anf_tir_module_free(back);
  return good;
}

/* One case: its head and module in `s`, which ends before the line ---. `got` is what came out. */
static bool one_case(char *s, const char *file, char *got, size_t len) {
  char run[512], *head = strdup(s);
  bool good = head_value(s, "// run: ", run, sizeof run);
  if (!good) snprintf(got, len, "no `// run: `\n");
  blank_head(s);
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_diag *d = anf_diag_new(cx);
  anf_tir_module *m = NULL;
  if (anf_tir_parse(cx, s, strlen(s), file, d, &m) != ANF_OK) put_errors(d, got, len);
  else if (strncmp(run, "run ", 4) == 0) run_case(m, head, run + 4, got, len, d);
  else if (strcmp(run, "verify") == 0) {
    anf_tir_verify(m, d);
    put_errors(d, got, len);
    unsigned kind = kind_of_case(head);
    if (kind) good = note_case(file, kind, anf_diag_count(d) > 0, got, len);
  } else if (strncmp(run, "opt ", 4) == 0) good &= opt_case(m, head, run + 4, file, got, len, d);
  else good &= cat_case(m, got, len, d);
  anf_tir_module_free(m);
  anf_diag_free(d);
  anf_ctx_free(cx);
  free(head);
  return good;
}

/* A file is one case, or several with a line ====== between them. */
static void one_file(const char *folder, const char *file) {
  static const char between[] = "======\n";
  char path[1024], name[256], base[128];
  static char got[65536];
  snprintf(path, sizeof path, "%s/%s", folder, file);
  snprintf(base, sizeof base, "%.*s", (int)strcspn(file, "."), file);
  char *text = slurp(path), *next = text;
  FILE *bless = getenv("BLESS") && text ? fopen(path, "wb") : NULL;
  for (unsigned k = 1; next; k++) {
    char *s = next, *end = strstr(s, between);
    next = end ? end + strlen(between) : NULL;
    if (end) *end = 0;
    char *sep = strstr(s, "\n---\n"), *want = sep ? sep + 5 : s;
    snprintf(name, sizeof name, "%s %u", file, k);
    got[0] = 0;
    if (sep) sep[1] = 0;
    char *body = strdup(s);
    bool good = one_case(body, base, got, sizeof got);
    if (bless) fprintf(bless, "%s---\n%s%s", s, got, next ? between : "");
    report(good && sep && strcmp(got, want) == 0, next || k > 1 ? name : file, got,
           sep ? want : "a line ---");
    free(body);
  }
  if (bless) fclose(bless);
  free(text);
}

/* ---- what needs C ---- */

static const char some_func[] = "func some_func(idx: s32, A: [f32 * 100 * 200]): f32 {\n  var b: "
                                "f32\n  b = 0\n  for i in (0, 200, 1) {\n"
                                "    b = (b + A[idx, i])\n  }\n  return b\n}\n";

static anf_tir_module *by_macros(anf_ctx *cx, bool leave_early) {
  anf_tir_module *m = NULL;
  anf_tb *tb = anf_tb_new(cx);
  ANF_FUNC(tb, f32, "some_func", ANF_ARG("idx", s32), ANF_ARG_TENSOR("A", f32, 100, 200)) {
    anf_tir_expr idx = ANF_PARAM(tb, 0), A = ANF_PARAM(tb, 1);
    ANF_VAR(tb, b, f32);
    ANF_SET(tb, b, 0);
    ANF_FOR(tb, i, 0, 200) {
      if (leave_early) break;
      ANF_SET(tb, b, ANF_ADD(tb, b, ANF_AT(tb, A, idx, i)));
    }
    ANF_RETURN(tb, b);
  }
  anf_tb_finish(tb, NULL, &m);
  anf_tb_free(tb);
  return m;
}

static anf_tir_module *by_makers(anf_ctx *cx) {
  anf_tir_module *m = anf_tir_module_new(cx);
  anf_tir_dtype f32 = anf_tir_scalar(ANF_TIR_f32), s32 = anf_tir_scalar(ANF_TIR_s32);
  anf_tir_expr idx = anf_tir_make_var(m, s32, "idx"),
               A = anf_tir_make_tensor(m, ANF_TIR_f32, "A", 2, (int64_t[]){100, 200});
  anf_tir_expr b = anf_tir_make_var(m, f32, "b"), i = anf_tir_make_var(m, s32, "i");
  anf_tir_expr at = anf_tir_make_indexing(m, A, 2, (anf_tir_expr[]){idx, i}, 1, NULL);
  anf_tir_stmt in = anf_tir_make_assign_unattached(m, b, anf_tir_make_add(m, b, at));
  anf_tir_stmt seq[] = {anf_tir_make_define_unattached(m, b, NULL),
                        anf_tir_make_assign_unattached(m, b, anf_tir_make_s32(m, 0)),
                        anf_tir_make_for_unattached(m, i, anf_tir_make_s32(m, 0),
                                                    anf_tir_make_s32(m, 200),
                                                    anf_tir_make_s32(m, 1), in, false, 0),
                        anf_tir_make_return_unattached(m, b)};
  anf_tir_module_add(m, anf_tir_make_func(m, "some_func", f32, 2, (anf_tir_expr[]){idx, A},
                                          anf_tir_make_stmts_unattached(m, 4, seq)));
  return m;
}

static void seeds(void) {
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_tir_module *a = by_macros(cx, false), *b = by_makers(cx), *c = NULL;
  anf_tir_compare_opts o = {.size = sizeof o, .names = true};
  anf_text t = {cx, NULL, 0, 0}, s = {cx, NULL, 0, 0};
  anf_tir_parse(cx, some_func, strlen(some_func), "seed", NULL, &c);
  anf_tir_print(a, &t);
  report(strcmp(t.text, some_func) == 0, "some_func by macros prints as in the seed", t.text,
         some_func);
  report(anf_tir_equal(a, b, &o, NULL) && anf_tir_equal(b, c, &o, NULL),
         "some_func by macros, by makers and from text are equal", NULL, NULL);
  report(anf_tir_hash(a) == anf_tir_hash(c), "and have one hash", NULL, NULL);
  report(by_macros(cx, true) == NULL, "a break out of ANF_FOR is caught", NULL, NULL);
  anf_tir_expr v = anf_tir_make_var(a, anf_tir_scalar(ANF_TIR_s32), "a");
  anf_tir_expr sum = anf_tir_make_add(a, anf_tir_make_s32(a, 1), anf_tir_make_s32(a, 2));
  anf_tir_stmt seq[] = {anf_tir_make_define_unattached(a, v, NULL),
                        anf_tir_make_assign_unattached(a, v, sum)};
  anf_tir_print_stmt(cx, anf_tir_make_stmts_unattached(a, 2, seq), &s);
  const char *want = "{\n  var a: s32\n  a = (1 + 2)\n}\n";
  report(strcmp(s.text, want) == 0, "1 + 2 prints as in the seed", s.text, want);
  report(anf_tir_isa(sum, "add") && !anf_tir_isa(sum, "binary") &&
             anf_tir_instanceof(sum, "binary") && anf_tir_dyn_as(sum, "cmp") == NULL &&
             anf_tir_as(sum, "add") == sum,
         "isa knows kinds, instanceof groups too", NULL, NULL);
  report(anf_tir_make_add(a, NULL, v) == NULL && anf_tir_module_status(a) == ANF_INVALID,
         "NULL gives NULL and a status", NULL, NULL);
  anf_text_free(&t);
  anf_text_free(&s);
  anf_tir_module_free(a);
  anf_tir_module_free(b);
  anf_tir_module_free(c);
  anf_ctx_free(cx);
}

static void first_difference(void) {
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_tir_module *a = by_macros(cx, false), *b = NULL;
  anf_text why = {cx, NULL, 0, 0};
  const char *other = "func some_func(n: s32, B: [f32 * 100 * 200]): f32 {\n  var s: f32\n  s = "
                      "0\n  for k in (0, 200, 1) {\n    s = (s - B[n, k])\n  }\n  return s\n}\n";
  anf_tir_parse(cx, other, strlen(other), "other", NULL, &b);
  bool same = anf_tir_equal(a, b, NULL, &why);
  const char *want = "func some_func, body, statement 3, body, statement 1, assign.value: "
                     "different kinds\n  left:  (b + A[idx, i])\n  right: (s - B[n, k])\n";
  report(!same && strcmp(why.text, want) == 0, "the first difference is told with its path",
         why.text, want);
  anf_text_free(&why);
  anf_tir_module_free(a);
  anf_tir_module_free(b);
  anf_ctx_free(cx);
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static void folder(const char *path) {
  char *names[512];
  size_t n = 0;
  DIR *dir = opendir(path);
  for (struct dirent *e; dir && (e = readdir(dir));)
    if (n < 512 && strlen(e->d_name) > 4 && strcmp(e->d_name + strlen(e->d_name) - 4, ".tir") == 0)
      names[n++] = strdup(e->d_name);
  if (dir) closedir(dir);
  else report(false, path, "the folder cannot be read", NULL);
  qsort(names, n, sizeof *names, by_name);
  for (size_t i = 0; i < n; i++) {
    one_file(path, names[i]);
    free(names[i]);
  }
}

int main(int argc, char **argv) {
  char passes[1024];
  seeds();
  first_difference();
  snprintf(passes, sizeof passes, "%s/passes", argc > 1 ? argv[1] : ".");
  folder(argc > 1 ? argv[1] : ".");
  folder(passes);
  every_pass_has_cases();
  printf("1..%u\n", count);
  return failed != 0;
}
