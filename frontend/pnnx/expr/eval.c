// SPDX-License-Identifier: Apache-2.0
/* An expression evaluated in reverse Polish form over a batch on a stack, or built as one graph.
 *   add(@0,2) of 1   ->   push 1; push 2; add: 3          add(@0,2) as a graph   ->   Add(x0, 2)
 * Both walk the same form with the same operations (torch.c); the operands are values in the one and nodes in the
 * other. */
#include "frontend/pnnx/pnnx.h"

static anfi_operand constant(anfi_torch *t, const anf_expr_node *n) {
  anf_value *v = NULL;
  switch (n->constant) {
  case ANF_EXPR_NONE: return (anfi_operand){.kind = ANFI_OPERAND_NONE};
  case ANF_EXPR_BOOL: v = anfi_value_new_i64(t->cx, ANF_BOOL, n->i); break;
  case ANF_EXPR_INT: v = anfi_value_new_i64(t->cx, ANF_INT, n->i); break;
  case ANF_EXPR_FLOAT: v = anfi_value_new_f64(t->cx, ANF_FLOAT, n->re); break;
  case ANF_EXPR_COMPLEX_NUMBER:
    v = anfi_value_new_tensor(t->cx, anfi_type_scalar(t->cx, ANF_C128));
    memcpy(v->data, (const double[]){n->re, n->im}, 2 * sizeof(double));
  }
  anfi_operand o = anfi_operand_value(t->cx, anfi_torch_own(t, v));
  o.number = true;
  return o;
}

/* One node whose operands are in `in`. */
static bool step(anfi_torch *t, const anf_expr *e, size_t i, const anfi_operand *in,
                 anfi_operand *out) {
  const anfi_expr_tree_node *n = &e->nodes.at[i];
  t->loc = anfi_expr_place(e, e->tokens.at[n->n.token].start);
  if (n->n.kind == ANF_EXPR_CALL) return anfi_torch_apply(t, n->row, n->n.children, in, out);
  if (n->n.kind == ANF_EXPR_CONSTANT) return *out = constant(t, &n->n), true;
  *out = (anfi_operand){.kind = ANFI_OPERAND_LIST, .n = n->n.children};
  out->item = ANFI_NEW_N(t->arena, anfi_operand, n->n.children + 1);
  if (n->n.children) memcpy(out->item, in, n->n.children * sizeof *in);
  return true;
}

/* ---- evaluation: the stack holds a batch of operands in each place ---- */

typedef struct {
  const anf_expr *e;
  anfi_torch *t;
  size_t batch;
  anf_value *const *in;
  anfi_operand *out; // of one node, for the batch
  ANFI_VEC(anfi_operand) stack;
} machine;

static void push_input(machine *m, size_t input) {
  for (size_t b = 0; b < m->batch; b++)
    anfi_push(m->t->arena, &m->stack, anfi_operand_value(m->t->cx, m->in[input * m->batch + b]));
}

/* Operand k of element b is at base[k * batch + b]. The results take the operands' places. */
static bool operate(machine *m, size_t node) {
  size_t k = m->e->nodes.at[node].n.children;
  bool is_list = m->e->nodes.at[node].n.kind == ANF_EXPR_LIST;
  anfi_operand few[4], *args = k > ANFI_LEN(few) ? ANFI_NEW_N(m->t->arena, anfi_operand, k) : few;
  size_t base = m->stack.n - k * m->batch;
  anfi_operand *out = m->out;
  for (size_t b = 0; b < m->batch; b++) {
    for (size_t i = 0; i < k; i++) args[i] = m->stack.at[base + i * m->batch + b];
    if (!step(m->t, m->e, node, args, &out[b])) return false;
  }
  for (size_t i = base; i < m->stack.n && !is_list; i++) {
    bool kept = false;
    for (size_t b = 0; b < m->batch; b++) kept |= out[b].value == m->stack.at[i].value;
    if (!kept) anfi_torch_drop(m->t, &m->stack.at[i]);
  }
  m->stack.n = base;
  for (size_t b = 0; b < m->batch; b++) anfi_push(m->t->arena, &m->stack, out[b]);
  return true;
}

/* A list becomes a tuple, in which a list is a tuple. Lists nest as deep as the text says. */
static anf_value *to_value(anfi_torch *t, const anfi_operand *o) {
  if (o->kind == ANFI_OPERAND_NONE) return anfi_value_new_none(t->cx);
  return anf_value_retain(o->value);
}

typedef struct {
  const anfi_operand *list;
  anf_value *tuple;
  size_t at;
} filling;

