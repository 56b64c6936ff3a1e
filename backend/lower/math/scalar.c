// SPDX-License-Identifier: Apache-2.0
/* Elementwise code of op.def as expressions: the same steps as ir/ops/elementwise.c takes, each rounded as there, so
 * that results are equal bit for bit where the machine's functions are.
 *   Mul(a, b), whose row has .scalar = "a * b"   ->   a[i] * b[i], an expression of the element's type
 *
 * Instructions whose result is used once stay inside the expression of their user. Truths are bools
 * until a number is asked for. */
#include "backend/lower/math/scalar.h"

static texpr number_of(machine *m, uint16_t i) {
  step *s = &m->at[i];
  if (s->truth) return anfi_t_cast(m->L->t, m->type, s->e.re);
  return s->e.re;
}

texpr anfi_s_const(machine *m, double v) { return anfi_low_const(m->L, m->type, v); }

/* A truth value: itself, or number != 0. */
static texpr truth_of(machine *m, uint16_t i) {
  step *s = &m->at[i];
  if (s->truth) return s->e.re;
  if (m->type.elem == ANF_TIR_bool) return s->e.re;
  return anfi_t_bin(m->L->t, TX_cmp_ne, s->e.re, anfi_s_const(m, 0));
}

texpr anfi_s_call(machine *m, tintrin f, uint32_t n, const texpr *in) {
  return anfi_t_intrin(m->L->t, f, in[0]->dtype, n, in, (tattrs){0});
}

texpr anfi_s_atom(machine *m, texpr e) { return anfi_low_atom(m->L, e); }

static texpr atom_of(machine *m, uint16_t i) { return anfi_s_atom(m, number_of(m, i)); }

/* ---- what integers and reals share ---- */

static const uint8_t compare[][2] = {
    {ANFI_S_lt, TX_cmp_lt}, {ANFI_S_le, TX_cmp_le}, {ANFI_S_gt, TX_cmp_gt},
    {ANFI_S_ge, TX_cmp_ge}, {ANFI_S_eq, TX_cmp_eq}, {ANFI_S_ne, TX_cmp_ne},
};

static bool logic_step(machine *m, const anfi_scalar_ins *i, step *out) {
  tstore *t = m->L->t;
  out->truth = true;
  switch ((anfi_scalar_op)i->op) {
  case ANFI_S_land:
    out->e.re = anfi_t_bin(t, TX_logic_and, truth_of(m, i->arg[0]), truth_of(m, i->arg[1]));
    return true;
  case ANFI_S_lor:
    out->e.re = anfi_t_bin(t, TX_logic_or, truth_of(m, i->arg[0]), truth_of(m, i->arg[1]));
    return true;
  case ANFI_S_lnot: out->e.re = anfi_t_not(t, truth_of(m, i->arg[0])); return true;
  case ANFI_S_select: {
    const step *a = &m->at[i->arg[1]], *b = &m->at[i->arg[2]];
    texpr c = truth_of(m, i->arg[0]);
    out->truth = a->truth && b->truth;
    out->e.re = out->truth ? anfi_t_select(t, c, a->e.re, b->e.re)
                           : anfi_t_select(t, c, number_of(m, i->arg[1]), number_of(m, i->arg[2]));
    return true;
  }
  default: break;
  }
  for (size_t k = 0; k < ANFI_LEN(compare); k++)
    if (compare[k][0] == i->op) {
      out->e.re =
          anfi_t_bin(t, (tkind)compare[k][1], number_of(m, i->arg[0]), number_of(m, i->arg[1]));
      return true;
    }
  out->truth = false;
  return false;
}

/* ---- integers ---- */

static bool is_signed(const machine *m) { return anfi_t_class(m->type) == TC_SINT; }

static unsigned width(const machine *m) { return 8 * (unsigned)anfi_t_bytes(m->type); }

static texpr bin(machine *m, tkind k, texpr a, texpr b) { return anfi_t_bin(m->L->t, k, a, b); }

