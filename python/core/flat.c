// SPDX-License-Identifier: Apache-2.0
/* Arguments of a call, flattened: words that are equal for calls that the same code serves, and a slot for each tensor
 * or number.
 *   (x, 2.5), x an Array of f32[4]   ->   words: tensor f32 of rank 1, 4, tensor float; slots: address of x, 2.5
 * Words that are addresses of objects stand for things that code is made for (functions, texts, keys of dictionaries);
 * who keeps the words must keep the objects. */
#include "core.h"

void flat_start(flat *f, core *c) {
  f->c = c;
  f->sig = f->sig0;
  f->slot = f->slot0;
  f->hold = f->hold0;
  f->nsig = f->n = f->nhold = 0;
  f->capsig = FLAT_WORDS;
  f->capslot = f->caphold = FLAT_SLOTS;
}

void flat_end(flat *f) {
  for (size_t i = 0; i < f->nhold; i++) Py_DECREF(f->hold[i]);
  if (f->sig != f->sig0) free(f->sig);
  if (f->slot != f->slot0) free(f->slot);
  if (f->hold != f->hold0) free(f->hold);
}

/* Twice the room; what is there may stand in the structure itself. */
static bool grow(void **at, const void *first, size_t *cap, size_t item, size_t need) {
  size_t to = *cap;
  while (to < need) to *= 2;
  void *p = malloc(to * item);
  if (!p) return PyErr_NoMemory(), false;
  memcpy(p, *at, *cap * item);
  if (*at != first) free(*at);
  *at = p;
  *cap = to;
  return true;
}

static bool word(flat *f, uint64_t w) {
  if (f->nsig == f->capsig) {
    void *p = f->sig;
    if (!grow(&p, f->sig0, &f->capsig, sizeof *f->sig, f->nsig + 1)) return false;
    f->sig = (uint64_t *)p;
  }
  f->sig[f->nsig++] = w;
  return true;
}

bool flat_room(flat *f, size_t slots) {
  if (f->n + slots <= f->capslot) return true;
  void *p = f->slot;
  if (!grow(&p, f->slot0, &f->capslot, sizeof *f->slot, f->n + slots)) return false;
  f->slot = (anf_generic *)p;
  return true;
}

/* Takes the reference. */
static bool hold_on(flat *f, PyObject *o) {
  if (f->nhold == f->caphold) {
    void *p = f->hold;
    if (!grow(&p, f->hold0, &f->caphold, sizeof *f->hold, f->nhold + 1)) return Py_DECREF(o), false;
    f->hold = (PyObject **)p;
  }
  f->hold[f->nhold++] = o;
  return true;
}

static uint64_t mark(int kind, uint64_t n) { return (uint64_t)kind | n << 8; }
static uint64_t address(const void *p) { return (uint64_t)(uintptr_t)p; }

static bool put_number(flat *f, anf_dtype d, anf_generic g) {
  if (!word(f, mark(MARK_TENSOR, (uint64_t)d)) || !flat_room(f, 1)) return false;
  f->slot[f->n++] = g;
  return true;
}

/* The array is held by the caller. */
static bool put_array(flat *f, const array *a) {
  if (!word(f, mark(MARK_TENSOR, (uint64_t)a->dtype | (uint64_t)a->ndim << 8)) || !flat_room(f, 1))
    return false;
  for (int i = 0; i < a->ndim; i++)
    if (!word(f, (uint64_t)a->extent[i])) return false;
  anf_generic g = {.bits = 0};
  bool complex = a->dtype == ANF_C64 || a->dtype == ANF_C128 || a->dtype == ANF_COMPLEX;
  if (a->ndim || complex) g.ptr = a->data;
  else memcpy(&g, a->data, a->bytes);
  f->slot[f->n++] = g;
  return true;
}

static bool put_complex(flat *f, PyObject *o) {
  array *a = array_new(f->c, ANF_COMPLEX, 0, NULL);
  if (!a) return false;
  double *x = (double *)a->data;
  x[0] = PyComplex_RealAsDouble(o);
  x[1] = PyComplex_ImagAsDouble(o);
  return hold_on(f, (PyObject *)a) && put_array(f, a);
}

