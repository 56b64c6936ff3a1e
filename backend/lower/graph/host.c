// SPDX-License-Identifier: Apache-2.0
/* Calls of the host's C functions: declared without a body under the name that the host gave, called as C calls them.
 *   y = host_f(x), x: f64[3]    ->    evaluate f(x, y), with y a tensor of 3
 * INVARIANT: all are declared before a function of the module gets its name. */
#include "anfora/host.h"
#include "backend/lower/low.h"

static tdtype pointer(void) { return anfi_t_ptr(ANF_TIR_void); }

static tdtype return_type(const anfi_host *h) {
  if (h->flags & ANF_HOST_STATUS) return anfi_t_dt(ANF_TIR_s32);
  if (h->returned == h->nout) return anfi_t_dt(ANF_TIR_void);
  return anfi_low_dt((anf_dtype)h->out[h->returned]->dtype);
}

static tdtype slot_type(const anfi_host *h, const anfi_host_slot *s) {
  if (s->kind == ANFI_HOST_DIM) return anfi_low_dt(s->dtype);
  const anf_type *t = s->kind == ANFI_HOST_ARG ? h->type->items[s->i] : NULL;
  return t && anfi_host_by_value(t) ? anfi_low_dt((anf_dtype)t->dtype) : pointer();
}

void anfi_lower_host_declare(anfi_arena *a, tmod *m, const anfi_host *h) {
  tstore *t = m->t;
  const anfi_str *name = anfi_t_name(t, h->name->s);
  if (anfi_t_mod_find(m, name)) return;
  texpr *param = ANFI_NEW_N(a, texpr, h->nslot + 1);
  for (size_t i = 0; i < h->nslot; i++)
    param[i] = anfi_t_var(t, slot_type(h, &h->slot[i]), anfi_sprintf(a, "x%zu", i));
  anfi_t_mod_add(
      m, anfi_t_func(t, name, return_type(h), (uint32_t)h->nslot, param, NULL, (tattrs){0}));
}

/* ---- a call ---- */

typedef struct calling {
  anfi_low *L;
  const anfi_low_op *q;
  const anfi_host *h;
  const anf_type **types; // of the arguments
  texpr *out;             // by part of the result: its memory; NULL: returned
} calling;

static const anf_type *part(const calling *c, size_t i) {
  return c->q->type->kind == ANF_TYPE_TUPLE ? c->q->type->items[i] : c->q->type;
}

static bool is_small(const anf_type *t) { return !t->n && !anfi_low_complex((anf_dtype)t->dtype); }

/* Memory of a scalar is an array of one. */
static void make_room(calling *c) {
  anfi_low *L = c->L;
  for (size_t i = 0; i < c->h->nout; i++) {
    const anf_type *t = part(c, i);
    if (i == c->h->returned) continue;
    c->out[i] = is_small(t) ? anfi_low_local(L, anfi_lower_elem((anf_dtype)t->dtype), 1, "out")
                            : anfi_low_result(L, c->q, i, t);
  }
}

static texpr address(anfi_low *L, texpr tensor) {
  texpr zero = anfi_t_index(L->t, 0);
  return anfi_t_cast(L->t, pointer(), anfi_t_addr(L->t, tensor, 1, &zero));
}

static texpr argument(calling *c, size_t i) {
  anfi_low *L = c->L;
  anfi_view *v = c->q->in[i];
  const anf_type *want = c->h->type->items[i];
  tdtype d = anfi_low_dt((anf_dtype)want->dtype);
  if (!is_small(want)) return address(L, anfi_view_force(L, v));
  texpr x = anfi_view_value(L, v);
  if (!anfi_t_same(x->dtype, d)) x = anfi_t_cast(L->t, d, x);
  if (anfi_host_by_value(want)) return x;
  texpr room = anfi_low_local(L, anfi_lower_elem((anf_dtype)want->dtype), 1, "in");
  anfi_low_put(L, room, anfi_ix(L, 0), (anfi_elem){x, NULL}, false);
  return address(L, room);
}

static texpr slot(calling *c, const anfi_host_slot *s) {
  anfi_low *L = c->L;
  if (s->kind == ANFI_HOST_ARG) return argument(c, s->i);
  if (s->kind == ANFI_HOST_OUT) return address(L, c->out[s->i]);
  return anfi_t_int(L->t, anfi_low_dt(s->dtype), anfi_host_dim(c->h, c->types, s->dim));
}

static anfi_view *result(calling *c, size_t i, texpr returned) {
  anfi_low *L = c->L;
  const anf_type *t = part(c, i);
  if (i == c->h->returned) return anfi_view_scalar(L, t, returned);
  if (!is_small(t)) return anfi_view_of_result(L, t, c->out[i]);
  return anfi_view_scalar(L, t,
                          anfi_low_let(L, anfi_low_load(L, c->out[i], anfi_ix(L, 0)), "part"));
}

static void call(calling *c, texpr *returned) {
  anfi_low *L = c->L;
  const anfi_host *h = c->h;
  tdtype ret = return_type(h);
  texpr *in = ANFI_NEW_N(L->a, texpr, h->nslot + 1);
  for (size_t k = 0; k < h->nslot; k++) in[k] = slot(c, &h->slot[k]);
  texpr e = anfi_t_call(L->t, anfi_t_name(L->t, h->name->s), ret, (uint32_t)h->nslot, in);
  if (anfi_t_is_void(ret)) anfi_low_add(L, anfi_t_eval(L->t, e));
  else *returned = anfi_low_let(L, e, "given");
  if (!(h->flags & ANF_HOST_STATUS)) return;
  texpr bad = anfi_t_bin(L->t, TX_cmp_ne, *returned, anfi_t_int(L->t, ret, 0));
  anfi_low_trap(L, bad, ANF_E0444, c->q->op, c->q->loc, *returned, NULL);
}

bool anfi_lower_host(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  const anfi_host *h = anfi_host_of(L->cx, q->attr[0], q->loc);
  if (!h) return false;
  calling c = {.L = L,
               .q = q,
               .h = h,
               .types = ANFI_NEW_N(L->a, const anf_type *, q->n + 1),
               .out = ANFI_NEW_N(L->a, texpr, h->nout + 1)};
  for (size_t i = 0; i < q->n; i++) c.types[i] = anfi_view_type(q->in[i]);
  texpr returned = NULL;
  make_room(&c);
  call(&c, &returned);
  for (size_t i = 0; i < h->nout; i++) out[i] = result(&c, i, returned);
  return true;
}
