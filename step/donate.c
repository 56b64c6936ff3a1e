// SPDX-License-Identifier: Apache-2.0
/* Donation: a new state is written into the memory of the old one.
 *
 *   step(w, w_next) { for i { w_next[i] = w[i] - 0.1 * g[i] } }   →   step(w) { for i { w[i] = w[i] - 0.1 * g[i] } }
 *
 * Legal if every read of the old state comes before every write of the new one, or if one loop nest reads each
 * element right before it writes it. No call that may stop the program comes after the first write, so a step
 * that fails leaves the state as it was.
 * INVARIANT: a parameter is replaced in the body and never passed twice, since code generators rely on
 * parameters that do not overlap. */
#include "step/step.h"

#include "anfora/rt_abi.h"

/* The pair of tensors in question, and what is known of memory. */
typedef struct pair {
  const talias *alias;
  const anfi_map *global; // tensors of the module: constants
  texpr old, new_;
  uint64_t elements;
} pair;

/* May the tensor's memory be that of t? */
static bool may_be(const pair *p, texpr e, texpr t) {
  if (anfi_map_find(p->global, anfi_key(e))) return false;
  texpr root = anfi_t_root(p->alias, e);
  return e == t || root == t || !root;
}

/* The first and the last statement at the top of the body that touch a tensor, counted from 1; 0: none. */
typedef struct span {
  uint32_t first, last;
} span;

/* For all parameters at once. */
typedef struct touching {
  const talias *alias;
  const anfi_map *global;
  anfi_map at; // 1 + place of a parameter
  span *of;    // by that place
  span any;    // may be every tensor's
  uint32_t now;
} touching;

static void add(span *s, uint32_t now) {
  if (!s->first) s->first = now;
  s->last = now;
}

static void touch_one(touching *k, texpr e) {
  const uint64_t *at = anfi_map_find(&k->at, anfi_key(e));
  if (at) add(&k->of[*at - 1], k->now);
}

static bool touch(tviewer *v, texpr e) {
  touching *k = (touching *)v->user;
  if (e->kind != TX_tensor || anfi_map_find(k->global, anfi_key(e))) return true;
  texpr root = anfi_t_root(k->alias, e);
  if (!root) add(&k->any, k->now);
  else if (root != e) touch_one(k, root);
  touch_one(k, e);
  return true;
}

static span joined(span a, span b) {
  span r = a;
  if (b.first && (!r.first || b.first < r.first)) r.first = b.first;
  if (b.last > r.last) r.last = b.last;
  return r;
}

static void look_over(touching *k, tfunc f, anfi_arena *scratch) {
  anfi_map_init(&k->at, scratch);
  k->of = ANFI_NEW_N(scratch, span, f->n + 1);
  for (uint32_t i = 0; i < f->n; i++) *anfi_map_at(&k->at, anfi_key(f->param[i])) = i + 1;
  for (k->now = 1; k->now <= f->body->n; k->now++) {
    tviewer v = {.user = k, .enter_expr = touch};
    anfi_t_view_stmt(&v, f->body->s[k->now - 1]);
  }
}

/* ---- one loop nest that reads each element right before it writes it ---- */

typedef struct nest {
  const pair *p;
  texpr store;           // the only place where new_ is used
  uint64_t trips;        // of all loops together
  uint32_t stores;       // of new_
  uint32_t direct, seen; // uses of the two as what is indexed; all uses
  bool bad, written;
} nest;

static bool same_place(texpr a, texpr b) {
  if (a->nidx != b->nidx || a->n != b->n || !anfi_t_same(a->dtype, b->dtype)) return false;
  for (uint32_t i = 1; i < a->n; i++)
    if (!anfi_t_identical(a->in[i], b->in[i])) return false;
  return true;
}

static bool find_store(tviewer *v, texpr e) {
  nest *k = (nest *)v->user;
  const pair *p = k->p;
  if (e->kind == TX_tensor) k->seen += may_be(p, e, p->old) || may_be(p, e, p->new_);
  if (e->kind != TX_indexing || (e->in[0] != p->new_ && e->in[0] != p->old)) return true;
  k->direct++;
  if (e->in[0] == p->old) return true;
  k->store = e;
  k->stores++;
  k->bad |= !v->lvalue || anfi_t_mask(e);
  return true;
}

