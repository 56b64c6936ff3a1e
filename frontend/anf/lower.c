// SPDX-License-Identifier: Apache-2.0
/* Tree to graphs: modules, functions, names and their bindings.
 *   def f(x) { y = x * x; y = y + 1; y }     ->    %1 = Mul(x, x);  %2 = Add(%1, 1);  return %2
 * Names are flow-sensitive: a name is bound to the node that computes its value here, and binding it anew changes the
 * table, not a variable. An undo log takes bindings back where a scope ends.
 * INVARIANT: nodes are made in the order in which the text computes them, so ids give the order of effects. */
#include "frontend/anf/anf.h"

anfi_loc anfi_anf_loc(const lower *lw, const ast *e) {
  return (anfi_loc){lw->p->lx.file, e->line, e->col};
}

const anfi_str *anfi_anf_name(lower *lw, const anfi_str *word) {
  if (word->id >= lw->nword) return anfi_word_name(&lw->m->strings, word);
  if (!lw->name[word->id]) lw->name[word->id] = anfi_word_name(&lw->m->strings, word);
  return lw->name[word->id];
}

static uint32_t debug_at(lower *lw, const anfi_str *name, uint32_t line, uint32_t col) {
  return anfi_debug_new(lw->m,
                        (anfi_debug){.file = lw->file, .name = name, .line = line, .col = col});
}

anf_node *anfi_anf_at(lower *lw, anf_node *n, const ast *e) {
  if (n->graph && !n->debug) n->debug = debug_at(lw, NULL, e->line, e->col);
  return n;
}

anf_node *anfi_anf_none(lower *lw) { return anfi_value(lw->m, anfi_value_new_none(lw->cx)); }

/* ---- bindings ---- */

void anfi_anf_bind(lower *lw, const anfi_str *word, binding b) {
  anfi_push(lw->p->a, &lw->undo, ((struct undo){word->id, lw->bind[word->id]}));
  lw->bind[word->id] = b;
}

void anfi_anf_bind_value(lower *lw, const anfi_str *word, anf_node *n) {
  anfi_anf_bind(lw, word, (binding){.state = B_VALUE, .node = n});
}

void anfi_anf_undo(lower *lw, size_t to) {
  while (lw->undo.n > to) {
    struct undo u = lw->undo.at[--lw->undo.n];
    lw->bind[u.word] = u.old;
  }
}

bool anfi_anf_live(const lower *lw, const anfi_str *word, uint32_t after) {
  if (lw->wanted[word->id] == lw->fn->id) return true;
  const uint64_t *last = anfi_map_find(&lw->p->last_read, (uint64_t)lw->fn->id << 32 | word->id);
  return last && *last >= after;
}

/* ---- graphs ---- */

enum { SHOWN_MARKS = 8 };

/* ✓✗fibonacci; beyond some marks the newest and their number: ✓12_fibonacci. Linear in depth. */
anf_graph *anfi_anf_graph(lower *lw, const char *mark, const ast *e) {
  struct mark at = lw->marks.at[lw->g->id];
  const anfi_str *outer = lw->g->name;
  const char *s = at.depth < SHOWN_MARKS
                      ? anfi_sprintf(lw->p->a, "%s%s", mark, outer->s)
                      : anfi_sprintf(lw->p->a, "%s%u_%s", mark, at.depth + 1, at.base->s);
  anf_graph *g = anfi_graph_new(lw->m, anfi_intern_z(&lw->m->strings, s));
  g->debug = debug_at(lw, NULL, e->line, e->col);
  g->flags = ANFI_GRAPH_PRIVATE;
  anfi_push(lw->p->a, &lw->marks, ((struct mark){at.base, at.depth + 1}));
  return g;
}

static void declare(lower *lw, func *f, const anfi_str *name) {
  f->graph = anfi_graph_new(lw->m, name);
  f->graph->debug = debug_at(lw, NULL, f->line, f->col);
  f->graph->result_type = f->result;
  if (!f->top || f->is_private || f->parent) f->graph->flags = ANFI_GRAPH_PRIVATE;
  anfi_push(lw->p->a, &lw->marks, ((struct mark){name, 0}));
  *anfi_map_at(&lw->func_of, f->graph->id) = (uint64_t)(uintptr_t)f;
}

