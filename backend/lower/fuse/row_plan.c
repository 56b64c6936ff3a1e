// SPDX-License-Identifier: Apache-2.0
/* Row fusion: finds groups of nodes that share leading dims and schedules each group as one loop over rows, so that
 * intermediates stay one row long.
 *
 *   h = Tanh(x @ w + b); s = Sum(h, axis=1)        for each row: tanh of the row, then its sum, while it is in L1
 *   Softmax(x) * 2.0                               for each row: maximum, exponentials, sum, quotient
 *   m2 = 0.9 * m + g; w2 = w - lr * m2             a flat block: rows are single elements, one nest for both
 *
 * A block is found around a reduction over the trailing dims (a sum, a norm, a softmax). Its frame is the leading dims.
 * Nodes try_join in order, pointwise ones and others that keep rows apart, until a barrier (a product, a call, an effect).
 * A node between that stays outside goes before the loop if it needs no member, else after it. Pointwise nodes that no
 * reduction takes form flat blocks: nodes of equal dims that read one another or the same tensor. Before all that,
 * products of batches that read one another, and the nodes between, form blocks whose rows are matrices:
 *
 *   Softmax(q @ k^T) @ v                           for each matrix of the batch: product, softmax, product, in cache
 *   Relu(x @ y) @ z                                the same where all matrices share y and z
 *
 * The hard case is a training step that updates state in place: a node that writes state stays in its place among the
 * readers of that state. (XLA's multi-output fusion and TVM's compute_at are the relatives.)
 *
 * INVARIANT: the new order has inputs first; only readers of state move ahead of its writers. Flat blocks may write
 * state: an optimiser's averages and its weights are fused. */
#include "backend/lower/graph/graph.h"

enum {
  WINDOW = 256,            // nodes among which a block is found
  LEAST_ROW = 32,          // elements of a row, of the largest of its tensors
  MAX_ROW = 1 << 14,       //
  MAX_BYTES = 192 << 10,   // of a row of all members
  LEAST_BATCH = 4,         // matrices of a block of products
  MAX_MATRIX = 1 << 18,    // elements of one
  MAX_MATRICES = 16 << 20, // bytes of a matrix of all members
  MAX_WRITTEN = 6,         // results of a flat block
  MAX_FLAT = 48,           // nodes of one
};

/* Products whose matrices share a right operand: with fewer rows a matrix, or smaller tensors, one product of all rows is better. */
enum {
  LEAST_SHARING = 64, // rows of a matrix
  LEAST_SHARED =
      1 << 19, // elements of a tensor that it reads or writes, and at most of the right operand
};

typedef struct frame { // the leading dims of a block
  size_t n;
  const int64_t *dims;
  uint64_t rows;
} frame;

typedef enum state { NEW, MEMBER, OUTSIDE } state;
typedef struct candidate { // a node of the window
  anf_node *node;
  bool inlined;              // fused into its consumer (fuse.c)
  bool depends;              // on a member
  bool read_now, read_later; // by nodes before or in the block; by nodes after it
  bool later;                // goes after the block
  state is;
} candidate;

typedef struct finder {
  /* the graph */
  glow *w;
  gplan *plan;
  bool in_place; // results may take the place of parameters
  /* the current window of nodes */
  frame f;
  ANFI_VEC(candidate) window;
  anfi_map at;    // node id → 1 + place in the window
  uint64_t bytes; // of a row of all members
  size_t written; // members that are not fused to their readers
  bool batch;     // blocks are of products of batches
  bool chain;     // one of them reads a member
  /* blocks of flat loops */
  bool flat;      // blocks are; what follows is for those
  size_t members; // so many
  anfi_map reads; // ids of what members read at their own points → 1
  anfi_map fused; // ids of products that are fused into their consumers, and of nodes between → 1
  /* outcome */
  const char *end; // the op at which the window ends, or NULL
  anfi_arena *tmp; // of the current attempt
} finder;

