// SPDX-License-Identifier: Apache-2.0
/* Activity analysis: which leaves are varied, and which of those are useful.
 *   f(x, n, w) = x * cos(w) + n,  gradient for x:    varied x, x * cos(w), the sum; useful the same
 *   gradient for w:                                  varied w, cos(w), ...; n and x have no adjoint
 * A spec is visited node by node, forward for `varied` and backward for `useful`. The engine and the transfer
 * forward are those of flow.h; here are the transfer backward and the tables. The masks of callees are
 * those found so far; when one rises, the specs that use it are queued again: a worklist to a least fixpoint,
 * as in Tapenade (Hascoet, Naumann, Pascual 2005).
 *
 * A visit waits for the callees that it asks for first, so that it goes on with their masks, not with none: otherwise
 * chains of calls would be asked for with all masks on the way to the last ones.
 *
 * Hard case: the branches of one choice are raised to one mask, because their ◀ share one signature; the
 * state of a loop is raised until one iteration maps the mask to itself. */
#include "autodiff/reverse/j.h"

size_t anfi_count(anfi_j *j, const anf_node *n) {
  const anf_type *t = anfi_ad_type_of(j->ad, n);
  return t ? anfi_ad_leaves(t) : 0;
}

static bool *mask_of(anfi_j *j, bool *nodes, bool *params, const anf_node *n) {
  const anfi_jgraph *jg = j->now->jg;
  if (n->kind == ANFI_PARAM) return params + jg->pfirst[n->u.index];
  if (n->kind != ANFI_VALUE) return nodes + jg->first[j->local.at[n->id]];
  size_t k = anfi_count(j, n);
  if (k > j->nnone) {
    j->none = ANFI_NEW_N(j->a, bool, k);
    j->nnone = k;
  }
  return j->none;
}

const bool *anfi_varied(anfi_j *j, const anf_node *n) {
  return mask_of(j, j->varied, j->now->flow.in, n);
}

const bool *anfi_j_mask(anfi_flow *f, const anf_node *n) { return anfi_varied((anfi_j *)f, n); }

anfi_flow_spec *anfi_j_forward_spec(anfi_flow *f, anf_graph *g, const bool *in) {
  return &anfi_jspec_of((anfi_j *)f, g, in, NULL, NULL, NULL, false)->flow;
}

const bool *anfi_useful(anfi_j *j, const anf_node *n) {
  return mask_of(j, j->useful, j->now->flow.out, n);
}

/* Leaf k of n has an adjoint, if it is varied. */
static bool use(anfi_j *j, const anf_node *n, size_t k) {
  if (n->kind == ANFI_VALUE || !anfi_varied(j, n)[k]) return false;
  bool *at = mask_of(j, j->useful, j->now->flow.out, n) + k, rose = !*at;
  *at = true;
  return rose;
}

static void use_all(anfi_j *j, const anf_node *n) {
  for (size_t i = anfi_count(j, n); i-- > 0;) use(j, n, i);
}

/* ---- calls ---- */

uint32_t anfi_j_branches(const anf_node *call) {
  const anf_node *choice = call->kind == ANFI_CALL ? anfi_flow_choice(call) : NULL;
  return choice ? choice->nin - 1u : 0;
}

static anf_graph *callee(const anf_node *n, uint32_t branch) {
  return anfi_value_graph(branch ? n->in[0].def->in[branch].def : n->in[0].def);
}

static void use_args(anfi_j *j, const anf_node *n, size_t from, const bool *out) {
  for (size_t i = from; i < n->nin; i++) {
    size_t k = anfi_count(j, n->in[i].def);
    for (size_t l = 0; l < k; l++)
      if (out[l]) use(j, n->in[i].def, l);
    out += k;
  }
}

static anfi_jspec *ask_back(anfi_j *j, const anf_node *n, uint32_t branch, anfi_jspec *s) {
  anfi_push(j->a, &j->now->callees, ((anfi_jcallee){j->local.at[n->id], branch, s}));
  anfi_flow_use(&j->flow, &s->flow);
  return s;
}

