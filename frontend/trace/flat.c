// SPDX-License-Identifier: Apache-2.0
/* Data and functions of formats that have neither tuples nor closures (flat.h).
 *   (x, y).0 in the program   ->   the name of x in the file; no operator */
#include "frontend/trace/flat.h"

enum { FEW_NODES = 4 }; // of a function that is written in place wherever it is called

void anfi_flat_init(anfi_flat *w, const anfi_flat_form *form, void *own, anf_module *m,
                    anf_text *out) {
  *w = (anfi_flat){
      .form = form, .own = own, .cx = m->cx, .m = m, .arena = anfi_scratch(m->cx), .out = out};
  anfi_map_init(&w->functions.name, w->arena);
  anfi_map_init(&w->named, w->arena);
  anfi_strtab_init(&w->words, w->arena);
  w->an = anfi_analyse(m);
}

bool anfi_flat_refuse(anfi_flat *w, const anf_node *n, const char *what, const char *name) {
  return anfi_fail(w->cx, n ? anfi_node_loc(n) : anfi_nowhere(), w->form->refusal, what, name);
}

/* ---- data ---- */

const anfi_out *anfi_out_leaf(anfi_flat *w, const char *name, const anf_type *t) {
  anfi_out *x = ANFI_NEW(w->arena, anfi_out);
  *x = (anfi_out){.name = name, .type = t};
  return x;
}

const anfi_out *anfi_out_tuple(anfi_flat *w, size_t n, const anfi_out *const *item) {
  anfi_out *x = ANFI_NEW(w->arena, anfi_out);
  *x = (anfi_out){.n = n, .item = item};
  return x;
}

/* Recursion here and below is over the nesting of types. */
void anfi_out_add(anfi_flat *w, const anfi_out *x, anfi_outs *to) {
  if (x->name && *x->name) anfi_push(w->arena, to, x);
  for (size_t i = 0; i < x->n; i++) anfi_out_add(w, x->item[i], to);
}

const anfi_out *anfi_out_like(anfi_flat *w, const anfi_out *x, const anfi_out *const **next) {
  if (x->name) return *x->name ? *(*next)++ : x;
  const anfi_out **item = ANFI_NEW_N(w->arena, const anfi_out *, x->n + 1);
  for (size_t i = 0; i < x->n; i++) item[i] = anfi_out_like(w, x->item[i], next);
  return anfi_out_tuple(w, x->n, item);
}

static bool same_type(const anfi_flat *w, const anf_type *a, const anf_type *b) {
  return w->form->sized ? a == b : a->dtype == b->dtype;
}

bool anfi_out_same_form(const anfi_flat *w, const anfi_out *a, const anfi_out *b) {
  if (!a->name != !b->name || a->n != b->n) return false;
  if (a->name && !*a->name != !*b->name) return false;
  if (a->name && *a->name && !same_type(w, a->type, b->type)) return false;
  for (size_t i = 0; i < a->n; i++)
    if (!anfi_out_same_form(w, a->item[i], b->item[i])) return false;
  return true;
}

static bool has_items(const anf_type *t) {
  return t && (t->kind == ANF_TYPE_TUPLE || t->kind == ANF_TYPE_RECORD);
}

static const char *item_name(anfi_flat *w, const anf_type *t, const char *name, uint32_t i) {
  if (!name) return NULL;
  return t->kind == ANF_TYPE_RECORD ? anfi_sprintf(w->arena, "%s.%s", name, t->names[i]->s)
                                    : anfi_sprintf(w->arena, "%s.%u", name, i);
}

const anfi_out *anfi_flat_fresh(anfi_flat *w, const anf_type *t, const char *name) {
  if (t && t->kind == ANF_TYPE_NONE) return anfi_out_leaf(w, "", NULL);
  if (t && anfi_is_tensor(t)) return w->form->tensor(w, t, name);
  if (!has_items(t))
    return (void)anfi_flat_refuse(w, NULL, "data across functions that is", "no tensor or tuple"),
           NULL;
  const anfi_out **item = ANFI_NEW_N(w->arena, const anfi_out *, t->n + 1);
  for (uint32_t i = 0; i < t->n; i++)
    if (!(item[i] = anfi_flat_fresh(w, t->items[i], item_name(w, t, name, i)))) return NULL;
  return anfi_out_tuple(w, t->n, item);
}

