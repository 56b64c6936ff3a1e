// SPDX-License-Identifier: Apache-2.0
/* Loops in ▶ and ◀.
 *   s = s0; repeat n: s = sin(s) * w       ▶: the same loop, which also writes s and sin(s) to stacks
 *                                          ◀: repeat n backwards: pop; ds, dw = ◀step(pop.., ds, dw)
 * A counter of the state is on no stack: ◀ counts back.
 * ▶ has one more stack for each residual of the step. ◀ is a counted loop in the other direction. Its
 * state is the adjoint of the state and, summed in place, the adjoint of the invariants; it reads the residual
 * stacks and the adjoints of the stacks that the loop wrote, and writes the adjoints of those that it read.
 * It is a Loop again, so higher orders need no code of their own. */
#include "autodiff/reverse/j.h"
#include "base/mark.h"

/* The state may be of a wider type than the initial state. */
void anfi_loop_as(anfi_jbuild *q, anf_node *loop, const anf_node *n, size_t ns) {
  const anf_type **t = ANFI_NEW_N(q->j->a, const anf_type *, loop->type->n + 1);
  memcpy(t, loop->type->items, loop->type->n * sizeof *t);
  memcpy(t, n->type->items, ns * sizeof *t);
  loop->type = anfi_type_tuple(q->j->cx, loop->type->n, t);
  loop->debug = n->debug;
}

bool anfi_forward_loop(anfi_jbuild *q, anf_node *n) {
  const anfi_jspec *s = anfi_j_callee(q->j, n, 0);
  anfi_loop_op l = anfi_loop_parts(n);
  size_t nk = anfi_residual_count(s), ns = l.ns, nout = l.nout, at = anfi_position(q, n), k = 0;
  if (anfi_block_rounds(s, &l)) {
    anfi_forward_blocks(q, n);
    return true;
  }
  bool counts_rounds = l.rounds;
  l.step = s->fwd;
  if (l.n) l.n = anfi_primal(q, l.n);
  if (l.go) l.go = anfi_primal(q, l.go);
  l.nout += nk;
  l.rounds = counts_rounds || !l.counted;
  anf_node *loop = anfi_ad_loop(q->ad, q->f, &l, anfi_primal_args(q, n, l.first_w));
  anfi_loop_as(q, loop, n, ns);
  q->effect[at] = loop;
  q->residual[at] = ANFI_NEW_N(q->j->a, anf_node *, nk + 1);
  for (size_t i = 0; i < nk; i++)
    q->residual[at][i] = anfi_ad_get(q->ad, q->f, loop, ns + nout + i);
  anf_node *rounds = l.rounds ? anfi_ad_get(q->ad, q->f, loop, ns + nout + nk) : NULL;
  q->residual[at][nk] = l.counted ? l.n : rounds;
  anf_node **out = ANFI_NEW_N(q->j->a, anf_node *, ns + nout + 1);
  for (; k < ns + nout; k++) out[k] = anfi_ad_get(q->ad, q->f, loop, k);
  if (counts_rounds) out[k++] = rounds;
  q->to[at] = anfi_ad_tuple(q->ad, q->f, k, out);
  return true;
}

/* ---- back ---- */

/* Parameters and results of the step of ◀, in order:
 *   constants | adjoints of state, of invariants, counters after the round | residuals, adjoints of written stacks
 *   -> adjoints of state, of invariants, counters before the round | adjoints of read stacks */
typedef struct {
  /* the loop */
  anfi_jbuild *q;
  anf_node *n;
  const anfi_jspec *s;
  anfi_loop_op l;
  anf_graph *w;
  /* its leaves */
  const anf_type **leaf;        // by leaf of the step's parameters
  size_t first_s, first_x, end; // leaves: those of the state, of stacks
  size_t first_out;             // item of the step's result that goes to the first stack
  size_t nk;
  /* the backward loop */
  anf_node **arg; // the loop's arguments, in the order above
  size_t narg;
  anfi_loop_op back;
} backward;

static bool writes(const backward *b, size_t i, size_t *leaf) {
  size_t k = anfi_ad_leaves(b->l.step->result->type->items[b->first_out + i]);
  bool some = anfi_flow_any(b->s->given + *leaf, k);
  *leaf += k;
  return some;
}

