// SPDX-License-Identifier: Apache-2.0
/* Batches of many sizes: which arguments have a row for each item of the batch is seen from the sizes that came before, that
 * rows are apart is proved (rows.h), and a further size runs as calls for pieces of it.
 *   f(x: f32[7,4]), f(x: f32[9,4]), f(x: f32[100,4])     x: f32[rows,4]; f_64 of rows 0 to 63, f_32 of the next, f_4 of the last
 * A piece is a variant like any other. Rows that two pieces have in common, where that saves a call, get the same values. */
#include "backend/jit/jit.h"
#include "exec/exec.h"
#include "exec/rows.h"
#include "exec/sizes.h"

enum { MOST_BATCHES = 16, MOST_SEEN = 64 };

/* Arguments that had several sizes of the first dim. */
struct anfi_batch {
  anfi_batch *next;
  anfi_arena arena;
  size_t n;
  const anf_type **type; // by argument, with `dim` where a row is of an item of the batch
  int64_t dim;
  bool apart;
  const char *why; // they are not apart
};

void anfi_batch_free(anf_ctx *cx, anfi_batch *b) {
  for (anfi_batch *next; b; b = next) {
    next = b->next;
    anfi_arena_free(&b->arena);
    anfi_object_free(cx, b);
  }
}

static void free_batch(void *p) {
  anfi_batch *b = (anfi_batch *)p;
  anfi_batch_free(b->arena.cx, b);
}

void anfi_batch_note(anfi_variant *v, size_t n, const anfi_arg *args) {
  const anf_type **t = ANFI_NEW_N(&v->arena, const anf_type *, n + 1);
  for (size_t i = 0; i < n; i++) {
    if (!args[i].type || args[i].value || args[i].fn) return;
    t[i] = args[i].type;
  }
  v->type = t;
}

/* ---- sizes ---- types nest no deeper than their text may, so walks recurse */

/* Are the types the same but for first dims, which are *from in one and *to in the other? Both are -1 before the first. */
static bool differ_in_rows(const anf_type *a, const anf_type *b, int64_t *from, int64_t *to) {
  if (a == b) return true;
  if (a->kind != b->kind || a->n != b->n || a->dtype != b->dtype) return false;
  if (a->kind == ANF_TYPE_TENSOR) {
    for (uint32_t i = 1; i < a->n; i++)
      if (a->dims[i] != b->dims[i]) return false;
    if (!a->n || a->dims[0] < 0) return false;
    if (*from < 0) *from = a->dims[0], *to = b->dims[0];
    return *from == a->dims[0] && *to == b->dims[0];
  }
  if (a->kind != ANF_TYPE_TUPLE && a->kind != ANF_TYPE_RECORD) return false;
  for (uint32_t i = 0; i < a->n; i++) {
    if (a->kind == ANF_TYPE_RECORD && a->names[i] != b->names[i]) return false;
    if (!differ_in_rows(a->items[i], b->items[i], from, to)) return false;
  }
  return true;
}

static const anf_type *with_rows(anf_ctx *cx, anfi_arena *a, const anf_type *t, int64_t rows) {
  int64_t *dims = ANFI_NEW_N(a, int64_t, t->n + 1);
  memcpy(dims, t->dims, t->n * sizeof *dims);
  dims[0] = rows;
  return anfi_type_tensor(cx, (anf_dtype)t->dtype, t->n, dims);
}

/* The type with `dim` in the place of the first dims in which the two differ. */
static const anf_type *common(anf_ctx *cx, anfi_arena *a, const anf_type *x, const anf_type *y,
                              int64_t dim) {
  if (x == y) return x;
  if (x->kind == ANF_TYPE_TENSOR) return with_rows(cx, a, x, dim);
  const anf_type **items = ANFI_NEW_N(a, const anf_type *, x->n + 1);
  for (uint32_t i = 0; i < x->n; i++) items[i] = common(cx, a, x->items[i], y->items[i], dim);
  return x->kind == ANF_TYPE_TUPLE ? anfi_type_tuple(cx, x->n, items)
                                   : anfi_type_record(cx, x->n, x->names, items);
}

