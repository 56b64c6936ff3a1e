// SPDX-License-Identifier: Apache-2.0
/* Needed values: nodes whose value, not only their type, decides the type of others.
 *   Reshape(x, (n, 4))                   n is needed: the result's shape contains it
 *   t[i] of a tuple                      i is needed
 *   Zeros((f(n),))                       the result of f is needed, whatever gives f, and n
 * Backward from such attributes through integer arithmetic, tuples, parameters and functions: a worklist over
 * nodes, linear. Only needed parameters keep constants in a signature; the others are widened, so f(1) and f(2)
 * share one specialisation.
 *
 * Hard case: a recursion widens even those (infer.c, widen). If a value is needed there all the same, it is
 * demanded and inference starts over: a demanded parameter stays exact, one signature per constant, as a loop
 * over the items of a tuple wants. So does the condition of a recursion that nests closures: it
 * terminates only if its iterations are known. */
#include "optimizer/infer/rules.h"

typedef struct {
  anfi_inference *q;
  uint8_t *mark; // by node
  bool local;    // by what a function does itself, not by what becomes of its result
  ANFI_VEC(anf_node *) todo;
} needs;

/* Of a function, its result is wanted. */
static void want(needs *w, anf_node *n) {
  if (w->mark[n->id] || (w->local && n->kind == ANFI_VALUE)) return;
  w->mark[n->id] = 1;
  if (n->kind == ANFI_VALUE) w->q->need[n->id] = 1; // as the result of a function
  if (n->kind == ANFI_VALUE && !anfi_value_graph(n)) return;
  anfi_push(w->q->arena, &w->todo, n);
}

static void want_inputs(needs *w, const anf_node *n, size_t from) {
  for (size_t i = from; i < n->nin; i++) want(w, n->in[i].def);
}

bool anfi_asks_dims(const anf_node *n) { return anfi_op_of(n)->flags & ANFI_DIMS; }

/* A condition on shapes alone decides which of its ways is there: `x.ndim == 2`. Such conditions are
 * short; `budget` bounds the nodes visited. */
static bool on_dims(const anf_node *n, int *budget) {
  if (n->kind == ANFI_VALUE) return true;
  if (n->kind != ANFI_APPLY || --*budget < 0) return false;
  if (anfi_asks_dims(n) || n->op == ANF_OP_GetField) return true;
  for (size_t i = 0; i < n->nin; i++)
    if (!on_dims(n->in[i].def, budget)) return false;
  return n->nin > 0;
}

static void seed(needs *w, anf_node *n) {
  if (n->kind != ANFI_APPLY) return;
  if (n->u.attrs) want_inputs(w, n, anfi_arg_count(n));
  if (n->op == ANF_OP_GetItem) want_inputs(w, n, 1);
  int budget = 16;
  if (n->op == ANF_OP_Switch && on_dims(n->in[0].def, &budget)) want(w, n->in[0].def);
}

/* A function value whose argument `at` is needed. */
typedef struct {
  const anf_node *f;
  size_t at;
} wanting;

typedef ANFI_VEC(wanting) wantings;

/* Argument i of the use, or what tells it: transforms that are applied at once take tuples or the arguments. */
static void want_argument_of(needs *w, wantings *todo, const anfi_use *u, size_t i) {
  anf_node *n = u->user;
  if (u != &n->in[0]) return;
  bool op = n->kind == ANFI_APPLY, given = i + 1 < n->nin;
  bool partial = op && n->op == ANF_OP_Partial,
       makes = op && anfi_op_makes_function((anfi_opcode)n->op);
  bool tuples = op && (n->op == ANF_OP_Jvp || n->op == ANF_OP_Hvp);
  if (n->kind == ANFI_CALL || (op && anfi_op_transforms_now((anfi_opcode)n->op) && !tuples) ||
      partial) {
    if (given) want(w, n->in[i + 1].def);
    else if (partial) anfi_push(w->q->arena, todo, ((wanting){n, i - (n->nin - 1)}));
  }
  if (tuples) want(w, n->in[1].def);
  if (makes) anfi_push(w->q->arena, todo, ((wanting){n, i}));
}

/* A needed parameter makes the argument needed at every call by name, of derivatives and batches as well:
 *   def f(x, n) { Sum(Zeros((n,)) + x) };  def g(x, n) { grad(f)(x, n) }        n of g is needed */
static void want_arguments(needs *w, const anf_node *param) {
  wantings todo = {0};
  if (param->graph->self)
    anfi_push(w->q->arena, &todo, ((wanting){param->graph->self, param->u.index}));
  while (todo.n) {
    wanting x = todo.at[--todo.n];
    for (const anfi_use *u = x.f->uses; u; u = u->next) want_argument_of(w, &todo, u, x.at);
  }
}

/* The result of the function, and all arguments if nothing says here which of its parameters are needed. */
static void want_call(needs *w, const anf_node *call) {
  const anf_node *f = call->in[0].def;
  want_inputs(w, call, anfi_value_graph(f) && !w->local ? call->nin : 1);
  want(w, call->in[0].def);
}

static anf_node *next(needs *w) {
  anf_node *n = w->todo.at[--w->todo.n];
  if (n->kind == ANFI_PARAM) want_arguments(w, n);
  else if (n->kind == ANFI_CALL) want_call(w, n);
  else if (anfi_is_op(n, ANF_OP_Partial) && !w->local) want(w, n->in[0].def);
  else if (n->kind == ANFI_VALUE) want(w, anfi_value_graph(n)->result);
  else if (!anfi_asks_dims(n)) want_inputs(w, n, 0);
  return n;
}

