// SPDX-License-Identifier: Apache-2.0
/* Values: immutable once shared, counted, freed by a loop.
 *   f32[2]([1, 2])    one block: header (type, count), then 8 bytes of elements
 * Hard case: a tuple nests without bound, so releasing one keeps a list of its own. */
#include "ir/ir.h"
#include "ir/value/mapped.h"

#include <math.h>

enum { HEADER = offsetof(anf_value, u) };
_Static_assert(offsetof(anf_value, u) % 16 == 0,
               "the payload must be aligned as an arena block is");

/* Stands in anfi_attrs for "given by an input of the node". */
anf_value anfi_from_node = {.refs = UINT32_MAX, .kind = ANF_VALUE_NONE};

static anf_value *new_value(anf_ctx *cx, anf_value_kind kind, size_t payload) {
  size_t bytes = HEADER + (payload < sizeof(void *) ? sizeof(void *) : payload);
  anf_value *v = bytes < payload ? NULL : (anf_value *)anfi_raw(cx, NULL, 0, bytes);
  if (!v) anfi_throw_nomem(cx);
  memset(v, 0, bytes);
  v->refs = 1;
  v->kind = (uint8_t)kind;
  v->bytes = bytes;
  v->cx = cx;
  return v;
}

void anfi_value_set_type(anf_value *v, const anf_type *t) {
  anfi_pin(t);
  if (v->type) anfi_unpin(v->type);
  v->type = t;
}

anf_value *anfi_value_new_tensor(anf_ctx *cx, const anf_type *t) {
  size_t n = 0;
  if (!anfi_type_elements(t, &n)) n = 0;
  anf_value *v =
      new_value(cx, ANF_VALUE_TENSOR, anfi_size_mul(cx, n, anf_dtype_bytes((anf_dtype)t->dtype)));
  anfi_value_set_type(v, t);
  v->n = n;
  v->data = (unsigned char *)v->u.text;
  return v;
}

anf_value *anfi_value_wrap(anf_ctx *cx, const anf_type *t, void *data, void (*release)(void *user),
                           void *user) {
  anf_value *v = new_value(cx, ANF_VALUE_TENSOR, sizeof v->u.host);
  anfi_value_set_type(v, t);
  anfi_type_elements(t, &v->n);
  v->data = (unsigned char *)data;
  v->wrapped = true;
  v->u.host.release = release;
  v->u.host.user = user;
  return v;
}

/* ---- elements that stay in their file ---- */

static void release_block(void *b) { anfi_os_block_release((anfi_os_block *)b); }

anf_value *anfi_value_map(anf_ctx *cx, const anf_type *t, const anfi_os_view *file,
                          uint64_t offset) {
  size_t n = 0, each = anf_dtype_bytes((anf_dtype)t->dtype);
  if (t->dtype == ANF_BOOL || !anfi_type_elements(t, &n)) return NULL;
  n = anfi_size_mul(cx, n, each);
  if (n < ANFI_LEAST_BORROWED) return NULL;
  anf_value *v = anfi_value_wrap(cx, t, NULL, NULL, NULL);
  anfi_os_block *b = anfi_os_block_view(file, offset, n, each);
  if (!b) return anf_value_release(v), NULL;
  v->data = anfi_os_block_data(b);
  v->u.host.release = release_block;
  v->u.host.user = b;
  return v;
}

anfi_os_block *anfi_value_block(const anf_value *v) {
  bool has = v->kind == ANF_VALUE_TENSOR && v->wrapped && v->u.host.release == release_block;
  return has ? (anfi_os_block *)v->u.host.user : NULL;
}

static anf_value *new_items(anf_ctx *cx, anf_value_kind kind, size_t n) {
  anf_value *v = new_value(cx, kind, anfi_size_mul(cx, n, sizeof(anf_value *)));
  v->n = n;
  return v;
}

anf_value *anfi_value_new_tuple(anf_ctx *cx, size_t n) { return new_items(cx, ANF_VALUE_TUPLE, n); }

