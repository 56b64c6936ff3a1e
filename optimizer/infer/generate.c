// SPDX-License-Identifier: Apache-2.0
/* Meta-graphs: ops that call functions, expanded by the types of their arguments.
 *   HyperMap(f, (a, b), (c, d))          ->  (f(a, c), f(b, d))
 * One walk over the structure of the arguments serves twice: on abstract values to infer, on nodes to emit.
 * Recursion is over the nesting of tuples, which inference bounds. */
#include "optimizer/infer/transform.h"

bool anfi_op_is_meta(anfi_opcode op) {
  return op == ANF_OP_HyperMap || op == ANF_OP_Map || op == ANF_OP_MultiType || op == ANF_OP_Loop ||
         op == ANF_OP_Generated || anfi_op_transforms_now(op);
}

part anfi_part_call(const walk *w, part f, size_t n, const part *args) {
  const anfi_abs **aabs = ANFI_NEW_N(w->q->arena, const anfi_abs *, n + 1);
  anf_node **nodes = ANFI_NEW_N(w->q->arena, anf_node *, n + 1);
  for (size_t i = 0; i < n; i++) aabs[i] = args[i].abs, nodes[i] = args[i].node;
  const anfi_abs *r = anfi_infer_call(w->q, f.abs, n, aabs, w->at);
  if (!r || !w->e) return (part){r, NULL};
  return (part){r, anfi_emit_call(w->e, f.abs, f.node, n, aabs, nodes, r, w->at)};
}

static bool is_nest(const anfi_abs *a) {
  return a->kind == ANFI_ABS_TUPLE || a->kind == ANFI_ABS_RECORD;
}

static part item(const walk *w, part p, size_t i) {
  bool record = p.abs->kind == ANFI_ABS_RECORD;
  anf_node *n = !w->e    ? NULL
                : record ? anfi_emit_field(w->e, p.node, i)
                         : anfi_emit_get(w->e, p.node, i);
  return (part){p.abs->item[i], n};
}

static part nest_like(const walk *w, const anfi_abs *like, const part *items) {
  const anfi_abs **abs = ANFI_NEW_N(w->q->arena, const anfi_abs *, like->n + 1);
  anf_node **nodes = ANFI_NEW_N(w->q->arena, anf_node *, like->n + 1);
  for (uint32_t i = 0; i < like->n; i++) abs[i] = items[i].abs, nodes[i] = items[i].node;
  part r = {anfi_abs_items(&w->q->abs, (anfi_abs_kind)like->kind, like->type, like->n, abs), NULL};
  if (w->e)
    r.node = like->kind == ANFI_ABS_RECORD ? anfi_emit_record(w->e, r.abs, nodes)
                                           : anfi_emit_tuple(w->e, like->n, nodes);
  return r;
}

/* The index in `a` of item i of `first`: the same in a tuple, the field of its name in a record. a->n if
 * there is none. */
static size_t place_of(const anfi_abs *first, const anfi_abs *a, size_t i) {
  if (a->kind != first->kind || a->n != first->n) return a->n;
  if (a->kind == ANFI_ABS_TUPLE) return i;
  size_t k = 0;
  while (k < a->n && a->type->names[k] != first->type->names[i]) k++;
  return k;
}

/* A leaf of a later argument of HyperMap broadcasts where the first argument nests deeper. */
static bool map_items(const walk *w, size_t n, const part *xs, size_t i, bool deep, part *out) {
  for (size_t k = 0; k < n; k++) {
    bool nest = is_nest(xs[k].abs);
    if (deep && !nest) {
      out[k] = xs[k];
      continue;
    }
    size_t from = nest ? place_of(xs[0].abs, xs[k].abs, i) : 0;
    if (!nest || from == xs[k].abs->n) {
      anfi_fail(w->q->cx, anfi_node_loc(w->at), ANF_E0527, k + 2, anfi_show_abs(w->q, xs[k].abs),
                anfi_show_abs(w->q, xs[0].abs));
      return anfi_infer_trace(w->q), false;
    }
    out[k] = item(w, xs[k], from);
  }
  return true;
}

