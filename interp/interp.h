// SPDX-License-Identifier: Apache-2.0
/* The reference interpreter's own parts. A graph is compiled once a run to a plan: a list of steps
 * over numbered slots. A machine runs plans with frames of its own, so depth costs heap and no C
 * stack.
 *
 * Stack of a machine, slots of counted references or NULL:
 *   … | function value | parameters | locals | temporaries …
 *       base - 1         base                  base + nslot
 */
#ifndef ANFI_INTERP_H
#define ANFI_INTERP_H

#include "anfora/run.h"
#include "ir/ops/op.h"

/* ---- interp_plan.c ---- */

typedef ANFI_VEC(anf_value *) anfi_values;

/* An operand: two bits select the array that `at` indexes. */
enum { ANFI_LOCAL, ANFI_CAPTURE, ANFI_CONST, ANFI_CLOSURE };
static inline uint32_t anfi_operand(uint32_t kind, uint32_t at) { return kind << 30 | at; }
static inline uint32_t anfi_operand_kind(uint32_t o) { return o >> 30; }
static inline uint32_t anfi_operand_at(uint32_t o) { return o & 0x3fffffff; }

typedef enum anfi_step_kind {
  ANFI_STEP_OP,      // types, then computes
  ANFI_STEP_CONTROL, // the row's hook alone: it checks what it needs and has no use for types
  ANFI_STEP_SWITCH,  // makes only the operand that is chosen
  ANFI_STEP_TUPLE,
  ANFI_STEP_ITEM, // of a tuple, at a constant index
  ANFI_STEP_CALL, // in[0] is the callee
  ANFI_STEP_TAIL, // the same as the graph's last step: its frame is given up
  ANFI_STEP_RETURN
} anfi_step_kind;

#define ANFI_NO_SLOT UINT32_MAX
typedef struct anfi_step {
  /* what it does */
  uint8_t kind;
  uint16_t op;
  uint32_t nin, nkill, nattr_in; // the last nattr_in inputs are attributes
  /* operands and result */
  uint32_t dst;       // slot of the result, or ANFI_NO_SLOT
  const uint32_t *in; // operands, then slots that nothing uses after this step
  anf_value **attr;   // by schema index; NULL where an input gives it
  /* its node, and types that it has seen */
  const anf_node *node; // its origin
  bool over;            // input 0 is in a slot that nothing uses after this step
  bool elementwise;     // the result type follows from input types: caches the last ones
  const anf_type *seen[3], *type;
} anfi_step;

/* A graph that captures, in an operand: where its captures are in the frame that makes it. */
typedef struct anfi_closure {
  const anfi_fn *f; // the constant: code, and arguments that are bound already
  bool self;        // the running graph: its function value will do
  uint32_t n;
  const uint32_t *in;
} anfi_closure;

typedef struct anfi_plan {
  anf_graph *graph;
  uint32_t nparam, ncapture, nslot, nstep, nunused;
  /* parameters */
  bool checked;              // does one have a declared type?
  const anf_type **declared; // by parameter, or NULL
  const uint32_t *unused;    // those that nothing uses
  /* steps, and what they use */
  anfi_step *step;
  ANFI_VEC(anf_value *) consts; // borrowed
  ANFI_VEC(anfi_closure) closures;
} anfi_plan;

/* The plans of one module in one run. */
typedef struct anfi_program {
  /* module */
  struct anfi_program *next;
  anf_module *module;
  anf_analysis *an;
  anfi_arena *arena;
  /* plans */
  const anfi_plan **plans; // by graph id, made when first called
  uint32_t *owner, *slot;  // by node id: graph id + 1 that `slot` was set for; its operand
  uint32_t *last;          // by node id: the last step that uses it
  anfi_values *held;       // values made for plans
} anfi_program;

/* Of a graph that belongs to the program; NULL with E0420 if it cannot run. */
const anfi_plan *anfi_plan_make(anfi_program *p, anf_graph *g);

/* ---- interp_type.c: does a value fit a declared type? ---- */

