// SPDX-License-Identifier: Apache-2.0
/* Interprocedural dead code: parameters and tuple items that no caller or callee needs.
 *   f(x, unused) = (x + 1, x * 2);  f(a, b)[0]       ->  f(x) = (x + 1,);  f(a)[0]
 * Need is a least fixpoint from what the host sees and from effects, over call groups (group.h): a parameter
 * that only feeds itself around a recursion is not needed. A call whose uses are all projections passes need
 * item by item; so do boxes (need_box.c). All graphs and calls of a group change together. */
#include "optimizer/need.h"
#include "optimizer/group.h"

typedef struct {
  /* module */
  anf_module *m;
  anfi_arena *a;
  anfi_groups gs;
  /* what is needed */
  uint8_t *needed; // by node id
  bool **item;     // by result class: items that are needed; NULL: the result is no tuple
  uint32_t *nitem;
  uint32_t **place; // by result class: see places
  /* boxes, worklist */
  anfi_box_classes boxes;
  anfi_node_vec todo;
} needs;

static void want(needs *w, anf_node *n) {
  if (n->kind == ANFI_VALUE || w->needed[n->id]) return;
  w->needed[n->id] = 1;
  anfi_push(w->a, &w->todo, n);
}

/* Item i of the contents of boxes: of all that are needed, and of those that will be. */
static void want_boxed(needs *w, anfi_boxes *c, uint32_t i) {
  if (c->item[i]) return;
  c->item[i] = true;
  for (size_t k = 0; k < c->made.n; k++)
    if (w->needed[c->made.at[k]->id]) want(w, c->made.at[k]->in[0].def->in[i].def);
}

static void want_box(needs *w, const anf_node *box, const anfi_boxes *c) {
  for (uint32_t i = 0; i < c->type->n; i++)
    if (c->item[i]) want(w, box->in[0].def->in[i].def);
}

static void want_opened(needs *w, const anf_node *unbox, anfi_boxes *c, uint32_t from,
                        uint32_t to) {
  want(w, unbox->in[0].def);
  for (uint32_t i = from; i < to; i++) want_boxed(w, c, i);
}

static void want_condition(needs *w, const anf_node *call) {
  const anf_node *f = call->in[0].def;
  if (f->kind != ANFI_VALUE) w->needed[f->id] = 1;
  if (f->kind == ANFI_APPLY) want(w, f->in[0].def);
}

/* Item i of the results of a whole class; calls in result position are of the same class. */
static void want_item(needs *w, const anfi_group *g, uint32_t i) {
  uint32_t c = g->result_class;
  if (w->item[c][i]) return;
  w->item[c][i] = true;
  const anfi_group *class = &w->gs.at[c];
  for (size_t k = 0; k < class->in_class.n; k++) {
    anf_node *r = class->in_class.at[k]->result;
    if (anfi_is_op(r, ANF_OP_MakeTuple)) want(w, r->in[i].def);
    else if (r->kind == ANFI_CALL) want_condition(w, r);
  }
}

static void want_whole_result(needs *w, const anfi_group *g) {
  uint32_t c = g->result_class;
  if (w->item[c])
    for (uint32_t i = 0; i < w->nitem[c]; i++) want_item(w, g, i);
  for (size_t k = 0; k < g->graphs.n; k++)
    if (g->graphs.at[k]->result) want(w, g->graphs.at[k]->result);
}

static void want_param(needs *w, const anf_node *p) {
  const anfi_group *g = &w->gs.at[w->gs.of_graph[p->graph->id]];
  for (size_t k = 0; k < g->calls.n; k++)
    if (p->u.index + 1 < g->calls.at[k]->nin) want(w, g->calls.at[k]->in[p->u.index + 1].def);
  for (size_t k = 0; k < g->graphs.n; k++) want(w, g->graphs.at[k]->params.at[p->u.index]);
}

static int64_t index_of(const needs *w, const anf_node *get) {
  int64_t i = 0;
  anfi_value_is_int(anfi_attr_value(w->m->cx, ANF_OP_TupleGet, get->u.attrs, 0), &i);
  int64_t n = get->in[0].def->type ? get->in[0].def->type->n : 0;
  return i < 0 ? i + n : i;
}

static bool want_of_box(needs *w, const anf_node *n) {
  const anf_node *t = anfi_is_op(n, ANF_OP_TupleGet) ? n->in[0].def : n;
  anfi_boxes *c = anfi_boxes_of(&w->boxes, t);
  if (!c || (n != t && !anfi_is_op(t, ANF_OP_Unbox))) return false;
  uint32_t i = n != t ? (uint32_t)index_of(w, n) : 0;
  if (n != t) want_opened(w, t, c, i, i + 1);
  else if (anfi_is_op(n, ANF_OP_Box)) want_box(w, n, c);
  else want_opened(w, n, c, 0, c->type->n);
  return true;
}

