// SPDX-License-Identifier: Apache-2.0
/* An error of types after an assertion that is known to fail is none: the program stops before.
 *   assert(Rank(x) == 2, "not a matrix"); x[0, 0]     called with a vector: E0442 at the assertion, not E0501 at x[0, 0]
 * So compiled code says what the interpreter says. Only where there is an error is it asked what assertions decide by.
 *
 * The assertion comes before the node, or before a call on the way to it, or in a function that is called before:
 *   if Rank(x) == 0 { assert(false, "a number"); while true { } }; x[0] */
#include "optimizer/infer/rules.h"

/* Computes what assertions and calls before node `end` of s decide by, as far as it is known; else only what decides types is. */
static void compute_conditions(anfi_inference *q, anfi_spec *s, uint32_t end) {
  anf_node *const *order = q->an->graphs[s->graph->id].order.at;
  for (uint32_t i = end; i-- > 0;) {
    anf_node *n = order[i];
    bool all = anfi_is_op(n, ANF_OP_Assert) || q->need[n->id], call = n->kind == ANFI_CALL;
    for (uint32_t k = 0; k < n->nin && (all || (call && !k)); k++) q->need[n->in[k].def->id] = 1;
  }
  for (uint32_t i = 0; i < end; i++) {
    bool wanted = q->need[order[i]->id] && order[i]->kind == ANFI_APPLY &&
                  !anfi_op_is_meta((anfi_opcode)order[i]->op);
    for (uint32_t k = 0; k < order[i]->nin; k++)
      wanted &= anfi_spec_abs(q, s, order[i]->in[k].def) != NULL;
    const anfi_abs *a = wanted ? anfi_infer_node(q, s, order[i]) : NULL;
    if (a) s->node[i] = a;
  }
}

/* The message of an assertion that is known to fail; NULL: it may hold. */
static const char *failing(anfi_inference *q, const anfi_spec *s, const anf_node *n) {
  if (!anfi_is_op(n, ANF_OP_Assert)) return NULL;
  const anfi_abs *yes = anfi_spec_abs(q, s, n->in[0].def);
  const anfi_abs *words = n->nin > 1 ? anfi_spec_abs(q, s, n->in[1].def) : NULL;
  const anf_value *v = yes ? yes->value : NULL, *m = words ? words->value : NULL;
  if (!v || v->kind != ANF_VALUE_TENSOR || v->type->n || v->type->dtype != ANF_BOOL) return NULL;
  if (anfi_get_f64(v, 0) != 0.0) return NULL;
  return m && m->kind == ANF_VALUE_STRING && m->n ? m->u.text : "the condition is false";
}

/* What a call calls, if it is known which function that is. */
static anfi_spec *callee(anfi_inference *q, const anfi_spec *s, const anf_node *n) {
  const anfi_abs *f = n->kind == ANFI_CALL ? anfi_spec_abs(q, s, n->in[0].def) : NULL;
  if (!f || f->kind != ANFI_ABS_FN || f->n != 1 || !f->item[0]->graph) return NULL;
  anfi_spec *t = q->of_graph[f->item[0]->graph->id];
  while (t && (t->caller != s || t->call != n)) t = t->next_same;
  return t;
}

typedef struct walk {
  anfi_spec *s;
  uint32_t at, end;
} walk;

/* The assertion at which the program stops before it comes to node `end` of s; or NULL. It walks through each signature once. */
static const anf_node *stop_before(anfi_inference *q, bool *seen, anfi_spec *s, uint32_t end,
                                   const char **words) {
  ANFI_VEC(walk) stack = {0};
  for (anfi_spec *next = s; next || stack.n;) {
    if (next) {
      uint32_t all = (uint32_t)q->an->graphs[next->graph->id].order.n;
      walk w = {next, 0, next == s ? end : all};
      seen[next->id] = true;
      compute_conditions(q, next, w.end);
      anfi_push(q->arena, &stack, w);
      next = NULL;
    }
    walk *w = &stack.at[stack.n - 1];
    if (w->at == w->end) {
      stack.n--;
      continue;
    }
    const anf_node *n = q->an->graphs[w->s->graph->id].order.at[w->at++];
    if ((*words = failing(q, w->s, n))) return q->now = w->s, n;
    next = callee(q, w->s, n);
    if (next && seen[next->id]) next = NULL;
  }
  return NULL;
}

/* The same in the functions that called s. One that may not run is passed over: another may have come to the error. */
static const anf_node *stop_above(anfi_inference *q, bool *seen, const anfi_spec *s,
                                  const char **words) {
  const anf_node *stop = NULL;
  anfi_spec *where = NULL;
  const char *said = NULL;
  for (; s->caller; s = s->caller) {
    const anf_node *at = stop_before(q, seen, s->caller, q->local[s->call->id], words);
    const anfi_abs *f = anfi_spec_abs(q, s->caller, s->call->in[0].def);
    if (!f || f->n != 1) stop = NULL;
    if (at) stop = at, where = q->now, said = *words; // callers come first when it runs
  }
  if (stop) q->now = where, *words = said;
  return stop;
}

void anfi_stop_before(anfi_inference *q, anfi_spec *s, uint32_t end) {
  anfi_frame *f = q->cx->frame;
  anf_diag *d = f->diag ? f->diag : anfi_own_diag(q->cx);
  anf_status was = f->status;
  uint32_t nerror = f->nerror;
  size_t had = d ? anf_diag_count(d) : 0, n = had;
  const char *words = NULL;
  bool *seen = ANFI_NEW_N(q->arena, bool, q->specs.n);
  if (was != ANF_INVALID && was != ANF_UNSUPPORTED) return;
  f->status = ANF_OK, f->nerror = 0;
  const anf_node *stop = stop_above(q, seen, s, &words);
  if (!stop) stop = stop_before(q, seen, s, end, &words);
  while (stop && n && anf_diag_at(d, n - 1)->severity != ANF_ERROR) n--;
  if (d) anfi_diag_forget(d, stop && n ? n - 1 : had);
  f->status = stop ? ANF_OK : was, f->nerror = stop ? 0 : nerror;
  if (!stop) return;
  anfi_fail(q->cx, anfi_node_loc(stop), ANF_E0442, words);
  anfi_infer_trace(q);
}
