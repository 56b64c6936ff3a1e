// SPDX-License-Identifier: Apache-2.0
/* Serialises code objects for the cache.
 *   one entry f: s32 -> s32   ->   1; "f"; 1 << 32 | flags; its types; globals; image; code
 * Texts and arrays begin with their length in 8 bytes. Reading checks every offset and size: whatever the bytes are,
 * nothing outside of them is accessed. The layout belongs to one build of Anfora, which is part of the cache's key. */
#include "backend/jit/jit.h"

/* ---- out ---- */

static void put(anf_text *t, const void *p, size_t n) {
  uint64_t len = n;
  anfi_put(t, (const char *)&len, sizeof len);
  anfi_put(t, (const char *)p, n);
}
static void put_u64(anf_text *t, uint64_t v) { anfi_put(t, (const char *)&v, sizeof v); }

void anfi_jit_pack(const anfi_jit_code *c, const char *code, size_t n, anf_text *out) {
  put_u64(out, c->nentry);
  for (size_t i = 0; i < c->nentry; i++) {
    const anfi_jit_entry *e = &c->entry[i];
    put(out, e->name, strlen(e->name));
    put_u64(out, (uint64_t)e->n << 32 | e->flags);
    put(out, &e->ret, sizeof e->ret);
    put(out, e->param, e->n * sizeof *e->param);
  }
  put_u64(out, c->nglobal);
  for (size_t i = 0; i < c->nglobal; i++) {
    const anf_jit_global *g = &c->global[i];
    put(out, g->name, strlen(g->name));
    put_u64(out, g->elem);
    put_u64(out, g->offset);
    put_u64(out, g->bytes);
  }
  put(out, c->address, c->naddress * sizeof *c->address);
  put(out, c->image, c->image_bytes);
  put(out, code, n);
}

/* ---- in ---- */

typedef struct reader {
  const char *p;
  size_t left;
  bool good, nomem; // nomem: not good for want of memory
} reader;

static const char *take(reader *r, size_t n) {
  const char *p = r->p;
  r->good &= n <= r->left;
  if (!r->good) return NULL;
  r->p += n;
  r->left -= n;
  return p;
}
static uint64_t take_u64(reader *r) {
  uint64_t v = 0;
  const char *p = take(r, sizeof v);
  if (p) memcpy(&v, p, sizeof v);
  return v;
}
static const char *take_bytes(reader *r, size_t *n) {
  uint64_t len = take_u64(r);
  r->good &= len <= r->left;
  *n = (size_t)len;
  return r->good ? take(r, *n) : NULL;
}
/* NULL: the bytes are damaged, or there is no memory, which is no fault of theirs. */
static void *room(reader *r, size_t bytes) {
  void *p = r->good ? anfi_jit_alloc(bytes) : NULL;
  r->nomem |= r->good && !p;
  r->good &= p != NULL;
  return p;
}

static char *take_name(reader *r) {
  size_t n;
  const char *p = take_bytes(r, &n);
  char *s = p ? (char *)room(r, n + 1) : NULL;
  if (s) memcpy(s, p, n);
  return s;
}

static void take_entry(reader *r, anfi_jit_entry *e) {
  size_t n;
  e->name = take_name(r);
  uint64_t w = take_u64(r);
  e->n = (uint32_t)(w >> 32);
  e->flags = (uint32_t)w;
  const char *ret = take_bytes(r, &n);
  if (ret && n == sizeof e->ret) memcpy(&e->ret, ret, n);
  else r->good = false;
  const char *param = take_bytes(r, &n);
  r->good &= param && n == e->n * sizeof *e->param;
  e->param = (tdtype *)room(r, n);
  if (e->param) memcpy(e->param, param, n);
}

static void take_global(reader *r, anf_jit_global *g) {
  g->name = take_name(r);
  uint64_t elem = take_u64(r);
  g->elem = (anf_tir_elem)elem;
  g->offset = take_u64(r);
  g->bytes = take_u64(r);
  r->good &= elem < ANF_TIR_ELEM_COUNT;
}

/* Room for n things of which each takes eight bytes at least: no more than there can be. */
static void *room_for(reader *r, uint64_t n, size_t size) {
  r->good &= n <= r->left / 8;
  return room(r, (size_t)n * size);
}

static void take_bound(reader *r, anfi_jit_code *c) {
  size_t n;
  const char *p = take_bytes(r, &n);
  c->address = (anfi_jit_address *)room(r, n);
  r->good &= n % sizeof *c->address == 0;
  if (!r->good) return;
  memcpy(c->address, p, n);
  c->naddress = n / sizeof *c->address;
}

static void take_all(reader *r, anfi_jit_code *c) {
  uint64_t n = take_u64(r);
  c->entry = (anfi_jit_entry *)room_for(r, n, sizeof *c->entry);
  for (; r->good && c->nentry < n; c->nentry++) take_entry(r, &c->entry[c->nentry]);
  n = take_u64(r);
  c->global = (anf_jit_global *)room_for(r, n, sizeof *c->global);
  for (; r->good && c->nglobal < n; c->nglobal++) take_global(r, &c->global[c->nglobal]);
  take_bound(r, c);
  const char *image = take_bytes(r, &c->image_bytes);
  c->image = (uint8_t *)room(r, c->image_bytes);
  for (size_t i = 0; r->good && i < c->nglobal; i++)
    r->good = c->global[i].offset <= c->image_bytes &&
              c->global[i].bytes <= c->image_bytes - c->global[i].offset;
  for (size_t i = 0; r->good && i < c->naddress; i++)
    r->good =
        c->image_bytes >= sizeof(void *) && c->address[i].offset <= c->image_bytes - sizeof(void *);
  if (c->image) memcpy(c->image, image, c->image_bytes);
}

anfi_jit_code *anfi_jit_unpack(anf_ctx *cx, anf_jit_engine *e, const char *p, size_t n,
                               const char **code, size_t *code_bytes) {
  reader r = {.p = p, .left = n, .good = true};
  anfi_jit_code *c = anfi_jit_code_new(e);
  if (!c) anfi_throw_nomem(cx);
  take_all(&r, c);
  if (r.good) *code = take_bytes(&r, code_bytes);
  if (r.good && !r.left) return c;
  anfi_jit_code_release(c);
  if (r.nomem) anfi_throw_nomem(cx);
  return NULL;
}
