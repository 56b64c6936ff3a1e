// SPDX-License-Identifier: Apache-2.0
/* Types and attributes of MLIR as types and values. A structure becomes one attribute for each of its fields:
 *   array<i64: 8, 1>                              ->  (8, 1)
 *   #stablehlo<comparison_direction LT>           ->  "LT"
 *   #stablehlo.dot<lhs_batching_dimensions = [0]> ->  lhs_batching_dimensions = (0,)
 *   #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]> -> layouts = (("b", 0, "f"), (0, "i", "o"), ("b", 0, "f")) */
#include "frontend/stablehlo/stablehlo.h"

#include <errno.h>
#include <stdlib.h>

/* ---- types ---- */

static const anf_type *unsupported(anfi_sh_text *r, const char *from, const char *why) {
  const char *to = r->at > from + 60 ? from + 60 : r->at;
  anfi_fail(r->m->cx, anfi_sh_loc(r), ANF_E1222,
            anfi_strndup(r->m->arena, from, (size_t)(to - from)), why);
  return NULL;
}

static bool element_named(const anfi_str *s, anf_dtype *out) {
  static const struct {
    const char *name;
    anf_dtype dtype;
  } known[] = {{"f32", ANF_F32},  {"f64", ANF_F64},   {"f16", ANF_F16}, {"bf16", ANF_BF16},
               {"i1", ANF_BOOL},  {"i8", ANF_I8},     {"i16", ANF_I16}, {"i32", ANF_I32},
               {"i64", ANF_I64},  {"index", ANF_I64}, {"ui8", ANF_U8},  {"ui16", ANF_U16},
               {"ui32", ANF_U32}, {"ui64", ANF_U64},  {"si8", ANF_I8},  {"si16", ANF_I16},
               {"si32", ANF_I32}, {"si64", ANF_I64}};
  for (size_t i = 0; s && i < ANFI_LEN(known); i++)
    if (strcmp(s->s, known[i].name) == 0) return *out = known[i].dtype, true;
  return false;
}

static bool element(anfi_sh_text *r, anf_dtype *out) {
  if (!anfi_sh_takes(r, "complex")) return element_named(anfi_sh_word(r), out);
  if (!anfi_sh_takes(r, "<") || !element_named(anfi_sh_word(r), out) || !anfi_sh_takes(r, ">"))
    return false;
  if (*out != ANF_F32 && *out != ANF_F64) return false;
  return *out = *out == ANF_F32 ? ANF_C64 : ANF_C128, true;
}

/* 2x?x: the dims before the element type. */
static bool dims(anfi_sh_text *r, int64_t *out, size_t *n) {
  for (*n = 0;; r->at++) {
    const char *from = r->at;
    int64_t size = 0;
    if (*r->at == '?') size = -1, r->at++;
    while (size >= 0 && *r->at >= '0' && *r->at <= '9') {
      if (size > (INT64_MAX - 9) / 10) return anfi_sh_wants(r, "a size below 2^63");
      size = size * 10 + (*r->at++ - '0');
    }
    if (r->at == from) return true;
    if (*r->at != 'x') return anfi_sh_wants(r, "x after a size");
    if (*n == ANF_MAX_RANK)
      return anfi_fail(r->m->cx, anfi_sh_loc(r), ANF_E0507, "a tensor", "its rank is above 16");
    out[(*n)++] = size;
  }
}

static const anf_type *tensor(anfi_sh_text *r, const char *from) {
  int64_t size[ANF_MAX_RANK];
  size_t n;
  anf_dtype d;
  if (!anfi_sh_expect(r, "<")) return NULL;
  if (anfi_sh_sees(r, "*")) return unsupported(r, from, "the rank is not known");
  if (!dims(r, size, &n)) return NULL;
  if (!element(r, &d)) return unsupported(r, from, "of its element type");
  if (!anfi_sh_takes(r, ">")) return unsupported(r, from, "of its encoding");
  return anfi_type_tensor(r->m->cx, d, n, size);
}

/* A word or !word, and the brackets after it. */
static bool skip_type(anfi_sh_text *r) {
  (void)anfi_sh_takes(r, "!");
  bool word = anfi_sh_word(r) != NULL;
  if (anfi_sh_sees(r, "<") || (!word && anfi_sh_sees(r, "(")))
    return anfi_sh_skip(r) && (!anfi_sh_takes(r, "->") || anfi_sh_sees(r, "(")
                                   ? !anfi_sh_sees(r, "(") || anfi_sh_skip(r)
                                   : skip_type(r));
  return word || anfi_sh_wants(r, "a type");
}

