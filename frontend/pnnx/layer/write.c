// SPDX-License-Identifier: Apache-2.0
/* Parts of a tensor, cut out or replaced: slices along several dims, indices, masks.
 *   Tensor.slice dims=(0,1) starts=(1,0) ends=(3,2)   ->   Slice(Slice(x, 1, 3, axis=0), 0, 2, axis=1)
 * A tensor is never changed: a replacement is a new one. */
#include "frontend/pnnx/pnnx.h"

/* ---- regions: a slice along each of some dims ---- */

typedef struct {
  size_t axis;
  anf_attr attr[4];
  size_t nattr;
  bool drop, known; // drop: one element, whose axis the region has not
} cut;
typedef struct {
  size_t n;
  cut at[ANF_MAX_RANK];
} region;

static void add_bound(const anfi_layer *l, cut *c, const char *name, const anfi_operand *o) {
  int64_t v;
  if (o->kind == ANFI_OPERAND_NONE) return;
  if (anfi_operand_int(o, &v)) c->attr[c->nattr++] = (anf_attr){name, anfi_layer_v_int(l, v), NULL};
  else {
    c->attr[c->nattr++] = (anf_attr){name, NULL, anfi_torch_node(l->t, o)};
    c->known = false;
  }
}

/* Item k of an argument that is a list, or the argument; absent is None. */
static bool item_of(const anfi_layer *l, const char *key, size_t k, anfi_operand *out) {
  anfi_operand o;
  *out = (anfi_operand){.kind = ANFI_OPERAND_NONE};
  if (!anfi_layer_given(l, key)) return true;
  if (!anfi_layer_arg(l, key, &o)) return false;
  if (o.kind == ANFI_OPERAND_LIST && k >= o.n)
    return anfi_layer_error(l, ANF_E1055, "its lists have different lengths");
  *out = o.kind == ANFI_OPERAND_LIST ? o.item[k] : o;
  if (out->kind == ANFI_OPERAND_LIST || (out->kind == ANFI_OPERAND_TENSOR && out->type->n))
    return anfi_layer_error(l, ANF_E1055, "a bound must be an integer");
  return true;
}

static bool select_one(const anfi_layer *l, const anfi_operand *x, int64_t v, cut *c) {
  int64_t size = x->type->dims[c->axis];
  if (v < 0 && size < 0) return anfi_layer_error(l, ANF_E1053, "an index in an unknown size");
  if (v < 0) v += size;
  if (v < 0 || (size >= 0 && v >= size))
    return anfi_layer_error(l, ANF_E1055, "an index is outside of its dim");
  c->attr[0] = (anf_attr){"start", anfi_layer_v_int(l, v), NULL};
  c->attr[1] = (anf_attr){"stop", anfi_layer_v_int(l, v + 1), NULL};
  c->nattr = 2;
  return c->drop = true;
}

static bool read_cut(const anfi_layer *l, const anfi_operand *x, bool many, size_t k, int64_t dim,
                     cut *c) {
  anfi_operand o;
  int64_t v;
  *c = (cut){.known = true};
  if (!anfi_layer_axis_of(l, x, dim, &c->axis)) return false;
  if (!item_of(l, many ? "selects" : "select", k, &o)) return false;
  if (anfi_operand_int(&o, &v) && v != INT32_MAX && v != INT64_MAX) {
    if (!select_one(l, x, v, c)) return false;
    anfi_layer_ignore(l, "start end step");
    goto axis;
  }
  static const char *const keys[][2] = {{"start", "starts"}, {"end", "ends"}, {"step", "steps"}};
  static const char *const names[] = {"start", "stop", "step"};
  for (size_t i = 0; i < 3; i++) {
    if (!item_of(l, keys[i][many], k, &o)) return false;
    add_bound(l, c, names[i], &o);
  }
axis:
  c->attr[c->nattr++] = (anf_attr){"axis", anfi_layer_v_int(l, (int64_t)c->axis), NULL};
  return true;
}

static bool read_region(const anfi_layer *l, const anfi_operand *x, region *r) {
  int64_t dims[ANF_MAX_RANK] = {0};
  bool many = anfi_layer_given(l, "dims");
  r->n = 1;
  if (many ? !anfi_layer_ints(l, "dims", &r->n, dims) : !anfi_layer_int(l, "dim", 0, &dims[0]))
    return false;
  if (many) anfi_layer_ignore(l, "starts ends steps selects");
  for (size_t k = 0; k < r->n; k++)
    if (!read_cut(l, x, many, k, dims[k], &r->at[k])) return false;
  return true;
}

static bool slice_once(const anfi_layer *l, const anfi_operand *x, const cut *c,
                       anfi_operand *out) {
  int64_t dims[ANF_MAX_RANK];
  const anf_type *t = x->type;
  if (!anfi_layer_op(l, ANF_OP_Slice, 1, x, c->nattr, c->attr, out)) return false;
  if (c->known) return true;
  if (t->n) memcpy(dims, t->dims, t->n * sizeof *dims);
  dims[c->axis] = ANF_DIM_UNKNOWN;
  out->type = out->node->type = anfi_type_tensor(l->t->cx, (anf_dtype)t->dtype, t->n, dims);
  return true;
}

static size_t dropped_axes(const region *r, int64_t *axes) {
  size_t n = 0;
  for (size_t k = 0; k < r->n; k++)
    if (r->at[k].drop) axes[n++] = (int64_t)r->at[k].axis;
  return n;
}

