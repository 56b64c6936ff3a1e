// SPDX-License-Identifier: Apache-2.0
/* scalar_splitter: long runs of straight-line scalar code become functions of `part` statements each,
 * which code generators, whose time grows with the square of a block, compile in linear time. What
 * one part or the rest of the function has of another goes through arrays of the caller, one for each
 * element type.
 * INVARIANT: a run assigns nothing, so a variable that is defined before it is the same all through. */
#include "backend/tir/tir.h"

enum { PART = 256, LONG_PARTS = 2 }; // statements of a part, parts of the longest run left whole

typedef struct user {
  tpass_cx *p;
  tmod *out;
  tfunc f;
  uint32_t part; // statements
  uint32_t made;
} user;

/* A variable that crosses from one part to another. */
typedef struct cross {
  texpr var;
  uint32_t slot; // in the array of its type
  bool before;   // defined before the run
} cross;

typedef struct run {
  user *u;
  anfi_arena *a;
  const tstmt *s; // the list
  uint32_t from, to;
  anfi_map last;   // variable → 1 + place of its last use in the list
  anfi_map place;  // variable → 1 + where it is defined, if that is in the run
  anfi_map number; // variable → 1 + its place in `crosses`
  anfi_map inner;  // variables of scopes within a statement
  ANFI_VEC(cross) crosses;
  uint32_t count[ANF_TIR_ELEM_COUNT];
  texpr array[ANF_TIR_ELEM_COUNT];
} run;

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
  if (e->kind == TX_var) *anfi_map_at(&l->r->last, anfi_key(e)) = l->at + 1;
  return true;
}

static void find_last_uses(run *r, uint32_t n) {
  looking l = {.r = r};
  tviewer v = {.user = &l, .enter_expr = see_use};
  for (l.at = 0; l.at < n; l.at++) anfi_t_view_stmt(&v, r->s[l.at]);
}

static uint32_t part_of(const run *r, uint32_t at) { return (at - r->from) / r->u->part; }

static void add_cross(run *r, texpr x, bool before) {
  uint64_t *at = anfi_map_at(&r->number, anfi_key(x));
  if (*at) return;
  anfi_push(r->a, &r->crosses, ((cross){x, r->count[x->dtype.elem]++, before}));
  *at = r->crosses.n;
}

static bool see_cross(tviewer *v, texpr e) {
  looking *l = (looking *)v->user;
  run *r = l->r;
  if (e->kind != TX_var || anfi_map_find(&r->inner, anfi_key(e))) return true;
  const uint64_t *def = anfi_map_find(&r->place, anfi_key(e));
  if (!def) add_cross(r, e, true);
  else if (part_of(r, (uint32_t)*def - 1) != part_of(r, l->at)) add_cross(r, e, false);
  return true;
}

static bool see_inner(tviewer *v, tstmt s) {
  looking *l = (looking *)v->user;
  if (s->kind != TS_define) return true;
  bool top = s == l->r->s[l->at];
  *anfi_map_at(top ? &l->r->place : &l->r->inner, anfi_key(s->e[0])) = l->at + 1;
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
    if (s->kind != TS_define) continue;
    const uint64_t *last = anfi_map_find(&r->last, anfi_key(s->e[0]));
    if (last && *last > r->to) add_cross(r, s->e[0], false);
  }
}

/* ---- statements ---- */

static texpr place_of(const run *r, const cross *c) {
  texpr at = anfi_t_index(r->u->p->t, c->slot);
  return anfi_t_at(r->u->p->t, r->array[c->var->dtype.elem], 1, &at, 1, 0, NULL);
}

static tstmt load(const run *r, const cross *c) {
  return anfi_t_define(r->u->p->t, TL_local, c->var, place_of(r, c));
}

static tstmt store(const run *r, const cross *c) {
  return anfi_t_assign(r->u->p->t, place_of(r, c), c->var);
}

static const cross *cross_of(const run *r, texpr x) {
  const uint64_t *at = anfi_map_find(&r->number, anfi_key(x));
  return at ? &r->crosses.at[*at - 1] : NULL;
}

/* ---- a part as a function ---- */

typedef ANFI_VEC(tstmt) stmts;

typedef struct making {
  run *r;
  stmts *body;
  anfi_map have; // variables that are there: defined, or loaded
} making;

