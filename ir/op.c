// SPDX-License-Identifier: Apache-2.0
/* The op table, and its schemas parsed once for each context (some 100 ns a row).
 *   .in = "x", .attrs = "axis:axes=none keepdims:bool=false"  ->  1 input, 2 attributes with their types and defaults */
#include "ir/ops/op.h"

#include <stdlib.h>

const anfi_op_info anfi_op[ANF_OP_COUNT] = {
#define ANFI_INFER(hook)       .infer = anfi_infer_##hook,
#define ANFI_EVAL(hook)        .eval = anfi_eval_##hook,
#define ANFI_VJP(hook)         .vjp = anfi_vjp_##hook,
#define ANFI_BATCH(hook)       .batch = anfi_batch_##hook,
#define ANF_OP(nm, hooks, ...) [ANF_OP_##nm] = {.name = #nm, hooks __VA_ARGS__},
#include "ir/ops/op.def"
#undef ANF_OP
#undef ANFI_INFER
#undef ANFI_EVAL
#undef ANFI_VJP
#undef ANFI_BATCH
};
const anfi_op_info anfi_no_op = {.name = "a call"};

static const struct {
  const char *name;
  anfi_attr_type type;
} attr_types[] = {
    {"int", ANFI_ATTR_INT}, {"bool", ANFI_ATTR_BOOL}, {"float", ANFI_ATTR_FLOAT},
    {"str", ANFI_ATTR_STR}, {"ints", ANFI_ATTR_INTS}, {"dtype", ANFI_ATTR_DTYPE},
    {"any", ANFI_ATTR_ANY},
};

/* The next word of *s, or length 0 at the end. */
static size_t next_word(const char **s) {
  while (**s == ' ') ++*s;
  return strcspn(*s, " ");
}

static void parse_inputs(anf_ctx *cx, anfi_schema *s, const char *in) {
  size_t n = 1;
  for (const char *p = in; *p; p++) n += *p == ' ';
  s->in = ANFI_NEW_N(&cx->arena, const anfi_str *, n);
  for (size_t len; (len = next_word(&in)) > 0; in += len) {
    char last = in[len - 1];
    bool optional = last == '?', many = last == '*';
    s->in[s->nin++] = anfi_intern(&cx->strings, in, len - (optional || many));
    if (!optional && !many) s->min_in = s->nin;
    s->variadic |= many;
  }
}

static anf_value *parse_default(anf_ctx *cx, anfi_attr_type t, const char *s, size_t len) {
  switch (t) {
  case ANFI_ATTR_BOOL: return anfi_value_new_i64(cx, ANF_BOOL, s[0] == 't');
  case ANFI_ATTR_FLOAT: return anfi_value_new_f64(cx, ANF_FLOAT, anfi_read_f64(s, NULL));
  case ANFI_ATTR_STR: return anfi_value_new_string(cx, s, len);
  case ANFI_ATTR_DTYPE: {
    anf_dtype d = ANF_F32;
    anfi_dtype_parse(s, len, &d);
    return anfi_value_new_type(cx, anfi_type_scalar(cx, d));
  }
  case ANFI_ATTR_INTS:
    if (s[0] == '(') {
      int64_t v[8];
      size_t n = 0;
      for (const char *p = s + 1; *p != ')' && n < ANFI_LEN(v);) {
        char *end;
        v[n++] = strtoll(p, &end, 10);
        p = *end == ',' ? end + 1 : end;
      }
      return anfi_value_new_ints(cx, n, v);
    } // fall through
  default:
    if (s[0] == 'N') return anfi_value_new_none(cx);
    return anfi_value_new_i64(cx, ANF_INT, strtoll(s, NULL, 10));
  }
}

