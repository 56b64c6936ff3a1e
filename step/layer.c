// SPDX-License-Identifier: Apache-2.0
/* Values of which each rank has a part, gathered for the layers that read them (fully sharded data parallel; Rajbhandari et
 * al. 2020, Zhao et al. 2023).
 *
 *   h1 = Tanh(x @ w1)              h1 = Tanh(x @ AllGather(w1, layer=1))
 *   h2 = Tanh(h1 @ w2)             h2 = Tanh(h1 @ AllGather(w2, layer=2))
 *   h3 = Tanh(h2 @ w3)             h3 = Tanh(h2 @ AllGather(w3, layer=3))
 *   y  = h3 @ w4              ->   y  = h3 @ AllGather(w4, layer=4)
 *   dh3 = dy @ w4'                 dh3 = dy @ (that of layer 4)'
 *   dh2 = dh3 @ w3'                dh2 = dh3 @ (that of layer 3)'
 *   dh1 = dh2 @ w2'                dh1 = dh2 @ AllGather(w2, layer=7)'
 *
 * A layer is what reads one value before another one is read, in the order of the depth of what reads. So does the schedule
 * (backend/lower/graph/schedule.c), which starts the gather of a layer where the layer before it begins: two layers are
 * whole at a time. A value that is read again after one other layer is kept, since its next gather would be under
 * way by then. Ops that only arrange elements are no readers; each gather has copies of them.
 * INVARIANT: gathers of one value differ in the attribute `layer`, so no pass makes them one again. */
#include "step/step.h"

#include "optimizer/opt.h"

#include <stdlib.h>

typedef struct reading {
  anf_node *of;  // the value
  anfi_use *use; // the input that is it, or an arrangement of it
  uint32_t depth, place;
} reading;

typedef struct gathered {
  anf_node *of, *whole;
  uint32_t layer, last; // numbers of the layers that read it
  anfi_map arranged;    // by node that arranges elements of the value: its copy
} gathered;

typedef struct layers {
  anfi_layers_job *job;
  anfi_map depth; // by node
  anfi_map place; // by node: in the order, and 1
  ANFI_VEC(reading) reading;
  ANFI_VEC(gathered) gathered;
  anfi_map now; // by value: number of its last gather, and 1
} layers;

static uint32_t number_of(const anfi_map *m, const anf_node *n) {
  const uint64_t *at = anfi_map_find(m, n->id);
  return at ? (uint32_t)*at : 0;
}

static void find_depths(layers *s) {
  const anfi_node_vec *order = s->job->order;
  anfi_map_init(&s->depth, s->job->a);
  anfi_map_init(&s->place, s->job->a);
  for (size_t i = 0; i < order->n; i++) {
    const anf_node *n = order->at[i];
    uint32_t depth = 0;
    for (uint32_t k = 0; k < n->nin; k++) {
      uint32_t below = number_of(&s->depth, n->in[k].def) + 1;
      if (below > depth) depth = below;
    }
    *anfi_map_at(&s->depth, n->id) = depth;
    *anfi_map_at(&s->place, n->id) = i + 1;
  }
}

/* ---- who reads ---- */

static bool arranges(const anf_node *n) {
  return n->kind == ANFI_APPLY && n->nin == 1 && anfi_op_of(n)->lower == ANFI_LOWER_INDEX_MAP;
}

/* The readers of n, which is `of` or an arrangement of it. Such ops are few in a row, but of any number. */
static void find_readings(layers *s, anf_node *of) {
  anfi_node_vec open = {0};
  anfi_push(s->job->a, &open, of);
  while (open.n) {
    const anf_node *n = open.at[--open.n];
    for (anfi_use *u = n->uses; u; u = u->next) {
      if (!s->job->reads_whole(s->job->user, u->user)) continue;
      if (arranges(u->user)) anfi_push(s->job->a, &open, u->user);
      else
        anfi_push(s->job->a, &s->reading,
                  ((reading){of, u, number_of(&s->depth, u->user), number_of(&s->place, u->user)}));
    }
  }
}

static int by_depth(const void *x, const void *y) {
  const reading *a = (const reading *)x, *b = (const reading *)y;
  if (a->depth != b->depth) return a->depth < b->depth ? -1 : 1;
  return a->place < b->place ? -1 : a->place > b->place;
}

/* ---- gathers ---- */

/* The gather that this reading in layer number `layer` is of. */
static gathered *gather_of(layers *s, const reading *x, uint32_t layer) {
  anf_node *of = x->of;
  uint64_t *now = anfi_map_at(&s->now, of->id);
  gathered *g = *now ? &s->gathered.at[*now - 1] : NULL;
  if (!g || (!s->job->once && layer - g->last > 2)) {
    gathered fresh = {
        .of = of, .whole = s->job->whole(s->job->user, of, x->use->user, layer), .layer = layer};
    anfi_map_init(&fresh.arranged, s->job->a);
    anfi_push(s->job->a, &s->gathered, fresh);
    *now = s->gathered.n;
    g = &s->gathered.at[s->gathered.n - 1];
  }
  g->last = layer;
  return g;
}

/* n as this gather has it. Its inputs first, without recursion: n may be the last of many. */
static anf_node *arranged(layers *s, gathered *g, anf_node *n) {
  anfi_node_vec row = {0};
  anf_node *r = g->whole;
  for (; n != g->of; n = n->in[0].def) anfi_push(s->job->a, &row, n);
  while (row.n) {
    n = row.at[--row.n];
    uint64_t *known = anfi_map_at(&g->arranged, n->id);
    if (!*known) {
      anf_node *copy = anfi_apply(s->job->g, (anfi_opcode)n->op, n->u.attrs, 1, &r);
      copy->debug = n->debug;
      *known = (uint64_t)(uintptr_t)anfi_typed(copy, n->type);
    }
    r = (anf_node *)(uintptr_t)*known;
  }
  return r;
}

void anfi_step_gather_layers(anfi_layers_job *job, anf_node *const *of, size_t n) {
  layers s = {.job = job};
  uint32_t layer = 0;
  find_depths(&s);
  anfi_map_init(&s.now, job->a);
  for (size_t i = 0; i < n; i++) find_readings(&s, of[i]);
  if (s.reading.n) qsort(s.reading.at, s.reading.n, sizeof(reading), by_depth);
  for (size_t i = 0; i < s.reading.n; i++) {
    const reading *x = &s.reading.at[i];
    layer += !i || x->of != x[-1].of;
    anf_node *by = arranged(&s, gather_of(&s, x, layer), x->use->def);
    anfi_set_input(x->use->user, (size_t)(x->use - x->use->user->in), by);
  }
}
