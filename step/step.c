// SPDX-License-Identifier: Apache-2.0
/* Training steps: compiled once, run many times.
 *
 *   run:  load scalars into slots → call the code → store scalars from slots
 *
 * The code reads and writes all tensors where the leaves are. */
#include "step/step.h"
#include "comm/comm.h"

#include "interp/interp.h"
#include "runtime/rt.h"

#include <math.h>
#include <stdlib.h>

/* The least bytes of a tensor that the option `params` shards: a smaller one is not worth a message. */
enum { SHARD_LEAST = 4096 };

/* ---- making ---- */

static void free_prints(anf_step *s) {
  while (s->print) {
    anfi_step_print *next = s->print->next;
    free(s->print);
    s->print = next;
  }
  s->print_end = &s->print;
}

void anf_step_free(anf_step *s) {
  if (!s) return;
  anfi_os_worker_free(s->worker);
  for (int r = 0; r < 3; r++)
    for (size_t i = 0; i < s->nleaf[r]; i++) anfi_step_leaf_free(s, &s->leaf[r][i]);
  free_prints(s);
  anf_stream_free(s->stream);
  anf_exec_free(s->exec);
  anfi_arena_free(&s->arena);
  anfi_object_free(s->cx, s);
}
static void free_step(void *s) { anf_step_free((anf_step *)s); }

static void print(void *user, int64_t site, size_t n, const uint64_t *leaf);

static bool read_split(anf_step *s) {
  const char *text = s->o.split;
  s->o.split = NULL; // the host's
  if (!text) return true;
  if (s->o.shard) return anfi_fail(s->cx, anfi_nowhere(), ANF_E1625);
  return anfi_step_read_split(s->cx, &s->arena, text, &s->split);
}

static anf_step *new_step(anf_graph *g, size_t nstate, const anf_step_opts *o) {
  anf_ctx *cx = g->module->cx;
  if (nstate > g->params.n)
    return (void)anfi_fail(cx, anfi_nowhere(), ANF_E1119, nstate, g->name->s, g->params.n), NULL;
  anf_step *s = (anf_step *)anfi_object(cx, sizeof *s);
  if (!s) anfi_throw_nomem(cx);
  *s = (anf_step){.cx = cx, .g = g, .nstate = nstate, .print_end = NULL};
  s->print_end = &s->print;
  anfi_arena_init(&s->arena, cx);
  anfi_defer(cx, ANFI_ON_FAIL, free_step, s);
  anf_exec_opts how;
  if (!ANFI_OPTS_IN(cx, anf_step_opts, params, o, &s->o) ||
      !ANFI_OPTS_IN(cx, anf_exec_opts, interpret_after, s->o.exec, &how))
    return NULL;
  s->o.exec = NULL; // the host's
  if (!s->o.threads) s->o.threads = 1;
  if (s->o.params && !s->o.shard) s->o.shard = SHARD_LEAST;
  how.parallel |= s->o.threads > 1;
  s->rank = anf_comm_rank(s->o.comm);
  s->ranks = anf_comm_ranks(s->o.comm);
  s->uneven = -1;
  if (!read_split(s)) return NULL;
  s->limits = (anf_run_opts){.size = sizeof s->limits,
                             .max_ms = s->o.max_ms,
                             .max_steps = s->o.max_steps,
                             .max_depth = s->o.max_depth};
  s->o.stops |= s->o.max_ms || s->o.max_steps || s->o.max_depth;
  anf_stream_opts so = {.size = sizeof so, .threads = s->o.threads};
  if (s->o.trace) so.trace = anfi_trace_region, so.user = s->o.trace;
  if (!(s->stream = anf_stream_new(&so))) anfi_throw_nomem(cx);
  anf_stream_set_print(s->stream, print, s);
  anf_stream_set_comm(s->stream, s->o.comm ? s->o.comm : cx->comm);
  if (!(s->exec = anfi_exec_new(g, &how))) return NULL;
  anfi_undefer(cx, s->exec); // it goes with the step
  s->exec->job.trace = s->o.trace;
  s->exec->job.whole = !s->o.stops;
  s->exec->counts = s->o.max_steps || s->o.max_depth;
  return s;
}

