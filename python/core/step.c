// SPDX-License-Identifier: Apache-2.0
/* A training step whose parameters stay where they are: the anf_step of Python's Step.
 *   s = Stepper(text, name, .., "step", types, states, ..); s.run(x, y)   ->   the loss; the state is updated in place
 * Each has a context of its own, so that steps of several threads run at once, without the GIL.
 * INVARIANT: whoever uses the context, the step or the findings holds `lock`, taken without the GIL. */
#include "core.h"

typedef struct stepper {
  /* the step */
  PyObject_HEAD core *c;
  PyThread_type_lock lock;
  anf_ctx *cx;
  anf_module *m;
  anf_step *s;
  /* objects kept */
  PyObject *captured; // arrays that inputs after those of the batch are bound to
  PyObject *comm;     // the communicator, or None
  PyObject *bound;    // arrays that the state is bound to, or NULL
  /* batch */
  uint64_t *sig; // of the batch that it is compiled for
  size_t nsig, nbatch;
  anf_generic *number; // inputs without dims are bound to these
} stepper;

/* ---- the lock ---- */

static PyThreadState *enter(stepper *s) {
  PyThreadState *ts = PyEval_SaveThread();
  PyThread_acquire_lock(s->lock, WAIT_LOCK);
  return ts;
}

static void leave(stepper *s, PyThreadState *ts) {
  PyThread_release_lock(s->lock);
  PyEval_RestoreThread(ts);
}

/* The end of what `enter` began; frees the findings. False with an exception if the status is not ANF_OK. */
static bool leave_with(stepper *s, PyThreadState *ts, anf_status st, anf_diag *d) {
  PyEval_RestoreThread(ts);
  if (st != ANF_OK) core_set_error(s->c, st, d);
  if (d) anf_diag_free(d);
  PyThread_release_lock(s->lock);
  return st == ANF_OK;
}

/* ---- making ---- */

typedef struct making {
  /* arguments */
  const char *text, *name, *marks, *start, *backend, *split;
  Py_ssize_t length, nmarks, nstate, shard;
  PyObject *files, *types, *captured, *batch, *comm;
  int fast, tune, threads, keep, params;
  anf_comm *with;
} making;

static anf_status make_step(stepper *s, const making *k, const texts *t, const places *p,
                            anf_diag *d) {
  const anf_type **type = t->type;
  anf_jit_opts jit;
  anf_exec_opts how = {.size = sizeof how, .fast = k->fast != 0, .tune = k->tune != 0, .jit = &jit};
  anf_step_opts o = {.size = sizeof o,
                     .exec = &how,
                     .nan = k->keep ? ANF_NAN_FIND : ANF_NAN_IGNORE,
                     .stops = true};
  o.threads = (uint32_t)k->threads;
  o.comm = k->with;
  o.shard = (uint64_t)k->shard;
  o.params = (anf_shard_params)k->params;
  o.split = k->split;
  anf_jit_kind_of(k->backend, &how.kind);
  anf_text dir = {.cx = s->cx};
  anf_status st = core_jit_options(&dir, &jit);
  if (st == ANF_OK) st = program_parse(s->cx, k->text, (size_t)k->length, k->name, p, d, &s->m);
  for (size_t i = 0; i < t->n && st == ANF_OK; i++)
    st = anf_parse_type(s->cx, t->text[i], d, &type[i]);
  anf_graph *g = st == ANF_OK ? anf_module_find(s->m, k->start) : NULL;
  if (st == ANF_OK) st = anf_step_new_typed(g, (size_t)k->nstate, t->n, type, &o, d, &s->s);
  anf_text_free(&dir);
  return st;
}

static bool bind(stepper *s, size_t i, void *data, anf_diag *d, anf_status *st) {
  anf_array a;
  *st = anf_step_leaf(s->s, ANF_INPUT, i, &a);
  if (*st == ANF_OK && a.data == data) return true;
  a.data = data;
  a.strides = NULL;
  if (*st == ANF_OK) *st = anf_step_bind(s->s, ANF_INPUT, i, &a, d);
  return *st == ANF_OK;
}