static bool see_missing(tviewer *v, texpr e) {
  making *k = (making *)v->user;
  const cross *c = e->kind == TX_var ? cross_of(k->r, e) : NULL;
  if (!c || anfi_map_find(&k->have, anfi_key(e))) return true;
  *anfi_map_at(&k->have, anfi_key(e)) = 1;
  anfi_push(k->r->a, k->body, load(k->r, c));
  return true;
}

static void fill(making *k, uint32_t from, uint32_t to) {
  run *r = k->r;
  tviewer v = {.user = k, .enter_expr = see_missing};
  for (uint32_t i = from; i < to; i++) {
    tstmt s = r->s[i];
    const cross *c = s->kind == TS_define ? cross_of(r, s->e[0]) : NULL;
    if (c) *anfi_map_at(&k->have, anfi_key(s->e[0])) = 1;
    anfi_t_view_stmt(&v, s);
    anfi_push(r->a, k->body, s);
    if (c) anfi_push(r->a, k->body, store(r, c));
  }
}

static const anfi_str *new_name(user *u) {
  const anfi_str *name =
      anfi_t_name(u->p->t, anfi_sprintf(u->p->scratch, "%s_run%u", u->f->name->s, ++u->made));
  if (anfi_t_mod_find(u->p->m, name) || anfi_t_mod_find(u->out, name))
    name = anfi_t_fresh_func(u->out, anfi_t_fresh_func(u->p->m, name->s)->s);
  return name;
}

static tstmt part(run *r, uint32_t from, uint32_t to) {
  tstore *t = r->u->p->t;
  texpr param[ANF_TIR_ELEM_COUNT], arg[ANF_TIR_ELEM_COUNT];
  uint32_t n = 0;
  stmts body = {0};
  making k = {.r = r, .body = &body};
  anfi_map_init(&k.have, r->a);
  fill(&k, from, to);
  tvisitor v;
  anfi_t_visitor_init(&v, t, r->a, NULL);
  v.fresh = true;
  for (uint32_t e = 0; e < ANF_TIR_ELEM_COUNT; e++) {
    if (!r->array[e]) continue;
    arg[n] = r->array[e];
    param[n] = anfi_t_tensor1(t, (anf_tir_elem)e, "kept", r->count[e]);
    anfi_t_map_var(&v, arg[n], param[n]);
    n++;
  }
  tstmt own = anfi_t_visit_stmt(&v, anfi_t_stmts(t, body.n, body.at));
  tattrs at = anfi_t_attr_set(t, (tattrs){0}, TA_is_private, 1);
  at = anfi_t_attr_set(t, at, TA_inline_level, 0);
  tfunc f = anfi_t_func(t, new_name(r->u), anfi_t_dt(ANF_TIR_void), n, param, own, at);
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
  for (size_t i = 0; i < r->crosses.n; i++)
    if (r->crosses.at[i].before) anfi_push(r->a, out, store(r, &r->crosses.at[i]));
  for (uint32_t i = r->from, n = r->u->part; i < r->to; i += n)
    anfi_push(r->a, out, part(r, i, r->to - i > n ? i + n : r->to));
  for (size_t i = 0; i < r->crosses.n; i++) {
    const cross *c = &r->crosses.at[i];
    if (!c->before && *anfi_map_find(&r->last, anfi_key(c->var)) > r->to)
      anfi_push(r->a, out, load(r, c));
  }
}

static tstmt enter(tvisitor *v, tstmt s) {
  stmts out = {0};
  run all = {.u = (user *)v->user, .a = v->scratch, .s = s->s};
  uint32_t longest = LONG_PARTS * all.u->part;
  if (s->kind != TS_stmts || s->sub || s->n <= longest) return s;
  anfi_map_init(&all.last, v->scratch);
  find_last_uses(&all, s->n);
  for (uint32_t i = 0, end; i < s->n; i = end) {
    for (end = i; end < s->n && is_plain(s->s[end]); end++) continue;
    if (end - i > longest) {
      run r = all;
      r.from = i, r.to = end;
      anfi_map_init(&r.place, v->scratch);
      anfi_map_init(&r.number, v->scratch);
      anfi_map_init(&r.inner, v->scratch);
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
    anfi_t_mod_add(u.out, u.f->body ? anfi_t_visit_func(&v, u.f) : u.f);
  }
  return u.out;
}
