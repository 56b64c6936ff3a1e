// SPDX-License-Identifier: Apache-2.0
/* Subscripts with computed bounds:
 *   x[a:b], a = 2, b = n - 1 known     ->  x[2:n-1], constants in the subscript
 *   x[i:i+3]                           ->  a slice of static size 3 at offset i (window.c)
 * so that the size of the result is static. */
#include "ir/ops/array/getitem.h"
#include "optimizer/infer/rules.h"

/* One number of a part: as it stands, or the known value of the input. */
static void put_number(anf_text *o, const anfi_part *p, int k, const anfi_abs *const *in,
                       bool *gone) {
  int64_t v = p->v[k];
  if (p->given[k] == ANFI_ABSENT) return;
  bool input = p->given[k] == ANFI_INPUT;
  bool known = input && p->kind == ANFI_PART_SLICE && anfi_abs_int(in[p->v[k]], &v);
  if (known) gone[p->v[k]] = true;
  if (input && !known) anfi_putc(o, 'i');
  else anfi_putf(o, "%lld", (long long)v);
}

static void put_part(anf_text *o, const anfi_part *p, const anfi_abs *const *in, bool *gone) {
  if (p->kind == ANFI_PART_NEW) anfi_putc(o, 'n');
  if (p->kind == ANFI_PART_DOTS) anfi_puts(o, "...");
  for (int k = 0; k < 3; k++) {
    if (k && p->kind == ANFI_PART_SLICE && (k == 1 || p->given[2])) anfi_putc(o, ':');
    put_number(o, p, k, in, gone);
  }
}

/* ---- x[i:i+3] ---- */

/* The dim of x that part i is about. */
static int64_t axis_of(const anfi_subscript *s, size_t i, const anf_type *x) {
  int64_t before = 0, after = 0;
  bool dots = false;
  for (size_t k = 0; k < s->n; k++) {
    bool takes = s->part[k].kind == ANFI_PART_INDEX || s->part[k].kind == ANFI_PART_SLICE;
    dots |= s->part[k].kind == ANFI_PART_DOTS && k < i;
    if (k < i) before += takes;
    else after += takes;
  }
  return dots ? (int64_t)x->n - after : before;
}

/* Is the number of elements of part i, both of whose bounds are computed, the same for every value of them? */
static bool is_window(anfi_inference *q, const anfi_spec *spec, const anfi_part *p,
                      const anf_node *at, anfi_window *w) {
  if (!anfi_is_op(at, ANF_OP_GetItem)) return false;
  w->start = (size_t)p->v[0];
  w->size = anfi_distance(q, spec, at->in[p->v[0]].def, at->in[p->v[1]].def);
  return w->size > 0;
}

/* Windows are checked when the program runs (emit_window), other bounds that are known here. */
static bool find_windows(anfi_inference *q, const anfi_spec *spec, anfi_subscript *s,
                         const anfi_abs *const *in, const anf_node *at, anfi_bounds *b) {
  const anf_type *x = in[0]->kind == ANFI_ABS_DATA ? in[0]->type : NULL;
  if (!x || x->kind != ANF_TYPE_TENSOR) return true;
  for (size_t i = 0; i < s->n; i++) {
    anfi_part *p = &s->part[i];
    anfi_window *w = &b->window[b->nwindow];
    if (p->kind != ANFI_PART_SLICE || p->given[0] != ANFI_INPUT || p->given[1] != ANFI_INPUT ||
        p->given[2])
      continue;
    w->axis = axis_of(s, i, x);
    if (w->axis < 0 || w->axis >= (int64_t)x->n || x->dims[w->axis] < 0) continue;
    int64_t from = 0, to = 0, length = x->dims[w->axis];
    bool known = anfi_abs_int(in[p->v[0]], &from);
    bool both = known && anfi_abs_int(in[p->v[1]], &to);
    if (both && anfi_slice_allowed(p, from, to, length)) continue;
    if (b->nwindow == ANF_MAX_RANK) continue;
    if (!is_window(q, spec, p, at, w)) {
      if (!both) continue;
      return anfi_fail(q->cx, anfi_node_loc(at), ANF_E0406, "GetItem", (long long)from,
                       (long long)length);
    }
    for (int k = 0; k < 2; k++) b->gone[p->v[k]] = true, p->given[k] = ANFI_ABSENT;
    b->nwindow++;
  }
  return true;
}

bool anfi_find_bounds(anfi_inference *q, const anfi_spec *spec, const anf_value *subscript,
                      size_t n, const anfi_abs *const *in, const anf_node *at, anfi_bounds *b) {
  anfi_subscript s;
  bool any = false;
  *b = (anfi_bounds){.gone = ANFI_NEW_N(q->arena, bool, n)};
  if (n < 2 || !anfi_subscript_read(q->cx, anfi_node_loc(at), subscript, n, &s)) return false;
  if (!find_windows(q, spec, &s, in, at, b)) return false;
  anf_text *o = anfi_text_begin(q->cx);
  for (size_t i = 0; i < s.n; i++) {
    if (i) anfi_putc(o, ',');
    put_part(o, &s.part[i], in, b->gone);
    for (int k = 0; s.part[i].kind == ANFI_PART_SLICE && k < 3; k++)
      b->open |= s.part[i].given[k] == ANFI_INPUT && !b->gone[s.part[i].v[k]];
  }
  for (size_t i = 0; i < n; i++) any |= b->gone[i];
  b->subscript = any ? anfi_value_new_string(q->cx, o->text, o->len) : NULL;
  if (any) anfi_defer(q->cx, ANFI_ALWAYS, anfi_release, b->subscript);
  anfi_text_done(o);
  return any;
}
