// SPDX-License-Identifier: Apache-2.0
/* Tensor parallel steps (Megatron-LM, Shoeybi et al. 2019, by propagation as in GSPMD, Xu et al. 2021): parameters are cut along
 * an axis that the host names, and what is computed from them follows.
 *
 *   h = Tanh(x @ w1)          x, z whole · w1 cut along its columns: so are x @ w1 and h
 *   z = h @ w2                w2 cut along its rows: each rank has a part of the sum, z = AllReduce(h @ w2)
 *   dh = dz @ w2'             cut along its columns, as are w2' and the gradients of w1 and w2: no exchange
 *   dx = dh @ w1'             a part of the sum: AllReduce
 *
 * The graph is that of the whole step, with derivatives: one forward dataflow places all values, and puts an AllReduce or an
 * AllGather where an op needs more than the rank has. State that is not named follows, too, if its new value comes out cut:
 * the optimiser's moments, biases. Those that are found so change what others are, so the dataflow runs until none is found.
 * INVARIANT: an exchange is put where a value is first needed whole, once; the graph stays the same on all ranks. */
#include "exec/placement.h"
#include "step/step.h"

#include "ir/ops/op.h"
#include "optimizer/opt.h"

enum {
  ROUNDS = 16
}; // of following; state that is not found by then stays whole, which is right, too

typedef struct split {
  anf_ctx *cx;
  anf_module *m;
  anf_graph *g;
  anfi_arena *a;
  int64_t ranks;
  /* by leaf of the state */
  anfi_state st;
  anfi_placement *leaf;
  bool *fixed; // the host said so
  /* by node */
  anfi_placement *of;
  anf_node **local;      // what this rank has of it
  anf_node **whole;      // all of it, from the parts
  anfi_placement **want; // of its inputs
  bool *one_use;
  /* by input of the node that is placed */
  anfi_placement *input;
  bool *alone;
} split;

/* ---- placements ---- */

static bool is_whole(const split *s, const anf_node *n) { return s->of[n->id].kind == ANFI_WHOLE; }

static void place(split *s, const anf_node *n) {
  for (uint32_t i = 0; i < n->nin; i++) {
    s->input[i] = s->of[n->in[i].def->id];
    s->alone[i] = s->one_use[n->in[i].def->id];
  }
  anfi_placement **want = &s->want[n->id];
  if (!*want) *want = ANFI_NEW_N(s->a, anfi_placement, n->nin + 1);
  anfi_placing p = {
      .cx = s->cx, .n = n, .ranks = s->ranks, .in = s->input, .alone = s->alone, .want = *want};
  anfi_placement_of(&p);
  s->of[n->id] = p.out;
}

static bool place_state(split *s, const anf_node *n) {
  const anfi_state_leaf *l = anfi_state_leaf_of(&s->st, n);
  if (l) s->of[n->id] = s->leaf[l - s->st.leaf.at];
  return l != NULL;
}

static void place_all(split *s) {
  for (size_t i = 0; i < s->st.nstate; i++) place_state(s, s->g->params.at[i]);
  for (size_t i = 0; i < s->st.order.n; i++) {
    const anf_node *n = s->st.order.at[i];
    if (!place_state(s, n) && n->graph == s->g && n->kind == ANFI_APPLY) place(s, n);
  }
}

/* State whose new value comes out cut is held so. */
static bool follow(split *s) {
  bool any = false;
  for (size_t i = 0; i < s->st.leaf.n; i++) {
    const anfi_state_leaf *l = &s->st.leaf.at[i];
    if (s->fixed[i] || s->leaf[i].kind == ANFI_CUT || !l->next || l->next->type != l->type)
      continue;
    anfi_placement next = s->of[l->next->id];
    if (next.kind != ANFI_CUT || next.groups != 1) continue;
    s->leaf[i] = next;
    any = true;
  }
  return any;
}

/* ---- nodes ---- */

