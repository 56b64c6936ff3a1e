// SPDX-License-Identifier: Apache-2.0
/* Abstract values, the lattice of inference:
 *   BOTTOM  <  constant 3  <  i64 scalar  <  any number;   f32[2,3]  <  f32[?,3]
 * Hash-consed: equal values are one pointer, so comparing and hashing are O(1) at any depth. Joins go up this
 * order; widening (infer.c) keeps chains finite. */
#include "optimizer/infer/infer.h"

static uint64_t hash_of(const anfi_abs *a, const anfi_abs *const *items) {
  uint64_t h = anfi_hash_mix(a->kind * 65536u + a->op, a->n * 4u + a->weak);
  h = anfi_hash_mix(h, a->type ? a->type->hash : 0);
  h = anfi_hash_mix(h, a->value ? anfi_value_hash(a->value) : 0);
  h = anfi_hash_mix(h, a->graph ? a->graph->id + 1 : 0);
  h = anfi_hash_mix(h, anfi_key(a->param));
  h = anfi_hash_mix(h, anfi_key(a->attrs));
  for (uint32_t i = 0; i < a->n; i++) h = anfi_hash_mix(h, items[i]->id);
  return h;
}

static bool same(const anfi_abs *a, const anfi_abs *b, const anfi_abs *const *items) {
  if (a->hash != b->hash || a->kind != b->kind || a->op != b->op || a->n != b->n ||
      a->weak != b->weak || a->type != b->type || a->graph != b->graph || a->param != b->param ||
      a->attrs != b->attrs || !a->value != !b->value)
    return false;
  if (a->value && !anfi_value_same(a->value, b->value)) return false;
  return !a->n || memcmp(a->item, items, a->n * sizeof *items) == 0;
}

static void grow(anfi_abs_table *t) {
  const anfi_abs **old = t->slots;
  size_t n = t->nslot, want = n ? n * 2 : ANFI_HASH_MIN;
  t->slots = ANFI_NEW_N(t->arena, const anfi_abs *, want);
  t->nslot = want;
  for (size_t i = 0; i < n; i++) {
    if (!old[i]) continue;
    size_t k = (size_t)old[i]->hash & (want - 1);
    while (t->slots[k]) k = (k + 1) & (want - 1);
    t->slots[k] = old[i];
  }
}

static uint32_t height_of(const anfi_abs *a) {
  uint32_t h = 0;
  for (uint32_t i = 0; i < a->n; i++)
    if (a->item[i]->height > h) h = a->item[i]->height;
  return h + 1;
}

static uint32_t depth_of(const anfi_abs *a) {
  uint32_t d = 0;
  for (uint32_t i = 0; i < a->n; i++)
    if (a->item[i]->depth > d) d = a->item[i]->depth;
  return d + (a->kind == ANFI_ABS_CODE);
}

