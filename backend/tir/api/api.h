// SPDX-License-Identifier: Apache-2.0
/* What the public entries share: a maker gives a node or NULL, and then the module remembers why.
 *
 *   texpr anf_tir_make_thing(tmod *m, texpr x) {
 *     if (!x) return (texpr)bad(m);                   a wrong argument
 *     MAKE(texpr, anfi_t_thing(m->t, x));             out of memory, nested too deep: the same, from inside
 *   } */
#ifndef ANFI_TIR_API_H
#define ANFI_TIR_API_H

#include "backend/tir/tir.h"

void anfi_t_remember(tmod *m, anf_status st);
/* A wrong argument of a maker: the module remembers, and the context's list says whose. Always NULL. */
void *anfi_t_bad(tmod *m, const char *maker);
bool anfi_t_all_given(size_t n, const void *const *p);
#define bad(m)      anfi_t_bad((m), __func__)
#define GIVEN(n, p) anfi_t_all_given((n), (const void *const *)(p))

/* The result of `call` in a frame of its own, or NULL with the module's status set. */
#define MAKE(T, call)                                                                              \
  if (!m) return NULL;                                                                             \
  anf_ctx *cx = m->t->cx;                                                                          \
  anfi_frame frame_;                                                                               \
  anfi_enter(cx, NULL, &frame_);                                                                   \
  if (setjmp(frame_.jump)) {                                                                       \
    anfi_t_remember(m, anfi_leave(cx));                                                            \
    return NULL;                                                                                   \
  }                                                                                                \
  T made_ = (call);                                                                                \
  anf_status st_ = anfi_leave(cx);                                                                 \
  anfi_t_remember(m, st_);                                                                         \
  return st_ == ANF_OK ? made_ : NULL

/* Sets up a comparison by the host's options; false, with a finding: they are not valid. */
bool anfi_t_compare_by(anf_ctx *cx, tcompare *c, const anf_tir_compare_opts *o);
/* Path, if wanted, and both sides of what differs. */
void anfi_t_say_difference(const tcompare *c, bool path, anf_text *why);

#endif
