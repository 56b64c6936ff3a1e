// SPDX-License-Identifier: Apache-2.0
/* Graphs to functions (graph.h has the invariants).
 *   def f(x: f32[4]) { Exp(x) + 1 }   ->   func f(x: [f32 * 4], y: [f32 * 4]) { for i: y[i] = exp(x[i]) + 1 }
 * Functions are lowered one after the other from a list; a graph that is lowered in the place of its call recurses,
 * MAX_INLINED deep at most. */
#include "backend/lower/graph/graph.h"

/* ---- values ---- */

gval anfi_glow_new(glow *w, size_t n) { return (gval){n, ANFI_NEW_N(w->a, anfi_view *, n + 1)}; }

bool anfi_glow_leaves(glow *w, const anf_type *t, anfi_loc loc, anfi_leaves *out) {
  return anfi_leaves_of(w->cx, w->a, t, loc, out);
}

anfi_view *anfi_glow_view(glow *w, const anfi_leaf *leaf, texpr e) {
  return leaf->scalar ? anfi_view_scalar(w->L, leaf->type, e)
                      : anfi_view_buffer(w->L, leaf->type, e);
}

/* The number of a string or type. */
static anfi_view *name_of(glow *w, anf_value *v) {
  size_t i = 0, n = w->out->names.n;
  while (i < n && !anfi_value_same(w->out->names.at[i], v)) i++;
  if (i == n) anfi_push(w->keep, &w->out->names, v);
  anf_tir_elem e = anfi_lower_elem(ANF_U64);
  return anfi_view_scalar(w->L, anfi_type_scalar(w->cx, ANF_U64),
                          anfi_t_int(w->t, anfi_t_dt(e), (int64_t)i));
}

/* A constant, walked by a list of its own: constants nest as deep as programs. */
static gval constant(glow *w, anf_value *v) {
  if (v->kind == ANF_VALUE_TENSOR) {
    gval one = anfi_glow_new(w, 1);
    one.at[0] = anfi_view_constant(w->L, v);
    return one;
  }
  ANFI_VEC(anf_value *) st = {0};
  ANFI_VEC(anfi_view *) all = {0};
  anfi_push(w->a, &st, v);
  while (st.n) {
    anf_value *x = st.at[--st.n];
    if (x->kind == ANF_VALUE_TENSOR) anfi_push(w->a, &all, anfi_view_constant(w->L, x));
    if (x->kind == ANF_VALUE_STRING || x->kind == ANF_VALUE_TYPE)
      anfi_push(w->a, &all, name_of(w, x));
    if (x->kind != ANF_VALUE_TUPLE && x->kind != ANF_VALUE_RECORD) continue;
    for (size_t i = x->n; i-- > 0;) anfi_push(w->a, &st, x->u.item[i]);
  }
  return (gval){all.n, all.at};
}

gval anfi_glow_value(glow *w, anf_node *n) {
  return n->kind == ANFI_VALUE ? constant(w, n->u.value) : w->env[n->id];
}

texpr anfi_glow_atom(glow *w, const anfi_leaf *leaf, anfi_view *v) {
  if (!v && leaf->scalar) return anfi_t_int(w->t, anfi_t_dt(leaf->elem), 0);
  if (!v) return anfi_low_local(w->L, leaf->elem, leaf->n, "undef");
  return leaf->scalar ? anfi_view_value(w->L, v) : anfi_view_force(w->L, v);
}

void anfi_glow_settle(glow *w, const anfi_leaves *leaves, gval v) {
  for (size_t i = 0; i < v.n; i++)
    if (v.at[i]) anfi_glow_atom(w, &leaves->at[i], v.at[i]);
}

anfi_view *anfi_glow_lent(glow *w, anfi_view *v) {
  return v && v->owned ? anfi_view_buffer(w->L, v->type, v->tensor) : v;
}

texpr anfi_glow_slot(glow *w, texpr room, anf_tir_elem e, texpr at, uint64_t n) {
  texpr part = anfi_low_part(w->L, room, e, at, n);
  anfi_push(w->a, &w->slots, ((gslot){room, at}));
  *anfi_map_at(&w->slot, anfi_key(part)) = w->slots.n;
  return part;
}

const gslot *anfi_glow_own_slot(const glow *w, const anfi_view *v) {
  const uint64_t *i = v && v->owned ? anfi_map_find(&w->slot, anfi_key(v->tensor)) : NULL;
  return i ? &w->slots.at[*i - 1] : NULL;
}

/* ---- tuples and records: which leaves ---- */

static size_t leaves_before(const anf_type *t, size_t i) {
  size_t n = 0;
  for (size_t k = 0; k < i; k++) n += anfi_leaf_count(t->items[k]);
  return n;
}

static gval part(gval v, const anf_type *t, size_t i) {
  return (gval){anfi_leaf_count(t->items[i]), v.at + leaves_before(t, i)};
}

static gval joined(glow *w, const anf_node *n, size_t count) {
  ANFI_VEC(anfi_view *) all = {0};
  for (size_t i = 0; i < count; i++) {
    gval v = anfi_glow_value(w, n->in[i].def);
    for (size_t k = 0; k < v.n; k++) anfi_push(w->a, &all, v.at[k]);
  }
  return (gval){all.n, all.at};
}

