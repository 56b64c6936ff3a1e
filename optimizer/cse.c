// SPDX-License-Identifier: Apache-2.0
/* Common subexpressions: nodes of one graph with the same op, attributes and inputs become one, in
 * evaluation order, so inputs are unified before their users. Ops with effects stay as they are. */
#include "optimizer/opt.h"

/* Open addressing, never more than half full. The hash beside the node spares a look at most nodes
 * that are not equal, each of which would be a miss of the cache in a large graph. */
typedef struct {
  uint64_t hash;
  anf_node *node; // NULL: free
} slot;

typedef struct {
  anfi_arena *a;
  slot *slots;
  size_t mask;
  anfi_map values; // hash of a constant -> its representative VALUE
} table;

static void make_slots(table *t, size_t nodes) {
  size_t n = ANFI_HASH_MIN;
  while (n < 2 * nodes) n *= 2;
  t->slots = ANFI_NEW_N(t->a, slot, n);
  t->mask = n - 1;
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

/* One VALUE node for equal constants, so that inputs compare by pointer. */
static anf_node *representative(table *t, anf_node *n) {
  if (n->kind != ANFI_VALUE || n->op != ANF_OP_NONE || anfi_value_graph(n)) return n;
  for (uint64_t h = anfi_value_hash(n->u.value);; h++) {
    uint64_t *at = anfi_map_at(&t->values, h);
    anf_node *r = (anf_node *)(uintptr_t)*at;
    if (!r) *at = anfi_key(n);
    if (!r || anfi_value_same(r->u.value, n->u.value)) return r ? r : n;
  }
}

static uint64_t hash_node(const anf_node *n) {
  uint64_t h =
      anfi_hash_mix(n->kind * 65536u + n->op, n->kind == ANFI_APPLY ? hash_attrs(n->u.attrs) : 0);
  h = anfi_hash_mix(h, anfi_key(n->type));
  for (uint32_t i = 0; i < n->nin; i++) h = anfi_hash_mix(h, anfi_key(n->in[i].def));
  return h;
}

static bool same_node(const anf_node *a, const anf_node *b) {
  if (a->kind != b->kind || a->op != b->op || a->nin != b->nin || a->type != b->type) return false;
  for (uint32_t i = 0; i < a->nin; i++)
    if (a->in[i].def != b->in[i].def) return false;
  return a->kind != ANFI_APPLY || same_attrs(a->u.attrs, b->u.attrs);
}

static anf_node *first_equal(table *t, anf_node *n) {
  uint64_t h = hash_node(n);
  for (size_t i = (size_t)h & t->mask;; i = (i + 1) & t->mask) {
    slot *s = &t->slots[i];
    if (!s->node) *s = (slot){h, n};
    if (s->node == n || (s->hash == h && same_node(s->node, n))) return s->node;
  }
}

static bool may_merge(const anf_node *n) {
  if (n->flags & ANFI_NODE_EFFECT) return false;
  return n->kind == ANFI_CALL || !(anfi_op[n->op].flags & ANFI_EFFECT);
}

static void unify(anfi_pass *p, table *t, anf_graph *g) {
  anfi_node_vec order = {0};
  anfi_graph_order(g, t->a, &order);
  make_slots(t, order.n);
  for (size_t i = 0; i < order.n; i++) {
    anf_node *n = order.at[i];
    for (uint32_t k = 0; k < n->nin; k++) {
      anf_node *def = n->in[k].def, *r = representative(t, def);
      if (r != def) anfi_set_input(n, k, r);
    }
    anf_node *first = may_merge(n) ? first_equal(t, n) : n;
    if (first == n || !anfi_rewrite(p)) continue;
    anfi_replace(n, first);
    anfi_delete(n);
  }
}

bool anfi_opt_cse(anfi_pass *p) {
  table t = {.a = anfi_scratch(p->m->cx)};
  anfi_map_init(&t.values, t.a);
  for (size_t i = 0; i < p->m->graphs.n; i++)
    if (p->m->graphs.at[i]) unify(p, &t, p->m->graphs.at[i]);
  return true;
}
