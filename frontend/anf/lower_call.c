// SPDX-License-Identifier: Apache-2.0
/* Calls: of functions of the program, of ops with attributes, of builtins in lower case.
 *   f(x)   ->   a call node       Sum(x, axis=0)   ->   an op with an attribute       cast(x, f32)   ->   the op Cast
 * Positional arguments of an op are its inputs, then its attributes in the schema's order. */
#include "frontend/anf/anf.h"

static const struct {
  const char *name, *op;
} builtins[] = {
#define ANF_BUILTIN(name, op) {#name, op},
#include "frontend/anf/builtin.def"
#undef ANF_BUILTIN
};

const char *anfi_anf_builtin_name(size_t i) {
  return i < ANFI_LEN(builtins) ? builtins[i].name : NULL;
}

anfi_opcode anfi_anf_builtin_op(lower *lw, const anfi_str *word) {
  for (size_t i = 0; i < ANFI_LEN(builtins); i++)
    if (strcmp(builtins[i].name, word->s) == 0)
      return anfi_op_find(lw->cx, builtins[i].op, strlen(builtins[i].op));
  return ANF_OP_NONE;
}

anfi_opcode anfi_anf_op_of(lower *lw, const anfi_str *word) {
  if (word->id >= lw->nword) return anfi_op_find(lw->cx, word->s, word->len);
  uint16_t *at = &lw->op[word->id];
  if (!*at) {
    anfi_opcode op = anfi_op_find(lw->cx, word->s, word->len);
    *at = op == ANF_OP_NONE ? UINT16_MAX : (uint16_t)(op + 1);
  }
  return *at == UINT16_MAX ? ANF_OP_NONE : (anfi_opcode)(*at - 1);
}

/* ---- ops ---- */

/* A call of an op while its arguments are sorted into inputs and attributes. */
typedef struct {
  anfi_opcode op;
  const anfi_schema *s;
  const ast *call;
  anf_node **in; // s->nin of them, or more when variadic; NULL: absent
  uint32_t nin;
  anf_value **values; // by attribute
  anf_node **nodes;
  bool bad;
} op_call;

static bool set_attr(lower *lw, op_call *c, uint32_t k, anf_node *v, const ast *at) {
  if (v == lw->bad) return c->bad = true, false;
  if (c->values[k])
    return c->bad = true, anfi_fail(lw->cx, anfi_anf_loc(lw, at), ANF_E0131, c->s->attr[k].name->s);
  bool constant =
      anfi_anf_is_const(v) || (v->kind == ANFI_VALUE && c->s->attr[k].type == ANFI_ATTR_ANY);
  if (constant && !anfi_attr_check(lw->cx, c->op, k, v->u.value, anfi_anf_loc(lw, at)))
    return c->bad = true, false;
  c->values[k] = constant ? v->u.value : &anfi_from_node;
  c->nodes[k] = constant ? NULL : v;
  return true;
}

static int input_index(const anfi_schema *s, const anfi_str *word) {
  for (uint32_t i = 0; i < s->nin; i++)
    if (strcmp(s->in[i]->s, word->s) == 0 && !(s->variadic && i + 1 == s->nin)) return (int)i;
  return -1;
}

static void set_keyword(lower *lw, op_call *c, const ast *k) {
  int attr = anfi_attr_index(lw->cx, c->op, k->u.word->s), in = input_index(c->s, k->u.word);
  anfi_loc loc = anfi_anf_loc(lw, k);
  if (attr < 0 && in < 0) {
    if (c->op == ANF_OP_Partial) {
      anfi_fail(lw->cx, loc, ANF_E0135);
      anfi_hint(lw->cx,
                "partial binds first parameters by place; others by fn (x) { f(x, %s=...) }",
                k->u.word->s);
    } else anfi_attr_unknown(lw->cx, c->op, k->u.word->s, loc);
    c->bad = true;
    return;
  }
  anf_node *v = anfi_anf_expr(lw, k->kid[0]);
  if (attr >= 0) {
    set_attr(lw, c, (uint32_t)attr, v, k);
    return;
  }
  if (c->in[in]) c->bad = true, anfi_fail(lw->cx, loc, ANF_E0131, k->u.word->s);
  c->in[in] = v;
  if ((uint32_t)in >= c->nin) c->nin = (uint32_t)in + 1;
  c->bad |= v == lw->bad;
}

static bool arity_error(lower *lw, op_call *c, size_t n) {
  c->bad = true;
  const char *in = anfi_op[c->op].in;
  anfi_fail(lw->cx, anfi_anf_loc(lw, c->call), ANF_E0202, c->s->name->s, n, in ? in : "");
  return anfi_op[c->op].attrs ? anfi_hint_call(lw->cx, c->op) : false;
}

