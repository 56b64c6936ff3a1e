// SPDX-License-Identifier: Apache-2.0
/* A .mindir as a module. For a model net(x) with parameters w, b that nothing assigns to:
 *   def net(params: {w: f32[..], b: f32[..]}, x: f32[..]) { ... }
 *   def main(x: f32[..]) { net({w = .., b = ..}, x) }       the parameters as the file has them
 *   def params() { {w = .., b = ..} }
 * A model that assigns to parameters gives (new params, result), as a training step does (anfora/step.h); then
 * def step(x) { net({w = .., b = ..}, x) } is there, too, and main gives the result alone. */
#include "frontend/mindir/mindir.h"
#include "ir/ops/op.h"

static anfi_loc loc_of(const anfi_mi_build *b) { return (anfi_loc){b->model->file, 0, 0}; }

static const anfi_traced *fail_node(anfi_mi_build *b, const anfi_mi_node *n, const char *what,
                                    const char *name) {
  anfi_fail(b->t->cx, loc_of(b), ANF_E1165, n->name->s, what, name);
  return NULL;
}

static uint64_t *find(const anfi_map *m, const anfi_str *name) {
  return anfi_map_find(m, anfi_key(name));
}

/* ---- parameters ---- */

/* "graph:fc1.weight" without the graph. */
static const anfi_str *short_name(anfi_mi_build *b, const anfi_str *s) {
  const char *colon = strchr(s->s, ':');
  return colon && colon[1] ? anfi_intern_z(&b->m->strings, colon + 1)
                           : anfi_intern(&b->m->strings, s->s, s->len);
}

static anf_value *params_value(anfi_mi_build *b) {
  const anfi_mi_graph *g = b->model->main;
  size_t n = g->params.n;
  anf_value **v = ANFI_NEW_N(b->t->arena, anf_value *, n + 1);
  const anf_type **type = ANFI_NEW_N(b->t->arena, const anf_type *, n + 1);
  const anfi_str **name = ANFI_NEW_N(b->t->arena, const anfi_str *, n + 1);
  for (size_t i = 0; i < n; i++) {
    if (!(v[i] = anfi_mi_tensor_value(b->model, g->params.at[i]))) return NULL;
    anfi_trace_hold(b->t, v[i]);
    type[i] = v[i]->type;
    const anfi_str *s = short_name(b, g->params.at[i]->name);
    name[i] = anfi_intern(&b->t->cx->strings, s->s, s->len);
  }
  anf_value *r = anfi_value_new_record(b->t->cx, anfi_type_record(b->t->cx, n, name, type));
  for (size_t i = 0; i < n; i++) r->u.item[i] = anf_value_retain(v[i]);
  return anfi_trace_hold(b->t, r);
}

static anf_node *field_of(anfi_mi_build *b, anf_node *params, const anf_type *record, size_t i) {
  const anfi_str *s = record->names[i];
  anf_value *v[1] = {anfi_trace_hold(b->t, anfi_value_new_string(b->t->cx, s->s, s->len))};
  const anfi_attrs *at = NULL;
  if (!anfi_attrs_new(b->m, ANF_OP_RecordGet, v, loc_of(b), &at)) return NULL;
  return anfi_apply(b->t->to, ANF_OP_RecordGet, at, 1, &params);
}

static anf_node *record_of(anfi_mi_build *b, const anf_type *record, anf_node *const *items) {
  anf_value *names = anfi_trace_hold(b->t, anfi_value_new_tuple(b->t->cx, record->n));
  for (uint32_t i = 0; i < record->n; i++)
    names->u.item[i] = anfi_value_new_string(b->t->cx, record->names[i]->s, record->names[i]->len);
  const anfi_attrs *at = NULL;
  if (!anfi_attrs_new(b->m, ANF_OP_MakeRecord, &names, loc_of(b), &at)) return NULL;
  return anfi_apply(b->t->to, ANF_OP_MakeRecord, at, record->n, items);
}

/* ---- what a graph is being built ---- */

