// SPDX-License-Identifier: Apache-2.0
/* Pullbacks of writes at indices and of x[...].
 *   y = x with y[i] = v                  dx = dy with dx[i] = 0;  dv = dy[i]
 * Of several updates to one element only those that made the result get a part. Second derivatives of mode=mul
 * treat a factor that is exactly 0 as a constant. */
#include "autodiff/derive/derive.h"
#include "ir/ops/array/getitem.h"

/* ---- writes: x indices updates; attributes axis? mode ---- */

static anf_node *read_at(anfi_derive *q, anf_node *x) {
  switch (q->op) {
  case ANF_OP_IndexWrite: return anfi_derive_build(q, "(Take @0 indices axis=axis)", &x, 0, NULL);
  case ANF_OP_WriteAlongAxis:
    return anfi_derive_build(q, "(TakeAlongAxis @0 indices axis=axis)", &x, 0, NULL);
  default: return anfi_derive_build(q, "(GatherNd @0 indices)", &x, 0, NULL);
  }
}

static anf_node *write_at(anfi_derive *q, anf_node *x, anf_node *updates, const char *mode) {
  anf_node *in[2] = {x, updates};
  anf_value *v = anfi_value_new_string(q->ad->m->cx, mode, strlen(mode));
  anfi_value_guard(v);
  switch (q->op) {
  case ANF_OP_IndexWrite:
    return anfi_derive_build(q, "(IndexWrite @0 indices @1 axis=axis mode=$0)", in, 1, &v);
  case ANF_OP_WriteAlongAxis:
    return anfi_derive_build(q, "(WriteAlongAxis @0 indices @1 axis=axis mode=$0)", in, 1, &v);
  default: return anfi_derive_build(q, "(ScatterNd @0 indices @1 mode=$0)", in, 1, &v);
  }
}

/* Can two updates go to one place? */
static bool may_collide(anfi_derive *q) {
  const anf_type *t = anfi_derive_type(q, 1);
  int64_t n = 1;
  for (uint32_t k = 0; k < t->n; k++) {
    if (t->dims[k] < 0) return true;
    bool position = q->op == ANF_OP_ScatterNd && k + 1 == t->n;
    bool apart = q->op == ANF_OP_WriteAlongAxis &&
                 (int64_t)k != anfi_attr_int(anfi_derive_attr(q, "axis")) &&
                 (int64_t)k != anfi_attr_int(anfi_derive_attr(q, "axis")) + (int64_t)t->n;
    if (!position && !apart) n *= t->dims[k];
  }
  if (n <= 1 || q->op != ANF_OP_IndexWrite) return n > 1;
  const anf_value *axis = anfi_derive_attr(q, "axis");
  const anf_type *x = anfi_derive_type(q, 0);
  size_t size, a = 0;
  if (!anfi_type_elements(x, &size)) return true;
  if (!anfi_attr_given(axis)) return !anfi_derive_are_apart(q, q->primal->in[1].def, (int64_t)size);
  return !anfi_axis_in(anfi_attr_int(axis), x->n, &a) ||
         !anfi_derive_are_apart(q, q->primal->in[1].def, x->dims[a]);
}

/* Which updates are in the result, where several were written to one place: the number of each is written as the update
 * was, and read back. */
static anf_node *winners(anfi_derive *q) {
  const anf_type *u = anfi_derive_type(q, 2);
  size_t n;
  if (!anfi_type_elements(u, &n) || !anfi_derive_static(q, 0)) return NULL;
  anf_value *v[2] = {anfi_derive_int(q, (int64_t)n), anfi_derive_ints(q, u->n, u->dims)};
  anf_node *number =
      anfi_derive_build(q, "(Reshape (Arange stop=$0 dtype=i64) shape=$1)", NULL, 2, v);
  const anf_type *t = anfi_type_with_dtype(q->ad->m->cx, anfi_derive_type(q, 0), ANF_I64);
  anf_node *none = anfi_ad_full(q->ad, q->g, t, 0);
  anf_node *last = number && none ? write_at(q, none, number, "update") : NULL;
  anf_node *seen = last ? read_at(q, last) : NULL;
  return seen ? anfi_ad_apply2(q->ad, q->g, ANF_OP_Equal, seen, number) : NULL;
}

static bool update(anfi_derive *q) {
  anf_node *none = anfi_ad_zeros(q->ad, q->g, q->in[2]);
  if (anfi_derive_wants(q, 0) && !(q->out[0] = write_at(q, q->dy[0], none, "update"))) return false;
  if (!anfi_derive_wants(q, 2)) return true;
  anf_node *d = read_at(q, q->dy[0]);
  if (d && may_collide(q)) {
    anf_node *in[2] = {winners(q), d};
    d = in[0] ? anfi_derive_build(q, "(Where @0 @1 0)", in, 0, NULL) : NULL;
  }
  return (q->out[2] = d) != NULL;
}

