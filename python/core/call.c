// SPDX-License-Identifier: Apache-2.0
/* Functions that Python calls.
 *   f(x, 2.0), the second time   ->   flat.c: signature f32[4], float; find its plan; run its code on the memory of x
 * A call flattens its arguments, finds the code made for such ones (the one used last comes first) and runs it on the
 * host's memory; only a call of a new kind goes through Python, which makes a plan. Code runs without the GIL and
 * without the context. */
#include "core.h"

/* ---- plans: code for one signature, and what its result is made into ---- */

typedef struct out_leaf {
  anf_dtype dtype;
  int ndim;
  int number; // a number of Python, which the code gives as a double whatever `dtype` is
  Py_ssize_t dims[ANF_MAX_RANK];
} out_leaf;

typedef struct plan {
  /* signature */
  PyObject_HEAD core *c;
  uint64_t *sig;
  size_t nsig;
  PyObject *refs; // what words of the signature are addresses of
  /* the call */
  PyObject *slow;     // called in place of the code, or NULL
  PyObject *extra;    // arguments that come after those of the call: what the function captured
  anf_generic *given; // the same for plan_run
  size_t nextra;
  exec *e;
  anf_jit_function *f; // borrowed from it
  int8_t *to;          // the element type that a number is to have, -1: as it is
  /* result */
  size_t nin, nout, returned, ncode;
  out_leaf *out;
  int32_t *code;    // the result's structure, parts after the whole: see build
  PyObject *object; // a list that the structure refers to
} plan;

static void plan_dealloc(PyObject *self) {
  plan *p = (plan *)self;
  PyTypeObject *t = Py_TYPE(self);
  free(p->sig);
  free(p->to);
  free(p->out);
  free(p->code);
  free(p->given);
  Py_XDECREF(p->refs);
  Py_XDECREF(p->slow);
  Py_XDECREF(p->extra);
  Py_XDECREF((PyObject *)p->e);
  Py_XDECREF(p->object);
  ((freefunc)PyType_GetSlot(t, Py_tp_free))(self);
  Py_DECREF(t);
}

static anf_dtype dtype_named(const char *s) {
  int d = 0;
  while (d < ANF_DTYPE_COUNT && strcmp(anf_dtype_name((anf_dtype)d), s) != 0) d++;
  return (anf_dtype)d;
}

static bool read_leaf(PyObject *t, out_leaf *l) {
  const char *name;
  PyObject *dims;
  if (!PyArg_ParseTuple(t, "sO!p", &name, &PyTuple_Type, &dims, &l->number)) return false;
  l->dtype = dtype_named(name);
  l->ndim = (int)PyTuple_Size(dims);
  if (l->ndim > ANF_MAX_RANK || l->dtype == ANF_DTYPE_COUNT) {
    PyErr_SetString(PyExc_ValueError, "not the type of a tensor");
    return false;
  }
  for (int i = 0; i < l->ndim; i++) l->dims[i] = PyLong_AsSsize_t(PyTuple_GetItem(dims, i));
  return !PyErr_Occurred();
}

static bool is_scalar(const out_leaf *l) {
  return !l->ndim && l->dtype != ANF_C64 && l->dtype != ANF_C128 && l->dtype != ANF_COMPLEX;
}

static bool read_leaves(plan *p, PyObject *list) {
  p->nout = (size_t)PyList_Size(list);
  p->out = (out_leaf *)calloc(p->nout + 1, sizeof *p->out);
  if (!p->out) return PyErr_NoMemory(), false;
  for (size_t i = 0; i < p->nout; i++)
    if (!read_leaf(PyList_GetItem(list, (Py_ssize_t)i), &p->out[i])) return false;
  while (p->returned < p->nout && !is_scalar(&p->out[p->returned])) p->returned++;
  return true;
}

static bool read_code(plan *p, PyObject *list) {
  p->ncode = (size_t)PyList_Size(list);
  p->code = (int32_t *)calloc(p->ncode + 1, sizeof *p->code);
  if (!p->code) return PyErr_NoMemory(), false;
  for (size_t i = 0; i < p->ncode; i++)
    p->code[i] = (int32_t)PyLong_AsLong(PyList_GetItem(list, (Py_ssize_t)i));
  return !PyErr_Occurred();
}

