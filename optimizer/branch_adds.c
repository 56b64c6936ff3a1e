// SPDX-License-Identifier: Apache-2.0
/* A branch that adds numbers to elements of arrays, as the adjoints of array reads do, becomes straight code:
 *   if c { y = x[i] - x[i-1]; acc[i] += y; acc[i-1] -= y }
 *     ->   y = x[i] - x[i-1]; acc[i] += c ? y : -0.0; acc[i-1] += c ? -y : -0.0
 * -0.0 added to any float leaves its bits. Loops of such rounds become vectors, and no branch is predicted wrongly. Only cheap
 * sides, and only where every index is known to be within its dim, taken or not: it is made of counters of loops with known
 * bounds. Hard case: an array that a side adds to is read by nothing else in that side. */
#include "optimizer/branch_adds.h"

#include "ir/loop.h"
#include "ir/ops/op.h"

enum { MOST = 24, CHEAP = 4, FEW = 32 };

typedef struct adding {
  anf_ctx *cx;
  anfi_arena *a;
  const anfi_map *loops;
  anf_node *call;
  int left; // nodes that may still be visited for one index
} adding;

typedef struct span {
  int64_t lo, hi;
} span;

/* ---- what an integer can be ---- */

static bool span_of(adding *q, const anf_node *x, span *s);

/* Does nothing but its loop refer to the step? */
static bool is_only_step(const anf_graph *g) {
  return g->self && g->self->uses && !g->self->uses->next;
}

/* Of a parameter: what the branch is given, an invariant of a loop, or a number that its rounds count. */
static bool span_of_param(adding *q, const anf_node *x, span *s) {
  enum { LARGE = 1 << 30 };
  int64_t by, rounds;
  const anf_node *sw = q->call->in[0].def, *loop;
  for (uint32_t i = 1; i < 3; i++)
    if (x->graph == anfi_value_graph(sw->in[i].def))
      return span_of(q, q->call->in[1 + x->u.index].def, s);
  if (!(loop = anfi_loop_of_step(q->loops, x->graph)) || !is_only_step(x->graph)) return false;
  anfi_loop_op l = anfi_loop_parts(loop);
  if (x->u.index < l.nw) return span_of(q, loop->in[l.first_w + x->u.index].def, s);
  size_t i = x->u.index - l.nw;
  if (i >= l.ns || !l.counted || !anfi_loop_counts(&l, i, &by) || l.n->kind != ANFI_VALUE)
    return false;
  if (!anfi_value_is_int(l.n->u.value, &rounds) || rounds < 1 || rounds > LARGE) return false;
  if (by > LARGE || by < -LARGE) return false;
  if (!span_of(q, loop->in[l.first_w + l.nw + i].def, s)) return false;
  int64_t all = by * (rounds - 1);
  *(all < 0 ? &s->lo : &s->hi) += all;
  return true;
}

static bool span_of(adding *q, const anf_node *x, span *s) {
  const int64_t large = INT64_C(1) << 61;
  span b;
  bool found = false;
  if (x->kind == ANFI_VALUE) {
    found = anfi_value_is_int(x->u.value, &s->lo);
    s->hi = s->lo;
    return found && s->lo > -large && s->hi < large;
  }
  if (q->left-- <= 0 || !x->type || x->type->kind != ANF_TYPE_TENSOR || x->type->n) return false;
  if (x->kind == ANFI_PARAM) found = span_of_param(q, x, s);
  else if (anfi_is_op(x, ANF_OP_Cast)) found = span_of(q, x->in[0].def, s);
  else if (anfi_is_op(x, ANF_OP_Add) || anfi_is_op(x, ANF_OP_Sub)) {
    found = span_of(q, x->in[0].def, s) && span_of(q, x->in[1].def, &b);
    if (!found) return false;
    if (x->op == ANF_OP_Sub) b = (span){-b.hi, -b.lo};
    s->lo += b.lo, s->hi += b.hi;
  }
  anf_dtype d = (anf_dtype)x->type->dtype;
  return found && (d == ANF_I64 || d == ANF_INT) && s->lo > -large && s->hi < large;
}

static bool is_within(adding *q, const anf_node *index, int64_t dim) {
  span s;
  q->left = FEW;
  return dim > 0 && span_of(q, index, &s) && s.lo >= -dim && s.hi < dim;
}

/* ---- what a side does ---- */

static bool is_real_array(const anf_type *t) {
  return t && t->kind == ANF_TYPE_TENSOR && t->n &&
         anfi_dtype_class((anf_dtype)t->dtype) == ANFI_CLASS_FLOAT;
}

