// SPDX-License-Identifier: Apache-2.0
/* Loops become straight code where the number of their iterations follows from constants. The steps
 * are written out one after the other, constants folded on the way, branches on constants taken;
 * when the flag "again" of one is no constant, or the code would grow too long, the loop stays. */
#include "ir/ops/op.h"
#include "optimizer/opt.h"

enum { MAX_ITERATIONS = 256, MAX_NODES = 4096, MAX_CALLS = 64 };

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

/* What stands for a node once it is written: an item of a tuple that is at hand, a constant. */
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

typedef struct {
  int64_t invariant, rounds; // rounds: of a counted loop; of a guarded one, whether there is any
  bool counted, guarded;
} shape;

/* Only loops without stacks: those of derivatives are short in another way. */
static bool shape_of(const anf_node *l, shape *s) {
  anf_ctx *cx = l->graph->module->cx;
  anf_value *at[ANFI_LOOP_ATTRS];
  for (uint32_t k = 0; k < ANFI_LEN(at); k++)
    at[k] = anfi_attr_value(cx, ANF_OP_Loop, l->u.attrs, k);
  *s = (shape){.invariant = anfi_attr_int(at[ANFI_LOOP_INVARIANT]),
               .counted = anfi_attr_bool(at[ANFI_LOOP_COUNTED])};
  s->guarded = anfi_attr_bool(at[ANFI_LOOP_GUARDED]);
  if (anfi_attr_int(at[ANFI_LOOP_STACKS]) || anfi_attr_int(at[ANFI_LOOP_OUTS])) return false;
  if (!s->counted && !s->guarded) return true;
  return is_known(l->in[1].def, &s->rounds) && s->rounds >= 0;
}

/* The state after the last iteration in `args`, behind the invariants; false: the loop stays. */
static bool write_loop(writing *w, anf_graph *step, const shape *s, anf_node **args, size_t nargs) {
  size_t ns = nargs - (size_t)s->invariant;
  bool endless = !s->counted && (!s->guarded || s->rounds);
  for (int64_t i = 0; endless || i < s->rounds; i++) {
    int64_t again = 1;
    anf_node *t = i < MAX_ITERATIONS ? write_body(w, step, args) : NULL;
    if (!t || !t->type || t->type->n != ns + !s->counted) return false;
    if (!s->counted && !is_known(item(w, t, 0), &again)) return false;
    for (size_t k = 0; k < ns; k++) args[(size_t)s->invariant + k] = item(w, t, k + !s->counted);
    if (!again) break;
  }
  return true;
}

static void unroll(anfi_pass *p, anfi_arena *a, anf_node *l) {
  anf_graph *step = anfi_value_graph(l->in[0].def);
  shape s;
  if (!step || step->effects.n || !step->result || !shape_of(l, &s)) return;
  writing w = {.a = a, .g = l->graph};
  size_t first = 1 + (s.counted || s.guarded), nargs = l->nin - first;
  anf_node **args = ANFI_NEW_N(a, anf_node *, nargs);
  for (size_t i = 0; i < nargs; i++) args[i] = l->in[first + i].def;
  if (step->params.n != nargs || !write_loop(&w, step, &s, args, nargs) || !anfi_rewrite(p)) return;
  size_t ns = nargs - (size_t)s.invariant;
  anf_node *by = anfi_apply(l->graph, ANF_OP_MakeTuple, NULL, ns, args + s.invariant);
  by->type = l->type;
  by->debug = l->debug;
  anfi_substitute(l, by);
}

bool anfi_opt_unroll(anfi_pass *p) {
  anfi_arena *a = anfi_scratch(p->m->cx);
  for (size_t i = 0; i < p->m->nodes.n; i++) { // inner loops of what was written too
    anf_node *n = p->m->nodes.at[i];
    if (n && anfi_is_op(n, ANF_OP_Loop) && n->type && n->u.attrs) unroll(p, a, n);
  }
  return anfi_clear_dead(p->m); // what was written for loops that stay
}
