// SPDX-License-Identifier: Apache-2.0
/* Calls: of functions of the module, of the run time, of the host, through pointers.
 *   f(x) within the module   ->   call @f.body(ptr swiftself %stream, %x)
 * Inside a module the stream travels in LLVM's swiftself register, which calls preserve, so recursion does not pay for
 * it. */
#include "backend/llvm/llvm.h"

void anfi_ll_attr(lgen *g, LLVMValueRef fn, unsigned place, const char *name, bool call) {
  unsigned kind = ll.GetEnumAttributeKindForName(name, strlen(name));
  LLVMAttributeRef a = ll.CreateEnumAttribute(g->c, kind, 0);
  if (call) ll.AddCallSiteAttribute(fn, place, a);
  else ll.AddAttributeAtIndex(fn, place, a);
}

void anfi_ll_text_attr(lgen *g, LLVMValueRef fn, const char *key, const char *value) {
  ll.AddAttributeAtIndex(
      fn, (unsigned)LLVMAttributeFunctionIndex,
      ll.CreateStringAttribute(g->c, key, (unsigned)strlen(key), value, (unsigned)strlen(value)));
}

void anfi_ll_extend(lgen *g, LLVMValueRef fn, unsigned place, tdtype d, bool call) {
  if (d.ptr || anfi_t_total(d) != 1 || anfi_t_bytes(d) > 2 || anfi_t_is_void(d)) return;
  anfi_ll_attr(g, fn, place, anfi_t_class(d) == TC_SINT ? "signext" : "zeroext", call);
}

LLVMTypeRef anfi_ll_func_type(lgen *g, tdtype ret, bool stream, bool data, uint32_t n,
                              const texpr *param) {
  LLVMTypeRef *t = ANFI_NEW_N(g->a, LLVMTypeRef, n + 2u);
  uint32_t k = 0;
  if (stream) t[k++] = g->ptr;
  if (data) t[k++] = g->ptr;
  for (uint32_t i = 0; i < n; i++) t[k++] = anfi_ll_type(g, param[i]->dtype);
  return ll.FunctionType(anfi_ll_type(g, ret), t, k, 0);
}

LLVMValueRef anfi_ll_extern(lgen *g, const char *name, LLVMTypeRef type) {
  LLVMValueRef f = ll.GetNamedFunction(g->m, name);
  if (f) return f;
  f = ll.AddFunction(g->m, name, type);
  anfi_ll_attr(g, f, (unsigned)LLVMAttributeFunctionIndex, "nounwind", false);
  bool trap = strcmp(name, "anf_rt_trap") == 0 || strcmp(name, "anf_rt_stop") == 0;
  if (trap) anfi_ll_attr(g, f, (unsigned)LLVMAttributeFunctionIndex, "noreturn", false);
  if (trap) anfi_ll_attr(g, f, (unsigned)LLVMAttributeFunctionIndex, "cold", false);
  if (strcmp(name, "anf_rt_alloc") == 0)
    anfi_ll_attr(g, f, LLVMAttributeReturnIndex, "noalias", false);
  bool pure = anfi_t_intrin_of(name, strlen(name)) >= 0; // of the C library's mathematics
  if (pure || strncmp(name, "anf_rt_f", 8) == 0) {
    if (strcmp(name, "anf_rt_free") == 0) return f;
    unsigned kind = ll.GetEnumAttributeKindForName("memory", 6);
    ll.AddAttributeAtIndex(f, (unsigned)LLVMAttributeFunctionIndex,
                           ll.CreateEnumAttribute(g->c, kind, 0)); // touches no memory
    anfi_ll_attr(g, f, (unsigned)LLVMAttributeFunctionIndex, "willreturn", false);
  }
  return f;
}

static LLVMValueRef stream(const lgen *g) { return g->stream ? g->stream : ll.ConstNull(g->ptr); }