static bool reads(const backward *b, size_t i) {
  const uint32_t *first = b->s->jg->pfirst + b->l.nw + b->l.ns + i;
  return anfi_flow_any(b->s->flow.out + first[0], first[1] - first[0]);
}

static anf_node *leaf_of(backward *b, size_t i, size_t at) { // of the loop's argument i, in f
  anf_node *x = anfi_primal(b->q, b->n->in[b->l.first_w + i].def);
  anf_node **all = ANFI_NEW_N(b->q->j->a, anf_node *, anfi_count(b->q->j, x) + 1);
  anfi_leaf_nodes(b->q->ad, b->q->b, x, all);
  return all[at];
}

/* The sum so far in the enclosing loop, if the argument is a constant there. */
static anf_node **outer_sum(const backward *b, size_t i, size_t leaf) {
  const anf_node *arg = b->n->in[b->l.first_w + i].def;
  for (size_t k = 0; k < i; k++)
    if (b->n->in[b->l.first_w + k].def == arg) return NULL;
  if (arg->kind != ANFI_PARAM) return NULL;
  anf_node **at = &b->q->sum[b->q->s->jg->pfirst[arg->u.index] + leaf];
  return *at ? at : NULL;
}

static anf_node *first_sum(backward *b, size_t i, size_t leaf) {
  anf_node **outer = outer_sum(b, i, leaf), *so_far;
  if (outer) return *outer;
  so_far = anfi_take_sum(b->q, b->n->in[b->l.first_w + i].def, leaf);
  return so_far ? so_far
                : anfi_zero_leaf(b->q->ad, b->q->b, b->leaf[b->s->jg->pfirst[i] + leaf],
                                 leaf_of(b, i, leaf));
}

static void add_constants(backward *b) {
  for (size_t i = 0; i < b->l.nw; i++)
    if (anfi_is_passed(b->s, i))
      b->arg[b->narg++] = anfi_primal(b->q, b->n->in[b->l.first_w + i].def);
  b->back.nw = b->narg;
}

/* Is item i of the state a counter that ◀ uses? Finds what a round adds to it. */
static bool counts(const backward *b, size_t i, int64_t *by) {
  return anfi_loop_counts(&b->l, i, by) && anfi_is_passed(b->s, b->l.nw + i);
}

static anf_node *cast(const backward *b, anf_node *x, const anf_type *t) {
  if (x->type == t) return x;
  anf_module *m = b->q->ad->m;
  const anfi_attrs *at = anfi_attrs_one(m, ANF_OP_Cast, anfi_value_new_type(m->cx, t));
  return anfi_ad_typed(b->q->ad, anfi_apply(b->q->b, ANF_OP_Cast, at, 1, &x), t);
}

static anf_node *number_like(const backward *b, const anf_node *like, int64_t x) {
  return anfi_ad_const(b->q->ad, anfi_value_new_i64(b->q->j->cx, (anf_dtype)like->type->dtype, x));
}

/* A counter after the last round. */
static anf_node *last_count(const backward *b, size_t i, int64_t by) {
  anfi_jbuild *q = b->q;
  if (!b->l.counted) return anfi_ad_get(q->ad, q->b, anfi_primal(q, b->n), i);
  anf_node *first = anfi_primal(q, b->n->in[b->l.first_w + b->l.nw + i].def),
           *n = anfi_primal(q, b->l.n), *all = cast(b, n, first->type);
  if (by != 1) all = anfi_ad_apply2(q->ad, q->b, ANF_OP_Mul, all, number_like(b, all, by));
  return anfi_ad_apply2(q->ad, q->b, ANF_OP_Add, first, all);
}

