// SPDX-License-Identifier: Apache-2.0
/* Checks a value against a declared type, and converts it.
 *   x: f32 given 1.5, a number without a type     ->   f32(1.5);      x: f32[n], y: f32[n] given 3 and 4 elements: an error
 * A number without a type takes the declared one; a value from outside is also converted where that is lossless; else
 * types must match. A dim's name denotes one size throughout a set of values. Two walks with stacks of their own: the
 * first only reads, and almost always finds nothing to convert; the second copies changed parts. Both follow the
 * declared type, so they are as long as it is. */
#include "interp/interp.h"

typedef struct {
  anf_value *v;
  const anf_type *t;
} pair;
typedef ANFI_VEC(pair) pairs;

/* ---- numbers ---- */

static bool int_in_int(bool huge, int64_t x, anf_dtype to) {
  return huge ? to == ANF_U64 : anfi_dtype_holds(to, x, x);
}

/* Exactly, that is: the odd part must have no more digits than the type's fraction. */
static bool int_in_float(bool huge, int64_t x, anf_dtype to) {
  uint64_t mag = x < 0 && !huge ? 0 - (uint64_t)x : (uint64_t)x, odd = mag;
  int digits = to == ANF_F16 ? 11 : to == ANF_BF16 ? 8 : to == ANF_F32 || to == ANF_C64 ? 24 : 53;
  while (odd && !(odd & 1)) odd >>= 1;
  return odd < UINT64_C(1) << digits && (to != ANF_F16 || mag <= 65504);
}

static bool all_ints_fit(const anf_value *v, anf_dtype to) {
  bool to_int = anfi_dtype_is_int(to), u64 = v->type->dtype == ANF_U64;
  for (size_t i = 0; i < v->n; i++) {
    int64_t x = anfi_get_i64(v, i);
    bool huge = u64 && x < 0;
    if (to_int ? !int_in_int(huge, x, to) : !int_in_float(huge, x, to)) return false;
  }
  return true;
}

static bool is_inexact(anf_dtype d) {
  return anfi_dtype_class(d) == ANFI_CLASS_FLOAT || anfi_dtype_class(d) == ANFI_CLASS_COMPLEX;
}

/* May values of type `from` become `to`? If so, the numbers decide where `*look` is set. */
static bool dtype_fits(const anfi_fit *f, anf_dtype from, anf_dtype to, bool *look) {
  anf_dtype both;
  *look = anfi_dtype_is_int(from) && (anfi_dtype_is_int(to) || from != ANF_INT);
  if (from == to) return !(*look = false);
  if (anfi_dtype_is_weak(from)) return anfi_dtype_weak_becomes(from, to);
  if (!f->host) return false;
  if (anfi_dtype_is_int(from)) return anfi_dtype_is_int(to) || is_inexact(to);
  return is_inexact(from) && anfi_dtype_promote(from, to, &both) && both == to;
}

static bool number_fits(anfi_fit *f, const anf_value *v, anf_dtype to) {
  bool look;
  if (!dtype_fits(f, (anf_dtype)v->type->dtype, to, &look)) return false;
  f->range = look && !all_ints_fit(v, to);
  f->converted |= to != anfi_dtype_settle((anf_dtype)v->type->dtype);
  return !f->range;
}

/* ---- shapes ---- */

static bool dim_fits(anfi_fit *f, int64_t dim, int64_t size) {
  if (dim >= 0) return dim == size;
  if (dim == ANF_DIM_UNKNOWN) return true;
  for (size_t i = 0; i < f->dims.n; i++)
    if (f->dims.at[i].dim == dim) {
      if (f->dims.at[i].size == size) return true;
      f->symbol = dim;
      f->size = f->dims.at[i].size;
      return false;
    }
  anfi_push(f->arena, &f->dims, ((anfi_dim_size){dim, size}));
  return true;
}

static bool tensor_fits(anfi_fit *f, const anf_value *v, const anf_type *t) {
  if (v->kind != ANF_VALUE_TENSOR || v->type->n != t->n) return false;
  for (uint32_t i = 0; i < t->n; i++)
    if (!dim_fits(f, t->dims[i], v->type->dims[i])) return false;
  return number_fits(f, v, (anf_dtype)t->dtype);
}

/* ---- everything ---- */

static bool same_fields(const anf_value *v, const anf_type *t) {
  return v->kind == ANF_VALUE_RECORD && v->n == t->n &&
         (!t->n || memcmp(v->type->names, t->names, t->n * sizeof *t->names) == 0);
}

static bool fn_fits(const anf_value *v, const anf_type *t) {
  if (v->kind != ANF_VALUE_FN) return false;
  const anfi_fn *fn = anfi_value_fn(v);
  return !fn->graph || fn->graph->params.n == (size_t)fn->nbound + t->n;
}

