// SPDX-License-Identifier: Apache-2.0
/* Compiles the tree of a function to the interpreter's code.
 *
 *   b = (b + A[i])     →     r7 = address A r3;  r8 = load r7;  r2 = add r2 r8
 *
 * Running the code needs no C stack, so only memory bounds recursion. INVARIANT: a temporary lives until the end of
 * its statement, a variable as long as its frame. */
#include "backend/tir/interp/interp.h"

typedef struct comp {
  iprog *p;
  icode *o;
  anfi_map regs;  // variable → 1 + register
  anfi_map unset; // variables that may have no value
  uint32_t top;   // next free register
} comp;

static uint32_t expr(comp *c, texpr e);

static uint32_t temp(comp *c, uint32_t n) {
  uint32_t r = c->top;
  if (n > UINT32_MAX / 4 - r) anfi_throw_nomem(c->p->a->cx);
  c->top += n;
  if (c->top > c->o->nreg) c->o->nreg = c->top;
  return r;
}
static ins *emit(comp *c, iop op) {
  anfi_push(c->p->a, &c->o->code, ((ins){.op = (uint8_t)op, .n = 1}));
  return &c->o->code.at[c->o->code.n - 1];
}
static uint32_t here(const comp *c) { return (uint32_t)c->o->code.n; }
static void patch(comp *c, uint32_t at) { c->o->code.at[at].x = here(c); }
static uint32_t jump(comp *c, iop op, uint32_t a) {
  ins *i = emit(c, op);
  i->a = a;
  return here(c) - 1;
}
static void jump_to(comp *c, uint32_t x) { emit(c, I_JMP)->x = x; }
static void move(comp *c, uint32_t d, uint32_t a, uint32_t n) {
  if (d == a) return;
  ins *i = emit(c, I_MOV);
  i->d = d, i->a = a, i->n = n;
}
static uint32_t aux(comp *c, uint32_t n, const uint32_t *r) {
  uint32_t at = (uint32_t)c->o->aux.n;
  for (uint32_t i = 0; i < n; i++) anfi_push(c->p->a, &c->o->aux, r[i]);
  return at;
}
/* A constant of the code alone: running leaves the module's store as it is. */
static uint32_t number(comp *c, uint64_t v) {
  struct anf_tir_expr_node *k = ANFI_NEW(c->p->a, struct anf_tir_expr_node);
  uint64_t *bits = ANFI_NEW(c->p->a, uint64_t);
  *bits = v;
  k->u.k.bits = bits;
  k->u.k.n = 1;
  uint32_t d = temp(c, 1);
  ins *i = emit(c, I_CONST);
  i->d = d, i->node = k;
  return d;
}

/* The registers of a variable or tensor; a tensor of the module is fetched. */
static uint32_t reg_of(comp *c, texpr v) {
  uint64_t *at = anfi_map_find(&c->regs, anfi_key(v));
  if (at) return (uint32_t)*at - 1;
  uint64_t *g = anfi_map_find(&c->p->globals, anfi_key(v));
  uint32_t r = temp(c, anfi_t_cells(v));
  ins *i = emit(c, g ? I_GLOBAL : I_UNSET); // neither: used before its definition
  i->d = r, i->n = anfi_t_cells(v), i->x = g ? (uint32_t)*g - 1 : 0;
  if (!g) {
    i = emit(c, I_CHECK);
    i->a = r, i->node = v, i->x = 1;
  }
  return r;
}

static uint32_t variable(comp *c, texpr v) { // a new one
  uint32_t r = temp(c, anfi_t_cells(v));
  *anfi_map_at(&c->regs, anfi_key(v)) = r + 1;
  return r;
}

/* As signed 64 bits, for addresses and counts */
static uint32_t wide(comp *c, texpr e) {
  uint32_t a = expr(c, e);
  if (anfi_t_bytes(e->dtype) == 8 && !anfi_t_is_float(e->dtype)) return a;
  uint32_t d = temp(c, 1);
  ins *i = emit(c, I_CAST);
  i->d = d, i->a = a, i->t = anfi_t_dt(ANF_TIR_s64), i->from = e->dtype;
  return d;
}

