// SPDX-License-Identifier: Apache-2.0
#include "sample.h"

#include <math.h>

uint32_t draw(sample *s, uint32_t n) {
  s->seed = s->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  uint64_t x = s->seed ^ (s->seed >> 29);
  return (uint32_t)(((x * UINT64_C(0xbf58476d1ce4e5b9)) >> 33) % n);
}

/* ---- types ---- */

enum { UNKNOWN = -1, BATCH = -2 }; // dims: not known; the symbol B
static const struct {
  uint32_t rank;
  int dims[3];
} shapes[] = {{0, {0}},       {1, {3}},          {2, {2, 3}},  {1, {0}},        {2, {2, 2}},
              {2, {1, 3}},    {3, {2, 3, 2}},    {1, {1}},     {2, {3, 1}},     {2, {1, 1}},
              {1, {UNKNOWN}}, {2, {UNKNOWN, 3}}, {1, {BATCH}}, {2, {BATCH, 2}}, {2, {2, 0}}};
static const anf_dtype dtypes[] = {ANF_F32, ANF_F64, ANF_I32, ANF_I64, ANF_U8, ANF_BOOL, ANF_C64};

static const anf_type *tensor_type(sample *s, anf_dtype d, size_t shape, bool fixed) {
  int64_t dims[3];
  for (uint32_t i = 0; i < shapes[shape].rank; i++) {
    dims[i] = shapes[shape].dims[i];
    if (fixed && dims[i] < 0) dims[i] = 2;
    if (dims[i] == BATCH) dims[i] = anfi_dim_symbol(s->cx, anfi_intern_z(&s->cx->strings, "B"));
  }
  return anfi_type_tensor(s->cx, d, shapes[shape].rank, dims);
}

static anf_dtype any_dtype(sample *s) { return dtypes[draw(s, ANFI_LEN(dtypes))]; }

static const anf_type *operand_type(sample *s, bool fixed) {
  anf_dtype d = draw(s, 8) ? s->dtype : any_dtype(s);
  size_t shape = draw(s, 4) ? s->shape : draw(s, ANFI_LEN(shapes));
  return tensor_type(s, d, shape, fixed);
}

/* ---- values ---- */

static double any_float(sample *s, values how) {
  static const double odd[] = {0.0,
                               -0.0,
                               1.0,
                               -1.0,
                               INFINITY,
                               -INFINITY,
                               NAN,
                               5e-324,
                               -1e-45,
                               1.17549435e-38,
                               2.2250738585072014e-308,
                               3.4028234663852886e38,
                               1.7976931348623157e308,
                               0.5,
                               2.0,
                               -3.0,
                               1e-30,
                               1.5,
                               -2.5,
                               7.0};
  if (how == ANY_BITS && draw(s, 2)) return odd[draw(s, ANFI_LEN(odd))];
  double x = 0.5 + (double)draw(s, 1 << 20) * 1.5 / (1 << 20);
  return how != TAME && draw(s, 2) ? -x : x;
}

static int64_t any_int(sample *s, values how) {
  static const int64_t odd[] = {0,         1, -1, INT64_MIN, INT64_MAX, INT32_MIN,
                                INT32_MAX, 2, 3,  255,       128,       -7};
  if (how == TAME) return 1 + draw(s, 9);
  if (how == TAME_SIGNED) return (int64_t)draw(s, 19) - 9;
  return draw(s, 2) ? odd[draw(s, ANFI_LEN(odd))]
                    : (int64_t)(((uint64_t)draw(s, 1u << 30) << 34) ^ draw(s, 1u << 30));
}

static void fill(sample *s, anf_value *v, values how) {
  anf_dtype d = (anf_dtype)v->type->dtype;
  if (d == ANF_C64) {
    for (size_t i = 0; i < 2 * v->n; i++) ((float *)(void *)v->data)[i] = (float)any_float(s, how);
    return;
  }
  for (size_t i = 0; i < v->n; i++) {
    if (anfi_dtype_is_float(d)) anfi_set_f64(v, i, any_float(s, how));
    else if (d == ANF_BOOL) anfi_set_i64(v, i, draw(s, 2));
    else anfi_set_i64(v, i, any_int(s, how));
  }
}

static const anf_type *concrete(sample *s, const anf_type *t, int64_t batch) {
  int64_t dims[ANF_MAX_RANK];
  static const int64_t some[] = {3, 1, 2, 0};
  for (uint32_t i = 0; i < t->n; i++)
    dims[i] = t->dims[i] >= 0                 ? t->dims[i]
              : t->dims[i] == ANF_DIM_UNKNOWN ? some[draw(s, 4)]
                                              : batch;
  return anfi_type_tensor(s->cx, (anf_dtype)t->dtype, t->n, dims);
}

