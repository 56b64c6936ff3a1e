// SPDX-License-Identifier: Apache-2.0
/* Autotuning of products (anf_exec_opts.tune): hill climbing from the cost model's plan.
 *
 *   plan {tile 6x16, block 256}  →  change one number, measure, keep it if faster
 *
 * Each product is measured alone, on one thread. No plan changes a bit of a result. The winner belongs to the engine
 * and is kept in its cache on disk. */
#include "exec/tune.h"

#include <stdlib.h>

/* ---- a product as a program ---- */

typedef struct bench {
  anf_ctx *cx;
  anf_jit_engine *engine;
  anfi_isa isa;
  const anfi_mm_shape *s;
  anf_graph *g;
  void *a, *b, *c;
} bench;

typedef struct trial { // a plan and the code of it
  anfi_mm_plan plan;
  anf_exec *e;
  double ns; // the least that a call took
} trial;

static anf_dtype type_of(const anfi_mm_shape *s, bool left) {
  anf_tir_elem e = s->bytes_a ? left ? s->bytes_a : s->bytes_b : s->elem;
  return anfi_t_value_dtype(anfi_t_dt(e));
}

static anf_value *held(bench *w, anf_value *v) {
  if (!v) anfi_throw_nomem(w->cx);
  anfi_defer(w->cx, ANFI_ALWAYS, anfi_release, v);
  return v;
}

static anf_node *widened(bench *w, anf_graph *g, anf_node *x) {
  const anf_attr to = {.name = "dtype",
                       .value = held(w, anf_value_of_type(w->cx, anf_type_scalar(w->cx, ANF_I32)))};
  return w->s->bytes_a ? anf_op_attrs(g, "Cast", 1, &x, 1, &to) : x;
}

static anf_graph *program(bench *w) {
  anf_module *m = anf_module_new(w->cx);
  if (!m) anfi_throw_nomem(w->cx);
  anfi_defer(w->cx, ANFI_ALWAYS, anfi_free_module, m);
  anf_graph *g = anf_graph_new(m, "product");
  anf_node *a = anf_param(g, "a", NULL), *b = anf_param(g, "b", NULL);
  anf_node *in[] = {widened(w, g, a), widened(w, g, b)};
  const anf_attr how[] = {{.name = "ta", .value = held(w, anf_value_bool(w->cx, w->s->ta))},
                          {.name = "tb", .value = held(w, anf_value_bool(w->cx, w->s->tb))}};
  anf_return(g, anf_op_attrs(g, "MatMul", 2, in, ANFI_LEN(how), how));
  anf_status st = anf_module_status(m);
  return st == ANF_OK ? g : ((void)anfi_fail_as(w->cx, st), NULL);
}

static void put(anf_dtype d, void *to, size_t i) {
  float x = (float)(i * 7919 % 1021) / 1021 - 0.5F;
  switch (d) {
  case ANF_F64: ((double *)to)[i] = (double)x; break;
  case ANF_F16: ((uint16_t *)to)[i] = anfi_f32_to_f16(x); break;
  case ANF_BF16: ((uint16_t *)to)[i] = anfi_f32_to_bf16(x); break;
  case ANF_F32: ((float *)to)[i] = x; break;
  default: ((uint8_t *)to)[i] = (uint8_t)(i * 7919);
  }
}

/* With room for the column sums after packed panels. */
static void *operand(bench *w, anf_dtype d, uint64_t n) {
  enum { ALIGNED = 64 };
  void *p = anfi_alloc(anfi_scratch(w->cx), n * sizeof(double) + ALIGNED);
  p = (void *)(((uintptr_t)p + ALIGNED - 1) / ALIGNED * ALIGNED);
  for (size_t i = 0; i < n; i++) put(d, p, i);
  return p;
}

static const anf_type *matrix(bench *w, bool left) {
  const anfi_mm_shape *s = w->s;
  uint64_t m = left ? s->m : s->k, n = left ? s->k : s->n;
  bool transposed = left ? s->ta : s->tb;
  int64_t dims[] = {(int64_t)(transposed ? n : m), (int64_t)(transposed ? m : n)};
  return anfi_type_checked(w->cx, type_of(s, left), 2, dims);
}

