// SPDX-License-Identifier: Apache-2.0
/* Leaves of values, and the typed nodes that all drivers build: tuples, calls, loops, zeros.
 *   (f32, (i64, f64))          has the leaves t[0] and t[1][1]
 * Walks recurse over the nesting of types, which inference bounds. */
#include "autodiff/autodiff.h"
#include "ir/ops/op.h"

bool anfi_is_leaf(const anf_type *t) {
  if (t->kind == ANF_TYPE_BOX || t->kind == ANF_TYPE_STACK) return true;
  return t->kind == ANF_TYPE_TENSOR && anfi_ad_varies(t);
}

static void put_types(const anf_type *t, const anf_type **out, size_t *at) {
  if (anfi_is_leaf(t)) out[(*at)++] = t;
  for (uint32_t i = 0; anfi_is_nest(t) && i < t->n; i++) put_types(t->items[i], out, at);
}

void anfi_leaf_types(const anf_type *t, const anf_type **out) {
  size_t at = 0;
  put_types(t, out, &at);
}

/* ---- nodes ---- */

anf_node *anfi_ad_typed(const anfi_ad *ad, anf_node *n, const anf_type *t) {
  n->type = t;
  n->debug = ad->how;
  return n;
}

anf_node *anfi_ad_box(anfi_ad *ad, anf_graph *g, anf_node *x) {
  return anfi_ad_typed(ad, anfi_apply1(g, ANF_OP_Box, x),
                       anfi_type_simple(ad->m->cx, ANF_TYPE_BOX));
}

anf_node *anfi_ad_unbox(anfi_ad *ad, anf_graph *g, anf_node *box, const anf_type *t) {
  const anfi_attrs *at = anfi_attrs_one(ad->m, ANF_OP_Unbox, anfi_value_new_type(ad->m->cx, t));
  return anfi_ad_typed(ad, anfi_apply(g, ANF_OP_Unbox, at, 1, &box), t);
}

anf_node *anfi_ad_tuple(anfi_ad *ad, anf_graph *g, size_t n, anf_node *const *items) {
  const anf_type **t = ANFI_NEW_N(ad->arena, const anf_type *, n + 1);
  if (!n) return anfi_ad_const(ad, anfi_value_new_tuple(ad->m->cx, 0));
  for (size_t i = 0; i < n; i++) t[i] = anfi_ad_type_of(ad, items[i]);
  return anfi_ad_typed(ad, anfi_apply(g, ANF_OP_MakeTuple, NULL, n, items),
                       anfi_type_tuple(ad->m->cx, n, t));
}

/* index=i: the same for all, as a program of 10^6 nodes may keep as many items. */
static const anfi_attrs *index_attrs(anfi_ad *ad, size_t i) {
  while (ad->gets.n <= i) {
    anf_value *k = anfi_value_new_i64(ad->m->cx, ANF_INT, (int64_t)ad->gets.n);
    const anfi_attrs *at =
        anfi_attrs_one(ad->m, ANF_OP_TupleGet, k); // before room is made, which may fail
    anfi_push(ad->arena, &ad->gets, at);
  }
  return ad->gets.at[i];
}

anf_node *anfi_ad_get(anfi_ad *ad, anf_graph *g, anf_node *t, size_t i) {
  if (anfi_is_op(t, ANF_OP_MakeTuple)) return t->in[i].def;
  return anfi_ad_typed(ad, anfi_apply(g, ANF_OP_TupleGet, index_attrs(ad, i), 1, &t),
                       anfi_ad_type_of(ad, t)->items[i]);
}

static anf_node *field(anfi_ad *ad, anf_graph *g, anf_node *r, size_t i) {
  const anf_type *t = anfi_ad_type_of(ad, r);
  if (anfi_is_op(r, ANF_OP_MakeRecord)) return r->in[i].def;
  const anfi_attrs *at = anfi_attrs_one(
      ad->m, ANF_OP_RecordGet, anfi_value_new_string(ad->m->cx, t->names[i]->s, t->names[i]->len));
  return anfi_ad_typed(ad, anfi_apply(g, ANF_OP_RecordGet, at, 1, &r), t->items[i]);
}

static anf_node *item(anfi_ad *ad, anf_graph *g, anf_node *x, size_t i) {
  bool tuple = anfi_ad_type_of(ad, x)->kind == ANF_TYPE_TUPLE;
  return tuple ? anfi_ad_get(ad, g, x, i) : field(ad, g, x, i);
}

