// SPDX-License-Identifier: Apache-2.0
/* docs/ops.md and docs/status.md, written from the op table.
 *   the row of Tanh in op.def   ->   a row of the table: its signature, what it computes, and a cell for each engine and format
 * A column that a row lacks is a red cell. */
#include "ir/ops/op.h"

#define RED "🟥"

static const char *const lower_names[] = {"none",   "pointwise", "index map", "reduce", "contract",
                                          "window", "scatter",   "random",    "call",   "control"};

const char *anfi_lower_name(anfi_lower l) { return lower_names[l]; }

/* Text inside a table: a bar would end the cell. */
static void put_escaped(anf_text *o, const char *s) {
  for (; *s; s++) {
    if (*s == '|') anfi_putc(o, '\\');
    anfi_putc(o, *s);
  }
}

static void put_code(anf_text *o, const char *s) {
  anfi_putc(o, '`');
  put_escaped(o, s);
  anfi_putc(o, '`');
}

/* A heading and the header of its table whenever the family changes. */
static void put_family(anf_text *o, const char *family, const char *header) {
  anfi_putf(o, "\n## %c%s\n%s", family[0] - 'a' + 'A', family + 1, header);
}

/* Mul(a, b), Sum(x, axis=None, keepdims=false) */
static void put_signature(anf_text *o, anf_ctx *cx, anfi_opcode op) {
  const anfi_schema *s = anfi_op_schema(cx, op);
  bool first = true;
  anfi_putf(o, "`%s(", anfi_op[op].name);
  for (uint32_t i = 0; i < s->nin; i++, first = false) {
    bool many = s->variadic && i + 1 == s->nin;
    anfi_putf(o, "%s%s%s%s", first ? "" : ", ", many ? "*" : "", s->in[i]->s,
              i >= s->min_in && !many ? "?" : "");
  }
  for (uint32_t k = 0; k < s->nattr; k++, first = false) {
    anfi_putf(o, "%s%s", first ? "" : ", ", s->attr[k].name->s);
    if (!s->attr[k].initial) continue;
    anfi_putc(o, '=');
    anfi_put_value(o, s->attr[k].initial, 0);
  }
  anfi_puts(o, ")`");
}

static const char ops_head[] =
    "# Operations\n\n"
    "Written by `./dev docs` from `ir/ops/op.def`; `anfora ops NAME` tells more of one.\n\n"
    "An input marked `?` may be absent, `*xs` is any number of inputs. Attributes are given by "
    "name; "
    "one without a\n"
    "default must be given. Where several tensors meet elementwise, shapes broadcast as NumPy's "
    "do, and types are\n"
    "promoted as `docs/language.md` says.\n\n"
    "How results are computed, by the reference kernels and so by everything that is compared with "
    "them:\n"
    "- Integers wrap to the width of the result's type. Dividing an integer by zero is an error.\n"
    "- Elementwise ops work in the promoted type of their inputs: f64 in double, f32 rounded after "
    "every step,\n"
    "  f16 and bf16 in f32 and rounded once at the end. Real functions of integers give f64.\n"
    "- Sums and other reductions of floats take elements in row-major order, accumulate in f64 and "
    "round once.\n"
    "- NaN, infinities, signed zeros and tensors without elements behave as in NumPy 2.\n"
    "- An index outside its dim is an error, a negative one counts from the end; slices clamp.\n\n"
    "The column NumPy is the expression that tests compare with; names without `np.` in it are "
    "functions of\n"
    "`test/ops/reference.py`.\n";

void anfi_put_ops_markdown(anf_text *o, anf_ctx *cx) {
  const char *family = "";
  anfi_puts(o, ops_head);
  for (int i = 0; i < ANF_OP_COUNT; i++) {
    const anfi_op_info *op = &anfi_op[i];
    if (strcmp(op->family, family) != 0)
      put_family(o, family = op->family, "| operation | result | NumPy |\n|---|---|---|\n");
    anfi_puts(o, "| ");
    put_signature(o, cx, (anfi_opcode)i);
    anfi_puts(o, " | ");
    put_escaped(o, op->doc ? op->doc : RED);
    anfi_puts(o, " | ");
    if (op->numpy) put_code(o, op->numpy);
    anfi_puts(o, " |\n");
  }
}

