// SPDX-License-Identifier: Apache-2.0
/* One operator: by the template of its name (onnx.anf), else by the op whose column `onnx` has the name, with the same
 * inputs in the same order and no attributes.
 *   Gemm[transB = 1](a, b)   ->  Gemm_(a, b, None, None, None, None, 1)   inputs, then attributes by name, else None
 *   Concat[axis = 0](a, b)   ->  Concat_((a, b), 0)                       `xs`: all further inputs
 *   Split(x) with 2 outputs  ->  Split_outs(x, .., nout = 2), a tuple of the outputs
 *   NonMaxSuppression(..)    ->  a call of NonMaxSuppression_rolled, whose loop is one when the program runs
 * `opset` is the version of the operator's domain, or the attribute of that name; `formats` narrow.c's, `trees` tree.c's, `drawn_by` what a key is made of, `offset_table` the list `offset` as a tensor. An input that older versions had as an attribute has its name, so both
 * forms reach the same parameter. Operators of other domains have the last word of the domain in
 * front: ml_Binarizer_, training_Adam_outs. */
#include "frontend/onnx/onnx.h"
#include <limits.h>
#include <math.h>

enum { MAX_OUTPUTS = 1 << 16 };

static const char *domain_word(const anfi_str *domain) {
  if (!domain->len || strcmp(domain->s, "ai.onnx") == 0) return "";
  const char *dot = strrchr(domain->s, '.');
  return dot ? dot + 1 : domain->s;
}

static anf_graph *template_of(anfi_ox_build *b, const anfi_ox_node *n, const char *end) {
  const char *word = domain_word(n->domain);
  return anfi_trace_find(
      b->t, anfi_sprintf(b->t->arena, "%s%s%s%s", word, *word ? "_" : "", n->op->s, end));
}

static anfi_opcode op_of(const anfi_ox_node *n) {
  for (size_t i = 0; !*domain_word(n->domain) && i < ANF_OP_COUNT; i++)
    if (!(anfi_op[i].flags & ANFI_RANDOM) && anfi_has_word(anfi_op[i].onnx, n->op->s, n->op->len))
      return (anfi_opcode)i;
  return ANF_OP_NONE;
}

bool anfi_ox_knows(anfi_ox_build *b, const anfi_ox_node *n) {
  return template_of(b, n, "_") || template_of(b, n, "_outs") || template_of(b, n, "_rolled") ||
         op_of(n) != ANF_OP_NONE;
}

/* ---- arguments ---- */

const anfi_ox_attr *anfi_ox_attr_of(const anfi_ox_place *p, const anfi_ox_node *n,
                                    const char *name) {
  const anfi_ox_attr *a = anfi_ox_find(&n->attrs, name);
  if (!a || !a->ref) return a;
  const anfi_ox_attr *given = anfi_ox_find(p->given, a->ref->s);
  return given ? given : anfi_ox_find(p->defaults, a->ref->s);
}

static bool refuse(const anfi_ox_place *p, const anfi_ox_node *n, const char *what,
                   const char *name) {
  return anfi_fail(p->b->t->cx, p->b->t->loc, ANF_E1176, n->op->s, what, name);
}

static int64_t version_of(const anfi_ox_place *p, const anfi_ox_node *n) {
  const char *word = domain_word(n->domain);
  for (size_t i = 0; i < p->opsets->n; i++)
    if (strcmp(domain_word(p->opsets->at[i].domain), word) == 0) return p->opsets->at[i].version;
  return 1;
}

/* The element types of inputs that are narrow, 0 for others. */
static const anfi_traced *formats(anfi_ox_place *p, const anfi_ox_node *n) {
  anfi_trace *t = p->b->t;
  int64_t *at = ANFI_NEW_N(t->arena, int64_t, n->in.n + 1);
  for (size_t i = 0; i < n->in.n; i++) at[i] = anfi_ox_narrow(p, n->in.at[i]);
  return anfi_traced_value(t, anfi_value_new_ints(t->cx, n->in.n, at));
}

