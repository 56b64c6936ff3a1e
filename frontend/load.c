// SPDX-License-Identifier: Apache-2.0
/* Loading a program: format.def maps the ending of a path, or the first bytes of the file, to a reader.
 *
 *     net.anf  ->  anfi_read_anf      model.param  ->  anfi_read_param      copy.txt with "anfora-dat 1" -> dat */
#include "frontend/load.h"

#include "anfora/text.h"

static const anfi_format formats[] = {
#define ANFI_FORMAT(name, ...) {.read = anfi_read_##name, __VA_ARGS__},
#include "frontend/format.def"
#undef ANFI_FORMAT
};

typedef anf_module *reader(anf_ctx *cx, const anfi_input *f);

enum { LEAST_MAPPED = 1 << 20 }; // bytes

static bool ends_with(const char *s, const char *end) {
  size_t n = strlen(s), k = strlen(end);
  return n >= k && strcmp(s + n - k, end) == 0;
}

const anfi_format *anfi_format_by_ending(const char *path) {
  for (size_t i = 0; i < ANFI_LEN(formats); i++)
    if (ends_with(path, formats[i].ending)) return &formats[i];
  return NULL;
}

static const anfi_format *by_magic(const char *head, size_t n) {
  for (size_t i = 0; i < ANFI_LEN(formats); i++) {
    const char *magic = formats[i].magic;
    if (magic && n >= strlen(magic) && memcmp(head, magic, strlen(magic)) == 0) return &formats[i];
  }
  return NULL;
}

const anfi_format *anfi_format_of(const char *path) {
  char head[64];
  const anfi_format *by_ending = anfi_format_by_ending(path);
  return by_ending ? by_ending : by_magic(head, anfi_os_head(path, head, sizeof head));
}

const anfi_format *anfi_format_of_input(const char *text, size_t len) {
  const anfi_format *f = by_magic(text, len);
  return f ? f : anfi_format_by_ending(".anf");
}

const anfi_format *anfi_format_at(size_t i) { return i < ANFI_LEN(formats) ? &formats[i] : NULL; }

static anf_module *fail_format(anf_ctx *cx, const char *path) {
  anf_text *o = anfi_text_begin(cx);
  for (size_t i = 0; i < ANFI_LEN(formats); i++)
    anfi_putf(o, "%s%s (%s)", i ? ", " : "", formats[i].ending, formats[i].doc);
  anfi_fail(cx, anfi_nowhere(), ANF_E0142, path);
  if (o->text) anfi_hint(cx, "the ending selects the format: %s", o->text);
  anfi_text_done(o);
  return NULL;
}

/* Gives nothing only with an error recorded. */
static anf_module *read_with(anf_ctx *cx, reader *read, const anfi_input *f) {
  anf_module *m = read(cx, f);
  if (!m && !anfi_failed(cx))
    anfi_fail(cx, (anfi_loc){f->path, 0, 0}, ANF_E0001, "a reader gave up without a finding");
  return m;
}

anf_module *anfi_load_file(anf_ctx *cx, const char *path, bool weights) {
  anfi_input f = {.path = path, .weights = weights};
  char *text;
  bool input = strcmp(path, "-") == 0;
  const anfi_format *format = input ? NULL : anfi_format_of(path);
  if (!format && !input) return fail_format(cx, path);
  anfi_os_view view;
  if (!input && format->mapped && anfi_os_view_file(cx, path, LEAST_MAPPED, &view)) {
    f.text = view.data;
    f.len = view.len;
    f.view = &view;
    return read_with(cx, format->read, &f);
  }
  if (!anfi_os_read(cx, anfi_scratch(cx), path, &text, &f.len)) return NULL;
  f.text = text;
  return input ? anfi_load_input(cx, &f) : read_with(cx, format->read, &f);
}

anf_module *anfi_load_input(anf_ctx *cx, const anfi_input *f) {
  return read_with(cx, anfi_format_of_input(f->text, f->len)->read, f);
}

/* Bytes of a known format; what follows them need not be 0. */
static anf_status read_bytes(anf_ctx *cx, const char *data, size_t len, const char *file,
                             anf_diag *d, anf_module **out, reader *read) {
  ANFI_NEED(d, cx, data, out);
  *out = NULL;
  anfi_input f = {.path = file ? file : "", .text = data, .len = len};
  ANFI_ENTRY(cx, d);
  *out = read_with(cx, read, &f);
  anf_status st = anfi_leave(cx);
  if (st != ANF_OK) *out = NULL;
  return st;
}

#define READER(name)                                                                               \
  anf_status anf_read_##name(anf_ctx *cx, const char *data, size_t len, const char *file,          \
                             anf_diag *d, anf_module **out) {                                      \
    return read_bytes(cx, data, len, file, d, out, anfi_read_##name);                              \
  }
READER(dat)
READER(mindir)
READER(onnx)
READER(stablehlo)

anf_status anf_load(anf_ctx *cx, const char *path, anf_diag *d, anf_module **out) {
  ANFI_NEED(d, cx, path, out);
  *out = NULL;
  ANFI_ENTRY(cx, d);
  *out = anfi_load_file(cx, path, false);
  anf_status st = anfi_leave(cx);
  if (st != ANF_OK) *out = NULL;
  return st;
}