/* ---- the matrix ---- */

static const char *gradient_cell(const anfi_op_info *op) {
  if (!op->grad) return op->vjp ? "yes" : RED " missing";
  if (strcmp(op->grad, "*") == 0) return "transforms";
  if (strcmp(op->grad, "!") == 0) return "not differentiable";
  return strspn(op->grad, "_ ") == strlen(op->grad) ? "zero" : "yes";
}

static const char *kernel_cell(const anfi_op_info *op) {
  if (op->scalar) return "scalar code";
  if (op->eval) return "yes";
  return op->flags & ANFI_TRANSFORM ? "expanded"
         : op->flags & ANFI_CALLS   ? "interpreter"
                                    : RED " missing";
}

/* Ops that work on functions, tuples and records are tested by programs, not by generated inputs.
 */
static const char *check_cell(const anfi_op_info *op) {
  if (op->numpy && op->sample) return "NumPy";
  return op->lower == ANFI_LOWER_CONTROL || op->lower == ANFI_LOWER_CALL ? "programs"
                                                                         : RED " missing";
}

static void put_names(anf_text *o, const char *s) {
  anfi_puts(o, " | ");
  put_escaped(o, s ? s : "");
}

static void count(anf_text *o, const char *what, size_t have, size_t of) {
  anfi_putf(o, "| %s | %zu of %zu |\n", what, have, of);
}

static void put_summary(anf_text *o) {
  size_t grad = 0, kernel = 0, checked = 0, lower = 0, doc = 0, n = ANF_OP_COUNT;
  for (size_t i = 0; i < n; i++) {
    const anfi_op_info *op = &anfi_op[i];
    grad += op->grad || op->vjp;
    kernel += kernel_cell(op)[0] != RED[0];
    checked += check_cell(op)[0] != RED[0];
    lower += op->lower != ANFI_LOWER_NONE;
    doc += op->doc != NULL;
  }
  anfi_puts(o, "| column | rows that have it |\n|---|---|\n");
  count(o, "reference kernel", kernel, n);
  count(o, "checked", checked, n);
  count(o, "gradient", grad, n);
  count(o, "lowering kind", lower, n);
  count(o, "documentation", doc, n);
}

static const char status_head[] = "# What each operation has\n\n"
                                  "Written by `./dev docs` from `ir/ops/op.def`. " RED
                                  " marks a column that a row lacks. Names in other formats are\n"
                                  "empty where the format has no such operation.\n\n";
static const char status_table[] =
    "| operation | kernel | checked | gradient | lowering | ONNX | MindIR | PNNX | ATen "
    "|\n|---|---|---|---|---|---|---|---|---|\n";

void anfi_put_status_markdown(anf_text *o, anf_ctx *cx) {
  (void)cx;
  const char *family = "";
  anfi_puts(o, status_head);
  put_summary(o);
  for (int i = 0; i < ANF_OP_COUNT; i++) {
    const anfi_op_info *op = &anfi_op[i];
    if (strcmp(op->family, family) != 0) put_family(o, family = op->family, status_table);
    const char *lower = op->lower == ANFI_LOWER_NONE ? RED " missing" : lower_names[op->lower];
    anfi_putf(o, "| %s%s | %s | %s | %s | %s", op->name, op->doc ? "" : " " RED, kernel_cell(op),
              check_cell(op), gradient_cell(op), lower);
    put_names(o, op->onnx);
    put_names(o, op->mindir);
    put_names(o, op->pnnx);
    put_names(o, op->aten);
    anfi_puts(o, " |\n");
  }
}
