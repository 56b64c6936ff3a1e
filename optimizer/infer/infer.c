// SPDX-License-Identifier: Apache-2.0
/* The worklist of inference: abstract interpretation with one abstract graph per signature, as in Myia.
 *   f(x) = x == 0 ? 1.0 : f(x - 1) * 2.0     called with i64:  f: BOTTOM, then f64, then stable
 * A specialisation is evaluated node by node in the order of its graph. A call requests the callee's
 * specialisation and waits for its result; a result that rises wakes the callers that wait, which go on from the call.
 * BOTTOM, the result of a recursion that has not returned yet, is the identity of join, so the base case
 * gives the type. Abstract values have finite height because calls inside a recursion are widened. */
#include "optimizer/infer/rules.h"

enum { MAX_LOOSE = 32, MAX_EXACT = 1024, MANY_SPECS = 8 };

static anfi_loc loc_of(const anf_node *n) { return n ? anfi_node_loc(n) : anfi_nowhere(); }

const char *anfi_show_abs(anfi_inference *q, const anfi_abs *a) {
  anf_text *o = anfi_text_begin(q->cx);
  anfi_put_abs(o, q->cx, a);
  char *s = anfi_strndup(q->arena, o->text, o->len);
  anfi_text_done(o);
  return s;
}

enum { MAX_SHOWN = 10 };

static bool shown_before(const anfi_spec *s, size_t n, const anfi_spec *const *shown) {
  for (size_t i = 0; i < n; i++)
    if (shown[i]->graph == s->graph) return true;
  return false;
}

/* "while specialising loss(f32[784, 10]) called at net.anf:20:7", innermost first; a recursion once. Nodes of models have
 * names in place of lines. */
void anfi_infer_trace(anfi_inference *q) {
  const anfi_spec *shown[MAX_SHOWN];
  size_t n = 0;
  if (!anfi_failed(q->cx)) return;
  for (const anfi_spec *s = q->now; s && n < MAX_SHOWN; s = s->caller) {
    if (shown_before(s, n, shown)) continue;
    shown[n++] = s;
    anf_text *o = anfi_text_begin(q->cx);
    for (size_t i = 0; i < s->graph->params.n; i++) {
      if (i) anfi_puts(o, ", ");
      anfi_put_abs(o, q->cx, s->arg[i]);
    }
    const char *node = s->call && !loc_of(s->call).line ? anf_node_scope(s->call) : "";
    anfi_note(q->cx, loc_of(s->call), "while specialising %s(%s)%s%s%s", s->graph->name->s,
              o->text ? o->text : "", s->call ? ", called here" : "", *node ? ", in the node " : "",
              node);
    anfi_text_done(o);
  }
}

/* ---- specs ---- */

static uint64_t key_of(const anf_graph *g, const anfi_abs *const *args) {
  uint64_t h = g->id;
  for (size_t i = 0; i < g->params.n; i++) h = anfi_hash_mix(h, args[i]->id);
  return h;
}

static bool same_args(const anfi_spec *s, const anfi_abs *const *args) {
  return !s->graph->params.n || memcmp(s->arg, args, s->graph->params.n * sizeof *args) == 0;
}

static bool in_recursion(const anfi_inference *q, const anfi_spec *s, const anf_graph *g) {
  const anfi_graph_info *gi = &q->an->graphs[g->id];
  return s && gi->recursive && gi->scc == q->an->graphs[s->graph->id].scc;
}

static anfi_spec *new_spec(anfi_inference *q, anf_graph *g, const anfi_abs *const *args,
                           anf_node *at) {
  anfi_spec *s = ANFI_NEW(q->arena, anfi_spec);
  s->graph = g;
  s->root = in_recursion(q, q->now, g) ? q->now->root : s;
  s->id = (uint32_t)q->specs.n;
  s->arg = ANFI_NEW_N(q->arena, const anfi_abs *, g->params.n);
  if (g->params.n) memcpy(s->arg, args, g->params.n * sizeof *args);
  s->node = ANFI_NEW_N(q->arena, const anfi_abs *, q->an->graphs[g->id].order.n);
  s->result = q->abs.bottom;
  s->caller = q->now;
  s->call = at;
  s->next_same = q->of_graph[g->id];
  q->of_graph[g->id] = s;
  q->nspec_of[g->id]++;
  anfi_push(q->arena, &q->specs, s);
  anfi_enqueue_spec(q, s);
  return s;
}

