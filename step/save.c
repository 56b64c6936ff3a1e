// SPDX-License-Identifier: Apache-2.0
/* Checkpoints: the leaves of the state as a safetensors file, with the number of steps done. A step that resumes from
 * one computes the same bits as without the interruption. */
#include "anfora/store.h"
#include "step/step.h"

#include <stdlib.h>

static void save(const anf_step *s, const char *path) {
  anfi_arena *a = anfi_scratch(s->cx);
  size_t n = s->nleaf[ANF_STATE];
  const char **name = ANFI_NEW_N(a, const char *, n + 1);
  anf_value **v = ANFI_NEW_N(a, anf_value *, n + 1);
  if (!anfi_step_idle(s)) return;
  for (size_t i = 0; i < n; i++) {
    const anfi_step_leaf *l = &s->leaf[ANF_STATE][i];
    name[i] = l->name;
    v[i] = anfi_step_value(s, l->type, l);
    anfi_defer(s->cx, ANFI_ALWAYS, anfi_release, v[i]);
  }
  anf_value *all = anf_value_record(s->cx, n, name, v);
  if (!all) anfi_throw_nomem(s->cx);
  anfi_defer(s->cx, ANFI_ALWAYS, anfi_release, all);
  const char *meta[] = {"format", "anfora", "step",
                        anfi_sprintf(a, "%llu", (unsigned long long)s->count)};
  anf_status st = anf_save_safetensors(s->cx, all, 2, meta, path, NULL);
  if (st != ANF_OK) anfi_fail_as(s->cx, st);
}

anf_status anf_step_save(const anf_step *s, const char *path, anf_diag *d) {
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

static void load(anf_step *s, const char *path) {
  anf_value *v = NULL, *meta = NULL;
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
  for (size_t i = 0; i < s->nleaf[ANF_STATE]; i++) {
    const anfi_step_leaf *l = &s->leaf[ANF_STATE][i];
    memcpy(l->at, field(v, l->name)->u.data, l->bytes);
    anfi_step_scatter(l);
  }
  const anf_value *count = field(meta, "step");
  if (count && count->kind == ANF_VALUE_STRING) s->count = strtoull(count->u.text, NULL, 10);
}

anf_status anf_step_load(anf_step *s, const char *path, anf_diag *d) {
  ANFI_ENTRY(s->cx, d);
  load(s, path);
  return anfi_leave(s->cx);
}
