// SPDX-License-Identifier: Apache-2.0
/* diff_tir COUNT [FIRST] [PASSES]: random modules before and after every pass alone, and the
 * default pipeline, must compute the same; their text must read back to the same (that of each
 * pass, of every eighth), and what is read of it node by node builds the same. TAP. With PASSES only those. Of many modules each pass must change some:
 * else the generator makes nothing that it is for. */
#include "test/tir/copy.h"
#include "test/tir/values.h"

#include <stdlib.h>

static unsigned bad, ran;

static const char *const alone[] = {"tensor_shrinker",
                                    "index_flattener",
                                    "bf16_legalizer",
                                    "validator",
                                    "trace_inserter",
                                    "constant_folder",
                                    "func_inliner",
                                    "ir_simplifier",
                                    "tensor_inplace",
                                    "tensor_init",
                                    "loop_merger",
                                    "parallel_workload_dispatcher",
                                    "loop_unroller",
                                    "index2var",
                                    "dead_write_eliminator",
                                    "nested_parallel_flattener",
                                    "loop_splitter",
                                    "parallel_merge",
                                    "dead_func_eliminate",
                                    "bf16_legalizer target_specific_lowering_cpu",
                                    "index_flattener auto_caster tensor2var",
                                    "index_flattener auto_caster tensor_init buffer_scheduler",
                                    "index_flattener auto_caster row_inplace buffer_scheduler",
                                    "index_flattener auto_caster stream_stores",
                                    "kernel_lowering_cpu",
                                    "scalar_splitter",
                                    "index_flattener auto_caster list_splitter",
                                    "closurizer_cpu",
                                    "dyn_boundary_check",
                                    "module_globals_resolver",
                                    "index_flattener local_tensor_lowering_cpu",
                                    "ssa_transform",
                                    "ssa_transform dessa_transform",
                                    "ssa_transform value_numbering dessa_transform",
                                    "pure_inference",
                                    "pure_inference dead_write_eliminator",
                                    "ssa",
                                    "ssa_transform loop_invariant_code_motion dessa_transform",
                                    "interface_generalizer",
                                    "bf16_eliminator",
                                    "structured",
                                    "default"};
enum { ALONE = sizeof alone / sizeof *alone };
static unsigned fired[ALONE]; // modules that it changed

static void complain(uint64_t seed, const char *passes, const char *why, const anf_diag *d,
                     const char *text) {
  bad++;
  const anf_diag_item *it = d ? anf_diag_at(d, 0) : NULL;
  printf("# seed %llu, passes '%s': %s %s%s%s\n", (unsigned long long)seed, passes, why,
         it ? it->code : "", it ? ": " : "", it ? it->message : "");
  if (getenv("SHOW")) printf("%s\n", text);
}

static bool round_trip(anf_ctx *cx, const anf_tir_module *m) {
  anf_text a = {cx, NULL, 0, 0}, b = {cx, NULL, 0, 0}, why = {cx, NULL, 0, 0};
  anf_tir_module *back = NULL;
  anf_diag *d = anf_diag_new(cx);
  anf_tir_compare_opts o = {.size = sizeof o, .callees = true};
  bool good = anf_tir_print(m, &a) == ANF_OK &&
              anf_tir_parse(cx, a.text, a.len, "back", d, &back) == ANF_OK &&
              anf_tir_print(back, &b) == ANF_OK && strcmp(a.text, b.text) == 0 &&
              anf_tir_equal(m, back, &o, &why);
  if (good) good = anf_tir_hash(m) == anf_tir_hash(back);
  if (!good && getenv("SHOW")) {
    printf("---- printed\n%s\n---- again\n%s\n%s\n", a.text ? a.text : "", b.text ? b.text : "",
           why.text ? why.text : "");
    anf_diag_print(d, stdout, false);
  }
  anf_diag_free(d);
  anf_tir_module_free(back);
  anf_text_free(&a);
  anf_text_free(&b);
  anf_text_free(&why);
  return good;
}

/* Did the passes change anything? With `exact` the values must be the same; else the passes may round
 * otherwise, which may go another way at a branch, and only the module is looked at. */
