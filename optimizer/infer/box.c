// SPDX-License-Identifier: Apache-2.0
/* Boxed closure environments, for closures that nest without bound.
 *   f(k, n) = n == 0 ? k : f(x -> k(x) + 1, n - 1)     k's type would be closure of closure of ..
 * The environment of such a closure goes into a Box, whose type does not depend on its contents. The
 * contents of all boxes of one parameter are joined here: a flow set of functions whose environments are boxes
 * of the same parameter. A call of such a function opens its box; no other code sees it. */
#include "optimizer/infer/rules.h"

const anfi_abs *anfi_abs_open(const anfi_abs_table *t, const anfi_abs *a) {
  return a->kind == ANFI_ABS_BOXED ? t->boxed[a->param->id] : a;
}

const anfi_abs *anfi_abs_find_boxed(const anfi_abs *a) {
  const anfi_abs *found = a->kind == ANFI_ABS_BOXED ? a : NULL;
  for (uint32_t i = 0; i < a->n && !found; i++) found = anfi_abs_find_boxed(a->item[i]);
  return found;
}

const anfi_abs *anfi_abs_box(anfi_abs_table *t, const anf_node *param, const anfi_abs *a) {
  const anfi_abs **held = &t->boxed[param->id], *before, *both;
  a = anfi_abs_broaden(t, a);
  do { // joining may itself put more into these boxes
    before = *held;
    if (!(both = anfi_abs_join(t, before, a, true))) return NULL;
  } while (*held != before);
  if (both != before) t->rises++;
  *held = both;
  return anfi_abs_boxed(t, param);
}

const anf_node *anfi_box_bound(anfi_abs_table *t, const anf_graph *g, size_t n,
                               const anfi_abs **bound) {
  for (size_t i = 0; g && i < n && i < g->params.n; i++) {
    const anf_node *param = g->params.at[i];
    if (param->id >= t->nboxed || !t->boxed[param->id]) continue;
    if (bound[i]->kind == ANFI_ABS_BOXED || !anfi_abs_has_fn(bound[i])) continue;
    const anfi_abs *box = anfi_abs_box(t, param, bound[i]);
    if (!box) return param;
    bound[i] = box;
  }
  return NULL;
}

/* ---- which closures are to bind boxes ---- */

/* The next code inside, where codes nest deepest; NULL if there is none. */
static const anfi_abs *deepest(const anfi_abs *a) {
  const anfi_abs *into = a;
  do {
    a = into;
    for (uint32_t i = 0; i < a->n; i++)
      if (into == a || a->item[i]->depth > into->depth) into = a->item[i];
  } while (into != a && into->kind != ANFI_ABS_CODE);
  return into != a && into->depth ? into : NULL;
}

/* Boxes the environment of g in this code, if it holds functions and is not boxed yet. */
static bool box_items(anfi_inference *q, const anfi_abs *code) {
  bool more = false;
  for (uint32_t i = 0; i < code->n; i++) {
    uint32_t id = code->graph->params.at[i]->id;
    if (id >= q->abs.nboxed || q->abs.boxed[id] || !anfi_abs_has_fn(code->item[i])) continue;
    q->abs.boxed[id] = q->abs.bottom;
    more = true;
  }
  return more;
}

/* Boxes environments of graphs that recur inside their own environment. A derivative of a derivative and so
 * on without bound has no end in boxes either. */
static bool box_nest(anfi_inference *q, const anfi_abs *closure) {
  uint8_t *seen = ANFI_NEW_N(q->arena, uint8_t, q->m->graphs.n);
  bool more = false;
  for (const anfi_abs *c = closure; c; c = deepest(c)) {
    if (!c->graph && anfi_op_makes_function((anfi_opcode)c->op)) return false;
    if (c->graph && seen[c->graph->id]++ == 1) more |= box_items(q, c);
  }
  return more;
}

bool anfi_endless_closures(anfi_inference *q, anfi_demanded d) {
  if (d.closure && box_nest(q, d.closure)) return q->again = q->forget = true, false;
  anfi_loc at = d.node ? anfi_node_loc(d.node) : anfi_nowhere();
  for (const anfi_spec *s = q->now; s && !at.line; s = s->caller)
    if (s->call) at = anfi_node_loc(s->call);
  anfi_fail(q->cx, at, ANF_E0522, d.op);
  return anfi_infer_trace(q), false;
}
