// SPDX-License-Identifier: Apache-2.0
/* Parses declarations: scopes of names, types, attributes.
 *   x: f32x16   ->   a variable of 16 lanes        x: [f32 * 4 * n]   ->   a tensor of dims 4 and n, dense */
#include "backend/tir/text/parse.h"

/* ---- names ---- */

const anfi_str *anfi_tp_ident(tparser *p, const char *what) {
  if (p->tok.kind != K_IDENT || anfi_t_is_keyword(p->tok.s, p->tok.len)) {
    anfi_tp_unexpected(p, what);
    if (p->tok.kind == K_IDENT)
      anfi_hint(p->cx, "'%s' is a word of the language", anfi_tp_tok_text(p));
    return NULL;
  }
  const anfi_str *s = anfi_intern(&p->t->names, p->tok.s, p->tok.len);
  anfi_tp_next(p);
  return s;
}

void anfi_tp_declare(tparser *p, const anfi_str *name, texpr v) {
  uint64_t *at = anfi_map_at(&p->vars, anfi_key(name));
  binding b = {name, (texpr)(uintptr_t)*at};
  anfi_push(p->a, &p->scope, b);
  *at = anfi_key(v);
  *anfi_map_at(&p->ever, anfi_key(name)) = anfi_key(v);
}
void anfi_tp_leave_to(tparser *p, size_t n) {
  while (p->scope.n > n) {
    p->scope.n--;
    *anfi_map_at(&p->vars, anfi_key(p->scope.at[p->scope.n].name)) =
        anfi_key(p->scope.at[p->scope.n].was);
  }
}
static const char *visible(void *user, size_t i) {
  tparser *p = (tparser *)user;
  return i < p->scope.n ? p->scope.at[i].name->s : NULL;
}
texpr anfi_tp_lookup(tparser *p, const anfi_str *name, anfi_loc at) {
  uint64_t *v = anfi_map_find(&p->vars, anfi_key(name));
  if (v && *v) return (texpr)(uintptr_t)*v;
  anfi_fail(p->cx, at, ANF_E0803, name->s);
  anfi_suggest(p->cx, name->s, visible, p);
  return NULL;
}

/* ---- types ---- */

bool anfi_tp_is_type(const tparser *p) {
  tdtype d;
  return p->tok.kind == K_IDENT && anfi_t_dtype_of(p->tok.s, p->tok.len, &d);
}
bool anfi_tp_type(tparser *p, tdtype *d) {
  if (p->tok.kind != K_IDENT || !anfi_t_dtype_of(p->tok.s, p->tok.len, d))
    return anfi_tp_unexpected(p, "a type such as f32");
  anfi_tp_next(p);
  if (anfi_tp_accept(p, "*")) d->ptr = 1;
  return true;
}

static texpr dim(tparser *p) {
  uint64_t v;
  if (p->tok.kind != K_NUMBER || p->tok.digits != p->tok.len || p->tok.real)
    return anfi_tp_unary(p);
  return anfi_tp_count(p, INT64_MAX, "a size", &v) ? anfi_t_index(p->t, v) : NULL;
}

/* "[f32 * 100 * 200 : 200 * 1]", the bracket being the current token */
static texpr tensor_type(tparser *p, const char *name) {
  ANFI_VEC(texpr) d = {0};
  tdtype e;
  anfi_tp_next(p);
  if (p->tok.kind != K_IDENT || !anfi_t_dtype_of(p->tok.s, p->tok.len, &e))
    return anfi_tp_unexpected(p, "a type"), NULL;
  anfi_tp_next(p);
  size_t rank = 0;
  while (anfi_tp_is(p, "*") || anfi_tp_is(p, ":")) {
    if (anfi_tp_is(p, ":")) {
      if (rank) return anfi_tp_unexpected(p, "']'"), NULL;
      rank = d.n;
    }
    anfi_tp_next(p);
    if (!d.n && !e.ptr && (anfi_tp_is(p, "*") || anfi_tp_is(p, "]"))) {
      e.ptr = 1;
      continue;
    }
    texpr x = dim(p);
    if (!x) return NULL;
    anfi_push(p->a, &d, x);
  }
  if (!anfi_tp_expect(p, "]")) return NULL;
  if (!d.n || (rank && d.n != 2 * rank) || e.lanes != 1) {
    anfi_fail(p->cx, anfi_tp_here(p), ANF_E0804);
    return NULL;
  }
  return anfi_t_tensor(p->t, (anf_tir_elem)e.elem, e.ptr, name, (uint32_t)(rank ? rank : d.n), d.at,
                       rank ? d.at + rank : NULL);
}

texpr anfi_tp_typed(tparser *p, const anfi_str *name) {
  tdtype d;
  anfi_loc at = anfi_tp_here(p);
  if (!anfi_tp_expect(p, ":")) return NULL;
  if (anfi_tp_is(p, "[")) return tensor_type(p, name->s);
  if (!anfi_tp_type(p, &d)) return NULL;
  anfi_tp_at(p, at);
  return anfi_t_var(p->t, d, name->s);
}

tattrs anfi_tp_attrs(tparser *p) {
  tattrs a = {0};
  if (!anfi_tp_is(p, "@")) return a;
  anfi_tp_next(p);
  if (!anfi_tp_expect(p, "[")) return a;
  while (!anfi_tp_is(p, "]") && p->tok.kind != K_EOF) {
    int k = p->tok.kind == K_IDENT ? anfi_t_attr_of(p->tok.s, p->tok.len) : -1;
    if (k < 0) {
      anfi_fail(p->cx, anfi_tp_here(p), ANF_E0805, anfi_tp_tok_text(p));
      while (!anfi_tp_is(p, "]") && p->tok.kind != K_EOF) anfi_tp_next(p);
      break;
    }
    uint64_t v = 1;
    bool neg = false;
    anfi_tp_next(p);
    if (anfi_tp_accept(p, "=")) {
      neg = anfi_tp_accept(p, "-");
      if (!anfi_tp_count(p, INT64_MAX + (uint64_t)neg, "an integer of 64 bits", &v)) return a;
    }
    a = anfi_t_attr_set(p->t, a, (tattr_key)k, (int64_t)(neg ? 0 - v : v));
    if (!anfi_tp_accept(p, ",")) break;
  }
  anfi_tp_expect(p, "]");
  return a;
}