typedef struct {
  anfi_mi_build *b;
  const anfi_mi_graph *g;
  anf_graph *to;
  const anfi_traced *state; // of the main graph: what the last UpdateState gave
} building;

static void bind(anfi_mi_build *b, const anfi_str *name, const anfi_traced *x) {
  *anfi_map_at(&b->values, anfi_key(name)) = anfi_key(x);
}

static const anfi_traced *value_of(building *q, const anfi_mi_node *n, const anfi_str *name) {
  anfi_mi_build *b = q->b;
  const uint64_t *at = find(&b->values, name);
  if (at) return (const anfi_traced *)(uintptr_t)*at;
  if ((at = find(&b->graphs, name)))
    return anfi_traced_node(b->t, anfi_graph_value((anf_graph *)(uintptr_t)*at), NULL);
  return fail_node(b, n, "uses", name->s);
}

/* The abstract of a node's result, where tracing found no type. */
static const anfi_traced *with_type(anfi_mi_build *b, const anfi_mi_node *n, const anfi_traced *x) {
  if (!x || x->kind != ANFI_TRACED_DATA || x->type || !x->node) return x;
  const anf_type *type = anfi_mi_abstract_type(b->model, anfi_mi_find(&n->attrs, "shape"));
  return anfi_traced_node(b->t, x->node, type ? type : n->number);
}

/* Could a value be of both types? What one of them leaves open, it does not deny. */
static bool agrees(const anf_type *got, const anf_type *want) {
  bool items = want->kind == ANF_TYPE_TUPLE || want->kind == ANF_TYPE_TENSOR;
  if (got->kind == ANF_TYPE_ANY || got->kind == ANF_TYPE_NONE || !items) return true;
  if (got->kind != want->kind || got->n != want->n) return false;
  for (uint32_t i = 0; i < want->n; i++)
    if (want->kind == ANF_TYPE_TUPLE
            ? !agrees(got->items[i], want->items[i])
            : got->dims[i] >= 0 && want->dims[i] >= 0 && got->dims[i] != want->dims[i])
      return false;
  if (want->kind == ANF_TYPE_TUPLE || got->dtype == want->dtype) return true;
  return !want->n && (got->dtype == ANF_INT || got->dtype == ANF_FLOAT);
}

/* The file states the type of each result: an operator that gives another one is not what the file means. */
static const anfi_traced *as_stated(anfi_mi_build *b, const anfi_mi_node *n, const anfi_mi_prim *p,
                                    const anfi_traced *x) {
  const anf_type *want =
      x ? anfi_mi_abstract_type(b->model, anfi_mi_find(&n->attrs, "shape")) : NULL;
  if (!want || n->number || agrees(anfi_traced_type(b->t, x), want)) return x;
  anfi_fail(b->t->cx, b->t->loc, ANF_E1168, p->op->s,
            anfi_type_text(b->t->cx, anfi_traced_type(b->t, x)), anfi_type_text(b->t->cx, want));
  return NULL;
}

/* A tuple that is one node, taken apart: its items are known to be so many by its abstract. */
static const anfi_traced *taken_apart(anfi_mi_build *b, const anfi_traced *x) {
  if (!x || x->kind != ANFI_TRACED_DATA || !x->node || !x->type || x->type->kind != ANF_TYPE_TUPLE)
    return x;
  const anfi_traced **item = ANFI_NEW_N(b->t->arena, const anfi_traced *, x->type->n + 1);
  for (uint32_t i = 0; i < x->type->n; i++) {
    anf_value *v[1] = {anfi_trace_hold(b->t, anfi_value_new_i64(b->t->cx, ANF_INT, i))};
    const anfi_attrs *at = NULL;
    if (!anfi_attrs_new(b->m, ANF_OP_TupleGet, v, loc_of(b), &at)) return NULL;
    item[i] = taken_apart(
        b, anfi_traced_node(b->t, anfi_apply(b->t->to, ANF_OP_TupleGet, at, 1, &x->node),
                            x->type->items[i]));
  }
  return anfi_traced_tuple(b->t, x->type->n, item);
}