static anf_value *argument(sample *s, const anf_type *t, values how, int64_t batch) {
  if (t->kind == ANF_TYPE_TENSOR) {
    anf_value *v = anfi_value_new_tensor(s->cx, concrete(s, t, batch));
    fill(s, v, how);
    return v;
  }
  anf_value *v = anfi_value_new_tuple(s->cx, t->n);
  anfi_value_guard(v);
  for (uint32_t i = 0; i < t->n; i++) v->u.item[i] = argument(s, t->items[i], how, batch);
  anfi_value_unguard(v);
  return v;
}

bool sample_arguments(sample *s, values how, anf_value **args) {
  int64_t batch = 2 + draw(s, 2);
  for (size_t i = 0; i < s->nparam; i++) args[i] = argument(s, s->param[i], how, batch);
  return true;
}

/* ---- operands ---- */

static anf_node *param(sample *s, const anf_type *t) {
  if (s->nparam == MAX_PARAMS) return NULL;
  char name[8];
  int len = snprintf(name, sizeof name, "p%zu", s->nparam);
  s->param[s->nparam++] = t;
  return anfi_param(s->g, anfi_intern(&s->m->strings, name, (size_t)len), t);
}

static anf_node *constant(sample *s, const anf_type *t) {
  anf_value *v = anfi_value_new_tensor(s->cx, t);
  fill(s, v, s->rule->fast ? TAME_SIGNED : ANY_BITS);
  if (draw(s, 2)) // small ones, that are equal at times
    for (size_t i = 0, x = draw(s, 3); i < v->n && t->dtype != ANF_C64; i++)
      anfi_set_i64(v, i, (int64_t)x);
  return anfi_rewrite_const(s->r, v);
}

static const anf_dtype weak[] = {ANF_INT, ANF_FLOAT};

/* Also a number of the program's text, which has no type of its own. */
static const anf_type *constant_type(sample *s) {
  return draw(s, 6) ? operand_type(s, true) : anfi_type_scalar(s->cx, weak[draw(s, 2)]);
}

static anf_node *number(sample *s, double x, bool condition) {
  anf_dtype d = condition    ? ANF_BOOL
                : draw(s, 2) ? s->dtype
                : draw(s, 4) ? weak[draw(s, 2)]
                             : any_dtype(s);
  const anf_type *t =
      draw(s, 2) ? anfi_type_scalar(s->cx, d)
                 : tensor_type(s, d, draw(s, 2) ? s->shape : draw(s, ANFI_LEN(shapes)), true);
  return anfi_rewrite_number(s->r, t, x);
}

static anf_node *tensor(sample *s, const anf_type *t) {
  size_t n;
  return draw(s, 7) == 0 && anfi_type_elements(t, &n) ? constant(s, t) : param(s, t);
}

static const anfi_attrs *names(sample *s) {
  anf_value *v = anfi_value_new_tuple(s->cx, 2);
  anfi_value_guard(v);
  v->u.item[0] = anfi_value_new_string(s->cx, "a", 1);
  v->u.item[1] = anfi_value_new_string(s->cx, "b", 1);
  anfi_value_unguard(v);
  return anfi_attrs_one(s->m, ANF_OP_MakeRecord, v);
}

static anf_node *made(sample *s, anfi_opcode op, const anf_type *a, const anf_type *b) {
  anf_node *in[2] = {tensor(s, a), tensor(s, b)};
  if (!in[0] || !in[1]) return NULL;
  return anfi_rewrite_apply(s->r, s->near, op, op == ANF_OP_MakeRecord ? names(s) : NULL, 2, in);
}

static anf_node *undef(sample *s, const anf_type *t) {
  return anfi_rewrite_apply(s->r, s->near, ANF_OP_Undef,
                            anfi_attrs_one(s->m, ANF_OP_Undef, anfi_value_new_type(s->cx, t)), 0,
                            NULL);
}

static anf_node *constant_pair(sample *s) {
  anf_value *v = anfi_value_new_tuple(s->cx, 2);
  anfi_value_guard(v);
  for (int i = 0; i < 2; i++) {
    v->u.item[i] = anfi_value_new_tensor(s->cx, tensor_type(s, s->dtype, s->shape, true));
    fill(s, v->u.item[i], ANY_BITS);
  }
  anfi_value_unguard(v);
  return anfi_rewrite_const(s->r, v);
}

