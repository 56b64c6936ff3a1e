// SPDX-License-Identifier: Apache-2.0
/* One op through vmap: the batching rules against lanes computed one by one. */
#include "vmapped.h"

#include "anfora/anfora.h"
#include "autodiff/autodiff.h"

enum { MOST = 64 };

typedef struct job {
  anfi_eval *q;
  const char *mode;
  size_t depth; // batch axes
  bool lanes_known, dims_known;
  bool in[MOST]; // by tensor argument
  size_t nparam;
  int64_t size[2]; // of each batch axis, the inner first
  anf_value *arg[MOST];
} job;

static void read_mode(job *j) {
  const char *s = j->mode;
  size_t n = strspn(s, "01");
  j->lanes_known = s[n] == 'c';
  j->dims_known = s[n] != 'd';
  j->depth = s[n + 1] == 'n' ? 2 : 1;
}

/* The type of one lane of argument i. */
static const anf_type *lane(job *j, size_t i) {
  const anf_type *t = j->q->in[i]->type;
  size_t drop = j->mode[i] == '1' ? j->depth : 0;
  int64_t dims[ANF_MAX_RANK];
  for (size_t k = 0; k < drop; k++)
    j->size[drop - 1 - k] = j->lanes_known ? t->dims[k] : ANF_DIM_UNKNOWN;
  for (size_t k = drop; k < t->n; k++)
    dims[k - drop] = j->dims_known ? t->dims[k] : ANF_DIM_UNKNOWN;
  return anfi_type_tensor(j->q->cx, (anf_dtype)t->dtype, t->n - drop, dims);
}

static anf_graph *graph_of_op(job *j, anf_module *m, anfi_ad *ad) {
  anf_ctx *cx = j->q->cx;
  anf_graph *g = anfi_graph_new(m, anfi_intern_z(&m->strings, "main"));
  anf_node *in[MOST];
  const anfi_attrs *at = NULL;
  for (size_t i = 0; i < j->q->n && i < MOST; i++) {
    if (j->q->in[i]->kind != ANF_VALUE_TENSOR) {
      in[i] = anfi_ad_const(ad, anf_value_retain(j->q->in[i]));
      continue;
    }
    const anf_type *t = lane(j, i);
    in[i] = anfi_param(g, NULL, t);
    in[i]->type = t;
    j->in[j->nparam] = j->mode[i] == '1';
    j->arg[j->nparam++] = j->q->in[i];
  }
  anf_value *attr[16] = {NULL};
  uint32_t n = anfi_op_schema(cx, j->q->op)->nattr;
  for (uint32_t k = 0; k < n && k < 16; k++) {
    attr[k] = j->q->attr[k];
    if (attr[k] && attr[k]->kind == ANF_VALUE_NONE) attr[k] = NULL;
  }
  if (!anfi_attrs_new(m, j->q->op, attr, j->q->loc, &at)) return NULL;
  const anf_type *types[MOST];
  for (size_t i = 0; i < j->q->n; i++) types[i] = anfi_ad_type_of(ad, in[i]);
  for (uint32_t k = 0; k < n && k < 16; k++) attr[k] = anfi_attr_value(cx, j->q->op, at, k);
  anfi_infer q = {
      .cx = cx, .op = j->q->op, .loc = j->q->loc, .n = j->q->n, .in = types, .attr = attr};
  if (!anfi_infer_op(&q)) return NULL;
  if (q.out->kind == ANF_TYPE_ANY)
    return (void)anfi_fail(cx, q.loc, ANF_E0501, "the op", "no type"), NULL;
  anf_node *y = anfi_apply(g, j->q->op, at, j->q->n, in);
  y->type = q.out;
  anfi_set_result(g, y);
  return g;
}

static bool batch_and_run(job *j, anf_module *m) {
  anf_ctx *cx = j->q->cx;
  anfi_ad *ad = anfi_ad_new(m);
  anf_graph *g = graph_of_op(j, m, ad);
  for (size_t k = 0; g && k < j->depth; k++) {
    const bool *out = NULL;
    g = anfi_vmap_graph(ad, g, j->in, j->size[k], NULL, &out);
  }
  if (!g || !anfi_verify(m)) return false;
  anf_diag *d = cx->frame->diag;
  anf_run_opts o = {.size = sizeof o};
  anf_status st = anf_run(g, j->nparam, j->arg, &o, d, &j->q->out);
  return st == ANF_OK || anfi_fail_as(cx, st);
}

bool run_vmapped(anfi_eval *q, const char *mode) {
  job j = {.q = q, .mode = mode};
  anf_module *m = anf_module_new(q->cx);
  read_mode(&j);
  bool good = m && batch_and_run(&j, m);
  anf_module_free(m);
  return good;
}