/* The slot of these arguments: their spec, or 0. */
static uint64_t *slot_of(anfi_inference *q, const anf_graph *g, const anfi_abs *const *args) {
  for (uint64_t key = key_of(g, args);; key++) { // keys that collide take the next number
    uint64_t *slot = anfi_map_at(&q->by_key, key);
    const anfi_spec *s = (anfi_spec *)(uintptr_t)*slot;
    if (!s || (s->graph == g && same_args(s, args))) return slot;
  }
}

static anfi_spec *spec_of(anfi_inference *q, anf_graph *g, const anfi_abs *const *args,
                          anf_node *at) {
  uint64_t *slot = slot_of(q, g, args);
  if (*slot) return (anfi_spec *)(uintptr_t)*slot;
  anfi_spec *s = new_spec(q, g, args, at);
  *slot = anfi_key(s);
  return s;
}

/* How many signatures of g may differ in constants. Those of a recursion do where its rounds are exact, and its rounds call
 * others with the constants of each; after these, calls share signatures. */
static uint32_t exact_specs(const anfi_inference *q, const anfi_spec *s, const anf_graph *g) {
  bool loose = in_recursion(q, s, g) && !q->asked.node && !q->wished;
  return loose ? MAX_LOOSE : MAX_EXACT;
}

static uint32_t most_specs(const anfi_inference *q, const anfi_spec *s, const anf_graph *g) {
  return exact_specs(q, s, g) + MAX_LOOSE;
}

/* Users wait again when they are evaluated again. */
static void wake(anfi_inference *q, anfi_spec *s) {
  anfi_site *w = s->waiting;
  for (s->waiting = NULL; w; w = w->next) {
    if (w->at < w->user->from) w->user->from = w->at;
    anfi_enqueue_spec(q, w->user);
  }
}

/* The spec being evaluated waits for the result of s, at its node `at`. */
static void wait_for(anfi_inference *q, anfi_spec *s) {
  anfi_spec *user = q->now;
  if (q->an->graphs[s->graph->id].scc < q->an->graphs[user->graph->id].scc)
    q->unknown |= !s->evaluated;
  if (s->waiting && s->waiting->user == user && s->waiting->at <= q->at) return;
  anfi_site *w = ANFI_NEW(q->arena, anfi_site);
  *w = (anfi_site){s->waiting, user, q->at};
  s->waiting = w;
}

/* The least argument above both that g may have in place of them, or NULL. */
static const anfi_abs *join_argument(anfi_inference *q, const anf_graph *g, size_t i,
                                     const anfi_abs *a, const anfi_abs *b, bool dims) {
  if (q->exact[g->params.at[i]->id]) return a == b ? a : NULL;
  return anfi_abs_join(&q->abs, a, b, dims);
}

/* Are there so many specs of g in the recursion that was entered through `root` that dims widen? A loop that is entered with
 * arrays of two sizes is two recursions, each of which keeps its size. */
static bool widens_dims(const anfi_inference *q, const anf_graph *g, const anfi_spec *root) {
  uint32_t n = 0;
  for (const anfi_spec *s = q->of_graph[g->id]; s && n < MANY_SPECS; s = s->next_same)
    n += s->root == root;
  return n == MANY_SPECS && !q->exact_graph[g->id];
}

/* Are the members of all flow sets in the arguments the same, whatever they bind? */
static bool same_functions(size_t n, const anfi_abs *const *a, const anfi_abs *const *b) {
  for (size_t i = 0; i < n; i++)
    if (!anfi_abs_same_functions(a[i], b[i])) return false;
  return true;
}