static void nonzero(machine *m, texpr b) {
  texpr zero = anfi_t_int(m->L->t, ANFI_S64, 0);
  anfi_low_trap(m->L, bin(m, TX_cmp_eq, b, anfi_s_const(m, 0)), ANF_E0401, m->op, m->loc, zero,
                zero);
}

/* The quotient rounds down, the remainder has the sign of the divisor. */
static texpr int_down(machine *m, texpr a, texpr b, bool quotient) {
  tstore *t = m->L->t;
  texpr zero = anfi_s_const(m, 0), r = anfi_s_atom(m, bin(m, TX_mod, a, b));
  if (!is_signed(m)) return quotient ? bin(m, TX_div, a, b) : r;
  texpr mixed = bin(m, TX_cmp_ne, bin(m, TX_cmp_lt, r, zero), bin(m, TX_cmp_lt, b, zero));
  texpr fix = anfi_t_bin(t, TX_logic_and, bin(m, TX_cmp_ne, r, zero), mixed);
  if (!quotient) return anfi_t_select(t, fix, bin(m, TX_add, r, b), r);
  texpr q = anfi_s_atom(m, bin(m, TX_div, a, b));
  return anfi_t_select(t, fix, bin(m, TX_sub, q, anfi_s_const(m, 1)), q);
}

static texpr int_shift(machine *m, const anfi_scalar_ins *i) {
  tstore *t = m->L->t;
  texpr a = atom_of(m, i->arg[0]), b = atom_of(m, i->arg[1]), all;
  texpr inside = bin(m, TX_cmp_lt, b, anfi_s_const(m, width(m)));
  if (is_signed(m)) inside = bin(m, TX_logic_and, bin(m, TX_cmp_ge, b, anfi_s_const(m, 0)), inside);
  bool left = i->op == ANFI_S_shl;
  texpr shifted = anfi_t_intrin2(t, left ? TI_shl : TI_shr, a, b);
  if (left || !is_signed(m)) all = anfi_s_const(m, 0);
  else
    all = anfi_t_select(t, bin(m, TX_cmp_lt, a, anfi_s_const(m, 0)), anfi_s_const(m, -1),
                        anfi_s_const(m, 0));
  return anfi_t_select(t, inside, shifted, all);
}

/* Bits are counted in 64 bits, without a sign. */
static texpr int_bits(machine *m, texpr a) {
  tdtype u = anfi_t_dt(width(m) == 8    ? ANF_TIR_u8
                       : width(m) == 16 ? ANF_TIR_u16
                       : width(m) == 32 ? ANF_TIR_u32
                                        : ANF_TIR_u64);
  return anfi_t_cast(m->L->t, anfi_t_dt(ANF_TIR_u64), anfi_t_cast(m->L->t, u, a));
}

static texpr int_count(machine *m, const anfi_scalar_ins *i) {
  bool zeros = i->op == ANFI_S_clz;
  texpr in = anfi_s_atom(m, int_bits(m, atom_of(m, i->arg[0])));
  texpr n = anfi_low_help(m->L, zeros ? "anf_clz" : "anf_popcount", ANFI_S64, 1, &in);
  if (zeros) n = bin(m, TX_sub, n, anfi_t_int(m->L->t, ANFI_S64, 64 - (int64_t)width(m)));
  return anfi_t_cast(m->L->t, m->type, n);
}

static texpr int_pow(machine *m, const anfi_scalar_ins *i) {
  tstore *t = m->L->t;
  tdtype u = anfi_t_dt(ANF_TIR_u64);
  texpr a = atom_of(m, i->arg[0]), b = atom_of(m, i->arg[1]), zero = anfi_t_int(t, ANFI_S64, 0);
  if (is_signed(m))
    anfi_low_trap(m->L, bin(m, TX_cmp_lt, b, anfi_s_const(m, 0)), ANF_E0402, m->op, m->loc, zero,
                  zero);
  texpr in[2] = {anfi_t_cast(t, u, a), anfi_t_cast(t, u, b)};
  return anfi_t_cast(t, m->type, anfi_low_help(m->L, "anf_ipow", u, 2, in));
}