anfi_jspec *anfi_j_callee(const anfi_j *j, const anf_node *n, uint32_t branch) {
  const anfi_jspec *s = j->now;
  uint32_t at = j->local.at[n->id];
  size_t low = 0,
         high = s->callees.n; // they are from the last node to the first, branches in order
  while (low < high) {
    const anfi_jcallee *c = &s->callees.at[low + (high - low) / 2];
    if (c->at > at || (c->at == at && c->branch < branch)) low = (size_t)(c - s->callees.at) + 1;
    else high = (size_t)(c - s->callees.at);
  }
  if (low == s->callees.n) return NULL;
  const anfi_jcallee *c = &s->callees.at[low];
  return c->at == at && c->branch == branch ? c->spec : NULL;
}

/* May a recursion that passes it on unchanged sum its adjoint in place, from zeros? */
static bool is_array(const anf_node *n) {
  return n->kind != ANFI_VALUE && n->type && n->type->kind == ANF_TYPE_TENSOR && n->type->n;
}

/* A parameter whose items a graph may read. */
typedef struct reading {
  const anf_graph *g;
  uint32_t param;
} reading;
typedef ANFI_VEC(reading) readings;

static void note_reading(anfi_j *j, readings *all, const anf_graph *g, uint32_t param) {
  for (size_t i = 0; i < all->n; i++)
    if (all->at[i].g == g && all->at[i].param == param) return;
  if (g && param < g->params.n) anfi_push(j->a, all, ((reading){g, param}));
}

static uint32_t input_of(const anfi_use *u) {
  uint32_t input = 0;
  while (&u->user->in[input] != u) input++;
  return input;
}

/* Does the op take items out of an array? */
static bool takes_items(const anfi_use *u) {
  const anf_node *n = u->user;
  return input_of(u) == 0 && anfi_op_of(n)->lower == ANFI_LOWER_INDEX_MAP && n->type &&
         n->type->kind == ANF_TYPE_TENSOR && n->type->n < u->def->type->n;
}

/* Notes what a call passes the array to. */
static void note_callees(anfi_j *j, readings *all, const anfi_use *u) {
  uint32_t branches = anfi_j_branches(u->user), input = input_of(u);
  for (uint32_t k = branches ? 1 : 0; input && k <= branches; k++)
    note_reading(j, all, callee(u->user, k), input - 1);
}

/* Notes what the call of a rule passes the array to: as an argument, and its tangent. False: it is no such call. */
static bool note_rule(anfi_j *j, readings *all, const anfi_use *u) {
  const anfi_jrule *r = anfi_is_op(u->user, ANF_OP_Custom) ? anfi_j_rule(j, u->user) : NULL;
  uint32_t input = input_of(u);
  if (!r || r->effects || input < 6) return false;
  note_reading(j, all, r->g, input - 5);
  note_reading(j, all, r->g, (uint32_t)r->tangent + input - 6);
  return true;
}

/* Does the use take items out of an array? Otherwise notes what it passes the array to. */
static bool reads_items(anfi_j *j, readings *all, const anfi_use *u) {
  const anf_node *n = u->user;
  bool call = n->kind == ANFI_CALL || anfi_is_op(n, ANF_OP_Recompute);
  if (call) note_callees(j, all, u);
  else if (note_rule(j, all, u)) return false;
  else if (n->kind == ANFI_APPLY) return n->op == ANF_OP_Loop || takes_items(u);
  return false;
}

