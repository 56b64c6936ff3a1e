// SPDX-License-Identifier: Apache-2.0
/* Ops as operators of ONNX, by operator.def; tuples and records are taken apart.
 *   Sum(x, axis=0), row (Sum, ReduceSum, "0= axis:ints", "keepdims", ..)   ->   ReduceSum(x, [0]) with keepdims = 0 */
#include "frontend/onnx/write.h"

typedef enum {
  when_always,
  when_given,
  when_plain,
  when_ints,
  when_zeros,
  when_update,
  when_linear,
  when_corners
} when;
typedef struct {
  uint16_t op;
  const char *operator, * inputs, *attrs;
  when when;
} row;

static const row rows[] = {
#define ONNX_OPERATOR(op, operator, inputs, attrs, when)                                           \
  {ANF_OP_##op, #operator, inputs, attrs, when_##when},
#include "frontend/onnx/operator.def"
#undef ONNX_OPERATOR
};

typedef struct {
  anfi_flat *w;
  const anf_node *n;
  const anfi_schema *schema;
  anfi_ox_inputs in;
} apply;

static anf_value *attr(const apply *a, uint32_t k) {
  return anfi_attr_value(a->w->cx, (anfi_opcode)a->n->op, a->n->u.attrs, k);
}

/* ---- when a row fits ---- */

static bool is_text(const apply *a, const char *name, const char *s) {
  int k = anfi_attr_index(a->w->cx, (anfi_opcode)a->n->op, name);
  const anf_value *v = k < 0 ? NULL : attr(a, (uint32_t)k);
  return v && v->kind == ANF_VALUE_STRING && v->n == strlen(s) && memcmp(v->u.text, s, v->n) == 0;
}

static bool is_true(const apply *a, const char *name) {
  int k = anfi_attr_index(a->w->cx, (anfi_opcode)a->n->op, name);
  const anf_value *v = k < 0 ? NULL : attr(a, (uint32_t)k);
  return v && anfi_get_i64(v, 0) != 0;
}

/* A 0 in the shape is no size to be taken from the input; beside a -1 it cannot be. */
static bool may_be_empty(const apply *a) {
  const anf_value *v = attr(a, 0);
  const anf_type *t = a->n->type;
  bool zero = !v;
  for (size_t i = 0; v && v->kind == ANF_VALUE_TUPLE && i < v->n; i++)
    if (anfi_get_i64(v->u.item[i], 0) < 0) return false;
  for (uint32_t i = 0; t && i < t->n; i++) zero = zero || t->dims[i] <= 0;
  return zero;
}

static bool fits(const apply *a, when w) {
  const anf_value *first = a->schema->nattr ? attr(a, 0) : NULL;
  switch (w) {
  case when_always: return true;
  case when_given: return !first || first->kind != ANF_VALUE_NONE;
  case when_plain: return anfi_export_is_plain(a->w->cx, a->n);
  case when_ints: return a->n->type && anfi_dtype_is_int((anf_dtype)a->n->type->dtype);
  case when_zeros: return may_be_empty(a);
  case when_update: return is_text(a, "mode", "update");
  case when_linear: return is_text(a, "mode", "linear") && !is_true(a, "align_corners");
  case when_corners: return is_text(a, "mode", "linear") && is_true(a, "align_corners");
  }
  return false;
}

static const row *find_row(const apply *a) {
  for (size_t i = 0; i < ANFI_LEN(rows); i++)
    if (rows[i].op == a->n->op && fits(a, rows[i].when)) return &rows[i];
  return NULL;
}

/* ---- inputs ---- */

static bool add(apply *a, const char *name) {
  if (name) anfi_push(a->w->arena, &a->in.list, name);
  return name != NULL;
}

static anf_dtype result_dtype(const apply *a) {
  const anf_type *t = a->n->type;
  while (t && t->kind == ANF_TYPE_TUPLE && t->n) t = t->items[0];
  return t && anfi_is_tensor(t) ? anfi_dtype_settle((anf_dtype)t->dtype) : ANF_KEY;
}

static bool is_complex(anf_dtype d) {
  return d != ANF_KEY && anfi_dtype_class(d) == ANFI_CLASS_COMPLEX;
}

/* Input i as a tensor of type d; of any type where d is ANF_KEY. */
static bool add_input(apply *a, uint32_t i, anf_dtype d) {
  anfi_flat *w = a->w;
  const anf_node *x = a->n->in[i].def;
  const anf_type *t = x->kind == ANFI_VALUE ? x->u.value->type : x->type;
  if (t && anfi_is_tensor(t) && is_complex((anf_dtype)t->dtype) != is_complex(d) && d != ANF_KEY)
    return anfi_flat_refuse(w, a->n, "the op of complex numbers", anfi_op_of(a->n)->name);
  if (x->kind == ANFI_VALUE && x->u.value->kind == ANF_VALUE_TENSOR && d != ANF_KEY &&
      anfi_dtype_settle((anf_dtype)x->u.value->type->dtype) != d) {
    anf_value *v = anfi_value_cast(x->u.value, d);
    anfi_defer(w->cx, ANFI_ALWAYS, anfi_release, v);
    const anfi_out *c = anfi_flat_constant(w, v);
    return c && add(a, c->name);
  }
  const anfi_out *o = anfi_flat_operand(w, x);
  if (!o) return false;
  if (!o->name) return anfi_flat_refuse(w, a->n, "a tuple as an input of", anfi_op_of(a->n)->name);
  bool same = d == ANF_KEY || !*o->name || anfi_dtype_settle((anf_dtype)o->type->dtype) == d;
  return add(a, same ? o->name : anfi_ox_cast(w, o->name, d));
}

static bool all_inputs(apply *a, anf_dtype d) {
  for (uint32_t i = 0; i < anfi_arg_count(a->n); i++)
    if (!add_input(a, i, d)) return false;
  return true;
}

static bool add_numbered(apply *a, const char *word, size_t len) {
  uint32_t i = (uint32_t)(word[0] - '0');
  if (i >= anfi_arg_count(a->n)) return add(a, "");
  const anf_node *x = a->n->in[i].def;
  const anf_type *t = x->kind == ANFI_VALUE ? x->u.value->type : x->type;
  anf_dtype d = ANF_KEY;
  if (len == 2 && word[1] == '=') d = result_dtype(a);
  else if (len == 5) d = ANF_I64;                                      // :i64
  else if (len == 7) d = t && t->dtype == ANF_I32 ? ANF_I32 : ANF_I64; // :index
  return add_input(a, i, d);
}

static int attr_named(const apply *a, const char *word, size_t len, const char **colon) {
  char name[32];
  *colon = (const char *)memchr(word, ':', len);
  snprintf(name, sizeof name, "%.*s", (int)(*colon ? *colon - word : (ptrdiff_t)len), word);
  return anfi_attr_index(a->w->cx, (anfi_opcode)a->n->op, name);
}

static bool add_word(apply *a, const char *word, size_t len) {
  const char *colon;
  if (word[0] >= '0' && word[0] <= '9') return add_numbered(a, word, len);
  if (word[0] == '*') return all_inputs(a, result_dtype(a));
  if (word[0] == '|') return anfi_ox_window_inputs(a->w, a->n, word, &a->in);
  int k = attr_named(a, word, len, &colon);
  if (strncmp(colon, ":ints", 5) == 0) return add(a, anfi_ox_attr_list(a->w, a->n, (uint32_t)k));
  anf_dtype d = strncmp(colon, ":as", 3) == 0 ? result_dtype(a) : ANF_I64;
  return add(a, anfi_ox_attr_scalar(a->w, a->n, (uint32_t)k, d));
}

/* ---- attributes ---- */

static size_t items_of(const anf_value *v) { return v->kind == ANF_VALUE_TUPLE ? v->n : 1; }

static int64_t item(const anf_value *v, size_t i, uint32_t rank) {
  int64_t x = anfi_get_i64(v->kind == ANF_VALUE_TUPLE ? v->u.item[i] : v, 0);
  return rank && x < 0 ? x + rank : x;
}

/* THEIRS=NAME:how, of a list */
static void put_axes(apply *a, const char *name, const anf_value *v, const char *how) {
  uint32_t rank = how[1] == '0' ? 0 : a->n->in[0].def->type ? a->n->in[0].def->type->n : 0;
  int64_t x[ANF_MAX_RANK], least = INT64_MAX;
  size_t n = items_of(v);
  for (size_t i = 0; i < n && i < ANF_MAX_RANK; i++) {
    x[i] = item(v, i, rank);
    least = x[i] < least ? x[i] : least;
  }
  if (how[1] == 'd') anfi_ox_attr_ints(a->w, name, n, x);
  else anfi_ox_attr_int(a->w, name, how[1] == '0' ? x[0] : least);
}

static bool put_value(apply *a, const char *name, uint32_t k, const char *how) {
  const anf_value *v = attr(a, k);
  anfi_flat *w = a->w;
  if (!v)
    return anfi_flat_refuse(w, a->n, "an attribute that is computed:", a->schema->attr[k].name->s);
  if (v->kind == ANF_VALUE_NONE) return true;
  if (how) return put_axes(a, name, v, how), true;
  switch (a->schema->attr[k].type) {
  case ANFI_ATTR_INT:
  case ANFI_ATTR_BOOL: anfi_ox_attr_int(w, name, anfi_get_i64(v, 0)); return true;
  case ANFI_ATTR_FLOAT: anfi_ox_attr_float(w, name, anfi_get_f64(v, 0)); return true;
  case ANFI_ATTR_STR: anfi_ox_attr_text(w, name, v->u.text, v->n); return true;
  case ANFI_ATTR_DTYPE: {
    int64_t number = anfi_dtype_file_number((anf_dtype)v->type->dtype);
    if (number) anfi_ox_attr_int(w, name, number);
    return number ||
           anfi_flat_refuse(w, a->n, "the element type", anf_dtype_name((anf_dtype)v->type->dtype));
  }
  default: return anfi_flat_refuse(w, a->n, "the attribute", name);
  }
}

static bool put_word(apply *a, const char *word, size_t len) {
  char text[64], *eq, *c;
  if (word[0] == '|') return anfi_ox_window_attrs(a->w, a->n, word);
  snprintf(text, sizeof text, "%.*s", (int)len, word);
  if ((c = strchr(text, '#'))) return *c = 0, anfi_ox_attr_int(a->w, text, c[1] - '0'), true;
  eq = strchr(text, '=');
  c = strchr(text, ':');
  if (c && !eq) return *c = 0, anfi_ox_attr_text(a->w, text, c + 1, strlen(c + 1)), true;
  if (eq) *eq = 0;
  if (c) *c = 0;
  int k = anfi_attr_index(a->w->cx, (anfi_opcode)a->n->op, eq ? eq + 1 : text);
  return put_value(a, text, (uint32_t)k, c ? word + (c - text) : NULL);
}

static bool each_word(apply *a, const char *list, bool (*do_it)(apply *, const char *, size_t)) {
  for (const char *p = list; *p;) {
    size_t len = strcspn(p, " ");
    if (!do_it(a, p, len)) return false;
    p += len + (p[len] == ' ');
  }
  return true;
}

/* As many outputs as the result has tensors. */
static const anfi_out *by_row(apply *a, const char *operator, const char * inputs,
                              const char *attrs) {
  anfi_flat *w = a->w;
  anfi_outs leaves = {0};
  if (!each_word(a, inputs, add_word)) return NULL;
  size_t at = anfi_ox_open(w, operator, a->in.list.n, a->in.list.at);
  if (!each_word(a, attrs, put_word)) return NULL;
  const anfi_out *r = anfi_flat_fresh(w, a->n->type, NULL);
  if (!r) return NULL;
  anfi_out_add(w, r, &leaves);
  for (size_t i = 0; i < leaves.n; i++) anfi_wire_put_text(w->out, 2, leaves.at[i]->name);
  anfi_wire_close(w->out, at);
  return r;
}

/* ---- elementwise ops ---- */

static bool is_logical(anfi_opcode op) {
  return op == ANF_OP_LogicalAnd || op == ANF_OP_LogicalOr || op == ANF_OP_LogicalXor ||
         op == ANF_OP_LogicalNot;
}

/* The element type in which the operands of an elementwise op meet. */
static anf_dtype operand_dtype(const apply *a) {
  anf_dtype d = ANF_BOOL;
  if (is_logical((anfi_opcode)a->n->op)) return ANF_BOOL;
  if (result_dtype(a) != ANF_BOOL) return result_dtype(a);
  for (uint32_t i = 0; i < a->n->nin; i++) {
    const anf_node *x = a->n->in[i].def;
    const anf_type *t = x->kind == ANFI_VALUE ? x->u.value->type : x->type;
    anf_dtype both = (anf_dtype)t->dtype;
    if (i && !anfi_dtype_promote(d, both, &both)) return ANF_KEY;
    d = both;
  }
  return anfi_dtype_settle(d);
}

static const char *own_operator(const anf_node *n) {
  const anfi_op_info *op = anfi_op_of(n);
  bool plain =
      op->lower == ANFI_LOWER_POINTWISE && !(op->flags & (ANFI_EFFECT | ANFI_CALLS | ANFI_RANDOM));
  return plain ? op->onnx : NULL;
}

static const anfi_out *elementwise(apply *a, const char *word) {
  const char *name = anfi_sprintf(a->w->arena, "%.*s", (int)strcspn(word, " "), word);
  if (!all_inputs(a, operand_dtype(a))) return NULL;
  return anfi_out_leaf(a->w, anfi_ox_put(a->w, name, a->in.list.n, a->in.list.at), a->n->type);
}

/* Div of ONNX cuts off. Where the rest is another than Mod's, the floor is one less; a - Mod(a, b) could overflow. */
static const anfi_out *floor_divided(apply *a) {
  if (!all_inputs(a, result_dtype(a))) return NULL;
  const char *const *in = a->in.list.at;
  const char *cut = anfi_ox_put(a->w, "Div", 2, in);
  const char *product = anfi_ox_put(a->w, "Mul", 2, (const char *[]){cut, in[1]});
  const char *rest = anfi_ox_put(a->w, "Sub", 2, (const char *[]){in[0], product});
  const char *mod = anfi_ox_put(a->w, "Mod", 2, in);
  const char *same = anfi_ox_put(a->w, "Equal", 2, (const char *[]){rest, mod});
  const char *less = anfi_ox_cast(a->w, anfi_ox_put(a->w, "Not", 1, &same), result_dtype(a));
  const char *floor = anfi_ox_put(a->w, "Sub", 2, (const char *[]){cut, less});
  return anfi_out_leaf(a->w, floor, a->n->type);
}

static const anfi_out *converted(apply *a) {
  if (!add_input(a, 0, ANF_KEY)) return NULL;
  const anf_node *x = a->n->in[0].def;
  const anf_type *t = x->kind == ANFI_VALUE ? x->u.value->type : x->type;
  anf_dtype d = result_dtype(a);
  if (is_complex(d) != is_complex((anf_dtype)t->dtype) || !anfi_dtype_file_number(d))
    return (void)anfi_flat_refuse(a->w, a->n, "a Cast to", anf_dtype_name(d)), NULL;
  return anfi_out_leaf(a->w, anfi_ox_cast(a->w, a->in.list.at[0], d), a->n->type);
}

/* Dim i of a tensor as a scalar. */
static const char *dim_of(apply *a, uint32_t i) {
  const int64_t zero = 0;
  size_t at = anfi_ox_open(a->w, "Shape", 1, a->in.list.at);
  anfi_ox_attr_int(a->w, "start", i);
  anfi_ox_attr_int(a->w, "end", i + 1);
  const char *in[2] = {anfi_ox_close(a->w, at), anfi_ox_ints(a->w, 1, &zero)};
  return anfi_ox_put(a->w, "Squeeze", 2, in);
}

/* The dims: those that are known are constants. */
static const anfi_out *dims_of(apply *a) {
  const anf_type *x = a->n->in[0].def->type, *i64 = anfi_type_scalar(a->w->cx, ANF_I64);
  const anfi_out **item = ANFI_NEW_N(a->w->arena, const anfi_out *, ANF_MAX_RANK);
  if (!x) return (void)anfi_flat_refuse(a->w, a->n, "a shape", "of no tensor"), NULL;
  if (!add_input(a, 0, ANF_KEY)) return NULL;
  for (uint32_t i = 0; i < x->n; i++)
    item[i] =
        anfi_out_leaf(a->w, x->dims[i] >= 0 ? anfi_ox_int(a->w, x->dims[i]) : dim_of(a, i), i64);
  return anfi_out_tuple(a->w, x->n, item);
}

const anfi_out *anfi_ox_op(anfi_flat *w, const anf_node *n) {
  const anfi_out *x;
  apply a = {.w = w, .n = n, .schema = anfi_op_schema(w->cx, (anfi_opcode)n->op)};
  switch (n->op) {
  case ANF_OP_Cast: return converted(&a);
  case ANF_OP_FloorDiv: return floor_divided(&a);
  case ANF_OP_GetItem: return anfi_ox_get_item(w, n);
  case ANF_OP_Shape: return dims_of(&a);
  default: break;
  }
  if (anfi_failed(w->cx)) return NULL;
  if (anfi_ox_window_op(w, n, &x)) return x;
  const row *r = find_row(&a);
  if (r) return by_row(&a, r->operator, r->inputs, r->attrs);
  const char *word = own_operator(n);
  if (word && anfi_export_is_plain(w->cx, n)) return elementwise(&a, word);
  return (void)anfi_flat_refuse(w, n, "the op", a.schema->name->s), NULL;
}