static gval with_part(glow *w, gval v, const anf_type *t, size_t i, gval by) {
  size_t from = leaves_before(t, i), old = anfi_leaf_count(t->items[i]);
  gval r = anfi_glow_new(w, v.n - old + by.n);
  for (size_t k = 0; k < r.n; k++)
    r.at[k] = k < from ? v.at[k] : k < from + by.n ? by.at[k - from] : v.at[k - by.n + old];
  return r;
}

static size_t field_of(const anf_type *t, const anf_value *name) {
  size_t i = 0;
  while (i < t->n && strcmp(t->names[i]->s, name->u.text) != 0) i++;
  return i;
}

static gval slice(glow *w, const anf_node *n, gval v, const anf_type *t) {
  int64_t start, step;
  anf_value *at[3];
  for (uint32_t k = 0; k < 3; k++) at[k] = anfi_attr_value(w->cx, ANF_OP_TupleSlice, n->u.attrs, k);
  size_t count = anfi_slice(t->n, at, &start, &step);
  ANFI_VEC(anfi_view *) all = {0};
  for (size_t i = 0; i < count; i++) {
    gval p = part(v, t, (size_t)(start + (int64_t)i * step));
    for (size_t k = 0; k < p.n; k++) anfi_push(w->a, &all, p.at[k]);
  }
  return (gval){all.n, all.at};
}

static size_t index_of(anf_ctx *cx, const anf_node *n, const anf_type *t) {
  size_t at = 0;
  anfi_axis_in(anfi_attr_int(anfi_attr_value(cx, (anfi_opcode)n->op, n->u.attrs, 0)), t->n, &at);
  return at;
}

size_t anfi_glow_first_leaf(anf_ctx *cx, const anf_node *n) {
  const anf_type *t = n->in[0].def->type;
  bool field = n->op == ANF_OP_RecordGet;
  return leaves_before(t, field ? field_of(t, anfi_attr_value(cx, ANF_OP_RecordGet, n->u.attrs, 0))
                                : index_of(cx, n, t));
}

/* A value that is passed on is computed here if the plan does not leave it to its readers: a product whose epilogue ends here
 * is written by nobody else.
 *   y = StopGradient(x @ w + b); Sum(y * z, axis=1)   ->   the product is stored before the sum reads it */
static gval passed_on(glow *w, const anf_node *n, gval v, bool inlined) {
  anfi_view *x = n->type->kind == ANF_TYPE_TENSOR && !inlined ? v.at[0] : NULL;
  if (x && anfi_view_is_lazy(x)) anfi_view_force(w->L, x);
  return v;
}

/* Ops that only arrange leaves. False: another op. */
static bool arrange(glow *w, anf_node *n, bool inlined, gval *out) {
  const anf_type *t = n->nin ? n->in[0].def->type : NULL;
  const anf_value *name = n->op == ANF_OP_RecordGet || n->op == ANF_OP_RecordSet
                              ? anfi_attr_value(w->cx, (anfi_opcode)n->op, n->u.attrs, 0)
                              : NULL;
  gval v = n->nin ? anfi_glow_value(w, n->in[0].def) : (gval){0};
  switch ((anfi_opcode)n->op) {
  case ANF_OP_MakeTuple:
  case ANF_OP_MakeRecord:
  case ANF_OP_TupleConcat: *out = joined(w, n, n->nin); return true;
  case ANF_OP_TupleGet: *out = part(v, t, index_of(w->cx, n, t)); return true;
  case ANF_OP_RecordGet: *out = part(v, t, field_of(t, name)); return true;
  case ANF_OP_TupleSet:
    *out = with_part(w, v, t, index_of(w->cx, n, t), anfi_glow_value(w, n->in[1].def));
    return true;
  case ANF_OP_RecordSet:
    *out = with_part(w, v, t, field_of(t, name), anfi_glow_value(w, n->in[1].def));
    return true;
  case ANF_OP_TupleSlice: *out = slice(w, n, v, t); return true;
  case ANF_OP_Identity:
  case ANF_OP_Fence:
  case ANF_OP_StopGradient: *out = passed_on(w, n, v, inlined); return true;
  case ANF_OP_Undef: return anfi_glow_undef(w, n, out);
  default: return false;
  }
}

/* ---- ops ---- */

/* Arguments that are tensors go to op.h as they are; tuples have no place there. */
static bool argument(glow *w, anf_node *arg, anfi_view **out) {
  *out = NULL;
  if (arg->type->kind != ANF_TYPE_TENSOR && !anfi_is_name(arg->type)) return true;
  gval v = anfi_glow_value(w, arg);
  if ((*out = v.at[0])) return true;
  anfi_leaves l = {0};
  if (!anfi_glow_leaves(w, arg->type, anfi_node_loc(arg), &l)) return false;
  *out = anfi_glow_view(w, &l.at[0], anfi_glow_atom(w, &l.at[0], NULL));
  return true;
}

