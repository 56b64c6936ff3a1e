// SPDX-License-Identifier: Apache-2.0
/* Zip archives whose entries are stored, not compressed: .npz, PNNX's .bin. */
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
/* Checks everything, checksums too. Entries point into `data`. */
bool anfi_zip_read(anf_ctx *cx, anfi_arena *a, const char *file, const char *data, size_t len,
                   anfi_zip *out);
void anfi_zip_write(anf_text *o, const anfi_zip *z);

#endif
