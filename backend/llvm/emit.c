// SPDX-License-Identifier: Apache-2.0
/* Optimises LLVM IR. Loops over tensors arrive tiled and vectorised, so they need few passes; calls and scalar code
 * get O2.
 *   straight-line code    ->   sroa, early-cse, simplifycfg, instcombine (O1); none if it is very long (O0)
 *   a loop or a call      ->   default<O2> */
#include "backend/llvm/llvm.h"

typedef struct found {
  const tmod *m;
  bool loops, calls;
  size_t n; // statements
} found;

/* A part of a long function is called once: it is no reason to look across calls. */
static bool is_part(const tmod *m, texpr call) {
  int64_t level = 1;
  tfunc f = anfi_t_mod_find(m, call->u.name);
  return f && anfi_t_attr(f->attrs, TA_inline_level, &level) && level == 0;
}

static bool see_stmt(tviewer *v, tstmt s) {
  found *f = (found *)v->user;
  f->n++;
  f->loops |= s->kind == TS_for_loop || s->kind == TS_while_loop;
  return true;
}
static bool see_expr(tviewer *v, texpr e) {
  found *f = (found *)v->user;
  if (e->kind == TX_call)
    f->calls |= !e->u.name || (anfi_t_rt_of(e->u.name->s) < 0 && !is_part(f->m, e));
  return true;
}

size_t anfi_ll_statements(const anfi_jit_lowered *l) {
  found f = {.m = l->m};
  tviewer v = {.user = &f, .enter_stmt = see_stmt};
  for (size_t i = 0; i < l->m->func.n; i++)
    if (l->m->func.at[i]->body) anfi_t_view_stmt(&v, l->m->func.at[i]->body);
  return f.n;
}

/* Straight-line code runs once a call: what it costs to compile is most of what it costs, and all the
 * more the longer it is. */
anf_jit_level anfi_ll_level(const anf_jit_engine *e, const anfi_jit_lowered *l) {
  if (e->o.level != ANF_JIT_AUTO) return e->o.level;
  found f = {.m = l->m};
  tviewer v = {.user = &f, .enter_stmt = see_stmt, .enter_expr = see_expr};
  for (size_t i = 0; i < l->m->func.n; i++) {
    if (l->m->func.at[i]->body) anfi_t_view_stmt(&v, l->m->func.at[i]->body);
    if (l->need[i].recursive) return ANF_JIT_O2;
  }
  return f.loops || f.calls ? ANF_JIT_O2 : f.n > ANFI_T_MANY ? ANF_JIT_O0 : ANF_JIT_O1;
}

static const char *const pipelines[] = {
    [ANF_JIT_O1] =
        "function(sroa,early-cse,simplifycfg,instcombine<no-verify-fixpoint>,simplifycfg)",
    [ANF_JIT_O2] = "default<O2>",
    [ANF_JIT_O3] = "default<O3>"};

/* Floats of 16 bits, or vectors of them, as integers; NULL for other types. */
static LLVMTypeRef integers_of(LLVMContextRef c, LLVMTypeRef t) {
  bool vector = ll.GetTypeKind(t) == LLVMVectorTypeKind;
  LLVMTypeKind k = ll.GetTypeKind(vector ? ll.GetElementType(t) : t);
  if (k != LLVMHalfTypeKind && k != LLVMBFloatTypeKind) return NULL;
  LLVMTypeRef i = ll.IntTypeInContext(c, 16);
  return vector ? ll.VectorType(i, ll.GetVectorSize(t)) : i;
}

/* select c, half x, half y   ->   bitcast (select c, (bitcast x), (bitcast y))
 * Of a comparison and a select of halves LLVM makes a maximum, and calls fmaxf for it. */
static void select_halves(LLVMContextRef c, LLVMBuilderRef b, LLVMValueRef select) {
  LLVMTypeRef t = ll.TypeOf(select), i = integers_of(c, t);
  if (!i) return;
  ll.PositionBuilderBefore(b, select);
  LLVMValueRef x = ll.BuildBitCast(b, ll.GetOperand(select, 1), i, "");
  LLVMValueRef y = ll.BuildBitCast(b, ll.GetOperand(select, 2), i, "");
  LLVMValueRef chosen = ll.BuildSelect(b, ll.GetOperand(select, 0), x, y, "");
  ll.ReplaceAllUsesWith(select, ll.BuildBitCast(b, chosen, t, ""));
  ll.InstructionEraseFromParent(select);
}

static void keep_selects(LLVMModuleRef m) {
  LLVMContextRef c = ll.GetModuleContext(m);
  LLVMBuilderRef b = ll.CreateBuilderInContext(c);
  for (LLVMValueRef f = ll.GetFirstFunction(m); f; f = ll.GetNextFunction(f))
    for (LLVMBasicBlockRef at = ll.GetFirstBasicBlock(f); at; at = ll.GetNextBasicBlock(at))
      for (LLVMValueRef i = ll.GetFirstInstruction(at), next; i; i = next) {
        next = ll.GetNextInstruction(i);
        if (ll.GetInstructionOpcode(i) == LLVMSelect) select_halves(c, b, i);
      }
  ll.DisposeBuilder(b);
}

LLVMErrorRef anfi_ll_passes(LLVMModuleRef m, LLVMTargetMachineRef tm, anf_jit_level o) {
  LLVMPassBuilderOptionsRef opts = ll.CreatePassBuilderOptions();
  LLVMErrorRef err = pipelines[o] ? ll.RunPasses(m, pipelines[o], tm, opts) : NULL;
  ll.DisposePassBuilderOptions(opts);
  if (!err) keep_selects(m);
  return err;
}
