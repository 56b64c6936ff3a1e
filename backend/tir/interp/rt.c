// SPDX-License-Identifier: Apache-2.0
/* Calls of the run time (runtime.def), as the interpreter executes them.
 *   anf_rt_alloc(64)   ->   a block of 64 bytes, unset          anf_rt_stop(site, a, b)   ->   the run fails with E0870 */
#include "backend/tir/interp/machine.h"
#include "comm/comm.h"

static bool rt_stop(imachine *m, const ins *i, const uint64_t *v) {
  if (m->o->stop) m->o->stop(m->o->user, (int64_t)v[0], (int64_t)v[1], (int64_t)v[2]);
  return anfi_im_fail(m, i->node, false, ANF_E0870, "");
}

static bool rt_keep_more(imachine *m, const ins *i, const uint64_t *v, uint64_t *out) {
  if (v[1] > v[2]) return anfi_im_mem_fail(m, i, IM_RANGE);
  uint64_t to = anfi_t_mem_block(&m->mem, NULL, (size_t)v[2], true);
  if (!to) return anfi_im_fail(m, i->node, false, ANF_E0857, "anf_rt_keep_more");
  const void *from = v[1] ? anfi_t_mem_host(&m->mem, v[0], (size_t)v[1]) : NULL;
  if (v[1] && !from) return anfi_im_mem_fail(m, i, IM_WILD);
  if (v[1]) memcpy(anfi_t_mem_host(&m->mem, to, (size_t)v[2]), from, (size_t)v[1]);
  *out = to;
  return true;
}

static bool rt_put_tensor(imachine *m, const ins *i, const uint64_t *v) {
  const void *p = anfi_t_mem_host(&m->mem, v[0], (size_t)v[1]);
  if (!p) return anfi_im_mem_fail(m, i, IM_RANGE);
  anfi_push(m->a, &m->leaf, anfi_key(p));
  return true;
}

static void rt_print(imachine *m, int64_t site) {
  if (m->o->print) m->o->print(m->o->user, site, m->leaf.n, m->leaf.at);
  m->leaf.n = 0;
}

static uint64_t special(trt f, const uint64_t *v) {
  const tdtype d = anfi_t_dt(ANF_TIR_f64);
  double x[4], r[2];
  if (f == TRT_anf_rt_polygamma)
    return anfi_t_lane_of_f64(d, anfi_polygamma((int)(int32_t)v[0], anfi_t_lane_f64(d, v[1])));
  for (int k = 0; k < 4; k++) x[k] = anfi_t_lane_f64(d, v[2 + k]);
  anfi_complex((anfi_complex_fn)v[0], x, x + 2, r);
  return anfi_t_lane_of_f64(d, r[v[1]]);
}

/* n doubles were written there: they count as written. */
static bool rt_wrote(imachine *m, const ins *i, uint64_t ptr, const double *p, size_t n) {
  for (size_t k = 0; k < n; k++) {
    uint64_t bits, at = ptr;
    memcpy(&bits, p + k, sizeof bits);
    if (!anfi_t_mem_move(&m->mem, &at, (int64_t)(k * sizeof bits)))
      return anfi_im_mem_fail(m, i, IM_RANGE);
    imem_error e = anfi_t_mem_write(&m->mem, at, sizeof bits, bits);
    if (e != IM_OK) return anfi_im_mem_fail(m, i, e);
  }
  return true;
}

/* The operands are memory: what is decomposed, results, scratch if there is any. */
static bool rt_decompose(imachine *m, const ins *i, trt f, const uint64_t *v) {
  double *p[5];
  bool eigh = f == TRT_anf_rt_eigh, svd = f == TRT_anf_rt_svd, lu = f == TRT_anf_rt_lu;
  size_t a = (size_t)v[0], b = eigh ? a : (size_t)v[1], k = a < b ? a : b, n = svd ? 5 : 4;
  size_t size[4][5] = {{a * a, a, a * a, anfi_eigh_work(a), 0},
                       {a * b, a * k, k, k * b, anfi_svd_work(a, b)},
                       {a * b, a * b, k, a, 0},
                       {a * b, a * b, k, b, 0}};
  const size_t *s = eigh ? size[0] : svd ? size[1] : lu ? size[2] : size[3];
  const size_t results = svd || lu ? 3 : 2;
  const uint64_t *at = v + (eigh ? 1 : 2);
  for (size_t j = 0; j < n; j++) {
    p[j] = (double *)anfi_t_mem_host(&m->mem, at[j], s[j] * sizeof(double));
    if (!p[j]) return anfi_im_mem_fail(m, i, IM_RANGE);
  }
  if (eigh) anfi_eigh(a, p[0], p[1], p[2], p[3]);
  else if (svd) anfi_svd(a, b, p[0], p[1], p[2], p[3], p[4]);
  else if (lu) anfi_lu(a, b, p[0], p[1], p[2], p[3]);
  else anfi_householder(a, b, p[0], p[1], p[2], p[3]);
  for (size_t j = 1; j <= results; j++)
    if (!rt_wrote(m, i, at[j], p[j], s[j])) return false;
  return true;
}

