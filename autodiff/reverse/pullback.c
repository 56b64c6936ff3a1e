// SPDX-License-Identifier: Apache-2.0
/* The bodies of ▶ and ◀: the nodes of a graph in order make ▶, in reverse order ◀. Adjoints are kept
 * leaf by leaf as lists of contributions, and added up when their node is reached; no contribution
 * is zero as a number. While it is built, ◀ names nodes of ▶ as it likes; jkeep.c closes it. */
#include "autodiff/reverse/j.h"

size_t anfi_position(const anfi_jbuild *q, const anf_node *n) { return q->j->local.at[n->id]; }

anf_node *anfi_primal(anfi_jbuild *q, anf_node *n) {
  if (n->kind == ANFI_PARAM) return q->param[n->u.index];
  return n->kind == ANFI_VALUE ? n : q->to[anfi_position(q, n)];
}

/* ---- adjoints ---- */

static anfi_adjoint_term **place(const anfi_jbuild *q, const anf_node *n, size_t k) {
  const anfi_jgraph *jg = q->s->jg;
  return n->kind == ANFI_PARAM ? &q->padj[jg->pfirst[n->u.index] + k]
                               : &q->adj[jg->first[anfi_position(q, n)] + k];
}

/* One more contribution to the list at `at`. */
static void add_to_list(anfi_jbuild *q, anfi_adjoint_term **at, anf_node *dx, bool minus) {
  anfi_adjoint_term *c = q->spare;
  if (c) q->spare = c->next;
  else c = ANFI_NEW(q->j->a, anfi_adjoint_term);
  *c = (anfi_adjoint_term){dx, *at, minus};
  *at = c;
}

static anf_node *negative(anfi_jbuild *q, anf_node *x) {
  return anfi_ad_apply1(q->ad, q->b, ANF_OP_Neg, x);
}

static void add_adjoint(anfi_jbuild *q, const anf_node *n, size_t k, anf_node *dx, bool minus) {
  if (!dx || n->kind == ANFI_VALUE || !anfi_varied(q->j, n)[k]) return;
  anf_node **so_far = n->kind == ANFI_PARAM ? &q->sum[q->s->jg->pfirst[n->u.index] + k] : NULL;
  if (so_far && *so_far)
    *so_far = anfi_add_leaf(q->ad, q->b, *so_far, minus ? negative(q, dx) : dx);
  else add_to_list(q, place(q, n, k), dx, minus);
}

void anfi_add_adjoint(anfi_jbuild *q, const anf_node *n, size_t k, anf_node *dx) {
  add_adjoint(q, n, k, dx, false);
}

static bool is_elementwise(const anf_node *n) {
  return n->kind == ANFI_APPLY && anfi_op[n->op].scalar;
}

/* a + b, or a - b. */
static anf_node *add(anfi_jbuild *q, anf_node *a, anf_node *b, bool minus) {
  bool taped =
      a->type == b->type && a->type == q->ad->common && is_elementwise(a) && is_elementwise(b);
  if (!taped) return anfi_add_leaf(q->ad, q->b, a, minus ? negative(q, b) : b);
  anfi_apply_of of = anfi_ad_next(q->ad, q->b);
  of.op = minus ? ANF_OP_Sub : ANF_OP_Add;
  of.type = a->type;
  return anfi_ad_apply_typed(q->ad, &of, 2, (anf_node *const[]){a, b});
}

/* The newest contribution is of the node's first user: sums are in the order of the program. The sum
 * is the negative of what is returned if *minus is set. */
static anf_node *signed_sum(anfi_jbuild *q, anfi_adjoint_term **list, bool *minus) {
  anf_node *x = NULL;
  *minus = false;
  for (anfi_adjoint_term *c; (c = *list);) {
    if (!x) {
      x = c->node;
      *minus = c->minus;
    } else if (*minus == c->minus) {
      x = add(q, x, c->node, false);
    } else {
      x = *minus ? add(q, c->node, x, true) : add(q, x, c->node, true);
      *minus = false;
    }
    *list = c->next;
    c->next = q->spare;
    q->spare = c;
  }
  return x;
}

static anf_node *sum(anfi_jbuild *q, anfi_adjoint_term **list) {
  bool minus;
  anf_node *x = signed_sum(q, list, &minus);
  return minus ? negative(q, x) : x;
}

/* What plain nodes make is used, but perhaps not by other nodes. */
static void may_be_unused(const anf_node *n) {
  if (n->graph) anfi_look_at(n, ANFI_TODO_DCE);
}

