// SPDX-License-Identifier: Apache-2.0
/* scalar_splitter: outlines long straight-line scalar code, for code generators whose time is quadratic in a block.
 *
 *   v0 = ...; v1 = ...; ... v8 = f(v5)   →   f_run1(kept): v0 to v3;  f_run2(kept): v4 to v7;  ...
 *
 * A part has 256 statements. A value that is used in another part goes through an array of the caller, one
 * array for each element type.
 * INVARIANT: a run assigns nothing, so a variable defined before it has one value all through. */
#include "backend/tir/tir.h"

enum { PART = 256, LONG_PARTS = 2 }; // statements of a part, parts of the longest run left whole

/* Facts about a variable, by its number: in a list, and in a run of it. */
typedef struct fact {
  uint32_t list, run; // which it is known for; of others nothing is known
  uint32_t last;      // 1 + place of its last use in the list
  uint32_t place;     // 1 + where it is defined, if that is in the run
  uint32_t cross;     // 1 + its place in `crosses`
  uint32_t part;      // 1 + the first statement of the part that has it: defined, or loaded
  bool inner;         // of a scope within a statement
} fact;

typedef struct user {
  /* the module */
  tpass_cx *p;
  tmod *out;
  /* the current function */
  tfunc f;
  uint32_t part; // statements
  uint32_t made;
  fact *var;            // NULL: no list has been long so far
  uint32_t lists, runs; // so many so far
  uint32_t loops;       // around the current statement
  /* calls */
  anfi_map called; // names of functions of the module, if it is known who is called
  bool know_called;
} user;

/* A variable that crosses from one part to another. */
typedef struct cross {
  texpr var;
  uint32_t slot; // in the array of its type
  bool before;   // defined before the run
  bool after;    // used after the run
} cross;

typedef struct run {
  user *u;
  anfi_arena *a;
  const tstmt *s; // the list
  uint32_t from, to;
  ANFI_VEC(cross) crosses;
  uint32_t count[ANF_TIR_ELEM_COUNT];
  texpr array[ANF_TIR_ELEM_COUNT];
} run;

static fact *of(user *u, texpr v) {
  fact *k = &u->var[v->id];
  if (k->list != u->lists) *k = (fact){.list = u->lists};
  if (k->run != u->runs) *k = (fact){.list = k->list, .last = k->last, .run = u->runs};
  return k;
}

/* ---- which statements ---- */

static bool plain_expr(tviewer *v, texpr e) {
  bool *plain = (bool *)v->user;
  bool known = e->kind != TX_tensor && e->kind != TX_tensorptr && e->kind != TX_indexing &&
               e->kind != TX_func_addr && e->kind != TX_ssa_phi &&
               !(e->kind == TX_call && (!e->u.name || e->n != e->nidx));
  return *plain = *plain && known && !e->dtype.ptr && anfi_t_total(e->dtype) == 1;
}

static bool plain_stmt(tviewer *v, tstmt s) {
  bool *plain = (bool *)v->user;
  bool local = s->kind == TS_define && s->sub == TL_local && s->e[0]->kind == TX_var && s->e[1];
  return *plain = *plain &&
                  (local || s->kind == TS_evaluate || s->kind == TS_if_else || s->kind == TS_stmts);
}

static bool is_plain(tstmt s) {
  bool plain = true;
  tviewer v = {.user = &plain, .enter_expr = plain_expr, .enter_stmt = plain_stmt};
  anfi_t_view_stmt(&v, s);
  return plain;
}

/* ---- what crosses ---- */

typedef struct looking {
  run *r;
  uint32_t at;
} looking;

static bool see_use(tviewer *v, texpr e) {
  looking *l = (looking *)v->user;
  if (e->kind == TX_var) of(l->r->u, e)->last = l->at + 1;
  return true;
}

static void find_last_uses(run *r, uint32_t n) {
  looking l = {.r = r};
  tviewer v = {.user = &l, .enter_expr = see_use};
  for (l.at = 0; l.at < n; l.at++) anfi_t_view_stmt(&v, r->s[l.at]);
}

static uint32_t part_of(const run *r, uint32_t at) { return (at - r->from) / r->u->part; }

static void add_cross(run *r, texpr x, bool before, bool after) {
  fact *k = of(r->u, x);
  if (k->cross) return;
  anfi_push(r->a, &r->crosses, ((cross){x, r->count[x->dtype.elem]++, before, after}));
  k->cross = (uint32_t)r->crosses.n;
}

static bool see_cross(tviewer *v, texpr e) {
  looking *l = (looking *)v->user;
  run *r = l->r;
  if (e->kind != TX_var) return true;
  const fact *k = of(r->u, e);
  if (k->inner) return true;
  if (!k->place || part_of(r, k->place - 1) != part_of(r, l->at))
    add_cross(r, e, !k->place, k->place && k->last > r->to);
  return true;
}

