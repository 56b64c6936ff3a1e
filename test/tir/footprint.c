// SPDX-License-Identifier: Apache-2.0
/* Values are lanes of a number that is known, or of a term: its hash and the set of symbols in it. Sets are kept once, so
 * that they are the same number in both functions. What is not followed makes the run give up: calls that take pointers,
 * tiles, gathers, branches and indices that depend on symbols. */
#include "test/tir/footprint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  MOST_LANES = 64,
  MOST_SYMBOLS = 4096,
  WORDS = MOST_SYMBOLS / 64,
  MOST_SETS = 1 << 14,
  SLOTS = 1 << 16,
  MOST_STEPS = 400000,
  MOST_DEPTH = 8
};

typedef struct {
  bool known;
  int64_t v;
  uint64_t hash;
  uint32_t set; // of symbols; 0: none
} lane;

typedef struct {
  lane at;
  bool written;
} cell;

typedef struct {
  cell *cells; // NULL: nothing of this number is a tensor
  uint64_t n;
  bool owned;
} tensor;

/* Sets of symbols, each once. */
typedef struct {
  uint64_t (*bits)[WORDS];
  uint32_t n, room, slot[SLOTS];
} sets;

typedef struct {
  const tmod *m;
  sets *sets;
  lane **var;      // by id
  tensor *tensors; // likewise
  size_t ids, steps;
  unsigned depth;
  bool returned;
  lane result;
} machine;

static void *zeros(size_t n, size_t size) {
  void *p = calloc(n ? n : 1, size);
  if (!p) abort();
  return p;
}

static uint64_t mix(uint64_t h, uint64_t x) {
  h = (h ^ x) * UINT64_C(0x9e3779b97f4a7c15);
  return h ^ h >> 29;
}

/* ---- sets ---- */

static void grow(sets *s) {
  s->room = s->room ? 2 * s->room : 64;
  s->bits = (uint64_t(*)[WORDS])realloc(s->bits, s->room * sizeof *s->bits);
  if (!s->bits) abort();
}

static bool set_of(sets *s, const uint64_t *bits, uint32_t *out) {
  uint64_t h = 1;
  for (int i = 0; i < WORDS; i++) h = mix(h, bits[i]);
  uint32_t *slot = &s->slot[h % SLOTS];
  while (*slot && memcmp(s->bits[*slot - 1], bits, sizeof *s->bits) != 0)
    slot = slot == &s->slot[SLOTS - 1] ? s->slot : slot + 1;
  if (!*slot) {
    if (s->n == MOST_SETS) return false;
    if (s->n == s->room) grow(s);
    memcpy(s->bits[s->n++], bits, sizeof *s->bits);
    *slot = s->n;
  }
  *out = *slot - 1;
  return true;
}

static bool joined(sets *s, uint32_t a, uint32_t b, uint32_t *out) {
  uint64_t bits[WORDS];
  *out = a;
  if (a == b || !b) return true;
  for (int i = 0; i < WORDS; i++) bits[i] = s->bits[a][i] | s->bits[b][i];
  return set_of(s, bits, out);
}

static lane symbol(sets *s, uint32_t number) {
  uint64_t bits[WORDS] = {0};
  lane x = {.hash = mix(7, number)};
  bits[number / 64] = UINT64_C(1) << number % 64;
  if (!set_of(s, bits, &x.set)) abort();
  return x;
}

/* ---- numbers ---- */

static int64_t wrapped(tdtype d, int64_t v) {
  unsigned bits = (unsigned)anfi_t_bytes(d) * 8;
  if (anfi_t_class(d) == TC_BOOL) return v != 0;
  if (bits >= 64) return v;
  uint64_t low = (uint64_t)v & ((UINT64_C(1) << bits) - 1);
  bool negative = anfi_t_class(d) == TC_SINT && low >> (bits - 1) & 1;
  return (int64_t)(negative ? low | ~((UINT64_C(1) << bits) - 1) : low);
}

static bool is_whole(tdtype d) {
  return !d.ptr &&
         (anfi_t_is_int(d) || anfi_t_is_elem(anfi_t_with(d, (anf_tir_elem)d.elem), ANF_TIR_bool));
}

