// SPDX-License-Identifier: Apache-2.0
/* Characters to tokens, on demand.
 *   x = y // 2      ->   name x, =, name y, //, number 2
 * Linear: the column is carried along, never counted again. Hard case: two spellings mean an operator after an operand and
 * something else elsewhere: `//` starts a comment where no operator can stand, and `%7` is a node without a name there.
 * INVARIANT: an error is recorded once for each bad token and lexing goes on after it. */
#include "frontend/anf/anf.h"

static const char *const words[] = {
#define ANF_WORD(w) #w,
#include "ir/word.def"
#undef ANF_WORD
};

void anfi_lex_init(lexer *lx, anf_ctx *cx, anfi_arena *a, anfi_strtab *tab, const char *file,
                   const char *text, uint32_t len) {
  *lx = (lexer){.cx = cx, .a = a, .words = tab, .text = text, .len = len, .line = 1, .col = 1};
  lx->file = anfi_intern_z(&cx->strings, file)->s;
  for (size_t i = 0; i < NWORD; i++) anfi_intern_z(tab, words[i]); // ORDER: ids are token kinds,
  for (int d = 0; d < ANF_DTYPE_COUNT; d++)
    anfi_intern_z(tab, anf_dtype_name((anf_dtype)d)); // then element types
  lx->effect = anfi_intern_z(tab, "effect");
  lx->before = (token){.kind = T_SEMI};
  if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
    lx->at = 3; // a byte order mark says nothing
}

