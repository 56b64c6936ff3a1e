// SPDX-License-Identifier: Apache-2.0
/* What compiled code runs on: streams, generic arguments, traps. A program that links compiled
 * objects needs this header and libanfora_rt, and nothing else of Anfora. What compiled code itself calls is in anfora/rt_abi.h.
 *
 * A stream is where calls of compiled code run: its memory, its threads, and what went wrong last.
 * One stream serves one call at a time; distinct streams are independent. A call without a stream
 * runs on the calling thread's own one.
 *
 * Example:
 *   anf_stream *s = anf_stream_new(NULL);
 *   anf_generic args[3] = {{.s64 = 6}, {.s64 = 7}}; // the result goes after the arguments
 *   (void)args;
 *   anf_stream_free(s);
 */
#ifndef ANFORA_RT_H
#define ANFORA_RT_H

#include "anfora/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One argument or result, 64 bits. Of a tensor or pointer: the address. Of a vector: the address
 * of its lanes; a result of more than one lane is written to where the slot points. The bytes
 * beyond a small type count for nothing. */
typedef union anf_generic {
  bool b;
  int8_t s8;
  int16_t s16;
  int32_t s32;
  int64_t s64;
  uint8_t u8;
  uint16_t u16;
  uint32_t u32;
  uint64_t u64;
  uint16_t f16, bf16; // bits
  float f32;
  double f64;
  void *ptr;
  uint64_t bits;
} anf_generic;

typedef struct anf_stream anf_stream;

typedef struct anf_stream_opts {
  size_t size;
  uint32_t threads;   // of parallel loops; default: as many as the machine has CPUs
  size_t stack_bytes; // of the stack that recursive functions run on; default 256 MB
  size_t block_bytes; // the allocator takes memory in blocks of this; default 1 MB
  size_t max_bytes;   // that the allocator takes; default: no limit
  void (*trace)(void *user, int64_t id, bool leaves); // calls of trace_inserter
  void *user;
} anf_stream_opts;

/* Returns a new stream, or NULL when out of memory or when `o` sets what this library does not know. Memory for the deep stack is
 * taken at the first call that needs it. */
ANF_API anf_stream *anf_stream_new(const anf_stream_opts *o);
ANF_API void anf_stream_free(anf_stream *s); // s may be NULL
/* The calling thread's own stream, made at the first call and freed when the thread ends; NULL when
 * out of memory. */
ANF_API anf_stream *anf_stream_of_thread(void);
ANF_API uint32_t anf_stream_threads(const anf_stream *s);
/* As many from the next call on; 0: as many as the machine has CPUs. Not while a call is under way. */
ANF_API void anf_stream_set_threads(anf_stream *s, uint32_t n);
/* Stops the call that is under way on `s`, which ends with ANF_TRAP_CANCELLED at its next poll: of code that was
 * compiled to be stopped, each call of a recursion, each turn of long loops, each task of parallel loops. From any
 * thread or signal handler, while the call is under way. */
ANF_API void anf_stream_cancel(anf_stream *s);
/* What programs print goes to `print`: the number of a site of the program's table, and the leaves of
 * what is printed, the bits of a scalar or the address of a tensor each. NULL, as at first: what
 * functions of objects print goes to standard output, all else nowhere. */
ANF_API void anf_stream_set_print(anf_stream *s,
                                  void (*ANF_NULLABLE print)(void *user, int64_t site, size_t n,
                                                             const uint64_t *leaf),
                                  void *user);

/* Why a call of compiled code stopped. */
typedef enum anf_trap_kind {
  ANF_TRAP_NONE,
  ANF_TRAP_DIVISION, // integer division by zero
  ANF_TRAP_BOUNDS,   // an index outside of its tensor
  ANF_TRAP_STEP,     // a loop's step is not positive
  ANF_TRAP_DEPTH,    // the stack for recursion is used up
  ANF_TRAP_MEMORY,   // the stream's memory is used up
  ANF_TRAP_HOST,     // a host's function failed; `text` says why
  ANF_TRAP_SITE,     // what number `site` of the program's table of sites says, of `a` and `b`
  ANF_TRAP_CANCELLED,
  ANF_TRAP_TIME,  // the limit of time was reached
  ANF_TRAP_STEPS, // more turns of loops and calls than the limit, of code that counts them
  ANF_TRAP_CALLS, // more calls under way than the limit, likewise
  ANF_TRAP_KIND_COUNT
} anf_trap_kind;

typedef struct anf_trap {
  anf_trap_kind kind;
  anf_status status;
  uint32_t line, col; // 0: not known
  const char *func;   // borrowed from the code; "" if not known
  char text[240];
  int64_t site, a, b; // of ANF_TRAP_SITE
  const char *file;   // of objects: where the place is; "" if not known
} anf_trap;

