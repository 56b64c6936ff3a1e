// SPDX-License-Identifier: Apache-2.0
/* The protobuf messages of a .mindir as structures that point into the file. A message that is not known is skipped:
 * it is no part of what a program means; what is, and cannot be taken, is an error where it is used. */
#include "frontend/mindir/mindir.h"

enum { MAX_NESTING = 64 };

typedef struct {
  anfi_mi_model *m;
  size_t depth;
} reader;

static bool damaged(reader *r, const char *what) {
  return anfi_fail(r->m->cx, (anfi_loc){r->m->file, 0, 0}, ANF_E1160, what);
}

static const anfi_str *text_of(reader *r, const anfi_wire_field *f) {
  return anfi_intern(&r->m->cx->strings, f->data ? f->data : "", f->len);
}

static bool external(reader *r, const anfi_wire_field *whole, anfi_mi_tensor *t) {
  anfi_wire w = anfi_wire_of(whole->data, whole->len);
  anfi_wire_field f;
  while (anfi_wire_next(&w, &f)) switch (f.number) {
    case 1: t->external = text_of(r, &f); break;
    case 2: t->offset = f.u; break;
    case 3: t->length = f.u; break;
    default: break;
    }
  return !w.bad || damaged(r, "external data");
}

static anfi_mi_tensor *tensor(reader *r, const anfi_wire_field *whole) {
  anfi_mi_tensor *t = ANFI_NEW(r->m->arena, anfi_mi_tensor);
  *t = (anfi_mi_tensor){.name = anfi_intern_z(&r->m->cx->strings, "")};
  anfi_wire w = anfi_wire_of(whole->data, whole->len);
  anfi_wire_field f;
  bool good = true;
  while (good && anfi_wire_next(&w, &f)) {
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
  return good && !w.bad ? t : (damaged(r, "a tensor"), NULL);
}

static anfi_mi_attr *attribute(reader *r, const anfi_wire_field *whole);

static bool nested(reader *r, const anfi_wire_field *f, anfi_mi_attr *a) {
  anfi_mi_attr *v = attribute(r, f);
  if (v) anfi_push(r->m->arena, &a->values, v);
  return v != NULL;
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
  case 16: a->type = (int64_t)f->u; return true;
  case 17: return nested(r, f, a);
  default: return true;
  }
}

/* Recursion is over the nesting of tuples of constants and types, which is bounded here. */
static anfi_mi_attr *attribute(reader *r, const anfi_wire_field *whole) {
  anfi_mi_attr *a = ANFI_NEW(r->m->arena, anfi_mi_attr);
  *a = (anfi_mi_attr){.name = anfi_intern_z(&r->m->cx->strings, "")};
  anfi_wire w = anfi_wire_of(whole->data, whole->len);
  anfi_wire_field f;
  bool good = ++r->depth < MAX_NESTING;
  while (good && anfi_wire_next(&w, &f)) good = attribute_field(r, &f, a);
  r->depth--;
  return good && !w.bad ? a : (damaged(r, "an attribute"), NULL);
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
  if (strcmp(a->name->s, "shape") == 0) n->stated = a;
  return true;
}

static bool ends_with(const anfi_wire_field *f, const char *word) {
  size_t n = strlen(word);
  return f->len >= n && memcmp(f->data + f->len - n, word, n) == 0;
}

/* The primitive or function that a node names: REF::Add:11. */
static const anfi_str *target_of(reader *r, const anfi_wire_field *f) {
  static const char ref[] = "REF::";
  size_t skip =
      f->len >= sizeof ref - 1 && memcmp(f->data, ref, sizeof ref - 1) == 0 ? sizeof ref - 1 : 0;
  return anfi_intern(&r->m->cx->strings, f->data ? f->data + skip : "", f->len - skip);
}

/* What our writer says in a doc_string: int or float, a number without an element type. */
static const anf_type *number_of(reader *r, const anfi_wire_field *f) {
  bool is_int = ends_with(f, "int"), is_float = ends_with(f, "float");
  return is_int || is_float ? anfi_type_scalar(r->m->cx, is_int ? ANF_INT : ANF_FLOAT) : NULL;
}

