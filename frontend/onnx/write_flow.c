// SPDX-License-Identifier: Apache-2.0
/* Calls, choices and loops for the writer.
 *   Switch(c, f, g)(x)              ->  If(c), whose branches are the nodes of f and of g
 *   Loop(step, w.., s.., xs..)      ->  Loop(M, go, s..) with the nodes of step: w.. are values around the loop, x is
 *                                       Gather(xs, i), what the step stacks is a scan output
 * A subgraph sees all names around it. Its results must be made in it, each with a name of its own. */
#include "frontend/onnx/write.h"

enum { FEW_NODES = 4 };

bool anfi_ox_is_function(const anf_node *n) {
  while (anfi_is_op(n, ANF_OP_Switch) || anfi_is_op(n, ANF_OP_SwitchLayer)) n = n->in[1].def;
  return n->kind == ANFI_VALUE && n->u.value->kind == ANF_VALUE_FN;
}

/* ---- calls ---- */

static bool is_data(const anf_type *t) {
  bool good = t && t->kind != ANF_TYPE_BOX && t->kind != ANF_TYPE_STACK && t->kind != ANF_TYPE_FN;
  bool parts = good && (t->kind == ANF_TYPE_TUPLE || t->kind == ANF_TYPE_RECORD);
  for (uint32_t i = 0; good && parts && i < t->n; i++) good = is_data(t->items[i]);
  return good;
}

/* A function of the model, or nodes in place? Those with one use, small ones, and those that pass residuals. */
static bool is_separate(const anfi_ox_writer *w, const anf_graph *g) {
  size_t uses = 0;
  for (const anfi_use *u = g->self ? g->self->uses : NULL; u && uses < 2; u = u->next) uses++;
  bool data = is_data(g->result->kind == ANFI_VALUE ? g->result->u.value->type : g->result->type);
  for (size_t i = 0; data && i < g->params.n; i++) data = is_data(g->params.at[i]->type);
  bool deep = w->depth >= OX_MOST_NESTED;
  return data && (deep || (uses > 1 && w->an->graphs[g->id].order.n > FEW_NODES));
}

static const char *function_name(anfi_ox_writer *w, const anf_graph *g) {
  uint64_t *at = anfi_map_at(&w->functions, anfi_key(g));
  if (!*at) {
    *at = anfi_key(anfi_sprintf(w->arena, "f%zu", w->todo.n));
    anfi_push(w->arena, &w->todo, g);
  }
  return (const char *)(uintptr_t)*at;
}

static const anfi_ox_out *call_function(anfi_ox_writer *w, const anf_graph *g,
                                        const anfi_ox_out *const *args) {
  anfi_ox_leaves in = {0}, out = {0};
  const anf_type *t = g->result->kind == ANFI_VALUE ? g->result->u.value->type : g->result->type;
  for (size_t i = 0; i < g->params.n; i++) anfi_ox_add_leaves(w, args[i], &in);
  const anfi_ox_out *result = anfi_ox_fresh(w, t, NULL);
  if (!result) return NULL;
  anfi_ox_add_leaves(w, result, &out);
  const char **name = ANFI_NEW_N(w->arena, const char *, in.n + 1);
  for (size_t i = 0; i < in.n; i++) name[i] = in.at[i]->name;
  size_t at = anfi_ox_open(w, function_name(w, g), in.n, name);
  anfi_wire_put_text(w->out, 7, OX_DOMAIN);
  for (size_t i = 0; i < out.n; i++) anfi_wire_put_text(w->out, 2, out.at[i]->name);
  anfi_wire_close(w->out, at);
  return result;
}

static const anfi_ox_out *call_graph(anfi_ox_writer *w, const anf_node *n, const anf_graph *g,
                                     const anfi_ox_out *const *args) {
  if (w->an->graphs[g->id].recursive)
    return (void)anfi_ox_refuse(w, n, "a recursion that is no loop:", g->name->s), NULL;
  if (is_separate(w, g)) return call_function(w, g, args);
  if (w->depth >= 2 * OX_MOST_NESTED)
    return (void)anfi_ox_refuse(w, n, "functions of residuals", "that nest so deeply"), NULL;
  w->depth++;
  const anfi_ox_out *r = anfi_ox_body(w, g, args);
  w->depth--;
  return r;
}

