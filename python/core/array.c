// SPDX-License-Identifier: Apache-2.0
/* anfora.Array: a dense tensor in the host's memory.
 *   numpy.asarray(x), torch.from_dlpack(x)   ->   the same memory          x + y   ->   operate("add", x, y)
 * It lends its memory by the buffer protocol and by DLPack, and takes what lends in one of these ways without a copy. */
#include "core.h"

enum { SMALL = 256 };

/* ---- element types and the formats of the buffer protocol ---- */

static const char *const format_of[ANF_DTYPE_COUNT] = {
    [ANF_BOOL] = "?", [ANF_I8] = "b",  [ANF_I16] = "h",  [ANF_I32] = "i",  [ANF_I64] = "q",
    [ANF_U8] = "B",   [ANF_U16] = "H", [ANF_U32] = "I",  [ANF_U64] = "Q",  [ANF_F16] = "e",
    [ANF_F32] = "f",  [ANF_F64] = "d", [ANF_C64] = "Zf", [ANF_C128] = "Zd"};

static anf_dtype sized_int(char c, Py_ssize_t bytes) {
  bool is_signed = c == 'i' || c == 'l' || c == 'q' || c == 'n';
  if (bytes == 4) return is_signed ? ANF_I32 : ANF_U32;
  return bytes == 8 ? (is_signed ? ANF_I64 : ANF_U64) : ANF_DTYPE_COUNT;
}

static anf_dtype dtype_of_format(const char *s, Py_ssize_t bytes) {
  if (!s) return ANF_U8;
  if (*s == '@' || *s == '=' || (*s == '<' && PY_LITTLE_ENDIAN)) s++;
  if (s[0] == 'Z' && s[1] && !s[2])
    return s[1] == 'f' ? ANF_C64 : s[1] == 'd' ? ANF_C128 : ANF_DTYPE_COUNT;
  if (!s[0] || s[1]) return ANF_DTYPE_COUNT;
  switch (s[0]) {
  case '?': return ANF_BOOL;
  case 'b': return ANF_I8;
  case 'B': return ANF_U8;
  case 'h': return ANF_I16;
  case 'H': return ANF_U16;
  case 'e': return ANF_F16;
  case 'f': return ANF_F32;
  case 'd': return ANF_F64;
  case 'i':
  case 'l':
  case 'q':
  case 'n':
  case 'I':
  case 'L':
  case 'Q':
  case 'N': return sized_int(s[0], bytes);
  default: return ANF_DTYPE_COUNT;
  }
}

/* ---- making ---- */

static Py_ssize_t *strides_of(array *a) { return a->extent + a->ndim; }

static bool set_dims(array *a, anf_dtype d, int ndim, const Py_ssize_t *dims) {
  Py_ssize_t step = (Py_ssize_t)anf_dtype_bytes(d);
  a->dtype = d;
  a->ndim = ndim;
  for (int i = ndim; i-- > 0;) {
    a->extent[i] = dims[i];
    a->extent[ndim + i] = step;
    if (__builtin_mul_overflow(step, dims[i] ? dims[i] : 1, &step)) {
      PyErr_SetString(PyExc_ValueError, "the array is larger than memory can be");
      return false;
    }
  }
  bool none = false;
  for (int i = 0; i < ndim; i++) none |= dims[i] == 0;
  a->bytes = none ? 0 : (size_t)step;
  a->size = a->bytes / anf_dtype_bytes(d);
  return true;
}

static array *bare(core *c, int ndim, size_t extra) {
  if (ndim > ANF_MAX_RANK) {
    PyErr_Format(PyExc_ValueError, "the array has %d dims; at most %d are possible", ndim,
                 (int)ANF_MAX_RANK);
    return NULL;
  }
  size_t items = 2 * (size_t)ndim + (extra ? (extra + CORE_ALIGN) / sizeof(Py_ssize_t) : 0);
  array *a = (array *)PyType_GenericAlloc(c->array_type, (Py_ssize_t)items);
  if (a) a->c = c;
  return a;
}

