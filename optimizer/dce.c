// SPDX-License-Identifier: Apache-2.0
/* Dead code elimination: nodes without users, and private graphs that nothing refers to.
 *   f(x): a = x * 2; return x            ->  f(x): return x
 *   private g, not called                ->  removed
 * The sweep goes from the last node to the first, so users mostly go before what they use; a node that loses
 * its last user after the sweep has passed it goes on a worklist. Then graphs that no public graph reaches
 * are removed, and the nodes that they used as above.
 *
 * Hard case: a removed graph was the last user of a captured value that was the last reference to another
 * graph. Then liveness is computed from results and effects (mark and sweep) and the rest goes at once. */
#include "optimizer/opt.h"
#include "ir/worklist.h"

typedef struct {
  uint32_t from, to; // graphs
} reference;

typedef struct {
  anfi_pass *pass;
  anf_module *m;
  anfi_arena *a;
  anfi_node_vec todo;                  // unused, passed by the sweep
  ANFI_VEC(const anf_node *) constant; // that hold graphs
  ANFI_VEC(reference) refers;
} walk;

/* ---- nodes ---- */

static void delete_one(walk *w, anf_node *n, size_t now) {
  anfi_delete(n);
  w->pass->rewrites++;
  for (uint32_t i = 0; i < n->nin; i++) {
    anf_node *def = n->in[i].def;
    if (def->id >= now && anfi_is_cnode(def) && !anfi_is_used(def)) anfi_push(w->a, &w->todo, def);
  }
}

/* n is unused. Nodes before number `now` are still to come. */
static void delete_from(walk *w, anf_node *n, size_t now) {
  delete_one(w, n, now);
  while (w->todo.n) {
    n = w->todo.at[--w->todo.n];
    if (anfi_is_cnode(n)) delete_one(w, n, now);
  }
}

static void sweep(walk *w) {
  anf_module *m = w->m;
  w->constant.n = 0;
  size_t i = m->nodes.n;
  while ((i = anfi_work_last(m, i, ANFI_WORK_DCE | ANFI_WORK_GRAPH)) > 0) {
    anf_node *n = m->nodes.at[--i];
    anfi_work_done(m, i, ANFI_WORK_DCE);
    if (!n || n->uses) {
      if (n && anfi_value_graph(n)) anfi_push(w->a, &w->constant, n);
      continue;
    }
    if (anfi_is_cnode(n) && !anfi_is_used(n)) delete_from(w, n, i);
  }
}

/* ---- graphs ---- */

static void refer(walk *w, const anf_graph *from, const anf_graph *to) {
  anfi_push(w->a, &w->refers, ((reference){from->id, to->id}));
}

static void find_references(walk *w) {
  const anf_module *m = w->m;
  w->refers.n = 0;
  for (size_t i = 0; i < w->constant.n; i++)
    for (const anfi_use *u = w->constant.at[i]->uses; u; u = u->next)
      refer(w, u->user->graph, anfi_value_graph(w->constant.at[i]));
  for (size_t i = 0; i < m->graphs.n; i++) {
    const anf_node *r = m->graphs.at[i] ? m->graphs.at[i]->result : NULL;
    const anf_graph *to = r ? anfi_value_graph(r) : NULL;
    if (to) refer(w, m->graphs.at[i], to);
    if (r && r->graph && r->graph != m->graphs.at[i]) refer(w, m->graphs.at[i], r->graph);
  }
}

/* By graph id: its references are from first[id] to first[id + 1]. */
static uint32_t *sort_references(walk *w, uint32_t **sorted) {
  size_t n = w->m->graphs.n;
  uint32_t *first = ANFI_NEW_N(w->a, uint32_t, n + 2);
  *sorted = ANFI_NEW_N(w->a, uint32_t, w->refers.n + 1);
  for (size_t i = 0; i < w->refers.n; i++) first[w->refers.at[i].from + 2]++;
  for (size_t i = 2; i < n + 2; i++) first[i] += first[i - 1];
  for (size_t i = 0; i < w->refers.n; i++)
    (*sorted)[first[w->refers.at[i].from + 1]++] = w->refers.at[i].to;
  return first;
}

