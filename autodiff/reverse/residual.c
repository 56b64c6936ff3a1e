// SPDX-License-Identifier: Apache-2.0
/* Chooses residuals: every node of ▶ that ◀ uses is either saved or rematerialised, whichever moves less
 * memory.
 *   y = exp(x); z = y * y; w = z + 1      ◀ uses x, y and z:
 *   saved: y      rematerialised in ◀: z = y * y (one product of a saved value)      passed again: x
 * From the last node to the first: a cheap elementwise node or a view whose operands are available in ◀ is
 * rematerialised; one missing operand that is no larger than the node is saved in its place. So is a number
 * that a few cheap nodes make of constants, such as an item of an invariant at a counter. All other
 * nodes are saved: ▶ returns them after its value and ◀ takes them as leading parameters. Parameters that
 * callers pass again and constants are never saved. This is a greedy min-cut (Enzyme takes the exact one).
 *
 * In a recursion the list may go into one box (j.c), and scalars are rematerialised at any cost while j.c
 * tries to do without residuals. */
#include "autodiff/reverse/j.h"

enum { EAGER = 64, MUCH = 24, FEW = 16, MANY_NUMBERS = 128, MANY = 4096 };

typedef struct {
  anfi_jbuild *q;
  anfi_node_vec order;    // of f: all that its result and b use
  uint32_t base;          // no node of f has a smaller id
  anf_node **in_pullback; // by id - base: the counterpart in b of a node of f
  anfi_node_vec residual;
  bool eager; // rematerialise scalars from arguments at any cost
} selection;

static bool is_of(const anf_node *n, const anf_graph *g) {
  return n->graph == g && n->kind != ANFI_VALUE;
}

/* ---- which nodes ---- */

static bool is_small(const anf_type *t, const anf_type *than) {
  size_t a, b;
  if (t->kind != ANF_TYPE_TENSOR || than->kind != ANF_TYPE_TENSOR) return false;
  return anfi_type_elements(t, &a) && anfi_type_elements(than, &b) &&
         a * anf_dtype_bytes((anf_dtype)t->dtype) <= b * anf_dtype_bytes((anf_dtype)than->dtype);
}

static bool is_shape(const anf_node *n) {
  const anf_type *t = n->nin ? n->in[0].def->type : NULL;
  return n->op == ANF_OP_GetField && t && t->kind == ANF_TYPE_TENSOR;
}

/* Elementwise with little work, or a view: cheaper than a store and a load. */
static bool is_cheap(const anf_node *n) {
  enum { CHEAP = 4 };
  if (n->kind != ANFI_APPLY || (n->flags & ANFI_NODE_EFFECT)) return false;
  const anfi_op_info *op = anfi_op_of(n);
  if (op->flags & (ANFI_EFFECT | ANFI_CALLS | ANFI_RANDOM)) return false;
  if (n->op == ANF_OP_TupleGet || n->op == ANF_OP_RecordGet || n->op == ANF_OP_MakeTuple ||
      n->op == ANF_OP_MakeRecord || n->op == ANF_OP_Undef || n->op == ANF_OP_Len || is_shape(n))
    return true;
  bool maps = op->lower == ANFI_LOWER_POINTWISE || op->lower == ANFI_LOWER_INDEX_MAP;
  return maps && op->cost <= CHEAP && n->type && n->type->kind == ANF_TYPE_TENSOR;
}

typedef struct {
  bool *saved, *again; // by node id - base, as in_pullback
  uint8_t *work;       // of a number that constants give, up to FEW; else 0
  size_t n;
} ids;

static bool is_available(const selection *c, const ids *k, const anf_node *n) {
  const anfi_jbuild *q = c->q;
  if (!is_of(n, q->f) || k->saved[n->id - c->base]) return true;
  return n->kind == ANFI_PARAM && q->constant[n->u.index];
}

/* A checkpoint with keep="products" rematerialises these. */
static bool is_repeatable(const anf_node *n) {
  if (n->kind != ANFI_APPLY || (n->flags & ANFI_NODE_EFFECT)) return false;
  const anfi_op_info *op = anfi_op_of(n);
  bool residual = op->lower == ANFI_LOWER_CONTRACT || op->lower == ANFI_LOWER_CONTROL ||
                  op->lower == ANFI_LOWER_CALL;
  return !residual && !(op->flags & (ANFI_EFFECT | ANFI_CALLS | ANFI_RANDOM)) && n->type &&
         n->type->kind == ANF_TYPE_TENSOR;
}