/* An engine like that of the program, which keeps nothing. */
static bool begin(bench *w, const anf_jit_engine *like) {
  const anfi_mm_shape *s = w->s;
  anf_jit_opts o = like->o;
  o.size = sizeof o;
  o.cache_dir = NULL;
  anf_status st = anf_jit_engine_new(w->cx, like->kind, &o, NULL, &w->engine);
  if (st != ANF_OK) return anfi_fail_as(w->cx, st);
  anfi_defer(w->cx, ANFI_ALWAYS, anfi_free_engine, w->engine);
  anfi_jit_isa(w->engine, &w->isa);
  w->a = operand(w, type_of(s, true), s->m * s->k);
  w->b = operand(w, type_of(s, false), s->k * s->n);
  w->c = operand(w, ANF_F64, s->m * s->n);
  return (w->g = program(w)) != NULL;
}

static void forced(void *user, const anfi_mm_shape *s, anfi_mm_plan *plan) {
  (void)s;
  *plan = *(const anfi_mm_plan *)user;
}

static bool compile(bench *w, trial *t) {
  anf_exec_opts o = {.size = sizeof o, .engine = w->engine};
  anfi_mm_plans plans = {forced, &t->plan, w->s->prepacked};
  const anf_type *types[] = {matrix(w, true), matrix(w, false)};
  if (!(t->e = anfi_exec_new(w->g, &o))) return false;
  t->e->job.plans = &plans;
  anf_status st = anf_exec_prepare(t->e, 2, types, NULL);
  t->e->job.plans = NULL;
  return st == ANF_OK || anfi_fail_as(w->cx, st);
}

/* ---- measuring ---- */

enum { TURN_NS = 300000, TURNS = 5, LAST_TURNS = 11, FEW_TURNS = 2, LONG_NS = 50000000 };
static const double better = 0.985, hopeless = 1.1;

/* Nanoseconds of a call, of as many as fill a turn. */
static double turn(const bench *w, const trial *t) {
  anf_generic args[3] = {{.ptr = w->a}, {.ptr = w->b}, {.ptr = w->c}};
  uint64_t from = anfi_os_thread_ns(), spent = 0;
  uint64_t n = 0;
  for (; spent < TURN_NS; n++, spent = anfi_os_thread_ns() - from)
    if (anf_jit_call_generic(t->e->variant->function, NULL, args) != ANF_OK) return 1e30;
  return (double)spent / (double)n;
}

static void take_turns(const bench *w, trial *x, trial *y, int turns) {
  uint64_t from = anfi_os_thread_ns();
  x->ns = y->ns = 1e30;
  turn(w, y); // its code and operands are cold
  for (int i = 0; i < turns; i++) {
    if (i >= FEW_TURNS && anfi_os_thread_ns() - from > LONG_NS) return;
    double a = turn(w, x), b = turn(w, y);
    if (a < x->ns) x->ns = a;
    if (b < y->ns) y->ns = b;
    if (i && y->ns > hopeless * x->ns) return;
  }
}

static void drop(bench *w, trial *t) {
  anfi_undefer(w->cx, t->e);
  anf_exec_free(t->e);
}

/* Is this plan faster than the best? Then it is the best. */
static bool challenge(bench *w, trial *best, const anfi_mm_plan *plan) {
  trial t = {.plan = *plan};
  if (!compile(w, &t)) return false;
  take_turns(w, best, &t, TURNS);
  bool won = t.ns < better * best->ns;
  drop(w, won ? best : &t);
  if (won) *best = t;
  return won;
}

/* ---- what may be changed ---- */

static uint64_t round_up(uint64_t n, uint64_t to) { return anfi_mm_up(n, to) * to; }

typedef struct form { // the product whose blocks a plan has
  anfi_mm_shape s;
  anfi_mm_types t;
  uint64_t lanes, rows, slice; // of a vector; of a tile; of K
  bool dots;
} form;

