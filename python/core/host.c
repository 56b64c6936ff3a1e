// SPDX-License-Identifier: Apache-2.0
/* Operations whose work a function of Python does: their C function is a callback of ctypes.
 *   add_op("Hypot2", "fn(f64, f64) -> f64", address, takes, None, 0)   ->   Hypot2(x, y) in programs calls it */
#include "core.h"

#include "anfora/host.h"

/* ---- types ---- */

/* A tensor as (element type, dims): numbers and names. NULL with an exception. */
static PyObject *part_to(const core *c, const anf_type *t) {
  if (anf_type_get_kind(t) != ANF_TYPE_TENSOR)
    return PyErr_SetString(PyExc_ValueError, "an operation takes and gives tensors and numbers"),
           NULL;
  size_t n = anf_type_rank(t);
  PyObject *dims = PyTuple_New((Py_ssize_t)n);
  for (size_t i = 0; dims && i < n; i++) {
    int64_t d = anf_type_dim(t, i);
    const char *name = anf_dim_name(c->cx, d);
    PyObject *x = name ? PyUnicode_FromString(name) : PyLong_FromLongLong(d);
    if (d == ANF_DIM_UNKNOWN)
      PyErr_SetString(PyExc_ValueError, "each dim of an operation is a number or has a name");
    if (PyErr_Occurred() || PyTuple_SetItem(dims, (Py_ssize_t)i, x) < 0) Py_CLEAR(dims);
  }
  return dims ? Py_BuildValue("(sN)", anf_dtype_name(anf_type_dtype(t)), dims) : NULL;
}

static PyObject *parts_to(const core *c, const anf_type *t, size_t n) {
  PyObject *parts = PyTuple_New((Py_ssize_t)n);
  for (size_t i = 0; parts && i < n; i++) {
    PyObject *x = part_to(c, anf_type_at(t, i));
    if (!x || PyTuple_SetItem(parts, (Py_ssize_t)i, x) < 0) Py_CLEAR(parts);
  }
  return parts;
}

/* (parts of the arguments, parts of the result, whether that is a tuple) */
static PyObject *function_to(const core *c, const anf_type *t) {
  if (anf_type_get_kind(t) != ANF_TYPE_FN)
    return PyErr_SetString(PyExc_ValueError, "this is no type of a function"), NULL;
  const anf_type *r = anf_type_result(t);
  bool several = anf_type_get_kind(r) == ANF_TYPE_TUPLE;
  PyObject *in = parts_to(c, t, anf_type_count(t)), *out = NULL;
  if (in && several) out = parts_to(c, r, anf_type_count(r));
  else if (in && (out = part_to(c, r))) out = Py_BuildValue("(N)", out);
  if (!out) return Py_XDECREF(in), NULL;
  return Py_BuildValue("(NNO)", in, out, several ? Py_True : Py_False);
}

/* op_type("fn(f64[N], i64) -> f64[N]"), as programs say types */
PyObject *op_type(PyObject *module, PyObject *args) {
  core *c = core_of(module);
  const char *text;
  PyObject *r = NULL;
  const anf_type *t = NULL;
  if (!PyArg_ParseTuple(args, "s", &text)) return NULL;
  PyEval_RestoreThread(core_enter(c)); // types are read while they cannot go
  anf_diag *d = anf_diag_new(c->cx);
  anf_status st = d ? anf_parse_type(c->cx, text, d, &t) : ANF_NOMEM;
  if (st == ANF_OK) {
    r = function_to(c, t);
    anf_diag_free(d);
  }
  core_leave(c, PyEval_SaveThread());
  return st == ANF_OK ? r : core_raise(c, st, d);
}

/* ---- operations ---- */

/* add_op(name, type, address of the C function, what it takes, derivative or None, flags): for as long as the context, which is that
 * of the process */
PyObject *op_add(PyObject *module, PyObject *args) {
  const char *name, *type, *takes, *vjp;
  Py_ssize_t address;
  unsigned flags;
  if (!PyArg_ParseTuple(args, "ssnszI", &name, &type, &address, &takes, &vjp, &flags)) return NULL;
  core *c = core_of(module);
  anf_host_op op = {.size = sizeof op,
                    .name = name,
                    .type = type,
                    .function = (void (*)(void))(uintptr_t)address,
                    .takes = takes,
                    .vjp = vjp,
                    .flags = flags};
  PyThreadState *ts = core_enter(c);
  anf_diag *d = anf_diag_new(c->cx);
  anf_status st = d ? anf_op_register(c->cx, &op, d) : ANF_NOMEM;
  if (st == ANF_OK) anf_diag_free(d);
  core_leave(c, ts);
  if (st == ANF_OK) Py_RETURN_NONE;
  return core_raise(c, st, d);
}
