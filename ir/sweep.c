// SPDX-License-Identifier: Apache-2.0
/* Removes CNodes that nothing needs (mark and sweep).
 *   %1 = Sin(x); %2 = Cos(x); return %2   ->   %2 = Cos(x); return %2
 * Marked are the results and effects of all graphs and their operands. */
#include "ir/ir.h"

/* Room for every node from the start: nothing may fail while marks are set. */
typedef struct {
  anf_node **at;
  size_t n;
} stack;

static void mark(stack *st, anf_node *n) {
  if (n->kind == ANFI_VALUE || (n->flags & ANFI_NODE_MARK)) return;
  n->flags |= ANFI_NODE_MARK;
  st->at[st->n++] = n;
}

static void mark_graph(stack *st, anf_graph *g) {
  for (size_t i = 0; i < g->effects.n; i++) mark(st, g->effects.at[i]);
  if (g->result) mark(st, g->result);
  while (st->n) {
    anf_node *n = st->at[--st->n];
    for (uint32_t i = 0; i < n->nin; i++) mark(st, n->in[i].def);
  }
}

size_t anfi_sweep(anf_module *m) {
  stack st = {ANFI_NEW_N(anfi_scratch(m->cx), anf_node *, m->nodes.n), 0};
  size_t removed = 0;
  for (size_t i = 0; i < m->graphs.n; i++)
    if (m->graphs.at[i]) mark_graph(&st, m->graphs.at[i]);
  for (size_t i = 0; i < m->nodes.n; i++) {
    anf_node *n = m->nodes.at[i];
    if (!n || n->kind == ANFI_VALUE || n->kind == ANFI_PARAM) continue;
    if (n->flags & ANFI_NODE_MARK) continue;
    anfi_delete(n);
    removed++;
  }
  for (size_t i = 0; i < m->nodes.n; i++)
    if (m->nodes.at[i]) m->nodes.at[i]->flags &= (uint8_t)~ANFI_NODE_MARK;
  return removed;
}

size_t anf_module_sweep(anf_module *m) {
  if (!m) return 0;
  ANFI_ENTRY_ELSE(m->cx, m->diag, (m->status = ANF_NOMEM, (size_t)0));
  size_t n = anfi_sweep(m);
  return anfi_leave(m->cx) == ANF_OK ? n : 0;
}
