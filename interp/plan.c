// SPDX-License-Identifier: Apache-2.0
/* From a graph to a plan: CNodes in evaluation order become steps, operands become slots.
 *   %1 = Sin(x); %2 = Cos(%1); return %2    ->    slot 0 = Sin slot 0; slot 0 = Cos slot 0; return slot 0
 * A slot is free again after the last step that uses it, so a plan has as many slots as values live at one time, and a
 * running program holds no value that it does not need. Linear in the graph and in the captures of the graphs that it
 * makes function values of. */
#include "interp/interp.h"

typedef struct {
  /* the graph */
  anfi_program *p;
  anfi_plan *plan;
  anf_graph *g;
  const anfi_graph_info *info;
  anfi_arena *tmp;
  /* the plan */
  ANFI_VEC(uint32_t) operands; // of the step that is made
  ANFI_VEC(uint32_t) kills;
  ANFI_VEC(uint32_t) free; // slots
  uint32_t nslot;
} maker;

static bool broken(const maker *k, const char *why) {
  return anfi_fail(k->p->module->cx, anfi_nowhere(), ANF_E0420, k->g->name->s, why);
}

static uint32_t limited(const maker *k, size_t n) {
  if (n >= 1u << 30) anfi_throw_nomem(k->p->module->cx);
  return (uint32_t)n;
}

static void bind(maker *k, const anf_node *n, uint32_t operand) {
  k->p->owner[n->id] = k->g->id + 1;
  k->p->slot[n->id] = operand;
}

static bool is_local(const maker *k, const anf_node *n) { return n->graph == k->g; }

/* ---- the last use of every local ---- */

static void use(maker *k, const anf_node *n, uint32_t step) {
  if (is_local(k, n)) k->p->last[n->id] = step;
  const anf_graph *h = anfi_value_graph(n);
  const anfi_graph_info *hi = h ? &k->p->an->graphs[h->id] : NULL;
  for (size_t i = 0; hi && i < hi->free.n; i++)
    if (is_local(k, hi->free.at[i])) k->p->last[hi->free.at[i]->id] = step;
}

static void find_last_uses(maker *k) {
  for (size_t i = 0; i < k->g->params.n; i++) k->p->last[k->g->params.at[i]->id] = ANFI_NO_SLOT;
  for (size_t i = 0; i < k->info->order.n; i++) k->p->last[k->info->order.at[i]->id] = ANFI_NO_SLOT;
  for (size_t i = 0; i < k->info->order.n; i++)
    for (uint32_t j = 0; j < k->info->order.at[i]->nin; j++)
      use(k, k->info->order.at[i]->in[j].def, (uint32_t)i);
  use(k, k->g->result, limited(k, k->info->order.n));
}

/* ---- operands ---- */

/* The operand that holds n when the step runs. */
static bool find(maker *k, const anf_node *n, uint32_t *out) {
  if (k->p->owner[n->id] != k->g->id + 1) return broken(k, "a node is used before it is computed");
  *out = k->p->slot[n->id];
  return true;
}

static bool add_closure(maker *k, anf_graph *h, const anf_value *f, uint32_t *out) {
  const anfi_graph_info *hi = &k->p->an->graphs[h->id];
  uint32_t *in = ANFI_NEW_N(k->p->arena, uint32_t, hi->free.n);
  for (size_t i = 0; i < hi->free.n; i++)
    if (!find(k, hi->free.at[i], &in[i])) return false;
  *out = anfi_operand(ANFI_CLOSURE, limited(k, k->plan->closures.n));
  anfi_push(k->p->arena, &k->plan->closures,
            ((anfi_closure){.f = anfi_value_fn(f),
                            .self = h == k->g && !anfi_value_fn(f)->nbound,
                            .n = limited(k, hi->free.n),
                            .in = in}));
  return true;
}

static uint32_t add_const(maker *k, anf_value *v) {
  uint32_t at = limited(k, k->plan->consts.n);
  anfi_push(k->p->arena, &k->plan->consts, v);
  return anfi_operand(ANFI_CONST, at);
}

static bool operand_of(maker *k, const anf_node *n, uint32_t *out) {
  if (n->kind != ANFI_VALUE) return find(k, n, out);
  anf_graph *h = anfi_value_graph(n);
  if (h && k->p->an->graphs[h->id].free.n && !anfi_value_fn(n->u.value)->ncapture)
    return add_closure(k, h, n->u.value, out);
  *out = add_const(k, n->u.value);
  return true;
}

static bool add_operand(maker *k, const anf_node *n) {
  uint32_t o = 0;
  if (!operand_of(k, n, &o)) return false;
  anfi_push(k->tmp, &k->operands, o);
  return true;
}

