// SPDX-License-Identifier: Apache-2.0
/* Pullbacks of the gradients of convolutions, pools and resizing.
 *   dx = ConvGradInput(dy, w):   adjoint of dy is Conv2D(adjoint of dx, w)
 * These are linear, so their pullbacks are their transposes: convolutions, pools and resizing again. Second order starts
 * here. */
#include "autodiff/derive/derive.h"
#include "ir/ops/op.h"

static size_t spatial(const anfi_derive *q) { return anfi_derive_type(q, 0)->n - 2; }

static anf_node *conv(anfi_derive *q, anf_node *x, anf_node *w) {
  anf_node *in[2] = {x, w};
  const char *f[3] = {
      "(Conv1D @0 @1 stride=stride padding=padding dilation=dilation groups=groups)",
      "(Conv2D @0 @1 stride=stride padding=padding dilation=dilation groups=groups)",
      "(Conv3D @0 @1 stride=stride padding=padding dilation=dilation groups=groups)"};
  return anfi_derive_build(q, f[spatial(q) - 1], in, 0, NULL);
}

bool anfi_vjp_conv_grad_input(anfi_derive *q) { // dy w: linear in both
  if (anfi_derive_wants(q, 0) && !(q->out[0] = conv(q, q->dy[0], q->in[1]))) return false;
  if (!anfi_derive_wants(q, 1)) return true;
  q->out[1] = anfi_derive_build0(q, "(ConvGradWeight dy in0 stride=stride padding=padding "
                                    "dilation=dilation groups=groups shape=(Shape in1))");
  return q->out[1] != NULL;
}

bool anfi_vjp_conv_grad_weight(anfi_derive *q) { // x dy
  if (anfi_derive_wants(q, 0)) {
    q->out[0] = anfi_derive_build0(q, "(ConvGradInput in1 dy stride=stride padding=padding "
                                      "dilation=dilation groups=groups shape=(Shape in0))");
    if (!q->out[0]) return false;
  }
  return !anfi_derive_wants(q, 1) || (q->out[1] = conv(q, q->in[0], q->dy[0])) != NULL;
}

/* ---- pools ---- */

#define AVG "stride=stride padding=padding ceil_mode=ceil_mode count_include_pad=count_include_pad"

/* The spatial dims of argument 0, as an attribute. */
static anf_value *spatial_shape(anfi_derive *q) {
  return anfi_derive_ints(q, spatial(q), anfi_derive_type(q, 0)->dims + 2);
}

bool anfi_vjp_pool_grad(anfi_derive *q) {
  static const char *const avg[3] = {"(AvgPool1D dy kernel=kernel " AVG ")",
                                     "(AvgPool2D dy kernel=kernel " AVG ")",
                                     "(AvgPool3D dy kernel=kernel " AVG ")"};
  static const char *const adaptive[3] = {"(AdaptiveAvgPool1D dy shape=$0)",
                                          "(AdaptiveAvgPool2D dy shape=$0)",
                                          "(AdaptiveAvgPool3D dy shape=$0)"};
  size_t k = spatial(q) - 1;
  if (q->op == ANF_OP_AvgPoolGrad) q->out[0] = anfi_derive_build0(q, avg[k]);
  else {
    if (!anfi_derive_static(q, 0)) return false;
    anf_value *v = spatial_shape(q);
    q->out[0] = anfi_derive_build(q, adaptive[k], NULL, 1, &v);
  }
  return q->out[0] != NULL;
}

bool anfi_vjp_resize_grad(anfi_derive *q) {
  if (!anfi_derive_static(q, 0)) return false;
  anf_value *v = spatial_shape(q);
  q->out[0] = anfi_derive_build(q, "(Resize dy shape=$0 mode=mode align_corners=align_corners)",
                                NULL, 1, &v);
  return q->out[0] != NULL;
}

/* x dy: the place that is chosen does not change when x does. */
bool anfi_vjp_max_pool_grad(anfi_derive *q) {
  if (!anfi_derive_wants(q, 1)) return true;
  q->out[1] = anfi_derive_build0(q, "(MaxPoolPick x dy kernel=kernel stride=stride padding=padding "
                                    "ceil_mode=ceil_mode dilation=dilation)");
  return q->out[1] != NULL;
}

/* The greatest elements of a plane share its dy. */
bool anfi_vjp_global_max_pool(anfi_derive *q) {
  int64_t axes[3] = {2, 3, 4};
  anf_value *v = anfi_derive_ints(q, spatial(q), axes);
  q->out[0] = anfi_derive_build(
      q, "(Where (Equal x y) (SafeDiv dy (CastLike (Sum (Equal x y) axis=$0 keepdims=true) dy)) 0)",
      NULL, 1, &v);
  return q->out[0] != NULL;
}
