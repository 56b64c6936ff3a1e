// SPDX-License-Identifier: Apache-2.0
/* Loop fusion of pointwise ops: decides for each node whether it is fused into its consumer.
 *
 *   y = Exp(x); z = y * 2       y has one consumer that reads it element by element: one nest, no buffer for y
 *   y = Exp(x); z = y + Tanh(y) both consumers are in one nest and read y at the same points: computed once there
 *   y = Exp(x); (y, Sum(y))     the result needs y as a whole: y has a nest of its own
 *
 * One pass from the results to the inputs, linear in the graph (Halide would call it choosing compute_at). Points are
 * distinguished by classes: a pointwise consumer of the node's own shape passes its class on, an index map or a broadcast
 * makes a new one. A node that broadcasts is fused only if it is cheap, for it is computed again for each element;
 * nests are bounded in depth and in nodes. A slice of a buffer costs no more than the buffer: any number of nests may
 * read it. So may they a large tensor that a cheap op makes of small ones, such as all differences of two lists.
 *
 * The hard case is a matrix product: a nest of pointwise ops that reads it at the nest's own points becomes its
 * epilogue (gemm/epilogue.c), which runs on each block of the product while that is in cache. One product to a nest,
 * and none if it reads the state that the nest updates in place. */
#include "backend/lower/low.h"
#include "ir/ops/kernel.h"
#include "ir/ops/nn/window.h"

enum { MAX_DEPTH = 32, MAX_NODES = 32, CHEAP = 4 };
#define NO_EPILOGUE UINT32_MAX // the nest may be no epilogue

typedef struct place { // of a node; 0 while no consumer was seen
  uint32_t nest;       // 1 + index in the order of the node whose nest it is in
  uint32_t depth;      // nodes between it and the nest's own
  uint64_t points;     // class of points it is read at
  bool split;          // read by more than one nest, or needed as a whole
  bool plain;          // read by pointwise ops alone, from here to the nest's own
  bool operand;        // a strided view that products alone read, where it is
  bool again;          // computed by each nest that reads it
  bool below;          // a view that such a view reads
} place;

typedef struct plan {
  place *at;         // by index in order
  uint32_t *nodes;   // of each nest, by index of its own node
  uint32_t *product; // of each nest: 1 + index of the product whose epilogue it is; or NO_EPILOGUE
  const anf_node **state; // of each nest: the parameter that it updates in place
  uint32_t *index;        // by node id: 1 + index in order, or anything if that is another node
  anf_node *const *order;
  size_t n; // of order
  bool in_place;
} plan;

/* 1 + its index; 0: it is not among them. */
static size_t number_of(const plan *p, const anf_node *x) {
  size_t i = p->index[x->id];
  return i && i <= p->n && p->order[i - 1] == x ? i : 0;
}

static bool has(const anf_node *n, uint32_t flag) { return anfi_op_of(n)->flags & flag; }

static bool is_map(anfi_lower k) { return k == ANFI_LOWER_POINTWISE || k == ANFI_LOWER_INDEX_MAP; }

/* May the op be fused at all? An op that may trap must run for every element. */
bool anfi_low_may_inline(const anf_node *n) {
  if (n->kind != ANFI_APPLY || !is_map(anfi_op_of(n)->lower) || !n->type) return false;
  if (n->type->kind != ANF_TYPE_TENSOR || n->type->n == 0) return false;
  if (anfi_op_of(n)->flags & ANFI_AS_WHOLE) return false;
  return !(anfi_op_of(n)->flags & ANFI_FAILS) || anfi_dtype_is_float((anf_dtype)n->type->dtype);
}

