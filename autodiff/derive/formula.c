// SPDX-License-Identifier: Apache-2.0
/* The parser of formulas (derive.h has the notation): each is parsed once per transform.
 *   Mul, .grad = "(Mul dy (Conj b)) (Mul dy (Conj a))"     da = dy * b, db = dy * a for reals
 * Equal subterms are one term, also across the inputs of a row, so they become one node. Formulas are part of
 * the program: a mistake in one is an internal error, E0001. Recursion is as deep as a formula's text. */
#include "autodiff/derive/formula.h"
#include "ir/ops/op.h"

#include <stdlib.h>

/* ---- reading ---- */

typedef struct {
  anfi_ad *ad;
  anfi_opcode op; // whose derivative it is
  const anfi_schema *schema;
  anfi_formula *f;
  const char *whole, *at;
  bool good;
} reader;

static int bad(reader *r, const char *why) {
  if (r->good)
    anfi_fail(r->ad->m->cx, anfi_nowhere(), ANF_E0001,
              anfi_sprintf(r->ad->arena, "derivative of %s: %s at '%.20s'", anfi_op[r->op].name,
                           why, r->at));
  r->good = false;
  return 0;
}

static void skip(reader *r) {
  while (*r->at == ' ') r->at++;
}

static size_t word(const reader *r) { return strcspn(r->at, " ()"); }

static bool is(const char *s, size_t len, const char *what) {
  return strlen(what) == len && memcmp(s, what, len) == 0;
}

static bool digit(char c) { return c >= '0' && c <= '9'; }

/* Length of the parenthesis that opens at s, both parentheses included. */
static size_t enclosed(const char *s) {
  size_t depth = 0, n = 0;
  do {
    depth += s[n] == '(';
    depth -= s[n] == ')';
    n++;
  } while (depth && s[n]);
  return n;
}

static int find_attr(const reader *r, anfi_opcode op, const char *s, size_t len) {
  const anfi_schema *sc = anfi_op_schema(r->ad->m->cx, op);
  for (uint32_t k = 0; k < sc->nattr; k++)
    if (is(s, len, sc->attr[k].name->s)) return (int)k;
  return -1;
}

static anfi_term name_term(reader *r, const char *s, size_t len) {
  const anfi_schema *sc = r->schema;
  anfi_term t = {.kind = OF_INPUT};
  if (is(s, len, "y")) return t.kind = OF_Y, t;
  if (len >= 2 && s[0] == 'd' && s[1] == 'y' && (len == 2 || digit(s[2]))) {
    t.kind = OF_DY;
    t.index = len == 2 ? 0 : (uint32_t)strtoul(s + 2, NULL, 10);
    return t;
  }
  if (s[0] == '@') {
    t.kind = OF_NODE;
    t.index = (uint32_t)strtoul(s + 1, NULL, 10);
    return t;
  }
  if (len > 2 && s[0] == 'i' && s[1] == 'n' && digit(s[2])) {
    t.index = (uint32_t)strtoul(s + 2, NULL, 10);
    return t;
  }
  for (t.index = 0; t.index < sc->nin; t.index++)
    if (is(s, len, sc->in[t.index]->s)) {
      t.many = sc->variadic && t.index + 1 == sc->nin;
      return t;
    }
  int k = find_attr(r, r->op, s, len);
  if (k < 0) bad(r, "nothing has this name");
  t.kind = OF_ATTR;
  t.index = (uint32_t)k;
  return t;
}

static uint32_t read_term(reader *r);

/* A constant attribute: (1,2), 3, true, i64, or a word. */
static anf_value *constant(const reader *r, anfi_attr_type type, const char *s, size_t len) {
  anf_ctx *cx = r->ad->m->cx;
  anf_value *v;
  anf_dtype d;
  if (type == ANFI_ATTR_DTYPE)
    v = anfi_value_new_type(cx, anfi_type_scalar(cx, anfi_dtype_parse(s, len, &d) ? d : ANF_F64));
  else if (type == ANFI_ATTR_BOOL) v = anfi_value_new_i64(cx, ANF_BOOL, s[0] == 't');
  else if (type == ANFI_ATTR_STR) v = anfi_value_new_string(cx, s, len);
  else if (type == ANFI_ATTR_FLOAT) v = anfi_value_new_f64(cx, ANF_FLOAT, anfi_read_f64(s, NULL));
  else if (s[0] == '(') {
    int64_t x[ANF_MAX_RANK];
    size_t n = 0;
    for (const char *p = s + 1; *p != ')' && n < ANFI_LEN(x);) {
      char *end;
      x[n++] = strtoll(p, &end, 10);
      p = *end == ',' ? end + 1 : end;
    }
    v = anfi_value_new_ints(cx, n, x);
  } else v = anfi_value_new_i64(cx, ANF_INT, strtoll(s, NULL, 10));
  anfi_defer(cx, ANFI_ALWAYS, anfi_release, v);
  return v;
}

