// SPDX-License-Identifier: Apache-2.0
/* Paths of leaves.
 *   {params: (w, b)}     params.0 and params.1
 * The depth of types is bounded, so walks recurse. */
#include "step/step.h"

static const char *below(anf_step *s, const anf_type *t, const char *path, uint32_t i) {
  const char *dot = *path ? "." : "";
  if (t->kind == ANF_TYPE_RECORD)
    return anfi_sprintf(&s->arena, "%s%s%s", path, dot, t->names[i]->s);
  return anfi_sprintf(&s->arena, "%s%s%u", path, dot, i);
}

static anfi_step_leaf *name(anf_step *s, const anf_type *t, const char *path, anfi_step_leaf *at) {
  if (t->kind == ANF_TYPE_TENSOR) {
    at->name = *path ? path : "out";
    return at + 1;
  }
  bool nest = t->kind == ANF_TYPE_TUPLE || t->kind == ANF_TYPE_RECORD;
  for (uint32_t i = 0; nest && i < t->n; i++) at = name(s, t->items[i], below(s, t, path, i), at);
  return at;
}

anfi_step_leaf *anfi_step_name(anf_step *s, const anf_type *t, const char *path,
                               anfi_step_leaf *at) {
  return name(s, t, path, at);
}

const char *anfi_step_param_path(anf_step *s, size_t i) {
  const char *name = anf_node_name(s->g->params.at[i]);
  return *name ? anfi_strndup(&s->arena, name, strlen(name)) : anfi_sprintf(&s->arena, "%zu", i);
}

const char **anfi_step_state_names(anf_step *s) {
  anfi_arena *a = anfi_scratch(s->cx);
  size_t n = anfi_state_count(s->nstate, s->param);
  anfi_step_leaf *leaf = ANFI_NEW_N(a, anfi_step_leaf, n + 1), *at = leaf;
  const char **name = ANFI_NEW_N(a, const char *, n + 1);
  for (size_t i = 0; i < s->nstate; i++)
    at = anfi_step_name(s, s->param[i], anfi_step_param_path(s, i), at);
  for (size_t i = 0; i < n; i++) name[i] = leaf[i].name;
  return name;
}

size_t anf_step_leaf_count(const anf_step *s, anf_role r) {
  return s && (unsigned)r <= ANF_OUTPUT ? s->nleaf[r] : 0;
}

const char *anf_step_leaf_name(const anf_step *s, anf_role r, size_t i) {
  return i < anf_step_leaf_count(s, r) ? s->leaf[r][i].name : NULL;
}

/* What a name of a leaf may have meant. */
typedef struct leaves {
  const anf_step *s;
  anf_role r;
} leaves;

static const char *leaf_name(void *user, size_t i) {
  const leaves *of = (const leaves *)user;
  return anf_step_leaf_name(of->s, of->r, i);
}

size_t anf_step_leaf_find(const anf_step *s, anf_role r, const char *path) {
  ANFI_NEED_ELSE(s ? s->cx : NULL, 0, s, path);
  size_t i = 0, n = anf_step_leaf_count(s, r);
  while (i < n && strcmp(s->leaf[r][i].name, path) != 0) i++;
  if (i == n && n) anfi_missed(s->cx, anfi_step_role_name(r), path, leaf_name, &(leaves){s, r});
  return i;
}

const char *anfi_step_role_name(anf_role r) {
  static const char *const names[] = {"state", "input", "output"};
  return names[r];
}
