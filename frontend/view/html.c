// SPDX-License-Identifier: Apache-2.0
/* One page on its own to explore a module: view.html with its style and script (put together by embed.py when Anfora
 * is built), and the module as JSON in the middle. Layout and drawing are the script's.
 *   x * x of node 2, x being node 1   ->   {"i":2,"k":1,"n":"%1","o":"Mul","x":[1,1]}
 * INVARIANT: text of a program reaches the page only through put_json, which also escapes what would end a script
 * element; the script shows it as text, never as markup. */
#include "frontend/view/page.h"
#include "frontend/view/view.h"

enum { MAX_NODES = 20000, MAX_LABEL = 400, MAX_INPUTS = 2000 };

typedef struct {
  anfi_view *v;
  anf_text *o;
  anfi_label *label;
  uint8_t *op_used;
} writer;

/* ---- JSON; labels are clean already: one line of valid UTF-8 ---- */

static void put_escaped(writer *w, const char *s) {
  for (; *s; s++) {
    if (*s == '"' || *s == '\\') anfi_putf(w->o, "\\%c", *s);
    else if (*s == '<' || *s == '>' || *s == '&') anfi_putf(w->o, "\\u%04x", (unsigned)*s);
    else anfi_putc(w->o, *s);
  }
}

static void put_json(writer *w, const char *s) {
  anfi_putc(w->o, '"');
  put_escaped(w, s);
  anfi_putc(w->o, '"');
}

static const char *clean(writer *w, const char *s) {
  return anfi_view_clean(w->label, s, MAX_LABEL);
}
static void put_clean(writer *w, const char *s) { put_json(w, clean(w, s)); }

static void put_member(writer *w, const char *key, const char *text) {
  if (!*text) return; // absent is ""
  anfi_putf(w->o, ",\"%s\":", key);
  put_json(w, text);
}

static void put_type(writer *w, const char *key, const anf_type *t) {
  if (t) put_member(w, key, anfi_shown_type(w->label, t, MAX_LABEL));
}

static void put_place(writer *w, anfi_loc at) {
  if (!at.line) return;
  anfi_puts(w->o, ",\"l\":\"");
  put_escaped(w, clean(w, at.file ? at.file : ""));
  anfi_putf(w->o, ":%u:%u\"", at.line, at.col);
}

/* ---- nodes ---- */

/* A drawn node's id, ["c", constant], ["g", graph id, name] or ["x", name of a node that is not
 * drawn]. */
static void put_ref(writer *w, const anf_node *def) {
  const anf_graph *g = anfi_value_graph(def);
  if (g && !g->removed) {
    anfi_putf(w->o, "[\"g\",%u,", g->id);
    put_clean(w, w->v->names.graph[g->id]);
  } else if (def->kind == ANFI_VALUE) {
    anfi_puts(w->o, "[\"c\",");
    put_json(w, anfi_shown_value(w->label, def->u.value, MAX_LABEL));
  } else if (w->v->drawn[def->id]) {
    anfi_putf(w->o, "%u", def->id);
    return;
  } else {
    anfi_puts(w->o, "[\"x\",\"");
    put_escaped(w, clean(w, w->v->names.graph[def->graph->id]));
    anfi_putc(w->o, '.');
    put_escaped(w, clean(w, w->v->names.node[def->id]));
    anfi_putc(w->o, '"');
  }
  anfi_putc(w->o, ']');
}

static void put_inputs(writer *w, const anf_node *n) {
  if (!n->nin) return;
  anfi_puts(w->o, ",\"x\":[");
  for (uint32_t i = 0; i < n->nin && i < MAX_INPUTS; i++) {
    if (i) anfi_putc(w->o, ',');
    put_ref(w, n->in[i].def);
  }
  anfi_putc(w->o, ']');
}

/* Constant attributes as pairs; attributes that nodes give follow the arguments as inputs. */
static void put_attributes(writer *w, const anf_node *n) {
  if (n->kind != ANFI_APPLY || !n->u.attrs) return;
  const anfi_schema *s = anfi_op_schema(w->v->m->cx, n->op);
  size_t count = 0;
  for (uint32_t k = 0; k < s->nattr; k++) {
    const anf_value *v = n->u.attrs->at[k];
    if (!v) continue;
    anfi_puts(w->o, count++ ? ",[" : ",\"a\":[[");
    put_clean(w, s->attr[k].name->s);
    if (v != &anfi_from_node) {
      anfi_putc(w->o, ',');
      put_json(w, anfi_shown_value(w->label, v, MAX_LABEL));
    }
    anfi_putc(w->o, ']');
  }
  if (count) anfi_putc(w->o, ']');
}

