// SPDX-License-Identifier: Apache-2.0
/* A function whose sizes depend on data, in two parts: what comes before the first such size, and the rest.
 *   f(x) = { y = net(x);  Take(y, places(y > 0), axis=0) }     the number of places decides a shape
 *   head(x) = (net(x),)      tail(x, y) = Take(y, places(y > 0), axis=0)
 *
 * An op belongs to the tail if an attribute of it, or an argument that its callee makes a shape of (need.c), is
 * computed from data, if data choose what it gives and that may be of several sizes, or if it uses what the tail computes. The tail does again what is known when code is made, such as x.shape[0].
 * A check belongs to the part that computes what it looks at; of several that fail another may be the one that is reported. A program that prints or
 * has other effects is not cut, as the order of that would change. */
#include "optimizer/infer/cut.h"
#include "optimizer/infer/infer.h"

#include "anfora/opt.h"
#include "ir/ops/array/getitem.h"

enum { MOST_COPIED = 4000 }; // nodes of callees that are copied into the function, to be cut

typedef struct cut {
  anf_graph *g;
  const anf_analysis *an;
  anfi_cut_at at;
  const uint8_t *need; // by node id: is its value needed?
  uint8_t *known;      // is its value known when code is made?
  uint8_t *late;       // is it of the tail?
  bool *transforms;    // by graph id: does it come to a transform?
  anf_module *m;
  anfi_arena *a;
  ANFI_VEC(anf_node *) mid; // computed by the head, used by the tail
} cut;

static bool is_known(const cut *c, const anf_node *n) {
  return n->kind == ANFI_VALUE || c->known[n->id];
}

/* Does the callee make a shape of an argument that is data? */
static bool shapes_from_argument(const cut *c, const anf_node *call) {
  const anf_graph *f = anfi_value_graph(call->in[0].def);
  for (size_t i = 0; f && i < f->params.n && i + 1 < call->nin; i++)
    if (c->need[f->params.at[i]->id] && !is_known(c, call->in[i + 1].def)) return true;
  return false;
}

/* if y > 0 { x } else { x[1:] } */
static bool chosen_by_data(const cut *c, const anf_node *n) {
  bool choice = anfi_is_op(n, ANF_OP_Switch) || anfi_is_op(n, ANF_OP_SwitchLayer);
  return choice && !is_known(c, n->in[0].def);
}

/* x[:k] */
static bool sliced_by_data(const cut *c, const anf_node *n) {
  anfi_subscript s;
  const anf_value *spec = anfi_attr_value(c->m->cx, ANF_OP_GetItem, n->u.attrs, 0);
  if (!spec || !anfi_subscript_read(c->m->cx, anfi_node_loc(n), spec, n->nin, &s)) return false;
  for (size_t i = 0; i < s.n; i++)
    for (int k = 0; s.part[i].kind == ANFI_PART_SLICE && k < 3; k++)
      if (s.part[i].given[k] == ANFI_INPUT && !is_known(c, n->in[s.part[i].v[k]].def)) return true;
  return false;
}

static bool shapes_from_data(const cut *c, const anf_node *n) {
  if (c->at >= ANFI_CUT_CHOICES && chosen_by_data(c, n)) return true;
  if (c->at >= ANFI_CUT_SLICES && anfi_is_op(n, ANF_OP_GetItem) && sliced_by_data(c, n))
    return true;
  if (n->kind == ANFI_CALL || anfi_is_op(n, ANF_OP_Partial)) return shapes_from_argument(c, n);
  for (size_t i = n->u.attrs ? anfi_arg_count(n) : n->nin; i < n->nin; i++)
    if (!is_known(c, n->in[i].def)) return true;
  return false;
}

/* x.shape and its like. A field of a record of such a name is taken for one, too; then the head is not compiled. */
static bool asks_type(const cut *c, const anf_node *n) {
  if (n->op != ANF_OP_GetField) return anfi_asks_dims(n);
  const anf_value *name = anfi_attr_value(c->m->cx, ANF_OP_GetField, n->u.attrs, 0);
  return name && anfi_is_tensor_field(name->u.text) && strcmp(name->u.text, "T") != 0;
}

