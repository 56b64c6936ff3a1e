// SPDX-License-Identifier: Apache-2.0
/* Checkpointed loops: residuals of some iterations are saved, those of the others rematerialised.
 *   checkpoint(loop of 100 iterations, rounds=10)    ▶ saves the states 0, 10, 20, .. 90
 *                                                    ◀ for each block from the last: ▶ of it again, then ◀
 * With `tree` ▶ saves the first state alone and ◀ halves the iterations until they fit a block, the later half
 * first: log2(iterations / block) states at a time (treeverse: Griewank 1992).
 *
 * With a budget of memory, one half of it is for the residuals of the first block, which ▶ saves, the other
 * half for the block that ◀ is in. A loop that ends within the first block runs once. A loop with many bytes of
 * residuals per iteration has a budget even if the program does not ask for one.
 *
 * A counted loop is cut as one that is not: what is left of its rounds is one more item of the state. A loop without
 * iterations has no block. Iterations run by the same graphs in the same order as in one
 * loop, so results are equal to the bit. */
#include "autodiff/reverse/j.h"
#include "base/mark.h"

/* For a loop with many bytes of residuals. The same everywhere: the text of a gradient must not
 * depend on the machine. */
static const uint64_t MUCH = UINT64_C(1) << 20, BUDGET = UINT64_C(1) << 32; // bytes

/* 0: not known. */
static uint64_t bytes_of_round(const anfi_jspec *s) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < s->nresidual; i++) {
    size_t n;
    const anf_type *t = s->residual[i];
    if (t->kind != ANF_TYPE_TENSOR || !anfi_type_elements(t, &n)) return 0;
    bytes += n * anf_dtype_bytes((anf_dtype)t->dtype);
  }
  return bytes;
}

size_t anfi_block_rounds(const anfi_jspec *s, const anfi_loop_op *l) {
  const anfi_jplan *p = &s->plan;
  if (anfi_is_boxed(s) || l->reverse || l->nx || l->nout || l->rounds || !s->nresidual) return 0;
  if (p->rounds) return p->rounds;
  uint64_t bytes = bytes_of_round(s), memory = p->memory ? p->memory : bytes >= MUCH ? BUDGET : 0;
  if (!bytes || !memory) return 0;
  return memory / 2 > bytes ? (size_t)(memory / 2 / bytes) : 1;
}

/* Are the residuals of the first block saved? */
static bool saves_first(const anfi_jspec *s) { return !s->plan.rounds; }

/* ---- small graphs ---- */

typedef struct {
  anfi_ad *ad;
  anf_graph *g;
  anf_node **in; // its parameters
  size_t n;
} making;

static anf_node *take(making *m, const anf_type *t) {
  return m->in[m->n++] = anfi_param(m->g, NULL, t);
}

static making begin(anfi_ad *ad, const char *mark, const anf_graph *like, size_t params) {
  return (making){ad, anfi_graph_beside(like, mark), ANFI_NEW_N(ad->arena, anf_node *, params + 1),
                  0};
}

static anf_node *number(anfi_ad *ad, int64_t x) {
  return anfi_ad_const(ad, anfi_value_new_i64(ad->m->cx, ANF_I64, x));
}

static const anf_type *count_type(anfi_ad *ad) { return anfi_type_scalar(ad->m->cx, ANF_I64); }

/* Parameters w.., s.. of the step, in m. */
static void take_args(making *m, const anfi_loop_op *l) {
  for (size_t i = 0; i < l->nw + l->ns; i++) take(m, l->step->params.at[i]->type);
}

/* A counted loop's step: like `f`, without the item that says whether to go on. */
static anf_graph *without_again(anfi_ad *ad, const anfi_loop_op *l, anf_graph *f, size_t nout) {
  making m = begin(ad, "▷", l->step, l->nw + l->ns);
  anf_node **out = ANFI_NEW_N(ad->arena, anf_node *, nout + 1);
  take_args(&m, l);
  anf_node *r = anfi_ad_call(ad, m.g, f, NULL, m.n, m.in);
  for (size_t i = 0; i < nout; i++) out[i] = anfi_ad_get(ad, m.g, r, i + 1);
  anfi_set_result(m.g, anfi_ad_tuple(ad, m.g, nout, out));
  return m.g;
}