/* name:type, then ?, =default or neither */
static void parse_attr(anf_ctx *cx, anfi_attr_schema *a, const char *s, size_t len) {
  size_t name = strcspn(s, ":"), type = strcspn(s + name + 1, " ?=");
  const char *t = s + name + 1, *rest = t + type;
  a->name = anfi_intern(&cx->strings, s, name);
  for (size_t i = 0; i < ANFI_LEN(attr_types); i++)
    if (strlen(attr_types[i].name) == type && memcmp(attr_types[i].name, t, type) == 0)
      a->type = attr_types[i].type;
  a->optional = rest < s + len && *rest == '?';
  anf_value *v = NULL;
  if (a->optional) v = anfi_value_new_none(cx);
  else if (rest < s + len) v = parse_default(cx, a->type, rest + 1, (size_t)(s + len - rest - 1));
  if (v) a->initial = anfi_value_keep(v);
}

static void parse_attrs(anf_ctx *cx, anfi_schema *s, const char *attrs) {
  const char *p = attrs;
  for (size_t len; (len = next_word(&p)) > 0; p += len) s->nattr++;
  s->attr = ANFI_NEW_N(&cx->arena, anfi_attr_schema, s->nattr);
  s->nattr = 0;
  for (size_t len; (len = next_word(&attrs)) > 0; attrs += len)
    parse_attr(cx, &s->attr[s->nattr++], attrs, len);
}

void anfi_ops_init(anf_ctx *cx) {
  anfi_map_init(&cx->op_by_name, &cx->arena);
  anfi_map_init(&cx->hosts, &cx->arena);
  cx->schemas = ANFI_NEW_N(&cx->arena, anfi_schema, ANF_OP_COUNT);
  for (int i = 0; i < ANF_OP_COUNT; i++) {
    anfi_schema *s = &cx->schemas[i];
    s->name = anfi_intern_z(&cx->strings, anfi_op[i].name);
    *anfi_map_at(&cx->op_by_name, s->name->id) = (uint64_t)i;
    parse_inputs(cx, s, anfi_op[i].in ? anfi_op[i].in : "");
    parse_attrs(cx, s, anfi_op[i].attrs ? anfi_op[i].attrs : "");
  }
}

static void fill_ctx(anf_ctx *cx) {
  anfi_types_init(cx);
  anfi_ops_init(cx);
}

anf_ctx *anf_ctx_new(const anf_ctx_opts *o) { return anfi_ctx_new(o, fill_ctx); }

const anfi_schema *anfi_op_schema(anf_ctx *cx, anfi_opcode op) { return &cx->schemas[op]; }

bool anfi_op_is_comparison(anfi_opcode op) { return anfi_op[op].flags & ANFI_COMPARES; }

bool anfi_op_takes(anf_ctx *cx, anfi_opcode op, size_t n) {
  const anfi_schema *s = anfi_op_schema(cx, op);
  return n >= s->min_in && (s->variadic || n <= s->nin);
}

bool anfi_op_check_count(anf_ctx *cx, anfi_opcode op, size_t n, anfi_loc loc) {
  const char *in = anfi_op[op].in;
  return anfi_op_takes(cx, op, n) ||
         anfi_fail(cx, loc, ANF_E0202, anfi_op[op].name, n, in ? in : "");
}

static size_t without_attrs(const anfi_attrs *at, size_t n) {
  for (uint32_t k = 0; at && k < at->n; k++)
    if (at->at[k] == &anfi_from_node && n) n--;
  return n;
}

/* An attribute that must be given and is not, or NULL. */
static const anfi_attr_schema *missing_attr(const anfi_schema *s, const anfi_attrs *at) {
  for (uint32_t k = 0; k < s->nattr; k++)
    if (!s->attr[k].initial && !(at && at->at[k])) return &s->attr[k];
  return NULL;
}

bool anfi_op_may_be_applied(anf_ctx *cx, anfi_opcode op, const anfi_attrs *at, size_t n) {
  return anfi_op_takes(cx, op, without_attrs(at, n)) && !missing_attr(anfi_op_schema(cx, op), at);
}