anf_graph *anfi_anf_graph_of(lower *lw, func *f) {
  if (f->graph) return f->graph;
  const anfi_str *file = lw->file;
  lw->file = anfi_intern_z(&lw->m->strings, f->unit->file);
  declare(lw, f, anfi_anf_name(lw, f->name));
  f->graph->flags = ANFI_GRAPH_PRIVATE;
  lw->file = file;
  anfi_push(lw->p->a, &lw->pending, f);
  return f->graph;
}

static void add_params(lower *lw, func *f) {
  for (uint32_t i = 0; i < f->nparam; i++) {
    const param *q = &f->params[i];
    bool unnamed = q->word->s[0] == '%';
    anf_node *n = anfi_param(f->graph, NULL, q->type);
    n->debug = debug_at(lw, unnamed ? NULL : anfi_anf_name(lw, q->word), q->line, q->col);
    anfi_anf_bind_value(lw, q->word, n);
  }
}

/* In a printed graph, `graph.name` may occur later; so its names are saved. */
static void keep_fields(lower *lw, const func *f, size_t from) {
  if (!lw->p->dots.n || !f->top) return;
  for (size_t i = from; i < lw->undo.n; i++) {
    uint32_t w = lw->undo.at[i].word;
    if (lw->bind[w].state == B_VALUE)
      *anfi_map_at(&lw->fields, (uint64_t)f->graph->id << 32 | w) =
          (uint64_t)(uintptr_t)lw->bind[w].node;
  }
}

static void fill(lower *lw, func *f) {
  anf_graph *g = lw->g;
  func *outer = lw->fn;
  loop *around = lw->loop;
  size_t undo = lw->undo.n;
  lw->g = f->graph;
  lw->fn = f;
  lw->loop = NULL;
  add_params(lw, f);
  outcome o = anfi_anf_block(lw, f->body, true, ANY_VALUE);
  if (!o.ended) anfi_set_result(lw->g, o.value ? o.value : anfi_anf_none(lw));
  keep_fields(lw, f, undo);
  anfi_anf_undo(lw, undo);
  lw->g = g;
  lw->fn = outer;
  lw->loop = around;
  f->defined = true;
}

void anfi_anf_def(lower *lw, func *f) { fill(lw, f); }

anf_graph *anfi_anf_func(lower *lw, func *f) {
  const anfi_str *outer = lw->marks.at[lw->g->id].base;
  declare(lw, f, anfi_intern_z(&lw->m->strings, anfi_sprintf(lw->p->a, "fn_%s", outer->s)));
  fill(lw, f);
  return f->graph;
}

/* The defs of a block can refer to each other, so all are declared before any is filled. */
void anfi_anf_declare(lower *lw, ast *const *statements, size_t n) {
  size_t from = lw->undo.n;
  for (size_t i = 0; i < n; i++) {
    if (statements[i]->kind != A_DEF) continue;
    func *f = statements[i]->u.fn;
    for (size_t k = from; k < lw->undo.n; k++)
      if (lw->undo.at[k].word == f->name->id) {
        anfi_fail(lw->cx, (anfi_loc){lw->p->lx.file, f->line, f->col}, ANF_E0112, f->name->s);
        anfi_note(lw->cx,
                  (anfi_loc){lw->p->lx.file, lw->bind[f->name->id].def->line,
                             lw->bind[f->name->id].def->col},
                  "the other one is here");
      }
    declare(lw, f, anfi_anf_name(lw, f->name));
    anfi_anf_bind(lw, f->name, (binding){.state = B_DEF, .def = f});
  }
}

/* ---- names as values ---- */

typedef struct {
  lower *lw;
  size_t at;
} candidates;

static const char *next_candidate(void *user, size_t i) {
  candidates *c = (candidates *)user;
  (void)i;
  for (; c->at < c->lw->nword; c->at++)
    if (c->lw->bind[c->at].state == B_VALUE || c->lw->bind[c->at].state == B_DEF)
      return c->lw->p->words.all.at[c->at++]->s;
  size_t k = c->at++ - c->lw->nword;
  return k < ANF_OP_COUNT ? anfi_op[k].name : anfi_anf_builtin_name(k - ANF_OP_COUNT);
}

