// SPDX-License-Identifier: Apache-2.0
/* Linear buffers: arrays that loops, branches and calls pass on and write in place.
 *   acc1 = IndexWrite(acc, i, d, mode=add)            each of acc, acc1, acc2, acc3 is dead where the next one is made, so
 *   acc2 = (c ? g : h)(acc1, x)                       all of them are one buffer, and nothing copies it
 *   acc3, _ = Loop(step, acc2, ..)
 * That is how ◀ sums the adjoint of an array that a loop reads by index, and how a program fills an array by index; a copy
 * at any link would make the loop quadratic. It is Futhark's and Dex's accumulator, found by analysis and not by a type.
 *
 * Two facts make it sound.
 *   static    `carry`: leaf k of a graph's result is leaf p of its parameters, overwritten by a chain of writes,
 *             calls and loops, where each link is the last reader of the one before. A greatest fixpoint over
 *             graphs, as recursions and branches name each other.
 *             Hard case: (u, v) = c ? (v, u) : (u, v) exchanges arrays. p is then one of a class of leaves of one type, and
 *             which one is known at run time only. Each of the class is the buffer of at most one leaf of the result, as
 *             each link is the only last reader of what it takes over, so that a loop permutes the buffers of a class.
 *             Hard case: (best, z) = c ? (z, z) : (best, z) copies z only where c holds: a branch may store what it gives in the
 *             buffer that the others write, if that is no other leaf's, after all that it reads (control.c).
 *   dynamic   `owned` of a view: its buffer holds this value alone. Whoever reads an owned view last
 *             (anfi_glow_is_last) may write over it; a buffer of the caller or of the host is never owned.
 * Readers that come before the last one (reads_first.c puts them there) must not read later what they stand for: numbers
 * and what is written to another array are computed where they stand, loops give buffers of their own, other parts of the array
 * and what calls give are forced into buffers (`forced`: of a call, bits of the inputs that are written after it). The last one
 * may read, element by element, the part that it writes (`in_place`):  x[1:] = x[1:] * 0.5 + y[1:]. */
#include "backend/lower/graph/graph.h"

enum { MANY = 4096, MOST_USES = 128, DEEPEST = 16 };
enum { MOST = ANFI_MOST_LINKS };
#define ANY  SIZE_MAX // a carry that is not known yet
#define NONE ANFI_NO_CARRY

/* ---- through tuples ---- */

/* The node that a leaf comes from, through ops that build tuples and take them apart. */
gsource anfi_glow_source(anf_ctx *cx, gsource s) {
  for (;;) {
    if (anfi_is_op(s.n, ANF_OP_MakeTuple) || anfi_is_op(s.n, ANF_OP_MakeRecord)) {
      uint32_t i = 0;
      for (size_t m; i + 1u < s.n->nin && s.leaf >= (m = anfi_leaf_count(s.n->in[i].def->type));
           i++)
        s.leaf -= m;
      s.n = s.n->in[i].def;
    } else if (anfi_is_op(s.n, ANF_OP_TupleGet) || anfi_is_op(s.n, ANF_OP_RecordGet)) {
      s.leaf += anfi_glow_first_leaf(cx, s.n);
      s.n = s.n->in[0].def;
    } else return s;
  }
}

static bool is_at(const glow *w, const anf_node *n, const anf_graph *g) {
  return n->graph == g && w->at[n->id];
}

/* ---- the last reader ---- */

static bool has_array(const anf_type *t) {
  if (t->kind == ANF_TYPE_TENSOR) return t->n > 0;
  for (uint32_t i = 0; (t->kind == ANF_TYPE_TUPLE || t->kind == ANF_TYPE_RECORD) && i < t->n; i++)
    if (has_array(t->items[i])) return true;
  return false;
}

static bool is_part(const anf_node *r) {
  if (r->kind != ANFI_APPLY) return false;
  const anfi_op_info *o = &anfi_op[r->op];
  return o->lower == ANFI_LOWER_INDEX_MAP && !(o->flags & ANFI_IN_ORDER) &&
         r->type->kind == ANF_TYPE_TENSOR;
}

