// SPDX-License-Identifier: Apache-2.0
/* Programs made from the left side of a rule: operands and attributes of random types, constants
 * and values for its parameters. A draw that does not type fails, and the caller draws again. */
#ifndef ANF_TEST_RULES_SAMPLE_H
#define ANF_TEST_RULES_SAMPLE_H

#include "optimizer/rules/rule.h"

#include "anfora/anfora.h"

enum { MAX_PARAMS = 40 };

typedef struct sample {
  anf_ctx *cx;
  uint64_t seed; // of the stream of random numbers
  const anfi_rule *rule;
  anf_module *m;
  anf_graph *g;   // its parameters are the operands
  anf_node *root; // the left side
  const anf_type *param[MAX_PARAMS];
  size_t nparam;
  anf_dtype dtype; // of most operands
  size_t shape;    // of most operands
  anfi_rewriter *r;
  anf_node *near;
  anf_node *var[ANFI_RULE_VARS];
  anf_value *value[ANFI_RULE_VARS];
} sample;

/* How wild the values of floats and integers are. */
typedef enum values { ANY_BITS, TAME, TAME_SIGNED } values;

uint32_t draw(sample *s, uint32_t n); // 0..n-1
/* A module with one graph that returns an instance of the left side. False when the draw does not
 * type. */
bool sample_draw(sample *s);
/* New arguments for the parameters, with sizes for dims that are not known. */
bool sample_arguments(sample *s, values how, anf_value **args);

#endif
