// SPDX-License-Identifier: Apache-2.0
/* The public entries: programs, files, single values and types from text.
 *   anf_parse_value(cx, "[1, 2]", d, &v)   ->   a tensor of two       anf_parse_type(cx, "f32[2]", d, &t)   ->   a type */
#include "anfora/text.h"
#include "frontend/anf/anf.h"
#include "frontend/load.h"

enum { LONGEST_LINE = 1 << 26 }; // bytes

/* Sizes that the lexer counts on, and a limit to what one line of a message could be. */
bool anfi_anf_check_length(anf_ctx *cx, const char *file, const char *text, size_t len) {
  const char *name = anfi_intern_z(&cx->strings, file)->s, *p = text;
  if (len >= (size_t)1 << 31) return anfi_fail(cx, (anfi_loc){name, 0, 0}, ANF_E0141, len);
  for (uint32_t line = 1; (size_t)(text + len - p) > LONGEST_LINE; line++) {
    const char *end = (const char *)memchr(p, '\n', LONGEST_LINE + 1);
    if (!end) return anfi_fail(cx, (anfi_loc){name, line, 1}, ANF_E0144, (unsigned)LONGEST_LINE);
    p = end + 1;
  }
  return true;
}

static parser *new_parser(anf_ctx *cx, const char *file, const char *text, size_t len) {
  anfi_arena *a = anfi_scratch(cx);
  parser *p = ANFI_NEW(a, parser);
  anfi_parse_init(p, cx, a, file, text, (uint32_t)len);
  return p;
}

/* The text stays with the module, so that later errors can show its lines. */
static const char *keep_source(anf_module *m, const char *file, const char *text, size_t len) {
  char *own = anfi_strndup(&m->arena, text, len);
  m->source = own;
  anfi_source_add(m->cx, file, own, len);
  return own;
}

static anf_module *parse(anf_ctx *cx, const char *text, size_t len, const char *file, bool files) {
  if (!anfi_anf_check_length(cx, file, text, len)) return NULL;
  anf_module *m = anfi_module_new(cx);
  parser *p = new_parser(cx, file, keep_source(m, file, text, len), len);
  p->files = files;
  anfi_parse_module(p);
  anfi_anf_read_imports(p, m);
  if (anfi_failed(cx)) return m;
  lower *lw = ANFI_NEW(p->a, lower);
  anfi_anf_module(lw, p, m);
  bool exact = p->has_effects && anfi_anf_is_ir(p); // as it was printed
  if (!anfi_failed(cx) && !exact) anfi_find_effects(m, p->a);
  return m;
}

anf_status anf_parse_n(anf_ctx *cx, const char *text, size_t len, const char *file, anf_diag *d,
                       anf_module **out) {
  ANFI_NEED(d, cx, text, out);
  *out = NULL;
  ANFI_ENTRY(cx, d);
  *out = parse(cx, text, len, file ? file : "", false);
  anf_status st = anfi_leave(cx);
  if (st != ANF_OK) *out = NULL;
  return st;
}

anf_status anf_parse(anf_ctx *cx, const char *text, const char *file, anf_diag *d,
                     anf_module **out) {
  ANFI_NEED(d, cx, text, out);
  return anf_parse_n(cx, text, strlen(text), file, d, out);
}

anf_module *anfi_read_anf(anf_ctx *cx, const anfi_input *f) {
  bool input = strcmp(f->path, "-") == 0;
  return parse(cx, f->text, f->len, input ? "<stdin>" : f->path, !input);
}

/* ---- values and types by themselves ---- */

static const char given[] = "<text>";

static void forget_source(void *cx) { anfi_source_remove((anf_ctx *)cx, given); }

static parser *parser_of(anf_ctx *cx, const char *text) {
  size_t len = strlen(text);
  if (!anfi_anf_check_length(cx, given, text, len)) return NULL;
  anfi_source_add(cx, given, text, len);
  anfi_defer(cx, ANFI_ALWAYS, forget_source, cx);
  return new_parser(cx, given, text, len);
}

/* A module for the time of one entry. When the frame fails it is freed with it. */
typedef struct {
  anf_ctx *cx;
  anf_module *m;
} lent;

static void give_back(void *l) {
  lent *at = (lent *)l;
  if (!anfi_failed(at->cx)) anf_module_free(at->m);
}

static anf_module *lend_module(anf_ctx *cx, anfi_arena *a) {
  lent *l = ANFI_NEW(a, lent);
  l->cx = cx;
  anfi_defer(cx, ANFI_ALWAYS, give_back, l);
  return l->m = anfi_module_new(cx);
}

/* Lowered in a function of a module of its own: the result must be a constant. */
static anf_value *parse_value(anf_ctx *cx, const char *text) {
  parser *p = parser_of(cx, text);
  if (!p) return NULL;
  p->inside = 1; // lines mean nothing
  ast *e = anfi_parse_expr(p);
  if (!p->panic && !anfi_parse_at(p, T_EOF)) anfi_parse_fail(p, "the end of the value");
  if (anfi_failed(cx)) return NULL;
  lower *lw = ANFI_NEW(p->a, lower);
  anfi_anf_module(lw, p, lend_module(cx, p->a));
  anf_node *n = anfi_anf_constant(lw, e);
  if (n && !anfi_failed(cx)) return anf_value_retain(n->u.value);
  if (!anfi_failed(cx)) anfi_fail(cx, anfi_anf_loc(lw, e), ANF_E0143);
  return NULL;
}

anf_status anf_parse_value(anf_ctx *cx, const char *text, anf_diag *d, anf_value **out) {
  ANFI_NEED(d, cx, text, out);
  *out = NULL;
  ANFI_ENTRY(cx, d);
  *out = parse_value(cx, text);
  return anfi_leave(cx);
}

static const anf_type *parse_type(anf_ctx *cx, const char *text) {
  parser *p = parser_of(cx, text);
  if (!p) return NULL;
  p->inside = 1;
  const anf_type *t = anfi_parse_type_at(p);
  if (t && !anfi_parse_at(p, T_EOF)) anfi_parse_fail(p, "the end of the type");
  return t;
}

anf_status anf_parse_type(anf_ctx *cx, const char *text, anf_diag *d, const anf_type **out) {
  ANFI_NEED(d, cx, text, out);
  *out = NULL;
  ANFI_ENTRY(cx, d);
  *out = parse_type(cx, text);
  anf_status st = anfi_leave(cx);
  if (st != ANF_OK) *out = NULL;
  return st;
}