/* Bools add by or, multiply by and. */
static bool bool_step(machine *m, const anfi_scalar_ins *i, step *out) {
  tstore *t = m->L->t;
  texpr a = m->at[i->arg[0]].e.re, b = m->at[i->arg[1]].e.re;
  out->truth = true;
  switch ((anfi_scalar_op)i->op) {
  case ANFI_S_add:
  case ANFI_S_bitor:
  case ANFI_S_max: out->e.re = anfi_t_bin(t, TX_logic_or, a, b); return true;
  case ANFI_S_mul:
  case ANFI_S_bitand:
  case ANFI_S_min: out->e.re = anfi_t_bin(t, TX_logic_and, a, b); return true;
  case ANFI_S_sub:
  case ANFI_S_bitxor: out->e.re = anfi_t_bin(t, TX_cmp_ne, a, b); return true;
  case ANFI_S_bitnot:
  case ANFI_S_clz: out->e.re = anfi_t_not(t, a); return true;
  case ANFI_S_abs:
  case ANFI_S_neg:
  case ANFI_S_sign:
  case ANFI_S_popcount: out->e.re = a; return true;
  default: out->truth = false; return false;
  }
}

/* dispatch */
static texpr int_step(machine *m, const anfi_scalar_ins *i) {
  tstore *t = m->L->t;
  texpr zero = anfi_s_const(m, 0), a, b, c;
  switch ((anfi_scalar_op)i->op) {
  case ANFI_S_add: return bin(m, TX_add, number_of(m, i->arg[0]), number_of(m, i->arg[1]));
  case ANFI_S_sub: return bin(m, TX_sub, number_of(m, i->arg[0]), number_of(m, i->arg[1]));
  case ANFI_S_mul: return bin(m, TX_mul, number_of(m, i->arg[0]), number_of(m, i->arg[1]));
  case ANFI_S_neg: return bin(m, TX_sub, zero, number_of(m, i->arg[0]));
  case ANFI_S_bitnot: a = number_of(m, i->arg[0]); return anfi_s_call(m, TI_int_not, 1, &a);
  case ANFI_S_bitand:
    return anfi_t_intrin2(t, TI_int_and, number_of(m, i->arg[0]), number_of(m, i->arg[1]));
  case ANFI_S_bitor:
    return anfi_t_intrin2(t, TI_int_or, number_of(m, i->arg[0]), number_of(m, i->arg[1]));
  case ANFI_S_bitxor:
    return anfi_t_intrin2(t, TI_int_xor, number_of(m, i->arg[0]), number_of(m, i->arg[1]));
  case ANFI_S_fma:
    c = bin(m, TX_mul, number_of(m, i->arg[0]), number_of(m, i->arg[1]));
    return bin(m, TX_add, c, number_of(m, i->arg[2]));
  case ANFI_S_shl:
  case ANFI_S_shr: return int_shift(m, i);
  case ANFI_S_popcount:
  case ANFI_S_clz: return int_count(m, i);
  case ANFI_S_pow: return int_pow(m, i);
  case ANFI_S_floor:
  case ANFI_S_ceil:
  case ANFI_S_trunc:
  case ANFI_S_rint:
  case ANFI_S_real:
  case ANFI_S_conj: return number_of(m, i->arg[0]);
  case ANFI_S_imag: return zero;
  default: break;
  }
  a = atom_of(m, i->arg[0]);
  switch ((anfi_scalar_op)i->op) {
  case ANFI_S_abs:
    return is_signed(m) ? anfi_t_select(t, bin(m, TX_cmp_lt, a, zero), bin(m, TX_sub, zero, a), a)
                        : a;
  case ANFI_S_sign:
    c = anfi_t_cast(t, m->type, bin(m, TX_cmp_ne, a, zero));
    return is_signed(m) ? anfi_t_select(t, bin(m, TX_cmp_lt, a, zero), anfi_s_const(m, -1), c) : c;
  default: break;
  }
  b = atom_of(m, i->arg[1]);
  switch ((anfi_scalar_op)i->op) {
  case ANFI_S_min: return anfi_t_select(t, bin(m, TX_cmp_lt, b, a), b, a);
  case ANFI_S_max: return anfi_t_select(t, bin(m, TX_cmp_lt, a, b), b, a);
  case ANFI_S_div: nonzero(m, b); return bin(m, TX_div, a, b);
  case ANFI_S_rem: nonzero(m, b); return bin(m, TX_mod, a, b);
  case ANFI_S_mod: nonzero(m, b); return int_down(m, a, b, false);
  case ANFI_S_floordiv: nonzero(m, b); return int_down(m, a, b, true);
  default: anfi_fail(m->L->cx, m->loc, ANF_E0001, "scalar code of integers"); return zero;
  }
}

