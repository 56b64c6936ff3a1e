// SPDX-License-Identifier: Apache-2.0
/* Functions, regions and ops of a module. Both forms of an op become the same structure:
 *   %1 = stablehlo.pad %0, %c, low = [0], high = [2], interior = [1] : (tensor<3xf32>, tensor<f32>) -> tensor<7xf32>
 *   %1 = "stablehlo.pad"(%0, %c) <{edge_padding_low = array<i64: 0>, ..}> : (..) -> tensor<7xf32>
 * The pretty form is read by one grammar for all ops: operands, words and NAME = VALUE up to the colon. */
#include "frontend/stablehlo/stablehlo.h"

#include <stdio.h>
#include <stdlib.h>

/* Names of the pretty form, and those of the specification. */
static const char *generic_name(const anfi_str *op, const char *name) {
  static const struct {
    const char *op, *pretty, *generic;
  } table[] = {{"stablehlo.broadcast_in_dim", "dims", "broadcast_dimensions"},
               {"stablehlo.dynamic_broadcast_in_dim", "dims", "broadcast_dimensions"},
               {"stablehlo.transpose", "dims", "permutation"},
               {"stablehlo.reverse", "dims", "dimensions"},
               {"stablehlo.concatenate", "dim", "dimension"},
               {"stablehlo.iota", "dim", "iota_dimension"},
               {"stablehlo.get_dimension_size", "dim", "dimension"},
               {"stablehlo.pad", "low", "edge_padding_low"},
               {"stablehlo.pad", "high", "edge_padding_high"},
               {"stablehlo.pad", "interior", "interior_padding"},
               {"stablehlo.dynamic_slice", "sizes", "slice_sizes"},
               {"stablehlo.dot_general", "lhs_batching_dims", "lhs_batching_dimensions"},
               {"stablehlo.dot_general", "rhs_batching_dims", "rhs_batching_dimensions"},
               {"stablehlo.dot_general", "lhs_contracting_dims", "lhs_contracting_dimensions"},
               {"stablehlo.dot_general", "rhs_contracting_dims", "rhs_contracting_dimensions"},
               {"stablehlo.dot_general", "precision", "precision_config"},
               {"stablehlo.dot", "precision", "precision_config"},
               {"stablehlo.convolution", "stride", "window_strides"},
               {"stablehlo.convolution", "pad", "padding"},
               {"stablehlo.convolution", "lhs_dilate", "lhs_dilation"},
               {"stablehlo.convolution", "rhs_dilate", "rhs_dilation"},
               {"stablehlo.convolution", "reverse", "window_reversal"},
               {"stablehlo.fft", "type", "fft_type"},
               {"stablehlo.fft", "length", "fft_length"},
               {"stablehlo.rng_bit_generator", "algorithm", "rng_algorithm"}};
  for (size_t i = 0; i < ANFI_LEN(table); i++)
    if (strcmp(op->s, table[i].op) == 0 && strcmp(name, table[i].pretty) == 0)
      return table[i].generic;
  return name;
}

static const anfi_str *intern(anfi_sh_text *r, const char *s) {
  return anfi_intern_z(&r->m->cx->strings, s);
}

static bool region(anfi_sh_text *r, anfi_sh_op *op, anfi_sh_region *g);

/* ---- operands ---- */

static bool operand(anfi_sh_text *r, anfi_sh_op *op) {
  anfi_sh_use u = {.name = anfi_sh_value_name(r)};
  if (!u.name) return false;
  if (*r->at == '#') {
    r->at++;
    for (u.index = 0; *r->at >= '0' && *r->at <= '9' && u.index < 1 << 20; r->at++)
      u.index = u.index * 10 + (uint32_t)(*r->at - '0');
  }
  return anfi_push(r->m->arena, &op->in, u), true;
}

static bool operands(anfi_sh_text *r, anfi_sh_op *op) { // after (
  for (bool first = true; !anfi_sh_takes(r, ")"); first = false) {
    if (!first && !anfi_sh_expect(r, ",")) return false;
    if (!operand(r, op)) return false;
  }
  return true;
}

/* ---- types ---- */

typedef ANFI_VEC(const anf_type *) type_list;

