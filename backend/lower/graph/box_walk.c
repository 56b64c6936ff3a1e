// SPDX-License-Identifier: Apache-2.0
/* ResidualAdd, ResidualZeros, ResidualSelect and ResidualSpread: the contents of a box or stack are known by the tag of its
 * record alone, so they are functions of the module with a case for each type that is boxed anywhere
 * in it. They are made when everything else is lowered, and all those types are known but those that
 * spreading makes, which are added meanwhile.
 *   residual_add(a, b)        floats are added, the rest is that of a
 *   residual_zeros(a)         floats are zero, the rest is that of a; boxes without stacks are KEPT_ZERO
 *   residual_select(a, b, c)  by lane: a where c, else b
 *   residual_spread(a)        a repeated by lane
 * Address 0 is nothing: of two, the other one is the result. KEPT_ZERO is a box of zeros. */
#include "backend/lower/graph/graph.h"

typedef struct making {
  /* the walk */
  glow *w;
  const gwalk *f;
  bool two;    // of a and b
  bool stacks; // boxes have stacks in them, whose zeros have as many rounds
  /* operands and lanes */
  texpr a, b, result; // addresses
  texpr c;            // of ResidualSelect: bools
  uint64_t n, outer;  // lanes in all; those of all dims but the last
} making;

/* The leaves of a record, and where they lie. */
typedef struct form {
  anfi_leaves l;
  uint64_t *at, size;
} form;

static texpr word(const making *m, uint64_t v) { return anfi_t_index(m->w->t, v); }
static bool sums(const making *m) {
  return m->f->op == ANF_OP_ResidualAdd || m->f->op == ANF_OP_ResidualZeros;
}

static bool form_of(glow *w, const anf_type *t, uint64_t from, form *f) {
  uint64_t align;
  *f = (form){0};
  if (!anfi_glow_leaves(w, t, anfi_nowhere(), &f->l)) return false;
  f->at = ANFI_NEW_N(w->a, uint64_t, f->l.n + 1);
  f->size = anfi_glow_layout(&f->l, from, f->at, &align);
  return true;
}

static bool is_float(const anfi_leaf *l) {
  anfi_class c = anfi_dtype_class((anf_dtype)l->type->dtype);
  return !l->boxed && (c == ANFI_CLASS_FLOAT || c == ANFI_CLASS_COMPLEX);
}

/* The sum, or zero, of an element; f16 and bf16 are added as f32. */
static texpr sum(const making *m, anf_tir_elem e, texpr x, texpr y) {
  tstore *t = m->w->t;
  tdtype d = anfi_t_accumulator(anfi_t_dt(e));
  if (!m->two) return anfi_t_int(t, anfi_t_dt(e), 0);
  return anfi_t_cast(t, anfi_t_dt(e), anfi_t_add(t, anfi_t_cast(t, d, x), anfi_t_cast(t, d, y)));
}

static texpr call(const making *m, texpr a, texpr b) {
  texpr in[3] = {a, m->two ? b : m->c, m->c};
  uint32_t n = 1u + m->two + (m->c != NULL);
  return anfi_low_let(m->w->L, anfi_t_call(m->w->t, m->f->name, ANFI_IX, n, in), "box");
}

static texpr element(const making *m, texpr tensor, texpr i) {
  return anfi_t_at(m->w->t, tensor, 1, &i, 1, 0, NULL);
}

static void scalar(const making *m, const anfi_leaf *l, texpr p, texpr a, texpr b, texpr from_at,
                   texpr to_at) {
  glow *w = m->w;
  texpr x = anfi_glow_read(w, l->elem, a, from_at), y = x;
  if (m->two) y = anfi_glow_read(w, l->elem, b, from_at);
  if (l->boxed) {
    texpr from = anfi_low_let(w->L, anfi_t_cast(w->t, ANFI_IX, x), "p"), other = from;
    if (m->two) other = anfi_low_let(w->L, anfi_t_cast(w->t, ANFI_IX, y), "p");
    x = anfi_low_let(w->L, anfi_t_cast(w->t, anfi_t_dt(l->elem), call(m, from, other)), "x");
  } else if (sums(m) && is_float(l)) x = anfi_low_let(w->L, sum(m, l->elem, x, y), "x");
  anfi_glow_write(w, p, to_at, x);
}

