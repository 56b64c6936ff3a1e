// SPDX-License-Identifier: Apache-2.0
/* What inference knows of one op where it is applied, and the parts of its rules (ops/). */
#ifndef ANFI_INFER_OPS_H
#define ANFI_INFER_OPS_H

#include "optimizer/infer/rules.h"

typedef struct anfi_applied {
  anfi_inference *q;
  anfi_opcode op;
  const anfi_attrs *attrs;
  size_t n; // arguments, without attribute nodes
  const anfi_abs *const *in;
  anf_node *at;
  anf_value **attr; // by schema index
} anfi_applied;

typedef const anfi_abs *anfi_op_rule(const anfi_applied *p); // NULL after an error

/* apply.c */
const anfi_abs *anfi_refuse_op(const anfi_applied *p, anfi_code code, const char *a, const char *b);
/* Takes the reference. */
const anfi_abs *anfi_op_constant(const anfi_applied *p, anf_value *v);

/* nest.c: the rule of an op on tuples, records, functions and choices; NULL: the op is about data. */
anfi_op_rule *anfi_nest_rule(const anfi_applied *p);

/* data.c: by the row's hook */
anfi_op_rule anfi_infer_data;
/* The result's type with other types of arguments; NULL: refused, for other reasons than functions if `other`. */
const anf_type *anfi_type_with(const anfi_applied *p, const anf_type *const *t, bool *other);

/* weak.c: False, with an error, where the result depends on which branch gave a number. What `out` is instead to `weak`. */
bool anfi_meets_branches(const anfi_applied *p, const anf_type *const *t, const anf_type *out,
                         uint8_t *weak);
/* Does the op take the number that one branch gives, and not the type that both have, as Mod of 2.5 and c64? Then an
 * error is recorded. */
bool anfi_takes_one_branch(const anfi_applied *p, const anf_type *const *t);

#endif
