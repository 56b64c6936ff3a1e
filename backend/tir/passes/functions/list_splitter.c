// SPDX-License-Identifier: Apache-2.0
/* list_splitter: outlines long lists of statements of any kind, so that code generators need linear time.
 *
 *   for .. { s1 = s1 + x[i] }  y1 = s1  f(y1, t1)  ..  (a thousand times)   →   g_list1(x, t, kept)  g_list2(x, t, kept)  ..
 *
 * A part has some 4,000 nodes. A variable that two parts use goes through an array of the caller, one for each
 * element type: a part loads it before the first statement that uses it, and stores it after each that assigns
 * it. A tensor is a parameter; of a view the tensor that it lies in is, and the part defines the view again, since
 * parameters do not overlap. Tensors that the list defines are defined before its first part.
 * INVARIANT: a statement that has a vector, a pointer or a tensor of unknown place in common with others stays. */
#include "backend/tir/tir.h"

#ifdef ANF_HOSTILE
enum { PART = 12, LONG_PARTS = 3, MAX_PARAMS = 4 };
#else
enum {
  PART = 512,     // statements of a part
  LONG_PARTS = 3, // parts of the longest list left whole
  MAX_PARAMS = 60 // tensors of a part that has two statements or more
};
#endif
enum { STATEMENT = 8 }; // nodes

typedef enum place { UNKNOWN, ROOT, VIEW, GLOBAL } place; // of a tensor

/* Facts about a variable or tensor, by its number. */
typedef struct fact {
  /* in the function */
  tstmt define;    // NULL: a parameter, or the variable of a loop
  uint32_t global; // 1: of the module
  /* in the current list */
  uint32_t list;  // which what follows is known for
  uint32_t first; // 1 + the statement of the list that defines it; 0: defined before
  uint32_t last;  // 1 + the last statement of the list that uses it
  bool inner;     // defined within that statement
  /* in the current run */
  uint32_t run;    // which what follows is known for
  uint32_t cross;  // 1 + its place in `crosses`
  uint32_t part;   // 1 + the part that counts it as a parameter, or has it
  uint32_t stored; // 1 + the statement behind which it is stored
  bool assigned;   // other than where it is defined
  bool needed;     // a view of it stays where it was
} fact;

typedef struct user {
  tpass_cx *p;
  tmod *out;
  tfunc f;
  fact *of;
  uint32_t nfact, lists, runs, made;
  uint32_t part, longest; // nodes
} user;

typedef struct cross {
  texpr var;
  uint32_t slot; // in the array of its type
} cross;

typedef ANFI_VEC(tstmt) stmts;

typedef struct run {
  user *u;
  anfi_arena *a;
  const tstmt *s;
  uint32_t from, to, at; // at: the current statement
  uint32_t *part;        // of each statement from `from` on
  ANFI_VEC(cross) crosses;
  uint32_t count[ANF_TIR_ELEM_COUNT];
  texpr array[ANF_TIR_ELEM_COUNT];
  bool plain;
  uint32_t params; // of the current part
} run;

static fact *of(user *u, texpr x) {
  fact *k = &u->of[x->id];
  if (k->list != u->lists) *k = (fact){.define = k->define, .global = k->global, .list = u->lists};
  if (k->run != u->runs)
    k->run = u->runs, k->cross = k->part = k->stored = 0, k->assigned = k->needed = false;
  return k;
}

static bool is_named(texpr e) { return e->kind == TX_var || e->kind == TX_tensor; }

/* ---- where tensors are ---- */

static bool is_dense(texpr x) {
  uint64_t n;
  return anfi_t_const_elems(x, &n) && !anfi_t_has_strides(x);
}

static bool is_view(tstmt s) {
  return s && s->e[0]->kind == TX_tensor && s->e[1] && s->e[1]->kind == TX_tensorptr &&
         s->e[1]->n == 2 && s->e[1]->in[1]->kind == TX_constant;
}

/* `root`: what parts get as a parameter. */
static place place_of(user *u, texpr x, texpr *root) {
  place p = ROOT;
  for (;; p = VIEW) {
    const fact *k = of(u, x);
    *root = x;
    if (k->global) return p == ROOT ? GLOBAL : VIEW;
    if (!is_dense(x)) return UNKNOWN;
    if (!k->define || !k->define->e[1] || anfi_t_is_list(k->define->e[1])) return p;
    if (!is_view(k->define)) return UNKNOWN;
    x = k->define->e[1]->in[0];
  }
}

