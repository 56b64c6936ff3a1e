// SPDX-License-Identifier: Apache-2.0
/* The run-time functions that lowered modules call: rows of runtime.def as types and declarations.
 *   a body calls anf_rt_alloc   ->   anfi_t_declare_rt adds anf_rt_alloc(p: index), without a body, to the module */
#include "backend/tir/tir.h"

const trt_func anfi_t_rt[] = {
#define ANF_TIR_RT(name, ret, n, ...) {#name, ret, n, __VA_ARGS__},
#include "backend/tir/runtime.def"
#undef ANF_TIR_RT
};
const size_t anfi_t_nrt = ANFI_LEN(anfi_t_rt);

int anfi_t_rt_of(const char *name) {
  for (size_t i = 0; i < anfi_t_nrt; i++)
    if (strcmp(anfi_t_rt[i].name, name) == 0) return (int)i;
  return -1;
}

texpr anfi_t_rt_call(tstore *t, trt f, uint32_t n, const texpr *args) {
  return anfi_t_call(t, anfi_intern_z(&t->names, anfi_t_rt[f].name), anfi_t_rt[f].ret, n, args);
}

typedef struct wanted {
  tmod *m;
  bool want[TRT_COUNT];
} wanted;

static bool see_call(tviewer *v, texpr e) {
  wanted *w = (wanted *)v->user;
  if (e->kind != TX_call || !e->u.name || anfi_map_find(&w->m->by_name, anfi_key(e->u.name)))
    return true;
  int rt = anfi_t_rt_of(e->u.name->s);
  if (rt >= 0) w->want[rt] = true;
  return true;
}

void anfi_t_declare_rt(tmod *m) {
  wanted w = {.m = m};
  tviewer v = {.user = &w, .enter_expr = see_call};
  tstore *t = m->t;
  for (size_t i = 0; i < m->func.n; i++)
    if (m->func.at[i]->body) anfi_t_view_stmt(&v, m->func.at[i]->body);
  for (size_t k = 0; k < anfi_t_nrt; k++) {
    const trt_func *f = &anfi_t_rt[k];
    texpr param[ANFI_LEN(f->param)];
    if (!w.want[k]) continue;
    for (uint32_t i = 0; i < f->n; i++) param[i] = anfi_t_var(t, f->param[i], "p");
    anfi_t_mod_add(m, anfi_t_func(t, anfi_intern_z(&t->names, f->name), f->ret, f->n, param, NULL,
                                  (tattrs){0}));
  }
}
