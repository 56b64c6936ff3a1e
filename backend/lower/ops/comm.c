// SPDX-License-Identifier: Apache-2.0
/* Exchange between ranks: two calls of the run time, with other work between them.
 *   g = AllReduce(dw); ..; w - g    ->    ticket = comm_start(dw, g); ..; comm_wait(ticket); w - g
 *
 * While an exchange is under way another thread reads its input and writes its result. So the input is a buffer that
 * nothing else uses: that of a product for this op alone, or a copy.
 * INVARIANT: the wait names both buffers, so their memory is in use until then. */
#include "backend/lower/low.h"
#include "comm/comm.h"

typedef struct anfi_low_exchange {
  texpr ticket, in, out;
  int64_t site;
} exchange;

/* ---- waiting ---- */

static texpr address(anfi_low *L, texpr tensor) {
  texpr zero = anfi_t_index(L->t, 0);
  return anfi_t_cast(L->t, anfi_t_ptr(ANF_TIR_void), anfi_t_addr(L->t, tensor, 1, &zero));
}

static void wait_until(anfi_low *L, size_t n) {
  for (; L->awaited < n; L->awaited++) {
    const exchange *x = L->exchange.at[L->awaited];
    texpr in[4] = {x->ticket, address(L, x->in), address(L, x->out),
                   anfi_t_int(L->t, ANFI_S64, x->site)};
    anfi_low_add(L, anfi_t_eval(L->t, anfi_t_rt_call(L->t, TRT_anf_rt_comm_wait, 4, in)));
  }
}

size_t anfi_lower_under_way(const anfi_low *L) { return L->exchange.n; }

void anfi_lower_wait_for(anfi_low *L, const anf_node *n, size_t base) {
  const uint64_t *at = L->awaited < L->exchange.n ? anfi_map_find(&L->exchanged, n->id) : NULL;
  if (at && *at > base) wait_until(L, (size_t)*at);
}

void anfi_lower_wait_all(anfi_low *L, size_t base) {
  if (L->exchange.n > base) wait_until(L, L->exchange.n);
}

/* ---- starting ---- */

static texpr room_for(anfi_low *L, const anf_type *t, const char *name) {
  uint64_t n = 1;
  anfi_lower_size(t, &n);
  return anfi_low_local(L, anfi_lower_elem((anf_dtype)t->dtype), n, name);
}

/* Sums and broadcasts may write where they read. */
static bool is_in_place(anf_comm_kind k) {
  return k == ANF_COMM_ALL_REDUCE || k == ANF_COMM_REDUCE || k == ANF_COMM_BROADCAST;
}

static void choose_memory(anfi_low *L, const anfi_low_op *q, anf_comm_kind kind, exchange *x) {
  anfi_view *v = q->in[0];
  bool own = q->over && anfi_view_in_memory(v), in_place = is_in_place(kind);
  bool wanted = q->to && q->to[0];
  if (own) x->in = v->tensor;
  if (own && in_place && !wanted) x->out = x->in;
  else x->out = wanted ? q->to[0] : room_for(L, q->type, "exchanged");
  if (!own) {
    x->in = in_place ? x->out : room_for(L, v->type, "sent");
    anfi_view_store(L, v, x->in);
  }
}

static texpr s32(anfi_low *L, int64_t v) { return anfi_t_int(L->t, anfi_t_dt(ANF_TIR_s32), v); }
static texpr s64(anfi_low *L, int64_t v) { return anfi_t_int(L->t, ANFI_S64, v); }
static texpr peer(anfi_low *L, anfi_view *v) {
  return anfi_low_let(L, anfi_t_cast(L->t, ANFI_S64, anfi_view_value(L, v)), "peer");
}

static int64_t sites(const anfi_low *L, const anfi_low_op *q) {
  static const anfi_code code[] = {ANF_E1200, ANF_E1201, ANF_E1202, ANF_E1203}; // by anf_comm_why
  return L->o.sites ? L->o.sites(L->o.user, ANFI_LEN(code), code, q->op, q->loc) : 0;
}

bool anfi_lower_comm(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  anf_comm_call k;
  exchange *x = ANFI_NEW(L->a, exchange);
  const anfi_view *v = q->in[0];
  anfi_collective(L->cx, q->op, q->attr, &k);
  bool pair = k.kind == ANF_COMM_SEND_RECV;
  texpr a = pair ? peer(L, q->in[1]) : s64(L, k.root), b = pair ? peer(L, q->in[2]) : s64(L, -1);
  choose_memory(L, q, k.kind, x);
  texpr in[9] = {s32(L, k.kind),
                 s32(L, (int64_t)v->type->dtype),
                 anfi_t_bool(L->t, k.mean),
                 s64(L, k.ranks),
                 address(L, x->in),
                 address(L, x->out),
                 anfi_t_index(L->t, v->n),
                 a,
                 b};
  x->ticket = anfi_low_let(L, anfi_t_rt_call(L->t, TRT_anf_rt_comm_start, 9, in), "ticket");
  x->site = sites(L, q);
  anfi_push(L->a, &L->exchange, x);
  if (q->node) *anfi_map_at(&L->exchanged, q->node->id) = L->exchange.n;
  if (!q->node || L->in_parallel) anfi_lower_wait_all(L, 0);
  out[0] = anfi_view_of_result(L, q->type, x->out);
  return true;
}

bool anfi_lower_comm_number(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  texpr count = anfi_t_bool(L->t, q->op == ANF_OP_CommSize);
  out[0] = anfi_view_scalar(
      L, q->type, anfi_low_let(L, anfi_t_rt_call(L->t, TRT_anf_rt_comm_rank, 1, &count), "rank"));
  return true;
}
