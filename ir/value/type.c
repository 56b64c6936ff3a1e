// SPDX-License-Identifier: Apache-2.0
/* Interned types: equal types are one pointer.
 *   f32[n, 3]  =  {TENSOR, f32, 2 dims: -2, 3}       symbolic dims are numbers from -2 down, one a name
 * A type is hashed by its parts, which are themselves interned, so equality is shallow and the depth of a type costs
 * nothing. Types are shared blocks (base/trim.c): a trim forgets those that nothing refers to. */
#include "ir/ir.h"

#include <math.h>

struct anfi_types {
  const anf_type **slots;
  size_t nslot, n;
  const anf_type *scalar[ANF_DTYPE_COUNT];
  ANFI_VEC(const anfi_str *) symbols; // symbol -2-i; NULL: none now
  ANFI_VEC(size_t) free;              // such i
  anfi_map symbol_of;                 // string id -> 1 + i; 0: none
};

static const struct {
  const char *name;
  uint8_t bytes, class, rank, file, mindspore;
  double infinite_from;
} dtypes[ANF_DTYPE_COUNT] = {
#define ANF_DTYPE(id, name, bytes, class, rank, file, mindspore, infinite)                         \
  [ANF_##id] = {name, bytes, ANFI_CLASS_##class, rank, file, mindspore, infinite},
#include "ir/value/dtype.def"
#undef ANF_DTYPE
};

const char *anf_dtype_name(anf_dtype d) {
  return (size_t)d < ANF_DTYPE_COUNT ? dtypes[d].name : "?";
}
size_t anf_dtype_bytes(anf_dtype d) { return (size_t)d < ANF_DTYPE_COUNT ? dtypes[d].bytes : 0; }
anfi_class anfi_dtype_class(anf_dtype d) { return (anfi_class)dtypes[d].class; }
bool anfi_dtype_is_float(anf_dtype d) { return dtypes[d].class == ANFI_CLASS_FLOAT; }
bool anfi_dtype_is_weak(anf_dtype d) { return d == ANF_INT || d == ANF_FLOAT || d == ANF_COMPLEX; }
bool anfi_dtype_is_int(anf_dtype d) {
  return dtypes[d].class == ANFI_CLASS_SIGNED || dtypes[d].class == ANFI_CLASS_UNSIGNED;
}
int64_t anfi_dtype_file_number(anf_dtype d) { return dtypes[d].file; }
int64_t anfi_dtype_type_id(anf_dtype d) { return dtypes[d].mindspore; }
double anfi_dtype_infinite_from(anf_dtype d) { return dtypes[d].infinite_from; }
bool anfi_dtype_of_file_number(int64_t number, anf_dtype *out) {
  for (int d = 0; number && d < ANF_DTYPE_COUNT; d++)
    if (dtypes[d].file == number) return *out = (anf_dtype)d, true; // before the weak types
  return false;
}
anf_dtype anfi_dtype_settle(anf_dtype d) {
  return d == ANF_INT ? ANF_I64 : d == ANF_FLOAT ? ANF_F64 : d == ANF_COMPLEX ? ANF_C128 : d;
}
anf_dtype anfi_dtype_asked(anf_dtype d) { return d == ANF_COMPLEX ? ANF_C128 : d; }
anf_dtype anfi_dtype_part(anf_dtype d) {
  return d == ANF_C64 ? ANF_F32 : d == ANF_C128 ? ANF_F64 : d == ANF_COMPLEX ? ANF_FLOAT : d;
}
anf_dtype anfi_dtype_of_parts(anf_dtype d) {
  bool narrow = d == ANF_F32 || d == ANF_F16 || d == ANF_BF16;
  return narrow ? ANF_C64 : anfi_dtype_is_weak(d) ? ANF_COMPLEX : ANF_C128;
}

bool anfi_dtype_weak_becomes(anf_dtype from, anf_dtype to) {
  bool complex = dtypes[to].class == ANFI_CLASS_COMPLEX;
  bool inexact = dtypes[to].class == ANFI_CLASS_FLOAT || complex;
  if (from == ANF_COMPLEX) return complex;
  return from == ANF_INT ? anfi_dtype_is_int(to) || inexact : from == ANF_FLOAT && inexact;
}
bool anfi_dtype_holds(anf_dtype d, int64_t least, int64_t most) {
  int bits = 8 * dtypes[d].bytes;
  bool is_signed = dtypes[d].class == ANFI_CLASS_SIGNED;
  if (bits == 64) return is_signed || least >= 0;
  int64_t end = (int64_t)1 << (is_signed ? bits - 1 : bits);
  return least >= (is_signed ? -end : 0) && most < end;
}

bool anfi_dtype_parse(const char *s, size_t len, anf_dtype *out) {
  for (int d = 0; d < ANF_DTYPE_COUNT; d++)
    if (strlen(dtypes[d].name) == len && memcmp(dtypes[d].name, s, len) == 0) {
      *out = (anf_dtype)d;
      return true;
    }
  return false;
}

/* bool < integers < floats < complex; within a class the wider wins; a weak number has the lowest
 * rank of its class, and decides only if its class is the higher one. */
static anf_dtype promote_ints(anf_dtype a, anf_dtype b) {
  if (dtypes[a].class == dtypes[b].class || anfi_dtype_is_weak(a) || anfi_dtype_is_weak(b))
    return dtypes[a].rank >= dtypes[b].rank ? a : b;
  anf_dtype s = dtypes[a].class == ANFI_CLASS_SIGNED ? a : b, u = s == a ? b : a;
  if (dtypes[s].rank > dtypes[u].rank) return s;
  return dtypes[u].rank < 4 ? (anf_dtype)(ANF_I8 + dtypes[u].rank)
                            : ANF_I64; // the next wider signed
}

bool anfi_dtype_promote(anf_dtype a, anf_dtype b, anf_dtype *out) {
  *out = a;
  if (a == b) return true;
  anfi_class ca = anfi_dtype_class(a), cb = anfi_dtype_class(b);
  if (ca == ANFI_CLASS_KEY || cb == ANFI_CLASS_KEY) return false;
  if (anfi_dtype_is_int(a) && anfi_dtype_is_int(b)) *out = promote_ints(a, b);
  else if (ca != cb) {
    anf_dtype hi = ca > cb ? a : b, lo = ca > cb ? b : a;
    *out = hi;
    if (hi == ANF_FLOAT && lo != ANF_INT) *out = ANF_F64; // a weak real with typed integers
    if (hi == ANF_INT && lo == ANF_BOOL) *out = ANF_I64;
    if (hi == ANF_COMPLEX) *out = anfi_dtype_of_parts(lo);
    if (anfi_dtype_class(hi) == ANFI_CLASS_COMPLEX && lo == ANF_F64) *out = ANF_C128;
  } else if (dtypes[a].rank == dtypes[b].rank) *out = ANF_F32; // f16 and bf16
  else *out = dtypes[a].rank > dtypes[b].rank ? a : b;
  return true;
}

static bool same_type(const anf_type *a, const anf_type *b) {
  if (a->hash != b->hash || a->kind != b->kind || a->dtype != b->dtype || a->n != b->n ||
      a->pattern != b->pattern || a->result != b->result)
    return false;
  if (a->dims) return memcmp(a->dims, b->dims, a->n * sizeof *a->dims) == 0;
  if (a->names && memcmp(a->names, b->names, a->n * sizeof *a->names) != 0) return false;
  return !a->items || memcmp(a->items, b->items, a->n * sizeof *a->items) == 0;
}

static uint64_t hash_type(const anf_type *t) {
  uint64_t h = anfi_hash_mix((t->pattern * 64u + t->kind) * 64u + t->dtype, t->n);
  h = anfi_hash_mix(h, t->result ? t->result->hash : 0);
  for (uint32_t i = 0; i < t->n; i++) {
    if (t->dims) h = anfi_hash_mix(h, (uint64_t)t->dims[i]);
    if (t->items) h = anfi_hash_mix(h, t->items[i]->hash);
    if (t->names) h = anfi_hash_mix(h, t->names[i]->id);
  }
  return h;
}

static void grow(anf_ctx *cx, struct anfi_types *ts) {
  const anf_type **old = ts->slots;
  size_t n = ts->nslot, want = n ? n * 2 : ANFI_HASH_MIN;
  ts->slots = ANFI_NEW_N(&cx->tables, const anf_type *, want);
  ts->nslot = want;
  for (size_t i = 0; i < n; i++) {
    if (!old[i]) continue;
    size_t k = (size_t)old[i]->hash & (want - 1);
    while (ts->slots[k]) k = (k + 1) & (want - 1);
    ts->slots[k] = old[i];
  }
  anfi_give_back(&cx->tables, (void *)(uintptr_t)old, n * sizeof *old);
}

/* The slot of the type, or the free one where it would go. */
static size_t slot_of(const struct anfi_types *ts, const anf_type *t) {
  if (!ts->nslot) return 0;
  size_t i = (size_t)t->hash & (ts->nslot - 1);
  while (ts->slots[i] && !same_type(ts->slots[i], t)) i = (i + 1) & (ts->nslot - 1);
  return i;
}

static void find_parts(anf_type *t) {
  bool nest = t->kind == ANF_TYPE_TUPLE || t->kind == ANF_TYPE_RECORD;
  anfi_class c =
      t->kind == ANF_TYPE_TENSOR ? anfi_dtype_class((anf_dtype)t->dtype) : ANFI_CLASS_BOOL;
  t->varies = c == ANFI_CLASS_FLOAT || c == ANFI_CLASS_COMPLEX;
  t->kept = t->kind == ANF_TYPE_BOX || t->kind == ANF_TYPE_STACK;
  t->leaves = t->varies || t->kept;
  t->functions = t->kind == ANF_TYPE_FN;
  for (uint32_t i = 0; nest && i < t->n; i++) {
    t->varies |= t->items[i]->varies;
    t->leaves += t->items[i]->leaves;
    t->functions |= t->items[i]->functions;
    t->kept |= t->items[i]->kept;
  }
}

/* Bytes of n parts of a type, in whole pointers. */
static size_t part_bytes(const void *parts, uint32_t n) { return parts ? n * sizeof(void *) : 0; }

/* The type and copies of its parts, in one block. */
static anf_type *copy_of(anf_ctx *cx, const anf_type *t) {
  size_t list = part_bytes(t->dims ? (const void *)t->dims : (const void *)t->items, t->n);
  size_t names = part_bytes(t->names, t->n);
  anf_type *p = (anf_type *)anfi_share(cx, sizeof *p + list + names);
  *p = *t;
  if (t->dims) p->dims = (const int64_t *)memcpy(p + 1, t->dims, list);
  if (t->items) p->items = (const anf_type *const *)memcpy(p + 1, t->items, list);
  if (t->names) p->names = (const anfi_str *const *)memcpy((char *)(p + 1) + list, t->names, names);
  find_parts(p);
  return p;
}

/* `t` itself and its parts live on the caller's stack. */
static const anf_type *intern(anf_ctx *cx, anf_type t) {
  struct anfi_types *ts = cx->types;
  t.hash = hash_type(&t);
  size_t i = slot_of(ts, &t);
  if (ts->nslot && ts->slots[i]) return ts->slots[i];
  if ((ts->n + 1) * 4 > ts->nslot * 3) { // for a new type alone: finding one takes no memory
    grow(cx, ts);
    i = slot_of(ts, &t);
  }
  ts->slots[i] = copy_of(cx, &t);
  ts->n++;
  return ts->slots[i];
}

/* ---- trimming ---- */

void anfi_types_mark(anf_ctx *cx, anfi_marking *m) {
  const struct anfi_types *ts = cx->types;
  for (size_t i = 0; i < ts->nslot; i++) {
    const anf_type *t = ts->slots[i];
    for (uint32_t k = 0; t && t->dims && anfi_is_live(t) && k < t->n; k++)
      if (t->dims[k] <= -2) anfi_revive(m, ts->symbols.at[-2 - t->dims[k]]);
  }
}

static void forget_symbols(anf_ctx *cx) {
  struct anfi_types *ts = cx->types;
  for (size_t i = 0; i < ts->symbols.n; i++) {
    const anfi_str *s = ts->symbols.at[i];
    if (!s || anfi_is_live(s)) continue;
    anfi_push(&cx->tables, &ts->free, i);
    *anfi_map_find(&ts->symbol_of, s->id) = 0;
    ts->symbols.at[i] = NULL;
  }
}

void anfi_types_trim(anf_ctx *cx) {
  struct anfi_types *ts = cx->types;
  const anf_type **live = ANFI_NEW_N(anfi_scratch(cx), const anf_type *, ts->n + 1);
  size_t n = 0;
  forget_symbols(cx);
  for (size_t i = 0; i < ts->nslot; i++)
    if (ts->slots[i] && anfi_is_live(ts->slots[i])) live[n++] = ts->slots[i];
  memset((void *)(uintptr_t)ts->slots, 0, ts->nslot * sizeof *ts->slots);
  for (size_t i = 0; i < n; i++) ts->slots[slot_of(ts, live[i])] = live[i];
  ts->n = n;
}

const anf_type *anfi_type_tensor(anf_ctx *cx, anf_dtype d, size_t rank, const int64_t *dims) {
  if (!rank && cx->types->scalar[d]) return cx->types->scalar[d];
  return intern(cx, (anf_type){.kind = ANF_TYPE_TENSOR,
                               .dtype = (uint8_t)d,
                               .n = (uint32_t)rank,
                               .dims = rank ? dims : NULL});
}

const anf_type *anfi_type_scalar(anf_ctx *cx, anf_dtype d) { return cx->types->scalar[d]; }

const anf_type *anfi_type_tuple(anf_ctx *cx, size_t n, const anf_type *const *items) {
  return intern(cx,
                (anf_type){.kind = ANF_TYPE_TUPLE, .n = (uint32_t)n, .items = n ? items : NULL});
}

const anf_type *anfi_type_record(anf_ctx *cx, size_t n, const anfi_str *const *names,
                                 const anf_type *const *items) {
  return intern(cx, (anf_type){.kind = ANF_TYPE_RECORD,
                               .n = (uint32_t)n,
                               .items = n ? items : NULL,
                               .names = n ? names : NULL});
}

const anf_type *anfi_type_fn(anf_ctx *cx, size_t n, const anf_type *const *params,
                             const anf_type *result) {
  return intern(
      cx, (anf_type){
              .kind = ANF_TYPE_FN, .n = (uint32_t)n, .items = n ? params : NULL, .result = result});
}

const anf_type *anfi_type_simple(anf_ctx *cx, anf_type_kind k) {
  return intern(cx, (anf_type){.kind = (uint8_t)k});
}

const anf_type *anfi_type_pattern(anf_ctx *cx, anf_pattern p, anf_dtype d) {
  return intern(cx, (anf_type){.kind = ANF_TYPE_ANY,
                               .pattern = (uint8_t)p,
                               .dtype = (uint8_t)(p == ANF_PATTERN_RANKS ? d : 0)});
}

bool anfi_pattern_takes(const anf_type *pattern, anf_type_kind kind, const anf_type *tensor) {
  bool number = tensor && anfi_dtype_class((anf_dtype)tensor->dtype) != ANFI_CLASS_KEY;
  switch ((anf_pattern)pattern->pattern) {
  case ANF_PATTERN_ANY: return true;
  case ANF_PATTERN_NUMBER: return number && !tensor->n;
  case ANF_PATTERN_TENSOR: return tensor && tensor->n;
  case ANF_PATTERN_TUPLE: return kind == ANF_TYPE_TUPLE;
  case ANF_PATTERN_RECORD: return kind == ANF_TYPE_RECORD;
  case ANF_PATTERN_RANKS: return tensor != NULL;
  }
  return false;
}

static const char *const pattern_names[] = {"any", "number", "tensor", "tuple", "record"};

const char *anfi_pattern_name(anf_pattern p) { return pattern_names[p]; }

bool anfi_pattern_parse(const char *name, anf_pattern *out) {
  for (size_t i = 0; i < ANFI_LEN(pattern_names); i++)
    if (strcmp(name, pattern_names[i]) == 0) return *out = (anf_pattern)i, true;
  return false;
}

const anf_type *anfi_type_with_dtype(anf_ctx *cx, const anf_type *t, anf_dtype d) {
  return t->dtype == d ? t : anfi_type_tensor(cx, d, t->n, t->dims);
}

bool anfi_is_tensor(const anf_type *t) { return t && t->kind == ANF_TYPE_TENSOR; }
bool anfi_is_scalar(const anf_type *t) { return anfi_is_tensor(t) && t->n == 0; }

bool anfi_type_elements(const anf_type *t, size_t *n) {
  *n = 1;
  for (uint32_t i = 0; i < t->n; i++) {
    if (t->dims[i] < 0) return false;
    *n *= (size_t)t->dims[i];
  }
  return true;
}

size_t anfi_type_bytes(const anf_type *t) {
  size_t n = 0;
  anfi_type_elements(t, &n);
  return n * anf_dtype_bytes((anf_dtype)t->dtype);
}

int64_t anfi_dim_symbol(anf_ctx *cx, const anfi_str *name) {
  struct anfi_types *ts = cx->types;
  uint64_t *at = anfi_map_at(&ts->symbol_of, name->id);
  if (!*at && ts->free.n) {
    *at = 1 + ts->free.at[--ts->free.n];
    ts->symbols.at[*at - 1] = name;
  } else if (!*at) {
    anfi_push(&cx->tables, &ts->symbols, name);
    *at = ts->symbols.n;
  }
  return -1 - (int64_t)*at;
}

const char *anf_dim_name(const anf_ctx *cx, int64_t dim) {
  if (!cx) return NULL;
  size_t i = dim <= -2 ? (size_t)(-2 - dim) : SIZE_MAX;
  const anfi_str *s = i < cx->types->symbols.n ? cx->types->symbols.at[i] : NULL;
  return s ? s->s : NULL;
}

void anfi_types_init(anf_ctx *cx) {
  cx->types = ANFI_NEW(&cx->arena, struct anfi_types);
  anfi_map_init(&cx->types->symbol_of, &cx->tables);
  for (int d = 0; d < ANF_DTYPE_COUNT; d++)
    cx->types->scalar[d] = intern(cx, (anf_type){.kind = ANF_TYPE_TENSOR, .dtype = (uint8_t)d});
}

/* ---- the public face ---- */

static bool dims_are_good(size_t rank, const int64_t *dims, size_t bytes) {
  if (rank > ANF_MAX_RANK || (rank && !dims)) return false;
  uint64_t total = bytes;
  for (size_t i = 0; i < rank; i++)
    if (dims[i] > 0) {
      if (total > ((uint64_t)1 << 47) / (uint64_t)dims[i]) return false;
      total *= (uint64_t)dims[i];
    }
  return true;
}

const anf_type *anfi_type_checked(anf_ctx *cx, anf_dtype d, size_t rank, const int64_t *dims) {
  if ((size_t)d >= ANF_DTYPE_COUNT || !dims_are_good(rank, dims, dtypes[d].bytes)) return NULL;
  return anfi_type_tensor(cx, d, rank, dims);
}

const anf_type *anf_type_tensor(anf_ctx *cx, anf_dtype d, size_t rank, const int64_t *dims) {
  ANFI_NEED_ELSE(cx, NULL, cx);
  if (rank) ANFI_NEED_ELSE(cx, NULL, dims);
  ANFI_ENTRY_ELSE(cx, NULL, NULL);
  const anf_type *t = anfi_type_checked(cx, d, rank, dims);
  return anfi_leave(cx) == ANF_OK ? t : NULL;
}

const anf_type *anf_type_scalar(anf_ctx *cx, anf_dtype d) {
  if (!cx) return NULL;
  return anf_type_tensor(cx, d, 0, NULL);
}

static bool all_given(size_t n, const void *const *p) {
  for (size_t i = 0; i < n; i++)
    if (!p[i]) return false;
  return true;
}

const anf_type *anf_type_tuple(anf_ctx *cx, size_t n, const anf_type *const *items) {
  ANFI_NEED_ELSE(cx, NULL, cx);
  if (n) ANFI_NEED_ELSE(cx, NULL, items);
  if (!all_given(n, (const void *const *)items)) return NULL;
  ANFI_ENTRY_ELSE(cx, NULL, NULL);
  const anf_type *t = anfi_type_tuple(cx, n, items);
  return anfi_leave(cx) == ANF_OK ? t : NULL;
}

static const anf_type *record_of(anf_ctx *cx, size_t n, const char *const *names,
                                 const anf_type *const *items) {
  anfi_arena *a = anfi_scratch(cx);
  const anfi_str **s = ANFI_NEW_N(a, const anfi_str *, n);
  anfi_map seen;
  anfi_map_init(&seen, a);
  for (size_t i = 0; i < n; i++) {
    s[i] = anfi_intern_z(&cx->strings, names[i]);
    if (anfi_map_find(&seen, s[i]->id)) return NULL;
    anfi_map_at(&seen, s[i]->id);
  }
  return anfi_type_record(cx, n, s, items);
}

const anf_type *anf_type_record(anf_ctx *cx, size_t n, const char *const *names,
                                const anf_type *const *items) {
  ANFI_NEED_ELSE(cx, NULL, cx);
  if (n) ANFI_NEED_ELSE(cx, NULL, names);
  if (n) ANFI_NEED_ELSE(cx, NULL, items);
  if (!all_given(n, (const void *const *)names) || !all_given(n, (const void *const *)items))
    return NULL;
  ANFI_ENTRY_ELSE(cx, NULL, NULL);
  const anf_type *t = record_of(cx, n, names, items);
  return anfi_leave(cx) == ANF_OK ? t : NULL;
}

const anf_type *anf_type_fn(anf_ctx *cx, size_t n, const anf_type *const *params,
                            const anf_type *result) {
  ANFI_NEED_ELSE(cx, NULL, cx, result);
  if (n) ANFI_NEED_ELSE(cx, NULL, params);
  if (!result || !all_given(n, (const void *const *)params)) return NULL;
  ANFI_ENTRY_ELSE(cx, NULL, NULL);
  const anf_type *t = anfi_type_fn(cx, n, params, result);
  return anfi_leave(cx) == ANF_OK ? t : NULL;
}

const anf_type *anf_type_simple(anf_ctx *cx, anf_type_kind k) {
  if (k < ANF_TYPE_NONE || k > ANF_TYPE_ANY) return NULL;
  ANFI_ENTRY_ELSE(cx, NULL, NULL);
  const anf_type *t = anfi_type_simple(cx, k);
  return anfi_leave(cx) == ANF_OK ? t : NULL;
}

const anf_type *anf_type_pattern(anf_ctx *cx, anf_pattern p, anf_dtype d) {
  if (!cx || (size_t)p > ANF_PATTERN_RANKS || (size_t)d >= ANF_DTYPE_COUNT) return NULL;
  ANFI_ENTRY_ELSE(cx, NULL, NULL);
  const anf_type *t = anfi_type_pattern(cx, p, d);
  return anfi_leave(cx) == ANF_OK ? t : NULL;
}

int64_t anf_dim_symbol(anf_ctx *cx, const char *name) {
  ANFI_NEED_ELSE(cx, 0, cx, name);
  ANFI_ENTRY_ELSE(cx, NULL, 0);
  int64_t d = anfi_dim_symbol(cx, anfi_intern_z(&cx->strings, name));
  return anfi_leave(cx) == ANF_OK ? d : 0;
}

anf_type_kind anf_type_get_kind(const anf_type *t) {
  if (!t) return (anf_type_kind)0;
  return (anf_type_kind)t->kind;
}
anf_pattern anf_type_get_pattern(const anf_type *t) {
  return t ? (anf_pattern)t->pattern : ANF_PATTERN_ANY;
}
anf_dtype anf_type_dtype(const anf_type *t) { return t ? (anf_dtype)t->dtype : ANF_DTYPE_COUNT; }
size_t anf_type_rank(const anf_type *t) {
  if (!t) return 0;
  return t->kind == ANF_TYPE_TENSOR ? t->n : 0;
}
int64_t anf_type_dim(const anf_type *t, size_t i) {
  if (!t) return 0;
  return t->dims && i < t->n ? t->dims[i] : 0;
}
size_t anf_type_count(const anf_type *t) { return t ? t->n : 0; }
const anf_type *anf_type_at(const anf_type *t, size_t i) {
  if (!t) return NULL;
  return t->items && i < t->n ? t->items[i] : NULL;
}
const char *anf_type_field(const anf_type *t, size_t i) {
  if (!t) return NULL;
  return t->names && i < t->n ? t->names[i]->s : NULL;
}
const anf_type *anf_type_result(const anf_type *t) { return t ? t->result : NULL; }

/* ---- printing: an explicit stack of the parts that are left, for types nest without bound
 * ---- */

typedef struct {
  const anf_type *type; // or
  const char *text;     // or
  const anfi_str *name;
} piece;
typedef ANFI_VEC(piece) pieces;

static void later(anfi_arena *a, pieces *st, const anf_type *t, const char *text) {
  anfi_push(a, st, ((piece){t, text, NULL}));
}

static void put_tensor(anf_text *o, anf_ctx *cx, const anf_type *t) {
  anfi_puts(o, dtypes[t->dtype].name);
  if (!t->n) return;
  anfi_putc(o, '[');
  for (uint32_t i = 0; i < t->n; i++) {
    if (i) anfi_puts(o, ", ");
    const char *name = anf_dim_name(cx, t->dims[i]);
    if (name) anfi_put_name(o, name, strlen(name));
    else if (t->dims[i] < 0) anfi_putc(o, '?');
    else anfi_put_i64(o, t->dims[i]);
  }
  anfi_putc(o, ']');
}

/* Pushed in reverse, since the stack's top is written first. */
static void put_list(anfi_arena *a, pieces *st, const anf_type *t) {
  for (uint32_t i = t->n; i-- > 0;) {
    later(a, st, t->items[i], NULL);
    if (t->names) {
      later(a, st, NULL, ": ");
      anfi_push(a, st, ((piece){NULL, NULL, t->names[i]}));
    }
    if (i) later(a, st, NULL, ", ");
  }
}

static void put_pattern(anf_text *o, const anf_type *t) {
  if (t->pattern == ANF_PATTERN_RANKS) anfi_putf(o, "%s[...]", dtypes[t->dtype].name);
  else anfi_puts(o, pattern_names[t->pattern]);
}

static void put_compound(anf_text *o, anfi_arena *a, pieces *st, const anf_type *t) {
  switch ((anf_type_kind)t->kind) {
  case ANF_TYPE_TUPLE:
    anfi_putc(o, '(');
    later(a, st, NULL, t->n == 1 ? ",)" : ")");
    put_list(a, st, t);
    break;
  case ANF_TYPE_RECORD:
    anfi_putc(o, '{');
    later(a, st, NULL, "}");
    put_list(a, st, t);
    break;
  case ANF_TYPE_FN:
    anfi_puts(o, "fn(");
    later(a, st, t->result, NULL);
    later(a, st, NULL, ") -> ");
    put_list(a, st, t);
    break;
  case ANF_TYPE_NONE: anfi_puts(o, "none"); break;
  case ANF_TYPE_STRING: anfi_puts(o, "str"); break;
  case ANF_TYPE_TYPE: anfi_puts(o, "type"); break;
  case ANF_TYPE_BOX: anfi_puts(o, "box"); break;
  case ANF_TYPE_STACK: anfi_puts(o, "stack"); break;
  default: put_pattern(o, t); break;
  }
}

void anfi_put_type(anf_text *o, anf_ctx *cx, const anf_type *t) {
  if (t->kind == ANF_TYPE_TENSOR) { // by far the most, and needs no stack
    put_tensor(o, cx, t);
    return;
  }
  anfi_arena *a = anfi_scratch(cx);
  pieces st = {0};
  later(a, &st, t, NULL);
  while (st.n) {
    piece p = st.at[--st.n];
    if (p.text) anfi_puts(o, p.text);
    else if (p.name) anfi_put_name(o, p.name->s, p.name->len);
    else if (p.type->kind == ANF_TYPE_TENSOR) put_tensor(o, cx, p.type);
    else put_compound(o, a, &st, p.type);
  }
}

anf_status anf_type_print(anf_ctx *cx, const anf_type *t, anf_text *out) {
  ANFI_NEED_ELSE(out ? out->cx : cx, ANF_INVALID, cx, out);
  anfi_text_of(out, cx);
  if (!t) return ANF_OK;
  ANFI_ENTRY(cx, NULL);
  anfi_put_type(out, cx, t);
  return anfi_leave(cx);
}
