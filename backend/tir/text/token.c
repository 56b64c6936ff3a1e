// SPDX-License-Identifier: Apache-2.0
/* Tokens of Tensor IR text, and the numbers and bytes that are no expressions. INVARIANT: nothing is
 * read at or after p->end; the text need not end in a zero. */
#include "backend/tir/text/parse.h"

static bool is_ident(unsigned char c) {
  return c >= 0x80 || c == '_' || c == '.' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9');
}
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static void advance(tparser *p, size_t n) {
  for (size_t i = 0; i < n; i++, p->p++) {
    if (*p->p == '\n') p->line++, p->col = 1;
    else if (((unsigned char)*p->p & 0xc0) != 0x80) p->col++; // columns count characters
  }
}

static void skip_comment(tparser *p) {
  const char *eol = (const char *)memchr(p->p, '\n', (size_t)(p->end - p->p));
  size_t n = (size_t)((eol ? eol : p->end) - p->p), from = n > 2 && p->p[2] == ' ' ? 3 : 2;
  if (p->comment.n) anfi_push(p->a, &p->comment, '\n');
  for (size_t i = from; i < n; i++) anfi_push(p->a, &p->comment, p->p[i]);
  advance(p, n);
}

static void skip_space(tparser *p) {
  for (;;) {
    while (p->p < p->end && strchr(" \t\r\n", *p->p) && *p->p) advance(p, 1);
    if (p->end - p->p < 2 || p->p[0] != '/' || p->p[1] != '/') return;
    skip_comment(p);
  }
}

static void number(tparser *p, token *k) {
  const char *s = p->p, *e = p->end;
  if (e - s > 2 && s[0] == '0' && s[1] == 'x' && strchr("0123456789abcdefABCDEF", s[2])) {
    for (s += 2; s < e && *s && strchr("0123456789abcdefABCDEF", *s);) s++;
  } else {
    while (s < e && is_digit(*s)) s++;
    if (s < e && *s == '.') {
      k->real = true;
      for (s++; s < e && is_digit(*s);) s++;
    }
    const char *x = s;
    if (x < e && (*x == 'e' || *x == 'E')) {
      x++;
      if (x < e && (*x == '+' || *x == '-')) x++;
      if (x < e && is_digit(*x)) {
        k->real = true;
        while (x < e && is_digit(*x)) x++;
        s = x;
      }
    }
  }
  k->digits = (size_t)(s - p->p);
  while (s < e && is_ident((unsigned char)*s) && *s != '.') s++;
  k->len = (size_t)(s - p->p);
}

void anfi_tp_next(tparser *p) {
  static const char *const two[] = {"==", "!=", "<=", ">=", "&&", "||"};
  p->comment.n = 0;
  p->last_line = p->tok.line;
  skip_space(p);
  token k = {.kind = K_EOF, .s = p->p, .line = p->line, .col = p->col};
  if (p->p < p->end) {
    unsigned char c = (unsigned char)*p->p;
    k.kind = K_PUNCT;
    k.len = 1;
    if (is_digit((char)c)) {
      k.kind = K_NUMBER;
      number(p, &k);
    } else if (is_ident(c) && c != '.') {
      k.kind = K_IDENT;
      while (p->p + k.len < p->end && is_ident((unsigned char)p->p[k.len])) k.len++;
    } else if (!strchr("(){}[]<>=!+-*/%,:&|@", c) || !c) k.kind = K_BAD;
    for (size_t i = 0; i < ANFI_LEN(two) && k.kind == K_PUNCT; i++)
      if (p->end - p->p >= 2 && memcmp(p->p, two[i], 2) == 0) k.len = 2;
  }
  p->tok = k;
  p->t->line = k.line;
  p->t->col = k.col;
  advance(p, k.len);
}

bool anfi_tp_is(const tparser *p, const char *s) {
  return p->tok.kind != K_EOF && *p->tok.s == *s && p->tok.len == strlen(s) &&
         memcmp(p->tok.s, s, p->tok.len) == 0;
}
bool anfi_tp_accept(tparser *p, const char *s) {
  if (!anfi_tp_is(p, s)) return false;
  anfi_tp_next(p);
  return true;
}
anfi_loc anfi_tp_here(const tparser *p) { return (anfi_loc){p->t->file, p->tok.line, p->tok.col}; }
const char *anfi_tp_tok_text(tparser *p) {
  if (p->tok.kind == K_EOF) return "the end";
  return anfi_strndup(p->a, p->tok.s, p->tok.len < 40 ? p->tok.len : 40);
}
void anfi_tp_at(tparser *p, anfi_loc at) { p->t->line = at.line, p->t->col = at.col; }
bool anfi_tp_unexpected(tparser *p, const char *wanted) {
  return anfi_fail(p->cx, anfi_tp_here(p), ANF_E0802, wanted, anfi_tp_tok_text(p));
}
bool anfi_tp_expect(tparser *p, const char *s) {
  return anfi_tp_accept(p, s) || anfi_tp_unexpected(p, anfi_sprintf(p->a, "'%s'", s));
}
const anfi_str *anfi_tp_take_comment(tparser *p) {
  return p->comment.n ? anfi_intern(&p->t->names, p->comment.at, p->comment.n) : NULL;
}

void anfi_tp_restart(tparser *p, const char *text) {
  p->p = text;
  p->line = p->col = 1;
  anfi_tp_next(p);
}

void anfi_tp_deeper(tparser *p, const char *what) {
  if (++p->depth <= p->t->max_depth) return;
  anfi_fail(p->cx, anfi_tp_here(p), ANF_E0801, what);
  anfi_throw(p->cx);
}

/* ---- numbers that are no constants ---- */

static int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  c |= 0x20;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool anfi_tp_digits(const char *s, size_t n, uint64_t max, uint64_t *v) {
  bool hex = n > 2 && s[0] == '0' && s[1] == 'x';
  uint64_t base = hex ? 16 : 10;
  *v = 0;
  for (size_t i = hex ? 2 : 0; i < n; i++) {
    int digit = hex_digit(s[i]);
    if (digit < 0 || (uint64_t)digit >= base || (uint64_t)digit > max) return false;
    if (*v > (max - (uint64_t)digit) / base) return false;
    *v = *v * base + (uint64_t)digit;
  }
  return n > 0;
}

bool anfi_tp_count(tparser *p, uint64_t max, const char *what, uint64_t *v) {
  const token *k = &p->tok;
  if (k->kind != K_NUMBER || !anfi_tp_digits(k->s, k->len, max, v))
    return anfi_tp_unexpected(p, what);
  anfi_tp_next(p);
  return true;
}

bool anfi_tp_bytes(tparser *p, uint8_t *at, uint64_t n) {
  for (uint64_t i = 0; i < n; i++) {
    skip_space(p);
    int high = p->end - p->p < 2 ? -1 : hex_digit(p->p[0]);
    int low = high < 0 ? -1 : hex_digit(p->p[1]);
    if (low < 0) return anfi_tp_next(p), anfi_tp_unexpected(p, "bytes in hexadecimal");
    at[i] = (uint8_t)(high << 4 | low);
    advance(p, 2);
  }
  anfi_tp_next(p);
  return anfi_tp_expect(p, "}");
}