/* Parts of the array that are read before it is written: are they buffers, could they be, or shall they be? */
typedef enum gparts { PARTS_ARE, PARTS_MAY, PARTS_SHALL } gparts;

typedef struct {
  glow *w;
  const anf_graph *g;
  const anf_node *last; // or NULL: the result
  const anfi_use *use;  // of it
  gparts parts;
  size_t last_uses, other_uses;
  bool in_place; // `last` reads the elements that it writes
} readers;

static bool is_before_last(const readers *q, const anf_node *r) {
  return !q->last || q->w->at[r->id] < q->w->at[q->last->id];
}

static bool is_control(const anf_node *n) {
  return anfi_op_of(n)->lower == ANFI_LOWER_CALL || anfi_op_of(n)->lower == ANFI_LOWER_CONTROL;
}

/* Is x, computed from the array, a number that is computed where it stands? */
static bool is_number(const anf_node *x) {
  if (has_array(x->type)) return false;
  return x->kind == ANFI_CALL || x->op == ANF_OP_Loop || !is_control(x);
}

/* Does x write what it reads to a buffer where it stands? */
static bool is_write(const anf_node *x) {
  return x->kind == ANFI_APPLY && anfi_op_of(x)->flags & ANFI_WRITES_OVER;
}

/* The part of the array that a tensor has, element by element: x[1:, :-1] + 1 has that of x[1:, :-1]. */
typedef struct {
  size_t n; // dims; 0: it has none
  int64_t start[ANF_MAX_RANK], dims[ANF_MAX_RANK];
} region;

/* Narrows the region of what n takes a part of, or writes one of. */
static void cut(const readers *q, region *r, const anf_node *n) {
  anf_value *attr[4];
  int64_t start, step = 0;
  size_t axis;
  if (n->op != ANF_OP_Slice && n->op != ANF_OP_SliceUpdate) r->n = 0;
  if (!r->n) return;
  for (uint32_t k = 0; k < 4; k++)
    attr[k] = anfi_attr_value(q->w->cx, (anfi_opcode)n->op, n->u.attrs, k);
  if (!anfi_axis_in(anfi_attr_int(attr[3]), r->n, &axis)) r->n = 0;
  else {
    r->dims[axis] = (int64_t)anfi_slice((size_t)r->dims[axis], attr, &start, &step);
    r->start[axis] += start;
  }
  if (step != 1) r->n = 0;
}

static bool has_dims(const region *r, const anf_type *t) {
  return r->n && t->kind == ANF_TYPE_TENSOR && t->n == r->n &&
         !memcmp(t->dims, r->dims, r->n * sizeof *r->dims);
}

static region whole(const anf_type *t) {
  region r = {.n = t->kind == ANF_TYPE_TENSOR ? t->n : 0};
  if (r.n) memcpy(r.dims, t->dims, r.n * sizeof *r.dims);
  return r;
}

/* That which `last` writes. */
static region written(const readers *q) {
  const anf_node *n = q->last;
  region r = {0};
  if (!n || q->use != &n->in[0] || n->kind != ANFI_APPLY) return r;
  r = whole(n->type);
  if (n->op != ANF_OP_DynamicUpdateSlice) cut(q, &r, n);
  else
    for (size_t k = 0; k < r.n; k++) {
      const anf_node *at = n->in[2 + k].def;
      r.dims[k] = n->in[1].def->type->dims[k];
      if (at->kind != ANFI_VALUE) return (region){0};
      r.start[k] = anfi_get_i64(at->u.value, 0);
      if (r.start[k] < 0 || r.start[k] + r.dims[k] > n->type->dims[k]) return (region){0};
    }
  return has_dims(&r, n->in[1].def->type) ? r : (region){0};
}

