// SPDX-License-Identifier: Apache-2.0
/* Grad, Vmap and the like.
 *   grad(f)(x)                           ->  Derive(g, x, 1.0 :kind "vjp")[1],  g(x) = f(x)
 * A transform of a function is a function value like others, a flow set entry that binds the function.
 * Its result type follows from the function's. The call is emitted as a Derive node that names a closed
 * graph; the pass `expand` (autodiff/) replaces it. So transforms of closures, of functions chosen at run
 * time and of transforms need no code of their own. */
#include "optimizer/infer/transform.h"

bool anfi_op_transforms_now(anfi_opcode op) {
  return op == ANF_OP_Vjp || op == ANF_OP_Jvp || op == ANF_OP_Linearize || op == ANF_OP_Hvp;
}

bool anfi_op_makes_function(anfi_opcode op) {
  return (anfi_op[op].flags & ANFI_TRANSFORM) != 0 && !anfi_op_transforms_now(op) &&
         op != ANF_OP_Generated;
}

bool anfi_is_transformed(anf_ctx *cx, const anfi_abs *code) {
  if (code->graph || !anfi_op_makes_function((anfi_opcode)code->op)) return false;
  return code->n >= anfi_op_schema(cx, (anfi_opcode)code->op)->min_in;
}

/* ---- parts ---- */

part anfi_transform_fail(const walk *w, anfi_code code, const char *a, const char *b) {
  anfi_fail(w->q->cx, anfi_node_loc(w->at), code, a, b);
  anfi_infer_trace(w->q);
  return failed();
}

const anfi_abs *anfi_whole_abs(const walk *w, const anfi_abs *a) {
  return a && a->partial ? w->q->abs.bottom : a;
}

bool anfi_is_bottom(part p) { return p.abs->kind == ANFI_ABS_BOTTOM; }

part anfi_part_tuple(const walk *w, size_t n, const part *items) {
  const anfi_abs **abs = ANFI_NEW_N(w->q->arena, const anfi_abs *, n + 1);
  anf_node **nodes = ANFI_NEW_N(w->q->arena, anf_node *, n + 1);
  for (size_t i = 0; i < n; i++) abs[i] = items[i].abs, nodes[i] = items[i].node;
  part r = {anfi_abs_items(&w->q->abs, ANFI_ABS_TUPLE, NULL, n, abs), NULL};
  if (w->e) r.node = anfi_emit_tuple(w->e, n, nodes);
  return r;
}

part anfi_part_item(const walk *w, part t, size_t i) {
  if (!w->e) return (part){t.abs->item[i], NULL};
  bool record = t.abs->kind == ANFI_ABS_RECORD;
  return (part){t.abs->item[i],
                record ? anfi_emit_field(w->e, t.node, i) : anfi_emit_get(w->e, t.node, i)};
}

const anfi_abs *anfi_plain_abs(const walk *w, const anfi_abs *a) {
  const anfi_abs *r = anfi_abs_of_type(&w->q->abs, anfi_abs_type(&w->q->abs, a));
  return r ? r : anfi_transform_fail(w, ANF_E0529, "a derivative", "").abs;
}

static bool data_takes(const anf_type *to, const anf_type *t) {
  if (t == to) return true;
  if (t->kind != ANF_TYPE_TENSOR || to->kind != ANF_TYPE_TENSOR) return false;
  bool weak = anfi_dtype_is_weak((anf_dtype)t->dtype) || anfi_dtype_is_weak((anf_dtype)to->dtype);
  if (t->n != to->n || (t->dtype != to->dtype && !weak)) return false;
  for (uint32_t i = 0; i < t->n; i++)
    if (t->dims[i] >= 0 && to->dims[i] >= 0 && t->dims[i] != to->dims[i]) return false;
  return true;
}

bool anfi_abs_takes(const walk *w, const anfi_abs *to, const anfi_abs *a) {
  anfi_arena *s = anfi_scratch(w->q->cx);
  ANFI_VEC(const anfi_abs *) todo = {0};
  anfi_push(s, &todo, to);
  anfi_push(s, &todo, a);
  while (todo.n) {
    a = todo.at[--todo.n];
    to = todo.at[--todo.n];
    if (a == to) continue;
    if (a->kind != to->kind || a->n != to->n) return false;
    if (a->kind == ANFI_ABS_DATA && !data_takes(to->type, a->type)) return false;
    if (a->kind == ANFI_ABS_RECORD && // the types of the fields are distinguished below
        memcmp(a->type->names, to->type->names, a->n * sizeof *a->type->names) != 0)
      return false;
    for (uint32_t i = 0; i < a->n; i++) {
      anfi_push(s, &todo, to->item[i]);
      anfi_push(s, &todo, a->item[i]);
    }
  }
  return true;
}

