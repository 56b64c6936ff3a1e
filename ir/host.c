// SPDX-License-Identifier: Apache-2.0
/* Ops that the host registered: their table, which a context owns, the arguments of their C functions, and the
 * types of their results.
 *   "fn(f64[N], f64) -> f64[N]", arguments "0 1 N out"   ->   f(const double *, double, int64_t, double *)
 * An entry is complete when it is added, and is never changed. */
#include "ir/ops/op.h"

#include "anfora/host.h"

/* ---- the table ---- */

const anfi_host *anfi_host_find(anf_ctx *cx, const char *name, size_t len) {
  const anfi_str *s = anfi_interned(&cx->strings, name, len);
  const uint64_t *at = s ? anfi_map_find(&cx->hosts, s->id) : NULL;
  return at ? (const anfi_host *)(uintptr_t)*at : NULL;
}

const anfi_host *anfi_host_of(anf_ctx *cx, const anf_value *name, anfi_loc loc) {
  const anfi_host *h = anfi_host_find(cx, name->u.text, name->n);
  if (h && !h->generator) return h;
  anfi_fail(cx, loc, ANF_E0230, name->u.text);
  return NULL;
}

anfi_opcode anfi_host_op(const anfi_host *h) {
  if (h->generator) return ANF_OP_Generated;
  return h->flags & ANF_HOST_EFFECT ? ANF_OP_HostEffect : ANF_OP_Host;
}

const anfi_attrs *anfi_host_attrs(anf_module *m, const anfi_host *h) {
  const anfi_attrs *at = NULL;
  anf_value *v[1] = {anfi_value_new_string(m->cx, h->name->s, h->name->len)};
  anfi_value_guard(v[0]);
  anfi_attrs_new(m, anfi_host_op(h), v, anfi_nowhere(), &at);
  anfi_value_unguard(v[0]);
  anf_value_release(v[0]);
  return at;
}

/* ---- registering ---- */

bool anfi_host_by_value(const anf_type *t) {
  if (t->n || t->dtype == ANF_F16 || t->dtype == ANF_BF16) return false;
  anfi_class c = anfi_dtype_class((anf_dtype)t->dtype);
  return c != ANFI_CLASS_COMPLEX && c != ANFI_CLASS_KEY;
}

typedef struct adding {
  anf_ctx *cx;
  anfi_arena *a;
  const char *name;
  anfi_host *h;
  ANFI_VEC(anfi_host_slot) slot;
} adding;

static bool refuse(const adding *q, const char *why) {
  return anfi_fail(q->cx, anfi_nowhere(), ANF_E0231, q->name ? q->name : "", why);
}

static bool is_c_name(const char *s) {
  size_t n = s ? strlen(s) : 0;
  for (size_t i = 0; i < n; i++)
    if ((unsigned char)s[i] >= 0x80) return false;
  return s && anfi_is_plain_name(s, n);
}

static bool is_data(const anf_type *t) {
  return anfi_is_tensor(t) && !anfi_dtype_is_weak((anf_dtype)t->dtype);
}

static bool mentions(const anf_type *t, int64_t dim) {
  for (uint32_t k = 0; k < t->n; k++)
    if (t->dims[k] == dim) return true;
  return false;
}

static bool is_bound(const anfi_host *h, int64_t dim) {
  for (uint32_t i = 0; i < h->type->n; i++)
    if (mentions(h->type->items[i], dim)) return true;
  return false;
}

static bool signature(adding *q, const anf_type *type) {
  anfi_host *h = q->h;
  if (type->kind != ANF_TYPE_FN) return refuse(q, "its type is not that of a function");
  h->type = type;
  for (uint32_t i = 0; i < type->n; i++)
    if (!is_data(type->items[i]))
      return refuse(q, "an argument is not a tensor of a known element type");
  bool tuple = type->result->kind == ANF_TYPE_TUPLE;
  h->nout = tuple ? type->result->n : 1;
  const anf_type **out = ANFI_NEW_N(q->a, const anf_type *, h->nout + 1);
  for (size_t i = 0; i < h->nout; i++) {
    out[i] = tuple ? type->result->items[i] : type->result;
    if (!is_data(out[i])) return refuse(q, "the result is not a tensor, or a tuple of tensors");
    for (uint32_t k = 0; k < out[i]->n; k++)
      if (out[i]->dims[k] < 0 && !is_bound(h, out[i]->dims[k]))
        return refuse(q, "a dim of the result is not a dim of an argument");
  }
  h->out = out;
  return true;
}

