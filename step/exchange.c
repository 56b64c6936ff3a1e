// SPDX-License-Identifier: Apache-2.0
/* What a step exchanges with the other ranks, as text, and whether the ranks of a split step have the same inputs.
 *   p.w: f32[8,4], of which each rank holds f32[4,4] along axis 0
 *   AllReduce of f32[4] at net.anf:12:3
 * Inputs are compared by sums over their bytes: all of a small input, blocks of a large one. Of other steps the rows are. */
#include "comm/comm.h"
#include "optimizer/opt.h"
#include "step/step.h"

#include "ir/ops/op.h"

/* ---- text ---- */

static void put_state(anf_step *s, anf_text *o) {
  size_t n = anfi_state_count(s->nstate, s->param);
  const anf_type **whole = anfi_state_types(anfi_scratch(s->cx), s->nstate, s->param);
  const anf_type **held = anfi_state_types(anfi_scratch(s->cx), s->nstate, s->held);
  const char **name = anfi_step_state_names(s);
  for (size_t i = 0; i < n; i++) {
    if (whole[i] == held[i]) continue;
    anfi_putf(o, "%s: %s, of which each rank holds %s", name[i], anfi_type_text(s->cx, whole[i]),
              anfi_type_text(s->cx, held[i]));
    if (s->axis) anfi_putf(o, " along axis %d", (int)s->axis[i]);
    anfi_putf(o, "\n");
  }
}

static void put_layer(anf_ctx *cx, const anf_node *n, anf_text *o) {
  const anf_value *v = anfi_attr_value(cx, ANF_OP_AllGather, n->u.attrs, ANFI_GATHER_LAYER);
  long long layer = (long long)anfi_get_i64(v, 0);
  if (layer) anfi_putf(o, " for layer %lld", layer);
}

const char *anfi_step_find_exchanges(anf_step *s, const anf_graph *g) {
  anfi_node_vec order = {0};
  anf_text o = {.cx = s->cx};
  anfi_graph_order((anf_graph *)(uintptr_t)g, anfi_scratch(s->cx), &order);
  if (s->nsharded) put_state(s, &o);
  for (size_t i = 0; i < order.n; i++) {
    const anf_node *n = order.at[i];
    bool exchange = anfi_op_of(n)->flags & ANFI_COLLECTIVE;
    if (!exchange || !n->nin) continue; // CommRank
    anfi_loc at = anfi_node_loc(n);
    anfi_putf(&o, "%s of %s", anfi_op_of(n)->name, anfi_type_text(s->cx, n->in[0].def->type));
    if (n->op == ANF_OP_AllGather) put_layer(s->cx, n, &o);
    if (at.file) anfi_putf(&o, " at %s:%u:%u", at.file, at.line, at.col);
    anfi_putf(&o, "\n");
  }
  const char *text = anfi_strndup(&s->arena, o.text ? o.text : "", o.len);
  anf_text_free(&o);
  return text;
}

anf_status anf_step_exchanges(const anf_step *s, anf_text *out) {
  ANFI_NEED_ELSE(out ? out->cx : s ? s->cx : NULL, ANF_INVALID, s, out);
  anfi_putf(out, "%s", s->exchanges ? s->exchanges : "");
  return ANF_OK;
}

/* ---- inputs ---- */

enum { BLOCK = 64, BLOCKS = 1 << 14 }; // of a larger input so many blocks enter the sum

static uint64_t sum_of(const anfi_step_leaf *l, uint64_t sum) {
  size_t blocks = l->bytes / BLOCK;
  if (blocks <= BLOCKS) return l->bytes ? anfi_hash(l->at, l->bytes, sum) : sum;
  for (size_t i = 0; i < BLOCKS; i++)
    sum = anfi_hash(l->at + blocks / BLOCKS * i * BLOCK, BLOCK, sum);
  return sum;
}

uint64_t anfi_step_rows(const anf_step *s) {
  uint64_t sum = 1;
  for (size_t i = 0; i < s->nleaf[ANF_INPUT]; i++) {
    const anf_type *t = s->leaf[ANF_INPUT][i].type;
    int64_t row[2] = {(int64_t)i, t->n ? t->dims[0] : 0};
    sum = anfi_hash(row, sizeof row, sum);
  }
  return sum ? sum : 1;
}

int32_t anfi_step_uneven(const anf_step *s) {
  uint64_t sum = s->rows, *all = s->sums;
  if (!s->split && s->o.comm->agreed == s->rows) return -1;
  for (size_t i = 0; i < s->nleaf[ANF_INPUT] && s->split; i++)
    sum = sum_of(&s->leaf[ANF_INPUT][i], sum);
  anf_comm_call k = {.size = sizeof k,
                     .kind = ANF_COMM_ALL_GATHER,
                     .dtype = ANF_U64,
                     .in = &sum,
                     .out = all,
                     .n = 1,
                     .ranks = s->ranks};
  int32_t bad = -1;
  /* Where the exchange fails, those of the program fail, too, and say why. */
  bool good = anf_comm_wait(s->o.comm, anf_comm_start(s->o.comm, &k), NULL);
  for (int32_t r = s->ranks; good && r-- > 1;)
    if (all[r] != all[0]) bad = r;
  s->o.comm->agreed = good && bad < 0 && !s->split ? s->rows : 0;
  return bad;
}
