// SPDX-License-Identifier: Apache-2.0
/* Communicators for Python: ranks as threads, or over a link that an object of Python moves bytes for.
 *   comm_link(object, 0, 2, ms, bytes, fast, None)   ->   a Comm; its thread calls object.start(True, 1, tag, memory)
 *
 * The object of a link has start(send, peer, tag, memory), wait(request, ms), cancel(request), abort(blame),
 * reinit(ms) and close(), called with the GIL: by the communicator's thread; abort and close by any thread. Where all
 * ranks are processes of one machine, an area of memory that they share moves the bytes, without the GIL; the object
 * is then asked for abort, reinit and close alone.
 * INVARIANT: whoever waits for a communicator has let go of the GIL before. */
#include "core.h"

#include "comm/comm.h"

typedef struct comm {
  PyObject_HEAD anf_comm *a;
} comm;

/* ---- a link of Python ---- */

typedef struct link_of {
  PyObject *o;
  anf_comm_link area; // or no `start`: the object moves the bytes
  char note[256];     // why there is none; or ""
} link_of;

/* An area, until a link takes it. */
static const char area_name[] = "anfora.area";

static void free_area(PyObject *capsule) {
  anf_comm_link *l = (anf_comm_link *)PyCapsule_GetPointer(capsule, area_name);
  if (l && l->free) l->free(l->user);
  free(l);
}

/* comm_area(path, rank, ranks): the area of memory that processes of this machine share in this file, or None */
PyObject *comm_area(PyObject *module, PyObject *args) {
  const char *path;
  int rank, ranks;
  (void)module;
  if (!PyArg_ParseTuple(args, "sii", &path, &rank, &ranks)) return NULL;
  anf_comm_link *l = (anf_comm_link *)calloc(1, sizeof *l);
  if (!l) return PyErr_NoMemory();
  if (anfi_comm_shared(path, rank, ranks, l)) return PyCapsule_New(l, area_name, free_area);
  free(l);
  Py_RETURN_NONE;
}

static bool take_area(link_of *l, PyObject *capsule) {
  if (l->area.free) l->area.free(l->area.user);
  l->area = (anf_comm_link){.start = NULL};
  if (capsule == Py_None) return true;
  anf_comm_link *a = (anf_comm_link *)PyCapsule_GetPointer(capsule, area_name);
  if (!a) return false;
  l->area = *a;
  a->free = NULL;
  return true;
}

/* The note of a link, or NULL for "". */
static const char *take_note(link_of *l, const char *note) {
  snprintf(l->note, sizeof l->note, "%s", note);
  return l->note[0] ? l->note : NULL;
}

static PyObject *call_link(void *user, const char *name, PyObject *args) {
  PyObject *f = PyObject_GetAttrString(((link_of *)user)->o, name), *r = NULL;
  if (f && args) r = PyObject_CallObject(f, args);
  Py_XDECREF(f);
  Py_XDECREF(args);
  if (!r) PyErr_WriteUnraisable(((link_of *)user)->o);
  return r;
}

static void *link_start(void *user, bool send, int32_t peer, int32_t tag, void *at,
                        uint64_t bytes) {
  const link_of *l = (const link_of *)user;
  if (l->area.start) return l->area.start(l->area.user, send, peer, tag, at, bytes);
  PyGILState_STATE g = PyGILState_Ensure();
  PyObject *memory = PyMemoryView_FromMemory((char *)at, (Py_ssize_t)bytes, PyBUF_WRITE);
  PyObject *r = NULL;
  if (memory)
    r = call_link(user, "start",
                  Py_BuildValue("(OiiN)", send ? Py_True : Py_False, peer, tag, memory));
  if (r == Py_None) Py_CLEAR(r);
  PyGILState_Release(g);
  return r;
}

/* wait gives (why, rank): rank -1 is the peer. */
static anf_comm_why link_wait(void *user, void *request, uint64_t ms, int32_t *rank) {
  const link_of *l = (const link_of *)user;
  if (l->area.start) return l->area.wait(l->area.user, request, ms, rank);
  PyGILState_STATE g = PyGILState_Ensure();
  int why = ANF_COMM_BROKEN, who = -1;
  PyObject *r =
      call_link(user, "wait", Py_BuildValue("(OK)", (PyObject *)request, (unsigned long long)ms));
  if (r && !PyArg_ParseTuple(r, "ii", &why, &who)) PyErr_WriteUnraisable(((link_of *)user)->o);
  if (who >= 0) *rank = who;
  if (why != ANF_COMM_LATE) Py_DECREF((PyObject *)request);
  Py_XDECREF(r);
  PyGILState_Release(g);
  return (anf_comm_why)why;
}

