// SPDX-License-Identifier: Apache-2.0
/* A model as one function: operators in the order of the file, which is a topological one, each through its creator.
 *   nn.ReLU r 1 1 x y   ->   y = Relu(x), by the row nn.ReLU of layer.def
 * INVARIANT: every operand of type tensor that later operators see has a type, dims of which may be unknown. All types
 * of operators that nobody can make are reported in one error. */
#include "frontend/pnnx/pnnx.h"
#include "ir/ops/op.h"

typedef struct {
  const anf_pnnx *p;
  anfi_torch *t;
  const anf_type *const *types;
  anfi_operand *operand; // by number
  anfi_map creators;     // type's address -> 1 + index into `known`
  ANFI_VEC(anfi_creator) known;
  ANFI_VEC(anfi_operand) outputs;
  bool as_declared; // the inputs have the types of the file
} builder;

/* ---- which types are known ---- */

typedef enum { INPUT, OUTPUT, ATTRIBUTE, PACK, UNPACK, LAYER } structure;

static structure structure_of(const char *type) {
  static const struct {
    const char *type;
    structure is;
  } row[] = {{"pnnx.Input", INPUT},         {"pnnx.Output", OUTPUT},
             {"pnnx.Attribute", ATTRIBUTE}, {"prim::TupleConstruct", PACK},
             {"prim::ListConstruct", PACK}, {"prim::TupleUnpack", UNPACK},
             {"prim::ListUnpack", UNPACK}};
  if (type[0] != 'p') return LAYER;
  for (size_t i = 0; i < ANFI_LEN(row); i++)
    if (strcmp(row[i].type, type) == 0) return row[i].is;
  return LAYER;
}

enum { SHOWN_LINES = 12 };

static void note_lines(const builder *b, const char *type) {
  anf_text *o = anfi_text_begin(b->p->cx);
  uint32_t n = 0, first = 0;
  for (size_t i = 0; i < b->p->ops.n; i++) {
    const anf_pnnx_op *op = b->p->ops.at[i];
    if (op->type != type) continue;
    if (!n) first = op->line;
    if (n < SHOWN_LINES) anfi_putf(o, "%s%u", n ? ", " : "", op->line);
    n++;
  }
  if (n > SHOWN_LINES) anfi_putf(o, " and %u more", n - SHOWN_LINES);
  anfi_note(b->p->cx, (anfi_loc){b->p->file, first, 1}, "%s: line%s %s", type, n > 1 ? "s" : "",
            o->text);
  anfi_text_done(o);
}

/* Names of types are interned, so a type is its address. */
static bool find_creators(builder *b) {
  ANFI_VEC(const char *) unknown = {0};
  for (size_t i = 0; i < b->p->ops.n; i++) {
    const char *type = b->p->ops.at[i]->type;
    uint64_t *at = anfi_map_at(&b->creators, anfi_key(type));
    anfi_creator c = {.make = NULL};
    if (*at || structure_of(type) != LAYER) continue;
    if (!anfi_pnnx_creator_of(b->p, type, &c)) anfi_push(b->t->arena, &unknown, type);
    *at = b->known.n + 1;
    anfi_push(b->t->arena, &b->known, c);
  }
  if (!unknown.n) return true;
  anfi_fail(b->p->cx, (anfi_loc){b->p->file, 0, 0}, ANF_E1050, unknown.n, unknown.n == 1 ? "" : "s",
            unknown.n == 1 ? "is" : "are");
  for (size_t i = 0; i < unknown.n; i++) note_lines(b, unknown.at[i]);
  return false;
}

/* ---- operators of a host ---- */

static const anf_type *type_of_node(anf_ctx *cx, const anf_node *n) {
  const anf_type *t = n->kind == ANFI_VALUE ? anfi_value_type(cx, n->u.value) : n->type;
  return t ? t : anfi_type_simple(cx, ANF_TYPE_ANY);
}

