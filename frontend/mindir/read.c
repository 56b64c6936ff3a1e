// SPDX-License-Identifier: Apache-2.0
/* The protobuf messages of a .mindir as structures that point into the file; field.def says which fields are read.
 *   NodeProto {input: "x", input: "y", output: "z", op_type: "REF::Add:1"}   ->   anfi_mi_node {x y, z, Add:1} */
#include "frontend/mindir/mindir.h"

enum { MAX_NESTING = 64 };

typedef struct {
  anfi_mi_model *m;
  size_t depth;
} reader;

static bool damaged(reader *r, const char *what) {
  if (anfi_failed(r->m->cx)) return false; // a field was refused
  return anfi_fail(r->m->cx, (anfi_loc){r->m->file, 0, 0}, ANF_E1160, what);
}

static const anfi_str *text_of(reader *r, const anfi_wire_field *f) {
  return anfi_intern(&r->m->cx->strings, f->data ? f->data : "", f->len);
}

static anfi_mi_fields fields_of(const reader *r, anfi_mi_message message,
                                const anfi_wire_field *whole) {
  return anfi_mi_fields_of(r->m, message, whole->data, whole->len);
}

static bool external(reader *r, const anfi_wire_field *whole, anfi_mi_tensor *t) {
  anfi_mi_fields it = fields_of(r, MI_ExternalDataProto, whole);
  anfi_wire_field f;
  while (anfi_mi_next(&it, &f)) switch (f.number) {
    case 1: t->external = text_of(r, &f); break;
    case 2: t->offset = f.u; break;
    case 3: t->length = f.u; break;
    default: break;
    }
  return !it.w.bad || damaged(r, "external data");
}

static bool is_whole(const anfi_mi_tensor *t) {
  anf_dtype d;
  return !anfi_dtype_of_file_number(t->data_type, &d) || anfi_dtype_is_int(d);
}

static anfi_mi_tensor *tensor(reader *r, const anfi_wire_field *whole) {
  anfi_mi_tensor *t = ANFI_NEW(r->m->arena, anfi_mi_tensor);
  *t = (anfi_mi_tensor){.name = anfi_intern_z(&r->m->cx->strings, "")};
  anfi_mi_fields it = fields_of(r, MI_TensorProto, whole);
  anfi_wire_field f;
  bool good = true;
  while (good && anfi_mi_next(&it, &f)) {
    switch (f.number) {
    case 1: good = anfi_wire_add_ints(&f, r->m->arena, &t->dims); break;
    case 2: t->data_type = (int64_t)f.u; break;
    case 3: good = anfi_wire_add_reals(&f, ANFI_WIRE_32, r->m->arena, &t->reals); break;
    case 4:
    case 6:
    case 11: good = anfi_wire_add_ints(&f, r->m->arena, &t->ints); break;
    case 7: t->name = text_of(r, &f); break;
    case 9: t->raw = f.data ? f.data : "", t->raw_len = f.len; break;
    case 10: good = anfi_wire_add_reals(&f, ANFI_WIRE_64, r->m->arena, &t->reals); break;
    case 12: good = external(r, &f, t); break;
    case 16: t->compressed = (int64_t)f.u; break;
    case 17: t->quantised = true; break;
    default: break;
    }
  }
  if (t->quantised && !is_whole(t)) anfi_mi_pass(&it, 17); // refused of integers: value.c
  return good && !it.w.bad ? t : (damaged(r, "a tensor"), NULL);
}

static anfi_mi_attr *attribute(reader *r, const anfi_wire_field *whole);

static bool nested(reader *r, const anfi_wire_field *f, anfi_mi_attr *a) {
  anfi_mi_attr *v = attribute(r, f);
  if (v) anfi_push(r->m->arena, &a->values, v);
  return v != NULL;
}

static bool sequence_info(reader *r, const anfi_wire_field *whole, anfi_mi_attr *a) {
  anfi_mi_fields it = fields_of(r, MI_SeqInfoProto, whole);
  anfi_wire_field f;
  while (anfi_mi_next(&it, &f))
    if (f.number == 1) a->any_length = f.u != 0;
  return !it.w.bad || damaged(r, "an attribute");
}

