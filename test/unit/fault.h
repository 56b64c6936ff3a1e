// SPDX-License-Identifier: Apache-2.0
/* The fault loop: runs a piece of work again and again, failing its 1st, 2nd, 3rd, ... allocation
 * until none is left to fail. Each failed run must say ANF_NOMEM, leave the context fit for the
 * same work, and leave no byte behind.
 *
 * Example:
 *   static anf_status work(anf_ctx *cx, void *user) {
 *     anf_module *m = NULL;
 *     anf_status st = anf_parse(cx, user, "fault.anf", NULL, &m);
 *     anf_module_free(m);
 *     return st;
 *   }
 *   uint64_t allocations = fault_loop(work, "def f(x) { x }"); // fails the cmocka test if need be
 */
#ifndef ANF_TEST_FAULT_H
#define ANF_TEST_FAULT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "anfora/base.h"

/* An allocator that refuses one allocation, and knows how much it has given out. */
typedef struct fault_heap {
  uint64_t countdown; // allocations until the one that is refused; 0: none is
  bool refused;
  size_t bytes;
} fault_heap;

static inline void *fault_alloc(void *user, void *p, size_t old, size_t size) {
  fault_heap *h = (fault_heap *)user;
  if (!p) old = 0;
  if (size > old && h->countdown && --h->countdown == 0) {
    h->refused = true;
    return NULL;
  }
  h->bytes = h->bytes - old + size;
  if (size) return realloc(p, size);
  free(p);
  return NULL;
}

/* Does the work; returns its status. Whatever it makes from the context it frees, failed or not. */
typedef anf_status (*fault_work)(anf_ctx *cx, void *user);

static inline bool fault_complain(uint64_t k, const char *what) {
  fprintf(stderr, "with allocation %llu refused: %s\n", (unsigned long long)k, what);
  return false;
}

/* One turn, the k-th allocation refused. `*more` says whether there was a k-th at all. */
static inline bool fault_turn(fault_work work, void *user, uint64_t k, bool *more) {
  fault_heap h = {.countdown = k};
  anf_ctx_opts o = {.size = sizeof o, .allocator = {fault_alloc, &h}};
  anf_ctx *cx = anf_ctx_new(&o);
  if (!cx)
    return (*more = h.refused) && h.bytes == 0 ? true : fault_complain(k, "anf_ctx_new leaks");
  anf_status first = work(cx, user), second = ANF_OK;
  *more = h.refused;
  if (h.refused) second = work(cx, user);
  bool counted = anf_ctx_bytes(cx) == h.bytes;
  anf_ctx_free(cx);
  if (first != (h.refused ? ANF_NOMEM : ANF_OK)) return fault_complain(k, anf_status_name(first));
  if (second != ANF_OK)
    return fault_complain(k, "the same work fails on the same context afterwards");
  if (!counted) return fault_complain(k, "anf_ctx_bytes is not what was allocated");
  if (h.bytes) return fault_complain(k, "something leaks");
  return true;
}

/* Returns how many allocations the work makes, 0 if something was wrong. */
static inline uint64_t fault_loop(fault_work work, void *user) {
  bool more = true;
  uint64_t k = 0;
  while (more)
    if (!fault_turn(work, user, ++k, &more)) return 0;
  return k;
}

#endif
