// SPDX-License-Identifier: Apache-2.0
/* Sharded state (ZeRO, Rajbhandari et al. 2020; weight-update sharding, Xu et al. 2020): each rank holds and updates
 * a part of the elements.
 *
 *   g  = AllReduce(dw, mean=true)          g  = ReduceScatter(Reshape(dw, (n,)), ranks, mean=true)
 *   m' = 0.9 * m + g                ->     m' = 0.9 * m + g                                 // m, g, m': f32[c]
 *   w' = w - 0.1 * m'                      w' = Reshape(AllGather(part(w) - 0.1 * m', ranks), dims of w)
 *
 * A state tensor is sharded if everything that reads it is pointwise, of its dims, and the same on all ranks. What
 * is computed from it pointwise is local (computed for the part alone), and so is what nothing but local nodes
 * read. A local node takes parts of other tensors; where something else reads it, it is gathered. So parameters,
 * which products read, stay whole; by option they are sharded as well, and gathered for each layer (layer.c).
 *
 * Part r of n elements, in row-major order, begins at r c, with c = ceil(n / ranks). After the last element come
 * the first ones again, so padding holds true elements, computed as they are where they belong: it never makes a
 * NaN of its own.
 * INVARIANT: local nodes are those that were there, and ReduceScatter adds as AllReduce does: the bits are those
 * of a step that is not sharded. */
#include "step/step.h"

#include "ir/ops/kernel.h"
#include "optimizer/opt.h"

typedef struct shard {
  anf_ctx *cx;
  anf_module *m;
  anf_graph *g;
  anfi_arena *a;
  int64_t ranks;
  anf_shard_params params;
  size_t old; // nodes that were there have ids below this
  anfi_state st;
  /* by node */
  anfi_map differs;     // its value is not the same on all ranks
  anfi_map local;       // computed for the part alone
  anfi_map part, whole; // the nodes that compute its part, and all of it from parts
} shard;

static bool has(const anfi_map *m, const anf_node *n) { return anfi_map_find(m, n->id) != NULL; }
static void put(anfi_map *m, const anf_node *n, uint64_t x) { *anfi_map_at(m, n->id) = x; }

/* ---- which leaves are sharded ---- */

/* Can it be computed part by part, alike on all ranks? */
static bool is_splittable(const shard *s, const anf_node *n) {
  if (n->kind != ANFI_APPLY || n->graph != s->g || has(&s->differs, n)) return false;
  const anfi_op_info *op = anfi_op_of(n);
  unsigned bad = ANFI_EFFECT | ANFI_RANDOM | ANFI_CALLS | ANFI_TRANSFORM | ANFI_COLLECTIVE;
  if (op->lower != ANFI_LOWER_POINTWISE || op->flags & bad || n->flags & ANFI_NODE_EFFECT)
    return false;
  bool any = false,
       good = n->type->kind == ANF_TYPE_TENSOR && n->type->n && anfi_arg_count(n) == n->nin;
  for (uint32_t i = 0; i < n->nin && good; i++) {
    const anf_type *t = n->in[i].def->type;
    bool same = t->kind == ANF_TYPE_TENSOR && anfi_same_dims(t, n->type);
    any |= same;
    good = same || (t->kind == ANF_TYPE_TENSOR && !t->n);
  }
  return good && any;
}

/* Can all that reads n do with a part, or with what is gathered for it? */
static bool is_read_by_parts(const shard *s, const anf_node *n) {
  bool good = true, tensor = n->type->kind == ANF_TYPE_TENSOR;
  if (tensor && s->params) return true;
  for (const anfi_use *u = n->uses; u && good; u = u->next) {
    if (!tensor) good = anfi_state_reads(&s->st, u->user);
    else good = anfi_state_is_result(&s->st, u->user) || is_splittable(s, u->user);
  }
  return good;
}

static int64_t elements(const anf_type *t) {
  size_t n = 0;
  anfi_type_elements(t, &n);
  return (int64_t)n;
}

