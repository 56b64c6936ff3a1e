// SPDX-License-Identifier: Apache-2.0
/* The rule engine.
 *   rule (Mul x 1) -> x; node n = Mul(a, 1)      users of n use a, and are visited again; n is deleted
 * A worklist of nodes; at each, the rules of its op in order. A rewrite queues new nodes and the users of
 * the old one and deletes the unused nodes.
 *
 * Fast path: one bit per kind of input (a constant, the result of an op) says which rules can match; most nodes
 * match none and are clean (ir/worklist.h) until an input changes. anfi_make_clean gives derivatives, which
 * make many nodes, nodes so marked. */
#include "optimizer/rules/rule.h"
#include "ir/worklist.h"

#include <math.h>

/* ---- matching ---- */

static bool is_number(const anf_node *n, double x) {
  if (n->kind != ANFI_VALUE || n->u.value->kind != ANF_VALUE_TENSOR || !n->u.value->n) return false;
  const anf_value *v = n->u.value;
  anfi_class c = anfi_dtype_class((anf_dtype)v->type->dtype);
  if (c == ANFI_CLASS_COMPLEX || c == ANFI_CLASS_KEY) return false;
  for (size_t i = 0; i < v->n; i++) {
    double e = anfi_get_f64(v, i);
    if (e != x || signbit(e) != signbit(x)) return false; // -0.0 is no 0
  }
  return true;
}

bool anfi_rewrite_same(const anf_node *a, const anf_node *b) {
  if (a == b) return true;
  return a->kind == ANFI_VALUE && b->kind == ANFI_VALUE && anfi_value_same(a->u.value, b->u.value);
}

/* Most matches fail: only the variables of the rule are set and copied. */
static void begin_match(anfi_match *m, const anfi_rule *rule, anf_node *root) {
  m->root = root;
  m->nvar = rule->nvar;
  for (uint32_t i = 0; i < m->nvar; i++) {
    m->var[i] = NULL;
    m->value[i] = NULL;
  }
}

static void copy_match(anfi_match *to, const anfi_match *m) {
  to->root = m->root;
  to->nvar = m->nvar;
  for (uint32_t i = 0; i < m->nvar; i++) {
    to->var[i] = m->var[i];
    to->value[i] = m->value[i];
  }
}

static bool bind(anfi_match *m, int var, anf_node *n) {
  if (m->var[var]) return anfi_rewrite_same(m->var[var], n);
  m->var[var] = n;
  return true;
}

static bool match_attrs(anf_ctx *cx, const anfi_pat *p, const anf_node *n, anfi_match *m) {
  const anfi_schema *s = anfi_op_schema(cx, p->op);
  for (uint32_t k = 0; k < s->nattr; k++) {
    anf_value *v = anfi_attr_value(cx, p->op, n->u.attrs, k);
    if (!v) return false; // given by a node
    uint32_t i = 0;
    while (i < p->nattr && p->attr[i].index != k) i++;
    if (i == p->nattr) {
      if (s->attr[k].initial && !anfi_value_same(v, s->attr[k].initial)) return false;
    } else if (p->attr[i].var < 0) {
      if (!anfi_value_same(v, p->attr[i].value)) return false;
    } else if (m->value[p->attr[i].var]) {
      if (!anfi_value_same(v, m->value[p->attr[i].var])) return false;
    } else m->value[p->attr[i].var] = v;
  }
  return true;
}

/* A look one level down, which refuses most rules before anything is bound. */
static bool may_be(const anfi_pat *p, const anf_node *n) {
  if (p->kind == ANFI_PAT_VAR) return true;
  if (p->kind == ANFI_PAT_NUMBER) return is_number(n, p->number);
  if (p->kind == ANFI_PAT_CONST_VAR) return n->kind == ANFI_VALUE;
  if (!anfi_is_op(n, p->op)) return false;
  return !p->twins || (n->nin == p->n && anfi_rule_twins(n->in[0].def, n->in[1].def));
}

static bool may_match(const anfi_pat *p, const anf_node *n) {
  bool swaps = (anfi_op[p->op].flags & ANFI_COMM) && p->n >= 2;
  if (n->nin != p->n) return false;
  for (uint32_t i = 0; i < p->n; i++)
    if (!may_be(p->in[i], n->in[i].def) && !(swaps && i < 2 && may_be(p->in[i], n->in[1 - i].def)))
      return false;
  return true;
}

static bool match(anf_ctx *cx, const anfi_pat *p, anf_node *n, anfi_match *m);

