// SPDX-License-Identifier: Apache-2.0
/* Text for graphviz, in the manner of MindSpore's dumps.
 *   def main(x) { x * x }   ->   subgraph cluster_g0{ n1[..x..] n2[..Mul..] r0[..return..] n2:core->r0 } n1->n2:1 ..
 * A graph is a cluster, a CNode a table with its inputs as numbered ports, the callee a dashed edge to port 0;
 * functions are green ovals that point at their cluster, constants lavender, parameters turquoise. A value captured
 * from another graph is an orange edge, the order of effects a dotted one, a folded graph a box.
 * INVARIANT: no text of a program reaches the output but through put_html or put_quoted. */
#include "frontend/view/view.h"

enum {
  MAX_NODES = 4000,
  MAX_LABEL = 48, // characters of one line
  MAX_PORTS = 40, // further inputs share one port
  MANY = 400,     // nodes; beyond, graphviz takes less care
};

typedef struct {
  anfi_view *v;
  anf_text *o;
  anfi_label *label;
  anfi_map ovals; // (using graph, function) -> drawn already
} writer;

/* ---- text ---- */

static void put_html(writer *w, const char *s) {
  for (; *s; s++) {
    switch (*s) {
    case '&': anfi_puts(w->o, "&amp;"); break;
    case '<': anfi_puts(w->o, "&lt;"); break;
    case '>': anfi_puts(w->o, "&gt;"); break;
    case '"': anfi_puts(w->o, "&quot;"); break;
    default: anfi_putc(w->o, *s);
    }
  }
}

/* Between the quotes of a label, where a backslash and an ampersand mean something to graphviz. */
static void put_quoted(writer *w, const char *s) {
  for (; *s; s++) {
    if (*s == '&') anfi_puts(w->o, "&amp;");
    else if (*s == '\\' || *s == '"') anfi_putf(w->o, "\\%c", *s);
    else anfi_putc(w->o, *s);
  }
}

static const char *name_of(writer *w, const anf_node *n) {
  return anfi_view_clean(w->label, w->v->names.node[n->id], MAX_LABEL);
}

static const char *graph_name(writer *w, const anf_graph *g) {
  return anfi_view_clean(w->label, w->v->names.graph[g->id], MAX_LABEL);
}

/* "name: type" */
static void put_typed(writer *w, const anf_node *n, void (*put)(writer *, const char *)) {
  put(w, name_of(w, n));
  if (!n->type) return;
  anfi_puts(w->o, ": ");
  put(w, anfi_shown_type(w->label, n->type, MAX_LABEL));
}

/* ---- nodes ---- */

static uint32_t first_port(const anf_node *n) { return n->kind == ANFI_APPLY ? 1 : 0; }

static void put_ports(writer *w, const anf_node *n) {
  if (!n->nin) return;
  anfi_puts(w->o, "<tr>");
  for (uint32_t i = 0; i < n->nin && i < MAX_PORTS; i++) {
    uint32_t port = i + first_port(n);
    if (i == MAX_PORTS - 1 && n->nin > MAX_PORTS)
      anfi_putf(w->o, "<td port='%u'>%u…</td>", port, port);
    else anfi_putf(w->o, "<td port='%u'>%u</td>", port, port);
  }
  anfi_puts(w->o, "</tr>");
}

static void put_row(writer *w, const anf_node *n, const char *colour) {
  uint32_t columns = n->nin > MAX_PORTS ? MAX_PORTS : n->nin ? n->nin : 1;
  anfi_putf(w->o, "<tr><td colspan='%u'%s>", columns, colour);
}

static void put_attributes(writer *w, const anf_node *n) {
  const anfi_schema *s =
      n->kind == ANFI_APPLY && n->u.attrs ? anfi_op_schema(w->v->m->cx, n->op) : NULL;
  for (uint32_t k = 0; s && k < s->nattr; k++) {
    const anf_value *v = n->u.attrs->at[k];
    if (!v || v == &anfi_from_node) continue;
    put_row(w, n, " bgcolor='gray95'");
    put_html(w, anfi_view_clean(w->label, s->attr[k].name->s, MAX_LABEL));
    anfi_puts(w->o, "=");
    put_html(w, anfi_shown_value(w->label, v, MAX_LABEL));
    anfi_puts(w->o, "</td></tr>");
  }
}

