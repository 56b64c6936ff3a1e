// SPDX-License-Identifier: Apache-2.0
/* A StableHLO module as a module: a graph for each function, and its ops by flow.c and op.c.
 *   func.func public @main(%a: tensor<3xf32>) -> tensor<3xf32> { .. }    ->    def main(a: f32[3]) { .. }
 * A function with several results gives their tuple. */
#include "frontend/load.h"
#include "frontend/stablehlo/stablehlo.h"

enum { MAX_OPS = 1 << 22 };

anfi_loc anfi_sh_op_loc(const anfi_sh_build *b, const anfi_sh_op *op) {
  return (anfi_loc){b->model->file, op->line, op->col};
}

anf_value *anfi_sh_op_attr(const anfi_sh_op *op, const char *name) {
  for (size_t i = 0; i < op->attrs.n; i++)
    if (strcmp(op->attrs.at[i].name->s, name) == 0) return op->attrs.at[i].value;
  return NULL;
}

const anfi_traced *anfi_sh_refuse(anfi_sh_build *b, const anfi_sh_op *op, const char *what) {
  anfi_fail(b->t->cx, anfi_sh_op_loc(b, op), ANF_E1224, op->name->s, what);
  return NULL;
}

static bool fail_value(anfi_sh_build *b, const anfi_sh_op *op, const anfi_str *name,
                       const char *what) {
  return anfi_fail(b->t->cx, anfi_sh_op_loc(b, op), ANF_E1223,
                   anfi_sprintf(b->t->arena, "%%%s", name->s), what);
}

/* ---- values by name ---- */

typedef struct {
  size_t n;
  const anfi_traced **item;
} values;

static bool bind(anfi_sh_build *b, anfi_sh_scope *s, const anfi_sh_op *op, const anfi_str *name,
                 size_t n, const anfi_traced **item) {
  values *v = ANFI_NEW(b->t->arena, values);
  uint64_t *at = anfi_map_at(&s->values, anfi_key(name));
  if (*at)
    return anfi_fail(b->t->cx, op ? anfi_sh_op_loc(b, op) : b->t->loc, ANF_E1223,
                     anfi_sprintf(b->t->arena, "%%%s", name->s), "is defined twice");
  *v = (values){n, item};
  *at = anfi_key(v);
  return true;
}

static const anfi_traced *find(anfi_sh_build *b, const anfi_sh_scope *s, const anfi_sh_op *op,
                               const anfi_sh_use *u) {
  for (; s; s = s->outer) {
    const uint64_t *at = anfi_map_find(&s->values, anfi_key(u->name));
    const values *v = at ? (const values *)(uintptr_t)*at : NULL;
    if (v && u->index < v->n) return v->item[u->index];
    if (v)
      return (void)fail_value(b, op, u->name, "has fewer results than this one's number"), NULL;
  }
  return (void)fail_value(b, op, u->name, "is not defined before"), NULL;
}

static const anfi_traced **inputs(anfi_sh_build *b, const anfi_sh_scope *s, const anfi_sh_op *op) {
  const anfi_traced **in = ANFI_NEW_N(b->t->arena, const anfi_traced *, op->in.n + 1);
  for (size_t i = 0; i < op->in.n; i++)
    if (!(in[i] = find(b, s, op, &op->in.at[i]))) return NULL;
  return in;
}

/* ---- types ---- */

static bool same_dims(const anf_type *a, const anf_type *b) {
  bool same = a->n == b->n;
  for (uint32_t i = 0; same && i < a->n; i++)
    same = a->dims[i] == b->dims[i] || a->dims[i] < 0 || b->dims[i] < 0;
  return same;
}

static const anfi_traced *mismatch(anfi_sh_build *b, const anfi_sh_op *op, const anfi_traced *x,
                                   const anf_type *type) {
  anf_ctx *cx = b->t->cx;
  anfi_fail(cx, anfi_sh_op_loc(b, op), ANF_E1225, op->name->s,
            anfi_type_text(cx, anfi_traced_type(b->t, x)), anfi_type_text(cx, type));
  return NULL;
}

const anfi_traced *anfi_sh_conform(anfi_sh_build *b, const anfi_sh_op *op, const anfi_traced *x,
                                   const anf_type *type) {
  anfi_trace *t = b->t;
  if (x->kind != ANFI_TRACED_DATA) return mismatch(b, op, x, type);
  if (!x->type) return anfi_traced_node(t, x->node, type);
  if (!anfi_is_tensor(x->type)) return mismatch(b, op, x, type);
  if (x->type->dtype != type->dtype) {
    anf_value *to[1] = {anfi_trace_hold(
        t, anfi_value_new_type(t->cx, anfi_type_scalar(t->cx, (anf_dtype)type->dtype)))};
    if (!(x = anfi_trace_op(t, ANF_OP_Cast, 1, &x, to))) return NULL;
  }
  return b->lifted || same_dims(x->type, type) ? x : mismatch(b, op, x, type);
}