bool anfi_pnnx_make_slice(anfi_layer *l) {
  anfi_operand x;
  region r;
  int64_t axes[ANF_MAX_RANK];
  if (!anfi_layer_tensor(l, "input", 0, &x) || !read_region(l, &x, &r)) return false;
  for (size_t k = 0; k < r.n; k++)
    if (!slice_once(l, &x, &r.at[k], &x)) return false;
  size_t n = dropped_axes(&r, axes);
  l->nresult = 1;
  if (!n) return l->out[0] = x, true;
  anf_attr a = {"axis", anfi_layer_v_ints(l, n, axes), NULL};
  return anfi_layer_result(l, ANF_OP_Squeeze, 1, &x, 1, &a);
}

/* Slices of slices, then from the innermost one outwards each in the one around it. */
static bool write_region(anfi_layer *l, const anfi_operand *x, const region *r, anfi_operand src) {
  anfi_operand part[ANF_MAX_RANK + 1] = {*x};
  int64_t axes[ANF_MAX_RANK];
  size_t n = dropped_axes(r, axes);
  for (size_t k = 0; k < r->n; k++)
    if (!slice_once(l, &part[k], &r->at[k], &part[k + 1])) return false;
  if (n && src.type->n + n == x->type->n) {
    anf_attr a = {"axis", anfi_layer_v_ints(l, n, axes), NULL};
    if (!anfi_layer_op(l, ANF_OP_ExpandDims, 1, &src, 1, &a, &src)) return false;
  }
  if (!anfi_torch_cast(l->t, &src, (anf_dtype)x->type->dtype, &src)) return false;
  for (size_t k = r->n; k-- > 0;) {
    const anfi_operand in[] = {part[k], src};
    if (!anfi_layer_op(l, ANF_OP_SliceUpdate, 2, in, r->at[k].nattr, r->at[k].attr, &src))
      return false;
    if (!src.type && src.node) src.type = src.node->type = part[k].type;
  }
  l->nresult = 1;
  return l->out[0] = src, true;
}

bool anfi_pnnx_make_slice_scatter(anfi_layer *l) {
  anfi_operand x, src;
  region r;
  return anfi_layer_tensor(l, l->op->type[0] == 'T' ? "self" : "input", 0, &x) &&
         anfi_layer_tensor(l, "src", 1, &src) && read_region(l, &x, &r) &&
         write_region(l, &x, &r, src);
}

/* ---- gather and scatter: an index may be smaller than the input, whose rest it leaves alone ---- */

/* ---- masks and fills ---- */

/* A number or a tensor, in the type of x. */
static bool filling(const anfi_layer *l, const anfi_operand *x, const char *key, size_t place,
                    anfi_operand *v) {
  if (anfi_layer_given(l, key) ? !anfi_layer_arg(l, key, v) : !anfi_layer_tensor(l, key, place, v))
    return false;
  if (v->kind != ANFI_OPERAND_TENSOR || !v->type)
    return anfi_layer_error(l, ANF_E1055, "it is filled with a tensor or a number");
  return anfi_torch_cast(l->t, v, (anf_dtype)x->type->dtype, v);
}

/* ---- x[i, j] = v ---- */

/* A mask of the first dims: v must be one element, as how many are True is not known. */
static bool put_masked(anfi_layer *l, const anfi_operand *x, anfi_operand mask,
                       const anfi_operand *v, bool add) {
  anfi_operand in[] = {mask, *v, *x};
  for (size_t i = 0; i < v->type->n; i++)
    if (v->type->dims[i] != 1)
      return anfi_layer_error(l, ANF_E1053, "a mask and more than one value");
  for (size_t i = mask.type->n; i < x->type->n; i++)
    if (!anfi_layer_along(l, ANF_OP_ExpandDims, 1, &in[0], -1, &in[0])) return false;
  if (add && !anfi_layer_op2(l, ANF_OP_Add, x, v, &in[1])) return false;
  return anfi_layer_result(l, ANF_OP_Where, 3, in, 0, NULL);
}

bool anfi_pnnx_make_index_put(anfi_layer *l) {
  anfi_operand x, v, like;
  anfi_indices at;
  bool add;
  if (!anfi_layer_tensor(l, "input", 0, &x) || !anfi_layer_indices(l, &x, "indices", &at) ||
      !anfi_layer_bool(l, "accumulate", false, &add) || !filling(l, &x, "values", 2, &v))
    return false;
  if (at.masked) return put_masked(l, &x, at.index[0], &v, add);
  l->nresult = 1;
  if (!at.n) return anfi_layer_op2(l, ANF_OP_BroadcastLike, &v, &x, &l->out[0]);
  anf_attr a[] = {{"mode", anfi_layer_v_text(l, add ? "add" : "update"), NULL},
                  {"axis", anfi_layer_v_int(l, (int64_t)at.axis[0]), NULL}};
  if (at.n == 1) {
    const anfi_operand *i = &at.index[0];
    if (!anfi_layer_take(l, &x, i, (int64_t)at.axis[0], &like) ||
        !anfi_layer_op2(l, ANF_OP_BroadcastLike, &v, &like, &v))
      return false;
    return anfi_layer_result(l, ANF_OP_IndexWrite, 3, (const anfi_operand[]){x, *i, v}, 2, a);
  }
  if (at.axis[at.n - 1] != at.n - 1)
    return anfi_layer_error(l, ANF_E1053, "several indices that do not start at the first dim");
  anfi_operand where;
  return anfi_layer_stack_indices(l, &at, &where) &&
         anfi_layer_op2(l, ANF_OP_GatherNd, &x, &where, &like) &&
         anfi_layer_op2(l, ANF_OP_BroadcastLike, &v, &like, &v) &&
         anfi_layer_result(l, ANF_OP_ScatterNd, 3, (const anfi_operand[]){x, where, v}, 1, a);
}
