// SPDX-License-Identifier: Apache-2.0
/* Values and types of the context as Python objects, and back: for programs that print, and for functions among
 * arguments and results.
 *   (1, 2.5)   <->   a tuple of two values          ("f32", (2, 3))   <-   the type f32[2, 3]
 * Lists and dictionaries become tuples and records. */
#include "core.h"

/* ---- to values ---- */

static anf_value *tensor_of(core *c, PyObject *o) {
  array *a = array_of(c, o);
  if (!a) return NULL;
  int64_t dims[ANF_MAX_RANK];
  for (int i = 0; i < a->ndim; i++) dims[i] = a->extent[i];
  anf_value *v = anf_value_tensor(c->cx, a->dtype, (size_t)a->ndim, dims, a->data);
  Py_DECREF(a);
  if (!v) PyErr_NoMemory();
  return v;
}

static void release_all(anf_value **v, Py_ssize_t n) {
  for (Py_ssize_t i = 0; i < n; i++) anf_value_release(v[i]);
  free(v);
}

/* Of a tuple or list; the record's names, if there are any, from a tuple of texts. */
static anf_value *nest_of(core *c, PyObject *items, PyObject *names) {
  Py_ssize_t n = PySequence_Size(items), done = 0;
  if (n < 0) return NULL;
  anf_value **v = (anf_value **)calloc((size_t)n + 1, sizeof *v), *r = NULL;
  const char **name = (const char **)calloc((size_t)n + 1, sizeof *name);
  bool good = v && name;
  if (!good) PyErr_NoMemory();
  for (; good && done < n; done++) {
    PyObject *x = PySequence_GetItem(items, done);
    good = x && (v[done] = value_of(c, x));
    Py_XDECREF(x);
    PyObject *s = good && names ? PyTuple_GetItem(names, done) : NULL;
    if (s) good = (name[done] = PyUnicode_AsUTF8AndSize(s, NULL)) != NULL;
  }
  if (good) {
    r = names ? anf_value_record(c->cx, (size_t)n, name, v) : anf_value_tuple(c->cx, (size_t)n, v);
    if (!r) PyErr_NoMemory();
  }
  if (v) release_all(v, done);
  free(name);
  return r;
}

static anf_value *text_of(core *c, PyObject *o) {
  Py_ssize_t n;
  const char *s = PyUnicode_AsUTF8AndSize(o, &n);
  return s ? anf_value_string(c->cx, s, (size_t)n) : NULL;
}

static anf_value *plain_of(core *c, PyObject *o) {
  if (o == Py_None) return anf_value_none(c->cx);
  if (PyBool_Check(o)) return anf_value_bool(c->cx, o == Py_True);
  if (PyFloat_CheckExact(o)) return anf_value_float(c->cx, PyFloat_AsDouble(o));
  if (PyLong_CheckExact(o)) {
    long long x = PyLong_AsLongLong(o);
    return x == -1 && PyErr_Occurred() ? NULL : anf_value_int(c->cx, x);
  }
  return text_of(c, o);
}

/* Objects come taken apart by Python: tuples, and (names, items) as a list of two. */
anf_value *value_of(core *c, PyObject *o) {
  if (Py_IS_TYPE(o, c->fn_type)) return anf_value_retain(((fn *)o)->v);
  if (PyTuple_CheckExact(o)) return nest_of(c, o, NULL);
  if (PyList_CheckExact(o) && PyList_Size(o) == 2)
    return nest_of(c, PyList_GetItem(o, 1), PyList_GetItem(o, 0));
  bool plain = o == Py_None || PyBool_Check(o) || PyFloat_CheckExact(o) || PyLong_CheckExact(o) ||
               PyUnicode_Check(o);
  if (!plain) return tensor_of(c, o);
  anf_value *v = plain_of(c, o);
  if (!v && !PyErr_Occurred()) PyErr_NoMemory();
  return v;
}

/* ---- from values ---- */