/* A step that is not counted: (w.., s.., left) -> (left > 1, s'.., left - 1, further items of f). */
static anf_graph *counting_down(anfi_ad *ad, const anfi_loop_op *l, anf_graph *f, size_t nmore) {
  making m = begin(ad, "▷", l->step, l->nw + l->ns + 1);
  anf_node **out = ANFI_NEW_N(ad->arena, anf_node *, l->ns + nmore + 2);
  take_args(&m, l);
  anf_node *left = take(&m, count_type(ad)), *r = anfi_ad_call(ad, m.g, f, NULL, m.n - 1, m.in);
  size_t n = 0;
  out[n++] = anfi_ad_apply2(ad, m.g, ANF_OP_Less, number(ad, 1), left);
  for (size_t i = 0; i < l->ns; i++) out[n++] = anfi_ad_get(ad, m.g, r, i);
  out[n++] = anfi_ad_apply2(ad, m.g, ANF_OP_Sub, left, number(ad, 1));
  for (size_t i = 0; i < nmore; i++) out[n++] = anfi_ad_get(ad, m.g, r, l->ns + i);
  anfi_set_result(m.g, anfi_ad_tuple(ad, m.g, n, out));
  return m.g;
}

/* The loop n, not counted, and the spec of its step. */
static anfi_loop_op uncounted(anfi_jbuild *q, const anf_node *n, anfi_jspec *s) {
  anfi_loop_op l = anfi_loop_parts(n);
  *s = *anfi_j_callee(q->j, n, 0);
  if (!l.counted) return l;
  s->fwd = counting_down(q->ad, &l, s->fwd, s->nresidual);
  l.step = counting_down(q->ad, &l, l.step, 0);
  l.ns++;
  l.counted = false;
  return l;
}

/* A call of one of two graphs. */
static anf_node *call_either(anfi_ad *ad, anf_graph *g, anf_node *condition, anf_graph *yes,
                             anf_graph *no, const anf_type *type, size_t n, anf_node *const *args) {
  anf_node *choice =
      anfi_apply3(g, ANF_OP_Switch, condition, anfi_graph_value(yes), anfi_graph_value(no));
  choice->debug = ad->how;
  return anfi_ad_call_node(ad, g, choice, type, n, args);
}

/* ---- forward ---- */

/* (w.., s.., k, again) -> (go on in this block, s'.., k + 1, again', further items of f); f is the
 * step or its ▶. */
static anf_graph *round_of_block(anfi_ad *ad, const anfi_loop_op *l, anf_graph *f, size_t nresidual,
                                 bool effects, size_t rounds) {
  making m = begin(ad, "▷", l->step, l->nw + l->ns + 2);
  anf_node **out = ANFI_NEW_N(ad->arena, anf_node *, l->ns + 3 + nresidual);
  take_args(&m, l);
  anf_node *k = take(&m, count_type(ad)), *r = anfi_ad_call(ad, m.g, f, NULL, m.n - 1, m.in);
  take(&m, anfi_type_scalar(ad->m->cx, ANF_BOOL));
  if (effects) anfi_add_effect(m.g, r);
  anf_node *again = anfi_ad_get(ad, m.g, r, 0);
  anf_node *more = anfi_ad_apply2(ad, m.g, ANF_OP_Add, k, number(ad, 1));
  anf_node *left = anfi_ad_apply2(ad, m.g, ANF_OP_Less, more, number(ad, (int64_t)rounds));
  out[0] = anfi_ad_apply2(ad, m.g, ANF_OP_LogicalAnd, again, left);
  for (size_t i = 0; i < l->ns; i++) out[i + 1] = anfi_ad_get(ad, m.g, r, i + 1);
  out[l->ns + 1] = more;
  out[l->ns + 2] = again;
  for (size_t i = 0; i < nresidual; i++)
    out[l->ns + 3 + i] = anfi_ad_get(ad, m.g, r, l->ns + 1 + i);
  anfi_set_result(m.g, anfi_ad_tuple(ad, m.g, l->ns + 3 + nresidual, out));
  return m.g;
}

/* The first rounds, up to a block: (s.., their number, again, stacks of f's further items). None,
 * if there is `go` and it is false. */