/* Reads of the old tensor: where the store is, and not after it. */
static bool check_read(tviewer *v, texpr e) {
  nest *k = (nest *)v->user;
  if (e->kind == TX_indexing && e->in[0] == k->p->old)
    k->bad |= v->lvalue != 0 || k->written || !same_place(e, k->store);
  return true;
}
static void after(tviewer *v, tstmt s) {
  nest *k = (nest *)v->user;
  if (s->kind == TS_assign && s->e[0] == k->store) k->written = true;
}

/* Down through loops of one statement each, to the block that stores. */
static bool enter_loops(nest *k, tstmt s, tstmt *block) {
  k->trips = 1;
  while (s->kind == TS_for_loop) {
    int64_t b, e, step;
    if (!anfi_t_loop_bounds(s, &b, &e, &step)) return false;
    k->trips *= anfi_t_trip(b, e, step);
    s = s->s[0];
    if (s->n == 1 && s->s[0]->kind == TS_for_loop) s = s->s[0];
  }
  *block = s;
  return s->kind == TS_stmts;
}

static bool stores_directly(const nest *k, tstmt block) {
  for (uint32_t i = 0; i < block->n; i++)
    if (block->s[i]->kind == TS_assign && block->s[i]->e[0] == k->store) return true;
  return false;
}

/* As many stores as elements, and all are stored: each of them once. */
static bool in_step(const pair *p, tstmt s) {
  nest k = {.p = p};
  tstmt block;
  tviewer find = {.user = &k, .enter_expr = find_store};
  if (!enter_loops(&k, s, &block)) return false;
  anfi_t_view_stmt(&find, s);
  if (k.bad || k.stores != 1 || k.seen != k.direct || !stores_directly(&k, block)) return false;
  if (k.trips * k.store->dtype.lanes != p->elements) return false;
  tviewer read = {.user = &k, .enter_expr = check_read, .leave_stmt = after};
  anfi_t_view_stmt(&read, block);
  return !k.bad;
}

/* Did lowering record that the nest reads each element before it writes it? Then neither tensor may be reached
 * under another name. */
typedef struct names {
  const pair *p;
  bool other;
} names;

static bool see_name(tviewer *v, texpr e) {
  names *k = (names *)v->user;
  const pair *p = k->p;
  if (e->kind == TX_tensor && e != p->old && e != p->new_)
    k->other |= may_be(p, e, p->old) || may_be(p, e, p->new_);
  return true;
}

static bool is_recorded(const anfi_lowered *low, const pair *p, tstmt s) {
  names k = {.p = p};
  tviewer v = {.user = &k, .enter_expr = see_name};
  size_t i = 0;
  while (i < low->in_step.n &&
         (low->in_step.at[i].from != p->old || low->in_step.at[i].to != p->new_))
    i++;
  if (i == low->in_step.n) return false;
  anfi_t_view_stmt(&v, s);
  return !k.other;
}

/* ---- the whole body ---- */

/* May a statement stop the program? Functions of the run time may; those of the module if they call
 * such. `known` remembers by function: 1 while it is visited, 2 no, 3 yes. Functions nest in each
 * other no deeper than loops do, for a recursive entry is not donated to. */
typedef struct stopping {
  const tmod *m;
  anfi_map known;
  bool found;
} stopping;

static bool function_stops(stopping *k, tfunc f);

static bool find_stop(tviewer *v, texpr e) {
  stopping *k = (stopping *)v->user;
  if (e->kind != TX_call || k->found) return !k->found;
  if (e->u.name && strcmp(e->u.name->s, anfi_t_rt[TRT_anf_rt_trace].name) == 0) return true;
  tfunc f = e->u.name ? anfi_t_mod_find(k->m, e->u.name) : NULL;
  k->found = function_stops(k, f);
  return !k->found;
}

static bool function_stops(stopping *k, tfunc f) {
  if (!f || !f->body) return true;
  uint64_t *known = anfi_map_at(&k->known, anfi_key(f));
  if (*known) return *known == 3;
  *known = 1;
  stopping inner = {.m = k->m, .known = k->known};
  tviewer v = {.user = &inner, .enter_expr = find_stop};
  anfi_t_view_stmt(&v, f->body);
  k->known = inner.known;
  *anfi_map_at(&k->known, anfi_key(f)) = inner.found ? 3 : 2;
  return inner.found;
}