/* Is input 0 in a buffer of its own, which n alone needs? */
static bool may_write_over(const glow *w, const anf_node *n) {
  const anf_node *x = n;
  do {
    const anf_node *user = x;
    x = x->in[0].def;
    if (x->kind != ANFI_APPLY || x->uses->next || x->uses->user != user) return false;
  } while ((anfi_op_of(x)->flags & ANFI_IN_ORDER) && anfi_op_of(x)->lower == ANFI_LOWER_INDEX_MAP);
  if (w->to[x->id] && w->to[x->id][0]) return false;
  return anfi_op_of(x)->flags & (ANFI_WRITES_OVER | ANFI_EPILOGUE) ||
         anfi_lower_is_scalar((anfi_opcode)x->op);
}

/* Input 0 of n, which may write over it: the buffer itself, if the ops between are reshapes. */
static anfi_view *own_buffer(glow *w, const anf_node *n, anfi_view *v) {
  const anf_node *x = n->in[0].def;
  while ((anfi_op_of(x)->flags & ANFI_IN_ORDER) && anfi_op_of(x)->lower == ANFI_LOWER_INDEX_MAP)
    x = x->in[0].def;
  gval made = w->env[x->id];
  anfi_view *b = made.n == 1 ? made.at[0] : NULL;
  bool same = x != n->in[0].def && b && b->n == v->n;
  return same ? anfi_view_buffer(w->L, v->type, anfi_view_force(w->L, b)) : v;
}

anfi_view *anfi_glow_copied_out(glow *w, anfi_view *v) {
  anfi_leaves l = {0};
  if (!v->type->n || !anfi_glow_leaves(w, v->type, anfi_nowhere(), &l)) return v;
  texpr to = anfi_low_local(w->L, l.at[0].elem, l.at[0].n, "part");
  anfi_view_store(w->L, v, to);
  return anfi_view_buffer(w->L, v->type, to);
}

/* Has the pointwise op written its result to a buffer that it made? */
static bool has_own_buffer(const anfi_low_op *q, const anfi_view *v) {
  if (q->inlined || !q->type->n || !anfi_lower_is_scalar(q->op)) return false;
  if (!v->tensor || v->constant || (q->to && q->to[0])) return false;
  for (size_t i = 0; i < q->n; i++)
    if (q->in[i] && (q->in[i] == v || q->in[i]->tensor == v->tensor)) return false;
  return true;
}

static bool lower_op(glow *w, anf_node *n, bool inlined, gval *out) {
  const anfi_schema *s = anfi_op_schema(w->cx, (anfi_opcode)n->op);
  size_t narg = anfi_arg_count(n);
  anfi_view **in = ANFI_NEW_N(w->a, anfi_view *, narg + 1);
  anf_value **attr = ANFI_NEW_N(w->a, anf_value *, s->nattr + 1);
  for (size_t i = 0; i < narg; i++)
    if (anfi_low_asks_type(n, i) && n->in[i].def->type->kind == ANF_TYPE_TENSOR)
      in[i] = anfi_view_new(w->L, n->in[i].def->type, VIEW_SCALAR); // it may come later (rowplan.c)
    else if (!argument(w, n->in[i].def, &in[i])) return false;
  for (uint32_t k = 0; k < s->nattr; k++)
    if (!(attr[k] = anfi_attr_value(w->cx, (anfi_opcode)n->op, n->u.attrs, k)))
      return anfi_fail(w->cx, anfi_node_loc(n), ANF_E0951, s->name->s, s->attr[k].name->s);
  if (strcmp(anfi_op_of(n)->family, "lanes") == 0)
    return anfi_fail(w->cx, anfi_node_loc(n), ANF_E0714, anfi_op_of(n)->name, attr[0]->u.text);
  *out = anfi_glow_new(w, anfi_leaf_count(n->type));
  bool forced = anfi_map_find(&w->forced, n->id) != NULL;
  anfi_low_op q = {.op = (anfi_opcode)n->op,
                   .loc = anfi_node_loc(n),
                   .node = n,
                   .type = n->type,
                   .n = narg,
                   .in = in,
                   .attr = attr,
                   .inlined = inlined || forced,
                   .to = w->to[n->id],
                   .in_place = anfi_map_find(&w->in_place, n->id) != NULL};
  bool writes = anfi_op_of(n)->flags & ANFI_WRITES_OVER;
  if (anfi_op_of(n)->flags & ANFI_COLLECTIVE && n->nin) {
    q.over = may_write_over(w, n);
    if (q.over) in[0] = own_buffer(w, n, in[0]);
  }
  if (writes) q.over = may_write_over(w, n) || (in[0]->owned && anfi_glow_is_last(w, n, 0, 0));
  if (!anfi_lower_op(w->L, &q, out->at)) return false;
  if (writes)
    out->at[0]->owned = q.over || !q.to || !q.to[0] || out->at[0]->tensor == in[0]->tensor;
  else if (has_own_buffer(&q, out->at[0])) out->at[0]->owned = true;
  if (forced) out->at[0] = anfi_glow_copied_out(w, out->at[0]);
  return true;
}

