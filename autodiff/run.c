// SPDX-License-Identifier: Apache-2.0
/* The interpreter knows no transforms: a function that comes to one is run as a copy that was
 * specialised for its arguments and expanded. The program itself stays as it is. */
#include "autodiff/autodiff.h"
#include "ir/interp.h"

#include "anfora/opt.h"

static bool is_transform(const anf_node *n) {
  bool op = n->kind == ANFI_APPLY || (n->kind == ANFI_VALUE && n->op != ANF_OP_NONE);
  if (!op) return false;
  return n->op == ANF_OP_Derive || (anfi_op[n->op].flags & ANFI_TRANSFORM);
}

static bool has_transform(const anf_module *m) {
  for (size_t i = 0; i < m->nodes.n; i++)
    if (m->nodes.at[i] && is_transform(m->nodes.at[i])) return true;
  return false;
}

static void free_module(void *m) { anf_module_free((anf_module *)m); }

/* Types as declared, and where dims are left open or nothing is declared, those of the values. */
static const anf_type **types_of(anf_ctx *cx, const anf_graph *g, anf_value *const *args) {
  const anf_type **t = ANFI_NEW_N(anfi_scratch(cx), const anf_type *, g->params.n + 1);
  for (size_t i = 0; i < g->params.n; i++) {
    const anf_type *declared = g->params.at[i]->type;
    t[i] = anf_value_type(cx, args[i]);
    if (!t[i]) anfi_throw_nomem(cx);
    size_t n;
    bool whole = declared && declared->kind == ANF_TYPE_TENSOR && anfi_type_elements(declared, &n);
    if (whole) t[i] = declared;
    else if (declared && declared->kind == ANF_TYPE_TENSOR && t[i]->kind == ANF_TYPE_TENSOR)
      t[i] = anfi_type_with_dtype(cx, t[i], (anf_dtype)declared->dtype);
    else if (declared && declared->kind != ANF_TYPE_TENSOR && declared->kind != ANF_TYPE_ANY)
      t[i] = declared;
  }
  return t;
}

bool anfi_run_prepare(anf_graph *g, size_t n, anf_value *const *args, anfi_prepared *out) {
  anf_ctx *cx = g->module->cx;
  *out = (anfi_prepared){.g = g};
  if (!has_transform(g->module) || n != g->params.n) return true;
  const anf_analysis *an = anfi_analyse(g->module);
  if (an->graphs[g->id].free.n) return true; // the interpreter says what is wrong
  anf_graph *copy = NULL, *made = NULL;
  anf_module *m = anfi_module_copy(an, &g, 1, &copy);
  anfi_undefer(cx, m); // it was to go on failure
  anfi_defer(cx, ANFI_ALWAYS, free_module, m);
  if (!has_transform(m)) return true;
  out->origins = anfi_origins_of(anfi_scratch(cx), m, an);
  copy->flags &= ~(uint32_t)ANFI_GRAPH_PRIVATE;
  anf_status st = anf_specialise(m, copy, n, types_of(cx, g, args), NULL, &made);
  if (st == ANF_OK) st = anf_optimise(m, "loop (expand clean)*", NULL, NULL);
  if (st == ANF_OK) out->g = made;
  return st == ANF_OK || anfi_fail_as(cx, st);
}