static bool is_transform(const anf_node *n) { return anfi_op_of(n)->flags & ANFI_TRANSFORM; }

/* What a derivative gives is known when it runs, if of a constant, too. */
static bool is_derived(const cut *c, const anf_node *n) {
  const anf_graph *f = n->kind == ANFI_CALL ? anfi_value_graph(n->in[0].def) : NULL;
  return is_transform(n) || (n->kind == ANFI_CALL && (!f || c->transforms[f->id]));
}

static void find_transforms(cut *c) {
  c->transforms = ANFI_NEW_N(c->a, bool, c->m->graphs.n + 1);
  for (size_t i = 0; i < c->m->nodes.n; i++) {
    const anf_node *n = c->m->nodes.at[i];
    if (n && is_transform(n)) c->transforms[n->graph->id] = true;
  }
  for (bool more = true; more;) { // callees come first: few rounds
    more = false;
    for (size_t i = 0; i < c->an->by_scc.n; i++) {
      const anfi_graph_info *gi = &c->an->graphs[c->an->by_scc.at[i]->id];
      bool *own = &c->transforms[c->an->by_scc.at[i]->id];
      for (size_t k = 0; !*own && k < gi->callees.n; k++)
        if (c->transforms[gi->callees.at[k]->id]) more = *own = true;
    }
  }
}

static void classify(cut *c, const anf_node *n) {
  bool known = n->nin > 0 && !is_derived(c, n), late = shapes_from_data(c, n);
  for (size_t i = 0; i < n->nin; i++) {
    known &= is_known(c, n->in[i].def);
    late |= c->late[n->in[i].def->id] != 0;
  }
  c->late[n->id] = late;
  c->known[n->id] = !late && (known || (n->kind == ANFI_APPLY && asks_type(c, n)));
}

/* The values that the head gives to the tail, found from the result backward. The tail makes function values and numbers that are
 * known when code is made itself. */
static void find_mid(cut *c) {
  const anfi_graph_info *gi = &c->an->graphs[c->g->id];
  uint8_t *read = ANFI_NEW_N(c->a, uint8_t, c->m->nodes.n);
  for (size_t k = gi->order.n; k-- > 0;) {
    anf_node *n = gi->order.at[k];
    bool function = anfi_is_op(n, ANF_OP_Partial) || is_transform(n);
    bool again = read[n->id] && (c->known[n->id] || function);
    if (read[n->id] && !again && !c->late[n->id]) anfi_push(c->a, &c->mid, n);
    for (size_t i = 0; (c->late[n->id] || again) && i < n->nin; i++) read[n->in[i].def->id] = 1;
  }
}

/* The first op of the tail, which says why there is one. */
static const anf_node *first_late(const cut *c) {
  const anfi_graph_info *gi = &c->an->graphs[c->g->id];
  size_t k = 0;
  while (!c->late[gi->order.at[k]->id]) k++;
  return gi->order.at[k];
}

/* A program of which nothing is compiled is no use, but for slices, which people write as they do x[mask]. */
static bool is_worth(const cut *c) {
  const anf_node *first = first_late(c);
  bool slice = anfi_is_op(first, ANF_OP_GetItem) || anfi_is_op(first, ANF_OP_Slice);
  return c->mid.n || (c->at == ANFI_CUT_SLICES && slice);
}

static bool find_cut(cut *c) {
  c->mid.n = 0;
  const anfi_graph_info *gi = &c->an->graphs[c->g->id];
  c->need = anfi_find_own_needs(anfi_infer_new(c->m));
  c->known = ANFI_NEW_N(c->a, uint8_t, c->m->nodes.n);
  c->late = ANFI_NEW_N(c->a, uint8_t, c->m->nodes.n);
  find_transforms(c);
  for (size_t k = 0; k < gi->order.n; k++) classify(c, gi->order.at[k]);
  if (!c->late[c->g->result->id]) return false;
  find_mid(c);
  return is_worth(c);
}

