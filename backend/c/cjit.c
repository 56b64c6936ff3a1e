// SPDX-License-Identifier: Apache-2.0
/* The engine cjit: prints C, has the system's compiler make a shared object of it, and loads that.
 *   func f   ->   f_0wrapper and f in module.c   ->   cc -O2 .. -shared module.c -o module.so -lm   ->   dlopen
 * Code calls the run time through variables whose addresses are set after loading, so nothing depends on how the host
 * was linked. Files live in a folder of their own, which is removed when the object is loaded, unless debuggers want
 * them. */
#include "backend/c/c.h"

#include <stdlib.h>

typedef struct cjit_engine {
  anf_jit_engine e;
  char **argv; // the compiler's path and its fixed flags, NULL-terminated
  size_t nargv;
} cjit_engine;

typedef struct cjit_code {
  void *handle;
} cjit_code;

/* ---- the compiler ---- */

enum { MAX_ARGS = 128 };
typedef struct args {
  const char *at[MAX_ARGS + 1];
  size_t n;
} args;

static void add(args *a, const char *s) {
  if (a->n < MAX_ARGS) a->at[a->n++] = s;
}

static void add_words(anf_ctx *cx, args *a, const char *s) {
  while (*s) {
    size_t n = strcspn(s, " \t");
    if (n) add(a, anfi_strndup(anfi_scratch(cx), s, n));
    s += n + (s[n] != 0);
  }
}

/* A name that a message has room for */
static const char *in_short(anf_ctx *cx, const char *name) {
  enum { MOST = 80 };
  size_t n = 0;
  if (strlen(name) <= MOST) return name;
  for (size_t k; (k = anfi_utf8_len(name + n, MOST - n));) n += k;
  return anfi_sprintf(anfi_scratch(cx), "%.*s...", (int)n, name);
}

/* The option, CC, or the first of cc, gcc and clang that is there. One that somebody named must be there. */
static bool find_compiler(anf_ctx *cx, const char *option, args *a) {
  const char *env = getenv("CC"), *const tries[] = {option, env, "cc", "gcc", "clang"};
  for (size_t i = option ? 0 : 1; i < ANFI_LEN(tries); i++) {
    if (!tries[i] || !*tries[i]) continue;
    a->n = 0;
    add_words(cx, a, tries[i]);
    const char *path = a->n ? anfi_os_find_program(anfi_scratch(cx), a->at[0]) : NULL;
    if (path) return a->at[0] = path, true;
    if (i > 1) continue;
    anfi_fail(cx, anfi_nowhere(), ANF_E0941, in_short(cx, a->n ? a->at[0] : tries[i]));
    return anfi_hint(cx, i ? "the environment variable CC names it" : "the option cc names it"),
           false;
  }
  return anfi_fail(cx, anfi_nowhere(), ANF_E0941, "cc");
}

/* A compiler may not compute functions by itself whose rounding differs from the library's. */
static const char *const math[] = {
#define FN_PURE(fn)
#define FN_MEMORY(fn)
#define FN_EFFECT(fn)
#define FN_MATH1(fn)                                  "-fno-builtin-" #fn,
#define FN_MATH2(fn)                                  "-fno-builtin-" #fn,
#define ANF_TIR_INTRIN(name, lo, hi, typing, cls, fn) FN_##cls(fn)
#include "backend/tir/intrin.def"
#undef ANF_TIR_INTRIN
};
static bool is_exact(const char *flag) {
  static const char *const exact[] = {"rint", "floor", "ceil", "trunc", "sqrt", "fmod", "copysign"};
  for (size_t i = 0; i < ANFI_LEN(exact); i++)
    if (strcmp(flag + strlen("-fno-builtin-"), exact[i]) == 0) return true;
  return false;
}

