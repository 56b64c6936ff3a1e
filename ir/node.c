// SPDX-License-Identifier: Apache-2.0
/* Nodes and edges. Each input is an edge in the use list of its definition, so uses are found and replaced in time linear
 * in their number.
 *   %1 = Sin(x);  %2 = Mul(%1, %1)       uses of %1: (input 0 of %2), (input 1 of %2)
 * INVARIANT: a VALUE that holds a primitive has no use list (it would be as long as the module). */
#include "ir/ir.h"
#include "ir/worklist.h"

static bool tracks_uses(const anf_node *n) {
  return !(n->kind == ANFI_VALUE && n->op != ANF_OP_NONE);
}

static inline void link_use(anfi_use *u, anf_node *user, anf_node *def) {
  bool tracked = tracks_uses(def);
  anfi_use *next = tracked ? def->uses : NULL;
  u->def = def;
  u->user = user;
  u->next = next;
  u->link = tracked ? &def->uses : NULL;
  if (next) next->link = &u->next;
  if (tracked) def->uses = u;
}

static void unlink_use(anfi_use *u) {
  if (!u->link) return;
  *u->link = u->next;
  if (u->next) u->next->link = u->link;
  u->link = NULL;
}

/* ---- worklists ---- */

static const uint64_t EACH = UINT64_C(0x0101010101010101);

size_t anfi_work_next(const anf_module *m, size_t i, uint8_t bits) {
  for (; i + 8 <= m->nodes.n; i += 8) {
    uint64_t word;
    memcpy(&word, m->work + i, sizeof word);
    if (word & (bits * EACH)) break;
  }
  while (i < m->nodes.n && !(m->work[i] & bits)) i++;
  return i;
}

size_t anfi_work_last(const anf_module *m, size_t i, uint8_t bits) {
  for (; i >= 8; i -= 8) {
    uint64_t word;
    memcpy(&word, m->work + i - 8, sizeof word);
    if (word & (bits * EACH)) break;
  }
  while (i && !(m->work[i - 1] & bits)) i--;
  return i;
}

/* Facts that passes cached about n no longer hold. */
static void look_again(anf_node *n) { anfi_set_dirty(n, ANFI_WORK_SIMPLIFY | ANFI_WORK_CSE); }

/* n may have lost its last use. */
static void note_unused(const anf_node *n) {
  if (n->graph) anfi_work_add(n, ANFI_WORK_DCE);
}

/* A rule may ask for an input with no other use: then the last user is to be simplified again. Rules of
 * elementwise ops do not ask. */
static void drop_use(anfi_use *u) {
  unlink_use(u);
  const anfi_use *left = tracks_uses(u->def) ? u->def->uses : NULL;
  if (!left) {
    note_unused(u->def);
  } else if (!left->next && anfi_is_clean(left->user, ANFI_WORK_SIMPLIFY) &&
             !(left->user->kind == ANFI_APPLY && anfi_op[left->user->op].scalar)) {
    anfi_set_dirty(left->user, ANFI_WORK_SIMPLIFY);
  }
}

/* ---- making them ---- */

void anfi_reserve_nodes(anf_module *m, size_t n) {
  size_t cap = m->nodes.cap, want = m->nodes.n + n;
  if (want <= cap) return;
  if (want > UINT32_MAX) anfi_throw_nomem(m->cx);
  if (want < 2 * cap) want = cap < UINT32_MAX / 2 ? 2 * cap : UINT32_MAX;
  anf_node **at = m->nodes.at;
  m->work = (uint8_t *)anfi_grow(&m->arena, m->work, cap, want);
  m->nodes.at = (anf_node **)anfi_grow(&m->arena, at, cap * sizeof *at,
                                       anfi_size_mul(m->cx, want, sizeof *at));
  m->nodes.cap = want;
}

void anfi_skip_node(anf_module *m) {
  if (m->nodes.n == m->nodes.cap) anfi_reserve_nodes(m, ANFI_VEC_MIN);
  m->work[m->nodes.n] = 0;
  m->nodes.at[m->nodes.n++] = NULL;
}

static inline void take_spare(anf_module *m, const anf_node *p) {
  m->spare[p->nin] = p->u.next;
  if (!p->ahead) return;
  anfi_soon(p->ahead);
  anfi_soon(p->ahead->in); // it is longer than a line of the cache
}