static const anf_type *part_type(const shard *s, const anf_type *t) {
  int64_t c = (elements(t) + s->ranks - 1) / s->ranks;
  return anfi_type_tensor(s->cx, (anf_dtype)t->dtype, 1, &c);
}

static bool is_large(const shard *s, const anf_type *t, uint64_t least) {
  size_t n;
  return anfi_type_elements(t, &n) && (int64_t)n >= s->ranks && anfi_type_bytes(t) >= least;
}

static bool choose(shard *s, uint64_t least) {
  bool any = false;
  for (size_t i = 0; i < s->st.leaf.n; i++) {
    anfi_state_leaf *l = &s->st.leaf.at[i];
    if (l->next && !has(&s->differs, l->next) && is_large(s, l->type, least))
      l->part = part_type(s, l->type);
  }
  for (size_t i = 0; i < s->st.nstate; i++)
    if (!is_read_by_parts(s, s->g->params.at[i])) anfi_state_keep_whole(&s->st, s->g->params.at[i]);
  for (size_t i = 0; i < s->st.order.n; i++) {
    const anf_node *n = s->st.order.at[i];
    if (anfi_state_reads(&s->st, n) && !is_read_by_parts(s, n)) anfi_state_keep_whole(&s->st, n);
  }
  for (size_t i = 0; i < s->st.leaf.n; i++) any |= s->st.leaf.at[i].part != NULL;
  return any;
}

/* The leaf that n reads, if it is sharded. */
static const anfi_state_leaf *sharded(const shard *s, const anf_node *n) {
  const anfi_state_leaf *l = anfi_state_leaf_of(&s->st, n);
  return l && l->part ? l : NULL;
}

static bool reads_local(const shard *s, const anf_node *n) {
  bool any = false;
  for (uint32_t i = 0; i < n->nin && !any; i++)
    any = has(&s->local, n->in[i].def) || sharded(s, n->in[i].def);
  return any;
}

static bool is_read_by_local(const shard *s, const anf_node *n) {
  bool all = n->uses != NULL && s->g->result != n;
  for (const anfi_use *u = n->uses; u && all; u = u->next) all = has(&s->local, u->user);
  return all;
}

static void find_local(shard *s) {
  for (size_t i = 0; i < s->st.order.n; i++) {
    const anf_node *n = s->st.order.at[i];
    if (is_splittable(s, n) && reads_local(s, n)) put(&s->local, n, 1);
  }
  for (size_t i = s->st.order.n; i-- > 0;) {
    const anf_node *n = s->st.order.at[i];
    if (!has(&s->local, n) && is_splittable(s, n) && is_read_by_local(s, n)) put(&s->local, n, 1);
  }
}

/* ---- nodes ---- */

static const anfi_attrs *two_attrs(shard *s, anfi_opcode op, anf_value *a, anf_value *b) {
  anf_value *v[8] = {a, b};
  const anfi_attrs *at = NULL;
  anfi_attrs_new(s->m, op, v, anfi_nowhere(), &at);
  return at;
}

static anf_value *number(const shard *s, int64_t x) {
  return anfi_value_new_i64(s->cx, ANF_INT, x);
}

static const anf_type *row(const shard *s, const anf_type *of, int64_t n) {
  return anfi_type_tensor(s->cx, (anf_dtype)of->dtype, 1, &n);
}

/* The elements of x in a row of ranks * c. */
static anf_node *padded(shard *s, anf_node *x) {
  int64_t n = elements(x->type), all = part_type(s, x->type)->dims[0] * s->ranks;
  int64_t width[2] = {0, all - n};
  x = anfi_reshaped(s->g, x, row(s, x->type, n));
  if (all == n) return x;
  anf_value *by = anfi_value_new_ints(s->cx, 2, width);
  anfi_release_later(by);
  anf_value *mode = anfi_value_new_string(s->cx, "wrap", 4);
  anfi_release_later(mode);
  return anfi_typed_op(s->g, ANF_OP_Pad, two_attrs(s, ANF_OP_Pad, by, mode), x,
                       row(s, x->type, all));
}

