// SPDX-License-Identifier: Apache-2.0
/* Jacobians: a batch of pullbacks (jacrev) or pushforwards (jacfwd), one for each unit vector.
 *   jacrev(f)(x), f: R3 -> R2            vmap over 2 unit vectors of ◀f: f64[2,3]
 * Arguments and values may be trees: the Jacobian is a tree like the value of trees like the argument. */
#include "optimizer/infer/transform.h"

static bool is_known_tensor(const anfi_abs *a, size_t *n) {
  return a->kind == ANFI_ABS_DATA && a->type->kind == ANF_TYPE_TENSOR &&
         anfi_type_elements(a->type, n);
}

static bool has_derivative(const anfi_abs *a) {
  return anfi_dtype_class((anf_dtype)a->type->dtype) == ANFI_CLASS_FLOAT ||
         anfi_dtype_class((anf_dtype)a->type->dtype) == ANFI_CLASS_COMPLEX;
}

static anf_node *op1(const walk *w, anfi_opcode op, anf_value *attr, const anf_type *t,
                     anf_node *x) {
  return anfi_emit_apply(w->e, op, anfi_attrs_one(w->q->m, op, attr), t, 1, &x);
}

static anf_node *reshaped(const walk *w, anf_node *x, const anf_type *t) {
  return x->type == t ? x
                      : op1(w, ANF_OP_Reshape, anfi_value_new_ints(w->q->cx, t->n, t->dims), t, x);
}

/* An op without inputs, such as Zeros: its first attribute is the size, attribute number `last` the dtype. */
static anf_node *filled(const walk *w, anfi_opcode op, anf_value *size, uint32_t last,
                        const anf_type *t) {
  anf_value *v[4] = {size, NULL, NULL, NULL};
  const anfi_attrs *at = NULL;
  anfi_value_guard(size);
  v[last] = anfi_value_new_type(w->q->cx, anfi_type_scalar(w->q->cx, (anf_dtype)t->dtype));
  anfi_value_guard(v[last]);
  anfi_attrs_new(w->q->m, op, v, anfi_nowhere(), &at);
  anfi_value_unguard(v[last]);
  anfi_value_unguard(size);
  anf_value_release(v[last]);
  anf_value_release(size);
  return anfi_emit_apply(w->e, op, at, t, 0, NULL);
}

/* The unit vectors of t's shape: [n, dims of t]. */
static anf_node *unit_vectors(const walk *w, const anf_type *t, size_t n, const anf_type *batch) {
  anf_ctx *cx = w->q->cx;
  const anf_type *square =
      anfi_type_tensor(cx, (anf_dtype)t->dtype, 2, (const int64_t[]){(int64_t)n, (int64_t)n});
  anf_value *size = anfi_value_new_i64(cx, ANF_INT, (int64_t)n);
  return reshaped(w, filled(w, ANF_OP_Eye, size, 3, square), batch);
}

static anf_node *zeros(const walk *w, const anf_type *t) {
  return filled(w, ANF_OP_Zeros, anfi_value_new_ints(w->q->cx, t->n, t->dims), 1, t);
}

static const anf_type *joined(const walk *w, const anf_type *a, const anf_type *b, anf_dtype d) {
  int64_t dims[2 * ANF_MAX_RANK];
  size_t n = 0;
  for (uint32_t i = 0; i < a->n; i++) dims[n++] = a->dims[i];
  for (uint32_t i = 0; i < b->n; i++) dims[n++] = b->dims[i];
  return n <= ANF_MAX_RANK ? anfi_type_tensor(w->q->cx, d, n, dims) : NULL;
}

typedef struct {
  const walk *w;
  part f;
  size_t n;
  const part *args;
  const anfi_abs *y, *number; // the value of f, and its differentiated part
  int64_t item;
} jacobian;

/* A tensor in a tree: item `of[0]` of it, item `of[1]` of that and so on. */
typedef struct {
  const anfi_abs *abs;
  size_t depth;
  uint32_t *of;
} leaf;
typedef ANFI_VEC(leaf) leaves;

/* The tensors of a tree, in order. False if there is something else, or one of unknown shape. */
static bool find_leaves(const walk *w, const anfi_abs *tree, leaves *out) {
  anfi_arena *a = w->q->arena;
  leaves todo = {0};
  size_t ignored;
  anfi_push(a, &todo, ((leaf){tree, 0, NULL}));
  while (todo.n) {
    leaf l = todo.at[--todo.n];
    bool inner = l.abs->kind == ANFI_ABS_TUPLE || l.abs->kind == ANFI_ABS_RECORD;
    if (!inner && !is_known_tensor(l.abs, &ignored)) return false;
    if (!inner) anfi_push(a, out, l);
    for (uint32_t i = inner ? l.abs->n : 0; i-- > 0;) {
      leaf sub = {l.abs->item[i], l.depth + 1, ANFI_NEW_N(a, uint32_t, l.depth + 1)};
      if (l.depth) memcpy(sub.of, l.of, l.depth * sizeof *sub.of);
      sub.of[l.depth] = i;
      anfi_push(a, &todo, sub);
    }
  }
  return true;
}

