// SPDX-License-Identifier: Apache-2.0
/* Choices of arrays. A choice of data copies the array that it chooses, in a loop in each round.
 *   a = c ? v : u; b = c ? u : v          ->  (a, b) = (c ? f : g)(u, v), f(u, v) = (v, u), g(u, v) = (u, v)
 *   (c ? u : v)[i]                        ->  c ? u[i] : v[i]
 *   z = c ? w : z, w = z with z[i] = v      ->  w with w[i] = c ? v : z[i]      a candidate that is taken or dropped
 *   best = c ? z : best, of a loop's state ->  best = (c ? f : g)(z, best)
 * A branch that exchanges arrays moves none of them (backend/lower/graph/linear.c), and its derivative exchanges their adjoints;
 * one that copies an array does so in one case alone, and its derivative adds in that case alone.
 * Rotations of up to MOST arrays are cycles of such choices: each takes the array that the next one takes otherwise. Choices
 * that elementwise operations alone read are part of their loop, and stay. */
#include "optimizer/opt.h"
#include "base/mark.h"

enum { MOST = 8, USES = 64, FEW = 8 };

/* if c { yes } else { no }, where c is no negation. */
typedef struct choice {
  anf_node *n, *c, *yes, *no;
} choice;

typedef struct cycle {
  size_t n;
  choice at[MOST];
} cycle;

static bool is_array(const anf_node *n) {
  return n->type && n->type->kind == ANF_TYPE_TENSOR && n->type->n > 0;
}

static bool choice_of(anf_node *n, choice *out) {
  if (!anfi_is_op(n, ANF_OP_Switch) || n->nin != 3 || !is_array(n)) return false;
  anf_node *c = n->in[0].def, *yes = n->in[1].def, *no = n->in[2].def;
  if (yes == no || yes->type != n->type || no->type != n->type) return false;
  if (!c->type || c->type->kind != ANF_TYPE_TENSOR || c->type->n) return false;
  bool swap = false;
  for (; anfi_is_op(c, ANF_OP_LogicalNot); c = c->in[0].def) swap = !swap;
  *out = (choice){n, c, swap ? no : yes, swap ? yes : no};
  return true;
}

static bool same_inputs(const anf_node *a, const anf_node *b) {
  return a->in[0].def == b->in[0].def && a->in[1].def == b->in[1].def;
}

/* Is b the opposite of a: x == y and x != y? Orders of floats have none, for NaN. */
static bool are_opposite(const anf_node *a, const anf_node *b) {
  bool equal = anfi_is_op(a, ANF_OP_Equal) && anfi_is_op(b, ANF_OP_NotEqual),
       differ = anfi_is_op(a, ANF_OP_NotEqual) && anfi_is_op(b, ANF_OP_Equal);
  return (equal || differ) && same_inputs(a, b);
}

/* ---- exchanges ---- */

bool anfi_copies_array(const anf_node *n, const anf_node *yes, const anf_node *no) {
  bool one = yes->kind == ANFI_PARAM && anfi_is_op(no, ANF_OP_IndexWrite),
       other = no->kind == ANFI_PARAM && anfi_is_op(yes, ANF_OP_IndexWrite);
  if (!one && !other) return false;
  const anf_node *dies = one ? yes : no, *stays = one ? no : yes;
  return n->type->kind == ANF_TYPE_TENSOR && n->type->n && dies->type == n->type &&
         stays->type == n->type && anfi_is_op(n->graph->result, ANF_OP_MakeTuple) &&
         !dies->uses->next && stays->uses->next;
}

/* Is it read by its elements, written, or handed on? Then it is in a buffer. */
static bool is_in_buffer(const anf_node *n) {
  for (const anfi_use *u = n->uses; u; u = u->next) {
    const anf_node *r = u->user;
    if (r->kind != ANFI_APPLY || r->op == ANF_OP_MakeTuple || r->op == ANF_OP_Loop) return true;
    const anfi_op_info *o = anfi_op_of(r);
    if (o->flags & ANFI_WRITES_OVER) return true;
    if (o->lower == ANFI_LOWER_INDEX_MAP && !(o->flags & ANFI_IN_ORDER)) return true;
  }
  return n->graph->result == n;
}