/* Map goes through a tensor by its rows: a tuple of them. */
static part rows_of(const walk *w, part x) {
  part r = {anfi_infer_apply(w->q, ANF_OP_Unstack, NULL, 1, &x.abs, w->at), NULL};
  if (r.abs && w->e)
    r.node = anfi_emit_op(w->e, ANF_OP_Unstack, NULL, 1, &x.abs, &x.node, r.abs, w->at);
  return r;
}

static bool has_rows(const anfi_abs *a) {
  return a->kind == ANFI_ABS_DATA && a->type->kind == ANF_TYPE_TENSOR && a->type->n;
}

static bool have_items(const walk *w, size_t n, part *xs) {
  for (size_t k = 0; k < n; k++) {
    if (!has_rows(xs[k].abs)) continue;
    xs[k] = rows_of(w, xs[k]);
    if (!xs[k].abs) return false;
    if (!is_nest(xs[k].abs))
      return anfi_fail(w->q->cx, anfi_node_loc(w->at), ANF_E0501, anfi_op[ANF_OP_Map].name,
                       "the number of rows is not known");
  }
  return true;
}

static part map(const walk *w, part f, size_t n, const part *xs, bool deep) {
  if (!is_nest(xs[0].abs) && deep) return anfi_part_call(w, f, n, xs);
  if (!is_nest(xs[0].abs))
    return anfi_transform_fail(w, ANF_E0539, anfi_show_abs(w->q, xs[0].abs), "");
  part *items = ANFI_NEW_N(w->q->arena, part, xs[0].abs->n + 1),
       *args = ANFI_NEW_N(w->q->arena, part, n + 1);
  for (uint32_t i = 0; i < xs[0].abs->n; i++) {
    if (!map_items(w, n, xs, i, deep, args)) return failed();
    items[i] = deep ? map(w, f, n, args, true) : anfi_part_call(w, f, n, args);
    if (!items[i].abs) return failed();
  }
  return nest_like(w, xs[0].abs, items);
}

/* How a function takes arguments: not, by converting numbers, or as they are. */
typedef enum { REFUSES, CONVERTS, TAKES, UNSURE } taking;

static taking graph_takes(const walk *w, const anfi_abs *code, size_t n, const part *args) {
  const anf_graph *g = code->graph;
  if (g->params.n != code->n + n) return REFUSES;
  anfi_fitting f = {.q = w->q, .choosing = true};
  for (size_t k = 0; k < n; k++) {
    const anf_type *t = g->params.at[code->n + k]->type;
    if (t && !anfi_abs_declared(&f, args[k].abs, t)) return REFUSES;
  }
  return f.unsure ? UNSURE : f.converted ? CONVERTS : TAKES;
}

static taking takes(const walk *w, const anfi_abs *f, size_t n, const part *args);

/* grad(f) takes the arguments of f. Those of vmap(f) have other shapes: their number decides, as it does for primitives. */
static taking transformed_takes(const walk *w, const anfi_abs *code, size_t n, const part *args) {
  const anfi_schema *s = anfi_op_schema(w->q->cx, (anfi_opcode)code->op);
  size_t own = code->n < s->nin ? code->n : s->nin, first = code->n - own;
  if (s->variadic) return TAKES;
  if (code->op == ANF_OP_Vmap) return anfi_abs_takes_n(code->item[0], first + n) ? TAKES : REFUSES;
  part *all = ANFI_NEW_N(w->q->arena, part, first + n + 1);
  for (size_t i = 0; i < first; i++) all[i] = (part){code->item[own + i], NULL};
  if (n) memcpy(all + first, args, n * sizeof *all);
  return takes(w, code->item[0], first + n, all);
}

static taking code_takes(const walk *w, const anfi_abs *code, size_t n, const part *args) {
  if (code->graph) return graph_takes(w, code, n, args);
  if (anfi_is_transformed(w->q->cx, code)) return transformed_takes(w, code, n, args);
  return anfi_op_takes(w->q->cx, (anfi_opcode)code->op, code->n + n) ? TAKES : REFUSES;
}

