// SPDX-License-Identifier: Apache-2.0
/* Zip archives whose entries are stored as they are or deflated: .npz, PNNX's .bin. */
#ifndef ANFI_STORE_ZIP_H
#define ANFI_STORE_ZIP_H

#include "ir/ir.h"

typedef struct anfi_zip_entry {
  const char *name; // in the archive, not terminated
  size_t name_len, size;
  const char *data; // not aligned
} anfi_zip_entry;
typedef struct anfi_zip {
  ANFI_VEC(anfi_zip_entry) entries;
} anfi_zip;
/* Checks everything, checksums too. Entries point into `data`, compressed ones into `a`. */
bool anfi_zip_read(anf_ctx *cx, anfi_arena *a, const char *file, const char *data, size_t len,
                   anfi_zip *out);
/* Stored as they are. */
void anfi_zip_write(anf_text *o, const anfi_zip *z);

/* State that entries share which are inflated one after the other. */
typedef struct anfi_inflating anfi_inflating;
anfi_inflating *anfi_inflating_new(anfi_arena *a);
/* Deflated data, all of it, to exactly `size` bytes; false: it is damaged. */
bool anfi_inflate(anfi_inflating *z, const char *data, size_t len, char *out, size_t size);

#endif
