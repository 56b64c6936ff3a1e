// SPDX-License-Identifier: Apache-2.0
/* One op: elementwise ones by write.def, others by write_shape.c, write_product.c, write_index.c and write_window.c.
 *   Add(x, f32(1)) of x: f32[2]   ->   %2 = stablehlo.broadcast_in_dim %1 ..; %3 = stablehlo.add %x, %2 : .. */
#include "frontend/stablehlo/write.h"

typedef enum { kind_any, kind_floats, kind_meet } kind;
typedef struct {
  uint16_t op;
  const char *name;
  kind kind;
} row;

static const row rows[] = {
#define STABLEHLO_OP(op, name, kind) {ANF_OP_##op, name, kind_##kind},
#include "frontend/stablehlo/write.def"
#undef STABLEHLO_OP
};

/* ---- what the ops read ---- */

anf_value *anfi_sw_attr(const anfi_sw_apply *a, const char *name) {
  int k = anfi_attr_index(a->w->cx, (anfi_opcode)a->n->op, name);
  return k < 0 ? NULL
               : anfi_attr_value(a->w->cx, (anfi_opcode)a->n->op, a->n->u.attrs, (uint32_t)k);
}

bool anfi_sw_true(const anfi_sw_apply *a, const char *name) {
  const anf_value *v = anfi_sw_attr(a, name);
  return v && v->kind == ANF_VALUE_TENSOR && anfi_get_i64(v, 0) != 0;
}

int64_t anfi_sw_axis(const anfi_sw_apply *a, const char *name, size_t rank) {
  const anf_value *v = anfi_sw_attr(a, name);
  if (!v || v->kind != ANF_VALUE_TENSOR) return -1;
  int64_t k = anfi_get_i64(v, 0);
  return k < 0 ? k + (int64_t)rank : k;
}

const anfi_out *anfi_sw_in(anfi_sw_apply *a, uint32_t i) {
  const anfi_out *x = anfi_flat_operand(a->w, a->n->in[i].def);
  if (x && (!x->name || !*x->name))
    return (void)anfi_flat_refuse(a->w, a->n, "what is no tensor, as an input of",
                                  anfi_op_of(a->n)->name),
           NULL;
  return x;
}

const anfi_out *anfi_sw_in_as(anfi_sw_apply *a, uint32_t i, anf_dtype d) {
  const anfi_out *x = anfi_sw_in(a, i);
  return x ? anfi_sw_cast(a->w, x, d) : NULL;
}

anf_dtype anfi_sw_result_dtype(const anfi_sw_apply *a) {
  const anf_type *t = a->n->type;
  while (t && t->kind == ANF_TYPE_TUPLE && t->n) t = t->items[0];
  return t && anfi_is_tensor(t) ? anfi_dtype_settle((anf_dtype)t->dtype) : ANF_KEY;
}

/* ---- elementwise ops ---- */

/* The element type in which operands meet: numbers without one take that of the others. */
static bool meeting(const anfi_sw_apply *a, uint32_t from, anf_dtype *d) {
  for (uint32_t i = from; i < anfi_arg_count(a->n); i++) {
    anf_dtype both = (anf_dtype)anfi_flat_type_of(a->n->in[i].def)->dtype;
    if (i > from && !anfi_dtype_promote(*d, both, &both)) return false;
    *d = both;
  }
  *d = anfi_dtype_settle(*d);
  return true;
}

/* Input i in this element type and the shape of the result. */
static const anfi_out *spread(anfi_sw_apply *a, uint32_t i, anf_dtype d) {
  const anfi_out *x = anfi_sw_in_as(a, i, d);
  return x ? anfi_sw_broadcast(a->w, x, a->n->type->n, a->n->type->dims) : NULL;
}