anf_value *anfi_value_new_residual(anf_ctx *cx, anf_value_kind k, size_t n) {
  return new_items(cx, k, n);
}

anf_value *anfi_value_new_record(anf_ctx *cx, const anf_type *t) {
  anf_value *v = new_items(cx, ANF_VALUE_RECORD, t->n);
  anfi_value_set_type(v, t);
  return v;
}

anf_value *anfi_value_new_fn(anf_ctx *cx, anf_graph *g, uint16_t op, const anfi_attrs *attrs,
                             uint32_t ncapture, uint32_t nbound) {
  size_t n = (size_t)ncapture + nbound;
  anf_value *v =
      new_value(cx, ANF_VALUE_FN, sizeof(anfi_fn) + anfi_size_mul(cx, n, sizeof(anf_value *)));
  v->n = n;
  anfi_fn *f = anfi_value_fn(v);
  *f = (anfi_fn){.graph = g, .op = op, .attrs = attrs, .ncapture = ncapture, .nbound = nbound};
  return v;
}

anf_value *anfi_value_new_none(anf_ctx *cx) { return new_value(cx, ANF_VALUE_NONE, 0); }

anf_value *anfi_value_new_type(anf_ctx *cx, const anf_type *t) {
  anf_value *v = new_value(cx, ANF_VALUE_TYPE, 0);
  anfi_value_set_type(v, t);
  return v;
}

anf_value *anfi_value_new_string(anf_ctx *cx, const char *s, size_t len) {
  anf_value *v = new_value(cx, ANF_VALUE_STRING, len + 1);
  v->n = len;
  memcpy(v->u.text, s, len);
  return v;
}

anf_value *anfi_value_new_i64(anf_ctx *cx, anf_dtype d, int64_t x) {
  anf_value *v = anfi_value_new_tensor(cx, anfi_type_scalar(cx, d));
  anfi_set_i64(v, 0, x);
  return v;
}

anf_value *anfi_value_new_f64(anf_ctx *cx, anf_dtype d, double x) {
  anf_value *v = anfi_value_new_tensor(cx, anfi_type_scalar(cx, d));
  anfi_set_f64(v, 0, x);
  return v;
}

anf_value *anfi_value_new_ints(anf_ctx *cx, size_t n, const int64_t *x) {
  anf_value *v = anfi_value_new_tuple(cx, n);
  anfi_value_guard(v);
  for (size_t i = 0; i < n; i++) v->u.item[i] = anfi_value_new_i64(cx, ANF_INT, x[i]);
  anfi_value_unguard(v);
  return v;
}

static anf_value **items_of(const anf_value *v) {
  switch (v->kind) {
  case ANF_VALUE_TUPLE:
  case ANF_VALUE_RECORD:
  case ANF_VALUE_BOX:
  case ANF_VALUE_STACK: return (anf_value **)(uintptr_t)(const void *)v->u.item;
  case ANF_VALUE_FN: return anfi_value_fn(v)->at;
  default: return NULL;
  }
}

anf_value *anf_value_retain(anf_value *v) {
  if (v && v->refs != UINT32_MAX) v->refs++;
  return v;
}

void anfi_value_guard(anf_value *v) { anfi_defer(v->cx, ANFI_ON_FAIL, anfi_release, v); }
void anfi_value_unguard(anf_value *v) { anfi_undefer(v->cx, v); }

static anf_value *chain(anf_value *v, anf_value *next) {
  if (anfi_value_is_nest(v) && v->known) anfi_unpin(v->known);
  v->next = next;
  return v;
}

void anf_value_release(anf_value *v) {
  if (!v || v->refs == UINT32_MAX || --v->refs) return;
  chain(v, NULL);
  for (anf_value *dead = v; dead;) {
    anf_value *now = dead, **items = items_of(now);
    dead = now->next;
    for (size_t i = 0; items && i < now->n; i++) {
      anf_value *it = items[i];
      if (!it || it->refs == UINT32_MAX || --it->refs) continue;
      dead = chain(it, dead);
    }
    if (now->type) anfi_unpin(now->type);
    if (now->wrapped && now->u.host.release) now->u.host.release(now->u.host.user);
    anfi_raw(now->cx, now, now->bytes, 0);
  }
}
void anfi_release(void *v) { anf_value_release((anf_value *)v); }

