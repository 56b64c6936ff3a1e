// SPDX-License-Identifier: Apache-2.0
/* Training steps, inside (anfora/step.h).
 *
 * Glossary
 *   own     memory of the step's, made when a leaf first needs it
 *   at      the dense memory that runs use: own, or the host's
 *   given   that a state's new value is written where the old one is; otherwise it is written to
 *           `next` and copied
 * INVARIANT: between submit and wait the worker alone touches what runs use; it allocates nothing of
 * the context. */
#ifndef ANFI_STEP_H
#define ANFI_STEP_H

#include "anfora/step.h"
#include "exec/exec.h"
#include "optimizer/opt.h"

struct anfi_dl; // dlpack.c

typedef struct anfi_step_leaf {
  const char *name;
  const anf_type *type;
  const anf_type *whole; // of a sharded state, of which this rank has a part; or NULL
  int32_t axis;          // of that part; -1: it is in a row
  size_t bytes;
  bool scalar;
  char *own, *at;
  size_t own_bytes;
  /* bound with strides */
  char *host;
  int64_t *strides; // NULL: dense
  struct anfi_dl *managed;
  uint32_t slot; // of a parameter, or the room for a result; ANFI_NO_ROOM
  /* of a state */
  bool given;
  char *next; // where the new value is written, unless given
  size_t next_bytes;
} anfi_step_leaf;

#define ANFI_NO_ROOM UINT32_MAX

/* What a program printed during a run: the site, the leaves' bits, bytes of its tensors. */
typedef struct anfi_step_print {
  struct anfi_step_print *next;
  int64_t site;
  size_t n;
  uint64_t leaf[];
} anfi_step_print;

enum { ANFI_SPLIT_NOT = 1000 };
typedef struct anfi_split { // what an item of the option `split` says
  const struct anfi_split *next;
  const char *name; // the end of a path
  size_t len;
  int64_t axis; // ANFI_SPLIT_NOT: it stays whole
} anfi_split;

struct anf_step {
  anf_ctx *cx;
  anfi_arena arena;
  anf_step_opts o;
  /* the program and its code */
  anf_exec *exec;
  anfi_variant *v;
  anf_graph *g;
  const char *exchanges; // with other ranks, as text
  /* parameters and outputs */
  size_t nstate;          // parameters that are state
  const anf_type **param; // as the host knows them
  const anf_type **held;  // as they are in the code: of sharded states the parts
  const anf_type *out;    // of the outputs
  /* leaves */
  anfi_step_leaf *leaf[3]; // by role
  size_t nleaf[3];
  size_t *first; // by parameter: its first leaf among all leaves of parameters; one more at the end
  anf_generic *slot;
  size_t returned; // slot of the leaf that is returned; or none
  anfi_step_leaf *returned_leaf;
  bool apart; // memory was compared since something was bound (apart.c)
  /* sharded states, split steps */
  int32_t rank, ranks;     // that its parts are made for
  size_t nsharded;         // leaves of the state
  const anfi_split *split; // o.split as it was read; or NULL
  int32_t *axis;           // by leaf of the state that is split
  bool averages;           // gradients over ranks, which have as many rows each
  uint64_t rows;           // a sum of how many, by input; not 0
  uint64_t *sums;          // room for the sums of all ranks, of inputs or rows
  int32_t uneven;          // a rank whose inputs, or rows, are not those of rank 0; or -1
  bool torn;               // a run failed between updates of a sharded state
  /* runs */
  anf_stream *stream;
  anfi_worker *worker;
  uint64_t count;
  double ms; // of the last run
  anf_status status;
  anf_run_opts limits; // of a run, if o.stops
  atomic_bool cancel;
  atomic_bool running; // code that anf_step_cancel stops
  bool submitted;
  bool cancelled; // the submitted run did not happen
  /* what they print */
  anfi_step_print *print, **print_end;
  bool print_lost;  // no memory for it
  size_t **printed; // by site and leaf: bytes of a tensor, 0 for a number
};

/* step.c */
/* False, with an error, while a run is under way. */
bool anfi_step_idle(const anf_step *s);

