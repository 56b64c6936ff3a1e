// SPDX-License-Identifier: Apache-2.0
/* Expressions to nodes.
 *   a + b + c   ->   %1 = Add(a, b);  %2 = Add(%1, c)
 * Recursion follows the tree, whose depth max_nesting bounds; chains of operators and of calls are loops. */
#include "frontend/anf/anf.h"
#include "base/mark.h"

/* An op by name that the language itself needs. */
anf_node *anfi_anf_apply(lower *lw, const ast *e, const char *op, size_t n, anf_node *const *in) {
  anfi_opcode k = anfi_op_find(lw->cx, op, strlen(op));
  if (k == ANF_OP_NONE) {
    anfi_fail(lw->cx, anfi_anf_loc(lw, e), ANF_E0201, op);
    return lw->bad;
  }
  return anfi_anf_at(lw, anfi_apply(lw->g, k, NULL, n, in), e);
}

bool anfi_anf_is_const(const anf_node *n) {
  return n->kind == ANFI_VALUE && n->u.value->kind != ANF_VALUE_FN;
}

/* Takes the reference. */
static const anfi_attrs *one_attr(lower *lw, anfi_opcode op, anf_value *v, anfi_loc loc) {
  const anfi_attrs *at = NULL;
  anfi_hold(lw->m, v);
  anfi_attrs_new(lw->m, op, &v, loc, &at);
  return at;
}

anf_node *anfi_anf_tuple_get(lower *lw, const ast *e, anf_node *t, size_t i) {
  if (t == lw->bad) return t;
  const anf_value *v = t->kind == ANFI_VALUE ? t->u.value : NULL;
  if (v && v->kind == ANF_VALUE_TUPLE && i < v->n)
    return anfi_value(lw->m, anf_value_retain(v->u.item[i]));
  while (lw->indices.n <= i) {
    anf_value *k = anfi_value_new_i64(lw->cx, ANF_INT, (int64_t)lw->indices.n);
    anfi_push(lw->p->a, &lw->indices, one_attr(lw, ANF_OP_TupleGet, k, anfi_anf_loc(lw, e)));
  }
  return anfi_anf_at(lw, anfi_apply(lw->g, ANF_OP_TupleGet, lw->indices.at[i], 1, &t), e);
}

/* ---- operators ---- */

static const struct {
  uint8_t tok;
  const char *op;
} binaries[] = {
    {T_PLUS, "Add"},         {T_MINUS, "Sub"},         {T_STAR, "Mul"},     {T_SLASH, "Div"},
    {T_DSLASH, "FloorDiv"},  {T_PERCENT, "Mod"},       {T_AT, "MatMul"},    {T_STARSTAR, "Power"},
    {T_LSHIFT, "ShiftLeft"}, {T_RSHIFT, "ShiftRight"}, {T_AMP, "BitAnd"},   {T_PIPE, "BitOr"},
    {T_CARET, "BitXor"},     {T_LT, "Less"},           {T_LE, "LessEqual"}, {T_GT, "Greater"},
    {T_GE, "GreaterEqual"},  {T_EQ, "Equal"},          {T_NE, "NotEqual"},
};

static anf_node *binary(lower *lw, const op_at *op, anf_node *a, anf_node *b) {
  ast at = {.line = op->line, .col = op->col};
  if (a == lw->bad || b == lw->bad) return lw->bad;
  for (size_t i = 0; i < ANFI_LEN(binaries); i++)
    if (binaries[i].tok == op->op)
      return anfi_anf_apply(lw, &at, binaries[i].op, 2, (anf_node *[]){a, b});
  return lw->bad;
}