/* Room for a node and its n inputs, with its number; the rest is to be set. */
static inline anf_node *new_room(anf_module *m, size_t n, uint8_t work) {
  if (m->nodes.n == m->nodes.cap) anfi_reserve_nodes(m, ANFI_VEC_MIN);
  anf_node *p = n < ANFI_GONE ? m->spare[n] : NULL;
  if (n >= UINT32_MAX) anfi_throw_nomem(m->cx);
  if (p) take_spare(m, p);
  else p = (anf_node *)anfi_bump(&m->arena, sizeof *p + n * sizeof(anfi_use));
  m->work[m->nodes.n] = work;
  m->nodes.at[m->nodes.n++] = p;
  return p;
}

static anf_node *new_node(anf_module *m, anfi_kind kind, anf_graph *g, size_t n, uint8_t work) {
  anf_node *p = new_room(m, n, work);
  *p = (anf_node){.kind = (uint8_t)kind,
                  .op = ANF_OP_NONE,
                  .id = (uint32_t)m->nodes.n - 1,
                  .nin = (uint32_t)n,
                  .graph = g};
  m->ncalls += kind == ANFI_CALL;
  return p;
}

anf_node *anfi_param(anf_graph *g, const anfi_str *name, const anf_type *t) {
  anf_node *p = new_node(g->module, ANFI_PARAM, g, 0, 0);
  p->type = t;
  p->u.index = g->params.n;
  if (name && name->len) p->debug = anfi_debug_new(g->module, (anfi_debug){.name = name});
  anfi_push(&g->module->arena, &g->params, p);
  return p;
}

anf_node **anfi_insert_params(anf_graph *g, size_t at, size_t n, const anf_type *const *types) {
  size_t before = g->params.n;
  if (!n) return NULL;
  for (size_t i = 0; i < n; i++) anfi_param(g, NULL, types[i]);
  anf_node **p = g->params.at, **made = ANFI_NEW_N(anfi_scratch(g->module->cx), anf_node *, n);
  memcpy(made, p + before, n * sizeof *p);
  if (before > at) memmove(p + at + n, p + at, (before - at) * sizeof *p);
  memcpy(p + at, made, n * sizeof *p);
  for (size_t i = at; i < g->params.n; i++) p[i]->u.index = i;
  return p + at;
}

void anfi_remove_params(anf_graph *g, const bool *gone) {
  size_t n = 0;
  for (size_t i = 0; i < g->params.n; i++) {
    anf_node *p = g->params.at[i];
    if (gone[i]) {
      anfi_delete(p);
      continue;
    }
    p->u.index = n;
    g->params.at[n++] = p;
  }
  g->params.n = n;
}

void anfi_remove_param(anf_graph *g, size_t at) {
  bool *gone = ANFI_NEW_N(anfi_scratch(g->module->cx), bool, g->params.n);
  gone[at] = true;
  anfi_remove_params(g, gone);
}

/* In a frame of its own, so that v can be given back when memory runs out. (A guard would stay with
 * the caller's frame, and release v a second time when that fails and the module goes with it.) */
static anf_status hold(anf_module *m, anf_value *v) {
  ANFI_ENTRY(m->cx, NULL);
  anfi_push(&m->arena, &m->held, v);
  return anfi_leave(m->cx);
}

void anfi_hold(anf_module *m, anf_value *v) {
  if (hold(m, v) == ANF_OK) return;
  anf_value_release(v);
  anfi_throw_nomem(m->cx);
}

anf_node *anfi_node_blank(anf_module *m, anfi_kind kind, anf_graph *g, size_t n) {
  anf_node *p = new_node(m, kind, g, n, ANFI_WORK_ALL);
  if (n) memset(p->in, 0, n * sizeof p->in[0]);
  return p;
}

anf_node *anfi_value(anf_module *m, anf_value *v) {
  anfi_hold(m, v);
  bool graph = v->kind == ANF_VALUE_FN && anfi_value_fn(v)->graph;
  anf_node *n = new_node(m, ANFI_VALUE, NULL, 0, graph ? ANFI_WORK_GRAPH : 0);
  n->u.value = v;
  return n;
}

anf_node *anfi_graph_value(anf_graph *g) {
  if (!g->self) {
    anf_value *v = anfi_value_new_fn(g->module->cx, g, ANF_OP_NONE, NULL, 0, 0);
    g->self = anfi_value(g->module, v);
  }
  return g->self;
}