/* Element i of a buffer: of the results, whose leaf is `to`, of `from`. */
static texpr element_at(const making *m, const anfi_leaf *from, const anfi_leaf *to, texpr x,
                        texpr y, texpr i) {
  anfi_low *L = m->w->L;
  tstore *t = m->w->t;
  if (m->f->op == ANF_OP_ResidualSpread && from != to) {
    uint64_t row = m->outer && from->n % m->outer == 0 ? from->n / m->outer : from->n;
    texpr of = anfi_ix_mulc(L, anfi_ix_divc(L, i, row * (to->n / from->n)), row);
    return element(m, x, anfi_ix_add(L, of, anfi_ix_modc(L, i, row)));
  }
  texpr e = element(m, x, i);
  if (m->f->op == ANF_OP_ResidualSelect && m->n && to->n % m->n == 0)
    return anfi_t_select(t, element(m, m->c, anfi_ix_divc(L, i, to->n / m->n)), e,
                         element(m, y, i));
  return sums(m) && is_float(to) ? sum(m, to->elem, e, element(m, y, i)) : e;
}

static void buffer(const making *m, const anfi_leaf *from, const anfi_leaf *to, texpr p, texpr a,
                   texpr b, texpr from_at, texpr to_at) {
  glow *w = m->w;
  tstore *t = w->t;
  if (!to->n || !from->n) return;
  texpr into = anfi_glow_buffer_at(w, to, p, to_at), i = anfi_t_var(t, ANFI_IX, "i"), e;
  if (from->scalar) e = anfi_glow_read(w, from->elem, a, from_at);
  else {
    texpr x = anfi_glow_buffer_at(w, from, a, from_at),
          y = m->two ? anfi_glow_buffer_at(w, from, b, from_at) : x;
    e = element_at(m, from, to, x, y, i);
  }
  tstmt body = anfi_t_assign(t, element(m, into, i), e);
  anfi_low_add(w->L, anfi_t_for(t, i, word(m, 0), word(m, to->n), word(m, 1), anfi_t_body(t, body),
                                false, 0));
}

/* The record at p of those at a and b; `to` is `from` but where spreading changes it. */
static void record(const making *m, const form *from, const form *to, texpr p, texpr a, texpr b) {
  for (size_t i = 0; i < to->l.n; i++) {
    const anfi_leaf *f = &from->l.at[i], *r = &to->l.at[i];
    texpr from_at = word(m, from->at[i]), to_at = word(m, to->at[i]);
    if (r->scalar) scalar(m, r, p, a, b, from_at, to_at);
    else buffer(m, f, r, p, a, b, from_at, to_at);
  }
}

static void box(const making *m, const form *from, const form *to, texpr tag) {
  glow *w = m->w;
  texpr p = anfi_glow_keep(w, word(m, to->size)), a = m->a, b = m->b;
  anfi_glow_write(w, p, word(m, KEPT_TAG), tag);
  if (m->f->op == ANF_OP_ResidualSelect) {
    a = anfi_glow_or_zeros(w, a, &from->l, from->at, from->size);
    b = anfi_glow_or_zeros(w, b, &from->l, from->at, from->size);
  }
  record(m, from, to, p, a, b);
  anfi_low_set(w->L, m->result, p);
}

typedef struct walk {
  texpr base, stride, rounds;
} walk;

static walk walk_of(const making *m, const form *of, texpr stack) {
  glow *w = m->w;
  return (walk){anfi_glow_read(w, ANF_TIR_index, stack, word(m, STACK_BASE)), word(m, of->size),
                anfi_glow_read(w, ANF_TIR_index, stack, word(m, STACK_ROUNDS))};
}

static texpr at_round(const making *m, walk s, texpr i) {
  tstore *t = m->w->t;
  return anfi_low_let(m->w->L, anfi_t_add(t, s.base, anfi_t_bin(t, TX_mul, i, s.stride)), "p");
}

/* The record of a round that `s` has, else that of the other. */
static texpr of_either(const making *m, walk s, texpr own, texpr other, texpr i) {
  texpr has = anfi_t_lt(m->w->t, i, s.rounds);
  return anfi_low_let(m->w->L, anfi_t_select(m->w->t, has, own, other), "p");
}

static void stack(const making *m, const form *from, const form *to, texpr tag) {
  glow *w = m->w;
  tstore *t = w->t;
  walk a = walk_of(m, from, m->a), b = m->two ? walk_of(m, from, m->b) : a;
  texpr n = a.rounds, i = anfi_t_var(t, ANFI_IX, "i");
  bool select = m->f->op == ANF_OP_ResidualSelect;
  if (select) n = anfi_low_let(w->L, anfi_t_select(t, anfi_t_lt(t, n, b.rounds), b.rounds, n), "n");
  texpr base =
      anfi_glow_keep(w, anfi_low_let(w->L, anfi_t_bin(t, TX_mul, n, word(m, to->size)), "n"));
  walk r = {base, word(m, to->size), n};
  anfi_low_open(w->L);
  texpr pa = at_round(m, a, i), pb = m->two ? at_round(m, b, i) : pa, p = at_round(m, r, i),
        from_a = select ? of_either(m, a, pa, pb, i) : pa,
        from_b = select ? of_either(m, b, pb, pa, i) : pb;
  record(m, from, to, p, from_a, from_b);
  tstmt body = anfi_low_close(w->L);
  anfi_low_add(w->L, anfi_t_for(t, i, word(m, 0), n, word(m, 1), body, false, 0));
  p = anfi_glow_keep(w, word(m, STACK_BYTES));
  anfi_glow_write(w, p, word(m, STACK_BASE), base);
  anfi_glow_write(w, p, word(m, STACK_ROUNDS), n);
  anfi_glow_write(w, p, word(m, KEPT_TAG), tag);
  anfi_low_set(w->L, m->result, p);
}

