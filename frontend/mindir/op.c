// SPDX-License-Identifier: Apache-2.0
/* Primitives: by the template of their name (mindir.anf), else by the op whose column `mindir` has the name, which then
 * takes the same inputs in the same order.
 *   MatMul(a, b, False, True)   ->  def MatMul(a, b, transpose_a, transpose_b) in mindir.anf
 *   Tanh(x)                     ->  the op Tanh */
#include "frontend/mindir/mindir.h"

static const struct {
  const char *op;
  uint32_t inputs;
} writes[] = {
#define MINDIR_WRITES(op, inputs) {#op, inputs},
#include "frontend/mindir/writes.def"
#undef MINDIR_WRITES
};

static uint32_t writes_of(const anfi_mi_prim *p) {
  const anfi_mi_attr *effect = anfi_mi_find(&p->attrs, "side_effect_mem");
  if (strcmp(p->op->s, "BatchNorm") == 0 && !(effect && effect->i)) return 0;
  for (size_t i = 0; i < ANFI_LEN(writes); i++)
    if (strcmp(writes[i].op, p->op->s) == 0) return writes[i].inputs;
  return 0;
}

anfi_opcode anfi_mi_op_named(const char *name, size_t len) {
  for (size_t i = 0; i < ANF_OP_COUNT; i++)
    if (anfi_has_word(anfi_op[i].mindir, name, len)) return (anfi_opcode)i;
  return ANF_OP_NONE;
}

static anfi_opcode op_of(const anfi_str *name) { return anfi_mi_op_named(name->s, name->len); }

/* ---- ops that the writer found no primitive for: Anfora.OP ---- */

static anfi_opcode own_op(anfi_mi_build *b, const anfi_str *name) {
  static const char prefix[] = "Anfora.";
  size_t n = sizeof prefix - 1;
  return strncmp(name->s, prefix, n) == 0 ? anfi_op_find(b->t->cx, name->s + n, name->len - n)
                                          : ANF_OP_NONE;
}

/* The node as it was: an attribute with the text "input" is an input behind the others. */
static const anfi_traced *own(anfi_mi_build *b, const anfi_mi_prim *p, anfi_opcode op, size_t n,
                              const anfi_traced *const *in) {
  const anfi_schema *s = anfi_op_schema(b->t->cx, op);
  anf_value **attr = ANFI_NEW_N(b->t->arena, anf_value *, s->nattr + 1);
  anf_node **node = ANFI_NEW_N(b->t->arena, anf_node *, n + 1);
  const anfi_attrs *at = NULL;
  for (uint32_t k = 0; k < s->nattr; k++) {
    const anfi_mi_attr *a = anfi_mi_find(&p->attrs, s->attr[k].name->s);
    bool input = a && a->doc && strcmp(a->doc->s, "input") == 0;
    anf_value *v = a && !input ? anfi_mi_attr_value(b->model, a) : NULL;
    if (a && !input && !v) return NULL;
    attr[k] = input ? &anfi_from_node : v ? anfi_trace_hold(b->t, v) : NULL;
  }
  for (size_t i = 0; i < n; i++)
    if (!(node[i] = anfi_traced_to_node(b->t, in[i]))) return NULL;
  if (!anfi_attrs_new(b->m, op, attr, b->t->loc, &at)) return NULL;
  anf_node *made = anfi_apply(b->t->to, op, at, n, node);
  made->debug = b->t->debug;
  if (b->effect) anfi_add_effect(b->t->to, made);
  return anfi_traced_node(b->t, made, NULL);
}

/* Templates have an underscore after the name, so that they can use the op of that name. */
static anf_graph *template_of(anfi_mi_build *b, const anfi_mi_prim *p) {
  return anfi_trace_find(b->t, anfi_sprintf(b->t->arena, "%s_", p->op->s));
}

static anfi_mi_role role_of(const anfi_str *op) {
  static const char *const names[] = {"",        "UpdateState", "Load",
                                      "Depend",  "MakeTuple",   "TupleGetItem",
                                      "Partial", "Switch",      "SwitchLayer"};
  for (size_t i = 1; i < ANFI_LEN(names); i++)
    if (strcmp(op->s, names[i]) == 0) return (anfi_mi_role)i;
  return MI_ROLE_OTHER;
}

bool anfi_mi_resolve(anfi_mi_build *b, anfi_mi_prim *p) {
  p->role = role_of(p->op);
  p->form = template_of(b, p);
  p->same = op_of(p->op);
  p->own = own_op(b, p->op);
  p->writes = writes_of(p);
  bool built = p->role >= MI_ROLE_UpdateState && p->role <= MI_ROLE_Depend;
  return built || p->form || p->same != ANF_OP_NONE || p->own != ANF_OP_NONE;
}

static const struct {
  const char *op, *attributes;
} remarks[] = {
#define MINDIR_REMARK(op, attributes) {#op, attributes},
#include "frontend/mindir/remark.def"
#undef MINDIR_REMARK
};

