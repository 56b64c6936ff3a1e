// SPDX-License-Identifier: Apache-2.0
/* Checks for NaN: in the outputs and in the new state, for sqrt(sum(x * x)) at 0 is finite and its gradient is not.
 *
 *   check:  look at both after each run
 *   find:   stop within the run before the state changes, and let the interpreter run the step once more, which
 *           names the operation that made the first NaN
 *
 * A state may hold infinities, such as the best loss so far before there is one; outputs may not. */
#include "step/step.h"

#include "anfora/debug.h"
#include "interp/interp.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

double anfi_step_number_at(anf_dtype t, const void *p) {
  union {
    bool b;
    int8_t i8;
    int16_t i16;
    int32_t i32;
    int64_t i64;
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
    float f32;
    double f64;
  } x;
  memcpy(&x, p, anf_dtype_bytes(t));
  switch (t) {
  case ANF_BOOL: return x.b;
  case ANF_I8: return x.i8;
  case ANF_I16: return x.i16;
  case ANF_I32: return x.i32;
  case ANF_U8: return x.u8;
  case ANF_U16: return x.u16;
  case ANF_U32: return x.u32;
  case ANF_U64: return (double)x.u64;
  case ANF_F16: return (double)anfi_f16_to_f32(x.u16);
  case ANF_BF16: return (double)anfi_bf16_to_f32(x.u16);
  case ANF_F32: return (double)x.f32;
  case ANF_F64:
  case ANF_FLOAT: return x.f64;
  default: return (double)x.i64;
  }
}

/* The first element that is no finite number; 0 if there is none. */
static double first_bad(anf_dtype t, const char *p, size_t bytes) {
  size_t size = anf_dtype_bytes(t);
  anf_dtype part = anfi_dtype_part(t);
  if (part != t) size /= 2;
  if (!anfi_dtype_is_float(part)) return 0.0;
  for (size_t i = 0; i < bytes; i += size) {
    double x = anfi_step_number_at(part, p + i);
    if (!isfinite(x)) return x;
  }
  return 0.0;
}

/* Of a whole state after each run: loops that the compiler makes vectors of. */
static bool has_nan32(const char *p, size_t n) {
  uint32_t bits, any = 0;
  for (size_t i = 0; i < n; i++) {
    memcpy(&bits, p + i * sizeof bits, sizeof bits);
    any |= (bits & 0x7fffffff) > 0x7f800000;
  }
  return any;
}
static bool has_nan64(const char *p, size_t n) {
  uint64_t bits, any = 0;
  for (size_t i = 0; i < n; i++) {
    memcpy(&bits, p + i * sizeof bits, sizeof bits);
    any |= (bits & UINT64_C(0x7fffffffffffffff)) > UINT64_C(0x7ff0000000000000);
  }
  return any;
}
static bool has_nan16(const char *p, size_t n, uint32_t infinity) {
  uint16_t bits;
  uint32_t any = 0;
  for (size_t i = 0; i < n; i++) {
    memcpy(&bits, p + i * sizeof bits, sizeof bits);
    any |= (bits & 0x7fffU) > infinity;
  }
  return any;
}

static bool has_nan(anf_dtype t, const char *p, size_t bytes) {
  switch (t) {
  case ANF_F16: return has_nan16(p, bytes / 2, 0x7c00);
  case ANF_BF16: return has_nan16(p, bytes / 2, 0x7f80);
  case ANF_F32:
  case ANF_C64: return has_nan32(p, bytes / 4);
  case ANF_F64:
  case ANF_FLOAT:
  case ANF_COMPLEX:
  case ANF_C128: return has_nan64(p, bytes / 8);
  default: return false;
  }
}

/* ---- stopping before the state changes ---- */

/* Nodes beside a result, with their types. */
typedef struct guarding {
  anf_graph *g;
  int64_t next;    // number of the next leaf
  int32_t ranks;   // that must agree, since each sees its part; or 0
  bool state;      // of the state, which an assertion knows as -1 - number, else of the outputs
  uint32_t *place; // by id: in the order of the graph; NULL: all is checked where it is
  anf_node **copy; // by id, while a part of the graph is copied
  size_t limit;    // of ids
} guarding;

static anf_node *part(const guarding *k, anf_node *n, uint32_t i) {
  bool made = anfi_is_op(n, ANF_OP_MakeRecord) || anfi_is_op(n, ANF_OP_MakeTuple);
  return made ? n->in[i].def : anfi_item(k->g, n, i);
}