static const anf_type *tensor(const split *s, const anf_type *of, size_t n, const int64_t *dims) {
  return anfi_type_tensor(s->cx, (anf_dtype)of->dtype, n, dims);
}

static anf_node *number(split *s, int64_t x) {
  return anfi_typed(anfi_value(s->m, anfi_value_new_i64(s->cx, ANF_I64, x)),
                    anfi_type_scalar(s->cx, ANF_I64));
}

/* Elements [rank * c, rank * c + c) of axis k. */
static anf_node *sliced(split *s, anf_node *x, uint32_t k) {
  const anf_type *i64 = anfi_type_scalar(s->cx, ANF_I64);
  const anf_type *t =
      anfi_placement_part(s->cx, x->type, (anfi_placement){ANFI_CUT, k, 1}, s->ranks);
  anf_node *in[ANF_MAX_RANK + 1] = {x};
  anf_node *rank = anfi_typed(anfi_apply(s->g, ANF_OP_CommRank, NULL, 0, NULL), i64);
  anf_node *size = number(s, t->dims[k]);
  for (uint32_t i = 0; i < t->n; i++) in[i + 1] = i == k ? NULL : number(s, 0);
  in[k + 1] = anfi_typed(anfi_apply2(s->g, ANF_OP_Mul, rank, size), i64);
  anf_value *sizes = anfi_value_new_ints(s->cx, t->n, t->dims);
  const anfi_attrs *at = anfi_attrs_one(s->m, ANF_OP_DynamicSlice, sizes);
  anf_node *n = anfi_typed(anfi_apply(s->g, ANF_OP_DynamicSlice, at, t->n + 1, in), t);
  n->debug = x->debug;
  return n;
}

/* This rank's part of x, which is whole. */
static anf_node *cut(split *s, anf_node *x, anfi_placement l) {
  const anf_type *t = x->type;
  const anf_type *part = anfi_placement_part(s->cx, t, l, s->ranks);
  if (l.groups == 1) return sliced(s, x, l.axis);
  int64_t dims[3] = {anfi_placement_outer(t, l), t->dims[l.axis] / l.groups,
                     anfi_dims_elements(t, l.axis + 1, t->n)};
  return anfi_reshaped(s->g, sliced(s, anfi_reshaped(s->g, x, tensor(s, t, 3, dims)), 1), part);
}

/* All of a value of type t, of which this rank has x: blocks of all ranks in turn.
 *   x: f32[outer, inner] → AllGather f32[ranks * outer, inner] → f32[outer, ranks, inner] */
static anf_node *gathered(split *s, anf_node *x, const anf_type *t, anfi_placement l) {
  int64_t outer = anfi_placement_outer(t, l), inner = anfi_dims_elements(x->type, 0, x->type->n);
  int64_t flat[2] = {outer, outer ? inner / outer : 0}, all[2] = {s->ranks * outer, flat[1]};
  int64_t apart[3] = {s->ranks, outer, flat[1]}, order[3] = {1, 0, 2},
          turned[3] = {outer, s->ranks, flat[1]};
  const anfi_attrs *ranks =
      anfi_attrs_one(s->m, ANF_OP_AllGather, anfi_value_new_i64(s->cx, ANF_INT, s->ranks));
  x = anfi_typed_op(s->g, ANF_OP_AllGather, ranks, anfi_reshaped(s->g, x, tensor(s, t, 2, flat)),
                    tensor(s, t, 2, all));
  if (outer > 1) {
    anf_value *axes = anfi_value_new_ints(s->cx, 3, order);
    x = anfi_typed_op(s->g, ANF_OP_Transpose, anfi_attrs_one(s->m, ANF_OP_Transpose, axes),
                      anfi_reshaped(s->g, x, tensor(s, t, 3, apart)), tensor(s, t, 3, turned));
  }
  return anfi_reshaped(s->g, x, t);
}

static anf_node *local_of(const split *s, anf_node *x) {
  return s->local[x->id] ? s->local[x->id] : x;
}