/* The choice by the same condition that gives `array` where this one does not. */
static bool next_choice(const choice *from, choice *to) {
  size_t n = 0;
  for (const anfi_use *u = from->yes->uses; u && n < USES; u = u->next, n++) {
    if (u->user == from->n || u->user->graph != from->n->graph || !choice_of(u->user, to)) continue;
    if (to->c != from->c && are_opposite(from->c, to->c))
      *to = (choice){to->n, from->c, to->no, to->yes};
    if (to->c == from->c && to->no == from->yes) return true;
  }
  return false;
}

/* Cycles of more than two: no array may be made of a choice that is in it. */
static bool are_made_before(anfi_arena *a, const cycle *y) {
  if (y->n == 2) return true; // one is of the same arrays as the other
  anfi_node_vec order = {0};
  size_t found = 0;
  anfi_map seen;
  anfi_map_init(&seen, a);
  anfi_graph_order(y->at[0].n->graph, a, &order);
  for (size_t i = 0; i < order.n; i++) {
    for (size_t k = 0; k < y->n; k++) {
      found += order.at[i] == y->at[k].n;
      if (found && order.at[i] == y->at[k].yes) return false;
    }
  }
  return found == y->n;
}

static bool find_cycle(const choice *first, cycle *y) {
  y->n = 0;
  y->at[y->n++] = *first;
  while (y->at[y->n - 1].yes != first->no) {
    if (y->n == MOST || !next_choice(&y->at[y->n - 1], &y->at[y->n])) return false;
    for (size_t i = 0; i < y->n; i++)
      if (y->at[i].n == y->at[y->n].n) return false;
    y->n++;
  }
  return y->n > 1;
}

static anf_graph *side_graph(const choice *c, bool yes) {
  return anfi_graph_beside(c->n->graph, yes ? ANFI_THEN : ANFI_ELSE);
}

/* (array..) -> those that the choices give on this side; parameter i is what choice i gives otherwise. */
static anf_graph *side(const cycle *y, const anf_type *type, bool yes) {
  anf_graph *g = side_graph(&y->at[0], yes);
  anf_node *p[MOST], *out[MOST];
  for (size_t i = 0; i < y->n; i++) {
    p[i] = anfi_param(g, NULL, y->at[i].no->type);
    p[i]->debug = y->at[i].n->debug;
  }
  for (size_t i = 0; i < y->n; i++) out[i] = p[yes ? (i + 1) % y->n : i];
  anf_node *all = anfi_apply(g, ANF_OP_MakeTuple, NULL, y->n, out);
  all->type = type;
  all->debug = y->at[0].n->debug;
  anfi_set_result(g, all);
  return g;
}

static anf_node *item_at(anfi_pass *p, anf_node *tuple, size_t i) {
  const anfi_attrs *at =
      anfi_attrs_one(p->m, ANF_OP_TupleGet, anfi_value_new_i64(p->m->cx, ANF_INT, (int64_t)i));
  anf_node *item = anfi_apply(tuple->graph, ANF_OP_TupleGet, at, 1, &tuple);
  item->type = tuple->type->items[i];
  item->debug = tuple->debug;
  return item;
}

static void make_branch(anfi_pass *p, const cycle *y) {
  const anf_node *first = y->at[0].n;
  const anf_type *t[MOST];
  anf_node *in[MOST + 1];
  for (size_t i = 0; i < y->n; i++) t[i] = y->at[i].n->type;
  const anf_type *type = anfi_type_tuple(p->m->cx, y->n, t);
  in[0] =
      anfi_apply3(first->graph, ANF_OP_Switch, y->at[0].c, anfi_graph_value(side(y, type, true)),
                  anfi_graph_value(side(y, type, false)));
  in[0]->debug = first->debug;
  for (size_t i = 0; i < y->n; i++) in[i + 1] = y->at[i].no;
  anf_node *call = anfi_call(first->graph, y->n + 1, in);
  call->type = type;
  call->debug = first->debug;
  for (size_t i = 0; i < y->n; i++) {
    anf_node *item = item_at(p, call, i);
    item->debug = y->at[i].n->debug;
    anfi_substitute(y->at[i].n, item);
  }
}