static bool put_int(flat *f, PyObject *o) {
  int overflow;
  long long x = PyLong_AsLongLongAndOverflow(o, &overflow);
  if (!overflow)
    return !(x == -1 && PyErr_Occurred()) && put_number(f, ANF_INT, (anf_generic){.s64 = x});
  PyErr_Format(PyExc_OverflowError, "the integer %S does not fit into 64 bits", o);
  return false;
}

static bool put_sequence(flat *f, PyObject *o, bool list) {
  Py_ssize_t n = list ? PyList_Size(o) : PyTuple_Size(o);
  if (!word(f, mark(list ? MARK_LIST : MARK_TUPLE, (uint64_t)n))) return false;
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *x = list ? PyList_GetItem(o, i) : PyTuple_GetItem(o, i);
    if (!x || !flat_put(f, x)) return false;
  }
  return true;
}

static bool put_dict(flat *f, PyObject *o) {
  Py_ssize_t at = 0;
  PyObject *key, *value;
  uint64_t class = PyDict_CheckExact(o) ? 0 : address(Py_TYPE(o)); // results have it too
  if (!word(f, mark(MARK_DICT, (uint64_t)PyDict_Size(o) + 1)) || !word(f, class)) return false;
  while (PyDict_Next(o, &at, &key, &value))
    if (!word(f, address(key))) return false;
  for (at = 0; PyDict_Next(o, &at, &key, &value);)
    if (!flat_put(f, value)) return false;
  return true;
}

bool flat_static(flat *f, PyObject *o) {
  return word(f, mark(MARK_STATIC, 0)) && word(f, address(o));
}

/* Asks the hook: (object to know it by, [parts]), or None if it is one static thing. */
static bool put_other(flat *f, PyObject *o) {
  PyObject *r = PyObject_CallFunctionObjArgs(f->c->children, o, NULL);
  if (!r) return false;
  if (r == Py_None) {
    Py_DECREF(r);
    return flat_static(f, o);
  }
  bool good = hold_on(f, r);
  PyObject *type = good ? PyTuple_GetItem(r, 0) : NULL,
           *parts = good ? PyTuple_GetItem(r, 1) : NULL;
  good = type && parts && word(f, mark(MARK_OBJECT, (uint64_t)PyList_Size(parts))) &&
         word(f, address(type));
  for (Py_ssize_t i = 0; good && i < PyList_Size(parts); i++)
    good = flat_put(f, PyList_GetItem(parts, i));
  return good;
}

static bool put_lent(flat *f, PyObject *o) {
  array *a = array_of(f->c, o);
  return a && hold_on(f, (PyObject *)a) && put_array(f, a);
}

static bool put_nested(flat *f, PyObject *o) {
  if (PyTuple_CheckExact(o)) return put_sequence(f, o, false);
  if (PyList_CheckExact(o)) return put_sequence(f, o, true);
  if (PyDict_Check(o)) return put_dict(f, o);
  return put_other(f, o);
}

bool flat_put(flat *f, PyObject *o) {
  if (array_is_one(f->c, o)) return put_array(f, (array *)o);
  if (PyFloat_CheckExact(o))
    return put_number(f, ANF_FLOAT, (anf_generic){.f64 = PyFloat_AsDouble(o)});
  if (PyBool_Check(o)) return put_number(f, ANF_BOOL, (anf_generic){.b = o == Py_True});
  if (PyLong_CheckExact(o)) return put_int(f, o);
  if (o == Py_None) return word(f, mark(MARK_NONE, 0));
  if (PyComplex_CheckExact(o)) return put_complex(f, o);
  if (PyObject_CheckBuffer(o) && !PyBytes_Check(o)) return put_lent(f, o);
  bool known = PyTuple_Check(o) || PyList_CheckExact(o) || PyDict_Check(o) || PyUnicode_Check(o);
  if (!known && PyObject_HasAttr(o, f->c->s_dlpack)) return put_lent(f, o);
  if (Py_EnterRecursiveCall(" in the arguments of a compiled function")) return false;
  bool good = put_nested(f, o);
  Py_LeaveRecursiveCall();
  return good;
}
