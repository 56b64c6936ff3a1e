// SPDX-License-Identifier: Apache-2.0
/* Parser of the elementwise language: precedence climbing over C's operators.
 *   "a * b + 1"   ->   t0 = a * b;  t1 = t0 + 1
 * The texts are rows of op.def, so an error in one is our bug (E0001), and nesting is bounded by ANFI_SCALAR_MAX. */
#include "ir/value/scalar.h"

#include <ctype.h>
#include <stdlib.h>

#define I ANFI_SCALAR_INT
#define R ANFI_SCALAR_REAL
#define C ANFI_SCALAR_COMPLEX
const anfi_scalar_info anfi_scalar_ops[ANFI_S_COUNT] = {
#define ANF_SCALAR(id, text, arity, domain, doc) [ANFI_S_##id] = {text, arity, domain},
#include "ir/value/scalar.def"
#undef ANF_SCALAR
};
#undef I
#undef R
#undef C

typedef struct {
  anf_ctx *cx;
  anfi_opcode op;
  const char *s;
  uint32_t n, depth;
  bool bad;
  anfi_scalar_ins at[ANFI_SCALAR_MAX];
} parser;

/* Levels of infix operators, tightest highest; longer spellings first. */
static const struct {
  const char *text;
  uint8_t level;
  anfi_scalar_op op;
} infix[] = {
    {"<<", 8, ANFI_S_shl},   {">>", 8, ANFI_S_shr},   {"<=", 7, ANFI_S_le},
    {">=", 7, ANFI_S_ge},    {"==", 6, ANFI_S_eq},    {"!=", 6, ANFI_S_ne},
    {"&&", 2, ANFI_S_land},  {"||", 1, ANFI_S_lor},   {"+", 9, ANFI_S_add},
    {"-", 9, ANFI_S_sub},    {"*", 10, ANFI_S_mul},   {"/", 10, ANFI_S_div},
    {"%", 10, ANFI_S_rem},   {"<", 7, ANFI_S_lt},     {">", 7, ANFI_S_gt},
    {"&", 5, ANFI_S_bitand}, {"^", 4, ANFI_S_bitxor}, {"|", 3, ANFI_S_bitor},
};

static uint16_t emit(parser *p, anfi_scalar_op op, const uint16_t *arg, double number) {
  if (p->n == ANFI_SCALAR_MAX) {
    p->bad = true;
    return 0;
  }
  anfi_scalar_ins *i = &p->at[p->n];
  *i = (anfi_scalar_ins){.op = (uint16_t)op, .number = number};
  for (int k = 0; arg && k < 3; k++) i->arg[k] = arg[k];
  return (uint16_t)p->n++;
}

static bool take(parser *p, const char *text) {
  while (*p->s == ' ') p->s++;
  size_t len = strlen(text);
  if (strncmp(p->s, text, len) != 0) return false;
  p->s += len;
  return true;
}

static uint16_t expression(parser *p);

static uint16_t function(parser *p, const char *name, size_t len) {
  for (int op = 0; op < ANFI_S_COUNT; op++) {
    const anfi_scalar_info *f = &anfi_scalar_ops[op];
    if (strlen(f->text) != len || memcmp(f->text, name, len) != 0) continue;
    uint16_t arg[3] = {0};
    for (int k = 0; k < f->arity; k++) {
      if (k && !take(p, ",")) p->bad = true;
      arg[k] = expression(p);
    }
    if (!take(p, ")")) p->bad = true;
    return emit(p, (anfi_scalar_op)op, arg, 0);
  }
  p->bad = true;
  return 0;
}

static uint16_t name(parser *p) {
  const char *s = p->s;
  size_t len = 0;
  while (isalnum((unsigned char)s[len]) || s[len] == '_') len++;
  p->s += len;
  if (take(p, "(")) return function(p, s, len);
  const anfi_schema *sc = anfi_op_schema(p->cx, p->op);
  for (uint16_t k = 0; k < sc->nin; k++)
    if (sc->in[k]->len == len && memcmp(sc->in[k]->s, s, len) == 0)
      return emit(p, ANFI_S_input, (uint16_t[3]){k}, 0);
  for (uint16_t k = 0; k < sc->nattr; k++)
    if (sc->attr[k].name->len == len && memcmp(sc->attr[k].name->s, s, len) == 0)
      return emit(p, ANFI_S_attr, (uint16_t[3]){k}, 0);
  p->bad = true;
  return 0;
}

