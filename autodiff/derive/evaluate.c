// SPDX-License-Identifier: Apache-2.0
/* The evaluation of a formula's terms, for one of two targets.
 *   "(Mul dy (Conj b))", reals b: f64[3]
 *     nodes:   Conj(b) is b; Mul(dy, b) is built in the graph of the derivative
 *     recipe:  the same, but the product is written down as a step, "Mul(place 3, place 1): f64[3]" (recipe.c)
 * What both have in common is here: the order of terms, which ops need none at all (the conjugate of a real,
 * numbers alone), and the type of a number, which is that of its neighbours. Recursion is as deep as a formula's text. */
#include "autodiff/derive/formula.h"
#include "ir/ops/op.h"

#include <math.h>

/* ---- names ---- */

static bool internal(const anfi_evaluation *e, const char *why) {
  const anfi_derive *q = e->q;
  anf_ctx *cx = q->ad->m->cx;
  return anfi_fail(
      cx, anfi_node_loc(q->primal), ANF_E0001,
      anfi_sprintf(anfi_scratch(cx), "derivative of %s: %s", anfi_op[q->op].name, why));
}

static bool is_real_number(const anf_value *v) {
  return v->kind == ANF_VALUE_TENSOR && v->type->n == 0 &&
         anfi_dtype_class((anf_dtype)v->type->dtype) < ANFI_CLASS_COMPLEX;
}

static bool set_number(anfi_operand *out, double x) {
  out->is_number = true;
  out->number = x;
  return true;
}

static bool set_node(const anfi_evaluation *e, anfi_operand *out, anf_node *n) {
  out->node = n;
  out->type = n ? anfi_ad_type_of(e->ad, n) : NULL;
  return n != NULL;
}

static bool eval_attr(const anfi_evaluation *e, uint32_t k, anfi_operand *out) {
  const anf_value *v = anfi_attr_value(e->ad->m->cx, e->q->op, e->q->primal->u.attrs, k);
  if (!v || !is_real_number(v)) return internal(e, "an attribute is no number");
  return set_number(out, anfi_get_f64(v, 0));
}

static bool eval_name(const anfi_evaluation *e, const anfi_term *t, anfi_operand *out) {
  const anfi_derive *q = e->q;
  if (t->kind == OF_NUMBER) return set_number(out, t->number);
  if (e->recipe) return anfi_recipe_place(e->recipe, t, out);
  switch (t->kind) {
  case OF_INPUT:
    return t->index < q->n ? set_node(e, out, q->in[t->index]) : internal(e, "an input is absent");
  case OF_Y: return set_node(e, out, q->y);
  case OF_DY:
    return (t->index < q->ndy && set_node(e, out, q->dy[t->index])) ||
           internal(e, "there is no such place");
  case OF_NODE: return set_node(e, out, e->nodes[t->index]);
  default: return eval_attr(e, t->index, out);
  }
}

/* ---- ops that need no node ---- */

/* The conjugate of a real is itself: most formulas have one. */
static bool is_itself(const anfi_evaluation *e, const anfi_term *t) {
  const anf_type *type = t->op == ANF_OP_Conj ? e->at[t->in[0]].type : NULL;
  return type && type->kind == ANF_TYPE_TENSOR &&
         anfi_dtype_class((anf_dtype)type->dtype) == ANFI_CLASS_FLOAT;
}

static bool on_numbers(anfi_opcode op, const double *x, anfi_operand *out) {
  switch (op) {
  case ANF_OP_Add: return set_number(out, x[0] + x[1]);
  case ANF_OP_Sub: return set_number(out, x[0] - x[1]);
  case ANF_OP_Mul: return set_number(out, x[0] * x[1]);
  case ANF_OP_Div: return set_number(out, x[0] / x[1]);
  case ANF_OP_Neg: return set_number(out, -x[0]);
  case ANF_OP_Sqrt: return set_number(out, sqrt(x[0]));
  default: return false;
  }
}

/* The size of a static shape, or arithmetic on numbers. */
static bool eval_number(const anfi_evaluation *e, const anfi_term *t, anfi_operand *out) {
  double x[2] = {0, 0};
  size_t n;
  if (t->op == ANF_OP_Size && e->at[t->in[0]].type)
    return anfi_type_elements(e->at[t->in[0]].type, &n) && set_number(out, (double)n);
  for (uint32_t i = 0; i < t->n; i++) {
    if (!e->at[t->in[i]].is_number || i == ANFI_LEN(x)) return false;
    x[i] = e->at[t->in[i]].number;
  }
  return t->n && on_numbers(t->op, x, out);
}

/* The type for numbers among the arguments of t: that of their neighbours, or of dy. */
static anf_dtype number_type(const anfi_evaluation *e, const anfi_term *t) {
  anf_dtype d = ANF_BOOL;
  bool whole = true;
  for (uint32_t i = 0; i < t->n; i++) {
    const anfi_operand *o = &e->at[t->in[i]];
    if (o->type) anfi_dtype_promote(d, (anf_dtype)o->type->dtype, &d);
    else whole &= o->number == floor(o->number);
  }
  bool takes = d != ANF_BOOL && (whole || anfi_dtype_class(d) >= ANFI_CLASS_FLOAT);
  return takes ? anfi_dtype_part(d) : e->of_dy;
}

/* ---- nodes ---- */

static anf_value *shape_of(anf_ctx *cx, const anf_type *t) {
  size_t ignored;
  if (!t || !anfi_type_elements(t, &ignored)) return NULL;
  anf_value *v = anfi_value_new_ints(cx, t->n, t->dims);
  anfi_value_guard(v);
  return v;
}

