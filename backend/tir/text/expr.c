// SPDX-License-Identifier: Apache-2.0
/* Parses expressions by precedence climbing.
 *   a + b * c[i]   ->   add(a, mul(b, indexing(c, i)))
 * An operand of a phi may be defined later: it is filled in at the end of the function. */
#include "backend/tir/text/parse.h"

bool anfi_tp_arguments(tparser *p, texprs *v, const char *close) {
  while (!anfi_tp_is(p, close) && p->tok.kind != K_EOF) {
    texpr e = anfi_tp_expr(p, 0);
    if (!e) return false;
    anfi_push(p->a, v, e);
    if (!anfi_tp_accept(p, ",")) break;
  }
  return anfi_tp_expect(p, close);
}

static texpr indexed(tparser *p, texpr base, bool address) {
  texprs idx = {0};
  uint16_t n = 1, rows = 0;
  texpr mask = NULL;
  anfi_loc at = anfi_tp_here(p);
  anfi_tp_next(p);
  while (!anfi_tp_is(p, "]") && !anfi_tp_is(p, "@") && p->tok.kind != K_EOF) {
    texpr e = anfi_tp_expr(p, 0);
    if (!e) return NULL;
    anfi_push(p->a, &idx, e);
    if (!anfi_tp_accept(p, ",")) break;
  }
  if (!anfi_tp_is(p, "]") && !anfi_tp_is(p, "@") && !anfi_tp_is(p, "M"))
    return anfi_tp_unexpected(p, "',' or ']'"), NULL;
  if (anfi_tp_accept(p, "@") && !anfi_tp_tile(p, &n, &rows)) return NULL;
  if (anfi_tp_accept(p, "M") && (!anfi_tp_expect(p, "=") || !(mask = anfi_tp_expr(p, 0))))
    return NULL;
  if (!anfi_tp_expect(p, "]")) return NULL;
  anfi_tp_at(p, at);
  if (address) return anfi_t_addr(p->t, base, (uint32_t)idx.n, idx.at);
  return anfi_t_at(p->t, base, (uint32_t)idx.n, idx.at, n, rows, mask);
}

static texpr intrinsic(tparser *p, tintrin i) {
  texprs args = {0};
  tdtype given = anfi_t_dt(ANF_TIR_void);
  anfi_loc at = anfi_tp_here(p);
  anfi_tp_next(p);
  if (anfi_t_intrins[i].typing == TT_GIVEN &&
      (!anfi_tp_expect(p, "<") || !anfi_tp_type(p, &given) || !anfi_tp_expect(p, ">")))
    return NULL;
  if (!anfi_tp_expect(p, "(") || !anfi_tp_arguments(p, &args, ")")) return NULL;
  tattrs a = anfi_tp_attrs(p);
  if (args.n < anfi_t_intrins[i].lo || args.n > anfi_t_intrins[i].hi) {
    anfi_fail(p->cx, at, ANF_E0809, anfi_t_intrins[i].name, (unsigned)anfi_t_intrins[i].lo,
              (unsigned)args.n);
    return NULL;
  }
  if (i == TI_brgemm || i == TI_list_brgemm)
    while (args.n < anfi_t_intrins[i].hi) anfi_push(p->a, &args, anfi_t_none(p->t));
  anfi_tp_at(p, at);
  return anfi_t_intrin(p->t, i, given, (uint32_t)args.n, args.at, a);
}

static bool parallel_suffix(tparser *p, texprs *tri) {
  anfi_tp_next(p);
  if (!anfi_tp_expect(p, "parallel") || !anfi_tp_expect(p, "(")) return false;
  while (anfi_tp_accept(p, "[")) {
    size_t n = tri->n;
    if (!anfi_tp_arguments(p, tri, "]")) return false;
    if (tri->n != n + 3) return anfi_tp_unexpected(p, "begin, end and step");
    if (!anfi_tp_accept(p, ",")) break;
  }
  return anfi_tp_expect(p, ")");
}

static const char *function_name(void *user, size_t i) {
  tparser *p = (tparser *)user;
  return i < p->t->names.all.n ? anfi_map_find(&p->returns, anfi_key(p->t->names.all.at[i]))
                                     ? p->t->names.all.at[i]->s
                                     : ""
                               : NULL;
}

