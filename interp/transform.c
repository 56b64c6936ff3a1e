// SPDX-License-Identifier: Apache-2.0
/* Transforms: a function that applies one is run as a copy, specialised for its arguments and expanded.
 *   grad(f)(2.0)    ->    main(x) = the expanded gradient of f, in a copy of the module, run with 2.0
 * The interpreter itself knows no transforms. The program is unchanged. */
#include "autodiff/autodiff.h"
#include "interp/interp.h"
#include "interp/applied.h"
#include "optimizer/infer/cut.h"

#include "anfora/opt.h"

/* Is a transform in the value, in what functions bind, or in items? Constants nest as literals do: not deep. */
static bool value_transforms(const anf_value *v) {
  if (v->kind == ANF_VALUE_FN) {
    const anfi_fn *f = anfi_value_fn(v);
    if (!f->graph && (anfi_op[f->op].flags & ANFI_TRANSFORM)) return true;
    for (size_t i = 0; i < (size_t)f->ncapture + f->nbound; i++)
      if (value_transforms(f->at[i])) return true;
    return false;
  }
  bool items = v->kind == ANF_VALUE_TUPLE || v->kind == ANF_VALUE_RECORD;
  for (size_t i = 0; items && i < v->n; i++)
    if (value_transforms(v->u.item[i])) return true;
  return false;
}

static bool is_transform(const anf_node *n) {
  if (n->kind == ANFI_VALUE) return value_transforms(n->u.value);
  return n->kind == ANFI_APPLY &&
         (n->op == ANF_OP_Derive || (anfi_op_of(n)->flags & ANFI_TRANSFORM));
}

static bool has_transform(const anf_module *m) {
  for (size_t i = 0; i < m->nodes.n; i++)
    if (m->nodes.at[i] && is_transform(m->nodes.at[i])) return true;
  return false;
}

/* Types as declared, and where dims are left open or nothing is declared, those of the values. */
static const anf_type **types_of(anf_ctx *cx, const anf_graph *g, anf_value *const *args) {
  const anf_type **t = ANFI_NEW_N(anfi_scratch(cx), const anf_type *, g->params.n + 1);
  for (size_t i = 0; i < g->params.n; i++) {
    const anf_type *declared = g->params.at[i]->type;
    t[i] = anfi_value_type(cx, args[i]);
    size_t n;
    bool whole = declared && declared->kind == ANF_TYPE_TENSOR && anfi_type_elements(declared, &n);
    if (whole) t[i] = declared;
    else if (declared && anfi_type_has_dtype(declared) && t[i]->kind == ANF_TYPE_TENSOR)
      t[i] = anfi_type_with_dtype(cx, t[i], (anf_dtype)declared->dtype);
    else if (declared && declared->kind != ANF_TYPE_TENSOR && declared->kind != ANF_TYPE_ANY)
      t[i] = declared;
  }
  return t;
}

/* Was it specialised before? A Derive that a program writes has no type. */
static bool is_specialised(const anf_module *m) {
  for (size_t i = 0; i < m->nodes.n; i++) {
    const anf_node *n = m->nodes.at[i];
    if (n && anfi_is_op(n, ANF_OP_Derive) && n->type) return true;
  }
  return false;
}

/* The graph, of a module of its own, for arguments of these types. */
static anf_status without_transforms(anf_graph *g, size_t n, const anf_type *const *types,
                                     anf_diag *d, anfi_prepared *out) {
  anf_module *m = g->module;
  anf_graph *made = g;
  anf_status st = is_specialised(m) ? ANF_OK : anf_specialise(m, g, n, types, d, &made);
  if (st == ANF_OK) st = anf_optimise(m, "loop (expand clean)*", NULL, d);
  if (st == ANF_OK) out->g = made;
  return st;
}