static bool apply(glow *w, anf_node *n, bool inlined, gval *out) {
  if (arrange(w, n, inlined, out)) return true;
  switch ((anfi_opcode)n->op) {
  case ANF_OP_Switch:
  case ANF_OP_SwitchLayer: return anfi_glow_choice(w, n, out);
  case ANF_OP_Loop: return anfi_glow_loop(w, n, out);
  case ANF_OP_Custom:
  case ANF_OP_Recompute: return anfi_glow_call_op(w, n, out);
  case ANF_OP_Box: return anfi_glow_box(w, n, out);
  case ANF_OP_Unbox: return anfi_glow_unbox(w, n, out);
  case ANF_OP_ResidualAdd:
  case ANF_OP_ResidualZeros:
  case ANF_OP_ResidualSelect:
  case ANF_OP_ResidualSpread: return anfi_glow_box_walk(w, n, out);
  case ANF_OP_Print: return anfi_glow_print(w, n);
  case ANF_OP_Assert: return anfi_glow_assert(w, n);
  default: return lower_op(w, n, inlined, out);
  }
}

/* ---- bodies ---- */

/* Passes the buffers that the result's leaves are wanted in to the nodes that make them. Types nest no deeper
 * than inference allows, so this may recurse. */
static void want(glow *w, anf_node *r, const texpr *to) {
  bool made = r->kind == ANFI_APPLY && (r->op == ANF_OP_MakeTuple || r->op == ANF_OP_MakeRecord);
  if (r->kind == ANFI_VALUE) return;
  w->to[r->id] = to;
  size_t at = 0;
  for (uint32_t i = 0; made && i < r->nin; i++) {
    want(w, r->in[i].def, to ? to + at : NULL);
    at += anfi_leaf_count(r->in[i].def->type);
  }
}

void anfi_glow_wish(glow *w, const anf_graph *g, anf_node *n, size_t leaf, texpr to) {
  if (n->graph != g || (n->kind != ANFI_APPLY && n->kind != ANFI_CALL)) return;
  uint64_t *at = anfi_map_at(&w->wished, n->id);
  if (!*at) {
    anfi_push(w->a, &w->wish, ((gwish){n, ANFI_NEW_N(w->a, texpr, anfi_leaf_count(n->type) + 1)}));
    *at = w->wish.n;
  }
  texpr *room = &w->wish.at[*at - 1].to[leaf];
  if (!*room) *room = to;
}

/* For the current body. */
static void take_wishes(glow *w) {
  for (size_t i = 0; i < w->wish.n; i++) {
    w->to[w->wish.at[i].n->id] = w->wish.at[i].to;
    *anfi_map_at(&w->wished, w->wish.at[i].n->id) = 0;
  }
  w->wish.n = 0;
}

/* A function that is chosen is no value: its call looks at it. */
static bool is_callee(const anf_node *n) { return !n->type || n->type->kind == ANF_TYPE_FN; }

static bool lower_node(glow *w, anf_node *n, bool inlined, bool tail, gval *out) {
  anfi_loc at = anfi_node_loc(n);
  bool traced = w->o->regions && !is_callee(n);
  w->t->line = at.line;
  w->t->col = at.col;
  size_t region = traced ? anfi_glow_region_begin(w, n) : 0;
  bool good = n->kind == ANFI_CALL ? anfi_glow_call(w, n, tail, out)
                                   : is_callee(n) || apply(w, n, inlined, out);
  if (traced && good) anfi_glow_region_end(w, region);
  return good;
}

/* Waits for the exchanges whose results n reads; if n calls code, for all exchanges. */
static void wait_for_inputs(glow *w, const anf_node *n, size_t base) {
  bool calls = n->kind == ANFI_CALL || (anfi_op_of(n)->flags & (ANFI_CALLS | ANFI_EFFECT));
  if (anfi_lower_under_way(w->L) == base) return;
  if (calls) anfi_lower_wait_all(w->L, base);
  else
    for (uint32_t i = 0; i < n->nin; i++) anfi_lower_wait_for(w->L, n->in[i].def, base);
}

/* A block is traced as its first node that is no pointwise op. */
static bool lower_block(glow *w, const gplan *p, const growblock *b) {
  size_t first = b->from;
  while (first + 1 < b->to && anfi_op_of(p->node[first])->lower != ANFI_LOWER_REDUCE) first++;
  size_t region = w->o->regions ? anfi_glow_region_begin(w, p->node[first]) : 0;
  if (!anfi_glow_rows(w, p, b)) return false;
  if (w->o->regions) anfi_glow_region_end(w, region);
  return true;
}

static bool lower_plan(glow *w, const anf_graph *g, const gplan *p, bool tail) {
  size_t base = anfi_lower_under_way(w->L);
  for (size_t i = 0, k = 0; i < p->n; i++) {
    anf_node *n = p->node[i];
    gval v = {0};
    if (k < p->block.n && i == p->block.at[k].from) {
      for (size_t j = i; j < p->block.at[k].to; j++) wait_for_inputs(w, p->node[j], base);
      if (!lower_block(w, p, &p->block.at[k])) return false;
      i = p->block.at[k++].to - 1;
      continue;
    }
    wait_for_inputs(w, n, base);
    if (!lower_node(w, n, anfi_fuse_inlined(p->inlined, i), tail && n == g->result, &v))
      return false;
    w->env[n->id] = v;
  }
  anfi_lower_wait_all(w->L, base);
  return true;
}

/* == of tuples is an op on values of any type: it is compiled where it is known, and else not at all. Strings and types are compared
 * by their numbers. */
