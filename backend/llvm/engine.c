// SPDX-License-Identifier: Apache-2.0
/* The llvm engine: one LLJIT, and a JITDylib (library) for each compiled module, which is reused when the module is
 * freed.
 *   func f   ->   LLVM IR   ->   object file   ->   linked in a library   ->   addresses of f_0wrapper and f
 * The calling thread makes machine code, for large modules with helper threads (crew.c), each with a TargetMachine of
 * its own; linking alone is shared, and ORC locks that. Pages are writable while they are filled, then executable,
 * never both. */
#include "backend/llvm/kernel/emit.h"

typedef struct pooled {
  LLVMTargetMachineRef tm;
  anf_jit_level level;
  struct pooled *next;
} pooled;

typedef struct library {
  LLVMOrcJITDylibRef dylib;
  struct library *next;
} library;

typedef struct engine {
  anf_jit_engine base;
  LLVMOrcLLJITRef jit;
  pthread_mutex_t lock; // of what follows
  pooled *machine;      // those that nobody uses
  library *free;
  unsigned count;
} engine;

typedef struct loaded {
  library *lib;
  LLVMOrcResourceTrackerRef tracker;
} loaded;

/* ---- target machines ---- */

static pooled *machine(anf_ctx *cx, engine *e, anf_jit_level o) {
  pthread_mutex_lock(&e->lock);
  pooled **at = &e->machine, *p;
  while (*at && (*at)->level != o) at = &(*at)->next;
  p = *at;
  if (p) *at = p->next;
  pthread_mutex_unlock(&e->lock);
  if (p) return p;
  LLVMTargetMachineRef tm = anfi_ll_target(cx, &e->base.target, o);
  if (!tm) return NULL;
  p = (pooled *)anfi_jit_alloc(sizeof *p);
  if (!p) {
    ll.DisposeTargetMachine(tm);
    anfi_throw_nomem(cx);
  }
  p->tm = tm;
  p->level = o;
  return p;
}

typedef struct lent {
  engine *e;
  pooled *p;
} lent;

static void give_back(void *arg) {
  const lent *l = (const lent *)arg;
  pthread_mutex_lock(&l->e->lock);
  l->p->next = l->e->machine;
  l->e->machine = l->p;
  pthread_mutex_unlock(&l->e->lock);
}

/* A target machine for this frame */
static LLVMTargetMachineRef borrow(anf_ctx *cx, engine *e, anf_jit_level o) {
  lent *l = ANFI_NEW(anfi_scratch(cx), lent);
  pooled *p = machine(cx, e, o);
  if (!p) return NULL;
  *l = (lent){e, p};
  anfi_defer(cx, ANFI_ALWAYS, give_back, l);
  return p->tm;
}

/* ---- opening and closing ---- */

/* The linker that debuggers and profilers can listen to. It places each section by itself; in a crowded address
 * space these lie more than 2 GB apart, and it truncates what code has of their distance. So it is for `debug` alone:
 * the other linker, JITLink, keeps an object in one piece. */
static LLVMOrcObjectLayerRef heard_layer(void *ctx, LLVMOrcExecutionSessionRef es,
                                         const char *triple) {
  LLVMOrcObjectLayerRef o = ll.OrcCreateRTDyldObjectLinkingLayerWithSectionMemoryManager(es);
  (void)ctx, (void)triple;
  LLVMJITEventListenerRef gdb = ll.CreateGDBRegistrationListener(),
                          perf = ll.CreatePerfJITEventListener();
  if (gdb) ll.OrcRTDyldObjectLinkingLayerRegisterJITEventListener(o, gdb);
  if (perf) ll.OrcRTDyldObjectLinkingLayerRegisterJITEventListener(o, perf);
  return o;
}

/* Errors of look-ups are dropped here: the caller reports them. */
static void quiet(void *ctx, LLVMErrorRef err) {
  (void)ctx;
  ll.ConsumeError(err);
}

/* Room for LLVM's code, linked and all: measured at 730 MB for 2 * 10^5 statements. */
enum { CODE_ROOM = 64 << 20, STATEMENT_ROOM = 4 << 10 };

