// SPDX-License-Identifier: Apache-2.0
/* Calls in ▶ and ◀.
 *   y = g(x)                     ▶: (y, r..) = ▶g(x)                       ◀: dx = ◀g(r.., dy)
 *   y = (c ? g : h)(x)           ▶: (y, slots..) = (c ? ▷g : ▷h)(x)        ◀: (c ? ◁g : ◁h)(slots.., dy)
 * A choice stays a choice, and ◀ repeats it on the same condition. Residuals of the branches share slots
 * where types agree; the adapters ▷ and ◁ put them there, and slots that a branch does not fill are undefined.
 * Boxes and stacks do not say what they hold, and vmap joins those of lanes that take different branches: only
 * those of one callee share a slot.
 * Recompute (checkpoint) runs ▶ again in ◀; Custom calls the pullback or the jvp rule that the program gave. */
#include "autodiff/reverse/j.h"
#include "base/mark.h"

bool anfi_is_own_call(const anf_node *n) {
  return n->kind == ANFI_CALL || anfi_is_op(n, ANF_OP_Recompute) || anfi_is_op(n, ANF_OP_Custom);
}

/* Types of the residuals of a spec, as its callers see them; the spec may still be open. */
static size_t residual_types(const anfi_jbuild *q, const anfi_jspec *s,
                             const anf_type *const **out) {
  if (!anfi_is_boxed(s)) return *out = s->residual, s->nresidual;
  const anf_type **t = ANFI_NEW(q->j->a, const anf_type *);
  *t = anfi_type_simple(q->j->cx, ANF_TYPE_BOX);
  return *out = t, 1;
}

bool anfi_is_passed(const anfi_jspec *s, size_t i) {
  return s->how == ANFI_RESIDUALS_BOX ? (s->constant[i] & ANFI_J_CONSTANT) != 0 : s->passed[i];
}

bool anfi_adds(const anfi_jspec *s, size_t i, size_t k) {
  return (s->constant[i] & ANFI_J_ADDS) && s->flow.out[s->jg->pfirst[i] + k];
}

static const anf_type *with_residuals(const anfi_jbuild *q, const anf_type *value, size_t n,
                                      const anf_type *const *residual) {
  const anf_type **t = ANFI_NEW_N(q->j->a, const anf_type *, n + 1);
  t[0] = value;
  if (n) memcpy(t + 1, residual, n * sizeof *t);
  return anfi_type_tuple(q->j->cx, n + 1, t);
}

anf_node **anfi_primal_args(anfi_jbuild *q, const anf_node *n, size_t from) {
  anf_node **a = ANFI_NEW_N(q->j->a, anf_node *, n->nin);
  for (size_t i = from; i < n->nin; i++) a[i - from] = anfi_primal(q, n->in[i].def);
  return a;
}

/* ---- slots of a choice ---- */

typedef struct {
  uint32_t branches;
  ANFI_VEC(const anf_type *) slot;
  ANFI_VEC(uint32_t) next; // by slot: the next one of its key, or 0
  anfi_map first;          // by key: 1 + its first slot
  uint32_t **at;           // by branch and residual: its slot
} slots;

/* Residuals of one key may share a slot: of a type, but of a callee if the type does not say what is inside. */
static uint64_t slot_key(const anfi_jspec *s, const anf_type *const *t) {
  bool opaque = (*t)->kind == ANF_TYPE_BOX || (*t)->kind == ANF_TYPE_STACK;
  return !opaque ? anfi_key(*t) : anfi_is_boxed(s) ? anfi_key(s) : anfi_key(t);
}

/* The first slot of the key that the branch does not use yet, or a new one of type t. `last`: by key, 1 + the last
 * one that it uses; a branch takes those of a key in their order. */
static uint32_t slot_for(anfi_jbuild *q, slots *s, uint64_t key, const anf_type *t,
                         anfi_map *last) {
  uint64_t *used = anfi_map_at(last, key), *first = anfi_map_at(&s->first, key);
  uint32_t i = *used ? s->next.at[*used - 1] : (uint32_t)*first, none = 0;
  if (!i) {
    anfi_push(q->j->a, &s->slot, t);
    anfi_push(q->j->a, &s->next, none);
    i = (uint32_t)s->slot.n;
    if (*used) s->next.at[*used - 1] = i;
    else *first = i;
  }
  *used = i;
  return i - 1;
}