static bool inputs(building *q, const anfi_mi_node *n, const anfi_traced ***out) {
  *out = ANFI_NEW_N(q->b->t->arena, const anfi_traced *, n->in.n + 1);
  for (size_t i = 0; i < n->in.n; i++)
    if (!((*out)[i] = value_of(q, n, n->in.at[i]))) return false;
  return true;
}

/* ---- nodes ---- */

static const anfi_traced *constant(building *q, const anfi_mi_node *n) {
  const anfi_mi_attr *a = anfi_mi_find(&n->attrs, "value");
  if (!a) return fail_node(q->b, n, "has no", "value");
  if (a->type == MI_UMONAD && q->g == q->b->model->main) return q->state;
  anf_value *v = anfi_mi_attr_value(q->b->model, a);
  return v ? anfi_traced_value(q->b->t, v) : NULL;
}

static const anfi_traced *call_of(building *q, const anfi_mi_node *n, anf_node *f) {
  const anfi_traced **in;
  if (!f) return fail_node(q->b, n, "calls a constant:", n->op->s);
  anf_node **all = ANFI_NEW_N(q->b->t->arena, anf_node *, n->in.n + 2);
  if (!inputs(q, n, &in)) return NULL;
  all[0] = f;
  for (size_t i = 0; i < n->in.n; i++)
    if (!(all[i + 1] = anfi_traced_to_node(q->b->t, in[i]))) return NULL;
  anf_node *c = anfi_call(q->to, n->in.n + 1, all);
  c->debug = q->b->t->debug;
  if (q->b->effect) anfi_add_effect(q->to, c);
  return taken_apart(q->b, with_type(q->b, n, anfi_traced_node(q->b->t, c, NULL)));
}

/* The place in the state of input i, or -1. */
static int slot_of(const building *q, const anfi_mi_node *n, size_t i) {
  const uint64_t *at =
      i < n->in.n && q->g == q->b->model->main ? find(&q->b->slots, n->in.at[i]) : NULL;
  return at ? (int)*at - 1 : -1;
}

/* What a node wrote, or those did that it is a tuple of: a list. */
typedef struct writer {
  const anfi_traced *before, *after;
  const anfi_str *node;
  bool *merged; // some UpdateState has it
  struct writer *more;
} writer;

typedef struct {
  anfi_map of; // name of a node -> writer
  ANFI_VEC(writer *) all;
} writer_map;

static writer *writer_of(const writer_map *m, const anfi_str *name) {
  const uint64_t *at = find(&m->of, name);
  return at ? (writer *)(uintptr_t)*at : NULL;
}

/* A tuple of nodes, or a value after them, has written what they have. */
static void pass_writers(building *q, const anfi_mi_node *n, writer_map *m) {
  writer *all = NULL;
  for (size_t i = 0; i < n->in.n; i++)
    for (const writer *w = writer_of(m, n->in.at[i]); w; w = w->more) {
      writer *copy = ANFI_NEW(q->b->t->arena, writer);
      *copy = *w;
      copy->more = all;
      all = copy;
    }
  if (all) *anfi_map_at(&m->of, anfi_key(n->name)) = anfi_key(all);
}

