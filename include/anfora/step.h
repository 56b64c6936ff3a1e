// SPDX-License-Identifier: Apache-2.0
/* Training from a host: a function that is compiled once and run many times on state that is updated
 * in place.
 *
 * A step function takes its state, then its inputs; it gives the new state, then its outputs:
 *     def step(w, x, y) { (l, dw) = value_and_grad(loss)(w, x, y); (w - 0.1 * dw, {loss = l}) }
 * The first `nstate` parameters are the state. With nstate > 0 the result is a tuple whose first
 * nstate items have the types of those parameters; the other items are outputs. With nstate 0 the
 * whole result is the outputs. State is updated in place.
 *
 * A leaf is one tensor or scalar in a state, an input or the outputs. Leaves are numbered in order
 * and named by path: "params.w1", "opt.m.0". Paths of states and inputs begin with the name of the
 * parameter; those of outputs are the fields of the record ("loss"), or the indices in the tuple
 * ("0"), or "out" if there is one tensor alone.
 *
 * A step and its context serve one thread at a time. While a submitted run is under way only
 * anf_step_wait, anf_step_cancel, anf_step_busy and anf_step_free may be called.
 *
 * Example:
 *   const char *text =
 *       "def loss(w: f32[2], x: f32[4, 2], y: f32[4]) { Mean((x @ w - y) ** 2) }\n"
 *       "def step(w: f32[2], x: f32[4, 2], y: f32[4]) {\n"
 *       "  (l, dw) = value_and_grad(loss)(w, x, y)\n"
 *       "  (w - 0.1 * dw, {loss = l})\n"
 *       "}\n";
 *   float x[8] = {1, 0, 0, 1, 1, 1, 2, 1}, y[4] = {2, -1, 1, 3};
 *   int64_t dims[2] = {4, 2};
 *   anf_array ax = {.dtype = ANF_F32, .rank = 2, .dims = dims, .data = x};
 *   anf_array ay = {.dtype = ANF_F32, .rank = 1, .dims = dims, .data = y};
 *   anf_module *m = NULL;
 *   anf_step *s = NULL;
 *   anf_status st = anf_parse(cx, text, "line.anf", d, &m);
 *   if (st == ANF_OK) st = anf_step_new(anf_module_find(m, "step"), 1, 0, NULL, NULL, d, &s);
 *   if (st == ANF_OK) st = anf_step_bind(s, ANF_INPUT, 0, &ax, d);
 *   if (st == ANF_OK) st = anf_step_bind(s, ANF_INPUT, 1, &ay, d);
 *   for (int i = 0; st == ANF_OK && i < 200; i++) st = anf_step_run(s, d);
 *   bool learned = st == ANF_OK && anf_step_number(s, "loss") < 1e-3;
 *   (void)learned;
 *   anf_step_free(s);
 *   anf_module_free(m);
 */
#ifndef ANFORA_STEP_H
#define ANFORA_STEP_H

#include "anfora/comm.h"
#include "anfora/exec.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct anf_step anf_step;
typedef enum anf_role { ANF_STATE, ANF_INPUT, ANF_OUTPUT } anf_role;

typedef enum anf_nan_check {
  ANF_NAN_IGNORE,
  ANF_NAN_STOP, // a run whose outputs hold NaN or infinity, or whose new state holds NaN, fails
  ANF_NAN_FIND  // such a run stops before it changes the state, and the message names the operation
                // that made the first
} anf_nan_check;

/* Parameters, and other state that is not updated element by element alone. */
typedef enum anf_shard_params {
  ANF_PARAMS_WHOLE, // each rank holds all
  ANF_PARAMS_AGAIN, // a part; gathered for each layer that reads them, forward, and again backward
  ANF_PARAMS_ONCE   // a part; gathered once a step, and kept until the last layer that reads them
} anf_shard_params;

