// SPDX-License-Identifier: Apache-2.0
/* Formulas of derivatives, parsed: the form that formula.c builds node by node and recipe.c compiles.
 *   "(Mul dy (Conj b))"                  terms dy, b, Conj(b), Mul(dy, Conj(b)); root: the last */
#ifndef ANFI_FORMULA_H
#define ANFI_FORMULA_H

#include "autodiff/derive/derive.h"

typedef enum anfi_term_kind {
  OF_INPUT, // number `index`
  OF_Y,
  OF_DY,   // place `index`
  OF_NODE, // a hook's
  OF_ATTR, // the number in attribute `index` of the primal
  OF_NUMBER,
  OF_OP
} anfi_term_kind;

typedef enum { A_VALUE, A_ATTR, A_HOOK, A_SHAPE } binding_kind;

typedef struct binding {
  binding_kind kind;
  uint32_t k, index; // attribute k of the op; which attribute, value or term it takes
  anf_value *value;
} binding;

typedef struct anfi_term {
  anfi_term_kind kind;
  anfi_opcode op;
  uint32_t index, n, nattr;
  bool many; // a repeated input
  double number;
  uint32_t in[6];
  binding attr[8];
  const char *text; // where it was read, to find it again
  size_t len;
} anfi_term;

struct anfi_formula {
  ANFI_VEC(anfi_term) terms;
  ANFI_VEC(int) roots; // terms, or ROOT_*
};
enum { ROOT_ZERO = -1, ROOT_NONE = -2, ROOT_GRAPH = -3, ROOT_HOOK = -4 };

/* The last one serves all inputs that are left. */
static inline int anfi_formula_root(const anfi_formula *f, size_t input) {
  return f->roots.at[input < f->roots.n ? input : f->roots.n - 1];
}
/* Ops on numbers alone; false when it is none of them. */
bool anfi_on_numbers(anfi_opcode op, const double *x, double *out);

#endif
