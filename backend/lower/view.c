// SPDX-License-Identifier: Apache-2.0
/* Views: values while a function is lowered, and the loop nests that write them to buffers.
 *   y = Exp(Transpose(x)), stored   ->   for i: for j: y[i, j] = exp(x[j, i]), through the views of both
 * INVARIANT: an element of a view is computed once in a nest for one point: memos hold it while the
 * variable is in scope. */
#include <stdlib.h>

#include "backend/lower/low.h"
#include "ir/ops/kernel.h"
#include "ir/value/mapped.h"

/* ---- types ---- */

anf_tir_elem anfi_lower_elem(anf_dtype d) {
  return d == ANF_KEY ? ANF_TIR_u64 : anfi_t_elem_of(anfi_dtype_part(d));
}

bool anfi_lower_size(const anf_type *t, uint64_t *n) {
  size_t elements;
  if (t->kind != ANF_TYPE_TENSOR || !anfi_type_elements(t, &elements)) return false;
  *n = elements * (anfi_low_complex((anf_dtype)t->dtype) ? 2u : 1u);
  return elements <= ANFI_MAX_BYTES / 16;
}

uint64_t anfi_low_elements(const anf_type *t) {
  size_t n = 0;
  anfi_type_elements(t, &n);
  return n;
}

/* ---- making ---- */

anfi_view *anfi_view_new(anfi_low *L, const anf_type *t, anfi_view_kind k) {
  anfi_view *v = ANFI_NEW(L->a, anfi_view);
  v->id = L->next_view++;
  v->kind = (uint8_t)k;
  v->type = t;
  v->dtype = (anf_dtype)t->dtype;
  v->complex = anfi_low_complex(v->dtype);
  v->n = anfi_low_elements(t);
  return v;
}

anfi_view *anfi_view_scalar(anfi_low *L, const anf_type *t, texpr value) {
  anfi_view *v = anfi_view_new(L, t, VIEW_SCALAR);
  v->value.re = value;
  return v;
}

anfi_view *anfi_view_buffer(anfi_low *L, const anf_type *t, texpr tensor) {
  anfi_view *v = anfi_view_new(L, t, VIEW_BUFFER);
  v->tensor = tensor;
  return v;
}

const anf_type *anfi_view_type(const anfi_view *v) { return v->type; }

anfi_view *anfi_view_lazy(anfi_low *L, const anfi_low_op *q, anfi_order order, anfi_at at) {
  anfi_view *v = anfi_view_new(L, q->type, VIEW_LAZY);
  v->order = (uint8_t)order;
  v->at = at;
  v->op = q->op;
  v->loc = q->loc;
  v->nin = q->n;
  v->in = ANFI_NEW_N(L->a, anfi_view *, q->n + 1);
  for (size_t i = 0; i < q->n; i++) {
    v->in[i] = q->in[i];
    if (q->in[i] && q->in[i]->depth + 1 > v->depth) v->depth = (uint16_t)(q->in[i]->depth + 1);
  }
  v->attr = q->attr;
  return v;
}

static uint64_t lane_of(const anf_value *v, size_t i, anf_dtype d) {
  size_t w = anfi_t_bytes(anfi_low_dt(d));
  uint64_t bits = 0;
  memcpy(&bits, v->data + i * w, w);
  return bits;
}

/* Little-endian as the host is: a tensor's bytes become the bits of lanes. */
static texpr literal_at(anfi_low *L, const anf_value *v, size_t i) {
  anf_dtype d = (anf_dtype)v->type->dtype;
  uint64_t bits = lane_of(v, i, d);
  return anfi_t_bits(L->t, anfi_low_dt(d), 1, &bits);
}

anfi_elem anfi_low_literal(anfi_low *L, const anf_value *v, size_t i, anf_dtype d) {
  anf_value *as = anfi_value_cast((anf_value *)(uintptr_t)v, d);
  anfi_value_guard(as);
  anfi_elem e = {NULL, NULL};
  if (anfi_low_complex(d)) {
    e.re = literal_at(L, as, 2 * i);
    e.im = literal_at(L, as, 2 * i + 1);
  } else e.re = literal_at(L, as, i);
  anfi_value_unguard(as);
  anf_value_release(as);
  return e;
}