/* ---- subgraphs ---- */

typedef struct {
  size_t scope, attr, graph;
} subgraph;

static subgraph open_subgraph(anfi_ox_writer *w, const char *name) {
  subgraph s = {.scope = w->scope};
  s.attr = anfi_wire_open(w->out, 5);
  anfi_wire_put_text(w->out, 1, name);
  anfi_wire_put_varint(w->out, 20, OX_ATTR_GRAPH);
  s.graph = anfi_wire_open(w->out, 6);
  w->scope = ++w->nscope;
  w->depth++;
  return s;
}

static bool made_here(const anfi_ox_writer *w, const char *name) {
  const anfi_str *s = anfi_interned(&w->words, name, strlen(name));
  const uint64_t *at = s ? anfi_map_find(&w->made, anfi_key(s)) : NULL;
  return at && *at == w->scope + 1;
}

static bool put_result(anfi_ox_writer *w, const anfi_ox_out *x, const anf_type *type,
                       anfi_map *taken) {
  const char *name = x->name;
  uint64_t *at = anfi_map_at(taken, anfi_key(anfi_intern_z(&w->words, name)));
  if (*at || !made_here(w, name)) name = anfi_ox_put(w, "Identity", 1, &name);
  else *at = 1;
  return anfi_ox_put_value_info(w, 12, name, type ? type : x->type);
}

static bool close_subgraph(anfi_ox_writer *w, subgraph s, const anfi_ox_leaves *results,
                           const char *name) {
  anfi_map taken;
  anfi_map_init(&taken, w->arena);
  for (size_t i = 0; i < results->n; i++)
    if (!put_result(w, results->at[i], NULL, &taken)) return false;
  anfi_wire_put_text(w->out, 2, name);
  anfi_wire_close(w->out, s.graph);
  anfi_wire_close(w->out, s.attr);
  w->scope = s.scope;
  w->depth--;
  return true;
}

/* Outputs of the node that is open: as those of the subgraph, in this scope. */
static const anfi_ox_out *outputs(anfi_ox_writer *w, const anfi_ox_out *like) {
  anfi_ox_leaves leaves = {0}, own = {0};
  anfi_ox_add_leaves(w, like, &leaves);
  for (size_t i = 0; i < leaves.n; i++) {
    const char *name = anfi_ox_new_name(w);
    anfi_wire_put_text(w->out, 2, name);
    anfi_push(w->arena, &own, anfi_ox_leaf(w, name, leaves.at[i]->type));
  }
  anfi_ox_out *const *next = (anfi_ox_out *const *)own.at;
  return anfi_ox_like(w, like, &next);
}

/* ---- choices ---- */

typedef struct {
  const anf_node *call;
  size_t narg;
  const anfi_ox_out *const *args;
} choice;

static bool same_form(const anfi_ox_out *a, const anfi_ox_out *b) {
  if (!a->name != !b->name || a->n != b->n) return false;
  if (a->name && !*a->name != !*b->name) return false;
  if (a->name && *a->name && a->type->dtype != b->type->dtype) return false;
  for (size_t i = 0; i < a->n; i++)
    if (!same_form(a->item[i], b->item[i])) return false;
  return true;
}

static const anfi_ox_out *branch(anfi_ox_writer *w, const choice *c, const char *name,
                                 const anf_node *f) {
  anfi_ox_leaves leaves = {0};
  subgraph s = open_subgraph(w, name);
  const anfi_ox_out *r = anfi_ox_call(w, c->call, f, c->narg, c->args);
  if (!r) return NULL;
  anfi_ox_add_leaves(w, r, &leaves);
  return close_subgraph(w, s, &leaves, name) ? r : NULL;
}

