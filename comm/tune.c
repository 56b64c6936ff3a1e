// SPDX-License-Identifier: Apache-2.0
/* The size of buckets, from a curve of this link: t(n), the time of an AllReduce of n bytes.
 *
 *   bytes a second
 *        |        ,-------- best
 *        |      .*  <- most: the smallest that has 4 / 5 of it
 *        |   .*
 *        '-*----------- n
 *
 * The last bucket of a backward sweep is hidden by nothing, so it shall be small: but below `least`, two thirds of whose time are that
 * of an empty one (half of the n 1/2 of Hockney 1994), it costs nearly as much. Where there is much to send, large buckets first cost fewer rounds of
 * messages. So a bucket has an eighth of what is left, as long as that is from least to most:
 *
 *   gradients    |------|------|-----|----|---|--|-|-|-|
 *
 * All ranks take what rank 0 found. */
#include "base/base.h"
#include "comm/comm.h"

#include <stdlib.h>
#include <string.h>

enum { TIMES = 20, LARGE = 256 << 10, TIMES_LARGE = 5 };
enum { PARTS = 8 };

static bool run(anf_comm *c, anf_comm_kind kind, anf_dtype d, void *at, uint64_t n) {
  anf_comm_call k = {.size = sizeof k, .kind = kind, .dtype = d, .in = at, .out = at, .n = n};
  return anf_comm_wait(c, anf_comm_start(c, &k), NULL);
}

/* The shortest of some: others are of the machine. */
static bool measure(anf_comm *c, float *at, uint64_t bytes, uint64_t *ns) {
  *ns = UINT64_MAX;
  for (int i = bytes < LARGE ? 0 : TIMES - TIMES_LARGE; i < TIMES; i++) {
    uint64_t from = anfi_comm_now();
    if (!run(c, ANF_COMM_ALL_REDUCE, ANF_F32, at, bytes / sizeof *at)) return false;
    uint64_t took = anfi_comm_now() - from;
    if (took < *ns) *ns = took;
  }
  return true;
}

static double rate(const anf_comm_curve *k, size_t i) {
  return (double)k->bytes[i] / (double)(k->ns[i] + 1);
}

static double best_rate(const anf_comm_curve *k) {
  double best = 0;
  for (size_t i = 0; i < ANF_COMM_SIZES; i++)
    if (rate(k, i) > best) best = rate(k, i);
  return best;
}

static uint64_t most(const anf_comm_curve *k) {
  size_t i = 0;
  while (rate(k, i) < 0.8 * best_rate(k)) i++;
  return k->bytes[i];
}

/* A power of two, which times that vary a little leave as it is. */
static uint64_t least(const anf_comm_curve *k) {
  double half = (double)k->ns[0] * best_rate(k) / 2;
  uint64_t n = k->bytes[0];
  while (2 * n <= k->bucket_bytes && 2 * (double)n <= half) n *= 2;
  return n;
}

uint64_t anfi_comm_bucket(const anf_comm *c) {
  const anfi_comm_round *r = &c->round;
  uint64_t most = c->o.bucket_bytes, left = r->expected > r->closed ? r->expected - r->closed : 0;
  uint64_t part = left / PARTS;
  if (!r->least || !r->expected) return most;
  return part < r->least ? r->least : part < most ? part : most;
}

bool anf_comm_tune(anf_comm *c, anf_comm_curve *out) {
  anf_comm_curve k = {.bucket_bytes = 0};
  if (anf_comm_ranks(c) == 1) return false;
  float *at = (float *)calloc(1, (size_t)16 << 10 << 2 * (ANF_COMM_SIZES - 1));
  bool good = at != NULL;
  for (size_t i = 0; good && i < ANF_COMM_SIZES; i++) {
    k.bytes[i] = (uint64_t)16 << 10 << 2 * i;
    good = measure(c, at, k.bytes[i], &k.ns[i]);
  }
  k.bucket_bytes = good ? most(&k) : 0;
  uint64_t found[2] = {k.bucket_bytes, good ? least(&k) : 0};
  good = good && run(c, ANF_COMM_BROADCAST, ANF_U64, found, 2);
  free(at);
  if (!good) return false;
  pthread_mutex_lock(&c->lock);
  k.bucket_bytes = c->o.bucket_bytes = found[0];
  c->round = (anfi_comm_round){.least = found[1], .first = c->next};
  pthread_mutex_unlock(&c->lock);
  if (out) *out = k;
  return true;
}
