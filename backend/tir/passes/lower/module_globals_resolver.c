// SPDX-License-Identifier: Apache-2.0
/* module_globals_resolver: globals become offsets in one block of module data, which functions get as a parameter.
 *
 *   tensor W: [f32 * 4];  g(i) { W[i] }   →   g(stream, module data, i) { W = &data[0];  W[i] }
 *
 * Offsets are 64-byte aligned; the module carries the initial bytes. Every function with a body takes (stream,
 * module data) first and passes them on. Closures of closurizer_cpu have the two parameters already.
 *
 * Of a constant in a block, in a module that binds, the data hold the address instead of the elements, so that code
 * shares them with whoever else owns the block:  W = cast of read_struct<u64>(data, offset) */
#include "backend/tir/tir.h"

enum { ALIGN = 64 };

typedef struct user {
  /* the module and its data */
  tpass_cx *p;
  const tmod *m;
  anfi_map offset; // tensor → 1 + offset
  anfi_map bound;  // tensors of which the data hold the address
  uint64_t size;
  /* the current function */
  texpr stream, data; // of the current function
  anfi_map used;
  ANFI_VEC(texpr) uses;
} user;

static size_t elem_bytes(texpr t) {
  return t->sub ? 8 : anfi_t_bytes(anfi_t_dt((anf_tir_elem)t->dtype.elem));
}

static bool binds(const user *u, tstmt global) { return u->m->binds && anfi_t_is_bound(global); }

static void fill(const user *u, uint8_t *image) {
  for (size_t i = 0; i < u->m->global.n; i++) {
    texpr v = u->m->global.at[i]->e[0], init = u->m->global.at[i]->e[1];
    uint64_t n = 0, at = *anfi_map_find(&u->offset, anfi_key(v)) - 1;
    size_t width = elem_bytes(v);
    anfi_t_const_elems(v, &n);
    if (!init || binds(u, u->m->global.at[i])) continue;
    if (init->u.list.n > 1) memcpy(image + at, init->u.list.data, init->u.list.n * width);
    for (uint64_t k = 0; init->u.list.n == 1 && k < n; k++)
      memcpy(image + at + k * width, init->u.list.data, width);
  }
}

static bool lay_out(user *u, tmod *o, uint8_t **image) {
  tstore *t = u->p->t;
  for (size_t i = 0; i < u->m->global.n; i++) {
    texpr v = u->m->global.at[i]->e[0];
    uint64_t n = 0;
    if (binds(u, u->m->global.at[i])) {
      *anfi_map_at(&u->offset, anfi_key(v)) = u->size + 1;
      *anfi_map_at(&u->bound, anfi_key(v)) = 1;
      anfi_push(&t->arena, &o->bound, ((tbound){u->size, u->m->global.at[i]->e[1]}));
      u->size += ALIGN;
      continue;
    }
    if (!anfi_t_const_elems(v, &n) || n > (UINT64_C(1) << 40) / elem_bytes(v))
      return anfi_fail(u->p->cx, anfi_nowhere(), ANF_E0842, "module_globals_resolver",
                       v->u.name->s);
    *anfi_map_at(&u->offset, anfi_key(v)) = u->size + 1;
    u->size += (n * elem_bytes(v) + ALIGN - 1) / ALIGN * ALIGN;
  }
  *image = (uint8_t *)anfi_zalloc(&t->arena, u->size);
  fill(u, *image);
  return true;
}

static texpr rewrite(tvisitor *v, texpr e) {
  user *u = (user *)v->user;
  if (e->kind == TX_tensor && anfi_map_find(&u->offset, anfi_key(e)) &&
      !anfi_map_find(&u->used, anfi_key(e))) {
    *anfi_map_at(&u->used, anfi_key(e)) = 1;
    anfi_push(v->scratch, &u->uses, e);
  }
  if (e->kind != TX_call) return e;
  int rt = e->u.name ? anfi_t_rt_of(e->u.name->s) : -1;
  if (rt == TRT_anf_rt_parallel && e->nidx == 8) {
    texpr in[8];
    memcpy(in, e->in, sizeof in);
    in[1] = u->stream;
    in[2] = u->data;
    return anfi_t_remake(v->t, e, in);
  }
  tfunc f = e->u.name ? anfi_t_mod_find(u->m, e->u.name) : NULL;
  bool takes = e->u.name ? f && f->body && !anfi_t_attr(f->attrs, TA_resolved, NULL) : true;
  if (!takes) return e;
  texpr *in = ANFI_NEW_N(v->scratch, texpr, e->nidx + 2u);
  in[0] = u->stream;
  in[1] = u->data;
  if (e->nidx) memcpy(in + 2, e->in, e->nidx * sizeof *in);
  return e->u.name ? anfi_t_call(v->t, e->u.name, e->dtype, e->nidx + 2u, in)
                   : anfi_t_call_ptr(v->t, anfi_t_callee_ptr(e), e->dtype, e->nidx + 2u, in);
}