static bool add(anfi_derive *q) {
  if (anfi_derive_wants(q, 0)) q->out[0] = q->dy[0];
  return !anfi_derive_wants(q, 2) || (q->out[2] = read_at(q, q->dy[0])) != NULL;
}

/* Where each place has at most one update, the adjoint of x changes at those places alone: y[i] = r * u with r = x[i]
 *   dx = dy with dx[i] = dy[i] * u;  du = dy[i] * r
 * so that a loop of such writes takes no work of the size of x in a round. */
static bool multiply_apart(anfi_derive *q) {
  anf_node *in[2] = {read_at(q, q->dy[0]), NULL};
  anf_node *old = anfi_derive_wants(q, 2) ? read_at(q, q->in[0]) : NULL;
  anf_node *d = in[0] ? anfi_derive_build(q, "(Mul @0 (Conj updates))", in, 0, NULL) : NULL;
  if (!d || !(q->out[0] = write_at(q, q->dy[0], d, "update"))) return false;
  if (!anfi_derive_wants(q, 2)) return true;
  in[1] = old;
  return old && (q->out[2] = anfi_derive_build(q, "(Mul @0 (Conj @1))", in, 0, NULL));
}

/* Of x[i] and u, that which is the extreme gets dy[i], both get a half where they are equal, NaN nothing. */
static bool extreme_apart(anfi_derive *q) {
  anf_node *in[4] = {read_at(q, q->in[0]), read_at(q, q->y), read_at(q, q->dy[0]), NULL};
  if (!in[0] || !in[1] || !in[2]) return false;
  in[3] = anfi_derive_build(
      q, "(SafeDiv @2 (Add (CastLike (Equal @0 @1) dy) (CastLike (Equal updates @1) dy)))", in, 0,
      NULL);
  if (!in[3]) return false;
  anf_node *d = anfi_derive_build(q, "(Where (Equal @0 @1) @3 0)", in, 0, NULL);
  if (!d || !(q->out[0] = write_at(q, q->dy[0], d, "update"))) return false;
  q->out[2] = anfi_derive_build(q, "(Where (Equal updates @1) @3 0)", in, 0, NULL);
  return q->out[2] != NULL;
}

/* The extreme's dy is shared by all that are equal to it. */
static bool extreme(anfi_derive *q) {
  anf_node *in[3] = {read_at(q, q->y), NULL, NULL};
  anf_node *hits = in[0] ? anfi_derive_build(q, "(Equal updates @0)", in, 0, NULL) : NULL;
  anf_node *kept = anfi_derive_build0(q, "(CastLike (Equal x y) dy)");
  anf_node *hit = hits ? anfi_derive_build(q, "(CastLike @0 dy)", &hits, 0, NULL) : NULL;
  anf_node *many = kept && hit ? write_at(q, kept, hit, "add") : NULL;
  anf_node *share = many ? anfi_derive_build(q, "(SafeDiv dy @0)", &many, 0, NULL) : NULL;
  if (!share) return false;
  q->out[0] = anfi_derive_build(q, "(Where (Equal x y) @0 0)", &share, 0, NULL);
  in[1] = hits;
  in[2] = read_at(q, share);
  if (in[2]) q->out[2] = anfi_derive_build(q, "(Where @1 @2 0)", in, 0, NULL);
  return q->out[0] && q->out[2];
}

/* Products without the factor itself, right where factors are 0: p is the product of those that are
 * not, z counts those that are. */
static bool multiply(anfi_derive *q) {
  anf_node *in[4] = {NULL};
  anf_node *ones = anfi_derive_build0(q, "(OnesLike dy)"),
           *all = ones ? write_at(q, ones, q->in[2], "mul") : NULL;
  if (!all) return false;
  q->out[0] = anfi_derive_build(q, "(Mul dy (Conj @0))", &all, 0, NULL);
  anf_node *rest = anfi_derive_build0(q, "(Where (Equal updates 0) 1 updates)"),
           *zero = anfi_derive_build0(q, "(CastLike (Equal updates 0) dy)"),
           *none = anfi_derive_build0(q, "(ZerosLike dy)");
  anf_node *p = rest ? write_at(q, ones, rest, "mul") : NULL,
           *z = zero && none ? write_at(q, none, zero, "add") : NULL;
  if (!p || !z || !q->out[0]) return false;
  anf_node *d = anfi_derive_build(q, "(Mul dy (Conj (Mul x @0)))", &p, 0, NULL);
  anf_node *pair[2] = {z, d};
  anf_node *without = d ? anfi_derive_build(q, "(Where (Equal @0 0) @1 0)", pair, 0, NULL) : NULL,
           *with = d ? anfi_derive_build(q, "(Where (Equal @0 1) @1 0)", pair, 0, NULL) : NULL;
  in[0] = rest;
  in[1] = with ? read_at(q, with) : NULL;
  in[2] = without ? read_at(q, without) : NULL;
  if (!in[1] || !in[2]) return false;
  q->out[2] = anfi_derive_build(q, "(Div (Where (Equal updates 0) @1 @2) (Conj @0))", in, 0, NULL);
  return q->out[2] != NULL;
}

