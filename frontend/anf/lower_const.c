// SPDX-License-Identifier: Apache-2.0
/* Constants: numbers, tensors from nested lists, typed ones.
 *   f32[2]([1, 0.1])   ->   one VALUE node
 * A real number is rounded once, from its decimal digits to its type. */
#include "frontend/anf/anf.h"

#include <math.h>
#include <stdlib.h>

/* The digits without underscores, NUL-terminated. */
static const char *digits(lower *lw, const ast *e) {
  const char *s = lw->p->lx.text + e->off;
  size_t n = e->end - e->off, k = 0;
  char *out = (char *)anfi_alloc(lw->p->a, n + 1);
  for (size_t i = 0; i < n; i++)
    if (s[i] != '_') out[k++] = s[i];
  out[k] = 0;
  return out;
}

static double float_value(lower *lw, const ast *e, anf_dtype d) {
  uint8_t kind = e->op & 0x7f;
  double v = kind == W_inf ? (double)INFINITY : kind == W_nan ? (double)NAN : 0.0;
  if (kind == T_FLOAT) {
    const char *s = digits(lw, e);
    v = d == ANF_F32 || d == ANF_C64 ? (double)anfi_read_f32(s, NULL) : anfi_read_f64(s, NULL);
    if (isinf(v) && isinf(anfi_read_f64(s, NULL)))
      anfi_fail(lw->cx, anfi_anf_loc(lw, e), ANF_E0106);
  }
  return e->op & 0x80 ? -v : v;
}

static uint64_t int_max(anf_dtype d, bool negative) {
  unsigned bits = (unsigned)anf_dtype_bytes(d) * 8;
  if (anfi_dtype_class(d) == ANFI_CLASS_UNSIGNED || d == ANF_KEY)
    return negative ? 0 : bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
  return ((uint64_t)1 << (bits - 1)) - (negative ? 0 : 1);
}

static bool check_int(lower *lw, const ast *e, anf_dtype d) {
  if (e->u.u64 <= int_max(d, e->op)) return true;
  anfi_fail(lw->cx, anfi_anf_loc(lw, e), ANF_E0106);
  anfi_hint(lw->cx, "integers of type %s end at %s%llu", d == ANF_INT ? "i64" : anf_dtype_name(d),
            e->op ? "-" : "", (unsigned long long)int_max(d, e->op));
  return false;
}

static int64_t int_value(const ast *e) { return (int64_t)(e->op ? 0 - e->u.u64 : e->u.u64); }

/* Writes a literal as element i; false when it is none, or has an error. */
static bool set_number(lower *lw, const ast *e, anf_value *v, size_t i) {
  anf_dtype d = (anf_dtype)v->type->dtype;
  bool whole = anfi_dtype_is_int(d) || d == ANF_KEY;
  if (e->kind == A_WORD && e->op != W_None) return anfi_set_i64(v, i, e->op == W_true), true;
  if (e->kind == A_INT && whole)
    return check_int(lw, e, d) && (anfi_set_i64(v, i, int_value(e)), true);
  if (e->kind == A_INT && d == ANF_BOOL) return anfi_set_i64(v, i, e->u.u64 != 0), true;
  if (e->kind == A_INT) {
    double x = (double)e->u.u64;
    if (d == ANF_F32 || d == ANF_C64) x = (double)(float)e->u.u64; // once
    return anfi_set_f64(v, i, e->op ? -x : x), true;
  }
  if (e->kind == A_FLOAT) return anfi_set_f64(v, i, float_value(lw, e, d)), true;
  return false;
}

anf_node *anfi_anf_number(lower *lw, const ast *e, anf_dtype d) {
  if (e->kind == A_INT && !check_int(lw, e, d)) return lw->bad;
  if (e->kind == A_INT) return anfi_value(lw->m, anfi_value_new_i64(lw->cx, d, int_value(e)));
  return anfi_value(lw->m, anfi_value_new_f64(lw->cx, d, float_value(lw, e, d)));
}