part anfi_part_record(const walk *w, const anf_type *names, size_t n, const part *items) {
  const anfi_abs **abs = ANFI_NEW_N(w->q->arena, const anfi_abs *, n + 1);
  anf_node **nodes = ANFI_NEW_N(w->q->arena, anf_node *, n + 1);
  for (size_t i = 0; i < n; i++) abs[i] = items[i].abs, nodes[i] = items[i].node;
  part r = {anfi_abs_items(&w->q->abs, ANFI_ABS_RECORD, names, n, abs), NULL};
  if (w->e) r.node = anfi_emit_record(w->e, r.abs, nodes);
  return r;
}

static size_t field_named(const anf_type *record, const anfi_str *name) {
  size_t i = 0;
  while (i < record->n && record->names[i] != name) i++;
  return i;
}

/* Records with their fields in the order that those of `to` have, where the names are the same. */
static part in_order(const walk *w, part p, const anfi_abs *to) {
  bool record = to->kind == ANFI_ABS_RECORD;
  if (p.abs == to || p.abs->kind != to->kind || p.abs->n != to->n ||
      (!record && to->kind != ANFI_ABS_TUPLE))
    return p;
  part *items = ANFI_NEW_N(w->q->arena, part, to->n + 1);
  for (uint32_t i = 0; i < to->n; i++) {
    size_t from = record ? field_named(p.abs->type, to->type->names[i]) : i;
    if (from == to->n) return p;
    items[i] = in_order(w, anfi_part_item(w, p, from), to->item[i]); // as deep as the abs: bounded
  }
  return record ? anfi_part_record(w, to->type, to->n, items) : anfi_part_tuple(w, to->n, items);
}

/* `p` as data of `to`: weak numbers are cast, fields of records go by name. E0533 if it does not fit. */
static part part_as(const walk *w, anfi_opcode op, part p, const anfi_abs *to) {
  if (!anfi_abs_takes(w, to, p.abs)) p = in_order(w, p, to);
  if (!anfi_abs_takes(w, to, p.abs)) {
    anfi_fail(w->q->cx, anfi_node_loc(w->at), ANF_E0533, anfi_op[op].name,
              anfi_show_abs(w->q, p.abs), anfi_show_abs(w->q, to));
    anfi_infer_trace(w->q);
    return failed();
  }
  return (part){to, w->e ? anfi_emit_coerce(w->e, p.node, p.abs, to) : NULL};
}

bool anfi_is_of_function(anfi_inference *q, anfi_opcode op, size_t n, const anfi_abs *const *in,
                         anf_node *at) {
  anfi_abs_kind kind = n ? (anfi_abs_kind)in[0]->kind : ANFI_ABS_FN;
  bool data = kind == ANFI_ABS_DATA && in[0]->type->kind != ANF_TYPE_BOX;
  if (!data && kind != ANFI_ABS_TUPLE && kind != ANFI_ABS_RECORD) return true;
  anfi_fail(q->cx, anfi_node_loc(at), ANF_E0514, anfi_show_abs(q, in[0]));
  const char *op_name = anfi_op[op].name;
  anfi_hint(q->cx, "%s is of a function: %s(f)(x), not %s(f(x))", op_name, op_name, op_name);
  anfi_infer_trace(q);
  return false;
}

/* ---- which arguments ---- */

/* The graph whose parameters a function's arguments are, and how many of them are bound. */
static const anf_graph *named_graph(const anfi_abs *f, size_t *bound) {
  while (f->kind == ANFI_ABS_FN && f->n) {
    const anfi_abs *c = f->item[0];
    *bound = c->n;
    if (c->graph) return c->graph;
    if (!c->n) break;
    f = c->item[0]; // a transform: of the function that it binds first
  }
  return NULL;
}

static bool position(const walk *w, anfi_opcode op, const anfi_abs *f, size_t n, const anf_value *v,
                     size_t *out) {
  size_t bound = 0;
  int64_t i = -1;
  const anf_graph *g = v->kind == ANF_VALUE_STRING ? named_graph(f, &bound) : NULL;
  for (size_t k = 0; g && k < n && bound + k < g->params.n; k++)
    if (strcmp(anf_node_name(g->params.at[bound + k]), v->u.text) == 0) return *out = k, true;
  bool given = v->kind != ANF_VALUE_STRING && anfi_value_is_int(v, &i);
  if (given && i < 0) i += (int64_t)n;
  if (given && i >= 0 && (size_t)i < n) return *out = (size_t)i, true;
  anf_text *o = anfi_text_begin(w->q->cx);
  anfi_put_value(o, v, 8);
  anfi_transform_fail(w, ANF_E0532, anfi_op[op].name, o->text);
  anfi_text_done(o);
  return false;
}

bool anfi_positions(const walk *w, anfi_opcode op, const anfi_abs *f, size_t n,
                    const anf_value *wrt, size_t *npos, size_t **pos, bool *single) {
  *single = wrt->kind != ANF_VALUE_TUPLE;
  *npos = *single ? 1 : wrt->n;
  *pos = ANFI_NEW_N(w->q->arena, size_t, *npos);
  for (size_t i = 0; i < *npos; i++)
    if (!position(w, op, f, n, *single ? wrt : wrt->u.item[i], &(*pos)[i])) return false;
  return true;
}