/* Does the use read items, or pass the array on to graphs, which are noted, that are in no recursion? */
static bool only_reads_items(anfi_j *j, readings *all, const anfi_use *u) {
  const anf_node *n = u->user;
  if (n->kind == ANFI_CALL) {
    uint32_t branches = anfi_j_branches(n);
    for (uint32_t k = branches ? 1 : 0; k <= branches; k++)
      if (!callee(n, k) || anfi_recursion_invariants(j, callee(n, k))) return false;
    note_callees(j, all, u);
    return true;
  }
  if (n->op != ANF_OP_Loop)
    return anfi_ad_asks_dims(j->ad, n) || note_rule(j, all, u) || takes_items(u);
  anfi_loop_op l = anfi_loop_parts(n);
  size_t input = input_of(u);
  bool invariant = input >= l.first_w && input < l.first_w + l.nw;
  if (invariant) note_reading(j, all, l.step, (uint32_t)(input - l.first_w));
  return invariant;
}

/* Does g, with all that it calls, only read items of its parameter? */
static bool graph_only_reads_items(anfi_j *j, const anf_graph *g, uint32_t param) {
  enum { MOST = 64 };
  readings all = {0};
  note_reading(j, &all, g, param);
  for (size_t at = 0; at < all.n; at++) {
    const anf_graph *r = all.at[at].g;
    const anf_node *p = r->params.at[all.at[at].param];
    if (at >= MOST || r->result == p) return false;
    for (const anfi_use *u = p->uses; u; u = u->next)
      if (!only_reads_items(j, &all, u)) return false;
  }
  return true;
}

/* Does a useful node after n use x? Then the adjoint of x has terms when the backward sweep comes to n. */
static bool is_used_after(anfi_j *j, const anf_node *n, const anf_node *x) {
  for (const anfi_use *u = x->uses; u; u = u->next)
    if (u->user->graph == n->graph && j->local.at[u->user->id] > j->local.at[n->id] &&
        anfi_flow_any(anfi_useful(j, u->user), anfi_count(j, u->user)))
      return true;
  return x == n->graph->result;
}

/* Does one of the graphs, or what it passes the array to, read items of it? */
static bool any_reads_items(anfi_j *j, readings *all) {
  enum { MOST = 64 };
  for (size_t at = 0; at < all->n && at < MOST; at++)
    for (const anfi_use *u = all->at[at].g->params.at[all->at[at].param]->uses; u; u = u->next)
      if (reads_items(j, all, u)) return true;
  return false;
}

/* Does a callee read input i of n, an array, by index? Then it adds to the array's adjoint so far, in place. */
static bool callee_reads_items(anfi_j *j, const anf_node *n, uint32_t i) {
  uint32_t branches = anfi_j_branches(n);
  readings all = {0};
  for (uint32_t k = branches ? 1 : 0; k <= branches; k++)
    note_reading(j, &all, callee(n, k), i - 1);
  return any_reads_items(j, &all);
}

/* Does a branch of n give input i as it is? Then it alone adds to the array's adjoint. */
static bool branch_hands_on(const anf_node *n, uint32_t i) {
  uint32_t branches = anfi_j_branches(n);
  for (uint32_t k = 1; k <= branches; k++) {
    const anf_graph *g = callee(n, k);
    if (g && g->result == g->params.at[i - 1]) return true;
  }
  return false;
}

/* Arguments that are constants of the callees: those that are constants here, and arrays that a recursion passes on
 * unchanged. In an iteration, callees also add to the adjoints of arrays that they read by index, and branches to those that they give. An argument passed twice
 * sums its adjoint at the first one. */
