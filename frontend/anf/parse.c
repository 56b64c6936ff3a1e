// SPDX-License-Identifier: Apache-2.0
/* Tokens to tree: modules, functions, statements. Recursive descent, bounded by max_nesting.
 *   def f(x) { y = (x; y }      an error at `;`: expected ',' or ')'
 * Recovery: after an error the rest of the statement is skipped, brackets and blocks in it included. */
#include "frontend/anf/anf.h"

void anfi_parse_init(parser *p, anf_ctx *cx, anfi_arena *a, const char *file, const char *text,
                     uint32_t len) {
  *p = (parser){.cx = cx, .a = a};
  anfi_strtab_init(&p->words, a);
  anfi_map_init(&p->last_read, a);
  anfi_lex_init(&p->lx, cx, a, &p->words, file, text, len);
  anfi_lex_next(&p->lx, &p->t);
}

void anfi_parse_advance(parser *p) {
  p->prev_end = p->t.off + p->t.len;
  anfi_lex_next(&p->lx, &p->t);
}

anfi_loc anfi_parse_loc(const parser *p, const token *t) {
  return (anfi_loc){p->lx.file, t->line, t->col};
}

bool anfi_parse_fail(parser *p, const char *what) {
  if (!p->panic && !p->lx.stop) {
    anfi_fail(p->cx, anfi_parse_loc(p, &p->t), ANF_E0107, what, anfi_tok_name(p->a, &p->lx, &p->t));
    anfi_hint_stop(p, what);
  }
  p->panic = true;
  if (!anfi_more_errors(p->cx)) p->lx.stop = true;
  return false;
}

bool anfi_parse_expect(parser *p, tok kind, const char *what) {
  if (p->t.kind != kind) return anfi_parse_fail(p, what);
  anfi_parse_advance(p);
  return true;
}

bool anfi_parse_enter(parser *p) {
  if (p->depth++ < p->cx->max_nesting) return true;
  if (!p->lx.stop)
    anfi_fail(p->cx, anfi_parse_loc(p, &p->t), ANF_E0110, (unsigned)p->cx->max_nesting);
  p->panic = p->lx.stop = true;
  return false;
}

void anfi_parse_leave(parser *p) { p->depth--; }

bool anfi_parse_close(parser *p, tok kind, const token *open) {
  if (p->t.kind == kind) return anfi_parse_advance(p), true;
  if (p->panic || p->lx.stop) return false;
  bool cut =
      p->t.kind == T_EOF || p->t.kind == T_RPAREN || p->t.kind == T_RBRACK || p->t.kind == T_RBRACE;
  if (!cut)
    return anfi_parse_fail(p, kind == T_RPAREN   ? "',' or ')'"
                              : kind == T_RBRACK ? "',' or ']'"
                                                 : "',' or '}'");
  anfi_fail(p->cx, anfi_parse_loc(p, open), ANF_E0108, p->lx.text[open->off]);
  anfi_note(p->cx, anfi_parse_loc(p, &p->t), "%s is here instead of '%c'",
            anfi_tok_name(p->a, &p->lx, &p->t),
            kind == T_RPAREN   ? ')'
            : kind == T_RBRACK ? ']'
                               : '}');
  p->panic = true;
  return false;
}

ast *anfi_ast(parser *p, akind kind, const token *t, size_t nkid) {
  ast *e = (ast *)anfi_alloc(p->a, sizeof *e + nkid * sizeof(ast *));
  *e = (ast){.kind = (uint8_t)kind,
             .n = (uint32_t)nkid,
             .line = t->line,
             .col = t->col,
             .off = t->off,
             .end = t->off + t->len};
  return e;
}

ast *anfi_ast_of(parser *p, akind kind, const token *t, size_t base) {
  size_t n = p->stack.n - base;
  ast *e = anfi_ast(p, kind, t, n);
  if (n) memcpy(e->kid, p->stack.at + base, n * sizeof *e->kid);
  p->stack.n = base;
  e->end = p->prev_end;
  return e;
}