/* Types of the nodes that a creator made, which come in the order of making. */
static bool infer_new(const builder *b, size_t first) {
  anf_module *m = b->t->graph->module;
  for (size_t id = first; id < m->nodes.n; id++) {
    anf_node *n = m->nodes.at[id];
    if (!n || n->kind != ANFI_APPLY || n->type || n->graph != b->t->graph) continue;
    size_t narg = anfi_arg_count(n);
    const anfi_schema *s = anfi_op_schema(m->cx, (anfi_opcode)n->op);
    const anf_type **in = ANFI_NEW_N(b->t->arena, const anf_type *, narg + 1);
    anf_value **attr = ANFI_NEW_N(b->t->arena, anf_value *, s->nattr + 1);
    for (size_t i = 0; i < narg; i++) in[i] = type_of_node(m->cx, n->in[i].def);
    for (uint32_t k = 0; k < s->nattr; k++)
      attr[k] = anfi_attr_value(m->cx, (anfi_opcode)n->op, n->u.attrs, k);
    anfi_infer q = {
        .cx = m->cx, .op = (anfi_opcode)n->op, .loc = b->t->loc, .n = narg, .in = in, .attr = attr};
    if (!anfi_infer_op(&q)) return false;
    if (q.out->kind != ANF_TYPE_ANY) n->type = q.out;
  }
  return true;
}

static bool creator_failed(const builder *b, const anf_pnnx_op *op) {
  const anf_diag *d = b->t->graph->module->diag;
  if (anfi_failed(b->p->cx)) return false;
  const char *why = anf_diag_count(d) ? anf_diag_at(d, 0)->message : "its creator gave no result";
  return anfi_fail(b->p->cx, b->t->loc, ANF_E1055, op->type, why);
}

static bool make_by_host(builder *b, const anfi_creator *c, anfi_layer *l) {
  const anf_pnnx_op *op = l->op;
  anf_module *m = b->t->graph->module;
  anf_node **in = ANFI_NEW_N(b->t->arena, anf_node *, op->nin + 1);
  anf_node **out = ANFI_NEW_N(b->t->arena, anf_node *, op->nout + 1);
  for (uint32_t i = 0; i < op->nin; i++) in[i] = anfi_torch_node(b->t, &l->in[i]);
  size_t first = m->nodes.n;
  if (c->user_make(c->user, op, b->t->graph, op->nin, in, op->nout, out) != ANF_OK ||
      m->status != ANF_OK)
    return creator_failed(b, op);
  if (!infer_new(b, first)) return false;
  for (uint32_t i = 0; i < op->nout; i++) {
    if (!out[i]) return creator_failed(b, op);
    const anf_type *t = type_of_node(m->cx, out[i]);
    l->out[i] = anfi_operand_node(out[i], t->kind == ANF_TYPE_ANY ? NULL : t);
  }
  l->nresult = op->nout;
  return true;
}

/* ---- one operator ---- */

/* The key of the weight that the operand is, too: pnnx writes a weight that two modules share (tied weights) as an
 * attribute, and as an input without a name beside the module's own copy,
 *   nn.Linear head 2 1 token x y @weight=(99,32)f32   ->   y = Linear(x, weight = token) */
static const char *tied_key(const builder *b, const anf_pnnx_op *op, uint32_t i) {
  const anf_pnnx_op *from = b->p->ops.at[b->p->operands.at[op->in[i]].producer];
  if (op->in_name[i] || structure_of(from->type) != ATTRIBUTE || from->weights.n != 1) return NULL;
  const anfi_weight *a = &from->weights.at[0];
  for (size_t k = 0; k < op->weights.n; k++) {
    const anfi_weight *w = &op->weights.at[k];
    if (w->type != a->type || !w->value || !a->value) continue;
    if (memcmp(w->value->data, a->value->data,
               w->value->n * anf_dtype_bytes((anf_dtype)w->type->dtype)) == 0)
      return w->key;
  }
  return NULL;
}

static void name_tied(const builder *b, const anf_pnnx_op *op, bool on, bool *named) {
  for (uint32_t i = 0; op->weights.n && i < op->nin; i++) {
    const char *key = on ? tied_key(b, op, i) : NULL;
    if (key) op->in_name[i] = key, named[i] = true;
    else if (!on && named[i]) op->in_name[i] = NULL;
  }
}

static bool make_layer(builder *b, anf_pnnx_op *op, const anfi_operand *in, anfi_operand *out) {
  anfi_layer l = {.t = b->t, .op = op, .in = in, .out = out};
  const anfi_creator *c = &b->known.at[*anfi_map_find(&b->creators, anfi_key(op->type)) - 1];
  l.row = c->row;
  for (uint32_t i = 0; i < op->nin; i++) op->in_used[i] = false;
  for (size_t i = 0; i < op->params.n; i++) op->params.at[i].used = false;
  for (size_t i = 0; i < op->weights.n; i++) op->weights.at[i].used = false;
  if (c->user_make) {
    if (!make_by_host(b, c, &l)) return false;
  } else {
    bool *named = ANFI_NEW_N(b->t->arena, bool, op->nin + 1);
    name_tied(b, op, true, named);
    bool good = c->make(&l) && anfi_layer_all_used(&l);
    name_tied(b, op, false, named);
    if (!good) return false;
  }
  return l.nresult == op->nout ||
         anfi_fail(b->p->cx, b->t->loc, ANF_E1056, op->type, l.nresult, op->nout);
}

