// SPDX-License-Identifier: Apache-2.0
/* buffer_scheduler: buffer assignment: local tensors whose live ranges do not meet share memory.
 *
 *   tensor T: [f32 * 64] ... last use of T      →     tensor buffer: [s8 * 256]
 *   tensor U: [f32 * 64] ...                          T = &buffer[0], later U = &buffer[0]
 *
 * One buffer for each region: a function, or the body of a parallel loop. Time is the order of statements; a
 * live range that enters a loop from outside covers the whole loop. Free memory is kept by size class and the
 * block freed last is reused first, since it is still in cache. Where that takes more than an eighth too much, as with
 * large tensors of many sizes, a tensor goes into the smallest hole that it fits, whatever was there. */
#include "backend/tir/tir.h"

#include <stdlib.h>
#include <string.h>

enum {
  ALIGN = 64,
  STEPS = 8,
  CLASSES = 48 * STEPS,
  MANY = 64,    // tensors that are one buffer in any case
  FRAME = 1024, // bytes of small tensors in a region that stay apart
#ifdef ANF_HOSTILE
  LARGE = 1,
  MOST_HOLES = 3
#else
  LARGE = 1 << 18, // bytes of which holes are worth a search
  MOST_HOLES = 64
#endif
};

typedef struct life {
  texpr tensor;
  uint64_t bytes, offset, fitted; // by classes, in holes
  uint32_t from, to;              // ticks
  uint32_t loops;                 // open at the definition
  bool apart;
} life;

typedef struct region {
  struct region *outer;
  tstmt body;
  ANFI_VEC(life *) lives;
  texpr buffer; // NULL: nothing to share
} region;

typedef struct span {
  uint32_t from;
  ANFI_VEC(life *) touched; // alive through the whole loop
} span;

typedef struct user {
  /* lives and regions */
  tpass_cx *p;
  talias alias;
  anfi_map life_of;   // root → life
  anfi_map region_of; // body → region
  anfi_map where;     // tensor → region
  /* the walk */
  region *now;
  ANFI_VEC(region *) regions;
  ANFI_VEC(span) loops;
  uint32_t tick;
} user;

static void touch(user *u, texpr tensor) {
  texpr root = anfi_t_root(&u->alias, tensor);
  uint64_t *at = root ? anfi_map_find(&u->life_of, anfi_key(root)) : NULL;
  life *l = at ? (life *)(uintptr_t)*at : NULL;
  if (!l) return;
  if (l->from == UINT32_MAX) l->from = u->tick;
  if (u->tick > l->to) l->to = u->tick;
  if (u->loops.n > l->loops) { // the outermost loop that the definition is outside of
    span *s = &u->loops.at[l->loops];
    if (s->from < l->from) l->from = s->from;
    anfi_push(u->p->scratch, &s->touched, l);
  }
}
static bool see_expr(tviewer *v, texpr e) {
  user *u = (user *)v->user;
  if (e->kind == TX_indexing || e->kind == TX_tensorptr) touch(u, e->in[0]);
  if (e->kind == TX_tensor) touch(u, e);
  return true;
}

static void new_region(user *u, tstmt body) {
  region *r = ANFI_NEW(u->p->scratch, region);
  r->outer = u->now;
  r->body = body;
  u->now = r;
  anfi_push(u->p->scratch, &u->regions, r);
  *anfi_map_at(&u->region_of, anfi_key(body)) = anfi_key(r);
}

static bool planned(const user *u, tstmt s, uint64_t *bytes) {
  uint64_t n;
  texpr t = s->e[0];
  if (s->kind != TS_define || t->kind != TX_tensor || s->e[1] || t->nidx != 1 ||
      anfi_t_has_strides(t))
    return false;
  if (!anfi_t_is_confined(&u->alias, t) || !anfi_t_const_elems(t, &n) || n > INT32_MAX || !n)
    return false;
  *bytes = n * (t->sub ? 8 : anfi_t_bytes(anfi_t_dt((anf_tir_elem)t->dtype.elem)));
  return true;
}