/* Effects on parameters: the last input is the state before, (result, state after) the node's value. */
static const anfi_traced *writing(building *q, const anfi_mi_node *n, const anfi_mi_prim *p,
                                  const anfi_traced **in, writer_map *writers) {
  anfi_trace *t = q->b->t;
  const anfi_traced *before = in[n->in.n - 1], **after = NULL;
  if (before->kind != ANFI_TRACED_TUPLE || before->n != q->b->nslot)
    return (void)anfi_fail(t->cx, t->loc, ANF_E1151, "an assignment inside of a function"), NULL;
  for (size_t i = 0; i + 1 < n->in.n; i++)
    if (slot_of(q, n, i) >= 0) in[i] = before->item[slot_of(q, n, i)];
  const anfi_traced *r = anfi_mi_primitive(q->b, p, n->in.n - 1, in);
  if (!r) return NULL;
  after = ANFI_NEW_N(t->arena, const anfi_traced *, before->n + 1);
  for (size_t i = 0; i < before->n; i++) after[i] = before->item[i];
  for (size_t i = 0, k = 1; i + 1 < n->in.n; i++)
    if (anfi_mi_writes(p) >> i & 1 && slot_of(q, n, i) >= 0) after[slot_of(q, n, i)] = r->item[k++];
    else if (anfi_mi_writes(p) >> i & 1) k++;
  writer *w = ANFI_NEW(t->arena, writer);
  *w = (writer){before, anfi_traced_tuple(t, before->n, after), n->name, ANFI_NEW(t->arena, bool),
                NULL};
  anfi_push(t->arena, &writers->all, w);
  *anfi_map_at(&writers->of, anfi_key(n->name)) = anfi_key(w);
  const anfi_mi_attr *stated =
      anfi_mi_find(&n->attrs, "shape"); // (new values..) where there are several
  bool several = stated && stated->type == MI_TUPLE && stated->values.n == r->n - 1 &&
                 r->item[0]->kind != ANFI_TRACED_TUPLE;
  return several ? anfi_traced_tuple(t, r->n - 1, r->item + 1) : r->item[0];
}

static bool all_merged(building *q, const writer_map *writers) {
  for (size_t i = 0; i < writers->all.n; i++)
    if (!*writers->all.at[i]->merged)
      return anfi_fail(q->b->t->cx, q->b->t->loc, ANF_E1151,
                       "an assignment that no UpdateState follows");
  return true;
}

/* UpdateState(U, nodes..): U with what these nodes wrote. They may all have started from U, and write to different parameters. */
static const anfi_traced *updated(building *q, const anfi_mi_node *n, const anfi_traced *const *in,
                                  writer_map *writers) {
  anfi_trace *t = q->b->t;
  const anfi_traced *u = in[0];
  if (u->kind != ANFI_TRACED_TUPLE) return u;
  const anfi_traced **after = ANFI_NEW_N(t->arena, const anfi_traced *, u->n + 1);
  memcpy(after, u->item, u->n * sizeof *after);
  for (size_t i = 1; i < n->in.n; i++)
    for (writer *w = writer_of(writers, n->in.at[i]); w; w = w->more) {
      for (size_t k = 0; k < u->n; k++)
        if (w->after->item[k] != w->before->item[k]) after[k] = w->after->item[k];
      *w->merged = true;
    }
  u = anfi_traced_tuple(t, u->n, after);
  if (q->g == q->b->model->main) q->state = u;
  return u;
}

static const anfi_traced *loaded(building *q, const anfi_mi_node *n, const anfi_traced *const *in) {
  int slot = slot_of(q, n, 0);
  return slot >= 0 && in[1]->kind == ANFI_TRACED_TUPLE ? in[1]->item[slot] : in[0];
}

static bool is(const anfi_mi_prim *p, const char *op) { return strcmp(p->op->s, op) == 0; }

static const anfi_traced *primitive(building *q, const anfi_mi_node *n, const anfi_mi_prim *p,
                                    writer_map *writers) {
  const anfi_traced **in;
  if (!inputs(q, n, &in)) return NULL;
  if (is(p, "UpdateState") && n->in.n) return updated(q, n, in, writers);
  if (is(p, "Load") && n->in.n == 2) return loaded(q, n, in);
  if (is(p, "Depend") || is(p, "MakeTuple") || is(p, "TupleGetItem")) pass_writers(q, n, writers);
  if (is(p, "Depend") && n->in.n) return in[0];
  if (!anfi_mi_writes(p)) return anfi_mi_primitive(q->b, p, n->in.n, in);
  if (!n->in.n) return fail_node(q->b, n, "assigns to no parameter:", p->op->s);
  return writing(q, n, p, in, writers);
}