static bool read_casts(plan *p, PyObject *list) {
  p->nin = (size_t)PyList_Size(list);
  p->to = (int8_t *)calloc(p->nin + 1, 1);
  if (!p->to) return PyErr_NoMemory(), false;
  for (size_t i = 0; i < p->nin; i++) {
    PyObject *x = PyList_GetItem(list, (Py_ssize_t)i);
    const char *s = x == Py_None ? NULL : PyUnicode_AsUTF8AndSize(x, NULL);
    p->to[i] = s ? (int8_t)dtype_named(s) : -1;
  }
  return !PyErr_Occurred();
}

/* The captured arrays as slots. */
static bool read_extra(plan *p) {
  flat f;
  flat_start(&f, p->c);
  bool good = true;
  p->nextra = (size_t)PyTuple_Size(p->extra);
  for (size_t i = 0; good && i < p->nextra; i++)
    good = flat_put(&f, PyTuple_GetItem(p->extra, (Py_ssize_t)i)) && f.n == i + 1;
  p->given = good ? (anf_generic *)calloc(p->nextra + 1, sizeof *p->given) : NULL;
  if (p->given) memcpy(p->given, f.slot, p->nextra * sizeof *p->given);
  flat_end(&f);
  return p->given || PyErr_Occurred() || (PyErr_NoMemory(), false);
}

/* Plan(exec, casts, leaves, code, objects, extra, refs, slow) */
static PyObject *plan_new(PyTypeObject *type, PyObject *args, PyObject *kw) {
  PyObject *module = PyType_GetModule(type), *e, *casts, *leaves, *code, *objects, *extra, *refs,
           *slow;
  (void)kw;
  if (!module) return NULL;
  core *c = core_of(module);
  if (!PyArg_ParseTuple(args, "OO!O!O!O!O!OO", &e, &PyList_Type, &casts, &PyList_Type, &leaves,
                        &PyList_Type, &code, &PyList_Type, &objects, &PyTuple_Type, &extra, &refs,
                        &slow))
    return NULL;
  plan *p = (plan *)PyType_GenericAlloc(type, 0);
  if (!p) return NULL;
  p->c = c;
  p->refs = Py_NewRef(refs);
  p->slow = slow == Py_None ? NULL : Py_NewRef(slow);
  p->extra = Py_NewRef(extra);
  p->object = Py_NewRef(objects);
  if (Py_IS_TYPE(e, c->exec_type)) {
    p->e = (exec *)Py_NewRef(e);
    p->f = p->e->f;
  }
  if (read_casts(p, casts) && read_leaves(p, leaves) && read_code(p, code) && read_extra(p) &&
      !PyErr_Occurred())
    return (PyObject *)p;
  Py_DECREF(p);
  return NULL;
}

/* buffers() -> (address, [(element type, rank)] of the results) for calls by plan_run, or None */
static PyObject *plan_buffers(PyObject *self, PyObject *none) {
  plan *p = (plan *)self;
  (void)none;
  for (size_t i = 0; i < p->nin; i++)
    if (p->to[i] >= 0) Py_RETURN_NONE;
  if (p->slow || !p->f) Py_RETURN_NONE;
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < p->nout; i++) {
    PyObject *t = Py_BuildValue("(si)", anf_dtype_name(p->out[i].dtype), p->out[i].ndim);
    if (!t || PyList_Append(list, t) < 0) Py_CLEAR(list);
    Py_XDECREF(t);
  }
  return list ? Py_BuildValue("(nN)", (Py_ssize_t)(intptr_t)p, list) : NULL;
}

size_t plan_slots(const void *of) {
  const plan *p = (const plan *)of;
  return p->nin + p->nextra + p->nout + 1;
}

