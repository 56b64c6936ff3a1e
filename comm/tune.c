// SPDX-License-Identifier: Apache-2.0
/* The size of buckets, from a curve of this link: t(n), the time of an AllReduce of n bytes.
 *
 *   bytes a second
 *        |        ,-------- most
 *        |      .*  <- the bucket: the smallest that has 4 / 5 of it
 *        |   .*
 *        '-*----------- n
 *
 * Smaller buckets start sooner in the backward sweep, larger ones cost fewer rounds of messages. All ranks take what
 * rank 0 found. */
#include "base/base.h"
#include "comm/comm.h"

#include <stdlib.h>
#include <string.h>

enum { TIMES = 5 };

static bool run(anf_comm *c, anf_comm_kind kind, anf_dtype d, void *at, uint64_t n) {
  anf_comm_call k = {.size = sizeof k, .kind = kind, .dtype = d, .in = at, .out = at, .n = n};
  return anf_comm_wait(c, anf_comm_start(c, &k), NULL);
}

/* The shortest of some: others are of the machine. */
static bool measure(anf_comm *c, float *at, uint64_t bytes, uint64_t *ns) {
  *ns = UINT64_MAX;
  for (int i = 0; i < TIMES; i++) {
    uint64_t from = anfi_comm_now();
    if (!run(c, ANF_COMM_ALL_REDUCE, ANF_F32, at, bytes / sizeof *at)) return false;
    uint64_t took = anfi_comm_now() - from;
    if (took < *ns) *ns = took;
  }
  return true;
}

static uint64_t choose(const anf_comm_curve *k) {
  double most = 0;
  size_t i = 0;
  for (size_t j = 0; j < ANF_COMM_SIZES; j++) {
    double rate = (double)k->bytes[j] / (double)(k->ns[j] + 1);
    if (rate > most) most = rate;
  }
  while ((double)k->bytes[i] / (double)(k->ns[i] + 1) < 0.8 * most) i++;
  return k->bytes[i];
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
  k.bucket_bytes = good ? choose(&k) : 0;
  good = good && run(c, ANF_COMM_BROADCAST, ANF_U64, &k.bucket_bytes, 1);
  free(at);
  if (!good) return false;
  pthread_mutex_lock(&c->lock);
  c->o.bucket_bytes = k.bucket_bytes;
  pthread_mutex_unlock(&c->lock);
  if (out) *out = k;
  return true;
}
