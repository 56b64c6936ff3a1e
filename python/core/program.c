// SPDX-License-Identifier: Apache-2.0
/* Programs, functions compiled from them, and functions that they return.
 *   p = Program(text, name); e = p.compile("f", ["f32[2]"], "llvm", ..); e.run(x)   ->   f(x)
 * Everything here uses the context, so it takes the lock. */
#include "core.h"

static void freed(PyObject *self) {
  PyTypeObject *t = Py_TYPE(self);
  ((freefunc)PyType_GetSlot(t, Py_tp_free))(self);
  Py_DECREF(t);
}

/* ---- places: (line, column) of the program's text to (file, line, column) of Python's ---- */

bool places_of(PyObject *list, const char *marks, Py_ssize_t bytes, places *p) {
  Py_ssize_t n = list ? PyList_Size(list) : 0;
  *p = (places){(const place *)(const void *)marks, (size_t)bytes / sizeof(place), NULL};
  p->file = (const char **)calloc((size_t)n + 1, sizeof *p->file);
  if (!p->file) return PyErr_NoMemory(), false;
  for (Py_ssize_t i = 0; i < n; i++)
    if (!(p->file[i] = PyUnicode_AsUTF8AndSize(PyList_GetItem(list, i), NULL))) return false;
  for (size_t i = 0; i < p->n; i++)
    if (p->at[i].file < 0 || p->at[i].file >= n)
      return PyErr_SetString(PyExc_ValueError, "a mark names a file that is not there"), false;
  return true;
}

void places_free(places *p) { free(p->file); }

/* The last mark at or before the place, in the same line. */
static const place *find_place(const places *p, uint32_t line, uint32_t col) {
  size_t lo = 0, hi = p->n;
  while (lo < hi) {
    size_t mid = lo + (hi - lo) / 2;
    const place *x = &p->at[mid];
    if (x->line < line || (x->line == line && x->col <= col)) lo = mid + 1;
    else hi = mid;
  }
  return lo && p->at[lo - 1].line == line ? &p->at[lo - 1] : NULL;
}

static void set_places(anf_module *m, const places *p) {
  for (size_t i = 0; i < anf_module_node_limit(m); i++) {
    anf_node *n = anf_module_node(m, i);
    const place *x =
        n && anf_node_line(n) ? find_place(p, anf_node_line(n), anf_node_col(n)) : NULL;
    if (x) anf_node_set_loc(n, p->file[x->file], x->to_line, x->to_col);
  }
}

/* ---- dumps ---- */

/* The folder of ANFORA_DUMP for the stages of programs, or NULL. Used by the thread that has the context. */
static anf_dump *dump_now(void) {
  static anf_dump dump;
  dump.folder = getenv("ANFORA_DUMP");
  return dump.folder && *dump.folder ? &dump : NULL;
}

/* A folder that cannot be written to is found here, before any pass. */
static anf_status dump_parsed(anf_ctx *cx, anf_module *m, anf_diag *d) {
  anf_dump *dump = dump_now();
  if (!dump) return ANF_OK;
  dump->status = ANF_OK;
  dump->diag = d;
  anf_dump_stage(dump, cx, "parse", m, NULL);
  dump->diag = NULL;
  return dump->status;
}

/* ---- programs ---- */

anf_status program_parse(anf_ctx *cx, const char *text, size_t n, const char *name, const places *p,
                         anf_diag *d, anf_module **m) {
  anf_status st = anf_parse_n(cx, text, n, name, d, m);
  if (st == ANF_OK) set_places(*m, p);
  return st;
}

static anf_status parse(core *c, const char *text, size_t n, const char *name, const places *p,
                        anf_diag **d, anf_module **m) {
  PyThreadState *ts = core_enter(c);
  *d = anf_diag_new(c->cx);
  anf_status st = *d ? program_parse(c->cx, text, n, name, p, *d, m) : ANF_NOMEM;
  if (st == ANF_OK) st = dump_parsed(c->cx, *m, *d);
  if (st == ANF_OK) anf_diag_free(*d);
  core_leave(c, ts);
  return st;
}