/* Most bytes that calls on the stream have had for their own tensors, and what derivatives kept. */
ANF_API size_t anf_stream_peak_bytes(const anf_stream *s);
/* What stopped the last call on the stream; kind ANF_TRAP_NONE if nothing did. */
ANF_API const anf_trap *anf_stream_trap(const anf_stream *s);
ANF_API const char *anf_trap_words(anf_trap_kind k); // "integer division by zero"

/* ---- how compiled functions are called ----
 * A function `f` of a module, compiled by any engine, has these symbols:
 *
 *   f          ret f(params...)
 *              The natural C function. Scalars go by value as C has them (bool as _Bool, f16 and
 *              bf16 as uint16_t, index as uint64_t, generic as uint64_t), tensors and pointers as
 *              pointers. It runs on the thread's own stream, with the data of the module's first
 *              instance; after a trap it returns 0, and the stream of the thread says why. Functions
 *              with vectors among parameters or result have no natural form.
 *   f_0wrapper void f_0wrapper(anf_stream *, void *module_data, anf_generic *args)
 *              args has a slot for each parameter, then one for the result.
 *
 * Function pointers inside compiled code (func_addr, closures of parallel loops, slots of captured
 * functions) are of ret (*)(anf_stream *, void *module_data, params...).
 * Functions of the run time (backend/tir/runtime.def) take the stream as a first argument that the
 * Tensor IR does not show, except anf_rt_parallel, which has it. Other functions that a module only
 * declares are C functions of their natural form, looked up by name in the engine.
 *
 * Calls that may trap or recurse go through anf_rt_enter, which remembers where to return to; a trap
 * jumps there. Frames in between are left without unwinding: compiled code owns nothing that the
 * stream does not know of. */
typedef void (*anf_rt_wrapper)(anf_stream *s, void *data, anf_generic *args);
enum {
  ANF_RT_TRAPS = 1,  // may trap
  ANF_RT_DEEP = 2,   // is recursive: runs on the stream's deep stack
  ANF_RT_STREAM = 4, // uses the stream: it may not be NULL
  ANF_RT_DATA = 8    // uses module data
};
/* Calls a wrapper under protection. `s` NULL: the thread's own stream. */
ANF_API anf_status anf_rt_enter(anf_stream *s, anf_rt_wrapper f, void *data, anf_generic *args,
                                uint32_t flags);
/* ---- objects: programs compiled ahead of time (anfora/build.h) ---- */
/* A place of the program that code names by a number. In `text`, the bytes 1 and 2 stand for
 * numbers that the code tells with it. In `print`, a leaf is ANF_SITE_LEAF, the type of its elements,
 * "[2,3]" if it is given by its address, ANF_SITE_END; one of several words, of which code gives the
 * number, is ANF_SITE_CHOICE, the words with ANF_SITE_NEXT after each, ANF_SITE_END; a character c up
 * to ANF_SITE_ESCAPE is that and c + '@'. */
typedef struct anf_site {
  const char *text, *file; // why the program stops there; NULL: it does not
  uint32_t line, col;
  const char *print; // what it prints there; NULL: nothing
} anf_site;
enum {
  ANF_SITE_LEAF = 1,
  ANF_SITE_CHOICE = 2,
  ANF_SITE_NEXT = 3,
  ANF_SITE_END = 4,
  ANF_SITE_ESCAPE = 5
};
/* What an object of name NAME exports as NAME_object. A copy of it with other `data`, which is 64-byte
 * aligned and begins as `image`, is one more instance. */
typedef struct anf_object {
  uint64_t version; // ANF_RT_VERSION
  void *data;
  const void *image; // NULL: code does not write into its data, so one instance does
  uint64_t bytes;    // of data
  const anf_site *site;
  uint64_t nsite;
  const char *file;  // that it was made from
  const char *needs; // features of the processor that its code uses, "avx,avx2"; since version 3
} anf_object;
enum { ANF_RT_VERSION = 3 };
/* Calls a wrapper of the object as anf_rt_enter does. If it traps, the stream says all that is known:
 * `text` is a whole sentence, with file, line and col. A version that is not ours is ANF_UNSUPPORTED,
 * and so is code for a processor that this one is not: no instruction of it runs. */
ANF_API anf_status anf_object_enter(const anf_object *o, anf_stream *ANF_NULLABLE s,
                                    anf_rt_wrapper f, anf_generic *args, uint32_t flags);

#ifdef __cplusplus
}
#endif
#endif
