// SPDX-License-Identifier: Apache-2.0
/* Batch-reduce GEMM of the interpreter: the reference that kernels are tested against. */
#include "backend/tir/interp/machine.h"
#include "backend/kernel/kernel.h"

#include <math.h>

typedef struct gemm {
  int64_t m, n, k, lda, ldb, ldc, sa, sb;
  tdtype ta, tb, tc;
  int64_t flags; // as anfi_gemm_flags has them
} gemm;

typedef struct gemm_ptrs {
  uint64_t a, b, c, bias, scales, rhs;
  int64_t num, len;
  bool list;
} gemm_ptrs;

static imem_error elem(imachine *m, uint64_t p, tdtype d, int64_t at, double *v) {
  uint64_t bits;
  if (!anfi_t_mem_move(&m->mem, &p, at * (int64_t)anfi_t_bytes(d))) return IM_RANGE;
  imem_error e = anfi_t_mem_read(&m->mem, p, anfi_t_bytes(d), &bits);
  if (!e) *v = anfi_t_lane_f64(d, bits);
  return e;
}
static imem_error pointer_at(imachine *m, uint64_t p, int64_t at, uint64_t *v) {
  if (!anfi_t_mem_move(&m->mem, &p, at * 8)) return IM_RANGE;
  return anfi_t_mem_read(&m->mem, p, 8, v);
}

/* Where B[k, j] is. */
static int64_t at_b(const gemm *g, int64_t k, int64_t j) {
  int64_t steps = g->flags & GEMM_VNNI ? anfi_vnni_group(g->tb.elem) : 1;
  return k / steps * steps * g->ldb + j * steps + k % steps;
}

static imem_error dot(imachine *m, const gemm *g, const gemm_ptrs *p, int64_t i, int64_t j,
                      double *acc) {
  bool pairs = anfi_sums_pairs(g->ta.elem, g->tb.elem, g->tc.elem),
       f32 = g->tc.elem == ANF_TIR_f32 || pairs;
  for (int64_t b = 0; b < p->num * (p->list ? p->len : 1); b++) {
    uint64_t pa = p->a, pb = p->b;
    int64_t ba = b * g->sa, bb = b * g->sb;
    imem_error e = IM_OK;
    if (p->list) { // list entry l holds `num` blocks, stride apart
      e = pointer_at(m, p->a, b / p->num, &pa);
      if (!e) e = pointer_at(m, p->b, b / p->num, &pb);
      ba = b % p->num * g->sa, bb = b % p->num * g->sb;
    }
    for (int64_t nth = 0; nth < g->k && !e; nth++) {
      double x = 0, y = 0;
      int64_t k = pairs && (nth | 1) < g->k ? nth ^ 1 : nth;
      e = elem(m, pa, g->ta, ba + (g->flags & GEMM_TA ? k * g->lda + i : i * g->lda + k), &x);
      if (!e) e = elem(m, pb, g->tb, bb + at_b(g, k, j), &y);
      *acc = f32 ? (double)fmaf((float)x, (float)y, (float)*acc) : fma(x, y, *acc);
    }
    if (e) return e;
  }
  return IM_OK;
}

static double binary_post(int64_t alg, double x, double y) {
  return alg == 1 ? x + y : alg == 2 ? x * y : alg == 3 ? fmax(x, y) : fmin(x, y);
}

/* Each step is rounded, as a kernel has it in registers. */
static double step_of(const gemm *g, double x) {
  if (g->tc.elem == ANF_TIR_bf16 && anfi_sums_pairs(g->ta.elem, g->tb.elem, g->tc.elem))
    return (double)anfi_bf16_to_f32(anfi_f32_to_bf16((float)x));
  return g->tc.elem == ANF_TIR_f32 ? (double)(float)x : x;
}

static imem_error gemm_element(imachine *m, const gemm *g, const gemm_ptrs *p, int64_t i,
                               int64_t j) {
  double acc = 0, y = 0;
  imem_error e = IM_OK;
  if (!(g->flags & 1)) e = elem(m, p->c, g->tc, i * g->ldc + j, &acc);
  if (!e) e = dot(m, g, p, i, j, &acc);
  if (!e && g->flags & GEMM_BIAS_IN) {
    e = elem(m, p->bias, g->tc, j, &y);
    acc = (double)(float)(acc + y);
  }
  acc = step_of(g, acc);
  if (!e && g->flags & 4) {
    e = elem(m, p->scales, anfi_t_dt(ANF_TIR_f32), j, &y);
    acc = step_of(g, acc * y);
  }
  if (!e && (g->flags & (GEMM_BIAS | GEMM_BIAS_IN)) == GEMM_BIAS) {
    e = elem(m, p->bias, g->tc, j, &y);
    acc = step_of(g, acc + y);
  }
  if (!e && (g->flags >> 4 & 7)) {
    e = elem(m, p->rhs, g->tc, i * g->ldc + j, &y);
    acc = step_of(g, binary_post(g->flags >> 4 & 7, acc, y));
  }
  if (e) return e;
  if (g->flags & 8 && acc < 0) acc = 0;
  uint64_t at = p->c;
  if (!anfi_t_mem_move(&m->mem, &at, (i * g->ldc + j) * (int64_t)anfi_t_bytes(g->tc)))
    return IM_RANGE;
  return anfi_t_mem_write(&m->mem, at, anfi_t_bytes(g->tc), anfi_t_lane_of_f64(g->tc, acc));
}