static anf_value *permanent_tensor(const anf_value *v) {
  size_t bytes = v->n * anf_dtype_bytes((anf_dtype)v->type->dtype);
  anf_value *p = (anf_value *)anfi_alloc(&v->cx->arena, HEADER + bytes + sizeof(void *));
  memcpy(p, v, HEADER);
  p->refs = UINT32_MAX;
  p->wrapped = false;
  p->data = (unsigned char *)p->u.text;
  if (bytes) memcpy(p->data, v->data, bytes);
  return p;
}

static anf_value *permanent(const anf_value *v) {
  if (v->kind == ANF_VALUE_TENSOR) return permanent_tensor(v);
  anf_value *p = (anf_value *)memcpy(anfi_alloc(&v->cx->arena, v->bytes), v, v->bytes);
  p->refs = UINT32_MAX;
  p->known = NULL;
  for (size_t i = 0; p->kind == ANF_VALUE_TUPLE && i < p->n; i++)
    p->u.item[i] = permanent(v->u.item[i]);
  return p;
}

anf_value *anfi_value_keep(anf_value *v) {
  anfi_defer(v->cx, ANFI_ALWAYS, anfi_release, v);
  return permanent(v);
}

/* ---- elements ---- */

/* An integer as a double that is rounded to odd: rounding it again to a narrower type is right. */
static double odd_u64(uint64_t x) {
  double scale = 1;
  for (; x >> 53; scale *= 2) x = x >> 1 | (x & 1);
  return (double)x * scale;
}

static double odd_i64(int64_t x) {
  return x < 0 ? -odd_u64(0 - (uint64_t)x) : odd_u64((uint64_t)x);
}

double anfi_get_odd(const anf_value *v, size_t i) {
  anf_dtype d = (anf_dtype)v->type->dtype;
  if (d == ANF_U64) return odd_u64((uint64_t)anfi_get_i64(v, i));
  return anfi_dtype_class(d) < ANFI_CLASS_FLOAT ? odd_i64(anfi_get_i64(v, i)) : anfi_get_f64(v, i);
}

static bool is_narrow(anf_dtype d) {
  return d == ANF_F16 || d == ANF_BF16 || d == ANF_F32 || d == ANF_C64;
}

double anfi_get_f64(const anf_value *v, size_t i) {
  const void *p = v->data;
  switch ((anf_dtype)v->type->dtype) {
  case ANF_F16: return (double)anfi_f16_to_f32(((const uint16_t *)p)[i]);
  case ANF_BF16: return (double)anfi_bf16_to_f32(((const uint16_t *)p)[i]);
  case ANF_F32:
  case ANF_C64: return (double)((const float *)p)[i]; // complex: i counts both parts
  case ANF_F64:
  case ANF_FLOAT:
  case ANF_COMPLEX:
  case ANF_C128: return ((const double *)p)[i];
  case ANF_U64: return (double)((const uint64_t *)p)[i];
  default: return (double)anfi_get_i64(v, i);
  }
}

/* Towards zero; the nearest integer of the range where none is within 1 of d, and 0 for NaN. */
static int64_t truncate_f64(double d, int64_t low, int64_t high) {
  return d != d ? 0 : d <= (double)low ? low : d >= (double)high ? high : (int64_t)d;
}

