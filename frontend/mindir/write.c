// SPDX-License-Identifier: Apache-2.0
/* Writing a function as a .mindir, in the form that build.c reads:
 *   def main(x: f32[2]) { Sin(x) }                    ->  a graph with an input and no parameters
 *   def net(params: {w: f32[2]}, x: f32[2]) { .. }    ->  the fields of params are the model's parameters, with the
 *   def params() { {w = ..} }                             values that params() gives
 * A net that gives (new params, result) is a training step: its parameters are assigned to, and it gives the result.
 *
 * The function is written first-order and typed, as specialisation leaves it: closures are parameters, loops are
 * recursive functions, derivatives are functions. A function value is only an operand of Switch or what is called. */
#include "frontend/mindir/write.h"

#include "anfora/text.h"

bool anfi_mi_refuse(anfi_mi_writer *w, const anf_node *n, const char *what, const char *name) {
  return anfi_fail(w->cx, n ? anfi_node_loc(n) : anfi_nowhere(), ANF_E1167, what, name);
}

/* ---- names ---- */

static void bind(anfi_mi_writer *w, const void *n, const char *name) {
  *anfi_map_at(&w->named, anfi_key(n)) = anfi_key(name);
}

/* `name`, or the first NAME_k that is free; `taken`: interned name -> next k. */
static const char *unique(anfi_mi_writer *w, anfi_map *taken, const anfi_str *name) {
  const anfi_str *s = anfi_intern_z(&w->words, name ? name->s : "");
  uint64_t *next = anfi_map_at(taken, anfi_key(s));
  if (s->len && !*next) return *next = 1, s->s;
  for (uint64_t k = *next ? *next : 1;; k++) {
    const anfi_str *tried =
        anfi_intern_z(&w->words, anfi_sprintf(w->arena, "%s_%llu", s->s, (unsigned long long)k));
    if (anfi_map_find(taken, anfi_key(tried))) continue;
    *anfi_map_at(taken, anfi_key(s)) = k + 1;
    *anfi_map_at(taken, anfi_key(tried)) = 1;
    return tried->s;
  }
}

static const char **graph_names(anfi_mi_writer *w) {
  const char **name = ANFI_NEW_N(w->arena, const char *, w->m->graphs.n + 1);
  anfi_map taken;
  anfi_map_init(&taken, w->arena);
  for (size_t i = 0; i < w->m->graphs.n; i++)
    if (w->m->graphs.at[i]) name[i] = unique(w, &taken, w->m->graphs.at[i]->name);
  return name;
}

static const char *new_name(anfi_mi_writer *w) {
  return anfi_sprintf(w->arena, "%s:CNode_%zu", w->graph, w->count++);
}

const char *anfi_mi_primitive_ref(anfi_mi_writer *w, const char *op, size_t attrs) {
  anf_text *o = w->out;
  bool own = o->len > attrs;
  anfi_wire_put_text(o, 2, op);
  anfi_wire_put_varint(o, 5, own ? 1 : 2); // PRIMITIVE, with attributes, or PRIMITIVE_FUNCTION
  const anfi_str *s = anfi_intern(&w->encoded, o->text + attrs, o->len - attrs);
  o->len = attrs;
  return anfi_sprintf(w->arena, "REF::%s:%u", op, s->id);
}

/* ---- nodes ---- */

/* MindSpore's types have no number without an element type: it is said in a doc_string. */
static const char *number_word(const anf_type *t) {
  return !anfi_export_is_weak(t) ? NULL : t->dtype == ANF_INT ? "int" : "float";
}

static void put_type_and_scope(anfi_mi_writer *w, const anf_node *n) {
  const anfi_str *scope = n ? w->m->debugs.at[n->debug].scope : NULL;
  if (n) anfi_mi_put_abstract(w->out, 5, "shape", n->type);
  if (scope) anfi_wire_put_bytes(w->out, 7, scope->s, scope->len);
}

