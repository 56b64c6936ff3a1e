// SPDX-License-Identifier: Apache-2.0
/* DLPack, both forms of capsules: "dltensor" and "dltensor_versioned" (the ABI of dmlc/dlpack, version 1.1).
 *   an Array of f32[2, 3]   <->   {.data, .ndim = 2, .dtype = {DL_FLOAT, 32, 1}, .shape = {2, 3}, .strides = {3, 1}} */
#include "core.h"

typedef struct dl_type {
  uint8_t code, bits;
  uint16_t lanes;
} dl_type;
enum { DL_INT, DL_UINT, DL_FLOAT, DL_BFLOAT = 4, DL_COMPLEX, DL_BOOL };
enum { DL_CPU = 1, DL_READONLY = 1 };
typedef struct dl_tensor {
  void *data;
  int32_t device, device_id;
  int32_t ndim;
  dl_type dtype;
  int64_t *shape, *strides; // strides in elements; NULL: dense
  uint64_t byte_offset;
} dl_tensor;
typedef struct dl_managed {
  dl_tensor t;
  void *user;
  void (*deleter)(struct dl_managed *);
} dl_managed;
typedef struct dl_versioned {
  uint32_t major, minor;
  void *user;
  void (*deleter)(struct dl_versioned *);
  uint64_t flags;
  dl_tensor t;
} dl_versioned;

static dl_type to_dl(anf_dtype d) {
  uint8_t bits = (uint8_t)(8 * anf_dtype_bytes(d));
  switch (d) {
  case ANF_BOOL: return (dl_type){DL_BOOL, 8, 1};
  case ANF_I8:
  case ANF_I16:
  case ANF_I32:
  case ANF_I64:
  case ANF_INT: return (dl_type){DL_INT, bits, 1};
  case ANF_BF16: return (dl_type){DL_BFLOAT, 16, 1};
  case ANF_F16:
  case ANF_F32:
  case ANF_F64:
  case ANF_FLOAT: return (dl_type){DL_FLOAT, bits, 1};
  case ANF_C64:
  case ANF_COMPLEX:
  case ANF_C128: return (dl_type){DL_COMPLEX, bits, 1};
  default: return (dl_type){DL_UINT, bits, 1}; // random keys too: they are 64 bits
  }
}

static anf_dtype from_dl(dl_type t) {
  if (t.lanes != 1) return ANF_DTYPE_COUNT;
  for (int d = 0; d < ANF_KEY; d++) {
    dl_type x = to_dl((anf_dtype)d);
    if (x.code == t.code && x.bits == t.bits) return (anf_dtype)d;
  }
  return ANF_DTYPE_COUNT;
}

/* ---- lending ---- */

/* One block: the structure, then shape and strides. */
typedef struct loan {
  union {
    dl_managed plain;
    dl_versioned versioned;
  } u;
  PyObject *array;
  int64_t extent[2 * ANF_MAX_RANK];
} loan;

static void give_back(loan *l) {
  PyGILState_STATE g = PyGILState_Ensure();
  Py_DECREF(l->array);
  PyGILState_Release(g);
  free(l);
}
static void delete_plain(dl_managed *m) { give_back((loan *)m->user); }
static void delete_versioned(dl_versioned *m) { give_back((loan *)m->user); }

/* A capsule that nobody took has its first name still. */
static void drop_plain(PyObject *capsule) {
  dl_managed *m = PyCapsule_IsValid(capsule, "dltensor")
                      ? (dl_managed *)PyCapsule_GetPointer(capsule, "dltensor")
                      : NULL;
  if (m) m->deleter(m);
}
static void drop_versioned(PyObject *capsule) {
  dl_versioned *m = PyCapsule_IsValid(capsule, "dltensor_versioned")
                        ? (dl_versioned *)PyCapsule_GetPointer(capsule, "dltensor_versioned")
                        : NULL;
  if (m) m->deleter(m);
}

static void describe(array *a, loan *l, dl_tensor *t) {
  int64_t step = 1;
  for (int i = a->ndim; i-- > 0;) {
    l->extent[i] = a->extent[i];
    l->extent[a->ndim + i] = step;
    step *= a->extent[i] ? a->extent[i] : 1;
  }
  *t = (dl_tensor){.data = a->data,
                   .device = DL_CPU,
                   .ndim = a->ndim,
                   .dtype = to_dl(a->dtype),
                   .shape = l->extent,
                   .strides = l->extent + a->ndim};
}