static PyObject *program_new(PyTypeObject *type, PyObject *args, PyObject *kw) {
  PyObject *module = PyType_GetModule(type), *files = NULL, *r = NULL;
  const char *text, *name, *marks = NULL;
  Py_ssize_t n, bytes = 0;
  (void)kw;
  if (!module ||
      !PyArg_ParseTuple(args, "s#s|y#O!", &text, &n, &name, &marks, &bytes, &PyList_Type, &files))
    return NULL;
  core *c = core_of(module);
  anf_module *m = NULL;
  anf_diag *d = NULL;
  places p;
  if (places_of(files, marks, bytes, &p)) {
    anf_status st = parse(c, text, (size_t)n, name, &p, &d, &m);
    r = st == ANF_OK ? PyType_GenericAlloc(type, 0) : core_raise(c, st, d);
    if (!r && m) core_free_later(c, (void (*)(void *))anf_module_free, m);
  }
  places_free(&p);
  if (!r) return NULL;
  ((program *)r)->c = c;
  ((program *)r)->m = m;
  return r;
}

static anf_status load(core *c, const char *path, const char *imports, anf_diag **d,
                       anf_module **m) {
  PyThreadState *ts = core_enter(c);
  *d = anf_diag_new(c->cx);
  anf_status st = *d ? ANF_OK : ANF_NOMEM;
  if (st == ANF_OK && imports) st = anf_allow_imports(c->cx, imports, *d);
  if (st == ANF_OK) st = anf_load(c->cx, path, *d, m);
  if (st == ANF_OK) st = dump_parsed(c->cx, *m, *d);
  core_leave(c, ts);
  return st;
}

/* Findings about a file that was read, as Python's warnings. False: one is an error for this program. */
static bool warned(const anf_diag *d, const char *of) {
  bool good = true;
  for (size_t i = 0; good && i < anf_diag_count(d); i++) {
    const anf_diag_item *w = anf_diag_at(d, i);
    if (w->severity == ANF_WARNING)
      good = PyErr_WarnFormat(PyExc_UserWarning, 1, "%s: %s: %s", of, w->code, w->message) == 0;
  }
  return good;
}

/* Findings about a function that was compiled: [(code, message)]. */
static PyObject *said(const anf_diag *d) {
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < anf_diag_count(d); i++) {
    const anf_diag_item *w = anf_diag_at(d, i);
    PyObject *x = w->severity == ANF_WARNING ? Py_BuildValue("(ss)", w->code, w->message) : NULL;
    if (w->severity == ANF_WARNING && (!x || PyList_Append(list, x) < 0)) Py_CLEAR(list);
    Py_XDECREF(x);
  }
  return list;
}

/* Program.read(path, imports=None): of any format that anf_load knows */
static PyObject *program_read(PyObject *type, PyObject *args) {
  PyObject *module = PyType_GetModule((PyTypeObject *)type), *r = NULL;
  const char *path, *imports = NULL;
  if (!module || !PyArg_ParseTuple(args, "s|z", &path, &imports)) return NULL;
  core *c = core_of(module);
  anf_module *m = NULL;
  anf_diag *d = NULL;
  anf_status st = load(c, path, imports, &d, &m);
  if (st != ANF_OK) r = core_raise(c, st, d);
  else if (warned(d, path)) r = PyType_GenericAlloc((PyTypeObject *)type, 0);
  if (st == ANF_OK) core_free_later(c, (void (*)(void *))anf_diag_free, d);
  if (!r && m) core_free_later(c, (void (*)(void *))anf_module_free, m);
  if (!r) return NULL;
  ((program *)r)->c = c;
  ((program *)r)->m = m;
  return r;
}

/* ---- the functions of a program ---- */

/* The addresses of graphs that capture, which cannot be called from outside; and whether the program prints. */
static PyObject *captures_of(const anf_module *m, bool *prints) {
  PyObject *set = PySet_New(NULL);
  for (size_t i = 0; set && i < anf_module_node_limit(m); i++) {
    const anf_node *n = anf_module_node(m, i);
    if (!n) continue;
    const anf_graph *g = anf_node_graph(n);
    *prints |= anf_node_op(n) && strcmp(anf_node_op(n), "Print") == 0;
    bool captures = false;
    for (size_t k = 0; k < anf_node_input_count(n); k++) {
      const anf_graph *of = anf_node_graph(anf_node_input(n, k));
      captures |= of && of != g;
    }
    PyObject *at = captures ? PyLong_FromVoidPtr((void *)(uintptr_t)g) : NULL;
    if (captures && (!at || PySet_Add(set, at) < 0)) Py_CLEAR(set);
    Py_XDECREF(at);
  }
  return set;
}

