// SPDX-License-Identifier: Apache-2.0
/* The steps of a plan.
 *   Mul(x, x), step {ANFI_STEP_OP, in = local 0 and local 0, dst = 1}   ->   slot[base + 1] = the product
 * Inputs of primitives are borrowed from the frame; arguments of calls and items of tuples are new references on the
 * stack, since they outlive it.
 * ORDER: a step releases values whose live range ends with it before it stores its result, which may reuse their slot. */
#include "interp/interp.h"
#include "ir/ops/kernel.h"

typedef anfi_machine machine;
typedef anfi_call_frame frame;
typedef anfi_step step;

/* ---- operands ---- */

static const anfi_fn *running(const machine *m, const frame *f) {
  return anfi_value_fn(m->slot[f->base - 1]);
}

/* Of an operand that exists already. */
static anf_value *look(const machine *m, const frame *f, uint32_t o) {
  uint32_t at = anfi_operand_at(o);
  switch (anfi_operand_kind(o)) {
  case ANFI_LOCAL: return m->slot[f->base + at];
  case ANFI_CAPTURE: return running(m, f)->at[at];
  default: return f->plan->consts.at[at];
  }
}

static anf_value *new_closure(const machine *m, const frame *f, const anfi_closure *c) {
  const anfi_fn *code = c->f;
  if (c->self && !running(m, f)->nbound) return anfi_keep(m->slot[f->base - 1]);
  anf_value *v = anfi_value_new_fn(m->cx, code->graph, ANF_OP_NONE, NULL, c->n, code->nbound);
  anfi_fn *fn = anfi_value_fn(v);
  for (uint32_t i = 0; i < c->n; i++) fn->at[i] = anfi_keep(look(m, f, c->in[i]));
  for (uint32_t i = 0; i < code->nbound; i++) fn->at[c->n + i] = anfi_keep(code->at[i]);
  return v;
}

static anf_value *make(const machine *m, const frame *f, uint32_t o) {
  if (anfi_operand_kind(o) == ANFI_CLOSURE)
    return new_closure(m, f, &f->plan->closures.at[anfi_operand_at(o)]);
  return anfi_keep(look(m, f, o));
}

/* The value of operand o, borrowed; one made for this step alone is owned by the stack. */
static anf_value *borrow(machine *m, const frame *f, uint32_t o) {
  if (anfi_operand_kind(o) != ANFI_CLOSURE) return look(m, f, o);
  anf_value *v = make(m, f, o);
  anfi_machine_push(m, v);
  return v;
}

static void push_all(machine *m, const frame *f, const step *s) {
  anfi_machine_reserve(m, s->nin);
  for (uint32_t i = 0; i < s->nin; i++) anfi_machine_push(m, make(m, f, s->in[i]));
}

static void drop_dead(machine *m, const frame *f, const step *s) {
  const uint32_t *dead = s->in + s->nin;
  for (uint32_t i = 0; i < s->nkill; i++) {
    anf_value **at = &m->slot[f->base + dead[i]];
    anfi_drop(*at);
    *at = NULL;
  }
}

static bool done(machine *m, const frame *f, const step *s, anf_value *v) {
  drop_dead(m, f, s);
  if (s->dst == ANFI_NO_SLOT) anfi_drop(v);
  else m->slot[f->base + s->dst] = v;
  return true;
}

/* ---- primitives ---- */

anf_value **anfi_machine_args(machine *m, size_t n) {
  if (m->arg_cap >= n) return m->arg;
  size_t want = m->arg_cap ? m->arg_cap * 2 : 16;
  if (want < n) want = n;
  anf_value **p = (anf_value **)anfi_raw(m->cx, m->arg, m->arg_cap * sizeof *p,
                                         anfi_size_mul(m->cx, want, sizeof *p));
  if (!p) anfi_throw_nomem(m->cx);
  m->arg = p;
  m->arg_cap = want;
  return p;
}

/* Multiplications of a product, about: each element of a meets those of b that share the dim summed over. */
static double multiplications(uint16_t op, size_t n, anf_value *const *in) {
  anfi_lower l = anfi_op[op].lower;
  if (n < 2 || (l != ANFI_LOWER_CONTRACT && l != ANFI_LOWER_WINDOW)) return 0;
  const anf_value *a = in[0], *b = in[1];
  if (a->kind != ANF_VALUE_TENSOR || b->kind != ANF_VALUE_TENSOR || !a->type->n || !a->n) return 0;
  return (double)a->n * (double)b->n / (double)a->type->dims[a->type->n - 1];
}

enum { MULTIPLICATIONS = 8 }; // of a product, in the time of one element of another operation

