// SPDX-License-Identifier: Apache-2.0
/* A module as .ir text: every node a line, typed where its type is known (docs/language.md).
 *   Mul of the parameters x and y   ->   %1: f64[3] = Mul(x, y)
 * INVARIANT: reading the text and printing again gives the same text. Linear; a type is written out once and copied
 * after. Modules that the verifier rejects can be printed too: what a node lacks shows as `?`. Places and the origin of
 * graphs are comments, so a text with them reads as the same module. */
#include "ir/ir.h"

#include "anfora/text.h"
#include "base/mark.h"

typedef struct {
  anf_text *o;
  anf_ctx *cx;
  bool places;
  size_t most; // elements of a constant that are written; 0: all
  anfi_pending pending;
  anfi_names names;
  const anf_analysis *an;
  anfi_map types;    // type -> 1 + index into texts
  anfi_strtab texts; // of types
} printer;

static void put_known(anf_text *o, const char *name) { anfi_puts(o, name ? name : "?"); }

/* Written at the end of the output once, then copied from there. */
static void put_type(printer *p, const anf_type *t) {
  uint64_t *at = anfi_map_at(&p->types, anfi_key(t));
  if (*at) {
    const anfi_str *s = p->texts.all.at[*at - 1];
    anfi_put(p->o, s->s, s->len);
    return;
  }
  size_t start = p->o->len;
  anfi_put_type(p->o, p->cx, t);
  *at = 1 + (uint64_t)anfi_intern(&p->texts, p->o->text + start, p->o->len - start)->id;
}

static void put_ref(printer *p, const anf_graph *g, const anf_node *n) {
  if (n->kind == ANFI_VALUE) {
    anfi_put_constant(p->o, n->u.value, &p->names, &p->pending, p->most);
    return;
  }
  if (n->graph && n->graph != g) {
    put_known(p->o, p->names.graph[n->graph->id]);
    anfi_putc(p->o, '.');
  }
  put_known(p->o, p->names.node[n->id]);
}

/* The comma goes before all but the first item of a list. */
static void put_comma(printer *p, bool *first) {
  if (!*first) anfi_puts(p->o, ", ");
  *first = false;
}

static bool is_default(const anfi_attr_schema *a, const anf_value *v) {
  return !v || (v != &anfi_from_node && a->initial && anfi_value_same(v, a->initial));
}

static void put_attrs(printer *p, const anf_node *n, bool first) {
  const anfi_attrs *at = n->u.attrs;
  const anfi_schema *s = anfi_op_schema(p->cx, (anfi_opcode)n->op);
  size_t next = anfi_arg_count(n);
  for (uint32_t k = 0; at && k < at->n; k++) {
    if (is_default(&s->attr[k], at->at[k])) continue;
    put_comma(p, &first);
    anfi_puts(p->o, s->attr[k].name->s);
    anfi_putc(p->o, '=');
    if (at->at[k] == &anfi_from_node) put_ref(p, n->graph, n->in[next++].def);
    else anfi_put_constant(p->o, at->at[k], &p->names, &p->pending, p->most);
  }
}

static void put_call(printer *p, const anf_node *n) {
  bool first = true, apply = n->kind == ANFI_APPLY;
  if (apply) anfi_puts(p->o, anfi_op_of(n)->name);
  else put_ref(p, n->graph, n->in[0].def);
  anfi_putc(p->o, '(');
  size_t end = anfi_arg_count(n);
  for (size_t i = apply ? 0 : 1; i < end; i++) {
    put_comma(p, &first);
    put_ref(p, n->graph, n->in[i].def);
  }
  if (apply && n->u.attrs) put_attrs(p, n, first);
  anfi_putc(p->o, ')');
}

static void put_typed_name(printer *p, const anf_node *n) {
  put_known(p->o, p->names.node[n->id]);
  if (!n->type) return;
  anfi_puts(p->o, ": ");
  put_type(p, n->type);
}