LLVMValueRef anfi_ll_call_rt(lgen *g, const char *name, LLVMTypeRef ret, uint32_t n,
                             const LLVMValueRef *args) {
  LLVMValueRef *in = ANFI_NEW_N(g->a, LLVMValueRef, n + 1u);
  LLVMTypeRef *t = ANFI_NEW_N(g->a, LLVMTypeRef, n + 1u);
  in[0] = stream(g);
  for (uint32_t i = 0; i < n; i++) in[i + 1] = args[i];
  for (uint32_t i = 0; i <= n; i++) t[i] = ll.TypeOf(in[i]);
  LLVMTypeRef type = ll.FunctionType(ret, t, n + 1, 0);
  return ll.BuildCall2(g->b, type, anfi_ll_extern(g, name, type), in, n + 1, "");
}

static tfunc declared(lgen *g, const anfi_str *name) {
  uint64_t *at = anfi_map_find(&g->l->m->by_name, anfi_key(name));
  return at ? g->l->m->func.at[*at - 1] : NULL;
}

LLVMValueRef anfi_ll_func_addr(lgen *g, const anfi_str *name) {
  const lfunc *f = anfi_ll_own(g, name);
  if (f) return f->fn; // with stream and data first, because its address is taken
  tfunc d = declared(g, name);
  return anfi_ll_extern(g, name->s, anfi_ll_func_type(g, d->ret, false, false, d->n, d->param));
}

/* Arguments of the types that parameters have; pointers are all alike. */
static LLVMValueRef argument(lgen *g, texpr e, tdtype want) {
  LLVMValueRef v = anfi_ll_expr(g, e);
  return anfi_t_same(e->dtype, want) ? v : anfi_ll_cast(g, want, e->dtype, v);
}

static LLVMValueRef call_own(lgen *g, const lfunc *f, texpr e) {
  LLVMValueRef *in = ANFI_NEW_N(g->a, LLVMValueRef, e->nidx + 1u);
  unsigned k = 0;
  if (f->stream) in[k++] = stream(g);
  if (f->data) in[k++] = g->data ? g->data : ll.ConstNull(g->ptr);
  unsigned first = k;
  for (uint32_t i = 2; i < e->nidx; i++) in[k++] = argument(g, e->in[i], f->f->param[i]->dtype);
  LLVMValueRef c = ll.BuildCall2(g->b, f->type, f->fn, in, k, "");
  if (f->swift) anfi_ll_attr(g, c, 1, "swiftself", true);
  for (uint32_t i = 2; i < e->nidx; i++)
    anfi_ll_extend(g, c, first + i - 1, f->f->param[i]->dtype, true);
  anfi_ll_extend(g, c, LLVMAttributeReturnIndex, f->f->ret, true);
  return c;
}

static LLVMValueRef call_rt(lgen *g, trt rt, texpr e) {
  const trt_func *f = &anfi_t_rt[rt];
  LLVMValueRef *in = ANFI_NEW_N(g->a, LLVMValueRef, e->nidx + 1u);
  LLVMTypeRef *t = ANFI_NEW_N(g->a, LLVMTypeRef, e->nidx + 1u);
  uint32_t k = 0;
  if (rt == TRT_anf_rt_comm_start && g->streams) anfi_ll_fence(g);
  if (rt != TRT_anf_rt_parallel) in[k++] = stream(g);
  for (uint32_t i = 0; i < e->nidx; i++) in[k++] = argument(g, e->in[i], f->param[i]);
  for (uint32_t i = 0; i < k; i++) t[i] = ll.TypeOf(in[i]);
  LLVMTypeRef type = ll.FunctionType(anfi_ll_type(g, f->ret), t, k, 0);
  return ll.BuildCall2(g->b, type, anfi_ll_extern(g, f->name, type), in, k, "");
}

/* A comparison in place, and a trap that says where. */
static LLVMValueRef check(lgen *g, texpr e) {
  const trt_func *f = &anfi_t_rt[TRT_anf_rt_check];
  LLVMValueRef at = argument(g, e->in[0], f->param[0]), bound = argument(g, e->in[1], f->param[1]);
  anfi_ll_trap_if(g, ll.BuildICmp(g->b, LLVMIntUGE, at, bound, ""), ANF_TRAP_BOUNDS, e->line,
                  e->col);
  return ll.ConstNull(g->i1); // nobody looks
}

