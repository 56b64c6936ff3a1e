// SPDX-License-Identifier: Apache-2.0
/* A hash map from 64 bits to 64 bits: linear probing, no removal.
 *   *anfi_map_at(&m, 7) = 1; *anfi_map_find(&m, 7)   ->   1          anfi_map_find(&m, 8)   ->   NULL
 * INVARIANT: an address that was given is good until the next anfi_map_at of a new key. */
#include "base/base.h"

struct anfi_map_slot {
  uint64_t key, value; // key 0: free
};

void anfi_map_init(anfi_map *m, anfi_arena *a) { *m = (anfi_map){.arena = a}; }

static struct anfi_map_slot *slot_of(const anfi_map *m, uint64_t key) {
  size_t mask = m->nslot - 1, i = (size_t)anfi_hash_mix(0, key) & mask;
  while (m->slots[i].key && m->slots[i].key != key) i = (i + 1) & mask;
  return &m->slots[i];
}

static void grow(anfi_map *m) {
  struct anfi_map_slot *old = m->slots;
  size_t n = m->nslot, want = n ? n * 2 : ANFI_HASH_MIN;
  m->slots = ANFI_NEW_N(m->arena, struct anfi_map_slot, want);
  m->nslot = want;
  for (size_t i = 0; i < n; i++)
    if (old[i].key) *slot_of(m, old[i].key) = old[i];
  anfi_give_back(m->arena, old, n * sizeof *old);
}

static uint64_t *at_zero(anfi_map *m) {
  m->n += !m->has_zero;
  m->has_zero = true;
  return &m->zero;
}

uint64_t *anfi_map_at(anfi_map *m, uint64_t key) {
  if (!key) return at_zero(m);
  // a free slot ends every search; a key that is there is found without memory
  if ((m->n + 1) * 4 > m->nslot * 3 && !anfi_map_find(m, key)) grow(m);
  struct anfi_map_slot *s = slot_of(m, key);
  if (!s->key) {
    s->key = key;
    m->n++;
  }
  return &s->value;
}

uint64_t *anfi_map_find(const anfi_map *m, uint64_t key) {
  if (!key) return m->has_zero ? (uint64_t *)(uintptr_t)&m->zero : NULL;
  if (!m->nslot) return NULL;
  struct anfi_map_slot *s = slot_of(m, key);
  return s->key ? &s->value : NULL;
}
