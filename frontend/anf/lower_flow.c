// SPDX-License-Identifier: Apache-2.0
/* Control flow as in MindIR: branches and loops are graphs, selected by Switch and then called.
 *
 *     def f(x) { if c { y = 1 } else { y = x }; y }    ->    %y = Switch(c, ✓f, ✗f)();  return %y
 *     while c { x = g(x) }                             ->    ↵f(x) = Switch(c, ↻f, ↓f)();  ↻f calls ↵f(g(x))
 *
 *   if      The call gives the names that a branch assigns and later code reads, a tuple if there are several.
 *   while   The parameters of ↵ are the carried names; ↓ gives those read after the loop.
 * Hard cases: a branch ends by return, break or continue: the code after the `if` continues in the other
 * branch's graph, or in ↓ with the differing names as parameters if several branches reach it. A loop holds a
 * return: the code after the loop continues in ↓, whose result is then the function's.
 * Sequences of statements, branches and loops are C loops here: only nesting recurses. */
#include "frontend/anf/anf.h"
#include "base/mark.h"

static anf_node *locate(lower *lw, anf_node *n, const ast *e) { return anfi_anf_at(lw, n, e); }

static anf_node *call_graph(lower *lw, const ast *e, anf_graph *to, size_t n,
                            anf_node *const *args) {
  anf_node **in = ANFI_NEW_N(lw->p->a, anf_node *, n + 1);
  in[0] = anfi_graph_value(to);
  if (n) memcpy(in + 1, args, n * sizeof *in);
  return locate(lw, anfi_call(lw->g, n + 1, in), e);
}

anf_node *anfi_anf_switch(lower *lw, const ast *e, anf_node *c, anf_graph *f, anf_graph *g) {
  anf_node *pick = anfi_apply3(lw->g, ANF_OP_Switch, c, anfi_graph_value(f), anfi_graph_value(g));
  locate(lw, pick, e);
  return locate(lw, anfi_call(lw->g, 1, &pick), e);
}

/* ---- names that come back from a graph ---- */

typedef ANFI_VEC(const anfi_str *) wordlist;

/* One value as it is, several as a tuple; `first` (or NULL) comes before the names' values. */
static anf_node *pack(lower *lw, const ast *e, anf_node *first, size_t n, anf_node *const *values) {
  size_t total = n + (first ? 1 : 0);
  if (total == 0) return anfi_anf_none(lw);
  if (total == 1) return first ? first : values[0];
  anf_node **in = ANFI_NEW_N(lw->p->a, anf_node *, total);
  size_t k = 0;
  if (first) in[k++] = first;
  for (size_t i = 0; i < n; i++) in[k++] = values[i];
  return locate(lw, anfi_apply(lw->g, ANF_OP_MakeTuple, NULL, total, in), e);
}

/* Binds the names to the items of a call's result; returns the first value. */
static anf_node *unpack(lower *lw, const ast *e, anf_node *call, bool first, size_t n,
                        const anfi_str *const *names) {
  size_t total = n + first;
  for (size_t i = 0; i < n; i++) {
    anf_node *v = total == 1 ? call : anfi_anf_tuple_get(lw, e, call, i + first);
    ast name = {.kind = A_NAME, .u.word = names[i]};
    anfi_anf_name_node(lw, &name, v);
    anfi_anf_bind_value(lw, names[i], v);
  }
  if (!first) return NULL;
  return total == 1 ? call : anfi_anf_tuple_get(lw, e, call, 0);
}

static bool bound_value(lower *lw, const anfi_str *w, anf_node **out) {
  const binding *b = &lw->bind[w->id];
  *out = b->state == B_VALUE ? b->node
         : b->state == B_DEF ? anfi_graph_value(anfi_anf_graph_of(lw, b->def))
                             : NULL;
  return *out != NULL;
}

static anf_node **values_of(lower *lw, size_t n, const anfi_str *const *names) {
  anf_node **v = ANFI_NEW_N(lw->p->a, anf_node *, n);
  for (size_t i = 0; i < n; i++)
    if (!bound_value(lw, names[i], &v[i])) v[i] = lw->bad;
  return v;
}

static anf_node *named_param(lower *lw, anf_graph *g, const anfi_str *w, const ast *e) {
  anf_node *q = anfi_param(g, NULL, NULL);
  q->debug = anfi_debug_new(lw->m, (anfi_debug){.file = lw->file,
                                                .name = w ? anfi_anf_name(lw, w) : NULL,
                                                .line = e->line,
                                                .col = e->col});
  return q;
}