/* ---- how ops read rows ---- */

static bool plain(const anf_type *t) {
  return t && t->kind == ANF_TYPE_TENSOR && t->dtype != ANF_KEY &&
         !anfi_low_complex((anf_dtype)t->dtype);
}

static bool has_rows(const frame *f, const anf_type *t) {
  return plain(t) && t->n >= f->n && memcmp(t->dims, f->dims, f->n * sizeof *t->dims) == 0;
}

static anfi_row_way broadcast_way(const frame *f, const anf_type *out, const anf_type *x) {
  if (!plain(x) || x->n > out->n) return ROW_NONE;
  size_t over = out->n - x->n;
  if (!over && has_rows(f, x)) return ROW_OWN;
  for (size_t d = over; d < f->n; d++)
    if (x->dims[d - over] != 1) return ROW_NONE;
  return ROW_WHOLE;
}

/* Is it a product of many matrices with one right operand? */
static bool shares_right(const anf_node *n) {
  if (!anfi_is_op(n, ANF_OP_MatMul) || !plain(n->type) || n->type->n < 3) return false;
  const anf_type *right = n->in[1].def->type;
  uint64_t left = anfi_low_elements(n->in[0].def->type), out = anfi_low_elements(n->type);
  return plain(right) && right->n == 2 && n->type->dims[n->type->n - 2] >= LEAST_SHARING &&
         (left > out ? left : out) >= LEAST_SHARED && anfi_low_elements(right) <= LEAST_SHARED;
}

/* Bits of the axes that an op goes along, which attribute 0 names; 0: it has none. */
static uint32_t axes_of(anf_ctx *cx, const anf_node *n) {
  if (!(anfi_op_of(n)->flags & ANFI_ALONG) || !n->nin) return 0;
  const anf_type *x = n->op == ANF_OP_Unreduce ? n->type : n->in[0].def->type;
  const anf_value *a = anfi_attr_value(cx, (anfi_opcode)n->op, n->u.attrs, 0);
  return a && plain(x) && x->n ? anfi_reduced_axes(a, x->n) : 0;
}

static bool one_hot_inside(anf_ctx *cx, const frame *f, const anf_node *n) {
  const anf_value *a = anfi_attr_value(cx, ANF_OP_OneHot, n->u.attrs, 1);
  size_t axis = 0;
  return a && anfi_axis_in(anfi_attr_int(a), n->type->n, &axis) && axis >= f->n;
}

static anfi_row_way way_of(glow *w, const frame *f, const anf_node *n, size_t i) {
  const anf_type *x = n->in[i].def->type;
  anfi_row_way own = has_rows(f, x) ? ROW_OWN : ROW_NONE;
  if (x && x->kind == ANF_TYPE_NONE) return ROW_WHOLE;
  if (anfi_low_asks_type(n, i)) return ROW_TYPE;
  if (axes_of(w->cx, n) && i)
    return n->op == ANF_OP_SoftmaxCrossEntropy ? own : plain(x) ? ROW_WHOLE : ROW_NONE;
  if (i == 1 && shares_right(n)) return ROW_WHOLE;
  bool by_row = anfi_op_of(n)->flags & (ANFI_ALONG | ANFI_IN_ORDER);
  bool matrix = n->op == ANF_OP_MatMul || n->op == ANF_OP_Tril || n->op == ANF_OP_Triu;
  if (by_row || matrix || n->op == ANF_OP_OneHot || n->op == ANF_OP_SumTo) return own;
  return broadcast_way(f, n->type, x);
}

anfi_row_way anfi_glow_row_way(glow *w, const growblock *b, const anf_node *n, size_t i) {
  frame f = {b->nlead, b->lead, b->rows};
  return way_of(w, &f, n, i);
}

/* A product of as many matrices as each operand has, but for a right one that they share; not one that reads weights as
 * bytes, of which no row is made. */
