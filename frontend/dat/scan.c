// SPDX-License-Identifier: Apache-2.0
/* The words of .dat lines, and the frame around them: magic, version, checksum.
 *   "nodes 3\n"   ->   anfi_scan_section(&s, "nodes", &n): n = 3
 * INVARIANT: nothing is read at or past `end`, and no count is believed that the bytes left cannot hold, so allocation
 * for a hostile file is bounded by its own size. */
#include "frontend/dat/dat.h"

static anfi_loc place(const anfi_scan *s) {
  anfi_loc l = {s->file, 1, 1};
  const char *line = s->text;
  for (const char *p = s->text; (p = (const char *)memchr(p, '\n', (size_t)(s->at - p)));
       line = ++p)
    l.line++;
  l.col += (uint32_t)(s->at - line);
  return l;
}

static void remove_source(void *p) {
  const anfi_scan *s = (const anfi_scan *)p;
  anfi_source_remove(s->cx, s->file);
}

/* The text is known to diagnostics only while a failure is recorded. */
#define FAIL_HERE(s, ...)                                                                          \
  (anfi_source_add((s)->cx, (s)->file, (s)->text, (size_t)((s)->end - (s)->text)),                 \
   anfi_fail((s)->cx, place(s), __VA_ARGS__), remove_source(s), false)

void anfi_scan_place_errors(anfi_scan *s) {
  anfi_source_add(s->cx, s->file, s->text, (size_t)(s->end - s->text));
  anfi_place_errors(s->cx, place(s));
  remove_source(s);
}

bool anfi_scan_expected(anfi_scan *s, const char *what) { return FAIL_HERE(s, ANF_E0314, what); }
bool anfi_scan_wrong(anfi_scan *s, const char *why) { return FAIL_HERE(s, ANF_E0317, why); }
bool anfi_scan_none(anfi_scan *s, const char *what, uint64_t id) {
  return FAIL_HERE(s, ANF_E0315, what, (unsigned long long)id);
}

bool anfi_scan_skip(anfi_scan *s, char c) {
  if (s->at == s->end || *s->at != c) return false;
  s->at++;
  return true;
}

bool anfi_scan_char(anfi_scan *s, char c) {
  if (anfi_scan_skip(s, c)) return true;
  return anfi_scan_expected(s, c == '\n'  ? "the end of the line"
                               : c == ' ' ? "a space"
                                          : "a quoted string");
}

bool anfi_scan_num(anfi_scan *s, uint64_t *out) {
  const char *p = s->at;
  uint64_t v = 0;
  for (; p < s->end && *p >= '0' && *p <= '9'; p++) {
    uint64_t digit = (uint64_t)(*p - '0');
    if (v > (UINT64_MAX - digit) / 10) return anfi_scan_expected(s, "a number below 2^64");
    v = v * 10 + digit;
  }
  if (p == s->at || (*s->at == '0' && p - s->at > 1)) return anfi_scan_expected(s, "a number");
  s->at = p;
  *out = v;
  return true;
}

bool anfi_scan_id(anfi_scan *s, const char *what, uint64_t limit, uint32_t *out) {
  const char *start = s->at;
  uint64_t v;
  if (!anfi_scan_num(s, &v)) return false;
  *out = (uint32_t)v;
  if (v < limit && v < UINT32_MAX) return true;
  s->at = start;
  return anfi_scan_none(s, what, v);
}

bool anfi_scan_opt(anfi_scan *s, const char *what, uint64_t limit, uint32_t *out) {
  *out = UINT32_MAX;
  return anfi_scan_skip(s, '-') || anfi_scan_id(s, what, limit, out);
}

bool anfi_scan_word(anfi_scan *s, const char **word, size_t *len) {
  const char *p = s->at;
  while (p < s->end && *p != ' ' && *p != '\n') p++;
  if (p == s->at) return anfi_scan_expected(s, "a word");
  *word = s->at;
  *len = (size_t)(p - s->at);
  s->at = p;
  return true;
}

static bool scan_escape(anfi_scan *s, anf_text *out) {
  static const char from[] = "ntr\"\\`", to[] = "\n\t\r\"\\`";
  const char *k = s->at < s->end && *s->at ? strchr(from, *s->at) : NULL;
  if (k) {
    anfi_putc(out, to[k - from]);
    s->at++;
    return true;
  }
  int hi = s->end - s->at >= 3 && *s->at == 'x' ? anfi_dat_hex(s->at[1]) : -1,
      lo = hi < 0 ? -1 : anfi_dat_hex(s->at[2]);
  if (lo < 0)
    return anfi_scan_expected(s, "an escape: \\n \\t \\r \\\" \\\\ or \\x and two digits");
  anfi_putc(out, (char)(hi * 16 + lo));
  s->at += 3;
  return true;
}

