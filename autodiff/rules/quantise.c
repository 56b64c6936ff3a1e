// SPDX-License-Identifier: Apache-2.0
/* Pullbacks of quantised numbers.
 *   Dequantize       y = (q - zero) * scale             dscale = dy * (q - zero)
 *   FakeQuantize     straight through (Bengio et al.)   dx = dy where x is not clipped
 *                    learned step size (LSQ)            dscale = dy * (y - x) / scale, clipped: dy * y / scale
 * An element is clipped where a wider integer would give another result. */
#include "autodiff/derive/derive.h"
#include "ir/ops/op.h"

bool anfi_vjp_dequantize(anfi_derive *q) { // q scale zero?
  if (!anfi_derive_wants(q, 1)) return true;
  bool zero = q->n > 2 && q->in[2]->type->kind == ANF_TYPE_TENSOR;
  q->out[1] = zero ? anfi_derive_build0(q, "(Mul dy (Dequantize q (OnesLike scale) zero))")
                   : anfi_derive_build0(q, "(Mul dy (Dequantize q (OnesLike scale)))");
  return q->out[1] != NULL;
}

/* Bools: x is not clipped. */
static anf_node *inside(anfi_derive *q) {
  bool zero = q->n > 2 && q->in[2]->type->kind == ANF_TYPE_TENSOR;
  anf_value *wide = anfi_value_new_type(q->ad->m->cx, anfi_type_scalar(q->ad->m->cx, ANF_I32));
  anfi_value_guard(wide);
  return zero ? anfi_derive_build(q, "(Equal y (FakeQuantize x scale zero dtype=$0))", NULL, 1,
                                  &wide)
              : anfi_derive_build(q, "(Equal y (FakeQuantize x scale dtype=$0))", NULL, 1, &wide);
}

bool anfi_vjp_fake_quantize(anfi_derive *q) { // x scale zero?
  anf_node *in = inside(q);
  if (!in) return false;
  if (anfi_derive_wants(q, 0) &&
      !(q->out[0] = anfi_derive_build(q, "(Where @0 dy 0)", &in, 0, NULL)))
    return false;
  if (!anfi_derive_wants(q, 1)) return true;
  q->out[1] = anfi_derive_build(q, "(Mul dy (Div (Sub y (Where @0 x 0)) scale))", &in, 0, NULL);
  return q->out[1] != NULL;
}
