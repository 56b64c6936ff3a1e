// SPDX-License-Identifier: Apache-2.0
/* x[...] and x.name: GetItem and GetField of tensors, tuples and records.
 *
 *     x: f32[4,5]     x[1]  ->  f32[5]     x[:, 1:3]  ->  f32[4,2]     x[i64[7]]  ->  f32[7,5]
 *
 * The attribute spec has one part per subscript (getitem.h); its numbers are constants or inputs. A slice
 * whose bounds are inputs gives an unknown dim. */
#include "ir/ops/array/getitem.h"

#include <stdlib.h>

/* ---- inference ---- */

static bool bad_spec(anf_ctx *cx, anfi_loc loc, const anf_value *spec) {
  return anfi_fail(cx, loc, ANF_E0560, spec->u.text);
}

typedef struct {
  const char *at;
  int64_t input; // number of the next input
} reader;

static bool read_number(reader *r, anfi_part *p, int k) {
  if (*r->at == 'i') {
    p->given[k] = ANFI_INPUT;
    p->v[k] = r->input++;
    r->at++;
    return true;
  }
  char *end;
  const char *digits = r->at + (*r->at == '-');
  if (*digits < '0' || *digits > '9') return false;
  p->given[k] = ANFI_CONSTANT;
  p->v[k] = strtoll(r->at, &end, 10);
  r->at = end;
  return true;
}

static bool read_part(reader *r, anfi_part *p) {
  *p = (anfi_part){.kind = ANFI_PART_INDEX};
  if (strncmp(r->at, "...", 3) == 0) return p->kind = ANFI_PART_DOTS, r->at += 3, true;
  if (*r->at == 'n') return p->kind = ANFI_PART_NEW, r->at++, true;
  bool first = read_number(r, p, 0);
  for (int k = 1; k < 3 && *r->at == ':'; k++) {
    p->kind = ANFI_PART_SLICE;
    r->at++;
    read_number(r, p, k);
  }
  return first || p->kind == ANFI_PART_SLICE;
}

bool anfi_subscript_read(anf_ctx *cx, anfi_loc loc, const anf_value *spec, size_t nin,
                         anfi_subscript *s) {
  reader r = {spec->u.text, 1};
  bool dots = false;
  s->n = 0;
  do {
    if (s->n && !*r.at) break; // a comma at the end: x[i,]
    if (s->n == ANFI_PARTS || !read_part(&r, &s->part[s->n])) return bad_spec(cx, loc, spec);
    if (s->part[s->n].kind == ANFI_PART_DOTS && dots) return bad_spec(cx, loc, spec);
    dots |= s->part[s->n++].kind == ANFI_PART_DOTS;
  } while (*r.at == ',' && r.at++);
  if (r.at != spec->u.text + spec->n || (size_t)r.input != nin) return bad_spec(cx, loc, spec);
  return true;
}

static bool is_whole(const anf_type *t) {
  return anfi_is_tensor(t) && anfi_dtype_is_int((anf_dtype)t->dtype);
}

static bool check_index(const anfi_infer *q, const anfi_part *p) {
  if (p->given[0] != ANFI_INPUT || is_whole(q->in[p->v[0]])) return true;
  const anf_type *t = q->in[p->v[0]];
  if (anfi_is_tensor(t) && t->dtype == ANF_BOOL)
    return anfi_infer_fail(
        q, "the shape of x[mask] depends on values; Where(mask, x, y) keeps the shape");
  return anfi_infer_fail(q, "an index must be an integer or a tensor of integers");
}

static bool is_whole_number(const anf_type *t) {
  return is_whole(t) || (anfi_is_tensor(t) && t->dtype == ANF_BOOL);
}

/* x[a:b:c] */
static bool check_bounds(const anfi_infer *q, const anfi_part *p) {
  for (int k = 0; k < 3; k++)
    if (p->given[k] == ANFI_INPUT && !is_whole_number(q->in[p->v[k]]))
      return anfi_infer_fail(q, "a bound of a slice must be an integer");
  return true;
}

static const anf_type *index_type(const anfi_infer *q, const anfi_part *p) {
  return p->given[0] == ANFI_INPUT ? q->in[p->v[0]] : anfi_type_scalar(q->cx, ANF_INT);
}

