// SPDX-License-Identifier: Apache-2.0
/* Leaves: their memory, arrays of the host bound in its place, copies in and out.
 *   own     memory of the step, aligned for vectors
 *   bound   an array of the host: the step reads and writes it where it is if it is dense, else copies it in and out */
#include "step/step.h"

#include <stdlib.h>

/* ---- memory ---- */

enum { ALIGN = 64 };

/* The block starts before p; the word before p says how much. */
char *anfi_step_memory(anf_ctx *cx, size_t bytes, size_t *whole) {
  *whole = bytes + ALIGN + sizeof(size_t);
  char *block = *whole < bytes ? NULL : (char *)anfi_raw(cx, NULL, 0, *whole);
  if (!block) anfi_throw_nomem(cx);
  uintptr_t at = ((uintptr_t)block + sizeof(size_t) + ALIGN - 1) & ~(uintptr_t)(ALIGN - 1);
  char *p = block + (at - (uintptr_t)block);
  size_t before = (size_t)(p - block);
  memcpy(p - sizeof before, &before, sizeof before);
  return (char *)memset(p, 0, bytes);
}

void anfi_step_memory_free(anf_ctx *cx, char *p, size_t whole) {
  size_t before;
  if (!p) return;
  memcpy(&before, p - sizeof before, sizeof before);
  anfi_raw(cx, p - before, whole, 0);
}

static void unbind(anf_step *s, anfi_step_leaf *l) {
  if (l->managed) anfi_dl_release(l->managed);
  if (l->strides) anfi_raw(s->cx, l->strides, l->type->n * sizeof *l->strides, 0);
  l->managed = NULL;
  l->strides = NULL;
  l->host = NULL;
}

void anfi_step_own(anf_step *s, anfi_step_leaf *l) {
  if (!l->own) l->own = anfi_step_memory(s->cx, l->bytes, &l->own_bytes);
  l->at = l->own;
  unbind(s, l);
}

void anfi_step_leaf_free(anf_step *s, anfi_step_leaf *l) {
  unbind(s, l);
  anfi_step_memory_free(s->cx, l->own, l->own_bytes);
  anfi_step_memory_free(s->cx, l->next, l->next_bytes);
}

/* ---- checks ---- */

/* The leaf of this role and number, or NULL with an error. */
static anfi_step_leaf *leaf_at(const anf_step *s, anf_role r, size_t i) {
  if ((size_t)r < 3 && i < s->nleaf[r]) return &s->leaf[r][i];
  const char *what = (size_t)r < 3 ? anfi_step_role_name(r) : "leaf";
  return (void)anfi_fail(s->cx, anfi_nowhere(), ANF_E1114, what, i,
                         (size_t)r < 3 ? s->nleaf[r] : 0),
         NULL;
}

static bool bad(const anf_step *s, anf_role r, const anfi_step_leaf *l, const char *why) {
  return anfi_fail(s->cx, anfi_nowhere(), ANF_E1113, anfi_step_role_name(r), l->name, why);
}

static bool has_type(const anf_step *s, anf_role r, const anfi_step_leaf *l, const anf_array *a) {
  if (a->rank && !a->dims) return bad(s, r, l, "its dims are NULL");
  if ((unsigned)a->dtype >= ANF_DTYPE_COUNT) return bad(s, r, l, "its element type is none");
  bool same = a->dtype == (anf_dtype)l->type->dtype && a->rank == l->type->n;
  for (size_t i = 0; same && i < a->rank; i++) same = a->dims[i] == l->type->dims[i];
  if (same) return true;
  if (a->rank > ANF_MAX_RANK) return bad(s, r, l, "it has too many dims");
  const anf_type *t = anf_type_tensor(s->cx, a->dtype, a->rank, a->dims);
  return anfi_fail(s->cx, anfi_nowhere(), ANF_E1112, anfi_step_role_name(r), l->name,
                   anfi_type_text(s->cx, l->type),
                   t ? anfi_type_text(s->cx, t) : "of dims that cannot be");
}

static bool is_dense(const anfi_step_leaf *l, const int64_t *strides) {
  int64_t want = 1;
  for (size_t i = strides ? l->type->n : 0; i-- > 0;) {
    if (l->type->dims[i] > 1 && strides[i] != want) return false;
    want *= l->type->dims[i];
  }
  return true;
}

/* Elements that are written must be apart. Enough that, by stride, each dim steps over those below.
 */
static bool overlaps(const anfi_step_leaf *l, const int64_t *strides) {
  bool used[ANF_MAX_RANK] = {false};
  int64_t reach = 0; // of the dims so far
  for (size_t n = 0; n < l->type->n; n++) {
    size_t least = ANF_MAX_RANK;
    for (size_t i = 0; i < l->type->n; i++)
      if (!used[i] && (least == ANF_MAX_RANK || llabs(strides[i]) < llabs(strides[least])))
        least = i;
    used[least] = true;
    if (l->type->dims[least] < 2) continue;
    if (llabs(strides[least]) <= reach) return true;
    reach += (l->type->dims[least] - 1) * llabs(strides[least]);
  }
  return false;
}

