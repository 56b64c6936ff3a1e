// SPDX-License-Identifier: Apache-2.0
/* KeptAdd and KeptZeros: what is in a box or stack is known by the tag of its record alone, so they
 * are functions of the module with a case for each type that is kept anywhere in it. They are made
 * when everything else is lowered, and all those types are known.
 *   kept_add(a, b)    0 is nothing: the other one; floats are added, the rest is that of a
 *   kept_zeros(a)     floats are zero, the rest is that of a */
#include "backend/lower/graph.h"

typedef struct making {
  glow *w;
  bool add;
  const anfi_str *name;
  texpr a, b, result; // addresses
  texpr tag;          // of a
} making;

static texpr word(const making *m, uint64_t v) { return anfi_t_index(m->w->t, v); }

static bool is_float(const anfi_leaf *l) {
  anfi_class c = anfi_dtype_class((anf_dtype)l->type->dtype);
  return !l->kept && (c == ANFI_CLASS_FLOAT || c == ANFI_CLASS_COMPLEX);
}

/* One element; f16 and bf16 are added as f32. */
static texpr element(const making *m, anf_tir_elem e, texpr x, texpr y) {
  tstore *t = m->w->t;
  bool half = e == ANF_TIR_f16 || e == ANF_TIR_bf16;
  tdtype d = anfi_t_dt(half ? ANF_TIR_f32 : e);
  if (!m->add) return anfi_t_int(t, anfi_t_dt(e), 0);
  return anfi_t_cast(t, anfi_t_dt(e), anfi_t_add(t, anfi_t_cast(t, d, x), anfi_t_cast(t, d, y)));
}

static texpr call(const making *m, texpr a, texpr b) {
  texpr in[2] = {a, b};
  return anfi_low_let(m->w->L, anfi_t_call(m->w->t, m->name, ANFI_IX, m->add ? 2 : 1, in), "kept");
}

static void scalar(const making *m, const anfi_leaf *l, texpr p, texpr a, texpr b, texpr at) {
  glow *w = m->w;
  texpr x = anfi_glow_read(w, l->elem, a, at);
  if (l->kept) {
    texpr from = anfi_low_let(w->L, anfi_t_cast(w->t, ANFI_IX, x), "p"), other = NULL;
    if (m->add)
      other =
          anfi_low_let(w->L, anfi_t_cast(w->t, ANFI_IX, anfi_glow_read(w, l->elem, b, at)), "p");
    x = anfi_low_let(w->L, anfi_t_cast(w->t, anfi_t_dt(l->elem), call(m, from, other)), "x");
  } else if (is_float(l))
    x = anfi_low_let(
        w->L, element(m, l->elem, x, m->add ? anfi_glow_read(w, l->elem, b, at) : NULL), "x");
  anfi_glow_write(w, p, at, x);
}

static void buffer(const making *m, const anfi_leaf *l, texpr p, texpr a, texpr b, texpr at) {
  glow *w = m->w;
  tstore *t = w->t;
  texpr to = anfi_glow_buffer_at(w, l, p, at), x = anfi_glow_buffer_at(w, l, a, at),
        y = m->add ? anfi_glow_buffer_at(w, l, b, at) : x, i = anfi_t_var(t, ANFI_IX, "i");
  texpr xi = anfi_t_at(t, x, 1, &i, 1, 0, NULL), yi = anfi_t_at(t, y, 1, &i, 1, 0, NULL);
  tstmt body = anfi_t_assign(t, anfi_t_at(t, to, 1, &i, 1, 0, NULL),
                             is_float(l) ? element(m, l->elem, xi, yi) : xi);
  anfi_low_add(w->L, anfi_t_for(t, i, word(m, 0), word(m, l->n), word(m, 1), anfi_t_body(t, body),
                                false, 0));
}

/* Records of these leaves at p, a and b. */
static void record(const making *m, const anfi_leaves *l, const uint64_t *at, texpr p, texpr a,
                   texpr b) {
  for (size_t i = 0; i < l->n; i++)
    (l->at[i].scalar ? scalar : buffer)(m, &l->at[i], p, a, b, word(m, at[i]));
}

static void box(const making *m, const anfi_leaves *l) {
  glow *w = m->w;
  uint64_t align, *at = ANFI_NEW_N(w->a, uint64_t, l->n + 1);
  uint64_t size = anfi_glow_layout(l, BOX_FROM, at, &align);
  texpr p = anfi_glow_keep(w, word(m, size));
  anfi_glow_write(w, p, word(m, KEPT_TAG), m->tag);
  record(m, l, at, p, m->a, m->b);
  anfi_low_set(w->L, m->result, p);
}

typedef struct walk {
  texpr base, stride;
} walk;

static walk walk_of(const making *m, texpr stack) {
  glow *w = m->w;
  return (walk){anfi_glow_read(w, ANF_TIR_index, stack, word(m, STACK_BASE)),
                anfi_glow_read(w, ANF_TIR_index, stack, word(m, STACK_STRIDE))};
}

static texpr at_round(const making *m, walk s, texpr i) {
  tstore *t = m->w->t;
  return anfi_low_let(m->w->L, anfi_t_add(t, s.base, anfi_t_bin(t, TX_mul, i, s.stride)), "p");
}