/* Of a function that is chosen when the program runs, all candidates must agree. */
static taking takes(const walk *w, const anfi_abs *f, size_t n, const part *args) {
  if (f->kind != ANFI_ABS_FN) return REFUSES;
  taking all = code_takes(w, f->item[0], n, args);
  for (uint32_t i = 1; i < f->n; i++)
    if (code_takes(w, f->item[i], n, args) != all) return UNSURE;
  return all;
}

static const char *show_all(const walk *w, size_t n, const part *args) {
  const char *all = "(";
  for (size_t i = 0; i < n; i++)
    all = anfi_sprintf(w->q->arena, "%s%s%s", all, i ? ", " : "", anfi_show_abs(w->q, args[i].abs));
  return anfi_sprintf(w->q->arena, "%s)", all);
}

/* The first function that takes the arguments as they are, else the first that converts numbers. What is
 * not known before the program runs decides nothing: that is an error. */
static part choose_and_call(const walk *w, part fs, size_t n, const part *args) {
  uint32_t first = fs.abs->n;
  bool functions = fs.abs->kind == ANFI_ABS_TUPLE;
  for (uint32_t i = 0; functions && i < fs.abs->n; i++)
    functions = fs.abs->item[i]->kind == ANFI_ABS_FN;
  if (!functions)
    return anfi_transform_fail(w, ANF_E0501, "MultiType", "it needs a tuple of functions");
  for (uint32_t i = 0; i < fs.abs->n; i++) {
    taking how = takes(w, fs.abs->item[i], n, args);
    if (how == UNSURE)
      return anfi_transform_fail(w, ANF_E0538, anfi_show_abs(w->q, fs.abs->item[i]), "");
    if (how == TAKES) {
      first = i;
      break;
    }
    if (how == CONVERTS && first == fs.abs->n) first = i;
  }
  if (first < fs.abs->n) return anfi_part_call(w, item(w, fs, first), n, args);
  anfi_fail(w->q->cx, anfi_node_loc(w->at), ANF_E0528, show_all(w, n, args));
  anfi_infer_trace(w->q);
  return failed();
}

/* Stacks go in as they are: the step gets their elements. */
static anf_node *emit_loop(const walk *w, const anfi_emit_head *head, const part *in, size_t n,
                           const anfi_abs *const *args) {
  anf_node **nodes = ANFI_NEW_N(w->q->arena, anf_node *, n + 1);
  for (size_t i = 0; i < n; i++)
    nodes[i] = i < n - head->nx ? anfi_emit_coerce(w->e, in[i + 1].node, in[i + 1].abs, args[i])
                                : in[i + 1].node;
  return anfi_emit_loop(w->e, head, in[0].abs, in[0].node, n, args, nodes, w->at);
}

static int64_t loop_attr(const walk *w, const anfi_attrs *attrs, uint32_t k) {
  const anf_value *v = anfi_attr_value(w->q->cx, ANF_OP_Loop, attrs, k);
  return v ? anfi_get_i64(v, 0) : 0;
}

static bool has_known_sizes(const anf_type *t) {
  for (uint32_t i = 0; t->kind == ANF_TYPE_TENSOR && i < t->n; i++)
    if (t->dims[i] < 0) return false;
  bool nest = t->kind == ANF_TYPE_TUPLE || t->kind == ANF_TYPE_RECORD;
  for (uint32_t i = 0; nest && i < t->n; i++)
    if (!has_known_sizes(t->items[i])) return false;
  return true;
}

/* An element of a stack, parameter `i` of the step. Of a stack out of a box it is what the step declares. */
static const anfi_abs *element_of(const walk *w, const anfi_abs *stack, const anfi_abs *step,
                                  size_t i) {
  if (stack->kind != ANFI_ABS_DATA || stack->type->kind != ANF_TYPE_STACK) return NULL;
  if (stack->n) return stack->item[0];
  const anfi_abs *code = step->kind == ANFI_ABS_FN && step->n == 1 ? step->item[0] : NULL;
  const anf_graph *g = code ? code->graph : NULL;
  if (!g || code->n + i >= g->params.n) return NULL;
  const anf_type *t = g->params.at[code->n + i]->type;
  return t && has_known_sizes(t) ? anfi_abs_of_type(&w->q->abs, t) : NULL;
}