static bool int_truth(machine *m, const anfi_scalar_ins *i, step *out) {
  out->truth = i->op == ANFI_S_isnan || i->op == ANFI_S_isinf || i->op == ANFI_S_isfinite;
  if (out->truth) out->e.re = anfi_t_bool(m->L->t, i->op == ANFI_S_isfinite);
  return out->truth;
}

/* ---- reals ---- */

static const uint8_t math[][2] = {
    {ANFI_S_abs, TI_abs},     {ANFI_S_floor, TI_floor}, {ANFI_S_ceil, TI_ceil},
    {ANFI_S_trunc, TI_trunc}, {ANFI_S_rint, TI_round},  {ANFI_S_copysign, TI_copysign},
    {ANFI_S_sqrt, TI_sqrt},   {ANFI_S_rsqrt, TI_rsqrt}, {ANFI_S_cbrt, TI_cbrt},
    {ANFI_S_exp, TI_exp},     {ANFI_S_exp2, TI_exp2},   {ANFI_S_expm1, TI_expm1},
    {ANFI_S_log, TI_log},     {ANFI_S_log1p, TI_log1p}, {ANFI_S_log2, TI_log2},
    {ANFI_S_log10, TI_log10}, {ANFI_S_sin, TI_sin},     {ANFI_S_cos, TI_cos},
    {ANFI_S_tan, TI_tan},     {ANFI_S_asin, TI_asin},   {ANFI_S_acos, TI_acos},
    {ANFI_S_atan, TI_atan},   {ANFI_S_atan2, TI_atan2}, {ANFI_S_sinh, TI_sinh},
    {ANFI_S_cosh, TI_cosh},   {ANFI_S_tanh, TI_tanh},   {ANFI_S_asinh, TI_asinh},
    {ANFI_S_acosh, TI_acosh}, {ANFI_S_atanh, TI_atanh}, {ANFI_S_hypot, TI_hypot},
    {ANFI_S_erf, TI_erf},     {ANFI_S_erfc, TI_erfc},   {ANFI_S_lgamma, TI_lgamma},
    {ANFI_S_fma, TI_fmadd},
};

static bool never_nan(texpr e) {
  return e->kind == TX_constant && e->u.k.n == 1 &&
         !isnan(anfi_t_lane_f64(e->dtype, e->u.k.bits[0]));
}

/* NaN if one is; of equals the first, so that signs of zeros are as in the interpreter. */
static texpr real_extreme(machine *m, texpr a, texpr b, bool greatest) {
  tstore *t = m->L->t;
  if (never_nan(b)) return anfi_t_select(t, bin(m, greatest ? TX_cmp_lt : TX_cmp_gt, a, b), b, a);
  texpr first = bin(m, greatest ? TX_cmp_ge : TX_cmp_le, a, b);
  if (never_nan(a)) return anfi_t_select(t, first, a, b);
  return anfi_t_select(t, first, a, anfi_t_select(t, bin(m, TX_cmp_ne, a, a), a, b));
}

texpr anfi_low_max(anfi_low *L, texpr a, texpr b, bool greatest) {
  machine m = {.L = L, .type = a->dtype};
  return real_extreme(&m, a, b, greatest);
}

static texpr real_sign(machine *m, texpr a) {
  tstore *t = m->L->t;
  texpr zero = anfi_s_const(m, 0);
  texpr rest = anfi_t_select(t, bin(m, TX_cmp_eq, a, zero), zero, a);
  rest = anfi_t_select(t, bin(m, TX_cmp_lt, a, zero), anfi_s_const(m, -1), rest);
  return anfi_t_select(t, bin(m, TX_cmp_gt, a, zero), anfi_s_const(m, 1), rest);
}

