// SPDX-License-Identifier: Apache-2.0
/* The verifier. It checks, in this order, and stops before a step that needs what an earlier one
 * found broken:
 *   V1  ids: the node or graph at index i of its table has id i, and the module as its owner
 *   V2  kinds: a VALUE has a value, no graph, no inputs; a PARAM no inputs; a PARAM, APPLY or CALL
 *       is in a graph of the module
 *   V3  edges: every input is a node of the module, and its edge names the user
 *   V4  use lists: the list of a node holds each edge to it once, linked both ways; a primitive has
 *       none
 *   V5  scopes: captured nodes belong to graphs that enclose the capturing one; these form a
 *       tree
 *   V6  no node needs its own value: through inputs, through captures of functions among them, or
 *       through the order of effects
 *   V7  results: every graph has one, and the module's count of results is right
 *   V8  arity: arguments of an APPLY fit the op's schema, those of a direct CALL the graph's
 *       parameters; the call of a plain primitive is an APPLY
 *   V9  attributes: the record is as long as the schema, with every needed one, each of its type,
 *       and one input for each that a node gives
 *   V10 parameters: entry i of a graph's list is a PARAM of that graph with index i, and all are
 *       listed
 *   V11 effects: a graph's list holds CNodes of that graph, each once, and exactly those are flagged
 *   V12 constants: functions in them are primitives or graphs of this module; a graph's own node
 *       holds that graph; a VALUE knows the primitive that it holds
 *   V13 types, where known: the condition of Switch is a scalar, a callee is a function, and
 *       TupleGet takes an item that is there
 *   V14 passes look at each node that has changed since they did, and at each that nothing uses
 * A node that a removed graph left behind is no part of the module: nothing may use it. Linear in
 * the module and its captures; no recursion. */
#include "ir/ir.h"
#include "ir/worklist.h"

typedef struct {
  /* module */
  anf_module *m;
  anf_ctx *cx;
  anfi_arena *scratch;
  anf_text *type_text;
  /* found in one pass over the nodes */
  size_t nedge;                      // to nodes that keep a use list
  bool ordered;                      // so far, operands have smaller ids than their users
  ANFI_VEC(const anf_node *) makers; // nodes with functions among their inputs
  /* values */
  anfi_map values; // constants looked into
  ANFI_VEC(const anf_value *) pending;
} checker;

static bool is_left_behind(const anf_node *n) { return n->graph && n->graph->removed; }

/* "x" or "node 7" */
static const char *called(checker *c, const anf_node *n) {
  const anfi_str *s = n->debug < c->m->debugs.n ? c->m->debugs.at[n->debug].name : NULL;
  return s && s->len ? anfi_sprintf(c->scratch, "'%s'", s->s)
                     : anfi_sprintf(c->scratch, "node %u", n->id);
}

static anfi_loc loc_of(const checker *c, const anf_node *n) {
  return n->graph && n->graph->module == c->m && n->debug < c->m->debugs.n ? anfi_node_loc(n)
                                                                           : anfi_nowhere();
}

#define FAIL(c, n, ...) ((void)anfi_fail((c)->cx, loc_of((c), (n)), __VA_ARGS__))

/* ---- V1, V2: the tables ---- */

static void check_graph_id(checker *c, size_t i) {
  const anf_graph *g = c->m->graphs.at[i];
  if (g->id != i || g->module != c->m)
    anfi_fail(c->cx, anfi_nowhere(), ANF_E0210, "graph", (unsigned)i, (unsigned)g->id);
}

static bool is_graph_of(const anf_module *m, const anf_graph *g) {
  return g->module == m && g->id < m->graphs.n && (m->graphs.at[g->id] == g || g->removed);
}

