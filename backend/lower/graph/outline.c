// SPDX-License-Identifier: Apache-2.0
/* Outlining: loops of large functions become functions of their own, equal ones the same.
 *   for (i, ..) { y1[i] = f(x1[i]) }  for (i, ..) { y2[i] = f(x2[i]) }   ->   loop_1(x1, y1)  loop_1(x2, y2)
 * Machine code for a function takes longer than in proportion to its size, and networks repeat themselves. Outlined are
 * outermost loops that assign no variable of outside and do not leave the function. What they use of outside are
 * parameters, in the order in which they use it; tensors of the module, too: layers differ in their weights alone. And so are
 * the numbers of sites where they stop the program:
 *   for (i, ..) { if (j[i] >= n) stop(7, ..) .. }   ->   loop_1(j, 7)
 * Loops of a few turns and nodes in all stay unless there are many: LLVM unrolls them, and vectors of two or three numbers
 * become registers. `Sin` of four numbers is no such loop: inlined and unrolled it takes longer to compile than all the rest.
 * INVARIANT: tensors are parameters once each, so that different ones do not overlap. */
#include "backend/lower/lower.h"

enum { FEW = 16, MAX_PARAMS = 100, FEW_TURNS = 8, FEW_NODES = 1024, MANY_SMALL = 256 };

typedef struct maker {
  /* the module */
  anfi_arena *a, *tmp; // tmp: of the current loop
  tmod *m;
  tstore *t;
  /* functions made */
  anfi_map by_hash;
  anfi_map nodes; // name of a function that is inlined → 1 + nodes of its body
  ANFI_VEC(tfunc) made;
  ANFI_VEC(uint32_t) next; // of the same hash: 1 + place in `made`, by place
  /* the function whose loops are visited */
  const anfi_str *name;
  tattrs attrs;
  tfunc f;    // whose loops are visited
  bool small; // its small loops stay
} maker;

/* ---- what a loop uses ---- */

typedef struct look {
  maker *k;
  anfi_map inside, seen;
  ANFI_VEC(texpr) free;
  anfi_map number_of; // parameter for a site → 1 + place in `number`
  ANFI_VEC(texpr) number;
  bool stays;
} look;

static bool has(const anfi_map *m, texpr v) { return anfi_map_find(m, anfi_key(v)) != NULL; }

static bool see_expr(tviewer *v, texpr e) {
  look *l = (look *)v->user;
  if (e->kind != TX_var && e->kind != TX_tensor) return true;
  if (has(&l->inside, e)) return true;
  if (v->lvalue && e->kind == TX_var) l->stays = true;
  uint64_t n;
  if (e->kind == TX_tensor && (!anfi_t_const_elems(e, &n) || anfi_t_has_strides(e)))
    l->stays = true;
  if (!has(&l->seen, e)) {
    *anfi_map_at(&l->seen, anfi_key(e)) = 1;
    anfi_push(l->k->tmp, &l->free, e);
  }
  return true;
}

static bool see_stmt(tviewer *v, tstmt s) {
  look *l = (look *)v->user;
  if (s->kind == TS_returns) l->stays = true;
  if (s->kind == TS_define || s->kind == TS_for_loop)
    *anfi_map_at(&l->inside, anfi_key(s->e[0])) = 1;
  return true;
}

static texpr site_as_parameter(tvisitor *v, texpr e) {
  look *l = (look *)v->user;
  int64_t site;
  if (e->kind != TX_call || !e->u.name || anfi_t_rt_of(e->u.name->s) != TRT_anf_rt_stop ||
      !anfi_t_const_i64(e->in[0], &site))
    return e;
  texpr in[3] = {anfi_t_var(v->t, e->in[0]->dtype, "site"), e->in[1], e->in[2]};
  anfi_push(l->k->tmp, &l->number, e->in[0]);
  *anfi_map_at(&l->number_of, anfi_key(in[0])) = l->number.n;
  return anfi_t_remake(v->t, e, in);
}

static tstmt without_sites(look *l, tstmt loop) {
  tvisitor v;
  anfi_t_visitor_init(&v, l->k->t, l->k->tmp, l);
  v.expr = site_as_parameter;
  return anfi_t_visit_stmt(&v, loop);
}

