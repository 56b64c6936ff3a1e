// SPDX-License-Identifier: Apache-2.0
/* target_specific_lowering_cpu: intrinsics that code generators lack become helper functions written in Tensor IR.
 *
 *   exp(A[0 @ 4])          →     _exp_f32x4(A[0 @ 4])         one helper for each number of lanes
 *   isnan(x)               →     x != x
 *   saturated_cast<s8>(x)  →     s8(min(max(x, -128), 127))
 *
 * exp and log are the single precision polynomials of Cephes (at most 2 ulp), erf is the rational approximation
 * of Eigen (absolute error below 5e-7). */
#include "backend/tir/tir.h"

/* @ stands for lanes such as x16, or for nothing. */
static const char exp_text[] =
    "func _exp_f32@(x: f32@): f32@ @[inline_level=2, is_private, pure] {\n"
    "  var c: f32@ = min(max(x, -104.f), 89.f)\n"
    "  var n: f32@ = round(c * 1.44269504f)\n"
    "  var r: f32@ = fnmadd(n, -2.12194440e-4f, fnmadd(n, 0.693359375f, c))\n"
    "  var p: f32@ = fmadd(r, 1.9875691500e-4f, 1.3981999507e-3f)\n"
    "  p = fmadd(p, r, 8.3334519073e-3f)\n"
    "  p = fmadd(p, r, 4.1665795894e-2f)\n"
    "  p = fmadd(p, r, 1.6666665459e-1f)\n"
    "  p = fmadd(p, r, 5.0000001201e-1f)\n"
    "  p = fmadd(p, r * r, r) + 1.f\n"
    "  var k: s32@ = s32@(n)\n" // 2^k in two steps: k may be below the least exponent
    "  var h: s32@ = shr(k, 1)\n"
    "  var a: f32@ = reinterpret<f32@>(shl(h + 127, 23))\n"
    "  var b: f32@ = reinterpret<f32@>(shl((k - h) + 127, 23))\n"
    "  return p * a * b\n"
    "}\n";
static const char log_text[] =
    "func _log_f32@(x: f32@): f32@ @[inline_level=2, is_private, pure] {\n"
    "  var tiny: bool@ = x < 1.17549435e-38f\n"
    "  var y: f32@ = select(tiny, x * 8388608.f, x)\n"
    "  var bits: s32@ = reinterpret<s32@>(y)\n"
    "  var e: f32@ = f32@(int_and(shr(bits, 23), 255) - 126) - select(tiny, (23.f#), (0.f#))\n"
    "  var m: f32@ = reinterpret<f32@>(int_or(int_and(bits, 8388607), 1056964608))\n"
    "  var low: bool@ = m < 0.707106781f\n"
    "  e = e - select(low, (1.f#), (0.f#))\n"
    "  m = select(low, m + m, m) - 1.f\n"
    "  var z: f32@ = m * m\n"
    "  var p: f32@ = fmadd(m, 7.0376836292e-2f, -1.1514610310e-1f)\n"
    "  p = fmadd(p, m, 1.1676998740e-1f)\n"
    "  p = fmadd(p, m, -1.2420140846e-1f)\n"
    "  p = fmadd(p, m, 1.4249322787e-1f)\n"
    "  p = fmadd(p, m, -1.6668057665e-1f)\n"
    "  p = fmadd(p, m, 2.0000714765e-1f)\n"
    "  p = fmadd(p, m, -2.4999993993e-1f)\n"
    "  p = fmadd(p, m, 3.3333331174e-1f)\n"
    "  p = p * m * z\n"
    "  p = fmadd(e, -2.12194440e-4f, p)\n"
    "  p = fnmadd(z, 0.5f, p)\n"
    "  var r: f32@ = fmadd(e, 0.693359375f, m + p)\n"
    "  r = select(x == INFINITY, x, r)\n"
    "  r = select(x == 0.f, -INFINITY, r)\n"
    "  return select(x < 0.f, NAN, select(x != x, x, r))\n"
    "}\n";
static const char erf_text[] =
    "func _erf_f32@(x: f32@): f32@ @[inline_level=2, is_private, pure] {\n"
    "  var c: f32@ = min(max(x, -4.f), 4.f)\n"
    "  var z: f32@ = c * c\n"
    "  var p: f32@ = fmadd(z, -2.72614225801306e-10f, 2.77068142495902e-08f)\n"
    "  p = fmadd(p, z, -2.10102402082508e-06f)\n"
    "  p = fmadd(p, z, -5.69250639462346e-05f)\n"
    "  p = fmadd(p, z, -7.34990630326855e-04f)\n"
    "  p = fmadd(p, z, -2.95459980854025e-03f)\n"
    "  p = fmadd(p, z, -1.60960333262415e-02f)\n"
    "  var q: f32@ = fmadd(z, -1.45660718464996e-05f, -2.13374055278905e-04f)\n"
    "  q = fmadd(q, z, -1.68282697438203e-03f)\n"
    "  q = fmadd(q, z, -7.37332916720468e-03f)\n"
    "  q = fmadd(q, z, -1.42647390514189e-02f)\n"
    "  return c * p / q\n"
    "}\n";