array *array_new(core *c, anf_dtype d, int ndim, const Py_ssize_t *dims) {
  size_t guess = anf_dtype_bytes(d); // small data stands in the object
  for (int i = 0; i < ndim && guess <= SMALL; i++) guess *= (size_t)(dims[i] ? dims[i] : 1);
  bool small = guess <= SMALL;
  array *a = bare(c, ndim, small ? guess : 0);
  if (!a || !set_dims(a, d, ndim, dims)) goto fail;
  if (small) {
    uintptr_t at = (uintptr_t)(a->extent + 2 * (size_t)ndim);
    a->data = (void *)((at + CORE_ALIGN - 1) / CORE_ALIGN * CORE_ALIGN);
  } else {
    a->own = true;
    a->data = memory_new(c, a->bytes);
    if (!a->data) {
      PyErr_NoMemory();
      goto fail;
    }
  }
  return a;
fail:
  Py_XDECREF((PyObject *)a);
  return NULL;
}

array *array_view(core *c, anf_dtype d, int ndim, const Py_ssize_t *dims, void *data, void *lent,
                  void (*release)(void *), bool readonly) {
  array *a = bare(c, ndim, 0);
  if (!a || !set_dims(a, d, ndim, dims)) {
    Py_XDECREF((PyObject *)a);
    release(lent);
    return NULL;
  }
  a->data = data;
  a->lent = lent;
  a->release = release;
  a->readonly = readonly;
  return a;
}

static void dealloc(PyObject *self) {
  array *a = (array *)self;
  PyTypeObject *t = Py_TYPE(self);
  if (a->own) memory_free(a->c, a->data, a->bytes);
  if (a->release) a->release(a->lent);
  Py_XDECREF(a->owner);
  ((freefunc)PyType_GetSlot(t, Py_tp_free))(self);
  Py_DECREF(t);
}

/* ---- from other arrays ---- */

bool array_is_one(core *c, PyObject *o) { return Py_IS_TYPE(o, c->array_type); }

static void release_buffer(void *view) {
  PyBuffer_Release((Py_buffer *)view);
  free(view);
}

static array *wrong_format(const Py_buffer *v) {
  PyErr_Format(
      PyExc_TypeError,
      "arrays of format \"%s\" are not supported: they must be bool, or integers, floats or "
      "complex numbers of up to 64 bits a part, in the machine's byte order",
      v->format ? v->format : "");
  return NULL;
}

static array *copied(core *c, anf_dtype d, Py_buffer *v) {
  array *a = array_new(c, d, v->ndim, v->shape);
  if (a && PyBuffer_ToContiguous(a->data, v, (Py_ssize_t)a->bytes, 'C') < 0) Py_CLEAR(a);
  return a;
}

static array *from_buffer(core *c, PyObject *o) {
  Py_buffer *v = (Py_buffer *)calloc(1, sizeof *v);
  if (!v) return (array *)PyErr_NoMemory();
  if (PyObject_GetBuffer(o, v, PyBUF_FULL_RO) < 0) return free(v), NULL;
  anf_dtype d = dtype_of_format(v->format, v->itemsize);
  if (d == ANF_DTYPE_COUNT || (size_t)v->itemsize != anf_dtype_bytes(d)) {
    wrong_format(v);
    release_buffer(v);
    return NULL;
  }
  bool dense = PyBuffer_IsContiguous(v, 'C') && (uintptr_t)v->buf % anf_dtype_bytes(d) == 0;
  if (dense)
    return array_view(c, d, v->ndim, v->shape, v->buf, v, release_buffer, v->readonly != 0);
  array *a = copied(c, d, v);
  release_buffer(v);
  return a;
}

/* Whether an array of NumPy has the element type bfloat16 of ml_dtypes, which the buffer protocol does not have. */
static bool is_bf16(PyObject *o) {
  PyObject *dtype = PyObject_GetAttrString(o, "dtype");
  PyObject *name = dtype ? PyObject_GetAttrString(dtype, "name") : NULL;
  bool good = name && PyUnicode_Check(name) && !PyUnicode_CompareWithASCIIString(name, "bfloat16");
  PyErr_Clear();
  Py_XDECREF(dtype);
  Py_XDECREF(name);
  return good;
}

