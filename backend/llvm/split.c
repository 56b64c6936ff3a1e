// SPDX-License-Identifier: Apache-2.0
/* Partitions a large module into LLVM modules, which threads compile independently.
 *
 *   f inlines g; h is marked no-inline     →     {f, g} {h}
 *
 * Functions that LLVM may inline into each other stay together. INVARIANT: the partition follows from the code alone,
 * so machine code is the same whatever the number of threads. */
#include <stdlib.h>

#include "backend/llvm/llvm.h"

enum { MOST = 16, MOST_PLAIN = 128 }; // groups of functions, and of kernels
#ifdef ANF_HOSTILE
enum { UNIT = 8, PLAIN_UNIT = 16, KERNELS = 1, SMALL = 8 };
#else
enum {
  UNIT = 2000,        // nodes of Tensor IR that are worth a group
  PLAIN_UNIT = 20000, // of functions that are not optimised
  KERNELS = 8,        // calls of kernels that are worth a group
  SMALL = 1500        // a module of fewer nodes is left whole
};
#endif

typedef struct use {
  uint32_t from, to;
} use;

typedef struct splitter {
  anfi_arena *a;
  const tmod *m;
  uint32_t *up;      // union-find, by function: the set's first member
  uint64_t *weight;  // by function, then by set
  bool *plain;       // the same
  size_t at;         // the current function
  uint64_t kernels;  // calls of them
  ANFI_VEC(use) use; // of functions that may be in other groups
} splitter;

static uint32_t find(splitter *s, uint32_t i) {
  while (s->up[i] != i) i = s->up[i] = s->up[s->up[i]];
  return i;
}

static void unite(splitter *s, uint32_t a, uint32_t b) {
  a = find(s, a), b = find(s, b);
  if (a == b) return;
  if (a < b) s->up[b] = a;
  else s->up[a] = b;
}

/* ---- what functions are and use ---- */

static bool never_inlined(tfunc f) {
  int64_t level = 1;
  return anfi_t_attr(f->attrs, TA_inline_level, &level) && level == 0;
}

static void see_use(splitter *s, const anfi_str *name) {
  uint64_t *at = name ? anfi_map_find(&s->m->by_name, anfi_key(name)) : NULL;
  if (!at || !s->m->func.at[*at - 1]->body) return;
  uint32_t to = (uint32_t)(*at - 1);
  if (never_inlined(s->m->func.at[to])) anfi_push(s->a, &s->use, ((use){(uint32_t)s->at, to}));
  else unite(s, (uint32_t)s->at, to);
}

static bool see_expr(tviewer *v, texpr e) {
  splitter *s = (splitter *)v->user;
  s->weight[s->at]++;
  if (e->kind == TX_call || e->kind == TX_func_addr) see_use(s, e->u.name);
  if (e->kind == TX_intrin_call) s->kernels += e->sub == TI_brgemm || e->sub == TI_list_brgemm;
  return true;
}

static bool see_stmt(tviewer *v, tstmt t) {
  splitter *s = (splitter *)v->user;
  (void)t;
  s->weight[s->at]++;
  return true;
}

static uint64_t look(splitter *s, const anfi_jit_lowered *l, bool all_plain) {
  uint64_t total = 0;
  tviewer v = {.user = s, .enter_expr = see_expr, .enter_stmt = see_stmt};
  size_t n = s->m->func.n;
  s->up = ANFI_NEW_N(s->a, uint32_t, n + 1);
  s->weight = ANFI_NEW_N(s->a, uint64_t, n + 1);
  s->plain = ANFI_NEW_N(s->a, bool, n + 1);
  for (size_t i = 0; i < n; i++) s->up[i] = (uint32_t)i;
  for (s->at = 0; s->at < n; s->at++) {
    if (s->m->func.at[s->at]->body) anfi_t_view_stmt(&v, s->m->func.at[s->at]->body);
    s->plain[s->at] =
        all_plain || (!l->need[s->at].recursive && anfi_ll_is_plain(s->m->func.at[s->at]));
    total += s->weight[s->at];
  }
  return total;
}

/* ---- groups ---- */

typedef struct set {
  uint64_t weight;
  uint32_t first;
} set;

static int heavy_first(const void *a, const void *b) {
  const set *x = (const set *)a, *y = (const set *)b;
  if (x->weight != y->weight) return x->weight < y->weight ? 1 : -1;
  return x->first < y->first ? -1 : x->first > y->first;
}

static uint32_t lightest(const uint64_t *load, uint32_t n) {
  uint32_t best = 0;
  for (uint32_t i = 1; i < n; i++)
    if (load[i] < load[best]) best = i;
  return best;
}

/* Sets of one sort, the heaviest first, each to the group that has least, of the `n` from `from` on. */
static void deal(const splitter *s, const set *all, size_t nset, bool plain, uint32_t from,
                 uint32_t n, lsplit *out) {
  uint64_t load[MOST_PLAIN] = {0};
  for (size_t i = 0; i < nset; i++) {
    if (s->plain[all[i].first] != plain) continue;
    uint32_t k = lightest(load, n);
    load[k] += all[i].weight;
    out->of[all[i].first] = from + k;
  }
}

static uint32_t groups_for(uint64_t n, uint64_t unit, uint32_t most) {
  uint64_t k = (n + unit - 1) / unit;
  return k < most ? (uint32_t)k : most;
}

/* The sets of functions, the heaviest first; `weight`: sums of both sorts. */
static set *sets(splitter *s, size_t *nset, uint64_t weight[2]) {
  uint32_t n = (uint32_t)s->m->func.n;
  set *all = ANFI_NEW_N(s->a, set, n + 1u);
  *nset = 0;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t k = find(s, i);
    if (k == i) continue;
    s->weight[k] += s->weight[i];
    s->plain[k] &= s->plain[i];
  }
  for (uint32_t i = 0; i < n; i++) {
    if (find(s, i) != i) continue;
    all[(*nset)++] = (set){s->weight[i], i};
    weight[s->plain[i]] += s->weight[i];
  }
  qsort(all, *nset, sizeof *all, heavy_first);
  return all;
}

const lsplit *anfi_ll_split(anf_ctx *cx, const anfi_jit_lowered *l, anf_jit_level o) {
  splitter s = {.a = anfi_scratch(cx), .m = l->m};
  if (look(&s, l, o == ANF_JIT_O0) < SMALL) return NULL;
  uint64_t weight[2] = {0};
  size_t nset, n = l->m->func.n;
  const set *all = sets(&s, &nset, weight);
  lsplit *out = ANFI_NEW(s.a, lsplit);
  uint32_t full = groups_for(weight[false], UNIT, MOST);
  out->plain = groups_for(weight[true], PLAIN_UNIT, MOST_PLAIN);
  out->groups = full + out->plain;
  out->kernels = groups_for(s.kernels, KERNELS, MOST);
  out->of = ANFI_NEW_N(s.a, uint32_t, n);
  out->shared = ANFI_NEW_N(s.a, bool, n);
  deal(&s, all, nset, false, 0, full, out);
  deal(&s, all, nset, true, full, out->plain, out);
  for (uint32_t i = 0; i < n; i++) out->of[i] = out->of[find(&s, i)];
  for (size_t i = 0; i < s.use.n; i++)
    out->shared[s.use.at[i].to] |= out->of[s.use.at[i].from] != out->of[s.use.at[i].to];
  return out;
}