PyObject *dlpack_export(array *a, bool versioned) {
  if (a->readonly && !versioned) {
    PyErr_SetString(PyExc_BufferError, "the array may only be read, which this DLPack cannot say");
    return NULL;
  }
  loan *l = (loan *)calloc(1, sizeof *l);
  if (!l) return PyErr_NoMemory();
  l->array = Py_NewRef((PyObject *)a);
  PyObject *r;
  if (versioned) {
    l->u.versioned = (dl_versioned){.major = 1,
                                    .minor = 1,
                                    .user = l,
                                    .deleter = delete_versioned,
                                    .flags = a->readonly ? DL_READONLY : 0};
    describe(a, l, &l->u.versioned.t);
    r = PyCapsule_New(&l->u.versioned, "dltensor_versioned", drop_versioned);
  } else {
    l->u.plain = (dl_managed){.user = l, .deleter = delete_plain};
    describe(a, l, &l->u.plain.t);
    r = PyCapsule_New(&l->u.plain, "dltensor", drop_plain);
  }
  if (!r) give_back(l);
  return r;
}

/* ---- taking ---- */

static void release_plain(void *m) {
  dl_managed *x = (dl_managed *)m;
  if (x->deleter) x->deleter(x);
}
static void release_versioned(void *m) {
  dl_versioned *x = (dl_versioned *)m;
  if (x->deleter) x->deleter(x);
}

/* Elements stand one after another, each at an address that suits it. */
static bool is_dense(const dl_tensor *t, size_t bytes) {
  int64_t step = 1;
  if (((uintptr_t)t->data + t->byte_offset) % bytes) return false;
  if (!t->strides) return true;
  for (int i = t->ndim; i-- > 0;) {
    if (t->shape[i] != 1 && t->strides[i] != step) return false;
    step *= t->shape[i];
  }
  return true;
}

static void copy_strided(const dl_tensor *t, size_t bytes, char *to, const char *from) {
  int64_t at[ANF_MAX_RANK] = {0}, total = 1, dense[ANF_MAX_RANK];
  for (int i = t->ndim; i-- > 0; total *= t->shape[i]) dense[i] = total;
  const int64_t *stride = t->strides ? t->strides : dense;
  for (int64_t k = 0; k < total; k++) {
    int64_t offset = 0;
    for (int i = 0; i < t->ndim; i++) offset += at[i] * stride[i];
    memcpy(to + k * (int64_t)bytes, from + offset * (int64_t)bytes, bytes);
    for (int i = t->ndim; i-- > 0 && ++at[i] == t->shape[i];) at[i] = 0;
  }
}

static bool has_shape(const dl_tensor *t) {
  if (t->ndim < 0 || (t->ndim && !t->shape)) return false;
  for (int i = 0; i < t->ndim; i++)
    if (t->shape[i] < 0) return false;
  return true;
}

/* Takes over what was lent; gives it back if it is of no use. */
static array *taken(core *c, const dl_tensor *t, void *lent, void (*release)(void *),
                    bool readonly) {
  anf_dtype d = from_dl(t->dtype);
  const char *why = t->device != DL_CPU    ? "the tensor is not in the CPU's memory"
                    : d == ANF_DTYPE_COUNT ? "the tensor has an element type that is not supported"
                    : t->ndim > ANF_MAX_RANK ? "the tensor has too many dims"
                    : !has_shape(t)          ? "the tensor has no shape that can be"
                                             : NULL;
  if (why) {
    release(lent); // may run Python, with no exception set
    return (array *)PyErr_Format(PyExc_TypeError, "%s", why);
  }
  Py_ssize_t dims[ANF_MAX_RANK];
  for (int i = 0; i < t->ndim; i++) dims[i] = (Py_ssize_t)t->shape[i];
  char *data = (char *)t->data + t->byte_offset;
  if (is_dense(t, anf_dtype_bytes(d)))
    return array_view(c, d, t->ndim, dims, data, lent, release, readonly);
  array *a = array_new(c, d, t->ndim, dims);
  if (a) copy_strided(t, anf_dtype_bytes(d), (char *)a->data, data);
  release(lent);
  return a;
}