static void check_kind(checker *c, const anf_node *n) {
  const char *wrong = NULL;
  if (n->kind > ANFI_CALL) wrong = "is of no kind";
  else if (n->debug >= c->m->debugs.n) wrong = "has no place in the table of places";
  else if (n->kind == ANFI_VALUE && (n->graph || !n->u.value))
    wrong = "is a constant with a graph or without value";
  else if (n->kind != ANFI_VALUE && !n->graph) wrong = "belongs to no graph";
  else if (n->graph && !is_graph_of(c->m, n->graph)) wrong = "belongs to a graph of another module";
  else if (!anfi_is_cnode(n) && n->nin) wrong = "has inputs and is no call";
  else if (n->kind == ANFI_APPLY && n->op >= ANF_OP_COUNT)
    wrong = "is of an op that does not exist";
  else if (n->kind == ANFI_CALL && !n->nin) wrong = "calls nothing";
  if (wrong) anfi_fail(c->cx, anfi_nowhere(), ANF_E0211, called(c, n), wrong);
}

static void check_tables(checker *c) {
  anf_module *m = c->m;
  for (size_t i = 0; i < m->graphs.n && anfi_more_errors(c->cx); i++)
    if (m->graphs.at[i]) check_graph_id(c, i);
  for (size_t i = 0; i < m->nodes.n && anfi_more_errors(c->cx); i++) {
    const anf_node *n = m->nodes.at[i];
    if (!n) continue;
    if (n->id != i)
      anfi_fail(c->cx, anfi_nowhere(), ANF_E0210, "node", (unsigned)i, (unsigned)n->id);
    else check_kind(c, n);
  }
}

/* ---- V3, V4: edges and use lists ---- */

/* Prefetches the inputs of nodes ahead of i, which are far away in memory, in two steps: an input's place in the
 * table is known only once its id has arrived. */
static void fetch_ahead(const anf_module *m, size_t i) {
#if defined(__GNUC__)
  enum { FAR = 24, NEAR = 8 };
  const anf_node *n = i + FAR < m->nodes.n ? m->nodes.at[i + FAR] : NULL;
  for (uint32_t k = 0; n && k < n->nin && k < 4; k++) __builtin_prefetch(n->in[k].def);
  n = i + NEAR < m->nodes.n ? m->nodes.at[i + NEAR] : NULL;
  for (uint32_t k = 0; n && k < n->nin && k < 4; k++)
    if (n->in[k].def && n->in[k].def->id < m->nodes.n)
      __builtin_prefetch(&m->nodes.at[n->in[k].def->id]);
#else
  (void)m, (void)i;
#endif
}

static bool is_node_of(const anf_module *m, const anf_node *n) {
  return n && n->id < m->nodes.n && m->nodes.at[n->id] == n;
}

static bool keeps_uses(const anf_node *n) { return n->kind != ANFI_VALUE || n->op == ANF_OP_NONE; }

/* Ids that grow from each operand to its user prove V6 without a walk. */
static void note_order(checker *c, const anf_node *n, const anf_node *def) {
  if (anfi_is_cnode(def) && def->id >= n->id && def->graph == n->graph) c->ordered = false;
  if (anfi_value_graph(def) && (!c->makers.n || c->makers.at[c->makers.n - 1] != n))
    anfi_push(c->scratch, &c->makers, n);
}

static void check_edges(checker *c, const anf_node *n) {
  for (uint32_t i = 0; i < n->nin; i++) {
    const anf_node *def = n->in[i].def;
    const char *wrong = NULL;
    if (!is_node_of(c->m, def)) wrong = def ? "is not in the module" : "is missing";
    else if (n->in[i].user != n) wrong = "names another user";
    else if (is_left_behind(def) && !is_left_behind(n))
      wrong = "belongs to a graph that was removed";
    else {
      c->nedge += keeps_uses(def);
      note_order(c, n, def);
    }
    if (wrong) FAIL(c, n, ANF_E0212, (unsigned)i, called(c, n), wrong);
  }
}

