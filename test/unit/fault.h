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

/* Allocations that the turns of a loop make together, about: a work that makes many itself is tried at every second, third,
 * ... of them. Tiny chunks make very many, each of little interest. */
#ifdef ANF_HOSTILE
enum { FAULT_ALLOCATIONS = 150 * 1000 };
#else
enum { FAULT_ALLOCATIONS = 2 * 1000 * 1000 };
#endif

/* An allocator that refuses one allocation, and knows how much it has given out. */
typedef struct fault_heap {
  uint64_t count;     // allocations so far
  uint64_t countdown; // allocations until the one that is refused; 0: none is
  bool refused;
  size_t bytes, peak;
  uint64_t given; // bytes in all, freed ones too
} fault_heap;

static inline void *fault_alloc(void *user, void *p, size_t old, size_t size) {
  fault_heap *h = (fault_heap *)user;
  if (!p) old = 0;
  bool grows = size > old;
  h->count += grows;
  if (grows && h->countdown && --h->countdown == 0) {
    h->refused = true;
    return NULL;
  }
  h->bytes = h->bytes - old + size;
  if (grows) h->given += size - old;
  if (h->bytes > h->peak) h->peak = h->bytes;
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

static inline anf_ctx *fault_ctx(fault_heap *h) {
  anf_ctx_opts o = {.size = sizeof o, .allocator = {fault_alloc, h}};
  return anf_ctx_new(&o);
}

/* How many allocations a context makes, and with the work after it. */
static inline bool fault_count(fault_work work, void *user, uint64_t *ctx, uint64_t *all) {
  fault_heap h = {0};
  anf_ctx *cx = fault_ctx(&h);
  if (!cx) return fault_complain(0, "anf_ctx_new fails");
  *ctx = h.count;
  anf_status st = work(cx, user);
  *all = h.count;
  anf_ctx_free(cx);
  return st == ANF_OK || fault_complain(0, anf_status_name(st));
}

/* One turn, the k-th allocation refused. */
static inline bool fault_turn(fault_work work, void *user, uint64_t k) {
  fault_heap h = {.countdown = k};
  anf_ctx *cx = fault_ctx(&h);
  if (!cx) return (h.refused && h.bytes == 0) || fault_complain(k, "anf_ctx_new leaks");
  anf_status first = work(cx, user);
  anf_status second = h.refused ? work(cx, user) : ANF_OK;
  bool counted = anf_ctx_bytes(cx) == h.bytes;
  anf_ctx_free(cx);
  if (!h.refused) return fault_complain(k, "the work made fewer allocations than before");
  if (first != ANF_NOMEM) return fault_complain(k, anf_status_name(first));
  if (second != ANF_OK)
    return fault_complain(k, "the same work fails on the same context afterwards");
  if (!counted) return fault_complain(k, "anf_ctx_bytes is not what was allocated");
  if (h.bytes) return fault_complain(k, "something leaks");
  return true;
}

/* Refuses each allocation of the work, and if `whole` those of the context too. Returns how many
 * there are, 0 if something was wrong. */
static inline uint64_t fault_loop_of(fault_work work, void *user, bool whole) {
  uint64_t ctx = 0, all = 0;
  if (!fault_count(work, user, &ctx, &all)) return 0;
  uint64_t from = whole ? 1 : ctx + 1, step = (all - from + 1) * all / 2 / FAULT_ALLOCATIONS + 1;
  for (uint64_t k = from; k <= all; k += step)
    if (!fault_turn(work, user, k)) return 0;
  return all - from + 1;
}

static inline uint64_t fault_loop(fault_work work, void *user) {
  return fault_loop_of(work, user, false);
}

#endif
