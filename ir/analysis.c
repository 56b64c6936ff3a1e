// SPDX-License-Identifier: Apache-2.0
/* Free variables, parents, call graph and evaluation order of a whole module, in time linear in its
 * size and in the size of the result (a graph that captures k nodes has k entries).
 *   1. One walk from all results and effects finds the live nodes; an edge to another graph's node
 * is a direct capture, an edge to a graph is a reference. A graph that no public one reaches is dead, and makes no
 * node of a live one live: what passes remove as dead is captured by nobody before, either.
 *   2. Captures flow from graphs to those that refer to them until they reach their owner.
 *   3. Tarjan's components number the graphs, callees first.
 *   4. A depth-first walk of each graph orders its CNodes; a reference to a graph depends on what
 *      that graph captures, for the function value is made there.
 * All walks keep their own stacks. */
#include "ir/ir.h"

typedef anfi_graph_info info;

/* ---- 1: live nodes, direct captures, references ---- */

typedef struct {
  anf_node *node;
  uint32_t input;   // next input to look at
  uint32_t capture; // next capture of the graph at that input
} step;
typedef ANFI_VEC(step) steps;

typedef struct {
  anf_analysis *an;
  anfi_arena *scratch;
  uint8_t *seen;            // by node id
  bool *alive;              // by graph id: a public graph reaches it
  anfi_map captured;        // (graph, node) pairs
  anfi_map referred;        // (graph, graph) pairs
  ANFI_VEC(uint64_t) fresh; // captured pairs that are still to flow on
} walk;

static uint64_t pair(uint32_t a, uint32_t b) { return (uint64_t)a << 32 | b; }

static bool first_time(anfi_map *m, uint64_t key) {
  uint64_t *at = anfi_map_at(m, key);
  if (*at) return false;
  *at = 1;
  return true;
}

static void capture(walk *w, anf_graph *g, anf_node *n) {
  if (!first_time(&w->captured, pair(g->id, n->id))) return;
  anfi_push(&w->an->arena, &w->an->graphs[g->id].free, n);
  anfi_push(w->scratch, &w->fresh, pair(g->id, n->id));
}

/* Notes one edge of g, or its result: a graph referred to, a node captured. */
static void note_edge(walk *w, anf_graph *g, anf_node *def) {
  anf_graph *k = anfi_value_graph(def);
  if (k && first_time(&w->referred, pair(g->id, k->id)))
    anfi_push(&w->an->arena, &w->an->graphs[g->id].callees, k);
  if (def->graph && def->graph != g) capture(w, g, def);
}

/* ---- graphs that public ones reach ---- */

typedef ANFI_VEC(anf_node *) nodes;

typedef struct {
  walk *w;
  uint8_t *seen; // by node id
  nodes stack;
  ANFI_VEC(const anf_graph *) graphs; // whose results and effects are to be walked from
} reaching;

static void reach_graph(reaching *r, const anf_graph *g) {
  if (r->w->alive[g->id]) return;
  r->w->alive[g->id] = true;
  anfi_push(r->w->scratch, &r->graphs, g);
}

static void reach_node(reaching *r, anf_node *n) {
  const anf_graph *g = anfi_value_graph(n);
  if (g) reach_graph(r, g);
  if (!anfi_is_cnode(n) || r->seen[n->id]) return;
  r->seen[n->id] = 1;
  anfi_push(r->w->scratch, &r->stack, n);
}

static void find_alive(walk *w, anf_module *m) {
  reaching r = {.w = w, .seen = ANFI_NEW_N(w->scratch, uint8_t, m->nodes.n + 1)};
  w->alive = ANFI_NEW_N(w->scratch, bool, m->graphs.n + 1);
  for (size_t i = 0; i < m->graphs.n; i++)
    if (m->graphs.at[i] && !(m->graphs.at[i]->flags & ANFI_GRAPH_PRIVATE))
      reach_graph(&r, m->graphs.at[i]);
  while (r.graphs.n) {
    const anf_graph *g = r.graphs.at[--r.graphs.n];
    for (size_t k = 0; k < g->effects.n; k++) reach_node(&r, g->effects.at[k]);
    if (g->result) reach_node(&r, g->result);
    while (r.stack.n) {
      const anf_node *n = r.stack.at[--r.stack.n];
      for (uint32_t i = 0; i < n->nin; i++) reach_node(&r, n->in[i].def);
    }
  }
}

