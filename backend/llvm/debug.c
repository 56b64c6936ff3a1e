// SPDX-License-Identifier: Apache-2.0
/* Debug information, for debuggers and profilers.
 *   f at line 3 of net.anf, x = 1 at line 5     ->    DISubprogram f, net.anf:3;  its store: DILocation 5
 * Every function has its name and location, every statement its line, in the file that the Tensor IR came from or names. */
#include "backend/llvm/llvm.h"

typedef struct ldebug {
  LLVMDIBuilderRef d;
  LLVMMetadataRef file, type, scope; // scope: of the current function
} ldebug;

static void dispose(void *p) { ll.DisposeDIBuilder(((ldebug *)p)->d); }

static void flag(lgen *g, const char *key, unsigned value) {
  LLVMMetadataRef v = ll.ValueAsMetadata(anfi_ll_i32(g, value));
  ll.AddModuleFlag(g->m, LLVMModuleFlagBehaviorWarning, key, strlen(key), v);
}

void anfi_ll_debug_begin(lgen *g) {
  if (!g->e->o.debug) return;
  const char *path = g->l->m->t->file ? g->l->m->t->file : "module.tir";
  ldebug *b = ANFI_NEW(g->a, ldebug);
  b->d = ll.CreateDIBuilder(g->m);
  anfi_defer(g->cx, ANFI_ALWAYS, dispose, b);
  flag(g, "Debug Info Version", ll.DebugMetadataVersion());
  flag(g, "Dwarf Version", 4);
  b->file = ll.DIBuilderCreateFile(b->d, path, strlen(path), ".", 1);
  ll.DIBuilderCreateCompileUnit(b->d, LLVMDWARFSourceLanguageC, b->file, "anfora", 6, 1, "", 0, 0,
                                "", 0, LLVMDWARFEmissionFull, 0, 0, 0, "", 0, "", 0);
  b->type = ll.DIBuilderCreateSubroutineType(b->d, b->file, NULL, 0, LLVMDIFlagZero);
  g->debug = b;
}

void anfi_ll_debug_func(lgen *g, tfunc f, LLVMValueRef fn, const char *name) {
  ldebug *b = g->debug;
  if (!b) return;
  b->scope = ll.DIBuilderCreateFunction(b->d, b->file, name, strlen(name), "", 0, b->file, f->line,
                                        b->type, 1, 1, f->line, LLVMDIFlagZero, 1);
  ll.SetSubprogram(fn, b->scope);
  anfi_ll_debug_place(g, f->line, f->col);
}

void anfi_ll_debug_place(lgen *g, uint32_t line, uint32_t col) {
  if (!g->debug) return;
  ll.SetCurrentDebugLocation2(
      g->b, ll.DIBuilderCreateDebugLocation(g->c, line, col, g->debug->scope, NULL));
}

void anfi_ll_debug_none(lgen *g) {
  if (g->debug) ll.SetCurrentDebugLocation2(g->b, NULL);
}

void anfi_ll_debug_end(lgen *g) {
  if (g->debug) ll.DIBuilderFinalize(g->debug->d);
}
