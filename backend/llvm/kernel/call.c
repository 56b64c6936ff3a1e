// SPDX-License-Identifier: Apache-2.0
/* Calls of kernels, and the functions they call: one for each specification (types, sizes, flags; r: known at run
 * time).
 *   brgemm(A, B, C, num=1, M=4, N=16, K=8, LDA=n, ..) of f32   ->   call @anf.brgemm.f32.f32.f32.m4n16f1.1.8.r..(A, ..)
 * Types or sizes that have no kernel call the run time's loop. */
#include "backend/llvm/kernel/gen.h"

typedef LLVMValueRef V;

/* ---- functions ---- */

typedef struct lkernel {
  anfi_gemm spec;
  const char *name;   // of its function in the module
  const char *family; // the name of the kernel of any K and any rows of A, or its own
} lkernel;

static const char prefix[] = "anf.brgemm.";
bool anfi_kernel_is_name(const char *name) { return strncmp(name, prefix, sizeof prefix - 1) == 0; }

static const char *name_of(lgen *g, const anfi_gemm *k) {
  const char *s =
      anfi_sprintf(g->a, "%s%s%s.%s.%s.m%lldn%lldf%lld", prefix, k->list ? "list." : "",
                   anfi_t_elem_names[k->a], anfi_t_elem_names[k->b], anfi_t_elem_names[k->c],
                   (long long)k->m, (long long)k->n, (long long)k->flags);
  for (int i = 0; i < GEMM_NSIZE; i++)
    s = k->known[i] ? anfi_sprintf(g->a, "%s.%lld", s, (long long)k->size[i])
                    : anfi_sprintf(g->a, "%s.r", s);
  return s;
}

/* The kernel of any K and any rows of A. False: what it does depends on them. */
static bool general_of(lgen *g, const anfi_gemm *k, anfi_gemm *out) {
  anfi_isa isa;
  anfi_jit_isa(g->e, &isa);
  *out = *k;
  out->known[GEMM_K] = out->known[GEMM_LDA] = false;
  return k->known[GEMM_K] && k->known[GEMM_LDA] && !anfi_dot_of(k->a, k->b, k->c) &&
         !anfi_gemm_is_transposed(&isa, k);
}

enum { NARGS = 3 + GEMM_NSIZE + 1 + 3 };

static LLVMTypeRef type_of(const lgen *g) {
  LLVMTypeRef t[NARGS];
  for (int i = 0; i < NARGS; i++) t[i] = i < 3 || i > 3 + GEMM_NSIZE ? g->ptr : g->i64;
  return ll.FunctionType(g->none, t, NARGS, 0);
}

static V function(lgen *g, const anfi_gemm *k) {
  const char *name = name_of(g, k);
  V fn = ll.GetNamedFunction(g->m, name);
  if (fn) return fn;
  fn = ll.AddFunction(g->m, name, type_of(g));
  anfi_ll_attr(g, fn, (unsigned)LLVMAttributeFunctionIndex, "nounwind", false);
  anfi_ll_attr(g, fn, (unsigned)LLVMAttributeFunctionIndex, "noinline", false);
  anfi_ll_text_attr(g, fn, "min-legal-vector-width", "512");
  anfi_ll_text_attr(g, fn, "prefer-vector-width", "512");
  lkernel *one = ANFI_NEW(g->a, lkernel);
  anfi_gemm general;
  *one = (lkernel){*k, name, general_of(g, k, &general) ? name_of(g, &general) : name};
  anfi_push(g->a, &g->kernel, one);
  return fn;
}

/* A size as 64 bits, a pointer or null, 1 for the missing len of brgemm. */
static V operand(lgen *g, texpr e, uint32_t i) {
  texpr x = anfi_t_brgemm_in(e, i);
  if (i == BRGEMM_len && !x) return anfi_ll_i64(g, 1);
  if (!x) return ll.ConstNull(g->ptr);
  V v = anfi_ll_expr(g, x);
  return anfi_t_brgemm_kinds[i] == BRGEMM_IS_SIZE
             ? anfi_ll_cast(g, anfi_t_dt(ANF_TIR_s64), x->dtype, v)
             : v;
}

