// SPDX-License-Identifier: Apache-2.0
/* x[...] and x.name.
 * A subscript that only a tensor can have becomes Take, Slice and ExpandDims, one a part. Where x
 * may be a tuple too, where index tensors may meet (whose dims NumPy moves together), or where a
 * slice has bounds that are not constant, one op GetItem carries the whole subscript in its attribute `spec`, and its other inputs are the parts
 * that are not constant: 3 or i      an index: a constant, or the next input a:b:c       a slice,
 * whose parts are constants, i, or nothing
 *   ... and n   the dims that no other part takes; a new axis */
#include "frontend/anf/anf.h"
#include "ir/ops/array/getitem.h"

typedef enum { P_INDEX, P_SLICE, P_NEW, P_DOTS } kind;
typedef struct {
  kind kind;
  const ast *e;
  anf_node *v[3]; // an index, or start, stop, step; NULL: absent
} part;

typedef struct {
  part *at;
  size_t n, dots; // dots: the index of `...`, or n
  size_t tensors; // indices that may be tensors
  size_t scalars; // constant integers
  bool surely;    // x can only be a tensor
} subscript;

static bool is_int(const anf_node *n, int64_t *k) {
  return n->kind == ANFI_VALUE && anfi_value_is_int(n->u.value, k);
}
static bool is_none(const anf_node *n) {
  return n->kind == ANFI_VALUE && n->u.value->kind == ANF_VALUE_NONE;
}

static bool lower_slice(lower *lw, part *p) {
  p->kind = P_SLICE;
  for (int k = 0; k < 3; k++) {
    anf_node *v = p->e->kid[k] ? anfi_anf_expr(lw, p->e->kid[k]) : NULL;
    if (v == lw->bad) return false;
    p->v[k] = v && is_none(v) ? NULL : v;
  }
  return true;
}

static bool lower_index(lower *lw, subscript *s, part *p) {
  int64_t ignored;
  p->v[0] = anfi_anf_expr(lw, p->e);
  if (p->v[0] == lw->bad) return false;
  p->kind = is_none(p->v[0]) ? P_NEW : P_INDEX;
  bool constant = p->kind == P_INDEX && is_int(p->v[0], &ignored);
  s->scalars += constant;
  s->tensors += p->kind == P_INDEX && !constant;
  return true;
}

static bool lower_parts(lower *lw, subscript *s, const ast *index) {
  s->n = s->dots = index->n;
  s->at = ANFI_NEW_N(lw->p->a, part, s->n);
  if (!s->n) return anfi_fail(lw->cx, anfi_anf_loc(lw, index), ANF_E0140);
  for (size_t i = 0; i < s->n; i++) {
    part *p = &s->at[i];
    p->e = index->kid[i];
    if (p->e->kind == A_ELLIPSIS) {
      if (s->dots < i) return anfi_fail(lw->cx, anfi_anf_loc(lw, p->e), ANF_E0139);
      p->kind = P_DOTS;
      s->dots = i;
    } else if (!(p->e->kind == A_SLICE ? lower_slice(lw, p) : lower_index(lw, s, p))) return false;
    s->surely |= p->kind == P_NEW || p->kind == P_DOTS;
  }
  s->surely |= s->n > 1 || (index->flags & A_COMMA);
  return true;
}

/* ---- one op a part ---- */

/* An op on x with one further input or none, its attributes by name; nodes become attribute inputs.
 */
typedef struct {
  const char *name;
  anf_node *v;
} attribute;