static bool by_keyword(const ast *call, const anfi_str *name) {
  for (uint32_t i = 0; i < call->n; i++)
    if (call->kid[i]->kind == A_KEYWORD && !strcmp(call->kid[i]->u.word->s, name->s)) return true;
  return false;
}

/* Whether as many attributes are given by position as have no default: it is those then. Arange(n) ends at n. */
static bool only_required(const op_call *c) {
  size_t given = 0, required = 0;
  for (uint32_t i = 0; i < c->call->n; i++) given += c->call->kid[i]->kind != A_KEYWORD;
  for (uint32_t k = 0; k < c->s->nattr; k++)
    required += !c->s->attr[k].initial && !by_keyword(c->call, c->s->attr[k].name);
  return given == c->s->nin + required;
}

/* Positional arguments are inputs, then attributes in the schema's order; keywords come after. */
static void sort_arguments(lower *lw, op_call *c) {
  uint32_t positional = 0, attr = 0;
  bool skip = only_required(c);
  bool keywords = false;
  for (uint32_t i = 0; i < c->call->n && !c->bad; i++) {
    const ast *k = c->call->kid[i];
    if (k->kind == A_KEYWORD) {
      keywords = true;
      set_keyword(lw, c, k);
      continue;
    }
    if (keywords) anfi_fail(lw->cx, anfi_anf_loc(lw, k), ANF_E0133), c->bad = true;
    bool input = c->s->variadic || positional < c->s->nin;
    if (!input && attr >= c->s->nattr) {
      arity_error(lw, c, c->call->n);
      return;
    }
    anf_node *v = anfi_anf_expr(lw, k);
    c->bad |= v == lw->bad;
    if (input) c->in[positional++] = v, c->nin = positional;
    else {
      while (skip && attr + 1 < c->s->nattr && c->s->attr[attr].initial) attr++;
      set_attr(lw, c, attr++, v, k);
    }
  }
}

/* An input that is left out before one that is given is None. */
static bool fill_gaps(lower *lw, op_call *c) {
  for (uint32_t i = 0; i < c->nin; i++) {
    if (c->in[i]) continue;
    if (i < c->s->min_in) return arity_error(lw, c, c->call->n);
    c->in[i] = anfi_anf_none(lw);
  }
  return c->nin >= c->s->min_in || arity_error(lw, c, c->nin);
}

static bool any_given(const op_call *c) {
  for (uint32_t k = 0; k < c->s->nattr; k++)
    if (c->values[k]) return true;
  return false;
}

static bool any_attr(const op_call *c) {
  for (uint32_t k = 0; k < c->s->nattr; k++)
    if (!c->s->attr[k].initial) return true;
  return any_given(c);
}

static bool begin(lower *lw, op_call *c, anfi_opcode op, const ast *call) {
  const anfi_schema *s = anfi_op_schema(lw->cx, op);
  size_t most = s->nin > call->n ? s->nin : call->n;
  *c = (op_call){.op = op, .s = s, .call = call};
  anf_node **room = ANFI_NEW_N(lw->p->a, anf_node *, most + 3 * (size_t)s->nattr);
  c->in = room;
  c->nodes = room + most + s->nattr;
  c->values = (anf_value **)(void *)(room + most + 2 * (size_t)s->nattr);
  sort_arguments(lw, c);
  return !c->bad;
}

static bool finish_attrs(lower *lw, op_call *c, const anfi_attrs **at) {
  *at = NULL;
  return !any_attr(c) || anfi_attrs_new(lw->m, c->op, c->values, anfi_anf_loc(lw, c->call), at);
}

static anf_node *call_op(lower *lw, anfi_opcode op, const ast *base, const ast *call) {
  op_call c;
  const anfi_attrs *at;
  if (!begin(lw, &c, op, call) || !fill_gaps(lw, &c) || !finish_attrs(lw, &c, &at)) return lw->bad;
  for (uint32_t k = 0; k < c.s->nattr; k++)
    if (c.nodes[k]) c.in[c.nin++] = c.nodes[k];
  return anfi_anf_at(lw, anfi_apply(lw->g, op, at, c.nin, c.in), base ? base : call);
}

/* ---- builtins with forms of their own ---- */