static bool broadcast_index(const anfi_infer *q, anfi_layout *l, const anf_type *t) {
  for (; l->brank < t->n; l->brank++) { // grow to the left
    memmove(l->bdims + 1, l->bdims, l->brank * sizeof l->bdims[0]);
    l->bdims[0] = 1;
  }
  for (uint32_t k = 0; k < t->n; k++) {
    int64_t *to = &l->bdims[l->brank - t->n + k];
    if (!anfi_infer_dim(*to, t->dims[k], to))
      return anfi_infer_fail(q, "the index tensors do not broadcast");
  }
  return true;
}

static size_t axes_taken(const anfi_subscript *s) {
  size_t n = 0;
  for (size_t i = 0; i < s->n; i++)
    n += s->part[i].kind == ANFI_PART_INDEX || s->part[i].kind == ANFI_PART_SLICE;
  return n;
}

static bool add_out(const anfi_infer *q, anfi_layout *l, int from, size_t part) {
  if (l->rank == ANF_MAX_RANK) return anfi_infer_fail(q, "the result has too many dims");
  l->out[l->rank].from = (int8_t)from;
  l->out[l->rank++].part = (uint8_t)part;
  return true;
}

/* Puts the indices' dims at `at`. */
static bool insert_indices(const anfi_infer *q, anfi_layout *l, size_t at) {
  if (l->rank + l->brank > ANF_MAX_RANK) return anfi_infer_fail(q, "the result has too many dims");
  memmove(&l->out[at + l->brank], &l->out[at], (l->rank - at) * sizeof l->out[0]);
  for (size_t j = 0; j < l->brank; j++) l->out[at + j].from = (int8_t)(-2 - (int)j);
  l->rank += l->brank;
  return true;
}

typedef struct {
  size_t axis, first; // where the indices' dims go
  bool seen, apart;   // index parts: any; with something else between them
  bool other;         // something else since the last index part
} walk;

static bool lay_index(const anfi_infer *q, const anfi_subscript *s, size_t i, anfi_layout *l,
                      walk *w) {
  const anfi_part *p = &s->part[i];
  if (!check_index(q, p) || !broadcast_index(q, l, index_type(q, p))) return false;
  l->index[l->nindex].axis = (uint8_t)w->axis++;
  l->index[l->nindex++].part = (uint8_t)i;
  if (!w->seen) w->first = l->rank;
  w->apart |= w->seen && w->other;
  w->seen = true;
  w->other = false;
  return true;
}

static bool lay_part(const anfi_infer *q, const anfi_subscript *s, size_t i, size_t dots,
                     anfi_layout *l, walk *w) {
  switch ((anfi_part_kind)s->part[i].kind) {
  case ANFI_PART_INDEX: return lay_index(q, s, i, l, w);
  case ANFI_PART_SLICE:
    w->other = true;
    return check_bounds(q, &s->part[i]) && add_out(q, l, (int)w->axis++, i);
  case ANFI_PART_NEW: w->other = true; return add_out(q, l, -1, ANFI_PARTS);
  case ANFI_PART_DOTS: break;
  }
  w->other = true;
  for (size_t k = 0; k < dots; k++)
    if (!add_out(q, l, (int)w->axis++, ANFI_PARTS)) return false;
  return true;
}

bool anfi_layout_of(const anfi_infer *q, const anfi_subscript *s, anfi_layout *l) {
  size_t rank = q->in[0]->n, taken = axes_taken(s);
  walk w = {0};
  *l = (anfi_layout){0};
  if (taken > rank) return anfi_infer_fail(q, "the subscript has more parts than x has dims");
  for (size_t i = 0; i < s->n; i++)
    if (!lay_part(q, s, i, rank - taken, l, &w)) return false;
  while (w.axis < rank)
    if (!add_out(q, l, (int)w.axis++, ANFI_PARTS)) return false;
  return !l->brank || insert_indices(q, l, w.apart ? 0 : w.first);
}

static bool any_input(const anfi_infer *q) {
  for (size_t i = 0; i < q->n; i++)
    if (q->in[i]->kind == ANF_TYPE_ANY) return true;
  return false;
}