static bool one_type(anfi_sh_text *r, type_list *to) {
  const anf_type *t = anfi_sh_type(r);
  if (t) anfi_push(r->m->arena, to, t);
  return t != NULL;
}

/* A type, or types in parentheses. */
static bool types_in(anfi_sh_text *r, type_list *to) {
  if (!anfi_sh_takes(r, "(")) return one_type(r, to);
  for (bool first = true; !anfi_sh_takes(r, ")"); first = false) {
    if (!first && !anfi_sh_expect(r, ",")) return false;
    if (!one_type(r, to)) return false;
    if (anfi_sh_sees(r, "{") && !anfi_sh_skip(r)) return false;
  }
  return true;
}

static size_t result_count(const anfi_sh_op *op) {
  size_t n = 0;
  for (size_t i = 0; i < op->results.n; i++) n += op->results.at[i].count;
  return n;
}

/* : (A, B) -> C, or : A, B, where the last one, or all, are those of the results. */
static bool op_types(anfi_sh_text *r, anfi_sh_op *op) {
  type_list in = {0}, out = {0};
  size_t n = result_count(op);
  do
    if (!types_in(r, &in)) return false;
  while (anfi_sh_takes(r, ","));
  bool function = anfi_sh_takes(r, "->");
  if (function && !types_in(r, &out)) return false;
  const type_list *from = function ? &out : &in;
  if (from->n < n || (function && from->n != n)) return anfi_sh_wants(r, "a type for each result");
  for (size_t i = from->n - n; i < from->n; i++) anfi_push(r->m->arena, &op->types, from->at[i]);
  return true;
}

/* ---- pretty forms ---- */

/* [0:3, 1:4:2] -> start_indices, limit_indices, strides */
static bool ranges(anfi_sh_text *r, anfi_sh_op *op) {
  static const char *const name[] = {"start_indices", "limit_indices", "strides"};
  ANFI_VEC(int64_t) part[3] = {{0}, {0}, {0}};
  for (bool first = true; !anfi_sh_takes(r, "]"); first = false) {
    if (!first && !anfi_sh_expect(r, ",")) return false;
    for (size_t k = 0; k < 3; k++) {
      int64_t v = 1;
      anfi_sh_space(r);
      if (k < 2 || anfi_sh_sees(r, ":")) {
        if (k && !anfi_sh_expect(r, ":")) return false;
        anfi_sh_space(r);
        char *end;
        v = strtoll(r->at, &end, 10);
        if (end == r->at) return anfi_sh_wants(r, "a number");
        r->at = end;
      }
      anfi_push(r->m->arena, &part[k], v);
    }
  }
  for (size_t k = 0; k < 3; k++)
    anfi_sh_add(r, op, name[k],
                anfi_trace_hold(r->m->t, anfi_value_new_ints(r->m->cx, part[k].n, part[k].at)));
  return true;
}

/* (%a, %b), (%x init: %c), (%iterArg = %c, ..): what an op has in parentheses. */
typedef struct {
  ANFI_VEC(const anfi_str *) carried; // names of a while
  ANFI_VEC(anfi_sh_use) inits;        // of a reduce
  const anfi_str *applies;
  type_list types;
} extras;

static bool bare_pair(anfi_sh_text *r, anfi_sh_op *op) {
  r->bare = true;
  bool good = anfi_sh_pair(r, op);
  r->bare = false;
  return good;
}

static bool group(anfi_sh_text *r, anfi_sh_op *op, extras *e) {
  for (bool first = true; !anfi_sh_takes(r, ")"); first = false) {
    if (!first && !anfi_sh_expect(r, ",")) return false;
    if (!anfi_sh_sees(r, "%")) { // top_k(%x, k = 3)
      if (!bare_pair(r, op)) return false;
      continue;
    }
    if (!operand(r, op)) return false;
    if (anfi_sh_takes(r, "=")) {
      anfi_push(r->m->arena, &e->carried, op->in.at[--op->in.n].name);
      if (!operand(r, op)) return false;
    } else if (anfi_sh_takes(r, "init")) {
      if (!anfi_sh_expect(r, ":") || !operand(r, op)) return false;
      anfi_push(r->m->arena, &e->inits, op->in.at[--op->in.n]);
    } else if (anfi_sh_sees(r, ":")) { // %x : type
      if (!anfi_sh_expect(r, ":") || !one_type(r, &e->types)) return false;
    }
  }
  return true;
}