static bool attribute_field(reader *r, const anfi_wire_field *f, anfi_mi_attr *a) {
  anfi_mi_tensor *t;
  switch (f->number) {
  case 1: a->name = text_of(r, f); return true;
  case 2: a->f = (double)anfi_wire_float(f->u), a->has_real = true; return true;
  case 3: a->i = (int64_t)f->u, a->has_int = true; return true;
  case 4: a->f = anfi_wire_double(f->u), a->has_real = true; return true;
  case 5: a->text = text_of(r, f); return true;
  case 8: return anfi_wire_add_reals(f, ANFI_WIRE_32, r->m->arena, &a->reals);
  case 9: return anfi_wire_add_reals(f, ANFI_WIRE_64, r->m->arena, &a->reals);
  case 10: return anfi_wire_add_ints(f, r->m->arena, &a->ints);
  case 11: anfi_push(r->m->arena, &a->strings, text_of(r, f)); return true;
  case 6:
  case 12:
    if (!(t = tensor(r, f))) return false;
    anfi_push(r->m->arena, &a->tensors, t);
    return true;
  case 14: a->doc = text_of(r, f); return true;
  case 15: a->form = text_of(r, f); return true;
  case 16: a->type = (int64_t)f->u; return true;
  case 17: return nested(r, f, a);
  case 18: return sequence_info(r, f, a);
  default: return true;
  }
}

/* Recursion is over the nesting of tuples of constants and types, which is bounded here. */
static anfi_mi_attr *attribute(reader *r, const anfi_wire_field *whole) {
  anfi_mi_attr *a = ANFI_NEW(r->m->arena, anfi_mi_attr);
  *a = (anfi_mi_attr){.name = anfi_intern_z(&r->m->cx->strings, "")};
  anfi_mi_fields it = fields_of(r, MI_AttributeProto, whole);
  anfi_wire_field f;
  bool good = ++r->depth < MAX_NESTING;
  while (good && anfi_mi_next(&it, &f)) good = attribute_field(r, &f, a);
  r->depth--;
  if (!good || it.w.bad) return (void)damaged(r, "an attribute"), NULL;
  return !a->form || anfi_mi_unfold(r->m, a, a->form) ? a : NULL;
}

static bool add_attribute(reader *r, const anfi_wire_field *f, anfi_mi_attrs *to) {
  anfi_mi_attr *a = attribute(r, f);
  if (a) anfi_push(r->m->arena, to, a);
  return a != NULL;
}

/* The type of a node's result. Most nodes have one of a few types, so equal bytes are read once. */
static bool stated(reader *r, const anfi_wire_field *f, anfi_mi_node *n) {
  const anfi_str *bytes = anfi_intern(&r->m->stated, f->data, f->len);
  if (bytes->id == r->m->types.n) {
    anfi_mi_attr *a = attribute(r, f);
    if (!a) return false;
    anfi_push(r->m->arena, &r->m->types, a);
  }
  n->stated = r->m->types.at[bytes->id];
  return true;
}

static bool node_attribute(reader *r, const anfi_wire_field *f, anfi_mi_node *n) {
  static const char shape[] = "\x0a\x05shape"; // begins with its name
  if (f->len >= sizeof shape - 1 && memcmp(f->data, shape, sizeof shape - 1) == 0)
    return stated(r, f, n);
  if (!add_attribute(r, f, &n->attrs)) return false;
  anfi_mi_attr *a = n->attrs.at[n->attrs.n - 1];
  if (strcmp(a->name->s, "shape") == 0) n->stated = a, n->attrs.n--;
  return true;
}

static bool ends_with(const anfi_wire_field *f, const char *word) {
  size_t n = strlen(word);
  return f->len >= n && memcmp(f->data + f->len - n, word, n) == 0;
}

static bool skip_word(const char **p, size_t *n, const char *word) {
  size_t len = strlen(word);
  if (*n < len || memcmp(*p, word, len) != 0) return false;
  *p += len, *n -= len;
  return true;
}

/* Our writer's doc_string "int" or "float": a number without an element type. */
static const anf_type *number_of(reader *r, const anfi_wire_field *f) {
  bool is_int = ends_with(f, "int"), is_float = ends_with(f, "float");
  return is_int || is_float ? anfi_type_scalar(r->m->cx, is_int ? ANF_INT : ANF_FLOAT) : NULL;
}

/* ---- nodes ---- */

typedef struct {
  anfi_mi_node *to;
  anfi_wire_field op;
  ANFI_VEC(anfi_wire_field) attrs; // as they are in the file
} node_parts;