static bool wrong_outputs(const builder *b, const anf_pnnx_op *op, size_t n) {
  return anfi_fail(b->p->cx, b->t->loc, ANF_E1056, op->type, n, op->nout);
}

static anf_node *parameter(const builder *b, const anf_pnnx_op *op, const char *name,
                           const anf_type *t) {
  anf_module *m = b->t->graph->module;
  anf_node *n = anfi_param(b->t->graph, anfi_intern_z(&m->strings, name), t);
  n->debug = anfi_debug_new(m, (anfi_debug){.file = anfi_intern_z(&m->strings, b->p->file),
                                            .name = anfi_intern_z(&m->strings, name),
                                            .line = op->line,
                                            .col = 1});
  return n;
}

/* Parameters come first: the inputs, then the weights if the function is to take them. */
static bool make_parameters(builder *b, bool weights) {
  for (size_t i = 0; i < b->p->input.n; i++) {
    const anf_pnnx_op *op = b->p->ops.at[b->p->input.at[i]];
    b->t->loc = anfi_pnnx_at(op, 1);
    if (op->nout != 1) return wrong_outputs(b, op, 1);
    const anf_type *t = b->types[i];
    b->as_declared &= op->nout == 1 && t == b->p->operands.at[op->out[0]].type;
    if (!t)
      return anfi_fail(b->p->cx, b->t->loc, ANF_E1055, op->type,
                       "its shape is not given (#operand=...)");
    b->operand[op->out[0]] = anfi_operand_node(parameter(b, op, op->name, t), t);
  }
  for (size_t i = 0; i < b->p->weights.n; i++) {
    anfi_weight *w = b->p->weights.at[i];
    bool real = anfi_dtype_class((anf_dtype)w->type->dtype) >= ANFI_CLASS_FLOAT;
    w->node =
        weights && real ? parameter(b, w->op, anfi_weight_name(b->t->arena, w), w->type) : NULL;
  }
  return true;
}

static bool make_structure(builder *b, anf_pnnx_op *op, structure s, const anfi_operand *in,
                           anfi_operand *out) {
  anfi_layer l = {.t = b->t, .op = op, .in = in, .out = out};
  switch (s) {
  case INPUT: *out = b->operand[op->out[0]]; return true;
  case ATTRIBUTE:
    return op->nout == 1 ? anfi_layer_weight(&l, "data", out) : wrong_outputs(b, op, 1);
  case PACK:
    if (op->nout != 1) return wrong_outputs(b, op, 1);
    *out = (anfi_operand){.kind = ANFI_OPERAND_LIST, .n = op->nin};
    out->item = ANFI_NEW_N(b->t->arena, anfi_operand, op->nin + 1u);
    memcpy(out->item, in, op->nin * sizeof *in);
    return true;
  case UNPACK:
    if (op->nin != 1 || in[0].kind != ANFI_OPERAND_LIST || in[0].n != op->nout)
      return wrong_outputs(b, op, op->nin == 1 ? in[0].n : 0);
    memcpy(out, in[0].item, op->nout * sizeof *out);
    return true;
  default: break; // OUTPUT
  }
  if (op->nout) return wrong_outputs(b, op, 0);
  for (uint32_t i = 0; i < op->nin; i++) {
    bool list = in[i].kind == ANFI_OPERAND_LIST;
    for (size_t k = 0; k < (list ? in[i].n : 1); k++)
      anfi_push(b->t->arena, &b->outputs, list ? in[i].item[k] : in[i]);
  }
  return true;
}

/* A type that inference does not see may be declared in the file. */
static void take_declared_type(const builder *b, uint32_t operand, anfi_operand *o) {
  const anf_type *t = b->p->operands.at[operand].type;
  if (o->kind != ANFI_OPERAND_TENSOR || o->type || !t) return;
  o->type = t;
  if (o->node) o->node->type = t;
}