static int64_t slice_dim(const anfi_part *p, int64_t n) {
  bool known = n >= 0;
  int64_t start;
  for (int k = 0; k < 3; k++) known &= p->given[k] != ANFI_INPUT;
  if (!known) return ANF_DIM_UNKNOWN;
  int64_t step = p->given[2] ? p->v[2] : 1;
  return step ? (int64_t)anfi_slice_ints((size_t)n, p->given[0] ? &p->v[0] : NULL,
                                         p->given[1] ? &p->v[1] : NULL, step, &start)
              : 0;
}

static bool check_constants(const anfi_infer *q, const anfi_subscript *s, const anfi_layout *l) {
  size_t ignored;
  for (size_t i = 0; i < s->n; i++)
    if (s->part[i].kind == ANFI_PART_SLICE && s->part[i].given[2] == ANFI_CONSTANT &&
        !s->part[i].v[2])
      return anfi_infer_fail(q, "the step must not be 0");
  for (size_t i = 0; i < l->nindex; i++) {
    const anfi_part *p = &s->part[l->index[i].part];
    int64_t n = q->in[0]->dims[l->index[i].axis];
    if (p->given[0] == ANFI_CONSTANT && n >= 0 && !anfi_axis_in(p->v[0], (size_t)n, &ignored))
      return anfi_fail(q->cx, q->loc, ANF_E0404, anfi_op[q->op].name, (long long)p->v[0],
                       (long long)n);
  }
  return true;
}

static bool tensor_item(anfi_infer *q, const anfi_subscript *s) {
  const anf_type *x = q->in[0];
  int64_t dims[ANF_MAX_RANK];
  anfi_layout l;
  if (!anfi_layout_of(q, s, &l) || !check_constants(q, s, &l)) return false;
  for (size_t k = 0; k < l.rank; k++) {
    int from = l.out[k].from;
    if (from == -1) dims[k] = 1;
    else if (from < 0) dims[k] = l.bdims[-2 - from];
    else if (l.out[k].part == ANFI_PARTS) dims[k] = x->dims[from];
    else dims[k] = slice_dim(&s->part[l.out[k].part], x->dims[from]);
  }
  return anfi_infer_result(q, (anf_dtype)x->dtype, l.rank, dims);
}

/* A part of a tuple: one index, or one slice of constants. */
static bool tuple_part(anfi_infer *q, const anfi_subscript *s) {
  const anf_type *t = q->in[0];
  const anfi_part *p = &s->part[0];
  size_t at = 0;
  int64_t first, step = p->given[2] ? p->v[2] : 1;
  if (s->n != 1 || p->kind > ANFI_PART_SLICE)
    return anfi_infer_fail(q, "a tuple has one index or slice");
  for (int k = 0; k < 3; k++)
    if (p->given[k] == ANFI_INPUT && !(is_whole(q->in[p->v[k]]) && anfi_is_scalar(q->in[p->v[k]])))
      return anfi_infer_fail(q, "an index of a tuple must be an integer");
  if (q->n > 1) return anfi_infer_any(q);
  if (p->kind == ANFI_PART_INDEX) {
    if (!anfi_axis_in(p->v[0], t->n, &at))
      return anfi_fail(q->cx, q->loc, ANF_E0505, (long long)p->v[0], anfi_type_text(q->cx, t));
    return q->out = t->items[at], true;
  }
  if (!step) return anfi_infer_fail(q, "the step must not be 0");
  size_t n = anfi_slice_ints(t->n, p->given[0] ? &p->v[0] : NULL, p->given[1] ? &p->v[1] : NULL,
                             step, &first);
  const anf_type **items = ANFI_NEW_N(anfi_scratch(q->cx), const anf_type *, n);
  for (size_t i = 0; i < n; i++) items[i] = t->items[first + (int64_t)i * step];
  return anfi_infer_is(q, anfi_type_tuple(q->cx, n, items));
}

bool anfi_infer_get_item(anfi_infer *q) {
  anfi_subscript s;
  if (!q->attr[0]) return anfi_infer_any(q);
  if (!anfi_subscript_read(q->cx, q->loc, q->attr[0], q->n, &s)) return false;
  if (any_input(q)) return anfi_infer_any(q);
  if (q->in[0]->kind == ANF_TYPE_TUPLE) return tuple_part(q, &s);
  if (anfi_is_tensor(q->in[0])) return tensor_item(q, &s);
  if (q->in[0]->kind == ANF_TYPE_FN) return anfi_infer_no_tensor(q, 0);
  return anfi_infer_fail(q, "only tensors and tuples have parts by index");
}

