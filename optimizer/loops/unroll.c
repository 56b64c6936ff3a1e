// SPDX-License-Identifier: Apache-2.0
/* Full unrolling of short loops with a known trip count.
 *   repeat 3: s = s * x                  ->  ((s * x) * x) * x
 * Steps are written out one after the other, constants folded and branches on constants taken on the way; the
 * loop stays if `again` of a step is not constant or the code grows beyond a limit.
 * `unroll_short` does so where it surely pays: few rounds of pointwise ops over tensors, which then are one nest
 * without a tensor between rounds. Loops over numbers are left to the code generators. */
#include "ir/loop.h"
#include "ir/ops/op.h"
#include "optimizer/opt.h"

enum { MAX_ITERATIONS = 256, MAX_NODES = 4096, MAX_CALLS = 64 };
enum { SHORT_ROUNDS = 8, SHORT_NODES = 32, SHORT_ELEMENTS = 64 };

typedef struct {
  anfi_arena *a;
  anf_graph *g; // where the code goes
  size_t made;
  int depth; // of branches taken; bounded
} writing;

static anf_node *item(writing *w, anf_node *t, size_t i) {
  if (anfi_is_op(t, ANF_OP_MakeTuple)) return t->in[i].def;
  anf_module *m = w->g->module;
  const anfi_attrs *at =
      anfi_attrs_one(m, ANF_OP_TupleGet, anfi_value_new_i64(m->cx, ANF_INT, (int64_t)i));
  anf_node *n = anfi_apply(w->g, ANF_OP_TupleGet, at, 1, &t);
  n->type = t->type->items[i];
  n->debug = t->debug;
  return n;
}

/* Simplifies a written node: an item of a known tuple, a constant. */
static anf_node *settled(writing *w, anf_node *n) {
  if (anfi_is_op(n, ANF_OP_TupleGet) && anfi_is_op(n->in[0].def, ANF_OP_MakeTuple)) {
    anf_node *t = n->in[0].def;
    int64_t i = anfi_attr_int(anfi_attr_value(w->g->module->cx, ANF_OP_TupleGet, n->u.attrs, 0));
    if (i < 0) i += t->nin;
    return i >= 0 && i < t->nin ? t->in[i].def : n;
  }
  anf_node *c = anfi_fold_node(w->a, n);
  return c ? c : n;
}

/* The graph that a call reaches, if a constant chooses it. */
static anf_graph *taken(const anf_node *call, const anfi_map *copies) {
  const anf_node *sw = call->in[0].def;
  anf_graph *f = anfi_value_graph(sw);
  if (f || !anfi_is_op(sw, ANF_OP_Switch)) return NULL; // plain calls stay calls
  const anf_node *c = anfi_copy_of(copies, sw->in[0].def);
  if (c->kind != ANFI_VALUE || c->u.value->kind != ANF_VALUE_TENSOR) return NULL;
  f = anfi_value_graph(sw->in[anfi_get_i64(c->u.value, 0) ? 1 : 2].def);
  return f && f->result && !f->effects.n && f->params.n == call->nin - 1u ? f : NULL;
}

/* The body of f at these arguments; NULL when it grows too long. */
static anf_node *write_body(writing *w, anf_graph *f, anf_node *const *args) {
  anfi_map copies;
  anfi_node_vec order = {0};
  anfi_map_init(&copies, w->a);
  anfi_graph_order(f, w->a, &order);
  w->made += order.n;
  if (w->made > MAX_NODES || w->depth > MAX_CALLS) return NULL;
  for (size_t i = 0; i < f->params.n; i++)
    *anfi_map_at(&copies, f->params.at[i]->id) = anfi_key(args[i]);
  for (size_t i = 0; i < order.n; i++) {
    anf_node *n = order.at[i], *by;
    anf_graph *branch = n->kind == ANFI_CALL ? taken(n, &copies) : NULL;
    if (branch) {
      anf_node **in = ANFI_NEW_N(w->a, anf_node *, n->nin);
      for (uint32_t k = 1; k < n->nin; k++) in[k - 1] = anfi_copy_of(&copies, n->in[k].def);
      w->depth++;
      by = write_body(w, branch, in); // nested branches: bounded by MAX_CALLS
      w->depth--;
      if (!by) return NULL;
    } else by = settled(w, anfi_copy_node(w->a, w->g, n, &copies));
    *anfi_map_at(&copies, n->id) = anfi_key(by);
  }
  return anfi_copy_of(&copies, f->result);
}

