// SPDX-License-Identifier: Apache-2.0
/* Random numbers as docs/random.md defines them: element i is a function of the key and i alone, so they are views
 * like others.
 *   RandomBits(key) of 32 bits   ->   element i is anf_random_u32(key, i)
 * The generator is a helper function (helper.c). */
#include "backend/lower/low.h"

#include <math.h>

#include "base/random.h"

#define U64 anfi_t_dt(ANF_TIR_u64)
#define U32 anfi_t_dt(ANF_TIR_u32)

static texpr f64(anfi_low *L, double v) { return anfi_low_const(L, ANFI_F64, v); }
static texpr mul(anfi_low *L, texpr a, texpr b) { return anfi_t_mul(L->t, a, b); }

static texpr key_of(anfi_low *L, const anfi_view *v) {
  return anfi_view_at(L, v, &(anfi_pt){0}).re;
}

static texpr word(anfi_low *L, texpr key, texpr at, bool wide) {
  texpr in[2] = {key, anfi_t_cast(L->t, U64, at)};
  return anfi_low_atom(
      L, anfi_low_help(L, wide ? "anf_random_u64" : "anf_random_u32", wide ? U64 : U32, 2, in));
}

static texpr shifted(anfi_low *L, texpr x, unsigned by) {
  return by ? anfi_t_intrin2(L->t, TI_shr, x, anfi_t_int(L->t, x->dtype, by)) : x;
}

/* The top bits as a multiple of 2^-p in [0, 1), in double. */
static texpr fraction(anfi_low *L, texpr x, unsigned drop, double scale) {
  return mul(L, anfi_t_cast(L->t, ANFI_F64, shifted(L, x, drop)), f64(L, scale));
}

static anfi_elem real_elem(texpr e) { return (anfi_elem){e, NULL}; }

static anfi_elem at_bits(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  unsigned bits = (unsigned)anfi_t_bytes(anfi_low_dt(v->dtype)) * 8;
  texpr w = word(L, key_of(L, v->in[0]), anfi_pt_linear(L, p), bits == 64);
  return real_elem(
      anfi_t_cast(L->t, anfi_low_dt(v->dtype), bits == 64 ? w : shifted(L, w, 32 - bits)));
}

/* ---- reals ---- */

static texpr unit(anfi_low *L, anf_dtype d, texpr key, texpr at) {
  bool wide = d == ANF_F64 || d == ANF_FLOAT;
  texpr w = word(L, key, at, wide);
  if (wide) return fraction(L, w, 11, 0x1p-53);
  if (d == ANF_F16) return fraction(L, w, 21, 0x1p-11);
  if (d == ANF_BF16) return fraction(L, w, 24, 0x1p-8);
  return fraction(L, w, 8, 0x1p-24);
}

/* Halfway between multiples of 2^-32, or of 2^-52 for f64. */
static texpr inside(anfi_low *L, anf_dtype d, texpr key, texpr at) {
  bool wide = d == ANF_F64 || d == ANF_FLOAT;
  texpr x = anfi_t_cast(L->t, ANFI_F64, shifted(L, word(L, key, at, wide), wide ? 12 : 0));
  return mul(L, anfi_t_add(L->t, x, f64(L, 0.5)), f64(L, wide ? 0x1p-52 : 0x1p-32));
}

/* x as the type has it. */
static double as(anfi_low *L, anf_dtype d, double x) {
  tdtype t = anfi_low_dt(d);
  (void)L;
  return anfi_t_lane_f64(t, anfi_t_lane_of_f64(t, x));
}

/* The greatest number of the type below x, which is finite. */
static double below(anf_dtype d, double x) {
  if (d == ANF_F64 || d == ANF_FLOAT) return nextafter(x, -INFINITY);
  if (d == ANF_F32) return (double)nextafterf((float)x, -INFINITY);
  tdtype t = d == ANF_F16 ? anfi_t_dt(ANF_TIR_f16) : anfi_t_dt(ANF_TIR_bf16);
  uint64_t h = anfi_t_lane_of_f64(t, x);
  h = (h & 0x7fff) == 0 ? 0x8001 : (h & 0x8000) ? h + 1 : h - 1;
  return anfi_t_lane_f64(t, h);
}