static anf_value *result(anfi_torch *t, const anfi_operand *o) {
  ANFI_VEC(filling) open = {0};
  if (o->kind != ANFI_OPERAND_LIST) return to_value(t, o);
  anf_value *root = anfi_torch_own(t, anfi_value_new_tuple(t->cx, o->n));
  anfi_push(t->arena, &open, ((filling){o, root, 0}));
  while (open.n) {
    filling *f = &open.at[open.n - 1];
    if (f->at == f->list->n) {
      open.n--;
      continue;
    }
    const anfi_operand *item = &f->list->item[f->at];
    bool nested = item->kind == ANFI_OPERAND_LIST;
    anf_value *v = nested ? anfi_value_new_tuple(t->cx, item->n) : to_value(t, item);
    f->tuple->u.item[f->at++] = v;
    if (nested) anfi_push(t->arena, &open, ((filling){item, v, 0}));
  }
  return anf_value_retain(root);
}

static bool check_inputs(const anf_expr *e, size_t n) {
  if (n >= e->most_input) return true;
  return anfi_fail(e->cx, e->start, ANF_E1008, e->most_input, e->most_input == 1 ? "" : "s", n);
}

static void evaluate(const anf_expr *e, size_t n, size_t batch, anf_value *const *in,
                     anf_value **out) {
  machine m = {.e = e, .t = anfi_torch_new(e->cx, NULL), .batch = batch, .in = in};
  if (!check_inputs(e, n)) return;
  m.out = ANFI_NEW_N(m.t->arena, anfi_operand, batch + 1);
  for (size_t i = 0; i < e->rpn.n; i++) {
    const anf_expr_node *node = &e->nodes.at[e->rpn.at[i]].n;
    if ((i & 4095) == 0 && !anfi_go_on(e->cx, "evaluating", (double)i / (double)e->rpn.n)) return;
    if (node->kind == ANF_EXPR_INPUT) push_input(&m, node->input);
    else if (!operate(&m, e->rpn.at[i])) return;
  }
  for (size_t b = 0; b < batch; b++) out[b] = result(m.t, &m.stack.at[b]);
}

anf_status anf_expr_eval(const anf_expr *e, size_t n, size_t batch, anf_value *const *in,
                         anf_diag *d, anf_value **out) {
  ANFI_NEED(d, e, out);
  if (n) ANFI_NEED(d, in);
  for (size_t i = 0; i < n * batch; i++) ANFI_NEED(d, in[i]);
  for (size_t b = 0; b < batch; b++) out[b] = NULL;
  ANFI_ENTRY(e->cx, d);
  evaluate(e, n, batch, in, out);
  anf_status st = anfi_leave(e->cx);
  for (size_t b = 0; b < batch && st != ANF_OK; b++) {
    anf_value_release(out[b]);
    out[b] = NULL;
  }
  return st;
}

/* ---- as a graph ---- */

bool anfi_expr_emit(anfi_torch *t, const anf_expr *e, size_t n, const anfi_operand *in,
                    anfi_operand *out) {
  ANFI_VEC(anfi_operand) stack = {0};
  if (!check_inputs(e, n)) return false;
  for (size_t i = 0; i < e->rpn.n; i++) {
    const anf_expr_node *node = &e->nodes.at[e->rpn.at[i]].n;
    anfi_operand made;
    if (node->kind == ANF_EXPR_INPUT) made = in[node->input];
    else if (!step(t, e, e->rpn.at[i], node->children ? &stack.at[stack.n - node->children] : NULL,
                   &made))
      return false;
    stack.n -= node->children;
    anfi_push(t->arena, &stack, made);
  }
  *out = stack.at[0];
  return true;
}

static anf_graph *make_graph(const anf_expr *e, anf_module *m, const char *name, size_t n,
                             const anf_type *const *types) {
  anf_graph *g = anfi_graph_new(m, anfi_intern_z(&m->strings, name));
  anfi_torch *t = anfi_torch_new(e->cx, g);
  anfi_operand *in = ANFI_NEW_N(t->arena, anfi_operand, n + 1), out;
  for (size_t i = 0; i < n; i++) {
    const char *param = anfi_sprintf(t->arena, "x%zu", i);
    in[i] = anfi_operand_node(anfi_param(g, anfi_intern_z(&m->strings, param), types[i]), types[i]);
    in[i].number =
        anfi_is_scalar(types[i]) && (types[i]->dtype == ANF_INT || types[i]->dtype == ANF_FLOAT);
  }
  t->debug = anfi_debug_new(m, (anfi_debug){.line = 1, .col = 1});
  if (anfi_expr_emit(t, e, n, in, &out)) anfi_set_result(g, anfi_torch_node(t, &out));
  return g;
}

anf_status anf_expr_graph(const anf_expr *e, anf_module *m, const char *name, size_t n,
                          const anf_type *const *types, anf_diag *d, anf_graph **out) {
  ANFI_NEED(d, e, m, name, out);
  if (n) ANFI_NEED(d, types);
  *out = NULL;
  ANFI_ENTRY(e->cx, d);
  *out = make_graph(e, m, name, n, types);
  anf_status st = anfi_leave(e->cx);
  if (st != ANF_OK) *out = NULL;
  return st;
}
