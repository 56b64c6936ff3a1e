// SPDX-License-Identifier: Apache-2.0
/* Writing a function as an ONNX model, in the form that build.c reads:
 *   def main(x: f32[2], n: i64) { (a, (b, c)) }    ->  inputs x and n, outputs result.0, result.1.0, result.1.1
 *   def net(params: {w: f32[2]}, x: f32[2]) { .. } ->  the fields of params are initializers, with the values that
 *   def params() { {w = ..} }                          params() gives; of a training step they are inputs, too, with those defaults
 *
 * The program is written as the passes leave it: a choice between functions is an If, the op Loop a Loop. A function with
 * one use is the subgraph, or nodes in place; one with more is a function of the model (`domain` anfora). */
#include "frontend/onnx/write.h"

#include "anfora/text.h"

enum { MAX_NODES = 1 << 22, MAX_BYTES = INT32_MAX }; // protobuf's messages have less than 2 GB

static void note_made(anfi_flat *w, const char *name) {
  *anfi_map_at(&anfi_ox_own_of(w)->made, anfi_key(anfi_intern_z(&w->words, name))) =
      anfi_ox_own_of(w)->scope + 1;
}

static const anfi_out *new_tensor(anfi_flat *w, const anf_type *t, const char *name) {
  if (name) note_made(w, name);
  return anfi_out_leaf(w, name ? name : anfi_ox_new_name(w), t);
}

static const anfi_out *any_tensor(anfi_flat *w, const anf_type *t) {
  int64_t dims[ANF_MAX_RANK];
  for (uint32_t i = 0; i < t->n; i++) dims[i] = t->dims[i] < 0 ? 0 : t->dims[i];
  anf_dtype d = anfi_dtype_settle((anf_dtype)t->dtype);
  anf_value *v = anfi_value_new_tensor(w->cx, anfi_type_tensor(w->cx, d, t->n, dims));
  anfi_defer(w->cx, ANFI_ALWAYS, anfi_release, v);
  return anfi_ox_constant(w, v);
}

static const anfi_out *select_tensor(anfi_flat *w, const anfi_out *c, const anfi_out *x,
                                     const anfi_out *y) {
  const char *in[3] = {c->name, x->name, y->name};
  return anfi_out_leaf(w, anfi_ox_put(w, "Where", 3, in), x->type);
}

static const anfi_flat_form form = {.refusal = ANF_E1177,
                                    .nested = 32,
                                    .tensor = new_tensor,
                                    .constant = anfi_ox_constant,
                                    .any = any_tensor,
                                    .select = select_tensor,
                                    .op = anfi_ox_op,
                                    .function = anfi_ox_call_function,
                                    .choice = anfi_ox_choice,
                                    .loop = anfi_ox_loop};

/* ---- nodes ---- */

const char *anfi_ox_new_name(anfi_flat *w) {
  const char *name = anfi_sprintf(w->arena, "v%zu", w->count++);
  note_made(w, name);
  return name;
}

size_t anfi_ox_open(anfi_flat *w, const char *op, size_t n, const char *const *in) {
  if (++anfi_ox_own_of(w)->nodes > MAX_NODES)
    (void)anfi_flat_refuse(w, NULL, "a program of", "so many nodes");
  size_t at = anfi_wire_open(w->out, 1);
  while (n && !*in[n - 1]) n--; // those that are absent at the end
  for (size_t i = 0; i < n; i++) anfi_wire_put_text(w->out, 1, in[i]);
  anfi_wire_put_text(w->out, 4, op);
  return at;
}

static void close_with(anfi_flat *w, size_t at, const char *name) {
  anfi_wire_put_text(w->out, 2, name);
  anfi_wire_close(w->out, at);
}

const char *anfi_ox_close(anfi_flat *w, size_t at) {
  const char *name = anfi_ox_new_name(w);
  close_with(w, at, name);
  return name;
}

const char *anfi_ox_put(anfi_flat *w, const char *op, size_t n, const char *const *in) {
  return anfi_ox_close(w, anfi_ox_open(w, op, n, in));
}

const char *anfi_ox_cast(anfi_flat *w, const char *x, anf_dtype d) {
  const anfi_str *s = anfi_interned(&w->words, x, strlen(x));
  const uint64_t *exact =
      s && d == ANF_I64 ? anfi_map_find(&anfi_ox_own_of(w)->exact, anfi_key(s)) : NULL;
  if (exact) return (const char *)(uintptr_t)*exact;
  size_t at = anfi_ox_open(w, "Cast", 1, &x);
  anfi_ox_attr_int(w, "to", anfi_dtype_file_number(d));
  return anfi_ox_close(w, at);
}

const char *anfi_ox_real(anfi_flat *w, const char *index, anf_dtype d) {
  const char *x = anfi_ox_cast(w, index, d);
  *anfi_map_at(&anfi_ox_own_of(w)->exact, anfi_key(anfi_intern_z(&w->words, x))) = anfi_key(index);
  return x;
}

/* ---- graphs ---- */

