// SPDX-License-Identifier: Apache-2.0
/* A function as it is called with certain arguments.
 *   f(g, 2.0) where f(h, x) = h(h(x))     ->    main(x) = g(g(x)), in a copy of f's module
 * A graph of the copy calls f with the function arguments substituted. Captures and bound arguments of these are data
 * and become further parameters. */
#include "interp/applied.h"
#include "optimizer/infer/infer.h"

#include "anfora/opt.h"

enum { MAX_FIXED = 64 }; // values in one argument

bool anfi_may_fix_type(const anf_type *t) {
  if (anfi_is_name(t) || t->kind == ANF_TYPE_NONE) return true;
  if (t->kind == ANF_TYPE_TENSOR) {
    anfi_class c = anfi_dtype_class((anf_dtype)t->dtype);
    return !t->n && c != ANFI_CLASS_FLOAT && c != ANFI_CLASS_COMPLEX && t->dtype != ANF_KEY;
  }
  bool nest = t->kind == ANF_TYPE_TUPLE || t->kind == ANF_TYPE_RECORD;
  for (uint32_t i = 0; nest && i < t->n; i++)
    if (!anfi_may_fix_type(t->items[i])) return false;
  return nest && t->n <= MAX_FIXED;
}

/* A number, or a short list of them, such as a shape or the factors of a resize. */
static bool is_short_list(const anf_type *t) {
  size_t n;
  bool list =
      t->kind == ANF_TYPE_TENSOR && t->n <= 1 && anfi_type_elements(t, &n) && n <= MAX_FIXED;
  return list && t->dtype != ANF_KEY && anfi_dtype_class((anf_dtype)t->dtype) != ANFI_CLASS_COMPLEX;
}

bool anfi_may_fix_needed(const anf_type *t) { return anfi_may_fix_type(t) || is_short_list(t); }

uint64_t anfi_needed_arguments(const anf_graph *g) {
  uint64_t bits = 0;
  const anfi_inference *q = anfi_infer_new(g->module);
  for (size_t i = 0; i < g->params.n && i < 64; i++)
    if (q->need[g->params.at[i]->id]) bits |= UINT64_C(1) << i;
  return bits;
}

typedef struct making {
  anf_ctx *cx;
  anfi_arena *a;
  anf_module *m;
  const anf_analysis *an;
  ANFI_VEC(anf_graph *) root; // of the host's module: the graph, and those of function values
  anf_graph **copy;
  anf_graph *g; // that is made
} making;

static void find_roots(making *k, anf_graph *g, size_t n, const anfi_given *args) {
  ANFI_VEC(const anf_value *) st = {0};
  if (g) anfi_push(k->a, &k->root, g);
  for (size_t i = 0; i < n; i++)
    if (args[i].fn) anfi_push(k->a, &st, (const anf_value *)args[i].fn);
  while (st.n) {
    const anfi_fn *f = anfi_value_fn(st.at[--st.n]);
    if (f->graph) anfi_push(k->a, &k->root, f->graph);
    for (uint32_t i = 0; i < f->ncapture + f->nbound; i++)
      if (f->at[i]->kind == ANF_VALUE_FN) anfi_push(k->a, &st, (const anf_value *)f->at[i]);
  }
}

static bool copy_roots(making *k) {
  k->copy = ANFI_NEW_N(k->a, anf_graph *, k->root.n + 1);
  if (!k->root.n) {
    k->m = anfi_module_new(k->cx);
  } else {
    for (size_t i = 1; i < k->root.n; i++)
      if (k->root.at[i]->module != k->root.at[0]->module)
        return anfi_fail(k->cx, anfi_nowhere(), ANF_E0955, k->root.at[i]->name->s);
    k->an = anfi_analyse(k->root.at[0]->module);
    k->m = anfi_module_copy(k->an, k->root.at, k->root.n, k->copy);
  }
  anfi_undefer(k->cx, k->m); // it was to go on failure
  anfi_defer(k->cx, ANFI_ALWAYS, anfi_free_module, k->m);
  return true;
}

static anf_graph *copy_of(const making *k, const anf_graph *g) {
  size_t i = 0;
  while (k->root.at[i] != g) i++;
  return k->copy[i];
}

/* A function value as a node: Partial of the code and new parameters for the bound values. Captures
 * are leading parameters of the code by now. Recursion is over functions bound by functions. */
static anf_node *function(making *k, anf_value *v) {
  const anfi_fn *f = anfi_value_fn(v);
  size_t n = (size_t)f->ncapture + f->nbound;
  anf_node **in = ANFI_NEW_N(k->a, anf_node *, n + 1);
  in[0] = f->graph ? anfi_graph_value(copy_of(k, f->graph))
                   : anfi_op_value_attrs(k->m, (anfi_opcode)f->op, f->attrs);
  for (size_t i = 0; i < n; i++) {
    anf_value *x = f->at[i];
    in[i + 1] = x->kind == ANF_VALUE_FN ? function(k, x)
                                        : anfi_param(k->g, NULL, anfi_value_type(k->cx, x));
  }
  return n ? anfi_apply(k->g, ANF_OP_Partial, NULL, n + 1, in) : in[0];
}