static array *from_versioned(core *c, dl_versioned *m) {
  if (m->major == 1) return taken(c, &m->t, m, release_versioned, (m->flags & DL_READONLY) != 0);
  unsigned major = (unsigned)m->major;
  release_versioned(m);
  return (array *)PyErr_Format(PyExc_BufferError, "DLPack version %u is not known", major);
}

static array *from_capsule(core *c, PyObject *capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    dl_versioned *m = (dl_versioned *)PyCapsule_GetPointer(capsule, "dltensor_versioned");
    if (PyCapsule_SetName(capsule, "used_dltensor_versioned") < 0) return NULL;
    return from_versioned(c, m);
  }
  if (!PyCapsule_IsValid(capsule, "dltensor")) {
    PyErr_SetString(PyExc_BufferError,
                    "__dlpack__ gave no capsule of DLPack, or one that was taken");
    return NULL;
  }
  dl_managed *m = (dl_managed *)PyCapsule_GetPointer(capsule, "dltensor");
  if (!m || PyCapsule_SetName(capsule, "used_dltensor") < 0) return NULL;
  return taken(c, &m->t, m, release_plain, false);
}

array *dlpack_import(core *c, PyObject *o) {
  PyObject *f = PyObject_GetAttr(o, c->s_dlpack);
  if (!f) return NULL;
  PyObject *capsule = PyObject_Call(f, c->no_args, c->max_version);
  if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) { // it does not know of versions
    PyErr_Clear();
    capsule = PyObject_Call(f, c->no_args, NULL);
  }
  Py_DECREF(f);
  array *a = capsule ? from_capsule(c, capsule) : NULL;
  Py_XDECREF(capsule);
  return a;
}

/* ---- the C functions of a class of tensors, without capsules and their checks ---- */

typedef struct dl_exchange {
  uint32_t major, minor;
  struct dl_exchange *older;
  void *allocate;
  int (*from_object)(void *tensor, dl_versioned **m); // -1 with an exception set
  int (*to_object)(dl_versioned *m, void **tensor);   // takes m over if it succeeds
} dl_exchange;

/* NULL with an exception if the class has no such functions of version 1. */
static const dl_exchange *exchange_of(PyObject *type) {
  PyObject *capsule = PyObject_GetAttrString(type, "__dlpack_c_exchange_api__");
  const dl_exchange *x =
      capsule ? (const dl_exchange *)PyCapsule_GetPointer(capsule, "dlpack_exchange_api") : NULL;
  Py_XDECREF(capsule);
  while (x && x->major > 1) x = x->older;
  if (x && x->from_object && x->to_object) return x;
  if (!PyErr_Occurred())
    PyErr_SetString(PyExc_BufferError, "the class has no functions of DLPack's version 1");
  return NULL;
}

/* lend(tensor): its memory as an array, even if gradients are recorded for it */
PyObject *dlpack_lend(PyObject *module, PyObject *tensor) {
  const dl_exchange *x = exchange_of((PyObject *)Py_TYPE(tensor));
  dl_versioned *m = NULL;
  if (!x || x->from_object(tensor, &m) != 0 || !m) return NULL;
  return (PyObject *)from_versioned(core_of(module), m);
}

/* give(array, class): a tensor of the class in the array's memory */
PyObject *dlpack_give(PyObject *module, PyObject *args) {
  core *c = core_of(module);
  PyObject *a, *type;
  if (!PyArg_ParseTuple(args, "O!O", c->array_type, &a, &type)) return NULL;
  const dl_exchange *x = exchange_of(type);
  loan *l = x ? (loan *)calloc(1, sizeof *l) : NULL;
  if (!l) return x ? PyErr_NoMemory() : NULL;
  l->array = Py_NewRef(a);
  l->u.versioned = (dl_versioned){.major = 1, .minor = 1, .user = l, .deleter = delete_versioned};
  describe((array *)a, l, &l->u.versioned.t);
  void *tensor = NULL;
  if (x->to_object(&l->u.versioned, &tensor) == 0 && tensor) return (PyObject *)tensor;
  give_back(l);
  return NULL;
}
