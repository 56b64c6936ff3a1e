// SPDX-License-Identifier: Apache-2.0
/* The driver of passes: looks them up, checks what they need, runs, times, dumps and verifies, so
 * that no pass does any of it. Between passes it moves the module to a new store once garbage
 * outweighs it. */
#include "backend/tir/tir.h"

const tpass anfi_t_passes[] = {
#define ANF_TIR_PASS_M(nm, ...) {.name = #nm, .module = anfi_t_pass_##nm, __VA_ARGS__},
#define ANF_TIR_PASS_F(nm, ...) {.name = #nm, .func = anfi_t_pass_##nm, __VA_ARGS__},
#include "backend/tir/pass.def"
#undef ANF_TIR_PASS_M
#undef ANF_TIR_PASS_F
};
const size_t anfi_t_npass = ANFI_LEN(anfi_t_passes);

static const struct {
  const char *name, *passes;
} pipelines[] = {
    {"default", "interface_generalizer tensor_shrinker index_flattener auto_caster bf16_legalizer "
                "validator constant_folder "
                "func_inliner constant_folder ir_simplifier tensor_inplace tensor_init loop_merger "
                "parallel_workload_dispatcher "
                "constant_folder loop_unroller constant_folder ir_simplifier index2var "
                "dead_write_eliminator ir_simplifier "
                "nested_parallel_flattener constant_folder ir_simplifier loop_splitter "
                "parallel_merge dead_func_eliminate "
                "bf16_eliminator target_specific_lowering_cpu func_inliner dead_func_eliminate "
                "constant_folder ir_simplifier "
                "tensor2var buffer_scheduler kernel_lowering_cpu closurizer_cpu ir_simplifier "
                "module_globals_resolver "
                "local_tensor_lowering_cpu ssa_transform value_numbering "
                "loop_invariant_code_motion dessa_transform"},
    /* for a code generator that has parallel loops, tensors of the module and local tensors of its
       own */
    {"structured", "tensor_shrinker index_flattener auto_caster bf16_legalizer validator "
                   "constant_folder func_inliner "
                   "constant_folder ir_simplifier tensor_inplace tensor_init loop_merger "
                   "parallel_workload_dispatcher "
                   "constant_folder loop_unroller constant_folder ir_simplifier index2var "
                   "dead_write_eliminator ir_simplifier "
                   "nested_parallel_flattener constant_folder ir_simplifier loop_splitter "
                   "parallel_merge dead_func_eliminate "
                   "bf16_eliminator tensor2var buffer_scheduler ir_simplifier"},
    /* for engines: nothing that changes a rounding; they make wrappers, globals and single
       assignment themselves */
    {"codegen",
     "tensor_shrinker index_flattener auto_caster bf16_legalizer validator "
     "constant_folder func_inliner constant_folder ir_simplifier tensor_inplace tensor_init "
     "loop_merger parallel_workload_dispatcher constant_folder loop_unroller "
     "constant_folder ir_simplifier index2var dead_write_eliminator ir_simplifier "
     "nested_parallel_flattener constant_folder ir_simplifier loop_splitter "
     "parallel_merge dead_func_eliminate constant_folder ir_simplifier tensor2var "
     "buffer_scheduler function_splitter scalar_splitter closurizer_cpu ir_simplifier"},
    /* the same for modules without loops over tensors and tensors of their own, whose code may be long:
       what a code generator does as well is left to it */
    {"scalar", "index_flattener auto_caster bf16_legalizer validator constant_folder func_inliner "
               "ir_simplifier dead_func_eliminate function_splitter scalar_splitter"},
};

static const char *const prop_names[TPROP_COUNT] = {"valid",
                                                    "flat tensors",
                                                    "exact types",
                                                    "no bf16 arithmetic",
                                                    "folded constants",
                                                    "simple scopes",
                                                    "single assignment",
                                                    "no parallel loops",
                                                    "no globals",
                                                    "lowered intrinsics",
                                                    "no phis"};

