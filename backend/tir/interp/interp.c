// SPDX-License-Identifier: Apache-2.0
/* The interpreter: the semantics of Tensor IR, and the oracle for code generators.
 *   y = x + 1   ->   (compile.c)   I_CONST r2 = 1; I_BIN r1 = r0 + r2   ->   step(), one instruction after the other
 * Calls use frames on the heap, so recursion costs memory and no C stack; every access goes through mem.c. */
#include "backend/tir/interp/machine.h"
#include "comm/comm.h"

/* ---- errors ---- */

bool anfi_im_fail(imachine *m, const void *node, bool is_stmt, anfi_code code, const char *what) {
  uint32_t line = 0, col = 0;
  if (node && is_stmt) line = ((tstmt)node)->line, col = ((tstmt)node)->col;
  else if (node) line = ((texpr)node)->line, col = ((texpr)node)->col;
  else if (m->code) line = m->code->f->line, col = m->code->f->col;
  m->failed = true;
  anfi_fail(m->cx, anfi_t_loc(m->prog.m->t, line, col), code, what,
            m->code ? m->code->f->name->s : "the call from outside");
  return false;
}
bool anfi_im_mem_fail(imachine *m, const ins *i, imem_error e) {
  static const anfi_code codes[] = {
      [IM_WILD] = ANF_E0851, [IM_RANGE] = ANF_E0852, [IM_UNSET] = ANF_E0853, [IM_RACE] = ANF_E0854};
  texpr x = (texpr)i->node;
  const char *what =
      x ? anfi_t_expr_str(m->a, x->kind == TX_indexing || x->kind == TX_tensorptr ? x->in[0] : x)
        : "memory";
  return anfi_im_fail(m, i->node, false, codes[e], what);
}

/* ---- registers and frames ---- */

static void reserve(imachine *m, size_t n) {
  if (n <= m->nreg) return;
  size_t want = n + n / 2 + 64;
  m->r = (uint64_t *)anfi_grow(m->a, m->r, m->nreg * sizeof *m->r,
                               anfi_size_mul(m->cx, want, sizeof *m->r));
  m->set = (uint8_t *)anfi_grow(m->a, m->set, m->nreg, want);
  m->nreg = want;
}

/* Of no operands there may be no list. */
static const uint32_t *operands(const uint32_t *aux, const ins *i) {
  return aux ? aux + i->a : NULL;
}

/* Enters a function whose arguments' registers are in aux[args..]. */
static bool enter(imachine *m, const ins *i, size_t func, uint32_t nargs, const uint32_t *args) {
  tfunc f = m->prog.m->func.at[func];
  icode *code = m->prog.code[func] ? m->prog.code[func] : anfi_t_compile(&m->prog, func);
  uint32_t max = m->o->max_depth ? m->o->max_depth : 1000000;
  if (nargs != f->n) return anfi_im_fail(m, i->node, false, ANF_E0855, f->name->s);
  if (m->frame.n >= max) return anfi_im_fail(m, i->node, false, ANF_E0856, f->name->s);
  uint32_t base = m->base + m->code->nreg;
  if (base > UINT32_MAX / 2) return anfi_im_fail(m, i->node, false, ANF_E0856, f->name->s);
  reserve(m, (size_t)base + code->nreg);
  for (uint32_t k = 0; k < nargs; k++) {
    texpr p = f->param[k];
    uint32_t cells = p->kind == TX_tensor ? 1 : anfi_t_total(p->dtype);
    memcpy(m->r + base + code->param[k], anfi_im_regs(m) + args[k], cells * sizeof(uint64_t));
  }
  anfi_push(m->a, &m->frame, ((iframe){m->code, m->pc, m->base, (uint32_t)m->tensors.n, i->d}));
  m->code = code;
  m->pc = 0;
  m->base = base;
  return true;
}

static void free_tensors(imachine *m, size_t height) {
  while (m->tensors.n > height) anfi_t_mem_release(&m->mem, m->tensors.at[--m->tensors.n]);
}

