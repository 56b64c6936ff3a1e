// SPDX-License-Identifier: Apache-2.0
/* Tokens to a tree, and the tree to reverse Polish form.
 *   expr := name '(' expr {',' expr} ')' | '[' [expr {',' expr}] ']' | @N | number | word
 * The strict grammar comes first. Four malformed forms that pnnx itself writes are read with a
 * warning, each only as pnnx writes it: an empty operand of add and sub, a third operand of theirs,
 * the sizes of a shape without brackets, and expm1 and log1p without theirs, which misplaces all
 * brackets of the expression. Nothing recurses: calls and lists that are open are on a stack. */
#include "frontend/pnnx/pnnx.h"

typedef struct {
  size_t node, last; // last child so far
  bool skipped;      // an empty operand
} open_node;

typedef enum { STRICT, JOINED, BARE } mode;

typedef struct {
  anf_expr *e;
  anfi_arena *a;
  mode mode;
  size_t at; // token
  bool want; // an operand must come
  bool again;
  ANFI_VEC(open_node) open;
  size_t last; // root so far
} parser;

/* ---- messages ---- */

static size_t token_start(const anf_expr *e, size_t i) {
  return i < e->tokens.n ? e->tokens.at[i].start : e->len;
}

static const char *shown(const anf_expr *e, size_t i) {
  if (i >= e->tokens.n) return "the end";
  anf_expr_token t = e->tokens.at[i];
  size_t n = t.end - t.start;
  return anfi_sprintf(anfi_scratch(e->cx), "'%.*s%s'", (int)(n > 40 ? 40 : n), e->text + t.start,
                      n > 40 ? "..." : "");
}

static bool unexpected(const anf_expr *e, size_t i, const char *expected) {
  return anfi_fail(e->cx, anfi_expr_place(e, token_start(e, i)), ANF_E1003, shown(e, i), expected);
}

static void warn(const anf_expr *e, size_t i, const char *form) {
  anfi_warn(e->cx, anfi_expr_place(e, token_start(e, i)), ANF_W0101, form);
}

static const char *operands(const anf_expr *e, const anfi_expr_op *op) {
  if (op->least == op->most)
    return anfi_sprintf(anfi_scratch(e->cx), "%s takes %u operand%s", op->name, op->least,
                        op->least == 1 ? "" : "s");
  return anfi_sprintf(anfi_scratch(e->cx), "%s takes %u or %u operands", op->name, op->least,
                      op->most);
}

/* ---- nodes ---- */

static anfi_expr_tree_node *node_at(const anf_expr *e, size_t i) { return &e->nodes.at[i]; }

static size_t new_node(anf_expr *e, anf_expr_kind kind, size_t token) {
  anfi_expr_tree_node t = {
      .n = {.kind = kind, .token = token, .first = ANF_EXPR_NO_NODE, .next = ANF_EXPR_NO_NODE}};
  anfi_push(&e->arena, &e->nodes, t);
  return e->nodes.n - 1;
}

/* Text of a token, NUL-terminated. */
static const char *token_text(const anf_expr *e, size_t i, char *few, size_t size) {
  anf_expr_token t = e->tokens.at[i];
  size_t n = t.end - t.start;
  if (n >= size) return anfi_strndup(anfi_scratch(e->cx), e->text + t.start, n);
  memcpy(few, e->text + t.start, n);
  few[n] = 0;
  return few;
}

static bool out_of_range(const anf_expr *e, size_t i) {
  return anfi_fail(e->cx, anfi_expr_place(e, token_start(e, i)), ANF_E1004, shown(e, i));
}

/* Digits, after an optional '-'. */
static bool read_int(const char *s, int64_t *out) {
  bool minus = *s == '-';
  *out = 0;
  for (s += minus; *s; s++)
    if (__builtin_mul_overflow(*out, 10, out) ||
        __builtin_add_overflow(*out, minus ? '0' - *s : *s - '0', out))
      return false;
  return true;
}

/* A number that is written with digits must not become infinite. */
static bool read_real(const char **s, double *out) {
  char *end;
  bool word = (*s)[**s == '-'] == 'i' || (*s)[**s == '-'] == 'n';
  *out = anfi_read_f64(*s, &end);
  *s = end;
  return word || (*out - *out == 0);
}

