// SPDX-License-Identifier: Apache-2.0
/* Names and order for printing.
 *   three nodes named y in f, and one without a name      print as  y, y_1, y_2, %4
 * INVARIANT: the order of a module that was read from its own print is that of the print, and its names are those of the
 * print; so printing what was read gives the same text. Order is that of ids, except that the operands of a node come
 * first: inputs, captures of the graphs among its inputs, and the effect before it. Names are made unique in order of
 * printing: graphs first, then the nodes of each graph; a name that is taken gets the first free suffix. Linear; no
 * recursion. */
#include "ir/ir.h"

typedef struct {
  /* module */
  anf_module *m;
  const anf_analysis *an;
  anfi_arena *a; // of the result
  anfi_arena *scratch;
  /* words in use */
  anfi_strtab words; // every name given or tried
  anfi_map taken;    // (graph id, word) pairs; graph NOWHERE: in the whole module
  anfi_map suffix;   // the same: next suffix to try
  /* result */
  anf_text *quoted; // the last name that needed quotes
  anfi_names out;
} naming;

static const uint32_t NOWHERE = UINT32_MAX;

static uint64_t pair(uint32_t a, uint32_t b) { return (uint64_t)a << 32 | b; }

/* ---- order of graphs ---- */

typedef struct {
  uint32_t graph;
  size_t next;
} visit;
typedef ANFI_VEC(uint32_t) idlist;

static void add_owner(naming *q, idlist *owners, anfi_map *seen, const anf_graph *g,
                      const anf_graph *o) {
  if (!o || o == g || o->removed) return;
  uint64_t *at = anfi_map_at(seen, pair(g->id, o->id));
  if (!*at) anfi_push(q->scratch, &owners[g->id], o->id);
  *at = 1;
}

/* Dead nodes count too: they are printed. */
static idlist *find_owners(naming *q) {
  anf_module *m = q->m;
  idlist *owners = ANFI_NEW_N(q->scratch, idlist, m->graphs.n);
  anfi_map seen;
  anfi_map_init(&seen, q->scratch);
  for (size_t i = 0; i < m->graphs.n; i++)
    if (m->graphs.at[i]) add_owner(q, owners, &seen, m->graphs.at[i], q->an->graphs[i].parent);
  for (size_t i = 0; i < m->nodes.n; i++) {
    const anf_node *n = m->nodes.at[i];
    for (uint32_t k = 0; n && n->graph && k < n->nin; k++)
      if (n->in[k].def->graph != n->graph)
        add_owner(q, owners, &seen, n->graph, n->in[k].def->graph);
  }
  return owners;
}

static void order_graphs(naming *q) {
  anf_module *m = q->m;
  idlist *owners = find_owners(q);
  uint8_t *seen = ANFI_NEW_N(q->scratch, uint8_t, m->graphs.n);
  ANFI_VEC(visit) st = {0};
  q->out.graphs = ANFI_NEW_N(q->a, anf_graph *, m->graphs.n);
  for (uint32_t i = 0; i < m->graphs.n; i++) {
    if (!m->graphs.at[i] || seen[i]) continue;
    seen[i] = 1;
    anfi_push(q->scratch, &st, ((visit){i, 0}));
    while (st.n) {
      visit *top = &st.at[st.n - 1];
      if (top->next == owners[top->graph].n) {
        q->out.graphs[q->out.ngraph++] = m->graphs.at[top->graph];
        st.n--;
        continue;
      }
      uint32_t o = owners[top->graph].at[top->next++];
      if (seen[o]) continue;
      seen[o] = 1;
      anfi_push(q->scratch, &st, ((visit){o, 0}));
    }
  }
}

/* ---- order of nodes ---- */

typedef struct {
  anf_node *node;
  uint32_t input;
  size_t capture; // of the graph at that input
  bool effect_done;
} step;

typedef struct {
  naming *q;
  uint8_t *seen;      // nodes
  uint32_t *captured; // by graph id: 1 + the last graph in which its captures were visited
  uint32_t *before;   // by node id: 1 + id of the effect before it, in graphs with effects
  ANFI_VEC(step) st;
} ordering;