static uint32_t address(comp *c, texpr e, uint32_t *tensor, uint32_t *mask) {
  uint32_t few[16], *idx = e->nidx <= 16 ? few : ANFI_NEW_N(c->p->a, uint32_t, e->nidx);
  *tensor = reg_of(c, e->in[0]);
  for (uint32_t k = 0; k < e->nidx; k++) idx[k] = wide(c, e->in[1 + k]);
  texpr m = e->kind == TX_indexing ? anfi_t_mask(e) : NULL;
  *mask = m ? expr(c, m) + 1 : 0;
  uint32_t b = aux(c, e->nidx, idx), d = temp(c, 1);
  ins *i = emit(c, I_ADDR);
  i->d = d, i->a = *tensor, i->b = b, i->c = *mask, i->node = e;
  return d;
}

static uint32_t short_circuit(comp *c, texpr e) {
  uint32_t d = temp(c, 1);
  move(c, d, expr(c, e->in[0]), 1);
  uint32_t skip = jump(c, e->kind == TX_logic_and ? I_JZ : I_JNZ, d);
  move(c, d, expr(c, e->in[1]), 1);
  patch(c, skip);
  return d;
}

static uint32_t operands(comp *c, texpr e, iop op, uint32_t n) {
  uint32_t r[3] = {0};
  for (uint32_t k = 0; k < n; k++) r[k] = expr(c, e->in[k]);
  uint32_t lanes = anfi_t_total(e->dtype), d = temp(c, lanes);
  ins *i = emit(c, op);
  i->d = d, i->a = r[0], i->b = r[1], i->c = r[2], i->n = lanes;
  i->t = op == I_CAST ? e->dtype : e->in[n == 3 && op == I_SELECT ? 1 : 0]->dtype;
  i->from = e->in[0]->dtype;
  i->sub = op == I_LANE ? e->sub : e->kind;
  i->x = anfi_t_total(e->in[0]->dtype);
  i->node = e;
  return d;
}

static uint32_t intrinsic(comp *c, texpr e) {
  if (anfi_t_lanewise((tintrin)e->sub)) return operands(c, e, I_LANE, e->n);
  uint32_t *r = ANFI_NEW_N(c->p->a, uint32_t, e->n);
  for (uint32_t k = 0; k < e->n; k++) r[k] = expr(c, e->in[k]);
  uint32_t at = aux(c, e->n, r), lanes = anfi_t_is_void(e->dtype) ? 0 : anfi_t_total(e->dtype),
           d = temp(c, lanes);
  ins *i = emit(c, I_INTRIN);
  i->d = d, i->a = at, i->n = lanes, i->t = e->dtype, i->node = e, i->sub = e->sub;
  return d;
}

/* Counts from begin to end: the caller emits the body and then loop_end. */
typedef struct counted {
  uint32_t prep, next, var;
} counted;

static counted loop_begin(comp *c, tdtype t, uint32_t b, uint32_t e, uint32_t s, uint32_t var,
                          const void *node, bool is_stmt) {
  uint32_t prep = temp(c, 2);
  ins *i = emit(c, I_PREP);
  i->d = prep, i->a = b, i->b = e, i->c = s, i->t = t, i->node = node, i->x = is_stmt;
  counted k = {prep, here(c), var};
  i = emit(c, I_NEXT);
  i->d = prep, i->a = var, i->c = s, i->t = t;
  return k;
}
static void loop_end(comp *c, counted k) {
  jump_to(c, k.next);
  patch(c, k.next);
}

static void par_begin(comp *c, uint32_t mark) {
  if (c->p->checked) emit(c, I_PAR)->d = mark;
}
static void par_mark(comp *c, iop op, uint32_t mark) {
  if (c->p->checked) emit(c, op)->a = mark;
}

