// SPDX-License-Identifier: Apache-2.0
/* Derivatives of exchanges between ranks that no formula gives.
 *   y = ReduceScatter(x, ranks=n, mean=true)    ->    dx = AllGather(dy, ranks=n) / n */
#include "autodiff/derive/derive.h"
#include "ir/ops/op.h"

bool anfi_vjp_reduce_scatter(anfi_derive *q) {
  bool mean = anfi_attr_bool(anfi_derive_attr(q, "mean"));
  q->out[0] = mean ? anfi_derive_build0(q, "(Div (AllGather dy ranks=ranks) ranks)")
                   : anfi_derive_build0(q, "(AllGather dy ranks=ranks)");
  return q->out[0] != NULL;
}