/* The case of boxes whose tag is type number k. Spread types have a number of their own. */
static bool one_case(making *m, size_t k) {
  glow *w = m->w;
  gkept of = w->tags.at[k];
  if (m->f->op == ANF_OP_ResidualZeros && !of.stack && !m->stacks)
    return anfi_low_set(w->L, m->result, word(m, KEPT_ZERO)), true;
  bool spread = m->f->op == ANF_OP_ResidualSpread;
  form from, to;
  if (!form_of(w, of.type, of.stack ? 0 : BOX_FROM, &from)) return false;
  to = from;
  texpr tag = word(m, k + 1);
  if (spread) {
    const anf_type *t = anfi_residual_spread_type(w->cx, of.type, m->f->lanes);
    if (!t) return true; // no such tensor has more dims
    if (!form_of(w, t, of.stack ? 0 : BOX_FROM, &to)) return false;
    size_t before = w->tags.n;
    tag = anfi_glow_tag(w, t, of.stack);
    if (w->tags.n > before) w->tags.at[before].lanes = m->f->lanes->n;
  }
  (of.stack ? stack : box)(m, &from, spread ? &to : &from, tag);
  return true;
}

/* if (tag == 1) ... if (tag == 2) ... */
static bool cases(making *m, texpr of) {
  glow *w = m->w;
  bool spread = m->f->op == ANF_OP_ResidualSpread;
  texpr tag = anfi_glow_read(w, ANF_TIR_index, of, word(m, KEPT_TAG));
  for (size_t k = 0; k < w->tags.n; k++) {
    if (spread && w->tags.at[k].lanes >= m->f->lanes->n) continue; // its outer lanes are fewer
    anfi_low_open(w->L);
    if (!one_case(m, k)) return false;
    tstmt one = anfi_low_close(w->L);
    texpr is = anfi_t_bin(w->t, TX_cmp_eq, tag, word(m, k + 1));
    anfi_low_add(w->L, anfi_t_if(w->t, is, one, NULL));
  }
  return true;
}

/* Is there something at p? */
static texpr is_some(const making *m, texpr p) {
  return anfi_t_bin(m->w->t, TX_cmp_gt, p, word(m, KEPT_ZERO));
}

static texpr either(const making *m, texpr condition, texpr yes, texpr no) {
  return anfi_low_let(m->w->L, anfi_t_select(m->w->t, condition, yes, no), "p");
}

/* One of two that is nothing, or zeros in a sum, leaves the other as it is; selecting from zeros does
 * not. */
static bool result(making *m) {
  glow *w = m->w;
  texpr some_a = is_some(m, m->a), condition = some_a, of = m->a;
  if (m->two) {
    texpr some_b = is_some(m, m->b);
    of = either(m, some_a, m->a, m->b);
    texpr zero_if_any = either(m, anfi_t_lt(w->t, m->a, m->b), m->b, m->a);
    condition = anfi_t_bin(w->t, TX_logic_and, some_a, some_b);
    m->result = anfi_low_var(w->L, ANFI_IX, "result", either(m, is_some(m, of), of, zero_if_any));
    if (m->f->op == ANF_OP_ResidualSelect) {
      texpr both[2] = {anfi_t_bin(w->t, TX_cmp_ne, m->a, word(m, 0)),
                       anfi_t_bin(w->t, TX_cmp_ne, m->b, word(m, 0))};
      condition = anfi_t_bin(w->t, TX_logic_and, is_some(m, of),
                             anfi_t_bin(w->t, TX_logic_and, both[0], both[1]));
    }
  } else m->result = anfi_low_var(w->L, ANFI_IX, "result", m->a);
  anfi_low_open(w->L);
  if (!cases(m, of)) return false;
  anfi_low_add(w->L, anfi_t_if(w->t, condition, anfi_low_close(w->L), NULL));
  return true;
}

