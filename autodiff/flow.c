// SPDX-License-Identifier: Apache-2.0
/* The fixpoint over specs (flow.h).
 *   f(x) = n == 0 ? x : f(x * 2):  in {x}: out {} at first, then {result} by the base case, then stable
 * A worklist, no recursion over calls: nodes are visited in order; a call takes the callee's mask as far
 * as it is known, and its graph is visited again when that rises. */
#include "autodiff/flow.h"
#include "ir/ops/op.h"

void anfi_flow_init(anfi_flow *f, anfi_ad *ad, const anfi_flow_rules *rules) {
  f->ad = ad;
  f->a = ad->arena;
  f->rules = *rules;
  anfi_map_init(&f->of_graph, f->a);
  anfi_map_init(&f->order, f->a);
  anfi_map_init(&f->local, f->a);
  anfi_map_init(&f->starts, f->a);
}

bool anfi_flow_any(const bool *mask, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (mask[i]) return true;
  return false;
}

bool anfi_flow_merge(bool *to, const bool *from, size_t n) {
  bool rose = false;
  for (size_t i = 0; i < n; i++) {
    rose |= from[i] && !to[i];
    to[i] |= from[i];
  }
  return rose;
}

const anfi_node_vec *anfi_flow_order(anfi_flow *f, anf_graph *g) {
  uint64_t *at = anfi_map_at(&f->order, anfi_key(g));
  if (*at) return (const anfi_node_vec *)(uintptr_t)*at;
  anfi_node_vec *v = ANFI_NEW(f->a, anfi_node_vec);
  *at = anfi_key(v);
  anfi_graph_order(g, f->a, v);
  for (size_t i = 0; i < v->n; i++) *anfi_map_at(&f->local, v->at[i]->id) = i;
  return v;
}

/* ---- the worklist ---- */

void anfi_flow_enqueue(anfi_flow *f, anfi_flow_spec *s) {
  s->rose = true;
  if (s->queued) return;
  s->queued = true;
  anfi_push(f->a, &f->queue, s);
}

anfi_flow_spec *anfi_flow_use(anfi_flow *f, anfi_flow_spec *s) {
  anfi_flow_spec *now = f->now;
  if (!now) return s;
  size_t i = s->users.n;
  while (i > 0 && s->users.at[i - 1].spec != now) i--;
  if (!i) anfi_push(f->a, &s->users, ((anfi_flow_user){now, now->visited}));
  else if (now->visited < s->users.at[i - 1].at) s->users.at[i - 1].at = now->visited;
  return s;
}

/* A visit that waits at the node which reads the mask first goes on from there. */
void anfi_flow_rose(anfi_flow *f, const anfi_flow_spec *s) {
  for (size_t i = 0; i < s->users.n; i++) {
    const anfi_flow_user *u = &s->users.at[i];
    if (!u->spec->waits || u->at < u->spec->visited) anfi_flow_enqueue(f, u->spec);
  }
}

void anfi_flow_raise(anfi_flow *f, anfi_flow_spec *s, const bool *out) {
  if (anfi_flow_merge(s->out, out, s->nout)) anfi_flow_rose(f, s);
}

static bool own_visit(anfi_flow *f, anfi_flow_spec *s) {
  anfi_flow_visit(f, s);
  anfi_flow_raise(f, s, anfi_flow_mask(f, s->graph->result));
  return true;
}

/* A spec that waits is below those that it asked for. */
void anfi_flow_run(anfi_flow *f) {
  while (f->queue.n) {
    size_t at = --f->queue.n;
    anfi_flow_spec *s = f->queue.at[at];
    s->queued = false;
    if (s->rose) s->visited = 0;
    s->rose = s->waits = false;
    if ((f->rules.visit ? f->rules.visit : own_visit)(f, s) || s->queued) continue;
    s->waits = true;
    s->queued = true;
    anfi_push(f->a, &f->queue, s);
    for (size_t i = f->queue.n - 1; i > at; i--) f->queue.at[i] = f->queue.at[i - 1];
    f->queue.at[at] = s;
  }
  f->now = NULL;
}

/* ---- specs ---- */

