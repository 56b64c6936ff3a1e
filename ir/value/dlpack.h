// SPDX-License-Identifier: Apache-2.0
/* Arrays by DLPack: the structures of its C interface, version 1.0, and of the unversioned one before it. The names here are
 * ours; what counts is how they lie in memory. */
#ifndef ANFI_DLPACK_H
#define ANFI_DLPACK_H

#include "ir/ir.h"

typedef struct anfi_dl_tensor {
  /* memory */
  void *data;
  struct {
    int32_t type, id;
  } device;
  /* type and shape */
  int32_t ndim;
  struct {
    uint8_t code, bits;
    uint16_t lanes;
  } dtype;
  int64_t *shape, *strides; // strides in elements; NULL: dense
  uint64_t byte_offset;
} anfi_dl_tensor;

typedef struct anfi_dl_managed {
  anfi_dl_tensor t;
  void *ctx;
  void (*deleter)(struct anfi_dl_managed *self);
} anfi_dl_managed;

typedef struct anfi_dl_versioned {
  struct {
    uint32_t major, minor;
  } version;
  void *ctx;
  void (*deleter)(struct anfi_dl_versioned *self);
  uint64_t flags;
  anfi_dl_tensor t;
} anfi_dl_versioned;

/* What a tensor of another library is; false, with an error, if it is not usable. */
bool anfi_dl_array(anf_ctx *cx, void *managed, bool versioned, bool writes, anf_array *out);
void anfi_dl_delete(void *managed, bool versioned);
/* A tensor on the CPU with dense elements at `data`; its shape is stored at `shape`. False: DLPack lacks the element type. */
bool anfi_dl_describe(anfi_dl_tensor *t, const anf_type *type, void *data, int64_t *shape);

#endif