anf_status plan_run(const void *of, size_t n, anf_generic *slot, size_t nout,
                    void *(*out)(void *user, size_t i), void *user) {
  const plan *p = (const plan *)of;
  if (n != p->nin || nout != p->nout) return ANF_INVALID;
  for (size_t i = 0; i < p->nextra; i++) slot[n++] = p->given[i];
  for (size_t i = 0; i < nout; i++)
    if (i != p->returned) slot[n++].ptr = out(user, i);
  slot[n].bits = 0;
  anf_stream *s = anf_stream_of_thread();
  anf_status st = s ? anf_jit_call_generic(p->f, s, slot) : ANF_NOMEM;
  if (st == ANF_OK && p->returned < nout)
    memcpy(out(user, p->returned), &slot[n], anf_dtype_bytes(p->out[p->returned].dtype));
  return st;
}

PyTypeObject *plan_make_type(core *c, PyObject *module) {
  static PyMethodDef methods[] = {{"buffers", plan_buffers, METH_NOARGS, NULL}, {0}};
  PyType_Slot slots[] = {{Py_tp_new, (void *)plan_new},
                         {Py_tp_dealloc, (void *)plan_dealloc},
                         {Py_tp_methods, methods},
                         {0, NULL}};
  return c->plan_type = core_make_type(module, "anfora._core.Plan", sizeof(plan), 0, slots);
}

/* ---- results ---- */

typedef struct building {
  plan *p;
  anf_generic *slot;
  PyObject **leaf; // arrays; NULL for numbers, which stand in `bits`
  anf_generic *bits;
  size_t at, next; // in the code, of the leaves
} building;

enum { BUILD_LEAF, BUILD_NONE, BUILD_TUPLE, BUILD_LIST, BUILD_DICT, BUILD_CALL, BUILD_OBJECT };

static PyObject *build(building *b);

static PyObject *build_leaf(building *b) {
  size_t i = b->next++;
  if (b->leaf[i]) return Py_NewRef(b->leaf[i]);
  const out_leaf *o = &b->p->out[i];
  if (o->number && o->dtype == ANF_F32) b->bits[i].f32 = (float)b->bits[i].f64;
  return array_number(b->p->c, o->dtype, &b->bits[i]);
}

static PyObject *build_items(building *b, Py_ssize_t n, bool list) {
  PyObject *t = list ? PyList_New(n) : PyTuple_New(n);
  for (Py_ssize_t i = 0; t && i < n; i++) {
    PyObject *x = build(b);
    if (!x || (list ? PyList_SetItem(t, i, x) : PyTuple_SetItem(t, i, x)) < 0) Py_CLEAR(t);
  }
  return t;
}

static PyObject *build_dict(building *b, Py_ssize_t n, PyObject *keys) {
  PyObject *d = PyDict_New();
  for (Py_ssize_t i = 0; d && i < n; i++) {
    PyObject *x = build(b);
    if (!x || PyDict_SetItem(d, PyTuple_GetItem(keys, i), x) < 0) Py_CLEAR(d);
    Py_XDECREF(x);
  }
  return d;
}

static PyObject *build_call(building *b, Py_ssize_t n, PyObject *f) {
  PyObject *t = build_items(b, n, false), *r = t ? PyObject_Call(f, t, NULL) : NULL;
  Py_XDECREF(t);
  return r;
}

static PyObject *build(building *b) {
  const int32_t *code = &b->p->code[b->at];
  switch (code[0]) {
  case BUILD_LEAF: return b->at += 1, build_leaf(b);
  case BUILD_NONE: return b->at += 1, Py_NewRef(Py_None);
  case BUILD_TUPLE: return b->at += 2, build_items(b, code[1], false);
  case BUILD_LIST: return b->at += 2, build_items(b, code[1], true);
  case BUILD_DICT: return b->at += 3, build_dict(b, code[1], PyList_GetItem(b->p->object, code[2]));
  case BUILD_CALL: return b->at += 3, build_call(b, code[1], PyList_GetItem(b->p->object, code[2]));
  default: return b->at += 2, Py_NewRef(PyList_GetItem(b->p->object, code[1]));
  }
}

/* ---- calls ---- */

typedef struct callable {
  PyObject_HEAD core *c;
  Py_ssize_t nparam; // -1: calls always go through _bind
  plan **plan;       // used last first
  size_t nplan, most;
  PyObject *fixed;  // positions of static arguments, a frozenset, or NULL if there are none
  PyObject *values; // each static value that was given, once: (type, value) to itself
  PyObject
      *watched; // what names from outside are in the code: ((holder, key, value), ...), or NULL
} callable;

