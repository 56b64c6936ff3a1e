// SPDX-License-Identifier: Apache-2.0
/* Prepares a program for a writer (export.h).
 *   net(params, x)   ->   a copy of net and its callees, typed, optimised, ops replaced by those of the format */
#include "frontend/trace/export.h"
#include "ir/ops/op.h"

#include "anfora/opt.h"

/* Ops that the format lacks as others. */
static bool legalise(const anfi_export_form *e, anf_module *m) {
  size_t replaced = 0;
  anfi_trace *t = anfi_trace_new(m->cx, e->text, e->len, e->name);
  if (!t || !anfi_legalise(t, m, &replaced)) return false;
  anf_status st = replaced ? anf_optimise(m, "fold cse dce", NULL, NULL) : ANF_OK;
  return st == ANF_OK || anfi_fail_as(m->cx, st);
}

static bool call(const anfi_export_form *e, anf_module *m) {
  bool any = false;
  if (!anfi_export_call(m, &any)) return false;
  anf_status st = any ? anf_optimise(m, e->pipeline, NULL, NULL) : ANF_OK;
  return st == ANF_OK || anfi_fail_as(m->cx, st);
}

anf_graph *anfi_export_prepare(const anfi_export_form *e, anf_graph *g, size_t n,
                               const anf_type *const *types) {
  anf_ctx *cx = g->module->cx;
  anf_graph *copy = NULL;
  anf_module *m = anfi_module_copy(anfi_analyse(g->module), &g, 1, &copy);
  const anfi_str *name = copy->name;
  if (n != copy->params.n)
    return (void)anfi_fail(cx, anfi_nowhere(), ANF_E0510, name->s, copy->params.n, n), NULL;
  anfi_undefer(cx, m); // it was to go on failure
  anfi_defer(cx, ANFI_ALWAYS, anfi_free_module, m);
  anfi_only_public(copy);
  for (size_t i = 0; i < n; i++)
    if (types[i]) copy->params.at[i]->type = types[i];
  anf_status st = anf_optimise(m, e->pipeline, NULL, NULL);
  if (st != ANF_OK) return (void)anfi_fail_as(cx, st), NULL;
  if (!call(e, m) || !legalise(e, m)) return NULL;
  for (size_t i = 0; i < m->graphs.n; i++) // the copy borrows names, and has no table of them
    if (m->graphs.at[i] && strcmp(m->graphs.at[i]->name->s, name->s) == 0) return m->graphs.at[i];
  return (void)anfi_fail(cx, anfi_nowhere(), e->refusal, "a function that is gone:", name->s), NULL;
}

static anf_value *constant_record(const anfi_export_form *e, anf_graph *params,
                                  const anf_type *record) {
  anf_ctx *cx = params->module->cx;
  anf_graph *g = anfi_export_prepare(e, params, 0, NULL);
  if (!g) return NULL;
  const anf_node *r = g->result;
  if (r->kind == ANFI_VALUE && r->u.value->type == record) return r->u.value; // the module's
  anf_value *v = anfi_value_new_record(cx, record);
  anfi_defer(cx, ANFI_ALWAYS, anfi_release, v);
  bool good = anfi_is_op(r, ANF_OP_MakeRecord) && r->type == record;
  for (uint32_t i = 0; good && i < record->n; i++) {
    good = r->in[i].def->kind == ANFI_VALUE;
    if (good) v->u.item[i] = anf_value_retain(r->in[i].def->u.value);
  }
  for (uint32_t i = 0; i < record->n; i++)
    if (!v->u.item[i]) v->u.item[i] = anfi_value_new_none(cx);
  if (good) return v;
  return (void)anfi_fail(cx, anfi_nowhere(), e->refusal,
                         "parameters that are not constants:", "params"),
         NULL;
}

bool anfi_export_weights(const anfi_export_form *e, const anf_graph *g, const anf_type *record,
                         anf_value **weights) {
  const anf_type *t = g->params.n ? g->params.at[0]->type : NULL;
  anf_graph *params = anf_module_find(g->module, "params");
  bool has =
      t && t->kind == ANF_TYPE_RECORD && params && params->params.n == 0 && params != g && record;
  *weights = NULL;
  return !has || (*weights = constant_record(e, params, record)) != NULL;
}

bool anfi_export_is_weak(const anf_type *t) {
  return t && anfi_is_scalar(t) && (t->dtype == ANF_INT || t->dtype == ANF_FLOAT);
}

bool anfi_export_is_plain(anf_ctx *cx, const anf_node *n) {
  anfi_opcode op = (anfi_opcode)n->op;
  for (uint32_t k = 0; k < anfi_op_schema(cx, op)->nattr; k++) {
    const anf_value *v = anfi_attr_value(cx, op, n->u.attrs, k),
                    *usual = anfi_attr_value(cx, op, NULL, k);
    if (!v || !usual || !anfi_value_same(v, usual)) return false;
  }
  return true;
}

anf_dtype anfi_export_dtype_beside(const anf_node *n, const anf_type *t) {
  anf_dtype d = (anf_dtype)t->dtype, both;
  for (uint32_t i = 0; i < n->nin; i++) {
    const anf_type *other = n->in[i].def->type;
    bool typed =
        other && anfi_is_tensor(other) && !anfi_export_is_weak(other) && other->dtype != ANF_BOOL;
    if (typed && anfi_dtype_promote(d, (anf_dtype)other->dtype, &both) && !anfi_dtype_is_weak(both))
      d = both;
  }
  return d;
}

anfi_infer anfi_export_question(anf_ctx *cx, anfi_arena *a, const anf_node *n) {
  const anfi_schema *s = anfi_op_schema(cx, (anfi_opcode)n->op);
  const anf_type **in = ANFI_NEW_N(a, const anf_type *, n->nin + 1);
  anf_value **attr = ANFI_NEW_N(a, anf_value *, s->nattr + 1);
  for (uint32_t i = 0; i < n->nin; i++)
    in[i] = n->in[i].def->type ? n->in[i].def->type : n->in[i].def->u.value->type;
  for (uint32_t k = 0; k < s->nattr; k++)
    attr[k] = anfi_attr_value(cx, (anfi_opcode)n->op, n->u.attrs, k);
  return (anfi_infer){.cx = cx,
                      .op = (anfi_opcode)n->op,
                      .loc = anfi_node_loc(n),
                      .n = anfi_arg_count(n),
                      .in = in,
                      .attr = attr};
}

anf_status anfi_export(anfi_export_write *write, anf_graph *g, size_t n,
                       const anf_type *const *types, void *user, anf_diag *d, anf_text *out) {
  ANFI_NEED(d, g, out);
  if (n) ANFI_NEED(d, types);
  for (size_t i = 0; i < n; i++) ANFI_NEED(d, types[i]);
  anfi_text_of(out, g->module->cx);
  size_t before = out->len;
  ANFI_ENTRY(g->module->cx, d);
  if (!write(g, n, types, user, out)) out->len = before;
  return anfi_leave(g->module->cx);
}

size_t anfi_export_sizes(const anf_value *v, size_t rank, int64_t *to) {
  int64_t got[3];
  size_t n = anfi_attr_ints(v, 3, got);
  for (size_t k = 0; k < rank; k++) to[3 - rank + k] = got[n == 1 ? 0 : k];
  return n;
}