static size_t param_parts(const anfi_flow *f, const anf_graph *g) {
  size_t n = 0;
  for (size_t i = 0; i < g->params.n; i++)
    n += f->rules.count(anfi_ad_type_of(f->ad, g->params.at[i]));
  return n;
}

static const anf_type *type_of(const anfi_flow *f, const anf_node *n) {
  return anfi_ad_type_of(f->ad, n);
}

static anfi_flow_spec *own_spec(anfi_flow *f, anf_graph *g, const bool *in) {
  uint64_t *first = anfi_map_at(&f->of_graph, anfi_key(g));
  size_t n = param_parts(f, g);
  anfi_flow_spec *s = (anfi_flow_spec *)(uintptr_t)*first;
  for (; s; s = s->next)
    if (!n || memcmp(s->in, in, n) == 0) return s;
  s = ANFI_NEW(f->a, anfi_flow_spec);
  s->graph = g;
  s->nin = n;
  s->nout = f->rules.count(type_of(f, g->result));
  s->in = ANFI_NEW_N(f->a, bool, n + 1);
  s->out = ANFI_NEW_N(f->a, bool, s->nout + 1);
  if (n) memcpy(s->in, in, n);
  s->next = (anfi_flow_spec *)(uintptr_t)*first;
  *first = anfi_key(s);
  anfi_push(f->a, &f->specs, s);
  anfi_flow_enqueue(f, s);
  return s;
}

/* The spec, made and queued if new. `in` is copied. */
static anfi_flow_spec *spec_of(anfi_flow *f, anf_graph *g, const bool *in) {
  return (f->rules.spec ? f->rules.spec : own_spec)(f, g, in);
}

/* ---- masks of nodes ---- */

const bool *anfi_flow_mask(anfi_flow *f, const anf_node *n) {
  if (f->rules.mask) return f->rules.mask(f, n);
  if (n->kind == ANFI_PARAM) {
    size_t at = 0;
    for (uint64_t i = 0; i < n->u.index; i++)
      at += f->rules.count(type_of(f, n->graph->params.at[i]));
    return f->now->in + at;
  }
  if (n->kind == ANFI_VALUE) return ANFI_NEW_N(f->a, bool, f->rules.count(type_of(f, n)) + 1);
  return f->mask[*anfi_map_find(&f->local, n->id)];
}

bool *anfi_flow_join_args(anfi_flow *f, const anf_node *n, size_t from) {
  size_t total = 0;
  for (size_t i = from; i < n->nin; i++) total += f->rules.count(type_of(f, n->in[i].def));
  bool *m = ANFI_NEW_N(f->a, bool, total + 1), *to = m;
  for (size_t i = from; i < n->nin; i++) {
    size_t k = f->rules.count(type_of(f, n->in[i].def));
    if (k) memcpy(to, anfi_flow_mask(f, n->in[i].def), k);
    to += k;
  }
  return m;
}

/* ---- calls ---- */

const anf_node *anfi_flow_choice(const anf_node *call) {
  const anf_node *c = call->in[0].def;
  return anfi_is_op(c, ANF_OP_Switch) || anfi_is_op(c, ANF_OP_SwitchLayer) ? c : NULL;
}

static anfi_flow_spec *callee(anfi_flow *f, const anf_node *call, uint32_t k, const bool *in) {
  const anf_node *code = call->in[0].def;
  if (k) code = code->in[k].def;
  return anfi_flow_use(f, spec_of(f, anfi_value_graph(code), in));
}

anfi_flow_spec *anfi_flow_callee(anfi_flow *f, const anf_node *call, uint32_t k) {
  return callee(f, call, k, anfi_flow_join_args(f, call, 1));
}

static void flow_choice(anfi_flow *f, const anf_node *n, const anf_node *choice, size_t nout,
                        bool *out) {
  const bool *in = anfi_flow_join_args(f, n, 1);
  bool differs = f->rules.batch && anfi_flow_mask(f, choice->in[0].def)[0];
  if (differs) f->rules.all(n->type, out);
  for (uint32_t k = 1; k < choice->nin; k++) anfi_flow_merge(out, callee(f, n, k, in)->out, nout);
  if (differs || f->rules.exact) return; // differs: the results are selected by lane
  for (uint32_t k = 1; k < choice->nin; k++) anfi_flow_raise(f, callee(f, n, k, in), out);
}