static bool text_attr(anfi_sh_text *r, anfi_sh_op *op, const char *name, const anfi_str *s) {
  if (!s) return false;
  anfi_sh_add(r, op, name, anfi_trace_hold(r->m->t, anfi_value_new_string(r->m->cx, s->s, s->len)));
  return true;
}

/* e5m10 */
static bool float_format(anfi_sh_text *r, anfi_sh_op *op) {
  unsigned e, m;
  const anfi_str *s = anfi_sh_word(r);
  if (!s || sscanf(s->s, "e%2um%2u", &e, &m) != 2)
    return anfi_sh_wants(r, "a format such as e5m10");
  anfi_sh_add(r, op, "exponent_bits",
              anfi_trace_hold(r->m->t, anfi_value_new_i64(r->m->cx, ANF_INT, (int64_t)e)));
  anfi_sh_add(r, op, "mantissa_bits",
              anfi_trace_hold(r->m->t, anfi_value_new_i64(r->m->cx, ANF_INT, (int64_t)m)));
  return true;
}

/* LT, or NAME = VALUE. */
static bool word(anfi_sh_text *r, anfi_sh_op *op, extras *e) {
  anfi_sh_text name = *r;
  const anfi_str *w = anfi_sh_word(r);
  if (!w) return anfi_sh_wants(r, "an operand, an attribute or the types of an op");
  if (strcmp(w->s, "across") == 0) return true;
  if (strcmp(w->s, "applies") == 0)
    return (e->applies = anfi_sh_word(r)) || anfi_sh_wants(r, "the name of an op");
  if (anfi_sh_takes(r, "=")) {
    if (strcmp(w->s, "format") == 0) return float_format(r, op);
    *r = name;
    size_t had = op->attrs.n;
    bool good = bare_pair(r, op);
    for (size_t i = had; good && i < op->attrs.n; i++)
      op->attrs.at[i].name = intern(r, generic_name(op->name, op->attrs.at[i].name->s));
    return good;
  }
  bool compares = strcmp(op->name->s, "stablehlo.compare") == 0;
  if (!compares) return anfi_sh_wants(&name, "an operand, an attribute or the types of an op");
  const char *as = op->in.n ? "compare_type" : "comparison_direction";
  return text_attr(r, op, as, w);
}

static bool part(anfi_sh_text *r, anfi_sh_op *op, extras *e) {
  anf_value *v;
  if (anfi_sh_sees(r, "%")) return operand(r, op);
  if (anfi_sh_takes(r, "(")) return group(r, op, e);
  if (anfi_sh_takes(r, "<{")) return anfi_sh_dict(r, "}", op) && anfi_sh_expect(r, ">");
  if (anfi_sh_takes(r, "{")) return anfi_sh_dict(r, "}", op);
  if (anfi_sh_takes(r, "[")) return ranges(r, op);
  if (anfi_sh_takes(r, "@")) {
    op->symbol = anfi_sh_sees(r, "\"") ? anfi_sh_quoted(r) : anfi_sh_word(r);
    return op->symbol || anfi_sh_wants(r, "a name");
  }
  if (anfi_sh_sees(r, "\"")) return text_attr(r, op, "name", anfi_sh_quoted(r));
  if (!anfi_sh_sees(r, "dense")) return word(r, op, e);
  anfi_sh_text type = *r; // that of the constant is that of the op
  v = anfi_sh_attr_value(r);
  if (!v || !anfi_sh_expect(&type, "dense") || !anfi_sh_skip(&type)) return false;
  *r = type;
  anfi_sh_add(r, op, "value", v);
  return true;
}

