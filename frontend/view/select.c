// SPDX-License-Identifier: Apache-2.0
/* Which graphs and nodes of a module are drawn: graphs by their distance from where calls begin, nodes near a focus,
 * and never more than a limit, so that any module has a picture.
 *   depth = 1, main calls f, f calls g   ->   main open, f a folded box, g not drawn
 * Linear in the module; no recursion. */
#include "frontend/view/view.h"

enum { DEFAULT_RADIUS = 3 };

/* ---- graphs in order of distance ---- */

static void reach(anfi_view *v, anf_graph *g, uint32_t depth) {
  anfi_view_graph *vg = &v->graph[g->id];
  if (vg->graph) return;
  vg->graph = g;
  vg->depth = depth;
  vg->total = g->params.n + v->names.count[g->id];
  anfi_push(v->a, &v->order, g);
}

/* Breadth first from the nodes of `order` from `from` on. */
static void reach_all(anfi_view *v, size_t from) {
  for (size_t i = from; i < v->order.n; i++) {
    const anf_graph *g = v->order.at[i];
    const anfi_graph_info *info = &v->an->graphs[g->id];
    for (size_t k = 0; k < info->callees.n; k++)
      reach(v, info->callees.at[k], v->graph[g->id].depth + 1);
  }
}

static void order_graphs(anfi_view *v, const anf_graph *only) {
  if (only) {
    reach(v, v->m->graphs.at[only->id], 0);
    reach_all(v, 0);
    return;
  }
  for (size_t i = v->an->by_scc.n;
       i-- > 0;) { // callers first: a graph that is not reached yet is a root
    size_t from = v->order.n;
    reach(v, v->an->by_scc.at[i], 0);
    reach_all(v, from);
  }
}

/* ---- nodes near a focus ---- */

typedef struct {
  anfi_view *v;
  uint8_t *near;
  ANFI_VEC(anf_node *) found;
  uint32_t max;
} focus;

static void visit(focus *f, anf_node *n) {
  if (n->kind == ANFI_VALUE) { // a function leads to its result
    const anf_graph *g = anfi_value_graph(n);
    n = g && !g->removed ? g->result : NULL;
  }
  if (!n || !n->graph || f->near[n->id] || f->found.n >= f->max) return;
  f->near[n->id] = 1;
  anfi_push(f->v->a, &f->found, n);
}

static void visit_users(focus *f, const anf_node *n) {
  for (const anfi_use *u = n->uses; u && f->found.n < f->max; u = u->next) visit(f, u->user);
}

static uint8_t *find_near(anfi_view *v, anf_node *start, uint32_t radius, uint32_t max) {
  focus f = {.v = v, .near = ANFI_NEW_N(v->a, uint8_t, v->m->nodes.n), .max = max};
  visit(&f, start);
  size_t i = 0;
  for (uint32_t r = 0; r < radius; r++)
    for (size_t end = f.found.n; i < end; i++) {
      anf_node *n = f.found.at[i];
      for (uint32_t k = 0; k < n->nin; k++) visit(&f, n->in[k].def);
      visit_users(&f, n);
      if (n->graph->result == n && n->graph->self) visit_users(&f, n->graph->self);
    }
  return f.near;
}

/* ---- selection ---- */

static void draw_node(anfi_view *v, anfi_view_graph *vg, anf_node *n, const uint8_t *near) {
  if (near && !near[n->id]) return;
  v->drawn[n->id] = 1;
  v->nnode++;
  anfi_push(v->a, &vg->nodes, n);
}

/* Opens a graph; of one that is too large alone, the `room` last nodes, which are nearest to the
 * result. */
static void open_graph(anfi_view *v, anfi_view_graph *vg, const uint8_t *near, size_t room) {
  const anf_graph *g = vg->graph;
  size_t n = v->names.count[g->id], skip = 0;
  vg->open = true;
  if (!near && vg->total > room) skip = vg->total - room < n ? vg->total - room : n;
  for (size_t i = 0; i < g->params.n && i < room; i++) draw_node(v, vg, g->params.at[i], near);
  for (size_t i = skip; i < n; i++)
    draw_node(v, vg, v->names.order[v->names.first[g->id] + i], near);
}

static bool has_near(const anfi_view *v, const anf_graph *g, const uint8_t *near) {
  for (size_t i = 0; i < g->params.n; i++)
    if (near[g->params.at[i]->id]) return true;
  for (size_t i = 0; i < v->names.count[g->id]; i++)
    if (near[v->names.order[v->names.first[g->id] + i]->id]) return true;
  return false;
}