const anf_type *anfi_sh_type(anfi_sh_text *r) {
  anfi_sh_space(r);
  const char *from = r->at;
  if (anfi_sh_takes(r, "tensor")) return tensor(r, from);
  return skip_type(r) ? unsupported(r, from, "it is no tensor") : NULL;
}

/* ---- values ---- */

static anf_value *hold(anfi_sh_text *r, anf_value *v) { return anfi_trace_hold(r->m->t, v); }

static anf_value *none(anfi_sh_text *r) { return hold(r, anfi_value_new_none(r->m->cx)); }

static anf_value *text_value(anfi_sh_text *r, const anfi_str *s) {
  return s ? hold(r, anfi_value_new_string(r->m->cx, s->s, s->len)) : NULL;
}

typedef ANFI_VEC(anf_value *) values;

static anf_value *tuple_of(anfi_sh_text *r, const values *v) {
  anf_value *t = hold(r, anfi_value_new_tuple(r->m->cx, v->n));
  for (size_t i = 0; i < v->n; i++) t->u.item[i] = anf_value_retain(v->at[i]);
  return t;
}

static anf_value *list(anfi_sh_text *r, const char *end) {
  values all = {0};
  while (!anfi_sh_takes(r, end)) {
    if (all.n && !anfi_sh_expect(r, ",")) return NULL;
    anf_value *v = anfi_sh_attr_value(r);
    if (!v) return NULL;
    anfi_push(r->m->arena, &all, v);
  }
  return tuple_of(r, &all);
}

static anf_value *number(anfi_sh_text *r) {
  char *end;
  const char *at = r->at + (*r->at == '-');
  bool real = false;
  for (const char *p = at;
       (*p >= '0' && *p <= '9') || *p == '.' || *p == 'e' || *p == 'E' || *p == '+' || *p == '-';
       p++)
    real |= *p == '.';
  errno = 0;
  double f = anfi_read_f64(r->at, &end);
  int64_t i = 0;
  if (!real) i = strtoll(r->at, &end, at[0] == '0' && at[1] == 'x' ? 16 : 10);
  if (end == r->at || (!real && errno == ERANGE)) return (void)anfi_sh_wants(r, "a number"), NULL;
  r->at = end;
  return hold(r, real ? anfi_value_new_f64(r->m->cx, ANF_F64, f)
                      : anfi_value_new_i64(r->m->cx, ANF_INT, i));
}

static anf_value *truth(anfi_sh_text *r, bool b) {
  return hold(r, anfi_value_new_i64(r->m->cx, ANF_BOOL, b));
}

static anf_value *array(anfi_sh_text *r) {
  if (!anfi_sh_expect(r, "<") || !anfi_sh_word(r))
    return (void)anfi_sh_wants(r, "an element type"), NULL;
  if (anfi_sh_takes(r, ">")) return tuple_of(r, &(values){0});
  return anfi_sh_expect(r, ":") ? list(r, ">") : NULL;
}

/* #stablehlo<comparison_direction LT>, an alias, or another one, which is nothing to us. */
static anf_value *of_dialect(anfi_sh_text *r) {
  const anfi_str *name = anfi_sh_word(r), *last = NULL;
  if (!name) return (void)anfi_sh_wants(r, "the name of an attribute"), NULL;
  if (!anfi_sh_sees(r, "<")) {
    const uint64_t *at = anfi_map_find(&r->m->aliases, anfi_key(name));
    return at ? (anf_value *)(uintptr_t)*at : none(r);
  }
  anfi_sh_text inside = *r;
  inside.at++;
  for (const anfi_str *w; (w = anfi_sh_word(&inside));) last = w;
  bool plain = last && anfi_sh_sees(&inside, ">");
  if (!anfi_sh_skip(r)) return NULL;
  return plain ? text_value(r, last) : none(r);
}

static anf_value *symbol(anfi_sh_text *r) {
  const anfi_str *s = anfi_sh_sees(r, "\"") ? anfi_sh_quoted(r) : anfi_sh_word(r);
  if (!s) anfi_sh_wants(r, "the name of a function");
  while (s && anfi_sh_takes(r, "::@"))
    if (!(s = anfi_sh_word(r))) anfi_sh_wants(r, "a name");
  return text_value(r, s);
}

static anf_value *word(anfi_sh_text *r) {
  if (anfi_sh_takes(r, "true")) return truth(r, true);
  if (anfi_sh_takes(r, "false")) return truth(r, false);
  if (anfi_sh_takes(r, "dense")) return anfi_sh_dense(r);
  if (anfi_sh_takes(r, "array")) return array(r);
  if (anfi_sh_sees(r, "dense_resource"))
    return (void)unsupported(r, r->at, "its elements are in no text"), NULL;
  const anfi_str *w = anfi_sh_word(r);
  if (!w) return (void)anfi_sh_wants(r, "an attribute"), NULL;
  if (anfi_sh_sees(r, "<") || anfi_sh_sees(r, "(")) return anfi_sh_skip(r) ? none(r) : NULL;
  return text_value(r, w);
}