static bool number(const char *s, size_t len, size_t limit, size_t *out) {
  size_t v = 0;
  for (size_t i = 0; i < len; i++) {
    if (s[i] < '0' || s[i] > '9' || v > limit) return false;
    v = 10 * v + (size_t)(s[i] - '0');
  }
  *out = v;
  return len && v < limit;
}

static bool add_dim(adding *q, const char *s, size_t len) {
  const char *colon = memchr(s, ':', len);
  size_t n = colon ? (size_t)(colon - s) : len;
  anf_dtype d = ANF_I64;
  if (colon && !anfi_dtype_parse(colon + 1, len - n - 1, &d)) return false;
  int64_t dim = anfi_dim_symbol(q->cx, anfi_intern(&q->cx->strings, s, n));
  anfi_push(q->a, &q->slot, ((anfi_host_slot){.kind = ANFI_HOST_DIM, .dim = dim, .dtype = d}));
  return anfi_dtype_is_int(d) && is_bound(q->h, dim);
}

/* Parts of the result that no `outK` has named, except the one that is returned. */
static void add_outs(adding *q, const bool *named) {
  for (size_t i = 0; i < q->h->nout; i++)
    if (!named[i] && i != q->h->returned)
      anfi_push(q->a, &q->slot, ((anfi_host_slot){.kind = ANFI_HOST_OUT, .i = i}));
}

static bool add_word(adding *q, const char *s, size_t len, const bool *named) {
  size_t i;
  bool out = len >= 3 && memcmp(s, "out", 3) == 0;
  if (number(s, len, q->h->type->n, &i))
    anfi_push(q->a, &q->slot, ((anfi_host_slot){.kind = ANFI_HOST_ARG, .i = i}));
  else if (out && len == 3) add_outs(q, named);
  else if (out && number(s + 3, len - 3, q->h->nout, &i))
    anfi_push(q->a, &q->slot, ((anfi_host_slot){.kind = ANFI_HOST_OUT, .i = i}));
  else return add_dim(q, s, len);
  return true;
}

/* `outK` named before any word is understood: they decide the returned part. */
static void look_for_outs(adding *q, const char *s, bool *named) {
  anfi_host *h = q->h;
  for (size_t n, i; *s; s += n) {
    s += strspn(s, " ");
    n = strcspn(s, " ");
    if (n > 3 && memcmp(s, "out", 3) == 0 && number(s + 3, n - 3, h->nout, &i)) named[i] = true;
  }
  h->returned = 0;
  while (h->returned < h->nout && (named[h->returned] || !anfi_host_by_value(h->out[h->returned])))
    h->returned++;
  if (h->flags & ANF_HOST_STATUS) h->returned = h->nout;
}

static bool all_given(adding *q) {
  bool *seen = ANFI_NEW_N(q->a, bool, q->h->nout + 1);
  for (size_t i = 0; i < q->slot.n; i++) {
    if (q->slot.at[i].kind != ANFI_HOST_OUT) continue;
    if (seen[q->slot.at[i].i]) return refuse(q, "a part of the result is there twice");
    seen[q->slot.at[i].i] = true;
  }
  for (size_t i = 0; i < q->h->nout; i++)
    if (!seen[i] && i != q->h->returned)
      return refuse(q, "the C function has no place for a part of the result");
  return true;
}

static bool takes(adding *q, const char *s) {
  bool *named = ANFI_NEW_N(q->a, bool, q->h->nout + 1);
  look_for_outs(q, s ? s : "", named);
  if (!s) {
    for (size_t i = 0; i < q->h->type->n; i++)
      anfi_push(q->a, &q->slot, ((anfi_host_slot){.kind = ANFI_HOST_ARG, .i = i}));
    add_outs(q, named);
  }
  for (size_t n; s && *s; s += n) {
    s += strspn(s, " ");
    n = strcspn(s, " ");
    if (n && !add_word(q, s, n, named))
      return refuse(q, "what it takes is not an argument, `out`, nor a dim of an argument");
  }
  q->h->slot = q->slot.at;
  q->h->nslot = q->slot.n;
  return all_given(q);
}

