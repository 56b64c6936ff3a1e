// SPDX-License-Identifier: Apache-2.0
/* The order in which a step computes, so that its state is updated in place and little is kept.
 *   step(w) gives (w - g, loss), where loss reads w   ->   loss first, then w - g in the buffer of w
 *
 * The leaves of the result are made in order of their depth in the graph: a loss first, each gradient
 * as soon as what it needs is there. A leaf that replaces one of the state waits for all that reads
 * the old one, where that is possible, and for all that may stop the program, so that a step that
 * fails leaves the state as it was. What needs the result of an exchange between ranks comes after all exchanges have been
 * started, so that they run beside the work between the first and the last. What is gathered for a layer is started where the
 * layer before it begins, so that it runs beside that one, and no more than two layers are there.
 * INVARIANT: only the order changes; effects stay first and in theirs. */
#include "backend/lower/graph/graph.h"

#include <stdlib.h>

enum { MAX_READERS = 256 }; // of one leaf; for more the order is that of the needs

typedef ANFI_VEC(uint32_t) places;

typedef struct root {
  uint32_t level, place;
} root;

typedef struct sched {
  /* the graph */
  anf_ctx *cx;
  anfi_arena *a;
  anf_graph *g;
  anf_node *const *order; // as it was
  size_t n;
  anfi_map index; // node id → 1 + place in `order`
  /* nodes, by place */
  uint32_t *level; // by place: depth in the graph
  uint8_t *seen;   // by place: 1 under way, 2 done
  bool *waiting;   // by place: replaces a leaf of the state
  bool *late;      // by place: is or needs such a one
  bool *delayed;   // by place: needs an exchange, and no exchange needs it
  places *after;   // by place: what reads the leaf that it replaces
  bool *of_layer;  // by place: gathered for a layer, or an arrangement of that
  places *ahead;   // by place: gathers of the next layer, if a layer begins here; NULL: not known
  /* the new order */
  bool wait;
  places out;
} sched;

static bool place_of(const sched *s, const anf_node *n, uint32_t *out) {
  uint64_t *at = anfi_map_find(&s->index, n->id);
  if (at) *out = (uint32_t)*at - 1;
  return at != NULL;
}

/* Is it fused into its consumers, mostly? */
static bool is_map(const anf_node *n) {
  anfi_lower kind = n->kind == ANFI_APPLY ? anfi_op_of(n)->lower : ANFI_LOWER_CALL;
  return kind == ANFI_LOWER_POINTWISE || kind == ANFI_LOWER_INDEX_MAP;
}

static void find_levels(sched *s) {
  for (size_t i = 0; i < s->n; i++)
    for (uint32_t k = 0, at; k < s->order[i]->nin; k++)
      if (place_of(s, s->order[i]->in[k].def, &at) && s->level[at] >= s->level[i])
        s->level[i] = s->level[at] + 1;
}

/* ---- what reads the state ---- */

/* The first leaf of the state that is the node, or SIZE_MAX. */
static size_t leaf_of(const anfi_map *leaf, const anf_node *n) {
  const uint64_t *at = anfi_map_find(leaf, n->id);
  return at ? (size_t)*at - 1 : SIZE_MAX;
}

/* Is n a part of a state that is its input? Then it is that part. */
static bool take_part(anf_ctx *cx, anfi_map *leaf, const anf_node *n) {
  size_t first = n->nin ? leaf_of(leaf, n->in[0].def) : SIZE_MAX;
  if (first == SIZE_MAX || (!anfi_is_op(n, ANF_OP_TupleGet) && !anfi_is_op(n, ANF_OP_RecordGet)))
    return false;
  *anfi_map_at(leaf, n->id) = first + anfi_glow_first_leaf(cx, n) + 1;
  return true;
}

/* May a product be fused into its one consumer? */
static bool is_followed(const anf_node *n) {
  return (anfi_op_of(n)->flags & ANFI_EPILOGUE) && n->uses && !n->uses->next;
}

/* A node that is fused into its consumers reads where they are. */
static void add_reader(sched *s, places *to, uint32_t at) {
  size_t from = to->n, first = from;
  anfi_push(s->a, to, at);
  for (; from < to->n && to->n < MAX_READERS; from++) {
    const anf_node *n = s->order[to->at[from]];
    if (!is_map(n) && (from != first || !is_followed(n))) continue;
    for (const anfi_use *u = n->uses; u && to->n < MAX_READERS; u = u->next)
      if (place_of(s, u->user, &at) && !anfi_is_op(u->user, ANF_OP_MakeTuple) &&
          !anfi_is_op(u->user, ANF_OP_MakeRecord))
        anfi_push(s->a, to, at);
  }
}