/* A load in place: LLVM must not move it, as another thread writes the word. */
static LLVMValueRef poll(lgen *g) {
  LLVMValueRef off = anfi_ll_i64(g, ANF_RT_STACK_LIMIT),
               p = ll.BuildGEP2(g->b, g->i8, stream(g), &off, 1, ""),
               limit = ll.BuildLoad2(g->b, g->i64, p, "");
  ll.SetVolatile(limit, 1);
  anfi_ll_trap_if(g, ll.BuildICmp(g->b, LLVMIntEQ, limit, ll.ConstAllOnes(g->i64), ""),
                  ANF_TRAP_CANCELLED, 0, 0);
  return ll.ConstNull(g->i1);
}

/* A C function of the host */
static LLVMValueRef call_host(lgen *g, tfunc f, texpr e) {
  LLVMTypeRef type = anfi_ll_func_type(g, f->ret, false, false, f->n, f->param);
  LLVMValueRef *in = ANFI_NEW_N(g->a, LLVMValueRef, e->nidx + 1u);
  for (uint32_t i = 0; i < e->nidx; i++) in[i] = argument(g, e->in[i], f->param[i]->dtype);
  LLVMValueRef c = ll.BuildCall2(g->b, type, anfi_ll_extern(g, f->name->s, type), in, e->nidx, "");
  for (uint32_t i = 0; i < e->nidx; i++) anfi_ll_extend(g, c, i + 1, f->param[i]->dtype, true);
  anfi_ll_extend(g, c, LLVMAttributeReturnIndex, f->ret, true);
  return c;
}

static LLVMValueRef call_pointer(lgen *g, texpr e) {
  LLVMValueRef fn = anfi_ll_expr(g, anfi_t_callee_ptr(e)),
               *in = ANFI_NEW_N(g->a, LLVMValueRef, e->nidx + 1u);
  for (uint32_t i = 0; i < e->nidx; i++) in[i] = anfi_ll_expr(g, e->in[i]);
  LLVMTypeRef type = anfi_ll_func_type(g, e->dtype, false, false, e->nidx, e->in);
  LLVMValueRef c = ll.BuildCall2(g->b, type, fn, in, e->nidx, "");
  for (uint32_t i = 0; i < e->nidx; i++) anfi_ll_extend(g, c, i + 1, e->in[i]->dtype, true);
  anfi_ll_extend(g, c, LLVMAttributeReturnIndex, e->dtype, true);
  return c;
}

LLVMValueRef anfi_ll_call(lgen *g, texpr e) {
  uint32_t npar;
  anfi_t_triples(e, &npar);
  if (npar) return anfi_ll_unsupported(g, e, "a parallel call");
  if (!e->u.name) return call_pointer(g, e);
  const lfunc *f = anfi_ll_own(g, e->u.name);
  if (f) return call_own(g, f, e);
  int rt = anfi_t_rt_of(e->u.name->s);
  if (rt == TRT_anf_rt_check && e->nidx == 3) return check(g, e);
  if (rt == TRT_anf_rt_poll && !e->nidx) return poll(g);
  if (rt >= 0 && e->nidx == anfi_t_rt[rt].n) return call_rt(g, (trt)rt, e);
  return call_host(g, declared(g, e->u.name), e);
}

/* return f(...) in f: the parameters take the arguments, all at once, and the function begins again */
bool anfi_ll_tail_call(lgen *g, tstmt s) {
  if (!g->self_tail || !anfi_jit_self_tail(g->now->f, s)) return false;
  texpr e = s->e[0];
  LLVMValueRef *in = ANFI_NEW_N(g->a, LLVMValueRef, e->nidx);
  for (uint32_t i = 2; i < e->nidx; i++) in[i] = argument(g, e->in[i], g->now->f->param[i]->dtype);
  for (uint32_t i = 2; i < e->nidx; i++)
    ll.BuildStore(g->b, in[i], g->slot.at[i].at); // the first slots are those of parameters
  ll.BuildBr(g->b, g->again);
  return true;
}