static ast *error_node(parser *p) { return anfi_ast(p, A_ERROR, &p->t, 0); }

/* ---- names that are assigned ---- */

const wordset *anfi_parse_assigned(parser *p, size_t from) {
  anfi_map seen;
  anfi_map_init(&seen, p->a);
  wordset *s = (wordset *)anfi_alloc(p->a, sizeof *s + (p->assigns.n - from) * sizeof(*s->at));
  s->n = 0;
  for (size_t i = from; i < p->assigns.n; i++) {
    const anfi_str *w = p->assigns.at[i];
    if (anfi_map_find(&seen, w->id)) continue;
    anfi_map_at(&seen, w->id);
    s->at[s->n++] = w;
  }
  return s;
}

static bool is_reserved(const anfi_str *w) {
  anf_dtype d;
  return anfi_word_dtype(w, &d) && d != ANF_KEY;
}

static bool check_word(parser *p, const anfi_str *w, bool quoted, anfi_loc loc) {
  if (quoted || !is_reserved(w)) return true;
  anfi_fail(p->cx, loc, ANF_E0109, w->s);
  anfi_hint(p->cx, "as a name it is written `%s`", w->s);
  return false;
}

/* Checks that an expression is assignable, and notes the names. */
static bool to_pattern(parser *p, ast *e) {
  anfi_loc loc = {p->lx.file, e->line, e->col};
  if (e->kind == A_ERROR) return true;
  if (e->kind == A_NAME) {
    if (!check_word(p, e->u.word, e->op != 0, loc)) return false;
    anfi_push(p->a, &p->assigns, e->u.word);
    return true;
  }
  if (e->kind != A_TUPLE) {
    anfi_fail(p->cx, loc, ANF_E0111);
    const ast *last = e->kind == A_POSTFIX ? e->kid[e->n - 1] : NULL;
    anfi_hint(p->cx,
              last && last->kind == A_INDEX
                  ? "values do not change: x with v as item i is a new one, IndexWrite(x, i, v)"
                  : "values do not change: a name, or a tuple of names, can be bound anew");
    return false;
  }
  bool good = true;
  for (uint32_t i = 0; i < e->n; i++) good &= to_pattern(p, e->kid[i]);
  return good;
}

/* ---- functions ---- */

static bool parse_param(parser *p, func *f, size_t n, param *out) {
  if (!anfi_parse_at(p, T_NAME)) return anfi_parse_fail(p, "the name of a parameter");
  *out = (param){p->t.word, NULL, p->t.line, p->t.col};
  check_word(p, p->t.word, p->t.quoted, anfi_parse_loc(p, &p->t));
  (void)f, (void)n;
  anfi_parse_advance(p);
  if (!anfi_parse_at(p, T_COLON)) return true;
  anfi_parse_advance(p);
  out->type = anfi_parse_type_at(p);
  return out->type != NULL;
}

static void check_params(parser *p, const func *f) {
  anfi_map seen;
  anfi_map_init(&seen, p->a);
  for (uint32_t i = 0; i < f->nparam; i++) {
    const param *q = &f->params[i];
    if (anfi_map_find(&seen, q->word->id))
      anfi_fail(p->cx, (anfi_loc){p->lx.file, q->line, q->col}, ANF_E0113, q->word->s);
    anfi_map_at(&seen, q->word->id);
  }
}

static bool parse_params(parser *p, func *f) {
  token open = p->t;
  ANFI_VEC(param) ps = {0};
  p->inside++;
  if (!anfi_parse_expect(p, T_LPAREN, "'(' and parameters")) return p->inside--, false;
  while (!anfi_parse_at(p, T_RPAREN)) {
    param q;
    if (!parse_param(p, f, ps.n, &q)) break;
    anfi_push(p->a, &ps, q);
    if (!anfi_parse_at(p, T_COMMA)) break;
    anfi_parse_advance(p);
  }
  p->inside--;
  f->params = ps.at;
  f->nparam = (uint32_t)ps.n;
  check_params(p, f);
  return anfi_parse_close(p, T_RPAREN, &open);
}

