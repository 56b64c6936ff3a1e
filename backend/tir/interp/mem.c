// SPDX-License-Identifier: Apache-2.0
/* Blocks, pointers and the checks on each access.
 *   a load past the end of a block   ->   IM_RANGE          a load of a freed block   ->   IM_WILD
 * A pointer is slot + 1 (20 bits) · generation (8) · offset (36); 0 is the null pointer. Two accesses race when they
 * are in different iterations of the same run of a parallel loop, the innermost common one, and one of them writes. */
#include "backend/tir/interp/mem.h"

#include <string.h>

enum { OFFSET_BITS = 36, GEN_BITS = 8, MAX_SLOT = 0xffffe };

static uint64_t pack(uint32_t slot, uint8_t gen) {
  return (uint64_t)(slot + 1) << (OFFSET_BITS + GEN_BITS) | (uint64_t)gen << OFFSET_BITS;
}
static uint64_t offset_of(uint64_t p) { return p & ((UINT64_C(1) << OFFSET_BITS) - 1); }

static iblock *block_of(const imem *m, uint64_t p) {
  uint64_t slot = (p >> (OFFSET_BITS + GEN_BITS)) - 1;
  if (slot >= m->block.n) return NULL;
  iblock *b = &m->block.at[slot];
  return b->live && b->gen == (uint8_t)(p >> OFFSET_BITS) ? b : NULL;
}

void anfi_t_mem_init(imem *m, anf_ctx *cx, bool checked) {
  *m = (imem){.cx = cx, .a = anfi_scratch(cx), .checked = checked};
  anfi_push(m->a, &m->path, ((ipath){0}));
  anfi_defer(cx, ANFI_ALWAYS, anfi_t_mem_free_all, m);
}

static void drop(imem *m, iblock *b) {
  anf_ctx *cx = m->cx;
  if (b->owned) anfi_raw(cx, b->p, b->size + !b->size, 0);
  if (b->set) anfi_raw(cx, b->set, b->size, 0);
  if (b->written) anfi_raw(cx, b->written, b->size * 2 * sizeof(uint32_t), 0);
  b->p = NULL, b->set = NULL, b->written = b->read = NULL;
  b->live = false;
}

void anfi_t_mem_free_all(void *p) {
  imem *m = (imem *)p;
  for (size_t i = 0; i < m->block.n; i++)
    if (m->block.at[i].live) drop(m, &m->block.at[i]);
}

uint64_t anfi_t_mem_block(imem *m, void *data, size_t size, bool set) {
  if (size >= UINT64_C(1) << OFFSET_BITS || (!m->free.n && m->block.n > MAX_SLOT)) return 0;
  if (!m->free.n) {
    anfi_push(m->a, &m->block, ((iblock){0}));
    anfi_push(m->a, &m->free, (uint32_t)m->block.n - 1);
  }
  uint32_t slot = m->free.at[m->free.n - 1];
  iblock *b = &m->block.at[slot];
  uint8_t gen = (uint8_t)(b->gen + 1);
  *b = (iblock){.p = (uint8_t *)data, .size = size, .gen = gen, .owned = !data};
  if (!data && !(b->p = (uint8_t *)anfi_raw(m->cx, NULL, 0, size + !size))) anfi_throw_nomem(m->cx);
  if (!data) memset(b->p, 0, size + !size);
  b->live = true;
  m->free.n--;
  if (m->checked && !set && size) {
    if (!(b->set = (uint8_t *)anfi_raw(m->cx, NULL, 0, size))) anfi_throw_nomem(m->cx);
    memset(b->set, 0, size);
  }
  return pack(slot, gen);
}

bool anfi_t_mem_release(imem *m, uint64_t ptr) {
  iblock *b = block_of(m, ptr);
  if (!b || offset_of(ptr)) return false;
  drop(m, b);
  anfi_push(m->a, &m->free, (uint32_t)(b - m->block.at));
  return true;
}