/* The same memory, by a view of its bits: x.view("uint16"). */
static array *from_bf16(core *c, PyObject *o) {
  PyObject *bits = PyObject_CallMethod(o, "view", "s", "uint16");
  array *a = bits ? from_buffer(c, bits) : NULL;
  Py_XDECREF(bits);
  if (a) a->dtype = ANF_BF16;
  return a;
}

static PyObject *no_array(PyObject *o) {
  PyObject *t = PyType_GetName(Py_TYPE(o));
  if (t) PyErr_Format(PyExc_TypeError, "an object of type %U is not an array", t);
  Py_XDECREF(t);
  return NULL;
}

static array *other_type(PyObject *o) {
  PyObject *dtype = PyObject_GetAttrString(o, "dtype");
  if (!dtype) return PyErr_Clear(), (array *)no_array(o);
  PyErr_Format(PyExc_TypeError,
               "arrays of %S are not supported: convert them to a type that NumPy has, "
               "or to bfloat16",
               dtype);
  Py_DECREF(dtype);
  return NULL;
}

/* A date of NumPy, which is no array, lends its bytes as those of one. */
static bool lends_bytes(const array *a, PyObject *o) {
  if (a->dtype != ANF_U8 || a->ndim != 1) return false;
  PyObject *dtype = PyObject_GetAttrString(o, "dtype");
  PyObject *size = dtype ? PyObject_GetAttrString(dtype, "itemsize") : NULL;
  bool wide = size && PyLong_Check(size) && PyLong_AsSsize_t(size) > 1;
  PyErr_Clear();
  Py_XDECREF(dtype);
  Py_XDECREF(size);
  return wide;
}

array *array_of(core *c, PyObject *o) {
  if (array_is_one(c, o)) return (array *)Py_NewRef(o);
  bool lends = PyObject_HasAttr(o, c->s_dlpack);
  if (PyObject_CheckBuffer(o) && !PyBytes_Check(o)) {
    array *a = from_buffer(c, o); // has no bf16, of which DLPack knows
    bool no_format = !a && PyErr_ExceptionMatches(PyExc_ValueError); // a type that is not NumPy's
    if (a && lends_bytes(a, o)) return Py_DECREF(a), other_type(o);
    if (a || (!no_format && (!lends || !PyErr_ExceptionMatches(PyExc_BufferError)))) return a;
    PyErr_Clear();
    if (no_format) return is_bf16(o) ? from_bf16(c, o) : other_type(o);
  }
  return lends ? dlpack_import(c, o) : (array *)no_array(o);
}

/* ---- to Python ---- */

/* A number: of a type that arrays have, an array without dims; else Python's. */
PyObject *array_number(core *c, anf_dtype d, const void *bits) {
  if (d == ANF_FLOAT) {
    double x;
    memcpy(&x, bits, sizeof x);
    return PyFloat_FromDouble(x);
  }
  if (d == ANF_INT) {
    int64_t x;
    memcpy(&x, bits, sizeof x);
    return PyLong_FromLongLong(x);
  }
  array *a = array_new(c, d == ANF_COMPLEX ? ANF_C128 : d, 0, NULL);
  if (a) memcpy(a->data, bits, a->bytes);
  return (PyObject *)a;
}

static double small_float(anf_dtype d, const void *p) {
  uint16_t h;
  memcpy(&h, p, sizeof h);
  if (d == ANF_F16) return (double)anf_rt_f16_to_f32(h);
  uint32_t bits = (uint32_t)h << 16;
  float x;
  memcpy(&x, &bits, sizeof x);
  return (double)x;
}

/* Element of any type as a Python number. */
static PyObject *element(anf_dtype d, const void *p) {
  const float *f = (const float *)p;
  const double *g = (const double *)p;
  switch (d) {
  case ANF_BOOL: return PyBool_FromLong(*(const char *)p);
  case ANF_I8: return PyLong_FromLong(*(const int8_t *)p);
  case ANF_I16: return PyLong_FromLong(*(const int16_t *)p);
  case ANF_I32: return PyLong_FromLong(*(const int32_t *)p);
  case ANF_INT:
  case ANF_I64: return PyLong_FromLongLong(*(const int64_t *)p);
  case ANF_U8: return PyLong_FromLong(*(const uint8_t *)p);
  case ANF_U16: return PyLong_FromLong(*(const uint16_t *)p);
  case ANF_U32: return PyLong_FromUnsignedLong(*(const uint32_t *)p);
  case ANF_KEY:
  case ANF_U64: return PyLong_FromUnsignedLongLong(*(const uint64_t *)p);
  case ANF_F16:
  case ANF_BF16: return PyFloat_FromDouble(small_float(d, p));
  case ANF_F32: return PyFloat_FromDouble((double)*f);
  case ANF_C64: return PyComplex_FromDoubles((double)f[0], (double)f[1]);
  case ANF_C128: return PyComplex_FromDoubles(g[0], g[1]);
  default: return PyFloat_FromDouble(*g);
  }
}