/* ---- which statements ---- */

static bool crosses_well(tdtype t) { return !t.ptr && anfi_t_total(t) == 1; }

/* A variable of a long list that is defined without a value gets one, so that it can be kept. */
static tstmt with_value(tstore *t, tstmt s) {
  uint64_t bits = 0;
  if (s->kind != TS_define || s->e[1] || s->e[0]->kind != TX_var || !crosses_well(s->e[0]->dtype))
    return s;
  return anfi_t_define(t, (tlinkage)s->sub, s->e[0], anfi_t_bits(t, s->e[0]->dtype, 1, &bits));
}

/* A variable of before that may have no value yet cannot be kept; those of the list have one (with_value). */
static bool has_value(const fact *k) { return k->first || !k->define || k->define->e[1]; }

static bool see_expr(tviewer *v, texpr e) {
  run *r = (run *)v->user;
  texpr root;
  if (e->kind == TX_ssa_phi) return r->plain = false;
  if (!is_named(e)) return true;
  fact *k = of(r->u, e);
  k->last = r->at + 1;
  if (k->inner && k->first == r->at + 1) return true;
  if (e->kind == TX_var) r->plain = r->plain && crosses_well(e->dtype) && has_value(k);
  else r->plain = r->plain && place_of(r->u, e, &root) != UNKNOWN;
  return e->kind == TX_var;
}

/* Can the definition be in a part, or in front of all of them? */
static bool may_move(user *u, tstmt define) {
  texpr root, x = define->e[0];
  if (x->kind == TX_var) return crosses_well(x->dtype);
  return !define->attrs.n && !anfi_t_is_list(define->e[1]) && place_of(u, x, &root) != UNKNOWN;
}

static bool see_stmt(tviewer *v, tstmt s) {
  run *r = (run *)v->user;
  bool defines = s->kind == TS_define || s->kind == TS_for_loop;
  r->plain = r->plain && s->kind != TS_returns && !(s->kind == TS_define && s->sub != TL_local);
  if (!defines) return true;
  fact *k = of(r->u, s->e[0]);
  k->first = r->at + 1;
  k->inner = s != r->s[r->at];
  if (s->kind == TS_define && !k->inner) r->plain = r->plain && may_move(r->u, s);
  return true;
}

/* Also notes where the list uses what. */
static bool is_plain(run *r, uint32_t at) {
  tviewer v = {.user = r, .enter_expr = see_expr, .enter_stmt = see_stmt};
  r->at = at;
  r->plain = true;
  anfi_t_view_stmt(&v, r->s[at]);
  return r->plain;
}

/* ---- parts ---- */

static bool see_param(tviewer *v, texpr e) {
  run *r = (run *)v->user;
  texpr root;
  if (e->kind != TX_tensor || (of(r->u, e)->inner && of(r->u, e)->first == r->at + 1)) return true;
  place_of(r->u, e, &root);
  fact *k = of(r->u, root);
  uint32_t now = r->part[r->at - r->from] + 1;
  if (k->part != now && !k->global) k->part = now, r->params++;
  return true;
}

/* A part ends before the statement with which it would be too large, or have too many parameters. */
static uint32_t cut(run *r) {
  uint32_t part = 0, nodes = 0, first = r->from;
  tviewer v = {.user = r, .enter_expr = see_param};
  r->params = 0;
  for (r->at = r->from; r->at < r->to; r->at++) {
    r->part[r->at - r->from] = part;
    anfi_t_view_stmt(&v, r->s[r->at]);
    nodes += r->s[r->at]->size;
    if (r->at == first || (nodes <= r->u->part && r->params <= MAX_PARAMS)) continue;
    r->part[r->at - r->from] = ++part;
    first = r->at;
    nodes = r->s[r->at]->size;
    r->params = 0;
    anfi_t_view_stmt(&v, r->s[r->at]);
  }
  return part + 1;
}

/* ---- what crosses ---- */

static bool is_inner(run *r, const fact *k) { return k->inner && k->first == r->at + 1; }

