// SPDX-License-Identifier: Apache-2.0
/* Models of PNNX: a .param file (operators) and a .bin file (weights).
 *
 * Loading checks the files; building turns the operators into one graph, each through the creator
 * that is registered for its type, and compiles it (anfora/exec.h); forward runs that on the inputs
 * that are set and keeps the outputs. Shapes that the file leaves open are those of the inputs.
 *
 * Example:
 *   anf_pnnx *p = NULL;
 *   const char *text = "7767517\n3 2\n"
 *                      "pnnx.Input a 0 1 0 #0=(2)f32\n"
 *                      "pnnx.Expression e 1 1 0 1 expr=mul(@0,3)\n"
 *                      "pnnx.Output b 1 0 1\n";
 *   anf_status st = anf_pnnx_read(cx, text, strlen(text), "inline", NULL, 0, NULL, d, &p);
 *   int64_t dims[] = {2};
 *   float data[] = {1, 2};
 *   anf_value *x = anf_value_tensor(cx, ANF_F32, 1, dims, data);
 *   if (st == ANF_OK) st = anf_pnnx_set_input(p, 0, x, d);
 *   if (st == ANF_OK) st = anf_pnnx_forward(p, d);
 *   const anf_value *y = st == ANF_OK ? anf_pnnx_output(p, 0) : NULL;   // [3, 6]
 *   anf_value_release(x);
 *   anf_pnnx_free(p);
 */
#ifndef ANFORA_PNNX_H
#define ANFORA_PNNX_H

#include "anfora/exec.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct anf_pnnx anf_pnnx;
typedef struct anf_pnnx_op anf_pnnx_op;
typedef struct anf_pnnx_registry anf_pnnx_registry;

/* ---- operators: from the name of a type to the creator of its nodes ---- */

/* Adds nodes to `g` for one operator and gives its `nout` results. Inputs are nodes of `g` or
 * constants. What it finds wrong goes to anf_pnnx_fail, whose status it returns. */
typedef anf_status (*anf_pnnx_creator)(void *user, const anf_pnnx_op *op, anf_graph *g, size_t nin,
                                       anf_node *const *in, size_t nout, anf_node **out);
/* A registry with every type that Anfora knows. NULL when out of memory. */
ANF_API anf_pnnx_registry *anf_pnnx_registry_new(anf_ctx *cx);
ANF_API void anf_pnnx_registry_free(anf_pnnx_registry *r);
/* Adds a type, or replaces the creator that it has. */
ANF_API anf_status anf_pnnx_register(anf_pnnx_registry *r, const char *type, anf_pnnx_creator make,
                                     void *user);
/* The name of the i-th known type, sorted; NULL past the end. */
ANF_API const char *anf_pnnx_type_name(size_t i);

ANF_API const char *anf_pnnx_op_type(const anf_pnnx_op *op);
ANF_API const char *anf_pnnx_op_name(const anf_pnnx_op *op);
ANF_API uint32_t anf_pnnx_op_line(const anf_pnnx_op *op);
/* The text of a parameter, NULL if it has none of that key. */
ANF_API const char *anf_pnnx_op_param(const anf_pnnx_op *op, const char *key);
/* A parameter as numbers: how many there are, or 0 if it is absent or no numbers; at most `max` are
 * stored. */
ANF_API size_t anf_pnnx_op_ints(const anf_pnnx_op *op, const char *key, size_t max, int64_t *out);
ANF_API size_t anf_pnnx_op_reals(const anf_pnnx_op *op, const char *key, size_t max, double *out);
/* The weights under a key; borrowed; NULL if there are none. */
ANF_API anf_value *anf_pnnx_op_attr(const anf_pnnx_op *op, const char *key);
/* Records why an operator cannot be made, with its line. Always ANF_INVALID. */
ANF_API anf_status anf_pnnx_fail(const anf_pnnx_op *op, const char *why);

/* ---- files ---- */

/* `bin` NULL: the file beside `param` that ends in .bin. `r` NULL: the built-in types; else it must
 * outlive the model. */