static void exchange(anfi_pass *p, anfi_arena *a, const choice *c) {
  cycle y;
  bool buffers = false;
  if (!find_cycle(c, &y)) return;
  for (size_t i = 0; i < y.n; i++) buffers |= is_in_buffer(y.at[i].n);
  if (buffers && are_made_before(a, &y) && anfi_rewrite(p)) make_branch(p, &y);
}

/* ---- candidates ---- */

/* Does r read few elements of its first input, and of none else? */
static bool reads_few(const anf_node *r, const anf_node *x) {
  size_t few, all;
  if (r->kind != ANFI_APPLY || !r->nin || r->nin > MOST || r->in[0].def != x) return false;
  for (uint32_t i = 1; i < r->nin; i++)
    if (r->in[i].def == x) return false;
  if (r->flags & ANFI_NODE_EFFECT || anfi_op_of(r)->lower != ANFI_LOWER_INDEX_MAP || !r->type ||
      r->type->kind != ANF_TYPE_TENSOR)
    return false;
  if (!anfi_type_elements(r->type, &few)) return false;
  return !r->type->n || (anfi_type_elements(x->type, &all) && few <= all / FEW);
}

/* Does the write w replace few elements, for all that is known? */
static bool writes_few(const anf_node *w) {
  const anf_type *x = w->in[0].def->type, *part = w->in[2].def->type;
  size_t few, all;
  if (x != w->type || !w->in[1].def->type || !part) return false;
  if (!anfi_type_elements(part, &few)) return false;
  return few <= 1 || (anfi_type_elements(x, &all) ? few <= all / FEW : part->n < x->n);
}

/* The writes that make `to` of `from`, the last one first. 0: it is not made by a few. */
static size_t writes_between(const anf_node *from, anf_node *to, anf_node *out[MOST]) {
  size_t n = 0;
  for (; to != from; to = to->in[0].def) {
    if (n == MOST || !anfi_is_op(to, ANF_OP_IndexWrite) || !writes_few(to)) return 0;
    out[n++] = to;
  }
  return n;
}

/* The elements of x that the write w replaces. */
static anf_node *part_of(anfi_pass *p, const anf_node *w, anf_node *x) {
  anf_ctx *cx = p->m->cx;
  anf_value *axis = anfi_attr_value(cx, ANF_OP_IndexWrite, w->u.attrs, 0);
  const anf_type *t[2] = {x->type, w->in[1].def->type};
  anfi_infer q = {
      .cx = cx, .op = ANF_OP_Take, .loc = anfi_node_loc(w), .n = 2, .in = t, .attr = &axis};
  if (!anfi_infer_op(&q)) return NULL;
  anf_node *in[2] = {x, w->in[1].def};
  anf_node *n = anfi_apply(w->graph, ANF_OP_Take,
                           anfi_attrs_one(p->m, ANF_OP_Take, anf_value_retain(axis)), 2, in);
  n->type = q.out;
  n->debug = w->debug;
  return n;
}

/* x with the elements that w replaces chosen from the sides of the choice. */
static anf_node *choose_part(anfi_pass *p, const choice *c, const anf_node *w, anf_node *x) {
  anf_node *in[3] = {c->c, part_of(p, w, c->yes), part_of(p, w, c->no)};
  if (!in[1] || !in[2]) return NULL;
  anf_node *by = anfi_apply(c->n->graph, ANF_OP_Switch, NULL, 3, in);
  by->type = in[1]->type;
  by->debug = w->debug;
  anf_value *axis = anfi_attr_value(p->m->cx, ANF_OP_IndexWrite, w->u.attrs, 0);
  anf_node *write[3] = {x, w->in[1].def, by};
  anf_node *n =
      anfi_apply(c->n->graph, ANF_OP_IndexWrite,
                 anfi_attrs_one(p->m, ANF_OP_IndexWrite, anf_value_retain(axis)), 3, write);
  n->type = x->type;
  n->debug = w->debug;
  return n;
}

