// SPDX-License-Identifier: Apache-2.0
/* Buffers of a loop's state: rounds exchange buffers, and copy nothing.
 *   while ..: x = f(x)       buffers b[0], b[1]:   a round reads b[k], writes b[1 - k], then k = 1 - k
 *   (u, v) = (v, f(u, v))    three slots of one buffer: only the numbers of u and v move
 *   (u, v) = (v, w[i] of u)  two slots of one buffer, of which one is written in place; so where a branch or an inner loop
 *                            exchanges them, which then works in the slots of the outer loop
 *   w[i] = v                 one buffer: written in place
 * A leaf is written in place if one op alone reads it, element by element or to write some of its elements anew; if
 * nothing reads it; or if it is small, when the round is over. Hard case: residuals on a stack. The state before a round
 * or after it lives in the stack: a round reads its record, and writes that of the next one.
 * INVARIANT: what a round wants written (`to`) is read by nothing in the round. */
#include "backend/lower/graph/loop.h"

enum { LEAST_BYTES = 512, LINE = 64 };
#ifdef ANF_HOSTILE
enum { LEAST_GIVEN = 64 };
#else
enum { LEAST_GIVEN = 1 << 14 }; // bytes of a state that the caller's buffer holds
#endif
enum { MANY_TURNS = 256 }; // leaves: of more those that are passed on are copied

static uint64_t bytes_of(const anfi_leaf *f) { return f->n * anfi_t_bytes(anfi_t_dt(f->elem)); }

/* ---- what the step does with a leaf ---- */

enum { MANY = 4096 }; // leaves: of more nothing is known

static size_t param_at(const anf_node *p) {
  size_t i = 0;
  while (p->graph->params.at[i] != p) i++;
  return i;
}

static gsource source_of(anf_ctx *cx, gsource s, int deep);

/* A call of one of several graphs that all hand on an argument, as far as they give anything: that argument. */
static bool handed_on(anf_ctx *cx, gsource *s, int deep) {
  const anf_node *call = s->n, *sw = call->in[0].def;
  gsource r = {0};
  if (!anfi_is_op(sw, ANF_OP_Switch) && !anfi_is_op(sw, ANF_OP_SwitchLayer)) return false;
  for (uint32_t i = 1; i < sw->nin; i++) {
    const anf_graph *g = anfi_value_graph(sw->in[i].def);
    if (!g) return false;
    gsource own = source_of(cx, (gsource){g->result, s->leaf}, deep + 1);
    if (anfi_is_op(own.n, ANF_OP_Undef)) continue;
    if (own.n->kind != ANFI_PARAM || own.n->graph != g) return false;
    own.n = call->in[1 + param_at(own.n)].def;
    if (r.n && (r.n != own.n || r.leaf != own.leaf)) return false;
    r = own;
  }
  if (r.n) *s = r;
  return r.n != NULL;
}

/* The node that the leaf comes from, through tuples that are built and taken apart, and through calls that hand it on. */
static gsource source_of(anf_ctx *cx, gsource s, int deep) {
  enum { DEEPEST = 8 }; // a graph may call itself
  do s = anfi_glow_source(cx, s);
  while (s.n->kind == ANFI_CALL && deep < DEEPEST && handed_on(cx, &s, deep));
  return s;
}

static bool is_same(gsource a, gsource b) { return a.n && a.n == b.n && a.leaf == b.leaf; }

static void find_sources(looping *l) {
  size_t leaf = 0, n = l->leaves.n;
  for (size_t i = 0; i < l->ns; i++) {
    anf_node *p = l->step->params.at[l->nw + i];
    for (size_t k = 0; k < anfi_leaf_count(p->type); k++, leaf++) {
      l->place[leaf].param = (gsource){p, k};
      if (n <= MANY)
        l->place[leaf].next =
            source_of(l->w->cx, (gsource){l->step->result, !l->counted + leaf}, 0);
    }
  }
  for (size_t i = 0, at = !l->counted + n; i < l->nout; at += l->out[i++].leaves.n)
    if (n <= MANY && l->out[i].leaves.n == 1)
      l->out[i].kept = source_of(l->w->cx, (gsource){l->step->result, at}, 0);
}