bool anfi_is_tensor_field(const char *name) {
  static const char *const names[] = {"shape", "T", "ndim", "size", "dtype"};
  for (size_t i = 0; i < ANFI_LEN(names); i++)
    if (strcmp(names[i], name) == 0) return true;
  return false;
}

static bool tensor_field(anfi_infer *q, const char *name) {
  const anf_type *t = q->in[0], *whole = anfi_type_scalar(q->cx, ANF_INT), *items[ANF_MAX_RANK];
  int64_t dims[ANF_MAX_RANK];
  for (uint32_t k = 0; k < t->n; k++) items[k] = whole, dims[k] = t->dims[t->n - 1 - k];
  if (strcmp(name, "shape") == 0) q->out = anfi_type_tuple(q->cx, t->n, items);
  else if (strcmp(name, "T") == 0)
    q->out = anfi_type_tensor(q->cx, (anf_dtype)t->dtype, t->n, dims);
  else if (strcmp(name, "ndim") == 0 || strcmp(name, "size") == 0) q->out = whole;
  else if (strcmp(name, "dtype") == 0) q->out = anfi_type_simple(q->cx, ANF_TYPE_TYPE);
  else return anfi_infer_fail(q, "a tensor has the fields shape, ndim, size, dtype and T");
  return true;
}

bool anfi_infer_get_field(anfi_infer *q) {
  if (any_input(q) || !q->attr[0]) return anfi_infer_any(q);
  if (q->in[0]->kind == ANF_TYPE_RECORD) return anfi_infer_record_get(q);
  if (anfi_is_tensor(q->in[0])) return tensor_field(q, q->attr[0]->u.text);
  return anfi_infer_fail(q, "only records and tensors have fields");
}

bool anfi_infer_window_start(anfi_infer *q) {
  if (!anfi_infer_tensors(q) || !anfi_infer_indices(q, 0)) return false;
  if (anfi_attr_int(q->attr[0]) < 0 || anfi_attr_int(q->attr[1]) < 0)
    return anfi_infer_fail(q, "size and length must not be negative");
  return anfi_infer_result(q, ANF_I64, q->in[0]->n, q->in[0]->dims);
}

/* ---- evaluation ---- */

int64_t anfi_window_last(anf_dtype d, int64_t size, int64_t length) {
  int bits = 8 * (int)anf_dtype_bytes(d) - (anfi_dtype_class(d) == ANFI_CLASS_SIGNED);
  int64_t most = bits < 63 && length >> bits ? ((int64_t)1 << bits) - 1 : length;
  return most - size;
}

/* The start counted from 0; -1 if the slice goes outside. */
static int64_t window_start(int64_t start, anf_dtype d, int64_t size, int64_t length) {
  if (start >= 0) return start <= anfi_window_last(d, size, length) ? start : -1;
  return anfi_dtype_class(d) == ANFI_CLASS_SIGNED && start >= -length && start < -size
             ? start + length
             : -1;
}

bool anfi_eval_window_start(anfi_eval *q) {
  int64_t size = anfi_attr_int(q->attr[0]), length = anfi_attr_int(q->attr[1]);
  for (size_t i = 0; i < q->in[0]->n; i++) {
    int64_t start = anfi_get_i64(q->in[0], i);
    int64_t at = window_start(start, (anf_dtype)q->in[0]->type->dtype, size, length);
    if (at < 0)
      return anfi_fail(q->cx, q->loc, ANF_E0406, "GetItem", (long long)start, (long long)length);
    anfi_set_i64(q->out, i, at);
  }
  return true;
}

bool anfi_slice_allowed(const anfi_part *p, int64_t from, int64_t to, int64_t length) {
  if (p->given[0] != ANFI_INPUT || p->given[1] != ANFI_INPUT || p->given[2]) return true;
  if (from < 0 && to >= 0) return false;
  int64_t a = from < 0 ? from + length : from, b = to < 0 ? to + length : to;
  return 0 <= a && a <= b && b <= length;
}

