// SPDX-License-Identifier: Apache-2.0
/* An ONNX model as a module: def main(inputs..) { .. }, which gives the output, or the tuple of them.
 *   node {op_type: "Relu", input: "x", output: "y"}   ->   y = Relu(x), by the template Relu of onnx.anf
 * The module begins as the templates, of which those that became calls stay. Nodes of the body of a function of the
 * file are built where it is called. A subgraph is a graph whose free variables are the values around it; an If whose
 * condition is known is the nodes of its branch. */
#include "frontend/onnx/onnx.h"

enum { MAX_DEPTH = 64, MAX_NODES = 1 << 22, NEWEST_OPSET = 28 };

static anfi_loc loc_of(const anfi_ox_build *b) { return (anfi_loc){b->model->file, 0, 0}; }

static bool fail_node(anfi_ox_build *b, const anfi_ox_node *n, const char *what, const char *name) {
  return anfi_fail(b->t->cx, loc_of(b), ANF_E1175, n->name->s, n->op->s, what, name);
}

/* ---- values by name ---- */

static const anfi_traced *find(const anfi_ox_place *p, const anfi_str *name) {
  for (; p; p = p->outer) {
    const uint64_t *at = anfi_map_find(&p->values, anfi_key(name));
    if (at) return (const anfi_traced *)(uintptr_t)*at;
  }
  return NULL;
}

static void bind(anfi_ox_place *p, const anfi_str *name, const anfi_traced *x) {
  if (name->len) *anfi_map_at(&p->values, anfi_key(name)) = anfi_key(x);
}

static void bind_narrow(anfi_ox_place *p, const anfi_str *name, int64_t type) {
  anf_dtype d;
  if (anfi_ox_narrow_dtype(type, &d)) *anfi_map_at(&p->narrow, anfi_key(name)) = (uint64_t)type;
}

static bool inputs(anfi_ox_place *p, const anfi_ox_node *n, const anfi_traced ***out) {
  anfi_trace *t = p->b->t;
  *out = ANFI_NEW_N(t->arena, const anfi_traced *, n->in.n + 1);
  for (size_t i = 0; i < n->in.n; i++) {
    (*out)[i] = n->in.at[i]->len ? find(p, n->in.at[i]) : anfi_traced_none(t);
    if (!(*out)[i]) return fail_node(p->b, n, "uses what is not there:", n->in.at[i]->s);
  }
  return true;
}

/* ---- declared types ---- */

static const anfi_ox_value *declared(const anfi_ox_values *all, const anfi_str *name) {
  for (size_t i = 0; all && i < all->n; i++)
    if (all->at[i].name == name) return &all->at[i];
  return NULL;
}

/* The value as one of this type: a call of the identity with a typed parameter, which is checked like every call. */
static const anfi_traced *typed(anfi_ox_place *p, const anf_type *type, anf_node *x) {
  anfi_trace *t = p->b->t;
  anf_graph *g = anfi_graph_new(p->b->m, anfi_intern_z(&p->b->m->strings, "declared"));
  g->flags |= ANFI_GRAPH_PRIVATE;
  anfi_set_result(g, anfi_param(g, anfi_intern_z(&p->b->m->strings, "x"), type));
  anf_node *in[2] = {anfi_graph_value(g), x};
  anf_node *c = anfi_call(p->to, 2, in);
  c->debug = t->debug;
  return anfi_traced_node(t, c, type);
}

/* A value of no known type as one of the type that the file declares. */
static const anfi_traced *as_declared(anfi_ox_place *p, const anfi_str *name,
                                      const anfi_traced *x) {
  anfi_trace *t = p->b->t;
  if (x->kind != ANFI_TRACED_DATA || x->type || !x->node) return x;
  const anfi_ox_value *v = declared(p->info, name);
  const anf_type *type = v ? anfi_ox_type(p->b->model, v) : NULL;
  if (!type) return anfi_failed(t->cx) ? NULL : x;
  return typed(p, type, x->node);
}