static slots slots_of(anfi_jbuild *q, const anf_node *n) {
  slots s = {.branches = anfi_j_branches(n)};
  s.at = ANFI_NEW_N(q->j->a, uint32_t *, s.branches + 1u);
  anfi_map_init(&s.first, q->j->a);
  for (uint32_t k = 1; k <= s.branches; k++) {
    const anf_type *const *t;
    anfi_map last;
    anfi_map_init(&last, q->j->a);
    const anfi_jspec *spec = anfi_j_callee(q->j, n, k);
    size_t count = residual_types(q, spec, &t);
    s.at[k] = ANFI_NEW_N(q->j->a, uint32_t, count + 1);
    for (size_t i = 0; i < count; i++)
      s.at[k][i] = slot_for(q, &s, slot_key(spec, &t[i]), t[i], &last);
  }
  return s;
}

/* Are the residuals of the branch the slots, in order? Then it needs no adapter. */
static bool fills(const anfi_jbuild *q, const slots *s, const anfi_jspec *spec, uint32_t branch) {
  const anf_type *const *t;
  size_t n = residual_types(q, spec, &t);
  for (size_t i = 0; i < n; i++)
    if (s->at[branch][i] != i) return false;
  return n == s->slot.n;
}

/* ---- forward ---- */

static anf_graph *forward_branch(anfi_jbuild *q, const slots *s, const anf_node *n,
                                 uint32_t branch) {
  const anfi_jspec *spec = anfi_j_callee(q->j, n, branch);
  if (fills(q, s, spec, branch)) return spec->fwd;
  const anf_graph *g = spec->jg->g;
  anf_graph *w = anfi_graph_beside(g, "▷");
  const anf_type *const *t;
  size_t count = residual_types(q, spec, &t);
  anf_node **in = ANFI_NEW_N(q->j->a, anf_node *, g->params.n + 1),
           **out = ANFI_NEW_N(q->j->a, anf_node *, s->slot.n + 1);
  for (size_t i = 0; i < g->params.n; i++) in[i] = anfi_param(w, NULL, g->params.at[i]->type);
  anf_node *c =
      anfi_ad_call(q->ad, w, spec->fwd, with_residuals(q, n->type, count, t), g->params.n, in);
  if (n->flags & ANFI_NODE_EFFECT) anfi_add_effect(w, c);
  out[0] = anfi_ad_get(q->ad, w, c, 0);
  for (size_t i = 0; i < count; i++) out[1 + s->at[branch][i]] = anfi_ad_get(q->ad, w, c, i + 1);
  for (size_t i = 0; i < s->slot.n; i++)
    if (!out[i + 1]) out[i + 1] = anfi_ad_undef(q->ad, w, s->slot.at[i]);
  anfi_set_result(w, anfi_ad_tuple(q->ad, w, s->slot.n + 1, out));
  return w;
}

/* The same choice of other graphs. */
static anf_node *choice(anfi_jbuild *q, anf_graph *g, const anf_node *n, anf_graph *const *branch) {
  const anf_node *old = n->in[0].def;
  anf_node **in = ANFI_NEW_N(q->j->a, anf_node *, old->nin);
  in[0] = anfi_primal(q, old->in[0].def);
  for (uint32_t k = 1; k < old->nin; k++) in[k] = anfi_graph_value(branch[k]);
  anf_node *c = anfi_apply(g, (anfi_opcode)old->op, old->u.attrs, old->nin, in);
  c->debug = old->debug;
  return c;
}

static void project_residuals(anfi_jbuild *q, const anf_node *n, anf_node *t, size_t nresidual) {
  size_t at = anfi_position(q, n);
  q->effect[at] = t;
  q->to[at] = anfi_ad_get(q->ad, q->f, t, 0);
  q->residual[at] = ANFI_NEW_N(q->j->a, anf_node *, nresidual + 1);
  for (size_t i = 0; i < nresidual; i++) q->residual[at][i] = anfi_ad_get(q->ad, q->f, t, i + 1);
}

