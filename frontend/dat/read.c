// SPDX-License-Identifier: Apache-2.0
/* Reads .dat: section by section, in the order in which write.c puts them; tables.c reads the tables.
 *   a 0 Mul - - 3 2 1 1   ->   node Mul of graph 0, no attributes, no type, place 3, two inputs, node 1 and node 1
 * INVARIANT: every node has all its inputs, and every graph its parameters, before anything looks at the module; then
 * the verifier decides. Linear; no recursion. */
#include "frontend/dat/dat.h"
#include "frontend/load.h"

static const uint32_t NONE = UINT32_MAX;

static bool read_place(anfi_reader *r, size_t limit, anfi_debug *d) {
  uint64_t line, col;
  uint32_t how = NONE;
  if (!anfi_scan_num(&r->s, &line) || !SPACE(r) || !anfi_scan_num(&r->s, &col)) return false;
  if (line > UINT32_MAX || col > UINT32_MAX)
    return anfi_scan_expected(&r->s, "a line and column below 2^32");
  d->line = (uint32_t)line;
  d->col = (uint32_t)col;
  if (!anfi_dat_string_ref(r, &d->file) || !anfi_dat_string_ref(r, &d->name) ||
      !anfi_dat_string_ref(r, &d->scope))
    return false;
  // an entry is derived from one that was there before
  if (!SPACE(r) || !ID(r, "place", limit ? limit : 1, &d->origin) || !SPACE(r)) return false;
  if (!OPT(r, "text", r->nstring, &how)) return false;
  if (how != NONE && how < r->nown)
    return anfi_scan_wrong(&r->s, "a word of the library among the module's strings");
  d->how = how == NONE ? NULL : r->strings[how]->s;
  return EOL(r);
}

/* Entry 0 is "nothing", which every module has. */
static bool read_places(anfi_reader *r) {
  size_t n;
  if (!anfi_scan_section(&r->s, "places", &n)) return false;
  for (size_t i = 0; i < n; i++) {
    anfi_debug d = {0};
    if (!read_place(r, i, &d)) return false;
    if (i) (void)anfi_debug_new(r->m, d);
    else if (d.line || d.col || d.file || d.name || d.scope || d.how)
      return anfi_scan_wrong(&r->s, "place 0 must say nothing");
  }
  return n || anfi_scan_wrong(&r->s, "place 0 is missing");
}

static bool read_graph(anfi_reader *r) {
  anf_module *m = r->m;
  uint32_t name, debug;
  const anf_type *t;
  uint64_t flags;
  size_t nparam;
  if (!OPT(r, "string", r->nstring, &name)) return false;
  anf_graph *g = anfi_graph_new(m, name == NONE ? NULL : r->strings[name]);
  if (name == NONE) {
    m->graphs.at[g->id] = NULL;
    return EOL(r);
  }
  if (!anfi_dat_type_ref(r, &t) || !SPACE(r) || !ID(r, "place", m->debugs.n, &debug)) return false;
  if (!SPACE(r) || !anfi_scan_num(&r->s, &flags) || !SPACE(r) ||
      !anfi_scan_count(&r->s, "parameters", &nparam))
    return false;
  if (flags > UINT32_MAX) return anfi_scan_expected(&r->s, "flags below 2^32");
  g->result_type = t;
  g->debug = debug;
  g->flags = (uint32_t)flags;
  g->params.at = ANFI_NEW_N(&m->arena, anf_node *, nparam);
  g->params.n = g->params.cap = nparam;
  return EOL(r);
}

static bool read_graphs(anfi_reader *r) {
  size_t n;
  if (!anfi_scan_section(&r->s, "graphs", &n)) return false;
  for (size_t i = 0; i < n; i++)
    if (!read_graph(r)) return false;
  return true;
}

/* ---- nodes ---- */

static bool read_owner(anfi_reader *r, anf_graph **g) {
  uint32_t id;
  if (!SPACE(r) || !ID(r, "graph", r->m->graphs.n, &id)) return false;
  *g = r->m->graphs.at[id];
  return *g || anfi_scan_none(&r->s, "graph", id);
}

