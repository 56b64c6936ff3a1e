// SPDX-License-Identifier: Apache-2.0
/* The interpreter: the meaning of Tensor IR, and the oracle for code generators. Calls use frames
 * of its own, so recursion costs memory and no C stack; every access goes through interp_mem. */
#include "backend/tir/interp.h"
#include "backend/tir/interp_mem.h"

#include <math.h>
#include <stdlib.h>

typedef struct iframe {
  const icode *code;
  uint32_t pc, base, tensors; // what to go back to
  uint32_t dst;
} iframe;

typedef struct machine {
  anf_ctx *cx;
  iprog prog;
  imem mem;
  anfi_arena *a;
  uint64_t *r;  // all registers
  uint8_t *set; // has the variable a value?
  size_t nreg;
  ANFI_VEC(iframe) frame;
  ANFI_VEC(uint64_t) tensors; // blocks of local tensors, by scope
  uint64_t **global;          // registers of the tensors of the module
  uint64_t data;              // module data, after module_globals_resolver
  const anf_tir_run_opts *o;
  const icode *code;
  uint32_t pc, base;
  uint64_t steps, max_steps;
  ANFI_VEC(uint64_t) leaf; // of what is printed next
  bool failed;
} machine;

/* ---- errors ---- */

static bool fail_at(machine *m, const void *node, bool is_stmt, anfi_code code, const char *what) {
  uint32_t line = 0, col = 0;
  if (node && is_stmt) line = ((tstmt)node)->line, col = ((tstmt)node)->col;
  else if (node) line = ((texpr)node)->line, col = ((texpr)node)->col;
  else if (m->code) line = m->code->f->line, col = m->code->f->col;
  m->failed = true;
  anfi_fail(m->cx, anfi_t_loc(m->prog.m->t, line, col), code, what,
            m->code ? m->code->f->name->s : "the call from outside");
  return false;
}
static bool mem_fail(machine *m, const ins *i, imem_error e) {
  static const anfi_code codes[] = {
      [IM_WILD] = ANF_E0851, [IM_RANGE] = ANF_E0852, [IM_UNSET] = ANF_E0853, [IM_RACE] = ANF_E0854};
  texpr x = (texpr)i->node;
  const char *what =
      x ? anfi_t_expr_str(m->a, x->kind == TX_indexing || x->kind == TX_tensorptr ? x->in[0] : x)
        : "memory";
  return fail_at(m, i->node, false, codes[e], what);
}

/* ---- registers and frames ---- */

static void reserve(machine *m, size_t n) {
  if (n <= m->nreg) return;
  size_t want = n + n / 2 + 64;
  m->r = (uint64_t *)anfi_grow(m->a, m->r, m->nreg * sizeof *m->r,
                               anfi_size_mul(m->cx, want, sizeof *m->r));
  m->set = (uint8_t *)anfi_grow(m->a, m->set, m->nreg, want);
  m->nreg = want;
}

static uint64_t *regs(machine *m) { return m->r + m->base; }

/* Enters a function whose arguments' registers are in aux[args..]. */
static bool enter(machine *m, const ins *i, size_t func, uint32_t nargs, const uint32_t *args) {
  tfunc f = m->prog.m->func.at[func];
  icode *code = m->prog.code[func] ? m->prog.code[func] : anfi_t_compile(&m->prog, func);
  uint32_t max = m->o->max_depth ? m->o->max_depth : 1000000;
  if (nargs != f->n) return fail_at(m, i->node, false, ANF_E0855, f->name->s);
  if (m->frame.n >= max) return fail_at(m, i->node, false, ANF_E0856, f->name->s);
  uint32_t base = m->base + m->code->nreg;
  if (base > UINT32_MAX / 2) return fail_at(m, i->node, false, ANF_E0856, f->name->s);
  reserve(m, (size_t)base + code->nreg);
  for (uint32_t k = 0; k < nargs; k++) {
    texpr p = f->param[k];
    uint32_t cells = p->kind == TX_tensor ? 1 : anfi_t_total(p->dtype);
    memcpy(m->r + base + code->param[k], regs(m) + args[k], cells * sizeof(uint64_t));
  }
  anfi_push(m->a, &m->frame, ((iframe){m->code, m->pc, m->base, (uint32_t)m->tensors.n, i->d}));
  m->code = code;
  m->pc = 0;
  m->base = base;
  return true;
}

static void free_tensors(machine *m, size_t height) {
  while (m->tensors.n > height) anfi_t_mem_release(&m->mem, m->tensors.at[--m->tensors.n]);
}

/* Back to the caller; false when that was the last. */
static bool leave(machine *m, const ins *i) {
  iframe f = m->frame.at[--m->frame.n];
  memcpy(m->r + f.base + f.dst, regs(m) + i->a, i->n * sizeof(uint64_t));
  free_tensors(m, f.tensors);
  m->code = f.code;
  m->pc = f.pc;
  m->base = f.base;
  return m->frame.n > 0;
}

/* ---- memory ---- */

