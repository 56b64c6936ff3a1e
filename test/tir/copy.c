// SPDX-License-Identifier: Apache-2.0
#include "test/tir/copy.h"

#include <stdlib.h>
#include <string.h>

static const char *const attrs[] = {
#define ANF_TIR_ATTR(name, doc) #name,
#include "backend/tir/attr.def"
#undef ANF_TIR_ATTR
};
enum { NATTR = sizeof attrs / sizeof *attrs };

typedef struct copier {
  anf_tir_module *m;
  anf_tir_expr from[4096], to[4096]; // variables and tensors
  size_t n;
} copier;

static anf_tir_expr expr(copier *c, anf_tir_expr e);

static anf_tir_expr mapped(const copier *c, anf_tir_expr e) {
  for (size_t i = c->n; i-- > 0;)
    if (c->from[i] == e) return c->to[i];
  return NULL;
}
static anf_tir_expr map(copier *c, anf_tir_expr from, anf_tir_expr to) {
  if (c->n == sizeof c->from / sizeof *c->from) return NULL;
  c->from[c->n] = from;
  return c->to[c->n++] = to;
}

static size_t children(copier *c, anf_tir_expr e, anf_tir_expr *in) {
  for (size_t i = 0; i < anf_tir_expr_count(e); i++) in[i] = expr(c, anf_tir_expr_at(e, i));
  return anf_tir_expr_count(e);
}

/* Where it is defined. */
static anf_tir_expr definition(copier *c, anf_tir_expr e) {
  anf_tir_dtype t = anf_tir_type(e);
  const char *name = anf_tir_expr_name(e);
  if (anf_tir_isa(e, "var")) return map(c, e, anf_tir_make_var(c->m, t, name));
  anf_tir_expr in[64];
  size_t n = children(c, e, in), rank = anf_tir_expr_rank(e);
  return map(c, e,
             anf_tir_make_tensor_of(c->m, (anf_tir_elem)t.elem, name, rank, in,
                                    n > rank ? in + rank : NULL));
}

/* A constant of lanes has one value or one for each; one of more is the initial value of a tensor. */
static anf_tir_expr constant(copier *c, anf_tir_expr e, bool initial) {
  anf_tir_dtype t = anf_tir_type(e);
  size_t n = anf_tir_const_count(e), width = 0;
  static const uint8_t bytes[] = {
      [ANF_TIR_bool] = 1, [ANF_TIR_s8] = 1,    [ANF_TIR_s16] = 2, [ANF_TIR_s32] = 4,
      [ANF_TIR_s64] = 8,  [ANF_TIR_u8] = 1,    [ANF_TIR_u16] = 2, [ANF_TIR_u32] = 4,
      [ANF_TIR_u64] = 8,  [ANF_TIR_index] = 8, [ANF_TIR_f16] = 2, [ANF_TIR_bf16] = 2,
      [ANF_TIR_f32] = 4,  [ANF_TIR_f64] = 8};
  uint64_t *bits = (uint64_t *)calloc(n + 1, sizeof *bits);
  width = t.elem < sizeof bytes ? bytes[t.elem] : 0;
  for (size_t i = 0; i < n; i++) anf_tir_const_bits(e, i, &bits[i]);
  anf_tir_expr r = NULL;
  if (initial) {
    unsigned char *data = (unsigned char *)calloc(n + 1, 8);
    for (size_t i = 0; i < n; i++) memcpy(data + i * width, &bits[i], width);
    r = width ? anf_tir_make_values(c->m, (anf_tir_elem)t.elem, n, data) : NULL;
    free(data);
  } else r = anf_tir_make_bits(c->m, t, n, bits);
  free(bits);
  return r;
}

static anf_tir_expr call(copier *c, anf_tir_expr e, const anf_tir_expr *in, size_t n) {
  size_t args = anf_tir_expr_rank(e);
  const char *name = anf_tir_expr_name(e);
  anf_tir_dtype t = anf_tir_type(e);
  if (!name) return anf_tir_make_call_ptr(c->m, in[args], t, args, in);
  if (n == args) return anf_tir_make_call(c->m, name, t, args, in);
  return anf_tir_make_parallel_call(c->m, name, args, in, (n - args) / 3, in + args);
}