static bool is_batch(const anf_node *n) {
  if (!anfi_is_op(n, ANF_OP_MatMul) || !plain(n->type) || n->type->n < 3) return false;
  if (anfi_low_widens_weights(n)) return false;
  frame f = {n->type->n - 2, n->type->dims, 0};
  for (size_t i = 0; i < 2; i++) {
    const anf_type *x = n->in[i].def->type;
    if (i && shares_right(n)) return anfi_low_elements(x) > 0;
    if (!has_rows(&f, x) || x->n != n->type->n || !anfi_low_elements(x)) return false;
  }
  return true;
}

/* Does the op keep rows apart, whatever its inputs are? */
static bool keeps_rows(glow *w, const frame *f, const anf_node *n) {
  uint32_t low = (UINT32_C(1) << f->n) - 1, axes = axes_of(w->cx, n);
  if (n->kind != ANFI_APPLY || n->nin != anfi_arg_count(n) || !has_rows(f, n->type)) return false;
  if (axes) return !(axes & low);
  if (anfi_op_of(n)->flags & ANFI_IN_ORDER) return true;
  switch (n->op) {
  case ANF_OP_BroadcastTo:
  case ANF_OP_BroadcastLike: return true;
  case ANF_OP_OnesLike:
  case ANF_OP_ZerosLike: return true; // of the type alone
  case ANF_OP_Tril:
  case ANF_OP_Triu: return n->type->n >= f->n + 2; // inside the matrices of a batch
  case ANF_OP_SumTo: return n->type->n == n->in[0].def->type->n;
  case ANF_OP_OneHot: return one_hot_inside(w->cx, f, n);
  case ANF_OP_MatMul: return is_batch(n) && n->type->n == f->n + 2;
  default: return anfi_lower_is_scalar((anfi_opcode)n->op);
  }
}

static uint64_t row_size(const frame *f, const anf_type *t) {
  return anfi_low_elements(t) / f->rows;
}

/* ---- members ---- */

static candidate *candidate_of(finder *q, const anf_node *n) {
  uint64_t *at = anfi_map_find(&q->at, n->id);
  return at && *at ? &q->window.at[*at - 1] : NULL;
}

/* The candidate of an input that must be computed before the node; not of one that is asked for its type alone. */
static candidate *input_of(finder *q, const anf_node *n, size_t i) {
  bool type = n->kind == ANFI_APPLY && i < anfi_arg_count(n) && anfi_low_asks_type(n, i);
  return type ? NULL : candidate_of(q, n->in[i].def);
}

/* Does the node update a step's state in place? */
static bool writes_state(const finder *q, const anf_node *n) {
  return q->in_place && q->w->to[n->id] && q->w->to[n->id][0];
}

static bool is_flat(const anf_node *n) {
  return anfi_lower_is_scalar((anfi_opcode)n->op) || anfi_is_op(n, ANF_OP_Cast);
}

static bool may_join(finder *q, const candidate *s) {
  const anf_node *n = s->node;
  uint64_t most = q->batch ? MAX_MATRIX : MAX_ROW;
  if (!keeps_rows(q->w, &q->f, n) || row_size(&q->f, n->type) > most) return false;
  if (q->batch && !row_size(&q->f, n->type)) return false;
  if (!q->batch && shares_right(n)) return false;
  if (q->flat && (!is_flat(n) || n->type->n != q->f.n)) return false;
  if (writes_state(q, n) && !q->flat) return false;
  for (size_t i = 0; i < n->nin; i++)
    if (way_of(q->w, &q->f, n, i) == ROW_NONE) return false;
  return true;
}

typedef struct group {
  ANFI_VEC(candidate *) all;
} group;

/* Is a flat block the better for these? They share what they read, there is room, and none of them is the
 * epilogue of a product: a product goes tile by tile, and has no elements one by one. */