static bool address(machine *m, const ins *i) {
  texpr e = (texpr)i->node;
  uint64_t *r = regs(m), ptr = r[i->a];
  const uint32_t *idx = m->code->aux.at + i->b;
  uint32_t rank = e->in[0]->nidx;
  int64_t elems = 0;
  for (uint32_t k = 0; k < rank && k < e->nidx; k++) {
    uint64_t at = r[idx[k]], dim = r[i->a + 1 + k], extent = 1;
    if (k + 1 == rank && e->kind == TX_indexing && !i->c) extent = e->dtype.lanes;
    if (k + 2 == rank && e->kind == TX_indexing && e->dtype.rows) extent = e->dtype.rows;
    bool address_of = e->kind == TX_tensorptr; // may point past the end
    if (m->prog.checked && (at > dim || extent > dim - at) && !(address_of && at == dim) &&
        !(i->c && at <= dim))
      return mem_fail(m, i, IM_RANGE);
    elems = (int64_t)((uint64_t)elems + at * r[i->a + 1 + rank + k]);
  }
  size_t bytes = e->in[0]->sub ? 8 : anfi_t_bytes(anfi_t_dt((anf_tir_elem)e->in[0]->dtype.elem));
  if (!anfi_t_mem_move(&m->mem, &ptr, (int64_t)((uint64_t)elems * bytes))) {
    imem_error why = anfi_t_mem_host(&m->mem, ptr, 0) ? IM_RANGE : IM_WILD;
    if (!i->c) return mem_fail(m, i, why);
    for (uint32_t k = 0; k < anfi_t_total(e->dtype); k++)
      if (r[i->c - 1 + k]) return mem_fail(m, i, why);
  }
  r[i->d] = ptr;
  return true;
}

/* Where lane k is, in bytes from the first. */
static int64_t lane_at(const machine *m, const ins *i, uint32_t k) {
  uint64_t bytes = anfi_t_bytes(i->t);
  if (!i->t.rows) return (int64_t)(k * bytes);
  uint32_t rank = ((texpr)i->node)->in[0]->nidx;
  uint64_t stride = rank > 1 ? m->r[m->base + i->b + 1 + rank + rank - 2] : 0;
  return (int64_t)((k / i->t.lanes * stride + k % i->t.lanes) * bytes);
}

static bool access(machine *m, const ins *i, bool store) {
  uint64_t *r = regs(m);
  size_t bytes = anfi_t_bytes(i->t);
  for (uint32_t k = 0; k < i->n; k++) {
    uint64_t ptr = r[i->a];
    if (i->c && !r[i->c - 1 + k]) {
      if (!store) r[i->d + k] = 0;
      continue;
    }
    if (!anfi_t_mem_move(&m->mem, &ptr, lane_at(m, i, k))) return mem_fail(m, i, IM_RANGE);
    imem_error e = store ? anfi_t_mem_write(&m->mem, ptr, bytes, r[i->d + k])
                         : anfi_t_mem_read(&m->mem, ptr, bytes, &r[i->d + k]);
    if (e) return mem_fail(m, i, e);
  }
  return true;
}

static void dense(machine *m, const ins *i) {
  texpr v = (texpr)i->node;
  uint64_t *d = regs(m) + i->d + 1, stride = 1;
  if (anfi_t_has_strides(v)) return;
  for (uint32_t k = v->nidx; k-- > 0; stride *= d[k]) d[v->nidx + k] = stride;
}

static bool tensor_bytes(const uint64_t *dims, texpr v, uint64_t *out) {
  uint64_t n = v->sub ? 8 : anfi_t_bytes(anfi_t_dt((anf_tir_elem)v->dtype.elem));
  for (uint32_t k = 0; k < v->nidx; k++) {
    if (dims[k] && n > (UINT64_C(1) << 36) / dims[k]) return false;
    n *= dims[k];
  }
  *out = n;
  return true;
}

static bool alloc_tensor(machine *m, const ins *i) {
  texpr v = (texpr)i->node;
  uint64_t n, *r = regs(m);
  if (!tensor_bytes(r + i->d + 1, v, &n)) return fail_at(m, v, false, ANF_E0857, v->u.name->s);
  uint64_t p = anfi_t_mem_block(&m->mem, NULL, (size_t)n, false);
  if (!p) return fail_at(m, v, false, ANF_E0857, v->u.name->s);
  anfi_push(m->a, &m->tensors, p);
  r[i->d] = p;
  return true;
}

/* A tensor's elements from a list of constants; one constant fills it. */
static bool fill(imem *mem, uint64_t ptr, uint64_t elems, texpr list) {
  size_t bytes = anfi_t_bytes(list->dtype);
  for (uint64_t k = 0; k < elems && (list->u.k.n == 1 || k < list->u.k.n); k++) {
    uint64_t at = ptr;
    if (!anfi_t_mem_move(mem, &at, (int64_t)(k * bytes))) return false;
    if (anfi_t_mem_write(mem, at, bytes, list->u.k.bits[list->u.k.n == 1 ? 0 : k])) return false;
  }
  return true;
}