static void add_cross(run *r, texpr x) {
  fact *k = of(r->u, x);
  if (k->cross) return;
  anfi_push(r->a, &r->crosses, ((cross){x, r->count[x->dtype.elem]++}));
  k->cross = (uint32_t)r->crosses.n;
}

/* A variable that is defined before the run, or in another part of it. */
static bool see_cross(tviewer *v, texpr e) {
  run *r = (run *)v->user;
  if (e->kind != TX_var) return true;
  fact *k = of(r->u, e);
  if (k->first == r->at + 1) return true;
  k->assigned |= v->lvalue != 0;
  if (k->first <= r->from || r->part[k->first - 1 - r->from] != r->part[r->at - r->from])
    add_cross(r, e);
  return true;
}

static void find_crosses(run *r) {
  tviewer v = {.user = r, .enter_expr = see_cross};
  for (r->at = r->from; r->at < r->to; r->at++) {
    tstmt s = r->s[r->at];
    anfi_t_view_stmt(&v, s);
    if (s->kind == TS_define && s->e[0]->kind == TX_var && of(r->u, s->e[0])->last > r->to)
      add_cross(r, s->e[0]);
  }
}

static texpr kept(const run *r, const texpr *array, const cross *c) {
  texpr at = anfi_t_index(r->u->p->t, c->slot);
  return anfi_t_at(r->u->p->t, array[c->var->dtype.elem], 1, &at, 1, 0, NULL);
}

/* ---- a part as a function ---- */

typedef struct making {
  run *r;
  uint32_t part;
  stmts body;
  texpr array[ANF_TIR_ELEM_COUNT];
  ANFI_VEC(texpr) param, arg;
  tvisitor own; // to what variables and tensors are there
} making;

static void add_param(making *k, texpr arg, texpr param) {
  anfi_push(k->r->a, &k->arg, arg);
  anfi_push(k->r->a, &k->param, param);
}

static texpr tensor_like(tstore *t, texpr x) {
  return anfi_t_tensor(t, (anf_tir_elem)x->dtype.elem, x->sub, x->u.name->s, x->nidx, x->in, NULL);
}

/* The tensor in the part: a parameter, or a view of one or of a global. */
static void have_tensor(making *k, texpr x) {
  user *u = k->r->u;
  ANFI_VEC(texpr) chain = {0};
  for (; !anfi_t_mapped(&k->own, x) && !of(u, x)->global; x = of(u, x)->define->e[1]->in[0]) {
    anfi_push(k->r->a, &chain, x);
    if (!is_view(of(u, x)->define)) break;
  }
  while (chain.n) {
    x = chain.at[--chain.n];
    texpr to = tensor_like(u->p->t, x);
    const fact *f = of(u, x);
    if (!is_view(f->define)) add_param(k, x, to);
    else
      anfi_push(k->r->a, &k->body,
                anfi_t_define(u->p->t, TL_local, to, anfi_t_visit_expr(&k->own, f->define->e[1])));
    anfi_t_map_var(&k->own, x, to);
  }
}

static bool see_missing(tviewer *v, texpr e) {
  making *k = (making *)v->user;
  run *r = k->r;
  if (!is_named(e) || anfi_t_mapped(&k->own, e)) return true;
  const fact *f = of(r->u, e);
  if (is_inner(r, f)) return true;
  if (e->kind == TX_tensor) {
    have_tensor(k, e);
    return false;
  }
  if (!f->cross || f->first == r->at + 1) return true;
  texpr to = anfi_t_retype(r->u->p->t, e, e->dtype);
  texpr from = kept(r, k->array, &r->crosses.at[f->cross - 1]);
  anfi_push(r->a, &k->body, anfi_t_define(r->u->p->t, TL_local, to, from));
  anfi_t_map_var(&k->own, e, to);
  return true;
}

static void store(making *k, texpr x) {
  run *r = k->r;
  fact *f = of(r->u, x);
  if (!f->cross || f->stored == r->at + 1) return;
  f->stored = r->at + 1;
  texpr to = anfi_t_mapped(&k->own, x);
  anfi_push(
      r->a, &k->body,
      anfi_t_assign(r->u->p->t, kept(r, k->array, &r->crosses.at[f->cross - 1]), to ? to : x));
}