/* Does the op read every element of input i at the point of its own? */
static bool same_points(const anf_node *user, const anf_node *x) {
  if (user->kind != ANFI_APPLY || !user->type || user->type->kind != ANF_TYPE_TENSOR) return false;
  if (anfi_op_of(user)->flags & ANFI_IN_ORDER) return true;
  return anfi_op_of(user)->lower == ANFI_LOWER_POINTWISE && user->type->n == x->type->n &&
         (!x->type->n ||
          memcmp(user->type->dims, x->type->dims, x->type->n * sizeof *x->type->dims) == 0);
}

/* Ops of point.c, whose inputs are all fused into the nest. */
static bool is_plain(const anf_node *n) {
  if (n->kind != ANFI_APPLY || !n->type || n->type->kind != ANF_TYPE_TENSOR) return false;
  const anfi_op_info *o = anfi_op_of(n);
  if (o->flags & ANFI_IN_ORDER) return true;
  bool by_element = o->scalar || n->op == ANF_OP_BatchNorm;
  return o->lower == ANFI_LOWER_POINTWISE && by_element && !(o->flags & ANFI_AS_WHOLE);
}

static bool is_output(const anf_node *n) {
  for (const anfi_use *u = n->uses; u; u = u->next)
    if (anfi_is_op(u->user, ANF_OP_MakeTuple) || anfi_is_op(u->user, ANF_OP_MakeRecord))
      return true;
  return n == n->graph->result;
}

const anf_node *anfi_low_given(const anf_node *n) {
  while (anfi_is_op(n, ANF_OP_TupleGet) || anfi_is_op(n, ANF_OP_RecordGet)) n = n->in[0].def;
  return n->kind == ANFI_PARAM ? n : NULL;
}

/* May the product read the parameter's memory? */
static bool reads(const anf_node *product, const anf_node *param) {
  for (uint32_t i = 0; i < product->nin; i++) {
    const anf_node *n = product->in[i].def;
    while (n->kind == ANFI_APPLY && n->nin && anfi_op_of(n)->lower == ANFI_LOWER_INDEX_MAP)
      n = n->in[0].def;
    if (anfi_low_given(n) == param) return true;
  }
  return false;
}

static bool widens_bytes(const anf_node *x) {
  if (!anfi_is_op(x, ANF_OP_Cast) || !x->type || x->type->dtype != ANF_I32) return false;
  const anf_type *t = x->in[0].def->type;
  return t && t->kind == ANF_TYPE_TENSOR && anfi_low_byte((anf_dtype)t->dtype);
}

/* The nest reads a parameter as large as its result: state that it may update in place. A product that reads the
 * parameter, too, is not fused into that nest. */
static void note_state(plan *p, const place *want, const anf_node *x, uint64_t own,
                       uint64_t *bits) {
  const anf_node *root = p->order[want->nest - 1], *param = anfi_low_given(x);
  if (!p->in_place || want->points != own || !param || !is_output(root)) return;
  const anf_node **state = &p->state[want->nest - 1];
  uint32_t *product = &p->product[want->nest - 1];
  bool both = *state && *state != param;
  *state = param;
  if (*product && *product != NO_EPILOGUE) {
    if (!both && !reads(p->order[*product - 1], param)) return;
    bits[(*product - 1) / 64] &= ~(UINT64_C(1) << ((*product - 1) % 64));
  } else if (!both) return;
  *product = NO_EPILOGUE;
}

static bool is_convolution(const anf_node *n) {
  return n->kind == ANFI_APPLY && anfi_is_conv((anfi_opcode)n->op);
}

/* A product of bytes that are summed in i32: kernels read them as they are. */
bool anfi_low_is_of_bytes(const anf_node *n) {
  if (n->kind != ANFI_APPLY || (n->op != ANF_OP_MatMul && !is_convolution(n))) return false;
  return widens_bytes(n->in[0].def) && widens_bytes(n->in[1].def);
}

bool anfi_low_is_product(const anf_node *n) {
  if (!is_convolution(n)) return has(n, ANFI_EPILOGUE);
  return anfi_low_is_of_bytes(n) || anfi_low_conv_by_kernels(n);
}