/* ---- nodes ---- */

static bool nodes(anfi_ox_place *p, const anfi_ox_nodes *all);

static void place_init(anfi_ox_place *p) {
  anfi_map_init(&p->values, p->b->t->arena);
  anfi_map_init(&p->narrow, p->b->t->arena);
}

static const anfi_ox_function *function_of(const anfi_ox_model *m, const anfi_ox_node *n) {
  for (size_t i = 0; i < m->functions.n; i++) {
    const anfi_ox_function *f = m->functions.at[i];
    if (f->name == n->op && f->domain == n->domain && f->overload == n->overload) return f;
  }
  return NULL;
}

/* The attributes of the call, with those that refer to the function around it replaced by what they refer to. */
static const anfi_ox_attrs *given_to(const anfi_ox_place *p, const anfi_ox_node *n) {
  anfi_arena *a = p->b->t->arena;
  anfi_ox_attrs *out = ANFI_NEW(a, anfi_ox_attrs);
  for (size_t i = 0; i < n->attrs.n; i++) {
    const anfi_str *name = n->attrs.at[i]->name;
    const anfi_ox_attr *from = anfi_ox_attr_of(p, n, name->s);
    if (!from) continue;
    anfi_ox_attr *own = ANFI_NEW(a, anfi_ox_attr);
    *own = *from;
    own->name = name;
    anfi_push(a, out, own);
  }
  return out;
}

static bool function_call(anfi_ox_place *p, const anfi_ox_node *n, const anfi_ox_function *f,
                          const anfi_traced *const *in) {
  anfi_ox_place body = {.b = p->b,
                        .to = p->to,
                        .given = given_to(p, n),
                        .defaults = &f->defaults,
                        .opsets = f->opsets.n ? &f->opsets : p->opsets,
                        .turns = p->turns,
                        .depth = p->depth + 1};
  if (body.depth > MAX_DEPTH)
    return fail_node(p->b, n, "calls functions that nest too deeply:", f->name->s);
  if (n->in.n > f->in.n || n->out.n > f->out.n)
    return fail_node(p->b, n, "has more inputs or outputs than the function", f->name->s);
  place_init(&body);
  for (size_t i = 0; i < f->in.n; i++) {
    bind(&body, f->in.at[i], i < n->in.n ? in[i] : anfi_traced_none(p->b->t));
    if (i < n->in.n) bind_narrow(&body, f->in.at[i], anfi_ox_narrow(p, n->in.at[i]));
  }
  if (!nodes(&body, &f->nodes)) return false;
  for (size_t i = 0; i < n->out.n; i++) {
    const anfi_traced *x = find(&body, f->out.at[i]);
    if (!x) return fail_node(p->b, n, "calls a function that does not give", f->out.at[i]->s);
    bind(p, n->out.at[i], x);
    bind_narrow(p, n->out.at[i], anfi_ox_narrow(&body, f->out.at[i]));
  }
  return true;
}

/* Initializers, each made once however many subgraphs use it. */
static bool initializers(anfi_ox_place *p, const anfi_ox_graph *g) {
  for (size_t i = 0; i < g->inits.n; i++) {
    const anfi_ox_tensor *t = g->inits.at[i];
    if (anfi_map_find(&p->values, anfi_key(t->name))) continue; // a parameter
    anf_value *v = anfi_ox_tensor_value(p->b->model, t);
    if (!v) return false;
    bind(p, t->name, anfi_traced_value(p->b->t, v));
    bind_narrow(p, t->name, t->data_type);
  }
  return true;
}

static bool graph_body(anfi_ox_place *p, const anfi_ox_graph *g) {
  p->info = &g->info;
  return initializers(p, g) && nodes(p, &g->nodes);
}