static const char *wrong_use(const anf_node *n, const anfi_use *u, anfi_use *const *link) {
  if (u->def != n) return "holds an edge to another node";
  if (u->link != link) return "is not linked both ways";
  if (!anfi_is_cnode(u->user) || u < u->user->in || u >= u->user->in + u->user->nin)
    return "holds an edge of a node that is gone";
  return NULL;
}

/* The same for the first two uses of a node. */
static void fetch_uses(const anf_module *m, size_t i) {
#if defined(__GNUC__)
  enum { FAR = 24, NEAR = 8 };
  const anf_node *n = i + FAR < m->nodes.n ? m->nodes.at[i + FAR] : NULL;
  if (n && n->uses) __builtin_prefetch(n->uses);
  n = i + NEAR < m->nodes.n ? m->nodes.at[i + NEAR] : NULL;
  if (n && n->uses && n->uses->next) __builtin_prefetch(n->uses->next);
#else
  (void)m, (void)i;
#endif
}

/* All lists together must hold as many edges as there are: with that, and each edge known to be in
 * the list of its own node at most once, none is missing. */
static void check_uses(checker *c) {
  size_t seen = 0;
  for (size_t i = 0; i < c->m->nodes.n && anfi_more_errors(c->cx); i++) {
    const anf_node *n = c->m->nodes.at[i];
    if (!n) continue;
    fetch_uses(c->m, i);
    const char *wrong = n->uses && !keeps_uses(n) ? "should be empty" : NULL;
    anfi_use *const *link = &n->uses;
    for (; *link && !wrong && seen <= c->nedge; link = &(*link)->next, seen++)
      wrong = wrong_use(n, *link, link);
    if (wrong) FAIL(c, n, ANF_E0213, called(c, n), wrong);
  }
  if (seen != c->nedge && !anfi_failed(c->cx))
    anfi_fail(c->cx, anfi_nowhere(), ANF_E0213, "all nodes together", "lack an edge");
}

/* ---- V12: constants ---- */

static void look_into(checker *c, const anf_value *v) {
  uint64_t *at = v ? anfi_map_at(&c->values, anfi_key(v)) : NULL;
  if (!at || *at) return;
  *at = 1;
  anfi_push(c->scratch, &c->pending, v);
}

static const char *wrong_fn(const checker *c, const anfi_fn *f) {
  if (!f->graph) return f->op < ANF_OP_COUNT ? NULL : "holds an op that does not exist";
  if (f->graph->module != c->m) return "holds a function of another module";
  return f->graph->removed ? "holds a graph that was removed" : NULL;
}

static bool is_compound(const anf_value *v) {
  return v->kind == ANF_VALUE_TUPLE || v->kind == ANF_VALUE_RECORD || v->kind == ANF_VALUE_FN;
}

static const char *wrong_constant(checker *c, const anf_value *v) {
  const char *wrong = NULL;
  look_into(c, v);
  while (c->pending.n) {
    const anf_value *x = c->pending.at[--c->pending.n];
    const anfi_fn *f = x->kind == ANF_VALUE_FN ? anfi_value_fn(x) : NULL;
    if (f && !wrong) wrong = wrong_fn(c, f);
    anf_value *const *items = f ? f->at : is_compound(x) ? x->u.item : NULL;
    for (size_t i = 0; items && i < x->n; i++) look_into(c, items[i]);
    for (uint32_t k = 0; f && f->attrs && k < f->attrs->n; k++) look_into(c, f->attrs->at[k]);
  }
  return wrong;
}

static void check_value(checker *c, const anf_node *n) {
  const anf_value *v = n->u.value;
  const anfi_fn *f = v->kind == ANF_VALUE_FN ? anfi_value_fn(v) : NULL;
  const char *wrong = NULL;
  if (n->op != ANF_OP_NONE && (!f || f->graph || f->op != n->op))
    wrong = "does not hold the op that it says";
  else if (f && f->graph && f->graph->removed && !n->uses) return; // left behind with its graph
  else if (is_compound(v)) wrong = wrong_constant(c, v);
  if (wrong) FAIL(c, n, ANF_E0221, called(c, n), wrong);
}