static anf_node *argument(making *k, const anfi_given *a) {
  anf_value *known = a->fixed ? a->fixed : a->value;
  if (known) return anfi_value(k->m, anf_value_retain(known));
  return a->fn ? function(k, a->fn) : anfi_param(k->g, NULL, a->type);
}

/* May the call print or fail? Then it is run even if its result is known. */
static bool has_effects(const making *k, const anfi_given *f) {
  const anfi_fn *fn = f && f->fn ? anfi_value_fn(f->fn) : NULL;
  if (fn && !fn->graph && (anfi_op[fn->op].flags & ANFI_EFFECT)) return true;
  for (size_t i = 0; i < k->m->graphs.n; i++)
    if (k->m->graphs.at[i] && k->m->graphs.at[i]->effects.n) return true;
  return false;
}

/* entry(data..) = f(args..), once everything is closed. */
static anf_graph *make_entry(making *k, anf_graph *g, size_t n, const anfi_given *args) {
  anf_node **in = ANFI_NEW_N(k->a, anf_node *, n + 2);
  size_t at = g ? 1 : 0;
  k->g = anfi_graph_new(k->m, anfi_intern_z(&k->m->strings, g ? g->name->s : "function"));
  if (g) in[0] = anfi_graph_value(copy_of(k, g));
  for (size_t i = 0; i < n; i++) in[at++] = argument(k, &args[i]);
  anf_node *call = anfi_call(k->g, at, in);
  if (has_effects(k, g ? NULL : args)) anfi_add_effect(k->g, call);
  anfi_set_result(k->g, call);
  return k->g;
}

static bool names_dims(const anf_type *t) {
  bool nest = t->kind == ANF_TYPE_TUPLE || t->kind == ANF_TYPE_RECORD;
  for (uint32_t i = 0; i < t->n; i++)
    if (nest ? names_dims(t->items[i]) : t->kind == ANF_TYPE_TENSOR && t->dims[i] < ANF_DIM_UNKNOWN)
      return true;
  return false;
}

/* The graph itself, its parameters of these types. Dims that declared types name need a call, which gives them
 * their sizes; so does a recursion, which may call it with other types. */
static bool is_plain(anf_graph *g, size_t n, const anfi_given *args) {
  for (size_t i = 0; i < n; i++) {
    if (args[i].fn || args[i].value || args[i].fixed) return false;
    bool same = g && i < g->params.n && g->params.at[i]->type == args[i].type;
    if (g && g->self && g->self->uses && !same) return false;
  }
  return g && !(g->result_type && names_dims(g->result_type));
}

static bool check(anf_ctx *cx, const making *k, const anf_graph *g, size_t n) {
  const anfi_graph_info *gi = &k->an->graphs[g->id];
  if (gi->free.n)
    return anfi_fail(cx, anfi_nowhere(), ANF_E0414, g->name->s, anf_node_name(gi->free.at[0]));
  return n == g->params.n || anfi_fail(cx, anfi_nowhere(), ANF_E0510, g->name->s, g->params.n, n);
}

anf_graph *anfi_applied(anf_ctx *cx, anf_graph *g, size_t n, const anfi_given *args, anfi_arena *a,
                        anfi_origins *origins) {
  making k = {.cx = cx, .a = anfi_scratch(cx)};
  find_roots(&k, g, n, args);
  if (!copy_roots(&k) || (g && !check(cx, &k, g, n))) return NULL;
  *origins = anfi_origins_of(a, k.m, k.an);
  for (size_t i = 0; i < k.m->graphs.n; i++) k.m->graphs.at[i]->flags |= ANFI_GRAPH_PRIVATE;
  if (is_plain(g, n, args)) {
    anf_graph *entry = k.copy[0];
    for (size_t i = 0; i < n; i++) entry->params.at[i]->type = args[i].type;
    entry->flags &= ~(uint32_t)ANFI_GRAPH_PRIVATE;
    return entry;
  }
  for (size_t i = 0; i < k.root.n; i++) k.copy[i]->flags &= ~(uint32_t)ANFI_GRAPH_PRIVATE;
  anf_status st = anf_optimise(k.m, "lift", NULL, NULL); // of what public graphs reach
  for (size_t i = 0; i < k.root.n; i++) k.copy[i]->flags |= ANFI_GRAPH_PRIVATE;
  return st == ANF_OK ? make_entry(&k, g, n, args) : (anfi_fail_as(cx, st), NULL);
}