static bool see_stmt(tviewer *v, tstmt s) {
  user *u = (user *)v->user;
  uint64_t bytes;
  u->tick++;
  if (s->kind == TS_for_loop || s->kind == TS_while_loop)
    anfi_push(u->p->scratch, &u->loops, ((span){.from = u->tick}));
  if (s->kind == TS_for_loop && s->sub) new_region(u, s->s[0]);
  if (!planned(u, s, &bytes)) return true;
  life *l = ANFI_NEW(u->p->scratch, life);
  *l = (life){.tensor = s->e[0], .bytes = bytes, .from = UINT32_MAX, .loops = (uint32_t)u->loops.n};
  *anfi_map_at(&u->life_of, anfi_key(s->e[0])) = anfi_key(l);
  *anfi_map_at(&u->where, anfi_key(s->e[0])) = anfi_key(u->now);
  anfi_push(u->p->scratch, &u->now->lives, l);
  return true;
}

static void left(tviewer *v, tstmt s) {
  user *u = (user *)v->user;
  u->tick++;
  if (s->kind != TS_for_loop && s->kind != TS_while_loop) return;
  span last = u->loops.at[--u->loops.n];
  for (size_t i = 0; i < last.touched.n; i++)
    if (u->tick > last.touched.at[i]->to) last.touched.at[i]->to = u->tick;
  if (s->kind == TS_for_loop && s->sub) u->now = u->now->outer;
}

/* ---- placing ---- */

/* Sizes come in eight steps from each power of two to the next. */
static uint32_t class_of(uint64_t bytes, uint64_t *size) {
  uint64_t p = ALIGN, step;
  uint32_t c = 0;
  while (2 * p <= bytes) p *= 2, c += STEPS;
  step = p / STEPS > ALIGN ? p / STEPS : ALIGN;
  uint64_t k = bytes > p ? (bytes - p + step - 1) / step : 0;
  *size = p + k * step;
  return k * step == p ? c + STEPS : c + (uint32_t)k;
}

typedef struct event {
  uint32_t tick;
  bool ends;
  life *l;
} event;

static int by_tick(const void *a, const void *b) {
  const event *x = (const event *)a, *y = (const event *)b;
  if (x->tick != y->tick) return x->tick < y->tick ? -1 : 1;
  return (int)x->ends - (int)y->ends; // what ends at a tick is alive through it
}

static uint64_t aligned(uint64_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }

static uint64_t place_by_class(anfi_arena *a, const event *e, size_t n) {
  ANFI_VEC(uint64_t) room[CLASSES + 1] = {{0}};
  uint64_t size = 0;
  for (size_t i = 0; i < n; i++) {
    uint64_t bytes;
    uint32_t c = class_of(e[i].l->bytes, &bytes);
    if (e[i].ends) anfi_push(a, &room[c], e[i].l->offset);
    else if (room[c].n) e[i].l->offset = room[c].at[--room[c].n];
    else {
      e[i].l->offset = size;
      size += bytes;
    }
  }
  return size;
}

/* Free memory, in order; below `size`. */
typedef struct holes {
  struct {
    uint64_t from, to;
  } at[MOST_HOLES + 1];
  size_t n;
  uint64_t size;
} holes;

static uint64_t take(holes *h, uint64_t bytes) {
  size_t best = h->n;
  for (size_t i = 0; i < h->n; i++) {
    uint64_t room = h->at[i].to - h->at[i].from;
    if (room >= bytes && (best == h->n || room < h->at[best].to - h->at[best].from)) best = i;
  }
  if (best == h->n && h->n && h->at[h->n - 1].to == h->size) { // the last one grows
    best = h->n - 1;
    h->size = h->at[best].to = h->at[best].from + bytes;
  }
  if (best == h->n) {
    h->size += bytes;
    return h->size - bytes;
  }
  uint64_t from = h->at[best].from;
  h->at[best].from += bytes;
  if (h->at[best].from == h->at[best].to)
    memmove(&h->at[best], &h->at[best + 1], (--h->n - best) * sizeof *h->at);
  return from;
}

/* Joins what it touches. Of too many holes the smallest is left out: its memory is used no more. */
static void give_back(holes *h, uint64_t from, uint64_t bytes) {
  size_t i = h->n, least = 0;
  while (i > 0 && h->at[i - 1].from > from) i--;
  memmove(&h->at[i + 1], &h->at[i], (h->n++ - i) * sizeof *h->at);
  h->at[i].from = from, h->at[i].to = from + bytes;
  for (size_t k = i + 1; k > 0 && k >= i; k--) // with the one after it, with the one before it
    if (k < h->n && h->at[k - 1].to == h->at[k].from) {
      h->at[k - 1].to = h->at[k].to;
      memmove(&h->at[k], &h->at[k + 1], (--h->n - k) * sizeof *h->at);
    }
  if (h->n <= MOST_HOLES) return;
  for (size_t k = 1; k < h->n; k++)
    if (h->at[k].to - h->at[k].from < h->at[least].to - h->at[least].from) least = k;
  memmove(&h->at[least], &h->at[least + 1], (--h->n - least) * sizeof *h->at);
}

