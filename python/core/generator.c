// SPDX-License-Identifier: Apache-2.0
/* MetaFuncGraphs that are functions of Python.
 *   add_generator("Twice", make), then Twice(x) of x: f32[2]   ->   make([("f32", (2,))])   ->   (program, name)
 * They are called with types of arguments, while the context is locked. What they call of this module uses the context
 * that its thread has already (core_enter). */
#include "core.h"

typedef struct generator {
  core *c;
  PyObject *make; // of a list of types: (program, name of its function), or why there is none
} generator;

static anf_status refused(anf_diag *d, PyObject *why) {
  PyObject *bytes = why ? PyUnicode_AsEncodedString(why, "utf-8", "replace") : NULL;
  const char *text = bytes ? PyBytes_AsString(bytes) : NULL;
  if (!text) PyErr_Clear();
  anf_status st = anf_diag_report(d, ANF_INVALID, text ? text : "it failed");
  Py_XDECREF(bytes);
  return st;
}

/* The program's module becomes the library's. */
static anf_status taken(core *c, PyObject *result, anf_diag *d, anf_graph **out) {
  PyObject *p;
  const char *name;
  if (PyUnicode_Check(result)) return refused(d, result);
  if (!PyArg_ParseTuple(result, "O!s", c->program_type, &p, &name)) return refused(d, NULL);
  anf_module *m = ((program *)p)->m;
  *out = m ? anf_module_find(m, name) : NULL;
  if (!*out) return refused(d, NULL);
  ((program *)p)->m = NULL;
  return ANF_OK;
}

static PyObject *types_to(size_t n, const anf_type *const *types, const anf_ctx *cx) {
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < n; i++) {
    PyObject *t = type_to(types[i], cx);
    if (!t || PyList_Append(list, t) < 0) Py_CLEAR(list);
    Py_XDECREF(t);
  }
  return list;
}

static anf_status generate(void *user, anf_ctx *cx, size_t n, const anf_type *const *types,
                           anf_diag *d, anf_graph **out) {
  const generator *g = (const generator *)user;
  PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *list = types_to(n, types, cx);
  PyObject *r = list ? PyObject_CallFunction(g->make, "O", list) : NULL;
  anf_status st;
  if (r) st = taken(g->c, r, d, out);
  else PyErr_Clear(), st = refused(d, NULL);
  Py_XDECREF(list);
  Py_XDECREF(r);
  PyGILState_Release(gil);
  return st;
}

static anf_status add(core *c, const char *name, generator *g, anf_diag **d) {
  PyThreadState *ts = core_enter(c);
  *d = anf_diag_new(c->cx);
  anf_meta_op op = {.size = sizeof op, .name = name, .generate = generate, .user = g};
  anf_status st = *d ? anf_meta_register(c->cx, &op, *d) : ANF_NOMEM;
  if (st == ANF_OK) anf_diag_free(*d);
  core_leave(c, ts);
  return st;
}

/* add_generator(name, make): for as long as the context, which is that of the process */
PyObject *generator_add(PyObject *module, PyObject *args) {
  const char *name;
  PyObject *make;
  if (!PyArg_ParseTuple(args, "sO", &name, &make)) return NULL;
  core *c = core_of(module);
  generator *g = (generator *)malloc(sizeof *g);
  if (!g) return PyErr_NoMemory();
  *g = (generator){c, Py_NewRef(make)};
  anf_diag *d = NULL;
  anf_status st = add(c, name, g, &d);
  if (st == ANF_OK) Py_RETURN_NONE;
  Py_DECREF(make);
  free(g);
  return core_raise(c, st, d);
}
