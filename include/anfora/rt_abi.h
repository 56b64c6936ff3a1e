// SPDX-License-Identifier: Apache-2.0
/* The binary interface between compiled code and the run time: functions that machine code and generated C call, on a
 * stream that is never NULL. Programs use anfora/rt.h. An object states the version of this interface that it was made
 * for (anf_object in anfora/rt.h); functions are added to it and do not change.
 *
 * Example of what code that does not run as machine code says when it stops:
 *   anf_stream *s = anf_stream_new(NULL);
 *   anf_rt_tell(s, &(anf_trap){.kind = ANF_TRAP_HOST, .status = ANF_INVALID, .text = "no"});
 *   bool good = anf_stream_trap(s)->kind == ANF_TRAP_HOST;
 *   anf_stream_free(s);
 */
#ifndef ANFORA_RT_ABI_H
#define ANFORA_RT_ABI_H

#include "anfora/rt.h"

#ifdef __cplusplus
extern "C" {
#endif

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
/* Traps if the stream is to stop. Code compares the word at ANF_RT_STACK_LIMIT with UINTPTR_MAX in place. */
ANF_API void anf_rt_poll(anf_stream *s);
/* Counts a turn of a loop, a call, the end of a call. ANF_RT_COMMIT: traps if the stream is to stop, and from here on nothing
 * stops the call any more, for it writes what must be written whole. */
enum { ANF_RT_TURN, ANF_RT_CALL, ANF_RT_LEAVE, ANF_RT_COMMIT };
ANF_API void anf_rt_count(anf_stream *s, int32_t what);
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
/* A mark, and the end of all that was kept since: marks are given back in reverse order. */
ANF_API void *anf_rt_keep_mark(anf_stream *s);
ANF_API void anf_rt_keep_release(anf_stream *s, void *mark);
/* Stops at a site of the program's table. */
ANF_API void anf_rt_stop(anf_stream *s, int64_t site, int64_t a, int64_t b) ANF_RT_NORETURN;
/* Leaves of what anf_rt_print prints next. */
ANF_API void anf_rt_put(anf_stream *s, uint64_t bits);
ANF_API void anf_rt_put_tensor(anf_stream *s, void *p, uint64_t bytes);
ANF_API void anf_rt_print(anf_stream *s, int64_t site);
/* Operations of the stream's communicator (anfora/comm.h): starts one, of kind and dtype as there, and returns its ticket.
 * `count` elements at `in`; a, b: root, or the ranks sent to and received from; `ranks`: that the program is made for, or 0. */
ANF_API int64_t anf_rt_comm_start(anf_stream *s, int32_t kind, int32_t type, bool mean,
                                  int64_t ranks, void *in, void *out, uint64_t count, int64_t a,
                                  int64_t b);
/* Waits for it. Stops at the site, or one of the ANF_COMM_WHY_COUNT - 2 after it, if it failed. */
ANF_API void anf_rt_comm_wait(anf_stream *s, int64_t ticket, void *in, void *out, int64_t site);
/* The rank, or the number of ranks. */
ANF_API int64_t anf_rt_comm_rank(anf_stream *s, bool count);
/* Asks the system for tiles of AMX, for all of the process. False: it has none, or refuses. */
ANF_API bool anf_rt_tiles(void);
/* Conversions that the target may lack: bits of the small type, rounded to nearest even. */
ANF_API uint16_t anf_rt_f64_to_f16(double x);
ANF_API uint16_t anf_rt_f64_to_bf16(double x);
ANF_API float anf_rt_f16_to_f32(uint16_t x);
/* A part (0: real) of a function of complex numbers; the n-th derivative of the digamma function. */
ANF_API double anf_rt_complex(anf_stream *s, int32_t f, int32_t part, double re, double im,
                              double re2, double im2);
ANF_API double anf_rt_polygamma(anf_stream *s, int32_t n, double x);
/* Eigenvalues and eigenvectors of a symmetric matrix of n rows; singular values and vectors of one of m rows. `work` is scratch
 * memory, as large as the compiler knows it has to be. */
ANF_API void anf_rt_eigh(anf_stream *s, uint64_t n, void *a, void *w, void *v, void *work);
ANF_API void anf_rt_svd(anf_stream *s, uint64_t m, uint64_t n, void *a, void *u, void *values,
                        void *vt, void *work);
/* LU with row pivots, and QR by reflections, of a matrix of m rows and n columns. */
ANF_API void anf_rt_lu(anf_stream *s, uint64_t m, uint64_t n, void *a, void *lu, void *pivots,
                       void *rows);
ANF_API void anf_rt_householder(anf_stream *s, uint64_t m, uint64_t n, void *a, void *h, void *tau,
                                void *work);
/* Marks of the allocator: frees all that was allocated after the mark was taken. */
ANF_API uint64_t anf_rt_mark(anf_stream *s);
ANF_API void anf_rt_release(anf_stream *s, uint64_t mark);

#ifdef __cplusplus
}
#endif
#endif