/* x[w] = f(x[w]), f element by element: each element is read before it is written, if nothing else reads x[w] later. */
static bool writes_in_place(readers *q, const anfi_use *u, const region *r) {
  region to = written(q);
  if (u != &q->last->in[1] || !to.n || !has_dims(r, u->def->type)) return false;
  if (memcmp(r->start, to.start, to.n * sizeof *to.start)) return false;
  if (memcmp(r->dims, to.dims, to.n * sizeof *to.dims)) return false;
  return q->in_place = true;
}

/* The region of x, which has an input of region r. */
static region region_of(const readers *q, const anf_node *x, region r) {
  if (x->op == ANF_OP_Slice) cut(q, &r, x);
  else if (!has_dims(&r, x->type) || anfi_op_of(x)->lower != ANFI_LOWER_POINTWISE) r.n = 0;
  return r;
}

/* Do numbers and writes alone read the tensor n, before the last, as Sum does in Sum(z * z), and SliceUpdate in y[1:] = z[1:] - z[:-1]?
 * Or the last itself, which writes where it reads. */
static bool is_read_at_once(readers *q, const anf_node *n, region r, int deep) {
  if (n->kind != ANFI_APPLY || n->type->kind != ANF_TYPE_TENSOR || is_control(n)) return false;
  if (n == q->g->result || deep > DEEPEST) return false;
  for (const anfi_use *u = n->uses; u; u = u->next) {
    const anf_node *x = u->user;
    if (x->graph != q->g) return false;
    if (!is_at(q->w, x, q->g) || (x == q->last && writes_in_place(q, u, &r))) continue;
    if (++q->other_uses > MOST_USES || !x->type || !is_before_last(q, x)) return false;
    if (!is_number(x) && !is_write(x) && !is_read_at_once(q, x, region_of(q, x, r), deep + 1))
      return false;
  }
  return true;
}

/* Does r, which is not the last and has the array as an input, leave nothing that reads the array later? */
static bool reads_at_once(readers *q, const anf_node *r, size_t input) {
  if (!r->type || !is_before_last(q, r)) return false;
  if (!has_array(r->type)) return is_number(r);
  if (r->kind == ANFI_APPLY && (r->op == ANF_OP_Loop || r->op == ANF_OP_Switch)) return true;
  if (is_read_at_once(q, r, region_of(q, r, whole(r->in[input].def->type)), 0)) return true;
  if (r->kind != ANFI_CALL && !is_part(r)) return false;
  uint64_t bit = anfi_glow_input_bit(input);
  if (q->parts == PARTS_SHALL) *anfi_map_at(&q->w->forced, r->id) |= bit;
  const uint64_t *forced = anfi_map_find(&q->w->forced, r->id);
  return q->parts == PARTS_MAY || (forced && *forced & bit);
}

static bool only_last(readers *q, const anf_node *n, size_t leaf, int deep) {
  bool result = n == q->g->result;
  if (deep > DEEPEST || (result && q->last)) return false;
  for (const anfi_use *u = n->uses; u; u = u->next) {
    const anf_node *r = u->user;
    if (!is_at(q->w, r, q->g)) {
      if (r->graph != q->g) return false;
      continue; // nothing needs it
    }
    if (q->last ? u == q->use : r->op == ANF_OP_MakeTuple || r->op == ANF_OP_MakeRecord) {
      if (!q->last && result) return false;
      q->last_uses++;
    } else if (anfi_is_op(r, ANF_OP_TupleGet) || anfi_is_op(r, ANF_OP_RecordGet)) {
      size_t first = anfi_glow_first_leaf(q->w->cx, r), count = anfi_leaf_count(r->type);
      if (leaf >= first && leaf < first + count && !only_last(q, r, leaf - first, deep + 1))
        return false;
    } else if (++q->other_uses > MOST_USES || !reads_at_once(q, r, (size_t)(u - r->in)))
      return false;
  }
  return true;
}