/* A tree like another one, whose leaves are next in `from`. As deep as the abs: bounded. */
static part tree_of(const walk *w, const anfi_abs *like, const part **from) {
  if (like->kind == ANFI_ABS_DATA) return *(*from)++;
  part *items = ANFI_NEW_N(w->q->arena, part, like->n + 1);
  for (uint32_t i = 0; i < like->n; i++) items[i] = tree_of(w, like->item[i], from);
  return like->kind == ANFI_ABS_RECORD ? anfi_part_record(w, like->type, like->n, items)
                                       : anfi_part_tuple(w, like->n, items);
}

static part leaf_of(const walk *w, part tree, const leaf *l) {
  for (size_t k = 0; k < l->depth; k++) tree = anfi_part_item(w, tree, l->of[k]);
  return tree;
}

/* A tree that is v at one leaf, else 0. */
static part planted(const walk *w, const anfi_abs *like, const leaf *at, part v) {
  leaves all = {0};
  find_leaves(w, like, &all);
  part *items = ANFI_NEW_N(w->q->arena, part, all.n + 1);
  for (size_t i = 0; i < all.n; i++) {
    const leaf *l = &all.at[i];
    const anfi_abs *a = anfi_plain_abs(w, l->abs);
    bool here =
        l->depth == at->depth && (!l->depth || !memcmp(l->of, at->of, l->depth * sizeof *l->of));
    items[i] = here ? v : (part){a, zeros(w, a->type)};
  }
  const part *next = items;
  return tree_of(w, like, &next);
}

/* One Jacobian: of a leaf of the value, by a leaf of an argument. */
typedef struct {
  size_t pos;
  const leaf *x, *y;
  bool forward;
} place;

/* Derive(vmap) over a graph P(data, args, v) that holds the derivative in direction v: [n, ..] with
 * the new axis at `axis`. */
static anf_node *batch_of(const jacobian *j, const place *at, const anf_type *vt,
                          const anf_type *rt, size_t n, size_t axis) {
  const walk *w = j->w;
  anfi_emit *e = w->e;
  anf_graph *outer = e->g, *p = anfi_graph_new(w->q->m, outer->name);
  p->flags = ANFI_GRAPH_PRIVATE;
  part *args = ANFI_NEW_N(w->q->arena, part, j->n + 1);
  part f = {j->f.abs, anfi_param(p, NULL, j->f.node->type)};
  for (size_t i = 0; i < j->n; i++)
    args[i] = (part){j->args[i].abs, anfi_param(p, NULL, j->args[i].node->type)};
  part v = {anfi_abs_data(&w->q->abs, vt), anfi_param(p, NULL, vt)};
  e->g = p;
  v = planted(w, at->forward ? j->args[at->pos].abs : j->number, at->forward ? at->x : at->y, v);
  part r = at->forward ? anfi_part_jvp(w, f, j->n, args, 1, &at->pos, &v)
                       : anfi_part_vjp(w, f, j->n, args, 1, &at->pos, j->item, v);
  if (r.abs) {
    part out = anfi_part_item(w, r, 1);
    if (!at->forward || j->item >= 0) out = anfi_part_item(w, out, 0);
    anfi_set_result(p, leaf_of(w, out, at->forward ? at->y : at->x).node);
  }
  e->g = outer;
  if (!r.abs) return NULL;
  const anf_type *batch =
      joined(w, anfi_type_tensor(w->q->cx, ANF_F32, 1, (const int64_t[]){(int64_t)n}), vt,
             (anf_dtype)vt->dtype);
  anf_node **in = ANFI_NEW_N(w->q->arena, anf_node *, j->n + 2);
  anfi_axes ain = {0}, aout = {0};
  in[0] = j->f.node;
  anfi_no_axes(w, j->f.node->type, &ain);
  for (size_t i = 0; i < j->n; i++) {
    in[i + 1] = j->args[i].node;
    anfi_no_axes(w, j->args[i].node->type, &ain);
  }
  in[j->n + 1] = unit_vectors(w, vt, n, batch);
  anfi_push(w->q->arena, &ain, 0);
  anfi_push(w->q->arena, &aout, (int64_t)axis);
  anfi_derived d = {"vmap", 0, NULL, -1, anfi_axes_value(w, &ain, &aout), NULL};
  return anfi_emit_derive(e, &d, p, j->n + 2, in, rt);
}