static anf_node *first_rounds(anfi_ad *ad, anf_graph *g, const anfi_loop_op *l, anf_graph *f,
                              size_t nresidual, bool effects, size_t rounds, anf_node *const *args,
                              anf_node *go) {
  anf_node **in = ANFI_NEW_N(ad->arena, anf_node *, l->nw + l->ns + 2);
  memcpy(in, args, (l->nw + l->ns) * sizeof *in);
  in[l->nw + l->ns] = number(ad, 0);
  in[l->nw + l->ns + 1] = go ? go : anfi_ad_const(ad, anfi_value_new_i64(ad->m->cx, ANF_BOOL, 1));
  anfi_loop_op block = {.nw = l->nw, .ns = l->ns + 2, .nout = nresidual, .go = go};
  block.step = round_of_block(ad, l, f, nresidual, effects, rounds);
  anf_node *r = anfi_ad_loop(ad, g, &block, in);
  if (effects) anfi_add_effect(g, r);
  return r;
}

/* (w.., s..) -> (again, s'.., s.., rounds of this block) */
static anf_graph *forward_block(anfi_ad *ad, const anfi_loop_op *l, bool effects, size_t rounds) {
  making m = begin(ad, ANFI_FORWARD, l->step, l->nw + l->ns);
  anf_node **out = ANFI_NEW_N(ad->arena, anf_node *, 2 * l->ns + 3);
  take_args(&m, l);
  anf_node *r = first_rounds(ad, m.g, l, l->step, 0, effects, rounds, m.in, NULL);
  out[0] = anfi_ad_get(ad, m.g, r, l->ns + 1);
  for (size_t i = 0; i < l->ns; i++) {
    out[1 + i] = anfi_ad_get(ad, m.g, r, i);
    out[1 + l->ns + i] = m.in[l->nw + i];
  }
  out[1 + 2 * l->ns] = anfi_ad_get(ad, m.g, r, l->ns);
  anfi_set_result(m.g, anfi_ad_tuple(ad, m.g, 2 * l->ns + 2, out));
  return m.g;
}

/* How many items run_blocks gives after the state: stacks of states and of numbers of rounds, and
 * the number of blocks; or for a tree the number of rounds. */
static size_t items_of_blocks(const anfi_jspec *s, const anfi_loop_op *l) {
  return s->plan.tree ? 1 : l->ns + 2;
}

static anf_node *run_blocks(anfi_ad *ad, anf_graph *g, const anfi_jspec *s, const anfi_loop_op *l,
                            bool effects, anf_node *const *args, anf_node *go) {
  anfi_loop_op whole = *l;
  whole.go = go;
  if (!s->plan.tree) whole.step = forward_block(ad, l, effects, anfi_block_rounds(s, l));
  whole.nout = items_of_blocks(s, l) - 1;
  whole.rounds = true;
  return anfi_ad_loop(ad, g, &whole, args);
}

/* (w.., s..) -> result of run_blocks for the remaining iterations */
static anf_graph *run_rest(anfi_ad *ad, const anfi_jspec *s, const anfi_loop_op *l, bool effects) {
  making m = begin(ad, ANFI_FORWARD, l->step, l->nw + l->ns);
  take_args(&m, l);
  anf_node *r = run_blocks(ad, m.g, s, l, effects, m.in, NULL);
  if (effects) anfi_add_effect(m.g, r);
  anfi_set_result(m.g, r);
  return m.g;
}

/* The remainder of rounds when blocks cover all: it runs nothing. */
static anf_graph *no_rest(anfi_ad *ad, const anfi_loop_op *l, const anf_type *t) {
  making m = begin(ad, "▷", l->step, l->nw + l->ns);
  anf_node **out = ANFI_NEW_N(ad->arena, anf_node *, t->n + 1);
  take_args(&m, l);
  for (size_t i = 0; i < t->n; i++)
    out[i] = i < l->ns ? m.in[l->nw + i] : anfi_ad_undef(ad, m.g, t->items[i]);
  anfi_set_result(m.g, anfi_ad_tuple(ad, m.g, t->n, out));
  return m.g;
}

/* (w.., s.., [go]) -> (s'.., residual stacks of the first block, its iterations, is there a rest?,
 * with a tree the state then, items of the rest) */
