// SPDX-License-Identifier: Apache-2.0
/* Reads before writes: an order of evaluation in which an array is dead where it is written.
 *   z1 = IndexWrite(z, i, 0)         d = Take(z, i)
 *   d  = Take(z, i)            ->    z1 = IndexWrite(z, i, 0)      now z1 may take the memory of z
 * A write (ANFI_WRITES_OVER), or a call or loop that leads to one of z, waits for ops, calls and loops that read z, with all
 * that these need, if they do not need the write themselves; any call or loop that takes z waits for ops. Besides, an item of a tuple is taken right after the
 * tuple is made, so that no tuple keeps an array alive. Reverse mode wants the first of it: of a branch that reads z before z
 * is written, the adjoint is added to that of the write.
 * INVARIANT: only the order changes, and nothing moves across an effect. */
#include "ir/loop.h"

enum { WINDOW = 1024, MOST_NODES = 64, MOST_USES = 64 };

typedef struct {
  anf_ctx *cx;
  anfi_arena *a;
  uint32_t *at; // by node id: 1 + position in the order of its graph; 0: in none
  anf_node **order;
  size_t n;
  ANFI_VEC(uint32_t) moved; // positions of what a reader needs, itself included
  anf_node **rest;          // WINDOW nodes
  bool all;                 // do calls and loops that only read an array wait, too?
} sorter;

static size_t position(const sorter *s, const anf_node *n, const anf_graph *g) {
  return n->graph == g && s->at[n->id] ? s->at[n->id] - 1 : SIZE_MAX;
}

/* ---- items after their tuple ---- */

static bool is_projection(const anf_node *n) {
  return anfi_is_op(n, ANF_OP_TupleGet) || anfi_is_op(n, ANF_OP_RecordGet);
}

static bool may_give_tuple(const anf_node *n) {
  return n->kind == ANFI_CALL || is_projection(n) || n->op == ANF_OP_Loop || n->op == ANF_OP_Unbox;
}

/* Appends the projections of t to out, in their order; those are marked as taken. */
static size_t append_projections(sorter *s, const anf_graph *g, const anf_node *t, anf_node **out,
                                 size_t n) {
  size_t from = n;
  for (const anfi_use *u = t->uses; u; u = u->next) {
    if (!is_projection(u->user) || position(s, u->user, g) >= s->n) continue;
    s->at[u->user->id] = UINT32_MAX;
    out[n++] = u->user;
  }
  for (size_t k = from, l = n; k + 1 < l; k++) { // uses are newest first
    anf_node *x = out[k];
    out[k] = out[--l];
    out[l] = x;
  }
  return n;
}

static void project_early(sorter *s, const anf_graph *g) {
  anf_node **out = ANFI_NEW_N(s->a, anf_node *, s->n + 1);
  size_t n = 0, seen = 0;
  for (size_t i = 0; i < g->params.n; i++) n = append_projections(s, g, g->params.at[i], out, n);
  for (size_t i = 0; i <= s->n; i++) {
    for (; seen < n; seen++)
      if (may_give_tuple(out[seen])) n = append_projections(s, g, out[seen], out, n);
    if (i < s->n && s->at[s->order[i]->id] != UINT32_MAX) out[n++] = s->order[i];
  }
  if (n) memcpy(s->order, out, n * sizeof *out);
  for (size_t i = 0; i < n; i++) s->at[out[i]->id] = (uint32_t)i + 1;
}

/* Names graphs: a call, a choice of one, a loop, a call with a rule of its own or a checkpointed one. */
static bool is_control(const anf_node *n) {
  return n->kind == ANFI_CALL || n->op == ANF_OP_Loop || n->op == ANF_OP_Switch ||
         n->op == ANF_OP_SwitchLayer || n->op == ANF_OP_Custom || n->op == ANF_OP_Recompute;
}

static bool is_write(const anf_node *n) { return anfi_op_of(n)->flags & ANFI_WRITES_OVER; }

static bool is_movable(const anf_node *n, bool before_write) {
  if (n->flags & ANFI_NODE_EFFECT) return false;
  if (is_control(n)) return before_write;
  if (n->kind != ANFI_APPLY) return false;
  const anfi_op_info *o = anfi_op_of(n);
  return !(o->flags & (ANFI_EFFECT | ANFI_CALLS | ANFI_TRANSFORM | ANFI_WRITES_OVER)) &&
         (is_projection(n) || n->op == ANF_OP_MakeTuple || o->lower != ANFI_LOWER_CONTROL);
}

/* ---- what callees write ---- */

/* A parameter that a graph may write over. */
typedef struct {
  const anf_graph *g;
  size_t param;
} passing;
typedef ANFI_VEC(passing) passings;

static void pass(sorter *s, passings *all, const anf_graph *g, size_t param) {
  for (size_t i = 0; i < all->n; i++)
    if (all->at[i].g == g && all->at[i].param == param) return;
  if (g && param < g->params.n) anfi_push(s->a, all, ((passing){g, param}));
}

/* Notes the parameters that input i of a call or loop is. */
static void pass_to_callees(sorter *s, passings *all, const anf_node *n, size_t i) {
  if (n->op == ANF_OP_Loop && n->kind == ANFI_APPLY) {
    anfi_loop_op l = anfi_loop_parts(n);
    if (i >= l.first_w) pass(s, all, l.step, i - l.first_w);
    return;
  }
  if (n->kind != ANFI_CALL || !i) return;
  const anf_node *callee = n->in[0].def;
  pass(s, all, anfi_value_graph(callee), i - 1);
  for (uint32_t k = 1; callee->kind == ANFI_APPLY && is_control(callee) && k < callee->nin; k++)
    pass(s, all, anfi_value_graph(callee->in[k].def), i - 1);
}