/* Back to the caller; false when that was the last. */
static bool leave(imachine *m, const ins *i) {
  iframe f = m->frame.at[--m->frame.n];
  memcpy(m->r + f.base + f.dst, anfi_im_regs(m) + i->a, i->n * sizeof(uint64_t));
  free_tensors(m, f.tensors);
  m->code = f.code;
  m->pc = f.pc;
  m->base = f.base;
  return m->frame.n > 0;
}

static bool same_signature(tfunc f, texpr call) {
  if (!anfi_t_same(f->ret, call->dtype) || f->n != call->nidx) return false;
  for (uint32_t k = 0; k < f->n; k++)
    if (f->param[k]->dtype.ptr != call->in[k]->dtype.ptr ||
        (!f->param[k]->dtype.ptr && !anfi_t_same(f->param[k]->dtype, call->in[k]->dtype)))
      return false;
  return true;
}

static bool call_pointer(imachine *m, const ins *i, const uint32_t *arg) {
  uint64_t p = anfi_im_regs(m)[i->c];
  texpr e = (texpr)i->node;
  size_t func = (size_t)(p & 0xffffffff);
  bool good = p >> 44 == 0xfffff && func < m->prog.m->func.n && m->prog.m->func.at[func]->body;
  if (good && !e->u.name) good = same_signature(m->prog.m->func.at[func], e);
  if (!good) return anfi_im_fail(m, i->node, false, ANF_E0860, "");
  return enter(m, i, func, i->b, arg);
}

/* Checks know nothing of what C reads and writes: such functions are called without them only. */
static bool call_outside(imachine *m, const ins *i, const uint32_t *arg) {
  const tmod *mod = m->prog.m;
  texpr e = (texpr)i->node;
  tfunc f = i->x < mod->func.n ? mod->func.at[i->x] : NULL;
  void *p = f && m->o->plain && m->o->find ? m->o->find(m->o->user, e->u.name->s) : NULL;
  void (*fn)(void);
  if (!p) return anfi_im_fail(m, i->node, false, ANF_E0864, e->u.name->s);
  uint64_t *in = ANFI_NEW_N(m->a, uint64_t, i->b + 1), result;
  for (uint32_t k = 0; k < i->b; k++) in[k] = anfi_im_regs(m)[arg[k]];
  memcpy(&fn, &p, sizeof fn);
  if (i->b != f->n || !anfi_t_call_outside(&m->mem, f, fn, in, &result))
    return anfi_im_fail(m, i->node, false, ANF_E0855, e->u.name->s);
  if (!anfi_t_is_void(f->ret)) anfi_im_regs(m)[i->d] = result;
  return true;
}

static uint64_t trip(tdtype d, uint64_t b, uint64_t e, uint64_t s) {
  uint64_t lt = 0;
  anfi_t_lane_bin(TX_cmp_lt, d, b, e, &lt);
  if (!lt) return 0;
  uint64_t span = (uint64_t)anfi_t_lane_i64(d, e) - (uint64_t)anfi_t_lane_i64(d, b);
  return (span - 1) / s + 1;
}

static bool prepare(imachine *m, const ins *i) {
  uint64_t *r = anfi_im_regs(m), zero = 0, positive;
  anfi_t_lane_bin(TX_cmp_gt, i->t, r[i->c], zero, &positive);
  if (!positive) return anfi_im_fail(m, i->node, i->x != 0, ANF_E0861, "");
  r[i->d] = trip(i->t, r[i->a], r[i->b], (uint64_t)anfi_t_lane_i64(i->t, r[i->c]));
  r[i->d + 1] = r[i->a];
  return true;
}

static bool next(imachine *m, const ins *i) { // false: the loop is over
  uint64_t *r = anfi_im_regs(m);
  if (!r[i->d]) return false;
  r[i->d]--;
  r[i->a] = r[i->d + 1];
  anfi_t_lane_bin(TX_add, i->t, r[i->d + 1], r[i->c], &r[i->d + 1]);
  return true;
}

