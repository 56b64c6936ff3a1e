// SPDX-License-Identifier: Apache-2.0
/* Boxes: records in the stream's memory for residuals, which last until the call from outside ends.
 *   Box((x, y)), x: f64, y: f32[3]    ->    p = keep(..);  p: tag | x | padding | y
 * A box is the address of a record: the leaves of its contents, each aligned to its type; buffers are copied in as they
 * are. INVARIANT: a box is immutable, so a view reads it without a copy. */
#include "backend/lower/graph/graph.h"

enum { BUFFER_ALIGN = 64 };

texpr anfi_glow_keep(glow *w, texpr bytes) {
  texpr p = anfi_t_rt_call(w->t, TRT_anf_rt_keep, 1, &bytes);
  return anfi_low_let(w->L, anfi_t_cast(w->t, ANFI_IX, p), "box");
}

static texpr pointer(glow *w, texpr p) { return anfi_t_cast(w->t, anfi_t_ptr(ANF_TIR_void), p); }

texpr anfi_glow_read(glow *w, anf_tir_elem e, texpr p, texpr offset) {
  texpr in[2] = {pointer(w, p), offset};
  return anfi_low_let(w->L, anfi_t_intrin(w->t, TI_read_struct, anfi_t_dt(e), 2, in, (tattrs){0}),
                      "x");
}

void anfi_glow_write(glow *w, texpr p, texpr offset, texpr value) {
  texpr in[3] = {pointer(w, p), value, offset};
  texpr e = anfi_t_intrin(w->t, TI_write_struct, anfi_t_dt(ANF_TIR_void), 3, in, (tattrs){0});
  anfi_low_add(w->L, anfi_t_eval(w->t, e));
}

texpr anfi_glow_buffer_at(glow *w, const anfi_leaf *l, texpr p, texpr offset) {
  texpr v = anfi_t_tensor1(w->t, l->elem, "box", l->n);
  texpr at = anfi_low_let(w->L, anfi_t_add(w->t, p, offset), "p");
  anfi_low_add(w->L, anfi_t_define(w->t, TL_local, v, anfi_t_cast(w->t, anfi_t_ptr(l->elem), at)));
  return v;
}

static uint64_t leaf_bytes(const anfi_leaf *l) {
  return (l->scalar ? 1 : l->n) * anfi_t_bytes(anfi_t_dt(l->elem));
}

uint64_t anfi_glow_layout(const anfi_leaves *l, uint64_t from, uint64_t *at, uint64_t *align) {
  *align = KEPT_WORD;
  for (size_t i = 0; i < l->n; i++) {
    uint64_t own = l->at[i].scalar ? anfi_t_bytes(anfi_t_dt(l->at[i].elem)) : BUFFER_ALIGN;
    if (own > *align) *align = own;
    at[i] = from = (from + own - 1) / own * own;
    from += leaf_bytes(&l->at[i]);
  }
  return (from + *align - 1) / *align * *align;
}

/* Offsets of the leaves of a box of this type, behind its tag; the size in all. */
static uint64_t box_layout(glow *w, const anfi_leaves *l, uint64_t **at) {
  uint64_t align;
  *at = ANFI_NEW_N(w->a, uint64_t, l->n + 1);
  uint64_t size = anfi_glow_layout(l, w->tagged ? BOX_FROM : 0, *at, &align);
  return size ? size : KEPT_WORD;
}

texpr anfi_glow_tag(glow *w, const anf_type *t, bool stack) {
  uint64_t *at = anfi_map_at(&w->tag, anfi_key(t) + stack);
  if (!*at) {
    anfi_push(w->a, &w->tags, ((gkept){t, stack, 0}));
    *at = w->tags.n;
  }
  return anfi_t_index(w->t, *at);
}

