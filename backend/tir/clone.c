// SPDX-License-Identifier: Apache-2.0
/* A deep copy of a module in another store.
 *   100 nodes, of which the functions use 40     ->     40 nodes
 * After many passes the copy leaves their garbage behind. And tables of a module: equal ones are one, those that nothing reads go. */
#include "backend/tir/tir.h"

typedef struct cloner {
  tstore *t;
  anfi_map vars;
  const anfi_map *called; // functions that get another name: name in the source → name; or NULL
} cloner;

static const anfi_str *name(cloner *c, const anfi_str *s) {
  return s ? anfi_intern(&c->t->names, s->s, s->len) : NULL;
}

static const anfi_str *function_name(cloner *c, const anfi_str *s) {
  const uint64_t *other = s && c->called ? anfi_map_find(c->called, anfi_key(s)) : NULL;
  return other ? (const anfi_str *)(uintptr_t)*other : name(c, s);
}

static tattrs attrs(cloner *c, tattrs a) {
  if (!a.n) return a;
  tattr *p = ANFI_NEW_N(&c->t->arena, tattr, a.n);
  memcpy(p, a.at, a.n * sizeof *p);
  return (tattrs){p, a.n};
}

static texpr expr(cloner *c, texpr e) {
  bool shared = e->kind == TX_var || e->kind == TX_tensor;
  uint64_t *have = shared ? anfi_map_find(&c->vars, anfi_key(e)) : NULL;
  if (have) return (texpr)(uintptr_t)*have;
  size_t size = sizeof *e + e->n * sizeof(texpr);
  struct anf_tir_expr_node *r =
      (struct anf_tir_expr_node *)memcpy(anfi_alloc(&c->t->arena, size), e, size);
  if (shared) *anfi_map_at(&c->vars, anfi_key(e)) = anfi_key(r), r->id = c->t->next_id++;
  for (uint32_t i = 0; i < e->n; i++) r->in[i] = expr(c, e->in[i]);
  if (anfi_t_is_list(e))
    return e->u.list.block ? anfi_t_list_block(c->t, e->dtype, e->u.list.n, e->u.list.block)
                           : anfi_t_list_copy(c->t, e->dtype, e->u.list.n, e->u.list.data);
  if (e->kind == TX_constant) {
    uint64_t *p = ANFI_NEW_N(&c->t->arena, uint64_t, e->u.k.n);
    memcpy(p, e->u.k.bits, e->u.k.n * sizeof *p);
    r->u.k.bits = p;
  } else if (e->kind == TX_intrin_call) r->u.attrs = attrs(c, e->u.attrs);
  else if (shared) r->u.name = name(c, e->u.name);
  else if (e->kind == TX_func_addr || e->kind == TX_call) r->u.name = function_name(c, e->u.name);
  return r;
}

static tstmt stmt(cloner *c, tstmt s) {
  size_t size = sizeof *s + s->n * sizeof(tstmt);
  struct anf_tir_stmt_node *r =
      (struct anf_tir_stmt_node *)memcpy(anfi_alloc(&c->t->arena, size), s, size);
  for (int i = 0; i < 4; i++)
    if (s->e[i]) r->e[i] = expr(c, s->e[i]);
  for (uint32_t i = 0; i < s->n; i++)
    if (s->s[i]) r->s[i] = stmt(c, s->s[i]);
  r->attrs = attrs(c, s->attrs);
  r->comment = name(c, s->comment);
  return r;
}

static tfunc func(cloner *c, tfunc f) {
  struct anf_tir_func_node *r = ANFI_NEW(&c->t->arena, struct anf_tir_func_node);
  texpr *param = ANFI_NEW_N(&c->t->arena, texpr, f->n);
  for (uint32_t k = 0; k < f->n; k++) param[k] = expr(c, f->param[k]);
  *r = *f;
  r->param = param;
  r->name = function_name(c, f->name);
  r->comment = name(c, f->comment);
  r->attrs = attrs(c, f->attrs);
  r->body = f->body ? stmt(c, f->body) : NULL;
  return r;
}

