// SPDX-License-Identifier: Apache-2.0
/* Reals as codes of few bits, and back.
 *   Cast(Clip(Round(x / s) + z, lo, hi), u8)   ->   x limited to s * (lo - z) .. s * (hi - z), times 1 / s, as the low bits of
 *                                                  a sum with 1.5 * 2^23, which rounds it
 *   Cast(that, f32)                            ->   the s32 before it becomes a byte, as a real
 *
 * INVARIANT: the codes are those of the ops one by one (ir/ops/nn/quantise.c). Limits before Round and before the sum with z are
 * the same as after them, for both are monotone and keep whole numbers.
 *
 * Hard case: the quotient, which takes six cycles where products take half of one. x * (1 / s) rounded to f32 is another number. With
 * 1 / s as a sum of two floats, x * high + x * low in one multiply-add is monotone as x / s is; so that both round to the same codes if they do
 * next to the 255 places where the code changes. The compiler looks at them; if one differs, it divides. */
#include "backend/kernel/kernel.h"
#include "backend/lower/gemm/plan.h"
#include "backend/lower/math/scalar.h"

/* A code: Round(x / scale) + zero, limited to lo..hi. */
typedef struct coded {
  const anfi_view *x, *near; // near: the op that reads x, whose dims x broadcasts to
  double scale, zero, lo, hi;
  bool divided; // else scale is 1
} coded;

static bool number_of(const anfi_view *x, double *k) {
  return x->kind == VIEW_SCALAR && anfi_s_is_number(x->value.re, k);
}

/* Reals that a Clip limits to the range of the type, or NaN: Cast(Clip(x, -128, 127), i8). */
static bool is_limited(const anfi_view *x, anf_dtype to, coded *c) {
  double least, most;
  if (x->op != ANF_OP_Clip || !anfi_view_is_lazy(x) || x->nin != 3) return false;
  if (x->dtype != ANF_F32 && x->dtype != ANF_F64) return false;
  anfi_quantise_range(to, true, &least, &most);
  return number_of(x->in[1], &c->lo) && number_of(x->in[2], &c->hi) && c->lo >= least &&
         c->lo <= c->hi && c->hi <= most;
}

/* By way of s32, which vectors convert to in one step; NaN gives 0. */
static texpr truncated(anfi_low *L, texpr x) {
  return anfi_low_atom(L, anfi_t_cast(L->t, anfi_t_dt(ANF_TIR_s32), x));
}

static bool is_whole(double k) { return k == rint(k); }

/* x = Round(..) + whole numbers. The sum of the numbers is small, so that f32 has all that limits do not cut. */
static const anfi_view *round_of(const anfi_view *x, coded *c) {
  const double most = 1 << 20;
  double k;
  c->zero = 0;
  while (anfi_view_is_lazy(x) && (x->op == ANF_OP_Add || x->op == ANF_OP_Sub) && x->nin == 2) {
    if (!number_of(x->in[1], &k) || !is_whole(k) || fabs(k) > most) return NULL;
    if (!anfi_same_dims(x->type, x->in[0]->type)) return NULL;
    c->zero += x->op == ANF_OP_Add ? k : -k;
    x = x->in[0];
  }
  return anfi_view_is_lazy(x) && x->op == ANF_OP_Round && fabs(c->zero) <= most ? x : NULL;
}

/* Whole numbers of 16 bits that f32 rounds to; 0, the code of NaN, is one of them. */
static bool is_coded(const anfi_view *clip, coded *c) {
  const double least = 1e-30, most = 1e30; // of scales whose reciprocals are normal numbers
  if (clip->dtype != ANF_F32 || !is_whole(c->lo) || !is_whole(c->hi) || c->lo > 0 || c->hi < 0)
    return false;
  const anfi_view *round = round_of(clip->in[0], c), *div = round ? round->in[0] : NULL;
  if (!round || round->dtype != ANF_F32 || !anfi_same_dims(round->type, clip->type)) return false;
  c->x = div, c->near = round, c->scale = 1;
  c->divided = anfi_view_is_lazy(div) && div->op == ANF_OP_Div && div->dtype == ANF_F32 &&
               div->in[0]->dtype == ANF_F32 && number_of(div->in[1], &c->scale) &&
               c->scale >= least && c->scale <= most && c->scale == (double)(float)c->scale;
  if (c->divided) c->x = div->in[0], c->near = div;
  else c->scale = 1;
  return true;
}

/* ---- how large it can be ---- */

static double largest_constant(const anf_value *v) {
  enum { MANY = 1 << 14 };
  double most = 0;
  if (v->n > MANY) return INFINITY;
  for (size_t i = 0; i < v->n; i++) {
    double x = fabs(anfi_get_f64(v, i));
    if (!(x <= most)) most = isnan(x) ? INFINITY : x;
  }
  return most;
}

/* A bound of the absolute value; infinite: it may be NaN. */
static double bound_of(const anfi_view *x, int depth) {
  double k;
  if (number_of(x, &k)) return isnan(k) ? INFINITY : fabs(k);
  if (x->constant && anfi_dtype_is_float(x->dtype)) return largest_constant(x->constant);
  if (!anfi_view_is_lazy(x) || !depth || !x->nin) return INFINITY;
  if (x->op == ANF_OP_Cast)
    return anfi_dtype_is_int(x->in[0]->dtype) && anfi_dtype_is_float(x->dtype) ? 0x1p64 : INFINITY;
  double a = bound_of(x->in[0], depth - 1); // at most MOST_DEPTH deep
  if (x->op == ANF_OP_Relu || x->op == ANF_OP_Neg) return a;
  if (x->nin != 2) return INFINITY;
  if (x->op == ANF_OP_Div) return number_of(x->in[1], &k) && k != 0 ? a / fabs(k) : INFINITY;
  double b = bound_of(x->in[1], depth - 1);
  if (x->op == ANF_OP_Mul) return a * b;
  return x->op == ANF_OP_Add || x->op == ANF_OP_Sub ? a + b : INFINITY;
}