static void enter(ordering *r, anf_graph *g, anf_node *n) {
  if (n->graph != g || !anfi_is_cnode(n) || r->seen[n->id]) return;
  r->seen[n->id] = 1;
  anfi_push(r->q->scratch, &r->st, ((step){.node = n}));
}

/* The next thing that top's node depends on, or NULL when all were visited. A function value
 * needs what its graph captures; to go through captures once in each graph is enough: a node that was
 * visited is emitted, or waits below on the stack for the current node. */
static anf_node *next_need(ordering *r, const anf_graph *g, step *top) {
  if (!top->effect_done) {
    top->effect_done = true;
    uint32_t e = r->before ? r->before[top->node->id] : 0;
    if (e) return r->q->m->nodes.at[e - 1];
  }
  for (; top->input < top->node->nin; top->input++, top->capture = 0) {
    anf_node *def = top->node->in[top->input].def;
    const anf_graph *k = anfi_value_graph(def);
    if (!k || k->removed) {
      if (!anfi_is_cnode(def)) continue;
      top->input++;
      return def;
    }
    if (!top->capture && r->captured[k->id] == g->id + 1) continue;
    r->captured[k->id] = g->id + 1;
    const anfi_graph_info *ki = &r->q->an->graphs[k->id];
    if (top->capture < ki->free.n) return ki->free.at[top->capture++];
  }
  return NULL;
}

/* Emits the operands of n, then n. */
static void emit(ordering *r, anf_graph *g, anf_node *n) {
  naming *q = r->q;
  enter(r, g, n);
  while (r->st.n) {
    step *top = &r->st.at[r->st.n - 1];
    anf_node *need = next_need(r, g, top);
    if (need) {
      enter(r, g, need);
      continue;
    }
    q->out.order[q->out.first[g->id] + q->out.count[g->id]++] = top->node;
    r->st.n--;
  }
}

static bool is_printed(const anf_node *n) { return n && anfi_is_cnode(n) && !n->graph->removed; }

/* Every graph's nodes by id, bucketed: where each part starts follows from the counts. */
static anf_node **bucket(naming *q, size_t *total) {
  anf_module *m = q->m;
  size_t *at = ANFI_NEW_N(q->scratch, size_t, m->graphs.n + 1);
  for (size_t i = 0; i < m->nodes.n; i++)
    if (is_printed(m->nodes.at[i])) at[m->nodes.at[i]->graph->id + 1]++;
  for (size_t g = 0; g < m->graphs.n; g++) {
    at[g + 1] += at[g];
    q->out.first[g] = at[g];
  }
  *total = at[m->graphs.n];
  anf_node **by_graph = ANFI_NEW_N(q->scratch, anf_node *, *total);
  for (size_t i = 0; i < m->nodes.n; i++)
    if (is_printed(m->nodes.at[i])) by_graph[at[m->nodes.at[i]->graph->id]++] = m->nodes.at[i];
  return by_graph;
}

static void order_nodes(naming *q) {
  anf_module *m = q->m;
  ordering r = {.q = q};
  r.seen = ANFI_NEW_N(q->scratch, uint8_t, m->nodes.n);
  r.captured = ANFI_NEW_N(q->scratch, uint32_t, m->graphs.n);
  r.before = anfi_effect_order(q->m, q->scratch);
  q->out.first = ANFI_NEW_N(q->a, size_t, m->graphs.n);
  q->out.count = ANFI_NEW_N(q->a, size_t, m->graphs.n);
  size_t total;
  anf_node **by_graph = bucket(q, &total);
  q->out.order = ANFI_NEW_N(q->a, anf_node *, total);
  for (size_t i = 0; i < total; i++) emit(&r, by_graph[i]->graph, by_graph[i]);
}

/* ---- names ---- */

static bool is_taken(const naming *q, uint32_t where, const anfi_str *s) {
  return anfi_map_find(&q->taken, pair(NOWHERE, s->id)) ||
         anfi_map_find(&q->taken, pair(where, s->id));
}