/* Sizes or types that have no kernel: the run time's loop. */
static V by_run_time(lgen *g, texpr e) {
  bool list = e->sub == TI_list_brgemm;
  uint32_t n = 0;
  anf_tir_elem type[3];
  V in[12];
  anfi_t_brgemm_types(e, type);
  for (uint32_t i = BRGEMM_M; i <= BRGEMM_stride_b; i++) in[n++] = operand(g, e, i);
  for (uint32_t i = 0; i < 3; i++) in[n++] = anfi_ll_i32(g, type[i]);
  in[n++] = anfi_ll_i64(g, (uint64_t)anfi_t_brgemm_flags(e->u.attrs));
  in[0] = anfi_ll_call_rt(g, "anf_rt_brgemm_kernel", g->ptr, n, in);
  n = 1;
  for (uint32_t i = BRGEMM_A; i <= BRGEMM_num; i++) in[n++] = operand(g, e, i);
  for (uint32_t i = list ? BRGEMM_len : BRGEMM_bias; i <= BRGEMM_rhs; i++)
    in[n++] = operand(g, e, i);
  return anfi_ll_call_rt(g, list ? "anf_rt_brgemm_list_call" : "anf_rt_brgemm_call", g->none, n,
                         in);
}

/* Words are for dot products alone. */
static bool reads_words(lgen *g, const anfi_gemm *k) {
  anfi_isa isa;
  anfi_jit_isa(g->e, &isa);
  return !(k->flags & GEMM_VNNI) || (anfi_dot_group(&isa, k) && k->known[GEMM_K]);
}

LLVMValueRef anfi_kernel_call(lgen *g, texpr e) {
  anfi_gemm k;
  V in[NARGS];
  uint32_t n = 0;
  if (!anfi_gemm_of(e, &k) || !reads_words(g, &k)) return by_run_time(g, e);
  if (k.m <= 0 || k.n <= 0) return ll.GetPoison(g->ptr); // nothing to do
  V fn = function(g, &k);
  for (uint32_t i = BRGEMM_A; i <= BRGEMM_C; i++) in[n++] = operand(g, e, i);
  for (uint32_t i = 0; i < GEMM_NSIZE; i++) in[n++] = operand(g, e, anfi_gemm_operand[i]);
  for (uint32_t i = BRGEMM_len; i <= BRGEMM_rhs; i++) in[n++] = operand(g, e, i);
  return ll.BuildCall2(g->b, type_of(g), fn, in, n, "");
}

/* Objects ask for the tiles when they are loaded, before any code of theirs runs. */
static void ask_for_tiles(lgen *g) {
  static const char name[] = "anf_rt_tiles";
  if (!g->l->aot || ll.GetNamedFunction(g->m, name)) return;
  V ask = anfi_ll_extern(g, name, ll.FunctionType(g->i1, NULL, 0, 0)),
    at = ll.AddGlobal(g->m, g->ptr, "anf.tiles.ask");
  ll.SetInitializer(at, ask);
  ll.SetLinkage(at, LLVMInternalLinkage);
  ll.SetSection(at, ".init_array.101");
}

/* The processor whose vectors have so many bytes. */
static anfi_cpu cpu_of_vector(uint32_t bytes) {
  return bytes == 64 ? CPU_avx512 : bytes == 32 ? CPU_avx2 : CPU_sse;
}