/* Types nest no deeper than their text may, so walks recurse. */
bool anfi_value_has_multiple(const anf_value *v, int64_t of) {
  if (v->kind == ANF_VALUE_TENSOR) {
    anfi_class c = v->type->n ? ANFI_CLASS_FLOAT : anfi_dtype_class((anf_dtype)v->type->dtype);
    if (c != ANFI_CLASS_SIGNED && c != ANFI_CLASS_UNSIGNED) return false;
    int64_t i = anfi_get_i64(v, 0);
    return i && i % of == 0;
  }
  bool nest = v->kind == ANF_VALUE_TUPLE || v->kind == ANF_VALUE_RECORD;
  for (size_t i = 0; nest && i < v->n; i++)
    if (anfi_value_has_multiple(v->u.item[i], of)) return true;
  return false;
}

int64_t anfi_get_i64(const anf_value *v, size_t i) {
  const void *p = v->data;
  switch ((anf_dtype)v->type->dtype) {
  case ANF_BOOL:
  case ANF_U8: return ((const uint8_t *)p)[i];
  case ANF_I8: return ((const int8_t *)p)[i];
  case ANF_I16: return ((const int16_t *)p)[i];
  case ANF_U16: return ((const uint16_t *)p)[i];
  case ANF_I32: return ((const int32_t *)p)[i];
  case ANF_U32: return ((const uint32_t *)p)[i];
  case ANF_I64:
  case ANF_INT:
  case ANF_U64:
  case ANF_KEY: return ((const int64_t *)p)[i];
  default: return truncate_f64(anfi_get_f64(v, i), INT64_MIN, INT64_MAX);
  }
}

void anfi_set_i64(anf_value *v, size_t i, int64_t x) {
  void *p = v->data;
  switch ((anf_dtype)v->type->dtype) {
  case ANF_BOOL: ((uint8_t *)p)[i] = x != 0; break;
  case ANF_I8:
  case ANF_U8: ((uint8_t *)p)[i] = (uint8_t)x; break;
  case ANF_I16:
  case ANF_U16: ((uint16_t *)p)[i] = (uint16_t)x; break;
  case ANF_I32:
  case ANF_U32: ((uint32_t *)p)[i] = (uint32_t)x; break;
  case ANF_I64:
  case ANF_INT:
  case ANF_U64:
  case ANF_KEY: ((int64_t *)p)[i] = x; break;
  default: anfi_set_f64(v, i, is_narrow((anf_dtype)v->type->dtype) ? odd_i64(x) : (double)x); break;
  }
}

void anfi_set_f64(anf_value *v, size_t i, double x) {
  void *p = v->data;
  switch ((anf_dtype)v->type->dtype) {
  case ANF_F16: ((uint16_t *)p)[i] = anfi_f64_to_f16(x); break;
  case ANF_BF16: ((uint16_t *)p)[i] = anfi_f64_to_bf16(x); break;
  case ANF_F32:
  case ANF_C64: ((float *)p)[i] = (float)x; break;
  case ANF_F64:
  case ANF_FLOAT:
  case ANF_COMPLEX:
  case ANF_C128: ((double *)p)[i] = x; break;
  case ANF_BOOL: ((uint8_t *)p)[i] = x != 0.0; break;
  case ANF_I8: ((int8_t *)p)[i] = (int8_t)truncate_f64(x, INT8_MIN, INT8_MAX); break;
  case ANF_U8: ((uint8_t *)p)[i] = (uint8_t)truncate_f64(x, 0, UINT8_MAX); break;
  case ANF_I16: ((int16_t *)p)[i] = (int16_t)truncate_f64(x, INT16_MIN, INT16_MAX); break;
  case ANF_U16: ((uint16_t *)p)[i] = (uint16_t)truncate_f64(x, 0, UINT16_MAX); break;
  case ANF_I32: ((int32_t *)p)[i] = (int32_t)truncate_f64(x, INT32_MIN, INT32_MAX); break;
  case ANF_U32: ((uint32_t *)p)[i] = (uint32_t)truncate_f64(x, 0, UINT32_MAX); break;
  case ANF_I64:
  case ANF_INT: ((int64_t *)p)[i] = truncate_f64(x, INT64_MIN, INT64_MAX); break;
  default: // u64, keys
    ((uint64_t *)p)[i] = x >= 0x1p64 ? UINT64_MAX : x > 0 ? (uint64_t)x : 0;
    break;
  }
}