static const anfi_traced *traced(building *q, const anfi_mi_node *n, writer_map *writers) {
  static const char ref[] = "REF::";
  anfi_mi_build *b = q->b;
  if (strcmp(n->op->s, "Constant") == 0) return constant(q, n);
  const char *name =
      strncmp(n->op->s, ref, sizeof ref - 1) == 0 ? n->op->s + sizeof ref - 1 : n->op->s;
  const anfi_str *s = anfi_intern_z(&b->t->cx->strings, name);
  const uint64_t *at;
  if ((at = find(&b->prims, s))) {
    const anfi_mi_prim *p = (const anfi_mi_prim *)(uintptr_t)*at;
    return as_stated(b, n, p, primitive(q, n, p, writers));
  }
  if ((at = find(&b->graphs, s)))
    return call_of(q, n, anfi_graph_value((anf_graph *)(uintptr_t)*at));
  if ((at = find(&b->values, s))) return call_of(q, n, ((const anfi_traced *)(uintptr_t)*at)->node);
  return fail_node(b, n, "calls", name);
}

static bool graph_nodes(building *q) {
  anfi_mi_build *b = q->b;
  writer_map writers = {0};
  anfi_map_init(&writers.of, b->t->arena);
  b->t->to = q->to;
  b->t->loc = loc_of(b);
  for (size_t i = 0; i < q->g->nodes.n; i++) {
    const anfi_mi_node *n = q->g->nodes.at[i];
    b->t->debug = anfi_debug_new(
        b->m, (anfi_debug){.scope = anfi_intern(&b->m->strings, n->domain->s, n->domain->len)});
    b->effect = n->effect;
    const anfi_traced *x = with_type(b, n, traced(q, n, &writers));
    if (!x)
      return anfi_note(b->t->cx, loc_of(b), "in the node %s, %s", n->name->s, n->op->s), false;
    bind(b, n->name, x);
  }
  return all_merged(q, &writers);
}

static const anfi_traced *result_of(building *q) {
  const anfi_mi_graph *g = q->g;
  static const anfi_mi_node none = {0};
  const anfi_traced **out = ANFI_NEW_N(q->b->t->arena, const anfi_traced *, g->out.n + 1);
  anfi_mi_node at = none;
  at.name = g->name;
  for (size_t i = 0; i < g->out.n; i++)
    if (!(out[i] = value_of(q, &at, g->out.at[i].name))) return NULL;
  return g->out.n == 1 ? out[0] : anfi_traced_tuple(q->b->t, g->out.n, out);
}

static const anf_type *input_type(anfi_mi_build *b, const anfi_mi_input *in) {
  if (in->number) return in->number;
  return in->tensor ? anfi_mi_tensor_type(b->model, in->tensor)
                    : anfi_mi_abstract_type(b->model, in->abstract);
}

static bool graph_inputs(building *q, bool declared) {
  for (size_t i = 0; i < q->g->in.n; i++) {
    const anfi_mi_input *in = &q->g->in.at[i];
    const anf_type *type = input_type(q->b, in);
    if (anfi_failed(q->b->t->cx)) return false;
    const anfi_str *name = short_name(q->b, in->name);
    anf_node *p = anfi_param(q->to, name, declared ? type : NULL);
    bind(q->b, in->name, taken_apart(q->b, anfi_traced_node(q->b->t, p, type)));
  }
  return true;
}

/* ---- the module ---- */

static anf_graph *new_graph(anfi_mi_build *b, const char *name) {
  return anfi_graph_new(b->m, anfi_intern_z(&b->m->strings, name));
}

static bool function(anfi_mi_build *b, const anfi_mi_graph *g) {
  building q = {.b = b,
                .g = g,
                .to = (anf_graph *)(uintptr_t)*find(&b->graphs, g->name),
                .state = anfi_traced_none(b->t)};
  b->t->to = q.to;
  if (!graph_inputs(&q, false) || !graph_nodes(&q)) return false;
  const anfi_traced *r = result_of(&q);
  anf_node *n = r ? anfi_traced_to_node(b->t, r) : NULL;
  if (n) anfi_set_result(q.to, n);
  return n != NULL;
}