static uint32_t size_of(const anfi_abs *a) {
  uint64_t n = 1;
  for (uint32_t i = 0; i < a->n; i++) n += a->item[i]->size;
  return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

static bool is_partial(const anfi_abs *a) {
  for (uint32_t i = 0; i < a->n; i++)
    if (a->item[i]->partial) return true;
  return a->kind == ANFI_ABS_BOTTOM;
}

/* `head` has all but the hash and the items; on a miss it is copied with them. */
static const anfi_abs *intern(anfi_abs_table *t, anfi_abs *head, const anfi_abs *const *items) {
  head->hash = hash_of(head, items);
  if ((t->n + 1) * 4 > t->nslot * 3) grow(t);
  size_t i = (size_t)head->hash & (t->nslot - 1), bytes = head->n * sizeof *items;
  for (; t->slots[i]; i = (i + 1) & (t->nslot - 1))
    if (same(t->slots[i], head, items)) return t->slots[i];
  anfi_abs *a = (anfi_abs *)anfi_alloc(t->arena, sizeof *head + bytes);
  *a = *head;
  if (bytes) memcpy(a->item, items, bytes);
  a->depth = depth_of(a);
  a->height = height_of(a);
  a->size = size_of(a);
  a->partial = is_partial(a);
  a->id = (uint32_t)t->n++;
  if (a->value) anfi_defer(t->cx, ANFI_ALWAYS, anfi_release, anf_value_retain(a->value));
  return t->slots[i] = a;
}

void anfi_abs_init(anfi_abs_table *t, anfi_arena *a) {
  *t = (anfi_abs_table){.cx = a->cx, .arena = a};
  t->bottom = intern(t, &(anfi_abs){.kind = ANFI_ABS_BOTTOM, .op = ANF_OP_NONE}, NULL);
}

const anfi_abs *anfi_abs_mixed(anfi_abs_table *t, const anf_type *type, uint8_t weak) {
  anfi_abs head = {.kind = ANFI_ABS_DATA, .op = ANF_OP_NONE, .type = type, .weak = weak};
  return intern(t, &head, NULL);
}

const anfi_abs *anfi_abs_data(anfi_abs_table *t, const anf_type *type) {
  return anfi_abs_mixed(t, type, 0);
}

const anfi_abs *anfi_abs_items(anfi_abs_table *t, anfi_abs_kind k, const anf_type *record, size_t n,
                               const anfi_abs *const *items) {
  return intern(
      t, &(anfi_abs){.kind = (uint8_t)k, .op = ANF_OP_NONE, .n = (uint32_t)n, .type = record},
      items);
}

const anfi_abs *anfi_abs_stack(anfi_abs_table *t, const anfi_abs *element) {
  return anfi_abs_items(t, ANFI_ABS_DATA, anfi_type_simple(t->cx, ANF_TYPE_STACK), 1, &element);
}

const anfi_abs *anfi_abs_code(anfi_abs_table *t, anf_graph *g, uint16_t op, const anfi_attrs *attrs,
                              size_t n, const anfi_abs *const *bound) {
  anfi_abs head = {.kind = ANFI_ABS_CODE, .op = op, .n = (uint32_t)n, .graph = g, .attrs = attrs};
  return intern(t, &head, bound);
}

const anfi_abs *anfi_abs_boxed(anfi_abs_table *t, const anf_node *param) {
  return intern(t, &(anfi_abs){.kind = ANFI_ABS_BOXED, .op = ANF_OP_NONE, .param = param}, NULL);
}

const anfi_abs *anfi_abs_fn1(anfi_abs_table *t, const anfi_abs *code) {
  return anfi_abs_items(t, ANFI_ABS_FN, NULL, 1, &code);
}

/* Values nest as deep as literals in a program's text, which the parser bounds. */
const anfi_abs *anfi_abs_const(anfi_abs_table *t, anf_value *v) {
  if (v->kind == ANF_VALUE_FN) {
    const anfi_fn *f = anfi_value_fn(v);
    uint32_t n = f->ncapture + f->nbound;
    const anfi_abs **bound = ANFI_NEW_N(t->arena, const anfi_abs *, n + 1);
    for (uint32_t i = 0; i < n; i++) bound[i] = anfi_abs_const(t, f->at[i]);
    return anfi_abs_fn1(t, anfi_abs_code(t, f->graph, f->op, f->attrs, n, bound));
  }
  if (v->kind != ANF_VALUE_TUPLE && v->kind != ANF_VALUE_RECORD)
    return intern(t,
                  &(anfi_abs){.kind = ANFI_ABS_DATA,
                              .op = ANF_OP_NONE,
                              .type = anfi_value_type(t->cx, v),
                              .value = v},
                  NULL);
  const anfi_abs **items = ANFI_NEW_N(t->arena, const anfi_abs *, v->n);
  for (size_t i = 0; i < v->n; i++) items[i] = anfi_abs_const(t, v->u.item[i]);
  bool tuple = v->kind == ANF_VALUE_TUPLE;
  return anfi_abs_items(t, tuple ? ANFI_ABS_TUPLE : ANFI_ABS_RECORD, tuple ? NULL : v->type, v->n,
                        items);
}

const anfi_abs *anfi_abs_of_type(anfi_abs_table *t, const anf_type *type) {
  if (type->kind == ANF_TYPE_FN || type->kind == ANF_TYPE_ANY) return NULL;
  if (type->kind != ANF_TYPE_TUPLE && type->kind != ANF_TYPE_RECORD) return anfi_abs_data(t, type);
  const anfi_abs **items = ANFI_NEW_N(t->arena, const anfi_abs *, type->n);
  for (uint32_t i = 0; i < type->n; i++)
    if (!(items[i] = anfi_abs_of_type(t, type->items[i]))) return NULL;
  bool tuple = type->kind == ANF_TYPE_TUPLE;
  return anfi_abs_items(t, tuple ? ANFI_ABS_TUPLE : ANFI_ABS_RECORD, tuple ? NULL : type, type->n,
                        items);
}

static const anfi_abs *with_items(anfi_abs_table *t, const anfi_abs *a,
                                  const anfi_abs *const *items) {
  if (a->kind == ANFI_ABS_CODE) return anfi_abs_code(t, a->graph, a->op, a->attrs, a->n, items);
  return anfi_abs_items(t, (anfi_abs_kind)a->kind, a->type, a->n, items);
}

const anfi_abs *anfi_abs_broaden(anfi_abs_table *t, const anfi_abs *a) {
  if (a->kind == ANFI_ABS_DATA) {
    bool unit =
        a->type->kind != ANF_TYPE_TENSOR; // strings, types and None are known by their value alone
    return a->value && !unit ? anfi_abs_data(t, a->type) : a;
  }
  if (!a->n) return a;
  const anfi_abs **items = ANFI_NEW_N(t->arena, const anfi_abs *, a->n);
  bool changed = false;
  for (uint32_t i = 0; i < a->n; i++) {
    items[i] = anfi_abs_broaden(t, a->item[i]);
    changed |= items[i] != a->item[i];
  }
  return changed ? with_items(t, a, items) : a;
}

/* A number without a type takes the type of the other, which keeps its own: true is not 1.0, nor f32(1.5) c64(1.5). */
static bool takes_type(anf_dtype a, anf_dtype b, anf_dtype joined) {
  if ((a == ANF_BOOL) != (b == ANF_BOOL)) return false;
  bool weak_a = anfi_dtype_is_weak(a), weak_b = anfi_dtype_is_weak(b);
  return (weak_a || joined == a) && (weak_b || joined == b);
}

static const anf_type *join_tensors(anf_ctx *cx, const anf_type *a, const anf_type *b, bool dims) {
  anf_dtype d;
  if (a->n != b->n || !anfi_dtype_promote((anf_dtype)a->dtype, (anf_dtype)b->dtype, &d) ||
      !takes_type((anf_dtype)a->dtype, (anf_dtype)b->dtype, d))
    return NULL;
  int64_t joined[ANF_MAX_RANK];
  for (uint32_t i = 0; i < a->n; i++) {
    if (a->dims[i] != b->dims[i] && !dims) return NULL;
    joined[i] = a->dims[i] == b->dims[i] ? a->dims[i] : ANF_DIM_UNKNOWN;
  }
  return anfi_type_tensor(cx, d, a->n, joined);
}

/* The weak bits of `a` once its type is `type`. */
static uint8_t weak_as(const anfi_abs *a, const anf_type *type) {
  bool other = a->type->dtype != type->dtype && anfi_dtype_is_weak((anf_dtype)a->type->dtype);
  if (!other) return a->weak;
  return a->weak | anfi_weak_bit((anf_dtype)a->type->dtype);
}

/* The elements of a stack cannot be converted once they are in it. */
static const anfi_abs *join_stacks(anfi_abs_table *t, const anfi_abs *a, const anfi_abs *b,
                                   bool dims) {
  const anfi_abs *element = anfi_abs_join(t, a->item[0], b->item[0], dims);
  const anf_type *type = element ? anfi_abs_type(t, element) : NULL;
  for (int i = 0; i < 2; i++) {
    const anfi_abs *of = (i ? b : a)->item[0];
    if (of->kind != ANFI_ABS_BOTTOM && anfi_abs_type(t, of) != type) return NULL;
  }
  return anfi_abs_stack(t, element);
}

static const anfi_abs *join_data(anfi_abs_table *t, const anfi_abs *a, const anfi_abs *b,
                                 bool dims) {
  if (a->type == b->type) {
    bool unit = anfi_is_name(a->type);
    if (a->n && b->n) return join_stacks(t, a, b, dims);
    return unit && !dims ? NULL : anfi_abs_mixed(t, a->type, a->weak | b->weak);
  }
  if (a->type->kind != ANF_TYPE_TENSOR || b->type->kind != ANF_TYPE_TENSOR) return NULL;
  const anf_type *type = join_tensors(t->cx, a->type, b->type, dims);
  return type ? anfi_abs_mixed(t, type, weak_as(a, type) | weak_as(b, type)) : NULL;
}

static bool same_code(const anfi_abs *a, const anfi_abs *b) {
  return a->graph == b->graph && a->op == b->op && a->attrs == b->attrs && a->n == b->n;
}

/* The union of two flow sets; the environments of a code in both are joined. */
static const anfi_abs *join_fns(anfi_abs_table *t, const anfi_abs *a, const anfi_abs *b,
                                bool dims) {
  const anfi_abs **items = ANFI_NEW_N(t->arena, const anfi_abs *, a->n + b->n);
  uint32_t n = a->n;
  memcpy(items, a->item, a->n * sizeof *items);
  for (uint32_t i = 0; i < b->n; i++) {
    uint32_t k = 0;
    while (k < n && !same_code(items[k], b->item[i])) k++;
    const anfi_abs *both = k < n ? anfi_abs_join(t, items[k], b->item[i], dims) : b->item[i];
    if (!both) return NULL; // the same code binds data of other types
    if (k == n) n++;
    items[k] = both;
  }
  for (uint32_t i = 1; i < n; i++) // by id, so that equal sets are one
    for (uint32_t k = i; k > 0 && items[k - 1]->id > items[k]->id; k--) {
      const anfi_abs *x = items[k];
      items[k] = items[k - 1];
      items[k - 1] = x;
    }
  return anfi_abs_items(t, ANFI_ABS_FN, NULL, n, items);
}

const anfi_abs *anfi_abs_join(anfi_abs_table *t, const anfi_abs *a, const anfi_abs *b, bool dims) {
  if (a == b || b->kind == ANFI_ABS_BOTTOM) return a;
  if (a->kind == ANFI_ABS_BOTTOM) return b;
  if (a->kind == ANFI_ABS_BOXED) return anfi_abs_box(t, a->param, b);
  if (b->kind == ANFI_ABS_BOXED) return anfi_abs_box(t, b->param, a);
  if (a->kind != b->kind) return NULL;
  if (a->kind == ANFI_ABS_DATA) return join_data(t, a, b, dims);
  if (a->kind == ANFI_ABS_FN) return join_fns(t, a, b, dims);
  if (a->n != b->n || (a->kind == ANFI_ABS_CODE && !same_code(a, b))) return NULL;
  if (a->kind == ANFI_ABS_RECORD &&
      memcmp(a->type->names, b->type->names, a->n * sizeof *a->type->names) != 0)
    return NULL;
  const anfi_abs **items = ANFI_NEW_N(t->arena, const anfi_abs *, a->n);
  for (uint32_t i = 0; i < a->n; i++)
    if (!(items[i] = anfi_abs_join(t, a->item[i], b->item[i], dims))) return NULL;
  return with_items(t, a, items);
}

/* `int` is an i64 in arithmetic with `int`, and rounds as a float would; i8 wraps, and a float is no integer. */
static bool is_other_arithmetic(anf_dtype a, anf_dtype b) {
  if (anfi_dtype_is_weak(a) == anfi_dtype_is_weak(b)) return false;
  anf_dtype weak = anfi_dtype_is_weak(a) ? a : b, typed = weak == a ? b : a;
  if (anfi_dtype_class(typed) >= ANFI_CLASS_FLOAT) return false;
  return weak != ANF_INT || typed != ANF_I64;
}

static bool branches_fit(const anfi_abs *a, const anfi_abs *b) {
  if (a == b || a->kind != b->kind) return true;
  if (a->kind == ANFI_ABS_DATA)
    return a->type->kind != ANF_TYPE_TENSOR || b->type->kind != ANF_TYPE_TENSOR ||
           !is_other_arithmetic((anf_dtype)a->type->dtype, (anf_dtype)b->type->dtype);
  bool nest = a->kind == ANFI_ABS_TUPLE || a->kind == ANFI_ABS_RECORD;
  for (uint32_t i = 0; nest && a->n == b->n && i < a->n; i++)
    if (!branches_fit(a->item[i], b->item[i])) return false;
  return true;
}

const anfi_abs *anfi_abs_join_branches(anfi_abs_table *t, const anfi_abs *a, const anfi_abs *b) {
  return branches_fit(a, b) ? anfi_abs_join(t, a, b, true) : NULL;
}

void anfi_hint_type(anf_ctx *cx, const anfi_abs *a, const anfi_abs *b) {
  if (a->kind != ANFI_ABS_DATA || b->kind != ANFI_ABS_DATA || branches_fit(a, b)) return;
  const anfi_abs *typed = anfi_dtype_is_weak((anf_dtype)a->type->dtype) ? b : a;
  const char *name = anf_dtype_name((anf_dtype)typed->type->dtype);
  anfi_hint(cx, "write %s(...) for the number, which has no type", name);
}

uint32_t anfi_abs_member(const anfi_abs *set, const anfi_abs *code) {
  uint32_t i = 0;
  while (i < set->n && !same_code(set->item[i], code)) i++;
  return i;
}

/* Does what a member binds go where others of its type do? Choosing between arrays copies them, so those of not so many
 * members are apart, as is what very few bind. */
static bool shares(const anfi_abs *a, bool many) {
  if (a->kind == ANFI_ABS_DATA) {
    if (a->type->kind == ANF_TYPE_BOX || a->type->kind == ANF_TYPE_STACK)
      return false; // of any content
    return many || a->type->kind != ANF_TYPE_TENSOR || !a->type->n;
  }
  if (a->kind != ANFI_ABS_TUPLE && a->kind != ANFI_ABS_RECORD) return false;
  for (uint32_t i = 0; i < a->n; i++)
    if (!shares(a->item[i], many)) return false;
  return true;
}

/* By member: the first slot is the tag's. */
static const uint32_t *slots_of(anfi_abs_table *t, const anfi_abs *set) {
  enum { FEW = 3, MANY = 32 };
  uint32_t *slot = ANFI_NEW_N(t->arena, uint32_t, set->n), next = 1;
  anfi_map of_type;
  anfi_map_init(&of_type, t->arena);
  for (uint32_t i = 0; i < set->n; i++) {
    const anfi_abs *code = set->item[i];
    bool shared = code->n && set->n > FEW;
    for (uint32_t k = 0; k < code->n; k++) shared &= shares(code->item[k], set->n > MANY);
    uint64_t *had = shared ? anfi_map_at(&of_type, anfi_key(anfi_abs_type(t, code))) : NULL;
    if (code->n) slot[i] = had && *had ? (uint32_t)*had : next++;
    if (had) *had = slot[i];
  }
  return slot;
}

uint32_t anfi_abs_slot(anfi_abs_table *t, const anfi_abs *set, uint32_t member) {
  if (!set->slot) ((anfi_abs *)(uintptr_t)set)->slot = slots_of(t, set);
  return set->slot[member];
}

static const anf_type *type_of_items(anfi_abs_table *t, const anfi_abs *a) {
  const anf_type **items = ANFI_NEW_N(t->arena, const anf_type *, a->n + 1);
  for (uint32_t i = 0; i < a->n; i++) items[i + 1] = anfi_abs_type(t, a->item[i]);
  if (a->kind == ANFI_ABS_RECORD) return anfi_type_record(t->cx, a->n, a->type->names, items + 1);
  if (a->kind != ANFI_ABS_FN) return anfi_type_tuple(t->cx, a->n, items + 1);
  if (a->n == 1) return items[1];
  uint32_t n = 0;
  items[n++] = anfi_type_scalar(t->cx, ANF_I32);
  for (uint32_t i = 0; i < a->n; i++)
    if (anfi_abs_slot(t, a, i) == n) items[n++] = items[i + 1];
  return anfi_type_tuple(t->cx, n, items);
}

const anf_type *anfi_abs_type(anfi_abs_table *t, const anfi_abs *a) {
  if (a->kind == ANFI_ABS_BOTTOM) return anfi_type_simple(t->cx, ANF_TYPE_NONE);
  if (a->kind == ANFI_ABS_BOXED) return anfi_type_simple(t->cx, ANF_TYPE_BOX);
  return a->kind == ANFI_ABS_DATA ? a->type : type_of_items(t, a);
}

const anf_type *anfi_abs_shown_type(anfi_abs_table *t, const anfi_abs *a) {
  if (a->kind >= ANFI_ABS_CODE)
    return anfi_type_fn(t->cx, 0, NULL, anfi_type_simple(t->cx, ANF_TYPE_ANY));
  if (a->kind != ANFI_ABS_TUPLE && a->kind != ANFI_ABS_RECORD) return anfi_abs_type(t, a);
  const anf_type **items = ANFI_NEW_N(t->arena, const anf_type *, a->n + 1);
  for (uint32_t i = 0; i < a->n; i++) items[i] = anfi_abs_shown_type(t, a->item[i]);
  return a->kind == ANFI_ABS_RECORD ? anfi_type_record(t->cx, a->n, a->type->names, items)
                                    : anfi_type_tuple(t->cx, a->n, items);
}

anf_value *anfi_abs_value(anf_ctx *cx, const anfi_abs *a) {
  if (a->kind == ANFI_ABS_DATA) return anf_value_retain(a->value);
  if (a->kind != ANFI_ABS_TUPLE && a->kind != ANFI_ABS_RECORD) return NULL;
  anf_value *v = a->kind == ANFI_ABS_TUPLE ? anfi_value_new_tuple(cx, a->n)
                                           : anfi_value_new_record(cx, a->type);
  anfi_value_guard(v);
  for (uint32_t i = 0; i < a->n; i++)
    if (!(v->u.item[i] = anfi_abs_value(cx, a->item[i])))
      return anfi_value_unguard(v), anf_value_release(v), NULL;
  anfi_value_unguard(v);
  return v;
}

bool anfi_abs_has_fn(const anfi_abs *a) {
  if (a->kind >= ANFI_ABS_CODE) return true;
  for (uint32_t i = 0; i < a->n; i++)
    if (anfi_abs_has_fn(a->item[i])) return true;
  return false;
}

bool anfi_abs_same_functions(const anfi_abs *a, const anfi_abs *b) {
  if (a == b || a->kind == ANFI_ABS_BOTTOM || b->kind == ANFI_ABS_BOTTOM) return true;
  if (a->kind != b->kind || a->n != b->n) return !anfi_abs_has_fn(a) && !anfi_abs_has_fn(b);
  for (uint32_t i = 0; i < a->n; i++) { // as deep as the abs: bounded
    uint32_t k = a->kind == ANFI_ABS_FN ? anfi_abs_member(b, a->item[i]) : i;
    if (k == b->n || !anfi_abs_same_functions(a->item[i], b->item[k])) return false;
  }
  return true;
}

/* For messages: of a long tuple the first items, and of all types about as much as fits a few lines. */
void anfi_put_abs(anf_text *o, anf_ctx *cx, const anfi_abs *a) {
  enum { FEW = 12, FIRST = 4, MOST_TEXT = 600 };
  static const char *const open[] = {"?", "", "(", "{", "", "fn{", "box"}, *const close[] = {
                                                                               "", "",  ")", "}",
                                                                               "", "}", ""};
  if (a->kind == ANFI_ABS_DATA) {
    anfi_put_type(o, cx, a->type);
    return;
  }
  if (a->kind == ANFI_ABS_CODE) {
    anfi_puts(o, a->graph ? a->graph->name->s : anfi_op[a->op].name);
    return;
  }
  anfi_puts(o, open[a->kind]);
  for (uint32_t i = 0; i < a->n; i++) {
    if (i) anfi_puts(o, ", ");
    if ((a->n > FEW && i == FIRST) || o->len > MOST_TEXT) {
      anfi_putf(o, "and %u more", (unsigned)(a->n - i));
      break;
    }
    if (a->kind == ANFI_ABS_RECORD) anfi_putf(o, "%s: ", a->type->names[i]->s);
    anfi_put_abs(o, cx, a->item[i]);
  }
  anfi_puts(o, close[a->kind]);
}