static bool splat(const anf_value *v) {
  size_t w = anf_dtype_bytes((anf_dtype)v->type->dtype);
  for (size_t i = 1; i < v->n; i++)
    if (memcmp(v->data, v->data + i * w, w) != 0) return false;
  return v->n > 0;
}

static texpr global(anfi_low *L, texpr init) {
  tdtype d = init->dtype;
  texpr tensor = anfi_t_tensor1(L->t, (anf_tir_elem)d.elem, "c", init->u.list.n);
  anfi_push(&L->t->arena, &L->m->global, anfi_t_define(L->t, TL_private, tensor, init));
  return tensor;
}

texpr anfi_low_table(anfi_low *L, tdtype d, uint64_t n, const uint64_t *bits) {
  if (n > UINT32_MAX) anfi_throw_nomem(L->cx);
  return global(L, anfi_t_list(L->t, d, (uint32_t)n, bits));
}

static void release_block(void *b) { anfi_os_block_release((anfi_os_block *)b); }

anfi_os_block *anfi_low_block(anfi_low *L, size_t bytes) {
  anfi_os_block *b = anfi_os_block_new(bytes);
  if (!b) anfi_throw_nomem(L->cx);
  anfi_defer(L->cx, ANFI_ALWAYS, release_block, b);
  return b;
}

texpr anfi_low_block_table(anfi_low *L, tdtype d, uint64_t n, anfi_os_block *b) {
  if (n > UINT32_MAX) anfi_throw_nomem(L->cx);
  anfi_os_block *one = anfi_os_block_one(b);
  anfi_defer(L->cx, ANFI_ALWAYS, release_block, one);
  return global(L, anfi_t_list_block(L->t, d, (uint32_t)n, one));
}

static texpr global_of(anfi_low *L, const anf_value *v) {
  anf_dtype d = (anf_dtype)v->type->dtype;
  uint64_t n = 0;
  size_t bytes = anfi_value_size(v);
  anfi_lower_size(v->type, &n);
  if (!n || n > UINT32_MAX) return anfi_low_table(L, anfi_low_dt(d), n ? n : 1, &(uint64_t){0});
  if (bytes < ANFI_LEAST_BORROWED)
    return global(L, anfi_t_list_copy(L->t, anfi_low_dt(d), (uint32_t)n, v->data));
  anfi_os_block *b = anfi_value_block(v); // stays the value's
  if (b) { // inference has sampled it: its pages are not needed until code reads them
    anfi_os_block_leave(b);
    return global(L, anfi_t_list_block(L->t, anfi_low_dt(d), (uint32_t)n, b));
  }
  memcpy(anfi_os_block_data(b = anfi_low_block(L, bytes)), v->data, bytes);
  return anfi_low_block_table(L, anfi_low_dt(d), n, b);
}

anfi_view *anfi_view_constant(anfi_low *L, anf_value *v) {
  if (splat(v)) {
    anfi_view *s = anfi_view_new(L, v->type, VIEW_SCALAR);
    s->value = anfi_low_literal(L, v, 0, s->dtype);
    return s;
  }
  uint64_t *known = anfi_map_at(&L->constants, anfi_key(v));
  if (!*known) {
    anfi_view *b = anfi_view_new(L, v->type, VIEW_BUFFER);
    b->tensor = global_of(L, v);
    b->constant = v;
    *anfi_map_at(&L->constants, anfi_key(v)) = anfi_key(b);
    return b;
  }
  return (anfi_view *)(uintptr_t)*known;
}

/* ---- reading ---- */

static uint64_t memo_key(const anfi_view *v, const anfi_pt *p) {
  uint64_t h = anfi_hash_mix(v->id, p->n);
  for (uint32_t k = 0; k < p->n; k++)
    h = anfi_hash_mix(anfi_hash_mix(h, p->extent[k]), anfi_t_hash_expr(p->at[k]));
  return h;
}

static bool same_point(const anfi_memo *m, const anfi_pt *p) {
  if (m->n != p->n) return false;
  for (uint32_t k = 0; k < m->n; k++)
    if (m->pt[k].extent != p->extent[k] || !anfi_t_identical(m->pt[k].at, p->at[k])) return false;
  return true;
}

