// SPDX-License-Identifier: Apache-2.0
/* What writers of other formats share: the program that is written, and its weights.
 *
 *   def net(params: {w: f32[2]}, x: f32[2]) { .. }    the fields of params are the model's parameters, with the
 *   def params() { {w = ..} }                         values that params() gives
 *
 * A net that gives (new params, result) is a training step. */
#ifndef ANFI_EXPORT_H
#define ANFI_EXPORT_H

#include "frontend/trace/trace.h"

typedef struct anfi_export_form {
  const char *pipeline; // until the ops are replaced
  const char *name,
      *text; // templates for ops that the format lacks (legal.c), and their file's name
  size_t len;
  anfi_code refusal; // of what has no form: "%s %s cannot be written to .."
} anfi_export_form;

/* The entry of a writer: checks the arguments, and leaves `out` as it was on an error. */
typedef bool anfi_export_write(anf_graph *g, size_t n, const anf_type *const *types, void *user,
                               anf_text *out);
anf_status anfi_export(anfi_export_write *write, anf_graph *g, size_t n,
                       const anf_type *const *types, void *user, anf_diag *d, anf_text *out);

/* called.c: ops of m, which has types, that no format has and that need loops become calls of functions, for the passes to go on with. */
bool anfi_export_call(anf_module *m, bool *any);
/* A copy of what g needs, with parameters of these types, put through the passes: its graph, or NULL with an error. */
anf_graph *anfi_export_prepare(const anfi_export_form *e, anf_graph *g, size_t n,
                               const anf_type *const *types);
/* The record that the function params() beside g gives, if the first parameter of g is a record; borrowed. `*weights`
 * is NULL where there is none. False with an error, as when it is not constant. */
bool anfi_export_weights(const anfi_export_form *e, const anf_graph *g, const anf_type *record,
                         anf_value **weights);

/* A number without an element type. */
bool anfi_export_is_weak(const anf_type *t);
/* All attributes of n have their usual values. */
bool anfi_export_is_plain(anf_ctx *cx, const anf_node *n);
/* The element type that a number without one takes beside the other inputs of n; its own if there is none. */
anf_dtype anfi_export_dtype_beside(const anf_node *n, const anf_type *t);
/* The question of inference about n, for plans of windows. */
anfi_infer anfi_export_question(anf_ctx *cx, anfi_arena *a, const anf_node *n);
/* The sizes that an attribute gives for the last `rank` of three dims: one for all, or one for each. How many it gives. */
size_t anfi_export_sizes(const anf_value *v, size_t rank, int64_t *to);

#endif