static bool fill_local(machine *m, const ins *i) {
  uint64_t *r = regs(m), n = 1;
  for (uint32_t k = 1; k < i->n; k++) n *= r[i->d + k];
  return fill(&m->mem, r[i->d], n, (texpr)i->node) || mem_fail(m, i, IM_RANGE);
}

/* ---- arithmetic ---- */

static bool binary(machine *m, const ins *i) {
  uint64_t *r = regs(m);
  for (uint32_t k = 0; k < i->n; k++)
    if (!anfi_t_lane_bin((tkind)i->sub, i->t, r[i->a + k], r[i->b + k], &r[i->d + k]))
      return fail_at(m, i->node, false, ANF_E0858, "");
  return true;
}

static void lanewise(machine *m, const ins *i) {
  uint64_t *r = regs(m);
  for (uint32_t k = 0; k < i->n; k++)
    r[i->d + k] = anfi_t_lane_intrin((tintrin)i->sub, i->t, r[i->a + k], r[i->b + k], r[i->c + k]);
}

/* Of f16 and bf16 in f32, rounded once. */
static void reduce(machine *m, const ins *i, texpr e, uint32_t a) {
  uint64_t *r = regs(m), acc = 0, x;
  tdtype from = e->in[0]->dtype, d = anfi_t_is_half(from) ? anfi_t_dt(ANF_TIR_f32) : from;
  for (uint32_t k = 0; k < anfi_t_total(from); k++) {
    x = anfi_t_lane_cast(d, from, r[a + k]);
    if (!k) acc = x;
    else if (i->sub == TI_reduce_add) anfi_t_lane_bin(TX_add, d, acc, x, &acc);
    else if (i->sub == TI_reduce_mul) anfi_t_lane_bin(TX_mul, d, acc, x, &acc);
    else acc = anfi_t_lane_intrin(i->sub == TI_reduce_max ? TI_max : TI_min, d, acc, x, 0);
  }
  r[i->d] = anfi_t_lane_cast(from, d, acc);
}

/* Lane `pick` of a, b one after the other; picks wrap around. */
static uint64_t pick(const uint64_t *r, uint32_t a, uint32_t b, uint32_t lanes, uint64_t p) {
  p %= 2 * (uint64_t)lanes;
  return p < lanes ? r[a + p] : r[b + p - lanes];
}

static void unpack(machine *m, const ins *i, texpr e, const uint32_t *arg) {
  uint64_t *r = regs(m);
  uint32_t lanes = e->dtype.lanes, w = (uint32_t)r[arg[2]],
           half = i->sub == TI_unpack_high ? lanes / 2 : 0;
  if (!w || w > lanes) w = 1;
  for (uint32_t k = 0; k < lanes; k++)
    r[i->d + k] = r[(k / w & 1 ? arg[1] : arg[0]) + (half + k / (2 * w) * w + k % w) % lanes];
}

static bool shuffles(machine *m, const ins *i, texpr e, const uint32_t *arg) {
  uint64_t *r = regs(m);
  uint32_t lanes = anfi_t_total(e->dtype), from = anfi_t_total(e->in[0]->dtype);
  switch ((tintrin)i->sub) {
  case TI_shuffle:
    for (uint32_t k = 0; k < lanes; k++) r[i->d + k] = pick(r, arg[0], arg[1], from, r[arg[2 + k]]);
    return true;
  case TI_permute:
    for (uint32_t k = 0; k < lanes; k++) r[i->d + k] = r[arg[0] + r[arg[1 + k]] % from];
    return true;
  case TI_permutexvar:
    for (uint32_t k = 0; k < lanes; k++) r[i->d + k] = r[arg[1] + r[arg[0] + k] % lanes];
    return true;
  case TI_permutex2var:
    for (uint32_t k = 0; k < lanes; k++)
      r[i->d + k] = pick(r, arg[0], arg[2], lanes, r[arg[1] + k]);
    return true;
  case TI_insert: {
    uint32_t n = anfi_t_total(e->in[1]->dtype), at = (uint32_t)(r[arg[2]] % lanes);
    memcpy(r + i->d, r + arg[0], lanes * sizeof *r);
    for (uint32_t k = 0; k < n && at + k < lanes; k++) r[i->d + at + k] = r[arg[1] + k];
    return true;
  }
  case TI_extract:
    for (uint32_t k = 0; k < lanes; k++) r[i->d + k] = r[arg[0] + (r[arg[1]] + k) % from];
    return true;
  case TI_broadcast:
    for (uint32_t k = 0; k < lanes; k++) r[i->d + k] = r[arg[0] + k % from];
    return true;
  case TI_unpack_low:
  case TI_unpack_high: unpack(m, i, e, arg); return true;
  default: return false;
  }
}