bool anfi_t_mem_move(const imem *m, uint64_t *ptr, int64_t bytes) {
  const iblock *b = block_of(m, *ptr);
  uint64_t off = offset_of(*ptr) + (uint64_t)bytes;
  if (!b || off > b->size) return false;
  *ptr = (*ptr & ~((UINT64_C(1) << OFFSET_BITS) - 1)) | off;
  return true;
}

/* Are the two in different iterations of one run of a loop? */
static bool apart(const imem *m, uint32_t x, uint32_t y) {
  const ipath *p = m->path.at;
  while (p[x].depth > p[y].depth) x = p[x].parent;
  while (p[y].depth > p[x].depth) y = p[y].parent;
  if (x == y) return false;
  while (p[x].parent != p[y].parent) x = p[x].parent, y = p[y].parent;
  return p[x].run == p[y].run;
}

static void shadow(imem *m, iblock *b) {
  if (b->written || !b->size) return;
  size_t n = anfi_size_mul(m->cx, b->size, 2 * sizeof(uint32_t));
  if (!(b->written = (uint32_t *)anfi_raw(m->cx, NULL, 0, n))) anfi_throw_nomem(m->cx);
  memset(b->written, 0, n);
  b->read = b->written + b->size;
}

/* It is enough to keep one reader, the first of those that run at the same time: here iterations run one after the
 * other, so a later writer that races with one of them races with the first as well. */
static bool races(imem *m, iblock *b, uint64_t off, size_t bytes, bool write) {
  if (!m->checked || (!m->now && !b->written)) return false;
  shadow(m, b);
  for (uint64_t i = off; i < off + bytes; i++) {
    if (b->written[i] && apart(m, b->written[i] - 1, m->now)) return true;
    bool beside = b->read[i] && apart(m, b->read[i] - 1, m->now);
    if (write && beside) return true;
    if (write) b->written[i] = m->now + 1;
    else if (!beside) b->read[i] = m->now + 1;
  }
  return false;
}

void *anfi_t_mem_host(imem *m, uint64_t ptr, size_t bytes) {
  const iblock *b = block_of(m, ptr);
  uint64_t off = offset_of(ptr);
  return b && bytes <= b->size && off <= b->size - bytes ? b->p + off : NULL;
}

imem_error anfi_t_mem_read(imem *m, uint64_t ptr, size_t bytes, uint64_t *v) {
  iblock *b = block_of(m, ptr);
  uint64_t off = offset_of(ptr);
  if (!b) return IM_WILD;
  if (bytes > b->size || off > b->size - bytes) return IM_RANGE;
  if (b->set)
    for (size_t i = 0; i < bytes; i++)
      if (!b->set[off + i]) return IM_UNSET;
  if (races(m, b, off, bytes, false)) return IM_RACE;
  *v = 0;
  memcpy(v, b->p + off, bytes);
  return IM_OK;
}

imem_error anfi_t_mem_write(imem *m, uint64_t ptr, size_t bytes, uint64_t v) {
  iblock *b = block_of(m, ptr);
  uint64_t off = offset_of(ptr);
  if (!b) return IM_WILD;
  if (bytes > b->size || off > b->size - bytes) return IM_RANGE;
  if (races(m, b, off, bytes, true)) return IM_RACE;
  memcpy(b->p + off, &v, bytes);
  if (b->set) memset(b->set + off, 1, bytes);
  return IM_OK;
}

uint32_t anfi_t_mem_enter(imem *m) {
  m->runs++;
  anfi_push(m->a, &m->path, ((ipath){m->now, m->path.at[m->now].depth + 1, m->runs}));
  m->now = (uint32_t)m->path.n - 1;
  return m->now;
}
void anfi_t_mem_iterate(imem *m, uint32_t mark) {
  ipath p = m->path.at[mark];
  anfi_push(m->a, &m->path, p);
  m->now = (uint32_t)m->path.n - 1;
}
void anfi_t_mem_leave(imem *m, uint32_t mark) { m->now = m->path.at[mark].parent; }
