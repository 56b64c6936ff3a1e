// SPDX-License-Identifier: Apache-2.0
/* Ops as primitives, by primitive.def. */
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
  when_whole_windows
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

static bool is_weak(const anf_type *t) {
  return t && anfi_is_scalar(t) && anfi_dtype_is_weak((anf_dtype)t->dtype);
}

static bool all_weak(const anf_node *n) {
  for (uint32_t i = 0; i < n->nin; i++) {
    const anf_node *x = n->in[i].def;
    if (!is_weak(x->kind == ANFI_VALUE ? x->u.value->type : x->type)) return false;
  }
  return n->nin > 0;
}

static uint32_t rank(const anf_node *n) {
  return n->type && anfi_is_tensor(n->type) ? n->type->n : UINT32_MAX;
}

static bool no_attribute_set(const apply *a) {
  for (uint32_t k = 0; k < a->schema->nattr; k++) {
    const anf_value *v = attr(a, k),
                    *usual = anfi_attr_value(a->w->cx, (anfi_opcode)a->n->op, NULL, k);
    if (!v || !usual || !anfi_value_same(v, usual)) return false;
  }
  return true;
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
  case when_plain: return no_attribute_set(a);
  case when_axes: return given;
  case when_some_axes: return given && !empty;
  case when_not_empty: return first && !empty;
  case when_one_axis: return first && first->kind == ANF_VALUE_TENSOR;
  case when_whole_windows: return anfi_mi_pool_is_whole(a->w, a->n);
  case when_scalars: return all_weak(a->n);
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

static bool add_value(apply *a, anf_value *v) {
  const char *name = anfi_mi_put_constant(a->w, v);
  anf_value_release(v);
  return add(a, name);
}

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

static const char *by_row(apply *a, const row *r) {
  for (const char *p = r->inputs; *p && *p != '|';) {
    size_t len = strcspn(p, " ");
    if (!add_word(a, p, len)) return NULL;
    p += len + (p[len] == ' ');
  }
  size_t attrs = a->w->out->len;
  if (strstr(r->inputs, "|conv") && !anfi_mi_put_conv(a->w, a->n)) return NULL;
  if (strstr(r->inputs, "|pool") && !anfi_mi_put_pool(a->w, a->n)) return NULL;
  return anfi_mi_put_node(a->w, a->n, anfi_mi_primitive_ref(a->w, r->primitive, attrs), a->in.n,
                          a->in.at);
}

/* ---- the others ---- */

/* MindSpore's operators take tensors of one type: a number beside one is made a tensor of that type. */
static const char *operand_beside(apply *a, uint32_t i) {
  const anf_node *x = a->n->in[i].def;
  const anf_type *t = x->kind == ANFI_VALUE ? x->u.value->type : x->type;
  bool pointwise = anfi_op[a->n->op].lower == ANFI_LOWER_POINTWISE && a->n->nin > 1;
  anf_dtype d = pointwise && is_weak(t) ? anfi_export_dtype_beside(a->n, t) : ANF_INT;
  if (anfi_dtype_is_weak(d)) return anfi_mi_operand(a->w, x);
  if (x->kind == ANFI_VALUE) {
    anf_value *v = anfi_value_cast(x->u.value, d);
    const char *name = anfi_mi_put_constant(a->w, v);
    anf_value_release(v);
    return name;
  }
  anf_value *id =
      anfi_value_new_i64(a->w->cx, ANF_INT, anfi_mi_type_number(anfi_type_scalar(a->w->cx, d)));
  const char *in[2] = {anfi_mi_operand(a->w, x), anfi_mi_put_constant(a->w, id)};
  anf_value_release(id);
  const char *op = anfi_mi_primitive_ref(a->w, "ScalarToTensor", a->w->out->len);
  return in[0] && in[1] ? anfi_mi_put_node(a->w, NULL, op, 2, in) : NULL;
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

/* What is never read. */
static const char *any_tensor(anfi_mi_writer *w, const anf_type *t) {
  anf_value *v = anfi_value_new_tensor(w->cx, t);
  const char *name = anfi_mi_put_constant(w, v);
  anf_value_release(v);
  return name;
}

/* MindSpore's primitive with the same inputs, a word of the op's column, or NULL. Theirs take floats where ours convert
 * integers. */
static const char *same_named(const anf_node *n) {
  const char *word = anfi_op[n->op].mindir;
  const anf_type *x = n->nin ? n->in[0].def->type : NULL;
  bool converts = x && n->type && anfi_is_tensor(x) && anfi_is_tensor(n->type) &&
                  anfi_dtype_is_float((anf_dtype)n->type->dtype) &&
                  anfi_dtype_is_int((anf_dtype)x->dtype);
  bool same = word && anfi_mi_op_named(word, strcspn(word, " ")) == (anfi_opcode)n->op;
  return same && !converts && !(anfi_op[n->op].flags & (ANFI_EFFECT | ANFI_CALLS)) ? word : NULL;
}

const char *anfi_mi_put_apply(anfi_mi_writer *w, const anf_node *n) {
  apply a = {.w = w, .n = n, .schema = anfi_op_schema(w->cx, (anfi_opcode)n->op)};
  const row *r = find_row(&a);
  const char *theirs = same_named(n);
  if (r) return by_row(&a, r);
  if (n->op == ANF_OP_Undef && n->type && anfi_is_tensor(n->type)) return any_tensor(w, n->type);
  if (!all_inputs(&a)) return NULL;
  if (!theirs || a.schema->nattr) return as_own(&a);
  const char *op = anfi_sprintf(w->arena, "%.*s", (int)strcspn(theirs, " "), theirs);
  return anfi_mi_put_node(w, n, anfi_mi_primitive_ref(w, op, w->out->len), a.in.n, a.in.at);
}