/* A call inside a recursion meets a spec of the same graph that differs in constants, weak types or
 * flow sets: one wider spec takes its place. Many specs: dims widen as well.
 *   def solve(f, x) { for i in 0..9 { x = x - grad(f)(x) }; x }
 *   solve(fn (y) { solve(fn (z) { .. }, y) }, x)
 * The two loops are entered with different functions. They stay two, or grad(f) would depend on itself. Emission finds what
 * inference has evaluated: specs that came later would make another one wider here. */
static anfi_spec *widen(anfi_inference *q, anf_graph *g, const anfi_abs **args, anf_node *at) {
  const anfi_abs **joined = ANFI_NEW_N(q->arena, const anfi_abs *, g->params.n);
  const anfi_spec *root = in_recursion(q, q->now, g) ? q->now->root : NULL;
  bool many = q->nspec_of[g->id] > exact_specs(q, q->now, g);
  bool dims = (many && !q->exact_graph[g->id]) || widens_dims(q, g, root);
  for (anfi_spec *s = q->of_graph[g->id]; s; s = s->next_same) {
    if (s->forward) continue;
    bool fits = many || s->root == root || same_functions(g->params.n, s->arg, args);
    for (size_t i = 0; fits && i < g->params.n; i++) {
      joined[i] = join_argument(q, g, i, s->arg[i], args[i], dims);
      fits = joined[i] != NULL;
    }
    if (!fits) continue;
    if (same_args(s, joined)) return s;
    if (q->emitting) continue; // one that is wide enough has been evaluated
    anfi_spec *wide = anfi_spec_final(spec_of(q, g, joined, at));
    if (wide != s) {
      s->forward = wide;
      wake(q, s);
    }
    return wide;
  }
  return NULL;
}

/* ---- arguments ---- */

void anfi_infer_definition(anfi_inference *q, const anf_graph *g) {
  const anfi_debug *d = &q->m->debugs.at[g->debug];
  if (!g->debug || !d->file) return;
  anfi_note(q->cx, (anfi_loc){d->file->s, d->line, d->col}, "'%s' is defined here", g->name->s);
}

static bool arity_error(anfi_inference *q, const anf_graph *g, size_t n, const anf_node *at) {
  anfi_fail(q->cx, loc_of(at), ANF_E0510, g->name->s, g->params.n, n);
  anfi_infer_definition(q, g);
  anfi_infer_trace(q);
  return false;
}

static void fail_range(anfi_inference *q, anfi_loc loc, const anfi_fitting *f) {
  anfi_fail(q->cx, loc, ANF_E0561, anf_dtype_name((anf_dtype)f->outside->dtype));
}

static bool fit_declared(anfi_inference *q, anf_graph *g, const anfi_abs **args, anf_node *at) {
  anfi_fitting f = {.q = q};
  for (size_t i = 0; i < g->params.n; i++) {
    const anf_node *p = g->params.at[i];
    const anfi_abs *fits = p->type ? anfi_abs_declared(&f, args[i], p->type) : args[i];
    if (!fits) {
      if (f.outside) fail_range(q, loc_of(at), &f);
      else
        anfi_fail(q->cx, loc_of(at), ANF_E0511, i + 1, g->name->s, anfi_type_text(q->cx, p->type),
                  anfi_show_abs(q, args[i]));
      anfi_note(q->cx, anfi_node_loc(p), "the parameter is declared here");
      anfi_infer_trace(q);
      return false;
    }
    args[i] = q->need[p->id] ? fits : anfi_abs_broaden(&q->abs, fits);
  }
  if (f.open && q->emitting)
    return anfi_fail(q->cx, loc_of(at), ANF_E0563, g->name->s, "its parameters");
  return true;
}