/* ---- types ---- */

/* The states' types are the first of the result's; the rest are the outputs. */
const anf_type *anfi_step_outputs(const anf_graph *g, size_t nstate, const anf_type *const *param,
                                  const anf_type *result) {
  anf_ctx *cx = g->module->cx;
  const anf_type *t = result;
  if (!nstate) return t;
  if (t->kind != ANF_TYPE_TUPLE || t->n < nstate) {
    const char *many = nstate == 1 ? "" : "s";
    anfi_fail(cx, anfi_nowhere(), ANF_E1110, nstate, many, many, g->name->s, anfi_type_text(cx, t));
    return NULL;
  }
  for (size_t i = 0; i < nstate; i++) {
    const anf_node *p = g->params.at[i];
    if (t->items[i] == param[i]) continue;
    anfi_fail(cx, anfi_node_loc(p), ANF_E1111, anf_node_name(p), anfi_type_text(cx, param[i]),
              anfi_type_text(cx, t->items[i]));
    return NULL;
  }
  size_t rest = t->n - nstate;
  return rest == 1 ? t->items[nstate] : anfi_type_tuple(cx, rest, t->items + nstate);
}

const anf_type *anfi_step_settled(anf_ctx *cx, const anf_type *t) {
  if (t->kind == ANF_TYPE_TENSOR)
    return anfi_type_with_dtype(cx, t, anfi_dtype_settle((anf_dtype)t->dtype));
  if (t->kind != ANF_TYPE_TUPLE && t->kind != ANF_TYPE_RECORD) return t;
  const anf_type **item = ANFI_NEW_N(anfi_scratch(cx), const anf_type *, t->n + 1);
  for (uint32_t i = 0; i < t->n; i++) item[i] = anfi_step_settled(cx, t->items[i]);
  return t->kind == ANF_TYPE_TUPLE ? anfi_type_tuple(cx, t->n, item)
                                   : anfi_type_record(cx, t->n, t->names, item);
}

/* ---- leaves ---- */

typedef struct making {
  anf_step *s;
  bool *given; // by leaf of a state
  bool spread; // gradients are means already
  bool alike;  // ranks, as heavy as each other
} making;

/* Of the graph as it is lowered. */
static void amend(void *user, anf_graph *g) {
  anf_step *s = ((const making *)user)->s;
  if (s->o.comm) s->exchanges = anfi_step_find_exchanges(s, g);
  if (s->o.nan == ANF_NAN_FIND) anfi_step_guard(g, s->nstate, s->nsharded ? s->ranks : 0);
}

/* Before code is made: which states may be updated where they are? */
static void donate(void *user, anfi_variant *v) {
  making *k = (making *)user;
  size_t n = v->low.first[k->s->nstate];
  k->s->v = v;
  k->given = ANFI_NEW_N(&k->s->arena, bool, n + 1);
  k->s->out = NULL;
  if (anfi_lowered_is_plain(&v->low, v->loc))
    k->s->out = anfi_step_outputs(k->s->g, k->s->nstate, k->s->held, v->low.result_type);
  if (k->s->out) anfi_step_donate(v, n, k->given, k->s->o.stops);
}

static void spread(void *user, anf_graph *g) {
  making *k = (making *)user;
  if (k->spread) k->s->averages = anfi_step_leave_out_means(g, k->s->nstate) && k->alike;
  else k->alike = anfi_step_spread(g, k->s->nstate);
  k->spread = true;
}
static bool check_spread(void *user, anf_graph *g) {
  return anfi_step_check_spread(g, ((const making *)user)->s->nstate);
}

static size_t shard(void *user, anf_graph *g) {
  anf_step *s = ((const making *)user)->s;
  s->nsharded = anfi_step_shard(g, s->nstate, s->ranks, s->o.shard, s->o.params);
  for (size_t i = 0; i < s->nstate; i++) s->held[i] = g->params.at[i]->type;
  return s->nsharded;
}

