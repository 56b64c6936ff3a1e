// SPDX-License-Identifier: Apache-2.0
/* Checkpoints: the leaves of the state as a safetensors file, with the number of steps done.
 *   p: {w: f32[2,3], b: f32[3]}     tensors p.w and p.b;  metadata: format, step 120, sum of names and bytes
 * A step that resumes from one computes the same bits as without the interruption. */
#include "anfora/store.h"
#include "frontend/store/store.h"
#include "step/step.h"

#include <errno.h>
#include <stdlib.h>

/* Over names, bytes and the count, in the order of the leaves. */
static uint64_t sum_of(uint64_t sum, const char *name, const void *p, size_t n) {
  sum = anfi_hash(name, strlen(name) + 1, sum);
  return n ? anfi_hash(p, n, sum) : sum;
}

static const anf_type *saved_type(const anfi_step_leaf *l) { return l->whole ? l->whole : l->type; }

static size_t saved_bytes(const anfi_step_leaf *l) { return anfi_type_bytes(saved_type(l)); }

/* Sharded leaves have no data yet. */
static bool write_file(const anf_step *s, uint64_t sum, const char *path,
                       const void *(*fetch)(void *user, size_t i), void *user) {
  anfi_arena *a = anfi_scratch(s->cx);
  size_t n = s->nleaf[ANF_STATE];
  anfi_stored *t = ANFI_NEW_N(a, anfi_stored, n + 1);
  for (size_t i = 0; i < n; i++) {
    const anfi_step_leaf *l = &s->leaf[ANF_STATE][i];
    t[i] = (anfi_stored){l->name, saved_type(l), l->whole ? NULL : l->at};
  }
  const char *meta[] = {"format", "anfora",
                        "step",   anfi_sprintf(a, "%llu", (unsigned long long)s->count),
                        "sum",    anfi_sprintf(a, "%016llx", (unsigned long long)sum)};
  return anfi_save_fetched(s->cx, n, t, 3, meta, path, fetch, user);
}

static void save(const anf_step *s, const char *path) {
  uint64_t sum = s->count;
  for (size_t i = 0; i < s->nleaf[ANF_STATE]; i++) {
    const anfi_step_leaf *l = &s->leaf[ANF_STATE][i];
    sum = sum_of(sum, l->name, l->at, l->bytes);
  }
  write_file(s, sum, path, NULL, NULL);
}

/* ---- of a sharded state: all ranks gather leaf by leaf, and rank 0 writes the file of one that is not sharded ---- */

typedef struct gathering {
  const anf_step *s;
  char *room; // for a leaf
  size_t next;
} gathering;

/* The leaves before i that nobody fetched are gathered, too: the other ranks do. */
static const void *gather(void *user, size_t i) {
  gathering *k = (gathering *)user;
  bool good = true;
  for (; good && k->next <= i; k->next++) {
    const anfi_step_leaf *l = &k->s->leaf[ANF_STATE][k->next];
    if (l->whole) good = anfi_step_whole(k->s, l, k->room);
  }
  return good ? k->room : NULL;
}

/* Twice the same: the sum of all is written before them. */
static bool gather_all(gathering *k, uint64_t *sum) {
  size_t n = k->s->nleaf[ANF_STATE];
  for (size_t i = k->next = 0; i < n; i++) {
    const anfi_step_leaf *l = &k->s->leaf[ANF_STATE][i];
    const void *p = gather(k, i);
    if (!p) return false;
    *sum = sum_of(*sum, l->name, l->whole ? p : l->at, saved_bytes(l));
  }
  k->next = 0;
  return true;
}

/* Does no rank say that it failed? */
static bool agree(const anf_step *s, bool good) {
  double bad = !good;
  anf_comm_call k = {.size = sizeof k,
                     .kind = ANF_COMM_ALL_REDUCE,
                     .dtype = ANF_F64,
                     .in = &bad,
                     .out = &bad,
                     .n = 1};
  bool answer = anf_comm_wait(s->o.comm, anf_comm_start(s->o.comm, &k), NULL);
  return answer && bad == 0;
}

static void save_sharded(const anf_step *s, const char *path) {
  gathering *k = ANFI_NEW(anfi_scratch(s->cx), gathering);
  uint64_t sum = s->count;
  size_t n = s->nleaf[ANF_STATE], most = 0;
  *k = (gathering){.s = s};
  for (size_t i = 0; i < n; i++) {
    const anfi_step_leaf *l = &s->leaf[ANF_STATE][i];
    if (l->whole && saved_bytes(l) > most) most = saved_bytes(l);
  }
  k->room = (char *)anfi_alloc(anfi_scratch(s->cx), most + 1);
  if (!gather_all(k, &sum)) return;
  bool good = s->rank || write_file(s, sum, path, gather, k);
  if (n && k->next < n) gather(k, n - 1);
  if (!agree(s, good) && !anfi_failed(s->cx)) anfi_fail(s->cx, anfi_nowhere(), ANF_E1228, path);
}