/* Does x, whose type may not be known yet, have the element type that the file declares? */
static bool has_declared_type(const anfi_ox_place *p, const anfi_ox_value *v,
                              const anfi_traced *x) {
  const anf_type *type = x->kind == ANFI_TRACED_DATA ? anfi_traced_type(p->b->t, x) : NULL;
  if (!type || type->kind != ANF_TYPE_TENSOR || anfi_dtype_is_weak((anf_dtype)type->dtype))
    return true;
  if (v->elem_type > OX_BFLOAT16) return true; // stored as bytes
  const anf_type *said = anfi_ox_type(p->b->model, v);
  return said ? said->dtype == type->dtype : !anfi_failed(p->b->t->cx);
}

static const anfi_traced *output(const anfi_ox_place *p, const anfi_ox_graph *g, size_t i) {
  const anfi_ox_value *v = &g->out.at[i];
  const anfi_traced *x = find(p, v->name);
  const char *why = !x                           ? "gives what is not there:"
                    : has_declared_type(p, v, x) ? NULL
                                                 : "gives in another element type than it says:";
  if (why) anfi_fail(p->b->t->cx, loc_of(p->b), ANF_E1175, g->name->s, "graph", why, v->name->s);
  return why ? NULL : x;
}

/* The results of one branch must have the element types of the other's. */
static bool same_branches(const anfi_ox_place *p, const anfi_ox_node *n) {
  const anfi_ox_attr *a = anfi_ox_attr_of(p, n, "then_branch");
  const anfi_ox_attr *b = anfi_ox_attr_of(p, n, "else_branch");
  if (!a || !b || !a->graph || !b->graph) return fail_node(p->b, n, "lacks", "a branch");
  if (a->graph->out.n != b->graph->out.n)
    return fail_node(p->b, n, "has branches that give different numbers of", "results");
  for (size_t i = 0; i < a->graph->out.n; i++) {
    int64_t x = a->graph->out.at[i].elem_type, y = b->graph->out.at[i].elem_type;
    if (x && y && x != y)
      return fail_node(p->b, n, "has a branch that gives another element type than",
                       a->graph->out.at[i].name->s);
  }
  return true;
}

/* The branch of an If whose condition is known, in place. */
static bool known_branch(anfi_ox_place *p, const anfi_ox_node *n, bool cond) {
  const anfi_ox_attr *a = anfi_ox_attr_of(p, n, cond ? "then_branch" : "else_branch");
  anfi_ox_place body = *p;
  if (!a || !a->graph || a->graph->out.n < n->out.n) return fail_node(p->b, n, "lacks", "a branch");
  body.outer = p;
  body.depth++;
  place_init(&body);
  if (!graph_body(&body, a->graph)) return false;
  for (size_t i = 0; i < n->out.n; i++) {
    const anfi_traced *x = output(&body, a->graph, i);
    if (!x) return false;
    bind(p, n->out.at[i], x);
    bind_narrow(p, n->out.at[i], anfi_ox_narrow(&body, a->graph->out.at[i].name));
  }
  return true;
}

/* Every output has a name of its own. */
static bool new_names(const anfi_ox_place *p, const anfi_ox_node *n) {
  for (size_t i = 0; i < n->out.n; i++) {
    const anfi_str *name = n->out.at[i];
    bool again = name->len && anfi_map_find(&p->values, anfi_key(name));
    for (size_t k = 0; name->len && k < i; k++) again |= n->out.at[k] == name;
    if (again) return fail_node(p->b, n, "gives a second time", name->s);
  }
  return true;
}