/* a < b < c: a < b and then, in the branch graph, b < c; b is computed once, c only if need be. */
static anf_node *compare_chain(lower *lw, const ast *e, anf_node *left) {
  anf_graph *home = lw->g;
  size_t undo = lw->undo.n;
  anf_node *right = anfi_anf_expr(lw, e->kid[1]), *first = NULL;
  anf_node *holds = binary(lw, &e->u.ops[0], left, right);
  for (uint32_t i = 2; i < e->n; i++) {
    anf_graph *yes = anfi_anf_graph(lw, ANFI_THEN, e->kid[i]),
              *no = anfi_anf_graph(lw, ANFI_ELSE, e->kid[i]);
    anf_node *call = anfi_anf_switch(lw, e->kid[i], holds, yes, no);
    anfi_set_result(no, holds);
    if (first) anfi_set_result(lw->g, call);
    else first = call, undo = lw->undo.n;
    lw->g = yes;
    left = right;
    right = anfi_anf_expr(lw, e->kid[i]);
    holds = binary(lw, &e->u.ops[i - 1], left, right);
  }
  if (!first) return holds;
  anfi_set_result(lw->g, holds);
  anfi_anf_undo(lw, undo); // what the branches bind stays in them
  lw->g = home;
  return first;
}

static bool is_comparison(uint8_t op) { return op >= T_LT && op <= T_NE; }

static anf_node *chain(lower *lw, const ast *e) {
  uint8_t op = e->u.ops[0].op;
  if (op == W_and || op == W_or) return anfi_anf_and_or(lw, e);
  anf_node *v = anfi_anf_expr(lw, e->kid[0]);
  if (is_comparison(op)) return compare_chain(lw, e, v);
  for (uint32_t i = 1; i < e->n; i++)
    v = binary(lw, &e->u.ops[i - 1], v, anfi_anf_expr(lw, e->kid[i]));
  return v;
}

static anf_node *power(lower *lw, const ast *e) {
  size_t base = lw->stack.n;
  for (uint32_t i = 0; i < e->n; i++) anfi_anf_keep(lw, anfi_anf_expr(lw, e->kid[i]));
  anf_node *v = lw->stack.at[base + e->n - 1];
  for (uint32_t i = e->n - 1; i > 0; i--)
    v = binary(lw, &e->u.ops[i - 1], lw->stack.at[base + i - 1], v);
  lw->stack.n = base;
  return v;
}

static anf_node *unary(lower *lw, const ast *e) {
  anf_node *v = anfi_anf_expr(lw, e->kid[0]);
  if (v == lw->bad || e->op == T_PLUS) return v;
  const char *op = e->op == T_MINUS ? "Neg" : e->op == T_TILDE ? "BitNot" : "LogicalNot";
  return anfi_anf_apply(lw, e, op, 1, &v);
}

anf_node *anfi_anf_aug(lower *lw, const ast *s) {
  anf_node *now = anfi_anf_expr(lw, s->kid[0]), *by = anfi_anf_expr(lw, s->kid[1]);
  op_at op = {s->op, s->line, s->col};
  anf_node *v = binary(lw, &op, now, by);
  anfi_anf_name_node(lw, s->kid[0], v);
  return v;
}

/* ---- tuples and records ---- */

/* A tuple of literals is one constant: ((1, 2), 3). A tuple by its name is not copied into another one: t = (t, t)
 * would double the work of walks over constants. */
static bool is_written_out(const ast *e, const anf_node *v) {
  if (!anfi_anf_is_const(v)) return false;
  bool nested = v->u.value->kind == ANF_VALUE_TUPLE || v->u.value->kind == ANF_VALUE_RECORD;
  return !nested || !v->u.value->n || e->kind == A_TUPLE || e->kind == A_RECORD;
}

static anf_node *constant_tuple(lower *lw, size_t n, anf_node *const *items) {
  anf_value *v = anfi_value_new_tuple(lw->cx, n); // nothing can fail while it is filled
  for (size_t i = 0; i < n; i++) v->u.item[i] = anf_value_retain(items[i]->u.value);
  return anfi_value(lw->m, v);
}

