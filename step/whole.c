// SPDX-License-Identifier: Apache-2.0
/* Sharded leaves of the state as hosts know them, whole: a part is copied out of a tensor, or gathered from all ranks.
 *   5 elements on 2 ranks     part 0: elements 0 1 2;  part 1: elements 3 4 0
 * Part r of n elements begins at r c, with c = ceil(n / ranks); past the end come the first elements again
 * (shard.c). Along an axis (split.c) a part is a block of each row of it. */
#include "step/step.h"

#include "ir/ops/op.h"

/* Bytes of a block of a part along an axis, and how many blocks it has. */
static size_t block_of(const anfi_step_leaf *l, size_t *blocks) {
  *blocks = 1;
  for (int32_t i = 0; i < l->axis; i++) *blocks *= (size_t)l->type->dims[i];
  return *blocks ? l->bytes / *blocks : 0;
}

void anfi_step_take(const anf_step *s, const anfi_step_leaf *l, const void *whole) {
  const char *from = (const char *)whole;
  if (!l->whole) memcpy(l->at, from, l->bytes);
  else if (l->axis >= 0) {
    size_t n, block = block_of(l, &n);
    from += (size_t)s->rank * block;
    for (size_t i = 0; i < n; i++)
      memcpy(l->at + i * block, from + i * block * (size_t)s->ranks, block);
  } else {
    size_t all = anfi_type_bytes(l->whole), at = (size_t)s->rank * l->bytes;
    size_t end = at < all ? all - at : 0, n = l->bytes < end ? l->bytes : end;
    memcpy(l->at, from + (at < all ? at : 0), n);
    memcpy(l->at + n, from + (at < all ? 0 : at - all), l->bytes - n);
  }
  anfi_step_scatter(l);
}

bool anfi_step_together(const anf_step *s) {
  bool same = anf_comm_rank(s->o.comm) == s->rank && anf_comm_ranks(s->o.comm) == s->ranks;
  return !s->nsharded || (same && !s->torn) || anfi_fail(s->cx, anfi_nowhere(), ANF_E1227);
}

/* Parts along an axis, one rank's after the other, as a tensor. */
static void join(const anf_step *s, const anfi_step_leaf *l, const char *parts, char *out) {
  size_t n, block = block_of(l, &n), ranks = (size_t)s->ranks;
  for (size_t r = 0; r < ranks; r++)
    for (size_t i = 0; i < n; i++)
      memcpy(out + (i * ranks + r) * block, parts + (r * n + i) * block, block);
}

bool anfi_step_whole(const anf_step *s, const anfi_step_leaf *l, void *out) {
  anf_comm_error e;
  if (!l->whole) return memcpy(out, l->at, l->bytes), true;
  if (!anfi_step_together(s)) return false;
  size_t all = anfi_type_bytes(l->whole), padded = l->bytes * (size_t)s->ranks, room = 0;
  bool inner = l->axis > 0;
  char *to = padded == all && !inner ? (char *)out : anfi_step_memory(s->cx, padded, &room);
  anf_comm_call k = {.size = sizeof k,
                     .kind = ANF_COMM_ALL_GATHER,
                     .dtype = ANF_U8,
                     .in = l->at,
                     .out = to,
                     .n = l->bytes};
  bool good = anf_comm_wait(s->o.comm, anf_comm_start(s->o.comm, &k), &e);
  if (to != out) {
    if (good && inner) join(s, l, to, (char *)out);
    else if (good) memcpy(out, to, all);
    anfi_step_memory_free(s->cx, to, room);
  }
  return good || anfi_fail(s->cx, anfi_nowhere(), anfi_collective_code(e.why), "AllGather",
                           (long long)e.rank, (long long)e.ms);
}