/* ---- V8, V9: arity and attributes ---- */

static void check_attrs(checker *c, const anf_node *n) {
  const anfi_attrs *at = n->u.attrs;
  const anfi_schema *s = anfi_op_schema(c->cx, (anfi_opcode)n->op);
  for (uint32_t k = 0; k < s->nattr; k++) {
    const anf_value *v = at && k < at->n ? at->at[k] : NULL;
    if (!v && !s->attr[k].initial) FAIL(c, n, ANF_E0206, s->name->s, s->attr[k].name->s);
    if (!v || v == &anfi_from_node) continue;
    const char *wrong = is_compound(v) ? wrong_constant(c, v) : NULL;
    if (wrong) FAIL(c, n, ANF_E0221, s->attr[k].name->s, wrong);
    else anfi_attr_check(c->cx, (anfi_opcode)n->op, k, v, loc_of(c, n));
  }
}

static void check_apply(checker *c, const anf_node *n) {
  const anfi_schema *s = anfi_op_schema(c->cx, (anfi_opcode)n->op);
  const anfi_attrs *at = n->u.attrs;
  uint32_t nodes = 0;
  for (uint32_t k = 0; at && k < at->n; k++) nodes += at->at[k] == &anfi_from_node;
  if (at && at->n != s->nattr) {
    FAIL(c, n, ANF_E0218, called(c, n), "are not as many as the op has");
    return;
  }
  if (nodes > n->nin) {
    FAIL(c, n, ANF_E0218, called(c, n), "are given by more nodes than there are inputs");
    return;
  }
  size_t args = n->nin - nodes;
  if (!anfi_op_takes(c->cx, (anfi_opcode)n->op, args))
    FAIL(c, n, ANF_E0202, s->name->s, args, anfi_op_of(n)->in);
  if (at || s->nattr) check_attrs(c, n);
}

/* A call that the op does not take stays one: it is an error where it runs. */
static void check_call(checker *c, const anf_node *n) {
  const anf_node *f = n->in[0].def;
  const anf_graph *g = anfi_value_graph(f);
  const anfi_fn *fn =
      f->kind == ANFI_VALUE && f->u.value->kind == ANF_VALUE_FN ? anfi_value_fn(f->u.value) : NULL;
  anfi_opcode op = anfi_value_op(f);
  if (op != ANF_OP_NONE && !fn->nbound && anfi_op_may_be_applied(c->cx, op, fn->attrs, n->nin - 1u))
    FAIL(c, n, ANF_E0211, called(c, n), "is a CALL of a primitive");
  size_t given = g ? n->nin - 1u + fn->nbound : 0;
  if (g && given != g->params.n) FAIL(c, n, ANF_E0217, g->name->s, g->params.n, given);
}

/* ---- V13: types, where known ---- */

static void fail_type(checker *c, const anf_node *n, const anf_type *t, const char *wrong) {
  c->type_text->len = 0;
  anfi_put_type(c->type_text, c->cx, t);
  FAIL(c, n, ANF_E0222, called(c, n), wrong, c->type_text->text);
}

static bool is_known(const anf_type *t) { return t && t->kind != ANF_TYPE_ANY; }

static void check_item(checker *c, const anf_node *n, const anf_type *t) {
  const anf_value *index = anfi_attr_value(c->cx, ANF_OP_TupleGet, n->u.attrs, 0);
  int64_t i, size = (int64_t)t->n;
  if (t->kind != ANF_TYPE_TUPLE) fail_type(c, n, t, "takes an item of what is no tuple");
  else if (index && anfi_value_is_int(index, &i) && (i >= size || i < -size))
    fail_type(c, n, t, "takes an item that is not there");
}