/* [(name, type or None)] of the parameters; a type is the text that the language has for it. */
static PyObject *parameters_of(core *c, const anf_graph *g) {
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < anf_graph_param_count(g); i++) {
    const anf_node *p = anf_graph_param(g, i);
    anf_text t = {c->cx, NULL, 0, 0};
    bool typed = anf_node_type(p) && anf_type_print(c->cx, anf_node_type(p), &t) == ANF_OK;
    PyObject *one = Py_BuildValue("sz", anf_node_name(p), typed ? t.text : NULL);
    anf_text_free(&t);
    if (!one || PyList_Append(list, one) < 0) Py_CLEAR(list);
    Py_XDECREF(one);
  }
  return list;
}

static bool add_function(core *c, PyObject *list, const anf_graph *g) {
  PyObject *params = parameters_of(c, g);
  PyObject *one = params ? Py_BuildValue("sO", anf_graph_name(g), params) : NULL;
  bool good = one && PyList_Append(list, one) == 0;
  Py_XDECREF(params);
  Py_XDECREF(one);
  return good;
}

/* functions(): ([(name, parameters)] of the functions that capture nothing, whether the program prints) */
static PyObject *program_functions(PyObject *self, PyObject *none) {
  program *p = (program *)self;
  bool prints = false, good = true;
  (void)none;
  PyEval_RestoreThread(core_enter(p->c));
  PyObject *list = PyList_New(0), *closed = captures_of(p->m, &prints);
  for (size_t i = 0; list && closed && good && i < anf_module_graph_count(p->m); i++) {
    const anf_graph *g = anf_module_graph(p->m, i);
    PyObject *at = PyLong_FromVoidPtr((void *)(uintptr_t)g);
    bool found =
        at && PySet_Contains(closed, at) == 0 && anf_module_find(p->m, anf_graph_name(g)) == g;
    good = at && (!found || add_function(p->c, list, g));
    Py_XDECREF(at);
  }
  core_leave(p->c, PyEval_SaveThread());
  PyObject *r =
      list && closed && good ? Py_BuildValue("OO", list, prints ? Py_True : Py_False) : NULL;
  Py_XDECREF(list);
  Py_XDECREF(closed);
  return r;
}

static void program_dealloc(PyObject *self) {
  program *p = (program *)self;
  if (p->m) core_free_later(p->c, (void (*)(void *))anf_module_free, p->m);
  freed(self);
}

/* ---- printing ---- */

static anf_status print_as(program *p, const char *form, anf_text *out) {
  anf_view_opts o = {.size = sizeof o};
  if (strcmp(form, "ir") == 0) return anf_print_ir(p->m, out);
  if (strcmp(form, "dat") == 0) return anf_write_dat(p->m, out);
  if (strcmp(form, "dot") == 0) return anf_write_dot(p->m, &o, out);
  return anf_write_html(p->m, &o, out);
}

typedef PyObject *maker(const char *text, Py_ssize_t n);

/* Takes the lock's end upon itself: the text is freed under it. */
static PyObject *out_as(maker *make, core *c, PyThreadState *ts, anf_status st, anf_diag *d,
                        anf_text *out) {
  size_t n = st == ANF_OK ? out->len : 0;
  char *copy = (char *)malloc(n + 1);
  if (copy && n) memcpy(copy, out->text, n);
  anf_text_free(out);
  if (st == ANF_OK) anf_diag_free(d);
  core_leave(c, ts);
  PyObject *r = st != ANF_OK ? core_raise(c, st, d)
                : copy       ? make(copy, (Py_ssize_t)n)
                             : PyErr_NoMemory();
  free(copy);
  return r;
}

static PyObject *text_out(core *c, PyThreadState *ts, anf_status st, anf_diag *d, anf_text *out) {
  return out_as(PyUnicode_FromStringAndSize, c, ts, st, d, out);
}

static PyObject *program_print(PyObject *self, PyObject *args) {
  program *p = (program *)self;
  const char *form;
  if (!PyArg_ParseTuple(args, "s", &form)) return NULL;
  PyThreadState *ts = core_enter(p->c);
  anf_text out = {p->c->cx, NULL, 0, 0};
  anf_diag *d = anf_diag_new(p->c->cx);
  return text_out(p->c, ts, d ? print_as(p, form, &out) : ANF_NOMEM, d, &out);
}