static double work_of(uint16_t op, size_t n, anf_value *const *in) {
  double work = multiplications(op, n, in) / (double)MULTIPLICATIONS;
  for (size_t i = 0; i < n; i++)
    if (in[i]->kind == ANF_VALUE_TENSOR) work += (double)in[i]->n;
  return work;
}

/* Counted before it is done; false: it is too much. */
static bool may_work(machine *m, uint16_t op, size_t n, anf_value *const *in) {
  double work = work_of(op, n, in);
  if (work > (double)m->max_work) return anfi_machine_give_up(m);
  m->work += (uint64_t)work;
  return m->work <= m->max_work || anfi_machine_give_up(m);
}

/* The clock is read after each op that may have taken a good part of a limit, and not with the steps alone. */
enum { LONG_WORK = 1 << 16 };

static bool is_late(machine *m, uint16_t op, size_t n, anf_value *const *in) {
  return m->end && work_of(op, n, in) > (double)LONG_WORK && !anfi_machine_in_time(m);
}

bool anfi_machine_eval(machine *m, uint16_t op, size_t n, anf_value *const *in,
                       anf_value *const *attr, bool over, anf_value **out) {
  const anfi_op_info *info = &anfi_op[op];
  anfi_eval q = {.cx = m->cx,
                 .op = (anfi_opcode)op,
                 .loc = anfi_machine_loc(m),
                 .n = n,
                 .in = in,
                 .attr = attr,
                 .over = over};
  if ((info->flags & ANFI_TRANSFORM) && !info->eval)
    return anfi_fail(m->cx, q.loc, ANF_E0417, info->name);
  if ((m->max_work && !may_work(m, op, n, in)) || !anfi_eval_op(&q)) return false;
  if (is_late(m, op, n, in)) return anf_value_release(q.out), false;
  *out = q.out;
  if (q.out->kind == ANF_VALUE_TENSOR) m->work += q.out->n;
  return true;
}

/* Inputs of the step, then its attributes by schema index. */
static anf_value **inputs(machine *m, const frame *f, const step *s, size_t nattr) {
  anf_value **a = anfi_machine_args(m, s->nin + nattr);
  anfi_machine_reserve(m, s->nin);
  for (uint32_t i = 0; i < s->nin; i++) a[i] = borrow(m, f, s->in[i]);
  size_t from = s->nin - s->nattr_in;
  for (size_t k = 0; k < nattr; k++)
    a[s->nin + k] = s->attr[k] || from == s->nin ? s->attr[k] : a[from++];
  return a;
}

static bool seen_before(const step *s, anf_value *const *in) {
  for (uint32_t i = 0; i < s->nin; i++)
    if (in[i]->kind != ANF_VALUE_TENSOR || in[i]->type != s->seen[i]) return false;
  return s->type != NULL;
}

/* Is there a number without a type, other than the text's own, that the result's type need not hold? Each one is checked. */
static bool has_open_number(const step *s, anf_value *const *in, const anf_value *v) {
  anf_dtype d = (anf_dtype)v->type->dtype;
  if (!anfi_dtype_is_int(d) || anfi_dtype_holds(d, INT64_MIN, INT64_MAX)) return false;
  for (uint32_t i = 0; i < s->nin; i++)
    if (in[i]->type->dtype == ANF_INT && s->node->in[i].def->kind != ANFI_VALUE) return true;
  return false;
}

/* The short way for types that this step has had before: no inference, no frame of its own. */
static bool elementwise_step(machine *m, const frame *f, step *s) {
  size_t sp = m->sp;
  anf_value **in = inputs(m, f, s, 0), *v = NULL;
  if (!seen_before(s, in)) {
    if (!anfi_machine_eval(m, s->op, s->nin, in, NULL, false, &v)) return false;
    for (uint32_t i = 0; i < s->nin; i++) s->seen[i] = in[i]->type;
    s->type = has_open_number(s, in, v) ? NULL : v->type;
    if (m->watch) m->watch(m->watch_user, s->node, s->nin, in, v);
    anfi_machine_drop_to(m, sp);
    return done(m, f, s, v);
  }
  if (m->max_work && s->type->n && !may_work(m, s->op, s->nin, in)) return false;
  v = m->acc = anfi_value_new_tensor(m->cx, s->type);
  m->work += v->n;
  anfi_eval q = {.cx = m->cx,
                 .op = (anfi_opcode)s->op,
                 .loc = anfi_node_loc(s->node),
                 .n = s->nin,
                 .in = in,
                 .type = s->type,
                 .out = v};
  if (!anfi_eval_scalar(&q)) return false;
  m->acc = NULL;
  if (m->watch) m->watch(m->watch_user, s->node, s->nin, in, v);
  return done(m, f, s, v);
}

