// SPDX-License-Identifier: Apache-2.0
/* The reference interpreter: an iterative machine with frames on its own stack.
 *   f(n) = n == 0 ? 0 : f(n - 1)    one frame, replaced a million times: a call that is a graph's last step (tail call)
 * Every value in flight is in a slot, in `acc`, or in a mapping of a frame, so one cleanup frees all of them however a
 * run ends: by an error, a limit, or memory that runs out in the middle of a step. Loops through header graphs run in
 * constant space. */
#include "interp/interp.h"

typedef anfi_machine machine;
typedef anfi_call_frame frame;

#ifdef ANF_HOSTILE
enum { FUEL = 7, STACK_MIN = 1 };
#else
enum { FUEL = 4096, STACK_MIN = 64 };
#endif
enum { MAX_DEPTH = 10000000, MAX_NOTES = 10 };

/* ---- operands ---- */

static anfi_loc loc_of(const frame *f) {
  return f->pc ? anfi_node_loc(f->plan->step[f->pc - 1].node) : anfi_graph_loc(f->plan->graph);
}

anfi_loc anfi_machine_loc(const machine *m) {
  size_t i = m->nframe;
  while (i && !m->frame[i - 1].plan) i--;
  return i ? loc_of(&m->frame[i - 1]) : anfi_nowhere();
}

/* Notes of callers: the innermost few, then how many more. */
static void note_calls(const machine *m) {
  size_t shown = 0, left = 0;
  for (size_t i = m->nframe; i-- > 1;) {
    const frame *f = &m->frame[i - 1];
    if (!f->plan) continue;
    if (shown++ < MAX_NOTES) anfi_note(m->cx, loc_of(f), "called from %s", f->plan->graph->name->s);
    else left++;
  }
  if (left) anfi_note(m->cx, anfi_nowhere(), "... and %zu more calls", left);
}

/* ---- memory ---- */

static void *grown(anf_ctx *cx, void *p, size_t *cap, size_t need, size_t elem) {
  size_t want = *cap ? *cap * 2 : STACK_MIN;
  if (want < need) want = need;
  void *q = anfi_raw(cx, p, *cap * elem, anfi_size_mul(cx, want, elem));
  if (!q) anfi_throw_nomem(cx);
  *cap = want;
  return q;
}

void anfi_machine_reserve(machine *m, size_t n) {
  if (m->slot_cap - m->sp < n)
    m->slot = (anf_value **)grown(m->cx, m->slot, &m->slot_cap, m->sp + n, sizeof *m->slot);
}

void anfi_machine_drop_to(machine *m, size_t sp) {
  while (m->sp > sp) anfi_drop(m->slot[--m->sp]);
}

static void free_walk(anf_ctx *cx, const frame *f) {
  if (f->map) anfi_map_free(cx, f->map);
  if (f->loop) anfi_loop_free(cx, f->loop);
}

static void free_machine(void *p) {
  machine *m = (machine *)p;
  anf_ctx *cx = m->cx;
  for (size_t i = 0; i < m->nframe; i++) free_walk(cx, &m->frame[i]);
  anfi_machine_drop_to(m, 0);
  anf_value_release(m->acc);
  for (size_t i = 0; i < m->held.n; i++) anf_value_release(m->held.at[i]);
  anfi_raw(cx, m->frame, m->frame_cap * sizeof *m->frame, 0);
  anfi_raw(cx, m->slot, m->slot_cap * sizeof *m->slot, 0);
  anfi_raw(cx, m->arg, m->arg_cap * sizeof *m->arg, 0);
  anf_text_free(&m->text);
  anfi_arena_free(&m->scratch);
  anfi_arena_free(&m->arena);
  anfi_raw(cx, m, sizeof *m, 0);
}

static anfi_loc place(const void *m) { return anfi_machine_loc((const machine *)m); }

static machine *new_machine(anf_ctx *cx, const anf_run_opts *o) {
  machine *m = (machine *)anfi_raw(cx, NULL, 0, sizeof *m);
  if (!m) anfi_throw_nomem(cx);
  memset(m, 0, sizeof *m);
  m->cx = m->text.cx = m->fit.cx = m->outer.cx = cx;
  anfi_arena_init(&m->arena, cx);
  anfi_arena_init(&m->scratch, cx);
  m->fit.arena = m->outer.arena = &m->arena;
  m->outer.host = true;
  anfi_defer(cx, ANFI_ALWAYS, free_machine, m);
  cx->frame->where = place;
  cx->frame->of = m;
  if (!ANFI_OPTS_IN(cx, anf_run_opts, max_ms, o, &m->opts)) anfi_throw(cx);
  if (m->opts.max_ms) m->end = anfi_os_now_ns() + m->opts.max_ms * 1000000;
  if (!m->opts.max_depth) m->opts.max_depth = MAX_DEPTH;
  if (!m->opts.max_steps) m->opts.max_steps = UINT64_MAX;
  return m;
}