/* A node that is walked through from graph g: not one of a live graph, if g is dead. */
static bool is_new(const walk *w, const anf_graph *g, const anf_node *n) {
  return anfi_is_cnode(n) && !w->seen[n->id] && (w->alive[g->id] || !w->alive[n->graph->id]);
}

static void visit_live(walk *w, steps *st, const anf_graph *g, anf_node *root) {
  if (!is_new(w, g, root)) return;
  w->seen[root->id] = 1;
  anfi_push(w->scratch, st, ((step){root, 0, 0}));
  while (st->n) {
    step *top = &st->at[st->n - 1];
    if (top->input == top->node->nin) {
      st->n--;
      continue;
    }
    anf_node *n = top->node, *def = n->in[top->input++].def;
    note_edge(w, n->graph, def);
    if (!is_new(w, g, def)) continue;
    w->seen[def->id] = 1;
    anfi_push(w->scratch, st, ((step){def, 0, 0}));
  }
}

static void find_live(walk *w, anf_module *m) {
  steps st = {0};
  find_alive(w, m);
  for (size_t i = 0; i < m->graphs.n; i++) {
    anf_graph *g = m->graphs.at[i];
    if (!g) continue;
    for (size_t k = 0; k < g->effects.n; k++) visit_live(w, &st, g, g->effects.at[k]);
    if (!g->result) continue;
    visit_live(w, &st, g, g->result);
    note_edge(w, g, g->result);
  }
}

/* ---- 2: captures flow to the graphs that refer to the capturing one ---- */

static void flow_captures(walk *w, anf_module *m) {
  anf_analysis *an = w->an;
  typedef ANFI_VEC(anf_graph *) list;
  list *users = ANFI_NEW_N(w->scratch, list, m->graphs.n);
  for (size_t i = 0; i < m->graphs.n; i++)
    for (size_t k = 0; k < an->graphs[i].callees.n; k++)
      anfi_push(w->scratch, &users[an->graphs[i].callees.at[k]->id], m->graphs.at[i]);
  for (size_t i = 0; i < w->fresh.n; i++) {
    anf_node *n = m->nodes.at[(uint32_t)w->fresh.at[i]];
    list *to = &users[w->fresh.at[i] >> 32];
    for (size_t k = 0; k < to->n; k++)
      if (to->at[k] != n->graph) capture(w, to->at[k], n);
  }
}

/* ---- parents: the owner of a capture that lies deepest ---- */

static anf_graph *deepest_owner(const info *g, const uint32_t *depth) {
  anf_graph *best = NULL;
  for (size_t i = 0; i < g->free.n; i++) {
    anf_graph *o = g->free.at[i]->graph;
    if (!best || depth[o->id] > depth[best->id]) best = o;
  }
  return best;
}

/* Depth of each graph is one more than that of its deepest owner; owners first. A cycle of owners
 * is a broken module, which the verifier reports: here it just ends. */
static void find_parents(walk *w, anf_module *m) {
  uint32_t *depth = ANFI_NEW_N(w->scratch, uint32_t, m->graphs.n);
  uint8_t *state = ANFI_NEW_N(w->scratch, uint8_t, m->graphs.n);
  ANFI_VEC(uint32_t) st = {0};
  for (uint32_t i = 0; i < m->graphs.n; i++) {
    if (m->graphs.at[i]) anfi_push(w->scratch, &st, i);
    while (st.n) {
      uint32_t k = st.at[st.n - 1];
      info *g = &w->an->graphs[k];
      if (state[k] == 0) {
        state[k] = 1;
        for (size_t f = 0; f < g->free.n; f++)
          if (!state[g->free.at[f]->graph->id])
            anfi_push(w->scratch, &st, g->free.at[f]->graph->id);
        continue;
      }
      st.n--;
      if (state[k] == 2) continue;
      state[k] = 2;
      g->parent = deepest_owner(g, depth);
      depth[k] = g->parent ? depth[g->parent->id] + 1 : 0;
      if (g->parent)
        anfi_push(&w->an->arena, &w->an->graphs[g->parent->id].children, m->graphs.at[k]);
    }
  }
}