static uint32_t emit_call(comp *c, uint32_t func, uint32_t ptr, uint32_t n, const uint32_t *args,
                          tdtype ret, texpr e) {
  uint32_t at = aux(c, n, args), lanes = anfi_t_is_void(ret) ? 0 : anfi_t_total(ret),
           d = temp(c, lanes);
  ins *i = emit(c, ptr ? I_CALLP : I_CALL);
  i->d = d, i->a = at, i->b = n, i->c = ptr ? ptr - 1 : 0, i->x = func, i->t = ret, i->n = lanes,
  i->node = e;
  return d;
}

/* anf_rt_parallel(closure, stream, data, env, begin, end, step, threads) as a loop of calls */
static uint32_t closure_loop(comp *c, texpr e, const uint32_t *r) {
  uint32_t mark = temp(c, 1), var = temp(c, 1);
  par_begin(c, mark);
  counted k = loop_begin(c, anfi_t_dt(ANF_TIR_s64), r[4], r[5], r[6], var, e, false);
  par_mark(c, I_PARITER, mark);
  emit_call(c, 0, r[0] + 1, 4, (const uint32_t[]){r[1], r[2], var, r[3]}, anfi_t_dt(ANF_TIR_void),
            e);
  loop_end(c, k);
  par_mark(c, I_PAREND, mark);
  return 0;
}

static uint32_t func_place(const comp *c, const anfi_str *name) {
  const tmod *m = c->p->m;
  uint64_t *at = anfi_map_find(&m->by_name, anfi_key(name));
  return at ? (uint32_t)*at - 1 : UINT32_MAX;
}

static uint32_t parallel_call(comp *c, texpr e, uint32_t n, const uint32_t *args, uint32_t place) {
  uint32_t npar, marks[8], *all = ANFI_NEW_N(c->p->a, uint32_t, (size_t)n + 8);
  const texpr *tri = anfi_t_triples(e, &npar);
  counted k[8];
  if (npar > 8) npar = 8; // the validator admits no more
  for (uint32_t p = 0; p < npar; p++) {
    uint32_t b = expr(c, tri[3 * p]), en = expr(c, tri[3 * p + 1]), s = expr(c, tri[3 * p + 2]);
    all[p] = temp(c, 1);
    par_begin(c, marks[p] = temp(c, 1));
    k[p] = loop_begin(c, tri[3 * p]->dtype, b, en, s, all[p], e, false);
    par_mark(c, I_PARITER, marks[p]);
  }
  if (n) memcpy(all + npar, args, n * sizeof *args);
  emit_call(c, place, 0, n + npar, all, anfi_t_dt(ANF_TIR_void), e);
  while (npar--) {
    loop_end(c, k[npar]);
    par_mark(c, I_PAREND, marks[npar]);
  }
  return 0;
}

/* A function that is only declared: the host may know it. */
static uint32_t outside(comp *c, texpr e, uint32_t place, const uint32_t *args) {
  uint32_t d = temp(c, anfi_t_total(e->dtype)), at = aux(c, e->nidx, args);
  ins *i = emit(c, I_OUTSIDE);
  i->d = d, i->a = at, i->b = e->nidx, i->x = place, i->node = e;
  return d;
}

static uint32_t call(comp *c, texpr e) {
  uint32_t *r = ANFI_NEW_N(c->p->a, uint32_t, e->nidx), npar;
  for (uint32_t k = 0; k < e->nidx; k++) r[k] = expr(c, e->in[k]);
  anfi_t_triples(e, &npar);
  if (!e->u.name)
    return emit_call(c, 0, expr(c, anfi_t_callee_ptr(e)) + 1, e->nidx, r, e->dtype, e);
  uint32_t place = func_place(c, e->u.name);
  tfunc f = place == UINT32_MAX ? NULL : c->p->m->func.at[place];
  int rt = f && f->body ? -1 : anfi_t_rt_of(e->u.name->s);
  if (rt == TRT_anf_rt_parallel && e->nidx == 8) return closure_loop(c, e, r);
  if (rt >= 0) place = I_RT_BASE + (uint32_t)rt;
  else if (!f || !f->body) return outside(c, e, place, r);
  return npar ? parallel_call(c, e, e->nidx, r, place)
              : emit_call(c, place, 0, e->nidx, r, e->dtype, e);
}

