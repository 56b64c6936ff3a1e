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

struct anfi_dl; // dlpack.c

typedef struct anfi_step_leaf {
  const char *name;
  const anf_type *type;
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

struct anf_step {
  anf_ctx *cx;
  anfi_arena arena;
  anf_step_opts o;
  anf_exec *exec;
  anfi_variant *v;
  anf_graph *g;
  anf_stream *stream;
  anfi_worker *worker;
  size_t nstate;           // parameters
  anfi_step_leaf *leaf[3]; // by role
  size_t nleaf[3];
  size_t *first; // by parameter: its first leaf among all leaves of parameters; one more at the end
  const anf_type **param;
  const anf_type *out; // of the outputs
  anf_generic *slot;
  size_t returned; // slot of the leaf that is returned; or none
  anfi_step_leaf *returned_leaf;
  uint64_t count;
  double ms; // of the last run
  atomic_bool cancel;
  bool submitted;
  bool cancelled; // the submitted run did not happen
  bool apart;     // memory was looked at since something was bound (apart.c)
  anf_status status;
  anfi_step_print *print, **print_end;
  bool print_lost;  // no memory for it
  size_t **printed; // by site and leaf: bytes of a tensor, 0 for a number
};

/* step.c */
/* What a run does, on any thread. */
void anfi_step_go(anf_step *s);
/* False, with an error, while a run is under way. */
bool anfi_step_idle(const anf_step *s);

/* leaf.c */
/* The leaf of this role and number, or NULL with an error. */
anfi_step_leaf *anfi_step_at(const anf_step *s, anf_role r, size_t i);
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
void anfi_step_name(anf_step *s, const anf_type *t, const char *path, anfi_step_leaf *at);

/* step.c */
/* The type of numbers without a type yet, made definite: their bits are the same. */
const anf_type *anfi_step_settled(anf_ctx *cx, const anf_type *t);
/* What a function gives besides its state; NULL with an error if it does not give that. */
const anf_type *anfi_step_outputs(const anf_graph *g, size_t nstate, const anf_type *const *param,
                                  const anf_type *result);

/* donate.c */
/* Lets new states be written where the old ones are, as far as that changes nothing: given[i] says
 * for which. Changes the module. */
void anfi_step_donate(anfi_variant *v, size_t nstate_leaf, bool *given);
/* After that: the function copies the other tensors of the state itself, at its end, and has no room
 * for them. False with an error if it is called by functions of the module. */
bool anfi_step_copy_back(anfi_variant *v, size_t nstate_leaf, const bool *given);

/* nan.c */
/* Fails if an output holds NaN or infinity, or the state NaN. */
bool anfi_step_check(anf_step *s);
/* Makes the function stop before it changes its state if one is going to hold such. */
void anfi_step_guard(anf_graph *g, size_t nstate);
/* After a run that was stopped by that: the error. False if it was stopped by something else. */
bool anfi_step_explain(anf_step *s);
double anfi_step_number_at(anf_dtype t, const void *p); // a real, integer or bool element

/* spread.c: of a step on several ranks, whose derivatives are not expanded yet */
/* Gradients by the state, and scalars that were differentiated, become means over all ranks. */
void anfi_step_spread(anf_graph *g, size_t nstate);
/* Is the new state the same on all ranks? Else E1210. */
bool anfi_step_check_spread(anf_graph *g, size_t nstate);

/* dlpack.c */
void anfi_dl_release(struct anfi_dl *m);

#endif
