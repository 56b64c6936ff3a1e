// SPDX-License-Identifier: Apache-2.0
/* Rules of custom_jvp. A program writes rule(data, (x, i), (tx, ti)) -> (value, tangent). Reverse mode calls it as any other
 * function, with its items as parameters and tangents of zeros:
 *   y = f(x, i)                  ▶: y = f(x, i); (_, r..) = ▶rule(data, x, i, 0, 0)      ◀: dx = ◀rule(r.., dy)
 * So a loop keeps of an array what the rule reads of it, and what the rule reads by index adds to the array's adjoint in
 * place. A rule that prints or asserts does so where the backward sweep runs it, ▶ and ◀ at once. */
#include "autodiff/reverse/j.h"

/* Parameters of `to` for the items of a parameter of the rule; returns their tuple. */
static anf_node *split(anf_graph *to, anf_node *of, anfi_arena *a, anfi_map *copies) {
  const anf_type *t = of->type;
  anf_node **item = ANFI_NEW_N(a, anf_node *, t->n + 1);
  for (uint32_t k = 0; k < t->n; k++) {
    item[k] = anfi_param(to, NULL, t->items[k]);
    item[k]->debug = of->debug;
  }
  anf_node *tuple = anfi_apply(to, ANF_OP_MakeTuple, NULL, t->n, item);
  tuple->type = t;
  *anfi_map_at(copies, of->id) = anfi_key(tuple);
  return tuple;
}

/* Is n an item of a tuple whose copy is made of its items? */
static anf_node *item_of(anf_ctx *cx, const anf_node *n, const anfi_map *copies) {
  if (!anfi_is_op(n, ANF_OP_TupleGet)) return NULL;
  const anf_node *from = anfi_copy_of(copies, n->in[0].def);
  if (!anfi_is_op(from, ANF_OP_MakeTuple)) return NULL;
  int64_t k = anfi_get_i64(anfi_attr_value(cx, ANF_OP_TupleGet, n->u.attrs, 0), 0);
  return k >= 0 && (uint64_t)k < from->nin ? from->in[k].def : NULL;
}

/* The rule with its items as parameters. */
static anf_graph *with_items(anfi_j *j, anf_graph *rule) {
  anf_graph *to = anfi_graph_beside(rule, "");
  anfi_map copies;
  anfi_node_vec order = {0};
  anfi_map_init(&copies, j->a);
  anf_node *data = rule->params.at[0], *own = anfi_param(to, NULL, data->type), *tuple[2];
  own->debug = data->debug;
  *anfi_map_at(&copies, data->id) = anfi_key(own);
  for (size_t i = 0; i < 2; i++) tuple[i] = split(to, rule->params.at[i + 1], j->a, &copies);
  anfi_graph_order(rule, j->a, &order);
  for (size_t i = 0; i < order.n; i++) {
    anf_node *item = item_of(j->cx, order.at[i], &copies);
    if (item) *anfi_map_at(&copies, order.at[i]->id) = anfi_key(item);
    else anfi_copy_node(j->a, to, order.at[i], &copies);
  }
  anfi_set_result(to, anfi_copy_of(&copies, rule->result));
  for (size_t i = 0; i < 2; i++)
    if (!anfi_is_used(tuple[i])) anfi_delete(tuple[i]); // it would be a use of each array
  return to;
}

const anfi_jrule *anfi_j_rule(anfi_j *j, const anf_node *n) {
  if (strcmp(anfi_attr_value(j->cx, ANF_OP_Custom, n->u.attrs, 0)->u.text, "jvp") != 0) return NULL;
  anf_graph *rule = anfi_value_graph(n->in[1].def);
  uint64_t *at = anfi_map_at(&j->rules, anfi_key(rule));
  if (*at) return (const anfi_jrule *)(uintptr_t)*at;
  anfi_jrule *r = ANFI_NEW(j->a, anfi_jrule);
  r->effects = anfi_has_effects(j->ad, rule);
  r->g = r->effects ? rule : with_items(j, rule);
  r->tangent = r->effects ? 2 : n->nin - 5u;
  *anfi_map_at(&j->rules, anfi_key(rule)) = anfi_key(r);
  return r;
}
