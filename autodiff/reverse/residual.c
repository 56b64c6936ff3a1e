// SPDX-License-Identifier: Apache-2.0
/* Closing ◀: nodes of ▶ that it names are kept. First what is cheap to have again from what is kept
 * or passed anyway is computed again in ◀; then ▶ gives the rest besides its value, and ◀ takes it.
 * Constants of the spec are passed by callers and never kept; numbers never are. */
#include "autodiff/reverse/j.h"

enum { EAGER = 64, MUCH = 24 };

typedef struct {
  anfi_jbuild *q;
  anfi_node_vec order;    // of f, from the result and from what b names
  uint32_t base;          // no node of f has a smaller id
  anf_node **in_pullback; // by id - base: what stands for the node of f in b
  anfi_node_vec residual;
  bool eager; // scalars are computed again from arguments, however many operations that takes
} closure;

static bool is_of(const anf_node *n, const anf_graph *g) {
  return n->graph == g && n->kind != ANFI_VALUE;
}

/* ---- which nodes ---- */

/* An item of a tuple is kept, not the tuple: what takes values of f apart moves into f. */
static void move_gets(anfi_jbuild *q, anfi_node_vec *b) {
  size_t left = 0;
  for (size_t i = 0; i < b->n; i++) {
    anf_node *n = b->at[i];
    bool get = anfi_is_op(n, ANF_OP_TupleGet) || anfi_is_op(n, ANF_OP_RecordGet);
    if (get && is_of(n->in[0].def, q->f)) anfi_move(n, q->f);
    else b->at[left++] = n;
  }
  b->n = left;
}

static bool is_small(const anf_type *t, const anf_type *than) {
  size_t a, b;
  if (t->kind != ANF_TYPE_TENSOR || than->kind != ANF_TYPE_TENSOR) return false;
  return anfi_type_elements(t, &a) && anfi_type_elements(than, &b) &&
         a * anf_dtype_bytes((anf_dtype)t->dtype) <= b * anf_dtype_bytes((anf_dtype)than->dtype);
}

/* Elementwise of little work, or a view: cheaper to do again than to store and load. */
static bool is_cheap(const anf_node *n) {
  enum { CHEAP = 4 };
  if (n->kind != ANFI_APPLY || (n->flags & ANFI_NODE_EFFECT)) return false;
  const anfi_op_info *op = &anfi_op[n->op];
  if (op->flags & (ANFI_EFFECT | ANFI_CALLS | ANFI_RANDOM)) return false;
  if (n->op == ANF_OP_TupleGet || n->op == ANF_OP_RecordGet || n->op == ANF_OP_MakeTuple ||
      n->op == ANF_OP_MakeRecord || n->op == ANF_OP_Undef)
    return true;
  bool maps = op->lower == ANFI_LOWER_POINTWISE || op->lower == ANFI_LOWER_INDEX_MAP;
  return maps && op->cost <= CHEAP && n->type && n->type->kind == ANF_TYPE_TENSOR;
}

typedef struct {
  bool *residual; // by node id
  size_t n;
} ids;

static bool is_available(const closure *c, const ids *k, const anf_node *n) {
  const anfi_jbuild *q = c->q;
  if (!is_of(n, q->f) || k->residual[n->id]) return true;
  return n->kind == ANFI_PARAM && q->constant[n->u.index];
}

/* What a checkpoint that keeps products does not keep. */
static bool is_repeatable(const anf_node *n) {
  if (n->kind != ANFI_APPLY || (n->flags & ANFI_NODE_EFFECT)) return false;
  const anfi_op_info *op = &anfi_op[n->op];
  bool residual = op->lower == ANFI_LOWER_CONTRACT || op->lower == ANFI_LOWER_CONTROL ||
                  op->lower == ANFI_LOWER_CALL;
  return !residual && !(op->flags & (ANFI_EFFECT | ANFI_CALLS | ANFI_RANDOM)) && n->type &&
         n->type->kind == ANF_TYPE_TENSOR;
}