static void stack(const making *m, const anfi_leaves *l) {
  glow *w = m->w;
  tstore *t = w->t;
  uint64_t align, *at = ANFI_NEW_N(w->a, uint64_t, l->n + 1);
  uint64_t stride = anfi_glow_layout(l, 0, at, &align);
  texpr n = anfi_glow_read(w, ANF_TIR_index, m->a, word(m, STACK_ROUNDS)),
        i = anfi_t_var(t, ANFI_IX, "i");
  texpr base =
      anfi_glow_keep(w, anfi_low_let(w->L, anfi_t_bin(t, TX_mul, n, word(m, stride)), "n"));
  walk a = walk_of(m, m->a), b = m->add ? walk_of(m, m->b) : a, to = {base, word(m, stride)};
  anfi_low_open(w->L);
  texpr pa = at_round(m, a, i), pb = at_round(m, b, i), p = at_round(m, to, i);
  record(m, l, at, p, pa, pb);
  tstmt body = anfi_low_close(w->L);
  anfi_low_add(w->L, anfi_t_for(t, i, word(m, 0), n, word(m, 1), body, false, 0));
  p = anfi_glow_keep(w, word(m, STACK_BYTES));
  anfi_glow_write(w, p, word(m, STACK_BASE), base);
  anfi_glow_write(w, p, word(m, STACK_STRIDE), word(m, stride));
  anfi_glow_write(w, p, word(m, STACK_ROUNDS), n);
  anfi_glow_write(w, p, word(m, KEPT_TAG), m->tag);
  anfi_low_set(w->L, m->result, p);
}

/* if (tag == 1) ... if (tag == 2) ... */
static bool cases(making *m) {
  glow *w = m->w;
  m->tag = anfi_glow_read(w, ANF_TIR_index, m->a, word(m, KEPT_TAG));
  for (size_t k = 0; k < w->tags.n; k++) {
    anfi_leaves l = {0};
    if (!anfi_glow_leaves(w, w->tags.at[k].type, anfi_nowhere(), &l)) return false;
    anfi_low_open(w->L);
    (w->tags.at[k].stack ? stack : box)(m, &l);
    tstmt one = anfi_low_close(w->L);
    texpr is = anfi_t_bin(w->t, TX_cmp_eq, m->tag, word(m, k + 1));
    anfi_low_add(w->L, anfi_t_if(w->t, is, one, NULL));
  }
  return true;
}

static bool make(glow *w, bool add) {
  tstore *t = w->t;
  making m = {.w = w, .add = add, .name = add ? w->add : w->zeros};
  texpr param[2] = {m.a = anfi_t_var(t, ANFI_IX, "a"), m.b = anfi_t_var(t, ANFI_IX, "b")};
  w->L = anfi_low_new(w->cx, w->a, w->tm, NULL);
  anfi_low_open(w->L);
  m.result = anfi_low_var(w->L, ANFI_IX, "result", add ? m.b : word(&m, 0));
  texpr some = anfi_t_bin(t, TX_cmp_ne, m.a, word(&m, 0));
  anfi_low_open(w->L);
  if (add) anfi_low_set(w->L, m.result, m.a);
  if (add) anfi_low_open(w->L);
  if (!cases(&m)) return false;
  if (add) {
    tstmt both = anfi_low_close(w->L);
    anfi_low_add(w->L, anfi_t_if(t, anfi_t_bin(t, TX_cmp_ne, m.b, word(&m, 0)), both, NULL));
  }
  tstmt body = anfi_low_close(w->L);
  anfi_low_add(w->L, anfi_t_if(t, some, body, NULL));
  anfi_low_add(w->L, anfi_t_return(t, m.result));
  body = anfi_low_close(w->L);
  tattrs at = anfi_t_attr_set(t, (tattrs){0}, TA_is_private, 1);
  anfi_t_mod_add(w->tm, anfi_t_func(t, m.name, ANFI_IX, add ? 2 : 1, param, body, at));
  return true;
}

bool anfi_glow_make_sums(glow *w) { return !w->tagged || (make(w, true) && make(w, false)); }

static texpr address(glow *w, anfi_view *v) {
  return v ? anfi_low_let(w->L, anfi_t_cast(w->t, ANFI_IX, anfi_view_value(w->L, v)), "kept")
           : anfi_t_index(w->t, 0);
}

bool anfi_glow_kept_sum(glow *w, anf_node *n, gval *out) {
  bool add = n->op == ANF_OP_KeptAdd;
  texpr in[2] = {address(w, anfi_glow_value(w, n->in[0].def).at[0]),
                 add ? address(w, anfi_glow_value(w, n->in[1].def).at[0]) : NULL};
  texpr e = anfi_t_call(w->t, add ? w->add : w->zeros, ANFI_IX, add ? 2 : 1, in);
  e = anfi_low_let(w->L, anfi_t_cast(w->t, anfi_t_dt(ANF_TIR_u64), e), "kept");
  *out = anfi_glow_new(w, 1);
  out->at[0] = anfi_view_scalar(w->L, anfi_type_scalar(w->cx, ANF_U64), e);
  return true;
}
