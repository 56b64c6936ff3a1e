// SPDX-License-Identifier: Apache-2.0
/* Specs of reverse mode, and the order in which they are built: callees before callers.
 *   f(x) = g(x) + g(x * x)      g is built first; its residuals then are part of ▶f's signature
 * A depth-first walk with a stack of its own visits callees. A spec is registered before it is visited, so
 * recursions end.
 *
 * Hard case: the walk meets a spec that is still open, a call back into a recursion. There the list of
 * residuals has no finite type (it would contain itself).
 *   1. The spec is assumed to have no residuals: ◀ rematerialises all it needs from the arguments
 *      (ANFI_RESIDUALS_NONE). If that fails, all specs closed since it was opened are reopened.
 *   2. Otherwise one spec on the cycle boxes its residuals: the first one that is a branch of a choice, so
 *      that the base case of the recursion, a branch too, allocates no box.
 * Branches of a recursion with many residuals are boxed too, so a chain of functions passes one box. */
#include "autodiff/reverse/j.h"
#include "base/mark.h"

static void reserve_local(anfi_j *j) {
  size_t n = j->local.n, want = j->ad->m->nodes.n;
  if (want <= n) return;
  uint32_t *at = (uint32_t *)anfi_grow(j->a, j->local.at, n * sizeof *at, want * sizeof *at);
  memset(at + n, 0, (want - n) * sizeof *at);
  j->local.at = at;
  j->local.n = j->local.cap = want;
}

anfi_jgraph *anfi_jgraph_of(anfi_j *j, anf_graph *g) {
  anfi_jgraph *none = NULL;
  while (j->of_graph.n <= g->id) anfi_push(j->a, &j->of_graph, none);
  if (j->of_graph.at[g->id]) return j->of_graph.at[g->id];
  anfi_jgraph *jg = j->of_graph.at[g->id] = ANFI_NEW(j->a, anfi_jgraph);
  jg->g = g;
  anfi_graph_order(g, j->a, &jg->order);
  jg->first = ANFI_NEW_N(j->a, uint32_t, jg->order.n + 1);
  jg->taped = ANFI_NEW_N(j->a, bool, jg->order.n + 1);
  jg->pfirst = ANFI_NEW_N(j->a, uint32_t, g->params.n + 1);
  reserve_local(j);
  anfi_graph_reads_first(j->cx, j->a, g, jg->order.at, jg->order.n, j->local.at);
  for (size_t i = 0; i < g->params.n; i++)
    jg->pfirst[i + 1] = jg->pfirst[i] + (uint32_t)anfi_count(j, g->params.at[i]);
  anfi_tape_record(j, jg);
  jg->nresult = (uint32_t)anfi_count(j, g->result);
  return jg;
}

static bool *copy(anfi_j *j, const bool *m, size_t n) {
  bool *c = ANFI_NEW_N(j->a, bool, n + 1);
  if (m && n) memcpy(c, m, n);
  return c;
}

static bool same(const bool *a, const bool *b, size_t n) { // b NULL: all false
  return b ? !n || memcmp(a, b, n) == 0 : !anfi_flow_any(a, n);
}

static bool same_flags(const uint8_t *a, const uint8_t *b, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (a[i] != (b ? b[i] : 0)) return false;
  return true;
}

static bool same_plan(const anfi_jplan *a, const anfi_jplan *b) {
  return a->products == b->products && a->tree == b->tree && a->rounds == b->rounds &&
         a->memory == b->memory && a->again == b->again;
}

static bool is_spec(const anfi_jspec *s, const anfi_jfamily *family, const bool *want,
                    const bool *given, const uint8_t *constant, const anfi_jplan *plan,
                    bool splice) {
  return same_plan(&s->plan, plan) && s->family == family &&
         (family || same(s->flow.in, want, anfi_nwant(s->jg))) && !s->given == !given &&
         s->splice == splice && (!given || same(s->given, given, s->jg->nresult)) &&
         same_flags(s->constant, constant, s->jg->g->params.n);
}

/* The family of a spec of g requested by `now`, or from outside. */
static anfi_jfamily *family_of(anfi_j *j, const anfi_jgraph *jg, const bool *want) {
  anf_graph *g = jg->g;
  if (!anfi_recursion_invariants(j, g) || !anfi_flow_any(want, anfi_nwant(jg))) return NULL;
  if (j->now && j->now->family && anfi_same_recursion(j, j->now->jg->g, g)) return j->now->family;
  for (anfi_jfamily *f = j->families; f; f = f->next)
    if (f->entry == g && same(f->want, want, anfi_nwant(jg))) return f;
  anfi_jfamily *f = ANFI_NEW(j->a, anfi_jfamily);
  f->entry = g;
  f->want = copy(j, want, anfi_nwant(jg));
  anfi_map_init(&f->masks, j->a);
  f->next = j->families;
  return j->families = f;
}