/* What the step is called with: of a stack that is read an element. */
static bool step_arguments(const walk *w, size_t n, size_t nx, const part *in,
                           const anfi_abs **args) {
  for (size_t i = 1; i < n; i++) {
    args[i - 1] = i < n - nx ? in[i].abs : element_of(w, in[i].abs, in[0].abs, i - 1);
    if (!args[i - 1]) return false;
  }
  return true;
}

/* The abstract value of (s.., stacks.., number of rounds). */
static const anfi_abs *loop_result(const walk *w, const anfi_emit_head *head, size_t ns,
                                   const anfi_abs *const *state, bool rounds) {
  const anfi_abs **all = ANFI_NEW_N(w->q->arena, const anfi_abs *, ns + head->nout + 1);
  size_t n = 0;
  for (; n < ns; n++) all[n] = state[n];
  for (size_t i = 0; i < head->nout; i++) all[n++] = anfi_abs_stack(&w->q->abs, head->outs[i]);
  if (rounds) all[n++] = anfi_abs_data(&w->q->abs, anfi_type_scalar(w->q->cx, ANF_I64));
  return anfi_abs_items(&w->q->abs, ANFI_ABS_TUPLE, NULL, n, all);
}

/* The state's abstract value: the least fixpoint over the initial state and an iteration. */
static part loop(const walk *w, const anfi_attrs *attrs, size_t n, const part *in) {
  part *all = ANFI_NEW_N(w->q->arena, part, n + 1);
  anfi_emit_head head = {.attrs = attrs,
                         .invariant = loop_attr(w, attrs, ANFI_LOOP_INVARIANT),
                         .counted = loop_attr(w, attrs, ANFI_LOOP_COUNTED),
                         .nx = (size_t)loop_attr(w, attrs, ANFI_LOOP_STACKS),
                         .nout = (size_t)loop_attr(w, attrs, ANFI_LOOP_OUTS)};
  if ((head.counted || loop_attr(w, attrs, ANFI_LOOP_GUARDED)) && n > 1) {
    all[0] = in[0];
    head.lead = in[1].node;
    memcpy(all + 1, in + 2, (n - 2) * sizeof *all);
    in = all;
    n--;
  }
  size_t nw = (size_t)head.invariant, first = nw + 1 + head.nx, again = !head.counted,
         ns = n > first ? n - first : 0;
  const anfi_abs **args = ANFI_NEW_N(w->q->arena, const anfi_abs *, n);
  bool fits = n >= first && step_arguments(w, n, head.nx, in, args);
  for (bool grew = fits; grew;) {
    grew = false;
    const anfi_abs *r = anfi_infer_call(w->q, in[0].abs, n - 1, args, w->at);
    if (!r || r->kind == ANFI_ABS_BOTTOM) return (part){r, NULL};
    fits = r->kind == ANFI_ABS_TUPLE && r->n == ns + again + head.nout;
    for (size_t i = 0; fits && i < ns; i++) {
      const anfi_abs *up = anfi_abs_join(&w->q->abs, args[nw + i], r->item[i + again], true);
      fits = up != NULL;
      grew |= fits && up != args[nw + i];
      if (fits) args[nw + i] = up;
    }
    head.outs = r->item + ns + again;
  }
  if (!fits) {
    anfi_fail(w->q->cx, anfi_node_loc(w->at), ANF_E0450,
              "the step gives another state than it takes");
    return failed();
  }
  head.result = loop_result(w, &head, ns, args + nw, loop_attr(w, attrs, ANFI_LOOP_ROUNDS));
  part result = {head.result, NULL};
  if (w->e) result.node = emit_loop(w, &head, in, n - 1, args);
  return result;
}