/* Is y a few rows for each matrix of a batch of weights, at most so many? */
static bool is_rows_of(const anf_type *y, const anf_type *w, size_t most) {
  size_t all = 0, want = (size_t)y->dims[y->n - 1];
  bool batch = w->n > 2 && w->n == y->n;
  for (uint32_t k = 0; batch && k + 2 < w->n; k++) {
    if (w->dims[k] < 0 || w->dims[k] != y->dims[k]) return false;
    want *= (size_t)w->dims[k];
  }
  return (batch || w->n == 2) && anfi_type_elements(y, &all) && want && all % want == 0 &&
         all / want <= most;
}

bool anfi_low_widens_weights(const anf_node *n) {
  size_t all = 0;
  if (n->kind != ANFI_APPLY || (n->op != ANF_OP_MatMul && n->op != ANF_OP_Linear) || !n->type ||
      n->type->kind != ANF_TYPE_TENSOR || n->type->dtype != ANF_F32 || n->type->n < 1)
    return false;
  const anf_node *w = n->in[1].def;
  bool transposed = n->op == ANF_OP_Linear; // of which dot products are of one row
  if (!transposed)
    transposed =
        anfi_attr_bool(anfi_attr_value(n->graph->module->cx, ANF_OP_MatMul, n->u.attrs, 1));
  if (anfi_is_op(w, ANF_OP_Sub) && w->type && w->type->kind == ANF_TYPE_TENSOR && w->type->n == 2)
    w = w->in[0].def;
  if (!anfi_is_op(w, ANF_OP_Cast) || !w->type || w->type->dtype != ANF_F32 ||
      !is_rows_of(n->type, w->type, transposed ? 1 : ANFI_FEW_ROWS))
    return false;
  const anf_type *t = w->in[0].def->type;
  return t && t->kind == ANF_TYPE_TENSOR && anfi_low_byte((anf_dtype)t->dtype) &&
         anfi_type_elements(t, &all);
}

/* Sums of bytes are rounded to any type of numbers in the epilogue; others keep theirs. */
static bool suits_epilogue(const anf_node *x, const anf_type *root) {
  anfi_class c = anfi_dtype_class((anf_dtype)root->dtype);
  return root->dtype == x->type->dtype ||
         (anfi_low_is_of_bytes(x) && c != ANFI_CLASS_COMPLEX && c != ANFI_CLASS_KEY);
}

/* May the nest that reads product x at `at` be its epilogue? */
static bool may_be_epilogue(const plan *p, const anf_node *x, const place *at) {
  if (!anfi_low_is_product(x) || at->split || !at->nest || !at->plain || p->product[at->nest - 1])
    return false;
  const anf_node *root = p->order[at->nest - 1], *state = p->state[at->nest - 1];
  size_t a = 0, b = 0;
  if (state && reads(x, state)) return false;
  return at->points == anfi_hash_mix(at->nest - 1, 1) && suits_epilogue(x, root->type) &&
         root->type->n && anfi_type_elements(root->type, &a) && anfi_type_elements(x->type, &b) &&
         a == b;
}

bool anfi_low_asks_type(const anf_node *n, size_t i) {
  const anfi_schema *s = anfi_op_schema(n->graph->module->cx, (anfi_opcode)n->op);
  if (n->op == ANF_OP_OnesLike || n->op == ANF_OP_ZerosLike) return i == 0;
  return i < s->nin && strcmp(s->in[i]->s, "like") == 0;
}

static bool grows(const anf_node *user, const anf_node *x) {
  size_t a = 0, b = 0;
  return !anfi_type_elements(user->type, &a) || !anfi_type_elements(x->type, &b) || a > b;
}