static anf_node *apply(lower *lw, const ast *e, anfi_opcode op, size_t nin, anf_node *const *in,
                       size_t n, const attribute *a) {
  const anfi_schema *s = anfi_op_schema(lw->cx, op);
  anf_value **values = ANFI_NEW_N(lw->p->a, anf_value *, s->nattr);
  anf_node **all = ANFI_NEW_N(lw->p->a, anf_node *, nin + s->nattr);
  for (size_t i = 0; i < n; i++) {
    int k = anfi_attr_index(lw->cx, op, a[i].name);
    if (a[i].v) values[k] = anfi_anf_is_const(a[i].v) ? a[i].v->u.value : &anfi_from_node;
  }
  const anfi_attrs *at;
  if (!anfi_attrs_new(lw->m, op, values, anfi_anf_loc(lw, e), &at)) return lw->bad;
  memcpy(all, in, nin * sizeof *in);
  for (uint32_t k = 0; k < s->nattr; k++)
    for (size_t i = 0; i < n; i++)
      if (values[k] == &anfi_from_node && strcmp(s->attr[k].name->s, a[i].name) == 0)
        all[nin++] = a[i].v;
  return anfi_anf_at(lw, anfi_apply(lw->g, op, at, nin, all), e);
}

static anf_node *number(lower *lw, int64_t k) {
  return anfi_value(lw->m, anfi_value_new_i64(lw->cx, ANF_INT, k));
}

static anf_node *one_part(lower *lw, const part *p, anf_node *x, int64_t axis) {
  attribute at[] = {{"axis", NULL}, {"start", p->v[0]}, {"stop", p->v[1]}, {"step", p->v[2]}};
  bool whole = p->kind == P_SLICE && !p->v[0] && !p->v[1] && !p->v[2];
  if (x == lw->bad || p->kind == P_DOTS || whole) return x;
  at[0].v = number(lw, axis);
  if (p->kind == P_INDEX) return apply(lw, p->e, ANF_OP_Take, 2, (anf_node *[]){x, p->v[0]}, 1, at);
  if (p->kind == P_NEW) return apply(lw, p->e, ANF_OP_ExpandDims, 1, &x, 1, at);
  return apply(lw, p->e, ANF_OP_Slice, 1, &x, 4, at);
}

/* From the left up to `...`, then from the right with axes counted from the end. */
static anf_node *part_by_part(lower *lw, const subscript *s, anf_node *x) {
  int64_t axis = 0, back = -1;
  for (size_t i = 0; i < s->dots; i++) {
    x = one_part(lw, &s->at[i], x, axis);
    if (s->at[i].kind != P_INDEX || !anfi_anf_is_const(s->at[i].v[0])) axis++;
  }
  for (size_t i = s->n; i-- > s->dots + 1;) {
    x = one_part(lw, &s->at[i], x, back);
    if (s->at[i].kind != P_INDEX || !anfi_anf_is_const(s->at[i].v[0])) back--;
  }
  return x;
}

/* ---- the whole subscript ---- */

static void put_number(lower *lw, anf_text *spec, anf_node *v, anf_node **in, size_t *nin) {
  int64_t k;
  (void)lw;
  if (is_int(v, &k)) anfi_put_i64(spec, k);
  else anfi_putc(spec, 'i'), in[(*nin)++] = v;
}

static void put_spec(lower *lw, const subscript *s, bool comma, anf_text *spec, anf_node **in,
                     size_t *nin) {
  for (size_t i = 0; i < s->n; i++) {
    const part *p = &s->at[i];
    if (i) anfi_putc(spec, ',');
    if (p->kind == P_DOTS) anfi_puts(spec, "...");
    if (p->kind == P_NEW) anfi_putc(spec, 'n');
    if (p->kind == P_INDEX) put_number(lw, spec, p->v[0], in, nin);
    for (int k = 0; p->kind == P_SLICE && k < 3; k++) {
      if (k == 1 || (k == 2 && p->v[2])) anfi_putc(spec, ':');
      if (p->v[k]) put_number(lw, spec, p->v[k], in, nin);
    }
  }
  if (comma && s->n == 1) anfi_putc(spec, ',');
}

