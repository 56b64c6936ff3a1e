// SPDX-License-Identifier: Apache-2.0
/* A function whose sizes depend on data, in two parts (optimizer/infer/cut.h): what comes before is compiled, the rest interpreted.
 *   f(x) = { y = net(x);  Take(y, places(y > 0), axis=0) }     head(x) by machine code, tail(x, y) by the interpreter */
#include "exec/partition.h"
#include "optimizer/infer/cut.h"

struct anfi_partition {
  anf_module *m; // of both graphs
  anfi_cut cut;
  anf_exec *head;
  const anf_type *result; // of the last run; NULL: none, or it has functions in it
};

/* ---- making ---- */

void anfi_partition_free(anf_ctx *cx, anfi_partition *p) {
  if (!p) return;
  anf_exec_free(p->head);
  anf_module_free(p->m);
  anfi_object_free(cx, p);
}

static void free_partition(void *p) {
  anfi_partition *part = (anfi_partition *)p;
  anfi_partition_free(part->m->cx, part);
}

anf_exec *anfi_partition_head(const anfi_partition *p) { return p->head; }

void anfi_partition_warn(const anf_exec *e) {
  const anfi_partition *p = e->partition;
  anfi_warn(e->cx, p->cut.why, ANF_W0908, e->g->name->s, p->cut.nhead, p->cut.nhead + p->cut.ntail);
}

static bool compile_head(anf_exec *e, anf_graph *g, size_t n, const anfi_arg *args,
                         anfi_partition *p) {
  const anf_type **types = ANFI_NEW_N(anfi_scratch(e->cx), const anf_type *, n + 1);
  anf_exec_opts o = e->o;
  o.engine = e->engine;
  for (size_t i = 0; i < n; i++)
    if (!(types[i] = args[i].type)) return false;
  anf_diag *lost = anf_diag_new(e->cx);
  if (!lost) anfi_throw_nomem(e->cx);
  anfi_defer(e->cx, ANFI_ALWAYS, anfi_free_diag, lost);
  anf_status st = anf_compile(g, &o, lost, &p->head);
  if (st == ANF_OK) st = anf_exec_prepare(p->head, n, types, lost);
  return st == ANF_OK || (st == ANF_NOMEM && anfi_fail_as(e->cx, st));
}

static anfi_partition *partition_of(anf_exec *e, size_t n, const anfi_arg *args) {
  anfi_cut c;
  if (!anfi_cut_at_sizes(e->g, &c)) return NULL;
  anfi_partition *p = (anfi_partition *)anfi_object(e->cx, sizeof *p);
  if (!p) anfi_throw_nomem(e->cx);
  p->m = c.head->module;
  p->cut = c;
  anfi_undefer(e->cx, p->m);
  anfi_defer(e->cx, ANFI_ON_FAIL, free_partition, p);
  bool good = compile_head(e, c.head, n, args, p);
  anfi_undefer(e->cx, p);
  if (!good) free_partition(p);
  return good ? p : NULL;
}

anfi_partition *anfi_partition_new(anf_exec *e, size_t n, const anfi_arg *args) {
  bool plain = e->g && !e->job.nstate && e->cuts;
  return plain ? partition_of(e, n, args) : NULL;
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
  st = anf_run(p->cut.tail, n + p->cut.nmid, all, o, d, result);
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
}