bool anfi_value_is_int(const anf_value *v, int64_t *out) {
  if (v->kind != ANF_VALUE_TENSOR || v->type->n || !anfi_dtype_is_int((anf_dtype)v->type->dtype))
    return false;
  int64_t i = anfi_get_i64(v, 0);
  *out = v->type->dtype == ANF_U64 && i < 0 ? INT64_MAX
                                            : i; // as an index it is outside, and not from the end
  return true;
}

static anf_value *cast_complex(anf_value *v, anf_value *to, bool from_complex) {
  bool odd = !from_complex && to->type->dtype == ANF_C64;
  for (size_t i = 0; i < v->n; i++) {
    anfi_set_f64(to, 2 * i, odd ? anfi_get_odd(v, i) : anfi_get_f64(v, from_complex ? 2 * i : i));
    anfi_set_f64(to, 2 * i + 1, from_complex ? anfi_get_f64(v, 2 * i + 1) : 0.0);
  }
  return to;
}

anf_value *anfi_value_cast(anf_value *v, anf_dtype d) {
  anf_dtype from = (anf_dtype)v->type->dtype;
  if (from == d) return anf_value_retain(v);
  anf_value *to = anfi_value_new_tensor(v->cx, anfi_type_with_dtype(v->cx, v->type, d));
  bool complex_in = anfi_dtype_class(from) == ANFI_CLASS_COMPLEX;
  if (anfi_dtype_class(d) == ANFI_CLASS_COMPLEX) return cast_complex(v, to, complex_in);
  bool exact_int =
      !anfi_dtype_is_float(from) && !complex_in && (from != ANF_U64 || !anfi_dtype_is_float(d));
  for (size_t i = 0; i < v->n; i++)
    if (exact_int) anfi_set_i64(to, i, anfi_get_i64(v, i));
    else if (complex_in && d == ANF_BOOL)
      anfi_set_i64(to, i, anfi_get_f64(v, 2 * i) != 0 || anfi_get_f64(v, 2 * i + 1) != 0);
    else if (!complex_in && is_narrow(d)) anfi_set_f64(to, i, anfi_get_odd(v, i));
    else anfi_set_f64(to, i, anfi_get_f64(v, complex_in ? 2 * i : i));
  return to;
}

static bool same_shallow(const anf_value *a, const anf_value *b) {
  if (a->kind != b->kind || a->type != b->type || a->n != b->n) return false;
  switch ((anf_value_kind)a->kind) {
  case ANF_VALUE_TENSOR:
    return memcmp(a->data, b->data, a->n * anf_dtype_bytes((anf_dtype)a->type->dtype)) == 0;
  case ANF_VALUE_STRING: return memcmp(a->u.text, b->u.text, a->n) == 0;
  case ANF_VALUE_FN: {
    const anfi_fn *f = anfi_value_fn(a), *g = anfi_value_fn(b);
    return f->graph == g->graph && f->op == g->op && f->attrs == g->attrs && f->nbound == g->nbound;
  }
  default: return true;
  }
}

/* Union-find over shared values under comparison: each value leads to another of its class, on a
 * path that each look-up halves. */
static const anf_value *class_of(const anfi_map *classes, const anf_value *v) {
  uint64_t *next, *after;
  for (next = anfi_map_find(classes, anfi_key(v)); next; next = after) {
    after = anfi_map_find(classes, *next);
    v = (const anf_value *)(uintptr_t)*next;
    if (after) *next = *after;
  }
  return v;
}

/* Whether two values are already taken for equal; they are from now on. */
static bool in_one_class(anfi_map *classes, const anf_value *a, const anf_value *b) {
  if (a->refs == 1 || b->refs == 1) return false;
  a = class_of(classes, a);
  b = class_of(classes, b);
  if (a != b) *anfi_map_at(classes, anfi_key(a)) = anfi_key(b);
  return a == b;
}

