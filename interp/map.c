// SPDX-License-Identifier: Apache-2.0
/* Functions of functions: HyperMap and Map; and the choice of a multitype function.
 *   HyperMap(f, (1, (2, 3)))   ->   f(1), then f(2), f(3) one level deeper:  (f(1), (f(2), f(3)))
 * They walk their arguments' nesting with a stack of levels, one machine step a level or call, so a walk of any depth
 * can be cancelled and needs no C stack. */
#include "interp/interp.h"

typedef struct {
  anf_value *out; // filled from the left, up to `next`
  size_t next;
} level;

struct anfi_mapping {
  uint16_t op;
  size_t nargs;
  level *levels;
  anf_value **in; // nargs for each level, borrowed from the arguments
  size_t n, cap;
};

bool anfi_map_is_leaf(uint16_t op, const anf_value *first) {
  return op == ANF_OP_HyperMap && !anfi_value_is_nest(first);
}

void anfi_map_free(anf_ctx *cx, anfi_mapping *map) {
  for (size_t i = 0; i < map->n; i++) anf_value_release(map->levels[i].out);
  anfi_raw(cx, map->levels, map->cap * sizeof *map->levels, 0);
  anfi_raw(cx, map->in, map->cap * map->nargs * sizeof *map->in, 0);
  anfi_raw(cx, map, sizeof *map, 0);
}

/* A failure of the second leaves the first larger than `cap` says, so they are made anew and then
 * freed. */
static void grow(anf_ctx *cx, anfi_mapping *map) {
  size_t want = map->cap ? map->cap * 2 : 4, args = anfi_size_mul(cx, map->nargs, sizeof *map->in);
  size_t row = sizeof *map->levels;
  level *l = (level *)anfi_raw(cx, NULL, 0, anfi_size_mul(cx, want, row));
  anf_value **in = l ? (anf_value **)anfi_raw(cx, NULL, 0, anfi_size_mul(cx, want, args)) : NULL;
  if (!in) {
    anfi_raw(cx, l, want * row, 0);
    anfi_throw_nomem(cx);
  }
  if (map->n) {
    memcpy(l, map->levels, map->n * row);
    memcpy(in, map->in, map->n * args);
  }
  anfi_raw(cx, map->levels, map->cap * row, 0);
  anfi_raw(cx, map->in, map->cap * args, 0);
  map->levels = l;
  map->in = in;
  map->cap = want;
}

/* The index in v of item i of `first`; v has as many. In a record, the field of its name; v->n if there is
 * none. */
static size_t place_of(const anf_value *first, const anf_value *v, size_t i) {
  if (v->kind == ANF_VALUE_TUPLE || v->type->names[i] == first->type->names[i]) return i;
  size_t k = 0;
  while (k < v->n && v->type->names[k] != first->type->names[i]) k++;
  return k;
}

static bool is_alike(const anf_value *first, const anf_value *v) {
  if (first->kind != v->kind || first->n != v->n) return false;
  for (size_t i = 0; i < v->n; i++)
    if (place_of(first, v, i) == v->n) return false;
  return true;
}

/* An error about what one value is, or argument `at` beside the first. */
static bool fail_kinds(const anfi_machine *m, anfi_code code, size_t at, const anf_value *a,
                       const anf_value *b) {
  anf_text *is = anfi_text_begin(m->cx), *other = anfi_text_begin(m->cx);
  anfi_put_kind(is, a);
  if (b) anfi_put_kind(other, b);
  if (b) anfi_fail(m->cx, anfi_machine_loc(m), code, at, is->text, other->text);
  else anfi_fail(m->cx, anfi_machine_loc(m), code, is->text, "");
  anfi_text_done(is);
  anfi_text_done(other);
  return false;
}

