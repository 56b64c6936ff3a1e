// SPDX-License-Identifier: Apache-2.0
/* Tensor IR from text: recursive descent with a bounded depth, precedence climbing in expressions.
 * A first pass reads the signatures alone, so that calls of later functions know their type. After
 * an error the parser goes on at the next line. */
#include "backend/tir/tir.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

typedef enum ttok { K_EOF, K_IDENT, K_NUMBER, K_PUNCT, K_BAD } ttok;

typedef struct token {
  ttok kind;
  const char *s;
  size_t len, digits; // of a number: its part before the suffix
  bool real;          // it has a point or an exponent
  uint32_t line, col;
} token;

typedef struct binding {
  const anfi_str *name;
  texpr was;
} binding;

/* A phi names values that are out of scope, or defined further down: found when the function is
 * read. */
typedef struct later {
  struct anf_tir_expr_node *phi;
  uint32_t operand;
  const anfi_str *name;
  anfi_loc at;
} later;

typedef struct parser {
  anf_ctx *cx;
  tstore *t;
  anfi_arena *a;
  const char *p, *end;
  uint32_t line, col, depth;
  uint32_t last_line; // of the token before
  token tok;
  ANFI_VEC(char) comment;
  anfi_map vars;    // name → texpr
  anfi_map returns; // name → 1 + place in sigs
  ANFI_VEC(tdtype) sigs;
  ANFI_VEC(binding) scope;
  anfi_map ever; // name → what it last meant in the function
  ANFI_VEC(later) phis;
  tmod *m;
} parser;

static texpr expr(parser *p, int level);
static texpr unary(parser *p);

/* ---- tokens ---- */

static bool is_ident(unsigned char c) {
  return c >= 0x80 || c == '_' || c == '.' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9');
}
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static void advance(parser *p, size_t n) {
  for (size_t i = 0; i < n; i++, p->p++) {
    if (*p->p == '\n') p->line++, p->col = 1;
    else if (((unsigned char)*p->p & 0xc0) != 0x80) p->col++; // columns count characters
  }
}

static void skip_comment(parser *p) {
  const char *eol = (const char *)memchr(p->p, '\n', (size_t)(p->end - p->p));
  size_t n = (size_t)((eol ? eol : p->end) - p->p), from = n > 2 && p->p[2] == ' ' ? 3 : 2;
  if (p->comment.n) anfi_push(p->a, &p->comment, '\n');
  for (size_t i = from; i < n; i++) anfi_push(p->a, &p->comment, p->p[i]);
  advance(p, n);
}

static void skip_space(parser *p) {
  for (;;) {
    while (p->p < p->end && strchr(" \t\r\n", *p->p) && *p->p) advance(p, 1);
    if (p->end - p->p < 2 || p->p[0] != '/' || p->p[1] != '/') return;
    skip_comment(p);
  }
}

static void number(parser *p, token *k) {
  const char *s = p->p, *e = p->end;
  if (e - s > 2 && s[0] == '0' && s[1] == 'x' && strchr("0123456789abcdefABCDEF", s[2])) {
    for (s += 2; s < e && *s && strchr("0123456789abcdefABCDEF", *s);) s++;
  } else {
    while (s < e && is_digit(*s)) s++;
    if (s < e && *s == '.') {
      k->real = true;
      for (s++; s < e && is_digit(*s);) s++;
    }
    const char *x = s;
    if (x < e && (*x == 'e' || *x == 'E')) {
      x++;
      if (x < e && (*x == '+' || *x == '-')) x++;
      if (x < e && is_digit(*x)) {
        k->real = true;
        while (x < e && is_digit(*x)) x++;
        s = x;
      }
    }
  }
  k->digits = (size_t)(s - p->p);
  while (s < e && is_ident((unsigned char)*s) && *s != '.') s++;
  k->len = (size_t)(s - p->p);
}

static void next(parser *p) {
  static const char *const two[] = {"==", "!=", "<=", ">=", "&&", "||"};
  p->comment.n = 0;
  p->last_line = p->tok.line;
  skip_space(p);
  token k = {.kind = K_EOF, .s = p->p, .line = p->line, .col = p->col};
  if (p->p < p->end) {
    unsigned char c = (unsigned char)*p->p;
    k.kind = K_PUNCT;
    k.len = 1;
    if (is_digit((char)c)) {
      k.kind = K_NUMBER;
      number(p, &k);
    } else if (is_ident(c) && c != '.') {
      k.kind = K_IDENT;
      while (p->p + k.len < p->end && is_ident((unsigned char)p->p[k.len])) k.len++;
    } else if (!strchr("(){}[]<>=!+-*/%,:&|@", c) || !c) k.kind = K_BAD;
    for (size_t i = 0; i < ANFI_LEN(two) && k.kind == K_PUNCT; i++)
      if (p->end - p->p >= 2 && memcmp(p->p, two[i], 2) == 0) k.len = 2;
  }
  p->tok = k;
  p->t->line = k.line;
  p->t->col = k.col;
  advance(p, k.len);
}