const tpass *anfi_t_pass_find(const char *name, size_t len) {
  for (size_t i = 0; i < anfi_t_npass; i++)
    if (strlen(anfi_t_passes[i].name) == len && memcmp(anfi_t_passes[i].name, name, len) == 0)
      return &anfi_t_passes[i];
  return NULL;
}
size_t anf_tir_pass_count(void) { return anfi_t_npass; }
const char *anf_tir_pass_name(size_t i) { return i < anfi_t_npass ? anfi_t_passes[i].name : NULL; }
const char *anf_tir_pass_doc(size_t i) { return i < anfi_t_npass ? anfi_t_passes[i].doc : NULL; }
const char *anf_tir_pipeline_name(size_t i) {
  return i < ANFI_LEN(pipelines) ? pipelines[i].name : NULL;
}
const char *anf_tir_pipeline(const char *name) {
  for (size_t i = 0; i < ANFI_LEN(pipelines); i++)
    if (strcmp(pipelines[i].name, name) == 0) return pipelines[i].passes;
  return NULL;
}

/* ---- properties that can be seen ---- */

typedef struct seen {
  const tmod *m;
  tdtype ret; // of the function
  uint32_t not ;
  bool shaped;      // there is a loop, or a tensor that is no parameter
  bool tiles_known; // has `tiled` been filled?
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
  if (nloop) s->not |= TPROP_SERIAL;
  if (!exact_call(s->m, e)) s->not |= TPROP_CAST;
}

static bool see_expr(tviewer *v, texpr e) {
  seen *s = (seen *)v->user;
  tgroup g = anfi_t_group(e);
  if (!exact(e)) s->not |= TPROP_CAST;
  if ((g == TG_BINARY || g == TG_CMP || (e->kind == TX_intrin_call && e->n)) &&
      anfi_t_is_half(e->in[0]->dtype))
    s->not |= TPROP_NO_BF16;
  if (e->kind == TX_indexing && !flat(s, e->in[0])) s->not |= TPROP_FLAT;
  if (e->kind == TX_call) see_call(s, e);
  if (e->kind == TX_indexing || e->kind == TX_tensorptr)
    for (uint32_t i = 0; i < e->nidx; i++)
      if (!anfi_t_is_elem(e->in[1 + i]->dtype, ANF_TIR_index)) s->not |= TPROP_CAST;
  if (e->kind == TX_ssa_phi) s->not &= ~(uint32_t)TPROP_PHI;
  return true;
}

static bool see_stmt(tviewer *v, tstmt s) {
  seen *u = (seen *)v->user;
  u->shaped |= s->kind == TS_for_loop || (s->kind == TS_define && s->e[0]->kind == TX_tensor);
  if (s->kind == TS_define && s->e[0]->kind == TX_tensor && !flat(u, s->e[0])) u->not |= TPROP_FLAT;
  if (s->kind == TS_define && s->e[0]->kind == TX_var && !s->e[1]) u->not |= TPROP_SSA;
  if (s->kind == TS_define && s->e[0]->kind == TX_var && s->e[1] &&
      !anfi_t_same(s->e[0]->dtype, s->e[1]->dtype))
    u->not |= TPROP_CAST;
  if (s->kind == TS_assign && s->e[0]->kind == TX_var) u->not |= TPROP_SSA;
  if (s->kind == TS_assign && !anfi_t_same(s->e[0]->dtype, s->e[1]->dtype)) u->not |= TPROP_CAST;
  if (s->kind == TS_returns && s->e[0] && !anfi_t_same(s->e[0]->dtype, u->ret))
    u->not |= TPROP_CAST;
  if (s->kind == TS_for_loop && s->sub) u->not |= TPROP_SERIAL;
  if (s->kind == TS_for_loop)
    for (int i = 1; i < 4; i++)
      if (!anfi_t_same(s->e[0]->dtype, s->e[i]->dtype)) u->not |= TPROP_CAST;
  return true;
}

