// SPDX-License-Identifier: Apache-2.0
/* String interning: open addressing by XXH3, strings in the table's arena.
 *   anfi_intern(t, "x", 1) == anfi_intern_z(t, "x")   ->   equal texts are equal addresses */
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

static anfi_str *new_string(anfi_strtab *t, const char *s, size_t len) {
  if (len >= INT32_MAX - sizeof(anfi_str)) anfi_throw_nomem(t->arena->cx);
  size_t bytes = sizeof(anfi_str) + len + 1;
  anfi_str *p =
      (anfi_str *)(t->shared ? anfi_share(t->arena->cx, bytes) : anfi_alloc(t->arena, bytes));
  p->id = t->free.n ? t->free.at[--t->free.n] : (uint32_t)t->all.n;
  p->len = (uint32_t)len;
  memcpy(p->s, s, len);
  p->s[len] = 0;
  if (p->id < t->all.n) t->all.at[p->id] = p;
  else anfi_push(t->arena, &t->all, (const anfi_str *)p);
  return p;
}

const anfi_str *anfi_intern(anfi_strtab *t, const char *s, size_t len) {
  size_t i = t->nslot ? slot_of(t, s, len) : 0;
  if (t->nslot && t->slots[i]) return t->slots[i];
  if ((t->all.n + 1) * 4 > t->nslot * 3) { // a free slot ends every search
    grow(t);
    i = slot_of(t, s, len);
  }
  return t->slots[i] = new_string(t, s, len);
}

void anfi_strtab_trim(anfi_strtab *t) {
  size_t dead = 0;
  for (size_t i = 0; i < t->all.n; i++) dead += t->all.at[i] && !anfi_is_live(t->all.at[i]);
  while (t->free.cap < t->free.n + dead) // nothing fails from then on
    t->free.at = (uint32_t *)anfi_vec_grow(t->arena, t->free.at, &t->free.cap, sizeof(uint32_t));
  if (t->nslot) memset(t->slots, 0, t->nslot * sizeof *t->slots);
  for (size_t i = 0; i < t->all.n; i++) {
    anfi_str *p = (anfi_str *)(uintptr_t)t->all.at[i];
    if (p && anfi_is_live(p)) t->slots[slot_of(t, p->s, p->len)] = p;
    if (!p || anfi_is_live(p)) continue;
    t->all.at[i] = NULL;
    t->free.at[t->free.n++] = (uint32_t)i;
  }
}

const anfi_str *anfi_intern_z(anfi_strtab *t, const char *s) {
  return anfi_intern(t, s, strlen(s));
}

const anfi_str *anfi_interned(const anfi_strtab *t, const char *s, size_t len) {
  return t->nslot ? t->slots[slot_of(t, s, len)] : NULL;
}

bool anfi_has_word(const char *list, const char *word, size_t len) {
  for (const char *p = list; p && *p; p += strcspn(p, " "), p += *p == ' ')
    if (strcspn(p, " ") == len && memcmp(p, word, len) == 0) return true;
  return false;
}

typedef struct mark_row {
  const char *mark, *word, *meaning;
} mark_row;

static const mark_row *mark_of(const char *name, size_t *len) {
  static const mark_row rows[] = {
#define ROW(mark, word, meaning) {mark, word, meaning},
      ANFI_MARKS(ROW)
#undef ROW
  };
  for (size_t i = 0; i < ANFI_LEN(rows); i++) {
    *len = strlen(rows[i].mark);
    if (strncmp(name, rows[i].mark, *len) == 0) return &rows[i];
  }
  return NULL;
}

const char *anfi_mark_word(const char *name, size_t *len) {
  const mark_row *r = mark_of(name, len);
  return r ? r->word : NULL;
}

const char *anfi_mark_meaning(const char *name, size_t *len) {
  const mark_row *r = mark_of(name, len);
  return r ? r->meaning : NULL;
}