static bool check_strides(const anf_step *s, anf_role r, const anfi_step_leaf *l,
                          const anf_array *a, bool written) {
  for (size_t i = 0; i < a->rank; i++) {
    int64_t most = (INT64_MAX >> 8) / (l->type->dims[i] + 1);
    if (a->strides[i] > most || a->strides[i] < -most) return bad(s, r, l, "a stride is too large");
  }
  if (written && overlaps(l, a->strides))
    return bad(s, r, l, "by its strides two elements are one, and it is written to");
  return true;
}

static bool aligned(const anfi_step_leaf *l, const void *p) {
  size_t to = anf_dtype_bytes((anf_dtype)l->type->dtype);
  if (to > 8) to = 8;
  return (uintptr_t)p % to == 0;
}

static bool fits(const anf_step *s, anf_role r, const anfi_step_leaf *l, const anf_array *a,
                 bool written) {
  if (!has_type(s, r, l, a)) return false;
  if (!a->data && l->bytes) return bad(s, r, l, "its data is NULL");
  return !a->strides || check_strides(s, r, l, a, written);
}

/* ---- strides ---- */

/* Copies between memory with strides and dense memory, dim by dim, counting like an odometer. */
static void copy(const anf_type *t, char *host, const int64_t *strides, char *dense, bool in) {
  size_t size = anf_dtype_bytes((anf_dtype)t->dtype), rank = t->n;
  int64_t at[ANF_MAX_RANK] = {0};
  for (size_t i = 0; i < rank; i++)
    if (!t->dims[i]) return;
  for (char *d = dense;; d += size) {
    memcpy(in ? d : host, in ? host : d, size);
    size_t i = rank;
    while (i > 0) {
      host += strides[i - 1] * (int64_t)size;
      if (++at[i - 1] < t->dims[i - 1]) break;
      host -= strides[i - 1] * t->dims[i - 1] * (int64_t)size;
      at[--i] = 0;
    }
    if (!i) return;
  }
}

void anfi_step_gather(const anfi_step_leaf *l) {
  if (l->host) copy(l->type, l->host, l->strides, l->at, true);
}
void anfi_step_scatter(const anfi_step_leaf *l) {
  if (l->host) copy(l->type, l->host, l->strides, l->at, false);
}

/* ---- the interface ---- */

bool anfi_step_bind_array(anf_step *s, anf_role r, size_t i, const anf_array *a) {
  if (!anfi_step_idle(s)) return false;
  anfi_step_leaf *l = leaf_at(s, r, i);
  if (!l) return false;
  if (!a->data && !a->dims) { // back to memory of the step's own
    const char *values = l->at;
    if (!l->own) l->own = anfi_step_memory(s->cx, l->bytes, &l->own_bytes);
    if (values != l->own) memcpy(l->own, values, l->bytes);
    anfi_step_own(s, l);
    return true;
  }
  if (!fits(s, r, l, a, r != ANF_INPUT)) return false;
  s->apart = false;
  if (is_dense(l, a->strides)) {
    if (!aligned(l, a->data)) return bad(s, r, l, "its memory is not aligned to its elements");
    unbind(s, l);
    l->at = (char *)a->data;
    return true;
  }
  int64_t *strides = (int64_t *)anfi_raw(s->cx, NULL, 0, a->rank * sizeof *strides);
  if (!strides) anfi_throw_nomem(s->cx);
  memcpy(strides, a->strides, a->rank * sizeof *strides);
  anfi_step_own(s, l);
  l->host = (char *)a->data;
  l->strides = strides;
  anfi_step_gather(l);
  return true;
}

anf_status anf_step_bind(anf_step *s, anf_role r, size_t i, const anf_array *a, anf_diag *d) {
  ANFI_NEED(d, s, a);
  ANFI_ENTRY(s->cx, d);
  anfi_step_bind_array(s, r, i, a);
  return anfi_leave(s->cx);
}

anf_status anf_step_leaf(const anf_step *s, anf_role r, size_t i, anf_array *out) {
  ANFI_NEED_ELSE(s ? s->cx : NULL, ANF_INVALID, s, out);
  if ((size_t)r >= 3 || i >= s->nleaf[r]) return ANF_INVALID;
  const anfi_step_leaf *l = &s->leaf[r][i];
  *out = (anf_array){
      .dtype = (anf_dtype)l->type->dtype, .rank = l->type->n, .dims = l->type->dims, .data = l->at};
  return ANF_OK;
}

