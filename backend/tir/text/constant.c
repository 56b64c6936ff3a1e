// SPDX-License-Identifier: Apache-2.0
/* Parses constants: 1 (s32), 1UL (index), 1.f (f32), 1s64, (1.f x 16).
 *   300u8   ->   error E0807: a number that its type cannot hold is an error */
#include "backend/tir/text/parse.h"

#include <math.h>

static bool suffix_type(const token *k, tdtype *d) {
  const char *s = k->s + k->digits;
  size_t n = k->len - k->digits;
  *d = anfi_t_dt(k->real ? ANF_TIR_f32 : ANF_TIR_s32);
  if (!n) return true;
  if (n == 1 && *s == 'f') return *d = anfi_t_dt(ANF_TIR_f32), true;
  if (n == 2 && memcmp(s, "UL", 2) == 0) return *d = anfi_t_dt(ANF_TIR_index), !k->real;
  return anfi_t_dtype_of(s, n, d) && d->lanes == 1 && !d->rows &&
         (anfi_t_is_float(*d) || (anfi_t_is_int(*d) && !k->real));
}

/* The bits of a number of type d; false: d does not hold it. */
static bool real(tdtype d, const char *digits, bool neg, uint64_t *bits) {
  double v = anfi_t_is_elem(d, ANF_TIR_f32) ? (double)anfi_read_f32(digits, NULL)
                                            : anfi_read_f64(digits, NULL);
  *bits = anfi_t_lane_of_f64(d, neg ? -v : v);
  return isfinite(anfi_t_lane_f64(d, *bits));
}
static bool integer(tdtype d, const token *k, bool neg, uint64_t *bits) {
  unsigned w = (unsigned)anfi_t_bytes(d) * 8;
  bool is_signed = anfi_t_class(d) == TC_SINT;
  uint64_t v, max = is_signed ? (UINT64_C(1) << (w - 1)) - 1 + neg : UINT64_MAX >> (64 - w);
  if (!anfi_tp_digits(k->s, k->digits, max, &v) || (neg && !is_signed && v)) return false;
  *bits = anfi_t_lane_of_i64(d, (int64_t)(neg ? 0 - v : v));
  return true;
}

texpr anfi_tp_number(tparser *p, bool neg) {
  tdtype d;
  const token *k = &p->tok;
  if (!suffix_type(k, &d)) {
    anfi_fail(p->cx, anfi_tp_here(p), ANF_E0806, anfi_tp_tok_text(p));
    anfi_hint(p->cx, "numbers are 1 (s32), 1UL (index), 1.f (f32), or end in a type: 1s64, 0.5f64");
    return NULL;
  }
  const char *digits = anfi_strndup(p->a, k->s, k->digits);
  uint64_t bits;
  if (!(anfi_t_is_float(d) ? real(d, digits, neg, &bits) : integer(d, k, neg, &bits))) {
    const char *text = anfi_sprintf(p->a, "%s%s", neg ? "-" : "", digits);
    return anfi_fail(p->cx, anfi_tp_here(p), ANF_E0807, text, anfi_t_elem_names[d.elem]), NULL;
  }
  texpr e = anfi_t_bits(p->t, d, 1, &bits);
  anfi_tp_next(p);
  return e;
}

/* true, false, none, INFINITYf64, NAN */
texpr anfi_tp_word(tparser *p, bool neg) {
  tdtype d = anfi_t_dt(ANF_TIR_f32);
  const token *k = &p->tok;
  if (anfi_tp_is(p, "true") || anfi_tp_is(p, "false")) {
    texpr e = anfi_t_bool(p->t, anfi_tp_is(p, "true"));
    anfi_tp_next(p);
    return e;
  }
  if (anfi_tp_is(p, "none")) return anfi_tp_next(p), anfi_t_none(p->t);
  bool inf = k->len >= 8 && memcmp(k->s, "INFINITY", 8) == 0,
       nan = k->len >= 3 && memcmp(k->s, "NAN", 3) == 0;
  size_t n = inf ? 8 : 3;
  if (k->kind != K_IDENT || (!inf && !nan)) return NULL;
  if (k->len > n && (!anfi_t_dtype_of(k->s + n, k->len - n, &d) || !anfi_t_is_float(d)))
    return NULL;
  uint64_t bits =
      anfi_t_lane_of_f64(d, inf ? neg ? -(double)INFINITY : (double)INFINITY : (double)NAN);
  if (nan) bits &= ~(UINT64_C(1) << (anfi_t_bytes(d) * 8 - 1));
  texpr e = anfi_t_bits(p->t, d, 1, &bits);
  anfi_tp_next(p);
  return e;
}