/* Does the result's last dim come from another one of the input? */
static bool moves_last(const anf_node *x) {
  anf_ctx *cx = x->graph->module->cx;
  size_t rank = x->type->n, perm[ANF_MAX_RANK], a, b;
  const anf_value *first = anfi_attr_value(cx, (anfi_opcode)x->op, x->u.attrs, 0);
  if (anfi_op_schema(cx, (anfi_opcode)x->op)->nattr == 1)
    return anfi_permutation(first, rank, perm) && perm[rank - 1] != rank - 1;
  const anf_value *second = anfi_attr_value(cx, (anfi_opcode)x->op, x->u.attrs, 1);
  return anfi_axis_in(anfi_attr_int(first), rank, &a) &&
         anfi_axis_in(anfi_attr_int(second), rank, &b) && a != b &&
         (a == rank - 1 || b == rank - 1);
}

/* Is it a large tensor that the nest reads transposed? Nests of maps do that in squares (gemm/transposed.c), products read
 * along memory (prologue.c), others do not. */
static bool is_read_transposed(const plan *p, const anf_node *x, uint32_t nest) {
  enum { LEAST = 1 << 14 };
  const anf_node *root = p->order[nest - 1];
  size_t n = 0, rank = x->type && x->type->kind == ANF_TYPE_TENSOR ? x->type->n : 0;
  if (!has(x, ANFI_PERMUTES)) return false;
  if (rank < 2 || !anfi_type_elements(x->type, &n) || n < LEAST) return false;
  if (root->kind == ANFI_APPLY && (is_map(anfi_op_of(root)->lower) || has(root, ANFI_EPILOGUE)))
    return false;
  return moves_last(x);
}

/* A part of a buffer: reading it costs no more than reading the buffer, in any number of nests. */
static bool is_window(const anf_node *x) {
  if (!has(x, ANFI_PART)) return false;
  const anf_node *of = x->in[0].def;
  return !anfi_low_may_inline(of) && !anfi_low_is_product(of);
}

/* Does it only repeat elements, or give them other dims? */
static bool is_spread(const anf_node *n) {
  return n->kind == ANFI_APPLY && n->nin == 1 && anfi_op_of(n)->lower == ANFI_LOWER_INDEX_MAP &&
         (n->op == ANF_OP_BroadcastTo || has(n, ANFI_IN_ORDER));
}

/* Is it cheaper to compute than to read from memory? x - y of a row and a column is: both stay in cache, the difference
 * does not. Then each nest that reads it computes it, and its inputs are in memory. */
static bool is_cheap_again(const plan *p, const anf_node *x) {
  enum { LEAST = 1 << 15, TIMES = 8, MOST = 2 };
  size_t elements, sum = 0, n;
  if (p->in_place || !anfi_low_may_inline(x) || x->nin > 2 ||
      !anfi_type_elements(x->type, &elements) || elements < LEAST)
    return false;
  if (!is_spread(x) && (anfi_op_of(x)->lower != ANFI_LOWER_POINTWISE || anfi_op_of(x)->cost > MOST))
    return false;
  for (size_t i = 0; i < x->nin; i++) {
    const anf_node *of = x->in[i].def;
    while (is_spread(of)) of = of->in[0].def;
    if (of->kind == ANFI_VALUE) continue;
    if (!of->type || of->type->kind != ANF_TYPE_TENSOR || !anfi_type_elements(of->type, &n))
      return false;
    sum += n;
  }
  return sum * TIMES <= elements;
}

/* Integers that count, given other dims: whoever reads some of them computes these. */
static bool is_counted(const anf_node *x) {
  while (is_spread(x)) x = x->in[0].def;
  return anfi_is_op(x, ANF_OP_Arange) && anfi_low_may_inline(x) && x->type->dtype == ANF_I64;
}

/* Another nest reads x. It computes x again, or x has a buffer. Products of bytes read those that were widened. */
static void read_by_two(const plan *p, place *at, const anf_node *x) {
  if (is_window(x)) return;
  if (at->again || widens_bytes(x) || is_counted(x) || is_cheap_again(p, x)) at->again = true;
  else at->split = true;
}