anf_node *anfi_op_value_attrs(anf_module *m, anfi_opcode op, const anfi_attrs *attrs) {
  anf_node *n = anfi_value(m, anfi_value_new_fn(m->cx, NULL, (uint16_t)op, attrs, 0, 0));
  n->op = (uint16_t)op;
  return n;
}

anf_node *anfi_op_value(anf_module *m, anfi_opcode op) {
  if (!m->op_nodes[op]) m->op_nodes[op] = anfi_op_value_attrs(m, op, NULL);
  return m->op_nodes[op];
}

anf_node *anfi_apply_as(const anfi_apply_of *of, size_t n, anf_node *const *in) {
  anf_module *m = of->graph->module;
  uint32_t id = (uint32_t)m->nodes.n;
  anf_node *p = new_room(m, n, of->work);
  p->kind = ANFI_APPLY;
  p->flags = anfi_initial_flags(of->work);
  p->op = of->op;
  p->id = id;
  p->nin = (uint32_t)n;
  p->debug = of->debug;
  p->type = of->type;
  p->graph = of->graph;
  p->uses = NULL;
  p->u.attrs = of->attrs;
  for (size_t i = 0; i < n; i++) link_use(&p->in[i], p, in[i]);
  return p;
}

anf_node *anfi_apply(anf_graph *g, anfi_opcode op, const anfi_attrs *attrs, size_t n,
                     anf_node *const *in) {
  unsigned work = ANFI_WORK_SIMPLIFY | ANFI_WORK_CSE | ANFI_WORK_DCE;
  if (anfi_op[op].flags & ANFI_EXPANDS) work |= ANFI_WORK_EXPAND;
  anfi_apply_of of = {.graph = g, .attrs = attrs, .op = (uint16_t)op, .work = (uint8_t)work};
  return anfi_apply_as(&of, n, in);
}

/* A call that the op does not take stays one, which all engines refuse at its place. */
anf_node *anfi_call(anf_graph *g, size_t n, anf_node *const *in) {
  const anfi_fn *f = anfi_value_op(in[0]) != ANF_OP_NONE ? anfi_value_fn(in[0]->u.value) : NULL;
  if (f && f->nbound == 0 &&
      anfi_op_may_be_applied(g->module->cx, (anfi_opcode)f->op, f->attrs, n - 1))
    return anfi_apply(g, (anfi_opcode)f->op, f->attrs, n - 1, in + 1);
  anf_node *p =
      new_node(g->module, ANFI_CALL, g, n, ANFI_WORK_SIMPLIFY | ANFI_WORK_CSE | ANFI_WORK_DCE);
  for (size_t i = 0; i < n; i++) link_use(&p->in[i], p, in[i]);
  return p;
}

/* A node is mostly the result of one graph: the count sits in a map, apart from the nodes. */
static void count_result(anf_module *m, const anf_node *n, int by) {
  if (!n) return;
  uint64_t *c = anfi_map_at(&m->results, n->id);
  *c += (uint64_t)(int64_t)by;
}

void anfi_set_result(anf_graph *g, anf_node *n) {
  count_result(g->module, n, 1); // first the step that can fail
  count_result(g->module, g->result, -1);
  if (g->result) note_unused(g->result);
  g->result = n;
}

void anfi_add_effect(anf_graph *g, anf_node *n) {
  if (n->flags & ANFI_NODE_EFFECT) return;
  anfi_push(&g->module->arena, &g->effects, n);
  n->flags |= ANFI_NODE_EFFECT;
}

void anfi_remove_effect(anf_node *n) {
  anf_graph *g = n->graph;
  size_t k = 0;
  for (size_t i = 0; i < g->effects.n; i++)
    if (g->effects.at[i] != n) g->effects.at[k++] = g->effects.at[i];
  g->effects.n = k;
  n->flags &= (uint8_t)~ANFI_NODE_EFFECT;
  anfi_set_dirty(n, ANFI_WORK_CSE | ANFI_WORK_DCE);
}

void anfi_set_input(anf_node *n, size_t i, anf_node *to) {
  if (n->in[i].def) drop_use(&n->in[i]);
  link_use(&n->in[i], n, to);
  look_again(n);
}