static void body(lgen *g, const lkernel *one, V fn) {
  kgen k = {.g = g, .k = &one->spec, .fn = fn};
  anfi_jit_isa(g->e, &k.isa);
  bool rounds = one->spec.c == ANF_TIR_bf16;
  k.sum = anfi_t_dt(rounds ? ANF_TIR_f32 : one->spec.c);
  k.bytes_a = (uint32_t)anfi_t_bytes(anfi_t_dt(one->spec.a));
  k.bytes_b = (uint32_t)anfi_t_bytes(anfi_t_dt(one->spec.b));
  k.bytes_c = (uint32_t)anfi_t_bytes(anfi_t_dt(one->spec.c));
  k.lanes = k.isa.bytes / (uint32_t)anfi_t_bytes(k.sum);
  k.vec = anfi_ll_vector_of(anfi_kg_lane(&k, (anf_tir_elem)k.sum.elem), k.lanes);
  k.pairs = anfi_sums_pairs((int32_t)one->spec.a, (int32_t)one->spec.b, (int32_t)k.sum.elem);
  k.dot = (anfi_dot){.g = g,
                     .info = anfi_dot_of(one->spec.a, one->spec.b, one->spec.c),
                     .lanes = k.lanes,
                     .steps = anfi_dot_group(&k.isa, &one->spec),
                     .native = k.isa.native,
                     .small = anfi_dot_is_small(&k.isa, &one->spec)};
  if (anfi_dot_adds(&k.isa, &one->spec)) {
    k.isa.regs--;
    k.dot.native = anfi_isa_has(&(anfi_isa){.has = k.isa.own}, cpu_of_vector(k.isa.bytes));
  }
  k.a = ll.GetParam(k.fn, 0), k.b = ll.GetParam(k.fn, 1), k.c = ll.GetParam(k.fn, 2);
  for (unsigned i = 0; i < GEMM_NSIZE; i++)
    k.size[i] = one->spec.known[i] ? ci(&k, one->spec.size[i]) : ll.GetParam(k.fn, 3 + i);
  k.len = ll.GetParam(k.fn, 3 + GEMM_NSIZE);
  for (unsigned i = 0; i < 3; i++) k.post[i] = ll.GetParam(k.fn, 4 + GEMM_NSIZE + i);
  ll.PositionBuilderAtEnd(g->b, anfi_kg_block(&k));
  if (anfi_gemm_is_transposed(&k.isa, k.k)) anfi_kg_transposed(&k);
  else if (!anfi_tile_amx(&k.isa, k.k)) anfi_kg_panels(&k);
  else {
    anfi_kg_amx(&k);
    if (k.isa.native) ask_for_tiles(g);
  }
  ll.BuildRetVoid(g->b);
  if (!g->split) ll.SetLinkage(k.fn, LLVMInternalLinkage);
}

/* Does another call ask for the same but for K and the rows of A? */
static bool is_shared(lgen *g, const lkernel *one) {
  for (size_t i = 0; i < g->kernel.n; i++) {
    const lkernel *other = g->kernel.at[i];
    if (other != one && !strcmp(other->family, one->family) &&
        ll.GetNamedFunction(g->m, other->name))
      return true;
  }
  return false;
}

/* Calls the kernel of any K, whose arguments are the same. */
static void call_general(lgen *g, const lkernel *one, V fn) {
  V in[NARGS];
  anfi_gemm general;
  general_of(g, &one->spec, &general);
  for (unsigned i = 0; i < NARGS; i++) in[i] = ll.GetParam(fn, i);
  ll.PositionBuilderAtEnd(g->b, ll.AppendBasicBlockInContext(g->c, fn, ""));
  ll.SetTailCall(ll.BuildCall2(g->b, type_of(g), function(g, &general), in, NARGS, ""), 1);
  ll.BuildRetVoid(g->b);
  if (!g->split) ll.SetLinkage(fn, LLVMInternalLinkage);
}

/* Networks have many products that differ in K and the rows of A alone; they share code. */
void anfi_kernel_emit(lgen *g) {
  for (size_t i = 0; i < g->kernel.n; i++) { // the list grows by general ones
    const lkernel *one = g->kernel.at[i];
    V fn = ll.GetNamedFunction(g->m, one->name);
    if (!fn) continue; // its calls were unreachable, and the passes removed it with them
    if (strcmp(one->name, one->family) && is_shared(g, one)) call_general(g, one, fn);
    else body(g, one, fn);
  }
}

/* By the name that a family shares: its kernels, and equal ones of two modules, go to the same one. */
static uint64_t place_of(const lkernel *one) {
  return anfi_jit_sum(one->family, strlen(one->family)).word[0];
}

void anfi_kernel_gather(lgen *to, const lgen *from) {
  uint32_t n = to->split->kernels, at = to->group - to->split->groups;
  for (size_t i = 0; i < from->kernel.n; i++)
    if (place_of(from->kernel.at[i]) % n == at) function(to, &from->kernel.at[i]->spec);
}
