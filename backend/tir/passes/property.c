// SPDX-License-Identifier: Apache-2.0
/* Measures the properties of a module on its nodes, whatever its text says of itself.
 *
 *   x = (a + 1)        a: f32, 1: s32          lacks CAST
 *   A[i, j]            A: [f32 * 4 * 5]        lacks FLAT
 *   n = (n + 1)                                lacks SSA
 *
 * A node may contradict a property; one that no node contradicts holds. FOLDED and SIMPLE are never
 * measured: only the pass that makes them sets them. */
#include "backend/tir/tir.h"

typedef struct seen {
  const tmod *m;
  tdtype ret;       // of the function
  uint32_t lacks;   // properties that a node contradicts
  bool tiles_known; // has `tiled` been filled?
  bool were_tiled;  // a tensor of two dims may be one whose tiles a pass took away
  anfi_map tiled;   // tensors that tiles are read from or written to: their last dim stays apart
} seen;

static bool see_tile(tviewer *v, texpr e) {
  if (e->kind == TX_indexing && e->dtype.rows)
    *anfi_map_at(&((seen *)v->user)->tiled, anfi_key(e->in[0])) = 1;
  return true;
}

/* Looked for when the first tensor of several dims turns up, for most modules have none. */
static void find_tiles(seen *s) {
  tviewer v = {.user = s, .enter_expr = see_tile};
  anfi_map_init(&s->tiled, anfi_scratch(s->m->cx));
  for (size_t i = 0; i < s->m->func.n; i++)
    if (s->m->func.at[i]->body) anfi_t_view_stmt(&v, s->m->func.at[i]->body);
  s->tiles_known = true;
}

static bool flat(seen *s, texpr tensor) {
  if (tensor->nidx == 1) return true;
  if (s->were_tiled && (tensor->nidx == 2 || anfi_t_has_strides(tensor))) return true;
  if (!s->tiles_known) find_tiles(s);
  return anfi_map_find(&s->tiled, anfi_key(tensor)) &&
         (tensor->nidx == 2 || anfi_t_has_strides(tensor));
}

static bool exact(texpr e) {
  if (e->kind == TX_intrin_call) {
    if (anfi_t_intrins[e->sub].typing != TT_SAME) return true;
    for (uint32_t i = 1; i < e->n; i++)
      if (!anfi_t_same(e->in[i]->dtype, e->in[0]->dtype)) return false;
    return true;
  }
  tgroup g = anfi_t_group(e);
  if (g == TG_BINARY || g == TG_CMP || g == TG_LOGIC)
    return anfi_t_same(e->in[0]->dtype, e->in[1]->dtype);
  if (e->kind == TX_select) return anfi_t_same(e->in[1]->dtype, e->in[2]->dtype);
  return true;
}

/* A call at the types of the parameters? Those of a parallel call begin with its indices. */
static bool exact_call(const tmod *m, texpr e) {
  tfunc f = e->u.name ? anfi_t_mod_find(m, e->u.name) : NULL;
  uint32_t nloop;
  anfi_t_triples(e, &nloop);
  for (uint32_t i = 0; f && i < e->nidx && nloop + i < f->n; i++)
    if (!anfi_t_same(e->in[i]->dtype, f->param[nloop + i]->dtype)) return false;
  return true;
}

static void see_call(seen *s, texpr e) {
  uint32_t nloop;
  anfi_t_triples(e, &nloop);
  if (nloop) s->lacks |= TPROP_SERIAL;
  if (!exact_call(s->m, e)) s->lacks |= TPROP_CAST;
}

bool anfi_t_computes_in_half(texpr e) {
  tgroup g = anfi_t_group(e);
  bool math = e->kind == TX_intrin_call &&
              (anfi_t_lanewise((tintrin)e->sub) || anfi_t_intrins[e->sub].typing == TT_ELEM);
  return (g == TG_BINARY || g == TG_CMP || math) && anfi_t_is_half(e->in[0]->dtype);
}