static double number_of(anf_dtype d, anf_generic g) {
  return d == ANF_FLOAT ? g.f64 : d == ANF_BOOL ? (double)g.b : (double)g.s64;
}

/* A Python number as the type that the function declares. Floats do not become integers: Python saw to
 * that when it made the plan. */
static anf_generic cast(anf_dtype from, anf_dtype to, anf_generic g) {
  int64_t i = from == ANF_BOOL ? (int64_t)g.b : g.s64;
  double x = number_of(from, g);
  anf_generic r = {.bits = 0};
  switch (to) {
  case ANF_F32: r.f32 = (float)x; break;
  case ANF_F64: r.f64 = x; break;
  case ANF_F16: r.f16 = anf_rt_f64_to_f16(x); break;
  case ANF_BF16: r.bf16 = anf_rt_f64_to_bf16(x); break;
  case ANF_BOOL: r.b = g.b; break;
  default: r.s64 = i; break;
  }
  return r;
}

/* The signature says of each slot what it holds. */
static void cast_numbers(const plan *p, flat *f) {
  size_t slot = 0, w = 0;
  while (w < f->nsig && slot < p->nin) {
    uint64_t x = f->sig[w++];
    int mark = (int)(x & 0xff);
    if (mark == MARK_TENSOR) {
      if (p->to[slot] >= 0)
        f->slot[slot] = cast((anf_dtype)(x >> 8 & 0xff), (anf_dtype)p->to[slot], f->slot[slot]);
      slot++;
      w += x >> 16 & 0xff;
    } else if (mark == MARK_OBJECT || mark == MARK_STATIC) {
      w++;
    } else if (mark == MARK_DICT) {
      w += x >> 8;
    }
  }
}

static bool has_casts(const plan *p) {
  for (size_t i = 0; i < p->nin; i++)
    if (p->to[i] >= 0) return true;
  return false;
}

static plan *find(callable *k, const flat *f) {
  for (size_t i = 0; i < k->nplan; i++) {
    plan *p = k->plan[i];
    if (p->nsig != f->nsig || memcmp(p->sig, f->sig, f->nsig * sizeof *f->sig) != 0) continue;
    for (; i; i--) k->plan[i] = k->plan[i - 1];
    return k->plan[0] = p;
  }
  return NULL;
}

static bool keep(callable *k, plan *p, const flat *f) {
  p->sig = (uint64_t *)malloc((f->nsig + 1) * sizeof *p->sig);
  if (!p->sig) return PyErr_NoMemory(), false;
  memcpy(p->sig, f->sig, f->nsig * sizeof *f->sig);
  p->nsig = f->nsig;
  if (k->nplan == k->most) Py_DECREF((PyObject *)k->plan[--k->nplan]);
  for (size_t i = k->nplan++; i; i--) k->plan[i] = k->plan[i - 1];
  k->plan[0] = (plan *)Py_NewRef((PyObject *)p);
  return true;
}

/* A new reference: while it runs, a plan may be dropped by another thread. */
static plan *plan_for(callable *k, PyObject *args, flat *f) {
  plan *p = find(k, f);
  if (p) return (plan *)Py_NewRef((PyObject *)p);
  p = (plan *)PyObject_CallMethodObjArgs((PyObject *)k, k->c->s_compile, args, NULL);
  if (p && !Py_IS_TYPE((PyObject *)p, k->c->plan_type)) {
    PyErr_SetString(PyExc_TypeError, "_compile must give a plan");
    Py_CLEAR(p);
  }
  if (p && !keep(k, p, f)) Py_CLEAR(p);
  return p;
}

/* Room for the results after the arguments; numbers go to `bits`. */
static bool make_room(const plan *p, flat *f, PyObject **leaf, anf_generic *bits) {
  if (!flat_room(f, p->nout + 1)) return false;
  for (size_t i = 0; i < p->nout; i++) {
    const out_leaf *o = &p->out[i];
    if (is_scalar(o)) {
      if (i != p->returned) f->slot[f->n++].ptr = &bits[i];
      continue;
    }
    array *a = array_new(p->c, o->dtype, o->ndim, o->dims);
    if (!a) return false;
    leaf[i] = (PyObject *)a;
    f->slot[f->n++].ptr = a->data;
  }
  f->slot[f->n].bits = 0;
  return true;
}