/* Which parameters are assigned to. */
static void find_state(anfi_mi_build *b) {
  const anfi_mi_graph *g = b->model->main;
  for (size_t i = 0; i < g->nodes.n; i++) {
    const anfi_mi_node *n = g->nodes.at[i];
    const char *name = strncmp(n->op->s, "REF::", 5) == 0 ? n->op->s + 5 : n->op->s;
    const uint64_t *p = find(&b->prims, anfi_intern_z(&b->t->cx->strings, name));
    uint32_t bits = p ? anfi_mi_writes((const anfi_mi_prim *)(uintptr_t)*p) : 0;
    for (size_t k = 0; k < n->in.n; k++)
      if (bits >> k & 1 && find(&b->params, n->in.at[k]) && !find(&b->slots, n->in.at[k]))
        *anfi_map_at(&b->slots, anfi_key(n->in.at[k])) = ++b->nslot;
  }
}

static const anfi_traced *first_state(anfi_mi_build *b) {
  const anfi_traced **item = ANFI_NEW_N(b->t->arena, const anfi_traced *, b->nslot + 1);
  const anfi_mi_graph *g = b->model->main;
  if (!b->nslot) return anfi_traced_none(b->t);
  for (size_t i = 0; i < g->params.n; i++) {
    const uint64_t *slot = find(&b->slots, g->params.at[i]->name);
    if (slot)
      item[*slot - 1] = (const anfi_traced *)(uintptr_t)*find(&b->values, g->params.at[i]->name);
  }
  return anfi_traced_tuple(b->t, b->nslot, item);
}

/* The parameters after the run: those that were assigned to are the state's. */
static anf_node *new_params(building *q, const anf_type *record) {
  anfi_mi_build *b = q->b;
  anf_node **item = ANFI_NEW_N(b->t->arena, anf_node *, record->n + 1);
  for (uint32_t i = 0; i < record->n; i++) {
    const anfi_str *name = q->g->params.at[i]->name;
    const uint64_t *slot = find(&b->slots, name);
    const anfi_traced *x =
        slot ? q->state->item[*slot - 1] : (const anfi_traced *)(uintptr_t)*find(&b->values, name);
    if (!(item[i] = anfi_traced_to_node(b->t, x))) return NULL;
  }
  return record_of(b, record, item);
}

static bool net(anfi_mi_build *b, anf_graph *to, const anf_type *record) {
  const anfi_mi_graph *g = b->model->main;
  building q = {.b = b, .g = g, .to = to};
  b->t->to = to;
  anf_node *p = record->n ? anfi_param(to, anfi_intern_z(&b->m->strings, "params"), record) : NULL;
  for (size_t i = 0; i < g->params.n; i++) {
    bind(b, g->params.at[i]->name,
         anfi_traced_node(b->t, field_of(b, p, record, i), record->items[i]));
    *anfi_map_at(&b->params, anfi_key(g->params.at[i]->name)) = i + 1;
  }
  find_state(b);
  q.state = first_state(b);
  if (!graph_inputs(&q, true) || !graph_nodes(&q)) return false;
  const anfi_traced *r = result_of(&q);
  anf_node *n = r ? anfi_traced_to_node(b->t, r) : NULL;
  anf_node *both[2] = {b->nslot && n ? new_params(&q, record) : NULL, n};
  if (!n || (b->nslot && !both[0])) return false;
  anfi_set_result(to, b->nslot ? anfi_apply(to, ANF_OP_MakeTuple, NULL, 2, both) : n);
  return true;
}

static anf_node *item(anfi_mi_build *b, anf_graph *g, anf_node *t, int64_t i) {
  anf_value *v[1] = {anfi_trace_hold(b->t, anfi_value_new_i64(b->t->cx, ANF_INT, i))};
  const anfi_attrs *at = NULL;
  anfi_attrs_new(b->m, ANF_OP_TupleGet, v, loc_of(b), &at);
  return anfi_apply(g, ANF_OP_TupleGet, at, 1, &t);
}