static anf_node *cut(shard *s, anf_node *x) {
  const anf_type *t = part_type(s, x->type), *i64 = anfi_type_scalar(s->cx, ANF_I64);
  anf_node *rank = anfi_typed(anfi_apply(s->g, ANF_OP_CommRank, NULL, 0, NULL), i64);
  anf_node *c = anfi_typed(anfi_value(s->m, anfi_value_new_i64(s->cx, ANF_I64, t->dims[0])), i64);
  anf_node *from = anfi_typed(anfi_apply2(s->g, ANF_OP_Mul, rank, c), i64);
  anf_node *in[2] = {padded(s, x), from};
  const anfi_attrs *at =
      anfi_attrs_one(s->m, ANF_OP_DynamicSlice, anfi_value_new_ints(s->cx, 1, t->dims));
  anf_node *n = anfi_typed(anfi_apply(s->g, ANF_OP_DynamicSlice, at, 2, in), t);
  n->debug = x->debug;
  return n;
}

static anf_node *scattered(shard *s, const anf_node *sum) {
  anf_value *mean = anfi_attr_value(s->cx, ANF_OP_AllReduce, sum->u.attrs, 0);
  anf_value *ranks = number(s, s->ranks);
  anfi_release_later(ranks);
  const anfi_attrs *at = two_attrs(s, ANF_OP_ReduceScatter, ranks, mean);
  return anfi_typed_op(s->g, ANF_OP_ReduceScatter, at, padded(s, sum->in[0].def),
                       part_type(s, sum->type));
}

/* This rank's part of x, whose type it has there as a whole. */
static anf_node *part_of(shard *s, anf_node *x) {
  if (sharded(s, x)) return x;
  uint64_t *known = anfi_map_at(&s->part, x->id);
  if (*known) return (anf_node *)(uintptr_t)*known;
  bool sum = anfi_is_op(x, ANF_OP_AllReduce) && is_read_by_local(s, x);
  anf_node *n = sum ? scattered(s, x) : cut(s, x);
  put(&s->part, x, (uint64_t)(uintptr_t)n);
  return n;
}

/* All of x, a local node or a sharded leaf. */
static anf_node *gathered(shard *s, anf_node *x, const anf_type *t, int64_t layer) {
  int64_t all = part_type(s, t)->dims[0] * s->ranks;
  anf_value *ranks = number(s, s->ranks), *at = number(s, layer);
  anfi_release_later(ranks);
  anfi_release_later(at);
  anf_node *n = anfi_typed_op(s->g, ANF_OP_AllGather, two_attrs(s, ANF_OP_AllGather, ranks, at),
                              part_of(s, x), row(s, t, all));
  if (all != elements(t))
    n = anfi_typed_op(s->g, ANF_OP_Slice,
                      anfi_attrs_nth(s->m, ANF_OP_Slice, 1, number(s, elements(t))), n,
                      row(s, t, elements(t)));
  return anfi_reshaped(s->g, n, t);
}

static anf_node *whole_of(shard *s, anf_node *x, const anf_type *t) {
  uint64_t *known = anfi_map_at(&s->whole, x->id);
  if (!*known) *known = (uint64_t)(uintptr_t)gathered(s, x, t, 0);
  return (anf_node *)(uintptr_t)*known;
}

/* ---- changing the graph ---- */

static void split(shard *s, const anf_node *n) {
  anf_node **in = ANFI_NEW_N(s->a, anf_node *, n->nin + 1);
  for (uint32_t i = 0; i < n->nin; i++) {
    anf_node *x = n->in[i].def;
    bool scalar = !x->type->n && !sharded(s, x);
    in[i] = scalar ? x : part_of(s, x);
  }
  anf_node *p = anfi_apply(s->g, (anfi_opcode)n->op, n->u.attrs, n->nin, in);
  p->debug = n->debug;
  put(&s->part, n,
      (uint64_t)(uintptr_t)anfi_typed(p, row(s, n->type, part_type(s, n->type)->dims[0])));
}