static anf_node *get_item(lower *lw, const ast *e, const subscript *s, anf_node *x) {
  anf_text *spec = ANFI_NEW(lw->p->a, anf_text);
  anf_node **in = ANFI_NEW_N(lw->p->a, anf_node *, 3 * s->n + 1);
  size_t nin = 1;
  in[0] = x;
  spec->cx = lw->cx;
  anfi_defer(lw->cx, ANFI_ALWAYS, anfi_free_text, spec);
  put_spec(lw, s, e->flags & A_COMMA, spec, in, &nin);
  anf_value *v = anfi_value_new_string(lw->cx, spec->text, spec->len);
  anfi_hold(lw->m, v);
  const anfi_attrs *at = NULL;
  if (!anfi_attrs_new(lw->m, ANF_OP_GetItem, &v, anfi_anf_loc(lw, e), &at)) return lw->bad;
  return anfi_anf_at(lw, anfi_apply(lw->g, ANF_OP_GetItem, at, nin, in), e);
}

/* A constant index of a known tuple. */
static bool tuple_item(lower *lw, const ast *e, const subscript *s, anf_node *x, anf_node **out) {
  const anf_value *v = x->kind == ANFI_VALUE ? x->u.value : NULL;
  bool typed = x->type && x->type->kind == ANF_TYPE_TUPLE, built = anfi_is_op(x, ANF_OP_MakeTuple);
  int64_t k;
  if (!(typed || built || (v && v->kind == ANF_VALUE_TUPLE)) || s->surely) return false;
  if (s->at[0].kind != P_INDEX || !is_int(s->at[0].v[0], &k)) return false;
  int64_t n = (int64_t)(v ? v->n : built ? x->nin : x->type->n);
  if (k < -n || k >= n) return false; // its own error, when it is typed or runs
  *out = anfi_anf_tuple_get(lw, e, x, (size_t)(k < 0 ? k + n : k));
  return true;
}

/* Bounds that are not constant: two of them may differ by a constant, which inference finds. */
static bool has_open_slice(const subscript *s) {
  for (size_t i = 0; i < s->n; i++)
    for (int k = 0; s->at[i].kind == P_SLICE && k < 3; k++)
      if (s->at[i].v[k] && !anfi_anf_is_const(s->at[i].v[k])) return true;
  return false;
}

/* One op a part: with no index that may be a tensor; or one, after which no axis is counted, and no
 * constant index, which would take part in NumPy's rule for where the dims go. */
static bool can_split(const subscript *s) {
  if (has_open_slice(s)) return false;
  if (!s->tensors) return true;
  if (s->tensors > 1 || s->scalars) return false;
  size_t last = s->dots ? s->dots - 1 : 0, first = s->dots + 1;
  for (size_t i = 0; i < s->n; i++)
    if (s->at[i].kind == P_INDEX) return (i < s->dots && i == last) || i == first;
  return false;
}

anf_node *anfi_anf_index(lower *lw, anf_node *x, const ast *index) {
  subscript s = {0};
  anf_node *out;
  if (!lower_parts(lw, &s, index)) return lw->bad;
  if (tuple_item(lw, index, &s, x, &out)) return out;
  bool tensor = s.surely || (x->type && x->type->kind == ANF_TYPE_TENSOR);
  return tensor && can_split(&s) ? part_by_part(lw, &s, x) : get_item(lw, index, &s, x);
}

/* ---- x.name ---- */

anf_node *anfi_anf_field(lower *lw, anf_node *x, const ast *field) {
  if (field->kind != A_FIELD) return lw->bad;
  const anfi_str *w = anfi_anf_name(lw, field->u.word);
  anfi_opcode op = anfi_is_tensor_field(w->s) ? ANF_OP_GetField : ANF_OP_RecordGet;
  anf_value *v = anfi_value_new_string(lw->cx, w->s, w->len);
  anfi_hold(lw->m, v);
  const anfi_attrs *at = NULL;
  if (!anfi_attrs_new(lw->m, op, &v, anfi_anf_loc(lw, field), &at)) return lw->bad;
  return anfi_anf_at(lw, anfi_apply(lw->g, op, at, 1, &x), field);
}
