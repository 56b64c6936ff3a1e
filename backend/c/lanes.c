// SPDX-License-Identifier: Apache-2.0
/* Vectors and tiles in C: a structure of lanes, and functions that loop over them.
 *
 *   a + b (f32x8)     →     anf_add_f32x8(a, b) { for (k = 0; k < 8; k++) r.v[k] = a.v[k] + b.v[k]; }
 *
 * Compilers vectorise loops of a known count. A tile is its rows, one after the other. */
#include "backend/c/c.h"

#define SAY(...) anfi_sprintf(c->a, __VA_ARGS__)
#define PUT(...) anfi_putf(c->helper, __VA_ARGS__)

bool anfi_c_is_lanes(tdtype d) { return d.lanes != 1 || d.rows; }
static tdtype one(tdtype d) { return (tdtype){d.elem, d.ptr, 1, 0}; }

const char *anfi_c_lanes_type(cgen *c, tdtype d) {
  const char *base = d.ptr ? "pointer" : anfi_t_elem_names[d.elem],
             *name = d.rows ? SAY("%sx%ux%u", base, (unsigned)d.lanes, (unsigned)d.rows)
                            : SAY("%sx%u", base, (unsigned)d.lanes);
  if (!anfi_c_is_lanes(d)) return base;
  if (anfi_c_helper(c, name))
    PUT("typedef struct %s {\n  %s v[%u];\n} %s;\n", name, base, anfi_t_total(d), name);
  return name;
}

static const char *param_list(cgen *c, uint32_t n, const tdtype *in) {
  const char *s = "";
  for (uint32_t i = 0; i < n; i++)
    s = SAY("%s%s%s %c", s, i ? ", " : "", anfi_c_type(c, in[i]), (int)('a' + i));
  return s;
}

const char *anfi_c_lanewise(cgen *c, const char *name, tdtype ret, uint32_t n, const tdtype *in,
                            const char *lane, bool traps) {
  const char *t = anfi_c_lanes_type(c, ret), *params = param_list(c, n, in);
  if (!anfi_c_helper(c, name)) return name;
  PUT("static inline %s %s(%s%s) {\n  %s r;\n", t, name, params, traps ? ", ANF_PLACE" : "", t);
  PUT("  for (int k = 0; k < %u; k++) r.v[k] = %s;\n  return r;\n}\n", anfi_t_total(ret), lane);
  return name;
}

const char *anfi_c_splat(cgen *c, tdtype d) {
  tdtype in = one(d);
  return anfi_c_lanewise(c, SAY("anf_splat_%s", anfi_c_lanes_type(c, d)), d, 1, &in, "a", false);
}

/* load(p, row stride[, mask]) and store(p, row stride, value[, mask]) */
const char *anfi_c_load(cgen *c, tdtype d, bool masked, bool store) {
  const char *t = anfi_c_lanes_type(c, d), *e = d.ptr ? "pointer" : anfi_t_elem_names[d.elem],
             *m = anfi_c_lanes_type(c, anfi_t_with(d, ANF_TIR_bool)),
             *name = SAY("anf_%s%s_%s", store ? "store" : "load", masked ? "_masked" : "", t),
             *at = d.rows ? SAY("(k / %u * row + k %% %u)", (unsigned)d.lanes, (unsigned)d.lanes)
                          : "k",
             *row = d.rows ? "index row, " : "";
  if (!anfi_c_helper(c, name)) return name;
  const char *mask = masked ? SAY(", %s m", m) : "", *when = masked ? "if (m.v[k]) " : "";
  if (store) PUT("static inline void %s(%s *p, %s%s x%s) {\n", name, e, row, t, mask);
  else
    PUT("static inline %s %s(const %s *p%s%s) {\n  %s r%s;\n", t, name, e,
        d.rows ? ", index row" : "", mask, t, masked ? " = {{0}}" : "");
  PUT("  for (index k = 0; k < %u; k++) %s", anfi_t_total(d), when);
  if (store) PUT("p[%s] = x.v[k];\n}\n", at);
  else PUT("r.v[k] = p[%s];\n  return r;\n}\n", at);
  return name;
}