/* Begins a graph: no names and no constants yet. */
static void begin_unit(anfi_flat *w) {
  anfi_ox_own *own = anfi_ox_own_of(w);
  anfi_map_init(&w->named, w->arena);
  anfi_strtab_init(&w->words, w->arena);
  anfi_map_init(&own->made, w->arena);
  anfi_map_init(&own->exact, w->arena);
  anfi_map_init(&own->constant, w->arena);
  anfi_strtab_init(&own->encoded, w->arena);
  own->constants.value.n = own->constants.name.n = w->count = own->scope = own->nscope = 0;
}

/* Outputs have names of their own. */
static void put_output(anfi_flat *w, const char *from, const char *name) {
  close_with(w, anfi_ox_open(w, "Identity", 1, &from), name);
}

static bool put_outputs(anfi_flat *w, const anf_type *t, const anfi_out *result, bool typed) {
  anfi_outs from = {0}, to = {0};
  const anfi_out *names = t ? anfi_flat_fresh(w, t, "result") : NULL;
  if (!names)
    return anfi_failed(w->cx) ? false : anfi_flat_refuse(w, NULL, "a result", "without a type");
  anfi_out_add(w, result, &from);
  anfi_out_add(w, names, &to);
  if (from.n != to.n) return anfi_flat_refuse(w, NULL, "a result", "of another form than its type");
  for (size_t i = 0; i < to.n; i++) {
    put_output(w, from.at[i]->name, to.at[i]->name);
    if (!typed) anfi_wire_put_text(w->out, 5, to.at[i]->name);
    else if (!anfi_ox_put_value_info(w, 12, to.at[i]->name, to.at[i]->type)) return false;
  }
  return true;
}

/* A name of the language's file that no other input has. */
static const char *input_name(anfi_flat *w, const anf_node *p, size_t i) {
  const anfi_str *s = w->m->debugs.at[p->debug].name;
  const char *name = s && s->len ? s->s : anfi_sprintf(w->arena, "x%zu", i);
  for (size_t k = 1;
       anfi_map_find(&anfi_ox_own_of(w)->made, anfi_key(anfi_intern_z(&w->words, name))); k++)
    name = anfi_sprintf(w->arena, "%s_%zu", s ? s->s : "x", k);
  return name;
}

/* Initializers of a graph, Constant nodes of a function. */
static void put_constants(anfi_flat *w, bool initializers) {
  for (size_t i = 0; i < anfi_ox_own_of(w)->constants.value.n; i++) {
    const anf_value *v = anfi_ox_own_of(w)->constants.value.at[i];
    const char *name = anfi_ox_own_of(w)->constants.name.at[i];
    if (initializers) {
      anfi_ox_put_tensor(w, 5, name, v);
      continue;
    }
    size_t at = anfi_ox_open(w, "Constant", 0, NULL), attr = anfi_wire_open(w->out, 5);
    anfi_wire_put_text(w->out, 1, "value");
    anfi_wire_put_varint(w->out, 20, OX_ATTR_TENSOR);
    anfi_ox_put_tensor(w, 5, NULL, v);
    anfi_wire_close(w->out, attr);
    close_with(w, at, name);
  }
}

/* ---- the graph of the model ---- */

static bool is_step(const anf_graph *g, const anf_type *record) {
  const anf_type *t = anfi_flat_type_of(g->result);
  return t && t->kind == ANF_TYPE_TUPLE && t->n == 2 && t->items[0] == record;
}

static const anfi_out *weight_names(anfi_flat *w, const anf_type *t) {
  const anfi_out **item = ANFI_NEW_N(w->arena, const anfi_out *, t->n + 1);
  for (uint32_t i = 0; i < t->n; i++)
    if (!(item[i] = anfi_flat_fresh(w, t->items[i], t->names[i]->s))) return NULL;
  return anfi_out_tuple(w, t->n, item);
}

static bool weight_tensors(anfi_flat *w, const anfi_out *names, const anf_value *v) {
  if (names->name && v->kind != ANF_VALUE_TENSOR)
    return v->kind == ANF_VALUE_NONE || anfi_flat_refuse(w, NULL, "a weight", "that is no tensor");
  if (names->name) return anfi_ox_put_tensor(w, 5, names->name, v), true;
  for (size_t i = 0; i < names->n; i++)
    if (!weight_tensors(w, names->item[i], v->u.item[i])) return false;
  return true;
}

static bool put_inputs(anfi_flat *w, const anfi_out *x) {
  anfi_outs leaves = {0};
  anfi_out_add(w, x, &leaves);
  for (size_t i = 0; i < leaves.n; i++)
    if (!anfi_ox_put_value_info(w, 11, leaves.at[i]->name, leaves.at[i]->type)) return false;
  return true;
}