static bool open_engine(anf_ctx *cx, anf_jit_engine *base) {
  engine *e = (engine *)base;
  pthread_mutex_init(&e->lock, NULL);
  if (!anfi_ll_begin(cx) || !anfi_ll_has_room(cx, CODE_ROOM)) return false;
  unsigned v[3];
  size_t at = strlen(base->version);
  ll.GetVersion(&v[0], &v[1], &v[2]);
  snprintf(base->version + at, sizeof base->version - at, " LLVM %u.%u.%u %s", v[0], v[1], v[2],
           anfi_os_build_of(anfi_scratch(cx), (uintptr_t)ll.GetVersion));
  LLVMTargetMachineRef tm = anfi_ll_target(cx, &e->base.target, ANF_JIT_O2);
  if (!tm) return false;
  LLVMOrcLLJITBuilderRef b = ll.OrcCreateLLJITBuilder();
  ll.OrcLLJITBuilderSetJITTargetMachineBuilder(
      b, ll.OrcJITTargetMachineBuilderCreateFromTargetMachine(tm));
  if (e->base.o.debug) ll.OrcLLJITBuilderSetObjectLinkingLayerCreator(b, heard_layer, e);
  LLVMErrorRef err = ll.OrcCreateLLJIT(&e->jit, b);
  if (err) return anfi_ll_fail(cx, err);
  ll.OrcExecutionSessionSetErrorReporter(ll.OrcLLJITGetExecutionSession(e->jit), quiet, NULL);
  return true;
}

static void close_engine(anf_jit_engine *base) {
  engine *e = (engine *)base;
  if (e->jit) {
    LLVMErrorRef err = ll.OrcDisposeLLJIT(e->jit);
    if (err) ll.ConsumeError(err);
  }
  for (pooled *p = e->machine, *next; p; p = next) {
    next = p->next;
    ll.DisposeTargetMachine(p->tm);
    anfi_jit_free(p);
  }
  for (library *l = e->free, *next; l; l = next) {
    next = l->next;
    anfi_jit_free(l);
  }
  pthread_mutex_destroy(&e->lock);
}

/* ---- names ---- */

/* Symbols that code asks for: of the run time, of mathematics, of the host */
static LLVMErrorRef find_symbols(LLVMOrcDefinitionGeneratorRef gen, void *ctx,
                                 LLVMOrcLookupStateRef *state, LLVMOrcLookupKind kind,
                                 LLVMOrcJITDylibRef dylib, LLVMOrcJITDylibLookupFlags flags,
                                 LLVMOrcCLookupSet set, size_t n) {
  (void)gen, (void)state, (void)kind, (void)flags;
  LLVMOrcCSymbolMapPairs found =
      (LLVMOrcCSymbolMapPairs)anfi_jit_alloc(n * sizeof(LLVMOrcCSymbolMapPair));
  size_t k = 0;
  for (size_t i = 0; found && i < n; i++) {
    void *p = anfi_jit_resolve((anf_jit_engine *)ctx, ll.OrcSymbolStringPoolEntryStr(set[i].Name));
    if (!p) continue;
    ll.OrcRetainSymbolStringPoolEntry(set[i].Name);
    found[k].Name = set[i].Name;
    found[k].Sym.Address = (LLVMOrcExecutorAddress)(uintptr_t)p;
    found[k].Sym.Flags.GenericFlags =
        LLVMJITSymbolGenericFlagsExported | LLVMJITSymbolGenericFlagsCallable;
    k++;
  }
  LLVMErrorRef err = k ? ll.OrcJITDylibDefine(dylib, ll.OrcAbsoluteSymbols(found, k)) : NULL;
  anfi_jit_free(found);
  return err;
}

static library *take_library(engine *e) {
  pthread_mutex_lock(&e->lock);
  library *l = e->free;
  if (l) e->free = l->next;
  unsigned id = e->count++;
  pthread_mutex_unlock(&e->lock);
  if (l) return l;
  l = (library *)anfi_jit_alloc(sizeof *l);
  if (!l) return NULL;
  char name[32];
  snprintf(name, sizeof name, "anf%u", id);
  l->dylib = ll.OrcExecutionSessionCreateBareJITDylib(ll.OrcLLJITGetExecutionSession(e->jit), name);
  ll.OrcJITDylibAddGenerator(l->dylib,
                             ll.OrcCreateCustomCAPIDefinitionGenerator(find_symbols, e, NULL));
  return l;
}

