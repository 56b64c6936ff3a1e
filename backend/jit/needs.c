// SPDX-License-Identifier: Apache-2.0
/* Bottom-up summary of each function: does it need a stream, module data, protection against traps, the deep stack?
 *
 *   f calls g, g may trap     →     g and f need protection
 *
 * First each function alone, then the strongly connected components of the call graph (Tarjan, without recursion),
 * callees first. Linear. */
#include "backend/jit/jit.h"

enum { ALL = ANF_RT_TRAPS | ANF_RT_DEEP | ANF_RT_STREAM | ANF_RT_DATA };

typedef struct node {
  ANFI_VEC(uint32_t) out;
  uint32_t index, low, next; // Tarjan's; next: edge to follow
  bool on_stack, self, indirect;
} node;

typedef struct user {
  const tmod *m;
  anfi_arena *a;
  anfi_jit_need *need;
  node *n;
  uint32_t f; // the current function
  texpr stream, data;
  bool tensors; // the function has local tensors
} user;

static void look(user *u, texpr e);

static void look_all(user *u, const texpr *e, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) look(u, e[i]);
}

static int64_t place(const user *u, const anfi_str *name) {
  uint64_t *at = anfi_map_find(&u->m->by_name, anfi_key(name));
  return at && u->m->func.at[*at - 1]->body ? (int64_t)*at - 1 : -1;
}

static void edge(user *u, int64_t to) {
  if (to >= 0) anfi_push(u->a, &u->n[u->f].out, (uint32_t)to);
}

static void flag(user *u, uint32_t flags) { u->need[u->f].flags |= flags; }

/* The address of a function, other than that of a closure for anf_rt_parallel. */
static void take_address(user *u, const anfi_str *name) {
  int64_t to = place(u, name);
  edge(u, to);
  if (to >= 0) u->need[to].address = u->need[to].called = true;
}

static void call(user *u, texpr e) {
  uint32_t npar, first = 0;
  anfi_t_triples(e, &npar);
  if (!e->u.name) {
    flag(u, ALL);
    u->n[u->f].indirect = true;
    look_all(u, e->in + 2, e->n - 2);
    return;
  }
  int64_t to = place(u, e->u.name);
  int rt = to < 0 ? anfi_t_rt_of(e->u.name->s) : -1;
  if (rt >= 0) flag(u, ANF_RT_STREAM | (rt == TRT_anf_rt_free ? 0 : ANF_RT_TRAPS));
  if (rt == TRT_anf_rt_parallel && e->in[0]->kind == TX_func_addr) {
    int64_t closure = place(u, e->in[0]->u.name);
    edge(u, closure);
    if (closure >= 0) u->need[closure].address = u->need[closure].turn = true;
    look_all(u, e->in + 3, e->n - 3);
    return;
  }
  if (to >= 0) {
    edge(u, to);
    u->need[to].called = true;
    first = 2; // stream and data: what the callee needs, which the edge brings
  }
  look_all(u, e->in + first, e->n - first);
}

static bool may_divide_by_zero(texpr e) {
  if (anfi_t_is_float(e->dtype)) return false;
  texpr d = e->in[1];
  if (d->kind != TX_constant) return true;
  for (uint32_t i = 0; i < d->u.k.n; i++)
    if (!d->u.k.bits[i]) return true;
  return false;
}

static void look(user *u, texpr e) {
  switch ((tkind)e->kind) {
  case TX_var:
    if (e == u->stream) flag(u, ANF_RT_STREAM);
    if (e == u->data) flag(u, ANF_RT_DATA);
    return;
  case TX_tensor: return; // its dims were visited where it is defined
  case TX_call: call(u, e); return;
  case TX_func_addr: take_address(u, e->u.name); return;
  case TX_div:
  case TX_mod:
    if (may_divide_by_zero(e)) flag(u, ANF_RT_TRAPS | ANF_RT_STREAM);
    break;
  case TX_intrin_call:
    if (anfi_t_is_brgemm(e)) flag(u, ANF_RT_TRAPS | ANF_RT_STREAM);
    break;
  default: break;
  }
  look_all(u, e->in, e->n);
}

bool anfi_jit_on_heap(tstmt s) {
  enum { IN_FRAME = 64 << 10 };
  uint64_t n;
  texpr v = s->kind == TS_define ? s->e[0] : NULL, init = s->e[1];
  bool list = init && init->kind == TX_constant && init->sub;
  if (!v || v->kind != TX_tensor || (init && !list)) return false;
  size_t bytes = v->sub ? 8 : anfi_t_bytes(anfi_t_dt((anf_tir_elem)v->dtype.elem));
  return !anfi_t_const_elems(v, &n) || n > IN_FRAME / bytes;
}

/* return f(...) of f itself, which engines make a jump of */
bool anfi_jit_self_tail(tfunc f, tstmt s) {
  texpr e = s->kind == TS_returns ? s->e[0] : NULL;
  return e && e->kind == TX_call && e->u.name == f->name && e->n == e->nidx;
}

