// SPDX-License-Identifier: Apache-2.0
/* The ops as a host sees them: their names and what docs/ops.md says of each.
 *   for (i = 0; i < anf_op_count(); i++) anf_op_describe(cx, anf_op_name(i), &info); */
#include "ir/ir.h"

size_t anf_op_count(void) { return ANF_OP_COUNT; }

const char *anf_op_name(size_t i) { return i < ANF_OP_COUNT ? anfi_op[i].name : NULL; }

static const char *name_of(void *user, size_t i) {
  (void)user;
  return anf_op_name(i);
}

static anf_op_info described(const anfi_op_info *p) {
  return (anf_op_info){.name = p->name,
                       .family = p->family,
                       .inputs = p->in,
                       .attrs = p->attrs ? p->attrs : "",
                       .doc = p->doc,
                       .differentiable = p->grad ? strcmp(p->grad, "!") != 0 : p->vjp != NULL};
}

bool anf_op_describe(anf_ctx *cx, const char *name, anf_op_info *out) {
  ANFI_NEED_ELSE(cx, false, cx, name, out);
  size_t size = out->size ? out->size : sizeof *out;
  for (size_t i = 0; i < ANF_OP_COUNT; i++) {
    if (strcmp(anfi_op[i].name, name) != 0) continue;
    anf_op_info all = described(&anfi_op[i]);
    all.size = size;
    memcpy(out, &all, size < sizeof all ? size : sizeof all);
    return true;
  }
  anfi_missed(cx, "op", name, name_of, NULL);
  return false;
}
