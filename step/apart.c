// SPDX-License-Identifier: Apache-2.0
/* Bound memory of different leaves: what a run writes must not be what it reads or writes elsewhere.
 *
 *     state w at 0x1000, 64 bytes;  output y at 0x1020:    the run would write y over half of w
 *
 * Inputs may share memory. Leaves are compared before a run, and only if something was bound since, so that a host may exchange
 * buffers one by one. */
#include "step/step.h"

enum { RUNS = 1 << 16 }; // of a leaf; one with more counts as a whole

typedef ANFI_VEC(anfi_range) ranges;

/* The bytes from the lowest element to the highest. */
static anfi_range whole(const anfi_step_leaf *l) {
  int64_t low = 0, high = 0, size = (int64_t)anf_dtype_bytes((anf_dtype)l->type->dtype);
  if (!l->host) return (anfi_range){(uintptr_t)l->at, (uintptr_t)l->at + l->bytes, 0, 0, 0};
  for (size_t i = 0; i < l->type->n; i++) {
    int64_t reach = (l->type->dims[i] - 1) * l->strides[i] * size;
    if (reach < 0) low += reach;
    else high += reach;
  }
  uintptr_t at = (uintptr_t)l->host;
  return (anfi_range){at + (uintptr_t)low, at + (uintptr_t)(high + size), 0, 0, 0};
}

/* The dims outside of each run of elements that lie together, and the elements of a run. */
static size_t outer_dims(const anfi_step_leaf *l, int64_t *run) {
  size_t n = l->type->n;
  for (*run = 1; n && (l->type->dims[n - 1] == 1 || l->strides[n - 1] == *run); n--)
    *run *= l->type->dims[n - 1];
  return n;
}

/* One range for each run: columns of one matrix are apart. */
static void add(anfi_arena *a, ranges *to, const anfi_step_leaf *l) {
  int64_t run = 0, at[ANF_MAX_RANK] = {0},
          size = (int64_t)anf_dtype_bytes((anf_dtype)l->type->dtype);
  size_t outer = l->host ? outer_dims(l, &run) : 0;
  if (!outer || (int64_t)l->bytes / size / run > RUNS) {
    anfi_push(a, to, whole(l));
    return;
  }
  uintptr_t p = (uintptr_t)l->host;
  for (size_t i = outer; i;) {
    anfi_push(a, to, ((anfi_range){p, p + (uintptr_t)(run * size), 0, 0, 0}));
    for (i = outer; i; i--) {
      p += (uintptr_t)(l->strides[i - 1] * size);
      if (++at[i - 1] < l->type->dims[i - 1]) break;
      p -= (uintptr_t)(l->strides[i - 1] * l->type->dims[i - 1] * size);
      at[i - 1] = 0;
    }
  }
}

static bool meet(const anf_step *s, const anfi_range *a, const anfi_range *b) {
  return anfi_fail(s->cx, anfi_nowhere(), ANF_E0564, anfi_step_role_name((anf_role)a->kind),
                   s->leaf[a->kind][a->of].name, anfi_step_role_name((anf_role)b->kind),
                   s->leaf[b->kind][b->of].name);
}

bool anfi_step_apart(anf_step *s) {
  ranges r = {0};
  const anfi_range *met[2];
  anfi_arena *a = anfi_scratch(s->cx);
  if (s->apart) return true;
  for (int role = 0; role < 3; role++)
    for (size_t i = 0; i < s->nleaf[role]; i++) {
      size_t first = r.n;
      if (s->leaf[role][i].bytes) add(a, &r, &s->leaf[role][i]);
      for (size_t k = first; k < r.n; k++) {
        r.at[k].written = role != ANF_INPUT;
        r.at[k].kind = (unsigned)role;
        r.at[k].of = i;
      }
    }
  s->apart = !anfi_ranges_meet(r.at, r.n, met);
  return s->apart || meet(s, met[0], met[1]);
}