/* ---- strided operands of products ---- */

static bool keeps_memory(const anf_node *n) {
  return (anfi_op_of(n)->flags & ANFI_IN_ORDER) && anfi_op_of(n)->lower == ANFI_LOWER_INDEX_MAP;
}

/* Does it end the epilogue of a product, such as the sum of x @ w and a bias? Then it is written as stored, and read where it is. */
static bool ends_epilogue(const anf_node *n) {
  enum { CHAIN = 8 };
  size_t a, b;
  for (int depth = 0; depth < CHAIN && anfi_low_may_inline(n) && is_plain(n); depth++) {
    const anf_node *next = NULL;
    for (uint32_t i = 0; i < n->nin && !next; i++) {
      const anf_node *x = n->in[i].def;
      if (!x->uses || x->uses->next || !x->type || x->type->kind != ANF_TYPE_TENSOR) continue;
      if (!anfi_type_elements(x->type, &a) || !anfi_type_elements(n->type, &b) || a != b) continue;
      if (anfi_low_is_product(x)) return true;
      if (anfi_low_may_inline(x)) next = x;
    }
    if (!next) return false;
    n = next;
  }
  return false;
}

/* Does it have a buffer that it shares with nobody's nest? `whole`: most of it is read */
static bool is_in_memory(const anf_node *n, bool whole) {
  while (keeps_memory(n)) n = n->in[0].def;
  if (!n->type || n->type->kind != ANF_TYPE_TENSOR || n->kind == ANFI_VALUE) return false;
  return !anfi_low_may_inline(n) || (whole && ends_epilogue(n));
}

/* Is it a view of memory, if its input is memory? */
static bool is_view(const anf_node *n) {
  return has(n, ANFI_PART | ANFI_PERMUTES) || keeps_memory(n);
}

/* Strides of a slice, transposition, exchange of axes or reshape of what has these strides. */
static bool strides_of(const anf_node *x, int64_t *stride) {
  const anf_type *from = x->in[0].def->type;
  anf_ctx *cx = x->graph->module->cx;
  anf_value *at[4] = {NULL};
  size_t rank = x->type->n, perm[ANF_MAX_RANK], a = 0, b = 0;
  int64_t old[ANF_MAX_RANK], start, step;
  uint32_t nattr = anfi_op_schema(cx, (anfi_opcode)x->op)->nattr;
  memcpy(old, stride, from->n * sizeof *old);
  if (keeps_memory(x))
    return anfi_reshaped_strides(from->n, from->dims, old, rank, x->type->dims, stride);
  for (uint32_t k = 0; k < nattr && k < 4; k++)
    if (!(at[k] = anfi_attr_value(cx, (anfi_opcode)x->op, x->u.attrs, k))) return false;
  switch (x->op) {
  case ANF_OP_Slice:
    if (!anfi_axis_in(anfi_attr_int(at[3]), rank, &a)) return false;
    anfi_slice((size_t)from->dims[a], at, &start, &step);
    stride[a] *= step;
    return step > 0;
  case ANF_OP_Transpose:
    if (!anfi_permutation(at[0], rank, perm)) return false;
    for (size_t k = 0; k < rank; k++) stride[k] = old[perm[k]];
    return true;
  case ANF_OP_SwapAxes:
    if (!anfi_axis_in(anfi_attr_int(at[0]), rank, &a) ||
        !anfi_axis_in(anfi_attr_int(at[1]), rank, &b))
      return false;
    stride[a] = old[b], stride[b] = old[a];
    return true;
  default: return false;
  }
}

static bool is_static(const anf_type *t) {
  size_t n;
  return t && t->kind == ANF_TYPE_TENSOR && t->n >= 1 && anfi_type_elements(t, &n) && n > 0;
}

static size_t uses_of(const anf_node *x) {
  enum { MANY = 16 };
  size_t n = 0;
  for (const anfi_use *u = x->uses; u && n < MANY; u = u->next) n++;
  return n;
}