bool anfi_s_is_number(texpr e, double *x) {
  if (e->kind == TX_cast) e = e->in[0];
  if (e->kind != TX_constant || e->u.k.n != 1 || anfi_t_class(e->dtype) == TC_BOOL) return false;
  *x = anfi_t_lane_f64(e->dtype, e->u.k.bits[0]);
  return true;
}

/* A square is a product, as it is in the interpreter; as exact as functions of vectors are, so are the
 * third and the fourth power. NULL: to be computed by logarithms. */
static texpr small_power(machine *m, texpr x, texpr by) {
  double n = 0;
  if (!anfi_s_is_number(by, &n) || !(n == 2 || (m->many && (n == 3 || n == 4)))) return NULL;
  x = anfi_s_atom(m, x);
  if (n == 2) return bin(m, TX_mul, x, x);
  texpr square = anfi_s_atom(m, bin(m, TX_mul, x, x));
  return bin(m, TX_mul, square, n == 3 ? x : square);
}

static texpr real_power(machine *m, const texpr *in) {
  tstore *t = m->L->t;
  texpr product = small_power(m, in[0], in[1]);
  if (product) return product;
  if (m->many) return anfi_low_help(m->L, anfi_low_math_name(TI_pow, m->type), m->type, 2, in);
  texpr x = anfi_s_atom(m, in[0]), by = anfi_s_atom(m, in[1]);
  const texpr args[] = {x, by};
  texpr power = anfi_t_intrin(t, TI_pow, m->type, 2, args, (tattrs){0});
  return anfi_t_select(t, bin(m, TX_cmp_eq, by, anfi_s_const(m, 2)), bin(m, TX_mul, x, x), power);
}

/* Computed in double and rounded once, by a helper function. */
static texpr in_double(machine *m, const char *name, uint32_t n, const texpr *in) {
  texpr wide[2];
  for (uint32_t k = 0; k < n; k++) wide[k] = anfi_t_cast(m->L->t, ANFI_F64, in[k]);
  return anfi_t_cast(m->L->t, m->type, anfi_low_help(m->L, name, ANFI_F64, n, wide));
}

/* x % b, Mod and FloorDiv: of vectors of f32 as straight code. */
static texpr remainder_of(machine *m, anfi_scalar_op op, const texpr *in) {
  bool own = m->many && m->type.elem != ANF_TIR_f64, mod = op == ANFI_S_mod;
  if (op == ANFI_S_rem)
    return own ? anfi_low_help(m->L, "anf_rem32", m->type, 2, in) : bin(m, TX_mod, in[0], in[1]);
  if (own) return anfi_low_help(m->L, mod ? "anf_mod32" : "anf_floordiv32", m->type, 2, in);
  return in_double(m, mod ? "anf_mod" : "anf_floordiv", 2, in);
}