const char *anfi_c_select_lanes(cgen *c, texpr e, const char *const *in) {
  tdtype d = e->dtype;
  if (!anfi_c_is_lanes(e->in[0]->dtype)) return SAY("(%s ? %s : %s)", in[0], in[1], in[2]);
  const tdtype t[3] = {e->in[0]->dtype, d, d};
  const char *name = SAY("anf_select_%s", anfi_c_lanes_type(c, d));
  return SAY("%s(%s, %s, %s)", anfi_c_lanewise(c, name, d, 3, t, "a.v[k] ? b.v[k] : c.v[k]", false),
             in[0], in[1], in[2]);
}

/* ---- reductions and shuffles ---- */

/* Of f16 and bf16 in f32, rounded once. */
static const char *reduce(cgen *c, texpr e, const char *const *in) {
  tdtype d = e->in[0]->dtype, acc = anfi_t_is_half(d) ? anfi_t_dt(ANF_TIR_f32) : one(d);
  const char *op = anfi_t_intrins[e->sub].name, *t = anfi_c_lanes_type(c, d),
             *name = SAY("anf_%s_%s", op, t), *r, *k = anfi_c_cast(c, acc, one(d), "a.v[k]");
  if (!anfi_c_is_lanes(d)) return in[0];
  if (e->sub == TI_reduce_add) r = anfi_c_bin(c, TX_add, acc, "r", k, "");
  else if (e->sub == TI_reduce_mul) r = anfi_c_bin(c, TX_mul, acc, "r", k, "");
  else
    r = anfi_c_math(c, e->sub == TI_reduce_max ? TI_max : TI_min, acc, 2,
                    (const char *const[]){"r", k});
  const char *first = anfi_c_cast(c, acc, one(d), "a.v[0]"),
             *last = anfi_c_cast(c, one(d), acc, "r");
  if (anfi_c_helper(c, name)) {
    PUT("static inline %s %s(%s a) {\n  %s r = %s;\n", anfi_c_type(c, one(d)), name, t,
        anfi_c_type(c, acc), first);
    PUT("  for (int k = 1; k < %u; k++) r = %s;\n  return %s;\n}\n", anfi_t_total(d), r, last);
  }
  return SAY("%s(%s)", name, in[0]);
}

/* A value's lane k: of a scalar, itself. */
static const char *lane_of(cgen *c, tdtype d, const char *v, const char *k) {
  return anfi_c_is_lanes(d) ? SAY("%s.v[%s]", v, k) : v;
}

/* A scalar result is one expression, else a function of the operands. `lane` is what lane k is. */
static const char *shuffled(cgen *c, texpr e, uint32_t n, const char *const *in, const char *lane) {
  tdtype d = e->dtype, t[3] = {d, d, d};
  bool scalar = !anfi_c_is_lanes(d);
  const char *name =
      SAY("anf_%s_%s_%zu", anfi_t_intrins[e->sub].name, anfi_c_lanes_type(c, d), c->have.n);
  for (uint32_t i = 0; i < n; i++) t[i] = e->in[i]->dtype;
  const char *params = param_list(c, n, t);
  if (scalar) {
    if (anfi_c_helper(c, name)) {
      PUT("static inline %s %s(%s) {\n  const int k = 0;\n  (void)k;\n", anfi_c_type(c, d), name,
          params);
      PUT("  return %s;\n}\n", lane);
    }
  } else anfi_c_lanewise(c, name, d, n, t, lane, false);
  return SAY("%s(%s)", name, anfi_c_list(c, n, in));
}