bool anfi_im_go_on(imachine *m, const ins *i, int32_t what) {
  if (!m->o->go_on || m->o->go_on(m->o->user, what)) return true;
  return anfi_im_fail(m, i ? i->node : NULL, false, ANF_E0004, "running Tensor IR");
}

enum { POLL = 4096 }; // steps

static bool tick(imachine *m) {
  if (++m->steps > m->max_steps) return anfi_im_fail(m, NULL, false, ANF_E0862, "");
  if (m->steps % POLL == 0 && !anfi_go_on(m->cx, "running Tensor IR", 0))
    return m->failed = true, false;
  return m->steps % POLL != 0 || anfi_im_go_on(m, NULL, -1);
}

/* One instruction; false: stop. */
static bool step(imachine *m) {
  const ins *i = &m->code->code.at[m->pc++];
  uint64_t *r = anfi_im_regs(m);
  const uint32_t *aux = m->code->aux.at;
  switch ((iop)i->op) { /* dispatch */
  case I_CONST: {
    texpr k = (texpr)i->node;
    for (uint32_t x = 0; x < i->n; x++) r[i->d + x] = k->u.k.bits[k->u.k.n == 1 ? 0 : x];
    return true;
  }
  case I_MOV:
    memmove(r + i->d, r + i->a, i->n * sizeof *r);
    m->set[m->base + i->d] = 1;
    return true;
  case I_BIN: return anfi_im_binary(m, i);
  case I_NOT:
    for (uint32_t x = 0; x < i->n; x++) r[i->d + x] = !r[i->a + x];
    return true;
  case I_SELECT:
    for (uint32_t x = 0; x < i->n; x++)
      r[i->d + x] = r[i->a + (i->x == 1 ? 0 : x)] ? r[i->b + x] : r[i->c + x];
    return true;
  case I_CAST:
    for (uint32_t x = 0; x < i->n; x++) r[i->d + x] = anfi_t_lane_cast(i->t, i->from, r[i->a + x]);
    return true;
  case I_LANE: anfi_im_lanewise(m, i); return true;
  case I_INTRIN: return anfi_im_intrinsic(m, i);
  case I_ADDR: return anfi_im_address(m, i);
  case I_LOAD: return anfi_im_access(m, i, false);
  case I_STORE: return anfi_im_access(m, i, true);
  case I_JMP: m->pc = i->x; return tick(m);
  case I_JZ:
    if (!r[i->a]) m->pc = i->x;
    return true;
  case I_JNZ:
    if (r[i->a]) m->pc = i->x;
    return true;
  case I_CALL:
    if (i->x >= I_RT_BASE) return anfi_im_runtime(m, i, (trt)(i->x - I_RT_BASE), operands(aux, i));
    return tick(m) && enter(m, i, i->x, i->b, operands(aux, i));
  case I_CALLP: return tick(m) && call_pointer(m, i, operands(aux, i));
  case I_RET: return leave(m, i);
  case I_MARK: r[i->d] = m->tensors.n; return true;
  case I_FREE: free_tensors(m, (size_t)r[i->a]); return true;
  case I_DIMS: anfi_im_dense(m, i); return true;
  case I_ALLOC: return anfi_im_alloc(m, i);
  case I_FILL: return anfi_im_fill_local(m, i);
  case I_GLOBAL: memcpy(r + i->d, m->global[i->x], i->n * sizeof *r); return true;
  case I_PREP: return prepare(m, i);
  case I_NEXT:
    if (!next(m, i)) m->pc = i->x;
    return true;
  case I_PAR: r[i->d] = anfi_t_mem_enter(&m->mem); return true;
  case I_PARITER: anfi_t_mem_iterate(&m->mem, (uint32_t)r[i->a]); return true;
  case I_PAREND: anfi_t_mem_leave(&m->mem, (uint32_t)r[i->a]); return true;
  case I_UNSET: m->set[m->base + i->d] = 0; return true;
  case I_CHECK:
    return (!i->x && m->set[m->base + i->a]) ||
           anfi_im_fail(m, i->node, false, ANF_E0863, ((texpr)i->node)->u.name->s);
  case I_OUTSIDE: return tick(m) && call_outside(m, i, operands(aux, i));
  }
  return false;
}

