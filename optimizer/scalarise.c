// SPDX-License-Identifier: Apache-2.0
/* Tuples across calls become separate parameters and results (scalar replacement, argument promotion).
 *   f(t) = t[0] * t[1];  f((a, b))                   ->  f(u, v) = u * v;  f(a, b)
 * Records likewise. A result class (group.h) becomes flat: a nested tuple is spliced in, a one-item tuple is
 * its item. One level per run; the pipeline repeats the pass. The MakeTuple and TupleGet left at either end
 * cancel by rules/tuple.def. MakeTuple of all items of a call in result position is the call itself. */
#include "optimizer/group.h"

typedef struct {
  anf_module *m;
  anfi_arena *a;
} scalarising;

static bool is_nest(const anf_type *t) {
  return t && (t->kind == ANF_TYPE_TUPLE || t->kind == ANF_TYPE_RECORD) && t->n <= 64;
}

static anf_node *take(const scalarising *s, anf_graph *g, anf_node *t, const anf_type *type,
                      uint32_t i) {
  if (anfi_is_op(t, ANF_OP_MakeTuple) || anfi_is_op(t, ANF_OP_MakeRecord)) return t->in[i].def;
  bool tuple = type->kind == ANF_TYPE_TUPLE;
  anf_value *k = tuple ? anfi_value_new_i64(s->m->cx, ANF_INT, i)
                       : anfi_value_new_string(s->m->cx, type->names[i]->s, type->names[i]->len);
  anfi_opcode op = tuple ? ANF_OP_TupleGet : ANF_OP_RecordGet;
  anf_node *n = anfi_apply(g, op, anfi_attrs_one(s->m, op, k), 1, &t);
  n->type = type->items[i];
  n->debug = t->debug;
  return n;
}

static anf_node *make(const scalarising *s, anf_graph *g, const anf_type *type,
                      anf_node *const *items) {
  const anfi_attrs *at = NULL;
  if (type->kind == ANF_TYPE_RECORD) {
    anf_value *names = anfi_value_new_tuple(s->m->cx, type->n);
    anfi_value_guard(names);
    for (uint32_t i = 0; i < type->n; i++)
      names->u.item[i] = anfi_value_new_string(s->m->cx, type->names[i]->s, type->names[i]->len);
    anfi_value_unguard(names);
    at = anfi_attrs_one(s->m, ANF_OP_MakeRecord, names);
  }
  anf_node *n = anfi_apply(g, type->kind == ANF_TYPE_TUPLE ? ANF_OP_MakeTuple : ANF_OP_MakeRecord,
                           at, type->n, items);
  n->type = type;
  return n;
}

/* Parameter `at` of g becomes its items; inside, they make the tuple that it was. */
static void split_param(const scalarising *s, anf_graph *g, size_t at, const anf_type *type) {
  anf_node *p = g->params.at[at], **items = anfi_insert_params(g, at + 1, type->n, type->items);
  for (uint32_t i = 0; i < type->n; i++) items[i]->debug = p->debug;
  if (anfi_is_used(p)) anfi_replace(p, make(s, g, type, items));
  anfi_remove_param(g, at);
}

static void split_argument(const scalarising *s, anf_node **slot, size_t at, const anf_type *type) {
  anf_node *call = *slot, **in = ANFI_NEW_N(s->a, anf_node *, call->nin + type->n);
  size_t n = 0;
  for (uint32_t i = 0; i < call->nin; i++) {
    if (i != at + 1) in[n++] = call->in[i].def;
    for (uint32_t k = 0; i == at + 1 && k < type->n; k++)
      in[n++] = take(s, call->graph, call->in[i].def, type, k);
  }
  anf_node *c = anfi_call(call->graph, n, in);
  c->type = call->type;
  c->debug = call->debug;
  anfi_substitute(call, c);
  *slot = c;
}

static bool agrees(const anfi_group *g, size_t at, const anf_type *type) {
  for (size_t k = 0; k < g->graphs.n; k++)
    if (g->graphs.at[k]->params.n <= at || g->graphs.at[k]->params.at[at]->type != type)
      return false;
  for (size_t k = 0; k < g->calls.n; k++)
    if (g->calls.at[k]->nin <= at + 1) return false;
  return true;
}