/* Of "offset_table" the attribute "offset", whose list a template wants as one tensor; else NULL. */
static const char *listed(anfi_ox_place *p, const char *name) {
  static const char end[] = "_table";
  size_t len = strlen(name), cut = len > strlen(end) ? len - strlen(end) : 0;
  return cut && strcmp(name + cut, end) == 0 ? anfi_strndup(p->b->t->arena, name, cut) : NULL;
}

/* f32 or i64, as the lists of the format are. */
static const anfi_traced *table(anfi_ox_place *p, const anfi_ox_node *n, const anfi_ox_attr *a) {
  anfi_trace *t = p->b->t;
  bool real = a->kind == OX_ATTR_FLOATS;
  if (!real && a->kind != OX_ATTR_INTS)
    return (void)refuse(p, n, "an attribute of another kind,", a->name->s), NULL;
  int64_t dims[] = {(int64_t)(real ? a->reals.n : a->ints.n)};
  const anf_type *type = anfi_type_tensor(t->cx, real ? ANF_F32 : ANF_I64, 1, dims);
  anf_value *v = anfi_value_new_tensor(t->cx, type);
  for (size_t i = 0; i < v->n; i++)
    if (real) anfi_set_f64(v, i, a->reals.at[i]);
    else anfi_set_i64(v, i, a->ints.at[i]);
  return anfi_traced_value(t, v);
}

/* Dropout's seed is an integer, that of the others a float. */
static bool seed_of(const anfi_ox_attr *a, int64_t *seed) {
  bool real = a->kind == OX_ATTR_FLOAT && fabs(a->f) < 0x1p63;
  *seed = real ? (int64_t)a->f : a->i;
  return real || a->kind == OX_ATTR_INT;
}

/* What the key of a node that draws is made of: its seed, or the digest of its output's name and how many nodes had that name
 * before; then the numbers of the turns of loops around it. */
static const anfi_traced *drawn_by(anfi_ox_place *p, const anfi_ox_node *n) {
  anfi_trace *t = p->b->t;
  const anfi_ox_attr *seed = anfi_ox_attr_of(p, n, "seed");
  int64_t digest = 0;
  if (seed && !seed_of(seed, &digest)) return (void)refuse(p, n, "the attribute", "seed"), NULL;
  const anfi_str *name = n->out.n ? n->out.at[0] : n->name;
  uint64_t *before = seed ? NULL : anfi_map_at(&p->b->drawn, anfi_key(name));
  if (!seed) digest = (int64_t)anfi_hash(name->s, name->len, 0);
  size_t loops = 0;
  for (const anfi_ox_turn *l = p->turns; l; l = l->outer) loops++;
  const anfi_traced **item = ANFI_NEW_N(t->arena, const anfi_traced *, loops + 2);
  size_t k = 0;
  item[k++] = anfi_traced_int(t, digest);
  item[k++] = anfi_traced_int(t, before ? (int64_t)(*before)++ : 0);
  for (const anfi_ox_turn *l = p->turns; l; l = l->outer) {
    if (!l->number)
      return (void)refuse(p, n, "numbers that would be the same in each turn of", "a Scan"), NULL;
    item[k++] = l->number;
  }
  return anfi_traced_tuple(t, k, item);
}

static const anfi_traced *attribute(anfi_ox_place *p, const anfi_ox_node *n, const char *name) {
  anfi_trace *t = p->b->t;
  const anfi_ox_attr *a = anfi_ox_attr_of(p, n, name);
  if (!a && strcmp(name, "opset") == 0) return anfi_traced_int(t, version_of(p, n));
  if (!a && strcmp(name, "nout") == 0) return anfi_traced_int(t, (int64_t)n->out.n);
  if (!a && strcmp(name, "formats") == 0) return formats(p, n);
  if (!a && strcmp(name, "trees") == 0) return anfi_ox_trees(p, n);
  if (!a && strcmp(name, "drawn_by") == 0) return drawn_by(p, n);
  const char *list = a ? NULL : listed(p, name);
  const anfi_ox_attr *whole = list ? anfi_ox_attr_of(p, n, list) : NULL;
  if (whole) return table(p, n, whole);
  if (!a) return anfi_traced_none(t);
  if (a->kind == OX_ATTR_GRAPH && a->graph) return anfi_ox_subgraph(p, n, a->graph);
  anf_value *v = anfi_ox_attr_value(p->b->model, a);
  return v ? anfi_traced_value(t, v) : NULL;
}