bool anfi_is_result(const anf_module *m, const anf_node *n) {
  const uint64_t *c = anfi_map_find(&m->results, n->id);
  return c && *c;
}

/* A constant does not know its module, but its user or its replacement does. */
static anf_module *module_of(const anf_node *n, const anf_node *by) {
  if (n->graph) return n->graph->module;
  if (by->graph) return by->graph->module;
  return n->uses ? n->uses->user->graph->module : NULL;
}

/* Replaces n as a result: of its own graph, or rarely of others, which capture it only to return it. */
static void replace_results(anf_module *m, anf_node *n, anf_node *by) {
  if (!anfi_is_result(m, n)) return;
  if (n->graph && n->graph->result == n) anfi_set_result(n->graph, by);
  if (!anfi_is_result(m, n)) return;
  for (size_t i = 0; i < m->graphs.n; i++)
    if (m->graphs.at[i] && m->graphs.at[i]->result == n) anfi_set_result(m->graphs.at[i], by);
}

void anfi_set_attrs(anf_node *n, const anfi_attrs *attrs) {
  n->u.attrs = attrs;
  look_again(n);
}

void anfi_replace(anf_node *n, anf_node *by) {
  if (n == by) return;
  anf_module *m = module_of(n, by);
  if (m) replace_results(m, n, by);
  note_unused(n);
  while (n->uses) {
    anfi_use *u = n->uses;
    unlink_use(u);
    link_use(u, u->user, by);
    look_again(u->user);
  }
}

void anfi_move(anf_node *n, anf_graph *to) {
  n->graph = to;
  anfi_set_dirty(n, ANFI_WORK_CSE);
}

bool anfi_is_used(const anf_node *n) {
  if (n->uses || (n->flags & ANFI_NODE_EFFECT)) return true;
  return n->graph && anfi_is_result(n->graph->module, n);
}

void anfi_delete(anf_node *n) {
  anf_module *m = n->graph ? n->graph->module : NULL;
  for (uint32_t i = 0; i < n->nin; i++) drop_use(&n->in[i]);
  if (m && n->kind == ANFI_CALL) m->ncalls--;
  n->kind = ANFI_DEAD;
  if (!m) return;
  m->nodes.at[n->id] = NULL;
  if (n->nin >= ANFI_GONE || ANFI_SANITIZED) return;
  anfi_gone *gone = &m->gone[n->nin];
  n->ahead = gone->newest[gone->n % ANFI_AHEAD];
  gone->newest[gone->n++ % ANFI_AHEAD] = n;
  n->u.next = gone->first;
  gone->first = n;
  if (!n->u.next) gone->last = n;
}

void anfi_reuse_deleted(anf_module *m) {
  for (uint32_t i = 0; i < ANFI_GONE; i++) {
    if (!m->gone[i].first) continue;
    m->gone[i].last->u.next = m->spare[i];
    m->spare[i] = m->gone[i].first;
    m->gone[i] = (anfi_gone){0};
  }
}

/* ---- the public face ---- */

/* Every building function: skipped once the module has failed; a failure is recorded in the module. */
static anf_node *built(anf_module *m, anf_node *n) {
  anf_status st = anfi_leave(m->cx);
  if (st == ANF_OK) return n;
  if (m->status == ANF_OK) m->status = st;
  return NULL;
}
#define BUILD(m)                                                                                   \
  if (!(m) || (m)->status != ANF_OK) return NULL;                                                  \
  anfi_frame frame_;                                                                               \
  anfi_enter((m)->cx, (m)->diag, &frame_);                                                         \
  if (setjmp(frame_.jump)) return built((m), NULL)

/* Are callee and arguments there? One that is NULL is mostly what a failed call gave, and the module knows of that; if
 * it does not, this is the first failure. */
static bool given(anf_graph *g, const char *function, size_t n, anf_node *const *in) {
  size_t i = 0;
  while (i < n && in && in[i]) i++;
  if (i == n) return true;
  if (!g || g->module->status != ANF_OK) return false;
  char name[64];
  snprintf(name, sizeof name, "args[%zu]", i);
  anfi_need(g->module->cx, g->module->diag, function, name, 1, &(const void *){NULL});
  g->module->status = ANF_INVALID;
  return false;
}