/* ---- 3: strongly connected components (Tarjan) ---- */

typedef struct {
  anf_analysis *an;
  anfi_arena *scratch;
  uint32_t *index, *low; // 0: not visited
  bool *open;            // on the component stack
  uint32_t next, ncomp;
  ANFI_VEC(uint32_t) comp;
} tarjan;

static void enter(tarjan *t, uint32_t g) {
  t->index[g] = t->low[g] = ++t->next;
  t->open[g] = true;
  anfi_push(t->scratch, &t->comp, g);
}

static void close_component(tarjan *t, uint32_t root) {
  size_t size = 0;
  uint32_t g;
  do {
    g = t->comp.at[--t->comp.n];
    t->open[g] = false;
    t->an->graphs[g].scc = t->ncomp;
    anfi_push(&t->an->arena, &t->an->by_scc, t->an->module->graphs.at[g]);
    size++;
  } while (g != root);
  for (size_t i = t->an->by_scc.n - size; size > 1 && i < t->an->by_scc.n; i++)
    t->an->graphs[t->an->by_scc.at[i]->id].recursive = true;
  t->ncomp++;
}

static void find_sccs(anf_analysis *an, anfi_arena *scratch) {
  anf_module *m = an->module;
  typedef struct {
    uint32_t g;
    size_t next;
  } frame;
  ANFI_VEC(frame) st = {0};
  tarjan t = {.an = an, .scratch = scratch};
  t.index = ANFI_NEW_N(scratch, uint32_t, m->graphs.n);
  t.low = ANFI_NEW_N(scratch, uint32_t, m->graphs.n);
  t.open = ANFI_NEW_N(scratch, bool, m->graphs.n);
  for (uint32_t i = 0; i < m->graphs.n; i++) {
    if (!m->graphs.at[i] || t.index[i]) continue;
    enter(&t, i);
    anfi_push(scratch, &st, ((frame){i, 0}));
    while (st.n) {
      frame *top = &st.at[st.n - 1];
      uint32_t g = top->g;
      info *gi = &an->graphs[g];
      if (top->next < gi->callees.n) {
        uint32_t k = gi->callees.at[top->next++]->id;
        gi->recursive |= k == g;
        if (!t.index[k]) {
          enter(&t, k);
          anfi_push(scratch, &st, ((frame){k, 0}));
        } else if (t.open[k] && t.index[k] < t.low[g]) t.low[g] = t.index[k];
        continue;
      }
      st.n--;
      if (t.low[g] == t.index[g]) close_component(&t, g);
      if (st.n && t.low[g] < t.low[st.at[st.n - 1].g]) t.low[st.at[st.n - 1].g] = t.low[g];
    }
  }
}

/* ---- 4: order ---- */

/* The next thing that `top` depends on, or NULL when all were seen. */
static anf_node *next_dependency(const anf_analysis *an, step *top) {
  while (top->input < top->node->nin) {
    anf_node *def = top->node->in[top->input].def;
    anf_graph *k = anfi_value_graph(def);
    if (!k) {
      top->input++;
      return def;
    }
    const info *ki = &an->graphs[k->id];
    if (top->capture < ki->free.n) return ki->free.at[top->capture++];
    top->input++;
    top->capture = 0;
  }
  return NULL;
}

static void order_from(walk *w, steps *st, anf_graph *g, anf_node *root) {
  info *gi = &w->an->graphs[g->id];
  if (root->graph != g || !anfi_is_cnode(root) || w->seen[root->id] == 2) return;
  w->seen[root->id] = 2;
  anfi_push(w->scratch, st, ((step){root, 0, 0}));
  while (st->n) {
    anf_node *def = next_dependency(w->an, &st->at[st->n - 1]);
    if (!def) {
      anfi_push(&w->an->arena, &gi->order, st->at[--st->n].node);
      continue;
    }
    if (def->graph != g || !anfi_is_cnode(def) || w->seen[def->id] == 2) continue;
    w->seen[def->id] = 2;
    anfi_push(w->scratch, st, ((step){def, 0, 0}));
  }
}