static bool is(const parser *p, const char *s) {
  return p->tok.kind != K_EOF && *p->tok.s == *s && p->tok.len == strlen(s) &&
         memcmp(p->tok.s, s, p->tok.len) == 0;
}
static bool accept(parser *p, const char *s) {
  if (!is(p, s)) return false;
  next(p);
  return true;
}
static anfi_loc here(const parser *p) { return (anfi_loc){p->t->file, p->tok.line, p->tok.col}; }
static const char *tok_text(parser *p) {
  if (p->tok.kind == K_EOF) return "the end";
  return anfi_strndup(p->a, p->tok.s, p->tok.len < 40 ? p->tok.len : 40);
}
static bool unexpected(parser *p, const char *wanted) {
  return anfi_fail(p->cx, here(p), ANF_E0802, wanted, tok_text(p));
}
static bool expect(parser *p, const char *s) {
  return accept(p, s) || unexpected(p, anfi_sprintf(p->a, "'%s'", s));
}
static const anfi_str *take_comment(parser *p) {
  return p->comment.n ? anfi_intern(&p->t->names, p->comment.at, p->comment.n) : NULL;
}

/* ---- names ---- */

static const anfi_str *ident(parser *p, const char *what) {
  if (p->tok.kind != K_IDENT || anfi_t_is_keyword(p->tok.s, p->tok.len)) {
    unexpected(p, what);
    if (p->tok.kind == K_IDENT) anfi_hint(p->cx, "'%s' is a word of the language", tok_text(p));
    return NULL;
  }
  const anfi_str *s = anfi_intern(&p->t->names, p->tok.s, p->tok.len);
  next(p);
  return s;
}

static void declare(parser *p, const anfi_str *name, texpr v) {
  uint64_t *at = anfi_map_at(&p->vars, anfi_key(name));
  binding b = {name, (texpr)(uintptr_t)*at};
  anfi_push(p->a, &p->scope, b);
  *at = anfi_key(v);
  *anfi_map_at(&p->ever, anfi_key(name)) = anfi_key(v);
}
static void leave_to(parser *p, size_t n) {
  while (p->scope.n > n) {
    p->scope.n--;
    *anfi_map_at(&p->vars, anfi_key(p->scope.at[p->scope.n].name)) =
        anfi_key(p->scope.at[p->scope.n].was);
  }
}
static const char *visible(void *user, size_t i) {
  parser *p = (parser *)user;
  return i < p->scope.n ? p->scope.at[i].name->s : NULL;
}
static texpr lookup(parser *p, const anfi_str *name, anfi_loc at) {
  uint64_t *v = anfi_map_find(&p->vars, anfi_key(name));
  if (v && *v) return (texpr)(uintptr_t)*v;
  anfi_fail(p->cx, at, ANF_E0803, name->s);
  const char *near = anfi_nearest(name->s, visible, p);
  if (near) anfi_hint(p->cx, "did you mean '%s'?", near);
  return NULL;
}

/* ---- types ---- */

static bool is_type(const parser *p) {
  tdtype d;
  return p->tok.kind == K_IDENT && anfi_t_dtype_of(p->tok.s, p->tok.len, &d);
}
static bool type(parser *p, tdtype *d) {
  if (p->tok.kind != K_IDENT || !anfi_t_dtype_of(p->tok.s, p->tok.len, d))
    return unexpected(p, "a type such as f32");
  next(p);
  if (accept(p, "*")) d->ptr = 1;
  return true;
}

static texpr dim(parser *p) {
  if (p->tok.kind == K_NUMBER && p->tok.digits == p->tok.len && !p->tok.real) {
    uint64_t v = strtoull(p->tok.s, NULL, 0);
    next(p);
    return anfi_t_index(p->t, v);
  }
  return unary(p);
}

/* "[f32 * 100 * 200 : 200 * 1]", the bracket being at hand */
static texpr tensor_type(parser *p, const char *name) {
  ANFI_VEC(texpr) d = {0};
  tdtype e;
  next(p);
  if (p->tok.kind != K_IDENT || !anfi_t_dtype_of(p->tok.s, p->tok.len, &e))
    return unexpected(p, "a type"), NULL;
  next(p);
  size_t rank = 0;
  while (is(p, "*") || is(p, ":")) {
    if (is(p, ":")) {
      if (rank) return unexpected(p, "']'"), NULL;
      rank = d.n;
    }
    next(p);
    if (!d.n && !e.ptr && (is(p, "*") || is(p, "]"))) {
      e.ptr = 1;
      continue;
    }
    texpr x = dim(p);
    if (!x) return NULL;
    anfi_push(p->a, &d, x);
  }
  if (!expect(p, "]")) return NULL;
  if (!d.n || (rank && d.n != 2 * rank) || e.lanes != 1) {
    anfi_fail(p->cx, here(p), ANF_E0804);
    return NULL;
  }
  return anfi_t_tensor(p->t, (anf_tir_elem)e.elem, e.ptr, name, (uint32_t)(rank ? rank : d.n), d.at,
                       rank ? d.at + rank : NULL);
}

/* ": type" after a name: the variable or tensor */
static texpr typed(parser *p, const anfi_str *name) {
  tdtype d;
  anfi_loc at = here(p);
  if (!expect(p, ":")) return NULL;
  if (is(p, "[")) return tensor_type(p, name->s);
  if (!type(p, &d)) return NULL;
  p->t->line = at.line, p->t->col = at.col;
  return anfi_t_var(p->t, d, name->s);
}

