// SPDX-License-Identifier: Apache-2.0
/* The Python extension anfora._core, in the limited API of Python 3.11.
 *
 * All state is of the module: one context, whose lock `cx_lock` says who may use it. Whoever waits for
 * the lock has let go of the GIL before, and takes the GIL again only after it has the lock, or for a
 * moment while a program prints; so the two cannot wait for each other. What must free something of the
 * context puts it on a list that the next holder of the lock empties. */
#ifndef ANFORA_PYTHON_CORE_H
#define ANFORA_PYTHON_CORE_H

#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030b0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "anfora/anfora.h"
#include "anfora/rt_abi.h"

typedef struct garbage {
  struct garbage *next;
  void (*fn)(void *);
  void *what;
} garbage;

/* Freed memory of large arrays, the oldest first. */
enum { CORE_ALIGN = 64, CORE_KEPT = 4 };
typedef struct core_block {
  void *at;
  size_t bytes;
} core_block;
typedef struct core_kept {
  core_block block[CORE_KEPT];
  size_t n, bytes;
} core_kept;

typedef struct core {
  /* the context, which one thread has at a time */
  anf_ctx *cx;
  PyThread_type_lock cx_lock, garbage_lock;
  _Atomic unsigned long owner; // the thread that has cx_lock, or 0
  unsigned nested;             // calls of its that were made within one: by a generator
  garbage *garbage;
  /* engines and types */
  anf_jit_engine *engine[ANF_JIT_KIND_COUNT]; // made at first use
  PyObject *error;                            // exception: (status, findings)
  PyTypeObject *array_type, *program_type, *exec_type, *plan_type, *fn_type, *callable_type;
  PyTypeObject *step_type, *comm_type;
  /* hooks and constants */
  PyObject *children; // hook: an object's parts, or None if it is one static thing
  PyObject *write;    // hook: what programs print
  PyObject *operate;  // hook: (name of an operation, arguments)
  PyObject *s_dlpack, *s_compile, *s_bind, *s_failed, *s_max_version, *no_args, *max_version;
  core_kept kept; // whoever has the GIL
} core;

/* ---- core.c ---- */
core *core_of(PyObject *module);
/* Takes the context, letting go of the GIL; the GIL is not held after. A thread that has the context may take it again: a
 * generator is called within a call, and makes programs. */
PyThreadState *core_enter(core *c);
void core_leave(core *c, PyThreadState *ts);
/* Frees once the context is entered. */
void core_free_later(core *c, void (*fn)(void *), void *what);
/* The findings as an exception. Called with the GIL, by who may use the findings. */
void core_set_error(core *c, anf_status st, const anf_diag *d);
/* The findings as an exception; frees the list. Returns NULL. Called with the GIL, without the lock. */
PyObject *core_raise(core *c, anf_status st, anf_diag *d);
PyObject *core_no_memory(void);
/* A new type with Py_TPFLAGS_DEFAULT and `flags`; NULL with an exception. */
PyTypeObject *core_make_type(PyObject *module, const char *name, size_t bytes, unsigned long flags,
                             PyType_Slot *slots);
/* Of engines that are made: compiled code is kept in the user's folder (ANFORA_CACHE), whose name
 * `dir` holds. */
anf_status core_jit_options(anf_text *dir, anf_jit_opts *o);
anf_jit_engine *core_engine(core *c, anf_jit_kind k, anf_diag *d, anf_status *st);

/* ---- interrupt.c: Ctrl-C ends a call ---- */
typedef struct core_call {
  bool watched;
  anf_stream *stream; // of the call around this one
  anf_ctx *cx;
} core_call;
bool core_interrupts_start(void);
/* From here until core_end a signal stops the stream and the work of the context. Either may be NULL. */
core_call core_begin(anf_stream *s, anf_ctx *cx);
void core_end(core_call outer);
/* Did a signal stop the call that gave `st`? Then PyErr_CheckSignals, with the GIL and without the lock, calls the
 * host's handler; if that raises nothing, the call is to be made again. */
bool core_interrupted(core_call outer, anf_status st);

/* ---- memory.c: of arrays; called with the GIL ---- */
void *memory_new(core *c, size_t bytes); // NULL: there is none
void memory_free(core *c, void *p, size_t bytes);
void memory_drop(core *c); // what is kept

/* ---- array.c: tensors as Python has them ---- */
/* Of the host: dense, row-major, in memory of its own or of `owner`. */
typedef struct array {
  /* memory */
  PyObject_VAR_HEAD core *c;
  void *data;
  PyObject *owner;         // keeps the memory alive; NULL: it is the array's own
  void (*release)(void *); // how to let go of `lent`, or NULL
  void *lent;
  size_t bytes, size;
  /* type */
  anf_dtype dtype;
  int ndim;
  bool readonly, own;
  Py_ssize_t extent[1]; // dims, then strides in bytes, then small data
} array;
/* A new array; contents are not set. NULL with an exception. */
array *array_new(core *c, anf_dtype d, int ndim, const Py_ssize_t *dims);
/* A view of memory of something else, which `release(lent)` gives back. */
array *array_view(core *c, anf_dtype d, int ndim, const Py_ssize_t *dims, void *data, void *lent,
                  void (*release)(void *), bool readonly);
/* Any array as one of ours, without a copy if it is dense; NULL with an exception. */
array *array_of(core *c, PyObject *o);
PyObject *array_from_bytes(core *c, PyObject *args);
bool array_is_one(core *c, PyObject *o);
/* A rank-0 item as a Python number if Python has that type, else as an array. */
PyObject *array_number(core *c, anf_dtype d, const void *bits);
PyTypeObject *array_make_type(core *c, PyObject *module);