typedef struct anfi_dim_size {
  int64_t dim, size;
} anfi_dim_size;

/* The sizes of symbolic dims, and why a value did not fit. */
typedef struct anfi_fit {
  /* the match */
  anf_ctx *cx;
  anfi_arena *arena;
  bool host; // from outside: lossless conversions are allowed
  ANFI_VEC(anfi_dim_size) dims;
  /* the first thing that did not fit */
  const anf_type *want; // of the part that did not fit
  const anf_value *got;
  int64_t symbol, size; // a dim bound to another size already, or 0
  bool range;           // the type would do, the number is outside
  /* result */
  bool converted; // set where a number takes a type that is not its own
} anfi_fit;
/* v checked against t and converted: a new reference, or NULL. Records no error. */
bool anfi_fit_value(anfi_fit *f, anf_value *v, const anf_type *t, anf_value **out);
/* Whether v fits t, without converting it. */
bool anfi_fits(anfi_fit *f, const anf_value *v, const anf_type *t);
/* Records why a value did not fit: as argument i of a function, or as its result. Always false. */
bool anfi_fit_fail_argument(const anfi_fit *f, anfi_loc loc, size_t i, const char *of);
bool anfi_fit_fail_result(const anfi_fit *f, anfi_loc loc, const char *of);
/* "f32[2]", "a tuple of 3 items": in a few words. */
void anfi_put_kind(anf_text *o, const anf_value *v);

/* ---- interp.c, and its helpers for steps ---- */

typedef struct anfi_mapping anfi_mapping;
typedef struct anfi_call_frame {
  const anfi_plan *plan; // NULL: a mapping or a loop
  anfi_mapping *map;
  size_t base;
  uint32_t pc;               // next step
  const anf_graph *want;     // whose declared result type the result must fit, or NULL
  size_t first_dim;          // in `kept`: sizes of the dims that its arguments have named
  struct anfi_looping *loop; // of a loop
} anfi_call_frame;

/* Called after each op: its node, its inputs, its result. */
typedef void (*anfi_watch)(void *user, const anf_node *node, size_t n, anf_value *const *in,
                           const anf_value *out);

typedef struct anfi_machine {
  anf_ctx *cx;
  anf_run_opts opts;
  anfi_arena arena;   // plans and other things of the whole run
  anfi_arena scratch; // of one step
  anf_text text;      // printed text, and words for messages
  /* programs */
  anfi_program *programs;
  anfi_values held;
  /* the stack */
  anfi_call_frame *frame;
  size_t nframe, frame_cap;
  anf_value **slot; // INVARIANT: slot[0..sp) are owned or NULL
  size_t sp, slot_cap;
  anf_value **arg; // borrowed inputs of one step
  size_t arg_cap;
  anf_value *acc; // a result on its way, owned
  /* types of arguments */
  anfi_fit fit, outer;          // of calls inside, of the call from outside
  ANFI_VEC(anfi_dim_size) kept; // of frames that owe a result of a declared type
  /* limits and observers */
  uint64_t end;            // ns of the clock; 0: no limit of time
  uint64_t steps, fuel;    // steps taken when fuel was last given; steps until the next check
  uint64_t work, max_work; // so far, as of anfi_run_small, and at most; max_work 0: not counted
  bool more;               // there is more of it
  anfi_watch watch;        // called with each op's result; or NULL
  void *watch_user;
} anfi_machine;

static inline void anfi_drop(anf_value *v) {
  if (v && v->refs > 1 && v->refs != UINT32_MAX) v->refs--;
  else anf_value_release(v);
}
static inline anf_value *anfi_keep(anf_value *v) {
  if (v->refs != UINT32_MAX) v->refs++;
  return v;
}

/* interp.c */
/* As anf_run, inside a frame; a new reference, or NULL with an error. */
anf_value *anfi_run_watched(anf_graph *g, size_t n, anf_value *const *args, anfi_watch watch,
                            void *user);
/* What a run does: 8 for each operation, 1 for each element that it reads or makes, of products 1 for 8 multiplications,
 * about. The same program does the same work for the same arguments, whatever the machine. */
