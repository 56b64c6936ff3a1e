// SPDX-License-Identifier: Apache-2.0
/* anf_grad: the public entry. For f it makes a graph that applies the op Grad to f,
 *   grad_f(x) = Grad(f)(x)
 * and leaves the derivative to inference and the pass `expand`. */
#include "anfora/grad.h"
#include "autodiff/autodiff.h"

#include <stdlib.h>

/* A position, or a name. */
static anf_value *one_argument(anf_ctx *cx, const char *s, size_t len) {
  bool digits = len > 0 && len < 10;
  for (size_t i = 0; i < len; i++) digits &= s[i] >= '0' && s[i] <= '9';
  if (digits) return anfi_value_new_i64(cx, ANF_INT, strtol(s, NULL, 10));
  return anfi_value_new_string(cx, s, len);
}

static anf_value *arguments(anf_ctx *cx, const char *s) {
  ANFI_VEC(anf_value *) v = {0};
  anfi_arena *a = anfi_scratch(cx);
  while (*(s += strspn(s, " ,"))) {
    size_t len = strcspn(s, " ,");
    anfi_push(a, &v, one_argument(cx, s, len));
    anfi_value_guard(v.at[v.n - 1]);
    s += len;
  }
  anf_value *t = v.n == 1 ? v.at[0] : anfi_value_new_tuple(cx, v.n);
  for (size_t i = v.n; i-- > 0;) {
    anfi_value_unguard(v.at[i]);
    if (v.n > 1) t->u.item[i] = v.at[i];
  }
  return t;
}

/* `given` are guarded, the last one last, and are released. */
static const anfi_attrs *attrs_of(anf_module *m, anfi_opcode op, const char *const *names,
                                  anf_value *const *given, size_t n) {
  const anfi_schema *s = anfi_op_schema(m->cx, op);
  anf_value **v = ANFI_NEW_N(anfi_scratch(m->cx), anf_value *, s->nattr + 1);
  for (size_t i = 0; i < n; i++) v[anfi_attr_index(m->cx, op, names[i])] = given[i];
  const anfi_attrs *at = NULL;
  anfi_attrs_new(m, op, v, anfi_nowhere(), &at);
  for (size_t i = n; i-- > 0;) {
    anfi_value_unguard(given[i]);
    anf_value_release(given[i]);
  }
  return at;
}

static anf_value *guarded(anf_value *v) {
  anfi_value_guard(v);
  return v;
}

static anf_value *truth(anf_ctx *cx, bool b) {
  return guarded(anfi_value_new_i64(cx, ANF_BOOL, b));
}

/* The node that is the gradient function of f. */
static anf_node *transformed(anf_graph *to, anf_graph *f, const anf_grad_opts *o) {
  anf_module *m = f->module;
  anf_ctx *cx = m->cx;
  anf_node *in[2] = {anfi_graph_value(f), NULL};
  if (o->all || o->sens) {
    static const char *const names[] = {"get_all", "get_by_list", "sens_param"};
    anf_value *v[3];
    v[0] = truth(cx, o->all); // in this order: each is guarded before the next is made
    v[1] = truth(cx, o->wrt != NULL);
    v[2] = truth(cx, o->sens);
    const anfi_attrs *at = attrs_of(m, ANF_OP_GradOperation, names, v, 3);
    if (o->wrt) in[1] = anfi_value(m, arguments(cx, o->wrt));
    return anfi_apply(to, ANF_OP_GradOperation, at, o->wrt ? 2 : 1, in);
  }
  static const char *const names[] = {"has_aux", "allow_int", "wrt"};
  anfi_opcode op = o->value ? ANF_OP_ValueAndGrad : ANF_OP_Grad;
  anf_value *v[3] = {NULL, NULL, NULL};
  v[0] = truth(cx, o->has_aux);
  v[1] = truth(cx, o->allow_int);
  if (o->wrt) v[2] = guarded(arguments(cx, o->wrt));
  return anfi_apply(to, op, attrs_of(m, op, names, v, o->wrt ? 3 : 2), 1, in);
}

static anf_graph *gradient(anf_graph *f, const anf_grad_opts *o) {
  anf_module *m = f->module;
  if ((o->all || o->sens) && (o->value || o->has_aux || o->allow_int))
    return (void)anfi_fail(m->cx, anfi_nowhere(), ANF_E0002, "value, has_aux or allow_int"), NULL;
  const char *name =
      anfi_sprintf(anfi_scratch(m->cx), "%s_%s", o->value ? "value_and_grad" : "grad", f->name->s);
  anf_graph *g = anfi_graph_new(m, anfi_intern_z(&m->strings, name));
  g->debug = f->debug;
  size_t n = f->params.n;
  anf_node **in = ANFI_NEW_N(anfi_scratch(m->cx), anf_node *, n + 2);
  in[0] = transformed(g, f, o);
  for (size_t i = 0; i < n; i++) {
    in[i + 1] = anfi_param(g, NULL, f->params.at[i]->type);
    in[i + 1]->debug = f->params.at[i]->debug;
  }
  if (o->sens) in[n + 1] = anfi_param(g, anfi_intern_z(&m->strings, "sens"), f->result_type);
  anf_node *call = anfi_call(g, n + 1 + o->sens, in);
  anfi_add_effect(g, call); // the callee may have effects
  anfi_set_result(g, call);
  return g;
}

anf_status anf_grad(anf_graph *g, const anf_grad_opts *o, anf_diag *d, anf_graph **out) {
  ANFI_NEED(d, g, out);
  anf_grad_opts opts = {0};
  if (!g || !out) return ANF_INVALID;
  if (o) memcpy(&opts, o, o->size && o->size < sizeof opts ? o->size : sizeof opts);
  if (g->module->status != ANF_OK) return g->module->status;
  ANFI_ENTRY(g->module->cx, d);
  *out = gradient(g, &opts);
  return anfi_leave(g->module->cx);
}