static uint32_t load(comp *c, texpr e) {
  uint32_t tensor, mask, a = address(c, e, &tensor, &mask), n = anfi_t_total(e->dtype),
                         d = temp(c, n);
  ins *i = emit(c, I_LOAD);
  i->d = d, i->a = a, i->b = tensor, i->c = mask, i->n = n, i->t = e->dtype, i->node = e;
  return d;
}

static uint32_t constant(comp *c, texpr e) {
  uint32_t d = temp(c, anfi_t_total(e->dtype));
  ins *i = emit(c, I_CONST);
  i->d = d, i->n = anfi_t_total(e->dtype), i->node = e;
  return d;
}

static uint32_t expr(comp *c, texpr e) {
  uint32_t tensor, mask;
  switch ((tkind)e->kind) { /* dispatch */
  case TX_constant: return constant(c, e);
  case TX_tensor: return reg_of(c, e);
  case TX_var: {
    uint32_t r = reg_of(c, e);
    if (c->p->checked && anfi_map_find(&c->unset, anfi_key(e))) {
      ins *i = emit(c, I_CHECK);
      i->a = r, i->node = e, i->x = 0;
    }
    return r;
  }
  case TX_cast: return operands(c, e, I_CAST, 1);
  case TX_logic_and:
  case TX_logic_or:
    if (anfi_t_total(e->dtype) == 1) return short_circuit(c, e);
    return operands(c, e, I_BIN, 2);
  case TX_logic_not: return operands(c, e, I_NOT, 1);
  case TX_select: return operands(c, e, I_SELECT, 3);
  case TX_indexing: return load(c, e);
  case TX_tensorptr: return address(c, e, &tensor, &mask);
  case TX_call: return call(c, e);
  case TX_intrin_call: return intrinsic(c, e);
  case TX_func_addr: return number(c, UINT64_C(0xfffff) << 44 | func_place(c, e->u.name));
  case TX_ssa_phi: return expr(c, e->in[0]); // outside of its places: the validator's to report
  default: return operands(c, e, I_BIN, 2);
  }
}

/* ---- statements ---- */

static void stmt(comp *c, tstmt s, uint32_t edge);

static bool is_phi(tstmt s, bool loop) {
  return s->kind == TS_define && anfi_t_isa(s->e[1], TX_ssa_phi) && s->e[1]->sub == loop;
}

/* Variables of neighbouring phis take their values at once. `first` is 0 for the first value. */
static uint32_t phis(comp *c, tstmt seq, uint32_t at, bool loop, uint32_t first) {
  uint32_t n = 0;
  while (at + n < seq->n && is_phi(seq->s[at + n], loop)) n++;
  uint32_t *dst = ANFI_NEW_N(c->p->a, uint32_t, n), *tmp = ANFI_NEW_N(c->p->a, uint32_t, n);
  for (uint32_t k = 0; k < n; k++) { // kept when met again: the loop's other values refer to them
    uint64_t *have = anfi_map_find(&c->regs, anfi_key(seq->s[at + k]->e[0]));
    dst[k] = have ? (uint32_t)*have - 1 : variable(c, seq->s[at + k]->e[0]);
  }
  uint32_t kept = c->top;
  for (uint32_t k = 0; k < n; k++) {
    texpr phi = seq->s[at + k]->e[1];
    uint32_t cells = anfi_t_total(phi->dtype);
    tmp[k] = temp(c, cells);
    uint32_t other = jump(c, I_JNZ, first);
    move(c, tmp[k], expr(c, phi->in[0]), cells);
    uint32_t end = jump(c, I_JMP, 0);
    patch(c, other);
    move(c, tmp[k], expr(c, phi->in[phi->n - 1]), cells);
    patch(c, end);
  }
  for (uint32_t k = 0; k < n; k++)
    move(c, dst[k], tmp[k], anfi_t_total(seq->s[at + k]->e[0]->dtype));
  c->top = kept;
  return n;
}