static texpr call(tparser *p, const anfi_str *name, anfi_loc at) {
  texprs args = {0}, tri = {0};
  anfi_tp_next(p);
  if (!anfi_tp_arguments(p, &args, ")")) return NULL;
  uint64_t *sig = anfi_map_find(&p->returns, anfi_key(name));
  if (!sig) {
    anfi_fail(p->cx, at, ANF_E0810, name->s);
    const char *near = anfi_nearest(name->s, function_name, p);
    if (near && *near) anfi_did_you_mean(p->cx, near);
    return NULL;
  }
  bool parallel = anfi_tp_is(p, "@") && p->p < p->end && *p->p == 'p'; // else attributes
  if (parallel && !parallel_suffix(p, &tri)) return NULL;
  anfi_tp_at(p, at);
  return anfi_t_call_par(p->t, name, p->sigs.at[*sig - 1], (uint32_t)args.n, args.at,
                         (uint32_t)(tri.n / 3), tri.at);
}

/* call(pointer: type, arguments) */
static texpr call_pointer(tparser *p) {
  texprs args = {0};
  tdtype ret;
  anfi_loc at = anfi_tp_here(p);
  anfi_tp_next(p);
  if (!anfi_tp_expect(p, "(")) return NULL;
  texpr fn = anfi_tp_expr(p, 0);
  if (!fn || !anfi_tp_expect(p, ":") || !anfi_tp_type(p, &ret)) return NULL;
  if (!anfi_tp_is(p, ")") && !anfi_tp_expect(p, ",")) return NULL;
  if (!anfi_tp_arguments(p, &args, ")")) return NULL;
  anfi_tp_at(p, at);
  return anfi_t_call_ptr(p->t, fn, ret, (uint32_t)args.n, args.at);
}

/* f32(x), f32*(x), f32x4(1.f, ...), f32!0x7fc00001 */
static texpr typed_expr(tparser *p) {
  tdtype d;
  texprs args = {0};
  anfi_loc at = anfi_tp_here(p);
  if (!anfi_tp_type(p, &d)) return NULL;
  if (anfi_tp_accept(p, "!")) {
    size_t bytes = anfi_t_bytes(d);
    uint64_t bits, most = bytes ? UINT64_MAX >> (64 - bytes * 8) : 0;
    if (!anfi_tp_count(p, most, "the bits in hexadecimal, as many as the type has", &bits))
      return NULL;
    anfi_tp_at(p, at);
    return anfi_t_bits(p->t, d, 1, &bits);
  }
  if (!anfi_tp_expect(p, "(") || !anfi_tp_arguments(p, &args, ")")) return NULL;
  if (args.n > 1) return anfi_tp_lanes(p, d, args.n, args.at, at);
  if (!args.n) return anfi_tp_unexpected(p, "a value to cast"), NULL;
  anfi_tp_at(p, at);
  return anfi_t_cast(p->t, d, args.at[0]);
}

static texpr phi(tparser *p) {
  texprs in = {0};
  ANFI_VEC(later) wait = {0};
  anfi_loc at = anfi_tp_here(p);
  anfi_tp_next(p);
  if (!anfi_tp_expect(p, "(")) return NULL;
  do {
    bool name = p->tok.kind == K_IDENT && !anfi_t_is_keyword(p->tok.s, p->tok.len);
    const anfi_str *s = name ? anfi_intern(&p->t->names, p->tok.s, p->tok.len) : NULL;
    uint64_t *known = s ? anfi_map_find(&p->vars, anfi_key(s)) : NULL;
    texpr e;
    if (name && !(known && *known)) {
      anfi_push(p->a, &wait, ((later){NULL, (uint32_t)in.n, s, anfi_tp_here(p)}));
      e = anfi_t_none(p->t);
      anfi_tp_next(p);
    } else if (!(e = anfi_tp_expr(p, 0))) return NULL;
    anfi_push(p->a, &in, e);
  } while (anfi_tp_accept(p, ","));
  bool loop = anfi_tp_accept(p, "loop");
  if (!anfi_tp_expect(p, ")")) return NULL;
  anfi_tp_at(p, at);
  texpr e = anfi_t_phi(p->t, (uint32_t)in.n, in.at, loop);
  for (size_t i = 0; i < wait.n; i++) {
    wait.at[i].phi = (struct anf_tir_expr_node *)(uintptr_t)e;
    anfi_push(p->a, &p->phis, wait.at[i]);
  }
  return e;
}

bool anfi_tp_fill_phis(tparser *p) {
  bool good = true;
  for (size_t i = 0; i < p->phis.n; i++) {
    later *l = &p->phis.at[i];
    uint64_t *v = anfi_map_find(&p->ever, anfi_key(l->name));
    if (!v) good = anfi_fail(p->cx, l->at, ANF_E0803, l->name->s);
    else l->phi->in[l->operand] = (texpr)(uintptr_t)*v;
  }
  for (size_t i = 0; i < p->phis.n; i++) p->phis.at[i].phi->dtype = p->phis.at[i].phi->in[0]->dtype;
  p->phis.n = 0;
  return good;
}