static bool node_field(reader *r, const anfi_wire_field *f, node_parts *parts) {
  anfi_mi_node *n = parts->to;
  switch (f->number) {
  case 1: anfi_push(r->m->arena, &n->in, text_of(r, f)); return true;
  case 2:
    if (!n->name->len) n->name = text_of(r, f);
    return true;
  case 4: parts->op = *f; return true;
  case 5: anfi_push(r->m->arena, &parts->attrs, *f); return node_attribute(r, f, n);
  case 6:
    n->effect = f->len >= 6 && memcmp(f->data, "effect", 6) == 0;
    n->number = number_of(r, f);
    return true;
  case 7: n->domain = text_of(r, f); return true;
  default: return true;
  }
}

/* A node of an old file has its primitive in itself: its name, and the attributes but for the type of the result. Nodes
 * with equal ones share it. */
static const anfi_str *own_primitive(reader *r, const char *op, size_t len,
                                     const node_parts *parts) {
  anfi_mi_model *m = r->m;
  anf_text key = {0};
  anfi_text_of(&key, m->cx);
  anfi_put(&key, op, len);
  for (size_t i = 0; i < parts->attrs.n; i++)
    anfi_put(&key, parts->attrs.at[i].data, parts->attrs.at[i].len);
  const anfi_str *form = anfi_intern(&m->forms, key.text, key.len);
  anf_text_free(&key);
  const char *name = anfi_sprintf(m->arena, "%.*s of node form %u", (int)len, op, form->id);
  const anfi_str *s = anfi_intern_z(&m->cx->strings, name);
  if (form->id == m->nform) {
    anfi_mi_prim *p = ANFI_NEW(m->arena, anfi_mi_prim);
    *p = (anfi_mi_prim){.name = s, .op = anfi_intern(&m->cx->strings, op, len)};
    p->attrs = parts->to->attrs;
    anfi_push(m->arena, &m->prims, p);
    m->nform++;
  }
  return s;
}

/* The primitive or function that a node names: REF::Add:11. */
static const anfi_str *target_of(reader *r, const node_parts *parts) {
  const char *op = parts->op.data ? parts->op.data : "";
  size_t len = parts->op.len;
  bool constant = len == 8 && memcmp(op, "Constant", 8) == 0;
  if (constant || !len || skip_word(&op, &len, "REF::"))
    return anfi_intern(&r->m->cx->strings, op, len);
  (void)skip_word(&op, &len, "S-Prim-"); // types of operands are made equal first, as ours do
  return own_primitive(r, op, len, parts);
}

static bool node(reader *r, const anfi_wire_field *whole, anfi_mi_graph *g) {
  anfi_mi_node *n = ANFI_NEW(r->m->arena, anfi_mi_node);
  const anfi_str *none = anfi_intern_z(&r->m->cx->strings, "");
  *n = (anfi_mi_node){.name = none, .op = none, .domain = none};
  node_parts parts = {.to = n};
  anfi_mi_fields it = fields_of(r, MI_NodeProto, whole);
  anfi_wire_field f;
  bool good = true;
  while (good && anfi_mi_next(&it, &f)) good = node_field(r, &f, &parts);
  if (!good || it.w.bad) return damaged(r, "a node");
  n->op = target_of(r, &parts);
  anfi_push(r->m->arena, &g->nodes, n);
  return true;
}

static bool value_info(reader *r, const anfi_wire_field *whole, anfi_mi_input *in) {
  const anfi_str *none = anfi_intern_z(&r->m->cx->strings, "");
  *in = (anfi_mi_input){.name = none, .denotation = none};
  anfi_mi_fields it = fields_of(r, MI_ValueInfoProto, whole);
  anfi_wire_field f;
  while (anfi_mi_next(&it, &f)) switch (f.number) {
    case 1: in->name = text_of(r, &f); break;
    case 2:
      if (in->tensor) return damaged(r, "an input of several tensors");
      if (!(in->tensor = tensor(r, &f))) return false;
      break;
    case 3: in->number = number_of(r, &f); break;
    case 4: in->denotation = text_of(r, &f); break;
    case 5:
      if (!(in->abstract = attribute(r, &f))) return false;
      break;
    default: break;
    }
  return !it.w.bad || damaged(r, "an input");
}

