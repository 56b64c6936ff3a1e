// SPDX-License-Identifier: Apache-2.0
/* Reading and writing by indices.
 *   Take(x, i)   ->   i = select(i < 0, i + n, i), then stablehlo.gather with collapsed_slice_dims = [0]
 * Ours count from the end where they are negative; one outside is an error here, which StableHLO has not: gather
 * clamps it, scatter leaves it out. */
#include "frontend/stablehlo/write.h"

/* i < 0 ? i + n : i */
static const anfi_out *from_start(anfi_flat *w, const anfi_out *i, int64_t n) {
  const anf_type *t = i->type;
  anf_dtype d = (anf_dtype)t->dtype;
  if (anfi_dtype_class(d) == ANFI_CLASS_UNSIGNED) return i;
  const anfi_out *zero = anfi_sw_broadcast(w, anfi_sw_int(w, d, 0), t->n, t->dims),
                 *size = anfi_sw_broadcast(w, anfi_sw_int(w, d, n), t->n, t->dims);
  const anfi_out *below = anfi_sw_compare(w, "LT", i, zero);
  const anfi_out *end = anfi_sw_binary(w, "stablehlo.add", i, size);
  return anfi_sw_select(w, below, end, i);
}

/* Input i as indices of a dim of size n. */
static const anfi_out *indices(anfi_sw_apply *a, uint32_t i, int64_t n) {
  const anfi_out *x = anfi_sw_in_as(a, i, ANF_I64);
  return x ? from_start(a->w, x, n) : NULL;
}

static size_t count_to(int64_t *x, size_t from, size_t to) {
  size_t n = 0;
  for (size_t i = from; i < to; i++) x[n++] = (int64_t)i;
  return n;
}

/* ---- blocks at starts that are computed ---- */

static bool starts(anfi_sw_apply *a, uint32_t first, const anf_type *x, anfi_outs *to) {
  for (uint32_t k = 0; k < x->n; k++) {
    const anfi_out *i = indices(a, first + k, x->dims[k]);
    if (!i) return false;
    anfi_push(a->w->arena, to, i);
  }
  return true;
}

static const anfi_out *block(anfi_sw_apply *a) {
  anfi_flat *w = a->w;
  anfi_outs at = {0};
  const anfi_out *x = anfi_sw_in(a, 0);
  if (!x || !starts(a, 1, x->type, &at)) return NULL;
  const anf_type *t = anfi_sw_tensor(w, (anf_dtype)x->type->dtype, a->n->type->n, a->n->type->dims);
  if (!t->n) return x;
  return anfi_sw_put(w, t, "stablehlo.dynamic_slice %s, %s, sizes = %s : (%s, %s) -> %s", x->name,
                     anfi_sw_names(w, &at), anfi_sw_ints(w, t->n, t->dims),
                     anfi_sw_type(w, x->type), anfi_sw_types(w, &at), anfi_sw_type(w, t));
}

static const anfi_out *with_block(anfi_sw_apply *a) {
  anfi_flat *w = a->w;
  anfi_outs at = {0};
  anf_dtype d = anfi_sw_result_dtype(a);
  const anfi_out *x = anfi_sw_in_as(a, 0, d), *u = x ? anfi_sw_in_as(a, 1, d) : NULL;
  if (!u || !starts(a, 2, x->type, &at)) return NULL;
  if (!x->type->n) return u;
  const char *t = anfi_sw_type(w, x->type);
  return anfi_sw_put(w, x->type, "stablehlo.dynamic_update_slice %s, %s, %s : (%s, %s, %s) -> %s",
                     x->name, u->name, anfi_sw_names(w, &at), t, anfi_sw_type(w, u->type),
                     anfi_sw_types(w, &at), t);
}

/* ---- reading ---- */

typedef struct {
  /* lengths */
  size_t noffset, ncollapsed, nbatch, nmap, vector; // vector: the dim of indices that has positions
  /* lists */
  int64_t offset[ANF_MAX_RANK], collapsed[ANF_MAX_RANK], batch[ANF_MAX_RANK], map[ANF_MAX_RANK],
      size[ANF_MAX_RANK];
} gather;

static const anfi_out *put_gather(anfi_sw_apply *a, const anfi_out *x, const anfi_out *at,
                                  const gather *g) {
  anfi_flat *w = a->w;
  const anf_type *t = anfi_sw_tensor(w, (anf_dtype)x->type->dtype, a->n->type->n, a->n->type->dims);
  const char *batch = anfi_sw_ints(w, g->nbatch, g->batch);
  return anfi_sw_put(
      w, t,
      "\"stablehlo.gather\"(%s, %s) <{dimension_numbers = #stablehlo.gather<offset_dims = %s, "
      "collapsed_slice_dims = %s, operand_batching_dims = %s, start_indices_batching_dims = %s, "
      "start_index_map = %s, index_vector_dim = %zu>, indices_are_sorted = false, slice_sizes = "
      "%s}> "
      ": (%s, %s) -> %s",
      x->name, at->name, anfi_sw_ints(w, g->noffset, g->offset),
      anfi_sw_ints(w, g->ncollapsed, g->collapsed), batch, batch, anfi_sw_ints(w, g->nmap, g->map),
      g->vector, anfi_sw_array(w, x->type->n, g->size), anfi_sw_type(w, x->type),
      anfi_sw_type(w, at->type), anfi_sw_type(w, t));
}