/* Can n be had again from what is at hand? Or from one value that is not larger? */
static bool is_rematerialised(const closure *c, const ids *k, const anf_node *n) {
  if (c->q->s->plan.products && is_repeatable(n)) return true;
  if (!is_cheap(n)) return false;
  if (c->eager && n->type && (n->type->kind != ANF_TYPE_TENSOR || !n->type->n)) return true;
  const anf_node *missing = NULL;
  for (uint32_t i = 0; i < n->nin; i++) {
    const anf_node *x = n->in[i].def;
    if (is_available(c, k, x) || x == missing) continue;
    if (missing) return false;
    missing = x;
  }
  if (!missing) return true;
  bool view = anfi_op[n->op].lower == ANFI_LOWER_INDEX_MAP || n->op == ANF_OP_Cast;
  return view && missing->type && n->type && is_small(missing->type, n->type);
}

/* ◀ needs x: it is kept if it is of f, and nobody hands it to ◀. */
static void require(const closure *c, ids *k, const anf_node *x) {
  if (!is_of(x, c->q->f)) return;
  k->residual[x->id] = x->kind != ANFI_PARAM || !c->q->constant[x->u.index];
}

static void find_roots(closure *c, const anfi_node_vec *b, ids *k) {
  for (size_t i = 0; i < b->n; i++)
    for (uint32_t l = 0; l < b->at[i]->nin; l++) require(c, k, b->at[i]->in[l].def);
}

static void order_of_f(closure *c, const ids *k) {
  anf_graph *f = c->q->f;
  anf_node **roots = ANFI_NEW_N(c->q->j->a, anf_node *, k->n + 1);
  size_t n = 0;
  for (size_t i = 0; i < k->n; i++)
    if (k->residual[i] && c->q->ad->m->nodes.at[i]->kind != ANFI_PARAM)
      roots[n++] = c->q->ad->m->nodes.at[i];
  if (!n) return;
  anf_node *all = anfi_apply(f, ANF_OP_MakeTuple, NULL, n, roots), *result = f->result;
  f->result = all; // a walk from what b names
  anfi_graph_order(f, c->q->j->a, &c->order);
  f->result = result;
  c->order.n--;
  anfi_delete(all);
}

/* From the last node to the first: what is done again may make its inputs kept. */
static void find_kept(closure *c, ids *k, bool *again) {
  for (size_t i = c->order.n; i-- > 0;) {
    anf_node *n = c->order.at[i];
    if (!k->residual[n->id] || !is_rematerialised(c, k, n)) continue;
    k->residual[n->id] = false;
    again[n->id] = true;
    for (uint32_t l = 0; l < n->nin; l++) require(c, k, n->in[l].def);
  }
}

/* ---- rewriting ---- */

static anf_node *in_pullback(const closure *c, anf_node *n) {
  anf_node *by = is_of(n, c->q->f) ? c->in_pullback[n->id - c->base] : NULL;
  return by ? by : n;
}

static void stands_for(closure *c, const anf_node *n, anf_node *by) {
  c->in_pullback[n->id - c->base] = by;
}

static void rematerialise(closure *c, const bool *again) {
  for (size_t i = 0; i < c->order.n; i++) {
    anf_node *n = c->order.at[i];
    if (!again[n->id]) continue;
    anf_node **in = ANFI_NEW_N(c->q->j->a, anf_node *, n->nin + 1u);
    for (uint32_t l = 0; l < n->nin; l++) in[l] = in_pullback(c, n->in[l].def);
    anf_node *m = anfi_apply(c->q->b, (anfi_opcode)n->op, n->u.attrs, n->nin, in);
    m->type = n->type;
    m->debug = n->debug;
    stands_for(c, n, m);
  }
}

static void name_constants(closure *c) {
  anfi_jbuild *q = c->q;
  for (size_t i = 0; i < q->f->params.n; i++)
    if (q->constant[i]) stands_for(c, q->f->params.at[i], q->constant[i]);
}

/* A branch of a recursion, as its callers, which come later, will see it. */
static void may_box(const closure *c) {
  anfi_jspec *s = c->q->s;
  size_t np = c->q->f->params.n;
  if (s->boxed || s->splice || s->by_args || !s->family || !s->in_choice || c->residual.n <= MUCH)
    return;
  s->boxed = s->with_args = true;
  s->passed = ANFI_NEW_N(c->q->j->a, bool, np + 1);
  memset(s->passed, true, np);
}