/* Is x a number that is computed in its place, which is before `n`? */
static bool is_early_number(const looping *l, const anf_node *x, const anf_node *n) {
  const anfi_graph_info *gi = &l->w->an->graphs[l->step->id];
  if (x->kind != ANFI_APPLY || !x->type || x->type->kind != ANF_TYPE_TENSOR || x->type->n)
    return false;
  if (anfi_op_of(x)->lower == ANFI_LOWER_CALL || anfi_op_of(x)->lower == ANFI_LOWER_CONTROL)
    return false;
  for (size_t i = 0; i < gi->order.n && gi->order.at[i] != n; i++)
    if (gi->order.at[i] == x) return true;
  return false;
}

/* Elements of the state are written anew by one op; other ops read numbers of it before that. */
static bool writes_over(const looping *l, const anf_node *p, const anf_node *next) {
  enum { FEW = 8 };
  size_t n = 0;
  if (!(anfi_op_of(next)->flags & ANFI_WRITES_OVER) || next->in[0].def != p) return false;
  for (const anfi_use *u = p->uses; u; u = u->next) {
    if (++n > FEW) return false;
    if (u->user == next ? u != &next->in[0] : !is_early_number(l, u->user, next)) return false;
  }
  return true;
}

/* The one that reads it makes the next state of it in its place. */
static bool is_in_place(const looping *l, const gplace *g) {
  const anf_node *p = g->param.n, *next = g->next.n;
  if (!next || next->kind != ANFI_APPLY || p->type != next->type || !anfi_only_user(next))
    return false;
  if (writes_over(l, p, next)) return true;
  return anfi_only_user(p) == next && anfi_lower_is_scalar((anfi_opcode)next->op);
}

/* Does a round write it in place, by whatever chain of ops? Then what the round makes last is wanted there. */
static bool is_linear(looping *l, size_t leaf) {
  anfi_loop_op p = anfi_loop_parts(l->n);
  gplace *g = &l->place[leaf];
  if (!l->w->linear || !anfi_glow_loop_in_place(l->w, &p, leaf)) return false;
  g->next = anfi_glow_source(l->w->cx, (gsource){l->step->result, !l->counted + leaf});
  return true;
}

/* Is it a copy that find_same will leave out? */
static bool is_copy(const looping *l, size_t leaf) {
  for (size_t k = 0; k < l->leaves.n && !l->counted && !l->guarded; k++)
    if (l->place[k].param.n->uses && is_same(l->place[k].next, l->place[leaf].next)) return true;
  return false;
}

/* Stacks that keep the leaf before or after each round are one, in which it lives. */
static bool find_stack(looping *l, size_t leaf) {
  gplace *g = &l->place[leaf];
  bool found = false;
  for (size_t i = 0; i < l->nout && !l->reverse; i++) {
    gstack *s = &l->out[i];
    bool before = is_same(s->kept, g->param);
    if (s->state || (!before && !is_same(s->kept, g->next))) continue;
    if (!found) g->slot = i;
    s->state = leaf + 1;
    s->later = !before;
    found = l->ahead = true;
  }
  return found;
}

/* ---- arrays that rounds exchange ---- */

/* Leaves that rounds make in each other's place, in whatever order: each round writes them in place, and only their
 * places move. Finds those that exchange with `leaf`. */
