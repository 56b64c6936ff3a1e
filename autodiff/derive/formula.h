// SPDX-License-Identifier: Apache-2.0
/* Formulas of derivatives, parsed, and their evaluation: to nodes, or to the steps of a recipe.
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
  /* head */
  anfi_term_kind kind;
  anfi_opcode op;
  uint32_t index, n, nattr;
  bool many; // a repeated input
  double number;
  /* operands */
  uint32_t in[6];
  binding attr[8];
  /* source */
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
/* The parsed form of a text, made once; NULL with E0001 recorded. */
const anfi_formula *anfi_formula_parse(anfi_ad *ad, anfi_opcode op, const char *text);

/* ---- evaluation ---- */

/* The value of a term: a number, which takes the type of its neighbours, or a node, or a place of a recipe. */
typedef struct anfi_operand {
  bool known, is_number;
  uint16_t place;
  double number;
  const anf_type *type; // NULL: a number
  anf_node *node;
} anfi_operand;

typedef struct anfi_evaluation {
  anfi_ad *ad;
  const anfi_formula *f;
  anfi_operand *at;    // by term
  anf_dtype of_dy;     // the type of numbers without neighbours
  anfi_recipe *recipe; // the target; NULL: nodes, for `q`, with what a hook passes
  anfi_derive *q;
  anf_node *const *nodes;
  anf_value *const *values;
} anfi_evaluation;

/* Evaluates term i, and those that it needs first, into e->at. */
bool anfi_evaluate(anfi_evaluation *e, uint32_t i);
/* recipe.c: the place of a name; a new step for the op t. False: recipes have no such name or op. */
bool anfi_recipe_place(const anfi_recipe *r, const anfi_term *t, anfi_operand *out);
bool anfi_recipe_step(anfi_evaluation *e, const anfi_term *t, anf_dtype number, anfi_operand *out);

#endif