typedef struct anfi_work {
  uint64_t most, done;
  bool more; // there was more than `most`
} anfi_work;
/* As anf_run for a program with little work. Gives up with ANF_LIMIT and no finding when there is more of it. */
anf_status anfi_run_small(anf_graph *g, size_t n, anf_value *const *args, const anf_run_opts *o,
                          anfi_work *work, anf_diag *d, anf_value **result);
/* Ends a run that has too much work; always false. */
bool anfi_machine_give_up(anfi_machine *m);
bool anfi_machine_in_time(anfi_machine *m);           // false with an error: max_ms are over
anfi_loc anfi_machine_loc(const anfi_machine *m);     // of the step that runs
void anfi_machine_reserve(anfi_machine *m, size_t n); // n more slots
static inline void anfi_machine_push(anfi_machine *m, anf_value *v) { // takes the reference
  m->slot[m->sp++] = v;
}
void anfi_machine_drop_to(anfi_machine *m, size_t sp);
/* Calls slot[p] with the arguments after it; `tail` gives up the running frame. */
bool anfi_machine_call(anfi_machine *m, size_t p, bool tail);
/* A frame without a plan, whose function and arguments start at slot[base]. NULL: too deep. */
anfi_call_frame *anfi_machine_enter_map(anfi_machine *m, size_t base);
/* The frame on top ends, and acc is its result. */
bool anfi_machine_leave(anfi_machine *m);

/* interp_step.c */
bool anfi_step_run(anfi_machine *m, anfi_call_frame *f); // the next step of a frame with a plan
/* Room for n borrowed values, until the next call. */
anf_value **anfi_machine_args(anfi_machine *m, size_t n);
bool anfi_machine_eval(anfi_machine *m, uint16_t op, size_t n, anf_value *const *in,
                       anf_value *const *attr, bool over, anf_value **out);

/* interp_map.c: HyperMap, Map, and the choice of a multitype function */
bool anfi_map_is_leaf(uint16_t op, const anf_value *first);
bool anfi_map_start(anfi_machine *m, size_t p, uint16_t op);
bool anfi_map_step(anfi_machine *m, anfi_mapping *map, size_t base);
void anfi_map_take(anfi_mapping *map,
                   anf_value *v); // takes the reference: result of the call it made
void anfi_map_free(anf_ctx *cx, anfi_mapping *map);
/* slot[p + 1] is a tuple of functions: the one that fits the arguments after it takes the callee's
 * place. */
bool anfi_pick_function(anfi_machine *m, size_t p);

/* interp/transform.c: what to run instead of g where it comes to a transform: a copy in first-order form
 * that has none, and what the functions in its result are. Lives until the frame is left. */
typedef struct anfi_prepared {
  anf_graph *g;
  anfi_origins origins;
  bool cut; // g is the rest of a function, of which a part has run
} anfi_prepared;
/* The arguments of a call. Those of the copy may be others. */
typedef struct anfi_given_values {
  size_t n;
  anf_value *const *at;
} anfi_given_values;
/* Where a shape follows from arguments, these are part of the copy. Where one follows from what g computes, the part that comes
 * before runs, with `o`, if that is not NULL, and the copy is of the rest. */
bool anfi_run_prepare(anf_graph *g, anfi_given_values *v, const anf_run_opts *o,
                      anfi_prepared *out);
/* Likewise for a function value, where it is a transform or comes to one; else out->g is NULL. The
 * copy takes what functions among f and its arguments bind, in order, and the other arguments. */
bool anfi_run_prepare_value(anf_value *f, anfi_given_values *v, anfi_prepared *out);

/* interp_loop.c */
void anfi_loop_free(anf_ctx *cx, struct anfi_looping *l);
bool anfi_loop_finished(const anfi_call_frame *f);
bool anfi_loop_start(anfi_machine *m, size_t p);
bool anfi_loop_step(anfi_machine *m, anfi_call_frame *f);
bool anfi_loop_take(anfi_machine *m, anfi_call_frame *f); // the result of a round, in acc

#endif