/* The join of `want` over all calls in the family. */
static bool *mask_in(anfi_j *j, anfi_jfamily *f, const anfi_jgraph *jg, const bool *want) {
  uint64_t *at = anfi_map_at(&f->masks, jg->g->id);
  size_t n = anfi_nwant(jg);
  if (!*at) *at = anfi_key(copy(j, want, n));
  bool *mask = (bool *)(uintptr_t)*at;
  bool rose = anfi_flow_merge(mask, want, n);
  for (anfi_jspec *s = rose ? jg->specs : NULL; s; s = s->next)
    if (s->family == f) anfi_flow_enqueue(&j->flow, &s->flow);
  return mask;
}

static bool any_repeated(const uint8_t *constant, size_t n) {
  bool repeated = false;
  for (size_t i = 0; constant && i < n; i++)
    repeated |= (constant[i] & (ANFI_J_ADDS | ANFI_J_REPEATED)) != 0;
  return repeated;
}

bool anfi_j_repeated(const anfi_jspec *s) {
  return s->splice || any_repeated(s->constant, s->jg->g->params.n);
}

anfi_jspec *anfi_jspec_of(anfi_j *j, anf_graph *g, const bool *want, const bool *given,
                          const uint8_t *constant, const anfi_jplan *of, bool splice) {
  anfi_jgraph *jg = anfi_jgraph_of(j, g);
  anfi_jfamily *family = family_of(j, jg, want);
  bool *mask = family ? mask_in(j, family, jg, want) : NULL;
  anfi_jplan plan = of ? *of : (anfi_jplan){0};
  plan.again &= any_repeated(constant, g->params.n); // else it makes no difference
  for (anfi_jspec *s = jg->specs; s; s = s->next)
    if (is_spec(s, family, want, given, constant, &plan, splice)) return s;
  anfi_jspec *s = ANFI_NEW(j->a, anfi_jspec);
  size_t nwant = anfi_nwant(jg);
  s->jg = jg;
  s->family = family;
  s->flow.graph = g;
  s->flow.nin = nwant;
  s->flow.nout = given ? nwant : jg->nresult;
  s->flow.in = family ? mask : copy(j, want, nwant);
  s->given = given ? copy(j, given, jg->nresult) : NULL;
  s->constant = ANFI_NEW_N(j->a, uint8_t, g->params.n + 1);
  if (constant && g->params.n) memcpy(s->constant, constant, g->params.n);
  s->plan = plan;
  s->splice = splice;
  s->flow.out = ANFI_NEW_N(j->a, bool, s->flow.nout + 1);
  s->next = jg->specs;
  jg->specs = s;
  j->flow.asked++;
  anfi_flow_enqueue(&j->flow, &s->flow);
  return s;
}

/* ---- callees first ---- */

typedef struct {
  anfi_jspec *spec;
  size_t next;
  size_t done; // specs that were done when it was entered
  bool branch; // of a choice
} visit;
typedef ANFI_VEC(visit) visits;

enum { AGAIN = 1000 }; // reopened specs, beyond which no more are tried

static void enter(anfi_j *j, visits *st, anfi_jspec *s, bool branch) {
  anfi_ad *ad = j->ad;
  s->state = ANFI_J_OPEN;
  s->in_choice = branch;
  ad->how = anfi_debug_derive(ad->m, s->jg->g->debug, "gradient of");
  s->fwd = anfi_graph_beside(s->jg->g, ANFI_FORWARD);
  s->bwd = anfi_graph_beside(s->jg->g, ANFI_BACKWARD);
  j->trying += s->how == ANFI_RESIDUALS_NONE;
  anfi_push(j->a, st, ((visit){s, 0, j->done.n, branch}));
}

/* Reopens all specs entered since visit `from`. */
static void abandon(anfi_j *j, visits *st, size_t from) {
  for (size_t i = st->at[from].done; i < j->done.n; i++) j->done.at[i]->state = ANFI_J_NEW;
  j->abandoned += j->done.n - st->at[from].done + st->n - from;
  j->done.n = st->at[from].done;
  for (size_t i = from; i < st->n; i++) {
    anfi_jspec *s = st->at[i].spec;
    j->trying -= s->how == ANFI_RESIDUALS_NONE;
    if (s->how == ANFI_RESIDUALS_NONE) s->how = ANFI_RESIDUALS_LIST;
    s->state = ANFI_J_NEW;
  }
  st->n = from;
  if (from) st->at[from - 1].next--; // it visits its callee again, which may be done by then
}

static void pass_all(anfi_j *j, anfi_jspec *s) {
  size_t np = s->jg->g->params.n;
  s->passed = ANFI_NEW_N(j->a, bool, np + 1);
  memset(s->passed, true, np);
}

static void box_residuals(anfi_j *j, anfi_jspec *s, bool branch) {
  s->how = branch && !s->splice ? ANFI_RESIDUALS_BOX_ARGS : ANFI_RESIDUALS_BOX;
  if (s->how == ANFI_RESIDUALS_BOX_ARGS) pass_all(j, s);
}