/* Conditions on needed parameters end a recursion, so they are to be known too. */
static void want_conditions(needs *w, const anf_graph *g) {
  const anfi_graph_info *gi = &w->q->an->graphs[g->id];
  for (size_t i = 0; i < gi->order.n; i++)
    if (anfi_is_op(gi->order.at[i], ANF_OP_Switch)) want(w, gi->order.at[i]->in[0].def);
}

static void find(needs *w) {
  const anfi_inference *q = w->q;
  for (size_t i = 0; i < q->m->graphs.n; i++) {
    const anfi_graph_info *gi = &q->an->graphs[i];
    for (size_t k = 0; q->m->graphs.at[i] && k < gi->order.n; k++) seed(w, gi->order.at[k]);
    if (q->m->graphs.at[i] && q->m->graphs.at[i]->flags & ANFI_GRAPH_STATIC)
      want_conditions(w, q->m->graphs.at[i]);
  }
  uint8_t *seen = ANFI_NEW_N(q->arena, uint8_t, q->m->graphs.n);
  while (w->todo.n) {
    const anf_node *n = next(w);
    if (n->kind != ANFI_PARAM || !q->an->graphs[n->graph->id].recursive) continue;
    if (!seen[n->graph->id]) want_conditions(w, n->graph);
    seen[n->graph->id] = 1;
  }
}

void anfi_find_needs(anfi_inference *q) {
  needs w = {.q = q, .mark = q->need};
  find(&w);
}

const uint8_t *anfi_find_own_needs(anfi_inference *q) {
  needs w = {.q = q, .mark = ANFI_NEW_N(q->arena, uint8_t, q->m->nodes.n), .local = true};
  find(&w);
  return w.mark;
}

/* Makes the sources of the wanted nodes exact; have demands in recursions grown? */
static bool make_exact(needs *w) {
  anfi_inference *q = w->q;
  while (w->todo.n) {
    const anf_node *p = next(w);
    q->need[p->id] = 1;
    if (p->kind != ANFI_PARAM || !q->an->graphs[p->graph->id].recursive) continue;
    q->exact_graph[p->graph->id] = 1;
    q->again = true;
  }
  return q->again;
}

bool anfi_demand(anfi_inference *q, anfi_demanded d, size_t from) {
  needs w = {.q = q, .mark = q->exact};
  q->asked = d;
  if (d.node->kind == ANFI_APPLY) want_inputs(&w, d.node, from);
  return !make_exact(&w) && anfi_fail(q->cx, anfi_node_loc(d.node), ANF_E0520, d.attr, d.op);
}

bool anfi_demand_conditions(anfi_inference *q) {
  needs w = {.q = q, .mark = q->exact};
  if (q->conditions) return false;
  q->conditions = true;
  for (size_t i = 0; i < q->m->graphs.n; i++)
    if (q->m->graphs.at[i] && q->exact_graph[i]) want_conditions(&w, q->m->graphs.at[i]);
  bool grown = w.todo.n > 0;
  make_exact(&w);
  return q->again |= grown;
}

bool anfi_is_counted(const anfi_inference *q, const anf_graph *g) {
  uint32_t scc = q->an->graphs[g->id].scc;
  for (size_t i = 0; i < q->specs.n; i++) {
    const anfi_spec *s = q->specs.at[i];
    const anfi_graph_info *gi = &q->an->graphs[s->graph->id];
    for (size_t k = 0; gi->scc == scc && k < gi->order.n; k++) {
      if (!anfi_is_op(gi->order.at[k], ANF_OP_Switch)) continue;
      const anf_node *c = gi->order.at[k]->in[0].def;
      if (c->kind == ANFI_APPLY && s->node[q->local[c->id]] && s->node[q->local[c->id]]->value)
        return true;
    }
  }
  return false;
}

bool anfi_wish(anfi_inference *q, const anf_node *at) {
  needs w = {.q = q, .mark = q->exact};
  if (q->wishless || !anfi_is_op(at, ANF_OP_GetItem) || !anfi_is_counted(q, at->graph))
    return false;
  want_inputs(&w, at, 1);
  bool grown = make_exact(&w);
  q->wished |= grown;
  return grown;
}

bool anfi_demand_rounds(anfi_inference *q, const anf_graph *g, anfi_demanded d) {
  needs w = {.q = q, .mark = q->exact};
  uint32_t scc = q->an->graphs[g->id].scc;
  q->asked = d;
  for (size_t i = 0; i < q->m->graphs.n; i++) {
    if (!q->m->graphs.at[i] || q->an->graphs[i].scc != scc) continue;
    want_conditions(&w, q->m->graphs.at[i]);
    q->exact_graph[i] = 1;
  }
  return make_exact(&w);
}

bool anfi_demand_by_round(anfi_inference *q, const anf_node *at, const anfi_abs *a,
                          const anfi_abs *b) {
  const anf_graph *g = at->graph;
  if (!g || !q->an->graphs[g->id].recursive) return false;
  if (anfi_demand_rounds(q, g, (anfi_demanded){at, NULL, g->name->s, NULL})) return true;
  if (anfi_demand_conditions(q)) return true;
  if (a->kind != ANFI_ABS_TUPLE || b->kind != ANFI_ABS_TUPLE || a->n == b->n) return false;
  anfi_fail(q->cx, anfi_node_loc(at), ANF_E0724, g->name->s);
  return anfi_infer_trace(q), true;
}