static bool has_tensors(const glow *w, const anf_node *n) {
  if (n->kind != ANFI_APPLY || !anfi_lower_is_scalar((anfi_opcode)n->op)) return true;
  for (size_t i = 0; i < anfi_arg_count(n); i++) {
    const anf_node *x = n->in[i].def;
    const anf_type *t = x->kind == ANFI_VALUE ? anfi_value_type(w->cx, x->u.value) : x->type;
    if (t && t->kind != ANF_TYPE_TENSOR && !anfi_is_name(t))
      return anfi_fail(w->cx, anfi_node_loc(n), ANF_E0951,
                       n->op == ANF_OP_Equal ? "== of tuples" : "!= of tuples", "operand");
  }
  return true;
}

/* Does the op take its operands as they are now? It was inferred with what was known: a choice between f64[2] and f64[3] has
 * the type f64[?], and is one of them once its condition is known. The op's own inference says so, in its words. */
static bool takes_operands(const glow *w, const anf_node *n) {
  if (n->kind != ANFI_APPLY || !anfi_lower_knows((anfi_opcode)n->op)) return true;
  const anfi_schema *s = anfi_op_schema(w->cx, (anfi_opcode)n->op);
  size_t narg = anfi_arg_count(n);
  const anf_type **in = ANFI_NEW_N(w->a, const anf_type *, narg + 1);
  anf_value **attr = ANFI_NEW_N(w->a, anf_value *, s->nattr + 1);
  for (size_t i = 0; i < narg; i++)
    if (!(in[i] = n->in[i].def->type) || in[i]->kind == ANF_TYPE_FN) return true;
  for (uint32_t k = 0; k < s->nattr; k++)
    if (!(attr[k] = anfi_attr_value(w->cx, (anfi_opcode)n->op, n->u.attrs, k))) return true;
  anfi_infer q = {.cx = w->cx,
                  .op = (anfi_opcode)n->op,
                  .loc = anfi_node_loc(n),
                  .n = narg,
                  .in = in,
                  .attr = attr};
  return anfi_infer_op(&q);
}

bool anfi_glow_body(glow *w, anf_graph *g, const gval *args, const texpr *to, bool tail,
                    gval *out) {
  const anfi_graph_info *gi = &w->an->graphs[g->id];
  for (size_t i = 0; i < g->params.n; i++) w->env[g->params.at[i]->id] = args[i];
  for (size_t i = 0; i < gi->order.n; i++) w->to[gi->order.at[i]->id] = NULL;
  want(w, g->result, to);
  take_wishes(w);
  gplan **plan = &w->plan[g->id];
  if (!*plan) {
    for (size_t i = 0; i < gi->order.n; i++)
      if (!has_tensors(w, gi->order.at[i]) || !takes_operands(w, gi->order.at[i])) return false;
    *plan = anfi_glow_plan(w, gi->order.n, gi->order.at, w->o->nstate && g != w->turn);
    if (w->o->fusion) anfi_glow_explain(g, *plan, w->o->fusion);
  }
  anfi_push(w->a, &w->inlined, g);
  if (!lower_plan(w, g, *plan, tail)) return false;
  w->inlined.n--;
  *out = anfi_glow_value(w, g->result);
  return true;
}

/* ---- functions ---- */

static bool is_taken(const glow *w, const anfi_str *s) {
  for (size_t i = 0; i < w->todo.n; i++)
    if (w->todo.at[i]->name == s) return true;
  for (size_t i = 0; i < w->walks.n; i++)
    if (w->walks.at[i]->name == s) return true;
  return anfi_t_mod_find(w->tm, s) != NULL;
}

const anfi_str *anfi_glow_fresh_name(glow *w, const char *base) {
  const anfi_str *s = anfi_t_name(w->t, base);
  for (uint32_t k = 1; is_taken(w, s); k++)
    s = anfi_t_name(w->t, anfi_sprintf(w->a, "%s_%u", base, k));
  return s;
}

gfn *anfi_glow_function(glow *w, anf_graph *g) {
  if (w->fn[g->id]) return w->fn[g->id];
  gfn *f = ANFI_NEW(w->a, gfn);
  f->g = g;
  for (size_t i = 0; i < g->params.n; i++)
    if (!anfi_glow_leaves(w, g->params.at[i]->type, anfi_node_loc(g->params.at[i]), &f->param))
      return NULL;
  if (!anfi_glow_leaves(w, g->result->type, anfi_node_loc(g->result), &f->result)) return NULL;
  f->returned = anfi_returned_leaf(&f->result);
  f->carry = ANFI_NEW_N(w->a, size_t, f->result.n + 1);
  for (size_t i = 0; i < f->result.n; i++)
    f->carry[i] =
        w->todo.n ? anfi_glow_carried(w, g, i) : ANFI_NO_CARRY; // the host owns what it gives
  const char *base = w->todo.n || !w->o->name ? g->name->s : w->o->name;
  f->name = anfi_glow_fresh_name(w, base);
  anfi_push(w->a, &w->todo, f);
  return w->fn[g->id] = f;
}

static const char *param_name(const gfn *f, size_t leaf) {
  size_t at = 0;
  for (size_t i = 0; i < f->g->params.n; i++) {
    anf_node *p = f->g->params.at[i];
    at += anfi_leaf_count(p->type);
    if (leaf < at) return *anf_node_name(p) ? anf_node_name(p) : "x";
  }
  return "x";
}