/* Is it a value with a buffer of its own, if it is in one? */
static bool makes_buffer(const anf_node *n) {
  if (n->kind == ANFI_PARAM || n->kind == ANFI_CALL) return true;
  return n->kind == ANFI_APPLY &&
         (n->op == ANF_OP_Loop || n->op == ANF_OP_Switch ||
          (anfi_op_of(n)->flags & ANFI_WRITES_OVER) || anfi_lower_is_scalar((anfi_opcode)n->op));
}

/* Does `use` of `last` read s, after all others? NULL: is s one leaf of the result, and of nothing else? */
static bool is_last(glow *w, const anf_graph *g, gsource s, const anf_node *last,
                    const anfi_use *use, gparts parts) {
  readers q = {.w = w, .g = g, .last = last, .use = use, .parts = parts};
  if (!makes_buffer(s.n) || s.n->graph != g || !only_last(&q, s.n, s.leaf, 0)) return false;
  if (q.in_place) *anfi_map_at(&w->in_place, last->id) = 1;
  return q.last_uses <= 1;
}

bool anfi_glow_is_last(glow *w, const anf_node *n, size_t input, size_t leaf) {
  gsource s = anfi_glow_source(w->cx, (gsource){n->in[input].def, leaf});
  return w->linear && is_at(w, n, n->graph) && is_last(w, n->graph, s, n, &n->in[input], PARTS_ARE);
}

/* ---- classes of leaves ---- */

static size_t class_of(const glow *w, const anf_graph *g, size_t p) {
  const size_t *up = w->up[g->id];
  while (up && up[p] != p) p = up[p];
  return p;
}

/* Leaf p of the parameters of g and those of its class; their number, or 0 if they are too many. */
static size_t class_members(const glow *w, const anf_graph *g, size_t p, size_t out[MOST]) {
  size_t n = 1, all = 0, root = class_of(w, g, p);
  out[0] = p;
  if (!w->up[g->id]) return n;
  for (size_t i = 0; i < g->params.n; i++) all += anfi_leaf_count(g->params.at[i]->type);
  for (size_t q = 0; q < all; q++) {
    if (q == p || class_of(w, g, q) != root) continue;
    if (n == MOST) return 0;
    out[n++] = q;
  }
  return n;
}

static bool is_single(const glow *w, const anf_graph *g, size_t p) {
  size_t all[MOST];
  return class_members(w, g, p, all) == 1;
}

static const anf_type *leaf_type(const anf_type *t, size_t k) {
  while (t->kind == ANF_TYPE_TUPLE || t->kind == ANF_TYPE_RECORD) {
    uint32_t i = 0;
    for (size_t m; i + 1 < t->n && k >= (m = anfi_leaf_count(t->items[i])); i++) k -= m;
    t = t->items[i];
  }
  return t;
}

static const anf_type *param_leaf_type(const anf_graph *g, size_t p) {
  size_t i = 0;
  for (size_t m; i + 1 < g->params.n && p >= (m = anfi_leaf_count(g->params.at[i]->type)); i++)
    p -= m;
  return leaf_type(g->params.at[i]->type, p);
}

/* Makes q one of the class of p. */
static bool join_class(glow *w, const anf_graph *g, size_t p, size_t q) {
  size_t all = 0, a = class_of(w, g, p), b = class_of(w, g, q);
  if (a == b) return false;
  for (size_t i = 0; i < g->params.n; i++) all += anfi_leaf_count(g->params.at[i]->type);
  if (!w->up[g->id]) {
    w->up[g->id] = ANFI_NEW_N(w->a, size_t, all + 1);
    for (size_t i = 0; i < all; i++) w->up[g->id][i] = i;
  }
  w->up[g->id][b] = a;
  return true;
}

/* ---- what a link writes over ---- */

static bool add_link(glinks *l, const anf_node *n, const anfi_use *u, size_t leaf) {
  glink link = {(size_t)(u - n->in), leaf};
  if (!u) return false;
  for (size_t i = 0; i < l->n; i++)
    if (l->at[i].input == link.input && l->at[i].leaf == leaf) return true;
  if (l->n == MOST) return false;
  l->at[l->n++] = link;
  return true;
}

