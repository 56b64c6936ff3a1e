// SPDX-License-Identifier: Apache-2.0
/* The library of the language: the modules of lib/, which programs import by name. */
#ifndef ANFI_FRONTEND_LIB_H
#define ANFI_FRONTEND_LIB_H

#include <stddef.h>

typedef struct anfi_lib_module {
  const char *name, *file;
  const unsigned char *text; // NUL-terminated, and as long as the process
  size_t len;
} anfi_lib_module;
extern const anfi_lib_module anfi_lib[]; // the last has no name

#endif