static bool operator_node(anfi_ox_place *p, const anfi_ox_node *n, const anfi_traced **in) {
  anfi_trace *t = p->b->t;
  const anfi_traced **out = ANFI_NEW_N(t->arena, const anfi_traced *, n->out.n + 1);
  bool choice = strcmp(n->op->s, "If") == 0 && n->in.n;
  if (choice && !same_branches(p, n)) return false;
  anf_value *cond = choice ? anfi_traced_known(t, in[0]) : NULL;
  if (cond && cond->kind == ANF_VALUE_TENSOR && cond->n == 1)
    return known_branch(p, n, anfi_get_i64(cond, 0) != 0);
  if (!anfi_ox_operator(p, n, in, out)) return false;
  for (size_t i = 0; i < n->out.n; i++) {
    if (!out[i]) return fail_node(p->b, n, "does not give its output", n->out.at[i]->s);
    const anfi_traced *x = as_declared(p, n->out.at[i], out[i]);
    if (!x) return false;
    bind(p, n->out.at[i], x);
    bind_narrow(p, n->out.at[i], anfi_ox_narrow_output(p, n, i));
  }
  return true;
}

static bool one_node(anfi_ox_place *p, const anfi_ox_node *n) {
  anfi_ox_build *b = p->b;
  const anfi_str *name = n->out.n && n->out.at[0]->len ? n->out.at[0] : n->name;
  const anfi_traced **in;
  if (!b->nodes_left--)
    return fail_node(b, n, "is one too many:", "functions call functions without end");
  b->t->to = p->to;
  b->t->loc = loc_of(b);
  b->t->debug =
      anfi_debug_new(b->m, (anfi_debug){.scope = anfi_intern(&b->m->strings, name->s, name->len)});
  if (!inputs(p, n, &in) || !new_names(p, n)) return false;
  const anfi_ox_function *f = function_of(b->model, n);
  if (f ? function_call(p, n, f, in) : operator_node(p, n, in)) return true;
  anfi_note(b->t->cx, loc_of(b), "in the node %s, %s", name->s, n->op->s);
  return false;
}

static bool nodes(anfi_ox_place *p, const anfi_ox_nodes *all) {
  anfi_ox_nodes sorted = anfi_ox_sorted(p->b->t->arena, all);
  for (size_t i = 0; i < sorted.n; i++)
    if (!one_node(p, sorted.at[i])) return false;
  return true;
}

/* ---- subgraphs ---- */

static const anfi_traced *parameter(anfi_ox_place *p, const anfi_ox_value *v) {
  const anf_type *type = anfi_ox_type(p->b->model, v);
  if (!type && anfi_failed(p->b->t->cx)) return NULL;
  const anfi_str *name = anfi_intern(&p->b->m->strings, v->name->s, v->name->len);
  return anfi_traced_node(p->b->t, anfi_param(p->to, name, type), type);
}

/* A subgraph takes its inputs as one tuple, for templates that pass on any number of them. */
static bool subgraph_inputs(anfi_ox_place *p, const anfi_ox_graph *g) {
  anfi_trace *t = p->b->t;
  anf_node *all = anfi_param(p->to, anfi_intern_z(&p->b->m->strings, "inputs"), NULL);
  const anfi_traced *whole = anfi_traced_node(t, all, NULL);
  t->to = p->to;
  for (size_t i = 0; i < g->in.n; i++) {
    anf_value *at[1] = {anfi_trace_hold(t, anfi_value_new_i64(t->cx, ANF_INT, (int64_t)i))};
    const anfi_traced *x = anfi_trace_op(t, ANF_OP_TupleGet, 1, &whole, at);
    const anf_type *type = anfi_ox_type(p->b->model, &g->in.at[i]);
    if (!x || anfi_failed(t->cx)) return false;
    bind(p, g->in.at[i].name, type ? typed(p, type, x->node) : x);
    bind_narrow(p, g->in.at[i].name, g->in.at[i].elem_type);
  }
  return true;
}

/* The loops around the subgraph: those around its node, and a node that runs it again and again. */
static const anfi_ox_turn *turns_in(const anfi_ox_place *body, const anfi_ox_node *n,
                                    const anfi_ox_graph *g) {
  bool counts = strcmp(n->op->s, "Loop") == 0 && g->in.n;
  if (!counts && strcmp(n->op->s, "Scan") != 0 && strcmp(n->op->s, "SequenceMap") != 0)
    return body->turns;
  anfi_ox_turn *t = ANFI_NEW(body->b->t->arena, anfi_ox_turn);
  *t = (anfi_ox_turn){counts ? find(body, g->in.at[0].name) : NULL, body->turns};
  return t;
}