const char *anfi_mi_put_node(anfi_mi_writer *w, const anf_node *n, const char *op, size_t nin,
                             const char *const *in) {
  const char *name = new_name(w);
  size_t at = anfi_wire_open(w->out, 1);
  for (size_t i = 0; i < nin; i++) anfi_wire_put_text(w->out, 1, in[i]);
  anfi_wire_put_text(w->out, 2, name);
  anfi_wire_put_text(w->out, 3, name);
  anfi_wire_put_text(w->out, 4, op);
  put_type_and_scope(w, n);
  const char *number = n ? number_word(n->type) : NULL;
  bool effect = n && n->flags & ANFI_NODE_EFFECT;
  if (effect || number)
    anfi_wire_put_text(
        w->out, 6, anfi_sprintf(w->arena, "%s%s", effect ? "effect " : "", number ? number : ""));
  anfi_wire_close(w->out, at);
  return name;
}

/* A record is a node: MindSpore's constants have none. */
static const char *put_record(anfi_mi_writer *w, const anf_value *v) {
  const char **in = ANFI_NEW_N(w->arena, const char *, v->n + 1);
  anf_value *names = anfi_value_new_tuple(w->cx, v->n);
  for (size_t i = 0; i < v->n; i++)
    names->u.item[i] = anfi_value_new_string(w->cx, v->type->names[i]->s, v->type->names[i]->len);
  anfi_value_guard(names);
  bool good = true;
  for (size_t i = 0; good && i < v->n; i++)
    good = (in[i] = anfi_mi_put_constant(w, v->u.item[i])) != NULL;
  size_t attrs = w->out->len;
  good = good &&
         anfi_mi_put_attr(w, 3, anfi_op_schema(w->cx, ANF_OP_MakeRecord)->attr[0].name->s, names);
  anfi_value_unguard(names);
  anf_value_release(names);
  return good ? anfi_mi_put_node(w, NULL, anfi_mi_primitive_ref(w, "Anfora.MakeRecord", attrs),
                                 v->n, in)
              : NULL;
}

static bool has_record(const anf_value *v) {
  bool found = v->kind == ANF_VALUE_RECORD;
  for (size_t i = 0; !found && v->kind == ANF_VALUE_TUPLE && i < v->n; i++)
    found = has_record(v->u.item[i]);
  return found;
}

static const char *put_tuple(anfi_mi_writer *w, const anf_value *v) {
  const char **in = ANFI_NEW_N(w->arena, const char *, v->n + 1);
  for (size_t i = 0; i < v->n; i++)
    if (!(in[i] = anfi_mi_put_constant(w, v->u.item[i]))) return NULL;
  return anfi_mi_put_node(w, NULL, anfi_mi_primitive_ref(w, "MakeTuple", w->out->len), v->n, in);
}

const char *anfi_mi_put_constant(anfi_mi_writer *w, const anf_value *v) {
  if (v->kind == ANF_VALUE_RECORD) return put_record(w, v);
  if (has_record(v)) return put_tuple(w, v);
  const char *name = anfi_sprintf(w->arena, "%s:ValueNode_%zu", w->graph, w->count++);
  size_t at = anfi_wire_open(w->out, 1);
  anfi_wire_put_text(w->out, 2, name);
  anfi_wire_put_text(w->out, 3, name);
  anfi_wire_put_text(w->out, 4, "Constant");
  if (!anfi_mi_put_attr(w, 5, "value", v)) return NULL;
  anfi_wire_close(w->out, at);
  return name;
}

static const char *value_operand(anfi_mi_writer *w, const anf_node *n) {
  const anf_graph *g = anfi_value_graph(n);
  if (g) return w->graph_name[g->id];
  if (n->u.value->kind == ANF_VALUE_FN)
    return (void)anfi_mi_refuse(w, NULL, "a function value of", anfi_op_of(n)->name), NULL;
  const char *name = anfi_mi_put_constant(w, n->u.value);
  if (name) bind(w, n, name);
  return name;
}

const char *anfi_mi_operand(anfi_mi_writer *w, const anf_node *n) {
  const uint64_t *at = anfi_map_find(&w->named, anfi_key(n));
  if (at) return (const char *)(uintptr_t)*at;
  if (n->kind == ANFI_VALUE) return value_operand(w, n);
  return (void)anfi_mi_refuse(w, n, "the record of parameters used as", "a whole"), NULL;
}

