// SPDX-License-Identifier: Apache-2.0
/* kernel_lowering_cpu: brgemm of constant shape becomes a call through a kernel handle.
 *
 *   brgemm(A, B, C, ...)    →    anf_rt_brgemm_call(brgemm_kernel_0[0], A, B, C, ...)
 *                                __tir_init: brgemm_kernel_0[0] = anf_rt_brgemm_kernel(2, 2, 3, ...)
 *
 * __tir_init runs once when the module is loaded; equal shapes share a handle. A shape that is not constant is
 * looked up at the call. */
#include "backend/tir/tir.h"

typedef struct user {
  tpass_cx *p;
  tmod *out;
  anfi_map have; // hash of the shape → 1 + place
  ANFI_VEC(texpr) handles;
  ANFI_VEC(tstmt) init;
} user;

static texpr s64(tstore *t, texpr e) {
  int64_t k;
  tdtype d = anfi_t_dt(ANF_TIR_s64);
  return anfi_t_const_i64(e, &k) ? anfi_t_int(t, d, k) : anfi_t_cast(t, d, e);
}

static texpr lookup(tstore *t, texpr e, bool *constant) {
  texpr in[12];
  uint32_t n = 0;
  anf_tir_elem type[3];
  *constant = true;
  for (uint32_t i = BRGEMM_M; i <= BRGEMM_stride_b; i++) {
    in[n] = s64(t, anfi_t_brgemm_in(e, i));
    *constant &= in[n++]->kind == TX_constant;
  }
  anfi_t_brgemm_types(e, type);
  for (uint32_t i = 0; i < 3; i++) in[n++] = anfi_t_s32(t, (int32_t)type[i]);
  in[n++] = anfi_t_int(t, anfi_t_dt(ANF_TIR_s64), anfi_t_brgemm_flags(e->u.attrs));
  return anfi_t_rt_call(t, TRT_anf_rt_brgemm_kernel, n, in);
}

static texpr handle(user *u, texpr look) {
  tstore *t = u->p->t;
  uint64_t *at = anfi_map_at(&u->have, anfi_t_hash_expr(look));
  if (!*at) {
    texpr one = anfi_t_index(t, 1), zero = anfi_t_index(t, 0);
    texpr g = anfi_t_tensor(t, ANF_TIR_void, true,
                            anfi_sprintf(u->p->scratch, "brgemm_kernel_%u", (unsigned)u->handles.n),
                            1, &one, NULL);
    anfi_push(&t->arena, &u->out->global, anfi_t_define(t, TL_private, g, NULL));
    anfi_push(u->p->scratch, &u->handles, g);
    anfi_push(u->p->scratch, &u->init,
              anfi_t_assign(t, anfi_t_at(t, g, 1, &zero, 1, 0, NULL), look));
    *at = u->handles.n;
  }
  texpr zero = anfi_t_index(t, 0);
  return anfi_t_at(t, u->handles.at[*at - 1], 1, &zero, 1, 0, NULL);
}

static texpr pointer(tstore *t, texpr e) {
  tdtype d = anfi_t_ptr(ANF_TIR_void);
  return e ? anfi_t_cast(t, d, e) : anfi_t_int(t, d, 0);
}

static texpr lower(tvisitor *v, texpr e) {
  user *u = (user *)v->user;
  if (!anfi_t_is_brgemm(e)) return e;
  bool list = e->sub == TI_list_brgemm, constant;
  uint32_t n = 0;
  texpr look = lookup(v->t, e, &constant), in[9];
  in[n++] = constant ? handle(u, look) : look;
  for (uint32_t i = BRGEMM_A; i <= BRGEMM_C; i++) in[n++] = pointer(v->t, e->in[i]);
  in[n++] = s64(v->t, anfi_t_brgemm_in(e, BRGEMM_num));
  if (list) in[n++] = s64(v->t, anfi_t_brgemm_in(e, BRGEMM_len));
  for (uint32_t i = BRGEMM_bias; i <= BRGEMM_rhs; i++)
    in[n++] = pointer(v->t, anfi_t_brgemm_in(e, i));
  return anfi_t_rt_call(v->t, list ? TRT_anf_rt_brgemm_list_call : TRT_anf_rt_brgemm_call, n, in);
}

const tmod *anfi_t_pass_kernel_lowering_cpu(tpass_cx *p, const tmod *m) {
  user u = {.p = p, .out = anfi_t_mod_like(m)};
  const anfi_str *init = anfi_intern_z(&p->t->names, "__tir_init");
  anfi_map_init(&u.have, p->scratch);
  anfi_t_visit_exprs(p->t, p->scratch, m, u.out, lower, &u);
  tfunc old = anfi_t_mod_find(u.out, init);
  if (u.init.n && old)
    anfi_push(p->scratch, &u.init, anfi_t_splice(p->t, old->body->n, old->body->s));
  tattrs a = anfi_t_attr_set(p->t, (tattrs){0}, TA_skip_trace, 1);
  tfunc f = u.init.n ? anfi_t_func(p->t, init, anfi_t_dt(ANF_TIR_void), 0, NULL,
                                   anfi_t_stmts(p->t, u.init.n, u.init.at), a)
                     : NULL;
  if (f && old)
    anfi_t_mod_replace(u.out, (size_t)*anfi_map_find(&u.out->by_name, anfi_key(init)) - 1, f);
  else if (f) anfi_t_mod_add(u.out, f);
  anfi_t_declare_rt(u.out);
  return u.out;
}
