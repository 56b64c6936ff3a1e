// SPDX-License-Identifier: Apache-2.0
/* Pullbacks of elementwise ops that depend on a type or an attribute, such as Abs of a complex number:
 *   y = |z|                              dz = dy * z / |z|, 0 at 0 */
#include "autodiff/derive/derive.h"
#include "ir/ops/op.h"

static bool is_complex(const anfi_derive *q, size_t i) {
  return anfi_dtype_class((anf_dtype)anfi_derive_type(q, i)->dtype) == ANFI_CLASS_COMPLEX;
}

/* The direction of z, which at 0 is none. */
bool anfi_vjp_abs(anfi_derive *q) {
  q->out[0] = is_complex(q, 0) ? anfi_derive_build0(q, "(Mul dy (SafeDiv x y))")
                               : anfi_derive_build0(q, "(Mul dy (Sign x))");
  return q->out[0] != NULL;
}

/* Of a power with a constant exponent of 1 or more nothing is infinite that the base is not. */
static bool is_tame(const anfi_derive *q) {
  const anf_node *b = q->in[1];
  return b->kind == ANFI_VALUE && b->u.value->type->n == 0 && !is_complex(q, 1) &&
         anfi_get_f64(b->u.value, 0) >= 1;
}

bool anfi_vjp_power(anfi_derive *q) {
  if (anfi_derive_wants(q, 0)) {
    q->out[0] = is_tame(q)
                    ? anfi_derive_build0(q, "(Mul dy (Conj (Mul b (Power a (Sub b 1)))))")
                    : anfi_derive_build0(q, "(SafeMul dy (Conj (SafeMul b (Power a (Sub b 1)))))");
    if (!q->out[0]) return false;
  }
  if (!anfi_derive_wants(q, 1)) return true;
  // at a = 0 the logarithm is infinite where the power is constant: 0, or 1 at b = 0
  q->out[1] =
      anfi_derive_build0(q, "(SafeMul dy (Conj (SafeMul y (Log (Where (Equal a 0) 1 a)))))");
  return q->out[1] != NULL;
}

bool anfi_vjp_gelu(anfi_derive *q) {
  q->out[0] =
      anfi_attr_bool(anfi_derive_attr(q, "approximate"))
          ? anfi_derive_build0(
                q, "(Mul dy (Mul (Sigmoid (Mul x (Add 1.5957691216057308 (Mul 0.07135481627260025 "
                   "(Square x))))) (Add 1 (Mul (Mul x (Sub 1 (Sigmoid (Mul x (Add "
                   "1.5957691216057308 (Mul 0.07135481627260025 (Square x))))))) (Add "
                   "1.5957691216057308 (Mul 0.21406444881780074 (Square x)))))))")
          : anfi_derive_build0(
                q, "(Mul dy (Add (Mul 0.5 (Erfc (Mul x -0.7071067811865476))) (Mul x (Mul "
                   "0.3989422804014327 (Exp (Mul -0.5 (Square x)))))))");
  return q->out[0] != NULL;
}

bool anfi_vjp_softsign(anfi_derive *q) {
  q->out[0] = is_complex(q, 0)
                  ? anfi_derive_build0(
                        q, "(Sub (Div dy (Add 1 (Abs x))) (Mul (SafeDiv x (Abs x)) (Div (Real "
                           "(Mul (Conj x) dy)) (Square (Add 1 (Abs x))))))")
                  : anfi_derive_build0(q, "(Div dy (Square (Add 1 (Abs x))))");
  return q->out[0] != NULL;
}

bool anfi_vjp_polygamma(anfi_derive *q) {
  anf_value *v = anfi_derive_int(q, anfi_attr_int(anfi_derive_attr(q, "n")) + 1);
  q->out[0] = anfi_derive_build(q, "(Mul dy (Polygamma x n=$0))", NULL, 1, &v);
  return q->out[0] != NULL;
}
