// SPDX-License-Identifier: Apache-2.0
/* Expressions as objects: the table of operators, reading, inspection, printing.
 *   anf_expr_parse(cx, "add(@0,2)", ..)   ->   6 tokens, 3 nodes, reverse Polish form @0 2 add
 * INVARIANT: an expression that anfi_expr_read gives has tokens, a tree and its reverse Polish form, and nothing in it
 * points outside of its own arena. */
#include "frontend/pnnx/pnnx.h"

static const anfi_expr_op ops[] = {
#define EXPR_OP(name, least, most, rule, op) {name, least, most, ANFI_EXPR_##rule, ANF_OP_##op},
#include "frontend/pnnx/expr/expression.def"
#undef EXPR_OP
};

const anfi_expr_op *anfi_expr_find(const char *name, size_t len) {
  size_t lo = 0, hi = ANFI_LEN(ops);
  while (lo < hi) {
    size_t mid = (lo + hi) / 2;
    const char *have = ops[mid].name;
    int c = strncmp(name, have, len);
    if (c == 0 && !have[len]) return &ops[mid];
    if (c > 0) lo = mid + 1;
    else hi = mid;
  }
  return NULL;
}

static const char *name_at(void *user, size_t i) {
  (void)user;
  return i < ANFI_LEN(ops) ? ops[i].name : NULL;
}

const char *anfi_expr_near(anf_ctx *cx, const char *name, size_t len) {
  return len > 64 ? NULL : anfi_nearest(anfi_strndup(anfi_scratch(cx), name, len), name_at, NULL);
}

/* Columns count characters. All tokens are ASCII, so is all before an illegal character. */
anfi_loc anfi_expr_place(const anf_expr *e, size_t at) {
  size_t lo = 0, hi = e->lines.n; // how many lines end before `at`
  while (lo < hi) {
    size_t mid = (lo + hi) / 2;
    if (e->lines.at[mid] < at) lo = mid + 1;
    else hi = mid;
  }
  if (!lo) return (anfi_loc){e->start.file, e->start.line, e->start.col + (uint32_t)at};
  return (anfi_loc){e->start.file, e->start.line + (uint32_t)lo,
                    (uint32_t)(at - e->lines.at[lo - 1])};
}

/* ---- reading ---- */

static void free_expr(void *p) {
  anf_expr *e = (anf_expr *)p;
  anf_ctx *cx = e->cx;
  anfi_source_remove_text(cx, e->text);
  anfi_arena_free(&e->arena);
  anfi_object_free(cx, e);
}

static anf_expr *new_expr(anf_ctx *cx) {
  anf_expr *e = (anf_expr *)anfi_object(cx, sizeof *e);
  if (!e) anfi_throw_nomem(cx);
  e->cx = cx;
  e->text = "";
  anfi_arena_init(&e->arena, cx);
  anfi_defer(cx, ANFI_ON_FAIL, free_expr, e);
  return e;
}

anf_expr *anfi_expr_read(anf_ctx *cx, const char *text, size_t len, anfi_loc start, size_t ninput) {
  anf_expr *e = new_expr(cx);
  e->text = anfi_strndup(&e->arena, text, len);
  e->len = len;
  e->start = start;
  e->ninput = ninput;
  for (size_t i = 0; i < len; i++)
    if (text[i] == '\n') anfi_push(&e->arena, &e->lines, i);
  if (!anfi_expr_tokenize(e) || !anfi_expr_build(e)) return NULL;
  anfi_expr_rpn(e);
  if (ninput == ANF_EXPR_ANY_INPUTS) e->ninput = e->most_input;
  return e;
}

static void forget(void *p) { anfi_source_remove((anf_ctx *)p, "<expression>"); }

static anf_expr *read_file(anf_ctx *cx, const char *text, size_t len, const char *file,
                           size_t ninput) {
  anfi_loc start = {anfi_intern_z(&cx->strings, file)->s, 1, 1};
  anfi_source_add(cx, file, text, len);
  if (strcmp(file, "<expression>") == 0) anfi_defer(cx, ANFI_ALWAYS, forget, cx);
  return anfi_expr_read(cx, text, len, start, ninput);
}

anf_status anf_expr_parse_file(anf_ctx *cx, const char *text, size_t len, const char *file,
                               size_t ninput, anf_diag *d, anf_expr **out) {
  ANFI_NEED(d, cx, text, out);
  *out = NULL;
  ANFI_ENTRY(cx, d);
  *out = read_file(cx, text, len, file ? file : "", ninput);
  anf_status st = anfi_leave(cx);
  anfi_source_remove_text(cx, text);
  if (st != ANF_OK) *out = NULL;
  return st;
}

anf_status anf_expr_parse(anf_ctx *cx, const char *text, size_t len, size_t ninput, anf_diag *d,
                          anf_expr **out) {
  ANFI_NEED(d, cx, text, out);
  return anf_expr_parse_file(cx, text, len, "<expression>", ninput, d, out);
}

void anf_expr_free(anf_expr *e) {
  if (e) free_expr(e);
}

/* ---- looking ---- */