bool anfi_adjoint(anfi_jbuild *q, const anf_node *n, anf_node **leaf) {
  size_t k = anfi_count(q->j, n);
  bool some = false;
  for (size_t i = 0; i < k; i++) {
    leaf[i] = sum(q, place(q, n, i));
    some |= leaf[i] != NULL;
    if (leaf[i]) may_be_unused(leaf[i]);
  }
  return some;
}

size_t anfi_given_list(anfi_jbuild *q, const bool *mask, anf_node *y, anf_node *const *leaf,
                       anf_node **out) {
  const anf_type *t = anfi_ad_type_of(q->ad, y);
  size_t k = anfi_ad_leaves(t), n = 0;
  anf_node **primal = ANFI_NEW_N(q->j->a, anf_node *, k + 1);
  bool missing = false;
  for (size_t i = 0; i < k; i++) missing |= mask[i] && !leaf[i];
  if (missing) anfi_leaf_nodes(q->ad, q->b, y, primal);
  for (size_t i = 0; i < k; i++)
    if (mask[i])
      out[n++] = leaf[i] ? leaf[i] : anfi_zero_leaf(q->ad, q->b, primal[i]->type, primal[i]);
  return n;
}

/* ---- single nodes, back ---- */

static bool back_parts(anfi_jbuild *q, anf_node *n, anf_node *const *leaf, size_t k) {
  const anfi_flow_from *from = anfi_flow_parts(&q->j->parts, n);
  for (size_t i = 0; from && i < k; i++)
    anfi_add_adjoint(q, n->in[from[i].in].def, from[i].part, leaf[i]);
  return from != NULL;
}

static anf_node *choose(anfi_jbuild *q, const anf_node *n, uint32_t branch, anf_node *d) {
  anf_node **in = ANFI_NEW_N(q->j->a, anf_node *, n->nin);
  in[0] = anfi_primal(q, n->in[0].def);
  for (uint32_t k = 1; k < n->nin; k++)
    in[k] = k == branch ? d : anfi_zero_leaf(q->ad, q->b, d->type, d);
  anf_node *c = anfi_apply(q->b, (anfi_opcode)n->op, n->u.attrs, n->nin, in);
  c->type = d->type;
  c->debug = q->ad->how;
  return c;
}

static void back_choice(anfi_jbuild *q, anf_node *n, anf_node *const *leaf, size_t k) {
  for (uint32_t branch = 1; branch < n->nin; branch++)
    for (size_t i = 0; i < k; i++)
      if (leaf[i] && n->in[branch].def->kind != ANFI_VALUE &&
          anfi_varied(q->j, n->in[branch].def)[i])
        anfi_add_adjoint(q, n->in[branch].def, i, choose(q, n, branch, leaf[i]));
}

/* ∂ of a box is a box of what is in it, with adjoints for leaves. */
static void back_box(anfi_jbuild *q, anf_node *n, anf_node *const *leaf) {
  anf_node *x = n->in[0].def;
  const anf_type *t = anfi_ad_type_of(q->ad, x);
  const anfi_attrs *at = anfi_attrs_one(q->ad->m, ANF_OP_Unbox, anfi_value_new_type(q->j->cx, t));
  anf_node *u = anfi_apply(q->b, ANF_OP_Unbox, at, 1, (anf_node *const[]){leaf[0]});
  anf_node **inside = ANFI_NEW_N(q->j->a, anf_node *, anfi_ad_leaves(t) + 1);
  u->type = t;
  u->debug = q->ad->how;
  anfi_leaf_nodes(q->ad, q->b, u, inside);
  for (size_t i = anfi_ad_leaves(t); i-- > 0;) anfi_add_adjoint(q, x, i, inside[i]);
}

static void back_unbox(anfi_jbuild *q, anf_node *n, anf_node *const *leaf) {
  anf_node *v = anfi_of_leaves(q->ad, q->b, n->type, anfi_primal(q, n), leaf);
  anf_node *box = anfi_apply1(q->b, ANF_OP_Box, v);
  box->type = anfi_type_simple(q->j->cx, ANF_TYPE_BOX);
  box->debug = q->ad->how;
  anfi_add_adjoint(q, n->in[0].def, 0, box);
}

