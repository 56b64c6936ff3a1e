// SPDX-License-Identifier: Apache-2.0
/* Which nodes go row by row, and the order of a graph that has them beside one another.
 *
 * A block is a loop over rows: all of the leading dims that its nodes share. What a node makes of a row
 * is read by the next while it is in the cache, and a tensor that only the block reads is never more
 * than a row. A block is found around a reduction over the dims behind the leading ones (a sum, a norm,
 * a softmax): nodes are taken in order, pointwise ones and those that keep rows apart too, until one
 * comes that is worth no waiting (a product, a call, an effect). Nodes between that stay outside go
 * before the loop if they need nothing of it, else behind it.
 *
 * What is left of pointwise nodes makes flat blocks, whose rows are single elements: nodes of equal dims
 * that read one another or the same tensor, such as a value and its derivative, share one nest.
 *
 * INVARIANT: the new order has inputs first, and those that write a step's state keep their place among
 * nodes that read it: only readers move ahead of them. Flat blocks may write state: an optimiser's
 * averages and its weights share a nest. */
#include "backend/lower/graph/graph.h"

enum {
  WINDOW = 256,          // nodes that are looked at for a block
  LEAST_ROW = 32,        // elements of a row, of the largest of its tensors
  MAX_ROW = 1 << 14,     //
  MAX_BYTES = 192 << 10, // of all rows that a block keeps
  MAX_WRITTEN = 6,       // results of a flat block
  MAX_FLAT = 48,         // nodes of one
};

typedef struct frame { // the leading dims of a block
  size_t n;
  const int64_t *dims;
  uint64_t rows;
} frame;

typedef enum state { NEW, MEMBER, OUTSIDE } state;
typedef struct seen { // a node of the window
  anf_node *node;
  bool inlined, depends; // depends: on a member
  bool read_now, read_later,
      later; // by what goes before a block or into it; behind it; goes behind it
  state is;
} seen;

typedef struct finder {
  glow *w;
  gplan *plan;
  bool in_place; // results may take the place of parameters
  frame f;
  ANFI_VEC(seen) window;
  anfi_map at;    // node id → 1 + place in the window
  uint64_t bytes; // of a row of all members
  size_t written; // members that are not left to their readers
  bool flat;      // blocks are; what follows is for those
  size_t members; // so many
  anfi_map reads; // ids of what members read at their own points → 1
  anfi_map left;  // ids of products that are fused into their consumers, and of nodes between → 1
  const char *end; // the op at which the window ends, or NULL
  anfi_arena *tmp; // of the attempt at hand
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

/* Bits of the axes that an op goes along, which attribute 0 names; 0: it has none. */
static uint32_t axes_of(anf_ctx *cx, const anf_node *n) {
  if (n->kind != ANFI_APPLY || !(anfi_op[n->op].flags & ANFI_ALONG) || !n->nin) return 0;
  const anf_type *x = n->op == ANF_OP_Unreduce ? n->type : n->in[0].def->type;
  const anf_value *a = anfi_attr_value(cx, (anfi_opcode)n->op, n->u.attrs, 0);
  return a && plain(x) && x->n ? anfi_reduced_axes(a, x->n) : 0;
}

/* Is input i there for its type alone? Ops call it `like`. */
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
  bool by_row = anfi_op[n->op].flags & (ANFI_ALONG | ANFI_IN_ORDER);
  if (by_row || n->op == ANF_OP_OneHot || n->op == ANF_OP_SumTo) return own;
  return broadcast_way(f, n->type, x);
}

anfi_row_way anfi_glow_row_way(glow *w, const growblock *b, const anf_node *n, size_t i) {
  frame f = {b->nlead, b->lead, b->rows};
  return way_of(w, &f, n, i);
}

/* Does the op keep rows apart, whatever its inputs are? */
static bool keeps_rows(glow *w, const frame *f, const anf_node *n) {
  uint32_t low = (UINT32_C(1) << f->n) - 1, axes = axes_of(w->cx, n);
  if (n->kind != ANFI_APPLY || n->nin != anfi_arg_count(n) || !has_rows(f, n->type)) return false;
  if (axes) return !(axes & low);
  if (anfi_op[n->op].flags & ANFI_IN_ORDER) return true;
  switch (n->op) {
  case ANF_OP_BroadcastTo:
  case ANF_OP_BroadcastLike: return true;
  case ANF_OP_SumTo: return n->type->n == n->in[0].def->type->n;
  case ANF_OP_OneHot: return one_hot_inside(w->cx, f, n);
  default: return anfi_lower_is_scalar((anfi_opcode)n->op);
  }
}

