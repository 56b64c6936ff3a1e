// SPDX-License-Identifier: Apache-2.0
/* Loops over lanes.
 *   while c(s): s = f(s)                 all lanes iterate while one lane does; finished lanes keep their state
 * A loop whose trip count is the same for all lanes stays as it is, with a batched step. Otherwise
 *   Loop(step, [go], w.., s..) -> step'(w.., act, rounds, s..): act marks lanes that go on
 *   Loop(step, n, w.., s.., x..) -> step'(w.., n, i, s.., x..) max(n) times: lanes with i < n go on
 * INVARIANT: a stack is indexed by iteration, whatever lanes do. Elements of finished lanes are never used: a
 * loop that reads the stack has the same trip counts by lane, or those lanes take part in no iteration. */
#include "autodiff/batch/vmap.h"
#include "base/mark.h"

/* The loop's arguments: those of the state, and stacks, raised to the loop's masks. */
static bool loop_args(anfi_vmap *v, const anf_node *n, const anfi_flow_loop *p, anf_node **args) {
  const bool *want = p->in;
  for (size_t i = 0; i < p->l.nw + p->l.ns + p->l.nx; i++) {
    anf_node *old = n->in[p->l.first_w + i].def;
    const anf_type *t = anfi_ad_type_of(v->ad, old);
    const bool *has = anfi_flow_mask(&v->f, old);
    bool stack = i >= p->l.nw + p->l.ns;
    args[i] = anfi_vmap_node(v, old);
    if (args[i] && !stack) args[i] = anfi_vmap_raise(v, &v->b, args[i], t, has, want);
    if (!args[i]) return false;
    want += anfi_item_count(anfi_ad_type_of(v->ad, p->l.step->params.at[i]));
  }
  return true;
}

static anf_node *as_loop(anfi_vmap *v, const anfi_flow_loop *p, anf_node *const *args) {
  anfi_loop_op l = p->l;
  l.step = anfi_vmap_made(v, p->step);
  if (l.n) l.n = anfi_vmap_node(v, l.n);
  if (l.go) l.go = anfi_vmap_node(v, l.go);
  return anfi_ad_loop(v->ad, v->b.g, &l, args);
}

/* ---- one round of lanes of which only some go on ---- */

/* A graph (w.., act, s.., x..) -> ([act'], s'.., o..). */
typedef struct {
  anfi_vmap *v;
  const anfi_flow_loop *p;
  anf_graph *g;
  anfi_batch b;
  anf_node *act, **w, **s, **x; // parameters of g
} round_;

static const anf_type *lanes_of(const anfi_vmap *v, anf_dtype d) {
  return anfi_type_tensor(v->ad->m->cx, d, 1, &v->size);
}

static anf_node **step_params(const round_ *r, size_t from, size_t n) {
  anf_graph *step = anfi_vmap_made(r->v, r->p->step);
  anf_node **p = ANFI_NEW_N(r->v->ad->arena, anf_node *, n + 1);
  for (size_t i = 0; i < n; i++) p[i] = anfi_vmap_param(r->g, step->params.at[from + i]->type);
  return p;
}

static anf_node *call_step(round_ *r, bool fill) {
  const anfi_loop_op *l = &r->p->l;
  anfi_vmap *v = r->v;
  size_t n = l->nw + l->ns + l->nx;
  anf_node **in = ANFI_NEW_N(v->ad->arena, anf_node *, n + 1);
  const bool *mask = r->p->in;
  memcpy(in, r->w, l->nw * sizeof *in);
  memcpy(in + l->nw, r->s, l->ns * sizeof *in);
  memcpy(in + l->nw + l->ns, r->x, l->nx * sizeof *in);
  for (size_t i = 0; i < n; i++) {
    const anf_type *t = anfi_ad_type_of(v->ad, l->step->params.at[i]);
    if (fill) in[i] = anfi_vmap_fill(v, &r->b, r->act, in[i], t, mask);
    if (!in[i]) return NULL;
    mask += anfi_item_count(t);
  }
  const anf_type *t = anfi_ad_type_of(v->ad, l->step->result);
  return anfi_ad_call(v->ad, r->g, anfi_vmap_made(v, r->p->step),
                      anfi_vmap_type(v, t, r->p->step->out), n, in);
}