/* A function value with further arguments bound, as a constant. */
static anf_node *bound_constant(lower *lw, size_t n, anf_node *const *in) {
  const anfi_fn *f = anfi_value_fn(in[0]->u.value);
  anf_value *v =
      anfi_value_new_fn(lw->cx, f->graph, f->op, f->attrs, 0, f->nbound + (uint32_t)n - 1);
  anfi_fn *to = anfi_value_fn(v); // nothing can fail while it is filled
  for (uint32_t i = 0; i < f->nbound; i++) to->at[i] = anf_value_retain(f->at[i]);
  for (size_t i = 1; i < n; i++) to->at[f->nbound + i - 1] = anf_value_retain(in[i]->u.value);
  anf_node *node = anfi_value(lw->m, v);
  node->op = f->op;
  return node;
}

/* A constant if all is constant, else the op Partial. */
static anf_node *bind_arguments(lower *lw, const ast *call, size_t n, anf_node *const *in) {
  bool constant = in[0]->kind == ANFI_VALUE && in[0]->u.value->kind == ANF_VALUE_FN;
  for (size_t i = 1; i < n; i++) constant = constant && in[i]->kind == ANFI_VALUE;
  for (size_t i = 1; i < n; i++) constant = constant && !anfi_value_graph(in[i]);
  if (n == 1) return in[0];
  if (constant) return bound_constant(lw, n, in);
  return anfi_anf_at(lw, anfi_apply(lw->g, ANF_OP_Partial, NULL, n, in), call);
}

/* partial(Sum, axis=0): the attributes become the op's own. */
static anf_node *partial_op(lower *lw, anfi_opcode op, const ast *call) {
  ast *rest = anfi_ast(lw->p, A_CALL, &(token){.line = call->line, .col = call->col}, call->n - 1);
  memcpy(rest->kid, call->kid + 1, rest->n * sizeof *rest->kid);
  op_call c;
  const anfi_attrs *at = NULL;
  if (!begin(lw, &c, op, rest)) return lw->bad;
  for (uint32_t k = 0; k < c.s->nattr; k++)
    if (c.nodes[k]) {
      anfi_fail(lw->cx, anfi_anf_loc(lw, call), ANF_E0134, c.s->attr[k].name->s);
      return lw->bad;
    }
  if (any_given(&c) && !anfi_attrs_new(lw->m, op, c.values, anfi_anf_loc(lw, call), &at))
    return lw->bad;
  anf_node **in = ANFI_NEW_N(lw->p->a, anf_node *, (size_t)c.nin + 1);
  in[0] = at ? anfi_op_value_attrs(lw->m, op, at) : anfi_op_value(lw->m, op);
  for (uint32_t i = 0; i < c.nin; i++)
    if (!(in[i + 1] = c.in[i])) {
      anfi_fail(lw->cx, anfi_anf_loc(lw, call), ANF_E0152, c.s->name->s, c.s->in[i]->s);
      return lw->bad;
    }
  return bind_arguments(lw, call, (size_t)c.nin + 1, in);
}

static anf_node *partial(lower *lw, const ast *call) {
  const ast *f = call->n ? call->kid[0] : NULL;
  if (f && f->kind == A_NAME && lw->bind[f->u.word->id].state == B_NONE) {
    anfi_opcode op = anfi_anf_op_of(lw, f->u.word);
    if (op == ANF_OP_NONE) op = anfi_anf_builtin_op(lw, f->u.word);
    bool own_form = op == ANF_OP_Partial || op == ANF_OP_Switch || op == ANF_OP_MultiType;
    if (op != ANF_OP_NONE && !own_form) return partial_op(lw, op, call);
  }
  op_call c;
  if (!begin(lw, &c, ANF_OP_Partial, call) || !fill_gaps(lw, &c)) return lw->bad;
  return bind_arguments(lw, call, c.nin, c.in);
}

/* multitype(f, g): chooses by the types of its arguments when it is called. */
static anf_node *multitype(lower *lw, anfi_opcode op, const ast *call) {
  op_call c;
  if (!begin(lw, &c, ANF_OP_MakeTuple, call)) return lw->bad;
  anf_node *fs = anfi_anf_at(lw, anfi_apply(lw->g, ANF_OP_MakeTuple, NULL, c.nin, c.in), call);
  return anfi_anf_at(lw, anfi_apply2(lw->g, ANF_OP_Partial, anfi_op_value(lw->m, op), fs), call);
}

/* switch(i, (f, g)) chooses by an index, switch(c, f, g) by a bool. */
static anf_node *switch_call(lower *lw, const ast *base, const ast *call) {
  return call_op(lw, call->n == 2 ? ANF_OP_SwitchLayer : ANF_OP_Switch, base, call);
}