/* Sizes that the file states must be those that come out: else the file has lost something of the model. */
static bool fits_declared(const builder *b, const anf_pnnx_op *op, uint32_t operand,
                          const anfi_operand *o) {
  const anf_type *t = b->p->operands.at[operand].type, *u = o->type;
  if (!b->as_declared || o->kind != ANFI_OPERAND_TENSOR || !t || !u || !anfi_is_tensor(u))
    return true;
  bool same = t->n == u->n;
  for (uint32_t i = 0; same && i < t->n; i++)
    same = t->dims[i] < 0 || u->dims[i] < 0 || t->dims[i] == u->dims[i];
  return same || anfi_fail(b->p->cx, b->t->loc, ANF_E1300, op->type, anfi_type_text(b->p->cx, u),
                           anfi_type_text(b->p->cx, t));
}

static bool make_operator(builder *b, anf_pnnx_op *op) {
  anf_module *m = b->t->graph->module;
  anfi_operand few[8],
      *in = op->nin > ANFI_LEN(few) ? ANFI_NEW_N(b->t->arena, anfi_operand, op->nin) : few;
  anfi_operand one[4],
      *out = op->nout > ANFI_LEN(one) ? ANFI_NEW_N(b->t->arena, anfi_operand, op->nout) : one;
  structure s = structure_of(op->type);
  for (uint32_t i = 0; i < op->nin; i++) in[i] = b->operand[op->in[i]];
  for (uint32_t i = 0; i < op->nout; i++) out[i] = (anfi_operand){.kind = ANFI_OPERAND_NONE};
  b->t->loc = anfi_pnnx_at(op, 1);
  b->t->debug = anfi_debug_new(m, (anfi_debug){.file = anfi_intern_z(&m->strings, b->p->file),
                                               .scope = anfi_intern_z(&m->strings, op->name),
                                               .line = op->line,
                                               .col = 1});
  if (!(s == LAYER ? make_layer(b, op, in, out) : make_structure(b, op, s, in, out))) return false;
  for (uint32_t i = 0; i < op->nout; i++) {
    take_declared_type(b, op->out[i], &out[i]);
    if (!fits_declared(b, op, op->out[i], &out[i])) return false;
    b->operand[op->out[i]] = out[i];
  }
  return true;
}

/* ---- the function ---- */

static anf_node *pack(builder *b, size_t n, anf_node **items) {
  anf_node *t = anfi_apply(b->t->graph, ANF_OP_MakeTuple, NULL, n, items);
  const anf_type **types = ANFI_NEW_N(b->t->arena, const anf_type *, n + 1);
  bool known = true;
  for (size_t i = 0; i < n; i++) {
    types[i] = type_of_node(b->p->cx, items[i]);
    known &= types[i]->kind != ANF_TYPE_ANY;
  }
  if (known) t->type = anfi_type_tuple(b->p->cx, n, types);
  return t;
}

static anf_node *give(builder *b, uint32_t *kept, size_t *nkept) {
  ANFI_VEC(anf_node *) items = {0};
  for (size_t i = 0; i < b->outputs.n; i++)
    anfi_push(b->t->arena, &items, anfi_torch_node(b->t, &b->outputs.at[i]));
  if (!kept) return items.n == 1 ? items.at[0] : pack(b, items.n, items.at);
  *nkept = 0;
  for (uint32_t i = 0; i < b->p->operands.n; i++) {
    if (b->operand[i].kind != ANFI_OPERAND_TENSOR) continue;
    kept[(*nkept)++] = i;
    anfi_push(b->t->arena, &items, anfi_torch_node(b->t, &b->operand[i]));
  }
  return pack(b, items.n, items.at);
}

anf_graph *anfi_pnnx_function(const anf_pnnx *p, anf_module *m, const anf_type *const *types,
                              bool weights, uint32_t *kept, size_t *nkept) {
  anf_graph *g = anfi_graph_new(m, anfi_intern_z(&m->strings, "main"));
  builder b = {.p = p, .t = anfi_torch_new(p->cx, g), .types = types, .as_declared = true};
  anfi_map_init(&b.creators, b.t->arena);
  b.operand = ANFI_NEW_N(b.t->arena, anfi_operand, p->operands.n + 1);
  if (!find_creators(&b) || !make_parameters(&b, weights)) return NULL;
  for (size_t i = 0; i < p->ops.n; i++) {
    if ((i & 1023) == 0 && !anfi_go_on(p->cx, "building", (double)i / (double)p->ops.n))
      return NULL;
    if (!make_operator(&b, p->ops.at[i])) return NULL;
  }
  anfi_set_result(g, give(&b, kept, nkept));
  return g;
}
