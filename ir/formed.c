// SPDX-License-Identifier: Apache-2.0
/* Results of specialised copies, for the host: data become function values again.
 *   f(x): fn (y) { x + y }      the copy of f(2.0) gives (2.0,)  ->  the function value fn_f with x = 2.0 bound
 * A copy gives data for functions (optimizer/infer/form.c); the form of its result names the original function of each
 * part of the data. */
#include "ir/ir.h"

/* ---- attributes of primitives in results: the copy is freed, a function value of it lives on ---- */

typedef struct held {
  anfi_opcode op;
  const anfi_attrs *attrs;
  struct held *next, *same_hash;
} held;
typedef struct held_all {
  anfi_map by_hash;
  held *first;
} held_all;
static const char held_key;

static void release_held(void *all) {
  for (const held *h = ((held_all *)all)->first; h; h = h->next)
    for (uint32_t k = 0; k < h->attrs->n; k++)
      if (h->attrs->at[k] && h->attrs->at[k] != &anfi_from_node) anf_value_release(h->attrs->at[k]);
}

static uint64_t hash_of(anfi_opcode op, const anfi_attrs *a) {
  uint64_t h = op;
  for (uint32_t k = 0; k < a->n; k++) {
    bool plain = a->at[k] && a->at[k] != &anfi_from_node;
    h = anfi_hash_mix(h, plain ? anfi_value_hash(a->at[k]) : anfi_key(a->at[k]));
  }
  return h;
}

bool anfi_attrs_same(const anfi_attrs *a, const anfi_attrs *b) {
  if (a == b) return true;
  if (!a || !b || a->n != b->n) return false;
  for (uint32_t k = 0; k < a->n; k++) {
    const anf_value *x = a->at[k], *y = b->at[k];
    if (x == y) continue;
    if (!x || !y || x == &anfi_from_node || y == &anfi_from_node || !anfi_value_same(x, y))
      return false;
  }
  return true;
}

static held_all *all_held(anf_ctx *cx) {
  held_all *all = (held_all *)anfi_ctx_kept(cx, &held_key);
  if (all) return all;
  all = ANFI_NEW(&cx->arena, held_all);
  anfi_map_init(&all->by_hash, &cx->arena);
  anfi_ctx_keep(cx, &held_key, all, release_held);
  return all;
}

const anfi_attrs *anfi_attrs_hold(anf_ctx *cx, anfi_opcode op, const anfi_attrs *a) {
  if (!a) return NULL;
  held_all *all = all_held(cx);
  uint64_t *first = anfi_map_at(&all->by_hash, hash_of(op, a));
  for (const held *h = (const held *)(uintptr_t)*first; h; h = h->same_hash)
    if (h->op == op && anfi_attrs_same(h->attrs, a)) return h->attrs;
  size_t bytes = sizeof *a + a->n * sizeof(anf_value *);
  anfi_attrs *copy = (anfi_attrs *)anfi_alloc(&cx->arena, bytes);
  held *h = ANFI_NEW(&cx->arena, held);
  memcpy(copy, a, bytes);
  for (uint32_t k = 0; k < a->n; k++)
    if (a->at[k] && a->at[k] != &anfi_from_node) anf_value_retain(a->at[k]);
  *h = (held){op, copy, all->first, (held *)(uintptr_t)*first};
  all->first = h;
  *first = anfi_key(h);
  return copy;
}

/* ---- results ---- */

typedef struct forming {
  anf_ctx *cx;
  const anfi_origins *from;
} forming;

anfi_origins anfi_origins_of(anfi_arena *a, const anf_module *copy, const anf_analysis *an) {
  anfi_origins o = {.n = copy->graphs.n};
  o.graph = ANFI_NEW_N(a, anf_graph *, o.n + 1);
  o.ncapture = ANFI_NEW_N(a, uint32_t, o.n + 1);
  for (size_t i = 0; i < o.n; i++) {
    o.graph[i] = anfi_module_origin(copy, i);
    if (o.graph[i]) o.ncapture[i] = (uint32_t)an->graphs[o.graph[i]->id].free.n;
  }
  return o;
}

static anf_value *formed(const forming *c, const anfi_form *f, anf_value *v);

/* `v` is the tuple of the values that the code binds, NULL if it binds none. */
static anf_value *function(const forming *c, const anfi_form *code, const anf_value *v) {
  bool graph = code->graph != UINT32_MAX;
  if (graph && (code->graph >= c->from->n || !c->from->graph[code->graph]))
    return (void)anfi_fail(c->cx, anfi_nowhere(), ANF_E0001, "a function of no graph"), NULL;
  anf_graph *g = graph ? c->from->graph[code->graph] : NULL;
  uint32_t nc = graph ? c->from->ncapture[code->graph] : 0;
  if (nc > code->n)
    return (void)anfi_fail(c->cx, anfi_nowhere(), ANF_E0001, "captures without values"), NULL;
  anf_value *r = anfi_value_new_fn(c->cx, g, graph ? ANF_OP_NONE : code->op,
                                   graph ? NULL : code->attrs, nc, code->n - nc);
  anfi_value_guard(r);
  bool good = true;
  for (uint32_t i = 0; i < code->n && good; i++)
    good = (anfi_value_fn(r)->at[i] = formed(c, code->item[i], v->u.item[i])) != NULL;
  anfi_value_unguard(r);
  if (good) return r;
  anf_value_release(r);
  return NULL;
}

static anf_value *nest(const forming *c, const anfi_form *f, const anf_value *v) {
  const anf_type **t = ANFI_NEW_N(anfi_scratch(c->cx), const anf_type *, v->n + 1);
  anf_value *r = v->kind == ANF_VALUE_RECORD ? anfi_value_new_record(c->cx, v->type)
                                             : anfi_value_new_tuple(c->cx, v->n);
  anfi_value_guard(r);
  bool good = true;
  for (size_t i = 0; i < v->n && good; i++) {
    good = (r->u.item[i] = formed(c, f->item[i], v->u.item[i])) != NULL;
    if (good && !(t[i] = anf_value_type(c->cx, r->u.item[i]))) anfi_throw_nomem(c->cx);
  }
  if (good && v->kind == ANF_VALUE_RECORD)
    anfi_value_set_type(r, anfi_type_record(c->cx, v->n, v->type->names, t));
  anfi_value_unguard(r);
  if (good) return r;
  anf_value_release(r);
  return NULL;
}

/* Recursion is over the nesting of the result's type. */
static anf_value *formed(const forming *c, const anfi_form *f, anf_value *v) {
  if (f->kind == ANFI_FORM_DATA) return anf_value_retain(v);
  if (f->kind == ANFI_FORM_NEST) return nest(c, f, v);
  if (f->n == 1) return function(c, f->item[0], v);
  const anfi_form *code = f->item[anfi_get_i64(v->u.item[0], 0)];
  return function(c, code, code->n ? v->u.item[code->slot] : NULL);
}

anf_value *anfi_formed(anf_ctx *cx, const anfi_form *f, const anfi_origins *from, anf_value *v) {
  forming c = {cx, from};
  return formed(&c, f, v);
}
