// SPDX-License-Identifier: Apache-2.0
/* Files of many tensors as arrays.
 *   load_tensors(b"w.safetensors")   ->   ({"w": Array}, {"format": "pt"}): tensors, and the texts of __metadata__ */
#include "core.h"

#include "anfora/store.h"

static PyObject *array_to(core *c, const anf_value *v) {
  size_t rank = anf_value_rank(v);
  Py_ssize_t dims[ANF_MAX_RANK];
  for (size_t i = 0; i < rank; i++) dims[i] = (Py_ssize_t)anf_value_dim(v, i);
  array *a = array_new(c, anf_value_dtype(v), (int)rank, dims);
  if (a && a->bytes) memcpy(a->data, anf_value_data(v), a->bytes);
  return (PyObject *)a;
}

/* A record as a dictionary, of arrays or of texts. */
static PyObject *fields_of(core *c, const anf_value *v) {
  const anf_type *t = anf_value_type(c->cx, v);
  PyObject *all = t ? PyDict_New() : PyErr_NoMemory();
  for (size_t i = 0; all && i < anf_value_count(v); i++) {
    const anf_value *x = anf_value_at(v, i);
    PyObject *o = anf_value_get_kind(x) == ANF_VALUE_STRING
                      ? PyUnicode_FromString(anf_value_text(x))
                      : array_to(c, x);
    if (!o || PyDict_SetItemString(all, anf_type_field(t, i), o) < 0) Py_CLEAR(all);
    Py_XDECREF(o);
  }
  return all;
}

/* load_tensors(path as bytes): (arrays by name, texts by name) of a safetensors file, its parts joined */
PyObject *load_tensors(PyObject *module, PyObject *args) {
  core *c = core_of(module);
  const char *path;
  if (!PyArg_ParseTuple(args, "y", &path)) return NULL;
  anf_value *v = NULL, *meta = NULL;
  PyThreadState *ts = core_enter(c);
  anf_diag *d = anf_diag_new(c->cx);
  anf_status st = d ? anf_load_safetensors(c->cx, path, d, &v, &meta) : ANF_NOMEM;
  PyEval_RestoreThread(ts);
  PyObject *r = NULL, *arrays = NULL, *about = NULL;
  if (st != ANF_OK) core_set_error(c, st, d);
  else if ((arrays = fields_of(c, v)) && (about = fields_of(c, meta)))
    r = PyTuple_Pack(2, arrays, about);
  Py_XDECREF(arrays);
  Py_XDECREF(about);
  ts = PyEval_SaveThread();
  anf_value_release(v);
  anf_value_release(meta);
  if (d) anf_diag_free(d);
  core_leave(c, ts);
  return r;
}