/* A number of a part, from the spec or an input; NULL when absent. */
static const int64_t *number(const anfi_eval *q, const anfi_part *p, int k, int64_t *to) {
  const anf_value *in = p->given[k] == ANFI_INPUT ? q->in[p->v[k]] : NULL;
  *to = in ? anfi_get_i64(in, 0) : p->v[k];
  if (in && in->type->dtype == ANF_U64 && *to < 0) *to = INT64_MAX;
  return p->given[k] ? to : NULL;
}

static bool slice_of(const anfi_eval *q, const anfi_part *p, size_t len, int64_t *start,
                     int64_t *step, size_t *n) {
  int64_t from, to;
  for (int k = 0; k < 3; k++)
    if (p->given[k] == ANFI_INPUT && q->in[p->v[k]]->n != 1)
      return anfi_fail(q->cx, q->loc, ANF_E0501, anfi_op[q->op].name, "a slice needs integers");
  if (!number(q, p, 2, step)) *step = 1;
  if (*step == 0)
    return anfi_fail(q->cx, q->loc, ANF_E0501, anfi_op[q->op].name, "the step must not be 0");
  if (*step == INT64_MIN) *step = -INT64_MAX;
  const int64_t *a = number(q, p, 0, &from), *b = number(q, p, 1, &to);
  *n = anfi_slice_ints(len, a, b, *step, start);
  return true;
}

static bool tuple_item(anfi_eval *q, const anfi_part *p) {
  const anf_value *x = q->in[0];
  int64_t i, start, step;
  size_t at, n;
  if (p->kind == ANFI_PART_INDEX) {
    number(q, p, 0, &i);
    if (!anfi_axis_in(i, x->n, &at))
      return anfi_fail(q->cx, q->loc, ANF_E0505, (long long)i,
                       anfi_sprintf(q->scratch, "a tuple of %zu", x->n));
    return anfi_eval_give(q, x->u.item[at]);
  }
  if (!slice_of(q, p, x->n, &start, &step, &n)) return false;
  q->out = anfi_value_new_tuple(q->cx, n);
  for (size_t k = 0; k < n; k++)
    q->out->u.item[k] = anf_value_retain(x->u.item[start + (int64_t)k * step]);
  return true;
}

typedef struct {
  anfi_layout l;
  int64_t dims[ANF_MAX_RANK];   // of the result
  int64_t stride[ANF_MAX_RANK]; // in x, of each dim of the result; 0 for dims of the indices
  int64_t xstride[ANF_MAX_RANK];
  int64_t base; // where all slices start
} gather;

static bool check_window(const anfi_eval *q, const anfi_part *p, int64_t length) {
  int64_t from = 0, to = 0;
  number(q, p, 0, &from);
  number(q, p, 1, &to);
  return anfi_slice_allowed(p, from, to, length) ||
         anfi_fail(q->cx, q->loc, ANF_E0406, anfi_op[q->op].name, (long long)from,
                   (long long)length);
}

static bool lay_dim(const anfi_eval *q, const anfi_subscript *s, gather *g, size_t k) {
  int from = g->l.out[k].from;
  const anf_type *x = q->in[0]->type;
  if (from < 0) {
    g->dims[k] = from == -1 ? 1 : g->l.bdims[-2 - from];
    return true;
  }
  int64_t start = 0, step = 1;
  size_t n = (size_t)x->dims[from];
  if (g->l.out[k].part != ANFI_PARTS) {
    const anfi_part *p = &s->part[g->l.out[k].part];
    if (!slice_of(q, p, n, &start, &step, &n) || !check_window(q, p, x->dims[from])) return false;
  }
  g->dims[k] = (int64_t)n;
  g->stride[k] = n > 1 ? step * g->xstride[from] : 0;
  if (n) g->base += start * g->xstride[from];
  return true;
}