/* The number with the fewest digits that the type rounds to x: 0.1, where the f32 is 0.10000000149011612. */
static double shortest(anf_dtype d, double x) {
  enum { MOST_DIGITS = 9 };
  for (int digits = 1; digits < MOST_DIGITS; digits++) {
    char *s = PyOS_double_to_string(x, 'e', digits - 1, 0, NULL);
    if (!s) break;
    double y = PyOS_string_to_double(s, NULL, NULL);
    PyMem_Free(s);
    bool same = d == ANF_F32   ? (float)y == (float)x
                : d == ANF_F16 ? anf_rt_f64_to_f16(y) == anf_rt_f64_to_f16(x)
                               : anf_rt_f64_to_bf16(y) == anf_rt_f64_to_bf16(x);
    if (same) return y;
  }
  return x;
}

/* The same as it is printed. */
static PyObject *shown_element(anf_dtype d, const void *p) {
  const float *f = (const float *)p;
  switch (d) {
  case ANF_F16:
  case ANF_BF16: return PyFloat_FromDouble(shortest(d, small_float(d, p)));
  case ANF_F32: return PyFloat_FromDouble(shortest(d, (double)*f));
  case ANF_C64:
    return PyComplex_FromDoubles(shortest(ANF_F32, (double)f[0]), shortest(ANF_F32, (double)f[1]));
  default: return element(d, p);
  }
}

static PyObject *nested(const array *a, int dim, const char *at,
                        PyObject *(*of)(anf_dtype, const void *)) {
  if (dim == a->ndim) return of(a->dtype, at);
  Py_ssize_t n = a->extent[dim], step = a->extent[a->ndim + dim];
  PyObject *list = PyList_New(n);
  for (Py_ssize_t i = 0; list && i < n; i++) {
    PyObject *x = nested(a, dim + 1, at + i * step, of);
    if (!x || PyList_SetItem(list, i, x) < 0) Py_CLEAR(list);
  }
  return list;
}

static PyObject *tolist(PyObject *self, PyObject *none) {
  (void)none;
  return nested((array *)self, 0, (const char *)((array *)self)->data, element);
}

static PyObject *item(PyObject *self, PyObject *none) {
  const array *a = (const array *)self;
  (void)none;
  if (a->size == 1) return element(a->dtype, a->data);
  return PyErr_Format(PyExc_ValueError, "an array of %zu elements is not one number", a->size);
}

static PyObject *as_float(PyObject *self) {
  PyObject *x = item(self, NULL), *r = x ? PyNumber_Float(x) : NULL;
  Py_XDECREF(x);
  return r;
}

static PyObject *as_complex(PyObject *self, PyObject *none) {
  PyObject *x = item(self, none);
  if (!x || PyComplex_Check(x)) return x;
  double real = PyFloat_AsDouble(x);
  Py_DECREF(x);
  return real == -1 && PyErr_Occurred() ? NULL : PyComplex_FromDoubles(real, 0);
}

static PyObject *as_int(PyObject *self) {
  PyObject *x = item(self, NULL), *r = x ? PyNumber_Long(x) : NULL;
  Py_XDECREF(x);
  return r;
}

/* Of an array without dims alone: one with dims is an index of another shape. */
static PyObject *as_index(PyObject *self) {
  if (((array *)self)->ndim)
    return PyErr_Format(PyExc_TypeError, "an array with dims is no integer: write int(x)");
  PyObject *x = item(self, NULL), *r = x ? PyNumber_Index(x) : NULL;
  Py_XDECREF(x);
  return r;
}

