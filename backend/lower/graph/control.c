// SPDX-License-Identifier: Apache-2.0
/* Calls and branches (graph.h has the invariants).
 *   y = Switch(c, f, g)(x)   ->   var y; if (c) { y = the body of f } else { y = the body of g }
 * A branch gives its result through variables and buffers made before it. */
#include "backend/lower/graph/graph.h"

/* ---- what receives a result ---- */

void anfi_glow_target_make(glow *w, const anfi_leaves *leaves, const texpr *to, gtarget *r) {
  *r = (gtarget){*leaves, ANFI_NEW_N(w->a, texpr, leaves->n + 1),
                 ANFI_NEW_N(w->a, texpr, leaves->n + 1)};
  for (size_t i = 0; i < r->leaves.n; i++) {
    const anfi_leaf *l = &r->leaves.at[i];
    tdtype d = anfi_t_dt(l->elem);
    if (l->scalar) r->var[i] = anfi_low_var(w->L, d, "r", anfi_t_int(w->t, d, 0));
    else r->room[i] = to && to[i] ? to[i] : anfi_low_local(w->L, l->elem, l->n, "t");
  }
}

/* Leaves that are never read are not written. */
void anfi_glow_target_put(glow *w, const gtarget *r, gval v) {
  for (size_t i = 0; i < v.n; i++) {
    if (!v.at[i]) continue;
    if (r->var[i]) anfi_low_set(w->L, r->var[i], anfi_view_value(w->L, v.at[i]));
    else if (r->room[i]) anfi_view_store(w->L, v.at[i], r->room[i]);
  }
}

gval anfi_glow_target_value(glow *w, const gtarget *r) {
  gval v = anfi_glow_new(w, r->leaves.n);
  for (size_t i = 0; i < v.n; i++)
    v.at[i] = anfi_glow_view(w, &r->leaves.at[i], r->var[i] ? r->var[i] : r->room[i]);
  return v;
}

/* ---- one known function ---- */

bool anfi_glow_is_small(const glow *w, const anf_graph *g) {
  const anfi_graph_info *gi = &w->an->graphs[g->id];
  if (w->uses[g->id] == 1) return true;
  return !gi->recursive && gi->order.n <= SMALL_GRAPH && w->weight[g->id] <= MAX_COPIED;
}

static bool is_inlined(const glow *w, const anf_graph *g) {
  if (w->inlined.n >= MAX_INLINED || g == w->self.fn->g) return false;
  for (size_t i = 0; i < w->inlined.n; i++)
    if (w->inlined.at[i] == g) return false;
  return anfi_glow_is_small(w, g);
}

typedef struct site {
  const anf_node *call;
  const gval *args; // without the callee
  size_t n;
  const texpr *to;
  bool tail;
} site;

/* The buffer that the function was given; it may have been written since, if it is owned. */
static bool is_given(const anfi_view *v, const anfi_view *given) {
  return v == given || (v && given->owned && v->tensor && v->tensor == given->tensor);
}

/* Can this call start the function anew? Buffers are those that it was given. */
static bool starts_anew(glow *w, const site *s, const anf_graph *g) {
  size_t k = 0;
  if (!s->tail || g != w->self.fn->g) return false;
  for (size_t i = 0; i < s->n; i++)
    for (size_t j = 0; j < s->args[i].n; j++, k++)
      if (!w->self.slot[k] && !is_given(s->args[i].at[j], w->self.in[k])) return false;
  return true;
}

static void start_anew(glow *w, const site *s) {
  gself *self = &w->self;
  size_t k = 0;
  for (size_t i = 0; i < s->n; i++)
    for (size_t j = 0; j < s->args[i].n; j++, k++)
      if (self->slot[k] && s->args[i].at[j])
        anfi_low_add(w->L,
                     anfi_t_assign(w->t, self->slot[k], anfi_view_value(w->L, s->args[i].at[j])));
  anfi_low_add(w->L, anfi_t_assign(w->t, self->again, anfi_t_bool(w->t, true)));
  self->looped = true;
}