static lane number(tdtype d, int64_t v) {
  v = wrapped(d, v);
  return (lane){.known = true, .v = v, .hash = mix(mix(3, d.elem), (uint64_t)v)};
}

/* Of known operands; false: it is not defined, or not done here. */
static bool fold(texpr e, tdtype d, int64_t a, int64_t b, int64_t *out) {
  bool no_sign = anfi_t_class(d) == TC_UINT;
  uint64_t x = (uint64_t)a, y = (uint64_t)b;
  if ((e->kind == TX_div || e->kind == TX_mod) && (b == 0 || (a == INT64_MIN && b == -1)))
    return false;
  switch ((tkind)e->kind) {
  case TX_add: *out = (int64_t)(x + y); return true;
  case TX_sub: *out = (int64_t)(x - y); return true;
  case TX_mul: *out = (int64_t)(x * y); return true;
  case TX_div: *out = no_sign ? (int64_t)(x / y) : a / b; return true;
  case TX_mod: *out = no_sign ? (int64_t)(x % y) : a % b; return true;
  case TX_cmp_eq: *out = a == b; return true;
  case TX_cmp_ne: *out = a != b; return true;
  case TX_cmp_lt: *out = no_sign ? x < y : a < b; return true;
  case TX_cmp_le: *out = no_sign ? x <= y : a <= b; return true;
  case TX_cmp_gt: *out = no_sign ? x > y : a > b; return true;
  case TX_cmp_ge: *out = no_sign ? x >= y : a >= b; return true;
  case TX_logic_and: *out = a && b; return true;
  case TX_logic_or: *out = a || b; return true;
  case TX_logic_not: *out = !a; return true;
  case TX_intrin_call:
    if (e->sub != TI_min && e->sub != TI_max) return false;
    *out = (no_sign ? x < y : a < b) == (e->sub == TI_min) ? a : b;
    return true;
  default: return false;
  }
}

/* A term of some lanes. */
static bool term(machine *m, texpr e, size_t n, const lane *in, lane *out) {
  lane r = {.hash =
                mix(mix(mix(5, e->kind), e->kind == TX_intrin_call ? e->sub : 0), e->dtype.elem)};
  for (size_t i = 0; i < n; i++) {
    r.hash = mix(r.hash, in[i].hash);
    if (!joined(m->sets, r.set, in[i].set, &r.set)) return false;
  }
  *out = r;
  return true;
}

/* ---- expressions ---- */

static bool eval(machine *m, texpr e, lane *out);

static bool eval_constant(texpr e, lane *out) {
  if (e->sub) return false;
  for (uint32_t k = 0; k < anfi_t_total(e->dtype); k++) {
    uint64_t bits = e->u.k.bits[e->u.k.n == 1 ? 0 : k];
    if (is_whole(e->dtype)) out[k] = number(e->dtype, anfi_t_lane_i64(e->dtype, bits));
    else out[k] = (lane){.hash = mix(mix(11, e->dtype.elem), bits)};
  }
  return true;
}

/* Lane by lane, of operands with as many lanes or one. */
static bool eval_lanes(machine *m, texpr e, lane *out) {
  uint32_t lanes = anfi_t_total(e->dtype);
  if (e->n == 0 || e->n > 3) return false;
  lane in[3][MOST_LANES];
  for (uint32_t i = 0; i < e->n; i++) {
    uint32_t own = anfi_t_total(e->in[i]->dtype);
    if ((own != 1 && own != lanes) || !eval(m, e->in[i], in[i])) return false;
  }
  for (uint32_t k = 0; k < lanes; k++) {
    lane x[3];
    int64_t v;
    bool known = is_whole(e->dtype) && is_whole(e->in[0]->dtype);
    for (uint32_t i = 0; i < e->n; i++) {
      x[i] = in[i][anfi_t_total(e->in[i]->dtype) == 1 ? 0 : k];
      known &= x[i].known;
    }
    if (e->kind == TX_cast && known) out[k] = number(e->dtype, x[0].v);
    else if (e->kind == TX_select && x[0].known) out[k] = x[x[0].v ? 1 : 2];
    else if (known && e->kind != TX_select &&
             fold(e, e->in[0]->dtype, x[0].v, e->n > 1 ? x[1].v : 0, &v))
      out[k] = number(e->dtype, v);
    else if (!term(m, e, e->n, x, &out[k])) return false;
  }
  return true;
}

