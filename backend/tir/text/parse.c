// SPDX-License-Identifier: Apache-2.0
/* Tensor IR from text: functions and modules.
 *   func f(x: s32): s32 { return x + 1 }   ->   a function of one parameter whose body is one statement
 * A first pass reads the signatures alone, so that calls of later functions know their type. After an error the parser
 * goes on at the next function. */
#include "backend/tir/text/parse.h"

static bool parameters(tparser *p, texprs *v) {
  if (!anfi_tp_expect(p, "(")) return false;
  while (!anfi_tp_is(p, ")") && p->tok.kind != K_EOF) {
    const anfi_str *name = anfi_tp_ident(p, "a parameter");
    texpr e = name ? anfi_tp_typed(p, name) : NULL;
    if (!e) return false;
    anfi_tp_declare(p, name, e);
    anfi_push(p->a, v, e);
    if (!anfi_tp_accept(p, ",")) break;
  }
  return anfi_tp_expect(p, ")");
}

static bool function(tparser *p) {
  const anfi_str *comment = anfi_tp_take_comment(p);
  anfi_loc at = anfi_tp_here(p);
  tdtype ret;
  texprs params = {0};
  anfi_tp_next(p);
  const anfi_str *name = anfi_tp_ident(p, "a function name");
  size_t mark = p->scope.n;
  anfi_map_init(&p->ever, p->a);
  if (!name || !parameters(p, &params) || !anfi_tp_expect(p, ":") || !anfi_tp_type(p, &ret))
    return anfi_tp_leave_to(p, mark), false;
  tattrs a = anfi_tp_attrs(p);
  bool has_body = anfi_tp_is(p, "{");
  tstmt body = has_body ? anfi_tp_scope(p) : NULL;
  anfi_tp_leave_to(p, mark);
  if (!anfi_tp_fill_phis(p) || (has_body && !body)) return false;
  anfi_tp_at(p, at);
  struct anf_tir_func_node *f = (struct anf_tir_func_node *)(uintptr_t)anfi_t_func(
      p->t, name, ret, (uint32_t)params.n, params.at, body, a);
  f->comment = comment;
  anfi_t_mod_add(p->m, f);
  return true;
}

static bool global(tparser *p) {
  const anfi_str *comment = anfi_tp_take_comment(p);
  tlinkage l = anfi_tp_is(p, "public") ? TL_public : TL_private;
  anfi_tp_next(p);
  if (!anfi_tp_is(p, "tensor")) {
    anfi_tp_unexpected(p, "'tensor'");
    anfi_hint(p->cx, "a global scalar is a tensor of one element");
    return false;
  }
  tstmt s = anfi_tp_define(p, l);
  if (!s) return false;
  anfi_push(&p->t->arena, &p->m->global, comment ? anfi_t_with_comment(p->t, s, comment) : s);
  return true;
}

/* data 16 { 00ff… }: what module_globals_resolver made of the globals */
static bool image(tparser *p) {
  uint64_t n;
  anfi_tp_next(p);
  if (!anfi_tp_count(p, (uint64_t)(p->end - p->p), "a number of bytes", &n)) return false;
  if (!anfi_tp_is(p, "{")) return anfi_tp_unexpected(p, "'{'");
  uint8_t *at = (uint8_t *)anfi_alloc(&p->t->arena, (size_t)n);
  p->m->image = at;
  p->m->image_size = n;
  return anfi_tp_bytes(p, at, n);
}

/* Return types of all functions, before any body is read. */
static void signatures(tparser *p) {
  while (p->tok.kind != K_EOF) {
    bool is_func = anfi_tp_is(p, "func");
    anfi_tp_next(p);
    if (!is_func || p->tok.kind != K_IDENT) continue;
    const anfi_str *name = anfi_intern(&p->t->names, p->tok.s, p->tok.len);
    anfi_tp_next(p);
    int depth = 0;
    do {
      depth += anfi_tp_is(p, "(") - anfi_tp_is(p, ")");
      anfi_tp_next(p);
    } while (depth > 0 && p->tok.kind != K_EOF);
    tdtype d;
    if (!anfi_tp_is(p, ":")) continue;
    anfi_tp_next(p);
    if (p->tok.kind != K_IDENT || !anfi_t_dtype_of(p->tok.s, p->tok.len, &d)) continue;
    anfi_tp_next(p);
    d.ptr = anfi_tp_is(p, "*");
    anfi_push(p->a, &p->sigs, d);
    *anfi_map_at(&p->returns, anfi_key(name)) = p->sigs.n;
  }
}

static bool starts_item(const tparser *p) {
  return anfi_tp_is(p, "func") || anfi_tp_is(p, "public") || anfi_tp_is(p, "private");
}

static bool item(tparser *p) {
  if (anfi_tp_is(p, "func")) return function(p);
  if (anfi_tp_is(p, "public") || anfi_tp_is(p, "private")) return global(p);
  if (anfi_tp_is(p, "data")) return image(p);
  anfi_tp_unexpected(p, "'func', 'public' or 'private'");
  anfi_tp_next(p);
  return false;
}

tmod *anfi_t_parse(anf_ctx *cx, const char *text, size_t len, const char *file) {
  tstore *t = anfi_t_store_new(cx);
  tparser p = {.cx = cx, .t = t, .end = text + len};
  p.m = anfi_t_mod_new(t); // owns the store from here on
  p.a = anfi_scratch(cx);
  t->file = anfi_intern_z(&t->names, file ? file : "")->s;
  anfi_map_init(&p.vars, p.a);
  anfi_map_init(&p.returns, p.a);
  anfi_map_init(&p.ever, p.a);
  anfi_tp_restart(&p, text);
  signatures(&p);
  anfi_tp_restart(&p, text);
  while (p.tok.kind != K_EOF && anfi_more_errors(cx)) {
    uint32_t line = p.tok.line;
    if (item(&p)) continue;
    anfi_tp_recover(&p, line);
    while (p.tok.kind != K_EOF && !starts_item(&p)) anfi_tp_next(&p);
  }
  t->line = t->col = 0;
  return p.m;
}