/* The buffer of a result that the function writes in its argument: that of the argument, if nothing else needs it. */
static texpr carried_room(glow *w, const gfn *f, size_t i, const texpr *to, anfi_view *v) {
  const anfi_leaf *l = &f->result.at[i];
  if (v && v->owned) return v->tensor;
  texpr room = to && to[i] ? to[i] : anfi_low_local(w->L, l->elem, l->n, "t");
  if (v) anfi_view_store(w->L, v, room);
  return room;
}

/* Room for what a function does not return, and the views of all it gives. `given`: by leaf of the parameters. */
static size_t result_room(glow *w, const gfn *f, const texpr *to, anfi_view *const *given,
                          texpr *args, texpr *more, texpr *room) {
  size_t n = 0;
  for (size_t i = 0; i < f->result.n; i++) {
    const anfi_leaf *l = &f->result.at[i];
    size_t p = f->carry[i];
    if (i == f->returned) continue;
    if (p != ANFI_NO_CARRY) {
      room[i] = args[p] = carried_room(w, f, i, to, given[p]);
      continue;
    }
    room[i] = !l->scalar && to && to[i] ? to[i]
                                        : anfi_low_local(w->L, l->elem, l->scalar ? 1 : l->n, "t");
    more[n++] = room[i];
  }
  return n;
}

static bool is_carried(const gfn *f, size_t param) {
  for (size_t i = 0; i < f->result.n; i++)
    if (f->carry[i] == param) return true;
  return false;
}

static bool call_function(glow *w, const site *s, anf_graph *g, gval *out) {
  gfn *f = anfi_glow_function(w, g);
  if (!f) return false;
  texpr *args = ANFI_NEW_N(w->a, texpr, f->param.n + f->result.n + 1),
        *room = ANFI_NEW_N(w->a, texpr, f->result.n + 1), zero = anfi_t_index(w->t, 0);
  anfi_view **given = ANFI_NEW_N(w->a, anfi_view *, f->param.n + 1);
  size_t n = 0;
  for (size_t i = 0; i < s->n; i++)
    for (size_t j = 0; j < s->args[i].n; j++, n++) {
      given[n] = s->args[i].at[j];
      if (!is_carried(f, n)) args[n] = anfi_glow_atom(w, &f->param.at[n], given[n]);
    }
  n += result_room(w, f, s->to, given, args, args + n, room);
  bool returns = f->returned < f->result.n;
  tdtype ret = anfi_t_dt(returns ? f->result.at[f->returned].elem : ANF_TIR_void);
  texpr call = anfi_t_call(w->t, f->name, ret, (uint32_t)n, args), value = NULL;
  if (returns) value = anfi_low_let(w->L, call, "r");
  else anfi_low_add(w->L, anfi_t_eval(w->t, call));
  *out = anfi_glow_new(w, f->result.n);
  for (size_t i = 0; i < f->result.n; i++) {
    const anfi_leaf *l = &f->result.at[i];
    texpr e = i == f->returned ? value : room[i];
    if (i != f->returned && l->scalar)
      e = anfi_low_let(w->L, anfi_t_at(w->t, room[i], 1, &zero, 1, 0, NULL), "r");
    out->at[i] = anfi_glow_view(w, l, e);
    out->at[i]->owned = f->carry[i] != ANFI_NO_CARRY;
  }
  return true;
}

/* Results of an inlined body are owned as those of a function are. */
static void disown(glow *w, const anf_graph *g, gval v) {
  for (size_t i = 0; i < v.n; i++)
    if (v.at[i] && v.at[i]->owned && !anfi_glow_is_carried(w, g, i))
      v.at[i] = anfi_glow_lent(w, v.at[i]);
}

static bool call_known(glow *w, const site *s, anf_graph *g, gval *out) {
  if (starts_anew(w, s, g)) {
    start_anew(w, s);
    *out = anfi_glow_new(w, anfi_leaf_count(s->call->type));
    return true;
  }
  if (!is_inlined(w, g)) return call_function(w, s, g, out);
  gval v;
  if (!anfi_glow_body(w, g, s->args, s->to, s->tail, &v)) return false;
  *out = anfi_glow_new(w, v.n);
  if (v.n) memcpy(out->at, v.at, v.n * sizeof *v.at);
  disown(w, g, *out);
  return true;
}