/* The adjoints of a result as places of its items (derive.h). */
static anf_node **places(anfi_jbuild *q, const anf_node *n, anf_node *const *leaf, size_t *count) {
  bool tuple = n->type->kind == ANF_TYPE_TUPLE;
  *count = tuple ? n->type->n : 1;
  if (!tuple) return (anf_node **)(uintptr_t)leaf;
  anf_node **at = ANFI_NEW_N(q->j->a, anf_node *, n->type->n + 1);
  for (uint32_t i = 0; i < n->type->n; i++)
    if (anfi_is_leaf(n->type->items[i])) at[i] = *leaf++;
  return at;
}

static bool back_op(anfi_jbuild *q, anf_node *n, anf_node *const *leaf) {
  size_t ndy, args = anfi_arg_count(n);
  enum { FEW = 8 };
  bool many = n->nin > FEW, few_wants[FEW] = {false},
       *want = many ? ANFI_NEW_N(q->j->a, bool, n->nin) : few_wants;
  anf_node *few[2][FEW], **in = many ? ANFI_NEW_N(q->j->a, anf_node *, n->nin) : few[0],
                         **out = many ? ANFI_NEW_N(q->j->a, anf_node *, n->nin) : few[1],
                         **dy = places(q, n, leaf, &ndy);
  for (size_t i = 0; i < n->nin; i++) in[i] = anfi_primal(q, n->in[i].def);
  for (size_t i = 0; i < args; i++)
    want[i] = !anfi_is_inactive(q->j, (anfi_opcode)n->op, i) &&
              anfi_any(anfi_varied(q->j, n->in[i].def), anfi_count(q->j, n->in[i].def));
  if (!anfi_vjp_op(q->ad, q->b, n, in, anfi_primal(q, n), ndy, dy, want, out)) return false;
  for (size_t i = args; i-- > 0;) {
    size_t k = anfi_count(q->j, n->in[i].def);
    if (!want[i] || !out[i]) continue;
    anf_node *one, **part = k <= 1 ? &one : ANFI_NEW_N(q->j->a, anf_node *, k);
    anfi_leaf_nodes(q->ad, q->b, out[i], part);
    for (size_t l = 0; l < k; l++) anfi_add_adjoint(q, n->in[i].def, l, part[l]);
  }
  return true;
}

/* Node n at position k, whose adjoint is dy or its negative: contributions are linear in it. The node's
 * copy says all, and was made just before those that use it. */
static bool back_taped(anfi_jbuild *q, size_t k, anf_node *n, anf_node *dy, bool minus) {
  anf_node *y = q->to[k], *in[ANFI_RECIPE_PLACES], *out[ANFI_TAPE_OPERANDS];
  const anfi_jgraph *jg = q->s->jg;
  const bool *row = q->j->varied - anfi_node_slot(jg);
  const uint32_t *at = jg->tape[k].in;
  const anf_type *t = y->type;
  uint32_t want = 0, nin = y->nin;
  bool alike = dy->type == t, wants[ANFI_TAPE_OPERANDS];
  for (uint32_t i = 0; i < nin; i++) {
    in[i] = y->in[i].def;
    wants[i] = row[at[i]];
    want |= (uint32_t)wants[i] << i;
    alike &= anfi_ad_type_of(q->ad, in[i]) == t;
  }
  const anfi_recipe *r = alike ? anfi_recipe_for(q->ad, (anfi_opcode)y->op, nin, t, want) : NULL;
  uint32_t minuses = r ? anfi_recipe_minus(r) : 0;
  q->ad->todo = r ? 0 : ANFI_TODO_DCE;
  if (!r && minus) dy = negative(q, dy), minus = false;
  if (!r) may_be_unused(dy);
  in[nin] = y;
  in[nin + 1] = dy;
  if (!(r ? anfi_recipe_make(q->ad, q->b, r, in, out)
          : anfi_vjp_op(q->ad, q->b, n, in, y, 1, &dy, wants, out)))
    return false;
  for (uint32_t i = nin; i-- > 0;) {
    if (!wants[i] || !out[i]) continue;
    bool sign = minus != (minuses >> i & 1);
    if (at[i] < anfi_node_slot(jg)) add_adjoint(q, n->in[i].def, 0, out[i], sign);
    else add_to_list(q, &q->row[at[i]], out[i], sign);
  }
  return true;
}

static bool back(anfi_jbuild *q, anf_node *n, anf_node *const *leaf, size_t k) {
  if (anfi_is_own_call(n)) return anfi_backward_call(q, n, leaf);
  switch (n->op) {
  case ANF_OP_Loop: return anfi_backward_loop(q, n, leaf);
  case ANF_OP_Box: back_box(q, n, leaf); return true;
  case ANF_OP_Unbox: back_unbox(q, n, leaf); return true;
  case ANF_OP_KeptAdd:
    for (uint32_t i = 2; i-- > 0;) anfi_add_adjoint(q, n->in[i].def, 0, leaf[0]);
    return true;
  case ANF_OP_Switch:
  case ANF_OP_SwitchLayer: back_choice(q, n, leaf, k); return true;
  default: break;
  }
  return back_parts(q, n, leaf, k) || back_op(q, n, leaf);
}