/* All lanes of all operands go into each lane of the result. */
static bool eval_mixed(machine *m, texpr e, lane *out) {
  lane all = {0}, in[MOST_LANES];
  uint64_t hash = mix(13, e->sub);
  for (uint32_t i = 0; i < e->n; i++) {
    if (!eval(m, e->in[i], in)) return false;
    for (uint32_t k = 0; k < anfi_t_total(e->in[i]->dtype); k++) {
      hash = mix(hash, in[k].hash);
      if (!joined(m->sets, all.set, in[k].set, &all.set)) return false;
    }
  }
  for (uint32_t k = 0; k < anfi_t_total(e->dtype); k++)
    out[k] = (lane){.hash = mix(hash, k), .set = all.set};
  return true;
}

static bool eval_intrinsic(machine *m, texpr e, lane *out) {
  const tintrin_info *in = &anfi_t_intrins[e->sub];
  if (in->purity == TP_MEMORY || in->purity == TP_EFFECT) return false;
  if (e->sub == TI_broadcast && anfi_t_total(e->in[0]->dtype) == 1) {
    if (!eval(m, e->in[0], out)) return false;
    for (uint32_t k = 1; k < anfi_t_total(e->dtype); k++) out[k] = out[0];
    return true;
  }
  bool lanes = in->typing == TT_SAME || in->typing == TT_BOOLS || e->sub == TI_round_and_cast ||
               e->sub == TI_saturated_cast;
  return lanes ? eval_lanes(m, e, out) : in->typing == TT_ELEM && eval_mixed(m, e, out);
}

static bool known_index(machine *m, texpr e, int64_t *out) {
  lane x[MOST_LANES];
  if (anfi_t_total(e->dtype) != 1 || !eval(m, e, x) || !x[0].known) return false;
  *out = x[0].v;
  return true;
}

/* The cells that lanes of an access are of; NULL for those that a mask leaves out. */
static bool find_cells(machine *m, texpr e, cell **out) {
  texpr t = e->in[0], mask = e->kind == TX_indexing ? anfi_t_mask(e) : NULL;
  const tensor *to = t->kind == TX_tensor && t->id < m->ids ? &m->tensors[t->id] : NULL;
  lane on[MOST_LANES];
  int64_t at = 0, stride = 1;
  if (!to || !to->cells || t->sub || e->dtype.rows || e->nidx != t->nidx || anfi_t_has_strides(t))
    return false;
  for (uint32_t k = t->nidx; k-- > 0;) {
    int64_t i, dim;
    if (!known_index(m, e->in[1 + k], &i)) return false;
    at += i * stride;
    if (k && !known_index(m, t->in[k], &dim)) return false;
    if (k) stride *= dim;
  }
  if (mask && !eval(m, mask, on)) return false;
  for (uint32_t k = 0; k < e->dtype.lanes; k++) {
    uint32_t own = mask && anfi_t_total(mask->dtype) > 1 ? k : 0;
    if (mask && !on[own].known) return false;
    bool off = mask && !on[own].v;
    if (!off && (at < 0 || (uint64_t)at + k >= to->n)) return false;
    out[k] = off ? NULL : &to->cells[(uint64_t)at + k];
  }
  return true;
}

static bool eval_load(machine *m, texpr e, lane *out) {
  cell *at[MOST_LANES];
  if (!find_cells(m, e, at)) return false;
  for (uint32_t k = 0; k < e->dtype.lanes; k++)
    out[k] = at[k] ? at[k]->at : (lane){.hash = mix(17, e->dtype.elem)};
  return true;
}

static bool run_function(machine *m, tfunc f, lane *const *args);