static void want_inputs_of(needs *w, anf_node *n) {
  if (want_of_box(w, n)) return;
  const anfi_group *g = n->kind == ANFI_CALL ? anfi_group_of_call(&w->gs, n) : NULL;
  if (g) {
    want_condition(w, n);
    want_whole_result(w, g);
    if (!g->open) return; // arguments are needed as parameters are
  } else if (anfi_is_op(n, ANF_OP_TupleGet)) {
    anf_node *t = n->in[0].def;
    const anfi_group *of = anfi_group_of_call(&w->gs, t);
    if (of && w->item[of->result_class]) {
      want_condition(w, t);
      want_item(w, of, (uint32_t)index_of(w, n));
      for (uint32_t i = 1; of->open && i < t->nin; i++) want(w, t->in[i].def);
      return;
    }
  }
  for (uint32_t i = 0; i < n->nin; i++) want(w, n->in[i].def);
}

static void seed(needs *w) {
  for (uint32_t k = 0; k < w->gs.n; k++) {
    const anfi_group *g = &w->gs.at[k];
    for (size_t j = 0; j < g->graphs.n; j++) {
      for (size_t e = 0; e < g->graphs.at[j]->effects.n; e++)
        want(w, g->graphs.at[j]->effects.at[e]);
      for (size_t p = 0; g->open && p < g->graphs.at[j]->params.n; p++)
        want(w, g->graphs.at[j]->params.at[p]);
    }
    if (g->open) want_whole_result(w, g);
  }
}

/* Finds the classes whose results are tuples that may lose items. */
static void find_items(needs *w) {
  w->item = ANFI_NEW_N(w->a, bool *, w->gs.n);
  w->nitem = ANFI_NEW_N(w->a, uint32_t, w->gs.n);
  w->place = ANFI_NEW_N(w->a, uint32_t *, w->gs.n);
  for (uint32_t k = 0; k < w->gs.n; k++) {
    uint32_t c = w->gs.at[k].result_class;
    if (w->gs.at[c].result_open || w->item[c]) continue;
    for (size_t j = 0; j < w->gs.at[k].graphs.n; j++) {
      const anf_node *r = w->gs.at[k].graphs.at[j]->result;
      if (!r || !anfi_is_made_tuple(r)) continue;
      w->nitem[c] = r->type->n;
      w->item[c] = ANFI_NEW_N(w->a, bool, r->type->n);
      break;
    }
  }
}

/* ---- rewriting ---- */

static const anf_type *kept_type(needs *w, uint32_t c, const anf_type *t) {
  if (!w->item[c] || !t || t->kind != ANF_TYPE_TUPLE || t->n != w->nitem[c]) return t;
  const anf_type **items = ANFI_NEW_N(w->a, const anf_type *, t->n);
  size_t n = 0;
  for (uint32_t i = 0; i < t->n; i++)
    if (w->item[c][i]) items[n++] = t->items[i];
  return anfi_type_tuple(w->m->cx, n, items);
}

static void shrink_result(needs *w, uint32_t c, anf_graph *g) {
  anf_node *r = g->result;
  if (!anfi_is_made_tuple(r)) return;
  anf_node **in = ANFI_NEW_N(w->a, anf_node *, w->nitem[c]);
  size_t n = 0;
  for (uint32_t i = 0; i < w->nitem[c]; i++)
    if (w->item[c][i]) in[n++] = anfi_tuple_item(g, r, i);
  anf_node *t = anfi_apply(g, ANF_OP_MakeTuple, NULL, n, in);
  t->type = kept_type(w, c, r->type);
  t->debug = r->debug;
  anfi_set_result(g, t);
}

/* By item of a class: how many before it stay. */
static const uint32_t *places(needs *w, uint32_t c) {
  if (w->place[c]) return w->place[c];
  uint32_t *at = w->place[c] = ANFI_NEW_N(w->a, uint32_t, w->nitem[c] + 1);
  for (uint32_t i = 0; i < w->nitem[c]; i++) at[i + 1] = at[i] + w->item[c][i];
  return at;
}