static bool struct_access(machine *m, const ins *i, texpr e, const uint32_t *arg) {
  uint64_t *r = regs(m);
  bool store = i->sub == TI_write_struct;
  tdtype d = store ? e->in[1]->dtype : e->dtype;
  size_t bytes = anfi_t_bytes(d);
  for (uint32_t k = 0; k < anfi_t_total(d); k++) {
    uint64_t p = r[arg[0]];
    if (!anfi_t_mem_move(&m->mem, &p, (int64_t)(r[arg[store ? 2 : 1]] + k * bytes)))
      return mem_fail(m, i, IM_RANGE);
    imem_error x = store ? anfi_t_mem_write(&m->mem, p, bytes, r[arg[1] + k])
                         : anfi_t_mem_read(&m->mem, p, bytes, &r[i->d + k]);
    if (x) return mem_fail(m, i, x);
  }
  return true;
}

static bool gather(machine *m, const ins *i, texpr e, const uint32_t *arg) {
  uint64_t *r = regs(m);
  size_t bytes = anfi_t_bytes(e->dtype);
  for (uint32_t k = 0; k < anfi_t_total(e->dtype); k++) {
    uint64_t p = r[arg[0]];
    int64_t at = anfi_t_lane_i64(e->in[1]->dtype, r[arg[1] + k]);
    if (!anfi_t_mem_move(&m->mem, &p, (int64_t)((uint64_t)at * bytes)))
      return mem_fail(m, i, IM_RANGE);
    imem_error x = anfi_t_mem_read(&m->mem, p, bytes, &r[i->d + k]);
    if (x) return mem_fail(m, i, x);
  }
  return true;
}

/* ---- brgemm ---- */

typedef struct gemm {
  int64_t m, n, k, lda, ldb, ldc, sa, sb;
  tdtype ta, tb, tc;
  int64_t flags; // bit 0 init, 1 bias, 2 scale, 3 relu, 4..6 binary, 7 A is K by M
} gemm;

typedef struct gemm_ptrs {
  uint64_t a, b, c, bias, scales, rhs;
  int64_t num, len;
  bool list;
} gemm_ptrs;

static imem_error elem(machine *m, uint64_t p, tdtype d, int64_t at, double *v) {
  uint64_t bits;
  if (!anfi_t_mem_move(&m->mem, &p, at * (int64_t)anfi_t_bytes(d))) return IM_RANGE;
  imem_error e = anfi_t_mem_read(&m->mem, p, anfi_t_bytes(d), &bits);
  if (!e) *v = anfi_t_lane_f64(d, bits);
  return e;
}
static imem_error pointer_at(machine *m, uint64_t p, int64_t at, uint64_t *v) {
  if (!anfi_t_mem_move(&m->mem, &p, at * 8)) return IM_RANGE;
  return anfi_t_mem_read(&m->mem, p, 8, v);
}

static imem_error dot(machine *m, const gemm *g, const gemm_ptrs *p, int64_t i, int64_t j,
                      double *acc) {
  bool f32 = g->tc.elem == ANF_TIR_f32;
  for (int64_t b = 0; b < p->num * (p->list ? p->len : 1); b++) {
    uint64_t pa = p->a, pb = p->b;
    int64_t ba = b * g->sa, bb = b * g->sb;
    imem_error e = IM_OK;
    if (p->list) { // list entry l holds `num` blocks, stride apart
      e = pointer_at(m, p->a, b / p->num, &pa);
      if (!e) e = pointer_at(m, p->b, b / p->num, &pb);
      ba = b % p->num * g->sa, bb = b % p->num * g->sb;
    }
    for (int64_t k = 0; k < g->k && !e; k++) {
      double x = 0, y = 0;
      e = elem(m, pa, g->ta, ba + (g->flags & 128 ? k * g->lda + i : i * g->lda + k), &x);
      if (!e) e = elem(m, pb, g->tb, bb + k * g->ldb + j, &y);
      *acc = f32 ? (double)fmaf((float)x, (float)y, (float)*acc) : fma(x, y, *acc);
    }
    if (e) return e;
  }
  return IM_OK;
}

static double binary_post(int64_t alg, double x, double y) {
  return alg == 1 ? x + y : alg == 2 ? x * y : alg == 3 ? fmax(x, y) : fmin(x, y);
}

/* Each step is rounded, as a kernel has it in registers. */
static double step_of(const gemm *g, double x) {
  return g->tc.elem == ANF_TIR_f32 ? (double)(float)x : x;
}

