// SPDX-License-Identifier: Apache-2.0
/* String interning: open addressing by XXH3, strings in the table's arena. */
#include "base/base.h"
#include "base/mark.h"

void anfi_strtab_init(anfi_strtab *t, anfi_arena *a) { *t = (anfi_strtab){.arena = a}; }

static size_t slot_of(const anfi_strtab *t, const char *s, size_t len) {
  size_t mask = t->nslot - 1, i = (size_t)anfi_hash(s, len, 0) & mask;
  while (t->slots[i] && (t->slots[i]->len != len || memcmp(t->slots[i]->s, s, len) != 0))
    i = (i + 1) & mask;
  return i;
}

static void grow(anfi_strtab *t) {
  anfi_str **old = t->slots;
  size_t n = t->nslot, want = n ? n * 2 : ANFI_HASH_MIN;
  t->slots = ANFI_NEW_N(t->arena, anfi_str *, want);
  t->nslot = want;
  for (size_t i = 0; i < n; i++)
    if (old[i]) t->slots[slot_of(t, old[i]->s, old[i]->len)] = old[i];
  anfi_give_back(t->arena, old, n * sizeof *old);
}

const anfi_str *anfi_intern(anfi_strtab *t, const char *s, size_t len) {
  size_t i = t->nslot ? slot_of(t, s, len) : 0;
  if (t->nslot && t->slots[i]) return t->slots[i];
  if ((t->all.n + 1) * 4 > t->nslot * 3) { // a free slot ends every search
    grow(t);
    i = slot_of(t, s, len);
  }
  if (len >= UINT32_MAX) anfi_throw_nomem(t->arena->cx);
  anfi_str *p = (anfi_str *)anfi_alloc(t->arena, sizeof *p + len + 1);
  p->id = (uint32_t)t->all.n;
  p->len = (uint32_t)len;
  memcpy(p->s, s, len);
  p->s[len] = 0;
  anfi_push(t->arena, &t->all, (const anfi_str *)p);
  t->slots[i] = p;
  return p;
}

const anfi_str *anfi_intern_z(anfi_strtab *t, const char *s) {
  return anfi_intern(t, s, strlen(s));
}

const anfi_str *anfi_interned(const anfi_strtab *t, const char *s, size_t len) {
  return t->nslot ? t->slots[slot_of(t, s, len)] : NULL;
}

const char *anfi_mark_word(const char *name, size_t *len) {
  static const struct {
    const char *mark, *word;
  } rows[] = {
#define ROW(mark, word) {mark, word},
      ANFI_MARKS(ROW)
#undef ROW
  };
  for (size_t i = 0; i < ANFI_LEN(rows); i++) {
    *len = strlen(rows[i].mark);
    if (strncmp(name, rows[i].mark, *len) == 0) return rows[i].word;
  }
  return NULL;
}