static bool may_stop(stopping *k, tstmt s) {
  tviewer v = {.user = k, .enter_expr = find_stop};
  k->found = false;
  anfi_t_view_stmt(&v, s);
  return k->found;
}

/* The last statement that may stop the program, counted from 1; 0: none. */
static uint32_t last_stop(stopping *stop, tfunc f) {
  uint32_t i = f->body->n;
  while (i > 0 && !may_stop(stop, f->body->s[i - 1])) i--;
  return i;
}

static bool can_give(const anfi_lowered *low, tfunc f, const pair *p, span old, span new_,
                     uint32_t stop) {
  if (!new_.first) return true;
  if (old.last > new_.first || stop >= new_.first) return false;
  tstmt first = f->body->s[new_.first - 1];
  return old.last < new_.first || in_step(p, first) || is_recorded(low, p, first);
}

static tfunc without_params(tstore *t, anfi_arena *scratch, tfunc f, const bool *gone, tstmt body) {
  texpr *param = ANFI_NEW_N(scratch, texpr, f->n + 1);
  uint32_t n = 0;
  for (uint32_t i = 0; i < f->n; i++)
    if (!gone[i]) param[n++] = f->param[i];
  return anfi_t_func(t, f->name, f->ret, n, param, body, f->attrs);
}

static tfunc without_param(tstore *t, anfi_arena *scratch, tfunc f, uint32_t at, texpr by) {
  tvisitor v;
  anfi_t_visitor_init(&v, t, scratch, NULL);
  anfi_t_map_var(&v, f->param[at], by);
  bool *gone = ANFI_NEW_N(scratch, bool, f->n + 1);
  gone[at] = true;
  return without_params(t, scratch, f, gone, anfi_t_visit_stmt(&v, f->body));
}

static uint32_t before_return(tstmt body) {
  return body->n - (body->n && body->s[body->n - 1]->kind == TS_returns);
}

/* Nothing stops f from its statement `at` on. */
static tfunc committing(tstore *t, anfi_arena *scratch, tfunc f, uint32_t at) {
  texpr in = anfi_t_s32(t, ANF_RT_COMMIT);
  tstmt *s = ANFI_NEW_N(scratch, tstmt, f->body->n + 1);
  for (uint32_t i = 0; i < at; i++) s[i] = f->body->s[i];
  s[at] = anfi_t_eval(t, anfi_t_rt_call(t, TRT_anf_rt_count, 1, &in));
  for (uint32_t i = at; i < f->body->n; i++) s[i + 1] = f->body->s[i];
  return anfi_t_with_body(t, f, anfi_t_stmts(t, f->body->n + 1, s));
}

/* The same without the parameter, which is copied to `by` before the function returns. */
static tfunc copying(tstore *t, anfi_arena *scratch, tfunc f, uint32_t at, texpr by) {
  texpr old = f->param[at];
  uint64_t n = 0;
  anfi_t_const_elems(old, &n);
  if (!n) return without_param(t, scratch, f, at, by);
  texpr next = anfi_t_tensor1(t, (anf_tir_elem)old->dtype.elem, "next", n),
        i = anfi_t_var(t, anfi_t_dt(ANF_TIR_index), "i");
  f = without_param(t, scratch, f, at, next);
  tstmt copy = anfi_t_assign(t, anfi_t_at(t, by, 1, &i, 1, 0, NULL),
                             anfi_t_at(t, next, 1, &i, 1, 0, NULL)),
        loop = anfi_t_for(t, i, anfi_t_index(t, 0), anfi_t_index(t, n), anfi_t_index(t, 1),
                          anfi_t_stmts(t, 1, &copy), false, 0);
  const tstmt body = f->body;
  tstmt *s = ANFI_NEW_N(scratch, tstmt, body->n + 2);
  uint32_t end = before_return(body), k = 0;
  s[k++] = anfi_t_define(t, TL_local, next, NULL);
  for (uint32_t j = 0; j < end; j++) s[k++] = body->s[j];
  s[k++] = loop;
  if (end < body->n) s[k++] = body->s[end];
  return anfi_t_with_body(t, f, anfi_t_stmts(t, k, s));
}

