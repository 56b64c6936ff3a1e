// SPDX-License-Identifier: Apache-2.0
/* Calls of kernels, and the functions they call: one for each specification (types, sizes, flags; r: known at run
 * time). Kernels that have tiles of one height and width share the code of these.
 *   brgemm(A, B, C, num=1, M=4, N=16, K=8, LDA=n, ..) of f32   ->   call @anf.brgemm.f32.f32.f32.m4n16f1.1.8.r..(A, ..)
 *   M=28 and M=70, N=32, tiles of 14 rows   ->   both call @anf.brgemm.tiles.f32.f32.f32.m14n32f0(A, ..)
 * Types or sizes that have no kernel call the run time's loop. */
#include "backend/llvm/kernel/gen.h"

typedef LLVMValueRef V;

/* ---- functions ---- */

typedef struct lkernel {
  anfi_gemm spec;
  const char *name; // of its function in the module
  bool here;        // is its body in this module? Else in that of another group
} lkernel;

/* Tiles of one height in a panel of columns: of M = height, N = columns, and the sizes that all kernels have in common. */
typedef struct ltile {
  anfi_gemm spec;
  const char *name;
  bool both;      // do some start from zeros, others from C? Else as the flags say
  uint32_t users; // kernels
} ltile;

static const char prefix[] = "anf.brgemm.";
bool anfi_kernel_is_name(const char *name) { return strncmp(name, prefix, sizeof prefix - 1) == 0; }

static const char *shape_of(lgen *g, const char *what, const anfi_gemm *k) {
  return anfi_sprintf(g->a, "%s%s%s%s.%s.%s.m%lldn%lldf%lld", prefix, what, k->list ? "list." : "",
                      anfi_t_elem_names[k->a], anfi_t_elem_names[k->b], anfi_t_elem_names[k->c],
                      (long long)k->m, (long long)k->n, (long long)k->flags);
}
static const char *name_of(lgen *g, const anfi_gemm *k) {
  const char *s = shape_of(g, "", k);
  for (int i = 0; i < GEMM_NSIZE; i++)
    s = k->known[i] ? anfi_sprintf(g->a, "%s.%lld", s, (long long)k->size[i])
                    : anfi_sprintf(g->a, "%s.r", s);
  return s;
}

enum {
  NARGS = 3 + GEMM_NSIZE + 1 + 3,
  TILE_ARGS = 4
}; // of tiles: first row and column, count, fresh

static LLVMTypeRef type_of(const lgen *g, uint32_t more) {
  LLVMTypeRef t[NARGS + TILE_ARGS];
  for (uint32_t i = 0; i < NARGS + more; i++)
    t[i] = i < 3 || (i > 3 + GEMM_NSIZE && i < NARGS) ? g->ptr : g->i64;
  return ll.FunctionType(g->none, t, NARGS + more, 0);
}

static V declared(lgen *g, const char *name, LLVMTypeRef type) {
  V fn = ll.GetNamedFunction(g->m, name);
  if (fn) return fn;
  fn = ll.AddFunction(g->m, name, type);
  anfi_ll_attr(g, fn, (unsigned)LLVMAttributeFunctionIndex, "nounwind", false);
  anfi_ll_attr(g, fn, (unsigned)LLVMAttributeFunctionIndex, "noinline", false);
  anfi_ll_text_attr(g, fn, "min-legal-vector-width", "512");
  anfi_ll_text_attr(g, fn, "prefer-vector-width", "512");
  return fn;
}

/* The kernel in the list, which it is added to. */
static lkernel *listed(lgen *g, const anfi_gemm *k) {
  const anfi_str *name = anfi_intern_z(&g->kernel_name, name_of(g, k));
  if (name->id < g->kernel.n) return g->kernel.at[name->id];
  lkernel *one = ANFI_NEW(g->a, lkernel);
  *one = (lkernel){*k, name->s, false};
  anfi_push(g->a, &g->kernel, one);
  return one;
}

