// SPDX-License-Identifier: Apache-2.0
/* The tape: the fast path of activity analysis and of both sweeps. A straight-line program such as
 *   y = x * w;  z = y + b
 * is a Wengert list (Wengert 1964): one entry per node with the slots of its operands,
 *   slots: 0 none, 1 x, 2 w, 3 b, 4 y, 5 z       tape: y {1, 2}, z {4, 3}
 * so the passes over masks read entries and touch no node. A node is taped if it is elementwise and its
 * operands and result are one leaf each; all others take the general path of activity.c and sweep.c,
 * which gives the same graphs.
 *
 * The rest of the speed is here too: derivatives by recipe (derive/recipe.c), negations moved into the sums
 * (adjoint.c), and nodes fetched into the cache ahead of the sweep. A copied node keeps the facts that passes
 * cached on its original (ir/worklist.h) unless an input is stale. */
#include "autodiff/reverse/j.h"
#include "ir/worklist.h"

/* ---- recording ---- */

static bool is_one_leaf(const anf_node *n) { return n->type && anfi_ad_leaves(n->type) == 1; }

/* The slot of x, which is one leaf. */
static uint32_t slot_of(const anfi_j *j, const anfi_jgraph *jg, const anf_node *x) {
  return x->kind == ANFI_PARAM ? 1 + jg->pfirst[x->u.index]
                               : (uint32_t)anfi_node_slot(jg) + jg->first[j->local.at[x->id]];
}

/* Is input i the branch of a Where that a constant condition never takes? */
static bool is_never_taken(const anf_node *n, uint32_t i) {
  const anf_node *c = n->in[0].def;
  if (n->op != ANF_OP_Where || c->kind != ANFI_VALUE || c->u.value->kind != ANF_VALUE_TENSOR ||
      c->u.value->type->n)
    return false;
  return i == (anfi_get_i64(c->u.value, 0) ? 2 : 1);
}

/* The entry of n; false: n is not elementwise on single leaves. */
static bool record(anfi_j *j, const anfi_jgraph *jg, const anf_node *n, anfi_tape_entry *out) {
  *out = (anfi_tape_entry){{0}};
  if (n->kind != ANFI_APPLY || !anfi_op_of(n)->scalar || n->nin > ANFI_TAPE_OPERANDS ||
      !is_one_leaf(n))
    return false;
  for (uint32_t i = 0; i < n->nin; i++) {
    const anf_node *x = n->in[i].def;
    if (x->kind == ANFI_VALUE) continue;
    if (!is_one_leaf(x)) return false;
    if (!anfi_ad_is_inactive(j->ad, (anfi_opcode)n->op, i) && !is_never_taken(n, i))
      out->in[i] = slot_of(j, jg, x);
  }
  return true;
}

void anfi_tape_record(anfi_j *j, anfi_jgraph *jg) {
  jg->tape =
      (anfi_tape_entry *)anfi_alloc(j->a, anfi_size_mul(j->cx, jg->order.n + 1, sizeof *jg->tape));
  jg->all_taped = true;
  for (size_t i = 0; i < jg->order.n; i++) {
    const anf_node *n = jg->order.at[i];
    j->local.at[n->id] = (uint32_t)i;
    jg->taped[i] = record(j, jg, n, &jg->tape[i]);
    jg->first[i + 1] = jg->first[i] + (jg->taped[i] ? 1 : (uint32_t)anfi_count(j, n));
    jg->all_taped &= jg->taped[i];
  }
}

/* ---- activity ---- */

void anfi_tape_varied(const anfi_tape_entry *at, const bool *slot, bool *out) {
  for (uint32_t i = 0; i < ANFI_TAPE_OPERANDS; i++) *out |= slot[at->in[i]];
}

void anfi_tape_useful(anfi_j *j, const anfi_jgraph *jg, size_t k) {
  const size_t nodes = anfi_node_slot(jg);
  const bool *slot = j->varied - nodes;
  for (uint32_t i = 0; i < ANFI_TAPE_OPERANDS; i++) {
    uint32_t at = jg->tape[k].in[i];
    if (!slot[at]) continue;
    if (at < nodes) j->now->flow.out[at - 1] = true;
    else j->useful[at - nodes] = true;
  }
}

/* ---- the forward sweep ---- */

static uint8_t stale(const anfi_jbuild *q, const anf_node *x) {
  if (x->kind == ANFI_PARAM) return q->param_stale[x->u.index];
  return x->kind == ANFI_VALUE ? 0 : q->stale[anfi_position(q, x)];
}

