// SPDX-License-Identifier: Apache-2.0
/* Types as lists of leaves.
 *   (f32[3], (i64, none))   ->   f32[3], i64
 * Types nest no deeper than inference allows, so counting may recurse; listing keeps a stack of its own. */
#include "backend/lower/lower.h"

static bool not_compiled(anf_ctx *cx, anfi_loc loc, const anf_type *t) {
  anf_text *name = anfi_text_begin(cx);
  anfi_put_type(name, cx, t);
  const char *s = anfi_strndup(anfi_scratch(cx), name->text, name->len);
  anfi_text_done(name);
  return anfi_fail(cx, loc, t->kind == ANF_TYPE_TENSOR ? ANF_E0953 : ANF_E0950, s);
}

static bool is_boxed(const anf_type *t) {
  return t->kind == ANF_TYPE_BOX || t->kind == ANF_TYPE_STACK;
}

static bool add_leaf(anf_ctx *cx, anfi_arena *a, const anf_type *t, anfi_loc loc,
                     anfi_leaves *out) {
  anfi_leaf l = {.boxed = is_boxed(t), .name = anfi_is_name(t)};
  if (l.boxed || l.name) t = anfi_type_scalar(cx, ANF_U64);
  l.type = t;
  l.elem = anfi_lower_elem((anf_dtype)t->dtype);
  l.scalar = !t->n && anfi_dtype_class((anf_dtype)t->dtype) != ANFI_CLASS_COMPLEX;
  if (!anfi_lower_size(t, &l.n)) return not_compiled(cx, loc, t);
  anfi_push(a, out, l);
  return true;
}

bool anfi_leaves_of(anf_ctx *cx, anfi_arena *a, const anf_type *t, anfi_loc loc, anfi_leaves *out) {
  ANFI_VEC(const anf_type *) st = {0};
  if (anfi_leaf_count(t) == 1 && !anfi_is_nest(t)) {
    if (!out->cap) *out = (anfi_leaves){.at = ANFI_NEW(a, anfi_leaf), .cap = 1}; // most have one
    return add_leaf(cx, a, t, loc, out);
  }
  anfi_push(a, &st, t);
  while (st.n) {
    const anf_type *x = st.at[--st.n];
    for (uint32_t i = anfi_is_nest(x) ? x->n : 0; i-- > 0;) anfi_push(a, &st, x->items[i]);
    bool good = anfi_is_nest(x) || x->kind == ANF_TYPE_NONE ||
                (anfi_leaf_count(x) && add_leaf(cx, a, x, loc, out));
    if (good) continue;
    return anfi_failed(cx) ? false : not_compiled(cx, loc, x);
  }
  return true;
}

size_t anfi_leaf_count(const anf_type *t) {
  if (t->kind == ANF_TYPE_TENSOR || is_boxed(t) || anfi_is_name(t)) return 1;
  size_t n = 0;
  for (uint32_t i = 0; anfi_is_nest(t) && i < t->n; i++) n += anfi_leaf_count(t->items[i]);
  return n;
}

size_t anfi_returned_leaf(const anfi_leaves *l) {
  size_t i = 0;
  while (i < l->n && !l->at[i].scalar) i++;
  return i;
}

bool anfi_lowered_is_plain(const anfi_lowered *l, anfi_loc loc) {
  for (size_t i = 0; i < l->param.n + l->result.n; i++)
    if ((i < l->param.n ? &l->param.at[i] : &l->result.at[i - l->param.n])->name)
      return anfi_fail(l->cx, loc, ANF_E0873, i < l->param.n ? "a parameter" : "the result");
  return true;
}
