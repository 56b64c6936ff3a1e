// SPDX-License-Identifier: Apache-2.0
/* x[...] and x.name. What x is, a tuple, a record or a tensor, is often not known here: so one op
 * GetItem carries the whole subscript in its attribute `spec`, and its other inputs are the parts that
 * are not constant. spec: parts with commas between, each
 *   3 or i      an index: a constant, or the next input
 *   a:b:c       a slice, whose parts are constants, i, or nothing
 *   ... and n   the dims that no other part takes; a new axis */
#include "frontend/anf/anf.h"

typedef struct {
  anf_text spec;
  anf_node **in;
  size_t nin;
  bool bad;
} subscript;

static void free_text(void *t) { anf_text_free((anf_text *)t); }

/* A constant integer goes into the spec, anything else is an input. */
static void put_part(lower *lw, subscript *s, const ast *e) {
  anf_node *v = anfi_lower_expr(lw, e);
  int64_t k;
  s->bad |= v == lw->bad;
  if (v->kind == ANFI_VALUE && anfi_value_is_int(v->u.value, &k)) anfi_put_i64(&s->spec, k);
  else if (v->kind == ANFI_VALUE && v->u.value->kind == ANF_VALUE_NONE) anfi_putc(&s->spec, 'n');
  else anfi_putc(&s->spec, 'i'), s->in[s->nin++] = v;
}

static void put_slice(lower *lw, subscript *s, const ast *e) {
  for (int k = 0; k < 3; k++) {
    bool none = e->kid[k] && e->kid[k]->kind == A_WORD && e->kid[k]->op == W_None;
    if (k == 1 || (k == 2 && e->kid[2])) anfi_putc(&s->spec, ':');
    if (e->kid[k] && !none) put_part(lw, s, e->kid[k]);
  }
}

static bool check_ellipsis(lower *lw, const ast *index) {
  bool seen = false;
  for (uint32_t i = 0; i < index->n; i++) {
    if (index->kid[i]->kind != A_ELLIPSIS) continue;
    if (seen) return anfi_fail(lw->cx, anfi_lower_loc(lw, index->kid[i]), ANF_E0139);
    seen = true;
  }
  return index->n > 0 || anfi_fail(lw->cx, anfi_lower_loc(lw, index), ANF_E0140);
}

static void put_parts(lower *lw, subscript *s, const ast *index) {
  for (uint32_t i = 0; i < index->n; i++) {
    const ast *e = index->kid[i];
    if (i) anfi_putc(&s->spec, ',');
    if (e->kind == A_SLICE) put_slice(lw, s, e);
    else if (e->kind == A_ELLIPSIS) anfi_puts(&s->spec, "...");
    else put_part(lw, s, e);
  }
}

static anf_node *get_item(lower *lw, const ast *e, const subscript *s) {
  anfi_opcode op = anfi_op_find(lw->cx, "GetItem", 7);
  if (op == ANF_OP_NONE) return anfi_fail(lw->cx, anfi_lower_loc(lw, e), ANF_E0201, "GetItem"), lw->bad;
  anf_value *v = anfi_value_new_string(lw->cx, s->spec.text, s->spec.len);
  anfi_hold(lw->m, v);
  const anfi_attrs *at = NULL;
  if (!anfi_attrs_new(lw->m, op, &v, anfi_lower_loc(lw, e), &at)) return lw->bad;
  return anfi_lower_at(lw, anfi_apply(lw->g, op, at, s->nin, s->in), e);
}

/* A constant index of a tuple that is known to be one. */
static bool tuple_item(lower *lw, const ast *index, anf_node *x, const ast *e, anf_node **out) {
  const anf_value *v = x->kind == ANFI_VALUE ? x->u.value : NULL;
  bool tuple = anfi_is_op(x, ANF_OP_MakeTuple) || (v && v->kind == ANF_VALUE_TUPLE);
  if (!tuple || e->kind != A_INT || index->n != 1) return false;
  size_t n = v ? v->n : x->nin;
  if (e->u.u64 >= n + e->op) return false; // its own error, when it runs
  *out = anfi_lower_tuple_get(lw, index, x, e->op ? n - (size_t)e->u.u64 : (size_t)e->u.u64);
  return true;
}

anf_node *anfi_lower_index(lower *lw, anf_node *x, const ast *index) {
  anf_node *out;
  if (!check_ellipsis(lw, index)) return lw->bad;
  if (tuple_item(lw, index, x, index->kid[0], &out)) return out;
  subscript *s = ANFI_NEW(lw->p->a, subscript);
  s->spec.cx = lw->cx;
  s->in = ANFI_NEW_N(lw->p->a, anf_node *, 3 * (size_t)index->n + 1);
  s->in[s->nin++] = x;
  anfi_defer(lw->cx, ANFI_ALWAYS, free_text, &s->spec);
  put_parts(lw, s, index);
  if (index->n == 1 && (index->flags & A_COMMA)) anfi_putc(&s->spec, ',');
  return s->bad ? lw->bad : get_item(lw, index, s);
}

/* ---- x.name ---- */

anf_node *anfi_lower_field(lower *lw, anf_node *x, const ast *field) {
  anfi_opcode op = anfi_op_find(lw->cx, "GetField", 8);
  if (op == ANF_OP_NONE) op = ANF_OP_RecordGet;
  const anfi_str *w = anfi_lower_name(lw, field->u.word);
  anf_value *v = anfi_value_new_string(lw->cx, w->s, w->len);
  anfi_hold(lw->m, v);
  const anfi_attrs *at = NULL;
  if (!anfi_attrs_new(lw->m, op, &v, anfi_lower_loc(lw, field), &at)) return lw->bad;
  return anfi_lower_at(lw, anfi_apply(lw->g, op, at, 1, &x), field);
}
