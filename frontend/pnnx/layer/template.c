// SPDX-License-Identifier: Apache-2.0
/* Layers that are rows of layer.def: an op, or a template of layer.anf, with the list of its arguments.
 *   PNNX_OP("nn.LeakyReLU F.leaky_relu", LeakyRelu, "input negative_slope>alpha=0.01", "inplace")
 *   F.leaky_relu a 1 1 x y negative_slope=0.2   ->   y = LeakyRelu(x, alpha=0.2)
 * A list is words KEY[>ATTR][:KIND][?][=DEFAULT]. KEY may be several names, "size|sizes", of which the first that is
 * given counts. KIND says what an argument must be (kinds below); without it, it is that of the default, else a tensor.
 * DEFAULT {A,B,C} lists the texts that an argument may be, of which the first is the default.
 * ATTR is the op's attribute, KEY if absent. "?": may be absent, which is None. KEY==TEXT: nothing else is done.
 * #N and 'T are the number N and the text T. A module's weight is found by its name; a function's inputs by name, else by position.
 *
 * A template's result is the operator's; a tuple is one result for each item. */
#include "frontend/pnnx/pnnx.h"
#include "frontend/trace/trace.h"

#include <stdlib.h>

// The kinds of arguments. Up to ITEMS they are operands: inputs, weights, or numbers in their place.
#define KINDS(K)                                                                                   \
  K(TENSOR, "")           /* an input */                                                           \
  K(WEIGHT, "w")          /* a tensor that is a module's weight, or an input */                    \
  K(OWN, "m")             /* a module's weight, or None */                                         \
  K(NAMED, "key")         /* an input that is given by name, or None */                            \
  K(NUMBER, "n")          /* a tensor, or a number */                                              \
  K(PROMOTED, "p")        /* likewise; all of this kind are converted to one element type */       \
  K(ALL, "all")           /* all inputs */                                                         \
  K(ALL_PROMOTED, "allp") /* likewise, converted to one element type */                            \
  K(TENSORS, "tensors")   /* a list of tensors */                                                  \
  K(ANY, "any")                                                                                    \
  K(ITEMS, "items") /* a list, or one operand as a list */                                         \
  K(INT, "int")                                                                                    \
  K(INTS, "ints")   /* one integer, or a tuple of them; None if there are none */                  \
  K(SIZES, "sizes") /* always a tuple */                                                           \
  K(PADS, "pads")   /* likewise, or "same" or "valid" */                                           \
  K(REAL, "real")                                                                                  \
  K(FILL, "fill") /* a number in the class of the first tensor; 0 if absent */                     \
  K(BOOL, "bool")                                                                                  \
  K(TEXT, "text")                                                                                  \
  K(WORD, "word")       /* a text or a number */                                                   \
  K(AXIS, "axis")       /* of the first tensor, counted from its first */                          \
  K(DTYPE, "dtype")     /* an element type, or None */                                             \
  K(OUTPUTS, "outputs") /* how many outputs the operator has */                                    \
  K(UNTYPED, "untyped") /* whether its only output has no type in the file */

typedef enum {
#define KIND(name, text) name,
  KINDS(KIND)
#undef KIND
} kind;

static const char *const kinds[] = {
#define KIND(name, text) text,
    KINDS(KIND)
#undef KIND
};

typedef struct {
  const char *key, *attr, *usual; // usual: the default's text, or NULL
  kind kind;
  bool optional, only;
} word;

/* ---- one word of a list ---- */

static kind kind_named(const char *s, size_t n) {
  size_t k = 0;
  while (strlen(kinds[k]) != n || memcmp(kinds[k], s, n) != 0) k++;
  return (kind)k;
}

static kind kind_of_text(const char *s) {
  if (strcmp(s, "True") == 0 || strcmp(s, "False") == 0) return BOOL;
  if (s[0] == '{') return TEXT;
  return s[strspn(s, "-0123456789")] ? REAL : INT;
}

/* The first of the names that is given, else the last. */
static const char *key_of(const anfi_layer *l, char *names) {
  char *bar;
  for (; (bar = strchr(names, '|')); names = bar + 1) {
    *bar = 0;
    if (anfi_layer_given(l, names)) return names;
  }
  return names;
}

