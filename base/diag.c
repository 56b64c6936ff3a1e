// SPDX-License-Identifier: Apache-2.0
/* Diagnostics: a list that the caller owns.
 *   anfi_fail(cx, loc, ANF_E0803, "y")   ->   an item: error E0803, "'y' is not defined here", its place; ANF_INVALID
 * Recording never fails the caller further: when memory runs out while an error is written down, the status says so
 * and the list ends there. */
#include "base/base.h"

typedef struct {
  const char *code;
  anf_status status;
  const char *text, *explanation;
} message;

static const message messages[ANF_CODE_COUNT] = {
#define ANF_MSG(code, class, text, explanation) [ANF_##code] = {#code, class, text, explanation},
#include "base/diag.def"
#undef ANF_MSG
};

struct anf_diag {
  anfi_arena arena;
  ANFI_VEC(anf_diag_item) items;
};

typedef struct anfi_source {
  struct anfi_source *next;
  const char *file, *text;
  size_t len;
} source;

anf_diag *anf_diag_new(anf_ctx *cx) {
  if (!cx) return NULL;
  anf_diag *d = (anf_diag *)anfi_raw(cx, NULL, 0, sizeof *d);
  if (!d) return NULL;
  *d = (anf_diag){0};
  anfi_arena_init(&d->arena, cx);
  return d;
}

void anf_diag_clear(anf_diag *d) {
  if (!d) return;
  anfi_arena_free(&d->arena);
  d->items.at = NULL;
  d->items.n = d->items.cap = 0;
}

void anf_diag_free(anf_diag *d) {
  if (!d) return;
  anf_ctx *cx = d->arena.cx;
  anfi_arena_free(&d->arena);
  anfi_raw(cx, d, sizeof *d, 0);
}

void anfi_free_diag(void *d) { anf_diag_free((anf_diag *)d); }

size_t anf_diag_count(const anf_diag *d) { return d ? d->items.n : 0; }
const anf_diag_item *anf_diag_at(const anf_diag *d, size_t i) {
  return d && i < d->items.n ? &d->items.at[i] : NULL;
}

bool anfi_diag_has(const anf_diag *d, size_t from, anfi_code code) {
  for (size_t i = from; i < d->items.n; i++)
    if (strcmp(d->items.at[i].code, messages[code].code) == 0) return true;
  return false;
}

void anfi_diag_forget(anf_diag *d, size_t from) { d->items.n = from; }

const char *anf_explain(const char *code) {
  if (!code) return NULL;
  for (size_t i = 0; i < ANF_CODE_COUNT; i++)
    if (strcmp(messages[i].code, code) == 0) return messages[i].explanation;
  return NULL;
}

const char *anfi_code_text(anfi_code code) { return messages[code].text; }

void anfi_source_add(anf_ctx *cx, const char *file, const char *text, size_t len) {
  anfi_source_remove(cx, file);
  const char *name = anfi_intern_z(&cx->strings, file)->s;
  source *s = (source *)anfi_object(cx, sizeof *s);
  if (!s) anfi_throw_nomem(cx);
  *s = (source){cx->sources, name, text, len};
  cx->sources = s;
}

static void remove_sources(anf_ctx *cx, const char *file, const char *text) {
  for (source **p = &cx->sources; *p;) {
    source *s = *p;
    if ((text && s->text != text) || (file && strcmp(s->file, file) != 0)) {
      p = &s->next;
      continue;
    }
    *p = s->next;
    anfi_object_free(cx, s);
  }
}

void anfi_source_remove(anf_ctx *cx, const char *file) { remove_sources(cx, file, NULL); }
void anfi_source_remove_text(anf_ctx *cx, const char *text) { remove_sources(cx, NULL, text); }

enum { SHOWN_LINE = 400 }; // bytes of a source line in a finding

