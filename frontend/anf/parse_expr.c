// SPDX-License-Identifier: Apache-2.0
/* Expressions, by precedence climbing with Python's levels.
 *   a + b - c * d    ->   one node for the operators of a level: (a, + b, - (c * d))
 * Operators of one level that follow each other make one n-ary node, so a sum of 10^6 terms is one node and no depth. */
#include "frontend/anf/anf.h"

enum { L_NONE, L_OR, L_AND, L_NOT, L_COMPARE, L_PIPE, L_CARET, L_AMP, L_SHIFT, L_ADD, L_MUL };

static int level_of(const token *t) {
  switch (t->kind) {
  case W_or: return L_OR;
  case W_and: return L_AND;
  case T_LT:
  case T_LE:
  case T_GT:
  case T_GE:
  case T_EQ:
  case T_NE: return L_COMPARE;
  case T_PIPE: return L_PIPE;
  case T_CARET: return L_CARET;
  case T_AMP: return L_AMP;
  case T_LSHIFT:
  case T_RSHIFT: return L_SHIFT;
  case T_PLUS:
  case T_MINUS: return L_ADD;
  case T_STAR:
  case T_SLASH:
  case T_DSLASH:
  case T_PERCENT:
  case T_AT: return L_MUL;
  default: return L_NONE;
  }
}

static ast *parse_binary(parser *p, int min);

static ast *error_at(parser *p, const token *t) { return anfi_ast(p, A_ERROR, t, 0); }

/* ---- brackets ---- */

/* Items up to the closing bracket onto the stack; true in *comma if one ended with a comma. */
static bool parse_items(parser *p, tok close, const token *open, ast *(*item)(parser *),
                        bool *comma) {
  *comma = false;
  if (!anfi_parse_enter(p)) return false;
  uint32_t inside = p->inside++;
  anfi_parse_advance(p);
  while (!anfi_parse_at(p, close) && !p->panic) {
    anfi_parse_keep(p, item(p));
    *comma = anfi_parse_at(p, T_COMMA);
    if (!*comma) break;
    anfi_parse_advance(p);
  }
  p->inside = inside;
  anfi_parse_leave(p);
  return !p->panic && anfi_parse_close(p, close, open);
}

static ast *parse_paren(parser *p) {
  token open = p->t;
  size_t base = p->stack.n;
  bool comma;
  parse_items(p, T_RPAREN, &open, anfi_parse_expr, &comma);
  if (p->stack.n == base + 1 && !comma) {
    ast *e = p->stack.at[--p->stack.n];
    e->flags |= A_PAREN;
    return e;
  }
  return anfi_ast_of(p, A_TUPLE, &open, base);
}

static ast *parse_group(parser *p, akind kind, tok close, ast *(*item)(parser *)) {
  token open = p->t;
  size_t base = p->stack.n;
  bool comma;
  parse_items(p, close, &open, item, &comma);
  return anfi_ast_of(p, kind, &open, base);
}

/* name = value, or a value */
static ast *parse_argument(parser *p) {
  token t = p->t;
  size_t reads = p->reads.n;
  ast *e = anfi_parse_expr(p);
  if (e->kind != A_NAME || !anfi_parse_at(p, T_ASSIGN) || (e->flags & A_PAREN)) return e;
  p->reads.n = reads; // the name was no read
  anfi_parse_advance(p);
  ast *value = anfi_parse_expr(p), *k = anfi_ast(p, A_KEYWORD, &t, 1);
  k->u.word = e->u.word;
  k->kid[0] = value;
  return k;
}

static ast *parse_record_field(parser *p) {
  ast *e = parse_argument(p);
  if (e->kind != A_KEYWORD && e->kind != A_ERROR) {
    if (!p->panic) anfi_parse_fail(p, "'=' and the value of a field");
  }
  return e;
}

static ast *slice_part(parser *p) {
  bool absent =
      anfi_parse_at(p, T_COLON) || anfi_parse_at(p, T_COMMA) || anfi_parse_at(p, T_RBRACK);
  return absent ? NULL : anfi_parse_expr(p);
}

