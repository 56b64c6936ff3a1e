// SPDX-License-Identifier: Apache-2.0
/* Hooks of tuple.def and logic.def:
 *   Switch(c, (a, b), (a, d))            ->  (a, Switch(c, b, d)) */
#include "optimizer/rules/rule.h"

static anf_node *constant(anfi_rewriter *r, const anfi_match *m, double x) {
  size_t n;
  if (!anfi_type_elements(m->root->type, &n)) return NULL;
  return anfi_rewrite_number(r, m->root->type, x);
}

anf_node *anfi_rule_true(anfi_rewriter *r, const anfi_match *m) { return constant(r, m, 1); }
anf_node *anfi_rule_false(anfi_rewriter *r, const anfi_match *m) { return constant(r, m, 0); }

/* A Switch keeps the root's type, also where that is not known, as with functions. */
static anf_node *new_switch(anfi_rewriter *r, const anfi_match *m, anf_node *c, anf_node *x,
                            anf_node *y) {
  anf_node *n = anfi_apply3(m->root->graph, ANF_OP_Switch, c, x, y);
  n->type = m->root->type;
  n->debug = m->root->debug;
  anfi_push(r->arena, &r->todo, n);
  return n;
}

anf_node *anfi_rule_switch_not(anfi_rewriter *r, const anfi_match *m) {
  return new_switch(r, m, m->root->in[0].def->in[0].def, m->root->in[2].def, m->root->in[1].def);
}

/* In a branch of a Switch, a Switch on the same condition has made its choice. */
anf_node *anfi_rule_switch_inner(anfi_rewriter *r, const anfi_match *m) {
  anf_node *c = m->root->in[0].def, *branch[2];
  for (int i = 0; i < 2; i++) {
    branch[i] = m->root->in[i + 1].def;
    if (anfi_is_op(branch[i], ANF_OP_Switch) && anfi_rewrite_same(branch[i]->in[0].def, c))
      branch[i] = branch[i]->in[i + 1].def;
  }
  return new_switch(r, m, c, branch[0], branch[1]);
}

/* TupleGet(MakeTuple(a, b, ...), i) -> the i-th; of a constant tuple, its item. */
anf_node *anfi_rule_get_make(anfi_rewriter *r, const anfi_match *m) {
  anf_node *t = m->root->in[0].def;
  bool constant_tuple = t->kind == ANFI_VALUE && t->u.value->kind == ANF_VALUE_TUPLE;
  int64_t i = 0, n = anfi_is_op(t, ANF_OP_MakeTuple) ? (int64_t)t->nin
                     : constant_tuple                ? (int64_t)t->u.value->n
                                                     : 0;
  anfi_value_is_int(anfi_attr_value(r->m->cx, ANF_OP_TupleGet, m->root->u.attrs, 0), &i);
  if (i < 0) i += n;
  if (i < 0 || i >= n) return NULL;
  return constant_tuple ? anfi_rewrite_const(r, anf_value_retain(t->u.value->u.item[i]))
                        : t->in[i].def;
}

static bool is_made(const anf_node *n) {
  return anfi_is_op(n, ANF_OP_MakeTuple) || anfi_is_op(n, ANF_OP_Undef) ||
         (n->kind == ANFI_VALUE && n->u.value->kind == ANF_VALUE_TUPLE);
}

/* An item of a choice among tuples that are made here is the choice among their items. */
anf_node *anfi_rule_get_choice(anfi_rewriter *r, const anfi_match *m) {
  anf_node *t = m->root->in[0].def, *in[17];
  if ((!anfi_is_op(t, ANF_OP_Switch) && !anfi_is_op(t, ANF_OP_SwitchLayer)) ||
      t->nin > ANFI_LEN(in))
    return NULL;
  for (uint32_t i = 1; i < t->nin; i++)
    if (!is_made(t->in[i].def)) return NULL;
  in[0] = t->in[0].def;
  for (uint32_t i = 1; i < t->nin; i++) {
    in[i] = anfi_rewrite_apply(r, m->root, ANF_OP_TupleGet, m->root->u.attrs, 1, &t->in[i].def);
    if (!in[i]) return NULL;
  }
  anf_node *n = anfi_apply(m->root->graph, (anfi_opcode)t->op, NULL, t->nin, in);
  n->type = m->root->type;
  n->debug = t->debug; // an index that is outside is found by the choice
  anfi_push(r->arena, &r->todo, n);
  return n;
}

/* A choice between tuples made for it alone is the tuple of choices: branches that agree, or that are
 * never read, then need no choice. */