static void see(user *u, tfunc f, tstmt s) {
  if (anfi_jit_self_tail(f, s) && !u->tensors) {
    look_all(u, s->e[0]->in + 2, s->e[0]->n - 2);
    return;
  }
  if (anfi_jit_on_heap(s)) flag(u, ANF_RT_STREAM | ANF_RT_TRAPS);
  if (s->kind == TS_define && s->e[0]->kind == TX_tensor) look_all(u, s->e[0]->in, s->e[0]->n);
  for (int i = 0; i < 4; i++)
    if (s->e[i]) look(u, s->e[i]);
  int64_t step;
  if (s->kind == TS_for_loop && !(anfi_t_const_i64(s->e[3], &step) && step > 0))
    flag(u, ANF_RT_TRAPS | ANF_RT_STREAM);
  for (uint32_t i = 0; i < s->n; i++)
    if (s->s[i]) see(u, f, s->s[i]);
}

static bool find_tensor(tviewer *v, tstmt s) {
  bool *found = (bool *)v->user;
  *found |= s->kind == TS_define && s->e[0]->kind == TX_tensor && !s->e[1];
  return !*found;
}
static bool no_expr(tviewer *v, texpr e) { return (void)v, (void)e, false; }

bool anfi_jit_has_local_tensors(tfunc f) {
  bool found = false;
  tviewer v = {.user = &found, .enter_stmt = find_tensor, .enter_expr = no_expr};
  anfi_t_view_stmt(&v, f->body);
  return found;
}

/* ---- groups ---- */

typedef struct tarjan {
  user *u;
  ANFI_VEC(uint32_t) path, stack;
  uint32_t count;
} tarjan;

static void enter(tarjan *t, uint32_t v) {
  node *n = &t->u->n[v];
  n->index = n->low = ++t->count;
  n->on_stack = true;
  anfi_push(t->u->a, &t->path, v);
  anfi_push(t->u->a, &t->stack, v);
}

/* A group is complete: its members need what any of them needs, and their callees. */
static void settle(tarjan *t, uint32_t v) {
  user *u = t->u;
  size_t first = t->stack.n;
  while (t->stack.at[--first] != v) continue;
  bool cycle = t->stack.n - first > 1 || u->n[v].self;
  uint32_t flags = cycle ? ANF_RT_TRAPS | ANF_RT_STREAM | ANF_RT_DEEP : 0;
  for (size_t i = first; i < t->stack.n; i++) {
    uint32_t w = t->stack.at[i];
    flags |= u->need[w].flags;
    for (size_t k = 0; k < u->n[w].out.n; k++) flags |= u->need[u->n[w].out.at[k]].flags;
  }
  for (size_t i = first; i < t->stack.n; i++) {
    uint32_t w = t->stack.at[i];
    u->need[w].flags = flags;
    u->need[w].recursive = cycle;
    u->n[w].on_stack = false;
  }
  t->stack.n = first;
}

static void groups_from(tarjan *t, uint32_t start) {
  enter(t, start);
  while (t->path.n) {
    uint32_t v = t->path.at[t->path.n - 1];
    node *n = &t->u->n[v];
    if (n->next < n->out.n) {
      uint32_t w = n->out.at[n->next++];
      node *to = &t->u->n[w];
      n->self |= w == v;
      if (!to->index) enter(t, w);
      else if (to->on_stack && to->index < n->low) n->low = to->index;
      continue;
    }
    t->path.n--;
    if (n->low == n->index) settle(t, v);
    if (t->path.n) {
      node *up = &t->u->n[t->path.at[t->path.n - 1]];
      if (n->on_stack && n->low < up->low) up->low = n->low;
    }
  }
}

/* Calls through pointers may reach every function whose address is taken: one more node, last,
 * stands for them. */
static void add_indirect(user *u, uint32_t nfunc) {
  for (uint32_t i = 0; i < nfunc; i++) {
    if (u->n[i].indirect) anfi_push(u->a, &u->n[i].out, nfunc);
    if (u->need[i].address) anfi_push(u->a, &u->n[nfunc].out, i);
  }
}

anfi_jit_need *anfi_jit_needs(anf_ctx *cx, const tmod *m) {
  anfi_arena *a = anfi_scratch(cx);
  user u = {.m = m,
            .a = a,
            .need = ANFI_NEW_N(a, anfi_jit_need, m->func.n + 1),
            .n = ANFI_NEW_N(a, node, m->func.n + 1)};
  for (uint32_t i = 0; i < m->func.n; i++) {
    tfunc f = m->func.at[i];
    if (!f->body) continue;
    u.f = i;
    u.stream = f->param[0];
    u.data = f->param[1];
    u.tensors = anfi_jit_has_local_tensors(f);
    for (uint32_t k = 2; k < f->n; k++)
      if (f->param[k]->kind == TX_tensor) look_all(&u, f->param[k]->in, f->param[k]->n);
    see(&u, f, f->body);
  }
  add_indirect(&u, (uint32_t)m->func.n);
  tarjan t = {.u = &u};
  for (uint32_t i = 0; i < m->func.n; i++)
    if (m->func.at[i]->body && !u.n[i].index) groups_from(&t, i);
  return u.need;
}