/* Opens a level over the values that map->in has for it. */
static bool open_level(anfi_machine *m, anfi_mapping *map) {
  anf_value *const *in = map->in + map->n * map->nargs;
  for (size_t i = 0; i < map->nargs; i++) {
    bool everywhere = map->op == ANF_OP_HyperMap && !anfi_value_is_nest(in[i]);
    if (!everywhere && !anfi_value_is_nest(in[0])) return fail_kinds(m, ANF_E0539, 0, in[0], NULL);
    if (!everywhere && !is_alike(in[0], in[i]))
      return fail_kinds(m, ANF_E0527, i + 2, in[i], in[0]);
  }
  anf_value *out = in[0]->kind == ANF_VALUE_TUPLE ? anfi_value_new_tuple(m->cx, in[0]->n)
                                                  : anfi_value_new_record(m->cx, in[0]->type);
  map->levels[map->n++] = (level){out, 0};
  return true;
}

/* Map goes through a tensor by its rows: the argument becomes a tuple of them. */
static bool take_rows(anfi_machine *m, size_t p) {
  for (size_t i = p + 2; i < m->sp; i++) {
    anf_value *x = m->slot[i], *rows, *attr = anfi_attr_value(m->cx, ANF_OP_Unstack, NULL, 0);
    if (x->kind != ANF_VALUE_TENSOR || !x->type->n) continue;
    if (!anfi_machine_eval(m, ANF_OP_Unstack, 1, &x, &attr, false, &rows)) return false;
    m->slot[i] = rows;
    anfi_drop(x);
  }
  return true;
}

bool anfi_map_start(anfi_machine *m, size_t p, uint16_t op) {
  if (op == ANF_OP_Map && !take_rows(m, p)) return false;
  anfi_call_frame *f = anfi_machine_enter_map(m, p + 1);
  if (!f) return false;
  anfi_mapping *map = (anfi_mapping *)anfi_raw(m->cx, NULL, 0, sizeof *map);
  if (!map) anfi_throw_nomem(m->cx);
  *map = (anfi_mapping){.op = op, .nargs = m->sp - p - 2};
  f->map = map;
  grow(m->cx, map);
  memcpy(map->in, m->slot + p + 2, map->nargs * sizeof *map->in);
  return open_level(m, map);
}

static anf_value *item(const anfi_mapping *map, size_t i) {
  const level *l = &map->levels[map->n - 1];
  anf_value *const *in = map->in + (map->n - 1) * map->nargs, *v = in[i];
  return anfi_value_is_nest(v) ? v->u.item[place_of(in[0], v, l->next)] : v;
}

/* The record's type follows from its new fields. */
static void settle(anfi_machine *m, anf_value *v) {
  if (v->kind != ANF_VALUE_RECORD) return;
  const anf_type **items = ANFI_NEW_N(&m->scratch, const anf_type *, v->n);
  for (size_t i = 0; i < v->n; i++)
    if (!(items[i] = anf_value_type(m->cx, v->u.item[i]))) anfi_throw_nomem(m->cx);
  anfi_value_set_type(v, anfi_type_record(m->cx, v->n, v->type->names, items));
  anfi_arena_free(&m->scratch);
}

static bool close_level(anfi_machine *m, anfi_mapping *map) {
  settle(m, map->levels[map->n - 1].out);
  anf_value *v = map->levels[--map->n].out;
  if (map->n) {
    anfi_map_take(map, v);
    return true;
  }
  m->acc = v;
  return anfi_machine_leave(m);
}

bool anfi_map_step(anfi_machine *m, anfi_mapping *map, size_t base) {
  const level *l = &map->levels[map->n - 1];
  if (l->next == l->out->n) return close_level(m, map);
  if (map->op == ANF_OP_HyperMap && anfi_value_is_nest(item(map, 0))) {
    if (map->n == map->cap) grow(m->cx, map);
    for (size_t i = 0; i < map->nargs; i++) map->in[map->n * map->nargs + i] = item(map, i);
    return open_level(m, map);
  }
  size_t p = m->sp;
  anfi_machine_reserve(m, map->nargs + 1);
  anfi_machine_push(m, anfi_keep(m->slot[base]));
  for (size_t i = 0; i < map->nargs; i++) anfi_machine_push(m, anfi_keep(item(map, i)));
  return anfi_machine_call(m, p, false);
}