static void set_maybe(lower *lw, const anfi_str *w, const ast *e) {
  anfi_anf_bind(lw, w, (binding){.state = B_MAYBE, .line = e->line, .col = e->col});
}

/* ---- if ---- */

typedef struct {
  bool ended;
  anf_graph *at; // the graph in which it ended
  anf_node *value;
  anf_node **now; // values of the names that the `if` assigns and that are read later; NULL: none
} branch;

typedef struct {
  const ast *e;
  wordlist names; // assigned in some branch, and read later
  branch *branches;
  size_t n;
  bool has_else;
} choice;

static void find_names(lower *lw, choice *c) {
  const wordset *s = c->e->u.assigned;
  for (uint32_t i = 0; i < s->n; i++)
    if (anfi_anf_live(lw, s->at[i], c->e->end)) anfi_push(lw->p->a, &c->names, s->at[i]);
}

static void save_branch(lower *lw, choice *c, branch *a, outcome o) {
  *a = (branch){o.ended, lw->g, o.value, NULL};
  if (o.ended) return;
  a->now = ANFI_NEW_N(lw->p->a, anf_node *, c->names.n);
  for (size_t i = 0; i < c->names.n; i++) bound_value(lw, c->names.at[i], &a->now[i]);
}

/* Makes the graphs of all branches and the calls that select one; the current graph gets the first choice
 * as
 * `*call`. Later branches are inside the ✗ graph of the one before. */
static void lower_branches(lower *lw, choice *c, bool tail, wanted want, anf_node **call) {
  const ast *e = c->e;
  anf_graph *home = lw->g;
  size_t outer = 0;
  c->has_else = e->n % 2 == 1;
  c->n = e->n / 2 + 1;
  c->branches = ANFI_NEW_N(lw->p->a, branch, c->n);
  for (size_t i = 0; i + 1 < c->n; i++) {
    anf_graph *here = lw->g;
    anf_node *cond = anfi_anf_expr(lw, e->kid[2 * i]);
    if (here == home) outer = lw->undo.n;
    anf_graph *yes = anfi_anf_graph(lw, ANFI_THEN, e->kid[2 * i + 1]);
    anf_graph *no = anfi_anf_graph(lw, ANFI_ELSE, 2 * i + 2 < e->n ? e->kid[2 * i + 2] : e);
    anf_node *chosen = anfi_anf_switch(lw, e->kid[2 * i], cond, yes, no);
    if (here == home) *call = chosen;
    else anfi_set_result(here, chosen);
    size_t undo = lw->undo.n;
    lw->g = yes;
    save_branch(lw, c, &c->branches[i], anfi_anf_block(lw, e->kid[2 * i + 1], tail, want));
    anfi_anf_undo(lw, undo);
    lw->g = no;
  }
  outcome last = {false, NULL};
  if (c->has_else) last = anfi_anf_block(lw, e->kid[e->n - 1], tail, want);
  save_branch(lw, c, &c->branches[c->n - 1], last);
  anfi_anf_undo(lw, outer);
  lw->g = home;
}

/* Names that every open branch gives; the others may have no value after. */
static void split_names(lower *lw, choice *c, wordlist *all) {
  for (size_t k = 0; k < c->names.n; k++) {
    size_t have = 0, open = 0;
    for (size_t i = 0; i < c->n; i++) {
      if (c->branches[i].ended) continue;
      open++;
      have += c->branches[i].now[k] != NULL;
    }
    if (have == open) anfi_push(lw->p->a, all, c->names.at[k]);
    else set_maybe(lw, c->names.at[k], c->e);
  }
}

static anf_node **branch_values(lower *lw, const choice *c, const branch *a, const wordlist *all) {
  anf_node **v = ANFI_NEW_N(lw->p->a, anf_node *, all->n);
  for (size_t k = 0, j = 0; k < c->names.n && j < all->n; k++)
    if (c->names.at[k] == all->at[j]) v[j++] = a->now[k];
  return v;
}

static anf_node *branch_value(lower *lw, const branch *a) {
  return a->value ? a->value : anfi_anf_none(lw);
}

static bool any_value(const choice *c) {
  for (size_t i = 0; i < c->n; i++)
    if (c->branches[i].value) return true;
  return false;
}