static PyObject *run_into(callable *k, plan *p, flat *f, PyObject **leaf, anf_generic *bits,
                          PyObject *args) {
  memset(bits, 0, p->nout * sizeof *bits);
  if (!make_room(p, f, leaf, bits)) return NULL;
  anf_stream *s = anf_stream_of_thread();
  if (!s) return PyErr_NoMemory();
  anf_status st;
  for (bool stopped = true; stopped;) {
    PyThreadState *ts = PyEval_SaveThread();
    core_call outer = core_begin(s, NULL);
    st = anf_jit_call_generic(p->f, s, f->slot);
    core_end(outer);
    PyEval_RestoreThread(ts);
    stopped = core_interrupted(outer, st);
    if (stopped && PyErr_CheckSignals() < 0) return NULL;
  }
  if (st != ANF_OK) // once more, the way that can say what went wrong
    return PyObject_CallMethodObjArgs((PyObject *)k, k->c->s_failed, (PyObject *)p->e, args, NULL);
  if (p->returned < p->nout) bits[p->returned] = f->slot[f->n];
  building b = {.p = p, .slot = f->slot, .leaf = leaf, .bits = bits};
  return build(&b);
}

enum { FEW = 16 };

static PyObject *run_plan(callable *k, plan *p, flat *f, PyObject *args) {
  PyObject *leaf0[FEW] = {0}, **leaf = leaf0, *r = NULL;
  anf_generic bits0[FEW], *bits = bits0;
  if (has_casts(p)) cast_numbers(p, f);
  if (p->nout > FEW) {
    leaf = (PyObject **)calloc(p->nout, sizeof *leaf);
    bits = (anf_generic *)malloc(p->nout * sizeof *bits);
    if (!leaf || !bits) PyErr_NoMemory();
  }
  if (leaf && bits) r = run_into(k, p, f, leaf, bits, args);
  for (size_t i = 0; leaf && i < p->nout; i++) Py_XDECREF(leaf[i]);
  if (leaf != leaf0) free(leaf);
  if (bits != bits0) free(bits);
  return r;
}

/* Equal values of one type stand for each other. */
static bool put_static(callable *k, flat *f, PyObject *x) {
  if (PyObject_Hash(x) == -1) {
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError,
                 "an argument that jit takes as static must be hashable, and is %R: pass a tuple "
                 "for a list, and leave arrays out of static_argnums",
                 (PyObject *)Py_TYPE(x));
    return false;
  }
  PyObject *key = PyTuple_Pack(2, (PyObject *)Py_TYPE(x), x);
  PyObject *known = key ? PyDict_GetItemWithError(k->values, key) : NULL;
  bool good = key && (known || (!PyErr_Occurred() && PyDict_SetItem(k->values, key, key) == 0));
  if (good) good = flat_static(f, known ? known : key);
  Py_XDECREF(key);
  return good;
}

static bool put_argument(callable *k, flat *f, PyObject *args, Py_ssize_t i) {
  PyObject *x = PyTuple_GetItem(args, i);
  if (!k->fixed) return flat_put(f, x);
  PyObject *at = PyLong_FromSsize_t(i);
  int fixed = at ? PySet_Contains(k->fixed, at) : -1;
  Py_XDECREF(at);
  return fixed >= 0 && (fixed ? put_static(k, f, x) : flat_put(f, x));
}

static void forget_plans(callable *k) {
  size_t n = k->nplan;
  k->nplan = 0;
  for (size_t i = 0; i < n; i++) Py_DECREF((PyObject *)k->plan[i]);
}

/* Equal numbers and texts stand for each other. */
static bool is_same(PyObject *x, PyObject *was) {
  if (x == was) return true;
  if (!x || Py_TYPE(x) != Py_TYPE(was)) return false;
  if (PyFloat_CheckExact(x)) {
    double a = PyFloat_AsDouble(x), b = PyFloat_AsDouble(was);
    return memcmp(&a, &b, sizeof a) == 0;
  }
  return (PyLong_CheckExact(x) || PyUnicode_CheckExact(x)) &&
         PyObject_RichCompareBool(x, was, Py_EQ) == 1;
}