/* The passes that have to visit the copy of n, at position k, as bits. */
static uint8_t work_of_copy(anfi_jbuild *q, size_t k, const anf_node *n) {
  unsigned work = (anfi_is_clean(n, ANFI_WORK_SIMPLIFY) ? 0u : ANFI_WORK_SIMPLIFY) |
                  (anfi_is_clean(n, ANFI_WORK_CSE) ? 0u : ANFI_WORK_CSE);
  for (uint32_t i = 0; q->stale && i < n->nin; i++) {
    uint8_t of_input = stale(q, n->in[i].def);
    if (of_input) work |= ANFI_WORK_SIMPLIFY;
    if (of_input != ANFI_J_STALE) continue;
    work |= ANFI_WORK_CSE;
    q->stale[k] = ANFI_J_STALE_INPUT;
  }
  return (uint8_t)work;
}

void anfi_tape_copy(anfi_jbuild *q, size_t k) {
  const anf_node *n = q->s->jg->order.at[k];
  anf_node *in[ANFI_TAPE_OPERANDS];
  for (uint32_t i = 0; i < n->nin; i++) in[i] = anfi_primal(q, n->in[i].def);
  anfi_apply_of of = {q->f, n->u.attrs, n->type, n->debug, n->op, work_of_copy(q, k, n)};
  q->to[k] = q->effect[k] = anfi_apply_as(&of, n->nin, in);
}

/* ---- the backward sweep ---- */

/* The pullback of node n at position k, for the adjoint dy or its negative: pullbacks are linear. The
 * node's copy in ▶ has op, operands and type, and is in the cache already. */
static bool back_taped(anfi_jbuild *q, size_t k, anf_node *n, anf_node *dy, bool minus) {
  anf_node *y = q->to[k], *in[ANFI_RECIPE_PLACES], *out[ANFI_TAPE_OPERANDS];
  const anfi_jgraph *jg = q->s->jg;
  const bool *slot = q->j->varied - anfi_node_slot(jg);
  const uint32_t *at = jg->tape[k].in;
  const anf_type *t = y->type;
  uint32_t want = 0, nin = y->nin;
  bool alike = dy->type == t, wants[ANFI_TAPE_OPERANDS];
  for (uint32_t i = 0; i < nin; i++) {
    in[i] = y->in[i].def;
    wants[i] = slot[at[i]];
    want |= (uint32_t)wants[i] << i;
    alike &= anfi_ad_type_of(q->ad, in[i]) == t;
  }
  const anfi_recipe *r = alike ? anfi_recipe_for(q->ad, (anfi_opcode)y->op, nin, t, want) : NULL;
  uint32_t minuses = r ? anfi_recipe_minus(r) : 0;
  q->ad->work = r ? 0 : ANFI_WORK_DCE;
  if (!r && minus) dy = anfi_negative(q, dy), minus = false;
  if (!r) anfi_may_be_unused(dy);
  in[nin] = y;
  in[nin + 1] = dy;
  if (!(r ? anfi_recipe_make(q->ad, q->b, r, in, out)
          : anfi_vjp_op(q->ad, q->b, n, in, y, 1, &dy, wants, out)))
    return false;
  for (uint32_t i = nin; i-- > 0;) {
    if (!wants[i] || !out[i]) continue;
    bool sign = minus != (minuses >> i & 1);
    if (at[i] < anfi_node_slot(jg)) anfi_add_signed(q, n->in[i].def, 0, out[i], sign);
    else anfi_add_term(q, &q->slot[at[i]], out[i], sign);
  }
  return true;
}

/* A node that is not useful has no terms. */
bool anfi_tape_back(anfi_jbuild *q, size_t i) {
  const anfi_jgraph *jg = q->s->jg;
  anfi_adjoint_term **at = &q->adj[jg->first[i]];
  if (!*at) return true;
  q->ad->work = 0;
  bool minus;
  anf_node *dy = anfi_sum_terms(q, at, &minus);
  anfi_derives_from(q, jg->order.at[i], q->to[i]->debug);
  bool good = back_taped(q, i, jg->order.at[i], dy, minus);
  q->ad->work = ANFI_WORK_DCE;
  return good;
}

/* ---- the cache ---- */

enum { SOON = 16 };

/* A node is longer than a cache line. */
static void fetch(const anf_node *n) {
  anfi_soon(n);
  anfi_soon(n->in + 1);
}

void anfi_prefetch_forward(const anfi_jbuild *q, size_t i) {
  const anfi_node_vec *order = &q->s->jg->order;
  if (i + SOON < order->n) fetch(order->at[i + SOON]);
}

/* The copies of nodes that the sweep reaches soon, and the operands of nearer ones. */
void anfi_prefetch_back(const anfi_jbuild *q, size_t i) {
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