static bool match_inputs(anf_ctx *cx, const anfi_pat *p, const anf_node *n, anfi_match *m,
                         bool swapped) {
  for (uint32_t i = 0; i < p->n; i++)
    if (!match(cx, p->in[i], n->in[swapped && i < 2 ? 1 - i : i].def, m)) return false;
  return true;
}

/* Recursion is as deep as the pattern. A failed match may leave variables bound: callers that try again restore them. */
static bool match(anf_ctx *cx, const anfi_pat *p, anf_node *n, anfi_match *m) {
  switch (p->kind) {
  case ANFI_PAT_VAR: return bind(m, p->var, n);
  case ANFI_PAT_CONST_VAR: return n->kind == ANFI_VALUE && bind(m, p->var, n);
  case ANFI_PAT_NUMBER: return is_number(n, p->number);
  case ANFI_PAT_OP: break;
  }
  if (!anfi_is_op(n, p->op) || n->nin != p->n || (n->flags & ANFI_NODE_EFFECT)) return false;
  if (!match_attrs(cx, p, n, m)) return false;
  if (!(anfi_op[p->op].flags & ANFI_COMM) || p->n < 2) return match_inputs(cx, p, n, m, false);
  anfi_match bound;
  copy_match(&bound, m);
  if (match_inputs(cx, p, n, m, false)) return true;
  copy_match(m, &bound);
  return match_inputs(cx, p, n, m, true);
}

/* ---- building ---- */

static const anf_type *infer_type(anfi_rewriter *r, anf_node *near, anfi_opcode op,
                                  const anfi_attrs *attrs, size_t n, anf_node *const *in) {
  anf_ctx *cx = r->m->cx;
  const anfi_schema *s = anfi_op_schema(cx, op);
  const anf_type **t = ANFI_NEW_N(r->arena, const anf_type *, n + 1);
  anf_value **at = ANFI_NEW_N(r->arena, anf_value *, s->nattr + 1);
  for (size_t i = 0; i < n; i++) {
    t[i] = in[i]->kind == ANFI_VALUE && !in[i]->type ? anfi_value_type(cx, in[i]->u.value)
                                                     : in[i]->type;
    if (!t[i]) return NULL;
  }
  for (uint32_t k = 0; k < s->nattr; k++)
    if (!(at[k] = anfi_attr_value(cx, op, attrs, k))) return NULL;
  anfi_infer q = {.cx = cx, .op = op, .loc = anfi_node_loc(near), .n = n, .in = t, .attr = at};
  anfi_frame *f = cx->frame;
  const anfi_frame before = {.diag = f->diag, .status = f->status, .nerror = f->nerror};
  f->diag = NULL; // a template that does not fit is no error of the program
  bool fits = anfi_infer_op(&q);
  f->diag = before.diag;
  f->status = before.status;
  f->nerror = before.nerror;
  return fits ? q.out : NULL;
}

anf_node *anfi_rewrite_apply(anfi_rewriter *r, anf_node *near, anfi_opcode op,
                             const anfi_attrs *attrs, size_t n, anf_node *const *in) {
  const anf_type *t = infer_type(r, near, op, attrs, n, in);
  if (!t) return NULL;
  anf_node *p = anfi_apply(near->graph, op, attrs, n, in);
  p->type = t;
  p->debug = near->debug;
  anfi_push(r->arena, &r->todo, p);
  return p;
}

anf_node *anfi_rewrite_const(anfi_rewriter *r, anf_value *v) {
  anf_node *n = anfi_value(r->m, v);
  n->type = anfi_value_type(r->m->cx, v);
  return n;
}

anf_node *anfi_rewrite_number(anfi_rewriter *r, const anf_type *like, double x) {
  anf_value *v = anfi_value_new_tensor(r->m->cx, like);
  for (size_t i = 0; i < v->n; i++) anfi_set_f64(v, i, x);
  return anfi_rewrite_const(r, v);
}