/* One number is added to one element. */
static bool is_add(const adding *q, const anf_node *n) {
  bool write = anfi_is_op(n, ANF_OP_IndexWrite), nd = anfi_is_op(n, ANF_OP_ScatterNd);
  int64_t axis = 0;
  if ((!write && !nd) || !is_real_array(n->type) || n->in[0].def->type != n->type) return false;
  const anf_node *index = n->in[1].def;
  const anf_type *d = n->in[2].def->type;
  const anf_value *at = write ? anfi_attr_value(q->cx, ANF_OP_IndexWrite, n->u.attrs, 0) : NULL,
                  *mode = anfi_attr_value(q->cx, (anfi_opcode)n->op, n->u.attrs, write);
  if (!mode || strcmp(mode->u.text, "add") != 0 || d->n || d->dtype != n->type->dtype) return false;
  if (nd) return anfi_is_op(index, ANF_OP_Stack) && index->nin == n->type->n;
  if (at && anfi_value_is_int(at, &axis) && axis != 0) return false;
  return n->type->n == 1 && index->type && !index->type->n;
}

/* Are all indices of an element that is read or added to within their dims? */
static bool is_inside(adding *q, const anf_node *n) {
  const anf_type *t = n->in[0].def->type;
  const anf_node *stack = anfi_is_op(n, ANF_OP_ScatterNd) ? n->in[1].def : NULL;
  for (uint32_t d = 0; d < t->n; d++)
    if (!is_within(q, stack ? stack->in[d].def : n->in[1 + d].def, t->dims[d])) return false;
  return true;
}

/* The parameter that a chain of additions begins with, where nothing else reads a link; or NULL. */
static const anf_node *root_of(const adding *q, const anf_node *x) {
  for (;; x = x->in[0].def) {
    if (x->uses && x->uses->next) return NULL;
    if (x->uses && x == x->graph->result) return NULL;
    if (x->kind != ANFI_APPLY) break;
    if (!is_add(q, x)) return NULL;
  }
  return x->kind == ANFI_PARAM ? x : NULL;
}

static size_t item_count(const anf_graph *g) {
  return anfi_is_op(g->result, ANF_OP_MakeTuple) ? g->result->nin : 1;
}

static anf_node *item(const anf_graph *g, size_t i) {
  return anfi_is_op(g->result, ANF_OP_MakeTuple) ? g->result->in[i].def : g->result;
}

/* Is it the indices of additions alone? */
static bool is_index(const adding *q, const anf_node *n) {
  if (!anfi_is_op(n, ANF_OP_Stack) || !n->uses) return false;
  for (const anfi_use *u = n->uses; u; u = u->next)
    if (u != &u->user->in[1] || !is_add(q, u->user)) return false;
  return true;
}

/* Does a side that has these nodes only add, read elements and compute numbers? Counts the work. */
static bool is_side(adding *q, const anf_graph *g, const anfi_node_vec *order, size_t *work,
                    size_t *adds) {
  for (size_t i = 0; i < order->n; i++) {
    const anf_node *n = order->at[i];
    if (n == g->result && anfi_is_op(n, ANF_OP_MakeTuple)) continue;
    bool add = is_add(q, n), index = is_index(q, n);
    *adds += add;
    if ((*work += !index) > MOST) return false;
    if (n->kind != ANFI_APPLY || (n->flags & ANFI_NODE_EFFECT) || anfi_op_of(n)->cost > CHEAP)
      return false;
    if (add || anfi_reads_element(q->cx, n) ? !is_inside(q, n) : !index && !anfi_is_cheap(n))
      return false;
  }
  return true;
}

static size_t links(const anf_node *x) {
  size_t n = 0;
  for (; x->kind == ANFI_APPLY; x = x->in[0].def) n++;
  return n;
}

/* Is an item before the one at i made of the same array? One of the two would be a copy in every round. */
static bool is_given_before(const adding *q, const anf_graph *f, size_t i, const anf_node *arg) {
  for (size_t k = 0; k < i; k++) {
    const anf_node *x = item(f, k), *root = x->type->n ? root_of(q, x) : NULL;
    if (root && q->call->in[1 + root->u.index].def == arg) return true;
  }
  return false;
}

/* Are the items of both sides numbers, or arrays made of one argument by adding? All additions are in those chains. */
static bool are_alike(const adding *q, const anf_graph *f, const anf_graph *g, size_t adds) {
  size_t n = item_count(f), found = 0;
  if (n != item_count(g)) return false;
  for (size_t i = 0; i < n; i++) {
    const anf_node *x = item(f, i), *y = item(g, i);
    if (!x->type || x->type != y->type || x->type->kind != ANF_TYPE_TENSOR) return false;
    if (!x->type->n) continue;
    const anf_node *a = root_of(q, x), *b = root_of(q, y);
    if (!a || !b || a->graph != f || b->graph != g) return false;
    const anf_node *arg = q->call->in[1 + a->u.index].def;
    if (arg != q->call->in[1 + b->u.index].def || is_given_before(q, f, i, arg)) return false;
    found += links(x) + links(y);
  }
  return found == adds;
}

