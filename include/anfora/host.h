// SPDX-License-Identifier: Apache-2.0
/* C functions of the host in programs. An op is a C function that is called by name, interpreted and compiled, with a rule
 * for types that the signature gives and a derivative that the host names. A MetaFuncGraph is a C function that makes a
 * graph for the types of the arguments.
 *
 * Example:
 *   anf_host_op op = {.size = sizeof op, .name = "size_of", .type = "fn(i64) -> i64",
 *                     .function = (void (*)(void))llabs}; // or one of the host's own
 *   anf_module *m = NULL;
 *   anf_status st = anf_op_register(cx, &op, d);
 *   if (st == ANF_OK) st = anf_parse(cx, "def f(x: i64) { 2 * size_of(x) }", "f.anf", d, &m);
 *   anf_module_free(m);
 */
#ifndef ANFORA_HOST_H
#define ANFORA_HOST_H

#include "anfora/ir.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  ANF_HOST_EFFECT = 1, // each call matters, in its order: none is dropped, shared or computed early
  ANF_HOST_STATUS = 2, // the function returns an int, which stops the program unless it is 0
};

typedef struct anf_host_op {
  size_t size;
  const char *name; // as programs call it; in objects for other builds the name of the C function
  /* Tensors, or tuples and records of them. A named dim is the same number everywhere. Bools,
   * integers, f32 and f64 without dims are passed by value, all else as a dense array in C's order. Of tuples and
   * records (but for a plain tuple as the result) the C function takes and gives the tensors in them, in their order, as an op
   * NAME_leaves; such an op has no effects. */
  const char *type; // "fn(f64[N, M], f64) -> f64[N]"
  void (*function)(void);
  /* Arguments of the C function, in order, separated by spaces: `0` an argument, by index; `N` a dim, as
   * int64_t, and `N:i32` as int32_t; `out1` the address of a part of the result, and `out` of each part
   * that is not listed. The C function returns the first part that is passed by value and not listed,
   * unless it returns a status. Default: all arguments, then `out`. */
  const char *takes;
  /* The derivative: "0" says that it is zero, NULL that there is none. Otherwise the name of an op that takes
   * the arguments, the parts of the result, and the adjoint of each real part, and gives the adjoint of
   * each real argument: in the order of the arguments, a tuple if there are several.
   * It may be registered later and have a derivative of its own. */
  const char *vjp;
  unsigned flags;
} anf_host_op;

/* For all modules of the context that are read or built from now on. *op is copied; the C function must
 * outlive its callers. A function may be called from several threads at
 * once, if the host runs programs on several. */
ANF_API anf_status anf_op_register(anf_ctx *cx, const anf_host_op *op, anf_diag *d);

/* A MetaFuncGraph of the host: an op whose graph a C function makes for the types of a call's arguments. It is called
 * by name like any other function, and inlined, differentiated and compiled like one. */
typedef struct anf_meta_op {
  size_t size;
  const char *name; // as programs call it
  /* Makes a function of n parameters in a module of its own, which is the library's from then on. It is called once for each
   * list of types in a context: numbers without a type are `int` and `float`, functions `fn(any) -> any`. Any other status
   * than ANF_OK, with a finding in `d` (anf_diag_report), says that there is no graph for such arguments. The function has no effects. */
  anf_status (*generate)(void *user, anf_ctx *cx, size_t n, const anf_type *const *types,
                         anf_diag *ANF_NULLABLE d, anf_graph **out);
  void *user;
  void (*release)(void *user); // called when the context is freed; may be NULL
} anf_meta_op;
/* For all modules of the context that are read or built from now on. *op is copied. */
ANF_API anf_status anf_meta_register(anf_ctx *cx, const anf_meta_op *op, anf_diag *d);

#ifdef __cplusplus
}
#endif
#endif
