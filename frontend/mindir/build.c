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
  /* the graph */
  anfi_mi_build *b;
  const anfi_mi_graph *g;
  anf_graph *to;
  /* state */
  bool threads; // the graph has the state
  const anfi_traced *first,
      *state;       // tuples of slots: at the start, and after all assignments so far
  anfi_map monads;  // name of a UMonad -> 1
  anfi_map bound;   // name of a function value -> the state that Partial gave it
  anfi_map changed; // name of a value that was changed in place -> 1
} building;

/* Values have names of their own in the whole file. */
static bool bind(anfi_mi_build *b, const anfi_str *name, const anfi_traced *x) {
  uint64_t *at = anfi_map_at(&b->values, anfi_key(name));
  if (*at) return anfi_fail(b->t->cx, loc_of(b), ANF_E1561, name->s);
  *at = anfi_key(x);
  return true;
}

static const anfi_traced *value_of(building *q, const anfi_mi_node *n, const anfi_str *name) {
  anfi_mi_build *b = q->b;
  const uint64_t *at = find(&b->values, name);
  if (find(&q->changed, name))
    return fail_node(b, n, "uses a value after it was changed in place:", name->s);
  if (at) return (const anfi_traced *)(uintptr_t)*at;
  if ((at = find(&b->graphs, name)))
    return anfi_traced_node(b->t, anfi_graph_value((anf_graph *)(uintptr_t)*at), NULL);
  return fail_node(b, n, "uses", name->s);
}