static int as_bool(PyObject *self) {
  const array *a = (const array *)self;
  if (a->size != 1) {
    PyErr_Format(PyExc_ValueError,
                 "an array of %zu elements is not one truth: write anp.any(x) or anp.all(x)",
                 a->size);
    return -1;
  }
  PyObject *x = item(self, NULL);
  int r = x ? PyObject_IsTrue(x) : -1;
  Py_XDECREF(x);
  return r;
}

static Py_ssize_t length(PyObject *self) {
  const array *a = (const array *)self;
  if (a->ndim) return a->extent[0];
  PyErr_SetString(PyExc_TypeError, "an array without dims has no length");
  return -1;
}

static PyObject *operate(const char *name, PyObject *a, PyObject *b);

static PyObject *get_dtype(PyObject *self, void *none) {
  (void)none;
  PyObject *name = PyUnicode_FromString(anf_dtype_name(((array *)self)->dtype));
  PyObject *r = name ? operate("dtype", self, name) : NULL;
  Py_XDECREF(name);
  return r;
}

static PyObject *get_shape(PyObject *self, void *none) {
  const array *a = (const array *)self;
  PyObject *t = PyTuple_New(a->ndim);
  (void)none;
  for (int i = 0; t && i < a->ndim; i++) {
    PyObject *x = PyLong_FromSsize_t(a->extent[i]);
    if (!x || PyTuple_SetItem(t, i, x) < 0) Py_CLEAR(t);
  }
  return t;
}

static PyObject *get_ndim(PyObject *self, void *none) {
  (void)none;
  return PyLong_FromLong(((array *)self)->ndim);
}

static PyObject *get_size(PyObject *self, void *none) {
  (void)none;
  return PyLong_FromSize_t(((array *)self)->size);
}

static PyObject *get_nbytes(PyObject *self, void *none) {
  (void)none;
  return PyLong_FromSize_t(((array *)self)->bytes);
}

/* ---- arithmetic: operations, which the hook calls by name ---- */

static core *core_of_one(PyObject *o) {
  bool ours = PyType_GetSlot(Py_TYPE(o), Py_tp_dealloc) == (void *)dealloc;
  return ours ? ((array *)o)->c : NULL;
}

static PyObject *operate(const char *name, PyObject *a, PyObject *b) {
  core *c = core_of_one(a);
  if (!c && b) c = core_of_one(b);
  if (!c) return Py_NewRef(Py_NotImplemented);
  return b ? PyObject_CallFunction(c->operate, "sOO", name, a, b)
           : PyObject_CallFunction(c->operate, "sO", name, a);
}

#define BINARY(slot, name)                                                                         \
  static PyObject *slot(PyObject *a, PyObject *b) { return operate(name, a, b); }
BINARY(plus, "add")
BINARY(minus, "sub")
BINARY(times, "mul")
BINARY(over, "div")
BINARY(floor_over, "floor_div")
BINARY(modulo, "mod")
BINARY(matmul, "mat_mul")
BINARY(subscript, "getitem")
BINARY(bits_and, "and")
BINARY(bits_or, "or")
BINARY(bits_xor, "xor")
BINARY(shift_left, "left_shift")
BINARY(shift_right, "right_shift")
#undef BINARY
static PyObject *power(PyObject *a, PyObject *b, PyObject *c) {
  return c == Py_None ? operate("power", a, b) : Py_NewRef(Py_NotImplemented);
}
static PyObject *positive(PyObject *a) { return Py_NewRef(a); } // arrays do not change
static PyObject *negative(PyObject *a) { return operate("neg", a, NULL); }
static PyObject *absolute(PyObject *a) { return operate("abs", a, NULL); }
static PyObject *inverted(PyObject *a) { return operate("invert", a, NULL); }

static PyObject *row(PyObject *self, Py_ssize_t i) {
  const array *a = (const array *)self;
  if (!a->ndim || i < 0 || i >= a->extent[0])
    return PyErr_Format(PyExc_IndexError, "there is no row %zd", i);
  PyObject *k = PyLong_FromSsize_t(i), *r = k ? subscript(self, k) : NULL;
  Py_XDECREF(k);
  return r;
}