static anf_graph *forward_within(anfi_ad *ad, const anfi_jspec *s, const anfi_loop_op *l,
                                 bool effects) {
  making m = begin(ad, ANFI_FORWARD, l->step, l->nw + l->ns + 1);
  size_t nk = s->nresidual, ns = l->ns, n = ns, nb = items_of_blocks(s, l);
  anf_node **in = ANFI_NEW_N(ad->arena, anf_node *, l->nw + ns + 1),
           **out = ANFI_NEW_N(ad->arena, anf_node *, 2 * ns + nk + nb + 3);
  take_args(&m, l);
  anf_node *go = l->go ? take(&m, anfi_type_scalar(ad->m->cx, ANF_BOOL)) : NULL;
  size_t rounds = anfi_block_rounds(s, l);
  anf_node *first = first_rounds(ad, m.g, l, s->fwd, nk, effects, rounds, m.in, go);
  for (size_t i = 0; i < nk; i++) out[n++] = anfi_ad_get(ad, m.g, first, ns + 2 + i);
  for (size_t i = 0; i < 2; i++) out[n++] = anfi_ad_get(ad, m.g, first, ns + i);
  memcpy(in, m.in, l->nw * sizeof *in);
  for (size_t i = 0; i < ns; i++) in[l->nw + i] = anfi_ad_get(ad, m.g, first, i);
  for (size_t i = 0; s->plan.tree && i < ns; i++) out[n++] = in[l->nw + i];
  anf_graph *rest = run_rest(ad, s, l, effects);
  const anf_type *t = anfi_ad_type_of(ad, rest->result);
  anf_node *r = call_either(ad, m.g, anfi_ad_get(ad, m.g, first, ns + 1), rest, no_rest(ad, l, t),
                            t, l->nw + ns, in);
  if (effects) anfi_add_effect(m.g, r);
  for (size_t i = 0; i < ns; i++) out[i] = anfi_ad_get(ad, m.g, r, i);
  for (size_t i = 0; i < nb; i++) out[n++] = anfi_ad_get(ad, m.g, r, ns + i);
  anfi_set_result(m.g, anfi_ad_tuple(ad, m.g, n, out));
  return m.g;
}

/* ▶ of the loop n: residuals follow the state. A tree's first state ◀ finds among what the loop
 * was given. */
void anfi_forward_blocks(anfi_jbuild *q, anf_node *n) {
  anfi_jspec s;
  anfi_loop_op l = uncounted(q, n, &s);
  size_t at = anfi_position(q, n), ns = l.ns, given = n->nin - l.first_w;
  bool effects = n->flags & ANFI_NODE_EFFECT;
  anf_node *r, **in = ANFI_NEW_N(q->j->a, anf_node *, l.nw + ns + 2);
  memcpy(in, anfi_primal_args(q, n, l.first_w), given * sizeof *in);
  if (l.n) in[given] = anfi_primal(q, l.n);
  if (l.n) l.go = anfi_ad_apply2(q->ad, q->f, ANF_OP_Less, number(q->ad, 0), in[given]);
  else if (l.go) l.go = anfi_primal(q, l.go);
  l.n = NULL;
  if (saves_first(&s)) {
    in[l.nw + ns] = l.go;
    r = anfi_ad_call(q->ad, q->f, forward_within(q->ad, &s, &l, effects), NULL, l.nw + ns + !!l.go,
                     in);
  } else r = run_blocks(q->ad, q->f, &s, &l, effects, in, l.go);
  anfi_loop_as(q, r, n, n->type->n);
  size_t nresidual = r->type->n - ns;
  q->effect[at] = r;
  q->residual[at] = ANFI_NEW_N(q->j->a, anf_node *, nresidual + 1);
  for (size_t i = 0; i < nresidual; i++) q->residual[at][i] = anfi_ad_get(q->ad, q->f, r, ns + i);
  anf_node **out = ANFI_NEW_N(q->j->a, anf_node *, n->type->n + 1u);
  for (size_t i = 0; i < n->type->n; i++) out[i] = anfi_ad_get(q->ad, q->f, r, i);
  q->to[at] = anfi_ad_tuple(q->ad, q->f, n->type->n, out);
}

/* ---- back ---- */

typedef struct {
  anfi_jbuild *q;
  const anfi_jspec *s;
  anfi_loop_op l;
  const anfi_loop_op *back; // over the rounds of a block, from last to first
  anf_graph *block;         // (w.., adjoints.., s.., rounds) -> adjoints
  const anf_type *adjoints;
} blocks;

static making begin_back(blocks *b, const char *mark) {
  size_t nd = b->back->ns;
  making m = begin(b->q->ad, mark, b->l.step, b->l.nw + nd + b->l.ns + 1);
  for (size_t i = 0; i < b->l.nw; i++) take(&m, b->l.step->params.at[i]->type);
  for (size_t i = 0; i < nd; i++) take(&m, b->adjoints->items[i]);
  for (size_t i = 0; i < b->l.ns; i++) take(&m, b->l.step->params.at[b->l.nw + i]->type);
  take(&m, count_type(b->q->ad));
  return m;
}