/* y = if c { x = 1 } else { 2 }: the first branch gives y nothing. */
static bool branches_give(lower *lw, const choice *c) {
  bool all = true;
  for (size_t i = 0; i < c->n; i++) {
    if (c->branches[i].value || c->branches[i].ended) continue;
    const ast *block = c->e->kid[i + 1 < c->n ? 2 * i + 1 : c->e->n - 1];
    anfi_fail(lw->cx, anfi_anf_loc(lw, block->n ? block->kid[block->n - 1] : block), ANF_E0148);
    anfi_hint(lw->cx,
              "end the branch with the value; names that it assigns can be read after the 'if'");
    all = false;
  }
  return all;
}

/* An `if` that reaches its end on every path. */
static anf_node *plain_if(lower *lw, const ast *e, wanted value) {
  choice c = {.e = e};
  if (e->n % 2 == 0) value = NO_VALUE;
  wordlist all = {0};
  anf_node *call = NULL;
  anf_graph *home = lw->g;
  find_names(lw, &c);
  lower_branches(lw, &c, false, value, &call);
  bool complete = value != EACH_A_VALUE || branches_give(lw, &c);
  split_names(lw, &c, &all);
  bool want = value != NO_VALUE && any_value(&c);
  for (size_t i = 0; i < c.n; i++) {
    lw->g = c.branches[i].at;
    anf_node *first = want ? branch_value(lw, &c.branches[i]) : NULL;
    anfi_set_result(lw->g, pack(lw, e, first, all.n, branch_values(lw, &c, &c.branches[i], &all)));
  }
  lw->g = home;
  anf_node *r = unpack(lw, e, call, want, all.n, all.at);
  return complete ? r : lw->bad;
}

/* Bindings of the names as the branch left them. */
static void take_over(lower *lw, const choice *c, const branch *a) {
  lw->g = a->at;
  for (size_t k = 0; k < c->names.n; k++)
    if (a->now[k]) anfi_anf_bind_value(lw, c->names.at[k], a->now[k]);
    else if (lw->bind[c->names.at[k]->id].state == B_NONE) set_maybe(lw, c->names.at[k], c->e);
}

/* Several branches reach the code after: it continues in ↓. */
static outcome join_in_graph(lower *lw, choice *c) {
  wordlist all = {0};
  anf_graph *after = anfi_anf_graph(lw, ANFI_AFTER, c->e);
  split_names(lw, c, &all);
  for (size_t i = 0; i < c->n; i++) {
    if (c->branches[i].ended) continue;
    lw->g = c->branches[i].at;
    anfi_set_result(
        lw->g, call_graph(lw, c->e, after, all.n, branch_values(lw, c, &c->branches[i], &all)));
  }
  lw->g = after;
  for (size_t k = 0; k < all.n; k++) {
    anf_node *q = named_param(lw, after, all.at[k], c->e);
    anfi_anf_bind_value(lw, all.at[k], q);
  }
  return (outcome){false, NULL};
}

/* An `if` with an branch that leaves. The current graph ends in the choice; the code after it continues in
 * the graph that lw->g is then. `last`: nothing follows, and the value counts. */
static outcome leaving_if(lower *lw, const ast *e, bool last) {
  choice c = {.e = e};
  anf_node *call = NULL;
  find_names(lw, &c);
  lower_branches(lw, &c, last, last ? ANY_VALUE : NO_VALUE, &call);
  anfi_set_result(lw->g, call);
  size_t open = 0, one = 0;
  for (size_t i = 0; i < c.n; i++)
    if (!c.branches[i].ended) open++, one = i;
  if (!open) return (outcome){true, NULL};
  if (open == 1) {
    take_over(lw, &c, &c.branches[one]);
    return (outcome){false, c.has_else ? c.branches[one].value : NULL};
  }
  if (!last) return join_in_graph(lw, &c);
  for (size_t i = 0; i < c.n; i++) {
    if (c.branches[i].ended) continue;
    lw->g = c.branches[i].at;
    anfi_set_result(lw->g, c.has_else ? branch_value(lw, &c.branches[i]) : anfi_anf_none(lw));
  }
  return (outcome){true, NULL};
}

anf_node *anfi_anf_if(lower *lw, const ast *e) {
  if (e->flags & A_EXITS) {
    anfi_fail(lw->cx, anfi_anf_loc(lw, e), ANF_E0124);
    anfi_hint(lw->cx, "make the 'if' a statement of its own");
    return lw->bad;
  }
  if (e->n % 2 == 0) {
    anfi_fail(lw->cx, anfi_anf_loc(lw, e), ANF_E0129);
    anfi_hint(lw->cx, "add 'else { ... }'");
    return lw->bad;
  }
  return plain_if(lw, e, EACH_A_VALUE);
}

