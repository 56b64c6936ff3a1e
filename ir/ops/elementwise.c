// SPDX-License-Identifier: Apache-2.0
/* The elementwise evaluator: runs an op's scalar code on each element of broadcast inputs.
 *   "a * b", a: f32[2], b: f32    ->    2 products in double, each rounded to float
 * One instruction at a time in the computation type (ir/value/scalar.h has the rules). One function for each class of
 * types: integers in 64 bits wrapped after each step, reals in double rounded to float after each step when the type is
 * f32 or narrower, complex as pairs of those. Rounding a double to float after + - * / and sqrt gives the correctly
 * rounded float, since double has more than twice its digits. */
#include "ir/ops/kernel.h"
#include "ir/value/scalar.h"

#include <math.h>

enum { MAX_INPUTS = ANFI_ND };

typedef union number {
  int64_t i; // of an unsigned type: its bits
  double f;
  struct {
    double re, im;
  } c;
} number;

typedef struct machine {
  /* how it computes */
  anf_dtype type;  // of the computation
  unsigned domain; // ANFI_SCALAR_*
  bool single;     // round every step to float
  bool mixed;      // a comparison of u64 with signed integers
  int failed;      // the code of a step that has no result, or -1
  /* program */
  const anfi_scalar *code;
  number in[MAX_INPUTS], attr[MAX_INPUTS], at[ANFI_SCALAR_MAX];
} machine;

/* ---- integers ---- */

static int64_t wrap(anf_dtype d, uint64_t x) {
  switch (d) {
  case ANF_BOOL: return x != 0;
  case ANF_I8: return (int8_t)(uint8_t)x;
  case ANF_I16: return (int16_t)(uint16_t)x;
  case ANF_I32: return (int32_t)(uint32_t)x;
  case ANF_U8: return (uint8_t)x;
  case ANF_U16: return (uint16_t)x;
  case ANF_U32: return (uint32_t)x;
  default: return (int64_t)x;
  }
}

static bool is_less(const machine *m, int64_t a, int64_t b) {
  return m->type == ANF_U64 ? (uint64_t)a < (uint64_t)b : a < b;
}

static int64_t fail(machine *m, anfi_code code) {
  m->failed = (int)code;
  return 0;
}