/* ---- plans ---- */

static anfi_program *new_program(machine *m, anf_module *mod) {
  anfi_program *p = ANFI_NEW(&m->arena, anfi_program);
  *p = (anfi_program){.next = m->programs,
                      .module = mod,
                      .an = anfi_analyse(mod),
                      .arena = &m->arena,
                      .held = &m->held};
  anfi_order_reads_first(p->an);
  p->plans = ANFI_NEW_N(&m->arena, const anfi_plan *, mod->graphs.n);
  p->owner = ANFI_NEW_N(&m->arena, uint32_t, mod->nodes.n);
  p->slot = ANFI_NEW_N(&m->arena, uint32_t, mod->nodes.n);
  p->last = ANFI_NEW_N(&m->arena, uint32_t, mod->nodes.n);
  m->programs = p;
  return p;
}

static const anfi_plan *plan_of(machine *m, anf_graph *g) {
  anfi_program *p = m->programs;
  while (p && p->module != g->module) p = p->next;
  if (!p) p = new_program(m, g->module);
  if (g->id < p->an->ngraph && p->plans[g->id]) return p->plans[g->id];
  return anfi_plan_make(p, g);
}

/* ---- calls ---- */

/* Converts arguments in slot[first..] to the parameters' declared types. */
static bool fit_arguments(machine *m, anfi_fit *fit, const anfi_plan *pl, size_t first) {
  for (uint32_t i = 0; i < pl->nparam; i++) {
    anf_value *v = m->slot[first + i], *fitting;
    const anf_type *t = pl->declared[i];
    if (!t || (v->kind == ANF_VALUE_TENSOR && v->type == t)) continue;
    if (!anfi_fit_value(fit, v, t, &fitting)) {
      anfi_loc declared = anfi_node_loc(pl->graph->params.at[i]);
      anfi_fit_fail_argument(fit, m->nframe ? anfi_machine_loc(m) : declared, i,
                             pl->graph->name->s);
      if (m->nframe) anfi_note(m->cx, declared, "the parameter is declared here");
      return false;
    }
    m->slot[first + i] = fitting;
    anfi_drop(v);
  }
  return true;
}

static const anf_graph *wanted_by(const anf_graph *g) {
  return g->result_type && !anfi_type_is_any(g->result_type) ? g : NULL;
}

/* Dims that the arguments of the call have named hold for its result. */
static bool fit_result(machine *m, const frame *f) {
  const anf_graph *g = f->want;
  anf_value *v = m->acc, *fitting;
  anfi_fit *fit = &m->fit;
  if (v->kind == ANF_VALUE_TENSOR && v->type == g->result_type) return true;
  fit->dims.n = 0;
  for (size_t i = f->first_dim; i < m->kept.n; i++) anfi_push(&m->arena, &fit->dims, m->kept.at[i]);
  if (!anfi_fit_value(fit, v, g->result_type, &fitting)) {
    anfi_loc loc = g->result->graph == g && g->result->kind != ANFI_PARAM ? anfi_node_loc(g->result)
                                                                          : anfi_graph_loc(g);
    return anfi_fit_fail_result(fit, loc, g->name->s);
  }
  m->acc = fitting;
  anfi_drop(v);
  return true;
}

static frame *push_frame(machine *m, size_t base) {
  if (m->nframe >= m->opts.max_depth) {
    anfi_fail(m->cx, anfi_machine_loc(m), ANF_E0416, (unsigned long long)m->opts.max_depth);
    return NULL;
  }
  if (m->nframe == m->frame_cap)
    m->frame = (frame *)grown(m->cx, m->frame, &m->frame_cap, m->nframe + 1, sizeof *m->frame);
  frame *f = &m->frame[m->nframe++];
  *f = (frame){.base = base, .first_dim = m->kept.n};
  return f;
}

anfi_call_frame *anfi_machine_enter_map(machine *m, size_t base) { return push_frame(m, base); }