/* a and b and c: ((a and b) and c), each a choice that evaluates its right side only if needed. */
anf_node *anfi_anf_and_or(lower *lw, const ast *e) {
  anf_graph *home = lw->g;
  anf_node *v = anfi_anf_expr(lw, e->kid[0]);
  for (uint32_t i = 1; i < e->n; i++) {
    bool is_and = e->u.ops[i - 1].op == W_and;
    anf_graph *yes = anfi_anf_graph(lw, ANFI_THEN, e->kid[i]),
              *no = anfi_anf_graph(lw, ANFI_ELSE, e->kid[i]);
    anf_node *call = anfi_anf_switch(lw, e->kid[i], v, yes, no);
    size_t undo = lw->undo.n;
    lw->g = is_and ? yes : no;
    anfi_set_result(lw->g, anfi_anf_expr(lw, e->kid[i]));
    anfi_anf_undo(lw, undo);
    anfi_set_result(is_and ? no : yes, v);
    lw->g = home;
    v = call;
  }
  return v;
}

/* ---- loops ---- */

typedef struct {
  /* the text */
  const ast *e, *body;
  wordlist vars; // carried
  wordlist out;  // of these, wanted after
  /* nodes */
  anf_graph *header;
  anf_node *index, *end, *over; // of a for
  bool returns;                 // holds a return: the code after goes on in ↓
  uint32_t *saved;              // of lw->wanted
} looping;

static bool in_pattern(const ast *pattern, const anfi_str *w) {
  if (pattern->kind == A_NAME) return pattern->u.word == w;
  for (uint32_t i = 0; pattern->kind == A_TUPLE && i < pattern->n; i++)
    if (in_pattern(pattern->kid[i], w)) return true;
  return false;
}

static bool is_vars_name(const looping *l, const anfi_str *w) {
  return l->e->kind == A_FOR && in_pattern(l->e->kid[0], w);
}

/* Carried: assigned in the loop, with a value before, and read in it or after. */
static void find_carried(lower *lw, looping *l) {
  const wordset *s = l->e->u.assigned;
  anf_node *ignored;
  for (uint32_t i = 0; i < s->n; i++) {
    const anfi_str *w = s->at[i];
    if (is_vars_name(l, w) || !bound_value(lw, w, &ignored) || !anfi_anf_live(lw, w, l->e->off))
      continue;
    anfi_push(lw->p->a, &l->vars, w);
    if (anfi_anf_live(lw, w, l->e->end)) anfi_push(lw->p->a, &l->out, w);
  }
}

static void want(lower *lw, looping *l) {
  l->saved = ANFI_NEW_N(lw->p->a, uint32_t, l->vars.n);
  for (size_t i = 0; i < l->vars.n; i++) {
    l->saved[i] = lw->wanted[l->vars.at[i]->id];
    lw->wanted[l->vars.at[i]->id] = lw->fn->id;
  }
}

static void unwant(lower *lw, const looping *l) {
  for (size_t i = 0; i < l->vars.n; i++) lw->wanted[l->vars.at[i]->id] = l->saved[i];
}

/* The call of the header from before the loop, and its parameters. */
static anf_node *start_loop(lower *lw, looping *l, anf_node *from) {
  size_t n = l->vars.n, k = from ? 1 : 0;
  anf_node **args = ANFI_NEW_N(lw->p->a, anf_node *, n + k), **now = values_of(lw, n, l->vars.at);
  if (from) args[0] = from;
  for (size_t i = 0; i < n; i++) args[k + i] = now[i];
  l->header = anfi_anf_graph(lw, ANFI_HEADER, l->e);
  anf_node *call = call_graph(lw, l->e, l->header, n + k, args);
  const ast *target = l->e->kid[0];
  if (from) {
    bool named = !l->over && target->kind == A_NAME;
    l->index = named_param(lw, l->header, named ? target->u.word : NULL, target);
  }
  for (size_t i = 0; i < n; i++) {
    anf_node *q = named_param(lw, l->header, l->vars.at[i], l->e);
    anfi_anf_bind_value(lw, l->vars.at[i], q);
  }
  return call;
}

