// SPDX-License-Identifier: Apache-2.0
/* The protobuf messages of an ONNX file as structures that point into it.
 *   NodeProto {input: "x", output: "y", op_type: "Relu"}   ->   anfi_ox_node {in x, out y, op Relu}
 * A field that is not known is skipped. */
#include "frontend/onnx/onnx.h"

enum { MAX_NESTING = 64 };

typedef struct {
  anfi_ox_model *m;
  size_t depth;
} reader;

static bool damaged(reader *r, const char *what) {
  return anfi_fail(r->m->cx, (anfi_loc){r->m->file, 0, 0}, ANF_E1170, what);
}

static const anfi_str *empty(reader *r) { return anfi_intern_z(&r->m->cx->strings, ""); }

static const anfi_str *text_of(reader *r, const anfi_wire_field *f) {
  return anfi_intern(&r->m->cx->strings, f->data ? f->data : "", f->len);
}

/* ---- tensors ---- */

/* StringStringEntryProto */
static bool external(reader *r, const anfi_wire_field *whole, anfi_ox_tensor *t) {
  anfi_wire w = anfi_wire_of(whole->data, whole->len);
  anfi_wire_field f;
  const anfi_str *key = empty(r), *value = key;
  while (anfi_wire_next(&w, &f)) {
    if (f.number == 1) key = text_of(r, &f);
    if (f.number == 2) value = text_of(r, &f);
  }
  if (strcmp(key->s, "location") == 0) t->external = value;
  if (strcmp(key->s, "offset") == 0) t->offset = value;
  if (strcmp(key->s, "length") == 0) t->length = value;
  return !w.bad || damaged(r, "external data");
}

static bool tensor_field(reader *r, const anfi_wire_field *f, anfi_ox_tensor *t) {
  switch (f->number) {
  case 1: return anfi_wire_add_ints(f, r->m->arena, &t->dims);
  case 2: t->data_type = (int64_t)f->u; return true;
  case 4: return anfi_wire_add_reals(f, ANFI_WIRE_32, r->m->arena, &t->reals);
  case 10: return anfi_wire_add_reals(f, ANFI_WIRE_64, r->m->arena, &t->reals);
  case 5:
  case 7:
  case 11: return anfi_wire_add_ints(f, r->m->arena, &t->ints);
  case 8: t->name = text_of(r, f); return true;
  case 9: t->raw = f->data ? f->data : "", t->raw_len = f->len; return true;
  case 13: return external(r, f, t);
  default: return true;
  }
}

static anfi_ox_tensor *tensor(reader *r, const anfi_wire_field *whole) {
  anfi_ox_tensor *t = ANFI_NEW(r->m->arena, anfi_ox_tensor);
  t->name = empty(r);
  anfi_wire w = anfi_wire_of(whole->data, whole->len);
  anfi_wire_field f;
  bool good = true;
  while (good && anfi_wire_next(&w, &f)) good = tensor_field(r, &f, t);
  return good && !w.bad ? t : (damaged(r, "a tensor"), NULL);
}

/* ---- attributes and nodes ---- */

static anfi_ox_graph *graph(reader *r, const anfi_wire_field *whole);

static bool attribute_field(reader *r, const anfi_wire_field *f, anfi_ox_attr *a) {
  switch (f->number) {
  case 1: a->name = text_of(r, f); return true;
  case 2: a->f = (double)anfi_wire_float(f->u); return true;
  case 3: a->i = (int64_t)f->u; return true;
  case 4: a->text = text_of(r, f); return true;
  case 5: return (a->tensor = tensor(r, f)) != NULL;
  case 6: return (a->graph = graph(r, f)) != NULL;
  case 7: return anfi_wire_add_reals(f, ANFI_WIRE_32, r->m->arena, &a->reals);
  case 8: return anfi_wire_add_ints(f, r->m->arena, &a->ints);
  case 9: anfi_push(r->m->arena, &a->strings, text_of(r, f)); return true;
  case 20: a->kind = (int64_t)f->u; return true;
  case 21: a->ref = f->len ? text_of(r, f) : NULL; return true;
  default: return true;
  }
}

static bool attribute(reader *r, const anfi_wire_field *whole, anfi_ox_attrs *to) {
  anfi_ox_attr *a = ANFI_NEW(r->m->arena, anfi_ox_attr);
  a->name = a->text = empty(r);
  anfi_wire w = anfi_wire_of(whole->data, whole->len);
  anfi_wire_field f;
  bool good = true;
  while (good && anfi_wire_next(&w, &f)) good = attribute_field(r, &f, a);
  anfi_push(r->m->arena, to, a);
  return (good && !w.bad) || damaged(r, "an attribute");
}