static const anfi_ox_out *put_if(anfi_ox_writer *w, const choice *c, const char *cond,
                                 const anf_node *f, const anf_node *g) {
  size_t at = anfi_ox_open(w, "If", 1, &cond);
  const anfi_ox_out *a = branch(w, c, "then_branch", f),
                    *b = a ? branch(w, c, "else_branch", g) : NULL;
  if (!b) return NULL;
  if (!same_form(a, b))
    return (void)anfi_ox_refuse(w, c->call, "a choice between residuals", "of several forms"), NULL;
  const anfi_ox_out *r = outputs(w, a);
  anfi_wire_close(w->out, at);
  return r;
}

const anfi_ox_out *anfi_ox_call(anfi_ox_writer *w, const anf_node *n, const anf_node *callee,
                                size_t narg, const anfi_ox_out *const *args) {
  const anf_graph *g = anfi_value_graph(callee);
  const choice c = {.call = n, .narg = narg, .args = args};
  if (g && g->params.n == narg) return call_graph(w, n, g, args);
  if (!anfi_is_op(callee, ANF_OP_Switch))
    return (void)anfi_ox_refuse(w, n, "a call of", "a function that is data, or one of a list"),
           NULL;
  const anfi_ox_out *cond = anfi_ox_operand(w, callee->in[0].def);
  return cond ? put_if(w, &c, cond->name, callee->in[1].def, callee->in[2].def) : NULL;
}

/* ---- loops ---- */

typedef struct {
  const anf_node *n;
  const anf_graph *step;
  size_t invariant, stacks, outs, carried, narg;
  bool counted, reverse, rounds, guarded;
  const anfi_ox_out *count, *go, **arg; // arg: w.., s.., xs..
  anfi_ox_leaves state;                 // what is carried, before the loop
  const char *iter;                     // in the body: the number of the round ..
  const char *index;                    // .. and of the elements of stacks
  const anfi_ox_out *result;            // of the step
  const anfi_ox_out *next_rounds;
} loop;

static int64_t number(anfi_ox_writer *w, const anf_node *n, uint32_t k) {
  const anf_value *v = anfi_attr_value(w->cx, ANF_OP_Loop, n->u.attrs, k);
  return v ? anfi_get_i64(v, 0) : 0;
}

static bool read_loop(anfi_ox_writer *w, loop *l) {
  const anf_node *n = l->n;
  size_t i = 1, last = anfi_arg_count(n);
  l->invariant = (size_t)number(w, n, ANFI_LOOP_INVARIANT);
  l->stacks = (size_t)number(w, n, ANFI_LOOP_STACKS);
  l->outs = (size_t)number(w, n, ANFI_LOOP_OUTS);
  l->counted = number(w, n, ANFI_LOOP_COUNTED);
  l->reverse = number(w, n, ANFI_LOOP_REVERSE);
  l->rounds = number(w, n, ANFI_LOOP_ROUNDS);
  l->guarded = number(w, n, ANFI_LOOP_GUARDED);
  l->step = anfi_value_graph(n->in[0].def);
  if (!l->step) return anfi_ox_refuse(w, n, "a loop of", "a function that is data");
  if (l->counted && !(l->count = anfi_ox_operand(w, n->in[i++].def))) return false;
  if (l->guarded && !(l->go = anfi_ox_operand(w, n->in[i++].def))) return false;
  l->narg = last - i;
  l->arg = ANFI_NEW_N(w->arena, const anfi_ox_out *, l->narg + 1);
  for (size_t k = 0; k < l->narg; k++)
    if (!(l->arg[k] = anfi_ox_operand(w, n->in[i + k].def))) return false;
  l->carried = l->narg - l->invariant - l->stacks;
  for (size_t k = 0; k < l->carried; k++)
    anfi_ox_add_leaves(w, l->arg[l->invariant + k], &l->state);
  return !w->an->graphs[l->step->id].recursive || anfi_ox_refuse(w, n, "a loop of", "a recursion");
}

