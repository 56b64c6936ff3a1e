// SPDX-License-Identifier: Apache-2.0
/* Operations of compiled programs on the communicator of their stream.
 *   t = anf_rt_comm_start(s, kind, type, mean, ranks, in, out, n, 0, 0); ..; anf_rt_comm_wait(s, t, in, out, site)
 *   ->   out has the result, or the call stops at its site with the rank that failed
 * INVARIANT: a call that is stopped gives its memory back only when no operation uses it any more (enter.c). */
#include "anfora/comm.h"
#include "comm/comm.h"
#include "runtime/rt.h"

void anf_stream_set_comm(anf_stream *s, anf_comm *c) {
  if (s) s->comm = c;
}
anf_comm *anf_stream_comm(const anf_stream *s) { return s ? s->comm : NULL; }

int64_t anf_rt_comm_start(anf_stream *s, int32_t kind, int32_t type, bool mean, int64_t ranks,
                          void *in, void *out, uint64_t count, int64_t a, int64_t b) {
  anf_comm_call k = {.size = sizeof k,
                     .kind = (anf_comm_kind)kind,
                     .dtype = (anf_dtype)type,
                     .mean = mean,
                     .in = in,
                     .out = out,
                     .n = count,
                     .ranks = anfi_comm_number(ranks),
                     .root = anfi_comm_number(a),
                     .to = anfi_comm_number(a),
                     .from = anfi_comm_number(b)};
  return anf_comm_start(s->comm, &k);
}

void anf_rt_comm_wait(anf_stream *s, int64_t ticket, void *in, void *out, int64_t site) {
  anf_comm_error e;
  (void)in, (void)out; // code says by them that their memory is in use until here
  if (anf_comm_wait(s->comm, ticket, &e)) return;
  anf_rt_stop(s, site + (int64_t)e.why - 1, e.rank, (int64_t)e.ms);
}

int64_t anf_rt_comm_rank(anf_stream *s, bool count) {
  return count ? anf_comm_ranks(s->comm) : anf_comm_rank(s->comm);
}