/* ---- the two sweeps ---- */

enum { SOON = 16 };

/* n will be looked at soon; it is longer than a line of the cache. */
static void fetch(const anf_node *n) {
  anfi_soon(n);
  anfi_soon(n->in + 1);
}

static bool is_useful(anfi_jbuild *q, const anf_node *n) {
  return anfi_any(anfi_useful(q->j, n), anfi_count(q->j, n));
}

static bool copy_node(anfi_jbuild *q, anf_node *n) {
  anf_node *few[8], **in = n->nin <= ANFI_LEN(few) ? few : ANFI_NEW_N(q->j->a, anf_node *, n->nin),
                    *c;
  for (uint32_t i = 0; i < n->nin; i++) in[i] = anfi_primal(q, n->in[i].def);
  if (n->kind == ANFI_CALL) c = anfi_call(q->f, n->nin, in);
  else c = anfi_apply(q->f, (anfi_opcode)n->op, n->u.attrs, n->nin, in);
  c->type = n->type;
  c->debug = n->debug;
  size_t i = anfi_position(q, n);
  q->to[i] = q->effect[i] = c;
  return true;
}

static uint8_t stale(const anfi_jbuild *q, const anf_node *x) {
  if (x->kind == ANFI_PARAM) return q->param_stale[x->u.index];
  return x->kind == ANFI_VALUE ? 0 : q->stale[anfi_position(q, x)];
}

/* What passes have to find out about the copy of n, at position k. */
static uint8_t todo_of_copy(anfi_jbuild *q, size_t k, const anf_node *n) {
  unsigned todo = (n->flags & ANFI_NODE_SIMPLE ? 0u : ANFI_TODO_SIMPLIFY) |
                  (n->flags & ANFI_NODE_UNIQUE ? 0u : ANFI_TODO_CSE);
  for (uint32_t i = 0; q->stale && i < n->nin; i++) {
    uint8_t of_input = stale(q, n->in[i].def);
    if (of_input) todo |= ANFI_TODO_SIMPLIFY;
    if (of_input != ANFI_J_STALE) continue;
    todo |= ANFI_TODO_CSE;
    q->stale[k] = ANFI_J_STALE_INPUT;
  }
  return (uint8_t)todo;
}

static void copy_taped(anfi_jbuild *q, size_t k, const anf_node *n) {
  anf_node *in[ANFI_TAPE_OPERANDS];
  for (uint32_t i = 0; i < n->nin; i++) in[i] = anfi_primal(q, n->in[i].def);
  anfi_apply_of of = {q->f, n->u.attrs, n->type, n->debug, n->op, todo_of_copy(q, k, n)};
  q->to[k] = q->effect[k] = anfi_apply_as(&of, n->nin, in);
}

static bool sweep_forward(anfi_jbuild *q) {
  const anfi_jgraph *jg = q->s->jg;
  for (size_t i = 0; i < jg->order.n; i++) {
    anf_node *n = jg->order.at[i];
    if (i + SOON < jg->order.n) fetch(jg->order.at[i + SOON]);
    if (jg->taped[i]) {
      copy_taped(q, i, n);
      continue;
    }
    q->stale[i] = ANFI_J_STALE;
    bool loop = anfi_is_op(n, ANF_OP_Loop),
         called = (loop || anfi_is_own_call(n)) && is_useful(q, n);
    if (!called ? !copy_node(q, n) : loop ? !anfi_forward_loop(q, n) : !anfi_forward_call(q, n))
      return false;
  }
  for (size_t i = 0; i < jg->g->effects.n; i++)
    anfi_add_effect(q->f, q->effect[anfi_position(q, jg->g->effects.at[i])]);
  return true;
}

static void begin_step(anfi_jbuild *q, const anf_node *n, uint32_t debug) {
  q->ad->at = n;
  if (q->ad->how && q->ad->from == debug) return;
  q->ad->from = debug;
  q->ad->how = anfi_debug_derive(q->ad->m, debug, "gradient of");
}