static size_t split(void *user, anf_graph *g) {
  anf_step *s = ((const making *)user)->s;
  s->axis = ANFI_NEW_N(&s->arena, int32_t, anfi_state_count(s->nstate, s->param) + 1);
  s->nsharded =
      anfi_step_split(g, s->nstate, s->ranks, s->split, anfi_step_state_names(s), s->axis);
  for (size_t i = 0; i < s->nstate; i++) s->held[i] = g->params.at[i]->type;
  return s->nsharded;
}

static void make_leaf(anf_step *s, anfi_step_leaf *l, const anfi_leaf *of) {
  l->type = of->type;
  l->scalar = of->scalar;
  l->bytes = anfi_type_bytes(of->type); // `of->n` counts parts of complex numbers
  l->slot = ANFI_NO_ROOM;
  anfi_step_own(s, l);
}

/* What leaf *at and those after it are of: a type of the host's. Types nest no deeper than inference allows. */
static void note_whole(anf_step *s, const anf_type *t, size_t *at) {
  bool nest = t->kind == ANF_TYPE_TUPLE || t->kind == ANF_TYPE_RECORD;
  for (uint32_t i = 0; nest && i < t->n; i++) note_whole(s, t->items[i], at);
  if (t->kind != ANF_TYPE_TENSOR) return;
  size_t i = (*at)++;
  anfi_step_leaf *l = &s->leaf[ANF_STATE][i];
  l->axis = s->axis ? s->axis[i] : -1;
  if (l->type != t) l->whole = t;
}

static void make_leaves(anf_step *s) {
  const anfi_lowered *low = &s->v->low;
  size_t nstate = low->first[s->nstate];
  s->leaf[ANF_STATE] = ANFI_NEW_N(&s->arena, anfi_step_leaf, nstate + 1);
  s->leaf[ANF_INPUT] = ANFI_NEW_N(&s->arena, anfi_step_leaf, low->param.n - nstate + 1);
  s->leaf[ANF_OUTPUT] = ANFI_NEW_N(&s->arena, anfi_step_leaf, low->result.n - nstate + 1);
  s->nleaf[ANF_STATE] = nstate; // empty ones can be freed
  s->nleaf[ANF_INPUT] = low->param.n - nstate;
  s->nleaf[ANF_OUTPUT] = low->result.n - nstate;
  for (size_t i = 0; i < low->param.n; i++) {
    anfi_step_leaf *l = i < nstate ? &s->leaf[ANF_STATE][i] : &s->leaf[ANF_INPUT][i - nstate];
    make_leaf(s, l, &low->param.at[i]);
  }
  size_t at = 0;
  for (size_t i = 0; i < s->nstate && s->nsharded; i++) note_whole(s, s->param[i], &at);
  for (size_t i = nstate; i < low->result.n; i++)
    make_leaf(s, &s->leaf[ANF_OUTPUT][i - nstate], &low->result.at[i]);
}

static void name_leaves(anf_step *s) {
  const size_t *first = s->v->low.first;
  size_t n = s->g->params.n, nstate = first[s->nstate];
  s->first = ANFI_NEW_N(&s->arena, size_t, n + 1);
  memcpy(s->first, first, (n + 1) * sizeof *first);
  for (size_t i = 0; i < n; i++) {
    anfi_step_leaf *at =
        i < s->nstate ? &s->leaf[ANF_STATE][first[i]] : &s->leaf[ANF_INPUT][first[i] - nstate];
    anfi_step_name(s, s->param[i], anfi_step_param_path(s, i), at);
  }
  anfi_step_name(s, s->out, "", s->leaf[ANF_OUTPUT]);
}

/* Rooms follow the parameters: one for each leaf of the result that is neither returned nor given
 * the place of a parameter. */