static void remove_graph(anf_graph *g) {
  while (g->effects.n) anfi_remove_effect(g->effects.at[g->effects.n - 1]);
  anfi_graph_remove(g);
}

/* The graphs that are not needed go, and leave their results unused. True if there was one. */
static bool remove_graphs(walk *w) {
  find_references(w);
  const anf_module *m = w->m;
  uint32_t *sorted, *first = sort_references(w, &sorted);
  bool *needed = ANFI_NEW_N(w->a, bool, m->graphs.n + 1);
  uint32_t *todo = ANFI_NEW_N(w->a, uint32_t, m->graphs.n + 1);
  size_t n = 0, left = 0;
  for (size_t i = 0; i < m->graphs.n; i++) {
    if (!m->graphs.at[i]) continue;
    needed[i] = !(m->graphs.at[i]->flags & ANFI_GRAPH_PRIVATE);
    if (needed[i]) todo[n++] = (uint32_t)i;
    else left++;
  }
  while (n) {
    uint32_t g = todo[--n];
    for (uint32_t k = first[g]; k < first[g + 1]; k++) {
      if (needed[sorted[k]]) continue;
      needed[sorted[k]] = true;
      todo[n++] = sorted[k];
      left--;
    }
  }
  for (size_t i = 0; left && i < m->graphs.n; i++)
    if (m->graphs.at[i] && !needed[i]) remove_graph(m->graphs.at[i]);
  w->pass->rewrites += left;
  return left > 0;
}

/* ---- mark and sweep ---- */

typedef struct {
  anfi_arena *a;
  bool *graph, *node; // by id: needed
  ANFI_VEC(const anf_graph *) graphs;
  anfi_node_vec nodes; // needed, not visited yet
} needs;

static void need_graph(needs *w, const anf_graph *g) {
  if (w->graph[g->id]) return;
  w->graph[g->id] = true;
  anfi_push(w->a, &w->graphs, g);
}

static void need(needs *w, anf_node *n) {
  const anf_graph *g = anfi_value_graph(n);
  if (g) need_graph(w, g);
  if (!anfi_is_cnode(n) || w->node[n->id]) return;
  w->node[n->id] = true;
  anfi_push(w->a, &w->nodes, n);
}

static void find_needed(needs *w, const anf_module *m) {
  for (size_t i = 0; i < m->graphs.n; i++)
    if (m->graphs.at[i] && !(m->graphs.at[i]->flags & ANFI_GRAPH_PRIVATE))
      need_graph(w, m->graphs.at[i]);
  while (w->nodes.n || w->graphs.n) {
    if (w->nodes.n) {
      const anf_node *n = w->nodes.at[--w->nodes.n];
      for (uint32_t i = 0; i < n->nin; i++) need(w, n->in[i].def);
      continue;
    }
    const anf_graph *g = w->graphs.at[--w->graphs.n];
    for (size_t i = 0; i < g->effects.n; i++) need(w, g->effects.at[i]);
    if (g->result) need(w, g->result);
  }
}

/* Removes all nodes and graphs that no public result or effect reaches; their number. */
static uint64_t remove_unneeded(anf_module *m) {
  needs w = {.a = anfi_scratch(m->cx)};
  uint64_t count = 0;
  w.graph = ANFI_NEW_N(w.a, bool, m->graphs.n + 1);
  w.node = ANFI_NEW_N(w.a, bool, m->nodes.n + 1);
  find_needed(&w, m);
  for (size_t i = 0; i < m->graphs.n; i++) {
    if (!m->graphs.at[i] || w.graph[i]) continue;
    remove_graph(m->graphs.at[i]);
    count++;
  }
  for (size_t i = 0; i < m->nodes.n; i++) {
    anf_node *n = m->nodes.at[i];
    if (!n || w.node[i] || !anfi_is_cnode(n)) continue;
    anfi_delete(n);
    count++;
  }
  return count;
}

/* ---- the pass ---- */

/* An assertion of a constant true has no effect. A complex number is no condition. */
static bool holds(const anf_node *n) {
  if (n->kind != ANFI_APPLY || n->op != ANF_OP_Assert) return false;
  const anf_value *v = n->in[0].def->kind == ANFI_VALUE ? n->in[0].def->u.value : NULL;
  return v && v->kind == ANF_VALUE_TENSOR && anfi_is_scalar(v->type) &&
         anfi_dtype_class((anf_dtype)v->type->dtype) <= ANFI_CLASS_FLOAT && anfi_get_f64(v, 0) != 0;
}

