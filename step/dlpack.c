// SPDX-License-Identifier: Apache-2.0
/* Leaves of a step by DLPack.
 *   bind   the step reads, and of the state writes, the memory of somebody else's tensor, until another is bound
 *   lend   a tensor of DLPack that shows the leaf where it is */
#include "ir/value/dlpack.h"
#include "step/step.h"

#include <stdlib.h>

/* A tensor of somebody else, held until something else is bound. */
struct anfi_dl {
  anf_ctx *cx;
  void *managed;
  bool versioned;
};

void anfi_dl_release(struct anfi_dl *m) {
  anfi_dl_delete(m->managed, m->versioned);
  anfi_raw(m->cx, m, sizeof *m, 0);
}

static void bind(anf_step *s, anf_role r, size_t i, void *managed, bool versioned) {
  anf_array a;
  if (!anfi_dl_array(s->cx, managed, versioned, r != ANF_INPUT, &a)) return;
  if (!a.data) a.data = s->slot; // of no elements
  struct anfi_dl *m = (struct anfi_dl *)anfi_raw(s->cx, NULL, 0, sizeof *m);
  if (!m) anfi_throw_nomem(s->cx);
  *m = (struct anfi_dl){s->cx, managed, versioned};
  if (anfi_step_bind_array(s, r, i, &a)) s->leaf[r][i].managed = m;
  else anfi_raw(s->cx, m, sizeof *m, 0);
}

anf_status anf_step_bind_dlpack(anf_step *s, anf_role r, size_t i, void *managed, bool versioned,
                                anf_diag *d) {
  ANFI_NEED(d, s, managed);
  ANFI_ENTRY(s->cx, d);
  bind(s, r, i, managed, versioned);
  return anfi_leave(s->cx);
}

static void give_back(anfi_dl_managed *m) { free(m); }

void *anf_step_lend_dlpack(anf_step *s, anf_role r, size_t i) {
  if (!s) return NULL;
  if ((size_t)r >= 3 || i >= s->nleaf[r]) return NULL;
  const anfi_step_leaf *l = &s->leaf[r][i];
  anfi_dl_managed *m = (anfi_dl_managed *)malloc(sizeof *m + l->type->n * sizeof(int64_t));
  if (!m) return NULL;
  *m = (anfi_dl_managed){.deleter = give_back};
  anfi_dl_describe(&m->t, l->type, l->at, (int64_t *)(void *)(m + 1));
  return m;
}