const char *anfi_anf_near(lower *lw, const char *s) {
  candidates c = {lw, 0};
  const char *ours = anfi_op_elsewhere(s);
  return ours ? ours : anfi_nearest(s, next_candidate, &c);
}

static bool is_local(const lower *lw, const anfi_str *word) {
  const wordset *s = lw->fn->locals;
  for (uint32_t i = 0; s && i < s->n; i++)
    if (s->at[i] == word) return true;
  return false;
}

static anf_node *undefined(lower *lw, const anfi_str *word, const ast *e) {
  anfi_loc loc = anfi_anf_loc(lw, e);
  const char *name = anfi_anf_name(lw, word)->s;
  if (is_local(lw, word)) {
    anfi_fail(lw->cx, loc, ANF_E0115, name);
    return lw->bad;
  }
  anfi_fail(lw->cx, loc, ANF_E0114, name);
  if (anfi_hint_habit(lw->cx, name) || anfi_hint_library(lw->cx, name)) return lw->bad;
  anfi_did_you_mean(lw->cx, anfi_anf_near(lw, name));
  return lw->bad;
}

/* A function that refers to later ones of its block must not be used by a statement before they are
 * defined: their captures may not exist yet. */
static const func *unready(lower *lw, func *f) {
  ANFI_VEC(func *) st = {0};
  ANFI_VEC(func *) seen = {0};
  const func *found = NULL;
  anfi_push(lw->p->a, &st, f);
  while (st.n && !found) {
    func *k = st.at[--st.n];
    if (k->complete) continue;
    if (!k->defined) found = k;
    k->complete = true; // for this walk
    anfi_push(lw->p->a, &seen, k);
    for (size_t i = 0; i < k->waits.n; i++) anfi_push(lw->p->a, &st, k->waits.at[i]);
  }
  for (size_t i = 0; found && i < seen.n; i++) seen.at[i]->complete = false;
  return found;
}

static anf_node *def_value(lower *lw, func *f, const ast *e) {
  if (f->top) return anfi_graph_value(anfi_anf_graph_of(lw, f));
  func *in = lw->fn; // the def of f's own block, which contains this use
  while (in && in->around != f->around) in = in->around;
  if (in && in != f && !f->complete) anfi_push(lw->p->a, &in->waits, f);
  const func *late = in && in->name ? NULL : unready(lw, f);
  if (late) {
    anfi_fail(lw->cx, anfi_anf_loc(lw, e), ANF_E0128, f->name->s,
              late->name ? late->name->s : "fn");
    anfi_hint(lw->cx, "move the definition of '%s' up", late->name ? late->name->s : "fn");
  }
  return anfi_graph_value(f->graph);
}

static anf_node *maybe_value(lower *lw, const anfi_str *word, const ast *e, const binding *b) {
  anfi_fail(lw->cx, anfi_anf_loc(lw, e), ANF_E0116, word->s);
  anfi_note(lw->cx, (anfi_loc){lw->p->lx.file, b->line, b->col},
            "what starts here does not assign it on every path");
  anfi_hint(lw->cx, "give '%s' a value before", word->s);
  anfi_anf_bind_value(lw, word, lw->bad); // said once
  return lw->bad;
}

/* The size of dim k of a parameter: x.shape[k]. */
static anf_node *size_of(lower *lw, anf_node *x, uint32_t k, const ast *e) {
  anf_value *field = anfi_value_new_string(lw->cx, "shape", strlen("shape"));
  anfi_hold(lw->m, field);
  const anfi_attrs *at = NULL;
  if (!anfi_attrs_new(lw->m, ANF_OP_GetField, &field, anfi_anf_loc(lw, e), &at)) return lw->bad;
  anf_node *shape = anfi_anf_at(lw, anfi_apply(lw->g, ANF_OP_GetField, at, 1, &x), e);
  return anfi_anf_tuple_get(lw, e, shape, k);
}

