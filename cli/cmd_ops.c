// SPDX-License-Identifier: Apache-2.0
/* anfora ops: the op table, whole or one row.
 *   anfora ops MatMul   ->   inputs, attributes, lowering, gradient and the names of other formats, from op.def */
#include "cli/cli.h"
#include "ir/ops/op.h"

#include <jansson.h>

static const char *or_none(const char *s) { return s && s[0] ? s : "none"; }

static void put_flags(anf_text *t, uint32_t flags) {
  static const char *const name[] = {"commutative", "associative", "effect",    "random",
                                     "linear",      "calls",       "transform", "along axes",
                                     "one pass",    "in order"};
  for (size_t i = 0; i < ANFI_LEN(name); i++)
    if (flags & 1u << i) anfi_putf(t, "%s%s", t->len ? ", " : "", name[i]);
}

/* ---- one op ---- */

static void describe(cli *c, const anfi_op_info *op) {
  anf_text flags = {.cx = c->cx};
  put_flags(&flags, op->flags);
  printf("%s: %s\n\n", op->name, op->doc ? op->doc : "");
  printf("  family      %s\n  inputs      %s\n  attributes  %s\n", op->family, or_none(op->in),
         or_none(op->attrs));
  if (op->scalar) printf("  elementwise %s\n", op->scalar);
  if (flags.len) printf("  is          %s\n", flags.text);
  printf("  lowering    %s\n", anfi_lower_name(op->lower));
  const char *grad = !op->grad                    ? op->vjp ? "by a hook" : "not implemented"
                     : strcmp(op->grad, "!") == 0 ? "not differentiable"
                     : strcmp(op->grad, "*") == 0 ? "by the transforms"
                                                  : op->grad;
  printf("  gradient    %s\n", grad);
  if (op->numpy) printf("  NumPy       %s\n", op->numpy);
  if (op->onnx) printf("  ONNX        %s\n", op->onnx);
  if (op->mindir) printf("  MindIR      %s\n", op->mindir);
  if (op->pnnx) printf("  PNNX        %s\n", op->pnnx);
  if (op->aten) printf("  ATen        %s\n", op->aten);
  anf_text_free(&flags);
}

static json_t *text_or_null(const char *s) { return s ? json_string(s) : json_null(); }

static json_t *op_json(cli *c, const anfi_op_info *op) {
  anf_text flags = {.cx = c->cx};
  anfi_puts(&flags, "");
  put_flags(&flags, op->flags);
  json_t *j = json_object();
  cli_json_put(c, j, "name", json_string(op->name));
  cli_json_put(c, j, "family", text_or_null(op->family));
  cli_json_put(c, j, "inputs", json_string(op->in ? op->in : ""));
  cli_json_put(c, j, "attributes", json_string(op->attrs ? op->attrs : ""));
  cli_json_put(c, j, "doc", text_or_null(op->doc));
  cli_json_put(c, j, "scalar", text_or_null(op->scalar));
  cli_json_put(c, j, "gradient", text_or_null(op->grad || !op->vjp ? op->grad : "vjp"));
  cli_json_put(c, j, "lowering", json_string(anfi_lower_name(op->lower)));
  cli_json_put(c, j, "flags", json_string(flags.text));
  cli_json_put(c, j, "numpy", text_or_null(op->numpy));
  cli_json_put(c, j, "onnx", text_or_null(op->onnx));
  cli_json_put(c, j, "mindir", text_or_null(op->mindir));
  cli_json_put(c, j, "pnnx", text_or_null(op->pnnx));
  cli_json_put(c, j, "aten", text_or_null(op->aten));
  anf_text_free(&flags);
  return j;
}

/* ---- many ---- */

static char lower_case(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c; }

static bool same_word(const char *a, const char *b) {
  for (; *a && lower_case(*a) == lower_case(*b); a++) b++;
  return lower_case(*a) == lower_case(*b);
}

static bool contains(const char *text, const char *word) {
  for (; text && *text; text++) {
    size_t i = 0;
    while (word[i] && lower_case(text[i]) == lower_case(word[i])) i++;
    if (!word[i]) return true;
  }
  return false;
}

static bool matches(const anfi_op_info *op, const char *word) {
  return !word || contains(op->name, word) || contains(op->family, word) || contains(op->doc, word);
}

static void list(cli *c, const char *word) {
  const char *family = "";
  anf_text t = {.cx = c->cx};
  for (size_t i = 0; i < ANF_OP_COUNT; i++) {
    const anfi_op_info *op = &anfi_op[i];
    if (!matches(op, word)) continue;
    if (strcmp(op->family, family) != 0) anfi_putf(&t, "%s%s\n", *family ? "\n" : "", op->family);
    family = op->family;
    anfi_putf(&t, "  %-24s %s\n", op->name, op->doc ? op->doc : "");
  }
  cli_put(c, t.text, t.len);
  anf_text_free(&t);
}

static int list_json(cli *c, const char *word, const anfi_op_info *only) {
  json_t *j = json_object(), *ops = json_array();
  for (size_t i = 0; i < ANF_OP_COUNT; i++) {
    if (only ? only != &anfi_op[i] : !matches(&anfi_op[i], word)) continue;
    if (json_array_append_new(ops, op_json(c, &anfi_op[i])) != 0) anfi_throw_nomem(c->cx);
  }
  cli_json_put(c, j, "ops", ops);
  return cli_json_write(c, j);
}

static const char *op_name(void *user, size_t i) {
  (void)user;
  return i < ANF_OP_COUNT ? anfi_op[i].name : NULL;
}

static int page(cli *c, void (*put)(anf_text *, anf_ctx *)) {
  anf_text t = {.cx = c->cx};
  put(&t, c->cx);
  cli_put(c, t.text, t.len);
  anf_text_free(&t);
  return EXIT_OK;
}

int cmd_ops(cli *c) {
  if (c->narg > 1) return cli_usage(c, "one name at a time");
  if (c->value[OPT_MARKDOWN]) return page(c, anfi_put_ops_markdown);
  if (c->value[OPT_STATUS]) return page(c, anfi_put_status_markdown);
  const char *word = c->narg ? c->arg[0] : NULL;
  const anfi_op_info *only = NULL;
  size_t count = 0;
  for (size_t i = 0; i < ANF_OP_COUNT; i++) {
    if (word && same_word(anfi_op[i].name, word)) only = &anfi_op[i];
    count += matches(&anfi_op[i], word);
  }
  if (!count && !only) {
    anfi_fail(c->cx, anfi_nowhere(), ANF_E0201, word);
    anfi_suggest(c->cx, word, op_name, NULL);
    return cli_status(c, ANF_INVALID);
  }
  if (c->value[OPT_JSON]) return list_json(c, word, only);
  if (only) describe(c, only);
  else list(c, word);
  return EXIT_OK;
}