static void link_cancel(void *user, void *request) {
  const link_of *l = (const link_of *)user;
  if (l->area.start) {
    l->area.cancel(l->area.user, request);
    return;
  }
  PyGILState_STATE g = PyGILState_Ensure();
  Py_XDECREF(call_link(user, "cancel", Py_BuildValue("(N)", (PyObject *)request)));
  PyGILState_Release(g);
}

static void link_abort(void *user, int32_t blame) {
  const link_of *l = (const link_of *)user;
  if (l->area.start) l->area.abort(l->area.user, blame);
  PyGILState_STATE g = PyGILState_Ensure();
  Py_XDECREF(call_link(user, "abort", Py_BuildValue("(i)", blame)));
  PyGILState_Release(g);
}

static void link_awaited(void *user, bool is) {
  const link_of *l = (const link_of *)user;
  if (l->area.awaited) l->area.awaited(l->area.user, is);
}

static bool link_reinit(void *user, uint64_t ms, anf_comm_link *link) {
  PyGILState_STATE g = PyGILState_Ensure();
  int rank = 0, ranks = 0;
  PyObject *area = NULL;
  const char *note = "";
  PyObject *r = call_link(user, "reinit", Py_BuildValue("(K)", (unsigned long long)ms));
  bool good = r && r != Py_None && PyArg_ParseTuple(r, "ii|Os", &rank, &ranks, &area, &note);
  good = good && take_area((link_of *)user, area ? area : Py_None);
  if (r && r != Py_None && !good) PyErr_WriteUnraisable(((link_of *)user)->o);
  if (good) link->note = take_note((link_of *)user, note);
  Py_XDECREF(r);
  PyGILState_Release(g);
  link->rank = rank;
  link->ranks = ranks;
  return good;
}

static void link_free(void *user) {
  PyGILState_STATE g = PyGILState_Ensure();
  link_of *l = (link_of *)user;
  if (l->area.free) l->area.free(l->area.user);
  Py_XDECREF(call_link(user, "close", PyTuple_New(0)));
  Py_DECREF(l->o);
  free(l);
  PyGILState_Release(g);
}

/* ---- making ---- */

static anf_comm_opts options(unsigned long long ms, unsigned long long bucket, int fast) {
  return (anf_comm_opts){.size = sizeof(anf_comm_opts),
                         .timeout_ms = ms,
                         .bucket_bytes = bucket,
                         .order = fast ? ANF_COMM_FAST : ANF_COMM_BY_RANK};
}

static PyObject *wrap(core *c, anf_comm *a) {
  comm *m = (comm *)PyType_GenericAlloc(c->comm_type, 0);
  if (m) m->a = a;
  else anf_comm_free(a);
  return (PyObject *)m;
}

/* comm_threads(n, ms, bucket bytes, fast): a list of the communicators of n ranks in this process */
PyObject *comm_threads(PyObject *module, PyObject *args) {
  int n, fast;
  unsigned long long ms, bucket;
  if (!PyArg_ParseTuple(args, "iKKp", &n, &ms, &bucket, &fast)) return NULL;
  if (n < 1 || n > 1024)
    return PyErr_Format(PyExc_ValueError, "there are from 1 to 1024 ranks, not %d", n);
  anf_comm *a[1024];
  anf_comm_opts o = options(ms, bucket, fast);
  if (!anf_comm_threads(n, &o, a)) return PyErr_NoMemory();
  PyObject *list = PyList_New(n);
  for (int i = 0; i < n; i++) {
    PyObject *m = list ? wrap(core_of(module), a[i]) : NULL;
    if (!list) anf_comm_free(a[i]);
    else if (!m || PyList_SetItem(list, i, m) < 0) Py_CLEAR(list);
  }
  return list;
}

