// SPDX-License-Identifier: Apache-2.0
/* Compiled functions: a graph, and machine code for each signature that it is called with.
 *
 * A signature is the types of the arguments, shapes included. Compiling one takes a copy of the
 * graph, specialises and optimises it, lowers it to Tensor IR and hands that to an engine
 * (anfora/jit.h). The module of the graph must outlive the compiled function, and is not changed.
 *
 * Example:
 *   anf_module *m = NULL;
 *   anf_exec *e = NULL;
 *   anf_value *arg = anf_value_i64(cx, 20), *result = NULL;
 *   const char *text = "def fib(n) { if n < 2 { n } else { fib(n - 1) + fib(n - 2) } }";
 *   anf_status st = anf_parse(cx, text, "fib.anf", d, &m);
 *   if (st == ANF_OK) st = anf_compile(anf_module_find(m, "fib"), NULL, d, &e);
 *   if (st == ANF_OK) st = anf_exec_run(e, 1, &arg, NULL, d, &result);
 *   anf_value_release(arg);
 *   anf_value_release(result);
 *   anf_exec_free(e);
 *   anf_module_free(m);
 */
#ifndef ANFORA_EXEC_H
#define ANFORA_EXEC_H

#include "anfora/jit.h"
#include "anfora/run.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct anf_exec anf_exec;

typedef struct anf_exec_opts {
  size_t size;
  anf_jit_engine *engine; // borrowed until the call returns; default: a new one of `kind`
  anf_jit_kind kind;
  const anf_jit_opts *jit; // of a new engine; borrowed until the call returns
  bool fast;               // floats may be reassociated
  bool parallel;           // large loops run on many threads
  const char *pipeline;    // over graphs; default "standard"
  uint32_t max_compiled;   // cached signatures; the least recently used is dropped; default 64
  bool tune;               // tiles of products are measured, once per product on this machine
  uint32_t
      nstate; // of anf_lowered_print: number of leading parameters that are the state of a step
  /* Called with what each stage of a compilation made: "specialise" and all passes that changed something, with the
   * graphs; "lowered", with the text of Tensor IR, large constants elided. anf_dump_stage (anfora/text.h) writes them to files. */
  void (*stage)(void *user, anf_ctx *cx, const char *stage, anf_module *m, const char *tir);
  void *stage_user;
  /* What depends on constants and fixed arguments alone is computed when code is made: results of more than 64 KiB up to so
   * many bytes in all, the rest in each call; 0: 1 GiB. */
  uint64_t fold_bytes;
  /* When calls have had so many sizes of the first dim of some arguments, those of further sizes run in pieces of 1, 2, 4, .. 64,
   * 1024 or 16384 rows, code for which is made when it is first needed: if it can be proved that each row of the result follows
   * from the same row of these arguments. Results must not lie in the memory of arguments then. 0: code for each size. */
  uint32_t any_size_after;
  bool any_size_only; // what cannot run so is an error (E1595), and not code for each size
  /* When so many signatures that differ in sizes alone have code, calls of further sizes are interpreted, each until that has been as
   * much work as its code would be to make, as counted and not timed: for a cache that grows with each call. Such results are the
   * interpreter's, which may round sums otherwise. Functions with effects, steps, calls into buffers and calls that limit steps, depth
   * or time always have code. 0: no call is interpreted. */
  uint32_t interpret_after;
} anf_exec_opts;

/* With `tune` the first program that has a product of some sizes and types compiles and measures it in
 * several dozen ways, for about a second or as long as some hundred calls take; the engine remembers the fastest,
 * and its cache_dir for other processes. Results are the same, bit for bit. Without it a cost model decides at once. */

/* Times: of passes and code generation while compiling, of regions while running. */
typedef struct anf_trace anf_trace;
/* Room for so many events; 0: 100000. What does not fit is dropped. NULL when out of memory. */
ANF_API anf_trace *anf_trace_new(anf_ctx *cx, size_t max_events);
ANF_API void anf_trace_free(anf_trace *t); // t may be NULL
/* Of the last step: exclusive time by operation and by line of the program, with the rates of products and of
 * bytes of arguments and results. A fused operation counts with its consumer. */
ANF_API anf_status anf_trace_print_table(const anf_trace *t, anf_text *out);
/* Peak rates of one thread of the machine, measured in some tens of milliseconds: 10^9 additions and
 * multiplications of f32 a second, and 10^9 bytes that are read or written by copying. `d` may be NULL. */