static void add_target(anf_ctx *cx, args *a, const anfi_target *tm) {
  const char *cpu = *tm->cpu ? tm->cpu : "native";
  add(a, anfi_sprintf(anfi_scratch(cx), "-march=%s", cpu));
  for (const char *s = tm->features; *s;) {
    size_t n = strcspn(s, ",");
    if (n > 1)
      add(a, anfi_sprintf(anfi_scratch(cx), "-m%s%.*s", *s == '-' ? "no-" : "", (int)n - 1, s + 1));
    s += n + (s[n] == ',');
  }
}

static void add_flags(anf_ctx *cx, args *a, const anf_jit_engine *e) {
  static const char *const level[] = {"-O2", "-O0", "-O1", "-O2", "-O3"};
  add(a, "-std=c11");
  add(a, level[(unsigned)e->o.level < ANFI_LEN(level) ? e->o.level : 0]);
  add(a, e->o.contract ? "-ffp-contract=fast" : "-ffp-contract=off");
  add(a, "-fno-math-errno");
  for (size_t i = 0; i < ANFI_LEN(math); i++)
    if (!is_exact(math[i])) add(a, math[i]);
  if (e->o.debug) add(a, "-g");
  add(a, "-w");
  add(a, "-fPIC");
  add(a, "-shared");
  add(a, "-Wl,-Bsymbolic"); // names of the host never stand in for the code's own
  add_target(cx, a, &e->target);
}

/* Without a compiler the target stays as it is; `open` reports it. */
static bool negotiate(anf_ctx *cx, anfi_target *tm) {
  args a = {.n = 0};
  if (!*tm->cpu && !*tm->features) {
    snprintf(tm->cpu, sizeof tm->cpu, "native");
    return true;
  }
  if (!*tm->cpu) snprintf(tm->cpu, sizeof tm->cpu, "native");
  if (!find_compiler(cx, NULL, &a)) return false;
  const char *path = a.at[0];
  add_target(cx, &a, tm);
  add(&a, "-E");
  add(&a, "-x");
  add(&a, "c");
  add(&a, "/dev/null");
  a.at[a.n] = NULL;
  return anfi_os_spawn(a.at, NULL) == 0 ||
         anfi_fail(cx, anfi_nowhere(), ANF_E0943, path,
                   anfi_sprintf(anfi_scratch(cx), "%s%s%s", tm->cpu, *tm->features ? " with " : "",
                                tm->features));
}

static void close_engine(anf_jit_engine *e) {
  cjit_engine *j = (cjit_engine *)e;
  for (size_t i = 0; i < j->nargv; i++) anfi_jit_free(j->argv[i]);
  anfi_jit_free(j->argv);
}

/* The key of this compiler in the cache on disk: its command, and its answer to -###, which has its version and the
 * flags that `native` means on this machine. One that does not answer has nothing kept on disk. */
static void identify(anf_ctx *cx, cjit_engine *j) {
  anfi_arena *a = anfi_scratch(cx);
  const char *dir = anfi_os_make_temp(cx, j->e.o.temp_dir ? j->e.o.temp_dir : anfi_os_temp_dir());
  if (!dir) return;
  const char *log = anfi_sprintf(a, "%s/version.txt", dir),
             **argv = ANFI_NEW_N(a, const char *, j->nargv + 6);
  size_t n = 0, len = 0;
  char *said = NULL;
  anf_text *t = ANFI_NEW(a, anf_text);
  t->cx = cx;
  anfi_defer(cx, ANFI_ALWAYS, anfi_free_text, t);
  for (; n < j->nargv; n++) argv[n] = j->argv[n];
  const char *const ask[] = {"-###", "-E", "-x", "c", "/dev/null"};
  for (size_t i = 0; i < ANFI_LEN(ask); i++) argv[n++] = ask[i];
  bool good = anfi_os_spawn(argv, log) == 0 && anfi_os_read(cx, a, log, &said, &len) && len;
  anfi_os_remove(log);
  anfi_os_remove(dir);
  if (!good) {
    anfi_jit_free((void *)(uintptr_t)j->e.o.cache_dir);
    j->e.o.cache_dir = NULL;
    return;
  }
  for (size_t i = 0; i < j->nargv; i++) anfi_put(t, j->argv[i], strlen(j->argv[i]) + 1);
  anfi_put(t, said, len);
  j->e.compiler = anfi_jit_sum(t->text, t->len);
}

