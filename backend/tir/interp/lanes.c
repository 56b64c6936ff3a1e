// SPDX-License-Identifier: Apache-2.0
/* Instructions of the interpreter on lanes in registers: arithmetic, comparisons, casts, shuffles.
 *   a + b of f32x4   ->   four additions, registers d .. d+3 = a .. a+3 + b .. b+3 */
#include "backend/tir/interp/machine.h"

bool anfi_im_binary(imachine *m, const ins *i) {
  uint64_t *r = anfi_im_regs(m);
  for (uint32_t k = 0; k < i->n; k++)
    if (!anfi_t_lane_bin((tkind)i->sub, i->t, r[i->a + k], r[i->b + k], &r[i->d + k]))
      return anfi_im_fail(m, i->node, false, ANF_E0858, "");
  return true;
}

void anfi_im_lanewise(imachine *m, const ins *i) {
  uint64_t *r = anfi_im_regs(m);
  for (uint32_t k = 0; k < i->n; k++)
    r[i->d + k] = anfi_t_lane_intrin((tintrin)i->sub, i->t, r[i->a + k], r[i->b + k], r[i->c + k]);
}

/* Of f16 and bf16 in f32, rounded once. */
static void reduce(imachine *m, const ins *i, texpr e, uint32_t a) {
  uint64_t *r = anfi_im_regs(m), acc = 0, x;
  tdtype from = e->in[0]->dtype, d = anfi_t_accumulator(from);
  for (uint32_t k = 0; k < anfi_t_total(from); k++) {
    x = anfi_t_lane_cast(d, from, r[a + k]);
    if (!k) acc = x;
    else if (i->sub == TI_reduce_add) anfi_t_lane_bin(TX_add, d, acc, x, &acc);
    else if (i->sub == TI_reduce_mul) anfi_t_lane_bin(TX_mul, d, acc, x, &acc);
    else acc = anfi_t_lane_intrin(i->sub == TI_reduce_max ? TI_max : TI_min, d, acc, x, 0);
  }
  r[i->d] = anfi_t_lane_cast(from, d, acc);
}

/* Lane `pick` of a, b one after the other; picks wrap around. */
static uint64_t pick(const uint64_t *r, uint32_t a, uint32_t b, uint32_t lanes, uint64_t p) {
  p %= 2 * (uint64_t)lanes;
  return p < lanes ? r[a + p] : r[b + p - lanes];
}

static void unpack(imachine *m, const ins *i, texpr e, const uint32_t *arg) {
  uint64_t *r = anfi_im_regs(m);
  uint32_t lanes = e->dtype.lanes, w = (uint32_t)r[arg[2]],
           half = i->sub == TI_unpack_high ? lanes / 2 : 0;
  if (!w || w > lanes) w = 1;
  for (uint32_t k = 0; k < lanes; k++)
    r[i->d + k] = r[(k / w & 1 ? arg[1] : arg[0]) + (half + k / (2 * w) * w + k % w) % lanes];
}

static bool shuffles(imachine *m, const ins *i, texpr e, const uint32_t *arg) {
  uint64_t *r = anfi_im_regs(m);
  uint32_t lanes = anfi_t_total(e->dtype), from = anfi_t_total(e->in[0]->dtype);
  switch ((tintrin)i->sub) {
  case TI_shuffle:
    for (uint32_t k = 0; k < lanes; k++) r[i->d + k] = pick(r, arg[0], arg[1], from, r[arg[2 + k]]);
    return true;
  case TI_permute:
    for (uint32_t k = 0; k < lanes; k++) r[i->d + k] = r[arg[0] + r[arg[1 + k]] % from];
    return true;
  case TI_permutexvar:
    for (uint32_t k = 0; k < lanes; k++) r[i->d + k] = r[arg[1] + r[arg[0] + k] % lanes];
    return true;
  case TI_permutex2var:
    for (uint32_t k = 0; k < lanes; k++)
      r[i->d + k] = pick(r, arg[0], arg[2], lanes, r[arg[1] + k]);
    return true;
  case TI_insert: {
    uint32_t n = anfi_t_total(e->in[1]->dtype), at = (uint32_t)(r[arg[2]] % lanes);
    memcpy(r + i->d, r + arg[0], lanes * sizeof *r);
    for (uint32_t k = 0; k < n && at + k < lanes; k++) r[i->d + at + k] = r[arg[1] + k];
    return true;
  }
  case TI_extract:
    for (uint32_t k = 0; k < lanes; k++) r[i->d + k] = r[arg[0] + (r[arg[1]] + k) % from];
    return true;
  case TI_broadcast:
    for (uint32_t k = 0; k < lanes; k++) r[i->d + k] = r[arg[0] + k % from];
    return true;
  case TI_unpack_low:
  case TI_unpack_high: unpack(m, i, e, arg); return true;
  default: return false;
  }
}

bool anfi_im_intrinsic(imachine *m, const ins *i) {
  texpr e = (texpr)i->node;
  const uint32_t *arg = m->code->aux.at + i->a;
  uint64_t *r = anfi_im_regs(m);
  switch ((tintrin)i->sub) { /* dispatch */
  case TI_reduce_add:
  case TI_reduce_mul:
  case TI_reduce_max:
  case TI_reduce_min: reduce(m, i, e, arg[0]); return true;
  case TI_reinterpret:
  case TI_saturated_cast:
  case TI_round_and_cast:
    for (uint32_t k = 0; k < i->n; k++)
      r[i->d + k] = anfi_t_lane_convert((tintrin)i->sub, e->dtype, e->in[0]->dtype, r[arg[0] + k]);
    return true;
  case TI_read_struct:
  case TI_write_struct: return anfi_im_struct(m, i, e, arg);
  case TI_gather: return anfi_im_gather(m, i, e, arg);
  case TI_constant_load:
  case TI_volatile_load: memcpy(r + i->d, r + arg[0], i->n * sizeof *r); return true;
  case TI_prefetch: return true;
  case TI_brgemm:
  case TI_list_brgemm: return anfi_im_brgemm(m, i, e, arg);
  default:
    return shuffles(m, i, e, arg) ||
           anfi_im_fail(m, e, false, ANF_E0001, anfi_t_intrins[i->sub].name);
  }
}