/* comm_link(object, rank, ranks, ms, bucket bytes, fast, area or None, note or ""): a communicator over that link */
PyObject *comm_link(PyObject *module, PyObject *args) {
  int rank, ranks, fast;
  unsigned long long ms, bucket;
  const char *note;
  PyObject *o, *area;
  if (!PyArg_ParseTuple(args, "OiiKKpOs", &o, &rank, &ranks, &ms, &bucket, &fast, &area, &note))
    return NULL;
  if (ranks < 1 || rank < 0 || rank >= ranks)
    return PyErr_Format(PyExc_ValueError, "rank %d of %d ranks", rank, ranks);
  link_of *l = (link_of *)calloc(1, sizeof *l);
  if (!l) return PyErr_NoMemory();
  if (!take_area(l, area)) return free(l), NULL;
  l->o = Py_NewRef(o);
  anf_comm_link link = {.size = sizeof link,
                        .awaited = link_awaited,
                        .note = take_note(l, note),
                        .user = l,
                        .rank = rank,
                        .ranks = ranks,
                        .start = link_start,
                        .wait = link_wait,
                        .cancel = link_cancel,
                        .abort = link_abort,
                        .reinit = link_reinit,
                        .free = link_free};
  anf_comm_opts how = options(ms, bucket, fast);
  anf_comm *a = anf_comm_new(&link, &how);
  if (a) return wrap(core_of(module), a);
  if (l->area.free) l->area.free(l->area.user);
  free(l);
  Py_DECREF(o);
  return PyErr_NoMemory();
}

anf_comm *comm_of(core *c, PyObject *o) {
  if (Py_TYPE(o) == c->comm_type) return ((comm *)o)->a;
  if (o != Py_None) PyErr_Format(PyExc_TypeError, "a communicator is a Comm or None");
  return NULL;
}

static void comm_dealloc(PyObject *self) {
  PyTypeObject *t = Py_TYPE(self);
  anf_comm *a = ((comm *)self)->a;
  Py_BEGIN_ALLOW_THREADS;
  anf_comm_free(a);
  Py_END_ALLOW_THREADS;
  ((freefunc)PyType_GetSlot(t, Py_tp_free))(self);
  Py_DECREF(t);
}

/* ---- operations ---- */

static PyObject *failure_of(const anf_comm_error *e) {
  if (e->why == ANF_COMM_FINE) Py_RETURN_NONE;
  return Py_BuildValue("(isiK)", (int)e->why, anf_comm_why_name(e->why), (int)e->rank,
                       (unsigned long long)e->ms);
}

/* The result of an operation on x; of AllGather with a new first axis. */
static array *result_of(core *c, const array *x, int kind, int32_t ranks) {
  Py_ssize_t dims[ANF_MAX_RANK + 1] = {ranks};
  int first = kind == ANF_COMM_ALL_GATHER;
  if (x->ndim + first > ANF_MAX_RANK)
    return (array *)PyErr_Format(PyExc_ValueError, "too many axes");
  for (int i = 0; i < x->ndim; i++) dims[first + i] = x->extent[i];
  return array_new(c, x->dtype, x->ndim + first, dims);
}

/* run(kind, mean, root, array): the result, or what failed, as `failure` has it */
static PyObject *comm_run(PyObject *self, PyObject *args) {
  const comm *m = (comm *)self;
  int kind, mean, root;
  PyObject *in;
  if (!PyArg_ParseTuple(args, "ipiO", &kind, &mean, &root, &in)) return NULL;
  core *c = core_of(PyType_GetModule(Py_TYPE(self)));
  if (!array_is_one(c, in)) return PyErr_Format(PyExc_TypeError, "arrays are exchanged");
  if (kind != ANF_COMM_ALL_REDUCE && kind != ANF_COMM_ALL_GATHER && kind != ANF_COMM_BROADCAST)
    return PyErr_Format(PyExc_ValueError, "there is no operation %d", kind);
  const array *x = (const array *)in;
  array *y = result_of(c, x, kind, anf_comm_ranks(m->a));
  if (!y) return NULL;
  anf_comm_call k = {.size = sizeof k,
                     .kind = (anf_comm_kind)kind,
                     .dtype = x->dtype,
                     .mean = mean != 0,
                     .in = x->data,
                     .out = y->data,
                     .n = (uint64_t)x->size,
                     .root = root};
  anf_comm_error e = {.rank = -1};
  Py_BEGIN_ALLOW_THREADS;
  anf_comm_wait(m->a, anf_comm_start(m->a, &k), &e);
  Py_END_ALLOW_THREADS;
  if (e.why == ANF_COMM_FINE) return (PyObject *)y;
  Py_DECREF((PyObject *)y);
  return failure_of(&e);
}