/* The inputs' ids wait until all nodes exist. */
static bool read_inputs(anfi_reader *r, size_t nnode, size_t *n) {
  if (!SPACE(r) || !anfi_scan_count(&r->s, "inputs", n)) return false;
  for (size_t i = 0; i < *n; i++) {
    uint32_t id;
    if (!SPACE(r) || !ID(r, "node", nnode, &id)) return false;
    anfi_push(r->a, &r->inputs, id);
  }
  return true;
}

static bool read_common(anfi_reader *r, const anf_type **t, uint32_t *debug) {
  return anfi_dat_type_ref(r, t) && SPACE(r) && ID(r, "place", r->m->debugs.n, debug);
}

static bool set_letter(anfi_reader *r, anf_node *n, char letter) {
  const anfi_fn *f = n->u.value->kind == ANF_VALUE_FN ? anfi_value_fn(n->u.value) : NULL;
  if (letter == 'v') return true;
  if (letter == 'V') {
    if (!f || !f->graph || f->graph->self)
      return anfi_scan_wrong(&r->s, "not the one node of a graph");
    f->graph->self = n;
    return true;
  }
  if (!f || f->graph || f->ncapture || (f->nbound && letter == 'O'))
    return anfi_scan_wrong(&r->s, "not a primitive");
  n->op = f->op;
  if (letter == 'o') return true;
  if (f->attrs || r->m->op_nodes[f->op])
    return anfi_scan_wrong(&r->s, "not the one node of a primitive");
  r->m->op_nodes[f->op] = n;
  return true;
}

static bool read_value_node(anfi_reader *r, char letter) {
  anf_value *v;
  const anf_type *t;
  uint32_t debug;
  if (!anfi_dat_value_ref(r, &v) || !read_common(r, &t, &debug)) return false;
  anf_node *n = anfi_node_blank(r->m, ANFI_VALUE, NULL, 0);
  n->u.value = v;
  n->type = t;
  n->debug = debug;
  return set_letter(r, n, letter);
}

static bool read_param(anfi_reader *r) {
  anf_graph *g;
  const anf_type *t;
  uint32_t index, debug;
  if (!read_owner(r, &g) || !SPACE(r) || !ID(r, "parameter", g->params.n, &index) ||
      !read_common(r, &t, &debug))
    return false;
  if (g->params.at[index]) return anfi_scan_wrong(&r->s, "two parameters in one place");
  anf_node *n = anfi_node_blank(r->m, ANFI_PARAM, g, 0);
  n->u.index = index;
  n->type = t;
  n->debug = debug;
  g->params.at[index] = n;
  return true;
}

static bool read_cnode(anfi_reader *r, bool apply, size_t nnode) {
  anf_graph *g;
  const anf_type *t;
  uint32_t debug;
  size_t nin;
  anfi_opcode op = ANF_OP_NONE;
  const anfi_attrs *attrs = NULL;
  if (!read_owner(r, &g)) return false;
  if (apply && (!anfi_dat_op(r, &op) || !anfi_dat_attrs_ref(r, op, &attrs))) return false;
  if (!read_common(r, &t, &debug) || !read_inputs(r, nnode, &nin)) return false;
  anf_node *n = anfi_node_blank(r->m, apply ? ANFI_APPLY : ANFI_CALL, g, nin);
  n->op = (uint16_t)op;
  n->u.attrs = attrs;
  n->type = t;
  n->debug = debug;
  return true;
}

static bool read_node(anfi_reader *r, size_t nnode) {
  char c = r->s.at < r->s.end ? *r->s.at : 0;
  if (!c || !strchr("-vVoOpac", c))
    return anfi_scan_expected(&r->s, "a kind of node: - v V o O p a or c");
  r->s.at++;
  if (c == '-') {
    anfi_skip_node(r->m);
    return true;
  }
  if (c == 'p') return read_param(r);
  if (c == 'a' || c == 'c') return read_cnode(r, c == 'a', nnode);
  return read_value_node(r, c);
}

static bool link_inputs(anfi_reader *r) {
  anf_module *m = r->m;
  size_t at = 0;
  for (size_t i = 0; i < m->nodes.n; i++) {
    anf_node *n = m->nodes.at[i];
    for (uint32_t k = 0; n && k < n->nin; k++) {
      anf_node *def = m->nodes.at[r->inputs.at[at++]];
      if (!def) return anfi_scan_wrong(&r->s, "a node uses one that is not there");
      anfi_set_input(n, k, def);
    }
  }
  return true;
}