/* Parameters of b for what is kept, before the others. */
static void take_residuals(closure *c) {
  anfi_jbuild *q = c->q;
  anfi_jspec *s = q->s;
  const anf_type **t = ANFI_NEW_N(q->j->a, const anf_type *, c->residual.n + 1);
  for (size_t i = 0; i < c->residual.n; i++) t[i] = c->residual.at[i]->type;
  if (!s->boxed) {
    s->residual = t;
    s->nresidual = c->residual.n;
    anf_node **p = anfi_insert_params(q->b, 0, c->residual.n, t);
    for (size_t i = 0; i < c->residual.n; i++) stands_for(c, c->residual.at[i], p[i]);
    return;
  }
  const anf_type *all = anfi_type_tuple(q->j->cx, c->residual.n, t),
                 **box = ANFI_NEW(q->j->a, const anf_type *);
  *box = anfi_type_simple(q->j->cx, ANF_TYPE_BOX);
  s->residual = box;
  s->nresidual = 1;
  anf_node *p = *anfi_insert_params(q->b, 0, 1, box);
  const anfi_attrs *at = anfi_attrs_one(q->ad->m, ANF_OP_Unbox, anfi_value_new_type(q->j->cx, all));
  anf_node *u = anfi_apply(q->b, ANF_OP_Unbox, at, 1, &p);
  u->type = all;
  u->debug = q->ad->how;
  for (size_t i = 0; i < c->residual.n; i++)
    stands_for(c, c->residual.at[i], anfi_ad_get(q->ad, q->b, u, i));
}

/* Parameters that b turns out not to use are not taken; those of a recursion are, its callers were
 * made before. */
static void drop_unused(anfi_jbuild *q) {
  anfi_jspec *s = q->s;
  if (s->by_args) return;
  bool *gone = ANFI_NEW_N(q->j->a, bool, q->b->params.n + 1);
  s->passed = ANFI_NEW_N(q->j->a, bool, q->f->params.n + 1);
  for (size_t i = 0; i < q->f->params.n; i++) {
    if (!q->constant[i]) continue;
    s->passed[i] = s->boxed || anfi_is_used(q->constant[i]);
    gone[q->constant[i]->u.index] = !s->passed[i];
  }
  anfi_remove_params(q->b, gone);
}

/* What ▶ gives. */
static void give(closure *c) {
  anfi_jbuild *q = c->q;
  anf_node *y = anfi_primal(q, q->s->jg->g->result);
  size_t ny = q->s->splice ? anfi_ad_type_of(q->ad, y)->n : 1, n = 0;
  anf_node **out = ANFI_NEW_N(q->j->a, anf_node *, ny + c->residual.n + 1);
  for (size_t i = 0; q->s->splice && i < ny; i++) out[n++] = anfi_ad_get(q->ad, q->f, y, i);
  if (!q->s->splice) out[n++] = y;
  if (q->s->boxed) {
    anf_node *t = anfi_ad_tuple(q->ad, q->f, c->residual.n, c->residual.at);
    out[n] = anfi_apply1(q->f, ANF_OP_Box, t);
    out[n]->debug = q->ad->how;
    out[n++]->type = anfi_type_simple(q->j->cx, ANF_TYPE_BOX);
  }
  for (size_t i = 0; !q->s->boxed && i < c->residual.n; i++) out[n++] = c->residual.at[i];
  anfi_set_result(q->f, anfi_ad_tuple(q->ad, q->f, n, out));
}

bool anfi_j_close(anfi_jbuild *q) {
  closure c = {.q = q};
  anfi_arena *a = q->j->a;
  anfi_node_vec b = {0};
  c.base = q->base;
  anfi_graph_order(q->b, a, &b);
  move_gets(q, &b);
  c.in_pullback = ANFI_NEW_N(a, anf_node *, q->ad->m->nodes.n - c.base);
  ids k = {ANFI_NEW_N(a, bool, q->ad->m->nodes.n), q->ad->m->nodes.n};
  bool *again = ANFI_NEW_N(a, bool, k.n);
  find_roots(&c, &b, &k);
  order_of_f(&c, &k);
  c.eager = q->j->trying && c.order.n <= EAGER;
  find_kept(&c, &k, again);
  for (size_t i = 0; i < q->f->params.n; i++)
    if (k.residual[q->f->params.at[i]->id]) anfi_push(a, &c.residual, q->f->params.at[i]);
  for (size_t i = 0; i < c.order.n; i++)
    if (k.residual[c.order.at[i]->id]) anfi_push(a, &c.residual, c.order.at[i]);
  name_constants(&c);
  may_box(&c);
  take_residuals(&c);
  rematerialise(&c, again);
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
