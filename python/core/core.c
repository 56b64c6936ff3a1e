// SPDX-License-Identifier: Apache-2.0
/* The module anfora._core: its state, the context and its lock, exceptions.
 *   ts = core_enter(c); .. anything with c->cx ..; core_leave(c, ts);   // one thread at a time, without the GIL
 * An object that goes while another thread has the context is listed (core_free_later) and freed by that thread. */
#include "core.h"

/* ---- the context ---- */

static void empty_garbage(core *c) {
  PyThread_acquire_lock(c->garbage_lock, WAIT_LOCK);
  garbage *g = c->garbage;
  c->garbage = NULL;
  PyThread_release_lock(c->garbage_lock);
  while (g) {
    garbage *next = g->next;
    g->fn(g->what);
    free(g);
    g = next;
  }
}

PyThreadState *core_enter(core *c) {
  PyThreadState *ts = PyEval_SaveThread();
  unsigned long me = PyThread_get_thread_ident();
  if (atomic_load(&c->owner) == me) {
    c->nested++;
    return ts;
  }
  PyThread_acquire_lock(c->cx_lock, WAIT_LOCK);
  atomic_store(&c->owner, me);
  empty_garbage(c);
  return ts;
}

void core_leave(core *c, PyThreadState *ts) {
  if (c->nested) {
    c->nested--;
  } else {
    empty_garbage(c);
    atomic_store(&c->owner, 0);
    PyThread_release_lock(c->cx_lock);
  }
  PyEval_RestoreThread(ts);
}

void core_free_later(core *c, void (*f)(void *), void *what) {
  garbage *g = (garbage *)malloc(sizeof *g);
  if (!g) return; // what cannot be listed is not freed; the context counts it
  *g = (garbage){.fn = f, .what = what};
  PyThread_acquire_lock(c->garbage_lock, WAIT_LOCK);
  g->next = c->garbage;
  c->garbage = g;
  PyThread_release_lock(c->garbage_lock);
  if (!PyThread_acquire_lock(c->cx_lock, NOWAIT_LOCK)) return; // its holder will do it
  empty_garbage(c);
  PyThread_release_lock(c->cx_lock);
}

anf_status core_jit_options(anf_text *dir, anf_jit_opts *o) {
  *o = (anf_jit_opts){.size = sizeof *o};
  anf_status st = anf_jit_cache_dir(dir);
  if (dir->len) o->cache_dir = dir->text;
  return st;
}

anf_jit_engine *core_engine(core *c, anf_jit_kind k, anf_diag *d, anf_status *st) {
  *st = ANF_OK;
  if (c->engine[k]) return c->engine[k];
  anf_text dir = {.cx = c->cx};
  anf_jit_opts o;
  *st = core_jit_options(&dir, &o);
  if (*st == ANF_OK) *st = anf_jit_engine_new(c->cx, k, &o, d, &c->engine[k]);
  anf_text_free(&dir);
  return c->engine[k];
}

/* ---- exceptions ---- */

PyObject *core_no_memory(void) { return PyErr_NoMemory(); }

static PyObject *finding(const anf_diag_item *i) {
  return Py_BuildValue("(issssiiss)", (int)i->severity, anf_status_name(i->status), i->code,
                       i->message, i->file, (int)i->line, (int)i->col, i->source, i->hint);
}

PyTypeObject *core_make_type(PyObject *module, const char *name, size_t bytes, unsigned long flags,
                             PyType_Slot *slots) {
  PyType_Spec spec = {name, (int)bytes, 0, (unsigned)(Py_TPFLAGS_DEFAULT | flags), slots};
  return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}

void core_set_error(core *c, anf_status st, const anf_diag *d) {
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && d && i < anf_diag_count(d); i++) {
    PyObject *x = finding(anf_diag_at(d, i));
    if (!x || PyList_Append(list, x) < 0) Py_CLEAR(list);
    Py_XDECREF(x);
  }
  PyObject *args = list ? Py_BuildValue("(sN)", anf_status_name(st), list) : NULL;
  if (args) PyErr_SetObject(c->error, args);
  Py_XDECREF(args);
}

PyObject *core_raise(core *c, anf_status st, anf_diag *d) {
  core_set_error(c, st, d);
  if (d) core_free_later(c, (void (*)(void *))anf_diag_free, d);
  return NULL;
}

/* ---- functions of the module ---- */

core *core_of(PyObject *module) { return *(core **)PyModule_GetState(module); }

static PyObject *set_hooks(PyObject *m, PyObject *args) {
  core *c = core_of(m);
  PyObject *children, *write, *operate;
  if (!PyArg_ParseTuple(args, "OOO", &children, &write, &operate)) return NULL;
  Py_XDECREF(c->children);
  Py_XDECREF(c->write);
  Py_XDECREF(c->operate);
  c->operate = Py_NewRef(operate);
  c->children = Py_NewRef(children);
  c->write = Py_NewRef(write);
  Py_RETURN_NONE;
}

static PyObject *held(PyObject *m, PyObject *none) {
  (void)none;
  core *c = core_of(m);
  PyThreadState *ts = core_enter(c);
  size_t n = anf_ctx_bytes(c->cx);
  core_leave(c, ts);
  return PyLong_FromSize_t(n);
}

static PyObject *explain(PyObject *m, PyObject *code) {
  (void)m;
  PyObject *s = PyUnicode_AsUTF8String(code);
  if (!s) return NULL;
  const char *text = anf_explain(PyBytes_AsString(s));
  Py_DECREF(s);
  return text ? PyUnicode_FromString(text) : Py_NewRef(Py_None);
}