static bool reads_whole(void *user, const anf_node *n) {
  const shard *s = (const shard *)user;
  return n->id < s->old && !has(&s->local, n) && !anfi_state_is_result(&s->st, n) &&
         !anfi_state_reads(&s->st, n);
}

/* Readers that need all of n get it. */
static void gather_for_others(shard *s, anf_node *n) {
  ANFI_VEC(anfi_use *) uses = {0};
  for (anfi_use *u = n->uses; u; u = u->next)
    if (reads_whole(s, u->user)) anfi_push(s->a, &uses, u);
  for (size_t i = 0; i < uses.n; i++) {
    anf_node *user = uses.at[i]->user;
    anfi_set_input(user, (size_t)(uses.at[i] - user->in), whole_of(s, n, n->type));
  }
}

/* Its place in the program is that of what reads it. */
static anf_node *whole_for_layer(void *user, anf_node *n, const anf_node *reader, int64_t layer) {
  shard *s = (shard *)user;
  const anfi_state_leaf *l = sharded(s, n);
  anf_node *whole = gathered(s, n, l ? l->type : n->type, layer), *x = whole;
  while (!anfi_is_op(x, ANF_OP_AllGather)) x = x->in[0].def;
  x->debug = reader->debug;
  return whole;
}

/* By layers: all that is read as a whole somewhere. */
static void gather_for_layers(shard *s) {
  anfi_node_vec of = {0};
  anfi_layers_job job = {.g = s->g,
                         .a = s->a,
                         .order = &s->st.order,
                         .once = s->params == ANF_PARAMS_ONCE,
                         .reads_whole = reads_whole,
                         .whole = whole_for_layer,
                         .user = s};
  for (size_t i = 0; i < s->st.nstate; i++)
    if (sharded(s, s->g->params.at[i])) anfi_push(s->a, &of, s->g->params.at[i]);
  for (size_t i = 0; i < s->st.order.n; i++) {
    anf_node *n = s->st.order.at[i];
    if (has(&s->local, n) || (n->kind != ANFI_PARAM && sharded(s, n))) anfi_push(s->a, &of, n);
  }
  anfi_step_gather_layers(&job, of.at, of.n);
}

static anf_node *new_value(void *user, anf_node *n, const anfi_state_leaf *l) {
  shard *s = (shard *)user;
  const anfi_state_leaf *old = sharded(s, n);
  if (l && l->part) return part_of(s, n);
  return old || has(&s->local, n) ? whole_of(s, n, old ? old->type : n->type) : n;
}

static void change(shard *s) {
  anfi_state_take_parts(&s->st);
  for (size_t i = 0; i < s->st.order.n; i++)
    if (has(&s->local, s->st.order.at[i])) split(s, s->st.order.at[i]);
  for (size_t i = 0; i < s->st.order.n && !s->params; i++)
    if (has(&s->local, s->st.order.at[i])) gather_for_others(s, s->st.order.at[i]);
  if (s->params) gather_for_layers(s);
  anfi_state_give(&s->st, new_value, s);
}

size_t anfi_step_shard(anf_graph *g, size_t nstate, int32_t ranks, uint64_t least,
                       anf_shard_params params) {
  anf_ctx *cx = g->module->cx;
  anfi_arena *a = anfi_scratch(cx);
  shard s = {.cx = cx, .m = g->module, .g = g, .a = a, .ranks = ranks, .params = params};
  size_t n = 0;
  if (ranks < 2 || !nstate) return 0;
  anfi_map *maps[] = {&s.local, &s.part, &s.whole};
  for (size_t i = 0; i < ANFI_LEN(maps); i++) anfi_map_init(maps[i], a);
  s.st = (anfi_state){.cx = cx, .g = g, .a = a, .nstate = nstate};
  s.st.order = anfi_step_find_differing(g, nstate, a, &s.differs);
  if (!anfi_state_find(&s.st) || !choose(&s, least)) return 0;
  find_local(&s);
  s.old = s.m->nodes.n;
  change(&s);
  anfi_clear_dead(s.m);
  for (size_t i = 0; i < s.st.leaf.n; i++) n += s.st.leaf.at[i].part != NULL;
  return n;
}