static void drop(anfi_jit_code *code) {
  engine *e = (engine *)code->engine;
  loaded *d = (loaded *)code->impl;
  LLVMErrorRef err = ll.OrcResourceTrackerRemove(d->tracker);
  if (err) ll.ConsumeError(err);
  ll.OrcReleaseResourceTracker(d->tracker);
  err = ll.OrcJITDylibClear(d->lib->dylib);
  if (err) ll.ConsumeError(err);
  pthread_mutex_lock(&e->lock);
  d->lib->next = e->free;
  e->free = d->lib;
  pthread_mutex_unlock(&e->lock);
  anfi_jit_free(d);
}

/* ---- looking up ---- */

typedef struct query {
  LLVMOrcSymbolStringPoolEntryRef *name;
  void **address;
  size_t n;
  bool good, answered;
  pthread_mutex_t lock;
  pthread_cond_t wake;
} query;

static void answer(LLVMErrorRef err, LLVMOrcCSymbolMapPairs result, size_t n, void *ctx) {
  query *q = (query *)ctx;
  for (size_t i = 0; !err && i < n; i++)
    for (size_t k = 0; k < q->n; k++)
      if (q->name[k] == result[i].Name) q->address[k] = (void *)(uintptr_t)result[i].Sym.Address;
  pthread_mutex_lock(&q->lock);
  q->good = !err;
  q->answered = true;
  pthread_cond_signal(&q->wake);
  pthread_mutex_unlock(&q->lock);
  if (err) ll.ConsumeError(err);
}

/* Waits for the answer: another thread that is just compiling the symbol may give it after the call has returned. */
static bool answered(query *q) {
  pthread_mutex_lock(&q->lock);
  while (!q->answered) pthread_cond_wait(&q->wake, &q->lock);
  pthread_mutex_unlock(&q->lock);
  pthread_mutex_destroy(&q->lock);
  pthread_cond_destroy(&q->wake);
  return q->good;
}

/* Addresses of symbols, NULL for those that are not there. Scans are short: an answer comes back in
 * the order of the question for small sets, and sets are cut small. */
static bool look_up(engine *e, library *lib, size_t n, const char *const *name, void **address) {
  enum { MANY = 32 };
  LLVMOrcExecutionSessionRef es = ll.OrcLLJITGetExecutionSession(e->jit);
  LLVMOrcCJITDylibSearchOrderElement where = {lib->dylib,
                                              LLVMOrcJITDylibLookupFlagsMatchAllSymbols};
  for (size_t from = 0; from < n; from += MANY) {
    LLVMOrcCLookupSetElement set[MANY];
    LLVMOrcSymbolStringPoolEntryRef id[MANY];
    query q = {.name = id, .address = address + from, .n = n - from < MANY ? n - from : MANY};
    pthread_mutex_init(&q.lock, NULL);
    pthread_cond_init(&q.wake, NULL);
    for (size_t i = 0; i < q.n; i++) {
      id[i] = ll.OrcExecutionSessionIntern(es, name[from + i]);
      set[i].Name = id[i];
      set[i].LookupFlags = LLVMOrcSymbolLookupFlagsWeaklyReferencedSymbol;
      address[from + i] = NULL;
    }
    ll.OrcExecutionSessionLookup(es, LLVMOrcLookupKindStatic, &where, 1, set, q.n, answer, &q);
    if (!answered(&q)) return false;
  }
  return true;
}

static void *symbol(const anfi_jit_code *code, const char *name) {
  void *p = NULL;
  const loaded *d = (const loaded *)code->impl;
  return look_up((engine *)code->engine, d->lib, 1, &name, &p) ? p : NULL;
}

/* ---- compiling ---- */

