// SPDX-License-Identifier: Apache-2.0
/* Checkpoints: the leaves of the state as a safetensors file, with the number of steps done. A step that resumes from
 * one computes the same bits as without the interruption. */
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

static void save(const anf_step *s, const char *path) {
  anfi_arena *a = anfi_scratch(s->cx);
  size_t n = s->nleaf[ANF_STATE];
  anfi_stored *t = ANFI_NEW_N(a, anfi_stored, n + 1);
  uint64_t sum = s->count;
  if (!anfi_step_idle(s)) return;
  for (size_t i = 0; i < n; i++) {
    const anfi_step_leaf *l = &s->leaf[ANF_STATE][i];
    t[i] = (anfi_stored){l->name, l->type, l->at};
    sum = sum_of(sum, l->name, l->at, l->bytes);
  }
  const char *meta[] = {"format", "anfora",
                        "step",   anfi_sprintf(a, "%llu", (unsigned long long)s->count),
                        "sum",    anfi_sprintf(a, "%016llx", (unsigned long long)sum)};
  anfi_save_tensors(s->cx, n, t, 3, meta, path);
}

anf_status anf_step_save(const anf_step *s, const char *path, anf_diag *d) {
  ANFI_NEED(d, s, path);
  ANFI_ENTRY(s->cx, d);
  save(s, path);
  return anfi_leave(s->cx);
}

static const anf_value *field(const anf_value *record, const char *name) {
  for (size_t i = 0; i < record->n; i++)
    if (strcmp(record->type->names[i]->s, name) == 0) return record->u.item[i];
  return NULL;
}

static const char *type_text(anf_ctx *cx, const anf_type *t) {
  anf_text o = {.cx = cx};
  anfi_put_type(&o, cx, t);
  const char *r = anfi_strndup(anfi_scratch(cx), o.text, o.len);
  anf_text_free(&o);
  return r;
}

/* Random keys are saved as U64. */
static bool fits(const anf_step *s, const anfi_step_leaf *l, const anf_value *v, const char *path) {
  if (!v) return anfi_fail(s->cx, anfi_nowhere(), ANF_E1121, path, l->name);
  bool key = l->type->dtype == ANF_KEY && v->type->dtype == ANF_U64;
  const anf_type *t = key ? anfi_type_with_dtype(s->cx, v->type, ANF_KEY) : v->type;
  return t == l->type || anfi_fail(s->cx, anfi_nowhere(), ANF_E1122, l->name, path,
                                   type_text(s->cx, v->type), type_text(s->cx, l->type));
}

static const char *text_field(const anf_value *meta, const char *name) {
  const anf_value *v = field(meta, name);
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
    sum = sum_of(sum, l->name, field(v, l->name)->u.data, l->bytes);
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
    if (!fits(s, &s->leaf[ANF_STATE][i], field(v, s->leaf[ANF_STATE][i].name), path)) return;
  if (!take_count(s, meta, path, &count) || !sum_fits(s, v, meta, count, path)) return;
  for (size_t i = 0; i < s->nleaf[ANF_STATE]; i++) {
    const anfi_step_leaf *l = &s->leaf[ANF_STATE][i];
    memcpy(l->at, field(v, l->name)->u.data, l->bytes);
    anfi_step_scatter(l);
  }
  s->count = count;
}

anf_status anf_step_load(anf_step *s, const char *path, anf_diag *d) {
  ANFI_NEED(d, s, path);
  ANFI_ENTRY(s->cx, d);
  load(s, path);
  return anfi_leave(s->cx);
}