static void renumber_gets(needs *w, uint32_t c, anf_node *old, anf_node *call) {
  const uint32_t *place = places(w, c);
  for (anfi_use *u = old->uses; u;) {
    anf_node *get = u->user;
    u = u->next;
    if (!anfi_is_op(get, ANF_OP_TupleGet) || !w->needed[get->id])
      continue; // dead: swept with the rest
    anf_value *k = anfi_value_new_i64(w->m->cx, ANF_INT, place[index_of(w, get)]);
    const anfi_attrs *at = anfi_attrs_one(w->m, ANF_OP_TupleGet, k);
    anf_node *to = anfi_apply(get->graph, ANF_OP_TupleGet, at, 1, &call);
    to->type = get->type;
    to->debug = get->debug;
    anfi_substitute(get, to);
  }
}

static void rewrite_call(needs *w, const anfi_group *g, anf_node *call, const bool *gone,
                         bool items) {
  anf_node **in = ANFI_NEW_N(w->a, anf_node *, call->nin);
  size_t n = 1;
  in[0] = call->in[0].def;
  for (uint32_t i = 1; i < call->nin; i++)
    if (!gone || !gone[i - 1]) in[n++] = call->in[i].def;
  anf_node *c = anfi_call(call->graph, n, in);
  c->debug = call->debug;
  c->type = items ? kept_type(w, g->result_class, call->type) : call->type;
  if (items) renumber_gets(w, g->result_class, call, c);
  anfi_substitute(call, c);
}

static bool any_dead_item(const needs *w, uint32_t c) {
  for (uint32_t i = 0; w->item[c] && i < w->nitem[c]; i++)
    if (!w->item[c][i]) return true;
  return false;
}

/* The parameters of a closed group that go; NULL when none does. */
static bool *gone_params(needs *w, const anfi_group *g) {
  size_t np = g->open ? 0 : g->graphs.at[0]->params.n;
  bool *gone = ANFI_NEW_N(w->a, bool, np), some = false;
  for (size_t i = 0; i < np; i++) {
    gone[i] = true;
    for (size_t k = 0; k < g->graphs.n; k++)
      gone[i] &= !w->needed[g->graphs.at[k]->params.at[i]->id];
    some |= gone[i];
  }
  return some ? gone : NULL;
}

static void drop_params(const anfi_group *g, const bool *gone) {
  for (size_t k = 0; k < g->graphs.n; k++)
    if (!g->graphs.at[k]->removed) anfi_remove_params(g->graphs.at[k], gone);
}

/* First all calls and results, then nodes that are dead now, then their parameters. */
static bool rewrite(needs *w, anfi_pass *p) {
  anfi_shrink_boxes(&w->boxes, p, w->a);
  bool **gone = ANFI_NEW_N(w->a, bool *, w->gs.n), *shrinks = ANFI_NEW_N(w->a, bool, w->gs.n);
  for (uint32_t k = 0; k < w->gs.n; k++) {
    gone[k] = gone_params(w, &w->gs.at[k]);
    shrinks[k] = any_dead_item(w, k);
    p->rewrites += (uint64_t)(gone[k] != NULL) + shrinks[k];
  }
  for (uint32_t k = 0; k < w->gs.n; k++) {
    const anfi_group *g = &w->gs.at[k];
    bool items = shrinks[g->result_class];
    for (size_t j = 0; (gone[k] || items) && j < g->calls.n; j++)
      rewrite_call(w, g, g->calls.at[j], gone[k], items);
    for (size_t j = 0; items && j < g->graphs.n; j++)
      shrink_result(w, g->result_class, g->graphs.at[j]);
  }
  if (!anfi_clear_dead(p->m)) return false;
  for (uint32_t k = 0; k < w->gs.n; k++)
    if (gone[k]) drop_params(&w->gs.at[k], gone[k]);
  return true;
}

static void follow(needs *w) {
  while (w->todo.n) {
    anf_node *n = w->todo.at[--w->todo.n];
    if (n->kind == ANFI_PARAM) want_param(w, n);
    else want_inputs_of(w, n);
  }
}

bool anfi_opt_need(anfi_pass *p) {
  needs w = {.m = p->m, .a = anfi_scratch(p->m->cx)};
  if (p->rewrites >= p->limit || !anfi_has_calls(p->m)) return true;
  if (!anfi_clear_dead(p->m))
    return false; // unreachable code needs nothing, and would keep its inputs alive
  anfi_find_groups(p->m, w.a, &w.gs);
  w.needed = ANFI_NEW_N(w.a, uint8_t, p->m->nodes.n);
  find_items(&w);
  w.boxes = anfi_find_boxes(p->m, w.a);
  seed(&w);
  follow(&w);
  for (size_t k = 0; k < w.boxes.at.n; k++)
    if (!anfi_boxed_any(&w.boxes.at.at[k])) { // a box holds something
      want_boxed(&w, &w.boxes.at.at[k], 0);
      follow(&w);
    }
  return rewrite(&w, p);
}