static anf_node *record(anfi_ad *ad, anf_graph *g, const anf_type *t, anf_node *const *items) {
  anf_value *names = anfi_value_new_tuple(ad->m->cx, t->n);
  anfi_value_guard(names);
  for (uint32_t i = 0; i < t->n; i++)
    names->u.item[i] = anfi_value_new_string(ad->m->cx, t->names[i]->s, t->names[i]->len);
  anfi_value_unguard(names);
  return anfi_ad_typed(ad,
                       anfi_apply(g, ANF_OP_MakeRecord,
                                  anfi_attrs_one(ad->m, ANF_OP_MakeRecord, names), t->n, items),
                       t);
}

anf_node *anfi_ad_undef(anfi_ad *ad, anf_graph *g, const anf_type *t) {
  const anfi_attrs *at = anfi_attrs_one(ad->m, ANF_OP_Undef, anfi_value_new_type(ad->m->cx, t));
  return anfi_ad_typed(ad, anfi_apply(g, ANF_OP_Undef, at, 0, NULL), t);
}

anf_node *anfi_ad_call_node(anfi_ad *ad, anf_graph *g, anf_node *callee, const anf_type *type,
                            size_t n, anf_node *const *args) {
  anf_node **in = ANFI_NEW_N(ad->arena, anf_node *, n + 1);
  in[0] = callee;
  if (n) memcpy(in + 1, args, n * sizeof *in);
  return anfi_ad_typed(ad, anfi_call(g, n + 1, in), type);
}

anf_node *anfi_ad_call(anfi_ad *ad, anf_graph *g, anf_graph *f, const anf_type *type, size_t n,
                       anf_node *const *args) {
  if (!type) type = anfi_ad_type_of(ad, f->result);
  return anfi_ad_call_node(ad, g, anfi_graph_value(f), type, n, args);
}

/* ---- leaves ---- */

static void put_leaves(anfi_ad *ad, anf_graph *g, anf_node *x, anf_node **out, size_t *at) {
  const anf_type *t = anfi_ad_type_of(ad, x);
  if (anfi_is_leaf(t)) out[(*at)++] = x;
  for (uint32_t i = 0; anfi_is_nest(t) && i < t->n; i++)
    if (anfi_ad_leaves(t->items[i])) put_leaves(ad, g, item(ad, g, x, i), out, at);
}

void anfi_leaf_nodes(anfi_ad *ad, anf_graph *g, anf_node *x, anf_node **out) {
  size_t at = 0;
  put_leaves(ad, g, x, out, &at);
}

/* Zeros of a tensor type whose dims are known. */
static anf_node *static_zeros(anfi_ad *ad, anf_graph *g, const anf_type *t) {
  if (!t->n && anfi_ad_varies(t)) return anfi_ad_number(ad, (anf_dtype)t->dtype, 0);
  if (!t->n) return anfi_ad_const(ad, anfi_value_new_tensor(ad->m->cx, t));
  anf_value *v[2] = {anfi_value_new_ints(ad->m->cx, t->n, t->dims), NULL};
  anfi_value_guard(v[0]);
  v[1] = anfi_value_new_type(ad->m->cx, anfi_type_scalar(ad->m->cx, (anf_dtype)t->dtype));
  anfi_value_guard(v[1]);
  const anfi_attrs *at = NULL;
  anfi_attrs_new(ad->m, ANF_OP_Zeros, v, anfi_nowhere(), &at);
  for (int i = 0; i < 2; i++) anfi_value_unguard(v[i]), anf_value_release(v[i]);
  return anfi_ad_typed(ad, anfi_apply(g, ANF_OP_Zeros, at, 0, NULL), t);
}

anf_node *anfi_zero_leaf(anfi_ad *ad, anf_graph *g, const anf_type *t, anf_node *like) {
  size_t n;
  bool boxed = t->kind == ANF_TYPE_BOX || t->kind == ANF_TYPE_STACK;
  if (t->kind == ANF_TYPE_TENSOR && t->dtype != ANF_KEY && anfi_type_elements(t, &n))
    return static_zeros(ad, g, t);
  if (!like) return anfi_ad_undef(ad, g, t);
  anfi_opcode op = boxed ? ANF_OP_ResidualZeros : ANF_OP_ZerosLike;
  return anfi_ad_typed(ad, anfi_apply(g, op, NULL, 1, &like), t);
}