/* ---- nested lists ---- */

typedef struct {
  int64_t dims[ANF_MAX_RANK];
  size_t rank;
  ANFI_VEC(const ast *) items;
} listing;

/* Shape and items in row-major order; every list of one depth must have the same length. */
static bool flatten(lower *lw, const ast *e, size_t depth, listing *l) {
  if (e->kind != A_LIST) {
    if (depth != l->rank) return anfi_fail(lw->cx, anfi_anf_loc(lw, e), ANF_E0118);
    anfi_push(lw->p->a, &l->items, e);
    return true;
  }
  if (depth == l->rank) return anfi_fail(lw->cx, anfi_anf_loc(lw, e), ANF_E0118);
  if (e->n != (uint64_t)l->dims[depth]) return anfi_fail(lw->cx, anfi_anf_loc(lw, e), ANF_E0118);
  for (uint32_t i = 0; i < e->n; i++)
    if (!flatten(lw, e->kid[i], depth + 1, l)) return false;
  return true;
}

static bool flatten_list(lower *lw, const ast *e, listing *l) {
  for (const ast *k = e; k && k->kind == A_LIST; k = k->n ? k->kid[0] : NULL) {
    if (l->rank == ANF_MAX_RANK)
      return anfi_fail(lw->cx, anfi_anf_loc(lw, k), ANF_E0122, (int)ANF_MAX_RANK);
    l->dims[l->rank++] = k->n;
  }
  return flatten(lw, e, 0, l);
}

static bool is_literal(const ast *e) {
  return e->kind == A_INT || e->kind == A_FLOAT || (e->kind == A_WORD && e->op != W_None);
}

/* The element type of literals alone: f64 if any is real, else i64, or bool if all are bools. */
static anf_dtype literal_dtype(const listing *l) {
  anf_dtype d = l->items.n ? ANF_BOOL : ANF_F64;
  for (size_t i = 0; i < l->items.n; i++) {
    if (l->items.at[i]->kind == A_FLOAT) d = ANF_F64;
    if (l->items.at[i]->kind == A_INT && d == ANF_BOOL) d = ANF_I64;
  }
  return d;
}

static bool all_literals(const listing *l) {
  for (size_t i = 0; i < l->items.n; i++)
    if (!is_literal(l->items.at[i])) return false;
  return true;
}

/* A tensor constant. The module holds the value before it is filled. */
static anf_node *tensor_of(lower *lw, const anf_type *t, const listing *l) {
  anf_value *v = anfi_value_new_tensor(lw->cx, t);
  anf_node *n = anfi_value(lw->m, v);
  for (size_t i = 0; i < l->items.n; i++)
    if (!set_number(lw, l->items.at[i], v, i)) return lw->bad;
  return n;
}

/* The promoted type of constant items; false if one is no scalar constant. */
static bool constant_dtype(const lower *lw, size_t n, anf_node *const *items, anf_dtype *d) {
  for (size_t i = 0; i < n; i++) {
    if (items[i] == lw->bad || !anfi_anf_is_const(items[i])) return false;
    const anf_value *v = items[i]->u.value;
    if (v->kind != ANF_VALUE_TENSOR || v->type->n) return false;
    if (anfi_dtype_class((anf_dtype)v->type->dtype) == ANFI_CLASS_COMPLEX) return false;
    if (i == 0) *d = (anf_dtype)v->type->dtype;
    else if (!anfi_dtype_promote(*d, (anf_dtype)v->type->dtype, d)) return false;
  }
  *d = anfi_dtype_settle(*d);
  return n > 0;
}