/* ([act'], s'.., o..): lanes that are done keep their state. */
static bool end_round(round_ *r, anf_node *y, bool all) {
  const anfi_loop_op *l = &r->p->l;
  anfi_vmap *v = r->v;
  size_t n = 0, item = 0;
  anf_node **out = ANFI_NEW_N(v->ad->arena, anf_node *, l->ns + l->nout + 2);
  if (!y) return false;
  if (!l->counted) {
    anf_node *again = anfi_ad_get(v->ad, r->g, y, item++);
    out[n++] = all ? again : anfi_b_2(&r->b, ANF_OP_LogicalAnd, r->act, again);
  }
  for (size_t i = 0; i < l->ns; i++) {
    anf_node *s = anfi_ad_get(v->ad, r->g, y, item++);
    const anf_type *t = anfi_ad_type_of(v->ad, l->step->params.at[l->nw + i]);
    out[n++] = all ? s : anfi_vmap_select(v, &r->b, r->act, s, r->s[i], t);
  }
  for (size_t i = 0; i < l->nout; i++) out[n++] = anfi_ad_get(v->ad, r->g, y, item++);
  for (size_t i = 0; i < n; i++)
    if (!out[i]) return false;
  anfi_set_result(r->g, anfi_ad_tuple(v->ad, r->g, n, out));
  return true;
}

static anf_graph *round_graph(anfi_vmap *v, const anfi_flow_loop *p, bool all, bool fill) {
  const anfi_loop_op *l = &p->l;
  round_ r = {.v = v, .p = p, .g = anfi_graph_beside(l->step, ANFI_BATCHED ANFI_BODY)};
  r.w = step_params(&r, 0, l->nw);
  r.act = anfi_vmap_param(r.g, lanes_of(v, ANF_BOOL));
  r.s = step_params(&r, l->nw, l->ns);
  r.x = step_params(&r, l->nw + l->ns, l->nx);
  r.b = anfi_vmap_in(v, r.g, r.act);
  return end_round(&r, call_step(&r, fill), all) ? r.g : NULL;
}

/* A choice of two steps: while no lane is finished, no fill and no select is needed. */
static anf_node *round_of(round_ *r) {
  anfi_vmap *v = r->v;
  const anfi_loop_op *l = &r->p->l;
  bool safe = anfi_vmap_is_safe(v, l->step);
  size_t n = 0;
  anf_graph *some = round_graph(v, r->p, false, !safe), *all = NULL;
  anf_node **in = ANFI_NEW_N(v->ad->arena, anf_node *, l->nw + l->ns + l->nx + 2);
  if (!some || !r->act) return NULL;
  in[n++] = NULL;
  for (size_t i = 0; i < l->nw; i++) in[n++] = r->w[i];
  in[n++] = r->act;
  for (size_t i = 0; i < l->ns; i++) in[n++] = r->s[i];
  for (size_t i = 0; i < l->nx; i++) in[n++] = r->x[i];
  if (safe) return anfi_ad_call(v->ad, r->g, some, some->result->type, n - 1, in + 1);
  anf_node *test = anfi_b_1(&r->b, ANF_OP_All, r->act);
  if (!test || !(all = round_graph(v, r->p, true, false))) return NULL;
  in[0] = anfi_apply3(r->g, ANF_OP_Switch, test, anfi_graph_value(all), anfi_graph_value(some));
  anf_node *y = anfi_call(r->g, n, in);
  y->type = some->result->type;
  return y;
}

/* ---- the loop over all lanes ---- */