static anfi_spec *too_many(anfi_inference *q, const anf_graph *g, const anf_node *at) {
  const anfi_demanded *d = &q->asked;
  if (q->wished && !q->wishless) return (void)(q->wishless = q->forget = q->again = true), NULL;
  if (anfi_demand_conditions(q)) return NULL;
  if (q->exact_graph[g->id] && !d->attr && d->closure) return anfi_endless_closures(q, *d), NULL;
  if (q->exact_graph[g->id] && !d->attr) {
    anfi_fail(q->cx, loc_of(d->node), ANF_E0724, g->name->s);
    return anfi_infer_trace(q), NULL;
  }
  if (d->attr) // there would be one for each round
    anfi_fail(q->cx, loc_of(d->node), ANF_E0520, d->attr, d->op);
  else anfi_fail(q->cx, loc_of(at), ANF_E0512, g->name->s, (unsigned)most_specs(q, q->now, g));
  anfi_infer_trace(q);
  return NULL;
}

anfi_spec *anfi_infer_callee(anfi_inference *q, anfi_spec *s, const anfi_abs *code, size_t n,
                             const anfi_abs *const *args, anf_node *at) {
  anf_graph *g = code->graph;
  if (!g) return NULL;
  if (g->params.n != code->n + n) return (void)arity_error(q, g, code->n + n, at), NULL;
  const anfi_abs **all = ANFI_NEW_N(q->arena, const anfi_abs *, g->params.n);
  for (uint32_t i = 0; i < code->n; i++) {
    all[i] = anfi_abs_open(&q->abs, code->item[i]);
    if (s) s->opens |= all[i] != code->item[i];
  }
  for (size_t i = 0; i < n; i++) all[code->n + i] = args[i];
  for (size_t i = 0; i < g->params.n; i++)
    if (all[i]->height > 500)
      return (void)anfi_fail(q->cx, loc_of(at), ANF_E0513, g->name->s), NULL;
  if (!fit_declared(q, g, all, at)) return NULL;
  bool many = q->nspec_of[g->id] > exact_specs(q, s, g);
  q->crowded |= many;
  anfi_spec *callee = q->emitting ? (anfi_spec *)(uintptr_t)*slot_of(q, g, all) : NULL;
  if (!callee && (many || in_recursion(q, s, g))) callee = widen(q, g, all, at);
  if (!callee && q->nspec_of[g->id] >= most_specs(q, s, g)) return too_many(q, g, at);
  return anfi_spec_final(callee ? callee : spec_of(q, g, all, at));
}

const anfi_abs *anfi_infer_call(anfi_inference *q, const anfi_abs *f, size_t n,
                                const anfi_abs *const *args, anf_node *at) {
  if (f->kind == ANFI_ABS_BOTTOM) return f;
  for (size_t i = 0; i < n; i++)
    if (args[i]->kind == ANFI_ABS_BOTTOM) return args[i];
  if (f->kind != ANFI_ABS_FN) {
    anfi_fail(q->cx, loc_of(at), ANF_E0514, anfi_show_abs(q, f));
    return anfi_infer_trace(q), NULL;
  }
  const anfi_abs *result = q->abs.bottom;
  for (uint32_t i = 0; i < f->n; i++) {
    const anfi_abs *r = anfi_infer_code(q, f->item[i], n, args, at);
    const anfi_abs *both = r ? anfi_abs_join_branches(&q->abs, result, r) : NULL;
    if (r && !both && anfi_demand_by_round(q, at, result, r)) return NULL;
    if (r && !both) {
      anfi_fail(q->cx, loc_of(at), ANF_E0515, anfi_show_abs(q, result), anfi_show_abs(q, r));
      anfi_hint_type(q->cx, result, r);
      anfi_infer_trace(q);
    }
    if (!both) return NULL;
    result = both;
  }
  return result;
}