static bool read_complex(const char *s, anf_expr_node *n) {
  n->constant = ANF_EXPR_COMPLEX_NUMBER;
  if (!read_real(&s, &n->re)) return false;
  if (*s == 'j') return n->im = n->re, n->re = 0, true;
  s += *s == '+';
  return read_real(&s, &n->im);
}

static bool leaf(anf_expr *e, size_t i, size_t *node) {
  char few[64];
  const char *s = token_text(e, i, few, sizeof few);
  anf_expr_token_kind kind = e->tokens.at[i].kind;
  *node = new_node(e, kind == ANF_EXPR_INPUT_NUMBER ? ANF_EXPR_INPUT : ANF_EXPR_CONSTANT, i);
  anf_expr_node *n = &node_at(e, *node)->n;
  switch (kind) {
  case ANF_EXPR_INPUT_NUMBER: {
    int64_t v;
    bool fits = read_int(s + 1, &v);
    if (!fits || (e->ninput != ANF_EXPR_ANY_INPUTS ? (uint64_t)v >= e->ninput : v >= UINT32_MAX)) {
      if (e->ninput == ANF_EXPR_ANY_INPUTS) return out_of_range(e, i);
      return anfi_fail(e->cx, anfi_expr_place(e, token_start(e, i)), ANF_E1005, shown(e, i),
                       e->ninput, e->ninput == 1 ? "" : "s");
    }
    n->input = (size_t)v;
    if (n->input >= e->most_input) e->most_input = n->input + 1;
    return true;
  }
  case ANF_EXPR_INTEGER:
    n->constant = ANF_EXPR_INT;
    return read_int(s, &n->i) || out_of_range(e, i);
  case ANF_EXPR_REAL:
    n->constant = ANF_EXPR_FLOAT;
    return read_real(&s, &n->re) || out_of_range(e, i);
  case ANF_EXPR_COMPLEX: return read_complex(s, n) || out_of_range(e, i);
  default:
    n->constant = *s == 'N' ? ANF_EXPR_NONE : ANF_EXPR_BOOL;
    n->i = *s == 'T';
    return true;
  }
}

/* ---- the strict grammar, and what pnnx makes of it ---- */

static void adopt(parser *p, size_t node) {
  anf_expr *e = p->e;
  size_t *last = p->open.n ? &p->open.at[p->open.n - 1].last : &p->last;
  if (*last != ANF_EXPR_NO_NODE) node_at(e, *last)->n.next = node;
  else if (p->open.n) node_at(e, p->open.at[p->open.n - 1].node)->n.first = node;
  if (p->open.n) node_at(e, p->open.at[p->open.n - 1].node)->n.children++;
  *last = node;
}

static void push(parser *p, size_t node) {
  anfi_push(p->a, &p->open, ((open_node){node, ANF_EXPR_NO_NODE, false}));
  p->want = true;
}

static anf_expr_token_kind kind_at(const anf_expr *e, size_t i) {
  return i < e->tokens.n ? e->tokens.at[i].kind : ANF_EXPR_TOKEN_KINDS;
}

static bool is_bare(const anf_expr *e, size_t i, const anfi_expr_op *op) {
  return (op->op == ANF_OP_Expm1 || op->op == ANF_OP_Log1p) &&
         kind_at(e, i + 1) != ANF_EXPR_LEFT_BRACKET;
}

static bool unknown_operator(const anf_expr *e, size_t i) {
  anf_expr_token t = e->tokens.at[i];
  anfi_fail(e->cx, anfi_expr_place(e, t.start), ANF_E1006, shown(e, i));
  anfi_did_you_mean(e->cx, anfi_expr_near(e->cx, e->text + t.start, t.end - t.start));
  return false;
}

static const anfi_expr_op *operator_at(const anf_expr *e, size_t i) {
  anf_expr_token t = e->tokens.at[i];
  return anfi_expr_find(e->text + t.start, t.end - t.start);
}

static bool call(parser *p) {
  anf_expr *e = p->e;
  const anfi_expr_op *op = operator_at(e, p->at);
  if (!op) return unknown_operator(e, p->at);
  if (is_bare(e, p->at, op)) {
    if (p->mode != BARE && p->at + 1 < e->tokens.n) return p->mode = BARE, p->again = true;
    if (p->mode != BARE) return unexpected(e, p->at + 1, "'('");
    adopt(p, new_node(e, ANF_EXPR_CALL, p->at++));
    return p->want = false, true;
  }
  if (kind_at(e, p->at + 1) != ANF_EXPR_LEFT_BRACKET) return unexpected(e, p->at + 1, "'('");
  size_t node = new_node(e, ANF_EXPR_CALL, p->at);
  node_at(e, node)->row = op;
  node_at(e, node)->n.op = op->name;
  adopt(p, node);
  push(p, node);
  p->at += 2;
  return true;
}