/* Binds captured arrays, which stay bound, and numbers of the batch, which are copied to where they are bound. */
static anf_status bind_all(stepper *s, anf_diag *d) {
  size_t n = anf_step_leaf_count(s->s, ANF_INPUT), ncaptured = (size_t)PyTuple_Size(s->captured);
  anf_status st = ANF_OK;
  s->nbatch = n - ncaptured;
  if (!(s->number = (anf_generic *)calloc(n + 1, sizeof *s->number))) return ANF_NOMEM;
  for (size_t i = 0; i < ncaptured; i++) {
    array *a = (array *)PyTuple_GetItem(s->captured, (Py_ssize_t)i);
    if (!bind(s, s->nbatch + i, a->data, d, &st)) return st;
  }
  for (size_t i = 0; i < s->nbatch; i++) {
    anf_array a;
    st = anf_step_leaf(s->s, ANF_INPUT, i, &a);
    if (st == ANF_OK && !a.rank && anf_dtype_bytes(a.dtype) <= sizeof *s->number)
      bind(s, i, &s->number[i], d, &st);
    if (st != ANF_OK) return st;
  }
  return ANF_OK;
}

static bool flatten(stepper *s, PyObject *batch, flat *f) {
  flat_start(f, s->c);
  for (Py_ssize_t i = 0; i < PyTuple_Size(batch); i++)
    if (!flat_put(f, PyTuple_GetItem(batch, i))) return false;
  return true;
}

static bool keep_signature(stepper *s, PyObject *batch) {
  flat f;
  bool good = flatten(s, batch, &f);
  s->sig = good ? (uint64_t *)malloc((f.nsig + 1) * sizeof *s->sig) : NULL;
  if (good && !s->sig) PyErr_NoMemory();
  if (s->sig) memcpy(s->sig, f.sig, (s->nsig = f.nsig) * sizeof *s->sig);
  flat_end(&f);
  return s->sig != NULL;
}

static bool make(stepper *s, const making *k) {
  texts t = {0};
  places p = {0};
  bool good = false;
  if (places_of(k->files, k->marks, k->nmarks, &p) && texts_of(k->types, &t)) {
    PyThreadState *ts = enter(s);
    anf_diag *d = anf_diag_new(s->cx);
    anf_status st = d ? make_step(s, k, &t, &p, d) : ANF_NOMEM;
    PyEval_RestoreThread(ts); // the captured arrays are Python's
    if (st == ANF_OK) st = bind_all(s, d);
    good = leave_with(s, PyEval_SaveThread(), st, d);
  }
  texts_free(&t);
  places_free(&p);
  return good;
}

/* Stepper(text, name, marks, files, start, types, states, backend, fast, tune, threads, keep, captured, batch, comm, shard, split, params) */
static PyObject *stepper_new(PyTypeObject *type, PyObject *args, PyObject *kw) {
  PyObject *module = PyType_GetModule(type);
  making k = {.comm = Py_None};
  (void)kw;
  if (!module || !PyArg_ParseTuple(args, "s#sy#O!sO!nsppipO!O!|Onzi", &k.text, &k.length, &k.name,
                                   &k.marks, &k.nmarks, &PyList_Type, &k.files, &k.start,
                                   &PyList_Type, &k.types, &k.nstate, &k.backend, &k.fast, &k.tune,
                                   &k.threads, &k.keep, &PyTuple_Type, &k.captured, &PyTuple_Type,
                                   &k.batch, &k.comm, &k.shard, &k.split, &k.params))
    return NULL;
  k.with = comm_of(core_of(module), k.comm);
  if (!k.with && PyErr_Occurred()) return NULL;
  stepper *s = (stepper *)PyType_GenericAlloc(type, 0);
  if (!s) return NULL;
  s->c = core_of(module);
  s->captured = Py_NewRef(k.captured);
  s->comm = Py_NewRef(k.comm);
  s->lock = PyThread_allocate_lock();
  s->cx = anf_ctx_new(NULL);
  if (!s->lock || !s->cx) PyErr_NoMemory();
  else if (make(s, &k) && keep_signature(s, k.batch)) return (PyObject *)s;
  Py_DECREF((PyObject *)s);
  return NULL;
}

static void stepper_dealloc(PyObject *self) {
  stepper *s = (stepper *)self;
  PyTypeObject *t = Py_TYPE(self);
  anf_step_free(s->s);
  anf_module_free(s->m);
  if (s->cx) anf_ctx_free(s->cx);
  if (s->lock) PyThread_free_lock(s->lock);
  free(s->sig);
  free(s->number);
  Py_XDECREF(s->captured);
  Py_XDECREF(s->comm);
  Py_XDECREF(s->bound);
  ((freefunc)PyType_GetSlot(t, Py_tp_free))(self);
  Py_DECREF(t);
}

/* ---- running ---- */