/* The body of a reduce that says which op it applies. */
static bool applied(anfi_sh_text *r, anfi_sh_op *op, const extras *e) {
  anfi_sh_region *g = ANFI_NEW(r->m->arena, anfi_sh_region);
  const anfi_str *name[3] = {intern(r, "a"), intern(r, "b"), intern(r, "c")};
  anfi_sh_op *in = ANFI_NEW(r->m->arena, anfi_sh_op), *out = ANFI_NEW(r->m->arena, anfi_sh_op);
  in->line = out->line = op->line;
  in->col = out->col = op->col;
  in->name = e->applies;
  out->name = intern(r, "stablehlo.return");
  if (op->types.n != 1) return anfi_sh_wants(r, "one result of what applies one op");
  const anf_type *scalar = anfi_type_scalar(r->m->cx, (anf_dtype)op->types.at[0]->dtype);
  anfi_push(r->m->arena, &in->results, ((anfi_sh_result){name[2], 1}));
  anfi_push(r->m->arena, &in->types, scalar);
  for (size_t i = 0; i < 2; i++) {
    anfi_push(r->m->arena, &g->params, ((anfi_sh_param){name[i], scalar}));
    anfi_push(r->m->arena, &in->in, ((anfi_sh_use){.name = name[i]}));
  }
  anfi_push(r->m->arena, &out->in, ((anfi_sh_use){.name = name[2]}));
  anfi_push(r->m->arena, &g->ops, in);
  anfi_push(r->m->arena, &g->ops, out);
  anfi_push(r->m->arena, &op->regions, g);
  return true;
}

/* %a: type, .. to the parenthesis. */
static bool params(anfi_sh_text *r, anfi_sh_region *g) {
  for (bool first = true; !anfi_sh_takes(r, ")"); first = false) {
    if (!first && !anfi_sh_expect(r, ",")) return false;
    anfi_sh_param p = {.name = anfi_sh_value_name(r)};
    if (!p.name || !anfi_sh_expect(r, ":") || !(p.type = anfi_sh_type(r))) return false;
    if (anfi_sh_sees(r, "{") && !anfi_sh_skip(r)) return false;
    if (anfi_sh_takes(r, "loc") && !anfi_sh_skip(r)) return false;
    anfi_push(r->m->arena, &g->params, p);
  }
  return true;
}

/* reducer(%a: T, %b: T) (%c: U, %d: U) { .. }: parameters in pairs; the block has the left ones first. */
static bool reducer(anfi_sh_text *r, anfi_sh_op *op) {
  anfi_sh_region pairs = {0}, *g = ANFI_NEW(r->m->arena, anfi_sh_region);
  while (anfi_sh_takes(r, "("))
    if (!params(r, &pairs)) return false;
  if (pairs.params.n % 2) return anfi_sh_wants(r, "pairs of parameters");
  for (size_t k = 0; k < 2; k++)
    for (size_t i = k; i < pairs.params.n; i += 2)
      anfi_push(r->m->arena, &g->params, pairs.params.at[i]);
  return region(r, op, g);
}

static bool carried_region(anfi_sh_text *r, anfi_sh_op *op, const extras *e) {
  anfi_sh_region *g = ANFI_NEW(r->m->arena, anfi_sh_region);
  if (e->carried.n != op->in.n || (op->types.n && op->types.n != op->in.n))
    return anfi_sh_wants(r, "a type for each carried value");
  for (size_t i = 0; i < e->carried.n; i++)
    anfi_push(r->m->arena, &g->params, ((anfi_sh_param){e->carried.at[i], op->types.at[i]}));
  return region(r, op, g);
}

/* What comes after the types. */
static bool tail(anfi_sh_text *r, anfi_sh_op *op, const extras *e) {
  if (anfi_sh_takes(r, "reducer")) return reducer(r, op);
  if (anfi_sh_takes(r, "attributes") && !(anfi_sh_expect(r, "{") && anfi_sh_dict(r, "}", op)))
    return false;
  if (!anfi_sh_takes(r, "cond")) return true;
  return carried_region(r, op, e) && anfi_sh_expect(r, "do") && carried_region(r, op, e);
}

static bool pretty(anfi_sh_text *r, anfi_sh_op *op) {
  extras e = {0};
  while (!anfi_sh_takes(r, ":")) {
    if (anfi_sh_takes(r, ",")) continue;
    if (anfi_sh_sees(r, "}") || anfi_sh_sees(r, "loc"))
      return result_count(op) == 0 || anfi_sh_wants(r, "the types of an op");
    if (!part(r, op, &e)) return false;
  }
  for (size_t i = 0; i < e.inits.n; i++) anfi_push(r->m->arena, &op->in, e.inits.at[i]);
  if (!op_types(r, op)) return false;
  if (e.applies && !applied(r, op, &e)) return false;
  return tail(r, op, &e);
}