static void check_types(checker *c, const anf_node *n) {
  const anf_type *t = n->nin ? n->in[0].def->type : NULL;
  if (!is_known(t)) return;
  if (n->kind == ANFI_CALL && t->kind != ANF_TYPE_FN) {
    fail_type(c, n, t, "calls what is no function");
    anfi_hint(c->cx, "arguments are given to a function; items are between brackets: x[i]");
  } else if (anfi_is_op(n, ANF_OP_Switch) && !anfi_is_scalar(t))
    fail_type(c, n, t, "switches on what is no scalar");
  else if (anfi_is_op(n, ANF_OP_TupleGet)) check_item(c, n, t);
}

/* ---- V7, V10, V11: lists of graphs ---- */

static void check_params(checker *c, const anf_graph *g) {
  for (size_t i = 0; i < g->params.n; i++) {
    const anf_node *p = g->params.at[i];
    const char *wrong = NULL;
    if (!is_node_of(c->m, p) || p->kind != ANFI_PARAM) wrong = "is no parameter node";
    else if (p->graph != g) wrong = "belongs to another graph";
    else if (p->u.index != i) wrong = "says that it has another position";
    if (wrong) anfi_fail(c->cx, anfi_nowhere(), ANF_E0219, i, g->name->s, wrong);
  }
}

static void check_listed(checker *c, const anf_node *n) {
  const anf_graph *g = n->graph;
  if (n->u.index >= g->params.n || g->params.at[n->u.index] != n)
    anfi_fail(c->cx, loc_of(c, n), ANF_E0219, (size_t)n->u.index, g->name->s,
              "is not in the graph's list");
}

static void check_effects(checker *c, const anf_graph *g, uint8_t *listed) {
  for (size_t i = 0; i < g->effects.n; i++) {
    const anf_node *n = g->effects.at[i];
    const char *wrong = NULL;
    if (!is_node_of(c->m, n) || !anfi_is_cnode(n) || n->graph != g) {
      anfi_fail(c->cx, anfi_nowhere(), ANF_E0220, g->name->s,
                "lists an effect that is no call of its own");
      continue;
    }
    if (!(n->flags & ANFI_NODE_EFFECT)) wrong = "is in a list of effects, and does not say so";
    else if (listed[n->id]) wrong = "is listed twice as an effect";
    listed[n->id] = 1;
    if (wrong) FAIL(c, n, ANF_E0220, called(c, n), wrong);
  }
}

static void check_result(checker *c, const anf_graph *g, uint32_t *results) {
  const char *wrong = NULL;
  if (!g->result) wrong = "has no result";
  else if (!is_node_of(c->m, g->result)) wrong = "gives a node that is not in the module";
  else if (is_left_behind(g->result)) wrong = "gives a node of a graph that was removed";
  else results[g->result->id]++;
  if (wrong) anfi_fail(c->cx, anfi_nowhere(), ANF_E0216, g->name->s, wrong);
  if (g->self && (!is_node_of(c->m, g->self) || anfi_value_graph(g->self) != g))
    anfi_fail(c->cx, anfi_nowhere(), ANF_E0221, g->name->s, "is not the graph's");
}

static void check_graphs(checker *c) {
  anf_module *m = c->m;
  uint8_t *listed = ANFI_NEW_N(c->scratch, uint8_t, m->nodes.n);
  uint32_t *results = ANFI_NEW_N(c->scratch, uint32_t, m->nodes.n);
  for (size_t i = 0; i < m->graphs.n && anfi_more_errors(c->cx); i++) {
    const anf_graph *g = m->graphs.at[i];
    if (!g) continue;
    check_params(c, g);
    check_effects(c, g, listed);
    check_result(c, g, results);
  }
  for (size_t i = 0; i < m->nodes.n && anfi_more_errors(c->cx); i++) {
    const anf_node *n = m->nodes.at[i];
    if (!n || is_left_behind(n)) continue;
    if (n->kind == ANFI_PARAM) check_listed(c, n);
    if ((n->flags & ANFI_NODE_EFFECT) && !listed[i])
      FAIL(c, n, ANF_E0220, called(c, n), "says that it is an effect, and is in no list");
    const uint64_t *count = anfi_map_find(&m->results, i);
    if ((count ? *count : 0) != results[i] && !anfi_failed(c->cx))
      FAIL(c, n, ANF_E0216, called(c, n),
           "is the result of another number of graphs than the module counts");
  }
}