static bool pattern_fits(anfi_fit *f, const anf_value *v, const anf_type *t) {
  bool tensor = v->kind == ANF_VALUE_TENSOR;
  anf_type_kind kind = v->kind == ANF_VALUE_TUPLE    ? ANF_TYPE_TUPLE
                       : v->kind == ANF_VALUE_RECORD ? ANF_TYPE_RECORD
                                                     : ANF_TYPE_ANY;
  if (!anfi_pattern_takes(t, kind, tensor ? v->type : NULL)) return false;
  return t->pattern != ANF_PATTERN_RANKS || number_fits(f, v, (anf_dtype)t->dtype);
}

/* The value itself, without its items. */
static bool shallow_fits(anfi_fit *f, const anf_value *v, const anf_type *t) {
  switch ((anf_type_kind)t->kind) {
  case ANF_TYPE_TENSOR:
    return (v->kind == ANF_VALUE_TENSOR && v->type == t) || tensor_fits(f, v, t);
  case ANF_TYPE_TUPLE: return v->kind == ANF_VALUE_TUPLE && v->n == t->n;
  case ANF_TYPE_RECORD: return same_fields(v, t);
  case ANF_TYPE_FN: return fn_fits(v, t);
  case ANF_TYPE_NONE: return v->kind == ANF_VALUE_NONE;
  case ANF_TYPE_STRING: return v->kind == ANF_VALUE_STRING;
  case ANF_TYPE_TYPE: return v->kind == ANF_VALUE_TYPE;
  case ANF_TYPE_BOX: return v->kind == ANF_VALUE_BOX;
  case ANF_TYPE_STACK: return v->kind == ANF_VALUE_STACK;
  case ANF_TYPE_ANY: return pattern_fits(f, v, t);
  }
  return false;
}

static bool one_fits(anfi_fit *f, const anf_value *v, const anf_type *t) {
  f->symbol = 0;
  f->range = false;
  if (shallow_fits(f, v, t)) return true;
  f->want = t;
  f->got = v;
  return false;
}

/* `*same`: nothing has to be converted. */
static bool all_fit(anfi_fit *f, anf_value *v, const anf_type *t, bool *same) {
  anfi_arena *a = anfi_scratch(f->cx);
  *same = true;
  pairs st = {0};
  anfi_push(a, &st, ((pair){v, t}));
  while (st.n) {
    pair p = st.at[--st.n];
    if (!one_fits(f, p.v, p.t)) return false;
    if (anfi_type_has_dtype(p.t)) *same &= p.v->type->dtype == p.t->dtype;
    for (uint32_t i = anfi_is_nest(p.t) ? p.t->n : 0; i-- > 0;)
      anfi_push(a, &st, ((pair){p.v->u.item[i], p.t->items[i]}));
  }
  return true;
}

/* ---- converting: every new part hangs in the new whole from its birth, so a guard on that is
 * enough ---- */

typedef struct {
  anf_value *from, *to;
  const anf_type *t;
  size_t next;
} copying;

static anf_value *new_like(const anf_value *v) {
  if (v->kind == ANF_VALUE_RECORD) return anfi_value_new_record(v->cx, v->type);
  return anfi_value_new_tuple(v->cx, v->n);
}

/* A record's type follows from its items, which are done. */
static void settle_record(anf_ctx *cx, anfi_arena *a, anf_value *v) {
  if (v->kind != ANF_VALUE_RECORD) return;
  const anf_type **items = ANFI_NEW_N(a, const anf_type *, v->n);
  for (size_t i = 0; i < v->n; i++)
    if (!(items[i] = anf_value_type(cx, v->u.item[i]))) anfi_throw_nomem(cx);
  anfi_value_set_type(v, anfi_type_record(cx, v->n, v->type->names, items));
}

static anf_value *convert_all(anf_ctx *cx, anf_value *v, const anf_type *t) {
  if (!anfi_is_nest(t))
    return anfi_type_has_dtype(t) ? anfi_value_cast(v, (anf_dtype)t->dtype) : anf_value_retain(v);
  anfi_arena *a = anfi_scratch(cx);
  ANFI_VEC(copying) st = {0};
  anf_value *root = new_like(v);
  anfi_value_guard(root);
  anfi_push(a, &st, ((copying){v, root, t, 0}));
  while (st.n) {
    copying *c = &st.at[st.n - 1];
    if (c->next == c->from->n) {
      settle_record(cx, a, c->to);
      st.n--;
      continue;
    }
    size_t i = c->next++;
    anf_value *from = c->from->u.item[i], **to = &c->to->u.item[i];
    const anf_type *ti = c->t->items[i];
    if (anfi_is_nest(ti)) {
      *to = new_like(from);
      anfi_push(a, &st, ((copying){from, *to, ti, 0}));
    } else *to = convert_all(cx, from, ti); // one level: not a compound
  }
  return root;
}

