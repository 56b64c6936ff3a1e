// SPDX-License-Identifier: Apache-2.0
/* Contexts, statuses, diagnostics: what every other part of the library uses.
 *
 * A context owns the allocator and the interned types. Everything made from a context (modules,
 * values, diagnostics) must be freed before it. One context serves one thread at a time; distinct
 * contexts are independent.
 *
 * Example:
 *   anf_ctx *cx = anf_ctx_new(NULL);
 *   anf_diag *d = anf_diag_new(cx);
 *   anf_module *m = NULL;
 *   anf_status st = anf_parse(cx, "def f(x) { x + 1 }", "inline", d, &m);
 *   if (st != ANF_OK) anf_diag_print(d, stderr, false);
 *   anf_module_free(m);
 *   anf_diag_free(d);
 *   anf_ctx_free(cx);
 */
#ifndef ANFORA_BASE_H
#define ANFORA_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ANF_API __attribute__((visibility("default")))
#else
#define ANF_API
#endif

/* Marks a pointer that may be NULL. So may options, lists of findings, the host's own `user` pointers, arrays of no items
 * and what a function frees or releases. Any other NULL is refused: by ANF_INVALID and a finding, or by NULL, 0, false. */
#define ANF_NULLABLE

/* What an entry point reports. Details are in the diagnostics list, if one was given. */
typedef enum anf_status {
  ANF_OK = 0,
  ANF_INVALID,     // the input is wrong
  ANF_UNSUPPORTED, // the input is valid, and Anfora does not do it
  ANF_LIMIT,       // a limit set by an option was reached
  ANF_NOMEM,       // the allocator returned NULL
  ANF_IO,          // a file could not be read or written
  ANF_CANCELLED,   // the host asked to stop
  ANF_INTERNAL     // a bug of Anfora's
} anf_status;

/* Returns a static name such as "ANF_INVALID". */
ANF_API const char *anf_status_name(anf_status s);

/* One function allocates (old == 0), resizes and frees (size == 0), like realloc with both
 * sizes. */
typedef struct anf_allocator {
  void *(*fn)(void *user, void *ptr, size_t old, size_t size);
  void *user;
} anf_allocator;

/* Every options structure starts with its own size, so that it can grow: `anf_ctx_opts o = ANF_INIT(anf_ctx_opts);` sets it
 * and leaves the rest zero, which means the default. Size 0 stands for the structure as it was in the first
 * version that had it. A larger one than this library knows is refused, unless the bytes it does not know are zero. */
#ifdef __cplusplus
#define ANF_INIT(T)                                                                                \
  ([] {                                                                                            \
    T anf_init_ = T();                                                                             \
    anf_init_.size = sizeof(T);                                                                    \
    return anf_init_;                                                                              \
  }())
#else
#define ANF_INIT(T)                                                                                \
  { .size = sizeof(T) }
#endif
typedef struct anf_ctx_opts {
  size_t size;
  anf_allocator allocator; // default: the C library's
  uint32_t max_errors;     // how many errors one call collects; default 20
  uint32_t max_nesting;    // nesting of brackets and blocks in text; default 1000
  size_t max_bytes;        // all memory of the context; default: no limit
  bool (*progress)(void *user, const char *what, double done); // false cancels; may be NULL
  void *progress_user;
} anf_ctx_opts;

typedef struct anf_ctx anf_ctx;

/* Returns a new context, or NULL when out of memory or when `o` sets what this library does not know. */
ANF_API anf_ctx *anf_ctx_new(const anf_ctx_opts *o);
ANF_API void anf_ctx_free(anf_ctx *cx);
/* Bytes that the context and all made from it hold now: 0 growth over a cycle means no leak. */
ANF_API size_t anf_ctx_bytes(const anf_ctx *cx);
/* Frees the types, names and symbols of dims that nothing made from the context uses any more, and graphs of generators; gives
 * how many bytes. A server that compiles programs of ever new shapes calls it now and then, between two calls. A type
 * or symbol that the host has by itself is no longer valid then, unless a module, a value or a compiled program has it. */
ANF_API size_t anf_ctx_trim(anf_ctx *cx);
/* Asks long work of this context to stop with ANF_CANCELLED: passes, the interpreters, compiled code (anf_exec_run).
 * The one call allowed from any thread, and from a signal handler. */
ANF_API void anf_ctx_cancel(anf_ctx *cx);

/* The version of these headers. The ABI number is raised by a change that a program built before it would notice. */
#define ANF_VERSION_MAJOR  0
#define ANF_VERSION_MINOR  1
#define ANF_VERSION_PATCH  0
#define ANF_VERSION_NUMBER (ANF_VERSION_MAJOR * 10000 + ANF_VERSION_MINOR * 100 + ANF_VERSION_PATCH)
#define ANF_ABI_VERSION    1
/* Those of the library that is linked: "0.1.0", and its ABI_VERSION. */
ANF_API const char *anf_version(void);
ANF_API int anf_abi_version(void);
/* How the library was built, one line: version, ABI, compiler, processor, checks. */
ANF_API const char *anf_build_info(void);

typedef enum anf_severity { ANF_NOTE, ANF_WARNING, ANF_ERROR } anf_severity;

/* One finding. Strings are owned by the list and live as long as it. Absent parts are "" or 0. */
typedef struct anf_diag_item {
  anf_severity severity;
  anf_status status;   // the class of an error
  const char *code;    // "E0107"; see `anfora explain`
  const char *message; // one line, without code and location
  const char *file;
  uint32_t line, col; // from 1; col counts characters
  const char *source; // the text of that line
  const char *hint;   // a remedy
} anf_diag_item;

typedef struct anf_diag anf_diag;

/* Returns a new list, or NULL when out of memory. Notes follow the error they belong to. */
ANF_API anf_diag *anf_diag_new(anf_ctx *cx);
ANF_API void anf_diag_free(anf_diag *d);
ANF_API void anf_diag_clear(anf_diag *d);
ANF_API size_t anf_diag_count(const anf_diag *d);
/* Borrows the i-th item; NULL past the end. */
ANF_API const anf_diag_item *anf_diag_at(const anf_diag *d, size_t i);
/* Adds an error of the host's own, E1600 with these words, and gives `st`: for functions that the library calls, such as
 * generators. */
ANF_API anf_status anf_diag_report(anf_diag *ANF_NULLABLE d, anf_status st, const char *words);
/* The findings of the last call that failed and was given no list of its own; borrowed, NULL if there was none. Functions
 * without such a parameter, which return NULL or 0, say here why. */
ANF_API const anf_diag *anf_ctx_diag(const anf_ctx *cx);
/* Writes all items with source line and caret; the library itself never prints. */
ANF_API void anf_diag_print(const anf_diag *d, FILE *to, bool colour);
/* The long explanation of a code such as "E0107", or NULL. */
ANF_API const char *anf_explain(const char *code);

/* A growable text buffer that printers write to. `text` is always NUL-terminated once non-NULL. */
typedef struct anf_text {
  anf_ctx *cx;
  char *text;
  size_t len, cap;
} anf_text;
ANF_API void anf_text_free(anf_text *t);

#ifdef __cplusplus
}
#endif
#endif
