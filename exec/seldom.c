// SPDX-License-Identifier: Apache-2.0
/* Sizes that change from call to call, such as those of a cache that grows by a row with each token: code for a size that
 * never comes back costs more than it saves.
 *   decode(past: f32[1, 2, 4, 64]), decode(past: f32[1, 2, 5, 64]), ..   `interpret_after` sizes have code, the others not
 * Ski rental: a size is interpreted until that has been as much work as its code would be to make; then it has code. So a size
 * costs about twice of what the better choice does, known beforehand. A call that would be more is stopped, and code is made
 * for it: only functions without effects come here. One operation cannot be stopped, so work that is known to be more is not
 * begun. Both are counted, and no clock is read: the same calls always have the same bits. */
#include "exec/exec.h"
#include "interp/interp.h"

/* CODE_WORK, NODE_WORK: of the interpreter while a program is compiled, and each of its nodes (docs/lowering.md, Sizes). */
enum { MOST_SEEN = 256, CODE_WORK = 1 << 22, NODE_WORK = 1 << 18 };

/* One size, and what was interpreted of it. */
typedef struct size_seen {
  uint64_t hash;
  uint64_t work;
} size_seen;

struct anfi_seldom {
  size_seen sizes[MOST_SEEN]; // the oldest are replaced
  size_t nsizes, calls;       // so many there ever were
  const anf_type *result;     // of the last call; NULL: there are functions in it
  bool twice;                 // may the function run twice?
};

void anfi_seldom_free(anf_ctx *cx, anfi_seldom *s) {
  if (s) anfi_object_free(cx, s);
}

/* ---- may a call be interpreted? ---- */

static bool same_but_sizes(const anf_type *a, const anf_type *b) {
  if (a == b) return true;
  if (a->kind != b->kind || a->n != b->n) return false;
  if (a->kind == ANF_TYPE_TENSOR) return a->dtype == b->dtype;
  if (a->kind != ANF_TYPE_TUPLE && a->kind != ANF_TYPE_RECORD) return false;
  for (uint32_t i = 0; i < a->n; i++) {
    if (a->kind == ANF_TYPE_RECORD && a->names[i] != b->names[i]) return false;
    if (!same_but_sizes(a->items[i], b->items[i])) return false;
  }
  return true;
}

static bool is_of_other_sizes(const anfi_variant *v, size_t n, const anfi_arg *args) {
  if (!v->type || v->narg != n) return false;
  for (size_t i = 0; i < n; i++)
    if (!args[i].type || args[i].value || args[i].fn || !same_but_sizes(v->type[i], args[i].type))
      return false;
  return true;
}

static bool many_have_code(const anf_exec *e, size_t n, const anfi_arg *args) {
  uint32_t k = 0;
  for (const anfi_variant *v = e->variant; v && k < e->o.interpret_after; v = v->next)
    k += is_of_other_sizes(v, n, args);
  return k == e->o.interpret_after;
}

/* A call that is stopped runs once more, as code: nothing but checks may have happened. */
static bool may_run_twice(const anf_module *m) {
  for (size_t i = 0; i < m->nodes.n; i++) {
    const anf_node *n = m->nodes.at[i];
    uint32_t flags = n ? anfi_op_of(n)->flags : 0;
    if (flags & ANFI_COLLECTIVE) return false;
    if (flags & ANFI_EFFECT && n->op != ANF_OP_Assert) return false;
  }
  for (size_t i = 0; i < m->graphs.n; i++)
    for (size_t k = 0; m->graphs.at[i] && k < m->graphs.at[i]->effects.n; k++) {
      const anf_node *n = m->graphs.at[i]->effects.at[k];
      bool check = n->kind == ANFI_APPLY && n->op == ANF_OP_Assert;
      bool known = n->kind == ANFI_CALL && anfi_value_graph(n->in[0].def);
      if (!check && !known) return false;
    }
  return true;
}

bool anfi_seldom_may(const anf_exec *e) {
  return e->g && e->cuts && e->o.interpret_after && !e->job.nstate && !e->counts;
}

/* Of making code for one more size, the mean of what was made so far. */
static uint64_t code_work(const anf_exec *e) {
  return e->compilations ? CODE_WORK + (uint64_t)NODE_WORK * e->nodes / e->compilations : 0;
}

static anfi_seldom *new_seldom(const anf_exec *e) {
  anfi_seldom *s = (anfi_seldom *)anfi_object(e->cx, sizeof *s);
  if (!s) anfi_throw_nomem(e->cx);
  s->twice = may_run_twice(e->g->module);
  return s;
}

static size_seen *seen_of(anfi_seldom *s, const anfi_sig *sig) {
  uint64_t hash = anfi_hash(sig->word.at, sig->word.n * sizeof *sig->word.at, 0);
  for (size_t i = 0; i < s->nsizes && i < MOST_SEEN; i++)
    if (s->sizes[i].hash == hash) return &s->sizes[i];
  size_seen *one = &s->sizes[s->nsizes++ % MOST_SEEN];
  *one = (size_seen){.hash = hash};
  return one;
}

uint64_t *anfi_seldom_work(anf_exec *e, size_t n, const anfi_arg *args, const anfi_sig *sig) {
  if (!many_have_code(e, n, args)) return NULL;
  if (!e->seldom) e->seldom = new_seldom(e);
  if (!e->seldom->twice) return NULL;
  size_seen *s = seen_of(e->seldom, sig);
  return s->work < code_work(e) ? &s->work : NULL;
}

/* ---- running ---- */

/* For diagnostics of a call that is given up. */
static anf_diag *diag_apart(anf_ctx *cx) {
  anf_diag *d = anf_diag_new(cx);
  if (!d) anfi_throw_nomem(cx);
  anfi_defer(cx, ANFI_ALWAYS, anfi_free_diag, d);
  return d;
}

bool anfi_seldom_run(anf_exec *e, uint64_t *work, size_t n, anf_value *const *args,
                     const anf_run_opts *o, anf_value **result) {
  anf_value **all = ANFI_NEW_N(anfi_scratch(e->cx), anf_value *, n + 1);
  anf_diag *own = diag_apart(e->cx);
  anfi_work w = {.most = code_work(e) - *work};
  for (size_t i = 0; i < n; i++) all[i] = i < e->nfixed && e->fixed[i] ? e->fixed[i] : args[i];
  anf_status st = anfi_run_small(e->g, n, all, o, &w, own, result);
  *work += w.done;
  if (st == ANF_OK) {
    const anf_type *t = anfi_value_type(e->cx, *result);
    e->seldom->result = t->functions ? NULL : t;
    return ++e->seldom->calls;
  }
  if (st == ANF_NOMEM || st == ANF_CANCELLED) return anfi_fail_as(e->cx, st);
  return *work = code_work(e), false;
}

const anf_type *anfi_seldom_result(const anf_exec *e) { return e->seldom->result; }

size_t anfi_seldom_calls(const anfi_seldom *s) { return s->calls; }

void anfi_seldom_explain(const anf_exec *e, anf_text *out) {
  if (!e->seldom || !e->seldom->calls) return;
  anfi_putf(out,
            "Sizes change from call to call: %zu calls of %zu sizes were interpreted; one has code "
            "when that has been as much "
            "work as making it, about %.1f million elements.\n",
            e->seldom->calls, e->seldom->nsizes, (double)code_work(e) / 1e6);
}