/* ---- monads: the order of reading and assigning parameters ---- */

static const char *monad(anfi_mi_writer *w) {
  const char *name = anfi_sprintf(w->arena, "%s:ValueNode_%zu", w->graph, w->count++);
  size_t at = anfi_wire_open(w->out, 1);
  anfi_wire_put_text(w->out, 2, name);
  anfi_wire_put_text(w->out, 3, name);
  anfi_wire_put_text(w->out, 4, "Constant");
  size_t value = anfi_wire_open(w->out, 5);
  anfi_wire_put_text(w->out, 1, "value");
  anfi_wire_put_varint(w->out, 16, MI_UMONAD);
  anfi_wire_close(w->out, value);
  anfi_wire_close(w->out, at);
  return name;
}

static const char *put_call(anfi_mi_writer *w, const anf_node *type, const char *op, size_t n,
                            const char *const *in) {
  return anfi_mi_put_node(w, type, anfi_mi_primitive_ref(w, op, w->out->len), n, in);
}

static const char *field_name(anfi_mi_writer *w, uint32_t i) {
  return anfi_sprintf(w->arena, "%s:%s", w->graph, w->record->type->names[i]->s);
}

/* ---- graphs ---- */

static const char *put_cnode(anfi_mi_writer *w, const anf_node *n) {
  const char **in = ANFI_NEW_N(w->arena, const char *, n->nin);
  if (n->kind == ANFI_APPLY) return anfi_mi_put_apply(w, n);
  for (uint32_t i = 0; i < n->nin; i++)
    if (!(in[i] = anfi_mi_operand(w, n->in[i].def))) return NULL;
  return anfi_mi_put_node(w, n, anfi_sprintf(w->arena, "REF::%s", in[0]), n->nin - 1, in + 1);
}

/* The field that n reads from the record of parameters, or -1. */
static int parameter_of(const anfi_mi_writer *w, const anf_node *n) {
  if (!w->record || !anfi_is_op(n, ANF_OP_RecordGet) || n->in[0].def != w->record) return -1;
  const anf_value *name = anfi_attr_value(w->cx, ANF_OP_RecordGet, n->u.attrs, 0);
  const anf_type *t = w->record->type;
  for (uint32_t i = 0; name && i < t->n; i++)
    if (t->names[i]->len == name->n && memcmp(t->names[i]->s, name->u.text, name->n) == 0)
      return (int)i;
  return -1;
}

static const char *load(anfi_mi_writer *w, const anf_node *n, uint32_t field, const char *u) {
  const char *in[2] = {field_name(w, field), u};
  return put_call(w, n, "Load", 2, in);
}

/* The new parameters that the result (new params, r) of a step has, or NULL. */
static anf_node *new_params(const anfi_mi_writer *w) {
  anf_node *r = w->g->result;
  bool step = w->record && r->type && r->type->kind == ANF_TYPE_TUPLE && r->type->n == 2 &&
              r->type->items[0] == w->record->type && anfi_is_op(r, ANF_OP_MakeTuple);
  return step ? r->in[0].def : NULL;
}

static bool put_nodes(anfi_mi_writer *w, const char *u) {
  const anf_node *fresh = new_params(w);
  const anfi_graph_info *gi = &w->an->graphs[w->g->id];
  for (size_t i = 0; i < gi->order.n; i++) {
    const anf_node *n = gi->order.at[i];
    int field = parameter_of(w, n);
    bool wrapper = fresh && (n == w->g->result || (n == fresh && anfi_is_op(n, ANF_OP_MakeRecord)));
    if (wrapper && !n->uses) continue;
    if (wrapper && n == fresh && n->uses->user == w->g->result && !n->uses->next) continue;
    const char *name = field >= 0 ? load(w, n, (uint32_t)field, u) : put_cnode(w, n);
    if (!name) return false;
    bind(w, n, name);
  }
  return true;
}

