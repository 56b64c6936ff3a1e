// SPDX-License-Identifier: Apache-2.0
/* From first-order graphs to Tensor IR: functions, calls, branches, loops, effects. Ops on tensors
 * are op.h's.
 *
 * Glossary
 *   leaf    a part of a value that is no tuple or record. A tuple is the list of its leaves; None has none
 *   scalar  a leaf of rank 0 that is not complex: a value of the Tensor IR
 *   buffer  any other tensor: dense memory, owned by whoever needs the value
 *   boxed   a box or a stack: the address of a record in the stream's memory, as a scalar u64
 *   name    a string or a type: its number among the program's, or of the call's after them, as a
 *           scalar u64
 *   site    a place that code names by a number when it calls the run time: what failed there, or
 *           what is printed
 *
 * A function takes the leaves of its parameters, then room for the leaves of its result: a buffer,
 * or one element for a scalar; the first scalar leaf of the result is what it returns instead. */
#ifndef ANFI_LOWER_H
#define ANFI_LOWER_H

#include "backend/lower/op.h"

/* ---- leaves ---- */
typedef struct anfi_leaf {
  const anf_type *type; // a tensor
  anf_tir_elem elem;
  bool scalar;
  bool boxed; // a scalar that is the address of a box or stack
  bool name;  // a scalar that is the number of a string or type
  uint64_t n; // elements of a buffer
} anfi_leaf;
typedef ANFI_VEC(anfi_leaf) anfi_leaves;
/* Appends the leaves of t. False with an error for what compiled code has not: unknown dims,
 * functions. */
bool anfi_leaves_of(anf_ctx *cx, anfi_arena *a, const anf_type *t, anfi_loc loc, anfi_leaves *out);
/* How many leaves t has; no error. */
size_t anfi_leaf_count(const anf_type *t);
/* The place of the leaf that the function returns, or n. */
size_t anfi_returned_leaf(const anfi_leaves *l);

/* ---- sites ---- */
typedef enum anfi_site_kind { ANFI_SITE_FAIL, ANFI_SITE_PRINT } anfi_site_kind;
typedef struct anfi_site_info {
  anfi_site_kind kind;
  anfi_loc loc; // file: interned in the context
  anfi_code code;
  uint16_t op;
  const char *text;      // message of an assertion, or NULL
  size_t n;              // PRINT: its arguments
  const anf_type **type; // their types; NULL: a constant,
  anf_value **value;     // which is this
} anfi_site_info;

/* ---- regions: what a trace tells of ---- */
typedef struct anfi_region {
  const char *name;    // of the op; of region 0 the entry's
  anfi_loc loc;        // file: interned in the context
  double flops, bytes; // of products; of arguments and result
} anfi_region;

/* ---- programs ---- */
typedef struct anfi_lowered {
  /* the module */
  anf_ctx *cx;
  anfi_arena *arena; // of the fields below
  tmod *module;
  /* the entry */
  const char *entry;         // name of the function
  anfi_leaves param, result; // of the entry
  size_t *first;             // of each parameter's leaves in `param`; one more at the end
  const anf_type *result_type;
  /* tables that code refers to by number */
  ANFI_VEC(anfi_site_info) sites;
  ANFI_VEC(anf_value *) names;    // by number: strings and types
  ANFI_VEC(anfi_region) regions;  // by the number that code tells
  ANFI_VEC(anfi_in_step) in_step; // of the entry
  bool recursive;                 // some function may call itself: needs a deep stack
} anfi_lowered;

typedef struct anfi_lower_opts {
  const char *name; // of the entry; NULL: the graph's
  size_t nstate;    // parameters that the first items of the result replace
  /* how */
  bool fast, parallel;
  const struct anfi_isa *isa;        // of the machine that code is made for; NULL: a common one
  const struct anfi_mm_plans *plans; // of products (plan.h); NULL: the cost model's
  /* what else there is */
  bool regions;             // code tells a trace where it is
  size_t first_site;        // the number that code has for the first of out->sites
  anf_text *fusion;         // a report of the loops that ops share; or NULL
  void (*edit)(void *user); // changes out->module before its loops become functions; or NULL
  void *user;
} anfi_lower_opts;

/* Lowers g, which is closed, typed and first order, and all that it calls. What `out` holds is in
 * out->arena, except the module, which the frame frees unless it is kept. */
bool anfi_lower_graph(anf_graph *g, const anfi_lower_opts *o, anfi_lowered *out);

/* Are parameters and result free of names, which have no meaning outside of a call with values? */
bool anfi_lowered_is_plain(const anfi_lowered *l, anfi_loc loc);

/* outline.c: loops of large functions become functions; equal ones the same. */
void anfi_lower_outline(anfi_arena *a, tmod *m);

#endif