static anfi_elem at_uniform(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  tstore *t = L->t;
  tdtype d = anfi_low_dt(v->dtype);
  double low = as(L, v->dtype, anfi_attr_float(v->attr[2]));
  double high = as(L, v->dtype, anfi_attr_float(v->attr[3]));
  bool wide = d.elem == ANF_TIR_f64;
  tdtype c = anfi_t_dt(wide ? ANF_TIR_f64 : ANF_TIR_f32);
  double span = wide ? high - low : (double)((float)high - (float)low);
  texpr u = anfi_t_cast(t, c, unit(L, v->dtype, key_of(L, v->in[0]), anfi_pt_linear(L, p)));
  texpr x = anfi_t_add(t, anfi_low_const(L, c, low), mul(L, u, anfi_low_const(L, c, span)));
  x = anfi_low_atom(L, anfi_t_cast(t, d, x));
  if (!(low < high) || !isfinite(high)) return real_elem(x);
  texpr good = anfi_t_lt(t, anfi_t_cast(t, c, x), anfi_low_const(L, c, high));
  return real_elem(anfi_t_select(t, good, x, anfi_low_const(L, d, below(v->dtype, high))));
}

static anfi_elem at_normal(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  texpr u = inside(L, v->dtype, key_of(L, v->in[0]), anfi_pt_linear(L, p));
  texpr x = anfi_low_help(L, "anf_random_normal", ANFI_F64, 1, &u);
  x = mul(L, f64(L, anfi_attr_float(v->attr[3])), x);
  x = anfi_t_add(L->t, f64(L, anfi_attr_float(v->attr[2])), x);
  return real_elem(anfi_t_cast(L->t, anfi_low_dt(v->dtype), x));
}

static texpr chance(anfi_low *L, const anfi_view *key, const anfi_pt *p) {
  return fraction(L, word(L, key_of(L, key), anfi_pt_linear(L, p), false), 0, 0x1p-32);
}

static anfi_elem at_bernoulli(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  texpr prob = anfi_view_at_broadcast(L, v->in[1], v->type->n, v->type->dims, p).re;
  return real_elem(anfi_t_lt(L->t, chance(L, v->in[0], p), anfi_t_cast(L->t, ANFI_F64, prob)));
}

static anfi_elem at_dropout(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  double rate = anfi_attr_float(v->attr[0]);
  tstore *t = L->t;
  tdtype d = anfi_low_dt(v->dtype),
         c = anfi_t_dt(d.elem == ANF_TIR_f64 ? ANF_TIR_f64 : ANF_TIR_f32);
  texpr scale = anfi_low_const(L, c, as(L, v->dtype, 1.0 / (1.0 - rate)));
  texpr x = mul(L, anfi_t_cast(t, c, anfi_view_at(L, v->in[0], p).re), scale);
  texpr keep = anfi_t_bin(t, TX_cmp_ge, chance(L, v->in[1], p), f64(L, rate));
  return real_elem(anfi_t_select(t, keep, anfi_t_cast(t, d, x), anfi_low_const(L, d, 0)));
}

/* ---- integers and keys ---- */

static anfi_elem at_rand_int(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  uint64_t low = (uint64_t)anfi_attr_int(v->attr[1]);
  uint64_t range = (uint64_t)anfi_attr_int(v->attr[0]) - low;
  texpr in[2] = {word(L, key_of(L, v->in[0]), anfi_pt_linear(L, p), true),
                 anfi_t_int(L->t, U64, (int64_t)range)};
  texpr x = anfi_low_help(L, "anf_mul_high", U64, 2, in);
  x = anfi_t_add(L->t, anfi_t_int(L->t, U64, (int64_t)low), x);
  return real_elem(anfi_t_cast(L->t, anfi_low_dt(v->dtype), x));
}

static anfi_elem derived(anfi_low *L, const anfi_view *v, int purpose, texpr number) {
  texpr in[3] = {key_of(L, v->in[0]), anfi_t_int(L->t, U32, purpose),
                 anfi_t_cast(L->t, U64, number)};
  return real_elem(anfi_low_help(L, "anf_random_derive", U64, 3, in));
}

static anfi_elem at_split_key(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  return derived(L, v, ANFI_RANDOM_SPLIT, anfi_pt_linear(L, p));
}

static anfi_elem at_fold_in(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  texpr by = anfi_t_cast(L->t, ANFI_S64, anfi_view_at(L, v->in[1], &(anfi_pt){0}).re);
  (void)p;
  return derived(L, v, ANFI_RANDOM_FOLD, by);
}