static void find_exchange(looping *l, const anfi_loop_op *p, size_t leaf) {
  size_t all[ANFI_MOST_LINKS], n = anfi_glow_loop_turns(l->w, p, leaf, all);
  const anfi_leaf *f = &l->leaves.at[leaf];
  if (n < 2 || f->scalar || bytes_of(f) < LEAST_BYTES) return;
  for (size_t i = 0; i < n; i++) {
    gplace *g = &l->place[all[i]];
    size_t back[ANFI_MOST_LINKS];
    if (anfi_glow_loop_turns(l->w, p, all[i], back) != n) return;
    if (l->leaves.at[all[i]].elem != f->elem || l->leaves.at[all[i]].n != f->n || g->linear) return;
  }
  for (size_t i = 0; i < n; i++) {
    gplace *g = &l->place[all[i]];
    g->home = HOME_TURN;
    g->group = leaf;
    g->linear = true;
    g->taker = all[i] + 1; // nothing else takes its place
    g->next = anfi_glow_source(l->w->cx, (gsource){l->step->result, !l->counted + all[i]});
  }
}

static void find_exchanges(looping *l) {
  anfi_loop_op p = anfi_loop_parts(l->n);
  for (size_t i = 0; l->w->linear && i < l->leaves.n && l->leaves.n <= MANY_TURNS; i++)
    if (!l->place[i].linear) find_exchange(l, &p, i);
}

/* Is it made in the place of one of several? */
static bool is_exchanged(const gplace *g) { return g->home == HOME_TURN && g->linear; }

static void choose(looping *l, size_t leaf) {
  gplace *g = &l->place[leaf];
  const anfi_leaf *f = &l->leaves.at[leaf];
  if (is_exchanged(g)) return;
  g->group = leaf;
  g->home = HOME_ROOM;
  if (f->scalar) g->home = HOME_VAR;
  else if (is_same(g->next, g->param) || anfi_glow_sums_has(l->sums, g->param.n)) return;
  else if (is_linear(l, leaf)) g->in_place = g->linear = true;
  else if (is_in_place(l, g)) g->in_place = true;
  else if (!g->param.n->uses && is_copy(l, leaf)) return;
  else if (bytes_of(f) >= LEAST_BYTES && find_stack(l, leaf)) g->home = HOME_STACK;
  else if (!g->param.n->uses) g->in_place = true;
  else if (bytes_of(f) >= LEAST_BYTES) g->home = HOME_TURN;
  g->fresh = g->home == HOME_TURN;
}

/* ---- leaves that pass their values on ---- */

static void join(looping *l, size_t a, size_t b) {
  for (size_t i = 0; i < l->leaves.n; i++)
    if (l->place[i].group == b) l->place[i].group = a;
}

static void find_taken(looping *l, size_t leaf) {
  gplace *g = &l->place[leaf];
  for (size_t k = 0; k < l->leaves.n; k++) {
    const gplace *from = &l->place[k];
    if (!is_same(g->next, from->param) || from->home != HOME_TURN) continue;
    if (from->taker) return;
    l->place[k].taker = leaf + 1;
    g->fresh = false;
    g->takes = k;
    join(l, g->group, from->group);
    return;
  }
}

void anfi_loop_state_plan(looping *l) {
  size_t n = l->leaves.n;
  l->place = ANFI_NEW_N(l->w->a, gplace, n + 1);
  find_sources(l);
  find_exchanges(l);
  for (size_t i = 0; i < n; i++) choose(l, i);
  for (size_t i = 0; i < n && n <= MANY_TURNS; i++)
    if (l->place[i].home == HOME_TURN && !l->place[i].linear) find_taken(l, i);
}

/* ---- before the first round ---- */

static texpr number(const looping *l, uint64_t v) { return anfi_t_index(l->w->t, v); }

/* Elements from one place of a buffer to the next. */
static uint64_t pitch(const anfi_leaf *f) {
  uint64_t line = LINE / anfi_t_bytes(anfi_t_dt(f->elem));
  return (f->n + line - 1) / line * line;
}

