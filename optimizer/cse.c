// SPDX-License-Identifier: Apache-2.0
/* Common subexpression elimination: nodes of one graph with the same op, attributes and inputs become one.
 *   a = x + y; b = x + y; c = a * b      ->  a = x + y; c = a * a
 * Nodes are visited in the order of their ids, mostly the order of evaluation; a node whose input has not been
 * visited waits for it, so inputs are unified before their users. Effectful nodes are left alone.
 *
 * Fast path: an equal node has the same inputs, so it is among the users of each; one input mostly has few
 * users, and scanning those is enough. Only nodes whose inputs are all constants or have many users are
 * hashed. A node found unique is clean (ir/worklist.h): later runs skip it until it changes.
 * INVARIANT: a visited node that no scan of a few users would find is in the map, if one of its inputs had
 * its users listed. */
#include "optimizer/opt.h"
#include "ir/worklist.h"

enum { FEW = 8 };

typedef struct {
  anf_node *node;
  uint32_t next; // input to look at
} visit;

typedef struct {
  /* the pass */
  anfi_pass *pass;
  anf_module *m;
  anfi_arena *a;
  /* representatives */
  anfi_map nodes;       // hash of a node -> the node, or the next free place
  anfi_map values;      // hash of a constant -> its representative VALUE
  anfi_map listed;      // ids of nodes with many users, which are in `nodes`
  bool listed_rootless; // so are nodes that use constants alone
  /* worklists */
  anfi_node_vec marked; // representatives, and CNodes that wait
  anfi_node_vec again;  // their inputs have become others after their turn
  ANFI_VEC(visit) waiting;
} table;

static void mark(table *t, anf_node *n) {
  anfi_push(t->a, &t->marked, n);
  n->flags |= ANFI_NODE_MARK;
}

static uint64_t hash_attrs(const anfi_attrs *at) {
  uint64_t h = 0;
  for (uint32_t k = 0; at && k < at->n; k++)
    h = anfi_hash_mix(h, at->at[k] == &anfi_from_node ? 1
                         : at->at[k]                  ? anfi_value_hash(at->at[k])
                                                      : 0);
  return h;
}

static anf_node *equal_value(table *t, anf_node *n) {
  for (uint64_t h = anfi_value_hash(n->u.value);; h++) {
    uint64_t *at = anfi_map_at(&t->values, h);
    anf_node *r = (anf_node *)(uintptr_t)*at;
    if (!r) *at = anfi_key(n);
    if (!r || anfi_value_same(r->u.value, n->u.value)) return r ? r : n;
  }
}

static bool is_data(const anf_node *n) { return n->op == ANF_OP_NONE && !anfi_value_graph(n); }

/* One VALUE node for equal constants, so that inputs mostly compare by pointer. */
static anf_node *representative(table *t, anf_node *n) {
  if ((n->flags & ANFI_NODE_MARK) || !is_data(n)) return n;
  anf_node *r = equal_value(t, n);
  if (r == n) mark(t, n);
  return r;
}

/* Few steps for each part, and one that spreads the bits at the end. */
static uint64_t stir(uint64_t h, uint64_t x) {
  h = (h ^ x) * UINT64_C(0x9e3779b97f4a7c15);
  return h ^ h >> 29;
}

/* Equal constants may be several nodes, where not all that use them had their turn in this run. */
static uint64_t hash_input(table *t, anf_node *n) {
  return anfi_key(n->kind == ANFI_VALUE ? representative(t, n) : n);
}

static uint64_t hash_node(table *t, const anf_node *n) {
  uint64_t h = n->kind * 65536u + n->op;
  if (n->kind == ANFI_APPLY && n->u.attrs) h = stir(h, hash_attrs(n->u.attrs));
  h = stir(stir(h, anfi_key(n->type)), anfi_key(n->graph));
  for (uint32_t i = 0; i < n->nin; i++) h = stir(h, hash_input(t, n->in[i].def));
  return anfi_hash_mix(h, n->nin);
}

static bool same_input(const anf_node *a, const anf_node *b) {
  if (a == b) return true;
  if (a->kind != ANFI_VALUE || b->kind != ANFI_VALUE || !is_data(a) || !is_data(b)) return false;
  return anfi_value_same(a->u.value, b->u.value);
}

static bool same_node(const anf_node *a, const anf_node *b) {
  if (a->kind != b->kind || a->op != b->op || a->nin != b->nin || a->type != b->type ||
      a->graph != b->graph)
    return false;
  for (uint32_t i = 0; i < a->nin; i++)
    if (!same_input(a->in[i].def, b->in[i].def)) return false;
  return a->kind != ANFI_APPLY || anfi_attrs_same(a->u.attrs, b->u.attrs);
}

static anf_node *first_equal(table *t, anf_node *n) {
  for (uint64_t h = hash_node(t, n);; h++) {
    uint64_t *at = anfi_map_at(&t->nodes, h);
    anf_node *r = (anf_node *)(uintptr_t)*at;
    if (!r) *at = anfi_key(n);
    if (!r || r == n || same_node(r, n)) return r ? r : n;
  }
}

static bool may_merge(const anf_node *n) {
  if (n->flags & ANFI_NODE_EFFECT) return false;
  return n->kind == ANFI_CALL || !(anfi_op_of(n)->flags & ANFI_EFFECT);
}

static bool had_turn(const anf_node *n) { return anfi_is_clean(n, ANFI_WORK_CSE); }

/* A user of x that equals n and had its turn, or NULL; *few says that there is no other. */
static anf_node *equal_user(const anf_node *x, const anf_node *n, bool *few) {
  const anfi_use *u = x->uses;
  for (int i = 0; u && i < FEW; i++, u = u->next) {
    anf_node *r = u->user;
    if (r->op == n->op && r != n && had_turn(r) && may_merge(r) && same_node(r, n)) return r;
  }
  *few = !u;
  return NULL;
}