static const anfi_out *rows(anfi_sw_apply *a) {
  const anfi_out *x = anfi_sw_in(a, 0);
  if (!x) return NULL;
  bool table = a->n->op == ANF_OP_Embedding;
  int64_t axis = table ? 0 : anfi_sw_axis(a, "axis", x->type->n);
  const anfi_out *i = indices(a, 1, x->type->dims[axis]);
  if (!i) return NULL;
  gather g = {.ncollapsed = 1, .collapsed = {axis}, .nmap = 1, .map = {axis}, .vector = i->type->n};
  for (uint32_t k = 0; k < x->type->n; k++) g.size[k] = k == axis ? 1 : x->type->dims[k];
  g.noffset = count_to(g.offset, 0, (size_t)axis);
  for (size_t k = (size_t)axis + i->type->n; k < a->n->type->n; k++)
    g.offset[g.noffset++] = (int64_t)k;
  return put_gather(a, x, i, &g);
}

static const anfi_out *elements(anfi_sw_apply *a) {
  const anfi_out *x = anfi_sw_in(a, 0);
  if (!x) return NULL;
  int64_t axis = anfi_sw_axis(a, "axis", x->type->n);
  const anfi_out *i = indices(a, 1, x->type->dims[axis]);
  if (!i) return NULL;
  gather g = {.ncollapsed = 1, .collapsed = {axis}, .nmap = 1, .map = {axis}, .vector = i->type->n};
  for (uint32_t k = 0; k < x->type->n; k++) {
    g.size[k] = 1;
    if (k != axis) g.batch[g.nbatch++] = k;
  }
  return put_gather(a, x, i, &g);
}

/* Positions in the last dim of the indices, each from the start. */
static const anfi_out *positions(anfi_sw_apply *a, const anf_type *x) {
  anfi_flat *w = a->w;
  const anfi_out *i = anfi_sw_in_as(a, 1, ANF_I64);
  if (!i) return NULL;
  const anf_type *t = i->type;
  int64_t n = t->dims[t->n - 1];
  if (!n) return i;
  anf_value *v = anfi_value_new_tensor(w->cx, anfi_sw_tensor(w, ANF_I64, 1, &n));
  anfi_defer(w->cx, ANFI_ALWAYS, anfi_release, v);
  for (int64_t k = 0; k < n; k++) anfi_set_i64(v, (size_t)k, x->dims[k]);
  const anfi_out *sizes = anfi_sw_broadcast(w, anfi_flat_constant(w, v), t->n, t->dims),
                 *zero = anfi_sw_broadcast(w, anfi_sw_int(w, ANF_I64, 0), t->n, t->dims);
  const anfi_out *below = anfi_sw_compare(w, "LT", i, zero);
  const anfi_out *end = anfi_sw_binary(w, "stablehlo.add", i, sizes);
  return anfi_sw_select(w, below, end, i);
}

static const anfi_out *blocks(anfi_sw_apply *a) {
  const anfi_out *x = anfi_sw_in(a, 0), *at = x ? positions(a, x->type) : NULL;
  if (!at) return NULL;
  uint32_t last = at->type->n - 1;
  size_t n = (size_t)at->type->dims[last];
  gather g = {.vector = last};
  g.ncollapsed = count_to(g.collapsed, 0, n);
  g.nmap = count_to(g.map, 0, n);
  g.noffset = count_to(g.offset, last, a->n->type->n);
  for (size_t k = 0; k < x->type->n; k++) g.size[k] = k < n ? 1 : x->type->dims[k];
  return put_gather(a, x, at, &g);
}

/* ---- writing ---- */

typedef struct {
  /* lengths */
  size_t nwindow, ninserted, nbatch, nmap, vector;
  /* lists */
  int64_t window[ANF_MAX_RANK], inserted[ANF_MAX_RANK], batch[ANF_MAX_RANK], map[ANF_MAX_RANK];
} scatter;