/* Where item i of what a branch gives is an argument of its call: that argument. */
static anf_node *argument_given(const anf_node *call, const anf_node *side, size_t i) {
  const anf_graph *g = anfi_value_graph(side);
  const anf_node *r = g ? g->result : NULL;
  if (!r || !anfi_is_op(r, ANF_OP_MakeTuple)) return NULL;
  r = r->in[i].def;
  return r->kind == ANFI_PARAM && r->graph == g ? call->in[r->u.index + 1].def : NULL;
}

/* Is item i of what the branch `call` gives an argument on each side? It is a choice of data. */
static bool is_choice_at(const anf_node *call, size_t i, choice *out) {
  const anf_node *sw = call->kind == ANFI_CALL ? call->in[0].def : NULL;
  if (!sw || (call->flags & ANFI_NODE_EFFECT)) return false;
  if (!anfi_is_op(sw, ANF_OP_Switch) || sw->nin != 3) return false;
  anf_node *yes = argument_given(call, sw->in[1].def, i),
           *no = argument_given(call, sw->in[2].def, i);
  *out = (choice){NULL, sw->in[0].def, yes, no};
  return yes && no && yes != no && is_array(yes) && yes->type == no->type;
}

static bool item_of(anf_node *n, choice *out) {
  int64_t i;
  if (!anfi_is_op(n, ANF_OP_TupleGet)) return false;
  anf_value *at = anfi_attr_value(n->graph->module->cx, ANF_OP_TupleGet, n->u.attrs, 0);
  if (!anfi_value_is_int(at, &i) || i < 0) return false;
  if (!is_choice_at(n->in[0].def, (size_t)i, out) || out->yes->type != n->type) return false;
  out->n = n;
  return true;
}

/* An array, or the same with a few elements written: the elements are chosen, and written once more. */
static void candidate(anfi_pass *p, const choice *c) {
  anf_node *w[MOST], *x = c->yes;
  size_t n = writes_between(c->no, c->yes, w);
  if (!n) n = writes_between(c->yes, x = c->no, w);
  if (!n || !is_in_buffer(c->n) || !anfi_rewrite(p)) return;
  while (n-- > 0)
    if (!(x = choose_part(p, c, w[n], x))) return;
  anfi_substitute(c->n, x);
}

/* The same where a graph gives what a branch gives, so that nothing takes its items: they are taken. */
static void candidate_given(anfi_pass *p, anfi_arena *a, anf_node *call) {
  choice c;
  anf_node *w[MOST], **in;
  anf_graph *g = call->graph;
  size_t n = 0;
  if (!g || g->result != call || !call->type || call->type->kind != ANF_TYPE_TUPLE) return;
  for (size_t i = 0; i < call->type->n && !n; i++)
    if (is_choice_at(call, i, &c))
      n = writes_between(c.no, c.yes, w) + writes_between(c.yes, c.no, w);
  if (!n || !anfi_rewrite(p)) return;
  in = ANFI_NEW_N(a, anf_node *, call->type->n);
  for (size_t i = 0; i < call->type->n; i++) in[i] = item_at(p, call, i);
  anf_node *all = anfi_apply(g, ANF_OP_MakeTuple, NULL, call->type->n, in);
  all->type = call->type;
  all->debug = call->debug;
  anfi_set_result(g, all);
  for (size_t i = 0; i < call->type->n; i++)
    if (item_of(in[i], &c)) candidate(p, &c);
}

/* ---- candidates in branches ---- */