typedef struct user {
  tpass_cx *p;
  tmod *out;
  anfi_map have; // names of helpers made
} user;

/* The text for so many lanes: @ is "x16", # is " x 16". */
static const char *with_lanes(anfi_arena *a, const char *s, uint16_t lanes) {
  char *r = (char *)anfi_alloc(a, strlen(s) * 4 + 1), *w = r;
  for (; *s; s++) {
    if (*s != '@' && *s != '#') *w++ = *s;
    else if (*s == '@' && s[1] == '[') *w++ = *s; // attributes
    else if (lanes > 1) w += sprintf(w, *s == '@' ? "x%u" : " x %u", (unsigned)lanes);
  }
  *w = 0;
  return r;
}

static const anfi_str *helper(user *u, const char *base, const char *text, tdtype d) {
  tstore *t = u->p->t;
  char name[64];
  if (d.lanes > 1) snprintf(name, sizeof name, "_%s_f32x%u", base, (unsigned)d.lanes);
  else snprintf(name, sizeof name, "_%s_f32", base);
  const anfi_str *s = anfi_intern_z(&t->names, name);
  if (anfi_map_find(&u->have, anfi_key(s)) || anfi_t_mod_find(u->p->m, s)) return s;
  *anfi_map_at(&u->have, anfi_key(s)) = 1;
  const char *full = with_lanes(u->p->scratch, text, d.lanes);
  tmod *m = anfi_t_parse(u->p->cx, full, strlen(full), "helper");
  tpass_cx q = *u->p;
  q.t = m->t;
  q.m = m;
  const tmod *cast = anfi_t_pass_auto_caster(&q, m); // constants take the lanes
  anfi_t_import(u->out, cast);
  anfi_t_mod_drop((tmod *)(uintptr_t)cast);
  anfi_t_mod_drop(m);
  return s;
}

static texpr limit(tstore *t, tdtype d, tdtype of, bool upper) {
  unsigned n = (unsigned)anfi_t_bytes(of) * 8;
  int64_t lo = anfi_t_class(of) == TC_UINT ? 0 : -(INT64_C(1) << (n - 1));
  int64_t hi = anfi_t_class(of) == TC_UINT ? (INT64_C(1) << n) - 1 : (INT64_C(1) << (n - 1)) - 1;
  return anfi_t_int(t, d, upper ? hi : lo);
}

/* Integers narrow by clamps, floats by the cast, which saturates. */
static texpr saturate(tvisitor *v, texpr e) {
  tdtype to = e->dtype, from = e->in[0]->dtype;
  texpr x = e->in[0];
  if (anfi_t_is_float(from) && anfi_t_is_int(to))
    return anfi_t_cast(v->t, to, anfi_t_intrin(v->t, TI_round, from, 1, &x, (tattrs){0}));
  bool narrow =
      anfi_t_is_int(to) && anfi_t_class(from) == TC_SINT && anfi_t_bytes(to) < anfi_t_bytes(from);
  if (!narrow) return e;
  x = anfi_t_intrin2(v->t, TI_max, x, limit(v->t, from, to, false));
  return anfi_t_cast(v->t, to, anfi_t_intrin2(v->t, TI_min, x, limit(v->t, from, to, true)));
}

static texpr lower(tvisitor *v, texpr e) {
  user *u = (user *)v->user;
  if (e->kind != TX_intrin_call) return e;
  if (e->sub == TI_saturated_cast) return saturate(v, e);
  if (e->sub == TI_isnan && anfi_t_is_float(e->in[0]->dtype) && anfi_t_pure(e->in[0]))
    return anfi_t_bin(v->t, TX_cmp_ne, e->in[0], e->in[0]);
  if (!anfi_t_is_elem(e->dtype, ANF_TIR_f32) || e->dtype.rows) return e;
  const anfi_str *f = NULL;
  if (e->sub == TI_exp) f = helper(u, "exp", exp_text, e->dtype);
  else if (e->sub == TI_log) f = helper(u, "log", log_text, e->dtype);
  else if (e->sub == TI_erf) f = helper(u, "erf", erf_text, e->dtype);
  return f ? anfi_t_call(v->t, f, e->dtype, 1, e->in) : e;
}

const tmod *anfi_t_pass_target_specific_lowering_cpu(tpass_cx *p, const tmod *m) {
  user u = {.p = p, .out = anfi_t_mod_like(m)};
  anfi_map_init(&u.have, p->scratch);
  anfi_t_visit_exprs(p->t, p->scratch, m, u.out, lower, &u);
  return u.out;
}