/* The abstract of a node's result, where tracing found no type. */
static const anfi_traced *with_type(anfi_mi_build *b, const anfi_mi_node *n, const anfi_traced *x) {
  if (!x || x->kind != ANFI_TRACED_DATA || x->type || !x->node) return x;
  const anf_type *type = anfi_mi_abstract_type(b->model, n->stated);
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

/* Are all tensors that a node takes of integers or truth values? */
static bool of_integers(const anfi_mi_build *b, const anfi_mi_node *n) {
  bool all = n->in.n != 0;
  for (size_t i = 0; i < n->in.n && all; i++) {
    const uint64_t *at = find(&b->values, n->in.at[i]);
    const anf_type *t = at ? anfi_traced_type(b->t, (const anfi_traced *)(uintptr_t)*at) : NULL;
    all =
        t && (!anfi_is_tensor(t) || t->dtype == ANF_BOOL || anfi_dtype_is_int((anf_dtype)t->dtype));
  }
  return all;
}

/* A real function of integers is f64 here, and f32 in MindSpore. */
static const anfi_traced *as_single(anfi_mi_build *b, const anfi_mi_node *n, const anf_type *want,
                                    const anfi_traced *x) {
  const anf_type *got = anfi_traced_type(b->t, x);
  bool rounds = anfi_is_tensor(got) && anfi_is_tensor(want) && got->dtype == ANF_F64 &&
                want->dtype == ANF_F32 && of_integers(b, n);
  return rounds ? anfi_trace_call(b->t, anfi_trace_find(b->t, "single"), 1, &x) : x;
}

/* The file states the type of each result: an operator that gives another one is not what the file means. */
static const anfi_traced *as_stated(anfi_mi_build *b, const anfi_mi_node *n, const anfi_mi_prim *p,
                                    const anfi_traced *x) {
  const anf_type *want = x ? anfi_mi_abstract_type(b->model, n->stated) : NULL;
  if (!want || n->number) return x;
  x = as_single(b, n, want, x);
  if (!x || agrees(anfi_traced_type(b->t, x), want)) return x;
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
  if (!a && n->attrs.n == 1) a = n->attrs.at[0]; // of old files, by another name
  if (!a) return fail_node(q->b, n, "has no", "value");
  if (a->type == MI_UMONAD) {
    *anfi_map_at(&q->monads, anfi_key(n->name)) = 1;
    return q->first;
  }
  anf_value *v = anfi_mi_attr_value(q->b->model, a);
  return v ? anfi_traced_value(q->b->t, v) : NULL;
}

/* ---- state ---- */

static bool is_monad(const building *q, const anfi_str *name) { return find(&q->monads, name); }

/* The slot of the state that input i denotes, or -1. */
static int slot_of(const building *q, const anfi_mi_node *n, size_t i) {
  return i < n->in.n && q->threads ? anfi_mi_slot(q->b, n->in.at[i]) : -1;
}

/* The state with other items: those that differ between `before` and `after` are an assignment, which must have seen all
 * assignments to the same slot so far. */
static bool assigns(building *q, const anfi_traced *before, const anfi_traced *after) {
  anfi_trace *t = q->b->t;
  const anfi_traced **item = ANFI_NEW_N(t->arena, const anfi_traced *, after->n + 1);
  for (size_t i = 0; i < after->n; i++) {
    bool writes = before->item[i] != after->item[i];
    item[i] = writes ? after->item[i] : q->state->item[i];
    if (writes && before->item[i] != q->state->item[i]) {
      const anfi_mi_graph *g = q->b->model->main;
      for (size_t k = 0; k < g->params.n; k++)
        if (q->b->slot[k] == (int)i)
          return anfi_fail(t->cx, t->loc, ANF_E1185, g->params.at[k]->name->s);
    }
  }
  q->state = anfi_traced_tuple(t, after->n, item);
  return q->state != NULL;
}

/* Slots that functions know are arguments of theirs, after the others, and (slots.., ) is the first part of their result. */
static bool slot_nodes(anfi_mi_build *b, const anfi_traced *state, anf_node **to) {
  for (size_t i = 0, k = 0; i < b->nslot; i++)
    if (b->threaded[i] && !(to[k++] = anfi_traced_to_node(b->t, state->item[i]))) return false;
  return true;
}

static anf_node *state_node(anfi_mi_build *b, anf_graph *to, const anfi_traced *state) {
  anf_node **in = ANFI_NEW_N(b->t->arena, anf_node *, b->nslot + 1);
  return slot_nodes(b, state, in) ? anfi_apply(to, ANF_OP_MakeTuple, NULL, b->nthreaded, in) : NULL;
}

static anf_node *item(anfi_mi_build *b, anf_graph *g, anf_node *t, int64_t i) {
  anf_value *v[1] = {anfi_trace_hold(b->t, anfi_value_new_i64(b->t->cx, ANF_INT, i))};
  const anfi_attrs *at = NULL;
  anfi_attrs_new(b->m, ANF_OP_TupleGet, v, loc_of(b), &at);
  return anfi_apply(g, ANF_OP_TupleGet, at, 1, &t);
}

/* The state with these nodes for slots that functions know, of `old` or None for the others. */
static const anfi_traced *state_of(anfi_mi_build *b, anf_node *const *in, const anfi_traced *old) {
  const anfi_mi_graph *g = b->model->main;
  const anfi_traced **all = ANFI_NEW_N(b->t->arena, const anfi_traced *, b->nslot + 1);
  const anf_type **type = ANFI_NEW_N(b->t->arena, const anf_type *, b->nslot + 1);
  for (size_t i = 0; i < g->params.n; i++)
    if (b->slot[i] >= 0) type[b->slot[i]] = anfi_mi_tensor_type(b->model, g->params.at[i]);
  for (size_t i = 0, k = 0; i < b->nslot; i++)
    all[i] = b->threaded[i] ? anfi_traced_node(b->t, in[k++], type[i])
             : old          ? old->item[i]
                            : anfi_traced_none(b->t);
  return anfi_traced_tuple(b->t, b->nslot, all);
}

static const anfi_traced *result_state(building *q, anf_node *c, const anfi_traced *old) {
  anfi_mi_build *b = q->b;
  anf_node **in = ANFI_NEW_N(b->t->arena, anf_node *, b->nslot + 1), *all = item(b, q->to, c, 0);
  for (size_t k = 0; k < b->nthreaded; k++) in[k] = item(b, q->to, all, (int64_t)k);
  return state_of(b, in, old);
}

/* The same of parameters, which this adds to the graph. */
static const anfi_traced *parameter_state(building *q) {
  anfi_mi_build *b = q->b;
  const anfi_mi_graph *g = b->model->main;
  anf_node **in = ANFI_NEW_N(b->t->arena, anf_node *, b->nslot + 1);
  const anfi_str **name = ANFI_NEW_N(b->t->arena, const anfi_str *, b->nslot + 1);
  for (size_t i = 0; i < g->params.n; i++)
    if (b->slot[i] >= 0) name[b->slot[i]] = short_name(b, g->params.at[i]->name);
  for (size_t i = 0, k = 0; i < b->nslot; i++)
    if (b->threaded[i]) in[k++] = anfi_param(q->to, name[i], NULL);
  return state_of(b, in, NULL);
}

/* ---- calls ---- */

/* Monads are no arguments: the state is, after the others. */
static bool arguments(building *q, const anfi_mi_node *n, anf_node **to,
                      const anfi_traced **state) {
  const anfi_traced **in;
  if (!inputs(q, n, &in)) return false;
  for (size_t i = 0; i < n->in.n; i++) {
    bool monad = is_monad(q, n->in.at[i]);
    int slot = slot_of(q, n, i);
    if (monad && q->threads) *state = in[i];
    const anfi_traced *x = monad       ? anfi_traced_none(q->b->t)
                           : slot >= 0 ? q->state->item[slot]
                                       : in[i];
    if (!(to[i] = anfi_traced_to_node(q->b->t, x))) return false;
  }
  return true;
}

typedef struct writer writer;
typedef struct {
  anfi_map of; // name of a node -> writer
  ANFI_VEC(writer *) all;
} writer_map;
static writer *new_writer(building *q, const anfi_mi_node *n, writer_map *m,
                          const anfi_traced *before, const anfi_traced *after);

/* f(arguments.., slots..) gives ((slots..), result). A function that takes no UMonad leaves the state as it is. */
static const anfi_traced *threaded_call(building *q, const anfi_mi_node *n, anf_node *c,
                                        const anfi_traced *before, bool takes, writer_map *m) {
  anfi_mi_build *b = q->b;
  const anfi_traced *result = with_type(b, n, anfi_traced_node(b->t, item(b, q->to, c, 1), NULL));
  if (!takes) return result;
  const anfi_traced *after = result_state(q, c, before);
  if (!after || !assigns(q, before, after)) return NULL;
  (void)new_writer(q, n, m, before, after);
  return result;
}

static const anfi_traced *call_of(building *q, const anfi_mi_node *n, const anfi_str *callee,
                                  anf_node *f, writer_map *m) {
  anfi_mi_build *b = q->b;
  if (!f) return fail_node(b, n, "calls a constant:", n->op->s);
  const uint64_t *bound = find(&q->bound, callee);
  const anfi_traced *given = bound ? (const anfi_traced *)(uintptr_t)*bound : NULL, *state;
  anf_node **all = ANFI_NEW_N(b->t->arena, anf_node *, n->in.n + b->nthreaded + 3);
  bool again =
      callee == b->model->main->name && !find(&b->values, callee); // the model calls itself
  size_t narg = n->in.n + (again && b->record);
  if (again && b->nslot) return fail_node(b, n, "assigns, and calls itself:", callee->s);
  all[0] = f, all[1] = b->record;
  if (!arguments(q, n, all + 1 + narg - n->in.n, &given)) return NULL;
  bool threads = q->threads && b->nthreaded;
  bool takes = threads && (given || anfi_mi_takes_state(b, callee));
  state = given ? given : q->state;
  if (threads && !slot_nodes(b, state, all + narg + 1)) return NULL;
  anf_node *c = anfi_call(q->to, narg + 1 + (threads ? b->nthreaded : 0), all);
  c->debug = b->t->debug;
  if (b->effect) anfi_add_effect(q->to, c);
  const anfi_traced *r = threads ? threaded_call(q, n, c, state, takes, m)
                                 : with_type(b, n, anfi_traced_node(b->t, c, NULL));
  return taken_apart(b, r);
}

/* The writes of a node: its own, or those of the nodes that it is a tuple of. */
struct writer {
  const anfi_traced *before, *after;
  bool *merged; // some UpdateState has it
  struct writer *more;
};

static writer *new_writer(building *q, const anfi_mi_node *n, writer_map *m,
                          const anfi_traced *before, const anfi_traced *after) {
  writer *w = ANFI_NEW(q->b->t->arena, writer);
  *w = (writer){before, after, ANFI_NEW(q->b->t->arena, bool), NULL};
  *anfi_map_at(&m->of, anfi_key(n->name)) = anfi_key(w);
  return w;
}

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

/* A primitive may change a tensor that is no parameter, and gives the changed one. The name of the old one is not used after. */
static bool may_write_values(const anfi_mi_prim *p) { return strncmp(p->op->s, "Inplace", 7) == 0; }

/* Does another value share the memory of `name`? Views are primitives named so. */
static bool is_view(const building *q, const anfi_str *name) {
  const uint64_t *at = find(&q->b->nodes, name);
  at = at ? find(&q->b->prims, ((const anfi_mi_node *)(uintptr_t)*at)->op) : NULL;
  const anfi_str *op = at ? ((const anfi_mi_prim *)(uintptr_t)*at)->op : NULL;
  return op && op->len > 4 && strcmp(op->s + op->len - 4, "View") == 0;
}

static const anfi_traced *in_place(building *q, const anfi_mi_node *n, const anfi_mi_prim *p,
                                   const anfi_traced **in) {
  bool ordered = is_monad(q, n->in.at[n->in.n - 1]); // the state is none of its inputs
  if (is_view(q, n->in.at[0]))
    return fail_node(q->b, n, "changes a view of another value:", n->in.at[0]->s);
  for (size_t i = 0; i < n->in.n; i++)
    if (slot_of(q, n, i) >= 0) in[i] = q->state->item[slot_of(q, n, i)];
  const anfi_traced *r = anfi_mi_primitive(q->b, p, n->in.n - ordered, in);
  if (r) *anfi_map_at(&q->changed, anfi_key(n->in.at[0])) = 1;
  return r ? r->item[0] : NULL;
}

/* Effects on parameters: the last input is the state before, (result, new values..) what the primitive gives. */
static const anfi_traced *writing(building *q, const anfi_mi_node *n, const anfi_mi_prim *p,
                                  const anfi_traced **in, writer_map *writers) {
  anfi_trace *t = q->b->t;
  size_t last = n->in.n - 1;
  const anfi_traced *before = in[last], **after = NULL;
  bool ordered = is_monad(q, n->in.at[last]);
  if (may_write_values(p) && slot_of(q, n, 0) < 0) return in_place(q, n, p, in);
  for (size_t i = 0; i < last; i++)
    if (p->writes >> i & 1 && slot_of(q, n, i) < 0)
      return fail_node(q->b, n, "assigns to what is no parameter:", n->in.at[i]->s);
  if (!q->threads || !ordered)
    return (void)anfi_fail(t->cx, t->loc, ANF_E1151, "an assignment without a state"), NULL;
  for (size_t i = 0; i < last; i++)
    if (slot_of(q, n, i) >= 0) in[i] = before->item[slot_of(q, n, i)];
  const anfi_traced *r = anfi_mi_primitive(q->b, p, last, in);
  if (!r) return NULL;
  after = ANFI_NEW_N(t->arena, const anfi_traced *, before->n + 1);
  for (size_t i = 0; i < before->n; i++) after[i] = before->item[i];
  for (size_t i = 0, k = 1; i < last; i++)
    if (p->writes >> i & 1 && slot_of(q, n, i) >= 0) after[slot_of(q, n, i)] = r->item[k++];
    else if (p->writes >> i & 1) k++;
  const anfi_traced *state = anfi_traced_tuple(t, before->n, after);
  if (!state || !assigns(q, before, state)) return NULL;
  anfi_push(t->arena, &writers->all, new_writer(q, n, writers, before, state));
  const anfi_mi_attr *stated = n->stated; // (new values..) where there are several
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
  if (!is_monad(q, n->in.at[0])) return u;
  *anfi_map_at(&q->monads, anfi_key(n->name)) = 1;
  if (!q->threads) return u;
  const anfi_traced **after = ANFI_NEW_N(t->arena, const anfi_traced *, u->n + 1);
  memcpy(after, u->item, u->n * sizeof *after);
  for (size_t i = 1; i < n->in.n; i++)
    for (writer *w = writer_of(writers, n->in.at[i]); w; w = w->more) {
      for (size_t k = 0; k < u->n; k++)
        if (w->after->item[k] != w->before->item[k]) after[k] = w->after->item[k];
      *w->merged = true;
    }
  return anfi_traced_tuple(t, u->n, after);
}

/* Load(p, U) and Depend(p, U): the value of a parameter in that state. */
static const anfi_traced *loaded(building *q, const anfi_mi_node *n, const anfi_traced *const *in) {
  int slot = slot_of(q, n, 0);
  return slot >= 0 && n->in.n > 1 && is_monad(q, n->in.at[1]) ? in[1]->item[slot] : in[0];
}

/* Function values that carry a state: Partial has it among its arguments, a choice has that of its branches. */
static bool carry_state(building *q, const anfi_mi_node *n, const anfi_mi_prim *p,
                        const anfi_traced **in) {
  const anfi_traced *state = NULL;
  bool partial = p->role == MI_ROLE_Partial;
  for (size_t i = 0; i < n->in.n; i++) {
    bool monad = is_monad(q, n->in.at[i]);
    const uint64_t *at = find(&q->bound, n->in.at[i]);
    const anfi_traced *has = monad && partial ? in[i]
                             : at             ? (const anfi_traced *)(uintptr_t)*at
                                              : NULL;
    int slot = slot_of(q, n, i);
    if (has && state && state != has)
      return anfi_fail(q->b->t->cx, q->b->t->loc, ANF_E1186, n->name->s);
    if (has) state = has;
    if (partial && (monad || slot >= 0))
      in[i] = monad ? anfi_traced_none(q->b->t) : q->state->item[slot];
  }
  if (state) *anfi_map_at(&q->bound, anfi_key(n->name)) = anfi_key(state);
  return true;
}

static const anfi_traced *primitive(building *q, const anfi_mi_node *n, const anfi_mi_prim *p,
                                    writer_map *writers) {
  anfi_mi_role role = p->role;
  bool passes = role >= MI_ROLE_Depend && role <= MI_ROLE_TupleGetItem;
  bool carries = role >= MI_ROLE_Depend && role != MI_ROLE_TupleGetItem;
  const anfi_traced **in;
  if (!inputs(q, n, &in)) return NULL;
  if (role == MI_ROLE_UpdateState && n->in.n) return updated(q, n, in, writers);
  if (role == MI_ROLE_Load && n->in.n == 2) return loaded(q, n, in);
  if (q->threads && passes) pass_writers(q, n, writers);
  if (q->threads && carries && !carry_state(q, n, p, in)) return NULL;
  if (role == MI_ROLE_Depend && n->in.n) return loaded(q, n, in);
  if (!p->form && p->same == ANF_OP_NONE && p->own == ANF_OP_NONE) // UpdateState or Depend
    return (void)anfi_fail(q->b->t->cx, loc_of(q->b), ANF_E1591, n->name->s, p->op->s, n->in.n),
           NULL;
  if (!p->writes) return anfi_mi_primitive(q->b, p, n->in.n, in);
  if (!n->in.n) return fail_node(q->b, n, "assigns to no parameter:", p->op->s);
  return writing(q, n, p, in, writers);
}

static bool takes_as_many(anfi_mi_build *b, const anfi_mi_node *n, const anfi_str *graph) {
  size_t takes = (size_t)*find(&b->ninput, graph);
  return takes == n->in.n ||
         anfi_fail(b->t->cx, loc_of(b), ANF_E1590, n->name->s, graph->s, takes, n->in.n);
}

static const anfi_traced *traced(building *q, const anfi_mi_node *n, writer_map *writers) {
  anfi_mi_build *b = q->b;
  if (strcmp(n->op->s, "Constant") == 0) return constant(q, n);
  const anfi_str *s = n->op;
  const uint64_t *at;
  if ((at = find(&b->prims, s))) {
    const anfi_mi_prim *p = (const anfi_mi_prim *)(uintptr_t)*at;
    return as_stated(b, n, p, primitive(q, n, p, writers));
  }
  if ((at = find(&b->graphs, s)))
    return takes_as_many(b, n, s)
               ? call_of(q, n, s, anfi_graph_value((anf_graph *)(uintptr_t)*at), writers)
               : NULL;
  if ((at = find(&b->values, s)))
    return call_of(q, n, s, ((const anfi_traced *)(uintptr_t)*at)->node, writers);
  return fail_node(b, n, "calls", s->s);
}

static bool graph_nodes(building *q) {
  anfi_mi_build *b = q->b;
  writer_map writers = {0};
  anfi_map_init(&writers.of, b->t->arena);
  b->t->to = q->to;
  b->t->loc = loc_of(b);
  for (size_t i = 0; i < q->g->nodes.n; i++) {
    const anfi_mi_node *n = q->g->nodes.at[i];
    if (!i || n->domain != q->g->nodes.at[i - 1]->domain)
      b->t->debug = anfi_debug_new(
          b->m, (anfi_debug){.scope = anfi_intern(&b->m->strings, n->domain->s, n->domain->len)});
    b->effect = n->effect;
    const anfi_traced *x = with_type(b, n, traced(q, n, &writers));
    if (!x || !bind(b, n->name, x))
      return anfi_note(b->t->cx, loc_of(b), "in the node %s, %s", n->name->s, n->op->s), false;
  }
  return all_merged(q, &writers);
}

/* A result that denotes a parameter, or has such items, has their values at the end. As deep as tuples nest. */
static const anfi_traced * final(building *q, const anfi_mi_node *at, const anfi_str *name) {
  const anfi_mi_build *b = q->b;
  int slot = q->threads ? anfi_mi_slot(b, name) : -1;
  const anfi_traced *x = slot >= 0 ? q->state->item[slot] : value_of(q, at, name);
  const uint64_t *made = find(&b->nodes, anfi_mi_root(b, name));
  const anfi_mi_node *n = made ? (const anfi_mi_node *)(uintptr_t)*made : NULL;
  const uint64_t *p = n ? find(&b->prims, n->op) : NULL;
  bool tuple = p && ((const anfi_mi_prim *)(uintptr_t)*p)->role == MI_ROLE_MakeTuple;
  if (slot >= 0 || !q->threads || !tuple || !x) return x;
  const anfi_traced **item = ANFI_NEW_N(b->t->arena, const anfi_traced *, n->in.n + 1);
  for (size_t i = 0; i < n->in.n; i++)
    if (!(item[i] = final(q, at, n->in.at[i]))) return NULL;
  return anfi_traced_tuple(b->t, n->in.n, item);
}

static const anfi_traced *result_of(building *q) {
  const anfi_mi_graph *g = q->g;
  static const anfi_mi_node none = {0};
  const anfi_traced **out = ANFI_NEW_N(q->b->t->arena, const anfi_traced *, g->out.n + 1);
  anfi_mi_node at = none;
  at.name = g->name;
  for (size_t i = 0; i < g->out.n; i++)
    if (!(out[i] = final(q, &at, g->out.at[i].name))) return NULL;
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
    if (anfi_mi_is_monad(in)) *anfi_map_at(&q->monads, anfi_key(in->name)) = 1;
    else if (!bind(q->b, in->name, taken_apart(q->b, anfi_traced_node(q->b->t, p, type))))
      return false;
  }
  if (!declared && q->threads) q->first = q->state = parameter_state(q);
  for (size_t i = 0; i < q->g->in.n; i++)
    if (is_monad(q, q->g->in.at[i].name) && !bind(q->b, q->g->in.at[i].name, q->first))
      return false;
  return q->first != NULL;
}