static anf_node *tuple(lower *lw, const ast *e) {
  size_t base = lw->stack.n;
  bool constant = true, bad = false;
  for (uint32_t i = 0; i < e->n; i++) {
    anf_node *v = anfi_anf_expr(lw, e->kid[i]);
    constant &= is_written_out(e->kid[i], v);
    bad |= v == lw->bad;
    anfi_anf_keep(lw, v);
  }
  anf_node *const *items = e->n ? lw->stack.at + base : NULL; // NULL + 0 is no pointer
  anf_node *v = lw->bad;
  if (!bad && constant) v = constant_tuple(lw, e->n, items);
  else if (!bad) v = anfi_anf_at(lw, anfi_apply(lw->g, ANF_OP_MakeTuple, NULL, e->n, items), e);
  lw->stack.n = base;
  return v;
}

static bool check_fields(lower *lw, const ast *e) {
  anfi_map seen;
  anfi_map_init(&seen, lw->p->a);
  for (uint32_t i = 0; i < e->n; i++) {
    if (e->kid[i]->kind != A_KEYWORD) return false;
    if (anfi_map_find(&seen, e->kid[i]->u.word->id))
      return anfi_fail(lw->cx, anfi_anf_loc(lw, e->kid[i]), ANF_E0131, e->kid[i]->u.word->s);
    anfi_map_at(&seen, e->kid[i]->u.word->id);
  }
  return true;
}

static anf_value *record_value(lower *lw, const ast *e, anf_node *const *items) {
  const char **names = ANFI_NEW_N(lw->p->a, const char *, e->n);
  anf_value **values = ANFI_NEW_N(lw->p->a, anf_value *, e->n);
  for (uint32_t i = 0; i < e->n; i++) {
    names[i] = anfi_anf_name(lw, e->kid[i]->u.word)->s;
    values[i] = items[i]->u.value;
  }
  anf_value *v = anf_value_record(lw->cx, e->n, names, values);
  if (!v) anfi_throw_nomem(lw->cx);
  return v;
}

/* The names of a record's fields, as MakeRecord's attribute: a tuple of strings. */
static const anfi_attrs *field_names(lower *lw, const ast *e) {
  anf_value *v = anfi_value_new_tuple(lw->cx, e->n);
  anfi_hold(lw->m, v);
  for (uint32_t i = 0; i < e->n; i++) {
    const anfi_str *w = anfi_anf_name(lw, e->kid[i]->u.word);
    v->u.item[i] = anfi_value_new_string(lw->cx, w->s, w->len);
  }
  const anfi_attrs *at = NULL;
  anfi_attrs_new(lw->m, ANF_OP_MakeRecord, &v, anfi_anf_loc(lw, e), &at);
  return at;
}

static anf_node *record(lower *lw, const ast *e) {
  if (!check_fields(lw, e)) return lw->bad;
  size_t base = lw->stack.n;
  bool constant = true, bad = false;
  for (uint32_t i = 0; i < e->n; i++) {
    anf_node *v = anfi_anf_expr(lw, e->kid[i]->kid[0]);
    constant &= is_written_out(e->kid[i]->kid[0], v);
    bad |= v == lw->bad;
    anfi_anf_keep(lw, v);
  }
  anf_node *const *items = e->n ? lw->stack.at + base : NULL; // NULL + 0 is no pointer
  anf_node *v = lw->bad;
  if (!bad && constant) v = anfi_value(lw->m, record_value(lw, e, items));
  else if (!bad)
    v = anfi_anf_at(lw, anfi_apply(lw->g, ANF_OP_MakeRecord, field_names(lw, e), e->n, items), e);
  lw->stack.n = base;
  return v;
}

/* ---- f(x)[i].w ---- */

static anf_node *postfix_step(lower *lw, const ast *base, anf_node *v, const ast *k) {
  if (v == lw->bad) return v;
  switch ((akind)k->kind) {
  case A_CALL: return anfi_anf_call(lw, base, v, k);
  case A_INDEX: return anfi_anf_index(lw, v, k);
  case A_FIELD: return anfi_anf_field(lw, v, k);
  default: return lw->bad;
  }
}

