// SPDX-License-Identifier: Apache-2.0
/* A function whose sizes depend on data, in two parts: what comes before is compiled, the rest interpreted.
 *   f(x) = { y = net(x);  Take(y, places(y > 0), axis=0) }     the number of places decides a shape
 *   head(x) = (net(x),)      tail(x, y) = Take(y, places(y > 0), axis=0)
 *
 * An op belongs to the tail if an attribute of it, or an argument that its callee makes a shape of (optimizer/infer/need.c), is
 * computed from data, or if it uses what the tail computes. The tail does again what is known when code is made, such as x.shape[0].
 * A program that prints or checks is not cut, as the order of that would change. */
#include "exec/partition.h"
#include "optimizer/infer/infer.h"

#include "anfora/opt.h"

struct anfi_partition {
  anf_module *m; // of both graphs
  anf_exec *head;
  anf_graph *tail;        // takes the parameters of the function, then what the head gives
  size_t nmid;            // values that the head gives
  size_t nhead, ntail;    // ops of each
  anfi_loc why;           // of the first op of the tail
  const anf_type *result; // of the last run; NULL: none, or it has functions in it
};

/* ---- cutting ---- */

typedef struct cut {
  anf_graph *g;
  const anf_analysis *an;
  const uint8_t *need; // by node id: is its value needed?
  uint8_t *known;      // is its value known when code is made?
  uint8_t *late;       // is it of the tail?
  anf_module *m;
  anfi_arena *a;
  ANFI_VEC(anf_node *) mid; // computed by the head, used by the tail
} cut;

static bool is_known(const cut *c, const anf_node *n) {
  return n->kind == ANFI_VALUE || c->known[n->id];
}

/* Does the callee make a shape of an argument that is data? */
static bool shapes_from_argument(const cut *c, const anf_node *call) {
  const anf_graph *f = anfi_value_graph(call->in[0].def);
  for (size_t i = 0; f && i < f->params.n && i + 1 < call->nin; i++)
    if (c->need[f->params.at[i]->id] && !is_known(c, call->in[i + 1].def)) return true;
  return false;
}

static bool shapes_from_data(const cut *c, const anf_node *n) {
  if (n->kind == ANFI_CALL || anfi_is_op(n, ANF_OP_Partial)) return shapes_from_argument(c, n);
  for (size_t i = n->u.attrs ? anfi_arg_count(n) : n->nin; i < n->nin; i++)
    if (!is_known(c, n->in[i].def)) return true;
  return false;
}

/* x.shape and its like. A field of a record of such a name is taken for one, too; then the head is not compiled. */
static bool asks_type(const cut *c, const anf_node *n) {
  if (n->op != ANF_OP_GetField) return anfi_asks_dims(n);
  static const char *const names[] = {"shape", "ndim", "dtype", "size"};
  const anf_value *name = anfi_attr_value(c->m->cx, ANF_OP_GetField, n->u.attrs, 0);
  for (size_t i = 0; name && i < ANFI_LEN(names); i++)
    if (strcmp(name->u.text, names[i]) == 0) return true;
  return false;
}

static void classify(cut *c, const anf_node *n) {
  bool known = n->nin > 0, late = shapes_from_data(c, n);
  for (size_t i = 0; i < n->nin; i++) {
    known &= is_known(c, n->in[i].def);
    late |= c->late[n->in[i].def->id] != 0;
  }
  c->late[n->id] = late;
  c->known[n->id] = !late && (known || (n->kind == ANFI_APPLY && asks_type(c, n)));
}

/* The values that the head gives to the tail, found from the result backward. The tail makes function values and numbers that are
 * known when code is made itself. */
static void find_mid(cut *c) {
  const anfi_graph_info *gi = &c->an->graphs[c->g->id];
  uint8_t *read = ANFI_NEW_N(c->a, uint8_t, c->m->nodes.n);
  for (size_t k = gi->order.n; k-- > 0;) {
    anf_node *n = gi->order.at[k];
    bool again = read[n->id] && (c->known[n->id] || anfi_is_op(n, ANF_OP_Partial));
    if (read[n->id] && !again && !c->late[n->id]) anfi_push(c->a, &c->mid, n);
    for (size_t i = 0; (c->late[n->id] || again) && i < n->nin; i++) read[n->in[i].def->id] = 1;
  }
}

static bool find_cut(cut *c) {
  const anfi_graph_info *gi = &c->an->graphs[c->g->id];
  c->need = anfi_find_own_needs(anfi_infer_new(c->m));
  c->known = ANFI_NEW_N(c->a, uint8_t, c->m->nodes.n);
  c->late = ANFI_NEW_N(c->a, uint8_t, c->m->nodes.n);
  for (size_t k = 0; k < gi->order.n; k++) classify(c, gi->order.at[k]);
  if (!c->late[c->g->result->id]) return false;
  find_mid(c);
  return c->mid.n > 0;
}

/* The first op of the tail, which says why there is one. */
static const anf_node *first_late(const cut *c) {
  const anfi_graph_info *gi = &c->an->graphs[c->g->id];
  size_t k = 0;
  while (!c->late[gi->order.at[k]->id]) k++;
  return gi->order.at[k];
}