/* What a parameter stands for in the call. */
static texpr argument(const look *l, texpr x) {
  const uint64_t *at = anfi_map_find(&l->number_of, anfi_key(x));
  return at ? l->number.at[*at - 1] : x;
}

/* ---- the function ---- */

/* The loop as a function of what it uses, unchanged: to be compared. */
static tfunc as_function(maker *k, tstmt loop, const look *l) {
  struct anf_tir_func_node *f = ANFI_NEW(k->tmp, struct anf_tir_func_node);
  f->name = k->name;
  f->ret = anfi_t_dt(ANF_TIR_void);
  f->n = (uint32_t)l->free.n;
  f->param = l->free.at;
  f->body = anfi_t_stmts(k->t, 1, &loop);
  f->attrs = k->attrs;
  return f;
}

/* The same with parameters and variables of its own. */
static tfunc own(maker *k, tfunc f) {
  texpr *param = ANFI_NEW_N(k->a, texpr, f->n + 1u);
  tvisitor v;
  anfi_t_visitor_init(&v, k->t, k->tmp, NULL);
  v.fresh = true;
  for (uint32_t i = 0; i < f->n; i++) {
    texpr x = f->param[i];
    param[i] = x->kind == TX_var ? anfi_t_var(k->t, x->dtype, x->u.name->s)
                                 : anfi_t_tensor(k->t, (anf_tir_elem)x->dtype.elem, x->sub,
                                                 x->u.name->s, x->nidx, x->in, NULL);
    anfi_t_map_var(&v, x, param[i]);
  }
  tstmt one = anfi_t_visit_stmt(&v, f->body);
  const anfi_str *name =
      anfi_t_name(k->t, anfi_sprintf(k->a, "%s_loop%zu", k->f->name->s, k->made.n + 1));
  if (anfi_t_mod_find(k->m, name)) name = anfi_t_fresh_func(k->m, name->s);
  return anfi_t_func(k->t, name, f->ret, f->n, param, one, f->attrs);
}

/* The function that does it: one that there is, or a new one. */
static tfunc shared(maker *k, tfunc f) {
  uint64_t *at = anfi_map_at(&k->by_hash, anfi_t_hash_func(f, k->tmp));
  for (uint32_t i = (uint32_t)*at; i; i = k->next.at[i - 1]) {
    tcompare c;
    anfi_t_compare_init(&c, k->tmp);
    if (anfi_t_equal_func(&c, k->made.at[i - 1], f)) return k->made.at[i - 1];
  }
  f = own(k, f);
  anfi_push(k->a, &k->made, f);
  anfi_push(k->a, &k->next, (uint32_t)*at);
  *at = k->made.n;
  anfi_t_mod_add(k->m, f);
  return f;
}

static tstmt call_instead(maker *k, tstmt loop) {
  look l = {.k = k};
  tviewer v = {.user = &l, .enter_expr = see_expr, .enter_stmt = see_stmt};
  anfi_map_init(&l.inside, k->tmp);
  anfi_map_init(&l.seen, k->tmp);
  anfi_map_init(&l.number_of, k->tmp);
  tstmt body = without_sites(&l, loop);
  anfi_t_view_stmt(&v, body);
  if (l.stays || l.free.n > MAX_PARAMS) return loop;
  tfunc f = shared(k, as_function(k, body, &l));
  for (size_t i = 0; i < l.free.n; i++) l.free.at[i] = argument(&l, l.free.at[i]);
  k->t->line = loop->line;
  k->t->col = loop->col;
  return anfi_t_eval(k->t, anfi_t_call(k->t, f->name, f->ret, (uint32_t)l.free.n, l.free.at));
}

/* Scratch memory is freed after each loop: there may be 10^5 of them. */
static tstmt outlined(maker *k, tstmt loop) {
  tstmt s = call_instead(k, loop);
  anfi_arena_free(k->tmp);
  return s;
}

/* What a function has, or a loop. */
typedef struct counts {
  maker *k;
  size_t small, large; // loops
  uint64_t turns;      // of a loop and those in it
  uint64_t nodes;      // of functions that it inlines
} counts;