static uint64_t row_size(const frame *f, const anf_type *t) {
  return anfi_low_elements(t) / f->rows;
}

/* ---- members ---- */

static seen *seen_of(finder *q, const anf_node *n) {
  uint64_t *at = anfi_map_find(&q->at, n->id);
  return at && *at ? &q->window.at[*at - 1] : NULL;
}

/* That of an input that must be there before the node; one that is asked for its type alone need not. */
static seen *input_of(finder *q, const anf_node *n, size_t i) {
  bool type = n->kind == ANFI_APPLY && i < anfi_arg_count(n) && anfi_low_asks_type(n, i);
  return type ? NULL : seen_of(q, n->in[i].def);
}

/* A node that is written where a step's state is stands in an order of its own. */
static bool writes_state(const finder *q, const anf_node *n) {
  return q->in_place && q->w->to[n->id] && q->w->to[n->id][0];
}

static bool is_flat(const anf_node *n) {
  return anfi_lower_is_scalar((anfi_opcode)n->op) || anfi_is_op(n, ANF_OP_Cast);
}

static bool may_join(finder *q, const seen *s) {
  const anf_node *n = s->node;
  if (!keeps_rows(q->w, &q->f, n) || row_size(&q->f, n->type) > MAX_ROW) return false;
  if (q->flat && (!is_flat(n) || n->type->n != q->f.n)) return false;
  if (writes_state(q, n) && !q->flat) return false;
  for (size_t i = 0; i < n->nin; i++)
    if (way_of(q->w, &q->f, n, i) == ROW_NONE) return false;
  return true;
}

typedef struct joining {
  ANFI_VEC(seen *) all;
} joining;

/* Is a flat block the better for these? They share what they read, there is room, and none of them is the
 * epilogue of a product: a product goes tile by tile, and has no elements one by one. */
static bool is_shared(finder *q, const joining *j) {
  bool shares = q->written == 0;
  if (q->written >= MAX_WRITTEN || q->members + j->all.n > MAX_FLAT) return false;
  for (size_t k = 0; k < j->all.n; k++)
    for (size_t i = 0; i < j->all.at[k]->node->nin; i++) {
      const anf_node *n = j->all.at[k]->node, *x = n->in[i].def;
      const seen *s = seen_of(q, x);
      if (anfi_map_find(&q->left, x->id)) return false;
      if (way_of(q->w, &q->f, n, i) != ROW_OWN) continue;
      shares |= s && s->is == MEMBER;
      shares |= anfi_map_find(&q->reads, x->id) != NULL;
    }
  return shares;
}

static void note_reads(finder *q, const joining *j) {
  for (size_t k = 0; k < j->all.n; k++)
    for (size_t i = 0; i < j->all.at[k]->node->nin; i++)
      if (way_of(q->w, &q->f, j->all.at[k]->node, i) == ROW_OWN)
        *anfi_map_at(&q->reads, j->all.at[k]->node->in[i].def->id) = 1;
  q->members += j->all.n;
}

/* Joins the node and what is left to it. What it reads is a member, or needs no member. */
static bool join(finder *q, seen *first) {
  joining j = {0};
  anfi_arena *a = q->tmp;
  if (!may_join(q, first)) return false;
  uint64_t bytes = row_size(&q->f, first->node->type) * 8;
  if (q->bytes + bytes > MAX_BYTES) return false;
  anfi_push(a, &j.all, first);
  for (size_t k = 0; k < j.all.n; k++)
    for (size_t i = 0; i < j.all.at[k]->node->nin; i++) {
      anfi_row_way way = way_of(q->w, &q->f, j.all.at[k]->node, i);
      seen *x = seen_of(q, j.all.at[k]->node->in[i].def);
      if (!x || way == ROW_TYPE) continue;
      bool inner = way == ROW_OWN && x->is == NEW && x->inlined && may_join(q, x);
      if (inner) anfi_push(a, &j.all, x);
      else if (x->is == MEMBER ? way != ROW_OWN : x->depends) return false;
    }
  if (q->flat && !is_shared(q, &j)) return false;
  if (q->flat) note_reads(q, &j);
  for (size_t k = 0; k < j.all.n; k++) j.all.at[k]->is = MEMBER;
  q->bytes += bytes;
  q->written++;
  return true;
}