static const char *line_text(anfi_arena *a, anfi_loc loc) {
  const source *s = loc.file ? a->cx->sources : NULL;
  while (s && strcmp(s->file, loc.file) != 0) s = s->next;
  if (!s || !loc.line) return "";
  const char *p = s->text, *end = s->text + s->len;
  for (uint32_t l = 1; l < loc.line && p; l++) {
    p = (const char *)memchr(p, '\n', (size_t)(end - p));
    if (p) p++;
  }
  if (!p) return "";
  const char *eol = (const char *)memchr(p, '\n', (size_t)(end - p));
  size_t n = (size_t)((eol ? eol : end) - p);
  return anfi_strndup(a, p, n < SHOWN_LINE ? n : SHOWN_LINE);
}

static void set_place(anf_diag *d, anf_diag_item *it, anfi_loc loc) {
  it->file = loc.file ? anfi_strndup(&d->arena, loc.file, strlen(loc.file)) : "";
  it->line = loc.line;
  it->col = loc.col;
  it->source = line_text(&d->arena, loc);
}

/* Work in the list's arena, in a frame of its own: running out of memory here must not lose the
 * caller's frame. */
static anf_status add_item(anf_diag *d, anf_diag_item it, anfi_loc loc, const char *fmt,
                           va_list ap) {
  anf_ctx *cx = d->arena.cx;
  ANFI_ENTRY(cx, NULL);
  char buf[2048];
  vsnprintf(buf, sizeof buf, fmt, ap);
  it.message = anfi_strndup(&d->arena, buf, strlen(buf));
  it.hint = "";
  set_place(d, &it, loc);
  anfi_push(&d->arena, &d->items, it);
  return anfi_leave(cx);
}

static void set_status(anf_ctx *cx, anf_status st) {
  if (cx->frame->status == ANF_OK || st == ANF_NOMEM) cx->frame->status = st;
}

anf_diag *anfi_own_diag(anf_ctx *cx) {
  if (!cx->own) cx->own = anf_diag_new(cx);
  else if (cx->own_is_old) anf_diag_clear(cx->own);
  cx->own_is_old = false;
  return cx->own;
}

/* The list that this frame records in; NULL when out of memory. */
static anf_diag *list_of(anf_ctx *cx) {
  return cx->frame->diag ? cx->frame->diag : anfi_own_diag(cx);
}

static void record(anf_ctx *cx, anf_severity sev, anfi_loc loc, const message *m, va_list ap) {
  anf_diag *d = list_of(cx);
  anf_diag_item it = {.severity = sev, .status = m->status, .code = m->code};
  if (d && add_item(d, it, loc, m->text, ap) != ANF_OK) set_status(cx, ANF_NOMEM);
}

static void record_limit(anf_ctx *cx, const message *m, ...) {
  va_list ap;
  va_start(ap, m);
  record(cx, ANF_NOTE, anfi_nowhere(), m, ap);
  va_end(ap);
}

bool anfi_fail(anf_ctx *cx, anfi_loc loc, anfi_code code, ...) {
  va_list ap;
  va_start(ap, code);
  if (cx->frame->nerror++ < cx->max_errors) record(cx, ANF_ERROR, loc, &messages[code], ap);
  else if (cx->frame->nerror == cx->max_errors + 1)
    record_limit(cx, &messages[ANF_E0003], (unsigned)cx->max_errors);
  va_end(ap);
  set_status(cx, messages[code].status);
  return false;
}

bool anfi_fail_as(anf_ctx *cx, anf_status st) {
  set_status(cx, st);
  return false;
}

static anf_status copy_item(anf_diag *d, const anf_diag_item *from) {
  ANFI_ENTRY(d->arena.cx, NULL);
  anf_diag_item it = *from;
  const char **text[] = {&it.message, &it.hint, &it.file, &it.source};
  for (size_t i = 0; i < ANFI_LEN(text); i++)
    if (*text[i]) *text[i] = anfi_strndup(&d->arena, *text[i], strlen(*text[i]));
  anfi_push(&d->arena, &d->items, it);
  return anfi_leave(d->arena.cx);
}

bool anfi_repeat(anf_ctx *cx, const anf_diag *from) {
  anf_diag *d = list_of(cx);
  for (size_t i = 0; i < anf_diag_count(from); i++) {
    const anf_diag_item *it = anf_diag_at(from, i);
    if (it->severity != ANF_ERROR) continue;
    if (d && cx->frame->nerror++ < cx->max_errors && copy_item(d, it) != ANF_OK)
      set_status(cx, ANF_NOMEM);
    set_status(cx, it->status);
    return true;
  }
  return false;
}

