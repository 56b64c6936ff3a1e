// SPDX-License-Identifier: Apache-2.0
/* Dead code: private graphs that no public one reaches, and nodes that nothing needs. */
#include "optimizer/opt.h"

static void remove_graph(anf_graph *g) {
  while (g->effects.n) anfi_remove_effect(g->effects.at[g->effects.n - 1]);
  anfi_graph_remove(g);
}

bool anfi_opt_dce(anfi_pass *p) {
  anf_module *m = p->m;
  anfi_arena *a = anfi_scratch(m->cx);
  const anf_analysis *an = anfi_analyse(m);
  bool *live = ANFI_NEW_N(a, bool, m->graphs.n);
  ANFI_VEC(anf_graph *) todo = {0};
  for (size_t i = 0; i < m->graphs.n; i++)
    if (m->graphs.at[i] && !(m->graphs.at[i]->flags & ANFI_GRAPH_PRIVATE)) {
      live[i] = true;
      anfi_push(a, &todo, m->graphs.at[i]);
    }
  while (todo.n) {
    const anfi_graph_info *gi = &an->graphs[todo.at[--todo.n]->id];
    for (size_t k = 0; k < gi->callees.n; k++) {
      anf_graph *c = gi->callees.at[k];
      if (live[c->id]) continue;
      live[c->id] = true;
      anfi_push(a, &todo, c);
    }
  }
  for (size_t i = 0; i < an->ngraph; i++)
    if (m->graphs.at[i] && !live[i] && anfi_rewrite(p)) remove_graph(m->graphs.at[i]);
  p->rewrites += anfi_sweep(m);
  return true;
}
