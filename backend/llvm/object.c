// SPDX-License-Identifier: Apache-2.0
/* What an object file has beside its functions: its data, the table of its sites, and anf_object (anfora/rt.h).
 *   a program `net` with weights   ->   @anf.data, @anf.image, @anf.sites, internal; @net_object, which points to them
 * INVARIANT: that one alone is seen from outside, with the functions that hosts call, so that objects of many programs
 * can be linked together. */
#include "backend/llvm/llvm.h"

static LLVMValueRef hidden(lgen *g, const char *what, LLVMValueRef value, bool constant) {
  LLVMValueRef v = ll.AddGlobal(g->m, ll.TypeOf(value), what);
  ll.SetInitializer(v, value);
  ll.SetLinkage(v, LLVMInternalLinkage);
  ll.SetGlobalConstant(v, constant);
  return v;
}

static LLVMValueRef text(lgen *g, const char *s) {
  if (!s) return ll.ConstNull(g->ptr);
  return hidden(g, "anf.text", ll.ConstStringInContext2(g->c, s, strlen(s), 0), true);
}

static LLVMValueRef structure(lgen *g, unsigned n, LLVMValueRef *member) {
  return ll.ConstStructInContext(g->c, member, n, 0);
}

/* anf_site, by its members */
static LLVMValueRef sites(lgen *g, const anfi_jit_aot *o) {
  if (!o->nsite) return ll.ConstNull(g->ptr);
  LLVMValueRef *all = ANFI_NEW_N(g->a, LLVMValueRef, o->nsite);
  for (size_t i = 0; i < o->nsite; i++) {
    const anf_site *s = &o->site[i];
    LLVMValueRef member[5] = {text(g, s->text), text(g, s->file), anfi_ll_i32(g, s->line),
                              anfi_ll_i32(g, s->col), text(g, s->print)};
    all[i] = structure(g, 5, member);
  }
  return hidden(g, "anf.sites", ll.ConstArray2(ll.TypeOf(all[0]), all, o->nsite), true);
}

/* The bytes of the image as a constant; without any that is not zero, of no room in the file. */
static LLVMValueRef image(lgen *g) {
  const tmod *m = g->l->m;
  size_t n = (size_t)m->image_size, i = 0;
  while (i < n && !m->image[i]) i++;
  if (i == n) return ll.ConstNull(ll.ArrayType2(g->i8, n));
  return ll.ConstStringInContext2(g->c, (const char *)m->image, n, 1);
}

static LLVMValueRef data_block(lgen *g, const char *what, LLVMValueRef value, bool constant) {
  LLVMValueRef v = hidden(g, what, value, constant);
  ll.SetAlignment(v, 64);
  return v;
}

/* The features that the target names, and those of a level, x86-64-v3. */
static const char *needs(lgen *g) {
  static const struct {
    const char *name;
    int level;
  } features[] = {
#define ANF_FEATURE(name, macro, level) {name, level},
#include "base/feature.def"
#undef ANF_FEATURE
  };
  const anfi_target *t = &g->e->target;
  bool levelled = strncmp(t->cpu, "x86-64-v", 8) == 0;
  int level = levelled ? t->cpu[8] - '0' : 0;
  const char *all = "";
  if (strncmp(t->triple, "x86_64", 6) != 0) return NULL;
  for (size_t i = 0; i < ANFI_LEN(features); i++)
    if (anfi_ll_feature(t->features, features[i].name, strlen(features[i].name)) == '+' ||
        (features[i].level && features[i].level <= level))
      all = anfi_sprintf(g->a, "%s%s%s", all, *all ? "," : "", features[i].name);
  return all;
}

/* anf_object, by its members */
void anfi_ll_object_begin(lgen *g) {
  const anfi_jit_aot *o = g->l->aot;
  LLVMValueRef none = ll.ConstNull(g->ptr), data = none, first = none;
  if (g->l->m->image_size) {
    LLVMValueRef bytes = image(g);
    data = data_block(g, "anf.data", bytes, o->constant);
    if (!o->constant) first = data_block(g, "anf.image", bytes, true);
  }
  LLVMValueRef member[8] = {anfi_ll_i64(g, ANF_RT_VERSION),
                            data,
                            first,
                            anfi_ll_i64(g, g->l->m->image_size),
                            sites(g, o),
                            anfi_ll_i64(g, o->nsite),
                            text(g, o->file),
                            text(g, needs(g))};
  LLVMValueRef v = structure(g, 8, member);
  g->object = ll.AddGlobal(g->m, ll.TypeOf(v), anfi_sprintf(g->a, "%s_object", o->name));
  ll.SetInitializer(g->object, v);
  ll.SetGlobalConstant(g->object, 1);
}

/* A function that whoever loads the object runs before main. */
void anfi_ll_object_start(lgen *g, LLVMValueRef init) {
  ll.SetLinkage(init, LLVMInternalLinkage);
  LLVMValueRef fn = ll.AddFunction(g->m, "anf.start", ll.FunctionType(g->none, NULL, 0, 0));
  ll.SetLinkage(fn, LLVMInternalLinkage);
  ll.PositionBuilderAtEnd(g->b, ll.AppendBasicBlockInContext(g->c, fn, ""));
  anfi_ll_enter(g, init, ll.ConstNull(g->ptr),
                ANF_RT_TRAPS | ANF_RT_DEEP | ANF_RT_STREAM | ANF_RT_DATA);
  ll.BuildRetVoid(g->b);
  LLVMValueRef member[3] = {anfi_ll_i32(g, 65535), fn, ll.ConstNull(g->ptr)};
  LLVMValueRef entry = structure(g, 3, member), list = ll.ConstArray2(ll.TypeOf(entry), &entry, 1),
               v = ll.AddGlobal(g->m, ll.TypeOf(list), "llvm.global_ctors");
  ll.SetInitializer(v, list);
  ll.SetLinkage(v, LLVMAppendingLinkage);
}
