// SPDX-License-Identifier: Apache-2.0
/* Lowers a module for an engine: runs the engine's pipeline, then makes globals module data.
 *
 *   tensor W: [f32 * 4];  f(x)     →     f(stream, module data, x) and 64 bytes of data; W at offset 0 */
#include "backend/jit/jit.h"

enum { ALIGN = 64 }; // of tensors in module data, as module_globals_resolver lays them out

static size_t elem_bytes(texpr t) {
  return t->sub ? 8 : anfi_t_bytes(anfi_t_dt((anf_tir_elem)t->dtype.elem));
}

/* Globals in blocks have no name for hosts: their address is in the data. */
static void list_globals(anfi_arena *a, const tmod *m, bool binds, anfi_jit_lowered *out) {
  uint64_t at = 0, n = 0;
  out->global = ANFI_NEW_N(a, anf_jit_global, m->global.n);
  for (size_t i = 0; i < m->global.n; i++) {
    texpr v = m->global.at[i]->e[0];
    if (binds && anfi_t_is_bound(m->global.at[i])) {
      at += ALIGN;
      continue;
    }
    anfi_t_const_elems(v, &n); // the resolver has refused others
    anf_tir_elem e = v->sub ? ANF_TIR_generic : (anf_tir_elem)v->dtype.elem;
    out->global[out->nglobal++] = (anf_jit_global){v->u.name->s, e, at, n * elem_bytes(v)};
    at += (n * elem_bytes(v) + ALIGN - 1) / ALIGN * ALIGN;
  }
}

/* Numbers each address by its block's place in the module that came in. */
static void number_bound(anfi_arena *a, const tmod *in, const tmod *m, anfi_jit_lowered *out) {
  anfi_map number;
  uint64_t n = 0;
  anfi_map_init(&number, a);
  for (size_t i = 0; i < in->global.n; i++)
    if (anfi_t_is_bound(in->global.at[i]))
      *anfi_map_at(&number, anfi_key(in->global.at[i]->e[1]->u.list.block)) = n++; // the last
  out->address = ANFI_NEW_N(a, anfi_jit_address, m->bound.n + 1);
  for (size_t i = 0; i < m->bound.n; i++) {
    const tbound *b = &m->bound.at[i];
    out->address[out->naddress++] =
        (anfi_jit_address){b->offset, *anfi_map_at(&number, anfi_key(b->list->u.list.block))};
  }
}

static const tmod *binding(const tmod *m) {
  tmod *o = anfi_t_mod_like(m);
  for (size_t i = 0; i < m->func.n; i++) anfi_t_mod_add(o, m->func.at[i]);
  o->binds = true;
  return o;
}

/* Wrappers that interface_generalizer made: engines make their own. */
static const tmod *without_wrappers(const tmod *m) {
  tmod *o = anfi_t_mod_like(m);
  for (size_t i = 0; i < m->func.n; i++)
    if (!anfi_t_attr(m->func.at[i]->attrs, TA_wrapper, NULL)) anfi_t_mod_add(o, m->func.at[i]);
  o->props = m->props;
  return o;
}

bool anfi_jit_lower(anf_ctx *cx, const anf_jit_engine *e, const tmod *m, bool binds,
                    anfi_jit_lowered *out) {
  const anf_tir_opt_opts opts = {.size = sizeof opts, .cache_bytes = anfi_jit_cache_bytes(e)};
  anfi_arena *a = anfi_scratch(cx);
  uint32_t have = anfi_t_measure(m);
  const char *phis = have & TPROP_NO_PHI ? "" : "dessa_transform ",
             *bounds = e->o.bounds ? "dyn_boundary_check " : "",
             *passes = e->o.passes           ? e->o.passes
                       : have & TPROP_SCALAR ? e->vt->scalar_passes
                                             : e->vt->passes,
             *always = e->vt->always ? e->vt->always : "";
  const tmod *in = m;
  bool stops = m->stops, counts = m->counts;
  m = anfi_t_run_passes(cx, m, anfi_sprintf(a, "%s%s%s %s", phis, bounds, passes, always), &opts);
  if (!m) return false;
  if (binds) m = binding(m);
  const tmod *last = anfi_t_run_more(
      cx, m, "module_globals_resolver local_tensor_lowering_cpu auto_caster", &opts);
  if (!last) return false;
  list_globals(a, m, binds, out);
  number_bound(a, in, last, out);
  out->m = without_wrappers(last);
  if (stops) out->m = anfi_jit_stoppable(cx, out->m, counts);
  out->need = anfi_jit_needs(cx, out->m);
  return true;
}