/* The use of n that holds leaf p of the arguments from input `from` on; *p becomes a leaf of that input. */
static const anfi_use *argument(const anf_node *n, size_t from, size_t *p) {
  for (size_t i = from; i < n->nin; i++) {
    size_t m = anfi_leaf_count(n->in[i].def->type);
    if (*p < m) return &n->in[i];
    *p -= m;
  }
  return NULL;
}

/* What the graphs that a call may enter write over: in `own` branches of a choice that do not, but give a value of their own,
 * or an argument that is read later; are there some of which it is not known yet? */
typedef struct gentered {
  glinks *l;
  bool own, unknown;
} gentered;

static bool may_take(glow *w, const anf_node *n, const anfi_use *u, size_t leaf) {
  gsource s = anfi_glow_source(w->cx, (gsource){u->def, leaf});
  return is_last(w, n->graph, s, n, u, PARTS_MAY);
}

static bool graph_links(glow *w, const anf_node *call, const anf_graph *g, size_t leaf, bool choice,
                        gentered *e) {
  size_t all[MOST], c = w->carry[g->id] ? w->carry[g->id][leaf] : NONE, before = e->l->n;
  size_t n = c == ANY || c == NONE ? 0 : class_members(w, g, c, all);
  e->unknown |= c == ANY;
  for (size_t i = 0; i < n; i++) {
    const anfi_use *u = argument(call, 1, &all[i]);
    if (choice && u && !may_take(w, call, u, all[i])) {
      e->l->n = before;
      return e->own = true;
    }
    if (!add_link(e->l, call, u, all[i])) return false;
  }
  if (n || c == ANY) return true;
  e->own = true;
  return choice;
}

static bool entered_links(glow *w, const anf_node *call, const anf_node *callee, size_t leaf,
                          int deep, gentered *e) {
  const anf_graph *g = anfi_value_graph(callee);
  if (g) return graph_links(w, call, g, leaf, deep > 0, e);
  if (!anfi_is_op(callee, ANF_OP_Switch) && !anfi_is_op(callee, ANF_OP_SwitchLayer)) return false;
  if (deep > DEEPEST) return false;
  for (uint32_t k = 1; k < callee->nin; k++)
    if (!entered_links(w, call, callee->in[k].def, leaf, deep + 1, e)) return false;
  return true;
}

/* May another leaf of what the call gives be in the same buffer? */
static bool is_wanted_twice(glow *w, const anf_node *call, size_t leaf, glink one) {
  size_t n = anfi_leaf_count(call->type);
  for (size_t k = 0; k < n; k++) {
    glinks l = {0};
    if (k == leaf) continue;
    entered_links(w, call, call->in[0].def, k, 0, &(gentered){.l = &l});
    for (size_t i = 0; i < l.n; i++)
      if (l.at[i].input == one.input && l.at[i].leaf == one.leaf) return true;
  }
  return n > MOST_USES;
}

/* Over the graphs that a call may enter. Branches with a value of their own store it in the buffer that the others write,
 * which is one, and no other leaf's. */
static bool call_links(glow *w, const anf_node *call, size_t leaf, glinks *l) {
  gentered e = {.l = l};
  if (!entered_links(w, call, call->in[0].def, leaf, 0, &e)) return false;
  if (!e.own) return true;
  if (!l->n) return e.unknown;
  return l->n == 1 && !is_wanted_twice(w, call, leaf, l->at[0]);
}

/* Over what a choice of data gives in one case; in the other it is stored there. */
static bool choice_links(glow *w, const anf_node *n, size_t leaf, glinks *l) {
  for (int param = 1; param >= 0; param--)
    for (uint32_t i = 1; i < n->nin; i++) {
      gsource s = anfi_glow_source(w->cx, (gsource){n->in[i].def, leaf});
      if ((s.n->kind == ANFI_PARAM) == param && may_take(w, n, &n->in[i], leaf))
        return add_link(l, n, &n->in[i], leaf);
    }
  return false;
}