/* False with E1176 where an attribute is none of the words that it may be. */
static bool is_known_word(const anfi_ox_place *p, const anfi_ox_node *n, const char *name) {
  static const struct {
    const char *attr, *ops, *words;
  } row[] = {
#define ANFI_WORDS(attr, ops, words) {attr, ops, words},
#include "frontend/onnx/words.def"
#undef ANFI_WORDS
  };
  const anfi_ox_attr *a = anfi_ox_attr_of(p, n, name);
  for (size_t i = 0; a && a->kind == OX_ATTR_STRING && i < ANFI_LEN(row); i++) {
    if (strcmp(row[i].attr, name) != 0) continue;
    if (*row[i].ops && !anfi_has_word(row[i].ops, n->op->s, n->op->len)) continue;
    return anfi_has_word(row[i].words, a->text->s, a->text->len) ||
           refuse(p, n, anfi_sprintf(p->b->t->arena, "the %s", name), a->text->s);
  }
  return true;
}

static bool is_given_by(const char *param, const char *name) {
  size_t len = strlen(name);
  bool list = strncmp(param, name, len) == 0 && strcmp(param + len, "_table") == 0;
  return list || strcmp(param, name) == 0 ||
         (strcmp(param, "trees") == 0 && anfi_ox_is_of_trees(name));
}

static bool refuse_attribute(const anfi_ox_place *p, const anfi_ox_node *n, const anfi_ox_attr *a) {
  refuse(p, n, "the attribute", a->name->s);
  if (a->kind == OX_ATTR_STRINGS) anfi_ox_no_texts(p->b->model);
  return false;
}

/* Every attribute must be a parameter: an ignored one could mean something. */
static bool takes_all(const anfi_ox_place *p, const anfi_ox_node *n, const anf_graph *f) {
  for (size_t k = 0; k < n->attrs.n; k++) {
    const char *name = n->attrs.at[k]->name->s;
    bool found = !anfi_ox_attr_of(p, n, name);
    for (size_t i = 0; i < f->params.n && !found; i++)
      found = is_given_by(anfi_template_param(f, i), name);
    if (!found) return refuse_attribute(p, n, n->attrs.at[k]);
    if (!is_known_word(p, n, name)) return false;
  }
  return true;
}

static const anfi_traced **arguments(anfi_ox_place *p, const anfi_ox_node *n, const anf_graph *f,
                                     const anfi_traced *const *in) {
  anfi_trace *t = p->b->t;
  const anfi_traced **all = ANFI_NEW_N(t->arena, const anfi_traced *, f->params.n + 1);
  size_t used = 0, have = n->in.n;
  for (size_t i = 0; i < f->params.n; i++) {
    if (strcmp(anfi_template_param(f, i), "xs") == 0) {
      all[i] = anfi_traced_tuple(t, have - used, in + used);
      used = have;
    } else if (used < have) all[i] = in[used++];
    else all[i] = attribute(p, n, anfi_template_param(f, i));
    if (!all[i]) return NULL;
  }
  while (used < have && anfi_traced_is_none(in[used])) used++;
  if (used < have)
    return (void)refuse(p, n, "so many inputs,", anfi_sprintf(t->arena, "%zu", have)), NULL;
  return takes_all(p, n, f) ? all : NULL;
}

/* ---- templates ---- */

/* Removes the nodes and effects that a tracing made which failed. */
static void take_back(anf_graph *to, size_t nodes, size_t effects) {
  anf_module *m = to->module;
  while (to->effects.n > effects) anfi_remove_effect(to->effects.at[to->effects.n - 1]);
  for (size_t i = m->nodes.n; i > nodes; i--) {
    anf_node *n = m->nodes.at[i - 1];
    if (n && anfi_is_cnode(n) && !anfi_is_used(n)) anfi_delete(n);
  }
}