static bool see_assigned(tviewer *v, texpr e) {
  making *k = (making *)v->user;
  if (e->kind == TX_var && v->lvalue && !is_inner(k->r, of(k->r->u, e))) store(k, e);
  return true;
}

/* Tensors and views that the list defines are defined in front of it, and views in each part. */
static void add(making *k, tstmt s) {
  tstore *t = k->r->u->p->t;
  tviewer uses = {.user = k, .enter_expr = see_missing},
          writes = {.user = k, .enter_expr = see_assigned};
  if (s->kind == TS_define && s->e[0]->kind == TX_tensor) return;
  s = with_value(t, s);
  anfi_t_view_stmt(&uses, s);
  if (s->kind == TS_define && of(k->r->u, s->e[0])->cross)
    anfi_t_map_var(&k->own, s->e[0], anfi_t_retype(t, s->e[0], s->e[0]->dtype));
  t->line = s->line, t->col = s->col;
  anfi_push(k->r->a, &k->body, anfi_t_visit_stmt(&k->own, s));
  if (s->kind == TS_define) store(k, s->e[0]);
  else anfi_t_view_stmt(&writes, s);
}

static const anfi_str *new_name(user *u) {
  const anfi_str *name =
      anfi_t_name(u->p->t, anfi_sprintf(u->p->scratch, "%s_list%u", u->f->name->s, ++u->made));
  if (anfi_t_mod_find(u->p->m, name) || anfi_t_mod_find(u->out, name))
    name = anfi_t_fresh_func(u->out, anfi_t_fresh_func(u->p->m, name->s)->s);
  return name;
}

/* The call of a part that begins at *at, which is set to where it ends. */
static tstmt part(run *r, uint32_t *at) {
  tstore *t = r->u->p->t;
  making k = {.r = r, .part = r->part[*at - r->from]};
  anfi_t_visitor_init(&k.own, t, r->a, NULL);
  for (uint32_t e = 0; e < ANF_TIR_ELEM_COUNT; e++)
    if (r->array[e])
      add_param(&k, r->array[e],
                k.array[e] = anfi_t_tensor1(t, (anf_tir_elem)e, "kept", r->count[e]));
  for (r->at = *at; r->at < r->to && r->part[r->at - r->from] == k.part; r->at++)
    add(&k, r->s[r->at]);
  *at = r->at;
  tattrs attrs = anfi_t_attr_set(t, (tattrs){0}, TA_is_private, 1);
  attrs = anfi_t_attr_set(t, attrs, TA_inline_level, 0);
  tfunc f = anfi_t_func(t, new_name(r->u), anfi_t_dt(ANF_TIR_void), (uint32_t)k.param.n, k.param.at,
                        anfi_t_stmts(t, k.body.n, k.body.at), attrs);
  anfi_t_mod_add(r->u->out, f);
  return anfi_t_eval(t, anfi_t_call(t, f->name, f->ret, (uint32_t)k.arg.n, k.arg.at));
}

/* ---- lists ---- */

/* Tensors are defined before the parts; of views only those that something behind the parts uses. */
static void hoist_tensors(run *r, stmts *out) {
  stmts found = {0};
  for (uint32_t i = r->to; i-- > r->from;) {
    tstmt s = r->s[i];
    if (s->kind != TS_define || s->e[0]->kind != TX_tensor) continue;
    const fact *k = of(r->u, s->e[0]);
    if (is_view(s) && k->last <= r->to && !k->needed) continue;
    if (is_view(s)) of(r->u, s->e[1]->in[0])->needed = true;
    anfi_push(r->a, &found, s);
  }
  while (found.n) anfi_push(r->a, out, found.at[--found.n]);
}