/* A recursion comes back to c: a branch on the cycle boxes its residuals and is built before c. */
static void box(anfi_j *j, visits *st, anfi_jspec *c) {
  size_t from = st->n, branch;
  while (st->at[--from].spec != c) continue;
  for (branch = from; branch < st->n && !st->at[branch].branch; branch++) continue;
  if (branch == st->n || branch == from || j->abandoned > AGAIN) {
    box_residuals(j, c, branch == from);
    return;
  }
  anfi_jspec *s = st->at[branch].spec;
  abandon(j, st, from);
  box_residuals(j, s, true);
  enter(j, st, s, true);
}

/* A call back into c, which is under way. */
static void meet(anfi_j *j, visits *st, anfi_jspec *c) {
  if (c->how != ANFI_RESIDUALS_LIST) return;
  bool none = !c->splice && !c->refused && !c->plan.products && !c->plan.rounds && !c->plan.memory;
  if (!none) {
    box(j, st, c);
    return;
  }
  c->how = ANFI_RESIDUALS_NONE;
  j->trying++;
  pass_all(j, c);
}

/* The top visit is done. Does s have residuals after all? */
static bool fails(anfi_j *j, anfi_jspec *s, size_t done) {
  s->state = ANFI_J_DONE;
  bool none = s->how == ANFI_RESIDUALS_NONE;
  j->trying -= none;
  if (!none || !s->nresidual) {
    anfi_push(j->a, &j->done, s);
    return false;
  }
  for (size_t i = done; i < j->done.n; i++) {
    j->done.at[i]->state = ANFI_J_NEW;
    j->done.at[i]->refused |= j->done.n - done > AGAIN;
  }
  j->done.n = done;
  s->how = ANFI_RESIDUALS_LIST;
  s->refused = true;
  s->nresidual = 0;
  return true;
}

/* Of the root and all that it calls; `branch`: it is one of a choice. */
static bool build_all(anfi_j *j, anfi_jspec *root, bool branch) {
  visits st = {0};
  while (st.n || root->state == ANFI_J_NEW) {
    if (!st.n) enter(j, &st, root, branch);
    visit *top = &st.at[st.n - 1];
    anfi_jspec *s = top->spec;
    if (top->next < s->callees.n) {
      const anfi_jcallee *c = &s->callees.at[top->next++];
      if (c->spec->state == ANFI_J_OPEN) meet(j, &st, c->spec);
      else if (c->spec->state == ANFI_J_NEW) enter(j, &st, c->spec, c->branch > 0);
      continue;
    }
    size_t done = top->done;
    bool was_branch = top->branch;
    st.n--;
    if (!anfi_j_build(j, s)) return false;
    if (fails(j, s, done)) enter(j, &st, s, was_branch);
  }
  return true;
}

static anfi_j *driver(anfi_ad *ad) {
  if (ad->reverse) return ad->reverse;
  anfi_j *j = ad->reverse = ANFI_NEW(ad->arena, anfi_j);
  j->ad = ad;
  j->cx = ad->m->cx;
  j->a = ad->arena;
  const anfi_flow_rules rules = {.count = anfi_ad_leaves,
                                 .op = anfi_flow_leaf_op,
                                 .all = anfi_flow_all_leaves,
                                 .exact = true,
                                 .mask = anfi_j_mask,
                                 .spec = anfi_j_forward_spec,
                                 .visit = anfi_j_visit};
  anfi_flow_init(&j->flow, ad, &rules);
  anfi_map_init(&j->rules, j->a);
  return j;
}

/* The spec of f for these masks; leaves of the result that do not depend on `want` are not given. */
static anfi_jspec *settled(anfi_j *j, anf_graph *f, const bool *want, const bool *given) {
  anfi_j_reload(j, NULL);
  anfi_jspec *v = anfi_jspec_of(j, f, want, NULL, NULL, NULL, false);
  anfi_flow_run(&j->flow);
  anfi_j_reload(j, NULL);
  bool *both = copy(j, given, v->jg->nresult);
  for (size_t i = 0; i < v->jg->nresult; i++) both[i] &= v->flow.out[i];
  anfi_jspec *s = anfi_jspec_of(j, f, want, both, NULL, NULL, false);
  anfi_flow_run(&j->flow);
  return s;
}

bool anfi_vjp_graphs(anfi_ad *ad, anf_graph *f, const bool *want, const bool *given,
                     anfi_vjp_pair *out) {
  anfi_j *j = driver(ad);
  anfi_jspec *s = settled(j, f, want, given);
  if (!build_all(j, s, false)) return false;
  *out = (anfi_vjp_pair){s->fwd, s->bwd, s->nresidual, s->passed, s->given, s->flow.out};
  return true;
}

bool anfi_vjp_at(anfi_ad *ad, anf_graph *f, const bool *want, const bool *given,
                 anfi_vjp_inline *at) {
  anfi_j *j = driver(ad);
  anfi_jspec *s = settled(j, f, want, given);
  for (size_t i = 0; i < s->callees.n; i++)
    if (!build_all(j, s->callees.at[i].spec, s->callees.at[i].branch > 0)) return false;
  return s->state != ANFI_J_NEW || anfi_j_build_at(j, s, at); // else a callee came back to it
}