static bool one_pass(anf_ctx *cx, uint64_t seed, const anf_tir_module *m, const char *passes,
                     bool exact, const char *text) {
  anf_diag *d = anf_diag_new(cx);
  anf_tir_module *o = NULL;
  anf_tir_opt_opts oo = {.size = sizeof oo, .verify_each = true, .cache_bytes = 64};
  char why[300] = "";
  values_opts vo = {.seed = seed};
  if (anf_tir_opt(m, passes, &oo, d, &o) != ANF_OK) complain(seed, passes, "fails", d, text);
  else if (exact && !same_values(m, o, &vo, why, sizeof why, &ran))
    complain(seed, passes, why, NULL, text);
  else if (seed % 8 == 0 && !round_trip(cx, o)) // of some alone: it takes longest
    complain(seed, passes, "its text does not read back", NULL, text);
  if (getenv("SHOW") && o && getenv("AFTER")) {
    anf_text t = {cx, NULL, 0, 0};
    anf_tir_print(o, &t);
    printf("---- after %s\n%s\n", passes, t.text);
    anf_text_free(&t);
  }
  bool changed = o && anf_tir_hash(o) != anf_tir_hash(m);
  anf_tir_module_free(o);
  anf_diag_free(d);
  return changed;
}

static bool copies(anf_ctx *cx, const anf_tir_module *m) {
  anf_tir_module *copy = tir_copy(cx, m);
  anf_tir_compare_opts o = {.size = sizeof o, .names = true};
  anf_text why = {cx, NULL, 0, 0};
  bool same = copy && anf_tir_equal(m, copy, &o, &why);
  if (!same && getenv("SHOW")) printf("%s\n", why.text ? why.text : "no copy");
  anf_text_free(&why);
  anf_tir_module_free(copy);
  return same;
}

static void one_seed(uint64_t seed, const char *only) {
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_diag *d = anf_diag_new(cx);
  anf_tir_module *m = NULL;
  bool half = seed % 8 == 7;
  char *text = random_module(seed, 6 + (unsigned)(seed % 25), half);
  if (anf_tir_parse(cx, text, strlen(text), "random", d, &m) != ANF_OK ||
      anf_tir_verify(m, d) != ANF_OK)
    complain(seed, "", "the program is not valid", d, text);
  else {
    if (!round_trip(cx, m)) complain(seed, "", "text does not read back", NULL, text);
    if (!copies(cx, m)) complain(seed, "", "its copy is another", NULL, text);
    one_pass(cx, seed, m, "auto_caster", true, text);
    anf_tir_module *cast = NULL; // most passes want exact types
    if (anf_tir_opt(m, "auto_caster", NULL, d, &cast) == ANF_OK) {
      anf_tir_module_free(m);
      m = cast;
    }
    for (size_t i = 0; i < ALONE; i++) {
      const char *p = alone[i];
      bool rounds =
          strstr(p, "bf16_eliminator") || strcmp(p, "default") == 0 || strcmp(p, "structured") == 0;
      if (only && strcmp(only, p) != 0) continue;
      fired[i] += one_pass(cx, seed, m, p, !(half && rounds), text);
    }
  }
  free(text);
  anf_tir_module_free(m);
  anf_diag_free(d);
  if (anf_ctx_bytes(cx) > 1000000) complain(seed, "", "memory is left", NULL, "");
  anf_ctx_free(cx);
}

static void idle_passes(void) {
  for (size_t i = 0; i < ALONE; i++)
    if (!fired[i] && strcmp(alone[i], "validator") != 0) {
      printf("# no module was changed by '%s'\n", alone[i]);
      bad++;
    }
}

int main(int argc, char **argv) {
  uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 100,
           first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  for (uint64_t s = first; s < first + n && bad < 20; s++) one_seed(s, argc > 3 ? argv[3] : NULL);
  if (n >= 1000 && argc <= 3) idle_passes();
  if (getenv("SHOW"))
    for (size_t i = 0; i < ALONE; i++) printf("# %6u %s\n", fired[i], alone[i]);
  printf("1..1\n%sok 1 - %llu random modules, %u runs\n", bad ? "not " : "", (unsigned long long)n,
         ran);
  return bad != 0;
}