static void look(finder *q, seen *s) {
  const anf_node *n = s->node;
  s->depends = writes_state(q, n) && q->written;
  for (size_t i = 0; i < n->nin && !s->depends; i++) {
    const seen *x = input_of(q, n, i);
    s->depends = x && (x->depends || x->is == MEMBER);
  }
  if (s->inlined || join(q, s)) return;
  s->is = OUTSIDE;
}

/* ---- windows ---- */

/* Nothing behind it moves ahead of it, and nothing before it behind. */
static bool is_wall(const anf_node *n) {
  if (n->kind != ANFI_APPLY || !n->type || n->flags & ANFI_NODE_EFFECT) return true;
  switch ((anfi_opcode)n->op) {
  case ANF_OP_MakeTuple:
  case ANF_OP_MakeRecord:
  case ANF_OP_TupleGet:
  case ANF_OP_RecordGet: return false;
  default: break;
  }
  if (n->type->kind != ANF_TYPE_TENSOR) return true;
  switch (anfi_op[n->op].lower) {
  case ANFI_LOWER_POINTWISE:
  case ANFI_LOWER_INDEX_MAP:
  case ANFI_LOWER_REDUCE: return false;
  default: return true;
  }
}

/* The frame of a flat block around this node. */
static bool flat_frame_of(finder *q, const seen *s) {
  const anf_type *t = s->node->type;
  if (s->inlined || s->node->kind != ANFI_APPLY || !plain(t) || !is_flat(s->node)) return false;
  q->f = (frame){t->n, t->dims, anfi_low_elements(t)};
  return q->f.rows >= LEAST_ROW;
}

/* The frame that a reduction asks for. */
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

static void forget(finder *q) {
  q->bytes = q->written = q->members = 0;
  anfi_arena_free(q->tmp);
  anfi_map_init(&q->at, q->tmp);
  anfi_map_init(&q->reads, q->tmp);
  for (size_t i = 0; i < q->window.n; i++) {
    q->window.at[i].is = NEW;
    q->window.at[i].depends = false;
    q->window.at[i].later = q->window.at[i].read_now = q->window.at[i].read_later = false;
  }
}

static void emit(finder *q, const seen *s) {
  gplan *p = q->plan;
  if (s->inlined) p->inlined[p->n / 64] |= UINT64_C(1) << (p->n % 64);
  p->node[p->n++] = s->node;
}

/* What is left to readers that come behind the loop goes with them: another block may take it in. */
static void find_later(finder *q) {
  for (size_t i = q->window.n; i-- > 0;) {
    seen *s = &q->window.at[i];
    s->later = s->is != MEMBER && (s->depends || (s->inlined && s->read_later && !s->read_now));
    for (size_t k = 0; k < s->node->nin; k++) {
      seen *x = seen_of(q, s->node->in[k].def);
      if (x && s->later) x->read_later = true;
      else if (x) x->read_now = true;
    }
  }
}

/* Those before the loop, and the loop. What comes behind it is the window that is left. */
static void emit_block(finder *q) {
  gplan *p = q->plan;
  size_t left = 0;
  find_later(q);
  for (size_t i = 0; i < q->window.n; i++)
    if (q->window.at[i].is != MEMBER && !q->window.at[i].later) emit(q, &q->window.at[i]);
  growblock b = {.from = p->n,
                 .nlead = q->f.n,
                 .lead = q->f.dims,
                 .rows = q->f.rows,
                 .flat = q->flat,
                 .end = q->flat ? NULL : q->end};
  for (size_t i = 0; i < q->window.n; i++)
    if (q->window.at[i].is == MEMBER) emit(q, &q->window.at[i]);
  b.to = p->n;
  anfi_push(q->w->a, &p->block, b);
  for (size_t i = 0; i < q->window.n; i++)
    if (q->window.at[i].later) q->window.at[left++] = q->window.at[i];
  q->window.n = left;
}