static word read_word(const anfi_layer *l, const char *s, size_t n) {
  word w = {.kind = ALL};
  char *p = (char *)anfi_strndup(l->t->arena, s, n), *eq = strchr(p, '='), *at;
  if (eq) {
    *eq++ = 0;
    w.only = *eq == '=';
    w.usual = eq + w.only;
  }
  if (p[strlen(p) - 1] == '?') w.optional = true, p[strlen(p) - 1] = 0;
  if (*p == '#' || *p == '\'') return (word){.key = p, .attr = p, .kind = *p == '#' ? INT : TEXT};
  if ((at = strchr(p, ':'))) *at = 0, w.kind = kind_named(at + 1, strlen(at + 1));
  else w.kind = w.usual ? kind_of_text(w.usual) : TENSOR;
  if ((at = strchr(p, '>'))) *at = 0, w.attr = at + 1;
  w.key = key_of(l, p);
  if (!w.attr) w.attr = w.key;
  return w;
}

/* ---- its value ---- */

typedef struct {
  anfi_layer *l;
  anfi_trace *t;
  size_t n, place; // words so far; of them, how many may be inputs by position
  word word[32];
  anfi_operand operand[32]; // of those that are operands
  const anfi_traced *value[32];
} arguments;

static anfi_trace *trace_of(const anfi_layer *l) {
  extern const unsigned char anfi_templates_pnnx[];
  extern const size_t anfi_templates_pnnx_len;
  anfi_torch *t = l->t;
  if (!t->trace)
    t->trace = anfi_trace_new(t->cx, (const char *)anfi_templates_pnnx, anfi_templates_pnnx_len,
                              "layer.anf");
  if (!t->trace) return NULL;
  t->trace->to = t->graph;
  t->trace->loc = t->loc;
  t->trace->debug = t->debug;
  t->trace->subject = l->op->type;
  t->trace->most_folded = (size_t)1 << 27;
  return t->trace;
}

/* Numbers are known to templates; weights are nodes, also where their values are known. */
static const anfi_traced *to_traced(const anfi_layer *l, anfi_trace *t, const anfi_operand *o) {
  if (o->kind == ANFI_OPERAND_NONE) return anfi_traced_none(t);
  if (o->kind == ANFI_OPERAND_TEXT) return anfi_traced_value(t, anf_value_retain(o->value));
  if (o->kind == ANFI_OPERAND_TENSOR)
    return o->value && o->number ? anfi_traced_value(t, anf_value_retain(o->value))
                                 : anfi_traced_node(t, anfi_torch_node(l->t, o), o->type);
  const anfi_traced **item = ANFI_NEW_N(l->t->arena, const anfi_traced *, o->n + 1);
  for (size_t i = 0; i < o->n; i++)
    if (!(item[i] = to_traced(l, t, &o->item[i]))) return NULL;
  return anfi_traced_tuple(t, o->n, item);
}

static bool is_operand(kind k) { return k <= ITEMS; }

static bool tensors(const anfi_layer *l, size_t n, const anfi_operand *in) {
  for (size_t i = 0; i < n; i++)
    if (in[i].kind != ANFI_OPERAND_TENSOR || !in[i].type || !anfi_is_tensor(in[i].type))
      return anfi_layer_error(l, ANF_E1055, "the type of an input is not known, or is no tensor");
  return true;
}

static bool list_of_one(const anfi_layer *l, anfi_operand *o) {
  if (o->kind == ANFI_OPERAND_LIST) return true;
  anfi_operand *one = ANFI_NEW(l->t->arena, anfi_operand);
  *one = *o;
  *o = (anfi_operand){.kind = ANFI_OPERAND_LIST, .n = 1, .item = one};
  return true;
}

/* An input or weight that may be absent. */
static bool weight(const anfi_layer *l, const word *w, size_t place, anfi_operand *out) {
  if (!anfi_layer_weight_or_input(l, w->key, place, out)) return false;
  if (out->kind != ANFI_OPERAND_NONE) return tensors(l, 1, out);
  return w->optional || anfi_layer_need(l, out, w->key);
}

/* By name, else the next input that has none. */
static bool input(arguments *a, const word *w, anfi_operand *out) {
  const anfi_layer *l = a->l;
  *out = (anfi_operand){.kind = ANFI_OPERAND_NONE};
  if (w->kind == OWN) return !anfi_layer_has_weight(l, w->key) || anfi_layer_weight(l, w->key, out);
  if (w->kind == NAMED) return !anfi_layer_given(l, w->key) || anfi_layer_tensor(l, w->key, 0, out);
  // A module has all of its weights: none of them is an input by position.
  if (w->kind == WEIGHT && l->op->weights.n) return weight(l, w, SIZE_MAX, out);
  size_t place = a->place++;
  bool given = w->kind != TENSOR && w->kind != WEIGHT && anfi_layer_given(l, w->key);
  if (given && !anfi_layer_arg(l, w->key, out)) return false;
  if (!given && (w->kind == WEIGHT || w->optional)) return weight(l, w, place, out);
  if (!given && !anfi_layer_input(l, w->key, place, out)) return false;
  switch (w->kind) {
  case ANY:
  case NUMBER: return true;
  case ITEMS: return list_of_one(l, out);
  case TENSORS:
    return out->kind == ANFI_OPERAND_LIST && out->n
               ? tensors(l, out->n, out->item)
               : anfi_layer_error(l, ANF_E1055, "it takes a list of tensors");
  default: return tensors(l, 1, out);
  }
}