/* The first part of a type that has no derivative, or NULL. */
static const anf_type *without_derivative(const anf_type *t) {
  if (t->kind == ANF_TYPE_TENSOR) {
    anfi_class c = anfi_dtype_class((anf_dtype)t->dtype);
    return c == ANFI_CLASS_FLOAT || c == ANFI_CLASS_COMPLEX ? NULL : t;
  }
  if (t->kind != ANF_TYPE_TUPLE && t->kind != ANF_TYPE_RECORD) return t;
  for (uint32_t i = 0; i < t->n; i++) {
    if (t->items[i]->kind == ANF_TYPE_NONE) continue; // a part that is left out stays None
    const anf_type *bad = without_derivative(t->items[i]);
    if (bad) return bad;
  }
  return NULL;
}

static bool no_derivative(const walk *w, size_t position, const anf_type *bad) {
  anfi_fail(w->q->cx, anfi_node_loc(w->at), ANF_E0531, position, anfi_type_text(w->q->cx, bad));
  if (bad->kind == ANF_TYPE_TENSOR && bad->dtype == ANF_INT)
    anfi_hint(w->q->cx, "write a number with a point, such as 2.0, for a float");
  anfi_infer_trace(w->q);
  return false;
}

static bool check_wrt(const walk *w, size_t n, const part *args, size_t npos, const size_t *pos,
                      bool allow_int) {
  (void)n;
  for (size_t i = 0; i < npos && !allow_int; i++) {
    const anf_type *bad = without_derivative(anfi_abs_type(&w->q->abs, args[pos[i]].abs));
    if (bad) return no_derivative(w, pos[i], bad);
  }
  return true;
}

/* ---- Derive nodes ---- */

anf_node *anfi_emit_derive(anfi_emit *e, const anfi_derived *d, anf_graph *target, size_t n,
                           anf_node *const *in, const anf_type *type) {
  anf_ctx *cx = e->q->cx;
  if (d->axes) anfi_value_guard(d->axes);
  anf_node **all = ANFI_NEW_N(e->arena, anf_node *, n + 1);
  int64_t *wrt = ANFI_NEW_N(e->arena, int64_t, d->nwrt);
  for (size_t i = 0; i < d->nwrt; i++) wrt[i] = (int64_t)d->wrt[i] + 1;
  anf_value *v[6] = {anfi_value_new_string(cx, d->kind, strlen(d->kind)), NULL, NULL, d->axes};
  v[5] = d->name;
  for (size_t i = 0; i < 4; i++) {
    if (i == 1) v[i] = anfi_value_new_ints(cx, d->nwrt, wrt);
    if (i == 2) v[i] = anfi_value_new_i64(cx, ANF_INT, d->item);
    if (v[i] && i < 3) anfi_value_guard(v[i]);
  }
  const anfi_attrs *at = NULL;
  anfi_attrs_new(e->q->m, ANF_OP_Derive, v, anfi_nowhere(), &at);
  for (size_t i = 0; i < 4; i++)
    if (v[i]) anfi_value_unguard(v[i]), anf_value_release(v[i]);
  all[0] = anfi_graph_value(target);
  if (n) memcpy(all + 1, in, n * sizeof *in);
  return anfi_emit_effect(e, anfi_emit_apply(e, ANF_OP_Derive, at, type, n + 1, all));
}

anf_node **anfi_derive_inputs(const walk *w, part f, size_t n, const part *args, size_t nmore,
                              const part *more) {
  anf_node **in = ANFI_NEW_N(w->q->arena, anf_node *, n + nmore + 1);
  in[0] = f.node;
  for (size_t i = 0; i < n; i++) in[i + 1] = args[i].node;
  for (size_t i = 0; i < nmore; i++) in[n + 1 + i] = more[i].node;
  return in;
}

const anfi_abs *anfi_part_value_abs(const walk *w, part f, size_t n, const part *args) {
  const anfi_abs **aabs = ANFI_NEW_N(w->q->arena, const anfi_abs *, n + 1);
  for (size_t i = 0; i < n; i++) aabs[i] = args[i].abs;
  return anfi_whole_abs(w, anfi_infer_call(w->q, f.abs, n, aabs, w->at));
}

/* A node of `kind` for f at args, of abs `r`; `y` is the value of f. */
static part derived(const walk *w, const anfi_derived *d, part f, size_t n, const part *args,
                    size_t nmore, const part *more, const anfi_abs *y, const anfi_abs *r) {
  if (!w->e) return (part){r, NULL};
  anf_graph *t = anfi_emit_target(w->e, f, n, args, y, w->at);
  if (!t) return failed();
  return (part){r, anfi_emit_derive(w->e, d, t, n + 1 + nmore,
                                    anfi_derive_inputs(w, f, n, args, nmore, more),
                                    anfi_abs_type(&w->q->abs, r))};
}