static const anf_type *whole_type(const split *s, const anf_node *x) {
  const anfi_state_leaf *l = anfi_state_leaf_of(&s->st, x);
  return l ? l->type : x->type;
}

static anf_node *whole_of(split *s, anf_node *x) {
  if (is_whole(s, x)) return x;
  anf_node **known = &s->whole[x->id];
  anf_node *n = local_of(s, x);
  if (!*known && s->of[x->id].kind == ANFI_CUT)
    *known = gathered(s, n, whole_type(s, x), s->of[x->id]);
  if (!*known) *known = anfi_typed_op(s->g, ANF_OP_AllReduce, NULL, n, n->type);
  return *known;
}

static anf_node *as(split *s, anf_node *x, anfi_placement want) {
  if (want.kind == ANFI_AS_IT_IS || anfi_placement_same(s->of[x->id], want)) return local_of(s, x);
  anf_node *all = whole_of(s, x);
  return want.kind == ANFI_CUT ? cut(s, all, want) : all;
}

/* ---- changing the graph ---- */

/* The type of n with these inputs: that of a part of it, or an op has another rule than placement.c thinks. */
static bool has_type(split *s, anf_node *n, const anf_type *want) {
  uint32_t nattr = anfi_op_schema(s->cx, (anfi_opcode)n->op)->nattr;
  const anf_type **in = ANFI_NEW_N(s->a, const anf_type *, n->nin + 1);
  anf_value **attr = ANFI_NEW_N(s->a, anf_value *, nattr + 1);
  for (uint32_t i = 0; i < n->nin; i++) in[i] = n->in[i].def->type;
  for (uint32_t k = 0; k < nattr; k++)
    attr[k] = anfi_attr_value(s->cx, (anfi_opcode)n->op, n->u.attrs, k);
  anfi_infer q = {.cx = s->cx,
                  .op = (anfi_opcode)n->op,
                  .loc = anfi_node_loc(n),
                  .n = n->nin,
                  .in = in,
                  .attr = attr};
  if (!anfi_infer_op(&q)) return false;
  bool same = q.out->kind == ANF_TYPE_TENSOR && q.out->n == want->n &&
              (!want->n || memcmp(q.out->dims, want->dims, want->n * sizeof *want->dims) == 0);
  return same || anfi_fail(s->cx, q.loc, ANF_E0001, "a part of a value has another type");
}

static bool compute(split *s, anf_node *n) {
  anf_node **in = ANFI_NEW_N(s->a, anf_node *, n->nin + 1);
  anfi_placement out = s->of[n->id];
  const anf_type *t = anfi_placement_part(s->cx, n->type, out, s->ranks);
  const anfi_attrs *at = n->u.attrs;
  for (uint32_t i = 0; i < n->nin; i++) in[i] = as(s, n->in[i].def, s->want[n->id][i]);
  bool reshapes = n->op == ANF_OP_Reshape || n->op == ANF_OP_Squeeze ||
                  n->op == ANF_OP_ExpandDims || n->op == ANF_OP_Flatten;
  anf_node *x = NULL;
  if (reshapes) x = anfi_reshaped(s->g, in[0], t);
  else {
    if (n->op == ANF_OP_BroadcastTo)
      at = anfi_attrs_set(s->m, n, 0, anfi_value_new_ints(s->cx, t->n, t->dims));
    x = anfi_typed(anfi_apply(s->g, (anfi_opcode)n->op, at, n->nin, in), t);
    x->debug = n->debug;
  }
  s->local[n->id] = x;
  return reshapes || has_type(s, x, t);
}

/* Of a node that is computed whole. */
static void take_whole_inputs(split *s, anf_node *n) {
  for (uint32_t i = 0; i < n->nin; i++) {
    anf_node *x = n->in[i].def, *by = is_whole(s, x) ? x : as(s, x, s->want[n->id][i]);
    if (by != x) anfi_set_input(n, i, by);
  }
}