/* Element `index` of each of the stacks. */
static const anfi_ox_out *element(anfi_ox_writer *w, const loop *l, const anfi_ox_out *stack) {
  anfi_ox_leaves all = {0}, own = {0};
  anfi_ox_add_leaves(w, stack, &all);
  for (size_t i = 0; i < all.n; i++) {
    const anf_type *t = all.at[i]->type;
    const char *in[2] = {all.at[i]->name, l->index};
    const anf_type *type =
        t->n ? anfi_type_tensor(w->cx, (anf_dtype)t->dtype, t->n - 1, t->dims + 1) : t;
    anfi_push(w->arena, &own, anfi_ox_leaf(w, anfi_ox_put(w, "Gather", 2, in), type));
  }
  anfi_ox_out *const *next = (anfi_ox_out *const *)own.at;
  return anfi_ox_like(w, stack, &next);
}

enum { NO_SCOPE = -2 };

/* Inputs of the body: the round, the condition, what is carried. They are made in no scope: ONNX Runtime wants results that
 * a node makes. */
static bool body_inputs(anfi_ox_writer *w, loop *l, const anfi_ox_out **args, const char **cond,
                        const char **before) {
  const anf_type *i64 = anfi_type_scalar(w->cx, ANF_I64),
                 *truth = anfi_type_scalar(w->cx, ANF_BOOL);
  anfi_ox_leaves own = {0};
  size_t scope = w->scope;
  w->scope = (size_t)NO_SCOPE;
  l->iter = anfi_ox_new_name(w);
  *cond = anfi_ox_new_name(w);
  *before = l->rounds ? anfi_ox_new_name(w) : NULL;
  bool good = anfi_ox_put_value_info(w, 11, l->iter, i64) &&
              anfi_ox_put_value_info(w, 11, *cond, truth) &&
              (!l->rounds || anfi_ox_put_value_info(w, 11, *before, i64));
  for (size_t k = 0; good && k < l->carried; k++) {
    const anfi_ox_out *s = anfi_ox_fresh(w, l->step->params.at[l->invariant + k]->type, NULL);
    if (!s) return false;
    anfi_ox_add_leaves(w, s, &own);
    args[l->invariant + k] = s;
  }
  w->scope = scope;
  for (size_t i = 0; good && i < own.n; i++)
    good = anfi_ox_put_value_info(w, 11, own.at[i]->name, own.at[i]->type);
  return good;
}

static const char *element_index(anfi_ox_writer *w, const loop *l) {
  if (!l->stacks || !l->reverse) return l->iter;
  const char *last[2] = {l->count->name, anfi_ox_int(w, 1)};
  const char *in[2] = {anfi_ox_put(w, "Sub", 2, last), l->iter};
  return anfi_ox_put(w, "Sub", 2, in);
}

/* The subgraph: (round, again, s..) -> (again, s'.., o..). */
static bool put_loop_body(anfi_ox_writer *w, loop *l) {
  const anfi_ox_out **args = ANFI_NEW_N(w->arena, const anfi_ox_out *, l->narg + 1);
  const char *cond, *before;
  anfi_ox_leaves leaves = {0};
  const anf_type *i64 = anfi_type_scalar(w->cx, ANF_I64),
                 *truth = anfi_type_scalar(w->cx, ANF_BOOL);
  subgraph s = open_subgraph(w, "body");
  for (size_t k = 0; k < l->invariant; k++) args[k] = l->arg[k];
  if (!body_inputs(w, l, args, &cond, &before)) return false;
  l->index = element_index(w, l);
  for (size_t k = l->narg - l->stacks; k < l->narg; k++) args[k] = element(w, l, l->arg[k]);
  const anfi_ox_out *r = anfi_ox_body(w, l->step, args);
  if (!r) return false;
  if (r->name || r->n != l->carried + l->outs + !l->counted)
    return anfi_ox_refuse(w, l->n, "a loop whose step", "gives no tuple");
  anfi_push(w->arena, &leaves, l->counted ? anfi_ox_leaf(w, cond, truth) : r->item[0]);
  if (l->rounds) {
    const char *in[2] = {before, anfi_ox_int(w, 1)};
    anfi_push(w->arena, &leaves, anfi_ox_leaf(w, anfi_ox_put(w, "Add", 2, in), i64));
  }
  l->result = r;
  for (size_t k = !l->counted; k < r->n; k++) anfi_ox_add_leaves(w, r->item[k], &leaves);
  return close_subgraph(w, s, &leaves, "body");
}