/* leaf.c */
/* Memory of the context's, aligned to 64 bytes; `*whole` is what to free it with. */
char *anfi_step_memory(anf_ctx *cx, size_t bytes, size_t *whole);
void anfi_step_memory_free(anf_ctx *cx, char *p, size_t whole);
void anfi_step_own(anf_step *s, anfi_step_leaf *l); // gives the leaf memory of its own, unbinding
bool anfi_step_bind_array(anf_step *s, anf_role r, size_t i, const anf_array *a);
void anfi_step_gather(const anfi_step_leaf *l);  // host → at, if bound with strides
void anfi_step_scatter(const anfi_step_leaf *l); // at → host
void anfi_step_leaf_free(anf_step *s, anfi_step_leaf *l);
const char *anfi_step_role_name(anf_role r);
/* Takes the leaves of v, which is of the parameter's type. */
void anfi_step_fill(anf_step *s, size_t param, const anf_value *v);
anf_value *anfi_step_value(const anf_step *s, const anf_type *t, const anfi_step_leaf *first);

/* apart.c: false, with E0564, if a run would write memory that another leaf has. */
bool anfi_step_apart(anf_step *s);

/* name.c */
/* Names the leaves of type t, whose path begins with `path`, in order. */
/* Returns the leaf after them. */
anfi_step_leaf *anfi_step_name(anf_step *s, const anf_type *t, const char *path,
                               anfi_step_leaf *at);

/* step.c */
/* The type of numbers without a type yet, made definite: their bits are the same. */
const anf_type *anfi_step_settled(anf_ctx *cx, const anf_type *t);
/* What a function gives besides its state; NULL with an error if it does not give that. */
const anf_type *anfi_step_outputs(const anf_graph *g, size_t nstate, const anf_type *const *param,
                                  const anf_type *result);

/* donate.c */
/* Lets new states be written where the old ones are, as far as that changes nothing: given[i] says
 * for which. Changes the module. `stops`: it is code that can be stopped, but not from its first such write on. False: nothing
 * says so in the code. */
bool anfi_step_donate(anfi_variant *v, size_t nstate_leaf, bool *given, bool stops);
/* After that: the function copies the other tensors of the state itself, at its end, and has no room
 * for them. `commits`: it must say that nothing stops it from there on. False with an error if it is called by functions of the
 * module. */
bool anfi_step_copy_back(anfi_variant *v, size_t nstate_leaf, const bool *given, bool commits);

/* nan.c */
/* Fails if an output holds NaN or infinity, or the state NaN. */
bool anfi_step_check(anf_step *s);
/* Makes the function stop before it changes its state if one is going to hold such; `ranks`: of a sharded state, or 0. */
void anfi_step_guard(anf_graph *g, size_t nstate, int32_t ranks);
/* After a run that was stopped by that: the error. False if it was stopped by something else. */
bool anfi_step_explain(anf_step *s);
double anfi_step_number_at(anf_dtype t, const void *p); // a real, integer or bool element

/* spread.c: of a step on several ranks. The first two while derivatives are not expanded yet. */
/* Gradients by the state, and scalars that were differentiated, become means over all ranks. Has the program no sums over ranks of its
 * own, by which it may weigh them? */
bool anfi_step_spread(anf_graph *g, size_t nstate);
/* Removes means of values that are the same on all ranks. Are there others? */
bool anfi_step_leave_out_means(anf_graph *g, size_t nstate);
/* Is the new state the same on all ranks? Else E1210. */
bool anfi_step_check_spread(anf_graph *g, size_t nstate);

/* The nodes of g, inputs first; `out`: ids of those whose value is not the same on all ranks. */
anfi_node_vec anfi_step_find_differing(anf_graph *g, size_t nstate, anfi_arena *a, anfi_map *out);

/* tree.c: the leaves of the state in the optimised graph */
typedef struct anfi_state_leaf {
  const anf_type *type, *part; // part: that each rank holds; NULL where it holds all
  anf_node *next;              // its new value; NULL: an item of a tuple that is not made here
} anfi_state_leaf;
typedef struct anfi_state {
  anf_ctx *cx;
  anf_graph *g;
  anfi_arena *a;
  size_t nstate;
  anfi_node_vec order; // inputs first
  ANFI_VEC(anfi_state_leaf) leaf;
  anfi_map read; // by node that is part of the old state: the number of its first leaf, and 1
  anfi_map tree; // by node: a tuple or record of the result, and nothing else
} anfi_state;
size_t anfi_state_count(size_t nstate, const anf_type *const *param); // leaves
const anf_type **anfi_state_types(anfi_arena *a, size_t nstate, const anf_type *const *param);
bool anfi_state_find(anfi_state *s); // false: the result is not made of the state and the outputs
bool anfi_state_reads(const anfi_state *s,
                      const anf_node *n); // is it the old state, or an item of it?