static bool rt_comm_start(imachine *m, const ins *i, const uint64_t *v, uint64_t *ticket) {
  void *in = anfi_t_mem_host(&m->mem, v[4], 0), *out = anfi_t_mem_host(&m->mem, v[5], 0);
  if (!in || !out) return anfi_im_mem_fail(m, i, IM_RANGE);
  anf_comm_call k = {.size = sizeof k,
                     .kind = (anf_comm_kind)v[0],
                     .dtype = (anf_dtype)v[1],
                     .mean = v[2] != 0,
                     .in = in,
                     .out = out,
                     .n = v[6],
                     .ranks = anfi_comm_number((int64_t)v[3]),
                     .root = anfi_comm_number((int64_t)v[7]),
                     .to = anfi_comm_number((int64_t)v[7]),
                     .from = anfi_comm_number((int64_t)v[8])};
  *ticket = (uint64_t)anf_comm_start(m->o->comm, &k);
  return true;
}

static bool rt_comm_wait(imachine *m, const ins *i, const uint64_t *v) {
  anf_comm_error e;
  if (anf_comm_wait(m->o->comm, (int64_t)v[0], &e)) return true;
  uint64_t stop[3] = {v[3] + e.why - 1, (uint64_t)(int64_t)e.rank, e.ms};
  return rt_stop(m, i, stop);
}

bool anfi_im_runtime(imachine *m, const ins *i, trt f, const uint32_t *arg) {
  uint64_t *r = anfi_im_regs(m), v[16];
  if (i->b != anfi_t_rt[f].n) return anfi_im_fail(m, i->node, false, ANF_E0855, anfi_t_rt[f].name);
  for (uint32_t k = 0; k < i->b; k++) v[k] = r[arg[k]];
  switch (f) {
  case TRT_anf_rt_alloc:
    r[i->d] = anfi_t_mem_block(&m->mem, NULL, (size_t)v[0], false);
    return r[i->d] || anfi_im_fail(m, i->node, false, ANF_E0857, "anf_rt_alloc");
  case TRT_anf_rt_free: return anfi_t_mem_release(&m->mem, v[0]) || anfi_im_mem_fail(m, i, IM_WILD);
  case TRT_anf_rt_trace:
    if (m->o->trace) m->o->trace(m->o->user, (int64_t)v[0], v[1] != 0);
    return true;
  case TRT_anf_rt_poll: return anfi_im_go_on(m, i, -1);
  case TRT_anf_rt_count: return anfi_im_go_on(m, i, (int32_t)v[0]);
  case TRT_anf_rt_check: return v[0] < v[1] || anfi_im_mem_fail(m, i, IM_RANGE);
  case TRT_anf_rt_brgemm_kernel: return anfi_im_kernel(m, i, v, &r[i->d]);
  case TRT_anf_rt_brgemm_call: return anfi_im_kernel_call(m, i, v, false);
  case TRT_anf_rt_brgemm_list_call: return anfi_im_kernel_call(m, i, v, true);
  case TRT_anf_rt_keep:
    r[i->d] = anfi_t_mem_block(&m->mem, NULL, (size_t)v[0], true);
    return r[i->d] || anfi_im_fail(m, i->node, false, ANF_E0857, "anf_rt_keep");
  case TRT_anf_rt_keep_more: return rt_keep_more(m, i, v, &r[i->d]);
  case TRT_anf_rt_keep_mark: r[i->d] = 0; return true; // blocks stay until the run ends
  case TRT_anf_rt_keep_release: return true;
  case TRT_anf_rt_stop: return rt_stop(m, i, v);
  case TRT_anf_rt_put: anfi_push(m->a, &m->leaf, v[0]); return true;
  case TRT_anf_rt_put_tensor: return rt_put_tensor(m, i, v);
  case TRT_anf_rt_print: rt_print(m, (int64_t)v[0]); return true;
  case TRT_anf_rt_comm_start: return rt_comm_start(m, i, v, &r[i->d]);
  case TRT_anf_rt_comm_wait: return rt_comm_wait(m, i, v);
  case TRT_anf_rt_comm_rank:
    r[i->d] = (uint64_t)(v[0] ? anf_comm_ranks(m->o->comm) : anf_comm_rank(m->o->comm));
    return true;
  case TRT_anf_rt_complex:
  case TRT_anf_rt_polygamma: r[i->d] = special(f, v); return true;
  case TRT_anf_rt_eigh:
  case TRT_anf_rt_householder:
  case TRT_anf_rt_lu:
  case TRT_anf_rt_svd: return rt_decompose(m, i, f, v);
  case TRT_anf_rt_parallel:
  case TRT_COUNT: break; // made a loop when compiled
  }
  return anfi_im_fail(m, i->node, false, ANF_E0855, anfi_t_rt[f].name);
}