/* AllReduce(fine) == ranks: all ranks stop, or none. */
static anf_node *on_all_ranks(const guarding *k, anf_node *fine) {
  anf_ctx *cx = k->g->module->cx;
  const anf_type *f64 = anfi_type_scalar(cx, ANF_F64);
  const anfi_attrs *to = anfi_attrs_one(k->g->module, ANF_OP_Cast, anfi_value_new_type(cx, f64));
  anf_node *one = anfi_typed(anfi_apply(k->g, ANF_OP_Cast, to, 1, &fine), f64);
  anf_node *sum = anfi_typed(anfi_apply1(k->g, ANF_OP_AllReduce, one), f64);
  anf_node *all = anfi_value(k->g->module, anfi_value_new_f64(cx, ANF_F64, k->ranks));
  return anfi_typed(anfi_apply2(k->g, ANF_OP_Equal, sum, anfi_typed(all, f64)), fine->type);
}

/* Large, and computed element by element. */
static bool is_cheap(const guarding *k, const anf_node *n) {
  enum { LARGE = 64 << 10 };
  if (n->kind != ANFI_APPLY || n->graph != k->g || n->flags & ANFI_NODE_EFFECT) return false;
  if (!n->type || n->type->kind != ANF_TYPE_TENSOR || anfi_type_bytes(n->type) < LARGE)
    return false;
  const anfi_op_info *op = anfi_op_of(n);
  return n->op == ANF_OP_Cast || (op->lower == ANFI_LOWER_POINTWISE && op->scalar);
}

/* Nodes by their place in the order of the graph. */
typedef struct placed {
  uint32_t place;
  anf_node *n;
} placed;
typedef ANFI_VEC(placed) cone;

static int by_place(const void *x, const void *y) {
  uint32_t a = ((const placed *)x)->place, b = ((const placed *)y)->place;
  return (a > b) - (a < b);
}

static bool is_in(const cone *c, const anf_node *n) {
  for (size_t i = 0; i < c->n; i++)
    if (c->at[i].n == n) return true;
  return false;
}

/* n and what it follows from element by element. False: that is too much to compute it twice. */
static bool collect(const guarding *k, anf_node *n, cone *c) {
  enum { MOST = 32 };
  anfi_arena *a = anfi_scratch(k->g->module->cx);
  if (is_cheap(k, n)) anfi_push(a, c, ((placed){k->place[n->id], n}));
  for (size_t i = 0; i < c->n; i++)
    for (uint32_t j = 0; j < c->at[i].n->nin; j++) {
      anf_node *x = c->at[i].n->in[j].def;
      if (!is_cheap(k, x) || is_in(c, x)) continue;
      if (c->n == MOST) return false;
      anfi_push(a, c, ((placed){k->place[x->id], x}));
    }
  return c->n != 0;
}

static anf_node *copy(const guarding *k, const anf_node *n) {
  anf_node **in = ANFI_NEW_N(anfi_scratch(k->g->module->cx), anf_node *, n->nin + 1);
  for (uint32_t i = 0; i < n->nin; i++) {
    anf_node *x = n->in[i].def;
    in[i] = x->id < k->limit && k->copy[x->id] ? k->copy[x->id] : x;
  }
  return anfi_typed(anfi_apply(k->g, (anfi_opcode)n->op, n->u.attrs, n->nin, in), n->type);
}

/* A new state that is checked before it is written would be held beside the old one. What of it is computed element by
 * element is computed twice instead, for the check and in the place of the old state. */
static anf_node *computed_again(guarding *k, anf_node *n) {
  cone c = {0};
  if (!collect(k, n, &c)) return n;
  qsort(c.at, c.n, sizeof *c.at, by_place);
  for (size_t i = 0; i < c.n; i++) k->copy[c.at[i].n->id] = copy(k, c.at[i].n);
  anf_node *again = k->copy[n->id];
  for (size_t i = 0; i < c.n; i++) k->copy[c.at[i].n->id] = NULL;
  return again;
}