static anf_status run_with(stepper *s, const flat *f, anf_diag *d) {
  anf_status st = ANF_OK;
  for (size_t i = 0; i < s->nbatch && st == ANF_OK; i++) {
    anf_array a;
    st = anf_step_leaf(s->s, ANF_INPUT, i, &a);
    if (st != ANF_OK) break;
    if (a.data == (void *)&s->number[i]) s->number[i] = f->slot[i];
    else bind(s, i, f->slot[i].ptr, d, &st);
  }
  return st == ANF_OK ? anf_step_run(s->s, d) : st;
}

/* One run and its first output. *stopped: Ctrl-C ended it; the state is as it was. */
static PyObject *run_once(stepper *s, const flat *f, bool *stopped) {
  PyThreadState *ts = enter(s);
  anf_array out = {0};
  anf_diag *d = anf_diag_new(s->cx);
  core_call outer = core_begin(NULL, s->cx);
  anf_status st = d ? run_with(s, f, d) : ANF_NOMEM;
  core_end(outer);
  *stopped = core_interrupted(outer, st);
  if (st == ANF_OK) st = anf_step_leaf(s->s, ANF_OUTPUT, 0, &out);
  double loss = 0;
  if (st == ANF_OK) loss = anf_step_number(s->s, anf_step_leaf_name(s->s, ANF_OUTPUT, 0));
  if (*stopped) {
    anf_diag_free(d);
    leave(s, ts);
    return NULL;
  }
  return leave_with(s, ts, st, d) ? PyFloat_FromDouble(loss) : NULL;
}

/* run(*batch): the first output, a number; NotImplemented if the step is not made for such a batch */
static PyObject *stepper_run(PyObject *self, PyObject *batch) {
  stepper *s = (stepper *)self;
  flat f;
  PyObject *r = NULL;
  if (!flatten(s, batch, &f)) return flat_end(&f), NULL;
  if (f.nsig != s->nsig || memcmp(f.sig, s->sig, s->nsig * sizeof *s->sig) != 0) {
    r = Py_NewRef(Py_NotImplemented);
  } else {
    bool stopped = false;
    r = run_once(s, &f, &stopped);
    while (stopped && PyErr_CheckSignals() == 0) r = run_once(s, &f, &stopped);
  }
  flat_end(&f);
  return r;
}

/* ---- the state ---- */

/* A copy of a leaf, whole. Of a sharded one all ranks gather it, without the GIL: they may be threads of this process. */
static PyObject *leaf_copy(stepper *s, size_t i, anf_diag *d, anf_status *st) {
  anf_array a;
  Py_ssize_t dims[ANF_MAX_RANK];
  if ((*st = anf_step_whole(s->s, i, &a)) != ANF_OK) return NULL;
  for (size_t k = 0; k < a.rank; k++) dims[k] = (Py_ssize_t)a.dims[k];
  array *r = array_new(s->c, a.dtype, (int)a.rank, dims);
  if (!r) return NULL;
  a.data = r->data;
  PyThreadState *ts = PyEval_SaveThread();
  *st = anf_step_read(s->s, ANF_STATE, i, &a, d);
  PyEval_RestoreThread(ts);
  if (*st != ANF_OK) Py_CLEAR(r);
  return (PyObject *)r;
}

/* read(keep=True): the leaves of the state as they are now, copied; without keep each is gathered with the other ranks, and None. */
static PyObject *stepper_read(PyObject *self, PyObject *args) {
  stepper *s = (stepper *)self;
  int keep = 1;
  if (!PyArg_ParseTuple(args, "|p", &keep)) return NULL;
  PyThreadState *ts = enter(s);
  anf_diag *d = anf_diag_new(s->cx);
  anf_status st = d ? ANF_OK : ANF_NOMEM;
  PyEval_RestoreThread(ts);
  Py_ssize_t n = (Py_ssize_t)anf_step_leaf_count(s->s, ANF_STATE);
  PyObject *list = PyList_New(n);
  for (Py_ssize_t i = 0; st == ANF_OK && list && i < n; i++) {
    PyObject *x = leaf_copy(s, (size_t)i, d, &st);
    if (x && !keep) x = (Py_DECREF(x), Py_NewRef(Py_None));
    if (!x || PyList_SetItem(list, i, x) < 0) Py_CLEAR(list);
  }
  if (!leave_with(s, PyEval_SaveThread(), st, d)) Py_CLEAR(list);
  return list;
}

/* The step's exchanges with other ranks, as text. */
static PyObject *stepper_exchanges(PyObject *self, PyObject *none) {
  stepper *s = (stepper *)self;
  (void)none;
  anf_text t = {.cx = s->cx};
  PyThreadState *ts = enter(s);
  anf_status st = anf_step_exchanges(s->s, &t);
  leave(s, ts);
  PyObject *r = st == ANF_OK ? PyUnicode_FromStringAndSize(t.text ? t.text : "", (Py_ssize_t)t.len)
                             : core_no_memory();
  anf_text_free(&t);
  return r;
}

