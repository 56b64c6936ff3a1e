// SPDX-License-Identifier: Apache-2.0
/* The leaves of the state in the optimised graph of a step: the nodes that read them, and the tuples and records of the result
 * with their new values.
 *   step(p, x) = ({w: p.w - d}, l)     leaf w: read by RecordGet(p, w), its new value is p.w - d
 * Transforms that give each rank a part (shard.c, split.c) change their types. */
#include "step/step.h"

#include "optimizer/opt.h"

static bool has(const anfi_map *m, const anf_node *n) { return anfi_map_find(m, n->id) != NULL; }
static void put(anfi_map *m, const anf_node *n, uint64_t x) { *anfi_map_at(m, n->id) = x; }

static bool is_made(const anf_node *n) {
  return anfi_is_op(n, ANF_OP_MakeTuple) || anfi_is_op(n, ANF_OP_MakeRecord);
}

/* Types nest no deeper than inference allows. */
static size_t count_leaves(const anf_type *t) {
  size_t n = t->kind == ANF_TYPE_TENSOR;
  for (uint32_t i = 0; anfi_is_nest(t) && i < t->n; i++) n += count_leaves(t->items[i]);
  return n;
}

size_t anfi_state_count(size_t nstate, const anf_type *const *param) {
  size_t n = 0;
  for (size_t i = 0; i < nstate; i++) n += count_leaves(param[i]);
  return n;
}

static void put_types(const anf_type *t, const anf_type **out, size_t *at) {
  if (t->kind == ANF_TYPE_TENSOR) out[(*at)++] = t;
  for (uint32_t i = 0; anfi_is_nest(t) && i < t->n; i++) put_types(t->items[i], out, at);
}

const anf_type **anfi_state_types(anfi_arena *a, size_t nstate, const anf_type *const *param) {
  const anf_type **out = ANFI_NEW_N(a, const anf_type *, anfi_state_count(nstate, param) + 1);
  size_t at = 0;
  for (size_t i = 0; i < nstate; i++) put_types(param[i], out, &at);
  return out;
}

static void add_leaves(anfi_state *s, const anf_type *t, anf_node *next) {
  bool made = next && anfi_is_nest(t) && has(&s->tree, next);
  if (t->kind == ANF_TYPE_TENSOR)
    anfi_push(s->a, &s->leaf, ((anfi_state_leaf){.type = t, .next = next}));
  for (uint32_t i = 0; anfi_is_nest(t) && i < t->n; i++)
    add_leaves(s, t->items[i], made ? next->in[i].def : NULL);
}

/* The result's tuples and records that nothing else reads. */
static void find_tree(anfi_state *s) {
  ANFI_VEC(anf_node *) st = {0};
  anfi_push(s->a, &st, s->g->result);
  while (st.n) {
    anf_node *n = st.at[--st.n];
    bool ours = is_made(n) && !has(&s->tree, n);
    for (const anfi_use *u = n->uses; u && ours; u = u->next) ours = has(&s->tree, u->user);
    if (!ours) continue;
    put(&s->tree, n, 1);
    for (uint32_t i = 0; i < n->nin; i++) anfi_push(s->a, &st, n->in[i].def);
  }
}

/* Item of a tuple or record that n takes; UINT32_MAX: none that is known. */
static uint32_t item_taken(const anfi_state *s, const anf_node *n) {
  bool tuple = anfi_is_op(n, ANF_OP_TupleGet);
  if (!tuple && !anfi_is_op(n, ANF_OP_RecordGet)) return UINT32_MAX;
  const anf_type *t = n->in[0].def->type;
  const anf_value *v = anfi_attr_value(s->cx, (anfi_opcode)n->op, n->u.attrs, 0);
  uint32_t i = 0;
  if (!v || !anfi_is_nest(t)) return UINT32_MAX;
  if (tuple) {
    int64_t k = anfi_get_i64(v, 0);
    return k >= 0 && k < (int64_t)t->n ? (uint32_t)k : UINT32_MAX;
  }
  while (i < t->n && strcmp(t->names[i]->s, v->u.text) != 0) i++;
  return i < t->n ? i : UINT32_MAX;
}

static void find_reads(anfi_state *s) {
  size_t at = 0;
  for (size_t i = 0; i < s->nstate; i++) {
    put(&s->read, s->g->params.at[i], at + 1);
    at += count_leaves(s->g->params.at[i]->type);
  }
  for (size_t i = 0; i < s->order.n; i++) {
    const anf_node *n = s->order.at[i];
    uint32_t k = item_taken(s, n);
    const uint64_t *of = k == UINT32_MAX ? NULL : anfi_map_find(&s->read, n->in[0].def->id);
    if (!of) continue;
    uint64_t first = *of;
    for (uint32_t j = 0; j < k; j++) first += count_leaves(n->in[0].def->type->items[j]);
    put(&s->read, n, first);
  }
}