/* The type for a batch of so many rows. */
static const anf_type *of_rows(anf_ctx *cx, const anfi_batch *b, int64_t rows, const anf_type *t) {
  int64_t dim = b->dim;
  anfi_size_set one = {.ndim = 1, .dim = &dim, .n = 1, .at = &rows};
  return anfi_sizes_type(cx, &one, 0, t);
}

static bool all_typed(size_t n, const anfi_arg *args) {
  for (size_t i = 0; i < n; i++)
    if (!args[i].type || args[i].value || args[i].fn) return false;
  return true;
}

static bool first_dim(const anf_type *symbolic, const anf_type *t, int64_t dim, int64_t *rows) {
  if (symbolic->kind != t->kind || symbolic->n != t->n) return false;
  if (t->kind == ANF_TYPE_TENSOR) {
    if (t->n && symbolic->dims[0] == dim) *rows = t->dims[0];
    return true;
  }
  if (t->kind != ANF_TYPE_TUPLE && t->kind != ANF_TYPE_RECORD) return true;
  for (uint32_t i = 0; i < t->n; i++)
    if (!first_dim(symbolic->items[i], t->items[i], dim, rows)) return false;
  return true;
}

/* How many rows the arguments have, if they are of this batch; else -1. */
static int64_t rows_in(const anf_exec *e, const anfi_batch *b, size_t n, const anfi_arg *args) {
  int64_t rows = -1;
  if (b->n != n) return -1;
  for (size_t i = 0; i < n; i++)
    if (!first_dim(b->type[i], args[i].type, b->dim, &rows)) return -1;
  for (size_t i = 0; i < n && rows >= 0; i++)
    if (of_rows(e->cx, b, rows, b->type[i]) != args[i].type) return -1;
  return rows;
}

static bool differ(const anfi_variant *v, size_t n, const anfi_arg *args, int64_t *size) {
  int64_t from = -1, to = -1;
  if (!v->type || v->narg != n) return false;
  for (size_t i = 0; i < n; i++)
    if (!differ_in_rows(v->type[i], args[i].type, &from, &to)) return false;
  return *size = from, from >= 0;
}

/* A code that differs from this call in the size alone, if with this call there were as many sizes as the options say. */
static const anfi_variant *often(const anf_exec *e, size_t n, const anfi_arg *args) {
  int64_t seen[MOST_SEEN], size;
  uint32_t k = 0, known;
  const anfi_variant *last = NULL;
  for (const anfi_variant *v = e->variant; v && k < MOST_SEEN; v = v->next) {
    if (!differ(v, n, args, &size)) continue;
    for (known = 0; known < k && seen[known] != size; known++) {
    }
    if (known == k) seen[k++] = size;
    last = v;
  }
  return k + 1 >= e->o.any_size_after ? last : NULL;
}

/* ---- the proof, once for a batch ---- */

/* In a frame of its own: that rows are not apart is no error of the call. */
static anf_status prove(const anf_exec *e, const anfi_batch *b, anf_diag *d) {
  ANFI_ENTRY(e->cx, d);
  anfi_rows_apart(e->g, b->n, b->type, b->dim, anf_dim_name(e->cx, b->dim));
  return anfi_leave(e->cx);
}

static bool prove_or_tell(const anf_exec *e, anfi_batch *b) {
  if (e->o.any_size_only)
    return b->apart = anfi_rows_apart(e->g, b->n, b->type, b->dim, anf_dim_name(e->cx, b->dim));
  anf_diag *d = anf_diag_new(e->cx);
  if (!d) anfi_throw_nomem(e->cx);
  anfi_defer(e->cx, ANFI_ALWAYS, anfi_free_diag, d);
  anf_status st = prove(e, b, d);
  if (st == ANF_NOMEM || st == ANF_CANCELLED) return anfi_fail_as(e->cx, st);
  b->apart = st == ANF_OK;
  const char *why = anf_diag_count(d) ? anf_diag_at(d, 0)->message : "";
  b->why = anfi_strndup(&b->arena, why, strlen(why));
  return true;
}