static bool map_parameter(reader *r, const anfi_wire_field *whole, anfi_mi_graph *g) {
  const anfi_str *name = anfi_intern_z(&r->m->cx->strings, "");
  anfi_mi_fields it = fields_of(r, MI_MapTensorProto, whole);
  anfi_wire_field f;
  while (anfi_mi_next(&it, &f))
    if (f.number == 1) name = text_of(r, &f);
  anfi_push(r->m->arena, &g->maps, name);
  return !it.w.bad || damaged(r, "a map parameter");
}

static bool graph_field(reader *r, const anfi_wire_field *f, anfi_mi_graph *g) {
  anfi_mi_tensor *t;
  anfi_mi_input in;
  switch (f->number) {
  case 1: return node(r, f, g);
  case 2: g->name = text_of(r, f); return true;
  case 3:
    if ((t = tensor(r, f))) anfi_push(r->m->arena, &g->params, t);
    return t != NULL;
  case 5:
  case 6:
    if (!value_info(r, f, &in)) return false;
    if (f->number == 5) anfi_push(r->m->arena, &g->in, in);
    else anfi_push(r->m->arena, &g->out, in);
    return true;
  case 10: return map_parameter(r, f, g);
  default: return true;
  }
}

static anfi_mi_graph *graph(reader *r, const anfi_wire_field *whole) {
  anfi_mi_graph *g = ANFI_NEW(r->m->arena, anfi_mi_graph);
  *g = (anfi_mi_graph){.name = anfi_intern_z(&r->m->cx->strings, "")};
  anfi_mi_fields it = fields_of(r, MI_GraphProto, whole);
  anfi_wire_field f;
  bool good = true;
  while (good && anfi_mi_next(&it, &f)) good = graph_field(r, &f, g);
  return good && !it.w.bad ? g : (damaged(r, "a graph"), NULL);
}

static bool primitive(reader *r, const anfi_wire_field *whole) {
  anfi_mi_prim *p = ANFI_NEW(r->m->arena, anfi_mi_prim);
  const anfi_str *none = anfi_intern_z(&r->m->cx->strings, "");
  *p = (anfi_mi_prim){.name = none, .op = none};
  anfi_mi_fields it = fields_of(r, MI_PrimitiveProto, whole);
  anfi_wire_field f;
  while (anfi_mi_next(&it, &f)) switch (f.number) {
    case 1: p->name = text_of(r, &f); break;
    case 2: p->op = text_of(r, &f); break;
    case 3:
      if (!add_attribute(r, &f, &p->attrs)) return false;
      break;
    default: break;
    }
  anfi_push(r->m->arena, &r->m->prims, p);
  return !it.w.bad || damaged(r, "a primitive");
}

static bool model_field(reader *r, const anfi_wire_field *f) {
  anfi_mi_model *m = r->m;
  anfi_mi_graph *g;
  switch (f->number) {
  case 2: m->producer = text_of(r, f); return true;
  case 7: return (m->main = graph(r, f)) != NULL;
  case 8:
    if ((g = graph(r, f))) anfi_push(m->arena, &m->functions, g);
    return g != NULL;
  case 10: m->big_endian = f->u == 0; return true;
  case 12: return primitive(r, f);
  case 13: m->version = (int64_t)f->u; return true;
  default: return true;
  }
}

bool anfi_mi_read(anfi_mi_model *m, const char *data, size_t len) {
  reader r = {.m = m};
  anfi_strtab_init(&m->stated, m->arena);
  anfi_strtab_init(&m->forms, m->arena);
  anfi_mi_fields it = anfi_mi_fields_of(m, MI_ModelProto, data, len);
  anfi_wire_field f;
  bool good = true;
  while (good && anfi_mi_next(&it, &f)) good = model_field(&r, &f);
  if (!good) return false;
  if (it.w.bad) return damaged(&r, "the model");
  return m->main || damaged(&r, "the model's graph");
}

bool anfi_mi_read_variables(anfi_mi_model *m, const char *data, size_t len) {
  reader r = {.m = m};
  const anfi_mi_graph *g = graph(&r, &(anfi_wire_field){.data = data, .len = len});
  for (size_t i = 0; g && i < g->params.n; i++) {
    g->params.at[i]->apart = true;
    anfi_push(m->arena, &m->main->params, g->params.at[i]);
  }
  return g != NULL;
}