static bool is_number(const anfi_view *x) {
  enum { MOST_DEPTH = 6 };
  return x->dtype == ANF_F32 && bound_of(x, MOST_DEPTH) < 1e38; // f32 ends at 3.4e38
}

/* ---- codes ---- */

/* 1 / scale as a sum of two floats. */
static void reciprocal(const coded *c, float *high, float *low) {
  double r = 1 / c->scale;
  *high = (float)r;
  *low = (float)(r - (double)*high);
}

/* Do products by the reciprocal give the codes that quotients give? Both rise with x, so they do if they agree around each place
 * where the quotient passes the middle between two codes; either passes it less than three floats away. */
static bool multiplies(const coded *c) {
  enum { NEAR = 3 };
  const double most_codes = 256;
  float high, low, scale = (float)c->scale;
  if (c->hi - c->lo >= most_codes) return false;
  reciprocal(c, &high, &low);
  for (double k = c->lo - c->zero; k < c->hi - c->zero; k++) {
    float x = (float)((k + 0.5) * c->scale);
    for (int i = 0; i < NEAR; i++) x = nextafterf(x, -INFINITY);
    for (int i = -NEAR; i <= NEAR; i++, x = nextafterf(x, INFINITY)) {
      float more = x * low;
      if (rintf(x / scale) != rintf(fmaf(x, high, more))) return false;
    }
  }
  return true;
}

static texpr real(anfi_low *L, double x) { return anfi_low_const(L, anfi_t_dt(ANF_TIR_f32), x); }

static texpr quotient(anfi_low *L, const coded *c, texpr x) {
  float high, low;
  if (!anfi_low_isa(L).fma || !multiplies(c))
    return anfi_low_atom(L, anfi_t_bin(L->t, TX_div, x, real(L, c->scale)));
  reciprocal(c, &high, &low);
  texpr more = anfi_low_atom(L, anfi_t_bin(L->t, TX_mul, x, real(L, (double)low)));
  texpr in[3] = {x, real(L, (double)high), more};
  return anfi_low_atom(L, anfi_t_intrin(L->t, TI_fmadd, x->dtype, 3, in, (tattrs){0}));
}

/* The real whose code is k - zero, before zero is added. */
static double real_of(const coded *c, double k) {
  return c->divided ? (double)(float)((k - c->zero) * c->scale) : k - c->zero;
}

/* The code in s32. A conversion would have to look at both limits again; the sum has it as its low bits. */
static texpr coded_at(anfi_low *L, const coded *c, const anfi_pt *p) {
  tstore *t = L->t;
  tdtype s32 = anfi_t_dt(ANF_TIR_s32);
  texpr x = anfi_low_atom(
      L, anfi_view_at_broadcast(L, c->x, c->near->type->n, c->near->type->dims, p).re);
  if (!is_number(c->x)) {
    texpr good = anfi_t_bin(t, TX_cmp_eq, x, x);
    x = anfi_low_atom(L, anfi_t_select(t, good, x, real(L, real_of(c, 0))));
  }
  x = anfi_low_atom(L, anfi_low_max(L, x, real(L, real_of(c, c->lo)), true));
  x = anfi_low_atom(L, anfi_low_max(L, x, real(L, real_of(c, c->hi)), false));
  if (c->divided) x = quotient(L, c, x);
  texpr sum = anfi_low_atom(L, anfi_t_add(t, x, real(L, 0x1.8p23)));
  texpr bits = anfi_low_atom(L, anfi_t_intrin(t, TI_reinterpret, s32, 1, &sum, (tattrs){0}));
  texpr base = anfi_t_int(t, s32, 0x4b400000 - (int64_t)c->zero);
  return anfi_low_atom(L, anfi_t_sub(t, bits, base));
}

/* The code that a Cast gives, in s32; NULL: it is none. */
static texpr code_of(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  coded c = {.x = NULL};
  bool small = anfi_dtype_is_int(v->dtype) && anf_dtype_bytes(v->dtype) <= 4 && v->dtype != ANF_U32;
  if (!small || !is_limited(v->in[0], v->dtype, &c)) return NULL;
  if (anf_dtype_bytes(v->dtype) <= 2 && is_coded(v->in[0], &c)) return coded_at(L, &c, p);
  return truncated(L, anfi_view_at(L, v->in[0], p).re);
}

bool anfi_low_code_at(anfi_low *L, const anfi_view *v, const anfi_pt *p, anfi_elem *out) {
  const anfi_view *x = v->in[0];
  texpr code = NULL;
  if (anfi_dtype_is_int(v->dtype)) code = code_of(L, v, p);
  else if ((v->dtype == ANF_F32 || v->dtype == ANF_F64) && x->op == ANF_OP_Cast &&
           anfi_view_is_lazy(x))
    code = code_of(L, x, p);
  *out = (anfi_elem){code ? anfi_t_cast(L->t, anfi_low_dt(v->dtype), code) : NULL, NULL};
  return code;
}