const anfi_abs *anfi_pair_abs(const walk *w, const anfi_abs *a, const anfi_abs *b) {
  return anfi_abs_items(&w->q->abs, ANFI_ABS_TUPLE, NULL, 2, (const anfi_abs *const[]){a, b});
}

const anfi_abs *anfi_gradients_abs(const walk *w, const part *args, size_t npos,
                                   const size_t *pos) {
  const anfi_abs **g = ANFI_NEW_N(w->q->arena, const anfi_abs *, npos + 1);
  for (size_t i = 0; i < npos; i++)
    if (!(g[i] = anfi_plain_abs(w, args[pos[i]].abs))) return NULL;
  return anfi_abs_items(&w->q->abs, ANFI_ABS_TUPLE, NULL, npos, g);
}

/* A value that a function is differentiated by is no constant in it: only its type is known there. */
static const anfi_abs *varied(const walk *w, const anfi_abs *a) {
  if (a->kind == ANFI_ABS_DATA && a->value && !without_derivative(a->type))
    return anfi_abs_broaden(&w->q->abs, a);
  if (a->kind != ANFI_ABS_TUPLE && a->kind != ANFI_ABS_RECORD) return a;
  const anfi_abs **item = ANFI_NEW_N(w->q->arena, const anfi_abs *, a->n + 1);
  for (uint32_t i = 0; i < a->n; i++) item[i] = varied(w, a->item[i]);
  return anfi_abs_items(&w->q->abs, (anfi_abs_kind)a->kind, a->type, a->n, item);
}

static const part *varied_at(const walk *w, size_t n, const part *args, size_t npos,
                             const size_t *pos) {
  part *p = ANFI_NEW_N(w->q->arena, part, n + 1);
  if (n) memcpy(p, args, n * sizeof *p);
  for (size_t i = 0; i < npos; i++) p[pos[i]].abs = varied(w, args[pos[i]].abs);
  return p;
}

part anfi_part_vjp(const walk *w, part f, size_t n, const part *args, size_t npos,
                   const size_t *pos, int64_t item, part dy) {
  args = varied_at(w, n, args, npos, pos);
  const anfi_abs *y = anfi_part_value_abs(w, f, n, args);
  if (!y || y->kind == ANFI_ABS_BOTTOM) return (part){y, f.node};
  const anfi_abs *g = anfi_gradients_abs(w, args, npos, pos);
  if (!g) return failed();
  anfi_derived d = {"vjp", npos, pos, item, NULL, NULL};
  return derived(w, &d, f, n, args, 1, &dy, y, anfi_pair_abs(w, y, g));
}

part anfi_part_jvp(const walk *w, part f, size_t n, const part *args, size_t npos,
                   const size_t *pos, const part *tangents) {
  args = varied_at(w, n, args, npos, pos);
  const anfi_abs *y = anfi_part_value_abs(w, f, n, args);
  if (!y || y->kind == ANFI_ABS_BOTTOM) return (part){y, f.node};
  const anfi_abs *t = anfi_plain_abs(w, y);
  if (!t) return failed();
  anfi_derived d = {"jvp", npos, pos, -1, NULL, NULL};
  return derived(w, &d, f, n, args, npos, tangents, y, anfi_pair_abs(w, y, t));
}

/* ---- Grad, ValueAndGrad, GradOperation ---- */

static bool is_real_number(const anfi_abs *a) {
  return a->kind == ANFI_ABS_DATA && anfi_is_scalar(a->type) &&
         anfi_dtype_class((anf_dtype)a->type->dtype) == ANFI_CLASS_FLOAT;
}

static part one(const walk *w, const anfi_abs *like) {
  return (part){like, w->e ? anfi_emit_const(w->e, anfi_value_new_f64(
                                                       w->q->cx, (anf_dtype)like->type->dtype, 1.0))
                           : NULL};
}

/* The error is in the function, which may be far from the gradient call. */
static part no_number(const walk *w, anfi_opcode op, const anfi_abs *f, const anfi_abs *gives) {
  anfi_fail(w->q->cx, anfi_node_loc(w->at), ANF_E0530, anfi_op[op].name,
            anfi_show_abs(w->q, gives));
  for (uint32_t i = 0; f->kind == ANFI_ABS_FN && i < f->n; i++)
    if (f->item[i]->graph) anfi_infer_definition(w->q, f->item[i]->graph);
  anfi_infer_trace(w->q);
  return failed();
}