const anfi_abs *anfi_infer_code(anfi_inference *q, const anfi_abs *code, size_t n,
                                const anfi_abs *const *args, anf_node *at) {
  if (code->graph) {
    anfi_spec *s = anfi_infer_callee(q, q->now, code, n, args, at);
    if (!s) return NULL;
    wait_for(q, s);
    return s->result;
  }
  if (anfi_is_transformed(q->cx, code)) return anfi_infer_transformed(q, code, n, args, at);
  if (!anfi_op_check_applied(q->cx, (anfi_opcode)code->op, code->attrs, code->n + n, loc_of(at)))
    return anfi_infer_trace(q), NULL;
  const anfi_abs **all = ANFI_NEW_N(q->arena, const anfi_abs *, code->n + n);
  for (uint32_t i = 0; i < code->n; i++) all[i] = code->item[i];
  for (size_t i = 0; i < n; i++) all[code->n + i] = args[i];
  return anfi_infer_apply(q, (anfi_opcode)code->op, code->attrs, code->n + n, all, at);
}

/* ---- evaluating a spec ---- */

const anfi_abs *anfi_spec_abs(anfi_inference *q, const anfi_spec *s, const anf_node *n) {
  if (n->kind == ANFI_VALUE) return anfi_abs_const(&q->abs, n->u.value);
  if (n->kind == ANFI_PARAM) return s->arg[n->u.index];
  return s->node[q->local[n->id]];
}

const anfi_abs *anfi_infer_node(anfi_inference *q, const anfi_spec *s, anf_node *n) {
  const anfi_abs *few[8], **in = n->nin <= 8 ? few : ANFI_NEW_N(q->arena, const anfi_abs *, n->nin);
  for (uint32_t i = 0; i < n->nin; i++) in[i] = anfi_spec_abs(q, s, n->in[i].def);
  if (n->kind == ANFI_CALL) return anfi_infer_call(q, in[0], n->nin - 1u, in + 1, n);
  return anfi_infer_apply(q, (anfi_opcode)n->op, n->u.attrs, n->nin, in, n);
}

/* The result with its declared type: dims that parameters name hold for it. NULL if it does not fit. */
static const anfi_abs *declared_result(anfi_fitting *f, const anfi_spec *s, const anfi_abs *r) {
  for (size_t i = 0; i < s->graph->params.n; i++) {
    const anf_type *t = s->graph->params.at[i]->type;
    if (t) anfi_abs_declared(f, s->arg[i], t);
  }
  return anfi_abs_declared(f, r, s->graph->result_type);
}

/* Location of the result's node; if that is a constant or another graph's node, of the function. */
static anfi_loc result_loc(const anfi_inference *q, const anf_graph *g) {
  const anf_node *r = g->result;
  if (anfi_is_cnode(r) && r->graph == g) return loc_of(r);
  const anfi_debug *d = &q->m->debugs.at[g->debug];
  return d->file ? (anfi_loc){d->file->s, d->line, d->col} : anfi_nowhere();
}

const anfi_abs *anfi_fit_result(anfi_inference *q, const anfi_spec *s, const anfi_abs *r) {
  const anf_type *type = s->graph->result_type;
  anfi_fitting f = {.q = q};
  const anfi_abs *fits = type ? declared_result(&f, s, r) : r;
  if (!fits) {
    anfi_loc loc = result_loc(q, s->graph);
    if (f.outside) fail_range(q, loc, &f);
    else
      anfi_fail(q->cx, loc, ANF_E0516, s->graph->name->s, anfi_type_text(q->cx, type),
                anfi_show_abs(q, r));
    anfi_infer_trace(q);
  } else if (f.open && q->emitting) {
    anfi_fail(q->cx, result_loc(q, s->graph), ANF_E0563, s->graph->name->s,
              anfi_type_text(q->cx, type));
    fits = NULL;
  }
  return fits;
}

static bool set_result(anfi_inference *q, anfi_spec *s, const anfi_abs *r) {
  const anfi_abs *fits = anfi_fit_result(q, s, r);
  if (!fits) return false;
  r = q->need[s->graph->result->id] ? fits : anfi_abs_broaden(&q->abs, fits);
  const anfi_abs *up = anfi_abs_join(&q->abs, s->result, r, true);
  if (!up && anfi_demand_by_round(q, s->graph->result, s->result, r)) return false;
  if (!up) {
    anfi_fail(q->cx, loc_of(s->graph->result), ANF_E0515, anfi_show_abs(q, s->result),
              anfi_show_abs(q, r));
    return false;
  }
  if (up == s->result) return true;
  s->result = up;
  wake(q, s);
  return true;
}