static void number_nodes(guarding *k) {
  anfi_arena *a = anfi_scratch(k->g->module->cx);
  anfi_node_vec order = {0};
  anfi_graph_order(k->g, a, &order);
  k->limit = k->g->module->nodes.n;
  k->place = ANFI_NEW_N(a, uint32_t, k->limit + 1);
  k->copy = ANFI_NEW_N(a, anf_node *, k->limit + 1);
  for (size_t i = 0; i < order.n; i++) k->place[order.at[i]->id] = (uint32_t)i;
}

static void guard_tensor(guarding *k, anf_node *n) {
  anf_ctx *cx = k->g->module->cx;
  if (k->place) n = computed_again(k, n);
  const anf_type *t = n->type, *bit = anfi_type_scalar(cx, ANF_BOOL);
  anf_dtype d = (anf_dtype)t->dtype;
  int64_t leaf = k->next++;
  if (!anfi_dtype_is_float(anfi_dtype_part(d))) return;
  const anf_type *bits = anfi_type_with_dtype(cx, t, ANF_BOOL);
  anf_node *fine =
      anfi_typed(anfi_apply1(k->g, k->state ? ANF_OP_IsNan : ANF_OP_IsFinite, n), bits);
  if (k->state) fine = anfi_typed(anfi_apply1(k->g, ANF_OP_LogicalNot, fine), bits);
  if (t->n) fine = anfi_typed(anfi_apply1(k->g, ANF_OP_All, fine), bit);
  if (k->ranks && t->n) fine = on_all_ranks(k, fine);
  anf_node *which =
      anfi_value(k->g->module, anfi_value_new_i64(cx, ANF_I64, k->state ? -1 - leaf : leaf));
  which->type = anfi_type_scalar(cx, ANF_I64);
  anfi_add_effect(k->g, anfi_typed(anfi_apply2(k->g, ANF_OP_Assert, fine, which),
                                   anfi_type_simple(cx, ANF_TYPE_NONE)));
}

/* Items `from` to `to` of a nest, or it itself. Types do not nest deeply. */
static void guard_all(guarding *k, anf_node *n, uint32_t from, uint32_t to) {
  const anf_type *t = n->type;
  if (t->kind == ANF_TYPE_TENSOR) guard_tensor(k, n);
  if (t->kind != ANF_TYPE_TUPLE && t->kind != ANF_TYPE_RECORD) return;
  for (uint32_t i = from; i < t->n && i < to; i++) guard_all(k, part(k, n, i), 0, UINT32_MAX);
}

void anfi_step_guard(anf_graph *g, size_t nstate, int32_t ranks) {
  guarding outputs = {.g = g}, state = {.g = g, .state = true, .ranks = ranks};
  anf_node *result = g->result;
  if (!nstate || result->type->kind == ANF_TYPE_TUPLE)
    guard_all(&outputs, result, (uint32_t)nstate, UINT32_MAX);
  if (nstate) number_nodes(&state);
  if (nstate) guard_all(&state, result, 0, (uint32_t)nstate);
}

/* ---- finding the operation ---- */

typedef struct found {
  const anf_node *node; // that made the first NaN, or, `inf`, the first infinity
  const char *op;
  anfi_loc loc;
} found;
typedef struct search {
  found nan, inf;
} search;

/* The worst of its elements: NaN, or else an infinity, or else 0. */
static double worst(const anf_value *v) {
  if (v->kind != ANF_VALUE_TENSOR) return 0.0;
  anf_dtype t = (anf_dtype)v->type->dtype;
  size_t size = anf_dtype_bytes(t);
  double r = 0.0;
  for (size_t i = 0; i < v->n && !isnan(r); i++) {
    double x = first_bad(t, (const char *)v->data + i * size, size);
    if (x != 0.0) r = x;
  }
  return r;
}

static void watch(void *user, const anf_node *node, size_t n, anf_value *const *in,
                  const anf_value *out) {
  search *k = (search *)user;
  if (k->nan.node) return;
  double made = worst(out);
  found *f = isnan(made) ? &k->nan : &k->inf;
  if (made == 0.0 || f->node) return;
  for (size_t i = 0; i < n; i++) {
    double was = in[i] ? worst(in[i]) : 0.0;
    if (isnan(made) ? isnan(was) : was != 0.0) return; // it was so before
  }
  // the node may be of a copy that is gone when this is read
  *f = (found){.node = node, .op = anfi_op_of(node)->name, .loc = anfi_node_loc(node)};
}