static anf_node *build(anfi_rewriter *r, const anfi_pat *p, const anfi_match *m) {
  if (p->kind == ANFI_PAT_VAR || p->kind == ANFI_PAT_CONST_VAR) return m->var[p->var];
  if (p->kind == ANFI_PAT_NUMBER) { // of the root's element type; it broadcasts
    return anfi_rewrite_number(r, anfi_type_scalar(r->m->cx, (anf_dtype)m->root->type->dtype),
                               p->number);
  }
  anf_node *in[16];
  for (uint32_t i = 0; i < p->n; i++)
    if (!(in[i] = build(r, p->in[i], m))) return NULL;
  const anfi_attrs *attrs = NULL;
  if (p->nattr) {
    anf_value **v = ANFI_NEW_N(r->arena, anf_value *, anfi_op_schema(r->m->cx, p->op)->nattr);
    for (uint32_t i = 0; i < p->nattr; i++)
      v[p->attr[i].index] = p->attr[i].var < 0 ? p->attr[i].value : m->value[p->attr[i].var];
    if (!anfi_attrs_new(r->m, p->op, v, anfi_node_loc(m->root), &attrs)) return NULL;
  }
  return anfi_rewrite_apply(r, m->root, p->op, attrs, p->n, in);
}

/* ---- rewriting ---- */

/* A variable that the right side drops may have widened a dim that is not known: f32[?] + 0 *
 * f32[?]. */
static bool may_change_shape(const anfi_rule *rule, const anfi_match *m) {
  const anf_type *t = m->root->type;
  bool unknown = false;
  if (!rule->dropped || !t || t->kind != ANF_TYPE_TENSOR) return false;
  for (uint32_t i = 0; i < t->n; i++) unknown |= t->dims[i] == ANF_DIM_UNKNOWN;
  for (uint32_t k = 0; unknown && k < m->nvar; k++) {
    const anf_node *n = rule->dropped >> k & 1 ? m->var[k] : NULL;
    if (n && n->kind != ANFI_VALUE && n->type && n->type->n) return true;
  }
  return false;
}

/* Guards on the root alone run before matching, the others after. */
static bool guards_hold(anfi_rewriter *r, const anfi_rule *rule, const anfi_match *m, bool root) {
  for (uint32_t i = 0; i < rule->nguard; i++)
    if (rule->guard[i].root == root && !rule->guard[i].holds(r, m, rule->guard[i].vars))
      return false;
  return true;
}

/* Deletes n and then the inputs that only it used. */
static void delete_unused(anfi_rewriter *r, anf_node *n) {
  ANFI_VEC(anf_node *) dead = {0};
  anfi_push(r->arena, &dead, n);
  while (dead.n) {
    anf_node *d = dead.at[--dead.n];
    if (!anfi_is_cnode(d) || anfi_is_used(d)) continue;
    for (uint32_t i = 0; i < d->nin; i++) anfi_push(r->arena, &dead, d->in[i].def);
    anfi_delete(d);
  }
}

/* A template may fail half way, when types do not fit: the nodes made so far are deleted. */
static void undo(anfi_rewriter *r, size_t todo) {
  while (r->todo.n > todo) delete_unused(r, r->todo.at[--r->todo.n]);
}

anf_node *anfi_rule_try(anfi_rewriter *r, const anfi_rule *rule, anf_node *n) {
  if ((rule->fast && !r->pass->fast) || !may_match(rule->lhs, n)) return NULL;
  anfi_match m;
  begin_match(&m, rule, n);
  if (!guards_hold(r, rule, &m, true) || !match(r->m->cx, rule->lhs, n, &m) ||
      !guards_hold(r, rule, &m, false))
    return NULL;
  if (may_change_shape(rule, &m)) return NULL;
  if (!anfi_rewrite(r->pass)) return NULL;
  size_t todo = r->todo.n;
  anf_node *by = rule->rhs ? build(r, rule->rhs, &m) : rule->row->fn(r, &m);
  if (by && by != n && by->type == n->type) {
    r->fired[rule - r->set->rules]++;
    return by;
  }
  r->pass->rewrites--;
  undo(r, todo);
  return NULL;
}

static void push_users(anfi_rewriter *r, const anf_node *n) {
  for (const anfi_use *u = n->uses; u; u = u->next) {
    anfi_set_dirty(u->user, ANFI_WORK_SIMPLIFY);
    anfi_push(r->arena, &r->todo, u->user);
  }
}

/* Patterns are two deep: users of users of n may match the replacement. No rule sees the item
 * is in a tuple or record through it; one of 10^4 items may have as many users. */
static void push_all_users(anfi_rewriter *r, const anf_node *n) {
  for (const anfi_use *u = n->uses; u; u = u->next)
    if (!anfi_is_op(u->user, ANF_OP_MakeTuple) && !anfi_is_op(u->user, ANF_OP_MakeRecord))
      push_users(r, u->user);
  push_users(r, n);
}