/* The buffer in which the outer loop exchanges all that `leaf` is exchanged with, if this loop takes them over; or NULL. */
static texpr outer_room(looping *l, size_t leaf, gval given) {
  glinks links;
  texpr room = NULL;
  if (!is_exchanged(&l->place[leaf]) || !anfi_glow_takes_one(l->w, l->n, leaf, &links)) return NULL;
  for (size_t i = 0; i < l->leaves.n; i++) {
    const gslot *slot = anfi_glow_own_slot(l->w, given.at[i]);
    if (!is_exchanged(&l->place[i]) || l->place[i].group != leaf) continue;
    if (!slot || (room && room != slot->room)) return NULL;
    room = slot->room;
  }
  return room;
}

static void take_places(looping *l, size_t leaf, texpr room, gval given) {
  for (size_t i = 0; i < l->leaves.n; i++) {
    gplace *g = &l->place[i];
    if (!is_exchanged(g) || g->group != leaf) continue;
    g->room = room;
    g->taken = true;
    g->at = anfi_low_var(l->w->L, ANFI_IX, "at", anfi_glow_own_slot(l->w, given.at[i])->at);
  }
}

/* Each has one place in the buffer of its group, and one more if rounds make it. */
static void open_places(looping *l, gval given) {
  glow *w = l->w;
  size_t n = l->leaves.n;
  uint64_t *places = ANFI_NEW_N(w->a, uint64_t, n + 1);
  for (size_t i = 0; i < n; i++) {
    texpr room = outer_room(l, i, given);
    if (room) take_places(l, i, room, given);
  }
  for (size_t i = 0; i < n; i++)
    if (l->place[i].home == HOME_TURN && !l->place[i].taken)
      places[l->place[i].group] += 1u + l->place[i].fresh;
  for (size_t i = 0; i < n; i++) {
    const anfi_leaf *f = &l->leaves.at[i];
    if (places[i]) l->place[i].room = anfi_low_local(w->L, f->elem, places[i] * pitch(f), "turns");
  }
  for (size_t i = 0; i < n; i++) {
    gplace *g = &l->place[i];
    uint64_t next = pitch(&l->leaves.at[i]), *left = &places[g->group];
    if (g->home != HOME_TURN || g->taken) continue;
    g->room = l->place[g->group].room;
    g->at = anfi_low_var(w->L, ANFI_IX, "at", number(l, --*left * next));
    if (g->fresh) g->spare = anfi_low_var(w->L, ANFI_IX, "spare", number(l, --*left * next));
  }
}

static texpr place_at(const looping *l, size_t leaf, texpr at) {
  const anfi_leaf *f = &l->leaves.at[leaf];
  return anfi_glow_slot(l->w, l->place[leaf].room, f->elem, at, f->n);
}

/* The leaf in the record `more` rounds after `round`; NULL: in the first. */
static texpr place_in(const looping *l, size_t leaf, texpr round, uint64_t more) {
  const gstack *s = &l->out[l->place[leaf].slot];
  texpr at = round ? anfi_loop_record(l, s, round, more) : number(l, 0);
  return anfi_glow_buffer_at(l->w, &l->leaves.at[leaf], s->base, at);
}

/* Is the loop the last reader of the leaf's initial value? */
static bool takes_given(const looping *l, size_t leaf) {
  glinks links;
  return anfi_glow_takes_one(l->w, l->n, leaf, &links) && links.n == 1;
}

/* Of a loop of the entry: the caller's buffer in which the leaf is wanted, or NULL. A small one stays local, where nothing else
 * may alias it; to copy it once costs less. */
static texpr wanted_room(const looping *l, size_t leaf) {
  const glow *w = l->w;
  const texpr *to = w->to[l->n->id];
  bool entry = l->n->graph == w->todo.at[0]->g && w->self.fn == w->todo.at[0];
  bool large = bytes_of(&l->leaves.at[leaf]) >= LEAST_GIVEN;
  return to && entry && large && !w->o->nstate ? to[leaf] : NULL;
}