/* N, where a parameter around is declared as x: f64[N]; NULL: no dim has the name. */
static anf_node *dim_value(lower *lw, const anfi_str *word, const ast *e) {
  if (is_local(lw, word)) return NULL;
  for (const func *f = lw->fn; f; f = f->around)
    for (uint32_t i = 0; i < f->nparam; i++) {
      const anf_type *t = f->params[i].type;
      for (uint32_t k = 0; t && t->kind == ANF_TYPE_TENSOR && k < t->n; k++) {
        const char *name = anf_dim_name(lw->cx, t->dims[k]);
        if (name && strcmp(name, word->s) == 0) return size_of(lw, f->graph->params.at[i], k, e);
      }
    }
  return NULL;
}

anf_node *anfi_anf_name_value(lower *lw, const anfi_str *word, const ast *e) {
  binding b = lw->bind[word->id];
  switch ((bound)b.state) {
  case B_VALUE: return b.node;
  case B_DEF: return def_value(lw, b.def, e);
  case B_MAYBE: return maybe_value(lw, word, e, &b);
  case B_NONE: break;
  }
  anf_dtype d;
  if (anfi_word_dtype(word, &d))
    return anfi_value(lw->m, anfi_value_new_type(lw->cx, anfi_type_scalar(lw->cx, d)));
  anfi_opcode op = anfi_anf_op_of(lw, word);
  if (op == ANF_OP_NONE) op = anfi_anf_builtin_op(lw, word);
  if (op != ANF_OP_NONE) return anfi_op_value(lw->m, op);
  const anfi_host *h = anfi_host_find(lw->cx, word->s, word->len);
  if (h) return anfi_op_value_attrs(lw->m, anfi_host_op(h), anfi_host_attrs(lw->m, h));
  anf_node *n = dim_value(lw, word, e);
  if (n) return n;
  n = undefined(lw, word, e);
  anfi_anf_bind_value(lw, word, n);
  return n;
}

/* `graph.name`: a free variable as printed graphs write it. */
bool anfi_anf_dotted(lower *lw, const ast *owner, const ast *field, anf_node **out) {
  const binding *b = &lw->bind[owner->u.word->id];
  if (b->state == B_NONE && anfi_anf_imported(lw, owner, field, out)) return true;
  if (b->state != B_DEF) return false;
  anf_graph *g = anfi_anf_graph_of(lw, b->def);
  uint64_t key = (uint64_t)g->id << 32 | field->u.word->id, *at = anfi_map_find(&lw->fields, key);
  if (at) return *out = (anf_node *)(uintptr_t)*at, true;
  anfi_fail(lw->cx, anfi_anf_loc(lw, field), ANF_E0126, owner->u.word->s, field->u.word->s);
  return *out = lw->bad, true;
}

/* ---- patterns ---- */

bool anfi_anf_pattern(lower *lw, const ast *pattern, anf_node *value) {
  if (pattern->kind == A_NAME) {
    anfi_anf_bind_value(lw, pattern->u.word, value);
    return true;
  }
  if (pattern->kind != A_TUPLE) return false;
  const anf_value *v = value->kind == ANFI_VALUE ? value->u.value : NULL;
  bool tuple = anfi_is_op(value, ANF_OP_MakeTuple) || (v && v->kind == ANF_VALUE_TUPLE);
  size_t n = v && tuple ? v->n : value->nin;
  if (value != lw->bad && ((tuple && n != pattern->n) || (v && !tuple))) {
    anfi_fail(lw->cx, anfi_anf_loc(lw, pattern), ANF_E0125, (unsigned)pattern->n,
              tuple ? anfi_sprintf(lw->p->a, "%zu", n) : "no");
    value = lw->bad;
  }
  for (uint32_t i = 0; i < pattern->n; i++) {
    anf_node *item = value == lw->bad ? value : anfi_anf_tuple_get(lw, pattern->kid[i], value, i);
    anfi_anf_name_node(lw, pattern->kid[i], item);
    if (!anfi_anf_pattern(lw, pattern->kid[i], item)) return false;
  }
  return true;
}

/* A CNode without a name takes that of its binding. */
void anfi_anf_name_node(lower *lw, const ast *pattern, anf_node *n) {
  if (pattern->kind != A_NAME || !n->graph || n->graph != lw->g || n->kind == ANFI_PARAM ||
      !n->debug)
    return;
  anfi_debug *d = &lw->m->debugs.at[n->debug];
  if (!d->name && pattern->u.word->s[0] != '%') d->name = anfi_anf_name(lw, pattern->u.word);
}