/* A graph costs one, and its nodes if it is open. The first always opens. */
static void choose(anfi_view *v, uint32_t depth, uint32_t max, const uint8_t *near) {
  size_t ndrawn = 0, cost = 0;
  for (size_t i = 0; i < v->order.n; i++) {
    anf_graph *g = v->order.at[i];
    anfi_view_graph *vg = &v->graph[g->id];
    if ((near && !has_near(v, g, near)) || (depth && vg->depth > depth) || cost >= max) continue;
    vg->drawn = true;
    v->order.at[ndrawn++] = g;
    cost++;
    bool fits = near || !i || vg->total <= max - cost;
    if (!fits || (depth && vg->depth == depth)) continue;
    open_graph(v, vg, near, max - cost + 1);
    cost += vg->nodes.n;
  }
  v->order.n = ndrawn;
}

anfi_view *anfi_view_select(anf_module *m, const anf_view_opts *o, uint32_t max_nodes) {
  anfi_arena *a = anfi_scratch(m->cx);
  anfi_view *v = ANFI_NEW(a, anfi_view);
  anf_view_opts opts;
  if (!ANFI_OPTS_IN(m->cx, anf_view_opts, max_nodes, o, &opts)) anfi_throw(m->cx);
  v->m = m;
  v->a = a;
  v->an = anfi_analyse(m);
  v->names = anfi_unique_names(m, v->an, a);
  v->graph = ANFI_NEW_N(a, anfi_view_graph, m->graphs.n + 1);
  v->drawn = ANFI_NEW_N(a, uint8_t, m->nodes.n + 1);
  uint32_t max = opts.max_nodes ? opts.max_nodes : max_nodes;
  order_graphs(v, opts.graph);
  const uint8_t *near =
      opts.focus ? find_near(v, opts.focus, opts.radius ? opts.radius : DEFAULT_RADIUS, max) : NULL;
  choose(v, opts.depth, max, near);
  return v;
}

/* ---- labels ---- */

/* Characters that XML does not allow, and line ends, are shown as U+FFFD. */
static bool is_printable(const char *s, size_t n) {
  unsigned char c = (unsigned char)s[0];
  if (n == 1) return c >= 0x20 && c != 0x7f;
  if (n == 2) return !(c == 0xc2 && (unsigned char)s[1] < 0xa0);
  return !(n == 3 && c == 0xef && (unsigned char)s[1] == 0xbf && (unsigned char)s[2] >= 0xbe);
}

const char *anfi_view_clean(anfi_label *l, const char *s, size_t max) {
  anf_text *t = &l->text;
  size_t left = strlen(s), count = 0;
  t->len = 0;
  anfi_puts(t, "");
  while (left) {
    size_t n = anfi_utf8_len(s, left);
    if (++count > max) {
      anfi_puts(t, "…");
      break;
    }
    bool good = n && is_printable(s, n);
    anfi_put(t, good ? s : "\xef\xbf\xbd", good ? n : 3);
    s += n ? n : 1;
    left -= n ? n : 1;
  }
  return t->text;
}

static void free_label(void *p) {
  anfi_label *l = (anfi_label *)p;
  anf_text_free(&l->text);
  anf_text_free(&l->raw);
}

anfi_label *anfi_view_label(anfi_view *v) {
  anf_ctx *cx = v->m->cx;
  anfi_label *l = ANFI_NEW(v->a, anfi_label);
  *l = (anfi_label){.view = v, .text = {.cx = cx}, .raw = {.cx = cx}};
  anfi_defer(cx, ANFI_ALWAYS, free_label, l);
  return l;
}

const char *anfi_shown_type(anfi_label *l, const anf_type *t, size_t max) {
  l->raw.len = 0;
  if (t) anfi_put_type(&l->raw, l->raw.cx, t);
  return anfi_view_clean(l, t ? l->raw.text : "", max);
}

enum { SHOWN_ITEMS = 8 };

const char *anfi_shown_value(anfi_label *l, const anf_value *v, size_t max) {
  l->raw.len = 0;
  anfi_put_value(&l->raw, v, SHOWN_ITEMS);
  return anfi_view_clean(l, l->raw.text, max);
}

const char *anfi_view_title(anfi_label *l, const anf_node *n, size_t max) {
  if (n->kind == ANFI_APPLY) return anfi_op_of(n)->name;
  const anf_graph *g = anfi_is_cnode(n) ? anfi_value_graph(n->in[0].def) : NULL;
  return g && !g->removed ? anfi_view_clean(l, l->view->names.graph[g->id], max) : "call";
}