/* The position that index tensor `i` has at a position of the result. */
static bool index_value(const anfi_eval *q, const anfi_subscript *s, const gather *g, size_t i,
                        const int64_t *at, int64_t *out) {
  const anfi_part *p = &s->part[g->l.index[i].part];
  int64_t size = q->in[0]->type->dims[g->l.index[i].axis];
  if (p->given[0] == ANFI_CONSTANT) {
    size_t v = 0;
    if (!anfi_axis_in(p->v[0], (size_t)size, &v))
      return anfi_fail(q->cx, q->loc, ANF_E0404, anfi_op[q->op].name, (long long)p->v[0],
                       (long long)size);
    return *out = (int64_t)v, true;
  }
  const anf_value *index = q->in[p->v[0]];
  size_t place = 0;
  for (uint32_t d = 0; d < index->type->n; d++) {
    size_t j = g->l.brank - index->type->n + d; // dim of the common shape
    int64_t c = 0;
    for (size_t k = 0; k < g->l.rank; k++)
      if (g->l.out[k].from == (int8_t)(-2 - (int)j)) c = at[k];
    place = place * (size_t)index->type->dims[d] + (index->type->dims[d] == 1 ? 0 : (size_t)c);
  }
  return anfi_index_at(q, index, place, size, out);
}

static bool copy_all(anfi_eval *q, const anfi_subscript *s, const gather *g) {
  anfi_nd it;
  anfi_nd_init(&it, g->l.rank, g->dims);
  for (size_t e = 0; it.more; e++, anfi_nd_next(&it)) {
    int64_t at = g->base, k;
    for (size_t d = 0; d < g->l.rank; d++) at += it.index[d] * g->stride[d];
    for (size_t i = 0; i < g->l.nindex; i++) {
      if (!index_value(q, s, g, i, it.index, &k)) return false;
      at += k * g->xstride[g->l.index[i].axis];
    }
    anfi_copy_element(q->out, e, q->in[0], (size_t)at);
  }
  return true;
}

static bool index_tensor(anfi_eval *q, const anfi_subscript *s) {
  const anf_type *x = q->in[0]->type;
  const anf_type **in = ANFI_NEW_N(q->scratch, const anf_type *, q->n);
  for (size_t i = 0; i < q->n; i++) in[i] = q->in[i]->type;
  anfi_infer t = {.cx = q->cx, .op = q->op, .loc = q->loc, .n = q->n, .in = in, .attr = q->attr};
  gather g = {0};
  if (!anfi_layout_of(&t, s, &g.l)) return false;
  anfi_dense_strides(x->n, x->dims, g.xstride);
  for (size_t k = 0; k < g.l.rank; k++)
    if (!lay_dim(q, s, &g, k)) return false;
  if (!q->out)
    q->out = anfi_value_new_tensor(q->cx,
                                   anfi_type_tensor(q->cx, (anf_dtype)x->dtype, g.l.rank, g.dims));
  return copy_all(q, s, &g);
}

bool anfi_eval_get_item(anfi_eval *q) {
  anfi_subscript s;
  if (!anfi_subscript_read(q->cx, q->loc, q->attr[0], q->n, &s)) return false;
  return q->in[0]->kind == ANF_VALUE_TUPLE ? tuple_item(q, &s.part[0]) : index_tensor(q, &s);
}

static bool transposed(anfi_eval *q) {
  const anf_value *x = q->in[0];
  anfi_nd it;
  int64_t stride[ANF_MAX_RANK], back[ANF_MAX_RANK];
  anfi_dense_strides(x->type->n, x->type->dims, stride);
  for (uint32_t k = 0; k < x->type->n; k++) back[k] = stride[x->type->n - 1 - k];
  anfi_nd_init(&it, x->type->n, q->out->type->dims);
  anfi_nd_strides(&it, 0, 0, back);
  for (size_t e = 0; it.more; e++, anfi_nd_next(&it)) anfi_copy_element(q->out, e, x, it.at[0]);
  return true;
}

bool anfi_eval_get_field(anfi_eval *q) {
  const anf_value *x = q->in[0];
  const char *name = q->attr[0]->u.text;
  if (x->kind == ANF_VALUE_RECORD) return anfi_eval_record_get(q);
  if (strcmp(name, "T") == 0) return transposed(q);
  if (strcmp(name, "shape") == 0) q->out = anfi_value_new_ints(q->cx, x->type->n, x->type->dims);
  else if (strcmp(name, "dtype") == 0)
    q->out = anfi_value_new_type(
        q->cx, anfi_type_scalar(q->cx, anfi_dtype_asked((anf_dtype)x->type->dtype)));
  else anfi_set_i64(q->out, 0, strcmp(name, "ndim") == 0 ? (int64_t)x->type->n : (int64_t)x->n);
  return true;
}
