// SPDX-License-Identifier: Apache-2.0
/* A function whose sizes depend on data, in two parts (optimizer/infer/cut.h): what comes before is compiled, the rest interpreted.
 *   f(x) = { y = net(x);  Take(y, places(y > 0), axis=0) }     head(x) by machine code, tail(x, y) by the interpreter
 * Sizes that come the third time are worth code: the tail is compiled for these types and for the values that decide the
 * sizes, such as the number of places. Other sizes stay with the interpreter until they have come as often. */
#include "exec/partition.h"
#include "optimizer/infer/cut.h"

enum { CALLS_BEFORE_CODE = 2, MOST_SEEN = 64 };

/* Sizes of the tail, and how many calls had them. */
typedef struct seen {
  uint64_t hash;
  unsigned calls;
  bool has_code;
} seen;

struct anfi_partition {
  anf_module *m; // of both graphs
  anfi_cut cut;
  anf_exec *head;
  const anf_type *result; // of the last run; NULL: none, or it has functions in it
  /* the tail */
  anf_exec *tail;        // NULL: it cannot be compiled, as `why` says
  const char *why;       // interned
  seen sizes[MOST_SEEN]; // the oldest are replaced
  size_t nsizes;         // so many there ever were
};

/* ---- making ---- */

void anfi_partition_free(anf_ctx *cx, anfi_partition *p) {
  if (!p) return;
  anf_exec_free(p->head);
  anf_exec_free(p->tail);
  anf_module_free(p->m);
  anfi_object_free(cx, p);
}

static void free_partition(void *p) {
  anfi_partition *part = (anfi_partition *)p;
  anfi_partition_free(part->m->cx, part);
}

size_t anfi_partition_compilations(const anfi_partition *p) {
  return anf_exec_compilations(p->head) + anf_exec_compilations(p->tail);
}

double anfi_partition_compile_ms(const anfi_partition *p) {
  return anf_exec_compile_ms(p->head) + anf_exec_compile_ms(p->tail);
}

void anfi_partition_warn(const anf_exec *e) {
  const anfi_partition *p = e->partition;
  anfi_warn(e->cx, p->cut.why, ANF_W0908, e->g->name->s, p->cut.nhead, p->cut.nhead + p->cut.ntail);
}

/* For diagnostics that are no errors of the call. */
static anf_diag *diag_apart(anf_ctx *cx) {
  anf_diag *d = anf_diag_new(cx);
  if (!d) anfi_throw_nomem(cx);
  anfi_defer(cx, ANFI_ALWAYS, anfi_free_diag, d);
  return d;
}

static bool compile_head(anf_exec *e, anf_graph *g, size_t n, const anfi_arg *args,
                         anfi_partition *p) {
  const anf_type **types = ANFI_NEW_N(anfi_scratch(e->cx), const anf_type *, n + 1);
  anf_exec_opts o = e->o;
  o.engine = e->engine;
  for (size_t i = 0; i < n; i++)
    if (!(types[i] = args[i].type)) return false;
  anf_diag *lost = diag_apart(e->cx);
  anf_status st = anf_compile(g, &o, lost, &p->head);
  if (st == ANF_OK) st = anf_exec_prepare(p->head, n, types, lost);
  return st == ANF_OK || (st == ANF_NOMEM && anfi_fail_as(e->cx, st));
}

/* Code for the tail takes the values that types need, and no others: they would be data, new in each call. */
static bool make_tail(const anf_exec *e, anfi_partition *p) {
  anf_exec_opts o = e->o;
  o.engine = e->engine;
  anf_status st = anf_compile(p->cut.tail, &o, diag_apart(e->cx), &p->tail);
  if (st != ANF_OK) return st != ANF_NOMEM || anfi_fail_as(e->cx, st);
  p->tail->cuts = false;
  p->tail->needed = anfi_needed_arguments(p->cut.tail);
  p->tail->fixing = p->tail->most_fixing = ANFI_FIX_NEEDED;
  return true;
}

static anfi_partition *partition_of(anf_exec *e, anfi_cut_at at, size_t n, const anfi_arg *args) {
  anfi_cut c;
  if (!anfi_cut_at_sizes(e->g, at, &c)) return NULL;
  anfi_partition *p = (anfi_partition *)anfi_object(e->cx, sizeof *p);
  if (!p) anfi_throw_nomem(e->cx);
  p->m = c.head->module;
  p->cut = c;
  anfi_undefer(e->cx, p->m);
  anfi_defer(e->cx, ANFI_ON_FAIL, free_partition, p);
  bool good = compile_head(e, c.head, n, args, p) && make_tail(e, p);
  anfi_undefer(e->cx, p);
  if (!good) free_partition(p);
  return good ? p : NULL;
}