static const anfi_str *with_suffix(naming *q, uint32_t where, const anfi_str *base) {
  uint64_t *next = anfi_map_at(&q->suffix, pair(where, base->id));
  for (;;) {
    char digits[24];
    int nd = snprintf(digits, sizeof digits, "_%llu", (unsigned long long)++*next);
    char *s = (char *)anfi_alloc(q->scratch, base->len + (size_t)nd);
    memcpy(s, base->s, base->len);
    memcpy(s + base->len, digits, (size_t)nd);
    const anfi_str *w = anfi_intern(&q->words, s, base->len + (size_t)nd);
    if (!is_taken(q, where, w)) return w;
  }
}

/* A name that the language has: not empty, and not that of a nameless node. */
static const anfi_str *speakable(naming *q, const anfi_str *s) {
  if (!s->len) return anfi_intern_z(&q->words, "g");
  if (s->s[0] != '%') return anfi_intern(&q->words, s->s, s->len);
  return anfi_intern_z(&q->words, anfi_sprintf(q->scratch, "_%s", s->s + 1));
}

/* The text of a name that `where` has not yet, as it is printed. */
static const char *give(naming *q, uint32_t where, const anfi_str *wanted) {
  const anfi_str *w = speakable(q, wanted);
  if (is_taken(q, where, w)) w = with_suffix(q, where, w);
  *anfi_map_at(&q->taken, pair(where, w->id)) = 1;
  if (anfi_is_plain_name(w->s, w->len)) return w->s;
  q->quoted->len = 0;
  anfi_put_quoted(q->quoted, w->s, w->len, '`');
  return anfi_strndup(q->a, q->quoted->text, q->quoted->len);
}

static const char *number(naming *q, size_t k) {
  char buf[24], *p = buf + sizeof buf;
  do *--p = (char)('0' + k % 10);
  while (k /= 10);
  *--p = '%';
  return anfi_strndup(q->a, p, (size_t)(buf + sizeof buf - p));
}

static void name_node(naming *q, const anf_node *n, size_t *unnamed) {
  const anfi_str *s = q->m->debugs.at[n->debug].name;
  q->out.node[n->id] = s && s->len ? give(q, n->graph->id, s) : number(q, ++*unnamed);
}

static void name_all(naming *q) {
  anf_module *m = q->m;
  q->out.graph = ANFI_NEW_N(q->a, const char *, m->graphs.n);
  q->out.node = ANFI_NEW_N(q->a, const char *, m->nodes.n);
  for (int op = 0; op < ANF_OP_COUNT; op++)
    *anfi_map_at(&q->taken, pair(NOWHERE, anfi_intern_z(&q->words, anfi_op[op].name)->id)) = 1;
  for (size_t i = 0; i < q->out.ngraph; i++) {
    anf_graph *g = q->out.graphs[i];
    q->out.graph[g->id] = give(q, NOWHERE, g->name);
  }
  for (size_t i = 0; i < q->out.ngraph; i++) {
    anf_graph *g = q->out.graphs[i];
    size_t unnamed = 0, first = q->out.first[g->id];
    for (size_t k = 0; k < g->params.n; k++) name_node(q, g->params.at[k], &unnamed);
    for (size_t k = 0; k < q->out.count[g->id]; k++)
      name_node(q, q->out.order[first + k], &unnamed);
  }
}

anfi_names anfi_unique_names(anf_module *m, const anf_analysis *an, anfi_arena *a) {
  naming q = {.m = m, .an = an, .a = a, .scratch = anfi_scratch(m->cx)};
  anfi_strtab_init(&q.words, a); // plain names are used from here
  anfi_map_init(&q.taken, q.scratch);
  anfi_map_init(&q.suffix, q.scratch);
  q.quoted = ANFI_NEW(q.scratch, anf_text);
  q.quoted->cx = m->cx;
  anfi_defer(m->cx, ANFI_ALWAYS, anfi_free_text, q.quoted);
  order_graphs(&q);
  order_nodes(&q);
  name_all(&q);
  return q.out;
}