static places *readers_of(sched *s, anf_ctx *cx, size_t nstate, size_t nleaf) {
  anfi_map leaf;
  anfi_map_init(&leaf, s->a);
  places *r = ANFI_NEW_N(s->a, places, nleaf + 1);
  for (size_t i = 0, first = 0; i < nstate; i++) {
    const anf_node *p = s->g->params.at[i];
    *anfi_map_at(&leaf, p->id) = first + 1;
    first += anfi_leaf_count(p->type);
  }
  for (uint32_t i = 0; i < s->n; i++) {
    const anf_node *n = s->order[i];
    if (take_part(cx, &leaf, n)) continue;
    for (uint32_t k = 0; k < n->nin; k++) {
      size_t first = leaf_of(&leaf, n->in[k].def);
      if (first == SIZE_MAX || !n->in[k].def->type) continue;
      for (size_t j = anfi_leaf_count(n->in[k].def->type); j-- > 0;)
        if (r[first + j].n < MAX_READERS) add_reader(s, &r[first + j], i);
    }
  }
  return r;
}

/* ---- what makes the result ---- */

typedef struct results {
  sched *s;
  places *readers; // by leaf of the state
  size_t nleaf, at;
  ANFI_VEC(root) root;
} results;

static void add_root(results *r, uint32_t level, uint32_t place) {
  anfi_push(r->s->a, &r->root, ((root){level, place}));
}

/* Types nest no deeper than inference allows, so walks of what makes them may recurse. */
static void find_results(results *r, const anf_node *n) {
  uint32_t at;
  bool inner = anfi_is_op(n, ANF_OP_MakeTuple) || anfi_is_op(n, ANF_OP_MakeRecord);
  for (uint32_t i = 0; inner && i < n->nin; i++) find_results(r, n->in[i].def);
  if (inner) return;
  if (place_of(r->s, n, &at)) {
    add_root(r, r->s->level[at], at);
    bool part = anfi_is_op(n, ANF_OP_TupleGet) || anfi_is_op(n, ANF_OP_RecordGet); // makes nothing
    if (r->at < r->nleaf && n->type->kind == ANF_TYPE_TENSOR && !part && !r->s->waiting[at]) {
      r->s->waiting[at] = true;
      r->s->after[at] = r->readers[r->at];
    }
  }
  r->at += anfi_leaf_count(n->type);
}

static bool is_integer(const anf_type *t) {
  return t && t->kind == ANF_TYPE_TENSOR && anfi_dtype_is_int((anf_dtype)t->dtype);
}

/* May the node stop the program? Calls may; and ops on integers, which may be no index or divisor. */
static bool may_stop(const anf_node *n) {
  anfi_lower kind = n->kind == ANFI_APPLY ? anfi_op_of(n)->lower : ANFI_LOWER_CALL;
  if (kind == ANFI_LOWER_CALL || kind == ANFI_LOWER_CONTROL) return true;
  bool fails = anfi_op_of(n)->flags & ANFI_FAILS;
  if (kind == ANFI_LOWER_REDUCE || (kind == ANFI_LOWER_POINTWISE && !fails)) return false;
  for (uint32_t i = 0; i < n->nin; i++)
    if (is_integer(n->in[i].def->type)) return true;
  return false;
}

static bool is_exchange(const anf_node *n) {
  return (anfi_op_of(n)->flags & ANFI_COLLECTIVE) && n->nin;
}

/* A gather of sharded values for a layer. */
static bool is_of_layer(const sched *s, const anf_node *n) {
  return anfi_is_op(n, ANF_OP_AllGather) &&
         anfi_get_i64(anfi_attr_value(s->cx, ANF_OP_AllGather, n->u.attrs, ANFI_GATHER_LAYER), 0);
}

/* Finds the delayed nodes. False: there are no exchanges. */
static bool find_delayed(sched *s) {
  bool *feeds = ANFI_NEW_N(s->a, bool, s->n + 1), any = false;
  uint32_t at;
  for (uint32_t i = 0; i < s->n; i++)
    for (uint32_t k = 0; k < s->order[i]->nin && !s->delayed[i]; k++)
      s->delayed[i] =
          place_of(s, s->order[i]->in[k].def, &at) && (s->delayed[at] || is_exchange(s->order[at]));
  for (uint32_t i = (uint32_t)s->n; i-- > 0;) {
    any |= is_exchange(s->order[i]);
    if (!feeds[i] && !is_exchange(s->order[i])) continue;
    s->delayed[i] = false;
    for (uint32_t k = 0; k < s->order[i]->nin; k++)
      if (place_of(s, s->order[i]->in[k].def, &at)) feeds[at] = true;
  }
  return any;
}

