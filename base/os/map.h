// SPDX-License-Identifier: Apache-2.0
/* Files that are mapped: nothing is copied, pages are read when they are first used, and the system may drop them. A file that
 * another program cuts short while it is mapped ends this one with SIGBUS, as in every program that maps files. */
#ifndef ANFI_OS_MAP_H
#define ANFI_OS_MAP_H

#include "base/base.h"

typedef struct anfi_os_view {
  int f;
  const char *data; // NULL: not as a whole
  size_t len;
} anfi_os_view;

/* A regular file of at least `least` bytes, mapped until the frame is left. False, with nothing recorded: it is another, or
 * it cannot be mapped, so it is to be read. */
bool anfi_os_view_file(anf_ctx *cx, const char *path, size_t least, anfi_os_view *out);
/* As anfi_os_read_below, opened until anfi_os_view_close, not mapped. False with E03xx. */
bool anfi_os_view_below(anf_ctx *cx, const char *dir, const char *name, anfi_os_view *out);
void anfi_os_view_close(anfi_os_view *v);

/* Memory with counted owners, on any thread: pages of a file, mapped, or pages of its own. It outlives contexts. */
typedef struct anfi_os_block anfi_os_block;

/* n bytes of zeros. NULL: out of memory. */
anfi_os_block *anfi_os_block_new(size_t n);
/* The n bytes at `offset` of the file, not to be written to: mapped if they lie at a multiple of `align`, else read. NULL:
 * neither is possible. */
anfi_os_block *anfi_os_block_view(const anfi_os_view *v, uint64_t offset, size_t n, size_t align);
anfi_os_block *anfi_os_block_retain(anfi_os_block *b);
void anfi_os_block_release(anfi_os_block *b);
unsigned char *anfi_os_block_data(const anfi_os_block *b);
/* A reference to a block with the bytes of b, which do not change any more: to b, or to one that was given here before, and then those
 * of b are dropped: nothing but its owner, the caller, may have it. */
anfi_os_block *anfi_os_block_one(anfi_os_block *b);
/* Pages of a file leave memory until they are used again. */
void anfi_os_block_leave(const anfi_os_block *b);
/* Reads n bytes of the file, mapped or not. False: they are not there. */
bool anfi_os_view_read(const anfi_os_view *v, uint64_t offset, void *to, size_t n);
/* memcpy from a view, whose pages do not stay in memory. */
void anfi_os_view_copy(void *to, const anfi_os_view *v, uint64_t offset, size_t n);

#endif