/* f32[2, B] as a type, f32[2](...) and f32(...) as constants or casts */
static bool dtype_form(lower *lw, const ast *e, anf_node **v, uint32_t *from) {
  const ast *base = e->kid[0];
  anf_dtype d;
  if (lw->bind[base->u.word->id].state != B_NONE || !anfi_word_dtype(base->u.word, &d))
    return false;
  bool dims = e->kid[1]->kind == A_INDEX;
  const anf_type *t = dims ? anfi_anf_dims(lw, d, e->kid[1]) : anfi_type_scalar(lw->cx, d);
  uint32_t call = dims ? 2 : 1;
  *v = lw->bad;
  *from = call + 1;
  if (!t) return true;
  if (call < e->n && e->kid[call]->kind == A_CALL) *v = anfi_anf_typed(lw, base, t, e->kid[call]);
  else if (*from = call, dims) *v = anfi_value(lw->m, anfi_value_new_type(lw->cx, t));
  else return false;
  return true;
}

static anf_node *postfix(lower *lw, const ast *e) {
  const ast *base = e->kid[0];
  anf_node *v = NULL;
  uint32_t from = 1;
  if (base->kind == A_NAME) {
    const ast *k = e->kid[1];
    if (k->kind == A_FIELD && anfi_anf_dotted(lw, base, k, &v)) from = 2;
    else if (dtype_form(lw, e, &v, &from)) {
    } else if (k->kind == A_CALL && anfi_anf_builtin(lw, base, k, &v)) from = 2;
  }
  if (!v) v = anfi_anf_expr(lw, base);
  for (uint32_t i = from; i < e->n; i++) {
    v = postfix_step(lw, i == 1 ? base : NULL, v, e->kid[i]);
  }
  return v;
}

/* ---- the rest ---- */

static anf_node *word(lower *lw, const ast *e) {
  if (e->op == W_None) return anfi_anf_none(lw);
  return anfi_value(lw->m, anfi_value_new_i64(lw->cx, ANF_BOOL, e->op == W_true));
}

static anf_node *misplaced(lower *lw, const ast *e, const char *what) {
  anfi_fail(lw->cx, anfi_anf_loc(lw, e), ANF_E0123, what);
  return lw->bad;
}

anf_node *anfi_anf_expr(lower *lw, const ast *e) { /* dispatch */
  switch ((akind)e->kind) {
  case A_INT:
  case A_FLOAT: return anfi_anf_number(lw, e, e->kind == A_INT ? ANF_INT : ANF_FLOAT);
  case A_STR: return anfi_value(lw->m, anfi_value_new_string(lw->cx, e->u.str->s, e->u.str->n));
  case A_WORD: return word(lw, e);
  case A_NAME: return anfi_anf_name_value(lw, e->u.word, e);
  case A_TYPE: return anfi_value(lw->m, anfi_value_new_type(lw->cx, e->u.type));
  case A_TUPLE: return tuple(lw, e);
  case A_LIST: return anfi_anf_list(lw, e);
  case A_RECORD: return record(lw, e);
  case A_CHAIN: return chain(lw, e);
  case A_POWER: return power(lw, e);
  case A_UNARY: return unary(lw, e);
  case A_POSTFIX: return postfix(lw, e);
  case A_FN: return anfi_graph_value(anfi_anf_func(lw, e->u.fn));
  case A_IF: return anfi_anf_if(lw, e);
  case A_HOLE: return misplaced(lw, e, "'?'");
  case A_ELLIPSIS: return misplaced(lw, e, "'...'");
  case A_SLICE: return misplaced(lw, e, "a slice");
  case A_KEYWORD: return misplaced(lw, e, "a keyword");
  default: return lw->bad;
  }
}
