// SPDX-License-Identifier: Apache-2.0
/* Calls, choices and loops for the writer.
 *   Switch(c, f, g)(x)              ->  If(c), whose branches are the nodes of f and of g
 *   Loop(step, w.., s.., xs..)      ->  Loop(M, go, s..) with the nodes of step: w.. are values around the loop, x is
 *                                       Gather(xs, i), what the step stacks is a scan output
 * A subgraph sees all names around it. Its results must be made in it, each with a name of its own. */
#include "frontend/onnx/write.h"
#include "ir/loop.h"

const anfi_out *anfi_ox_call_function(anfi_flat *w, const anf_graph *g, const char *name,
                                      const anfi_outs *args) {
  anfi_outs out = {0};
  const anfi_out *result = anfi_flat_fresh(w, anfi_flat_type_of(g->result), NULL);
  if (!result) return NULL;
  anfi_out_add(w, result, &out);
  const char **in = ANFI_NEW_N(w->arena, const char *, args->n + 1);
  for (size_t i = 0; i < args->n; i++) in[i] = args->at[i]->name;
  size_t at = anfi_ox_open(w, name, args->n, in);
  anfi_wire_put_text(w->out, 7, OX_DOMAIN);
  for (size_t i = 0; i < out.n; i++) anfi_wire_put_text(w->out, 2, out.at[i]->name);
  anfi_wire_close(w->out, at);
  return result;
}

/* ---- subgraphs ---- */

typedef struct {
  size_t scope, attr, graph;
} subgraph;

static subgraph open_subgraph(anfi_flat *w, const char *name) {
  subgraph s = {.scope = anfi_ox_own_of(w)->scope};
  s.attr = anfi_wire_open(w->out, 5);
  anfi_wire_put_text(w->out, 1, name);
  anfi_wire_put_varint(w->out, 20, OX_ATTR_GRAPH);
  s.graph = anfi_wire_open(w->out, 6);
  anfi_ox_own_of(w)->scope = ++anfi_ox_own_of(w)->nscope;
  w->depth++;
  return s;
}

static bool made_here(const anfi_flat *w, const char *name) {
  const anfi_str *s = anfi_interned(&w->words, name, strlen(name));
  const uint64_t *at = s ? anfi_map_find(&anfi_ox_own_of(w)->made, anfi_key(s)) : NULL;
  return at && *at == anfi_ox_own_of(w)->scope + 1;
}

static bool put_result(anfi_flat *w, const anfi_out *x, const anf_type *type, anfi_map *taken) {
  const char *name = x->name;
  uint64_t *at = anfi_map_at(taken, anfi_key(anfi_intern_z(&w->words, name)));
  if (*at || !made_here(w, name)) name = anfi_ox_put(w, "Identity", 1, &name);
  else *at = 1;
  return anfi_ox_put_value_info(w, 12, name, type ? type : x->type);
}

static bool close_subgraph(anfi_flat *w, subgraph s, const anfi_outs *results, const char *name) {
  anfi_map taken;
  anfi_map_init(&taken, w->arena);
  for (size_t i = 0; i < results->n; i++)
    if (!put_result(w, results->at[i], NULL, &taken)) return false;
  anfi_wire_put_text(w->out, 2, name);
  anfi_wire_close(w->out, s.graph);
  anfi_wire_close(w->out, s.attr);
  anfi_ox_own_of(w)->scope = s.scope;
  w->depth--;
  return true;
}

/* Outputs of the node that is open: as those of the subgraph, in this scope. */
static const anfi_out *outputs(anfi_flat *w, const anfi_out *like) {
  anfi_outs leaves = {0}, own = {0};
  anfi_out_add(w, like, &leaves);
  for (size_t i = 0; i < leaves.n; i++) {
    const char *name = anfi_ox_new_name(w);
    anfi_wire_put_text(w->out, 2, name);
    anfi_push(w->arena, &own, anfi_out_leaf(w, name, leaves.at[i]->type));
  }
  const anfi_out *const *next = own.at;
  return anfi_out_like(w, like, &next);
}

/* ---- choices ---- */

typedef struct {
  const anf_node *call;
  size_t narg;
  const anfi_out *const *args;
} choice;

static const anfi_out *branch(anfi_flat *w, const choice *c, const char *name, const anf_node *f) {
  anfi_outs leaves = {0};
  subgraph s = open_subgraph(w, name);
  const anfi_out *r = anfi_flat_call(w, c->call, f, c->narg, c->args);
  if (!r) return NULL;
  anfi_out_add(w, r, &leaves);
  return close_subgraph(w, s, &leaves, name) ? r : NULL;
}

static const anfi_out *put_if(anfi_flat *w, const choice *c, const char *cond, const anf_node *f,
                              const anf_node *g) {
  size_t at = anfi_ox_open(w, "If", 1, &cond);
  const anfi_out *a = branch(w, c, "then_branch", f),
                 *b = a ? branch(w, c, "else_branch", g) : NULL;
  if (!b) return NULL;
  if (!anfi_out_same_form(w, a, b))
    return (void)anfi_flat_refuse(w, c->call, "a choice between residuals", "of several forms"),
           NULL;
  const anfi_out *r = outputs(w, a);
  anfi_wire_close(w->out, at);
  return r;
}

