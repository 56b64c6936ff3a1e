// SPDX-License-Identifier: Apache-2.0
/* Calls with derivative rules of their own: Checkpoint, CustomVjp, CustomJvp.
 *   checkpoint(f)(x)                     ->  Recompute(f, x)
 *   custom_vjp(f, fwd, bwd)(x)           ->  Custom(f, fwd, bwd, environments.., x) */
#include "optimizer/infer/transform.h"

/* The first error in the attributes of a Checkpoint, or NULL. */
static const char *bad_checkpoint(const walk *w, const anfi_attrs *attrs) {
  anf_value *v[4];
  for (uint32_t k = 0; k < 4; k++) v[k] = anfi_attr_value(w->q->cx, ANF_OP_Checkpoint, attrs, k);
  const char *keep = v[0]->u.text;
  int64_t rounds = anfi_get_i64(v[1], 0), memory = anfi_get_i64(v[2], 0);
  if (strcmp(keep, "arguments") != 0 && strcmp(keep, "products") != 0 && strcmp(keep, "all") != 0)
    return "keep is \"arguments\", \"products\" or \"all\"";
  if (rounds < 0 || memory < 0) return "rounds and memory are not negative";
  if (rounds && memory) return "rounds or memory is given, not both";
  return !rounds && !memory && anfi_get_i64(v[3], 0) ? "tree needs rounds or memory" : NULL;
}

part anfi_part_checkpoint(const walk *w, const anfi_attrs *attrs, part f, size_t n,
                          const part *args) {
  const char *bad = bad_checkpoint(w, attrs);
  if (bad) return anfi_transform_fail(w, ANF_E0537, bad, "");
  const anfi_abs *y = anfi_part_value_abs(w, f, n, args);
  if (!y || y->kind == ANFI_ABS_BOTTOM || !w->e) return (part){y, f.node};
  anf_graph *t = anfi_emit_target(w->e, f, n, args, y, w->at);
  if (!t) return failed();
  anf_node **in = ANFI_NEW_N(w->q->arena, anf_node *, n + 2);
  in[0] = anfi_graph_value(t);
  memcpy(in + 1, anfi_derive_inputs(w, f, n, args, 0, NULL), (n + 1) * sizeof *in);
  anf_node *r =
      anfi_emit_apply(w->e, ANF_OP_Recompute, attrs, anfi_abs_type(&w->q->abs, y), n + 2, in);
  return (part){y, anfi_emit_effect(w->e, r)};
}

static anf_node *emit_custom(const walk *w, const char *kind, anf_graph *const *graph,
                             const part *data, size_t n, const part *args, const anfi_abs *y) {
  anf_node **in = ANFI_NEW_N(w->q->arena, anf_node *, n + 6);
  for (size_t i = 0; i < 3; i++) {
    if (!graph[i]) return NULL;
    in[i] = anfi_graph_value(graph[i]);
    in[i + 3] = data[i].node;
  }
  for (size_t i = 0; i < n; i++) in[i + 6] = args[i].node;
  const anfi_attrs *at =
      anfi_attrs_one(w->q->m, ANF_OP_Custom, anfi_value_new_string(w->q->cx, kind, strlen(kind)));
  anf_node *r = anfi_emit_apply(w->e, ANF_OP_Custom, at, anfi_abs_type(&w->q->abs, y), n + 6, in);
  return anfi_emit_effect(w->e, r);
}

/* A rule's result must have the types of the primal. */
static bool check_rule(const walk *w, const char *what, const anfi_abs *got, const anfi_abs *want) {
  if (got->kind == ANFI_ABS_BOTTOM || anfi_abs_takes(w, want, got)) return true;
  anfi_fail(w->q->cx, anfi_node_loc(w->at), ANF_E0533, what, anfi_show_abs(w->q, got),
            anfi_show_abs(w->q, want));
  anfi_infer_trace(w->q);
  return false;
}

/* A rule that calls the function whose rule it is has no type yet where that is inferred; the function has that of its primal. */
static part of_primal(const walk *w, const anfi_abs *y, part f) {
  return (part){w->e ? w->q->abs.bottom : y, f.node};
}