static bool is_worth_sharing(finder *q, const group *j) {
  bool shares = q->written == 0;
  if (q->written >= MAX_WRITTEN || q->members + j->all.n > MAX_FLAT) return false;
  for (size_t k = 0; k < j->all.n; k++)
    for (size_t i = 0; i < j->all.at[k]->node->nin; i++) {
      const anf_node *n = j->all.at[k]->node, *x = n->in[i].def;
      const candidate *s = candidate_of(q, x);
      if (anfi_map_find(&q->fused, x->id)) return false;
      if (way_of(q->w, &q->f, n, i) != ROW_OWN) continue;
      shares |= s && s->is == MEMBER;
      shares |= anfi_map_find(&q->reads, x->id) != NULL;
    }
  return shares;
}

static void note_reads(finder *q, const group *j) {
  for (size_t k = 0; k < j->all.n; k++)
    for (size_t i = 0; i < j->all.at[k]->node->nin; i++)
      if (way_of(q->w, &q->f, j->all.at[k]->node, i) == ROW_OWN)
        *anfi_map_at(&q->reads, j->all.at[k]->node->in[i].def->id) = 1;
  q->members += j->all.n;
}

/* Is there a product among these that reads a member? */
static bool reads_member(finder *q, const group *j) {
  for (size_t k = 0; k < j->all.n; k++)
    for (size_t i = 0; i < j->all.at[k]->node->nin; i++) {
      const candidate *x = candidate_of(q, j->all.at[k]->node->in[i].def);
      if (x && x->is == MEMBER && is_batch(j->all.at[k]->node)) return true;
    }
  return false;
}

/* Adds the node and the producers fused into it. Every input is a member, or needs no member. */
static bool try_join(finder *q, candidate *first) {
  group j = {0};
  anfi_arena *a = q->tmp;
  if (!may_join(q, first)) return false;
  uint64_t bytes = row_size(&q->f, first->node->type) * 8;
  if (q->bytes + bytes > (q->batch ? MAX_MATRICES : MAX_BYTES)) return false;
  anfi_push(a, &j.all, first);
  for (size_t k = 0; k < j.all.n; k++)
    for (size_t i = 0; i < j.all.at[k]->node->nin; i++) {
      anfi_row_way way = way_of(q->w, &q->f, j.all.at[k]->node, i);
      candidate *x = candidate_of(q, j.all.at[k]->node->in[i].def);
      if (!x || way == ROW_TYPE) continue;
      bool inner = way == ROW_OWN && x->is == NEW && x->inlined && may_join(q, x);
      if (inner) anfi_push(a, &j.all, x);
      else if (x->is == MEMBER ? way != ROW_OWN : x->depends) return false;
    }
  if (q->flat && !is_worth_sharing(q, &j)) return false;
  if (q->flat) note_reads(q, &j);
  q->chain |= reads_member(q, &j);
  for (size_t k = 0; k < j.all.n; k++) j.all.at[k]->is = MEMBER;
  q->bytes += bytes;
  q->written++;
  return true;
}

static void consider(finder *q, candidate *s) {
  const anf_node *n = s->node;
  s->depends = writes_state(q, n) && q->written;
  for (size_t i = 0; i < n->nin && !s->depends; i++) {
    const candidate *x = input_of(q, n, i);
    s->depends = x && (x->depends || x->is == MEMBER);
  }
  if (s->inlined || try_join(q, s)) return;
  s->is = OUTSIDE;
}

/* ---- windows ---- */

/* A barrier: no node moves across it. */
static bool is_barrier(const anf_node *n) {
  if (n->kind != ANFI_APPLY || !n->type || n->flags & ANFI_NODE_EFFECT) return true;
  switch ((anfi_opcode)n->op) {
  case ANF_OP_MakeTuple:
  case ANF_OP_MakeRecord:
  case ANF_OP_TupleGet:
  case ANF_OP_RecordGet: return false;
  default: break;
  }
  if (n->type->kind != ANF_TYPE_TENSOR) return true;
  switch (anfi_op_of(n)->lower) {
  case ANFI_LOWER_POINTWISE:
  case ANFI_LOWER_INDEX_MAP:
  case ANFI_LOWER_REDUCE: return false;
  default: return true;
  }
}