static const anfi_out *elementwise(anfi_sw_apply *a, const row *r) {
  anf_dtype d = anfi_sw_result_dtype(a);
  const char *own = anfi_op_of(a->n)->name;
  anfi_class c = d == ANF_KEY ? ANFI_CLASS_KEY : anfi_dtype_class(d);
  if (r->kind == kind_floats && c != ANFI_CLASS_FLOAT && c != ANFI_CLASS_COMPLEX)
    return (void)anfi_flat_refuse(a->w, a->n, "integers as a result of", own), NULL;
  if ((r->kind == kind_meet || strncmp(own, "Logical", 7) == 0) && !meeting(a, 0, &d)) return NULL;
  if (a->n->op == ANF_OP_Abs) d = (anf_dtype)anfi_flat_type_of(a->n->in[0].def)->dtype; // complex
  if (strncmp(own, "Logical", 7) == 0) d = ANF_BOOL;
  const anfi_out *x = spread(a, 0, d), *y = NULL;
  if (x && anfi_arg_count(a->n) > 1) y = spread(a, 1, d);
  if (!x || (anfi_arg_count(a->n) > 1 && !y)) return NULL;
  if (r->kind == kind_meet) return anfi_sw_compare(a->w, r->name, x, y);
  if (y) return anfi_sw_binary(a->w, r->name, x, y);
  const anf_type *t = anfi_sw_tensor(a->w, (anf_dtype)a->n->type->dtype, x->type->n, x->type->dims);
  bool chlo = strncmp(r->name, "chlo", 4) == 0;
  if (!chlo && t == x->type) return anfi_sw_unary(a->w, r->name, x);
  return anfi_sw_put(a->w, t, "%s %s : %s -> %s", r->name, x->name,
                     chlo ? anfi_sw_type(a->w, x->type)
                          : anfi_sprintf(a->w->arena, "(%s)", anfi_sw_type(a->w, x->type)),
                     anfi_sw_type(a->w, t));
}

static const anfi_out *where(anfi_sw_apply *a) {
  anf_dtype d = anfi_sw_result_dtype(a);
  const anfi_out *c = spread(a, 0, ANF_BOOL), *x = c ? spread(a, 1, d) : NULL,
                 *y = x ? spread(a, 2, d) : NULL;
  return y ? anfi_sw_select(a->w, c, x, y) : NULL;
}

/* Of the same width; the bits beyond the width shift all out. */
static const anfi_out *shifted(anfi_sw_apply *a) {
  anf_dtype d = anfi_sw_result_dtype(a);
  bool is_signed = anfi_dtype_class(d) == ANFI_CLASS_SIGNED;
  const anfi_out *x = spread(a, 0, d), *by = x ? spread(a, 1, d) : NULL;
  const char *op = a->n->op == ANF_OP_ShiftLeft ? "stablehlo.shift_left"
                   : is_signed                  ? "stablehlo.shift_right_arithmetic"
                                                : "stablehlo.shift_right_logical";
  return by ? anfi_sw_binary(a->w, op, x, by) : NULL;
}

/* The quotient cut off, less 1 where a remainder has the other sign than b. */
static const anfi_out *floor_divided(anfi_sw_apply *a) {
  anf_dtype d = anfi_sw_result_dtype(a);
  anfi_flat *w = a->w;
  const anfi_out *x = spread(a, 0, d), *y = x ? spread(a, 1, d) : NULL;
  if (!y) return NULL;
  const anfi_out *q = anfi_sw_binary(w, "stablehlo.divide", x, y);
  if (anfi_dtype_class(d) == ANFI_CLASS_UNSIGNED) return q;
  const anf_type *t = x->type;
  const anfi_out *zero = anfi_sw_broadcast(w, anfi_sw_int(w, d, 0), t->n, t->dims),
                 *one = anfi_sw_broadcast(w, anfi_sw_int(w, d, 1), t->n, t->dims);
  const anfi_out *r = anfi_sw_binary(w, "stablehlo.remainder", x, y);
  const anfi_out *some = anfi_sw_compare(w, "NE", r, zero);
  const anfi_out *down = anfi_sw_compare(w, "LT", r, zero);
  const anfi_out *below = anfi_sw_compare(w, "LT", y, zero);
  const anfi_out *other = anfi_sw_compare(w, "NE", down, below);
  const anfi_out *less = anfi_sw_binary(w, "stablehlo.subtract", q, one);
  return anfi_sw_select(w, anfi_sw_binary(w, "stablehlo.and", some, other), less, q);
}