/* i, a:b:c, ... */
static ast *parse_subscript(parser *p) {
  token t = p->t;
  if (anfi_parse_at(p, T_ELLIPSIS)) {
    anfi_parse_advance(p);
    return anfi_ast(p, A_ELLIPSIS, &t, 0);
  }
  ast *from = slice_part(p);
  if (!anfi_parse_at(p, T_COLON))
    return from ? from : (anfi_parse_fail(p, "an index"), error_at(p, &t));
  ast *s = anfi_ast(p, A_SLICE, &t, 3);
  s->kid[0] = from;
  anfi_parse_advance(p);
  s->kid[1] = slice_part(p);
  s->kid[2] = NULL;
  if (anfi_parse_at(p, T_COLON)) anfi_parse_advance(p), s->kid[2] = slice_part(p);
  return s;
}

/* ---- numbers, strings, names ---- */

static bool parse_digits(const char *s, size_t n, uint64_t *out) {
  uint64_t base = 10, v = 0;
  if (n > 2 && s[0] == '0' && (s[1] == 'x' || s[1] == 'b' || s[1] == 'o')) {
    base = s[1] == 'x' ? 16 : s[1] == 'b' ? 2 : 8;
    s += 2, n -= 2;
  }
  for (size_t i = 0; i < n; i++) {
    if (s[i] == '_') continue;
    uint64_t d = s[i] <= '9' ? (uint64_t)(s[i] - '0') : (uint64_t)((s[i] | 32) - 'a' + 10);
    if (v > (UINT64_MAX - d) / base) return false;
    v = v * base + d;
  }
  *out = v;
  return true;
}

static ast *parse_int(parser *p) {
  token t = p->t;
  ast *e = anfi_ast(p, A_INT, &t, 0);
  if (!parse_digits(p->lx.text + t.off, t.len, &e->u.u64)) {
    anfi_fail(p->cx, anfi_parse_loc(p, &t), ANF_E0106);
    e->kind = A_ERROR;
  }
  anfi_parse_advance(p);
  return e;
}

static ast *parse_string(parser *p) {
  token t = p->t;
  ast *e = anfi_ast(p, A_STR, &t, 0);
  string *s = ANFI_NEW(p->a, string);
  s->s = anfi_lex_string(&p->lx, &t, &s->n);
  e->u.str = s;
  anfi_parse_advance(p);
  return e;
}

static ast *parse_leaf(parser *p, akind kind) {
  ast *e = anfi_ast(p, kind, &p->t, 0);
  e->op = p->t.kind;
  anfi_parse_advance(p);
  return e;
}

static ast *parse_name(parser *p) {
  ast *e = anfi_ast(p, A_NAME, &p->t, 0);
  e->u.word = p->t.word;
  e->op = p->t.quoted;
  anfi_push(p->a, &p->reads, (uint64_t)p->t.word->id << 32 | p->t.off);
  anfi_parse_advance(p);
  return e;
}

/* type(T): any type as a value */
static ast *parse_type_value(parser *p) {
  token t = p->t;
  anfi_parse_advance(p);
  token open = p->t;
  if (!anfi_parse_expect(p, T_LPAREN, "'('")) return error_at(p, &t);
  p->inside++;
  const anf_type *ty = anfi_parse_type_at(p);
  p->inside--;
  if (!ty || !anfi_parse_close(p, T_RPAREN, &open)) return error_at(p, &t);
  ast *e = anfi_ast(p, A_TYPE, &t, 0);
  e->u.type = ty;
  return e;
}

static ast *parse_fn(parser *p) {
  token t = p->t;
  anfi_parse_advance(p);
  func *f = anfi_parse_func(p, &t, NULL);
  ast *e = anfi_ast(p, A_FN, &t, 0);
  e->u.fn = f;
  return e;
}