/* The frame of a flat block around this node. */
static bool flat_frame_of(finder *q, const candidate *s) {
  const anf_type *t = s->node->type;
  if (s->inlined || s->node->kind != ANFI_APPLY || !plain(t) || !is_flat(s->node)) return false;
  q->f = (frame){t->n, t->dims, anfi_low_elements(t)};
  return q->f.rows >= LEAST_ROW;
}

/* The frame of a product of batches: the batches. */
static bool batch_frame_of(finder *q, const candidate *s) {
  const anf_type *t = s->node->type;
  if (!is_batch(s->node)) return false;
  q->f = (frame){t->n - 2, t->dims, 1};
  for (size_t k = 0; k < q->f.n; k++) q->f.rows *= (uint64_t)t->dims[k];
  return q->f.rows >= LEAST_BATCH;
}

/* The frame of a reduction: its leading dims. */
static bool frame_of(finder *q, const anf_node *n) {
  uint32_t axes = axes_of(q->w->cx, n);
  const anf_type *x = axes ? n->in[0].def->type : NULL;
  uint64_t row = 1;
  if (!axes || n->op == ANF_OP_Unreduce) return false;
  q->f = (frame){0, x->dims, 1};
  while (!(axes >> q->f.n & 1)) q->f.rows *= (uint64_t)x->dims[q->f.n++];
  for (size_t k = q->f.n; k < x->n; k++) row *= (uint64_t)x->dims[k];
  return q->f.rows > 1 && row >= LEAST_ROW && row <= MAX_ROW;
}

static void reset(finder *q) {
  q->bytes = q->written = q->members = 0;
  q->chain = false;
  anfi_arena_free(q->tmp);
  anfi_map_init(&q->at, q->tmp);
  anfi_map_init(&q->reads, q->tmp);
  for (size_t i = 0; i < q->window.n; i++) {
    q->window.at[i].is = NEW;
    q->window.at[i].depends = false;
    q->window.at[i].later = q->window.at[i].read_now = q->window.at[i].read_later = false;
  }
}

static void emit(finder *q, const candidate *s) {
  gplan *p = q->plan;
  if (s->inlined) p->inlined[p->n / 64] |= UINT64_C(1) << (p->n % 64);
  p->node[p->n++] = s->node;
}

/* Producers fused into nodes after the loop go with those: another block may take them in. */
static void find_later(finder *q) {
  for (size_t i = q->window.n; i-- > 0;) {
    candidate *s = &q->window.at[i];
    s->later = s->is != MEMBER && (s->depends || (s->inlined && s->read_later && !s->read_now));
    for (size_t k = 0; k < s->node->nin; k++) {
      candidate *x = candidate_of(q, s->node->in[k].def);
      if (x && s->later) x->read_later = true;
      else if (x) x->read_now = true;
    }
  }
}

/* The nodes before the loop, then the loop. The nodes after it are the next window. */
static void emit_block(finder *q) {
  gplan *p = q->plan;
  size_t rest = 0;
  find_later(q);
  for (size_t i = 0; i < q->window.n; i++)
    if (q->window.at[i].is != MEMBER && !q->window.at[i].later) emit(q, &q->window.at[i]);
  growblock b = {.from = p->n,
                 .nlead = q->f.n,
                 .lead = q->f.dims,
                 .rows = q->f.rows,
                 .flat = q->flat,
                 .batch = q->batch,
                 .end = q->flat || q->batch ? NULL : q->end};
  for (size_t i = 0; i < q->window.n; i++)
    if (q->window.at[i].is == MEMBER) emit(q, &q->window.at[i]);
  b.to = p->n;
  anfi_push(q->w->a, &p->block, b);
  for (size_t i = 0; i < q->window.n; i++)
    if (q->window.at[i].later) q->window.at[rest++] = q->window.at[i];
  q->window.n = rest;
}