static bool list(parser *p) {
  size_t node = new_node(p->e, ANF_EXPR_LIST, p->at++);
  adopt(p, node);
  push(p, node);
  if (kind_at(p->e, p->at) != ANF_EXPR_RIGHT_SQUARE) return true;
  p->open.n--;
  p->at++;
  return p->want = false, true;
}

/* `sub(@0,,mul(@1,2))` and `sub(,mul(@1,2),@0)` */
static bool empty_operand(parser *p) {
  open_node *o = p->open.n ? &p->open.at[p->open.n - 1] : NULL;
  const anfi_expr_op *op = o ? node_at(p->e, o->node)->row : NULL;
  if (!op || op->rule != ANFI_EXPR_ALPHA || o->skipped) return false;
  warn(p->e, p->at, "an empty operand");
  o->skipped = true;
  p->at++;
  return true;
}

static bool operand(parser *p) {
  size_t node;
  switch (kind_at(p->e, p->at)) {
  case ANF_EXPR_OPERATOR: return call(p);
  case ANF_EXPR_LEFT_SQUARE: return list(p);
  case ANF_EXPR_COMMA:
    if (empty_operand(p)) return true;
    break;
  case ANF_EXPR_LEFT_BRACKET:
  case ANF_EXPR_RIGHT_BRACKET:
  case ANF_EXPR_RIGHT_SQUARE:
  case ANF_EXPR_TOKEN_KINDS: break;
  default:
    if (!leaf(p->e, p->at, &node)) return false;
    adopt(p, node);
    p->at++;
    return p->want = false, true;
  }
  return unexpected(p->e, p->at, "an operand: a call, '[', '@' and a number, or a constant");
}

static bool after_operand_of_call(parser *p, const open_node *o) {
  anf_expr *e = p->e;
  const anfi_expr_op *op = node_at(e, o->node)->row;
  size_t n = node_at(e, o->node)->n.children;
  anf_expr_token_kind k = kind_at(e, p->at);
  if (k == ANF_EXPR_COMMA && n < op->most) {
    if (n == 2) warn(e, p->at, "a third operand, by which the second is multiplied");
    return p->at++, p->want = true;
  }
  if (k == ANF_EXPR_RIGHT_BRACKET && n >= op->least) return p->at++, p->open.n--, true;
  const char *expected = n < op->least ? "','" : n < op->most ? "',' or ')'" : "')'";
  if (k == ANF_EXPR_RIGHT_BRACKET || k == ANF_EXPR_COMMA)
    expected = anfi_sprintf(anfi_scratch(e->cx), "%s, for %s", expected, operands(e, op));
  return unexpected(e, p->at, expected);
}

/* `size(@0,0),size(@0,1)`: pnnx writes a shape without brackets. */
static bool joins_sizes(const parser *p) {
  const anfi_expr_op *op = p->e->nodes.n ? node_at(p->e, 0)->row : NULL;
  return p->mode == STRICT && op && op->rule == ANFI_EXPR_SIZE;
}

static bool after_operand(parser *p) {
  anf_expr *e = p->e;
  anf_expr_token_kind k = kind_at(e, p->at);
  if (p->open.n) {
    const open_node *o = &p->open.at[p->open.n - 1];
    if (node_at(e, o->node)->n.kind == ANF_EXPR_CALL) return after_operand_of_call(p, o);
    if (k == ANF_EXPR_COMMA) return p->at++, p->want = true;
    if (p->mode != JOINED || p->open.n > 1) {
      if (k == ANF_EXPR_RIGHT_SQUARE) return p->at++, p->open.n--, true;
      return unexpected(e, p->at, "',' or ']'");
    }
  } else if (k == ANF_EXPR_COMMA) {
    if (p->mode == BARE) return p->at++, p->want = true;
    if (joins_sizes(p)) return p->mode = JOINED, p->again = true;
  }
  return unexpected(e, p->at, "the end of the expression");
}

static bool at_end(const parser *p) {
  return p->at == p->e->tokens.n && !p->want && p->open.n == (p->mode == JOINED ? 1 : 0);
}