static void check_work(checker *c, const anf_node *n) {
  uint8_t work = c->m->work[n->id];
  const char *wrong = NULL;
  if (n->kind == ANFI_APPLY && !anfi_is_clean(n, ANFI_WORK_SIMPLIFY) &&
      !(work & ANFI_WORK_SIMPLIFY))
    wrong = "may not be simple, and no pass would look at it";
  if (!anfi_is_clean(n, ANFI_WORK_CSE) && !(work & ANFI_WORK_CSE))
    wrong = "may equal another, and no pass would look at it";
  if (!(work & ANFI_WORK_DCE) && !anfi_is_used(n)) wrong = "is unused, and no pass would find it";
  if (wrong) FAIL(c, n, ANF_E0223, called(c, n), wrong);
}

static void check_nodes(checker *c) {
  for (size_t i = 0; i < c->m->nodes.n && anfi_more_errors(c->cx); i++) {
    const anf_node *n = c->m->nodes.at[i];
    if (!n || is_left_behind(n)) continue;
    if (n->kind == ANFI_VALUE) check_value(c, n);
    if (n->kind == ANFI_APPLY) check_apply(c, n);
    if (n->kind == ANFI_CALL) check_call(c, n);
    if (anfi_is_cnode(n)) check_types(c, n);
    if (anfi_is_cnode(n)) check_work(c, n);
  }
}

/* ---- V5: scopes ---- */

/* Numbers the tree of parents, so that "encloses" is a comparison of two intervals. A graph on a
 * cycle of parents gets no number. */
static void number_tree(checker *c, const anf_analysis *an, uint32_t *in, uint32_t *out) {
  typedef struct {
    uint32_t g;
    size_t next;
  } frame;
  ANFI_VEC(frame) st = {0};
  uint32_t clock = 0;
  for (uint32_t i = 0; i < an->ngraph; i++) {
    if (!c->m->graphs.at[i] || an->graphs[i].parent) continue;
    in[i] = ++clock;
    anfi_push(c->scratch, &st, ((frame){i, 0}));
    while (st.n) {
      frame *top = &st.at[st.n - 1];
      const anfi_graph_info *g = &an->graphs[top->g];
      if (top->next == g->children.n) {
        out[top->g] = ++clock;
        st.n--;
        continue;
      }
      uint32_t k = g->children.at[top->next++]->id;
      in[k] = ++clock;
      anfi_push(c->scratch, &st, ((frame){k, 0}));
    }
  }
}

/* Graphs that run: those that capture nothing, and what they refer to. An unused function in a loop that captures the
 * loop's variable and one from outside of it is no child of either, as nothing in the loop needs the outer one. */
static bool *reached_graphs(checker *c, const anf_analysis *an) {
  bool *reached = ANFI_NEW_N(c->scratch, bool, an->ngraph + 1);
  ANFI_VEC(uint32_t) todo = {0};
  for (uint32_t i = 0; i < an->ngraph; i++) {
    const anf_graph *g = c->m->graphs.at[i];
    reached[i] = g && !(g->flags & ANFI_GRAPH_PRIVATE && an->graphs[i].free.n);
    if (reached[i]) anfi_push(c->scratch, &todo, i);
  }
  while (todo.n) {
    const anfi_graph_info *g = &an->graphs[todo.at[--todo.n]];
    for (size_t k = 0; k < g->callees.n; k++) {
      uint32_t to = g->callees.at[k]->id;
      if (!reached[to]) anfi_push(c->scratch, &todo, to);
      reached[to] = true;
    }
  }
  return reached;
}

