// SPDX-License-Identifier: Apache-2.0
/* closurizer_cpu: parallel loops become closures that the run time calls.
 *
 *   for i in (0, 8, 1) parallel { A[i] = x }
 *   →  f_closure1(stream, module data, i: s64, env: [generic * 2]) { x = env[0]; A = env[1]; A[i] = x }
 *      env[0] = x;  env[1] = A;  anf_rt_parallel(&f_closure1, ..., env, 0, 8, 1, 0)
 *
 * env holds the free variables of the body, and what tensors of the module it uses: so loops that differ in these alone
 * have equal closures, which are one function. A pointer or scalar takes one slot, a vector as many as its bytes need.
 * Parallel loops inside become sequential. Parallel calls are loops of calls. */
#include "backend/tir/tir.h"

typedef struct capture {
  texpr var;
  uint32_t slot;
} capture;

typedef struct user {
  tpass_cx *p;
  tmod *out;
  tfunc f;
  uint32_t parallel, made;
  const anfi_str *nameless;
  anfi_map by_hash; // 1 + place in `closure` of the last one
  ANFI_VEC(tfunc) closure;
  ANFI_VEC(uint32_t) next; // of the same hash: 1 + place, by place
} user;

typedef struct finder {
  anfi_arena *a;
  anfi_map inside, seen;
  ANFI_VEC(texpr) free;
} finder;

static void use(finder *s, texpr v) {
  if (anfi_map_find(&s->inside, anfi_key(v)) || anfi_map_find(&s->seen, anfi_key(v))) return;
  *anfi_map_at(&s->seen, anfi_key(v)) = 1;
  anfi_push(s->a, &s->free, v);
}
static bool see_expr(tviewer *v, texpr e) {
  finder *s = (finder *)v->user;
  if (e->kind == TX_tensor &&
      !anfi_map_find(&s->inside, anfi_key(e))) // what its dims use comes first
    for (uint32_t i = 0; i < e->n; i++) anfi_t_view_expr(v, e->in[i]);
  if (e->kind == TX_var || e->kind == TX_tensor) use(s, e);
  return true;
}
static bool see_stmt(tviewer *v, tstmt s) {
  if (s->kind == TS_define || s->kind == TS_for_loop)
    *anfi_map_at(&((finder *)v->user)->inside, anfi_key(s->e[0])) = 1;
  return true;
}

static uint32_t slots_of(texpr v) {
  return v->dtype.ptr ? 1 : (uint32_t)((anfi_t_total(v->dtype) * anfi_t_bytes(v->dtype) + 7) / 8);
}
static bool in_slot(texpr v) { return v->dtype.ptr || anfi_t_total(v->dtype) == 1; }

/* env[k] = x outside, x = env[k] inside */
static tstmt pack(tstore *t, texpr env, capture c) {
  texpr at = anfi_t_index(t, c.slot), zero = anfi_t_index(t, 0);
  if (in_slot(c.var))
    return anfi_t_assign(t, anfi_t_at(t, env, 1, &at, 1, 0, NULL),
                         anfi_t_cast(t, anfi_t_dt(ANF_TIR_generic), c.var));
  const texpr in[] = {anfi_t_addr(t, env, 1, &zero), c.var, anfi_t_index(t, (uint64_t)c.slot * 8)};
  return anfi_t_eval(t, anfi_t_intrin(t, TI_write_struct, c.var->dtype, 3, in, (tattrs){0}));
}
static texpr unpack(tstore *t, texpr env, capture c) {
  texpr at = anfi_t_index(t, c.slot), zero = anfi_t_index(t, 0);
  if (in_slot(c.var)) return anfi_t_cast(t, c.var->dtype, anfi_t_at(t, env, 1, &at, 1, 0, NULL));
  const texpr in[] = {anfi_t_addr(t, env, 1, &zero), anfi_t_index(t, (uint64_t)c.slot * 8)};
  return anfi_t_intrin(t, TI_read_struct, c.var->dtype, 2, in, (tattrs){0});
}

/* The closure that does the same, or this one. */
static tfunc shared(user *u, tfunc f) {
  struct anf_tir_func_node nameless = *f; // a name is a part of the hash
  nameless.name = u->nameless;
  uint64_t *at = anfi_map_at(&u->by_hash, anfi_t_hash_func(&nameless, u->p->scratch));
  for (uint32_t i = (uint32_t)*at; i; i = u->next.at[i - 1]) {
    tcompare c;
    anfi_t_compare_init(&c, u->p->scratch);
    if (anfi_t_equal_func(&c, u->closure.at[i - 1], f)) return u->closure.at[i - 1];
  }
  anfi_push(u->p->scratch, &u->closure, f);
  anfi_push(u->p->scratch, &u->next, (uint32_t)*at);
  *at = u->closure.n;
  anfi_t_mod_add(u->out, f);
  return f;
}