static uint64_t bits_of(const anfi_rewriter *r, const anf_node *n) {
  uint64_t has = anfi_rule_type(n->type) | (r->pass->fast ? ANFI_RULE_FAST : 0);
  for (uint32_t i = 0; i < n->nin; i++) has |= anfi_rule_input(n->type, n->in[i].def);
  return n->nin >= 2 ? has | anfi_rule_twins(n->in[0].def, n->in[1].def) : has;
}

static void put_instead(anfi_rewriter *r, anf_node *n, anf_node *by) {
  push_all_users(r, n);
  anfi_replace(n, by);
  delete_unused(r, n);
  if (by->kind == ANFI_APPLY) anfi_push(r->arena, &r->todo, by);
}

static bool compute(anfi_rewriter *r, anf_node *n) {
  bool may = anfi_fold_may(n) && r->pass->rewrites < r->pass->limit;
  anf_node *by = may ? anfi_fold_node(r->arena, n) : NULL;
  if (!by || !anfi_rewrite(r->pass)) return false;
  put_instead(r, n, by);
  return true;
}

/* The rule that fired, or NULL. */
static const anfi_rule *simplify_node(anfi_rewriter *r, anf_node *n) {
  size_t nrule = r->set->by_op[n->op].all.n;
  uint64_t has = nrule ? bits_of(r, n) : 0;
  const anfi_rule_of_op *at = r->set->by_op[n->op].all.at;
  if (!(has & r->set->by_op[n->op].needs)) {
    at = r->set->by_op[n->op].free.at;
    nrule = r->set->by_op[n->op].free.n;
  }
  for (size_t i = 0; i < nrule; i++, at++) {
    const anfi_rule *rule = at->rule;
    anf_node *by = at->needs & ~has ? NULL : anfi_rule_try(r, rule, n);
    if (!by) continue;
    put_instead(r, n, by);
    return rule;
  }
  return NULL;
}

/* ---- nodes that derivatives make ---- */

/* Guards that read more than the root may hold later. */
static bool may_fire(anfi_rewriter *r, const anfi_rule *rule, anf_node *n) {
  if (rule->fast || !may_match(rule->lhs, n)) return false;
  anfi_match m;
  begin_match(&m, rule, n);
  return guards_hold(r, rule, &m, true) && match(r->m->cx, rule->lhs, n, &m);
}

/* Has the op a rule that asks for no more than the bits? */
static bool may_any(anfi_rewriter *r, uint32_t op, uint64_t has) {
  uint64_t h = (has ^ op) * UINT64_C(0x9e3779b97f4a7c15);
  anfi_rule_known *k = &r->known[h >> 32 & (ANFI_RULE_KNOWN - 1)];
  if (k->op == op + 1 && k->has == has) return k->any;
  const anfi_rule_of_op *at = r->set->by_op[op].all.at;
  *k = (anfi_rule_known){.has = has, .op = op + 1};
  for (size_t i = 0; i < r->set->by_op[op].all.n; i++)
    k->any |= !(at[i].needs & ~has) && !at[i].rule->fast;
  return k->any;
}

static bool is_quiet(anfi_rewriter *r, anf_node *n, uint64_t has) {
  if (!may_any(r, n->op, has)) return true;
  const anfi_rule_of_op *at = r->set->by_op[n->op].all.at;
  for (size_t i = 0; i < r->set->by_op[n->op].all.n; i++)
    if (!(at[i].needs & ~has) && may_fire(r, at[i].rule, n)) return false;
  return true;
}

static bool equals(const anf_node *n, const anfi_apply_of *of, size_t nin, anf_node *const *in) {
  if (n->op != of->op || n->kind != ANFI_APPLY || n->nin != nin || n->graph != of->graph ||
      n->type != of->type || n->u.attrs || (n->flags & ANFI_NODE_EFFECT))
    return false;
  for (size_t i = 0; i < nin; i++)
    if (!anfi_rewrite_same(n->in[i].def, in[i])) return false;
  return true;
}

/* A node that is there and equals the one that is to be made, or NULL; *few: there is none. */
static anf_node *equal_node(const anfi_apply_of *of, size_t n, anf_node *const *in, bool *few) {
  enum { FEW = 8 };
  for (size_t i = 0; i < n && !*few; i++) // mostly the adjoint has no user yet
    *few = in[i]->kind != ANFI_VALUE && !in[i]->uses;
  for (size_t i = 0; i < n && !*few; i++) {
    if (in[i]->kind == ANFI_VALUE) continue;
    const anfi_use *u = in[i]->uses;
    for (int k = 0; u && k < FEW; k++, u = u->next)
      if (equals(u->user, of, n, in)) return u->user;
    *few = !u;
  }
  return NULL;
}