bool anfi_op_check_applied(anf_ctx *cx, anfi_opcode op, const anfi_attrs *at, size_t n,
                           anfi_loc loc) {
  const anfi_schema *s = anfi_op_schema(cx, op);
  if (!anfi_op_check_count(cx, op, without_attrs(at, n), loc)) return false;
  const anfi_attr_schema *missing = missing_attr(s, at);
  return !missing || anfi_fail(cx, loc, ANF_E0206, s->name->s, missing->name->s);
}

uint32_t anfi_op_rows(anf_ctx *cx, anfi_opcode op) {
  const anfi_schema *s = anfi_op_schema(cx, op);
  uint32_t mask = 0;
  for (uint32_t i = 0; i < s->nin; i++)
    if (anfi_has_word(anfi_op[op].rows, s->in[i]->s, s->in[i]->len)) mask |= 1u << i;
  return mask;
}

const char *anfi_op_elsewhere(const char *name) {
  size_t len = strlen(name);
  for (size_t i = 0; i < ANF_OP_COUNT; i++) {
    const anfi_op_info *op = &anfi_op[i];
    if (anfi_has_word(op->mindir, name, len) || anfi_has_word(op->onnx, name, len) ||
        anfi_has_word(op->aten, name, len))
      return op->name;
  }
  return NULL;
}

anfi_opcode anfi_op_find(anf_ctx *cx, const char *name, size_t len) {
  const anfi_str *s = anfi_interned(&cx->strings, name, len);
  const uint64_t *at = s ? anfi_map_find(&cx->op_by_name, s->id) : NULL;
  return at ? (anfi_opcode)*at : ANF_OP_NONE;
}

int anfi_attr_index(anf_ctx *cx, anfi_opcode op, const char *name) {
  const anfi_schema *s = &cx->schemas[op];
  for (uint32_t k = 0; k < s->nattr; k++)
    if (strcmp(s->attr[k].name->s, name) == 0) return (int)k;
  return -1;
}

static uint32_t attr_nodes(const anfi_attrs *at) {
  uint32_t c = 0;
  for (uint32_t k = 0; at && k < at->n; k++) c += at->at[k] == &anfi_from_node;
  return c;
}

size_t anfi_arg_count(const anf_node *n) {
  return n->nin - (n->kind == ANFI_APPLY ? attr_nodes(n->u.attrs) : 0);
}

anf_node *anfi_attr_node(const anf_node *n, uint32_t k) {
  const anfi_attrs *at = n->u.attrs;
  if (!at || k >= at->n || at->at[k] != &anfi_from_node) return NULL;
  size_t i = anfi_arg_count(n);
  for (uint32_t j = 0; j < k; j++) i += at->at[j] == &anfi_from_node;
  return n->in[i].def;
}

anf_value *anfi_attr_value(anf_ctx *cx, anfi_opcode op, const anfi_attrs *at, uint32_t k) {
  anf_value *v = at && k < at->n ? at->at[k] : NULL;
  if (v == &anfi_from_node) return NULL;
  return v ? v : cx->schemas[op].attr[k].initial;
}

static bool all_ints(const anf_value *v) {
  int64_t ignored;
  if (v->kind != ANF_VALUE_TUPLE) return anfi_value_is_int(v, &ignored);
  for (size_t i = 0; i < v->n; i++)
    if (!anfi_value_is_int(v->u.item[i], &ignored)) return false;
  return true;
}