static uint64_t place_in_holes(const event *e, size_t n) {
  holes h = {.n = 0};
  for (size_t i = 0; i < n; i++) {
    uint64_t bytes = aligned(e[i].l->bytes);
    if (e[i].ends) give_back(&h, e[i].l->fitted, bytes);
    else e[i].l->fitted = take(&h, bytes);
  }
  return h.size;
}

/* Tensors that fit a frame (`limit` bytes each) stay apart, unless they are many: LLVM keeps their elements in registers, and no part of a
 * buffer. A loop over 8 elements of such tensors that share memory would not be vectorised, as each may alias the others. */
static void set_apart(const region *r, uint64_t limit) {
  uint64_t small = 0;
  for (size_t i = 0; i < r->lives.n; i++)
    if (r->lives.at[i]->bytes <= limit) small += aligned(r->lives.at[i]->bytes);
  for (size_t i = 0; i < r->lives.n && small <= FRAME; i++)
    r->lives.at[i]->apart = r->lives.at[i]->bytes <= limit;
}

static uint64_t place(anfi_arena *a, region *r, event *e) {
  uint64_t separate = 0;
  size_t n = 0;
  for (size_t i = 0; i < r->lives.n; i++) {
    life *l = r->lives.at[i];
    if (l->apart) continue;
    separate += aligned(l->bytes);
    if (l->from == UINT32_MAX) l->from = l->to = 0;
    e[n++] = (event){l->from, false, l};
    e[n++] = (event){l->to, true, l};
  }
  qsort(e, n, sizeof *e, by_tick);
  uint64_t size = place_by_class(a, e, n), fitted = size < LARGE ? size : place_in_holes(e, n);
  if (fitted + fitted / 8 < size) {
    for (size_t i = 0; i < r->lives.n; i++) r->lives.at[i]->offset = r->lives.at[i]->fitted;
    size = fitted;
  }
  return size < separate || n > 2 * MANY ? size : 0; // sharing must save something
}

static tstmt define(tvisitor *v, tstmt s) {
  user *u = (user *)v->user;
  uint64_t *at = s->kind == TS_define ? anfi_map_find(&u->life_of, anfi_key(s->e[0])) : NULL;
  if (at) {
    life *l = (life *)(uintptr_t)*at;
    region *r = (region *)(uintptr_t)*anfi_map_find(&u->where, anfi_key(s->e[0]));
    texpr off = anfi_t_index(v->t, l->offset);
    return r->buffer && !l->apart
               ? anfi_t_define(v->t, TL_local, s->e[0], anfi_t_addr(v->t, r->buffer, 1, &off))
               : s;
  }
  if (s->kind != TS_stmts) return s;
  uint64_t *reg = anfi_map_find(&u->region_of, anfi_key(s));
  region *r = reg ? (region *)(uintptr_t)*reg : NULL;
  if (!r || !r->buffer) return s;
  tstmt two[] = {anfi_t_define(v->t, TL_local, r->buffer, NULL), anfi_t_splice(v->t, s->n, s->s)};
  return anfi_t_stmts(v->t, 2, two);
}

tfunc anfi_t_pass_buffer_scheduler(tpass_cx *p, tfunc f) {
  user u = {.p = p};
  anfi_t_alias_init(&u.alias, p->t, p->scratch, f);
  anfi_map_init(&u.life_of, p->scratch);
  anfi_map_init(&u.region_of, p->scratch);
  anfi_map_init(&u.where, p->scratch);
  new_region(&u, f->body);
  tviewer see = {.user = &u, .enter_expr = see_expr, .enter_stmt = see_stmt, .leave_stmt = left};
  anfi_t_view_stmt(&see, f->body);
  for (size_t i = 0; i < u.regions.n; i++) {
    region *r = u.regions.at[i];
    set_apart(r, p->opts->local_tensor_bytes);
    uint64_t size = place(p->scratch, r, ANFI_NEW_N(p->scratch, event, 2 * r->lives.n));
    if (size) r->buffer = anfi_t_tensor1(p->t, ANF_TIR_s8, "buffer", size);
  }
  tvisitor v;
  anfi_t_visitor_init(&v, p->t, p->scratch, &u);
  v.enter = define;
  return anfi_t_visit_func(&v, f);
}