static anf_tir_expr intrinsic(copier *c, anf_tir_expr e, const anf_tir_expr *in, size_t n) {
  int64_t v;
  anf_tir_expr r = anf_tir_make_intrin(c->m, anf_tir_expr_name(e), anf_tir_type(e), n, in);
  for (size_t i = 0; r && i < NATTR; i++)
    if (anf_tir_expr_attr(e, attrs[i], &v)) r = anf_tir_expr_with_attr(c->m, r, attrs[i], v);
  return r;
}

static anf_tir_expr indexing(copier *c, anf_tir_expr e, const anf_tir_expr *in, size_t n) {
  size_t rank = anf_tir_expr_rank(e);
  anf_tir_expr mask = n > rank + 1 ? in[n - 1] : NULL;
  anf_tir_dtype t = anf_tir_type(e);
  return t.rows ? anf_tir_make_tile(c->m, in[0], rank, in + 1, t.rows, t.lanes, mask)
                : anf_tir_make_indexing(c->m, in[0], rank, in + 1, t.lanes, mask);
}

static anf_tir_expr expr(copier *c, anf_tir_expr e) {
  anf_tir_expr in[256];
  if (anf_tir_isa(e, "var") || anf_tir_isa(e, "tensor")) return mapped(c, e);
  if (anf_tir_isa(e, "constant")) return constant(c, e, false);
  if (anf_tir_isa(e, "func_addr")) return anf_tir_make_func_addr(c->m, anf_tir_expr_name(e));
  size_t n = children(c, e, in);
  if (anf_tir_instanceof(e, "binary") || anf_tir_instanceof(e, "cmp") ||
      anf_tir_instanceof(e, "logic"))
    return anf_tir_make_binary(c->m, anf_tir_expr_kind(e), in[0], in[1]);
  if (anf_tir_isa(e, "cast")) return anf_tir_make_cast(c->m, anf_tir_type(e), in[0]);
  if (anf_tir_isa(e, "logic_not")) return anf_tir_make_not(c->m, in[0]);
  if (anf_tir_isa(e, "select")) return anf_tir_make_select(c->m, in[0], in[1], in[2]);
  if (anf_tir_isa(e, "indexing")) return indexing(c, e, in, n);
  if (anf_tir_isa(e, "tensorptr"))
    return anf_tir_make_tensorptr(c->m, in[0], anf_tir_expr_rank(e), in + 1);
  if (anf_tir_isa(e, "call")) return call(c, e, in, n);
  return anf_tir_isa(e, "intrin_call") ? intrinsic(c, e, in, n) : NULL;
}

static anf_tir_stmt stmt(copier *c, anf_tir_stmt s);

static anf_tir_stmt sequence(copier *c, anf_tir_stmt s) {
  size_t n = anf_tir_stmt_count(s);
  anf_tir_stmt *in = (anf_tir_stmt *)calloc(n + 1, sizeof *in);
  for (size_t i = 0; i < n; i++) in[i] = stmt(c, anf_tir_stmt_at(s, i));
  anf_tir_stmt r = anf_tir_make_stmts_unattached(c->m, n, in);
  free(in);
  return r;
}

static anf_tir_expr initial(copier *c, anf_tir_expr var, anf_tir_expr e) {
  if (!e) return NULL;
  bool list = anf_tir_isa(var, "tensor") && anf_tir_isa(e, "constant");
  return list ? constant(c, e, true) : expr(c, e);
}

static anf_tir_stmt define(copier *c, anf_tir_stmt s) {
  anf_tir_expr var = anf_tir_stmt_expr(s, 0), init = initial(c, var, anf_tir_stmt_expr(s, 1));
  if (anf_tir_stmt_expr(s, 1) && !init) return NULL;
  return anf_tir_make_define_unattached(c->m, definition(c, var), init);
}