static V function(lgen *g, const anfi_gemm *k) {
  lkernel *one = listed(g, k);
  one->here = true;
  return declared(g, one->name, type_of(g, 0));
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
  return ll.BuildCall2(g->b, type_of(g, 0), fn, in, n, "");
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

static uint32_t lanes_of(const anfi_isa *isa, const anfi_gemm *s) {
  return isa->bytes / (uint32_t)anfi_t_bytes(anfi_t_dt(s->c == ANF_TIR_bf16 ? ANF_TIR_f32 : s->c));
}

/* What its code is made with; `fn` has a kernel's arguments. */
static kgen start(lgen *g, const anfi_gemm *s, V fn) {
  kgen k = {.g = g, .k = s, .fn = fn};
  anfi_jit_isa(g->e, &k.isa);
  k.sum = anfi_t_dt(s->c == ANF_TIR_bf16 ? ANF_TIR_f32 : s->c);
  k.bytes_a = (uint32_t)anfi_t_bytes(anfi_t_dt(s->a));
  k.bytes_b = (uint32_t)anfi_t_bytes(anfi_t_dt(s->b));
  k.bytes_c = (uint32_t)anfi_t_bytes(anfi_t_dt(s->c));
  k.lanes = lanes_of(&k.isa, s);
  k.vec = anfi_ll_vector_of(anfi_kg_lane(&k, (anf_tir_elem)k.sum.elem), k.lanes);
  k.pairs = anfi_sums_pairs((int32_t)s->a, (int32_t)s->b, (int32_t)k.sum.elem);
  k.dot = (anfi_dot){.g = g,
                     .info = anfi_dot_of(s->a, s->b, s->c),
                     .lanes = k.lanes,
                     .steps = anfi_dot_group(&k.isa, s),
                     .native = k.isa.native,
                     .small = anfi_dot_is_small(&k.isa, s)};
  if (anfi_dot_adds(&k.isa, s)) {
    k.isa.regs--;
    k.dot.native = anfi_isa_has(&(anfi_isa){.has = k.isa.own}, cpu_of_vector(k.isa.bytes));
  }
  k.a = ll.GetParam(k.fn, 0), k.b = ll.GetParam(k.fn, 1), k.c = ll.GetParam(k.fn, 2);
  for (unsigned i = 0; i < GEMM_NSIZE; i++)
    k.size[i] = s->known[i] ? ci(&k, s->size[i]) : ll.GetParam(k.fn, 3 + i);
  k.fresh = ci(&k, (s->flags & GEMM_INIT) != 0);
  k.len = ll.GetParam(k.fn, 3 + GEMM_NSIZE);
  for (unsigned i = 0; i < 3; i++) k.post[i] = ll.GetParam(k.fn, 4 + GEMM_NSIZE + i);
  ll.PositionBuilderAtEnd(g->b, anfi_kg_block(&k));
  return k;
}

static void finish(const kgen *k) {
  ll.BuildRetVoid(k->g->b);
  if (!k->g->split) ll.SetLinkage(k->fn, LLVMInternalLinkage);
}

static void body(lgen *g, const lkernel *one) {
  kgen k = start(g, &one->spec, ll.GetNamedFunction(g->m, one->name));
  if (anfi_gemm_is_transposed(&k.isa, k.k)) anfi_kg_transposed(&k);
  else if (!anfi_tile_amx(&k.isa, k.k)) anfi_kg_panels(&k);
  else {
    anfi_kg_amx(&k);
    if (k.isa.native) ask_for_tiles(g);
  }
  finish(&k);
}

/* ---- tiles that kernels share ---- */

/* Are its tiles loops whose code is the same whatever K and the strides are? */
static bool has_plain_tiles(const anfi_isa *isa, const anfi_gemm *s) {
  return !anfi_dot_of(s->a, s->b, s->c) && !anfi_gemm_is_transposed(isa, s);
}

/* A call takes some 15 cycles. Lists have several pairs of matrices. */
static bool is_worth_a_call(const anfi_gemm *s, const anfi_cut *cut) {
  enum { WORK = 1 << 13 };
  int64_t k = s->known[GEMM_K] && !s->list ? s->size[GEMM_K] : WORK;
  return (double)cut->rows * cut->columns * (double)cut->count * (double)k >= (double)WORK;
}

static const anfi_str *tile_name(lgen *g, const anfi_gemm *s, const anfi_cut *cut) {
  anfi_gemm tile = *s;
  tile.m = cut->rows, tile.n = cut->columns, tile.flags &= ~GEMM_INIT;
  return anfi_intern_z(&g->tile_name, shape_of(g, "tiles.", &tile));
}

static void see_tile(lgen *g, const anfi_gemm *s, const anfi_cut *cut) {
  const anfi_str *name = tile_name(g, s, cut);
  if (name->id == g->tile.n) {
    ltile *t = ANFI_NEW(g->a, ltile);
    *t = (ltile){*s, name->s, false, 0};
    t->spec.m = cut->rows, t->spec.n = cut->columns;
    anfi_push(g->a, &g->tile, t);
  }
  ltile *t = g->tile.at[name->id];
  t->users++;
  t->both |= ((s->flags ^ t->spec.flags) & GEMM_INIT) != 0;
  for (int i = 0; i < GEMM_NSIZE; i++)
    t->spec.known[i] &= s->known[i] && s->size[i] == t->spec.size[i];
}

/* The tiles of all kernels, which are all in the list. */
static void see_tiles(lgen *g) {
  anfi_isa isa;
  anfi_jit_isa(g->e, &isa);
  for (size_t i = 0; i < g->kernel.n; i++) {
    const lkernel *one = g->kernel.at[i];
    bool gone = one->here && !ll.GetNamedFunction(g->m, one->name);
    if (gone || !has_plain_tiles(&isa, &one->spec)) continue;
    anfi_cut cut[GEMM_CUTS];
    uint32_t n = anfi_gemm_cuts(&isa, lanes_of(&isa, &one->spec), &one->spec, cut);
    for (uint32_t c = 0; c < n; c++)
      if (is_worth_a_call(&one->spec, &cut[c])) see_tile(g, &one->spec, &cut[c]);
  }
}

bool anfi_kernel_call_tiles(const kgen *k, const anfi_cut *cut, V col) {
  V in[NARGS + TILE_ARGS];
  if (!has_plain_tiles(&k->isa, k->k) || !is_worth_a_call(k->k, cut)) return false;
  const ltile *t = k->g->tile.at[tile_name(k->g, k->k, cut)->id];
  if (t->users < 2) return false;
  for (unsigned i = 0; i < NARGS; i++) in[i] = ll.GetParam(k->fn, i);
  in[NARGS] = ci(k, cut->from), in[NARGS + 1] = col, in[NARGS + 2] = ci(k, cut->count);
  in[NARGS + 3] = k->fresh;
  LLVMTypeRef type = type_of(k->g, TILE_ARGS);
  ll.BuildCall2(k->g->b, type, declared(k->g, t->name, type), in, NARGS + TILE_ARGS, "");
  return true;
}

static void tile_body(lgen *g, const ltile *t) {
  kgen k = start(g, &t->spec, declared(g, t->name, type_of(g, TILE_ARGS)));
  if (t->both) k.fresh = ll.GetParam(k.fn, NARGS + 3);
  anfi_kg_tiles(&k, ll.GetParam(k.fn, NARGS), ll.GetParam(k.fn, NARGS + 1),
                ll.GetParam(k.fn, NARGS + 2));
  finish(&k);
}

/* Is it for this group? By name, so that all groups agree. */
static bool is_here(const lgen *g, const char *name) {
  return !g->split || anfi_jit_sum(name, strlen(name)).word[0] % g->split->kernels ==
                          g->group - g->split->groups;
}

void anfi_kernel_emit(lgen *g) {
  see_tiles(g);
  for (size_t i = 0; i < g->kernel.n; i++) {
    const lkernel *one = g->kernel.at[i];
    // the passes removed a function with its calls if these were unreachable
    if (one->here && ll.GetNamedFunction(g->m, one->name)) body(g, one);
  }
  for (size_t i = 0; i < g->tile.n; i++)
    if (g->tile.at[i]->users > 1 && is_here(g, g->tile.at[i]->name)) tile_body(g, g->tile.at[i]);
}

void anfi_kernel_gather(lgen *to, const lgen *from) {
  for (size_t i = 0; i < from->kernel.n; i++) {
    const lkernel *one = from->kernel.at[i];
    if (is_here(to, one->name)) function(to, &one->spec);
    else listed(to, &one->spec);
  }
}