/* A parameter that changes from round to round, or from call to call of a recursion. */
static bool is_state(const selection *c, const anf_node *x) {
  const anfi_jspec *s = c->q->s;
  if (x->kind != ANFI_PARAM || !is_of(x, c->q->f)) return false;
  if (s->constant[x->u.index] & ANFI_J_CONSTANT) return false;
  if (s->how == ANFI_RESIDUALS_LIST) return true;
  const bool *fixed = anfi_recursion_invariants(c->q->j, s->jg->g);
  return s->how == ANFI_RESIDUALS_BOX_ARGS && fixed && !fixed[x->u.index];
}

/* A few elements of the array x? */
static bool takes_few(const anf_node *n, const anf_node *x) {
  enum { TIMES = 8 };
  size_t few, all;
  if (n->kind != ANFI_APPLY || anfi_op_of(n)->lower != ANFI_LOWER_INDEX_MAP) return false;
  return x->type && x->type->kind == ANF_TYPE_TENSOR && n->type &&
         n->type->kind == ANF_TYPE_TENSOR && anfi_type_elements(n->type, &few) &&
         anfi_type_elements(x->type, &all) && few * TIMES <= all;
}

/* A few elements of an array that callers pass again, though it is no invariant of a loop or recursion around them: it would be
 * saved in each iteration or call, so the elements are saved. */
static bool is_read_of_state(const selection *c, const anf_node *n) {
  const anf_node *x = n->nin ? n->in[0].def : NULL;
  return x && is_state(c, x) && takes_few(n, x);
}

/* Does n of b take a few elements of an array that would be saved, at places that f knows? */
static bool is_read_of_saved(const selection *c, const anf_node *n) {
  const anf_node *x = n->nin ? n->in[0].def : NULL;
  if (!x || !is_of(x, c->q->f) || (x->kind == ANFI_PARAM && !is_state(c, x))) return false;
  for (uint32_t i = 1; i < n->nin; i++)
    if (n->in[i].def->kind != ANFI_VALUE && !is_of(n->in[i].def, c->q->f)) return false;
  return takes_few(n, x);
}

/* The item of a tuple is saved, not the tuple, and elements of an array, not the array: projections and reads of values of f
 * move into f. */
static void move_reads(const selection *c, anfi_node_vec *b) {
  size_t left = 0;
  for (size_t i = 0; i < b->n; i++) {
    anf_node *n = b->at[i];
    bool get = anfi_is_op(n, ANF_OP_TupleGet) || anfi_is_op(n, ANF_OP_RecordGet);
    if ((get && is_of(n->in[0].def, c->q->f)) || is_read_of_saved(c, n)) anfi_move(n, c->q->f);
    else b->at[left++] = n;
  }
  b->n = left;
}

/* Numbers that do not change in the loop around, or that it counts: ◀ has them. */
static bool is_constant(const selection *c, const anf_node *n) {
  const anfi_jspec *s = c->q->s;
  if (!is_of(n, c->q->f)) return true;
  return n->kind == ANFI_PARAM && s->constant[n->u.index] & ANFI_J_CONSTANT;
}

static bool is_number_or_shape(const anf_node *n) {
  const anf_type *t = n->type;
  if (t && t->kind == ANF_TYPE_TENSOR) return !t->n;
  return t && (n->op == ANF_OP_GetField || n->op == ANF_OP_MakeTuple);
}

/* The work of making n again from constants alone, where it is little. */
static uint8_t work_of(const selection *c, const ids *k, const anf_node *n) {
  if (!is_cheap(n) || !is_number_or_shape(n)) return 0;
  unsigned work = anfi_op_of(n)->cost + 1u;
  for (uint32_t i = 0; i < n->nin; i++) {
    const anf_node *x = n->in[i].def;
    if (is_constant(c, x)) continue;
    uint8_t more = x->kind == ANFI_PARAM ? 0 : k->work[x->id - c->base];
    if (!more || (work += more) > FEW) return 0;
  }
  return work <= FEW ? (uint8_t)work : 0;
}

/* Is n rematerialised from available operands, with at most one more saved that is no larger? */
static bool is_rematerialised(const selection *c, const ids *k, const anf_node *n) {
  if (c->q->s->plan.products && is_repeatable(n)) return true;
  if (k->work[n->id - c->base]) return true;
  if (!is_cheap(n) || (!c->eager && is_read_of_state(c, n))) return false;
  if (c->eager && n->type && (n->type->kind != ANF_TYPE_TENSOR || !n->type->n)) return true;
  const anf_node *missing = NULL;
  for (uint32_t i = 0; i < n->nin; i++) {
    const anf_node *x = n->in[i].def;
    if (is_available(c, k, x) || x == missing) continue;
    if (missing) return false;
    missing = x;
  }
  if (!missing) return true;
  bool view = anfi_op_of(n)->lower == ANFI_LOWER_INDEX_MAP || n->op == ANF_OP_Cast;
  return view && missing->type && n->type && is_small(missing->type, n->type);
}

