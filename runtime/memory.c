// SPDX-License-Identifier: Apache-2.0
/* The allocator of a stream: memory is taken from the top of a block, and given back in reverse order.
 *   m = anf_rt_mark(s); p = anf_rt_alloc(s, 100); anf_rt_release(s, m);   // p is given back
 * A mark is the address of the top; 0 stands for nothing taken. One empty block is kept, and the first block of a call
 * is as large as all that were in use at once before: from the third call on, calls that need as much as those before
 * ask the system for nothing. */
#include "runtime/rt.h"

#include <stdlib.h>

static anfi_rt_block *take(anf_stream *s, size_t bytes) {
  anfi_rt_block *b = s->spare;
  if (b && b->bytes >= bytes) {
    s->spare = NULL;
    return b;
  }
  if (!anfi_rt_may_take(s, s->taken, bytes)) return NULL;
  b = (anfi_rt_block *)aligned_alloc(RT_ALIGN, bytes);
  if (!b) return NULL;
  b->bytes = bytes;
  b->end = (char *)b + bytes;
  s->taken += bytes;
  return b;
}

static void give_back(anf_stream *s, anfi_rt_block *b) {
  s->taken -= b->bytes;
  free(b);
}

static void note_peak(anf_stream *s) {
  size_t used = s->taken - (s->spare ? s->spare->bytes : 0);
  if (used > s->peak) s->peak = used;
}

size_t anf_stream_peak_bytes(const anf_stream *s) { return s ? s->peak + s->kept.taken : 0; }

enum { HEAD = (sizeof(anfi_rt_block) + RT_ALIGN - 1) / RT_ALIGN * RT_ALIGN };

static void put_aside(anf_stream *s, anfi_rt_block *b) {
  if (s->spare && s->spare->bytes < b->bytes) give_back(s, s->spare), s->spare = NULL;
  if (s->spare) give_back(s, b);
  else s->spare = b;
}

/* One block for all that calls took at once before; the spare one, too small for that, goes first. */
static anfi_rt_block *take_peak(anf_stream *s) {
  if (s->spare && s->spare->bytes < s->peak) give_back(s, s->spare), s->spare = NULL;
  return take(s, s->peak);
}

static bool grow(anf_stream *s, size_t bytes) {
  if (s->block && !s->block->below && s->at == (char *)s->block + HEAD) { // empty, and too small
    put_aside(s, s->block);
    s->block = NULL;
  }
  size_t head = HEAD, want = s->o.block_bytes / RT_ALIGN * RT_ALIGN;
  if (bytes > SIZE_MAX / 2) return false;
  if (want < head + bytes) want = head + bytes;
  anfi_rt_block *b = !s->block && want < s->peak ? take_peak(s) : NULL;
  if (!b) b = take(s, want);
  if (!b) return false;
  note_peak(s);
  b->below = s->block;
  s->block = b;
  s->at = (char *)b + head;
  s->end = b->end;
  return true;
}

void *anf_rt_alloc(anf_stream *s, uint64_t bytes) {
  uint64_t n = (bytes + RT_ALIGN - 1) / RT_ALIGN * RT_ALIGN;
  if (n < bytes || (n > (uint64_t)(s->end - s->at) && !grow(s, (size_t)n)))
    anf_rt_trap(s, ANF_TRAP_MEMORY, 0, 0, NULL, NULL);
  void *p = s->at;
  s->at += n;
  return p;
}

uint64_t anf_rt_mark(anf_stream *s) { return (uint64_t)(uintptr_t)s->at; }

static bool holds(const anfi_rt_block *b, const char *p) {
  return p > (const char *)b && p <= b->end;
}

/* Is it the start of the lowest block, which is too small for what calls take? Then nothing is taken,
 * and other marks of nothing may stay: they are in no block. */
static bool outgrown(const anf_stream *s, const char *to) {
  const anfi_rt_block *b = s->block;
  return b && !b->below && to == (const char *)b + HEAD && b->bytes < s->peak;
}

void anf_rt_release(anf_stream *s, uint64_t mark) {
  char *to = (char *)(uintptr_t)mark; // NOLINT: it was an address
  while (s->block && (outgrown(s, to) || !(to && holds(s->block, to)))) {
    anfi_rt_block *b = s->block;
    s->block = b->below;
    put_aside(s, b);
  }
  s->at = s->block ? to : NULL;
  s->end = s->block ? s->block->end : NULL;
}

void anf_rt_free(anf_stream *s, void *p) { anf_rt_release(s, (uint64_t)(uintptr_t)p); }

void anfi_rt_blocks_free(anf_stream *s) {
  anf_rt_release(s, 0);
  if (s->spare) give_back(s, s->spare);
  s->spare = NULL;
}