static anf_node *constants(lower *lw, const listing *l, anf_node *const *items, anf_dtype d) {
  anf_value *v = anfi_value_new_tensor(lw->cx, anfi_type_tensor(lw->cx, d, l->rank, l->dims));
  anf_node *n = anfi_value(lw->m, v);
  for (size_t i = 0; i < v->n; i++) {
    anf_value *x = items[i]->u.value;
    if (anfi_dtype_is_float((anf_dtype)x->type->dtype)) anfi_set_f64(v, i, anfi_get_f64(x, 0));
    else anfi_set_i64(v, i, anfi_get_i64(x, 0));
  }
  return n;
}

/* Not constant: stacked, innermost lists first. */
static anf_node *stack(lower *lw, const ast *e, const listing *l, size_t depth,
                       anf_node *const **items) {
  if (depth == l->rank) return *(*items)++;
  size_t n = (size_t)l->dims[depth];
  anf_node **in = ANFI_NEW_N(lw->p->a, anf_node *, n);
  for (size_t i = 0; i < n; i++)
    in[i] = stack(lw, e->kind == A_LIST ? e->kid[i] : e, l, depth + 1, items);
  return anfi_anf_apply(lw, e, "Stack", n, in);
}

anf_node *anfi_anf_list(lower *lw, const ast *e) {
  listing l = {0};
  if (!flatten_list(lw, e, &l)) return lw->bad;
  anf_dtype d = literal_dtype(&l);
  if (all_literals(&l)) return tensor_of(lw, anfi_type_tensor(lw->cx, d, l.rank, l.dims), &l);
  anf_node **items = ANFI_NEW_N(lw->p->a, anf_node *, l.items.n);
  bool bad = false;
  for (size_t i = 0; i < l.items.n; i++) {
    items[i] = anfi_anf_expr(lw, l.items.at[i]);
    bad |= items[i] == lw->bad;
  }
  if (bad) return lw->bad;
  if (constant_dtype(lw, l.items.n, items, &d)) return constants(lw, &l, items, d);
  anf_node *const *at = items;
  return stack(lw, e, &l, 0, &at);
}

/* ---- typed constants ---- */

static bool set_complex(lower *lw, const ast *re, const ast *im, anf_value *v, size_t i) {
  bool good = is_literal(re) && is_literal(im);
  return good && set_number(lw, re, v, 2 * i) && set_number(lw, im, v, 2 * i + 1);
}

static anf_node *complex_scalar(lower *lw, const ast *call, const anf_type *t) {
  anf_value *v = anfi_value_new_tensor(lw->cx, t);
  anf_node *n = anfi_value(lw->m, v);
  return set_complex(lw, call->kid[0], call->kid[1], v, 0) ? n : NULL;
}

static bool same_dims(const anf_type *t, const listing *l) {
  if (t->n != l->rank) return false;
  for (size_t i = 0; i < l->rank; i++)
    if (t->dims[i] != l->dims[i]) return false;
  return true;
}

static bool fill_typed(lower *lw, const listing *l, anf_value *v) {
  bool complex = anfi_dtype_class((anf_dtype)v->type->dtype) == ANFI_CLASS_COMPLEX;
  for (size_t i = 0; i < l->items.n; i++) {
    const ast *e = l->items.at[i];
    bool good = complex && e->kind == A_TUPLE && e->n == 2
                    ? set_complex(lw, e->kid[0], e->kid[1], v, i)
                : complex ? false
                          : set_number(lw, e, v, i);
    if (!good)
      return anfi_failed(lw->cx) ? false : anfi_fail(lw->cx, anfi_anf_loc(lw, e), ANF_E0119);
  }
  return true;
}

static void hint_typed(anf_ctx *cx) {
  anfi_hint(cx, "typed constants are f32(0.5), f32[2]([1, 2]), c64(1.0, -2.0)");
}