/* Does the call or loop n lead to a write over its input i? */
static bool callee_writes(sorter *s, const anf_node *n, size_t i) {
  enum { MOST = 64 };
  passings all = {0};
  pass_to_callees(s, &all, n, i);
  for (size_t at = 0, uses = 0; at < all.n && at < MOST; at++) {
    const anfi_use *u = all.at[at].g->params.at[all.at[at].param]->uses;
    for (; u && uses < MOST_USES * MOST; u = u->next, uses++) {
      size_t input = (size_t)(u - u->user->in);
      if (is_write(u->user) && !input) return true;
      pass_to_callees(s, &all, u->user, input);
    }
  }
  return false;
}

/* ---- readers before writers ---- */

/* All that r needs of what stands after position i. False: it needs what may not move. */
static bool cone(sorter *s, const anf_graph *g, anf_node *r, size_t i, bool write) {
  uint32_t first = (uint32_t)position(s, r, g);
  s->moved.n = 0;
  anfi_push(s->a, &s->moved, first);
  for (size_t k = 0; k < s->moved.n; k++) {
    const anf_node *n = s->order[s->moved.at[k]];
    if (!is_movable(n, write) || s->moved.n > MOST_NODES) return false;
    for (uint32_t j = 0; j < n->nin; j++) {
      size_t p = position(s, n->in[j].def, g);
      bool known = p == SIZE_MAX || p < i;
      if (p == i || (anfi_value_graph(n->in[j].def) && !is_control(n))) return false;
      for (size_t l = 0; !known && l < s->moved.n; l++) known = s->moved.at[l] == p;
      uint32_t more = (uint32_t)p;
      if (!known) anfi_push(s->a, &s->moved, more);
    }
  }
  return true;
}

static bool is_moved(const sorter *s, size_t p) {
  for (size_t k = 0; k < s->moved.n; k++)
    if (s->moved.at[k] == p) return true;
  return false;
}

/* Puts what cone() found before position i; returns how many nodes that are. */
static size_t move_before(sorter *s, size_t i) {
  size_t end = 0, n = 0, to = i;
  for (size_t k = 0; k < s->moved.n; k++)
    if (s->moved.at[k] > end) end = s->moved.at[k];
  if (end - i >= WINDOW) return 0;
  for (size_t p = i; p <= end; p++)
    if (s->order[p]->flags & ANFI_NODE_EFFECT) return 0;
  for (size_t p = i; p <= end; p++) {
    anf_node *x = s->order[p];
    if (is_moved(s, p)) s->order[to++] = x;
    else s->rest[n++] = x;
  }
  memcpy(s->order + to, s->rest, n * sizeof *s->rest);
  for (size_t p = i; p <= end; p++) s->at[s->order[p]->id] = (uint32_t)p + 1;
  return to - i;
}

/* The node at position i takes x, or writes over it: other readers go first. Returns where the node is then. */
static size_t wait_for_readers(sorter *s, const anf_graph *g, const anf_node *x, size_t i,
                               bool write) {
  size_t uses = 0;
  for (const anfi_use *u = x->uses; u && uses < MOST_USES; u = u->next, uses++) {
    anf_node *r = u->user;
    size_t p = position(s, r, g);
    if (p == SIZE_MAX || p <= i || (write && callee_writes(s, r, (size_t)(u - r->in)))) continue;
    if (cone(s, g, r, i, write)) i += move_before(s, i);
  }
  return i;
}

static bool is_array(const anf_node *n) {
  return n->kind != ANFI_VALUE && n->type && n->type->kind == ANF_TYPE_TENSOR && n->type->n;
}

static void sort_graph(sorter *s, const anf_graph *g) {
  for (size_t i = 0; i < s->n; i++) {
    const anf_node *c = s->order[i];
    bool call = c->kind == ANFI_CALL || c->op == ANF_OP_Loop;
    if (is_write(c)) i = wait_for_readers(s, g, c->in[0].def, i, true);
    for (uint32_t k = 1; call && k < c->nin; k++) {
      bool write = is_array(c->in[k].def) && callee_writes(s, c, k);
      if (write || (s->all && is_array(c->in[k].def)))
        i = wait_for_readers(s, g, c->in[k].def, i, write);
    }
  }
}

void anfi_order_reads_first(anf_analysis *an) {
  anf_module *m = an->module;
  if (m->cx->without & ANFI_WITHOUT_READS_FIRST) return;
  sorter s = {.cx = m->cx, .a = anfi_scratch(m->cx), .all = true};
  s.at = ANFI_NEW_N(s.a, uint32_t, m->nodes.n + 1);
  s.rest = ANFI_NEW_N(s.a, anf_node *, WINDOW);
  for (size_t i = 0; i < m->graphs.n; i++) {
    const anf_graph *g = m->graphs.at[i];
    if (!g) continue;
    s.order = an->graphs[g->id].order.at;
    s.n = an->graphs[g->id].order.n;
    for (size_t k = 0; k < s.n; k++) s.at[s.order[k]->id] = (uint32_t)k + 1;
    project_early(&s, g);
    sort_graph(&s, g);
  }
}

void anfi_graph_reads_first(anf_ctx *cx, anfi_arena *a, const anf_graph *g, anf_node **order,
                            size_t n, uint32_t *at) {
  bool writes = false;
  for (size_t i = 0; i < n; i++) writes |= is_write(order[i]) || is_control(order[i]);
  if (!writes || cx->without & ANFI_WITHOUT_READS_FIRST) return;
  sorter s = {.cx = cx, .a = a, .at = at, .order = order, .n = n};
  s.rest = ANFI_NEW_N(a, anf_node *, WINDOW);
  for (size_t k = 0; k < n; k++) at[order[k]->id] = (uint32_t)k + 1;
  sort_graph(&s, g);
}