static void flow_call(anfi_flow *f, const anf_node *n, size_t nout, bool *out) {
  const anf_node *choice = n->kind == ANFI_CALL ? anfi_flow_choice(n) : NULL;
  if (choice) flow_choice(f, n, choice, nout, out);
  else anfi_flow_merge(out, anfi_flow_callee(f, n, 0)->out, nout);
}

/* ---- loops ---- */

static size_t parts_between(const anfi_flow *f, const anf_node *n, size_t from, size_t count) {
  size_t k = 0;
  for (size_t i = 0; i < count; i++) k += f->rules.count(type_of(f, n->in[from + i].def));
  return k;
}

static void freeze_state(anfi_flow *f, const anfi_flow_loop *p) {
  bool *at = p->in + p->pw;
  for (size_t i = 0; i < p->l.ns; i++) {
    const anf_type *t = type_of(f, p->l.step->params.at[p->l.nw + i]);
    f->rules.all(t, at);
    at += f->rules.count(t);
  }
}

/* w and s have the parts of the arguments; of an element of a stack that is touched, all are. */
static bool *step_mask(anfi_flow *f, const anf_node *n, const anfi_flow_loop *p) {
  const anf_graph *g = p->l.step;
  bool *m = ANFI_NEW_N(f->a, bool, param_parts(f, g) + 1), *at = m;
  for (size_t i = 0; i < g->params.n; i++) {
    const bool *arg = anfi_flow_mask(f, n->in[p->l.first_w + i].def);
    const anf_type *t = type_of(f, g->params.at[i]);
    size_t k = f->rules.count(t);
    if (i < p->l.nw + p->l.ns) anfi_flow_merge(at, arg, k);
    else if (arg[0]) f->rules.all(t, at);
    at += k;
  }
  return m;
}

/* Finds the stacks with a bit in their mask, and raises the result of the step. */
static void settle_step(anfi_flow *f, anfi_flow_loop *p) {
  const anf_type *t = type_of(f, p->l.step->result);
  bool *out = ANFI_NEW_N(f->a, bool, p->step->nout + 1), *at = out + p->again + p->ps;
  p->outs = ANFI_NEW_N(f->a, bool, p->l.nout + 1);
  anfi_flow_merge(out + p->again, p->in + p->pw, p->ps);
  for (size_t i = 0; i < p->l.nout; i++) {
    const anf_type *o = t->items[t->n - p->l.nout + i];
    size_t k = f->rules.count(o);
    p->outs[i] = p->freeze || anfi_flow_any(p->step->out + (at - out), k);
    if (p->outs[i]) f->rules.all(o, at);
    at += k;
  }
  if (!f->rules.exact) anfi_flow_raise(f, p->step, out);
}

anfi_flow_loop anfi_flow_loop_of(anfi_flow *f, const anf_node *n) {
  anfi_flow_loop p = {.l = anfi_loop_parts(n)};
  p.pw = parts_between(f, n, p.l.first_w, p.l.nw);
  p.ps = parts_between(f, n, p.l.first_w + p.l.nw, p.l.ns);
  p.in = step_mask(f, n, &p);
  p.again = p.l.counted ? 0 : f->rules.count(type_of(f, p.l.step->result)->items[0]);
  const anf_node *first = p.l.n ? p.l.n : p.l.go;
  p.freeze = f->rules.batch && first && anfi_flow_mask(f, first)[0];
  for (bool rose = true; rose;) {
    if (p.freeze) freeze_state(f, &p);
    p.step = anfi_flow_use(f, spec_of(f, p.l.step, p.in));
    rose = anfi_flow_merge(p.in + p.pw, p.step->out + p.again, p.ps);
    if (f->rules.batch && p.again && p.step->out[0] && !p.freeze) p.freeze = rose = true;
  }
  settle_step(f, &p);
  return p;
}

static void flow_loop(anfi_flow *f, const anf_node *n, size_t nout, bool *out) {
  anfi_flow_loop p = anfi_flow_loop_of(f, n);
  if (p.ps) memcpy(out, p.in + p.pw, p.ps);
  if (p.l.nout) memcpy(out + p.ps, p.outs, p.l.nout);
  for (size_t i = p.ps + p.l.nout; i < nout; i++) out[i] = p.freeze; // the number of rounds
}