static void begin(looping *l, size_t i, anfi_view *given) {
  glow *w = l->w;
  gplace *g = &l->place[i];
  const anfi_leaf *f = &l->leaves.at[i];
  texpr first = NULL;
  if (g->home == HOME_ROOM && g->linear && given && given->owned && takes_given(l, i)) {
    g->room = given->tensor;
    return;
  }
  switch (g->home) {
  case HOME_VAR:
    g->room = anfi_low_var(w->L, anfi_t_dt(f->elem), "r", anfi_t_int(w->t, anfi_t_dt(f->elem), 0));
    if (given) anfi_low_set(w->L, g->room, anfi_view_value(w->L, given));
    return;
  case HOME_ROOM:
    if (!(g->room = wanted_room(l, i))) g->room = anfi_low_local(w->L, f->elem, f->n, "t");
    first = g->room;
    break;
  case HOME_TURN: first = given && !g->taken ? place_at(l, i, g->at) : NULL; break;
  case HOME_STACK: first = given ? place_in(l, i, NULL, 0) : NULL; break;
  }
  if (given && first) anfi_view_store(w->L, given, first);
}

void anfi_loop_state_begin(looping *l, gval given) {
  open_places(l, given);
  for (size_t i = 0; i < l->leaves.n; i++) begin(l, i, given.at[i]);
}

/* ---- in a round ---- */

static void now(looping *l, size_t i) {
  glow *w = l->w;
  gplace *g = &l->place[i];
  g->to = g->in_place ? g->room : NULL;
  switch (g->home) {
  case HOME_VAR:
  case HOME_ROOM: g->now = g->room; break;
  case HOME_TURN:
    g->was = anfi_low_let(w->L, g->at, "was");
    if (g->fresh) g->will = anfi_low_let(w->L, g->spare, "will");
    if (g->fresh) g->to = place_at(l, i, g->will);
    g->now = place_at(l, i, g->was);
    break;
  case HOME_STACK:
    g->now = place_in(l, i, l->i, 0);
    g->to = place_in(l, i, l->i, 1);
    break;
  }
}

void anfi_loop_state_now(looping *l) {
  for (size_t i = 0; i < l->leaves.n; i++) now(l, i);
}

/* The first wish holds: buffers that nothing reads come last. */
static void wish(looping *l, gsource s, texpr to) {
  if (to && s.n) anfi_glow_wish(l->w, l->step, s.n, s.leaf, to);
}

void anfi_loop_state_wish(looping *l) {
  size_t n = l->leaves.n;
  for (size_t i = 0; i < n; i++)
    if (l->place[i].home != HOME_ROOM) wish(l, l->place[i].next, l->place[i].to);
  for (size_t i = 0; i < l->nout; i++)
    if (!l->out[i].state && l->out[i].leaves.n == 1) wish(l, l->out[i].kept, l->out[i].to[0]);
  for (size_t i = 0; i < n; i++)
    if (l->place[i].home == HOME_ROOM) wish(l, l->place[i].next, l->place[i].to);
}

/* ---- the end of a round ---- */

/* A leaf that rounds make goes on where it was written; free for the next one is the place of the last that took
 * its value over, one from the other. */
static void turn_places(looping *l) {
  for (size_t i = 0; i < l->leaves.n; i++) {
    const gplace *g = &l->place[i], *last = g;
    if (g->home != HOME_TURN || g->linear) continue;
    anfi_low_set(l->w->L, g->at, g->fresh ? g->will : l->place[g->takes].was);
    if (!g->fresh) continue;
    while (last->taker) last = &l->place[last->taker - 1];
    anfi_low_set(l->w->L, g->spare, last->was);
  }
}

/* The buffer of a leaf whose next value is in place, or waits for the others. */
static texpr waits_in(const gplace *g) {
  if (is_exchanged(g)) return g->now;
  return g->home == HOME_VAR || g->home == HOME_ROOM ? g->room : NULL;
}