static bool step_back(anfi_jbuild *q, size_t i) {
  const anfi_jgraph *jg = q->s->jg;
  anf_node *n = jg->order.at[i], *few[4], **leaf = few;
  size_t k = jg->first[i + 1] - jg->first[i];
  if (!k || !anfi_any(q->j->useful + jg->first[i], k)) return true;
  if (k > ANFI_LEN(few)) leaf = ANFI_NEW_N(q->j->a, anf_node *, k);
  if (!anfi_adjoint(q, n, leaf)) return true;
  begin_step(q, n, n->debug);
  return back(q, n, leaf, k);
}

/* There is no contribution where a node is of no use. */
static bool step_back_taped(anfi_jbuild *q, size_t i) {
  const anfi_jgraph *jg = q->s->jg;
  anfi_adjoint_term **at = &q->adj[jg->first[i]];
  if (!*at) return true;
  q->ad->todo = 0;
  bool minus;
  anf_node *dy = signed_sum(q, at, &minus);
  begin_step(q, jg->order.at[i], q->to[i]->debug);
  bool good = back_taped(q, i, jg->order.at[i], dy, minus);
  q->ad->todo = ANFI_TODO_DCE;
  return good;
}

/* The copies of nodes that have their turn soon, and what the next of them use. */
static void prefetch(const anfi_jbuild *q, size_t i) {
  enum { SOONER = SOON / 2 };
  const anfi_jgraph *jg = q->s->jg;
  if (i < SOON) return;
  fetch(jg->taped[i - SOON] ? q->to[i - SOON] : jg->order.at[i - SOON]);
  anfi_soon(q->adj[jg->first[i - SOON]]);
  for (const anfi_adjoint_term *c = q->adj[jg->first[i - SOONER]]; c; c = c->next)
    anfi_soon(c->node);
  const anf_node *n = jg->taped[i - SOONER] ? q->to[i - SOONER] : NULL;
  for (uint32_t k = 0; n && k < n->nin; k++) anfi_soon(n->in[k].def);
}

/* Behind a node's step everything that may use its copy is there. */
static bool sweep_back(anfi_jbuild *q) {
  const anfi_jgraph *jg = q->s->jg;
  for (size_t i = jg->order.n; i-- > 0;) {
    prefetch(q, i);
    if (!(jg->taped[i] ? step_back_taped(q, i) : step_back(q, i))) return false;
    if (jg->taped[i] && !q->to[i]->uses) anfi_look_at(q->to[i], ANFI_TODO_DCE);
  }
  return true;
}

/* Parameters of b: first those of g that callers hand to it again, then what is given, then sums;
 * jkeep.c puts what is kept before. Callers have all arguments at hand still, so that what they
 * passed to several functions is kept once; not so between rounds of a loop. Which arguments a recursion
 * does not need is found later (optimizer/need_box.c). */
static void make_params(anfi_jbuild *q) {
  const anf_graph *g = q->s->jg->g;
  for (size_t i = 0; i < g->params.n; i++) {
    const anf_node *p = g->params.at[i];
    anfi_param(q->f, NULL, p->type)->debug = p->debug;
    bool left = (q->s->boxed && !q->s->with_args) || q->s->splice;
    if (!q->s->constant[i] && left) continue;
    q->constant[i] = anfi_param(q->b, NULL, p->type);
    q->constant[i]->debug = p->debug;
  }
  q->param = q->f->params.at;
}

static void take_given(anfi_jbuild *q) {
  size_t n = q->s->jg->nresult;
  const anf_type **leaf = ANFI_NEW_N(q->j->a, const anf_type *, n + 1);
  anfi_leaf_types(anfi_ad_type_of(q->ad, q->s->jg->g->result), leaf);
  anf_node **given = ANFI_NEW_N(q->j->a, anf_node *, n + 1);
  for (size_t i = 0; i < n; i++)
    if (q->s->given[i]) given[i] = anfi_param(q->b, NULL, leaf[i]);
  q->given = given;
}

/* Sums that come in. */
static void take_sums(anfi_jbuild *q) {
  const anfi_jgraph *jg = q->s->jg;
  for (size_t i = 0; i < jg->g->params.n; i++) {
    size_t k = jg->pfirst[i + 1] - jg->pfirst[i];
    const anf_type **leaf = ANFI_NEW_N(q->j->a, const anf_type *, k + 1);
    anfi_leaf_types(jg->g->params.at[i]->type, leaf);
    for (size_t l = 0; l < k; l++)
      if (anfi_adds(q->s, i, l)) q->sum[jg->pfirst[i] + l] = anfi_param(q->b, NULL, leaf[l]);
  }
}