static const char *new_value(anfi_mi_writer *w, const anf_node *fresh, uint32_t i) {
  if (anfi_is_op(fresh, ANF_OP_MakeRecord)) {
    const anf_node *n = fresh->in[i].def;
    return parameter_of(w, n) == (int)i ? "" : anfi_mi_operand(w, n);
  }
  return (void)anfi_mi_refuse(w, fresh, "new parameters that are not", "a record made in place"),
         NULL;
}

/* Assign(p, v, U) of each parameter that changes, in order; the result is Depend(r, U). */
static const char *put_assignments(anfi_mi_writer *w, const anf_node *fresh, const char *u) {
  const char *r = anfi_mi_operand(w, w->g->result->in[1].def);
  for (uint32_t i = 0; r && i < w->record->type->n; i++) {
    const char *v = new_value(w, fresh, i);
    if (!v) return NULL;
    if (!*v) continue;
    const char *assign[3] = {field_name(w, i), v, u};
    const char *update[2] = {u, put_call(w, NULL, "Assign", 3, assign)};
    u = put_call(w, NULL, "UpdateState", 2, update);
  }
  const char *depend[2] = {r, u};
  return r ? put_call(w, w->g->result->in[1].def, "Depend", 2, depend) : NULL;
}

static const char *put_body(anfi_mi_writer *w) {
  const char *u = w->record ? monad(w) : NULL;
  if (!put_nodes(w, u)) return NULL;
  const anf_node *fresh = new_params(w);
  return fresh ? put_assignments(w, fresh, u) : anfi_mi_operand(w, w->g->result);
}

/* An input or output: its tensor, or for other types the abstract. */
static bool put_value_info(anfi_mi_writer *w, uint32_t field, const char *name, const anf_type *t) {
  size_t at = anfi_wire_open(w->out, field);
  anfi_wire_put_text(w->out, 1, name);
  bool tensor = t && anfi_is_tensor(t) && !anfi_dtype_is_weak((anf_dtype)t->dtype);
  if (tensor && !anfi_mi_put_tensor_type(w, 2, name, t)) return false;
  if (!tensor) anfi_mi_put_abstract(w->out, 5, "shape", t);
  if (number_word(t)) anfi_wire_put_text(w->out, 3, number_word(t));
  anfi_wire_close(w->out, at);
  return true;
}

static bool put_params(anfi_mi_writer *w) {
  anfi_map taken;
  anfi_map_init(&taken, w->arena);
  for (uint32_t i = 0; w->record && i < w->record->type->n; i++)
    (void)unique(w, &taken, w->record->type->names[i]);
  for (size_t i = 0; i < w->g->params.n; i++) {
    const anf_node *p = w->g->params.at[i];
    if (p == w->record) continue;
    const char *name = anfi_sprintf(w->arena, "%s:%s", w->graph,
                                    unique(w, &taken, w->m->debugs.at[p->debug].name));
    bind(w, p, name);
    if (!put_value_info(w, 5, name, p->type)) return false;
  }
  return true;
}

static bool put_weights(anfi_mi_writer *w, const anf_value *weights) {
  const anf_type *t = w->record->type;
  bool good = true;
  for (uint32_t i = 0; i < t->n && good; i++)
    good = w->beside ? anfi_mi_put_apart(w, 3, field_name(w, i), weights->u.item[i])
                     : anfi_mi_put_tensor(w, 3, field_name(w, i), weights->u.item[i]);
  return good;
}

static bool put_graph(anfi_mi_writer *w, uint32_t field, const anf_graph *g,
                      const anf_value *weights) {
  size_t at = anfi_wire_open(w->out, field);
  w->g = g;
  w->graph = w->graph_name[g->id];
  w->count = 0;
  w->record = weights ? g->params.at[0] : NULL;
  anfi_map_init(&w->named, w->arena);
  anfi_map_init(&w->places, w->arena);
  if (weights && !put_weights(w, weights)) return false;
  if (!put_params(w)) return false;
  const char *result = put_body(w);
  const anf_node *r = new_params(w) ? g->result->in[1].def : g->result;
  if (!result || !put_value_info(w, 6, result, r->type)) return false;
  anfi_wire_put_text(w->out, 2, w->graph);
  anfi_wire_close(w->out, at);
  return true;
}