/* Arguments w.. then `s` of a loop over states. */
static anf_node **state_args(blocks *b, const making *m, anf_node *const *s) {
  anf_node **in = ANFI_NEW_N(b->q->j->a, anf_node *, b->l.nw + b->l.ns + 1);
  memcpy(in, m->in, b->l.nw * sizeof *in);
  memcpy(in + b->l.nw, s, b->l.ns * sizeof *in);
  return in;
}

/* One block: ▶ again, then ◀. */
static anf_graph *backward_block(blocks *b) {
  anfi_ad *ad = b->q->ad;
  making m = begin_back(b, ANFI_BACKWARD);
  size_t nk = b->s->nresidual, nd = b->back->ns, n = 0, ns = b->l.ns;
  anf_node *const *adjoint = m.in + b->l.nw, *const *state = adjoint + nd, *rounds = m.in[m.n - 1];
  anfi_loop_op again = {.nw = b->l.nw, .ns = ns, .nout = nk, .n = rounds};
  again.step = without_again(ad, &b->l, anfi_without_effects(ad, b->s->fwd), ns + nk);
  anf_node *f = anfi_ad_loop(ad, m.g, &again, state_args(b, &m, state));
  anf_node **in = ANFI_NEW_N(ad->arena, anf_node *, b->l.nw + nd + nk + 1);
  for (size_t i = 0; i < b->l.nw; i++)
    if (anfi_is_passed(b->s, i)) in[n++] = m.in[i];
  for (size_t i = 0; i < nd; i++) in[n++] = adjoint[i];
  for (size_t i = 0; i < nk; i++) in[n++] = anfi_ad_get(ad, m.g, f, ns + i);
  anfi_loop_op back = *b->back;
  back.n = rounds;
  anfi_set_result(m.g, anfi_ad_loop(ad, m.g, &back, in));
  return m.g;
}

/* A call of f with other adjoints, state and number of rounds. */
static anf_node *go(blocks *b, const making *m, anf_graph *f, anf_node *adjoints,
                    anf_node *const *state, anf_node *rounds) {
  anfi_ad *ad = b->q->ad;
  size_t n = b->l.nw, nd = b->back->ns;
  anf_node **in = ANFI_NEW_N(ad->arena, anf_node *, m->n + 1);
  memcpy(in, m->in, m->n * sizeof *in);
  for (size_t i = 0; adjoints && i < nd; i++) in[n + i] = anfi_ad_get(ad, m->g, adjoints, i);
  if (state) memcpy(in + n + nd, state, b->l.ns * sizeof *in);
  if (rounds) in[m->n - 1] = rounds;
  return anfi_ad_call(ad, m->g, f, b->adjoints, m->n, in);
}

/* The later half of the rounds, then the earlier one. */
static anf_graph *halves(blocks *b, anf_graph *tree) {
  anfi_ad *ad = b->q->ad;
  making m = begin_back(b, ANFI_ADJOINT);
  size_t ns = b->l.ns;
  anf_node *const *state = m.in + b->l.nw + b->back->ns, *rounds = m.in[m.n - 1];
  anf_node *half = anfi_ad_apply2(ad, m.g, ANF_OP_FloorDiv, rounds, number(ad, 2));
  anfi_loop_op ahead = {.nw = b->l.nw, .ns = ns, .n = half};
  ahead.step = without_again(ad, &b->l, anfi_without_effects(ad, b->l.step), ns);
  anf_node *s = anfi_ad_loop(ad, m.g, &ahead, state_args(b, &m, state)),
           **middle = ANFI_NEW_N(ad->arena, anf_node *, ns + 1);
  for (size_t i = 0; i < ns; i++) middle[i] = anfi_ad_get(ad, m.g, s, i);
  anf_node *rest = anfi_ad_apply2(ad, m.g, ANF_OP_Sub, rounds, half),
           *later = go(b, &m, tree, NULL, middle, rest);
  anfi_set_result(m.g, go(b, &m, tree, later, NULL, half));
  return m.g;
}

static anf_graph *tree_of(blocks *b, size_t rounds) {
  anfi_ad *ad = b->q->ad;
  making m = begin_back(b, ANFI_ADJOINT);
  anf_node *small =
      anfi_ad_apply2(ad, m.g, ANF_OP_LessEqual, m.in[m.n - 1], number(ad, (int64_t)rounds));
  anfi_set_result(m.g,
                  call_either(ad, m.g, small, b->block, halves(b, m.g), b->adjoints, m.n, m.in));
  return m.g;
}