/* Types from texts, in the context. */
static anf_status read_types(core *c, const char **text, size_t n, const anf_type **t,
                             anf_diag *d) {
  anf_status st = d ? ANF_OK : ANF_NOMEM;
  for (size_t i = 0; i < n && st == ANF_OK; i++) st = anf_parse_type(c->cx, text[i], d, &t[i]);
  return st;
}

void texts_free(texts *t) {
  free(t->text);
  free(t->type);
}

bool texts_of(PyObject *list, texts *t) {
  Py_ssize_t n = PyList_Size(list);
  if (n < 0) return false;
  *t = (texts){.n = (size_t)n};
  t->text = (const char **)calloc((size_t)n + 1, sizeof *t->text);
  t->type = (const anf_type **)calloc((size_t)n + 1, sizeof *t->type);
  if (!t->text || !t->type) return PyErr_NoMemory(), false;
  for (Py_ssize_t i = 0; i < n; i++)
    if (!(t->text[i] = PyUnicode_AsUTF8AndSize(PyList_GetItem(list, i), NULL))) return false;
  return true;
}

/* ---- options ---- */

static bool read_opts(PyObject *args, anf_exec_opts *o, PyObject **list, const char **name,
                      const char **form) {
  const char *backend = "llvm";
  int fast = 0, parallel = 0, tune = 0;
  if (!PyArg_ParseTuple(args, "sOsppp|s", name, list, &backend, &fast, &parallel, &tune, form))
    return false;
  *o = (anf_exec_opts){
      .size = sizeof *o, .fast = fast != 0, .parallel = parallel != 0, .tune = tune != 0};
  anf_dump *dump = dump_now();
  if (dump) o->stage = anf_dump_stage, o->stage_user = dump;
  if (anf_jit_kind_of(backend, &o->kind)) return true;
  PyErr_Format(PyExc_ValueError, "there is no backend \"%s\": llvm, cjit or interp", backend);
  return false;
}

static anf_graph *graph_of(program *p, const char *name) {
  anf_graph *g = anf_module_find(p->m, name);
  if (!g) PyErr_Format(PyExc_ValueError, "the program has no function %s", name);
  return g;
}

/* lowered(name, types, backend, fast, parallel, tune, form) */
static PyObject *program_lowered(PyObject *self, PyObject *args) {
  program *p = (program *)self;
  anf_exec_opts o;
  PyObject *list, *r = NULL;
  const char *name, *form = "tir";
  texts t = {0};
  if (!read_opts(args, &o, &list, &name, &form)) return NULL;
  if (texts_of(list, &t)) {
    PyThreadState *ts = core_enter(p->c);
    anf_text out = {p->c->cx, NULL, 0, 0};
    anf_diag *d = anf_diag_new(p->c->cx);
    anf_graph *g = anf_module_find(p->m, name);
    anf_status st = g ? read_types(p->c, t.text, t.n, t.type, d) : ANF_INVALID;
    if (st == ANF_OK) o.engine = core_engine(p->c, o.kind, d, &st);
    if (st == ANF_OK) st = anf_lowered_print(g, t.n, t.type, form, &o, d, &out);
    r = text_out(p->c, ts, st, d, &out);
  }
  texts_free(&t);
  return r;
}

/* ---- models ---- */

/* model(name, types, form): bytes of a file */
static PyObject *program_model(PyObject *self, PyObject *args) {
  program *p = (program *)self;
  PyObject *list, *r = NULL;
  const char *name, *form;
  texts t = {0};
  if (!PyArg_ParseTuple(args, "sOs", &name, &list, &form)) return NULL;
  bool onnx = strcmp(form, "onnx") == 0;
  if (!onnx && strcmp(form, "mindir") != 0)
    return PyErr_Format(PyExc_ValueError, "there is no form %s of models", form);
  anf_graph *g = graph_of(p, name);
  if (g && texts_of(list, &t)) {
    PyThreadState *ts = core_enter(p->c);
    anf_text out = {p->c->cx, NULL, 0, 0};
    anf_diag *d = anf_diag_new(p->c->cx);
    anf_status st = read_types(p->c, t.text, t.n, t.type, d);
    if (st == ANF_OK) st = (onnx ? anf_write_onnx : anf_write_mindir)(g, t.n, t.type, d, &out);
    r = out_as(PyBytes_FromStringAndSize, p->c, ts, st, d, &out);
  }
  texts_free(&t);
  return r;
}