/* Towards zero. The one quotient that does not fit, least / -1, wraps to the least. */
static int64_t int_div(machine *m, int64_t a, int64_t b) {
  if (b == 0) return fail(m, ANF_E0401);
  if (m->type == ANF_U64) return (int64_t)((uint64_t)a / (uint64_t)b);
  return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

static int64_t int_rem(machine *m, int64_t a, int64_t b) {
  if (b == 0) return fail(m, ANF_E0401);
  if (m->type == ANF_U64) return (int64_t)((uint64_t)a % (uint64_t)b);
  return b == -1 ? 0 : a % b;
}

static int64_t int_mod(machine *m, int64_t a, int64_t b) {
  int64_t r = int_rem(m, a, b);
  return r != 0 && m->type != ANF_U64 && (r < 0) != (b < 0) ? r + b : r;
}

static int64_t int_floordiv(machine *m, int64_t a, int64_t b) {
  int64_t q = int_div(m, a, b);
  if (m->failed >= 0 || m->type == ANF_U64) return q;
  return int_rem(m, a, b) != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

static int64_t int_pow(machine *m, int64_t a, int64_t b) {
  if (is_less(m, b, 0)) return fail(m, ANF_E0402);
  uint64_t r = 1, x = (uint64_t)a;
  for (uint64_t e = (uint64_t)b; e; e >>= 1, x *= x)
    if (e & 1) r *= x;
  return (int64_t)r;
}

static int width(const machine *m) {
  return m->type == ANF_BOOL ? 1 : 8 * (int)anf_dtype_bytes(m->type);
}

static int64_t int_shift(const machine *m, bool left, int64_t a, int64_t b) {
  uint64_t count = (uint64_t)b;
  bool all = count >= (uint64_t)width(m);
  if (left) return all ? 0 : (int64_t)((uint64_t)a << count);
  if (m->type == ANF_U64) return all ? 0 : (int64_t)((uint64_t)a >> count);
  if (all) return a < 0 ? -1 : 0;
  return a < 0 ? ~(int64_t)(~(uint64_t)a >> count) : a >> count;
}

static int64_t count_bits(const machine *m, int64_t a, bool leading_zeros) {
  uint64_t x = (uint64_t)a;
  int w = width(m), ones = 0, zeros = 0;
  for (int i = 0; i < w; i++) ones += (int)((x >> i) & 1);
  while (zeros < w && !((x >> (w - 1 - zeros)) & 1)) zeros++;
  return leading_zeros ? zeros : ones;
}

/* dispatch */
static int64_t step_int(machine *m, const anfi_scalar_ins *i) {
  int64_t a = m->at[i->arg[0]].i, b = m->at[i->arg[1]].i, c = m->at[i->arg[2]].i;
  uint64_t ua = (uint64_t)a, ub = (uint64_t)b;
  switch ((anfi_scalar_op)i->op) {
  case ANFI_S_input: return m->in[i->arg[0]].i;
  case ANFI_S_attr: return m->attr[i->arg[0]].i;
  case ANFI_S_number: return (int64_t)i->number;
  case ANFI_S_add: return (int64_t)(ua + ub);
  case ANFI_S_sub: return (int64_t)(ua - ub);
  case ANFI_S_mul: return (int64_t)(ua * ub);
  case ANFI_S_fma: return (int64_t)(ua * ub + (uint64_t)c);
  case ANFI_S_div: return int_div(m, a, b);
  case ANFI_S_rem: return int_rem(m, a, b);
  case ANFI_S_mod: return int_mod(m, a, b);
  case ANFI_S_floordiv: return int_floordiv(m, a, b);
  case ANFI_S_pow: return int_pow(m, a, b);
  case ANFI_S_lt: return is_less(m, a, b);
  case ANFI_S_le: return !is_less(m, b, a);
  case ANFI_S_gt: return is_less(m, b, a);
  case ANFI_S_ge: return !is_less(m, a, b);
  case ANFI_S_eq: return a == b;
  case ANFI_S_ne: return a != b;
  case ANFI_S_land: return a && b;
  case ANFI_S_lor: return a || b;
  case ANFI_S_lnot: return !a;
  case ANFI_S_bitand: return a & b;
  case ANFI_S_bitor: return a | b;
  case ANFI_S_bitxor: return a ^ b;
  case ANFI_S_bitnot: return m->type == ANF_BOOL ? !a : ~a;
  case ANFI_S_shl: return int_shift(m, true, a, b);
  case ANFI_S_shr: return int_shift(m, false, a, b);
  case ANFI_S_neg: return (int64_t)(0 - ua);
  case ANFI_S_select: return a ? b : c;
  case ANFI_S_abs: return is_less(m, a, 0) ? (int64_t)(0 - ua) : a;
  case ANFI_S_sign: return is_less(m, a, 0) ? -1 : a != 0;
  case ANFI_S_min: return is_less(m, b, a) ? b : a;
  case ANFI_S_max: return is_less(m, a, b) ? b : a;
  case ANFI_S_isnan:
  case ANFI_S_isinf:
  case ANFI_S_imag: return 0;
  case ANFI_S_isfinite: return 1;
  case ANFI_S_popcount: return count_bits(m, a, false);
  case ANFI_S_clz: return count_bits(m, a, true);
  case ANFI_S_floor:
  case ANFI_S_ceil:
  case ANFI_S_trunc:
  case ANFI_S_rint:
  case ANFI_S_real:
  case ANFI_S_conj: return a;
  default: return fail(m, ANF_E0001); // the domain check has let nothing else through
  }
}

/* ---- reals ---- */

static double real_mod(double a, double b) {
  double r = fmod(a, b);
  if (r == 0) return copysign(0.0, b);
  return (b < 0) != (r < 0) ? r + b : r;
}

static double real_floordiv(double a, double b) {
  if (b == 0) return a / b;
  double r = fmod(a, b), q = (a - r) / b;
  if (r != 0 && (b < 0) != (r < 0)) q -= 1.0;
  if (q == 0) return copysign(0.0, a / b);
  double down = floor(q);
  return q - down > 0.5 ? down + 1.0 : down;
}

/* Reflection for negative x, recurrence up to 10, then the asymptotic series; about 1e-14 relative
 * away from the zeros. */
double anfi_digamma(double x) {
  double sum = 0;
  if (x == 0) return copysign(INFINITY, -x);
  if (x < 0) {
    if (x == floor(x)) return NAN;
    double part = x - floor(x);
    sum = -3.14159265358979323846 / tan(3.14159265358979323846 * part);
    x = 1 - x;
  }
  for (; x < 10; x += 1) sum -= 1 / x;
  double y = 1 / (x * x);
  double series =
      y * (1.0 / 12 - y * (1.0 / 120 -
                           y * (1.0 / 252 -
                                y * (1.0 / 240 - y * (1.0 / 132 - y * (691.0 / 32760 - y / 12))))));
  return sum + log(x) - 0.5 / x - series;
}

static double fused(const machine *m, double a, double b, double c) {
  return m->single ? (double)fmaf((float)a, (float)b, (float)c) : fma(a, b, c);
}

/* dispatch */
static double real_function(machine *m, anfi_scalar_op op, double a, double b, double c) {
  switch (op) {
  case ANFI_S_abs: return fabs(a);
  case ANFI_S_sign: return isnan(a) ? a : (double)((a > 0) - (a < 0));
  case ANFI_S_min: return isnan(a) || a <= b ? a : b;
  case ANFI_S_max: return isnan(a) || a >= b ? a : b;
  case ANFI_S_fma: return fused(m, a, b, c);
  case ANFI_S_floordiv: return real_floordiv(a, b);
  case ANFI_S_mod: return real_mod(a, b);
  case ANFI_S_pow: return b == 2 ? a * a : pow(a, b); // the product is rounded right
  case ANFI_S_floor: return floor(a);
  case ANFI_S_ceil: return ceil(a);
  case ANFI_S_trunc: return trunc(a);
  case ANFI_S_rint: return rint(a);
  case ANFI_S_isnan: return isnan(a);
  case ANFI_S_isinf: return isinf(a) != 0;
  case ANFI_S_isfinite: return isfinite(a);
  case ANFI_S_copysign: return copysign(a, b);
  case ANFI_S_sqrt: return sqrt(a);
  case ANFI_S_rsqrt: return 1 / sqrt(a);
  case ANFI_S_cbrt: return cbrt(a);
  case ANFI_S_exp: return exp(a);
  case ANFI_S_exp2: return exp2(a);
  case ANFI_S_expm1: return expm1(a);
  case ANFI_S_log: return log(a);
  case ANFI_S_log1p: return log1p(a);
  case ANFI_S_log2: return log2(a);
  case ANFI_S_log10: return log10(a);
  case ANFI_S_sin: return sin(a);
  case ANFI_S_cos: return cos(a);
  case ANFI_S_tan: return tan(a);
  case ANFI_S_asin: return asin(a);
  case ANFI_S_acos: return acos(a);
  case ANFI_S_atan: return atan(a);
  case ANFI_S_atan2: return atan2(a, b);
  case ANFI_S_sinh: return sinh(a);
  case ANFI_S_cosh: return cosh(a);
  case ANFI_S_tanh: return tanh(a);
  case ANFI_S_asinh: return asinh(a);
  case ANFI_S_acosh: return acosh(a);
  case ANFI_S_atanh: return atanh(a);
  case ANFI_S_hypot: return hypot(a, b);
  case ANFI_S_sigmoid: return 1 / (1 + exp(-a));
  case ANFI_S_erf: return erf(a);
  case ANFI_S_erfc: return erfc(a);
  case ANFI_S_lgamma: return anfi_lgamma(a);
  case ANFI_S_digamma: return anfi_digamma(a);
  case ANFI_S_real:
  case ANFI_S_conj: return a;
  case ANFI_S_imag: return 0;
  default: return (double)fail(m, ANF_E0001);
  }
}

/* dispatch */
static double step_real(machine *m, const anfi_scalar_ins *i) {
  double a = m->at[i->arg[0]].f, b = m->at[i->arg[1]].f, c = m->at[i->arg[2]].f;
  switch ((anfi_scalar_op)i->op) {
  case ANFI_S_input: return m->in[i->arg[0]].f;
  case ANFI_S_attr: return m->attr[i->arg[0]].f;
  case ANFI_S_number: return i->number;
  case ANFI_S_add: return a + b;
  case ANFI_S_sub: return a - b;
  case ANFI_S_mul: return a * b;
  case ANFI_S_div: return a / b;
  case ANFI_S_rem: return fmod(a, b);
  case ANFI_S_lt: return a < b;
  case ANFI_S_le: return a <= b;
  case ANFI_S_gt: return a > b;
  case ANFI_S_ge: return a >= b;
  case ANFI_S_eq: return a == b;
  case ANFI_S_ne: return a != b;
  case ANFI_S_land: return a != 0 && b != 0;
  case ANFI_S_lor: return a != 0 || b != 0;
  case ANFI_S_lnot: return a == 0;
  case ANFI_S_neg: return -a;
  case ANFI_S_select: return a != 0 ? b : c;
  default: return real_function(m, (anfi_scalar_op)i->op, a, b, c);
  }
}

/* ---- complex: products as NumPy does them, without C's recovery of infinities ---- */

static number cplx(double re, double im) { return (number){.c = {re, im}}; }

static number complex_mul(number a, number b) {
  return cplx(a.c.re * b.c.re - a.c.im * b.c.im, a.c.re * b.c.im + a.c.im * b.c.re);
}

/* Smith's method: scales by the larger part, so that nothing overflows on the way. */
static number complex_div(number a, number b) {
  if (fabs(b.c.re) >= fabs(b.c.im)) {
    if (b.c.re == 0 && b.c.im == 0) return cplx(a.c.re / fabs(b.c.re), a.c.im / fabs(b.c.re));
    double r = b.c.im / b.c.re, d = 1 / (b.c.re + b.c.im * r);
    return cplx((a.c.re + a.c.im * r) * d, (a.c.im - a.c.re * r) * d);
  }
  double r = b.c.re / b.c.im, d = 1 / (b.c.im + b.c.re * r);
  return cplx((a.c.re * r + a.c.im) * d, (a.c.im * r - a.c.re) * d);
}

static bool nonzero(number a) { return a.c.re != 0 || a.c.im != 0; }
static bool equal(number a, number b) { return a.c.re == b.c.re && a.c.im == b.c.im; }

static const uint8_t c_function[ANFI_S_COUNT] = { // 1 + the function
#define ANFI_COMPLEX(name, call) [ANFI_S_##name] = 1 + ANFI_COMPLEX_##name,
    ANFI_COMPLEX_FUNCTIONS
#undef ANFI_COMPLEX
};

int anfi_scalar_complex(anfi_scalar_op op) { return c_function[op] - 1; }

static number complex_of(anfi_complex_fn f, number a, number b) {
  const double x[2] = {a.c.re, a.c.im}, y[2] = {b.c.re, b.c.im};
  double r[2];
  anfi_complex(f, x, y, r);
  return cplx(r[0], r[1]);
}

/* dispatch */
static number step_complex(machine *m, const anfi_scalar_ins *i) {
  number a = m->at[i->arg[0]], b = m->at[i->arg[1]], c = m->at[i->arg[2]];
  int f = anfi_scalar_complex((anfi_scalar_op)i->op);
  if (f >= 0) return complex_of((anfi_complex_fn)f, a, b);
  switch ((anfi_scalar_op)i->op) {
  case ANFI_S_input: return m->in[i->arg[0]];
  case ANFI_S_attr: return m->attr[i->arg[0]];
  case ANFI_S_number: return cplx(i->number, 0);
  case ANFI_S_add: return cplx(a.c.re + b.c.re, a.c.im + b.c.im);
  case ANFI_S_sub: return cplx(a.c.re - b.c.re, a.c.im - b.c.im);
  case ANFI_S_mul: return complex_mul(a, b);
  case ANFI_S_div: return complex_div(a, b);
  case ANFI_S_eq: return cplx(equal(a, b), 0);
  case ANFI_S_ne: return cplx(!equal(a, b), 0);
  case ANFI_S_land: return cplx(nonzero(a) && nonzero(b), 0);
  case ANFI_S_lor: return cplx(nonzero(a) || nonzero(b), 0);
  case ANFI_S_lnot: return cplx(!nonzero(a), 0);
  case ANFI_S_neg: return cplx(-a.c.re, -a.c.im);
  case ANFI_S_select: return nonzero(a) ? b : c;
  case ANFI_S_abs: return cplx(hypot(a.c.re, a.c.im), 0);
  case ANFI_S_isnan: return cplx(isnan(a.c.re) || isnan(a.c.im), 0);
  case ANFI_S_isinf: return cplx(isinf(a.c.re) || isinf(a.c.im), 0);
  case ANFI_S_isfinite: return cplx(isfinite(a.c.re) && isfinite(a.c.im), 0);
  case ANFI_S_rsqrt: return complex_div(cplx(1, 0), complex_of(ANFI_COMPLEX_sqrt, a, b));
  case ANFI_S_sigmoid:
    a = complex_of(ANFI_COMPLEX_exp, cplx(-a.c.re, -a.c.im), b);
    return complex_div(cplx(1, 0), cplx(1 + a.c.re, a.c.im));
  case ANFI_S_real: return cplx(a.c.re, 0);
  case ANFI_S_imag: return cplx(a.c.im, 0);
  case ANFI_S_conj: return cplx(a.c.re, -a.c.im);
  case ANFI_S_complex: return cplx(a.c.re, b.c.re);
  default: return fail(m, ANF_E0001), cplx(0, 0);
  }
}

/* ---- one element ---- */

static double to_single(const machine *m, double x) { return m->single ? (double)(float)x : x; }

static void run_int(machine *m) {
  for (uint32_t k = 0; k < m->code->n; k++)
    m->at[k].i = wrap(m->type, (uint64_t)step_int(m, &m->code->at[k]));
}

static void run_real(machine *m) {
  for (uint32_t k = 0; k < m->code->n; k++)
    m->at[k].f = to_single(m, step_real(m, &m->code->at[k]));
}

static void run_complex(machine *m) {
  for (uint32_t k = 0; k < m->code->n; k++) {
    number z = step_complex(m, &m->code->at[k]);
    m->at[k] = cplx(to_single(m, z.c.re), to_single(m, z.c.im));
  }
}

/* Element i of v, converted to the computation type. */
static number load(const machine *m, const anf_value *v, size_t i) {
  bool pairs = anfi_dtype_class((anf_dtype)v->type->dtype) == ANFI_CLASS_COMPLEX;
  switch (m->domain) {
  case ANFI_SCALAR_INT: return (number){.i = wrap(m->type, (uint64_t)anfi_get_i64(v, i))};
  case ANFI_SCALAR_REAL: return (number){.f = anfi_load_real(m->type, v, i)};
  default:
    if (pairs)
      return cplx(to_single(m, anfi_get_f64(v, 2 * i)), to_single(m, anfi_get_f64(v, 2 * i + 1)));
    return cplx(anfi_load_real(m->type == ANF_C64 ? ANF_F32 : ANF_F64, v, i), 0);
  }
}

static void store(const machine *m, anf_value *v, size_t i, number x) {
  bool pairs = anfi_dtype_class((anf_dtype)v->type->dtype) == ANFI_CLASS_COMPLEX;
  switch (m->domain) {
  case ANFI_SCALAR_INT: anfi_set_i64(v, i, x.i); break;
  case ANFI_SCALAR_REAL: anfi_set_f64(v, i, x.f); break;
  default:
    anfi_set_f64(v, pairs ? 2 * i : i, x.c.re);
    if (pairs) anfi_set_f64(v, 2 * i + 1, x.c.im);
  }
}

/* Is it a comparison of u64 with signed integers, which no type of 64 bits holds? */
static bool compares_mixed(const anfi_eval *q) {
  if (q->n != 2 || !anfi_op_is_comparison(q->op)) return false;
  anf_dtype a = (anf_dtype)q->in[0]->type->dtype, b = (anf_dtype)q->in[1]->type->dtype;
  return (a == ANF_U64 && anfi_dtype_class(b) == ANFI_CLASS_SIGNED) ||
         (b == ANF_U64 && anfi_dtype_class(a) == ANFI_CLASS_SIGNED);
}

static bool mixed(const anfi_eval *q, const size_t *from) {
  int64_t a = anfi_get_i64(q->in[0], from[0]), b = anfi_get_i64(q->in[1], from[1]);
  int order = (a > b) - (a < b);
  if (q->in[0]->type->dtype == ANF_U64 && a < 0) order = 1;
  if (q->in[1]->type->dtype == ANF_U64 && b < 0) order = -1;
  switch (q->op) {
  case ANF_OP_Equal: return order == 0;
  case ANF_OP_NotEqual: return order != 0;
  case ANF_OP_Less: return order < 0;
  case ANF_OP_LessEqual: return order <= 0;
  case ANF_OP_Greater: return order > 0;
  default: return order >= 0;
  }
}

/* Computes element `to` of the result from these elements of the inputs. */
static bool element(machine *m, const anfi_eval *q, size_t to, const size_t *from) {
  if (m->mixed) return anfi_set_i64(q->out, to, mixed(q, from)), true;
  for (size_t k = 0; k < q->n; k++) m->in[k] = load(m, q->in[k], from[k]);
  if (m->domain == ANFI_SCALAR_INT) run_int(m);
  else if (m->domain == ANFI_SCALAR_REAL) run_real(m);
  else run_complex(m);
  if (m->failed >= 0) return anfi_fail(q->cx, q->loc, (anfi_code)m->failed, anfi_op[q->op].name);
  store(m, q->out, to, m->at[m->code->n - 1]);
  return true;
}

static bool prepare(machine *m, const anfi_eval *q) {
  const anf_type *in[MAX_INPUTS];
  m->code = anfi_scalar_of(q->cx, q->op);
  if (!m->code || q->n > MAX_INPUTS) return false;
  for (size_t k = 0; k < q->n; k++) in[k] = q->in[k]->type;
  m->type = anfi_scalar_dtype(q->n, in, q->type);
  m->domain = anfi_scalar_domain(m->type);
  m->single = m->type == ANF_F16 || m->type == ANF_BF16 || m->type == ANF_F32 || m->type == ANF_C64;
  m->mixed = m->domain == ANFI_SCALAR_INT && compares_mixed(q);
  m->failed = -1;
  memset(m->at, 0, m->code->n * sizeof *m->at); // a step reads arg[] that it does not have
  for (uint32_t k = 0; k < m->code->n; k++) {
    const anfi_scalar_ins *i = &m->code->at[k];
    if (i->op == ANFI_S_attr) m->attr[i->arg[0]] = load(m, q->attr[i->arg[0]], 0);
  }
  return true;
}

bool anfi_eval_scalar(anfi_eval *q) {
  machine m;
  anfi_nd it;
  bool flat = true; // each input is one element, or is read at the index of the result
  if (!prepare(&m, q)) return false;
  for (size_t k = 0; k < q->n; k++) flat &= q->in[k]->n == 1 || q->in[k]->n == q->out->n;
  if (flat) {
    size_t at[MAX_INPUTS] = {0};
    for (size_t i = 0; i < q->out->n; i++) {
      if (!element(&m, q, i, at)) return false;
      for (size_t k = 0; k < q->n; k++) at[k] += q->in[k]->n > 1;
    }
    return true;
  }
  anfi_nd_init(&it, q->type->n, q->type->dims);
  for (size_t k = 0; k < q->n; k++) anfi_nd_broadcast(&it, (int)k, q->in[k]->type);
  for (size_t i = 0; it.more; i++, anfi_nd_next(&it))
    if (!element(&m, q, i, it.at)) return false;
  return true;
}
