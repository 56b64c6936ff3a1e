// SPDX-License-Identifier: Apache-2.0
/* A function of a batch that calls functions of parts of it, each on its rows of all slots.
 *   f of 100 rows:   f_64 of rows 0 to 63, f_32 of rows 64 to 95, f_4 of rows 96 to 99 */
#include "backend/jit/jit.h"

#include "anfora/rt.h"

void anfi_jit_batch_free(anfi_jit_batch *b) {
  if (!b) return;
  for (size_t i = 0; i < b->n; i++) anf_jit_function_free(b->piece[i].f);
  anfi_jit_free(b->piece);
  anfi_jit_free(b->row);
  anfi_jit_free(b);
}

static anfi_jit_batch *new_batch(size_t n, const anfi_jit_piece *piece, size_t nslot,
                                 const uint64_t *row) {
  anfi_jit_batch *b = (anfi_jit_batch *)anfi_jit_alloc(sizeof *b);
  if (!b) return NULL;
  b->piece = (anfi_jit_piece *)anfi_jit_alloc(n * sizeof *piece);
  b->row = (uint64_t *)anfi_jit_alloc((nslot + 1) * sizeof *row);
  if (!b->piece || !b->row) {
    anfi_jit_batch_free(b);
    return NULL;
  }
  memcpy(b->row, row, nslot * sizeof *row);
  b->nslot = nslot;
  for (; b->n < n; b->n++) {
    b->piece[b->n] = piece[b->n];
    anf_jit_function_retain(piece[b->n].f);
  }
  return b;
}

anf_jit_function *anfi_jit_batch_new(size_t n, const anfi_jit_piece *piece, size_t nslot,
                                     const uint64_t *row) {
  anf_jit_function *f = (anf_jit_function *)anfi_jit_alloc(sizeof *f);
  if (!f) return NULL;
  atomic_init(&f->refs, 1);
  f->module = anf_jit_module_retain(piece->f->module);
  f->entry = piece->f->entry;
  if ((f->batch = new_batch(n, piece, nslot, row))) return f;
  anf_jit_function_free(f);
  return NULL;
}

/* Calls take what they return, and scratch, out of the slots, so each has slots of its own. */
static anf_status call_pieces(const anfi_jit_batch *b, anf_stream *s, const anf_generic *args,
                              anf_generic *slot, size_t *failed) {
  for (size_t i = 0; i < b->n; i++) {
    for (size_t k = 0; k < b->nslot; k++) {
      slot[k] = args[k];
      if (b->row[k]) slot[k].ptr = (char *)args[k].ptr + b->piece[i].first * b->row[k];
    }
    slot[b->nslot].bits = 0;
    anf_status st = anf_jit_call_generic(b->piece[i].f, s, slot);
    if (st != ANF_OK) return *failed = i, st;
  }
  return ANF_OK;
}

anf_status anfi_jit_call_batch(const anf_jit_function *f, anf_stream *s, const anf_generic *args,
                               size_t *failed) {
  enum { FEW = 32 };
  anf_generic few[FEW], *slot = few;
  *failed = 0;
  if (f->batch->nslot >= FEW)
    slot = (anf_generic *)anfi_jit_alloc((f->batch->nslot + 1) * sizeof *slot);
  if (!slot) return ANF_NOMEM;
  anf_status st = call_pieces(f->batch, s, args, slot, failed);
  if (slot != few) anfi_jit_free(slot);
  return st;
}
