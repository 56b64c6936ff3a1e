// SPDX-License-Identifier: Apache-2.0
/* Signatures of ▶ and ◀:
 *   f(x, w) = sin(x * w)
 *   ▶f(x, w)      -> (value, residuals..)
 *   ◀f(residuals.., x, w, dy) -> (dx, dw)     x and w only where callers pass them again (`passed`)
 * Callers still have all arguments, so arguments are passed again and saved once for all callees that take
 * them; between iterations of a loop they would be saved per iteration, so there only invariants are
 * passed. optimizer/need_box.c drops the arguments that a recursion turns out not to need.
 *
 * Where a graph without effects is differentiated once, both sweeps build into the graph of the caller
 * (anfi_j_build_at): nothing is saved, passed or inlined again. */
#include "autodiff/reverse/j.h"

/* Parameters of ◀: first those of g that callers pass again, then given adjoints, then sums; residual.c
 * puts residuals before them. */
static void make_params(anfi_jbuild *q) {
  const anf_graph *g = q->s->jg->g;
  for (size_t i = 0; i < g->params.n; i++) {
    const anf_node *p = g->params.at[i];
    anfi_param(q->f, NULL, p->type)->debug = p->debug;
    bool left = q->s->how == ANFI_RESIDUALS_BOX || q->s->splice;
    if (!(q->s->constant[i] & ANFI_J_CONSTANT) && left) continue;
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
    n += anfi_given_list(q, q->s->flow.out + jg->pfirst[i], q->param[i], leaf, out + n);
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
  q.slot = ANFI_NEW_N(j->a, anfi_adjoint_term *, anfi_node_slot(jg) + jg->first[jg->order.n]);
  q.padj = q.slot + 1;
  q.adj = q.slot + anfi_node_slot(jg);
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
  if (!anfi_sweep_forward(&q) || !anfi_sweep_back(&q)) return false;
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
  if (!anfi_sweep_forward(&q) || !anfi_sweep_back(&q)) return false;
  at->value = anfi_primal(&q, jg->g->result);
  for (size_t i = 0; i < jg->g->params.n; i++)
    anfi_adjoint(&q, jg->g->params.at[i], at->dx + jg->pfirst[i]);
  return true;
}