/* A node with a graph names its module; a constant is looked up. */
static bool belongs(const anf_module *m, const anf_node *n) {
  if (n->graph) return n->graph->module == m && n->kind != ANFI_DEAD;
  return n->id < m->nodes.n && m->nodes.at[n->id] == n;
}

/* Ids of another module's node mean nothing here: passes would look beside their tables. */
static bool belong(anf_module *m, size_t n, anf_node *const *in) {
  for (size_t i = 0; i < n; i++)
    if (!belongs(m, in[i])) return anfi_fail(m->cx, anfi_nowhere(), ANF_E0207);
  return true;
}

anf_node *anf_param(anf_graph *g, const char *name, const anf_type *t) {
  BUILD(g ? g->module : NULL);
  return built(g->module, anfi_param(g, anfi_intern_z(&g->module->strings, name ? name : ""), t));
}

static anf_node *missing_value(anf_module *m) {
  if (m->status == ANF_OK && !ANFI_GIVEN_(m->cx, m->diag, "v", NULL)) m->status = ANF_INVALID;
  return NULL;
}

anf_node *anf_constant(anf_module *m, anf_value *v) {
  if (!v) return m ? missing_value(m) : NULL;
  BUILD(m);
  const anf_graph *g = v->kind == ANF_VALUE_FN ? anfi_value_fn(v)->graph : NULL;
  if (g && g->module != m) return (void)anfi_fail(m->cx, anfi_nowhere(), ANF_E0207), built(m, NULL);
  return built(m, anfi_value(m, anf_value_retain(v)));
}

anf_node *anf_int(anf_module *m, int64_t v) {
  BUILD(m);
  return built(m, anfi_value(m, anfi_value_new_i64(m->cx, ANF_INT, v)));
}

anf_node *anf_float(anf_module *m, double v) {
  BUILD(m);
  return built(m, anfi_value(m, anfi_value_new_f64(m->cx, ANF_FLOAT, v)));
}

anf_node *anf_graph_node(anf_graph *g) {
  BUILD(g ? g->module : NULL);
  return built(g->module, anfi_graph_value(g));
}

static const char *op_name(void *cx, size_t i) {
  (void)cx;
  return i < ANF_OP_COUNT ? anfi_op[i].name : NULL;
}

static anfi_opcode find_op(anf_ctx *cx, const char *name) {
  anfi_opcode op = anfi_op_find(cx, name, strlen(name));
  if (op != ANF_OP_NONE) return op;
  anfi_fail(cx, anfi_nowhere(), ANF_E0201, name);
  const char *near = anfi_op_elsewhere(name);
  anfi_did_you_mean(cx, near ? near : anfi_nearest(name, op_name, cx));
  return op;
}

anf_node *anf_op_node(anf_module *m, const char *op) {
  ANFI_NEED_ELSE(m ? m->cx : NULL, NULL, m, op);
  BUILD(m);
  const anfi_host *h = anfi_host_find(m->cx, op, strlen(op));
  if (h) return built(m, anfi_op_value_attrs(m, anfi_host_op(h), anfi_host_attrs(m, h)));
  anfi_opcode k = find_op(m->cx, op);
  return built(m, k == ANF_OP_NONE ? NULL : anfi_op_value(m, k));
}

static anf_node *call(anf_graph *g, anf_node *callee, size_t n, anf_node *const *args) {
  anf_node **in = ANFI_NEW_N(anfi_scratch(g->module->cx), anf_node *, n + 1);
  in[0] = callee;
  if (n) memcpy(in + 1, args, n * sizeof *in);
  return belong(g->module, n + 1, in) ? anfi_call(g, n + 1, in) : NULL;
}

anf_node *anf_call(anf_graph *g, anf_node *callee, size_t n, anf_node *const *args) {
  if (!given(g, "anf_call", 1, &callee) || !given(g, "anf_call", n, args)) return NULL;
  BUILD(g ? g->module : NULL);
  return built(g->module, call(g, callee, n, args));
}

