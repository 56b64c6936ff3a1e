// SPDX-License-Identifier: Apache-2.0
/* Peak performance of this machine on one thread: multiply-adds in registers, and copying memory larger than the
 * caches.
 *   for i in (0, n) { sum0 = fmadd(sum0, v, v) ... sum9 = fmadd(sum9, v, v) }     2 * 10 * lanes * n operations
 * The best of a few runs counts: others only disturb. */
#include "exec/exec.h"
#include "backend/kernel/kernel.h"
#include "backend/jit/jit.h"

enum { SUMS = 10, ROUNDS = 200000, TRIES = 5, COPIED = 64 << 20 };

/* sums += x * y for as many sums as hide how long one takes. */
static const char *program(anfi_arena *a, uint32_t lanes) {
  anf_text *t = anfi_text_begin(a->cx);
  anfi_puts(t, "func peak(x: f32, n: index): f32 {\n");
  anfi_putf(t, "  var v: f32x%u = broadcast<f32x%u>(x)\n", lanes, lanes);
  for (int i = 0; i < SUMS; i++)
    anfi_putf(t, "  var sum%d: f32x%u = broadcast<f32x%u>((x + %d.f))\n", i, lanes, lanes, i);
  anfi_puts(t, "  for i in (0UL, n, 1UL) {\n");
  for (int i = 0; i < SUMS; i++) anfi_putf(t, "    sum%d = fmadd(sum%d, v, v)\n", i, i);
  anfi_puts(t, "  }\n");
  for (int i = 1; i < SUMS; i++) anfi_putf(t, "  sum0 = (sum0 + sum%d)\n", i);
  anfi_puts(t, "  return reduce_add(sum0)\n}\n");
  const char *text = anfi_strndup(a, t->text, t->len);
  anfi_text_done(t);
  return text;
}

static double best_rate(const anf_jit_function *f, double flops) {
  double best = 0;
  for (int k = 0; f && k < TRIES; k++) {
    anf_generic args[3] = {{.bits = 0}, {.u64 = ROUNDS}, {.bits = 0}};
    args[0].f32 = 0.5F;
    uint64_t from = anfi_os_now_ns();
    if (anf_jit_call_generic(f, NULL, args) != ANF_OK) return 0;
    double ns = (double)(anfi_os_now_ns() - from) + 1;
    if (flops / ns > best) best = flops / ns;
  }
  return best;
}

static double copied_rate(anf_ctx *cx) {
  char *a = (char *)anfi_raw(cx, NULL, 0, COPIED), *b = (char *)anfi_raw(cx, NULL, 0, COPIED);
  double best = 0;
  if (a && b) memset(a, 1, COPIED), memset(b, 2, COPIED);
  for (int k = 0; a && b && k < TRIES; k++) {
    uint64_t from = anfi_os_now_ns();
    memcpy(k % 2 ? a : b, k % 2 ? b : a, COPIED);
    double ns = (double)(anfi_os_now_ns() - from) + 1;
    if (2.0 * (double)COPIED / ns > best) best = 2.0 * (double)COPIED / ns;
  }
  anfi_raw(cx, a, COPIED, 0);
  anfi_raw(cx, b, COPIED, 0);
  return best;
}

static void measure(anf_ctx *cx, double *flops, double *bytes) {
  anf_jit_engine *e = NULL;
  anf_tir_module *m = NULL;
  anf_jit_module *code = NULL;
  anfi_isa isa;
  anf_status st = anf_jit_engine_new(cx, ANF_JIT_LLVM, NULL, NULL, &e);
  if (st == ANF_OK) {
    anfi_defer(cx, ANFI_ALWAYS, anfi_free_engine, e);
    uint32_t lanes = anfi_jit_isa(e, &isa) && isa.bytes ? isa.bytes / 4 : 4;
    const char *text = program(anfi_scratch(cx), lanes);
    st = anf_tir_parse(cx, text, strlen(text), "peak", NULL, &m);
    *flops = 2.0 * (double)SUMS * lanes * (double)ROUNDS;
  }
  if (st == ANF_OK) {
    anfi_defer(cx, ANFI_ALWAYS, anfi_free_tir, m);
    st = anf_jit_make_module(e, m, NULL, &code);
  }
  if (st != ANF_OK) {
    anfi_fail_as(cx, st);
    return;
  }
  anfi_defer(cx, ANFI_ALWAYS, anfi_free_code, code);
  anf_jit_function *f = anf_jit_get_function(code, "peak");
  if (f) anfi_defer(cx, ANFI_ALWAYS, anfi_free_function, f);
  *flops = best_rate(f, *flops);
  *bytes = copied_rate(cx);
}

static anf_status measured(anf_ctx *cx, double *flops, double *bytes, anf_diag *d) {
  ANFI_ENTRY(cx, d);
  measure(cx, flops, bytes);
  return anfi_leave(cx);
}

anf_status anf_machine_peak(anf_ctx *cx, double *gflops, double *gbytes, anf_diag *d) {
  ANFI_NEED(d, cx);
  double flops = 0, bytes = 0;
  anf_status st = measured(cx, &flops, &bytes, d);
  if (gflops) *gflops = st == ANF_OK ? flops : 0;
  if (gbytes) *gbytes = st == ANF_OK ? bytes : 0;
  return st;
}