/* ---- generic forms ---- */

static bool generic(anfi_sh_text *r, anfi_sh_op *op) {
  if (!anfi_sh_expect(r, "(") || !operands(r, op)) return false;
  if (anfi_sh_takes(r, "<{") && !(anfi_sh_dict(r, "}", op) && anfi_sh_expect(r, ">"))) return false;
  if (anfi_sh_takes(r, "(")) do {
      anfi_sh_region *g = ANFI_NEW(r->m->arena, anfi_sh_region);
      if (!region(r, op, g)) return false;
    } while (anfi_sh_takes(r, ","));
  if (op->regions.n && !anfi_sh_expect(r, ")")) return false;
  if (anfi_sh_takes(r, "{") && !anfi_sh_dict(r, "}", op)) return false;
  return anfi_sh_expect(r, ":") && op_types(r, op);
}

/* ---- ops ---- */

static bool results(anfi_sh_text *r, anfi_sh_op *op) {
  do {
    anfi_sh_result x = {.name = anfi_sh_value_name(r), .count = 1};
    if (!x.name) return false;
    if (anfi_sh_takes(r, ":"))
      for (x.count = 0; *r->at >= '0' && *r->at <= '9' && x.count < 1 << 16; r->at++)
        x.count = x.count * 10 + (uint32_t)(*r->at - '0');
    anfi_push(r->m->arena, &op->results, x);
  } while (anfi_sh_takes(r, ","));
  return anfi_sh_expect(r, "=");
}

static const anfi_str *full_name(anfi_sh_text *r, const anfi_str *s) {
  if (!s) return NULL;
  if (strcmp(s->s, "call") == 0) return intern(r, "func.call");
  return strcmp(s->s, "return") == 0 ? intern(r, "func.return") : s;
}

/* The function of a call in the generic form, and of a composite. */
static void find_symbol(anfi_sh_text *r, anfi_sh_op *op) {
  static const char *const name[] = {"callee", "call_target_name", "decomposition"};
  for (size_t i = 0; i < ANFI_LEN(name) && !op->symbol; i++) {
    const anf_value *v = anfi_sh_op_attr(op, name[i]);
    if (v && v->kind == ANF_VALUE_STRING) op->symbol = intern(r, v->u.text);
  }
}

static anfi_sh_op *operation(anfi_sh_text *r) {
  anfi_sh_op *op = ANFI_NEW(r->m->arena, anfi_sh_op);
  anfi_sh_space(r);
  anfi_loc at = anfi_sh_loc(r);
  op->line = at.line, op->col = at.col;
  if (anfi_sh_sees(r, "%") && !results(r, op)) return NULL;
  bool is_generic = anfi_sh_sees(r, "\"");
  op->name = full_name(r, is_generic ? anfi_sh_quoted(r) : anfi_sh_word(r));
  if (!op->name) return (void)anfi_sh_wants(r, "an op"), NULL;
  if (!(is_generic ? generic(r, op) : pretty(r, op))) return NULL;
  find_symbol(r, op);
  if (anfi_sh_takes(r, "loc") && !anfi_sh_skip(r)) return NULL;
  return op;
}

/* { ops } or { ^bb0(%a: T, ..): ops }; appended to the regions of op. */
static bool region(anfi_sh_text *r, anfi_sh_op *op, anfi_sh_region *g) {
  if (r->depth >= ANFI_SH_NESTING) return anfi_sh_wants(r, "regions that do not nest so deeply");
  if (!anfi_sh_expect(r, "{")) return false;
  r->depth++;
  if (anfi_sh_takes(r, "^")) {
    if (!anfi_sh_word(r)) return anfi_sh_wants(r, "the name of a block");
    if (anfi_sh_takes(r, "(") && !params(r, g)) return false;
    if (!anfi_sh_expect(r, ":")) return false;
  }
  while (!anfi_sh_takes(r, "}")) {
    if (anfi_sh_sees(r, "^")) return anfi_sh_wants(r, "a region of one block");
    anfi_sh_op *in = operation(r);
    if (!in) return false;
    anfi_push(r->m->arena, &g->ops, in);
  }
  r->depth--;
  if (op) anfi_push(r->m->arena, &op->regions, g);
  return true;
}