/* ---- the module ---- */

static anf_graph *new_graph(anfi_mi_build *b, const char *name) {
  return anfi_graph_new(b->m, anfi_intern_z(&b->m->strings, name));
}

static void building_init(building *q) {
  anfi_map_init(&q->monads, q->b->t->arena);
  anfi_map_init(&q->bound, q->b->t->arena);
  anfi_map_init(&q->changed, q->b->t->arena);
  q->first = q->state = anfi_traced_none(q->b->t);
  q->b->t->to = q->to;
}

static bool function(anfi_mi_build *b, const anfi_mi_graph *g) {
  building q = {.b = b,
                .g = g,
                .to = (anf_graph *)(uintptr_t)*find(&b->graphs, g->name),
                .threads = b->nthreaded != 0};
  building_init(&q);
  if (!graph_inputs(&q, false) || !graph_nodes(&q)) return false;
  const anfi_traced *r = result_of(&q);
  anf_node *n = r ? anfi_traced_to_node(b->t, r) : NULL;
  anf_node *both[2] = {n && q.threads ? state_node(b, q.to, q.state) : NULL, n};
  if (!n || (q.threads && !both[0])) return false;
  anfi_set_result(q.to, q.threads ? anfi_apply(q.to, ANF_OP_MakeTuple, NULL, 2, both) : n);
  return true;
}