static void split_group(const scalarising *s, anfi_pass *p, anfi_group *g) {
  for (size_t at = g->graphs.at[0]->params.n; at-- > 0;) {
    const anf_type *type = g->graphs.at[0]->params.at[at]->type;
    if (!is_nest(type) || !agrees(g, at, type) || !anfi_rewrite(p)) continue;
    for (size_t k = 0; k < g->graphs.n; k++) split_param(s, g->graphs.at[k], at, type);
    for (size_t k = 0; k < g->calls.n; k++) split_argument(s, &g->calls.at[k], at, type);
  }
}

/* ---- results ---- */

enum { MANY = 4096 };

/* The number of items of a flat result; 0: it is as it should be. */
static size_t flat_items(const anf_type *t) {
  size_t n = 0;
  bool nested = false;
  for (uint32_t i = 0; i < t->n; i++) {
    nested |= is_nest(t->items[i]);
    n += is_nest(t->items[i]) ? t->items[i]->n : 1;
  }
  return n <= MANY && (nested || n == 1) ? n : 0;
}

static const anf_type *flat_type(const scalarising *s, const anf_type *t, size_t count) {
  const anf_type **items = ANFI_NEW_N(s->a, const anf_type *, count + 1);
  size_t n = 0;
  for (uint32_t i = 0; i < t->n; i++) {
    const anf_type *k = t->items[i];
    if (!is_nest(k)) items[n++] = k;
    for (uint32_t j = 0; is_nest(k) && j < k->n; j++) items[n++] = k->items[j];
  }
  return n == 1 ? items[0] : anfi_type_tuple(s->m->cx, n, items);
}

static void flatten_result(const scalarising *s, anf_graph *g, const anf_type *from,
                           const anf_type *to, size_t count) {
  anf_node *r = g->result, **in = ANFI_NEW_N(s->a, anf_node *, count + 1);
  size_t n = 0;
  for (uint32_t i = 0; i < from->n; i++) {
    const anf_type *t = from->items[i];
    anf_node *x = anfi_tuple_item(g, r, i);
    if (!is_nest(t)) in[n++] = x;
    for (uint32_t j = 0; is_nest(t) && j < t->n; j++) in[n++] = take(s, g, x, t, j);
  }
  anfi_set_result(g, count == 1 ? in[0] : make(s, g, to, in));
}

/* The result of a call, of type `from`, from that of the call that takes its place. */
static anf_node *whole(const scalarising *s, anf_node *call, const anf_type *from, size_t count) {
  anf_graph *g = call->graph;
  anf_node **in = ANFI_NEW_N(s->a, anf_node *, count + 1),
           **item = ANFI_NEW_N(s->a, anf_node *, from->n + 1u);
  for (size_t i = 0; i < count; i++) in[i] = count == 1 ? call : anfi_tuple_item(g, call, i);
  for (uint32_t i = 0; i < from->n; i++) {
    bool nest = is_nest(from->items[i]);
    item[i] = nest ? make(s, g, from->items[i], in) : in[0];
    in += nest ? from->items[i]->n : 1;
  }
  return make(s, g, from, item);
}

static void flatten_call(const scalarising *s, anf_node *call, const anf_type *from,
                         const anf_type *to, size_t count) {
  anf_node **in = ANFI_NEW_N(s->a, anf_node *, call->nin);
  anf_graph *g = call->graph;
  for (uint32_t i = 0; i < call->nin; i++) in[i] = call->in[i].def;
  anf_node *by = anfi_call(g, call->nin, in);
  by->type = to;
  by->debug = call->debug;
  if (call->uses) {
    anf_node *t = whole(s, by, from, count);
    while (call->uses)
      anfi_set_input(call->uses->user, (size_t)(call->uses - call->uses->user->in), t);
  }
  anfi_substitute(call, by); // as a result, which is one of the class too
}

/* Of a class; `to` is NULL where it stays. */
typedef struct {
  const anf_type *from, *to;
  size_t count;
} flattening;