/* The type of an argument for a generator. A function is known by the number of its arguments. */
static const anf_type *argument_type(const walk *w, const anfi_abs *a) {
  anf_ctx *cx = w->q->cx;
  if (a->kind == ANFI_ABS_DATA) return a->type;
  if (a->kind == ANFI_ABS_BOXED) return anfi_type_simple(cx, ANF_TYPE_BOX);
  const anf_type **items, *any = anfi_type_simple(cx, ANF_TYPE_ANY);
  const anfi_abs *code = a->kind == ANFI_ABS_FN ? a->item[0] : NULL;
  size_t n = !code         ? a->n
             : code->graph ? code->graph->params.n - code->n
                           : anfi_op_schema(cx, (anfi_opcode)code->op)->min_in;
  items = ANFI_NEW_N(w->q->arena, const anf_type *, n + 1);
  for (size_t i = 0; i < n; i++) items[i] = code ? any : argument_type(w, a->item[i]);
  if (code) return anfi_type_fn(cx, n, items, any);
  return a->kind == ANFI_ABS_RECORD ? anfi_type_record(cx, n, a->type->names, items)
                                    : anfi_type_tuple(cx, n, items);
}

static part generated(const walk *w, const anfi_attrs *attrs, size_t n, const part *in) {
  anfi_inference *q = w->q;
  const anf_value *name = anfi_attr_value(q->cx, ANF_OP_Generated, attrs, 0);
  const anfi_host *h = anfi_generator_of(q->cx, name, anfi_node_loc(w->at));
  if (!h) return anfi_infer_trace(q), failed();
  const anf_type **types = ANFI_NEW_N(q->arena, const anf_type *, n + 1);
  for (size_t i = 0; i < n; i++) types[i] = argument_type(w, in[i].abs);
  anfi_generated *e = anfi_generated_for(h, n, types);
  const uint64_t *at = anfi_map_find(&q->generated->graph_of, anfi_key(e));
  if (!at) { // known when inference begins again
    anfi_push(q->arena, &q->generated->wanted, ((anfi_wanted){e, anfi_node_loc(w->at)}));
    return (part){q->abs.bottom, NULL};
  }
  anf_graph *g = (anf_graph *)(uintptr_t)*at;
  const anfi_abs *code = anfi_abs_code(&q->abs, g, ANF_OP_NONE, NULL, 0, NULL);
  part f = {anfi_abs_fn1(&q->abs, code), w->e ? anfi_emit_tuple(w->e, 0, NULL) : NULL};
  return anfi_part_call(w, f, n, in);
}

static part expand(const walk *w, anfi_opcode op, const anfi_attrs *attrs, size_t n,
                   const part *in) {
  for (size_t i = 0; i < n; i++)
    if (in[i].abs->kind == ANFI_ABS_BOTTOM) return in[i];
  if (op == ANF_OP_Loop) return loop(w, attrs, n, in);
  if (anfi_op_transforms_now(op)) return anfi_transform(w, op, attrs, n, in, 0, NULL);
  bool by_types = op == ANF_OP_MultiType || op == ANF_OP_Generated;
  for (size_t i = 0; by_types && i < n; i++)
    if (in[i].abs->partial) return (part){w->q->abs.bottom, NULL}; // chosen when all is known
  if (op == ANF_OP_MultiType) return choose_and_call(w, in[0], n - 1, in + 1);
  if (op == ANF_OP_Generated) return generated(w, attrs, n, in);
  if (n < 2) {
    anfi_fail(w->q->cx, anfi_node_loc(w->at), ANF_E0202, anfi_op[op].name, n, anfi_op[op].in);
    return anfi_infer_trace(w->q), failed();
  }
  part *xs = ANFI_NEW_N(w->q->arena, part, n);
  memcpy(xs, in + 1, (n - 1) * sizeof *xs);
  if (op == ANF_OP_Map && !have_items(w, n - 1, xs)) return failed();
  return map(w, in[0], n - 1, xs, op == ANF_OP_HyperMap);
}

const anfi_abs *anfi_infer_meta(anfi_inference *q, anfi_opcode op, const anfi_attrs *attrs,
                                size_t n, const anfi_abs *const *in, anf_node *at) {
  return expand(&(walk){q, NULL, at}, op, attrs, n, anfi_parts_of(q, n, in, NULL)).abs;
}

anf_node *anfi_emit_meta(anfi_emit *e, anfi_opcode op, const anfi_attrs *attrs, size_t n,
                         const anfi_abs *const *iabs, anf_node *const *in, anf_node *at) {
  return expand(&(walk){e->q, e, at}, op, attrs, n, anfi_parts_of(e->q, n, iabs, in)).node;
}