/* Leaves of the state, and of what comes before it in the parameters of the step. */
static size_t state_count(const anfi_loop_op *l, size_t *first) {
  size_t n = 0;
  *first = 0;
  for (size_t i = 0; i < l->nw; i++) *first += anfi_leaf_count(l->step->params.at[i]->type);
  for (size_t i = 0; i < l->ns; i++) n += anfi_leaf_count(l->step->params.at[l->nw + i]->type);
  return n;
}

size_t anfi_glow_loop_turns(const glow *w, const anfi_loop_op *l, size_t leaf, size_t out[MOST]) {
  const size_t *carry = w->carry[l->step->id];
  size_t first, count = state_count(l, &first), n = 0;
  if (!carry || leaf >= count) return 0;
  out[n++] = leaf;
  for (size_t i = 0; i < n; i++) {
    size_t all[MOST], p = carry[!l->counted + out[i]];
    if (p == ANY) continue;
    size_t m = p == NONE ? 0 : class_members(w, l->step, p, all);
    if (!m) return 0;
    for (size_t k = 0, j; k < m; k++) {
      if (all[k] < first || all[k] - first >= count) return 0;
      if (param_leaf_type(l->step, all[k]) != param_leaf_type(l->step, first + leaf)) return 0;
      for (j = 0; j < n && out[j] != all[k] - first; j++) {
      }
      if (j == MOST) return 0;
      if (j == n) out[n++] = all[k] - first;
    }
  }
  return n;
}

bool anfi_glow_loop_in_place(const glow *w, const anfi_loop_op *l, size_t leaf) {
  size_t all[MOST];
  return anfi_glow_loop_turns(w, l, leaf, all) == 1;
}

/* The state's leaf in the arguments, if the loop writes it in place; of leaves that it exchanges, all. */
static bool loop_links(const glow *w, const anf_node *n, size_t leaf, glinks *out) {
  anfi_loop_op l = anfi_loop_parts(n);
  size_t all[MOST], count = l.step ? anfi_glow_loop_turns(w, &l, leaf, all) : 0;
  for (size_t i = 0; i < count; i++) {
    const anfi_use *u = argument(n, l.first_w + l.nw, &all[i]);
    if (!add_link(out, n, u, all[i])) return false;
  }
  return count > 0;
}

/* The leaves of inputs of s.n that s takes over, one of them. False: none. True and none found: the callee is not known
 * yet, or s is undefined. */
static bool links_of(glow *w, gsource s, glinks *l) {
  const anf_node *n = s.n;
  l->n = 0;
  if (n->kind == ANFI_CALL) return call_links(w, n, s.leaf, l);
  if (n->kind != ANFI_APPLY) return false;
  if (n->op == ANF_OP_Switch) return choice_links(w, n, s.leaf, l);
  if (n->op == ANF_OP_Undef) return true;
  if (n->op == ANF_OP_Loop) return loop_links(w, n, s.leaf, l);
  bool writes = anfi_op_of(n)->flags & ANFI_WRITES_OVER && n->in[0].def->type == n->type;
  return writes && add_link(l, n, &n->in[0], s.leaf);
}

bool anfi_glow_takes_one(glow *w, const anf_node *n, size_t leaf, glinks *l) {
  l->n = 0;
  if (!w->linear || !links_of(w, (gsource){(anf_node *)(uintptr_t)n, leaf}, l) || !l->n)
    return false;
  for (size_t i = 0; i < l->n; i++)
    if (!anfi_glow_is_last(w, n, l->at[i].input, l->at[i].leaf)) return false;
  return true;
}

/* ---- the fixpoint ---- */

/* The number of a parameter's leaf among all of the graph's. */
static size_t param_leaf(const anf_node *p, size_t leaf) {
  for (size_t i = 0; p->graph->params.at[i] != p; i++)
    leaf += anfi_leaf_count(p->graph->params.at[i]->type);
  return leaf;
}

