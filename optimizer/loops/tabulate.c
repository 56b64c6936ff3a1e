// SPDX-License-Identifier: Apache-2.0
/* An op on each element of an invariant array, again and again, becomes one on the array.
 *   for i in 0..n { for j in 0..len(q) { .. Exp(q[j]) .. } }   ->   e = Exp(q); for i .. { for j .. { .. e[j] .. } }
 * The op on the array is put in the innermost step, where it has an invariant alone: hoist.c moves it out.
 * Only where the loops read each element at least twice, and that is known: each index is the counter of a loop of its own
 * that goes over the whole dim, so that the gradient has no element that the program did not read: its slope might be
 * infinite. Only ops that cost more than a read. */
#include "ir/loop.h"
#include "ir/ops/op.h"
#include "optimizer/loops/loop.h"

enum { COSTLY = 8, TWICE = 2 };

void anfi_loops_by_step(anf_module *m, anfi_map *loops) {
  for (size_t i = 0; i < m->nodes.n; i++) {
    const anf_node *n = m->nodes.at[i];
    if (!n || !anfi_is_op(n, ANF_OP_Loop) || !n->type || !n->u.attrs || !anfi_is_used(n)) continue;
    const anf_graph *step = anfi_loop_parts(n).step;
    if (!step) continue;
    uint64_t *at = anfi_map_at(loops, step->id);
    *at = *at ? 1 : anfi_key(n);
  }
}

const anf_node *anfi_loop_of_step(const anfi_map *loops, const anf_graph *g) {
  const uint64_t *at = anfi_map_find(loops, g->id);
  return at && *at > 1 ? (const anf_node *)(uintptr_t)*at : NULL;
}

bool anfi_reads_element(anf_ctx *cx, const anf_node *n) {
  const anf_node *x = n->kind == ANFI_APPLY && n->nin > 1 ? n->in[0].def : NULL;
  if (!x || x->kind != ANFI_PARAM || x->graph != n->graph || !x->type) return false;
  if (x->type->kind != ANF_TYPE_TENSOR || !x->type->n || n->nin != 1u + x->type->n) return false;
  if (n->op == ANF_OP_Take) {
    int64_t axis;
    const anf_value *v = anfi_attr_value(cx, ANF_OP_Take, n->u.attrs, 0);
    return x->type->n == 1 && v && anfi_value_is_int(v, &axis) && axis == 0;
  }
  if (n->op != ANF_OP_GetItem) return false;
  const char *spec = anfi_attr_value(cx, ANF_OP_GetItem, n->u.attrs, 0)->u.text;
  for (uint32_t i = 0; i < x->type->n; i++, spec += 2)
    if (spec[0] != 'i' || spec[1] != (i + 1u < x->type->n ? ',' : '\0')) return false;
  return true;
}

/* Where a parameter of a step is among its parameters. */
static size_t place(const anf_node *p) {
  size_t i = 0;
  while (p->graph->params.at[i] != p) i++;
  return i;
}

static bool is_int(const anf_node *n, int64_t *x) {
  return n->kind == ANFI_VALUE && anfi_value_is_int(n->u.value, x);
}

/* Does the state at `i` go from 0 to n - 1? */
static bool goes_over(const anfi_loop_op *l, size_t i, int64_t n) {
  int64_t by, first, rounds;
  return anfi_loop_counts(l, i, &by) && by == 1 &&
         is_int(l->loop->in[l->first_w + l->nw + i].def, &first) && first == 0 &&
         is_int(l->n, &rounds) && rounds == n;
}

/* Do the loops around read each element of the array at least twice? `read`: anfi_reads_element. */
static bool is_read_often(const anfi_map *loops, const anf_node *read) {
  const anf_node *x = read->in[0].def, *index[ANF_MAX_RANK];
  const anf_type *type = x->type;
  uint32_t left = type->n;
  int64_t more = 1, rounds; // rounds of loops whose counters are no index
  for (uint32_t d = 0; d < type->n; d++) index[d] = read->in[1 + d].def;
  for (const anf_graph *g = read->graph;;) {
    const anf_node *loop =
        x->kind == ANFI_PARAM && x->graph == g ? anfi_loop_of_step(loops, g) : NULL;
    if (!loop) return false;
    anfi_loop_op l = anfi_loop_parts(loop);
    bool counter = false;
    if (!l.counted || l.reverse || l.step->effects.n || place(x) >= l.nw || !is_int(l.n, &rounds) ||
        rounds < 1)
      return false;
    for (uint32_t d = 0; d < type->n; d++) {
      if (!index[d]) continue;
      if (index[d]->kind != ANFI_PARAM || index[d]->graph != g) return false;
      size_t p = place(index[d]);
      if (p < l.nw) index[d] = loop->in[l.first_w + p].def;
      else {
        if (counter || p - l.nw >= l.ns || !goes_over(&l, p - l.nw, type->dims[d])) return false;
        counter = true;
        index[d] = NULL;
        left--;
      }
    }
    if (!counter) more = rounds >= TWICE ? TWICE : more;
    if (!left && more >= TWICE) return true;
    x = loop->in[l.first_w + place(x)].def;
    g = loop->graph;
  }
}

static void tabulate(anfi_pass *p, const anfi_map *loops, anf_node *n) {
  const anf_node *read = n->in[0].def;
  const anf_type *x, *y = n->type;
  if (!anfi_reads_element(p->m->cx, read) || !y || y->kind != ANF_TYPE_TENSOR || y->n) return;
  x = read->in[0].def->type;
  if (x->dtype != y->dtype || x->varies != y->varies || !anfi_is_total(n)) return;
  if (!is_read_often(loops, read) || !anfi_rewrite(p)) return;
  anf_node *all = anfi_apply(n->graph, (anfi_opcode)n->op, n->u.attrs, 1,
                             (anf_node *[]){read->in[0].def}),
           *in[1 + ANF_MAX_RANK] = {all};
  all->type = x;
  all->debug = n->debug;
  for (uint32_t i = 1; i < read->nin; i++) in[i] = read->in[i].def;
  anf_node *by = anfi_apply(n->graph, (anfi_opcode)read->op, read->u.attrs, read->nin, in);
  by->type = y;
  by->debug = n->debug;
  anfi_substitute(n, by);
}

void anfi_opt_tabulate(anfi_pass *p, anfi_arena *a) {
  anfi_map loops;
  size_t n = p->m->nodes.n;
  anfi_map_init(&loops, a);
  anfi_loops_by_step(p->m, &loops);
  for (size_t i = 0; i < n; i++) {
    anf_node *x = p->m->nodes.at[i];
    if (!x || x->kind != ANFI_APPLY || x->nin != 1) continue;
    if (anfi_op_of(x)->lower == ANFI_LOWER_POINTWISE && anfi_op_of(x)->cost >= COSTLY)
      tabulate(p, &loops, x);
  }
}