/* ---- values taken apart and made ---- */

static void put_parts(anfi_flow_from *out, size_t *at, uint32_t in, size_t from, size_t n) {
  for (size_t i = 0; i < n; i++) out[(*at)++] = (anfi_flow_from){in, from + i};
}

/* Where the parts of each item start: residuals of a large program are one tuple with a projection per item. */
static const size_t *starts_of(anfi_flow *f, const anf_type *t) {
  uint64_t *at = anfi_map_at(&f->starts, anfi_key(t));
  if (*at) return (const size_t *)(uintptr_t)*at;
  size_t *s = ANFI_NEW_N(f->a, size_t, t->n + 1);
  for (uint32_t i = 0; i < t->n; i++) s[i + 1] = s[i] + f->rules.count(t->items[i]);
  *at = anfi_key(s);
  return s;
}

/* The parts of item i of a tuple or record are from *first on. */
static size_t item_parts(anfi_flow *f, const anf_type *t, size_t i, size_t *first) {
  const size_t *s = starts_of(f, t);
  *first = s[i];
  return s[i + 1] - s[i];
}

size_t anfi_flow_item(anfi_flow *f, const anf_node *n) {
  const anf_type *t = type_of(f, n->in[0].def);
  const anf_value *v = anfi_attr_value(f->ad->m->cx, (anfi_opcode)n->op, n->u.attrs, 0);
  if (v->kind != ANF_VALUE_STRING) {
    int64_t i = 0;
    anfi_value_is_int(v, &i);
    return (size_t)(i < 0 ? i + (int64_t)t->n : i);
  }
  size_t k = 0;
  while (k + 1 < t->n && strcmp(t->names[k]->s, v->u.text) != 0) k++;
  return k;
}

static void part_got(anfi_flow *f, const anf_node *n, anfi_flow_from *out) {
  const anf_type *t = type_of(f, n->in[0].def);
  size_t at = 0, first, k = item_parts(f, t, anfi_flow_item(f, n), &first);
  put_parts(out, &at, 0, first, k);
}

static void part_set(anfi_flow *f, const anf_node *n, anfi_flow_from *out) {
  const anf_type *t = type_of(f, n->in[0].def);
  size_t at = 0, first = 0, which = anfi_flow_item(f, n);
  for (size_t i = 0; i < t->n; i++) {
    size_t k = f->rules.count(t->items[i]);
    if (i == which) put_parts(out, &at, 1, 0, f->rules.count(type_of(f, n->in[1].def)));
    else put_parts(out, &at, 0, first, k);
    first += k;
  }
}

static void part_slice(anfi_flow *f, const anf_node *n, anfi_flow_from *out) {
  const anf_type *t = type_of(f, n->in[0].def);
  anf_value *attr[3];
  int64_t start = 0, step = 1;
  for (uint32_t k = 0; k < 3; k++)
    attr[k] = anfi_attr_value(f->ad->m->cx, ANF_OP_TupleSlice, n->u.attrs, k);
  size_t at = 0, count = anfi_slice(t->n, attr, &start, &step);
  for (size_t i = 0; i < count; i++) {
    size_t first, k = item_parts(f, t, (size_t)(start + (int64_t)i * step), &first);
    put_parts(out, &at, 0, first, k);
  }
}

static void part_concat(anfi_flow *f, const anf_node *n, anfi_flow_from *out) {
  size_t at = 0;
  for (uint32_t i = 0; i < n->nin; i++)
    put_parts(out, &at, i, 0, f->rules.count(type_of(f, n->in[i].def)));
}

static void part_same(anfi_flow *f, const anf_node *n, anfi_flow_from *out) {
  size_t at = 0;
  put_parts(out, &at, 0, 0, f->rules.count(n->type));
}

typedef void part_rule(anfi_flow *, const anf_node *, anfi_flow_from *);