static void forward_choice(anfi_jbuild *q, anf_node *n) {
  slots s = slots_of(q, n);
  anf_graph **branch = ANFI_NEW_N(q->j->a, anf_graph *, s.branches + 1u);
  for (uint32_t k = 1; k <= s.branches; k++) branch[k] = forward_branch(q, &s, n, k);
  anf_node *t = anfi_ad_call_node(q->ad, q->f, choice(q, q->f, n, branch),
                                  with_residuals(q, n->type, s.slot.n, s.slot.at), n->nin - 1u,
                                  anfi_primal_args(q, n, 1));
  project_residuals(q, n, t, s.slot.n);
}

static void forward_known(anfi_jbuild *q, anf_node *n) {
  const anfi_jspec *s = anfi_j_callee(q->j, n, 0);
  const anf_type *const *t;
  size_t count = residual_types(q, s, &t);
  project_residuals(q, n,
                    anfi_ad_call_node(q->ad, q->f, anfi_graph_value(s->fwd),
                                      with_residuals(q, n->type, count, t), n->nin - 1u,
                                      anfi_primal_args(q, n, 1)),
                    count);
}

static anf_node *zero_like(anfi_jbuild *q, anf_graph *g, anf_node *x) {
  anf_node **none = ANFI_NEW_N(q->j->a, anf_node *, anfi_count(q->j, x) + 1);
  return anfi_of_leaves(q->ad, g, anfi_ad_type_of(q->ad, x), x, none);
}

static bool copy_rule(anfi_jbuild *q, anf_node *n) {
  anf_node *c = anfi_apply(q->f, (anfi_opcode)n->op, n->u.attrs, n->nin, anfi_primal_args(q, n, 0));
  c->type = n->type;
  c->debug = n->debug;
  q->to[anfi_position(q, n)] = q->effect[anfi_position(q, n)] = c;
  return true;
}

/* Arguments of the rule of a CustomJvp: data, primals, tangents of zeros, which are nodes of g. */
static anf_node **rule_args(anfi_jbuild *q, anf_graph *g, const anf_node *n, const anfi_jrule *r) {
  size_t na = n->nin - 6u;
  anf_node **a = ANFI_NEW_N(q->j->a, anf_node *, 2 * na + 3), **x = anfi_primal_args(q, n, 6);
  a[0] = anfi_primal(q, n->in[4].def);
  if (r->effects) {
    a[1] = anfi_ad_tuple(q->ad, g, na, x);
    a[2] = zero_like(q, g, a[1]);
    return a;
  }
  for (size_t i = 0; i < na; i++) {
    a[1 + i] = x[i];
    a[r->tangent + i] = zero_like(q, g, x[i]);
  }
  return a;
}

/* ▶ of the rule, for its residuals. */
static void forward_rule(anfi_jbuild *q, anf_node *n, const anfi_jrule *r) {
  const anfi_jspec *s = anfi_j_callee(q->j, n, 0);
  const anf_type *const *t;
  size_t count = residual_types(q, s, &t);
  anf_node *c = anfi_ad_call(q->ad, q->f, s->fwd, with_residuals(q, r->g->result->type, count, t),
                             r->g->params.n, rule_args(q, q->f, n, r));
  project_residuals(q, n, c, count);
}

/* Custom(f, fwd, bwd, fdata, fwddata, bwddata, args..) */
static bool forward_custom(anfi_jbuild *q, anf_node *n) {
  for (uint32_t i = 3; i < 6; i++)
    if (anfi_flow_any(anfi_varied(q->j, n->in[i].def), anfi_count(q->j, n->in[i].def)))
      return anfi_fail(q->j->cx, anfi_node_loc(n), ANF_E0701,
                       anfi_value_graph(n->in[0].def)->name->s);
  const anfi_jrule *r = anfi_j_rule(q->j, n);
  if (r && !r->effects) forward_rule(q, n, r);
  if (r) return copy_rule(q, n);
  anf_node **args = anfi_primal_args(q, n, 5);
  args[0] = anfi_primal(q, n->in[4].def);
  anf_graph *fwd = anfi_value_graph(n->in[1].def);
  project_residuals(
      q, n,
      anfi_ad_call_node(q->ad, q->f, anfi_graph_value(fwd), fwd->result->type, n->nin - 5u, args),
      1);
  return true;
}