static bool lane_count(tparser *p, uint16_t *lanes) {
  uint16_t rows = 0;
  return anfi_tp_tile(p, lanes, &rows) &&
         (!rows || anfi_tp_unexpected(p, "a count of lanes alone"));
}

bool anfi_tp_tile(tparser *p, uint16_t *lanes, uint16_t *rows) {
  const token *k = &p->tok;
  size_t n = k->kind == K_NUMBER ? k->digits : 0;
  uint64_t l = 0, r = 0;
  bool tile = n && k->len > n && k->s[n] == 'x';
  if (!n || k->real || !anfi_tp_digits(k->s, n, UINT16_MAX, &l) || !l || (k->len > n && !tile) ||
      (tile && (!anfi_tp_digits(k->s + n + 1, k->len - n - 1, UINT16_MAX, &r) || !r)))
    return anfi_tp_unexpected(p, "a count of lanes (1 to 65535)");
  *lanes = (uint16_t)l;
  *rows = (uint16_t)r;
  anfi_tp_next(p);
  return true;
}

/* Constants of one type become the lanes of one. */
texpr anfi_tp_lanes(tparser *p, tdtype d, size_t n, const texpr *in, anfi_loc at) {
  uint64_t *bits = ANFI_NEW_N(p->a, uint64_t, n);
  for (size_t i = 0; i < n; i++) {
    bool ok = anfi_t_isa(in[i], TX_constant) && in[i]->dtype.lanes == 1 &&
              in[i]->dtype.elem == in[0]->dtype.elem && in[i]->dtype.ptr == in[0]->dtype.ptr &&
              !in[i]->sub;
    if (!ok || n != anfi_t_total(d) || d.elem != in[0]->dtype.elem) {
      anfi_fail(p->cx, at, ANF_E0808);
      return NULL;
    }
    bits[i] = in[i]->u.k.bits[0];
  }
  anfi_tp_at(p, at);
  return anfi_t_bits(p->t, d, (uint32_t)n, bits);
}

/* After '(' and a first expression: ")", "x 16)", ", b, c)" */
texpr anfi_tp_parenthesised(tparser *p) {
  anfi_loc at = anfi_tp_here(p);
  anfi_tp_next(p);
  texpr first = anfi_tp_expr(p, 0);
  if (!first) return NULL;
  if (anfi_tp_accept(p, ")")) return first;
  if (anfi_tp_is(p, "x")) {
    tdtype d = first->dtype;
    anfi_tp_next(p);
    if (!lane_count(p, &d.lanes) || (anfi_tp_accept(p, "x") && !lane_count(p, &d.rows)) ||
        !anfi_tp_expect(p, ")"))
      return NULL;
    if (!anfi_t_isa(first, TX_constant) || first->u.k.n != 1)
      return anfi_fail(p->cx, at, ANF_E0808), NULL;
    anfi_tp_at(p, at);
    return anfi_t_bits(p->t, d, 1, first->u.k.bits);
  }
  ANFI_VEC(texpr) in = {0};
  anfi_push(p->a, &in, first);
  while (anfi_tp_accept(p, ",")) {
    texpr e = anfi_tp_expr(p, 0);
    if (!e) return NULL;
    anfi_push(p->a, &in, e);
  }
  if (!anfi_tp_expect(p, ")")) return NULL;
  tdtype d = first->dtype;
  if (in.n > UINT16_MAX) return anfi_fail(p->cx, at, ANF_E0808), NULL;
  d.lanes = (uint16_t)in.n;
  return anfi_tp_lanes(p, d, in.n, in.at, at);
}

/* "{1.f, 2.f}": initial values of a tensor */
texpr anfi_tp_init_list(tparser *p, tdtype d) {
  ANFI_VEC(uint64_t) bits = {0};
  anfi_tp_next(p);
  while (!anfi_tp_is(p, "}") && p->tok.kind != K_EOF) {
    texpr e = anfi_tp_unary(p);
    if (!e) return NULL;
    if (!anfi_t_isa(e, TX_constant) || e->dtype.lanes != 1)
      return anfi_fail(p->cx, anfi_tp_here(p), ANF_E0808), NULL;
    anfi_push(p->a, &bits, anfi_t_lane_cast(d, e->dtype, e->u.k.bits[0]));
    if (!anfi_tp_accept(p, ",")) break;
  }
  if (!anfi_tp_expect(p, "}")) return NULL;
  if (!bits.n || bits.n > UINT32_MAX) return anfi_fail(p->cx, anfi_tp_here(p), ANF_E0808), NULL;
  return anfi_t_list(p->t, d, (uint32_t)bits.n, bits.at);
}