static bool all_inputs(arguments *a, const word *w, anfi_operand *out) {
  const anfi_layer *l = a->l;
  anfi_operand *item = ANFI_NEW_N(l->t->arena, anfi_operand, l->op->nin + 1);
  a->place = l->op->nin;
  memcpy(item, l->in, l->op->nin * sizeof *item);
  for (uint32_t i = 0; i < l->op->nin; i++) l->op->in_used[i] = true;
  *out = (anfi_operand){.kind = ANFI_OPERAND_LIST, .n = l->op->nin, .item = item};
  return w->kind == ALL || (tensors(l, out->n, item) && anfi_torch_promote(l->t, l->op->nin, item));
}

static bool operand(arguments *a, const word *w, anfi_operand *out) {
  if (w->kind == ALL || w->kind == ALL_PROMOTED) return all_inputs(a, w, out);
  return input(a, w, out);
}

/* All of kind PROMOTED, converted to one type. */
static bool promote(arguments *a) {
  anfi_operand in[32];
  size_t n = 0, k = 0;
  for (size_t i = 0; i < a->n; i++)
    if (a->word[i].kind == PROMOTED && a->operand[i].kind == ANFI_OPERAND_TENSOR)
      in[n++] = a->operand[i];
  if (n && !anfi_torch_promote(a->l->t, n, in)) return false;
  for (size_t i = 0; i < a->n; i++)
    if (a->word[i].kind == PROMOTED && a->operand[i].kind == ANFI_OPERAND_TENSOR)
      a->operand[i] = in[k++];
  return true;
}

static anf_value *ints_of(const anfi_layer *l, const word *w) {
  int64_t v[ANF_MAX_RANK];
  size_t n = 1;
  if (w->usual && !anfi_layer_given(l, w->key)) v[0] = strtoll(w->usual, NULL, 10);
  else if (!anfi_layer_ints(l, w->key, &n, v)) return NULL;
  if (w->kind == INTS && n < 2)
    return n ? anfi_value_new_i64(l->t->cx, ANF_INT, v[0]) : anfi_value_new_none(l->t->cx);
  return anfi_value_new_ints(l->t->cx, n, v);
}

static anf_value *axis_of(const arguments *a, const word *w) {
  int64_t v = w->usual ? strtoll(w->usual, NULL, 10) : 0;
  size_t axis;
  bool good =
      w->usual ? anfi_layer_int(a->l, w->key, v, &v) : anfi_layer_need_int(a->l, w->key, &v);
  return good && anfi_layer_axis_of(a->l, &a->operand[0], v, &axis)
             ? anfi_value_new_i64(a->l->t->cx, ANF_INT, (int64_t)axis)
             : NULL;
}

static anf_value *number_of(const anfi_layer *l, const word *w) {
  anf_ctx *cx = l->t->cx;
  int64_t i;
  double d;
  bool b;
  char *end;
  switch (w->kind) {
  case BOOL:
    if (!anfi_layer_bool(l, w->key, w->usual && w->usual[0] == 'T', &b)) return NULL;
    return anfi_value_new_i64(cx, ANF_BOOL, b);
  case REAL:
    if (!anfi_layer_real(l, w->key, w->usual ? anfi_read_f64(w->usual, &end) : 0, &d)) return NULL;
    return anfi_value_new_f64(cx, ANF_FLOAT, d);
  default:
    if (*w->key == '#') return anfi_value_new_i64(cx, ANF_INT, strtoll(w->key + 1, NULL, 10));
    if (!(w->usual ? anfi_layer_int(l, w->key, strtoll(w->usual, NULL, 10), &i)
                   : anfi_layer_need_int(l, w->key, &i)))
      return NULL;
    return anfi_value_new_i64(cx, ANF_INT, i);
  }
}

static anf_value *text_of(const anfi_layer *l, const char *s) {
  return anfi_value_new_string(l->t->cx, s, strlen(s));
}

static anf_value *missing(const anfi_layer *l, const char *key) {
  return (void)anfi_fail(l->t->cx, l->t->loc, ANF_E1051, l->op->type, "parameter", key), NULL;
}