const anfi_traced *anfi_ox_subgraph(anfi_ox_place *outer, const anfi_ox_node *n,
                                    const anfi_ox_graph *g) {
  anfi_ox_build *b = outer->b;
  const char *name = g->name->len ? g->name->s : "subgraph";
  anfi_ox_place p = *outer;
  uint32_t debug = b->t->debug;
  const anfi_traced **out = ANFI_NEW_N(b->t->arena, const anfi_traced *, g->out.n + 1);
  if (++p.depth > MAX_DEPTH)
    return (void)anfi_fail(b->t->cx, loc_of(b), ANF_E1151, "subgraphs that nest so deeply"), NULL;
  p.to = anfi_graph_new(b->m, anfi_intern_z(&b->m->strings, name));
  p.to->flags |= ANFI_GRAPH_PRIVATE;
  p.outer = outer;
  place_init(&p);
  if (!subgraph_inputs(&p, g)) return NULL;
  p.turns = turns_in(&p, n, g);
  if (!graph_body(&p, g)) return NULL;
  for (size_t i = 0; i < g->out.n; i++)
    if (!(out[i] = output(&p, g, i))) return NULL;
  b->t->to = p.to;
  b->t->debug = debug;
  const anfi_traced *all = anfi_traced_tuple(b->t, g->out.n, out);
  anf_node *result = all ? anfi_traced_to_node(b->t, all) : NULL;
  if (!result) return NULL;
  anfi_set_result(p.to, result);
  b->t->to = outer->to;
  return anfi_traced_node(b->t, anfi_graph_value(p.to), NULL);
}

/* ---- the module ---- */

/* Every node of the file: of graphs, of subgraphs in attributes, of functions. */
typedef ANFI_VEC(const anfi_ox_nodes *) node_lists;

static void add_subgraphs(anfi_arena *a, node_lists *todo, const anfi_ox_nodes *list) {
  for (size_t i = 0; i < list->n; i++)
    for (size_t k = 0; k < list->at[i]->attrs.n; k++) {
      const anfi_ox_graph *g = list->at[i]->attrs.at[k]->graph;
      if (g) anfi_push(a, todo, &g->nodes);
    }
}

/* Reports all unknown operators at once, each with the number of its nodes. */
static bool check_operators(anfi_ox_build *b) {
  anfi_arena *a = b->t->arena;
  node_lists todo = {0};
  ANFI_VEC(const anfi_ox_node *) unknown = {0};
  anfi_map count;
  anfi_map_init(&count, a);
  anfi_push(a, &todo, &b->model->graph->nodes);
  for (size_t i = 0; i < b->model->functions.n; i++)
    anfi_push(a, &todo, &b->model->functions.at[i]->nodes);
  for (size_t i = 0; i < todo.n; i++) {
    const anfi_ox_nodes *list = todo.at[i];
    add_subgraphs(a, &todo, list);
    for (size_t k = 0; k < list->n; k++) {
      const anfi_ox_node *n = list->at[k];
      if (anfi_ox_knows(b, n) || function_of(b->model, n)) continue;
      uint64_t *c = anfi_map_at(&count, anfi_hash_mix(anfi_key(n->op), anfi_key(n->domain)));
      if (!(*c)++) anfi_push(a, &unknown, n);
    }
  }
  for (size_t i = 0; i < unknown.n; i++) {
    const anfi_ox_node *n = unknown.at[i];
    uint64_t *c = anfi_map_find(&count, anfi_hash_mix(anfi_key(n->op), anfi_key(n->domain)));
    anfi_fail(b->t->cx, loc_of(b), ANF_E1174, n->op->s, n->domain->len ? n->domain->s : "ai.onnx",
              (size_t)*c);
  }
  return !unknown.n;
}