/* ---- slots ---- */

static uint32_t new_slot(maker *k) {
  if (k->free.n) return k->free.at[--k->free.n];
  return limited(k, k->nslot++);
}

/* A node that dies in this step is forgotten at its first mention, so it is listed once. */
static void kill(maker *k, const anf_node *n, uint32_t step) {
  if (!is_local(k, n) || k->p->last[n->id] != step) return;
  k->p->last[n->id] = ANFI_NO_SLOT;
  anfi_push(k->tmp, &k->kills, anfi_operand_at(k->p->slot[n->id]));
}

static void find_kills(maker *k, const anf_node *used, uint32_t step) {
  kill(k, used, step);
  const anf_graph *h = anfi_value_graph(used);
  const anfi_graph_info *hi = h ? &k->p->an->graphs[h->id] : NULL;
  for (size_t i = 0; hi && i < hi->free.n; i++) kill(k, hi->free.at[i], step);
}

/* ---- steps ---- */

static const uint32_t *pack(maker *k, anfi_step *s) {
  s->nin = limited(k, k->operands.n);
  s->nkill = limited(k, k->kills.n);
  uint32_t *in = ANFI_NEW_N(k->p->arena, uint32_t, (size_t)s->nin + s->nkill);
  if (s->nin) memcpy(in, k->operands.at, s->nin * sizeof *in);
  if (s->nkill) memcpy(in + s->nin, k->kills.at, s->nkill * sizeof *in);
  for (size_t i = 0; i < s->nkill; i++) anfi_push(k->tmp, &k->free, k->kills.at[i]);
  return in;
}

static void set_attrs(maker *k, anfi_step *s, const anf_node *n) {
  anf_ctx *cx = k->p->module->cx;
  const anfi_schema *schema = anfi_op_schema(cx, (anfi_opcode)n->op);
  s->nattr_in = n->nin - limited(k, anfi_arg_count(n));
  s->attr = ANFI_NEW_N(k->p->arena, anf_value *, schema->nattr);
  for (uint32_t i = 0; i < schema->nattr; i++)
    s->attr[i] = anfi_attr_value(cx, (anfi_opcode)n->op, n->u.attrs, i);
}

static bool arity_is_good(const maker *k, const anf_node *n) {
  return anfi_op_takes(k->p->module->cx, (anfi_opcode)n->op, anfi_arg_count(n));
}

static bool is_elementwise(const maker *k, const anfi_step *s, const anf_node *n) {
  const anfi_op_info *op = anfi_op_of(n);
  return op->scalar && !op->eval && !anfi_op_schema(k->p->module->cx, (anfi_opcode)n->op)->nattr &&
         arity_is_good(k, n) && n->nin <= ANFI_LEN(s->seen);
}

/* Ops that only hand values on check their own arguments and make their own result, so they need no
 * types. */
static bool moves_values(const anfi_op_info *op) {
  static const char *const families[] = {"control", "tuples", "records"};
  for (size_t i = 0; i < ANFI_LEN(families); i++)
    if (strcmp(op->family, families[i]) == 0) return op->lower == ANFI_LOWER_CONTROL && op->eval;
  return false;
}

/* Anything that is not as expected becomes a STEP_OP, which checks and reports. */
static anfi_step_kind kind_of_apply(const maker *k, const anfi_step *s, const anf_node *n) {
  int64_t ignored;
  bool constant = s->nattr_in == 0;
  for (uint32_t i = 0; i < anfi_op_schema(k->p->module->cx, (anfi_opcode)n->op)->nattr; i++)
    constant &= s->attr[i] != NULL;
  if (!arity_is_good(k, n) || !constant) return ANFI_STEP_OP;
  switch (n->op) {
  case ANF_OP_Switch: return ANFI_STEP_SWITCH;
  case ANF_OP_MakeTuple: return ANFI_STEP_TUPLE;
  case ANF_OP_TupleGet:
    return anfi_value_is_int(s->attr[0], &ignored) ? ANFI_STEP_ITEM : ANFI_STEP_OP;
  default: return moves_values(anfi_op_of(n)) ? ANFI_STEP_CONTROL : ANFI_STEP_OP;
  }
}

/* An op that calls functions is called itself: its frame is where it waits for them. */
static void callee_of_apply(maker *k, const anf_node *n) {
  anfi_push(k->p->arena, k->p->held, NULL); // a place first: then nothing can fail between
  anf_value *f = anfi_value_new_fn(k->p->module->cx, NULL, n->op, n->u.attrs, 0, 0);
  k->p->held->at[k->p->held->n - 1] = f;
  anfi_push(k->tmp, &k->operands, add_const(k, f));
}

