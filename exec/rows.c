// SPDX-License-Identifier: Apache-2.0
/* Proves that rows are apart: that row i of the result is what the program gives for row i alone.
 *   f(x: f32[B,4]) = tanh(x * 2)      they are: a batch of any size may be cut and run in parts
 *   f(x: f32[B,4]) = x - mean(x, 0)   they are not: the mean needs all rows
 * In two steps. Of the program whose dim B is a symbol, no node may ask for a size: the program
 * is then the same for all sizes. Of the program where B is a large prime, the rules of placement.c, with a row for each of
 * as many ranks, must give each row of the result from rows of the parameters, without an exchange.
 * A program that does ask, as Reshape(x, (x.shape[0], 64)) does, is the same for all sizes if in the second step nothing is
 * computed of a number that is a multiple of the prime: such numbers may be dims of what is made or reshaped, and no more.
 *
 * INVARIANT: a tensor is whole, and no dim of it is a multiple of the prime; or it is cut into rows; or its elements are
 * equal (Zeros), whatever its dims. Anything else is refused, so what is accepted is right. */
#include "exec/rows.h"

#include "anfora/opt.h"
#include "exec/placement.h"
#include "exec/sizes.h"
#include "ir/ops/op.h"
#include "optimizer/opt.h"

enum { MOST_CALLS = 1 << 12, MOST_DEPTH = 64 };

typedef struct proof {
  anf_ctx *cx;
  anfi_arena *a;
  anfi_loc loc; // of the function
  const char *name;
  int64_t prime;
  bool asks;          // numbers of the program may be sizes
  anfi_placement *of; // by node
  int depth, calls;
} proof;

static bool refuse(const proof *q, const anf_node *at, const char *why) {
  anfi_loc loc = at ? anfi_node_loc(at) : anfi_nowhere();
  return anfi_fail(q->cx, loc.file ? loc : q->loc, ANF_E1595, q->name, why);
}

static bool refuse_op(const proof *q, const anf_node *n) {
  return refuse(
      q, n, anfi_sprintf(q->a, "%s has no rule for rows that are apart here", anfi_op_of(n)->name));
}

/* ---- no size is a number ---- */

static bool may_have_symbol(const anf_type *t) {
  if (!t || t->kind != ANF_TYPE_TENSOR) return true;
  for (uint32_t i = 0; i < t->n; i++)
    if (t->dims[i] < 0) return true;
  return false;
}

/* Are all uses of a shape items of known dims? */
static bool known_items(const anf_node *shape) {
  const anf_type *t = shape->in[0].def->type;
  for (const anfi_use *u = shape->uses; u; u = u->next) {
    const anf_node *n = u->user;
    if (!t || t->kind != ANF_TYPE_TENSOR || !anfi_is_op(n, ANF_OP_TupleGet)) return false;
    const anf_value *k = anfi_attr_value(shape->graph->module->cx, ANF_OP_TupleGet, n->u.attrs, 0);
    int64_t i = k ? anfi_attr_int(k) : -1;
    if (i < 0 || i >= t->n || t->dims[i] < 0) return false;
  }
  return true;
}

static bool asks_size(const anf_node *n) {
  switch (n->kind == ANFI_APPLY ? n->op : ANF_OP_NONE) {
  case ANF_OP_Size:
  case ANF_OP_Len: return may_have_symbol(n->in[0].def->type);
  case ANF_OP_Shape:
  case ANF_OP_GetField: return may_have_symbol(n->in[0].def->type) && !known_items(n);
  default: return false;
  }
}

/* Chooses among functions by the types of arguments, so by their dims. */
static bool chooses_by_type(const anf_node *n) {
  const anf_value *v = n->kind == ANFI_VALUE ? n->u.value : NULL;
  uint16_t op = n->kind == ANFI_APPLY          ? n->op
                : v && v->kind == ANF_VALUE_FN ? anfi_value_fn(v)->op
                                               : ANF_OP_NONE;
  return op == ANF_OP_MultiType || op == ANF_OP_Generated;
}

static anf_graph *copy_of(const proof *q, anf_graph *g, size_t n, const anf_type *const *types) {
  anfi_arg *args = ANFI_NEW_N(q->a, anfi_arg, n + 1);
  anfi_origins *from = ANFI_NEW(q->a, anfi_origins);
  for (size_t i = 0; i < n; i++) args[i].type = types[i];
  return anfi_applied(q->cx, g, n, args, q->a, from);
}

static anf_graph *entry_of(const anf_module *m) {
  for (size_t i = 0; i < m->graphs.n; i++)
    if (m->graphs.at[i] && !(m->graphs.at[i]->flags & ANFI_GRAPH_PRIVATE)) return m->graphs.at[i];
  return NULL;
}