/* New state is made after all that may stop, and what it is made of as early as without. Between the two comes what is
 * delayed. */
static void delay(results *r) {
  sched *s = r->s;
  uint32_t last = 0, at;
  for (uint32_t i = 0; i < s->n; i++) {
    s->late[i] = s->waiting[i];
    for (uint32_t k = 0; k < s->order[i]->nin && !s->late[i]; k++)
      s->late[i] = place_of(s, s->order[i]->in[k].def, &at) && s->late[at];
    bool first = may_stop(s->order[i]) || is_exchange(s->order[i]);
    if (!s->late[i] && first && s->level[i] > last) last = s->level[i];
  }
  bool any = find_delayed(s);
  uint32_t after = any ? last + 2 : last + 1;
  for (size_t i = 0; i < r->root.n; i++) {
    root *x = &r->root.at[i];
    uint32_t least = s->late[x->place] ? after : s->delayed[x->place] ? last + 1 : 0;
    if (x->level >= least) continue;
    x->level = least;
    any = true;
  }
  for (uint32_t i = 0; any && i < s->n; i++)
    if (!s->late[i] && !is_map(s->order[i]) && s->level[i] <= last && !is_of_layer(s, s->order[i]))
      add_root(r, s->delayed[i] ? last + 1 : s->level[i], i);
}

static int by_level(const void *x, const void *y) {
  const root *a = (const root *)x, *b = (const root *)y;
  if (a->level != b->level) return a->level < b->level ? -1 : 1;
  return a->place < b->place ? -1 : a->place > b->place;
}

/* ---- the order ---- */

typedef struct visit {
  uint32_t place, next;
} visit;
typedef ANFI_VEC(visit) visits;

/* The next thing to come before: what it needs, but the values of its layer; what is started ahead; those values; what it waits
 * for. False: nothing more. */
static bool next_before(const sched *s, visit *v, uint32_t *out) {
  const anf_node *n = s->order[v->place];
  const places *ahead = s->ahead ? &s->ahead[v->place] : &(places){0},
               *after = s->wait && s->waiting[v->place] ? &s->after[v->place] : &(places){0};
  size_t again = s->ahead ? n->nin : 0, end = n->nin + ahead->n + again + after->n;
  while (v->next < end) {
    size_t k = v->next++;
    if (k < n->nin) {
      if (place_of(s, n->in[k].def, out) && !(s->ahead && s->of_layer[*out])) return true;
    } else if ((k -= n->nin) < ahead->n) return *out = ahead->at[k], true;
    else if ((k -= ahead->n) < again) {
      if (place_of(s, n->in[k].def, out)) return true;
    } else return *out = after->at[k - again], true;
  }
  return false;
}

static void make_from(sched *s, visits *st, uint32_t place) {
  if (s->seen[place]) return;
  s->seen[place] = 1;
  anfi_push(s->a, st, ((visit){place, 0}));
  while (st->n) {
    visit *top = &st->at[st->n - 1];
    uint32_t before;
    if (!next_before(s, top, &before)) {
      s->seen[top->place] = 2;
      anfi_push(s->a, &s->out, top->place);
      st->n--;
    } else if (!s->seen[before]) {
      s->seen[before] = 1;
      anfi_push(s->a, st, ((visit){before, 0}));
    }
  }
}

/* False if waiting has put something before what it needs. */
static bool make_order(sched *s, const results *r, bool wait) {
  visits st = {0};
  uint32_t at, *when = ANFI_NEW_N(s->a, uint32_t, s->n + 1);
  s->wait = wait;
  s->out.n = 0;
  memset(s->seen, 0, s->n);
  for (size_t i = 0; i < s->g->effects.n; i++)
    if (place_of(s, s->g->effects.at[i], &at)) make_from(s, &st, at);
  for (size_t i = 0; i < r->root.n; i++) make_from(s, &st, r->root.at[i].place);
  for (uint32_t i = 0; i < s->n; i++) make_from(s, &st, i);
  for (uint32_t i = 0; i < s->n; i++) when[s->out.at[i]] = i;
  for (uint32_t i = 0; i < s->n; i++)
    for (uint32_t k = 0; k < s->order[i]->nin; k++)
      if (place_of(s, s->order[i]->in[k].def, &at) && when[at] > when[i]) return false;
  return true;
}

/* ---- layers ahead ---- */

static bool arranges(const anf_node *n) {
  return n->kind == ANFI_APPLY && n->nin == 1 && anfi_op_of(n)->lower == ANFI_LOWER_INDEX_MAP;
}