/* The call of the header from within the loop. */
static void go_round(lower *lw, const looping *l) {
  size_t n = l->vars.n, k = l->index ? 1 : 0;
  anf_node **args = ANFI_NEW_N(lw->p->a, anf_node *, n + k), **now = values_of(lw, n, l->vars.at);
  if (k) {
    anf_node *one = anfi_value(lw->m, anfi_value_new_i64(lw->cx, ANF_INT, 1));
    args[0] = anfi_anf_apply(lw, l->e, "Add", 2, (anf_node *[]){l->index, one});
  }
  for (size_t i = 0; i < n; i++) args[k + i] = now[i];
  anfi_set_result(lw->g, call_graph(lw, l->e, l->header, n + k, args));
}

static void leave_round(lower *lw, const looping *l, anf_graph *after) {
  anf_node **v = values_of(lw, l->out.n, l->out.at);
  anfi_set_result(lw->g, after ? call_graph(lw, l->e, after, l->out.n, v)
                               : pack(lw, l->e, NULL, l->out.n, v));
}

struct jumps {
  const looping *l;
  anf_graph *after; // where a break goes on; NULL: it gives the loop's value
};

static void lower_round(lower *lw, looping *l, anf_graph *body, anf_graph *after) {
  struct jumps j = {l, after};
  loop here = {lw->loop, &j};
  size_t undo = lw->undo.n;
  lw->g = body;
  lw->loop = &here;
  if (l->index) {
    anf_node *item = l->index;
    if (l->over) {
      item = anfi_anf_apply(lw, l->e->kid[0], "GetItem", 2, (anf_node *[]){l->over, l->index});
      anfi_anf_name_node(lw, l->e->kid[0], item);
    }
    anfi_anf_pattern(lw, l->e->kid[0], item);
  }
  want(lw, l);
  outcome o = anfi_anf_block(lw, l->body, false, NO_VALUE);
  if (!o.ended) go_round(lw, l);
  unwant(lw, l);
  lw->loop = here.outer;
  anfi_anf_undo(lw, undo);
}

static anf_node *loop_condition(lower *lw, const looping *l) {
  if (!l->index) return anfi_anf_expr(lw, l->e->kid[0]);
  return anfi_anf_apply(lw, l->e->kid[0], "Less", 2, (anf_node *[]){l->index, l->end});
}

/* Names that only the loop assigns have no value after it. */
static void forget_inner(lower *lw, const looping *l) {
  anf_node *ignored;
  for (uint32_t i = 0; i < l->e->u.assigned->n; i++) {
    const anfi_str *w = l->e->u.assigned->at[i];
    if (!is_vars_name(l, w) && !bound_value(lw, w, &ignored)) set_maybe(lw, w, l->e);
  }
}

/* Bounds of a for, computed once before it: a..b, or the items of a tensor or tuple. */
static anf_node *for_start(lower *lw, looping *l) {
  if (l->e->kind != A_FOR) return NULL;
  if (l->e->n == 4) {
    anf_node *from = anfi_anf_expr(lw, l->e->kid[1]);
    l->end = anfi_anf_expr(lw, l->e->kid[2]);
    return from;
  }
  l->over = anfi_anf_expr(lw, l->e->kid[1]);
  l->end = anfi_anf_apply(lw, l->e->kid[1], "Len", 1, &l->over);
  return anfi_value(lw->m, anfi_value_new_i64(lw->cx, ANF_INT, 0));
}

/* The code after the loop is in its last graph, or in `after`, whose parameters are the names. */
static void go_on_after(lower *lw, const looping *l, anf_graph *home, anf_node *call,
                        anf_graph *after) {
  anfi_set_result(home, call);
  if (!after) return;
  lw->g = after;
  for (size_t i = 0; i < l->out.n; i++)
    anfi_anf_bind_value(lw, l->out.at[i], named_param(lw, after, l->out.at[i], l->e));
}

static void lower_loop(lower *lw, const ast *e) {
  looping l = {.e = e, .body = e->kid[e->n - 1], .returns = e->flags & A_RETURNS};
  anf_graph *home = lw->g;
  anf_node *from = for_start(lw, &l);
  size_t undo = lw->undo.n;
  find_carried(lw, &l);
  anf_node *call = start_loop(lw, &l, from);
  bool joins = l.returns && (e->flags & A_BREAKS); // two paths reach the code after the loop
  anf_graph *body = anfi_anf_graph(lw, ANFI_BODY, l.body),
            *done = anfi_anf_graph(lw, joins ? ANFI_ELSE : ANFI_AFTER, e);
  anf_graph *after = joins ? anfi_anf_graph(lw, ANFI_AFTER, e) : NULL;
  lw->g = l.header;
  anf_node *cond = loop_condition(lw, &l);
  anfi_set_result(lw->g, anfi_anf_switch(lw, e, cond, body, done));
  lower_round(lw, &l, body, after);
  lw->g = done;
  if (!l.returns || after) leave_round(lw, &l, after);
  if (l.returns) go_on_after(lw, &l, home, call, after);
  else {
    lw->g = home;
    anfi_anf_undo(lw, undo);
    unpack(lw, e, call, false, l.out.n, l.out.at);
  }
  forget_inner(lw, &l);
}