/* What a leaf may be made in: leaves of nodes, none of which is the same as another. */
typedef struct gmade {
  size_t n;
  gsource at[MOST];
} gmade;

static bool add_source(gmade *q, gsource s) {
  for (size_t i = 0; i < q->n; i++)
    if (q->at[i].n == s.n && q->at[i].leaf == s.leaf) return true;
  if (q->n == MOST) return false;
  q->at[q->n++] = s;
  return true;
}

/* Removes the one that is computed last, if it is no parameter: links lead to earlier nodes, so that none comes twice. */
static bool take_latest(const glow *w, gmade *q, gsource *s) {
  size_t best = q->n;
  for (size_t i = 0; i < q->n; i++)
    if (q->at[i].n->kind != ANFI_PARAM &&
        (best == q->n || w->at[q->at[i].n->id] > w->at[q->at[best].n->id]))
      best = i;
  if (best == q->n) return false;
  *s = q->at[best];
  q->at[best] = q->at[--q->n];
  return true;
}

/* The parameters' leaves that leaf k of the result of g is made in. False: in none; none found: it is not known yet. */
static bool made_in(glow *w, anf_graph *g, size_t k, gparts parts, gmade *q) {
  gsource s = anfi_glow_source(w->cx, (gsource){g->result, k});
  glinks l;
  q->n = 0;
  if (anfi_is_op(s.n, ANF_OP_Undef)) return true;
  if (g->result->kind == ANFI_APPLY && s.n != g->result && !is_last(w, g, s, NULL, NULL, parts))
    return false;
  if (s.n->graph != g) return false;
  add_source(q, s);
  while (take_latest(w, q, &s)) {
    const anf_node *n = s.n;
    if (!links_of(w, s, &l)) return false;
    for (size_t i = 0; i < l.n; i++) {
      const anfi_use *u = &n->in[l.at[i].input];
      s = anfi_glow_source(w->cx, (gsource){u->def, l.at[i].leaf});
      if (!is_last(w, g, s, n, u, parts) || !add_source(q, s)) return false;
    }
  }
  return true;
}

static bool is_array_leaf(const anf_type *t, size_t k) {
  t = leaf_type(t, k);
  return t->kind == ANF_TYPE_TENSOR && t->n > 0;
}

bool anfi_glow_stores(const glow *w, const anf_node *call, const anf_graph *g, size_t leaf,
                      glink one) {
  size_t c = w->carry[g->id] ? w->carry[g->id][leaf] : NONE;
  const anfi_use *u = c == ANY || c == NONE || !is_single(w, g, c) ? NULL : argument(call, 1, &c);
  return !u || (size_t)(u - call->in) != one.input || c != one.leaf;
}

/* May its rounds exchange arrays? */
static bool has_two_arrays(const anf_node *loop) {
  anfi_loop_op l = anfi_loop_parts(loop);
  size_t n = 0;
  for (size_t i = 0, at = l.first_w + l.nw; i < l.ns; i++) {
    const anf_type *t = loop->in[at + i].def->type;
    for (size_t k = 0; k < anfi_leaf_count(t) && n < 2; k++) n += is_array_leaf(t, k);
  }
  return n >= 2;
}

/* Is there a node that writes over an array, or a loop that hands arrays on to one another? */
static bool is_of_use(const glow *w) {
  for (size_t i = 0; i < w->m->nodes.n; i++) {
    const anf_node *n = w->m->nodes.at[i];
    if (!n || n->kind != ANFI_APPLY || !w->at[n->id]) continue;
    if (anfi_op_of(n)->flags & ANFI_WRITES_OVER) return true;
    if (n->op == ANF_OP_Loop && has_two_arrays(n)) return true;
  }
  return false;
}

