// SPDX-License-Identifier: Apache-2.0
/* Ops as primitives of MindSpore, by primitive.def.
 *   MatMul(x, y) of matrices, row (MatMul, MatMul, "0 1 ta tb", rank2)   ->   a node MatMul of x, y, false, false
 * An op without a row that fits becomes a primitive Anfora.NAME, which our reader knows. */
#include "frontend/mindir/write.h"

typedef enum {
  when_always,
  when_rank2,
  when_batch,
  when_plain,
  when_axes,
  when_some_axes,
  when_not_empty,
  when_one_axis,
  when_window,
  when_scalars,
  when_whole_windows,
  when_last_greatest,
  when_on,
  when_update,
  when_add,
  when_max,
  when_min,
  when_mul
} when;
typedef struct {
  uint16_t op;
  const char *primitive, *inputs;
  when when;
} row;

static const row rows[] = {
#define MINDIR_PRIMITIVE(op, primitive, inputs, when)                                              \
  {ANF_OP_##op, #primitive, inputs, when_##when},
#include "frontend/mindir/primitive.def"
#undef MINDIR_PRIMITIVE
};

typedef struct {
  anfi_mi_writer *w;
  const anf_node *n;
  const anfi_schema *schema;
  ANFI_VEC(const char *) in;
} apply;

static const anf_value *attr(const apply *a, uint32_t k) {
  return anfi_attr_value(a->w->cx, (anfi_opcode)a->n->op, a->n->u.attrs, k);
}

/* ---- when a row fits ---- */

static bool all_weak(const anf_node *n) {
  for (uint32_t i = 0; i < n->nin; i++) {
    const anf_node *x = n->in[i].def;
    if (!anfi_export_is_weak(x->kind == ANFI_VALUE ? x->u.value->type : x->type)) return false;
  }
  return n->nin > 0;
}

static uint32_t rank(const anf_node *n) {
  return n->type && anfi_is_tensor(n->type) ? n->type->n : UINT32_MAX;
}

static const anf_value *named(const apply *a, const char *name) {
  int k = anfi_attr_index(a->w->cx, (anfi_opcode)a->n->op, name);
  return k < 0 ? NULL : attr(a, (uint32_t)k);
}

/* The greatest along the last dim. */
static bool is_last_greatest(const apply *a, const anf_node *x) {
  const anf_value *axis = named(a, "axis"), *largest = named(a, "largest");
  int64_t d;
  return axis && largest && anfi_get_i64(largest, 0) && anfi_value_is_int(axis, &d) &&
         (d == -1 || (rank(x) != UINT32_MAX && d + 1 == rank(x)));
}

static bool has_mode(const apply *a, const char *mode) {
  const anf_value *v = named(a, "mode");
  return v && v->kind == ANF_VALUE_STRING && v->n == strlen(mode) &&
         memcmp(v->u.text, mode, v->n) == 0;
}

static bool fits(const apply *a, when w) {
  const anf_value *first = a->schema->nattr ? attr(a, 0) : NULL;
  const anf_node *x = a->n->nin > 0 ? a->n->in[0].def : NULL,
                 *y = a->n->nin > 1 ? a->n->in[1].def : NULL;
  bool given = first && first->kind != ANF_VALUE_NONE;
  bool empty = first && first->kind == ANF_VALUE_TUPLE && first->n == 0;
  switch (w) {
  case when_always: return true;
  case when_rank2: return x && y && rank(x) == 2 && rank(y) == 2;
  case when_batch: return x && y && rank(x) > 2 && rank(x) == rank(y) && rank(x) != UINT32_MAX;
  case when_plain: return anfi_export_is_plain(a->w->cx, a->n);
  case when_axes: return given;
  case when_some_axes: return given && !empty;
  case when_not_empty: return first && !empty;
  case when_one_axis: return first && first->kind == ANF_VALUE_TENSOR;
  case when_whole_windows: return anfi_mi_pool_is_whole(a->w, a->n);
  case when_scalars: return all_weak(a->n);
  case when_last_greatest: return is_last_greatest(a, x);
  case when_on: return given && anfi_is_scalar(first->type) && anfi_get_i64(first, 0) != 0;
  case when_update: return has_mode(a, "update");
  case when_add: return has_mode(a, "add");
  case when_max: return has_mode(a, "max");
  case when_min: return has_mode(a, "min");
  case when_mul: return has_mode(a, "mul");
  case when_window: return given && attr(a, 1) && attr(a, 1)->kind != ANF_VALUE_NONE && attr(a, 2);
  }
  return false;
}

static const row *find_row(const apply *a) {
  for (size_t i = 0; i < ANFI_LEN(rows); i++)
    if (rows[i].op == a->n->op && fits(a, rows[i].when)) return &rows[i];
  return NULL;
}

/* ---- the inputs of a row ---- */

static bool add(apply *a, const char *name) {
  if (name) anfi_push(a->w->arena, &a->in, name);
  return name != NULL;
}

/* The name of a constant of the writer's own. */
static const char *own(anfi_mi_writer *w, anf_value *v) {
  const char *name = anfi_mi_put_constant(w, v);
  anf_value_release(v);
  return name;
}

static bool add_value(apply *a, anf_value *v) { return add(a, own(a->w, v)); }

static bool add_number(apply *a, anf_dtype d, int64_t x) {
  return add_value(a, anfi_value_new_i64(a->w->cx, d, x));
}

static bool add_tuple(apply *a) {
  size_t n = anfi_arg_count(a->n);
  const char **item = ANFI_NEW_N(a->w->arena, const char *, n + 1);
  for (size_t i = 0; i < n; i++)
    if (!(item[i] = anfi_mi_operand(a->w, a->n->in[i].def))) return false;
  const char *op = anfi_mi_primitive_ref(a->w, "MakeTuple", a->w->out->len);
  return add(a, anfi_mi_put_node(a->w, NULL, op, n, item));
}

static bool add_list(apply *a, const anf_value *v) {
  if (v->kind != ANF_VALUE_TENSOR) return add(a, anfi_mi_put_constant(a->w, v));
  anf_value *t = anfi_value_new_tuple(a->w->cx, 1);
  t->u.item[0] = anf_value_retain((anf_value *)(uintptr_t)v);
  return add_value(a, t);
}

static bool add_attr(apply *a, const char *word, size_t len) {
  const char *colon = memchr(word, ':', len);
  char name[32];
  snprintf(name, sizeof name, "%.*s", (int)(colon ? colon - word : (ptrdiff_t)len), word);
  int k = anfi_attr_index(a->w->cx, (anfi_opcode)a->n->op, name);
  const anf_value *v = k < 0 ? NULL : attr(a, (uint32_t)k);
  if (!v) return add(a, anfi_mi_operand(a->w, anfi_attr_node(a->n, (uint32_t)k)));
  if (colon && strncmp(colon, ":dtype", 6) == 0)
    return add_number(a, ANF_INT, anfi_mi_type_number(v->type));
  return colon ? add_list(a, v) : add(a, anfi_mi_put_constant(a->w, v));
}

/* begin, end and strides of a StridedSlice from a Slice along one dim. */
static bool add_slice(apply *a, char which) {
  enum { START, STOP, STEP, AXIS };
  int64_t x[ANF_MAX_RANK], at[4];
  const anf_type *t =
      a->n->in[0].def->type ? a->n->in[0].def->type : a->n->in[0].def->u.value->type;
  for (uint32_t k = 0; k < 4; k++)
    if (!attr(a, k) || !anfi_value_is_int(attr(a, k), &at[k])) return false;
  at[AXIS] += at[AXIS] < 0 ? t->n : 0;
  for (uint32_t i = 0; i < t->n; i++) x[i] = which == '0' ? 0 : which == '1' ? t->dims[i] : 1;
  x[at[AXIS]] = at[which - '0'];
  return add_value(a, anfi_value_new_ints(a->w->cx, t->n, x));
}

/* 0 or 1 of the element type of the attribute dtype. */
static bool add_typed(apply *a, char digit) {
  int k = anfi_attr_index(a->w->cx, (anfi_opcode)a->n->op, "dtype");
  const anf_value *t = attr(a, (uint32_t)k);
  return t && add_value(a, anfi_value_new_i64(a->w->cx, (anf_dtype)t->type->dtype, digit - '0'));
}

static bool add_word(apply *a, const char *word, size_t len) {
  size_t i = (size_t)(word[0] - '0'), narg = anfi_arg_count(a->n);
  if (len == 3 && memcmp(word, "[*]", 3) == 0) return add_tuple(a);
  if (len == 4 && memcmp(word, "None", 4) == 0) return add_value(a, anfi_value_new_none(a->w->cx));
  if (len == 2 && word[1] == 'i') return add_number(a, ANF_INT, word[0] - '0');
  if (len == 7 && memcmp(word, "slice:", 6) == 0) return add_slice(a, word[6]);
  if (len > 1 && word[1] == ':') return add_typed(a, word[0]);
  if (i > 9) return add_attr(a, word, len);
  if (i >= narg) return add_value(a, anfi_value_new_none(a->w->cx));
  return add(a, anfi_mi_operand(a->w, a->n->in[i].def));
}

/* After |: the attributes of a convolution or pool, or ours under their names, or one that is true there. */
static bool put_own_attrs(apply *a, const char *p) {
  for (; p && *p && *p != '>';) {
    size_t len = strcspn(p, " ");
    bool is_true = len > 5 && memcmp(p + len - 5, "=true", 5) == 0;
    char name[32];
    snprintf(name, sizeof name, "%.*s", (int)(is_true ? len - 5 : len), p);
    anf_value *yes = is_true ? anfi_value_new_i64(a->w->cx, ANF_BOOL, 1) : NULL;
    const anf_value *v = is_true ? yes : named(a, name);
    bool good = strcmp(name, "conv") == 0   ? anfi_mi_put_conv(a->w, a->n)
                : strcmp(name, "pool") == 0 ? anfi_mi_put_pool(a->w, a->n)
                                            : v && anfi_mi_put_attr(a->w, 3, name, v);
    if (yes) anf_value_release(yes);
    if (!good) return false;
    p += len + (p[len] == ' ');
  }
  return true;
}

static const char *call(apply *a, const anf_node *type, const char *op, size_t n,
                        const char *const *in) {
  return anfi_mi_put_node(a->w, type, anfi_mi_primitive_ref(a->w, op, a->w->out->len), n, in);
}

static const char *number(apply *a, int64_t x) {
  return own(a->w, anfi_value_new_i64(a->w->cx, ANF_INT, x));
}

/* ">1:i64": the item 1 of `all`, what the primitive gives, as an i64. `type` is the node whose type it has, or NULL. */
static const char *result_item(apply *a, const anf_node *type, const char *all, const char *word) {
  bool cast = word[2] == ':';
  const char *get[2] = {all, number(a, word[1] - '0')};
  const char *item = call(a, cast ? NULL : type, "TupleGetItem", 2, get);
  if (!cast) return item;
  int64_t i64 = anfi_mi_type_number(anfi_type_scalar(a->w->cx, ANF_I64));
  const char *to[2] = {item, number(a, i64)};
  *anfi_map_at(&a->w->places, anfi_key(a->n)) = anfi_key(item);
  return call(a, type, "Cast", 2, to);
}

/* The result of a row: of the primitive, or what the words after > take from it. */
static const char *result_of(apply *a, const char *all, const char *first) {
  const char *second = strchr(first + 1, '>');
  if (!second) return result_item(a, a->n, all, first);
  const char *both[2] = {result_item(a, NULL, all, first), NULL};
  both[1] = result_item(a, NULL, all, second);
  return call(a, a->n, "MakeTuple", 2, both);
}

static const char *by_row(apply *a, const row *r) {
  const char *bar = strchr(r->inputs, '|'), *results = strchr(r->inputs, '>');
  for (const char *p = r->inputs; *p && *p != '|' && *p != '>';) {
    size_t len = strcspn(p, " ");
    if (!add_word(a, p, len)) return NULL;
    p += len + (p[len] == ' ');
  }
  size_t attrs = a->w->out->len;
  if (!put_own_attrs(a, bar ? bar + 1 : NULL)) return NULL;
  const char *op = anfi_mi_primitive_ref(a->w, r->primitive, attrs);
  const char *all = anfi_mi_put_node(a->w, results ? NULL : a->n, op, a->in.n, a->in.at);
  return results ? result_of(a, all, results) : all;
}

/* ---- the others ---- */

/* MindSpore's operators take tensors of one type: a number beside one is made a tensor of that type. A complex number without
 * a type is one of c128 in the file, and would make c128 of c64 and f32. */
static const char *operand_beside(apply *a, uint32_t i) {
  const anf_node *x = a->n->in[i].def;
  const anf_type *t = x->kind == ANFI_VALUE ? x->u.value->type : x->type;
  bool pointwise = anfi_op_of(a->n)->lower == ANFI_LOWER_POINTWISE && a->n->nin > 1;
  bool weak = anfi_export_is_weak(t) || (t && anfi_is_scalar(t) && t->dtype == ANF_COMPLEX);
  anf_dtype d = pointwise && weak ? anfi_export_dtype_beside(a->n, t) : ANF_INT;
  if (anfi_dtype_is_weak(d)) return anfi_mi_operand(a->w, x);
  if (x->kind == ANFI_VALUE) return own(a->w, anfi_value_cast(x->u.value, d));
  const char *in[2] = {anfi_mi_operand(a->w, x),
                       number(a, anfi_mi_type_number(anfi_type_scalar(a->w->cx, d)))};
  return in[0] && in[1] ? call(a, NULL, "ScalarToTensor", 2, in) : NULL;
}

static bool all_inputs(apply *a) {
  for (uint32_t i = 0; i < a->n->nin; i++)
    if (!add(a, operand_beside(a, i))) return false;
  return true;
}

/* Attributes as they are; one that a node gives is an input behind the others, and has the text "input". */
static bool put_attrs(apply *a) {
  for (uint32_t k = 0; k < a->schema->nattr; k++) {
    const anf_value *v = attr(a, k),
                    *usual = anfi_attr_value(a->w->cx, (anfi_opcode)a->n->op, NULL, k);
    const char *name = a->schema->attr[k].name->s;
    if (v && usual && anfi_value_same(v, usual)) continue;
    if (v && !anfi_mi_put_attr(a->w, 3, name, v)) return false;
    if (v) continue;
    size_t at = anfi_wire_open(a->w->out, 3);
    anfi_wire_put_text(a->w->out, 1, name);
    anfi_wire_put_text(a->w->out, 14, "input");
    anfi_wire_put_varint(a->w->out, 16, MI_NONE);
    anfi_wire_close(a->w->out, at);
  }
  return true;
}

static const char *as_own(apply *a) {
  const char *op = anfi_sprintf(a->w->arena, "Anfora.%s", a->schema->name->s);
  size_t attrs = a->w->out->len;
  if (!put_attrs(a)) return NULL;
  return anfi_mi_put_node(a->w, a->n, anfi_mi_primitive_ref(a->w, op, attrs), a->in.n, a->in.at);
}

/* MindSpore's primitive with the same inputs, a word of the op's column, or NULL. Theirs take floats where ours convert
 * integers. */
static const char *same_named(const anf_node *n) {
  const char *word = anfi_op_of(n)->mindir;
  const anf_type *x = n->nin ? n->in[0].def->type : NULL;
  bool converts = x && n->type && anfi_is_tensor(x) && anfi_is_tensor(n->type) &&
                  anfi_dtype_is_float((anf_dtype)n->type->dtype) &&
                  anfi_dtype_is_int((anf_dtype)x->dtype);
  bool same = word && anfi_mi_op_named(word, strcspn(word, " ")) == (anfi_opcode)n->op;
  return same && !converts && !(anfi_op_of(n)->flags & (ANFI_EFFECT | ANFI_CALLS)) ? word : NULL;
}

/* Cast(i, dtype=i32) of places that the primitive gives as i32 is what it gives: programs that were read have such casts. */
static const char *places_again(const anfi_mi_writer *w, const anf_node *n) {
  const anf_node *x = n->op == ANF_OP_Cast ? n->in[0].def : NULL;
  const anf_value *to = x ? anfi_attr_value(w->cx, ANF_OP_Cast, n->u.attrs, 0) : NULL;
  if (!to || to->type->dtype != ANF_I32) return NULL;
  if (anfi_is_op(x, ANF_OP_TupleGet)) {
    const anf_value *i = anfi_attr_value(w->cx, ANF_OP_TupleGet, x->u.attrs, 0);
    if (!i || anfi_get_i64(i, 0) != 1) return NULL;
    x = x->in[0].def;
  }
  const uint64_t *at = anfi_map_find(&w->places, anfi_key(x));
  return at ? (const char *)(uintptr_t)*at : NULL;
}

const char *anfi_mi_put_apply(anfi_mi_writer *w, const anf_node *n) {
  const char *given = places_again(w, n);
  if (given) return given;
  apply a = {.w = w, .n = n, .schema = anfi_op_schema(w->cx, (anfi_opcode)n->op)};
  const row *r = find_row(&a);
  const char *theirs = same_named(n);
  if (r) return by_row(&a, r);
  if (n->op == ANF_OP_Undef && n->type && anfi_is_tensor(n->type))
    return own(w, anfi_value_new_tensor(w->cx, n->type)); // never read
  if (!all_inputs(&a)) return NULL;
  if (!theirs || a.schema->nattr) return as_own(&a);
  const char *op = anfi_sprintf(w->arena, "%.*s", (int)strcspn(theirs, " "), theirs);
  return anfi_mi_put_node(w, n, anfi_mi_primitive_ref(w, op, w->out->len), a.in.n, a.in.at);
}