static bool open_engine(anf_ctx *cx, anf_jit_engine *e) {
  cjit_engine *j = (cjit_engine *)e;
  args a = {.n = 0}, user = {.n = 0};
  if (!find_compiler(cx, e->o.cc, &user)) return false;
  add(&a, user.at[0]);
  bool launcher = user.n > 1 && user.at[1][0] != '-'; // such as ccache
  if (launcher) add(&a, user.at[1]);
  add_flags(cx, &a, e);
  for (size_t i = launcher ? 2 : 1; i < user.n; i++) add(&a, user.at[i]); // these win
  j->argv = (char **)anfi_jit_alloc(a.n * sizeof *j->argv);
  if (!j->argv) anfi_throw_nomem(cx);
  for (; j->nargv < a.n; j->nargv++)
    if (!(j->argv[j->nargv] = anfi_jit_strdup(a.at[j->nargv]))) anfi_throw_nomem(cx);
  if (e->o.cache_dir && !e->o.debug) identify(cx, j);
  return !anfi_failed(cx);
}

/* ---- compiling ---- */

typedef struct job {
  anf_ctx *cx;
  cjit_engine *j;
  const char *dir, *c, *so, *log;
} job;

static void clean_up(void *p) {
  const job *w = (const job *)p;
  anfi_os_remove(w->c);
  anfi_os_remove(w->so);
  anfi_os_remove(w->log);
  anfi_os_remove(w->dir);
}

static job *new_job(anf_ctx *cx, cjit_engine *j, bool stays) {
  anfi_arena *a = anfi_scratch(cx);
  const char *in = j->e.o.temp_dir ? j->e.o.temp_dir : anfi_os_temp_dir(),
             *dir = anfi_os_make_temp(cx, in);
  if (!dir) return NULL;
  job *w = ANFI_NEW(a, job);
  *w = (job){cx,
             j,
             dir,
             anfi_sprintf(a, "%s/module.c", dir),
             anfi_sprintf(a, "%s/module.so", dir),
             anfi_sprintf(a, "%s/messages.txt", dir)};
  anfi_defer(cx, stays ? ANFI_ON_FAIL : ANFI_ALWAYS, clean_up, w);
  return w;
}

/* The finding for a failed compiler; its output, shortened, is the hint. */
static bool compiler_failed(job *w) {
  char *text = NULL;
  size_t len = 0;
  const char *cc = w->j->argv[0];
  if (!anfi_os_read(w->cx, anfi_scratch(w->cx), w->log, &text, &len)) text = NULL;
  const char *first = text ? strstr(text, "error") : NULL;
  size_t n = first ? strcspn(first, "\n") : 0;
  anfi_fail(w->cx, anfi_nowhere(), ANF_E0942, cc,
            n ? anfi_strndup(anfi_scratch(w->cx), first, n) : "it ended with an error");
  if (text && len) anfi_hint(w->cx, "%.*s", (int)(len < 2000 ? len : 2000), text);
  return false;
}

/* A shared object; or, for a file, an object. */
static bool run_compiler(job *w, bool object) {
  size_t n = 0;
  const char **argv = ANFI_NEW_N(anfi_scratch(w->cx), const char *, w->j->nargv + 6);
  for (size_t i = 0; i < w->j->nargv; i++) {
    bool linking = strcmp(w->j->argv[i], "-shared") == 0 || strncmp(w->j->argv[i], "-Wl,", 4) == 0;
    if (!object || !linking) argv[n++] = w->j->argv[i];
  }
  argv[n++] = w->c;
  argv[n++] = "-o";
  argv[n++] = w->so;
  argv[n++] = object ? "-c" : "-lm";
  return anfi_os_spawn(argv, w->log) == 0 || compiler_failed(w);
}