/* t = (t, t) doubles the parts of a value; compiled code has a place for each. */
static bool few_parts(anfi_inference *q, const anfi_abs *a, const anf_node *at) {
  enum { MAX_PARTS = 1 << 18 };
  if (a->size <= MAX_PARTS) return true;
  anfi_fail(q->cx, loc_of(at), ANF_E0566, (unsigned)MAX_PARTS);
  return anfi_infer_trace(q), false;
}

/* y = f(x); z = g(y); ..: nothing is known after the first call of a function that has not been evaluated. Its caller
 * pauses there, once, and goes on after the callee's component, so a graph of n calls is walked once, not n times. */
static bool pauses(anfi_inference *q, anfi_spec *s, size_t i) {
  if (!q->unknown || s->paused == i + 1) return false;
  s->paused = (uint32_t)i + 1;
  if (i < s->from) s->from = (uint32_t)i;
  anfi_resume_spec(q, s);
  return true;
}

/* From the first node on that may have changed. */
static bool eval_spec(anfi_inference *q, anfi_spec *s) {
  const anfi_graph_info *gi = &q->an->graphs[s->graph->id];
  size_t from = s->from, nspec = q->specs.n;
  q->now = s;
  q->evals++;
  s->evaluated = true;
  s->from = (uint32_t)gi->order.n;
  for (size_t i = from; i < gi->order.n; i++) {
    q->at = (uint32_t)i;
    q->unknown = false;
    const anfi_abs *a = anfi_infer_node(q, s, gi->order.at[i]);
    if (!a || !few_parts(q, a, gi->order.at[i])) return anfi_stop_before(q, s, (uint32_t)i), false;
    if (pauses(q, s, i)) return true;
    s->node[i] = a;
  }
  s->paused = 0;
  s->whole = from ? 0 : (uint32_t)nspec;
  return set_result(q, s, anfi_spec_abs(q, s, s->graph->result));
}

anfi_inference *anfi_infer_new(anf_module *m) {
  anfi_arena *a = anfi_scratch(m->cx);
  anfi_inference *q = ANFI_NEW(a, anfi_inference);
  q->cx = m->cx;
  q->m = m;
  q->arena = a;
  q->an = anfi_analyse(m);
  anfi_abs_init(&q->abs, a);
  anfi_map_init(&q->by_key, a);
  q->abs.nboxed = m->nodes.n;
  q->abs.boxed = ANFI_NEW_N(a, const anfi_abs *, m->nodes.n);
  q->local = ANFI_NEW_N(a, uint32_t, m->nodes.n);
  q->need = ANFI_NEW_N(a, uint8_t, m->nodes.n);
  q->exact = ANFI_NEW_N(a, uint8_t, m->nodes.n);
  q->exact_graph = ANFI_NEW_N(a, uint8_t, m->graphs.n);
  q->of_graph = ANFI_NEW_N(a, anfi_spec *, m->graphs.n);
  q->nspec_of = ANFI_NEW_N(a, uint32_t, m->graphs.n);
  for (size_t i = 0; i < m->graphs.n; i++)
    for (size_t k = 0; k < q->an->graphs[i].order.n; k++)
      q->local[q->an->graphs[i].order.at[k]->id] = (uint32_t)k;
  anfi_find_needs(q);
  return q;
}