static anf_node *new_value(void *user, anf_node *n, const anfi_state_leaf *l) {
  split *s = (split *)user;
  return l && l->part ? as(s, n, s->leaf[l - s->st.leaf.at]) : whole_of(s, n);
}

static bool change(split *s) {
  for (size_t i = 0; i < s->st.leaf.n; i++) {
    anfi_state_leaf *l = &s->st.leaf.at[i];
    if (s->leaf[i].kind == ANFI_CUT)
      l->part = anfi_placement_part(s->cx, l->type, s->leaf[i], s->ranks);
  }
  anfi_state_take_parts(&s->st);
  for (size_t i = 0; i < s->st.order.n; i++) {
    anf_node *n = s->st.order.at[i];
    bool ours = n->graph == s->g && n->kind == ANFI_APPLY;
    if (!ours || anfi_state_reads(&s->st, n) || anfi_state_is_result(&s->st, n)) continue;
    if (is_whole(s, n)) take_whole_inputs(s, n);
    else if (!compute(s, n)) return false;
  }
  anfi_state_give(&s->st, new_value, s);
  return true;
}

/* ---- what the host says ---- */

/* Components of a path from its end: "attention.qkv" names "s.p.blocks.0.attention.qkv", and "*" any component. */
static bool names(const char *pattern, size_t n, const char *path) {
  const char *p = pattern + n, *q = path + strlen(path);
  for (;;) {
    const char *pe = p, *qe = q;
    while (p > pattern && p[-1] != '.') p--;
    while (q > path && q[-1] != '.') q--;
    bool any = pe - p == 1 && *p == '*';
    if (!any && (pe - p != qe - q || memcmp(p, q, (size_t)(pe - p)) != 0)) return false;
    if (p == pattern) return true;
    if (q == path) return false;
    p--;
    q--;
  }
}

static bool fail(const split *s, const char *name, const char *why) {
  return anfi_fail(s->cx, anfi_nowhere(), ANF_E1621, name, why);
}

static bool set_leaf(split *s, size_t i, const char *name, int64_t axis) {
  const anfi_state_leaf *l = &s->st.leaf.at[i];
  size_t k = 0;
  s->fixed[i] = true;
  if (axis == ANFI_SPLIT_NOT) return true;
  if (!l->next)
    return fail(s, name, "the step does not make its new value as an item of its result");
  if (!anfi_axis_in(axis, l->type->n, &k)) return fail(s, name, "it has no such axis");
  if (l->type->dims[k] < s->ranks || l->type->dims[k] % s->ranks)
    return fail(s, name, "the axis is not as many equal parts as there are ranks");
  s->leaf[i] = (anfi_placement){ANFI_CUT, (uint32_t)k, 1};
  return true;
}

static bool set_leaves(split *s, const anfi_split *at, const char *const *name) {
  for (; at; at = at->next) {
    bool any = false;
    for (size_t i = 0; i < s->st.leaf.n; i++) {
      if (!names(at->name, at->len, name[i])) continue;
      any = true;
      if (!set_leaf(s, i, name[i], at->axis)) return false;
    }
    if (!any) return anfi_fail(s->cx, anfi_nowhere(), ANF_E1620, (int)at->len, at->name);
  }
  return true;
}

/* The program's own exchanges are of other ranks than those that share the work of one. */
static bool has_exchanges(const split *s) {
  for (size_t i = 0; i < s->m->nodes.n; i++) {
    const anf_node *n = s->m->nodes.at[i];
    if (n && anfi_op_of(n)->flags & ANFI_COLLECTIVE)
      return !anfi_fail(s->cx, anfi_node_loc(n), ANF_E1624, anfi_op_of(n)->name);
  }
  return false;
}