/* The body: the new element, or of it and what is there the sum, product, minimum or maximum. */
static void put_merge(anfi_flat *w, const char *mode, const char *element) {
  const char *op = strcmp(mode, "add") == 0   ? "add"
                   : strcmp(mode, "mul") == 0 ? "multiply"
                   : strcmp(mode, "min") == 0 ? "minimum"
                   : strcmp(mode, "max") == 0 ? "maximum"
                                              : NULL;
  const char *l = anfi_sw_new_name(w), *r = anfi_sw_new_name(w), *s = r;
  anfi_sw_line(w, "^bb0(%s: %s, %s: %s):", l, element, r, element);
  if (op) {
    s = anfi_sw_new_name(w);
    anfi_sw_line(w, "  %s = stablehlo.%s %s, %s : %s", s, op, l, r, element);
  }
  anfi_sw_line(w, "  stablehlo.return %s : %s", s, element);
}

static const anfi_out *put_scatter(anfi_sw_apply *a, const anfi_out *x, const anfi_out *at,
                                   const anfi_out *u, const scatter *g) {
  anfi_flat *w = a->w;
  const anf_value *mode = anfi_sw_attr(a, "mode");
  const char *name = anfi_sw_new_name(w), *t = anfi_sw_type(w, x->type),
             *batch = anfi_sw_ints(w, g->nbatch, g->batch);
  anfi_sw_line(w,
               "%s = \"stablehlo.scatter\"(%s, %s, %s) <{indices_are_sorted = false, "
               "scatter_dimension_numbers = "
               "#stablehlo.scatter<update_window_dims = %s, inserted_window_dims = %s, "
               "input_batching_dims = %s, "
               "scatter_indices_batching_dims = %s, scatter_dims_to_operand_dims = %s, "
               "index_vector_dim = %zu>, "
               "unique_indices = false}> ({",
               name, x->name, at->name, u->name, anfi_sw_ints(w, g->nwindow, g->window),
               anfi_sw_ints(w, g->ninserted, g->inserted), batch, batch,
               anfi_sw_ints(w, g->nmap, g->map), g->vector);
  put_merge(w, mode->u.text,
            anfi_sprintf(w->arena, "tensor<%s>", anfi_sw_dtype(w, (anf_dtype)x->type->dtype)));
  anfi_sw_line(w, "}) : (%s, %s, %s) -> %s", t, anfi_sw_type(w, at->type), anfi_sw_type(w, u->type),
               t);
  return anfi_out_leaf(w, name, x->type);
}

static const anfi_out *with_blocks(anfi_sw_apply *a) {
  anf_dtype d = anfi_sw_result_dtype(a);
  const anfi_out *x = anfi_sw_in_as(a, 0, d), *at = x ? positions(a, x->type) : NULL,
                 *u = at ? anfi_sw_in_as(a, 2, d) : NULL;
  if (!u) return NULL;
  uint32_t last = at->type->n - 1;
  size_t n = (size_t)at->type->dims[last], rank = last + x->type->n - n;
  int64_t dims[ANF_MAX_RANK];
  for (size_t k = 0; k < rank; k++)
    dims[k] = k < last ? at->type->dims[k] : x->type->dims[k - last + n];
  scatter g = {.vector = last};
  g.ninserted = count_to(g.inserted, 0, n);
  g.nmap = count_to(g.map, 0, n);
  g.nwindow = count_to(g.window, last, rank);
  return put_scatter(a, x, at, anfi_sw_broadcast(a->w, u, rank, dims), &g);
}

static const anfi_out *with_elements(anfi_sw_apply *a) {
  anf_dtype d = anfi_sw_result_dtype(a);
  const anfi_out *x = anfi_sw_in_as(a, 0, d), *u = x ? anfi_sw_in_as(a, 2, d) : NULL;
  if (!u) return NULL;
  int64_t axis = anfi_sw_axis(a, "axis", x->type->n);
  const anfi_out *i = indices(a, 1, x->type->dims[axis]);
  if (!i) return NULL;
  scatter g = {.ninserted = 1, .inserted = {axis}, .nmap = 1, .map = {axis}, .vector = i->type->n};
  for (uint32_t k = 0; k < x->type->n; k++) {
    if (k == axis) continue;
    if (i->type->dims[k] != x->type->dims[k])
      return (void)anfi_flat_refuse(a->w, a->n, "indices with fewer rows, of", "WriteAlongAxis"),
             NULL;
    g.batch[g.nbatch++] = k;
  }
  u = anfi_sw_broadcast(a->w, u, i->type->n, i->type->dims);
  return put_scatter(a, x, i, u, &g);
}

const anfi_out *anfi_sw_index_op(anfi_sw_apply *a, bool *taken) {
  *taken = true;
  switch (a->n->op) {
  case ANF_OP_DynamicSlice: return block(a);
  case ANF_OP_DynamicUpdateSlice: return with_block(a);
  case ANF_OP_Take:
  case ANF_OP_Embedding: return rows(a);
  case ANF_OP_TakeAlongAxis: return elements(a);
  case ANF_OP_GatherNd: return blocks(a);
  case ANF_OP_ScatterNd: return with_blocks(a);
  case ANF_OP_WriteAlongAxis: return with_elements(a);
  default: return *taken = false, NULL;
  }
}