/* The reads of a function with control flow are kept by name; those of others are needed by nobody
 * but the functions around. */
static void keep_reads(parser *p, const func *f, size_t from) {
  for (size_t i = from; f->has_flow && i < p->reads.n; i++) {
    uint64_t key = (uint64_t)f->id << 32 | p->reads.at[i] >> 32,
             *at = anfi_map_at(&p->last_read, key);
    if ((p->reads.at[i] & UINT32_MAX) > *at) *at = p->reads.at[i] & UINT32_MAX;
  }
  if (!p->fn) p->reads.n = from;
}

static void parse_body(parser *p, func *f) {
  func *outer = p->fn;
  uint32_t loops = p->loops, inside = p->inside;
  uint16_t exits = p->exits;
  size_t assigns = p->assigns.n, reads = p->reads.n;
  p->fn = f;
  p->loops = p->inside = 0;
  f->body = anfi_parse_block(p);
  f->locals = anfi_parse_assigned(p, assigns);
  p->assigns.n = assigns;
  p->fn = outer;
  p->loops = loops;
  p->inside = inside;
  p->exits = exits;
  keep_reads(p, f, reads);
}

static bool parse_clauses(parser *p, func *f) {
  if (anfi_parse_at(p, T_ARROW)) {
    anfi_parse_advance(p);
    f->result = anfi_parse_type_at(p);
    if (!f->result) return false;
  }
  if (anfi_parse_at(p, T_NAME) && strcmp(p->t.word->s, "private") == 0) {
    anfi_parse_advance(p);
    f->is_private = true;
  }
  if (anfi_parse_at(p, T_NAME) && strcmp(p->t.word->s, "parent") == 0) {
    anfi_parse_advance(p);
    if (!anfi_parse_at(p, T_NAME)) return anfi_parse_fail(p, "the name of a function");
    f->parent = p->t.word;
    anfi_parse_advance(p);
  }
  return true;
}

/* From the parameters on. */
func *anfi_parse_func(parser *p, const token *at, const anfi_str *name) {
  func *f = ANFI_NEW(p->a, func);
  f->name = name;
  f->around = p->fn;
  f->id = ++p->nfunc;
  f->line = at->line;
  f->col = at->col;
  if (!parse_params(p, f) || !parse_clauses(p, f)) {
    f->body = error_node(p);
    f->locals = anfi_parse_assigned(p, p->assigns.n);
    if (!anfi_parse_at(p, T_LBRACE)) return f;
    p->panic = false; // the body is there: read it, to find its errors too
  }
  parse_body(p, f);
  return f;
}

static func *parse_def(parser *p) {
  anfi_parse_advance(p);
  token name = p->t;
  if (!anfi_parse_at(p, T_NAME)) {
    anfi_parse_fail(p, "the name of a function");
    return NULL;
  }
  check_word(p, name.word, name.quoted, anfi_parse_loc(p, &name));
  anfi_parse_advance(p);
  return anfi_parse_func(p, &name, name.word);
}

static ast *parse_def_statement(parser *p) {
  token t = p->t;
  func *f = parse_def(p);
  if (!f) return error_node(p);
  anfi_push(p->a, &p->assigns, f->name);
  ast *e = anfi_ast(p, A_DEF, &t, 0);
  e->u.fn = f;
  return e;
}

/* ---- loops ---- */

/* A loop's body: `break` and `continue` in it are its own, `return` is not. */
static ast *parse_loop_block(parser *p, uint16_t *flags) {
  uint16_t outer = p->exits;
  p->exits = 0;
  p->loops++;
  ast *b = anfi_parse_block(p);
  p->loops--;
  *flags = (uint16_t)(p->exits & (A_BREAKS | A_RETURNS));
  if (p->exits & A_RETURNS) *flags |= A_EXITS;
  p->exits = outer | (*flags & A_RETURNS ? A_RETURNS | A_EXITS : 0);
  return b;
}

