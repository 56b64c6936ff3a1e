// SPDX-License-Identifier: Apache-2.0
/* Engines, inside: what an engine must give, and what all of them share.
 *
 * INVARIANT: an engine, its code and modules hold no anf_ctx memory: they live longer than contexts
 * and are used from many threads. Their memory is that of anfi_jit_alloc. A frame (and so a jump
 * out of it) exists only inside `open` and `compile`, which run with the caller's context.
 *
 * The way of a module: anfi_jit_lower runs the passes over Tensor IR, all of an engine's functions
 * then take (stream, module data) first, tensors of the module have become places in the data;
 * anfi_jit_describe makes the code object with its entries, globals and image; the engine's
 * `compile` fills in addresses. To add an engine: a vtable, a row in kinds[] of engine.c. */
#ifndef ANFI_JIT_H
#define ANFI_JIT_H

#include <pthread.h>

#include "anfora/jit.h"
#include "anfora/rt_abi.h"
#include "backend/tir/tir.h"

/* A function that can be called from outside. */
typedef struct anfi_jit_entry {
  char *name;
  uint32_t n; // parameters that the host sees: without stream and data
  tdtype ret;
  tdtype *param;          // ptr set for tensors, too
  uint32_t flags;         // ANF_RT_*
  anf_rt_wrapper wrapper; // NULL: `call` of the vtable
  void *natural;          // NULL: has none
} anfi_jit_entry;

/* A place in an instance's data for the address of a constant in a block, and the number of that constant among
 * those of the module that was compiled, in the order of its globals. */
typedef struct anfi_jit_address {
  uint64_t offset, number;
} anfi_jit_address;

/* Blocks of constants of a module, retained. */
typedef struct anfi_jit_blocks {
  anfi_os_block **at;
  size_t n;
} anfi_jit_blocks;

typedef struct anfi_jit_code {
  /* functions and globals */
  atomic_uint refs;
  anf_jit_engine *engine;
  anfi_jit_entry *entry;
  size_t nentry;
  anf_jit_global *global;
  size_t nglobal;
  /* data */
  anfi_jit_address *address; // addresses in the data
  size_t naddress;
  uint8_t *image; // data as it is at first
  size_t image_bytes;
  anf_rt_wrapper init; // __tir_init, run for each new instance; NULL: none
  void **data_slot;    // variable of the code that holds the first instance's data; may be NULL
  atomic_bool bound;   // the first instance is made
  /* of the engine */
  char **temp; // files
  size_t ntemp;
  void *impl; // the engine's own
} anfi_jit_code;

/* Properties of a function that follow from the calls of the module. */
typedef struct anfi_jit_need {
  uint32_t flags; // ANF_RT_*; DEEP: recursive, or calls a recursive function
  bool recursive; // member of a cycle of calls: checks the stack when entered
  bool address;   // its address is taken: callable through a pointer
  bool turn;      // anf_rt_parallel calls it
  bool called;    // others do, by its name or its address
} anfi_jit_need;
/* Code for a file: what the object says of itself. */
typedef struct anfi_jit_aot {
  const char *name; // it exports anf_object NAME_object
  const char *file; // that it was made from
  bool constant;    // nothing writes into its data
  const anf_site *site;
  size_t nsite;
} anfi_jit_aot;
/* A module as code is made from it. */
typedef struct anfi_jit_lowered {
  const tmod *m;
  const anfi_jit_aot *aot; // NULL: code for this process
  anf_jit_global *global;
  size_t nglobal;
  anfi_jit_address *address;
  size_t naddress;
  anfi_jit_need *need; // by function
} anfi_jit_lowered;

typedef struct anfi_jit_id {
  uint64_t word[2];
} anfi_jit_id;

/* An anf_target_machine with room for additions. */
typedef struct anfi_target {
  char triple[64], cpu[64], features[4096];
  bool elsewhere;
} anfi_target;

