// SPDX-License-Identifier: Apache-2.0
/* safetensors.c for the inside: tensors that lie where they are, without a value of each. */
#ifndef ANFI_STORE_H
#define ANFI_STORE_H

#include "ir/ir.h"

typedef struct anfi_stored {
  const char *name;
  const anf_type *type; // of a tensor
  const void *data;     // dense; NULL: fetched
} anfi_stored;

/* Writes them as a safetensors file, as anfi_os_write_parts does: nothing is copied. False with an error. Tensors without
 * data are fetched one after the other, by number: NULL, with an error recorded, ends it. The memory is used until the next
 * is fetched. */
bool anfi_save_fetched(anf_ctx *cx, size_t n, const anfi_stored *t, size_t nmeta,
                       const char *const *meta, const char *path,
                       const void *(*fetch)(void *user, size_t i), void *user);

#endif