/* The item at a key of a list, a dictionary or the fields of an object; NULL: nothing. A new reference. */
static PyObject *held(PyObject *holder, PyObject *key) {
  if (key == Py_Ellipsis) return PyLong_FromSsize_t(PyObject_Size(holder));
  if (PyDict_CheckExact(holder)) {
    PyObject *x = PyDict_GetItemWithError(holder, key);
    return x ? Py_NewRef(x) : NULL;
  }
  return PyList_CheckExact(holder) ? PyObject_GetItem(holder, key) : PyObject_GetAttr(holder, key);
}

/* Tells the function if a name from outside is another than in its code, which is forgotten then. */
static bool see_outside(callable *k) {
  PyObject *watched = Py_NewRef(k->watched), *changed = NULL;
  for (Py_ssize_t i = 0; !changed && i < PyTuple_Size(watched); i++) {
    PyObject *t = PyTuple_GetItem(watched, i), *key = PyTuple_GetItem(t, 1);
    PyObject *x = held(PyTuple_GetItem(t, 0), key);
    if (!is_same(x, PyTuple_GetItem(t, 2))) changed = key;
    PyErr_Clear(); // a name that is bound no more, which compiling will say
    Py_XDECREF(x);
  }
  bool good = true;
  if (changed) {
    forget_plans(k);
    Py_CLEAR(k->watched);
    PyObject *r = PyObject_CallMethod((PyObject *)k, "_changed", "O", changed);
    good = r != NULL;
    Py_XDECREF(r);
  }
  Py_DECREF(watched);
  return good;
}

/* _watch(((holder, key, value), ...)): what names from outside are in the code */
static PyObject *watch(PyObject *self, PyObject *watched) {
  callable *k = (callable *)self;
  if (!PyTuple_Check(watched)) return PyErr_SetString(PyExc_TypeError, "a tuple"), NULL;
  PyObject *before = k->watched;
  k->watched = Py_NewRef(watched);
  Py_XDECREF(before);
  Py_RETURN_NONE;
}

/* _outside_changed(): whether they are others now, and the code is forgotten */
static PyObject *outside_changed(PyObject *self, PyObject *none) {
  callable *k = (callable *)self;
  (void)none;
  if (!k->watched) Py_RETURN_FALSE;
  if (!see_outside(k)) return NULL;
  return PyBool_FromLong(!k->watched);
}

static PyObject *call_bound(callable *k, PyObject *args) {
  flat f;
  PyObject *r = NULL;
  if (k->watched && !see_outside(k)) return NULL;
  flat_start(&f, k->c);
  bool good = true;
  for (Py_ssize_t i = 0; good && i < PyTuple_Size(args); i++) good = put_argument(k, &f, args, i);
  plan *p = good ? plan_for(k, args, &f) : NULL;
  for (Py_ssize_t i = 0; p && good && i < PyTuple_Size(p->extra); i++)
    good = p->slow || flat_put(&f, PyTuple_GetItem(p->extra, i));
  if (p && good)
    r = p->slow ? PyObject_CallFunctionObjArgs(p->slow, args, NULL) : run_plan(k, p, &f, args);
  Py_XDECREF((PyObject *)p);
  flat_end(&f);
  return r;
}

static PyObject *call(PyObject *self, PyObject *args, PyObject *kw) {
  callable *k = (callable *)self;
  if (PyTuple_Size(args) == k->nparam && (!kw || !PyDict_Size(kw))) return call_bound(k, args);
  PyObject *none = kw ? NULL : PyDict_New();
  PyObject *bound = kw || none
                        ? PyObject_CallMethodObjArgs(self, k->c->s_bind, args, kw ? kw : none, NULL)
                        : NULL;
  Py_XDECREF(none);
  PyObject *r = bound ? call_bound(k, bound) : NULL;
  Py_XDECREF(bound);
  return r;
}

/* ---- the type ---- */