static anf_node *op_call(anf_graph *g, const char *name, size_t n, anf_node *const *args,
                         size_t nattr, const anf_attr *attrs) {
  anf_module *m = g->module;
  if (!name || (nattr && !attrs)) {
    anfi_fail(m->cx, anfi_nowhere(), ANF_E0002, name ? "anf_op_attrs: 'attrs'" : "anf_op: 'op'");
    return NULL;
  }
  anfi_opcode op = find_op(m->cx, name);
  if (op == ANF_OP_NONE || !anfi_op_check_count(m->cx, op, n, anfi_nowhere())) return NULL;
  const anfi_schema *s = anfi_op_schema(m->cx, op);
  anfi_arena *a = anfi_scratch(m->cx);
  anf_value **values = ANFI_NEW_N(a, anf_value *, s->nattr);
  anf_node **nodes = ANFI_NEW_N(a, anf_node *, s->nattr),
           **in = ANFI_NEW_N(a, anf_node *, n + s->nattr);
  for (size_t i = 0; i < nattr; i++) {
    if (!attrs[i].name)
      return (void)anfi_fail(m->cx, anfi_nowhere(), ANF_E0002, "the name of an attribute"), NULL;
    int k = anfi_attr_index(m->cx, op, attrs[i].name);
    if (k < 0) return anfi_attr_unknown(m->cx, op, attrs[i].name, anfi_nowhere()), NULL;
    values[k] = attrs[i].value ? attrs[i].value : &anfi_from_node;
    nodes[k] = attrs[i].value ? NULL : attrs[i].node;
    if (!attrs[i].value && !nodes[k])
      return (void)anfi_fail(m->cx, anfi_nowhere(), ANF_E0002, "the value of an attribute"), NULL;
  }
  const anfi_attrs *record;
  if (!anfi_attrs_new(m, op, values, anfi_nowhere(), &record)) return NULL;
  size_t count = n;
  if (n) memcpy(in, args, n * sizeof *in);
  for (size_t k = 0; k < s->nattr; k++)
    if (nodes[k]) in[count++] = nodes[k];
  return belong(m, count, in) ? anfi_apply(g, op, record, count, in) : NULL;
}

anf_node *anf_op_attrs(anf_graph *g, const char *op, size_t n, anf_node *const *args, size_t nattr,
                       const anf_attr *attrs) {
  if (!g || !given(g, "anf_op", n, args)) return NULL;
  BUILD(g ? g->module : NULL);
  return built(g->module, op_call(g, op, n, args, nattr, attrs));
}

anf_node *anf_op(anf_graph *g, const char *op, size_t n, anf_node *const *args) {
  return anf_op_attrs(g, op, n, args, 0, NULL);
}

static anf_node *partial(anf_graph *g, anf_node *f, size_t n, anf_node *const *args) {
  anf_node **in = ANFI_NEW_N(anfi_scratch(g->module->cx), anf_node *, n + 1);
  in[0] = f;
  if (n) memcpy(in + 1, args, n * sizeof *in);
  return belong(g->module, n + 1, in) ? anfi_apply(g, ANF_OP_Partial, NULL, n + 1, in) : NULL;
}

anf_node *anf_partial(anf_graph *g, anf_node *f, size_t n, anf_node *const *args) {
  if (!given(g, "anf_partial", 1, &f) || !given(g, "anf_partial", n, args)) return NULL;
  BUILD(g ? g->module : NULL);
  return built(g->module, partial(g, f, n, args));
}

/* Entries that change existing nodes; they refuse to touch a module that has failed. */
static anf_status changed(anf_module *m) {
  anf_status st = anfi_leave(m->cx);
  if (m->status == ANF_OK) m->status = st;
  return st;
}
#define CHANGE(m)                                                                                  \
  if ((m)->status != ANF_OK) return (m)->status;                                                   \
  anfi_frame frame_;                                                                               \
  anfi_enter((m)->cx, (m)->diag, &frame_);                                                         \
  if (setjmp(frame_.jump)) return changed(m)

anf_status anf_return(anf_graph *g, anf_node *n) {
  if (!g) return ANF_INVALID;
  CHANGE(g->module);
  if (!n) anfi_fail(g->module->cx, anfi_nowhere(), ANF_E0002, "the result of a graph");
  else if (belong(g->module, 1, &n)) anfi_set_result(g, n);
  return changed(g->module);
}

anf_status anf_effect(anf_graph *g, anf_node *n) {
  if (!g || !given(g, "anf_effect", 1, &n)) return ANF_INVALID;
  CHANGE(g->module);
  if (n->graph == g && anfi_is_cnode(n)) anfi_add_effect(g, n);
  else anfi_fail(g->module->cx, anfi_nowhere(), ANF_E0204);
  return changed(g->module);
}