static int no_change(PyObject *self, PyObject *key, PyObject *value) {
  (void)self, (void)key, (void)value;
  PyErr_SetString(PyExc_TypeError,
                  "arrays do not change in place: write x = x.at[i].set(value), or use NumPy's");
  return -1;
}

/* Attributes that are none of its own are operations: x.sum(), x.T. */
static PyObject *attribute(PyObject *self, PyObject *name) {
  PyObject *r = PyObject_GenericGetAttr(self, name);
  bool hidden = PyUnicode_GetLength(name) > 0 && PyUnicode_ReadChar(name, 0) == '_';
  if (r || hidden || !PyErr_ExceptionMatches(PyExc_AttributeError)) return r;
  PyErr_Clear();
  return operate("attribute", self, name);
}

static PyObject *compare_tensors(PyObject *a, PyObject *b, int op) {
  static const char *const name[] = {
      [Py_LT] = "less",      [Py_LE] = "less_equal", [Py_EQ] = "equal",
      [Py_NE] = "not_equal", [Py_GT] = "greater",    [Py_GE] = "greater_equal"};
  return operate(name[op], a, b);
}

/* Numbers compare as numbers, tensors element by element; the result is an array of truth values. */
static PyObject *compare(PyObject *self, PyObject *other, int op) {
  const array *a = (const array *)self;
  bool ours = array_is_one(a->c, other);
  bool number = PyFloat_Check(other) || PyLong_Check(other) || PyComplex_Check(other);
  if (a->ndim || !(number || (ours && !((array *)other)->ndim)))
    return compare_tensors(self, other, op);
  PyObject *x = item(self, NULL), *y = ours ? item(other, NULL) : Py_NewRef(other);
  int holds = x && y ? PyObject_RichCompareBool(x, y, op) : -1;
  Py_XDECREF(x);
  Py_XDECREF(y);
  if (holds < 0) return NULL;
  bool truth = holds == 1;
  return array_number(a->c, ANF_BOOL, &truth);
}

static PyObject *represent(PyObject *self) {
  enum { SHOWN = 64 };
  const array *a = (const array *)self;
  PyObject *dims = get_shape(self, NULL);
  PyObject *r = NULL;
  PyObject *items = a->size <= SHOWN ? nested(a, 0, (const char *)a->data, shown_element) : NULL;
  const char *name = anf_dtype_name(a->dtype);
  if (items) r = PyUnicode_FromFormat("Array(%R, %s)", items, name);
  else if (dims && !PyErr_Occurred()) r = operate("shown", self, NULL);
  Py_XDECREF(items);
  Py_XDECREF(dims);
  return r;
}

/* Without dims as the number, which is how NumPy prints it too. */
static PyObject *as_text(PyObject *self) {
  const array *a = (const array *)self;
  PyObject *x = a->ndim ? NULL : shown_element(a->dtype, a->data);
  PyObject *r = x ? PyObject_Str(x) : PyErr_Occurred() ? NULL : represent(self);
  Py_XDECREF(x);
  return r;
}

/* ---- lending ---- */

static int get_buffer(PyObject *self, Py_buffer *v, int flags) {
  array *a = (array *)self;
  const char *format = format_of[a->dtype];
  if (!format || ((flags & PyBUF_WRITABLE) && a->readonly)) {
    PyErr_Format(PyExc_BufferError,
                 format
                     ? "the array cannot be written: it shows memory that was lent to be read"
                     : "the buffer protocol has no format for %s; use DLPack, or cast in a program",
                 anf_dtype_name(a->dtype));
    v->obj = NULL;
    return -1;
  }
  *v = (Py_buffer){.buf = a->data,
                   .obj = Py_NewRef(self),
                   .len = (Py_ssize_t)a->bytes,
                   .itemsize = (Py_ssize_t)anf_dtype_bytes(a->dtype),
                   .readonly = a->readonly,
                   .ndim = a->ndim};
  if (flags & PyBUF_FORMAT) v->format = (char *)(uintptr_t)format;
  if (flags & PyBUF_ND) v->shape = a->extent;
  if ((flags & PyBUF_STRIDES) == PyBUF_STRIDES) v->strides = strides_of(a);
  return 0;
}