static bool bind_results(anfi_sh_build *b, anfi_sh_scope *s, const anfi_sh_op *op,
                         const anfi_traced *x) {
  size_t at = 0;
  if (op->types.n > 1 && (x->kind != ANFI_TRACED_TUPLE || x->n != op->types.n))
    return (void)mismatch(b, op, x, op->types.at[0]), false;
  for (size_t i = 0; i < op->results.n; i++) {
    const anfi_sh_result *r = &op->results.at[i];
    const anfi_traced **item = ANFI_NEW_N(b->t->arena, const anfi_traced *, (size_t)r->count + 1);
    for (size_t k = 0; k < r->count; k++, at++) {
      const anfi_traced *one = op->types.n == 1 && x->kind == ANFI_TRACED_TUPLE && x->n == 1
                                   ? x->item[0]
                               : op->types.n == 1 ? x
                                                  : x->item[at];
      if (!(item[k] = anfi_sh_conform(b, op, one, op->types.at[at]))) return false;
    }
    if (!bind(b, s, op, r->name, r->count, item)) return false;
  }
  return true;
}

/* ---- ops ---- */

static bool one_op(anfi_sh_build *b, anfi_sh_scope *s, const anfi_sh_op *op) {
  if (!b->ops_left--)
    return anfi_fail(b->t->cx, anfi_sh_op_loc(b, op), ANF_E1151,
                     "bodies that become so many nodes");
  const anfi_traced **in = inputs(b, s, op);
  if (!in) return false;
  b->t->to = b->to;
  b->t->loc = anfi_sh_op_loc(b, op);
  b->t->debug =
      anfi_debug_new(b->m, (anfi_debug){.file = anfi_intern_z(&b->m->strings, b->model->file),
                                        .line = op->line,
                                        .col = op->col});
  const anfi_traced *x =
      anfi_sh_is_flow(op) ? anfi_sh_flow(b, s, op, in) : anfi_sh_operation(b, s, op, in);
  if (x && bind_results(b, s, op, x)) return true;
  anfi_note(b->t->cx, anfi_sh_op_loc(b, op), "in %s", op->name->s);
  return false;
}

static bool is_return(const anfi_sh_op *op) {
  return strcmp(op->name->s, "stablehlo.return") == 0 || strcmp(op->name->s, "func.return") == 0;
}

static const anfi_traced *ops(anfi_sh_build *b, anfi_sh_scope *s, const anfi_sh_region *g) {
  static const anfi_traced *const empty[1];
  for (size_t i = 0; i < g->ops.n; i++) {
    const anfi_sh_op *op = g->ops.at[i];
    if (!is_return(op)) {
      if (!one_op(b, s, op)) return NULL;
      continue;
    }
    const anfi_traced **out = inputs(b, s, op);
    return out ? anfi_traced_tuple(b->t, op->in.n, out) : NULL;
  }
  return anfi_traced_tuple(b->t, 0, empty);
}

const anfi_traced *anfi_sh_inline(anfi_sh_build *b, anfi_sh_scope *outer, const anfi_sh_region *g,
                                  size_t n, const anfi_traced *const *args) {
  anfi_sh_scope s = {.outer = outer};
  anfi_map_init(&s.values, b->t->arena);
  if (n != g->params.n || b->depth >= ANFI_SH_NESTING)
    return (void)anfi_fail(b->t->cx, b->t->loc, ANF_E1151,
                           n != g->params.n ? "a region with other parameters"
                                            : "regions that nest so deeply"),
           NULL;
  for (size_t i = 0; i < n; i++) {
    const anfi_traced **one = ANFI_NEW(b->t->arena, const anfi_traced *);
    *one = args[i];
    if (!bind(b, &s, NULL, g->params.at[i].name, 1, one)) return NULL;
  }
  b->depth++;
  const anfi_traced *x = ops(b, &s, g);
  b->depth--;
  return x;
}

/* ---- functions ---- */

static const anf_type *result_type(anfi_sh_build *b, const anfi_sh_func *f) {
  return f->types.n == 1 ? f->types.at[0] : anfi_type_tuple(b->t->cx, f->types.n, f->types.at);
}