static bool see_inner(tviewer *v, tstmt s) {
  looking *l = (looking *)v->user;
  if (s->kind != TS_define) return true;
  fact *k = of(l->r->u, s->e[0]);
  k->inner = s != l->r->s[l->at];
  k->place = l->at + 1;
  return true;
}

static void find_crosses(run *r) {
  looking l = {.r = r};
  tviewer defs = {.user = &l, .enter_stmt = see_inner},
          uses = {.user = &l, .enter_expr = see_cross};
  for (l.at = r->from; l.at < r->to; l.at++) anfi_t_view_stmt(&defs, r->s[l.at]);
  for (l.at = r->from; l.at < r->to; l.at++) {
    tstmt s = r->s[l.at];
    anfi_t_view_stmt(&uses, s);
    if (s->kind == TS_define && of(r->u, s->e[0])->last > r->to) add_cross(r, s->e[0], false, true);
  }
}

/* ---- statements ---- */

/* The element of the array (the caller's, or a part's parameter) that a variable crosses in. */
static texpr place_of(const run *r, const texpr *array, const cross *c) {
  texpr at = anfi_t_index(r->u->p->t, c->slot);
  return anfi_t_at(r->u->p->t, array[c->var->dtype.elem], 1, &at, 1, 0, NULL);
}

static const cross *cross_of(const run *r, texpr x) {
  uint32_t k = of(r->u, x)->cross;
  return k ? &r->crosses.at[k - 1] : NULL;
}

/* ---- a part as a function ---- */

typedef ANFI_VEC(tstmt) stmts;

typedef struct making {
  run *r;
  stmts *body;
  uint32_t from;                   // its first statement
  texpr array[ANF_TIR_ELEM_COUNT]; // its parameters
  tvisitor own;                    // to what variables are there, where they are others
} making;

/* A variable is defined once in a module: what other functions define as well is another here. */
static texpr renamed(making *k, texpr x) {
  texpr to = anfi_t_retype(k->r->u->p->t, x, x->dtype);
  anfi_t_map_var(&k->own, x, to);
  return to;
}

static bool see_missing(tviewer *v, texpr e) {
  making *k = (making *)v->user;
  run *r = k->r;
  const cross *c = e->kind == TX_var ? cross_of(r, e) : NULL;
  fact *x = c ? of(r->u, e) : NULL;
  if (!c || x->part == k->from + 1) return true;
  x->part = k->from + 1;
  anfi_push(r->a, k->body,
            anfi_t_define(r->u->p->t, TL_local, renamed(k, e), place_of(r, k->array, c)));
  return true;
}

static void fill(making *k, uint32_t to) {
  run *r = k->r;
  tstore *t = r->u->p->t;
  tviewer v = {.user = k, .enter_expr = see_missing};
  for (uint32_t i = k->from; i < to; i++) {
    tstmt s = r->s[i];
    const cross *c = s->kind == TS_define ? cross_of(r, s->e[0]) : NULL;
    if (c) of(r->u, s->e[0])->part = k->from + 1;
    t->line = s->line, t->col = s->col;
    if (c && c->after) renamed(k, s->e[0]);
    anfi_t_view_stmt(&v, s);
    anfi_push(r->a, k->body, anfi_t_visit_stmt(&k->own, s));
    if (!c) continue;
    texpr x = anfi_t_mapped(&k->own, s->e[0]);
    anfi_push(r->a, k->body, anfi_t_assign(t, place_of(r, k->array, c), x ? x : s->e[0]));
  }
}

static const anfi_str *new_name(user *u) {
  const anfi_str *name =
      anfi_t_name(u->p->t, anfi_sprintf(u->p->scratch, "%s_run%u", u->f->name->s, ++u->made));
  if (anfi_t_mod_find(u->p->m, name) || anfi_t_mod_find(u->out, name))
    name = anfi_t_fresh_func(u->out, anfi_t_fresh_func(u->p->m, name->s)->s);
  return name;
}

static bool see_call(tviewer *v, texpr e) {
  if ((e->kind == TX_call || e->kind == TX_func_addr) && e->u.name)
    *anfi_map_at(&((user *)v->user)->called, anfi_key(e->u.name)) = 1;
  return true;
}

static bool is_called(user *u, tfunc f) {
  const tmod *m = u->p->m;
  tviewer v = {.user = u, .enter_expr = see_call};
  if (!u->know_called) anfi_map_init(&u->called, u->p->scratch);
  for (size_t i = 0; i < m->func.n && !u->know_called; i++)
    if (m->func.at[i]->body) anfi_t_view_stmt(&v, m->func.at[i]->body);
  u->know_called = true;
  return anfi_map_find(&u->called, anfi_key(f->name)) != NULL;
}