/* ---- compiled functions ---- */

typedef struct fixed_argument {
  size_t at;
  anf_value *value;
} fixed_argument;

typedef struct fixing {
  size_t n;
  fixed_argument *at;
} fixing;

static void fixing_free(fixing *f) {
  for (size_t i = 0; i < f->n; i++) anf_value_release(f->at[i].value);
  free(f->at);
}

/* Of a list of (position, value), which may be NULL. With the GIL, the context entered. */
static bool fixing_of(core *c, PyObject *list, fixing *f) {
  Py_ssize_t n = list ? PyList_Size(list) : 0;
  f->at = (fixed_argument *)calloc((size_t)n + 1, sizeof *f->at);
  if (!f->at) return PyErr_NoMemory(), false;
  for (Py_ssize_t i = 0; i < n; i++) {
    Py_ssize_t at;
    PyObject *x;
    if (!PyArg_ParseTuple(PyList_GetItem(list, i), "nO", &at, &x)) return false;
    if (!(f->at[i].value = value_of(c, x))) return false;
    f->at[f->n++].at = (size_t)at;
  }
  return true;
}

typedef struct making {
  anf_graph *g;
  anf_exec_opts o;
  texts types;
  fixing fixed;
  bool later; // compiled when it is run
  exec *r;    // what is made; its e is there if it is shared
} making;

static anf_status make_exec(program *p, making *k, anf_diag *d) {
  texts *t = &k->types;
  anf_exec **e = &k->r->e;
  anf_status st = read_types(p->c, t->text, t->n, t->type, d);
  if (st == ANF_OK && !k->r->root) {
    k->o.engine = core_engine(p->c, k->o.kind, d, &st);
    if (st == ANF_OK) st = anf_compile(k->g, &k->o, d, e);
    for (size_t i = 0; st == ANF_OK && i < k->fixed.n; i++)
      st = anf_exec_fix(*e, k->fixed.at[i].at, k->fixed.at[i].value, d);
  }
  if (st == ANF_OK && !k->later) st = anf_exec_prepare(*e, t->n, t->type, d);
  return st;
}

/* What was compiled last, as others may compile for other types afterwards. With the GIL, the context entered. */
static bool take_compiled(exec *r) {
  const anf_type *t = anf_exec_result_type(r->e);
  r->f = anf_jit_function_retain(anf_exec_function(r->e));
  return !t || (r->result = type_to(t, r->c->cx));
}

/* The type of the result; of code that is made for each call's types, of the last one: None if it holds functions. With
 * the GIL, the context entered. */
static PyObject *result_type(const exec *e) {
  if (e->result) return Py_NewRef(e->result);
  const anf_type *t = e->f ? NULL : anf_exec_result_type(e->e);
  return t ? type_to(t, e->c->cx) : Py_NewRef(Py_None);
}

/* The exception is set if it is false. */
static bool compile_now(program *p, making *k, PyObject *fixed) {
  PyEval_RestoreThread(core_enter(p->c));
  bool good = k->r->root || fixing_of(p->c, fixed, &k->fixed);
  PyThreadState *ts = PyEval_SaveThread();
  anf_diag *d = good ? anf_diag_new(p->c->cx) : NULL;
  anf_status st = good ? make_exec(p, k, d) : ANF_INVALID;
  fixing_free(&k->fixed);
  PyEval_RestoreThread(ts);
  if (st == ANF_OK && !k->later) good = take_compiled(k->r);
  core_leave(p->c, PyEval_SaveThread());
  if (!good && st == ANF_OK) core_free_later(p->c, (void (*)(void *))anf_diag_free, d);
  if (!good) return false;
  if (st != ANF_OK) return core_raise(p->c, st, d), false;
  k->r->said = said(d);
  core_free_later(p->c, (void (*)(void *))anf_diag_free, d);
  return k->r->said != NULL;
}

/* The options that not all calls have: [(position, value)], after how many sizes of a batch any size is run, whether
 * that alone is allowed, whose code is shared, after how many sizes calls are interpreted. */