/* Registers of variables that a loop phi takes from the end of the body must exist before it. */
static void declare_all(comp *c, tstmt s) {
  for (uint32_t i = 0; i < s->n; i++) {
    tstmt x = s->s[i];
    if (!x) continue;
    if (x->kind == TS_define && x->e[0]->kind == TX_var &&
        !anfi_map_find(&c->regs, anfi_key(x->e[0])))
      variable(c, x->e[0]);
    if (x->kind == TS_stmts) declare_all(c, x);
  }
}

static void sequence(comp *c, tstmt s, uint32_t from) {
  bool tensors = false;
  uint32_t mark = 0;
  for (uint32_t i = from; i < s->n && !tensors; i++)
    tensors = s->s[i]->kind == TS_define && s->s[i]->e[0]->kind == TX_tensor;
  if (tensors) emit(c, I_MARK)->d = mark = temp(c, 1);
  for (uint32_t i = from; i < s->n; i++) {
    bool phi_next = i + 1 < s->n && is_phi(s->s[i + 1], false);
    uint32_t edge = phi_next ? temp(c, 1) + 1 : 0;
    stmt(c, s->s[i], edge);
    if (phi_next) i += phis(c, s, i + 1, false, edge - 1);
  }
  if (tensors) emit(c, I_FREE)->a = mark;
}

static void tensor_registers(comp *c, texpr v, uint32_t r) {
  for (uint32_t k = 0; k < v->n; k++) move(c, r + 1 + k, wide(c, v->in[k]), 1);
  ins *i = emit(c, I_DIMS);
  i->d = r, i->node = v;
}

static void define(comp *c, tstmt s) {
  texpr v = s->e[0];
  uint64_t *have = anfi_map_find(&c->regs, anfi_key(v));
  uint32_t r = have ? (uint32_t)*have - 1 : variable(c, v), keep = c->top;
  if (v->kind == TX_tensor) {
    tensor_registers(c, v, r);
    bool list = s->e[1] && s->e[1]->kind == TX_constant && s->e[1]->sub;
    if (s->e[1] && !list) move(c, r, expr(c, s->e[1]), 1);
    else {
      ins *i = emit(c, I_ALLOC);
      i->d = r, i->node = v;
    }
    if (list) {
      ins *i = emit(c, I_FILL);
      i->d = r, i->node = s->e[1], i->n = 1u + v->nidx;
    }
  } else if (s->e[1]) move(c, r, expr(c, s->e[1]), anfi_t_cells(v));
  else {
    *anfi_map_at(&c->unset, anfi_key(v)) = 1;
    ins *i = emit(c, I_UNSET);
    i->d = r, i->n = anfi_t_cells(v);
  }
  c->top = keep;
}

static void assign(comp *c, tstmt s) {
  texpr to = s->e[0];
  uint32_t v = expr(c, s->e[1]), tensor, mask;
  if (to->kind == TX_var) {
    move(c, reg_of(c, to), v, anfi_t_cells(to));
    return;
  }
  uint32_t a = address(c, to, &tensor, &mask);
  ins *i = emit(c, I_STORE);
  i->d = v, i->a = a, i->b = tensor, i->c = mask, i->n = anfi_t_total(to->dtype), i->t = to->dtype,
  i->node = to;
}

static void set(comp *c, uint32_t d, uint64_t v) {
  if (d) move(c, d - 1, number(c, v), 1);
}