static ast *finish_loop(parser *p, akind kind, const token *t, size_t base, size_t assigns,
                        uint16_t flags) {
  ast *e = anfi_ast_of(p, kind, t, base);
  e->u.assigned = anfi_parse_assigned(p, assigns);
  e->flags |= flags;
  if (p->fn) p->fn->has_flow = true;
  return e;
}

static ast *parse_while(parser *p) {
  token t = p->t;
  size_t base = p->stack.n, assigns = p->assigns.n;
  uint16_t flags = 0;
  anfi_parse_advance(p);
  anfi_parse_keep(p, anfi_parse_expr(p));
  anfi_parse_keep(p, parse_loop_block(p, &flags));
  return finish_loop(p, A_WHILE, &t, base, assigns, flags);
}

/* The variable of a for, or a tuple of them. Its names live in the loop: they assign nothing. */
static bool parse_loop_target(parser *p) {
  size_t reads = p->reads.n, assigns = p->assigns.n;
  if (!anfi_parse_at(p, T_NAME) && !anfi_parse_at(p, T_LPAREN))
    return anfi_parse_fail(p, "the name of the loop's variable");
  ast *target = anfi_parse_exprs(p);
  p->reads.n = reads;
  to_pattern(p, target);
  p->assigns.n = assigns;
  anfi_parse_keep(p, target);
  return true;
}

/* for i in a..b, for x in xs, for (a, b) in xs */
static ast *parse_for(parser *p) {
  token t = p->t;
  size_t base = p->stack.n, assigns = p->assigns.n;
  uint16_t flags = 0;
  anfi_parse_advance(p);
  if (!parse_loop_target(p)) return error_node(p);
  if (!anfi_parse_expect(p, W_in, "'in'")) return p->stack.n = base, error_node(p);
  anfi_parse_keep(p, anfi_parse_expr(p));
  if (anfi_parse_at(p, T_DOTDOT)) {
    anfi_parse_advance(p);
    anfi_parse_keep(p, anfi_parse_expr(p));
  }
  anfi_parse_keep(p, parse_loop_block(p, &flags));
  return finish_loop(p, A_FOR, &t, base, assigns, flags);
}

/* ---- statements ---- */

static bool statement_ends(const parser *p) {
  return p->t.kind == T_EOF || p->t.kind == T_SEMI || p->t.kind == T_RBRACE ||
         anfi_parse_line_ends(p);
}

static ast *parse_return(parser *p) {
  token t = p->t;
  anfi_parse_advance(p);
  p->exits |= A_RETURNS | A_EXITS;
  size_t base = p->stack.n;
  if (!statement_ends(p)) anfi_parse_keep(p, anfi_parse_exprs(p));
  return anfi_ast_of(p, A_RETURN, &t, base);
}

static ast *parse_jump(parser *p, akind kind) {
  token t = p->t;
  if (!p->loops)
    anfi_fail(p->cx, anfi_parse_loc(p, &t), ANF_E0117, kind == A_BREAK ? "break" : "continue");
  p->exits |= kind == A_BREAK ? A_EXITS | A_BREAKS : A_EXITS;
  anfi_parse_advance(p);
  return anfi_ast(p, kind, &t, 0);
}

/* A pattern's names were taken for reads while it was parsed. */
static ast *parse_bind(parser *p, ast *pattern, const token *t, size_t reads) {
  p->reads.n = reads;
  const anf_type *type = NULL;
  size_t base = p->stack.n;
  if (anfi_parse_at(p, T_COLON)) {
    anfi_parse_advance(p);
    type = anfi_parse_type_at(p);
    if (!type) return error_node(p);
  }
  if (!anfi_parse_expect(p, T_ASSIGN, "'='")) return error_node(p);
  ast *value = anfi_parse_exprs(p);
  to_pattern(p, pattern);
  anfi_parse_keep(p, pattern);
  anfi_parse_keep(p, value);
  if (type) {
    ast *ty = anfi_ast(p, A_TYPE, t, 0);
    ty->u.type = type;
    anfi_parse_keep(p, ty);
  }
  return anfi_ast_of(p, A_BIND, t, base);
}