/* The list in which an atom is defined; constants are everywhere. */
static size_t home(const anfi_low *L, texpr e) {
  uint64_t d = e && e->kind == TX_var ? anfi_low_depth(L, e) : 0;
  return d ? (uint32_t)d - 1 : 0;
}

static void remember(anfi_low *L, uint64_t key, const anfi_view *v, const anfi_pt *p, anfi_elem e) {
  anfi_memo *m = (anfi_memo *)anfi_alloc(L->a, sizeof *m + p->n * sizeof *m->pt);
  m->view = v;
  m->value = e;
  m->n = p->n;
  for (uint32_t k = 0; k < p->n; k++) {
    m->pt[k].at = p->at[k];
    m->pt[k].extent = p->extent[k];
  }
  *anfi_map_at(&L->memo, key) = anfi_key(m);
  size_t d = home(L, e.re), im = home(L, e.im);
  anfi_push(L->a, &L->scope.at[im > d ? im : d]->made, key);
}

static anfi_elem load(anfi_low *L, const anfi_view *v, texpr i) {
  if (!v->complex) return (anfi_elem){anfi_low_atom(L, anfi_low_load(L, v->tensor, i)), NULL};
  texpr twice = anfi_ix_mulc(L, i, 2);
  return (anfi_elem){anfi_low_atom(L, anfi_low_load(L, v->tensor, twice)),
                     anfi_low_atom(L, anfi_low_load(L, v->tensor, anfi_ix_addc(L, twice, 1)))};
}

anfi_elem anfi_view_zero(anfi_low *L, const anfi_view *v) {
  texpr zero = anfi_low_const(L, anfi_low_dt(v->dtype), 0);
  return (anfi_elem){zero, v->complex ? zero : NULL};
}

static anfi_elem computed(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  /* A trap of the index stands before the code that reads it, or a loop without rounds is around it: the code is there,
   * and never runs. */
  if (v->n == 0) return anfi_view_zero(L, v);
  if (v->tensor) return load(L, v, anfi_pt_linear(L, p));
  anfi_elem e = v->at(L, v, p);
  e.re = anfi_low_atom(L, e.re);
  if (e.im) e.im = anfi_low_atom(L, e.im);
  return e;
}

void anfi_view_settle(anfi_low *L, anfi_view *v) {
  v->value = computed(L, v, &(anfi_pt){0});
  v->kind = VIEW_SCALAR;
}

anfi_elem anfi_view_at(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  if (v->kind == VIEW_SCALAR) return v->value;
  uint64_t key = memo_key(v, p);
  uint64_t *at = anfi_map_find(&L->memo, key);
  anfi_memo *m = at ? (anfi_memo *)(uintptr_t)*at : NULL;
  if (m && m->view == v && same_point(m, p)) return m->value;
  anfi_elem e = computed(L, v, p);
  remember(L, key, v, p, e);
  return e;
}

anfi_elem anfi_view_at_dims(anfi_low *L, const anfi_view *v, const texpr *at) {
  anfi_pt p = anfi_pt_of(v->type->n, v->type->dims, at);
  return anfi_view_at(L, v, &p);
}

anfi_elem anfi_view_at_flat(anfi_low *L, const anfi_view *v, texpr at) {
  anfi_pt p = anfi_pt_flat(at, v->n);
  return anfi_view_at(L, v, &p);
}

texpr anfi_view_real(anfi_low *L, const anfi_view *v, const anfi_pt *p, tdtype as) {
  return anfi_low_atom(L, anfi_t_cast(L->t, as, anfi_view_at(L, v, p).re));
}

anfi_elem anfi_view_at_broadcast(anfi_low *L, const anfi_view *v, size_t rank, const int64_t *dims,
                                 const anfi_pt *p) {
  const anf_type *t = v->type;
  texpr at[ANF_MAX_RANK];
  if (v->kind == VIEW_SCALAR) return v->value;
  bool same = t->n == rank && (!rank || memcmp(t->dims, dims, rank * sizeof *dims) == 0);
  if (same || v->n == anfi_dims_product(dims, 0, rank)) return anfi_view_at(L, v, p);
  if (v->n == 1) return anfi_view_at(L, v, &(anfi_pt){0});
  anfi_pt_dims(L, p, rank, dims, at);
  return anfi_view_at_dims(L, v, at + (rank - t->n));
}

/* ---- loops ---- */