typedef struct anf_step_opts {
  size_t size;
  const anf_exec_opts *exec; // engine and the like
  anf_trace *trace;          // borrowed by the step; NULL: nothing is recorded
  uint32_t threads;          // of parallel loops; default 1. More: exec.parallel is set too
  anf_nan_check nan;
  /* Called by the host's thread after each run; false: the run reports ANF_CANCELLED. */
  bool (*progress)(void *user, const anf_step *s, uint64_t count, double ms);
  void (*print)(void *user, const char *text, size_t len); // output of the program, after the run
  void *user;
  /* This rank of several that train one model, each with rows of its own of the batch (docs/distributed.md): gradients by
   * the state, and the losses that were differentiated, become means over the ranks. Borrowed by the step. NULL: that of the
   * context, for programs that exchange tensors themselves. */
  anf_comm *comm;
  /* A run that is under way can be stopped: by anf_step_cancel, anf_ctx_cancel and the limits below, as of anf_run_opts,
   * which set it too. The state is then as it was before the run: once that writes over the state, nothing stops it any more. */
  bool stops;
  uint64_t max_ms, max_steps, max_depth;
  /* With `comm`: of state tensors of at least so many bytes that the program updates element by element, such as an optimizer's,
   * each rank holds and updates a part (docs/distributed.md). 0: each rank holds all. */
  uint64_t shard;
  /* With `comm`: the ranks are one model together (tensor parallel), and all are given the same batch. Of state that is named here
   * each rank holds a part along an axis: "w1=column, w2=row, attention.qkv=2", with a path or the end of one for a name, and
   * for an axis a number, column (the last), row (the first) or whole. What follows from it is cut, too (docs/distributed.md).
   * NULL: the ranks are data parallel. */
  const char *ANF_NULLABLE split;
  /* With `comm`: the parameters are sharded, too (docs/distributed.md). `shard` 0 is 4096 then. */
  anf_shard_params params;
} anf_step_opts;

/* Compiles `g` for these arguments, one for each parameter; states start as copies of theirs, and
 * inputs are those values until others are bound. `args` NULL (n 0): the parameters have types in
 * the program, states start as zeros. The module must outlive the step. `o` and `d` may be NULL. */
ANF_API anf_status anf_step_new(anf_graph *g, size_t nstate, size_t n,
                                anf_value *const *ANF_NULLABLE args, const anf_step_opts *o,
                                anf_diag *d, anf_step **out);
/* The same for types; all starts as zeros. */
ANF_API anf_status anf_step_new_typed(anf_graph *g, size_t nstate, size_t n,
                                      const anf_type *const *types, const anf_step_opts *o,
                                      anf_diag *d, anf_step **out);
/* Waits for a run that is under way. s may be NULL. */
ANF_API void anf_step_free(anf_step *s);

/* ---- leaves ---- */
ANF_API size_t anf_step_leaf_count(const anf_step *s, anf_role r);
ANF_API const char *anf_step_leaf_name(const anf_step *s, anf_role r,
                                       size_t i); // NULL past the end
/* The number of the leaf with this path; anf_step_leaf_count if there is none. */
ANF_API size_t anf_step_leaf_find(const anf_step *s, anf_role r, const char *path);
/* Type and memory of a leaf as it is now: dense, borrowed, valid until the leaf is bound anew. Of a
 * leaf that is bound with strides: the dense copy that the last run used. */
ANF_API anf_status anf_step_leaf(const anf_step *s, anf_role r, size_t i, anf_array *out);

/* The type of a state as a whole, without memory; of one that is not sharded that of the leaf. A leaf that is sharded is this rank's
 * part, in a row, or along an axis if the step is split. anf_step_write takes the part or, of the whole, copies the part; anf_step_read, given memory for the whole,
 * gathers it, as anf_step_get does: all ranks do that in the same order. */
ANF_API anf_status anf_step_whole(const anf_step *s, size_t i, anf_array *out);

/* Text, a line each: the state of which a rank holds a part, and the exchanges of a run in their order, with their places in the program. */
ANF_API anf_status anf_step_exchanges(const anf_step *s, anf_text *out);

/* The host's memory in place of the step's own: states are read and updated there, inputs read,
 * outputs written, by every run, until something else is bound or the step is freed. Dense memory is
 * used where it is (states must be aligned to their elements); with other strides it is copied in
 * before a run and out after it. A state that is bound takes the host's values. `data` NULL: back to
 * memory of the step's own; a state keeps its values. Type and dims must be those of the leaf. A run is refused while
 * memory that it writes overlaps that of another leaf (E0564). */
