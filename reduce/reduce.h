// SPDX-License-Identifier: Apache-2.0
/* Making a failing program small: `anfora reduce`. */
#ifndef ANFI_REDUCE_H
#define ANFI_REDUCE_H

#include "anfora/text.h"
#include "optimizer/opt.h"

typedef struct anfi_reducer {
  anf_ctx *cx;
  /* Does the program still fail in the same way? Its text ends with NUL. */
  bool (*fails)(void *user, const char *text, size_t len);
  void *user;
  uint64_t max_tries, tries; // programs that may be tried, and that were
} anfi_reducer;

/* reduce.c: the smallest text found that fails as `text` does, until the frame is left. */
const char *anfi_reduce(anfi_reducer *r, const char *text, size_t len);

/* edit.c: the places of a kind are numbered; `count` of them from `from` on are changed.
 * Returns how many places there are. */
typedef struct anfi_edit {
  uint32_t kind;
  size_t from, count;
} anfi_edit;
extern const uint32_t anfi_reduce_kinds;
size_t anfi_reduce_edit(anf_module *m, const anfi_edit *e);

#endif