static bool run_gemm(imachine *m, const ins *i, const gemm *g, const gemm_ptrs *p) {
  for (int64_t x = 0; x < g->m; x++)
    for (int64_t y = 0; y < g->n; y++) {
      imem_error e = gemm_element(m, g, p, x, y);
      if (e) return anfi_im_mem_fail(m, i, e);
    }
  return true;
}

static int64_t int_arg(imachine *m, texpr e, const uint32_t *arg, uint32_t k) {
  return anfi_t_lane_i64(e->in[k]->dtype, anfi_im_regs(m)[arg[k]]);
}

bool anfi_im_brgemm(imachine *m, const ins *i, texpr e, const uint32_t *arg) {
  bool list = i->sub == TI_list_brgemm;
  uint32_t slot = list ? 13 : 12;
  int64_t v[12];
  for (uint32_t k = 3; k < 12; k++) v[k] = int_arg(m, e, arg, k);
  for (uint32_t k = TSLOT_binary_rhs + 1; k < TSLOT_COUNT; k++)
    if (!anfi_t_is_void(e->in[slot + k]->dtype))
      return anfi_im_fail(m, e, false, ANF_E0859, "this post-operation of brgemm");
  int64_t types[3] = {0};
  for (uint32_t k = 0; k < 3; k++) types[k] = e->in[k]->dtype.elem;
  gemm g = {v[4],
            v[5],
            v[6],
            v[7],
            v[8],
            v[9],
            v[10],
            v[11],
            anfi_t_dt((anf_tir_elem)types[0]),
            anfi_t_dt((anf_tir_elem)types[1]),
            anfi_t_dt((anf_tir_elem)types[2]),
            anfi_gemm_flags(e->u.attrs)};
  if (list) g.ta = g.tb = anfi_t_dt((anf_tir_elem)types[2]);
  uint64_t *r = anfi_im_regs(m);
  gemm_ptrs p = {r[arg[0]],
                 r[arg[1]],
                 r[arg[2]],
                 r[arg[slot]],
                 r[arg[slot + 1]],
                 r[arg[slot + 2]],
                 v[3],
                 list ? int_arg(m, e, arg, 12) : 1,
                 list};
  return run_gemm(m, i, &g, &p);
}

bool anfi_im_kernel_call(imachine *m, const ins *i, const uint64_t *v, bool list) {
  uint64_t k[12], p = v[0];
  for (int x = 0; x < 12; x++) {
    imem_error e = anfi_t_mem_read(&m->mem, p, 8, &k[x]);
    if (e) return anfi_im_mem_fail(m, i, e);
    if (!anfi_t_mem_move(&m->mem, &p, 8)) return anfi_im_mem_fail(m, i, IM_RANGE);
  }
  gemm g = {(int64_t)k[0],
            (int64_t)k[1],
            (int64_t)k[2],
            (int64_t)k[3],
            (int64_t)k[4],
            (int64_t)k[5],
            (int64_t)k[6],
            (int64_t)k[7],
            anfi_t_dt((anf_tir_elem)(k[8] & 15)),
            anfi_t_dt((anf_tir_elem)(k[9] & 15)),
            anfi_t_dt((anf_tir_elem)(k[10] & 15)),
            (int64_t)k[11]};
  if (list) g.ta = g.tb = g.tc;
  uint32_t at = list ? 6 : 5;
  gemm_ptrs ptr = {
      v[1], v[2], v[3], v[at], v[at + 1], v[at + 2], (int64_t)v[4], list ? (int64_t)v[5] : 1, list};
  return run_gemm(m, i, &g, &ptr);
}

bool anfi_im_kernel(imachine *m, const ins *i, const uint64_t *v, uint64_t *out) {
  uint64_t p = anfi_t_mem_block(&m->mem, NULL, 12 * 8 + 8, true), at = p;
  if (!p) return anfi_im_fail(m, i->node, false, ANF_E0857, "kernel");
  for (int k = 0; k < 12; k++) {
    anfi_t_mem_write(&m->mem, at, 8, v[k]);
    anfi_t_mem_move(&m->mem, &at, 8);
  }
  *out = p;
  return true;
}
