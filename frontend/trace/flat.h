// SPDX-License-Identifier: Apache-2.0
/* Writing to formats that have neither tuples nor closures (ONNX, StableHLO).
 *
 *   ((a, b), None)          the tensors a and b, with names
 *   (t.0, t.1)              their names: ops of tuples and records write nothing
 *   f(x), f has one use     the nodes of f
 *   Switch(c, f, g)(x)      the format's own choice, whose branches are the nodes of f and g
 *
 * What differs is in a table that the format fills. */
#ifndef ANFI_FLAT_H
#define ANFI_FLAT_H

#include "frontend/trace/export.h"

/* Data of the program in the file. The type of a tensor without an element type is settled: i64, f64. */
typedef struct anfi_out {
  const char *name;     // of a tensor; "": None; NULL: it has items
  const anf_type *type; // of a tensor
  size_t n;
  const struct anfi_out *const *item;
} anfi_out;
typedef ANFI_VEC(const anfi_out *) anfi_outs;

typedef struct anfi_flat anfi_flat;

/* NULL or false with an error. */
typedef struct anfi_flat_form {
  /* limits of the format */
  anfi_code refusal; // "%s %s cannot be written to .."
  bool sized;        // types of the file have all sizes: branches of a choice must have the same
  size_t nested;     // bodies in place, until they become functions of their own
  /* how the format writes each kind of node */
  const anfi_out *(*tensor)(anfi_flat *w, const anf_type *t, const char *name); // NULL: a new name
  const anfi_out *(*constant)(anfi_flat *w, const anf_value *v);
  const anfi_out *(*any)(anfi_flat *w, const anf_type *t); // a tensor that is never read
  const anfi_out *(*select)(anfi_flat *w, const anfi_out *c, const anfi_out *x, const anfi_out *y);
  const anfi_out *(*op)(anfi_flat *w, const anf_node *n); // no op of tuples or of control
  const anfi_out *(*function)(anfi_flat *w, const anf_graph *g, const char *name,
                              const anfi_outs *args); // a call of a function of the file
  const anfi_out *(*choice)(anfi_flat *w, const anf_node *n, const anf_node *callee, size_t narg,
                            const anfi_out *const *args);
  const anfi_out *(*loop)(anfi_flat *w, const anf_node *n);
} anfi_flat_form;

struct anfi_flat {
  /* format */
  const anfi_flat_form *form;
  void *own; // state of the format
  /* module and text */
  anf_ctx *cx;
  anf_module *m; // first-order and typed
  anf_analysis *an;
  anfi_arena *arena;
  anf_text *out;
  struct {
    anfi_map name; // graph -> its name in the file
    ANFI_VEC(const anf_graph *) todo;
  } functions;
  /* names */
  anfi_map named; // node -> anfi_out, in the function that is written
  anfi_strtab words;
  size_t count; // names so far
  size_t depth; // of bodies in place
};

void anfi_flat_init(anfi_flat *w, const anfi_flat_form *form, void *own, anf_module *m,
                    anf_text *out);
bool anfi_flat_refuse(anfi_flat *w, const anf_node *n, const char *what, const char *name);

/* ---- data ---- */
const anfi_out *anfi_out_leaf(anfi_flat *w, const char *name, const anf_type *t);
const anfi_out *anfi_out_tuple(anfi_flat *w, size_t n, const anfi_out *const *item);
void anfi_out_add(anfi_flat *w, const anfi_out *x, anfi_outs *to); // the tensors of x
/* The same structure with other tensors, taken from `*next` on. */
const anfi_out *anfi_out_like(anfi_flat *w, const anfi_out *x, const anfi_out *const **next);
bool anfi_out_same_form(const anfi_flat *w, const anfi_out *a, const anfi_out *b);
/* New tensors for data of this type, named `name`, `name.0` .. */
const anfi_out *anfi_flat_fresh(anfi_flat *w, const anf_type *t, const char *name);
const anfi_out *anfi_flat_constant(anfi_flat *w, const anf_value *v);
const anfi_out *anfi_flat_operand(anfi_flat *w, const anf_node *n);
const anfi_out *anfi_flat_choose(anfi_flat *w, const anf_node *n, const anfi_out *c,
                                 const anfi_out *x, const anfi_out *y); // tensor by tensor
const anf_type *anfi_flat_type_of(const anf_node *n);                   // also of constants

/* ---- functions ---- */
const char *anfi_flat_name(const anfi_flat *w, const anf_graph *g); // of one that is called
const anfi_out *anfi_flat_call(anfi_flat *w, const anf_node *n, const anf_node *callee, size_t narg,
                               const anfi_out *const *args);
/* The nodes of g, whose parameters are `args`; its result. */
const anfi_out *anfi_flat_body(anfi_flat *w, const anf_graph *g, const anfi_out *const *args);

#endif