static bool read_rest(program *p, PyObject *args, making *k, PyObject **fixed, PyObject **root) {
  PyObject *rest = PyTuple_GetSlice(args, 6, PyTuple_Size(args));
  int after = 0, only = 0, interpret_after = 0;
  *fixed = *root = NULL;
  bool good =
      rest && PyArg_ParseTuple(rest, "|OipOi", fixed, &after, &only, root, &interpret_after);
  Py_XDECREF(rest);
  k->o.any_size_after = (uint32_t)after;
  k->o.any_size_only = only != 0;
  k->o.interpret_after = (uint32_t)interpret_after;
  if (*root == Py_None) *root = NULL;
  if (good && *root && !Py_IS_TYPE(*root, p->c->exec_type))
    return PyErr_SetString(PyExc_TypeError, "not compiled code"), false;
  return good;
}

/* compile(name, types, backend, fast, parallel, tune, ..): for these types now; types None: when it is run. */
static PyObject *program_compile(PyObject *self, PyObject *args) {
  program *p = (program *)self;
  PyObject *list, *fixed, *root, *head = PyTuple_GetSlice(args, 0, 6);
  const char *name, *form;
  making k = {.later = PyTuple_Size(args) > 1 && PyTuple_GetItem(args, 1) == Py_None};
  bool read =
      head && read_opts(head, &k.o, &list, &name, &form) && read_rest(p, args, &k, &fixed, &root);
  Py_XDECREF(head);
  if (!read || !(k.g = graph_of(p, name))) return NULL;
  if (k.later || texts_of(list, &k.types)) k.r = (exec *)PyType_GenericAlloc(p->c->exec_type, 0);
  if (k.r) {
    k.r->c = p->c;
    k.r->g = k.g;
    k.r->program = Py_NewRef(self);
    k.r->root = Py_XNewRef(root);
    if (root) k.r->e = ((exec *)root)->e;
    if (!compile_now(p, &k, fixed)) Py_CLEAR(k.r);
  }
  texts_free(&k.types);
  return (PyObject *)k.r;
}

static PyMethodDef program_methods[] = {
    {"print", program_print, METH_VARARGS, "The program as ir, dat, dot or html."},
    {"lowered", program_lowered, METH_VARARGS, "A function as tir, llvm, asm or c."},
    {"model", program_model, METH_VARARGS, "A function as the bytes of an .onnx or .mindir file."},
    {"compile", program_compile, METH_VARARGS, "A function compiled for types."},
    {"read", program_read, METH_VARARGS | METH_CLASS, "A program of a file."},
    {"functions", program_functions, METH_NOARGS, "The functions that can be called from outside."},
    {0}};

PyTypeObject *program_make_type(core *c, PyObject *module) {
  PyType_Slot slots[] = {{Py_tp_new, (void *)program_new},
                         {Py_tp_dealloc, (void *)program_dealloc},
                         {Py_tp_methods, program_methods},
                         {0, NULL}};
  return c->program_type =
             core_make_type(module, "anfora._core.Program", sizeof(program), 0, slots);
}

static void exec_dealloc(PyObject *self) {
  exec *e = (exec *)self;
  anf_jit_function_free(e->f);
  if (e->e && !e->root) core_free_later(e->c, (void (*)(void *))anf_exec_free, e->e);
  Py_XDECREF(e->result);
  Py_XDECREF(e->said);
  Py_XDECREF(e->root);
  Py_XDECREF(e->program); // freed after, in order
  freed(self);
}

static PyObject *exec_result(PyObject *self, void *none) {
  exec *e = (exec *)self;
  (void)none;
  PyEval_RestoreThread(core_enter(e->c));
  PyObject *r = result_type(e);
  core_leave(e->c, PyEval_SaveThread());
  return r;
}

static PyObject *exec_said(PyObject *self, void *none) {
  (void)none;
  return Py_NewRef(((exec *)self)->said);
}

static PyObject *exec_ms(PyObject *self, void *none) {
  (void)none;
  return PyFloat_FromDouble(anf_exec_compile_ms(((exec *)self)->e));
}

static PyObject *exec_interpreted(PyObject *self, void *none) {
  (void)none;
  return PyLong_FromSize_t(anf_exec_interpreted(((exec *)self)->e));
}