void anfi_map_take(anfi_mapping *map, anf_value *v) {
  level *l = &map->levels[map->n - 1];
  l->out->u.item[l->next++] = v;
}

/* ---- multitype functions ---- */

/* Do the parameters' declared types take the arguments? `*as_they_are`: without converting numbers. */
static bool accepts(anfi_machine *m, const anf_value *f, size_t n, anf_value *const *args,
                    bool *as_they_are) {
  *as_they_are = true;
  const anfi_fn *fn = anfi_value_fn(f);
  if (!fn->graph) return anfi_op_takes(m->cx, (anfi_opcode)fn->op, fn->nbound + n);
  if (fn->graph->params.n != fn->nbound + n) return false;
  m->fit.dims.n = 0;
  m->fit.converted = false;
  for (size_t i = 0; i < n; i++) {
    const anf_type *t = fn->graph->params.at[fn->nbound + i]->type;
    if (t && !anfi_fits(&m->fit, args[i], t)) return false;
  }
  *as_they_are = !m->fit.converted;
  return true;
}

/* The first function that takes the arguments as they are, else the first that converts numbers, else fs->n. */
static size_t choose(anfi_machine *m, const anf_value *fs, size_t n, anf_value *const *args) {
  size_t first = fs->n;
  bool as_they_are;
  for (size_t i = 0; i < fs->n; i++) {
    if (!accepts(m, fs->u.item[i], n, args, &as_they_are)) continue;
    if (as_they_are) return i;
    if (first == fs->n) first = i;
  }
  return first;
}

static void note_candidate(anfi_machine *m, const anf_value *f) {
  const anfi_fn *fn = anfi_value_fn(f);
  if (!fn->graph) {
    anfi_note(m->cx, anfi_nowhere(), "it is not %s", anfi_op[fn->op].name);
    return;
  }
  const anf_graph *g = fn->graph;
  m->text.len = 0;
  anfi_puts(&m->text, g->name->s);
  anfi_putc(&m->text, '(');
  for (size_t i = fn->nbound; i < g->params.n; i++) {
    if (i > fn->nbound) anfi_puts(&m->text, ", ");
    if (g->params.at[i]->type) anfi_put_type(&m->text, m->cx, g->params.at[i]->type);
    else anfi_puts(&m->text, "any");
  }
  const anfi_debug *d = &g->module->debugs.at[g->debug];
  anfi_note(m->cx, d->file ? (anfi_loc){d->file->s, d->line, d->col} : anfi_nowhere(),
            "it is not %s)", m->text.text);
}

static bool fail_choice(anfi_machine *m, const anf_value *fs, size_t n, anf_value *const *args) {
  enum { SHOWN = 10 };
  m->text.len = 0;
  anfi_putc(&m->text, '(');
  for (size_t i = 0; i < n; i++) {
    if (i) anfi_puts(&m->text, ", ");
    anfi_put_kind(&m->text, args[i]);
  }
  anfi_putc(&m->text, ')');
  anfi_fail(m->cx, anfi_machine_loc(m), ANF_E0528, m->text.text);
  for (size_t i = 0; i < fs->n && i < SHOWN; i++) note_candidate(m, fs->u.item[i]);
  return false;
}

bool anfi_pick_function(anfi_machine *m, size_t p) {
  anf_value *fs = m->slot[p + 1];
  size_t n = m->sp - p - 2, k;
  bool good = fs->kind == ANF_VALUE_TUPLE;
  for (size_t i = 0; good && i < fs->n; i++) good = fs->u.item[i]->kind == ANF_VALUE_FN;
  if (!good)
    return anfi_fail(m->cx, anfi_machine_loc(m), ANF_E0501, "MultiType",
                     "it needs a tuple of functions");
  k = choose(m, fs, n, m->slot + p + 2);
  if (k == fs->n) return fail_choice(m, fs, n, m->slot + p + 2);
  anfi_drop(m->slot[p]);
  m->slot[p] = anfi_keep(fs->u.item[k]);
  anfi_drop(fs);
  memmove(m->slot + p + 1, m->slot + p + 2, n * sizeof *m->slot);
  m->sp--;
  return true;
}