static void drop_held(anfi_pass *p, anf_graph *g) {
  size_t k = 0;
  for (size_t i = 0; i < g->effects.n; i++) {
    anf_node *n = g->effects.at[i];
    bool gone = p->rewrites < p->limit && holds(n);
    p->rewrites += gone;
    if (gone) {
      n->flags &= (uint8_t)~ANFI_NODE_EFFECT;
      anfi_work_add(n, ANFI_WORK_DCE);
    } else g->effects.at[k++] = n;
  }
  g->effects.n = k;
}

/* ---- calls that turn out to have no effect ----
 *   def each(f, x) { f(x) }    a call of an f that is not known may have an effect; of each(Sin, x) it has none */

static bool is_known(const anf_node *f) {
  while (anfi_is_op(f, ANF_OP_Switch)) { // both branches, of which one is visited here
    if (!anfi_value_graph(f->in[2].def)) return false;
    f = f->in[1].def;
  }
  return anfi_value_graph(f) != NULL;
}

/* Has the node an effect itself, or one that no graph it names tells of? */
static bool has_own_effect(const anf_node *n) {
  if (n->kind == ANFI_APPLY && (anfi_op_of(n)->flags & (ANFI_EFFECT | ANFI_CALLS)) != ANFI_CALLS)
    return true;
  return !n->nin || !is_known(n->in[0].def);
}

static void drop_effects(anfi_pass *p, anf_graph *g) {
  for (size_t i = 0; i < g->effects.n; i++) {
    g->effects.at[i]->flags &= (uint8_t)~ANFI_NODE_EFFECT;
    anfi_work_add(g->effects.at[i], ANFI_WORK_SIMPLIFY | ANFI_WORK_CSE | ANFI_WORK_DCE);
    p->rewrites++;
  }
  g->effects.n = 0;
}

/* A graph is pure if no node of it, or of a graph that it names, has an effect itself. */
static void drop_pure_calls(anfi_pass *p) {
  if (!anfi_module_has_effects(p->m)) return;
  const anf_analysis *an = anfi_analyse(p->m);
  bool *effect = ANFI_NEW_N(anfi_scratch(p->m->cx), bool, an->ngraph + 1); // by strong component
  for (size_t i = 0; i < an->by_scc.n; i++) {
    const anf_graph *g = an->by_scc.at[i];
    const anfi_graph_info *gi = &an->graphs[g->id];
    bool own = false;
    for (size_t k = 0; k < g->effects.n; k++) own = own || has_own_effect(g->effects.at[k]);
    for (size_t k = 0; k < gi->callees.n; k++)
      own = own || effect[an->graphs[gi->callees.at[k]->id].scc];
    effect[gi->scc] = effect[gi->scc] || own;
  }
  for (size_t i = 0; i < an->by_scc.n && p->rewrites < p->limit; i++)
    if (!effect[an->graphs[an->by_scc.at[i]->id].scc]) drop_effects(p, an->by_scc.at[i]);
}

bool anfi_opt_dce(anfi_pass *p) {
  anf_module *m = p->m;
  for (size_t i = 0; i < m->graphs.n; i++)
    if (m->graphs.at[i]) drop_held(p, m->graphs.at[i]);
  drop_pure_calls(p);
  if (p->rewrites >= p->limit) return true;
  walk w = {.pass = p, .m = m, .a = anfi_scratch(m->cx)};
  sweep(&w);
  if (!remove_graphs(&w)) return true;
  sweep(&w);
  if (remove_graphs(&w)) p->rewrites += remove_unneeded(m); // captures of captures: not one by one
  return true;
}

bool anfi_clear_dead(anf_module *m) {
  return anfi_opt_dce(&(anfi_pass){.m = m, .limit = UINT64_MAX});
}

void anfi_clear_unneeded(anf_module *m) {
  anfi_clear_dead(m); // mostly all there is
  remove_unneeded(m);
}
