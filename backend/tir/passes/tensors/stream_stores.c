// SPDX-License-Identifier: Apache-2.0
/* stream_stores: what is written to a tensor that no cache holds goes past the caches, a line of 64 bytes at once.
 *
 *   for i in (0, 4096, 1) {        →   for i_o in (0, 4096, 16) {
 *     var v: f32 = x[i]                  tensor line: [f32 * 16]
 *     y[i] = (v + 1.f)                   for i in (i_o, (i_o + 16), 1) { var v: f32 = x[i]; line[(i - i_o)] = (v + 1.f) }
 *   }                                    y[i_o @ 16] = line[0 @ 16] @[stream]
 *                                      }
 *
 * An ordinary store reads its line of memory first. Here that would be for nothing, as the tensor is not smaller than the
 * last cache: its first line is gone from there when its last is written. The outermost loop around does not name the tensor
 * again, so no line is in a cache already. Lines are whole: the place of the loop's first element in the tensor is a multiple
 * of a line, as far as constants and enclosing loops show. Whether the tensor starts with a line only running tells; an engine
 * looks, and stores in the ordinary way if not. */
#include "backend/tir/tir.h"

enum { LINE = 64, DEEPEST = 32, LONGEST = 96 };

typedef struct user {
  tpass_cx *p;
  talias alias;
  tstmt outer; // the outermost loop that is open
} user;

/* ---- sizes ---- */

static bool is_large(const tpass_cx *p, texpr e) {
  uint64_t n;
  return e->kind == TX_tensor && !e->sub && anfi_t_const_elems(e, &n) &&
         n >= p->opts->cache_bytes / anfi_t_bytes(anfi_t_dt((anf_tir_elem)e->dtype.elem));
}

typedef struct finder {
  const tpass_cx *p;
  bool found;
} finder;

static bool no_expr(tviewer *v, texpr e) {
  (void)v, (void)e;
  return false;
}
static bool see_define(tviewer *v, tstmt s) {
  finder *d = (finder *)v->user;
  d->found |= s->kind == TS_define && is_large(d->p, s->e[0]);
  return !d->found;
}
static bool has_large(const tpass_cx *p, tfunc f) {
  finder d = {p, false};
  tviewer v = {.user = &d, .enter_expr = no_expr, .enter_stmt = see_define};
  for (uint32_t i = 0; i < f->n; i++) d.found |= is_large(p, f->param[i]);
  anfi_t_view_stmt(&v, f->body);
  return d.found;
}

static texpr definition(const user *u, texpr var) {
  uint64_t *at = anfi_map_find(&u->alias.where, anfi_key(var));
  tstmt s = at ? (tstmt)(uintptr_t)*at : NULL;
  return s && s->kind == TS_define && !anfi_t_assigned(&u->alias, var) ? s->e[1] : NULL;
}

/* Is it the same before the loop and behind it? */
static bool is_settled(const user *u, texpr e) {
  if (e->kind == TX_var && anfi_t_assigned(&u->alias, e)) return false;
  for (uint32_t i = 0; i < e->n; i++)
    if (!is_settled(u, e->in[i])) return false;
  return anfi_t_pure(e);
}

/* ---- multiples ---- */

static bool multiple(const user *u, texpr e, uint64_t of, int depth);

static bool multiple_var(const user *u, texpr var, uint64_t of, int depth) {
  uint64_t *at = anfi_map_find(&u->alias.where, anfi_key(var));
  tstmt s = at ? (tstmt)(uintptr_t)*at : NULL;
  if (!s || anfi_t_assigned(&u->alias, var)) return false;
  if (s->kind == TS_define) return s->e[1] && multiple(u, s->e[1], of, depth);
  return multiple(u, s->e[1], of, depth) && multiple(u, s->e[3], of, depth);
}

/* `of` is a power of two, so wrapping does no harm. */
static bool multiple(const user *u, texpr e, uint64_t of, int depth) {
  int64_t k;
  if (anfi_t_const_i64(e, &k)) return (uint64_t)k % of == 0;
  if (!anfi_t_is_int(e->dtype) || !depth--) return false;
  switch ((tkind)e->kind) {
  case TX_var: return multiple_var(u, e, of, depth);
  case TX_cast: return anfi_t_is_int(e->in[0]->dtype) && multiple(u, e->in[0], of, depth);
  case TX_add:
  case TX_sub: return multiple(u, e->in[0], of, depth) && multiple(u, e->in[1], of, depth);
  case TX_mul: return multiple(u, e->in[0], of, depth) || multiple(u, e->in[1], of, depth);
  default: return false;
  }
}