static void make_slots(anf_step *s, const bool *given) {
  const anfi_lowered *low = &s->v->low;
  size_t nstate = s->nleaf[ANF_STATE], returned = anfi_returned_leaf(&low->result),
         at = low->param.n;
  s->slot = ANFI_NEW_N(&s->arena, anf_generic, low->param.n + low->result.n + 1);
  for (size_t i = 0; i < low->result.n; i++) {
    anfi_step_leaf *l = i < nstate ? &s->leaf[ANF_STATE][i] : &s->leaf[ANF_OUTPUT][i - nstate];
    if (i == returned) s->returned_leaf = l;
    l->given = i < nstate && given[i];
    if (i == returned || l->given) continue;
    l->slot = (uint32_t)at++;
    if (i < nstate) l->next = anfi_step_memory(s->cx, l->bytes, &l->next_bytes);
  }
  s->returned = at;
}

static void describe_prints(anf_step *s);

static anf_step *make(anf_graph *g, size_t nstate, size_t n, const anf_type *const *types,
                      const anf_step_opts *o) {
  anf_step *s = new_step(g, nstate, o);
  if (!s) return NULL;
  if (n != g->params.n)
    return (void)anfi_fail(s->cx, anfi_nowhere(), ANF_E0510, g->name->s, g->params.n, n), NULL;
  making k = {.s = s};
  anfi_arg *arg = ANFI_NEW_N(anfi_scratch(s->cx), anfi_arg, n + 1);
  s->param = ANFI_NEW_N(&s->arena, const anf_type *, n + 1);
  s->held = ANFI_NEW_N(&s->arena, const anf_type *, n + 1);
  for (size_t i = 0; i < n; i++)
    s->held[i] = s->param[i] = arg[i].type = anfi_step_settled(s->cx, types[i]);
  s->exec->job.nstate = nstate;
  s->exec->job.amend = amend;
  s->exec->job.spread = s->o.comm && !s->split ? spread : NULL;
  s->exec->job.check_spread = check_spread;
  bool cuts = s->o.comm && s->ranks > 1;
  s->exec->job.shard = cuts && s->o.shard ? shard : cuts && s->split ? split : NULL;
  s->exec->job.edit = donate;
  s->exec->job.user = &k;
  s->v = anfi_exec_variant(s->exec, n, arg);
  s->exec->job.amend = NULL;
  s->exec->job.spread = NULL;
  s->exec->job.shard = NULL;
  s->exec->job.edit = NULL;
  if (!s->v || anfi_failed(s->cx)) return NULL;
  make_leaves(s);
  s->sums =
      cuts && (s->split || s->averages) ? ANFI_NEW_N(&s->arena, uint64_t, (size_t)s->ranks) : NULL;
  s->rows = anfi_step_rows(s);
  name_leaves(s);
  make_slots(s, k.given);
  describe_prints(s);
  return s;
}

static bool declared(anf_graph *g, const anf_type **types) {
  for (size_t i = 0; i < g->params.n; i++)
    if (!(types[i] = g->params.at[i]->type))
      return anfi_fail(g->module->cx, anfi_node_loc(g->params.at[i]), ANF_E1120,
                       anf_node_name(g->params.at[i]), g->name->s);
  return true;
}

static bool fit(anf_graph *g, anf_value *const *args, anf_value **v, const anf_type **types) {
  anf_ctx *cx = g->module->cx;
  anfi_fit f = {.cx = cx, .arena = anfi_scratch(cx), .host = true};
  for (size_t i = 0; i < g->params.n; i++) {
    if (!anfi_exec_fit(cx, g, &f, i, args[i], &v[i])) return false;
    anfi_defer(cx, ANFI_ALWAYS, anfi_release, v[i]);
    if (!(types[i] = anf_value_type(cx, v[i]))) anfi_throw_nomem(cx);
  }
  return true;
}

static anf_step *make_for(anf_graph *g, size_t nstate, size_t n, anf_value *const *args,
                          const anf_step_opts *o) {
  anf_ctx *cx = g->module->cx;
  const anf_type **types = ANFI_NEW_N(anfi_scratch(cx), const anf_type *, g->params.n + 1);
  anf_value **v = ANFI_NEW_N(anfi_scratch(cx), anf_value *, g->params.n + 1);
  if (!args) return declared(g, types) ? make(g, nstate, g->params.n, types, o) : NULL;
  if (n != g->params.n)
    return (void)anfi_fail(cx, anfi_nowhere(), ANF_E0510, g->name->s, g->params.n, n), NULL;
  if (!fit(g, args, v, types)) return NULL;
  anf_step *s = make(g, nstate, n, types, o);
  for (size_t i = 0; s && i < n; i++) anfi_step_fill(s, i, v[i]);
  return s;
}