static bool all_params(anfi_reader *r) {
  for (size_t i = 0; i < r->m->graphs.n; i++) {
    const anf_graph *g = r->m->graphs.at[i];
    for (size_t k = 0; g && k < g->params.n; k++)
      if (!g->params.at[k]) return anfi_scan_wrong(&r->s, "a graph lacks a parameter");
  }
  return true;
}

static bool read_nodes(anfi_reader *r) {
  size_t n;
  if (!anfi_scan_section(&r->s, "nodes", &n)) return false;
  for (size_t i = 0; i < n; i++) {
    if (i % 65536 == 0 && !anfi_go_on(r->cx, "reading", (double)i / (double)n)) return false;
    if (!read_node(r, n) || !EOL(r)) return false;
  }
  return link_inputs(r) && all_params(r);
}

/* ---- results, effects, captures ---- */

static bool read_live(anfi_reader *r, anf_node **out) {
  uint32_t id;
  if (!ID(r, "node", r->m->nodes.n, &id)) return false;
  *out = r->m->nodes.at[id];
  return *out || anfi_scan_none(&r->s, "node", id);
}

static bool read_result(anfi_reader *r, anf_graph *g) {
  anf_node *n;
  if (!anfi_scan_skip(&r->s, '-')) {
    if (!g) return anfi_scan_wrong(&r->s, "the result of a graph that is not there");
    if (!read_live(r, &n)) return false;
    anfi_set_result(g, n);
  }
  while (anfi_scan_skip(&r->s, ' ')) {
    if (!read_live(r, &n)) return false;
    if (!g || n->graph != g || !anfi_is_cnode(n) || (n->flags & ANFI_NODE_EFFECT))
      return anfi_scan_wrong(&r->s, "an effect must be a call of the graph, once");
    anfi_add_effect(g, n);
  }
  return EOL(r);
}

static bool read_results(anfi_reader *r) {
  size_t n;
  if (!anfi_scan_section(&r->s, "results", &n)) return false;
  if (n != r->m->graphs.n)
    return anfi_scan_wrong(&r->s, "another number of results than of graphs");
  for (size_t i = 0; i < n; i++)
    if (!read_result(r, r->m->graphs.at[i])) return false;
  return true;
}

static bool check_captures(anfi_reader *r) {
  r->buf->len = 0;
  anfi_dat_put_captures(r->buf, r->m);
  size_t left = (size_t)(r->s.end - r->s.at);
  if (left != r->buf->len || memcmp(r->s.at, r->buf->text, left) != 0)
    return anfi_scan_wrong(&r->s, "the captures are not those of the graphs");
  return true;
}

/* The file as a whole is wrong where its module is. */
static bool verify(anfi_reader *r) {
  if (anfi_verify(r->m)) return true;
  r->s.at = r->s.text;
  return false;
}

static anf_module *read_dat(anf_ctx *cx, const char *text, size_t len, const char *file) {
  anfi_reader r = {.cx = cx};
  if (!anfi_scan_open(&r.s, cx, text, len, file)) return NULL;
  r.m = anfi_module_new(cx);
  r.max_parts = len;
  r.a = anfi_scratch(cx);
  r.buf = ANFI_NEW(r.a, anf_text);
  r.buf->cx = cx;
  anfi_defer(cx, ANFI_ALWAYS, anfi_free_text, r.buf);
  bool good = anfi_dat_strings(&r) && anfi_dat_types(&r) && read_places(&r) && read_graphs(&r) &&
              anfi_dat_constants(&r) && read_nodes(&r) && read_results(&r) && verify(&r) &&
              check_captures(&r);
  if (!good) anfi_scan_place_errors(&r.s);
  return good ? r.m : NULL;
}

anf_module *anfi_read_dat(anf_ctx *cx, const anfi_input *f) {
  anf_module *m = read_dat(cx, f->text, f->len, strcmp(f->path, "-") == 0 ? "<stdin>" : f->path);
  return anfi_failed(cx) ? NULL : m;
}