static PyObject *tensor_to(core *c, const anf_value *v) {
  anf_dtype d = anf_value_dtype(v);
  size_t rank = anf_value_rank(v);
  if (!rank) return array_number(c, d, anf_value_data(v));
  if (d == ANF_INT) d = ANF_I64; // weak numbers are so wide
  if (d == ANF_FLOAT) d = ANF_F64;
  Py_ssize_t dims[ANF_MAX_RANK];
  for (size_t i = 0; i < rank; i++) dims[i] = (Py_ssize_t)anf_value_dim(v, i);
  array *a = array_new(c, d, (int)rank, dims);
  if (a) memcpy(a->data, anf_value_data(v), a->bytes);
  return (PyObject *)a;
}

static PyObject *function_to(core *c, const anf_value *v, PyObject *from) {
  fn *f = (fn *)PyType_GenericAlloc(c->fn_type, 0);
  if (!f) return NULL;
  f->c = c;
  f->program = Py_NewRef(from);
  f->v = anf_value_retain((anf_value *)(uintptr_t)v);
  return (PyObject *)f;
}

static PyObject *items_to(core *c, const anf_value *v, PyObject *from) {
  Py_ssize_t n = (Py_ssize_t)anf_value_count(v);
  PyObject *t = PyTuple_New(n);
  for (Py_ssize_t i = 0; t && i < n; i++) {
    PyObject *x = value_to(c, anf_value_at(v, (size_t)i), from);
    if (!x || PyTuple_SetItem(t, i, x) < 0) Py_CLEAR(t);
  }
  return t;
}

PyObject *value_to(core *c, const anf_value *v, PyObject *from) {
  switch (anf_value_get_kind(v)) {
  case ANF_VALUE_TENSOR: return tensor_to(c, v);
  case ANF_VALUE_STRING: return PyUnicode_FromString(anf_value_text(v));
  case ANF_VALUE_FN: return function_to(c, v, from);
  case ANF_VALUE_TUPLE:
  case ANF_VALUE_RECORD: return items_to(c, v, from);
  default: return Py_NewRef(Py_None);
  }
}

/* ---- types ---- */

static PyObject *dims_to(const anf_type *t) {
  Py_ssize_t n = (Py_ssize_t)anf_type_rank(t);
  PyObject *dims = PyTuple_New(n);
  for (Py_ssize_t i = 0; dims && i < n; i++) {
    PyObject *x = PyLong_FromLongLong(anf_type_dim(t, (size_t)i));
    if (!x || PyTuple_SetItem(dims, i, x) < 0) Py_CLEAR(dims);
  }
  return dims;
}

static PyObject *fields_to(const anf_type *t) {
  Py_ssize_t n = (Py_ssize_t)anf_type_count(t);
  PyObject *names = PyTuple_New(n);
  for (Py_ssize_t i = 0; names && i < n; i++) {
    PyObject *x = PyUnicode_FromString(anf_type_field(t, (size_t)i));
    if (!x || PyTuple_SetItem(names, i, x) < 0) Py_CLEAR(names);
  }
  return names;
}

static PyObject *parts_to(const anf_type *t, const anf_ctx *cx) {
  Py_ssize_t n = (Py_ssize_t)anf_type_count(t);
  PyObject *items = PyTuple_New(n);
  for (Py_ssize_t i = 0; items && i < n; i++) {
    PyObject *x = type_to(anf_type_at(t, (size_t)i), cx);
    if (!x || PyTuple_SetItem(items, i, x) < 0) Py_CLEAR(items);
  }
  return items;
}

PyObject *type_to(const anf_type *t, const anf_ctx *cx) {
  switch (anf_type_get_kind(t)) {
  case ANF_TYPE_TENSOR: return Py_BuildValue("(sN)", anf_dtype_name(anf_type_dtype(t)), dims_to(t));
  case ANF_TYPE_TUPLE: return Py_BuildValue("(sN)", "tuple", parts_to(t, cx));
  case ANF_TYPE_RECORD: return Py_BuildValue("(sNN)", "record", fields_to(t), parts_to(t, cx));
  case ANF_TYPE_FN: return Py_BuildValue("(sn)", "fn", (Py_ssize_t)anf_type_count(t));
  case ANF_TYPE_STRING: return Py_BuildValue("(s)", "str");
  case ANF_TYPE_TYPE: return Py_BuildValue("(s)", "type");
  default: return Py_BuildValue("(s)", "none");
  }
}