/* (value, (gradients)) of a function that gives one number, or with aux a pair of one and more. */
static part number_vjp(const walk *w, anfi_opcode op, part f, size_t n, const part *args,
                       size_t npos, const size_t *pos, bool aux) {
  const anfi_abs *y = anfi_part_value_abs(w, f, n, args);
  if (!y || y->kind == ANFI_ABS_BOTTOM) return (part){y, f.node};
  if (aux && (y->kind != ANFI_ABS_TUPLE || y->n != 2))
    return anfi_transform_fail(w, ANF_E0534, anfi_op[op].name, anfi_show_abs(w->q, y));
  const anfi_abs *number = aux ? y->item[0] : y;
  if (number->kind == ANFI_ABS_BOTTOM) return (part){number, f.node};
  if (!is_real_number(number)) return no_number(w, op, f.abs, number);
  return anfi_part_vjp(w, f, n, args, npos, pos, aux ? 0 : -1,
                       one(w, anfi_abs_broaden(&w->q->abs, number)));
}

static bool flag(const walk *w, anfi_opcode op, const anfi_attrs *attrs, const char *name) {
  int k = anfi_attr_index(w->q->cx, op, name);
  return k >= 0 && anfi_get_i64(anfi_attr_value(w->q->cx, op, attrs, (uint32_t)k), 0) != 0;
}

static part grad(const walk *w, anfi_opcode op, const anfi_attrs *attrs, part f, size_t n,
                 const part *args) {
  size_t npos, *pos;
  bool single, aux = flag(w, op, attrs, "has_aux"), whole = op == ANF_OP_ValueAndGrad;
  if (!anfi_positions(w, op, f.abs, n, anfi_attr_value(w->q->cx, op, attrs, 0), &npos, &pos,
                      &single) ||
      !check_wrt(w, n, args, npos, pos, flag(w, op, attrs, "allow_int")))
    return failed();
  if (op == ANF_OP_JacRev || op == ANF_OP_JacFwd)
    return anfi_part_jacobian(w, op == ANF_OP_JacFwd, op, f, n, args, npos, pos, single, aux);
  part r = number_vjp(w, op, f, n, args, npos, pos, aux);
  if (!r.abs || anfi_is_bottom(r)) return r;
  part y = anfi_part_item(w, r, 0), g = anfi_part_item(w, r, 1);
  if (single) g = anfi_part_item(w, g, 0);
  if (whole) return anfi_part_tuple(w, 2, (const part[]){y, g});
  return aux ? anfi_part_tuple(w, 2, (const part[]){g, anfi_part_item(w, y, 1)}) : g;
}

/* The function value that op makes of f. */
static part made(const walk *w, anfi_opcode op, const anfi_attrs *attrs, size_t n, const part *of) {
  const anfi_abs **b = ANFI_NEW_N(w->q->arena, const anfi_abs *, n);
  anf_node **nodes = ANFI_NEW_N(w->q->arena, anf_node *, n);
  for (size_t i = 0; i < n; i++) b[i] = of[i].abs, nodes[i] = of[i].node;
  const anfi_abs *code = anfi_abs_code(&w->q->abs, NULL, (uint16_t)op, attrs, n, b);
  return (part){anfi_abs_fn1(&w->q->abs, code), w->e ? anfi_emit_tuple(w->e, n, nodes) : NULL};
}

static part hessian(const walk *w, const anfi_attrs *attrs, part f, size_t n, const part *args) {
  size_t npos, *pos;
  bool single;
  anfi_opcode op = ANF_OP_Hessian;
  const anf_value *wrt = anfi_attr_value(w->q->cx, op, attrs, 0);
  if (!anfi_positions(w, op, f.abs, n, wrt, &npos, &pos, &single) ||
      !check_wrt(w, n, args, npos, pos, flag(w, op, attrs, "allow_int")))
    return failed();
  part g = made(w, ANF_OP_Grad, attrs, 1, &f); // the attributes of both rows are the same
  return anfi_part_jacobian(w, true, op, g, n, args, npos, pos, single,
                            flag(w, op, attrs, "has_aux"));
}

size_t *anfi_all_positions(const walk *w, size_t n) {
  size_t *pos = ANFI_NEW_N(w->q->arena, size_t, n + 1);
  for (size_t i = 0; i < n; i++) pos[i] = i;
  return pos;
}