static ast *parse_if(parser *p) {
  token t = p->t;
  size_t base = p->stack.n, assigns = p->assigns.n;
  uint16_t outer = p->exits;
  p->exits = 0;
  for (bool more = true; more && !p->panic;) {
    anfi_parse_advance(p);
    anfi_parse_keep(p, anfi_parse_expr(p));
    anfi_parse_keep(p, anfi_parse_block(p));
    more = false;
    if (!anfi_parse_at(p, W_else) || p->panic) break;
    anfi_parse_advance(p);
    more = anfi_parse_at(p, W_if);
    if (!more) anfi_parse_keep(p, anfi_parse_block(p));
  }
  ast *e = anfi_ast_of(p, A_IF, &t, base);
  e->u.assigned = anfi_parse_assigned(p, assigns);
  e->flags |= p->exits;
  p->exits |= outer;
  if (p->fn) p->fn->has_flow = true;
  return e;
}

static ast *parse_primary(parser *p) {
  token t = p->t;
  switch (t.kind) {
  case T_NAME:
  case W_partial: return parse_name(p);
  case T_INT: return parse_int(p);
  case T_FLOAT:
  case W_inf:
  case W_nan: return parse_leaf(p, A_FLOAT);
  case W_true:
  case W_false:
  case W_None: return parse_leaf(p, A_WORD);
  case T_STR: return parse_string(p);
  case T_QUESTION: return parse_leaf(p, A_HOLE);
  case T_LPAREN: return parse_paren(p);
  case T_LBRACK: return parse_group(p, A_LIST, T_RBRACK, anfi_parse_expr);
  case T_LBRACE: return parse_group(p, A_RECORD, T_RBRACE, parse_record_field);
  case W_type: return parse_type_value(p);
  case W_fn: return parse_fn(p);
  case W_if: return parse_if(p);
  default: anfi_parse_fail(p, "an expression"); return error_at(p, &t);
  }
}

/* ---- f(x)[i].w ---- */

static ast *parse_brackets(parser *p, akind kind, tok close, ast *(*item)(parser *)) {
  token open = p->t;
  size_t base = p->stack.n;
  bool comma;
  parse_items(p, close, &open, item, &comma);
  ast *e = anfi_ast_of(p, kind, &open, base);
  if (comma) e->flags |= A_COMMA;
  return e;
}

static ast *parse_field(parser *p) {
  anfi_parse_advance(p);
  ast *e = anfi_ast(p, A_FIELD, &p->t, 0);
  if (p->t.kind == T_INT && p->lx.text[p->t.off] != '0') anfi_parse_fail(p, "the name of a field");
  else if (p->t.kind != T_NAME && p->t.kind >= NWORD) anfi_parse_fail(p, "the name of a field");
  else e->u.word = p->t.word, anfi_parse_advance(p);
  if (p->panic) e->kind = A_ERROR;
  return e;
}

static ast *parse_postfix(parser *p) {
  token t = p->t;
  ast *e = parse_primary(p);
  size_t base = p->stack.n;
  while (!anfi_parse_line_ends(p) && !p->panic) {
    ast *next = NULL;
    if (anfi_parse_at(p, T_LPAREN)) next = parse_brackets(p, A_CALL, T_RPAREN, parse_argument);
    else if (anfi_parse_at(p, T_LBRACK))
      next = parse_brackets(p, A_INDEX, T_RBRACK, parse_subscript);
    else if (anfi_parse_at(p, T_DOT)) next = parse_field(p);
    else break;
    if (p->stack.n == base) anfi_parse_keep(p, e);
    anfi_parse_keep(p, next);
  }
  if (p->stack.n == base) return e;
  ast *all = anfi_ast_of(p, A_POSTFIX, &t, base);
  if (all->kid[0]->kind == A_NAME && all->kid[1]->kind == A_FIELD)
    anfi_push(p->a, &p->dots, ((dotted){p->fn, all->kid[0]->u.word}));
  return all;
}

/* ---- operators ---- */

static ast *parse_unary(parser *p);

static ast *finish_chain(parser *p, akind kind, const token *t, size_t base, size_t ops) {
  ast *e = anfi_ast_of(p, kind, t, base);
  size_t n = p->ops.n - ops;
  op_at *at = ANFI_NEW_N(p->a, op_at, n);
  if (n) memcpy(at, p->ops.at + ops, n * sizeof *at);
  e->u.ops = at;
  p->ops.n = ops;
  return e;
}

