// SPDX-License-Identifier: Apache-2.0
/* The two sweeps of reverse mode. For y = x * w; z = sin(y):
 *   forward, into ▶    y = x * w; z = sin(y)
 *   backward, into ◀   ȳ = z̄ * cos(y); x̄ = ȳ * w; w̄ = ȳ * x
 * The forward sweep copies each node, the backward sweep visits the nodes in reverse order, takes the
 * finished adjoint of a node and adds its pullback to the adjoints of its operands (Griewank and Walther,
 * Evaluating Derivatives, ch. 3). Operands have got all their terms by then: their users come later in
 * the order. ◀ names nodes of ▶ freely while it is built; residual.c closes it.
 * Calls and loops call ▶ and ◀ of their callee (call.c, loop.c). */
#include "autodiff/reverse/j.h"
#include "ir/worklist.h"

/* ---- single nodes, back ---- */

static bool back_parts(anfi_jbuild *q, anf_node *n, anf_node *const *leaf, size_t k) {
  const anfi_flow_from *from = anfi_flow_parts(&q->j->flow, n);
  for (size_t i = 0; from && i < k; i++)
    anfi_add_adjoint(q, n->in[from[i].in].def, from[i].part, leaf[i]);
  return from != NULL;
}

static anf_node *choose(anfi_jbuild *q, const anf_node *n, uint32_t branch, anf_node *d) {
  anf_node **in = ANFI_NEW_N(q->j->a, anf_node *, n->nin);
  in[0] = anfi_primal(q, n->in[0].def);
  for (uint32_t k = 1; k < n->nin; k++)
    in[k] = k == branch ? d : anfi_zero_leaf(q->ad, q->b, d->type, d);
  return anfi_ad_typed(q->ad, anfi_apply(q->b, (anfi_opcode)n->op, n->u.attrs, n->nin, in),
                       d->type);
}

static void back_choice(anfi_jbuild *q, anf_node *n, anf_node *const *leaf, size_t k) {
  for (uint32_t branch = 1; branch < n->nin; branch++)
    for (size_t i = 0; i < k; i++)
      if (leaf[i] && n->in[branch].def->kind != ANFI_VALUE &&
          anfi_varied(q->j, n->in[branch].def)[i])
        anfi_add_adjoint(q, n->in[branch].def, i, choose(q, n, branch, leaf[i]));
}

/* The adjoint of a box is a box of the adjoints of its contents. */
static void back_box(anfi_jbuild *q, anf_node *n, anf_node *const *leaf) {
  anf_node *x = n->in[0].def;
  const anf_type *t = anfi_ad_type_of(q->ad, x);
  anf_node *u = anfi_ad_unbox(q->ad, q->b, leaf[0], t);
  anf_node **inside = ANFI_NEW_N(q->j->a, anf_node *, anfi_ad_leaves(t) + 1);
  anfi_leaf_nodes(q->ad, q->b, u, inside);
  for (size_t i = anfi_ad_leaves(t); i-- > 0;) anfi_add_adjoint(q, x, i, inside[i]);
}

static void back_unbox(anfi_jbuild *q, anf_node *n, anf_node *const *leaf) {
  anf_node *v = anfi_of_leaves(q->ad, q->b, n->type, anfi_primal(q, n), leaf);
  anfi_add_adjoint(q, n->in[0].def, 0, anfi_ad_box(q->ad, q->b, v));
}