static anf_status try_trace(anfi_trace *t, anf_graph *f, const anfi_traced *const *all, anf_diag *d,
                            const anfi_traced **out) {
  ANFI_ENTRY(t->cx, d);
  *out = anfi_trace_call(t, f, f->params.n, all);
  return anfi_leave(t->cx);
}

/* A call of the template, which then is part of the program. */
static const anfi_traced *called(anfi_ox_place *p, anf_graph *f, const anfi_traced *const *all) {
  anfi_trace *t = p->b->t;
  anf_node **in = ANFI_NEW_N(t->arena, anf_node *, f->params.n + 1);
  in[0] = anfi_graph_value(f);
  for (size_t i = 0; i < f->params.n; i++)
    if (!(in[i + 1] = anfi_traced_to_node(t, all[i]))) return NULL;
  anf_node *c = anfi_call(p->to, f->params.n + 1, in);
  c->debug = t->debug;
  return anfi_traced_node(t, c, NULL);
}

static bool has_subgraph(const anfi_ox_node *n) {
  for (size_t i = 0; i < n->attrs.n; i++)
    if (n->attrs.at[i]->kind == OX_ATTR_GRAPH) return true;
  return false;
}

static const anfi_traced *by_template(anfi_ox_place *p, const anfi_ox_node *n, anf_graph *f,
                                      const anfi_traced *const *in, bool rolled) {
  anfi_trace *t = p->b->t;
  const anfi_traced *const *all = arguments(p, n, f, in), *out = NULL;
  if (!all) return NULL;
  if (rolled || has_subgraph(n)) return called(p, f, all);
  size_t nodes = p->b->m->nodes.n, effects = p->to->effects.n;
  anf_diag *d = t->cx->frame->diag;
  size_t had = d ? anf_diag_count(d) : 0;
  t->subject = n->op->s;
  t->unknown = false;
  anf_status st = try_trace(t, f, all, d, &out);
  if (st == ANF_OK) return out;
  if (st == ANF_NOMEM || !t->unknown) return (void)anfi_fail_as(t->cx, st), NULL;
  if (d) anfi_diag_forget(d, had);
  take_back(p->to, nodes, effects);
  return called(p, f, all);
}

/* ---- ops ---- */

/* An attribute of the same name; numbers are bools where the op wants one. */
static bool op_attribute(anfi_ox_place *p, const anfi_ox_node *n, const anfi_schema *s,
                         anf_value **attr, const anfi_ox_attr *a) {
  anfi_trace *t = p->b->t;
  for (uint32_t k = 0; k < s->nattr; k++) {
    if (strcmp(s->attr[k].name->s, a->name->s) != 0) continue;
    const anfi_ox_attr *from = anfi_ox_attr_of(p, n, a->name->s);
    anf_value *v = from ? anfi_ox_attr_value(p->b->model, from) : NULL;
    if (!v) return !from;
    attr[k] = anfi_trace_hold(t, v);
    if (s->attr[k].type == ANFI_ATTR_BOOL && from->kind == OX_ATTR_INT)
      attr[k] = anfi_trace_hold(t, anfi_value_new_i64(t->cx, ANF_BOOL, from->i != 0));
    return true;
  }
  return refuse(p, n, "the attribute", a->name->s);
}

static const anfi_traced *by_op(anfi_ox_place *p, const anfi_ox_node *n, anfi_opcode op,
                                const anfi_traced *const *in) {
  anfi_trace *t = p->b->t;
  const anfi_schema *s = anfi_op_schema(t->cx, op);
  anf_value **attr = ANFI_NEW_N(t->arena, anf_value *, s->nattr + 1);
  if (n->in.n < s->min_in || (n->in.n > s->nin && !s->variadic))
    return (void)refuse(p, n, "so many inputs,", anfi_sprintf(t->arena, "%zu", n->in.n)), NULL;
  for (uint32_t k = 0; k < s->nattr; k++) attr[k] = anfi_attr_value(t->cx, op, NULL, k);
  for (size_t i = 0; i < n->attrs.n; i++)
    if (!op_attribute(p, n, s, attr, n->attrs.at[i])) return NULL;
  return anfi_trace_op(t, op, n->in.n, in, attr);
}

