// SPDX-License-Identifier: Apache-2.0
/* The messages of one operation: all are started, then all are waited for, until one time for all of them.
 *   anfi_comm_post(c, true, 1, tag, x, n, e); anfi_comm_post(c, false, 1, tag, y, n, e); anfi_comm_finish(c, end, e)
 *   ->   x is at rank 1 and its message in y; or false, and e says that rank 1 is lost or late */
#define _POSIX_C_SOURCE 200809L
#include "comm/comm.h"

#include <stdlib.h>
#include <time.h>

uint64_t anfi_comm_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void anfi_comm_deadline(uint64_t ms, struct timespec *out) {
  uint64_t end = anfi_comm_now() + (ms < UINT32_MAX ? ms : UINT32_MAX) * 1000000u;
  out->tv_sec = (time_t)(end / 1000000000u);
  out->tv_nsec = (long)(end % 1000000000u);
}

bool anfi_comm_sync_init(pthread_mutex_t *lock, pthread_cond_t *const *cond, size_t n) {
  pthread_condattr_t attr;
  if (pthread_condattr_init(&attr) != 0) return false;
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  bool good = pthread_mutex_init(lock, NULL) == 0;
  for (size_t i = 0; i < n; i++) good &= pthread_cond_init(cond[i], &attr) == 0;
  pthread_condattr_destroy(&attr);
  return good;
}

static bool broken(anf_comm_error *e) {
  *e = (anf_comm_error){.why = ANF_COMM_BROKEN, .rank = -1};
  return false;
}

static void cancel_all(anf_comm *c) {
  for (size_t i = 0; i < c->nrequest; i++)
    if (c->request[i].request) c->link.cancel(c->link.user, c->request[i].request);
  c->nrequest = 0;
}

bool anfi_comm_post(anf_comm *c, bool send, int32_t peer, int32_t tag, const void *at,
                    uint64_t bytes, anf_comm_error *e) {
  if (!bytes) return true;
  if (c->nrequest == c->request_cap) {
    size_t cap = c->request_cap ? 2 * c->request_cap : 16;
    anfi_comm_request *r = (anfi_comm_request *)realloc(c->request, cap * sizeof *r);
    if (!r) return cancel_all(c), broken(e);
    c->request = r;
    c->request_cap = cap;
  }
  void *r = c->link.start(c->link.user, send, peer, tag, (void *)(uintptr_t)at, bytes);
  if (!r) {
    cancel_all(c);
    *e = (anf_comm_error){.why = ANF_COMM_LOST, .rank = peer};
    return false;
  }
  c->request[c->nrequest++] = (anfi_comm_request){r, peer, send};
  if (send) c->moved += bytes;
  return true;
}

static bool wait_for(anf_comm *c, anfi_comm_request *q, uint64_t end, anf_comm_error *e) {
  uint64_t now = anfi_comm_now(), ms = now < end ? (end - now + 999999) / 1000000 : 0;
  int32_t rank = q->peer;
  anf_comm_why why = c->link.wait(c->link.user, q->request, ms, &rank);
  if (why != ANF_COMM_LATE) q->request = NULL;
  if (why == ANF_COMM_FINE) return true;
  cancel_all(c);
  *e = (anf_comm_error){.why = why, .rank = rank, .ms = c->o.timeout_ms};
  return false;
}

/* In the first round of an operation: the first message of a peer has come. Those of one peer follow one another. */
static void note_heard(anf_comm *c, size_t i) {
  if (i == 0 || c->request[i].peer != c->request[i - 1].peer) c->heard = anfi_comm_now();
}

/* ORDER: receives come first: a link may move a message only while its receiver waits. */
bool anfi_comm_finish(anf_comm *c, uint64_t end, anf_comm_error *e) {
  bool first = !c->heard;
  for (int send = 0; send < 2; send++)
    for (size_t i = 0; i < c->nrequest; i++) {
      if (c->request[i].send != (send != 0)) continue;
      if (!wait_for(c, &c->request[i], end, e)) return false;
      if (first && !send) note_heard(c, i);
    }
  c->nrequest = 0;
  return true;
}

char *anfi_comm_staging(anf_comm *c, uint64_t bytes) {
  if (bytes <= c->staging_bytes) return c->staging;
  free(c->staging);
  c->staging = bytes <= SIZE_MAX ? (char *)malloc((size_t)bytes) : NULL;
  c->staging_bytes = c->staging ? (size_t)bytes : 0;
  return c->staging;
}