/* g becomes the head; the tail is a copy of it with parameters in place of what the head gives. */
static anf_graph *divide(cut *c, anfi_partition *p) {
  anfi_map copies;
  anfi_map_init(&copies, anfi_scratch(c->m->cx));
  anf_graph *tail = anfi_clone(c->an, c->g, &copies);
  for (size_t i = 0; i < c->mid.n; i++) {
    anf_node *copy = (anf_node *)(uintptr_t)*anfi_map_find(&copies, c->mid.at[i]->id);
    anfi_replace(copy, anfi_param(tail, NULL, NULL));
  }
  const anfi_graph_info *gi = &c->an->graphs[c->g->id];
  for (size_t k = 0; k < gi->order.n; k++) p->ntail += c->late[gi->order.at[k]->id] != 0;
  p->nhead = gi->order.n - p->ntail;
  p->nmid = c->mid.n;
  anfi_set_result(c->g, anfi_apply(c->g, ANF_OP_MakeTuple, NULL, c->mid.n, c->mid.at));
  c->g->result_type = NULL;
  return p->tail = tail;
}

/* ---- making ---- */

void anfi_partition_free(anf_ctx *cx, anfi_partition *p) {
  if (!p) return;
  anf_exec_free(p->head);
  anf_module_free(p->m);
  anfi_object_free(cx, p);
}

static void free_partition(void *p) {
  anfi_partition *part = (anfi_partition *)p;
  anfi_partition_free(part->m->cx, part);
}

anf_exec *anfi_partition_head(const anfi_partition *p) { return p->head; }

void anfi_partition_warn(const anf_exec *e) {
  const anfi_partition *p = e->partition;
  anfi_warn(e->cx, p->why, ANF_W0908, e->g->name->s, p->nhead, p->nhead + p->ntail);
}

/* A copy of the function's module, the frame's: closed, and callees with one use are part of it, as they may be cut. */
static anf_graph *closed_copy(anf_graph *g) {
  anf_graph *copy = NULL;
  anf_module *m = anfi_module_copy(anfi_analyse(g->module), &g, 1, &copy);
  anfi_undefer(m->cx, m); // it was to go on failure
  anfi_defer(m->cx, ANFI_ALWAYS, anfi_free_module, m);
  for (size_t i = 0; i < m->graphs.n; i++) m->graphs.at[i]->flags |= ANFI_GRAPH_PRIVATE;
  copy->flags &= ~(uint32_t)ANFI_GRAPH_PRIVATE;
  anf_status st = anf_optimise(m, "lift inline", NULL, NULL);
  return st == ANF_OK ? copy : (anfi_fail_as(m->cx, st), NULL);
}

static bool compile_head(anf_exec *e, anf_graph *g, size_t n, const anfi_arg *args,
                         anfi_partition *p) {
  const anf_type **types = ANFI_NEW_N(anfi_scratch(e->cx), const anf_type *, n + 1);
  anf_exec_opts o = e->o;
  o.engine = e->engine;
  for (size_t i = 0; i < n; i++)
    if (!(types[i] = args[i].type)) return false;
  anf_diag *lost = anf_diag_new(e->cx);
  if (!lost) anfi_throw_nomem(e->cx);
  anfi_defer(e->cx, ANFI_ALWAYS, anfi_free_diag, lost);
  anf_status st = anf_compile(g, &o, lost, &p->head);
  if (st == ANF_OK) st = anf_exec_prepare(p->head, n, types, lost);
  return st == ANF_OK || (st == ANF_NOMEM && anfi_fail_as(e->cx, st));
}

static anfi_partition *partition_of(anf_exec *e, size_t n, const anfi_arg *args) {
  cut c = {.g = closed_copy(e->g), .a = anfi_scratch(e->cx)};
  if (!c.g || anfi_module_has_effects(c.m = c.g->module)) return NULL;
  c.an = anfi_analyse(c.m);
  if (!find_cut(&c)) return NULL;
  anfi_partition *p = (anfi_partition *)anfi_object(e->cx, sizeof *p);
  if (!p) anfi_throw_nomem(e->cx);
  p->m = c.m;
  p->why = anfi_node_loc(first_late(&c));
  anfi_undefer(e->cx, c.m);
  anfi_defer(e->cx, ANFI_ON_FAIL, free_partition, p);
  anf_graph *head = c.g;
  divide(&c, p);
  bool good = compile_head(e, head, n, args, p);
  anfi_undefer(e->cx, p);
  if (!good) free_partition(p);
  return good ? p : NULL;
}

anfi_partition *anfi_partition_new(anf_exec *e, size_t n, const anfi_arg *args) {
  bool plain = e->g && !e->job.nstate && e->cuts;
  return plain ? partition_of(e, n, args) : NULL;
}

/* ---- running ---- */

bool anfi_partition_run(const anf_exec *e, size_t n, anf_value *const *args, const anf_run_opts *o,
                        anf_value **result) {
  anfi_partition *p = e->partition;
  anf_diag *d = e->cx->frame->diag;
  anf_value **all = ANFI_NEW_N(anfi_scratch(e->cx), anf_value *, n + p->nmid + 1), *mid = NULL;
  for (size_t i = 0; i < n; i++) all[i] = i < e->nfixed && e->fixed[i] ? e->fixed[i] : args[i];
  anf_status st = anf_exec_run(p->head, n, all, o, d, &mid);
  if (st != ANF_OK) return anfi_fail_as(e->cx, st);
  anfi_defer(e->cx, ANFI_ALWAYS, anfi_release, mid);
  for (size_t i = 0; i < p->nmid; i++) all[n + i] = mid->u.item[i];
  st = anf_run(p->tail, n + p->nmid, all, o, d, result);
  if (st != ANF_OK) return anfi_fail_as(e->cx, st);
  const anf_type *t = anfi_value_type(e->cx, *result);
  p->result = t->functions ? NULL : t;
  return true;
}

const anf_type *anfi_partition_result(const anfi_partition *p) { return p->result; }

void anfi_partition_explain(const anfi_partition *p, anf_text *out) {
  anfi_putf(out,
            "Sizes depend on data: %zu of %zu operations are compiled, the others interpreted.\n",
            p->nhead, p->nhead + p->ntail);
}
