// SPDX-License-Identifier: Apache-2.0
/* Memory instructions of the interpreter: addresses, checked loads and stores, tensors, structures.
 *   x[i, j] of x: [f32 * 4 * 8]   ->   check i < 4 and j < 8, then load 4 bytes at x + (8 i + j) * 4 */
#include "backend/tir/interp/machine.h"

bool anfi_im_address(imachine *m, const ins *i) {
  texpr e = (texpr)i->node;
  uint64_t *r = anfi_im_regs(m), ptr = r[i->a];
  const uint32_t *idx = m->code->aux.at + i->b;
  uint32_t rank = e->in[0]->nidx;
  int64_t elems = 0;
  for (uint32_t k = 0; k < rank && k < e->nidx; k++) {
    uint64_t at = r[idx[k]], dim = r[i->a + 1 + k], extent = 1;
    if (k + 1 == rank && e->kind == TX_indexing && !i->c) extent = e->dtype.lanes;
    if (k + 2 == rank && e->kind == TX_indexing && e->dtype.rows) extent = e->dtype.rows;
    bool address_of = e->kind == TX_tensorptr; // may point past the end
    if (m->prog.checked && (at > dim || extent > dim - at) && !(address_of && at == dim) &&
        !(i->c && at <= dim))
      return anfi_im_mem_fail(m, i, IM_RANGE);
    elems = (int64_t)((uint64_t)elems + at * r[i->a + 1 + rank + k]);
  }
  size_t bytes = e->in[0]->sub ? 8 : anfi_t_bytes(anfi_t_dt((anf_tir_elem)e->in[0]->dtype.elem));
  if (!anfi_t_mem_move(&m->mem, &ptr, (int64_t)((uint64_t)elems * bytes))) {
    imem_error why = anfi_t_mem_host(&m->mem, ptr, 0) ? IM_RANGE : IM_WILD;
    if (!i->c) return anfi_im_mem_fail(m, i, why);
    for (uint32_t k = 0; k < anfi_t_total(e->dtype); k++)
      if (r[i->c - 1 + k]) return anfi_im_mem_fail(m, i, why);
  }
  r[i->d] = ptr;
  return true;
}

/* The place of lane k, in bytes from the first. */
static int64_t lane_at(const imachine *m, const ins *i, uint32_t k) {
  uint64_t bytes = anfi_t_bytes(i->t);
  if (!i->t.rows) return (int64_t)(k * bytes);
  uint32_t rank = ((texpr)i->node)->in[0]->nidx;
  uint64_t stride = rank > 1 ? m->r[m->base + i->b + 1 + rank + rank - 2] : 0;
  return (int64_t)((k / i->t.lanes * stride + k % i->t.lanes) * bytes);
}

/* One lane of register r from or to memory, `offset` bytes behind p. */
static bool move_lane(imachine *m, const ins *i, uint64_t p, int64_t offset, size_t bytes,
                      bool store, uint64_t *r) {
  if (!anfi_t_mem_move(&m->mem, &p, offset)) return anfi_im_mem_fail(m, i, IM_RANGE);
  imem_error e =
      store ? anfi_t_mem_write(&m->mem, p, bytes, *r) : anfi_t_mem_read(&m->mem, p, bytes, r);
  return !e || anfi_im_mem_fail(m, i, e);
}

bool anfi_im_access(imachine *m, const ins *i, bool store) {
  uint64_t *r = anfi_im_regs(m);
  size_t bytes = anfi_t_bytes(i->t);
  for (uint32_t k = 0; k < i->n; k++) {
    bool masked = i->c && !r[i->c - 1 + k];
    if (masked && !store) r[i->d + k] = 0;
    if (masked) continue;
    if (!move_lane(m, i, r[i->a], lane_at(m, i, k), bytes, store, &r[i->d + k])) return false;
  }
  return true;
}

void anfi_im_dense(imachine *m, const ins *i) {
  texpr v = (texpr)i->node;
  uint64_t *d = anfi_im_regs(m) + i->d + 1, stride = 1;
  if (anfi_t_has_strides(v)) return;
  for (uint32_t k = v->nidx; k-- > 0; stride *= d[k]) d[v->nidx + k] = stride;
}

bool anfi_im_tensor_bytes(const uint64_t *dims, texpr v, uint64_t *out) {
  uint64_t n = v->sub ? 8 : anfi_t_bytes(anfi_t_dt((anf_tir_elem)v->dtype.elem));
  for (uint32_t k = 0; k < v->nidx; k++) {
    if (dims[k] && n > (UINT64_C(1) << 36) / dims[k]) return false;
    n *= dims[k];
  }
  *out = n;
  return true;
}

bool anfi_im_alloc(imachine *m, const ins *i) {
  texpr v = (texpr)i->node;
  uint64_t n, *r = anfi_im_regs(m);
  if (!anfi_im_tensor_bytes(r + i->d + 1, v, &n))
    return anfi_im_fail(m, v, false, ANF_E0857, v->u.name->s);
  uint64_t p = anfi_t_mem_block(&m->mem, NULL, (size_t)n, false);
  if (!p) return anfi_im_fail(m, v, false, ANF_E0857, v->u.name->s);
  anfi_push(m->a, &m->tensors, p);
  r[i->d] = p;
  return true;
}

bool anfi_im_fill(imem *mem, uint64_t ptr, uint64_t elems, texpr list) {
  size_t bytes = anfi_t_bytes(list->dtype);
  for (uint64_t k = 0; k < elems && (list->u.list.n == 1 || k < list->u.list.n); k++) {
    uint64_t at = ptr;
    if (!anfi_t_mem_move(mem, &at, (int64_t)(k * bytes))) return false;
    if (anfi_t_mem_write(mem, at, bytes, anfi_t_list_lane(list, k))) return false;
  }
  return true;
}

bool anfi_im_fill_local(imachine *m, const ins *i) {
  uint64_t *r = anfi_im_regs(m), n = 1;
  for (uint32_t k = 1; k < i->n; k++) n *= r[i->d + k];
  return anfi_im_fill(&m->mem, r[i->d], n, (texpr)i->node) || anfi_im_mem_fail(m, i, IM_RANGE);
}

bool anfi_im_struct(imachine *m, const ins *i, texpr e, const uint32_t *arg) {
  uint64_t *r = anfi_im_regs(m);
  bool store = i->sub == TI_write_struct;
  tdtype d = store ? e->in[1]->dtype : e->dtype;
  size_t bytes = anfi_t_bytes(d);
  for (uint32_t k = 0; k < anfi_t_total(d); k++) {
    int64_t at = (int64_t)(r[arg[store ? 2 : 1]] + k * bytes);
    uint64_t *lane = store ? &r[arg[1] + k] : &r[i->d + k];
    if (!move_lane(m, i, r[arg[0]], at, bytes, store, lane)) return false;
  }
  return true;
}

bool anfi_im_gather(imachine *m, const ins *i, texpr e, const uint32_t *arg) {
  uint64_t *r = anfi_im_regs(m);
  size_t bytes = anfi_t_bytes(e->dtype);
  for (uint32_t k = 0; k < anfi_t_total(e->dtype); k++) {
    uint64_t at = (uint64_t)anfi_t_lane_i64(e->in[1]->dtype, r[arg[1] + k]) * bytes;
    if (!move_lane(m, i, r[arg[0]], (int64_t)at, bytes, false, &r[i->d + k])) return false;
  }
  return true;
}
