// SPDX-License-Identifier: Apache-2.0
/* Inference of single ops: where all rules begin.
 *   Add(f32[2,3], f32[3])                f32[2,3]: by the row's infer hook (data.c)
 *   TupleGet((f, 3), 0)                  f: tuples and functions are abstract values (nest.c)
 *   x[i:i+3], x: f32[n]                  f32[3]: bounds that differ by a number are a window (bounds.c)
 * What an op of the same arguments gave is remembered. */
#include "optimizer/infer/ops/ops.h"

const anfi_abs *anfi_refuse_op(const anfi_applied *p, anfi_code code, const char *a,
                               const char *b) {
  anfi_fail(p->q->cx, anfi_node_loc(p->at), code, a, b);
  anfi_infer_trace(p->q);
  return NULL;
}

/* Takes the reference. (A guard would not do: the abstract value is released at the end of the frame, too.) */
const anfi_abs *anfi_op_constant(const anfi_applied *p, anf_value *v) {
  anfi_defer(p->q->cx, ANFI_ALWAYS, anfi_release, v);
  return anfi_abs_const(&p->q->abs, v);
}

/* ---- attributes ---- */

/* Is an input that gives an attribute or an index not known yet, as of a call that was not visited? */
static bool attributes_wait(const anfi_applied *p) {
  size_t nodes = 0;
  for (uint32_t k = 0; p->attrs && k < p->attrs->n; k++)
    nodes += p->attrs->at[k] == &anfi_from_node;
  for (size_t i = p->op == ANF_OP_GetItem ? 1 : p->n - nodes; i < p->n; i++)
    if (p->in[i]->partial) return true;
  return false;
}

/* Attribute values: constants of the node, or inputs whose abs must be constant. */
static bool find_attrs(anfi_applied *p, size_t n) {
  anfi_inference *q = p->q;
  const anfi_schema *s = anfi_op_schema(q->cx, p->op);
  uint32_t nodes = 0;
  for (uint32_t k = 0; p->attrs && k < p->attrs->n; k++)
    nodes += p->attrs->at[k] == &anfi_from_node;
  p->n = n - nodes;
  p->attr = s->nattr ? ANFI_NEW_N(q->arena, anf_value *, s->nattr) : NULL;
  size_t next = p->n;
  for (uint32_t k = 0; k < s->nattr; k++) {
    p->attr[k] = anfi_attr_value(q->cx, p->op, p->attrs, k);
    if (p->attr[k]) continue;
    const anfi_abs *a = p->in[next++];
    p->attr[k] = anfi_abs_value(q->cx, a);
    if (!p->attr[k])
      return anfi_demand(q, (anfi_demanded){p->at, s->attr[k].name->s, s->name->s, NULL}, p->n);
    anfi_defer(q->cx, ANFI_ALWAYS, anfi_release, p->attr[k]);
    if (!anfi_attr_check(q->cx, p->op, k, p->attr[k], anfi_node_loc(p->at))) return false;
  }
  return true;
}

/* ---- any op ---- */

/* The type of x once windows are taken of it. */
static const anfi_abs *windows_of(const anfi_applied *p, const anfi_bounds *b) {
  const anf_type *x = p->in[0]->type;
  int64_t dims[ANF_MAX_RANK];
  memcpy(dims, x->dims, x->n * sizeof *dims);
  for (size_t i = 0; i < b->nwindow; i++) dims[b->window[i].axis] = b->window[i].size;
  return anfi_abs_data(&p->q->abs, anfi_type_tensor(p->q->cx, (anf_dtype)x->dtype, x->n, dims));
}

static const anfi_abs *tensor_item(anfi_applied *p) {
  anfi_arena *a = p->q->arena;
  anfi_bounds b;
  bool known = anfi_find_bounds(p->q, p->q->now, p->attr[0], p->n, p->in, p->at, &b);
  if (!known && anfi_failed(p->q->cx)) return anfi_infer_trace(p->q), NULL;
  if (b.open && anfi_wish(p->q, p->at)) return NULL;
  if (!known) return anfi_infer_data(p);
  const anfi_abs **in = ANFI_NEW_N(a, const anfi_abs *, p->n);
  size_t n = 0;
  for (size_t i = 0; i < p->n; i++)
    if (!b.gone[i]) in[n++] = p->in[i];
  if (b.nwindow) in[0] = windows_of(p, &b);
  p->attr[0] = b.subscript;
  p->in = in;
  p->n = n;
  return anfi_infer_data(p);
}

static const anfi_abs *apply(anfi_inference *q, anfi_opcode op, const anfi_attrs *attrs, size_t n,
                             const anfi_abs *const *in, anf_node *at) {
  anfi_applied p = {.q = q, .op = op, .attrs = attrs, .n = n, .in = in, .at = at};
  if (anfi_op_makes_function(op)) {
    if (!anfi_is_of_function(q, op, n, in, at)) return NULL;
    const anfi_abs *code = anfi_abs_code(&q->abs, NULL, (uint16_t)op, attrs, n, in);
    return anfi_abs_fn1(&q->abs, code);
  }
  if (attributes_wait(&p)) return q->abs.bottom;
  if (!find_attrs(&p, n)) return anfi_infer_trace(q), NULL;
  anfi_op_rule *rule = anfi_nest_rule(&p);
  if (rule) return rule(&p);
  return op == ANF_OP_GetItem ? tensor_item(&p) : anfi_infer_data(&p);
}

/* The cache entry of the result for these arguments. It depends on nothing else, unless the node's
 * value is needed, which is then computed, or bounds may be nodes that differ by a number. */
static anfi_known *known_place(anfi_inference *q, anfi_opcode op, const anfi_attrs *attrs, size_t n,
                               const anfi_abs *const *in, const anf_node *at) {
  if (n > ANFI_KNOWN_ARGS || q->need[at->id] || op == ANF_OP_GetItem) return NULL;
  uint64_t h = anfi_hash_mix(op, anfi_key(attrs));
  for (size_t i = 0; i < n; i++) h = anfi_hash_mix(h, in[i]->id);
  return &q->known[h % ANFI_KNOWN];
}

const anfi_abs *anfi_infer_apply(anfi_inference *q, anfi_opcode op, const anfi_attrs *attrs,
                                 size_t n, const anfi_abs *const *in, anf_node *at) {
  if (anfi_op_is_meta(op))
    return anfi_infer_meta(q, op, attrs, n, in, at); // its calls have effects here
  anfi_known *k = known_place(q, op, attrs, n, in, at);
  size_t bytes = n * sizeof *in;
  if (k && k->result && k->op == op && k->attrs == attrs && k->n == n &&
      memcmp(k->in, in, bytes) == 0)
    return k->result;
  const anfi_abs *r = apply(q, op, attrs, n, in, at);
  if (!k || !r) return r;
  *k = (anfi_known){.op = op, .n = (uint32_t)n, .attrs = attrs, .result = r};
  memcpy(k->in, in, bytes);
  return r;
}