static void find_flat(const scalarising *s, const anfi_groups *gs, flattening *of) {
  for (uint32_t c = 0; c < gs->n; c++) {
    const anfi_group *class = &gs->at[c];
    if (class->result_class != c || class->result_open) continue;
    const anf_type *t = class->in_class.at[0]->result->type;
    if (t && t->kind == ANF_TYPE_TUPLE && flat_items(t)) of[c].from = t;
    for (size_t i = 0; i < class->in_class.n; i++)
      if (class->in_class.at[i]->result->type != t) of[c].from = NULL;
  }
  for (uint32_t k = 0; k < gs->n; k++)
    for (size_t i = 0; i < gs->at[k].calls.n; i++) {
      flattening *f = &of[gs->at[k].result_class];
      if (gs->at[k].calls.at[i]->type != f->from) f->from = NULL;
    }
  for (uint32_t c = 0; c < gs->n; c++)
    if (of[c].from) {
      of[c].count = flat_items(of[c].from);
      of[c].to = flat_type(s, of[c].from, of[c].count);
    }
}

static void flatten_results(const scalarising *s, anfi_pass *p, const anfi_groups *gs) {
  flattening *of = ANFI_NEW_N(s->a, flattening, gs->n + 1u);
  find_flat(s, gs, of);
  for (uint32_t c = 0; c < gs->n; c++)
    if (of[c].to && !anfi_rewrite(p)) of[c].to = NULL;
  for (uint32_t k = 0; k < gs->n; k++) {
    const flattening *f = &of[gs->at[k].result_class];
    for (size_t i = 0; f->to && i < gs->at[k].calls.n; i++)
      flatten_call(s, gs->at[k].calls.at[i], f->from, f->to, f->count);
  }
  for (uint32_t c = 0; c < gs->n; c++)
    for (size_t i = 0; of[c].to && i < gs->at[c].in_class.n; i++) {
      anf_graph *g = gs->at[c].in_class.at[i];
      if (g->result->type == of[c].from) flatten_result(s, g, of[c].from, of[c].to, of[c].count);
    }
}

/* The call of which the result of g has all items in their order. g is not tied to a class that must
 * stay as it is, unless it must itself. */
static anf_node *handed_on(const anfi_groups *gs, const anf_graph *g) {
  const anf_node *r = g->result;
  const anfi_group *from = &gs->at[gs->at[gs->of_graph[g->id]].result_class];
  anf_node *t =
      anfi_is_op(r, ANF_OP_MakeTuple) && r->nin && anfi_is_op(r->in[0].def, ANF_OP_TupleGet)
          ? r->in[0].def->in[0].def
          : NULL;
  const anfi_group *to = t ? anfi_group_of_call(gs, t) : NULL;
  if (!to || t->type != r->type) return NULL;
  if (gs->at[to->result_class].result_open && !from->result_open) return NULL;
  for (uint32_t i = 0; i < r->nin; i++) {
    const anf_node *get = r->in[i].def;
    if (!anfi_is_op(get, ANF_OP_TupleGet) || get->in[0].def != t) return NULL;
    int64_t k = -1;
    anf_ctx *cx = t->graph->module->cx;
    anfi_value_is_int(anfi_attr_value(cx, ANF_OP_TupleGet, get->u.attrs, 0), &k);
    if (k != (int64_t)i) return NULL;
  }
  return t;
}

/* Is it called alone, by the program or by the host? Steps of loops make their tuples. */
static bool is_called(const anfi_groups *gs, const anf_graph *g) {
  return !gs->at[gs->of_graph[g->id]].open || !g->self || !g->self->uses;
}

static void hand_on(anfi_pass *p, const anfi_groups *gs) {
  for (size_t i = 0; i < p->m->graphs.n; i++) {
    anf_graph *g = p->m->graphs.at[i];
    anf_node *t = g && g->result && is_called(gs, g) ? handed_on(gs, g) : NULL;
    if (t && anfi_rewrite(p)) anfi_set_result(g, t);
  }
}

bool anfi_opt_scalarise(anfi_pass *p) {
  scalarising s = {p->m, anfi_scratch(p->m->cx)};
  anfi_groups gs;
  if (!anfi_has_calls(p->m)) return true;
  if (!anfi_clear_dead(p->m)) return false;
  anfi_find_groups(p->m, s.a, &gs);
  for (uint32_t i = 0; i < gs.n; i++)
    if (!gs.at[i].open && gs.at[i].graphs.n) split_group(&s, p, &gs.at[i]);
  flatten_results(&s, p, &gs);
  hand_on(p, &gs);
  return true;
}