/* ---- one of several functions ---- */

static texpr truth(glow *w, anf_node *cond) {
  gval c = anfi_glow_value(w, cond);
  if (!c.at[0]) return anfi_t_bool(w->t, false);
  texpr e = anfi_view_value(w->L, c.at[0]);
  if (anfi_t_is_elem(e->dtype, ANF_TIR_bool)) return e;
  return anfi_low_let(w->L, anfi_t_bin(w->t, TX_cmp_ne, e, anfi_t_int(w->t, e->dtype, 0)), "c");
}

/* The index of SwitchLayer, from 0, or the error that there is no such function. */
static texpr layer(glow *w, const anf_node *sw, size_t n) {
  gval v = anfi_glow_value(w, sw->in[0].def);
  tdtype s64 = ANFI_S64;
  if (!v.at[0]) return anfi_t_int(w->t, s64, 0);
  texpr i = anfi_view_value(w->L, v.at[0]), zero = anfi_t_int(w->t, s64, 0),
        count = anfi_t_int(w->t, s64, (int64_t)n);
  bool wide = anfi_t_is_elem(i->dtype, ANF_TIR_u64); // above 2^63 it would look negative
  texpr given = anfi_low_let(w->L, anfi_t_cast(w->t, s64, i), "i");
  texpr low = anfi_t_lt(w->t, given, zero), at = given;
  if (!wide)
    at = anfi_low_let(w->L, anfi_t_select(w->t, low, anfi_t_add(w->t, given, count), given), "i");
  texpr bad = anfi_t_bin(w->t, TX_logic_or, anfi_t_lt(w->t, at, zero),
                         anfi_t_bin(w->t, TX_cmp_ge, at, count));
  anfi_low_trap(w->L, bad, ANF_E0441, ANF_OP_SwitchLayer, anfi_node_loc(sw), given, count);
  return at;
}

/* The branches of a choice. Each is lowered by itself; what each gives is known only then, and so which results must be
 * copied to one place for what follows. */
typedef struct branches {
  const site *s;
  size_t n;
  tstmt *body;
  gval *v;
  anfi_leaves leaves;
  gtarget to;
  bool *taken; // by leaf: the branches write it in the buffer of an argument
  glink *link; // which
  /* by leaf: the branches write it in one of several parts of this buffer, or NULL; from which element on */
  texpr *shared, *at;
} branches;

static bool choose(glow *w, const site *s, anf_node *callee, gval *out);

/* Where the branch may write leaf i: not in an argument's buffer that it still reads. */
static texpr branch_room(const glow *w, const branches *m, size_t i, const anf_graph *g) {
  if (!m->taken[i]) return m->to.room[i];
  if (!g) return NULL;
  bool reads = g->params.at[m->link[i].input - 1]->uses != NULL;
  return reads && anfi_glow_stores(w, m->s->call, g, i, m->link[i]) ? NULL : m->to.room[i];
}

static bool lower_branch(glow *w, branches *m, size_t k, anf_node *callee) {
  anf_graph *g = anfi_value_graph(callee);
  site in = *m->s;
  texpr *to = ANFI_NEW_N(w->a, texpr, m->leaves.n + 1);
  for (size_t i = 0; i < m->leaves.n; i++) to[i] = branch_room(w, m, i, g);
  in.to = to;
  anfi_low_open(w->L);
  if (!(g ? call_known(w, &in, g, &m->v[k]) : choose(w, &in, callee, &m->v[k]))) return false;
  m->body[k] = anfi_low_close(w->L);
  return true;
}

static bool is_argument(const site *s, const anfi_view *v) {
  for (size_t i = 0; i < s->n; i++)
    for (size_t k = 0; k < s->args[i].n; k++)
      if (s->args[i].at[k] == v) return true;
  return false;
}

/* May two buffers overlap? */
static bool overlap(const glow *w, texpr a, texpr b) {
  const uint64_t *x = anfi_map_find(&w->slot, anfi_key(a)),
                 *y = anfi_map_find(&w->slot, anfi_key(b));
  return a == b || (x && y && w->slots.at[*x - 1].room == w->slots.at[*y - 1].room);
}