/* Do `readers` such as x read all of `of`, as three slices of heads of one product do? */
static bool is_mostly_read(const anf_node *x, const anf_node *of, size_t readers) {
  size_t part, all;
  return anfi_type_elements(x->type, &part) && anfi_type_elements(of->type, &all) &&
         part >= all / readers;
}

/* Operand of a product that is a view of a tensor in memory with contiguous rows or columns, or of an Attention, with contiguous
 * rows: kernels read it there (gemm/contract.c, ops/attend.c), and no copy of it is made, or one of a matrix at a time. */
static bool is_strided_operand(const anf_node *user, size_t i, const anf_node *x) {
  enum { CHAIN = 6 };
  size_t n = 0, readers = 1;
  const anf_node *chain[CHAIN], *of = x;
  int64_t stride[ANF_MAX_RANK];
  bool moved = false, attends = anfi_is_op(user, ANF_OP_Attention) && i < 3;
  if (!attends && !(anfi_is_op(user, ANF_OP_MatMul) && i < 2) &&
      !(anfi_is_op(user, ANF_OP_Linear) && i == 1))
    return false;
  for (; n < CHAIN && is_view(of); of = of->in[0].def) {
    if (!is_static(of->type)) return false;
    moved |= !keeps_memory(of);
    chain[n++] = of;
    readers *= uses_of(of->in[0].def);
  }
  if (!moved || x->type->n < 2 || !is_static(of->type)) return false;
  if (!is_in_memory(of, is_mostly_read(x, of, readers))) return false;
  anfi_dense_strides(of->type->n, of->type->dims, stride);
  while (n)
    if (!strides_of(chain[--n], stride)) return false;
  const int64_t *dims = x->type->dims, *last = stride + x->type->n - 2;
  int64_t rows = dims[x->type->n - 2], cols = dims[x->type->n - 1];
  return (last[1] == 1 && last[0] >= cols) || (!attends && last[0] == 1 && last[1] >= rows);
}

bool anfi_low_is_operand(const anf_node *n) {
  for (const anfi_use *u = n->uses; u; u = u->next) {
    uint32_t i = 0;
    while (i < u->user->nin && &u->user->in[i] != u) i++;
    if (u->user->kind != ANFI_APPLY || !is_strided_operand(u->user, i, n)) return false;
  }
  return n->uses != NULL;
}

/* Bytes that a product of bytes reads are in memory: what computes them may be the epilogue of another product. */
static bool is_operand_of_bytes(const plan *p, const anf_node *n) {
  for (const anfi_use *u = n->uses; u && widens_bytes(n); u = u->next)
    if (u->user->kind == ANFI_APPLY && anfi_low_is_of_bytes(u->user) && number_of(p, u->user))
      return true;
  return false;
}

