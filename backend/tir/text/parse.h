// SPDX-License-Identifier: Apache-2.0
/* The parser of Tensor IR text, inside: recursive descent with a bounded depth. Every function that
 * gives a node, a name or a bool gives NULL or false once it has reported an error; the statement
 * that is current is then left out. */
#ifndef ANFI_TIR_PARSE_H
#define ANFI_TIR_PARSE_H

#include "backend/tir/tir.h"

typedef enum ttok { K_EOF, K_IDENT, K_NUMBER, K_PUNCT, K_BAD } ttok;

typedef struct token {
  ttok kind;
  const char *s;
  size_t len, digits; // of a number: its part before the suffix
  bool real;          // it has a point or an exponent
  uint32_t line, col;
} token;

typedef struct binding {
  const anfi_str *name;
  texpr was;
} binding;

/* A phi names values that are out of scope, or defined further down: found when the function is
 * read. */
typedef struct later {
  struct anf_tir_expr_node *phi;
  uint32_t operand;
  const anfi_str *name;
  anfi_loc at;
} later;

typedef struct tparser {
  /* where it is */
  anf_ctx *cx;
  tstore *t;
  anfi_arena *a;
  const char *p, *end;
  uint32_t line, col, depth;
  uint32_t last_line; // of the token before
  token tok;
  ANFI_VEC(char) comment;
  /* names */
  anfi_map vars;    // name → texpr
  anfi_map returns; // name → 1 + place in sigs
  ANFI_VEC(tdtype) sigs;
  ANFI_VEC(binding) scope;
  anfi_map ever; // name → what it last meant in the function
  ANFI_VEC(later) phis;
  tmod *m;
} tparser;

typedef ANFI_VEC(texpr) texprs;

/* parse_token.c */
void anfi_tp_next(tparser *p);
void anfi_tp_restart(tparser *p, const char *text); // before the first token
bool anfi_tp_is(const tparser *p, const char *s);
bool anfi_tp_accept(tparser *p, const char *s);
bool anfi_tp_expect(tparser *p, const char *s);
bool anfi_tp_unexpected(tparser *p, const char *wanted); // false
anfi_loc anfi_tp_here(const tparser *p);
void anfi_tp_at(tparser *p, anfi_loc at); // where the nodes made next stand
const char *anfi_tp_tok_text(tparser *p);
const anfi_str *anfi_tp_take_comment(tparser *p);
/* An integer up to max, decimal or 0x hexadecimal, and nothing else in the n bytes */
bool anfi_tp_digits(const char *s, size_t n, uint64_t max, uint64_t *v);
/* the current number as an integer up to max, without a suffix; `what` it should have been */
bool anfi_tp_count(tparser *p, uint64_t max, const char *what, uint64_t *v);
/* n bytes as pairs of hexadecimal digits, up to a brace, which becomes the current token */
bool anfi_tp_bytes(tparser *p, uint8_t *at, uint64_t n);
/* INVARIANT: each level of nesting of expressions and of statements counts. */
void anfi_tp_deeper(tparser *p, const char *what);

/* parse_type.c */
const anfi_str *anfi_tp_ident(tparser *p, const char *what);
void anfi_tp_declare(tparser *p, const anfi_str *name, texpr v);
void anfi_tp_leave_to(tparser *p, size_t n); // closes scopes down to n bindings
texpr anfi_tp_lookup(tparser *p, const anfi_str *name, anfi_loc at);
bool anfi_tp_is_type(const tparser *p);
bool anfi_tp_type(tparser *p, tdtype *d);
texpr anfi_tp_typed(tparser *p, const anfi_str *name); // ": type" after a name: what it declares
tattrs anfi_tp_attrs(tparser *p);                      // "@[...]", or none

/* parse_constant.c */
texpr anfi_tp_number(tparser *p, bool neg);
texpr anfi_tp_word(tparser *p, bool neg); // NULL without an error: it is no constant
bool anfi_tp_tile(tparser *p, uint16_t *lanes, uint16_t *rows); // "16", or "16x64" in one token
texpr anfi_tp_lanes(tparser *p, tdtype d, size_t n, const texpr *in, anfi_loc at);
texpr anfi_tp_parenthesised(tparser *p);
texpr anfi_tp_init_list(tparser *p, tdtype d);

/* parse_expr.c */
texpr anfi_tp_expr(tparser *p, int level); // of operators that bind stronger than level
texpr anfi_tp_unary(tparser *p);
bool anfi_tp_arguments(tparser *p, texprs *v, const char *close);
bool anfi_tp_fill_phis(tparser *p);

/* parse_stmt.c */
tstmt anfi_tp_scope(tparser *p);
tstmt anfi_tp_define(tparser *p, tlinkage l);
/* Goes on at the next line, or before what closes the scope. `line` is that of the statement. */
void anfi_tp_recover(tparser *p, uint32_t line);

#endif