/* Members that write state do so before what comes behind the loop, which must not read the old one. */
static bool keeps_state(const finder *q) {
  anfi_map read;
  bool any = false;
  anfi_map_init(&read, q->tmp);
  for (size_t k = 0; k < q->window.n; k++) {
    const seen *s = &q->window.at[k];
    if (s->is != MEMBER) continue;
    any |= writes_state(q, s->node);
    for (size_t i = 0; i < s->node->nin; i++) *anfi_map_at(&read, s->node->in[i].def->id) = 1;
  }
  for (size_t k = 0; k < q->window.n && any; k++) {
    const seen *s = &q->window.at[k];
    if (s->is == MEMBER || !s->depends || writes_state(q, s->node)) continue;
    for (size_t i = 0; i < s->node->nin; i++)
      if (anfi_low_given(s->node->in[i].def) && anfi_map_find(&read, s->node->in[i].def->id))
        return false;
  }
  return true;
}

/* A node between two members that is none itself has no place before the loop, nor behind it. */
static bool consistent(finder *q) {
  bool after = false; // a member
  for (size_t k = 0; k < q->window.n; k++) {
    seen *s = &q->window.at[k];
    bool depends = after && s->is != MEMBER && writes_state(q, s->node);
    after |= s->is == MEMBER;
    for (size_t i = 0; i < s->node->nin; i++) {
      const seen *x = input_of(q, s->node, i);
      if (!x) continue;
      if (s->is != MEMBER) depends |= x->is == MEMBER || x->depends;
      else if (x->is != MEMBER && x->depends) return false;
    }
    s->depends = depends;
  }
  return true;
}

/* A block of the frame that node number i asks for. */
static bool find_block(finder *q, size_t i) {
  const seen *s = &q->window.at[i];
  if (!(q->flat ? flat_frame_of(q, s) : frame_of(q, s->node))) return false;
  forget(q);
  for (size_t k = 0; k < q->window.n; k++) {
    *anfi_map_at(&q->at, q->window.at[k].node->id) = k + 1;
    if (!q->flat || k >= i) look(q, &q->window.at[k]);
  }
  return q->written > 1 && q->window.at[i].is == MEMBER && consistent(q) && keeps_state(q);
}

static void find_blocks(finder *q, bool flat) {
  q->flat = flat;
  for (size_t i = 0; i < q->window.n; i++)
    if (find_block(q, i)) {
      emit_block(q);
      i = SIZE_MAX; // again from the first that is left
    }
}

static void empty(finder *q) {
  find_blocks(q, false);
  find_blocks(q, true);
  for (size_t i = 0; i < q->window.n; i++) emit(q, &q->window.at[i]);
  q->window.n = 0;
}

/* Relu(x @ W + b): both the product and the sum are fused into Relu, which runs on the product's tiles. */
static bool is_left(finder *q, const seen *s, bool wall) {
  bool found = wall;
  for (size_t i = 0; i < s->node->nin && !found; i++)
    found = anfi_map_find(&q->left, s->node->in[i].def->id) != NULL;
  return s->inlined && found;
}

/* Without what a loop computes behind its rounds. */
static anf_node **planned(glow *w, size_t *n, anf_node *const *order) {
  anf_node **r = ANFI_NEW_N(w->a, anf_node *, *n + 1);
  size_t k = 0;
  for (size_t i = 0; i < *n; i++)
    if (!anfi_map_find(&w->left, order[i]->id)) r[k++] = order[i];
  *n = k;
  return r;
}

gplan *anfi_glow_plan(glow *w, size_t n, anf_node *const *all, bool in_place) {
  anf_node *const *order = planned(w, &n, all);
  uint64_t *bits = anfi_fuse_plan(w->a, n, order, w->index, in_place);
  gplan *p = ANFI_NEW(w->a, gplan);
  finder q = {.w = w, .plan = p, .in_place = in_place, .tmp = anfi_scratch(w->cx)};
  p->node = ANFI_NEW_N(w->a, anf_node *, n + 1);
  p->inlined = ANFI_NEW_N(w->a, uint64_t, n / 64 + 1);
  anfi_map_init(&q.left, w->a);
  for (size_t i = 0; i < n; i++) {
    seen s = {.node = order[i], .inlined = anfi_fuse_inlined(bits, i)};
    bool wall = is_wall(order[i]);
    q.end = !wall ? NULL : order[i]->kind == ANFI_APPLY ? anfi_op[order[i]->op].name : "call";
    if (wall || q.window.n == WINDOW) empty(&q);
    if (is_left(&q, &s, wall)) *anfi_map_at(&q.left, order[i]->id) = 1;
    if (wall) emit(&q, &s);
    else anfi_push(w->a, &q.window, s);
  }
  q.end = NULL;
  empty(&q);
  return p;
}
