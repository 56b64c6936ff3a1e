// SPDX-License-Identifier: Apache-2.0
/* How a graph is cut into loops, in words: blocks of ops that go row by row and what ended them, ops that
 * write their results alone, and what is computed where it is read. */
#include "backend/lower/graph.h"

static const char *name_of(const anf_node *n) {
  return n->kind == ANFI_APPLY ? anfi_op[n->op].name : "a call";
}

static void put_node(const anf_node *n, const char *before, anf_text *out) {
  anfi_loc at = anfi_node_loc(n);
  anfi_putf(out, "%s%s", before, name_of(n));
  if (at.line) anfi_putf(out, " %u:%u", at.line, at.col);
}

/* Those of from..to that are left to readers, or are not. False: there are none. */
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

static void put_block(const gplan *p, const growblock *b, anf_text *out) {
  anfi_putf(out, "  one loop over %llu %s:", (unsigned long long)b->rows,
            b->flat ? "elements" : "rows");
  put_nodes(p, b->from, b->to, false, " ", out);
  put_nodes(p, b->from, b->to, true, "\n    computed where it is read: ", out);
  if (b->end) anfi_putf(out, "\n    ends before %s, which does not keep rows apart", b->end);
  anfi_putc(out, '\n');
}

/* What only arranges values has no code of its own. */
static bool has_code(const anf_node *n) {
  return n->kind != ANFI_APPLY || (n->op != ANF_OP_MakeTuple && n->op != ANF_OP_TupleGet);
}

void anfi_glow_explain(const anf_graph *g, const gplan *p, anf_text *out) {
  const growblock *b = p->block.at, *end = b + p->block.n;
  anfi_putf(out, "%s\n", g->name->s);
  for (size_t i = 0; i < p->n; i++) {
    if (b < end && i == b->from) {
      put_block(p, b, out);
      i = b++->to - 1;
    } else if (has_code(p->node[i])) {
      bool inlined = anfi_fuse_inlined(p->inlined, i);
      put_node(p->node[i], inlined ? "  computed where it is read: " : "  ", out);
      anfi_putc(out, '\n');
    }
  }
}