/* Tables by node and leaf. */
static void make_tables(split *s) {
  size_t nodes = s->m->nodes.n, most = 0;
  for (size_t i = 0; i < s->st.order.n; i++)
    if (s->st.order.at[i]->nin > most) most = s->st.order.at[i]->nin;
  s->leaf = ANFI_NEW_N(s->a, anfi_placement, s->st.leaf.n + 1);
  s->fixed = ANFI_NEW_N(s->a, bool, s->st.leaf.n + 1);
  s->of = ANFI_NEW_N(s->a, anfi_placement, nodes + 1);
  s->local = ANFI_NEW_N(s->a, anf_node *, nodes + 1);
  s->whole = ANFI_NEW_N(s->a, anf_node *, nodes + 1);
  s->want = ANFI_NEW_N(s->a, anfi_placement *, nodes + 1);
  s->one_use = ANFI_NEW_N(s->a, bool, nodes + 1);
  s->input = ANFI_NEW_N(s->a, anfi_placement, most + 1);
  s->alone = ANFI_NEW_N(s->a, bool, most + 1);
  for (size_t i = 0; i < s->st.order.n; i++) {
    const anf_node *x = s->st.order.at[i];
    s->one_use[x->id] = x->uses && !x->uses->next && s->g->result != x;
  }
}

size_t anfi_step_split(anf_graph *g, size_t nstate, int32_t ranks, const anfi_split *at,
                       const char *const *name, int32_t *axis) {
  anf_ctx *cx = g->module->cx;
  anfi_arena *a = anfi_scratch(cx);
  split s = {.cx = cx, .m = g->module, .g = g, .a = a, .ranks = ranks};
  size_t n = 0;
  s.st = (anfi_state){.cx = cx, .g = g, .a = a, .nstate = nstate};
  anfi_graph_order(g, a, &s.st.order);
  if (has_exchanges(&s)) return 0;
  if (!anfi_state_find(&s.st)) return fail(&s, name[0], "the step does not give a tuple"), 0;
  make_tables(&s);
  if (!set_leaves(&s, at, name)) return 0;
  for (int i = 0; i < ROUNDS; i++) {
    place_all(&s);
    if (!follow(&s)) break;
  }
  place_all(&s);
  if (!change(&s)) return 0;
  anfi_clear_dead(s.m);
  for (size_t i = 0; i < s.st.leaf.n; i++) {
    bool part = s.leaf[i].kind == ANFI_CUT;
    axis[i] = part ? (int32_t)s.leaf[i].axis : -1;
    n += part;
  }
  return n;
}

/* ---- text: "w1=column, w2=row, attention.qkv=2" ---- */

static bool axis_named(const char *s, size_t n, int64_t *axis) {
  static const struct {
    const char *name;
    int64_t axis;
  } words[] = {{"column", -1}, {"row", 0}, {"whole", ANFI_SPLIT_NOT}};
  for (size_t i = 0; i < ANFI_LEN(words); i++)
    if (n == strlen(words[i].name) && memcmp(words[i].name, s, n) == 0)
      return *axis = words[i].axis, true;
  bool minus = n && *s == '-';
  s += minus;
  n -= minus;
  if (!n || n > 2) return false;
  *axis = 0;
  for (; n; n--, s++) {
    if (*s < '0' || *s > '9') return false;
    *axis = *axis * 10 + (*s - '0');
  }
  if (minus) *axis = -*axis;
  return true;
}

bool anfi_step_read_split(anf_ctx *cx, anfi_arena *a, const char *text, const anfi_split **out) {
  static const char apart[] = ", \t\n";
  const anfi_split **end = out;
  *out = NULL;
  for (text += strspn(text, apart); *text; text += strspn(text, apart)) {
    size_t n = strcspn(text, apart), name = strcspn(text, "=");
    anfi_split *at = ANFI_NEW(a, anfi_split);
    *at = (anfi_split){.name = anfi_strndup(a, text, name < n ? name : n), .len = name};
    if (!name || name + 1 >= n || !axis_named(text + name + 1, n - name - 1, &at->axis))
      return anfi_fail(cx, anfi_nowhere(), ANF_E1622, (int)n, text);
    *end = at;
    end = (const anfi_split **)&at->next;
    text += n;
  }
  return *out || anfi_fail(cx, anfi_nowhere(), ANF_E1622, 0, "");
}