/* Does the tensor start with a line of what it is a view of? */
static bool starts_with_line(const user *u, texpr tensor, uint64_t lanes) {
  texpr root = anfi_t_root(&u->alias, tensor);
  for (int depth = DEEPEST; tensor != root && depth; depth--) {
    texpr at = definition(u, tensor);
    if (!at || at->kind != TX_tensorptr || at->nidx != 1 ||
        at->in[0]->dtype.elem != root->dtype.elem || !multiple(u, at->in[1], lanes, DEEPEST))
      return false;
    tensor = at->in[0];
  }
  return tensor == root;
}

/* ---- what a loop is ---- */

typedef struct site {
  texpr tensor, i, rest; // y[i + rest]
  uint64_t lanes;        // elements of a line
} site;

typedef struct counter {
  const talias *alias;
  texpr root;
  uint32_t n;
} counter;

static bool count_expr(tviewer *v, texpr e) {
  counter *c = (counter *)v->user;
  if (e->kind == TX_tensor)
    c->n += anfi_t_root(c->alias, e) == c->root || !anfi_t_root(c->alias, e);
  return e->kind != TX_tensor;
}
static bool count_stmt(tviewer *v, tstmt s) {
  (void)v;
  return s->kind != TS_define || s->e[0]->kind != TX_tensor; // a view counts where it is used
}

/* Large, and named once in the outermost loop. */
static bool is_streamed(const user *u, texpr tensor) {
  texpr root = anfi_t_root(&u->alias, tensor);
  if (!root || anfi_t_has_strides(tensor) || !is_large(u->p, root)) return false;
  counter c = {&u->alias, root, 0};
  tviewer v = {.user = &c, .enter_expr = count_expr, .enter_stmt = count_stmt};
  anfi_t_view_stmt(&v, u->outer);
  return c.n == 1;
}

/* The expression by variables of outside the body. */
static texpr outside(tvisitor *v, texpr e) {
  const user *u = (const user *)v->user;
  texpr init = e->kind == TX_var ? definition(u, e) : NULL;
  return init ? anfi_t_visit_expr(v, init) : e;
}

static bool site_of(tvisitor *v, tstmt assign, site *o) {
  user *u = (user *)v->user;
  texpr to = assign->e[0], at;
  if (to->kind != TX_indexing || to->nidx != 1 || anfi_t_mask(to) || anfi_t_total(to->dtype) != 1 ||
      anfi_t_is_elem(to->dtype, ANF_TIR_bool) || !anfi_t_same(to->dtype, assign->e[1]->dtype))
    return false;
  o->tensor = to->in[0];
  o->lanes = LINE / anfi_t_bytes(to->dtype);
  tvisitor w;
  anfi_t_visitor_init(&w, v->t, v->scratch, u);
  w.expr = outside;
  int64_t coef;
  at = anfi_t_visit_expr(&w, to->in[1]);
  return anfi_t_affine(v->t, at, o->i, &coef, &o->rest) && coef == 1 &&
         (!o->rest || (is_settled(u, o->rest) && multiple(u, o->rest, o->lanes, DEEPEST))) &&
         is_streamed(u, o->tensor) && starts_with_line(u, o->tensor, o->lanes);
}

/* Nothing but the names in it tells what it reads. */
static bool is_plain(texpr e) {
  if (e->kind == TX_call ||
      (e->kind == TX_intrin_call && anfi_t_intrins[e->sub].purity >= TP_MEMORY))
    return false;
  for (uint32_t i = 0; i < e->n; i++)
    if (!is_plain(e->in[i])) return false;
  return true;
}

/* Short code over scalars, and then one element. Turns of long code are computed side by side in more than one vector,
 * which a line does not have, and wait less for memory. */
static bool is_run(tstmt s) {
  tstmt body = s->s[0];
  uint32_t n = body->n;
  if (s->kind != TS_for_loop || s->sub || !n || body->size > LONGEST ||
      !anfi_t_is_const(s->e[3], 1) || anfi_t_bytes(s->e[0]->dtype) < 4)
    return false;
  for (uint32_t k = 0; k < n; k++)
    if ((body->s[k]->kind != TS_define && body->s[k]->kind != TS_assign) ||
        (body->s[k]->e[0]->kind == TX_var) != (k + 1 < n) ||
        (body->s[k]->e[1] && !is_plain(body->s[k]->e[1])))
      return false;
  return true;
}

/* ---- lines ---- */