typedef struct {
  round_ r;
  anf_node **out;
  size_t n;
} lanes_step;

static void begin(lanes_step *q, anfi_vmap *v, const anfi_flow_loop *p) {
  q->r = (round_){.v = v, .p = p, .g = anfi_graph_beside(p->l.step, ANFI_BATCHED ANFI_BODY)};
  q->out = ANFI_NEW_N(v->ad->arena, anf_node *, p->l.ns + p->l.nout + 4);
  q->r.w = step_params(&q->r, 0, p->l.nw);
}

static void begin_state(lanes_step *q) {
  const anfi_loop_op *l = &q->r.p->l;
  q->r.s = step_params(&q->r, l->nw, l->ns);
  q->r.x = step_params(&q->r, l->nw + l->ns, l->nx);
}

static bool finish(lanes_step *q, anf_node *y, size_t item) {
  const anfi_loop_op *l = &q->r.p->l;
  anfi_ad *ad = q->r.v->ad;
  for (size_t i = 0; i < l->ns + l->nout; i++)
    q->out[q->n++] = anfi_ad_get(ad, q->r.g, y, item + i);
  for (size_t i = 0; i < q->n; i++)
    if (!q->out[i]) return false;
  anfi_set_result(q->r.g, anfi_ad_tuple(ad, q->r.g, q->n, q->out));
  return true;
}

/* (w.., act, [rounds], s..) -> (any act', act', [rounds'], s'.., o..) */
static anf_graph *until_step(anfi_vmap *v, const anfi_flow_loop *p) {
  lanes_step q = {.n = 0};
  begin(&q, v, p);
  q.r.act = anfi_vmap_param(q.r.g, lanes_of(v, ANF_BOOL));
  anf_node *rounds = p->l.rounds ? anfi_vmap_param(q.r.g, lanes_of(v, ANF_I64)) : NULL;
  begin_state(&q);
  q.r.b = anfi_vmap_in(v, q.r.g, q.r.act);
  anf_node *y = round_of(&q.r);
  if (!y) return NULL;
  anf_node *act = anfi_ad_get(v->ad, q.r.g, y, 0);
  q.out[q.n++] = anfi_b_1(&q.r.b, ANF_OP_Any, act);
  q.out[q.n++] = act;
  if (rounds)
    q.out[q.n++] = anfi_b_2(&q.r.b, ANF_OP_Add, rounds, anfi_b_cast(&q.r.b, q.r.act, ANF_I64));
  return finish(&q, y, 1) ? q.r.g : NULL;
}

/* (w.., n, i, s.., x..) -> (i', s'.., o..) */
static anf_graph *counted_step(anfi_vmap *v, const anfi_flow_loop *p, const anf_type *count) {
  lanes_step q = {.n = 0};
  begin(&q, v, p);
  anf_node *n = anfi_vmap_param(q.r.g, count),
           *i = anfi_vmap_param(q.r.g, anfi_type_scalar(v->ad->m->cx, ANF_I64));
  begin_state(&q);
  q.r.b = anfi_vmap_in(v, q.r.g, n);
  q.r.act = anfi_b_2(&q.r.b, ANF_OP_Less, i, n);
  anf_node *y = round_of(&q.r);
  if (!y) return NULL;
  q.out[q.n++] = anfi_b_2(&q.r.b, p->l.reverse ? ANF_OP_Sub : ANF_OP_Add, i, anfi_b_i64(&q.r.b, 1));
  return finish(&q, y, 0) ? q.r.g : NULL;
}

/* (s.., stacks.., [rounds]) of a loop whose state begins with `extra` items of its own. */
static anf_node *result_of(anfi_vmap *v, const anfi_flow_loop *p, anf_node *y, size_t extra,
                           anf_node *rounds) {
  size_t n = p->l.ns + p->l.nout;
  anf_node **out = ANFI_NEW_N(v->ad->arena, anf_node *, n + 2);
  for (size_t i = 0; i < n; i++) out[i] = anfi_ad_get(v->ad, v->b.g, y, extra + i);
  if (p->l.rounds) out[n] = rounds;
  return anfi_ad_tuple(v->ad, v->b.g, n + p->l.rounds, out);
}