static ast *parse_aug(parser *p, ast *target, const token *t) {
  if (target->kind != A_NAME) {
    if (target->kind != A_ERROR) to_pattern(p, target);
    if (target->kind == A_TUPLE)
      anfi_fail(p->cx, (anfi_loc){p->lx.file, t->line, t->col}, ANF_E0111);
  }
  token op = p->t;
  size_t base = p->stack.n;
  anfi_parse_advance(p);
  anfi_parse_keep(p, target);
  anfi_parse_keep(p, anfi_parse_exprs(p));
  if (target->kind == A_NAME) to_pattern(p, target);
  ast *e = anfi_ast_of(p, target->kind == A_NAME ? A_AUG : A_ERROR, &op, base);
  e->op = op.op;
  return e;
}

/* An expression, or an assignment that starts like one. */
static ast *parse_simple(parser *p) {
  token t = p->t;
  size_t reads = p->reads.n;
  ast *e = anfi_parse_exprs(p);
  if (p->panic) return e;
  if (anfi_parse_at(p, T_ASSIGN) || (anfi_parse_at(p, T_COLON) && !anfi_parse_line_ends(p)))
    return parse_bind(p, e, &t, reads);
  if (anfi_parse_at(p, T_AUG)) return parse_aug(p, e, &t);
  bool marked =
      e->kind == A_NAME && e->u.word == p->lx.effect && anfi_parse_at(p, T_NAME) && !p->t.nl;
  if (!marked) return e;
  p->has_effects = true;
  token name = p->t;
  p->reads.n = reads;
  ast *bind = parse_bind(p, anfi_parse_exprs(p), &name, reads);
  bind->flags |= A_EFFECT;
  return bind;
}

static ast *parse_statement(parser *p) {
  switch (p->t.kind) {
  case W_def: return parse_def_statement(p);
  case W_while: return parse_while(p);
  case W_for: return parse_for(p);
  case W_return: return parse_return(p);
  case W_break: return parse_jump(p, A_BREAK);
  case W_continue: return parse_jump(p, A_CONTINUE);
  default: return parse_simple(p);
  }
}

/* To the end of the statement; brackets that open in the skipped text close in it, too. */
static void recover(parser *p) {
  uint32_t open = 0;
  p->panic = false;
  p->inside = 0;
  while (p->t.kind != T_EOF) {
    if (!open && (p->t.nl || p->t.kind == T_SEMI || p->t.kind == T_RBRACE)) return;
    if (p->t.kind == T_LBRACE) open++;
    if (p->t.kind == T_RBRACE && open) open--;
    anfi_parse_advance(p);
    if (!open && p->t.kind == W_def) return;
  }
}

static bool ends_by_itself(const ast *e) {
  return e->kind == A_DEF || e->kind == A_WHILE || e->kind == A_FOR;
}

static void parse_statements(parser *p) {
  for (;;) {
    while (anfi_parse_at(p, T_SEMI)) anfi_parse_advance(p);
    if (anfi_parse_at(p, T_RBRACE) || anfi_parse_at(p, T_EOF)) return;
    uint32_t at = p->t.off;
    ast *e = parse_statement(p);
    anfi_parse_keep(p, e);
    if (!p->panic && (statement_ends(p) || ends_by_itself(e))) continue;
    if (!p->panic) anfi_parse_fail(p, "the end of the statement");
    if (p->t.off == at) anfi_parse_advance(p);
    recover(p);
  }
}