static const anfi_str *closure(tvisitor *v, tstmt s, size_t n, const capture *cap, uint32_t slots) {
  user *u = (user *)v->user;
  tstore *t = v->t;
  texpr dim = anfi_t_index(t, slots ? slots : 1), i = s->e[0],
        param[4] = {anfi_t_var(t, anfi_t_ptr(ANF_TIR_void), "__stream"),
                    anfi_t_var(t, anfi_t_ptr(ANF_TIR_void), "__module_data"),
                    anfi_t_var(t, anfi_t_dt(ANF_TIR_s64), "__i"),
                    anfi_t_tensor(t, ANF_TIR_generic, false, "env", 1, &dim, NULL)};
  ANFI_VEC(tstmt) body = {0};
  anfi_push(v->scratch, &body, anfi_t_define(t, TL_local, i, anfi_t_cast(t, i->dtype, param[2])));
  for (size_t k = 0; k < n; k++)
    anfi_push(v->scratch, &body,
              anfi_t_define(t, TL_local, cap[k].var, unpack(t, param[3], cap[k])));
  anfi_push(v->scratch, &body, anfi_t_splice(t, s->s[0]->n, s->s[0]->s));
  tstmt own = anfi_t_copy_stmt(t, v->scratch, anfi_t_stmts(t, body.n, body.at), NULL,
                               NULL); // with variables of its own
  tattrs a = anfi_t_attr_set(t, anfi_t_attr_set(t, (tattrs){0}, TA_is_private, 1), TA_resolved, 1);
  const anfi_str *name = anfi_t_fresh_func(
      u->out, anfi_sprintf(v->scratch, "%s_closure%u", u->f->name->s, u->made + 1));
  if (anfi_t_mod_find(u->p->m, name)) name = anfi_t_fresh_func(u->p->m, name->s);
  tfunc f = anfi_t_func(t, name, anfi_t_dt(ANF_TIR_void), 4, param, own, a), one = shared(u, f);
  u->made += one == f;
  return one->name;
}

static texpr s64(tstore *t, texpr e) {
  int64_t k;
  tdtype d = anfi_t_dt(ANF_TIR_s64);
  return anfi_t_const_i64(e, &k) ? anfi_t_int(t, d, k) : anfi_t_cast(t, d, e);
}

static tstmt outline(tvisitor *v, tstmt s) {
  tstore *t = v->t;
  finder find = {.a = v->scratch};
  anfi_map_init(&find.inside, v->scratch);
  anfi_map_init(&find.seen, v->scratch);
  *anfi_map_at(&find.inside, anfi_key(s->e[0])) = 1;
  tviewer see = {.user = &find, .enter_expr = see_expr, .enter_stmt = see_stmt};
  anfi_t_view_stmt(&see, s->s[0]);
  capture *cap = ANFI_NEW_N(v->scratch, capture, find.free.n);
  uint32_t slots = 0;
  for (size_t i = 0; i < find.free.n; slots += slots_of(find.free.at[i]), i++)
    cap[i] = (capture){find.free.at[i], slots};
  const anfi_str *name = closure(v, s, find.free.n, cap, slots);
  ANFI_VEC(tstmt) out = {0};
  texpr env = anfi_t_tensor1(t, ANF_TIR_generic, "env", slots ? slots : 1),
        null = anfi_t_int(t, anfi_t_ptr(ANF_TIR_void), 0);
  anfi_push(v->scratch, &out, anfi_t_define(t, TL_local, env, NULL));
  for (size_t i = 0; i < find.free.n; i++) anfi_push(v->scratch, &out, pack(t, env, cap[i]));
  const texpr in[] = {anfi_t_func_addr(t, name),
                      null,
                      null,
                      anfi_t_cast(t, anfi_t_ptr(ANF_TIR_void), env),
                      s64(t, s->e[1]),
                      s64(t, s->e[2]),
                      s64(t, s->e[3]),
                      anfi_t_s32(t, (int32_t)s->threads)};
  anfi_push(v->scratch, &out, anfi_t_eval(t, anfi_t_rt_call(t, TRT_anf_rt_parallel, 8, in)));
  return anfi_t_stmts(t, out.n, out.at);
}

static tstmt enter(tvisitor *v, tstmt s) {
  user *u = (user *)v->user;
  if (s->kind == TS_evaluate || s->kind == TS_returns)
    return anfi_t_call_loops(v->t, v->scratch, u->p->m, s);
  if (s->kind != TS_for_loop || !s->sub) return s;
  bool serial =
      u->parallel || u->p->opts->max_threads == 1 || anfi_t_attr(s->attrs, TA_no_parallel, NULL);
  if (!serial) return u->parallel++, s;
  return anfi_t_for(v->t, s->e[0], s->e[1], s->e[2], s->e[3], s->s[0], false, 0);
}
static tstmt leave(tvisitor *v, tstmt s) {
  user *u = (user *)v->user;
  if (s->kind != TS_for_loop || !s->sub) return s;
  u->parallel--;
  return outline(v, s);
}

const tmod *anfi_t_pass_closurizer_cpu(tpass_cx *p, const tmod *m) {
  user u = {.p = p, .out = anfi_t_mod_like(m), .nameless = anfi_t_name(p->t, "closure")};
  anfi_map_init(&u.by_hash, p->scratch);
  for (size_t i = 0; i < m->func.n; i++) {
    tvisitor v;
    u.f = anfi_t_settle_dims(p->t, p->scratch, m->func.at[i]);
    anfi_t_visitor_init(&v, p->t, p->scratch, &u);
    v.enter = enter;
    v.stmt = leave;
    anfi_t_mod_add(u.out, u.f->body ? anfi_t_visit_func(&v, u.f) : u.f);
  }
  anfi_t_declare_rt(u.out);
  return u.out;
}