static imem_error gemm_element(machine *m, const gemm *g, const gemm_ptrs *p, int64_t i,
                               int64_t j) {
  double acc = 0, y = 0;
  imem_error e = IM_OK;
  if (!(g->flags & 1)) e = elem(m, p->c, g->tc, i * g->ldc + j, &acc);
  if (!e) e = dot(m, g, p, i, j, &acc);
  if (!e && g->flags & 4) {
    e = elem(m, p->scales, anfi_t_dt(ANF_TIR_f32), j, &y);
    acc = step_of(g, acc * y);
  }
  if (!e && g->flags & 2) {
    e = elem(m, p->bias, g->tc, j, &y);
    acc = step_of(g, acc + y);
  }
  if (!e && (g->flags >> 4 & 7)) {
    e = elem(m, p->rhs, g->tc, i * g->ldc + j, &y);
    acc = step_of(g, binary_post(g->flags >> 4 & 7, acc, y));
  }
  if (e) return e;
  if (g->flags & 8 && acc < 0) acc = 0;
  uint64_t at = p->c;
  if (!anfi_t_mem_move(&m->mem, &at, (i * g->ldc + j) * (int64_t)anfi_t_bytes(g->tc)))
    return IM_RANGE;
  return anfi_t_mem_write(&m->mem, at, anfi_t_bytes(g->tc), anfi_t_lane_of_f64(g->tc, acc));
}

static bool run_gemm(machine *m, const ins *i, const gemm *g, const gemm_ptrs *p) {
  for (int64_t x = 0; x < g->m; x++)
    for (int64_t y = 0; y < g->n; y++) {
      imem_error e = gemm_element(m, g, p, x, y);
      if (e) return mem_fail(m, i, e);
    }
  return true;
}

static int64_t flags_of(tattrs a) {
  int64_t v = 0, f = 0;
  if (anfi_t_attr(a, TA_init, &v)) f |= v != 0;
  if (anfi_t_attr(a, TA_post_bias, NULL)) f |= 2;
  if (anfi_t_attr(a, TA_post_scale, NULL)) f |= 4;
  if (anfi_t_attr(a, TA_post_relu, NULL)) f |= 8;
  if (anfi_t_attr(a, TA_post_binary, &v)) f |= (v & 7) << 4;
  if (anfi_t_attr(a, TA_trans_a, &v) && v) f |= 128;
  return f;
}

static int64_t int_arg(machine *m, texpr e, const uint32_t *arg, uint32_t k) {
  return anfi_t_lane_i64(e->in[k]->dtype, regs(m)[arg[k]]);
}

static bool brgemm(machine *m, const ins *i, texpr e, const uint32_t *arg) {
  bool list = i->sub == TI_list_brgemm;
  uint32_t slot = list ? 13 : 12;
  int64_t v[12];
  for (uint32_t k = 3; k < 12; k++) v[k] = int_arg(m, e, arg, k);
  for (uint32_t k = TSLOT_binary_rhs + 1; k < TSLOT_COUNT; k++)
    if (!anfi_t_is_void(e->in[slot + k]->dtype))
      return fail_at(m, e, false, ANF_E0859, "this post-operation of brgemm");
  int64_t types[3] = {0};
  for (uint32_t k = 0; k < 3; k++) types[k] = e->in[k]->dtype.elem;
  gemm g = {v[4],
            v[5],
            v[6],
            v[7],
            v[8],
            v[9],
            v[10],
            v[11],
            anfi_t_dt((anf_tir_elem)types[0]),
            anfi_t_dt((anf_tir_elem)types[1]),
            anfi_t_dt((anf_tir_elem)types[2]),
            flags_of(e->u.attrs)};
  if (list) g.ta = g.tb = anfi_t_dt((anf_tir_elem)types[2]);
  uint64_t *r = regs(m);
  gemm_ptrs p = {r[arg[0]],
                 r[arg[1]],
                 r[arg[2]],
                 r[arg[slot]],
                 r[arg[slot + 1]],
                 r[arg[slot + 2]],
                 v[3],
                 list ? int_arg(m, e, arg, 12) : 1,
                 list};
  return run_gemm(m, i, &g, &p);
}

static bool intrinsic(machine *m, const ins *i) {
  texpr e = (texpr)i->node;
  const uint32_t *arg = m->code->aux.at + i->a;
  uint64_t *r = regs(m);
  switch ((tintrin)i->sub) { /* dispatch */
  case TI_reduce_add:
  case TI_reduce_mul:
  case TI_reduce_max:
  case TI_reduce_min: reduce(m, i, e, arg[0]); return true;
  case TI_reinterpret:
  case TI_saturated_cast:
  case TI_round_and_cast:
    for (uint32_t k = 0; k < i->n; k++)
      r[i->d + k] = anfi_t_lane_convert((tintrin)i->sub, e->dtype, e->in[0]->dtype, r[arg[0] + k]);
    return true;
  case TI_read_struct:
  case TI_write_struct: return struct_access(m, i, e, arg);
  case TI_gather: return gather(m, i, e, arg);
  case TI_constant_load:
  case TI_volatile_load: memcpy(r + i->d, r + arg[0], i->n * sizeof *r); return true;
  case TI_get_group_id:
  case TI_get_group_thread_id:
    for (uint32_t k = 0; k < i->n; k++) r[i->d + k] = 0; // one thread
    return true;
  case TI_prefetch:
  case TI_set_thread_idle_func: return true;
  case TI_brgemm:
  case TI_list_brgemm: return brgemm(m, i, e, arg);
  default:
    return shuffles(m, i, e, arg) || fail_at(m, e, false, ANF_E0859, anfi_t_intrins[i->sub].name);
  }
}