anfi_partition *anfi_partition_new(anf_exec *e, size_t n, const anfi_arg *args) {
  if (!e->g || e->job.nstate || !e->cuts) return NULL;
  anfi_partition *p = NULL;
  for (int at = ANFI_CUT_ATTRIBUTES; at <= ANFI_CUT_CHOICES && !p && !anfi_failed(e->cx); at++)
    p = partition_of(e, (anfi_cut_at)at, n, args);
  return p;
}

/* ---- the tail's sizes ---- */

static uint64_t hash_of_sizes(const anf_exec *tail, size_t n, anf_value *const *args) {
  anfi_arena *a = anfi_scratch(tail->cx);
  anfi_arg *given = ANFI_NEW_N(a, anfi_arg, n + 1);
  anfi_sig sig = {0};
  for (size_t i = 0; i < n; i++) {
    given[i].type = anfi_value_type(tail->cx, args[i]);
    if (anfi_exec_fixes(tail, i, given[i].type)) given[i].value = args[i];
  }
  anfi_exec_sig(tail, a, n, given, &sig);
  return anfi_hash(sig.word.at, sig.word.n * sizeof *sig.word.at, 0);
}

static seen *sizes_of(anfi_partition *p, size_t n, anf_value *const *args) {
  uint64_t hash = hash_of_sizes(p->tail, n, args);
  for (size_t i = 0; i < p->nsizes && i < MOST_SEEN; i++)
    if (p->sizes[i].hash == hash) return &p->sizes[i];
  seen *s = &p->sizes[p->nsizes++ % MOST_SEEN];
  *s = (seen){.hash = hash};
  return s;
}

/* It is not tried again: what one size lacks, others will. */
static bool give_up(const anf_exec *e, anfi_partition *p, anf_status st, const anf_diag *d) {
  if (st == ANF_NOMEM || st == ANF_CANCELLED) return anfi_fail_as(e->cx, st);
  const char *why = anf_diag_count(d) ? anf_diag_at(d, 0)->message : "";
  p->why = anfi_intern_z(&e->cx->strings, why)->s;
  anf_exec_free(p->tail);
  p->tail = NULL;
  return true;
}

/* Is there code for these sizes, now? It is never dropped. False without an error: there is none. */
static bool has_code(const anf_exec *e, anfi_partition *p, size_t n, anf_value *const *args) {
  if (!p->tail) return false;
  seen *s = sizes_of(p, n, args);
  if (s->has_code) return true;
  if (s->calls++ < CALLS_BEFORE_CODE || p->tail->nvariant >= e->o.max_compiled) return false;
  anf_diag *lost = diag_apart(e->cx);
  anf_status st = anf_exec_prepare_for(p->tail, n, args, lost);
  if (st != ANF_OK) return (void)give_up(e, p, st, lost), false;
  return s->has_code = true;
}

/* ---- running ---- */

bool anfi_partition_run(const anf_exec *e, size_t n, anf_value *const *args, const anf_run_opts *o,
                        anf_value **result) {
  anfi_partition *p = e->partition;
  anf_diag *d = e->cx->frame->diag;
  anf_value **all = ANFI_NEW_N(anfi_scratch(e->cx), anf_value *, n + p->cut.nmid + 1), *mid = NULL;
  for (size_t i = 0; i < n; i++) all[i] = i < e->nfixed && e->fixed[i] ? e->fixed[i] : args[i];
  anf_status st = anf_exec_run(p->head, n, all, o, d, &mid);
  if (st != ANF_OK) return anfi_fail_as(e->cx, st);
  anfi_defer(e->cx, ANFI_ALWAYS, anfi_release, mid);
  for (size_t i = 0; i < p->cut.nmid; i++) all[n + i] = mid->u.item[i];
  n += p->cut.nmid;
  bool code = has_code(e, p, n, all);
  if (anfi_failed(e->cx)) return false;
  st = code ? anf_exec_run(p->tail, n, all, o, d, result)
            : anf_run(p->cut.tail, n, all, o, d, result);
  if (st != ANF_OK) return anfi_fail_as(e->cx, st);
  const anf_type *t = anfi_value_type(e->cx, *result);
  p->result = t->functions ? NULL : t;
  return true;
}

const anf_type *anfi_partition_result(const anfi_partition *p) { return p->result; }

void anfi_partition_explain(const anfi_partition *p, anf_text *out) {
  anfi_putf(out,
            "Sizes depend on data: %zu of %zu operations are compiled, the others interpreted.\n",
            p->cut.nhead, p->cut.nhead + p->cut.ntail);
  if (!p->tail) anfi_putf(out, "The others cannot be compiled for known sizes: %s.\n", p->why);
  else
    anfi_putf(out,
              "The others are compiled for sizes that come the third time, so far %zu of %zu.\n",
              p->tail->nvariant, p->nsizes);
}