anfi_spec *anfi_infer_entry(anfi_inference *q, anf_graph *g, size_t n,
                            const anf_type *const *types) {
  if (n != g->params.n) return (void)arity_error(q, g, n, NULL), NULL;
  const anfi_abs **args = ANFI_NEW_N(q->arena, const anfi_abs *, n);
  for (size_t i = 0; i < n; i++) {
    args[i] = anfi_abs_of_type(&q->abs, types[i]);
    if (!args[i])
      return (void)anfi_fail(q->cx, anfi_node_loc(g->params.at[i]), ANF_E0517, g->name->s, i + 1),
             NULL;
  }
  if (!fit_declared(q, g, args, NULL)) return NULL;
  anfi_spec *s = spec_of(q, g, args, NULL);
  s->entry = true;
  return s;
}

/* The recursion whose result nothing gives. */
static bool check_grounded(anfi_inference *q) {
  for (size_t i = 0; i < q->specs.n; i++) {
    const anfi_spec *s = q->specs.at[i];
    if (s->forward || s->result->kind != ANFI_ABS_BOTTOM || !s->entry) continue;
    const anfi_spec *at = s;
    for (size_t k = 0; k < q->specs.n; k++) // the recursive one says more than who called it
      if (q->an->graphs[q->specs.at[k]->graph->id].recursive &&
          q->specs.at[k]->result->kind == ANFI_ABS_BOTTOM) {
        at = q->specs.at[k];
        break;
      }
    return anfi_fail(q->cx, loc_of(at->graph->result), ANF_E0518, at->graph->name->s);
  }
  return true;
}

/* Boxes hold more than they did. */
static void wake_openers(anfi_inference *q) {
  for (size_t i = 0; i < q->specs.n; i++) {
    anfi_spec *s = q->specs.at[i];
    if (!s->opens) continue;
    s->from = 0;
    anfi_enqueue_spec(q, s);
  }
}

/* Which spec a call in a recursion takes depends on those that there are (widen). Emission asks again, so these calls are
 * evaluated until each finds the spec that it waits for. */
static bool settles(anfi_inference *q) {
  for (size_t i = 0; i < q->specs.n; i++) {
    anfi_spec *s = q->specs.at[i];
    bool asks = q->crowded || q->an->graphs[s->graph->id].recursive;
    if (!asks || s->forward || s->whole == q->specs.n) continue;
    s->from = 0;
    anfi_enqueue_spec(q, s);
  }
  return !q->queue.n;
}

static bool run(anfi_inference *q) {
  while (q->queue.n || !settles(q)) {
    anfi_spec *s = anfi_next_spec(q);
    size_t rises = q->abs.rises;
    if (!s->forward && !eval_spec(q, s)) return false;
    if (q->abs.rises != rises) wake_openers(q);
    if (q->evals % 1024 == 0 && !anfi_go_on(q->cx, "inferring types", 0.0)) return false;
  }
  return (q->generated && q->generated->wanted.n) || check_grounded(q);
}

/* Forgets all specs but the entries, which begin anew. */
static void restart(anfi_inference *q) {
  size_t entries = 0;
  while (entries < q->specs.n && q->specs.at[entries]->entry) entries++;
  size_t n = q->m->graphs.n;
  memset(q->of_graph, 0, n * sizeof *q->of_graph);
  memset(q->nspec_of, 0, n * sizeof *q->nspec_of);
  memset(q->known, 0, sizeof q->known);
  anfi_map_init(&q->by_key, q->arena);
  q->queue.n = q->specs.n = 0;
  if (q->forget) {
    memset(q->exact, 0, q->m->nodes.n * sizeof *q->exact);
    memset(q->exact_graph, 0, n * sizeof *q->exact_graph);
    q->wished = q->forget = q->conditions = false;
  }
  for (size_t i = 0; i < q->abs.nboxed; i++)
    if (q->abs.boxed[i]) q->abs.boxed[i] = q->abs.bottom;
  q->again = q->crowded = false;
  q->now = NULL;
  for (size_t i = 0; i < entries; i++) {
    const anfi_spec *old = q->specs.at[i];
    spec_of(q, old->graph, old->arg, NULL)->entry = true;
  }
}

bool anfi_infer_run(anfi_inference *q) {
  while (!run(q)) {
    if (!q->again) return false;
    restart(q);
  }
  return true;
}