static anf_status set_place_apart(anf_diag *d, anf_diag_item *it, anfi_loc loc) {
  ANFI_ENTRY(d->arena.cx, NULL);
  set_place(d, it, loc);
  return anfi_leave(d->arena.cx);
}

void anfi_place_errors(anf_ctx *cx, anfi_loc loc) {
  anf_diag *d = list_of(cx);
  size_t left = cx->frame->nerror;
  for (size_t i = d ? d->items.n : 0; i-- && left;) {
    anf_diag_item *it = &d->items.at[i];
    if (it->severity != ANF_ERROR) continue;
    left--;
    if (!it->line && set_place_apart(d, it, loc) != ANF_OK) set_status(cx, ANF_NOMEM);
  }
}

void anfi_warn(anf_ctx *cx, anfi_loc loc, anfi_code code, ...) {
  va_list ap;
  va_start(ap, code);
  record(cx, ANF_WARNING, loc, &messages[code], ap);
  va_end(ap);
}

bool anfi_more_errors(const anf_ctx *cx) { return cx->frame->nerror < cx->max_errors; }

void anfi_note(anf_ctx *cx, anfi_loc loc, const char *fmt, ...) {
  anf_diag *d = list_of(cx);
  if (!d || cx->frame->nerror > cx->max_errors) return;
  va_list ap;
  va_start(ap, fmt);
  anf_diag_item it = {.severity = ANF_NOTE, .code = ""};
  if (add_item(d, it, loc, fmt, ap) != ANF_OK) set_status(cx, ANF_NOMEM);
  va_end(ap);
}

static anf_status report(anf_ctx *cx, anf_diag *d, const char *words) {
  ANFI_ENTRY(cx, d);
  anfi_fail(cx, anfi_nowhere(), ANF_E1600, words);
  return anfi_leave(cx);
}

anf_status anf_diag_report(anf_diag *d, anf_status st, const char *words) {
  ANFI_NEED(d, words);
  if (!d || st == ANF_OK) return st;
  size_t n = d->items.n;
  report(d->arena.cx, d, words);
  if (d->items.n > n) d->items.at[n].status = st;
  return st;
}

static anf_status set_hint(anf_diag *d, const char *text) {
  anf_ctx *cx = d->arena.cx;
  ANFI_ENTRY(cx, NULL);
  d->items.at[d->items.n - 1].hint = anfi_strndup(&d->arena, text, strlen(text));
  return anfi_leave(cx);
}

void anfi_hint(anf_ctx *cx, const char *fmt, ...) {
  anf_diag *d = list_of(cx);
  if (!d || !d->items.n || cx->frame->nerror > cx->max_errors) return;
  char buf[1024];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(buf, sizeof buf, fmt, ap);
  va_end(ap);
  if (set_hint(d, buf) != ANF_OK) set_status(cx, ANF_NOMEM);
}

static anf_status say_size(anf_ctx *cx, anf_diag *d, const char *name, size_t given) {
  ANFI_ENTRY(cx, d);
  anfi_fail(cx, anfi_nowhere(), ANF_E0007, name, given);
  return anfi_leave(cx);
}

static anf_status say_unknown(anf_ctx *cx, anf_diag *d, const char *name, size_t at, size_t size) {
  ANFI_ENTRY(cx, d);
  anfi_fail(cx, anfi_nowhere(), ANF_E0008, at, name, size);
  return anfi_leave(cx);
}

/* A structure of options never grows by so much: a larger `size` is memory that nobody set. */
enum { OPTIONS_GROWTH = 4096 };

bool anfi_read_opts(anf_ctx *cx, anf_diag *d, const char *name, const void *from, size_t first,
                    size_t size, void *to) {
  memset(to, 0, size);
  if (!from) return true;
  if (d) cx = d->arena.cx;
  size_t given;
  memcpy(&given, from, sizeof given);
  if (!given) given = first;
  bool good = given >= sizeof given && given <= size + OPTIONS_GROWTH;
  if (!good && cx) say_size(cx, d, name, given);
  for (size_t i = size; good && i < given; i++)
    if (((const char *)from)[i]) {
      if (cx) say_unknown(cx, d, name, i, size);
      return false;
    }
  if (good) memcpy(to, from, given < size ? given : size);
  return good;
}

