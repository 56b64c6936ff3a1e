// SPDX-License-Identifier: Apache-2.0
/* Writing .onnx, by trace/flat.h. */
#ifndef ANFI_ONNX_WRITE_H
#define ANFI_ONNX_WRITE_H

#include "frontend/onnx/onnx.h"
#include "frontend/trace/flat.h"

enum { OX_OPSET = 21, OX_IR_VERSION = 10, OX_MOST_NESTED = 32 };
#define OX_DOMAIN "anfora" // of functions

typedef struct anfi_ox_own {
  size_t nodes; // so far
  /* of the graph of the model, or of a function */
  anfi_map made;       // name -> scope
  anfi_map exact;      // name of a number as a real -> its name as an i64
  anfi_strtab encoded; // small constants
  anfi_map constant;   // their numbers -> anfi_out
  struct {
    ANFI_VEC(const anf_value *) value;
    ANFI_VEC(const char *) name;
  } constants;
  size_t scope, nscope; // subgraphs, counted
} anfi_ox_own;
static inline anfi_ox_own *anfi_ox_own_of(const anfi_flat *w) { return (anfi_ox_own *)w->own; }

/* write_value.c */
void anfi_ox_put_tensor(anfi_flat *w, uint32_t field, const char *name, const anf_value *v);
bool anfi_ox_put_value_info(anfi_flat *w, uint32_t field, const char *name, const anf_type *t);
const anfi_out *anfi_ox_constant(anfi_flat *w,
                                 const anf_value *v); // a constant; NULL with an error
const char *anfi_ox_ints(anfi_flat *w, size_t n, const int64_t *x); // [n]
const char *anfi_ox_int(anfi_flat *w, int64_t x);                   // a scalar
const char *anfi_ox_number(anfi_flat *w, anf_dtype d, int64_t x);
void anfi_ox_attr_int(anfi_flat *w, const char *name, int64_t x);
void anfi_ox_attr_ints(anfi_flat *w, const char *name, size_t n, const int64_t *x);
void anfi_ox_attr_float(anfi_flat *w, const char *name, double x);
void anfi_ox_attr_text(anfi_flat *w, const char *name, const char *s, size_t len);

/* write.c */
const char *anfi_ox_new_name(anfi_flat *w); // of a value made in this scope
/* A node: its inputs, then attributes, then outputs. */
size_t anfi_ox_open(anfi_flat *w, const char *op, size_t n, const char *const *in);
const char *anfi_ox_close(anfi_flat *w, size_t at); // one output, with a new name
const char *anfi_ox_put(anfi_flat *w, const char *op, size_t n, const char *const *in);
const char *anfi_ox_cast(anfi_flat *w, const char *x, anf_dtype d);
const char *anfi_ox_real(anfi_flat *w, const char *index,
                         anf_dtype d); // a cast that is taken back for nothing

/* write_flow.c */
const anfi_out *anfi_ox_call_function(anfi_flat *w, const anf_graph *g, const char *name,
                                      const anfi_outs *args);
const anfi_out *anfi_ox_choice(anfi_flat *w, const anf_node *n, const anf_node *callee, size_t narg,
                               const anfi_out *const *args);
const anfi_out *anfi_ox_loop(anfi_flat *w, const anf_node *n);

/* write_op.c */
const anfi_out *anfi_ox_op(anfi_flat *w, const anf_node *n);

/* write_window.c: the word `|..` of a row. Inputs are appended to `in`, attributes written. */
typedef struct anfi_ox_inputs {
  ANFI_VEC(const char *) list;
} anfi_ox_inputs;
bool anfi_ox_window_inputs(anfi_flat *w, const anf_node *n, const char *word, anfi_ox_inputs *in);
bool anfi_ox_window_attrs(anfi_flat *w, const anf_node *n, const char *word);
/* Ops that are several operators: pools by matrices, transposed convolutions; false where n is none of them. */
bool anfi_ox_window_op(anfi_flat *w, const anf_node *n, const anfi_out **out);
/* Attribute k of n as integers, by a constant or a node; NULL with an error, "" for None. */
const char *anfi_ox_attr_list(anfi_flat *w, const anf_node *n, uint32_t k);
const char *anfi_ox_attr_scalar(anfi_flat *w, const anf_node *n, uint32_t k, anf_dtype d);
/* An integer, or a list of them, as a tensor of rank 1 of i64. */
const char *anfi_ox_as_list(anfi_flat *w, const anfi_out *x);

/* write_index.c */
const anfi_out *anfi_ox_get_item(anfi_flat *w, const anf_node *n);

#endif
