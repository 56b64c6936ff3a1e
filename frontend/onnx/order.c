// SPDX-License-Identifier: Apache-2.0
/* Nodes in an order in which each reads what others before it give. ONNX wants files to be so, but converters that add nodes
 * at the end (to f16, with casts of the inputs) write others, which ONNX Runtime sorts:
 *   y = Relu(c); c = Cast(x)  becomes  c = Cast(x); y = Relu(c)
 * Nodes stay in the order of the file wherever they can. In a ring of nodes one keeps reading what is not there. */
#include "frontend/onnx/onnx.h"

typedef struct {
  size_t node, next; // the first name of its reads that was not looked at
} visit;
typedef struct {
  anfi_arena *a;
  const anfi_ox_nodes *all;
  anfi_map maker;       // name -> the node that gives it, counted from 1
  anfi_ox_names *reads; // of each node
  bool *seen;
  anfi_ox_nodes sorted;
  ANFI_VEC(visit) open; // each is read by the one before it
} sorting;

/* What the node reads from outside, and what its subgraphs read from anywhere. */
static anfi_ox_names names_read(anfi_arena *a, const anfi_ox_node *node) {
  ANFI_VEC(const anfi_ox_node *) todo = {0};
  anfi_ox_names out = {0};
  anfi_push(a, &todo, node);
  for (size_t i = 0; i < todo.n; i++) {
    const anfi_ox_node *n = todo.at[i];
    for (size_t k = 0; k < n->in.n; k++) anfi_push(a, &out, n->in.at[k]);
    for (size_t k = 0; k < n->attrs.n; k++) {
      const anfi_ox_graph *g = n->attrs.at[k]->graph;
      for (size_t j = 0; g && j < g->nodes.n; j++) anfi_push(a, &todo, g->nodes.at[j]);
      for (size_t j = 0; g && j < g->out.n; j++) anfi_push(a, &out, g->out.at[j].name);
    }
  }
  return out;
}

static bool is_sorted(const sorting *s) {
  for (size_t i = 0; i < s->all->n; i++)
    for (size_t k = 0; k < s->reads[i].n; k++) {
      const uint64_t *by = anfi_map_find(&s->maker, anfi_key(s->reads[i].at[k]));
      if (by && *by > i) return false;
    }
  return true;
}

static void open_node(sorting *s, size_t node) {
  if (s->seen[node]) return;
  s->seen[node] = true;
  anfi_push(s->a, &s->open, ((visit){node, 0}));
}

static void add_with_makers(sorting *s, size_t node) {
  open_node(s, node);
  while (s->open.n) {
    visit *v = &s->open.at[s->open.n - 1];
    const anfi_ox_names *reads = &s->reads[v->node];
    if (v->next == reads->n) {
      anfi_push(s->a, &s->sorted, s->all->at[v->node]);
      s->open.n--;
      continue;
    }
    const uint64_t *by = anfi_map_find(&s->maker, anfi_key(reads->at[v->next++]));
    if (by) open_node(s, (size_t)*by - 1);
  }
}

anfi_ox_nodes anfi_ox_sorted(anfi_arena *a, const anfi_ox_nodes *all) {
  sorting s = {.a = a, .all = all, .reads = ANFI_NEW_N(a, anfi_ox_names, all->n + 1)};
  anfi_map_init(&s.maker, a);
  for (size_t i = 0; i < all->n; i++) {
    const anfi_ox_node *n = all->at[i];
    s.reads[i] = names_read(a, n);
    for (size_t k = 0; k < n->out.n; k++)
      if (n->out.at[k]->len) *anfi_map_at(&s.maker, anfi_key(n->out.at[k])) = i + 1;
  }
  if (is_sorted(&s)) return *all;
  s.seen = ANFI_NEW_N(a, bool, all->n);
  for (size_t i = 0; i < all->n; i++) add_with_makers(&s, i);
  return s.sorted;
}