/* ◀ uses x: it is saved if it is of f and callers do not pass it. */
static void require(const selection *c, ids *k, const anf_node *x) {
  if (!is_of(x, c->q->f)) return;
  k->saved[x->id - c->base] = x->kind != ANFI_PARAM || !c->q->constant[x->u.index];
}

static void find_roots(selection *c, const anfi_node_vec *b, ids *k) {
  for (size_t i = 0; i < b->n; i++)
    for (uint32_t l = 0; l < b->at[i]->nin; l++) require(c, k, b->at[i]->in[l].def);
}

static void order_of_f(selection *c, const ids *k) {
  anf_graph *f = c->q->f;
  anfi_node_vec roots = {0};
  for (size_t i = 0; i < k->n; i++) {
    if (!k->saved[i]) continue;
    anf_node *n = c->q->ad->m->nodes.at[c->base + i];
    if (n->kind != ANFI_PARAM) anfi_push(c->q->j->a, &roots, n);
  }
  if (!roots.n) return;
  anf_node *all = anfi_apply(f, ANF_OP_MakeTuple, NULL, roots.n, roots.at), *result = f->result;
  f->result = all; // so that the walk starts at the nodes that b uses
  anfi_graph_order(f, c->q->j->a, &c->order);
  f->result = result;
  c->order.n--;
  anfi_delete(all);
}

/* From the last node to the first: rematerialising a node may save its operands. */
static void choose_saved(selection *c, ids *k) {
  for (size_t i = 0; i < c->order.n; i++)
    k->work[c->order.at[i]->id - c->base] = work_of(c, k, c->order.at[i]);
  for (size_t i = c->order.n; i-- > 0;) {
    anf_node *n = c->order.at[i];
    if (!k->saved[n->id - c->base] || !is_rematerialised(c, k, n)) continue;
    k->saved[n->id - c->base] = false;
    k->again[n->id - c->base] = true;
    for (uint32_t l = 0; l < n->nin; l++) require(c, k, n->in[l].def);
  }
}

/* ---- rewriting ---- */

static anf_node *in_pullback(const selection *c, anf_node *n) {
  anf_node *by = is_of(n, c->q->f) ? c->in_pullback[n->id - c->base] : NULL;
  return by ? by : n;
}

static void replace_by(selection *c, const anf_node *n, anf_node *by) {
  c->in_pullback[n->id - c->base] = by;
}

static void rematerialise(selection *c, const ids *k) {
  for (size_t i = 0; i < c->order.n; i++) {
    anf_node *n = c->order.at[i];
    if (!k->again[n->id - c->base]) continue;
    anf_node **in = ANFI_NEW_N(c->q->j->a, anf_node *, n->nin + 1u);
    for (uint32_t l = 0; l < n->nin; l++) in[l] = in_pullback(c, n->in[l].def);
    anf_node *m = anfi_apply(c->q->b, (anfi_opcode)n->op, n->u.attrs, n->nin, in);
    m->type = n->type;
    m->debug = n->debug;
    replace_by(c, n, m);
  }
}

static void name_constants(selection *c) {
  anfi_jbuild *q = c->q;
  for (size_t i = 0; i < q->f->params.n; i++)
    if (q->constant[i]) replace_by(c, q->f->params.at[i], q->constant[i]);
}

/* The residuals of a branch of a recursion are one box, if they are not few. So are those of a callee that has very many:
 *   g1(x) = sin(sin(x)); g2(x) = g1(g1(x)); g3(x) = g2(g2(x))      their lists would double at each link
 * Boxes copy what they hold, so arrays are boxed only where the list alone would be too long. */
static bool is_much(const selection *c) {
  const anfi_jspec *s = c->q->s;
  size_t n = c->residual.n;
  if (s->family) return s->in_choice && n > MUCH;
  if (!s->flow.users.n || n <= MANY_NUMBERS) return false;
  for (size_t i = 0; n <= MANY && i < n; i++) {
    const anf_type *t = c->residual.at[i]->type;
    if (t->kind == ANF_TYPE_TENSOR && t->n) return false;
  }
  return true;
}

/* Puts many residuals into a box; callers, which are built later, then pass all arguments to ◀. */
static void may_box(const selection *c) {
  anfi_jspec *s = c->q->s;
  size_t np = c->q->f->params.n;
  if (s->how != ANFI_RESIDUALS_LIST || s->splice || !is_much(c)) return;
  s->how = ANFI_RESIDUALS_BOX_ARGS;
  s->passed = ANFI_NEW_N(c->q->j->a, bool, np + 1);
  memset(s->passed, true, np);
}