static tattrs attrs(parser *p) {
  tattrs a = {0};
  if (!is(p, "@")) return a;
  next(p);
  if (!expect(p, "[")) return a;
  while (!is(p, "]") && p->tok.kind != K_EOF) {
    int k = p->tok.kind == K_IDENT ? anfi_t_attr_of(p->tok.s, p->tok.len) : -1;
    if (k < 0) {
      anfi_fail(p->cx, here(p), ANF_E0805, tok_text(p));
      while (!is(p, "]") && p->tok.kind != K_EOF) next(p);
      break;
    }
    int64_t v = 1;
    next(p);
    if (accept(p, "=")) {
      bool neg = accept(p, "-");
      if (p->tok.kind != K_NUMBER) return unexpected(p, "a number"), a;
      v = (int64_t)strtoull(p->tok.s, NULL, 0);
      v = neg ? (int64_t)(0 - (uint64_t)v) : v;
      next(p);
    }
    a = anfi_t_attr_set(p->t, a, (tattr_key)k, v);
    if (!accept(p, ",")) break;
  }
  expect(p, "]");
  return a;
}

/* ---- constants ---- */

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

static texpr number_constant(parser *p, bool neg) {
  tdtype d;
  token k = p->tok;
  if (!suffix_type(&k, &d)) {
    anfi_fail(p->cx, here(p), ANF_E0806, tok_text(p));
    anfi_hint(p->cx, "numbers are 1 (s32), 1UL (index), 1.f (f32), or end in a type: 1s64, 0.5f64");
    return NULL;
  }
  const char *digits = anfi_strndup(p->a, k.s, k.digits);
  uint64_t bits;
  bool fits = true;
  if (anfi_t_is_float(d)) {
    double v = d.elem == ANF_TIR_f32 || d.elem == ANF_TIR_f16 || d.elem == ANF_TIR_bf16
                   ? (double)anfi_read_f32(digits, NULL)
                   : anfi_read_f64(digits, NULL);
    if (d.elem == ANF_TIR_f16 || d.elem == ANF_TIR_bf16) v = anfi_read_f64(digits, NULL);
    bits = anfi_t_lane_of_f64(d, neg ? -v : v);
    fits = isfinite(anfi_t_lane_f64(d, bits));
  } else {
    errno = 0;
    uint64_t v = strtoull(digits, NULL, 0);
    unsigned w = (unsigned)anfi_t_bytes(d) * 8;
    uint64_t max =
        anfi_t_class(d) == TC_SINT ? (UINT64_C(1) << (w - 1)) - 1 + neg : UINT64_MAX >> (64 - w);
    fits = v <= max && errno == 0 && !(neg && anfi_t_class(d) == TC_UINT && v);
    bits = anfi_t_lane_of_i64(d, (int64_t)(neg ? 0 - v : v));
  }
  if (!fits) {
    const char *text = anfi_sprintf(p->a, "%s%s", neg ? "-" : "", digits);
    return anfi_fail(p->cx, here(p), ANF_E0807, text, anfi_t_elem_names[d.elem]), NULL;
  }
  next(p);
  return anfi_t_bits(p->t, d, 1, &bits);
}

/* true, false, none, INFINITYf64, NAN; NULL without an error if it is none of these */
static texpr word_constant(parser *p, bool neg) {
  tdtype d = anfi_t_dt(ANF_TIR_f32);
  const token *k = &p->tok;
  if (is(p, "true") || is(p, "false")) {
    texpr e = anfi_t_bool(p->t, is(p, "true"));
    next(p);
    return e;
  }
  if (is(p, "none")) return next(p), anfi_t_none(p->t);
  bool inf = k->len >= 8 && memcmp(k->s, "INFINITY", 8) == 0,
       nan = k->len >= 3 && memcmp(k->s, "NAN", 3) == 0;
  size_t n = inf ? 8 : 3;
  if (k->kind != K_IDENT || (!inf && !nan)) return NULL;
  if (k->len > n && (!anfi_t_dtype_of(k->s + n, k->len - n, &d) || !anfi_t_is_float(d)))
    return NULL;
  uint64_t bits =
      anfi_t_lane_of_f64(d, inf ? neg ? -(double)INFINITY : (double)INFINITY : (double)NAN);
  if (nan) bits &= ~(UINT64_C(1) << (anfi_t_bytes(d) * 8 - 1));
  next(p);
  return anfi_t_bits(p->t, d, 1, &bits);
}

static bool shape_count(parser *p, uint16_t *n) {
  uint64_t v = p->tok.kind == K_NUMBER ? strtoull(p->tok.s, NULL, 10) : 0;
  if (!v || v > UINT16_MAX) return unexpected(p, "a count of lanes (1 to 65535)");
  *n = (uint16_t)v;
  next(p);
  return true;
}

/* Constants of one type become the lanes of one. */
static texpr lanes(parser *p, tdtype d, size_t n, const texpr *in, anfi_loc at) {
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
  texpr v = anfi_t_bits(p->t, d, (uint32_t)n, bits);
  return v;
}