/* ---- dlpack.c ---- */
PyObject *dlpack_export(array *a, bool versioned);
array *dlpack_import(core *c, PyObject *o);
PyObject *dlpack_lend(PyObject *module, PyObject *tensor);
PyObject *dlpack_give(PyObject *module, PyObject *args);

/* ---- program.c: programs, and functions compiled from them ---- */
typedef struct program {
  PyObject_HEAD core *c;
  anf_module *m;
} program;
typedef struct exec {
  PyObject_HEAD core *c;
  PyObject *program;
  PyObject *root; // whose e this is, too; NULL: its own
  anf_graph *g;   // what was compiled
  anf_exec *e;
  anf_jit_function
      *f; // for the types that it was compiled for; NULL: none, or it is made when it runs
  PyObject *result; // the type of its result; NULL: that of the last run
  PyObject *said;   // of each warning of compiling it (code, message)
} exec;
/* A function that a program returned. */
typedef struct fn {
  PyObject_HEAD core *c;
  PyObject *program;
  anf_value *v;
} fn;
PyTypeObject *program_make_type(core *c, PyObject *module);
PyTypeObject *exec_make_type(core *c, PyObject *module);
PyTypeObject *fn_make_type(core *c, PyObject *module);

/* Links of a program to its Python source: places, (line, column) of its text to (file, line, column) of the
 * source; and lists of texts with room for the types that they are. */
typedef struct place {
  uint32_t line, col, to_line, to_col;
  int32_t file;
} place;
typedef struct places {
  const place *at;
  size_t n;
  const char **file; // borrowed from the list that Python gave
} places;
typedef struct texts {
  size_t n;
  const char **text;
  const anf_type **type;
} texts;
bool places_of(PyObject *files, const char *marks, Py_ssize_t bytes, places *p);
void places_free(places *p);
bool texts_of(PyObject *list, texts *t);
void texts_free(texts *t);
anf_status program_parse(anf_ctx *cx, const char *text, size_t n, const char *name, const places *p,
                         anf_diag *d, anf_module **m);

/* ---- generator.c ---- */
PyObject *generator_add(PyObject *module, PyObject *args);
/* host.c */
PyObject *op_add(PyObject *module, PyObject *args);
PyObject *op_type(PyObject *module, PyObject *args);

/* ---- step.c: training steps whose state stays where it is ---- */
PyTypeObject *stepper_make_type(core *c, PyObject *module);
PyObject *object_build(PyObject *module, PyObject *args);

/* ---- store.c: files of many arrays ---- */
PyObject *load_tensors(PyObject *module, PyObject *args);

/* ---- comm.c: ranks that exchange arrays ---- */
PyTypeObject *comm_make_type(core *c, PyObject *module);
PyObject *comm_threads(PyObject *module, PyObject *args);
PyObject *comm_area(PyObject *module, PyObject *args);
PyObject *comm_link(PyObject *module, PyObject *args);
/* The communicator of an object; NULL: it is None, or with an exception no communicator. */
anf_comm *comm_of(core *c, PyObject *o);

/* ---- value.c: values of the context and Python's objects. To Python with the GIL alone. ---- */
/* Both are called with the lock and the GIL. */
anf_value *value_of(core *c, PyObject *o);
PyObject *value_to(core *c, const anf_value *v, PyObject *program);
/* A type as nested tuples: ("f32", (2, 3)), ("tuple", (...)), ("record", names, (...)), (kind,). */
PyObject *type_to(const anf_type *t, const anf_ctx *cx);

/* ---- flat.c: arguments as a signature and slots ---- */
/* A word of a signature: a mark, and above it a number. TENSOR: element type and rank, then the dims.
 * DICT: how many keys, then these. OBJECT: how many parts, then the type. STATIC: the
 * object follows. */
enum { MARK_NONE = 1, MARK_TENSOR, MARK_TUPLE, MARK_LIST, MARK_DICT, MARK_OBJECT, MARK_STATIC };
enum { FLAT_WORDS = 96, FLAT_SLOTS = 24 };
typedef struct flat {
  /* vectors */
  core *c;
  uint64_t *sig;
  size_t nsig, capsig;
  anf_generic *slot;
  size_t n, capslot;
  PyObject **hold; // to be let go of after the call
  size_t nhold, caphold;
  /* their first memory */
  uint64_t sig0[FLAT_WORDS];
  anf_generic slot0[FLAT_SLOTS];
  PyObject *hold0[FLAT_SLOTS];
} flat;
void flat_start(flat *f, core *c);
bool flat_put(flat *f, PyObject *o);    // false with an exception
bool flat_static(flat *f, PyObject *o); // a thing that code is made for, known by its address
bool flat_room(flat *f, size_t slots);
void flat_end(flat *f);

/* ---- call.c: functions that Python calls ---- */
/* From code that holds no GIL: arguments are in the first n of plan_slots slots, results go to out(user, i). */
size_t plan_slots(const void *plan);
anf_status plan_run(const void *plan, size_t n, anf_generic *slot, size_t nout,
                    void *(*out)(void *user, size_t i), void *user);
PyObject *ffi_handler(PyObject *module, PyObject *args); // ffi.c: calls from XLA
PyTypeObject *plan_make_type(core *c, PyObject *module);
PyTypeObject *callable_make_type(core *c, PyObject *module);

#endif
