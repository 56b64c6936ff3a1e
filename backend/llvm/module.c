// SPDX-License-Identifier: Apache-2.0
/* Builds the LLVM module of a lowered module, or of a group of its functions (split.c).
 *   func f(x: s32): s32 { .. }   ->   define internal i32 @f.body(ptr, i32) and define void @f_0wrapper(ptr, ptr, ptr) */
#include <stdio.h>

#include "backend/kernel/kernel.h"
#include "backend/llvm/llvm.h"

void anfi_ll_module_free(lmodule *lm) {
  if (lm->b) ll.DisposeBuilder(lm->b);
  if (lm->eb) ll.DisposeBuilder(lm->eb);
  if (lm->m) ll.DisposeModule(lm->m);
  if (lm->c) ll.ContextDispose(lm->c);
  lm->b = lm->eb = NULL;
  lm->m = NULL;
  lm->c = NULL;
}

static void dispose(void *p) { anfi_ll_module_free((lmodule *)p); }

static void types(lgen *g) {
  g->none = ll.VoidTypeInContext(g->c);
  g->ptr = ll.PointerTypeInContext(g->c, 0);
  g->i1 = ll.Int1TypeInContext(g->c);
  g->i8 = ll.Int8TypeInContext(g->c);
  g->i16 = ll.Int16TypeInContext(g->c);
  g->i32 = ll.Int32TypeInContext(g->c);
  g->i64 = ll.Int64TypeInContext(g->c);
  g->f32 = ll.FloatTypeInContext(g->c);
  g->f64 = ll.DoubleTypeInContext(g->c);
}

/* A mistake of ours would be one of each build: those made for speed need not look again. */
#ifdef NDEBUG
enum { LOOK = false };
#else
enum { LOOK = true };
#endif

static bool sound(anf_ctx *cx, LLVMModuleRef m) {
  if (!LOOK) return true;
  char *why = NULL;
  bool bad = ll.VerifyModule(m, LLVMReturnStatusAction, &why) != 0;
  if (bad) anfi_fail(cx, anfi_nowhere(), ANF_E0911, why ? why : "");
  if (why) ll.DisposeMessage(why);
  return !bad;
}

/* Remarks on loops that did not become vectors are for nobody. After an error LLVM goes on, with code that is of no use. */
static void on_diagnostic(LLVMDiagnosticInfoRef info, void *user) {
  lmodule *lm = (lmodule *)user;
  if (ll.GetDiagInfoSeverity(info) != LLVMDSError || lm->refused[0]) return;
  char *why = ll.GetDiagInfoDescription(info);
  snprintf(lm->refused, sizeof lm->refused, "%s", why && *why ? why : "it does not say why");
  if (why) ll.DisposeMessage(why);
}

lmodule *anfi_ll_module(anf_ctx *cx, const anf_jit_engine *e, const anfi_jit_lowered *l,
                        LLVMTargetMachineRef tm, const lsplit *split, uint32_t group) {
  lmodule *lm = ANFI_NEW(anfi_scratch(cx), lmodule);
  lgen *g = ANFI_NEW(anfi_scratch(cx), lgen);
  anfi_defer(cx, ANFI_ALWAYS, dispose, lm);
  lm->g = g;
  lm->c = g->c = ll.ContextCreate();
  ll.ContextSetDiagnosticHandler(g->c, on_diagnostic, lm);
  lm->m = g->m = ll.ModuleCreateWithNameInContext(l->m->t->file ? l->m->t->file : "anfora", g->c);
  lm->b = g->b = ll.CreateBuilderInContext(g->c);
  lm->eb = g->eb = ll.CreateBuilderInContext(g->c);
  g->cx = cx;
  g->a = anfi_scratch(cx);
  g->e = e;
  g->l = l;
  g->split = split;
  g->group = group;
  g->f16c = strstr(e->target.features, "+f16c") != NULL;
  anfi_isa isa;
  anfi_isa_of(e->target.triple, e->target.features, &isa);
  g->wide = isa.bytes == 64;
  anfi_strtab_init(&g->kernel_name, g->a);
  anfi_strtab_init(&g->tile_name, g->a);
  types(g);
  ll.SetTarget(g->m, e->target.triple);
  LLVMTargetDataRef layout = ll.CreateTargetDataLayout(tm);
  ll.SetModuleDataLayout(g->m, layout);
  ll.DisposeTargetData(layout);
  if (l->aot) anfi_ll_object_begin(g);
  anfi_ll_debug_begin(g);
  anfi_ll_declare_all(g);
  anfi_ll_define_all(g);
  anfi_ll_debug_end(g);
  return !anfi_failed(cx) && sound(cx, g->m) ? lm : NULL;
}