bool anfi_glow_box(glow *w, anf_node *n, gval *out) {
  anf_node *x = n->in[0].def;
  anfi_leaves l = {0}, own = {0};
  gval v = anfi_glow_value(w, x);
  uint64_t *at;
  if (!anfi_glow_leaves(w, x->type, anfi_node_loc(n), &l) ||
      !anfi_glow_leaves(w, n->type, anfi_node_loc(n), &own))
    return false;
  texpr p = anfi_glow_keep(w, anfi_t_index(w->t, box_layout(w, &l, &at)));
  if (w->tagged)
    anfi_glow_write(w, p, anfi_t_index(w->t, KEPT_TAG), anfi_glow_tag(w, x->type, false));
  for (size_t i = 0; i < l.n; i++) {
    texpr offset = anfi_t_index(w->t, at[i]);
    if (!v.at[i] && !w->tagged) continue;
    if (l.at[i].scalar) anfi_glow_write(w, p, offset, anfi_glow_atom(w, &l.at[i], v.at[i]));
    else if (v.at[i]) anfi_view_store(w->L, v.at[i], anfi_glow_buffer_at(w, &l.at[i], p, offset));
  }
  *out = anfi_glow_new(w, 1);
  out->at[0] = anfi_glow_view(w, &own.at[0], anfi_t_cast(w->t, anfi_t_dt(own.at[0].elem), p));
  return true;
}

texpr anfi_glow_or_zeros(glow *w, texpr p, const anfi_leaves *l, const uint64_t *at,
                         uint64_t bytes) {
  tstore *t = w->t;
  texpr r = anfi_low_var(w->L, ANFI_IX, "p", p), i = anfi_t_var(t, ANFI_IX, "i");
  anfi_low_open(w->L);
  texpr zeros = anfi_glow_keep(w, anfi_t_index(t, bytes));
  anfi_low_open(w->L);
  anfi_glow_write(w, zeros, i, anfi_t_index(t, 0));
  anfi_low_add(w->L, anfi_t_for(t, i, anfi_t_index(t, 0), anfi_t_index(t, bytes),
                                anfi_t_index(t, KEPT_WORD), anfi_low_close(w->L), false, 0));
  for (size_t k = 0; k < l->n; k++)
    if (l->at[k].boxed)
      anfi_glow_write(w, zeros, anfi_t_index(t, at[k]), anfi_t_index(t, KEPT_ZERO));
  anfi_low_set(w->L, r, zeros);
  tstmt make = anfi_low_close(w->L);
  texpr none = anfi_t_bin(t, TX_cmp_le, p, anfi_t_index(t, KEPT_ZERO));
  anfi_low_add(w->L, anfi_t_if(t, none, make, NULL));
  return r;
}

/* Nobody reads it, but walks visit residuals, so it is none. */
bool anfi_glow_undef(glow *w, const anf_node *n, gval *out) {
  anfi_leaves l = {0};
  if (!anfi_glow_leaves(w, n->type, anfi_node_loc(n), &l)) return false;
  *out = anfi_glow_new(w, l.n);
  for (size_t i = 0; i < l.n; i++)
    if (l.at[i].boxed)
      out->at[i] = anfi_glow_view(w, &l.at[i], anfi_t_int(w->t, anfi_t_dt(l.at[i].elem), 0));
  return true;
}

bool anfi_glow_unbox(glow *w, anf_node *n, gval *out) {
  anfi_leaves l = {0};
  gval box = anfi_glow_value(w, n->in[0].def);
  uint64_t *at;
  if (!anfi_glow_leaves(w, n->type, anfi_node_loc(n), &l)) return false;
  uint64_t bytes = box_layout(w, &l, &at);
  *out = anfi_glow_new(w, l.n);
  if (!box.at[0]) return true;
  texpr p = anfi_t_cast(w->t, ANFI_IX, anfi_view_value(w->L, box.at[0]));
  if (w->zeroed) p = anfi_glow_or_zeros(w, anfi_low_let(w->L, p, "p"), &l, at, bytes);
  for (size_t i = 0; i < l.n; i++) {
    texpr offset = anfi_t_index(w->t, at[i]);
    out->at[i] = anfi_glow_view(w, &l.at[i],
                                l.at[i].scalar ? anfi_glow_read(w, l.at[i].elem, p, offset)
                                               : anfi_glow_buffer_at(w, &l.at[i], p, offset));
  }
  return true;
}
