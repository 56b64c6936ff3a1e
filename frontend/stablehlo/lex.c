// SPDX-License-Identifier: Apache-2.0
/* MLIR's tokens, read one at a time from the text: a tensor type has none ("2x3xf32"), so there is no list of them.
 *   %1 = stablehlo.add   ->   anfi_sh_value_name: 1; anfi_sh_takes(r, "="); anfi_sh_word: stablehlo.add */
#include "frontend/stablehlo/stablehlo.h"

static bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '$';
}

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

void anfi_sh_space(anfi_sh_text *r) {
  while (r->at < r->end) {
    if (*r->at == '\n') r->line++, r->line_start = r->at + 1;
    if (is_blank(*r->at)) r->at++;
    else if (r->at[0] == '/' && r->at[1] == '/')
      while (r->at < r->end && *r->at != '\n') r->at++;
    else break;
  }
}

anfi_loc anfi_sh_loc(anfi_sh_text *r) {
  return (anfi_loc){r->m->file, r->line, (uint32_t)(r->at - r->line_start) + 1};
}

bool anfi_sh_wants(anfi_sh_text *r, const char *what) {
  anfi_sh_space(r);
  return !anfi_failed(r->m->cx) && anfi_fail(r->m->cx, anfi_sh_loc(r), ANF_E1220, what);
}

bool anfi_sh_sees(anfi_sh_text *r, const char *s) {
  anfi_sh_space(r);
  size_t n = strlen(s);
  if ((size_t)(r->end - r->at) < n || memcmp(r->at, s, n) != 0) return false;
  return !is_word(s[n - 1]) || !is_word(r->at[n]);
}

bool anfi_sh_takes(anfi_sh_text *r, const char *s) {
  if (!anfi_sh_sees(r, s)) return false;
  r->at += strlen(s);
  return true;
}

bool anfi_sh_expect(anfi_sh_text *r, const char *s) {
  return anfi_sh_takes(r, s) || anfi_sh_wants(r, s);
}

static const anfi_str *text_of(anfi_sh_text *r, const char *from) {
  return anfi_intern(&r->m->cx->strings, from, (size_t)(r->at - from));
}

const anfi_str *anfi_sh_word(anfi_sh_text *r) {
  anfi_sh_space(r);
  const char *from = r->at;
  while (r->at < r->end && is_word(*r->at)) r->at++;
  return r->at > from ? text_of(r, from) : NULL;
}

/* Escapes stay as they are: names and options are compared, not shown. */
const anfi_str *anfi_sh_quoted(anfi_sh_text *r) {
  if (!anfi_sh_expect(r, "\"")) return NULL;
  const char *from = r->at;
  while (r->at < r->end && *r->at != '"' && *r->at != '\n')
    r->at += r->at[0] == '\\' && r->at + 1 < r->end ? 2 : 1;
  if (r->at >= r->end || *r->at != '"') return (void)anfi_sh_wants(r, "the end of a text"), NULL;
  const anfi_str *s = text_of(r, from);
  r->at++;
  return s;
}

const anfi_str *anfi_sh_value_name(anfi_sh_text *r) {
  if (!anfi_sh_expect(r, "%")) return NULL;
  const char *from = r->at;
  while (r->at < r->end && (is_word(*r->at) || *r->at == '-')) r->at++;
  return r->at > from ? text_of(r, from) : ((void)anfi_sh_wants(r, "the name of a value"), NULL);
}

/* Brackets are counted, not matched by kind. */
bool anfi_sh_skip(anfi_sh_text *r) {
  size_t depth = 0;
  do {
    anfi_sh_space(r);
    if (r->at >= r->end) return anfi_sh_wants(r, "a closing bracket");
    char c = *r->at;
    if (c == '"') {
      if (!anfi_sh_quoted(r)) return false;
      continue;
    }
    if (c == '-' && r->at[1] == '>') {
      r->at += 2;
      continue;
    }
    depth += c == '<' || c == '(' || c == '[' || c == '{';
    depth -= c == '>' || c == ')' || c == ']' || c == '}';
    r->at++;
  } while (depth);
  return true;
}