/* Moves slot[p..sp) down over the running frame, which ends. */
static void replace_frame(machine *m, frame *f, size_t p) {
  size_t to = f->base - 1, n = m->sp - p;
  for (size_t i = to; i < p; i++) anfi_drop(m->slot[i]);
  memmove(m->slot + to, m->slot + p, n * sizeof *m->slot);
  m->sp = to + n;
}

static bool check_call(machine *m, const anfi_plan *pl, const anfi_fn *fn, size_t n) {
  const anf_graph *g = pl->graph;
  if (fn->ncapture != pl->ncapture && !fn->ncapture) {
    const anf_node *what = m->programs->an->graphs[g->id].free.at[0];
    const char *name = anf_node_name(what);
    return anfi_fail(m->cx, anfi_machine_loc(m), ANF_E0414, g->name->s,
                     *name ? name : "a value of another function");
  }
  if (fn->ncapture != pl->ncapture)
    return anfi_fail(m->cx, anfi_machine_loc(m), ANF_E0420, g->name->s,
                     "it was changed after the function value was made");
  if (n == pl->nparam) return true;
  anfi_fail(m->cx, anfi_machine_loc(m), ANF_E0510, g->name->s, (size_t)pl->nparam, n);
  anfi_note(m->cx, anfi_graph_loc(g), "%s is defined here", g->name->s);
  return false;
}

/* Do the arguments name dims as those of the running frame do? */
static bool same_dims(const machine *m, const frame *f, const anfi_fit *fit) {
  if (m->kept.n - f->first_dim != fit->dims.n) return false;
  for (size_t i = 0; i < fit->dims.n; i++) {
    const anfi_dim_size *a = &fit->dims.at[i], *b = &m->kept.at[f->first_dim + i];
    if (a->dim != b->dim || a->size != b->size) return false;
  }
  return true;
}

/* The frame on top owes a result of g, whose arguments were just fitted. */
static void owe(machine *m, frame *f, const anf_graph *g, const anfi_fit *fit) {
  f->want = g;
  m->kept.n = f->first_dim;
  for (size_t i = 0; g && i < fit->dims.n; i++) anfi_push(&m->arena, &m->kept, fit->dims.at[i]);
}

static bool call_graph(machine *m, size_t p, bool tail) {
  const anfi_fn *fn = anfi_value_fn(m->slot[p]);
  const anfi_plan *pl = plan_of(m, fn->graph);
  if (!pl || !check_call(m, pl, fn, m->sp - p - 1)) return false;
  anfi_fit *fit = m->nframe ? &m->fit : &m->outer;
  fit->dims.n = 0;
  if (pl->checked && !fit_arguments(m, fit, pl, p + 1)) return false;
  const anf_graph *want = wanted_by(pl->graph);
  frame *f = m->nframe ? &m->frame[m->nframe - 1] : NULL;
  /* A frame that owes its caller another type of result stays, to check what it gets. */
  if (tail && f->want && want &&
      (f->want->result_type != want->result_type || !same_dims(m, f, fit)))
    tail = false;
  if (tail) {
    replace_frame(m, f, p);
    if (!f->want) owe(m, f, want, fit);
  } else {
    f = push_frame(m, p + 1);
    if (!f) return false;
    owe(m, f, want, fit);
  }
  f->plan = pl;
  f->pc = 0;
  size_t locals = pl->nslot - pl->nparam;
  anfi_machine_reserve(m, locals);
  memset(m->slot + m->sp, 0, locals * sizeof *m->slot);
  m->sp += locals;
  for (uint32_t i = 0; i < pl->nunused; i++) {
    anfi_drop(m->slot[f->base + pl->unused[i]]);
    m->slot[f->base + pl->unused[i]] = NULL;
  }
  return true;
}

/* Arguments that the callee at slot[p] has bound go before the others. */
static void spread_bound(machine *m, size_t p) {
  const anfi_fn *fn = anfi_value_fn(m->slot[p]);
  size_t n = fn->nbound;
  anfi_machine_reserve(m, n);
  memmove(m->slot + p + 1 + n, m->slot + p + 1, (m->sp - p - 1) * sizeof *m->slot);
  for (size_t i = 0; i < n; i++) m->slot[p + 1 + i] = anfi_keep(fn->at[fn->ncapture + i]);
  m->sp += n;
}

/* ---- results ---- */

static void set_slot(machine *m, const frame *f, uint32_t dst, anf_value *v) {
  if (dst == ANFI_NO_SLOT) anfi_drop(v);
  else m->slot[f->base + dst] = v;
}