static bool fits(const anfi_attr_schema *a, const anf_value *v) {
  int64_t ignored;
  bool scalar = v->kind == ANF_VALUE_TENSOR && v->type->n == 0;
  if (v->kind == ANF_VALUE_NONE) return a->optional || a->type == ANFI_ATTR_ANY;
  switch (a->type) {
  case ANFI_ATTR_INT: return anfi_value_is_int(v, &ignored);
  case ANFI_ATTR_BOOL: return scalar && v->type->dtype == ANF_BOOL;
  case ANFI_ATTR_FLOAT:
    return scalar &&
           (anfi_dtype_is_float((anf_dtype)v->type->dtype) || anfi_value_is_int(v, &ignored));
  case ANFI_ATTR_STR: return v->kind == ANF_VALUE_STRING;
  case ANFI_ATTR_INTS: return all_ints(v);
  case ANFI_ATTR_DTYPE: return v->kind == ANF_VALUE_TYPE && anfi_is_scalar(v->type);
  case ANFI_ATTR_ANY: return true;
  }
  return false;
}

static void put_words(anf_text *o, const char *words) {
  for (const char *s = words ? words : ""; *s;) {
    size_t n = strcspn(s, " ");
    if (o->text[o->len - 1] != '(') anfi_puts(o, ", ");
    anfi_putf(o, "%.*s", (int)n, s);
    s += n + strspn(s + n, " ");
  }
}

bool anfi_hint_call(anf_ctx *cx, anfi_opcode op) {
  anf_text *o = anfi_text_begin(cx);
  anfi_putf(o, "%s(", anfi_op[op].name);
  put_words(o, anfi_op[op].in);
  put_words(o, anfi_op[op].attrs);
  anfi_hint(cx, "it is called as %s)", o->text);
  anfi_text_done(o);
  return false;
}

static const char *word_of_call(void *user, size_t i) {
  const anfi_schema *s = (const anfi_schema *)user;
  if (i < s->nattr) return s->attr[i].name->s;
  return i - s->nattr < s->nin ? s->in[i - s->nattr]->s : NULL;
}

void anfi_attr_unknown(anf_ctx *cx, anfi_opcode op, const char *word, anfi_loc loc) {
  const anfi_schema *s = anfi_op_schema(cx, op);
  anfi_fail(cx, loc, ANF_E0203, s->name->s, word);
  if (!anfi_suggest(cx, word, word_of_call, (void *)(uintptr_t)s)) anfi_hint_call(cx, op);
}

bool anfi_attr_check(anf_ctx *cx, anfi_opcode op, uint32_t k, const anf_value *v, anfi_loc loc) {
  const anfi_attr_schema *a = &cx->schemas[op].attr[k];
  if (fits(a, v)) return true;
  for (size_t i = 0; i < ANFI_LEN(attr_types); i++)
    if (attr_types[i].type == a->type)
      anfi_fail(cx, loc, ANF_E0205, a->name->s, anfi_op[op].name, attr_types[i].name);
  return anfi_hint_call(cx, op);
}

bool anfi_attrs_new(anf_module *m, anfi_opcode op, anf_value *const *values, anfi_loc loc,
                    const anfi_attrs **out) {
  const anfi_schema *s = anfi_op_schema(m->cx, op);
  bool plain = true;
  for (uint32_t k = 0; k < s->nattr; k++) {
    anf_value *v = values[k];
    if (!v && !s->attr[k].initial) {
      anfi_fail(m->cx, loc, ANF_E0206, s->name->s, s->attr[k].name->s);
      return anfi_hint_call(m->cx, op);
    }
    if (v && v != &anfi_from_node && !anfi_attr_check(m->cx, op, k, v, loc)) return false;
    plain &= !v ||
             (s->attr[k].initial && v != &anfi_from_node && anfi_value_same(v, s->attr[k].initial));
  }
  *out = NULL;
  if (plain) return true;
  anfi_attrs *at =
      (anfi_attrs *)anfi_zalloc(&m->arena, sizeof *at + s->nattr * sizeof(anf_value *));
  at->n = s->nattr;
  for (uint32_t k = 0; k < s->nattr; k++) {
    at->at[k] = values[k];
    if (values[k] && values[k] != &anfi_from_node) anfi_hold(m, anf_value_retain(values[k]));
  }
  *out = at;
  return true;
}