ast *anfi_parse_block(parser *p) {
  token open = p->t;
  size_t base = p->stack.n;
  if (!anfi_parse_at(p, T_LBRACE)) return anfi_parse_fail(p, "'{'"), error_node(p);
  uint32_t inside = p->inside;
  if (!anfi_parse_enter(p)) return error_node(p);
  p->inside = 0;
  anfi_parse_advance(p);
  parse_statements(p);
  anfi_parse_leave(p);
  p->inside = inside;
  ast *b = anfi_ast_of(p, A_BLOCK, &open, base);
  anfi_parse_close(p, T_RBRACE, &open);
  b->end = p->prev_end;
  return b;
}

/* ---- modules ---- */

static void recover_top(parser *p) {
  p->panic = false;
  p->inside = 0;
  while (p->t.kind != T_EOF && p->t.kind != W_def) anfi_parse_advance(p);
}

static bool is_word(const parser *p, const char *s) {
  return anfi_parse_at(p, T_NAME) && !p->t.quoted && strcmp(p->t.word->s, s) == 0;
}

/* The name of a file without folder and ending, if that is a name. */
static const anfi_str *stem(parser *p, const char *path) {
  const char *slash = strrchr(path, '/'), *s = slash ? slash + 1 : path, *dot = strrchr(s, '.');
  size_t n = dot ? (size_t)(dot - s) : strlen(s);
  return anfi_is_plain_name(s, n) ? anfi_intern(&p->words, s, n) : NULL;
}

static bool import_name(parser *p, import *im) {
  if (is_word(p, "as")) {
    anfi_parse_advance(p);
    if (!anfi_parse_at(p, T_NAME)) return anfi_parse_fail(p, "a name");
    im->word = p->t.word;
    anfi_parse_advance(p);
  } else if (!im->word) return anfi_parse_fail(p, "'as' and a name");
  return true;
}

/* import a, b; import "file.anf"; import "file.anf" as name */
static void parse_import(parser *p) {
  do {
    anfi_parse_advance(p);
import im = {.line = p->t.line, .col = p->t.col };
    size_t n = 0;
    if (anfi_parse_at(p, T_STR)) {
      im.path = anfi_lex_string(&p->lx, &p->t, &n);
      im.word = stem(p, im.path);
    } else if (anfi_parse_at(p, T_NAME)) im.word = p->t.word;
    else {
      anfi_parse_fail(p, "the name of a module, or a file in quotes");
      return;
    }
    anfi_parse_advance(p);
    if (im.path && !import_name(p, &im)) return;
    anfi_loc loc = {p->lx.file, im.line, im.col};
    check_word(p, im.word, false, loc);
    if (im.path && strlen(im.path) != n) anfi_fail(p->cx, loc, ANF_E0150, im.path);
    for (size_t i = 0; i < p->imports.n; i++)
      if (p->imports.at[i].word == im.word) anfi_fail(p->cx, loc, ANF_E0149, im.word->s);
    anfi_push(p->a, &p->imports, im);
  } while (anfi_parse_at(p, T_COMMA));
  if (statement_ends(p)) return;
  bool renamed = is_word(p, "as");
  anfi_parse_fail(p, "the end of the line");
  if (renamed)
    anfi_hint(p->cx, "only a file gets another name; a module of the library keeps its own");
}

void anfi_parse_module(parser *p) {
  while (!anfi_parse_at(p, T_EOF)) {
    if (anfi_parse_at(p, T_SEMI)) {
      anfi_parse_advance(p);
      continue;
    }
    func *f = NULL;
    if (is_word(p, "import")) {
      parse_import(p);
      if (p->panic) recover_top(p);
      continue;
    }
    if (anfi_parse_at(p, W_def)) f = parse_def(p);
    else anfi_parse_fail(p, "'def'");
    if (f) f->top = true, anfi_push(p->a, &p->top, f);
    if (p->panic || !f) recover_top(p);
    p->depth = 0;
  }
}