const anfi_out *anfi_flat_constant(anfi_flat *w, const anf_value *v) {
  if (v->kind == ANF_VALUE_TENSOR) return w->form->constant(w, v);
  if (v->kind == ANF_VALUE_NONE) return anfi_out_leaf(w, "", NULL);
  if (v->kind != ANF_VALUE_TUPLE && v->kind != ANF_VALUE_RECORD)
    return (void)anfi_flat_refuse(w, NULL, "a constant that is", "a text, a type or a function"),
           NULL;
  const anfi_out **item = ANFI_NEW_N(w->arena, const anfi_out *, v->n + 1);
  for (size_t i = 0; i < v->n; i++)
    if (!(item[i] = anfi_flat_constant(w, v->u.item[i]))) return NULL;
  return anfi_out_tuple(w, v->n, item);
}

static void bind(anfi_flat *w, const anf_node *n, const anfi_out *x) {
  *anfi_map_at(&w->named, anfi_key(n)) = anfi_key(x);
}

const anfi_out *anfi_flat_operand(anfi_flat *w, const anf_node *n) {
  const uint64_t *at = anfi_map_find(&w->named, anfi_key(n));
  if (at) return (const anfi_out *)(uintptr_t)*at;
  if (n->kind != ANFI_VALUE || n->u.value->kind == ANF_VALUE_FN)
    return (void)anfi_flat_refuse(w, n, "a function", "that is data"), NULL;
  return anfi_flat_constant(w, n->u.value);
}

const anf_type *anfi_flat_type_of(const anf_node *n) {
  return n->kind == ANFI_VALUE ? anfi_value_type(n->u.value->cx, n->u.value) : n->type;
}

const anfi_out *anfi_flat_choose(anfi_flat *w, const anf_node *n, const anfi_out *c,
                                 const anfi_out *x, const anfi_out *y) {
  anfi_outs xs = {0}, ys = {0}, own = {0};
  if (!anfi_out_same_form(w, x, y))
    return (void)anfi_flat_refuse(w, n, "a choice between data", "of several forms"), NULL;
  anfi_out_add(w, x, &xs);
  anfi_out_add(w, y, &ys);
  for (size_t i = 0; i < xs.n; i++)
    anfi_push(w->arena, &own, w->form->select(w, c, xs.at[i], ys.at[i]));
  const anfi_out *const *next = own.at;
  return anfi_out_like(w, x, &next);
}

/* ---- ops of tuples and records, which write nothing ---- */

static const anfi_out *made(anfi_flat *w, const anf_node *n) {
  const anfi_out **item = ANFI_NEW_N(w->arena, const anfi_out *, n->nin + 1);
  for (uint32_t i = 0; i < n->nin; i++)
    if (!(item[i] = anfi_flat_operand(w, n->in[i].def))) return NULL;
  return anfi_out_tuple(w, n->nin, item);
}

/* The first attribute says an item by number or by name. Not found: `count` or more. */
static size_t field_index(const anfi_flat *w, const anf_node *n, size_t count) {
  const anf_value *v = anfi_attr_value(w->cx, (anfi_opcode)n->op, n->u.attrs, 0);
  const anf_type *t = anfi_flat_type_of(n->in[0].def);
  if (!v) return count;
  if (v->kind != ANF_VALUE_STRING) {
    int64_t i = anfi_get_i64(v, 0);
    return (size_t)(i < 0 ? i + (int64_t)count : i);
  }
  uint32_t i = 0;
  while (i < t->n && !(t->names[i]->len == v->n && !memcmp(t->names[i]->s, v->u.text, v->n))) i++;
  return i;
}

static const anfi_out *no_item(anfi_flat *w, const anf_node *n) {
  return (void)anfi_flat_refuse(w, n, "an item of a tuple", "whose number is computed"), NULL;
}

static const anfi_out *item_of(anfi_flat *w, const anf_node *n) {
  const anfi_out *t = anfi_flat_operand(w, n->in[0].def);
  size_t i = t ? field_index(w, n, t->n) : 0;
  if (!t) return NULL;
  return i < t->n ? t->item[i] : no_item(w, n);
}

