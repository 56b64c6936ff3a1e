// SPDX-License-Identifier: Apache-2.0
/* Need of box contents (need.c):
 *   b = Box(x, y); ... Unbox(b)[0]                   ->  b = Box(x)
 * Boxes with one type of contents are one class: any of them may reach an Unbox of that type. A class is
 * rewritten only if all its boxes are made and opened in the module, as the type they were made of; not if
 * the host sees one, or if boxes of single lanes become those of a batch. */
#include "optimizer/need.h"

static bool has_box(const anf_type *t) { return !t || t->kept; }

static bool host_sees_box(const anf_module *m) {
  for (size_t i = 0; i < m->graphs.n; i++) {
    const anf_graph *g = m->graphs.at[i];
    if (!g || (g->flags & ANFI_GRAPH_PRIVATE)) continue;
    if (g->result && has_box(g->result->type)) return true;
    for (size_t k = 0; k < g->params.n; k++)
      if (has_box(g->params.at[k]->type)) return true;
  }
  return false;
}

static const anf_type *contents(const anf_node *n) {
  return anfi_is_op(n, ANF_OP_Box) ? n->in[0].def->type : n->type;
}

static anfi_boxes *class_of(const anfi_box_classes *b, const anf_type *t) {
  const uint64_t *at = anfi_map_find(&b->of_type, anfi_key(t));
  return at ? &b->at.at[*at - 1] : NULL;
}

static void add(anfi_box_classes *b, anfi_arena *a, anf_node *n, bool made) {
  const anf_type *t = contents(n);
  uint64_t *at = anfi_map_at(&b->of_type, anfi_key(t));
  if (!*at) {
    anfi_push(a, &b->at, ((anfi_boxes){.type = t, .item = ANFI_NEW_N(a, bool, t->n + 1)}));
    *at = b->at.n;
  }
  anfi_boxes *c = &b->at.at[*at - 1];
  if (made) anfi_push(a, &c->made, n);
  else anfi_push(a, &c->opened, n);
}

anfi_box_classes anfi_find_boxes(anf_module *m, anfi_arena *a) {
  anfi_box_classes b = {.at = {0}};
  bool known = true;
  anfi_map_init(&b.of_type, a);
  for (size_t i = 0; known && i < m->nodes.n; i++) {
    anf_node *n = m->nodes.at[i];
    if (!n || n->kind != ANFI_APPLY) continue;
    known = n->op != ANF_OP_ResidualSelect && n->op != ANF_OP_ResidualSpread;
    bool made = n->op == ANF_OP_Box;
    if (!made && n->op != ANF_OP_Unbox) continue;
    known &= contents(n) && contents(n)->kind == ANF_TYPE_TUPLE;
    known &= !made || anfi_is_op(n->in[0].def, ANF_OP_MakeTuple);
    if (known) add(&b, a, n, made);
  }
  for (size_t i = 0; known && i < b.at.n; i++)
    known = b.at.at[i].made.n && b.at.at[i].opened.n && b.at.at[i].type->n;
  if (!known || host_sees_box(m)) b.at.n = 0;
  return b;
}

anfi_boxes *anfi_boxes_of(const anfi_box_classes *b, const anf_node *n) {
  bool box = anfi_is_op(n, ANF_OP_Box) || anfi_is_op(n, ANF_OP_Unbox);
  return b->at.n && box ? class_of(b, contents(n)) : NULL;
}

/* ---- rewriting ---- */

static void make_smaller(const anfi_boxes *c, anfi_arena *a, const anf_type *t, anf_node *box) {
  anf_node *old = box->in[0].def, **in = ANFI_NEW_N(a, anf_node *, c->type->n);
  size_t n = 0;
  for (uint32_t i = 0; i < c->type->n; i++)
    if (c->item[i]) in[n++] = old->in[i].def;
  anf_node *tuple = anfi_apply(box->graph, ANF_OP_MakeTuple, NULL, n, in);
  tuple->type = t;
  tuple->debug = old->debug;
  anfi_set_input(box, 0, tuple);
}

static void open_smaller(const anfi_boxes *c, anfi_arena *a, const anf_type *t, anf_node *unbox) {
  anf_module *m = unbox->graph->module;
  anf_value *of = anfi_value_new_type(m->cx, t);
  anf_node *by = anfi_apply(unbox->graph, ANF_OP_Unbox, anfi_attrs_one(m, ANF_OP_Unbox, of), 1,
                            (anf_node *const[]){unbox->in[0].def});
  anf_node **in = ANFI_NEW_N(a, anf_node *, c->type->n);
  size_t n = 0;
  by->type = t;
  by->debug = unbox->debug;
  for (uint32_t i = 0; i < c->type->n; i++)
    in[i] = c->item[i] ? anfi_tuple_item(unbox->graph, by, n++)
                       : anfi_undefined(unbox->graph, c->type->items[i]);
  anf_node *tuple = anfi_apply(unbox->graph, ANF_OP_MakeTuple, NULL, c->type->n, in);
  tuple->type = c->type;
  anfi_substitute(unbox, tuple); // the rules take its items
}

bool anfi_boxed_any(const anfi_boxes *c) {
  for (uint32_t i = 0; i < c->type->n; i++)
    if (c->item[i]) return true;
  return false;
}

void anfi_shrink_boxes(const anfi_box_classes *b, anfi_pass *p, anfi_arena *a) {
  for (size_t k = 0; k < b->at.n; k++) {
    const anfi_boxes *c = &b->at.at[k];
    const anf_type **items = ANFI_NEW_N(a, const anf_type *, c->type->n);
    size_t n = 0;
    for (uint32_t i = 0; i < c->type->n; i++)
      if (c->item[i]) items[n++] = c->type->items[i];
    if (n == c->type->n) continue;
    const anf_type *t = anfi_type_tuple(p->m->cx, n, items);
    for (size_t i = 0; i < c->made.n; i++) make_smaller(c, a, t, c->made.at[i]);
    for (size_t i = 0; i < c->opened.n; i++) open_smaller(c, a, t, c->opened.at[i]);
    p->rewrites++;
  }
}