/* bound: f and, where there is one, the tuple of weights. */
static part grad_operation(const walk *w, const anfi_attrs *attrs, size_t nbound, const part *bound,
                           size_t n, const part *args) {
  anfi_opcode op = ANF_OP_GradOperation;
  bool all = flag(w, op, attrs, "get_all"), list = flag(w, op, attrs, "get_by_list"),
       sens = flag(w, op, attrs, "sens_param"), single = false;
  size_t nx = n - (sens && n), npos = all ? nx : !list, *pos = anfi_all_positions(w, nx), nw = 0,
         *weight = NULL;
  anf_value *v = list && nbound > 1 ? anfi_abs_value(w->q->cx, bound[1].abs) : NULL;
  if (list && !v) return anfi_transform_fail(w, ANF_E0520, "weights", "GradOperation");
  bool good = !v || anfi_positions(w, op, bound[0].abs, nx, v, &nw, &weight, &single);
  anf_value_release(v);
  size_t *both = ANFI_NEW_N(w->q->arena, size_t, npos + nw + 1);
  if (npos) memcpy(both, pos, npos * sizeof *both);
  if (nw) memcpy(both + npos, weight, nw * sizeof *both);
  for (size_t i = 0; good && i < npos + nw; i++)
    good = both[i] < nx || anfi_transform_fail(w, ANF_E0532, "GradOperation", "0").abs;
  if (!good || !check_wrt(w, nx, args, npos + nw, both, false)) return failed();
  part r;
  if (sens) {
    const anfi_abs *y = anfi_part_value_abs(w, bound[0], nx, args);
    if (!y || y->kind == ANFI_ABS_BOTTOM) return (part){y, bound[0].node};
    part dy = part_as(w, op, args[nx], anfi_plain_abs(w, y));
    r = dy.abs ? anfi_part_vjp(w, bound[0], nx, args, npos + nw, both, -1, dy) : dy;
  } else r = number_vjp(w, op, bound[0], nx, args, npos + nw, both, false);
  if (!r.abs || anfi_is_bottom(r)) return r;
  part g = anfi_part_item(w, r, 1), *items = ANFI_NEW_N(w->q->arena, part, npos + nw + 1);
  for (size_t i = 0; i < npos + nw; i++) items[i] = anfi_part_item(w, g, i);
  part inputs_ = all ? anfi_part_tuple(w, npos, items) : items[0],
       weights = single && nw ? items[npos] : anfi_part_tuple(w, nw, items + npos);
  if (!list) return inputs_;
  return all ? anfi_part_tuple(w, 2, (const part[]){inputs_, weights}) : weights;
}

/* ---- Vjp, Jvp, Linearize, Hvp, and the functions that they give ---- */

static part vjp(const walk *w, const anfi_attrs *attrs, part f, size_t n, const part *args) {
  bool aux = flag(w, ANF_OP_Vjp, attrs, "has_aux");
  const anfi_abs *r = anfi_part_value_abs(w, f, n, args);
  if (!r || r->kind == ANFI_ABS_BOTTOM) return (part){r, f.node};
  if (aux && (r->kind != ANFI_ABS_TUPLE || r->n != 2))
    return anfi_transform_fail(w, ANF_E0534, "Vjp", anfi_show_abs(w->q, r));
  size_t *pos = anfi_all_positions(w, n);
  if (!check_wrt(w, n, args, n, pos, false)) return failed();
  part *of = ANFI_NEW_N(w->q->arena, part, n + 1);
  of[0] = f;
  if (n) memcpy(of + 1, args, n * sizeof *of);
  const anfi_attrs *at =
      aux ? anfi_attrs_one(w->q->m, ANF_OP_Pullback, anfi_value_new_i64(w->q->cx, ANF_INT, 0))
          : NULL;
  anfi_derived d = {"value", n, pos, aux ? 0 : -1, NULL, NULL};
  part y = derived(w, &d, f, n, args, 0, NULL, r, r), g = made(w, ANF_OP_Pullback, at, n + 1, of);
  if (!y.abs || !aux) return y.abs ? anfi_part_tuple(w, 2, (const part[]){y, g}) : y;
  return anfi_part_tuple(w, 3, (const part[]){anfi_part_item(w, y, 0), g, anfi_part_item(w, y, 1)});
}

/* The effects of the function happened when the derivative was taken, not where it is applied: there those of a
 * backward rule of custom_vjp happen. */
static void set_past(const walk *w, anf_node *n) {
  anf_value *v[6];
  for (uint32_t i = 0; i < 6; i++) v[i] = anfi_attr_value(w->q->cx, ANF_OP_Derive, n->u.attrs, i);
  v[4] = anfi_value_new_i64(w->q->cx, ANF_BOOL, 1);
  anfi_value_guard(v[4]);
  anfi_attrs_new(w->q->m, ANF_OP_Derive, v, anfi_nowhere(), &n->u.attrs);
  anfi_value_unguard(v[4]);
  anf_value_release(v[4]);
}

static part pullback(const walk *w, const anfi_attrs *attrs, size_t nbound, const part *bound,
                     size_t n, const part *args) {
  int64_t item = -1;
  anfi_value_is_int(anfi_attr_value(w->q->cx, ANF_OP_Pullback, attrs, 0), &item);
  const anfi_abs *y = anfi_part_value_abs(w, bound[0], nbound - 1, bound + 1);
  if (!y || y->kind == ANFI_ABS_BOTTOM) return (part){y, bound[0].node};
  if (n != 1) {
    anfi_fail(w->q->cx, anfi_node_loc(w->at), ANF_E0202, "Pullback", n, "dy");
    return failed();
  }
  const anfi_abs *to = anfi_plain_abs(w, item < 0 ? y : y->item[item]);
  part dy = to ? part_as(w, ANF_OP_Vjp, args[0], to) : failed();
  if (!dy.abs) return dy;
  part r = anfi_part_vjp(w, bound[0], nbound - 1, bound + 1, nbound - 1,
                         anfi_all_positions(w, nbound - 1), item, dy);
  if (r.node && (r.node->flags & ANFI_NODE_EFFECT)) set_past(w, r.node);
  return r.abs && !anfi_is_bottom(r) ? anfi_part_item(w, r, 1) : r;
}

