// SPDX-License-Identifier: Apache-2.0
/* Makes a failing program small: delta debugging (ddmin: Zeller and Hildebrandt 2002) first on lines
 * and blocks of text, then on graphs by the edits of edit.c.
 *   100 lines that crash                 ->  3 lines that crash
 * INVARIANT: the current text fails, and each step makes it smaller, so the search ends. */
#include "reduce/reduce.h"

typedef struct {
  anfi_reducer *r;
  anfi_arena *a; // of the current text
  const char *text;
  size_t len, lines;
} state;

static size_t count_lines(const char *s, size_t len) {
  size_t n = len && s[len - 1] != '\n';
  for (size_t i = 0; i < len; i++) n += s[i] == '\n';
  return n;
}

/* Fewer lines are smaller, then fewer bytes. */
static bool try_text(state *s, const char *text, size_t len) {
  size_t lines = count_lines(text, len);
  if (lines > s->lines || (lines == s->lines && len >= s->len)) return false;
  if (s->r->tries >= s->r->max_tries || !anfi_go_on(s->r->cx, "reducing", 0.0)) return false;
  s->r->tries++;
  if (!s->r->fails(s->r->user, text, len)) return false;
  s->text = anfi_strndup(s->a, text, len);
  s->len = len;
  s->lines = lines;
  return true;
}

/* ---- lines ---- */

static const char *line_at(const state *s, size_t i) {
  const char *p = s->text;
  for (; i; i--) {
    const char *end = strchr(p, '\n');
    if (!end) return s->text + s->len;
    p = end + 1;
  }
  return p;
}

/* Without the lines [i, j); the two of `shell` instead: without line i and line j - 1. */
static bool try_without(state *s, size_t i, size_t j, bool shell) {
  anf_text *t = anfi_text_begin(s->r->cx);
  const char *a = line_at(s, i), *b = line_at(s, i + 1), *y = line_at(s, j - 1), *z = line_at(s, j);
  anfi_put(t, s->text, (size_t)(a - s->text));
  if (shell && y > b) anfi_put(t, b, (size_t)(y - b));
  anfi_put(t, z, (size_t)(s->text + s->len - z));
  bool kept = try_text(s, t->text, t->len);
  anfi_text_done(t);
  return kept;
}

static bool drop_lines(state *s) {
  bool changed = false;
  for (size_t chunk = s->lines; chunk; chunk /= 2)
    for (size_t i = 0; i < s->lines;) {
      size_t end = i + chunk < s->lines ? i + chunk : s->lines;
      if (try_without(s, i, end, false)) changed = true;
      else i = end;
    }
  return changed;
}

/* The line after the closing bracket of line i; i + 1 if it opens nothing. */
static size_t block_end(const state *s, size_t i) {
  int depth = 0;
  size_t line = i;
  for (const char *p = line_at(s, i); *p; p++) {
    if (strchr("([{", *p)) depth++;
    if (strchr(")]}", *p)) depth--;
    if (*p == '\n' && ++line && depth <= 0) break;
  }
  return depth > 0 ? i + 1 : line == i ? i + 1 : line;
}

static bool drop_blocks(state *s) {
  bool changed = false;
  for (size_t i = 0; i < s->lines;) {
    size_t end = block_end(s, i);
    bool one = end <= i + 1;
    if (!one && (try_without(s, i, end, false) || try_without(s, i, end, true))) changed = true;
    else i++;
  }
  return changed;
}

/* ---- graphs ---- */

typedef struct {
  state *s;
  anfi_edit edit;
  anf_diag *diag; // errors of a candidate are not reported
  anf_text out;
  size_t sites;
} trial;

static bool make(trial *t) {
  anf_ctx *cx = t->s->r->cx;
  anf_module *m = NULL;
  if (anf_parse_n(cx, t->s->text, t->s->len, "case", t->diag, &m) != ANF_OK)
    return anfi_fail_as(cx, ANF_INVALID);
  anfi_defer(cx, ANFI_ALWAYS, anfi_free_module, m);
  t->sites = anfi_reduce_edit(m, &t->edit);
  if (!t->edit.count || anfi_failed(cx)) return true;
  return anfi_clear_dead(m) && anfi_verify(m) && anf_print_ir(m, &t->out) == ANF_OK;
}

static anf_status make_framed(trial *t) {
  ANFI_ENTRY(t->s->r->cx, t->diag);
  make(t);
  return anfi_leave(t->s->r->cx);
}

/* Tries the edits number from to from + count - 1 of a kind, together; *sites: how many edits of the kind there are. */
static bool try_edits(state *s, uint32_t kind, size_t from, size_t count, size_t *sites) {
  trial t = {
      .s = s, .edit = {kind, from, count}, .diag = anf_diag_new(s->r->cx), .out = {.cx = s->r->cx}};
  if (!t.diag) anfi_throw_nomem(s->r->cx);
  anf_status st = make_framed(&t);
  bool kept = st == ANF_OK && t.out.text && try_text(s, t.out.text, t.out.len);
  *sites = st == ANF_OK || count ? t.sites : 0;
  anf_text_free(&t.out);
  anf_diag_free(t.diag);
  return kept;
}

/* An accepted edit changes the places: they are counted again. */
static bool edit_graphs(state *s, uint32_t kind) {
  size_t sites = 0, left;
  bool changed = false;
  try_edits(s, kind, 0, 0, &sites);
  for (size_t chunk = sites; chunk; chunk /= 2)
    for (size_t i = 0; i < sites && s->r->tries < s->r->max_tries;) {
      if (!try_edits(s, kind, i, chunk, &left)) {
        i += chunk;
        continue;
      }
      changed = true;
      try_edits(s, kind, 0, 0, &sites);
    }
  return changed;
}

static void to_fixed_point(state *s) {
  for (bool changed = true; changed && s->r->tries < s->r->max_tries;) {
    changed = drop_lines(s);
    changed |= drop_blocks(s);
    for (uint32_t kind = 0; kind < anfi_reduce_kinds; kind++) changed |= edit_graphs(s, kind);
  }
}

/* A program as written is shorter than its graphs printed, which hides that an edit made them
 * smaller. So reduction starts again from the printed form; if that leads nowhere better, this was
 * for nothing. */
static void from_printed(state *s) {
  state printed = *s;
  size_t sites = 0;
  printed.lines = SIZE_MAX;
  if (!try_edits(&printed, 0, SIZE_MAX, 1, &sites)) return;
  to_fixed_point(&printed);
  if (printed.lines < s->lines || (printed.lines == s->lines && printed.len < s->len)) *s = printed;
}

const char *anfi_reduce(anfi_reducer *r, const char *text, size_t len) {
  state s = {.r = r, .a = anfi_scratch(r->cx), .len = len};
  s.text = anfi_strndup(s.a, text, len);
  s.lines = count_lines(s.text, len);
  to_fixed_point(&s);
  from_printed(&s);
  return s.text;
}