anf_node *anfi_make_clean(anfi_rewriter *r, const anfi_apply_of *of, size_t n, anf_node *const *in,
                          uint64_t has) {
  bool few = false;
  anf_node *x = equal_node(of, n, in, &few);
  if (x) return x;
  x = anfi_apply_as(of, n, in);
  if (!few) {
    anfi_set_dirty(x, ANFI_WORK_CSE);
  }
  if (!(has & ANFI_RULE_OPS) || !is_quiet(r, x, has)) {
    anfi_set_new(x);
  }
  return x;
}

/* ---- the pass ---- */

typedef struct {
  size_t looked, fired;
} steps;

/* True if n was replaced. */
static bool look_at(anfi_rewriter *r, anf_node *n, steps *s) {
  bool ready = n->kind == ANFI_APPLY && !anfi_is_clean(n, ANFI_WORK_SIMPLIFY) &&
               (n->type || n->op == ANF_OP_Switch); // choices of graphs have no type
  s->looked++;
  if (!ready) return false;
  if (compute(r, n)) return true;
  const anfi_rule *rule = simplify_node(r, n);
  if (!rule && r->pass->rewrites < r->pass->limit) anfi_set_visited(n);
  if (rule && ++s->fired > 100 * r->m->nodes.n + 10000)
    anfi_fail(r->m->cx, anfi_nowhere(), ANF_E0604, rule->row->name);
  return rule != NULL;
}

/* Visits n, and then the worklist. */
static bool simplify_from(anfi_rewriter *r, anf_node *n, steps *s) {
  look_at(r, n, s);
  while (r->todo.n && !anfi_failed(r->m->cx)) look_at(r, r->todo.at[--r->todo.n], s);
  if (s->looked < 65536) return !anfi_failed(r->m->cx);
  s->looked = 0;
  return !anfi_failed(r->m->cx) && anfi_go_on(r->m->cx, "simplifying", 0.0);
}

/* Nodes that may have their turn soon. */
static void fetch_soon(const anf_module *m, size_t i) {
  enum { NEAR = 8, FAR = 24 };
  if (i + FAR >= m->nodes.n) return;
  anfi_soon(m->nodes.at[i + FAR]);
  const anf_node *n = anfi_work_has(m, i + NEAR, ANFI_WORK_SIMPLIFY) ? m->nodes.at[i + NEAR] : NULL;
  for (uint32_t k = 0; n && !anfi_is_clean(n, ANFI_WORK_SIMPLIFY) && k < n->nin && k < 3; k++)
    anfi_soon(n->in[k].def);
}

/* They may have been seen without the rules that need reassociation. */
static void forget_all(const anf_module *m) {
  for (size_t i = 0; i < m->nodes.n; i++) {
    anf_node *n = m->nodes.at[i];
    if (!n || n->kind != ANFI_APPLY) continue;
    anfi_set_dirty(n, ANFI_WORK_SIMPLIFY);
  }
}

/* The inputs of one that was seen before have changed. */
static bool look_from(anfi_rewriter *r, anf_node *n, steps *s) {
  if (!n || n->kind != ANFI_APPLY || (n->flags & ANFI_NODE_SIMPLE)) return true;
  if (anfi_was_visited(n)) push_users(r, n);
  return simplify_from(r, n, s);
}

bool anfi_opt_simplify(anfi_pass *p) {
  anf_ctx *cx = p->m->cx;
  anf_module *m = p->m;
  anfi_rewriter r = {.pass = p, .m = m, .arena = anfi_scratch(cx)};
  if (!(r.set = anfi_rules(cx))) return false;
  r.fired = ANFI_NEW_N(r.arena, uint32_t, r.set->n);
  steps s = {0};
  if (p->fast) forget_all(m);
  size_t i = 0, n = m->nodes.n;
  while ((i = anfi_work_next(m, i, ANFI_WORK_SIMPLIFY)) < n) { // mostly inputs first
    fetch_soon(m, i);
    if (!look_from(&r, m->nodes.at[i], &s)) return false;
    const anf_node *x = m->nodes.at[i];
    bool left = x && x->kind == ANFI_APPLY && !anfi_is_clean(x, ANFI_WORK_SIMPLIFY);
    if (!left) anfi_work_done(m, i, ANFI_WORK_SIMPLIFY);
    i++;
  }
  return true;
}