static void put_place(writer *w, const anf_node *n) {
  anfi_loc at = anfi_node_loc(n);
  if (!at.line) return;
  anfi_puts(w->o, ",tooltip=\"");
  if (at.file) put_quoted(w, anfi_view_clean(w->label, at.file, 200));
  anfi_putf(w->o, ":%u:%u\"", at.line, at.col);
}

static void put_cnode(writer *w, const anf_node *n) {
  anfi_putf(
      w->o,
      "n%u[shape=plaintext,label=<<table port='core' border='0' cellborder='1' cellspacing='0'>",
      n->id);
  put_ports(w, n);
  put_row(w, n, n->flags & ANFI_NODE_EFFECT ? " bgcolor='lightsalmon'" : " bgcolor='cornsilk'");
  anfi_puts(w->o, "<b>");
  put_html(w, anfi_view_title(w->label, n, MAX_LABEL));
  anfi_puts(w->o, "</b></td></tr>");
  put_attributes(w, n);
  put_row(w, n, "");
  put_typed(w, n, put_html);
  anfi_puts(w->o, "</td></tr></table>>");
  put_place(w, n);
  anfi_puts(w->o, "]\n");
}

static void put_param(writer *w, const anf_node *n) {
  anfi_putf(w->o, "n%u[shape=octagon,style=filled,fillcolor=paleturquoise,label=\"", n->id);
  put_quoted(w, name_of(w, n));
  if (n->type) {
    anfi_puts(w->o, "\\n");
    put_quoted(w, anfi_shown_type(w->label, n->type, MAX_LABEL));
  }
  anfi_puts(w->o, "\"");
  put_place(w, n);
  anfi_puts(w->o, "]\n");
}

static void put_params_block(writer *w, const anf_graph *g) {
  if (!g->params.n) return;
  anfi_putf(w->o,
            "p%u[shape=plaintext,label=<<table bgcolor='paleturquoise' border='0' cellborder='1' "
            "cellspacing='0'><tr><td>parameters</td></tr>",
            g->id);
  for (size_t i = 0; i < g->params.n && i < MAX_PORTS; i++) {
    anfi_puts(w->o, "<tr><td>");
    put_typed(w, g->params.at[i], put_html);
    anfi_puts(w->o, "</td></tr>");
  }
  if (g->params.n > MAX_PORTS)
    anfi_putf(w->o, "<tr><td>and %zu more</td></tr>", g->params.n - MAX_PORTS);
  anfi_puts(w->o, "</table>>]\n");
}

/* ---- operands ---- */

static uint64_t oval_key(const anf_graph *user, const anf_graph *of) {
  return (uint64_t)user->id << 32 | of->id;
}

/* A function value, once in each graph that uses it. */
static void put_oval(writer *w, const anf_graph *user, const anf_graph *of) {
  uint64_t *seen = anfi_map_at(&w->ovals, oval_key(user, of));
  if (*seen) return;
  *seen = 1;
  anfi_putf(w->o,
            "f%u_%u[shape=oval,style=filled,fillcolor=palegreen,URL=\"#cluster_g%u\",label=\"",
            user->id, of->id, of->id);
  put_quoted(w, graph_name(w, of));
  anfi_puts(w->o, "\"]\n");
}

/* A constant of its own at each use, or the name of a node that is not drawn. */
static void put_leaf(writer *w, const anf_node *user, uint32_t i, const anf_node *def) {
  anfi_putf(w->o, "c%u_%u[", user->id, i);
  if (def->kind == ANFI_VALUE) {
    anfi_puts(w->o, "shape=box,style=filled,fillcolor=lavender,label=\"");
    put_quoted(w, anfi_shown_value(w->label, def->u.value, MAX_LABEL));
  } else {
    anfi_puts(w->o, "shape=plaintext,fontcolor=gray40,label=\"");
    put_quoted(w, graph_name(w, def->graph));
    anfi_puts(w->o, ".");
    put_quoted(w, name_of(w, def));
  }
  anfi_puts(w->o, "\"]\n");
}