/* Members write state before the nodes after the loop run: none of those may read the old state. */
static bool state_is_safe(const finder *q) {
  anfi_map read;
  bool any = false;
  anfi_map_init(&read, q->tmp);
  for (size_t k = 0; k < q->window.n; k++) {
    const candidate *s = &q->window.at[k];
    if (s->is != MEMBER) continue;
    any |= writes_state(q, s->node);
    for (size_t i = 0; i < s->node->nin; i++) *anfi_map_at(&read, s->node->in[i].def->id) = 1;
  }
  for (size_t k = 0; k < q->window.n && any; k++) {
    const candidate *s = &q->window.at[k];
    if (s->is == MEMBER || !s->depends || writes_state(q, s->node)) continue;
    for (size_t i = 0; i < s->node->nin; i++)
      if (anfi_low_given(s->node->in[i].def) && anfi_map_find(&read, s->node->in[i].def->id))
        return false;
  }
  return true;
}

/* A node between two members that is none itself can go neither before the loop nor after it. */
static bool consistent(finder *q) {
  bool after = false; // a member
  for (size_t k = 0; k < q->window.n; k++) {
    candidate *s = &q->window.at[k];
    bool depends = after && s->is != MEMBER && writes_state(q, s->node);
    after |= s->is == MEMBER;
    for (size_t i = 0; i < s->node->nin; i++) {
      const candidate *x = input_of(q, s->node, i);
      if (!x) continue;
      if (s->is != MEMBER) depends |= x->is == MEMBER || x->depends;
      else if (x->is != MEMBER && x->depends) return false;
    }
    s->depends = depends;
  }
  return true;
}

/* A block with the frame of candidate i. */
static bool find_block(finder *q, size_t i) {
  const candidate *s = &q->window.at[i];
  if (!(q->flat ? flat_frame_of(q, s) : q->batch ? batch_frame_of(q, s) : frame_of(q, s->node)))
    return false;
  reset(q);
  for (size_t k = 0; k < q->window.n; k++) {
    *anfi_map_at(&q->at, q->window.at[k].node->id) = k + 1;
    if (!q->flat || k >= i) consider(q, &q->window.at[k]);
  }
  bool found = q->window.at[i].is == MEMBER && (q->batch ? q->chain : q->written > 1);
  return found && consistent(q) && state_is_safe(q);
}

static void find_blocks(finder *q, bool flat) {
  q->flat = flat;
  for (size_t i = 0; i < q->window.n; i++)
    if (find_block(q, i)) {
      emit_block(q);
      i = SIZE_MAX; // again from the first that remains
    }
}

static void flush_window(finder *q) {
  find_blocks(q, false);
  find_blocks(q, true);
  for (size_t i = 0; i < q->window.n; i++) emit(q, &q->window.at[i]);
  q->window.n = 0;
}

/* Relu(x @ W + b): both the product and the sum are fused into Relu, which runs on the product's tiles. */
static bool is_left(finder *q, const candidate *s, bool barrier) {
  bool found = barrier;
  for (size_t i = 0; i < s->node->nin && !found; i++)
    found = anfi_map_find(&q->fused, s->node->in[i].def->id) != NULL;
  return s->inlined && found;
}

/* Without nodes that a loop computes after its rounds. */
static anf_node **planned(glow *w, size_t *n, anf_node *const *order) {
  anf_node **r = ANFI_NEW_N(w->a, anf_node *, *n + 1);
  size_t k = 0;
  for (size_t i = 0; i < *n; i++)
    if (!anfi_map_find(&w->left, order[i]->id)) r[k++] = order[i];
  *n = k;
  return r;
}

/* ---- products of batches ---- */

static gplan *new_plan(glow *w, size_t n) {
  gplan *p = ANFI_NEW(w->a, gplan);
  p->node = ANFI_NEW_N(w->a, anf_node *, n + 1);
  p->inlined = ANFI_NEW_N(w->a, uint64_t, n / 64 + 1);
  return p;
}