static texpr address(tparser *p) {
  anfi_tp_next(p);
  anfi_loc at = anfi_tp_here(p);
  const anfi_str *name = anfi_tp_ident(p, "a tensor or function");
  if (!name) return NULL;
  if (!anfi_tp_is(p, "[")) {
    if (!anfi_map_find(&p->returns, anfi_key(name)))
      return anfi_fail(p->cx, at, ANF_E0810, name->s), NULL;
    anfi_tp_at(p, at);
    return anfi_t_func_addr(p->t, name);
  }
  texpr base = anfi_tp_lookup(p, name, at);
  return base ? indexed(p, base, true) : NULL;
}

static texpr named(tparser *p) {
  anfi_loc at = anfi_tp_here(p);
  int in = anfi_t_intrin_of(p->tok.s, p->tok.len);
  if (in >= 0) return intrinsic(p, (tintrin)in);
  const anfi_str *name = anfi_tp_ident(p, "an expression");
  if (!name) return NULL;
  if (anfi_tp_is(p, "(")) return call(p, name, at);
  texpr v = anfi_tp_lookup(p, name, at);
  return v && anfi_tp_is(p, "[") ? indexed(p, v, false) : v;
}

static texpr select(tparser *p) {
  texprs in = {0};
  anfi_loc at = anfi_tp_here(p);
  anfi_tp_next(p);
  if (!anfi_tp_expect(p, "(") || !anfi_tp_arguments(p, &in, ")")) return NULL;
  if (in.n != 3) return anfi_fail(p->cx, at, ANF_E0809, "select", 3u, (unsigned)in.n), NULL;
  anfi_tp_at(p, at);
  return anfi_t_select(p->t, in.at[0], in.at[1], in.at[2]);
}

static texpr primary(tparser *p) {
  if (p->tok.kind == K_NUMBER) return anfi_tp_number(p, false);
  if (anfi_tp_is(p, "(")) return anfi_tp_parenthesised(p);
  if (anfi_tp_is(p, "&")) return address(p);
  if (p->tok.kind != K_IDENT) return anfi_tp_unexpected(p, "an expression"), NULL;
  texpr k = anfi_tp_word(p, false);
  if (k) return k;
  if (anfi_tp_is_type(p)) return typed_expr(p);
  if (anfi_tp_is(p, "select")) return select(p);
  if (anfi_tp_is(p, "call")) return call_pointer(p);
  if (anfi_tp_is(p, "phi")) return phi(p);
  return named(p);
}

static texpr negative(tparser *p) {
  anfi_tp_next(p);
  if (p->tok.kind == K_NUMBER) return anfi_tp_number(p, true);
  texpr e = p->tok.kind == K_IDENT ? anfi_tp_word(p, true) : NULL;
  if (e) return e;
  anfi_tp_unexpected(p, "a number after '-'");
  anfi_hint(p->cx, "write (0 - x) to negate an expression");
  return NULL;
}

texpr anfi_tp_unary(tparser *p) {
  texpr e;
  anfi_tp_deeper(p, "expression");
  if (anfi_tp_is(p, "-")) e = negative(p);
  else if (anfi_tp_is(p, "!")) {
    anfi_loc at = anfi_tp_here(p);
    anfi_tp_next(p);
    e = anfi_tp_unary(p);
    anfi_tp_at(p, at);
    if (e) e = anfi_t_not(p->t, e);
  } else e = primary(p);
  p->depth--;
  return e;
}

static int binary_kind(const tparser *p, int *level) {
  if (p->tok.kind != K_PUNCT) return -1;
  for (int k = TX_add; k <= TX_logic_or; k++) {
    if (!anfi_tp_is(p, anfi_t_kind_text[k])) continue;
    *level = k <= TX_sub ? 4 : k <= TX_mod ? 5 : k <= TX_cmp_ge ? 3 : k == TX_logic_and ? 2 : 1;
    return k;
  }
  return -1;
}

texpr anfi_tp_expr(tparser *p, int level) {
  texpr l = anfi_tp_unary(p);
  int at = 0;
  for (int k; l && (k = binary_kind(p, &at)) >= 0 && at > level;) {
    anfi_loc loc = anfi_tp_here(p);
    anfi_tp_next(p);
    texpr r = anfi_tp_expr(p, at);
    if (!r) return NULL;
    anfi_tp_at(p, loc);
    l = anfi_t_bin(p->t, (tkind)k, l, r);
  }
  return l;
}
