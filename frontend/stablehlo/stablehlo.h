// SPDX-License-Identifier: Apache-2.0
/* StableHLO: MLIR text, functions of ops whose values have names and whose types are all written.
 *
 *   %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
 *   ->  the template transpose_(x, permutation) of stablehlo.anf, traced: a Transpose
 *
 * The pretty and the generic form of an op become the same structure; names of the pretty form are replaced by those of the
 * specification. A function is a graph. A while is a graph that calls itself, a branch a graph without parameters, so gradients
 * go through both. The body of a reduce, sort or scatter is no graph: its ops are built on whole tensors where its template
 * applies it, which only elementwise ops allow. */
#ifndef ANFI_STABLEHLO_H
#define ANFI_STABLEHLO_H

#include "frontend/trace/trace.h"

enum { ANFI_SH_NESTING = 64 }; // regions in regions, attributes in attributes, calls in bodies

typedef struct anfi_sh_op anfi_sh_op;

typedef struct anfi_sh_use { // %name#index
  const anfi_str *name;
  uint32_t index;
} anfi_sh_use;

typedef struct anfi_sh_result { // %name:count
  const anfi_str *name;
  uint32_t count;
} anfi_sh_result;

typedef struct anfi_sh_param {
  const anfi_str *name;
  const anf_type *type;
} anfi_sh_param;

/* One block. */
typedef struct anfi_sh_region {
  ANFI_VEC(anfi_sh_param) params;
  ANFI_VEC(anfi_sh_op *) ops;
} anfi_sh_region;

typedef struct anfi_sh_attr {
  const anfi_str *name;
  anf_value *value; // the trace holds it
} anfi_sh_attr;

struct anfi_sh_op {
  /* name and place */
  const anfi_str *name; // with its dialect: stablehlo.add
  uint32_t line, col;
  /* parts */
  ANFI_VEC(anfi_sh_result) results;
  ANFI_VEC(anfi_sh_use) in;
  ANFI_VEC(anfi_sh_attr) attrs;
  ANFI_VEC(anfi_sh_region *) regions;
  /* of results and calls */
  ANFI_VEC(const anf_type *) types; // of the results, in order
  const anfi_str *symbol;           // the function that is called, or NULL
};

typedef struct anfi_sh_func {
  const anfi_str *name;
  bool is_private;
  uint32_t line, col;
  anfi_sh_region *body;
  ANFI_VEC(const anf_type *) types; // of the results
  anf_graph *graph;
} anfi_sh_func;

typedef struct anfi_sh_model {
  anf_ctx *cx;
  anfi_arena *arena;
  const char *file;
  anfi_trace *t;
  ANFI_VEC(anfi_sh_func *) funcs;
  anfi_map by_name; // interned name -> anfi_sh_func
  anfi_map aliases; // #name -> anf_value
} anfi_sh_model;

/* The reader's position in the text, which ends with 0. */
typedef struct anfi_sh_text {
  anfi_sh_model *m;
  const char *start, *at, *end;
  const char *line_start; // of the line that `at` is on, as far as it was counted
  uint32_t line;
  size_t depth;
  bool bare; // in the pretty form the colon after a value is that of the op's types
} anfi_sh_text;

/* lex.c */
anfi_loc anfi_sh_loc(anfi_sh_text *r);
bool anfi_sh_wants(anfi_sh_text *r, const char *what); // fails with E1220
void anfi_sh_space(anfi_sh_text *r);
bool anfi_sh_sees(anfi_sh_text *r, const char *s);   // after blanks; a word is to end there
bool anfi_sh_takes(anfi_sh_text *r, const char *s);  // likewise, and steps over it
bool anfi_sh_expect(anfi_sh_text *r, const char *s); // likewise, or E1220
const anfi_str *anfi_sh_word(anfi_sh_text *r);       // letters, digits, _ . $ -; NULL: none
const anfi_str *anfi_sh_quoted(anfi_sh_text *r);     // NULL with an error
const anfi_str *anfi_sh_value_name(anfi_sh_text *r); // after %; NULL with an error
bool anfi_sh_skip(anfi_sh_text *r);                  // one bracket with its contents

/* attr.c: types and attributes; NULL or false with an error */
const anf_type *anfi_sh_type(anfi_sh_text *r);
anf_value *anfi_sh_attr_value(anfi_sh_text *r);                      // the trace holds it
bool anfi_sh_pair(anfi_sh_text *r, anfi_sh_op *op);                  // NAME, or NAME = VALUE
bool anfi_sh_dict(anfi_sh_text *r, const char *end, anfi_sh_op *op); // after its bracket
void anfi_sh_add(anfi_sh_text *r, anfi_sh_op *op, const char *name, anf_value *v);

/* dense.c: dense<..> : type, after `dense`; a splat is a scalar, to be spread by what has the type */
anf_value *anfi_sh_dense(anfi_sh_text *r);

/* parse.c: the functions of a module. False with an error recorded. */
bool anfi_sh_read(anfi_sh_model *m, const char *text, size_t len);

/* build.c */
typedef struct anfi_sh_scope {
  struct anfi_sh_scope *outer;
  anfi_map values; // name -> array of anfi_traced
} anfi_sh_scope;
typedef struct anfi_sh_build {
  anfi_sh_model *model;
  anf_module *m;
  anfi_trace *t;
  anf_graph *to;
  const char *function; // that is being built
  bool lifted;          // in the body of a reduce or the like: scalars are tensors
  size_t depth, ops_left;
} anfi_sh_build;
anf_module *anfi_sh_module(anfi_sh_model *m);
/* Builds the ops of a region in place and gives the operands of its return, as a tuple. */
const anfi_traced *anfi_sh_inline(anfi_sh_build *b, anfi_sh_scope *outer, const anfi_sh_region *g,
                                  size_t n, const anfi_traced *const *args);
/* The value as one of this type; in a lifted body only of its element type. */
const anfi_traced *anfi_sh_conform(anfi_sh_build *b, const anfi_sh_op *op, const anfi_traced *x,
                                   const anf_type *type);
anfi_loc anfi_sh_op_loc(const anfi_sh_build *b, const anfi_sh_op *op);
/* An attribute of op by its name, or NULL. */
anf_value *anfi_sh_op_attr(const anfi_sh_op *op, const char *name);
/* E1224: op has what is not read. NULL. */
const anfi_traced *anfi_sh_refuse(anfi_sh_build *b, const anfi_sh_op *op, const char *what);

/* flow.c: while, if, case, call */
bool anfi_sh_is_flow(const anfi_sh_op *op);
const anfi_traced *anfi_sh_flow(anfi_sh_build *b, anfi_sh_scope *s, const anfi_sh_op *op,
                                const anfi_traced *const *in);

/* The result of a call, taken apart. */
const anfi_traced *anfi_sh_results(anfi_sh_build *b, const anfi_sh_op *op, anf_node *call);
anf_graph *anfi_sh_graph(anfi_sh_build *b,
                         const char *name); // a new one, of the function being built

/* rule.c: functions with derivative rules */
bool anfi_sh_has_rule(const anfi_sh_op *op);
const anfi_traced *anfi_sh_rule(anfi_sh_build *b, const anfi_sh_op *op,
                                const anfi_traced *const *in);

/* op.c: by templates; the value, or the tuple of the results */
bool anfi_sh_knows(const anfi_sh_model *m, const anfi_sh_op *op);
const anfi_traced *anfi_sh_operation(anfi_sh_build *b, anfi_sh_scope *s, const anfi_sh_op *op,
                                     const anfi_traced *const *in);

#endif