/* The value of one attribute; *own says that it must be released. */
static anf_value *attr_value(anfi_evaluation *e, const binding *a, bool *own) {
  anf_ctx *cx = e->ad->m->cx;
  *own = false;
  switch (a->kind) {
  case A_VALUE: return a->value;
  case A_ATTR: return anfi_attr_value(cx, e->q->op, e->q->primal->u.attrs, a->index);
  case A_HOOK: return e->values[a->index];
  case A_SHAPE: break;
  }
  *own = true;
  return anfi_evaluate(e, a->index) ? shape_of(cx, e->at[a->index].type) : NULL;
}

static bool eval_attrs(anfi_evaluation *e, const anfi_term *t, const anfi_attrs **out) {
  const anf_node *primal = e->q->primal;
  anf_value *v[16] = {NULL};
  bool own[16] = {false}, good = true;
  *out = NULL;
  if (!t->nattr) return true;
  for (uint32_t i = 0; i < t->nattr && good; i++) {
    uint32_t k = t->attr[i].k;
    v[k] = attr_value(e, &t->attr[i], &own[k]);
    if (!v[k]) {
      own[k] = false;
      good = false;
      if (!anfi_failed(e->ad->m->cx)) anfi_derive_refuse(e->ad, primal, 0, ANFI_DERIVATIVE_MISSING);
    }
  }
  good = good && anfi_attrs_new(e->ad->m, t->op, v, anfi_node_loc(primal), out);
  for (uint32_t k = 0; k < ANFI_LEN(v); k++)
    if (own[k]) {
      anfi_value_unguard(v[k]);
      anf_value_release(v[k]);
    }
  return good;
}

static anf_node *as_node(const anfi_evaluation *e, const anfi_operand *o, anf_dtype number) {
  return o->is_number ? anfi_ad_number(e->ad, number, o->number) : o->node;
}

/* The node of t, with all the repeated ones of an input. */
static bool build(anfi_evaluation *e, const anfi_term *t, anf_dtype number, anfi_operand *out) {
  const anfi_derive *q = e->q;
  const anfi_attrs *attrs;
  anf_node *few[16], **in = few;
  size_t n = 0;
  if (t->n + q->n > ANFI_LEN(few)) in = ANFI_NEW_N(e->ad->arena, anf_node *, t->n + q->n);
  for (uint32_t i = 0; i < t->n; i++) {
    const anfi_term *a = &e->f->terms.at[t->in[i]];
    if (!a->many) in[n++] = as_node(e, &e->at[t->in[i]], number);
    for (size_t k = a->index; a->many && k < q->n; k++) in[n++] = q->in[k];
  }
  return eval_attrs(e, t, &attrs) &&
         set_node(e, out, anfi_ad_apply(e->ad, q->g, t->op, attrs, n, in));
}

/* ---- terms ---- */

static bool eval_op(anfi_evaluation *e, const anfi_term *t, anfi_operand *out) {
  for (uint32_t i = 0; i < t->n; i++)
    if (!e->f->terms.at[t->in[i]].many && !anfi_evaluate(e, t->in[i])) return false;
  if (is_itself(e, t)) return *out = e->at[t->in[0]], true;
  if (eval_number(e, t, out)) return true;
  anf_dtype number = number_type(e, t);
  return e->recipe ? anfi_recipe_step(e, t, number, out) : build(e, t, number, out);
}

bool anfi_evaluate(anfi_evaluation *e, uint32_t i) {
  anfi_operand o = {0};
  if (e->at[i].known) return true;
  const anfi_term *t = &e->f->terms.at[i];
  if (!(t->kind == OF_OP ? eval_op(e, t, &o) : eval_name(e, t, &o))) return false;
  o.known = true;
  e->at[i] = o;
  return true;
}

static anf_node *root_node(anfi_evaluation *e, int root) {
  return anfi_evaluate(e, (uint32_t)root) ? as_node(e, &e->at[root], e->of_dy) : NULL;
}

enum { FEW = 48 };

/* Operands for all terms, `few` if they are enough. */
static anfi_evaluation begin(anfi_derive *q, const anfi_formula *f, anfi_operand *few) {
  anfi_evaluation e = {.ad = q->ad, .f = f, .at = few, .of_dy = ANF_F64, .q = q};
  if (f->terms.n > FEW) e.at = ANFI_NEW_N(q->ad->arena, anfi_operand, f->terms.n);
  else memset(few, 0, f->terms.n * sizeof *few);
  size_t k = 0;
  while (k < q->ndy && !q->dy[k]) k++;
  if (k < q->ndy) e.of_dy = anfi_dtype_part((anf_dtype)anfi_ad_type_of(q->ad, q->dy[k])->dtype);
  return e;
}

bool anfi_formula_build(anfi_derive *q, const anfi_formula *f) {
  anfi_operand few[FEW];
  anfi_evaluation e = begin(q, f, few);
  for (size_t i = 0; i < q->n; i++) {
    int root = anfi_formula_root(f, i);
    if (root < 0 || !anfi_derive_wants(q, i)) continue;
    if (!(q->out[i] = root_node(&e, root))) return false;
  }
  return true;
}

anf_node *anfi_derive_build(anfi_derive *q, const char *text, anf_node *const *nodes, size_t nvalue,
                            anf_value *const *values) {
  anfi_operand few[FEW];
  const anfi_formula *f = anfi_formula_parse(q->ad, q->op, text);
  anf_node *out = NULL;
  if (f) {
    anfi_evaluation e = begin(q, f, few);
    e.nodes = nodes;
    e.values = values;
    out = root_node(&e, f->roots.at[0]);
  }
  for (size_t i = 0; i < nvalue; i++) {
    anfi_value_unguard(values[i]);
    anf_value_release(values[i]);
  }
  return out;
}