/* ---- starting ---- */

static bool make_globals(imachine *m) {
  const tmod *mod = m->prog.m;
  m->global = ANFI_NEW_N(m->a, uint64_t *, mod->global.n);
  for (size_t g = 0; g < mod->global.n; g++) {
    texpr v = mod->global.at[g]->e[0], init = mod->global.at[g]->e[1];
    uint64_t *r = m->global[g] = ANFI_NEW_N(m->a, uint64_t, anfi_t_cells(v)), n, bytes, stride = 1;
    for (uint32_t k = v->nidx; k-- > 0; stride *= r[1 + k]) {
      int64_t d = 0;
      anfi_t_const_i64(v->in[k], &d);
      r[1 + k] = (uint64_t)d;
      r[1 + v->nidx + k] = stride;
    }
    if (!anfi_t_const_elems(v, &n) || !anfi_im_tensor_bytes(r + 1, v, &bytes) ||
        !(r[0] = anfi_t_mem_block(&m->mem, NULL, (size_t)bytes, true)))
      return anfi_im_fail(m, v, false, ANF_E0857, v->u.name->s);
    if (init) anfi_im_fill(&m->mem, r[0], n, init);
    *anfi_map_at(&m->prog.globals, anfi_key(v)) = g + 1;
  }
  if (!mod->image) return true;
  m->data = anfi_t_mem_block(&m->mem, m->o->data, (size_t)mod->image_size, true);
  if (!m->data) return anfi_im_fail(m, NULL, false, ANF_E0857, "module data");
  for (uint64_t k = 0, p = m->data; k < mod->image_size && !m->o->data; k++, p++)
    anfi_t_mem_write(&m->mem, p, 1, mod->image[k]);
  return true;
}

/* Memory of an argument must hold the tensor, as far as its dims are constants. */
static bool argument(imachine *m, tfunc f, uint32_t k, const anf_tir_arg *arg, uint64_t *reg) {
  texpr p = f->param[k];
  uint64_t n;
  if (!p->dtype.ptr) {
    size_t bytes = anfi_t_bytes(p->dtype);
    if (anfi_t_total(p->dtype) != 1) {
      if (arg->bytes < anfi_t_total(p->dtype) * bytes || !arg->data)
        return anfi_im_fail(m, p, false, ANF_E0865, p->u.name->s);
      for (uint32_t x = 0; x < anfi_t_total(p->dtype); x++) {
        reg[x] = 0;
        memcpy(&reg[x], (const char *)arg->data + x * bytes, bytes);
      }
    } else
      reg[0] = anfi_t_class(p->dtype) == TC_BOOL ? arg->v.b
               : bytes == 8                      ? arg->v.bits
                                                 : arg->v.bits & ((UINT64_C(1) << bytes * 8) - 1);
    return true;
  }
  if (p->kind == TX_tensor && anfi_t_const_elems(p, &n)) {
    size_t bytes = p->sub ? 8 : anfi_t_bytes(anfi_t_dt((anf_tir_elem)p->dtype.elem));
    if (arg->bytes / bytes < n) return anfi_im_fail(m, p, false, ANF_E0865, p->u.name->s);
  }
  reg[0] = arg->data ? anfi_t_mem_block(&m->mem, arg->data, arg->bytes, true) : 0;
  return true;
}

static bool start(imachine *m, size_t func, size_t n, const anf_tir_arg *args) {
  tfunc f = m->prog.m->func.at[func];
  size_t hidden = anfi_t_attr(f->attrs, TA_resolved, NULL) ? 2 : 0;
  if (n + hidden != f->n) return anfi_im_fail(m, NULL, false, ANF_E0855, f->name->s);
  static const icode boot = {.nreg = 0};
  icode *code = anfi_t_compile(&m->prog, func);
  uint32_t room = anfi_t_is_void(f->ret) ? 1 : anfi_t_total(f->ret);
  reserve(m, (size_t)code->nreg + room);
  m->base = room;
  m->code = code;
  for (uint32_t k = 0; k < f->n; k++) {
    uint64_t *reg = m->r + m->base + code->param[k];
    if (k < hidden) reg[0] = k ? m->data : 0;
    else if (!argument(m, f, k, &args[k - hidden], reg)) return false;
  }
  anfi_push(m->a, &m->frame, ((iframe){&boot, 0, 0, 0, 0}));
  return true;
}