static bool count_nodes(tviewer *v, texpr e);

/* The nodes of a function's body and of those that it inlines. */
static uint64_t nodes_of(maker *k, tfunc f) {
  uint64_t *at = anfi_map_at(&k->nodes, anfi_key(f->name));
  counts c = {.k = k, .nodes = f->body->size};
  tviewer v = {.user = &c, .enter_expr = count_nodes};
  if (*at) return *at - 1;
  *at = 1; // if it calls itself
  anfi_t_view_stmt(&v, f->body);
  *anfi_map_at(&k->nodes, anfi_key(f->name)) = c.nodes + 1;
  return c.nodes;
}

static bool count_nodes(tviewer *v, texpr e) {
  counts *c = (counts *)v->user;
  int64_t level = 1;
  tfunc f = e->kind == TX_call && e->u.name ? anfi_t_mod_find(c->k->m, e->u.name) : NULL;
  if (f && f->body && anfi_t_attr(f->attrs, TA_inline_level, &level) && level == 2)
    c->nodes += nodes_of(c->k, f);
  return true;
}

static bool count_turns(tviewer *v, tstmt s) {
  counts *c = (counts *)v->user;
  int64_t from, to, step;
  if (s->kind == TS_while_loop) c->turns = UINT64_MAX;
  if (s->kind != TS_for_loop || c->turns > FEW_TURNS) return true;
  bool known = anfi_t_const_i64(s->e[1], &from) && anfi_t_const_i64(s->e[2], &to) &&
               anfi_t_const_i64(s->e[3], &step) && step > 0 && from >= 0 && to - from <= FEW_TURNS;
  c->turns *= !known ? FEW_TURNS + 1 : to > from ? (uint64_t)(to - from) : 1;
  return true;
}

static bool is_small(maker *k, tstmt loop) {
  counts c = {.k = k, .turns = 1, .nodes = loop->size};
  tviewer v = {.user = &c, .enter_expr = count_nodes, .enter_stmt = count_turns};
  anfi_t_view_stmt(&v, loop);
  return c.turns <= FEW_TURNS && c.turns * c.nodes <= FEW_NODES;
}

static tstmt enter(tvisitor *v, tstmt s) {
  maker *k = (maker *)v->user;
  if (s->kind != TS_for_loop || s->sub || (k->small && is_small(k, s))) return s;
  return outlined(k, s);
}

/* ---- large functions ---- */

static bool count(tviewer *v, tstmt s) {
  counts *c = (counts *)v->user;
  if (s->kind != TS_for_loop) return true;
  if (is_small(c->k, s)) c->small++;
  else c->large++;
  return false;
}

static bool nothing(tviewer *v, texpr e) { return (void)v, (void)e, false; }

static counts loops_of(maker *k, tfunc f) {
  counts c = {.k = k};
  tviewer v = {.user = &c, .enter_expr = nothing, .enter_stmt = count};
  if (f->body) anfi_t_view_stmt(&v, f->body);
  return c;
}

void anfi_lower_outline(anfi_arena *a, tmod *m) {
  maker k = {.a = a, .m = m, .t = m->t, .name = anfi_t_name(m->t, "loop")};
  k.tmp = anfi_scratch(a->cx);
  k.attrs = anfi_t_attr_set(k.t, (tattrs){0}, TA_is_private, 1);
  k.attrs = anfi_t_attr_set(k.t, k.attrs, TA_inline_level, 0);
  anfi_map_init(&k.by_hash, a);
  anfi_map_init(&k.nodes, a);
  for (size_t i = 0, n = m->func.n; i < n; i++) {
    tvisitor v;
    k.f = m->func.at[i];
    counts c = loops_of(&k, k.f);
    k.small = c.small <= MANY_SMALL;
    if (c.large + (k.small ? 0 : c.small) <= FEW) continue;
    anfi_t_visitor_init(&v, k.t, a, &k);
    v.enter = enter;
    tfunc f = anfi_t_visit_func(&v, k.f);
    anfi_t_mod_replace(m, i, f);
  }
}
