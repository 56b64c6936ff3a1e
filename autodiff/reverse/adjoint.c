// SPDX-License-Identifier: Apache-2.0
/* Sums of adjoints. In f(x) = x * x + sin(x) the leaf x has three uses, so its adjoint is a sum of
 * three terms:
 *   x̄ = z̄ * x + z̄ * x + ȳ * cos(x)
 * Terms of a leaf wait in a list until the backward sweep reaches the leaf's node; then they are added
 * in the order of the program. No term is the number zero: a missing list is a symbolic zero.
 * A term may carry a minus sign (`minus`), so that x̄ = a - b is built as Sub and not as Add of a Neg. */
#include "autodiff/reverse/j.h"
#include "ir/worklist.h"

static anfi_adjoint_term **terms_of(const anfi_jbuild *q, const anf_node *n, size_t k) {
  const anfi_jgraph *jg = q->s->jg;
  return n->kind == ANFI_PARAM ? &q->padj[jg->pfirst[n->u.index] + k]
                               : &q->adj[jg->first[anfi_position(q, n)] + k];
}

void anfi_add_term(anfi_jbuild *q, anfi_adjoint_term **at, anf_node *dx, bool minus) {
  anfi_adjoint_term *c = q->spare;
  if (c) q->spare = c->next;
  else c = ANFI_NEW(q->j->a, anfi_adjoint_term);
  *c = (anfi_adjoint_term){dx, *at, minus};
  *at = c;
}

anf_node *anfi_negative(anfi_jbuild *q, anf_node *x) {
  return anfi_ad_apply1(q->ad, q->b, ANF_OP_Neg, x);
}

void anfi_add_signed(anfi_jbuild *q, const anf_node *n, size_t k, anf_node *dx, bool minus) {
  if (!dx || n->kind == ANFI_VALUE || !anfi_varied(q->j, n)[k]) return;
  anf_node **so_far = n->kind == ANFI_PARAM ? &q->sum[q->s->jg->pfirst[n->u.index] + k] : NULL;
  if (so_far && *so_far)
    *so_far = anfi_add_leaf(q->ad, q->b, *so_far, minus ? anfi_negative(q, dx) : dx);
  else anfi_add_term(q, terms_of(q, n, k), dx, minus);
}

void anfi_add_adjoint(anfi_jbuild *q, const anf_node *n, size_t k, anf_node *dx) {
  anfi_add_signed(q, n, k, dx, false);
}

static bool is_elementwise(const anf_node *n) { return anfi_op_of(n)->scalar; }

/* a + b, or a - b. */
static anf_node *add(anfi_jbuild *q, anf_node *a, anf_node *b, bool minus) {
  bool common =
      a->type == b->type && a->type == q->ad->common && is_elementwise(a) && is_elementwise(b);
  if (!common) return anfi_add_leaf(q->ad, q->b, a, minus ? anfi_negative(q, b) : b);
  anfi_apply_of of = anfi_ad_next(q->ad, q->b);
  of.op = minus ? ANF_OP_Sub : ANF_OP_Add;
  of.type = a->type;
  return anfi_ad_apply_typed(q->ad, &of, 2, (anf_node *const[]){a, b});
}

/* Writes into zeros add to the first term that is a whole array, if there is one: it comes first. */
static void whole_first(anfi_jbuild *q, anfi_adjoint_term **list) {
  anfi_adjoint_term **at = list, *first;
  while (*at && !(*at)->minus && anfi_ad_is_written(q->ad, (*at)->node)) at = &(*at)->next;
  if (at == list || !(first = *at)) return;
  *at = first->next;
  first->next = *list;
  *list = first;
}

/* The newest term comes from the node's first user, so the sum is in the order of the program. */
anf_node *anfi_sum_terms(anfi_jbuild *q, anfi_adjoint_term **list, bool *minus) {
  anf_node *x = NULL;
  *minus = false;
  if (*list && (*list)->next) whole_first(q, list);
  for (anfi_adjoint_term *c; (c = *list);) {
    if (!x) {
      x = c->node;
      *minus = c->minus;
    } else if (*minus == c->minus) {
      x = add(q, x, c->node, false);
    } else {
      x = *minus ? add(q, c->node, x, true) : add(q, x, c->node, true);
      *minus = false;
    }
    *list = c->next;
    c->next = q->spare;
    q->spare = c;
  }
  return x;
}

static anf_node *sum(anfi_jbuild *q, anfi_adjoint_term **list) {
  bool minus;
  anf_node *x = anfi_sum_terms(q, list, &minus);
  return minus ? anfi_negative(q, x) : x;
}

void anfi_may_be_unused(const anf_node *n) {
  if (n->graph) anfi_work_add(n, ANFI_WORK_DCE);
}

bool anfi_adjoint(anfi_jbuild *q, const anf_node *n, anf_node **leaf) {
  size_t k = anfi_count(q->j, n);
  bool some = false;
  for (size_t i = 0; i < k; i++) {
    leaf[i] = sum(q, terms_of(q, n, i));
    some |= leaf[i] != NULL;
    if (leaf[i]) anfi_may_be_unused(leaf[i]);
  }
  return some;
}

anf_node *anfi_take_sum(anfi_jbuild *q, const anf_node *n, size_t k) {
  return n->kind == ANFI_VALUE || !anfi_j_repeated(q->s) ? NULL : sum(q, terms_of(q, n, k));
}

size_t anfi_given_list(anfi_jbuild *q, const bool *mask, anf_node *y, anf_node *const *leaf,
                       anf_node **out) {
  const anf_type *t = anfi_ad_type_of(q->ad, y);
  size_t k = anfi_ad_leaves(t), n = 0;
  anf_node **primal = ANFI_NEW_N(q->j->a, anf_node *, k + 1);
  bool missing = false;
  for (size_t i = 0; i < k; i++) missing |= mask[i] && !leaf[i];
  if (missing) anfi_leaf_nodes(q->ad, q->b, y, primal);
  for (size_t i = 0; i < k; i++)
    if (mask[i])
      out[n++] = leaf[i] ? leaf[i] : anfi_zero_leaf(q->ad, q->b, primal[i]->type, primal[i]);
  return n;
}
