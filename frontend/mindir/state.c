// SPDX-License-Identifier: Apache-2.0
/* The state of a model: the parameters that it assigns to, wherever it does.
 *
 *   main(x) { f = Partial(G, w, x, U); Switch(c, f, ..)() }      G(v, y, u) { Assign(v, Add(v, y), u) }
 *
 * Parameters are passed to functions by reference, so v denotes w and w is state. A function's parameter denotes a
 * parameter of the model if each call and each Partial gives it that one; with another value anywhere it is a value.
 * References are followed through Depend and through items of tuples that are made in the same graph. */
#include "frontend/mindir/mindir.h"

/* Meaning of a function's parameter: not known yet, a value, or REF + the index of a parameter. */
enum { UNSET, VALUE, REF };
enum { MAX_STEPS = 64, MAX_PATHS = 4096 }; // of finding the functions of one name

static const void *found(const anfi_map *m, const anfi_str *name) {
  const uint64_t *at = anfi_map_find(m, anfi_key(name));
  return at ? (const void *)(uintptr_t)*at : NULL;
}

static const anfi_mi_node *node_of(const anfi_mi_build *b, const anfi_str *name) {
  return (const anfi_mi_node *)found(&b->nodes, name);
}
static const anfi_mi_graph *body_of(const anfi_mi_build *b, const anfi_str *name) {
  return (const anfi_mi_graph *)found(&b->bodies, name);
}

static const anfi_mi_prim *prim_of(const anfi_mi_build *b, const anfi_mi_node *n) {
  return (const anfi_mi_prim *)found(&b->prims, n->op);
}

static bool is(const anfi_mi_prim *p, anfi_mi_role role) { return p && p->role == role; }

/* ---- references ---- */

const anfi_str *anfi_mi_root(const anfi_mi_build *b, const anfi_str *name) {
  const anfi_str *root = name, *up;
  while ((up = found(&b->roots, root))) root = up;
  for (; name != root; name = up) { // the next time it is one step
    uint64_t *at = anfi_map_find(&b->roots, anfi_key(name));
    up = (const anfi_str *)(uintptr_t)*at;
    *at = anfi_key(root);
  }
  return root;
}

/* TupleGetItem(MakeTuple(a, b, ..), 1): b. */
static const anfi_str *item_of(const anfi_mi_build *b, const anfi_mi_node *n) {
  const anfi_mi_node *tuple = n->in.n == 2 ? node_of(b, anfi_mi_root(b, n->in.at[0])) : NULL;
  const anfi_mi_node *index = tuple ? node_of(b, n->in.at[1]) : NULL;
  const anfi_mi_attr *a = index ? anfi_mi_find(&index->attrs, "value") : NULL;
  bool good =
      a && is(prim_of(b, tuple), MI_ROLE_MakeTuple) && a->i >= 0 && (size_t)a->i < tuple->in.n;
  return good ? tuple->in.at[a->i] : NULL;
}

/* A cycle, which the builder refuses, has no root beside itself. */
static void find_root(anfi_mi_build *b, const anfi_mi_node *n) {
  const anfi_mi_prim *p = prim_of(b, n);
  const anfi_str *of = is(p, MI_ROLE_Depend) && n->in.n ? n->in.at[0]
                       : is(p, MI_ROLE_TupleGetItem)    ? item_of(b, n)
                                                        : NULL;
  const anfi_str *root = of ? anfi_mi_root(b, of) : n->name;
  if (root != n->name) *anfi_map_at(&b->roots, anfi_key(n->name)) = anfi_key(root);
}

static uint64_t denotes(const anfi_mi_build *b, const anfi_str *name) {
  const anfi_str *root = anfi_mi_root(b, name);
  const uint64_t *at = anfi_map_find(&b->params, anfi_key(root));
  if (at) return REF + *at - 1;
  return (at = anfi_map_find(&b->refs, anfi_key(root))) ? *at : VALUE;
}

int anfi_mi_slot(const anfi_mi_build *b, const anfi_str *name) {
  uint64_t r = b->nslot ? denotes(b, name) : VALUE;
  return r >= REF ? b->slot[r - REF] : -1;
}

bool anfi_mi_is_monad(const anfi_mi_input *in) {
  return strcmp(in->denotation->s, "UMonadType") == 0 ||
         (in->abstract && in->abstract->type == MI_UMONAD);
}

/* ---- function values ---- */

typedef struct {
  const anfi_mi_graph *g;
  size_t bound; // arguments that Partial gave
} callee;
typedef struct {
  ANFI_VEC(callee) all;
  size_t steps; // bounded: a name may be reached on many paths
} callees;

/* Lists the functions that a name may be. False: some are not known. */
static bool functions_of(const anfi_mi_build *b, const anfi_str *name, size_t bound, size_t depth,
                         anfi_arena *a, callees *out) {
  const anfi_mi_graph *g = body_of(b, name);
  const anfi_mi_node *n = g ? NULL : node_of(b, name);
  const anfi_mi_prim *p = n ? prim_of(b, n) : NULL;
  if (g) {
    anfi_push(a, &out->all, ((callee){g, bound}));
    return true;
  }
  if (!p || !n->in.n || depth >= MAX_STEPS || out->steps++ >= MAX_PATHS) return false;
  if (is(p, MI_ROLE_Partial)) bound += n->in.n - 1;
  if (is(p, MI_ROLE_Partial) || is(p, MI_ROLE_Depend))
    return functions_of(b, n->in.at[0], bound, depth + 1, a, out);
  bool choice = is(p, MI_ROLE_Switch) || is(p, MI_ROLE_SwitchLayer), known = true;
  for (size_t i = choice; i < n->in.n && (choice || is(p, MI_ROLE_MakeTuple)); i++)
    known &= functions_of(b, n->in.at[i], bound, depth + 1, a, out);
  return known && (choice || is(p, MI_ROLE_MakeTuple));
}

