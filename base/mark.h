// SPDX-License-Identifier: Apache-2.0
/* Marks: the first characters in the names of graphs that a front end or a pass makes.
 *
 *     def f(n) { while n > 0 { n = n - 1 }; n }      makes the graphs f, ↵f (header), ↻f (body), ↓f (after)
 *
 * Marks of nested constructs add up: ✓✗f is the then branch within the else branch of f. Each mark is spelled
 * here only; the word stands for it where names are ASCII, such as in C: then_else_f. */
#ifndef ANFI_MARK_H
#define ANFI_MARK_H

#include <stddef.h>

#define ANFI_THEN     "✓" // branch taken if the condition holds; first of two adapters
#define ANFI_ELSE     "✗"
#define ANFI_HEADER   "↵" // loop: its parameters are the carried values; it chooses body or after
#define ANFI_BODY     "↻" // loop: one round
#define ANFI_AFTER    "↓" // code behind a loop or choice
#define ANFI_FORWARD  "▶" // primal with residuals
#define ANFI_BACKWARD "◀" // pullback
#define ANFI_ADJOINT  "◁" // part of a pullback: one round of a loop, or the adapter of a call
#define ANFI_TANGENT  "∂" // forward mode
#define ANFI_BATCHED  "⇉" // vmap
#define ANFI_DECLARED "∷" // takes the value of a name to its declared type

/* One row per mark: ROW(mark, word, what it is: the .. of f). */
#define ANFI_MARKS(ROW)                                                                            \
  ROW(ANFI_THEN, "then_", "then branch")                                                           \
  ROW(ANFI_ELSE, "else_", "else branch")                                                           \
  ROW(ANFI_HEADER, "header_", "loop header")                                                       \
  ROW(ANFI_BODY, "body_", "loop body")                                                             \
  ROW(ANFI_AFTER, "after_", "what comes after a loop or branch")                                   \
  ROW(ANFI_FORWARD, "fwd_", "gradient, forward half")                                              \
  ROW(ANFI_BACKWARD, "bwd_", "gradient, backward half")                                            \
  ROW(ANFI_ADJOINT, "adj_", "gradient, part of the backward half")                                 \
  ROW(ANFI_TANGENT, "jvp_", "tangent")                                                             \
  ROW(ANFI_BATCHED, "vmap_", "batch")                                                              \
  ROW(ANFI_DECLARED, "typed_", "declared type")

/* The word for the mark that `name` begins with, and the mark's length; NULL: it begins with none. */
const char *anfi_mark_word(const char *name, size_t *len);
/* Likewise what it is: "loop body". */
const char *anfi_mark_meaning(const char *name, size_t *len);

#endif