static void put_primitives(anfi_mi_writer *w) {
  for (size_t i = 0; i < w->encoded.all.n; i++) {
    const anfi_str *s = w->encoded.all.at[i];
    anfi_wire p = anfi_wire_of(s->s, s->len);
    anfi_wire_field f;
    size_t at = anfi_wire_open(w->out, 12);
    while (anfi_wire_next(&p, &f))
      if (f.number == 2)
        anfi_wire_put_text(w->out, 1, anfi_sprintf(w->arena, "%.*s:%u", (int)f.len, f.data, s->id));
    anfi_put(w->out, s->s, s->len);
    anfi_wire_close(w->out, at);
  }
}

static bool put_model(anfi_mi_writer *w, const anf_graph *g, const anf_value *weights) {
  anfi_wire_put_text(w->out, 1, "1.1");
  anfi_wire_put_text(w->out, 2, "Anfora");
  anfi_wire_put_text(w->out, 5, "2.10.0");
  anfi_wire_put_varint(w->out, 10, 1); // little-endian
  anfi_wire_put_varint(w->out, 13, 3);
  if (!put_graph(w, 7, g, weights)) return false;
  for (size_t i = 0; i < w->m->graphs.n; i++) {
    const anf_graph *k = w->m->graphs.at[i];
    if (k && k != g && !put_graph(w, 8, k, NULL)) return false;
  }
  put_primitives(w);
  return true;
}

/* ---- the entry ---- */

extern const unsigned char anfi_templates_mindir_export[];
extern const size_t anfi_templates_mindir_export_len;

static bool write_mindir(anf_graph *g, size_t n, const anf_type *const *types, void *beside,
                         anf_text *out) {
  const anfi_export_form e = {.pipeline = "first_order eta clean (expand eta clean)*",
                              .name = "export.anf",
                              .text = (const char *)anfi_templates_mindir_export,
                              .len = anfi_templates_mindir_export_len,
                              .refusal = ANF_E1167};
  anf_ctx *cx = g->module->cx;
  anf_value *weights = NULL;
  anf_graph *net = anfi_export_prepare(&e, g, n, types);
  if (!net || !anfi_export_weights(&e, g, n ? net->params.at[0]->type : NULL, &weights))
    return false;
  anfi_mi_writer w = {.cx = cx,
                      .m = net->module,
                      .arena = anfi_scratch(cx),
                      .out = out,
                      .beside = (anfi_mi_beside *)beside};
  anfi_strtab_init(&w.encoded, w.arena);
  anfi_strtab_init(&w.words, w.arena);
  w.an = anfi_analyse(w.m);
  w.graph_name = graph_names(&w);
  return put_model(&w, net, weights);
}

anf_status anf_write_mindir(anf_graph *g, size_t n, const anf_type *const *types, anf_diag *d,
                            anf_text *out) {
  return anfi_export(write_mindir, g, n, types, NULL, d, out);
}

static bool write_beside(anf_graph *g, size_t n, const anf_type *const *types, void *user,
                         anf_text *out) {
  anfi_mi_beside *b = (anfi_mi_beside *)user;
  if (!anfi_os_is_below(b->file, strlen(b->file)))
    return anfi_fail(g->module->cx, anfi_nowhere(), ANF_E1163, b->file);
  size_t before = b->weights->len;
  bool good = write_mindir(g, n, types, b, out);
  if (!good) b->weights->len = before;
  return good;
}

anf_status anf_write_mindir_beside(anf_graph *g, size_t n, const anf_type *const *types,
                                   const char *file, anf_diag *d, anf_text *out,
                                   anf_text *weights) {
  ANFI_NEED(d, g, file, weights);
  anfi_text_of(weights, g->module->cx);
  return anfi_export(write_beside, g, n, types, &(anfi_mi_beside){file, weights}, d, out);
}
