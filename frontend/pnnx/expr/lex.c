// SPDX-License-Identifier: Apache-2.0
/* Expression text to tokens.
 *   add(@0,2)   ->   operator add, left bracket, input number @0, comma, integer 2, right bracket
 * White space separates and means nothing.
 * INVARIANT: tokens do not overlap and come in the order of the text. */
#include "frontend/pnnx/pnnx.h"

#include <math.h>

typedef struct {
  anf_expr *e;
  size_t at;
} lexer;

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* The text ends with a NUL, so one character ahead may always be read. */
static char peek(const lexer *x) { return x->e->text[x->at]; }

/* The character at `at`, to be shown. */
static const char *character(const lexer *x, size_t at) {
  const char *s = x->e->text + at;
  size_t n = anfi_utf8_len(s, x->e->len - at);
  if (n && (unsigned char)*s >= ' ') return anfi_sprintf(anfi_scratch(x->e->cx), "%.*s", (int)n, s);
  return anfi_sprintf(anfi_scratch(x->e->cx), "\\x%02x", (unsigned char)*s);
}

static bool illegal(lexer *x) {
  return anfi_fail(x->e->cx, anfi_expr_place(x->e, x->at), ANF_E1002, character(x, x->at));
}

static bool missing(const lexer *x, size_t at, const char *what) {
  const char *found =
      at == x->e->len ? "the end" : anfi_sprintf(anfi_scratch(x->e->cx), "'%s'", character(x, at));
  return anfi_fail(x->e->cx, anfi_expr_place(x->e, at), ANF_E1003, found, what);
}

static bool put(lexer *x, anf_expr_token_kind kind, size_t start) {
  anfi_push(&x->e->arena, &x->e->tokens, ((anf_expr_token){kind, start, x->at}));
  return true;
}

static bool word_is(const lexer *x, size_t start, const char *w) {
  size_t n = strlen(w);
  return x->at - start == n && memcmp(x->e->text + start, w, n) == 0;
}

static void digits(lexer *x) {
  while (is_digit(peek(x))) x->at++;
}

static bool input_number(lexer *x) {
  size_t start = x->at++;
  digits(x);
  if (x->at > start + 1) return put(x, ANF_EXPR_INPUT_NUMBER, start);
  x->at = start;
  return missing(x, start + 1, "the number of an input after '@'");
}

/* inf, nan and digits with a point and an exponent; `*real` if it is no integer. */
static bool magnitude(lexer *x, bool *real) {
  if (is_letter(peek(x))) {
    size_t start = x->at;
    if (strncmp(x->e->text + start, "inf", 3) != 0 && strncmp(x->e->text + start, "nan", 3) != 0)
      return illegal(x);
    x->at += 3;
    return *real = true;
  }
  if (!is_digit(peek(x)) && !(peek(x) == '.' && is_digit(x->e->text[x->at + 1]))) return illegal(x);
  digits(x);
  if (peek(x) == '.') *real = true, x->at++;
  digits(x);
  if (peek(x) != 'e' && peek(x) != 'E') return true;
  size_t e = x->at++;
  if (peek(x) == '+' || peek(x) == '-') x->at++;
  if (!is_digit(peek(x))) return x->at = e, illegal(x);
  digits(x);
  return *real = true;
}

/* A real or imaginary part follows at once: 2.0+3.0j, and 2.0+-3.0j as pnnx writes. */
static bool number(lexer *x) {
  size_t start = x->at;
  bool real = false;
  if (peek(x) == '-') x->at++;
  if (!magnitude(x, &real)) return false;
  if (peek(x) == '+' || peek(x) == '-') {
    if (peek(x) == '+') x->at++;
    if (peek(x) == '-') x->at++;
    if (!magnitude(x, &real)) return false;
    if (peek(x) != 'j') return missing(x, x->at, "'j' after an imaginary part");
  }
  bool imaginary = peek(x) == 'j';
  if (imaginary) x->at++;
  if (is_letter(peek(x)) || is_digit(peek(x)) || peek(x) == '.') return illegal(x);
  return put(x, imaginary ? ANF_EXPR_COMPLEX : real ? ANF_EXPR_REAL : ANF_EXPR_INTEGER, start);
}

static bool word(lexer *x) {
  size_t start = x->at;
  while (is_letter(peek(x)) || is_digit(peek(x)) || peek(x) == '.') x->at++;
  if (word_is(x, start, "None") || word_is(x, start, "True") || word_is(x, start, "False"))
    return put(x, ANF_EXPR_WORD, start);
  if (!word_is(x, start, "inf") && !word_is(x, start, "nan"))
    return put(x, ANF_EXPR_OPERATOR, start);
  x->at = start;
  return number(x);
}

static bool token(lexer *x) {
  static const char punctuation[] = "()[],";
  static const anf_expr_token_kind kind[] = {ANF_EXPR_LEFT_BRACKET, ANF_EXPR_RIGHT_BRACKET,
                                             ANF_EXPR_LEFT_SQUARE, ANF_EXPR_RIGHT_SQUARE,
                                             ANF_EXPR_COMMA};
  char c = peek(x);
  const char *p = c ? strchr(punctuation, c) : NULL;
  if (p) return x->at++, put(x, kind[p - punctuation], x->at - 1);
  if (c == '@') return input_number(x);
  if (is_letter(c)) return word(x);
  if (is_digit(c) || c == '-' || c == '.') return number(x);
  return illegal(x);
}

bool anfi_expr_tokenize(anf_expr *e) {
  lexer x = {e, 0};
  for (;;) {
    while (is_space(peek(&x))) x.at++;
    if (x.at >= e->len) break;
    if (!token(&x)) return false;
  }
  if (e->tokens.n) return true;
  return anfi_fail(e->cx, anfi_expr_place(e, 0), ANF_E1001);
}