/* After '(' and a first expression: ")", "x 16)", ", b, c)" */
static texpr parenthesised(parser *p) {
  anfi_loc at = here(p);
  next(p);
  texpr first = expr(p, 0);
  if (!first) return NULL;
  if (accept(p, ")")) return first;
  if (is(p, "x")) {
    tdtype d = first->dtype;
    next(p);
    if (!shape_count(p, &d.lanes) || (accept(p, "x") && !shape_count(p, &d.rows)) ||
        !expect(p, ")"))
      return NULL;
    if (!anfi_t_isa(first, TX_constant) || first->u.k.n != 1)
      return anfi_fail(p->cx, at, ANF_E0808), NULL;
    return anfi_t_bits(p->t, d, 1, first->u.k.bits);
  }
  ANFI_VEC(texpr) in = {0};
  anfi_push(p->a, &in, first);
  while (accept(p, ",")) {
    texpr e = expr(p, 0);
    if (!e) return NULL;
    anfi_push(p->a, &in, e);
  }
  if (!expect(p, ")")) return NULL;
  tdtype d = first->dtype;
  if (in.n > UINT16_MAX) return anfi_fail(p->cx, at, ANF_E0808), NULL;
  d.lanes = (uint16_t)in.n;
  return lanes(p, d, in.n, in.at, at);
}

/* "{1.f, 2.f}": initial values of a tensor */
static texpr init_list(parser *p, tdtype d) {
  ANFI_VEC(uint64_t) bits = {0};
  next(p);
  while (!is(p, "}") && p->tok.kind != K_EOF) {
    texpr e = unary(p);
    if (!e) return NULL;
    if (!anfi_t_isa(e, TX_constant) || e->dtype.lanes != 1)
      return anfi_fail(p->cx, here(p), ANF_E0808), NULL;
    anfi_push(p->a, &bits, anfi_t_lane_cast(d, e->dtype, e->u.k.bits[0]));
    if (!accept(p, ",")) break;
  }
  if (!expect(p, "}")) return NULL;
  if (!bits.n || bits.n > UINT32_MAX) return anfi_fail(p->cx, here(p), ANF_E0808), NULL;
  return anfi_t_list(p->t, d, (uint32_t)bits.n, bits.at);
}

/* ---- expressions ---- */

typedef ANFI_VEC(texpr) tvec;

static bool arguments(parser *p, tvec *v, const char *close) {
  while (!is(p, close) && p->tok.kind != K_EOF) {
    texpr e = expr(p, 0);
    if (!e) return false;
    anfi_push(p->a, v, e);
    if (!accept(p, ",")) break;
  }
  return expect(p, close);
}

static texpr indexed(parser *p, texpr base, bool address) {
  tvec idx = {0};
  uint16_t n = 1, rows = 0;
  texpr mask = NULL;
  anfi_loc at = here(p);
  next(p);
  while (!is(p, "]") && !is(p, "@") && p->tok.kind != K_EOF) {
    texpr e = expr(p, 0);
    if (!e) return NULL;
    anfi_push(p->a, &idx, e);
    if (!accept(p, ",")) break;
  }
  if (!is(p, "]") && !is(p, "@") && !is(p, "M")) return unexpected(p, "',' or ']'"), NULL;
  if (accept(p, "@")) {
    const char *x =
        p->tok.kind == K_NUMBER && p->tok.len > p->tok.digits ? p->tok.s + p->tok.digits : NULL;
    if (x && *x == 'x') rows = (uint16_t)strtoul(x + 1, NULL, 10);
    if (!shape_count(p, &n)) return NULL;
  }
  if (accept(p, "M")) {
    if (!expect(p, "=") || !(mask = expr(p, 0))) return NULL;
  }
  if (!expect(p, "]")) return NULL;
  p->t->line = at.line, p->t->col = at.col;
  if (address) return anfi_t_addr(p->t, base, (uint32_t)idx.n, idx.at);
  return anfi_t_at(p->t, base, (uint32_t)idx.n, idx.at, n, rows, mask);
}

static texpr intrinsic(parser *p, tintrin i) {
  tvec args = {0};
  tdtype given = anfi_t_dt(ANF_TIR_void);
  anfi_loc at = here(p);
  next(p);
  if (anfi_t_intrins[i].typing == TT_GIVEN &&
      (!expect(p, "<") || !type(p, &given) || !expect(p, ">")))
    return NULL;
  if (!expect(p, "(") || !arguments(p, &args, ")")) return NULL;
  tattrs a = attrs(p);
  if (args.n < anfi_t_intrins[i].lo || args.n > anfi_t_intrins[i].hi) {
    anfi_fail(p->cx, at, ANF_E0809, anfi_t_intrins[i].name, (unsigned)anfi_t_intrins[i].lo,
              (unsigned)args.n);
    return NULL;
  }
  if (i == TI_brgemm || i == TI_list_brgemm)
    while (args.n < anfi_t_intrins[i].hi) anfi_push(p->a, &args, anfi_t_none(p->t));
  p->t->line = at.line, p->t->col = at.col;
  return anfi_t_intrin(p->t, i, given, (uint32_t)args.n, args.at, a);
}

static bool parallel_suffix(parser *p, tvec *tri) {
  next(p);
  if (!expect(p, "parallel") || !expect(p, "(")) return false;
  while (accept(p, "[")) {
    size_t n = tri->n;
    if (!arguments(p, tri, "]")) return false;
    if (tri->n != n + 3) return unexpected(p, "begin, end and step");
    if (!accept(p, ",")) break;
  }
  return expect(p, ")");
}

static const char *function_name(void *user, size_t i) {
  parser *p = (parser *)user;
  return i < p->t->names.all.n ? anfi_map_find(&p->returns, anfi_key(p->t->names.all.at[i]))
                                     ? p->t->names.all.at[i]->s
                                     : ""
                               : NULL;
}

