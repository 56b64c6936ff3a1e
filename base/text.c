// SPDX-License-Identifier: Apache-2.0
/* Text that grows.
 *   anfi_puts(&t, "a"); anfi_putf(&t, "%d", 1);   ->   t.text is "a1", followed by a zero byte, and t.len 2 */
#include "base/base.h"

static void reserve(anf_text *t, size_t more) {
  if (t->cap - t->len > more) return;
  size_t want = t->cap ? t->cap : 64;
  while (want - t->len <= more) {
    if (want > SIZE_MAX / 4) anfi_throw_nomem(t->cx);
    want *= 2;
  }
  char *p = (char *)anfi_raw(t->cx, t->text, t->cap, want);
  if (!p) anfi_throw_nomem(t->cx);
  t->text = p;
  t->cap = want;
}

void anfi_text_of(anf_text *t, anf_ctx *cx) {
  if (!t->cx) t->cx = cx;
}

void anf_text_free(anf_text *t) {
  if (!t) return;
  if (t->text) anfi_raw(t->cx, t->text, t->cap, 0);
  *t = (anf_text){.cx = t->cx};
}
void anfi_free_text(void *text) { anf_text_free((anf_text *)text); }

static void end_text(void *text) {
  anf_text *t = (anf_text *)text;
  anf_ctx *cx = t->cx;
  anf_text_free(t);
  anfi_raw(cx, t, sizeof *t, 0);
}

anf_text *anfi_text_begin(anf_ctx *cx) {
  anf_text *t = (anf_text *)anfi_raw(cx, NULL, 0, sizeof *t);
  if (!t) anfi_throw_nomem(cx);
  *t = (anf_text){.cx = cx};
  anfi_defer(cx, ANFI_ALWAYS, end_text, t);
  return t;
}

void anfi_text_done(anf_text *t) {
  anfi_undefer(t->cx, t);
  end_text(t);
}

void anfi_put(anf_text *t, const char *s, size_t len) {
  reserve(t, len);
  memcpy(t->text + t->len, s, len);
  t->len += len;
  t->text[t->len] = 0;
}

void anfi_puts(anf_text *t, const char *s) { anfi_put(t, s, strlen(s)); }
void anfi_putc(anf_text *t, char c) { anfi_put(t, &c, 1); }

void anfi_putf(anf_text *t, const char *fmt, ...) {
  va_list ap, again;
  va_start(ap, fmt);
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, fmt, ap);
  va_end(ap);
  if (n > 0) {
    reserve(t, (size_t)n + 1);
    vsnprintf(t->text + t->len, (size_t)n + 1, fmt, again);
    t->len += (size_t)n;
  }
  va_end(again);
}

void anfi_put_u64(anf_text *t, uint64_t v) {
  char buf[20], *p = buf + sizeof buf;
  do *--p = (char)('0' + v % 10);
  while (v /= 10);
  anfi_put(t, p, (size_t)(buf + sizeof buf - p));
}

void anfi_put_i64(anf_text *t, int64_t v) {
  if (v < 0) anfi_putc(t, '-');
  anfi_put_u64(t, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

void anfi_put_f64(anf_text *t, double v) {
  char buf[ANFI_NUMBER];
  anfi_put(t, buf, anfi_text_f64(buf, v));
}

void anfi_put_f32(anf_text *t, float v) {
  char buf[ANFI_NUMBER];
  anfi_put(t, buf, anfi_text_f32(buf, v));
}

size_t anfi_utf8_len(const char *str, size_t left) {
  const unsigned char *s = (const unsigned char *)str;
  if (!left) return 0;
  if (s[0] < 0x80) return 1;
  size_t n = s[0] >= 0xc2 && s[0] < 0xe0   ? 2
             : (s[0] & 0xf0) == 0xe0       ? 3
             : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                           : 0;
  if (!n || n > left) return 0;
  for (size_t i = 1; i < n; i++)
    if ((s[i] & 0xc0) != 0x80) return 0;
  bool overlong = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90);
  bool surrogate = s[0] == 0xed && s[1] >= 0xa0;
  bool too_big = s[0] == 0xf4 && s[1] >= 0x90;
  return overlong || surrogate || too_big ? 0 : n;
}

void anfi_put_elided(anf_text *t, size_t n, const void *data, size_t bytes) {
  anfi_putf(t, "%zu elements, digest 0x%016llx", n, (unsigned long long)anfi_hash(data, bytes, 0));
}