/* ---- the run time ---- */

static bool rt_kernel_call(machine *m, const ins *i, const uint64_t *v, bool list) {
  uint64_t k[12], p = v[0];
  for (int x = 0; x < 12; x++) {
    imem_error e = anfi_t_mem_read(&m->mem, p, 8, &k[x]);
    if (e) return mem_fail(m, i, e);
    if (!anfi_t_mem_move(&m->mem, &p, 8)) return mem_fail(m, i, IM_RANGE);
  }
  gemm g = {(int64_t)k[0],
            (int64_t)k[1],
            (int64_t)k[2],
            (int64_t)k[3],
            (int64_t)k[4],
            (int64_t)k[5],
            (int64_t)k[6],
            (int64_t)k[7],
            anfi_t_dt((anf_tir_elem)(k[8] & 15)),
            anfi_t_dt((anf_tir_elem)(k[9] & 15)),
            anfi_t_dt((anf_tir_elem)(k[10] & 15)),
            (int64_t)k[11]};
  if (list) g.ta = g.tb = g.tc;
  uint32_t at = list ? 6 : 5;
  gemm_ptrs ptr = {
      v[1], v[2], v[3], v[at], v[at + 1], v[at + 2], (int64_t)v[4], list ? (int64_t)v[5] : 1, list};
  return run_gemm(m, i, &g, &ptr);
}

static bool rt_kernel(machine *m, const ins *i, const uint64_t *v, uint64_t *out) {
  uint64_t p = anfi_t_mem_block(&m->mem, NULL, 12 * 8 + 8, true), at = p;
  if (!p) return fail_at(m, i->node, false, ANF_E0857, "kernel");
  for (int k = 0; k < 12; k++) {
    anfi_t_mem_write(&m->mem, at, 8, v[k]);
    anfi_t_mem_move(&m->mem, &at, 8);
  }
  *out = p;
  return true;
}

static bool rt_stop(machine *m, const ins *i, const uint64_t *v) {
  if (m->o->stop) m->o->stop(m->o->user, (int64_t)v[0], (int64_t)v[1], (int64_t)v[2]);
  return fail_at(m, i->node, false, ANF_E0870, "");
}

static bool rt_keep_more(machine *m, const ins *i, const uint64_t *v, uint64_t *out) {
  if (v[1] > v[2]) return mem_fail(m, i, IM_RANGE);
  uint64_t to = anfi_t_mem_block(&m->mem, NULL, (size_t)v[2], true);
  if (!to) return fail_at(m, i->node, false, ANF_E0857, "anf_rt_keep_more");
  const void *from = v[1] ? anfi_t_mem_host(&m->mem, v[0], (size_t)v[1]) : NULL;
  if (v[1] && !from) return mem_fail(m, i, IM_WILD);
  if (v[1]) memcpy(anfi_t_mem_host(&m->mem, to, (size_t)v[2]), from, (size_t)v[1]);
  *out = to;
  return true;
}

static bool rt_put_tensor(machine *m, const ins *i, const uint64_t *v) {
  const void *p = anfi_t_mem_host(&m->mem, v[0], (size_t)v[1]);
  if (!p) return mem_fail(m, i, IM_RANGE);
  anfi_push(m->a, &m->leaf, anfi_key(p));
  return true;
}

static void rt_print(machine *m, int64_t site) {
  if (m->o->print) m->o->print(m->o->user, site, m->leaf.n, m->leaf.at);
  m->leaf.n = 0;
}

static bool runtime_call(machine *m, const ins *i, trt f, const uint32_t *arg) {
  uint64_t *r = regs(m), v[16];
  if (i->b != anfi_t_rt[f].n) return fail_at(m, i->node, false, ANF_E0855, anfi_t_rt[f].name);
  for (uint32_t k = 0; k < i->b; k++) v[k] = r[arg[k]];
  switch (f) {
  case TRT_anf_rt_alloc:
    r[i->d] = anfi_t_mem_block(&m->mem, NULL, (size_t)v[0], false);
    return r[i->d] || fail_at(m, i->node, false, ANF_E0857, "anf_rt_alloc");
  case TRT_anf_rt_free: return anfi_t_mem_release(&m->mem, v[0]) || mem_fail(m, i, IM_WILD);
  case TRT_anf_rt_trace:
    if (m->o->trace) m->o->trace(m->o->user, (int64_t)v[0], v[1] != 0);
    return true;
  case TRT_anf_rt_check: return v[0] < v[1] || mem_fail(m, i, IM_RANGE);
  case TRT_anf_rt_brgemm_kernel: return rt_kernel(m, i, v, &r[i->d]);
  case TRT_anf_rt_brgemm_call: return rt_kernel_call(m, i, v, false);
  case TRT_anf_rt_brgemm_list_call: return rt_kernel_call(m, i, v, true);
  case TRT_anf_rt_keep:
    r[i->d] = anfi_t_mem_block(&m->mem, NULL, (size_t)v[0], true);
    return r[i->d] || fail_at(m, i->node, false, ANF_E0857, "anf_rt_keep");
  case TRT_anf_rt_keep_more: return rt_keep_more(m, i, v, &r[i->d]);
  case TRT_anf_rt_stop: return rt_stop(m, i, v);
  case TRT_anf_rt_put: anfi_push(m->a, &m->leaf, v[0]); return true;
  case TRT_anf_rt_put_tensor: return rt_put_tensor(m, i, v);
  case TRT_anf_rt_print: rt_print(m, (int64_t)v[0]); return true;
  case TRT_anf_rt_parallel:
  case TRT_COUNT: break; // made a loop when compiled
  }
  return fail_at(m, i->node, false, ANF_E0855, anfi_t_rt[f].name);
}

