// SPDX-License-Identifier: Apache-2.0
/* Shortens the loop-carried dependence of adjoints.
 *   s' = (s * a) * b + s * c             ->  p = a * b + c;  s' = s * p
 * The adjoint of a loop's state is linear in s, as long a chain as the step, and each iteration waits for
 * the one before. As s' = s * p + r, where p and r do not depend on s, the chain is one product and one sum.
 * Rounding changes, so only loops made by derivatives (ANFI_GRAPH_ADJOINT) are rewritten: their order of
 * summation is free. Only scalars, and only if the chain gets shorter by at least the operations that
 * are added: where several adjoints feed each other, the whole chain would be there twice. */
#include "ir/loop.h"
#include "optimizer/opt.h"

enum { MAX_PARTS = 48, CONSTANTS = 2 };

/* s * c + r; c NULL: no part of s in it; r NULL: nothing else. */
typedef struct {
  anf_node *c, *r;
} form;

typedef struct {
  anfi_arena *a;
  anf_graph *step;
  anf_node *s;
  anfi_map depth; // node id -> 1 + the number of operations from s to it
  anfi_map forms; // node id -> form *
  anf_node *one, *zero;
  size_t made; // nodes from this one on are new
} factoring;

static uint64_t depth_of(const factoring *f, const anf_node *n) {
  const uint64_t *d = n->kind == ANFI_VALUE ? NULL : anfi_map_find((anfi_map *)&f->depth, n->id);
  return d ? *d : 0;
}

/* Is n, of which an input depends on s, linear in s? */
static bool is_linear(const factoring *f, const anf_node *n) {
  if (n->kind != ANFI_APPLY || n->type != f->s->type) return false;
  const uint64_t a = depth_of(f, n->in[0].def), b = n->nin > 1 ? depth_of(f, n->in[1].def) : 0;
  switch (n->op) { /* dispatch */
  case ANF_OP_Add:
  case ANF_OP_Sub: return true;
  case ANF_OP_Neg: return true;
  case ANF_OP_Mul: return !a != !b;
  case ANF_OP_Div: return !b;
  case ANF_OP_Switch: return !a && n->in[1].def->type == n->type && n->in[2].def->type == n->type;
  default: return false;
  }
}

/* Depths of the nodes from s to `end`, if all are linear; the nodes, inputs first. */
static bool find_chain(factoring *f, const anfi_node_vec *order, const anf_node *end,
                       anfi_node_vec *chain) {
  bool *on_way = ANFI_NEW_N(f->a, bool, order->n + 1);
  anfi_map wanted;
  anfi_map_init(&wanted, f->a);
  anfi_map_init(&f->depth, f->a);
  *anfi_map_at(&f->depth, f->s->id) = 1;
  for (size_t i = 0; i < order->n; i++) {
    uint64_t most = 0;
    const anf_node *n = order->at[i];
    for (uint32_t k = 0; k < n->nin; k++)
      if (depth_of(f, n->in[k].def) > most) most = depth_of(f, n->in[k].def);
    if (most) *anfi_map_at(&f->depth, n->id) = most + 1;
  }
  *anfi_map_at(&wanted, end->id) = 1;
  for (size_t i = order->n; i-- > 0;) {
    const anf_node *n = order->at[i];
    if (!depth_of(f, n) || !anfi_map_find(&wanted, n->id)) continue;
    if (!is_linear(f, n)) return false;
    on_way[i] = true;
    for (uint32_t k = 0; k < n->nin; k++)
      if (depth_of(f, n->in[k].def)) *anfi_map_at(&wanted, n->in[k].def->id) = 1;
  }
  for (size_t i = 0; i < order->n; i++)
    if (on_way[i]) anfi_push(f->a, chain, order->at[i]);
  return chain->n > 0 && chain->n <= MAX_PARTS;
}

/* ---- building ---- */

static anf_node *apply(const factoring *f, anfi_opcode op, size_t n, anf_node *const *in,
                       const anf_node *like) {
  anf_node *x = anfi_apply(f->step, op, NULL, n, in);
  x->type = f->s->type;
  x->debug = like->debug;
  return x;
}

static anf_node *constant(const factoring *f, double x) {
  anf_module *m = f->step->module;
  anf_node *n = anfi_value(m, anfi_value_new_f64(m->cx, (anf_dtype)f->s->type->dtype, x));
  n->type = f->s->type;
  return n;
}

static anf_node *both(const factoring *f, anfi_opcode op, anf_node *a, anf_node *b,
                      const anf_node *like) {
  anf_node *in[2] = {a, b};
  if (!a) return !b || op == ANF_OP_Add ? b : apply(f, ANF_OP_Neg, 1, &b, like);
  return b ? apply(f, op, 2, in, like) : a;
}

static anf_node *scale(const factoring *f, anfi_opcode op, anf_node *x, anf_node *by,
                       const anf_node *like) {
  anf_node *in[2] = {x, by};
  if (!x) return NULL;
  return x == f->one && op == ANF_OP_Mul && by->type == f->s->type ? by : apply(f, op, 2, in, like);
}

static anf_node *choose(const factoring *f, anf_node *cond, anf_node *a, anf_node *b,
                        const anf_node *like) {
  anf_node *in[3] = {cond, a ? a : f->zero, b ? b : f->zero};
  return a || b ? apply(f, ANF_OP_Switch, 3, in, like) : NULL;
}