bool anfi_mi_takes_state(const anfi_mi_build *b, const anfi_str *f) {
  callees all = {0};
  bool takes = !functions_of(b, f, 0, 0, b->t->arena, &all);
  for (size_t i = 0; i < all.all.n; i++)
    for (size_t k = 0; k < all.all.at[i].g->in.n; k++)
      takes |= anfi_mi_is_monad(&all.all.at[i].g->in.at[k]);
  return takes;
}

/* ---- the fixpoint: what parameters of functions denote ---- */

typedef struct {
  anfi_mi_build *b;
  ANFI_VEC(const anfi_mi_graph *) todo;
  anfi_map waiting; // graph -> 1
} solver;

static void look_again(solver *s, const anfi_mi_graph *g) {
  uint64_t *w = anfi_map_at(&s->waiting, anfi_key(g));
  if (!*w) anfi_push(s->b->t->arena, &s->todo, g);
  *w = 1;
}

/* `given` may come to the parameter i of g. */
static void gives(solver *s, const anfi_mi_graph *g, size_t i, const anfi_str *given) {
  uint64_t r = denotes(s->b, given);
  if (i >= g->in.n || r == UNSET) return;
  uint64_t *has = anfi_map_at(&s->b->refs, anfi_key(g->in.at[i].name));
  uint64_t joined = *has == UNSET || *has == r ? r : VALUE;
  if (*has == joined) return;
  *has = joined;
  look_again(s, g);
}

static void visit(solver *s, const anfi_mi_node *n) {
  const anfi_mi_prim *p = prim_of(s->b, n);
  bool partial = is(p, MI_ROLE_Partial) && n->in.n;
  if (p && !partial) return;
  callees all = {0};
  functions_of(s->b, partial ? n->in.at[0] : n->op, 0, 0, s->b->t->arena, &all);
  for (size_t i = 0; i < all.all.n; i++)
    for (size_t k = partial; k < n->in.n; k++)
      gives(s, all.all.at[i].g, all.all.at[i].bound + k - partial, n->in.at[k]);
}

static void solve(anfi_mi_build *b) {
  solver s = {.b = b};
  anfi_map_init(&s.waiting, b->t->arena);
  for (size_t i = 0; i < b->model->functions.n; i++) {
    const anfi_mi_graph *g = b->model->functions.at[i];
    for (size_t k = 0; k < g->in.n; k++) *anfi_map_at(&b->refs, anfi_key(g->in.at[k].name)) = UNSET;
    look_again(&s, g);
  }
  look_again(&s, b->model->main);
  for (size_t i = 0; i < s.todo.n; i++) {
    const anfi_mi_graph *g = s.todo.at[i];
    *anfi_map_at(&s.waiting, anfi_key(g)) = 0;
    for (size_t k = 0; k < g->nodes.n; k++) visit(&s, g->nodes.at[k]);
  }
}

/* ---- slots ---- */

static void find_assigned(anfi_mi_build *b, const anfi_mi_graph *g) {
  for (size_t i = 0; i < g->nodes.n; i++) {
    const anfi_mi_node *n = g->nodes.at[i];
    const anfi_mi_prim *p = prim_of(b, n);
    uint32_t bits = p ? p->writes : 0;
    for (size_t k = 0; k < n->in.n && k < 32; k++) {
      uint64_t r = bits >> k & 1 ? denotes(b, n->in.at[k]) : VALUE;
      if (r >= REF && b->slot[r - REF] < 0) b->slot[r - REF] = (int)b->nslot++;
    }
  }
}

static bool has_assignments(const anfi_mi_build *b) {
  bool has = false;
  for (size_t i = 0; i < b->model->prims.n && !has; i++) has = b->model->prims.at[i]->writes != 0;
  return has;
}

static void index_names(anfi_mi_build *b, const anfi_mi_graph *g) {
  if (g != b->model->main) *anfi_map_at(&b->bodies, anfi_key(g->name)) = anfi_key(g);
  for (size_t i = 0; i < g->nodes.n; i++) {
    *anfi_map_at(&b->nodes, anfi_key(g->nodes.at[i]->name)) = anfi_key(g->nodes.at[i]);
    find_root(b, g->nodes.at[i]);
  }
}

/* Slots that a parameter of some function denotes. */
static void find_threaded(anfi_mi_build *b) {
  b->threaded = ANFI_NEW_N(b->t->arena, bool, b->nslot + 1);
  for (size_t i = 0; i < b->model->functions.n; i++) {
    const anfi_mi_graph *g = b->model->functions.at[i];
    for (size_t k = 0; k < g->in.n; k++) {
      int slot = anfi_mi_slot(b, g->in.at[k].name);
      if (slot >= 0 && !b->threaded[slot]) b->threaded[slot] = true, b->nthreaded++;
    }
  }
}

void anfi_mi_find_state(anfi_mi_build *b) {
  const anfi_mi_graph *main = b->model->main;
  b->slot = ANFI_NEW_N(b->t->arena, int, main->params.n + 1);
  for (size_t i = 0; i < main->params.n; i++) b->slot[i] = -1;
  if (!has_assignments(b)) return;
  index_names(b, main);
  for (size_t i = 0; i < b->model->functions.n; i++) index_names(b, b->model->functions.at[i]);
  solve(b);
  find_assigned(b, main);
  for (size_t i = 0; i < b->model->functions.n; i++) find_assigned(b, b->model->functions.at[i]);
  find_threaded(b);
}