/* What hooks look for: a pair that is made, chosen, constant or given. */
static anf_node *pair(sample *s) {
  const anf_type *t[2] = {tensor_type(s, s->dtype, s->shape, false), operand_type(s, false)};
  const anf_type *both = anfi_type_tuple(s->cx, 2, t);
  switch (draw(s, 5)) {
  case 0: return param(s, both);
  case 1: return constant_pair(s);
  case 2: {
    anf_node *in[3] = {param(s, anfi_type_scalar(s->cx, ANF_BOOL)),
                       made(s, ANF_OP_MakeTuple, t[0], t[1]),
                       draw(s, 3) ? made(s, ANF_OP_MakeTuple, t[0], t[1]) : undef(s, both)};
    return in[0] && in[1] && in[2] ? anfi_rewrite_apply(s->r, s->near, ANF_OP_Switch, NULL, 3, in)
                                   : NULL;
  }
  default: return made(s, ANF_OP_MakeTuple, t[0], t[1]);
  }
}

static anf_node *operand(sample *s, anfi_opcode user, uint32_t i) {
  bool choice = user == ANF_OP_Switch || user == ANF_OP_Where;
  if (choice && i == 0 && draw(s, 8))
    return param(s, user == ANF_OP_Switch
                        ? anfi_type_scalar(s->cx, ANF_BOOL)
                        : tensor_type(s, ANF_BOOL, draw(s, 2) ? s->shape : 0, false));
  if (user == ANF_OP_TupleGet || (user == ANF_OP_Switch && draw(s, 3) == 0)) return pair(s);
  if (user == ANF_OP_RecordGet)
    return made(s, ANF_OP_MakeRecord, operand_type(s, false), operand_type(s, false));
  return tensor(s, operand_type(s, false));
}

/* ---- attributes ---- */

static anf_value *some_ints(sample *s) {
  static const struct {
    size_t n;
    int64_t x[3];
  } lists[] = {{0, {0}},       {1, {0}},       {1, {1}},       {1, {-1}},      {2, {0, 1}},
               {2, {1, 0}},    {2, {-1, -2}},  {3, {0, 2, 1}}, {3, {1, 0, 2}}, {3, {1, 2, 0}},
               {3, {0, 1, 2}}, {1, {3}},       {2, {2, 3}},    {2, {3, 2}},    {1, {6}},
               {2, {1, 3}},    {1, {1}},       {2, {1, 1}},    {3, {2, 3, 2}}, {3, {2, 1, 3}},
               {2, {0, 3}},    {1, {-1}},      {2, {-1, 3}},   {2, {2, 2}},    {1, {4}},
               {1, {0}},       {3, {1, 2, 3}}, {2, {2, 0}}};
  size_t k = draw(s, ANFI_LEN(lists));
  return lists[k].n == 1 && draw(s, 2) ? anfi_value_new_i64(s->cx, ANF_INT, lists[k].x[0])
                                       : anfi_value_new_ints(s->cx, lists[k].n, lists[k].x);
}

static anf_value *some_type(sample *s) {
  const anf_type *t = tensor_type(s, s->dtype, s->shape, false),
                 *two[2] = {t, operand_type(s, false)};
  return anfi_value_new_type(s->cx, draw(s, 2) ? t : anfi_type_tuple(s->cx, 2, two));
}

static uint32_t operands_of(const char *equation) {
  uint32_t n = 1;
  for (const char *c = equation; *c; c++) n += *c == ',';
  return n;
}

/* Of as many operands. */
static const char *some_equation(sample *s, uint32_t operands) {
  static const char *const equations[] = {"ij,jk->ik",
                                          "ij,kj->ki",
                                          "ji,j->i",
                                          "i,ij->j",
                                          "i,i->",
                                          "abc,bac->bc",
                                          "ij,ij->ij",
                                          "ij,ij->i",
                                          "aij,ajk->aki",
                                          "ijk,kj->i",
                                          "ab,bc",
                                          "...a,a->...",
                                          "ij->",
                                          "ij->j",
                                          "abc->ca",
                                          "i->",
                                          "ii->",
                                          "ij,jk,k->i",
                                          "i,ij,j->",
                                          "ij,jk,kl->li",
                                          "i,j,k->ki",
                                          "ij,jk,kl,li->",
                                          "i,ij,jk,k->",
                                          "ij,jk,k,i->j",
                                          "ij,jk,kl,lm,mi->",
                                          "ij,jk,kl,lm,mn->ni",
                                          "ij,ij,jk,kl,lk->i",
                                          "ij,kj,kl,ml,mn->in"};
  const char *text = equations[0];
  for (int i = 0; i < 64; i++) {
    text = equations[draw(s, ANFI_LEN(equations))];
    if (operands_of(text) == operands) break;
  }
  return text;
}