static void begin(glow *w) {
  w->carry = ANFI_NEW_N(w->a, size_t *, w->m->graphs.n + 1);
  w->up = ANFI_NEW_N(w->a, size_t *, w->m->graphs.n + 1);
  for (size_t i = 0; i < w->m->graphs.n; i++) {
    const anf_graph *g = w->m->graphs.at[i];
    if (!g || !g->result || !g->result->type || !has_array(g->result->type)) continue;
    size_t n = anfi_leaf_count(g->result->type);
    if (n > MANY) continue;
    size_t *c = w->carry[g->id] = ANFI_NEW_N(w->a, size_t, n + 1);
    for (size_t k = 0; k < n; k++) c[k] = is_array_leaf(g->result->type, k) ? ANY : NONE;
  }
}

/* The carry of leaf k of g, where it was c, and the class that it is one of. */
static size_t revised(glow *w, anf_graph *g, size_t k, size_t c, bool *changed) {
  gmade q;
  if (!made_in(w, g, k, PARTS_MAY, &q)) return NONE;
  for (size_t i = 0; i < q.n; i++) {
    size_t p = param_leaf(q.at[i].n, q.at[i].leaf);
    if (c == ANY) c = p;
    if (param_leaf_type(g, p) != param_leaf_type(g, c)) return NONE;
    if (join_class(w, g, c, p)) *changed = true;
  }
  return c;
}

/* Lowers the carries of g; false: they stay as they are. */
static bool revise(glow *w, anf_graph *g) {
  bool changed = false;
  size_t *c = w->carry[g->id], n = c ? anfi_leaf_count(g->result->type) : 0;
  for (size_t k = 0; k < n; k++) {
    size_t now = c[k] == NONE ? NONE : revised(w, g, k, c[k], &changed);
    changed |= now != c[k];
    c[k] = now;
  }
  return changed;
}

/* Lowers the carries of all graphs until none changes. */
static void settle(glow *w) {
  for (bool changed = true; changed;) { // callees first: a second time only for recursions
    changed = false;
    for (size_t i = 0; i < w->an->by_scc.n; i++) changed |= revise(w, w->an->by_scc.at[i]);
  }
}

/* What is still not known is of recursions without an end, or undefined: no buffer is taken over for it, so that what its callers
 * hold of it has to be found again. */
static bool end_unknown(glow *w) {
  bool some = false;
  for (size_t i = 0; i < w->m->graphs.n; i++) {
    size_t n = w->carry[i] ? anfi_leaf_count(w->m->graphs.at[i]->result->type) : 0;
    for (size_t k = 0; k < n; k++)
      if (w->carry[i][k] == ANY) {
        w->carry[i][k] = NONE;
        some = true;
      }
  }
  return some;
}

void anfi_glow_linear(glow *w) {
  w->at = ANFI_NEW_N(w->a, uint32_t, w->m->nodes.n + 1);
  for (size_t i = 0; i < w->an->by_scc.n; i++) {
    const anfi_graph_info *gi = &w->an->graphs[w->an->by_scc.at[i]->id];
    for (size_t k = 0; k < gi->order.n; k++) w->at[gi->order.at[k]->id] = (uint32_t)k + 1;
  }
  if (!is_of_use(w) || w->cx->without & ANFI_WITHOUT_LINEAR) return;
  w->linear = true;
  begin(w);
  settle(w);
  if (end_unknown(w)) settle(w);
  for (size_t i = 0; i < w->m->graphs.n; i++) {
    size_t n = w->carry[i] ? anfi_leaf_count(w->m->graphs.at[i]->result->type) : 0;
    gmade q;
    for (size_t k = 0; k < n; k++)
      if (w->carry[i][k] != NONE) made_in(w, w->m->graphs.at[i], k, PARTS_SHALL, &q);
  }
}

bool anfi_glow_is_carried(const glow *w, const anf_graph *g, size_t leaf) {
  return w->linear && w->carry[g->id] && w->carry[g->id][leaf] != NONE;
}

size_t anfi_glow_carried(const glow *w, const anf_graph *g, size_t leaf) {
  if (!anfi_glow_is_carried(w, g, leaf)) return NONE;
  return is_single(w, g, w->carry[g->id][leaf]) ? w->carry[g->id][leaf] : NONE;
}