static bool same_signature(tfunc f, texpr call) {
  if (!anfi_t_same(f->ret, call->dtype) || f->n != call->nidx) return false;
  for (uint32_t k = 0; k < f->n; k++)
    if (f->param[k]->dtype.ptr != call->in[k]->dtype.ptr ||
        (!f->param[k]->dtype.ptr && !anfi_t_same(f->param[k]->dtype, call->in[k]->dtype)))
      return false;
  return true;
}

static bool call_pointer(machine *m, const ins *i, const uint32_t *arg) {
  uint64_t p = regs(m)[i->c];
  texpr e = (texpr)i->node;
  size_t func = (size_t)(p & 0xffffffff);
  bool good = p >> 44 == 0xfffff && func < m->prog.m->func.n && m->prog.m->func.at[func]->body;
  if (good && !e->u.name) good = same_signature(m->prog.m->func.at[func], e);
  if (!good) return fail_at(m, i->node, false, ANF_E0860, "");
  return enter(m, i, func, i->b, arg);
}

/* Checks know nothing of what C reads and writes: such functions are called without them only. */
static bool call_outside(machine *m, const ins *i, const uint32_t *arg) {
  const tmod *mod = m->prog.m;
  texpr e = (texpr)i->node;
  tfunc f = i->x < mod->func.n ? mod->func.at[i->x] : NULL;
  void *p = f && m->o->plain && m->o->find ? m->o->find(m->o->user, e->u.name->s) : NULL;
  void (*fn)(void);
  if (!p) return fail_at(m, i->node, false, ANF_E0864, e->u.name->s);
  uint64_t *in = ANFI_NEW_N(m->a, uint64_t, i->b + 1), result;
  for (uint32_t k = 0; k < i->b; k++) in[k] = regs(m)[arg[k]];
  memcpy(&fn, &p, sizeof fn);
  if (i->b != f->n || !anfi_t_call_outside(&m->mem, f, fn, in, &result))
    return fail_at(m, i->node, false, ANF_E0855, e->u.name->s);
  if (!anfi_t_is_void(f->ret)) regs(m)[i->d] = result;
  return true;
}

static uint64_t trip(tdtype d, uint64_t b, uint64_t e, uint64_t s) {
  uint64_t lt = 0;
  anfi_t_lane_bin(TX_cmp_lt, d, b, e, &lt);
  if (!lt) return 0;
  uint64_t span = (uint64_t)anfi_t_lane_i64(d, e) - (uint64_t)anfi_t_lane_i64(d, b);
  return (span - 1) / s + 1;
}

static bool prepare(machine *m, const ins *i) {
  uint64_t *r = regs(m), zero = 0, positive;
  anfi_t_lane_bin(TX_cmp_gt, i->t, r[i->c], zero, &positive);
  if (!positive) return fail_at(m, i->node, i->x != 0, ANF_E0861, "");
  r[i->d] = trip(i->t, r[i->a], r[i->b], (uint64_t)anfi_t_lane_i64(i->t, r[i->c]));
  r[i->d + 1] = r[i->a];
  return true;
}

static bool next(machine *m, const ins *i) { // false: the loop is over
  uint64_t *r = regs(m);
  if (!r[i->d]) return false;
  r[i->d]--;
  r[i->a] = r[i->d + 1];
  anfi_t_lane_bin(TX_add, i->t, r[i->d + 1], r[i->c], &r[i->d + 1]);
  return true;
}

static bool tick(machine *m) {
  if (++m->steps > m->max_steps) return fail_at(m, NULL, false, ANF_E0862, "");
  if (m->steps % 65536 == 0 && !anfi_go_on(m->cx, "running Tensor IR", 0))
    return m->failed = true, false;
  return true;
}