/* One of {A,B,C}, which is A if it is absent. */
static anf_value *choice_of(const anfi_layer *l, const word *w) {
  const char *s = anfi_layer_text(l, w->key), *p = w->usual + 1;
  size_t first = strcspn(p, ",}"), n = first;
  if (!s) return anfi_value_new_string(l->t->cx, p, first);
  for (; n; p += n + 1, n = strcspn(p, ",}"))
    if (strlen(s) == n && memcmp(s, p, n) == 0) return text_of(l, s);
  anfi_layer_only(l, w->key, anfi_strndup(l->t->arena, w->usual + 1, first));
  return NULL;
}

/* A text, or the number that a parameter is. */
static anf_value *word_of(const anfi_layer *l, const word *w) {
  const char *s = anfi_layer_text(l, w->key);
  anfi_operand o;
  char *end;
  if (s && (anfi_read_f64(s, &end), *end)) return text_of(l, s);
  if (!anfi_layer_given(l, w->key)) return w->usual ? text_of(l, w->usual) : missing(l, w->key);
  if (!anfi_layer_arg(l, w->key, &o)) return NULL;
  return o.value ? anf_value_retain(o.value) : missing(l, w->key);
}

static anf_value *dtype_of(const anfi_layer *l) {
  anf_dtype d;
  if (!anfi_layer_dtype(l, ANF_DTYPE_COUNT, &d)) return NULL;
  return d == ANF_DTYPE_COUNT ? anfi_value_new_none(l->t->cx)
                              : anfi_value_new_type(l->t->cx, anfi_type_scalar(l->t->cx, d));
}

static anf_value *pads_of(const anfi_layer *l, const word *w) {
  const anfi_parameter *p = anfi_pnnx_param(l->op, w->key);
  if (!p || p->list || !p->n || p->item[0].kind != ANFI_ITEM_STRING) return ints_of(l, w);
  const char *s = anfi_layer_text(l, w->key);
  if (strcmp(s, "same") == 0 || strcmp(s, "valid") == 0) return text_of(l, s);
  return (void)anfi_layer_only(l, w->key, "same"), NULL;
}

static anf_value *fill_of(const arguments *a, const word *w) {
  double v;
  anf_dtype d = (anf_dtype)a->operand[0].type->dtype;
  if (!anfi_layer_real(a->l, w->key, 0, &v)) return NULL;
  return anfi_dtype_class(d) < ANFI_CLASS_FLOAT
             ? anfi_value_new_i64(a->l->t->cx, ANF_INT, (int64_t)v)
             : anfi_value_new_f64(a->l->t->cx, ANF_FLOAT, v);
}

/* The value of a word that is no input: attributes of an op, numbers that a template computes with. */
static anf_value *known(const arguments *a, const word *w) {
  const anfi_layer *l = a->l;
  const anf_pnnx_op *op = l->op;
  switch (w->kind) {
  case OUTPUTS: return anfi_value_new_i64(l->t->cx, ANF_INT, op->nout);
  case UNTYPED:
    return anfi_value_new_i64(l->t->cx, ANF_BOOL,
                              op->nout == 1 && !op->model->operands.at[op->out[0]].shape);
  case WORD: return word_of(l, w);
  case AXIS: return axis_of(a, w);
  case DTYPE: return dtype_of(l);
  case FILL: return fill_of(a, w);
  case PADS: return pads_of(l, w);
  case TEXT:
    if (*w->key == '\'') return text_of(l, w->key + 1);
    if (w->usual) return choice_of(l, w);
    return anfi_layer_text(l, w->key) ? text_of(l, anfi_layer_text(l, w->key)) : missing(l, w->key);
  case INTS:
  case SIZES: return ints_of(l, w);
  default: return number_of(l, w);
  }
}

static const anfi_traced *argument(const arguments *a, size_t i) {
  const word *w = &a->word[i];
  if (is_operand(w->kind)) return to_traced(a->l, a->t, &a->operand[i]);
  bool structural = w->kind == OUTPUTS || w->kind == UNTYPED;
  if (!structural && w->optional && !anfi_layer_given(a->l, w->key)) return anfi_traced_none(a->t);
  anf_value *v = known(a, w);
  return v ? anfi_traced_value(a->t, v) : NULL;
}

/* Checks that no input without a name is left over. */
static bool few_inputs(const arguments *a) {
  size_t unnamed = 0;
  for (uint32_t i = 0; i < a->l->op->nin; i++) unnamed += !a->l->op->in_name[i];
  return unnamed <= a->place || anfi_layer_error(a->l, ANF_E1053, "so many inputs");
}