bool anfi_step_saves_together(const anf_step *s) {
  return s->o.comm && (s->o.shard || s->split) && s->ranks > 1;
}

anf_status anf_step_save(const anf_step *s, const char *path, anf_diag *d) {
  ANFI_NEED(d, s, path);
  ANFI_ENTRY(s->cx, d);
  if (!anfi_step_idle(s)) return anfi_leave(s->cx);
  bool parts = (!s->o.comm || !s->rank) && anfi_part_turn(path);
  if (anfi_step_saves_together(s)) save_sharded(s, path);
  else save(s, path);
  if (parts && !anfi_failed(s->cx)) anfi_step_remove_parts(s->cx, path);
  return anfi_leave(s->cx);
}

/* Random keys are saved as U64. */
static bool fits(const anf_step *s, const anfi_step_leaf *l, const anf_value *v, const char *path) {
  if (!v) return anfi_fail(s->cx, anfi_nowhere(), ANF_E1121, path, l->name);
  bool key = l->type->dtype == ANF_KEY && v->type->dtype == ANF_U64;
  const anf_type *t = key ? anfi_type_with_dtype(s->cx, v->type, ANF_KEY) : v->type;
  const anf_type *want = saved_type(l);
  return t == want || anfi_fail(s->cx, anfi_nowhere(), ANF_E1122, l->name, path,
                                anfi_type_text(s->cx, v->type), anfi_type_text(s->cx, want));
}

static const char *text_field(const anf_value *meta, const char *name) {
  const anf_value *v = anfi_record_item(meta, name);
  return v && v->kind == ANF_VALUE_STRING ? v->u.text : NULL;
}

/* The count of steps; a file that another program wrote may have none. */
static bool take_count(const anf_step *s, const anf_value *meta, const char *path, uint64_t *out) {
  const char *text = text_field(meta, "step");
  char *end = NULL;
  *out = s->count;
  if (!text) return true;
  errno = 0;
  *out = strtoull(text, &end, 10);
  bool good = *text >= '0' && *text <= '9' && !*end && errno == 0 && *out <= INT64_MAX;
  return good || anfi_fail(s->cx, anfi_nowhere(), ANF_E1123, path, text);
}

static bool sum_fits(const anf_step *s, const anf_value *v, const anf_value *meta, uint64_t count,
                     const char *path) {
  const char *text = text_field(meta, "sum");
  uint64_t sum = count;
  if (!text) return true;
  for (size_t i = 0; i < s->nleaf[ANF_STATE]; i++) {
    const anfi_step_leaf *l = &s->leaf[ANF_STATE][i];
    sum = sum_of(sum, l->name, anfi_record_item(v, l->name)->data, saved_bytes(l));
  }
  const char *mine = anfi_sprintf(anfi_scratch(s->cx), "%016llx", (unsigned long long)sum);
  return strcmp(mine, text) == 0 || anfi_fail(s->cx, anfi_nowhere(), ANF_E1124, path);
}

static void load(anf_step *s, const char *path) {
  anf_value *v = NULL, *meta = NULL;
  uint64_t count;
  if (!anfi_step_idle(s)) return;
  anf_status st = anf_load_safetensors(s->cx, path, NULL, &v, &meta);
  if (st != ANF_OK) {
    anfi_fail_as(s->cx, st);
    return;
  }
  anfi_defer(s->cx, ANFI_ALWAYS, anfi_release, v);
  anfi_defer(s->cx, ANFI_ALWAYS, anfi_release, meta);
  for (size_t i = 0; i < s->nleaf[ANF_STATE]; i++) // all, before anything changes
    if (!fits(s, &s->leaf[ANF_STATE][i], anfi_record_item(v, s->leaf[ANF_STATE][i].name), path))
      return;
  if (!take_count(s, meta, path, &count) || !sum_fits(s, v, meta, count, path)) return;
  for (size_t i = 0; i < s->nleaf[ANF_STATE]; i++) {
    const anfi_step_leaf *l = &s->leaf[ANF_STATE][i];
    anfi_step_take(s, l, anfi_record_item(v, l->name)->data);
  }
  s->count = count;
  s->torn = false;
}

anf_status anf_step_load(anf_step *s, const char *path, anf_diag *d) {
  ANFI_NEED(d, s, path);
  ANFI_ENTRY(s->cx, d);
  load(s, path);
  return anfi_leave(s->cx);
}