static bool is_known(const anf_node *n, int64_t *out) {
  if (n->kind != ANFI_VALUE || n->u.value->kind != ANF_VALUE_TENSOR) return false;
  *out = anfi_get_i64(n->u.value, 0);
  return true;
}

/* The most iterations that the loop can take, from constants alone; false: not known. Only loops without
 * stacks: the loops of derivatives have them. */
static bool bound(const anfi_loop_op *l, int64_t *most) {
  if (l->nx || l->nout) return false;
  *most = INT64_MAX;
  if (!l->n && !l->go) return true;
  if (!is_known(l->n ? l->n : l->go, most) || *most < 0) return false;
  if (l->go && *most) *most = INT64_MAX;
  return true;
}

/* The state after the last iteration in `args`, after the invariants; false: the loop stays. */
static bool write_loop(writing *w, const anfi_loop_op *l, int64_t most, anf_node **args) {
  size_t first = anfi_loop_first_item(l);
  for (int64_t i = 0; i < most; i++) {
    int64_t again = 1;
    anf_node *t = i < MAX_ITERATIONS ? write_body(w, l->step, args) : NULL;
    if (!t || !t->type || t->type->n != l->ns + first) return false;
    if (!l->counted && !is_known(item(w, t, 0), &again)) return false;
    for (size_t k = 0; k < l->ns; k++) args[l->nw + k] = item(w, t, k + first);
    if (!again) break;
  }
  return true;
}

static void unroll(anfi_pass *p, anfi_arena *a, anf_node *loop) {
  anfi_loop_op l = anfi_loop_parts(loop);
  int64_t most;
  if (!l.step || l.step->effects.n || !l.step->result || !bound(&l, &most)) return;
  writing w = {.a = a, .g = loop->graph};
  size_t nargs = l.nw + l.ns;
  anf_node **args = ANFI_NEW_N(a, anf_node *, nargs);
  for (size_t i = 0; i < nargs; i++) args[i] = loop->in[l.first_w + i].def;
  if (l.step->params.n != nargs || !write_loop(&w, &l, most, args) || !anfi_rewrite(p)) return;
  anf_node *by = anfi_apply(loop->graph, ANF_OP_MakeTuple, NULL, l.ns, args + l.nw);
  by->type = loop->type;
  by->debug = loop->debug;
  anfi_substitute(loop, by);
}

static bool is_large(const anf_type *t) {
  size_t many;
  return t->kind == ANF_TYPE_TENSOR && anfi_type_elements(t, &many) && many >= SHORT_ELEMENTS;
}

/* Few rounds of a step that fuses with the next one, over a tensor. */
static bool is_short(anfi_arena *a, const anf_node *loop) {
  anfi_loop_op l = anfi_loop_parts(loop);
  int64_t rounds;
  anfi_node_vec order = {0};
  bool large = false;
  if (!l.step || !l.step->result || !l.counted || !l.n || !is_known(l.n, &rounds) ||
      rounds > SHORT_ROUNDS)
    return false;
  for (size_t i = 0; i < loop->type->n; i++) large |= is_large(loop->type->items[i]);
  if (!large) return false;
  anfi_graph_order(l.step, a, &order);
  for (size_t i = 0; i < order.n; i++) {
    const anf_node *n = order.at[i];
    bool items = anfi_is_op(n, ANF_OP_MakeTuple) || anfi_is_op(n, ANF_OP_TupleGet);
    if (n->kind != ANFI_APPLY) return false;
    const anfi_op_info *op = anfi_op_of(n);
    if (!items && (op->lower != ANFI_LOWER_POINTWISE || op->flags & ANFI_AS_WHOLE)) return false;
  }
  return order.n <= SHORT_NODES;
}

static bool unroll_loops(anfi_pass *p, bool all) {
  anfi_arena *a = anfi_scratch(p->m->cx);
  for (size_t i = 0; i < p->m->nodes.n; i++) { // inner loops of unrolled code too
    anf_node *n = p->m->nodes.at[i];
    if (n && anfi_is_op(n, ANF_OP_Loop) && n->type && n->u.attrs && (all || is_short(a, n)))
      unroll(p, a, n);
  }
  return anfi_clear_dead(p->m); // code written for loops that stay
}
bool anfi_opt_unroll(anfi_pass *p) { return unroll_loops(p, true); }
bool anfi_opt_unroll_short(anfi_pass *p) { return unroll_loops(p, false); }