static uint8_t *constants(anfi_j *j, const anf_node *n) {
  enum { inherited = ANFI_J_CONSTANT | ANFI_J_ADDS };
  uint8_t *c = ANFI_NEW_N(j->a, uint8_t, n->nin);
  uint32_t branches = anfi_j_branches(n), recursive = 0;
  bool *changed = ANFI_NEW_N(j->a, bool, n->nin), repeated = anfi_j_repeated(j->now);
  for (uint32_t k = branches ? 1 : 0; k <= branches; k++) {
    const bool *recursion = anfi_recursion_invariants(j, callee(n, k));
    recursive += recursion != NULL;
    for (uint32_t i = 1; recursion && i < n->nin; i++) changed[i] |= !recursion[i - 1];
  }
  for (uint32_t i = 1; i < n->nin; i++) {
    const anf_node *arg = n->in[i].def;
    c[i - 1] = arg->kind == ANFI_PARAM ? j->now->constant[arg->u.index] & inherited : 0;
    if (recursive && recursive >= branches && is_array(arg))
      c[i - 1] = ANFI_J_CONSTANT | ANFI_J_ADDS;
    else if (!c[i - 1] && !recursive && repeated && !(j->cx->without & ANFI_WITHOUT_SUMS) &&
             is_array(arg) && is_used_after(j, n, arg) &&
             (callee_reads_items(j, n, i) || branch_hands_on(n, i)))
      c[i - 1] = ANFI_J_ADDS;
    if (changed[i]) c[i - 1] = 0;
    for (uint32_t k = 1; c[i - 1] && k < i; k++)
      if (n->in[k].def == arg) c[i - 1] &= ANFI_J_CONSTANT;
    if (!c[i - 1] && !recursive && repeated && is_array(arg)) c[i - 1] = ANFI_J_REPEATED;
  }
  return c;
}

static void call_back(anfi_j *j, const anf_node *n, const bool *given) {
  const bool *want = anfi_flow_join_args(&j->flow, n, 1);
  const uint8_t *constant = constants(j, n);
  uint32_t branches = anfi_j_branches(n);
  bool *out = NULL;
  size_t nout = 0;
  for (uint32_t k = branches ? 1 : 0; k <= branches; k++) {
    anfi_jspec *s = ask_back(
        j, n, k, anfi_jspec_of(j, callee(n, k), want, given, constant, &j->now->plan, false));
    nout = anfi_nwant(s->jg);
    if (!out) out = ANFI_NEW_N(j->a, bool, nout + 1);
    anfi_flow_merge(out, s->flow.out, nout);
  }
  for (uint32_t k = 1; k <= branches; k++)
    anfi_flow_raise(&j->flow, &anfi_j_callee(j, n, k)->flow, out);
  use_args(j, n, 1, out);
}

/* ---- loops ---- */

/* Is `arg` an array that changes with each iteration of the loop around, while the step of an inner loop, with all that
 * it calls, only reads items of it, its parameter i? Then the inner loop saves the items: as its invariant, the array would be
 * saved whole in each iteration around. */
static bool is_read_of_state(anfi_j *j, const anf_node *arg, const anf_graph *step, size_t i) {
  if (!anfi_j_repeated(j->now) || j->now->plan.again || !is_array(arg)) return false;
  if (arg->kind == ANFI_PARAM && j->now->constant[arg->u.index] & ANFI_J_CONSTANT) return false;
  return graph_only_reads_items(j, step, (uint32_t)i);
}

/* A stack is one leaf, for all leaves of its elements. */
static size_t spread(const anf_type *t, bool on, bool *out) {
  size_t k = anfi_ad_leaves(t);
  for (size_t i = 0; i < k; i++) out[i] = on;
  return k;
}

/* By leaf of the loop's arguments: is it useful? A stack is if a leaf of its element is. */
static bool *loop_uses(anfi_j *j, const anf_node *n, const anfi_flow_loop *p, const bool *of_step,
                       const bool *given) {
  const anfi_jgraph *step = anfi_jgraph_of(j, p->l.step);
  bool *out = ANFI_NEW_N(j->a, bool, n->nin + anfi_nwant(step));
  size_t to = p->pw + p->ps;
  if (p->pw) memcpy(out, of_step, p->pw);
  if (p->ps) memcpy(out + p->pw, given, p->ps);
  for (size_t i = p->l.nw + p->l.ns; i < p->l.nw + p->l.ns + p->l.nx; i++)
    out[to++] = anfi_flow_any(of_step + step->pfirst[i], step->pfirst[i + 1] - step->pfirst[i]);
  return out;
}