/* Walks both values with an explicit stack, held in a frame of its own. Equality is transitive, so
 * each comparison of shared parts joins two classes: forty pairs of one another are forty
 * comparisons, though they denote 2^40 items. */
static bool same_deep(anf_ctx *cx, const anf_value *a, const anf_value *b) {
  anfi_arena *s = anfi_scratch(cx);
  ANFI_VEC(const anf_value *) st = {0};
  anfi_map classes;
  anfi_map_init(&classes, s);
  anfi_push(s, &st, a);
  anfi_push(s, &st, b);
  while (st.n) {
    const anf_value *y = st.at[--st.n], *x = st.at[--st.n];
    if (x == y) continue;
    anf_value **xi = items_of(x), **yi = items_of(y);
    if (xi && yi && in_one_class(&classes, x, y)) continue;
    if (!same_shallow(x, y)) return false;
    for (size_t i = 0; xi && i < x->n; i++) {
      anfi_push(s, &st, (const anf_value *)xi[i]);
      anfi_push(s, &st, (const anf_value *)yi[i]);
    }
  }
  return true;
}

static anf_status same_in_frame(anf_ctx *cx, const anf_value *a, const anf_value *b, bool *same) {
  ANFI_ENTRY(cx, NULL);
  *same = same_deep(cx, a, b);
  return anfi_leave(cx);
}

static anf_status compare(const anf_value *a, const anf_value *b, bool *same) {
  *same = a == b;
  if (*same) return ANF_OK;
  if (items_of(a) && items_of(b)) return same_in_frame(a->cx, a, b, same);
  *same = same_shallow(a, b);
  return ANF_OK;
}

bool anf_value_same(const anf_value *a, const anf_value *b) {
  if (!a || !b) return a == b;
  bool same;
  return compare(a, b, &same) == ANF_OK && same;
}

bool anfi_value_same(const anf_value *a, const anf_value *b) {
  bool same;
  if (compare(a, b, &same) != ANF_OK) anfi_throw_nomem(a->cx);
  return same;
}

/* A hash of many bytes samples them, so that weights are not read whole; equal hashes are compared. */
static uint64_t hash_elements(const unsigned char *p, size_t n, uint64_t h) {
  enum { FEW = 1 << 16, PARTS = 64, PART = 64 };
  if (n <= FEW) return anfi_hash(p, n, h);
  for (size_t i = 0; i < PARTS; i++) h = anfi_hash(p + (n - PART) / (PARTS - 1) * i, PART, h);
  return h;
}

static uint64_t hash_shallow(const anf_value *v, uint64_t h) {
  h = anfi_hash_mix(h, v->kind);
  h = anfi_hash_mix(h, v->n);
  if (v->type) h = anfi_hash_mix(h, v->type->hash);
  if (v->kind == ANF_VALUE_TENSOR)
    return hash_elements(v->data, v->n * anf_dtype_bytes((anf_dtype)v->type->dtype), h);
  if (v->kind == ANF_VALUE_STRING) return anfi_hash(v->u.text, v->n, h);
  if (v->kind == ANF_VALUE_FN) {
    const anfi_fn *f = anfi_value_fn(v);
    h = anfi_hash_mix(h, f->graph ? f->graph->id : UINT32_MAX);
    return anfi_hash_mix(h, f->op);
  }
  return h;
}

/* The parts that come first decide: parts may be shared, and all of them be without number. */
uint64_t anfi_value_hash(const anf_value *v) {
  enum { PARTS = 4096 };
  if (!items_of(v)) return hash_shallow(v, 0);
  anfi_arena *s = anfi_scratch(v->cx);
  ANFI_VEC(const anf_value *) st = {0};
  anfi_push(s, &st, v);
  uint64_t h = 0;
  for (size_t k = 0; st.n && k < PARTS; k++) {
    const anf_value *x = st.at[--st.n];
    h = hash_shallow(x, h);
    anf_value **items = items_of(x);
    for (size_t i = 0; items && i < x->n; i++) anfi_push(s, &st, (const anf_value *)items[i]);
  }
  return h;
}