static bool pop_frame(machine *m) {
  const frame *f = &m->frame[m->nframe - 1];
  if (f->want && !fit_result(m, f)) return false;
  free_walk(m->cx, f);
  anfi_machine_drop_to(m, f->base - 1);
  m->kept.n = f->first_dim;
  m->nframe--;
  return true;
}

/* acc goes to the step that waits for it; one that is a graph's last ends that graph as well. */
static bool deliver(machine *m) {
  while (m->nframe) {
    frame *f = &m->frame[m->nframe - 1];
    anf_value *v = m->acc;
    if (f->loop && !anfi_loop_finished(f)) return anfi_loop_take(m, f);
    if (f->map) {
      m->acc = NULL;
      anfi_map_take(f->map, v);
      return true;
    }
    const anfi_step *s = &f->plan->step[f->pc - 1];
    if (s->kind == ANFI_STEP_CALL) {
      m->acc = NULL;
      set_slot(m, f, s->dst, v);
      return true;
    }
    if (!pop_frame(m)) return false;
  }
  return true;
}

bool anfi_machine_leave(machine *m) { return pop_frame(m) && deliver(m); }

/* ---- primitives as function values ---- */

static bool print(machine *m, size_t n, anf_value *const *v) {
  if (m->opts.print) {
    m->text.len = 0;
    for (size_t i = 0; i < n; i++) {
      if (i) anfi_putc(&m->text, ' ');
      if (v[i]->kind == ANF_VALUE_STRING) anfi_put(&m->text, v[i]->u.text, v[i]->n);
      else if (anf_value_print(m->cx, v[i], 0, &m->text) != ANF_OK) anfi_throw_nomem(m->cx);
    }
    anfi_putc(&m->text, '\n');
    m->opts.print(m->opts.print_user, m->text.text, m->text.len);
  }
  m->acc = anfi_value_new_none(m->cx);
  return true;
}

/* The callee at slot[p] is a primitive; attributes that inputs give come after the arguments. */
static bool apply(machine *m, size_t p) {
  const anfi_fn *fn = anfi_value_fn(m->slot[p]);
  anf_value *const *in = m->slot + p + 1;
  size_t n = m->sp - p - 1, nattr = anfi_op_schema(m->cx, (anfi_opcode)fn->op)->nattr, given = 0;
  if (fn->op == ANF_OP_Print) return print(m, n, in);
  anf_value **attr = anfi_machine_args(m, nattr);
  for (uint32_t k = 0; k < nattr; k++) {
    attr[k] = anfi_attr_value(m->cx, (anfi_opcode)fn->op, fn->attrs, k);
    given += fn->attrs && k < fn->attrs->n && fn->attrs->at[k] == &anfi_from_node;
  }
  size_t from = n = given < n ? n - given : 0;
  for (uint32_t k = 0; k < nattr && given; k++)
    if (fn->attrs->at[k] == &anfi_from_node && from < m->sp - p - 1) attr[k] = in[from++];
  return anfi_machine_eval(m, fn->op, n, in, attr, false, &m->acc);
}

static bool drop_callee(machine *m, size_t p) {
  anfi_drop(m->slot[p]);
  memmove(m->slot + p, m->slot + p + 1, (--m->sp - p) * sizeof *m->slot);
  return true;
}

/* Custom(f, fwd, bwd, fdata, fwddata, bwddata, args..) is f(fdata, args..). */
static void drop_rules(machine *m, size_t p) {
  drop_callee(m, p);     // Custom
  drop_callee(m, p + 1); // fwd
  drop_callee(m, p + 1); // bwd
  drop_callee(m, p + 2); // fwddata
  drop_callee(m, p + 2); // bwddata
}