static texpr call(parser *p, const anfi_str *name, anfi_loc at) {
  tvec args = {0}, tri = {0};
  next(p);
  if (!arguments(p, &args, ")")) return NULL;
  uint64_t *sig = anfi_map_find(&p->returns, anfi_key(name));
  if (!sig) {
    anfi_fail(p->cx, at, ANF_E0810, name->s);
    const char *near = anfi_nearest(name->s, function_name, p);
    if (near && *near) anfi_hint(p->cx, "did you mean '%s'?", near);
    return NULL;
  }
  if (is(p, "@") && p->p < p->end && memcmp(p->p, "par", 3) == 0 && !parallel_suffix(p, &tri))
    return NULL;
  p->t->line = at.line, p->t->col = at.col;
  return anfi_t_call_par(p->t, name, p->sigs.at[*sig - 1], (uint32_t)args.n, args.at,
                         (uint32_t)(tri.n / 3), tri.at);
}

/* call(pointer: type, arguments) */
static texpr call_pointer(parser *p) {
  tvec args = {0};
  tdtype ret;
  next(p);
  if (!expect(p, "(")) return NULL;
  texpr fn = expr(p, 0);
  if (!fn || !expect(p, ":") || !type(p, &ret)) return NULL;
  if (!is(p, ")") && !expect(p, ",")) return NULL;
  if (!arguments(p, &args, ")")) return NULL;
  return anfi_t_call_ptr(p->t, fn, ret, (uint32_t)args.n, args.at);
}

/* f32(x), f32*(x), f32x4(1.f, ...), f32!0x7fc00001 */
static texpr typed_expr(parser *p) {
  tdtype d;
  tvec args = {0};
  anfi_loc at = here(p);
  if (!type(p, &d)) return NULL;
  if (accept(p, "!")) {
    if (p->tok.kind != K_NUMBER) return unexpected(p, "bits in hexadecimal"), NULL;
    uint64_t bits = strtoull(p->tok.s, NULL, 0);
    next(p);
    return anfi_t_bits(p->t, d, 1, &bits);
  }
  if (!expect(p, "(") || !arguments(p, &args, ")")) return NULL;
  if (args.n > 1) return lanes(p, d, args.n, args.at, at);
  if (!args.n) return unexpected(p, "a value to cast"), NULL;
  p->t->line = at.line, p->t->col = at.col;
  return anfi_t_cast(p->t, d, args.at[0]);
}

static texpr phi(parser *p) {
  tvec in = {0};
  ANFI_VEC(later) wait = {0};
  next(p);
  if (!expect(p, "(")) return NULL;
  do {
    bool name = p->tok.kind == K_IDENT && !anfi_t_is_keyword(p->tok.s, p->tok.len);
    const anfi_str *s = name ? anfi_intern(&p->t->names, p->tok.s, p->tok.len) : NULL;
    uint64_t *known = s ? anfi_map_find(&p->vars, anfi_key(s)) : NULL;
    texpr e;
    if (name && !(known && *known)) {
      anfi_push(p->a, &wait, ((later){NULL, (uint32_t)in.n, s, here(p)}));
      e = anfi_t_none(p->t);
      next(p);
    } else if (!(e = expr(p, 0))) return NULL;
    anfi_push(p->a, &in, e);
  } while (accept(p, ","));
  bool loop = accept(p, "loop");
  if (!expect(p, ")")) return NULL;
  texpr e = anfi_t_phi(p->t, (uint32_t)in.n, in.at, loop);
  for (size_t i = 0; i < wait.n; i++) {
    wait.at[i].phi = (struct anf_tir_expr_node *)(uintptr_t)e;
    anfi_push(p->a, &p->phis, wait.at[i]);
  }
  return e;
}

