// SPDX-License-Identifier: Apache-2.0
/* Declared types of names. A constant takes its type at once; any other value goes through a function whose
 * result has the type, so every engine checks it by the rules of results:
 *
 *     y: i8 = x + 0        def ∷y(v) -> i8 { v }  y = ∷y(x + 0)
 *
 * Where the type has dims that parameters name, these parameters are arguments too, so that the dims hold:
 *
 *     def f(x: f32[B]) { y: f32[B] = g(x) }        def ∷y(v, x: f32[B]) -> f32[B] { v }
 *
 * In a printed graph the type is what inference found, and only marks the node. */
#include "base/mark.h"
#include "frontend/anf/anf.h"

static anf_node *mismatch(lower *lw, const ast *s, const anf_type *t, const anf_type *is) {
  anfi_fail(lw->cx, anfi_anf_loc(lw, s->kid[2]), ANF_E0132, anfi_type_text(lw->cx, t),
            is                       ? anfi_type_text(lw->cx, is)
            : t->kind == ANF_TYPE_FN ? "that of a function with other parameters"
                                     : "that of a function");
  return lw->bad;
}

static anf_node *declared_constant(lower *lw, const ast *s, anf_node *v, const anf_type *t) {
  const anf_type *is = anf_value_type(lw->cx, v->u.value);
  if (!is) anfi_throw_nomem(lw->cx);
  bool weak = anfi_is_scalar(is) && anfi_dtype_is_weak((anf_dtype)is->dtype) && anfi_is_scalar(t);
  if (is == t) return v;
  if (weak && is->dtype == ANF_INT && anfi_dtype_is_int((anf_dtype)t->dtype) &&
      !anfi_dtype_holds((anf_dtype)t->dtype, anfi_get_i64(v->u.value, 0),
                        anfi_get_i64(v->u.value, 0))) {
    anfi_fail(lw->cx, anfi_anf_loc(lw, s->kid[2]), ANF_E0106);
    anfi_hint(lw->cx, "%s does not hold it", anf_dtype_name((anf_dtype)t->dtype));
    return lw->bad;
  }
  if (weak && anfi_dtype_weak_becomes((anf_dtype)is->dtype, (anf_dtype)t->dtype))
    return anfi_value(lw->m, anfi_value_cast(v->u.value, (anf_dtype)t->dtype));
  return mismatch(lw, s, t, is);
}

/* Does the type have a dim with a name, and if `of` is given, one that `of` has too? Over the nesting of types. */
static bool names_dims(const anf_type *t, const anf_type *of) {
  bool found = false;
  for (uint32_t i = 0; t->items && i < t->n; i++) found |= names_dims(t->items[i], of);
  for (uint32_t i = 0; of && of->items && i < of->n; i++) found |= names_dims(t, of->items[i]);
  for (uint32_t i = 0; t->dims && i < t->n; i++) {
    bool named = t->dims[i] < ANF_DIM_UNKNOWN;
    found |= named && !of;
    for (uint32_t k = 0; named && of && of->dims && k < of->n; k++)
      found |= of->dims[k] == t->dims[i];
  }
  return found;
}

typedef ANFI_VEC(anf_node *) nodes;

/* Parameters of the functions around that name dims of the type. */
static void add_dims(lower *lw, const anf_type *t, nodes *in) {
  if (!names_dims(t, NULL)) return;
  for (const func *f = lw->fn; f; f = f->around)
    for (size_t i = 0; f->graph && i < f->graph->params.n; i++) {
      anf_node *p = f->graph->params.at[i];
      if (p->type && names_dims(t, p->type)) anfi_push(lw->p->a, in, p);
    }
}

static const anfi_str *name_of(lower *lw, const ast *pattern) {
  const char *of = pattern->kind == A_NAME ? anfi_anf_name(lw, pattern->u.word)->s : lw->g->name->s;
  return anfi_intern_z(&lw->m->strings, anfi_sprintf(lw->p->a, "%s%s", ANFI_DECLARED, of));
}

/* The call of ∷y. */
static anf_node *declared_node(lower *lw, const ast *s, anf_node *v, const anf_type *t) {
  anf_graph *g = anfi_anf_graph(lw, ANFI_DECLARED, s->kid[0]);
  nodes in = {0};
  g->name = name_of(lw, s->kid[0]);
  g->result_type = t;
  anfi_push(lw->p->a, &in, anfi_graph_value(g));
  anfi_push(lw->p->a, &in, v);
  add_dims(lw, t, &in);
  for (size_t i = 1; i < in.n; i++) {
    anf_node *p = anfi_param(g, NULL, i > 1 ? in.at[i]->type : NULL);
    anfi_anf_at(lw, p, s->kid[0]);
    if (i == 1) anfi_set_result(g, p);
  }
  return anfi_anf_at(lw, anfi_call(lw->g, in.n, in.at), s->kid[1]);
}

/* A function that is known has as many parameters as its type says. */
static anf_node *declared_function(lower *lw, const ast *s, anf_node *v, const anf_type *t) {
  const anf_graph *g = anfi_value_graph(v);
  const uint64_t *at = g ? anfi_map_find(&lw->func_of, g->id) : NULL;
  const func *f = at ? (const func *)(uintptr_t)*at : NULL;
  bool fits = t->kind == ANF_TYPE_FN && (!f || f->nparam == t->n);
  return fits ? v : mismatch(lw, s, t, g ? NULL : v->type);
}

/* A parameter whose type is no other number's. */
static bool never_fits(const anf_node *v, const anf_type *t) {
  if (v->kind != ANFI_PARAM || !v->type || v->type->kind == ANF_TYPE_ANY) return false;
  if (t->kind == ANF_TYPE_ANY) return false;
  if (v->type->kind != t->kind || v->type->n != t->n) return true;
  return anfi_is_tensor(t) && v->type->dtype != t->dtype &&
         !anfi_dtype_weak_becomes((anf_dtype)v->type->dtype, (anf_dtype)t->dtype);
}

bool anfi_anf_is_ir(const parser *p) {
  const char *file = p->lx.file;
  size_t n = file ? strlen(file) : 0;
  return n > 3 && strcmp(file + n - 3, ".ir") == 0;
}

static bool is_printed(const lower *lw, const ast *pattern) {
  return anfi_anf_is_ir(lw->p) || (pattern->kind == A_NAME && pattern->u.word->s[0] == '%');
}

anf_node *anfi_anf_annotate(lower *lw, const ast *s, anf_node *v, const anf_type *t) {
  if (v == lw->bad || anfi_type_is_any(t)) return v;
  bool constant = v->kind == ANFI_VALUE,
       compound = constant &&
                  (v->u.value->kind == ANF_VALUE_TUPLE || v->u.value->kind == ANF_VALUE_RECORD);
  if (constant && v->u.value->kind == ANF_VALUE_FN) return declared_function(lw, s, v, t);
  if (constant && !compound && t->kind != ANF_TYPE_ANY) return declared_constant(lw, s, v, t);
  if (never_fits(v, t)) return mismatch(lw, s, t, v->type);
  if (!is_printed(lw, s->kid[0])) return v->type == t ? v : declared_node(lw, s, v, t);
  if (!v->type && v->graph == lw->g) v->type = t;
  else if (v->type && v->type != t) return mismatch(lw, s, t, v->type);
  return v;
}