static uint32_t measure(const tmod *m, bool *shaped) {
  seen s = {.m = m, .not = TPROP_PHI, .shaped = m->global.n > 0};
  tviewer v = {.user = &s, .enter_expr = see_expr, .enter_stmt = see_stmt};
  if (m->global.n) s.not |= TPROP_NO_GLOBALS;
  for (size_t i = 0; i < m->global.n; i++)
    if (!flat(&s, m->global.at[i]->e[0])) s.not |= TPROP_FLAT;
  for (size_t i = 0; i < m->func.n; i++) {
    tfunc f = m->func.at[i];
    for (uint32_t k = 0; k < f->n; k++)
      if (f->param[k]->kind == TX_tensor && !flat(&s, f->param[k])) s.not |= TPROP_FLAT;
    s.ret = f->ret;
    if (f->body) anfi_t_view_stmt(&v, f->body);
  }
  uint32_t all = TPROP_FLAT | TPROP_CAST | TPROP_NO_BF16 | TPROP_SSA | TPROP_SERIAL |
                 TPROP_NO_GLOBALS | TPROP_PHI;
  *shaped = s.shaped;
  return all & ~s.not ;
}

uint32_t anfi_t_measure(const tmod *m, bool *shaped) {
  bool unused;
  return measure(m, shaped ? shaped : &unused);
}

/* ---- running ---- */

static bool ready(tpass_cx *p, const tpass *pass, const tmod *m) {
  for (int i = 0; i < TPROP_COUNT; i++) {
    uint32_t bit = UINT32_C(1) << i;
    bool lacks = pass->need & bit && !(m->props & bit), has = pass->bar & bit && m->props & bit;
    if (!lacks && !has) continue;
    anfi_fail(p->cx, anfi_nowhere(), ANF_E0841, pass->name, prop_names[i]);
    for (size_t k = 0; k < anfi_t_npass && lacks; k++)
      if (anfi_t_passes[k].make & bit) anfi_hint(p->cx, "run %s before it", anfi_t_passes[k].name);
    if (has) anfi_hint(p->cx, "run dessa_transform before it");
    return false;
  }
  return true;
}

static const tmod *over_functions(tpass_cx *p, const tpass *pass, const tmod *m) {
  tmod *o = anfi_t_mod_like(m);
  bool changed = false;
  for (size_t i = 0; i < m->func.n; i++) {
    tfunc f = m->func.at[i], g = f->body ? pass->func(p, f) : f;
    changed |= g != f;
    anfi_t_mod_add(o, g);
    if (p->failed) return NULL;
  }
  if (changed) anfi_t_declare_rt(o);
  o->props = changed ? m->props & ~pass->kill : m->props;
  return o;
}

const tmod *anfi_t_run_pass(tpass_cx *p, const tpass *pass, const tmod *m) {
  if (!ready(p, pass, m)) return NULL;
  p->m = m;
  p->t = m->t;
  p->t->line = p->t->col = 0;
  const tmod *o = pass->module ? pass->module(p, m) : over_functions(p, pass, m);
  if (!o || p->failed || anfi_failed(p->cx)) return NULL;
  tmod *r = (tmod *)(uintptr_t)o;
  bool told = pass->func != NULL; // what it killed: nothing if no function changed
  if (o == m) { // a pass that changes nothing still makes a module, so that properties are its own
    r = anfi_t_mod_like(m);
    for (size_t i = 0; i < m->func.n; i++) anfi_t_mod_add(r, m->func.at[i]);
  }
  r->props = (told ? r->props : m->props & ~pass->kill) | pass->make;
  return r;
}

typedef struct run {
  anf_ctx *cx;
  tpass_cx p;
  const anf_tir_opt_opts *o;
  const tmod *m, *input;
  bool shaped; // it has loops or tensors of its own; no pass makes them of anything else
  size_t base,
      live; // bytes of the context: when the store was new, and what the module took of them
} run;

static void free_text(void *t) { anf_text_free((anf_text *)t); }

static void dump(run *r, const tpass *pass) {
  const anf_tir_opt_opts *o = r->o;
  if (!o->dump || !o->dump_after ||
      (strcmp(o->dump_after, "*") != 0 && strcmp(o->dump_after, pass->name) != 0))
    return;
  anf_text *t = ANFI_NEW(anfi_scratch(r->cx), anf_text);
  t->cx = r->cx;
  anfi_defer(r->cx, ANFI_ALWAYS, free_text, t);
  anfi_t_print_mod(r->m, t);
  o->dump(o->user, pass->name, t->text ? t->text : "", t->len);
}

static void go_to(run *r, const tmod *m) {
  if (r->m != r->input) anfi_t_mod_drop((tmod *)(uintptr_t)r->m);
  r->m = m;
}