bool anfi_vjp_write(anfi_derive *q) {
  const anf_value *mode = anfi_derive_attr(q, "mode");
  if (anfi_attr_is(mode, "add")) return add(q);
  if (anfi_attr_is(mode, "update")) return update(q);
  bool many = may_collide(q);
  if (anfi_attr_is(mode, "mul")) return many ? multiply(q) : multiply_apart(q);
  return many ? extreme(q) : extreme_apart(q);
}

/* ---- reads ---- */

bool anfi_vjp_shuffle(anfi_derive *q) {
  if (!anfi_derive_static(q, 1)) return false;
  size_t axis = 0;
  const anf_type *t = anfi_derive_type(q, 1);
  anfi_axis_in(anfi_attr_int(anfi_derive_attr(q, "axis")), t->n, &axis);
  anf_value *n = anfi_derive_int(q, t->dims[axis]);
  q->out[1] = anfi_derive_build(
      q, "(IndexWrite (ZerosLike x) (Permutation key n=$0) dy axis=axis mode=add)", NULL, 1, &n);
  return q->out[1] != NULL;
}

/* A subscript of constant indices and slices: each axis of x takes from..to by step. */
typedef struct {
  bool whole;
  int64_t from, to, step;
  bool has_from, has_to;
} cut;

/* Reads the parts into cuts by axis; false when one is not constant. */
static bool constant_cuts(const anfi_subscript *s, size_t rank, cut *cuts) {
  size_t named = 0, axis = 0;
  for (size_t k = 0; k < s->n; k++)
    named += s->part[k].kind == ANFI_PART_INDEX || s->part[k].kind == ANFI_PART_SLICE;
  for (size_t k = 0; k < rank; k++) cuts[k] = (cut){.whole = true};
  for (size_t k = 0; k < s->n; k++) {
    const anfi_part *p = &s->part[k];
    if (p->kind == ANFI_PART_DOTS) axis += rank - named;
    if (p->kind != ANFI_PART_INDEX && p->kind != ANFI_PART_SLICE) continue;
    for (int j = 0; j < 3; j++)
      if (p->given[j] == ANFI_INPUT) return false;
    cut *c = &cuts[axis++];
    c->whole = false;
    c->from = p->v[0];
    c->has_from = p->given[0] != ANFI_ABSENT;
    c->to = p->kind == ANFI_PART_INDEX ? c->from + 1 : p->v[1];
    c->has_to = p->kind == ANFI_PART_INDEX ? c->from != -1 : p->given[1] != ANFI_ABSENT;
    c->step = p->kind == ANFI_PART_SLICE && p->given[2] ? p->v[2] : 1;
  }
  return true;
}

static anf_value *end_value(anfi_derive *q, bool given, int64_t x) {
  anf_value *v =
      given ? anfi_value_new_i64(q->ad->m->cx, ANF_INT, x) : anfi_value_new_none(q->ad->m->cx);
  anfi_value_guard(v);
  return v;
}

static int64_t cut_size(const cut *c, int64_t n) {
  int64_t start, from = c->from, to = c->to;
  return (int64_t)anfi_slice_ints((size_t)n, c->has_from ? &from : NULL, c->has_to ? &to : NULL,
                                  c->step, &start);
}