static bool see_expr(tviewer *v, texpr e) {
  seen *s = (seen *)v->user;
  if (!exact(e)) s->lacks |= TPROP_CAST;
  if (anfi_t_computes_in_half(e)) s->lacks |= TPROP_NO_BF16;
  if (e->kind == TX_indexing && !flat(s, e->in[0])) s->lacks |= TPROP_FLAT;
  if (e->kind == TX_call) see_call(s, e);
  if (e->kind == TX_indexing || e->kind == TX_tensorptr)
    for (uint32_t i = 0; i < e->nidx; i++)
      if (!anfi_t_is_elem(e->in[1 + i]->dtype, ANF_TIR_index)) s->lacks |= TPROP_CAST;
  if (e->kind == TX_ssa_phi) s->lacks |= TPROP_NO_PHI;
  return true;
}

static bool see_stmt(tviewer *v, tstmt s) {
  seen *u = (seen *)v->user;
  if (s->kind == TS_for_loop || (s->kind == TS_define && s->e[0]->kind == TX_tensor))
    u->lacks |= TPROP_SCALAR;
  if (s->kind == TS_define && s->e[0]->kind == TX_tensor && !flat(u, s->e[0]))
    u->lacks |= TPROP_FLAT;
  if (s->kind == TS_define && s->e[0]->kind == TX_var && !s->e[1]) u->lacks |= TPROP_SSA;
  if (s->kind == TS_define && s->e[0]->kind == TX_var && s->e[1] &&
      !anfi_t_same(s->e[0]->dtype, s->e[1]->dtype))
    u->lacks |= TPROP_CAST;
  if (s->kind == TS_assign && s->e[0]->kind == TX_var) u->lacks |= TPROP_SSA;
  if (s->kind == TS_assign && !anfi_t_same(s->e[0]->dtype, s->e[1]->dtype)) u->lacks |= TPROP_CAST;
  if (s->kind == TS_returns && s->e[0] && !anfi_t_same(s->e[0]->dtype, u->ret))
    u->lacks |= TPROP_CAST;
  if (s->kind == TS_for_loop && s->sub) u->lacks |= TPROP_SERIAL;
  if (s->kind == TS_for_loop)
    for (int i = 1; i < 4; i++)
      if (!anfi_t_same(s->e[0]->dtype, s->e[i]->dtype)) u->lacks |= TPROP_CAST;
  return true;
}

static uint32_t measure(const tmod *m, bool were_tiled) {
  seen s = {.m = m,
            .were_tiled = were_tiled,
            .lacks = TPROP_FOLDED | TPROP_SIMPLE | (m->global.n ? TPROP_SCALAR : 0u)};
  tviewer v = {.user = &s, .enter_expr = see_expr, .enter_stmt = see_stmt};
  for (size_t i = 0; i < m->global.n; i++)
    if (!flat(&s, m->global.at[i]->e[0])) s.lacks |= TPROP_FLAT;
  for (size_t i = 0; i < m->func.n; i++) {
    tfunc f = m->func.at[i];
    for (uint32_t k = 0; k < f->n; k++)
      if (f->param[k]->kind == TX_tensor && !flat(&s, f->param[k])) s.lacks |= TPROP_FLAT;
    s.ret = f->ret;
    if (f->body) anfi_t_view_stmt(&v, f->body);
  }
  return TPROP_ALL & ~s.lacks;
}

uint32_t anfi_t_measure(const tmod *m) { return measure(m, false); }

uint32_t anfi_t_contradicted(const tmod *m, uint32_t have) {
  return have & ~measure(m, true) & ~(uint32_t)(TPROP_FOLDED | TPROP_SIMPLE);
}

bool anfi_t_properties_of(const char *words, uint32_t *bits) {
  static const char *const names[] = {
#define ANF_TIR_PROPERTY(name, text) #name,
#include "backend/tir/passes/property.def"
#undef ANF_TIR_PROPERTY
  };
  for (const char *w = words; *w;) {
    size_t n = strcspn(w, " "), i = 0;
    while (n && i < TPROP_COUNT && !(strlen(names[i]) == n && memcmp(names[i], w, n) == 0)) i++;
    if (i == TPROP_COUNT) return false;
    if (n) *bits |= 1u << i;
    w += n ? n : 1;
  }
  return true;
}