static void loop_back(anfi_j *j, const anf_node *n, const bool *useful) {
  anfi_flow_loop p = anfi_flow_loop_of(&j->flow, n);
  const anfi_jgraph *step = anfi_jgraph_of(j, p.l.step);
  const anf_type *t = p.l.step->result->type;
  size_t at = p.ps;
  bool *given = ANFI_NEW_N(j->a, bool, step->nresult + 1);
  uint8_t *constant = ANFI_NEW_N(j->a, uint8_t, p.l.step->params.n + 1);
  int64_t by;
  if (p.ps) memcpy(given, useful, p.ps);
  for (size_t i = 0; i < p.l.nout; i++)
    at += spread(t->items[t->n - p.l.nout + i], useful[p.ps + i], given + at);
  for (size_t i = 0; i < p.l.nw; i++) {
    constant[i] = ANFI_J_CONSTANT | ANFI_J_ADDS;
    if (is_read_of_state(j, n->in[p.l.first_w + i].def, p.l.step, i)) constant[i] = ANFI_J_ADDS;
  }
  for (size_t i = 0; i < p.l.ns; i++)
    if (anfi_loop_counts(&p.l, i, &by)) constant[p.l.nw + i] = ANFI_J_CONSTANT;
  anfi_jplan plan = j->now->plan;
  plan.again = false;
  anfi_jspec *s;
  do {
    s = anfi_jspec_of(j, p.l.step, p.in, given, constant, &plan, true);
    anfi_flow_use(&j->flow, &s->flow);
  } while (anfi_flow_merge(given, s->flow.out + p.pw, p.ps));
  use_args(j, n, p.l.first_w, loop_uses(j, n, &p, ask_back(j, n, 0, s)->flow.out, given));
}

/* ---- calls with rules of their own ---- */

/* As `constants`, of the parameters of a rule: data, arguments, tangents. The tangents are zeros, so that none is a constant. */
static uint8_t *rule_constants(anfi_j *j, const anf_node *n, const anfi_jrule *r) {
  uint8_t *c = ANFI_NEW_N(j->a, uint8_t, r->g->params.n);
  bool repeated = anfi_j_repeated(j->now), sums = !(j->cx->without & ANFI_WITHOUT_SUMS);
  for (uint32_t i = 4; i < n->nin; i++) {
    const anf_node *arg = n->in[i].def;
    if (i == 5) continue;
    uint8_t is = arg->kind == ANFI_PARAM ? j->now->constant[arg->u.index] : 0;
    c[i == 4 ? 0 : i - 5] = is & ANFI_J_CONSTANT;
    if (i == 4 || !repeated || !is_array(arg)) continue;
    uint32_t t = (uint32_t)r->tangent + i - 6;
    readings all = {0};
    note_reading(j, &all, r->g, t);
    bool adds = sums && (is & ANFI_J_ADDS || is_used_after(j, n, arg)) && any_reads_items(j, &all);
    for (uint32_t k = 6; k < i; k++) adds &= n->in[k].def != arg;
    c[t] = adds ? ANFI_J_ADDS : ANFI_J_REPEATED;
    if (!c[i - 5]) c[i - 5] = ANFI_J_REPEATED;
  }
  return c;
}

/* The rule of a CustomJvp is linear in the tangents, so its pullback for them is the pullback of the call. */
static void custom_back(anfi_j *j, const anf_node *n, const bool *given) {
  const anfi_jrule *r = anfi_j_rule(j, n);
  for (uint32_t i = 3; i < (r ? 6 : n->nin); i++) use_all(j, n->in[i].def);
  if (!r) return;
  anfi_jgraph *jg = anfi_jgraph_of(j, r->g);
  size_t ny = anfi_ad_leaves(r->g->result->type->items[0]), first = jg->pfirst[r->tangent];
  bool *want = ANFI_NEW_N(j->a, bool, anfi_nwant(jg) + 1),
       *dy = ANFI_NEW_N(j->a, bool, jg->nresult + 1), *at = want + first;
  for (uint32_t i = 6; i < n->nin; i++) {
    size_t k = anfi_count(j, n->in[i].def);
    if (k) memcpy(at, anfi_varied(j, n->in[i].def), k * sizeof *at);
    at += k;
  }
  if (jg->nresult > ny) memcpy(dy + ny, given, jg->nresult - ny);
  const uint8_t *constant = r->effects ? NULL : rule_constants(j, n, r);
  anfi_jspec *s =
      ask_back(j, n, 0, anfi_jspec_of(j, r->g, want, dy, constant, &j->now->plan, false));
  use_args(j, n, 6, s->flow.out + first);
}

