// SPDX-License-Identifier: Apache-2.0
/* Activity analysis: which leaves are varied, and which of those are useful.
 *   f(x, n, w) = x * cos(w) + n,  gradient for x:    varied x, x * cos(w), the sum; useful the same
 *   gradient for w:                                  varied w, cos(w), ...; n and x have no adjoint
 * A spec is visited node by node, forward for `varied` and backward for `useful`. The masks of callees are
 * those found so far; when one rises, the specs that use it are queued again: a worklist to a least fixpoint,
 * as in Tapenade (Hascoet, Naumann, Pascual 2005). Masks only rise, so it ends.
 *
 * A visit waits for the callees that it asks for first, so that it goes on with their masks, not with none: otherwise
 * chains of calls would be asked for with all masks on the way to the last ones.
 *
 * Hard case: the branches of one choice are raised to one mask, because their ◀ share one signature; the
 * state of a loop is raised until one iteration maps the mask to itself. */
#include "autodiff/reverse/j.h"

bool anfi_any(const bool *m, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (m[i]) return true;
  return false;
}

static bool merge(bool *to, const bool *from, size_t n) {
  bool rose = false;
  for (size_t i = 0; i < n; i++) {
    rose |= from[i] && !to[i];
    to[i] |= from[i];
  }
  return rose;
}

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
  return mask_of(j, j->varied, j->now->want, n);
}

const bool *anfi_useful(anfi_j *j, const anf_node *n) {
  return mask_of(j, j->useful, j->now->out, n);
}

/* Leaf k of n has an adjoint, if it is varied. */
static bool use(anfi_j *j, const anf_node *n, size_t k) {
  if (n->kind == ANFI_VALUE || !anfi_varied(j, n)[k]) return false;
  bool *at = mask_of(j, j->useful, j->now->out, n) + k, rose = !*at;
  *at = true;
  return rose;
}

static void use_all(anfi_j *j, const anf_node *n) {
  for (size_t i = anfi_count(j, n); i-- > 0;) use(j, n, i);
}

uint16_t anfi_inactive_inputs(anfi_j *j, anfi_opcode op) {
  unsigned bits = 1;
  for (size_t k = 0; k < ANFI_J_INPUTS; k++)
    if (anfi_derivative_of(j->cx, op, k) == ANFI_DERIVATIVE_ZERO) bits |= 2u << k;
  return j->inactive[op] = (uint16_t)bits;
}

/* ---- calls ---- */

uint32_t anfi_j_branches(const anf_node *call) {
  const anf_node *c = call->in[0].def;
  if (call->kind != ANFI_CALL || c->kind == ANFI_VALUE) return 0;
  return c->nin - 1u;
}

static anf_graph *callee(const anf_node *n, uint32_t branch) {
  return anfi_value_graph(branch ? n->in[0].def->in[branch].def : n->in[0].def);
}

static bool *join_args(anfi_j *j, const anf_node *n, size_t from) {
  size_t total = 0, at = 0;
  for (size_t i = from; i < n->nin; i++) total += anfi_count(j, n->in[i].def);
  bool *m = ANFI_NEW_N(j->a, bool, total + 1);
  for (size_t i = from; i < n->nin; i++) {
    size_t k = anfi_count(j, n->in[i].def);
    if (k) memcpy(m + at, anfi_varied(j, n->in[i].def), k);
    at += k;
  }
  return m;
}

static void use_args(anfi_j *j, const anf_node *n, size_t from, const bool *out) {
  for (size_t i = from; i < n->nin; i++) {
    size_t k = anfi_count(j, n->in[i].def);
    for (size_t l = 0; l < k; l++)
      if (out[l]) use(j, n->in[i].def, l);
    out += k;
  }
}

static anfi_jspec *ask(anfi_j *j, anfi_jspec *s) {
  bool known = false;
  for (size_t i = s->users.n; !known && i-- > 0;) known = s->users.at[i] == j->now;
  if (!known) anfi_push(j->a, &s->users, j->now);
  return s;
}