static anf_value *plain_value(anfi_sh_text *r) {
  anfi_sh_space(r);
  char c = *r->at;
  if (c == '"') return text_value(r, anfi_sh_quoted(r));
  if (anfi_sh_takes(r, "[")) return list(r, "]");
  if (c == '{') return anfi_sh_skip(r) ? none(r) : NULL;
  if (anfi_sh_takes(r, "@")) return symbol(r);
  if (anfi_sh_takes(r, "#")) return of_dialect(r);
  if (c == '!' || c == '(') return skip_type(r) ? none(r) : NULL;
  return c == '-' || (c >= '0' && c <= '9') ? number(r) : word(r);
}

anf_value *anfi_sh_attr_value(anfi_sh_text *r) {
  if (r->depth >= ANFI_SH_NESTING)
    return (void)anfi_sh_wants(r, "attributes that do not nest so deeply"), NULL;
  r->depth++;
  anf_value *v = plain_value(r);
  r->depth--;
  if (v && !r->bare && anfi_sh_takes(r, ":") && !skip_type(r)) return NULL;
  return v;
}

void anfi_sh_add(anfi_sh_text *r, anfi_sh_op *op, const char *name, anf_value *v) {
  anfi_push(r->m->arena, &op->attrs, ((anfi_sh_attr){anfi_intern_z(&r->m->cx->strings, name), v}));
}

/* [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1] */
static bool layouts(anfi_sh_text *r, anfi_sh_op *op) {
  static const char *const between[] = {"[", "x[", "->["};
  values all = {0};
  for (size_t i = 0; i < 3; i++) {
    if (!anfi_sh_expect(r, between[i])) return false;
    anf_value *v = list(r, "]");
    if (!v) return false;
    anfi_push(r->m->arena, &all, v);
  }
  return anfi_sh_add(r, op, "layouts", tuple_of(r, &all)), true;
}

static bool attribute(anfi_sh_text *r, anfi_sh_op *op, const char *name) {
  if (strcmp(name, "dim_numbers") == 0) return layouts(r, op);
  if (anfi_sh_takes(r, "#stablehlo.conv"))
    return anfi_sh_expect(r, "<") && layouts(r, op) && anfi_sh_expect(r, ">");
  if (anfi_sh_takes(r, "#stablehlo.dot") || anfi_sh_takes(r, "#stablehlo.gather") ||
      anfi_sh_takes(r, "#stablehlo.scatter"))
    return anfi_sh_expect(r, "<") && anfi_sh_dict(r, ">", op);
  if (strcmp(name, "window") == 0) return anfi_sh_expect(r, "{") && anfi_sh_dict(r, "}", op);
  bool calls =
      strcmp(op->name->s, "stablehlo.custom_call") == 0; // backend_config = {uplo = 76 : ui8}
  bool configures = strcmp(name, "backend_config") == 0 || strcmp(name, "mhlo.backend_config") == 0;
  if (calls && configures && anfi_sh_takes(r, "{")) return anfi_sh_dict(r, "}", op);
  anf_value *v = anfi_sh_attr_value(r);
  if (!v) return false;
  if (!anfi_sh_takes(r, "x")) return anfi_sh_add(r, op, name, v), true;
  anf_value *other = anfi_sh_attr_value(r); // batching_dims = [0] x [0]
  if (!other) return false;
  anfi_sh_add(r, op, anfi_sprintf(r->m->arena, "lhs_%s", name), v);
  anfi_sh_add(r, op, anfi_sprintf(r->m->arena, "rhs_%s", name), other);
  return true;
}

bool anfi_sh_pair(anfi_sh_text *r, anfi_sh_op *op) {
  const anfi_str *name = anfi_sh_sees(r, "\"") ? anfi_sh_quoted(r) : anfi_sh_word(r);
  if (!name) return anfi_sh_wants(r, "the name of an attribute");
  if (anfi_sh_takes(r, "=")) return attribute(r, op, name->s);
  return anfi_sh_add(r, op, name->s, truth(r, true)), true;
}

bool anfi_sh_dict(anfi_sh_text *r, const char *end, anfi_sh_op *op) {
  if (r->depth >= ANFI_SH_NESTING) return anfi_sh_wants(r, "attributes that do not nest so deeply");
  r->depth++;
  for (bool first = true; !anfi_sh_takes(r, end); first = false) {
    if (!first && !anfi_sh_expect(r, ",")) return false;
    if (!anfi_sh_pair(r, op)) return false;
  }
  r->depth--;
  return true;
}