bool anfi_state_is_result(const anfi_state *s, const anf_node *n); // a tuple or record of it
anfi_state_leaf *anfi_state_leaf_of(const anfi_state *s,
                                    const anf_node *n); // that n reads, or NULL
void anfi_state_keep_whole(anfi_state *s,
                           const anf_node *n); // the leaves of n, which reads the state
void anfi_state_take_parts(
    anfi_state *s); // parameters, and what reads them, get the types of parts
/* Makes the result anew. value: the node in place of n, of the leaf's part; of an output, for which leaf is NULL, all of it. */
typedef anf_node *anfi_state_value(void *user, anf_node *n, const anfi_state_leaf *leaf);
void anfi_state_give(anfi_state *s, anfi_state_value *value, void *user);

/* shard.c: of the optimised graph. State tensors of at least so many bytes become a part of them on each rank, where the
 * program allows it. How many. */
size_t anfi_step_shard(anf_graph *g, size_t nstate, int32_t ranks, uint64_t least,
                       anf_shard_params params);

/* layer.c: values of which each rank has a part, as wholes for what reads them. */
typedef struct anfi_layers_job {
  anf_graph *g;
  anfi_arena *a;
  const anfi_node_vec *order; // inputs first
  bool once;                  // a value is gathered once for all that reads it
  bool (*reads_whole)(void *user, const anf_node *n); // not: by parts
  anf_node *(*whole)(void *user, anf_node *of, const anf_node *reader, int64_t layer);
  void *user;
} anfi_layers_job;
void anfi_step_gather_layers(anfi_layers_job *job, anf_node *const *of, size_t n);

/* split.c: of the optimised graph. State that the host names is cut along an axis; what follows from it is, too. `axis`: by
 * leaf, -1 where it is whole. How many; 0 with an error if that cannot be. */
size_t anfi_step_split(anf_graph *g, size_t nstate, int32_t ranks, const anfi_split *at,
                       const char *const *name, int32_t *axis);
bool anfi_step_read_split(anf_ctx *cx, anfi_arena *a, const char *text, const anfi_split **out);

/* whole.c: leaves of the state that are sharded, as a whole. Gathering is an operation of all ranks. */
/* Copies this rank's part, or all, of a dense tensor of the whole type. */
void anfi_step_take(const anf_step *s, const anfi_step_leaf *l, const void *whole);
/* False, with E1227, if parts of the state may be lost or of different steps. */
bool anfi_step_together(const anf_step *s);
/* False with an error if the ranks do not answer. */
bool anfi_step_whole(const anf_step *s, const anfi_step_leaf *l, void *out);

/* parts.c: of a checkpoint in parts, whose file is no longer the one that names them. */
void anfi_step_remove_parts(anf_ctx *cx, const char *path);
bool anfi_step_saves_together(
    const anf_step *s); // save.c: all ranks take part in anf_step_save, or rank 0 alone

const char *anfi_step_param_path(anf_step *s, size_t i);
const char **anfi_step_state_names(anf_step *s); // by leaf; in scratch memory

/* node.c: nodes of the optimised graph, with the types they have. */
static inline anf_node *anfi_typed(anf_node *n, const anf_type *t) {
  n->type = t;
  return n;
}
anf_node *anfi_typed_op(anf_graph *g, anfi_opcode op, const anfi_attrs *at, anf_node *x,
                        const anf_type *t); // of one input, in whose place it stands
anf_node *anfi_reshaped(anf_graph *g, anf_node *x, const anf_type *t);
anf_node *anfi_item(anf_graph *g, anf_node *x, uint32_t i); // of a tuple or record

/* exchange.c */
/* Text: each exchange of the graph, in its order. In the step's arena. */
const char *anfi_step_find_exchanges(anf_step *s, const anf_graph *g);
/* Before a run, on any thread: a rank of a split step whose inputs are not those of rank 0, or one of a step with means over ranks that
 * has another number of rows; or -1. All ranks find the same one. Rows are compared when a step runs that the ranks did not run last. */
int32_t anfi_step_uneven(const anf_step *s);
uint64_t anfi_step_rows(const anf_step *s); // of leaves that are made

/* dlpack.c */
void anfi_dl_release(struct anfi_dl *m);

#endif