static anfi_jspec *ask_back(anfi_j *j, const anf_node *n, uint32_t branch, anfi_jspec *s) {
  anfi_push(j->a, &j->now->callees, ((anfi_jcallee){j->local.at[n->id], branch, s}));
  return ask(j, s);
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

static void raise_out(anfi_j *j, anfi_jspec *s, const bool *out, size_t n) {
  if (!merge(s->out, out, n)) return;
  for (size_t i = 0; i < s->users.n; i++) anfi_j_enqueue(j, s->users.at[i]);
}

static void call_forward(anfi_j *j, const anf_node *n, bool *out) {
  const bool *want = join_args(j, n, 1);
  uint32_t branches = anfi_j_branches(n);
  for (uint32_t k = branches ? 1 : 0; k <= branches; k++) {
    const anfi_jspec *s = ask(j, anfi_jspec_of(j, callee(n, k), want, NULL, NULL, NULL, false));
    merge(out, s->out, s->jg->nresult);
  }
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

/* Does the use take items out of an array? Otherwise notes what it passes the array to. */
static bool reads_items(anfi_j *j, readings *all, const anfi_use *u) {
  const anf_node *n = u->user;
  uint32_t input = 0;
  while (&n->in[input] != u) input++;
  if (n->kind == ANFI_APPLY && n->op == ANF_OP_Loop) return true;
  if (n->kind == ANFI_APPLY)
    return input == 0 && anfi_op[n->op].lower == ANFI_LOWER_INDEX_MAP && n->type &&
           n->type->kind == ANF_TYPE_TENSOR && n->type->n < u->def->type->n;
  uint32_t branches = n->kind == ANFI_CALL ? anfi_j_branches(n) : 0;
  for (uint32_t k = branches ? 1 : 0; input && n->kind == ANFI_CALL && k <= branches; k++)
    note_reading(j, all, callee(n, k), input - 1);
  return false;
}

/* Does a useful node after n use x? Then the adjoint of x has terms when the backward sweep comes to n. */
static bool is_used_after(anfi_j *j, const anf_node *n, const anf_node *x) {
  for (const anfi_use *u = x->uses; u; u = u->next)
    if (u->user->graph == n->graph && j->local.at[u->user->id] > j->local.at[n->id] &&
        anfi_any(anfi_useful(j, u->user), anfi_count(j, u->user)))
      return true;
  return x == n->graph->result;
}

/* Does a callee read input i of n, an array, by index? Then it adds to the array's adjoint so far, in place. */
static bool callee_reads_items(anfi_j *j, const anf_node *n, uint32_t i) {
  enum { MOST = 64 };
  uint32_t branches = anfi_j_branches(n);
  readings all = {0};
  for (uint32_t k = branches ? 1 : 0; k <= branches; k++)
    note_reading(j, &all, callee(n, k), i - 1);
  for (size_t at = 0; at < all.n && at < MOST; at++)
    for (const anfi_use *u = all.at[at].g->params.at[all.at[at].param]->uses; u; u = u->next)
      if (reads_items(j, &all, u)) return true;
  return false;
}

bool anfi_j_repeated(const anfi_jspec *s) {
  bool adds = s->splice;
  for (size_t i = 0; i < s->jg->g->params.n; i++) adds |= (s->constant[i] & ANFI_J_ADDS) != 0;
  return adds;
}

/* Arguments that are constants of the callees: those that are constants here, and arrays that a recursion passes on
 * unchanged. In an iteration, callees also add to the adjoints of arrays that they read by index. An argument passed twice
 * sums its adjoint at the first one. */
static uint8_t *constants(anfi_j *j, const anf_node *n) {
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
    c[i - 1] = arg->kind == ANFI_PARAM ? j->now->constant[arg->u.index] : 0;
    if (recursive && recursive >= branches && is_array(arg))
      c[i - 1] = ANFI_J_CONSTANT | ANFI_J_ADDS;
    else if (!c[i - 1] && !recursive && repeated && !(j->cx->without & ANFI_WITHOUT_SUMS) &&
             is_array(arg) && is_used_after(j, n, arg) && callee_reads_items(j, n, i))
      c[i - 1] = ANFI_J_ADDS;
    if (changed[i]) c[i - 1] = 0;
    for (uint32_t k = 1; c[i - 1] && k < i; k++)
      if (n->in[k].def == arg) c[i - 1] &= ANFI_J_CONSTANT;
  }
  return c;
}

static void call_back(anfi_j *j, const anf_node *n, const bool *given) {
  const bool *want = join_args(j, n, 1);
  const uint8_t *constant = constants(j, n);
  uint32_t branches = anfi_j_branches(n);
  bool *out = NULL;
  size_t nout = 0;
  for (uint32_t k = branches ? 1 : 0; k <= branches; k++) {
    anfi_jspec *s = ask_back(
        j, n, k, anfi_jspec_of(j, callee(n, k), want, given, constant, &j->now->plan, false));
    nout = anfi_nwant(s->jg);
    if (!out) out = ANFI_NEW_N(j->a, bool, nout + 1);
    merge(out, s->out, nout);
  }
  for (uint32_t k = 1; k <= branches; k++) raise_out(j, anfi_j_callee(j, n, k), out, nout);
  use_args(j, n, 1, out);
}

/* ---- loops ---- */

/* An array of an iteration that changes from one to the next, of which a step of an inner loop reads items alone: the inner
 * loop saves the items. As its invariant the array would be saved whole in each iteration outside. */
static bool is_read_of_state(anfi_j *j, const anf_node *arg, const anf_node *p) {
  readings none = {0};
  if (!j->now->splice || !is_array(arg)) return false;
  if (arg->kind == ANFI_PARAM && j->now->constant[arg->u.index] & ANFI_J_CONSTANT) return false;
  for (const anfi_use *u = p->uses; u; u = u->next)
    if (u->user->kind != ANFI_APPLY || u->user->op == ANF_OP_Loop || !reads_items(j, &none, u))
      return false;
  return true;
}

/* A stack is one leaf, for all leaves of its elements. */
static size_t spread(const anf_type *t, bool on, bool *out) {
  size_t k = anfi_ad_leaves(t);
  for (size_t i = 0; i < k; i++) out[i] = on;
  return k;
}

anfi_jloop anfi_jloop_of(anfi_j *j, const anf_node *n) {
  anfi_jloop p = {.l = anfi_loop_parts(n)};
  p.step = anfi_jgraph_of(j, p.l.step);
  p.again = !p.l.counted;
  p.in = ANFI_NEW_N(j->a, bool, anfi_nwant(p.step) + 1);
  for (size_t i = 0; i < p.l.nw + p.l.ns + p.l.nx; i++) {
    const anf_node *arg = n->in[p.l.first_w + i].def;
    bool *at = p.in + p.step->pfirst[i];
    size_t k = anfi_count(j, arg);
    if (i >= p.l.nw + p.l.ns) spread(p.l.step->params.at[i]->type, anfi_varied(j, arg)[0], at);
    else if (k) memcpy(at, anfi_varied(j, arg), k);
  }
  size_t from = p.step->pfirst[p.l.nw], ns = p.step->pfirst[p.l.nw + p.l.ns] - from;
  const anfi_jspec *s;
  do s = ask(j, anfi_jspec_of(j, p.l.step, p.in, NULL, NULL, NULL, false));
  while (merge(p.in + from, s->out, ns)); // `again` has no leaf
  return p;
}

static size_t state_leaves(const anfi_jloop *p) {
  return p->step->pfirst[p->l.nw + p->l.ns] - p->step->pfirst[p->l.nw];
}

static const anf_type *out_type(const anfi_jloop *p, size_t i) {
  return p->l.step->result->type->items[p->again + p->l.ns + i];
}

static void loop_forward(anfi_j *j, const anf_node *n, bool *out) {
  anfi_jloop p = anfi_jloop_of(j, n);
  size_t ns = state_leaves(&p);
  const bool *got = anfi_jspec_of(j, p.l.step, p.in, NULL, NULL, NULL, false)->out + ns;
  memcpy(out, p.in + p.step->pfirst[p.l.nw], ns);
  for (size_t i = 0; i < p.l.nout; i++) {
    size_t k = anfi_ad_leaves(out_type(&p, i));
    out[ns + i] = anfi_any(got, k);
    got += k;
  }
}

static void loop_back(anfi_j *j, const anf_node *n, const bool *useful) {
  anfi_jloop p = anfi_jloop_of(j, n);
  size_t ns = state_leaves(&p), from = p.step->pfirst[p.l.nw], at = ns;
  bool *given = ANFI_NEW_N(j->a, bool, p.step->nresult + 1);
  uint8_t *constant = ANFI_NEW_N(j->a, uint8_t, p.l.step->params.n + 1);
  int64_t by;
  memcpy(given, useful, ns);
  for (size_t i = 0; i < p.l.nout; i++) at += spread(out_type(&p, i), useful[ns + i], given + at);
  for (size_t i = 0; i < p.l.nw; i++) {
    constant[i] = ANFI_J_CONSTANT | ANFI_J_ADDS;
    if (is_read_of_state(j, n->in[p.l.first_w + i].def, p.l.step->params.at[i]))
      constant[i] = ANFI_J_ADDS;
  }
  for (size_t i = 0; i < p.l.ns; i++)
    if (anfi_loop_counts(&p.l, i, &by)) constant[p.l.nw + i] = ANFI_J_CONSTANT;
  anfi_jspec *s;
  do s = ask(j, anfi_jspec_of(j, p.l.step, p.in, given, constant, &j->now->plan, true));
  while (merge(given, s->out + from, ns));
  ask_back(j, n, 0, s);
  bool *out = ANFI_NEW_N(j->a, bool, n->nin + anfi_nwant(p.step)), *to = out;
  for (size_t i = 0; i < p.l.nw + p.l.ns + p.l.nx; i++) {
    size_t k = p.step->pfirst[i + 1] - p.step->pfirst[i];
    if (i >= p.l.nw + p.l.ns) *to++ = anfi_any(s->out + p.step->pfirst[i], k);
    for (size_t l = 0; i < p.l.nw + p.l.ns && l < k; l++) {
      size_t leaf = p.step->pfirst[i] + l;
      *to++ = i < p.l.nw ? s->out[leaf] : given[leaf - from];
    }
  }
  use_args(j, n, p.l.first_w, out);
}

/* ---- calls with rules of their own ---- */

static bool is_jvp_rule(anfi_j *j, const anf_node *n) {
  return strcmp(anfi_attr_value(j->cx, ANF_OP_Custom, n->u.attrs, 0)->u.text, "jvp") == 0;
}

static bool any_varied(anfi_j *j, const anf_node *n, size_t from) {
  for (size_t i = from; i < n->nin; i++)
    if (anfi_any(anfi_varied(j, n->in[i].def), anfi_count(j, n->in[i].def))) return true;
  return false;
}

/* The rule of a CustomJvp is linear in the tangents, so its pullback for them is the pullback of the call. */
static void custom_back(anfi_j *j, const anf_node *n, const bool *given) {
  for (uint32_t i = 3; i < n->nin; i++) use_all(j, n->in[i].def);
  if (!is_jvp_rule(j, n)) return;
  anf_graph *rule = anfi_value_graph(n->in[1].def);
  anfi_jgraph *jg = anfi_jgraph_of(j, rule);
  size_t ny = anfi_ad_leaves(rule->result->type->items[0]);
  bool *want = ANFI_NEW_N(j->a, bool, anfi_nwant(jg) + 1),
       *dy = ANFI_NEW_N(j->a, bool, jg->nresult + 1);
  for (size_t i = jg->pfirst[2]; i < jg->pfirst[3]; i++) want[i] = true;
  memcpy(dy + ny, given, jg->nresult - ny);
  ask_back(j, n, 0, anfi_jspec_of(j, rule, want, dy, NULL, &j->now->plan, false));
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
  return p;
}

static void recompute_back(anfi_j *j, const anf_node *n, const bool *given) {
  bool arguments;
  anfi_jplan plan = anfi_plan_of(j, n, &arguments);
  anfi_jspec *s = anfi_jspec_of(j, callee(n, 0), join_args(j, n, 1), given, NULL, &plan, false);
  use_args(j, n, 1, ask_back(j, n, 0, s)->out);
}

/* ---- single nodes ---- */

static bool is_choice_of_data(const anf_node *n) {
  return (n->op == ANF_OP_Switch || n->op == ANF_OP_SwitchLayer) && n->type &&
         !anfi_value_graph(n->in[1].def);
}

static void spread_forward(anfi_j *j, const anf_node *n, bool *out, size_t nout) {
  bool some = false;
  for (uint32_t i = 0; !some && i < n->nin; i++)
    some = !anfi_is_inactive(j, (anfi_opcode)n->op, i) &&
           anfi_any(anfi_varied(j, n->in[i].def), anfi_count(j, n->in[i].def));
  if (some) memset(out, true, nout);
}

static void forward(anfi_j *j, const anf_node *n, bool *out, size_t nout) {
  if (!nout) return;
  if (n->kind == ANFI_CALL) {
    call_forward(j, n, out);
    return;
  }
  const anfi_flow_from *from;
  switch (n->op) {
  case ANF_OP_Undef:
  case ANF_OP_ResidualZeros: return;
  case ANF_OP_Loop: loop_forward(j, n, out); return;
  case ANF_OP_Recompute: {
    anfi_jspec *s = anfi_jspec_of(j, callee(n, 0), join_args(j, n, 1), NULL, NULL, NULL, false);
    memcpy(out, ask(j, s)->out, nout);
    return;
  }
  case ANF_OP_Custom: memset(out, any_varied(j, n, 3), nout); return;
  case ANF_OP_Box:
  case ANF_OP_Unbox:
  case ANF_OP_ResidualAdd: memset(out, any_varied(j, n, 0), nout); return;
  default: break;
  }
  if (is_choice_of_data(n)) {
    for (uint32_t k = 1; k < n->nin; k++) merge(out, anfi_varied(j, n->in[k].def), nout);
    return;
  }
  if (!(from = anfi_flow_parts(&j->parts, n))) {
    spread_forward(j, n, out, nout);
    return;
  }
  for (size_t i = 0; i < nout; i++) out[i] = anfi_varied(j, n->in[from[i].in].def)[from[i].part];
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
  if ((from = anfi_flow_parts(&j->parts, n))) {
    for (size_t i = 0; i < nout; i++)
      if (useful[i]) use(j, n->in[from[i].in].def, from[i].part);
    return;
  }
  for (uint32_t i = 0; i < n->nin; i++)
    if (!anfi_is_inactive(j, (anfi_opcode)n->op, i)) use_all(j, n->in[i].def);
}

/* ---- a whole spec ---- */

/* A cleared mask of n leaves; reuses the old one. */
static bool *cleared(anfi_j *j, bool *old, size_t n) {
  return old ? memset(old, 0, n) : ANFI_NEW_N(j->a, bool, n + 1);
}

void anfi_j_reload(anfi_j *j, anfi_jspec *s) {
  j->now = s;
  j->varied = s->varied;
  j->useful = s->useful;
}

/* From the node where the walk waited. False: it waits for specs that a node asked for first. */
static bool visit_backward(anfi_j *j, anfi_jspec *s) {
  const anfi_jgraph *jg = s->jg;
  size_t end = jg->order.n, asked = j->asked;
  if (s->visited == end) {
    s->callees.n = 0;
    j->useful = s->useful = cleared(j, s->useful, jg->first[end]);
    for (size_t i = 0; i < jg->nresult; i++)
      if (s->given[i]) use(j, jg->g->result, i);
  }
  j->useful = s->useful;
  for (; s->visited < 2 * end; s->visited++) {
    size_t i = 2 * end - 1 - s->visited, first = jg->first[i], n = jg->first[i + 1] - first;
    size_t callees = s->callees.n;
    if (jg->taped[i]) {
      if (j->useful[first]) anfi_tape_useful(j, jg, i);
    } else if (anfi_any(j->useful + first, n)) {
      back(j, jg->order.at[i], j->useful + first, n);
      if (j->asked != asked) return s->callees.n = callees, false;
    }
  }
  return true;
}

/* The varied mask of an earlier spec with the same `want`; calls alone could change it. */
static const bool *known_row(const anfi_jspec *s) {
  const anfi_jgraph *jg = s->jg;
  for (const anfi_jspec *v = jg->all_taped && s->given ? jg->specs : NULL; v; v = v->next)
    if (!v->given && v->varied && memcmp(v->want, s->want, anfi_nwant(jg)) == 0)
      return v->varied - anfi_node_slot(jg);
  return NULL;
}

static bool visit_forward(anfi_j *j, anfi_jspec *s, const bool *row) {
  const anfi_jgraph *jg = s->jg;
  size_t asked = j->asked;
  for (; s->visited < jg->order.n; s->visited++) {
    size_t i = s->visited;
    bool *out = j->varied + jg->first[i];
    if (jg->taped[i]) anfi_tape_varied(&jg->tape[i], row, out);
    else forward(j, jg->order.at[i], out, jg->first[i + 1] - jg->first[i]);
    if (j->asked != asked) return false;
  }
  return true;
}

/* The masks at the start of a visit. */
static void begin_visit(anfi_j *j, anfi_jspec *s) {
  const anfi_jgraph *jg = s->jg;
  size_t nwant = anfi_nwant(jg), slots = anfi_node_slot(jg) + jg->first[jg->order.n];
  bool *row = cleared(j, s->varied ? s->varied - anfi_node_slot(jg) : NULL, slots);
  if (nwant) memcpy(row + 1, s->want, nwant);
  s->varied = row + anfi_node_slot(jg);
  const bool *known = known_row(s);
  if (!known) return;
  memcpy(row, known, slots);
  s->visited = jg->order.n;
}

bool anfi_j_visit(anfi_j *j, anfi_jspec *s) {
  const anfi_jgraph *jg = s->jg;
  size_t nwant = anfi_nwant(jg), nout = s->given ? nwant : jg->nresult;
  j->now = s;
  if (!s->visited) {
    s->before = s->before ? s->before : ANFI_NEW_N(j->a, bool, nout + 1);
    if (nout) memcpy(s->before, s->out, nout);
    begin_visit(j, s);
  }
  j->varied = s->varied;
  if (s->visited < jg->order.n && !visit_forward(j, s, s->varied - anfi_node_slot(jg)))
    return false;
  if (s->given && !visit_backward(j, s)) return false; // raises s->out, the mask of the parameters
  if (!s->given) merge(s->out, anfi_varied(j, jg->g->result), nout);
  s->visited = 0;
  for (size_t i = 0; nout && memcmp(s->before, s->out, nout) != 0 && i < s->users.n; i++)
    anfi_j_enqueue(j, s->users.at[i]);
  return true;
}
