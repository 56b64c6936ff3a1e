// SPDX-License-Identifier: Apache-2.0
/* What compiled code runs on: streams, generic arguments, traps. A program that links compiled
 * objects needs this header and libanfora_rt, and nothing else of Anfora.
 *
 * A stream is where calls of compiled code run: its memory, its threads, and what went wrong last.
 * One stream serves one call at a time; distinct streams are independent. A call without a stream
 * runs on the calling thread's own one.
 *
 * Example:
 *   anf_stream *s = anf_stream_new(NULL);
 *   anf_generic args[3] = {{.s64 = 6}, {.s64 = 7}}; // the result goes behind the arguments
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

/* Returns a new stream, or NULL when out of memory. `o` may be NULL. Memory for the deep stack is
 * taken at the first call that needs it. */
ANF_API anf_stream *anf_stream_new(const anf_stream_opts *o);
ANF_API void anf_stream_free(anf_stream *s); // s may be NULL
/* The calling thread's own stream, made at the first call and freed when the thread ends; NULL when
 * out of memory. */
ANF_API anf_stream *anf_stream_of_thread(void);
ANF_API uint32_t anf_stream_threads(const anf_stream *s);
/* As many from the next call on; 0: as many as the machine has CPUs. Not while a call is under way. */
ANF_API void anf_stream_set_threads(anf_stream *s, uint32_t n);
/* What programs print goes to `print`: the number of a site of the program's table, and the leaves of
 * what is printed, the bits of a scalar or the address of a tensor each. NULL, as at first: what
 * functions of objects print goes to standard output, all else nowhere. */
ANF_API void anf_stream_set_print(anf_stream *s,
                                  void (*print)(void *user, int64_t site, size_t n,
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

/* What stopped the last call on the stream; kind ANF_TRAP_NONE if nothing did. */
/* Most bytes that calls on the stream have had for their own tensors, and what derivatives kept. */
ANF_API size_t anf_stream_peak_bytes(const anf_stream *s);
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
 * "[2,3]" if it is told by its address, ANF_SITE_END; one of several words, of which code tells the
 * number, is ANF_SITE_CHOICE, the words with ANF_SITE_NEXT behind each, ANF_SITE_END; a character c up
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
  const char *file; // that it was made from
} anf_object;
enum { ANF_RT_VERSION = 2 };
/* Calls a wrapper of the object as anf_rt_enter does. If it traps, the stream says all that is known:
 * `text` is a whole sentence, with file, line and col. A version that is not ours is ANF_UNSUPPORTED. */
ANF_API anf_status anf_object_enter(const anf_object *o, anf_stream *s, anf_rt_wrapper f,
                                    anf_generic *args, uint32_t flags);

/* ---- called by compiled code alone ---- */
#if defined(__GNUC__)
#define ANF_RT_NORETURN __attribute__((noreturn, cold))
#else
#define ANF_RT_NORETURN
#endif
/* Stops the call that is under way on `s`, which must be one of anf_rt_enter. `text` may be NULL. */
ANF_API void anf_rt_trap(anf_stream *s, int32_t kind, uint32_t line, uint32_t col, const char *func,
                         const char *text) ANF_RT_NORETURN;
/* Says on the stream what stopped a call that did not run as machine code. */
ANF_API void anf_rt_tell(anf_stream *s, const anf_trap *t);
/* Functions of recursive groups compare the stack pointer with this on entry, and trap if it is
 * below: the word at ANF_RT_STACK_LIMIT bytes into the stream. */
enum { ANF_RT_STACK_LIMIT = 0 };
ANF_API void *anf_rt_alloc(anf_stream *s, uint64_t bytes);
ANF_API void anf_rt_free(anf_stream *s, void *p);
ANF_API void anf_rt_trace(anf_stream *s, int64_t id, int32_t leaves);
ANF_API void anf_rt_check(anf_stream *s, uint64_t index, uint64_t bound, int32_t line);
ANF_API void anf_rt_parallel(void *closure, anf_stream *s, void *data, void *env, int64_t begin,
                             int64_t end, int64_t step, int32_t threads);
ANF_API void *anf_rt_brgemm_kernel(anf_stream *s, int64_t m, int64_t n, int64_t k, int64_t lda,
                                   int64_t ldb, int64_t ldc, int64_t stride_a, int64_t stride_b,
                                   int32_t type_a, int32_t type_b, int32_t type_c, int64_t flags);
ANF_API void anf_rt_brgemm_call(anf_stream *s, void *kernel, void *a, void *b, void *c, int64_t num,
                                void *bias, void *scales, void *binary_rhs);
ANF_API void anf_rt_brgemm_list_call(anf_stream *s, void *kernel, void *a, void *b, void *c,
                                     int64_t num, int64_t len, void *bias, void *scales,
                                     void *binary_rhs);
/* Memory that lasts until the call under way from outside ends; it stays the stream's then. */
ANF_API void *anf_rt_keep(anf_stream *s, uint64_t bytes);
/* What was kept, with room for more: in place if it was kept last. */
ANF_API void *anf_rt_keep_more(anf_stream *s, void *p, uint64_t old, uint64_t bytes);
/* Stops at a site of the program's table. */
ANF_API void anf_rt_stop(anf_stream *s, int64_t site, int64_t a, int64_t b) ANF_RT_NORETURN;
/* Leaves of what anf_rt_print prints next. */
ANF_API void anf_rt_put(anf_stream *s, uint64_t bits);
ANF_API void anf_rt_put_tensor(anf_stream *s, void *p, uint64_t bytes);
ANF_API void anf_rt_print(anf_stream *s, int64_t site);
/* Conversions that the target may lack: bits of the small type, rounded to nearest even. */
/* Asks the system for tiles of AMX, for all of the process. False: it has none, or refuses. */
ANF_API bool anf_rt_tiles(void);
ANF_API uint16_t anf_rt_f64_to_f16(double x);
ANF_API uint16_t anf_rt_f64_to_bf16(double x);
ANF_API float anf_rt_f16_to_f32(uint16_t x);
/* A part (0: real) of a function of complex numbers; the n-th derivative of the digamma function. */
ANF_API double anf_rt_complex(anf_stream *s, int32_t f, int32_t part, double re, double im,
                              double re2, double im2);
ANF_API double anf_rt_polygamma(anf_stream *s, int32_t n, double x);
/* Marks of the allocator: frees all that was allocated after the mark was taken. */
ANF_API uint64_t anf_rt_mark(anf_stream *s);
ANF_API void anf_rt_release(anf_stream *s, uint64_t mark);

#ifdef __cplusplus
}
#endif
#endif
