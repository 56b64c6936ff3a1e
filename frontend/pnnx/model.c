// SPDX-License-Identifier: Apache-2.0
/* Models of PNNX: loads both files, writes them again, answers a host, makes a module of a model.
 *   anf_pnnx_load(cx, "net.param", NULL, ..)   ->   the operators of net.param, with the weights of net.bin
 * INVARIANT: a model that was loaded has all its weights, of the shapes that the file states. */
#include "frontend/pnnx/pnnx.h"
#include "frontend/load.h"
#include "ir/value/mapped.h"

enum { LEAST_MAPPED = 1 << 20 }; // bytes

void anf_pnnx_free(anf_pnnx *p) {
  if (!p) return;
  anf_ctx *cx = p->cx;
  anfi_pnnx_run_free(p);
  for (size_t i = 0; i < p->weights.n; i++) anf_value_release(p->weights.at[i]->value);
  if (p->text) anfi_source_remove_text(cx, p->text);
  anfi_arena_free(&p->arena);
  anfi_object_free(cx, p);
}

/* ---- loading ---- */

static void free_model(void *p) { anf_pnnx_free((anf_pnnx *)p); }

static anf_pnnx *new_model(anf_ctx *cx, const char *file, const anf_pnnx_registry *registry) {
  anf_pnnx *p = (anf_pnnx *)anfi_object(cx, sizeof *p);
  if (!p) anfi_throw_nomem(cx);
  p->cx = cx;
  p->registry = registry;
  anfi_arena_init(&p->arena, cx);
  anfi_defer(cx, ANFI_ON_FAIL, free_model, p);
  anfi_strtab_init(&p->strings, &p->arena);
  anfi_map_init(&p->by_name, &p->arena);
  p->file = anfi_intern_z(&cx->strings, file)->s;
  return p;
}

static const char *bin_name(anfi_arena *a, const char *param) {
  size_t n = strlen(param), cut = n > 6 && strcmp(param + n - 6, ".param") == 0 ? n - 6 : n;
  return anfi_sprintf(a, "%.*s.bin", (int)cut, param);
}

/* Weights in the order of the file, when no operator gets any more. */
static void list_weights(anf_pnnx *p) {
  for (size_t i = 0; i < p->ops.n; i++)
    for (size_t k = 0; k < p->ops.at[i]->weights.n; k++)
      anfi_push(&p->arena, &p->weights, &p->ops.at[i]->weights.at[k]);
}

const char *anfi_weight_name(anfi_arena *a, const anfi_weight *w) {
  return anfi_sprintf(a, "%s.%s", w->op->name, w->key);
}

/* Is the entry's data in the mapped file itself, not decompressed? */
static bool in_file(const anfi_os_view *v, const anfi_zip_entry *e) {
  uintptr_t from = v ? (uintptr_t)v->data : 0, at = (uintptr_t)e->data;
  return v && at >= from && at - from < v->len;
}

static bool set_weight(anf_pnnx *p, anfi_weight *w, const char *name, const anfi_zip_entry *e,
                       const anfi_os_view *view) {
  size_t n = 0;
  bool fits = anfi_type_elements(w->type, &n) &&
              !__builtin_mul_overflow(n, anf_dtype_bytes((anf_dtype)w->type->dtype), &n);
  if (!fits || n != e->size)
    return anfi_fail(p->cx, anfi_pnnx_at(w->op, w->col), ANF_E1041, name, e->size,
                     fits ? n : SIZE_MAX);
  if (in_file(view, e) &&
      (w->value = anfi_value_map(p->cx, w->type, view, (uint64_t)(e->data - view->data))))
    return true;
  w->value = anfi_value_new_tensor(p->cx, w->type);
  if (n) memcpy(w->value->data, e->data, n);
  for (size_t i = 0; w->type->dtype == ANF_BOOL && i < n; i++)
    w->value->data[i] = w->value->data[i] != 0;
  return true;
}

/* `view`: the file that the data are of, if it is mapped; NULL. */
static bool set_weights(anf_pnnx *p, const char *file, const char *data, size_t len,
                        const anfi_os_view *view) {
  anfi_arena *a = anfi_scratch(p->cx);
  anfi_zip z = {.entries = {0}};
  anfi_strtab names;
  anfi_map at;
  if (!p->weights.n && !data) return true;
  if (!anfi_zip_read(p->cx, a, file, data ? data : "", len, &z)) return false;
  anfi_strtab_init(&names, a);
  anfi_map_init(&at, a);
  for (size_t i = 0; i < z.entries.n; i++) {
    uint64_t *slot =
        anfi_map_at(&at, anfi_intern(&names, z.entries.at[i].name, z.entries.at[i].name_len)->id);
    if (*slot)
      return anfi_fail(p->cx, anfi_nowhere(), ANF_E1045,
                       anfi_strndup(a, z.entries.at[i].name, z.entries.at[i].name_len), file);
    *slot = i + 1;
  }
  for (size_t i = 0; i < p->weights.n; i++) {
    anfi_weight *w = p->weights.at[i];
    const char *name = anfi_weight_name(a, w);
    const anfi_str *s = anfi_interned(&names, name, strlen(name));
    uint64_t *slot = s ? anfi_map_find(&at, s->id) : NULL;
    if (!slot) return anfi_fail(p->cx, anfi_pnnx_at(w->op, w->col), ANF_E1042, name, file);
    if (!set_weight(p, w, name, &z.entries.at[*slot - 1], view)) return false;
  }
  return true;
}