tmod *anfi_t_clone(const tmod *m, tstore *to) {
  cloner c = {.t = to};
  tmod *o = anfi_t_mod_new(to);
  anfi_map_init(&c.vars, anfi_scratch(to->cx));
  to->file = m->t->file ? anfi_intern_z(&to->names, m->t->file)->s : NULL;
  for (size_t i = 0; i < m->global.n; i++)
    anfi_push(&to->arena, &o->global, stmt(&c, m->global.at[i]));
  for (size_t i = 0; i < m->func.n; i++) anfi_t_mod_add(o, func(&c, m->func.at[i]));
  o->props = m->props;
  if (m->image) {
    o->image =
        (const uint8_t *)anfi_strndup(&to->arena, (const char *)m->image, (size_t)m->image_size);
    o->image_size = m->image_size;
  }
  for (size_t i = 0; i < m->bound.n; i++)
    anfi_push(&to->arena, &o->bound,
              ((tbound){m->bound.at[i].offset, expr(&c, m->bound.at[i].list)}));
  return o;
}

void anfi_t_import(tmod *to, const tmod *from) {
  cloner c = {.t = to->t};
  anfi_map_init(&c.vars, anfi_scratch(to->t->cx));
  for (size_t i = 0; i < from->func.n; i++) anfi_t_mod_add(to, func(&c, from->func.at[i]));
}

/* ---- merging ---- */

/* The constant of a private table, or NULL. */
static texpr table_of(tstmt define) {
  texpr k = define->e[1];
  return define->sub == TL_private && anfi_t_isa(k, TX_constant) ? k : NULL;
}

static bool same_table(tstmt a, tstmt b) {
  tcompare c = {0};
  return anfi_t_same(a->e[0]->dtype, b->e[0]->dtype) &&
         anfi_t_equal_expr(&c, table_of(a), table_of(b));
}

/* Private tables are only read, so equal ones are one. */
static void merge_table(cloner *c, tmod *to, tstmt define, anfi_map *tables) {
  texpr k = table_of(define);
  uint64_t *known = k ? anfi_map_at(tables, anfi_t_hash_expr(k)) : NULL;
  tstmt have = known ? (tstmt)(uintptr_t)*known : NULL;
  if (have && same_table(have, define)) {
    *anfi_map_at(&c->vars, anfi_key(define->e[0])) = anfi_key(have->e[0]);
    return;
  }
  tstmt added = stmt(c, define);
  anfi_push(&c->t->arena, &to->global, added);
  if (known) *known = anfi_key(added);
}

static void name_functions(const tmod *to, const tmod *from, const char *tag, anfi_arena *a,
                           anfi_map *called) {
  for (size_t i = 0; i < from->func.n; i++) {
    tfunc f = from->func.at[i];
    if (!f->body) continue;
    char *s = anfi_sprintf(a, "%s_%s", f->name->s, tag);
    while (anfi_t_mod_find(to, anfi_intern_z(&to->t->names, s))) s = anfi_sprintf(a, "%s_", s);
    *anfi_map_at(called, anfi_key(f->name)) = anfi_key(anfi_intern_z(&to->t->names, s));
  }
}

void anfi_t_merge(tmod *to, const tmod *from, const char *tag, anfi_map *tables) {
  anfi_arena *a = anfi_scratch(to->t->cx);
  anfi_map called;
  cloner c = {.t = to->t, .called = &called};
  anfi_map_init(&c.vars, a);
  anfi_map_init(&called, a);
  name_functions(to, from, tag, a, &called);
  for (size_t i = 0; i < from->global.n; i++) merge_table(&c, to, from->global.at[i], tables);
  for (size_t i = 0; i < from->func.n; i++) {
    tfunc f = func(&c, from->func.at[i]);
    if (f->body || !anfi_t_mod_find(to, f->name)) anfi_t_mod_add(to, f);
  }
}

/* ---- tables that nothing reads ---- */

static bool see_read(tviewer *v, texpr e) {
  if (e->kind == TX_tensor) *anfi_map_at((anfi_map *)v->user, anfi_key(e)) = 1;
  return true;
}

void anfi_t_drop_unread(tmod *m) {
  anfi_map read;
  anfi_map_init(&read, anfi_scratch(m->t->cx));
  tviewer v = {.user = &read, .enter_expr = see_read};
  for (size_t i = 0; m->global.n && i < m->func.n; i++)
    if (m->func.at[i]->body) anfi_t_view_stmt(&v, m->func.at[i]->body);
  size_t n = 0;
  for (size_t i = 0; i < m->global.n; i++) {
    tstmt define = m->global.at[i];
    if (!table_of(define) || anfi_map_find(&read, anfi_key(define->e[0])))
      m->global.at[n++] = define;
  }
  m->global.n = n;
}