bool anfi_machine_call(machine *m, size_t p, bool tail) {
  for (;;) {
    if (m->slot[p]->kind != ANF_VALUE_FN) {
      m->text.len = 0;
      anfi_put_kind(&m->text, m->slot[p]);
      return anfi_fail(m->cx, anfi_machine_loc(m), ANF_E0514, m->text.text);
    }
    const anfi_fn *fn = anfi_value_fn(m->slot[p]);
    if (fn->nbound) spread_bound(m, p);
    if (fn->graph) return call_graph(m, p, tail);
    size_t n = m->sp - p - 1;
    bool walks = fn->op == ANF_OP_HyperMap || fn->op == ANF_OP_Map;
    if ((walks && n < 2) || (fn->op == ANF_OP_MultiType && n < 1))
      return anfi_fail(m->cx, anfi_machine_loc(m), ANF_E0202, anfi_op[fn->op].name, n,
                       anfi_op[fn->op].in);
    if (walks && anfi_map_is_leaf(fn->op, m->slot[p + 2]))
      drop_callee(m, p); // of a leaf, f itself is called
    else if (walks) return anfi_map_start(m, p, fn->op);
    else if (fn->op == ANF_OP_Loop) return anfi_loop_start(m, p);
    else if (fn->op == ANF_OP_Recompute && n) drop_callee(m, p);
    else if (fn->op == ANF_OP_Custom && n > 5) drop_rules(m, p);
    else if (fn->op != ANF_OP_MultiType) break;
    else if (!anfi_pick_function(m, p)) return false;
  }
  if (!apply(m, p)) return false;
  anfi_machine_drop_to(m, p);
  return tail ? anfi_machine_leave(m) : deliver(m);
}

/* ---- the whole run ---- */

bool anfi_machine_give_up(machine *m) {
  m->more = true;
  m->cx->frame->status = ANF_LIMIT;
  return false;
}

bool anfi_machine_in_time(machine *m) {
  return !m->end || anfi_os_now_ns() < m->end ||
         anfi_fail(m->cx, anfi_machine_loc(m), ANF_E0422, (unsigned long long)m->opts.max_ms);
}

enum { STEP_WORK = 8 };

static bool refuel(machine *m) {
  if (m->steps >= m->opts.max_steps)
    return anfi_fail(m->cx, anfi_machine_loc(m), ANF_E0415, (unsigned long long)m->opts.max_steps);
  double done = m->opts.max_steps < UINT64_MAX ? (double)m->steps / (double)m->opts.max_steps : 0.0;
  if (!anfi_go_on(m->cx, "running", done)) return false;
  if (!anfi_machine_in_time(m)) return false;
  uint64_t left = m->opts.max_steps - m->steps;
  m->fuel = left < FUEL ? left : FUEL;
  m->steps += m->fuel;
  m->work += STEP_WORK * m->fuel;
  return !m->max_work || m->work <= m->max_work || anfi_machine_give_up(m);
}

static bool run_frames(machine *m) {
  while (m->nframe) {
    frame *f = &m->frame[m->nframe - 1];
    if (m->fuel == 0 && !refuel(m)) return false;
    m->fuel--;
    bool good = f->plan   ? anfi_step_run(m, f)
                : f->loop ? anfi_loop_step(m, f)
                          : anfi_map_step(m, f->map, f->base);
    if (!good) return false;
  }
  return true;
}

static bool check_given(anf_ctx *cx, size_t n, anf_value *const *args) {
  for (size_t i = 0; i < n; i++) {
    if (!args[i]) return anfi_fail(cx, anfi_nowhere(), ANF_E0002, "an argument");
    if (args[i]->cx != cx) return anfi_fail(cx, anfi_nowhere(), ANF_E0421, i + 1);
  }
  return true;
}

/* slot[0] of the machine is the callee. */
static anf_value *finish(machine *m, size_t n, anf_value *const *args) {
  if (!check_given(m->cx, n, args)) return NULL;
  anfi_machine_reserve(m, n);
  for (size_t i = 0; i < n; i++) anfi_machine_push(m, anfi_keep(args[i]));
  if (!anfi_machine_call(m, 0, false) || !run_frames(m)) {
    if (!m->more) note_calls(m);
    return NULL;
  }
  anf_value *v = m->acc;
  m->acc = NULL;
  return v;
}

/* The result of a specialised copy as a value of the program; takes v. */
static anf_value *original_result(anf_ctx *cx, const anfi_prepared *p, anf_value *v) {
  if (!v || !p->g->form) return v;
  anfi_value_guard(v);
  anf_value *r = anfi_formed(cx, p->g->form, &p->origins, v);
  anfi_value_unguard(v);
  anf_value_release(v);
  return r;
}