ANF_API anf_status anf_step_bind(anf_step *s, anf_role r, size_t i, const anf_array *a,
                                 anf_diag *d);
/* The same with a DLManagedTensor (or, `versioned`, a DLManagedTensorVersioned) on the CPU. Taken if
 * the status is ANF_OK: its deleter is called when something else is bound or the step is freed. */
ANF_API anf_status anf_step_bind_dlpack(anf_step *s, anf_role r, size_t i, void *managed,
                                        bool versioned, anf_diag *d);
/* A leaf lent as a new DLManagedTensor; it must be given back, by its deleter, before the step is
 * freed. NULL when out of memory or past the end. */
ANF_API void *anf_step_lend_dlpack(anf_step *s, anf_role r, size_t i);
/* Copies once: into a state or an input (which uses memory of its own then), out of any leaf. */
ANF_API anf_status anf_step_write(anf_step *s, anf_role r, size_t i, const anf_array *from,
                                  anf_diag *d);
ANF_API anf_status anf_step_read(const anf_step *s, anf_role r, size_t i, const anf_array *to,
                                 anf_diag *d);
/* The state or input of a whole parameter, by index, as a value. */
ANF_API anf_status anf_step_set(anf_step *s, size_t param, anf_value *v, anf_diag *d);
ANF_API anf_status anf_step_get(const anf_step *s, size_t param, anf_diag *d, anf_value **out);
/* The outputs of the last run, a new value. */
ANF_API anf_status anf_step_outputs(const anf_step *s, anf_diag *d, anf_value **out);
/* An output that is a number, by its path; NaN if there is none. */
ANF_API double anf_step_number(const anf_step *s, const char *path);
/* Binds every input and state of `to` to the state of `from` with the same path, so that both work
 * on one memory: a step that trains and one that tests. `from` must outlive `to`'s runs. */
ANF_API anf_status anf_step_share(anf_step *from, anf_step *to, anf_diag *d);

/* ---- running ---- */
/* One step, on the calling thread. */
ANF_API anf_status anf_step_run(anf_step *s, anf_diag *d);
/* Starts a step on a thread of the step's own; anf_step_wait ends it and returns its status. The
 * wait delivers the program's output. */
ANF_API anf_status anf_step_submit(anf_step *s, anf_diag *d);
ANF_API anf_status anf_step_wait(anf_step *s, anf_diag *d);
ANF_API bool anf_step_busy(const anf_step *s); // submitted, and not done yet
/* From any thread: the run after this (or, submitted, the one not begun yet) does not happen and
 * reports ANF_CANCELLED, once. A step that is under way is finished; with the option `stops` it ends soon, reports
 * ANF_CANCELLED, and leaves the state as it was. */
ANF_API void anf_step_cancel(anf_step *s);
/* Steps done, those before the checkpoint that was read included. */
ANF_API uint64_t anf_step_count(const anf_step *s);
ANF_API double anf_step_compile_ms(const anf_step *s);

/* ---- checkpoints: safetensors files with a tensor for each leaf of the state ---- */
/* Atomic: an existing file is unchanged if this fails. With the option `shard` all ranks call it: they gather leaf by leaf, and rank 0
 * writes. The file is that of a step that is not sharded, for any number of ranks. */
ANF_API anf_status anf_step_save(const anf_step *s, const char *path, anf_diag *d);
/* The same in parts: each rank writes what it holds of the sharded state to a file beside `path`, and rank 0 a file at `path` that
 * names them. Whenever ranks end, the checkpoint before is there or this one. All ranks call it, on a file system that they share;
 * any number of ranks loads it. Without sharded leaves rank 0 alone writes. `meta`: texts that rank 0 adds, nmeta pairs. */
ANF_API anf_status anf_step_save_parts(const anf_step *s, const char *path, size_t nmeta,
                                       const char *const *ANF_NULLABLE meta, anf_diag *d);
/* Every leaf must be there, with its type and dims; if not, the state stays as it was. */
ANF_API anf_status anf_step_load(anf_step *s, const char *path, anf_diag *d);

#ifdef __cplusplus
}
#endif
#endif