/* dispatch */
static texpr real_step(machine *m, const anfi_scalar_ins *i) {
  tstore *t = m->L->t;
  texpr in[3];
  int arity = anfi_scalar_ops[i->op].arity;
  for (int k = 0; k < arity; k++) in[k] = number_of(m, i->arg[k]);
  switch ((anfi_scalar_op)i->op) {
  case ANFI_S_add: return bin(m, TX_add, in[0], in[1]);
  case ANFI_S_sub: return bin(m, TX_sub, in[0], in[1]);
  case ANFI_S_mul: return bin(m, TX_mul, in[0], in[1]);
  case ANFI_S_div: return bin(m, TX_div, in[0], in[1]);
  case ANFI_S_rem:
  case ANFI_S_mod:
  case ANFI_S_floordiv: return remainder_of(m, (anfi_scalar_op)i->op, in);
  case ANFI_S_neg: return bin(m, TX_mul, in[0], anfi_s_const(m, -1));
  case ANFI_S_sign: return real_sign(m, anfi_s_atom(m, in[0]));
  case ANFI_S_min:
  case ANFI_S_max:
    return real_extreme(m, anfi_s_atom(m, in[0]), anfi_s_atom(m, in[1]), i->op == ANFI_S_max);
  case ANFI_S_pow: return real_power(m, in);
  case ANFI_S_digamma: return in_double(m, "anf_digamma", 1, in);
  case ANFI_S_sigmoid:
    if (!m->many) return in_double(m, "anf_sigmoid", 1, in);
    return anfi_low_help(m->L, m->type.elem == ANF_TIR_f64 ? "anf_sigmoid64" : "anf_sigmoid32",
                         m->type, 1, in);
  case ANFI_S_real:
  case ANFI_S_conj: return in[0];
  case ANFI_S_imag: return anfi_s_const(m, 0);
  default: break;
  }
  for (size_t k = 0; k < ANFI_LEN(math); k++) {
    tintrin f = (tintrin)math[k][1];
    if (math[k][0] != i->op) continue;
    const char *own = m->many ? anfi_low_math_name(f, m->type) : NULL;
    if (own) return anfi_low_help(m->L, own, m->type, (uint32_t)arity, in);
    return anfi_t_intrin(t, f, m->type, (uint32_t)arity, in, (tattrs){0});
  }
  anfi_fail(m->L->cx, m->loc, ANF_E0001, "scalar code of reals");
  return anfi_s_const(m, 0);
}

static bool real_truth(machine *m, const anfi_scalar_ins *i, step *out) {
  texpr a;
  switch ((anfi_scalar_op)i->op) {
  case ANFI_S_isnan: a = atom_of(m, i->arg[0]), out->e.re = bin(m, TX_cmp_ne, a, a); break;
  case ANFI_S_isinf:
    a = number_of(m, i->arg[0]);
    out->e.re = bin(m, TX_cmp_eq, anfi_s_call(m, TI_abs, 1, &a), anfi_s_const(m, INFINITY));
    break;
  case ANFI_S_isfinite:
    a = number_of(m, i->arg[0]);
    out->e.re = bin(m, TX_cmp_lt, anfi_s_call(m, TI_abs, 1, &a), anfi_s_const(m, INFINITY));
    break;
  default: return false;
  }
  return out->truth = true;
}

/* ---- conversions ---- */

static texpr real_cast(anfi_low *L, texpr x, anf_dtype from, anf_dtype to) {
  tdtype d = anfi_low_dt(to);
  if (anfi_dtype_is_float(from) && to == ANF_BOOL) {
    bool wide = from == ANF_F64 || from == ANF_FLOAT;
    x = anfi_t_cast(L->t, anfi_t_dt(wide ? ANF_TIR_f64 : ANF_TIR_f32), x);
    return anfi_t_bin(L->t, TX_cmp_ne, x, anfi_low_const(L, x->dtype, 0));
  }
  if (to == ANF_BOOL && from != ANF_BOOL)
    return anfi_t_bin(L->t, TX_cmp_ne, x, anfi_t_int(L->t, x->dtype, 0));
  return anfi_t_cast(L->t, d, x);
}

anfi_elem anfi_scalar_cast(anfi_low *L, anfi_elem x, anf_dtype from, anf_dtype to) {
  if (from == to) return x;
  bool have = anfi_low_complex(from), want = anfi_low_complex(to);
  anf_dtype part = anfi_dtype_part(to);
  anf_dtype given = anfi_dtype_part(from);
  anfi_elem r = {real_cast(L, x.re, given, part), NULL};
  if (want) r.im = have ? real_cast(L, x.im, given, part) : anfi_low_const(L, anfi_low_dt(part), 0);
  else if (have && to == ANF_BOOL)
    r.re = anfi_t_bin(L->t, TX_logic_or, r.re, real_cast(L, x.im, given, to));
  return r;
}

/* To the type that the code computes in; f16 and bf16 compute in f32, but are rounded to first. */
static anfi_elem load(machine *m, anfi_elem x, anf_dtype from) {
  tstore *t = m->L->t;
  if (m->complex) return anfi_scalar_cast(m->L, x, from, m->dtype);
  if (m->type.elem == ANF_TIR_f32 && m->dtype != ANF_F32) {
    if (from != m->dtype) x.re = anfi_t_cast(t, anfi_low_dt(m->dtype), x.re);
    return (anfi_elem){anfi_t_cast(t, m->type, x.re), NULL};
  }
  return (anfi_elem){anfi_t_cast(t, m->type, x.re), NULL};
}