static void lower_jump(lower *lw, const ast *s) {
  const struct jumps *j = lw->loop ? lw->loop->jumps : NULL;
  if (!j) anfi_set_result(lw->g, lw->bad); // its error is recorded
  else if (s->kind == A_CONTINUE) go_round(lw, j->l);
  else leave_round(lw, j->l, j->after);
}

/* ---- statements ---- */

/* a, b = b, a: item by item, without a tuple. */
static bool bind_items(lower *lw, const ast *s) {
  const ast *to = s->kid[0], *from = s->kid[1];
  bool plain = s->n == 2 && !(s->flags & A_EFFECT) && to->kind == A_TUPLE &&
               from->kind == A_TUPLE && to->n == from->n;
  if (!plain) return false;
  anf_node **v = ANFI_NEW_N(lw->p->a, anf_node *, to->n);
  for (uint32_t i = 0; i < to->n; i++) v[i] = anfi_anf_expr(lw, from->kid[i]);
  for (uint32_t i = 0; i < to->n; i++) {
    anfi_anf_name_node(lw, to->kid[i], v[i]);
    anfi_anf_pattern(lw, to->kid[i], v[i]);
  }
  return true;
}

static void lower_bind(lower *lw, const ast *s) {
  if (bind_items(lw, s)) return;
  anf_node *v = anfi_anf_expr(lw, s->kid[1]);
  if (s->n == 3) v = anfi_anf_annotate(lw, s, v, s->kid[2]->u.type);
  anfi_anf_name_node(lw, s->kid[0], v);
  if (s->flags & A_EFFECT) {
    if (v->graph == lw->g && anfi_is_cnode(v)) anfi_add_effect(lw->g, v);
    else anfi_fail(lw->cx, anfi_anf_loc(lw, s), ANF_E0204);
  }
  anfi_anf_pattern(lw, s->kid[0], v);
}

static void lower_return(lower *lw, const ast *s) {
  anf_node *v = s->n ? anfi_anf_expr(lw, s->kid[0]) : anfi_anf_none(lw);
  anfi_set_result(lw->g, v);
}

/* One statement; `last`: nothing follows in the function; `want`: its value is the block's. */
static outcome lower_statement(lower *lw, const ast *s, bool last, wanted want) {
  outcome o = {false, NULL};
  switch ((akind)s->kind) {
  case A_DEF: anfi_anf_def(lw, s->u.fn); break;
  case A_BIND: lower_bind(lw, s); break;
  case A_AUG: anfi_anf_pattern(lw, s->kid[0], anfi_anf_aug(lw, s)); break;
  case A_RETURN: lower_return(lw, s), o.ended = true; break;
  case A_BREAK:
  case A_CONTINUE: lower_jump(lw, s), o.ended = true; break;
  case A_WHILE:
  case A_FOR: lower_loop(lw, s); break;
  case A_IF:
    if (s->flags & A_EXITS) return leaving_if(lw, s, last);
    o.value = plain_if(lw, s, want);
    break;
  default: o.value = anfi_anf_expr(lw, s); break;
  }
  return o;
}

/* `tail`: the block's end is the function's end. */
outcome anfi_anf_block(lower *lw, const ast *b, bool tail, wanted want) {
  outcome o = {false, NULL};
  if (b->kind != A_BLOCK) return (outcome){false, lw->bad};
  anfi_anf_declare(lw, b->kid, b->n);
  for (uint32_t i = 0; i < b->n && !o.ended; i++) {
    bool last = i + 1 == b->n;
    o = lower_statement(lw, b->kid[i], last && tail, last ? want : NO_VALUE);
    if (o.ended && !last) anfi_fail(lw->cx, anfi_anf_loc(lw, b->kid[i + 1]), ANF_E0130);
  }
  return o;
}