static anf_value *some_text(sample *s, const anfi_attr_schema *a, uint32_t operands) {
  static const char *const names[] = {"a", "b"};
  bool equation = strcmp(a->name->s, "equation") == 0;
  const char *text = equation ? some_equation(s, operands) : names[draw(s, 2)];
  return anfi_value_new_string(s->cx, text, strlen(text));
}

static anf_value *some_attribute(sample *s, const anfi_attr_schema *a, uint32_t operands) {
  static const int64_t small[] = {0, 1, -1, 2, -2, 3};
  if (a->optional && draw(s, 3) == 0) return anfi_value_new_none(s->cx);
  switch (a->type) {
  case ANFI_ATTR_INT: return anfi_value_new_i64(s->cx, ANF_INT, small[draw(s, ANFI_LEN(small))]);
  case ANFI_ATTR_BOOL: return anfi_value_new_i64(s->cx, ANF_BOOL, draw(s, 2));
  case ANFI_ATTR_FLOAT: return anfi_value_new_f64(s->cx, ANF_FLOAT, 0.25 * draw(s, 9));
  case ANFI_ATTR_STR: return some_text(s, a, operands);
  case ANFI_ATTR_DTYPE:
    return anfi_value_new_type(s->cx,
                               anfi_type_scalar(s->cx, draw(s, 2) ? s->dtype : any_dtype(s)));
  case ANFI_ATTR_INTS: return some_ints(s);
  case ANFI_ATTR_ANY: break;
  }
  return some_type(s);
}

static bool attributes(sample *s, const anfi_pat *p, const anfi_attrs **out) {
  const anfi_schema *sc = anfi_op_schema(s->cx, p->op);
  anf_value **v = ANFI_NEW_N(s->r->arena, anf_value *, sc->nattr + 1);
  for (uint32_t i = 0; i < p->nattr; i++) {
    int var = p->attr[i].var;
    if (var >= 0 && !s->value[var])
      anfi_hold(s->m, s->value[var] = some_attribute(s, &sc->attr[p->attr[i].index], p->n));
    v[p->attr[i].index] = var < 0 ? p->attr[i].value : s->value[var];
  }
  return anfi_attrs_new(s->m, p->op, v, anfi_nowhere(), out);
}

/* ---- the left side ---- */

/* As deep as the pattern. */
static anf_node *instance(sample *s, const anfi_pat *p, anfi_opcode user, uint32_t at) {
  bool condition = at == 0 && (user == ANF_OP_Switch || user == ANF_OP_Where);
  if (p->kind == ANFI_PAT_NUMBER) return number(s, p->number, condition);
  if (p->kind == ANFI_PAT_VAR || p->kind == ANFI_PAT_CONST_VAR) {
    if (!s->var[p->var])
      s->var[p->var] =
          p->kind == ANFI_PAT_VAR ? operand(s, user, at) : constant(s, constant_type(s));
    return s->var[p->var];
  }
  anf_node *in[16];
  const anfi_attrs *attrs = NULL;
  for (uint32_t i = 0; i < p->n; i++)
    if (!(in[i] = instance(s, p->in[i], p->op, i))) return NULL;
  if (p->nattr && !attributes(s, p, &attrs)) return NULL;
  return anfi_rewrite_apply(s->r, s->near, p->op, attrs, p->n, in);
}

bool sample_draw(sample *s) {
  s->m = anfi_module_new(s->cx);
  s->r->m = s->r->pass->m = s->m;
  s->g = anfi_graph_new(s->m, anfi_intern_z(&s->m->strings, "f"));
  s->nparam = 0;
  memset(s->var, 0, sizeof s->var);
  memset(s->value, 0, sizeof s->value);
  s->dtype = any_dtype(s);
  s->shape = draw(s, ANFI_LEN(shapes));
  s->near = param(s, anfi_type_scalar(s->cx, ANF_BOOL));
  s->root = instance(s, s->rule->lhs, ANF_OP_NONE, 0);
  if (s->root) anfi_set_result(s->g, s->root);
  return s->root != NULL;
}