/* name=value; `r->at` is at the name */
static void read_attr(reader *r, anfi_term *t, size_t name) {
  int k = find_attr(r, t->op, r->at, name), from;
  if (k < 0 || t->nattr == ANFI_LEN(t->attr)) {
    bad(r, "no such attribute");
    return;
  }
  binding b = {.kind = A_VALUE, .k = (uint32_t)k};
  const char *s = r->at += name + 1;
  size_t len = *s == '(' ? enclosed(s) : word(r);
  if (*s == '(' && s[1] >= 'A') { // (Shape x)
    r->at += sizeof "(Shape";
    b.kind = A_SHAPE;
    b.index = read_term(r);
    r->at++;
  } else if (*s == '$') {
    b.kind = A_HOOK;
    b.index = (uint32_t)strtoul(s + 1, NULL, 10);
    r->at += len;
  } else if ((from = find_attr(r, r->op, s, len)) >= 0) {
    b.kind = A_ATTR;
    b.index = (uint32_t)from;
    r->at += len;
  } else {
    b.value = constant(r, anfi_op_schema(r->ad->m->cx, t->op)->attr[k].type, s, len);
    r->at += len;
  }
  t->attr[t->nattr++] = b;
}

static void read_op(reader *r, anfi_term *t) {
  r->at++;
  size_t len = word(r);
  t->kind = OF_OP;
  t->op = anfi_op_find(r->ad->m->cx, r->at, len);
  if (t->op == ANF_OP_NONE) bad(r, "no such op");
  r->at += len;
  for (skip(r); r->good && *r->at && *r->at != ')'; skip(r)) {
    size_t name = strcspn(r->at, " ()=");
    if (name && r->at[name] == '=') read_attr(r, t, name);
    else if (t->n == ANFI_LEN(t->in)) bad(r, "too many arguments");
    else {
      uint32_t in = read_term(r);
      t->in[t->n++] = in;
    }
  }
  if (*r->at != ')') bad(r, "expected )");
  else r->at++;
}

static bool is_number(const char *s) { return digit(*s) || (*s == '-' && digit(s[1])); }

/* The term at r->at, or the older one that is written alike. */
static uint32_t read_term(reader *r) {
  skip(r);
  const char *s = r->at;
  size_t len = *s == '(' ? enclosed(s) : word(r);
  for (uint32_t i = 0; i < r->f->terms.n; i++)
    if (r->f->terms.at[i].len == len && memcmp(r->f->terms.at[i].text, s, len) == 0) {
      r->at += len;
      return i;
    }
  anfi_term t = {.kind = OF_NUMBER};
  if (*s == '(') read_op(r, &t);
  else {
    if (is_number(s)) t.number = anfi_read_f64(s, NULL);
    else t = name_term(r, s, len);
    r->at += len;
  }
  t.text = s;
  t.len = len;
  anfi_push(r->ad->arena, &r->f->terms, t);
  return (uint32_t)r->f->terms.n - 1;
}

static int read_root(reader *r) {
  size_t len = word(r);
  int root = is(r->at, len, "_")     ? ROOT_ZERO
             : is(r->at, len, "!")   ? ROOT_NONE
             : is(r->at, len, "*")   ? ROOT_GRAPH
             : is(r->at, len, "vjp") ? ROOT_HOOK
                                     : 0;
  if (root) r->at += len;
  return root ? root : (int)read_term(r);
}

static anfi_formula *parse(anfi_ad *ad, anfi_opcode op, const char *text) {
  anfi_formula *f = ANFI_NEW(ad->arena, anfi_formula);
  reader r = {.ad = ad, .op = op, .f = f, .whole = text, .at = text, .good = true};
  r.schema = anfi_op_schema(ad->m->cx, op);
  for (skip(&r); r.good && *r.at; skip(&r)) {
    int root = read_root(&r);
    anfi_push(ad->arena, &f->roots, root);
  }
  return r.good ? f : NULL;
}

/* Keyed by text and op: rows may share a literal and name other attributes. */
const anfi_formula *anfi_formula_parse(anfi_ad *ad, anfi_opcode op, const char *text) {
  uint64_t key = anfi_hash_mix(anfi_key(text), op);
  const uint64_t *at = anfi_map_find(&ad->formulas, key);
  if (at) return (const anfi_formula *)(uintptr_t)*at;
  const anfi_formula *f = parse(ad, op, text);
  if (f) *anfi_map_at(&ad->formulas, key) = anfi_key(f);
  return f;
}

const anfi_formula *anfi_formula_of_row(anfi_ad *ad, anfi_opcode op) {
  if (ad->of_row[op]) return ad->of_row[op];
  const char *text = anfi_op[op].grad;
  if (!text) text = anfi_op[op].vjp ? "vjp" : "";
  return ad->of_row[op] = anfi_formula_parse(ad, op, text);
}

int anfi_formula_says(const anfi_formula *f, size_t input) {
  if (!f->roots.n) return ANFI_DERIVATIVE_MISSING;
  switch (anfi_formula_root(f, input)) {
  case ROOT_ZERO: return ANFI_DERIVATIVE_ZERO;
  case ROOT_NONE: return ANFI_DERIVATIVE_NONE;
  case ROOT_GRAPH: return ANFI_DERIVATIVE_GRAPH;
  case ROOT_HOOK: return ANFI_BY_HOOK;
  default: return ANFI_DERIVATIVE;
  }
}