static anfi_loc here(const lexer *lx) { return (anfi_loc){lx->file, lx->line, lx->col}; }
static anfi_loc place(const lexer *lx, const token *t) {
  return (anfi_loc){lx->file, t->line, t->col};
}
static char peek(const lexer *lx, uint32_t k) {
  return lx->len - lx->at > k ? lx->text[lx->at + k] : 0;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static bool is_high(char c) { return (unsigned char)c >= 0x80; }

static void newline(lexer *lx) {
  lx->at++;
  lx->line++;
  lx->col = 1;
}

/* Steps over one character; false, with an error and a step of one byte, if it is not UTF-8. */
static bool step(lexer *lx) {
  size_t n = anfi_utf8_len(lx->text + lx->at, lx->len - lx->at);
  if (!n) {
    anfi_fail(lx->cx, here(lx), ANF_E0101, (unsigned)(unsigned char)lx->text[lx->at]);
    if (!anfi_more_errors(lx->cx)) lx->stop = true;
  }
  lx->at += n ? (uint32_t)n : 1;
  lx->col++;
  return n != 0;
}

static void skip_comment(lexer *lx) {
  while (lx->at < lx->len && lx->text[lx->at] != '\n' && !lx->stop) step(lx);
}

/* Can the token before be the left operand of the current operator? */
static bool after_operand(const lexer *lx, bool nl) {
  if (nl) return false;
  switch (lx->before.kind) {
  case T_NAME: return !(lx->before.nl && lx->before.word == lx->effect);
  case T_INT:
  case T_FLOAT:
  case T_STR:
  case T_RPAREN:
  case T_RBRACK:
  case T_QUESTION:
  case T_ELLIPSIS:
  case W_true:
  case W_false:
  case W_None:
  case W_inf:
  case W_nan: return true;
  default: return false;
  }
}

/* Spaces and comments; true if a line ended. */
static bool skip_blank(lexer *lx) {
  bool nl = false;
  while (lx->at < lx->len && !lx->stop) {
    char c = lx->text[lx->at];
    if (c == '\n') nl = true, newline(lx);
    else if (c == ' ' || c == '\t' || c == '\r') lx->at++, lx->col++;
    else if (c == '#' || (c == '/' && peek(lx, 1) == '/' && !after_operand(lx, nl)))
      skip_comment(lx);
    else break;
  }
  return nl;
}

static bool step_name(lexer *lx) {
  char c = peek(lx, 0);
  if (is_letter(c) || is_digit(c)) {
    lx->at++, lx->col++;
    return true;
  }
  if (!is_high(c)) return false;
  size_t n = anfi_utf8_len(lx->text + lx->at, lx->len - lx->at);
  if (!n) return false;
  lx->at += (uint32_t)n, lx->col++;
  return true;
}

static void lex_name(lexer *lx, token *t) {
  while (lx->at < lx->len && step_name(lx)) {
  }
  t->word = anfi_intern(lx->words, lx->text + t->off, lx->at - t->off);
  t->kind = t->word->id < NWORD ? (uint8_t)t->word->id : T_NAME;
}

/* The number in "%7" if it is written plainly and has a place in the table of such names, or 0. The
 * table never is larger than the text, however large the numbers. */
static uint32_t unnamed_number(lexer *lx) {
  uint32_t at = lx->at + 1, k = 0;
  if (peek(lx, 1) == '0') return 0;
  while (at < lx->len && is_digit(lx->text[at]) && k <= lx->len / 8)
    k = k * 10 + (uint32_t)(lx->text[at++] - '0');
  bool plain =
      k <= lx->len / 8 && (at == lx->len || !(is_letter(lx->text[at]) || is_high(lx->text[at])));
  return plain ? k : 0;
}

/* %7: a large .ir text has hardly any other names, so they are found by number and not by hash. */
static void lex_unnamed(lexer *lx, token *t) {
  uint32_t k = unnamed_number(lx);
  lx->at++, lx->col++;
  if (!k) lex_name(lx, t);
  else {
    while (lx->unnamed.n <= k) anfi_push(lx->a, &lx->unnamed, NULL);
    const anfi_str **known = &lx->unnamed.at[k];
    while (is_digit(peek(lx, 0))) lx->at++, lx->col++;
    if (!*known) *known = anfi_intern(lx->words, lx->text + t->off, lx->at - t->off);
    t->word = *known;
  }
  t->kind = T_NAME;
}

static void skip_digits(lexer *lx) {
  while (is_digit(peek(lx, 0)) || peek(lx, 0) == '_') lx->at++, lx->col++;
}

static bool lex_exponent(lexer *lx) {
  char c = peek(lx, 0);
  if (c != 'e' && c != 'E') return false;
  uint32_t k = peek(lx, 1) == '+' || peek(lx, 1) == '-' ? 2 : 1;
  if (!is_digit(peek(lx, k))) return false;
  lx->at += k, lx->col += k;
  skip_digits(lx);
  return true;
}

static void lex_radix(lexer *lx) {
  lx->at += 2, lx->col += 2;
  while (is_letter(peek(lx, 0)) || is_digit(peek(lx, 0))) lx->at++, lx->col++;
}

static bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool good_radix(const lexer *lx, const token *t) {
  char x = lx->text[t->off + 1];
  for (uint32_t i = t->off + 2; i < lx->at; i++) {
    char c = lx->text[i];
    bool good = x == 'b' ? c == '0' || c == '1' : x == 'o' ? c >= '0' && c <= '7' : is_hex(c);
    if (!good && c != '_') return false;
  }
  return lx->at > t->off + 2;
}

static void lex_number(lexer *lx, token *t) {
  t->kind = T_INT;
  char x = peek(lx, 1);
  bool good = true;
  if (peek(lx, 0) == '0' && (x == 'x' || x == 'b' || x == 'o')) {
    lex_radix(lx);
    good = good_radix(lx, t);
  } else {
    skip_digits(lx);
    if (peek(lx, 0) == '.' && peek(lx, 1) != '.') { // 0..n is a range
      t->kind = T_FLOAT;
      lx->at++, lx->col++;
      skip_digits(lx);
    }
    if (lex_exponent(lx)) t->kind = T_FLOAT;
    if (is_letter(peek(lx, 0)) || is_high(peek(lx, 0))) {
      good = false;
      while (lx->at < lx->len && step_name(lx)) {
      }
    }
  }
  if (good && lx->text[lx->at - 1] != '_') return;
  uint32_t n = lx->at - t->off;
  anfi_fail(lx->cx, place(lx, t), ANF_E0105, (int)(n < 40 ? n : 40), lx->text + t->off);
  anfi_hint(lx->cx, "numbers are written 3, 1.5, 1e-3, 0xff");
}

/* To the closing quote, or the end of the line. Escapes are decoded by anfi_lex_string. */
static void lex_quoted(lexer *lx, token *t, char quote) {
  lx->at++, lx->col++;
  while (lx->at < lx->len && lx->text[lx->at] != '\n' && lx->text[lx->at] != quote && !lx->stop) {
    bool escape = lx->text[lx->at] == '\\' && lx->at + 1 < lx->len && lx->text[lx->at + 1] != '\n';
    if (escape) lx->at++, lx->col++;
    step(lx);
  }
  if (lx->at < lx->len && lx->text[lx->at] == quote) lx->at++, lx->col++;
  else if (!lx->stop) anfi_fail(lx->cx, place(lx, t), ANF_E0103, quote);
}

static void lex_backtick(lexer *lx, token *t) {
  lex_quoted(lx, t, '`');
  t->kind = T_NAME;
  t->quoted = true;
  t->len = lx->at - t->off;
  size_t n;
  char *s = anfi_lex_string(lx, t, &n);
  if (memchr(s, 0, n)) { // names are C strings
    anfi_fail(lx->cx, place(lx, t), ANF_E0102, "\\x00");
    n = strlen(s);
  }
  /* A quoted name is the same name as the plain one; but what is no name without quotes, a reserved
   * word or %7, gets an entry of its own, with a NUL in front. */
  const anfi_str *w = anfi_interned(lx->words, s, n);
  anf_dtype d;
  bool reserved = w && (w->id < NWORD || (anfi_word_dtype(w, &d) && d != ANF_KEY));
  if (reserved || (n && s[0] == '%')) {
    char *own = (char *)anfi_zalloc(lx->a, n + 1);
    memcpy(own + 1, s, n);
    t->word = anfi_intern(lx->words, own, n + 1);
  } else t->word = anfi_intern(lx->words, s, n);
}

/* Tokens of an operator character: alone, doubled, and before '='. 0: none. */
typedef struct {
  uint8_t alone, doubled, equals;
} operator_char;

static operator_char operator_of(char c) { /* dispatch */
  switch (c) {
  case '+': return (operator_char){T_PLUS, 0, T_AUG};
  case '-': return (operator_char){T_MINUS, 0, T_AUG};
  case '*': return (operator_char){T_STAR, T_STARSTAR, T_AUG};
  case '/': return (operator_char){T_SLASH, T_DSLASH, T_AUG};
  case '%': return (operator_char){T_PERCENT, 0, T_AUG};
  case '@': return (operator_char){T_AT, 0, T_AUG};
  case '&': return (operator_char){T_AMP, 0, T_AUG};
  case '|': return (operator_char){T_PIPE, 0, T_AUG};
  case '^': return (operator_char){T_CARET, 0, T_AUG};
  case '<': return (operator_char){T_LT, T_LSHIFT, T_LE};
  case '>': return (operator_char){T_GT, T_RSHIFT, T_GE};
  case '=': return (operator_char){T_ASSIGN, 0, T_EQ};
  case '!': return (operator_char){0, 0, T_NE};
  case '.': return (operator_char){T_DOT, T_DOTDOT, 0};
  case '(': return (operator_char){T_LPAREN, 0, 0};
  case ')': return (operator_char){T_RPAREN, 0, 0};
  case '[': return (operator_char){T_LBRACK, 0, 0};
  case ']': return (operator_char){T_RBRACK, 0, 0};
  case '{': return (operator_char){T_LBRACE, 0, 0};
  case '}': return (operator_char){T_RBRACE, 0, 0};
  case ',': return (operator_char){T_COMMA, 0, 0};
  case ';': return (operator_char){T_SEMI, 0, 0};
  case ':': return (operator_char){T_COLON, 0, 0};
  case '?': return (operator_char){T_QUESTION, 0, 0};
  case '~': return (operator_char){T_TILDE, 0, 0};
  default: return (operator_char){0, 0, 0};
  }
}

static bool take(lexer *lx, token *t, uint8_t kind, uint32_t n) {
  t->kind = kind;
  lx->at += n, lx->col += n;
  return true;
}

static bool lex_punct(lexer *lx, token *t) {
  char c = peek(lx, 0), d = peek(lx, 1);
  operator_char is = operator_of(c);
  if (c == '-' && d == '>') return take(lx, t, T_ARROW, 2);
  if (c == '.' && d == '.' && peek(lx, 2) == '.') return take(lx, t, T_ELLIPSIS, 3);
  if (d == c && is.doubled) {
    t->op = is.doubled;
    bool assigns = peek(lx, 2) == '=' && is.doubled != T_DOTDOT;
    return take(lx, t, assigns ? T_AUG : is.doubled, assigns ? 3 : 2);
  }
  if (d == '=' && is.equals) {
    t->op = is.alone;
    return take(lx, t, is.equals, 2);
  }
  return is.alone && take(lx, t, is.alone, 1);
}

/* One step over what begins no token, with an error. */
static void lex_bad(lexer *lx) {
  anfi_loc loc = here(lx);
  uint32_t from = lx->at;
  if (!step(lx)) return;
  unsigned char c = (unsigned char)lx->text[from];
  if (c < 0x20 || c == 0x7f) anfi_fail(lx->cx, loc, ANF_E0102, anfi_sprintf(lx->a, "\\x%02x", c));
  else {
    const char *text = anfi_strndup(lx->a, lx->text + from, lx->at - from);
    anfi_fail(lx->cx, loc, ANF_E0102, text);
    if (c == '\'') anfi_hint(lx->cx, "a text is written between double quotes");
    anfi_hint_habit(lx->cx, text);
  }
  if (!anfi_more_errors(lx->cx)) lx->stop = true;
}

static bool starts_name(const lexer *lx) {
  char c = peek(lx, 0);
  return is_letter(c) || (is_high(c) && anfi_utf8_len(lx->text + lx->at, lx->len - lx->at));
}

static bool lex_token(lexer *lx, token *t) {
  if (peek(lx, 0) == '%' && is_digit(peek(lx, 1)) && !after_operand(lx, t->nl))
    return lex_unnamed(lx, t), true;
  char c = peek(lx, 0), next = peek(lx, 1);
  if (starts_name(lx)) lex_name(lx, t);
  else if (is_digit(c) || (c == '.' && is_digit(next))) lex_number(lx, t);
  else if (c == '"') t->kind = T_STR, lex_quoted(lx, t, '"');
  else if (c == '`') lex_backtick(lx, t);
  else return lex_punct(lx, t);
  return true;
}

void anfi_lex_next(lexer *lx, token *t) {
  bool nl = false;
  for (;;) {
    nl |= skip_blank(lx);
    *t = (token){.kind = T_EOF, .nl = nl, .off = lx->at, .line = lx->line, .col = lx->col};
    if (lx->stop || lx->at >= lx->len) return;
    if (lex_token(lx, t)) break;
    lex_bad(lx);
  }
  t->len = lx->at - t->off;
  lx->before = *t;
}

static int hex(char c) { return is_digit(c) ? c - '0' : (c | 32) - 'a' + 10; }

static size_t put_utf8(char *to, uint32_t c) {
  if (c < 0x80) return to[0] = (char)c, 1;
  size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  for (size_t i = n - 1; i > 0; i--, c >>= 6) to[i] = (char)(0x80 | (c & 0x3f));
  to[0] = (char)((n == 2 ? 0xc0u : n == 3 ? 0xe0u : 0xf0u) | c);
  return n;
}

/* \u{1f600}: from the brace on; returns what it took, 0 if it is bad. */
static size_t unescape_unicode(const char *s, const char *end, char **to) {
  uint32_t c = 0;
  const char *p = s + 1;
  if (p > end || *s != '{') return 0;
  for (; p < end && is_hex(*p) && c < 0x110000; p++) c = c * 16 + (uint32_t)hex(*p);
  if (p == s + 1 || p >= end || *p != '}' || c >= 0x110000 || (c >= 0xd800 && c < 0xe000)) return 0;
  *to += put_utf8(*to, c);
  return (size_t)(p + 1 - s);
}

/* After the backslash; returns how many characters it took, 0 if it is bad. */
static size_t unescape(const char *s, const char *end, char **to) {
  static const char from[] = "ntr0\\\"`'", is[] = "\n\t\r\0\\\"`'";
  if (*s == 'x' && end - s >= 3 && is_hex(s[1]) && is_hex(s[2])) {
    *(*to)++ = (char)(hex(s[1]) * 16 + hex(s[2]));
    return 3;
  }
  if (*s == 'u') {
    size_t n = unescape_unicode(s + 1, end, to);
    return n ? n + 1 : 0;
  }
  const char *k = *s ? strchr(from, *s) : NULL;
  if (!k) return 0;
  *(*to)++ = is[k - from];
  return 1;
}

char *anfi_lex_string(lexer *lx, const token *t, size_t *len) {
  const char *s = lx->text + t->off + 1, *end = lx->text + t->off + t->len;
  if (t->len > 1 && end[-1] == lx->text[t->off]) end--; // else it was not closed
  char *out = (char *)anfi_alloc(lx->a, (size_t)(end - s) + 1), *to = out;
  uint32_t col = t->col + 1;
  for (; s < end; col++) {
    if (*s != '\\') {
      size_t n = anfi_utf8_len(s, (size_t)(end - s));
      n = n ? n : 1;
      memcpy(to, s, n);
      to += n, s += n;
      continue;
    }
    size_t n = s + 1 < end ? unescape(s + 1, end, &to) : 0;
    if (!n) {
      anfi_fail(lx->cx, (anfi_loc){lx->file, t->line, col}, ANF_E0104);
      anfi_hint(lx->cx, "escapes are \\n \\t \\r \\0 \\\\ \\\" \\` \\' \\x7f \\u{3c0}");
    }
    col += (uint32_t)n;
    s += n + 1;
  }
  *to = 0;
  *len = (size_t)(to - out);
  return out;
}

const char *anfi_tok_name(anfi_arena *a, const lexer *lx, const token *t) {
  if (t->kind == T_EOF) return "the end of the text";
  uint32_t n = t->len < 40 ? t->len : 40;
  while (n < t->len && n > 0 && ((unsigned char)lx->text[t->off + n] & 0xc0) == 0x80) n--;
  return anfi_sprintf(a, "'%.*s%s'", (int)n, lx->text + t->off, n < t->len ? "..." : "");
}
