// SPDX-License-Identifier: Apache-2.0
/* Machine code by LLVM, inside. Everything of LLVM is called through `ll`, a table of functions of
 * libLLVM-19 that is loaded when the first engine is made: linking with it would cost every program
 * that links Anfora 40 ms at its start.
 *
 * The meaning of all nodes is that of backend/tir/interp/interp.c and value.c, bit for bit, unless
 * contraction is asked for. INVARIANT: f16 and bf16 are i16 in LLVM IR, bool is i1 in registers and
 * i8 in memory, generic and index are i64; tiles are vectors of rows * lanes. INVARIANT: no arena
 * memory is asked for inside callbacks of LLVM. */
#ifndef ANFI_LLVM_H
#define ANFI_LLVM_H

#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/DebugInfo.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/OrcEE.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include "backend/jit/jit.h"

typedef struct anfi_llvm_api {
#define ANF_LLVM(name) __typeof__(&LLVM##name) name;
#include "backend/llvm/api.def"
#undef ANF_LLVM
} anfi_llvm_api;
extern anfi_llvm_api anfi_ll; // INVARIANT: written once, before the first engine is there
#define ll anfi_ll
/* api.c: loads LLVM, if that has not been done. False: it cannot be. */
bool anfi_ll_begin(anf_ctx *cx);
bool anfi_ll_begin_target(const char *triple); // of another processor; false: this LLVM has it not
/* Room for so many bytes, or E0874. */
bool anfi_ll_has_room(anf_ctx *cx, size_t bytes);

/* A variable's place or value, or what a tensor is. */
typedef struct lslot {
  LLVMValueRef value;          // variable that nothing assigns: what it is; else NULL
  LLVMValueRef at;             // variable: its alloca · tensor: the pointer to its first element
  LLVMTypeRef type;            // variable: of its value
  LLVMValueRef *dim, *strides; // tensor: i64 each
} lslot;

/* A function of the module. */
typedef struct lfunc {
  tfunc f;
  anfi_jit_need need;
  LLVMValueRef fn; // its body
  LLVMTypeRef type;
  bool stream, data; // does fn take them?
  bool swift;        // is the stream passed in the register that calls leave alone?
  bool itself;       // fn is the C function, too
} lfunc;

/* A lowered module as several modules of LLVM, which threads make code of: groups of functions, then
 * groups of kernels. It follows from the module alone. */
typedef struct lsplit {
  uint32_t groups, kernels; // how many of each
  uint32_t plain;           // so many groups of functions, the last, are not worth optimising
  uint32_t *of;             // group, by function
  bool *shared;             // is the function used by other groups? By function
} lsplit;

typedef struct lgen {
  anf_ctx *cx;
  anfi_arena *a;
  const anf_jit_engine *e;
  const anfi_jit_lowered *l;
  LLVMContextRef c;
  LLVMModuleRef m;
  LLVMBuilderRef b, eb; // at the current statement; at the end of the entry block, for allocas
  struct ldebug *debug; // NULL: no lines
  /* types, and the target */
  LLVMTypeRef none, ptr, i1, i8, i16, i32, i64, f32, f64;
  bool f16c; // the target converts f16
  bool wide; // the target has vectors of 512 bits
  /* functions of the module */
  lfunc *func;           // by index in the module
  const lsplit *split;   // NULL: everything is in m; else
  uint32_t group;        // this group is
  anfi_map elsewhere;    // functions of other groups that are used
  LLVMValueRef data_var; // in memory: points to the first instance's data
  LLVMValueRef object;   // of an object file: its anf_object
  /* kernels of products (kernel/call.c), whose bodies come last, and tiles of theirs; by the ids of their names */
  anfi_strtab kernel_name, tile_name;
  ANFI_VEC(struct lkernel *) kernel;
  ANFI_VEC(struct ltile *) tile;
  /* the current function */
  const lfunc *now;
  bool streams;              // it must fence what it streamed before it returns
  LLVMValueRef stream, data; // NULL: it does not have them
  LLVMValueRef func_name;    // text, for traps
  LLVMBasicBlockRef again;   // where self tail calls go
  bool self_tail;
  anfi_map slots; // variable or tensor → 1 + index into slot
  ANFI_VEC(lslot) slot;
  anfi_map assigned;           // variables that have a slot
  ANFI_VEC(LLVMValueRef) mark; // of the stream's memory, at the start of scopes that take some
  bool checked;                // has the stack been checked on every path to here?
  uint32_t line, col;          // of the current statement
  uint64_t floats;             // counted: operations on single floats
  uint64_t halves;             // counted: conversions of single f16
  double turns;                // of the loops in the body of the loop that is made
} lgen;