typedef struct anfi_jit_vtable {
  const char *name;
  const char *passes; // over Tensor IR, if the options name none
  const char
      *scalar_passes;  // the same for modules without loops over tensors and tensors of their own
  const char *always;  // after those, whatever they are; may be NULL
  size_t engine_bytes; // of its struct, which begins with an anf_jit_engine
  /* Inside a frame of cx; fail with anfi_fail. */
  bool (*negotiate)(anf_ctx *cx, anfi_target *tm);
  bool (*open)(anf_ctx *cx, anf_jit_engine *e);
  /* Machine code as bytes that can be kept, appended to `out`; and from such bytes, in whatever
   * process, what fills in wrapper, natural, init, data_slot, impl. Bytes that were damaged do not
   * come here. */
  bool (*make)(anf_ctx *cx, anf_jit_engine *e, const anfi_jit_lowered *l, anfi_jit_code *code,
               anf_text *out);
  bool (*load)(anf_ctx *cx, anf_jit_engine *e, anfi_jit_code *code, const char *p, size_t n);
  /* Both at once, for an engine without bytes; NULL: it has make and load. */
  bool (*compile)(anf_ctx *cx, anf_jit_engine *e, const anfi_jit_lowered *l, anfi_jit_code *code);
  bool (*print)(anf_ctx *cx, anf_jit_engine *e, const anfi_jit_lowered *l, const char *form,
                anf_text *out); // may be NULL
  bool (*object)(anf_ctx *cx, anf_jit_engine *e, const anfi_jit_lowered *l,
                 anf_text *out); // an object file; NULL: it makes none
  /* From any thread, without a context. */
  void (*close)(anf_jit_engine *e);
  void (*drop)(anfi_jit_code *code); // what `compile` put into impl, which may be NULL
  void *(*symbol)(const anfi_jit_code *code, const char *name);
  anf_status (*call)(const anfi_jit_code *code, const anfi_jit_entry *f, anf_stream *s, void *data,
                     anf_generic *args); // of entries without a wrapper
} anfi_jit_vtable;
/* The members that engines of machine code have in common, by the names that the file of each gives its
 * functions. */
#define ANFI_JIT_COMPILER                                                                          \
  .passes = "codegen", .scalar_passes = "scalar", .open = open_engine, .make = make, .load = load, \
  .print = print, .object = object, .close = close_engine, .drop = drop, .symbol = symbol

typedef struct anfi_jit_symbol {
  char *name;
  void (*fn)(void);
} anfi_jit_symbol;

/* Packed code in memory */
enum { ANFI_JIT_KEPT = 64, ANFI_JIT_KEPT_BYTES = 1 << 20 }; // how many, and at most of one
typedef struct anfi_jit_kept {
  anfi_jit_id id;
  char *p;
  size_t n;
} anfi_jit_kept;

/* A small fact measured with an engine, such as the fastest kernel on its machine. */
enum { ANFI_JIT_FACT_BYTES = 64 };
typedef struct anfi_jit_fact {
  anfi_jit_id id;
  char bytes[ANFI_JIT_FACT_BYTES];
} anfi_jit_fact;

struct anf_jit_engine {
  /* kind and target */
  const anfi_jit_vtable *vt;
  anf_jit_kind kind;
  atomic_uint refs;
  anf_jit_opts o; // strings in it are the engine's own
  anfi_target target;
  anf_target_machine shown; // the same, as hosts see it
  uint64_t patience_ms;     // with others that compile the same
  /* identity of the compiler */
  char version[320];    // of Anfora and the compiler
  anfi_jit_id compiler; // cjit: its words, version and what `native` means to it
  /* code, symbols, facts */
  anfi_jit_kept kept[ANFI_JIT_KEPT]; // code that was made before, as bytes: any of it may be NULL
  uint32_t next_kept;
  pthread_mutex_t lock; // of kept code, symbols and facts
  anfi_jit_symbol *symbol;
  size_t nsymbol;
  anfi_jit_fact *fact;
  size_t nfact;
};

struct anf_jit_module {
  atomic_uint refs;
  anfi_jit_code *code;
  void *data;
  anfi_jit_blocks blocks;
  char *file; // of the text it came from; NULL: of none
  bool first; // instance of its code
};

/* batch.c: a function of a batch that calls others for parts of its rows. */
typedef struct anfi_jit_piece {
  anf_jit_function *f;
  uint64_t first; // row
} anfi_jit_piece;
typedef struct anfi_jit_batch {
  size_t n, nslot;
  anfi_jit_piece *piece;
  uint64_t *row; // by slot: bytes from row to row at its address; 0: the same for all pieces
} anfi_jit_batch;

struct anf_jit_function {
  atomic_uint refs;
  anf_jit_module *module;
  const anfi_jit_entry *entry;
  anfi_jit_batch *batch; // NULL: it is code of its own
};

/* Retains the pieces, of which there is one at least: functions of the same slots, which return nothing. NULL: out of memory. */
anf_jit_function *anfi_jit_batch_new(size_t n, const anfi_jit_piece *piece, size_t nslot,
                                     const uint64_t *row);
void anfi_jit_batch_free(anfi_jit_batch *b);
/* *failed: the piece whose status this is. */
anf_status anfi_jit_call_batch(const anf_jit_function *f, anf_stream *s, const anf_generic *args,
                               size_t *failed);

extern const anfi_jit_vtable anfi_jit_llvm, anfi_jit_cjit, anfi_jit_interp;

/* memory.c: of engines and code; NULL when there is none */
/* The instructions that kernels of the engine may use; false: its options name no kernels that are known. */
struct anfi_isa; // backend/kernel/kernel.h
bool anfi_jit_isa(const anf_jit_engine *e, struct anfi_isa *out);
/* From which size on tensors are written past the caches; UINT64_MAX if the engine's code cannot. */
uint64_t anfi_jit_cache_bytes(const anf_jit_engine *e);
void *anfi_jit_alloc(size_t bytes); // zeroed, 64-byte aligned
void anfi_jit_free(void *p);
char *anfi_jit_strdup(const char *s);

