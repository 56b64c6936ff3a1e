// SPDX-License-Identifier: Apache-2.0
/* Elementwise code on complex numbers: pairs of reals.
 *   z * w, both c64    ->    (re, im) = (a c - b d, a d + b c) in double, each rounded to float
 * Each instruction is computed in double and rounded to the part's type, as ir/ops/elementwise.c does it. Functions that
 * C's library has for complex numbers (powers, roots, exponentials) are calls of the run time, one for each part. */
#include "backend/lower/math/scalar.h"

static const uint8_t knows[] = {
    ANFI_S_input, ANFI_S_attr,    ANFI_S_number, ANFI_S_add,   ANFI_S_sub,      ANFI_S_mul,
    ANFI_S_div,   ANFI_S_eq,      ANFI_S_ne,     ANFI_S_land,  ANFI_S_lor,      ANFI_S_lnot,
    ANFI_S_neg,   ANFI_S_abs,     ANFI_S_isnan,  ANFI_S_isinf, ANFI_S_isfinite, ANFI_S_select,
    ANFI_S_rsqrt, ANFI_S_sigmoid, ANFI_S_real,   ANFI_S_imag,  ANFI_S_conj,     ANFI_S_complex,
};

bool anfi_s_complex_knows(anfi_scalar_op op) {
  for (size_t i = 0; i < ANFI_LEN(knows); i++)
    if (knows[i] == op) return true;
  return anfi_scalar_complex(op) >= 0;
}

typedef struct wide { // parts in double
  texpr re, im;
} wide;

static texpr bin(machine *m, tkind k, texpr a, texpr b) { return anfi_t_bin(m->L->t, k, a, b); }
static texpr f64(machine *m, double v) { return anfi_low_const(m->L, ANFI_F64, v); }
static texpr mul(machine *m, texpr a, texpr b) { return bin(m, TX_mul, a, b); }
static texpr atom(machine *m, texpr e) { return anfi_low_atom(m->L, e); }

static wide load(machine *m, uint16_t i) {
  step *s = &m->at[i];
  if (s->truth) return (wide){anfi_t_cast(m->L->t, ANFI_F64, s->e.re), f64(m, 0)};
  return (wide){atom(m, anfi_t_cast(m->L->t, ANFI_F64, s->e.re)),
                atom(m, anfi_t_cast(m->L->t, ANFI_F64, s->e.im))};
}

static void put(machine *m, step *out, texpr re, texpr im) {
  out->e.re = anfi_t_cast(m->L->t, m->type, re);
  out->e.im = anfi_t_cast(m->L->t, m->type, im);
}

static texpr magnitude(machine *m, texpr x) {
  return anfi_t_intrin(m->L->t, TI_abs, ANFI_F64, 1, &x, (tattrs){0});
}

static texpr either(machine *m, tkind part, tkind join, wide a, wide b) {
  return bin(m, join, bin(m, part, a.re, b.re), bin(m, part, a.im, b.im));
}

/* Squares of f32 neither overflow in f64 nor vanish, and are vector code; of an infinite part it is infinite whatever the other is. */
static texpr modulus(machine *m, wide a) {
  tstore *t = m->L->t;
  if (m->type.elem != ANF_TIR_f32) return anfi_t_intrin2(t, TI_hypot, a.re, a.im);
  texpr square = bin(m, TX_add, mul(m, a.re, a.re), mul(m, a.im, a.im)), inf = f64(m, INFINITY);
  wide part = {magnitude(m, a.re), magnitude(m, a.im)};
  return anfi_t_select(t, either(m, TX_cmp_eq, TX_logic_or, part, (wide){inf, inf}), inf,
                       anfi_t_intrin(t, TI_sqrt, ANFI_F64, 1, &square, (tattrs){0}));
}

/* Smith's method: scales by the larger part. */
static void divide(machine *m, wide a, wide b, step *out) {
  tstore *t = m->L->t;
  texpr big = magnitude(m, b.re), small = magnitude(m, b.im);
  texpr by_re = atom(m, bin(m, TX_cmp_ge, big, small));
  texpr x = atom(m, anfi_t_select(t, by_re, b.re, b.im));
  texpr y = atom(m, anfi_t_select(t, by_re, b.im, b.re));
  texpr r = atom(m, bin(m, TX_div, y, x));
  texpr d = atom(m, bin(m, TX_div, f64(m, 1), bin(m, TX_add, x, mul(m, y, r))));
  texpr re1 = mul(m, bin(m, TX_add, a.re, mul(m, a.im, r)), d);
  texpr im1 = mul(m, bin(m, TX_sub, a.im, mul(m, a.re, r)), d);
  texpr re2 = mul(m, bin(m, TX_add, mul(m, a.re, r), a.im), d);
  texpr im2 = mul(m, bin(m, TX_sub, mul(m, a.im, r), a.re), d);
  texpr none = atom(m, either(m, TX_cmp_eq, TX_logic_and, b, (wide){f64(m, 0), f64(m, 0)}));
  texpr re0 = bin(m, TX_div, a.re, big), im0 = bin(m, TX_div, a.im, big);
  put(m, out, anfi_t_select(t, none, re0, anfi_t_select(t, by_re, re1, re2)),
      anfi_t_select(t, none, im0, anfi_t_select(t, by_re, im1, im2)));
}

static wide function(machine *m, int f, wide a, wide b) {
  tstore *t = m->L->t;
  texpr in[6] = {anfi_t_s32(t, f), NULL, a.re, a.im, b.re, b.im}, part[2];
  for (int32_t k = 0; k < 2; k++) {
    in[1] = anfi_t_s32(t, k);
    part[k] = anfi_low_let(m->L, anfi_t_rt_call(t, TRT_anf_rt_complex, 6, in), "part");
  }
  return (wide){part[0], part[1]};
}