/* The constant lanes that a shuffle names, as a table; `from` is how many there are to pick of. */
static const char *table(cgen *c, texpr e, uint32_t first, uint32_t from) {
  const char *name = SAY("anf_lanes_%zu", c->have.n);
  anfi_c_helper(c, name);
  PUT("static const u16 %s[] = {", name);
  for (uint32_t i = first; i < e->n; i++) {
    int64_t v = 0;
    anfi_t_const_i64(e->in[i], &v);
    uint64_t bits = e->in[i]->kind == TX_constant ? e->in[i]->u.k.bits[0] : (uint64_t)v;
    PUT("%s%u", i > first ? ", " : "", (unsigned)(bits % from));
  }
  PUT("};\n");
  return name;
}

static const char *pick(cgen *c, tdtype d, const char *x, const char *y, const char *p) {
  uint32_t n = anfi_t_total(d);
  return SAY("(%s < %u ? %s : %s)", p, n, lane_of(c, d, x, SAY("%s %% %u", p, n)),
             lane_of(c, d, y, SAY("%s %% %u", p, n)));
}

static const char *insert(cgen *c, texpr e, const char *const *in) {
  uint32_t lanes = anfi_t_total(e->dtype), n = anfi_t_total(e->in[1]->dtype);
  const char *at = SAY("((u64)c %% %u)", lanes),
             *x = lane_of(c, e->in[1]->dtype, "b", SAY("(u64)k - %s", at)),
             *a = lane_of(c, e->dtype, "a", "k");
  return shuffled(c, e, 3, in, SAY("(u64)k - %s < %u ? %s : %s", at, n, x, a));
}

static const char *unpack(cgen *c, texpr e, const char *const *in) {
  uint32_t lanes = e->dtype.lanes, half = e->sub == TI_unpack_high ? lanes / 2 : 0;
  int64_t given = 0;
  anfi_t_const_i64(e->in[2], &given);
  const char *w = SAY("(c < 1 || c > %u ? 1 : (int)c)", lanes),
             *at = SAY("(%u + k / (2 * %s) * %s + k %% %s) %% %u", half, w, w, w, lanes);
  return shuffled(
      c, e, 3, in,
      SAY("k / %s & 1 ? %s : %s", w, lane_of(c, e->dtype, "b", at), lane_of(c, e->dtype, "a", at)));
}

const char *anfi_c_lanes_intrin(cgen *c, texpr e, const char *const *in) {
  tdtype d = e->dtype, first = e->in[0]->dtype;
  uint32_t lanes = anfi_t_total(d), from = anfi_t_total(first);
  switch ((tintrin)e->sub) { /* dispatch */
  case TI_reduce_add:
  case TI_reduce_mul:
  case TI_reduce_max:
  case TI_reduce_min: return reduce(c, e, in);
  case TI_shuffle:
    return shuffled(c, e, 2, in, pick(c, first, "a", "b", SAY("%s[k]", table(c, e, 2, 2 * from))));
  case TI_permute:
    return shuffled(c, e, 1, in, lane_of(c, first, "a", SAY("%s[k]", table(c, e, 1, from))));
  case TI_permutexvar:
    return shuffled(c, e, 2, in,
                    lane_of(c, d, "b", SAY("(u64)%s %% %u", lane_of(c, first, "a", "k"), lanes)));
  case TI_permutex2var:
    return shuffled(c, e, 3, in,
                    pick(c, d, "a", "c",
                         SAY("((u64)%s %% %u)", lane_of(c, e->in[1]->dtype, "b", "k"), 2 * lanes)));
  case TI_insert: return insert(c, e, in);
  case TI_extract:
    return shuffled(c, e, 2, in, lane_of(c, first, "a", SAY("((u64)b + (u64)k) %% %u", from)));
  case TI_broadcast:
    if (from == 1) return anfi_c_is_lanes(d) ? SAY("%s(%s)", anfi_c_splat(c, d), in[0]) : in[0];
    return shuffled(c, e, 1, in, lane_of(c, first, "a", SAY("k %% %u", from)));
  default: return unpack(c, e, in);
  }
}