static form form_of(const bench *w, const anfi_mm_plan *p) {
  form f = {.s = p->exchanged ? anfi_mm_exchanged(w->s) : *w->s};
  f.t = anfi_mm_types_of(&w->isa, &f.s);
  f.dots = f.t.b != f.t.sum;
  f.lanes = w->isa.bytes / anfi_t_bytes(anfi_t_dt(f.t.sum));
  f.rows = anfi_tile_rows(&w->isa, f.s.m, (uint32_t)anfi_mm_up(p->b.nr, f.lanes));
  if (!f.s.ta && !f.dots && anfi_tile_is_transposed(&w->isa, (uint32_t)f.lanes, f.s.m, f.s.n))
    f.rows = f.lanes;
  f.slice = anfi_mm_split_k(f.s.m, f.s.n, f.s.k);
  return f;
}

static const uint64_t cuts[] = {1, 2, 3, 4, 5, 6, 8, 11, 16, 24, 32, 64};

static void with_rows(const form *f, anfi_blocks *b, uint64_t parts) {
  b->mb = anfi_mm_up(f->s.m, parts);
  if (parts > 1) b->mb = round_up(b->mb, f->rows);
  if (b->mb > f->s.m) b->mb = f->s.m;
}

typedef bool (*change)(const bench *w, anfi_mm_plan *p, size_t i); // false: there is no i-th

static bool other_form(const bench *w, anfi_mm_plan *p, size_t i) {
  if (i || !anfi_mm_may_exchange(w->s)) return false;
  anfi_mm_shape x = anfi_mm_exchanged(w->s);
  p->exchanged = !p->exchanged;
  p->b = anfi_mm_blocks(&w->isa, p->exchanged ? &x : w->s);
  return true;
}

static bool other_panel(const bench *w, anfi_mm_plan *p, size_t i) {
  form f = form_of(w, p);
  uint64_t all = p->b.group ? p->b.group * p->b.nr : f.s.n, nr = (i + 1) * f.lanes;
  if (anfi_isa_has(&w->isa, CPU_amx) || i >= 6 || nr >= f.s.n + f.lanes) return false;
  p->b.nr = nr;
  p->b.group = anfi_mm_up(all, nr);
  f = form_of(w, p);
  with_rows(&f, &p->b, anfi_mm_up(f.s.m, p->b.mb));
  return true;
}

static bool other_steps(const bench *w, anfi_mm_plan *p, size_t i) {
  enum { DEPTH = 64, LEAST = 128, MOST_BYTES = 1 << 15 };
  form f = form_of(w, p);
  uint64_t kb = i < ANFI_LEN(cuts) ? anfi_mm_up(f.slice, cuts[i]) : 0;
  if (!kb || (kb < LEAST && i)) return false;
  if (f.dots && kb < f.slice) kb = round_up(kb, DEPTH);
  if (kb * anfi_t_bytes(anfi_t_dt(f.t.b)) <= MOST_BYTES) p->b.kb = kb;
  return true;
}

static bool other_rows(const bench *w, anfi_mm_plan *p, size_t i) {
  form f = form_of(w, p);
  if (i >= ANFI_LEN(cuts) || cuts[i] > anfi_mm_up(f.s.m, f.rows)) return false;
  with_rows(&f, &p->b, cuts[i]);
  return true;
}

static bool other_group(const bench *w, anfi_mm_plan *p, size_t i) {
  form f = form_of(w, p);
  uint64_t panels = f.s.n / p->b.nr;
  if (i >= ANFI_LEN(cuts) || cuts[i] > panels) return false;
  p->b.group = anfi_mm_up(panels, cuts[i]);
  return true;
}

static bool other_copies(const bench *w, anfi_mm_plan *p, size_t i) {
  form f = form_of(w, p);
  if (i == 0) p->b.pack_a = !p->b.pack_a;
  bool may = !f.s.tb && !f.s.prepacked;
  if (i == 1 && may) p->b.pack_b = !p->b.pack_b;
  if (i > 1 && may) { // what stays in a cache as it lies
    uint64_t steps = anfi_mm_up(f.slice, anfi_mm_up(f.slice, UINT64_C(128) << (i - 1)));
    if (steps < p->b.kb && !f.dots) p->b.pack_b = false, p->b.kb = steps;
  }
  return i < 4;
}