/* Typed, and its derivatives and batches expanded. No rule rewrites what is proved: one that knows how many terms a sum
 * has would make a number of the prime. */
static anf_graph *typed(const proof *q, anf_graph *program) {
  anf_module *m = program->module;
  anf_opt_opts o = {.size = sizeof o, .fold_bytes = 1}; // small constants, such as what is asserted
  anf_status st = anf_optimise(m, "first_order (inline need expand)* fold dce", &o, NULL);
  return st == ANF_OK ? entry_of(m) : ((void)anfi_fail_as(q->cx, st), NULL);
}

static bool chooses_nothing(const proof *q, anf_graph *g, size_t n, const anf_type *const *types) {
  anf_graph *program = copy_of(q, g, n, types);
  if (!program) return false;
  const anf_module *m = program->module;
  for (size_t i = 0; i < m->nodes.n; i++)
    if (m->nodes.at[i] && chooses_by_type(m->nodes.at[i]))
      return refuse(q, m->nodes.at[i], "a function is chosen by the types of its arguments here");
  return true;
}

/* An index is a text with numbers in it: x[:, :9] */
static bool names_multiple(const proof *q, const anf_value *text) {
  int64_t i = 0;
  for (size_t k = 0; k < text->n; k++) {
    char c = text->u.text[k];
    bool digit = c >= '0' && c <= '9';
    if (!digit && i && i % q->prime == 0) return true;
    i = digit && i < INT32_MAX ? i * 10 + (c - '0') : digit ? i : 0;
  }
  return i && i % q->prime == 0;
}

/* Does the node compute with a number that is a size, or have it as an attribute that is no shape? */
static bool counts(const proof *q, const anf_node *n) {
  bool shaped = n->op == ANF_OP_Reshape || n->op == ANF_OP_BroadcastTo || n->op == ANF_OP_Zeros ||
                n->op == ANF_OP_Ones || n->op == ANF_OP_Full;
  for (uint32_t i = 0; i < n->nin; i++)
    if (n->in[i].def->kind == ANFI_VALUE &&
        anfi_value_has_multiple(n->in[i].def->u.value, q->prime))
      return true;
  if (n->kind != ANFI_APPLY || shaped || !n->u.attrs) return false;
  for (uint32_t k = 0; k < n->u.attrs->n; k++) {
    const anf_value *v = n->u.attrs->at[k];
    if (!v || v == &anfi_from_node) continue;
    if (v->kind == ANF_VALUE_STRING ? names_multiple(q, v) : anfi_value_has_multiple(v, q->prime))
      return true;
  }
  return false;
}

static bool asks_no_size(const proof *q, anf_graph *g, size_t n, const anf_type *const *types) {
  anf_graph *program = copy_of(q, g, n, types);
  if (!program) return false;
  anf_module *m = program->module;
  if (!typed(q, program)) return refuse(q, NULL, "the program needs it as a number");
  for (size_t i = 0; i < m->nodes.n; i++)
    if (m->nodes.at[i] && asks_size(m->nodes.at[i]))
      return refuse(q, m->nodes.at[i], "a size is a number of the program here");
  return true;
}

/* ---- rows from rows ---- */

static const anfi_placement rows = {ANFI_CUT, 0, 1};

static bool has_prime(const proof *q, const anf_type *t, uint32_t from) {
  for (uint32_t i = from; i < t->n; i++)
    if (t->dims[i] && t->dims[i] % q->prime == 0) return true;
  return false;
}

static bool is_rows(const proof *q, const anf_type *t) { return t->n && t->dims[0] == q->prime; }

/* Does t have a tensor that is rows? */
static bool holds_rows(const proof *q, const anf_type *t) {
  if (t->kind == ANF_TYPE_TENSOR) return has_prime(q, t, 0);
  if (t->kind != ANF_TYPE_TUPLE && t->kind != ANF_TYPE_RECORD) return false;
  for (uint32_t i = 0; i < t->n; i++)
    if (holds_rows(q, t->items[i])) return true;
  return false;
}

static bool all_equal(const anf_value *v) {
  if (v->kind != ANF_VALUE_TENSOR || !v->n) return false;
  size_t bytes = anf_dtype_bytes(anf_value_dtype(v));
  return memcmp(v->data, v->data + bytes, (v->n - 1) * bytes) == 0;
}

/* Elements that are all equal are the same of any number of rows. */
static bool is_even(const anf_node *n) {
  if (n->kind == ANFI_VALUE) return all_equal(n->u.value);
  return anfi_is_op(n, ANF_OP_Zeros) || anfi_is_op(n, ANF_OP_Ones) || anfi_is_op(n, ANF_OP_Full);
}