static anf_tir_stmt loop(copier *c, anf_tir_stmt s) {
  anf_tir_expr bound[3];
  uint32_t threads;
  bool parallel = anf_tir_is_parallel(s, &threads);
  for (size_t i = 0; i < 3; i++) bound[i] = expr(c, anf_tir_stmt_expr(s, 1 + i));
  anf_tir_expr var = definition(c, anf_tir_stmt_expr(s, 0));
  return anf_tir_make_for_unattached(c->m, var, bound[0], bound[1], bound[2],
                                     stmt(c, anf_tir_stmt_at(s, 0)), parallel, threads);
}

static anf_tir_stmt made(copier *c, anf_tir_stmt s, const char *kind) {
  anf_tir_expr first = anf_tir_stmt_expr(s, 0);
  if (strcmp(kind, "stmts") == 0) return sequence(c, s);
  if (strcmp(kind, "define") == 0) return define(c, s);
  if (strcmp(kind, "for_loop") == 0) return loop(c, s);
  anf_tir_expr e = first ? expr(c, first) : NULL;
  if (strcmp(kind, "assign") == 0)
    return anf_tir_make_assign_unattached(c->m, e, expr(c, anf_tir_stmt_expr(s, 1)));
  if (strcmp(kind, "if_else") == 0) {
    anf_tir_stmt otherwise = anf_tir_stmt_at(s, 1), then_ = stmt(c, anf_tir_stmt_at(s, 0));
    return anf_tir_make_if_else_unattached(c->m, e, then_, otherwise ? stmt(c, otherwise) : NULL);
  }
  if (strcmp(kind, "while_loop") == 0)
    return anf_tir_make_while_unattached(c->m, e, stmt(c, anf_tir_stmt_at(s, 0)));
  if (strcmp(kind, "evaluate") == 0) return anf_tir_make_evaluate_unattached(c->m, e);
  return strcmp(kind, "returns") == 0 ? anf_tir_make_return_unattached(c->m, e) : NULL;
}

static anf_tir_stmt stmt(copier *c, anf_tir_stmt s) {
  int64_t v;
  anf_tir_stmt r = made(c, s, anf_tir_stmt_kind(s));
  for (size_t i = 0; r && i < NATTR; i++)
    if (anf_tir_stmt_attr(s, attrs[i], &v)) r = anf_tir_with_attr(c->m, r, attrs[i], v);
  return r;
}

static bool function(copier *c, anf_tir_func f) {
  int64_t v;
  anf_tir_expr param[256];
  size_t n = anf_tir_func_param_count(f);
  for (size_t i = 0; i < n && i < 256; i++) param[i] = definition(c, anf_tir_func_param(f, i));
  anf_tir_stmt body = anf_tir_func_body(f), copy = body ? stmt(c, body) : NULL;
  if (body && !copy) return false;
  anf_tir_func r =
      anf_tir_make_func(c->m, anf_tir_func_name(f), anf_tir_func_type(f), n, param, copy);
  for (size_t i = 0; r && i < NATTR; i++)
    if (anf_tir_func_attr(f, attrs[i], &v)) r = anf_tir_func_with_attr(c->m, r, attrs[i], v);
  return r && anf_tir_module_add(c->m, r) == ANF_OK;
}

static bool global(copier *c, anf_tir_stmt s) {
  anf_tir_stmt d = define(c, s);
  return d && (anf_tir_is_private(s) ? anf_tir_module_add_private(c->m, d)
                                     : anf_tir_module_add_global(c->m, d)) == ANF_OK;
}

anf_tir_module *tir_copy(anf_ctx *cx, const anf_tir_module *from) {
  copier *c = (copier *)calloc(1, sizeof *c);
  anf_tir_module *m = c->m = anf_tir_module_new(cx);
  bool good = true;
  for (size_t i = 0; i < anf_tir_global_count(from); i++)
    good &= global(c, anf_tir_global_at(from, i));
  for (size_t i = 0; i < anf_tir_func_count(from); i++)
    good &= function(c, anf_tir_func_at(from, i));
  free(c);
  if (good && anf_tir_module_status(m) == ANF_OK) return m;
  anf_tir_module_free(m);
  return NULL;
}
