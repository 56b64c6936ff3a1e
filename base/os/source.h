// SPDX-License-Identifier: Apache-2.0
/* Files that a file names: their path is not trusted, and says nothing about which file it is. */
#ifndef ANFI_OS_SOURCE_H
#define ANFI_OS_SOURCE_H

#include "base/base.h"

/* Identity of a file: equal for all paths that lead to it. */
typedef struct anfi_file_id {
  uint64_t device, inode;
  bool known;
} anfi_file_id;

anfi_file_id anfi_os_file_id(const char *path); // known: there is such a regular file
bool anfi_os_same_file(const anfi_file_id *a, const anfi_file_id *b);

/* Reads a regular file of at most `most` bytes; a pipe, a device and a folder are refused, and "-" is a name. */
bool anfi_os_read_source(anf_ctx *cx, anfi_arena *a, const char *path, size_t most, char **text,
                         size_t *len);

/* The path without links and dots, or NULL if nothing is there. */
const char *anfi_os_real_path(anfi_arena *a, const char *path);
bool anfi_os_is_in_folder(const char *file, const char *folder); // or below it; of real paths

#endif