static anf_status prepare_copy(anf_graph *g, const anfi_given_values *v, anf_diag *d,
                               anfi_prepared *out) {
  anf_ctx *cx = g->module->cx;
  const anf_analysis *an = anfi_analyse(g->module);
  if (an->graphs[g->id].free.n) return ANF_OK; // the interpreter reports it
  anf_graph *copy = NULL;
  anf_module *m = anfi_module_copy(an, &g, 1, &copy);
  anfi_undefer(cx, m); // it was to go on failure
  anfi_defer(cx, ANFI_ALWAYS, anfi_free_module, m);
  if (!has_transform(m)) return ANF_OK;
  out->origins = anfi_origins_of(anfi_scratch(cx), m, an);
  copy->flags &= ~(uint32_t)ANFI_GRAPH_PRIVATE;
  return without_transforms(copy, v->n, types_of(cx, g, v->at), d, out);
}

/* A copy with integers, bools, strings and types among the arguments as part of it, as where a shape is made of one, and short lists
 * of numbers where they are `needed`, bits; *v are the others. NULL with an error. */
static anf_graph *copy_for_values(anf_graph *g, anfi_given_values *v, uint64_t needed,
                                  anfi_origins *origins) {
  anf_ctx *cx = g->module->cx;
  anfi_arena *a = anfi_scratch(cx);
  size_t n = 0;
  const anf_type **t = types_of(cx, g, v->at);
  anf_value **rest = ANFI_NEW_N(a, anf_value *, v->n + 1);
  anfi_given *of = ANFI_NEW_N(a, anfi_given, v->n + 1);
  for (size_t i = 0; i < v->n; i++) {
    bool fix = i < 64 && needed >> i & 1 ? anfi_may_fix_needed(t[i]) : anfi_may_fix_type(t[i]);
    of[i] = (anfi_given){.type = t[i], .value = fix ? v->at[i] : NULL};
    if (!fix) rest[n++] = v->at[i];
  }
  anf_graph *made = anfi_applied(cx, g, v->n, of, a, origins);
  *v = (anfi_given_values){n, rest};
  return made;
}

static anf_status prepare_for_values(anf_graph *g, anfi_given_values *v, anf_diag *d,
                                     anfi_prepared *out) {
  anf_graph *made = copy_for_values(g, v, anfi_needed_arguments(g), &out->origins);
  if (!made) return ANF_INVALID;
  return without_transforms(made, v->n, types_of(made->module->cx, made, v->at), d, out);
}

static bool sizes_unknown(const anf_diag *d, size_t had) {
  return anfi_diag_has(d, had, ANF_E0520) || anfi_diag_has(d, had, ANF_E0724);
}

/* Errors of the first attempt are recorded unless another may help. */
static anf_status prepare(anf_graph *g, anfi_given_values *v, anf_diag *d, anfi_prepared *out) {
  size_t had = anf_diag_count(d);
  anf_status st = prepare_copy(g, v, d, out);
  if (st == ANF_OK || !sizes_unknown(d, had)) return st;
  anfi_diag_forget(d, had);
  return prepare_for_values(g, v, d, out);
}

/* Where the first size that depends on data is, if something comes before; else where the first is that depends on more
 * than the arguments. */
static bool find_head(anf_graph *g, anfi_given_values *v, anfi_cut *c) {
  anfi_origins origins;
  if (anfi_cut_at_sizes(g, ANFI_CUT_ATTRIBUTES, c) && c->nmid) return true;
  if (anfi_failed(g->module->cx)) return false;
  anf_graph *made = copy_for_values(g, v, 0, &origins);
  return made && anfi_cut_at_sizes(made, ANFI_CUT_ATTRIBUTES, c) && c->nmid;
}

/* Runs the head; *v are the arguments of the tail then. */
static anf_status run_head(const anfi_cut *c, anfi_given_values *v, const anf_run_opts *o,
                           anf_diag *d) {
  anf_ctx *cx = c->head->module->cx;
  anf_value **all = ANFI_NEW_N(anfi_scratch(cx), anf_value *, v->n + c->nmid), *mid = NULL;
  if (v->n) memcpy(all, v->at, v->n * sizeof *all);
  anf_status st = anf_run(c->head, v->n, all, o, d, &mid);
  if (st != ANF_OK) return st;
  anfi_defer(cx, ANFI_ALWAYS, anfi_release, mid);
  for (size_t i = 0; i < c->nmid; i++) all[v->n + i] = mid->u.item[i];
  *v = (anfi_given_values){v->n + c->nmid, all};
  return ANF_OK;
}

