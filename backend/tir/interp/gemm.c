// SPDX-License-Identifier: Apache-2.0
/* brgemm in the interpreter of Tensor IR: the plain loop (base/brgemm_loop.h) over checked memory.
 *   LOAD_A(x, 5) of f32   ->   x = the float 20 bytes behind the block's start; outside of the tensor: error E0852 */
#include "backend/tir/interp/machine.h"

#include <math.h>

typedef struct product {
  anfi_brgemm size;
  bool list;
  uint64_t at[BRGEMM_COUNT]; // operands; those that are no sizes are addresses
} product;

static imem_error load(imachine *m, uint64_t p, int32_t type, int64_t at, double *v) {
  uint64_t bits;
  tdtype d = anfi_t_dt((anf_tir_elem)type);
  if (!anfi_t_mem_move(&m->mem, &p, at * (int64_t)anfi_t_bytes(d))) return IM_RANGE;
  imem_error e = anfi_t_mem_read(&m->mem, p, anfi_t_bytes(d), &bits);
  if (!e) *v = anfi_t_lane_f64(d, bits);
  return e;
}

static imem_error store(imachine *m, uint64_t p, int32_t type, int64_t at, double v) {
  tdtype d = anfi_t_dt((anf_tir_elem)type);
  if (!anfi_t_mem_move(&m->mem, &p, at * (int64_t)anfi_t_bytes(d))) return IM_RANGE;
  return anfi_t_mem_write(&m->mem, p, anfi_t_bytes(d), anfi_t_lane_of_f64(d, v));
}

/* The matrix of entry h of the batch, which starts `*at` blocks after it. */
static imem_error find_block(imachine *m, const product *p, uint32_t operand, int64_t h,
                             uint64_t *matrix, int64_t *at) {
  uint64_t entry = p->at[operand];
  *matrix = entry, *at = h;
  if (!p->list) return IM_OK;
  *at = h % p->size.num;
  if (!anfi_t_mem_move(&m->mem, &entry, h / p->size.num * 8)) return IM_RANGE;
  return anfi_t_mem_read(&m->mem, entry, 8, matrix);
}

static double round_bf16(double x) { return (double)anfi_bf16_to_f32(anfi_f32_to_bf16((float)x)); }

static imem_error run(imachine *m, const product *p) {
  const anfi_brgemm *g = &p->size;
  const bool pairs = anfi_sums_pairs(g->ta, g->tb, g->tc), f32 = g->tc == ANF_TIR_f32 || pairs;
  const bool bf16 = pairs && g->tc == ANF_TIR_bf16;
  uint64_t a = 0, b = 0;
  int64_t block = 0;
  imem_error e;
#define TRY(call)                                                                                  \
  do {                                                                                             \
    if ((e = (call)) != IM_OK) return e;                                                           \
  } while (0)
#define FIND_BLOCKS(h)                                                                             \
  TRY(find_block(m, p, BRGEMM_A, h, &a, &block));                                                  \
  TRY(find_block(m, p, BRGEMM_B, h, &b, &block))
#define LOAD_A(x, i)     TRY(load(m, a, g->ta, block * g->stride_a + (i), &x))
#define LOAD_B(x, i)     TRY(load(m, b, g->tb, block * g->stride_b + (i), &x))
#define LOAD_C(x, i)     TRY(load(m, p->at[BRGEMM_C], g->tc, i, &x))
#define LOAD_BIAS(x, i)  TRY(load(m, p->at[BRGEMM_bias], g->tc, i, &x))
#define LOAD_SCALE(x, i) TRY(load(m, p->at[BRGEMM_scales], ANF_TIR_f32, i, &x))
#define LOAD_RHS(x, i)   TRY(load(m, p->at[BRGEMM_rhs], g->tc, i, &x))
#define STORE_C(i, x)    TRY(store(m, p->at[BRGEMM_C], g->tc, i, x))
#define SUMS_F32         f32
#define PAIRS            pairs
#define VNNI_GROUP       anfi_vnni_group(g->ta, g->tb)
#define ROUND(x)         (bf16 ? round_bf16(x) : g->tc == ANF_TIR_f32 ? (double)(float)(x) : (x))
#include "base/brgemm_loop.h"
  return IM_OK;
}