/* Functions of numbers; those from outside are terms, unless they take pointers or give nothing. */
static bool eval_call(machine *m, texpr e, lane *out) {
  lane args[8][MOST_LANES], *list[8];
  if (!e->u.name || e->n != e->nidx || e->n > 8) return false;
  for (uint32_t i = 0; i < e->n; i++) {
    if (e->in[i]->dtype.ptr || anfi_t_total(e->in[i]->dtype) != 1 || !eval(m, e->in[i], args[i]))
      return false;
    list[i] = args[i];
  }
  tfunc f = anfi_t_mod_find(m->m, e->u.name);
  if (!f || f->n != e->n || anfi_t_total(e->dtype) != 1 || anfi_t_is_void(e->dtype)) return false;
  if (f->body) {
    bool good = m->depth < MOST_DEPTH && run_function(m, f, list);
    out[0] = m->result;
    m->returned = false;
    return good;
  }
  lane flat[8];
  for (uint32_t i = 0; i < e->n; i++) flat[i] = args[i][0];
  if (!term(m, e, e->n, flat, out)) return false;
  for (const char *s = e->u.name->s; *s; s++) out->hash = mix(out->hash, (unsigned char)*s);
  return true;
}

static bool eval(machine *m, texpr e, lane *out) {
  if (anfi_t_total(e->dtype) > MOST_LANES || ++m->steps > MOST_STEPS) return false;
  switch ((tkind)e->kind) {
  case TX_constant: return eval_constant(e, out);
  case TX_var:
    if (e->id >= m->ids || !m->var[e->id]) return false;
    memcpy(out, m->var[e->id], anfi_t_total(e->dtype) * sizeof *out);
    return true;
  case TX_indexing: return eval_load(m, e, out);
  case TX_intrin_call: return eval_intrinsic(m, e, out);
  case TX_call: return eval_call(m, e, out);
  case TX_tensor:
  case TX_tensorptr:
  case TX_func_addr:
  case TX_ssa_phi: return false;
  default: return eval_lanes(m, e, out);
  }
}

/* ---- statements: false gives up ---- */

static bool run(machine *m, tstmt s);

static void set_var(machine *m, texpr v, const lane *x) {
  if (!m->var[v->id]) m->var[v->id] = (lane *)zeros(MOST_LANES, sizeof(lane));
  memcpy(m->var[v->id], x, anfi_t_total(v->dtype) * sizeof *x);
}

static tensor *new_tensor(machine *m, texpr t) {
  uint64_t n;
  tensor *to = &m->tensors[t->id];
  if (t->sub || !anfi_t_const_elems(t, &n) || n > MOST_SYMBOLS * 4) return NULL;
  if (to->owned) free(to->cells);
  *to = (tensor){.cells = (cell *)zeros(n, sizeof(cell)), .n = n, .owned = true};
  for (uint64_t i = 0; i < n; i++) to->cells[i].at.hash = 19; // nothing was written
  return to;
}

/* A view of a tensor of the same elements, from an index on. */
static bool view(machine *m, texpr t, texpr init) {
  tensor *to = &m->tensors[t->id];
  uint64_t n;
  cell *first;
  if (init->kind != TX_tensorptr || init->in[0]->dtype.elem != t->dtype.elem ||
      !find_cells(m, init, &first))
    return false;
  const tensor *of = &m->tensors[init->in[0]->id];
  uint64_t left = of->n - (uint64_t)(first - of->cells);
  if (!anfi_t_const_elems(t, &n)) return false;
  if (to->owned) free(to->cells);
  *to = (tensor){.cells = first, .n = n < left ? n : left};
  return true;
}

static bool define(machine *m, tstmt s) {
  texpr v = s->e[0], init = s->e[1];
  lane x[MOST_LANES];
  if (v->kind == TX_tensor && init && init->kind != TX_constant) return view(m, v, init);
  if (v->kind == TX_tensor) {
    tensor *t = new_tensor(m, v);
    for (uint64_t i = 0; t && init && i < t->n; i++) {
      uint64_t bits = anfi_t_list_lane(init, i);
      t->cells[i].at = is_whole(init->dtype)
                           ? number(init->dtype, anfi_t_lane_i64(init->dtype, bits))
                           : (lane){.hash = mix(mix(11, init->dtype.elem), bits)};
    }
    return t && (!init || init->sub);
  }
  memset(x, 0, sizeof x);
  for (int k = 0; k < MOST_LANES; k++) x[k].hash = 19;
  if (anfi_t_total(v->dtype) > MOST_LANES || (init && !eval(m, init, x))) return false;
  set_var(m, v, x);
  return true;
}