bool anfi_forward_call(anfi_jbuild *q, anf_node *n) {
  if (anfi_is_op(n, ANF_OP_Custom)) return forward_custom(q, n);
  bool arguments = false;
  if (anfi_is_op(n, ANF_OP_Recompute)) anfi_plan_of(q->j, n, &arguments);
  if (arguments) return copy_rule(q, n);
  if (anfi_j_branches(n)) forward_choice(q, n);
  else forward_known(q, n);
  return true;
}

/* ---- back ---- */

size_t anfi_pullback_args(const anfi_jspec *s, anf_node *const *residual, anf_node *const *args,
                          size_t ngiven, anf_node *const *given, size_t nsum, anf_node *const *sum,
                          anf_node **out) {
  size_t n = anfi_residual_count(s);
  if (n) memcpy(out, residual, n * sizeof *out);
  for (size_t i = 0; i < s->jg->g->params.n; i++)
    if (anfi_is_passed(s, i)) out[n++] = args[i];
  if (ngiven) memcpy(out + n, given, ngiven * sizeof *out);
  if (nsum) memcpy(out + n + ngiven, sum, nsum * sizeof *out);
  return n + ngiven + nsum;
}

/* The sum so far of leaf k of an argument, if callers of this graph started it. */
static anf_node **sum_of(const anfi_jbuild *q, const anf_node *arg, size_t k) {
  anf_node **at = arg->kind == ANFI_PARAM ? &q->sum[q->s->jg->pfirst[arg->u.index] + k] : NULL;
  return at && *at ? at : NULL;
}

static anf_node *first_sum(anfi_jbuild *q, anf_node *arg, size_t k) {
  anf_node *so_far = anfi_take_sum(q, arg, k);
  if (so_far) return so_far;
  anf_node **all = ANFI_NEW_N(q->j->a, anf_node *, anfi_count(q->j, arg) + 1);
  anfi_leaf_nodes(q->ad, q->b, anfi_primal(q, arg), all);
  return anfi_zero_leaf(q->ad, q->b, all[k]->type, all[k]);
}

/* Sums so far of the arguments of n whose adjoints the callee adds to: its inputs from `from` on, parameters of s from `param` on. */
static size_t sums(anfi_jbuild *q, const anfi_jspec *s, size_t param, const anf_node *n,
                   size_t from, anf_node **out) {
  size_t count = 0;
  for (size_t i = param; i < s->jg->g->params.n; i++) {
    anf_node *arg = n->in[i - param + from].def;
    for (size_t k = 0; k < s->jg->pfirst[i + 1] - s->jg->pfirst[i]; k++) {
      if (!anfi_adds(s, i, k)) continue;
      anf_node **outer = sum_of(q, arg, k);
      out[count++] = outer ? *outer : first_sum(q, arg, k);
    }
  }
  return count;
}

/* The result type of ◀, from the primal's parameters. */
const anf_type *anfi_pullback_type(anfi_jbuild *q, const anfi_jspec *s) {
  const anfi_jgraph *jg = s->jg;
  if (s->bwd->result) return anfi_ad_type_of(q->ad, s->bwd->result);
  const anf_type **t = ANFI_NEW_N(q->j->a, const anf_type *, anfi_nwant(jg) + 1);
  size_t n = 0;
  for (size_t i = 0; i < jg->g->params.n; i++) {
    size_t k = jg->pfirst[i + 1] - jg->pfirst[i];
    const anf_type **leaf = ANFI_NEW_N(q->j->a, const anf_type *, k + 1);
    anfi_leaf_types(jg->g->params.at[i]->type, leaf);
    for (size_t l = 0; l < k; l++)
      if (s->flow.out[jg->pfirst[i] + l]) t[n++] = leaf[l];
  }
  return anfi_type_tuple(q->j->cx, n, t);
}

/* Items of r go to the leaves of n's inputs from `from` on, which are the parameters of s from
 * `param` on. Sums come back. */