const anfi_out *anfi_ox_choice(anfi_flat *w, const anf_node *n, const anf_node *callee, size_t narg,
                               const anfi_out *const *args) {
  const choice c = {.call = n, .narg = narg, .args = args};
  if (!anfi_is_op(callee, ANF_OP_Switch))
    return (void)anfi_flat_refuse(w, n, "a call of", "a function that is data, or one of a list"),
           NULL;
  const anfi_out *cond = anfi_flat_operand(w, callee->in[0].def);
  return cond ? put_if(w, &c, cond->name, callee->in[1].def, callee->in[2].def) : NULL;
}

/* ---- loops ---- */

typedef struct {
  /* the node */
  anfi_loop_op op;
  size_t narg;
  const anfi_out *count, *go, **arg; // arg: w.., s.., xs..
  anfi_outs state;                   // the carried values, before the loop
  /* its body */
  const char *iter;       // in the body: the number of the round ..
  const char *index;      // .. and of the elements of stacks
  const anfi_out *result; // of the step
  const anfi_out *next_rounds;
} loop;

static bool read_loop(anfi_flat *w, loop *l) {
  const anf_node *n = l->op.loop;
  if (!l->op.step) return anfi_flat_refuse(w, n, "a loop of", "a function that is data");
  if (l->op.counted && !(l->count = anfi_flat_operand(w, l->op.n))) return false;
  if (l->op.go && !(l->go = anfi_flat_operand(w, l->op.go))) return false;
  l->narg = l->op.nw + l->op.ns + l->op.nx;
  l->arg = ANFI_NEW_N(w->arena, const anfi_out *, l->narg + 1);
  for (size_t k = 0; k < l->narg; k++)
    if (!(l->arg[k] = anfi_flat_operand(w, n->in[l->op.first_w + k].def))) return false;
  for (size_t k = 0; k < l->op.ns; k++) anfi_out_add(w, l->arg[l->op.nw + k], &l->state);
  return !w->an->graphs[l->op.step->id].recursive ||
         anfi_flat_refuse(w, n, "a loop of", "a recursion");
}

/* Element `index` of each of the stacks. */
static const anfi_out *element(anfi_flat *w, const loop *l, const anfi_out *stack) {
  anfi_outs all = {0}, own = {0};
  anfi_out_add(w, stack, &all);
  for (size_t i = 0; i < all.n; i++) {
    const anf_type *t = all.at[i]->type;
    const char *in[2] = {all.at[i]->name, l->index};
    const anf_type *type =
        t->n ? anfi_type_tensor(w->cx, (anf_dtype)t->dtype, t->n - 1, t->dims + 1) : t;
    anfi_push(w->arena, &own, anfi_out_leaf(w, anfi_ox_put(w, "Gather", 2, in), type));
  }
  const anfi_out *const *next = own.at;
  return anfi_out_like(w, stack, &next);
}

enum { NO_SCOPE = -2 };

/* Inputs of the body: the round, the condition, what is carried. They are made in no scope: ONNX Runtime wants results that
 * a node makes. */
static bool body_inputs(anfi_flat *w, loop *l, const anfi_out **args, const char **cond,
                        const char **before) {
  const anf_type *i64 = anfi_type_scalar(w->cx, ANF_I64),
                 *truth = anfi_type_scalar(w->cx, ANF_BOOL);
  anfi_outs own = {0};
  size_t scope = anfi_ox_own_of(w)->scope;
  anfi_ox_own_of(w)->scope = (size_t)NO_SCOPE;
  l->iter = anfi_ox_new_name(w);
  *cond = anfi_ox_new_name(w);
  *before = l->op.rounds ? anfi_ox_new_name(w) : NULL;
  bool good = anfi_ox_put_value_info(w, 11, l->iter, i64) &&
              anfi_ox_put_value_info(w, 11, *cond, truth) &&
              (!l->op.rounds || anfi_ox_put_value_info(w, 11, *before, i64));
  for (size_t k = 0; good && k < l->op.ns; k++) {
    const anfi_out *s = anfi_flat_fresh(w, l->op.step->params.at[l->op.nw + k]->type, NULL);
    if (!s) return false;
    anfi_out_add(w, s, &own);
    args[l->op.nw + k] = s;
  }
  anfi_ox_own_of(w)->scope = scope;
  for (size_t i = 0; good && i < own.n; i++)
    good = anfi_ox_put_value_info(w, 11, own.at[i]->name, own.at[i]->type);
  return good;
}

static const char *element_index(anfi_flat *w, const loop *l) {
  if (!l->op.nx || !l->op.reverse) return l->iter;
  const char *last[2] = {l->count->name, anfi_ox_int(w, 1)};
  const char *in[2] = {anfi_ox_put(w, "Sub", 2, last), l->iter};
  return anfi_ox_put(w, "Sub", 2, in);
}