/* ---- the type of a value: bottom-up with an explicit stack ---- */

typedef struct {
  anf_value *v;
  size_t next; // item to type next
  size_t base; // where the types of its items start on the type stack
} typing;

static const anf_type *shallow_type(anf_ctx *cx, const anf_value *v, const anf_type *const *items) {
  switch ((anf_value_kind)v->kind) {
  case ANF_VALUE_TENSOR: return v->type;
  case ANF_VALUE_TUPLE: return anfi_type_tuple(cx, v->n, items);
  case ANF_VALUE_RECORD: return anfi_type_record(cx, v->n, v->type->names, items);
  case ANF_VALUE_STRING: return anfi_type_simple(cx, ANF_TYPE_STRING);
  case ANF_VALUE_TYPE: return anfi_type_simple(cx, ANF_TYPE_TYPE);
  case ANF_VALUE_NONE: return anfi_type_simple(cx, ANF_TYPE_NONE);
  case ANF_VALUE_BOX: return anfi_type_simple(cx, ANF_TYPE_BOX);
  case ANF_VALUE_STACK: return anfi_type_simple(cx, ANF_TYPE_STACK);
  default: return anfi_type_fn(cx, 0, NULL, anfi_type_simple(cx, ANF_TYPE_ANY));
  }
}

/* Of a value without items or whose type is known; else NULL. */
static const anf_type *at_hand(anf_ctx *cx, const anf_value *v) {
  if (!anfi_value_is_nest(v)) return shallow_type(cx, v, NULL);
  return v->cx == cx ? v->known : NULL;
}

/* A value does not change, so its type is found once: a list of n pairs, one in another, is walked in n steps. */
static const anf_type *remember(anf_ctx *cx, anf_value *v, const anf_type *t) {
  if (v->cx != cx || v->refs == UINT32_MAX) return t;
  anfi_pin(t);
  return v->known = t;
}

static const anf_type *type_of(anf_ctx *cx, anf_value *v) {
  anfi_arena *s = anfi_scratch(cx);
  ANFI_VEC(typing) st = {0};
  ANFI_VEC(const anf_type *) ts = {0};
  anfi_push(s, &st, ((typing){v, 0, 0}));
  while (st.n) {
    typing *top = &st.at[st.n - 1];
    const anf_type *t = at_hand(cx, top->v);
    if (!t && top->next < top->v->n) {
      anf_value *item = top->v->u.item[top->next++]; // before `st` grows, and `top` with it
      anfi_push(s, &st, ((typing){item, 0, ts.n}));
      continue;
    }
    const anf_type *const *items = ts.n ? ts.at + top->base : NULL;
    if (!t) t = remember(cx, top->v, shallow_type(cx, top->v, items));
    ts.n = top->base;
    st.n--;
    anfi_push(s, &ts, t);
  }
  return ts.at[0];
}

const anf_type *anf_value_type(anf_ctx *cx, const anf_value *v) {
  ANFI_NEED_ELSE(cx, NULL, cx, v);
  if (v->kind == ANF_VALUE_TENSOR) return v->type;
  ANFI_ENTRY_ELSE(cx, NULL, NULL);
  const anf_type *t = type_of(cx, (anf_value *)(uintptr_t)v); // which is remembered
  return anfi_leave(cx) == ANF_OK ? t : NULL;
}

const anf_value *anfi_record_item(const anf_value *record, const char *name) {
  for (size_t i = 0; i < record->n; i++)
    if (strcmp(record->type->names[i]->s, name) == 0) return record->u.item[i];
  return NULL;
}

const anf_type *anfi_value_type(anf_ctx *cx, const anf_value *v) {
  const anf_type *t = anf_value_type(cx, v);
  if (!t) anfi_throw_nomem(cx);
  return t;
}