anf_status anf_node_set_input(anf_node *n, size_t i, anf_node *to) {
  if (!n || !n->graph) return ANF_INVALID;
  ANFI_NEED(n->graph->module->diag, to);
  size_t first = n->kind == ANFI_APPLY ? 1 : 0; // the public input 0 of an APPLY is its primitive
  if (i < first || i - first >= n->nin) return ANF_INVALID;
  anf_module *m = n->graph->module;
  CHANGE(m);
  if (belong(m, 1, &to)) anfi_set_input(n, i - first, to);
  return changed(m);
}

static anf_diag *diag_of(const anf_node *n) {
  return n && n->graph ? n->graph->module->diag : NULL;
}

anf_status anf_node_replace(anf_node *n, anf_node *by) {
  ANFI_NEED(diag_of(n ? n : by), n, by);
  anf_module *m = module_of(n, by);
  if (!m) return ANF_OK; // nothing uses it
  CHANGE(m);
  if (belong(m, 1, &by)) anfi_replace(n, by);
  return changed(m);
}

anf_status anf_node_move(anf_node *n, anf_graph *to) {
  ANFI_NEED(to ? to->module->diag : diag_of(n), n, to);
  if (!anfi_is_cnode(n) || n->graph->module != to->module) return ANF_INVALID;
  anfi_move(n, to);
  return ANF_OK;
}

anf_node_kind anf_node_get_kind(const anf_node *n) {
  return !n || n->kind == ANFI_VALUE ? ANF_NODE_VALUE
         : n->kind == ANFI_PARAM     ? ANF_NODE_PARAM
                                     : ANF_NODE_CNODE;
}
uint32_t anf_node_id(const anf_node *n) { return n ? n->id : 0; }
anf_graph *anf_node_graph(const anf_node *n) { return n ? n->graph : NULL; }
const anf_type *anf_node_type(const anf_node *n) { return n ? n->type : NULL; }
void anf_node_set_type(anf_node *n, const anf_type *t) {
  if (!n) return;
  n->type = t;
  if (n->graph) look_again(n);
}
const char *anf_node_op(const anf_node *n) {
  if (!n) return NULL;
  return n->op < ANF_OP_COUNT ? anfi_op[n->op].name : NULL;
}
anf_graph *anf_node_callee_graph(const anf_node *n) {
  if (!n) return NULL;
  return n->kind == ANFI_CALL ? anfi_value_graph(n->in[0].def) : anfi_value_graph(n);
}
const anf_value *anf_node_value(const anf_node *n) {
  if (!n) return NULL;
  return n->kind == ANFI_VALUE ? n->u.value : NULL;
}
size_t anf_node_input_count(const anf_node *n) {
  if (!n) return 0;
  return n->kind == ANFI_APPLY ? n->nin + 1u : n->nin;
}

anf_node *anf_node_input(const anf_node *n, size_t i) {
  if (!n) return NULL;
  if (n->kind != ANFI_APPLY) return i < n->nin ? n->in[i].def : NULL;
  if (i) return i - 1 < n->nin ? n->in[i - 1].def : NULL;
  anf_module *m = n->graph->module;
  BUILD(m);
  return built(m, n->u.attrs ? anfi_op_value_attrs(m, (anfi_opcode)n->op, n->u.attrs)
                             : anfi_op_value(m, (anfi_opcode)n->op));
}

const anf_value *anf_node_attr(const anf_node *n, const char *name) {
  if (!n || !name) return NULL;
  if (n->kind != ANFI_APPLY) return NULL;
  anf_ctx *cx = n->graph->module->cx;
  int k = anfi_attr_index(cx, (anfi_opcode)n->op, name);
  return k < 0 ? NULL : anfi_attr_value(cx, (anfi_opcode)n->op, n->u.attrs, (uint32_t)k);
}

const anf_use *anf_node_first_use(const anf_node *n) { return n ? n->uses : NULL; }
const anf_use *anf_use_next(const anf_use *u) { return u ? u->next : NULL; }
anf_node *anf_use_user(const anf_use *u) { return u ? u->user : NULL; }
size_t anf_use_index(const anf_use *u) {
  if (!u) return 0;
  return (size_t)(u - u->user->in) + (u->user->kind == ANFI_APPLY ? 1 : 0);
}
bool anf_node_is_used(const anf_node *n) { return n ? anfi_is_used(n) : false; }
