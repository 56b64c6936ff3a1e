// SPDX-License-Identifier: Apache-2.0
#include "takeover.h"

void anfi_t_takeovers_init(takeovers *t, anfi_arena *a) {
  anfi_map_init(&t->uses, a);
  anfi_map_init(&t->into, a);
}

tuse *anfi_t_use_of(takeovers *t, texpr tensor) {
  uint64_t *at = tensor->kind == TX_tensor ? anfi_map_find(&t->uses, anfi_key(tensor)) : NULL;
  tuse *x = at ? (tuse *)(uintptr_t)*at : NULL;
  bool own = x && x->list == t->list; // each turn of an inner list may use one of a list around it
  return own ? x : NULL;
}

static bool see(tviewer *v, texpr e) {
  takeovers *t = (takeovers *)v->user;
  tuse *x = anfi_t_use_of(t, e);
  if (!x) return true;
  if (x->first == UINT32_MAX) x->first = t->at;
  x->last = t->at;
  return true;
}

static bool see_view(tviewer *v, tstmt s) { // a view lives on: nothing is known of its uses
  texpr init = s->kind == TS_define && s->e[0]->kind == TX_tensor ? s->e[1] : NULL;
  tuse *x = init ? anfi_t_use_of(v->user, init->kind == TX_tensorptr ? init->in[0] : init) : NULL;
  if (x) x->views++;
  return true;
}

static bool owns_buffer(tstmt s) {
  return s->kind == TS_define && s->e[0]->kind == TX_tensor && !s->e[1];
}

bool anfi_t_takeovers_read(takeovers *t, anfi_arena *a, tstmt list) {
  bool any = false;
  t->list = list;
  for (uint32_t i = 0; i < list->n; i++) {
    if (!owns_buffer(list->s[i])) continue;
    tuse *x = ANFI_NEW(a, tuse);
    *x = (tuse){list, i, UINT32_MAX, 0, 0};
    *anfi_map_at(&t->uses, anfi_key(list->s[i]->e[0])) = anfi_key(x);
    any = true;
  }
  tviewer viewer = {.user = t, .enter_expr = see, .enter_stmt = see_view};
  for (t->at = 0; any && t->at < list->n; t->at++)
    if (!owns_buffer(list->s[t->at])) anfi_t_view_stmt(&viewer, list->s[t->at]);
  return any;
}

bool anfi_t_take_over(takeovers *t, texpr in, texpr out, uint32_t at, uint32_t views) {
  tuse *a = anfi_t_use_of(t, in), *b = anfi_t_use_of(t, out);
  uint64_t x, y;
  if (!a || !b || a == b || a->views != views || b->views != views) return false;
  if (a->last != at || b->first != at || a->defined > b->defined) return false;
  if (!anfi_t_const_elems(in, &x) || !anfi_t_const_elems(out, &y) || x != y) return false;
  *anfi_map_at(&t->into, anfi_key(out)) = anfi_key(in);
  a->views = b->views = UINT32_MAX; // a buffer is shared once
  return true;
}

tstmt anfi_t_taken(takeovers *t, tvisitor *v, tstmt s) {
  uint64_t *at = s->kind == TS_define ? anfi_map_find(&t->into, anfi_key(s->e[0])) : NULL;
  if (!at) return s;
  texpr from = (texpr)(uintptr_t)*at, *zero = ANFI_NEW_N(v->scratch, texpr, from->nidx);
  for (uint32_t i = 0; i < from->nidx; i++) zero[i] = anfi_t_index(v->t, 0);
  return anfi_t_define(v->t, TL_local, s->e[0], anfi_t_addr(v->t, from, from->nidx, zero));
}