static PyObject *callable_new(PyTypeObject *type, PyObject *args, PyObject *kw) {
  (void)args, (void)kw;
  callable *k = (callable *)PyType_GenericAlloc(type, 0);
  if (k) k->nparam = -1;
  return (PyObject *)k;
}

/* _setup(core module, number of parameters, plans kept, static positions) */
static PyObject *setup(PyObject *self, PyObject *args) {
  callable *k = (callable *)self;
  PyObject *module, *fixed;
  Py_ssize_t nparam, most;
  if (!PyArg_ParseTuple(args, "OnnO!", &module, &nparam, &most, &PyFrozenSet_Type, &fixed))
    return NULL;
  k->c = core_of(module);
  k->nparam = nparam;
  forget_plans(k);
  free(k->plan);
  Py_CLEAR(k->fixed);
  Py_CLEAR(k->values);
  if (PySet_Size(fixed)) k->fixed = Py_NewRef(fixed);
  if (!(k->values = PyDict_New())) return NULL;
  k->most = (size_t)(most < 1 ? 1 : most);
  k->plan = (plan **)calloc(k->most, sizeof(plan *));
  return k->plan ? Py_NewRef(Py_None) : PyErr_NoMemory();
}

static int traverse(PyObject *self, visitproc visit, void *arg) {
  callable *k = (callable *)self;
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(k->values);
  Py_VISIT(k->watched);
  for (size_t i = 0; i < k->nplan; i++) {
    Py_VISIT(k->plan[i]->refs);
    Py_VISIT(k->plan[i]->slow);
    Py_VISIT(k->plan[i]->object);
  }
  return 0;
}

static int clear(PyObject *self) {
  forget_plans((callable *)self);
  Py_CLEAR(((callable *)self)->values);
  Py_CLEAR(((callable *)self)->watched);
  return 0;
}

static void dealloc(PyObject *self) {
  PyTypeObject *t = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  forget_plans((callable *)self);
  free(((callable *)self)->plan);
  Py_XDECREF(((callable *)self)->fixed);
  Py_XDECREF(((callable *)self)->values);
  Py_XDECREF(((callable *)self)->watched);
  ((freefunc)PyType_GetSlot(t, Py_tp_free))(self);
  Py_DECREF(t);
}

static PyObject *forget(PyObject *self, PyObject *none) {
  (void)none;
  forget_plans((callable *)self);
  Py_RETURN_NONE;
}

static PyObject *forget_plan(PyObject *self, PyObject *slow) {
  callable *k = (callable *)self;
  for (size_t i = 0; i < k->nplan; i++) {
    plan *p = k->plan[i];
    if (p->slow != slow) continue;
    memmove(&k->plan[i], &k->plan[i + 1], (--k->nplan - i) * sizeof(plan *));
    Py_DECREF((PyObject *)p);
    break;
  }
  Py_RETURN_NONE;
}

static PyObject *compiled(PyObject *self, void *none) {
  (void)none;
  return PyLong_FromSize_t(((callable *)self)->nplan);
}

static PyMethodDef methods[] = {
    {"_setup", setup, METH_VARARGS, NULL},
    {"_watch", watch, METH_O, NULL},
    {"_outside_changed", outside_changed, METH_NOARGS, NULL},
    {"clear_cache", forget, METH_NOARGS, "Forgets all code; it is made anew when it is needed."},
    {"_forget_plan", forget_plan, METH_O, "Forgets the plan that runs with this function."},
    {0}};
static PyGetSetDef attributes[] = {
    {"compiled", compiled, NULL, "For how many kinds of arguments there is code now.", NULL}, {0}};

PyTypeObject *callable_make_type(core *c, PyObject *module) {
  PyType_Slot slots[] = {{Py_tp_new, (void *)callable_new}, {Py_tp_call, (void *)call},
                         {Py_tp_dealloc, (void *)dealloc},  {Py_tp_traverse, (void *)traverse},
                         {Py_tp_clear, (void *)clear},      {Py_tp_methods, methods},
                         {Py_tp_getset, attributes},        {0, NULL}};
  return c->callable_type = core_make_type(module, "anfora._core.Callable", sizeof(callable),
                                           Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots);
}
