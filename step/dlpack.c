// SPDX-License-Identifier: Apache-2.0
/* Arrays by DLPack: the structures of its C interface, version 1.0, and of the unversioned one before
 * it. The names here are ours; what counts is how they lie in memory. */
#include "step/step.h"

#include <stdlib.h>

typedef struct dl_tensor {
  void *data;
  struct {
    int32_t type, id;
  } device;
  int32_t ndim;
  struct {
    uint8_t code, bits;
    uint16_t lanes;
  } dtype;
  int64_t *shape, *strides; // strides in elements; NULL: dense
  uint64_t byte_offset;
} dl_tensor;

typedef struct dl_managed {
  dl_tensor t;
  void *ctx;
  void (*deleter)(struct dl_managed *self);
} dl_managed;

typedef struct dl_versioned {
  struct {
    uint32_t major, minor;
  } version;
  void *ctx;
  void (*deleter)(struct dl_versioned *self);
  uint64_t flags;
  dl_tensor t;
} dl_versioned;

enum { DL_CPU = 1, DL_READ_ONLY = 1 };
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_COMPLEX = 5, DL_BOOL = 6 };

static const struct {
  uint8_t code, bits;
  anf_dtype dtype;
} kinds[] = {
    {DL_BOOL, 8, ANF_BOOL},  {DL_INT, 8, ANF_I8},       {DL_INT, 16, ANF_I16},
    {DL_INT, 32, ANF_I32},   {DL_INT, 64, ANF_I64},     {DL_UINT, 8, ANF_U8},
    {DL_UINT, 16, ANF_U16},  {DL_UINT, 32, ANF_U32},    {DL_UINT, 64, ANF_U64},
    {DL_FLOAT, 16, ANF_F16}, {DL_BFLOAT, 16, ANF_BF16}, {DL_FLOAT, 32, ANF_F32},
    {DL_FLOAT, 64, ANF_F64}, {DL_COMPLEX, 64, ANF_C64}, {DL_COMPLEX, 128, ANF_C128},
};

/* A tensor of somebody else, held until something else is bound. */
struct anfi_dl {
  anf_ctx *cx;
  void *managed;
  bool versioned;
};

void anfi_dl_release(struct anfi_dl *m) {
  if (m->versioned) {
    dl_versioned *v = (dl_versioned *)m->managed;
    if (v->deleter) v->deleter(v);
  } else {
    dl_managed *v = (dl_managed *)m->managed;
    if (v->deleter) v->deleter(v);
  }
  anfi_raw(m->cx, m, sizeof *m, 0);
}

static bool bad(const anf_step *s, const char *why) {
  return anfi_fail(s->cx, anfi_nowhere(), ANF_E1118, why);
}

static bool dtype_of(const anf_step *s, const dl_tensor *t, anf_dtype *out) {
  if (t->dtype.lanes != 1) return bad(s, "its elements have more than one lane");
  for (size_t i = 0; i < ANFI_LEN(kinds); i++)
    if (kinds[i].code == t->dtype.code && kinds[i].bits == t->dtype.bits)
      return *out = kinds[i].dtype, true;
  return bad(s, "its element type is none of Anfora's");
}

static bool array_of(const anf_step *s, const dl_tensor *t, anf_array *a) {
  if (t->device.type != DL_CPU) return bad(s, "it is not in the CPU's memory");
  if (t->ndim < 0 || t->ndim > ANF_MAX_RANK) return bad(s, "it has too many dims");
  if (t->ndim && !t->shape) return bad(s, "it has no shape");
  *a = (anf_array){.rank = (size_t)t->ndim, .dims = t->shape, .strides = t->strides};
  if (!dtype_of(s, t, &a->dtype)) return false;
  bool empty = false;
  for (int32_t i = 0; i < t->ndim; i++) empty |= t->shape[i] == 0;
  if (!t->data && !empty) return bad(s, "its data is NULL: it was freed, or taken already");
  a->data = t->data ? (char *)t->data + t->byte_offset : (void *)s->slot;
  return true;
}

static const dl_tensor *tensor_of(const anf_step *s, void *managed, bool versioned, anf_role r) {
  const dl_versioned *v = (const dl_versioned *)managed;
  if (!managed) return (void)bad(s, "it is NULL"), NULL;
  if (!versioned) return &((const dl_managed *)managed)->t;
  if (v->version.major != 1) return (void)bad(s, "its version of DLPack is not known"), NULL;
  if (r != ANF_INPUT && v->flags & DL_READ_ONLY)
    return (void)bad(s, "it may only be read, and the step writes to it"), NULL;
  return &v->t;
}

static void bind(anf_step *s, anf_role r, size_t i, void *managed, bool versioned) {
  anf_array a;
  const dl_tensor *t = tensor_of(s, managed, versioned, r);
  if (!t || !array_of(s, t, &a)) return;
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

static void give_back(dl_managed *m) { free(m); }

void *anf_step_lend_dlpack(anf_step *s, anf_role r, size_t i) {
  if (!s) return NULL;
  if ((size_t)r >= 3 || i >= s->nleaf[r]) return NULL;
  const anfi_step_leaf *l = &s->leaf[r][i];
  dl_managed *m = (dl_managed *)malloc(sizeof *m + l->type->n * sizeof(int64_t));
  if (!m) return NULL;
  *m = (dl_managed){.deleter = give_back};
  m->t.data = l->at;
  m->t.device.type = DL_CPU;
  m->t.ndim = (int32_t)l->type->n;
  m->t.shape = (int64_t *)(void *)(m + 1);
  if (l->type->n) memcpy(m->t.shape, l->type->dims, l->type->n * sizeof(int64_t));
  m->t.dtype.lanes = 1;
  for (size_t k = 0; k < ANFI_LEN(kinds); k++)
    if (kinds[k].dtype == (anf_dtype)l->type->dtype) {
      m->t.dtype.code = kinds[k].code;
      m->t.dtype.bits = kinds[k].bits;
    }
  return m;
}