/* value.c: types, lanes, conversions */
LLVMTypeRef anfi_ll_type(lgen *g, tdtype d);                 // in a register
LLVMTypeRef anfi_ll_memory_type(lgen *g, tdtype d);          // in memory
LLVMTypeRef anfi_ll_vector_of(LLVMTypeRef lane, uint32_t n); // the lane itself if n is 1
LLVMValueRef anfi_ll_int(LLVMTypeRef t, uint64_t v);         // in every lane
LLVMValueRef anfi_ll_i64(lgen *g, uint64_t v);
LLVMValueRef anfi_ll_i32(lgen *g, uint64_t v);
LLVMValueRef anfi_ll_splat(lgen *g, LLVMValueRef scalar, uint32_t n);
LLVMValueRef anfi_ll_lane(lgen *g, LLVMValueRef v, uint32_t total, uint32_t k);
LLVMValueRef anfi_ll_put_lane(lgen *g, LLVMValueRef v, uint32_t total, uint32_t k, LLVMValueRef x);
LLVMValueRef anfi_ll_constant(lgen *g, texpr e);
LLVMValueRef anfi_ll_bits_constant(lgen *g, tdtype d, const uint64_t *bits, uint32_t n);
LLVMValueRef anfi_ll_cast(lgen *g, tdtype to, tdtype from, LLVMValueRef v);
/* The same bits: as unsigned integers of the element's width, and back. */
LLVMValueRef anfi_ll_to_bits(lgen *g, tdtype d, LLVMValueRef v);
LLVMValueRef anfi_ll_from_bits(lgen *g, tdtype d, LLVMValueRef v);
/* Calls a C function of scalars once a lane. */
LLVMValueRef anfi_ll_each_lane(lgen *g, const char *fn, LLVMTypeRef ret, LLVMTypeRef arg,
                               uint32_t total, uint32_t n, const LLVMValueRef *v);
LLVMValueRef anfi_ll_intrinsic(lgen *g, const char *name, LLVMTypeRef over, uint32_t n,
                               LLVMValueRef *args);