static bool assign(machine *m, tstmt s) {
  lane x[MOST_LANES];
  cell *at[MOST_LANES];
  texpr to = s->e[0];
  if (!eval(m, s->e[1], x)) return false;
  if (anfi_t_total(to->dtype) != anfi_t_total(s->e[1]->dtype)) return false;
  if (to->kind == TX_var) return set_var(m, to, x), true;
  if (to->kind != TX_indexing || !find_cells(m, to, at)) return false;
  for (uint32_t k = 0; k < to->dtype.lanes; k++)
    if (at[k]) *at[k] = (cell){x[k], true};
  return true;
}

static bool run_loop(machine *m, tstmt s) {
  int64_t from, to, step;
  if (!known_index(m, s->e[1], &from) || !known_index(m, s->e[2], &to) ||
      !known_index(m, s->e[3], &step) || step <= 0)
    return false;
  for (int64_t i = from; i < to && !m->returned; i += step) {
    lane x = number(s->e[0]->dtype, i);
    set_var(m, s->e[0], &x);
    if (!run(m, s->s[0])) return false;
  }
  return true;
}

static bool run_branch(machine *m, tstmt s) {
  lane x[MOST_LANES];
  if (!eval(m, s->e[0], x) || !x[0].known) return false;
  return x[0].v ? run(m, s->s[0]) : !s->s[1] || run(m, s->s[1]);
}

static bool run_while(machine *m, tstmt s) {
  lane x[MOST_LANES];
  while (!m->returned) {
    if (!eval(m, s->e[0], x) || !x[0].known) return false;
    if (!x[0].v) return true;
    if (!run(m, s->s[0])) return false;
  }
  return true;
}

static bool run(machine *m, tstmt s) {
  lane x[MOST_LANES];
  switch ((tskind)s->kind) {
  case TS_stmts:
    for (uint32_t i = 0; i < s->n && !m->returned; i++)
      if (!run(m, s->s[i])) return false;
    return true;
  case TS_define: return define(m, s);
  case TS_assign: return assign(m, s);
  case TS_if_else: return run_branch(m, s);
  case TS_for_loop: return run_loop(m, s);
  case TS_while_loop: return run_while(m, s);
  case TS_evaluate: return eval(m, s->e[0], x);
  case TS_returns:
    if (s->e[0] && (anfi_t_total(s->e[0]->dtype) != 1 || !eval(m, s->e[0], x))) return false;
    if (s->e[0]) m->result = x[0];
    return m->returned = true;
  case TS_COUNT: break;
  }
  return false;
}

/* Of numbers alone, called by another. */
static bool run_function(machine *m, tfunc f, lane *const *args) {
  for (uint32_t i = 0; i < f->n; i++) {
    if (f->param[i]->kind != TX_var || anfi_t_total(f->param[i]->dtype) != 1) return false;
    set_var(m, f->param[i], args[i]);
  }
  m->depth++;
  bool good = run(m, f->body);
  m->depth--;
  return good;
}

/* ---- two functions ---- */

static bool make_globals(machine *m) {
  for (size_t i = 0; i < m->m->global.n; i++)
    if (!define(m, m->m->global.at[i])) m->tensors[m->m->global.at[i]->e[0]->id].cells = NULL;
  return true;
}

/* Parameters are symbols, numbered in order. */
static bool run_on_symbols(machine *m, tfunc f) {
  uint32_t next = 0;
  make_globals(m);
  for (uint32_t i = 0; i < f->n; i++) {
    texpr p = f->param[i];
    lane x[MOST_LANES];
    tensor *t = p->kind == TX_tensor ? new_tensor(m, p) : NULL;
    if (p->kind == TX_tensor && (!t || next + t->n > MOST_SYMBOLS)) return false;
    for (uint64_t k = 0; t && k < t->n; k++) t->cells[k].at = symbol(m->sets, next++);
    if (t) continue;
    if (p->kind != TX_var || p->dtype.ptr || anfi_t_total(p->dtype) != 1 || next == MOST_SYMBOLS)
      return false;
    x[0] = symbol(m->sets, next++);
    set_var(m, p, x);
  }
  return run(m, f->body);
}

