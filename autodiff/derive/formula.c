// SPDX-License-Identifier: Apache-2.0
/* Formulas of derivatives (derive.h has the notation): parsed once per transform, built as typed nodes.
 *   Mul, .grad = "(Mul dy (Conj b)) (Mul dy (Conj a))"     da = dy * b, db = dy * a for reals
 * Equal subterms are one term, also across the inputs of a row, so they become one node. Formulas are part of
 * the program: a mistake in one is an internal error, E0001. Recursion is as deep as a formula's text. */
#include "autodiff/derive/formula.h"
#include "ir/ops/op.h"

#include <math.h>
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
static const anfi_formula *formula(anfi_ad *ad, anfi_opcode op, const char *text) {
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
  return ad->of_row[op] = formula(ad, op, text);
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

/* ---- building ---- */

/* The value of a term: a node, or a number that takes the type of its neighbours. */
typedef struct {
  anf_node *node;
  double number;
  bool known;
} slot;

typedef struct {
  anfi_derive *q;
  const anfi_formula *f;
  slot *at; // by term
  anf_node *const *nodes;
  anf_value *const *values;
} builder;

static bool eval(builder *b, uint32_t i);

static bool internal(const builder *b, const char *why) {
  anf_ctx *cx = b->q->ad->m->cx;
  return anfi_fail(
      cx, anfi_node_loc(b->q->primal), ANF_E0001,
      anfi_sprintf(anfi_scratch(cx), "derivative of %s: %s", anfi_op[b->q->op].name, why));
}

static bool is_real_number(const anf_value *v) {
  return v->kind == ANF_VALUE_TENSOR && v->type->n == 0 &&
         anfi_dtype_class((anf_dtype)v->type->dtype) < ANFI_CLASS_COMPLEX;
}

static bool eval_attr(builder *b, uint32_t k, slot *s) {
  const anf_value *v = anfi_attr_value(b->q->ad->m->cx, b->q->op, b->q->primal->u.attrs, k);
  if (!v || !is_real_number(v)) return internal(b, "an attribute is no number");
  s->number = anfi_get_f64(v, 0);
  return true;
}

static bool eval_name(builder *b, const anfi_term *t, slot *s) {
  switch (t->kind) {
  case OF_INPUT:
    if (t->index >= b->q->n) return internal(b, "an input is absent");
    s->node = b->q->in[t->index];
    return true;
  case OF_Y: return s->node = b->q->y, true;
  case OF_DY:
    s->node = t->index < b->q->ndy ? b->q->dy[t->index] : NULL;
    return s->node || internal(b, "there is no such place");
  case OF_NODE: return s->node = b->nodes[t->index], s->node != NULL;
  case OF_ATTR: return eval_attr(b, t->index, s);
  default: return s->number = t->number, true;
  }
}

bool anfi_on_numbers(anfi_opcode op, const double *x, double *out) {
  switch (op) {
  case ANF_OP_Add: return *out = x[0] + x[1], true;
  case ANF_OP_Sub: return *out = x[0] - x[1], true;
  case ANF_OP_Mul: return *out = x[0] * x[1], true;
  case ANF_OP_Div: return *out = x[0] / x[1], true;
  case ANF_OP_Neg: return *out = -x[0], true;
  case ANF_OP_Sqrt: return *out = sqrt(x[0]), true;
  default: return false;
  }
}

/* Size of a static shape, or arithmetic on numbers. */
static bool eval_number(builder *b, const anfi_term *t, slot *s) {
  double x[2] = {0, 0};
  size_t n;
  if (t->op == ANF_OP_Size && b->at[t->in[0]].node) {
    const anf_type *type = anfi_ad_type_of(b->q->ad, b->at[t->in[0]].node);
    if (!anfi_type_elements(type, &n)) return false;
    s->number = (double)n;
    return true;
  }
  for (uint32_t i = 0; i < t->n; i++) {
    if (b->at[t->in[i]].node || i == 2) return false;
    x[i] = b->at[t->in[i]].number;
  }
  return t->n && anfi_on_numbers(t->op, x, &s->number);
}

static anf_dtype real_part(anf_dtype d) {
  return d == ANF_C64 ? ANF_F32 : d == ANF_C128 ? ANF_F64 : d;
}

/* The type for numbers among the arguments of t: that of their neighbours, or of dy. */
static anf_dtype number_type(const builder *b, const anfi_term *t) {
  anf_dtype d = ANF_BOOL;
  bool whole = true;
  for (uint32_t i = 0; i < t->n; i++) {
    const slot *s = &b->at[t->in[i]];
    if (s->node) anfi_dtype_promote(d, (anf_dtype)anfi_ad_type_of(b->q->ad, s->node)->dtype, &d);
    else whole &= s->number == floor(s->number);
  }
  if (d != ANF_BOOL && (whole || anfi_dtype_class(d) >= ANFI_CLASS_FLOAT)) return real_part(d);
  for (size_t k = 0; k < b->q->ndy; k++)
    if (b->q->dy[k]) return real_part((anf_dtype)anfi_ad_type_of(b->q->ad, b->q->dy[k])->dtype);
  return ANF_F64;
}

static anf_value *shape_of(const builder *b, uint32_t i) {
  const anf_node *n = b->at[i].node;
  const anf_type *t = n ? anfi_ad_type_of(b->q->ad, n) : NULL;
  size_t ignored;
  if (!t || !anfi_type_elements(t, &ignored)) return NULL;
  anf_value *v = anfi_value_new_ints(b->q->ad->m->cx, t->n, t->dims);
  anfi_value_guard(v);
  return v;
}

/* The value of one attribute; *own says that it must be released. */
static anf_value *attr_value(builder *b, const binding *a, bool *own) {
  anfi_derive *q = b->q;
  *own = false;
  switch (a->kind) {
  case A_VALUE: return a->value;
  case A_ATTR: return anfi_attr_value(q->ad->m->cx, q->op, q->primal->u.attrs, a->index);
  case A_HOOK: return b->values[a->index];
  case A_SHAPE: break;
  }
  *own = true;
  return eval(b, a->index) ? shape_of(b, a->index) : NULL;
}

static bool eval_attrs(builder *b, const anfi_term *t, const anfi_attrs **out) {
  anf_value *v[16] = {NULL};
  bool own[16] = {false}, good = true;
  *out = NULL;
  if (!t->nattr) return true;
  for (uint32_t i = 0; i < t->nattr && good; i++) {
    uint32_t k = t->attr[i].k;
    v[k] = attr_value(b, &t->attr[i], &own[k]);
    if (!v[k]) {
      own[k] = false;
      good = false;
      if (!anfi_failed(b->q->ad->m->cx))
        anfi_derive_refuse(b->q->ad, b->q->primal, 0, ANFI_DERIVATIVE_MISSING);
    }
  }
  good = good && anfi_attrs_new(b->q->ad->m, t->op, v, anfi_node_loc(b->q->primal), out);
  for (uint32_t k = 0; k < ANFI_LEN(v); k++)
    if (own[k]) {
      anfi_value_unguard(v[k]);
      anf_value_release(v[k]);
    }
  return good;
}

/* Arguments as nodes, the repeated ones of an input all; `in` has room for them. */
static size_t arguments(builder *b, const anfi_term *t, anf_node **in) {
  anfi_derive *q = b->q;
  size_t n = 0;
  for (uint32_t i = 0; i < t->n; i++) {
    const anfi_term *a = &b->f->terms.at[t->in[i]];
    const slot *s = &b->at[t->in[i]];
    if (a->many)
      for (size_t k = a->index; k < q->n; k++) in[n++] = q->in[k];
    else in[n++] = s->node ? s->node : anfi_ad_number(q->ad, number_type(b, t), s->number);
  }
  return n;
}

/* The conjugate of a real is itself: most formulas have one. */
static bool is_itself(const builder *b, const anfi_term *t) {
  const anf_node *x = t->op == ANF_OP_Conj ? b->at[t->in[0]].node : NULL;
  const anf_type *type = x ? anfi_ad_type_of(b->q->ad, x) : NULL;
  return type && type->kind == ANF_TYPE_TENSOR &&
         anfi_dtype_class((anf_dtype)type->dtype) == ANFI_CLASS_FLOAT;
}

static bool eval_op(builder *b, const anfi_term *t, slot *s) {
  const anfi_attrs *attrs;
  anf_node *few[16], **in = few;
  for (uint32_t i = 0; i < t->n; i++)
    if (!b->f->terms.at[t->in[i]].many && !eval(b, t->in[i])) return false;
  if (is_itself(b, t)) return s->node = b->at[t->in[0]].node, true;
  if (eval_number(b, t, s)) return true;
  if (t->n + b->q->n > ANFI_LEN(few)) in = ANFI_NEW_N(b->q->ad->arena, anf_node *, t->n + b->q->n);
  size_t n = arguments(b, t, in);
  if (!eval_attrs(b, t, &attrs)) return false;
  s->node = anfi_ad_apply(b->q->ad, b->q->g, t->op, attrs, n, in);
  return s->node != NULL;
}

static bool eval(builder *b, uint32_t i) {
  slot s = {0};
  if (b->at[i].known) return true;
  const anfi_term *t = &b->f->terms.at[i];
  if (!(t->kind == OF_OP ? eval_op(b, t, &s) : eval_name(b, t, &s))) return false;
  s.known = true;
  b->at[i] = s;
  return true;
}

static anf_node *root_node(builder *b, int root) {
  if (!eval(b, (uint32_t)root)) return NULL;
  const slot *s = &b->at[root];
  if (s->node) return s->node;
  return anfi_ad_number(b->q->ad, number_type(b, &(anfi_term){.n = 0}), s->number);
}

enum { SLOTS = 48 };

/* Slots for all terms, `few` if they are enough. */
static slot *slots(anfi_ad *ad, const anfi_formula *f, slot *few) {
  if (f->terms.n > SLOTS) return ANFI_NEW_N(ad->arena, slot, f->terms.n);
  memset(few, 0, f->terms.n * sizeof *few);
  return few;
}

bool anfi_formula_build(anfi_derive *q, const anfi_formula *f) {
  slot few[SLOTS];
  builder b = {.q = q, .f = f, .at = slots(q->ad, f, few)};
  for (size_t i = 0; i < q->n; i++) {
    int root = anfi_formula_root(f, i);
    if (root < 0 || !anfi_derive_wants(q, i)) continue;
    if (!(q->out[i] = root_node(&b, root))) return false;
  }
  return true;
}

anf_node *anfi_derive_build(anfi_derive *q, const char *text, anf_node *const *nodes, size_t nvalue,
                            anf_value *const *values) {
  slot few[SLOTS];
  const anfi_formula *f = formula(q->ad, q->op, text);
  anf_node *out = NULL;
  if (f) {
    builder b = {.q = q, .f = f, .at = slots(q->ad, f, few), .nodes = nodes, .values = values};
    out = root_node(&b, f->roots.at[0]);
  }
  for (size_t i = 0; i < nvalue; i++) {
    anfi_value_unguard(values[i]);
    anf_value_release(values[i]);
  }
  return out;
}
