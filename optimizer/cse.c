// SPDX-License-Identifier: Apache-2.0
/* Common subexpressions: nodes of one graph with the same op, attributes and inputs become one.
 * Nodes are taken in the order in which they were made, which is the order of memory and mostly
 * that of evaluation; one that uses a later one waits until that one has had its turn, so inputs
 * are unified before their users. Ops with effects stay as they are.
 * What equals a node uses what it uses: mostly one of its inputs has few users, and a look at them
 * is all. Nodes whose inputs are all constants or have many users are found by their hash.
 * INVARIANT: of nodes that had their turn, those that no look at a few users finds are in the map. */
#include "optimizer/opt.h"

enum { FEW = 8 };

typedef struct {
  anf_node *node;
  uint32_t next; // input to look at
} visit;

typedef struct {
  anfi_pass *pass;
  anf_module *m;
  anfi_arena *a;
  size_t now;           // number of the node that has its turn
  anfi_map nodes;       // hash of a node -> the node, or the next free place
  anfi_map values;      // hash of a constant -> its representative VALUE
  anfi_node_vec marked; // representatives, and CNodes that had their turn before it came
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

static bool same_attrs(const anfi_attrs *a, const anfi_attrs *b) {
  if (a == b) return true;
  if (!a || !b || a->n != b->n) return false;
  for (uint32_t k = 0; k < a->n; k++) {
    anf_value *x = a->at[k], *y = b->at[k];
    if (x == y) continue;
    if (!x || !y || x == &anfi_from_node || y == &anfi_from_node || !anfi_value_same(x, y))
      return false;
  }
  return true;
}

static anf_node *equal_value(table *t, anf_node *n) {
  for (uint64_t h = anfi_value_hash(n->u.value);; h++) {
    uint64_t *at = anfi_map_at(&t->values, h);
    anf_node *r = (anf_node *)(uintptr_t)*at;
    if (!r) *at = anfi_key(n);
    if (!r || anfi_value_same(r->u.value, n->u.value)) return r ? r : n;
  }
}

/* One VALUE node for equal constants, so that inputs compare by pointer. */
static anf_node *representative(table *t, anf_node *n) {
  bool plain = !(n->flags & ANFI_NODE_MARK) && n->op == ANF_OP_NONE && !anfi_value_graph(n);
  if (!plain) return n;
  anf_node *r = equal_value(t, n);
  if (r == n) mark(t, n);
  return r;
}

/* Few steps for each part, and one that spreads the bits at the end. */
static uint64_t stir(uint64_t h, uint64_t x) {
  h = (h ^ x) * UINT64_C(0x9e3779b97f4a7c15);
  return h ^ h >> 29;
}

static uint64_t hash_node(const anf_node *n) {
  uint64_t h = n->kind * 65536u + n->op;
  if (n->kind == ANFI_APPLY && n->u.attrs) h = stir(h, hash_attrs(n->u.attrs));
  h = stir(stir(h, anfi_key(n->type)), anfi_key(n->graph));
  for (uint32_t i = 0; i < n->nin; i++) h = stir(h, anfi_key(n->in[i].def));
  return anfi_hash_mix(h, n->nin);
}

static bool same_node(const anf_node *a, const anf_node *b) {
  if (a->kind != b->kind || a->op != b->op || a->nin != b->nin || a->type != b->type ||
      a->graph != b->graph)
    return false;
  for (uint32_t i = 0; i < a->nin; i++)
    if (a->in[i].def != b->in[i].def) return false;
  return a->kind != ANFI_APPLY || same_attrs(a->u.attrs, b->u.attrs);
}

static anf_node *first_equal(table *t, anf_node *n) {
  for (uint64_t h = hash_node(n);; h++) {
    uint64_t *at = anfi_map_at(&t->nodes, h);
    anf_node *r = (anf_node *)(uintptr_t)*at;
    if (!r) *at = anfi_key(n);
    if (!r || same_node(r, n)) return r ? r : n;
  }
}

static bool may_merge(const anf_node *n) {
  if (n->flags & ANFI_NODE_EFFECT) return false;
  return n->kind == ANFI_CALL || !(anfi_op[n->op].flags & ANFI_EFFECT);
}

static bool had_turn(const table *t, const anf_node *n) {
  return n->id < t->now || (n->flags & ANFI_NODE_MARK);
}

/* A user of x that equals n and had its turn, or NULL; *few says that there is no other. */
static anf_node *equal_user(const table *t, const anf_node *x, const anf_node *n, bool *few) {
  const anfi_use *u = x->uses;
  for (int i = 0; u && i < FEW; i++, u = u->next) {
    anf_node *r = u->user;
    if (r->op == n->op && r != n && had_turn(t, r) && may_merge(r) && same_node(r, n)) return r;
  }
  *few = !u;
  return NULL;
}

/* The node that n is to become, or n. */
static anf_node *equal_node(table *t, anf_node *n) {
  for (uint32_t i = 0; i < n->nin; i++) {
    const anf_node *x = n->in[i].def;
    if (x->kind == ANFI_VALUE) continue;
    bool few = false;
    anf_node *r = equal_user(t, x, n, &few);
    if (r || few) return r ? r : n;
  }
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
  anfi_replace(n, first);
  anfi_delete(n);
  if (!few || has_few_users(first)) return;
  for (const anfi_use *u = first->uses; u; u = u->next)
    if (had_turn(t, u->user) && may_merge(u->user)) first_equal(t, u->user);
}

static void unify(table *t, anf_node *n) {
  for (uint32_t k = 0; k < n->nin; k++) {
    anf_node *def = n->in[k].def, *r = def->kind == ANFI_VALUE ? representative(t, def) : def;
    if (r != def) anfi_set_input(n, k, r);
  }
  anf_node *first = may_merge(n) ? equal_node(t, n) : n;
  if (first != n && anfi_rewrite(t->pass)) merge(t, n, first);
}

/* Node number `now` has its turn: does n wait for its own? */
static bool is_later(const anf_node *n, size_t now) {
  return n->id > now && anfi_is_cnode(n) && !(n->flags & ANFI_NODE_MARK);
}

static bool uses_later(const anf_node *n, size_t now) {
  for (uint32_t i = 0; i < n->nin; i++)
    if (is_later(n->in[i].def, now)) return true;
  return false;
}

/* What n needs is unified first. */
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
    if (!is_later(def, t->now)) continue;
    mark(t, def);
    anfi_push(t->a, &t->waiting, ((visit){def, 0}));
  }
}

/* Nodes that are looked at soon, what they use, and who uses that. */
static void fetch_soon(const anf_module *m, size_t i) {
  enum { SOON = 8 };
  const anf_node *n = i + SOON < m->nodes.n ? m->nodes.at[i + SOON] : NULL;
  if (n && n->nin) anfi_soon(n->in[0].def->uses);
  anfi_fetch(m, i + 2 * SOON, i + 4 * SOON);
}

bool anfi_opt_cse(anfi_pass *p) {
  table t = {.pass = p, .m = p->m, .a = anfi_scratch(p->m->cx)};
  anfi_map_init(&t.values, t.a);
  anfi_map_init(&t.nodes, t.a);
  for (t.now = 0; t.now < p->m->nodes.n; t.now++) {
    anf_node *n = p->m->nodes.at[t.now];
    fetch_soon(p->m, t.now);
    if (!n || !anfi_is_cnode(n) || (n->flags & ANFI_NODE_MARK)) continue;
    if (uses_later(n, t.now)) after_inputs(&t, n);
    else unify(&t, n);
  }
  for (size_t i = 0; i < t.marked.n; i++) t.marked.at[i]->flags &= (uint8_t)~ANFI_NODE_MARK;
  return true;
}