static void check_scopes(checker *c, const anf_analysis *an) {
  uint32_t *in = ANFI_NEW_N(c->scratch, uint32_t, an->ngraph),
           *out = ANFI_NEW_N(c->scratch, uint32_t, an->ngraph);
  number_tree(c, an, in, out);
  const bool *reached = reached_graphs(c, an);
  for (size_t i = 0; i < an->ngraph && anfi_more_errors(c->cx); i++) {
    const anf_graph *g = c->m->graphs.at[i];
    for (size_t k = 0; g && reached[i] && k < an->graphs[i].free.n; k++) {
      const anf_node *n = an->graphs[i].free.at[k];
      uint32_t o = n->graph->id;
      if (in[o] && in[i] && o != i && in[o] < in[i] && out[i] < out[o]) continue;
      FAIL(c, n, ANF_E0214, g->name->s, called(c, n), n->graph->name->s);
      break; // one for each graph is enough
    }
  }
}

/* ---- V6: no node needs itself ---- */

enum { NEW, OPEN, DONE };

typedef struct {
  anf_node *node;
  uint32_t input;
  bool effect_done;
  const anfi_graph_info *fn; // the function whose captures are visited, from `capture` on
  size_t capture;
} step;

typedef struct {
  checker *c;
  const anf_analysis *an;
  uint8_t *state;    // of nodes
  uint32_t *before;  // by node id: 1 + id of the effect before it; NULL without effects
  uint32_t *open_in; // by graph id: 1 + the graph in which its captures are being visited
  uint32_t *done_in; // ... were visited
  ANFI_VEC(step) st;
} walk;

/* The next need of top, or NULL. *cycle is set when it needs the captures of a function that are
 * being visited, which wait for top itself. */
static anf_node *next_need(walk *w, const anf_graph *g, step *top, bool *cycle) {
  if (!top->effect_done) {
    top->effect_done = true;
    uint32_t e = w->before ? w->before[top->node->id] : 0;
    if (e) return w->c->m->nodes.at[e - 1];
  }
  for (; top->input < top->node->nin; top->input++) {
    anf_node *def = top->node->in[top->input].def;
    const anf_graph *k = anfi_value_graph(def);
    if (!k && !anfi_is_cnode(def)) continue;
    if (!k) {
      top->input++;
      return def;
    }
    if (!top->fn) {
      if (w->open_in[k->id] == g->id + 1) *cycle = w->an->graphs[k->id].free.n > 0;
      if (w->open_in[k->id] == g->id + 1 || w->done_in[k->id] == g->id + 1) continue;
      w->open_in[k->id] = g->id + 1;
      top->fn = &w->an->graphs[k->id];
      top->capture = 0;
    }
    while (top->capture < top->fn->free.n) {
      anf_node *f = top->fn->free.at[top->capture++];
      if (f->graph == g && anfi_is_cnode(f)) return f;
    }
    top->fn = NULL;
    w->open_in[k->id] = 0;
    w->done_in[k->id] = g->id + 1;
  }
  return NULL;
}

static void enter(walk *w, anf_node *n) {
  w->state[n->id] = OPEN;
  anfi_push(w->c->scratch, &w->st, ((step){.node = n}));
}

/* Walks the operands of n; false if n needs itself. */
static bool walk_from(walk *w, anf_node *n) {
  bool good = true;
  enter(w, n);
  while (w->st.n) {
    step *top = &w->st.at[w->st.n - 1];
    anf_node *at = top->node;
    bool cycle = false;
    anf_node *need = next_need(w, n->graph, top, &cycle);
    if (need && need->graph == n->graph) {
      if (w->state[need->id] == NEW) enter(w, need);
      else cycle |= w->state[need->id] == OPEN;
    }
    if (cycle && good) {
      FAIL(w->c, at, ANF_E0215, called(w->c, at), at->graph->name->s);
      good = false;
    }
    if (need) continue;
    w->state[at->id] = DONE;
    w->st.n--;
  }
  return good;
}