static form form_of(const factoring *f, anf_node *n) {
  const uint64_t *at = n->kind == ANFI_VALUE ? NULL : anfi_map_find((anfi_map *)&f->forms, n->id);
  return at ? *(const form *)(uintptr_t)*at : (form){NULL, n};
}

static form combine(const factoring *f, anf_node *n) {
  const anfi_opcode op = (anfi_opcode)n->op;
  form a = form_of(f, n->in[0].def), b = n->nin > 1 ? form_of(f, n->in[1].def) : (form){NULL, NULL};
  switch (op) { /* dispatch */
  case ANF_OP_Neg:
    return (form){both(f, ANF_OP_Sub, NULL, a.c, n), both(f, ANF_OP_Sub, NULL, a.r, n)};
  case ANF_OP_Mul:
    if (!a.c) return (form){scale(f, op, b.c, a.r, n), scale(f, op, b.r, a.r, n)};
    return (form){scale(f, op, a.c, b.r, n), scale(f, op, a.r, b.r, n)};
  case ANF_OP_Div: return (form){scale(f, op, a.c, b.r, n), scale(f, op, a.r, b.r, n)};
  case ANF_OP_Switch: {
    form c = form_of(f, n->in[2].def);
    return (form){choose(f, n->in[0].def, b.c, c.c, n), choose(f, n->in[0].def, b.r, c.r, n)};
  }
  default: return (form){both(f, op, a.c, b.c, n), both(f, op, a.r, b.r, n)};
  }
}

/* How many nodes of the chain nothing else uses: from its end on. */
static size_t only_of_chain(factoring *f, const anfi_node_vec *chain) {
  anfi_map gone;
  size_t count = 0;
  anfi_map_init(&gone, f->a);
  for (size_t i = chain->n; i-- > 0;) {
    const anf_node *n = chain->at[i];
    bool used = false;
    for (const anfi_use *u = n->uses; u; u = u->next) {
      bool result = u->user == f->step->result && i + 1 == chain->n;
      used |= !result && u->user->id < f->made && !anfi_map_find(&gone, u->user->id);
    }
    if (used) continue;
    *anfi_map_at(&gone, n->id) = 1;
    count++;
  }
  return count;
}

static void delete_made(const factoring *f) {
  anf_module *m = f->step->module;
  for (size_t i = m->nodes.n; i-- > f->made;) {
    anf_node *n = m->nodes.at[i];
    if (n && anfi_is_cnode(n) && !anfi_is_used(n)) anfi_delete(n);
  }
}

/* s * c + r for the last node of the chain; NULL if that is not worth it. */
static anf_node *factored(factoring *f, const anfi_node_vec *chain) {
  anf_module *m = f->step->module;
  anf_node *end = chain->at[chain->n - 1];
  f->made = m->nodes.n;
  form last = {f->one = constant(f, 1), NULL};
  f->zero = constant(f, 0);
  anfi_map_init(&f->forms, f->a);
  form *of_s = ANFI_NEW(f->a, form);
  *of_s = last;
  *anfi_map_at(&f->forms, f->s->id) = anfi_key(of_s);
  for (size_t i = 0; i < chain->n; i++) {
    form *at = ANFI_NEW(f->a, form);
    *at = last = combine(f, chain->at[i]);
    *anfi_map_at(&f->forms, chain->at[i]->id) = anfi_key(at);
  }
  size_t now = (last.c != f->one) + (size_t)(last.r != NULL), was = depth_of(f, end) - 1;
  size_t made = m->nodes.n - f->made - CONSTANTS + now, gone = only_of_chain(f, chain);
  if (was <= now || made > gone + (was - now)) {
    delete_made(f);
    return NULL;
  }
  return both(f, ANF_OP_Add, scale(f, ANF_OP_Mul, f->s, last.c, end), last.r, end);
}

static bool is_scalar_float(const anf_type *t) {
  return t && t->kind == ANF_TYPE_TENSOR && !t->n && (t->dtype == ANF_F32 || t->dtype == ANF_F64);
}

static void factor(anfi_pass *p, anfi_arena *a, const anf_node *loop) {
  anfi_loop_op l = anfi_loop_parts(loop);
  anf_graph *step = l.step;
  if (!step || !(step->flags & ANFI_GRAPH_ADJOINT) || !anfi_is_op(step->result, ANF_OP_MakeTuple))
    return;
  size_t first = anfi_loop_first_item(&l);
  anfi_node_vec order = {0};
  anfi_graph_order(step, a, &order);
  for (size_t i = 0; i < l.ns; i++) {
    factoring f = {.a = a, .step = step, .s = step->params.at[l.nw + i]};
    anf_node *end = step->result->in[first + i].def, *by;
    anfi_node_vec chain = {0};
    if (!is_scalar_float(f.s->type) || end->kind != ANFI_APPLY) continue;
    if (!find_chain(&f, &order, end, &chain)) continue;
    if (!(by = factored(&f, &chain)) || !anfi_rewrite(p)) continue;
    anfi_set_input(step->result, first + i, by);
  }
}

bool anfi_opt_factor(anfi_pass *p) {
  anfi_arena *a = anfi_scratch(p->m->cx);
  size_t n = p->m->nodes.n;
  for (size_t i = 0; i < n; i++) {
    const anf_node *l = p->m->nodes.at[i];
    if (l && anfi_is_op(l, ANF_OP_Loop) && l->type) factor(p, a, l);
  }
  return true;
}
