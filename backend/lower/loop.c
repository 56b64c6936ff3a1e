// SPDX-License-Identifier: Apache-2.0
/* Loop: the state is variables and buffers; the body is the step itself, so a turn calls nothing.
 * A turn reads copies of the state, and only when all of the next state is known is it written. */
#include "backend/lower/graph.h"

typedef struct looping {
  glow *w;
  anf_node *n;
  anf_graph *step;
  size_t nw, ns; // arguments
  bool counted, reverse;
  anf_node *count;      // of rounds, if counted
  const anfi_use *w_at; // in[] of the first invariant
  gtarget state;
  texpr again, i; // i: rounds left, if counted
} looping;

static int64_t attr(const looping *l, uint32_t k) {
  return anfi_attr_int(anfi_attr_value(l->w->cx, ANF_OP_Loop, l->n->u.attrs, k));
}

static bool read_attrs(looping *l) {
  glow *w = l->w;
  enum { INVARIANT, STACKS, OUTS, COUNTED, REVERSE };
  l->step = anfi_value_graph(l->n->in[0].def);
  l->counted = attr(l, COUNTED) != 0;
  l->reverse = attr(l, REVERSE) != 0;
  l->nw = (size_t)attr(l, INVARIANT);
  if (!l->step) return anfi_fail(w->cx, anfi_node_loc(l->n), ANF_E0952);
  if (attr(l, STACKS) || attr(l, OUTS))
    return anfi_fail(w->cx, anfi_node_loc(l->n), ANF_E0953, "stacks");
  l->count = l->counted ? l->n->in[1].def : NULL;
  l->w_at = l->n->in + 1 + l->counted;
  l->ns = l->n->nin - 1u - l->counted - l->nw;
  return true;
}

static const anf_type *state_type(const looping *l) {
  const anf_type **t = ANFI_NEW_N(l->w->a, const anf_type *, l->ns + 1);
  for (size_t i = 0; i < l->ns; i++) t[i] = l->w_at[l->nw + i].def->type;
  return anfi_type_tuple(l->w->cx, l->ns, t);
}

static gval state_given(const looping *l) {
  ANFI_VEC(anfi_view *) all = {0};
  for (size_t i = 0; i < l->ns; i++) {
    gval v = glow_value(l->w, l->w_at[l->nw + i].def);
    for (size_t k = 0; k < v.n; k++) anfi_push(l->w->a, &all, v.at[k]);
  }
  return (gval){all.n, all.at};
}

/* What a turn reads: variables of its own with the values of the state. */
static gval *turn_arguments(const looping *l) {
  glow *w = l->w;
  gval *args = ANFI_NEW_N(w->a, gval, l->nw + l->ns + 1);
  for (size_t i = 0; i < l->nw; i++) args[i] = glow_value(w, l->w_at[i].def);
  size_t at = 0;
  for (size_t i = 0; i < l->ns; i++) {
    gval v = args[l->nw + i] = glow_new(w, anfi_leaf_count(l->w_at[l->nw + i].def->type));
    for (size_t k = 0; k < v.n; k++, at++) {
      const anfi_leaf *leaf = &l->state.leaves.at[at];
      texpr e = l->state.room[at];
      if (leaf->scalar) {
        e = anfi_t_var(w->t, l->state.var[at]->dtype, l->state.var[at]->u.name->s);
        anfi_low_add(w->L, anfi_t_define(w->t, TL_local, e, l->state.var[at]));
      }
      v.at[k] = glow_view(w, leaf, e);
    }
  }
  return args;
}

/* Scalars are known before any variable is written; a buffer that is still needed for another part
 * of the state, or is computed from one, is computed apart. */
static void next_state(const looping *l, gval v) {
  glow *w = l->w;
  const anfi_leaves *leaves = &l->state.leaves;
  texpr *next = ANFI_NEW_N(w->a, texpr, v.n + 1);
  for (size_t i = 0; i < v.n; i++)
    if (v.at[i]) next[i] = glow_atom(w, &leaves->at[i], &v.at[i]);
  for (size_t i = 0; i < v.n; i++) {
    if (!next[i] || leaves->at[i].scalar || next[i] == l->state.room[i]) continue;
    for (size_t k = 0; k < v.n; k++) {
      if (next[i] != l->state.room[k]) continue;
      texpr copy = anfi_low_local(w->L, leaves->at[i].elem, leaves->at[i].n, "t");
      anfi_view_store(w->L, v.at[i], copy);
      v.at[i] = glow_view(w, &leaves->at[i], copy);
      break;
    }
  }
  for (size_t i = 0; i < v.n; i++) {
    if (!next[i] || next[i] == l->state.room[i]) continue;
    if (leaves->at[i].scalar) anfi_low_set(w->L, l->state.var[i], next[i]);
    else anfi_view_store(w->L, v.at[i], l->state.room[i]);
  }
}

static texpr scalar_of(glow *w, anfi_view *v, anf_tir_elem otherwise) {
  return v ? anfi_view_value(w->L, v) : anfi_t_int(w->t, anfi_t_dt(otherwise), 0);
}

static bool turn(looping *l) {
  glow *w = l->w;
  gval v;
  anfi_low_open(w->L);
  if (!glow_body(w, l->step, turn_arguments(l), NULL, false, &v)) return false;
  if (l->counted) {
    next_state(l, v);
    anfi_low_set(w->L, l->i, anfi_t_sub(w->t, l->i, anfi_t_int(w->t, ANFI_S64, 1)));
    return true;
  }
  texpr again = scalar_of(w, v.at[0], ANF_TIR_bool);
  next_state(l, (gval){v.n - 1, v.at + 1});
  anfi_low_set(w->L, l->again, again);
  return true;
}

bool glow_loop(glow *w, anf_node *n, gval *out) {
  looping l = {.w = w, .n = n};
  if (!read_attrs(&l)) return false;
  for (size_t i = 0; i < l.nw; i++) {
    anfi_leaves given = {0};
    anf_node *x = l.w_at[i].def;
    if (!glow_leaves(w, x->type, anfi_node_loc(x), &given)) return false;
    glow_settle(w, &given, glow_value(w, x));
  }
  anfi_leaves leaves = {0};
  if (!glow_leaves(w, state_type(&l), anfi_node_loc(n), &leaves)) return false;
  glow_target_make(w, &leaves, NULL, &l.state);
  glow_target_put(w, &l.state, state_given(&l));
  texpr cond;
  if (l.counted) {
    texpr given = scalar_of(w, glow_value(w, l.count).at[0], ANF_TIR_s64);
    l.i = anfi_low_var(w->L, ANFI_S64, "left", anfi_t_cast(w->t, ANFI_S64, given));
    cond = anfi_t_lt(w->t, anfi_t_int(w->t, ANFI_S64, 0), l.i);
  } else cond = l.again = anfi_low_var(w->L, ANFI_BOOL, "again", anfi_t_bool(w->t, true));
  if (!turn(&l)) return false;
  anfi_low_add(w->L, anfi_t_while(w->t, cond, anfi_low_close(w->L)));
  *out = glow_target_value(w, &l.state);
  return true;
}