/* __tir_init, which kernel_lowering_cpu makes, runs once before anything else. */
static bool initialise(imachine *m) {
  const tmod *mod = m->prog.m;
  const anfi_str *name = anfi_interned(&mod->t->names, "__tir_init", 10);
  uint64_t *at = name ? anfi_map_find(&mod->by_name, anfi_key(name)) : NULL;
  if (!at || !mod->func.at[*at - 1]->body || m->o->data) return true;
  if (!start(m, *at - 1, 0, NULL)) return false;
  while (step(m)) continue;
  return !m->failed;
}

static void give_back(imachine *m, tfunc f, anf_tir_arg *result) {
  *result = (anf_tir_arg){0};
  if (!anfi_t_is_void(f->ret) && !f->ret.ptr) result->v.bits = m->r[0];
}

typedef struct fname_user {
  const tmod *m;
} fname_user;
static const char *fname(void *user, size_t i) {
  const tmod *m = ((fname_user *)user)->m;
  return i < m->func.n ? m->func.at[i]->name->s : NULL;
}

/* The module as it runs: valid, and with every cast explicit. */
static const tmod *runnable(anf_ctx *cx, const tmod *mod) {
  static const anf_tir_opt_opts none = {.size = sizeof none};
  if (!anfi_t_validate(cx, mod)) return NULL;
  if (anfi_t_measure(mod) & TPROP_CAST) return mod;
  tpass_cx p = {.cx = cx, .t = mod->t, .scratch = anfi_scratch(cx), .m = mod, .opts = &none};
  return anfi_t_pass_auto_caster(&p, mod);
}

static bool not_there(anf_ctx *cx, const tmod *mod, const char *func) {
  fname_user u = {mod};
  anfi_fail(cx, anfi_nowhere(), ANF_E0864, func);
  const char *near = anfi_nearest(func, fname, &u);
  if (near && strcmp(near, func) != 0) anfi_did_you_mean(cx, near);
  return false;
}

bool anfi_t_interp(anf_ctx *cx, const tmod *given, const char *func, size_t n,
                   const anf_tir_arg *args, const anf_tir_run_opts *o, anf_tir_arg *result) {
  const tmod *mod = runnable(cx, given);
  if (!mod) return false;
  const anfi_str *name = anfi_interned(&mod->t->names, func, strlen(func));
  uint64_t *at = name ? anfi_map_find(&mod->by_name, anfi_key(name)) : NULL;
  if (!at || !mod->func.at[*at - 1]->body) return not_there(cx, mod, func);
  imachine *m = ANFI_NEW(anfi_scratch(cx), imachine);
  anf_tir_run_opts *opts = ANFI_NEW(anfi_scratch(cx), anf_tir_run_opts);
  if (!ANFI_OPTS_IN(cx, anf_tir_run_opts, comm, o, opts)) return false;
  m->cx = cx;
  m->o = opts;
  m->a = anfi_scratch(cx);
  m->max_steps = opts->max_steps ? opts->max_steps : UINT64_MAX - 1;
  anfi_t_mem_init(&m->mem, cx, !opts->plain);
  m->prog = (iprog){
      .m = mod, .a = m->a, .checked = !opts->plain, .code = ANFI_NEW_N(m->a, icode *, mod->func.n)};
  anfi_map_init(&m->prog.globals, m->a);
  if (!make_globals(m) || !initialise(m) || !start(m, *at - 1, n, args)) return false;
  while (step(m)) continue;
  if (m->failed) {
    anfi_comm_drain(opts->comm);
    return false;
  }
  if (result) give_back(m, mod->func.at[*at - 1], result);
  return true;
}