static bool read_arguments(arguments *a, const char *params) {
  for (const char *p = params; *p; p += *p == ' ') {
    size_t n = strcspn(p, " ");
    word w = read_word(a->l, p, n);
    p += n;
    if (w.only) {
      if (!anfi_layer_only(a->l, w.key, w.usual)) return false;
      continue;
    }
    a->word[a->n] = w;
    if (is_operand(w.kind) && !operand(a, &w, &a->operand[a->n])) return false;
    a->n++;
  }
  if (!few_inputs(a) || !promote(a)) return false;
  for (size_t i = 0; i < a->n; i++)
    if (!(a->value[i] = argument(a, i))) return false;
  return true;
}

/* ---- calls ---- */

static const anfi_traced *call_op(arguments *a, anfi_opcode op) {
  const anfi_schema *s = anfi_op_schema(a->l->t->cx, op);
  anf_value **attr = ANFI_NEW_N(a->l->t->arena, anf_value *, s->nattr + 1);
  const anfi_traced *const *in = a->value;
  size_t nin = 0;
  for (uint32_t k = 0; k < s->nattr; k++) attr[k] = anfi_attr_value(a->l->t->cx, op, NULL, k);
  for (size_t i = 0; i < a->n; i++) {
    if (is_operand(a->word[i].kind)) nin = i + 1;
    else if (!anfi_traced_is_none(a->value[i])) {
      int k = anfi_attr_index(a->l->t->cx, op, a->word[i].attr);
      if (k < 0)
        return (void)anfi_fail(a->l->t->cx, a->l->t->loc, ANF_E0203, s->name->s, a->word[i].attr),
               NULL;
      attr[k] = anfi_traced_known(a->t, a->value[i]);
    }
  }
  if (nin && (a->word[0].kind == ALL || a->word[0].kind == ALL_PROMOTED))
    in = a->value[0]->item, nin = a->value[0]->n;
  return anfi_trace_op(a->t, op, nin, in, attr);
}

static const anfi_traced *call_template(arguments *a, const char *name, anfi_opcode op) {
  const anfi_traced *in[33];
  size_t n = 0;
  anf_graph *f = anfi_trace_find(a->t, name);
  if (!f) return (void)anfi_fail(a->l->t->cx, a->l->t->loc, ANF_E0001, name), NULL;
  anfi_traced *fn = ANFI_NEW(a->l->t->arena, anfi_traced);
  *fn = (anfi_traced){.kind = ANFI_TRACED_FN, .op = (uint16_t)op};
  if (op != ANF_OP_NONE) in[n++] = fn;
  for (size_t i = 0; i < a->n; i++) in[n++] = a->value[i];
  return anfi_trace_call(a->t, f, n, in);
}

static anfi_operand to_operand(const anfi_layer *l, const anfi_traced *x) {
  anf_ctx *cx = l->t->cx;
  if (x->kind == ANFI_TRACED_TUPLE) {
    anfi_operand list = {.kind = ANFI_OPERAND_LIST, .n = x->n};
    list.item = ANFI_NEW_N(l->t->arena, anfi_operand, x->n + 1);
    for (size_t i = 0; i < x->n; i++) list.item[i] = to_operand(l, x->item[i]);
    return list;
  }
  if (x->value && !x->node)
    return anfi_operand_value(cx, anfi_torch_own(l->t, anf_value_retain(x->value)));
  return anfi_operand_node(x->node, x->type);
}

static bool give(anfi_layer *l, const anfi_traced *x) {
  bool tuple = x->kind == ANFI_TRACED_TUPLE;
  l->nresult = tuple ? x->n : 1;
  if (l->nresult != l->op->nout) return true; // the caller checks the number of results
  for (size_t i = 0; i < l->nresult; i++) {
    l->out[i] = to_operand(l, tuple ? x->item[i] : x);
    if (l->out[i].node) l->out[i].node->type = l->out[i].type;
  }
  return true;
}

bool anfi_layer_template(anfi_layer *l, const char *name, anfi_opcode op, const char *params) {
  arguments *a = ANFI_NEW(l->t->arena, arguments);
  *a = (arguments){.l = l, .t = trace_of(l)};
  if (!a->t || !read_arguments(a, params)) return false;
  const anfi_traced *x = name ? call_template(a, name, op) : call_op(a, op);
  return x && give(l, x);
}

bool anfi_layer_of_row(anfi_layer *l) {
  const anfi_layer_row *r = l->row;
  anfi_layer_ignore(l, r->ignored);
  return anfi_layer_template(l, r->template, r->op, r->params);
}