static bool write_leaf(stepper *s, size_t i, PyObject *o) {
  anf_array a;
  const array *x = (array *)o;
  bool same = array_is_one(s->c, o) && anf_step_whole(s->s, i, &a) == ANF_OK &&
              x->dtype == a.dtype && (size_t)x->ndim == a.rank;
  for (size_t k = 0; same && k < a.rank; k++) same = x->extent[k] == a.dims[k];
  if (!same)
    return PyErr_Format(PyExc_ValueError, "leaf %zu of the state has another type", i), false;
  a.data = x->data;
  return !x->bytes || anf_step_write(s->s, ANF_STATE, i, &a, NULL) == ANF_OK ||
         (core_no_memory(), false);
}

static PyObject *stepper_write(PyObject *self, PyObject *list) {
  stepper *s = (stepper *)self;
  if (!PyList_Check(list)) return PyErr_Format(PyExc_TypeError, "the leaves of a state are a list");
  PyEval_RestoreThread(enter(s));
  Py_ssize_t n = (Py_ssize_t)anf_step_leaf_count(s->s, ANF_STATE);
  bool good = PyList_Size(list) == n;
  if (!good) PyErr_Format(PyExc_ValueError, "the state has %zd leaves", n);
  for (Py_ssize_t i = 0; good && i < n; i++)
    good = write_leaf(s, (size_t)i, PyList_GetItem(list, i));
  leave(s, PyEval_SaveThread());
  return good ? Py_NewRef(Py_None) : NULL;
}

static anf_status bind_state(stepper *s, PyObject *list, anf_diag *d) {
  anf_status st = ANF_OK;
  for (Py_ssize_t i = 0; i < PyList_Size(list) && st == ANF_OK; i++) {
    const array *x = (const array *)PyList_GetItem(list, i);
    int64_t dims[ANF_MAX_RANK] = {0};
    for (int k = 0; k < x->ndim; k++) dims[k] = x->extent[k];
    anf_array a = {.dtype = x->dtype, .rank = (size_t)x->ndim, .dims = dims, .data = x->data};
    st = anf_step_bind(s->s, ANF_STATE, (size_t)i, &a, d);
  }
  return st;
}

/* bind(list of arrays): the state is read and updated in their memory from now on. */
static PyObject *stepper_bind(PyObject *self, PyObject *list) {
  stepper *s = (stepper *)self;
  bool good = PyList_Check(list) != 0;
  for (Py_ssize_t i = 0; good && i < PyList_Size(list); i++)
    good = array_is_one(s->c, PyList_GetItem(list, i)) &&
           !((array *)PyList_GetItem(list, i))->readonly;
  if (!good)
    return PyErr_Format(PyExc_TypeError,
                        "a state is bound to a list of arrays that may be written");
  PyObject *kept = PyList_GetSlice(list, 0, PyList_Size(list)), *before = s->bound;
  if (!kept) return NULL;
  PyThreadState *ts = enter(s);
  anf_diag *d = anf_diag_new(s->cx);
  PyEval_RestoreThread(ts);
  size_t n = anf_step_leaf_count(s->s, ANF_STATE);
  anf_status st = d ? ANF_INVALID : ANF_NOMEM;
  if (d && (size_t)PyList_Size(kept) == n) st = bind_state(s, kept, d);
  s->bound = kept;
  bool done = leave_with(s, PyEval_SaveThread(), st, d);
  Py_XDECREF(before);
  return done ? Py_NewRef(Py_None) : NULL;
}

/* save_parts(path, (name, text, ..)): each rank writes what it holds, without the GIL: ranks may be threads of this process. */
static PyObject *stepper_save_parts(PyObject *self, PyObject *args) {
  stepper *s = (stepper *)self;
  const char *path;
  PyObject *list;
  if (!PyArg_ParseTuple(args, "sO!", &path, &PyTuple_Type, &list)) return NULL;
  Py_ssize_t n = PyTuple_Size(list);
  const char **meta = (const char **)PyMem_Malloc(((size_t)n + 1) * sizeof *meta);
  bool good = meta != NULL || (PyErr_NoMemory(), false);
  for (Py_ssize_t i = 0; good && i < n; i++)
    good = (meta[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(list, i), NULL)) != NULL;
  if (!good) return PyMem_Free((void *)meta), NULL;
  PyThreadState *ts = enter(s);
  anf_diag *d = anf_diag_new(s->cx);
  anf_status st = d ? anf_step_save_parts(s->s, path, (size_t)n / 2, meta, d) : ANF_NOMEM;
  bool done = leave_with(s, ts, st, d);
  PyMem_Free((void *)meta);
  return done ? Py_NewRef(Py_None) : NULL;
}