anf_status anf_check_nan(anf_graph *g, size_t n, anf_value *const *args, anf_diag *d) {
  ANFI_NEED(d, g);
  if (n) ANFI_NEED(d, args);
  if (!g || (n && !args)) return ANF_INVALID;
  anf_ctx *cx = g->module->cx;
  ANFI_ENTRY(cx, d);
  search k = {0};
  anf_value_release(anfi_run_watched(g, n, args, watch, &k));
  if (k.nan.node) {
    char text[96];
    snprintf(text, sizeof text, "%s makes a NaN of numbers that are none", k.nan.op);
    anfi_fail(cx, k.nan.loc, ANF_E0442, text);
  }
  return anfi_leave(cx);
}

/* Runs the step from the state as it is now. */
static void find(anf_step *s, search *k) {
  size_t n = s->g->params.n;
  anf_value **v = ANFI_NEW_N(anfi_scratch(s->cx), anf_value *, n + 1);
  for (size_t i = 0; i < n; i++) {
    bool state = i < s->nstate;
    const anfi_step_leaf *l = state ? &s->leaf[ANF_STATE][s->first[i]]
                                    : &s->leaf[ANF_INPUT][s->first[i] - s->nleaf[ANF_STATE]];
    v[i] = anfi_step_value(s, s->param[i], l);
    anfi_defer(s->cx, ANFI_ALWAYS, anfi_release, v[i]);
  }
  anf_value *r = anfi_run_watched(s->g, n, v, watch, k);
  anf_value_release(r);
}

static anf_status find_in_frame(anf_step *s, search *k) {
  ANFI_ENTRY(s->cx, NULL);
  find(s, k);
  return anfi_leave(s->cx);
}

static const char *input_that_is_bad(const anf_step *s) {
  for (int r = ANF_STATE; r <= ANF_INPUT; r++)
    for (size_t i = 0; i < s->nleaf[r]; i++) {
      const anfi_step_leaf *l = &s->leaf[r][i];
      if (first_bad((anf_dtype)l->type->dtype, l->at, l->bytes) != 0.0) return l->name;
    }
  return NULL;
}

bool anfi_step_explain(anf_step *s) {
  const anf_trap *t = anf_stream_trap(s->stream);
  if (t->kind != ANF_TRAP_SITE || s->v->low.sites.at[t->site].code != ANF_E1117) return false;
  search k = {0};
  int64_t leaf = t->a;
  anf_status st = s->nsharded ? ANF_OK : find_in_frame(s, &k); // this rank has no whole state
  if (st == ANF_NOMEM) anfi_throw_nomem(s->cx);
  unsigned long long step = (unsigned long long)s->count + 1;
  if (leaf < 0)
    anfi_fail(s->cx, anfi_nowhere(), ANF_E1125, s->leaf[ANF_STATE][-1 - leaf].name, step);
  else
    anfi_fail(s->cx, anfi_nowhere(), ANF_E1117, s->leaf[ANF_OUTPUT][leaf].name, step,
              k.nan.node || !k.inf.node ? "NaN" : "an infinity");
  const char *name = input_that_is_bad(s);
  if (name) anfi_hint(s->cx, "'%s' holds NaN or infinity before the step", name);
  if (k.nan.node)
    anfi_note(s->cx, k.nan.loc, "%s made the first NaN of numbers that were none", k.nan.op);
  if (k.inf.node)
    anfi_note(s->cx, k.inf.loc, "%s made the first infinity of finite numbers", k.inf.op);
  return true;
}

bool anfi_step_check(anf_step *s) {
  for (size_t i = 0; i < s->nleaf[ANF_OUTPUT]; i++) {
    const anfi_step_leaf *l = &s->leaf[ANF_OUTPUT][i];
    double x = first_bad((anf_dtype)l->type->dtype, l->at, l->bytes);
    if (x == 0.0) continue;
    anfi_fail(s->cx, anfi_nowhere(), ANF_E1117, l->name, (unsigned long long)s->count,
              isnan(x) ? "NaN" : "an infinity");
    return false;
  }
  for (size_t i = 0; i < s->nleaf[ANF_STATE]; i++) {
    const anfi_step_leaf *l = &s->leaf[ANF_STATE][i];
    if (has_nan((anf_dtype)l->type->dtype, l->at, l->bytes))
      return anfi_fail(s->cx, anfi_nowhere(), ANF_E1125, l->name, (unsigned long long)s->count);
  }
  return true;
}