static wide negative(machine *m, wide a) {
  return (wide){mul(m, a.re, f64(m, -1)), mul(m, a.im, f64(m, -1))};
}

static texpr truth_of(machine *m, uint16_t i) {
  if (m->at[i].truth) return m->at[i].e.re;
  return either(m, TX_cmp_ne, TX_logic_or, load(m, i), (wide){f64(m, 0), f64(m, 0)});
}

static bool truths(machine *m, const anfi_scalar_ins *i, step *out) {
  tstore *t = m->L->t;
  wide a, b = {f64(m, INFINITY), f64(m, INFINITY)};
  out->truth = true;
  switch ((anfi_scalar_op)i->op) {
  case ANFI_S_eq:
    out->e.re = either(m, TX_cmp_eq, TX_logic_and, load(m, i->arg[0]), load(m, i->arg[1]));
    return true;
  case ANFI_S_ne:
    out->e.re = either(m, TX_cmp_ne, TX_logic_or, load(m, i->arg[0]), load(m, i->arg[1]));
    return true;
  case ANFI_S_land:
    out->e.re = bin(m, TX_logic_and, truth_of(m, i->arg[0]), truth_of(m, i->arg[1]));
    return true;
  case ANFI_S_lor:
    out->e.re = bin(m, TX_logic_or, truth_of(m, i->arg[0]), truth_of(m, i->arg[1]));
    return true;
  case ANFI_S_lnot: out->e.re = anfi_t_not(t, truth_of(m, i->arg[0])); return true;
  case ANFI_S_isnan:
    a = load(m, i->arg[0]);
    out->e.re = either(m, TX_cmp_ne, TX_logic_or, a, a);
    return true;
  case ANFI_S_isinf:
  case ANFI_S_isfinite:
    a = load(m, i->arg[0]);
    a = (wide){magnitude(m, a.re), magnitude(m, a.im)};
    out->e.re = i->op == ANFI_S_isinf ? either(m, TX_cmp_eq, TX_logic_or, a, b)
                                      : either(m, TX_cmp_lt, TX_logic_and, a, b);
    return true;
  default: out->truth = false; return false;
  }
}

/* dispatch */
void anfi_s_complex_step(machine *m, const anfi_scalar_ins *i, step *out) {
  tstore *t = m->L->t;
  if (i->op == ANFI_S_number) {
    put(m, out, f64(m, i->number), f64(m, 0));
    return;
  }
  if (truths(m, i, out)) return;
  int arity = anfi_scalar_ops[i->op].arity;
  wide a = load(m, i->arg[0]), b = arity > 1 ? load(m, i->arg[1]) : a;
  texpr zero = f64(m, 0), c;
  const wide one = {f64(m, 1), zero};
  int f = anfi_scalar_complex((anfi_scalar_op)i->op);
  if (f >= 0) {
    a = function(m, f, a, b);
    put(m, out, a.re, a.im);
    return;
  }
  switch ((anfi_scalar_op)i->op) {
  case ANFI_S_add: put(m, out, bin(m, TX_add, a.re, b.re), bin(m, TX_add, a.im, b.im)); break;
  case ANFI_S_sub: put(m, out, bin(m, TX_sub, a.re, b.re), bin(m, TX_sub, a.im, b.im)); break;
  case ANFI_S_mul:
    put(m, out, bin(m, TX_sub, mul(m, a.re, b.re), mul(m, a.im, b.im)),
        bin(m, TX_add, mul(m, a.re, b.im), mul(m, a.im, b.re)));
    break;
  case ANFI_S_div: divide(m, a, b, out); break;
  case ANFI_S_rsqrt: divide(m, one, function(m, ANFI_COMPLEX_sqrt, a, a), out); break;
  case ANFI_S_sigmoid:
    a = function(m, ANFI_COMPLEX_exp, negative(m, a), a);
    divide(m, one, (wide){atom(m, bin(m, TX_add, one.re, a.re)), a.im}, out);
    break;
  case ANFI_S_neg:
    a = negative(m, a);
    put(m, out, a.re, a.im);
    break;
  case ANFI_S_select:
    a = load(m, i->arg[2]);
    c = atom(m, truth_of(m, i->arg[0]));
    put(m, out, anfi_t_select(t, c, b.re, a.re), anfi_t_select(t, c, b.im, a.im));
    break;
  case ANFI_S_abs: put(m, out, modulus(m, a), zero); break;
  case ANFI_S_real: put(m, out, a.re, zero); break;
  case ANFI_S_imag: put(m, out, a.im, zero); break;
  case ANFI_S_conj: put(m, out, a.re, mul(m, a.im, f64(m, -1))); break;
  case ANFI_S_complex: put(m, out, a.re, b.re); break;
  default: anfi_fail(m->L->cx, m->loc, ANF_E0001, "scalar code of complex numbers");
  }
}

anfi_elem anfi_s_complex_store(machine *m, const step *s, anf_dtype to) {
  tstore *t = m->L->t;
  if (s->truth) {
    texpr zero = anfi_low_const(m->L, m->type, 0);
    if (to == ANF_BOOL) return (anfi_elem){s->e.re, NULL};
    return (anfi_elem){anfi_t_cast(t, anfi_low_dt(to), s->e.re),
                       anfi_low_complex(to) ? zero : NULL};
  }
  if (!anfi_low_complex(to)) return (anfi_elem){anfi_t_cast(t, anfi_low_dt(to), s->e.re), NULL};
  return s->e;
}
