// SPDX-License-Identifier: Apache-2.0
/* Pointwise nests that read a tensor transposed.
 *
 *   y = Transpose(x) + 1.0      consecutive elements of y are a row of x apart: a cache line for each element
 *
 * Such a nest goes in squares (loop tiling). The part of the tensor that a square reads is transposed through registers
 * (transpose.c) to a small array first, in the order of the result, and read from there; the edges are read as
 * stored. */
#include "backend/lower/low.h"

enum { SIDE = 64, LARGEST_SIDE = 96, SMALLEST_SIDE = 8, MAX_READS = 4 };
#ifdef ANF_HOSTILE
enum { LEAST = 64 };
#else
enum { LEAST = 1 << 12 }; // smaller operands stay in the cache
#endif

typedef struct transposed_read { // a view that reads so; strides are by digit of the nest
  const anfi_view *v;
  texpr tensor;
  int64_t base, stride[ANFI_PT_MAX];
} transposed_read;

typedef struct transposing {
  /* the result */
  anfi_low *L;
  const anfi_view *root;
  texpr to;
  /* loops */
  uint32_t n, down, last; // digits; `down`: along it the tensors' elements are neighbours
  uint64_t extent[ANFI_PT_MAX];
  texpr at[ANFI_PT_MAX]; // where a square starts, and the other indices
  anfi_loop loop[ANFI_PT_MAX];
  /* squares */
  uint64_t rows, cols; // of a square, along down and last
  bool parallel;
  /* operands that are read across */
  uint32_t nread;
  transposed_read read[MAX_READS];
} transposing;

/* The strides of v along the digits of the nest, if these are dims of its own. */
static bool strides_of(const transposing *c, const anfi_view *v, transposed_read *r) {
  int64_t by_dim[ANF_MAX_RANK];
  const anf_type *t = v->type;
  *r = (transposed_read){.v = v};
  if (v->complex || v->dtype == ANF_BOOL) return false;
  if (!(r->tensor = anfi_map_strides(v, &r->base, by_dim))) return false;
  size_t k = t->n;
  for (uint32_t d = c->n; d-- > 0;) {
    while (k > 0 && t->dims[k - 1] == 1) k--;
    if (k == 0 || (uint64_t)t->dims[k - 1] != c->extent[d]) return false;
    r->stride[d] = by_dim[--k];
  }
  return true;
}

static uint64_t size_of(int64_t stride) { return (uint64_t)(stride < 0 ? -stride : stride); }

/* The digit along which the tensor's elements are neighbours, or n. */
static uint32_t neighbours(const transposing *c, const transposed_read *r) {
  uint32_t d = 0;
  while (d < c->n && size_of(r->stride[d]) != 1) d++;
  return d;
}

static void take(transposing *c, const anfi_view *v) {
  transposed_read r;
  if (c->nread == MAX_READS || !strides_of(c, v, &r)) return;
  uint32_t d = neighbours(c, &r);
  if (d + 1 >= c->n || c->extent[d] < SMALLEST_SIDE || c->extent[c->last] < SMALLEST_SIDE ||
      size_of(r.stride[c->last]) < SMALLEST_SIDE)
    return;
  if (c->nread && d != c->down) return;
  c->down = d;
  c->read[c->nread++] = r;
}

/* The views below the root that are asked at the nest's own points. */
static void find(transposing *c) {
  anfi_low *L = c->L;
  ANFI_VEC(const anfi_view *) todo = {0};
  anfi_map seen;
  anfi_map_init(&seen, L->a);
  anfi_push(L->a, &todo, c->root);
  while (todo.n) {
    const anfi_view *v = todo.at[--todo.n];
    if (!anfi_view_is_lazy(v) || v->n != c->root->n || *anfi_map_at(&seen, v->id)) continue;
    *anfi_map_at(&seen, v->id) = 1;
    if (v->order == ORDER_OWN) take(c, v);
    else if (v->order == ORDER_FLAT) anfi_push(L->a, &todo, (const anfi_view *)v->in[0]);
    else if (v->order == ORDER_POINT)
      for (size_t i = 0; i < v->nin; i++)
        if (v->in[i]) anfi_push(L->a, &todo, (const anfi_view *)v->in[i]);
  }
}

static texpr moved(anfi_low *L, texpr at, int64_t stride) {
  return anfi_ix_mulc(L, at, (uint64_t)stride); // wraps, and back again in the sum
}

/* The array of a square: [row along down][column along last]. Where the tensor runs against `down`,
 * its rows are in the opposite order. */
