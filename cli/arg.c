// SPDX-License-Identifier: Apache-2.0
/* Arguments of a function from words of the command line: by position, or name=value.
 *   anfora run f.anf 2 y=[1,2]   ->   x = 2, y = a tensor of two          @x.npy, @all.npz:x   ->   an array of a file */
#include "cli/cli.h"
#include "ir/ir.h"

#include <stdlib.h>

static const char *array_name(void *user, size_t i) {
  const anf_type *t = (const anf_type *)user;
  return i < anf_type_count(t) ? anf_type_field(t, i) : NULL;
}

/* Array `name` of an archive; NULL: a record of all. */
static anf_status load_archive(cli *c, const char *path, const char *name, anf_value **out) {
  anf_value *all = NULL;
  anf_status st = anf_load_npz(c->cx, path, c->d, &all);
  if (st != ANF_OK) return st;
  anfi_defer(c->cx, ANFI_ALWAYS, anfi_release, all);
  anf_value *v = name ? anf_value_field(all, name) : all;
  if (v) return *out = anf_value_retain(v), ANF_OK;
  anf_text t = {.cx = c->cx};
  for (size_t i = 0; i < all->n && i < 20; i++)
    anfi_putf(&t, "%s%s", i ? ", " : "", array_name((void *)(uintptr_t)all->type, i));
  anfi_fail(c->cx, anfi_nowhere(), ANF_E1350, name, path);
  if (!anfi_suggest(c->cx, name, array_name, (void *)(uintptr_t)all->type))
    anfi_hint(c->cx, "it has %s", t.text ? t.text : "none");
  anf_text_free(&t);
  return ANF_INVALID;
}

/* @x.npy, @all.npz, @all.npz:x */
static anf_status load_array(cli *c, const char *path, anf_value **out) {
  const char *end = strstr(path, ".npz:");
  size_t n = strlen(path);
  if (end)
    return load_archive(c, anfi_strndup(anfi_scratch(c->cx), path, (size_t)(end - path) + 4),
                        end + 5, out);
  bool archive = n > 4 && strcmp(path + n - 4, ".npz") == 0;
  return archive ? load_archive(c, path, NULL, out) : anf_load_npy(c->cx, path, c->d, out);
}

anf_status cli_value(cli *c, const char *word, anf_value **out) {
  anf_status st =
      word[0] == '@' ? load_array(c, word + 1, out) : anf_parse_value(c->cx, word, c->d, out);
  if (st == ANF_OK) anfi_defer(c->cx, ANFI_ALWAYS, anfi_release, *out);
  return st;
}

/* The length of the name in name=value, or 0. */
static size_t name_length(const char *word) {
  size_t n = strcspn(word, "=\"'`([{@ ");
  bool starts = (word[0] >= 'a' && word[0] <= 'z') || (word[0] >= 'A' && word[0] <= 'Z') ||
                word[0] == '_' || (unsigned char)word[0] >= 0x80;
  return starts && word[n] == '=' ? n : 0;
}

static const char *param_name(void *user, size_t i) {
  const anf_graph *g = (const anf_graph *)user;
  return i < anf_graph_param_count(g) ? anf_node_name(anf_graph_param(g, i)) : NULL;
}

static bool find_param(cli *c, anf_graph *g, const char *name, size_t *at) {
  for (size_t i = 0; i < anf_graph_param_count(g); i++)
    if (strcmp(param_name(g, i), name) == 0) return *at = i, true;
  anfi_fail(c->cx, anfi_nowhere(), ANF_E0013, anf_graph_name(g), name);
  anfi_suggest(c->cx, name, param_name, g);
  return false;
}

bool cli_parameter(cli *c, anf_graph *g, const char *word, size_t *at) {
  size_t digits = strspn(word, "0123456789"), n = anf_graph_param_count(g);
  if (!digits || word[digits]) return find_param(c, g, word, at);
  uint64_t i = digits < 10 ? strtoull(word, NULL, 10) : UINT64_MAX;
  if (i >= n) return find_param(c, g, word, at); // which says so
  *at = (size_t)i;
  return true;
}

static anf_status wrong_count(cli *c, anf_graph *g, size_t given) {
  anf_text t = {.cx = c->cx};
  anfi_puts(&t, "");
  size_t n = anf_graph_param_count(g);
  for (size_t i = 0; i < n && i < 20; i++) anfi_putf(&t, "%s%s", i ? ", " : "", param_name(g, i));
  anfi_fail(c->cx, anfi_nowhere(), ANF_E0012, anf_graph_name(g), t.text, given,
            given == 1 ? "" : "s");
  anf_text_free(&t);
  return ANF_INVALID;
}

/* The numbers of a list that was typed are as untyped as a single one: they take the parameter's
 * type. */
static void settle(const cli *c, const anf_type *t, anf_value **v) {
  bool list = t && anf_type_get_kind(t) == ANF_TYPE_TENSOR && anf_value_rank(*v);
  if (!list || !anfi_dtype_is_float(anf_type_dtype(t)) || anf_value_dtype(*v) != ANF_F64) return;
  *v = anfi_value_cast(*v, anf_type_dtype(t));
  anfi_defer(c->cx, ANFI_ALWAYS, anfi_release, *v);
}

static anf_status set(cli *c, anf_graph *g, anf_value **values, size_t at, const char *text) {
  if (!values[at]) {
    anf_status st = cli_value(c, text, &values[at]);
    if (st == ANF_OK && text[0] != '@')
      settle(c, anf_node_type(anf_graph_param(g, at)), &values[at]);
    return st;
  }
  anfi_fail(c->cx, anfi_nowhere(), ANF_E0014, param_name(g, at));
  return ANF_INVALID;
}

anf_status cli_arguments(cli *c, anf_graph *g, const char *const *word, size_t n,
                         anf_value ***out) {
  anfi_arena *a = anfi_scratch(c->cx);
  size_t want = anf_graph_param_count(g), next = 0;
  anf_value **values = ANFI_NEW_N(a, anf_value *, want + 1);
  if (n != want) return wrong_count(c, g, n);
  anf_status st = ANF_OK;
  for (size_t i = 0; i < n && st == ANF_OK; i++) {
    size_t k = name_length(word[i]), at = 0;
    if (!k) continue;
    if (!find_param(c, g, anfi_strndup(a, word[i], k), &at)) return ANF_INVALID;
    st = set(c, g, values, at, word[i] + k + 1);
  }
  for (size_t i = 0; i < n && st == ANF_OK; i++) {
    if (name_length(word[i])) continue;
    while (values[next])
      next++; // those given by name are not given again; there are as many as words
    st = set(c, g, values, next, word[i]);
  }
  *out = values;
  return st;
}