anf_node *anfi_rule_switch_tuples(anfi_rewriter *r, const anfi_match *m) {
  anf_node *x = m->root->in[1].def, *y = m->root->in[2].def;
  if (!anfi_is_op(x, ANF_OP_MakeTuple) || !anfi_is_op(y, ANF_OP_MakeTuple) || x->nin != y->nin ||
      x == y)
    return NULL;
  if (x->uses->next || y->uses->next) return NULL;
  if (m->root->type && m->root->type->kind != ANF_TYPE_TUPLE)
    return NULL; // branches that do not agree
  anf_node **in = ANFI_NEW_N(r->arena, anf_node *, x->nin + 1);
  for (uint32_t i = 0; i < x->nin; i++) {
    in[i] = new_switch(r, m, m->root->in[0].def, x->in[i].def, y->in[i].def);
    in[i]->type = m->root->type ? m->root->type->items[i] : NULL;
  }
  anf_node *t = anfi_apply(m->root->graph, ANF_OP_MakeTuple, NULL, x->nin, in);
  t->type = m->root->type;
  t->debug = m->root->debug;
  return t;
}

anf_node *anfi_rule_get_undef(anfi_rewriter *r, const anfi_match *m) {
  const anfi_attrs *at =
      anfi_attrs_one(r->m, ANF_OP_Undef, anfi_value_new_type(r->m->cx, m->root->type));
  return anfi_rewrite_apply(r, m->root, ANF_OP_Undef, at, 0, NULL);
}

/* Switch(c, true, false) is c; the other way round, not c. */
anf_node *anfi_rule_switch_bools(anfi_rewriter *r, const anfi_match *m) {
  anf_node *c = m->root->in[0].def;
  if (anfi_get_i64(m->root->in[1].def->u.value, 0)) return c;
  return anfi_rewrite_apply(r, m->root, ANF_OP_LogicalNot, NULL, 1, &c);
}

/* A comparison of a choice between constants, such as a tag, is the condition, its negation or
 * known. A number that their type does not hold, such as 256 of u8, equals neither. */
anf_node *anfi_rule_equal_switch(anfi_rewriter *r, const anfi_match *m) {
  anf_node *sw = m->root->in[0].def->kind == ANFI_VALUE ? m->root->in[1].def : m->root->in[0].def,
           *c = sw->in[0].def;
  const anf_node *k = m->root->in[0].def == sw ? m->root->in[1].def : m->root->in[0].def;
  const anf_value *a = sw->in[1].def->u.value, *b = sw->in[2].def->u.value;
  if (a->n != 1 || b->n != 1 || k->u.value->n != 1) return NULL;
  bool truth = a->type->dtype ==
               ANF_BOOL; // a number without a type takes a's, but a bool is taken for a number
  anf_value *as_a =
      anfi_value_cast(k->u.value, (anf_dtype)(truth ? k->u.value->type->dtype : a->type->dtype));
  int64_t given = anfi_get_i64(k->u.value, 0), x = anfi_get_i64(as_a, 0);
  anf_value_release(as_a);
  bool held = x == given && (given >= 0 || k->type->dtype == a->type->dtype ||
                             anfi_dtype_class((anf_dtype)a->type->dtype) != ANFI_CLASS_UNSIGNED);
  bool is_a = held && anfi_get_i64(a, 0) == x, is_b = held && anfi_get_i64(b, 0) == x;
  if (is_a == is_b) return constant(r, m, is_a);
  return is_a ? c : anfi_rewrite_apply(r, m->root, ANF_OP_LogicalNot, NULL, 1, &c);
}

/* A branch that is never read may be anything: also the other one. */
anf_node *anfi_rule_defined_arm(anfi_rewriter *r, const anfi_match *m) {
  (void)r;
  bool first = anfi_is_op(m->root->in[1].def, ANF_OP_Undef);
  return m->root->in[first ? 2 : 1].def;
}

anf_node *anfi_rule_field_make(anfi_rewriter *r, const anfi_match *m) {
  anf_node *t = m->root->in[0].def;
  if (!anfi_is_op(t, ANF_OP_MakeRecord)) return NULL;
  const anf_value *names = anfi_attr_value(r->m->cx, ANF_OP_MakeRecord, t->u.attrs, 0);
  const anf_value *field = anfi_attr_value(r->m->cx, ANF_OP_RecordGet, m->root->u.attrs, 0);
  for (size_t i = 0; names && field && i < names->n; i++)
    if (anfi_value_same(names->u.item[i], field)) return t->in[i].def;
  return NULL;
}
