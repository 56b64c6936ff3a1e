// SPDX-License-Identifier: Apache-2.0
/* Types: f32[2, B, ?], f32[...], (i64, f32), {w: f32[3]}, fn(f32) -> f32, none, str, type, any, number. */
#include "frontend/anf/anf.h"

typedef ANFI_VEC(const anf_type *) types;

static bool parse_dim(parser *p, int64_t *out) {
  token t = p->t;
  if (t.kind == T_QUESTION) *out = ANF_DIM_UNKNOWN;
  else if (t.kind == T_NAME) *out = anfi_dim_symbol(p->cx, anfi_word_name(&p->cx->strings, t.word));
  else if (t.kind == T_INT) {
    int64_t v = 0;
    for (uint32_t i = 0; i < t.len; i++) {
      int c = p->lx.text[t.off + i] - '0';
      if (c < 0 || c > 9 || v > (INT64_MAX - c) / 10) {
        anfi_fail(p->cx, anfi_parse_loc(p, &t), ANF_E0121);
        return p->panic = true, false;
      }
      v = v * 10 + c;
    }
    *out = v;
  } else return anfi_parse_fail(p, "a dim: a number, a name or '?'");
  anfi_parse_advance(p);
  return true;
}

/* f32[...] */
static const anf_type *parse_ranks(parser *p, anf_dtype d, const token *open) {
  anfi_parse_advance(p);
  p->inside--;
  return anfi_parse_close(p, T_RBRACK, open) ? anfi_type_pattern(p->cx, ANF_PATTERN_RANKS, d)
                                             : NULL;
}

static const anf_type *parse_tensor(parser *p, anf_dtype d) {
  token name = p->t, open;
  anfi_parse_advance(p);
  if (!anfi_parse_at(p, T_LBRACK) || anfi_parse_line_ends(p)) return anfi_type_scalar(p->cx, d);
  int64_t dims[ANF_MAX_RANK];
  size_t n = 0;
  open = p->t;
  p->inside++;
  anfi_parse_advance(p);
  if (anfi_parse_at(p, T_ELLIPSIS)) return parse_ranks(p, d, &open);
  bool good = true;
  while (good && !anfi_parse_at(p, T_RBRACK)) {
    int64_t dim = 0;
    good = parse_dim(p, &dim);
    if (good && n < ANF_MAX_RANK) dims[n] = dim;
    n++;
    if (!anfi_parse_at(p, T_COMMA)) break;
    anfi_parse_advance(p);
  }
  p->inside--;
  if (!good || !anfi_parse_close(p, T_RBRACK, &open)) return NULL;
  const anf_type *t = n <= ANF_MAX_RANK ? anfi_type_checked(p->cx, d, n, dims) : NULL;
  if (!t) anfi_fail(p->cx, anfi_parse_loc(p, &name), ANF_E0122, (int)ANF_MAX_RANK), p->panic = true;
  return t;
}

/* Types up to the closing bracket, which is taken; `one` tells (T) from (T,). */
static bool parse_list(parser *p, types *ts, const token *open, bool *comma) {
  *comma = false;
  p->inside++;
  while (!anfi_parse_at(p, T_RPAREN)) {
    const anf_type *t = anfi_parse_type_at(p);
    if (!t) return p->inside--, false;
    anfi_push(p->a, ts, t);
    *comma = anfi_parse_at(p, T_COMMA);
    if (!*comma) break;
    anfi_parse_advance(p);
  }
  p->inside--;
  return anfi_parse_close(p, T_RPAREN, open);
}

static const anf_type *parse_tuple(parser *p) {
  token open = p->t;
  types ts = {0};
  bool comma;
  anfi_parse_advance(p);
  if (!parse_list(p, &ts, &open, &comma)) return NULL;
  return ts.n == 1 && !comma ? ts.at[0] : anfi_type_tuple(p->cx, ts.n, ts.at);
}