/* ---- straight code ---- */

static anf_node *chosen(const adding *q, const anf_type *t, anf_node *yes, anf_node *no) {
  anf_node *in[3] = {q->call->in[0].def->in[0].def, yes, no};
  anf_node *n = anfi_apply(q->call->graph, ANF_OP_Switch, NULL, 3, in);
  n->type = t;
  n->debug = q->call->debug;
  return n;
}

static void copy_numbers(const adding *q, const anf_graph *g, const anfi_node_vec *order,
                         anfi_map *copies) {
  anfi_map_init(copies, q->a);
  for (size_t i = 0; i < g->params.n; i++)
    *anfi_map_at(copies, g->params.at[i]->id) = anfi_key(q->call->in[i + 1].def);
  for (size_t i = 0; i < order->n; i++) {
    anf_node *n = order->at[i];
    bool tuple = n == g->result && anfi_is_op(n, ANF_OP_MakeTuple);
    if (!tuple && !is_add(q, n)) anfi_copy_node(q->a, q->call->graph, n, copies);
  }
}

/* The additions of the chain that ends in x, from the first one, to `to`; where the side is not taken, of -0.0. */
static anf_node *add_chain(const adding *q, anf_node *x, const anfi_map *copies, bool yes,
                           anf_node *to) {
  anfi_node_vec chain = {0};
  anf_module *m = q->call->graph->module;
  for (; x->kind == ANFI_APPLY; x = x->in[0].def) anfi_push(q->a, &chain, x);
  for (size_t i = chain.n; i-- > 0;) {
    anf_node *n = chain.at[i], *d = anfi_copy_of(copies, n->in[2].def),
             *none = anfi_value(m, anfi_value_new_f64(q->cx, (anf_dtype)n->type->dtype, -0.0));
    anf_node *in[3] = {to, anfi_copy_of(copies, n->in[1].def),
                       chosen(q, n->in[2].def->type, yes ? d : none, yes ? none : d)};
    to = anfi_apply(q->call->graph, (anfi_opcode)n->op, n->u.attrs, 3, in);
    to->type = n->type;
    to->debug = n->debug;
  }
  return to;
}

static anf_node *both(const adding *q, const anf_graph *f, const anfi_map *of_f, const anf_graph *g,
                      const anfi_map *of_g) {
  size_t n = item_count(f);
  anf_node **in = ANFI_NEW_N(q->a, anf_node *, n + 1);
  for (size_t i = 0; i < n; i++) {
    anf_node *x = item(f, i), *y = item(g, i);
    if (!x->type->n) in[i] = chosen(q, x->type, anfi_copy_of(of_f, x), anfi_copy_of(of_g, y));
    else {
      const anf_node *root = root_of(q, x);
      in[i] = add_chain(q, x, of_f, true, q->call->in[1 + root->u.index].def);
      in[i] = add_chain(q, y, of_g, false, in[i]);
    }
  }
  if (!anfi_is_op(f->result, ANF_OP_MakeTuple)) return in[0];
  anf_node *all = anfi_apply(q->call->graph, ANF_OP_MakeTuple, NULL, n, in);
  all->type = q->call->type;
  all->debug = q->call->debug;
  return all;
}

bool anfi_branch_adds(anfi_pass *p, anfi_arena *a, const anfi_map *loops, anf_node *call,
                      anf_graph *f, anf_graph *g) {
  adding q = {.cx = p->m->cx, .a = a, .loops = loops, .call = call};
  anfi_node_vec of_f = {0}, of_g = {0};
  anfi_map in_f, in_g;
  size_t work = 0, adds = 0;
  if (!f || !g || f == g || !f->result || !g->result || f->effects.n || g->effects.n) return false;
  if (call->graph == f || call->graph == g) return false; // whose parameters would be which?
  if (!loops->n || call->nin != f->params.n + 1 || call->nin != g->params.n + 1) return false;
  anfi_graph_order(f, a, &of_f);
  anfi_graph_order(g, a, &of_g);
  if (of_f.n + of_g.n > 2 * MOST) return false;
  if (!is_side(&q, f, &of_f, &work, &adds) || !is_side(&q, g, &of_g, &work, &adds)) return false;
  if (!adds || !are_alike(&q, f, g, adds) || !anfi_rewrite(p)) return false;
  copy_numbers(&q, f, &of_f, &in_f);
  copy_numbers(&q, g, &of_g, &in_g);
  anfi_substitute(call, both(&q, f, &in_f, g, &in_g));
  return true;
}