static bool node(reader *r, const anfi_wire_field *whole, anfi_ox_nodes *to) {
  anfi_ox_node *n = ANFI_NEW(r->m->arena, anfi_ox_node);
  n->name = n->op = n->domain = n->overload = empty(r);
  anfi_wire w = anfi_wire_of(whole->data, whole->len);
  anfi_wire_field f;
  bool good = true;
  while (good && anfi_wire_next(&w, &f)) switch (f.number) {
    case 1: anfi_push(r->m->arena, &n->in, text_of(r, &f)); break;
    case 2: anfi_push(r->m->arena, &n->out, text_of(r, &f)); break;
    case 3: n->name = text_of(r, &f); break;
    case 4: n->op = text_of(r, &f); break;
    case 5: good = attribute(r, &f, &n->attrs); break;
    case 7: n->domain = text_of(r, &f); break;
    case 8: n->overload = text_of(r, &f); break;
    default: break;
    }
  anfi_push(r->m->arena, to, n);
  return (good && !w.bad) || damaged(r, "a node");
}

/* ---- types ---- */

/* The one message that a message holds in field `number`, or one without data. */
static bool inside(reader *r, const anfi_wire_field *whole, uint32_t number, anfi_wire_field *out) {
  anfi_wire w = anfi_wire_of(whole->data, whole->len);
  anfi_wire_field f;
  *out = (anfi_wire_field){0};
  while (anfi_wire_next(&w, &f))
    if (f.number == number) *out = f;
  return !w.bad || damaged(r, "a type");
}

static bool dimension(reader *r, const anfi_wire_field *whole, anfi_ox_value *v) {
  anfi_ox_dim d = {.size = -1};
  anfi_wire w = anfi_wire_of(whole->data, whole->len);
  anfi_wire_field f;
  while (anfi_wire_next(&w, &f)) {
    if (f.number == 1) d = (anfi_ox_dim){.size = (int64_t)f.u};
    if (f.number == 2) d = (anfi_ox_dim){.size = -1, .symbol = f.len ? text_of(r, &f) : NULL};
  }
  anfi_push(r->m->arena, &v->dims, d);
  return !w.bad || damaged(r, "a dim");
}

static bool shape(reader *r, const anfi_wire_field *whole, anfi_ox_value *v) {
  anfi_wire w = anfi_wire_of(whole->data, whole->len);
  anfi_wire_field f;
  bool good = v->ranked = true;
  while (good && anfi_wire_next(&w, &f))
    if (f.number == 1) good = dimension(r, &f, v);
  return (good && !w.bad) || damaged(r, "a shape");
}

static bool tensor_type(reader *r, const anfi_wire_field *whole, anfi_ox_value *v) {
  anfi_wire w = anfi_wire_of(whole->data, whole->len);
  anfi_wire_field f;
  bool good = true;
  while (good && anfi_wire_next(&w, &f)) {
    if (f.number == 1) v->elem_type = (int64_t)f.u;
    if (f.number == 2) good = shape(r, &f, v);
  }
  return (good && !w.bad) || damaged(r, "a type");
}

static bool type_proto(reader *r, const anfi_wire_field *whole, anfi_ox_value *v) {
  anfi_wire w = anfi_wire_of(whole->data, whole->len);
  anfi_wire_field f;
  bool good = true;
  while (good && anfi_wire_next(&w, &f)) switch (f.number) {
    case 1: good = tensor_type(r, &f, v); break;
    case 4: v->other = "a sequence"; break;
    case 5: v->other = "a map"; break;
    case 8: v->other = "a sparse tensor"; break;
    case 9: v->other = "an optional"; break;
    default: break;
    }
  return (good && !w.bad) || damaged(r, "a type");
}

static bool value_info(reader *r, const anfi_wire_field *whole, anfi_ox_values *to) {
  anfi_ox_value v = {.name = empty(r)};
  anfi_wire w = anfi_wire_of(whole->data, whole->len);
  anfi_wire_field f;
  bool good = true;
  while (good && anfi_wire_next(&w, &f)) {
    if (f.number == 1) v.name = text_of(r, &f);
    if (f.number == 2) good = type_proto(r, &f, &v);
  }
  anfi_push(r->m->arena, to, v);
  return (good && !w.bad) || damaged(r, "a value");
}

