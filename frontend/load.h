// SPDX-License-Identifier: Apache-2.0
/* Files of programs in any format: one reader per row of format.def. */
#ifndef ANFI_LOAD_H
#define ANFI_LOAD_H

#include "base/os/map.h"
#include "ir/ir.h"

typedef struct anfi_input {
  const char *path; // "-": standard input
  const char *text; // 0 after its end, unless it is mapped
  size_t len;
  const anfi_os_view *view; // the file, if `text` is mapped; NULL: it was read
  bool weights; // weights of a model become parameters after the inputs, instead of constants
} anfi_input;

typedef struct anfi_format {
  const char *ending, *magic, *doc;
  bool text, mapped;
  anf_module *(*read)(anf_ctx *cx, const anfi_input *f); // inside a frame, which fails on errors
} anfi_format;

/* The format of a path, by its ending, else by the magic in the file; NULL: unknown. */
const anfi_format *anfi_format_of(const char *path);
/* The format of standard input: by its magic, else the language. */
const anfi_format *anfi_format_of_input(const char *text, size_t len);
/* The format with this ending of `path`, the file need not exist. */
const anfi_format *anfi_format_by_ending(const char *path);

/* The formats in the order of format.def; NULL after the last. */
const anfi_format *anfi_format_at(size_t i);
/* anf_load with options; inside a frame. NULL with an error. */
anf_module *anfi_load_file(anf_ctx *cx, const char *path, bool weights);
/* The same of standard input, which was read already; f->path is "-". */
anf_module *anfi_load_input(anf_ctx *cx, const anfi_input *f);

/* effects.c: lists with each graph the calls that may have effects, in the order of their ids; those listed already stay. */
void anfi_find_effects(anf_module *m, anfi_arena *a);

/* The readers. */
#define ANFI_FORMAT(name, ...) anf_module *anfi_read_##name(anf_ctx *cx, const anfi_input *f);
#include "frontend/format.def"
#undef ANFI_FORMAT

#endif