static anfi_elem store(machine *m, const step *s, anf_dtype to) {
  tdtype d = anfi_low_dt(to);
  if (m->complex) return anfi_s_complex_store(m, s, to);
  if (to == ANF_BOOL) return (anfi_elem){truth_of(m, (uint16_t)(s - m->at)), NULL};
  return (anfi_elem){anfi_t_cast(m->L->t, d, number_of(m, (uint16_t)(s - m->at))), NULL};
}

/* ---- a whole row ---- */

static void run(machine *m, const anfi_elem *in, anf_value *const *attr, const uint16_t *uses) {
  for (uint32_t k = 0; k < m->code->n; k++) {
    const anfi_scalar_ins *i = &m->code->at[k];
    step *s = &m->at[k];
    *s = (step){{NULL, NULL}, false};
    if (i->op == ANFI_S_input) s->e = in[i->arg[0]];
    else if (i->op == ANFI_S_attr)
      s->e = load(m, anfi_low_literal(m->L, attr[i->arg[0]], 0, m->dtype), m->dtype);
    else if (m->complex) anfi_s_complex_step(m, i, s);
    else if (i->op == ANFI_S_number) s->e.re = anfi_s_const(m, i->number);
    else if (m->type.elem == ANF_TIR_bool && bool_step(m, i, s)) {
    } else if (logic_step(m, i, s)) {
    } else if (anfi_t_is_float(m->type)) {
      if (!real_truth(m, i, s)) s->e.re = real_step(m, i);
    } else if (!int_truth(m, i, s)) s->e.re = int_step(m, i);
    if (uses[k] > 1 && s->e.re) s->e.re = anfi_s_atom(m, s->e.re);
    if (uses[k] > 1 && s->e.im) s->e.im = anfi_s_atom(m, s->e.im);
  }
}

static void prepare(machine *m, size_t n, const anf_type *const *types, const anf_type *out) {
  m->dtype = anfi_scalar_dtype(n, types, out);
  m->complex = anfi_low_complex(m->dtype);
  anf_tir_elem e = anfi_lower_elem(m->dtype);
  m->type = anfi_t_accumulator(anfi_t_dt(e));
  m->many = out->n && anfi_t_is_float(m->type) && !m->complex;
}

bool anfi_scalar_supported(anf_ctx *cx, anfi_opcode op, size_t n, const anf_type *const *types,
                           const anf_type *out) {
  machine m = {.op = op};
  prepare(&m, n, types, out);
  const anfi_scalar *code = anfi_scalar_of(cx, op);
  if (!code || m.dtype == ANF_KEY) return false;
  for (uint32_t k = 0; m.complex && k < code->n; k++)
    if (!anfi_s_complex_knows((anfi_scalar_op)code->at[k].op)) return false;
  return true;
}

anfi_elem anfi_scalar_emit(anfi_low *L, anfi_opcode op, anfi_loc loc, anf_value *const *attr,
                           size_t n, const anfi_elem *in, const anf_type *const *types,
                           const anf_type *out) {
  machine m = {.L = L, .op = op, .loc = loc, .code = anfi_scalar_of(L->cx, op)};
  anfi_elem loaded[MAX_INPUTS];
  uint16_t uses[ANFI_SCALAR_MAX] = {0};
  prepare(&m, n, types, out);
  for (size_t k = 0; k < n; k++) loaded[k] = load(&m, in[k], (anf_dtype)types[k]->dtype);
  for (uint32_t k = 0; k < m.code->n; k++)
    for (int j = 0; m.code->at[k].op > ANFI_S_number && j < anfi_scalar_ops[m.code->at[k].op].arity;
         j++)
      uses[m.code->at[k].arg[j]]++;
  run(&m, loaded, attr, uses);
  return store(&m, &m.at[m.code->n - 1], (anf_dtype)out->dtype);
}
