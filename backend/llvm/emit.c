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

/* The type with other elements. */
static LLVMTypeRef with_elements(LLVMTypeRef t, LLVMTypeRef element) {
  return ll.GetTypeKind(t) == LLVMVectorTypeKind ? ll.VectorType(element, ll.GetVectorSize(t))
                                                 : element;
}

static LLVMTypeKind element_kind(LLVMTypeRef t) {
  return ll.GetTypeKind(ll.GetTypeKind(t) == LLVMVectorTypeKind ? ll.GetElementType(t) : t);
}

static void replace(LLVMValueRef old, LLVMValueRef by) {
  ll.ReplaceAllUsesWith(old, by);
  ll.InstructionEraseFromParent(old);
}

/* select c, half x, half y   ->   bitcast (select c, (bitcast x), (bitcast y))
 * Of a comparison and a select of halves LLVM makes a maximum, and calls fmaxf for it. */
static void select_halves(LLVMContextRef c, LLVMBuilderRef b, LLVMValueRef select) {
  LLVMTypeRef t = ll.TypeOf(select), i = with_elements(t, ll.IntTypeInContext(c, 16));
  LLVMTypeKind k = element_kind(t);
  if (k != LLVMHalfTypeKind && k != LLVMBFloatTypeKind) return;
  ll.PositionBuilderBefore(b, select);
  LLVMValueRef x = ll.BuildBitCast(b, ll.GetOperand(select, 1), i, "");
  LLVMValueRef y = ll.BuildBitCast(b, ll.GetOperand(select, 2), i, "");
  LLVMValueRef chosen = ll.BuildSelect(b, ll.GetOperand(select, 0), x, y, "");
  replace(select, ll.BuildBitCast(b, chosen, t, ""));
}

/* Operand i of an instruction before which `b` stands, widened to float. */
static LLVMValueRef wide_operand(LLVMContextRef c, LLVMBuilderRef b, LLVMValueRef of, unsigned i) {
  LLVMValueRef v = ll.GetOperand(of, i);
  return ll.BuildFPExt(b, v, with_elements(ll.TypeOf(v), ll.FloatTypeInContext(c)), "");
}

/* fcmp half x, y   ->   fcmp (fpext x), (fpext y)
 * Comparisons in float were made such ones, which are compiled lane by lane. */
static void compare_halves(LLVMContextRef c, LLVMBuilderRef b, LLVMValueRef cmp) {
  if (element_kind(ll.TypeOf(ll.GetOperand(cmp, 0))) != LLVMHalfTypeKind) return;
  ll.PositionBuilderBefore(b, cmp);
  LLVMValueRef x = wide_operand(c, b, cmp, 0), y = wide_operand(c, b, cmp, 1);
  replace(cmp, ll.BuildFCmp(b, ll.GetFCmpPredicate(cmp), x, y, ""));
}

/* rint(half x)   ->   fptrunc (rint(fpext x)), for the same reason. */
static void round_halves(LLVMModuleRef m, LLVMBuilderRef b, LLVMValueRef call) {
  static const char *const names[] = {"llvm.rint", "llvm.floor", "llvm.ceil", "llvm.trunc"};
  LLVMContextRef c = ll.GetModuleContext(m);
  LLVMTypeRef t = ll.TypeOf(call), w = with_elements(t, ll.FloatTypeInContext(c));
  if (element_kind(t) != LLVMHalfTypeKind) return;
  unsigned id = ll.GetIntrinsicID(ll.GetCalledValue(call));
  for (size_t k = 0; id && k < ANFI_LEN(names); k++) {
    if (id != ll.LookupIntrinsicID(names[k], strlen(names[k]))) continue;
    ll.PositionBuilderBefore(b, call);
    LLVMValueRef x = wide_operand(c, b, call, 0), f = ll.GetIntrinsicDeclaration(m, id, &w, 1);
    LLVMValueRef r = ll.BuildCall2(b, ll.IntrinsicGetType(c, id, &w, 1), f, &x, 1, "");
    replace(call, ll.BuildFPTrunc(b, r, t, ""));
    return;
  }
}

static void lower_halves(LLVMModuleRef m) {
  LLVMContextRef c = ll.GetModuleContext(m);
  LLVMBuilderRef b = ll.CreateBuilderInContext(c);
  for (LLVMValueRef f = ll.GetFirstFunction(m); f; f = ll.GetNextFunction(f))
    for (LLVMBasicBlockRef at = ll.GetFirstBasicBlock(f); at; at = ll.GetNextBasicBlock(at))
      for (LLVMValueRef i = ll.GetFirstInstruction(at), next; i; i = next) {
        next = ll.GetNextInstruction(i);
        LLVMOpcode op = ll.GetInstructionOpcode(i);
        if (op == LLVMSelect) select_halves(c, b, i);
        else if (op == LLVMFCmp) compare_halves(c, b, i);
        else if (op == LLVMCall) round_halves(m, b, i);
      }
  ll.DisposeBuilder(b);
}

LLVMErrorRef anfi_ll_passes(LLVMModuleRef m, LLVMTargetMachineRef tm, const char *passes) {
  LLVMPassBuilderOptionsRef opts = ll.CreatePassBuilderOptions();
  LLVMErrorRef err = passes ? ll.RunPasses(m, passes, tm, opts) : NULL;
  ll.DisposePassBuilderOptions(opts);
  if (!err) lower_halves(m);
  return err;
}