/* May it read the buffer of an argument that the branches write another leaf in? */
static bool reads_taken(const glow *w, const branches *m, size_t leaf, const anfi_view *v) {
  for (size_t i = 0; i < m->leaves.n; i++)
    if (m->taken[i] && i != leaf && (!v->tensor || overlap(w, v->tensor, m->to.room[i])))
      return true;
  return false;
}

/* The argument that all branches give, as far as they give anything for this leaf; or NULL. */
static anfi_view *common(const glow *w, const branches *m, size_t leaf) {
  anfi_view *v = NULL;
  for (size_t k = 0; k < m->n; k++) {
    anfi_view *x = m->v[k].n ? m->v[k].at[leaf] : NULL;
    if (x && ((v && x != v) || !is_argument(m->s, x))) return NULL;
    if (x) v = x;
  }
  return v && v->type->n && reads_taken(w, m, leaf, v) ? NULL : v;
}

/* The buffer of the argument that leaf i is written in, whichever branch runs, or NULL. `shared`: if branches write it in
 * different ones, parts of one buffer, that buffer. */
static texpr taken_over(glow *w, const site *s, size_t i, texpr *shared, glink *one) {
  glinks l;
  *shared = NULL;
  if (s->call->kind != ANFI_CALL || !anfi_glow_takes_one(w, s->call, i, &l)) return NULL;
  *one = l.at[0];
  const anfi_view *v = s->args[l.at[0].input - 1].at[l.at[0].leaf];
  if (l.n == 1) return v && v->owned ? v->tensor : NULL;
  const gslot *slot = anfi_glow_own_slot(w, v);
  texpr room = slot ? slot->room : NULL;
  for (size_t k = 1; k < l.n && slot; k++) {
    slot = anfi_glow_own_slot(w, s->args[l.at[k].input - 1].at[l.at[k].leaf]);
    if (slot && slot->room != room) slot = NULL;
  }
  if (slot) *shared = room;
  return NULL;
}

static void start_branches(glow *w, branches *m, const site *s, size_t n, const anfi_leaves *l) {
  *m = (branches){.s = s,
                  .n = n,
                  .body = ANFI_NEW_N(w->a, tstmt, n),
                  .v = ANFI_NEW_N(w->a, gval, n),
                  .leaves = *l};
  m->to.room = ANFI_NEW_N(w->a, texpr, l->n + 1);
  m->taken = ANFI_NEW_N(w->a, bool, l->n + 1);
  m->link = ANFI_NEW_N(w->a, glink, l->n + 1);
  m->shared = ANFI_NEW_N(w->a, texpr, l->n + 1);
  m->at = ANFI_NEW_N(w->a, texpr, l->n + 1);
  for (size_t i = 0; i < l->n; i++)
    if (l->at[i].scalar) continue;
    else if ((m->to.room[i] = taken_over(w, s, i, &m->shared[i], &m->link[i]))) m->taken[i] = true;
    else if (!m->shared[i])
      m->to.room[i] =
          s->to && s->to[i] ? s->to[i] : anfi_t_tensor1(w->t, l->at[i].elem, "t", l->at[i].n);
}

/* Does each branch give leaf i in a part of the buffer that they share? */
static bool is_shared(const glow *w, const branches *m, size_t i) {
  for (size_t k = 0; k < m->n && m->shared[i]; k++) {
    const gslot *slot = m->v[k].n ? anfi_glow_own_slot(w, m->v[k].at[i]) : NULL;
    if (!slot || slot->room != m->shared[i]) return false;
  }
  return m->shared[i] != NULL;
}

/* What a branch gives, where it is wanted. A buffer of an argument in which it stores a value of its own is written after all
 * that may read it: numbers, other leaves, the value itself. */