/* arith.c */
LLVMValueRef anfi_ll_binary(lgen *g, texpr e, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef anfi_ll_bin(lgen *g, tkind k, tdtype d, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef anfi_ll_lanewise(lgen *g, texpr e, const LLVMValueRef *v);
LLVMValueRef anfi_ll_convert(lgen *g, texpr e, LLVMValueRef v); // the three conversions
LLVMValueRef anfi_ll_reduce(lgen *g, texpr e, LLVMValueRef v);
/* Stops with a trap if `bad` (one bool) holds. */
void anfi_ll_trap_if(lgen *g, LLVMValueRef bad, anf_trap_kind k, uint32_t line, uint32_t col);

/* lanes.c: shuffles */
LLVMValueRef anfi_ll_shuffle(lgen *g, texpr e, const LLVMValueRef *v);

/* memory.c */
lslot *anfi_ll_slot(lgen *g, texpr v);
lslot *anfi_ll_new_slot(lgen *g, texpr v);
/* The variable v, where its scope begins, is x (NULL: whatever it likes). */
void anfi_ll_begin_var(lgen *g, texpr v, LLVMTypeRef t, LLVMValueRef x);
LLVMValueRef anfi_ll_alloca(lgen *g, LLVMTypeRef t, const char *name);
LLVMValueRef anfi_ll_address(lgen *g, texpr e);
LLVMValueRef anfi_ll_load(lgen *g, texpr e, bool is_volatile);
void anfi_ll_store(lgen *g, texpr to, LLVMValueRef v);
/* Lanes past the caches, where they fill aligned memory. */
void anfi_ll_stream(lgen *g, texpr to, LLVMValueRef v);
/* What was streamed is there before what follows, for other threads too. */
void anfi_ll_fence(lgen *g);
LLVMValueRef anfi_ll_load_at(lgen *g, tdtype d, LLVMValueRef p, uint32_t align);
void anfi_ll_store_at(lgen *g, tdtype d, LLVMValueRef p, LLVMValueRef v, uint32_t align);
LLVMValueRef anfi_ll_gather(lgen *g, texpr e, const LLVMValueRef *v);
void anfi_ll_define_tensor(lgen *g, tstmt define);
void anfi_ll_tensor_param(lgen *g, texpr v, LLVMValueRef p);

/* call.c */
LLVMValueRef anfi_ll_call(lgen *g, texpr e);
bool anfi_ll_tail_call(lgen *g, tstmt s); // false: it is none
LLVMValueRef anfi_ll_extern(lgen *g, const char *name, LLVMTypeRef type);
LLVMValueRef anfi_ll_call_rt(lgen *g, const char *name, LLVMTypeRef ret, uint32_t n,
                             const LLVMValueRef *args);
LLVMValueRef anfi_ll_func_addr(lgen *g, const anfi_str *name);
void anfi_ll_attr(lgen *g, LLVMValueRef fn, unsigned place, const char *name, bool call);
void anfi_ll_text_attr(lgen *g, LLVMValueRef fn, const char *key, const char *value);
/* Sets zeroext or signext of a small integer, as the machine's C interface wants. */
void anfi_ll_extend(lgen *g, LLVMValueRef fn, unsigned place, tdtype d, bool call);
LLVMTypeRef anfi_ll_func_type(lgen *g, tdtype ret, bool stream, bool data, uint32_t n,
                              const texpr *param);

/* expr.c, stmt.c, func.c */
LLVMValueRef anfi_ll_expr(lgen *g, texpr e);
void anfi_ll_stmt(lgen *g, tstmt s);
void anfi_ll_block(lgen *g, LLVMBasicBlockRef at); // goes on there
LLVMBasicBlockRef anfi_ll_new_block(lgen *g, const char *name);
void anfi_ll_check_stack(lgen *g);
void anfi_ll_declare_all(lgen *g);
/* The function of that name, which is declared if it is another group's; NULL: it has no body. */
const lfunc *anfi_ll_own(lgen *g, const anfi_str *name);
bool anfi_ll_is_elsewhere(const lgen *g, LLVMValueRef fn); // is it one of another group?
void anfi_ll_define_all(lgen *g);
/* Is it a part of a long function, with calls alone or run once? Those are not worth optimising. */
bool anfi_ll_is_plain(tfunc f);
void anfi_ll_enter(lgen *g, LLVMValueRef wrapper, LLVMValueRef args, uint32_t flags);
LLVMValueRef anfi_ll_unsupported(lgen *g, texpr e, const char *what);

/* object.c: what an object file has beside its functions */
void anfi_ll_object_begin(lgen *g);
void anfi_ll_object_start(lgen *g, LLVMValueRef init); // runs the wrapper before main

/* module.c: LLVM IR for a lowered module; in the frame's care */
typedef struct lmodule {
  lgen *g;
  LLVMContextRef c;
  LLVMModuleRef m;
  LLVMBuilderRef b, eb;
  char refused[256]; // the first error that LLVM reported, or ""; it stays when the module is gone
} lmodule;
lmodule *anfi_ll_module(anf_ctx *cx, const anf_jit_engine *e, const anfi_jit_lowered *l,
                        LLVMTargetMachineRef tm, const lsplit *split, uint32_t group);
void anfi_ll_module_free(lmodule *lm); // before the frame ends; from any thread

/* debug.c: lines */
void anfi_ll_debug_begin(lgen *g);
/* fn is made of f, under this name. A function that a body is inlined into needs it too, or the lines
 * of the body would be lost. */
void anfi_ll_debug_func(lgen *g, tfunc f, LLVMValueRef fn, const char *name);
void anfi_ll_debug_place(lgen *g, uint32_t line, uint32_t col);
void anfi_ll_debug_none(lgen *g); // what comes next has no place
void anfi_ll_debug_end(lgen *g);

/* target.c */
bool anfi_ll_negotiate(anf_ctx *cx, anfi_target *tm);
/* '+' or '-' as the comma-separated list says of the feature; 0: nothing. */
char anfi_ll_feature(const char *list, const char *name, size_t len);
LLVMTargetMachineRef anfi_ll_target(anf_ctx *cx, const anfi_target *tm, anf_jit_level o);
bool anfi_ll_fail(anf_ctx *cx, LLVMErrorRef err); // takes the error; always false

/* emit.c: passes */
size_t anfi_ll_statements(const anfi_jit_lowered *l);
typedef struct lplan {
  anf_jit_level level; // of machine code
  const char *passes;  // NULL: none
} lplan;
lplan anfi_ll_plan(const anf_jit_engine *e, const anfi_jit_lowered *l);
LLVMErrorRef anfi_ll_passes(LLVMModuleRef m, LLVMTargetMachineRef tm, const char *passes);

/* split.c: NULL if it is better left whole */
const lsplit *anfi_ll_split(anf_ctx *cx, const anfi_jit_lowered *l, anf_jit_level o);

/* crew.c: object files of modules, made by as many threads as there are hands, the caller's among
 * them, which is the first. INVARIANT: the others touch no memory of the context. */
typedef struct lhand {
  LLVMTargetMachineRef tm, plain; // of the level; of the lowest
} lhand;
typedef struct ljob {
  lmodule *lm; // gone when its code is there
  bool passes; // does it need them?
  bool plain;  // is it for the lowest level?
  LLVMMemoryBufferRef code;
  LLVMErrorRef err; // if there is none
  char *why;
} ljob;
enum { LL_THREADS = 16 }; // at most
typedef struct lworker {
  struct lcrew *crew;
  lhand hand;
  pthread_t thread;
} lworker;
typedef struct lcrew {
  /* jobs */
  ljob *job;
  const char *passes;
  pthread_mutex_t lock; // of the next three
  size_t ready, next;   // jobs that may be taken; that were
  bool over;            // there will be no more
  pthread_cond_t more;
  /* threads */
  size_t started; // workers, the caller among them
  lworker worker[LL_THREADS];
} lcrew;
void anfi_ll_crew_start(lcrew *c, ljob *job, const char *passes, const lhand *hand, size_t nhand);
/* The jobs before `ready` may be taken. The caller may do one of them before it comes back. */
void anfi_ll_crew_give(lcrew *c, size_t ready);
void anfi_ll_crew_end(lcrew *c);    // when all that were given are done
void anfi_ll_crew_stop(void *crew); // jobs not begun stay undone; results of the others are freed

#endif