static const anfi_out *complex_op(anfi_sw_apply *a) {
  anfi_flat *w = a->w;
  anf_dtype d = anfi_sw_result_dtype(a), part = d == ANF_C128 ? ANF_F64 : ANF_F32;
  const anf_type *t = anfi_sw_tensor(w, d, a->n->type->n, a->n->type->dims);
  if (a->n->op == ANF_OP_MakeComplex) {
    const anfi_out *re = spread(a, 0, part), *im = re ? spread(a, 1, part) : NULL;
    return im ? anfi_sw_put(w, t, "stablehlo.complex %s, %s : %s", re->name, im->name,
                            anfi_sw_type(w, t))
              : NULL;
  }
  const anfi_out *x = anfi_sw_in(a, 0);
  if (!x) return NULL;
  return anfi_sw_put(w, t, "stablehlo.%s %s : (%s) -> %s",
                     a->n->op == ANF_OP_Real ? "real" : "imag", x->name, anfi_sw_type(w, x->type),
                     anfi_sw_type(w, t));
}

static const anfi_out *finite(anfi_sw_apply *a) {
  const anfi_out *x = anfi_sw_in(a, 0);
  if (!x) return NULL;
  const anf_type *t = anfi_sw_tensor(a->w, ANF_BOOL, x->type->n, x->type->dims);
  return anfi_sw_put(a->w, t, "stablehlo.is_finite %s : (%s) -> %s", x->name,
                     anfi_sw_type(a->w, x->type), anfi_sw_type(a->w, t));
}

static const anfi_out *bits_of(anfi_sw_apply *a) {
  const anfi_out *x = anfi_sw_in(a, 0);
  if (!x) return NULL;
  const anf_type *t = anfi_sw_tensor(a->w, anfi_sw_result_dtype(a), x->type->n, x->type->dims);
  return anfi_sw_put(a->w, t, "stablehlo.bitcast_convert %s : (%s) -> %s", x->name,
                     anfi_sw_type(a->w, x->type), anfi_sw_type(a->w, t));
}

/* SwitchLayer(i, x, y, z): z, or y where i is 1, or x where i is 0 */
static const anfi_out *one_of_many(anfi_sw_apply *a) {
  anfi_flat *w = a->w;
  uint32_t last = (uint32_t)anfi_arg_count(a->n) - 1;
  const anfi_out *i = anfi_sw_in(a, 0), *y = i ? anfi_flat_operand(w, a->n->in[last].def) : NULL;
  if (y) i = anfi_sw_branch_number(w, i, last);
  for (uint32_t k = last; y && k-- > 1;) {
    const anfi_out *x = anfi_flat_operand(w, a->n->in[k].def);
    const anfi_out *here = anfi_sw_compare(w, "EQ", i, anfi_sw_int(w, ANF_I32, (int64_t)k - 1));
    y = x ? anfi_flat_choose(w, a->n, here, x, y) : NULL;
  }
  return y;
}

/* Ops that are several of the file; `*taken` is false for others. */
static const anfi_out *by_several(anfi_sw_apply *a, bool *taken) {
  *taken = true;
  switch (a->n->op) {
  case ANF_OP_SwitchLayer: return one_of_many(a);
  case ANF_OP_Cast: return anfi_sw_in_as(a, 0, anfi_sw_result_dtype(a));
  case ANF_OP_Where: return where(a);
  case ANF_OP_FloorDiv: return floor_divided(a);
  case ANF_OP_ShiftLeft:
  case ANF_OP_ShiftRight: return shifted(a);
  case ANF_OP_Real:
  case ANF_OP_Imag:
  case ANF_OP_MakeComplex: return complex_op(a);
  case ANF_OP_IsFinite: return finite(a);
  case ANF_OP_Bitcast: return bits_of(a);
  default: return *taken = false, NULL;
  }
}

const anfi_out *anfi_sw_op(anfi_flat *w, const anf_node *n) {
  bool taken;
  anfi_sw_apply a = {.w = w, .n = n};
  const anfi_out *x = by_several(&a, &taken);
  if (!taken) x = anfi_sw_shape_op(&a, &taken);
  if (!taken) x = anfi_sw_product_op(&a, &taken);
  if (!taken) x = anfi_sw_index_op(&a, &taken);
  if (!taken) x = anfi_sw_window_op(&a, &taken);
  if (taken || anfi_failed(w->cx)) return x;
  for (size_t i = 0; i < ANFI_LEN(rows); i++)
    if (rows[i].op == n->op) return elementwise(&a, &rows[i]);
  return (void)anfi_flat_refuse(w, n, "the op", anfi_op_of(n)->name), NULL;
}
