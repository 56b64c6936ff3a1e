// SPDX-License-Identifier: Apache-2.0
/* Operators that pnnx left as PyTorch's own: aten.def names their inputs, and the layer that has those names makes
 * them.
 *   aten::addmv(x, m, v, 1, 2)   ->   torch.addmv with input=x mat=m vec=v beta=1 alpha=2 */
#include "frontend/pnnx/pnnx.h"

typedef struct {
  const char *name;
  size_t nin;
  const char *type, *inputs, *parameters;
} row;

static const row rows[] = {
#define ATEN_OP(name, nin, type, inputs, parameters) {name, nin, type, inputs, parameters},
#include "frontend/pnnx/aten.def"
#undef ATEN_OP
};

/* The next word of a list, kept; NULL at its end. */
static const char *next_word(const anfi_layer *l, const char **list) {
  size_t n = strcspn(*list, " ");
  if (!n) return NULL;
  const char *word = anfi_strndup(l->t->arena, *list, n);
  *list += n + ((*list)[n] == ' ');
  return word;
}

static void add_parameter(const anfi_layer *l, anf_pnnx_op *op, const char *word) {
  anfi_item *it = ANFI_NEW(l->t->arena, anfi_item);
  const char *eq = strchr(word, '='), *text = eq + 1;
  bool truth = strcmp(text, "True") == 0;
  *it = (anfi_item){.kind = truth ? ANFI_ITEM_BOOL : ANFI_ITEM_STRING, .i = truth, .s = text};
  anfi_parameter p = {.key = anfi_strndup(l->t->arena, word, (size_t)(eq - word)),
                      .text = text,
                      .col = 1,
                      .n = 1,
                      .item = it};
  anfi_push(l->t->arena, &op->params, p);
}

/* The operator as the other type would be written. */
static anf_pnnx_op *rewritten(const anfi_layer *l, const row *r) {
  anf_pnnx_op *op = ANFI_NEW(l->t->arena, anf_pnnx_op);
  const char *inputs = r->inputs, *more = r->parameters, *word;
  *op = *l->op;
  op->type = r->type;
  op->in_name = ANFI_NEW_N(l->t->arena, const char *, op->nin + 1);
  op->in_used = ANFI_NEW_N(l->t->arena, bool, op->nin + 1);
  for (uint32_t i = 0; i < op->nin; i++) op->in_name[i] = next_word(l, &inputs);
  memset(&op->params, 0, sizeof op->params);
  for (size_t i = 0; i < l->op->params.n; i++)
    anfi_push(l->t->arena, &op->params, l->op->params.at[i]);
  while ((word = next_word(l, &more))) add_parameter(l, op, word);
  return op;
}

bool anfi_layer_aten(anfi_layer *l) {
  for (size_t i = 0; i < ANFI_LEN(rows); i++) {
    if (rows[i].nin != l->op->nin || strcmp(rows[i].name, l->op->type) != 0) continue;
    const anfi_layer_row *to = anfi_pnnx_row(rows[i].type);
    anfi_layer other = *l;
    other.op = rewritten(l, &rows[i]);
    other.row = to;
    if (!to->make(&other) || !anfi_layer_all_used(&other)) return false;
    for (size_t k = 0; k < l->op->params.n; k++) l->op->params.at[k].used = true;
    for (uint32_t k = 0; k < l->op->nin; k++) l->op->in_used[k] = true;
    l->nresult = other.nresult;
    return true;
  }
  return anfi_layer_error(l, ANF_E1053, "this number of inputs");
}