static void seed(anfi_jbuild *q) {
  for (size_t i = 0; i < q->s->jg->nresult; i++)
    if (q->s->given[i]) anfi_add_adjoint(q, q->s->jg->g->result, i, q->given[i]);
}

static void give(anfi_jbuild *q) {
  const anfi_jgraph *jg = q->s->jg;
  size_t n = 0;
  anf_node **out = ANFI_NEW_N(q->j->a, anf_node *, anfi_nwant(jg) + 1);
  for (size_t i = 0; i < jg->g->params.n; i++) {
    size_t k = jg->pfirst[i + 1] - jg->pfirst[i];
    anf_node **leaf = ANFI_NEW_N(q->j->a, anf_node *, k + 1);
    anfi_adjoint(q, jg->g->params.at[i], leaf);
    for (size_t l = 0; l < k; l++)
      if (q->sum[jg->pfirst[i] + l]) leaf[l] = q->sum[jg->pfirst[i] + l];
    n += anfi_given_list(q, q->s->out + jg->pfirst[i], q->param[i], leaf, out + n);
  }
  anfi_set_result(q->b, anfi_ad_tuple(q->ad, q->b, n, out));
}

static anfi_jbuild begin(anfi_j *j, anfi_jspec *s, anf_graph *f, anf_graph *b) {
  const anfi_jgraph *jg = s->jg;
  anfi_jbuild q = {.j = j, .ad = j->ad, .s = s, .f = f, .b = b};
  q.base = (uint32_t)j->ad->m->nodes.n;
  q.to = ANFI_NEW_N(j->a, anf_node *, jg->order.n + 1);
  q.effect = jg->all_taped ? q.to : ANFI_NEW_N(j->a, anf_node *, jg->order.n + 1);
  q.stale = jg->all_taped ? NULL : ANFI_NEW_N(j->a, uint8_t, jg->order.n + 1);
  q.param_stale = ANFI_NEW_N(j->a, uint8_t, jg->g->params.n + 1);
  q.residual = jg->all_taped ? NULL : ANFI_NEW_N(j->a, anf_node **, jg->order.n + 1);
  q.row = ANFI_NEW_N(j->a, anfi_adjoint_term *, anfi_node_slot(jg) + jg->first[jg->order.n]);
  q.padj = q.row + 1;
  q.adj = q.row + anfi_node_slot(jg);
  q.sum = ANFI_NEW_N(j->a, anf_node *, anfi_nwant(jg) + 1);
  q.constant = ANFI_NEW_N(j->a, anf_node *, jg->g->params.n + 1);
  anfi_reserve_nodes(j->ad->m, 3 * jg->order.n + jg->order.n / 8); // as many as there are mostly
  anfi_j_reload(j, s);                                             // its masks are settled
  j->ad->how = 0;
  return q;
}

/* An argument is like the parameter if it is another one, which nothing else uses but the Derive that
 * asks. */
static void compare_args(anfi_jbuild *q, anf_node *const *args) {
  const anfi_jgraph *jg = q->s->jg;
  bool all = true;
  for (size_t i = 0; i < jg->g->params.n; i++) {
    if (args[i]->kind == ANFI_PARAM && args[i]->uses && !args[i]->uses->next) continue;
    q->param_stale[i] = ANFI_J_STALE;
    all = false;
  }
  if (!all && !q->stale) q->stale = ANFI_NEW_N(q->j->a, uint8_t, jg->order.n + 1);
}

bool anfi_j_build(anfi_j *j, anfi_jspec *s) {
  anfi_jbuild q = begin(j, s, s->fwd, s->bwd);
  make_params(&q);
  take_given(&q);
  take_sums(&q);
  seed(&q);
  if (!sweep_forward(&q) || !sweep_back(&q)) return false;
  give(&q);
  return anfi_j_close(&q);
}

bool anfi_j_build_at(anfi_j *j, anfi_jspec *s, anfi_vjp_inline *at) {
  const anfi_jgraph *jg = s->jg;
  anfi_jbuild q = begin(j, s, at->g, at->g);
  q.param = at->args;
  q.given = at->dy;
  compare_args(&q, at->args);
  seed(&q);
  if (!sweep_forward(&q) || !sweep_back(&q)) return false;
  at->value = anfi_primal(&q, jg->g->result);
  for (size_t i = 0; i < jg->g->params.n; i++)
    anfi_adjoint(&q, jg->g->params.at[i], at->dx + jg->pfirst[i]);
  return true;
}
