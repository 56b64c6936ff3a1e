// SPDX-License-Identifier: Apache-2.0
/* Keys of compiled code: a 128-bit hash over everything the code depends on.
 *
 *   module (structure, names, constants, locations) + engine, options, target + this build of Anfora  →  key
 *
 * Equal keys mean equal code. Linear in the module. */
#include "backend/jit/jit.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

typedef struct keeper {
  /* the hash */
  XXH3_state_t *h;
  uint64_t word[256]; // that the hash has not seen yet: it takes many at once more quickly
  size_t n;
  /* numbers given to variables and blocks */
  uint32_t *number; // by id of a variable: how many were seen with it, 0 not yet
  uint32_t nvar, seen;
  anfi_map blocks; // numbered as they are seen
  uint64_t nblock;
  bool bound; // the global that is being seen takes its elements from a block
} keeper;

static void flush(keeper *k) {
  XXH3_128bits_update(k->h, k->word, k->n * sizeof *k->word);
  k->n = 0;
}
static void add_u64(keeper *k, uint64_t v) {
  if (k->n == ANFI_LEN(k->word)) flush(k);
  k->word[k->n++] = v;
}
/* Bytes fill whole words, the last of them with zeros: their number is hashed before them. */
static void add(keeper *k, const void *p, size_t n) {
  for (size_t at = 0; at < n; at += sizeof(uint64_t)) {
    uint64_t v = 0;
    memcpy(&v, (const char *)p + at, n - at < sizeof v ? n - at : sizeof v);
    add_u64(k, v);
  }
}

static void add_text(keeper *k, const char *s) {
  size_t n = s ? strlen(s) : 0;
  add_u64(k, s ? n + 1 : 0);
  if (n) add(k, s, n);
}

static void add_str(keeper *k, const anfi_str *s) { add_text(k, s ? s->s : NULL); }

static void add_attrs(keeper *k, tattrs a) {
  add_u64(k, a.n);
  for (uint32_t i = 0; i < a.n; i++) {
    add_u64(k, (uint64_t)a.at[i].key);
    add_u64(k, (uint64_t)a.at[i].value);
  }
}

static void add_dtype(keeper *k, tdtype d) {
  add_u64(k, (uint64_t)d.elem | (uint64_t)d.ptr << 8 | (uint64_t)d.lanes << 16 |
                 (uint64_t)d.rows << 32);
}

/* A variable of another module, which no engine compiles, has the number 0. */
static void add_variable(keeper *k, texpr e) {
  bool ours = e->id < k->nvar, first = ours && !k->number[e->id];
  if (first) k->number[e->id] = ++k->seen;
  add_u64(k, ours ? k->number[e->id] : 0);
  if (first) add_str(k, e->u.name);
}

/* Code that takes elements by address does not depend on them, but on which lists share a block. */
static void add_list(keeper *k, texpr e) {
  add_u64(k, (uint64_t)e->u.list.n << 1 | k->bound);
  if (!k->bound) add(k, e->u.list.data, anfi_t_list_bytes(e));
  else {
    uint64_t *at = anfi_map_at(&k->blocks, anfi_key(e->u.list.block));
    if (!*at) *at = ++k->nblock;
    add_u64(k, *at);
  }
}

/* The number of children goes before them, so that equal sequences are equal trees. */
static bool see_expr(tviewer *v, texpr e) {
  keeper *k = (keeper *)v->user;
  add_u64(k, (uint64_t)e->kind | (uint64_t)e->sub << 8 | (uint64_t)e->nidx << 16 |
                 (uint64_t)e->n << 32);
  add_u64(k, (uint64_t)e->line << 32 | e->col);
  add_dtype(k, e->dtype);
  switch ((tkind)e->kind) {
  case TX_var:
  case TX_tensor: add_variable(k, e); break;
  case TX_func_addr:
  case TX_call: add_str(k, e->u.name); break;
  case TX_constant:
    if (e->sub) {
      add_list(k, e);
      break;
    }
    add_u64(k, e->u.k.n);
    add(k, e->u.k.bits, e->u.k.n * sizeof *e->u.k.bits);
    break;
  case TX_intrin_call: add_attrs(k, e->u.attrs); break;
  default: break;
  }
  return true;
}