static bool put_graph(anfi_flat *w, const anf_graph *g, const anf_value *weights) {
  const anfi_out **args = ANFI_NEW_N(w->arena, const anfi_out *, g->params.n + 1);
  size_t at = anfi_wire_open(w->out, 7);
  begin_unit(w);
  for (size_t i = 0; i < g->params.n; i++) {
    const anf_node *p = g->params.at[i];
    args[i] =
        !i && weights ? weight_names(w, p->type) : anfi_flat_fresh(w, p->type, input_name(w, p, i));
    if (!args[i]) return false;
  }
  const anfi_out *result = anfi_flat_body(w, g, args);
  if (!result) return false;
  anfi_wire_put_text(w->out, 2, g->name->s);
  if (weights && !weight_tensors(w, args[0], weights)) return false;
  for (size_t i = 0; i < g->params.n; i++)
    if ((i || !weights || is_step(g, g->params.at[0]->type)) && !put_inputs(w, args[i]))
      return false;
  if (!put_outputs(w, anfi_flat_type_of(g->result), result, true)) return false;
  put_constants(w, true);
  anfi_wire_close(w->out, at);
  return true;
}

/* ---- functions ---- */

static bool put_function(anfi_flat *w, const anf_graph *g, const char *name) {
  const anfi_out **args = ANFI_NEW_N(w->arena, const anfi_out *, g->params.n + 1);
  anf_text *whole = w->out, *nodes = ANFI_NEW(w->arena, anf_text);
  *nodes = (anf_text){.cx = w->cx};
  anfi_defer(w->cx, ANFI_ALWAYS, anfi_free_text, nodes);
  begin_unit(w);
  w->out = nodes; // constants go before them
  anfi_outs in = {0};
  for (size_t i = 0; i < g->params.n; i++) {
    if (!(args[i] = anfi_flat_fresh(w, g->params.at[i]->type, NULL))) return false;
    anfi_out_add(w, args[i], &in);
  }
  const anfi_out *result = anfi_flat_body(w, g, args);
  if (!result || !put_outputs(w, anfi_flat_type_of(g->result), result, false)) return false;
  w->out = whole;
  size_t at = anfi_wire_open(whole, 25);
  anfi_wire_put_text(whole, 1, name);
  for (size_t i = 0; i < in.n; i++) anfi_wire_put_text(whole, 4, in.at[i]->name);
  size_t first = whole->len;
  put_constants(w, false);
  /* a node is field 1 of a graph and field 7 of a function; outputs are field 5 */
  anfi_put(whole, nodes->text, nodes->len);
  for (size_t k = first; k < whole->len;) {
    anfi_wire p = anfi_wire_of(whole->text + k, whole->len - k);
    anfi_wire_field f;
    if (!anfi_wire_next(&p, &f)) break;
    if (f.number == 1) whole->text[k] = (char)(7 << 3 | ANFI_WIRE_BYTES);
    k = (size_t)((const char *)p.p - whole->text);
  }
  size_t opset = anfi_wire_open(whole, 9);
  anfi_wire_put_text(whole, 1, "");
  anfi_wire_put_varint(whole, 2, OX_OPSET);
  anfi_wire_close(whole, opset);
  anfi_wire_put_text(whole, 10, OX_DOMAIN);
  anfi_wire_close(whole, at);
  return true;
}

static void put_opset(anfi_flat *w, const char *domain, uint64_t version) {
  size_t at = anfi_wire_open(w->out, 8);
  anfi_wire_put_text(w->out, 1, domain);
  anfi_wire_put_varint(w->out, 2, version);
  anfi_wire_close(w->out, at);
}

static bool put_model(anfi_flat *w, const anf_graph *g, const anf_value *weights) {
  size_t before = w->out->len;
  anfi_wire_put_varint(w->out, 1, OX_IR_VERSION);
  anfi_wire_put_text(w->out, 2, "Anfora");
  put_opset(w, "", OX_OPSET);
  if (!put_graph(w, g, weights)) return false;
  for (size_t i = 0; i < w->functions.todo.n; i++) { // grows
    const anf_graph *f = w->functions.todo.at[i];
    if (!put_function(w, f, anfi_flat_name(w, f))) return false;
  }
  if (w->functions.todo.n) put_opset(w, OX_DOMAIN, 1);
  return w->out->len - before <= MAX_BYTES ||
         anfi_flat_refuse(w, NULL, "a model of", "more than 2 GB");
}

/* ---- the entry ---- */

extern const unsigned char anfi_templates_onnx_export[];
extern const size_t anfi_templates_onnx_export_len;

static bool write_onnx(anf_graph *g, size_t n, const anf_type *const *types, void *user,
                       anf_text *out) {
  (void)user;
  const anfi_export_form e = {.pipeline = "standard",
                              .name = "export.anf",
                              .text = (const char *)anfi_templates_onnx_export,
                              .len = anfi_templates_onnx_export_len,
                              .refusal = ANF_E1177};
  anf_value *weights = NULL;
  anf_graph *net = anfi_export_prepare(&e, g, n, types);
  if (!net || !anfi_export_weights(&e, g, n ? net->params.at[0]->type : NULL, &weights))
    return false;
  anfi_ox_own own = {0};
  anfi_flat w;
  anfi_flat_init(&w, &form, &own, net->module, out);
  return put_model(&w, net, weights);
}

anf_status anf_write_onnx(anf_graph *g, size_t n, const anf_type *const *types, anf_diag *d,
                          anf_text *out) {
  return anfi_export(write_onnx, g, n, types, NULL, d, out);
}