/* Attributes that say nothing about the value. */
static bool is_remark(const anfi_mi_prim *p, const anfi_str *name) {
  static const char any[] = "input_names output_names cust_aicpu primitive_target target_device "
                            "dyn_input_sizes op_adaptation_processed grad_scale";
  if (strncmp(name->s, "side_effect_", 12) == 0 || anfi_has_word(any, name->s, name->len))
    return true;
  for (size_t i = 0; i < ANFI_LEN(remarks); i++)
    if (strcmp(remarks[i].op, p->op->s) == 0)
      return anfi_has_word(remarks[i].attributes, name->s, name->len);
  return false;
}

/* An attribute that neither the template nor the op has could change the value. */
static bool takes_attributes(anfi_mi_build *b, const anfi_mi_prim *p, const anf_graph *f,
                             const anfi_schema *s) {
  for (size_t i = 0; i < p->attrs.n; i++) {
    const char *name = p->attrs.at[i]->name->s;
    bool known = is_remark(p, p->attrs.at[i]->name);
    for (size_t k = 0; f && !known && k < f->params.n; k++)
      known = strcmp(anfi_template_param(f, k), name) == 0;
    for (uint32_t k = 0; s && !known && k < s->nattr; k++)
      known = strcmp(s->attr[k].name->s, name) == 0;
    if (!known) return anfi_fail(b->t->cx, b->t->loc, ANF_E1169, name, p->op->s);
  }
  return true;
}

/* The argument for parameter i of a template: an input, else the attribute of its name, else None. */
static const anfi_traced *argument(anfi_mi_build *b, const anfi_mi_prim *p, const anf_graph *f,
                                   size_t i) {
  const anfi_mi_attr *a = anfi_mi_find(&p->attrs, anfi_template_param(f, i));
  if (!a) return anfi_traced_none(b->t);
  anf_value *v = anfi_mi_attr_value(b->model, a);
  return v ? anfi_traced_value(b->t, v) : NULL;
}

static const anfi_traced *by_template(anfi_mi_build *b, const anfi_mi_prim *p, anf_graph *f,
                                      size_t n, const anfi_traced *const *in) {
  const anfi_traced **all = ANFI_NEW_N(b->t->arena, const anfi_traced *, f->params.n + 1);
  if (!takes_attributes(b, p, f, NULL)) return NULL;
  while (n > f->params.n && n && anfi_traced_is_none(in[n - 1])) n--; // monads
  if (n > f->params.n)
    return (void)anfi_fail(b->t->cx, b->t->loc, ANF_E1164, p->op->s, n, f->params.n), NULL;
  for (size_t i = 0; i < f->params.n; i++)
    if (!(all[i] = i < n ? in[i] : argument(b, p, f, i))) return NULL;
  return anfi_trace_call(b->t, f, f->params.n, all);
}

static const anfi_traced *by_op(anfi_mi_build *b, const anfi_mi_prim *p, anfi_opcode op, size_t n,
                                const anfi_traced *const *in) {
  const anfi_schema *s = anfi_op_schema(b->t->cx, op);
  anf_value **attr = ANFI_NEW_N(b->t->arena, anf_value *, s->nattr + 1);
  if (!takes_attributes(b, p, NULL, s)) return NULL;
  while (n > s->nin && !s->variadic && anfi_traced_is_none(in[n - 1])) n--;
  size_t narg = s->variadic || n < s->nin ? n : s->nin;
  if (n > narg + s->nattr)
    return (void)anfi_fail(b->t->cx, b->t->loc, ANF_E1164, p->op->s, n, (size_t)(narg + s->nattr)),
           NULL;
  for (uint32_t k = 0; k < s->nattr; k++) {
    const anfi_mi_attr *a = anfi_mi_find(&p->attrs, s->attr[k].name->s);
    anf_value *v = a ? anfi_mi_attr_value(b->model, a) : NULL;
    attr[k] = v ? anfi_trace_hold(b->t, v) : anfi_attr_value(b->t->cx, op, NULL, k);
    if (narg + k < n && !(attr[k] = anfi_traced_known(b->t, in[narg + k])))
      return (void)anfi_fail(b->t->cx, b->t->loc, ANF_E1150, s->attr[k].name->s, s->name->s), NULL;
  }
  return anfi_trace_op(b->t, op, narg, in, attr);
}

/* A condition may be a tensor of one element. */
static bool as_condition(anfi_mi_build *b, const anfi_traced **in) {
  const anf_type *t = anfi_traced_type(b->t, *in);
  anf_graph *f = anfi_trace_find(b->t, "scalar_of");
  if (t->kind == ANF_TYPE_TENSOR && t->n) *in = anfi_trace_call(b->t, f, 1, in);
  return *in != NULL;
}

const anfi_traced *anfi_mi_primitive(anfi_mi_build *b, const anfi_mi_prim *p, size_t n,
                                     const anfi_traced **in) {
  if (n && p->role == MI_ROLE_Switch && !as_condition(b, in)) return NULL;
  if (p->own != ANF_OP_NONE) return own(b, p, p->own, n, in);
  return p->form ? by_template(b, p, p->form, n, in) : by_op(b, p, p->same, n, in);
}