bool anfi_did_you_mean(anf_ctx *cx, const char *near) {
  if (near) anfi_hint(cx, "did you mean '%s'?", near);
  return near != NULL;
}

bool anfi_suggest(anf_ctx *cx, const char *word, const char *(*candidate)(void *, size_t),
                  void *user) {
  return anfi_did_you_mean(cx, anfi_nearest(word, candidate, user));
}

void anfi_missed(anf_ctx *cx, const char *kind, const char *name,
                 const char *(*candidate)(void *, size_t), void *user) {
  anfi_frame f;
  if (!cx->frame) cx->own_is_old = true;
  anf_diag *d = anfi_own_diag(cx);
  if (!d) return;
  anfi_enter(cx, d, &f);
  cx->own_is_old = false;
  cx->missed = true;
  if (!setjmp(f.jump)) {
    anfi_fail(cx, anfi_nowhere(), ANF_E0006, kind, name);
    anfi_suggest(cx, name, candidate, user);
  }
  anfi_leave(cx);
}

/* If the finding just made is about a NULL that a failed look-up gave: a hint that says so. */
static void hint_at_missed(anf_ctx *cx, const anf_diag *own) {
  const anf_diag_item *it = own && own->items.n ? &own->items.at[own->items.n - 1] : NULL;
  if (!cx->missed || !it || strcmp(it->code, messages[ANF_E0006].code) != 0) return;
  cx->missed = false; // the NULL after that is another one
  anfi_hint(cx, "%s%s%s", it->message, it->hint[0] ? "; " : "", it->hint);
}

/* The i-th of names with commas between. */
static void name_at(const char *names, size_t i, char *to, size_t size) {
  for (; i && *names; names++) i -= *names == ',';
  names += strspn(names, " ");
  size_t n = strcspn(names, ",");
  snprintf(to, size, "%.*s", (int)(n < size ? n : size - 1), names);
}

static anf_status say_missing(anf_ctx *cx, anf_diag *d, const char *function, const char *name) {
  char text[160];
  snprintf(text, sizeof text, "%s: '%s'", function, name);
  ANFI_ENTRY(cx, d);
  anfi_fail(cx, anfi_nowhere(), ANF_E0002, text);
  if (d) hint_at_missed(cx, cx->own);
  return anfi_leave(cx);
}

bool anfi_need(anf_ctx *cx, anf_diag *d, const char *function, const char *names, size_t n,
               const void *const *p) {
  size_t i = 0;
  while (i < n && p[i]) i++;
  if (i == n) return true;
  char name[64];
  name_at(names, i, name, sizeof name);
  if (d) cx = d->arena.cx;
  if (cx) say_missing(cx, d, function, name);
  return false;
}

/* A buffer, written in one call: a finding that fits stays whole where other processes write to the same file. */
typedef struct sheet {
  FILE *to;
  size_t n;
  char at[4096];
} sheet;

static void flush(sheet *s) {
  fwrite(s->at, 1, s->n, s->to);
  s->n = 0;
}
static void put(sheet *s, char c) {
  if (s->n == sizeof s->at) flush(s);
  s->at[s->n++] = c;
}
static void put_words(sheet *s, const char *text) {
  while (*text) put(s, *text++);
}

/* Characters that a terminal obeys: control characters, and marks that turn the direction of text. */
static bool is_command(const char *text) {
  const unsigned char *s = (const unsigned char *)text;
  bool control = (s[0] < ' ' && s[0] != '\t' && s[0] != '\n') || s[0] == 0x7f;
  bool turn = s[0] == 0xe2 && ((s[1] == 0x80 && s[2] >= 0xaa && s[2] <= 0xae) ||
                               (s[1] == 0x81 && s[2] >= 0xa6 && s[2] <= 0xa9));
  return control || (s[0] == 0xc2 && s[1] < 0xa0) || turn;
}