static void *symbol_of(cjit_code *k, const char *name) {
  return name ? anfi_os_dl_symbol(k->handle, name) : NULL;
}

/* Puts the address of a C function into the variable that the code calls it through. */
static bool import(job *w, cjit_code *k, const char *name, const char *variable) {
  void *fn = anfi_jit_resolve(&w->j->e, name);
  void *at = anfi_os_dl_symbol(k->handle, variable);
  if (!fn) return anfi_fail(w->cx, anfi_nowhere(), ANF_E0914, name);
  if (at) memcpy(at, &fn, sizeof fn);
  return true;
}

/* ---- the cached entry: names in C, each ended by a zero, then the shared object ----
 * Of each entry its wrapper and natural function; __tir_init's wrapper; the variable of the data; of
 * each function from outside its name and the variable that it is called through, ended by "". */

static void put_name(anf_text *out, const char *s) {
  if (s) anfi_puts(out, s);
  anfi_putc(out, 0);
}

static void put_names(const anfi_jit_code *code, const tmod *m, const anfi_c_names *names,
                      anf_text *out) {
  size_t e = 0;
  for (size_t i = 0; i < m->func.n; i++) {
    if (e >= code->nentry || strcmp(code->entry[e].name, m->func.at[i]->name->s) != 0) continue;
    put_name(out, names->func[i].wrapper);
    put_name(out, names->func[i].natural);
    e++;
  }
  put_name(out, names->init);
  put_name(out, names->data);
  for (size_t i = 0; i < m->func.n; i++) {
    if (m->func.at[i]->body) continue;
    put_name(out, m->func.at[i]->name->s);
    put_name(out, names->func[i].impl);
  }
  put_name(out, "anf_rt_trap");
  put_name(out, "anf_import_anf_rt_trap");
  put_name(out, "anf_rt_enter");
  put_name(out, "anf_import_anf_rt_enter");
  put_name(out, "");
}

static const char *next_name(const char **p) {
  const char *s = *p;
  *p += strlen(s) + 1;
  return s;
}

static void *next_symbol(cjit_code *k, const char **p) {
  const char *name = next_name(p);
  return *name ? symbol_of(k, name) : NULL;
}

static bool bind(job *w, cjit_code *k, anfi_jit_code *code, const char *p) {
  for (size_t i = 0; i < code->nentry; i++) {
    void *wrapper = next_symbol(k, &p);
    memcpy(&code->entry[i].wrapper, &wrapper, sizeof wrapper);
    code->entry[i].natural = next_symbol(k, &p);
  }
  void *init = next_symbol(k, &p);
  memcpy(&code->init, &init, sizeof init);
  code->data_slot = (void **)next_symbol(k, &p);
  while (*p) {
    const char *name = next_name(&p), *variable = next_name(&p);
    if (!import(w, k, name, variable)) return false;
  }
  return true;
}

/* Behind n names; NULL if they do not end before `end`. */
static const char *after(const char *p, const char *end, size_t n) {
  for (; p && n; n--) {
    const char *zero = (const char *)memchr(p, 0, (size_t)(end - p));
    p = zero ? zero + 1 : NULL;
  }
  return p;
}

/* The begin of the shared object, behind the names; NULL: these are not the names of an object. */
static const char *object_of(const anfi_jit_code *code, const char *p, const char *end) {
  p = after(p, end, 2 * code->nentry + 2);
  while (p && p < end && *p) p = after(p, end, 2);
  return p && p < end ? p + 1 : NULL;
}

static bool open_object(job *w, anfi_jit_code *code, const char *names) {
  char why[512] = "";
  cjit_code *k = (cjit_code *)anfi_jit_alloc(sizeof *k);
  if (!k) anfi_throw_nomem(w->cx);
  code->impl = k;
  k->handle = anfi_os_dl_open(w->so, why, sizeof why);
  if (!k->handle) return anfi_fail(w->cx, anfi_nowhere(), ANF_E0942, w->j->argv[0], why);
  return bind(w, k, code, names);
}

