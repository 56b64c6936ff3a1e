// SPDX-License-Identifier: Apache-2.0
/* The public entries of transforms. For f, anf_grad makes a graph that applies the op Grad to f,
 *   grad_f(x) = Grad(f)(x)
 * anf_vmap one that applies Vmap, and so on; they leave the derivative to inference and the pass `expand`. */
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

static const char *param_name(void *f, size_t i) {
  const anf_graph *g = (const anf_graph *)f;
  return i < g->params.n ? anf_node_name(g->params.at[i]) : NULL;
}

/* E0532 for a name that is no argument of f, before anything is compiled. Names of bound arguments are nobody's. */
static bool is_argument(anf_graph *f, const char *s, size_t len) {
  anf_ctx *cx = f->module->cx;
  const char *name = anfi_strndup(anfi_scratch(cx), s, len);
  bool digits = len > 0 && len < 10 && strspn(name, "0123456789") == len;
  bool found = digits && (size_t)strtol(name, NULL, 10) < f->params.n;
  for (size_t i = 0; !digits && i < f->params.n; i++)
    found |= strcmp(anf_node_name(f->params.at[i]), name) == 0;
  if (found) return true;
  anfi_fail(cx, anfi_nowhere(), ANF_E0532, f->name->s, name);
  if (!digits) anfi_suggest(cx, name, param_name, f);
  return false;
}

