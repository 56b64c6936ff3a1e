// SPDX-License-Identifier: Apache-2.0
/* local_tensor_lowering_cpu: large local tensors move to the heap.
 *
 *   tensor T: [f32 * 64]    →    var T_p = anf_rt_alloc(256);  tensor T: [f32 * 64] = T_p
 *   return x                     anf_rt_free(T_p);  return x
 *
 * A tensor above the limit (local_tensor_bytes), or of unknown size, is freed at the end of its scope and
 * before each return inside it, last allocated first. */
#include "backend/tir/tir.h"

typedef struct user {
  tpass_cx *p;
  ANFI_VEC(texpr) open; // pointers to free, of all open scopes
  tfunc f;
} user;

static uint64_t elem_bytes(texpr v) {
  return v->sub ? 8 : anfi_t_bytes(anfi_t_dt((anf_tir_elem)v->dtype.elem));
}

static texpr bytes_of(tstore *t, texpr v) {
  uint64_t n;
  texpr bytes = anfi_t_index(t, elem_bytes(v));
  if (anfi_t_const_elems(v, &n)) return anfi_t_index(t, n * elem_bytes(v));
  for (uint32_t i = v->nidx; i-- > 0;)
    bytes = anfi_t_mul(t, anfi_t_cast(t, anfi_t_dt(ANF_TIR_index), v->in[i]), bytes);
  return bytes;
}

static bool large(const user *u, tstmt s) {
  uint64_t n;
  texpr v = s->e[0];
  if (s->kind != TS_define || v->kind != TX_tensor || s->e[1] || anfi_t_has_strides(v))
    return false;
  return !anfi_t_const_elems(v, &n) || n > u->p->opts->local_tensor_bytes / elem_bytes(v);
}

static tstmt free_one(tstore *t, texpr ptr) {
  return anfi_t_eval(t, anfi_t_rt_call(t, TRT_anf_rt_free, 1, &ptr));
}

static tstmt stmt(user *u, tstmt s);

static tstmt at_return(user *u, tstmt s) {
  tstore *t = u->p->t;
  ANFI_VEC(tstmt) out = {0};
  texpr result = s->e[0];
  if (!u->open.n) return s;
  if (result && result->kind != TX_constant && result->kind != TX_var) {
    texpr r = anfi_t_var(t, u->f->ret, "result");
    anfi_push(u->p->scratch, &out, anfi_t_define(t, TL_local, r, result));
    result = r;
  }
  for (size_t i = u->open.n; i-- > 0;) anfi_push(u->p->scratch, &out, free_one(t, u->open.at[i]));
  anfi_push(u->p->scratch, &out, anfi_t_return(t, result));
  return anfi_t_splice(t, out.n, out.at);
}

static tstmt sequence(user *u, tstmt s) {
  tstore *t = u->p->t;
  ANFI_VEC(tstmt) out = {0};
  size_t mark = u->open.n;
  bool changed = false;
  for (uint32_t i = 0; i < s->n; i++) {
    tstmt x = s->s[i];
    if (large(u, x)) {
      texpr v = x->e[0], n = bytes_of(t, v);
      texpr ptr = anfi_t_var(t, anfi_t_ptr(ANF_TIR_void),
                             anfi_sprintf(u->p->scratch, "%s_p", v->u.name->s));
      anfi_push(u->p->scratch, &out,
                anfi_t_define(t, TL_local, ptr, anfi_t_rt_call(t, TRT_anf_rt_alloc, 1, &n)));
      tstmt d = anfi_t_define(t, TL_local, v, ptr);
      anfi_push(u->p->scratch, &out,
                anfi_t_with_attrs(t, d, anfi_t_attr_set(t, x->attrs, TA_heap, 1)));
      anfi_push(u->p->scratch, &u->open, ptr);
      changed = true;
      continue;
    }
    tstmt r = stmt(u, x);
    changed |= r != x;
    anfi_push(u->p->scratch, &out, r);
  }
  bool ends = s->n && s->s[s->n - 1]->kind == TS_returns;
  while (u->open.n > mark) {
    texpr ptr = u->open.at[--u->open.n];
    if (!ends) anfi_push(u->p->scratch, &out, free_one(t, ptr));
  }
  return changed ? anfi_t_stmts(t, out.n, out.at) : s;
}

static tstmt stmt(user *u, tstmt s) {
  if (s->kind == TS_stmts) return sequence(u, s);
  if (s->kind == TS_returns) return at_return(u, s);
  tstmt sub[2] = {0};
  bool changed = false;
  for (uint32_t i = 0; i < s->n; i++) {
    sub[i] = s->s[i] ? sequence(u, s->s[i]) : NULL;
    changed |= sub[i] != s->s[i];
  }
  return changed ? anfi_t_remake_stmt(u->p->t, s, s->e, sub) : s;
}

tfunc anfi_t_pass_local_tensor_lowering_cpu(tpass_cx *p, tfunc f) {
  user u = {.p = p, .f = f};
  tstmt body = sequence(&u, f->body);
  if (body == f->body) return f;
  f = anfi_t_func_without(p->t, f, TA_pure); // its memory is the run time's now
  return anfi_t_with_body(p->t, f, body);
}