static anf_text *text_of(anf_ctx *cx, const anf_jit_engine *e, const anfi_jit_lowered *l,
                         anfi_c_names *names) {
  anf_text *t = ANFI_NEW(anfi_scratch(cx), anf_text);
  anf_c_opts o = {.size = sizeof o, .imports = !l->aot, .line_directives = e->o.debug};
  t->cx = cx;
  anfi_defer(cx, ANFI_ALWAYS, anfi_free_text, t);
  return anfi_c_print(cx, l, &o, t, names) ? t : NULL;
}

/* For debuggers the files stay, and so do not become bytes: their paths do. */
static bool put_files(job *w, anf_text *out) {
  char *bytes = NULL;
  size_t len = 0;
  if (w->j->e.o.debug) {
    anfi_os_remove(w->log);
    put_name(out, w->c);
    put_name(out, w->so);
    return true;
  }
  if (!anfi_os_read(w->cx, anfi_scratch(w->cx), w->so, &bytes, &len)) return false;
  anfi_put(out, bytes, len);
  return true;
}

static bool make(anf_ctx *cx, anf_jit_engine *e, const anfi_jit_lowered *l, anfi_jit_code *code,
                 anf_text *out) {
  anfi_c_names names = {0};
  anf_text *t = text_of(cx, e, l, &names);
  job *w = t ? new_job(cx, (cjit_engine *)e, e->o.debug) : NULL;
  if (!w || !anfi_os_write(cx, w->c, t->text, t->len) || !run_compiler(w, false)) return false;
  put_names(code, l->m, &names, out);
  return put_files(w, out);
}

static bool load(anf_ctx *cx, anf_jit_engine *e, anfi_jit_code *code, const char *p, size_t n) {
  const char *object = object_of(code, p, p + n);
  if (!object) return false;
  job files = {.cx = cx, .j = (cjit_engine *)e}, *w = &files;
  if (e->o.debug) {
    w->c = next_name(&object);
    w->so = next_name(&object);
    if (!open_object(w, code, p)) return false;
    if (anfi_jit_temp_add(code, w->c) && anfi_jit_temp_add(code, w->so)) return true;
    anfi_throw_nomem(cx);
  }
  return (w = new_job(cx, (cjit_engine *)e, false)) &&
         anfi_os_write(cx, w->so, object, n - (size_t)(object - p)) && open_object(w, code, p);
}

static bool object(anf_ctx *cx, anf_jit_engine *e, const anfi_jit_lowered *l, anf_text *out) {
  char *bytes = NULL;
  size_t len = 0;
  anfi_c_names names = {0};
  anf_text *t = text_of(cx, e, l, &names);
  job *w = t ? new_job(cx, (cjit_engine *)e, false) : NULL;
  bool good = w && anfi_os_write(cx, w->c, t->text, t->len) && run_compiler(w, true) &&
              anfi_os_read(cx, anfi_scratch(cx), w->so, &bytes, &len);
  if (good) anfi_put(out, bytes, len);
  return good;
}

static bool print(anf_ctx *cx, anf_jit_engine *e, const anfi_jit_lowered *l, const char *form,
                  anf_text *out) {
  anfi_c_names names = {0};
  if (strcmp(form, "c") != 0) return false;
  anf_text *t = text_of(cx, e, l, &names);
  if (t) anfi_put(out, t->text, t->len);
  return t != NULL;
}

static void drop(anfi_jit_code *code) {
  cjit_code *k = (cjit_code *)code->impl;
  if (k->handle) anfi_os_dl_close(k->handle);
  anfi_jit_free(k);
}

static void *symbol(const anfi_jit_code *code, const char *name) {
  return symbol_of((cjit_code *)code->impl, name);
}

const anfi_jit_vtable anfi_jit_cjit = {ANFI_JIT_COMPILER, .name = "cjit",
                                       .engine_bytes = sizeof(cjit_engine), .negotiate = negotiate};