static uint16_t unary(parser *p) {
  static const anfi_scalar_op prefix[] = {ANFI_S_neg, ANFI_S_lnot, ANFI_S_bitnot};
  for (size_t i = 0; i < ANFI_LEN(prefix); i++)
    if (take(p, anfi_scalar_ops[prefix[i]].text)) {
      uint16_t x = ++p->depth < ANFI_SCALAR_MAX ? unary(p) : 0;
      return emit(p, prefix[i], (uint16_t[3]){x}, 0);
    }
  if (take(p, "(")) {
    uint16_t x = expression(p);
    if (!take(p, ")")) p->bad = true;
    return x;
  }
  if (isdigit((unsigned char)*p->s)) {
    char *end;
    double v = anfi_read_f64(p->s, &end);
    p->s = end;
    return emit(p, ANFI_S_number, NULL, v);
  }
  return name(p);
}

static uint16_t binary(parser *p, int level) {
  uint16_t x = unary(p);
  for (size_t i = 0; i < ANFI_LEN(infix) && !p->bad;) {
    const char *before = p->s;
    if (!take(p, infix[i].text)) {
      i++;
      continue;
    }
    if (infix[i].level < level) {
      p->s = before;
      break;
    }
    uint16_t y = binary(p, infix[i].level + 1);
    x = emit(p, infix[i].op, (uint16_t[3]){x, y}, 0);
    i = 0;
  }
  return x;
}

static uint16_t expression(parser *p) {
  if (p->bad || ++p->depth > ANFI_SCALAR_MAX) {
    p->bad = true;
    return 0;
  }
  uint16_t c = binary(p, 0);
  if (!take(p, "?")) return c;
  uint16_t a = expression(p);
  if (!take(p, ":")) p->bad = true;
  uint16_t b = expression(p);
  return emit(p, ANFI_S_select, (uint16_t[3]){c, a, b}, 0);
}

static anfi_scalar *parse(anf_ctx *cx, anfi_opcode op) {
  parser p = {.cx = cx, .op = op, .s = anfi_op[op].scalar};
  expression(&p);
  if (p.bad || !take(&p, "") || *p.s) {
    anfi_fail(cx, anfi_nowhere(), ANF_E0001, anfi_op[op].scalar);
    return NULL;
  }
  anfi_scalar *c = (anfi_scalar *)anfi_alloc(&cx->arena, sizeof *c + p.n * sizeof *p.at);
  c->n = p.n;
  c->domain = 7;
  for (uint32_t i = 0; i < p.n; i++) c->domain &= anfi_scalar_ops[p.at[i].op].domain;
  memcpy(c->at, p.at, p.n * sizeof *p.at);
  return c;
}

const anfi_scalar *anfi_scalar_of(anf_ctx *cx, anfi_opcode op) {
  if (!cx->scalars) cx->scalars = ANFI_NEW_N(&cx->arena, const anfi_scalar *, ANF_OP_COUNT);
  if (!cx->scalars[op]) cx->scalars[op] = parse(cx, op);
  return cx->scalars[op];
}

unsigned anfi_scalar_domain(anf_dtype d) {
  switch (anfi_dtype_class(d)) {
  case ANFI_CLASS_FLOAT: return ANFI_SCALAR_REAL;
  case ANFI_CLASS_COMPLEX: return ANFI_SCALAR_COMPLEX;
  case ANFI_CLASS_KEY: return 0;
  default: return ANFI_SCALAR_INT;
  }
}

anf_dtype anfi_scalar_dtype(size_t n, const anf_type *const *in, const anf_type *out) {
  anf_dtype result = (anf_dtype)out->dtype, d = n ? (anf_dtype)in[0]->dtype : result;
  bool weak = d == ANF_INT;
  for (size_t i = 1; i < n; i++) {
    anfi_dtype_promote(d, (anf_dtype)in[i]->dtype, &d);
    weak |= in[i]->dtype == ANF_INT;
  }
  if (weak && result == ANF_BOOL && anfi_dtype_is_int(d) && d != ANF_U64) return ANF_I64;
  unsigned have = anfi_scalar_domain(d), want = anfi_scalar_domain(result);
  return want > have ? result : d;
}