/* The initial state: adjoints of the loop's results, zeros for invariants, and the last counters. */
static void add_state(backward *b, anf_node *const *leaf) {
  anfi_jbuild *q = b->q;
  anf_node **final = ANFI_NEW_N(q->j->a, anf_node *, anfi_count(q->j, b->n) + 1);
  anfi_leaf_nodes(q->ad, q->b, anfi_primal(q, b->n), final);
  for (size_t i = 0; i < b->first_x - b->first_s; i++)
    if (b->s->given[i])
      b->arg[b->narg++] =
          leaf[i] ? leaf[i] : anfi_zero_leaf(q->ad, q->b, b->leaf[b->first_s + i], final[i]);
  for (size_t i = 0; i < b->l.nw; i++)
    for (size_t k = b->s->jg->pfirst[i]; k < b->s->jg->pfirst[i + 1]; k++)
      if (b->s->flow.out[k]) b->arg[b->narg++] = first_sum(b, i, k - b->s->jg->pfirst[i]);
  int64_t by;
  for (size_t i = 0; i < b->l.ns; i++)
    if (counts(b, i, &by)) b->arg[b->narg++] = last_count(b, i, by);
  b->back.ns = b->narg - b->back.nw;
}

static void add_stacks(backward *b, anf_node *const *leaf) {
  anfi_jbuild *q = b->q;
  size_t at = b->first_x - b->first_s, ns = at;
  for (size_t i = 0; i < b->nk; i++) b->arg[b->narg++] = q->residual[anfi_position(q, b->n)][i];
  for (size_t i = 0; i < b->l.nout; i++) {
    if (!writes(b, i, &at)) continue;
    anf_node *d = leaf[ns + i];
    if (!d) {
      anf_node *y = anfi_ad_get(q->ad, q->b, anfi_primal(q, b->n), b->l.ns + i);
      d = anfi_zero_leaf(q->ad, q->b, y->type, y);
    }
    b->arg[b->narg++] = d;
  }
  b->back.nx = b->narg - b->back.nw - b->back.ns;
}

/* ---- the step ---- */

typedef struct {
  anf_node **constant, **ds, **dw, **residual, **given;
  size_t nds, ndw, ngiven;
} step_params;

static anf_node *param(backward *b, const anf_type *t) { return anfi_param(b->w, NULL, t); }

/* A counter before the round, of a parameter that has it after the round. */
static anf_node *count_back(backward *b, size_t i, int64_t by) {
  anf_node *after = param(b, b->l.step->params.at[b->l.nw + i]->type);
  return anfi_ad_apply2(b->q->ad, b->w, ANF_OP_Sub, after, number_like(b, after, by));
}

static step_params make_params(backward *b) {
  anfi_arena *a = b->q->j->a;
  size_t nr = b->s->jg->nresult, at = b->first_x - b->first_s;
  step_params p = {.constant = ANFI_NEW_N(a, anf_node *, b->l.step->params.n + 1),
                   .ds = ANFI_NEW_N(a, anf_node *, b->end + 1),
                   .dw = ANFI_NEW_N(a, anf_node *, b->end + 1),
                   .residual = ANFI_NEW_N(a, anf_node *, b->nk + 1),
                   .given = ANFI_NEW_N(a, anf_node *, nr + 1)};
  for (size_t i = 0; i < b->l.nw; i++)
    if (anfi_is_passed(b->s, i)) p.constant[i] = param(b, b->l.step->params.at[i]->type);
  for (size_t i = b->first_s; i < b->first_x; i++)
    if (b->s->given[i - b->first_s]) p.given[p.ngiven++] = p.ds[p.nds++] = param(b, b->leaf[i]);
  for (size_t i = 0; i < b->first_s; i++)
    if (b->s->flow.out[i]) p.dw[p.ndw++] = param(b, b->leaf[i]);
  int64_t by;
  for (size_t i = 0; i < b->l.ns; i++)
    if (counts(b, i, &by)) p.constant[b->l.nw + i] = count_back(b, i, by);
  for (size_t i = 0; i < b->nk; i++)
    p.residual[i] = param(b, anfi_is_boxed(b->s) ? anfi_type_simple(b->q->j->cx, ANF_TYPE_BOX)
                                                 : b->s->residual[i]);
  for (size_t i = 0; i < b->l.nout; i++) {
    size_t from = at;
    if (!writes(b, i, &at)) continue;
    anf_node *d = param(b, b->l.step->result->type->items[b->first_out + i]),
             **inside = ANFI_NEW_N(a, anf_node *, at - from + 1);
    anfi_leaf_nodes(b->q->ad, b->w, d, inside);
    for (size_t k = from; k < at; k++)
      if (b->s->given[k]) p.given[p.ngiven++] = inside[k - from];
  }
  return p;
}