static const anfi_out *with_item(anfi_flat *w, const anf_node *n) {
  const anfi_out *t = anfi_flat_operand(w, n->in[0].def),
                 *x = t ? anfi_flat_operand(w, n->in[1].def) : NULL;
  size_t i = x ? field_index(w, n, t->n) : 0;
  if (!x) return NULL;
  if (i >= t->n) return no_item(w, n);
  const anfi_out **all = ANFI_NEW_N(w->arena, const anfi_out *, t->n + 1);
  for (size_t k = 0; k < t->n; k++) all[k] = t->item[k];
  all[i] = x;
  return anfi_out_tuple(w, t->n, all);
}

static const anfi_out *joined(anfi_flat *w, const anf_node *n) {
  anfi_outs all = {0};
  for (uint32_t i = 0; i < n->nin; i++) {
    const anfi_out *t = anfi_flat_operand(w, n->in[i].def);
    if (!t) return NULL;
    for (size_t k = 0; k < t->n; k++) anfi_push(w->arena, &all, t->item[k]);
  }
  return anfi_out_tuple(w, all.n, all.at);
}

static const anfi_out *one_of_two(anfi_flat *w, const anf_node *n) {
  const anfi_out *c = anfi_flat_operand(w, n->in[0].def),
                 *x = c ? anfi_flat_operand(w, n->in[1].def) : NULL,
                 *y = x ? anfi_flat_operand(w, n->in[2].def) : NULL;
  return y ? anfi_flat_choose(w, n, c, x, y) : NULL;
}

/* Data that is never read. */
static const anfi_out *any_data(anfi_flat *w, const anf_type *t) {
  if (t && anfi_is_tensor(t)) return w->form->any(w, t);
  if (!has_items(t)) return anfi_out_leaf(w, "", NULL);
  const anfi_out **item = ANFI_NEW_N(w->arena, const anfi_out *, t->n + 1);
  for (uint32_t i = 0; i < t->n; i++)
    if (!(item[i] = any_data(w, t->items[i]))) return NULL;
  return anfi_out_tuple(w, t->n, item);
}

/* ---- functions ---- */

static bool is_function(const anf_node *n) {
  while (anfi_is_op(n, ANF_OP_Switch) || anfi_is_op(n, ANF_OP_SwitchLayer)) n = n->in[1].def;
  return n->kind == ANFI_VALUE && n->u.value->kind == ANF_VALUE_FN;
}

static bool is_data(const anf_type *t) {
  bool good = t && t->kind != ANF_TYPE_BOX && t->kind != ANF_TYPE_STACK && t->kind != ANF_TYPE_FN;
  for (uint32_t i = 0; good && has_items(t) && i < t->n; i++) good = is_data(t->items[i]);
  return good;
}

/* A function of the file, or nodes in place? Those with one use, small ones, and those that pass residuals. */
static bool is_separate(const anfi_flat *w, const anf_graph *g) {
  size_t uses = 0;
  for (const anfi_use *u = g->self ? g->self->uses : NULL; u && uses < 2; u = u->next) uses++;
  bool data = is_data(anfi_flat_type_of(g->result));
  for (size_t i = 0; data && i < g->params.n; i++) data = is_data(g->params.at[i]->type);
  bool deep = w->depth >= w->form->nested;
  return data && (deep || (uses > 1 && w->an->graphs[g->id].order.n > FEW_NODES));
}

const char *anfi_flat_name(const anfi_flat *w, const anf_graph *g) {
  const uint64_t *at = anfi_map_find(&w->functions.name, anfi_key(g));
  return at ? (const char *)(uintptr_t)*at : NULL;
}

static const anfi_out *call_function(anfi_flat *w, const anf_graph *g,
                                     const anfi_out *const *args) {
  anfi_outs in = {0};
  for (size_t i = 0; i < g->params.n; i++) anfi_out_add(w, args[i], &in);
  uint64_t *at = anfi_map_at(&w->functions.name, anfi_key(g));
  if (!*at) {
    *at = anfi_key(anfi_sprintf(w->arena, "f%zu", w->functions.todo.n));
    anfi_push(w->arena, &w->functions.todo, g);
  }
  return w->form->function(w, g, (const char *)(uintptr_t)*at, &in);
}