static bool same(const anfi_mm_plan *x, const anfi_mm_plan *y) {
  return x->exchanged == y->exchanged && x->b.mb == y->b.mb && x->b.nr == y->b.nr &&
         x->b.kb == y->b.kb && x->b.group == y->b.group && x->b.pack_a == y->b.pack_a &&
         x->b.pack_b == y->b.pack_b;
}

/* Coordinate descent: one change after the other, until none is better. */
static void descend(bench *w, trial *best) {
  static const change all[] = {other_form,  other_panel, other_copies,
                               other_steps, other_rows,  other_group};
  enum { PASSES = 2 };
  bool changed = true;
  for (int pass = 0; pass < PASSES && changed; pass++) {
    changed = false;
    for (size_t c = 0; c < ANFI_LEN(all); c++) {
      anfi_mm_plan from = best->plan, p = from;
      for (size_t i = 0; all[c](w, &p, i) && !anfi_failed(w->cx); i++, p = from)
        if (!same(&p, &best->plan)) changed |= challenge(w, best, &p);
    }
  }
}

static void measured(bench *w, const anf_jit_engine *like, anfi_mm_plan *plan) {
  trial model = {.plan = *plan}, best = model;
  if (!begin(w, like) || !compile(w, &model) || !compile(w, &best)) return;
  descend(w, &best);
  if (anfi_failed(w->cx)) return;
  take_turns(w, &model, &best, LAST_TURNS);
  if (best.ns < better * model.ns) *plan = best.plan;
  drop(w, &model), drop(w, &best);
}

static bool measure(anf_ctx *cx, const anf_jit_engine *like, const anfi_mm_shape *s,
                    anfi_mm_plan *plan) {
  anfi_mm_shape as = *s;
  if (s->prepacked && s->elem == ANF_TIR_f16) as.elem = ANF_TIR_f32; // as it is packed
  bench w = {.cx = cx, .s = &as};
  ANFI_ENTRY(cx, NULL);
  measured(&w, like, plan);
  anf_status st = anfi_leave(cx);
  return st == ANF_OK || anfi_fail_as(cx, st);
}

/* ---- facts ---- */

enum { PLAN_WORDS = 7 };

static void find(void *user, const anfi_mm_shape *s, anfi_mm_plan *p) {
  const anfi_tuner *t = (const anfi_tuner *)user;
  uint64_t flags = (uint64_t)s->ta | (uint64_t)s->tb << 1 | (uint64_t)s->prepacked << 2;
  uint64_t types = (uint64_t)s->elem | (uint64_t)s->bytes_a << 8 | (uint64_t)s->bytes_b << 16;
  uint64_t key[] = {types, s->m, s->n, s->k, flags, t->isa.l1, t->isa.l2}, w[PLAN_WORDS];
  anfi_jit_id id = anfi_jit_fact_id(t->cx, t->engine, "product", ANFI_LEN(key), key);
  if (anfi_jit_noted(t->cx, t->engine, id, w, sizeof w)) {
    *p = (anfi_mm_plan){w[0], {w[1], w[2], w[3], w[4], w[5], w[6]}};
    return;
  }
  if (!measure(t->cx, t->engine, s, p)) return;
  const uint64_t words[PLAN_WORDS] = {p->exchanged, p->b.mb,     p->b.nr,    p->b.kb,
                                      p->b.group,   p->b.pack_a, p->b.pack_b};
  anfi_jit_note(t->cx, t->engine, id, words, sizeof words);
}

bool anfi_tuner_open(anfi_tuner *t, anf_ctx *cx, anf_jit_engine *e) {
  if (e->kind == ANF_JIT_INTERP || !anfi_jit_isa(e, &t->isa)) return false;
  if (e->target.elsewhere) {
    anfi_warn(cx, anfi_nowhere(), ANF_W0903);
    return false;
  }
  t->cx = cx;
  t->engine = e;
  t->plans = (anfi_mm_plans){.find = find, .user = t};
  return true;
}