static void make_step(backward *b) {
  anfi_jbuild *q = b->q;
  anfi_ad *ad = q->ad;
  anfi_arena *a = q->j->a;
  step_params p = make_params(b);
  anf_node **in = ANFI_NEW_N(a, anf_node *, b->nk + b->l.step->params.n + p.ngiven + p.ndw + 1),
           **dx = ANFI_NEW_N(a, anf_node *, b->end + 1),
           **out = ANFI_NEW_N(a, anf_node *, b->end + b->l.ns + b->l.nx + 1);
  size_t item = 0, n = 0,
         nin = anfi_pullback_args(b->s, p.residual, p.constant, p.ngiven, p.given, p.ndw, p.dw, in);
  anf_node *r = anfi_ad_call(ad, b->w, b->s->bwd, anfi_pullback_type(q, b->s), nin, in);
  if (anfi_runs_rule(ad, b->s->jg->g)) anfi_add_effect(b->w, r);
  for (size_t i = 0; i < b->end; i++)
    if (b->s->flow.out[i]) dx[i] = anfi_ad_get(ad, b->w, r, item++);
  for (size_t i = b->first_s, k = 0; i < b->first_x; i++) {
    if (!b->s->given[i - b->first_s]) continue;
    out[n++] = dx[i] ? dx[i] : anfi_zero_leaf(ad, b->w, b->leaf[i], p.ds[k]);
    k++;
  }
  for (size_t i = 0; i < b->first_s; i++)
    if (dx[i]) out[n++] = dx[i];
  for (size_t i = b->l.nw; i < b->l.nw + b->l.ns; i++)
    if (p.constant[i]) out[n++] = p.constant[i];
  for (size_t i = 0; i < b->l.nx; i++) {
    size_t at = b->l.nw + b->l.ns + i;
    if (!reads(b, i)) continue;
    out[n++] =
        anfi_of_leaves(ad, b->w, b->l.step->params.at[at]->type, NULL, dx + b->s->jg->pfirst[at]);
    b->back.nout++;
  }
  anfi_set_result(b->w, anfi_ad_tuple(ad, b->w, n, out));
}

/* ---- rounds that add nothing ---- */

static bool is_zero(const anf_node *n) {
  if (anfi_is_op(n, ANF_OP_Zeros) || anfi_is_op(n, ANF_OP_ZerosLike)) return true;
  return n->kind == ANFI_VALUE && n->type && n->type->kind == ANF_TYPE_TENSOR && !n->type->n &&
         n->u.value->kind == ANF_VALUE_TENSOR && anfi_get_f64(n->u.value, 0) == 0.0;
}

/* Is d zero on one side of a choice, with the condition of those before it? Then *sw becomes the choice. */
static bool is_chosen(anf_node *d, anf_node **sw) {
  if (!anfi_is_op(d, ANF_OP_Switch) || d->nin != 3) return false;
  int zero = is_zero(d->in[1].def) ? 1 : is_zero(d->in[2].def) ? 2 : 0;
  if (!zero || (*sw && (*sw)->in[0].def != d->in[0].def)) return false;
  if (*sw && !is_zero((*sw)->in[zero].def)) return false;
  *sw = d;
  return true;
}

/* Where all adjoints that come in are zero unless a condition holds, ◀, which is linear in them, has no rounds otherwise:
 *   best = t < best ? t : best, t from a loop      ◀ of that loop runs where t was chosen */
static anf_node *rounds_where_chosen(const backward *b, anf_node *const *leaf, anf_node *n) {
  anf_node *sw = NULL, *in[3];
  for (size_t i = 0; i < anfi_count(b->q->j, b->n); i++)
    if (leaf[i] && !is_chosen(leaf[i], &sw)) return n;
  for (size_t i = 0; i < b->l.nx; i++)
    if (reads(b, i)) return n;
  if (!sw || b->l.nout) return n;
  int zero = is_zero(sw->in[1].def) ? 1 : 2;
  in[0] = sw->in[0].def;
  in[zero] = anfi_ad_const(b->q->ad, anfi_value_new_i64(b->q->j->cx, ANF_I64, 0));
  in[3 - zero] = n;
  return anfi_ad_typed(b->q->ad, anfi_apply(b->q->b, ANF_OP_Switch, NULL, 3, in), n->type);
}