static void distribute(anfi_jbuild *q, anf_node *n, size_t from, const anfi_jspec *s, size_t param,
                       anf_node *r) {
  size_t item = 0;
  const bool *out = s->flow.out + s->jg->pfirst[param];
  for (size_t i = from; i < n->nin; i++) {
    anf_node *arg = n->in[i].def;
    size_t k = anfi_count(q->j, arg);
    for (size_t l = 0; l < k; l++) {
      if (!out[l]) continue;
      anf_node *dx = anfi_ad_get(q->ad, q->b, r, item++);
      size_t p = param + i - from; // beyond all where the parameters are tuples, which have no sums
      anf_node **outer = p < s->jg->g->params.n && anfi_adds(s, p, l) ? sum_of(q, arg, l) : NULL;
      if (outer) *outer = dx;
      else anfi_add_adjoint(q, arg, l, dx);
    }
    out += k;
  }
}

static anf_graph *backward_branch(anfi_jbuild *q, const slots *s, const anf_node *n,
                                  uint32_t branch, const bool *passed, size_t ngiven,
                                  anf_node *const *given, size_t nsum, anf_node *const *sum) {
  const anfi_jspec *spec = anfi_j_callee(q->j, n, branch);
  const anf_graph *g = spec->jg->g;
  bool same = fills(q, s, spec, branch);
  for (size_t i = 0; i < g->params.n; i++) same &= anfi_is_passed(spec, i) == passed[i];
  if (same) return spec->bwd;
  anf_graph *w = anfi_graph_beside(g, ANFI_ADJOINT);
  anf_node **slot = ANFI_NEW_N(q->j->a, anf_node *, s->slot.n + 1),
           **residual = ANFI_NEW_N(q->j->a, anf_node *, s->slot.n + 1),
           **args = ANFI_NEW_N(q->j->a, anf_node *, g->params.n + 1),
           **dy = ANFI_NEW_N(q->j->a, anf_node *, ngiven + 1),
           **so_far = ANFI_NEW_N(q->j->a, anf_node *, nsum + 1),
           **in = ANFI_NEW_N(q->j->a, anf_node *, s->slot.n + g->params.n + ngiven + nsum + 1);
  for (size_t i = 0; i < s->slot.n; i++) slot[i] = anfi_param(w, NULL, s->slot.at[i]);
  for (size_t i = 0; i < g->params.n; i++)
    if (passed[i]) args[i] = anfi_param(w, NULL, g->params.at[i]->type);
  for (size_t i = 0; i < ngiven; i++) dy[i] = anfi_param(w, NULL, anfi_ad_type_of(q->ad, given[i]));
  for (size_t i = 0; i < nsum; i++) so_far[i] = anfi_param(w, NULL, anfi_ad_type_of(q->ad, sum[i]));
  const anf_type *const *t;
  size_t count = residual_types(q, spec, &t);
  for (size_t i = 0; i < count; i++) residual[i] = slot[s->at[branch][i]];
  size_t nin = anfi_pullback_args(spec, residual, args, ngiven, dy, nsum, so_far, in);
  anf_node *r = anfi_ad_call(q->ad, w, spec->bwd, anfi_pullback_type(q, spec), nin, in);
  if (anfi_runs_rule(q->ad, g)) anfi_add_effect(w, r);
  anfi_set_result(w, r);
  return w;
}

static void backward_choice(anfi_jbuild *q, anf_node *n, size_t ngiven, anf_node *const *given) {
  slots s = slots_of(q, n);
  size_t np = n->nin - 1u, nin = 0;
  bool *passed = ANFI_NEW_N(q->j->a, bool, np + 1);
  const anfi_jspec *first = anfi_j_callee(q->j, n, 1);
  for (uint32_t k = 1; k <= s.branches; k++)
    for (size_t i = 0; i < np; i++) passed[i] |= anfi_is_passed(anfi_j_callee(q->j, n, k), i);
  anf_node **sum = ANFI_NEW_N(q->j->a, anf_node *, anfi_nwant(first->jg) + 1);
  size_t nsum = sums(q, first, 0, n, 1, sum);
  anf_graph **branch = ANFI_NEW_N(q->j->a, anf_graph *, s.branches + 1u);
  for (uint32_t k = 1; k <= s.branches; k++)
    branch[k] = backward_branch(q, &s, n, k, passed, ngiven, given, nsum, sum);
  anf_node **args = anfi_primal_args(q, n, 1),
           **in = ANFI_NEW_N(q->j->a, anf_node *, s.slot.n + np + ngiven + nsum + 1);
  for (size_t i = 0; i < s.slot.n; i++) in[nin++] = q->residual[anfi_position(q, n)][i];
  for (size_t i = 0; i < np; i++)
    if (passed[i]) in[nin++] = args[i];
  for (size_t i = 0; i < ngiven; i++) in[nin++] = given[i];
  for (size_t i = 0; i < nsum; i++) in[nin++] = sum[i];
  anf_node *r = anfi_ad_call_node(q->ad, q->b, choice(q, q->b, n, branch),
                                  anfi_pullback_type(q, first), nin, in);
  bool rule = false;
  for (uint32_t k = 1; k <= s.branches; k++)
    rule |= anfi_runs_rule(q->ad, anfi_j_callee(q->j, n, k)->jg->g);
  if (rule) anfi_add_effect(q->b, r);
  distribute(q, n, 1, first, 0, r);
}