static bool are_arguments(anf_graph *f, const char *s) {
  while (s && *(s += strspn(s, " ,"))) {
    size_t len = strcspn(s, " ,");
    if (!is_argument(f, s, len)) return false;
    s += len;
  }
  return true;
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

/* ---- graphs that apply a transform: t(x..) = Transform(f)(x..) ---- */

/* A new graph in f's module, with f's parameters; those that a batch makes larger lose their types. */
static anf_graph *begin(anf_graph *f, const char *prefix, const bool *untyped) {
  anf_module *m = f->module;
  const char *name = anfi_sprintf(anfi_scratch(m->cx), "%s_%s", prefix, f->name->s);
  anf_graph *g = anfi_graph_new(m, anfi_intern_z(&m->strings, name));
  g->debug = f->debug;
  for (size_t i = 0; i < f->params.n; i++) {
    anf_node *p = anfi_param(g, NULL, untyped && untyped[i] ? NULL : f->params.at[i]->type);
    p->debug = f->params.at[i]->debug;
  }
  return g;
}

/* The result; the callee may have effects. */
static anf_graph *end(anf_graph *g, anf_node *call, anf_node *result) {
  anfi_add_effect(g, call);
  anfi_set_result(g, result);
  return g;
}

/* The call of a function of f's arguments with the graph's parameters. */
static anf_graph *call_with_all(anf_graph *g, anf_node *function) {
  size_t n = g->params.n;
  anf_node **in = ANFI_NEW_N(anfi_scratch(g->module->cx), anf_node *, n + 1);
  in[0] = function;
  if (n) memcpy(in + 1, g->params.at, n * sizeof *in);
  anf_node *call = anfi_call(g, n + 1, in);
  return end(g, call, call);
}

static anf_graph *gradient(anf_graph *f, const anf_grad_opts *o) {
  anf_module *m = f->module;
  if ((o->all || o->sens) && (o->value || o->has_aux || o->allow_int))
    return (void)anfi_fail(m->cx, anfi_nowhere(), ANF_E0002, "value, has_aux or allow_int"), NULL;
  anf_graph *g = begin(f, o->value ? "value_and_grad" : "grad", NULL);
  anf_node *function = transformed(g, f, o);
  if (o->sens) anfi_param(g, anfi_intern_z(&m->strings, "sens"), f->result_type);
  return call_with_all(g, function);
}

static anf_graph *jacobian(anf_graph *f, anfi_opcode op, const anf_jacobian_opts *o) {
  static const char *const prefix[] = {"jacobian", "hessian"};
  static const char *const names[] = {"has_aux", "allow_int", "wrt"};
  anf_ctx *cx = f->module->cx;
  anf_graph *g = begin(f, prefix[op == ANF_OP_Hessian], NULL);
  anf_node *in = anfi_graph_value(f);
  anf_value *v[3] = {NULL, NULL, NULL};
  v[0] = truth(cx, o->has_aux);
  v[1] = truth(cx, o->allow_int);
  if (o->wrt) v[2] = guarded(arguments(cx, o->wrt));
  const anfi_attrs *at = attrs_of(f->module, op, names, v, o->wrt ? 3 : 2);
  return call_with_all(g, anfi_apply(g, op, at, 1, &in));
}

static const anfi_attrs *aux_attr(anf_module *m, anfi_opcode op, bool has_aux) {
  static const char *const names[] = {"has_aux"};
  anf_value *v = truth(m->cx, has_aux);
  return attrs_of(m, op, names, &v, 1);
}

static anf_node *item(anf_graph *g, anf_node *tuple, int64_t i) {
  static const char *const names[] = {"index"};
  anf_value *v = guarded(anfi_value_new_i64(g->module->cx, ANF_INT, i));
  return anfi_apply(g, ANF_OP_TupleGet, attrs_of(g->module, ANF_OP_TupleGet, names, &v, 1), 1,
                    &tuple);
}

static anf_graph *forward(anf_graph *f, const anf_jvp_opts *o) {
  anf_graph *g = begin(f, "jvp", NULL);
  anf_module *m = g->module;
  size_t n = f->params.n;
  for (size_t i = 0; i < n; i++) {
    const char *name = anf_node_name(g->params.at[i]);
    const char *tangent = anfi_sprintf(anfi_scratch(m->cx), "d%s", name);
    anfi_param(g, anfi_intern_z(&m->strings, *name ? tangent : ""), f->params.at[i]->type);
  }
  anf_node *in[3] = {anfi_graph_value(f)};
  in[1] = anfi_apply(g, ANF_OP_MakeTuple, NULL, n, g->params.at);
  in[2] = anfi_apply(g, ANF_OP_MakeTuple, NULL, n, g->params.at + n);
  anf_node *call = anfi_apply(g, ANF_OP_Jvp, aux_attr(m, ANF_OP_Jvp, o->has_aux), 3, in);
  return end(g, call, call);
}

static anf_graph *reverse(anf_graph *f, const anf_jvp_opts *o) {
  anf_graph *g = begin(f, "vjp", NULL);
  anf_module *m = g->module;
  size_t n = f->params.n;
  anf_node **in = ANFI_NEW_N(anfi_scratch(m->cx), anf_node *, n + 1);
  in[0] = anfi_graph_value(f);
  if (n) memcpy(in + 1, g->params.at, n * sizeof *in);
  anf_node *sens = anfi_param(g, anfi_intern_z(&m->strings, "sens"), f->result_type);
  anf_node *both = anfi_apply(g, ANF_OP_Vjp, aux_attr(m, ANF_OP_Vjp, o->has_aux), n + 1, in);
  anf_node *part[3] = {item(g, both, 0)};
  part[1] = anfi_call(g, 2, (anf_node *[]){item(g, both, 1), sens});
  if (o->has_aux) part[2] = item(g, both, 2);
  return end(g, both, anfi_apply(g, ANF_OP_MakeTuple, NULL, o->has_aux ? 3 : 2, part));
}

static anf_value *axis(anf_ctx *cx, int64_t k) {
  return k == ANF_UNBATCHED ? anfi_value_new_none(cx) : anfi_value_new_i64(cx, ANF_INT, k);
}

static anf_value *axes(anf_ctx *cx, size_t n, const int64_t *k) {
  anf_value *t = guarded(anfi_value_new_tuple(cx, n));
  for (size_t i = 0; i < n; i++) t->u.item[i] = axis(cx, k[i]);
  return t;
}

static anf_graph *batched(anf_graph *f, const anf_vmap_opts *o) {
  static const char *const names[] = {"out_axes", "in_axes"};
  anf_ctx *cx = f->module->cx;
  bool *larger = ANFI_NEW_N(anfi_scratch(cx), bool, f->params.n + 1);
  for (size_t i = 0; i < f->params.n; i++)
    larger[i] = !o->in_axes || o->in_axes[i] != ANF_UNBATCHED;
  anf_graph *g = begin(f, "vmap", larger);
  anf_node *in = anfi_graph_value(f);
  anf_value *v[2] = {NULL, NULL};
  v[0] = guarded(axis(cx, o->out_axis));
  if (o->in_axes) v[1] = axes(cx, f->params.n, o->in_axes);
  const anfi_attrs *at = attrs_of(f->module, ANF_OP_Vmap, names, v, o->in_axes ? 2 : 1);
  return call_with_all(g, anfi_apply(g, ANF_OP_Vmap, at, 1, &in));
}

/* ---- the public face ---- */

/* One transform: checks, options into `opts`, and `make` in a frame; a failure leaves NULL in *out. */
#define TRANSFORM(T, last, make)                                                                   \
  ANFI_NEED(d, g, out);                                                                            \
  T opts;                                                                                          \
  *out = NULL;                                                                                     \
  if (!ANFI_OPTS(g->module->cx, d, T, last, o, &opts)) return ANF_INVALID;                         \
  ANFI_ENTRY(g->module->cx, d);                                                                    \
  if (anfi_is_built(g->module)) *out = make;                                                       \
  return anfi_leave(g->module->cx)

anf_status anf_grad(anf_graph *g, const anf_grad_opts *o, anf_diag *d, anf_graph **out) {
  TRANSFORM(anf_grad_opts, sens, are_arguments(g, opts.wrt) ? gradient(g, &opts) : NULL);
}
anf_status anf_jacobian(anf_graph *g, const anf_jacobian_opts *o, anf_diag *d, anf_graph **out) {
  TRANSFORM(anf_jacobian_opts, forward,
            are_arguments(g, opts.wrt)
                ? jacobian(g, opts.forward ? ANF_OP_JacFwd : ANF_OP_JacRev, &opts)
                : NULL);
}
anf_status anf_hessian(anf_graph *g, const anf_jacobian_opts *o, anf_diag *d, anf_graph **out) {
  TRANSFORM(anf_jacobian_opts, forward,
            are_arguments(g, opts.wrt) ? jacobian(g, ANF_OP_Hessian, &opts) : NULL);
}
anf_status anf_jvp(anf_graph *g, const anf_jvp_opts *o, anf_diag *d, anf_graph **out) {
  TRANSFORM(anf_jvp_opts, has_aux, forward(g, &opts));
}
anf_status anf_vjp(anf_graph *g, const anf_jvp_opts *o, anf_diag *d, anf_graph **out) {
  TRANSFORM(anf_jvp_opts, has_aux, reverse(g, &opts));
}
anf_status anf_vmap(anf_graph *g, const anf_vmap_opts *o, anf_diag *d, anf_graph **out) {
  TRANSFORM(anf_vmap_opts, out_axis, batched(g, &opts));
}