/* The call net(params, x..) in a graph of the inputs x. */
static anf_node *call_net(anfi_mi_build *b, anf_graph *g, anf_graph *inner, anf_value *record) {
  size_t skip = record->n != 0;
  anf_node **in = ANFI_NEW_N(b->t->arena, anf_node *, inner->params.n + 1);
  in[0] = anfi_graph_value(inner);
  if (skip) in[1] = anfi_value(b->m, anf_value_retain(record));
  for (size_t i = skip; i < inner->params.n; i++) {
    const anf_node *p = inner->params.at[i];
    in[i + 1] = anfi_param(g, b->m->debugs.at[p->debug].name, p->type);
  }
  return anfi_call(g, inner->params.n + 1, in);
}

/* def main(x..) { net(params, x..) }, def params() { .. }, and def step(x..), which gives new parameters too. */
static void entries(anfi_mi_build *b, anf_graph *main, anf_graph *inner, anf_value *record) {
  anf_node *c = call_net(b, main, inner, record);
  anfi_set_result(main, b->nslot ? item(b, main, c, 1) : c);
  if (record->n)
    anfi_set_result(new_graph(b, "params"), anfi_value(b->m, anf_value_retain(record)));
  if (!b->nslot) return;
  anf_graph *step = new_graph(b, "step");
  anfi_set_result(step, call_net(b, step, inner, record));
}

/* All that is not known, at once. */
static bool check_primitives(anfi_mi_build *b) {
  bool good = true;
  for (size_t i = 0; i < b->model->prims.n; i++) {
    const anfi_mi_prim *p = b->model->prims.at[i];
    static const char *const own[] = {"UpdateState", "Load", "Depend"};
    bool known = anfi_mi_knows(b, p);
    for (size_t k = 0; k < ANFI_LEN(own); k++) known |= strcmp(p->op->s, own[k]) == 0;
    if (!known) anfi_fail(b->t->cx, loc_of(b), ANF_E1166, p->op->s), good = false;
  }
  if (b->model->main->map_parameter)
    good = anfi_fail(b->t->cx, loc_of(b), ANF_E1166, "MapParameter");
  return good;
}

static void make_maps(anfi_mi_build *b) {
  anfi_arena *a = b->t->arena;
  anfi_map *all[] = {&b->graphs, &b->prims, &b->values, &b->params, &b->slots};
  for (size_t i = 0; i < ANFI_LEN(all); i++) anfi_map_init(all[i], a);
  for (size_t i = 0; i < b->model->prims.n; i++)
    *anfi_map_at(&b->prims, anfi_key(b->model->prims.at[i]->name)) =
        anfi_key(b->model->prims.at[i]);
  for (size_t i = 0; i < b->model->functions.n; i++) {
    anf_graph *g = new_graph(b, b->model->functions.at[i]->name->s);
    g->flags |= ANFI_GRAPH_PRIVATE;
    *anfi_map_at(&b->graphs, anfi_key(b->model->functions.at[i]->name)) = anfi_key(g);
  }
}

extern const unsigned char anfi_templates_mindir[];
extern const size_t anfi_templates_mindir_len;

bool anfi_mi_module(anfi_mi_model *model, anf_module *out) {
  anfi_mi_build *b = ANFI_NEW(model->arena, anfi_mi_build);
  *b = (anfi_mi_build){.model = model, .m = out};
  b->t = anfi_trace_new(model->cx, (const char *)anfi_templates_mindir, anfi_templates_mindir_len,
                        "mindir.anf");
  if (!b->t) return false;
  anf_graph *main = new_graph(b, "main"), *inner = new_graph(b, "net");
  make_maps(b);
  *anfi_map_at(&b->graphs, anfi_key(model->main->name)) = anfi_key(inner);
  b->t->loc = loc_of(b);
  anf_value *record = check_primitives(b) ? params_value(b) : NULL;
  if (!record || !net(b, inner, record->type)) return false;
  for (size_t i = 0; i < model->functions.n; i++)
    if (!function(b, model->functions.at[i])) return false;
  entries(b, main, inner, record);
  return !anfi_failed(model->cx);
}
