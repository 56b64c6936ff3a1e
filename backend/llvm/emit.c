// SPDX-License-Identifier: Apache-2.0
/* Optimising LLVM IR. Loops of tensor code come here shaped, so what they need is short; calls and
 * scalar code get the whole of O2. */
#include "backend/kernel/emit.h"

typedef struct found {
  bool loops, calls;
} found;

static bool see_stmt(tviewer *v, tstmt s) {
  found *f = (found *)v->user;
  f->loops |= s->kind == TS_for_loop || s->kind == TS_while_loop;
  return true;
}
static bool see_expr(tviewer *v, texpr e) {
  found *f = (found *)v->user;
  f->calls |= e->kind == TX_call && (!e->u.name || anfi_t_rt_of(e->u.name->s) < 0);
  return true;
}

/* Straight-line code runs once a call: what it costs to compile is most of what it costs. */
anf_jit_level anfi_ll_level(const anf_jit_engine *e, const anfi_jit_lowered *l) {
  if (e->o.level != ANF_JIT_AUTO) return e->o.level;
  found f = {false, false};
  tviewer v = {.user = &f, .enter_stmt = see_stmt, .enter_expr = see_expr};
  for (size_t i = 0; i < l->m->func.n; i++) {
    if (l->m->func.at[i]->body) anfi_t_view_stmt(&v, l->m->func.at[i]->body);
    if (l->need[i].recursive) return ANF_JIT_O2;
  }
  return f.loops || f.calls ? ANF_JIT_O2 : ANF_JIT_O1;
}

static const char *const pipelines[] = {
    [ANF_JIT_O1] =
        "function(sroa,early-cse,simplifycfg,instcombine<no-verify-fixpoint>,simplifycfg)",
    [ANF_JIT_O2] = "default<O2>",
    [ANF_JIT_O3] = "default<O3>"};

bool anfi_ll_optimise(anf_ctx *cx, const lmodule *lm, LLVMTargetMachineRef tm, anf_jit_level o) {
  LLVMPassBuilderOptionsRef opts = ll.CreatePassBuilderOptions();
  LLVMErrorRef err = pipelines[o] ? ll.RunPasses(lm->m, pipelines[o], tm, opts) : NULL;
  ll.DisposePassBuilderOptions(opts);
  if (err) return anfi_ll_fail(cx, err);
  anfi_kernel_emit(lm->g); // they need no pass
  return true;
}