/* Moves to a new store when the old one holds several times what the module needs. */
static void compact(run *r) {
  enum { SLACK = 48 << 20 };
  if (anf_ctx_bytes(r->cx) < r->base + SLACK + 4 * r->live) return;
  size_t before = anf_ctx_bytes(r->cx);
  const tmod *m = anfi_t_clone(r->m, anfi_t_store_new(r->cx));
  r->live = anf_ctx_bytes(r->cx) - before;
  go_to(r, m);
  r->base = anf_ctx_bytes(r->cx) - r->live;
}

/* Is there nothing for the pass to do? */
static bool is_idle(const run *r, const tpass *pass) {
  return (pass->shaped && !r->shaped) || (pass->settles && !(pass->make & ~r->m->props));
}

static bool one(run *r, const tpass *pass) {
  uint64_t start = anfi_os_now_ns();
  if (is_idle(r, pass)) {
    if (!ready(&r->p, pass, r->m)) return false;
    ((tmod *)(uintptr_t)r->m)->props |= pass->make; // it is never the caller's
  } else {
    const tmod *m = anfi_t_run_pass(&r->p, pass, r->m);
    if (!m) return false;
    go_to(r, m);
  }
  anfi_arena_free(r->p.scratch);
  if (r->o->timed) r->o->timed(r->o->user, pass->name, anfi_os_now_ns() - start);
  dump(r, pass);
  if ((r->o->verify_each || ANFI_VERIFY) && !anfi_t_validate(r->cx, r->m)) {
    anfi_hint(r->cx, "the module was right before the pass %s", pass->name);
    return false;
  }
  compact(r);
  return anfi_go_on(r->cx, pass->name, 0);
}

static const char *pass_name(void *user, size_t i) { return (void)user, anf_tir_pass_name(i); }

static bool each(run *r, const char *s) {
  while (*s) {
    size_t n = strcspn(s, " ,\t\n");
    const tpass *pass = n ? anfi_t_pass_find(s, n) : NULL;
    const char *word = anfi_strndup(anfi_scratch(r->cx), s, n),
               *pipe = n && !pass ? anf_tir_pipeline(word) : NULL;
    if (n && !pass && !pipe) {
      anfi_fail(r->cx, anfi_nowhere(), ANF_E0840, word);
      const char *near = anfi_nearest(word, pass_name, NULL);
      if (near) anfi_hint(r->cx, "did you mean '%s'?", near);
      return false;
    }
    if (pipe ? !each(r, pipe) : pass && !one(r, pass)) return false;
    s += n + (s[n] != 0);
  }
  return true;
}

/* The module that passes start with: of its own, so that properties are. */
static tmod *started(const tmod *m) {
  tmod *start = anfi_t_mod_like(m);
  for (size_t i = 0; i < m->func.n; i++) anfi_t_mod_add(start, m->func.at[i]);
  start->props = m->props;
  return start;
}

static const tmod *run_from(anf_ctx *cx, const tmod *m, const char *passes,
                            const anf_tir_opt_opts *o, bool measured) {
  anf_tir_opt_opts *given = ANFI_NEW(anfi_scratch(cx), anf_tir_opt_opts);
  if (o) memcpy(given, o, o->size && o->size < sizeof *given ? o->size : sizeof *given);
  if (!given->max_threads) given->max_threads = 8;
  if (!given->local_tensor_bytes) given->local_tensor_bytes = 128;
  run r = {.cx = cx, .o = given, .m = m, .input = m, .base = anf_ctx_bytes(cx)};
  r.p = (tpass_cx){.cx = cx, .scratch = anfi_scratch(cx), .opts = given};
  tmod *start = started(m);
  r.shaped = true;
  if (!measured) start->props = measure(m, &r.shaped);
  r.m = start;
  return each(&r, passes) ? r.m : NULL;
}

/* What a text says of itself need not be true: only what can be seen counts at the start. */
const tmod *anfi_t_run_passes(anf_ctx *cx, const tmod *m, const char *passes,
                              const anf_tir_opt_opts *o) {
  return run_from(cx, m, passes, o, false);
}

const tmod *anfi_t_run_more(anf_ctx *cx, const tmod *m, const char *passes,
                            const anf_tir_opt_opts *o) {
  return run_from(cx, m, passes, o, true);
}