static anf_node *backward_known(anfi_jbuild *q, const anfi_jspec *s, anf_node *const *residual,
                                anf_node *const *args, size_t ngiven, anf_node *const *given,
                                size_t nsum, anf_node *const *sum) {
  anf_node **in =
      ANFI_NEW_N(q->j->a, anf_node *, s->nresidual + s->jg->g->params.n + ngiven + nsum + 2);
  size_t nin = anfi_pullback_args(s, residual, args, ngiven, given, nsum, sum, in);
  anf_node *r = anfi_ad_call(q->ad, q->b, s->bwd, anfi_pullback_type(q, s), nin, in);
  if (anfi_runs_rule(q->ad, s->jg->g)) anfi_add_effect(q->b, r);
  return r;
}

/* ▶ and ◀ one after the other, in b; `effects`: those of ▶ happen. */
static anf_node *run_both(anfi_jbuild *q, const anfi_jspec *s, bool effects, anf_node *const *args,
                          size_t ngiven, anf_node *const *given, size_t nsum,
                          anf_node *const *sum) {
  const anf_type *const *t;
  size_t count = residual_types(q, s, &t), np = s->jg->g->params.n;
  const anf_type *value = anfi_ad_type_of(q->ad, s->jg->g->result);
  anf_node *c = anfi_ad_call(q->ad, q->b, s->fwd, with_residuals(q, value, count, t), np, args);
  if (effects) anfi_add_effect(q->b, c);
  anf_node **residual = ANFI_NEW_N(q->j->a, anf_node *, count + 1);
  for (size_t i = 0; i < count; i++) residual[i] = anfi_ad_get(q->ad, q->b, c, i + 1);
  return backward_known(q, s, residual, args, ngiven, given, nsum, sum);
}

static anf_node *fence(anfi_jbuild *q, anf_node *x, size_t id) {
  if (x->kind == ANFI_VALUE) return x;
  const anfi_attrs *at =
      anfi_attrs_one(q->ad->m, ANF_OP_Fence, anfi_value_new_i64(q->j->cx, ANF_INT, (int64_t)id));
  return anfi_ad_typed(q->ad, anfi_apply(q->b, ANF_OP_Fence, at, 1, &x), x->type);
}

/* Fences separate recomputed nodes from those of ▶; otherwise CSE would merge them. */
static void backward_recompute(anfi_jbuild *q, anf_node *n, size_t ngiven, anf_node *const *given) {
  const anfi_jspec *s = anfi_j_callee(q->j, n, 0);
  bool arguments;
  anfi_jplan plan = anfi_plan_of(q->j, n, &arguments);
  size_t nresidual = arguments ? 0 : anfi_residual_count(s);
  anf_node **args = anfi_primal_args(q, n, 1),
           **residual = ANFI_NEW_N(q->j->a, anf_node *, nresidual + 1);
  for (size_t i = 0; (arguments || plan.products) && i + 1 < n->nin; i++)
    args[i] = fence(q, args[i], n->id);
  for (size_t i = 0; i < nresidual; i++) {
    residual[i] = q->residual[anfi_position(q, n)][i];
    if (plan.products) residual[i] = fence(q, residual[i], n->id);
  }
  anf_node **sum = ANFI_NEW_N(q->j->a, anf_node *, anfi_nwant(s->jg) + 1);
  size_t nsum = sums(q, s, 0, n, 1, sum);
  distribute(q, n, 1, s, 0,
             arguments ? run_both(q, s, false, args, ngiven, given, nsum, sum)
                       : backward_known(q, s, residual, args, ngiven, given, nsum, sum));
}

