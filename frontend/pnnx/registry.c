// SPDX-License-Identifier: Apache-2.0
/* Types of operators and who makes them: the built-in tables, and what a host registered, which comes first.
 *   anfi_pnnx_creator_of(p, "nn.ReLU", &c)   ->   the row of layer.def, or the function that a host gave for nn.ReLU */
#include "frontend/pnnx/pnnx.h"

struct anf_pnnx_registry {
  anf_ctx *cx;
  anfi_arena arena;
  anfi_strtab names;
  ANFI_VEC(anfi_creator) made; // by name's id
};

static const anfi_layer_row rows[] = {
#define PNNX_OP(types, op, params, ignored)                                                        \
  {types "\0", anfi_layer_of_row, ANF_OP_##op, NULL, params, ignored},
#define PNNX_TEMPLATE(types, name, op, params, ignored)                                            \
  {types "\0", anfi_layer_of_row, ANF_OP_##op, #name, params, ignored},
#define PNNX_BUILT(types, name, op)                                                                \
  {types "\0", anfi_pnnx_make_##name, ANF_OP_##op, NULL, NULL, NULL},
#include "frontend/pnnx/layer.def"
#undef PNNX_OP
#undef PNNX_TEMPLATE
#undef PNNX_BUILT
#define ATEN_OP(name, nin, type, inputs, parameters)                                               \
  {name "\0", anfi_layer_aten, ANF_OP_NONE, NULL, NULL, NULL},
#include "frontend/pnnx/aten.def"
#undef ATEN_OP
};
/* Made by the model's builder itself. */
static const char structural[] =
    "pnnx.Input\0pnnx.Output\0pnnx.Attribute\0prim::TupleConstruct\0prim::ListConstruct\0"
    "prim::TupleUnpack\0prim::ListUnpack\0";

const anfi_layer_row *anfi_pnnx_row(const char *type) {
  for (size_t r = 0; r < ANFI_LEN(rows); r++)
    for (const char *name = rows[r].types; *name; name += strlen(name) + 1)
      if (strcmp(name, type) == 0) return &rows[r];
  return NULL;
}

bool anfi_pnnx_creator_of(const anf_pnnx *p, const char *type, anfi_creator *out) {
  const anfi_str *name =
      p->registry ? anfi_interned(&p->registry->names, type, strlen(type)) : NULL;
  if (name) return *out = p->registry->made.at[name->id], true;
  const anfi_layer_row *row = anfi_pnnx_row(type);
  if (row) *out = (anfi_creator){.make = row->make, .row = row};
  return row != NULL;
}

/* The least name after `last` of the list, or `best`. */
static const char *next_name(const char *list, const char *last, const char *best) {
  for (; *list; list += strlen(list) + 1)
    if (strcmp(list, last) > 0 && (!best || strcmp(list, best) < 0)) best = list;
  return best;
}

/* Sorted by selection: the list is asked for by documentation and tests alone. */
const char *anf_pnnx_type_name(size_t i) {
  const char *last = "", *best = NULL;
  for (size_t k = 0; k <= i; k++, last = best) {
    best = next_name(structural, last, NULL);
    for (size_t r = 0; r < ANFI_LEN(rows); r++) best = next_name(rows[r].types, last, best);
    if (!best) return NULL;
  }
  return last;
}
/* ---- a host's own ---- */

static void free_registry(void *p) { anf_pnnx_registry_free((anf_pnnx_registry *)p); }

static anf_pnnx_registry *new_registry(anf_ctx *cx) {
  anf_pnnx_registry *r = (anf_pnnx_registry *)anfi_raw(cx, NULL, 0, sizeof *r);
  if (!r) anfi_throw_nomem(cx);
  memset(r, 0, sizeof *r);
  r->cx = cx;
  anfi_arena_init(&r->arena, cx);
  anfi_defer(cx, ANFI_ON_FAIL, free_registry, r);
  anfi_strtab_init(&r->names, &r->arena);
  return r;
}

anf_pnnx_registry *anf_pnnx_registry_new(anf_ctx *cx) {
  if (!cx) return NULL;
  ANFI_ENTRY_ELSE(cx, NULL, NULL);
  anf_pnnx_registry *r = new_registry(cx);
  return anfi_leave(cx) == ANF_OK ? r : NULL;
}

void anf_pnnx_registry_free(anf_pnnx_registry *r) {
  if (!r) return;
  anf_ctx *cx = r->cx;
  anfi_arena_free(&r->arena);
  anfi_raw(cx, r, sizeof *r, 0);
}

static void add(anf_pnnx_registry *r, const char *type, anf_pnnx_creator make, void *user) {
  const anfi_str *name = anfi_intern_z(&r->names, type);
  anfi_creator c = {.user_make = make, .user = user};
  if (name->id < r->made.n) r->made.at[name->id] = c;
  else anfi_push(&r->arena, &r->made, c);
}

anf_status anf_pnnx_register(anf_pnnx_registry *r, const char *type, anf_pnnx_creator make,
                             void *user) {
  if (!r || !type || !make) return ANF_INVALID;
  ANFI_ENTRY(r->cx, NULL);
  add(r, type, make, user);
  return anfi_leave(r->cx);
}

/* ---- what a creator asks an operator for ---- */

const char *anf_pnnx_op_type(const anf_pnnx_op *op) { return op ? op->type : ""; }
const char *anf_pnnx_op_name(const anf_pnnx_op *op) { return op ? op->name : ""; }
uint32_t anf_pnnx_op_line(const anf_pnnx_op *op) { return op ? op->line : 0; }

const char *anf_pnnx_op_param(const anf_pnnx_op *op, const char *key) {
  ANFI_NEED_ELSE(op ? op->model->cx : NULL, NULL, op, key);
  const anfi_parameter *p = anfi_pnnx_param(op, key);
  return p ? p->text : NULL;
}

size_t anf_pnnx_op_ints(const anf_pnnx_op *op, const char *key, size_t max, int64_t *out) {
  ANFI_NEED_ELSE(op ? op->model->cx : NULL, 0, op, key, out);
  const anfi_parameter *p = anfi_pnnx_param(op, key);
  for (size_t i = 0; p && i < p->n; i++)
    if (p->item[i].kind != ANFI_ITEM_INT && p->item[i].kind != ANFI_ITEM_BOOL) return 0;
  for (size_t i = 0; p && i < p->n && i < max; i++) out[i] = p->item[i].i;
  return p ? p->n : 0;
}

size_t anf_pnnx_op_reals(const anf_pnnx_op *op, const char *key, size_t max, double *out) {
  ANFI_NEED_ELSE(op ? op->model->cx : NULL, 0, op, key, out);
  const anfi_parameter *p = anfi_pnnx_param(op, key);
  for (size_t i = 0; p && i < p->n; i++)
    if (p->item[i].kind != ANFI_ITEM_INT && p->item[i].kind != ANFI_ITEM_REAL) return 0;
  for (size_t i = 0; p && i < p->n && i < max; i++)
    out[i] = p->item[i].kind == ANFI_ITEM_REAL ? p->item[i].re : (double)p->item[i].i;
  return p ? p->n : 0;
}

anf_value *anf_pnnx_op_attr(const anf_pnnx_op *op, const char *key) {
  ANFI_NEED_ELSE(op ? op->model->cx : NULL, NULL, op, key);
  const anfi_weight *w = anfi_pnnx_weight(op, key);
  return w ? w->value : NULL;
}

anf_status anf_pnnx_fail(const anf_pnnx_op *op, const char *why) {
  ANFI_NEED_ELSE(op ? op->model->cx : NULL, ANF_INVALID, op, why);
  if (!op->model->cx->frame) return ANF_INVALID; // a creator alone calls this, during a build
  anfi_fail(op->model->cx, anfi_pnnx_at(op, 1), ANF_E1055, op->type, why);
  return ANF_INVALID;
}