/* Is everything there that the module takes from outside of the program? */
static bool all_known(anf_ctx *cx, anf_jit_engine *e, const lmodule *lm) {
  for (LLVMValueRef f = ll.GetFirstFunction(lm->m); f; f = ll.GetNextFunction(f)) {
    size_t len;
    const char *name = ll.GetValueName2(f, &len);
    if (!ll.IsDeclaration(f) || ll.GetIntrinsicID(f) || anfi_jit_resolve(e, name)) continue;
    if (anfi_kernel_is_name(name) || anfi_ll_is_elsewhere(lm->g, f)) continue;
    return anfi_fail(cx, anfi_nowhere(), ANF_E0914, name);
  }
  return true;
}

static void dispose_buffer(void *buf) { ll.DisposeMemoryBuffer((LLVMMemoryBufferRef)buf); }

static bool accepted(anf_ctx *cx, const lmodule *lm) {
  return !lm->refused[0] || anfi_fail(cx, anfi_nowhere(), ANF_E0911, lm->refused);
}

static bool emit(anf_ctx *cx, const lmodule *lm, LLVMTargetMachineRef tm, LLVMCodeGenFileType form,
                 anf_text *out) {
  LLVMMemoryBufferRef buf = NULL;
  char *why = NULL;
  if (ll.TargetMachineEmitToMemoryBuffer(tm, lm->m, form, &why, &buf)) {
    anfi_fail(cx, anfi_nowhere(), ANF_E0911, why ? why : "");
    if (why) ll.DisposeMessage(why);
    return false;
  }
  anfi_defer(cx, ANFI_ALWAYS, dispose_buffer, buf);
  anfi_put(out, ll.GetBufferStart(buf), ll.GetBufferSize(buf));
  return accepted(cx, lm);
}

/* All functions in one module, optimised; kernels are added after the passes, as they need none. */
static lmodule *whole(anf_ctx *cx, engine *e, const anfi_jit_lowered *l, const char *passes,
                      LLVMTargetMachineRef tm) {
  lmodule *lm = anfi_ll_module(cx, &e->base, l, tm, NULL, 0);
  if (!lm || (!l->aot && !all_known(cx, &e->base, lm))) return NULL;
  LLVMErrorRef err = anfi_ll_passes(lm->m, tm, passes);
  if (err) return (void)anfi_ll_fail(cx, err), NULL;
  anfi_kernel_emit(lm->g);
  return accepted(cx, lm) ? lm : NULL;
}

static bool emit_text(anf_ctx *cx, engine *e, const anfi_jit_lowered *l, lplan plan,
                      LLVMCodeGenFileType form, anf_text *out) {
  LLVMTargetMachineRef tm = borrow(cx, e, plan.level);
  const lmodule *lm = tm ? whole(cx, e, l, plan.passes, tm) : NULL;
  return lm && emit(cx, lm, tm, form, out);
}

/* ---- compiling by groups ---- */

/* Modules of all groups: functions first, then the kernels that those call, which are found in them.
 * So only functions without kernels are given to the crew while more are built. */
static bool build_jobs(anf_ctx *cx, engine *e, const anfi_jit_lowered *l, const lsplit *s,
                       LLVMTargetMachineRef tm, lcrew *crew) {
  uint32_t n = s->groups + s->kernels;
  ljob *job = crew->job;
  for (uint32_t i = 0; i < n; i++) {
    lmodule *lm = job[i].lm = anfi_ll_module(cx, &e->base, l, tm, s, i);
    anfi_defer(cx, ANFI_ALWAYS, anfi_ll_crew_stop, crew); // before the module may go
    job[i].plain = i < s->groups && i >= s->groups - s->plain;
    job[i].passes = i < s->groups && !job[i].plain;
    if (!lm || !all_known(cx, &e->base, lm)) return false;
    for (uint32_t k = 0; i >= s->groups && k < s->groups; k++)
      anfi_kernel_gather(lm->g, job[k].lm->g);
    if (i >= s->groups) anfi_kernel_emit(lm->g);
    if (s->kernels) continue;
    anfi_arena_free(lm->g->a);
    anfi_ll_crew_give(crew, i + 1);
  }
  anfi_ll_crew_give(crew, n);
  return true;
}

/* Has the job an object file? */
static bool is_done(anf_ctx *cx, ljob *j) {
  LLVMErrorRef err = j->err;
  j->err = NULL;
  if (err) return anfi_ll_fail(cx, err);
  if (!accepted(cx, j->lm)) return false;
  return j->code || anfi_fail(cx, anfi_nowhere(), ANF_E0911, j->why ? j->why : "");
}

