// SPDX-License-Identifier: Apache-2.0
/* Derivatives and batches of functions, as functions.
 *
 * Example:
 *   anf_module *m = NULL;
 *   anf_graph *g = NULL;
 *   anf_status st = anf_parse(cx, "def cube(x: f64) { x * x * x }", "cube.anf", d, &m);
 *   if (st == ANF_OK) st = anf_grad(anf_module_find(m, "cube"), NULL, d, &g);
 *   anf_value *x = anf_value_f64(cx, 2.0), *dx = NULL;
 *   if (st == ANF_OK) st = anf_run(g, 1, &x, NULL, d, &dx);
 *   anf_value_release(dx);
 *   anf_value_release(x);
 *   anf_module_free(m);
 */
#ifndef ANFORA_GRAD_H
#define ANFORA_GRAD_H

#include "anfora/ir.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct anf_grad_opts {
  size_t size;
  /* Names or positions of the arguments to differentiate by, with blanks or commas between: "0",
   * "w b". NULL: the first, or with `all` every one. One gives its gradient, several a tuple. */
  const char *wrt;
  bool value;     // give (value, gradient)
  bool has_aux;   // the function gives (value, aux), and the gradient function (gradient, aux)
  bool allow_int; // gradients of integers, bools and keys are zeros and no error
  bool all;       // of all arguments, a tuple; with `wrt` a pair: (of all, of those)
  bool sens;      // the gradient function takes the gradient of the value as its last argument
} anf_grad_opts;

/* A new graph in the module of g, with g's parameters: its gradient. The interpreter runs it;
 * anf_optimise makes it a graph without transforms. `all` and `sens` are MindSpore's get_all and
 * sens_param, and do not go with `value`, `has_aux` or `allow_int`. `o` and `d` may be NULL. */
ANF_API anf_status anf_grad(anf_graph *g, const anf_grad_opts *o, anf_diag *d, anf_graph **out);

typedef struct anf_jacobian_opts {
  size_t size;
  const char *wrt; // as of anf_grad_opts
  bool has_aux, allow_int;
  bool forward; // column by column, for more outputs than inputs; anf_hessian does not ask
} anf_jacobian_opts;
/* The Jacobian of g, and the second derivatives of a scalar g: graphs with g's parameters. */
ANF_API anf_status anf_jacobian(anf_graph *g, const anf_jacobian_opts *o, anf_diag *d,
                                anf_graph **out);
ANF_API anf_status anf_hessian(anf_graph *g, const anf_jacobian_opts *o, anf_diag *d,
                               anf_graph **out);

typedef struct anf_jvp_opts {
  size_t size;
  bool has_aux; // the function gives (value, aux)
} anf_jvp_opts;
/* Forward mode: a graph that takes g's arguments, then a tangent for each, and gives (value, tangent), with has_aux
 * (value, tangent, aux). */
ANF_API anf_status anf_jvp(anf_graph *g, const anf_jvp_opts *o, anf_diag *d, anf_graph **out);
/* Reverse mode: a graph that takes g's arguments, then the cotangent of the value, and gives (value, cotangents), the
 * latter a tuple with one for each argument; with has_aux (value, cotangents, aux). */
ANF_API anf_status anf_vjp(anf_graph *g, const anf_jvp_opts *o, anf_diag *d, anf_graph **out);

#define ANF_UNBATCHED INT64_MIN
typedef struct anf_vmap_opts {
  size_t size;
  /* Where the batch's axis is in each argument, as many as the function has parameters; ANF_UNBATCHED: the argument is the
   * same for all. NULL: the first axis of every one. */
  const int64_t *in_axes;
  int64_t out_axis; // in all results
} anf_vmap_opts;
/* A graph with g's parameters that applies g to a batch of arguments: each is a tensor with one axis more. */
ANF_API anf_status anf_vmap(anf_graph *g, const anf_vmap_opts *o, anf_diag *d, anf_graph **out);

#ifdef __cplusplus
}
#endif
#endif