static PyObject *owned(PyObject *module, PyObject *o) {
  core *c = core_of(module);
  array *a = array_of(c, o), *r = a ? array_new(c, a->dtype, a->ndim, a->extent) : NULL;
  if (r) memcpy(r->data, a->data, a->bytes);
  Py_XDECREF((PyObject *)a);
  return (PyObject *)r;
}

static PyObject *as_array(PyObject *m, PyObject *o) { return (PyObject *)array_of(core_of(m), o); }

static PyObject *from_bytes(PyObject *m, PyObject *args) {
  return array_from_bytes(core_of(m), args);
}

static PyMethodDef functions[] = {
    {"frombytes", from_bytes, METH_VARARGS, "An array of a dtype's name, a shape, and bytes."},
    {"load_tensors", load_tensors, METH_VARARGS, "Arrays and texts of a safetensors file."},
    {"set_hooks", set_hooks, METH_VARARGS, NULL},
    {"bytes_held", held, METH_NOARGS, "Bytes that the context of compiled programs holds now."},
    {"explain", explain, METH_O, "The long explanation of a code such as E0107, or None."},
    {"add_generator", generator_add, METH_VARARGS, "An op whose graphs a function makes."},
    {"op_type", op_type, METH_VARARGS, "What an op of a type takes and gives."},
    {"add_op", op_add, METH_VARARGS, "An op whose work a C function does."},
    {"build_object", object_build, METH_VARARGS, "The header and the object of a function."},
    {"comm_threads", comm_threads, METH_VARARGS, "The communicators of ranks in this process."},
    {"comm_area", comm_area, METH_VARARGS, "Memory that processes of this machine share."},
    {"comm_link", comm_link, METH_VARARGS, "A communicator over a link of Python."},
    {"lend", dlpack_lend, METH_O, "A tensor's memory, by the C functions of its class."},
    {"give", dlpack_give, METH_VARARGS, "An array's memory as a tensor of a class, likewise."},
    {"ffi_handler", ffi_handler, METH_NOARGS,
     "The handler of XLA's calls of plans, as jax.ffi takes it."},
    {"owned", owned, METH_O, "A copy of any array, as an anfora.Array."},
    {"asarray", as_array, METH_O, "Any array as an anfora.Array, without a copy if it is dense."},
    {0}};

/* ---- the module's life ---- */

static bool add_type(PyObject *m, PyTypeObject *t) { return t && PyModule_AddType(m, t) == 0; }

/* Objects may outlive the module when an interpreter ends, so what they refer to stays. */
static core *new_core(PyObject *m) {
  core *c = (core *)calloc(1, sizeof *c);
  *(core **)PyModule_GetState(m) = c;
  return c;
}

static int start(PyObject *m) {
  core *c = new_core(m);
  if (!c) return PyErr_NoMemory(), -1;
  c->cx = anf_ctx_new(NULL);
  c->cx_lock = PyThread_allocate_lock();
  c->garbage_lock = PyThread_allocate_lock();
  if (!c->cx || !c->cx_lock || !c->garbage_lock) return PyErr_NoMemory(), -1;
  if (!core_interrupts_start()) return -1;
  c->error = PyErr_NewException("anfora._core.Failure", NULL, NULL);
  c->s_dlpack = PyUnicode_InternFromString("__dlpack__");
  c->s_compile = PyUnicode_InternFromString("_compile");
  c->s_bind = PyUnicode_InternFromString("_bind");
  c->s_failed = PyUnicode_InternFromString("_failed");
  c->no_args = PyTuple_New(0);
  c->max_version = Py_BuildValue("{s(ii)}", "max_version", 1, 1);
  if (!c->error || !c->s_dlpack || !c->s_compile || !c->s_bind || !c->s_failed || !c->no_args ||
      !c->max_version || PyModule_AddObjectRef(m, "Failure", c->error) < 0)
    return -1;
  bool good = add_type(m, array_make_type(c, m)) && add_type(m, program_make_type(c, m)) &&
              add_type(m, exec_make_type(c, m)) && add_type(m, fn_make_type(c, m)) &&
              add_type(m, plan_make_type(c, m)) && add_type(m, callable_make_type(c, m)) &&
              add_type(m, stepper_make_type(c, m)) && add_type(m, comm_make_type(c, m)) &&
              PyModule_AddStringConstant(m, "version", anf_version()) == 0 &&
              PyModule_AddIntConstant(m, "max_rank", ANF_MAX_RANK) == 0;
  return good ? 0 : -1;
}

static int visit_module(PyObject *m, visitproc visit, void *arg) {
  core *c = core_of(m);
  if (!c) return 0;
  Py_VISIT(c->children);
  Py_VISIT(c->write);
  Py_VISIT(c->operate);
  return 0;
}

static int clear_module(PyObject *m) {
  core *c = core_of(m);
  if (!c) return 0;
  Py_CLEAR(c->children);
  Py_CLEAR(c->write);
  Py_CLEAR(c->operate);
  memory_drop(c);
  return 0;
}

static struct PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)start}, {0, NULL}};
static struct PyModuleDef definition = {.m_base = PyModuleDef_HEAD_INIT,
                                        .m_name = "anfora._core",
                                        .m_size = sizeof(core *),
                                        .m_methods = functions,
                                        .m_slots = slots,
                                        .m_traverse = visit_module,
                                        .m_clear = clear_module};

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&definition); }
