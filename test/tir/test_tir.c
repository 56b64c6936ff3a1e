// SPDX-License-Identifier: Apache-2.0
/* test_tir FOLDER: golden cases of the Tensor IR, and what needs C. TAP.
 * A case is FOLDER/NAME.tir: a head of comments, a module, a line ---, what is expected. The head
 * says
 *   // run: cat                 parse and print
 *   // run: opt PASSES          and the result must compute the same as before, unless `// values:
 * no`
 *   // run: run FUNC NUMBERS    the result, in decimal; tensors are filled with 0, 1, 2, ...
 *   // run: verify              errors, one a line: CODE LINE: message
 * and why. What passes print is also read back and printed again. */
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

static const char *head_value(const char *text, const char *key, char *buf, size_t len) {
  const char *at = strstr(text, key);
  if (!at) return NULL;
  at += strlen(key);
  snprintf(buf, len, "%.*s", (int)strcspn(at, "\n"), at);
  return buf;
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

static void run_case(anf_ctx *cx, anf_tir_module *m, char *words, char *out, size_t len,
                     anf_diag *d) {
  anf_tir_arg arg[8] = {{{0}, NULL, 0}}, r = {{0}, NULL, 0};
  char *name = strtok(words, " "), *w;
  tfunc f = anf_tir_find(m, name);
  size_t n = f ? f->n : 0;
  (void)cx;
  for (size_t i = 0; i < n && i < 8; i++) {
    texpr p = f->param[i];
    uint64_t k = 0;
    if (p->kind == TX_tensor && anfi_t_const_elems(p, &k)) {
      tdtype e = anfi_t_dt((anf_tir_elem)p->dtype.elem);
      arg[i].bytes = k * anfi_t_bytes(e);
      arg[i].data = calloc(k + 1, 8);
      for (uint64_t x = 0; x < k; x++) {
        uint64_t bits = anfi_t_lane_of_i64(e, (int64_t)x);
        memcpy((char *)arg[i].data + x * anfi_t_bytes(e), &bits, anfi_t_bytes(e));
      }
    } else if ((w = strtok(NULL, " ")))
      arg[i].v.bits = anfi_t_lane_of_f64(p->dtype, strtod(w, NULL));
  }
  if (anf_tir_run(m, name, n, arg, NULL, d, &r) != ANF_OK) put_errors(d, out, len);
  else if (anfi_t_is_void(f->ret)) snprintf(out, len, "void\n");
  else snprintf(out, len, "%.9g\n", anfi_t_lane_f64(f->ret, r.v.bits));
  for (size_t i = 0; i < n && i < 8; i++) free(arg[i].data);
}

static bool values_kept(anf_tir_module *m, anf_tir_module *o, const char *head, const char *passes,
                        char *out, size_t len) {
  unsigned ran = 0;
  values_opts vo = {
      .seed = 7,
      .tolerance = strstr(passes, "target_specific") || strstr(passes, "bf16_elim") ? 1e-2 : 0};
  return strstr(head, "// values: no") || same_values(m, o, &vo, out, len, &ran);
}

static void one_case(const char *folder, const char *file) {
  char path[1024], run[512], out[65536] = "";
  snprintf(path, sizeof path, "%s/%s", folder, file);
  char *s = slurp(path), *sep = s ? strstr(s, "\n---\n") : NULL;
  if (!sep || !head_value(s, "// run: ", run, sizeof run)) {
    report(false, file, "no head or no ---", NULL);
    free(s);
    return;
  }
  char *want = sep + 5, *head = strdup(s);
  sep[1] = 0;
  blank_head(s);
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_diag *d = anf_diag_new(cx);
  anf_tir_module *m = NULL, *o = NULL, *back = NULL;
  anf_text t = {cx, NULL, 0, 0}, again = {cx, NULL, 0, 0};
  bool good = true, opt = strncmp(run, "opt ", 4) == 0;
  if (anf_tir_parse(cx, s, strlen(s), file, d, &m) != ANF_OK) put_errors(d, out, sizeof out);
  else if (strncmp(run, "run ", 4) == 0) run_case(cx, m, run + 4, out, sizeof out, d);
  else if (strcmp(run, "verify") == 0) anf_tir_verify(m, d), put_errors(d, out, sizeof out);
  else if (opt && anf_tir_opt(m, run + 4, NULL, d, &o) != ANF_OK) put_errors(d, out, sizeof out);
  else {
    anf_tir_print(o ? o : m, &t);
    snprintf(out, sizeof out, "%s", t.text ? t.text : "");
    good = anf_tir_parse(cx, out, strlen(out), "back", d, &back) == ANF_OK &&
           anf_tir_print(back, &again) == ANF_OK && strcmp(out, again.text ? again.text : "") == 0;
    if (!good) put_errors(d, out, sizeof out);
    if (o && good) good = values_kept(m, o, head, run, out, sizeof out);
  }
  if (getenv("BLESS") && strcmp(out, want) != 0) {
    FILE *f = fopen(path, "wb");
    head[sep + 1 - s] = 0;
    fprintf(f, "%s---\n%s", head, out);
    fclose(f);
  }
  report(good && strcmp(out, want) == 0, file, out, want);
  anf_text_free(&t);
  anf_text_free(&again);
  anf_tir_module_free(m);
  anf_tir_module_free(o);
  anf_tir_module_free(back);
  anf_diag_free(d);
  anf_ctx_free(cx);
  free(head);
  free(s);
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

int main(int argc, char **argv) {
  char *names[512];
  size_t n = 0;
  seeds();
  first_difference();
  DIR *dir = argc > 1 ? opendir(argv[1]) : NULL;
  for (struct dirent *e; dir && (e = readdir(dir));)
    if (n < 512 && strlen(e->d_name) > 4 && strcmp(e->d_name + strlen(e->d_name) - 4, ".tir") == 0)
      names[n++] = strdup(e->d_name);
  if (dir) closedir(dir);
  qsort(names, n, sizeof *names, by_name);
  for (size_t i = 0; i < n; i++) {
    one_case(argv[1], names[i]);
    free(names[i]);
  }
  printf("1..%u\n", count);
  return failed != 0;
}