/* ---- functions ---- */

static bool function(anfi_sh_text *r) {
  anfi_sh_func *f = ANFI_NEW(r->m->arena, anfi_sh_func);
  anfi_sh_region *g = ANFI_NEW(r->m->arena, anfi_sh_region);
  anfi_loc at = anfi_sh_loc(r);
  type_list out = {0};
  f->line = at.line, f->col = at.col;
  f->is_private = anfi_sh_takes(r, "private");
  if (!f->is_private && !anfi_sh_takes(r, "public")) (void)anfi_sh_takes(r, "nested");
  if (!anfi_sh_expect(r, "@")) return false;
  f->name = anfi_sh_sees(r, "\"") ? anfi_sh_quoted(r) : anfi_sh_word(r);
  if (!f->name || !anfi_sh_expect(r, "(") || !params(r, g))
    return anfi_sh_wants(r, "the name of a function");
  if (anfi_sh_takes(r, "->") && !types_in(r, &out)) return false;
  for (size_t i = 0; i < out.n; i++) anfi_push(r->m->arena, &f->types, out.at[i]);
  if (anfi_sh_takes(r, "attributes") && !anfi_sh_skip(r)) return false;
  if (!anfi_sh_sees(r, "{")) return anfi_sh_wants(r, "the body of a function");
  if (!region(r, NULL, g)) return false;
  f->body = g;
  uint64_t *slot = anfi_map_at(&r->m->by_name, anfi_key(f->name));
  if (*slot) return anfi_fail(r->m->cx, at, ANF_E1223, f->name->s, "is defined twice");
  *slot = anfi_key(f);
  anfi_push(r->m->arena, &r->m->funcs, f);
  return !anfi_sh_takes(r, "loc") || anfi_sh_skip(r);
}

/* #name = value */
static bool alias(anfi_sh_text *r) {
  const anfi_str *name = anfi_sh_word(r);
  if (!name || !anfi_sh_expect(r, "=")) return anfi_sh_wants(r, "the name of an alias");
  anf_value *v = anfi_sh_attr_value(r);
  if (v) *anfi_map_at(&r->m->aliases, anfi_key(name)) = anfi_key(v);
  return v != NULL;
}

/* sdy.mesh @name = <[], device_ids=[0]> {..}: names devices, which shardings speak of; they change no value. */
static bool mesh(anfi_sh_text *r) {
  if (!anfi_sh_expect(r, "@") || !anfi_sh_word(r)) return anfi_sh_wants(r, "the name of a mesh");
  if (!anfi_sh_expect(r, "=") || !anfi_sh_skip(r)) return false;
  return !anfi_sh_sees(r, "{") || anfi_sh_skip(r);
}

static bool module_head(anfi_sh_text *r) {
  if (anfi_sh_takes(r, "@") && !(anfi_sh_sees(r, "\"") ? anfi_sh_quoted(r) : anfi_sh_word(r)))
    return anfi_sh_wants(r, "the name of a module");
  if (anfi_sh_takes(r, "attributes") && !anfi_sh_skip(r)) return false;
  return anfi_sh_expect(r, "{");
}

bool anfi_sh_read(anfi_sh_model *m, const char *text, size_t len) {
  anfi_sh_text r = {
      .m = m, .start = text, .at = text, .end = text + len, .line_start = text, .line = 1};
  bool open = false, good = true;
  for (anfi_sh_space(&r); good && r.at < r.end; anfi_sh_space(&r)) {
    if (anfi_sh_takes(&r, "func.func") || anfi_sh_takes(&r, "func")) good = function(&r);
    else if (!open && anfi_sh_takes(&r, "module")) open = good = module_head(&r);
    else if (anfi_sh_takes(&r, "#")) good = alias(&r);
    else if (open && anfi_sh_takes(&r, "sdy.mesh")) good = mesh(&r);
    else if (open && anfi_sh_takes(&r, "}")) open = false;
    else if (anfi_sh_takes(&r, "loc")) good = anfi_sh_skip(&r);
    else good = anfi_sh_wants(&r, "a function");
  }
  if (good && open) good = anfi_sh_wants(&r, "} at the end of the module");
  if (good && !m->funcs.n) good = anfi_sh_wants(&r, "a function");
  return good;
}