/* The subgraph: (round, again, s..) -> (again, s'.., o..). */
static bool put_loop_body(anfi_flat *w, loop *l) {
  const anfi_out **args = ANFI_NEW_N(w->arena, const anfi_out *, l->narg + 1);
  const char *cond, *before;
  anfi_outs leaves = {0};
  const anf_type *i64 = anfi_type_scalar(w->cx, ANF_I64),
                 *truth = anfi_type_scalar(w->cx, ANF_BOOL);
  subgraph s = open_subgraph(w, "body");
  for (size_t k = 0; k < l->op.nw; k++) args[k] = l->arg[k];
  if (!body_inputs(w, l, args, &cond, &before)) return false;
  l->index = element_index(w, l);
  for (size_t k = l->narg - l->op.nx; k < l->narg; k++) args[k] = element(w, l, l->arg[k]);
  const anfi_out *r = anfi_flat_body(w, l->op.step, args);
  if (!r) return false;
  if (r->name || r->n != l->op.ns + l->op.nout + !l->op.counted)
    return anfi_flat_refuse(w, l->op.loop, "a loop whose step", "gives no tuple");
  anfi_push(w->arena, &leaves, l->op.counted ? anfi_out_leaf(w, cond, truth) : r->item[0]);
  if (l->op.rounds) {
    const char *in[2] = {before, anfi_ox_int(w, 1)};
    anfi_push(w->arena, &leaves, anfi_out_leaf(w, anfi_ox_put(w, "Add", 2, in), i64));
  }
  l->result = r;
  for (size_t k = !l->op.counted; k < r->n; k++) anfi_out_add(w, r->item[k], &leaves);
  return close_subgraph(w, s, &leaves, "body");
}

/* Element i of a stack is of round i, also where rounds go backwards. */
static const char *stack_in_order(anfi_flat *w, const loop *l, const char *x) {
  const int64_t first = 0, last = -1, end = INT64_MIN + 1;
  if (!l->op.reverse) return x;
  const char *in[5] = {x, anfi_ox_ints(w, 1, &last), anfi_ox_ints(w, 1, &end),
                       anfi_ox_ints(w, 1, &first), anfi_ox_ints(w, 1, &last)};
  return anfi_ox_put(w, "Slice", 5, in);
}

static const anf_type *stacked(anfi_flat *w, const anf_type *t) {
  int64_t dims[ANF_MAX_RANK + 1] = {-1};
  if (t->n == ANF_MAX_RANK)
    return (void)anfi_flat_refuse(w, NULL, "a stack of tensors of", "the greatest rank"), NULL;
  for (uint32_t i = 0; i < t->n; i++) dims[i + 1] = t->dims[i];
  return anfi_type_tensor(w->cx, (anf_dtype)t->dtype, t->n + 1, dims);
}

/* The outputs of the Loop, then stacks in order. */
static const anfi_out *loop_outputs(anfi_flat *w, loop *l, size_t at) {
  const anfi_out **item = ANFI_NEW_N(w->arena, const anfi_out *, l->result->n + 2);
  size_t n = 0, first = !l->op.counted;
  const anfi_out *rounds = NULL;
  if (l->op.rounds) rounds = outputs(w, anfi_out_leaf(w, "?", anfi_type_scalar(w->cx, ANF_I64)));
  for (size_t k = first; k < l->result->n; k++) item[n++] = outputs(w, l->result->item[k]);
  anfi_wire_close(w->out, at);
  for (size_t k = l->op.ns; k < n; k++) {
    anfi_outs all = {0}, own = {0};
    anfi_out_add(w, item[k], &all);
    for (size_t i = 0; i < all.n; i++) {
      const anf_type *t = stacked(w, all.at[i]->type);
      if (!t) return NULL;
      anfi_push(w->arena, &own, anfi_out_leaf(w, stack_in_order(w, l, all.at[i]->name), t));
    }
    const anfi_out *const *next = own.at;
    item[k] = anfi_out_like(w, item[k], &next);
  }
  if (rounds) item[n++] = rounds;
  return anfi_out_tuple(w, n, item);
}

const anfi_out *anfi_ox_loop(anfi_flat *w, const anf_node *n) {
  loop l = {.op = anfi_loop_parts(n)};
  if (!read_loop(w, &l)) return NULL;
  size_t nin = 0;
  const char **in = ANFI_NEW_N(w->arena, const char *, l.state.n + 3);
  in[nin++] = l.op.counted ? l.count->name : "";
  in[nin++] = l.op.go ? l.go->name : l.op.counted ? "" : anfi_ox_number(w, ANF_BOOL, 1);
  if (l.op.counted && l.count->type->dtype != ANF_I64 && l.count->type->dtype != ANF_INT)
    in[0] = anfi_ox_cast(w, in[0], ANF_I64);
  if (l.op.rounds) in[nin++] = anfi_ox_int(w, 0);
  for (size_t i = 0; i < l.state.n; i++) in[nin++] = l.state.at[i]->name;
  size_t at = anfi_ox_open(w, "Loop", nin, in);
  return put_loop_body(w, &l) ? loop_outputs(w, &l, at) : NULL;
}