/* Is a string written as the writer does it? There is one way to write a module. */
static bool is_canonical(anfi_scan *s, const char *start, const char *content, size_t len) {
  s->quoted->len = 0;
  anfi_put_quoted(s->quoted, content, len, '"');
  return s->quoted->len == (size_t)(s->at - start) &&
         memcmp(s->quoted->text, start, s->quoted->len) == 0;
}

bool anfi_scan_string(anfi_scan *s, anf_text *out) {
  const char *start = s->at;
  size_t from = out->len;
  if (!anfi_scan_char(s, '"')) return false;
  for (;;) {
    const char *p = s->at;
    while (p < s->end && *p != '"' && *p != '\\' && *p != '\n') p++;
    anfi_put(out, s->at, (size_t)(p - s->at));
    s->at = p;
    if (anfi_scan_skip(s, '"')) break;
    if (!anfi_scan_skip(s, '\\')) return anfi_scan_expected(s, "a closing quote");
    if (!scan_escape(s, out)) return false;
  }
  const char *content = out->text ? out->text + from : "";
  return is_canonical(s, start, content, out->len - from) ||
         anfi_scan_wrong(s, "a string is not written as it should be");
}

bool anfi_scan_count(anfi_scan *s, const char *what, size_t *n) {
  const char *start = s->at;
  uint64_t v;
  if (!anfi_scan_num(s, &v)) return false;
  *n = (size_t)v;
  if (v <= (uint64_t)(s->end - s->at) / 2 && v < UINT32_MAX) return true;
  s->at = start;
  return FAIL_HERE(s, ANF_E0316, (unsigned long long)v, what);
}

bool anfi_scan_section(anfi_scan *s, const char *name, size_t *n) {
  size_t len = strlen(name);
  if ((size_t)(s->end - s->at) <= len || memcmp(s->at, name, len) != 0 || s->at[len] != ' ')
    return anfi_scan_expected(s, name);
  s->at += len + 1;
  return anfi_scan_count(s, name, n) && anfi_scan_char(s, '\n');
}

/* ---- the frame ---- */

static bool check_sum(anfi_scan *s, const char *end) {
  size_t word = strlen(ANFI_DAT_CHECKSUM), tail = word + ANFI_DAT_HEX + 1;
  s->end = s->at = end;
  if ((size_t)(end - s->text) < tail || end[-1] != '\n') return FAIL_HERE(s, ANF_E0312);
  s->at = end - tail;
  if ((s->at > s->text && s->at[-1] != '\n') || memcmp(s->at, ANFI_DAT_CHECKSUM, word) != 0)
    return FAIL_HERE(s, ANF_E0312);
  uint64_t stated = 0, has = anfi_hash(s->text, (size_t)(s->at - s->text), 0);
  for (size_t i = 0; i < ANFI_DAT_HEX; i++) {
    int d = anfi_dat_hex(s->at[word + i]);
    if (d < 0) return FAIL_HERE(s, ANF_E0312);
    stated = stated << 4 | (uint64_t)d;
  }
  if (stated != has)
    return FAIL_HERE(s, ANF_E0313, (unsigned long long)stated, (unsigned long long)has);
  s->end = s->at;
  return true;
}

bool anfi_scan_open(anfi_scan *s, anf_ctx *cx, const char *text, size_t len, const char *file) {
  *s = (anfi_scan){cx,  anfi_intern_z(&cx->strings, file ? file : "")->s, text, text, text + len,
                   NULL};
  s->quoted = ANFI_NEW(anfi_scratch(cx), anf_text);
  s->quoted->cx = cx;
  anfi_defer(cx, ANFI_ALWAYS, anfi_free_text, s->quoted);
  size_t magic = strlen(ANFI_DAT_MAGIC);
  uint64_t version;
  if (len < magic || memcmp(text, ANFI_DAT_MAGIC, magic) != 0) return FAIL_HERE(s, ANF_E0310);
  s->at += magic;
  if (!anfi_scan_num(s, &version)) return false;
  if (version != ANFI_DAT_VERSION)
    return FAIL_HERE(s, ANF_E0311, (unsigned long long)version, (int)ANFI_DAT_VERSION);
  const char *body = s->at;
  if (!check_sum(s, text + len)) return false;
  s->at = body;
  return anfi_scan_char(s, '\n');
}