/* The adjoints after all blocks. `in`: w.., adjoints.., for a tree the state, items of run_blocks */
static anf_node *back_over(blocks *b, anf_graph *g, size_t n, anf_node *const *in) {
  if (b->s->plan.tree)
    return anfi_ad_call(b->q->ad, g, tree_of(b, anfi_block_rounds(b->s, &b->l)), b->adjoints, n,
                        in);
  anfi_loop_op over = {.step = b->block, .nw = b->l.nw, .ns = b->back->ns, .nx = b->l.ns + 1};
  over.reverse = true;
  over.n = in[n - 1];
  return anfi_ad_loop(b->q->ad, g, &over, in);
}

/* A branch for the rest of the rounds: back_over as a graph of its own; without a rest it returns the adjoints unchanged. */
static anf_graph *back_arm(blocks *b, size_t n, anf_node *const *in, bool rest) {
  making m = begin(b->q->ad, rest ? ANFI_BACKWARD : ANFI_ADJOINT, b->l.step, n);
  for (size_t i = 0; i < n; i++) take(&m, anfi_ad_type_of(b->q->ad, in[i]));
  anfi_set_result(m.g, rest ? back_over(b, m.g, n, m.in)
                            : anfi_ad_tuple(b->q->ad, m.g, b->back->ns, m.in + b->l.nw));
  return m.g;
}

/* ◀ of forward_within: the rest first, if there is one, then the first block. */
static anf_node *back_within(blocks *b, anf_node *const *residual, size_t n, anf_node *const *in,
                             anf_node *const *args) {
  anfi_jbuild *q = b->q;
  size_t nd = b->back->ns, nk = b->s->nresidual, nw = b->back->nw;
  anf_node *d = call_either(q->ad, q->b, residual[nk + 1], back_arm(b, n, in, true),
                            back_arm(b, n, in, false), b->adjoints, n, in),
           **arg = ANFI_NEW_N(q->j->a, anf_node *, nw + nd + nk + 1);
  memcpy(arg, args, nw * sizeof *arg);
  for (size_t i = 0; i < nd; i++) arg[nw + i] = anfi_ad_get(q->ad, q->b, d, i);
  memcpy(arg + nw + nd, residual, nk * sizeof *arg);
  anfi_loop_op back = *b->back;
  back.n = residual[nk];
  return anfi_ad_loop(q->ad, q->b, &back, arg);
}

static anf_node *first_state(const blocks *b, const anf_node *n, size_t i) {
  size_t at = b->l.first_w + b->l.nw + i;
  return at < n->nin ? n->in[at].def : b->l.n;
}

anf_node *anfi_backward_blocks(anfi_jbuild *q, anf_node *n, const anfi_loop_op *back,
                               anf_node *const *args) {
  anfi_jspec s;
  blocks b = {.q = q, .s = &s, .l = uncounted(q, n, &s), .back = back};
  size_t nw = b.l.nw, ns = b.l.ns, nd = back->ns, k = 0, nb = items_of_blocks(&s, &b.l);
  const anf_type **t = ANFI_NEW_N(q->j->a, const anf_type *, nd + 1);
  for (size_t i = 0; i < nd; i++) t[i] = back->step->params.at[back->nw + i]->type;
  b.adjoints = anfi_type_tuple(q->j->cx, nd, t);
  b.block = backward_block(&b);
  bool within = saves_first(&s);
  anf_node *const *residual = q->residual[anfi_position(q, n)],
                  *const *items = residual + (within ? s.nresidual + 2 : 0),
                  **in = ANFI_NEW_N(q->j->a, anf_node *, nw + nd + ns + nb + 1);
  for (size_t i = 0; i < nw; i++) in[k++] = anfi_primal(q, n->in[b.l.first_w + i].def);
  for (size_t i = 0; i < nd; i++) in[k++] = args[back->nw + i];
  for (size_t i = 0; s.plan.tree && i < ns; i++)
    in[k++] = within ? *items++ : anfi_primal(q, first_state(&b, n, i));
  for (size_t i = 0; i < nb; i++) in[k++] = items[i];
  return within ? back_within(&b, residual, k, in, args) : back_over(&b, q->b, k, in);
}
