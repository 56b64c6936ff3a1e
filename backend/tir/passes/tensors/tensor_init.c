// SPDX-License-Identifier: Apache-2.0
/* tensor_init: initial values of local tensors become stores.
 *
 *   tensor A: [f32 * 20] = {1.5f}   →   for i in (0, 16, 16) { A[i @ 16] = (1.5f x 16) }
 *                                       for i in (16, 20, 1) { A[i] = 1.5f }
 *
 * One value fills by vectors and a scalar remainder; a list becomes one store for each vector; a tensor of
 * unknown size is filled element by element. */
#include "backend/tir/tir.h"

enum { LANES = 16 };

static tstmt store(tstore *t, texpr tensor, texpr at, texpr value) {
  return anfi_t_assign(t, anfi_t_at(t, tensor, 1, &at, value->dtype.lanes, 0, NULL), value);
}

/* The first value, in all lanes. */
static texpr first(tstore *t, tdtype d, texpr list) {
  uint64_t bits = anfi_t_list_lane(list, 0);
  return anfi_t_bits(t, d, 1, &bits);
}

static tstmt fill_loop(tstore *t, texpr tensor, uint64_t from, uint64_t to, uint16_t lanes,
                       texpr list) {
  tdtype d = list->dtype;
  d.lanes = lanes;
  texpr i = anfi_t_var(t, anfi_t_dt(ANF_TIR_index), "i"), value = first(t, d, list);
  return anfi_t_for(t, i, anfi_t_index(t, from), anfi_t_index(t, to), anfi_t_index(t, lanes),
                    store(t, tensor, i, value), false, 0);
}

static tstmt list_chunk(tstore *t, texpr tensor, uint64_t at, texpr list, uint16_t lanes) {
  tdtype d = list->dtype;
  d.lanes = lanes;
  uint64_t bits[LANES];
  for (uint16_t k = 0; k < lanes; k++) bits[k] = anfi_t_list_lane(list, at + k);
  return store(t, tensor, anfi_t_index(t, at), anfi_t_bits(t, d, lanes, bits));
}

/* A list of one value fills a tensor whose size is not known yet. */
static tstmt fill_unknown(tvisitor *v, texpr tensor, texpr list) {
  tstore *t = v->t;
  texpr i = anfi_t_var(t, anfi_t_dt(ANF_TIR_index), "i"),
        end = anfi_t_cast(t, anfi_t_dt(ANF_TIR_index), tensor->in[0]),
        value = first(t, list->dtype, list);
  const tstmt out[] = {anfi_t_define(t, TL_local, tensor, NULL),
                       anfi_t_for(t, i, anfi_t_index(t, 0), end, anfi_t_index(t, 1),
                                  store(t, tensor, i, value), false, 0)};
  return anfi_t_splice(t, 2, out);
}

static tstmt expand(tvisitor *v, tstmt s) {
  texpr list = s->kind == TS_define ? s->e[1] : NULL, t = s->e[0];
  uint64_t n;
  ANFI_VEC(tstmt) out = {0};
  if (!list || t->kind != TX_tensor || !anfi_t_is_list(list)) return s;
  if (!anfi_t_const_elems(t, &n))
    return t->nidx == 1 && list->u.list.n == 1 ? fill_unknown(v, t, list) : s;
  anfi_push(v->scratch, &out, anfi_t_define(v->t, TL_local, t, NULL));
  if (t->nidx > 1) { // seen as one dim
    texpr flat = anfi_t_index(v->t, n), *zero = ANFI_NEW_N(v->scratch, texpr, t->nidx);
    for (uint32_t k = 0; k < t->nidx; k++) zero[k] = anfi_t_index(v->t, 0);
    texpr view = anfi_t_tensor(v->t, (anf_tir_elem)t->dtype.elem, t->sub,
                               anfi_sprintf(v->scratch, "%s_flat", t->u.name->s), 1, &flat, NULL);
    anfi_push(v->scratch, &out,
              anfi_t_define(v->t, TL_local, view, anfi_t_addr(v->t, t, t->nidx, zero)));
    t = view;
  }
  uint64_t main = n / LANES * LANES;
  if (list->u.list.n == 1) {
    if (main) anfi_push(v->scratch, &out, fill_loop(v->t, t, 0, main, LANES, list));
    if (main < n) anfi_push(v->scratch, &out, fill_loop(v->t, t, main, n, 1, list));
  } else {
    for (uint64_t k = 0; k < n; k += LANES)
      anfi_push(v->scratch, &out,
                list_chunk(v->t, t, k, list, (uint16_t)(n - k < LANES ? n - k : LANES)));
  }
  return anfi_t_splice(v->t, out.n, out.at);
}

tfunc anfi_t_pass_tensor_init(tpass_cx *p, tfunc f) {
  tvisitor v;
  anfi_t_visitor_init(&v, p->t, p->scratch, p);
  v.stmt = expand;
  return anfi_t_visit_func(&v, f);
}