bool anfi_state_find(anfi_state *s) {
  if (!s->nstate || !anfi_is_op(s->g->result, ANF_OP_MakeTuple)) return false;
  anfi_map_init(&s->read, s->a);
  anfi_map_init(&s->tree, s->a);
  find_tree(s);
  bool made = has(&s->tree, s->g->result);
  for (size_t i = 0; i < s->nstate; i++)
    add_leaves(s, s->g->params.at[i]->type, made ? s->g->result->in[i].def : NULL);
  find_reads(s);
  return true;
}

bool anfi_state_reads(const anfi_state *s, const anf_node *n) { return has(&s->read, n); }
bool anfi_state_is_result(const anfi_state *s, const anf_node *n) { return has(&s->tree, n); }

anfi_state_leaf *anfi_state_leaf_of(const anfi_state *s, const anf_node *n) {
  const uint64_t *k = n->type->kind == ANF_TYPE_TENSOR ? anfi_map_find(&s->read, n->id) : NULL;
  return k ? &s->leaf.at[*k - 1] : NULL;
}

void anfi_state_keep_whole(anfi_state *s, const anf_node *n) {
  size_t first = (size_t)*anfi_map_find(&s->read, n->id) - 1, count = count_leaves(n->type);
  for (size_t i = first; i < first + count; i++) s->leaf.at[i].part = NULL;
}

/* The type of a part of the state that begins with leaf *at. */
static const anf_type *type_with_parts(anfi_state *s, const anf_type *t, size_t *at) {
  if (t->kind == ANF_TYPE_TENSOR) {
    const anfi_state_leaf *l = &s->leaf.at[(*at)++];
    return l->part ? l->part : t;
  }
  if (!anfi_is_nest(t)) return t;
  const anf_type **item = ANFI_NEW_N(s->a, const anf_type *, t->n + 1);
  for (uint32_t i = 0; i < t->n; i++) item[i] = type_with_parts(s, t->items[i], at);
  return t->kind == ANF_TYPE_TUPLE ? anfi_type_tuple(s->cx, t->n, item)
                                   : anfi_type_record(s->cx, t->n, t->names, item);
}

void anfi_state_take_parts(anfi_state *s) {
  size_t at = 0;
  for (size_t i = 0; i < s->nstate; i++) {
    anf_node *p = s->g->params.at[i];
    p->type = type_with_parts(s, p->type, &at);
  }
  for (size_t i = 0; i < s->order.n; i++) {
    anf_node *n = s->order.at[i];
    const uint64_t *first = anfi_map_find(&s->read, n->id);
    size_t from = first ? (size_t)*first - 1 : 0;
    if (first && n->kind != ANFI_PARAM) n->type = type_with_parts(s, n->type, &from);
  }
}

/* The new value that begins with leaf *at of the state; past the state, the outputs. */
static anf_node *new_value(anfi_state *s, anf_node *n, size_t *at, anfi_state_value *value,
                           void *user) {
  const anf_type *t = n->type;
  if (t->kind == ANF_TYPE_TENSOR) {
    const anfi_state_leaf *l = *at < s->leaf.n ? &s->leaf.at[*at] : NULL;
    ++*at;
    return value(user, n, l);
  }
  if (!has(&s->tree, n)) return *at += count_leaves(t), value(user, n, NULL);
  anf_node **in = ANFI_NEW_N(s->a, anf_node *, n->nin + 1);
  const anf_type **item = ANFI_NEW_N(s->a, const anf_type *, n->nin + 1);
  for (uint32_t i = 0; i < n->nin; i++) {
    in[i] = new_value(s, n->in[i].def, at, value, user);
    item[i] = in[i]->type;
  }
  anf_node *r = anfi_apply(s->g, (anfi_opcode)n->op, n->u.attrs, n->nin, in);
  r->debug = n->debug;
  r->type = t->kind == ANF_TYPE_TUPLE ? anfi_type_tuple(s->cx, t->n, item)
                                      : anfi_type_record(s->cx, t->n, t->names, item);
  return r;
}

void anfi_state_give(anfi_state *s, anfi_state_value *value, void *user) {
  size_t at = 0;
  anfi_set_result(s->g, new_value(s, s->g->result, &at, value, user));
}