/* A parallel call puts its counters first, where (stream, data) now stand: it becomes loops. */
static tstmt enter(tvisitor *v, tstmt s) {
  return anfi_t_call_loops(v->t, v->scratch, ((user *)v->user)->m, s);
}

static texpr address(user *u, texpr tensor, texpr offset) {
  tstore *t = u->p->t;
  const texpr in[] = {u->data, offset};
  texpr bits = anfi_t_intrin(t, TI_read_struct, anfi_t_dt(ANF_TIR_u64), 2, in, (tattrs){0});
  return anfi_t_cast(t, anfi_t_ptr((anf_tir_elem)tensor->dtype.elem), bits);
}

static tfunc function(user *u, tfunc f) {
  tstore *t = u->p->t;
  bool has = anfi_t_attr(f->attrs, TA_resolved, NULL);
  tdtype ptr = anfi_t_ptr(ANF_TIR_void);
  u->stream = has ? f->param[0] : anfi_t_var(t, ptr, "__stream");
  u->data = has ? f->param[1] : anfi_t_var(t, ptr, "__module_data");
  u->uses.n = 0;
  anfi_map_init(&u->used, u->p->scratch);
  tvisitor v;
  anfi_t_visitor_init(&v, t, u->p->scratch, u);
  v.expr = rewrite;
  v.enter = enter;
  tstmt body = anfi_t_visit_stmt(&v, f->body);
  ANFI_VEC(tstmt) out = {0};
  texpr bytes = anfi_t_tensor1(t, ANF_TIR_s8, "data", u->size);
  if (u->uses.n) anfi_push(v.scratch, &out, anfi_t_define(t, TL_local, bytes, u->data));
  tvisitor own; // each function has tensor nodes of its own
  anfi_t_visitor_init(&own, t, u->p->scratch, u);
  for (size_t i = 0; i < u->uses.n; i++) {
    texpr g = u->uses.at[i], off = anfi_t_index(t, *anfi_map_find(&u->offset, anfi_key(g)) - 1);
    texpr mine = anfi_t_remake(t, g, g->in);
    texpr at =
        anfi_map_find(&u->bound, anfi_key(g)) ? address(u, g, off) : anfi_t_addr(t, bytes, 1, &off);
    anfi_t_map_var(&own, g, mine);
    anfi_push(v.scratch, &out, anfi_t_define(t, TL_local, mine, at));
  }
  body = anfi_t_visit_stmt(&own, body);
  anfi_push(v.scratch, &out, anfi_t_splice(t, body->n, body->s));
  texpr *param = ANFI_NEW_N(u->p->scratch, texpr, f->n + 2u);
  param[0] = u->stream;
  param[1] = u->data;
  if (f->n) memcpy(param + (has ? 0 : 2), f->param, f->n * sizeof *param);
  tattrs a = anfi_t_attr_set(t, f->attrs, TA_resolved, 1);
  t->line = f->line, t->col = f->col;
  struct anf_tir_func_node *r = (struct anf_tir_func_node *)(uintptr_t)anfi_t_func(
      t, f->name, f->ret, f->n + (has ? 0u : 2u), param, anfi_t_stmts(t, out.n, out.at), a);
  r->comment = f->comment;
  return r;
}

const tmod *anfi_t_pass_module_globals_resolver(tpass_cx *p, const tmod *m) {
  user u = {.p = p, .m = m};
  uint8_t *image = NULL;
  anfi_map_init(&u.offset, p->scratch);
  anfi_map_init(&u.bound, p->scratch);
  tmod *o = anfi_t_mod_like(m);
  if (!lay_out(&u, o, &image)) return NULL;
  o->global.n = o->global.cap = 0;
  o->global.at = NULL;
  if (!m->image) {
    o->image = image;
    o->image_size = u.size;
  } else if (u.size) {
    anfi_fail(p->cx, anfi_nowhere(), ANF_E0842, "module_globals_resolver",
              "tensors added after it ran");
    return NULL;
  }
  for (size_t i = 0; i < m->func.n; i++)
    anfi_t_mod_add(o, m->func.at[i]->body ? function(&u, m->func.at[i]) : m->func.at[i]);
  return o;
}
