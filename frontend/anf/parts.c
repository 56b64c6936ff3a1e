// SPDX-License-Identifier: Apache-2.0
/* Ops of the host whose arguments or result are records or tuples within tuples: an op of the leaves, NAME_leaves, and a
 * MetaFuncGraph of the op's name that takes arguments apart and puts results together.
 *
 *   fn({x: f64, y: (f64, i64)}) -> {s: f64}    def parts(a0) { r = NAME_leaves(a0.x, a0.y[0], a0.y[1]); {s = r} }
 */
#include "frontend/anf/parts.h"

#include "anfora/text.h"

typedef struct host_parts {
  const char *text;
  const anf_type *type; // of the function
} host_parts;

typedef struct taking {
  anf_ctx *cx;
  anfi_arena *a;
  ANFI_VEC(const anf_type *) leaf; // of the arguments, then of the result
  size_t narg;
} taking;

bool anfi_anf_has_parts(const anf_type *t) {
  if (t->kind != ANF_TYPE_FN) return false;
  for (uint32_t i = 0; i < t->n; i++)
    if (anfi_is_nest(t->items[i])) return true;
  for (uint32_t i = 0; t->result->kind == ANF_TYPE_TUPLE && i < t->result->n; i++)
    if (anfi_is_nest(t->result->items[i])) return true;
  return t->result->kind == ANF_TYPE_RECORD;
}

static const char *path_of(const taking *q, const anf_type *t, uint32_t i, const char *path) {
  return t->kind == ANF_TYPE_RECORD ? anfi_sprintf(q->a, "%s.%s", path, t->names[i]->s)
                                    : anfi_sprintf(q->a, "%s[%u]", path, i);
}

/* The leaves of a parameter as words. Types nest no deeper than their text may. */
static void take(taking *q, const anf_type *t, const char *path, anf_text *out) {
  if (!anfi_is_nest(t)) {
    anfi_putf(out, "%s%s", q->leaf.n ? ", " : "", path);
    anfi_push(q->a, &q->leaf, t);
  }
  for (uint32_t i = 0; anfi_is_nest(t) && i < t->n; i++)
    take(q, t->items[i], path_of(q, t, i, path), out);
}

/* The result of the parts r[0], r[1] and so on; of a single one it is r. */
static void give(taking *q, const anf_type *t, bool alone, anf_text *out) {
  bool record = t->kind == ANF_TYPE_RECORD;
  if (!anfi_is_nest(t)) {
    if (alone) anfi_puts(out, "r");
    else anfi_putf(out, "r[%zu]", q->leaf.n - q->narg);
    anfi_push(q->a, &q->leaf, t);
    return;
  }
  anfi_puts(out, record ? "{" : "(");
  for (uint32_t i = 0; i < t->n; i++) {
    if (i) anfi_puts(out, ", ");
    if (record) anfi_putf(out, "%s = ", t->names[i]->s);
    give(q, t->items[i], alone, out);
  }
  anfi_puts(out, record ? "}" : t->n == 1 ? ",)" : ")");
}

static size_t leaves_of(const anf_type *t) {
  size_t n = !anfi_is_nest(t);
  for (uint32_t i = 0; anfi_is_nest(t) && i < t->n; i++) n += leaves_of(t->items[i]);
  return n;
}

/* The type of the op of the leaves; *text: the function around it. */
static const anf_type *flat(taking *q, const char *name, const anf_type *t, anf_text *text) {
  anfi_puts(text, "def parts(");
  for (uint32_t i = 0; i < t->n; i++) anfi_putf(text, "%sa%u", i ? ", " : "", i);
  anfi_putf(text, ") { r = %s(", name);
  for (uint32_t i = 0; i < t->n; i++) take(q, t->items[i], anfi_sprintf(q->a, "a%u", i), text);
  size_t n = q->narg = q->leaf.n, out = leaves_of(t->result);
  anfi_puts(text, "); ");
  give(q, t->result, out == 1, text);
  anfi_puts(text, " }");
  const anf_type *const *of = q->leaf.at + n;
  return anfi_type_fn(q->cx, n, q->leaf.at, out == 1 ? of[0] : anfi_type_tuple(q->cx, out, of));
}

/* Are the arguments nested as the parameters are? What leaves they have, the op of them looks at. */
static bool nests_like(const anf_type *t, const anf_type *want) {
  if (!anfi_is_nest(want)) return !anfi_is_nest(t);
  if (t->kind != want->kind || t->n != want->n) return false;
  for (uint32_t i = 0; i < t->n; i++) {
    bool named = t->kind != ANF_TYPE_RECORD || strcmp(t->names[i]->s, want->names[i]->s) == 0;
    if (!named || !nests_like(t->items[i], want->items[i])) return false;
  }
  return true;
}

static anf_status generate(void *user, anf_ctx *cx, size_t n, const anf_type *const *types,
                           anf_diag *d, anf_graph **out) {
  const host_parts *p = (const host_parts *)user;
  if (n != p->type->n) return ANF_INVALID;
  for (size_t i = 0; i < n; i++)
    if (!nests_like(types[i], p->type->items[i])) return ANF_INVALID;
  anf_module *m = NULL;
  anf_status st = anf_parse(cx, p->text, "<host>", d, &m);
  if (st == ANF_OK) *out = anf_module_find(m, "parts");
  return st;
}

bool anfi_anf_add_parts(anf_ctx *cx, const anf_host_op *op, const anf_type *type) {
  taking q = {.cx = cx, .a = &cx->arena};
  anf_host_op leaves = *op;
  host_parts *p = ANFI_NEW(q.a, host_parts);
  if (op->flags & ANF_HOST_EFFECT)
    return anfi_fail(cx, anfi_nowhere(), ANF_E0231, op->name ? op->name : "",
                     "an op with effects takes and gives tensors, no records");
  if (!anfi_host_may_add(cx, op->name)) return false;
  anf_text *t = anfi_text_begin(cx);
  leaves.name = anfi_sprintf(q.a, "%s_leaves", op->name);
  const anf_type *of_leaves = flat(&q, leaves.name, type, t);
  *p = (host_parts){anfi_strndup(q.a, t->text, t->len), type};
  anfi_text_done(t);
  anf_meta_op whole = {.size = sizeof whole, .name = op->name, .generate = generate, .user = p};
  return anfi_host_add(cx, &leaves, of_leaves) && anfi_generator_add(cx, &whole);
}
