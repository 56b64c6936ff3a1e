// SPDX-License-Identifier: Apache-2.0
/* Compiled functions, inside. */
#ifndef ANFI_EXEC_H
#define ANFI_EXEC_H

#include "anfora/build.h"
#include "anfora/comm.h"
#include "anfora/exec.h"
#include "backend/lower/lower.h"
#include "interp/applied.h"
#include "interp/interp.h"

typedef anfi_given anfi_arg;

/* The signature that code is made for, as words: equal signatures have equal words. An argument is its type; its
 * value too, where code is made for values; or, if it is a function, the function and the same of
 * what it captured and has bound. */
typedef struct anfi_sig {
  ANFI_VEC(uint64_t) word;
} anfi_sig;

typedef struct anfi_variant anfi_variant;
typedef struct anfi_partition anfi_partition; // partition.c
typedef struct anfi_seldom anfi_seldom;       // seldom.c
typedef struct anfi_batch anfi_batch;         // batch.c

/* Which passes changed something. */
typedef struct anfi_pass_ran {
  const char *pass;
  uint64_t rewrites;
} anfi_pass_ran;
typedef struct anfi_pass_log {
  anfi_arena *arena;
  ANFI_VEC(anfi_pass_ran) ran; // in the order in which they first did
  ANFI_VEC(const char *) note; // why they left something
} anfi_pass_log;

void anfi_pass_log_add(anfi_pass_log *log, const char *pass, uint64_t rewrites);
void anfi_explain_passes(anf_ctx *cx, const anfi_pass_log *graphs, const tmod *m, bool parallel,
                         anf_text *out);

/* Extras of a compilation. Every member may be empty. */
typedef struct anfi_job {
  anf_trace *trace;
  anf_text *fusion;                  // receives the report on loops that ops share
  anfi_pass_log *log;                // receives the graph passes that changed something
  const struct anfi_mm_plans *plans; // of products; NULL: as the options say
  bool whole;                        // code cannot be stopped
  size_t first_site;                 // the number of the first site
  /* For training steps */
  size_t nstate; // parameters that the first items of the result replace
  /* Changes the graph while its derivatives are Derive nodes, called once more when that is cleaned; the second looks at the
   * result when they are expanded. */
  void (*spread)(void *user, anf_graph *g);
  bool (*check_spread)(void *user, anf_graph *g);
  size_t (*shard)(void *user, anf_graph *g); // changes the optimised graph: in how many places
  void (*amend)(void *user, anf_graph *g);   // adds to the optimised graph
  void (*edit)(void *user, anfi_variant *v); // changes the lowered module
  void *user;                                // of both hooks
} anfi_job;

/* A function at one signature. */
struct anfi_variant {
  /* identity */
  anfi_job job;       // while it is made
  anfi_variant *next; // used before
  anfi_arena arena;   // of all but the code
  const char *name;   // of the function in the code; NULL: the graph's
  anfi_loc loc;       // of the function
  /* signature */
  anfi_sig sig;
  const char **arg; // by argument: what it is made for, as text
  size_t narg;
  const anf_type **type; // by argument; NULL: some are functions or values
  /* code */
  anfi_lowered low;      // its module is gone
  size_t nodes;          // operations and calls of the optimised program
  const anfi_form *form; // of the result, if it contains functions
  anfi_origins origins;  // of the functions that the form names
  anf_jit_module *code;
  anf_jit_function *function;
  /* of a batch in pieces; code is NULL then */
  anfi_variant **piece; // one for each call, held
  size_t npiece;
  unsigned holders; // batches that have it as a piece
};

/* Which values code is made for, of arguments that may be part of a program (integers, bools, strings,
 * types): none, those that types seem to depend on, all. */
typedef enum anfi_fixing { ANFI_FIX_NONE, ANFI_FIX_NEEDED, ANFI_FIX_ALL } anfi_fixing;

struct anf_exec {
  /* context and options */
  anf_ctx *cx;
  anf_exec_opts o;
  anf_jit_engine *engine;
  /* the compiled program */
  anf_graph *g;
  anf_value *fn;     // instead of g: a function value, which is the first argument of all calls
  anf_value **fixed; // by argument, or NULL; as many as nfixed
  size_t nfixed;
  anfi_fixing fixing, most_fixing;
  uint64_t needed; // bits of arguments, if fixing is NEEDED
  /* its variants */
  anfi_variant *variant;                // used last first
  size_t nvariant, compilations, nodes; // nodes: of all that was compiled
  bool cuts;                 // in parts, where sizes depend on data and it cannot be compiled whole
  anfi_partition *partition; // its parts; NULL: it is whole
  anfi_batch *batch;         // which arguments have had several sizes
  anfi_seldom *seldom;       // sizes without code; NULL: none yet
  uint64_t *interpreted;     // of the last call's sizes, if they have none: the work so far
  bool may_interpret;        // the current call's
  bool counts; // the current call has limits that code counts for: a variant of its own
  double compile_ms;
  anf_text log; // of compilations
  anfi_job job; // of the variants made next
};

/* trace.c: an anfi_comm_watch */
void anfi_trace_exchange(void *t, anf_comm_kind k, uint64_t bytes, uint64_t from, uint64_t to);
/* trace.c; t NULL: nothing is recorded */
void anfi_trace_span(anf_trace *t, const char *name, uint64_t from, uint64_t to); // ns of the clock
void anfi_trace_pass(void *t, anf_module *m, const char *pass, double ms, uint64_t rewrites);
void anfi_trace_region(void *t, int64_t id, bool leaves); // from any thread
/* Names the regions of the code of `low`; regions recorded before are forgotten. */
void anfi_trace_regions(anf_trace *t, const anfi_lowered *low);

