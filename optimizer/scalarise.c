// SPDX-License-Identifier: Apache-2.0
/* Tuples across calls: a parameter that is a tuple becomes one parameter an item, in all graphs and
 * calls of a closed group; so do records, whose fields are taken by name. One level a round: the
 * pipeline repeats the pass until no tuple is passed. What is made of the items inside, and taken
 * apart outside, the rules remove. Results are tuples of the call and stay: `need` and the rules
 * deal with their items. */
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

bool anfi_opt_scalarise(anfi_pass *p) {
  scalarising s = {p->m, anfi_scratch(p->m->cx)};
  anfi_groups gs;
  if (!anfi_has_calls(p->m)) return true;
  if (!anfi_clear_dead(p->m)) return false;
  anfi_find_groups(p->m, s.a, &gs);
  for (uint32_t i = 0; i < gs.n; i++)
    if (!gs.at[i].open && gs.at[i].graphs.n) split_group(&s, p, &gs.at[i]);
  return true;
}