static bool twice(const anfi_ox_place *p, const anfi_ox_graph *g, const char *what,
                  const anfi_str *name) {
  return anfi_fail(p->b->t->cx, loc_of(p->b), ANF_E1175, g->name->s, "graph",
                   anfi_sprintf(p->b->t->arena, "has twice the %s", what), name->s);
}

/* Does an old file that lists an initializer among the inputs say the same of both? */
static bool same_type(const anfi_ox_tensor *t, const anfi_ox_value *v) {
  bool same = !v->elem_type || v->elem_type == t->data_type;
  if (t->sparse) return same; // its dims are those of the values
  if (v->ranked && v->dims.n != t->dims.n) return false;
  for (size_t i = 0; v->ranked && i < v->dims.n; i++)
    same &= v->dims.at[i].size < 0 || v->dims.at[i].size == t->dims.at[i];
  return same;
}

/* Inputs, but for the initializers that old files list among them. */
static bool main_inputs(anfi_ox_place *p, const anfi_ox_graph *g) {
  anfi_map inits;
  anfi_map_init(&inits, p->b->t->arena);
  for (size_t i = 0; i < g->inits.n; i++) {
    uint64_t *at = anfi_map_at(&inits, anfi_key(g->inits.at[i]->name));
    if (*at) return twice(p, g, "initializer", g->inits.at[i]->name);
    *at = i + 1;
  }
  for (size_t i = 0; i < g->in.n; i++) {
    const uint64_t *init = anfi_map_find(&inits, anfi_key(g->in.at[i].name));
    if (init && !same_type(g->inits.at[*init - 1], &g->in.at[i]))
      return anfi_fail(p->b->t->cx, loc_of(p->b), ANF_E1175, g->name->s, "graph",
                       "has an initializer of another type than the input", g->in.at[i].name->s);
    if (init) continue;
    if (anfi_map_find(&p->values, anfi_key(g->in.at[i].name)))
      return twice(p, g, "input", g->in.at[i].name);
    const anfi_traced *x = parameter(p, &g->in.at[i]);
    if (!x) return false;
    bind(p, g->in.at[i].name, x);
    bind_narrow(p, g->in.at[i].name, g->in.at[i].elem_type);
  }
  return true;
}

/* Weights as parameters after the inputs: tensors of floats, not numbers, which may be sizes or exponents. */
static bool weight_inputs(anfi_ox_place *p, const anfi_ox_graph *g) {
  for (size_t i = 0; i < g->inits.n; i++) {
    const anfi_ox_tensor *w = g->inits.at[i];
    bool real = w->data_type == OX_FLOAT || w->data_type == OX_DOUBLE ||
                w->data_type == OX_FLOAT16 || w->data_type == OX_BFLOAT16;
    if (!real || !w->dims.n) continue;
    anf_value *v = anfi_ox_tensor_value(p->b->model, w);
    if (!v) return false;
    const anf_type *type = anfi_value_type(p->b->t->cx, v);
    anf_value_release(v);
    const anfi_str *name = anfi_intern(&p->b->m->strings, w->name->s, w->name->len);
    bind(p, w->name, anfi_traced_node(p->b->t, anfi_param(p->to, name, type), type));
  }
  return true;
}

static bool main_graph(anfi_ox_build *b, anf_graph *to, bool weights) {
  const anfi_ox_graph *g = b->model->graph;
  anfi_ox_place p = {.b = b, .to = to, .opsets = &b->model->opsets};
  const anfi_traced **out = ANFI_NEW_N(b->t->arena, const anfi_traced *, g->out.n + 1);
  place_init(&p);
  b->t->to = to;
  b->t->loc = loc_of(b);
  if (!main_inputs(&p, g) || (weights && !weight_inputs(&p, g)) || !graph_body(&p, g)) return false;
  for (size_t i = 0; i < g->out.n; i++)
    if (!(out[i] = output(&p, g, i))) return false;
  b->t->to = to;
  const anfi_traced *all = g->out.n == 1 ? out[0] : anfi_traced_tuple(b->t, g->out.n, out);
  anf_node *n = all ? anfi_traced_to_node(b->t, all) : NULL;
  if (n) anfi_set_result(to, n);
  return n != NULL;
}