/* One attempt; `again` if another mode must have a try. */
static bool attempt(parser *p) {
  anf_expr *e = p->e;
  e->nodes.n = e->most_input = p->open.n = p->at = 0;
  p->last = ANF_EXPR_NO_NODE;
  p->again = false;
  p->want = true;
  if (p->mode == JOINED) push(p, new_node(e, ANF_EXPR_LIST, 0));
  while (!p->again && !at_end(p))
    if (!(p->want ? operand(p) : after_operand(p))) return false;
  return true;
}

/* Every joined item must be a size; a comma after anything else is one too many. */
static bool only_sizes(const anf_expr *e) {
  for (size_t i = node_at(e, 0)->n.first; i != ANF_EXPR_NO_NODE; i = node_at(e, i)->n.next) {
    const anfi_expr_op *op = node_at(e, i)->row;
    if (!op || op->rule != ANFI_EXPR_SIZE)
      return unexpected(e, node_at(e, i)->n.token - 1, "the end of the expression");
  }
  return true;
}

/* ---- expm1 and log1p without brackets: the tokens are in Polish order, brackets are ignored ---- */

static bool prefix_operator(parser *p, size_t i) {
  const anfi_expr_op *op = operator_at(p->e, i);
  if (!op) return unknown_operator(p->e, i);
  if (op->least != op->most && op->rule != ANFI_EXPR_ALPHA)
    return unexpected(p->e, i,
                      "an operator with a fixed number of operands, as brackets are amiss");
  size_t node = new_node(p->e, ANF_EXPR_CALL, i);
  node_at(p->e, node)->row = op;
  node_at(p->e, node)->n.op = op->name;
  adopt(p, node);
  push(p, node);
  return true;
}

static bool prefix(parser *p) {
  anf_expr *e = p->e;
  size_t roots = 0;
  e->nodes.n = e->most_input = p->open.n = 0;
  p->last = ANF_EXPR_NO_NODE;
  for (size_t i = 0; i < e->tokens.n; i++) {
    anf_expr_token_kind k = e->tokens.at[i].kind;
    if (k == ANF_EXPR_LEFT_BRACKET || k == ANF_EXPR_RIGHT_BRACKET || k == ANF_EXPR_COMMA) continue;
    if (k == ANF_EXPR_LEFT_SQUARE || k == ANF_EXPR_RIGHT_SQUARE)
      return unexpected(e, i, "no list, as brackets are amiss");
    if (!p->open.n && roots++) return unexpected(e, i, "the end of the expression");
    size_t node;
    if (k == ANF_EXPR_OPERATOR) {
      if (!prefix_operator(p, i)) return false;
    } else if (leaf(e, i, &node)) adopt(p, node);
    else return false;
    while (p->open.n) {
      const anfi_expr_tree_node *t = node_at(e, p->open.at[p->open.n - 1].node);
      if (t->n.children < t->row->least) break;
      p->open.n--;
    }
  }
  return !p->open.n || unexpected(e, e->tokens.n, "another operand");
}

bool anfi_expr_build(anf_expr *e) {
  parser p = {.e = e, .a = anfi_scratch(e->cx)};
  do
    if (!attempt(&p)) return false;
  while (p.again);
  if (p.mode == JOINED) {
    warn(e, 0, "a list without brackets");
    return only_sizes(e);
  }
  if (p.mode != BARE) return true;
  if (!prefix(&p)) return false;
  warn(e, 0, "expm1 or log1p without brackets; operands are taken in the order of the text");
  return true;
}

/* ---- reverse Polish form ---- */

void anfi_expr_rpn(anf_expr *e) {
  anfi_arena *a = anfi_scratch(e->cx);
  ANFI_VEC(size_t) open = {0};
  e->rpn.n = 0;
  for (size_t n = 0;;) {
    while (node_at(e, n)->n.first != ANF_EXPR_NO_NODE) {
      anfi_push(a, &open, n);
      n = node_at(e, n)->n.first;
    }
    anfi_push(&e->arena, &e->rpn, n);
    while (open.n && node_at(e, n)->n.next == ANF_EXPR_NO_NODE) {
      n = open.at[--open.n];
      anfi_push(&e->arena, &e->rpn, n);
    }
    if (!open.n) return; // the root is the last
    n = node_at(e, n)->n.next;
  }
}