ANF_API anf_status anf_pnnx_load(anf_ctx *cx, const char *param, const char *ANF_NULLABLE bin,
                                 const anf_pnnx_registry *ANF_NULLABLE r, anf_diag *d,
                                 anf_pnnx **out);
/* From memory. `file` is the name in messages; the name of the .bin follows from it. */
ANF_API anf_status anf_pnnx_read(anf_ctx *cx, const char *text, size_t len,
                                 const char *ANF_NULLABLE file, const void *ANF_NULLABLE bin,
                                 size_t bin_len, const anf_pnnx_registry *ANF_NULLABLE r,
                                 anf_diag *d, anf_pnnx **out);
ANF_API void anf_pnnx_free(anf_pnnx *p);
ANF_API size_t anf_pnnx_op_count(const anf_pnnx *p);
ANF_API const anf_pnnx_op *anf_pnnx_op_at(const anf_pnnx *p, size_t i);
/* Appends both files. */
ANF_API anf_status anf_pnnx_write(const anf_pnnx *p, anf_text *param, anf_text *bin);
/* bin NULL: beside the .param, by its name. */
ANF_API anf_status anf_pnnx_save(const anf_pnnx *p, const char *param, const char *ANF_NULLABLE bin,
                                 anf_diag *d);

/* ---- running ---- */

/* Inputs and outputs are numbered from 0; names are the operators'. */
ANF_API size_t anf_pnnx_input_count(const anf_pnnx *p);
ANF_API const char *anf_pnnx_input_name(const anf_pnnx *p, size_t i);
ANF_API const anf_type *anf_pnnx_input_type(const anf_pnnx *p,
                                            size_t i); // NULL if the file has none
/* Weights are numbered in the order of the .param file; a name is operator.key. */
ANF_API size_t anf_pnnx_weight_count(const anf_pnnx *p);
ANF_API const char *anf_pnnx_weight_name(const anf_pnnx *p, size_t i);
ANF_API anf_value *anf_pnnx_weight(const anf_pnnx *p, size_t i); // borrowed

typedef struct anf_pnnx_module_opts {
  size_t size;
  bool weights; // they are parameters, after the inputs, and not constants: to train them
} anf_pnnx_module_opts;
/* A new module with the model as the function `main`, of the types in the file. `o` may be
 * NULL. */
ANF_API anf_status anf_pnnx_module(const anf_pnnx *p, const anf_pnnx_module_opts *o, anf_diag *d,
                                   anf_module **out);

typedef struct anf_pnnx_opts {
  size_t size;
  const anf_exec_opts *exec; // how models are compiled, as of anf_compile
  bool interpret;            // nothing is compiled: the reference interpreter runs the model
  /* Called with each operand after a forward, in order: its name, the operator that made it and its
   * value. NULL: intermediate values are not saved. */
  void (*debug)(void *user, const char *operand, const anf_pnnx_op *op, const anf_value *v);
  void *user;
} anf_pnnx_opts;

ANF_API anf_status anf_pnnx_set_input(anf_pnnx *p, size_t i, anf_value *v,
                                      anf_diag *d); // retains v
/* Builds and compiles for the inputs that are set, or else for the types in the file. Sets
 * the options (NULL: the defaults), for this and all later builds; their pointers must live as
 * long as the model. */
ANF_API anf_status anf_pnnx_build(anf_pnnx *p, const anf_pnnx_opts *o, anf_diag *d);
/* Runs with the inputs that are set, which must be all. Builds for their types first if that was not
 * done: shapes may differ from run to run where the file leaves them open. */
ANF_API anf_status anf_pnnx_forward(anf_pnnx *p, anf_diag *d);
/* Of the last forward: none if it failed. Borrowed until the next one. */
ANF_API size_t anf_pnnx_output_count(const anf_pnnx *p);
ANF_API const anf_value *anf_pnnx_output(const anf_pnnx *p, size_t i);

#ifdef __cplusplus
}
#endif
#endif