/* Does a greater id than that of all it needs prove that no node needs itself? */
static bool is_ordered(checker *c, const anf_analysis *an) {
  if (!c->ordered) return false;
  for (size_t i = 0; i < an->ngraph; i++) {
    const anf_graph *g = c->m->graphs.at[i];
    for (size_t k = 1; g && k < g->effects.n; k++)
      if (g->effects.at[k - 1]->id >= g->effects.at[k]->id) return false;
  }
  uint32_t *last =
      ANFI_NEW_N(c->scratch, uint32_t, an->ngraph); // 1 + greatest id that a graph captures
  for (size_t i = 0; i < an->ngraph; i++)
    for (size_t k = 0; k < an->graphs[i].free.n; k++)
      if (an->graphs[i].free.at[k]->id >= last[i]) last[i] = an->graphs[i].free.at[k]->id + 1;
  for (size_t i = 0; i < c->makers.n; i++) {
    const anf_node *n = c->makers.at[i];
    for (uint32_t k = 0; k < n->nin; k++) {
      const anf_graph *f = anfi_value_graph(n->in[k].def);
      if (f && last[f->id] > n->id) return false;
    }
  }
  return true;
}

/* Nodes are walked graph by graph, as what is known of captures is good within one graph. */
static void check_cycles(checker *c, const anf_analysis *an) {
  anf_module *m = c->m;
  if (is_ordered(c, an)) return;
  walk w = {.c = c, .an = an, .before = anfi_effect_order(c->m, c->scratch)};
  w.state = ANFI_NEW_N(c->scratch, uint8_t, m->nodes.n);
  w.open_in = ANFI_NEW_N(c->scratch, uint32_t, m->graphs.n);
  w.done_in = ANFI_NEW_N(c->scratch, uint32_t, m->graphs.n);
  for (size_t i = 0; i < an->ngraph && anfi_more_errors(c->cx); i++) {
    const anfi_graph_info *g = &an->graphs[i];
    for (size_t k = 0; k < g->order.n; k++)
      if (w.state[g->order.at[k]->id] == NEW && !walk_from(&w, g->order.at[k])) break;
  }
  for (size_t i = 0; i < m->nodes.n && anfi_more_errors(c->cx); i++) { // nodes that nothing needs
    anf_node *n = m->nodes.at[i];
    if (n && anfi_is_cnode(n) && !is_left_behind(n) && w.state[i] == NEW) (void)walk_from(&w, n);
  }
}

bool anfi_verify(anf_module *m) {
  checker c = {.m = m, .cx = m->cx, .scratch = anfi_scratch(m->cx), .ordered = true};
  anfi_map_init(&c.values, c.scratch);
  c.type_text = ANFI_NEW(c.scratch, anf_text);
  c.type_text->cx = m->cx;
  anfi_defer(m->cx, ANFI_ALWAYS, anfi_free_text, c.type_text);
  check_tables(&c);
  if (anfi_failed(c.cx)) return false;
  for (size_t i = 0; i < m->nodes.n && anfi_more_errors(c.cx); i++) {
    fetch_ahead(m, i);
    if (m->nodes.at[i]) check_edges(&c, m->nodes.at[i]);
  }
  if (anfi_failed(c.cx)) return false;
  check_uses(&c);
  check_graphs(&c);
  check_nodes(&c);
  if (anfi_failed(c.cx)) return false;
  const anf_analysis *an = anfi_analyse(m);
  check_scopes(&c, an);
  check_cycles(&c, an);
  return !anfi_failed(c.cx);
}

anf_status anf_verify(anf_module *m, anf_diag *d) {
  ANFI_NEED(d, m);
  ANFI_ENTRY(m->cx, d);
  if (anfi_is_built(m)) (void)anfi_verify(m);
  return anfi_leave(m->cx);
}