static const anf_type *parse_fn(parser *p) {
  types ts = {0};
  bool comma;
  anfi_parse_advance(p);
  token open = p->t;
  if (!anfi_parse_expect(p, T_LPAREN, "'('") || !parse_list(p, &ts, &open, &comma)) return NULL;
  if (!anfi_parse_expect(p, T_ARROW, "'->'")) return NULL;
  const anf_type *result = anfi_parse_type_at(p);
  return result ? anfi_type_fn(p->cx, ts.n, ts.at, result) : NULL;
}

static bool parse_field(parser *p, const anfi_str **name, const anf_type **type, anfi_map *seen) {
  if (!anfi_parse_at(p, T_NAME)) return anfi_parse_fail(p, "the name of a field");
  *name = anfi_word_name(&p->cx->strings, p->t.word);
  if (anfi_map_find(seen, (*name)->id)) {
    anfi_fail(p->cx, anfi_parse_loc(p, &p->t), ANF_E0131, (*name)->s);
    return p->panic = true, false;
  }
  anfi_map_at(seen, (*name)->id);
  anfi_parse_advance(p);
  if (!anfi_parse_expect(p, T_COLON, "':'")) return false;
  *type = anfi_parse_type_at(p);
  return *type != NULL;
}

static const anf_type *parse_record(parser *p) {
  token open = p->t;
  types ts = {0};
  ANFI_VEC(const anfi_str *) names = {0};
  anfi_map seen;
  anfi_map_init(&seen, p->a);
  p->inside++;
  anfi_parse_advance(p);
  while (!anfi_parse_at(p, T_RBRACE)) {
    const anfi_str *name = NULL;
    const anf_type *type = NULL;
    if (!parse_field(p, &name, &type, &seen)) return p->inside--, NULL;
    anfi_push(p->a, &names, name);
    anfi_push(p->a, &ts, type);
    if (!anfi_parse_at(p, T_COMMA)) break;
    anfi_parse_advance(p);
  }
  p->inside--;
  return anfi_parse_close(p, T_RBRACE, &open) ? anfi_type_record(p->cx, ts.n, names.at, ts.at)
                                              : NULL;
}

static const anf_type *parse_named(parser *p) {
  static const struct {
    const char *name;
    anf_type_kind kind;
  } simple[] = {{"none", ANF_TYPE_NONE},
                {"str", ANF_TYPE_STRING},
                {"type", ANF_TYPE_TYPE},
                {"box", ANF_TYPE_BOX},
                {"stack", ANF_TYPE_STACK}};
  token t = p->t;
  anf_dtype d;
  anf_pattern pattern;
  if (anfi_word_dtype(t.word, &d)) return parse_tensor(p, d);
  for (size_t i = 0; i < ANFI_LEN(simple); i++)
    if (strcmp(t.word->s, simple[i].name) == 0)
      return anfi_parse_advance(p), anfi_type_simple(p->cx, simple[i].kind);
  if (anfi_pattern_parse(t.word->s, &pattern))
    return anfi_parse_advance(p), anfi_type_pattern(p->cx, pattern, (anf_dtype)0);
  anfi_fail(p->cx, anfi_parse_loc(p, &t), ANF_E0120, t.word->s);
  if (!anfi_hint_habit(p->cx, t.word->s))
    anfi_hint(p->cx, "types are f32, f32[2, B], (i64, f32), {w: f32}, fn(f32) -> f32, "
                     "none, str, type, any; of many types number, tensor, tuple, record, f32[...]");
  p->panic = true;
  return NULL;
}

const anf_type *anfi_parse_type_at(parser *p) {
  const anf_type *t = NULL;
  if (!anfi_parse_enter(p)) return NULL;
  switch (p->t.kind) {
  case T_NAME:
  case W_type: t = parse_named(p); break;
  case T_LPAREN: t = parse_tuple(p); break;
  case T_LBRACE: t = parse_record(p); break;
  case W_fn: t = parse_fn(p); break;
  default: anfi_parse_fail(p, "a type"); break;
  }
  anfi_parse_leave(p);
  return t;
}