static void note_use(plan *p, const anf_node *user, uint32_t user_index, size_t i, uint64_t *bits) {
  anf_node *x = user->in[i].def;
  if (user->kind == ANFI_APPLY && anfi_low_asks_type(user, i)) return;
  size_t found = number_of(p, x);
  const place *u = &p->at[user_index];
  bool inside = u->nest && !u->split; // the consumer is fused itself
  bool map = user->kind == ANFI_APPLY && user->type && user->type->kind == ANF_TYPE_TENSOR &&
             is_map(anfi_op_of(user)->lower);
  bool once = (anfi_op_of(user)->flags & ANFI_ONE_PASS) != 0 &&
              (i == 0 || anfi_op_of(user)->lower != ANFI_LOWER_REDUCE);
  once |= anfi_low_is_of_bytes(user) || (i == 1 && anfi_low_widens_weights(user));
  place want = {.nest = inside ? u->nest : user_index + 1, .depth = inside ? u->depth + 1 : 1};
  uint64_t mine = inside ? u->points : anfi_hash_mix(user_index, 1);
  want.points = same_points(user, x) ? mine : anfi_hash_mix(mine, anfi_hash_mix(user->id, i));
  want.plain = is_plain(user) && (!inside || u->plain);
  note_state(p, &want, x, anfi_hash_mix(want.nest - 1, 1), bits);
  if (!found) return;
  place *to = &p->at[found - 1];
  bool of_operand = inside && (u->operand || u->below), view = of_operand && is_view(x);
  want.below = to->below | view;
  if (of_operand && !view) to->split = true; // it is memory
  bool left = i == 0 && !to->nest && !is_strided_operand(user, i, x) &&
              anfi_low_prologue(user, p->in_place) != PROLOGUE_NONE;
  if (left || (i == 1 && !to->nest && anfi_low_computes_right(user, p->in_place))) {
    *to = (place){.nest = user_index + 1, .depth = 1, .points = want.points};
    p->product[user_index] = NO_EPILOGUE; // the nest computes an operand, not the result
    return;
  }
  bool operand = is_strided_operand(user, i, x);
  if (operand || to->operand) { // of products alone, or written once
    bool mixed = to->nest && operand != to->operand;
    want.split = to->split | mixed;
    want.operand = true;
    *to = want;
    return;
  }
  bool broadcast = map && !same_points(user, x) && grows(user, x) &&
                   anfi_op[x->kind == ANFI_APPLY ? x->op : 0].cost > CHEAP;
  want.split = to->split | (inside && u->again && !view && !is_spread(x) && !is_counted(x));
  want.again = to->again | (inside && u->again);
  to->split = want.split;
  if ((!map && !once) || broadcast || (inside && is_operand_of_bytes(p, user)) ||
      is_read_transposed(p, x, want.nest) || want.depth > MAX_DEPTH ||
      p->nodes[want.nest - 1] >= MAX_NODES)
    to->split = true;
  else if (!to->nest) *to = want;
  else if (view && to->below) to->again = true; // a view of memory
  else if (to->nest != want.nest || to->points != want.points) read_by_two(p, to, x);
  else {
    to->plain &= want.plain;
    to->below |= want.below;
    to->again |= want.again;
    if (want.depth > to->depth) to->depth = want.depth;
  }
}

uint64_t *anfi_fuse_plan(anfi_arena *a, size_t n, anf_node *const *order, uint32_t *index,
                         bool in_place) {
  uint64_t *bits = ANFI_NEW_N(a, uint64_t, n / 64 + 1);
  plan p = {.at = ANFI_NEW_N(a, place, n + 1),
            .nodes = ANFI_NEW_N(a, uint32_t, n + 1),
            .product = ANFI_NEW_N(a, uint32_t, n + 1),
            .state = ANFI_NEW_N(a, const anf_node *, n + 1),
            .index = index,
            .order = order,
            .n = n,
            .in_place = in_place};
  for (size_t i = 0; i < n; i++) index[order[i]->id] = (uint32_t)i + 1;
  for (size_t i = n; i-- > 0;) {
    const anf_node *x = order[i];
    place *at = &p.at[i];
    uint64_t used = 0;
    for (const anfi_use *u = x->uses; u && used < 64; u = u->next, used++) {
      if (!number_of(&p, u->user))
        at->split = true; // used by another graph, or by a node that is not lowered here
    }
    bool epilogue = may_be_epilogue(&p, x, at);
    if (used == 64 || !(anfi_low_may_inline(x) || epilogue) || !at->nest ||
        anfi_is_result(x->graph->module, x))
      at->split = true;
    if (epilogue && !at->split) p.product[at->nest - 1] = (uint32_t)i + 1;
    if (!at->split) {
      bits[i / 64] |= UINT64_C(1) << (i % 64);
      p.nodes[at->nest - 1]++;
    }
    for (size_t k = 0; k < anfi_arg_count(x); k++) note_use(&p, x, (uint32_t)i, k, bits);
  }
  return bits;
}