/* One instruction; false: stop. */
static bool step(machine *m) {
  const ins *i = &m->code->code.at[m->pc++];
  uint64_t *r = regs(m);
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
  case I_BIN: return binary(m, i);
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
  case I_LANE: lanewise(m, i); return true;
  case I_INTRIN: return intrinsic(m, i);
  case I_ADDR: return address(m, i);
  case I_LOAD: return access(m, i, false);
  case I_STORE: return access(m, i, true);
  case I_JMP: m->pc = i->x; return tick(m);
  case I_JZ:
    if (!r[i->a]) m->pc = i->x;
    return true;
  case I_JNZ:
    if (r[i->a]) m->pc = i->x;
    return true;
  case I_CALL:
    if (i->x >= I_RT_BASE) return runtime_call(m, i, (trt)(i->x - I_RT_BASE), aux + i->a);
    return tick(m) && enter(m, i, i->x, i->b, aux + i->a);
  case I_CALLP: return tick(m) && call_pointer(m, i, aux + i->a);
  case I_RET: return leave(m, i);
  case I_MARK: r[i->d] = m->tensors.n; return true;
  case I_FREE: free_tensors(m, (size_t)r[i->a]); return true;
  case I_DIMS: dense(m, i); return true;
  case I_ALLOC: return alloc_tensor(m, i);
  case I_FILL: return fill_local(m, i);
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
           fail_at(m, i->node, false, ANF_E0863, ((texpr)i->node)->u.name->s);
  case I_OUTSIDE: return tick(m) && call_outside(m, i, aux + i->a);
  }
  return false;
}

/* ---- starting ---- */

static bool make_globals(machine *m) {
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
    if (!anfi_t_const_elems(v, &n) || !tensor_bytes(r + 1, v, &bytes) ||
        !(r[0] = anfi_t_mem_block(&m->mem, NULL, (size_t)bytes, true)))
      return fail_at(m, v, false, ANF_E0857, v->u.name->s);
    if (init) fill(&m->mem, r[0], n, init);
    *anfi_map_at(&m->prog.globals, anfi_key(v)) = g + 1;
  }
  if (!mod->image) return true;
  m->data = anfi_t_mem_block(&m->mem, m->o->data, (size_t)mod->image_size, true);
  if (!m->data) return fail_at(m, NULL, false, ANF_E0857, "module data");
  for (uint64_t k = 0, p = m->data; k < mod->image_size && !m->o->data; k++, p++)
    anfi_t_mem_write(&m->mem, p, 1, mod->image[k]);
  return true;
}

/* Memory of an argument must hold the tensor, as far as its dims are constants. */
static bool argument(machine *m, tfunc f, uint32_t k, const anf_tir_arg *arg, uint64_t *reg) {
  texpr p = f->param[k];
  uint64_t n;
  if (!p->dtype.ptr) {
    size_t bytes = anfi_t_bytes(p->dtype);
    if (anfi_t_total(p->dtype) != 1) {
      if (arg->bytes < anfi_t_total(p->dtype) * bytes || !arg->data)
        return fail_at(m, p, false, ANF_E0865, p->u.name->s);
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
    if (arg->bytes / bytes < n) return fail_at(m, p, false, ANF_E0865, p->u.name->s);
  }
  reg[0] = arg->data ? anfi_t_mem_block(&m->mem, arg->data, arg->bytes, true) : 0;
  return true;
}

static bool start(machine *m, size_t func, size_t n, const anf_tir_arg *args) {
  tfunc f = m->prog.m->func.at[func];
  size_t hidden = anfi_t_attr(f->attrs, TA_resolved, NULL) ? 2 : 0;
  if (n + hidden != f->n) return fail_at(m, NULL, false, ANF_E0855, f->name->s);
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
static bool initialise(machine *m) {
  const tmod *mod = m->prog.m;
  const anfi_str *name = anfi_interned(&mod->t->names, "__tir_init", 10);
  uint64_t *at = name ? anfi_map_find(&mod->by_name, anfi_key(name)) : NULL;
  if (!at || !mod->func.at[*at - 1]->body || m->o->data) return true;
  if (!start(m, *at - 1, 0, NULL)) return false;
  while (step(m)) continue;
  return !m->failed;
}

static void give_back(machine *m, tfunc f, anf_tir_arg *result) {
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
  if (near && strcmp(near, func) != 0) anfi_hint(cx, "did you mean '%s'?", near);
  return false;
}

bool anfi_t_interp(anf_ctx *cx, const tmod *given, const char *func, size_t n,
                   const anf_tir_arg *args, const anf_tir_run_opts *o, anf_tir_arg *result) {
  const tmod *mod = runnable(cx, given);
  if (!mod) return false;
  const anfi_str *name = anfi_interned(&mod->t->names, func, strlen(func));
  uint64_t *at = name ? anfi_map_find(&mod->by_name, anfi_key(name)) : NULL;
  if (!at || !mod->func.at[*at - 1]->body) return not_there(cx, mod, func);
  machine *m = ANFI_NEW(anfi_scratch(cx), machine);
  anf_tir_run_opts *opts = ANFI_NEW(anfi_scratch(cx), anf_tir_run_opts);
  if (o) memcpy(opts, o, o->size && o->size < sizeof *opts ? o->size : sizeof *opts);
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
  if (m->failed) return false;
  if (result) give_back(m, mod->func.at[*at - 1], result);
  return true;
}
