// SPDX-License-Identifier: Apache-2.0
/* Which passes changed a function, in words, for --explain.
 *   passes of graphs: simplify 3, cse 1              with the number of rewrites
 *   passes of loops: constant_folder, closurizer_cpu
 *   MatMul 3:5 stays one of floats: ..               and why one left something */
#include "exec/exec.h"

void anfi_pass_log_add(anfi_pass_log *log, const char *pass, uint64_t rewrites) {
  if (!rewrites) return;
  for (size_t i = 0; i < log->ran.n; i++)
    if (strcmp(log->ran.at[i].pass, pass) == 0) {
      log->ran.at[i].rewrites += rewrites;
      return;
    }
  anfi_push(log->arena, &log->ran, ((anfi_pass_ran){pass, rewrites}));
}

static void put_log(const anfi_pass_log *log, const char *of, bool counts, anf_text *out) {
  if (!log->ran.n) return;
  anfi_putf(out, "passes of %s:", of);
  for (size_t i = 0; i < log->ran.n; i++) {
    anfi_putf(out, "%s %s", i ? "," : "", log->ran.at[i].pass);
    if (counts) anfi_putf(out, " %llu", (unsigned long long)log->ran.at[i].rewrites);
  }
  anfi_putc(out, '\n');
}

/* ---- of loops ---- */

static bool count_parallel(tviewer *v, tstmt s) {
  *(size_t *)v->user += s->kind == TS_for_loop && s->sub;
  return true;
}

static size_t parallel_loops(const tmod *m) {
  size_t n = 0;
  tviewer v = {.user = &n, .enter_stmt = count_parallel};
  for (size_t i = 0; i < m->func.n; i++)
    if (m->func.at[i]->body) anfi_t_view_stmt(&v, m->func.at[i]->body);
  return n;
}

/* What parallel_merge does to the loops that threads share. */
static void put_merged_loops(anf_ctx *cx, const tmod *m, anf_text *out) {
  static const anf_tir_opt_opts opts = {.size = sizeof opts};
  const tmod *apart = anfi_t_run_passes(cx, m, "nests", &opts);
  const tmod *merged = apart ? anfi_t_run_passes(cx, apart, "parallel_merge", &opts) : NULL;
  if (!merged) return;
  size_t before = parallel_loops(apart), after = parallel_loops(merged);
  if (after < before)
    anfi_putf(out, "parallel_merge: %zu loops that threads share become %zu\n", before, after);
}

static void ran(void *user, const char *pass, bool changed) {
  anfi_pass_log_add((anfi_pass_log *)user, pass, changed);
}

/* Those that an engine runs. */
static void put_loop_passes(anf_ctx *cx, const tmod *m, anf_text *out) {
  anfi_pass_log log = {.arena = anfi_scratch(cx)};
  anf_tir_opt_opts opts = {.size = sizeof opts, .user = &log, .ran = ran};
  const char *engine = anfi_t_measure(m) & TPROP_SCALAR ? "scalar" : "codegen";
  const tmod *low = anfi_t_run_passes(cx, m, engine, &opts);
  if (!low) return;
  (void)anfi_t_run_more(cx, low, "module_globals_resolver local_tensor_lowering_cpu", &opts);
  put_log(&log, "loops", false, out);
}

void anfi_explain_passes(anf_ctx *cx, const anfi_pass_log *graphs, const tmod *m, bool parallel,
                         anf_text *out) {
  if (parallel) put_merged_loops(cx, m, out);
  for (size_t i = 0; i < graphs->note.n; i++) anfi_putf(out, "%s\n", graphs->note.at[i]);
  put_log(graphs, "graphs", true, out);
  put_loop_passes(cx, m, out);
}