ANF_API anf_status anf_machine_peak(anf_ctx *cx, double *ANF_NULLABLE gflops,
                                    double *ANF_NULLABLE gbytes, anf_diag *d);
/* As JSON that chrome://tracing and Perfetto read. */
ANF_API anf_status anf_trace_print(const anf_trace *t, anf_text *out);

/* A function that compiles itself when it is first called with arguments of new types; or now, if
 * all its parameters have types. `o` and `d` may be NULL. Where sizes depend on data, what comes before is compiled and the
 * rest interpreted, or compiled for sizes that come the third time: a warning (W0908); anf_exec_function is NULL, and
 * anf_exec_result_type that of the last result. */
ANF_API anf_status anf_compile(anf_graph *g, const anf_exec_opts *o, anf_diag *d, anf_exec **out);
/* The same for a function value, such as a closure that a call returned, which is retained. The
 * modules of its graphs must outlive the compiled function. */
ANF_API anf_status anf_compile_value(anf_ctx *cx, anf_value *f, const anf_exec_opts *o, anf_diag *d,
                                     anf_exec **out);
/* Compiles for these types now. */
ANF_API anf_status anf_exec_prepare(anf_exec *e, size_t n, const anf_type *const *types,
                                    anf_diag *d);
/* The same for the types of these arguments. */
ANF_API anf_status anf_exec_prepare_for(anf_exec *e, size_t n, anf_value *const *args, anf_diag *d);
/* Fixes argument i, counted from 0, to this value in all later calls: expressions of it alone are computed
 * at compile time, and weights are pre-packed for kernels. Calls ignore their argument i, which may be NULL;
 * the function's pointer does not take it. v NULL: not fixed any more. Compiled code is dropped. */
ANF_API anf_status anf_exec_fix(anf_exec *e, size_t i, anf_value *ANF_NULLABLE v, anf_diag *d);
/* Arguments and result as of anf_run, and the options, too: with max_steps or max_depth, code that counts is made
 * for the signature. anf_ctx_cancel stops the call. Functions may be among arguments and results: code is made for each
 * function that is given, whatever data it captured. */
ANF_API anf_status anf_exec_run(anf_exec *e, size_t n, anf_value *const *args,
                                const anf_run_opts *o, anf_diag *d, anf_value **result);
/* The same into the host's own buffers, which the code writes to: `out` has one for each leaf of the result, in the order of
 * its parts, dense, aligned to its elements, of the leaf's type and dims; of a weak number, i64 or f64. None shares memory
 * with another or with an argument (E0423). What they hold after a failure is not said. */
ANF_API anf_status anf_exec_run_into(anf_exec *e, size_t n, anf_value *const *args, size_t nout,
                                     const anf_array *out, const anf_run_opts *o, anf_diag *d);
ANF_API void anf_exec_free(anf_exec *e); // e may be NULL

/* The function compiled last or used last: from any thread, with the leaves of its parameters, then
 * room for those of its result (docs/lowering.md). Borrowed; NULL if there is none. */
ANF_API anf_jit_function *anf_exec_function(const anf_exec *e);
/* The type of its result, with leaves in order; NULL if there is none, or the result holds functions.
 * The function returns the first scalar leaf and writes the others. */
ANF_API const anf_type *anf_exec_result_type(const anf_exec *e);
/* Its C function of natural signature, as of anf_jit_get_function_pointer: NULL where a batch runs in pieces. */
ANF_API void *anf_exec_pointer(const anf_exec *e);
/* How many signatures have been compiled so far, and how long that took. */
ANF_API size_t anf_exec_compilations(const anf_exec *e);
ANF_API double anf_exec_compile_ms(const anf_exec *e);
/* How many calls were interpreted so far, as of `interpret_after`. */
ANF_API size_t anf_exec_interpreted(const anf_exec *e);
/* The reason for each compilation, of very many for the last: a line with the types, the time, and the change. Where a shape
 * or an attribute depends on the value of an integer, a bool, a string or a type that is an
 * argument, code is made for each such value, and lines have it instead of its type. */
ANF_API anf_status anf_exec_explain(const anf_exec *e, anf_text *out);

/* What the graph becomes for these types: "tir", "fusion" (which ops share loops, and which passes changed something), or those of anf_jit_print: "llvm", "asm". Without a
 * target in `o.jit` the first two are the same on all machines: for one with AVX2. */
ANF_API anf_status anf_lowered_print(anf_graph *g, size_t n, const anf_type *const *types,
                                     const char *form, const anf_exec_opts *o, anf_diag *d,
                                     anf_text *out);

#ifdef __cplusplus
}
#endif
#endif