/* ---- calls with values ---- */

static void print(void *user, const char *text, size_t n) {
  core *c = (core *)user;
  PyGILState_STATE g = PyGILState_Ensure();
  PyObject *r = PyObject_CallFunction(c->write, "s#", text, (Py_ssize_t)n);
  if (!r) PyErr_WriteUnraisable(c->write);
  Py_XDECREF(r);
  PyGILState_Release(g);
}

typedef anf_status runner(void *what, size_t n, anf_value *const *args, const anf_run_opts *o,
                          anf_diag *d, anf_value **result);

static anf_status run_exec(void *what, size_t n, anf_value *const *args, const anf_run_opts *o,
                           anf_diag *d, anf_value **result) {
  return anf_exec_run((anf_exec *)what, n, args, o, d, result);
}

/* For the first NaN; the result is none of the program's. */
static anf_status run_checked(void *what, size_t n, anf_value *const *args, const anf_run_opts *o,
                              anf_diag *d, anf_value **result) {
  (void)o;
  *result = NULL;
  return anf_check_nan((anf_graph *)what, n, args, d);
}

static anf_status run_interpreted(void *what, size_t n, anf_value *const *args,
                                  const anf_run_opts *o, anf_diag *d, anf_value **result) {
  return anf_run((anf_graph *)what, n, args, o, d, result);
}

typedef struct closure {
  core *c;
  anf_value *v;
} closure;

static anf_status run_fn(void *what, size_t n, anf_value *const *args, const anf_run_opts *o,
                         anf_diag *d, anf_value **result) {
  closure *f = (closure *)what;
  anf_exec *e = NULL;
  anf_status st;
  anf_exec_opts eo = {.size = sizeof eo, .engine = core_engine(f->c, ANF_JIT_LLVM, d, &st)};
  if (st == ANF_OK) st = anf_compile_value(f->c->cx, f->v, &eo, d, &e);
  if (st == ANF_OK) st = anf_exec_run(e, n, args, o, d, result);
  anf_exec_free(e);
  return st;
}

/* The type of what the interpreter gave. */
static PyObject *value_type(core *c, anf_value *v) {
  const anf_type *t = anf_value_type(c->cx, v);
  return t ? type_to(t, c->cx) : Py_NewRef(Py_None);
}

/* A result and, with `typed`, its type, (value, type): of this call, as another thread's may follow when the lock is let go. */
static PyObject *given_result(core *c, anf_value *result, PyObject *from, const exec *typed,
                              bool interpreted) {
  PyObject *r = result ? value_to(c, result, from) : Py_NewRef(Py_None);
  if (!r || !typed) return r;
  PyObject *t = interpreted ? value_type(c, result) : result_type(typed);
  PyObject *pair = t ? PyTuple_Pack(2, r, t) : NULL;
  Py_XDECREF(t);
  Py_DECREF(r);
  return pair;
}

/* The arguments, a tuple of what value_of takes. The lock is held with the GIL while values are made:
 * whoever waits for it has let go of the GIL. */
static PyObject *run_once(core *c, runner *f, void *what, PyObject *args, PyObject *from,
                          const exec *typed, bool *stopped) {
  Py_ssize_t n = PyTuple_Size(args), done = 0;
  if (n < 0) return NULL;
  anf_value **v = (anf_value **)calloc((size_t)n + 1, sizeof *v), *result = NULL;
  if (!v) return PyErr_NoMemory();
  PyEval_RestoreThread(core_enter(c));
  anf_diag *d = anf_diag_new(c->cx);
  PyObject *r = NULL;
  bool good = d != NULL;
  while (good && done < n) good = (v[done] = value_of(c, PyTuple_GetItem(args, done))) && ++done;
  if (good) {
    anf_run_opts o = {.size = sizeof o, .print = print, .print_user = c};
    PyThreadState *ts = PyEval_SaveThread();
    core_call outer = core_begin(NULL, c->cx);
    anf_status st = f(what, (size_t)n, v, &o, d, &result);
    core_end(outer);
    PyEval_RestoreThread(ts);
    *stopped = core_interrupted(outer, st);
    if (st == ANF_OK) r = given_result(c, result, from, typed, f == run_interpreted);
    else if (!*stopped) r = core_raise(c, st, d), d = NULL;
  }
  for (Py_ssize_t i = 0; i < done; i++) anf_value_release(v[i]);
  anf_value_release(result);
  if (d) anf_diag_free(d);
  core_leave(c, PyEval_SaveThread());
  free(v);
  return r;
}