/* Whether a float is given as the tangent of an argument that has no derivative, such as an integer. */
static bool no_direction(const anfi_abs *to, const anfi_abs *given) {
  bool plain = to->kind == ANFI_ABS_DATA && given && given->kind == ANFI_ABS_DATA;
  return plain && to->type->kind == ANF_TYPE_TENSOR && given->type->kind == ANF_TYPE_TENSOR &&
         without_derivative(to->type) && !without_derivative(given->type);
}

static bool tangents_of(const walk *w, anfi_opcode op, size_t n, const part *args, size_t nt,
                        const part *given, part *out) {
  if (nt != n)
    return anfi_fail(w->q->cx, anfi_node_loc(w->at), ANF_E0202, anfi_op[op].name, nt, "tangents");
  for (size_t i = 0; i < n; i++) {
    const anfi_abs *to = anfi_plain_abs(w, args[i].abs);
    if (to && no_direction(to, given[i].abs)) return no_derivative(w, i, to->type);
    out[i] = to ? part_as(w, op, given[i], to) : failed();
    if (!out[i].abs) return false;
  }
  return true;
}

static part pushforward(const walk *w, size_t nbound, const part *bound, size_t n,
                        const part *args) {
  part *t = ANFI_NEW_N(w->q->arena, part, n + 1);
  if (!tangents_of(w, ANF_OP_Linearize, nbound - 1, bound + 1, n, args, t)) return failed();
  part r = anfi_part_jvp(w, bound[0], n, bound + 1, n, anfi_all_positions(w, n), t);
  if (r.node && (r.node->flags & ANFI_NODE_EFFECT)) anfi_remove_effect(r.node); // with Linearize
  return r.abs && !anfi_is_bottom(r) ? anfi_part_item(w, r, 1) : r;
}

static part linearize(const walk *w, size_t n, const part *in) {
  part y = anfi_part_call(w, in[0], n - 1, in + 1);
  y.abs = anfi_whole_abs(w, y.abs);
  if (!y.abs || anfi_is_bottom(y)) return y;
  return anfi_part_tuple(w, 2, (const part[]){y, made(w, ANF_OP_Pushforward, NULL, n, in)});
}

static part *items_of(const walk *w, part t) {
  part *p = ANFI_NEW_N(w->q->arena, part, t.abs->n + 1);
  for (uint32_t i = 0; i < t.abs->n; i++) p[i] = anfi_part_item(w, t, i);
  return p;
}

/* in: f, primals, tangents, both tuples or single arguments. */
static part jvp(const walk *w, anfi_opcode op, const anfi_attrs *attrs, const part *in) {
  bool nest = in[1].abs->kind == ANFI_ABS_TUPLE && in[2].abs->kind == ANFI_ABS_TUPLE,
       aux = op == ANF_OP_Jvp && flag(w, op, attrs, "has_aux");
  size_t n = nest ? in[1].abs->n : 1, nt = nest ? in[2].abs->n : 1;
  const part *args = nest ? items_of(w, in[1]) : in + 1,
             *given = nest ? items_of(w, in[2]) : in + 2;
  part *t = ANFI_NEW_N(w->q->arena, part, n + 1), f = in[0];
  if (!tangents_of(w, op, n, args, nt, given, t)) return failed();
  if (op == ANF_OP_Hvp) { // of the gradient with respect to all
    int64_t *all = ANFI_NEW_N(w->q->arena, int64_t, n + 1);
    for (size_t i = 0; i < n; i++) all[i] = (int64_t)i;
    anf_value *wrt = nest ? anfi_value_new_ints(w->q->cx, n, all)
                          : anfi_value_new_i64(w->q->cx, ANF_INT, 0),
              *v[3] = {wrt, NULL, NULL};
    const anfi_attrs *at = NULL;
    anfi_value_guard(wrt);
    anfi_attrs_new(w->q->m, ANF_OP_Grad, v, anfi_nowhere(), &at);
    anfi_value_unguard(wrt);
    anf_value_release(wrt);
    f = made(w, ANF_OP_Grad, at, 1, in);
  }
  part r = anfi_part_jvp(w, f, n, args, n, anfi_all_positions(w, n), t);
  if (!r.abs || anfi_is_bottom(r)) return r;
  if (op == ANF_OP_Hvp) return anfi_part_item(w, r, 1);
  if (!aux) return r;
  part y = anfi_part_item(w, r, 0), ty = anfi_part_item(w, r, 1);
  if (y.abs->kind != ANFI_ABS_TUPLE || y.abs->n != 2)
    return anfi_transform_fail(w, ANF_E0534, "Jvp", anfi_show_abs(w->q, y.abs));
  return anfi_part_tuple(
      w, 3,
      (const part[]){anfi_part_item(w, y, 0), anfi_part_item(w, ty, 0), anfi_part_item(w, y, 1)});
}