static anf_pnnx *read_model(anf_ctx *cx, const char *text, size_t len, const char *file,
                            const char *bin_file, const void *bin, size_t bin_len,
                            const anfi_os_view *view, const anf_pnnx_registry *registry) {
  anf_pnnx *p = new_model(cx, file, registry);
  char *own = anfi_strndup(&p->arena, text, len);
  anfi_source_add(cx, file, own, len);
  p->text = own;
  if (!anfi_param_read(p, own, len)) return NULL;
  list_weights(p);
  if (!set_weights(p, bin_file, (const char *)bin, bin_len, view)) return NULL;
  anfi_pnnx_run_new(p);
  return p;
}

anf_status anf_pnnx_read(anf_ctx *cx, const char *text, size_t len, const char *file,
                         const void *bin, size_t bin_len, const anf_pnnx_registry *r, anf_diag *d,
                         anf_pnnx **out) {
  ANFI_NEED(d, cx, text, out);
  *out = NULL;
  ANFI_ENTRY(cx, d);
  const char *name = file ? file : "";
  *out = read_model(cx, text, len, name, bin_name(anfi_scratch(cx), name), bin, bin_len, NULL, r);
  anf_status st = anfi_leave(cx);
  if (st != ANF_OK) *out = NULL;
  return st;
}

static bool tells_weights(const char *text, size_t len) {
  for (size_t i = 0; i + 1 < len; i++)
    if (text[i] == ' ' && text[i + 1] == '@') return true;
  return false;
}

/* A model without weights needs no .bin file. */
static anf_pnnx *load_text(anf_ctx *cx, const char *text, size_t len, const char *param,
                           const char *bin, const anf_pnnx_registry *registry) {
  anfi_arena *a = anfi_scratch(cx);
  char *data = NULL;
  size_t bin_len = 0;
  const char *file = bin ? bin : bin_name(a, param);
  anfi_os_view view;
  if (!bin && !tells_weights(text, len))
    return read_model(cx, text, len, param, file, NULL, 0, NULL, registry);
  if (anfi_os_view_file(cx, file, LEAST_MAPPED, &view))
    return read_model(cx, text, len, param, file, view.data, view.len, &view, registry);
  if (!anfi_os_read(cx, a, file, &data, &bin_len)) return NULL;
  return read_model(cx, text, len, param, file, data, bin_len, NULL, registry);
}

static anf_pnnx *load(anf_ctx *cx, const char *param, const char *bin,
                      const anf_pnnx_registry *registry) {
  char *text;
  size_t len;
  if (!anfi_os_read(cx, anfi_scratch(cx), param, &text, &len)) return NULL;
  return load_text(cx, text, len, param, bin, registry);
}

anf_status anf_pnnx_load(anf_ctx *cx, const char *param, const char *bin,
                         const anf_pnnx_registry *r, anf_diag *d, anf_pnnx **out) {
  ANFI_NEED(d, cx, param, out);
  *out = NULL;
  ANFI_ENTRY(cx, d);
  *out = load(cx, param, bin, r);
  anf_status st = anfi_leave(cx);
  if (st != ANF_OK) *out = NULL;
  return st;
}

size_t anf_pnnx_op_count(const anf_pnnx *p) { return p ? p->ops.n : 0; }
const anf_pnnx_op *anf_pnnx_op_at(const anf_pnnx *p, size_t i) {
  if (!p) return NULL;
  return i < p->ops.n ? p->ops.at[i] : NULL;
}

/* ---- writing ---- */

static void write_bin(const anf_pnnx *p, anf_text *o) {
  anfi_arena *a = anfi_scratch(p->cx);
  anfi_zip z = {.entries = {0}};
  for (size_t i = 0; i < p->weights.n; i++) {
    const anfi_weight *w = p->weights.at[i];
    const char *name = anfi_weight_name(a, w);
    anfi_zip_entry e = {name, strlen(name),
                        w->value->n * anf_dtype_bytes((anf_dtype)w->type->dtype),
                        (const char *)w->value->data};
    anfi_push(a, &z.entries, e);
  }
  anfi_zip_write(o, &z);
}