const char *anf_expr_text(const anf_expr *e) { return e ? e->text : ""; }
size_t anf_expr_input_count(const anf_expr *e) { return e ? e->ninput : 0; }
size_t anf_expr_token_count(const anf_expr *e) { return e ? e->tokens.n : 0; }
anf_expr_token anf_expr_token_at(const anf_expr *e, size_t i) {
  if (!e || i >= e->tokens.n) return (anf_expr_token){0};
  return e->tokens.at[i];
}
size_t anf_expr_node_count(const anf_expr *e) { return e ? e->nodes.n : 0; }
size_t anf_expr_rpn_at(const anf_expr *e, size_t i) { return e && i < e->rpn.n ? e->rpn.at[i] : 0; }

const anf_expr_node *anf_expr_node_at(const anf_expr *e, size_t i) {
  if (!e) return NULL;
  return i < e->nodes.n ? &e->nodes.at[i].n : NULL;
}

const char *anf_expr_token_name(anf_expr_token_kind kind) {
  static const char *const name[ANF_EXPR_TOKEN_KINDS] = {
      "operator", "input number", "left bracket", "right bracket", "left square", "right square",
      "comma",    "integer",      "real",         "complex",       "word"};
  return kind < ANF_EXPR_TOKEN_KINDS ? name[kind] : "";
}

const char *anf_expr_operator(size_t i, size_t *least, size_t *most) {
  if (i >= ANFI_LEN(ops)) return NULL;
  if (least) *least = ops[i].least;
  if (most) *most = ops[i].most;
  return ops[i].name;
}

/* ---- printing ---- */

static void put_real(anf_text *o, double v) {
  size_t start = o->len;
  anfi_put_f64(o, v);
  if (!strpbrk(o->text + start, ".en")) anfi_puts(o, ".0");
}

static void put_constant(anf_text *o, const anf_expr_node *n) {
  switch (n->constant) {
  case ANF_EXPR_NONE: anfi_puts(o, "None"); break;
  case ANF_EXPR_BOOL: anfi_puts(o, n->i ? "True" : "False"); break;
  case ANF_EXPR_INT: anfi_put_i64(o, n->i); break;
  case ANF_EXPR_FLOAT: put_real(o, n->re); break;
  case ANF_EXPR_COMPLEX_NUMBER:
    put_real(o, n->re);
    anfi_putc(o, '+');
    put_real(o, n->im);
    anfi_putc(o, 'j');
  }
}

static void put_node(anf_text *o, const anf_expr *e, size_t i) {
  const anf_expr_node *n = &e->nodes.at[i].n;
  if (n->kind == ANF_EXPR_CALL) anfi_puts(o, n->op);
  else if (n->kind == ANF_EXPR_LIST) anfi_puts(o, "[]");
  else if (n->kind == ANF_EXPR_INPUT) anfi_putf(o, "@%zu", n->input);
  else put_constant(o, n);
}

/* A walk with the way back on a stack. */
static void put_expr(anf_text *o, const anf_expr *e) {
  anfi_arena *a = anfi_scratch(e->cx);
  ANFI_VEC(size_t) open = {0};
  for (size_t i = 0;;) {
    const anf_expr_node *n = &e->nodes.at[i].n;
    if (n->kind == ANF_EXPR_LIST) anfi_putc(o, '[');
    else put_node(o, e, i);
    if (n->kind == ANF_EXPR_CALL) anfi_putc(o, '(');
    if (n->first != ANF_EXPR_NO_NODE) {
      anfi_push(a, &open, i);
      i = n->first;
      continue;
    }
    if (n->kind == ANF_EXPR_LIST) anfi_putc(o, ']');
    while (open.n && e->nodes.at[i].n.next == ANF_EXPR_NO_NODE) {
      i = open.at[--open.n];
      anfi_putc(o, e->nodes.at[i].n.kind == ANF_EXPR_LIST ? ']' : ')');
    }
    if (!open.n) return;
    anfi_putc(o, ',');
    i = e->nodes.at[i].n.next;
  }
}

static void put_dot(anf_text *o, const anf_expr *e) {
  anfi_puts(o, "digraph expression {\n  ordering=out;\n  node [fontname=\"monospace\"];\n");
  for (size_t i = 0; i < e->nodes.n; i++) {
    const anf_expr_node *n = &e->nodes.at[i].n;
    anfi_putf(o, "  n%zu [label=\"", i);
    put_node(o, e, i);
    anfi_putf(o, "\"%s];\n",
              n->kind == ANF_EXPR_CALL || n->kind == ANF_EXPR_LIST ? "" : ", shape=box");
    for (size_t c = n->first; c != ANF_EXPR_NO_NODE; c = e->nodes.at[c].n.next)
      anfi_putf(o, "  n%zu -> n%zu;\n", i, c);
  }
  anfi_puts(o, "}\n");
}

anf_status anf_expr_print(const anf_expr *e, anf_text *out) {
  ANFI_TEXT_ENTRY(e, out);
  put_expr(out, e);
  return anfi_leave(e->cx);
}

anf_status anf_expr_print_node(const anf_expr *e, size_t node, anf_text *out) {
  ANFI_TEXT_ENTRY(e, out);
  if (node < e->nodes.n) put_node(out, e, node);
  return anfi_leave(e->cx);
}

anf_status anf_expr_write_dot(const anf_expr *e, anf_text *out) {
  ANFI_TEXT_ENTRY(e, out);
  put_dot(out, e);
  return anfi_leave(e->cx);
}