static const anf_value *given_attr(const proof *q, const anf_node *n, uint32_t k) {
  const anf_value *v = anfi_attr_value(q->cx, (anfi_opcode)n->op, n->u.attrs, k);
  return v && anfi_attr_given(v) ? v : NULL;
}

/* The inputs whose rows the op works on one by one, x among them; 0: it does not here. */
static uint32_t works_by_row(const proof *q, const anf_node *n) {
  uint32_t mask = anfi_op_rows(q->cx, (anfi_opcode)n->op);
  if (!mask) return 0;
  int axis = anfi_attr_index(q->cx, (anfi_opcode)n->op, "axis");
  if (axis >= 0) {
    const anf_value *at = given_attr(q, n, (uint32_t)axis);
    return at && !(anfi_axes_mask(at, n->in[0].def->type->n) & 1) ? mask : 0;
  }
  for (uint32_t i = 0; i < n->nin; i++)
    if (n->in[i].def->type->n <= 2) mask &= ~(1u << i);
  return mask & 1 ? mask : 0;
}

/* Ops that placement.c has no rule for, as its other readers want none. */
static bool by_row(const proof *q, const anf_node *n) {
  if (!anfi_placement_same(q->of[n->in[0].def->id], rows) || n->type->kind != ANF_TYPE_TENSOR)
    return false;
  uint32_t also = works_by_row(q, n);
  if (!also) return false;
  for (uint32_t i = 1; i < n->nin; i++) {
    const anf_node *x = n->in[i].def;
    bool cut = anfi_placement_same(q->of[x->id], rows);
    if (also >> i & 1 ? !cut : q->of[x->id].kind != ANFI_WHOLE || holds_rows(q, x->type))
      return false;
  }
  return is_rows(q, n->type) && !has_prime(q, n->type, 1);
}

/* Ids that are rows, of a table that is not. */
static bool looks_up(const proof *q, const anf_node *n, anfi_placement *out) {
  if (n->op != ANF_OP_Embedding || q->of[n->in[0].def->id].kind != ANFI_WHOLE) return false;
  *out = q->of[n->in[1].def->id];
  return out->kind == ANFI_CUT && !holds_rows(q, n->in[0].def->type);
}

/* Is input i as the op wants it? */
static bool fits(const proof *q, const anf_node *x, anfi_placement want) {
  anfi_placement is = q->of[x->id];
  if (want.kind == ANFI_AS_IT_IS) return true;
  if (anfi_placement_same(is, want)) return is.kind == ANFI_CUT || !holds_rows(q, x->type);
  return want.kind == ANFI_CUT && is.kind == ANFI_WHOLE && is_even(x) && is_rows(q, x->type) &&
         !want.axis && !has_prime(q, x->type, 1);
}

static bool place_op(proof *q, const anf_node *n) {
  anfi_placement *in = ANFI_NEW_N(q->a, anfi_placement, n->nin + 1);
  bool *alone = ANFI_NEW_N(q->a, bool, n->nin + 1);
  anfi_placing p = {.cx = q->cx, .n = n, .ranks = q->prime, .in = in, .alone = alone};
  p.want = ANFI_NEW_N(q->a, anfi_placement, n->nin + 1);
  for (uint32_t i = 0; i < n->nin; i++) in[i] = q->of[n->in[i].def->id];
  anfi_placement *out = &q->of[n->id];
  if (n->nin && by_row(q, n)) return *out = rows, true;
  if (n->op == ANF_OP_Squeeze && !given_attr(q, n, 0)) // of one row the first dim would go, too
    return refuse_op(q, n);
  if (looks_up(q, n, out)) return true;
  anfi_placement_of(&p);
  *out = p.out;
  for (uint32_t i = 0; i < n->nin; i++)
    if (!fits(q, n->in[i].def, p.want[i])) return refuse_op(q, n);
  if (p.out.kind == ANFI_CUT ||
      (p.out.kind == ANFI_WHOLE && (is_even(n) || !holds_rows(q, n->type))))
    return true;
  return refuse_op(q, n);
}

/* A tensor in a tuple or record is rows if its first dim says so, and only then. */
static bool fits_in(const proof *q, const anf_node *x) {
  if (x->type->kind != ANF_TYPE_TENSOR) return x->kind != ANFI_VALUE || !holds_rows(q, x->type);
  if (q->of[x->id].kind == ANFI_WHOLE) return !holds_rows(q, x->type);
  return anfi_placement_same(q->of[x->id], rows) && is_rows(q, x->type) &&
         !has_prime(q, x->type, 1);
}