anf_status anf_pnnx_write(const anf_pnnx *p, anf_text *param, anf_text *bin) {
  ANFI_NEED_ELSE(param ? param->cx : p ? p->cx : NULL, ANF_INVALID, p, param, bin);
  anfi_text_of(param, p->cx);
  anfi_text_of(bin, p->cx);
  ANFI_ENTRY(p->cx, NULL);
  anfi_param_write(param, p);
  write_bin(p, bin);
  return anfi_leave(p->cx);
}

static void save(const anf_pnnx *p, const char *param, const char *bin) {
  anf_text *t = ANFI_NEW_N(anfi_scratch(p->cx), anf_text, 2);
  t[0].cx = t[1].cx = p->cx;
  anfi_defer(p->cx, ANFI_ALWAYS, anfi_free_text, &t[0]);
  anfi_defer(p->cx, ANFI_ALWAYS, anfi_free_text, &t[1]);
  anfi_param_write(&t[0], p);
  write_bin(p, &t[1]);
  if (anfi_os_write(p->cx, param, t[0].text, t[0].len))
    anfi_os_write(p->cx, bin ? bin : bin_name(anfi_scratch(p->cx), param), t[1].text, t[1].len);
}

anf_status anf_pnnx_save(const anf_pnnx *p, const char *param, const char *bin, anf_diag *d) {
  ANFI_NEED(d, p, param);
  ANFI_ENTRY(p->cx, d);
  save(p, param, bin);
  return anfi_leave(p->cx);
}

/* ---- as a module ---- */

size_t anf_pnnx_input_count(const anf_pnnx *p) { return p ? p->input.n : 0; }
const char *anf_pnnx_input_name(const anf_pnnx *p, size_t i) {
  if (!p) return NULL;
  return i < p->input.n ? anfi_pnnx_input_op(p, i)->name : NULL;
}

const anf_type *anf_pnnx_input_type(const anf_pnnx *p, size_t i) {
  if (!p) return NULL;
  return i < p->input.n && anfi_pnnx_input_op(p, i)->nout
             ? p->operands.at[anfi_pnnx_input_op(p, i)->out[0]].type
             : NULL;
}

size_t anf_pnnx_weight_count(const anf_pnnx *p) { return p ? p->weights.n : 0; }
anf_value *anf_pnnx_weight(const anf_pnnx *p, size_t i) {
  if (!p) return NULL;
  return i < p->weights.n ? p->weights.at[i]->value : NULL;
}

static const char *weight_name(const anf_pnnx *p, size_t i) {
  const char *name = anfi_weight_name(anfi_scratch(p->cx), p->weights.at[i]);
  return anfi_intern_z(&p->cx->strings, name)->s;
}

const char *anf_pnnx_weight_name(const anf_pnnx *p, size_t i) {
  if (!p) return NULL;
  if (i >= p->weights.n) return NULL;
  ANFI_ENTRY_ELSE(p->cx, NULL, NULL);
  const char *name = weight_name(p, i);
  return anfi_leave(p->cx) == ANF_OK ? name : NULL;
}

static anf_module *to_module(const anf_pnnx *p, bool weights) {
  anf_module *m = anfi_module_new(p->cx);
  const anf_type **types = ANFI_NEW_N(anfi_scratch(p->cx), const anf_type *, p->input.n + 1);
  for (size_t i = 0; i < p->input.n; i++) types[i] = anf_pnnx_input_type(p, i);
  anfi_pnnx_function(p, m, types, weights, NULL, NULL);
  return m;
}

anf_status anf_pnnx_module(const anf_pnnx *p, const anf_pnnx_module_opts *o, anf_diag *d,
                           anf_module **out) {
  ANFI_NEED(d, p, out);
  *out = NULL;
  anf_pnnx_module_opts opts;
  if (!ANFI_OPTS(p->cx, d, anf_pnnx_module_opts, weights, o, &opts)) return ANF_INVALID;
  ANFI_ENTRY(p->cx, d);
  *out = to_module(p, opts.weights);
  anf_status st = anfi_leave(p->cx);
  if (st != ANF_OK) *out = NULL;
  return st;
}

/* The module takes over the text, so that later errors can show its lines. */
anf_module *anfi_read_param(anf_ctx *cx, const anfi_input *f) {
  anf_pnnx *p = load_text(cx, f->text, f->len, f->path, NULL, NULL);
  if (!p || anfi_failed(cx)) return NULL;
  anf_module *m = to_module(p, f->weights);
  if (anfi_failed(cx)) return NULL;
  m->source = anfi_strndup(&m->arena, f->text, f->len);
  anfi_source_add(cx, f->path, m->source, f->len);
  anfi_undefer(cx, p);
  anf_pnnx_free(p);
  return m;
}