anf_status anf_step_new(anf_graph *g, size_t nstate, size_t n, anf_value *const *args,
                        const anf_step_opts *o, anf_diag *d, anf_step **out) {
  ANFI_NEED(d, g, out);
  *out = NULL;
  if (!g) return ANF_INVALID;
  ANFI_ENTRY(g->module->cx, d);
  *out = make_for(g, nstate, n, args, o);
  anf_status st = anfi_leave(g->module->cx);
  if (st != ANF_OK) *out = NULL;
  return st;
}

anf_status anf_step_new_typed(anf_graph *g, size_t nstate, size_t n, const anf_type *const *types,
                              const anf_step_opts *o, anf_diag *d, anf_step **out) {
  ANFI_NEED(d, g, out);
  *out = NULL;
  if (n) ANFI_NEED(d, types);
  for (size_t i = 0; i < n; i++) ANFI_NEED(d, types[i]);
  ANFI_ENTRY(g->module->cx, d);
  *out = make(g, nstate, n, types, o);
  anf_status st = anfi_leave(g->module->cx);
  if (st != ANF_OK) *out = NULL;
  return st;
}

/* ---- what is printed during a run is kept until its end ---- */

/* How many bytes of memory each leaf of what a site prints has; 0: it is a number. */
static void describe_prints(anf_step *s) {
  const anfi_lowered *low = &s->v->low;
  s->printed = ANFI_NEW_N(&s->arena, size_t *, low->sites.n + 1);
  for (size_t i = 0; i < low->sites.n; i++) {
    const anfi_site_info *at = &low->sites.at[i];
    anfi_leaves l = {0};
    for (size_t k = 0; at->kind == ANFI_SITE_PRINT && k < at->n; k++)
      if (!at->value[k] && !anfi_leaves_of(s->cx, anfi_scratch(s->cx), at->type[k], at->loc, &l))
        return;
    s->printed[i] = ANFI_NEW_N(&s->arena, size_t, l.n + 1);
    for (size_t k = 0; k < l.n; k++)
      if (!l.at[k].scalar) s->printed[i][k] = anfi_type_bytes(l.at[k].type);
  }
}

static void print(void *user, int64_t site, size_t n, const uint64_t *leaf) {
  anf_step *s = (anf_step *)user;
  if (!s->o.print || !s->printed) return;
  size_t bytes = 0;
  for (size_t i = 0; i < n; i++) bytes += s->printed[site][i];
  anfi_step_print *p = (anfi_step_print *)malloc(sizeof *p + n * sizeof *leaf + bytes);
  if (!p) {
    s->print_lost = true;
    return;
  }
  *p = (anfi_step_print){.site = site, .n = n};
  char *at = (char *)&p->leaf[n];
  for (size_t i = 0; i < n; at += s->printed[site][i++]) {
    bool tensor = s->printed[site][i] != 0;
    p->leaf[i] = tensor ? (uint64_t)(uintptr_t)at : leaf[i];
    if (tensor) memcpy(at, (const void *)(uintptr_t)leaf[i], s->printed[site][i]);
  }
  *s->print_end = p;
  s->print_end = &p->next;
}

static void tell_prints(anf_step *s) {
  anf_text *text = ANFI_NEW(anfi_scratch(s->cx), anf_text);
  if (!s->print) return;
  text->cx = s->cx;
  anfi_defer(s->cx, ANFI_ALWAYS, anfi_free_text, text);
  for (const anfi_step_print *p = s->print; p; p = p->next) {
    text->len = 0;
    anfi_variant_put_printed(s->cx, s->v, p->site, p->leaf, text);
    s->o.print(s->o.user, text->text, text->len);
  }
  free_prints(s);
  if (s->print_lost) anfi_throw_nomem(s->cx);
}

/* ---- running ---- */