static bool see_stmt(tviewer *v, tstmt s) {
  keeper *k = (keeper *)v->user;
  uint64_t have = 0;
  for (unsigned i = 0; i < 4; i++) have |= (uint64_t)(s->e[i] != NULL) << i;
  for (unsigned i = 0; i < s->n && i < 4; i++) have |= (uint64_t)(s->s[i] != NULL) << (8 + i);
  add_u64(k, (uint64_t)s->kind | (uint64_t)s->sub << 8 | (uint64_t)s->n << 32);
  add_u64(k, have | (uint64_t)s->threads << 32);
  add_u64(k, (uint64_t)s->line << 32 | s->col);
  add_attrs(k, s->attrs);
  /* A view does not show what a statement defines. Two variables of one name that are defined in another order are others. */
  if (s->kind == TS_define || s->kind == TS_for_loop) (void)see_expr(v, s->e[0]);
  return true;
}

static void add_module(keeper *k, const tmod *m) {
  tviewer v = {.user = k, .enter_expr = see_expr, .enter_stmt = see_stmt};
  add_u64(k, m->props | (uint64_t)m->stops << 32 | (uint64_t)m->counts << 33);
  add_u64(k, m->global.n);
  for (size_t i = 0; i < m->global.n; i++) {
    k->bound = anfi_t_is_bound(m->global.at[i]);
    anfi_t_view_stmt(&v, m->global.at[i]);
  }
  k->bound = false;
  add_u64(k, m->func.n);
  for (size_t i = 0; i < m->func.n; i++) {
    tfunc f = m->func.at[i];
    add_str(k, f->name);
    add_dtype(k, f->ret);
    add_u64(k, (uint64_t)f->n << 32 | (f->body != NULL));
    add_u64(k, (uint64_t)f->line << 32 | f->col);
    add_attrs(k, f->attrs);
    for (uint32_t p = 0; p < f->n; p++) anfi_t_view_expr(&v, f->param[p]);
    if (f->body) anfi_t_view_stmt(&v, f->body);
  }
}

/* Each by itself: padding and pointers of the options are not what they say. */
static void add_engine(keeper *k, const anf_jit_engine *e) {
  add_text(k, e->vt->name);
  add_text(k, e->version);
  add_u64(k, e->compiler.word[0]);
  add_u64(k, e->compiler.word[1]);
  add_text(k, e->target.triple);
  add_text(k, e->target.cpu);
  add_text(k, e->target.features);
  add_text(k, e->o.passes ? e->o.passes : e->vt->passes);
  add_text(k, e->vt->always);
  add_text(k, e->o.cc);
  add_text(k, e->o.kernels);
  add_u64(k, anfi_jit_cache_bytes(e));
  add_u64(k, (uint64_t)e->o.level | (uint64_t)e->o.bounds << 8 | (uint64_t)e->o.contract << 9 |
                 (uint64_t)e->o.debug << 10);
}

static void begin(anf_ctx *cx, keeper *k, const anf_jit_engine *e) {
  XXH3_state_t *h = (XXH3_state_t *)anfi_alloc(anfi_scratch(cx), sizeof *h + 64);
  k->h = (XXH3_state_t *)(((uintptr_t)h + 63) & ~(uintptr_t)63); // it wants to be aligned
  k->n = 0;
  k->bound = false;
  XXH3_128bits_reset(k->h);
  add_engine(k, e);
}

static anfi_jit_id end(keeper *k) {
  flush(k);
  XXH128_hash_t r = XXH3_128bits_digest(k->h);
  return (anfi_jit_id){{r.low64, r.high64}};
}

void anfi_jit_key(anf_ctx *cx, const anf_jit_engine *e, const tmod *m, anfi_jit_id *out) {
  keeper k; // its words are not cleared
  begin(cx, &k, e);
  k.nvar = m->t->next_id;
  k.number = ANFI_NEW_N(anfi_scratch(cx), uint32_t, k.nvar);
  k.seen = 0;
  anfi_map_init(&k.blocks, anfi_scratch(cx));
  k.nblock = 0;
  if (e->o.debug) add_text(&k, m->t->file);
  add_module(&k, m);
  *out = end(&k);
}

anfi_jit_id anfi_jit_fact_id(anf_ctx *cx, const anf_jit_engine *e, const char *kind, size_t n,
                             const uint64_t *word) {
  keeper k;
  begin(cx, &k, e);
  add_text(&k, kind);
  for (size_t i = 0; i < n; i++) add_u64(&k, word[i]);
  return end(&k);
}

anfi_jit_id anfi_jit_sum(const void *p, size_t n) {
  XXH128_hash_t r = XXH3_128bits(p, n);
  return (anfi_jit_id){{r.low64, r.high64}};
}