/* Places where a nest must not run dims together, as products of the extents after them. */
typedef struct cuts {
  ANFI_VEC(uint64_t) at;
} cuts;

static void cut_at(anfi_low *L, cuts *c, uint64_t stride) {
  for (size_t i = 0; i < c->at.n; i++)
    if (c->at.at[i] == stride) return;
  anfi_push(L->a, &c->at, stride);
}

static void cut_all(anfi_low *L, cuts *c, const anf_type *t) {
  uint64_t stride = 1;
  for (size_t k = t->n; k-- > 1;) {
    stride *= (uint64_t)t->dims[k];
    if (t->dims[k] != 1) cut_at(L, c, stride);
  }
}

/* Cuts at the dims where an input's broadcasting begins or ends. */
static void cut_broadcast(anfi_low *L, cuts *c, const anf_type *out, const anf_type *in) {
  uint64_t stride = 1;
  int before = -1;
  for (size_t k = out->n; k-- > 0;) {
    size_t lead = out->n - in->n;
    if (out->dims[k] == 1) continue;
    int repeated = k < lead || in->dims[k - lead] == 1;
    if (before >= 0 && before != repeated) cut_at(L, c, stride);
    before = repeated;
    stride *= (uint64_t)out->dims[k];
  }
}

/* Views below v that see the same points, one after the other: the tree is small (fuse.c). */
static void gather_cuts(anfi_low *L, cuts *c, const anfi_view *v) {
  ANFI_VEC(const anfi_view *) todo = {0};
  anfi_map seen;
  anfi_map_init(&seen, L->a);
  anfi_push(L->a, &todo, v);
  while (todo.n) {
    v = todo.at[--todo.n];
    if (v->kind == VIEW_SCALAR || v->tensor || *anfi_map_at(&seen, v->id)) continue;
    *anfi_map_at(&seen, v->id) = 1;
    if (v->order == ORDER_OWN) cut_all(L, c, v->type);
    else if (v->order == ORDER_ANY) continue;
    else if (v->order == ORDER_FLAT) anfi_push(L->a, &todo, (const anfi_view *)v->in[0]);
    else
      for (size_t i = 0; i < v->nin; i++) {
        const anfi_view *x = v->in[i];
        if (!x || x->kind == VIEW_SCALAR || x->n == 1) continue;
        if (x->n == v->n) anfi_push(L->a, &todo, x);
        else if (x->tensor) cut_broadcast(L, c, v->type, x->type);
        else cut_all(L, c, v->type);
      }
  }
}

static int descending(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? 1 : x > y ? -1 : 0;
}

/* Cuts that divide one another become loops, outermost first; others cost divisions. */
static uint32_t extents(const cuts *c, uint64_t rest, uint64_t *extent) {
  uint32_t n = 0;
  for (size_t i = 0; i < c->at.n && n + 1 < ANFI_PT_MAX; i++) {
    uint64_t stride = c->at.at[i];
    if (stride <= 1 || stride >= rest || rest % stride) continue;
    extent[n++] = rest / stride;
    rest = stride;
  }
  extent[n++] = rest;
  return n;
}

uint32_t anfi_view_digits(anfi_low *L, const anfi_view *v, size_t ncut, const uint64_t *cut,
                          uint64_t *extent) {
  cuts c = {0}, fit = {0};
  gather_cuts(L, &c, v);
  for (size_t k = 0; k < ncut; k++) cut_at(L, &fit, cut[k]);
  for (size_t i = 0; i < c.at.n; i++) {
    bool fits = true;
    for (size_t k = 0; k < ncut; k++)
      fits &= cut[k] && (c.at.at[i] % cut[k] == 0 || cut[k] % c.at.at[i] == 0);
    if (fits) cut_at(L, &fit, c.at.at[i]);
  }
  if (fit.at.n) qsort(fit.at.at, fit.at.n, sizeof *fit.at.at, descending);
  return extents(&fit, v->n, extent);
}

enum { PARALLEL_WORK = 1 << 15 }; // elements of a nest that are worth a barrier