static const anfi_out *call_graph(anfi_flat *w, const anf_node *n, const anf_graph *g,
                                  const anfi_out *const *args) {
  if (w->an->graphs[g->id].recursive)
    return (void)anfi_flat_refuse(w, n, "a recursion that is no loop:", g->name->s), NULL;
  if (is_separate(w, g)) return call_function(w, g, args);
  if (w->depth >= 2 * w->form->nested)
    return (void)anfi_flat_refuse(w, n, "functions of residuals", "that nest so deeply"), NULL;
  w->depth++;
  const anfi_out *r = anfi_flat_body(w, g, args);
  w->depth--;
  return r;
}

const anfi_out *anfi_flat_call(anfi_flat *w, const anf_node *n, const anf_node *callee, size_t narg,
                               const anfi_out *const *args) {
  const anf_graph *g = anfi_value_graph(callee);
  if (g && g->params.n == narg) return call_graph(w, n, g, args);
  return w->form->choice(w, n, callee, narg, args);
}

/* callee(inputs from `first` on); input `data` is passed before them if it is not 0. */
static const anfi_out *called(anfi_flat *w, const anf_node *n, uint32_t first, uint32_t data) {
  const anfi_out **args = ANFI_NEW_N(w->arena, const anfi_out *, n->nin + 1);
  size_t k = 0, last = n->kind == ANFI_CALL ? n->nin : anfi_arg_count(n);
  if (data && !(args[k++] = anfi_flat_operand(w, n->in[data].def))) return NULL;
  for (size_t i = first; i < last; i++)
    if (!(args[k++] = anfi_flat_operand(w, n->in[i].def))) return NULL;
  return anfi_flat_call(w, n, n->in[0].def, k, args);
}

/* ---- bodies ---- */

static const anfi_out *apply(anfi_flat *w, const anf_node *n) {
  enum { CUSTOM_DATA = 3, CUSTOM_ARGS = 6 };
  switch (n->op) {
  case ANF_OP_MakeTuple:
  case ANF_OP_MakeRecord: return made(w, n);
  case ANF_OP_TupleGet:
  case ANF_OP_RecordGet: return item_of(w, n);
  case ANF_OP_TupleSet:
  case ANF_OP_RecordSet: return with_item(w, n);
  case ANF_OP_TupleConcat: return joined(w, n);
  case ANF_OP_Identity:
  case ANF_OP_StopGradient:
  case ANF_OP_Fence:
  case ANF_OP_Box:
  case ANF_OP_Unbox: return anfi_flat_operand(w, n->in[0].def);
  case ANF_OP_Switch: return one_of_two(w, n);
  case ANF_OP_Undef: return any_data(w, n->type);
  case ANF_OP_Loop: return w->form->loop(w, n);
  case ANF_OP_Recompute: return called(w, n, 1, 0);
  case ANF_OP_Custom: return called(w, n, CUSTOM_ARGS, CUSTOM_DATA);
  default: return w->form->op(w, n);
  }
}

static bool put_node(anfi_flat *w, const anf_node *n) {
  /* calls are marked by what they might do; the nodes of the callee tell */
  if (anfi_op_of(n)->flags & ANFI_EFFECT)
    return anfi_flat_refuse(w, n, "the effect", anfi_op_of(n)->name);
  const anfi_out *x = n->kind == ANFI_CALL ? called(w, n, 1, 0) : apply(w, n);
  if (x) bind(w, n, x);
  return x && !anfi_failed(w->cx);
}

const anfi_out *anfi_flat_body(anfi_flat *w, const anf_graph *g, const anfi_out *const *args) {
  const anfi_graph_info *gi = &w->an->graphs[g->id];
  for (size_t i = 0; i < g->params.n; i++) bind(w, g->params.at[i], args[i]);
  for (size_t i = 0; i < gi->order.n; i++)
    if (!is_function(gi->order.at[i]) && !put_node(w, gi->order.at[i])) return NULL;
  return anfi_flat_operand(w, g->result);
}