/* ---- dispatch ---- */

static bool check_attrs(const walk *w, anfi_opcode op, const anfi_attrs *attrs) {
  for (uint32_t k = 0; attrs && k < attrs->n; k++)
    if (attrs->at[k] == &anfi_from_node) {
      const anfi_schema *s = anfi_op_schema(w->q->cx, op);
      return anfi_transform_fail(w, ANF_E0520, s->attr[k].name->s, s->name->s).abs != NULL;
    }
  return true;
}

/* partial(grad(f), a)(b) is grad(f)(a, b): values bound beyond the transform's own inputs are arguments. */
static size_t all_arguments(const walk *w, anfi_opcode op, size_t *nbound, const part *bound,
                            size_t n, const part **args) {
  const anfi_schema *s = anfi_op_schema(w->q->cx, op);
  if (s->variadic || *nbound <= s->nin) return n;
  size_t more = *nbound - s->nin;
  part *all = ANFI_NEW_N(w->q->arena, part, more + n + 1);
  memcpy(all, bound + s->nin, more * sizeof *all);
  if (n) memcpy(all + more, *args, n * sizeof *all);
  *args = all;
  *nbound = s->nin;
  return more + n;
}

part anfi_transform(const walk *w, anfi_opcode op, const anfi_attrs *attrs, size_t nbound,
                    const part *bound, size_t n, const part *args) {
  for (size_t i = 0; i < nbound; i++)
    if (bound[i].abs->partial) return (part){w->q->abs.bottom, bound[i].node};
  for (size_t i = 0; i < n; i++)
    if (args[i].abs->partial) return (part){w->q->abs.bottom, args[i].node};
  const anfi_abs *f = nbound ? bound[0].abs : NULL;
  if (!check_attrs(w, op, attrs) || !anfi_is_of_function(w->q, op, nbound != 0, &f, w->at))
    return failed();
  n = all_arguments(w, op, &nbound, bound, n, &args);
  switch (op) {
  case ANF_OP_Grad:
  case ANF_OP_ValueAndGrad:
  case ANF_OP_JacRev:
  case ANF_OP_JacFwd: return grad(w, op, attrs, bound[0], n, args);
  case ANF_OP_Hessian: return hessian(w, attrs, bound[0], n, args);
  case ANF_OP_GradOperation: return grad_operation(w, attrs, nbound, bound, n, args);
  case ANF_OP_Vjp: return vjp(w, attrs, bound[0], nbound - 1, bound + 1);
  case ANF_OP_Pullback: return pullback(w, attrs, nbound, bound, n, args);
  case ANF_OP_Linearize: return linearize(w, nbound, bound);
  case ANF_OP_Pushforward: return pushforward(w, nbound, bound, n, args);
  case ANF_OP_Jvp:
  case ANF_OP_Hvp: return jvp(w, op, attrs, bound);
  case ANF_OP_Vmap: return anfi_part_vmap(w, attrs, bound[0], n, args);
  case ANF_OP_Checkpoint: return anfi_part_checkpoint(w, attrs, bound[0], n, args);
  case ANF_OP_CustomVjp: return anfi_part_custom_vjp(w, bound, n, args);
  case ANF_OP_CustomJvp: return anfi_part_custom_jvp(w, bound, n, args);
  default: return anfi_transform_fail(w, ANF_E0529, anfi_op[op].name, "");
  }
}

part *anfi_parts_of(anfi_inference *q, size_t n, const anfi_abs *const *abs, anf_node *const *in) {
  part *p = ANFI_NEW_N(q->arena, part, n + 1);
  for (size_t i = 0; i < n; i++) p[i] = (part){abs[i], in ? in[i] : NULL};
  return p;
}

const anfi_abs *anfi_infer_transformed(anfi_inference *q, const anfi_abs *code, size_t n,
                                       const anfi_abs *const *args, anf_node *at) {
  walk w = {q, NULL, at};
  return anfi_transform(&w, (anfi_opcode)code->op, code->attrs, code->n,
                        anfi_parts_of(q, code->n, code->item, NULL), n,
                        anfi_parts_of(q, n, args, NULL))
      .abs;
}

anf_node *anfi_emit_transformed(anfi_emit *e, const anfi_abs *code, anf_node *const *bound,
                                size_t n, const anfi_abs *const *aabs, anf_node *const *args,
                                anf_node *at) {
  walk w = {e->q, e, at};
  return anfi_transform(&w, (anfi_opcode)code->op, code->attrs, code->n,
                        anfi_parts_of(e->q, code->n, code->item, bound), n,
                        anfi_parts_of(e->q, n, aabs, args))
      .node;
}