static void declare(anfi_sh_build *b, anfi_sh_func *f) {
  f->graph = anfi_graph_new(b->m, anfi_intern(&b->m->strings, f->name->s, f->name->len));
  if (f->is_private) f->graph->flags |= ANFI_GRAPH_PRIVATE;
  f->graph->result_type = result_type(b, f);
  for (size_t i = 0; i < f->body->params.n; i++) {
    const anfi_sh_param *p = &f->body->params.at[i];
    const char *name = p->name->s[0] >= '0' && p->name->s[0] <= '9'
                           ? anfi_sprintf(b->t->arena, "v%s", p->name->s)
                           : p->name->s;
    anfi_param(f->graph, anfi_intern_z(&b->m->strings, name), p->type);
  }
}

static bool define(anfi_sh_build *b, anfi_sh_func *f) {
  size_t n = f->graph->params.n;
  anfi_sh_op whole = {.name = f->name, .line = f->line, .col = f->col};
  const anfi_traced **in = ANFI_NEW_N(b->t->arena, const anfi_traced *, n + 1);
  const anfi_traced **out = ANFI_NEW_N(b->t->arena, const anfi_traced *, f->types.n + 1);
  for (size_t i = 0; i < n; i++)
    in[i] = anfi_traced_node(b->t, f->graph->params.at[i], f->body->params.at[i].type);
  b->to = b->t->to = f->graph;
  b->function = f->name->s;
  b->t->loc = (anfi_loc){b->model->file, f->line, f->col};
  const anfi_traced *x = anfi_sh_inline(b, NULL, f->body, n, in);
  if (!x) return false;
  if (x->n != f->types.n)
    return anfi_fail(b->t->cx, b->t->loc, ANF_E1223, f->name->s,
                     "returns another number of values than its type");
  for (size_t i = 0; i < x->n; i++)
    if (!(out[i] = anfi_sh_conform(b, &whole, x->item[i], f->types.at[i]))) return false;
  const anfi_traced *all = x->n == 1 ? out[0] : anfi_traced_tuple(b->t, x->n, out);
  anf_node *r = all ? anfi_traced_to_node(b->t, all) : NULL;
  if (r) anfi_set_result(f->graph, r);
  return r != NULL;
}

/* ---- unsupported ops ---- */

typedef ANFI_VEC(const anfi_sh_region *) regions;

/* Reports all ops without a template at once: each where it is first, and how many there are. */
static bool check_ops(anfi_sh_build *b) {
  anfi_arena *a = b->t->arena;
  regions todo = {0};
  ANFI_VEC(const anfi_sh_op *) unknown = {0};
  anfi_map count;
  anfi_map_init(&count, a);
  for (size_t i = 0; i < b->model->funcs.n; i++) anfi_push(a, &todo, b->model->funcs.at[i]->body);
  for (size_t i = 0; i < todo.n; i++)
    for (size_t k = 0; k < todo.at[i]->ops.n; k++) {
      const anfi_sh_op *op = todo.at[i]->ops.at[k];
      for (size_t j = 0; j < op->regions.n; j++) anfi_push(a, &todo, op->regions.at[j]);
      if (is_return(op) || anfi_sh_is_flow(op) || anfi_sh_knows(b->model, op)) continue;
      uint64_t *c = anfi_map_at(&count, anfi_hash_mix(anfi_key(op->name), anfi_key(op->symbol)));
      if (!(*c)++) anfi_push(a, &unknown, op);
    }
  for (size_t i = 0; i < unknown.n; i++) {
    const anfi_sh_op *op = unknown.at[i];
    size_t n =
        (size_t)*anfi_map_find(&count, anfi_hash_mix(anfi_key(op->name), anfi_key(op->symbol)));
    anfi_fail(b->t->cx, anfi_sh_op_loc(b, op), ANF_E1221, op->name->s, op->symbol ? " @" : "",
              op->symbol ? op->symbol->s : "", n, n == 1 ? "" : "s");
  }
  return !unknown.n;
}

anf_module *anfi_sh_module(anfi_sh_model *model) {
  anfi_sh_build *b = ANFI_NEW(model->arena, anfi_sh_build);
  *b = (anfi_sh_build){.model = model, .t = model->t, .ops_left = MAX_OPS};
  if (!check_ops(b)) return NULL;
  b->m = anfi_module_new(model->cx);
  for (size_t i = 0; i < model->funcs.n; i++) declare(b, model->funcs.at[i]);
  for (size_t i = 0; i < model->funcs.n; i++)
    if (!define(b, model->funcs.at[i])) return NULL;
  if (anfi_failed(model->cx)) return NULL;
  anfi_find_effects(b->m, model->arena); // called functions and bodies of loops may have some
  return b->m;
}