/* f32[2, 3]([[...], [...]]); a tensor without elements is written [] whatever its shape. */
static anf_node *typed_tensor(lower *lw, const ast *e, const anf_type *t, const ast *list) {
  size_t n;
  listing l = {0};
  if (!anfi_type_elements(t, &n)) {
    anfi_fail(lw->cx, anfi_anf_loc(lw, e), ANF_E0121);
    return lw->bad;
  }
  if (!flatten_list(lw, list, &l)) return lw->bad;
  if (!same_dims(t, &l) && (n || l.items.n)) {
    anfi_fail(lw->cx, anfi_anf_loc(lw, list), ANF_E0118);
    return lw->bad;
  }
  anf_value *v = anfi_value_new_tensor(lw->cx, t);
  anf_node *node = anfi_value(lw->m, v);
  return fill_typed(lw, &l, v) ? node : lw->bad;
}

static anf_node *cast(lower *lw, const ast *e, anf_node *x, const anf_type *t) {
  anfi_opcode op = anfi_op_find(lw->cx, "Cast", 4);
  if (x == lw->bad) return x;
  if (op == ANF_OP_NONE) {
    anfi_fail(lw->cx, anfi_anf_loc(lw, e), ANF_E0201, "Cast");
    return x;
  }
  anf_value *v = anfi_value_new_type(lw->cx, t);
  anfi_hold(lw->m, v);
  const anfi_attrs *at = NULL;
  if (!anfi_attrs_new(lw->m, op, &v, anfi_anf_loc(lw, e), &at)) return lw->bad;
  return anfi_anf_at(lw, anfi_apply(lw->g, op, at, 1, &x), e);
}

anf_node *anfi_anf_typed(lower *lw, const ast *e, const anf_type *t, const ast *call) {
  bool complex = anfi_dtype_class((anf_dtype)t->dtype) == ANFI_CLASS_COMPLEX;
  anf_node *n = NULL;
  if (call->n == 2 && complex && !t->n) n = complex_scalar(lw, call, t);
  else if (call->n == 1 && t->n && call->kid[0]->kind == A_LIST)
    n = typed_tensor(lw, e, t, call->kid[0]);
  else if (call->n == 1 && !t->n && !complex && is_literal(call->kid[0])) {
    anf_value *v = anfi_value_new_tensor(lw->cx, t);
    n = anfi_value(lw->m, v);
    if (!set_number(lw, call->kid[0], v, 0)) n = lw->bad;
  } else if (call->n == 1 && !t->n && call->kid[0]->kind != A_KEYWORD)
    n = cast(lw, e, anfi_anf_expr(lw, call->kid[0]), t);
  if (n) return n;
  anfi_fail(lw->cx, anfi_anf_loc(lw, call), ANF_E0119);
  hint_typed(lw->cx);
  return lw->bad;
}

const anf_type *anfi_anf_dims(lower *lw, anf_dtype d, const ast *index) {
  int64_t dims[ANF_MAX_RANK];
  if (index->n > ANF_MAX_RANK)
    return (void)anfi_fail(lw->cx, anfi_anf_loc(lw, index), ANF_E0122, (int)ANF_MAX_RANK), NULL;
  for (uint32_t i = 0; i < index->n; i++) {
    const ast *e = index->kid[i];
    if (e->kind == A_HOLE) dims[i] = ANF_DIM_UNKNOWN;
    else if (e->kind == A_INT && !e->op && e->u.u64 <= INT64_MAX) dims[i] = (int64_t)e->u.u64;
    else if (e->kind == A_NAME)
      dims[i] = anfi_dim_symbol(lw->cx, anfi_word_name(&lw->cx->strings, e->u.word));
    else {
      anfi_fail(lw->cx, anfi_anf_loc(lw, e), ANF_E0121);
      if (e->kind == A_FLOAT || e->op) hint_typed(lw->cx);
      return NULL;
    }
  }
  const anf_type *t = anfi_type_checked(lw->cx, d, index->n, dims);
  if (!t) anfi_fail(lw->cx, anfi_anf_loc(lw, index), ANF_E0122, (int)ANF_MAX_RANK);
  return t;
}