/* seldom.c: may this function's calls be interpreted? */
bool anfi_seldom_may(const anf_exec *e);
/* The work that sizes without code have been so far; NULL: they are to have code. */
uint64_t *anfi_seldom_work(anf_exec *e, size_t n, const anfi_arg *args, const anfi_sig *sig);
/* False: it failed or was too much, and code is to be made, or it was stopped from outside. */
bool anfi_seldom_run(anf_exec *e, uint64_t *work, size_t n, anf_value *const *args,
                     const anf_run_opts *o, anf_value **result);
const anf_type *anfi_seldom_result(const anf_exec *e); // of the last call that was interpreted
size_t anfi_seldom_calls(const anfi_seldom *s);        // that were interpreted
void anfi_seldom_explain(const anf_exec *e, anf_text *out);
void anfi_seldom_free(anf_ctx *cx, anfi_seldom *s);

/* signature.c */
bool anfi_exec_sig(const anf_exec *e, anfi_arena *a, size_t n, const anfi_arg *args, anfi_sig *out);

/* compile.c: the graph for these arguments as Tensor IR; what `low` holds is in low->arena, the
 * module is the frame's unless it is kept. */
bool anfi_exec_lower(anf_ctx *cx, anf_graph *g, size_t n, const anfi_arg *args,
                     const anf_exec_opts *o, anfi_variant *v);
anfi_variant *anfi_variant_new(anf_exec *e, size_t n, const anfi_arg *args);
void anfi_variant_free(anf_ctx *cx, anfi_variant *v);

/* print_site.c: what a Print shows, as anf_site has it */
const char *anfi_site_print(anfi_arena *a, const anfi_lowered *low, const anfi_site_info *s);

/* build.c: builds as anf_build_graph does. The hooks, each of which may be NULL, change the lowered
 * module (of a function whose first nstate parameters the result replaces), and write into the header
 * how the function is called. */
struct cgen;
struct anfi_c_doc;
typedef struct anfi_build_hooks {
  size_t nstate;
  void (*edit)(void *user, anfi_variant *v);
  void (*put)(struct cgen *c, tfunc f, uint32_t flags, const struct anfi_c_doc *doc);
  void *user;
} anfi_build_hooks;
void anfi_build_graph(anf_graph *g, size_t n, const anf_type *const *types, unsigned forms,
                      const anf_build_opts *o, const anfi_build_hooks *h, anf_text *out);

/* specialise.c: is code made for values of argument i, of this type? */
bool anfi_exec_fixes(const anf_exec *e, size_t i, const anf_type *t);
/* Writes down what v is made for. */
void anfi_exec_describe(anf_exec *e, anfi_variant *v, size_t n, const anfi_arg *args);
/* The same, and why v is compiled, as compared with what was used before it. */
void anfi_exec_log(anf_exec *e, anfi_variant *v, size_t n, const anfi_arg *args, double ms);

/* batch.c: batches that run in pieces */
void anfi_batch_note(anfi_variant *v, size_t n, const anfi_arg *args); // the types of what was made
/* What such a call runs, if its rows are apart and there were other sizes before. NULL without an error: code is made for it; of a
 * size that a piece has, where *apart, so that no call of it is interpreted. */
anfi_variant *anfi_batch_variant(anf_exec *e, size_t n, const anfi_arg *args, const anfi_sig *sig,
                                 bool *apart);
void anfi_batch_explain(const anf_exec *e, anf_text *out);
void anfi_batch_free(anf_ctx *cx, anfi_batch *b); // and all others after it

/* exec.c: a function that nothing is compiled of yet; freed with the frame if that fails. NULL with
 * an error. */
anf_exec *anfi_exec_new(anf_graph *g, const anf_exec_opts *o);
/* Compiled for these arguments, now or before. NULL with an error. */
anfi_variant *anfi_exec_variant(anf_exec *e, size_t n, const anfi_arg *args);
/* Argument i as parameter i of g declares it (g NULL, or no type: as it is), retained. */
bool anfi_exec_fit(anf_ctx *cx, const anf_graph *g, anfi_fit *f, size_t i, anf_value *v,
                   anf_value **out);

/* call.c: values to code and back */
/* Tells what stopped a call on `s`, under these limits. Always false. */
bool anfi_variant_failed(anf_ctx *cx, const anfi_variant *v, const anf_run_opts *limits,
                         anf_stream *s, anf_status st);
/* The line that a Print of the code gives, whose leaves are these. */
void anfi_variant_put_printed(anf_ctx *cx, const anfi_variant *v, int64_t site,
                              const uint64_t *leaf, anf_text *out);
/* The same into buffers of the host, one for each leaf of the result. */
bool anfi_variant_run_into(anf_exec *e, anfi_variant *v, size_t n, anf_value *const *args,
                           const anf_run_opts *o, size_t nout, const anf_array *out);
bool anfi_variant_run(anf_exec *e, anfi_variant *v, size_t n, anf_value *const *args,
                      const anf_run_opts *o, anf_value **result);

/* range.c: memory that one call reads and writes */
typedef struct anfi_range {
  uintptr_t from, to; // bytes from..to - 1
  bool written;
  unsigned kind; // `kind` and `of` say to the caller whose memory it is
  size_t of;
} anfi_range;

/* Do two of the ranges share bytes, of which one is written? Sorts them; the two go to `met`. */
bool anfi_ranges_meet(anfi_range *r, size_t n, const anfi_range *met[2]);

#endif