/* Each check stays in one part. */
static void divide_checks(const cut *c, const anfi_map *copies) {
  ANFI_VEC(anf_node *) all = {0};
  for (size_t i = 0; i < c->g->effects.n; i++) anfi_push(c->a, &all, c->g->effects.at[i]);
  for (size_t i = 0; i < all.n; i++) {
    anf_node *n = all.at[i];
    bool late = c->late[n->id] != 0;
    anfi_remove_effect(late ? n : (anf_node *)(uintptr_t)*anfi_map_find(copies, n->id));
  }
}

/* g becomes the head; the tail is a copy of it with parameters in place of what the head gives. */
static void divide(const cut *c, anfi_cut *out) {
  anfi_map copies;
  anfi_map_init(&copies, anfi_scratch(c->m->cx));
  anf_graph *tail = anfi_clone(c->an, c->g, &copies);
  for (size_t i = 0; i < c->mid.n; i++) {
    anf_node *copy = (anf_node *)(uintptr_t)*anfi_map_find(&copies, c->mid.at[i]->id);
    anfi_replace(copy, anfi_param(tail, NULL, NULL));
  }
  divide_checks(c, &copies);
  const anfi_graph_info *gi = &c->an->graphs[c->g->id];
  for (size_t k = 0; k < gi->order.n; k++) out->ntail += c->late[gi->order.at[k]->id] != 0;
  out->nhead = gi->order.n - out->ntail;
  out->nmid = c->mid.n;
  anfi_set_result(c->g, anfi_apply(c->g, ANF_OP_MakeTuple, NULL, c->mid.n, c->mid.at));
  c->g->result_type = NULL;
  out->head = c->g;
  out->tail = tail;
}

/* A copy of the function's module, the frame's: closed, and callees with one use are part of it, as they may be cut. */
static anf_graph *closed_copy(anf_graph *g) {
  anf_graph *copy = NULL;
  anf_module *m = anfi_module_copy(anfi_analyse(g->module), &g, 1, &copy);
  anfi_undefer(m->cx, m); // it was to go on failure
  anfi_defer(m->cx, ANFI_ALWAYS, anfi_free_module, m);
  anfi_only_public(copy);
  anf_status st = anf_optimise(m, "lift inline", NULL, NULL);
  return st == ANF_OK ? copy : (anfi_fail_as(m->cx, st), NULL);
}

/* Is there an effect other than a check, or a call of what checks? */
static bool has_other_effects(const anf_module *m) {
  for (size_t i = 0; i < m->nodes.n; i++) {
    const anf_node *n = m->nodes.at[i];
    if (n && (n->flags & ANFI_NODE_EFFECT) && n->kind != ANFI_CALL && !anfi_is_op(n, ANF_OP_Assert))
      return true;
  }
  return false;
}

/* A call whose callee makes a shape of what it computes: a part of the callee may belong to the head. */
static anf_node *call_to_cut(const cut *c) {
  const anfi_graph_info *gi = &c->an->graphs[c->g->id];
  for (size_t k = 0; k < gi->order.n; k++) {
    anf_node *n = gi->order.at[k];
    const anf_graph *f = n->kind == ANFI_CALL ? anfi_value_graph(n->in[0].def) : NULL;
    bool late = f && c->late[n->id];
    for (size_t i = 0; late && i < n->nin; i++) late = !c->late[n->in[i].def->id];
    if (late && f->params.n + 1 == n->nin && !c->an->graphs[f->id].recursive) return n;
  }
  return NULL;
}

static bool find_cut_in_calls(cut *c) {
  size_t most = MOST_COPIED + c->m->nodes.n;
  for (anf_node *call = NULL;; anfi_inline_call(c->a, call)) {
    c->an = anfi_analyse(c->m);
    if (find_cut(c)) return true;
    call = c->m->nodes.n < most ? call_to_cut(c) : NULL;
    if (!call) return false;
  }
}

bool anfi_cut_at_sizes(anf_graph *g, anfi_cut_at at, anfi_cut *out) {
  *out = (anfi_cut){0};
  cut c = {.g = closed_copy(g), .at = at, .a = anfi_scratch(g->module->cx)};
  if (!c.g || has_other_effects(c.m = c.g->module) || !find_cut_in_calls(&c)) return false;
  out->why = anfi_node_loc(first_late(&c));
  divide(&c, out);
  return true;
}