static bool fit(anfi_fit *f, anf_value *v, const anf_type *t, anf_value **out) {
  bool same;
  if (!all_fit(f, v, t, &same)) return false;
  if (out) *out = same ? anf_value_retain(v) : convert_all(f->cx, v, t);
  return true;
}

/* Each use is a frame of its own, so that its scratch memory goes with it. */
static anf_status fit_in_frame(anfi_fit *f, anf_value *v, const anf_type *t, bool *fits,
                               anf_value **out) {
  ANFI_ENTRY(f->cx, NULL);
  *fits = fit(f, v, t, out);
  return anfi_leave(f->cx);
}

bool anfi_fit_value(anfi_fit *f, anf_value *v, const anf_type *t, anf_value **out) {
  if (t->kind == ANF_TYPE_TENSOR) { // by far the most
    if (!one_fits(f, v, t)) return false;
    *out = anfi_value_cast(v, (anf_dtype)t->dtype);
    return true;
  }
  bool fits = false;
  if (fit_in_frame(f, v, t, &fits, out) != ANF_OK) anfi_throw_nomem(f->cx);
  return fits;
}

bool anfi_fits(anfi_fit *f, const anf_value *v, const anf_type *t) {
  if (!anfi_is_nest(t)) return one_fits(f, v, t);
  bool fits = false;
  anf_value *same = (anf_value *)(uintptr_t)(const void *)v; // only read
  if (fit_in_frame(f, same, t, &fits, NULL) != ANF_OK) anfi_throw_nomem(f->cx);
  return fits;
}

/* ---- words ---- */

static void put_fields(anf_text *o, const anf_value *v) {
  enum { SHOWN = 8 };
  anfi_puts(o, "a record {");
  for (size_t i = 0; i < v->n && i < SHOWN; i++)
    anfi_putf(o, "%s%s", i ? ", " : "", v->type->names[i]->s);
  anfi_puts(o, v->n > SHOWN ? ", ...}" : "}");
}

void anfi_put_kind(anf_text *o, const anf_value *v) {
  switch ((anf_value_kind)v->kind) {
  case ANF_VALUE_TENSOR: anfi_put_type(o, v->cx, v->type); break;
  case ANF_VALUE_TUPLE: anfi_putf(o, "a tuple of %zu items", v->n); break;
  case ANF_VALUE_RECORD: put_fields(o, v); break;
  case ANF_VALUE_FN: {
    const anfi_fn *fn = anfi_value_fn(v);
    if (fn->graph) anfi_putf(o, "a function of %zu arguments", fn->graph->params.n - fn->nbound);
    else anfi_putf(o, "the primitive %s", anfi_op[fn->op].name);
    break;
  }
  case ANF_VALUE_STRING: anfi_puts(o, "a string"); break;
  case ANF_VALUE_TYPE: anfi_puts(o, "a type"); break;
  case ANF_VALUE_BOX: anfi_puts(o, "a box"); break;
  case ANF_VALUE_STACK: anfi_putf(o, "a stack of %zu items", v->n); break;
  case ANF_VALUE_NONE: anfi_puts(o, "None"); break;
  }
}

static const char *wanted(const anfi_fit *f, anf_text *o) {
  anfi_put_type(o, f->cx, f->want);
  if (f->symbol)
    anfi_putf(o, " where %s is %lld", anf_dim_name(f->cx, f->symbol), (long long)f->size);
  return o->text;
}

static const char *given(const anfi_fit *f, anf_text *o) {
  anfi_put_kind(o, f->got);
  return o->text;
}

static bool fail_range(const anfi_fit *f, anfi_loc loc) {
  return anfi_fail(f->cx, loc, ANF_E0561, anf_dtype_name((anf_dtype)f->want->dtype));
}

bool anfi_fit_fail_argument(const anfi_fit *f, anfi_loc loc, size_t i, const char *of) {
  if (f->range) return fail_range(f, loc);
  anf_text *want = anfi_text_begin(f->cx), *got = anfi_text_begin(f->cx);
  return anfi_fail(f->cx, loc, ANF_E0511, i + 1, of, wanted(f, want), given(f, got));
}

bool anfi_fit_fail_result(const anfi_fit *f, anfi_loc loc, const char *of) {
  if (f->range) return fail_range(f, loc);
  anf_text *want = anfi_text_begin(f->cx), *got = anfi_text_begin(f->cx);
  return anfi_fail(f->cx, loc, ANF_E0516, of, wanted(f, want), given(f, got));
}