static void push_op(parser *p) {
  anfi_push(p->a, &p->ops, ((op_at){p->t.kind, p->t.line, p->t.col}));
  anfi_parse_advance(p);
}

/* a ** b ** c, from the right; an exponent may have a sign */
static ast *parse_power(parser *p) {
  token t = p->t;
  ast *e = parse_postfix(p);
  if (!anfi_parse_at(p, T_STARSTAR) || anfi_parse_line_ends(p)) return e;
  size_t base = p->stack.n, ops = p->ops.n;
  anfi_parse_keep(p, e);
  while (anfi_parse_at(p, T_STARSTAR) && !anfi_parse_line_ends(p) && !p->panic) {
    push_op(p);
    bool sign = anfi_parse_at(p, T_MINUS) || anfi_parse_at(p, T_PLUS) || anfi_parse_at(p, T_TILDE);
    anfi_parse_keep(p, sign ? parse_unary(p) : parse_postfix(p));
  }
  return finish_chain(p, A_POWER, &t, base, ops);
}

/* A sign before a number is part of it: -9223372036854775808 has no positive twin. */
static ast *unary_of(parser *p, const token *t, ast *e) {
  bool number = (e->kind == A_INT || e->kind == A_FLOAT) && !(e->flags & A_PAREN);
  if (t->kind == T_MINUS && number) {
    e->op = e->kind == A_INT ? 1 : (uint8_t)(e->op | 0x80);
    e->flags |= A_PAREN; // its sign is settled
    e->line = t->line;
    e->col = t->col;
    return e;
  }
  ast *u = anfi_ast(p, A_UNARY, t, 1);
  u->op = t->kind;
  u->kid[0] = e;
  u->end = e->end;
  return u;
}

static ast *parse_unary(parser *p) {
  token t = p->t;
  bool sign = t.kind == T_MINUS || t.kind == T_PLUS || t.kind == T_TILDE;
  if (!sign && t.kind != W_not) return parse_power(p);
  if (!anfi_parse_enter(p)) return error_at(p, &t);
  anfi_parse_advance(p);
  ast *e = sign ? parse_unary(p) : parse_binary(p, L_COMPARE);
  anfi_parse_leave(p);
  return unary_of(p, &t, e);
}

static bool at_level(const parser *p, int level) {
  return level_of(&p->t) == level && !anfi_parse_line_ends(p) && !p->panic;
}

static ast *parse_binary(parser *p, int min) {
  token t = p->t;
  ast *e = parse_unary(p);
  for (;;) {
    int level = level_of(&p->t);
    if (level == L_NONE || level < min || !at_level(p, level)) return e;
    size_t base = p->stack.n, ops = p->ops.n;
    anfi_parse_keep(p, e);
    while (at_level(p, level)) {
      push_op(p);
      anfi_parse_keep(p, parse_binary(p, level + 1));
    }
    e = finish_chain(p, A_CHAIN, &t, base, ops);
  }
}

ast *anfi_parse_expr(parser *p) { return parse_binary(p, L_OR); }

ast *anfi_parse_exprs(parser *p) {
  token t = p->t;
  ast *e = anfi_parse_expr(p);
  if (!anfi_parse_at(p, T_COMMA) || anfi_parse_line_ends(p)) return e;
  size_t base = p->stack.n;
  anfi_parse_keep(p, e);
  while (anfi_parse_at(p, T_COMMA) && !p->panic) {
    anfi_parse_advance(p);
    bool ends = anfi_parse_at(p, T_ASSIGN) || anfi_parse_at(p, T_SEMI) ||
                anfi_parse_at(p, T_RBRACE) || anfi_parse_at(p, T_EOF);
    if (ends) break; // a trailing comma
    anfi_parse_keep(p, anfi_parse_expr(p));
  }
  e = anfi_ast_of(p, A_TUPLE, &t, base);
  e->flags |= A_COMMA;
  return e;
}