static void put_uses(writer *w, const anf_node *n) {
  for (uint32_t i = 0; i < n->nin; i++) {
    const anf_node *def = n->in[i].def;
    const anf_graph *f = anfi_value_graph(def);
    if (f && !f->removed) put_oval(w, n->graph, f);
    else if (def->kind == ANFI_VALUE || !w->v->drawn[def->id]) put_leaf(w, n, i, def);
  }
}

/* The source of the edge of input i. */
static void put_source(writer *w, const anf_node *n, uint32_t i) {
  const anf_node *def = n->in[i].def;
  const anf_graph *f = anfi_value_graph(def);
  if (f && !f->removed) anfi_putf(w->o, "f%u_%u", n->graph->id, f->id);
  else if (def->kind == ANFI_VALUE || !w->v->drawn[def->id]) anfi_putf(w->o, "c%u_%u", n->id, i);
  else if (def->kind == ANFI_PARAM) anfi_putf(w->o, "n%u", def->id);
  else anfi_putf(w->o, "n%u:core", def->id);
}

static void put_edges(writer *w, const anf_node *n) {
  for (uint32_t i = 0; i < n->nin; i++) {
    const anf_node *def = n->in[i].def;
    uint32_t port = (i < MAX_PORTS ? i : MAX_PORTS - 1) + first_port(n);
    put_source(w, n, i);
    anfi_putf(w->o, "->n%u:%u", n->id, port);
    if (port == 0) anfi_puts(w->o, "[style=dashed]");
    else if (def->graph && def->graph != n->graph && w->v->drawn[def->id])
      anfi_puts(w->o, "[color=darkorange,constraint=false]");
    anfi_puts(w->o, "\n");
  }
}

/* ---- graphs ---- */

static void put_result(writer *w, const anf_graph *g) {
  const anf_node *r = g->result;
  if (!r) return;
  const anf_graph *f = anfi_value_graph(r);
  anfi_putf(w->o, "r%u[shape=box,style=\"rounded,filled\",fillcolor=mistyrose,label=\"return\"]\n",
            g->id);
  if (f && !f->removed) {
    put_oval(w, g, f);
    anfi_putf(w->o, "f%u_%u->r%u\n", g->id, f->id, g->id);
  } else if (r->kind == ANFI_VALUE || !w->v->drawn[r->id]) {
    anfi_putf(w->o, "c_r%u[shape=%s,label=\"", g->id,
              r->kind == ANFI_VALUE ? "box,style=filled,fillcolor=lavender"
                                    : "plaintext,fontcolor=gray40");
    put_quoted(w, r->kind == ANFI_VALUE ? anfi_shown_value(w->label, r->u.value, MAX_LABEL)
                                        : name_of(w, r));
    anfi_putf(w->o, "\"]\nc_r%u->r%u\n", g->id, g->id);
  } else
    anfi_putf(w->o, "n%u%s->r%u%s\n", r->id, r->kind == ANFI_PARAM ? "" : ":core", g->id,
              r->graph == g ? "" : "[color=darkorange,constraint=false]");
}

static void put_effects(writer *w, const anf_graph *g) {
  for (size_t i = 1; i < g->effects.n; i++) {
    const anf_node *a = g->effects.at[i - 1], *b = g->effects.at[i];
    if (w->v->drawn[a->id] && w->v->drawn[b->id])
      anfi_putf(w->o, "n%u:core->n%u:core[style=dotted,color=firebrick,tooltip=\"then\"]\n", a->id,
                b->id);
  }
}

