// SPDX-License-Identifier: Apache-2.0
/* Ops as functions that the program calls, for formats that lack them where a template (legal.c) would need a loop that ends by a
 * value:
 *   Eigh(a)   ->   Eigh_(a), a function of called.anf, which the passes make a Loop
 * A function has the op's name and an underscore, and its inputs as parameters. */
#include "frontend/trace/export.h"
#include "ir/ops/op.h"

#include "anfora/text.h"

extern const unsigned char anfi_templates_called[];
extern const size_t anfi_templates_called_len;

static bool has_function(const anf_node *n) {
  static const anfi_opcode ops[] = {ANF_OP_Eigh, ANF_OP_Householder, ANF_OP_Lu, ANF_OP_Svd};
  for (size_t i = 0; n && i < ANFI_LEN(ops); i++)
    if (anfi_is_op(n, ops[i])) return anfi_is_used(n);
  return false;
}

static bool read_functions(anf_module *m, anf_module **part) {
  anf_status st = anf_parse_n(m->cx, (const char *)anfi_templates_called, anfi_templates_called_len,
                              "called.anf", NULL, part);
  if (st != ANF_OK) return anfi_fail_as(m->cx, st);
  anfi_module_own(m, *part);
  return true;
}

/* The graph of the function in m. */
static anf_graph *function_of(anf_module *m, anf_module *part, anfi_merge *merge, anfi_opcode op) {
  const char *name = anfi_sprintf(anfi_scratch(m->cx), "%s_", anfi_op[op].name);
  size_t before = m->graphs.n;
  anf_graph *g = anfi_merge_graph(merge, anf_module_find(part, name));
  for (size_t i = before; i < m->graphs.n; i++) m->graphs.at[i]->flags |= ANFI_GRAPH_PRIVATE;
  return g;
}

static void call_instead(anf_node *n, anf_graph *f) {
  anf_node *in[2] = {anfi_graph_value(f), n->in[0].def};
  anf_node *call = anfi_call(n->graph, 2, in);
  call->debug = n->debug;
  call->type = n->type;
  anfi_replace(n, call);
}

bool anfi_export_call(anf_module *m, bool *any) {
  anf_module *part = NULL;
  anfi_merge *merge = NULL;
  size_t count = m->nodes.n; // functions have none of these ops
  for (size_t i = 0; i < count; i++) {
    anf_node *n = m->nodes.at[i];
    if (!has_function(n)) continue;
    if (!part && !read_functions(m, &part)) return false;
    if (!merge) merge = anfi_merge_new(m, part);
    call_instead(n, function_of(m, part, merge, (anfi_opcode)n->op));
  }
  *any = part != NULL;
  return true;
}
