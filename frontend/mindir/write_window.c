// SPDX-License-Identifier: Apache-2.0
/* Convolutions and pools: MindSpore has their attributes as four numbers each, ours have any length.
 *   Conv2D(x, w, stride=2)   ->   stride (1, 1, 2, 2), pad (0, 0, 0, 0), dilation (1, 1, 1, 1) */
#include "frontend/mindir/write.h"
#include "ir/ops/nn/window.h"

static bool put(anfi_mi_writer *w, const char *name, anf_value *v) {
  bool good = anfi_mi_put_attr(w, 3, name, v);
  anf_value_release(v);
  return good;
}

static bool put_ints(anfi_mi_writer *w, const char *name, size_t n, const int64_t *x) {
  return put(w, name, anfi_value_new_ints(w->cx, n, x));
}

static bool put_int(anfi_mi_writer *w, const char *name, int64_t x) {
  return put(w, name, anfi_value_new_i64(w->cx, ANF_INT, x));
}

static bool put_text(anfi_mi_writer *w, const char *name, const char *s) {
  return put(w, name, anfi_value_new_string(w->cx, s, strlen(s)));
}

bool anfi_mi_put_conv(anfi_mi_writer *w, const anf_node *n) {
  anfi_infer q = anfi_export_question(w->cx, w->arena, n);
  anfi_conv c;
  if (!anfi_conv_plan(&q, &c)) return false;
  const anfi_window *v = &c.win; // spatial dims are the last two of three
  const int64_t pad[] = {v->before[1], v->after[1], v->before[2], v->after[2]};
  const int64_t stride[] = {1, 1, v->stride[1], v->stride[2]};
  const int64_t dilation[] = {1, 1, v->dilation[1], v->dilation[2]};
  return put_ints(w, "kernel_size", 2, v->kernel + 1) && put_int(w, "mode", 1) &&
         put_int(w, "out_channel", c.groups * c.co) && put_text(w, "pad_mode", "pad") &&
         put_ints(w, "pad", 4, pad) && put_ints(w, "pad_list", 4, pad) &&
         put_text(w, "format", "NCHW") && put_int(w, "groups", c.groups) &&
         put_int(w, "group", c.groups) && put_ints(w, "stride", 4, stride) &&
         put_ints(w, "dilation", 4, dilation);
}

static bool pool_of(anfi_mi_writer *w, const anf_node *n, anfi_pool *p) {
  anfi_infer q = anfi_export_question(w->cx, w->arena, n);
  const anf_type *x = q.in[0];
  return x->n == 4 && anfi_pool_plan(&q, 2, x->dims + 2, false, p) && p->taps[1] && p->taps[2];
}

bool anfi_mi_pool_is_whole(anfi_mi_writer *w, const anf_node *n) {
  anfi_pool p;
  if (!pool_of(w, n, &p)) return false;
  for (size_t k = 1; k < 3; k++)
    if (p.first[k] != 0 || p.step[k] != 1 || p.in[k] < 0 ||
        (p.out[k] - 1) * p.stride[k] + p.taps[k] > p.in[k])
      return false;
  return true;
}

bool anfi_mi_put_pool(anfi_mi_writer *w, const anf_node *n) {
  anfi_pool p;
  if (!pool_of(w, n, &p)) return false;
  const int64_t kernel[] = {1, 1, p.taps[1], p.taps[2]},
                stride[] = {1, 1, p.stride[1], p.stride[2]};
  return put_ints(w, "kernel_size", 4, kernel) && put_ints(w, "strides", 4, stride) &&
         put_text(w, "pad_mode", "valid") && put_text(w, "format", "NCHW");
}