/* A buffer that is another part of the state is copied before that is written. */
static void keep_other(looping *l, size_t i, texpr next, anfi_view **v) {
  glow *w = l->w;
  for (size_t k = 0; k < l->leaves.n; k++) {
    if (next != l->place[k].now || !waits_in(&l->place[k])) continue;
    const anfi_leaf *f = &l->leaves.at[i];
    texpr copy = anfi_low_local(w->L, f->elem, f->n, "t");
    anfi_view_store(w->L, *v, copy);
    *v = anfi_glow_view(w, f, copy);
    return;
  }
}

/* Moves the places of leaves that the round has exchanged. Those of a group that are not all in its buffer are copied, and
 * stay where they are. */
static void exchange_places(looping *l, gval v) {
  glow *w = l->w;
  bool *apart = ANFI_NEW_N(w->a, bool, v.n + 1);
  for (size_t i = 0; i < v.n; i++) {
    const gslot *slot = anfi_glow_own_slot(w, v.at[i]);
    const gplace *g = &l->place[i];
    if (is_exchanged(g) && (!slot || slot->room != g->room || l->same[i])) apart[g->group] = true;
  }
  for (size_t i = 0; i < v.n; i++) {
    gplace *g = &l->place[i];
    const anfi_leaf *f = &l->leaves.at[i];
    if (!is_exchanged(g)) continue;
    if (apart[g->group] && v.at[i]) {
      texpr copy = anfi_low_local(w->L, f->elem, f->n, "t");
      anfi_view_store(w->L, v.at[i], copy);
      v.at[i] = anfi_glow_view(w, f, copy);
    } else if (!apart[g->group]) g->will = anfi_glow_own_slot(w, v.at[i])->at;
    g->moved = !apart[g->group];
  }
  for (size_t i = 0; i < v.n; i++)
    if (l->place[i].moved) anfi_low_set(w->L, l->place[i].at, l->place[i].will);
}

/* Leaves whose place nothing reads are written first; the others are all computed before one of them is written. */
void anfi_loop_state_next(looping *l, gval v) {
  glow *w = l->w;
  const anfi_leaves *f = &l->leaves;
  texpr *next = ANFI_NEW_N(w->a, texpr, v.n + 1);
  exchange_places(l, v);
  for (size_t i = 0; i < v.n; i++) {
    const gplace *g = &l->place[i];
    if (!v.at[i] || l->same[i] || g->moved) continue;
    if (waits_in(g)) next[i] = anfi_glow_atom(w, &f->at[i], v.at[i]);
    else if (g->to) anfi_view_store(w->L, v.at[i], g->to);
  }
  for (size_t i = 0; i < v.n; i++)
    if (next[i] && l->place[i].home != HOME_VAR && next[i] != waits_in(&l->place[i]))
      keep_other(l, i, next[i], &v.at[i]);
  for (size_t i = 0; i < v.n; i++) {
    texpr room = waits_in(&l->place[i]);
    if (!next[i] || next[i] == room) continue;
    if (l->place[i].home == HOME_VAR) anfi_low_set(w->L, room, next[i]);
    else anfi_view_store(w->L, v.at[i], room);
  }
  turn_places(l);
}

/* ---- after the loop ---- */

gval anfi_loop_state_result(looping *l) {
  glow *w = l->w;
  gval v = anfi_glow_new(w, l->leaves.n);
  for (size_t i = 0; i < v.n; i++) {
    const gplace *g = &l->place[i];
    texpr e = g->room;
    if (l->same[i]) continue;
    if (g->home == HOME_TURN) e = place_at(l, i, anfi_low_let(w->L, g->at, "at"));
    if (g->home == HOME_STACK) e = place_in(l, i, l->counted ? l->rounds : l->next, 0);
    v.at[i] = anfi_glow_view(w, &l->leaves.at[i], e);
    v.at[i]->owned = g->linear;
  }
  for (size_t i = 0; i < v.n; i++) {
    if (!l->same[i]) continue;
    v.at[l->same[i] - 1]->owned = false;
    v.at[i] = v.at[l->same[i] - 1];
  }
  return v;
}