/* The adjoints of a result, one per item of a tuple (derive.h). */
static anf_node **by_item(anfi_jbuild *q, const anf_node *n, anf_node *const *leaf, size_t *count) {
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
                         **dy = by_item(q, n, leaf, &ndy);
  for (size_t i = 0; i < n->nin; i++) in[i] = anfi_primal(q, n->in[i].def);
  for (size_t i = 0; i < args; i++)
    want[i] = !anfi_ad_is_inactive(q->ad, (anfi_opcode)n->op, i) &&
              anfi_flow_any(anfi_varied(q->j, n->in[i].def), anfi_count(q->j, n->in[i].def));
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

static bool back(anfi_jbuild *q, anf_node *n, anf_node *const *leaf, size_t k) {
  if (anfi_is_own_call(n)) return anfi_backward_call(q, n, leaf);
  switch (n->op) {
  case ANF_OP_Loop: return anfi_backward_loop(q, n, leaf);
  case ANF_OP_Box: back_box(q, n, leaf); return true;
  case ANF_OP_Unbox: back_unbox(q, n, leaf); return true;
  case ANF_OP_ResidualAdd:
    for (uint32_t i = 2; i-- > 0;) anfi_add_adjoint(q, n->in[i].def, 0, leaf[0]);
    return true;
  case ANF_OP_Switch:
  case ANF_OP_SwitchLayer: back_choice(q, n, leaf, k); return true;
  default: break;
  }
  return back_parts(q, n, leaf, k) || back_op(q, n, leaf);
}

/* ---- one step ---- */

static bool is_useful(anfi_jbuild *q, const anf_node *n) {
  return anfi_flow_any(anfi_useful(q->j, n), anfi_count(q->j, n));
}

static void copy_node(anfi_jbuild *q, anf_node *n) {
  anf_node *few[8], **in = n->nin <= ANFI_LEN(few) ? few : ANFI_NEW_N(q->j->a, anf_node *, n->nin),
                    *c;
  for (uint32_t i = 0; i < n->nin; i++) in[i] = anfi_primal(q, n->in[i].def);
  if (n->kind == ANFI_CALL) c = anfi_call(q->f, n->nin, in);
  else c = anfi_apply(q->f, (anfi_opcode)n->op, n->u.attrs, n->nin, in);
  c->type = n->type;
  c->debug = n->debug;
  size_t i = anfi_position(q, n);
  q->to[i] = q->effect[i] = c;
}

/* The counterpart of the node at position i in ▶. A call or loop with a useful result calls ▶ of its callee. */
static bool step_forward(anfi_jbuild *q, size_t i) {
  anf_node *n = q->s->jg->order.at[i];
  if (q->s->jg->taped[i]) return anfi_tape_copy(q, i), true;
  q->stale[i] = ANFI_J_STALE;
  bool loop = anfi_is_op(n, ANF_OP_Loop);
  if (!(loop || anfi_is_own_call(n)) || !is_useful(q, n)) return copy_node(q, n), true;
  return loop ? anfi_forward_loop(q, n) : anfi_forward_call(q, n);
}

void anfi_derives_from(anfi_jbuild *q, const anf_node *n, uint32_t debug) {
  q->ad->at = n;
  if (q->ad->how && q->ad->from == debug) return;
  q->ad->from = debug;
  q->ad->how = anfi_debug_derive(q->ad->m, debug, "gradient of");
}

static bool step_back(anfi_jbuild *q, size_t i) {
  const anfi_jgraph *jg = q->s->jg;
  anf_node *n = jg->order.at[i], *few[4], **leaf = few;
  size_t k = jg->first[i + 1] - jg->first[i];
  if (!k || !anfi_flow_any(q->j->useful + jg->first[i], k)) return true;
  if (k > ANFI_LEN(few)) leaf = ANFI_NEW_N(q->j->a, anf_node *, k);
  if (!anfi_adjoint(q, n, leaf)) return true;
  anfi_derives_from(q, n, n->debug);
  return back(q, n, leaf, k);
}

/* ---- the two sweeps ---- */

bool anfi_sweep_forward(anfi_jbuild *q) {
  const anfi_jgraph *jg = q->s->jg;
  for (size_t i = 0; i < jg->order.n; i++) {
    anfi_prefetch_forward(q, i);
    if (!step_forward(q, i)) return false;
  }
  for (size_t i = 0; i < jg->g->effects.n; i++)
    anfi_add_effect(q->f, q->effect[anfi_position(q, jg->g->effects.at[i])]);
  return true;
}

bool anfi_sweep_back(anfi_jbuild *q) {
  const anfi_jgraph *jg = q->s->jg;
  for (size_t i = jg->order.n; i-- > 0;) {
    anfi_prefetch_back(q, i);
    if (!(jg->taped[i] ? anfi_tape_back(q, i) : step_back(q, i))) return false;
    if (jg->taped[i] && !q->to[i]->uses) anfi_work_add(q->to[i], ANFI_WORK_DCE);
  }
  return true;
}