static bool fill_phis(parser *p) {
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

static texpr address(parser *p) {
  next(p);
  anfi_loc at = here(p);
  const anfi_str *name = ident(p, "a tensor or function");
  if (!name) return NULL;
  if (!is(p, "[")) {
    if (!anfi_map_find(&p->returns, anfi_key(name)))
      return anfi_fail(p->cx, at, ANF_E0810, name->s), NULL;
    return anfi_t_func_addr(p->t, name);
  }
  texpr base = lookup(p, name, at);
  return base ? indexed(p, base, true) : NULL;
}

static texpr named(parser *p) {
  anfi_loc at = here(p);
  int in = anfi_t_intrin_of(p->tok.s, p->tok.len);
  if (in >= 0) return intrinsic(p, (tintrin)in);
  const anfi_str *name = ident(p, "an expression");
  if (!name) return NULL;
  if (is(p, "(")) return call(p, name, at);
  texpr v = lookup(p, name, at);
  return v && is(p, "[") ? indexed(p, v, false) : v;
}

static texpr select(parser *p) {
  tvec in = {0};
  next(p);
  if (!expect(p, "(") || !arguments(p, &in, ")")) return NULL;
  if (in.n != 3) return anfi_fail(p->cx, here(p), ANF_E0809, "select", 3u, (unsigned)in.n), NULL;
  return anfi_t_select(p->t, in.at[0], in.at[1], in.at[2]);
}

static texpr primary(parser *p) {
  if (p->tok.kind == K_NUMBER) return number_constant(p, false);
  if (is(p, "(")) return parenthesised(p);
  if (is(p, "&")) return address(p);
  if (p->tok.kind != K_IDENT) return unexpected(p, "an expression"), NULL;
  texpr k = word_constant(p, false);
  if (k) return k;
  if (is_type(p)) return typed_expr(p);
  if (is(p, "select")) return select(p);
  if (is(p, "call")) return call_pointer(p);
  if (is(p, "phi")) return phi(p);
  return named(p);
}

static texpr negative(parser *p) {
  next(p);
  if (p->tok.kind == K_NUMBER) return number_constant(p, true);
  texpr e = p->tok.kind == K_IDENT ? word_constant(p, true) : NULL;
  if (e) return e;
  unexpected(p, "a number after '-'");
  anfi_hint(p->cx, "write (0 - x) to negate an expression");
  return NULL;
}

static texpr unary(parser *p) {
  if (++p->depth > p->t->max_depth) {
    anfi_fail(p->cx, here(p), ANF_E0801, "expression");
    anfi_throw(p->cx);
  }
  texpr e;
  if (is(p, "-")) e = negative(p);
  else if (is(p, "!")) {
    next(p);
    e = unary(p);
    if (e) e = anfi_t_not(p->t, e);
  } else e = primary(p);
  p->depth--;
  return e;
}

static int binary_kind(const parser *p, int *level) {
  if (p->tok.kind != K_PUNCT) return -1;
  for (int k = TX_add; k <= TX_logic_or; k++) {
    if (!is(p, anfi_t_kind_text[k])) continue;
    *level = k <= TX_sub ? 4 : k <= TX_mod ? 5 : k <= TX_cmp_ge ? 3 : k == TX_logic_and ? 2 : 1;
    return k;
  }
  return -1;
}

static texpr expr(parser *p, int level) {
  texpr l = unary(p);
  int at = 0;
  for (int k; l && (k = binary_kind(p, &at)) >= 0 && at > level;) {
    anfi_loc loc = here(p);
    next(p);
    texpr r = expr(p, at);
    if (!r) return NULL;
    p->t->line = loc.line, p->t->col = loc.col;
    l = anfi_t_bin(p->t, (tkind)k, l, r);
  }
  return l;
}

/* ---- statements ---- */

static tstmt stmt(parser *p);

/* Goes on at the next line, or before what closes the scope. `line` is that of the statement. */
static void recover(parser *p, uint32_t line) {
  if (p->tok.line > line && p->last_line < p->tok.line) return; // at the start of a line
  if (p->tok.line > line) line = p->tok.line;
  while (p->tok.kind != K_EOF && p->tok.line == line && !is(p, "}")) next(p);
}

static tstmt scope(parser *p) {
  ANFI_VEC(tstmt) seq = {0};
  size_t mark = p->scope.n;
  if (++p->depth > p->t->max_depth) {
    anfi_fail(p->cx, here(p), ANF_E0801, "statement");
    anfi_throw(p->cx);
  }
  if (!expect(p, "{")) return p->depth--, NULL;
  while (!is(p, "}") && p->tok.kind != K_EOF && anfi_more_errors(p->cx)) {
    const anfi_str *comment = take_comment(p);
    uint32_t line = p->tok.line;
    const char *before = p->tok.s;
    tstmt s = stmt(p);
    if (s) anfi_push(p->a, &seq, comment ? anfi_t_with_comment(p->t, s, comment) : s);
    else {
      recover(p, line);
      if (p->tok.s == before) next(p);
    }
  }
  leave_to(p, mark);
  p->depth--;
  if (!expect(p, "}")) return NULL;
  return anfi_t_stmts(p->t, seq.n, seq.at);
}

static texpr initial(parser *p, texpr v) {
  if (is(p, "{"))
    return init_list(p, v->sub ? anfi_t_ptr(ANF_TIR_void) : anfi_t_dt((anf_tir_elem)v->dtype.elem));
  return expr(p, 0);
}

static tstmt define(parser *p, tlinkage l) {
  bool tensor = is(p, "tensor");
  token at = p->tok;
  next(p);
  const anfi_str *name = ident(p, "a name");
  texpr v = name ? typed(p, name) : NULL, init = NULL;
  if (!v) return NULL;
  if (tensor != (v->kind == TX_tensor)) {
    anfi_fail(p->cx, anfi_t_loc(p->t, at.line, at.col), ANF_E0811, name->s,
              tensor ? "tensor" : "var", tensor ? "[f32 * 10]" : "f32");
    return NULL;
  }
  if (accept(p, "=") && !(init = initial(p, v))) return NULL;
  declare(p, name, v);
  p->t->line = at.line, p->t->col = at.col;
  return anfi_t_define(p->t, l, v, init);
}

static tstmt for_loop(parser *p) {
  tdtype d;
  token at = p->tok;
  next(p);
  const anfi_str *name = ident(p, "a loop variable");
  if (!name) return NULL;
  bool given = accept(p, ":");
  if (given && !type(p, &d)) return NULL;
  tvec in = {0};
  if (!expect(p, "in") || !expect(p, "(") || !arguments(p, &in, ")")) return NULL;
  if (in.n == 2) anfi_push(p->a, &in, anfi_t_int(p->t, in.at[0]->dtype, 1));
  if (in.n != 3) return unexpected(p, "(begin, end, step)"), NULL;
  bool parallel = accept(p, "parallel");
  uint32_t threads = 0;
  if (accept(p, "(")) {
    threads = p->tok.kind == K_NUMBER ? (uint32_t)strtoul(p->tok.s, NULL, 10) : 0;
    next(p);
    if (!expect(p, ")")) return NULL;
  }
  tattrs a = attrs(p);
  texpr v = anfi_t_var(p->t, given ? d : in.at[0]->dtype, name->s);
  size_t mark = p->scope.n;
  declare(p, name, v);
  tstmt body = scope(p);
  leave_to(p, mark);
  if (!body) return NULL;
  p->t->line = at.line, p->t->col = at.col;
  tstmt s = anfi_t_for(p->t, v, in.at[0], in.at[1], in.at[2], body, parallel, threads);
  return a.n ? anfi_t_with_attrs(p->t, s, a) : s;
}

static tstmt branch(parser *p) {
  token at = p->tok;
  next(p);
  texpr c = unary(p);
  if (!c) return NULL;
  tattrs a = attrs(p);
  tstmt then_ = scope(p), else_ = NULL;
  if (!then_) return NULL;
  if (accept(p, "else")) {
    if (is(p, "if")) {
      tstmt inner = branch(p);
      else_ = inner ? anfi_t_stmts(p->t, 1, &inner) : NULL;
    } else else_ = scope(p);
    if (!else_) return NULL;
  }
  p->t->line = at.line, p->t->col = at.col;
  tstmt s = anfi_t_if(p->t, c, then_, else_);
  return a.n ? anfi_t_with_attrs(p->t, s, a) : s;
}

typedef struct spot {
  const char *p;
  uint32_t line, col;
  token tok;
} spot;
static spot mark_spot(const parser *p) { return (spot){p->p, p->line, p->col, p->tok}; }
static void go_to(parser *p, spot s) {
  p->p = s.p;
  p->line = s.line;
  p->col = s.col;
  p->tok = s.tok;
}

/* The body comes first: the condition may use the phis that it begins with. */
static tstmt while_loop(parser *p) {
  token at = p->tok;
  next(p);
  spot condition = mark_spot(p);
  while (!is(p, "{") && !is(p, "}") && p->tok.kind != K_EOF) next(p);
  tstmt body = scope(p);
  if (!body) return NULL;
  spot end = mark_spot(p);
  size_t mark = p->scope.n;
  for (uint32_t i = 0;
       i < body->n && body->s[i]->kind == TS_define && anfi_t_isa(body->s[i]->e[1], TX_ssa_phi);
       i++)
    declare(p, body->s[i]->e[0]->u.name, body->s[i]->e[0]);
  go_to(p, condition);
  texpr c = unary(p);
  tattrs a = attrs(p);
  leave_to(p, mark);
  if (c && !is(p, "{")) unexpected(p, "'{'");
  bool good = c && is(p, "{");
  go_to(p, end);
  if (!good) return NULL;
  p->t->line = at.line, p->t->col = at.col;
  tstmt s = anfi_t_while(p->t, c, body);
  return a.n ? anfi_t_with_attrs(p->t, s, a) : s;
}

static tstmt evaluate(parser *p) {
  token at = p->tok;
  next(p);
  if (!expect(p, "{")) return NULL;
  texpr e = expr(p, 0);
  if (!e || !expect(p, "}")) return NULL;
  p->t->line = at.line, p->t->col = at.col;
  return anfi_t_eval(p->t, e);
}

static tstmt returns(parser *p) {
  token at = p->tok;
  next(p);
  texpr e = NULL;
  bool starts_stmt = is(p, "}") || (p->tok.line > at.line);
  if (!starts_stmt && !(e = expr(p, 0))) return NULL;
  p->t->line = at.line, p->t->col = at.col;
  return anfi_t_return(p->t, e);
}

static tstmt assign_or_call(parser *p) {
  token at = p->tok;
  texpr l = unary(p);
  if (!l) return NULL;
  p->t->line = at.line, p->t->col = at.col;
  if ((l->kind == TX_call || l->kind == TX_intrin_call) && !is(p, "=")) return anfi_t_eval(p->t, l);
  if (!expect(p, "=")) return NULL;
  if (l->kind != TX_var && l->kind != TX_indexing) {
    anfi_fail(p->cx, anfi_t_loc(p->t, at.line, at.col), ANF_E0812);
    return NULL;
  }
  texpr r = expr(p, 0);
  if (!r) return NULL;
  p->t->line = at.line, p->t->col = at.col;
  return anfi_t_assign(p->t, l, r);
}

static tstmt stmt(parser *p) {
  if (is(p, "{")) return scope(p);
  if (is(p, "for")) return for_loop(p);
  if (is(p, "if")) return branch(p);
  if (is(p, "while")) return while_loop(p);
  tstmt s;
  if (is(p, "var") || is(p, "tensor")) s = define(p, TL_local);
  else if (is(p, "evaluate")) s = evaluate(p);
  else if (is(p, "return")) s = returns(p);
  else s = assign_or_call(p);
  if (!s || !is(p, "@")) return s;
  tattrs a = attrs(p);
  return a.n ? anfi_t_with_attrs(p->t, s, a) : s;
}

/* ---- functions and modules ---- */

static bool parameters(parser *p, tvec *v) {
  if (!expect(p, "(")) return false;
  while (!is(p, ")") && p->tok.kind != K_EOF) {
    const anfi_str *name = ident(p, "a parameter");
    texpr e = name ? typed(p, name) : NULL;
    if (!e) return false;
    declare(p, name, e);
    anfi_push(p->a, v, e);
    if (!accept(p, ",")) break;
  }
  return expect(p, ")");
}

static bool function(parser *p) {
  const anfi_str *comment = take_comment(p);
  token at = p->tok;
  tdtype ret;
  tvec params = {0};
  next(p);
  const anfi_str *name = ident(p, "a function name");
  size_t mark = p->scope.n;
  anfi_map_init(&p->ever, p->a);
  if (!name || !parameters(p, &params) || !expect(p, ":") || !type(p, &ret))
    return leave_to(p, mark), false;
  tattrs a = attrs(p);
  bool has_body = is(p, "{");
  tstmt body = has_body ? scope(p) : NULL;
  leave_to(p, mark);
  if (!fill_phis(p) || (has_body && !body)) return false;
  p->t->line = at.line, p->t->col = at.col;
  struct anf_tir_func_node *f = (struct anf_tir_func_node *)(uintptr_t)anfi_t_func(
      p->t, name, ret, (uint32_t)params.n, params.at, body, a);
  f->comment = comment;
  anfi_t_mod_add(p->m, f);
  return true;
}

static bool global(parser *p) {
  const anfi_str *comment = take_comment(p);
  tlinkage l = is(p, "public") ? TL_public : TL_private;
  next(p);
  if (!is(p, "tensor")) {
    unexpected(p, "'tensor'");
    anfi_hint(p->cx, "a global scalar is a tensor of one element");
    return false;
  }
  tstmt s = define(p, l);
  if (!s) return false;
  anfi_push(&p->t->arena, &p->m->global, comment ? anfi_t_with_comment(p->t, s, comment) : s);
  return true;
}

static bool hex_byte(const char *s, uint8_t *out) {
  char two[3] = {s[0], s[1], 0}, *end;
  *out = (uint8_t)strtoul(two, &end, 16);
  return end == two + 2;
}

/* data 16 { 00ff… }: what module_globals_resolver made of the globals */
static bool image(parser *p) {
  next(p);
  uint64_t n = p->tok.kind == K_NUMBER ? strtoull(p->tok.s, NULL, 10) : 0;
  next(p);
  if (!is(p, "{") || n > (uint64_t)(p->end - p->p)) return unexpected(p, "bytes in hexadecimal");
  uint8_t *at = (uint8_t *)anfi_alloc(&p->t->arena, (size_t)n);
  for (uint64_t i = 0; i < n; i++) {
    skip_space(p);
    if (p->end - p->p < 2 || !hex_byte(p->p, &at[i]))
      return next(p), unexpected(p, "bytes in hexadecimal");
    advance(p, 2);
  }
  next(p);
  p->m->image = at;
  p->m->image_size = n;
  return expect(p, "}");
}

/* Return types of all functions, before any body is read. */
static void signatures(parser *p) {
  while (p->tok.kind != K_EOF) {
    bool is_func = is(p, "func");
    next(p);
    if (!is_func || p->tok.kind != K_IDENT) continue;
    const anfi_str *name = anfi_intern(&p->t->names, p->tok.s, p->tok.len);
    next(p);
    int depth = 0;
    do {
      depth += is(p, "(") - is(p, ")");
      next(p);
    } while (depth > 0 && p->tok.kind != K_EOF);
    tdtype d;
    if (!is(p, ":")) continue;
    next(p);
    if (p->tok.kind != K_IDENT || !anfi_t_dtype_of(p->tok.s, p->tok.len, &d)) continue;
    next(p);
    d.ptr = is(p, "*");
    anfi_push(p->a, &p->sigs, d);
    *anfi_map_at(&p->returns, anfi_key(name)) = p->sigs.n;
  }
}

tmod *anfi_t_parse(anf_ctx *cx, const char *text, size_t len, const char *file) {
  tstore *t = anfi_t_store_new(cx);
  parser p = {.cx = cx, .t = t, .p = text, .end = text + len, .line = 1, .col = 1};
  p.m = anfi_t_mod_new(t);
  t->file = anfi_intern_z(&t->names, file ? file : "")->s;
  p.a = anfi_scratch(cx);
  anfi_map_init(&p.vars, p.a);
  anfi_map_init(&p.returns, p.a);
  anfi_map_init(&p.ever, p.a);
  next(&p);
  signatures(&p);
  p.p = text;
  p.line = p.col = 1;
  next(&p);
  while (p.tok.kind != K_EOF && anfi_more_errors(cx)) {
    uint32_t line = p.tok.line;
    bool ok;
    if (is(&p, "func")) ok = function(&p);
    else if (is(&p, "public") || is(&p, "private")) ok = global(&p);
    else if (is(&p, "data")) ok = image(&p);
    else {
      ok = unexpected(&p, "'func', 'public' or 'private'");
      next(&p);
    }
    if (ok) continue;
    recover(&p, line);
    while (p.tok.kind != K_EOF && !is(&p, "func") && !is(&p, "public") && !is(&p, "private"))
      next(&p);
  }
  t->line = t->col = 0;
  return p.m;
}