typedef struct frame {
  texpr *param; // of the function: leaves, then room for results
  uint32_t n;
  texpr *to;      // by leaf of the result: its buffer, or NULL
  texpr *element; // by leaf of the result: where a scalar goes, or NULL
} frame;

static void make_params(glow *w, gfn *f, frame *fr) {
  gself *s = &w->self;
  size_t np = f->param.n, nr = f->result.n;
  *s = (gself){.fn = f,
               .slot = ANFI_NEW_N(w->a, texpr, np + 1),
               .in = ANFI_NEW_N(w->a, anfi_view *, np + 1),
               .again = anfi_t_var(w->t, ANFI_BOOL, "again")};
  *fr = (frame){.param = ANFI_NEW_N(w->a, texpr, np + nr + 1),
                .to = ANFI_NEW_N(w->a, texpr, nr + 1),
                .element = ANFI_NEW_N(w->a, texpr, nr + 1)};
  for (size_t i = 0; i < np; i++) {
    const anfi_leaf *l = &f->param.at[i];
    const char *name = param_name(f, i);
    fr->param[fr->n++] = l->scalar ? anfi_t_var(w->t, anfi_t_dt(l->elem), name)
                                   : anfi_t_tensor1(w->t, l->elem, name, l->n);
    if (l->scalar) s->slot[i] = anfi_t_var(w->t, anfi_t_dt(l->elem), name);
    s->in[i] = anfi_glow_view(w, l, fr->param[i]);
  }
  for (size_t i = 0; i < nr; i++) {
    const anfi_leaf *l = &f->result.at[i];
    if (i == f->returned) continue;
    if (f->carry[i] != ANFI_NO_CARRY) {
      fr->to[i] = fr->param[f->carry[i]];
      s->in[f->carry[i]]->owned = true;
      continue;
    }
    texpr room = anfi_t_tensor1(w->t, l->elem, "out", l->scalar ? 1 : l->n);
    *(l->scalar ? &fr->element[i] : &fr->to[i]) = fr->param[fr->n++] = room;
  }
}

/* Puts the leaves of the result where the caller wants them; scalars first into variables that
 * outlive the loop of tail calls. */
static void give(glow *w, gfn *f, const frame *fr, gval v, texpr ret) {
  for (size_t i = 0; i < f->result.n; i++) {
    const anfi_leaf *l = &f->result.at[i];
    texpr e = NULL, zero = anfi_t_index(w->t, 0);
    if (!v.at[i]) {
      if (i != f->returned) continue;
      e = anfi_t_int(w->t, anfi_t_dt(l->elem), 0);
    } else if (!l->scalar) {
      anfi_view_store(w->L, v.at[i], fr->to[i]);
      continue;
    } else e = anfi_view_value(w->L, v.at[i]);
    texpr place = i == f->returned ? ret : anfi_t_at(w->t, fr->element[i], 1, &zero, 1, 0, NULL);
    anfi_low_add(w->L, anfi_t_assign(w->t, place, e));
  }
}

/* while (again) { again = false; parameters = slots; body } */
static tstmt looped(glow *w, gfn *f, frame *fr, tstmt body) {
  gself *s = &w->self;
  anfi_low_open(w->L);
  anfi_low_add(w->L, anfi_t_assign(w->t, s->again, anfi_t_bool(w->t, false)));
  for (size_t i = 0; i < f->param.n; i++)
    if (s->slot[i]) anfi_low_add(w->L, anfi_t_define(w->t, TL_local, fr->param[i], s->slot[i]));
  anfi_low_add(w->L, anfi_t_splice(w->t, body->n, body->s));
  tstmt inner = anfi_low_close(w->L);
  anfi_low_open(w->L);
  for (size_t i = 0; i < f->param.n; i++) {
    if (!s->slot[i]) continue;
    texpr given = anfi_t_var(w->t, s->slot[i]->dtype, s->slot[i]->u.name->s);
    anfi_low_add(w->L, anfi_t_define(w->t, TL_local, s->slot[i], given));
    fr->param[i] = given;
  }
  anfi_low_add(w->L, anfi_t_define(w->t, TL_local, s->again, anfi_t_bool(w->t, true)));
  anfi_low_add(w->L, anfi_t_while(w->t, s->again, inner));
  return anfi_low_close(w->L);
}

static gval *arguments(glow *w, gfn *f) {
  gval *args = ANFI_NEW_N(w->a, gval, f->g->params.n + 1);
  size_t at = 0;
  for (size_t i = 0; i < f->g->params.n; i++) {
    args[i] = (gval){anfi_leaf_count(f->g->params.at[i]->type), w->self.in + at};
    at += args[i].n;
  }
  return args;
}

static tdtype return_type(const gfn *f) {
  return anfi_t_dt(f->returned < f->result.n ? f->result.at[f->returned].elem : ANF_TIR_void);
}

/* States of loops that the entry gives live in the caller's buffers from the first round on. A training step's buffers are
 * those of its old state, which rounds may read. */
static void want_states(glow *w, const gfn *f, const texpr *to) {
  for (size_t i = 0; i < f->result.n && !w->o->nstate; i++) {
    gsource s = anfi_glow_source(w->cx, (gsource){f->g->result, i});
    if (to[i] && anfi_is_op(s.n, ANF_OP_Loop)) anfi_glow_wish(w, f->g, s.n, s.leaf, to[i]);
  }
}