static const anfi_traced *first_state(anfi_mi_build *b) {
  const anfi_traced **item = ANFI_NEW_N(b->t->arena, const anfi_traced *, b->nslot + 1);
  const anfi_mi_graph *g = b->model->main;
  for (size_t i = 0; i < g->params.n; i++)
    if (b->slot[i] >= 0)
      item[b->slot[i]] = (const anfi_traced *)(uintptr_t)*find(&b->values, g->params.at[i]->name);
  return anfi_traced_tuple(b->t, b->nslot, item);
}

/* The parameters after the run: those that were assigned to are the state's. */
static anf_node *new_params(building *q, const anf_type *record) {
  anfi_mi_build *b = q->b;
  anf_node **item = ANFI_NEW_N(b->t->arena, anf_node *, record->n + 1);
  for (uint32_t i = 0; i < record->n; i++) {
    const anfi_str *name = q->g->params.at[i]->name;
    const anfi_traced *x = b->slot[i] >= 0
                               ? q->state->item[b->slot[i]]
                               : (const anfi_traced *)(uintptr_t)*find(&b->values, name);
    if (!(item[i] = anfi_traced_to_node(b->t, x))) return NULL;
  }
  return record_of(b, record, item);
}

static bool net(anfi_mi_build *b, anf_graph *to, const anf_type *record) {
  const anfi_mi_graph *g = b->model->main;
  building q = {.b = b, .g = g, .to = to};
  building_init(&q);
  anf_node *p = record->n ? anfi_param(to, anfi_intern_z(&b->m->strings, "params"), record) : NULL;
  b->record = p;
  for (size_t i = 0; i < g->params.n; i++) {
    const anfi_traced *x = anfi_traced_node(b->t, field_of(b, p, record, i), record->items[i]);
    if (!bind(b, g->params.at[i]->name, x)) return false;
    *anfi_map_at(&b->params, anfi_key(g->params.at[i]->name)) = i + 1;
  }
  anfi_mi_find_state(b);
  q.threads = b->nslot != 0;
  if (q.threads && !(q.first = q.state = first_state(b))) return false;
  if (!graph_inputs(&q, true) || !graph_nodes(&q)) return false;
  const anfi_traced *r = result_of(&q);
  anf_node *n = r ? anfi_traced_to_node(b->t, r) : NULL;
  anf_node *both[2] = {b->nslot && n ? new_params(&q, record) : NULL, n};
  if (!n || (b->nslot && !both[0])) return false;
  anfi_set_result(to, b->nslot ? anfi_apply(to, ANF_OP_MakeTuple, NULL, 2, both) : n);
  return true;
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

/* A primitive that is not supported, and who has it: the first node, and how many. */
typedef struct {
  const char *name;
  const anfi_mi_node *first;
  size_t count;
} unknown;
typedef ANFI_VEC(unknown) unknowns;

/* By names of operators, so that one with several sets of attributes is one; `at`: name -> 1 + index. */
static void find_unknown(anfi_mi_build *b, anfi_map *at, unknowns *all) {
  for (size_t i = 0; i < b->model->prims.n; i++) {
    anfi_mi_prim *p = b->model->prims.at[i];
    if (anfi_mi_resolve(b, p)) continue;
    uint64_t *k = anfi_map_at(at, anfi_key(p->op));
    if (*k) continue;
    anfi_push(b->t->arena, all, ((unknown){p->op->s, NULL, 0}));
    *k = all->n;
  }
}

static void find_users(const anfi_mi_build *b, const anfi_map *at, const unknowns *all) {
  for (size_t i = 0; all->n && i <= b->model->functions.n; i++) {
    const anfi_mi_graph *g = i ? b->model->functions.at[i - 1] : b->model->main;
    for (size_t k = 0; k < g->nodes.n; k++) {
      const uint64_t *p = find(&b->prims, g->nodes.at[k]->op);
      p = p ? find(at, ((const anfi_mi_prim *)(uintptr_t)*p)->op) : NULL;
      unknown *u = p ? &all->at[*p - 1] : NULL;
      if (u && !u->count++) u->first = g->nodes.at[k];
    }
  }
}

static void find_maps(anfi_mi_build *b, unknowns *all) {
  for (size_t i = 0; i <= b->model->functions.n; i++) {
    const anfi_mi_graph *g = i ? b->model->functions.at[i - 1] : b->model->main;
    for (size_t k = 0; k < g->maps.n; k++) {
      const char *name = anfi_sprintf(b->t->arena, "MapParameter of %s", g->maps.at[k]->s);
      anfi_push(b->t->arena, all, ((unknown){name, NULL, 0}));
    }
  }
}

static void tell_unknown(anfi_mi_build *b, const unknown *u) {
  anfi_fail(b->t->cx, loc_of(b), ANF_E1166, u->name);
  if (!u->first) return;
  const char *more =
      u->count > 1 ? anfi_sprintf(b->t->arena, ", and in %zu more", u->count - 1) : "";
  anfi_note(b->t->cx, loc_of(b), "in the node %s, %s%s", u->first->name->s, u->first->op->s, more);
}

/* The rest in one message, where a message each would be more than are kept. */
static void tell_rest(anfi_mi_build *b, const unknown *u, size_t n) {
  anf_text t = {0};
  anfi_text_of(&t, b->t->cx);
  for (size_t i = 0; i < n; i++) {
    if (i) anfi_put(&t, ", ", 2);
    anfi_put(&t, u[i].name, strlen(u[i].name));
    if (!u[i].first) continue;
    const char *where = anfi_sprintf(b->t->arena, " in the node %s", u[i].first->name->s);
    anfi_put(&t, where, strlen(where));
  }
  anfi_put(&t, "", 1);
  const char *all = anfi_sprintf(b->t->arena, "%s", t.text);
  anf_text_free(&t);
  anfi_fail(b->t->cx, loc_of(b), ANF_E1166, all);
}

/* Reports all unknown primitives at once. */
static bool check_primitives(anfi_mi_build *b) {
  anfi_map at;
  unknowns all = {0};
  anfi_map_init(&at, b->t->arena);
  find_unknown(b, &at, &all);
  find_users(b, &at, &all);
  find_maps(b, &all);
  size_t most = b->t->cx->max_errors, each = all.n <= most ? all.n : most - 1;
  for (size_t i = 0; i < each; i++) tell_unknown(b, &all.at[i]);
  if (each < all.n) tell_rest(b, all.at + each, all.n - each);
  return !all.n;
}

static bool twice(anfi_mi_build *b, anfi_map *names, const anfi_str *name) {
  uint64_t *at = anfi_map_at(names, anfi_key(name));
  if (*at) return !anfi_fail(b->t->cx, loc_of(b), ANF_E1561, name->s);
  *at = 1;
  return false;
}

/* Graphs and primitives have names of their own in the whole file. */
static bool check_names(anfi_mi_build *b) {
  const anfi_mi_model *m = b->model;
  anfi_map ops;
  anfi_map_init(&ops, b->t->arena);
  for (size_t i = 0; i < m->prims.n; i++)
    if (twice(b, &ops, m->prims.at[i]->name)) return false;
  for (size_t i = 0; i <= m->functions.n; i++)
    if (twice(b, &ops, i ? m->functions.at[i - 1]->name : m->main->name)) return false;
  return true;
}

static void make_maps(anfi_mi_build *b) {
  anfi_arena *a = b->t->arena;
  anfi_map *all[] = {&b->graphs, &b->ninput, &b->prims, &b->values, &b->params,
                     &b->refs,   &b->nodes,  &b->roots, &b->bodies};
  for (size_t i = 0; i < ANFI_LEN(all); i++) anfi_map_init(all[i], a);
  for (size_t i = 0; i < b->model->prims.n; i++)
    *anfi_map_at(&b->prims, anfi_key(b->model->prims.at[i]->name)) =
        anfi_key(b->model->prims.at[i]);
  *anfi_map_at(&b->ninput, anfi_key(b->model->main->name)) = b->model->main->in.n;
  for (size_t i = 0; i < b->model->functions.n; i++) {
    const anfi_mi_graph *f = b->model->functions.at[i];
    anf_graph *g = new_graph(b, f->name->s);
    g->flags |= ANFI_GRAPH_PRIVATE;
    *anfi_map_at(&b->graphs, anfi_key(f->name)) = anfi_key(g);
    *anfi_map_at(&b->ninput, anfi_key(f->name)) = f->in.n;
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
  anf_value *record = check_names(b) && check_primitives(b) ? params_value(b) : NULL;
  if (!record || !net(b, inner, record->type)) return false;
  for (size_t i = 0; i < model->functions.n; i++)
    if (!function(b, model->functions.at[i])) return false;
  entries(b, main, inner, record);
  return !anfi_failed(model->cx) &&
         anfi_verify(out); // graphs may use values of graphs that do not enclose them
}