void anfi_nest_open(anfi_low *L, anfi_nest *n, const anfi_view *v, size_t ncut,
                    const uint64_t *cut) {
  uint64_t extent[ANFI_PT_MAX];
  *n = (anfi_nest){.n = anfi_view_digits(L, v, ncut, cut, extent)};
  bool parallel = L->o.parallel && !L->in_parallel && v->n >= PARALLEL_WORK && extent[0] > 1;
  for (uint32_t k = 0; k < n->n; k++) {
    anfi_low_loop(L, &n->loop[k], extent[k], "i");
    n->loop[k].parallel = parallel && k == 0;
    anfi_pt_push(&n->pt, n->loop[k].var, extent[k]);
  }
}

void anfi_nest_close(anfi_low *L, anfi_nest *n) {
  for (uint32_t k = n->n; k-- > 0;) anfi_low_loop_end(L, &n->loop[k]);
}

void anfi_view_know(anfi_low *L, const anfi_view *v, const anfi_pt *p, texpr value) {
  remember(L, memo_key(v, p), v, p, (anfi_elem){anfi_low_atom(L, value), NULL});
}

const anfi_view *anfi_view_product(anfi_low *L, const anfi_view *v) {
  ANFI_VEC(const anfi_view *) todo = {0};
  anfi_map seen;
  anfi_map_init(&seen, L->a);
  anfi_push(L->a, &todo, v);
  while (todo.n) {
    v = todo.at[--todo.n];
    if (!anfi_view_is_lazy(v) || *anfi_map_at(&seen, v->id)) continue;
    if (v->write_fused) return v;
    *anfi_map_at(&seen, v->id) = 1;
    if (v->order != ORDER_POINT && v->order != ORDER_FLAT) continue;
    for (size_t i = 0; i < v->nin; i++)
      if (v->in[i]) anfi_push(L->a, &todo, (const anfi_view *)v->in[i]);
  }
  return NULL;
}

static void store_each(anfi_low *L, const anfi_view *v, texpr to) {
  anfi_nest n;
  const anfi_view *product = anfi_view_product(L, v);
  if (product) {
    product->write_fused(L, product, v, to);
    return;
  }
  if (anfi_low_store_transposed(L, v, to)) return;
  anfi_nest_open(L, &n, v, 0, NULL);
  anfi_low_put(L, to, anfi_pt_linear(L, &n.pt), anfi_view_at(L, v, &n.pt), v->complex);
  anfi_nest_close(L, &n);
}

void anfi_view_store(anfi_low *L, anfi_view *v, texpr to) {
  if (v->tensor == to || v->n == 0) return;
  if (v->store && !v->tensor) v->store(L, v, to);
  else store_each(L, v, to);
}

void anfi_view_store_part(anfi_low *L, anfi_view *v, texpr to, texpr from) {
  uint64_t width = v->complex ? 2 : 1;
  from = anfi_low_atom(L, anfi_ix_mulc(L, from, width));
  anfi_view_store(L, v, anfi_low_part(L, to, anfi_lower_elem(v->dtype), from, v->n * width));
}

bool anfi_view_is_run(const anfi_view *v, const int64_t *part, const anf_type *t) {
  size_t k = 0;
  if (v->n < 2 || v->dtype != t->dtype) return false;
  while (k < t->n && part[k] == 1) k++;
  for (size_t i = k + 1; i < t->n; i++)
    if (part[i] != t->dims[i]) return false;
  return true;
}

texpr anfi_view_force(anfi_low *L, anfi_view *v) {
  if (v->tensor) return v->tensor;
  texpr to = anfi_low_local(L, anfi_lower_elem(v->dtype), v->n * (v->complex ? 2 : 1), "t");
  anfi_view_store(L, v, to);
  anfi_push(L->a, &L->scope.at[L->scope.n - 1]->forced, v);
  return v->tensor = to;
}

texpr anfi_view_value(anfi_low *L, anfi_view *v) { return anfi_view_at(L, v, &(anfi_pt){0}).re; }

texpr anfi_low_result(anfi_low *L, const anfi_low_op *q, size_t i, const anf_type *t) {
  if (q->to && q->to[i]) return q->to[i];
  uint64_t n = 0;
  anfi_lower_size(t, &n);
  return anfi_low_local(L, anfi_lower_elem((anf_dtype)t->dtype), n, "y");
}

anfi_view *anfi_view_of_result(anfi_low *L, const anf_type *t, texpr buffer) {
  return anfi_view_buffer(L, t, buffer);
}