/* The first number of a pair; as it is if there is no pair. */
static bool first_of(PyObject *pair, long *n) {
  if (!pair || pair == Py_None) return true;
  PyObject *x = PySequence_GetItem(pair, 0);
  if (x) *n = PyLong_AsLong(x);
  Py_XDECREF(x);
  return !PyErr_Occurred();
}

static PyObject *lend(PyObject *self, PyObject *args, PyObject *kw) {
  static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
  PyObject *stream = NULL, *version = NULL, *device = NULL, *copy = NULL;
  if (!PyArg_ParseTupleAndKeywords(args, kw, "|$OOOO", names, &stream, &version, &device, &copy))
    return NULL;
  long major = 0, kind = 1;
  if (!first_of(version, &major) || !first_of(device, &kind)) return NULL;
  if (kind != 1) {
    PyErr_SetString(PyExc_BufferError,
                    "the array is in the CPU's memory, and not copied elsewhere");
    return NULL;
  }
  array *a = (array *)self;
  if (copy != Py_True) return dlpack_export(a, major >= 1);
  array *copied = array_new(a->c, a->dtype, a->ndim, a->extent);
  if (!copied) return NULL;
  memcpy(copied->data, a->data, a->bytes);
  PyObject *r = dlpack_export(copied, major >= 1);
  Py_DECREF((PyObject *)copied);
  return r;
}

static PyObject *device(PyObject *self, PyObject *none) {
  (void)self, (void)none;
  return Py_BuildValue("(ii)", 1, 0);
}

/* ---- as bytes ---- */

static PyObject *as_bytes(PyObject *self, PyObject *none) {
  const array *a = (const array *)self;
  (void)none;
  return PyBytes_FromStringAndSize((const char *)a->data, (Py_ssize_t)a->bytes);
}

/* frombytes(dtype, shape, bytes): a new array. */
PyObject *array_from_bytes(core *c, PyObject *args) {
  const char *name, *bytes;
  PyObject *shape;
  Py_ssize_t n, dims[ANF_MAX_RANK];
  if (!PyArg_ParseTuple(args, "sO!y#", &name, &PyTuple_Type, &shape, &bytes, &n)) return NULL;
  anf_dtype d = 0;
  while (d < ANF_DTYPE_COUNT && strcmp(anf_dtype_name(d), name) != 0) d++;
  Py_ssize_t rank = PyTuple_Size(shape);
  if (d == ANF_DTYPE_COUNT || rank > ANF_MAX_RANK)
    return PyErr_Format(PyExc_ValueError, "there are no arrays of %s with %zd dims", name, rank);
  for (Py_ssize_t i = 0; i < rank; i++) {
    dims[i] = PyLong_AsSsize_t(PyTuple_GetItem(shape, i));
    if (dims[i] < 0 && !PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "a dim is negative");
    if (PyErr_Occurred()) return NULL;
  }
  array *a = array_new(c, d, (int)rank, dims);
  if (!a) return NULL;
  if (a->bytes == (size_t)n) return memcpy(a->data, bytes, a->bytes), (PyObject *)a;
  PyErr_Format(PyExc_ValueError, "the array has %zu bytes, not %zd", a->bytes, n);
  Py_DECREF((PyObject *)a);
  return NULL;
}

static PyObject *reduced(PyObject *self, PyObject *none) {
  (void)none;
  return operate("reduce", self, NULL);
}

/* The module that has the functions of the Array API standard. */
static PyObject *namespace_of(PyObject *self, PyObject *args, PyObject *kw) {
  static char *names[] = {"api_version", NULL};
  PyObject *version = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kw, "|$O", names, &version)) return NULL;
  return operate("namespace", self, version);
}

static PyObject *as_numpys(PyObject *self, PyObject *args, PyObject *kw) {
  static char *names[] = {"dtype", "copy", NULL};
  PyObject *dtype = Py_None, *copy = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kw, "|OO", names, &dtype, &copy)) return NULL;
  return operate("numpys", self, dtype);
}

static PyObject *formatted(PyObject *self, PyObject *spec) {
  const array *a = (const array *)self;
  bool number = a->size == 1 && (!a->ndim || PyUnicode_GetLength(spec) > 0);
  PyObject *x = number ? item(self, NULL) : PyObject_Str(self);
  PyObject *r = x ? PyObject_Format(x, spec) : NULL;
  Py_XDECREF(x);
  return r;
}