static bool any_function(anf_ctx *cx, const anfi_given_values *v) {
  for (size_t i = 0; i < v->n; i++)
    if (anfi_value_type(cx, v->at[i])->functions) return true;
  return false;
}

bool anfi_run_prepare(anf_graph *g, anfi_given_values *v, const anf_run_opts *o,
                      anfi_prepared *out) {
  anf_ctx *cx = g->module->cx;
  *out = (anfi_prepared){.g = g};
  if (!has_transform(g->module) || v->n != g->params.n) return true;
  anf_diag *d = cx->frame->diag;
  if (!d) {
    if (!(d = anf_diag_new(cx))) anfi_throw_nomem(cx);
    anfi_defer(cx, ANFI_ALWAYS, anfi_free_diag, d);
  }
  size_t had = anf_diag_count(d);
  const anfi_given_values whole = *v;
  anfi_given_values given = *v;
  anf_graph *rest = g;
  anf_status st = prepare(g, v, d, out);
  for (anfi_cut c; st != ANF_OK && o && sizes_unknown(d, had) && find_head(rest, &given, &c);) {
    anfi_diag_forget(d, had);
    st = run_head(&c, &given, o, d);
    if (st != ANF_OK) break;
    if (any_function(cx, &given)) { // of the head's module, which the tail does not know
      given = whole;
      st = prepare(g, &given, d, out);
      break;
    }
    *out = (anfi_prepared){.g = rest = c.tail, .cut = true};
    *v = given;
    st = prepare(rest, v, d, out);
  }
  return st == ANF_OK || anfi_fail_as(cx, st);
}

/* ---- function values ---- */

typedef ANFI_VEC(anf_value *) values;

/* Does the function, or one that it binds, come to a transform? What functions bind that is no
 * function, and the arguments, go to `data`. */
static bool look_at(anfi_arena *a, size_t n, anf_value *const *given, values *data) {
  values st = {0};
  bool found = false;
  for (size_t i = n; i-- > 0;) anfi_push(a, &st, given[i]);
  while (st.n) {
    anf_value *v = st.at[--st.n];
    if (v->kind != ANF_VALUE_FN) {
      anfi_push(a, data, v);
      continue;
    }
    const anfi_fn *f = anfi_value_fn(v);
    found |=
        f->graph ? has_transform(f->graph->module) : (anfi_op[f->op].flags & ANFI_TRANSFORM) != 0;
    for (size_t i = (size_t)f->ncapture + f->nbound; i-- > 0;) anfi_push(a, &st, f->at[i]);
  }
  return found;
}

bool anfi_run_prepare_value(anf_value *f, anfi_given_values *v, anfi_prepared *out) {
  size_t n = v->n;
  anf_value *const *args = v->at;
  anf_ctx *cx = f->cx;
  anfi_arena *a = anfi_scratch(cx);
  anf_value **all = ANFI_NEW_N(a, anf_value *, n + 1);
  values data = {0};
  all[0] = f;
  if (n) memcpy(all + 1, args, n * sizeof *all);
  if (!look_at(a, n + 1, all, &data)) return true;
  anfi_given *of = ANFI_NEW_N(a, anfi_given, n + 1);
  for (size_t i = 0; i <= n; i++) {
    bool fn = all[i]->kind == ANF_VALUE_FN;
    of[i] = (anfi_given){.type = fn ? NULL : anfi_value_type(cx, all[i]), .fn = fn ? all[i] : NULL};
  }
  anf_graph *g = anfi_applied(cx, NULL, n + 1, of, a, &out->origins);
  if (!g || !has_transform(g->module)) return g != NULL; // others of its module have one
  const anf_type **t = ANFI_NEW_N(a, const anf_type *, data.n + 1);
  for (size_t i = 0; i < data.n; i++) t[i] = anfi_value_type(cx, data.at[i]);
  *v = (anfi_given_values){data.n, data.at};
  anf_status st = without_transforms(g, data.n, t, NULL, out);
  return st == ANF_OK || anfi_fail_as(cx, st);
}