static void put_folded(writer *w, const anfi_view_graph *vg) {
  anfi_putf(w->o, "r%u[shape=box3d,style=filled,fillcolor=gray90,label=\"", vg->graph->id);
  put_quoted(w, graph_name(w, vg->graph));
  anfi_putf(w->o, "\\n%zu nodes\"]\n", vg->total);
}

static void put_graph_label(writer *w, const anfi_view_graph *vg) {
  const anf_graph *g = vg->graph;
  anfi_putf(w->o, "id=g%u\nlabel=\"", g->id);
  put_quoted(w, graph_name(w, g));
  if (g->result_type) {
    anfi_puts(w->o, " -> ");
    put_quoted(w, anfi_shown_type(w->label, g->result_type, MAX_LABEL));
  }
  if (vg->nodes.n < vg->total) anfi_putf(w->o, "\\n%zu of %zu nodes", vg->nodes.n, vg->total);
  anfi_puts(w->o, "\"\n");
}

static void put_graph(writer *w, const anfi_view_graph *vg) {
  const anf_graph *g = vg->graph;
  anfi_putf(w->o, "subgraph cluster_g%u{\n", g->id);
  put_graph_label(w, vg);
  if (!vg->open) put_folded(w, vg);
  else {
    put_params_block(w, g);
    for (size_t i = 0; i < vg->nodes.n; i++) {
      const anf_node *n = vg->nodes.at[i];
      if (n->kind == ANFI_PARAM) put_param(w, n);
      else put_cnode(w, n), put_uses(w, n);
    }
    put_result(w, g);
  }
  anfi_puts(w->o, "}\n");
}

/* From each oval to its cluster. An edge cannot end at the cluster that it is in. */
static void put_links(writer *w, const anf_graph *user) {
  const anfi_graph_info *info = &w->v->an->graphs[user->id];
  for (size_t i = 0; i < info->callees.n; i++) {
    const anf_graph *of = info->callees.at[i];
    if (!anfi_map_find(&w->ovals, oval_key(user, of)) || !w->v->graph[of->id].drawn) continue;
    if (!of->result && w->v->graph[of->id].open) continue;
    anfi_putf(w->o, "f%u_%u->r%u[", user->id, of->id, of->id);
    if (of != user) anfi_putf(w->o, "lhead=cluster_g%u,", of->id);
    anfi_puts(w->o, "dir=both,arrowhead=dot,color=blue,constraint=false]\n");
  }
}

static void put_head(writer *w) {
  anfi_puts(w->o, "digraph anfora {\ncompound=true\nfontname=\"Courier New\"\n"
                  "node[fontname=\"Courier New\",fontsize=11]\nedge[arrowhead=vee]\n");
  // simplex over thousands of nodes takes minutes for a picture that is no better
  if (w->v->nnode > MANY)
    anfi_puts(w->o, "nslimit=0.5\nnslimit1=0.5\nmclimit=0.2\nsearchsize=5\nsplines=line\n");
}

static void write_dot(anf_module *m, const anf_view_opts *opts, anf_text *out) {
  writer w = {.v = anfi_view_select(m, opts, MAX_NODES), .o = out};
  w.label = anfi_view_label(w.v);
  anfi_map_init(&w.ovals, w.v->a);
  put_head(&w);
  for (size_t i = 0; i < w.v->order.n; i++) put_graph(&w, &w.v->graph[w.v->order.at[i]->id]);
  for (size_t i = 0; i < w.v->order.n; i++) {
    const anfi_view_graph *vg = &w.v->graph[w.v->order.at[i]->id];
    for (size_t k = 0; k < vg->nodes.n; k++) put_edges(&w, vg->nodes.at[k]);
    if (vg->open) put_effects(&w, vg->graph);
    put_links(&w, vg->graph);
  }
  anfi_puts(out, "}\n");
}

anf_status anf_write_dot(anf_module *m, const anf_view_opts *o, anf_text *out) {
  ANFI_TEXT_ENTRY(m, out);
  write_dot(m, o, out);
  return anfi_leave(m->cx);
}