/* Is the array of the whole type of a sharded state? */
static bool is_of_whole(const anfi_step_leaf *l, const anf_array *a) {
  const anf_type *t = l->whole;
  return t && a->dtype == (anf_dtype)t->dtype && a->rank == t->n && a->dims &&
         memcmp(a->dims, t->dims, t->n * sizeof *a->dims) == 0;
}

/* A leaf of the whole type of a sharded one, in memory of its own. */
static anfi_step_leaf whole_leaf(const anf_step *s, const anfi_step_leaf *l) {
  anfi_step_leaf w = {.name = l->name, .type = l->whole};
  w.bytes = anfi_type_bytes(w.type);
  w.at = (char *)anfi_alloc(anfi_scratch(s->cx), w.bytes + 1);
  return w;
}

static void write_whole(const anf_step *s, const anfi_step_leaf *l, const anf_array *from) {
  anfi_step_leaf w = whole_leaf(s, l);
  if (!fits(s, ANF_STATE, &w, from, false)) return;
  if (from->strides) copy(w.type, (char *)from->data, from->strides, w.at, true);
  anfi_step_take(s, l, from->strides ? w.at : (const char *)from->data);
}

static void read_whole(const anf_step *s, const anfi_step_leaf *l, const anf_array *to) {
  anfi_step_leaf w = whole_leaf(s, l);
  if (!fits(s, ANF_STATE, &w, to, true) || !anfi_step_whole(s, l, w.at)) return;
  if (to->strides) copy(w.type, (char *)to->data, to->strides, w.at, false);
  else memcpy(to->data, w.at, w.bytes);
}

anf_status anf_step_whole(const anf_step *s, size_t i, anf_array *out) {
  ANFI_NEED_ELSE(s ? s->cx : NULL, ANF_INVALID, s, out);
  if (i >= s->nleaf[ANF_STATE]) return ANF_INVALID;
  const anfi_step_leaf *l = &s->leaf[ANF_STATE][i];
  const anf_type *t = l->whole ? l->whole : l->type;
  *out = (anf_array){.dtype = (anf_dtype)t->dtype, .rank = t->n, .dims = t->dims};
  return ANF_OK;
}

static void write_leaf(anf_step *s, anf_role r, size_t i, const anf_array *from) {
  if (!anfi_step_idle(s)) return;
  anfi_step_leaf *l = leaf_at(s, r, i);
  if (l && is_of_whole(l, from)) {
    write_whole(s, l, from);
    return;
  }
  if (!l || !fits(s, r, l, from, false)) return;
  if (r != ANF_STATE) anfi_step_own(s, l);
  if (from->strides) copy(l->type, (char *)from->data, from->strides, l->at, true);
  else if (l->bytes) memcpy(l->at, from->data, l->bytes);
  anfi_step_scatter(l);
}

anf_status anf_step_write(anf_step *s, anf_role r, size_t i, const anf_array *from, anf_diag *d) {
  ANFI_NEED(d, s, from);
  ANFI_ENTRY(s->cx, d);
  write_leaf(s, r, i, from);
  return anfi_leave(s->cx);
}

static void read_leaf(const anf_step *s, anf_role r, size_t i, const anf_array *to) {
  const anfi_step_leaf *l = anfi_step_idle(s) ? leaf_at(s, r, i) : NULL;
  if (l && is_of_whole(l, to)) {
    read_whole(s, l, to);
    return;
  }
  if (!l || !fits(s, r, l, to, true)) return;
  if (to->strides) copy(l->type, (char *)to->data, to->strides, l->at, false);
  else if (l->bytes) memcpy(to->data, l->at, l->bytes);
}

anf_status anf_step_read(const anf_step *s, anf_role r, size_t i, const anf_array *to,
                         anf_diag *d) {
  ANFI_NEED(d, s, to);
  ANFI_ENTRY(s->cx, d);
  read_leaf(s, r, i, to);
  return anfi_leave(s->cx);
}

static void share(anf_step *from, anf_step *to) {
  if (!anfi_step_idle(from) || !anfi_step_idle(to)) return;
  for (size_t i = 0; i < from->nleaf[ANF_STATE]; i++) {
    const anfi_step_leaf *l = &from->leaf[ANF_STATE][i];
    anf_array a = {.dtype = (anf_dtype)l->type->dtype,
                   .rank = l->type->n,
                   .dims = l->type->dims,
                   .data = l->at};
    for (int r = ANF_STATE; r <= ANF_INPUT; r++) {
      size_t k = anf_step_leaf_find(to, (anf_role)r, l->name);
      if (k < to->nleaf[r] && !anfi_step_bind_array(to, (anf_role)r, k, &a)) return;
    }
  }
}

anf_status anf_step_share(anf_step *from, anf_step *to, anf_diag *d) {
  ANFI_NEED(d, from, to);
  ANFI_ENTRY(to->cx, d);
  share(from, to);
  return anfi_leave(to->cx);
}