/* Does long code of the function run once for each call from outside? */
static bool runs_once(const run *r) {
  return !r->u->loops && r->to - r->from > ANFI_T_MANY && !is_called(r->u, r->u->f);
}

static tstmt part(run *r, uint32_t from, uint32_t to) {
  tstore *t = r->u->p->t;
  texpr param[ANF_TIR_ELEM_COUNT], arg[ANF_TIR_ELEM_COUNT];
  uint32_t n = 0;
  stmts body = {0};
  making k = {.r = r, .body = &body, .from = from};
  anfi_t_visitor_init(&k.own, t, r->a, NULL);
  for (uint32_t e = 0; e < ANF_TIR_ELEM_COUNT; e++) {
    if (!r->array[e]) continue;
    arg[n] = r->array[e];
    param[n++] = k.array[e] = anfi_t_tensor1(t, (anf_tir_elem)e, "kept", r->count[e]);
  }
  fill(&k, to);
  tattrs at = anfi_t_attr_set(t, (tattrs){0}, TA_is_private, 1);
  at = anfi_t_attr_set(t, at, TA_inline_level, 0);
  if (runs_once(r)) at = anfi_t_attr_set(t, at, TA_once, 1);
  tfunc f = anfi_t_func(t, new_name(r->u), anfi_t_dt(ANF_TIR_void), n, param,
                        anfi_t_stmts(t, body.n, body.at), at);
  anfi_t_mod_add(r->u->out, f);
  return anfi_t_eval(t, anfi_t_call(t, f->name, f->ret, n, arg));
}

/* ---- lists ---- */

static void split(run *r, stmts *out) {
  tstore *t = r->u->p->t;
  find_crosses(r);
  for (uint32_t e = 0; e < ANF_TIR_ELEM_COUNT; e++) {
    if (!r->count[e]) continue;
    r->array[e] = anfi_t_tensor1(t, (anf_tir_elem)e, "kept", r->count[e]);
    anfi_push(r->a, out, anfi_t_define(t, TL_local, r->array[e], NULL));
  }
  for (size_t i = 0; i < r->crosses.n; i++) {
    const cross *c = &r->crosses.at[i];
    if (c->before) anfi_push(r->a, out, anfi_t_assign(t, place_of(r, r->array, c), c->var));
  }
  for (uint32_t i = r->from, n = r->u->part; i < r->to; i += n)
    anfi_push(r->a, out, part(r, i, r->to - i > n ? i + n : r->to));
  for (size_t i = 0; i < r->crosses.n; i++) {
    const cross *c = &r->crosses.at[i];
    if (c->after)
      anfi_push(r->a, out, anfi_t_define(t, TL_local, c->var, place_of(r, r->array, c)));
  }
}

static bool is_loop(tstmt s) { return s->kind == TS_for_loop || s->kind == TS_while_loop; }

static tstmt leave(tvisitor *v, tstmt s) {
  ((user *)v->user)->loops -= is_loop(s);
  return s;
}

static tstmt enter(tvisitor *v, tstmt s) {
  user *u = (user *)v->user;
  stmts out = {0};
  run all = {.u = u, .a = v->scratch, .s = s->s};
  uint32_t longest = LONG_PARTS * u->part;
  u->loops += is_loop(s);
  if (s->kind != TS_stmts || s->sub || s->n <= longest) return s;
  if (!u->var) u->var = ANFI_NEW_N(u->p->scratch, fact, v->t->next_id);
  u->lists++;
  find_last_uses(&all, s->n);
  for (uint32_t i = 0, end; i < s->n; i = end) {
    for (end = i; end < s->n && is_plain(s->s[end]); end++) continue;
    if (end - i > longest) {
      run r = all;
      r.from = i, r.to = end;
      u->runs++;
      split(&r, &out);
    } else {
      end += end == i;
      for (uint32_t k = i; k < end; k++) anfi_push(v->scratch, &out, s->s[k]);
    }
  }
  return anfi_t_stmts(v->t, out.n, out.at);
}

static uint32_t part_size(tfunc f) {
  int64_t n;
  return anfi_t_attr(f->attrs, TA_scalar_part, &n) && n > 0 && n < PART ? (uint32_t)n : PART;
}

const tmod *anfi_t_pass_scalar_splitter(tpass_cx *p, const tmod *m) {
  user u = {.p = p, .out = anfi_t_mod_like(m)};
  for (size_t i = 0; i < m->func.n; i++) {
    tvisitor v;
    u.f = m->func.at[i];
    u.part = part_size(u.f);
    u.made = 0;
    anfi_t_visitor_init(&v, p->t, p->scratch, &u);
    v.enter = enter;
    v.stmt = leave;
    tfunc f = u.f->body ? anfi_t_visit_func(&v, u.f) : u.f;
    anfi_t_mod_add(u.out,
                   f == u.f ? f : anfi_t_func_without(p->t, f, TA_pure)); // parts share memory
  }
  return u.out;
}