/* From the last axis on, dy is written into zeros of the size that the axis had. */
static bool write_cuts(anfi_derive *q, const cut *cuts) {
  const anf_type *t = anfi_derive_type(q, 0), *dt = anfi_ad_type_of(q->ad, q->dy[0]);
  int64_t dims[ANF_MAX_RANK];
  for (size_t k = 0; k < t->n; k++)
    dims[k] = cuts[k].whole ? t->dims[k] : cut_size(&cuts[k], t->dims[k]);
  anf_node *d = anfi_derive_reshape(q, q->dy[0], t->n, dims);
  for (size_t k = t->n; d && k-- > 0;) {
    if (cuts[k].whole) continue;
    dims[k] = t->dims[k];
    const anf_type *to = anfi_type_tensor(q->ad->m->cx, (anf_dtype)dt->dtype, t->n, dims);
    anf_node *in[2] = {anfi_ad_full(q->ad, q->g, to, 0), d};
    anf_value *v[4] = {end_value(q, cuts[k].has_from, cuts[k].from), NULL, NULL, NULL};
    v[1] = end_value(q, cuts[k].has_to, cuts[k].to);
    v[2] = anfi_derive_int(q, cuts[k].step);
    v[3] = anfi_derive_int(q, (int64_t)k);
    d = anfi_derive_build(q, "(SliceUpdate @0 @1 start=$0 stop=$1 step=$2 axis=$3)", in, 4, v);
  }
  return (q->out[0] = d) != NULL;
}

/* Any other subscript: the same one of the elements' numbers says where each came from. */
static bool by_number(anfi_derive *q) {
  const anf_type *t = anfi_derive_type(q, 0);
  size_t n;
  anfi_type_elements(t, &n);
  anf_value *v[2] = {anfi_derive_int(q, (int64_t)n), anfi_derive_ints(q, t->n, t->dims)};
  q->out[0] = anfi_derive_build(q,
                                "(IndexWrite (ZerosLike x) (GetItem (Reshape (Arange stop=$0 "
                                "dtype=i64) shape=$1) indices spec=spec) dy mode=add)",
                                NULL, 2, v);
  return q->out[0] != NULL;
}

/* x[i, j], of numbers alone: i and j, or NULL. */
static anf_node **numbers(anfi_derive *q, const anfi_subscript *s) {
  anf_node **at = ANFI_NEW_N(q->ad->arena, anf_node *, s->n + 1);
  for (size_t k = 0; k < s->n; k++) {
    const anfi_part *p = &s->part[k];
    bool input = p->given[0] == ANFI_INPUT;
    if (p->kind != ANFI_PART_INDEX) return NULL;
    at[k] = input ? q->in[p->v[0]] : anfi_ad_number(q->ad, ANF_I64, (double)p->v[0]);
    const anf_type *t = anfi_ad_type_of(q->ad, at[k]);
    if (!t || t->kind != ANF_TYPE_TENSOR || t->n || !anfi_dtype_is_int((anf_dtype)t->dtype))
      return NULL;
    if (input) at[k] = anfi_derive_build(q, "(Cast @0 dtype=i64)", &at[k], 0, NULL);
    if (!at[k]) return NULL;
  }
  return at;
}

/* The one place that the numbers name. */
static bool write_place(anfi_derive *q, size_t n, anf_node *const *at) {
  anf_value *axis = anfi_derive_int(q, 0);
  anf_node *place =
      anfi_ad_apply(q->ad, q->g, ANF_OP_Stack, anfi_ad_attrs(q->ad, ANF_OP_Stack, &axis), n, at);
  q->out[0] =
      place ? anfi_derive_build(q, "(ScatterNd (ZerosLike x) @0 dy mode=add)", &place, 0, NULL)
            : NULL;
  return q->out[0] != NULL;
}

bool anfi_vjp_get_item(anfi_derive *q) {
  anfi_subscript s;
  cut cuts[ANF_MAX_RANK];
  const anf_type *t = anfi_derive_type(q, 0);
  if (t->kind != ANF_TYPE_TENSOR)
    return anfi_derive_refuse(q->ad, q->primal, 0, ANFI_DERIVATIVE_GRAPH);
  if (!anfi_subscript_read(q->ad->m->cx, anfi_node_loc(q->primal), anfi_derive_attr(q, "spec"),
                           q->n, &s))
    return false;
  if (s.n == 1 && s.part[0].kind == ANFI_PART_INDEX) { // x[i]: rows
    anf_node *at = s.part[0].given[0] == ANFI_INPUT
                       ? q->in[1]
                       : anfi_ad_number(q->ad, ANF_I64, (double)s.part[0].v[0]);
    q->out[0] =
        anfi_derive_build(q, "(IndexWrite (ZerosLike x) @0 dy axis=0 mode=add)", &at, 0, NULL);
    return q->out[0] != NULL;
  }
  anf_node **at = numbers(q, &s);
  if (at) return write_place(q, s.n, at);
  if (!anfi_derive_static(q, 0)) return false;
  return constant_cuts(&s, t->n, cuts) ? write_cuts(q, cuts) : by_number(q);
}