/* Leading parameters of b for the residuals. */
static void take_residuals(selection *c) {
  anfi_jbuild *q = c->q;
  anfi_jspec *s = q->s;
  const anf_type **t = ANFI_NEW_N(q->j->a, const anf_type *, c->residual.n + 1);
  for (size_t i = 0; i < c->residual.n; i++) t[i] = c->residual.at[i]->type;
  if (!anfi_is_boxed(s)) {
    s->residual = t;
    s->nresidual = c->residual.n;
    anf_node **p = anfi_insert_params(q->b, 0, c->residual.n, t);
    for (size_t i = 0; i < c->residual.n; i++) replace_by(c, c->residual.at[i], p[i]);
    return;
  }
  const anf_type *all = anfi_type_tuple(q->j->cx, c->residual.n, t),
                 **box = ANFI_NEW(q->j->a, const anf_type *);
  *box = anfi_type_simple(q->j->cx, ANF_TYPE_BOX);
  s->residual = box;
  s->nresidual = 1;
  anf_node *p = *anfi_insert_params(q->b, 0, 1, box);
  anf_node *u = anfi_ad_unbox(q->ad, q->b, p, all);
  for (size_t i = 0; i < c->residual.n; i++)
    replace_by(c, c->residual.at[i], anfi_ad_get(q->ad, q->b, u, i));
}

/* Parameters that b turns out not to use are not taken; those of a recursion are, its callers were
 * made before. */
static void drop_unused(anfi_jbuild *q) {
  anfi_jspec *s = q->s;
  if (s->how == ANFI_RESIDUALS_NONE) return;
  bool *gone = ANFI_NEW_N(q->j->a, bool, q->b->params.n + 1);
  s->passed = ANFI_NEW_N(q->j->a, bool, q->f->params.n + 1);
  for (size_t i = 0; i < q->f->params.n; i++) {
    if (!q->constant[i]) continue;
    s->passed[i] = anfi_is_boxed(s) || anfi_is_used(q->constant[i]);
    gone[q->constant[i]->u.index] = !s->passed[i];
  }
  anfi_remove_params(q->b, gone);
}

/* The result of ▶: value, residuals. */
static void give(selection *c) {
  anfi_jbuild *q = c->q;
  anf_node *y = anfi_primal(q, q->s->jg->g->result);
  size_t ny = q->s->splice ? anfi_ad_type_of(q->ad, y)->n : 1, n = 0;
  anf_node **out = ANFI_NEW_N(q->j->a, anf_node *, ny + c->residual.n + 1);
  for (size_t i = 0; q->s->splice && i < ny; i++) out[n++] = anfi_ad_get(q->ad, q->f, y, i);
  if (!q->s->splice) out[n++] = y;
  if (anfi_is_boxed(q->s)) {
    anf_node *t = anfi_ad_tuple(q->ad, q->f, c->residual.n, c->residual.at);
    out[n++] = anfi_ad_box(q->ad, q->f, t);
  }
  for (size_t i = 0; !anfi_is_boxed(q->s) && i < c->residual.n; i++) out[n++] = c->residual.at[i];
  anfi_set_result(q->f, anfi_ad_tuple(q->ad, q->f, n, out));
}

bool anfi_j_close(anfi_jbuild *q) {
  selection c = {.q = q};
  anfi_arena *a = q->j->a;
  anfi_node_vec b = {0};
  c.base = q->base;
  anfi_graph_order(q->b, a, &b);
  move_reads(&c, &b);
  c.in_pullback = ANFI_NEW_N(a, anf_node *, q->ad->m->nodes.n - c.base);
  ids k = {.n = q->ad->m->nodes.n - c.base};
  k.saved = ANFI_NEW_N(a, bool, k.n);
  k.again = ANFI_NEW_N(a, bool, k.n);
  k.work = ANFI_NEW_N(a, uint8_t, k.n);
  find_roots(&c, &b, &k);
  order_of_f(&c, &k);
  c.eager = q->j->trying && c.order.n <= EAGER;
  choose_saved(&c, &k);
  for (size_t i = 0; i < q->f->params.n; i++)
    if (k.saved[q->f->params.at[i]->id - c.base]) anfi_push(a, &c.residual, q->f->params.at[i]);
  for (size_t i = 0; i < c.order.n; i++)
    if (k.saved[c.order.at[i]->id - c.base]) anfi_push(a, &c.residual, c.order.at[i]);
  name_constants(&c);
  may_box(&c);
  take_residuals(&c);
  rematerialise(&c, &k);
  for (size_t i = 0; i < b.n; i++)
    for (uint32_t l = 0; l < b.at[i]->nin; l++) {
      anf_node *x = b.at[i]->in[l].def, *by = is_of(x, q->f) ? in_pullback(&c, x) : x;
      if (by != x) anfi_set_input(b.at[i], l, by);
    }
  if (is_of(q->b->result, q->f)) anfi_set_result(q->b, in_pullback(&c, q->b->result));
  drop_unused(q);
  give(&c);
  return true;
}