/* Again, if a signal stopped it whose handler raises nothing. */
static PyObject *run(core *c, runner *f, void *what, PyObject *args, PyObject *from,
                     const exec *typed) {
  bool stopped = false;
  PyObject *r = run_once(c, f, what, args, from, typed, &stopped);
  while (stopped && PyErr_CheckSignals() == 0) {
    stopped = false;
    r = run_once(c, f, what, args, from, typed, &stopped);
  }
  return r;
}

static PyObject *exec_run(PyObject *self, PyObject *args) {
  exec *e = (exec *)self;
  return run(e->c, run_exec, e->e, args, e->program, e);
}

static PyObject *exec_interpret(PyObject *self, PyObject *args) {
  exec *e = (exec *)self;
  return run(e->c, run_interpreted, e->g, args, e->program, e);
}

static PyObject *exec_check_nan(PyObject *self, PyObject *args) {
  exec *e = (exec *)self;
  return run(e->c, run_checked, e->g, args, e->program, NULL);
}

static PyObject *fn_run(PyObject *self, PyObject *args) {
  fn *f = (fn *)self;
  closure k = {f->c, f->v};
  return run(f->c, run_fn, &k, args, f->program, NULL);
}

/* explain(): how often it was compiled, and why each time */
static PyObject *exec_explain(PyObject *self, PyObject *none) {
  exec *e = (exec *)self;
  (void)none;
  PyThreadState *ts = core_enter(e->c);
  anf_text out = {e->c->cx, NULL, 0, 0};
  size_t n = anf_exec_compilations(e->e);
  anf_diag *d = anf_diag_new(e->c->cx);
  PyObject *r = text_out(e->c, ts, d ? anf_exec_explain(e->e, &out) : ANF_NOMEM, d, &out);
  return r ? Py_BuildValue("nN", (Py_ssize_t)n, r) : NULL;
}

static PyMethodDef exec_methods[] = {
    {"explain", exec_explain, METH_NOARGS, "How often it was compiled, and why each time."},
    {"check_nan", exec_check_nan, METH_VARARGS, "Fails where the first NaN is made, interpreted."},
    {"interpret", exec_interpret, METH_VARARGS,
     "As run, by the interpreter, without types found before."},
    {"run", exec_run, METH_VARARGS,
     "(result, its type), with values of the context: slow, and able to do all."},
    {0}};
static PyGetSetDef exec_attributes[] = {
    {"result", exec_result, NULL, "The type of the result, None if it holds functions.", NULL},
    {"said", exec_said, NULL, "The warnings of compiling it: [(code, message)].", NULL},
    {"compile_ms", exec_ms, NULL, "How long compiling took.", NULL},
    {"interpreted", exec_interpreted, NULL, "How many calls were interpreted.", NULL},
    {0}};

PyTypeObject *exec_make_type(core *c, PyObject *module) {
  PyType_Slot slots[] = {{Py_tp_dealloc, (void *)exec_dealloc},
                         {Py_tp_methods, exec_methods},
                         {Py_tp_getset, exec_attributes},
                         {0, NULL}};
  return c->exec_type = core_make_type(module, "anfora._core.Exec", sizeof(exec),
                                       Py_TPFLAGS_DISALLOW_INSTANTIATION, slots);
}

/* ---- functions that programs return ---- */

static void fn_dealloc(PyObject *self) {
  fn *f = (fn *)self;
  if (f->v) core_free_later(f->c, (void (*)(void *))anf_value_release, f->v);
  Py_XDECREF(f->program);
  freed(self);
}

static PyMethodDef fn_methods[] = {{"run", fn_run, METH_VARARGS, "Calls the function."}, {0}};

PyTypeObject *fn_make_type(core *c, PyObject *module) {
  PyType_Slot slots[] = {
      {Py_tp_dealloc, (void *)fn_dealloc}, {Py_tp_methods, fn_methods}, {0, NULL}};
  return c->fn_type = core_make_type(module, "anfora._core.Fn", sizeof(fn),
                                     Py_TPFLAGS_DISALLOW_INSTANTIATION, slots);
}