static size_t threads_for(const engine *e, size_t njob) {
  size_t n = e->base.o.threads ? e->base.o.threads : anfi_os_cpus();
  if (n > LL_THREADS) n = LL_THREADS;
  return n < njob ? n : njob;
}

static void put_object(anf_text *out, LLVMMemoryBufferRef code) {
  uint64_t len = ll.GetBufferSize(code);
  anfi_put(out, (const char *)&len, sizeof len);
  anfi_put(out, ll.GetBufferStart(code), len);
}

/* Target machines for each thread. 0: one could not be made. */
static size_t hands_for(anf_ctx *cx, engine *e, size_t njob, anf_jit_level o, bool plain,
                        lhand *hand) {
  size_t n = threads_for(e, njob);
  for (size_t i = 0; i < n; i++) {
    if (!(hand[i].tm = borrow(cx, e, o))) return 0;
    if (plain && !(hand[i].plain = borrow(cx, e, ANF_JIT_O0))) return 0;
  }
  return n;
}

static bool emit_groups(anf_ctx *cx, engine *e, const anfi_jit_lowered *l, const lsplit *s,
                        lplan plan, anf_text *out) {
  uint32_t n = s->groups + s->kernels;
  lhand hand[LL_THREADS] = {{0}};
  size_t nhand = hands_for(cx, e, n, plan.level, s->plain, hand);
  if (!nhand) return false;
  ljob *job = ANFI_NEW_N(anfi_scratch(cx), ljob, n);
  lcrew *crew = ANFI_NEW(anfi_scratch(cx), lcrew);
  anfi_ll_crew_start(crew, job, plan.passes, hand, nhand);
  anfi_defer(cx, ANFI_ALWAYS, anfi_ll_crew_stop, crew);
  if (!build_jobs(cx, e, l, s, hand[0].tm, crew)) return false;
  anfi_ll_crew_end(crew);
  bool good = true;
  for (uint32_t i = 0; i < n; i++) good &= is_done(cx, &job[i]);
  for (uint32_t i = 0; good && i < n; i++) put_object(out, job[i].code);
  return good;
}

static bool has_room(anf_ctx *cx, const anfi_jit_lowered *l) {
  return anfi_ll_has_room(cx, CODE_ROOM + STATEMENT_ROOM * anfi_ll_statements(l));
}

static bool object(anf_ctx *cx, anf_jit_engine *e, const anfi_jit_lowered *l, anf_text *out) {
  return has_room(cx, l) && emit_text(cx, (engine *)e, l, anfi_ll_plan(e, l), LLVMObjectFile, out);
}

/* Object files, each with its length before it. Debuggers get one, with everything in it. */
static bool make(anf_ctx *cx, anf_jit_engine *base, const anfi_jit_lowered *l, anfi_jit_code *code,
                 anf_text *out) {
  engine *e = (engine *)base;
  if (!has_room(cx, l)) return false;
  lplan plan = anfi_ll_plan(base, l);
  const lsplit *s = base->o.debug ? NULL : anfi_ll_split(cx, l, plan.level);
  (void)code;
  if (s) return emit_groups(cx, e, l, s, plan, out);
  uint64_t len = 0;
  size_t at = out->len;
  anfi_put(out, (const char *)&len, sizeof len);
  if (!emit_text(cx, e, l, plan, LLVMObjectFile, out)) return false;
  len = out->len - at - sizeof len;
  memcpy(out->text + at, &len, sizeof len);
  return true;
}

static void wrapper_of(void *p, anf_rt_wrapper *out) { memcpy(out, &p, sizeof p); }

