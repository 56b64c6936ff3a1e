// SPDX-License-Identifier: Apache-2.0
/* How a graph is cut into loops, in words, for --explain.
 *   y = Softmax(x @ w)   ->   a block of ops that go row by row, and the op that ended it
 * Beside blocks: ops that write their results alone, and ops computed in their consumers. */
#include "backend/lower/graph/graph.h"
#include "backend/lower/ops/attend.h"

static const char *name_of(const anf_node *n) { return anfi_op_of(n)->name; }

static void put_node(const anf_node *n, const char *before, anf_text *out) {
  anfi_loc at = anfi_node_loc(n);
  anfi_putf(out, "%s%s", before, name_of(n));
  if (at.line) anfi_putf(out, " %u:%u", at.line, at.col);
}

/* Those of from..to that are fused into consumers, or are not. False: there are none. */
static bool put_nodes(const gplan *p, size_t from, size_t to, bool inlined, const char *first,
                      anf_text *out) {
  bool any = false;
  for (size_t i = from; i < to; i++) {
    if (anfi_fuse_inlined(p->inlined, i) != inlined) continue;
    put_node(p->node[i], any ? ", " : first, out);
    any = true;
  }
  return any;
}

/* ---- bytes that a block moves, and that its ops would move one by one ---- */

static unsigned long long bytes_of(const anf_type *t) {
  if (!t || t->kind != ANF_TYPE_TENSOR) return 0;
  return anfi_low_elements(t) * anf_dtype_bytes((anf_dtype)t->dtype);
}

static bool is_read_outside(const anf_node *n, const anfi_map *member) {
  if (anfi_is_result(n->graph->module, n)) return true;
  for (const anfi_use *u = n->uses; u; u = u->next)
    if (!anfi_map_find(member, u->user->id)) return true;
  return false;
}

static void put_bytes(const gplan *p, const growblock *b, anfi_arena *a, anf_text *out) {
  unsigned long long moved = 0, alone = 0;
  anfi_map member, seen;
  anfi_map_init(&member, a);
  anfi_map_init(&seen, a);
  for (size_t i = b->from; i < b->to; i++) *anfi_map_at(&member, p->node[i]->id) = 1;
  for (size_t i = b->from; i < b->to; i++) {
    const anf_node *n = p->node[i];
    if (is_read_outside(n, &member)) moved += bytes_of(n->type);
    alone += bytes_of(n->type);
    for (size_t k = 0; k < n->nin; k++) {
      const anf_node *x = n->in[k].def;
      alone += bytes_of(x->type);
      if (anfi_map_find(&member, x->id) || (*anfi_map_at(&seen, x->id))++) continue;
      moved += bytes_of(x->type);
    }
  }
  anfi_putf(out, "\n    moves %llu bytes, op by op %llu", moved, alone);
}

static void put_block(const gplan *p, const growblock *b, anfi_arena *a, anf_text *out) {
  anfi_putf(out, "  one loop over %llu %s:", (unsigned long long)b->rows,
            b->flat    ? "elements"
            : b->batch ? "matrices"
                       : "rows");
  put_nodes(p, b->from, b->to, false, " ", out);
  put_nodes(p, b->from, b->to, true, "\n    computed where it is read: ", out);
  put_bytes(p, b, a, out);
  if (b->end) anfi_putf(out, "\n    ends before %s, which does not keep rows apart", b->end);
  anfi_putc(out, '\n');
}

/* Ops that build and take apart tuples have no code of their own. */
static bool has_code(const anf_node *n) {
  return n->kind != ANFI_APPLY || (n->op != ANF_OP_MakeTuple && n->op != ANF_OP_TupleGet);
}

static void put_alone(const anf_node *n, bool inlined, anf_text *out) {
  uint64_t slices = inlined ? 0 : anfi_low_slices(n);
  const char *before = !inlined                  ? "  "
                       : anfi_low_is_operand(n)  ? "  read by products where it is: "
                       : anfi_low_is_prologue(n) ? "  computed while a product packs it: "
                       : anfi_low_is_product(n)  ? "  product whose reader is its epilogue: "
                                                 : "  computed where it is read: ";
  put_node(n, before, out);
  if (anfi_low_is_of_bytes(n)) anfi_puts(out, ", of bytes that are summed in i32");
  if (anfi_is_op(n, ANF_OP_Attention)) {
    uint64_t rows = anfi_attend_rows_of(n);
    if (rows) anfi_putf(out, ", by kernels for %llu queries at a time", (unsigned long long)rows);
    else anfi_puts(out, ", each query by itself, in double");
  }
  if (slices) anfi_putf(out, ", in %llu slices", (unsigned long long)slices);
  anfi_putc(out, '\n');
}

void anfi_glow_explain(const anf_graph *g, const gplan *p, anf_text *out) {
  const growblock *b = p->block.at, *end = p->block.n ? b + p->block.n : b;
  anfi_arena *a = anfi_scratch(g->module->cx);
  anfi_putf(out, "%s\n", g->name->s);
  for (size_t i = 0; i < p->n; i++) {
    if (b < end && i == b->from) {
      put_block(p, b, a, out);
      i = b++->to - 1;
    } else if (has_code(p->node[i])) {
      put_alone(p->node[i], anfi_fuse_inlined(p->inlined, i), out);
    }
  }
}