static texpr fetch(transposing *c, const transposed_read *r) {
  anfi_low *L = c->L;
  anf_tir_elem e = anfi_lower_elem(r->v->dtype);
  texpr square = anfi_low_local(L, e, c->rows * c->cols, "square");
  int64_t first = r->stride[c->down] < 0 ? -(int64_t)(c->rows - 1) : 0;
  texpr from = anfi_ix(L, (uint64_t)(r->base + first));
  for (uint32_t d = 0; d < c->n; d++) from = anfi_ix_add(L, from, moved(L, c->at[d], r->stride[d]));
  anfi_low_transpose(L, &(anfi_transposed){.elem = e,
                                           .from = r->tensor,
                                           .to = square,
                                           .from0 = anfi_low_atom(L, from),
                                           .to0 = anfi_ix(L, 0),
                                           .rows = c->cols,
                                           .cols = c->rows,
                                           .from_ld = (uint64_t)r->stride[c->last],
                                           .to_ld = c->cols});
  return square;
}

static anfi_pt point_at(const transposing *c, texpr down, texpr last) {
  anfi_pt p = {0};
  for (uint32_t d = 0; d < c->n; d++)
    anfi_pt_push(&p, d == c->down ? down : d == c->last ? last : c->at[d], c->extent[d]);
  return p;
}

static void put(transposing *c, const anfi_pt *p) {
  anfi_low_put(c->L, c->to, anfi_pt_linear(c->L, p), anfi_view_at(c->L, c->root, p),
               c->root->complex);
}

static void one_square(transposing *c) {
  anfi_low *L = c->L;
  texpr square[MAX_READS];
  anfi_loop i, j;
  for (uint32_t k = 0; k < c->nread; k++) square[k] = fetch(c, &c->read[k]);
  anfi_low_loop(L, &i, c->rows, "i");
  anfi_low_loop(L, &j, c->cols, "j");
  anfi_pt p =
      point_at(c, anfi_ix_add(L, c->at[c->down], i.var), anfi_ix_add(L, c->at[c->last], j.var));
  for (uint32_t k = 0; k < c->nread; k++) {
    bool back = c->read[k].stride[c->down] < 0;
    texpr row = back ? anfi_t_sub(L->t, anfi_ix(L, c->rows - 1), i.var) : i.var;
    texpr at = anfi_ix_add(L, anfi_ix_mulc(L, row, c->cols), j.var);
    anfi_view_know(L, c->read[k].v, &p, anfi_low_load(L, square[k], at));
  }
  put(c, &p);
  anfi_low_loop_end(L, &j);
  anfi_low_loop_end(L, &i);
}

/* The margin that squares do not cover, element by element. */
static void strip(transposing *c, uint64_t d0, uint64_t d1, uint64_t l0, uint64_t l1) {
  anfi_low *L = c->L;
  anfi_loop i, j;
  if (d0 == d1 || l0 == l1) return;
  anfi_low_loop_range(L, &i, anfi_ix(L, d0), anfi_ix(L, d1), 1, "i");
  anfi_low_loop_range(L, &j, anfi_ix(L, l0), anfi_ix(L, l1), 1, "j");
  anfi_pt p = point_at(c, i.var, j.var);
  put(c, &p);
  anfi_low_loop_end(L, &j);
  anfi_low_loop_end(L, &i);
}

static uint64_t side(uint64_t extent) { return extent <= LARGEST_SIDE ? extent : SIDE; }

static void squares(transposing *c) {
  anfi_low *L = c->L;
  anfi_loop i, j;
  uint64_t down = c->extent[c->down], last = c->extent[c->last];
  uint64_t whole = down / c->rows * c->rows, full = last / c->cols * c->cols;
  anfi_low_loop_range(L, &i, anfi_ix(L, 0), anfi_ix(L, whole), c->rows, "i");
  i.parallel = c->parallel && c->down == 0;
  anfi_low_loop_range(L, &j, anfi_ix(L, 0), anfi_ix(L, full), c->cols, "j");
  c->at[c->down] = i.var;
  c->at[c->last] = j.var;
  one_square(c);
  anfi_low_loop_end(L, &j);
  anfi_low_loop_end(L, &i);
  strip(c, 0, whole, full, last);
  strip(c, whole, down, 0, last);
}

bool anfi_low_store_transposed(anfi_low *L, const anfi_view *v, texpr to) {
  if (v->n < LEAST) return false;
  transposing c = {.L = L, .root = v, .to = to};
  c.n = anfi_view_digits(L, v, 0, NULL, c.extent);
  if (c.n < 2) return false;
  c.last = c.n - 1;
  find(&c);
  if (!c.nread) return false;
  c.rows = side(c.extent[c.down]);
  c.cols = side(c.extent[c.last]);
  c.parallel = L->o.parallel && !L->in_parallel && v->n >= ANFI_PARALLEL_WORK;
  uint32_t outer =
      c.last < c.down ? c.last : c.down; // loops before that of `down` are all around the rest
  for (uint32_t d = 0; d < c.last; d++) {
    if (d == c.down) continue;
    anfi_low_loop(L, &c.loop[d], c.extent[d], "i");
    c.at[d] = c.loop[d].var;
  }
  if (c.parallel) anfi_low_share(c.loop, outer);
  squares(&c);
  for (uint32_t d = c.last; d-- > 0;)
    if (d != c.down) anfi_low_loop_end(L, &c.loop[d]);
  return true;
}