static anfi_batch *new_batch(anf_exec *e, const anfi_variant *before, size_t n,
                             const anfi_arg *args) {
  anfi_batch *b = (anfi_batch *)anfi_object(e->cx, sizeof *b);
  if (!b) anfi_throw_nomem(e->cx);
  anfi_arena_init(&b->arena, e->cx);
  anfi_defer(e->cx, ANFI_ON_FAIL, free_batch, b);
  b->n = n;
  b->type = ANFI_NEW_N(&b->arena, const anf_type *, n + 1);
  b->dim = anfi_dim_symbol(e->cx, anfi_intern_z(&e->cx->strings, "rows"));
  for (size_t i = 0; i < n; i++)
    b->type[i] = common(e->cx, &b->arena, before->type[i], args[i].type, b->dim);
  if (!prove_or_tell(e, b)) return NULL;
  anfi_undefer(e->cx, b);
  b->next = e->batch;
  return e->batch = b;
}

static anfi_batch *batch_of(anf_exec *e, size_t n, const anfi_arg *args, int64_t *rows) {
  size_t many = 0;
  for (anfi_batch *b = e->batch; b; b = b->next, many++)
    if ((*rows = rows_in(e, b, n, args)) >= 0) return b;
  const anfi_variant *before = many < MOST_BATCHES ? often(e, n, args) : NULL;
  anfi_batch *b = before ? new_batch(e, before, n, args) : NULL;
  if (b) *rows = rows_in(e, b, n, args);
  return b;
}

/* ---- pieces ---- */

typedef struct piece {
  int64_t size, first;
} piece;
typedef ANFI_VEC(piece) pieces;

/* The largest first. A rest that is nearly a piece is one, with rows of the one before. */
static void cut(anfi_arena *a, int64_t rows, pieces *out) {
  static const int64_t sizes[] = {16384, 1024, 64, 32, 16, 8, 4, 2, 1};
  int64_t first = 0, above = 0;
  for (size_t i = 0; i < ANFI_LEN(sizes); above = sizes[i++]) {
    int64_t rest = rows - first;
    if (rest && rest < above && above <= 64 && above <= rows && above - rest <= rest / 2) {
      anfi_push(a, out, ((piece){above, rows - above}));
      return;
    }
    for (; rows - first >= sizes[i]; first += sizes[i])
      anfi_push(a, out, ((piece){sizes[i], first}));
  }
}

/* Only tensors are in memory at rows. */
static bool is_plain(const anfi_leaves *l) {
  for (size_t i = 0; i < l->n; i++)
    if (l->at[i].name || l->at[i].boxed) return false;
  return true;
}

/* The piece's code, held by v: it is not dropped while others are made. */
static anfi_variant *hold_piece(anf_exec *e, anfi_variant *v, const anfi_batch *b, int64_t size,
                                const anfi_arg *args) {
  anfi_arg *of = ANFI_NEW_N(&v->arena, anfi_arg, b->n + 1);
  for (size_t i = 0; i < b->n; i++) {
    of[i] = args[i];
    of[i].type = of_rows(e->cx, b, size, b->type[i]);
  }
  anfi_variant *p = anfi_exec_variant(e, b->n, of);
  if (!p || p->form || p->npiece || !is_plain(&p->low.param) || !is_plain(&p->low.result))
    return NULL;
  p->holders++;
  return v->piece[v->npiece++] = p;
}

/* ---- leaves ---- */

static const anf_type *result_of_rows(anf_ctx *cx, anfi_arena *a, const anf_type *t, int64_t rows) {
  if (t->kind == ANF_TYPE_TENSOR) return with_rows(cx, a, t, rows);
  const anf_type **items = ANFI_NEW_N(a, const anf_type *, t->n + 1);
  for (uint32_t i = 0; i < t->n; i++) items[i] = result_of_rows(cx, a, t->items[i], rows);
  return t->kind == ANF_TYPE_TUPLE ? anfi_type_tuple(cx, t->n, items)
                                   : anfi_type_record(cx, t->n, t->names, items);
}

static bool put_leaves(anf_exec *e, anfi_variant *v, size_t n, const anfi_arg *args, int64_t rows) {
  const anfi_lowered *p = &v->piece[0]->low;
  v->loc = v->piece[0]->loc;
  v->low.cx = e->cx;
  v->low.arena = &v->arena;
  v->low.result_type = result_of_rows(e->cx, &v->arena, p->result_type, rows);
  for (size_t i = 0; i < n; i++)
    if (!args[i].fixed && !anfi_leaves_of(e->cx, &v->arena, args[i].type, v->loc, &v->low.param))
      return false;
  return anfi_leaves_of(e->cx, &v->arena, v->low.result_type, v->loc, &v->low.result) &&
         v->low.param.n == p->param.n && v->low.result.n == p->result.n;
}

