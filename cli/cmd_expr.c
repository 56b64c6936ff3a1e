// SPDX-License-Identifier: Apache-2.0
/* anfora expr: an expression of PNNX as tokens, tree, reverse Polish form and value.
 *   anfora expr 'add(@0,2)' 1   ->   tokens add ( @0 , 2 ); a tree of three nodes; reverse Polish @0 2 add; value 3 */
#include "cli/cli.h"
#include "ir/ir.h"

#include <jansson.h>

static void free_expr(void *e) { anf_expr_free((anf_expr *)e); }

/* ---- showing ---- */

static void put_tokens(anf_text *o, const anf_expr *e) {
  anfi_puts(o, "tokens\n");
  for (size_t i = 0; i < anf_expr_token_count(e); i++) {
    anf_expr_token t = anf_expr_token_at(e, i);
    anfi_putf(o, "  %zu..%zu %s ", t.start, t.end, anf_expr_token_name(t.kind));
    anfi_put(o, anf_expr_text(e) + t.start, t.end - t.start);
    anfi_putc(o, '\n');
  }
}

enum { INDENTED = 40 }; // deeper levels say how deep they are

/* A line a node, two blanks a level. Nodes come in the order of the text, a parent before its
 * children, so depths follow from the links. */
static void put_tree(anf_text *o, const anf_expr *e) {
  size_t n = anf_expr_node_count(e);
  uint32_t *depth = ANFI_NEW_N(anfi_scratch(o->cx), uint32_t, n);
  anfi_puts(o, "tree\n");
  for (size_t i = 0; i < n; i++) {
    const anf_expr_node *at = anf_expr_node_at(e, i);
    for (size_t c = at->first; c != ANF_EXPR_NO_NODE; c = anf_expr_node_at(e, c)->next)
      depth[c] = depth[i] + 1;
    uint32_t shown = depth[i] < INDENTED ? depth[i] : INDENTED;
    anfi_putf(o, "%*s", (int)(2 * shown + 2), "");
    if (depth[i] > INDENTED) anfi_putf(o, "(%u) ", depth[i]);
    anf_expr_print_node(e, i, o);
    anfi_putc(o, '\n');
  }
}

static void put_rpn(anf_text *o, const anf_expr *e) {
  anfi_puts(o, "reverse Polish\n ");
  for (size_t i = 0; i < anf_expr_node_count(e); i++) {
    size_t at = anf_expr_rpn_at(e, i);
    const anf_expr_node *n = anf_expr_node_at(e, at);
    anfi_putc(o, ' ');
    if (n->kind == ANF_EXPR_LIST) anfi_putf(o, "list:%zu", n->children);
    else anf_expr_print_node(e, at, o);
  }
  anfi_putc(o, '\n');
}

static anf_status put_value(anf_text *o, const anf_value *v) {
  anfi_puts(o, "value\n  ");
  anf_status st = anf_value_print(o->cx, v, 0, o);
  anfi_putc(o, '\n');
  return st;
}

/* ---- the command ---- */

static anf_status read_expression(cli *c, size_t nvalue, anf_expr **e) {
  const char *file = c->value[OPT_FILE];
  char *text = NULL;
  size_t len = 0;
  size_t ninput = nvalue ? nvalue : ANF_EXPR_ANY_INPUTS;
  anf_status st;
  if (file) {
    if (!anfi_os_read(c->cx, anfi_scratch(c->cx), file, &text, &len)) return ANF_IO;
    st = anf_expr_parse_file(c->cx, text, len, file, ninput, c->d, e);
  } else st = anf_expr_parse(c->cx, c->arg[0], strlen(c->arg[0]), ninput, c->d, e);
  if (st == ANF_OK) anfi_defer(c->cx, ANFI_ALWAYS, free_expr, *e);
  return st;
}

static anf_status evaluate(cli *c, const anf_expr *e, const char *const *word, size_t n,
                           anf_value **out) {
  anf_value **in = ANFI_NEW_N(anfi_scratch(c->cx), anf_value *, n + 1);
  anf_status st = ANF_OK;
  for (size_t i = 0; i < n && st == ANF_OK; i++) st = cli_value(c, word[i], &in[i]);
  if (st == ANF_OK) st = anf_expr_eval(e, n, 1, in, c->d, out);
  if (st == ANF_OK) anfi_defer(c->cx, ANFI_ALWAYS, anfi_release, *out);
  return st;
}

static int show_json(cli *c, const anf_value *v) {
  json_t *j = json_object(), *result = cli_json_value(c, v);
  if (anfi_failed(c->cx)) {
    json_decref(j), json_decref(result);
    return cli_status(c, ANF_LIMIT);
  }
  cli_json_put(c, j, "result", result);
  cli_json_put(c, j, "type", cli_json_type(c, v));
  return cli_json_write(c, j);
}

int cmd_expr(cli *c) {
  size_t skip = c->value[OPT_FILE] ? 0 : 1;
  if (c->narg < skip) return cli_usage(c, "which expression?");
  size_t n = c->narg - skip;
  anf_expr *e = NULL;
  anf_value *v = NULL;
  anf_text o = {.cx = c->cx};
  anf_status st = read_expression(c, n, &e);
  if (st != ANF_OK) return cli_status(c, st);
  bool run = n || !anf_expr_input_count(e) || c->value[OPT_JSON];
  if (run && !c->value[OPT_DOT]) st = evaluate(c, e, c->arg + skip, n, &v);
  if (st != ANF_OK) return cli_status(c, st);
  if (c->value[OPT_JSON] && !c->value[OPT_DOT]) return show_json(c, v);
  if (c->value[OPT_DOT]) st = anf_expr_write_dot(e, &o);
  else {
    put_tokens(&o, e);
    put_tree(&o, e);
    put_rpn(&o, e);
    if (v) st = put_value(&o, v);
  }
  return cli_finish(c, st, &o);
}