static void put_branch(glow *w, const branches *m, gval v) {
  bool stores = false;
  for (size_t i = 0; i < v.n; i++) {
    stores |= v.at[i] && m->taken[i] && v.at[i]->tensor != m->to.room[i];
    if (v.at[i] && m->to.var[i]) anfi_low_set(w->L, m->to.var[i], anfi_view_value(w->L, v.at[i]));
  }
  for (size_t i = 0; i < v.n && stores; i++) {
    bool there = v.at[i] && v.at[i]->tensor && v.at[i]->tensor == m->to.room[i];
    if (!v.at[i] || !m->to.room[i] || there) continue;
    bool itself = m->taken[i] && (!v.at[i]->tensor || overlap(w, v.at[i]->tensor, m->to.room[i]));
    if (itself || reads_taken(w, m, i, v.at[i])) v.at[i] = anfi_glow_copied_out(w, v.at[i]);
  }
  for (size_t i = 0; i < v.n; i++)
    if (v.at[i] && m->to.room[i]) anfi_view_store(w->L, v.at[i], m->to.room[i]);
}

/* Variables and rooms for what the branches bring together; then each branch writes them at its end. */
static gval end_branches(glow *w, branches *m) {
  gval out = anfi_glow_new(w, m->leaves.n);
  m->to.var = ANFI_NEW_N(w->a, texpr, m->leaves.n + 1);
  for (size_t i = 0; i < m->leaves.n; i++) {
    const anfi_leaf *l = &m->leaves.at[i];
    tdtype d = anfi_t_dt(l->elem);
    texpr room = m->to.room[i];
    if ((out.at[i] = common(w, m, i))) {
      m->to.room[i] = NULL;
      continue;
    }
    if (is_shared(w, m, i)) {
      m->at[i] = anfi_low_var(w->L, ANFI_IX, "at", anfi_t_index(w->t, 0));
      continue;
    }
    if (m->shared[i]) room = m->to.room[i] = anfi_t_tensor1(w->t, l->elem, "t", l->n);
    if (l->scalar) m->to.var[i] = anfi_low_var(w->L, d, "r", anfi_t_int(w->t, d, 0));
    else if (!m->taken[i] && (!m->s->to || room != m->s->to[i]))
      anfi_low_add(w->L, anfi_t_define(w->t, TL_local, room, NULL));
    out.at[i] = anfi_glow_view(w, l, l->scalar ? m->to.var[i] : room);
    out.at[i]->owned = m->taken[i];
  }
  for (size_t k = 0; k < m->n; k++) {
    anfi_low_open(w->L);
    anfi_low_add(w->L, anfi_t_splice(w->t, m->body[k]->n, m->body[k]->s));
    put_branch(w, m, m->v[k]);
    for (size_t i = 0; i < m->leaves.n; i++)
      if (m->at[i]) anfi_low_set(w->L, m->at[i], anfi_glow_own_slot(w, m->v[k].at[i])->at);
    m->body[k] = anfi_low_close(w->L);
  }
  return out;
}

/* After the branches: leaves in a buffer that they share. */
static void find_shared(glow *w, const branches *m, gval out) {
  for (size_t i = 0; i < m->leaves.n; i++) {
    const anfi_leaf *l = &m->leaves.at[i];
    if (!m->at[i]) continue;
    texpr at = anfi_low_let(w->L, m->at[i], "at");
    out.at[i] = anfi_glow_view(w, l, anfi_glow_slot(w, m->shared[i], l->elem, at, l->n));
    out.at[i]->owned = true;
  }
}

enum { CHAIN = 16 }; // branches in a row, which read better than a tree of them

/* if (i == 0) ... else if (i == 1) ... else the last; of many the half that has i, so that they do not nest deep. */
static tstmt one_of(glow *w, texpr i, size_t from, size_t n, const tstmt *branch) {
  if (n > CHAIN) {
    size_t half = n / 2;
    texpr below = anfi_t_lt(w->t, i, anfi_t_int(w->t, ANFI_S64, (int64_t)(from + half)));
    tstmt low = one_of(w, i, from, half, branch),
          high = one_of(w, i, from + half, n - half, branch);
    return anfi_t_if(w->t, below, low, high);
  }
  tstmt all = branch[from + n - 1];
  for (size_t k = from + n - 1; k-- > from;) {
    texpr is = anfi_t_bin(w->t, TX_cmp_eq, i, anfi_t_int(w->t, ANFI_S64, (int64_t)k));
    all = anfi_t_if(w->t, is, branch[k], all);
  }
  return all;
}