/* ---- element types ---- */

static const char *same_inputs(const anfi_ox_node *n) {
  static const struct {
    const char *letters, *ops;
  } row[] = {
#define ANFI_SAME(letters, ops) {letters, ops},
#include "frontend/onnx/same.def"
#undef ANFI_SAME
  };
  for (size_t i = 0; !*domain_word(n->domain) && i < ANFI_LEN(row); i++)
    if (anfi_has_word(row[i].ops, n->op->s, n->op->len)) return row[i].letters;
  return "";
}

/* Where it is known, and no number of the reader's own. */
static bool element_type(anfi_trace *t, const anfi_traced *x, anf_dtype *d) {
  const anf_type *type = x->kind == ANFI_TRACED_DATA ? anfi_traced_type(t, x) : NULL;
  if (!type || type->kind != ANF_TYPE_TENSOR) return false;
  *d = (anf_dtype)type->dtype;
  return !anfi_dtype_is_weak(*d);
}

/* False with E1178 where two inputs that must have one element type have two. */
static bool same_types(const anfi_ox_place *p, const anfi_ox_node *n,
                       const anfi_traced *const *in) {
  const char *letters = same_inputs(n);
  size_t len = strcspn(letters, "*"), first[UCHAR_MAX + 1];
  anf_dtype type[UCHAR_MAX + 1], d;
  memset(first, 0xff, sizeof first);
  for (size_t i = 0; i < n->in.n && len && (i < len || letters[len]); i++) {
    unsigned char c = (unsigned char)letters[i < len ? i : len - 1];
    if (c == '-' || !element_type(p->b->t, in[i], &d)) continue;
    if (first[c] == SIZE_MAX) first[c] = i, type[c] = d;
    if (type[c] == d) continue;
    anfi_fail(p->b->t->cx, p->b->t->loc, ANF_E1178, n->op->s, n->in.at[first[c]]->s,
              anf_dtype_name(type[c]), n->in.at[i]->s, anf_dtype_name(d));
    anfi_hint(p->b->t->cx, "a Cast before the node converts one of them");
    return false;
  }
  return true;
}

/* ---- outputs ---- */

static const anfi_traced *item_of(anfi_trace *t, const anfi_traced *x, size_t i) {
  anf_value *at[1] = {anfi_trace_hold(t, anfi_value_new_i64(t->cx, ANF_INT, (int64_t)i))};
  if (x->kind == ANFI_TRACED_TUPLE) return i < x->n ? x->item[i] : anfi_traced_none(t);
  return anfi_trace_op(t, ANF_OP_TupleGet, 1, &x, at);
}

bool anfi_ox_operator(anfi_ox_place *p, const anfi_ox_node *n, const anfi_traced **in,
                      const anfi_traced **out) {
  anf_graph *one = template_of(p->b, n, "_"), *outs = template_of(p->b, n, "_outs");
  anf_graph *rolled = template_of(p->b, n, "_rolled");
  anf_graph *f = rolled ? rolled : one && (n->out.n <= 1 || !outs) ? one : outs;
  if (!anfi_ox_takes_narrow(p, n) || !same_types(p, n, in)) return false;
  if (n->out.n > MAX_OUTPUTS) return refuse(p, n, "so many outputs,", "more than 65536");
  const anfi_traced *x = f ? by_template(p, n, f, in, rolled != NULL) : by_op(p, n, op_of(n), in);
  if (!x) return false;
  if (!f || f == one) {
    for (size_t i = 1; i < n->out.n; i++)
      if (n->out.at[i]->len) return refuse(p, n, "the output", n->out.at[i]->s);
    return out[0] = x, true;
  }
  for (size_t i = 0; i < n->out.n; i++)
    if (!(out[i] = item_of(p->b->t, x, i))) return false;
  return true;
}