bool anfi_anf_builtin(lower *lw, const ast *base, const ast *call, anf_node **out) {
  const anfi_str *w = base->u.word;
  if (w->id < lw->nword && lw->bind[w->id].state != B_NONE) return false;
  anfi_opcode op = anfi_anf_op_of(lw, w);
  if (op != ANF_OP_NONE) return *out = call_op(lw, op, base, call), true;
  op = anfi_anf_builtin_op(lw, w);
  if (op != ANF_OP_NONE) {
    if (op == ANF_OP_Partial) *out = partial(lw, call);
    else if (op == ANF_OP_Switch) *out = switch_call(lw, base, call);
    else if (op == ANF_OP_MultiType) *out = multitype(lw, op, call);
    else *out = call_op(lw, op, base, call);
    return true;
  }
  bool like_op = w->s[0] >= 'A' && w->s[0] <= 'Z' && !(base->flags & A_PAREN);
  if (!like_op || base->op || anfi_host_find(lw->cx, w->s, w->len)) return false;
  anfi_fail(lw->cx, anfi_anf_loc(lw, base), ANF_E0201, w->s);
  anfi_did_you_mean(lw->cx, anfi_anf_near(lw, w->s));
  return *out = lw->bad, true;
}

/* ---- functions of the program ---- */

static const func *known_func(lower *lw, const anf_node *callee) {
  const anf_graph *g = callee->kind == ANFI_VALUE ? anfi_value_graph(callee) : NULL;
  if (!g || anfi_value_fn(callee->u.value)->nbound) return NULL;
  const uint64_t *f = anfi_map_find(&lw->func_of, g->id);
  return f ? (const func *)(uintptr_t)*f : NULL;
}

static int param_index(const func *f, const anfi_str *word) {
  for (uint32_t i = 0; i < f->nparam; i++)
    if (f->params[i].word == word) return (int)i;
  return -1;
}

static const char *param_name(void *user, size_t i) {
  const func *f = (const func *)user;
  return i < f->nparam ? f->params[i].word->s : NULL;
}

/* The parameter of a keyword's argument; -1 with an error if there is none. */
static int keyword_slot(lower *lw, const func *f, const ast *k, anf_node *const *in) {
  anfi_loc loc = anfi_anf_loc(lw, k);
  if (!f) return anfi_fail(lw->cx, loc, ANF_E0135), -1;
  int i = param_index(f, k->u.word);
  if (i < 0) {
    anfi_fail(lw->cx, loc, ANF_E0136, f->name ? f->name->s : "fn", k->u.word->s);
    anfi_suggest(lw->cx, k->u.word->s, param_name, (void *)(uintptr_t)f);
  } else if (in[i + 1]) anfi_fail(lw->cx, loc, ANF_E0131, k->u.word->s), i = -1;
  return i;
}

static bool arguments(lower *lw, const func *f, const ast *call, anf_node **in) {
  bool good = true, keywords = false;
  for (uint32_t i = 0; i < call->n; i++) {
    const ast *k = call->kid[i];
    int slot = (int)i;
    if (k->kind == A_KEYWORD) keywords = true, slot = keyword_slot(lw, f, k, in);
    else if (keywords) anfi_fail(lw->cx, anfi_anf_loc(lw, k), ANF_E0133), slot = -1;
    anf_node *v = anfi_anf_expr(lw, k->kind == A_KEYWORD ? k->kid[0] : k);
    good &= slot >= 0 && v != lw->bad;
    if (slot >= 0) in[slot + 1] = v;
  }
  return good;
}

anf_node *anfi_anf_call(lower *lw, const ast *base, anf_node *callee, const ast *call) {
  const func *f = known_func(lw, callee);
  size_t n = call->n;
  if (f && n != f->nparam) {
    anfi_fail(lw->cx, anfi_anf_loc(lw, base ? base : call), ANF_E0137, f->name ? f->name->s : "fn",
              (unsigned)f->nparam, n);
    const char *file = f->unit ? f->unit->file : lw->p->lx.file;
    anfi_note(lw->cx, (anfi_loc){file, f->line, f->col}, "it is defined here");
    return lw->bad;
  }
  if (callee->kind == ANFI_VALUE && callee->u.value->kind != ANF_VALUE_FN) {
    anfi_fail(lw->cx, anfi_anf_loc(lw, base ? base : call), ANF_E0138);
    return lw->bad;
  }
  anfi_opcode op = anfi_value_op(callee);
  const anfi_fn *fn = op == ANF_OP_NONE ? NULL : anfi_value_fn(callee->u.value);
  if (fn && !fn->nbound && !fn->attrs) return call_op(lw, op, base, call);
  anf_node **in = ANFI_NEW_N(lw->p->a, anf_node *, n + 1);
  in[0] = callee;
  if (!arguments(lw, f, call, in)) return lw->bad;
  return anfi_anf_at(lw, anfi_call(lw->g, n + 1, in), base ? base : call);
}