static size_t size_attr(const anfi_j *j, const anf_node *n, uint32_t k) {
  return (size_t)anfi_get_i64(anfi_attr_value(j->cx, ANF_OP_Recompute, n->u.attrs, k), 0);
}

/* An inner checkpoint without `rounds` and `memory` inherits them. */
anfi_jplan anfi_plan_of(const anfi_j *j, const anf_node *n, bool *arguments) {
  const char *keep = anfi_attr_value(j->cx, ANF_OP_Recompute, n->u.attrs, 0)->u.text;
  anfi_jplan p = {
      .rounds = size_attr(j, n, 1), .memory = size_attr(j, n, 2), .tree = size_attr(j, n, 3) != 0};
  if (!p.rounds && !p.memory) p = j->now->plan;
  p.products = strcmp(keep, "products") == 0;
  *arguments = strcmp(keep, "arguments") == 0;
  p.again = *arguments || j->now->plan.again;
  return p;
}

static void recompute_back(anfi_j *j, const anf_node *n, const bool *given) {
  bool arguments;
  anfi_jplan plan = anfi_plan_of(j, n, &arguments);
  anfi_jspec *s = anfi_jspec_of(j, callee(n, 0), anfi_flow_join_args(&j->flow, n, 1), given,
                                constants(j, n), &plan, false);
  use_args(j, n, 1, ask_back(j, n, 0, s)->flow.out);
}

/* ---- single nodes ---- */

static bool is_choice_of_data(const anf_node *n) {
  return (n->op == ANF_OP_Switch || n->op == ANF_OP_SwitchLayer) && n->type &&
         !anfi_value_graph(n->in[1].def);
}

static void back(anfi_j *j, const anf_node *n, const bool *useful, size_t nout) {
  if (n->kind == ANFI_CALL) {
    call_back(j, n, useful);
    return;
  }
  const anfi_flow_from *from;
  switch (n->op) {
  case ANF_OP_Loop: loop_back(j, n, useful); return;
  case ANF_OP_Recompute: recompute_back(j, n, useful); return;
  case ANF_OP_Custom: custom_back(j, n, useful); return;
  case ANF_OP_Box:
  case ANF_OP_Unbox:
  case ANF_OP_ResidualAdd:
    for (uint32_t i = 0; i < n->nin; i++) use_all(j, n->in[i].def);
    return;
  default: break;
  }
  if (is_choice_of_data(n)) {
    for (uint32_t k = 1; k < n->nin; k++)
      for (size_t i = 0; i < nout; i++)
        if (useful[i]) use(j, n->in[k].def, i);
    return;
  }
  if ((from = anfi_flow_parts(&j->flow, n))) {
    for (size_t i = 0; i < nout; i++)
      if (useful[i]) use(j, n->in[from[i].in].def, from[i].part);
    return;
  }
  for (uint32_t i = 0; i < n->nin; i++)
    if (!anfi_ad_is_inactive(j->ad, (anfi_opcode)n->op, i)) use_all(j, n->in[i].def);
}

/* ---- a whole spec ---- */

/* A cleared mask of n leaves; reuses the old one. */
static bool *cleared(anfi_j *j, bool *old, size_t n) {
  return old ? memset(old, 0, n) : ANFI_NEW_N(j->a, bool, n + 1);
}

void anfi_j_reload(anfi_j *j, anfi_jspec *s) {
  j->now = s;
  j->flow.now = s ? &s->flow : NULL;
  j->varied = s ? s->varied : NULL;
  j->useful = s ? s->useful : NULL;
}