static void put_node(writer *w, const anf_node *n) {
  int kind = n->kind == ANFI_PARAM ? 0 : n->kind == ANFI_APPLY ? 1 : 2;
  anfi_putf(w->o, "{\"i\":%u,\"k\":%d,\"n\":", n->id, kind);
  put_clean(w, w->v->names.node[n->id]);
  if (kind) put_member(w, "o", anfi_view_title(w->label, n, MAX_LABEL));
  if (kind == 1) w->op_used[n->op] = 1;
  if (n->flags & ANFI_NODE_EFFECT) anfi_puts(w->o, ",\"e\":1");
  put_type(w, "t", n->type);
  put_member(w, "s", anfi_view_clean(w->label, anf_node_scope(n), MAX_LABEL));
  put_place(w, anfi_node_loc(n));
  put_attributes(w, n);
  put_inputs(w, n);
  anfi_putc(w->o, '}');
}

/* ---- graphs ---- */

static void put_graph(writer *w, const anfi_view_graph *vg) {
  const anf_graph *g = vg->graph;
  const anf_graph *parent = w->v->an->graphs[g->id].parent;
  anfi_putf(w->o, "{\"id\":%u,\"depth\":%u,\"open\":%d,\"total\":%zu,\"name\":", g->id, vg->depth,
            vg->open, vg->total);
  put_clean(w, w->v->names.graph[g->id]);
  put_type(w, "t", g->result_type);
  if (parent) anfi_putf(w->o, ",\"parent\":%u", parent->id);
  if (vg->open && g->result) {
    anfi_puts(w->o, ",\"result\":");
    put_ref(w, g->result);
  }
  anfi_puts(w->o, ",\"effects\":[");
  for (size_t i = 0, k = 0; vg->open && i < g->effects.n; i++)
    if (w->v->drawn[g->effects.at[i]->id])
      anfi_putf(w->o, "%s%u", k++ ? "," : "", g->effects.at[i]->id);
  anfi_puts(w->o, "],\"nodes\":[");
  for (size_t i = 0; i < vg->nodes.n; i++) {
    anfi_puts(w->o, i ? ",\n" : "\n");
    put_node(w, vg->nodes.at[i]);
  }
  anfi_puts(w->o, "]}");
}

static void put_op(writer *w, anfi_opcode op) {
  const anfi_schema *s = anfi_op_schema(w->v->m->cx, op);
  put_clean(w, anfi_op[op].name);
  anfi_puts(w->o, ":{\"doc\":");
  put_clean(w, anfi_op[op].doc ? anfi_op[op].doc : "");
  anfi_puts(w->o, ",\"in\":[");
  for (uint32_t i = 0; i < s->nin; i++) {
    if (i) anfi_putc(w->o, ',');
    put_clean(w, s->in[i]->s);
  }
  anfi_putf(w->o, "],\"more\":%d}", s->variadic);
}

static void put_data(writer *w) {
  anfi_puts(w->o, "{\"graphs\":[");
  for (size_t i = 0; i < w->v->order.n; i++) {
    anfi_puts(w->o, i ? ",\n" : "\n");
    put_graph(w, &w->v->graph[w->v->order.at[i]->id]);
  }
  anfi_puts(w->o, "],\n\"ops\":{");
  for (size_t k = 0, count = 0; k < ANF_OP_COUNT; k++) {
    if (!w->op_used[k]) continue;
    anfi_puts(w->o, count++ ? ",\n" : "\n");
    put_op(w, (anfi_opcode)k);
  }
  anfi_puts(w->o, "}}");
}

static void write_html(anf_module *m, const anf_view_opts *opts, anf_text *out) {
  writer w = {.v = anfi_view_select(m, opts, MAX_NODES), .o = out};
  w.label = anfi_view_label(w.v);
  w.op_used = ANFI_NEW_N(w.v->a, uint8_t, ANF_OP_COUNT);
  anfi_put(out, anfi_page_head, anfi_page_head_len);
  put_data(&w);
  anfi_put(out, anfi_page_tail, anfi_page_tail_len);
}

anf_status anf_write_html(anf_module *m, const anf_view_opts *o, anf_text *out) {
  ANFI_TEXT_ENTRY(m, out);
  write_html(m, o, out);
  return anfi_leave(m->cx);
}