/* A type without leaves: data with no derivative. */
static anf_node *nothing(anfi_ad *ad, anf_graph *g, const anf_type *t, anf_node *like) {
  anf_ctx *cx = ad->m->cx;
  if (t->kind == ANF_TYPE_NONE) return anfi_ad_const(ad, anfi_value_new_none(cx));
  if (t->kind == ANF_TYPE_STRING) return anfi_ad_const(ad, anfi_value_new_string(cx, "", 0));
  bool numbers = t->kind == ANF_TYPE_TENSOR && t->dtype != ANF_KEY;
  return numbers ? anfi_zero_leaf(ad, g, t, like) : like ? like : anfi_ad_undef(ad, g, t);
}

static anf_node *from_leaves(anfi_ad *ad, anf_graph *g, const anf_type *t, anf_node *like,
                             anf_node *const **leaf) {
  if (anfi_is_nest(t)) {
    anf_node **items = ANFI_NEW_N(ad->arena, anf_node *, t->n + 1);
    for (uint32_t i = 0; i < t->n; i++)
      items[i] = from_leaves(ad, g, t->items[i], like ? item(ad, g, like, i) : NULL, leaf);
    return t->kind == ANF_TYPE_TUPLE ? anfi_ad_tuple(ad, g, t->n, items) : record(ad, g, t, items);
  }
  if (!anfi_is_leaf(t)) return nothing(ad, g, t, like);
  anf_node *x = *(*leaf)++;
  return x ? x : anfi_zero_leaf(ad, g, t, like);
}

anf_node *anfi_of_leaves(anfi_ad *ad, anf_graph *g, const anf_type *t, anf_node *like,
                         anf_node *const *leaf) {
  return from_leaves(ad, g, t, like, &leaf);
}

anf_node *anfi_add_leaf(anfi_ad *ad, anf_graph *g, anf_node *a, anf_node *b) {
  if (!a || !b) return a ? a : b;
  const anf_type *t = anfi_ad_type_of(ad, a);
  if (t->kind == ANF_TYPE_TENSOR) return anfi_ad_sum(ad, g, a, b);
  return anfi_ad_typed(ad, anfi_apply2(g, ANF_OP_ResidualAdd, a, b), t);
}

/* ---- loops ---- */

static const anfi_attrs *loop_attrs(anfi_ad *ad, const anfi_loop_op *l) {
  anf_ctx *cx = ad->m->cx;
  anf_value *v[ANFI_LOOP_ATTRS];
  const int64_t x[ANFI_LOOP_ATTRS] = {(int64_t)l->nw, (int64_t)l->nx, (int64_t)l->nout,
                                      l->n != NULL,   l->reverse,     l->rounds,
                                      l->go != NULL};
  for (int i = 0; i < ANFI_LOOP_ATTRS; i++) {
    v[i] = anfi_value_new_i64(cx, i < ANFI_LOOP_COUNTED ? ANF_INT : ANF_BOOL, x[i]);
    anfi_value_guard(v[i]);
  }
  const anfi_attrs *at = NULL;
  anfi_attrs_new(ad->m, ANF_OP_Loop, v, anfi_nowhere(), &at);
  for (int i = 0; i < ANFI_LOOP_ATTRS; i++) anfi_value_unguard(v[i]), anf_value_release(v[i]);
  return at;
}

anf_node *anfi_ad_loop(anfi_ad *ad, anf_graph *g, const anfi_loop_op *l, anf_node *const *args) {
  size_t nargs = l->nw + l->ns + l->nx, n = 0, nt = 0;
  anf_node **in = ANFI_NEW_N(ad->arena, anf_node *, nargs + 2);
  const anf_type **t = ANFI_NEW_N(ad->arena, const anf_type *, l->ns + l->nout + 1);
  in[n++] = anfi_graph_value(l->step);
  if (l->n || l->go) in[n++] = l->n ? l->n : l->go;
  if (nargs) memcpy(in + n, args, nargs * sizeof *in);
  for (size_t i = 0; i < l->ns; i++) t[nt++] = anfi_ad_type_of(ad, args[l->nw + i]);
  for (size_t i = 0; i < l->nout; i++) t[nt++] = anfi_type_simple(ad->m->cx, ANF_TYPE_STACK);
  if (l->rounds) t[nt++] = anfi_type_scalar(ad->m->cx, ANF_I64);
  return anfi_ad_typed(ad, anfi_apply(g, ANF_OP_Loop, loop_attrs(ad, l), n + nargs, in),
                       anfi_type_tuple(ad->m->cx, nt, t));
}

bool anfi_ad_asks_dims(const anfi_ad *ad, const anf_node *n) {
  if (anfi_op_of(n)->flags & ANFI_DIMS) return true;
  if (n->op != ANF_OP_GetField) return false;
  return !anfi_attr_is(anfi_attr_value(ad->m->cx, ANF_OP_GetField, n->u.attrs, 0), "T");
}
