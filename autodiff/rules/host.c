// SPDX-License-Identifier: Apache-2.0
/* Pullbacks of host ops: a call of the gradient op that the host registered.
 *   y = host_f(a, b), gradient op host_g   ->   (da, db) = host_g(a, b, y, dy)
 * Parts of a result that is a tuple are separate arguments; integers have no adjoint. */
#include "autodiff/autodiff.h"
#include "autodiff/batch/batch.h"
#include "autodiff/derive/derive.h"
#include "ir/ops/op.h"

typedef ANFI_VEC(anf_node *) nodes;

static anf_node *item(anfi_derive *q, anf_node *tuple, size_t i) {
  anf_value *v = anfi_derive_int(q, (int64_t)i);
  return anfi_derive_build(q, "(TupleGet @0 index=$0)", &tuple, 1, &v);
}

/* A part of something that is a tuple if there are several. */
static anf_node *part(anfi_derive *q, anf_node *of, bool tuple, size_t i) {
  return tuple ? item(q, of, i) : of;
}

/* arguments, parts of the result, adjoints of the real parts */
static bool collect(anfi_derive *q, const anfi_host *h, nodes *in) {
  anfi_arena *a = q->ad->arena;
  bool tuple = h->type->result->kind == ANF_TYPE_TUPLE;
  for (size_t i = 0; i < q->n; i++) anfi_push(a, in, q->in[i]);
  size_t first = in->n;
  for (size_t i = 0; i < h->nout; i++) {
    anf_node *y = part(q, q->y, tuple, i);
    if (!y) return false;
    anfi_push(a, in, y);
  }
  for (size_t i = 0; i < h->nout; i++) {
    if (!anfi_ad_varies(h->out[i])) continue;
    anf_node *dy = q->dy[i] ? q->dy[i] : anfi_ad_zeros(q->ad, q->g, in->at[first + i]);
    if (!dy) return false;
    anfi_push(a, in, dy);
  }
  return true;
}

static size_t real_arguments(const anfi_host *h) {
  size_t n = 0;
  for (uint32_t i = 0; i < h->type->n; i++) n += anfi_ad_varies(h->type->items[i]);
  return n;
}

bool anfi_vjp_host(anfi_derive *q) {
  anf_ctx *cx = q->ad->m->cx;
  anfi_loc at = anfi_node_loc(q->primal);
  const anfi_host *h = anfi_host_of(cx, anfi_derive_attr(q, "name"), at), *v = NULL;
  if (!h) return false;
  if (h->zero) return true;
  if (!h->vjp) return anfi_fail(cx, at, ANF_E0723, h->name->s);
  v = anfi_host_find(cx, h->vjp->s, h->vjp->len);
  if (!v || v->generator) return anfi_fail(cx, at, ANF_E0230, h->vjp->s);
  nodes in = {0};
  if (!collect(q, h, &in)) return false;
  anf_node *r =
      anfi_ad_apply(q->ad, q->g, anfi_host_op(v), anfi_host_attrs(q->ad->m, v), in.n, in.at);
  if (!r) return false;
  size_t many = real_arguments(h), k = 0;
  bool tuple = v->type->result->kind == ANF_TYPE_TUPLE;
  if (v->nout != many)
    return anfi_fail(cx, at, ANF_E0231, v->name->s,
                     "it does not give one gradient for each real argument of the op that it is "
                     "the derivative of");
  for (size_t i = 0; i < q->n; i++) {
    if (!anfi_ad_varies(h->type->items[i])) continue;
    if (anfi_derive_wants(q, i) && !(q->out[i] = part(q, r, tuple, k))) return false;
    k++;
  }
  return true;
}

/* Lanes have no order, and effects have one. */
anf_node *anfi_batch_host_effect(anfi_batch *b) {
  anfi_fail(b->ad->m->cx, anfi_node_loc(b->primal), ANF_E0536,
            "an op of the host that has effects is not called lane by lane");
  return NULL;
}