static machine new_machine(const tmod *m, sets *s) {
  machine x = {.m = m, .sets = s, .ids = m->t->next_id};
  x.var = (lane **)zeros(x.ids, sizeof *x.var);
  x.tensors = (tensor *)zeros(x.ids, sizeof *x.tensors);
  return x;
}

static void end_machine(machine *m) {
  for (size_t i = 0; i < m->ids; i++) {
    free(m->var[i]);
    if (m->tensors[i].owned) free(m->tensors[i].cells);
  }
  free(m->var);
  free(m->tensors);
}

static bool same_lane(const lane *a, const lane *b) {
  return a->hash == b->hash || a->set == b->set;
}

static bool same_tensors(const machine *a, const machine *b, tfunc f, tfunc g, footprint_counts *n,
                         char *why, size_t len) {
  for (uint32_t i = 0; i < f->n; i++) {
    if (f->param[i]->kind != TX_tensor) continue;
    const tensor *x = &a->tensors[f->param[i]->id], *y = &b->tensors[g->param[i]->id];
    for (uint64_t k = 0; k < x->n && k < y->n; k++) {
      const cell *p = &x->cells[k], *q = &y->cells[k];
      n->elements += p->written;
      n->terms += p->written && p->at.hash == q->at.hash;
      if (p->written == q->written && same_lane(&p->at, &q->at)) continue;
      snprintf(why, len, "%s: element %llu of '%s' is %s", f->name->s, (unsigned long long)k,
               f->param[i]->u.name->s,
               p->written == q->written ? "made of other elements"
               : q->written             ? "written"
                                        : "not written any more");
      return false;
    }
  }
  bool same = anfi_t_is_void(f->ret) || same_lane(&a->result, &b->result);
  if (!same) snprintf(why, len, "%s: the result is made of other elements", f->name->s);
  return same;
}

static bool same_signature(tfunc f, tfunc g) {
  if (f->n != g->n || !anfi_t_same(f->ret, g->ret)) return false;
  for (uint32_t i = 0; i < f->n; i++) {
    uint64_t n, m;
    texpr p = f->param[i], q = g->param[i];
    if (p->kind != q->kind || !anfi_t_same(p->dtype, q->dtype)) return false;
    if (p->kind == TX_tensor &&
        (!anfi_t_const_elems(p, &n) || !anfi_t_const_elems(q, &m) || n != m))
      return false;
  }
  return true;
}

static sets *new_sets(void) {
  static const uint64_t none[WORDS];
  uint32_t first;
  sets *s = (sets *)zeros(1, sizeof *s);
  if (!set_of(s, none, &first) || first) abort();
  return s;
}

static bool agree(const tmod *m, const tmod *o, tfunc f, tfunc g, footprint_counts *n, char *why,
                  size_t len) {
  sets *s = new_sets();
  machine a = new_machine(m, s), b = new_machine(o, s);
  bool both = run_on_symbols(&a, f) && run_on_symbols(&b, g);
  bool good = !both || same_tensors(&a, &b, f, g, n, why, len);
  n->functions += both;
  n->skipped += !both;
  end_machine(&a);
  end_machine(&b);
  free(s->bits);
  free(s);
  return good;
}

bool footprints_agree(const tmod *a, const tmod *b, footprint_counts *n, char *why, size_t len) {
  for (size_t i = 0; i < a->func.n; i++) {
    tfunc f = a->func.at[i], g = NULL;
    for (size_t k = 0; k < b->func.n && !g; k++)
      if (strcmp(b->func.at[k]->name->s, f->name->s) == 0) g = b->func.at[k];
    if (!g || !f->body || !g->body || !same_signature(f, g)) continue;
    if (!agree(a, b, f, g, n, why, len)) return false;
  }
  return true;
}