part anfi_part_custom_vjp(const walk *w, const part *in, size_t n, const part *args) {
  const anfi_abs *y = anfi_part_value_abs(w, in[0], n, args),
                 *fwd = y ? anfi_part_value_abs(w, in[1], n, args) : NULL;
  if (!fwd || y->kind == ANFI_ABS_BOTTOM) return (part){fwd ? y : NULL, in[0].node};
  if (fwd->kind == ANFI_ABS_BOTTOM) return of_primal(w, y, in[0]);
  const anfi_abs *plain = anfi_plain_abs(w, y);
  if (!plain) return failed();
  if (fwd->kind != ANFI_ABS_TUPLE || fwd->n != 2)
    return check_rule(w, "the first rule of CustomVjp", fwd, anfi_pair_abs(w, y, w->q->abs.bottom)),
           failed();
  if (!check_rule(w, "the first rule of CustomVjp", fwd->item[0], y)) return failed();
  const anfi_abs *kept = anfi_abs_broaden(&w->q->abs, fwd->item[1]);
  part bargs[2] = {{kept, NULL}, {plain, NULL}};
  const anfi_abs *g = anfi_part_value_abs(w, in[2], 2, bargs),
                 *want = anfi_gradients_abs(w, args, n, anfi_all_positions(w, n));
  if (!g || !want) return failed();
  if (g->kind == ANFI_ABS_BOTTOM) return of_primal(w, y, in[0]);
  const anfi_abs *got =
      g->kind == ANFI_ABS_TUPLE ? g : anfi_abs_items(&w->q->abs, ANFI_ABS_TUPLE, NULL, 1, &g);
  if (!check_rule(w, "the second rule of CustomVjp", got, want)) return failed();
  if (!w->e) return (part){y, NULL};
  const anfi_abs *fwd_to = anfi_pair_abs(w, y, kept);
  for (int i = 0; i < 2; i++) { // their types are all that matters
    const anf_type *t = anfi_abs_type(&w->q->abs, bargs[i].abs);
    bargs[i].node = anfi_emit_const(w->e, anfi_value_new_none(w->q->cx));
    bargs[i].node->type = t;
  }
  anf_graph *graph[3] = {anfi_emit_target(w->e, in[0], n, args, y, w->at),
                         anfi_emit_target(w->e, in[1], n, args, fwd_to, w->at),
                         anfi_emit_target(w->e, in[2], 2, bargs,
                                          g->kind == ANFI_ABS_TUPLE ? want : want->item[0], w->at)};
  anf_node *r = emit_custom(w, "vjp", graph, in, n, args, y);
  return r ? (part){y, r} : failed();
}

part anfi_part_custom_jvp(const walk *w, const part *in, size_t n, const part *args) {
  const anfi_abs *y = anfi_part_value_abs(w, in[0], n, args),
                 *t = anfi_gradients_abs(w, args, n, anfi_all_positions(w, n));
  if (!y || !t) return failed();
  if (y->kind == ANFI_ABS_BOTTOM) return (part){y, in[0].node};
  const anfi_abs *x = anfi_part_tuple(&(walk){w->q, NULL, w->at}, n, args).abs;
  part rargs[2] = {{anfi_abs_broaden(&w->q->abs, x), NULL}, {t, NULL}};
  const anfi_abs *r = anfi_part_value_abs(w, in[1], 2, rargs), *plain = anfi_plain_abs(w, y);
  if (!r || !plain) return failed();
  if (!check_rule(w, "the rule of CustomJvp", r, anfi_pair_abs(w, y, plain))) return failed();
  if (!w->e) return (part){y, NULL};
  for (int i = 0; i < 2; i++) {
    rargs[i].node = anfi_emit_const(w->e, anfi_value_new_none(w->q->cx));
    rargs[i].node->type = anfi_abs_type(&w->q->abs, rargs[i].abs);
  }
  anf_graph *f = anfi_emit_target(w->e, in[0], n, args, y, w->at),
            *graph[3] = {
                f, anfi_emit_target(w->e, in[1], 2, rargs, anfi_pair_abs(w, y, plain), w->at), f};
  anf_node *node = emit_custom(w, "jvp", graph, (const part[]){in[0], in[1], in[0]}, n, args, y);
  return node ? (part){y, node} : failed();
}