static bool node(reader *r, const anfi_wire_field *whole, anfi_mi_graph *g) {
  anfi_mi_node *n = ANFI_NEW(r->m->arena, anfi_mi_node);
  const anfi_str *none = anfi_intern_z(&r->m->cx->strings, "");
  *n = (anfi_mi_node){.name = none, .op = none, .domain = none};
  anfi_wire w = anfi_wire_of(whole->data, whole->len);
  anfi_wire_field f;
  while (anfi_wire_next(&w, &f)) switch (f.number) {
    case 1: anfi_push(r->m->arena, &n->in, text_of(r, &f)); break;
    case 2: n->name = text_of(r, &f); break; // the output; `name` repeats it
    case 4: n->op = target_of(r, &f); break;
    case 5:
      if (!node_attribute(r, &f, n)) return false;
      break;
    case 6:
      n->effect = f.len >= 6 && memcmp(f.data, "effect", 6) == 0;
      n->number = number_of(r, &f);
      break;
    case 7: n->domain = text_of(r, &f); break;
    default: break;
    }
  anfi_push(r->m->arena, &g->nodes, n);
  return !w.bad || damaged(r, "a node");
}

static bool value_info(reader *r, const anfi_wire_field *whole, anfi_mi_input *in) {
  const anfi_str *none = anfi_intern_z(&r->m->cx->strings, "");
  *in = (anfi_mi_input){.name = none, .denotation = none};
  anfi_wire w = anfi_wire_of(whole->data, whole->len);
  anfi_wire_field f;
  while (anfi_wire_next(&w, &f)) switch (f.number) {
    case 1: in->name = text_of(r, &f); break;
    case 2:
      if (!(in->tensor = tensor(r, &f))) return false;
      break;
    case 3: in->number = number_of(r, &f); break;
    case 4: in->denotation = text_of(r, &f); break;
    case 5:
      if (!(in->abstract = attribute(r, &f))) return false;
      break;
    default: break;
    }
  return !w.bad || damaged(r, "an input");
}

static bool map_parameter(reader *r, const anfi_wire_field *whole, anfi_mi_graph *g) {
  const anfi_str *name = anfi_intern_z(&r->m->cx->strings, "");
  anfi_wire w = anfi_wire_of(whole->data, whole->len);
  anfi_wire_field f;
  while (anfi_wire_next(&w, &f))
    if (f.number == 1) name = text_of(r, &f);
  anfi_push(r->m->arena, &g->maps, name);
  return !w.bad || damaged(r, "a map parameter");
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
  anfi_wire w = anfi_wire_of(whole->data, whole->len);
  anfi_wire_field f;
  bool good = true;
  while (good && anfi_wire_next(&w, &f)) good = graph_field(r, &f, g);
  return good && !w.bad ? g : (damaged(r, "a graph"), NULL);
}

static bool primitive(reader *r, const anfi_wire_field *whole) {
  anfi_mi_prim *p = ANFI_NEW(r->m->arena, anfi_mi_prim);
  const anfi_str *none = anfi_intern_z(&r->m->cx->strings, "");
  *p = (anfi_mi_prim){.name = none, .op = none};
  anfi_wire w = anfi_wire_of(whole->data, whole->len);
  anfi_wire_field f;
  while (anfi_wire_next(&w, &f)) switch (f.number) {
    case 1: p->name = text_of(r, &f); break;
    case 2: p->op = text_of(r, &f); break;
    case 3:
      if (!add_attribute(r, &f, &p->attrs)) return false;
      break;
    default: break;
    }
  anfi_push(r->m->arena, &r->m->prims, p);
  return !w.bad || damaged(r, "a primitive");
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
  anfi_wire w = anfi_wire_of(data, len);
  anfi_wire_field f;
  bool good = true;
  while (good && anfi_wire_next(&w, &f)) good = model_field(&r, &f);
  if (!good) return false;
  if (w.bad) return damaged(&r, "the model");
  return m->main || damaged(&r, "the model's graph");
}