/* A result that is a graph is made here as well: its captures must exist. */
static void order_result(walk *w, steps *st, anf_graph *g) {
  anf_graph *k = anfi_value_graph(g->result);
  const info *ki = k ? &w->an->graphs[k->id] : NULL;
  for (size_t i = 0; ki && i < ki->free.n; i++) order_from(w, st, g, ki->free.at[i]);
  order_from(w, st, g, g->result);
}

static void find_orders(walk *w, anf_module *m) {
  steps st = {0};
  for (size_t i = 0; i < m->graphs.n; i++) {
    anf_graph *g = m->graphs.at[i];
    if (!g) continue;
    for (size_t k = 0; k < g->effects.n; k++) order_from(w, &st, g, g->effects.at[k]);
    if (g->result) order_result(w, &st, g);
  }
}

static void fill(anf_analysis *an, anf_module *m) {
  walk w = {.an = an, .scratch = anfi_scratch(m->cx)};
  w.seen = ANFI_NEW_N(w.scratch, uint8_t, m->nodes.n);
  anfi_map_init(&w.captured, w.scratch);
  anfi_map_init(&w.referred, w.scratch);
  an->module = m;
  an->ngraph = m->graphs.n;
  an->graphs = ANFI_NEW_N(&an->arena, info, m->graphs.n);
  find_live(&w, m);
  flow_captures(&w, m);
  find_parents(&w, m);
  find_sccs(an, w.scratch);
  find_orders(&w, m);
}

static void free_analysis(void *p) { anf_analysis_free((anf_analysis *)p); }

static anf_analysis *new_analysis(anf_module *m, anfi_when freed) {
  anf_analysis *an = (anf_analysis *)anfi_raw(m->cx, NULL, 0, sizeof *an);
  if (!an) anfi_throw_nomem(m->cx);
  memset(an, 0, sizeof *an);
  anfi_arena_init(&an->arena, m->cx);
  anfi_defer(m->cx, freed, free_analysis, an);
  fill(an, m);
  return an;
}

anf_analysis *anfi_analyse(anf_module *m) { return new_analysis(m, ANFI_ALWAYS); }

anf_status anf_analyse(anf_module *m, anf_diag *d, anf_analysis **out) {
  ANFI_NEED(d, m, out);
  ANFI_ENTRY(m->cx, d);
  *out = new_analysis(m, ANFI_ON_FAIL);
  return anfi_leave(m->cx);
}

void anf_analysis_free(anf_analysis *an) {
  if (!an) return;
  anf_ctx *cx = an->arena.cx;
  anfi_arena_free(&an->arena);
  anfi_raw(cx, an, sizeof *an, 0);
}

/* NAME(a, g), and NAME(a, g, i): item i of a list, or NULL. */
#define READ(T, NAME, otherwise, field)                                                            \
  T NAME(const anf_analysis *a, const anf_graph *g) {                                              \
    ANFI_NEED_ELSE(g ? g->module->cx : NULL, otherwise, a, g);                                     \
    return a->graphs[g->id].field;                                                                 \
  }
#define READ_AT(T, NAME, list)                                                                     \
  T NAME(const anf_analysis *a, const anf_graph *g, size_t i) {                                    \
    ANFI_NEED_ELSE(g ? g->module->cx : NULL, NULL, a, g);                                          \
    return i < a->graphs[g->id].list.n ? a->graphs[g->id].list.at[i] : NULL;                       \
  }
READ(size_t, anf_free_count, 0, free.n)
READ_AT(anf_node *, anf_free_at, free)
READ(anf_graph *, anf_parent, NULL, parent)
READ(size_t, anf_callee_count, 0, callees.n)
READ_AT(anf_graph *, anf_callee_at, callees)
READ(size_t, anf_scc, 0, scc)
READ(bool, anf_is_recursive, false, recursive)
READ(size_t, anf_order_count, 0, order.n)
READ_AT(anf_node *, anf_order_at, order)