/* The leaves of the rule's result are adjoints of the arguments, in order. */
static void hand_out_whole(anfi_jbuild *q, anf_node *n, anf_node *r) {
  anf_node **leaf = ANFI_NEW_N(q->j->a, anf_node *, anfi_count(q->j, r) + 1);
  anfi_leaf_nodes(q->ad, q->b, r, leaf);
  for (size_t i = 6; i < n->nin; i++) {
    size_t k = anfi_count(q->j, n->in[i].def);
    for (size_t l = 0; l < k; l++) anfi_add_adjoint(q, n->in[i].def, l, *leaf++);
  }
}

static bool backward_custom_vjp(anfi_jbuild *q, anf_node *n, anf_node *const *leaf) {
  anf_graph *bwd = anfi_value_graph(n->in[2].def);
  anf_node *y = anfi_primal(q, n),
           *in[3] = {anfi_primal(q, n->in[5].def), q->residual[anfi_position(q, n)][0],
                     anfi_of_leaves(q->ad, q->b, n->type, y, leaf)};
  anf_node *r = anfi_ad_call(q->ad, q->b, bwd, NULL, 3, in);
  bool good;
  if (anfi_rule_effects(q->ad, n, bwd, &good)) anfi_add_effect(q->b, r);
  if (good) hand_out_whole(q, n, r);
  return good;
}

/* A rule is linear in the tangents: ◀ for them, at zero. */
static bool backward_custom_jvp(anfi_jbuild *q, anf_node *n, const anfi_jrule *r, size_t ngiven,
                                anf_node *const *given) {
  const anfi_jspec *s = anfi_j_callee(q->j, n, 0);
  anf_node **args = rule_args(q, q->b, n, r);
  if (!r->effects) {
    anf_node **sum = ANFI_NEW_N(q->j->a, anf_node *, anfi_nwant(s->jg) + 1);
    size_t nsum = sums(q, s, r->tangent, n, 6, sum);
    distribute(
        q, n, 6, s, r->tangent,
        backward_known(q, s, q->residual[anfi_position(q, n)], args, ngiven, given, nsum, sum));
    return true;
  }
  bool good;
  anfi_rule_effects(q->ad, n, r->g, &good);
  if (good) distribute(q, n, 6, s, r->tangent, run_both(q, s, true, args, ngiven, given, 0, NULL));
  return good;
}

bool anfi_backward_call(anfi_jbuild *q, anf_node *n, anf_node *const *leaf) {
  size_t k = anfi_count(q->j, n);
  anf_node **given = ANFI_NEW_N(q->j->a, anf_node *, k + 1);
  const anfi_jrule *rule = anfi_is_op(n, ANF_OP_Custom) ? anfi_j_rule(q->j, n) : NULL;
  if (anfi_is_op(n, ANF_OP_Custom) && !rule) return backward_custom_vjp(q, n, leaf);
  size_t ngiven = anfi_given_list(q, anfi_useful(q->j, n), anfi_primal(q, n), leaf, given);
  if (rule) return backward_custom_jvp(q, n, rule, ngiven, given);
  if (anfi_is_op(n, ANF_OP_Recompute)) backward_recompute(q, n, ngiven, given);
  else if (anfi_j_branches(n)) backward_choice(q, n, ngiven, given);
  else {
    const anfi_jspec *s = anfi_j_callee(q->j, n, 0);
    anf_node **sum = ANFI_NEW_N(q->j->a, anf_node *, anfi_nwant(s->jg) + 1);
    size_t nsum = sums(q, s, 0, n, 1, sum);
    distribute(q, n, 1, s, 0,
               backward_known(q, s, q->residual[anfi_position(q, n)], anfi_primal_args(q, n, 1),
                              ngiven, given, nsum, sum));
  }
  return true;
}