static void add_chain(glow *w, texpr i, size_t n, const tstmt *branch) {
  tstmt all = one_of(w, i, 0, n, branch);
  anfi_low_add(w->L, anfi_t_splice(w->t, 1, &all));
}

static bool choose(glow *w, const site *s, anf_node *sw, gval *out) {
  bool two = anfi_is_op(sw, ANF_OP_Switch);
  anfi_leaves l = {0};
  branches m;
  if (!two && !anfi_is_op(sw, ANF_OP_SwitchLayer))
    return anfi_fail(w->cx, anfi_node_loc(s->call), ANF_E0952);
  if (!anfi_glow_leaves(w, s->call->type, anfi_node_loc(s->call), &l)) return false;
  size_t n = sw->nin - 1u;
  texpr c = two ? truth(w, sw->in[0].def) : layer(w, sw, n);
  start_branches(w, &m, s, n, &l);
  for (size_t k = 0; k < n; k++)
    if (!lower_branch(w, &m, k, sw->in[k + 1].def)) return false;
  *out = end_branches(w, &m);
  if (two) anfi_low_add(w->L, anfi_t_if(w->t, c, m.body[0], m.body[1]));
  else add_chain(w, c, n, m.body);
  find_shared(w, &m, *out);
  return true;
}

/* The arguments that a callee may write over are owned; it gets no others as owned. */
static gval passed(glow *w, const anf_node *n, uint32_t i) {
  gval v = anfi_glow_value(w, n->in[i].def), r = anfi_glow_new(w, v.n);
  for (size_t k = 0; k < v.n; k++) {
    bool last = v.at[k] && v.at[k]->owned && n->kind == ANFI_CALL && anfi_glow_is_last(w, n, i, k);
    r.at[k] = last ? v.at[k] : anfi_glow_lent(w, v.at[k]);
  }
  return r;
}

/* Does v, which the call gives, stay as it is when the inputs with bits in `written` are overwritten? */
static bool is_apart(const site *s, const anfi_view *v, uint64_t written, bool inlined) {
  if (v->owned) return true;
  if (!anfi_view_in_memory(v)) return v->kind == VIEW_SCALAR;
  for (size_t i = 0; i < s->n; i++)
    for (size_t k = 0; k < s->args[i].n; k++)
      if (s->args[i].at[k] && s->args[i].at[k]->tensor == v->tensor)
        return !(written & anfi_glow_input_bit(i + 1));
  return !inlined; // an inlined body may give a part of a buffer
}

static void copy_out(glow *w, const site *s, bool inlined, gval *out) {
  const uint64_t *written = anfi_map_find(&w->forced, s->call->id);
  for (size_t i = 0; written && i < out->n; i++)
    if (out->at[i] && !is_apart(s, out->at[i], *written, inlined))
      out->at[i] = anfi_glow_copied_out(w, out->at[i]);
}

bool anfi_glow_call(glow *w, anf_node *n, bool tail, gval *out) {
  anf_node *callee = n->in[0].def;
  anf_graph *g = anfi_value_graph(callee);
  gval *args = ANFI_NEW_N(w->a, gval, n->nin);
  for (uint32_t i = 1; i < n->nin; i++) {
    anfi_leaves l = {0};
    anf_node *x = n->in[i].def;
    args[i - 1] = passed(w, n, i);
    if (g && is_inlined(w, g)) continue;
    if (!anfi_glow_leaves(w, x->type, anfi_node_loc(x), &l)) return false;
    anfi_glow_settle(w, &l, args[i - 1]);
  }
  site s = {n, args, n->nin - 1u, w->to[n->id], tail};
  if (!(g ? call_known(w, &s, g, out) : choose(w, &s, callee, out))) return false;
  copy_out(w, &s, g != NULL, out);
  return true;
}