static void load(const anf_step *s, anf_role r) {
  for (size_t i = 0; i < s->nleaf[r]; i++) {
    const anfi_step_leaf *l = &s->leaf[r][i];
    anf_generic *slot = &s->slot[r == ANF_STATE ? i : s->nleaf[ANF_STATE] + i];
    anfi_step_gather(l);
    if (l->scalar) memcpy(slot, l->at, l->bytes);
    else slot->ptr = l->at;
  }
}

/* Rooms of states that are not updated in place are the step's; of numbers, where they are seen. */
static void give_room(const anf_step *s, anf_role r) {
  for (size_t i = 0; i < s->nleaf[r]; i++) {
    const anfi_step_leaf *l = &s->leaf[r][i];
    if (l->slot != ANFI_NO_ROOM) s->slot[l->slot].ptr = l->next ? l->next : l->at;
  }
}

static void store(const anf_step *s) {
  for (size_t i = 0; i < s->nleaf[ANF_STATE]; i++) {
    const anfi_step_leaf *l = &s->leaf[ANF_STATE][i];
    if (l->next) memcpy(l->at, l->next, l->bytes);
    if (l == s->returned_leaf) memcpy(l->at, &s->slot[s->returned], l->bytes);
    anfi_step_scatter(l);
  }
  for (size_t i = 0; i < s->nleaf[ANF_OUTPUT]; i++) {
    const anfi_step_leaf *l = &s->leaf[ANF_OUTPUT][i];
    if (l == s->returned_leaf) memcpy(l->at, &s->slot[s->returned], l->bytes);
    anfi_step_scatter(l);
  }
}

static void stop_stream(void *s) { anf_stream_cancel((anf_stream *)s); }

/* The code polls: requests reach the stream from here on, as of anf_exec_run. */
static anf_status call_stoppable(anf_step *s) {
  anfi_rt_timer timer;
  anfi_rt_arm(s->stream, s->limits.max_steps, s->limits.max_depth, 0);
  if (s->limits.max_ms && !anfi_rt_timer_start(&timer, s->stream, s->limits.max_ms)) {
    anfi_rt_disarm(s->stream);
    return ANF_NOMEM;
  }
  const anfi_running r = {stop_stream, s->stream}, *outer = anfi_run_begin(s->cx, &r);
  atomic_store(&s->running, true);
  if (atomic_load(&s->cancel)) anf_stream_cancel(s->stream);
  anf_status st = anf_jit_call_generic(s->v->function, s->stream, s->slot);
  atomic_store(&s->running, false);
  anfi_run_end(s->cx, outer);
  if (s->limits.max_ms) anfi_rt_timer_end(&timer);
  anfi_rt_disarm(s->stream);
  if (st == ANF_CANCELLED) s->cancelled = atomic_exchange(&s->cancel, false);
  return st;
}

/* A trace has the exchanges of the step's runs beside its operations. */
static anf_status call(anf_step *s) {
  anf_comm *c = s->o.trace ? anf_stream_comm(s->stream) : NULL;
  anf_status st = ANF_INVALID;
  anfi_comm_set_watch(c, (anfi_comm_watch){anfi_trace_exchange, s->o.trace});
  s->uneven = s->sums ? anfi_step_uneven(s) : -1;
  if (s->uneven < 0)
    st = s->o.stops ? call_stoppable(s) : anf_jit_call_generic(s->v->function, s->stream, s->slot);
  anfi_comm_set_watch(c, (anfi_comm_watch){NULL, NULL});
  return st;
}

/* A rank may have updated its part of the state when another is lost. */
static void note_torn(anf_step *s) {
  anf_comm_error e;
  if (!s->nsharded) return;
  anf_comm_failure(s->o.comm, &e);
  s->torn = e.why != ANF_COMM_FINE;
}

