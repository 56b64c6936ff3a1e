// SPDX-License-Identifier: Apache-2.0
/* Optimises LLVM IR. Loops over tensors arrive tiled and vectorised, so they need few passes; calls and scalar code
 * get O2.
 *   straight-line code    ->   sroa, early-cse, simplifycfg, instcombine (O1); none if it is very long (O0)
 *   many nests of lowering alone   ->   these and passes over loops, each once (O2's machine code)
 *   a loop or a call      ->   default<O2> */
#include "backend/llvm/llvm.h"

#ifdef ANF_HOSTILE
enum { MANY_NESTS = 8 };
#else
enum { MANY_NESTS = 1000 }; // statements with loops that take long to compile
#endif

typedef struct found {
  const tmod *m;
  bool nests, rounds, calls; // loops of lowering, loops of the program
  size_t n;                  // statements
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
  f->nests |= s->kind == TS_for_loop;
  f->rounds |= s->kind == TS_while_loop;
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

static const char *const pipelines[] = {
    [ANF_JIT_O1] =
        "function(sroa,early-cse,simplifycfg,instcombine<no-verify-fixpoint>,simplifycfg)",
    [ANF_JIT_O2] = "default<O2>",
    [ANF_JIT_O3] = "default<O3>"};

/* For loops that lowering has made: each pass once, and none over calls. */
static const char nests[] =
    "function(sroa,early-cse<memssa>,simplifycfg,instcombine<no-verify-fixpoint>,"
    "loop-mssa(loop-instsimplify,loop-simplifycfg,licm,loop-rotate,licm),simplifycfg,"
    "instcombine<no-verify-fixpoint>,loop(loop-idiom,indvars,loop-deletion,loop-unroll-full),"
    "sroa,gvn,instcombine<no-verify-fixpoint>,loop-vectorize,early-cse,"
    "instcombine<no-verify-fixpoint>,simplifycfg)";

static lplan plan_of(anf_jit_level o) { return (lplan){o, pipelines[o]}; }

/* Straight-line code runs once a call: what it costs to compile is most of what it costs, and all the
 * more the longer it is. Many nests get the passes that these need. Loops and calls of the program itself, which are
 * `while` loops and functions here, have all of them: scalar loops gain from them. */
lplan anfi_ll_plan(const anf_jit_engine *e, const anfi_jit_lowered *l) {
  if (e->o.level != ANF_JIT_AUTO) return plan_of(e->o.level);
  found f = {.m = l->m};
  tviewer v = {.user = &f, .enter_stmt = see_stmt, .enter_expr = see_expr};
  for (size_t i = 0; i < l->m->func.n; i++) {
    if (l->m->func.at[i]->body) anfi_t_view_stmt(&v, l->m->func.at[i]->body);
    if (l->need[i].recursive) return plan_of(ANF_JIT_O2);
  }
  if (f.calls || f.rounds) return plan_of(ANF_JIT_O2);
  if (f.nests) return f.n > MANY_NESTS ? (lplan){ANF_JIT_O2, nests} : plan_of(ANF_JIT_O2);
  return plan_of(f.n > ANFI_T_MANY ? ANF_JIT_O0 : ANF_JIT_O1);
}

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

LLVMErrorRef anfi_ll_passes(LLVMModuleRef m, LLVMTargetMachineRef tm, const char *passes) {
  LLVMPassBuilderOptionsRef opts = ll.CreatePassBuilderOptions();
  LLVMErrorRef err = passes ? ll.RunPasses(m, passes, tm, opts) : NULL;
  ll.DisposePassBuilderOptions(opts);
  if (!err) keep_selects(m);
  return err;
}