static void place_part(proof *q, const anf_node *n) {
  if (n->type->kind == ANF_TYPE_TENSOR && is_rows(q, n->type)) q->of[n->id] = rows;
}

static bool place_graph(proof *q, anf_graph *g, const anf_node *const *args);

static bool place_call(proof *q, const anf_node *n) {
  anf_graph *g = anfi_value_graph(n->in[0].def);
  if (!g || g->params.n != n->nin - 1)
    return refuse(q, n, "which function is called is not known before it runs");
  if (q->depth == MOST_DEPTH || q->calls++ == MOST_CALLS)
    return refuse(q, n, "there are too many calls");
  const anf_node **args = ANFI_NEW_N(q->a, const anf_node *, n->nin);
  for (uint32_t i = 1; i < n->nin; i++) args[i - 1] = n->in[i].def;
  q->depth++;
  if (!place_graph(q, g, args)) return false;
  q->depth--;
  if (n->type->kind != ANF_TYPE_TENSOR && !fits_in(q, g->result))
    return refuse(q, n, "its result is not of rows");
  q->of[n->id] = q->of[g->result->id];
  return true;
}

/* Neither a function, which may use anything, nor a constant of several tensors that has a row for each row. */
static bool is_plain(const proof *q, const anf_node *x) {
  if (!x->type || anfi_value_graph(x)) return false;
  return x->kind != ANFI_VALUE || x->type->kind == ANF_TYPE_TENSOR || !holds_rows(q, x->type);
}

static bool place_node(proof *q, const anf_node *n) {
  if (n->flags & ANFI_NODE_EFFECT) return refuse(q, n, "it does more than to give a value");
  if (!n->type) return refuse(q, n, "a function is a value here");
  if (q->asks && counts(q, n)) return refuse(q, n, "a size is a number of the program here");
  for (uint32_t i = n->kind == ANFI_CALL; i < n->nin; i++)
    if (!is_plain(q, n->in[i].def))
      return refuse(q, n, "what it is given is no tensor of known place");
  if (n->kind == ANFI_CALL) return place_call(q, n);
  switch (n->op) {
  case ANF_OP_TupleGet:
  case ANF_OP_RecordGet: return place_part(q, n), true;
  case ANF_OP_MakeTuple:
  case ANF_OP_MakeRecord:
    for (uint32_t i = 0; i < n->nin; i++)
      if (!fits_in(q, n->in[i].def))
        return refuse(q, n->in[i].def, "not each row of the result is of one row");
    return true;
  default: break;
  }
  if (n->type->kind == ANF_TYPE_TENSOR) return place_op(q, n);
  for (uint32_t i = 0; i < n->nin; i++)
    if (holds_rows(q, n->in[i].def->type)) return refuse_op(q, n);
  return !holds_rows(q, n->type) || refuse_op(q, n);
}

static bool place_graph(proof *q, anf_graph *g, const anf_node *const *args) {
  anfi_node_vec order = {0};
  for (size_t i = 0; i < g->params.n; i++) {
    const anf_node *x = g->params.at[i];
    if (!x->type) return refuse(q, x, "a function is a value here");
    if (args) q->of[x->id] = q->of[args[i]->id];
    else place_part(q, x);
  }
  anfi_graph_order(g, q->a, &order);
  for (size_t i = 0; i < order.n; i++) {
    const anf_node *n = order.at[i];
    bool inner = n->graph == g && (n->kind == ANFI_APPLY || n->kind == ANFI_CALL);
    if (inner && !place_node(q, n)) return false;
    if (n->graph && n->graph != g) return refuse(q, n, "a function uses values of another one");
  }
  return true;
}

/* ---- both ---- */

static bool only_first(const proof *q, const anf_type *t, int64_t dim) {
  bool tensor = t->kind == ANF_TYPE_TENSOR;
  if (!tensor && t->kind != ANF_TYPE_TUPLE && t->kind != ANF_TYPE_RECORD) return true;
  for (uint32_t i = 0; i < t->n; i++) {
    if (!tensor && !only_first(q, t->items[i], dim)) return false;
    if (tensor && i && t->dims[i] == dim)
      return refuse(q, NULL, "it is not the first dim of a parameter");
  }
  return true;
}

static bool is_free(int64_t prime, const anf_type *t) {
  bool tensor = t->kind == ANF_TYPE_TENSOR;
  if (!tensor && t->kind != ANF_TYPE_TUPLE && t->kind != ANF_TYPE_RECORD) return true;
  for (uint32_t i = 0; i < t->n; i++)
    if (tensor ? t->dims[i] > 0 && t->dims[i] % prime == 0 : !is_free(prime, t->items[i]))
      return false;
  return true;
}