static void find_of_layer(sched *s) {
  uint32_t at;
  s->of_layer = ANFI_NEW_N(s->a, bool, s->n + 1);
  for (uint32_t i = 0; i < s->n; i++) {
    const anf_node *n = s->order[i];
    bool same = arranges(n) && place_of(s, n->in[0].def, &at) && s->of_layer[at];
    s->of_layer[i] = same || is_of_layer(s, n);
  }
}

/* Where the first reader of the node at a place is in the order that was made. Ops that arrange elements read where their readers are. */
static uint32_t first_read(sched *s, const uint32_t *when, uint32_t place) {
  places open = {0};
  uint32_t first = UINT32_MAX, at;
  anfi_push(s->a, &open, place);
  while (open.n) {
    const anf_node *n = s->order[open.at[--open.n]];
    for (const anfi_use *u = n->uses; u; u = u->next) {
      if (!place_of(s, u->user, &at)) continue;
      if (arranges(u->user)) anfi_push(s->a, &open, at);
      else if (when[at] < first) first = when[at];
    }
  }
  return first;
}

/* root.level: where the first reader is. False: no layer has a gather. */
static bool find_ahead(sched *s) {
  ANFI_VEC(root) gather = {0};
  uint32_t *when = ANFI_NEW_N(s->a, uint32_t, s->n + 1);
  for (uint32_t i = 0; i < s->n; i++) when[s->out.at[i]] = i;
  for (uint32_t i = 0; i < s->n; i++) {
    uint32_t first = is_of_layer(s, s->order[i]) ? first_read(s, when, i) : UINT32_MAX;
    if (first != UINT32_MAX) anfi_push(s->a, &gather, ((root){first, i}));
  }
  if (!gather.n) return false;
  qsort(gather.at, gather.n, sizeof(root), by_level);
  places *ahead = ANFI_NEW_N(s->a, places, s->n + 1);
  for (size_t i = 0, before = SIZE_MAX; i < gather.n; i++) {
    if (i && gather.at[i].level != gather.at[i - 1].level) before = i - 1;
    anfi_push(s->a, &ahead[s->out.at[gather.at[i].level]], gather.at[i].place); // its own
    if (before != SIZE_MAX)
      anfi_push(s->a, &ahead[s->out.at[gather.at[before].level]], gather.at[i].place);
  }
  find_of_layer(s);
  s->ahead = ahead;
  return true;
}

/* What an order needs may be more than there can be: then less is asked for. */
static bool order_with_layers(sched *s, const results *r, bool wait) {
  s->ahead = NULL;
  if (!make_order(s, r, wait)) return false;
  if (!find_ahead(s) || make_order(s, r, wait)) return true;
  s->ahead = NULL;
  return make_order(s, r, wait);
}

void anfi_glow_schedule(glow *w, anf_graph *g, size_t nstate) {
  anfi_graph_info *gi = &w->an->graphs[g->id];
  sched s = {.cx = w->cx, .a = w->a, .g = g, .n = gi->order.n};
  size_t nleaf = 0;
  anf_node **old = ANFI_NEW_N(w->a, anf_node *, s.n + 1);
  if (s.n) memcpy(old, gi->order.at, s.n * sizeof *old);
  s.order = old;
  s.level = ANFI_NEW_N(w->a, uint32_t, s.n + 1);
  s.seen = ANFI_NEW_N(w->a, uint8_t, s.n + 1);
  s.waiting = ANFI_NEW_N(w->a, bool, s.n + 1);
  s.late = ANFI_NEW_N(w->a, bool, s.n + 1);
  s.delayed = ANFI_NEW_N(w->a, bool, s.n + 1);
  s.after = ANFI_NEW_N(w->a, places, s.n + 1);
  anfi_map_init(&s.index, w->a);
  for (size_t i = 0; i < s.n; i++) *anfi_map_at(&s.index, old[i]->id) = i + 1;
  for (size_t i = 0; i < nstate; i++) nleaf += anfi_leaf_count(g->params.at[i]->type);
  find_levels(&s);
  results r = {.s = &s, .nleaf = nleaf, .readers = readers_of(&s, w->cx, nstate, nleaf)};
  find_results(&r, g->result);
  delay(&r);
  if (r.root.n) qsort(r.root.at, r.root.n, sizeof(root), by_level);
  if (!order_with_layers(&s, &r, true) && !order_with_layers(&s, &r, false)) return;
  for (size_t i = 0; i < s.n; i++) gi->order.at[i] = old[s.out.at[i]];
}