/* Every entry has a wrapper and, mostly, a natural function. */
static bool addresses(anf_ctx *cx, engine *e, anfi_jit_code *code) {
  anfi_arena *a = anfi_scratch(cx);
  size_t n = 2 * code->nentry + 2;
  const char **name = ANFI_NEW_N(a, const char *, n);
  void **at = ANFI_NEW_N(a, void *, n);
  for (size_t i = 0; i < code->nentry; i++) {
    const char *f = code->entry[i].name;
    name[2 * i] = anfi_sprintf(a, "%s_0wrapper", f);
    name[2 * i + 1] = anfi_jit_builtin(f) ? anfi_sprintf(a, "anf.%s", f) : f;
  }
  name[n - 2] = "__tir_init_0wrapper";
  name[n - 1] = "__anf_data";
  if (!look_up(e, ((loaded *)code->impl)->lib, n, name, at))
    return anfi_fail(cx, anfi_nowhere(), ANF_E0911, "its symbols cannot be found");
  for (size_t i = 0; i < code->nentry; i++) {
    wrapper_of(at[2 * i], &code->entry[i].wrapper);
    code->entry[i].natural = at[2 * i + 1];
  }
  wrapper_of(at[n - 2], &code->init);
  code->data_slot = (void **)at[n - 1];
  return true;
}

/* Are the objects' lengths those of what there is? */
static bool is_whole(const char *p, const char *end) {
  for (uint64_t len; p != end; p += len) {
    if ((size_t)(end - p) < sizeof len) return false;
    memcpy(&len, p, sizeof len);
    p += sizeof len;
    if (len > (size_t)(end - p)) return false;
  }
  return true;
}

/* The next object file of those at p. NULL: that is all. */
static LLVMMemoryBufferRef next_object(const char **p, const char *end) {
  uint64_t len;
  if (*p == end) return NULL;
  memcpy(&len, *p, sizeof len);
  const char *from = *p + sizeof len;
  *p = from + len;
  return ll.CreateMemoryBufferWithMemoryRangeCopy(from, len, "anfora");
}

/* LLVM's pages leave memory after much work. That, and to use them again, takes a millisecond; to make so much
 * code takes more than a hundred. */
static bool load(anf_ctx *cx, anf_jit_engine *base, anfi_jit_code *code, const char *p, size_t n) {
  enum { MUCH = 32 << 10 };
  engine *e = (engine *)base;
  const char *end = p + n;
  if (!is_whole(p, end) || (p == end && code->nentry)) return false;
  if (!anfi_ll_has_room(cx, CODE_ROOM / 4 + 2 * n)) return false; // to link it
  loaded *d = (loaded *)anfi_jit_alloc(sizeof *d);
  library *lib = d ? take_library(e) : NULL;
  if (!lib) {
    anfi_jit_free(d);
    anfi_throw_nomem(cx);
  }
  d->lib = lib;
  d->tracker = ll.OrcJITDylibCreateResourceTracker(lib->dylib);
  code->impl = d;
  for (LLVMMemoryBufferRef one = next_object(&p, end); one; one = next_object(&p, end)) {
    LLVMErrorRef err = ll.OrcLLJITAddObjectFileWithRT(e->jit, d->tracker, one);
    if (err) return anfi_ll_fail(cx, err);
  }
  bool good = addresses(cx, e, code);
  if (n >= MUCH) anfi_os_leave_library((uintptr_t)ll.GetVersion);
  return good;
}

static void dispose_text(void *s) { ll.DisposeMessage((char *)s); }

static bool print(anf_ctx *cx, anf_jit_engine *base, const anfi_jit_lowered *l, const char *form,
                  anf_text *out) {
  engine *e = (engine *)base;
  if (!has_room(cx, l)) return false;
  if (strcmp(form, "asm") == 0)
    return emit_text(cx, e, l, anfi_ll_plan(&e->base, l), LLVMAssemblyFile, out);
  if (strcmp(form, "llvm") != 0) return false;
  lplan plan = anfi_ll_plan(base, l);
  LLVMTargetMachineRef tm = borrow(cx, e, plan.level);
  const lmodule *lm = tm ? whole(cx, e, l, plan.passes, tm) : NULL;
  if (!lm) return false;
  char *text = ll.PrintModuleToString(lm->m);
  anfi_defer(cx, ANFI_ALWAYS, dispose_text, text);
  anfi_puts(out, text);
  return true;
}

const anfi_jit_vtable anfi_jit_llvm = {ANFI_JIT_COMPILER, .name = "llvm",
                                       .always = "closurizer_cpu", .engine_bytes = sizeof(engine),
                                       .negotiate = anfi_ll_negotiate};