bool anfi_lower_random(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  anfi_at at = at_uniform;
  switch (q->op) {
  case ANF_OP_RandomBits: at = at_bits; break;
  case ANF_OP_Normal: at = at_normal; break;
  case ANF_OP_Bernoulli: at = at_bernoulli; break;
  case ANF_OP_Dropout: at = at_dropout; break;
  case ANF_OP_RandInt: at = at_rand_int; break;
  case ANF_OP_SplitKey: at = at_split_key; break;
  case ANF_OP_FoldIn: at = at_fold_in; break;
  default: break;
  }
  out[0] = anfi_view_lazy(L, q, at == at_bernoulli ? ORDER_OWN : ORDER_FLAT, at);
  if (q->op != ANF_OP_Dropout && out[0]->order == ORDER_FLAT) out[0]->order = ORDER_ANY;
  return true;
}

/* ---- choices ---- */

typedef struct choice { // of one class, for each element of the result
  const anfi_low_op *q;
  size_t axis, lead;
  uint64_t classes;
} choice;

/* The logit of class k, for the element at these indices. */
static texpr logit(anfi_low *L, const choice *c, const texpr *at, texpr k) {
  const anf_type *t = c->q->in[1]->type;
  texpr to[ANF_MAX_RANK];
  for (size_t d = 0, j = 0; d < t->n; d++) {
    to[d] = d == c->axis ? k : t->dims[d] == 1 ? anfi_ix(L, 0) : at[c->lead + j];
    j += d != c->axis;
  }
  return anfi_t_cast(L->t, ANFI_F64, anfi_view_at_dims(L, c->q->in[1], to).re);
}

static texpr gumbel(anfi_low *L, texpr key, texpr at) {
  texpr x = inside(L, ANF_F32, key, at);
  for (int i = 0; i < 2; i++)
    x = mul(L, anfi_low_help(L, "anf_random_log", ANFI_F64, 1, &x), f64(L, -1));
  return x;
}

static void choose(anfi_low *L, const choice *c, texpr to, const anfi_nest *n) {
  tstore *t = L->t;
  texpr at[ANF_MAX_RANK], first = anfi_ix_mulc(L, anfi_pt_linear(L, &n->pt), c->classes);
  anfi_loop k;
  anfi_pt_dims(L, &n->pt, c->q->type->n, c->q->type->dims, at);
  texpr best = anfi_low_var(L, ANFI_F64, "best", f64(L, -INFINITY));
  texpr which = anfi_low_var(L, ANFI_S64, "class", anfi_t_int(t, ANFI_S64, 0));
  anfi_low_loop(L, &k, c->classes, "k");
  texpr g = gumbel(L, key_of(L, c->q->in[0]), anfi_ix_add(L, first, k.var));
  texpr s = anfi_low_let(L, anfi_t_add(t, logit(L, c, at, k.var), g), "s");
  texpr nan = anfi_t_bin(t, TX_logic_and, anfi_t_bin(t, TX_cmp_ne, s, s),
                         anfi_t_bin(t, TX_cmp_eq, best, best));
  texpr more =
      anfi_low_let(L, anfi_t_bin(t, TX_logic_or, anfi_t_bin(t, TX_cmp_gt, s, best), nan), "more");
  anfi_low_set(L, which, anfi_t_select(t, more, anfi_t_cast(t, ANFI_S64, k.var), which));
  anfi_low_set(L, best, anfi_t_select(t, more, s, best));
  anfi_low_loop_end(L, &k);
  anfi_low_put(L, to, anfi_pt_linear(L, &n->pt), real_elem(which), false);
}

bool anfi_lower_categorical(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  const anf_type *t = q->in[1]->type;
  choice c = {.q = q, .lead = q->type->n - (t->n - 1)};
  anfi_nest n;
  anfi_axis_in(anfi_attr_int(q->attr[0]), t->n, &c.axis);
  c.classes = (uint64_t)t->dims[c.axis];
  texpr to = anfi_low_result(L, q, 0, q->type);
  out[0] = anfi_view_of_result(L, q->type, to);
  if (!out[0]->n) return true;
  if (!c.classes) return anfi_lower_fill_zero(L, q, to);
  uint64_t cut[ANF_MAX_RANK], stride = 1;
  size_t ncut = 0;
  for (size_t k = q->type->n; k-- > 1;) cut[ncut++] = stride *= (uint64_t)q->type->dims[k];
  anfi_nest_open(L, &n, out[0], ncut, cut);
  choose(L, &c, to, &n);
  anfi_nest_close(L, &n);
  return true;
}