static PyMethodDef methods[] = {
    {"tobytes", as_bytes, METH_NOARGS, "The elements as bytes, row by row."},
    {"__array__", (PyCFunction)(void (*)(void))as_numpys, METH_VARARGS | METH_KEYWORDS,
     "An array of NumPy, of the types that the buffer protocol does not have."},
    {"__array_namespace__", (PyCFunction)(void (*)(void))namespace_of, METH_VARARGS | METH_KEYWORDS,
     "The module of array functions, as the Array API standard asks for."},
    {"__reduce__", reduced, METH_NOARGS, NULL},
    {"__format__", formatted, METH_O, NULL},
    {"tolist", tolist, METH_NOARGS, "The elements as nested lists of Python numbers."},
    {"__complex__", as_complex, METH_NOARGS, NULL},
    {"item", item, METH_NOARGS, "The only element as a Python number."},
    {"__dlpack__", (PyCFunction)(void (*)(void))lend, METH_VARARGS | METH_KEYWORDS,
     "The memory as a DLPack capsule."},
    {"__dlpack_device__", device, METH_NOARGS, "(1, 0): the CPU."},
    {0}};
static PyGetSetDef attributes[] = {
    {"dtype", get_dtype, NULL, "The element type's name, such as \"f32\".", NULL},
    {"shape", get_shape, NULL, "The dims, a tuple.", NULL},
    {"ndim", get_ndim, NULL, "How many dims there are.", NULL},
    {"size", get_size, NULL, "How many elements there are.", NULL},
    {"nbytes", get_nbytes, NULL, "How many bytes the elements take.", NULL},
    {0}};
static const char doc[] =
    "A dense tensor. numpy.asarray, torch.from_dlpack and the like see it without a copy.";

PyTypeObject *array_make_type(core *c, PyObject *module) {
  PyType_Slot slots[] = {{Py_tp_dealloc, (void *)dealloc},
                         {Py_tp_methods, methods},
                         {Py_tp_getset, attributes},
                         {Py_tp_doc, (void *)(uintptr_t)doc},
                         {Py_tp_richcompare, (void *)compare},
                         {Py_tp_repr, (void *)represent},
                         {Py_tp_str, (void *)as_text},
                         {Py_tp_getattro, (void *)attribute},
                         {Py_sq_length, (void *)length},
                         {Py_sq_item, (void *)row},
                         {Py_mp_ass_subscript, (void *)no_change},
                         {Py_nb_and, (void *)bits_and},
                         {Py_nb_or, (void *)bits_or},
                         {Py_nb_xor, (void *)bits_xor},
                         {Py_nb_lshift, (void *)shift_left},
                         {Py_nb_rshift, (void *)shift_right},
                         {Py_nb_positive, (void *)positive},
                         {Py_nb_invert, (void *)inverted},
                         {Py_mp_subscript, (void *)subscript},
                         {Py_nb_add, (void *)plus},
                         {Py_nb_subtract, (void *)minus},
                         {Py_nb_multiply, (void *)times},
                         {Py_nb_true_divide, (void *)over},
                         {Py_nb_floor_divide, (void *)floor_over},
                         {Py_nb_remainder, (void *)modulo},
                         {Py_nb_matrix_multiply, (void *)matmul},
                         {Py_nb_power, (void *)power},
                         {Py_nb_negative, (void *)negative},
                         {Py_nb_absolute, (void *)absolute},
                         {Py_nb_float, (void *)as_float},
                         {Py_nb_int, (void *)as_int},
                         {Py_nb_index, (void *)as_index},
                         {Py_nb_bool, (void *)as_bool},
                         {Py_bf_getbuffer, (void *)get_buffer},
                         {0, NULL}};
  PyType_Spec spec = {.name = "anfora._core.Array",
                      .basicsize = (int)offsetof(array, extent),
                      .itemsize = sizeof(Py_ssize_t),
                      .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE |
                               Py_TPFLAGS_DISALLOW_INSTANTIATION,
                      .slots = slots};
  return c->array_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