/* ---- modules ---- */

/* Defs in an order in which whatever `graph.name` refers to comes first. */
static void order_visit(lower *lw, funcs *out, func *root, const size_t *first,
                        const size_t *next) {
  typedef struct {
    func *f;
    size_t dot;
  } visit;
  ANFI_VEC(visit) st = {0};
  anfi_push(lw->p->a, &st, ((visit){root, first[root->id]}));
  root->ndeps = 1;
  while (st.n) {
    visit *top = &st.at[st.n - 1];
    if (!top->dot) {
      top->f->ndeps = 2;
      anfi_push(lw->p->a, out, top->f);
      st.n--;
      continue;
    }
    const dotted *d = &lw->p->dots.at[top->dot - 1];
    top->dot = next[top->dot];
    const binding *b = &lw->bind[d->owner->id];
    if (b->state != B_DEF || b->def->ndeps == 2 || b->def == top->f) continue;
    if (b->def->ndeps == 1) {
      anfi_fail(lw->cx, (anfi_loc){lw->p->lx.file, b->def->line, b->def->col}, ANF_E0127,
                b->def->name->s, top->f->name->s);
      continue;
    }
    b->def->ndeps = 1;
    anfi_push(lw->p->a, &st, ((visit){b->def, first[b->def->id]}));
  }
}

static funcs order_defs(lower *lw) {
  parser *p = lw->p;
  if (!p->dots.n) return p->top;
  size_t *first = ANFI_NEW_N(p->a, size_t, (size_t)p->nfunc + 1),
         *next = ANFI_NEW_N(p->a, size_t, p->dots.n + 1);
  for (size_t i = p->dots.n; i > 0; i--) { // 1 + index, so that 0 ends a chain
    func *f = p->dots.at[i - 1].in;
    if (!f || !f->top) continue;
    next[i] = first[f->id];
    first[f->id] = i;
  }
  funcs out = {0};
  for (size_t i = 0; i < p->top.n; i++)
    if (!p->top.at[i]->ndeps) order_visit(lw, &out, p->top.at[i], first, next);
  return out;
}

/* A program of one file: text of a value, or a tree that only the parser has seen. */
static unit *only_unit(parser *p) {
  unit *u = ANFI_NEW(p->a, unit);
  *u = (unit){.file = p->lx.file, .top = p->top, .lx = p->lx};
  return u;
}

void anfi_anf_module(lower *lw, parser *p, anf_module *m) {
  *lw = (lower){.p = p, .cx = p->cx, .m = m, .nword = (uint32_t)p->words.all.n};
  lw->bind = ANFI_NEW_N(p->a, binding, lw->nword);
  lw->wanted = ANFI_NEW_N(p->a, uint32_t, lw->nword);
  lw->name = ANFI_NEW_N(p->a, const anfi_str *, lw->nword);
  lw->op = ANFI_NEW_N(p->a, uint16_t, lw->nword);
  anfi_map_init(&lw->fields, p->a);
  anfi_map_init(&lw->func_of, p->a);
  lw->bad = anfi_anf_none(lw);
  anfi_anf_enter_unit(lw, p->units.n ? p->units.at[0] : only_unit(p));
  for (size_t i = 0; i < p->top.n; i++)
    declare(lw, p->top.at[i], anfi_anf_name(lw, p->top.at[i]->name));
  funcs order = order_defs(lw);
  for (size_t i = 0; i < order.n && anfi_more_errors(lw->cx); i++) {
    if (!anfi_go_on(lw->cx, "reading", (double)i / (double)order.n)) return;
    fill(lw, order.at[i]);
  }
  anfi_anf_fill_imported(lw);
}

/* In a function that nobody sees. */
anf_node *anfi_anf_constant(lower *lw, const ast *e) {
  func *f = ANFI_NEW(lw->p->a, func);
  declare(lw, f, anfi_intern_z(&lw->m->strings, ""));
  lw->g = f->graph;
  lw->fn = f;
  anf_node *n = anfi_anf_expr(lw, e);
  return n != lw->bad && n->kind == ANFI_VALUE && !anfi_value_graph(n) ? n : NULL;
}