/* A branch that takes an array z and z with elements written. */
typedef struct taken {
  anf_node *call;
  size_t z, made, n; // inputs of the call; writes
  anf_node *w[MOST]; // the last one first
} taken;

/* Do all that read z read elements, but for the call and the first write? */
static bool is_read_before(const taken *t, const anf_node *z) {
  size_t n = 0;
  for (const anfi_use *u = z->uses; u; u = u->next) {
    if (++n > USES || u->user->graph != t->call->graph) return false;
    if (u == &t->call->in[t->z] || u == t->w[t->n - 1]->in) continue;
    if (!reads_few(u->user, z)) return false;
  }
  return z->graph->result != z;
}

static anf_graph *branch_alone(const anf_node *side) { // of one call
  anf_graph *g = anfi_value_graph(side);
  return g && !g->self->uses->next && g->flags & ANFI_GRAPH_PRIVATE ? g : NULL;
}

static bool find_taken(anf_node *call, taken *t) {
  const anf_node *sw = call->in[0].def;
  if (!anfi_is_op(sw, ANF_OP_Switch) || sw->nin != 3 || sw->uses->next) return false;
  if (!branch_alone(sw->in[1].def) || !branch_alone(sw->in[2].def)) return false;
  t->call = call;
  for (t->made = 1; t->made < call->nin; t->made++) {
    anf_node *made = call->in[t->made].def;
    if (made->graph != call->graph || !anfi_is_op(made, ANF_OP_IndexWrite)) continue;
    for (t->z = 1; t->z < call->nin; t->z++) {
      anf_node *z = call->in[t->z].def;
      t->n = is_array(z) && z->kind != ANFI_VALUE ? writes_between(z, made, t->w) : 0;
      if (t->n && is_read_before(t, z)) return true;
    }
  }
  return false;
}

/* In a branch: z is what was made of it, with the old elements written back. */
static void write_back(anfi_pass *p, const taken *t, anf_graph *g) {
  anf_node *x = g->params.at[t->made - 1], *old = g->params.at[t->z - 1];
  for (size_t i = 0; i < t->n; i++) {
    const anf_node *w = t->w[i];
    anf_node *in[3] = {x, anfi_param(g, NULL, w->in[1].def->type), NULL};
    anf_value *axis = anfi_attr_value(p->m->cx, ANF_OP_IndexWrite, w->u.attrs, 0);
    in[2] = anfi_param(g, NULL, t->call->in[t->call->nin - 2 * t->n + 2 * i + 1].def->type);
    x = anfi_apply(g, ANF_OP_IndexWrite,
                   anfi_attrs_one(p->m, ANF_OP_IndexWrite, anf_value_retain(axis)), 3, in);
    x->type = old->type;
    x->debug = w->debug;
  }
  anfi_replace(old, x);
  anfi_remove_param(g, t->z - 1);
}

/* c = z with z[i] = v; (b ? f : g)(z, c)   ->   o = z[i]; (b ? f' : g')(c, i, o), where z is c with c[i] = o: both are one buffer. */
static bool take_back(anfi_pass *p, anfi_arena *a, anf_node *call) {
  taken t;
  if (!find_taken(call, &t)) return false;
  size_t n = 0;
  anf_node **in = ANFI_NEW_N(a, anf_node *, call->nin + 2 * t.n), *z = call->in[t.z].def;
  for (size_t i = 0; i < call->nin; i++)
    if (i != t.z) in[n++] = call->in[i].def;
  for (size_t i = 0; i < t.n; i++) {
    in[n++] = t.w[i]->in[1].def;
    if (!(in[n++] = part_of(p, t.w[i], z))) return false;
  }
  if (!anfi_rewrite(p)) return false;
  anf_node *by = anfi_call(call->graph, n, in);
  by->type = call->type;
  by->debug = call->debug;
  t.call = by;
  for (uint32_t k = 1; k < 3; k++) write_back(p, &t, anfi_value_graph(in[0]->in[k].def));
  anfi_substitute(call, by);
  return true;
}

