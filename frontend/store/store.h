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

/* Reads one file, without the parts that it may name. */
anf_status anfi_load_one(anf_ctx *cx, const char *path, anf_value **out, anf_value **meta);

/* A record whose names are all different; of `file` where they are not. */
anf_value *anfi_store_record(anf_ctx *cx, const char *file, size_t n, const char *const *name,
                             anf_value *const *v);

/* parts.c */
/* The texts of a file that names parts begin with its turn, a or b: its parts' names have it, so that the next ones have other names. */
#define ANFI_PARTS_START "{\"__metadata__\":{\"turn\":\""
#define ANFI_PARTS_WHOLE                                                                           \
  "whole " // and a tensor's name: the text has the axis, -1 in a row, and the dims of the whole
char anfi_part_turn(const char *path); // 0: it names no parts
const char *anfi_part_path(anfi_arena *a, const char *path, char turn, int64_t part);
uint32_t anfi_part_sum(uint32_t sum, const char *name, const void *p,
                       size_t n); // CRC-32 of both, after `sum`
/* All its tensors, whole. NULL with an error. */
anf_value *anfi_parts_join(anf_ctx *cx, const char *path, const anf_value *v,
                           const anf_value *meta);

#endif