/* ---- description ---- */

static bool entry_of(anfi_jit_entry *e, tfunc f, uint32_t flags) {
  e->name = anfi_jit_strdup(f->name->s);
  e->n = f->n - 2;
  e->ret = f->ret;
  e->flags = flags;
  e->param = (tdtype *)anfi_jit_alloc(e->n * sizeof(tdtype));
  if (!e->name || !e->param) return false;
  for (uint32_t i = 0; i < e->n; i++) e->param[i] = f->param[i + 2]->dtype;
  return true;
}

static bool is_entry(tfunc f) {
  return f->body && !anfi_t_attr(f->attrs, TA_is_private, NULL) &&
         strcmp(f->name->s, "__tir_init") != 0;
}

static bool fill(anfi_jit_code *c, const anfi_jit_lowered *l) {
  const tmod *m = l->m;
  c->entry = (anfi_jit_entry *)anfi_jit_alloc(m->func.n * sizeof *c->entry);
  c->global = (anf_jit_global *)anfi_jit_alloc(l->nglobal * sizeof *c->global);
  c->image = (uint8_t *)anfi_jit_alloc((size_t)m->image_size);
  if (!c->entry || !c->global || !c->image) return false;
  c->address = (anfi_jit_address *)anfi_jit_alloc(l->naddress * sizeof *c->address);
  if (!c->address) return false;
  if (l->naddress) memcpy(c->address, l->address, l->naddress * sizeof *c->address);
  c->naddress = l->naddress;
  c->image_bytes = (size_t)m->image_size;
  if (m->image_size) memcpy(c->image, m->image, c->image_bytes);
  for (size_t i = 0; i < m->func.n; i++)
    if (is_entry(m->func.at[i]) &&
        !entry_of(&c->entry[c->nentry++], m->func.at[i], l->need[i].flags))
      return false;
  for (size_t i = 0; i < l->nglobal; i++) {
    anf_jit_global g = l->global[i];
    g.name = anfi_jit_strdup(g.name);
    if (!g.name) return false;
    c->global[c->nglobal++] = g;
  }
  return true;
}

anfi_jit_code *anfi_jit_code_new(anf_jit_engine *e) {
  anfi_jit_code *c = (anfi_jit_code *)anfi_jit_alloc(sizeof *c);
  if (!c) return NULL;
  atomic_init(&c->refs, 1);
  c->engine = e;
  atomic_fetch_add(&e->refs, 1);
  return c;
}

anfi_jit_code *anfi_jit_describe(anf_jit_engine *e, const anfi_jit_lowered *l) {
  anfi_jit_code *c = anfi_jit_code_new(e);
  if (!c) return NULL;
  if (fill(c, l)) return c;
  anfi_jit_code_release(c);
  return NULL;
}

bool anfi_jit_temp_add(anfi_jit_code *c, const char *file) {
  char **more = (char **)anfi_jit_alloc((c->ntemp + 1) * sizeof *more), *s = anfi_jit_strdup(file);
  if (!more || !s) {
    anfi_jit_free(more);
    anfi_jit_free(s);
    return false;
  }
  if (c->ntemp) memcpy(more, c->temp, c->ntemp * sizeof *more);
  anfi_jit_free(c->temp);
  c->temp = more;
  c->temp[c->ntemp++] = s;
  return true;
}