static uint64_t row_bytes(const anfi_leaf *whole, const anfi_leaf *part) {
  uint64_t bytes = anf_dtype_bytes((anf_dtype)whole->type->dtype);
  if (whole->type == part->type) return 0;
  for (uint32_t i = 1; i < whole->type->n; i++) bytes *= (uint64_t)whole->type->dims[i];
  return bytes;
}

static bool join(anf_exec *e, anfi_variant *v, const pieces *at) {
  const anfi_lowered *whole = &v->low, *part = &v->piece[0]->low;
  size_t nin = whole->param.n, n = nin + whole->result.n;
  uint64_t *row = ANFI_NEW_N(&v->arena, uint64_t, n + 1);
  anfi_jit_piece *p = ANFI_NEW_N(&v->arena, anfi_jit_piece, at->n + 1);
  for (size_t i = 0; i < n; i++)
    row[i] = i < nin ? row_bytes(&whole->param.at[i], &part->param.at[i])
                     : row_bytes(&whole->result.at[i - nin], &part->result.at[i - nin]);
  for (size_t i = 0; i < at->n; i++)
    p[i] = (anfi_jit_piece){v->piece[i]->function, (uint64_t)at->at[i].first};
  v->function = anfi_jit_batch_new(at->n, p, n, row);
  if (!v->function) anfi_throw_nomem(e->cx);
  return true;
}

static void free_variant(void *p) {
  anfi_variant *v = (anfi_variant *)p;
  anfi_variant_free(v->arena.cx, v);
}

static anfi_variant *in_pieces(anf_exec *e, const anfi_batch *b, const anfi_arg *args,
                               const anfi_sig *sig, int64_t rows) {
  pieces at = {0};
  cut(anfi_scratch(e->cx), rows, &at);
  if (at.n < 2) return NULL;
  anfi_variant *v = (anfi_variant *)anfi_object(e->cx, sizeof *v);
  if (!v) anfi_throw_nomem(e->cx);
  anfi_arena_init(&v->arena, e->cx);
  anfi_defer(e->cx, ANFI_ON_FAIL, free_variant, v);
  for (size_t i = 0; i < sig->word.n; i++) anfi_push(&v->arena, &v->sig.word, sig->word.at[i]);
  anfi_exec_describe(e, v, b->n, args);
  anfi_batch_note(v, b->n, args);
  v->piece = ANFI_NEW_N(&v->arena, anfi_variant *, at.n);
  bool good = true;
  for (size_t i = 0; good && i < at.n; i++) good = hold_piece(e, v, b, at.at[i].size, args) != NULL;
  good = good && put_leaves(e, v, b->n, args, rows) && join(e, v, &at);
  anfi_undefer(e->cx, v);
  if (good) return v;
  anfi_variant_free(e->cx, v);
  return NULL;
}

anfi_variant *anfi_batch_variant(anf_exec *e, size_t n, const anfi_arg *args, const anfi_sig *sig,
                                 bool *apart) {
  int64_t rows = -1;
  if (!e->g || e->counts || e->job.trace || e->job.nstate || !all_typed(n, args)) return NULL;
  const anfi_batch *b = batch_of(e, n, args, &rows);
  *apart = b && b->apart && rows > 0;
  return *apart ? in_pieces(e, b, args, sig, rows) : NULL;
}

/* ---- looking ---- */

void anfi_batch_explain(const anf_exec *e, anf_text *out) {
  for (const anfi_batch *b = e->batch; b; b = b->next) {
    anfi_puts(out, "(");
    for (size_t i = 0; i < b->n; i++) {
      if (i) anfi_puts(out, ", ");
      anfi_put_type(out, e->cx, b->type[i]);
    }
    if (b->apart) anfi_puts(out, "): rows are apart, so a batch of any size runs in pieces.\n");
    else anfi_putf(out, "): code is made for each size: %s.\n", b->why);
  }
}