static PyMethodDef methods[] = {
    {"run", stepper_run, METH_VARARGS, "One step; gives the loss."},
    {"exchanges", stepper_exchanges, METH_NOARGS,
     "The parts of the state that this rank holds, and the exchanges of a step."},
    {"save_parts", stepper_save_parts, METH_VARARGS,
     "Writes what this rank holds of the state, beside a path."},
    {"read", stepper_read, METH_VARARGS, "Copies of the state's leaves, in order."},
    {"bind", stepper_bind, METH_O, "Memory of the host in place of the state's own."},
    {"write", stepper_write, METH_O, "Other leaves for the state, copied."},
    {0}};

/* ---- objects of functions and of steps ---- */

typedef struct building {
  const char *text, *name, *start, *symbol, *sizes;
  Py_ssize_t length, nstate; // negative: no step
} building;

static anf_status build_forms(anf_ctx *cx, const building *k, const texts *t, anf_diag *d,
                              anf_module **m, anf_text *out) {
  anf_build_opts o = {.size = sizeof o, .name = k->symbol, .title = k->name, .sizes = k->sizes};
  places none = {0};
  anf_status st = program_parse(cx, k->text, (size_t)k->length, k->name, &none, d, m);
  for (size_t i = 0; i < t->n && st == ANF_OK; i++)
    st = anf_parse_type(cx, t->text[i], d, &t->type[i]);
  anf_graph *g = st == ANF_OK ? anf_module_find(*m, k->start) : NULL;
  unsigned forms = 1u << ANF_BUILD_OBJ | 1u << ANF_BUILD_HEADER;
  if (!g) return st;
  if (k->nstate < 0) return anf_build_graph(g, t->n, t->type, forms, &o, d, out);
  return anf_build_step(g, (size_t)k->nstate, t->n, t->type, forms, &o, d, out);
}

static PyObject *built(core *c, const building *k, const texts *t) {
  PyObject *r = NULL;
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_diag *d = cx ? anf_diag_new(cx) : NULL;
  anf_module *m = NULL;
  anf_text out[ANF_BUILD_FORM_COUNT] = {{0}};
  for (size_t i = 0; i < ANF_BUILD_FORM_COUNT; i++) out[i].cx = cx;
  anf_status st = ANF_NOMEM;
  if (d) {
    PyThreadState *ts = PyEval_SaveThread();
    st = build_forms(cx, k, t, d, &m, out);
    PyEval_RestoreThread(ts);
  }
  if (st == ANF_OK)
    r = Py_BuildValue("(s#y#)", out[ANF_BUILD_HEADER].text, (Py_ssize_t)out[ANF_BUILD_HEADER].len,
                      out[ANF_BUILD_OBJ].text, (Py_ssize_t)out[ANF_BUILD_OBJ].len);
  else if (d) core_set_error(c, st, d);
  else PyErr_NoMemory();
  for (size_t i = 0; cx && i < ANF_BUILD_FORM_COUNT; i++) anf_text_free(&out[i]);
  anf_module_free(m);
  if (d) anf_diag_free(d);
  if (cx) anf_ctx_free(cx);
  return r;
}

/* build_object(text, name, start, types, states, symbol, sizes): the header and the object of a step, or with states -1
 * of a function; sizes, or None, of the dims that types name */
PyObject *object_build(PyObject *module, PyObject *args) {
  building k = {.sizes = NULL};
  PyObject *types, *r = NULL;
  texts t = {0};
  if (!PyArg_ParseTuple(args, "s#ssO!ns|z", &k.text, &k.length, &k.name, &k.start, &PyList_Type,
                        &types, &k.nstate, &k.symbol, &k.sizes))
    return NULL;
  if (texts_of(types, &t)) r = built(core_of(module), &k, &t);
  texts_free(&t);
  return r;
}

PyTypeObject *stepper_make_type(core *c, PyObject *module) {
  PyType_Slot slots[] = {{Py_tp_new, (void *)stepper_new},
                         {Py_tp_dealloc, (void *)stepper_dealloc},
                         {Py_tp_methods, methods},
                         {0, NULL}};
  return c->step_type = core_make_type(module, "anfora._core.Stepper", sizeof(stepper), 0, slots);
}