/* dims of the value, then those of the argument */
static part one_jacobian(const jacobian *j, const place *at) {
  const walk *w = j->w;
  size_t nx = 0, ny = 0;
  const anf_type *x = at->x->abs->type, *y = at->y->abs->type;
  is_known_tensor(at->x->abs, &nx);
  is_known_tensor(at->y->abs, &ny);
  const anf_type *t = joined(w, y, x, (anf_dtype)x->dtype);
  if (!t) return anfi_transform_fail(w, ANF_E0535, "a Jacobian", "too many dims");
  part r = {anfi_abs_data(&w->q->abs, t), NULL};
  if (!w->e) return r;
  size_t n = at->forward ? nx : ny;
  const anf_type *count = anfi_type_tensor(w->q->cx, ANF_F32, 1, (const int64_t[]){(int64_t)n}),
                 *flat = at->forward ? joined(w, y, count, (anf_dtype)y->dtype)
                                     : joined(w, count, x, (anf_dtype)x->dtype);
  anf_node *b = batch_of(j, at, at->forward ? x : y, flat, n, at->forward ? y->n : 0);
  if (!b) return failed();
  r.node = reshaped(w, b, anfi_type_with_dtype(w->q->cx, t, (anf_dtype)flat->dtype));
  r.abs = anfi_abs_data(&w->q->abs, r.node->type);
  return r;
}

/* Of one leaf of the value: a tree like the argument. */
static part by_argument(const jacobian *j, bool forward, const leaf *y, size_t pos) {
  leaves in = {0};
  const anfi_abs *x = j->args[pos].abs;
  if (!find_leaves(j->w, x, &in))
    return anfi_transform_fail(j->w, ANF_E0535, forward ? "JacFwd" : "JacRev",
                               anfi_show_abs(j->w->q, x));
  part *r = ANFI_NEW_N(j->w->q->arena, part, in.n + 1);
  for (size_t i = 0; i < in.n; i++)
    if (!(r[i] = one_jacobian(j, &(place){pos, &in.at[i], y, forward})).abs) return failed();
  const part *next = r;
  return tree_of(j->w, x, &next);
}

/* A tree like the value, of trees like the arguments. */
static part all_jacobians(const jacobian *j, bool forward, size_t npos, const size_t *pos,
                          bool single, const leaves *out) {
  part *r = ANFI_NEW_N(j->w->q->arena, part, out->n + 1),
       *by = ANFI_NEW_N(j->w->q->arena, part, npos + 1);
  for (size_t k = 0; k < out->n; k++) {
    for (size_t i = 0; i < npos; i++)
      if (!(by[i] = by_argument(j, forward, &out->at[k], pos[i])).abs) return failed();
    r[k] = single ? by[0] : anfi_part_tuple(j->w, npos, by);
  }
  const part *next = r;
  return tree_of(j->w, j->number, &next);
}

part anfi_part_jacobian(const walk *w, bool forward, anfi_opcode op, part f, size_t n,
                        const part *args, size_t npos, const size_t *pos, bool single, bool aux) {
  part y = anfi_part_call(&(walk){w->q, NULL, w->at}, f, n, args);
  y.abs = anfi_whole_abs(w, y.abs);
  if (!y.abs || anfi_is_bottom(y)) return (part){y.abs, f.node};
  if (aux && (y.abs->kind != ANFI_ABS_TUPLE || y.abs->n != 2))
    return anfi_transform_fail(w, ANF_E0534, anfi_op[op].name, anfi_show_abs(w->q, y.abs));
  const anfi_abs *number = aux ? y.abs->item[0] : y.abs;
  leaves out = {0};
  bool good = find_leaves(w, number, &out);
  for (size_t i = 0; good && i < out.n; i++) good = has_derivative(out.at[i].abs);
  if (!good)
    return anfi_transform_fail(w, ANF_E0535, anfi_op[op].name, anfi_show_abs(w->q, number));
  jacobian j = {w, f, n, args, y.abs, number, aux ? 0 : -1};
  bool effect = w->e && w->e->effect;
  part value = aux || effect ? anfi_part_call(w, f, n, args) : y; // has the effects, once
  if (!value.abs) return value;
  if (w->e) w->e->effect = false;
  part all = all_jacobians(&j, forward, npos, pos, single, &out);
  if (w->e) w->e->effect = effect;
  if (!aux || !all.abs) return all;
  return anfi_part_tuple(w, 2, (const part[]){all, anfi_part_item(w, value, 1)});
}
