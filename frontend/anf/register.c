// SPDX-License-Identifier: Apache-2.0
/* Ops of the host by the texts of their signatures.
 *   anf_op_register(cx, {.name = "Hypot2", .type = "fn(f64, f64) -> f64", ..}, d)   ->   Hypot2(x, y) in programs */
#include "anfora/text.h"
#include "frontend/anf/parts.h"

static bool is_word(const char *name) {
  for (size_t i = 0; anfi_anf_builtin_name(i); i++)
    if (strcmp(anfi_anf_builtin_name(i), name) == 0) return true;
  return false;
}

static void add(anf_ctx *cx, const anf_host_op *given) {
  anf_host_op op;
  const anf_type *type = NULL;
  if (!ANFI_OPTS_IN(cx, anf_host_op, flags, given, &op)) return;
  if (op.name && is_word(op.name)) {
    anfi_fail(cx, anfi_nowhere(), ANF_E0231, op.name, "the word has a meaning in programs");
    return;
  }
  anf_status st = anf_parse_type(cx, op.type ? op.type : "", NULL, &type);
  if (st != ANF_OK) anfi_fail_as(cx, st);
  else if (anfi_anf_has_parts(type)) anfi_anf_add_parts(cx, &op, type);
  else anfi_host_add(cx, &op, type);
}

static void add_meta(anf_ctx *cx, const anf_meta_op *given) {
  anf_meta_op op;
  if (!ANFI_OPTS_IN(cx, anf_meta_op, release, given, &op)) return;
  if (op.name && is_word(op.name))
    anfi_fail(cx, anfi_nowhere(), ANF_E0231, op.name, "the word has a meaning in programs");
  else anfi_generator_add(cx, &op);
}

anf_status anf_meta_register(anf_ctx *cx, const anf_meta_op *op, anf_diag *d) {
  ANFI_NEED(d, cx, op);
  ANFI_ENTRY(cx, d);
  add_meta(cx, op);
  return anfi_leave(cx);
}

anf_status anf_op_register(anf_ctx *cx, const anf_host_op *op, anf_diag *d) {
  ANFI_NEED(d, cx, op);
  ANFI_ENTRY(cx, d);
  add(cx, op);
  return anfi_leave(cx);
}