static void for_loop(comp *c, tstmt s, uint32_t edge) {
  uint32_t b = expr(c, s->e[1]), e = expr(c, s->e[2]), st = expr(c, s->e[3]), mark = temp(c, 1);
  uint32_t var = variable(c, s->e[0]);
  bool phi = s->s[0]->n && is_phi(s->s[0]->s[0], true);
  uint32_t later = phi ? temp(c, 1) + 1 : 0, n = 0;
  if (phi) declare_all(c, s->s[0]);
  set(c, later, 0);
  set(c, edge, 0);
  if (s->sub) par_begin(c, mark);
  counted k = loop_begin(c, s->e[0]->dtype, b, e, st, var, s, true);
  if (s->sub) par_mark(c, I_PARITER, mark);
  if (phi) n = phis(c, s->s[0], 0, true, later - 1);
  set(c, later, 1);
  set(c, edge, 1);
  sequence(c, s->s[0], n);
  loop_end(c, k);
  if (s->sub) par_mark(c, I_PAREND, mark);
}

static void while_loop(comp *c, tstmt s, uint32_t edge) {
  bool phi = s->s[0]->n && is_phi(s->s[0]->s[0], true);
  uint32_t later = phi ? temp(c, 1) + 1 : 0, n = 0;
  if (phi) declare_all(c, s->s[0]);
  set(c, later, 0);
  set(c, edge, 0);
  uint32_t top = here(c);
  if (phi) n = phis(c, s->s[0], 0, true, later - 1); // before the condition, which may use them
  uint32_t out = jump(c, I_JZ, expr(c, s->e[0]));
  set(c, later, 1);
  set(c, edge, 1);
  sequence(c, s->s[0], n);
  jump_to(c, top);
  patch(c, out);
}

static void branch(comp *c, tstmt s, uint32_t edge) {
  uint32_t skip = jump(c, I_JZ, expr(c, s->e[0]));
  sequence(c, s->s[0], 0);
  set(c, edge, 0);
  uint32_t end = jump(c, I_JMP, 0);
  patch(c, skip);
  if (s->s[1]) sequence(c, s->s[1], 0);
  set(c, edge, 1);
  patch(c, end);
}

static void stmt(comp *c, tstmt s, uint32_t edge) {
  uint32_t keep = c->top;
  switch ((tskind)s->kind) { /* dispatch */
  case TS_stmts: sequence(c, s, 0); break;
  case TS_define: define(c, s); return; // its registers stay
  case TS_assign: assign(c, s); break;
  case TS_if_else: branch(c, s, edge); break;
  case TS_for_loop: for_loop(c, s, edge); break;
  case TS_while_loop: while_loop(c, s, edge); break;
  case TS_evaluate: expr(c, s->e[0]); break;
  case TS_returns: {
    uint32_t r = s->e[0] ? expr(c, s->e[0]) : 0;
    ins *i = emit(c, I_RET);
    i->a = r, i->n = s->e[0] ? anfi_t_total(s->e[0]->dtype) : 0;
    break;
  }
  case TS_COUNT: break;
  }
  if (!edge) c->top = keep; // else the phis that follow read what the branches defined
}

icode *anfi_t_compile(iprog *p, size_t func) {
  tfunc f = p->m->func.at[func];
  comp c = {.p = p, .o = ANFI_NEW(p->a, icode)};
  c.o->f = f;
  c.o->param = ANFI_NEW_N(p->a, uint32_t, f->n);
  anfi_map_init(&c.regs, p->a);
  anfi_map_init(&c.unset, p->a);
  for (uint32_t i = 0; i < f->n; i++) c.o->param[i] = variable(&c, f->param[i]);
  for (uint32_t i = 0; i < f->n; i++)
    if (f->param[i]->kind == TX_tensor) tensor_registers(&c, f->param[i], c.o->param[i]);
  sequence(&c, f->body, 0);
  emit(&c, I_RET)->n = 0;
  return p->code[func] = c.o;
}