/* A template that calls a function of a branch is marked as if that had an effect. No operator has one, and calls of the template
 * are not marked: in the order of effects it would come before what it needs. */
static void drop_calls(anf_graph *g) {
  for (size_t i = g->effects.n; i-- > 0;)
    if (g->effects.at[i]->kind == ANFI_CALL) anfi_remove_effect(g->effects.at[i]);
}

/* Templates that no call refers to are gone. */
static void keep_used(anfi_ox_build *b, anf_graph *main, size_t ntemplates) {
  anf_module *m = b->m;
  const anf_analysis *an = anfi_analyse(m);
  bool *used = ANFI_NEW_N(b->t->arena, bool, m->graphs.n + 1);
  ANFI_VEC(anf_graph *) todo = {0};
  used[main->id] = true;
  anfi_push(b->t->arena, &todo, main);
  for (size_t i = 0; i < todo.n; i++) {
    const anfi_graph_info *gi = &an->graphs[todo.at[i]->id];
    for (size_t k = 0; k < gi->callees.n; k++) {
      anf_graph *g = gi->callees.at[k];
      if (!used[g->id]) anfi_push(b->t->arena, &todo, g);
      used[g->id] = true;
    }
  }
  for (size_t i = 0; i < m->graphs.n; i++) {
    anf_graph *g = m->graphs.at[i];
    if (!g) continue;
    if (used[i]) drop_calls(g);
    if (used[i] && i < ntemplates) g->flags |= ANFI_GRAPH_PRIVATE | ANFI_GRAPH_STATIC;
    if (used[i]) continue;
    while (g->effects.n) anfi_remove_effect(g->effects.at[g->effects.n - 1]);
    anfi_graph_remove(g);
  }
  anfi_sweep(m);
}

/* False with E1171 where the version of ONNX's own operators is none that there is. */
static bool check_opsets(anfi_ox_build *b) {
  const anfi_ox_opsets *all = &b->model->opsets;
  for (size_t i = 0; i < all->n; i++) {
    const anfi_str *domain = all->at[i].domain;
    int64_t version = all->at[i].version;
    if (domain->len && strcmp(domain->s, "ai.onnx") != 0) continue;
    if (version >= 1 && version <= NEWEST_OPSET) continue;
    anfi_fail(b->t->cx, loc_of(b), ANF_E1171, "the opset of ai.onnx",
              anfi_sprintf(b->t->arena, "%lld", (long long)version));
    anfi_hint(b->t->cx, "versions 1 to %d are known", NEWEST_OPSET);
    return false;
  }
  return true;
}

extern const unsigned char anfi_templates_onnx[];
extern const size_t anfi_templates_onnx_len;

anf_module *anfi_ox_module(anfi_ox_model *model, bool weights) {
  anfi_ox_build *b = ANFI_NEW(model->arena, anfi_ox_build);
  *b = (anfi_ox_build){.model = model, .nodes_left = MAX_NODES};
  b->t = anfi_trace_new(model->cx, (const char *)anfi_templates_onnx, anfi_templates_onnx_len,
                        "onnx.anf");
  if (!b->t) return NULL;
  b->m = anfi_trace_own(b->t);
  anfi_map_init(&b->drawn, b->t->arena);
  size_t ntemplates = b->m->graphs.n;
  if (!check_opsets(b) || !check_operators(b)) return NULL;
  anf_graph *main = anfi_graph_new(b->m, anfi_intern_z(&b->m->strings, "main"));
  if (!main_graph(b, main, weights) || anfi_failed(model->cx)) return NULL;
  keep_used(b, main, ntemplates);
  return b->m;
}