static PyObject *comm_rank(PyObject *self, PyObject *none) {
  (void)none;
  const anf_comm *a = ((comm *)self)->a;
  return Py_BuildValue("(ii)", (int)anf_comm_rank(a), (int)anf_comm_ranks(a));
}

static PyObject *comm_failure(PyObject *self, PyObject *none) {
  (void)none;
  anf_comm_error e;
  anf_comm_failure(((comm *)self)->a, &e);
  return failure_of(&e);
}

static PyObject *comm_abort(PyObject *self, PyObject *blame) {
  long who = PyLong_AsLong(blame);
  if (who == -1 && PyErr_Occurred()) return NULL;
  Py_BEGIN_ALLOW_THREADS;
  anf_comm_abort(((comm *)self)->a, (int32_t)who);
  Py_END_ALLOW_THREADS;
  Py_RETURN_NONE;
}

static PyObject *comm_reinit(PyObject *self, PyObject *none) {
  (void)none;
  bool good;
  Py_BEGIN_ALLOW_THREADS;
  good = anf_comm_reinit(((comm *)self)->a);
  Py_END_ALLOW_THREADS;
  return PyBool_FromLong(good);
}

/* note(): why messages go a slower way than they could, or "" */
static PyObject *comm_note(PyObject *self, PyObject *none) {
  (void)none;
  const char *note = anf_comm_note(((comm *)self)->a);
  return PyUnicode_FromString(note ? note : "");
}

/* counts(): operations, buckets, bytes, busy ns, waited ns, slow operations, late ns, late waited ns */
static PyObject *comm_counts(PyObject *self, PyObject *none) {
  (void)none;
  anf_comm_counts n = {.size = sizeof n};
  anf_comm_count(((comm *)self)->a, &n);
  return Py_BuildValue("(KKKKKKKK)", (unsigned long long)n.operations,
                       (unsigned long long)n.buckets, (unsigned long long)n.bytes,
                       (unsigned long long)n.busy_ns, (unsigned long long)n.waited_ns,
                       (unsigned long long)n.slow, (unsigned long long)n.late_ns,
                       (unsigned long long)n.late_waited_ns);
}

/* tune(): (bytes, (bytes of each size, ..), (ns, ..)), or what failed, as `failure` has it */
static PyObject *comm_tune(PyObject *self, PyObject *none) {
  (void)none;
  anf_comm_curve k;
  anf_comm_error e;
  bool good;
  Py_BEGIN_ALLOW_THREADS;
  good = anf_comm_tune(((comm *)self)->a, &k);
  Py_END_ALLOW_THREADS;
  anf_comm_failure(((comm *)self)->a, &e);
  if (!good) return failure_of(&e);
  PyObject *curve = PyList_New(0);
  for (int i = 0; curve && i < ANF_COMM_SIZES; i++) {
    PyObject *p =
        Py_BuildValue("(KK)", (unsigned long long)k.bytes[i], (unsigned long long)k.ns[i]);
    if (!p || PyList_Append(curve, p) < 0) Py_CLEAR(curve);
    Py_XDECREF(p);
  }
  return curve ? Py_BuildValue("(KN)", (unsigned long long)k.bucket_bytes, curve) : NULL;
}

static PyMethodDef methods[] = {
    {"run", comm_run, METH_VARARGS, "One operation, to its end."},
    {"rank", comm_rank, METH_NOARGS, "(rank, ranks) as they are now."},
    {"failure", comm_failure, METH_NOARGS, "(why, its name, rank, ms), or None."},
    {"abort", comm_abort, METH_O, "This rank gives up and blames a rank; -1: itself."},
    {"reinit", comm_reinit, METH_NOARGS, "Goes on with the ranks that call this."},
    {"tune", comm_tune, METH_NOARGS, "The size of buckets from a curve of the link."},
    {"counts", comm_counts, METH_NOARGS, "(operations, buckets, bytes, busy ns, waited ns, slow)."},
    {"note", comm_note, METH_NOARGS, "Why messages go a slower way than they could, or no text."},
    {0}};

PyTypeObject *comm_make_type(core *c, PyObject *module) {
  PyType_Slot slots[] = {
      {Py_tp_dealloc, (void *)comm_dealloc}, {Py_tp_methods, methods}, {0, NULL}};
  return c->comm_type = core_make_type(module, "anfora._core.Comm", sizeof(comm),
                                       Py_TPFLAGS_DISALLOW_INSTANTIATION, slots);
}