/* ---- graphs ---- */

/* SparseTensorProto: its values have the name. */
static bool sparse(reader *r, const anfi_wire_field *whole, anfi_ox_graph *g) {
  anfi_wire_field values;
  if (!inside(r, whole, 1, &values)) return false;
  anfi_ox_tensor *t = tensor(r, &values);
  if (!t) return false;
  t->sparse = true;
  anfi_push(r->m->arena, &g->inits, t);
  return true;
}

static bool graph_field(reader *r, const anfi_wire_field *f, anfi_ox_graph *g) {
  anfi_ox_tensor *t;
  switch (f->number) {
  case 1: return node(r, f, &g->nodes);
  case 2: g->name = text_of(r, f); return true;
  case 5:
    if ((t = tensor(r, f))) anfi_push(r->m->arena, &g->inits, t);
    return t != NULL;
  case 11: return value_info(r, f, &g->in);
  case 12: return value_info(r, f, &g->out);
  case 13: return value_info(r, f, &g->info);
  case 15: return sparse(r, f, g);
  default: return true;
  }
}

/* Recursion is over subgraphs in attributes, which is bounded here. */
static anfi_ox_graph *graph(reader *r, const anfi_wire_field *whole) {
  anfi_ox_graph *g = ANFI_NEW(r->m->arena, anfi_ox_graph);
  g->name = empty(r);
  anfi_wire w = anfi_wire_of(whole->data, whole->len);
  anfi_wire_field f;
  bool good = ++r->depth < MAX_NESTING;
  while (good && anfi_wire_next(&w, &f)) good = graph_field(r, &f, g);
  r->depth--;
  return good && !w.bad ? g : (damaged(r, "a graph"), NULL);
}

static bool opset(reader *r, const anfi_wire_field *whole, anfi_ox_opsets *to) {
  anfi_ox_opset o = {.domain = empty(r)};
  anfi_wire w = anfi_wire_of(whole->data, whole->len);
  anfi_wire_field f;
  while (anfi_wire_next(&w, &f)) {
    if (f.number == 1) o.domain = text_of(r, &f);
    if (f.number == 2) o.version = (int64_t)f.u;
  }
  anfi_push(r->m->arena, to, o);
  return !w.bad || damaged(r, "an opset");
}

static bool function_field(reader *r, const anfi_wire_field *f, anfi_ox_function *g) {
  switch (f->number) {
  case 1: g->name = text_of(r, f); return true;
  case 4: anfi_push(r->m->arena, &g->in, text_of(r, f)); return true;
  case 5: anfi_push(r->m->arena, &g->out, text_of(r, f)); return true;
  case 7: return node(r, f, &g->nodes);
  case 9: return opset(r, f, &g->opsets);
  case 10: g->domain = text_of(r, f); return true;
  case 11: return attribute(r, f, &g->defaults);
  case 13: g->overload = text_of(r, f); return true;
  default: return true;
  }
}

static bool function(reader *r, const anfi_wire_field *whole) {
  anfi_ox_function *g = ANFI_NEW(r->m->arena, anfi_ox_function);
  g->name = g->domain = g->overload = empty(r);
  anfi_wire w = anfi_wire_of(whole->data, whole->len);
  anfi_wire_field f;
  bool good = true;
  while (good && anfi_wire_next(&w, &f)) good = function_field(r, &f, g);
  anfi_push(r->m->arena, &r->m->functions, g);
  return (good && !w.bad) || damaged(r, "a function");
}

static bool model_field(reader *r, const anfi_wire_field *f) {
  switch (f->number) {
  case 1: r->m->ir_version = (int64_t)f->u; return true;
  case 7: return (r->m->graph = graph(r, f)) != NULL;
  case 8: return opset(r, f, &r->m->opsets);
  case 25: return function(r, f);
  default: return true;
  }
}

bool anfi_ox_read(anfi_ox_model *m, const char *data, size_t len) {
  reader r = {.m = m};
  anfi_wire w = anfi_wire_of(data, len);
  anfi_wire_field f;
  bool good = true;
  while (good && anfi_wire_next(&w, &f)) good = model_field(&r, &f);
  if (!good) return false;
  if (w.bad) return damaged(&r, "the model");
  return m->graph || damaged(&r, "the model's graph");
}

/* ---- order ---- */