/* Users of x that had their turn go to the map. */
static void list_users(table *t, const anf_node *x) {
  uint64_t *at = anfi_map_at(&t->listed, x->id);
  if (*at) return;
  *at = 1;
  for (const anfi_use *u = x->uses; u; u = u->next)
    if (had_turn(u->user) && may_merge(u->user)) first_equal(t, u->user);
}

static bool is_rootless(const anf_node *n) {
  for (uint32_t i = 0; i < n->nin; i++)
    if (n->in[i].def->kind != ANFI_VALUE) return false;
  return true;
}

static void list_rootless(table *t) {
  if (t->listed_rootless) return;
  t->listed_rootless = true;
  for (size_t i = 0; i < t->m->nodes.n; i++) {
    anf_node *n = t->m->nodes.at[i];
    if (n && anfi_is_cnode(n) && had_turn(n) && is_rootless(n) && may_merge(n)) first_equal(t, n);
  }
}

/* The node that n is to become, or n. */
static anf_node *equal_node(table *t, anf_node *n) {
  const anf_node *root = NULL;
  for (uint32_t i = 0; i < n->nin; i++) {
    const anf_node *x = n->in[i].def;
    if (x->kind == ANFI_VALUE) continue;
    bool few = false;
    anf_node *r = equal_user(x, n, &few);
    if (r || few) return r ? r : n;
    if (!root) root = x;
  }
  if (root) list_users(t, root);
  else list_rootless(t);
  return first_equal(t, n);
}

static bool has_few_users(const anf_node *x) {
  const anfi_use *u = x->uses;
  for (int i = 0; u && i < FEW; i++) u = u->next;
  return !u;
}

/* The users of n become those of `first`, which may have many then. */
static void merge(table *t, anf_node *n, anf_node *first) {
  bool few = has_few_users(first);
  for (const anfi_use *u = n->uses; u; u = u->next)
    if (had_turn(u->user)) anfi_push(t->a, &t->again, u->user);
  anfi_replace(n, first);
  anfi_delete(n);
  if (!few || has_few_users(first)) return;
  for (const anfi_use *u = first->uses; u; u = u->next)
    if (had_turn(u->user) && may_merge(u->user)) first_equal(t, u->user);
}

static void unify(table *t, anf_node *n) {
  n->flags &= (uint8_t)~ANFI_NODE_MARK;
  for (uint32_t k = 0; k < n->nin; k++) {
    anf_node *def = n->in[k].def, *r = def->kind == ANFI_VALUE ? representative(t, def) : def;
    if (r != def) anfi_set_input(n, k, r);
  }
  anf_node *first = may_merge(n) ? equal_node(t, n) : n;
  if (first == n) anfi_set_clean(n, ANFI_WORK_CSE);
  else if (anfi_rewrite(t->pass)) merge(t, n, first);
}

/* Does n wait for its turn? */
static bool is_waiting(const anf_node *n) {
  return anfi_is_cnode(n) && !(n->flags & ANFI_NODE_MARK) && !had_turn(n);
}

static bool uses_waiting(const anf_node *n) {
  for (uint32_t i = 0; i < n->nin; i++)
    if (is_waiting(n->in[i].def)) return true;
  return false;
}

/* Unifies the inputs of n first. */
static void after_inputs(table *t, anf_node *n) {
  anfi_push(t->a, &t->waiting, ((visit){n, 0}));
  while (t->waiting.n) {
    visit *v = &t->waiting.at[t->waiting.n - 1];
    if (v->next == v->node->nin) {
      n = v->node;
      t->waiting.n--;
      unify(t, n);
      continue;
    }
    anf_node *def = v->node->in[v->next++].def;
    if (!is_waiting(def)) continue;
    mark(t, def);
    anfi_push(t->a, &t->waiting, ((visit){def, 0}));
  }
}

static void take_turn(table *t, anf_node *n) {
  if (!is_waiting(n)) return;
  if (uses_waiting(n)) after_inputs(t, n);
  else unify(t, n);
}

/* Prefetches nodes that are visited soon, their inputs, and users of those. */
static void fetch_soon(const anf_module *m, size_t i) {
  enum { SOON = 8 };
  const anf_node *n = i + SOON < m->nodes.n ? m->nodes.at[i + SOON] : NULL;
  if (n && n->nin && !had_turn(n)) anfi_soon(n->in[0].def->uses);
  anfi_fetch(m, i + 2 * SOON, i + 4 * SOON);
}

bool anfi_opt_cse(anfi_pass *p) {
  table t = {.pass = p, .m = p->m, .a = anfi_scratch(p->m->cx)};
  anfi_map_init(&t.values, t.a);
  anfi_map_init(&t.nodes, t.a);
  anfi_map_init(&t.listed, t.a);
  anf_module *m = p->m;
  for (size_t i = 0; (i = anfi_work_next(m, i, ANFI_WORK_CSE)) < m->nodes.n; i++) {
    fetch_soon(m, i);
    if (m->nodes.at[i]) take_turn(&t, m->nodes.at[i]);
    bool left = m->nodes.at[i] && is_waiting(m->nodes.at[i]);
    if (!left) anfi_work_done(m, i, ANFI_WORK_CSE);
  }
  while (t.again.n) take_turn(&t, t.again.at[--t.again.n]);
  for (size_t i = 0; i < t.marked.n; i++) t.marked.at[i]->flags &= (uint8_t)~ANFI_NODE_MARK;
  return true;
}