/* ---- the loop, and where its results go ---- */

static void distribute(backward *b, anf_node *loop) {
  anfi_jbuild *q = b->q;
  const uint32_t *first = b->s->jg->pfirst;
  size_t item = 0;
  for (size_t i = b->l.nw; i < b->l.nw + b->l.ns; i++)
    for (size_t k = first[i]; k < first[i + 1]; k++)
      if (b->s->given[k - b->first_s])
        anfi_add_adjoint(q, b->n->in[b->l.first_w + i].def, k - first[i],
                         anfi_ad_get(q->ad, q->b, loop, item++));
  for (size_t i = 0; i < b->l.nw; i++)
    for (size_t k = first[i]; k < first[i + 1]; k++) {
      if (!b->s->flow.out[k]) continue;
      anf_node *dw = anfi_ad_get(q->ad, q->b, loop, item++),
               **outer = outer_sum(b, i, k - first[i]);
      if (outer) *outer = dw;
      else anfi_add_adjoint(q, b->n->in[b->l.first_w + i].def, k - first[i], dw);
    }
  int64_t by;
  for (size_t i = 0; i < b->l.ns; i++) item += counts(b, i, &by);
  for (size_t i = 0; i < b->l.nx; i++)
    if (reads(b, i))
      anfi_add_adjoint(q, b->n->in[b->l.first_w + b->l.nw + b->l.ns + i].def, 0,
                       anfi_ad_get(q->ad, q->b, loop, item++));
}

bool anfi_backward_loop(anfi_jbuild *q, anf_node *n, anf_node *const *leaf) {
  backward b = {.q = q, .n = n, .s = anfi_j_callee(q->j, n, 0), .l = anfi_loop_parts(n)};
  const anfi_jgraph *jg = b.s->jg;
  b.first_s = jg->pfirst[b.l.nw];
  b.first_x = jg->pfirst[b.l.nw + b.l.ns];
  b.end = jg->pfirst[b.l.nw + b.l.ns + b.l.nx];
  b.first_out = !b.l.counted + b.l.ns;
  b.nk = anfi_residual_count(b.s);
  b.leaf = ANFI_NEW_N(q->j->a, const anf_type *, b.end + 1);
  for (size_t i = 0; i < b.l.nw + b.l.ns + b.l.nx; i++)
    anfi_leaf_types(b.l.step->params.at[i]->type, b.leaf + jg->pfirst[i]);
  b.arg = ANFI_NEW_N(q->j->a, anf_node *, b.l.nw + b.l.ns + b.end + b.nk + b.l.nout + 1);
  b.w = anfi_graph_beside(b.l.step, ANFI_ADJOINT);
  b.w->flags |= ANFI_GRAPH_ADJOINT;
  make_step(&b);
  add_constants(&b);
  add_state(&b, leaf);
  b.back.step = b.w;
  b.back.reverse = !b.l.reverse;
  if (anfi_block_rounds(b.s, &b.l)) {
    if (anfi_runs_rule(q->ad, b.s->jg->g))
      return anfi_fail(q->j->cx, anfi_node_loc(n), ANF_E1560, b.l.step->name->s,
                       "in a loop that is checkpointed");
    b.back.nx = b.nk;
    distribute(&b, anfi_backward_blocks(q, n, &b.back, b.arg));
    return true;
  }
  add_stacks(&b, leaf);
  b.back.n = rounds_where_chosen(&b, leaf, q->residual[anfi_position(q, n)][b.nk]);
  anf_node *loop = anfi_ad_loop(q->ad, q->b, &b.back, b.arg);
  if (anfi_runs_rule(q->ad, b.s->jg->g)) anfi_add_effect(q->b, loop);
  distribute(&b, loop);
  return true;
}