static size_t place_of(const tmod *m, tfunc f) {
  size_t i = 0;
  while (m->func.at[i] != f) i++;
  return i;
}

static anfi_map globals(const tmod *m, anfi_arena *scratch) {
  anfi_map g;
  anfi_map_init(&g, scratch);
  for (size_t i = 0; i < m->global.n; i++) *anfi_map_at(&g, anfi_key(m->global.at[i]->e[0])) = 1;
  return g;
}

/* ORDER: rooms come after all parameters, those of states first, without the one that is returned:
 * from the last to the first, so that places stay what they are. */
bool anfi_step_donate(anfi_variant *v, size_t nstate_leaf, bool *given, bool stops) {
  const anfi_lowered *low = &v->low;
  tmod *m = low->module;
  anfi_arena *scratch = anfi_scratch(low->cx);
  memset(given, 0, nstate_leaf * sizeof *given);
  tfunc f = anf_tir_find(m, low->entry);
  if (!f || !f->body || low->recursive) return false;
  size_t returned = anfi_returned_leaf(&low->result), at = place_of(m, f);
  anfi_map global = globals(m, scratch);
  stopping stop = {.m = m};
  anfi_map_init(&stop.known, scratch);
  talias a;
  anfi_t_alias_init(&a, m->t, scratch, f);
  touching k = {.alias = &a, .global = &global};
  look_over(&k, f, scratch);
  uint32_t last = last_stop(&stop, f);
  tvisitor sub;
  anfi_t_visitor_init(&sub, m->t, scratch, NULL);
  bool *gone = ANFI_NEW_N(scratch, bool, f->n + 1);
  bool any = false;
  uint32_t write = UINT32_MAX;             // the first statement that writes over a state
  for (size_t i = nstate_leaf; i-- > 0;) { // one pair knows nothing of another
    if (i == returned || low->param.at[i].scalar) continue;
    uint32_t room = (uint32_t)(low->param.n + i - (i > returned));
    pair p = {&a, &global, f->param[i], f->param[room], low->param.at[i].n};
    span old = joined(k.of[i], k.any), new_ = joined(k.of[room], k.any);
    if (!can_give(low, f, &p, old, new_, last)) continue;
    anfi_t_map_var(&sub, f->param[room], f->param[i]);
    any = gone[room] = given[i] = true;
    if (new_.first && new_.first < write) write = new_.first;
  }
  stops &= write != UINT32_MAX;
  if (any) f = without_params(m->t, scratch, f, gone, anfi_t_visit_stmt(&sub, f->body));
  if (stops) f = committing(m->t, scratch, f, write - 1);
  anfi_t_mod_replace(m, at, f);
  anfi_t_declare_rt(m);
  return stops;
}

static bool find_call(tviewer *v, texpr e) {
  const anfi_str **name = (const anfi_str **)v->user;
  if (e->kind == TX_call && e->u.name == *name) *name = NULL;
  return *name != NULL;
}

static bool is_called(const tmod *m, const anfi_str *name) {
  tviewer v = {.user = &name, .enter_expr = find_call};
  for (size_t i = 0; i < m->func.n && name; i++)
    if (m->func.at[i]->body) anfi_t_view_stmt(&v, m->func.at[i]->body);
  return !name;
}

bool anfi_step_copy_back(anfi_variant *v, size_t nstate_leaf, const bool *given, bool commits) {
  const anfi_lowered *low = &v->low;
  tmod *m = low->module;
  tfunc f = anf_tir_find(m, low->entry);
  size_t returned = anfi_returned_leaf(&low->result), at = place_of(m, f);
  if (is_called(m, f->name)) return anfi_fail(low->cx, anfi_nowhere(), ANF_E0924, low->entry);
  for (size_t i = nstate_leaf; i-- > 0;) {
    size_t room = low->param.n;
    if (given[i] || i == returned || low->param.at[i].scalar) continue;
    for (size_t k = 0; k < i; k++) room += k != returned && !given[k];
    if (commits) f = committing(m->t, anfi_scratch(low->cx), f, before_return(f->body));
    commits = false;
    f = copying(m->t, anfi_scratch(low->cx), f, (uint32_t)room, f->param[i]);
  }
  anfi_t_mod_replace(m, at, f);
  anfi_t_declare_rt(m);
  return true;
}