/* Element i of a stack is of round i, also where rounds go backwards. */
static const char *stack_in_order(anfi_ox_writer *w, const loop *l, const char *x) {
  const int64_t first = 0, last = -1, end = INT64_MIN + 1;
  if (!l->reverse) return x;
  const char *in[5] = {x, anfi_ox_ints(w, 1, &last), anfi_ox_ints(w, 1, &end),
                       anfi_ox_ints(w, 1, &first), anfi_ox_ints(w, 1, &last)};
  return anfi_ox_put(w, "Slice", 5, in);
}

static const anf_type *stacked(anfi_ox_writer *w, const anf_type *t) {
  int64_t dims[ANF_MAX_RANK + 1] = {-1};
  if (t->n == ANF_MAX_RANK)
    return (void)anfi_ox_refuse(w, NULL, "a stack of tensors of", "the greatest rank"), NULL;
  for (uint32_t i = 0; i < t->n; i++) dims[i + 1] = t->dims[i];
  return anfi_type_tensor(w->cx, (anf_dtype)t->dtype, t->n + 1, dims);
}

/* The outputs of the Loop, then stacks in order. */
static const anfi_ox_out *loop_outputs(anfi_ox_writer *w, loop *l, size_t at) {
  const anfi_ox_out **item = ANFI_NEW_N(w->arena, const anfi_ox_out *, l->result->n + 2);
  size_t n = 0, first = !l->counted;
  const anfi_ox_out *rounds = NULL;
  if (l->rounds) rounds = outputs(w, anfi_ox_leaf(w, "?", anfi_type_scalar(w->cx, ANF_I64)));
  for (size_t k = first; k < l->result->n; k++) item[n++] = outputs(w, l->result->item[k]);
  anfi_wire_close(w->out, at);
  for (size_t k = l->carried; k < n; k++) {
    anfi_ox_leaves all = {0}, own = {0};
    anfi_ox_add_leaves(w, item[k], &all);
    for (size_t i = 0; i < all.n; i++) {
      const anf_type *t = stacked(w, all.at[i]->type);
      if (!t) return NULL;
      anfi_push(w->arena, &own, anfi_ox_leaf(w, stack_in_order(w, l, all.at[i]->name), t));
    }
    anfi_ox_out *const *next = (anfi_ox_out *const *)own.at;
    item[k] = anfi_ox_like(w, item[k], &next);
  }
  if (rounds) item[n++] = rounds;
  return anfi_ox_tuple(w, n, item);
}

const anfi_ox_out *anfi_ox_loop(anfi_ox_writer *w, const anf_node *n) {
  loop l = {.n = n};
  if (!read_loop(w, &l)) return NULL;
  size_t nin = 0;
  const char **in = ANFI_NEW_N(w->arena, const char *, l.state.n + 3);
  in[nin++] = l.counted ? l.count->name : "";
  in[nin++] = l.guarded ? l.go->name : l.counted ? "" : anfi_ox_number(w, ANF_BOOL, 1);
  if (l.counted && l.count->type->dtype != ANF_I64 && l.count->type->dtype != ANF_INT)
    in[0] = anfi_ox_cast(w, in[0], ANF_I64);
  if (l.rounds) in[nin++] = anfi_ox_int(w, 0);
  for (size_t i = 0; i < l.state.n; i++) in[nin++] = l.state.at[i]->name;
  size_t at = anfi_ox_open(w, "Loop", nin, in);
  return put_loop_body(w, &l) ? loop_outputs(w, &l, at) : NULL;
}