bool anfi_glow_call_op(glow *w, anf_node *n, gval *out) {
  bool custom = n->op == ANF_OP_Custom; // f fwd bwd fdata fwddata bwddata args..
  anf_graph *g = anfi_value_graph(n->in[0].def);
  gval *args = ANFI_NEW_N(w->a, gval, n->nin + 1u);
  size_t k = 0;
  if (!g) return anfi_fail(w->cx, anfi_node_loc(n), ANF_E0952);
  for (uint32_t i = custom ? 3 : 1; i < n->nin; i++) {
    if (custom && (i == 4 || i == 5)) continue;
    anfi_leaves l = {0};
    anf_node *x = n->in[i].def;
    if (!anfi_glow_leaves(w, x->type, anfi_node_loc(x), &l)) return false;
    args[k] = passed(w, n, i);
    anfi_glow_settle(w, &l, args[k++]);
  }
  site s = {n, args, k, w->to[n->id], false};
  return call_known(w, &s, g, out);
}

/* ---- choices of data ---- */

/* The buffer that one of the two is in, if the choice may write the other one there. */
static texpr taken_data(glow *w, const anf_node *n, size_t leaf, const anfi_view *yes,
                        const anfi_view *no) {
  glinks l;
  if (!anfi_glow_takes_one(w, n, leaf, &l) || l.n != 1) return NULL;
  const anfi_view *v = l.at[0].input == 1 ? yes : no;
  return v->owned ? v->tensor : NULL;
}

static bool choose_data(glow *w, anf_node *n, gval *out) {
  anfi_leaves l = {0};
  gval a = anfi_glow_value(w, n->in[1].def), b = anfi_glow_value(w, n->in[2].def);
  texpr cond = truth(w, n->in[0].def);
  if (!anfi_glow_leaves(w, n->type, anfi_node_loc(n), &l)) return false;
  *out = anfi_glow_new(w, l.n);
  for (size_t i = 0; i < l.n; i++) {
    if (!a.at[i] || !b.at[i]) {
      anfi_view *v = a.at[i] ? a.at[i] : b.at[i];
      out->at[i] = v && w->linear ? anfi_glow_copied_out(w, v) : v;
      continue;
    }
    texpr x = anfi_glow_atom(w, &l.at[i], a.at[i]), y = anfi_glow_atom(w, &l.at[i], b.at[i]), r;
    texpr taken = l.at[i].scalar ? NULL : taken_data(w, n, i, a.at[i], b.at[i]);
    if (l.at[i].scalar) r = anfi_low_let(w->L, anfi_t_select(w->t, cond, x, y), "r");
    else {
      const texpr *to = w->to[n->id];
      r = taken ? taken : to && to[i] ? to[i] : anfi_low_local(w->L, l.at[i].elem, l.at[i].n, "t");
      anfi_low_open(w->L);
      anfi_view_store(w->L, a.at[i], r);
      tstmt yes = anfi_low_close(w->L);
      anfi_low_open(w->L);
      anfi_view_store(w->L, b.at[i], r);
      anfi_low_add(w->L, anfi_t_if(w->t, cond, yes, anfi_low_close(w->L)));
    }
    out->at[i] = anfi_glow_view(w, &l.at[i], r);
    out->at[i]->owned = taken != NULL;
  }
  return true;
}

static bool choose_data_layer(glow *w, anf_node *n, gval *out) {
  gtarget r;
  anfi_leaves l = {0};
  size_t count = n->nin - 1u;
  if (!anfi_glow_leaves(w, n->type, anfi_node_loc(n), &l)) return false;
  anfi_glow_target_make(w, &l, w->to[n->id], &r);
  for (size_t k = 0; k < count; k++) anfi_glow_settle(w, &l, anfi_glow_value(w, n->in[k + 1].def));
  texpr i = layer(w, n, count);
  tstmt *branch = ANFI_NEW_N(w->a, tstmt, count);
  for (size_t k = 0; k < count; k++) {
    anfi_low_open(w->L);
    anfi_glow_target_put(w, &r, anfi_glow_value(w, n->in[k + 1].def));
    branch[k] = anfi_low_close(w->L);
  }
  add_chain(w, i, count, branch);
  *out = anfi_glow_target_value(w, &r);
  return true;
}

bool anfi_glow_choice(glow *w, anf_node *n, gval *out) {
  if (n->op == ANF_OP_Switch) return choose_data(w, n, out);
  return choose_data_layer(w, n, out);
}