static void split(run *r, stmts *out) {
  tstore *t = r->u->p->t;
  find_crosses(r);
  hoist_tensors(r, out);
  for (uint32_t e = 0; e < ANF_TIR_ELEM_COUNT; e++) {
    if (!r->count[e]) continue;
    r->array[e] = anfi_t_tensor1(t, (anf_tir_elem)e, "kept", r->count[e]);
    anfi_push(r->a, out, anfi_t_define(t, TL_local, r->array[e], NULL));
  }
  for (size_t i = 0; i < r->crosses.n; i++) {
    const cross *c = &r->crosses.at[i];
    if (of(r->u, c->var)->first <= r->from)
      anfi_push(r->a, out, anfi_t_assign(t, kept(r, r->array, c), c->var));
  }
  for (uint32_t at = r->from; at < r->to;) anfi_push(r->a, out, part(r, &at));
  for (size_t i = 0; i < r->crosses.n; i++) {
    const cross *c = &r->crosses.at[i];
    const fact *k = of(r->u, c->var);
    if (k->first > r->from && k->last > r->to)
      anfi_push(r->a, out, anfi_t_define(t, TL_local, c->var, kept(r, r->array, c)));
    else if (k->first <= r->from && k->assigned)
      anfi_push(r->a, out, anfi_t_assign(t, c->var, kept(r, r->array, c)));
  }
}

static bool is_long(const user *u, const tstmt *s, uint32_t from, uint32_t to) {
  uint64_t n = 0;
  for (uint32_t i = from; i < to; i++) n += s[i]->size;
  return n > u->longest;
}

/* Of the run of plain statements that begins at `i`, or of one that is not plain. */
static uint32_t end_of(const bool *plain, uint32_t i, uint32_t n) {
  uint32_t end = i;
  while (end < n && plain[end]) end++;
  return end + (end == i);
}

/* Room for facts about what was made since. */
static void grow(user *u) {
  if (u->nfact >= u->p->t->next_id) return;
  fact *more = ANFI_NEW_N(u->p->scratch, fact, 2 * (size_t)u->p->t->next_id);
  if (u->nfact) memcpy(more, u->of, u->nfact * sizeof *more);
  u->of = more;
  u->nfact = 2 * u->p->t->next_id;
}

static tstmt leave(tvisitor *v, tstmt s) {
  user *u = (user *)v->user;
  stmts out = {0};
  if (s->kind == TS_define) grow(u), u->of[s->e[0]->id].define = s;
  if (s->kind != TS_stmts || s->n < 2 || s->size <= u->longest) return s;
  grow(u);
  u->lists++;
  run all = {.u = u, .a = v->scratch, .s = s->s};
  bool any = false; // is anything split?
  bool *plain = ANFI_NEW_N(v->scratch, bool, s->n);
  for (uint32_t i = 0; i < s->n; i++) plain[i] = is_plain(&all, i);
  for (uint32_t i = 0, end; i < s->n && !any; i = end) {
    end = end_of(plain, i, s->n);
    any = plain[i] && is_long(u, s->s, i, end);
  }
  if (!any) return s;
  for (uint32_t i = 0, end; i < s->n; i = end) {
    run r = all;
    end = end_of(plain, i, s->n);
    r.from = i, r.to = end;
    r.part = ANFI_NEW_N(v->scratch, uint32_t, end - i);
    u->runs++;
    if (plain[i] && is_long(u, s->s, i, end) && cut(&r) > 1) split(&r, &out);
    else
      for (uint32_t k = i; k < end; k++) anfi_push(v->scratch, &out, with_value(v->t, s->s[k]));
  }
  return s->sub ? anfi_t_splice(v->t, out.n, out.at) : anfi_t_stmts(v->t, out.n, out.at);
}

static uint32_t part_size(tfunc f) {
  int64_t n;
  return anfi_t_attr(f->attrs, TA_scalar_part, &n) && n > 0 && n < PART ? (uint32_t)n : PART;
}

const tmod *anfi_t_pass_list_splitter(tpass_cx *p, const tmod *m) {
  user u = {.p = p, .out = anfi_t_mod_like(m)};
  grow(&u);
  for (size_t i = 0; i < m->global.n; i++) u.of[m->global.at[i]->e[0]->id].global = 1;
  for (size_t i = 0; i < m->func.n; i++) {
    tvisitor v;
    u.f = m->func.at[i];
    u.made = 0;
    u.part = STATEMENT * part_size(u.f);
    u.longest = LONG_PARTS * u.part;
    anfi_t_visitor_init(&v, p->t, p->scratch, &u);
    v.stmt = leave;
    tfunc f = u.f->body && u.f->body->size > u.longest ? anfi_t_visit_func(&v, u.f) : u.f;
    anfi_t_mod_add(u.out,
                   f == u.f ? f : anfi_t_func_without(p->t, f, TA_pure)); // parts share memory
  }
  return u.out;
}