static anf_value *run_value(anf_ctx *cx, anf_value *f, size_t n, anf_value *const *args,
                            const anf_run_opts *o) {
  anfi_prepared p = {0};
  if (!check_given(cx, 1, &f) || !check_given(cx, n, args)) return NULL;
  anfi_given_values given = {n, args};
  if (f->kind == ANF_VALUE_FN && !anfi_run_prepare_value(f, &given, &p)) return NULL;
  machine *m = new_machine(cx, o);
  anfi_machine_reserve(m, 1);
  anfi_machine_push(m, p.g ? anfi_value_new_fn(cx, p.g, ANF_OP_NONE, NULL, 0, 0) : anfi_keep(f));
  anf_value *v = finish(m, given.n, given.at);
  return p.g ? original_result(cx, &p, v) : v;
}

static bool any_function(size_t n, anf_value *const *args) {
  for (size_t i = 0; i < n; i++)
    if (args[i] && args[i]->kind == ANF_VALUE_FN) return true;
  return false;
}

/* Extras of a run; every member may be empty. */
typedef struct besides {
  anfi_watch watch;
  void *user;
  anfi_work *work; // counted, and no more done than its most; or NULL
} besides;

/* The result of the rest of g; takes v. A function in it would be of a copy, and g is refused as where nothing can run before. */
static anf_value *without_functions(anf_graph *g, size_t n, anf_value *const *args, anf_value *v) {
  anfi_given_values given = {n, args};
  anfi_prepared p;
  if (!v || !anfi_value_type(g->module->cx, v)->functions) return v;
  anf_value_release(v);
  return anfi_run_prepare(g, &given, NULL, &p), NULL;
}

static anf_value *run_graph(anf_graph *g, size_t n, anf_value *const *args, const anf_run_opts *o,
                            besides *b) {
  anf_ctx *cx = g->module->cx;
  if (!anfi_is_built(g->module)) return NULL;
  if (!b->watch && any_function(n, args)) { // which may be a transform
    anf_value *f = anfi_value_new_fn(cx, g, ANF_OP_NONE, NULL, 0, 0);
    anfi_defer(cx, ANFI_ALWAYS, anfi_release, f);
    return run_value(cx, f, n, args, o);
  }
  static const anf_run_opts plain = {.size = sizeof plain};
  anfi_prepared p;
  anfi_given_values given = {n, args};
  const anf_run_opts *head = b->work ? NULL : o ? o : &plain;
  if (!check_given(cx, n, args) || !anfi_run_prepare(g, &given, head, &p)) return NULL;
  machine *m = new_machine(cx, o);
  m->watch = b->watch;
  m->watch_user = b->user;
  m->max_work = b->work ? b->work->most : 0;
  anfi_machine_reserve(m, 1);
  anfi_machine_push(m, anfi_value_new_fn(cx, p.g, ANF_OP_NONE, NULL, 0, 0));
  anf_value *v = finish(m, given.n, given.at);
  if (b->work) *b->work = (anfi_work){b->work->most, m->work - STEP_WORK * m->fuel, m->more};
  if (p.cut) return without_functions(g, n, args, v);
  return p.g != g ? original_result(cx, &p, v) : v;
}

anf_value *anfi_run_watched(anf_graph *g, size_t n, anf_value *const *args, anfi_watch watch,
                            void *user) {
  besides b = {.watch = watch, .user = user};
  return run_graph(g, n, args, NULL, &b);
}

anf_status anf_run(anf_graph *g, size_t n, anf_value *const *args, const anf_run_opts *o,
                   anf_diag *d, anf_value **result) {
  ANFI_NEED(d, g, result);
  if (n) ANFI_NEED(d, args);
  if (!g || !result || (n && !args)) return ANF_INVALID;
  *result = NULL;
  besides b = {0};
  ANFI_ENTRY(g->module->cx, d);
  *result = run_graph(g, n, args, o, &b);
  return anfi_leave(g->module->cx);
}

anf_status anfi_run_small(anf_graph *g, size_t n, anf_value *const *args, const anf_run_opts *o,
                          anfi_work *work, anf_diag *d, anf_value **result) {
  besides b = {.work = work};
  *result = NULL;
  ANFI_ENTRY(g->module->cx, d);
  *result = run_graph(g, n, args, o, &b);
  return anfi_leave(g->module->cx);
}

anf_status anf_run_value(anf_ctx *cx, anf_value *f, size_t n, anf_value *const *args,
                         const anf_run_opts *o, anf_diag *d, anf_value **result) {
  ANFI_NEED(d, cx, f, result);
  if (n) ANFI_NEED(d, args);
  if (!cx || !result || (n && !args)) return ANF_INVALID;
  *result = NULL;
  ANFI_ENTRY(cx, d);
  *result = run_value(cx, f, n, args, o);
  return anfi_leave(cx);
}
