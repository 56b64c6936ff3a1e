// SPDX-License-Identifier: Apache-2.0
/* Regions of a trace: the statements of each node between two calls that say where the program is.
 *   y = Sin(x)    ->    anf_rt_trace(3, 0);  for .. { .. };  anf_rt_trace(3, 1)
 * Nodes fused into a consumer are traced with it, and so is an epilogue with its product. */
#include "backend/lower/graph/graph.h"

static void add_call(glow *w, size_t id, bool leaves) {
  texpr in[2] = {anfi_t_int(w->t, anfi_t_dt(ANF_TIR_s64), (int64_t)id), anfi_t_s32(w->t, leaves)};
  anfi_low_add(w->L, anfi_t_eval(w->t, anfi_t_rt_call(w->t, TRT_anf_rt_trace, 2, in)));
}

static double elements(const anf_type *t) {
  double n = t && t->kind == ANF_TYPE_TENSOR ? 1 : 0;
  for (uint32_t i = 0; n > 0 && i < t->n; i++) n *= (double)t->dims[i];
  return n;
}

static double bytes_of(const anf_type *t) {
  double n = elements(t);
  return n > 0 ? n * (double)anf_dtype_bytes((anf_dtype)t->dtype) : 0;
}

/* Multiplications and additions of products; 0 for other nodes. */
static double flops_of(anf_ctx *cx, const anf_node *n) {
  const anf_type *a = n->nin ? n->in[0].def->type : NULL,
                 *b = n->nin > 1 ? n->in[1].def->type : NULL;
  if (n->kind != ANFI_APPLY || !a || !b || a->kind != ANF_TYPE_TENSOR || !a->n) return 0;
  switch ((anfi_opcode)n->op) {
  case ANF_OP_MatMul: {
    bool ta = anfi_attr_bool(anfi_attr_value(cx, ANF_OP_MatMul, n->u.attrs, 0));
    return 2 * elements(n->type) * (double)a->dims[ta && a->n > 1 ? a->n - 2 : a->n - 1];
  }
  case ANF_OP_Linear: return 2 * elements(n->type) * (double)a->dims[a->n - 1];
  case ANF_OP_Conv1D:
  case ANF_OP_Conv2D:
  case ANF_OP_Conv3D: return 2 * elements(n->type) * elements(b) / (double)b->dims[0];
  case ANF_OP_ConvGradInput: return 2 * elements(a) * elements(b) / (double)b->dims[0];
  case ANF_OP_ConvGradWeight: return 2 * elements(b) * elements(n->type) / (double)n->type->dims[0];
  case ANF_OP_Attention: return b->n < 2 ? 0 : 4 * elements(a) * (double)b->dims[b->n - 2];
  default: return 0;
  }
}

size_t anfi_glow_region_begin(void *lowering, const anf_node *n) {
  glow *w = (glow *)lowering;
  size_t id = w->out->regions.n;
  anfi_region r = {.loc = anfi_node_loc(n),
                   .name = n->kind == ANFI_APPLY ? anfi_op_of(n)->name : "call"};
  r.flops = flops_of(w->cx, n);
  r.bytes = bytes_of(n->type);
  for (size_t i = 0; i < anfi_arg_count(n); i++) r.bytes += bytes_of(n->in[i].def->type);
  anfi_push(w->keep, &w->out->regions, r);
  add_call(w, id, false);
  return id;
}

void anfi_glow_region_end(void *lowering, size_t id) {
  glow *w = (glow *)lowering;
  anfi_low_scope *s = w->L->scope.at[w->L->scope.n - 1];
  const tstmt last = s->list.n ? s->list.at[s->list.n - 1] : NULL;
  bool empty = w->out->regions.n == id + 1 && last && last->kind == TS_evaluate &&
               last->e[0]->kind == TX_call && last->e[0]->u.name &&
               strcmp(last->e[0]->u.name->s, anfi_t_rt[TRT_anf_rt_trace].name) == 0;
  if (!empty) {
    add_call(w, id, true);
    return;
  }
  s->list.n--;
  w->out->regions.n--;
}