/* ONNX wants each node after those whose outputs it reads, but converters that add nodes at the end (to f16, with casts of
 * the inputs) write others, which ONNX Runtime sorts:
 *   y = Relu(c); c = Cast(x)  becomes  c = Cast(x); y = Relu(c)
 * Nodes stay in the order of the file wherever they can. */

typedef struct {
  size_t node, next; // next: the first name of its reads that was not followed
} visit;
typedef struct {
  anfi_arena *a;
  const anfi_ox_nodes *all;
  anfi_map maker;       // name -> the node that gives it, counted from 1
  anfi_ox_names *reads; // of each node
  bool *seen;
  anfi_ox_nodes sorted;
  ANFI_VEC(visit) open; // each is read by the one before it
} sorting;

static void add_subgraph(anfi_arena *a, const anfi_ox_graph *g, anfi_ox_nodes *todo,
                         anfi_ox_names *read, anfi_map *inside) {
  for (size_t i = 0; i < g->nodes.n; i++) anfi_push(a, todo, g->nodes.at[i]);
  for (size_t i = 0; i < g->out.n; i++) anfi_push(a, read, g->out.at[i].name);
  for (size_t i = 0; i < g->in.n; i++) *anfi_map_at(inside, anfi_key(g->in.at[i].name)) = 1;
  for (size_t i = 0; i < g->inits.n; i++) *anfi_map_at(inside, anfi_key(g->inits.at[i]->name)) = 1;
}

/* What the node reads, and what its subgraphs read and have not themselves: a later node may use a name of theirs again. */
static anfi_ox_names names_read(anfi_arena *a, anfi_ox_node *node) {
  anfi_ox_nodes todo = {0};
  anfi_ox_names read = {0};
  anfi_map inside;
  anfi_map_init(&inside, a);
  anfi_push(a, &todo, node);
  for (size_t i = 0; i < todo.n; i++) {
    const anfi_ox_node *n = todo.at[i];
    for (size_t k = 0; k < n->in.n; k++) anfi_push(a, &read, n->in.at[k]);
    for (size_t k = 0; i && k < n->out.n; k++) *anfi_map_at(&inside, anfi_key(n->out.at[k])) = 1;
    for (size_t k = 0; k < n->attrs.n; k++)
      if (n->attrs.at[k]->graph) add_subgraph(a, n->attrs.at[k]->graph, &todo, &read, &inside);
  }
  size_t kept = node->in.n;
  for (size_t k = kept; k < read.n; k++)
    if (!anfi_map_find(&inside, anfi_key(read.at[k]))) read.at[kept++] = read.at[k];
  read.n = kept;
  return read;
}

static bool is_sorted(const sorting *s) {
  for (size_t i = 0; i < s->all->n; i++)
    for (size_t k = 0; k < s->reads[i].n; k++) {
      const uint64_t *by = anfi_map_find(&s->maker, anfi_key(s->reads[i].at[k]));
      if (by && *by > i) return false;
    }
  return true;
}

static void open_node(sorting *s, size_t node) {
  if (s->seen[node]) return;
  s->seen[node] = true;
  anfi_push(s->a, &s->open, ((visit){node, 0}));
}

static void add_with_makers(sorting *s, size_t node) {
  open_node(s, node);
  while (s->open.n) {
    visit *v = &s->open.at[s->open.n - 1];
    const anfi_ox_names *reads = &s->reads[v->node];
    if (v->next == reads->n) {
      anfi_push(s->a, &s->sorted, s->all->at[v->node]);
      s->open.n--;
      continue;
    }
    const uint64_t *by = anfi_map_find(&s->maker, anfi_key(reads->at[v->next++]));
    if (by) open_node(s, (size_t)*by - 1);
  }
}

anfi_ox_nodes anfi_ox_sorted(anfi_arena *a, const anfi_ox_nodes *all) {
  sorting s = {.a = a, .all = all, .reads = ANFI_NEW_N(a, anfi_ox_names, all->n + 1)};
  anfi_map_init(&s.maker, a);
  for (size_t i = 0; i < all->n; i++) {
    anfi_ox_node *n = all->at[i];
    s.reads[i] = names_read(a, n);
    for (size_t k = 0; k < n->out.n; k++)
      if (n->out.at[k]->len) *anfi_map_at(&s.maker, anfi_key(n->out.at[k])) = i + 1;
  }
  if (is_sorted(&s)) return *all;
  s.seen = ANFI_NEW_N(a, bool, all->n);
  for (size_t i = 0; i < all->n; i++) add_with_makers(&s, i);
  return s.sorted;
}