/* What a run does, on any thread. */
static void go(void *step) {
  anf_step *s = (anf_step *)step;
  uint64_t start = s->o.progress ? anfi_os_now_ns() : 0; // a clock takes longer than small steps
  s->cancelled =
      atomic_load_explicit(&s->cancel, memory_order_relaxed) && atomic_exchange(&s->cancel, false);
  if (s->cancelled) return;
  load(s, ANF_STATE);
  load(s, ANF_INPUT);
  give_room(s, ANF_STATE);
  give_room(s, ANF_OUTPUT);
  s->status = call(s);
  if (s->status != ANF_OK) {
    note_torn(s);
    return;
  }
  store(s);
  s->count++;
  if (s->o.progress) s->ms = (double)(anfi_os_now_ns() - start) / 1e6;
}

static bool cancelled(const anf_step *s) { return anfi_fail(s->cx, anfi_nowhere(), ANF_E1116); }

/* After a run, on the host's thread. */
static void finish(anf_step *s) {
  if (s->cancelled) {
    cancelled(s);
    return;
  }
  tell_prints(s);
  if (s->uneven >= 0) {
    anfi_fail(s->cx, anfi_nowhere(), ANF_E1623, s->split ? "inputs" : "rows", (int)s->uneven);
    return;
  }
  if (s->status != ANF_OK) {
    if (!anfi_step_explain(s)) anfi_variant_failed(s->cx, s->v, &s->limits, s->stream, s->status);
    return;
  }
  if (s->o.nan == ANF_NAN_STOP && !anfi_step_check(s)) return;
  if (s->o.progress && !s->o.progress(s->o.user, s, s->count, s->ms)) cancelled(s);
}

bool anfi_step_idle(const anf_step *s) {
  return !s->submitted ||
         anfi_fail(s->cx, anfi_nowhere(), ANF_E1115, "a run is under way: wait for it first");
}

static void run(anf_step *s) {
  if (!anfi_step_idle(s) || !anfi_step_apart(s) || !anfi_step_together(s)) return;
  go(s);
  finish(s);
}

/* Nothing to say and nothing to watch: no frame is needed. */
static bool is_plain(const anf_step *s) {
  return !s->submitted && s->apart && !s->nsharded && s->o.nan != ANF_NAN_STOP && !s->o.progress;
}

static anf_status in_frame(anf_step *s, anf_diag *d, void (*f)(anf_step *)) {
  ANFI_ENTRY(s->cx, d);
  f(s);
  return anfi_leave(s->cx);
}

anf_status anf_step_run(anf_step *s, anf_diag *d) {
  ANFI_NEED(d, s);
  if (!is_plain(s)) return in_frame(s, d, run);
  go(s);
  bool good = !s->cancelled && s->status == ANF_OK && !s->print;
  return good ? ANF_OK : in_frame(s, d, finish);
}

static void submit(anf_step *s) {
  if (!anfi_step_idle(s) || !anfi_step_apart(s) || !anfi_step_together(s)) return;
  if (!s->worker) s->worker = anfi_os_worker_new(s->cx);
  s->submitted = true;
  anfi_os_worker_start(s->worker, go, s);
}

anf_status anf_step_submit(anf_step *s, anf_diag *d) {
  ANFI_NEED(d, s);
  return in_frame(s, d, submit);
}

static void wait(anf_step *s) {
  if (!s->submitted) {
    anfi_fail(s->cx, anfi_nowhere(), ANF_E1115, "no run was submitted");
    return;
  }
  s->submitted = false;
  if (anfi_os_worker_wait(s->worker)) finish(s);
  else
    anfi_fail(s->cx, anfi_nowhere(), ANF_E1115,
              "the process that submitted the run forked, and has its thread");
}

anf_status anf_step_wait(anf_step *s, anf_diag *d) {
  ANFI_NEED(d, s);
  return in_frame(s, d, wait);
}

bool anf_step_busy(const anf_step *s) {
  if (!s) return false;
  return s->submitted && anfi_os_worker_busy(s->worker);
}
void anf_step_cancel(anf_step *s) {
  if (!s) return;
  atomic_store(&s->cancel, true);
  if (atomic_load(&s->running)) anf_stream_cancel(s->stream);
}
uint64_t anf_step_count(const anf_step *s) { return s ? s->count : 0; }
double anf_step_compile_ms(const anf_step *s) { return s ? s->exec->compile_ms : 0; }