/* "  # net.anf:3:7, in Default/dense": where the node comes from. */
static void put_place(printer *p, const anf_node *n) {
  const char *file = anf_node_file(n), *scope = anf_node_scope(n);
  bool named = file && *file && anf_node_line(n);
  if (!named && !*scope) return;
  anfi_puts(p->o, "  #");
  if (named) anfi_putf(p->o, " %s:%u:%u", file, anf_node_line(n), anf_node_col(n));
  if (*scope) anfi_putf(p->o, "%s in %s", named ? "," : "", scope);
}

/* "  # gradient, backward half of loop body of f": what a pass made it of. */
static void put_origin(printer *p, const char *name) {
  size_t len;
  const char *words = " # ", *meaning;
  for (; (meaning = anfi_mark_meaning(name, &len)) != NULL; name += len, words = " of ") {
    anfi_putf(p->o, "%s%s%s", words[1] == '#' ? " " : "", words, meaning);
  }
  if (words[1] != '#') anfi_putf(p->o, " of %s", name);
}

static void put_node(printer *p, const anf_node *n) {
  anfi_puts(p->o, n->flags & ANFI_NODE_EFFECT ? "  effect " : "  ");
  put_typed_name(p, n);
  anfi_puts(p->o, " = ");
  put_call(p, n);
  if (p->places) put_place(p, n);
  anfi_putc(p->o, '\n');
}

static void put_header(printer *p, const anf_graph *g) {
  bool first = true;
  anfi_puts(p->o, "def ");
  put_known(p->o, p->names.graph[g->id]);
  anfi_putc(p->o, '(');
  for (size_t i = 0; i < g->params.n; i++) {
    put_comma(p, &first);
    put_typed_name(p, g->params.at[i]);
  }
  anfi_putc(p->o, ')');
  const anf_type *t = g->result_type ? g->result_type : g->result ? g->result->type : NULL;
  if (t) {
    anfi_puts(p->o, " -> ");
    put_type(p, t);
  }
  const anf_graph *parent = p->an->graphs[g->id].parent;
  if (!parent && (g->flags & ANFI_GRAPH_PRIVATE)) anfi_puts(p->o, " private");
  if (parent) {
    anfi_puts(p->o, " parent ");
    put_known(p->o, p->names.graph[parent->id]);
  }
  anfi_puts(p->o, " {");
  if (p->places) put_origin(p, g->name->s);
  anfi_putc(p->o, '\n');
}

static void put_graph(printer *p, const anf_graph *g) {
  put_header(p, g);
  size_t first = p->names.first[g->id], n = p->names.count[g->id];
  for (size_t i = 0; i < n; i++) put_node(p, p->names.order[first + i]);
  if (g->result) {
    anfi_puts(p->o, "  return ");
    put_ref(p, g, g->result);
    anfi_putc(p->o, '\n');
  }
  anfi_puts(p->o, "}\n");
}

static void print_ir(anf_text *o, anf_module *m, bool places, size_t most) {
  anfi_arena *scratch = anfi_scratch(m->cx);
  printer p = {.o = o,
               .cx = m->cx,
               .places = places,
               .most = most,
               .pending.arena = scratch,
               .an = anfi_analyse(m)};
  anfi_map_init(&p.types, scratch);
  anfi_strtab_init(&p.texts, scratch);
  p.names = anfi_unique_names(m, p.an, scratch);
  for (size_t i = 0; i < p.names.ngraph; i++) put_graph(&p, p.names.graphs[i]);
}

void anfi_print_ir(anf_text *o, anf_module *m) { print_ir(o, m, false, 0); }

anf_status anf_print_ir_places(anf_module *m, anf_text *out) {
  ANFI_TEXT_ENTRY(m, out);
  print_ir(out, m, true, 0);
  return anfi_leave(m->cx);
}

anf_status anfi_print_ir_brief(anf_module *m, anf_text *out) {
  ANFI_TEXT_ENTRY(m, out);
  print_ir(out, m, true, ANFI_SHOWN_ELEMENTS);
  return anfi_leave(m->cx);
}

anf_status anf_print_ir(anf_module *m, anf_text *out) {
  ANFI_TEXT_ENTRY(m, out);
  anfi_print_ir(out, m);
  return anfi_leave(m->cx);
}
