// SPDX-License-Identifier: Apache-2.0
/* dead_func_eliminate: dead functions: private functions and declarations that no entry reaches.
 *
 *   a calls b, b calls a, both private, f calls neither    →    f */
#include "backend/tir/tir.h"

typedef struct user {
  const tmod *m;
  anfi_arena *scratch;
  anfi_map live; // function names
  ANFI_VEC(tfunc) todo;
} user;

static void reach(user *u, const anfi_str *name) {
  tfunc f = anfi_t_mod_find(u->m, name);
  if (!f || anfi_map_find(&u->live, anfi_key(name))) return;
  *anfi_map_at(&u->live, anfi_key(name)) = 1;
  anfi_push(u->scratch, &u->todo, f);
}
static bool see(tviewer *v, texpr e) {
  if ((e->kind == TX_call || e->kind == TX_func_addr) && e->u.name)
    reach((user *)v->user, e->u.name);
  return true;
}

const tmod *anfi_t_pass_dead_func_eliminate(tpass_cx *p, const tmod *m) {
  user u = {.m = m, .scratch = p->scratch};
  tviewer v = {.user = &u, .enter_expr = see};
  anfi_map_init(&u.live, p->scratch);
  for (size_t i = 0; i < m->func.n; i++)
    if (m->func.at[i]->body && !anfi_t_attr(m->func.at[i]->attrs, TA_is_private, NULL))
      reach(&u, m->func.at[i]->name);
  while (u.todo.n) {
    tfunc f = u.todo.at[--u.todo.n];
    if (f->body) anfi_t_view_stmt(&v, f->body);
  }
  tmod *o = anfi_t_mod_like(m);
  for (size_t i = 0; i < m->func.n; i++)
    if (anfi_map_find(&u.live, anfi_key(m->func.at[i]->name))) anfi_t_mod_add(o, m->func.at[i]);
  return o;
}