bool anfi_host_may_add(anf_ctx *cx, const char *name) {
  adding q = {.cx = cx, .name = name};
  if (!is_c_name(name)) return refuse(&q, "its name is not one in programs and in C");
  bool taken =
      anfi_op_find(cx, name, strlen(name)) != ANF_OP_NONE || anfi_host_find(cx, name, strlen(name));
  return !taken || refuse(&q, "there is an op of that name");
}

bool anfi_host_add(anf_ctx *cx, const struct anf_host_op *op, const anf_type *type) {
  adding q = {.cx = cx, .a = &cx->arena, .name = op->name};
  if (!anfi_host_may_add(cx, op->name)) return false;
  if (!op->function) return refuse(&q, "it has no function");
  q.h = ANFI_NEW(q.a, anfi_host);
  q.h->flags = op->flags;
  q.h->call = ANFI_NEW_N(q.a, struct anfi_c_signature *, 1);
  q.h->function = op->function;
  q.h->name = anfi_intern_z(&cx->strings, op->name);
  q.h->zero = op->vjp && strcmp(op->vjp, "0") == 0;
  if (op->vjp && !q.h->zero) q.h->vjp = anfi_intern_z(&cx->strings, op->vjp);
  if (!signature(&q, type) || !takes(&q, op->takes)) return false;
  *anfi_map_at(&cx->hosts, q.h->name->id) = anfi_key(q.h);
  return true;
}

/* ---- types ---- */

int64_t anfi_host_dim(const anfi_host *h, const anf_type *const *args, int64_t symbol) {
  int64_t found = ANF_DIM_UNKNOWN;
  for (uint32_t i = 0; i < h->type->n; i++) {
    const anf_type *want = h->type->items[i];
    for (uint32_t k = 0; anfi_is_tensor(args[i]) && k < want->n; k++)
      if (want->dims[k] == symbol && found < 0) found = args[i]->dims[k];
  }
  return found;
}

/* Numbers that have no type yet take that of the parameter. */
static bool fits_dtype(anf_dtype have, anf_dtype want) {
  if (have == ANF_INT) return anfi_dtype_is_int(want) || anfi_dtype_is_float(want);
  return have == want || (have == ANF_FLOAT && anfi_dtype_is_float(want));
}

static bool fits(const anfi_infer *q, const anfi_host *h, size_t i) {
  const anf_type *t = q->in[i], *want = h->type->items[i];
  if (!anfi_is_tensor(t) || t->n != want->n ||
      !fits_dtype((anf_dtype)t->dtype, (anf_dtype)want->dtype))
    return false;
  for (uint32_t k = 0; k < t->n; k++) {
    int64_t d = want->dims[k];
    if (d < 0) d = anfi_host_dim(h, q->in, d);
    if (d >= 0 && t->dims[k] >= 0 && t->dims[k] != d) return false;
  }
  return true;
}

static const anf_type *with_dims(const anfi_infer *q, const anfi_host *h, const anf_type *t) {
  int64_t dims[ANF_MAX_RANK];
  for (uint32_t k = 0; k < t->n; k++)
    dims[k] = t->dims[k] < 0 ? anfi_host_dim(h, q->in, t->dims[k]) : t->dims[k];
  return anfi_type_tensor(q->cx, (anf_dtype)t->dtype, t->n, dims);
}

bool anfi_infer_host(anfi_infer *q) {
  const anfi_host *h = anfi_host_of(q->cx, q->attr[0], q->loc);
  if (!h) return false;
  if (q->n != h->type->n)
    return anfi_fail(q->cx, q->loc, ANF_E0510, h->name->s, (size_t)h->type->n, q->n);
  for (size_t i = 0; i < q->n; i++)
    if (q->in[i]->kind != ANF_TYPE_ANY && !fits(q, h, i))
      return anfi_fail(q->cx, q->loc, ANF_E0511, i + 1, h->name->s,
                       anfi_type_text(q->cx, h->type->items[i]), anfi_type_text(q->cx, q->in[i]));
  if (h->type->result->kind != ANF_TYPE_TUPLE) {
    q->out = with_dims(q, h, h->type->result);
    return true;
  }
  const anf_type **items = ANFI_NEW_N(anfi_scratch(q->cx), const anf_type *, h->nout + 1);
  for (size_t i = 0; i < h->nout; i++) items[i] = with_dims(q, h, h->out[i]);
  q->out = anfi_type_tuple(q->cx, h->nout, items);
  return true;
}