static bool has_stack(const anf_type *t) {
  bool has = t->kind == ANF_TYPE_STACK;
  for (uint32_t i = 0; (t->kind == ANF_TYPE_TUPLE || t->kind == ANF_TYPE_RECORD) && i < t->n; i++)
    has |= has_stack(t->items[i]);
  return has;
}

static bool make(glow *w, const gwalk *f) {
  tstore *t = w->t;
  making m = {.w = w, .f = f, .two = f->op == ANF_OP_ResidualAdd || f->op == ANF_OP_ResidualSelect};
  for (size_t i = 0; i < w->tags.n; i++) m.stacks |= has_stack(w->tags.at[i].type);
  texpr param[3] = {m.a = anfi_t_var(t, ANFI_IX, "a")};
  uint32_t n = 1;
  if (m.two) param[n++] = m.b = anfi_t_var(t, ANFI_IX, "b");
  if (f->lanes) {
    m.n = anfi_low_elements(f->lanes);
    m.outer = 1;
    for (uint32_t k = 0; k + 1 < f->lanes->n; k++) m.outer *= (uint64_t)f->lanes->dims[k];
  }
  if (f->op == ANF_OP_ResidualSelect) param[n++] = m.c = anfi_t_tensor1(t, ANF_TIR_bool, "c", m.n);
  w->L = anfi_low_new(w->cx, w->a, w->tm, NULL);
  anfi_low_open(w->L);
  if (!result(&m)) return false;
  anfi_low_add(w->L, anfi_t_return(t, m.result));
  tstmt body = anfi_low_close(w->L);
  tattrs at = anfi_t_attr_set(t, (tattrs){0}, TA_is_private, 1);
  anfi_t_mod_add(w->tm, anfi_t_func(t, f->name, ANFI_IX, n, param, body, at));
  return true;
}

static size_t spreads(const gwalk *f) { return f->op == ANF_OP_ResidualSpread ? f->lanes->n : 0; }

/* Spreading adds types, so it comes first, and that by few lanes before that by more, which meets what
 * it made. */
bool anfi_glow_make_walks(glow *w) {
  for (size_t round = 1; round <= ANF_MAX_RANK + 1; round++)
    for (size_t i = 0; i < w->walks.n; i++)
      if (spreads(w->walks.at[i]) == round % (ANF_MAX_RANK + 1) && !make(w, w->walks.at[i]))
        return false;
  return true;
}

static const char *base_name(anfi_opcode op) {
  switch (op) {
  case ANF_OP_ResidualAdd: return "residual_add";
  case ANF_OP_ResidualZeros: return "residual_zeros";
  case ANF_OP_ResidualSelect: return "residual_select";
  default: return "residual_spread";
  }
}

static const gwalk *walk_for(glow *w, const anf_node *n) {
  anfi_opcode op = (anfi_opcode)n->op;
  bool by_lane = op == ANF_OP_ResidualSelect || op == ANF_OP_ResidualSpread;
  const anf_type *lanes = by_lane ? n->in[n->nin - 1u].def->type : NULL;
  for (size_t i = 0; i < w->walks.n; i++) {
    gwalk *f = w->walks.at[i];
    if (f->op == op && f->lanes == lanes) return f;
  }
  gwalk *f = ANFI_NEW(w->a, gwalk);
  *f = (gwalk){op, lanes, anfi_glow_fresh_name(w, base_name(op))};
  anfi_push(w->a, &w->walks, f);
  return f;
}

static texpr address(glow *w, anfi_view *v) {
  return v ? anfi_low_let(w->L, anfi_t_cast(w->t, ANFI_IX, anfi_view_value(w->L, v)), "box")
           : anfi_t_index(w->t, 0);
}

bool anfi_glow_box_walk(glow *w, anf_node *n, gval *out) {
  const gwalk *f = walk_for(w, n);
  uint32_t k = 0;
  texpr in[3];
  for (; k < n->nin && k < (f->lanes ? n->nin - 1u : n->nin); k++)
    in[k] = address(w, anfi_glow_value(w, n->in[k].def).at[0]);
  if (f->op == ANF_OP_ResidualSelect) {
    anfi_leaves l = {0};
    anf_node *c = n->in[2].def;
    if (!anfi_glow_leaves(w, c->type, anfi_node_loc(n), &l)) return false;
    in[k++] = anfi_glow_atom(w, &l.at[0], anfi_glow_value(w, c).at[0]);
  }
  texpr e = anfi_t_call(w->t, f->name, ANFI_IX, k, in);
  e = anfi_low_let(w->L, anfi_t_cast(w->t, anfi_t_dt(ANF_TIR_u64), e), "box");
  *out = anfi_glow_new(w, 1);
  out->at[0] = anfi_view_scalar(w->L, anfi_type_scalar(w->cx, ANF_U64), e);
  return true;
}