/* A prime that divides no dim of the parameters. */
static int64_t choose_prime(size_t n, const anf_type *const *types) {
  static const int64_t primes[] = {104729, 104723, 104717, 104711, 104707};
  for (size_t k = 0; k < ANFI_LEN(primes); k++) {
    bool free = true;
    for (size_t i = 0; i < n; i++) free &= is_free(primes[k], types[i]);
    if (free) return primes[k];
  }
  return 0;
}

static bool all_rows(const proof *q, const anf_type *t) {
  if (t->kind == ANF_TYPE_TENSOR) return is_rows(q, t);
  if (t->kind != ANF_TYPE_TUPLE && t->kind != ANF_TYPE_RECORD) return false;
  for (uint32_t i = 0; i < t->n; i++)
    if (!all_rows(q, t->items[i])) return false;
  return t->n > 0;
}

static bool gives_rows(const proof *q, const anf_node *result) {
  const anf_type *t = result->type;
  if (!fits_in(q, result)) return refuse(q, result, "not each row of the result is of one row");
  return all_rows(q, t) || refuse(q, result, "a part of the result has no row for each row");
}

static bool rows_from_rows(proof *q, anf_graph *g, size_t n, const anf_type *const *types,
                           int64_t dim) {
  anfi_size_set one = {.ndim = 1, .dim = &dim, .name = &q->name, .n = 1, .at = &q->prime};
  const anf_type **large = ANFI_NEW_N(q->a, const anf_type *, n + 1);
  for (size_t i = 0; i < n; i++) large[i] = anfi_sizes_type(q->cx, &one, 0, types[i]);
  anf_graph *program = copy_of(q, g, n, large), *entry = program ? typed(q, program) : NULL;
  if (!entry) return false;
  q->of = ANFI_NEW_N(q->a, anfi_placement, entry->module->nodes.n + 1);
  return place_graph(q, entry, NULL) && gives_rows(q, entry->result);
}

typedef struct program {
  anf_graph *g;
  size_t n;
  const anf_type *const *types;
  int64_t dim;
} program;

/* A step whose findings are not yet those of the proof. */
static anf_status step(proof *q, const program *p, bool asks, anf_diag *d) {
  ANFI_ENTRY(q->cx, d);
  if (asks) rows_from_rows(q, p->g, p->n, p->types, p->dim);
  else asks_no_size(q, p->g, p->n, p->types);
  return anfi_leave(q->cx);
}

static anf_diag *new_diag(anf_ctx *cx) {
  anf_diag *d = anf_diag_new(cx);
  if (!d) anfi_throw_nomem(cx);
  anfi_defer(cx, ANFI_ALWAYS, anfi_free_diag, d);
  return d;
}

static bool is_fatal(anf_status st) { return st == ANF_NOMEM || st == ANF_CANCELLED; }

static bool is_reason(const anf_diag *d) {
  return anf_diag_count(d) && strcmp(anf_diag_at(d, 0)->code, "E1595") == 0;
}

static bool proved(proof *q, const program *p) {
  anf_ctx *cx = q->cx;
  anf_diag *d = new_diag(cx), *more = new_diag(cx);
  anf_status st = step(q, p, false, d);
  if (st == ANF_OK) return rows_from_rows(q, p->g, p->n, p->types, p->dim);
  if (is_fatal(st)) return anfi_fail_as(cx, st);
  q->asks = true;
  cx->watched = q->prime;
  cx->watched_used = false;
  st = step(q, p, true, more);
  cx->watched = 0;
  if (is_fatal(st)) return anfi_fail_as(cx, st);
  if (st == ANF_OK && !cx->watched_used) return true;
  if (is_reason(d)) return anfi_repeat(cx, d) && false;
  if (!cx->watched_used && is_reason(more)) return anfi_repeat(cx, more) && false;
  return refuse(q, NULL, "the program needs a size as a number");
}

bool anfi_rows_apart(anf_graph *g, size_t n, const anf_type *const *types, int64_t dim,
                     const char *name) {
  anf_ctx *cx = g->module->cx;
  proof q = {.cx = cx, .a = anfi_scratch(cx), .loc = anfi_node_loc(g->result), .name = name};
  q.prime = choose_prime(n, types);
  for (size_t i = 0; i < n; i++)
    if (!only_first(&q, types[i], dim)) return false;
  if (!q.prime) return refuse(&q, NULL, "a parameter is too large");
  return chooses_nothing(&q, g, n, types) && proved(&q, &(program){g, n, types, dim});
}