/* line[i - from] = value in the place of the element; then the line to its place */
static tstmt one_line(tvisitor *v, tstmt loop, const site *o, texpr from) {
  tstore *t = v->t;
  tstmt body = loop->s[0], *s = ANFI_NEW_N(v->scratch, tstmt, body->n), last = body->s[body->n - 1];
  texpr line = anfi_t_tensor1(t, (anf_tir_elem)o->tensor->dtype.elem, "line", o->lanes),
        zero = anfi_t_index(t, 0),
        k = anfi_t_cast(t, anfi_t_dt(ANF_TIR_index), anfi_t_sub(t, o->i, from)),
        n = anfi_t_int(t, from->dtype, (int64_t)o->lanes),
        at = anfi_t_cast(t, anfi_t_dt(ANF_TIR_index), from);
  memcpy(s, body->s, body->n * sizeof *s);
  s[body->n - 1] = anfi_t_assign(t, anfi_t_at(t, line, 1, &k, 1, 0, NULL), last->e[1]);
  if (o->rest) at = anfi_t_add(t, anfi_t_cast(t, at->dtype, o->rest), at);
  tstmt put = anfi_t_assign(t, anfi_t_at(t, o->tensor, 1, &at, (uint16_t)o->lanes, 0, NULL),
                            anfi_t_at(t, line, 1, &zero, (uint16_t)o->lanes, 0, NULL));
  tstmt all[] = {anfi_t_define(t, TL_local, line, NULL),
                 anfi_t_for(t, o->i, from, anfi_t_add(t, from, n), loop->e[3],
                            anfi_t_stmts(t, body->n, s), false, 0),
                 anfi_t_with_attrs(t, put, anfi_t_attr_set(t, last->attrs, TA_stream, 1))};
  return anfi_t_stmts(t, 3, all);
}

/* Turns of the loop: a constant, or that of (b, b + constant) */
static bool turns_of(tstmt s, uint64_t *n) {
  int64_t b, e, step;
  texpr end = s->e[2];
  if (anfi_t_loop_bounds(s, &b, &e, &step)) return *n = anfi_t_trip(b, e, step), true;
  if (end->kind != TX_add || !anfi_t_identical(end->in[0], s->e[1]) ||
      !anfi_t_const_i64(end->in[1], &e) || e < 0)
    return false;
  return *n = (uint64_t)e, true;
}

static tstmt in_lines(tvisitor *v, tstmt s, const site *o) {
  tstore *t = v->t;
  uint64_t turns = 0;
  bool known = turns_of(s, &turns), whole = known && turns % o->lanes == 0;
  texpr b = s->e[1], e = s->e[2], n = anfi_t_int(t, o->i->dtype, (int64_t)o->lanes), middle = e,
        from = anfi_t_var(t, o->i->dtype, anfi_sprintf(&t->arena, "%s_o", o->i->u.name->s));
  if (known && turns < o->lanes) return s;
  if (!whole) { // b + the lines that fit
    texpr count = anfi_t_sub(t, anfi_t_intrin2(t, TI_max, e, b), b);
    middle = anfi_t_add(t, b, anfi_t_mul(t, anfi_t_bin(t, TX_div, count, n), n));
  }
  tstmt lines = anfi_t_for(t, from, b, middle, n, one_line(v, s, o, from), false, 0);
  if (whole) return anfi_t_with_comment(t, anfi_t_with_attrs(t, lines, s->attrs), s->comment);
  const texpr x[4] = {o->i, middle, e, s->e[3]};
  tstmt two[] = {lines,
                 anfi_t_copy_stmt(t, v->scratch, anfi_t_remake_stmt(t, s, x, s->s), NULL, NULL)};
  return anfi_t_splice(t, 2, two);
}

static tstmt enter(tvisitor *v, tstmt s) {
  user *u = (user *)v->user;
  if (s->kind == TS_for_loop && !u->outer) u->outer = s;
  return s;
}

static tstmt leave(tvisitor *v, tstmt s) {
  user *u = (user *)v->user;
  bool outermost = s->kind == TS_for_loop && u->outer && u->outer->e[0] == s->e[0];
  site o = {.i = s->e[0]};
  if (s->kind == TS_for_loop && is_run(s) && site_of(v, s->s[0]->s[s->s[0]->n - 1], &o) &&
      is_settled(u, s->e[1]) && is_settled(u, s->e[2]) && multiple(u, s->e[1], o.lanes, DEEPEST))
    s = in_lines(v, s, &o);
  if (outermost) u->outer = NULL;
  return s;
}

tfunc anfi_t_pass_stream_stores(tpass_cx *p, tfunc f) {
  user u = {.p = p};
  tvisitor v;
  if (!has_large(p, f)) return f;
  anfi_t_alias_init(&u.alias, p->t, p->scratch, f);
  anfi_t_visitor_init(&v, p->t, p->scratch, &u);
  v.enter = enter;
  v.stmt = leave;
  return anfi_t_visit_func(&v, f);
}