/* From the node where the walk waited. False: it waits for specs that a node asked for first. */
static bool visit_backward(anfi_j *j, anfi_jspec *s) {
  const anfi_jgraph *jg = s->jg;
  size_t end = jg->order.n, asked = j->flow.asked;
  if (s->flow.visited == end) {
    s->callees.n = 0;
    j->useful = s->useful = cleared(j, s->useful, jg->first[end]);
    for (size_t i = 0; i < jg->nresult; i++)
      if (s->given[i]) use(j, jg->g->result, i);
  }
  j->useful = s->useful;
  for (; s->flow.visited < 2 * end; s->flow.visited++) {
    size_t i = 2 * end - 1 - s->flow.visited, first = jg->first[i], n = jg->first[i + 1] - first;
    size_t callees = s->callees.n;
    if (jg->taped[i]) {
      if (j->useful[first]) anfi_tape_useful(j, jg, i);
    } else if (anfi_flow_any(j->useful + first, n)) {
      back(j, jg->order.at[i], j->useful + first, n);
      if (j->flow.asked != asked) return s->callees.n = callees, false;
    }
  }
  return true;
}

/* The varied mask of an earlier spec with the same `want`; calls alone could change it. */
static const bool *known_row(const anfi_jspec *s) {
  const anfi_jgraph *jg = s->jg;
  for (const anfi_jspec *v = jg->all_taped && s->given ? jg->specs : NULL; v; v = v->next)
    if (!v->given && v->varied && memcmp(v->flow.in, s->flow.in, anfi_nwant(jg)) == 0)
      return v->varied - anfi_node_slot(jg);
  return NULL;
}

static bool visit_forward(anfi_j *j, anfi_jspec *s, const bool *row) {
  const anfi_jgraph *jg = s->jg;
  size_t asked = j->flow.asked;
  for (; s->flow.visited < jg->order.n; s->flow.visited++) {
    size_t i = s->flow.visited;
    bool *out = j->varied + jg->first[i];
    if (jg->taped[i]) anfi_tape_varied(&jg->tape[i], row, out);
    else if (jg->first[i + 1] > jg->first[i])
      anfi_flow_forward(&j->flow, jg->order.at[i], jg->first[i + 1] - jg->first[i], out);
    if (j->flow.asked != asked) return false;
  }
  return true;
}

/* The masks at the start of a visit. */
static void begin_visit(anfi_j *j, anfi_jspec *s) {
  const anfi_jgraph *jg = s->jg;
  size_t nwant = anfi_nwant(jg), slots = anfi_node_slot(jg) + jg->first[jg->order.n];
  bool *row = cleared(j, s->varied ? s->varied - anfi_node_slot(jg) : NULL, slots);
  if (nwant) memcpy(row + 1, s->flow.in, nwant);
  s->varied = row + anfi_node_slot(jg);
  const bool *known = known_row(s);
  if (!known) return;
  if (slots) memcpy(row, known, slots);
  s->flow.visited = jg->order.n;
}

bool anfi_j_visit(anfi_flow *f, anfi_flow_spec *spec) {
  anfi_j *j = (anfi_j *)f;
  anfi_jspec *s = (anfi_jspec *)spec;
  const anfi_jgraph *jg = s->jg;
  size_t nout = spec->nout;
  if (!s->before) s->before = ANFI_NEW_N(j->a, bool, nout + 1);
  if (!spec->visited) begin_visit(j, s);
  anfi_j_reload(j, s);
  if (spec->visited < jg->order.n && !visit_forward(j, s, s->varied - anfi_node_slot(jg)))
    return false;
  if (s->given && !visit_backward(j, s)) return false; // raises the mask of the parameters
  if (!s->given) anfi_flow_merge(spec->out, anfi_varied(j, jg->g->result), nout);
  spec->visited = 0;
  if (anfi_flow_merge(s->before, spec->out, nout)) anfi_flow_rose(f, spec);
  return true;
}