/* engine.c: anf_jit_make_module of a module that lowering made, which needs no validation. */
anf_status anfi_jit_make_module(anf_jit_engine *e, const tmod *m, anf_jit_module **out);

/* lower.c */
/* Runs the passes of the engine's options, then module_globals_resolver. Does the code take large constants by address, or
 * are they part of it? False: failed. */
bool anfi_jit_lower(anf_ctx *cx, const anf_jit_engine *e, const tmod *m, bool binds,
                    anfi_jit_lowered *out);
/* needs.c */
anfi_jit_need *anfi_jit_needs(anf_ctx *cx, const tmod *m);

/* stop.c: the module with polls, and with counts of turns and calls. */
const tmod *anfi_jit_stoppable(anf_ctx *cx, const tmod *m, bool counts);
/* Is it `return f(...)` in f itself? Where f has no local tensors, engines must make a jump of it,
 * which takes no stack: such a call does not count as recursion. */
bool anfi_jit_self_tail(tfunc f, tstmt s);
bool anfi_jit_has_local_tensors(tfunc f);
/* Does the statement define a local tensor that no frame has room for: large, or of a size not known?
 * Engines take its memory from the stream, until the end of its scope. */
bool anfi_jit_on_heap(tstmt s);
/* lower.c */
anfi_jit_code *anfi_jit_code_new(anf_jit_engine *e); // empty; NULL: out of memory
/* A code object for a lowered module, without addresses. NULL: out of memory. */
anfi_jit_code *anfi_jit_describe(anf_jit_engine *e, const anfi_jit_lowered *l);
bool anfi_jit_temp_add(anfi_jit_code *code, const char *file);

/* key.c */
void anfi_jit_key(anf_ctx *cx, const anf_jit_engine *e, const tmod *m, anfi_jit_id *out);
anfi_jit_id anfi_jit_sum(const void *p, size_t n);
/* Of a fact that follows from the engine and these words. */
anfi_jit_id anfi_jit_fact_id(anf_ctx *cx, const anf_jit_engine *e, const char *kind, size_t n,
                             const uint64_t *word);
/* pack.c: a code object as bytes, with what vt->make gave; and back, without the latter, which is
 * *code_bytes then. NULL: the bytes are damaged, which a failed allocation is not. */
void anfi_jit_pack(const anfi_jit_code *c, const char *code, size_t n, anf_text *out);
anfi_jit_code *anfi_jit_unpack(anf_ctx *cx, anf_jit_engine *e, const char *p, size_t n,
                               const char **code, size_t *code_bytes);
/* cache.c: packed code by what it was made from, in memory and on disk */
bool anfi_jit_recall(anf_ctx *cx, anf_jit_engine *e, anfi_jit_id id, const char **p, size_t *n);
void anfi_jit_remember(anf_ctx *cx, anf_jit_engine *e, anfi_jit_id id, const char *p, size_t n);
/* Waits until nobody else compiles what has this key, if there is a folder. True: another did, or is at it for longer than
 * the engine's patience, of which a warning tells. False with an error: cancelled. To be given up by anfi_os_unclaim, or with
 * the frame. */
bool anfi_jit_claim(anf_ctx *cx, const anf_jit_engine *e, anfi_jit_id id, anfi_claim **out);
/* The same for facts of n bytes, at most ANFI_JIT_FACT_BYTES; none is forgotten while the engine lives. */
bool anfi_jit_noted(anf_ctx *cx, anf_jit_engine *e, anfi_jit_id id, void *to, size_t n);
void anfi_jit_note(anf_ctx *cx, anf_jit_engine *e, anfi_jit_id id, const void *p, size_t n);

/* engine.c, module.c: cleanups */
void anfi_free_engine(void *e);
void anfi_free_code(void *m);
void anfi_free_function(void *f);
/* engine.c */
void anfi_jit_code_release(anfi_jit_code *code);
/* module.c: a new instance, with __tir_init run. */
/* With the blocks of the module that it was compiled from, in its order. */
anf_status anfi_jit_instance(anfi_jit_code *code, const anfi_jit_blocks *blocks,
                             anf_jit_module **out);
/* Records in the frame what stopped the last call on the stream (NULL: the thread's own). */
void anfi_jit_report(anf_ctx *cx, const anf_jit_function *f, const anf_stream *s);
/* The C function of a name: of the run time, of the C library's mathematics, or registered
 * by the host. NULL: none. Thread safe. */
void *anfi_jit_resolve(anf_jit_engine *e, const char *name);
/* Makes a function known unless it is; false: another one has the name. */
bool anfi_jit_define_once(anf_ctx *cx, anf_jit_engine *e, const char *name, void (*fn)(void));

/* symbols.c: run time and mathematics */
void *anfi_jit_builtin(const char *name);

#endif