static bool run_product(imachine *m, const ins *i, product *p) {
  if (p->list) p->size.ta = p->size.tb = p->size.tc; // lists hold what C holds
  imem_error e = run(m, p);
  return !e || anfi_im_mem_fail(m, i, e);
}

bool anfi_im_brgemm(imachine *m, const ins *i, texpr e, const uint32_t *arg) {
  product p = {.list = e->sub == TI_list_brgemm};
  uint64_t *r = anfi_im_regs(m);
  p.size.flags = anfi_t_brgemm_flags(e->u.attrs);
  p.size.ta = e->in[0]->dtype.elem, p.size.tb = e->in[1]->dtype.elem;
  p.size.tc = e->in[2]->dtype.elem;
  int64_t size[BRGEMM_COUNT] = {[BRGEMM_len] = 1};
  for (uint32_t k = 0; k < BRGEMM_COUNT; k++) {
    uint32_t at = anfi_t_brgemm_at(e, k);
    if (at >= e->n) continue;
    p.at[k] = r[arg[at]];
    size[k] = anfi_t_lane_i64(e->in[at]->dtype, p.at[k]);
  }
  anfi_brgemm_sizes(&p.size, size);
  return run_product(m, i, &p);
}

/* A handle is a block of memory: M to stride_b, types, flags. */
enum { HANDLE_SIZES = BRGEMM_stride_b - BRGEMM_M + 1, HANDLE_WORDS = HANDLE_SIZES + 4 };

bool anfi_im_kernel_call(imachine *m, const ins *i, const uint64_t *v, bool list) {
  product p = {.list = list};
  uint64_t k[HANDLE_WORDS], at = v[0];
  for (int x = 0; x < HANDLE_WORDS; x++) {
    imem_error e = anfi_t_mem_read(&m->mem, at, 8, &k[x]);
    if (!e && !anfi_t_mem_move(&m->mem, &at, 8)) e = IM_RANGE;
    if (e) return anfi_im_mem_fail(m, i, e);
  }
  int64_t size[BRGEMM_COUNT] = {0};
  size[BRGEMM_num] = (int64_t)v[4], size[BRGEMM_len] = list ? (int64_t)v[5] : 1;
  for (uint32_t x = BRGEMM_M; x <= BRGEMM_stride_b; x++) size[x] = (int64_t)k[x - BRGEMM_M];
  anfi_brgemm_sizes(&p.size, size);
  const uint64_t *type = k + HANDLE_SIZES;
  p.size.ta = (int32_t)(type[0] & 15), p.size.tb = (int32_t)(type[1] & 15);
  p.size.tc = (int32_t)(type[2] & 15), p.size.flags = (int64_t)type[3];
  for (uint32_t x = 0; x < 3; x++) p.at[BRGEMM_A + x] = v[1 + x];
  for (uint32_t x = 0; x < 3; x++) p.at[BRGEMM_bias + x] = v[(list ? 6 : 5) + x];
  return run_product(m, i, &p);
}

bool anfi_im_kernel(imachine *m, const ins *i, const uint64_t *v, uint64_t *out) {
  uint64_t p = anfi_t_mem_block(&m->mem, NULL, HANDLE_WORDS * 8 + 8, true), at = p;
  if (!p) return anfi_im_fail(m, i->node, false, ANF_E0857, "kernel");
  for (int k = 0; k < HANDLE_WORDS; k++) {
    anfi_t_mem_write(&m->mem, at, 8, v[k]);
    anfi_t_mem_move(&m->mem, &at, 8);
  }
  *out = p;
  return true;
}