static void flush_batches(finder *q) {
  bool any = false;
  for (size_t i = 0; i < q->window.n && !any; i++) any = is_batch(q->window.at[i].node);
  for (size_t i = 0; any && i < q->window.n; i++)
    if (find_block(q, i)) {
      emit_block(q);
      i = SIZE_MAX; // again from the first that remains
    }
  for (size_t i = 0; i < q->window.n; i++) emit(q, &q->window.at[i]);
  q->window.n = 0;
}

/* A product by a shared right operand that a Reshape alone reads: it is written in its place, a block at a time. */
static bool is_reshaped(const anf_node *n) {
  return shares_right(n) && n->uses && !n->uses->next && anfi_is_op(n->uses->user, ANF_OP_Reshape);
}

/* The nodes in an order where blocks of products of batches are together. */
static const gplan *plan_batches(glow *w, size_t n, anf_node *const *order, bool in_place) {
  const uint64_t *bits = anfi_fuse_plan(w->a, n, order, w->index, in_place);
  gplan *p = new_plan(w, n);
  finder q = {.w = w, .plan = p, .in_place = in_place, .batch = true, .tmp = anfi_scratch(w->cx)};
  for (size_t i = 0; i < n; i++) {
    bool forced = anfi_map_find(&w->forced, order[i]->id);
    bool apart = forced || is_reshaped(order[i]);
    candidate s = {.node = order[i], .inlined = anfi_fuse_inlined(bits, i) && !apart};
    bool product = anfi_is_op(order[i], ANF_OP_MatMul) || anfi_is_op(order[i], ANF_OP_Linear);
    bool barrier = is_barrier(order[i]) && !(product && plain(order[i]->type));
    if (barrier || q.window.n == WINDOW) flush_batches(&q);
    if (barrier) emit(&q, &s);
    else anfi_push(w->a, &q.window, s);
  }
  flush_batches(&q);
  return p;
}

/* ---- all ---- */

static void add_node(finder *q, const candidate *s) {
  anf_node *n = s->node;
  bool barrier = is_barrier(n);
  q->end = !barrier ? NULL : n->kind == ANFI_APPLY ? anfi_op_of(n)->name : "call";
  if (barrier || q->window.n == WINDOW) flush_window(q);
  if (is_left(q, s, barrier)) *anfi_map_at(&q->fused, n->id) = 1;
  if (barrier) emit(q, s);
  else anfi_push(q->w->a, &q->window, *s);
}

/* A block that plan_batches found. */
static void add_batch(finder *q, const gplan *found, growblock b) {
  size_t from = q->plan->n;
  for (size_t i = b.from; i < b.to; i++)
    emit(q, &(candidate){.node = found->node[i], .inlined = anfi_fuse_inlined(found->inlined, i)});
  b.from = from;
  b.to = q->plan->n;
  anfi_push(q->w->a, &q->plan->block, b);
}

gplan *anfi_glow_plan(glow *w, size_t n, anf_node *const *all, bool in_place) {
  anf_node **order = planned(w, &n, all);
  const gplan *batches = plan_batches(w, n, order, in_place);
  finder q = {.w = w, .plan = new_plan(w, n), .in_place = in_place, .tmp = anfi_scratch(w->cx)};
  q.plan->in_place = in_place;
  anfi_map_init(&q.fused, w->a);
  for (size_t i = 0, k = 0; i < n; i++) {
    if (k < batches->block.n && i == batches->block.at[k].from) {
      q.end = "products of batches";
      flush_window(&q);
      add_batch(&q, batches, batches->block.at[k]);
      i = batches->block.at[k++].to - 1;
    } else
      add_node(&q, &(candidate){.node = batches->node[i],
                                .inlined = anfi_fuse_inlined(batches->inlined, i)});
  }
  q.end = NULL;
  flush_window(&q);
  return q.plan;
}