static bool lower_function(glow *w, gfn *f, bool entry) {
  anfi_low_opts o = {.fast = w->o->fast,
                     .parallel = w->o->parallel,
                     .isa = w->o->isa,
                     .plans = w->o->plans,
                     .user = w,
                     .trap = anfi_glow_trap,
                     .sites = anfi_glow_sites};
  if (w->o->regions) {
    o.region_begin = anfi_glow_region_begin;
    o.region_end = anfi_glow_region_end;
  }
  frame fr;
  gval v;
  w->L = anfi_low_new(w->cx, w->a, w->tm, &o);
  w->inlined.n = 0;
  make_params(w, f, &fr);
  tdtype ret = return_type(f);
  texpr r = anfi_t_is_void(ret) ? NULL : anfi_t_var(w->t, ret, "result");
  anfi_low_open(w->L);
  bool traced = entry && w->o->regions;
  size_t region = traced ? anfi_glow_region_begin(w, f->g->result) : 0;
  if (traced) w->out->regions.at[region].name = w->out->entry;
  if (entry) want_states(w, f, fr.to);
  if (!anfi_glow_body(w, f->g, arguments(w, f), fr.to, true, &v)) return false;
  if (v.n || !w->self.looped) give(w, f, &fr, v, r);
  if (traced) anfi_glow_region_end(w, region);
  tstmt body = anfi_low_close(w->L);
  anfi_low_open(w->L);
  if (r) anfi_low_add(w->L, anfi_t_define(w->t, TL_local, r, anfi_t_int(w->t, ret, 0)));
  if (w->self.looped) body = looped(w, f, &fr, body);
  anfi_low_add(w->L, anfi_t_splice(w->t, body->n, body->s));
  if (r) anfi_low_add(w->L, anfi_t_return(w->t, r));
  body = anfi_low_close(w->L);
  tattrs at = {0};
  if (!entry) at = anfi_t_attr_set(w->t, at, TA_is_private, 1);
  anfi_t_mod_add(w->tm, anfi_t_func(w->t, f->name, ret, fr.n, fr.param, body, at));
  for (size_t i = 0; entry && i < w->L->in_step.n; i++)
    anfi_push(w->keep, &w->out->in_step, w->L->in_step.at[i]);
  return true;
}

/* ---- modules ---- */

static void declare_host(glow *w, const anf_node *n) {
  if (n->kind != ANFI_APPLY || (n->op != ANF_OP_Host && n->op != ANF_OP_HostEffect)) return;
  const anf_value *name = anfi_attr_value(w->cx, (anfi_opcode)n->op, n->u.attrs, 0);
  const anfi_host *h = name ? anfi_host_find(w->cx, name->u.text, name->n) : NULL;
  if (h) anfi_lower_host_declare(w->a, w->tm, h);
}

static bool walks_kept(const anf_node *n) {
  return anfi_is_op(n, ANF_OP_ResidualAdd) || anfi_is_op(n, ANF_OP_ResidualZeros) ||
         anfi_is_op(n, ANF_OP_ResidualSelect) || anfi_is_op(n, ANF_OP_ResidualSpread);
}

/* Uses of graphs; functions of the host; and does a residual get projected before its type is inferred? */
static void look_over(glow *w) {
  for (size_t i = 0; i < w->m->graphs.n; i++) {
    anf_graph *g = w->m->graphs.at[i];
    const anfi_graph_info *gi = g ? &w->an->graphs[g->id] : NULL;
    for (size_t k = 0; gi && k < gi->order.n; k++)
      for (uint32_t j = 0; j < gi->order.at[k]->nin; j++) {
        const anf_graph *h = anfi_value_graph(gi->order.at[k]->in[j].def);
        if (h) w->uses[h->id]++;
      }
    for (size_t k = 0; gi && k < gi->order.n; k++) declare_host(w, gi->order.at[k]);
    for (size_t k = 0; gi && k < gi->order.n; k++) {
      w->tagged |= walks_kept(gi->order.at[k]);
      w->zeroed |= anfi_is_op(gi->order.at[k], ANF_OP_ResidualZeros);
    }
  }
}

/* Programs hold no boxes as constants, but a function that the host has may bind one that the interpreter made. */
static bool check_constants(const glow *w) {
  for (size_t i = 0; i < w->m->nodes.n; i++) {
    const anf_node *n = w->m->nodes.at[i];
    bool data = n && n->kind == ANFI_VALUE && n->uses && n->u.value->kind != ANF_VALUE_FN;
    if (data && anfi_value_type(w->cx, n->u.value)->kept)
      return anfi_fail(w->cx, anfi_node_loc(n->uses->user), ANF_E0950, "box");
  }
  return true;
}

static bool is_kept_by(const glow *w, const anf_node *n) {
  if (anfi_is_op(n, ANF_OP_Box) || walks_kept(n)) return true;
  if (anfi_is_op(n, ANF_OP_Loop) && anfi_loop_parts(n).nout) return true;
  if (w->zeroed && anfi_is_op(n, ANF_OP_Unbox)) return true;
  for (uint32_t i = 0; i < n->nin; i++) {
    const anf_graph *g = anfi_value_graph(n->in[i].def);
    if (g && w->keeps[g->id]) return true;
  }
  return false;
}