/* A character of text that starts here: NUL is none of its later bytes, so that no more than the text is read. */
static size_t character(const char *s) { return anfi_utf8_len(s, 4); }

/* Text of a program must not talk to the terminal: such characters, and bytes that are no UTF-8, are shown as ?. */
static void put_text(sheet *to, const char *s) {
  for (size_t n; *s; s += n ? n : 1) {
    n = character(s);
    if (!n || is_command(s)) put(to, '?');
    else
      for (size_t i = 0; i < n; i++) put(to, s[i]);
  }
}

static void put_caret(sheet *to, const anf_diag_item *it) {
  put_words(to, "  ");
  put_text(to, it->source);
  put_words(to, "\n  ");
  const char *s = it->source;
  for (uint32_t c = 1; c < it->col && *s; c++) { // tabs stay tabs, so that the caret lines up
    put(to, *s == '\t' ? '\t' : ' ');
    size_t n = character(s);
    s += n ? n : 1;
  }
  put_words(to, "^\n");
}

static void put_place(sheet *to, const anf_diag_item *it) {
  char place[32] = "";
  if (!it->file[0]) return;
  if (it->line) snprintf(place, sizeof place, ":%u:%u", it->line, it->col);
  put_text(to, it->file);
  put_words(to, place);
  put_words(to, ": ");
}

static void put_item(sheet *to, const anf_diag_item *it, bool colour) {
  static const char *const word[] = {"note", "warning", "error"};
  static const char *const paint[] = {"\033[36m", "\033[33m", "\033[31m"};
  put_place(to, it);
  if (colour) put_words(to, paint[it->severity]);
  put_words(to, word[it->severity]);
  if (colour) put_words(to, "\033[0m");
  if (it->code[0]) put(to, ' ');
  put_words(to, it->code);
  put_words(to, ": ");
  put_text(to, it->message);
  put(to, '\n');
  if (it->source[0]) put_caret(to, it);
  if (!it->hint[0]) return;
  put_words(to, "  hint: ");
  put_text(to, it->hint);
  put(to, '\n');
}

void anf_diag_print(const anf_diag *d, FILE *to, bool colour) {
  sheet s;
  s.to = to;
  s.n = 0;
  for (size_t i = 0; d && to && i < d->items.n; i++) {
    put_item(&s, &d->items.at[i], colour);
    flush(&s);
  }
}

/* Edit distance with adjacent swaps, cut off at `limit`. */
static size_t distance(const char *a, const char *b) {
  enum { MAX = 40 };
  size_t n = strlen(a), m = strlen(b);
  if (n >= MAX || m >= MAX) return MAX;
  size_t row[3][MAX + 1];
  for (size_t j = 0; j <= m; j++) row[0][j] = j;
  for (size_t i = 1; i <= n; i++) {
    size_t *now = row[i % 3], *up = row[(i + 2) % 3], *up2 = row[(i + 1) % 3];
    now[0] = i;
    for (size_t j = 1; j <= m; j++) {
      size_t best = up[j - 1] + (a[i - 1] != b[j - 1]);
      if (up[j] + 1 < best) best = up[j] + 1;
      if (now[j - 1] + 1 < best) best = now[j - 1] + 1;
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && up2[j - 2] + 1 < best)
        best = up2[j - 2] + 1;
      now[j] = best;
    }
  }
  return row[n % 3][m];
}

static char lower(char c) { return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c); }

static bool same_but_case(const char *a, const char *b) {
  for (; *a && lower(*a) == lower(*b); a++) b++;
  return !*a && !*b;
}

const char *anfi_nearest(const char *word, const char *(*candidate)(void *, size_t), void *user) {
  const char *best = NULL, *c;
  size_t near = strlen(word) / 3 + 2; // further away is no suggestion
  for (size_t i = 0; (c = candidate(user, i)); i++) {
    if (!*c) continue; // no name, no suggestion
    size_t k = same_but_case(word, c) ? 0 : distance(word, c);
    if (k < near) near = k, best = c;
  }
  return best;
}