static part_rule *part_rule_of(uint32_t op) {
  switch (op) {
  case ANF_OP_MakeTuple:
  case ANF_OP_MakeRecord:
  case ANF_OP_TupleConcat: return part_concat;
  case ANF_OP_Identity:
  case ANF_OP_Fence: return part_same;
  case ANF_OP_TupleGet:
  case ANF_OP_RecordGet: return part_got;
  case ANF_OP_TupleSet:
  case ANF_OP_RecordSet: return part_set;
  case ANF_OP_TupleSlice: return part_slice;
  default: return NULL;
  }
}

const anfi_flow_from *anfi_flow_parts(anfi_flow *f, const anf_node *n) {
  part_rule *rule = part_rule_of(n->op);
  if (!rule) return NULL;
  anfi_flow_from *out = ANFI_NEW_N(f->a, anfi_flow_from, f->rules.count(n->type) + 1);
  rule(f, n, out);
  return out;
}

/* A choice of data. */
static void flow_switch(anfi_flow *f, const anf_node *n, size_t nout, bool *out) {
  if (f->rules.batch && anfi_flow_mask(f, n->in[0].def)[0]) f->rules.all(n->type, out);
  for (uint32_t k = 1; k < n->nin; k++) anfi_flow_merge(out, anfi_flow_mask(f, n->in[k].def), nout);
}

void anfi_flow_forward(anfi_flow *f, const anf_node *n, size_t nout, bool *out) {
  const anfi_flow_from *from;
  if (n->kind == ANFI_CALL || n->op == ANF_OP_Recompute) flow_call(f, n, nout, out);
  else if (n->op == ANF_OP_Switch || n->op == ANF_OP_SwitchLayer) {
    if (!anfi_value_graph(n->in[1].def)) flow_switch(f, n, nout, out);
  } else if (n->op == ANF_OP_Loop) flow_loop(f, n, nout, out);
  else if ((from = anfi_flow_parts(f, n)))
    for (size_t i = 0; i < nout; i++)
      out[i] = anfi_flow_mask(f, n->in[from[i].in].def)[from[i].part];
  else f->rules.op(f, n, nout, out);
}

void anfi_flow_visit(anfi_flow *f, anfi_flow_spec *s) {
  const anfi_node_vec *order = anfi_flow_order(f, s->graph);
  f->now = s;
  f->mask = ANFI_NEW_N(f->a, bool *, order->n + 1);
  for (size_t i = 0; i < order->n; i++) {
    const anf_node *n = order->at[i];
    bool callee = !n->type || n->type->kind == ANF_TYPE_FN; // Switch of graphs
    size_t nout = callee ? 0 : f->rules.count(n->type);
    f->mask[i] = ANFI_NEW_N(f->a, bool, nout + 1);
    anfi_flow_forward(f, n, nout, f->mask[i]);
  }
}

anfi_flow_spec *anfi_flow_solve(anfi_flow *f, anfi_ad *ad, const anfi_flow_rules *rules,
                                anf_graph *g, const bool *in) {
  anfi_flow_init(f, ad, rules);
  anfi_flow_spec *s = spec_of(f, g, in);
  anfi_flow_run(f);
  return s;
}

/* ---- leaves ---- */

void anfi_flow_all_leaves(const anf_type *t, bool *out) { memset(out, true, anfi_ad_leaves(t)); }

/* Does every input that has leaves count, with a derivative or not? */
static bool takes_all(uint32_t op) {
  switch (op) {
  case ANF_OP_Box:
  case ANF_OP_Unbox:
  case ANF_OP_ResidualAdd:
  case ANF_OP_ResidualSelect:
  case ANF_OP_ResidualSpread:
  case ANF_OP_Custom: return true;
  default: return false;
  }
}

void anfi_flow_leaf_op(anfi_flow *f, const anf_node *n, size_t nout, bool *out) {
  if (n->op == ANF_OP_Undef || n->op == ANF_OP_ResidualZeros) return;
  bool all = takes_all(n->op), some = false;
  for (uint32_t i = 0; !some && i < n->nin; i++)
    some = (all || !anfi_ad_is_inactive(f->ad, (anfi_opcode)n->op, i)) &&
           anfi_flow_any(anfi_flow_mask(f, n->in[i].def),
                         anfi_ad_leaves(anfi_ad_type_of(f->ad, n->in[i].def)));
  if (some) memset(out, true, nout);
}