/* Which graphs keep memory: a least fixpoint, as they may call themselves. */
static void find_keepers(glow *w) {
  w->keeps = ANFI_NEW_N(w->a, bool, w->m->graphs.n + 1);
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < w->an->by_scc.n; i++) {
      const anf_graph *g = w->an->by_scc.at[i];
      const anfi_graph_info *gi = &w->an->graphs[g->id];
      for (size_t k = 0; k < gi->order.n && !w->keeps[g->id]; k++)
        changed |= w->keeps[g->id] = is_kept_by(w, gi->order.at[k]);
    }
  }
}

/* Callees first; what a recursion comes back to counts nothing. */
static void weigh(glow *w) {
  enum { MOST = 1 << 20 };
  for (size_t i = 0; i < w->an->by_scc.n; i++) {
    const anf_graph *g = w->an->by_scc.at[i];
    const anfi_graph_info *gi = &w->an->graphs[g->id];
    size_t sum = gi->order.n;
    for (size_t k = 0; k < gi->order.n; k++)
      for (uint32_t j = 0; j < gi->order.at[k]->nin; j++) {
        const anf_graph *h = anfi_value_graph(gi->order.at[k]->in[j].def);
        if (h && anfi_glow_is_small(w, h)) sum += w->weight[h->id];
      }
    w->weight[g->id] = (uint32_t)(sum < MOST ? sum : MOST);
  }
}

/* The host has no values that are boxed residuals. */
static bool check_entry(const glow *w, const gfn *f) {
  for (size_t i = 0; i < f->param.n + f->result.n; i++)
    if ((i < f->param.n ? &f->param.at[i] : &f->result.at[i - f->param.n])->boxed)
      return anfi_fail(w->cx, anfi_node_loc(f->g->result), ANF_E0950, "box");
  return true;
}

static anfi_leaves boxed_leaves(glow *w, const anfi_leaves *l) {
  anfi_leaf *at = ANFI_NEW_N(w->keep, anfi_leaf, l->n + 1);
  if (l->n) memcpy(at, l->at, l->n * sizeof *at);
  return (anfi_leaves){.at = at, .n = l->n, .cap = l->n + 1};
}

static void describe_entry(glow *w, gfn *f) {
  anfi_lowered *out = w->out;
  size_t np = f->g->params.n;
  out->entry = anfi_strndup(w->keep, f->name->s, f->name->len);
  out->param = boxed_leaves(w, &f->param);
  out->result = boxed_leaves(w, &f->result);
  out->result_type = f->g->result->type;
  out->first = ANFI_NEW_N(w->keep, size_t, np + 1);
  for (size_t i = 0; i < np; i++)
    out->first[i + 1] = out->first[i] + anfi_leaf_count(f->g->params.at[i]->type);
}

bool anfi_lower_graph(anf_graph *g, const anfi_lower_opts *o, anfi_lowered *out) {
  anf_module *m = g->module;
  anfi_arena *a = anfi_scratch(m->cx);
  tstore *t = anfi_t_store_new(m->cx);
  glow w = {.cx = m->cx, .m = m, .a = a, .keep = out->arena, .o = o, .out = out, .t = t};
  w.tm = out->module = anfi_t_mod_new(t);
  w.an = anfi_analyse(m);
  t->file = anfi_node_loc(g->result).file;
  w.fn = ANFI_NEW_N(a, gfn *, m->graphs.n);
  w.uses = ANFI_NEW_N(a, uint32_t, m->graphs.n);
  w.weight = ANFI_NEW_N(a, uint32_t, m->graphs.n);
  w.plan = ANFI_NEW_N(a, gplan *, m->graphs.n);
  w.env = ANFI_NEW_N(a, gval, m->nodes.n);
  w.index = ANFI_NEW_N(a, uint32_t, m->nodes.n);
  w.to = ANFI_NEW_N(a, texpr const *, m->nodes.n);
  anfi_map_init(&w.tag, a);
  anfi_map_init(&w.left, a);
  anfi_map_init(&w.wished, a);
  anfi_map_init(&w.forced, a);
  anfi_map_init(&w.in_place, a);
  anfi_map_init(&w.slot, a);
  anfi_order_reads_first(w.an);
  anfi_glow_linear(&w);
  look_over(&w);
  if (!check_constants(&w)) return false;
  find_keepers(&w);
  weigh(&w);
  gfn *entry = anfi_glow_function(&w, g);
  if (!entry || !check_entry(&w, entry)) return false;
  describe_entry(&w, entry);
  if (o->nstate) anfi_glow_schedule(&w, g, o->nstate);
  for (size_t i = 0; i < w.todo.n; i++) {
    out->recursive |= w.an->graphs[w.todo.at[i]->g->id].recursive;
    if (!lower_function(&w, w.todo.at[i], i == 0)) return false;
  }
  if (!anfi_glow_make_walks(&w)) return false;
  if (o->edit) o->edit(o->user);
  anfi_t_drop_unread(w.tm); // constants that are folded, or packed for products
  anfi_lower_outline(anfi_scratch(m->cx), w.tm);
  anfi_t_declare_rt(w.tm);
  return true;
}