/* ---- copies ---- */

/* (yes, no) -> the array of this side. */
static anf_graph *copy_side(const choice *c, bool yes) {
  anf_graph *g = side_graph(c, yes);
  anf_node *p[2];
  for (size_t i = 0; i < 2; i++) {
    p[i] = anfi_param(g, NULL, c->n->type);
    p[i]->debug = c->n->debug;
  }
  anfi_set_result(g, p[yes ? 0 : 1]);
  return g;
}

/* A choice of an array that is read later, too, and of one that is not. */
static void copy(anfi_pass *p, const choice *c) {
  if (!anfi_copies_array(c->n, c->yes, c->no) || !anfi_rewrite(p)) return;
  anf_node *in[3] = {NULL, c->yes, c->no};
  in[0] = anfi_apply3(c->n->graph, ANF_OP_Switch, c->c, anfi_graph_value(copy_side(c, true)),
                      anfi_graph_value(copy_side(c, false)));
  in[0]->debug = c->n->debug;
  anf_node *call = anfi_call(c->n->graph, 3, in);
  call->type = c->n->type;
  call->debug = c->n->debug;
  anfi_substitute(c->n, call);
}

/* ---- reads ---- */

static bool is_read_alone(const anf_node *x) {
  size_t n = 0;
  for (const anfi_use *u = x->uses; u; u = u->next)
    if (++n > USES || u->user->graph != x->graph || !reads_few(u->user, x)) return false;
  return n > 0 && x->graph->result != x;
}

static anf_node *read_of(const anf_node *r, anf_node *array) {
  anf_node *in[MOST];
  in[0] = array;
  for (uint32_t i = 1; i < r->nin; i++) in[i] = r->in[i].def;
  anf_node *n = anfi_apply(r->graph, (anfi_opcode)r->op, r->u.attrs, r->nin, in);
  n->type = r->type;
  n->debug = r->debug;
  return n;
}

/* Elements of a chosen array: they are chosen themselves. */
static void read_sides(anfi_pass *p, const choice *c) {
  if (!is_read_alone(c->n) || !anfi_rewrite(p)) return;
  while (c->n->uses) {
    anf_node *r = c->n->uses->user;
    anf_node *in[3] = {c->n->in[0].def, read_of(r, c->n->in[1].def), read_of(r, c->n->in[2].def)};
    anf_node *by = anfi_apply(r->graph, ANF_OP_Switch, NULL, 3, in);
    by->type = r->type;
    by->debug = r->debug;
    anfi_substitute(r, by);
  }
}

bool anfi_opt_exchange(anfi_pass *p) {
  anfi_arena *a = anfi_scratch(p->m->cx);
  size_t n = anfi_has_calls(p->m) ? p->m->nodes.n : 0; // without calls there are no loops yet
  choice c;
  for (size_t i = 0; i < n; i++)
    if (p->m->nodes.at[i] && choice_of(p->m->nodes.at[i], &c)) exchange(p, a, &c);
  for (size_t i = 0; i < n; i++)
    if (p->m->nodes.at[i] && choice_of(p->m->nodes.at[i], &c)) read_sides(p, &c);
  for (size_t i = 0; i < n; i++)
    if (p->m->nodes.at[i] && (choice_of(p->m->nodes.at[i], &c) || item_of(p->m->nodes.at[i], &c)))
      candidate(p, &c);
  for (size_t i = 0; i < n; i++)
    if (p->m->nodes.at[i] && p->m->nodes.at[i]->kind == ANFI_CALL) {
      anf_node *call = p->m->nodes.at[i];
      if (!take_back(p, a, call)) candidate_given(p, a, call);
    }
  n = anfi_module_has_op(p->m, ANF_OP_Loop) ? p->m->nodes.n : 0;
  for (size_t i = 0; i < n; i++)
    if (p->m->nodes.at[i] && choice_of(p->m->nodes.at[i], &c)) copy(p, &c);
  return true;
}