/* Does input 0 die here, in a slot of its own, as the op writes over it? */
static bool writes_over(const maker *k, const anfi_step *s, const anf_node *n) {
  if (s->kind != ANFI_STEP_OP || !(anfi_op_of(n)->flags & ANFI_WRITES_OVER) || !k->kills.n)
    return false;
  uint32_t o = k->operands.at[0];
  for (size_t i = 1; i < k->operands.n; i++)
    if (k->operands.at[i] == o) return false;
  for (size_t i = 0; i < k->kills.n; i++)
    if (o == anfi_operand(ANFI_LOCAL, k->kills.at[i])) return true;
  return false;
}

static bool make_step(maker *k, const anf_node *n, uint32_t at) {
  anfi_step *s = &k->plan->step[at];
  s->node = n;
  s->op = n->op;
  k->operands.n = k->kills.n = 0;
  bool last = at + 1 == k->info->order.n && k->g->result == n;
  bool calls = anfi_op_of(n)->flags & ANFI_CALLS;
  if (calls) callee_of_apply(k, n);
  for (uint32_t i = 0; i < n->nin; i++)
    if (!add_operand(k, n->in[i].def)) return false;
  for (uint32_t i = 0; i < n->nin; i++) find_kills(k, n->in[i].def, at);
  if (n->kind == ANFI_APPLY && !calls) {
    set_attrs(k, s, n);
    s->kind = (uint8_t)kind_of_apply(k, s, n);
    s->elementwise = s->kind == ANFI_STEP_OP && is_elementwise(k, s, n);
    s->over = writes_over(k, s, n);
  } else s->kind = last ? ANFI_STEP_TAIL : ANFI_STEP_CALL;
  s->in = pack(k, s);
  bool needed = k->p->last[n->id] != ANFI_NO_SLOT;
  s->dst = needed ? new_slot(k) : ANFI_NO_SLOT;
  bind(k, n, anfi_operand(ANFI_LOCAL, s->dst));
  return true;
}

static bool make_return(maker *k, uint32_t at) {
  anfi_step *s = &k->plan->step[at];
  *s = (anfi_step){
      .kind = ANFI_STEP_RETURN, .op = ANF_OP_NONE, .dst = ANFI_NO_SLOT, .node = k->g->result};
  k->operands.n = k->kills.n = 0;
  if (!add_operand(k, k->g->result)) return false;
  s->in = pack(k, s);
  return true;
}

static void make_params(maker *k) {
  anfi_plan *pl = k->plan;
  uint32_t *unused = ANFI_NEW_N(k->p->arena, uint32_t, pl->nparam);
  pl->declared = ANFI_NEW_N(k->p->arena, const anf_type *, pl->nparam);
  for (uint32_t i = 0; i < pl->nparam; i++) {
    const anf_node *n = k->g->params.at[i];
    bind(k, n, anfi_operand(ANFI_LOCAL, i));
    if (n->type && !anfi_type_is_any(n->type)) pl->declared[i] = n->type;
    pl->checked |= pl->declared[i] != NULL;
    if (k->p->last[n->id] != ANFI_NO_SLOT) continue;
    unused[pl->nunused++] = i;
    anfi_push(k->tmp, &k->free, i);
  }
  pl->unused = unused;
  k->nslot = pl->nparam;
}

static bool make(maker *k) {
  anfi_plan *pl = k->plan;
  find_last_uses(k);
  make_params(k);
  for (size_t i = 0; i < k->info->free.n; i++)
    bind(k, k->info->free.at[i], anfi_operand(ANFI_CAPTURE, limited(k, i)));
  pl->step = ANFI_NEW_N(k->p->arena, anfi_step, k->info->order.n + 1);
  for (size_t i = 0; i < k->info->order.n; i++)
    if (!make_step(k, k->info->order.at[i], (uint32_t)i)) return false;
  pl->nstep = limited(k, k->info->order.n + 1);
  pl->nslot = k->nslot;
  return make_return(k, pl->nstep - 1);
}

const anfi_plan *anfi_plan_make(anfi_program *p, anf_graph *g) {
  maker k = {.p = p, .g = g, .tmp = anfi_scratch(p->module->cx)};
  if (g->removed || g->id >= p->an->ngraph || !g->result) {
    broken(&k, g->removed ? "it was removed" : "it has no result");
    return NULL;
  }
  k.info = &p->an->graphs[g->id];
  k.plan = ANFI_NEW(p->arena, anfi_plan);
  k.plan->graph = g;
  k.plan->nparam = limited(&k, g->params.n);
  k.plan->ncapture = limited(&k, k.info->free.n);
  if (!make(&k)) return NULL;
  p->plans[g->id] = k.plan;
  return k.plan;
}