static bool op_step(machine *m, const frame *f, const step *s) {
  size_t sp = m->sp;
  anf_value **a = inputs(m, f, s, anfi_op_schema(m->cx, (anfi_opcode)s->op)->nattr), *v = NULL;
  bool over = s->over && a[0]->refs == 1 && !a[0]->wrapped && !m->watch;
  anf_value **attrs = a ? a + s->nin : NULL; // NULL: an op without either
  if (!anfi_machine_eval(m, s->op, s->nin - s->nattr_in, a, attrs, over, &v)) return false;
  if (m->watch) m->watch(m->watch_user, s->node, s->nin, a, v);
  anfi_machine_drop_to(m, sp);
  return done(m, f, s, v);
}

static anf_status hook(anfi_eval *q) {
  ANFI_ENTRY(q->cx, NULL);
  if (!anfi_op[q->op].eval(q) && !anfi_failed(q->cx))
    anfi_fail(q->cx, q->loc, ANF_E0001, anfi_op[q->op].name);
  return anfi_leave(q->cx);
}

static bool control_step(machine *m, const frame *f, const step *s) {
  size_t sp = m->sp;
  anf_value **a = inputs(m, f, s, anfi_op_schema(m->cx, (anfi_opcode)s->op)->nattr);
  anfi_eval q = {.cx = m->cx,
                 .op = (anfi_opcode)s->op,
                 .loc = anfi_machine_loc(m),
                 .n = s->nin,
                 .in = a,
                 .attr = a + s->nin,
                 .scratch = &m->scratch};
  anf_status st = hook(&q);
  if (st != ANF_OK) {
    anf_value_release(q.out);
    if (st == ANF_NOMEM) anfi_throw_nomem(m->cx);
    m->cx->frame->status = st;
    return false;
  }
  anfi_arena_free(&m->scratch);
  anfi_machine_drop_to(m, sp);
  return done(m, f, s, q.out);
}

/* ---- steps without a kernel ---- */

static bool switch_step(machine *m, const frame *f, const step *s) {
  if (anfi_operand_kind(s->in[0]) == ANFI_CLOSURE) return control_step(m, f, s);
  const anf_value *c = look(m, f, s->in[0]);
  if (c->kind != ANF_VALUE_TENSOR || c->type->n || c->type->dtype != ANF_BOOL)
    return control_step(m, f, s);
  return done(m, f, s, make(m, f, s->in[c->data[0] ? 1 : 2]));
}

static bool tuple_step(machine *m, const frame *f, const step *s) {
  size_t sp = m->sp;
  push_all(m, f, s);
  anf_value *v = anfi_value_new_tuple(m->cx, s->nin);
  if (s->nin) memcpy(v->u.item, m->slot + sp, s->nin * sizeof *v->u.item);
  m->sp = sp; // the references moved
  return done(m, f, s, v);
}

static bool item_step(machine *m, const frame *f, const step *s) {
  if (anfi_operand_kind(s->in[0]) == ANFI_CLOSURE) return control_step(m, f, s);
  const anf_value *t = look(m, f, s->in[0]);
  int64_t i = 0;
  anfi_value_is_int(s->attr[0], &i);
  if (i < 0) i += (int64_t)t->n;
  if (t->kind != ANF_VALUE_TUPLE || i < 0 || (uint64_t)i >= t->n) return control_step(m, f, s);
  return done(m, f, s, anfi_keep(t->u.item[i]));
}

static bool call_step(machine *m, const frame *f, const step *s) {
  size_t p = m->sp;
  push_all(m, f, s);
  drop_dead(m, f, s);
  return anfi_machine_call(m, p, s->kind == ANFI_STEP_TAIL);
}

bool anfi_step_run(machine *m, frame *f) {
  step *s = &f->plan->step[f->pc++];
  switch ((anfi_step_kind)s->kind) {
  case ANFI_STEP_OP: return s->elementwise ? elementwise_step(m, f, s) : op_step(m, f, s);
  case ANFI_STEP_CONTROL: return control_step(m, f, s);
  case ANFI_STEP_SWITCH: return switch_step(m, f, s);
  case ANFI_STEP_TUPLE: return tuple_step(m, f, s);
  case ANFI_STEP_ITEM: return item_step(m, f, s);
  case ANFI_STEP_CALL:
  case ANFI_STEP_TAIL: return call_step(m, f, s);
  case ANFI_STEP_RETURN: break;
  }
  m->acc = make(m, f, s->in[0]);
  return anfi_machine_leave(m);
}