static anf_node *until(anfi_vmap *v, const anfi_flow_loop *p, anf_node *const *args) {
  const anfi_loop_op *l = &p->l;
  size_t n = l->nw, extra = 1u + l->rounds;
  anf_node **in = ANFI_NEW_N(v->ad->arena, anf_node *, l->nw + l->ns + 3);
  anf_graph *step = until_step(v, p);
  memcpy(in, args, l->nw * sizeof *in);
  anf_node *go = l->go ? anfi_vmap_node(v, l->go) : NULL;
  bool by_lane = l->go && anfi_flow_mask(&v->f, l->go)[0];
  in[n++] = by_lane ? go : anfi_b_1(&v->b, ANF_OP_LogicalNot, anfi_b_lanes(&v->b));
  if (l->rounds) in[n++] = anfi_b_cast(&v->b, anfi_b_lanes(&v->b), ANF_I64);
  memcpy(in + n, args + l->nw, l->ns * sizeof *in);
  if (!step || !in[l->nw] || !in[n - 1]) return NULL;
  anfi_loop_op parts = {.step = step, .nw = l->nw, .ns = l->ns + extra, .nout = l->nout, .go = go};
  if (by_lane) parts.go = anfi_b_1(&v->b, ANF_OP_Any, go);
  anf_node *y = anfi_ad_loop(v->ad, v->b.g, &parts, in);
  return result_of(v, p, y, extra, anfi_ad_get(v->ad, v->b.g, y, 1));
}

static anf_node *counted(anfi_vmap *v, const anfi_flow_loop *p, anf_node *const *args) {
  const anfi_loop_op *l = &p->l;
  anf_node **in = ANFI_NEW_N(v->ad->arena, anf_node *, l->nw + l->ns + l->nx + 3),
           *n = anfi_b_cast(&v->b, anfi_vmap_node(v, l->n), ANF_I64);
  size_t lanes;
  bool none = anfi_type_elements(n->type, &lanes) && !lanes; // of which there is no most
  anf_node *most = none ? anfi_b_i64(&v->b, 0) : anfi_b_1(&v->b, ANF_OP_Max, n);
  if (!most) return NULL;
  anf_graph *step = counted_step(v, p, n->type);
  memcpy(in, args, l->nw * sizeof *in);
  in[l->nw] = n;
  in[l->nw + 1] =
      l->reverse ? anfi_b_2(&v->b, ANF_OP_Sub, most, anfi_b_i64(&v->b, 1)) : anfi_b_i64(&v->b, 0);
  memcpy(in + l->nw + 2, args + l->nw, (l->ns + l->nx) * sizeof *in);
  if (!step || !in[l->nw + 1]) return NULL;
  anfi_loop_op parts = {.step = step, .n = most, .nw = l->nw + 1, .ns = l->ns + 1, .nx = l->nx};
  parts.nout = l->nout;
  parts.reverse = l->reverse;
  return result_of(v, p, anfi_ad_loop(v->ad, v->b.g, &parts, in), 1, n);
}

anf_node *anfi_vmap_loop(anfi_vmap *v, const anf_node *n) {
  anfi_flow_loop p = anfi_flow_loop_of(&v->f, n);
  anf_node **args = ANFI_NEW_N(v->ad->arena, anf_node *, n->nin + 1u);
  if (!loop_args(v, n, &p, args)) return NULL;
  if (!p.freeze) return as_loop(v, &p, args);
  if (!anfi_vmap_whole(v, p.l.step, n, "a loop that lanes end at different times")) return NULL;
  return p.l.counted ? counted(v, &p, args) : until(v, &p, args);
}
