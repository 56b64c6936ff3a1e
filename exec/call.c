// SPDX-License-Identifier: Apache-2.0
/* Calls of a variant: values to slots of compiled code and back.
 *   f((x, 3)), x: f32[2]     slots: the address of x's elements, the bits of 3; then one for each leaf of the result
 * Errors and printed text come from sites of the code, in the words of the reference interpreter. A string or type is a name
 * in compiled code: a number, of the program's own first and then of the arguments'. */
#include "backend/jit/jit.h"
#include "exec/exec.h"
#include "runtime/rt.h"

#include "anfora/comm.h"

typedef struct calling {
  anf_ctx *cx;
  const anfi_variant *v;
  const anf_run_opts *o;
  anfi_arena *a;
  anf_generic *slot;
  size_t n;
  ANFI_VEC(anf_value *) names; // of the arguments alone, numbered after the program's
  anfi_map numbers;            // 1 + the number of each name, by its hash or the next free one
  bool lost;                   // what is printed, for want of memory
} calling;

/* ---- in ---- */

static anf_generic scalar_bits(const anf_value *v) {
  anf_generic g = {.bits = 0};
  memcpy(&g, v->data, anf_dtype_bytes((anf_dtype)v->type->dtype));
  return g;
}

static void put_leaf(calling *c, const anfi_leaf *l, anf_value *v) {
  c->slot[c->n++] = l->scalar ? scalar_bits(v) : (anf_generic){.ptr = v->data};
}

static anf_value *name_at(const calling *c, size_t i) {
  size_t own = c->v->low.names.n;
  return i < own ? c->v->low.names.at[i] : c->names.at[i - own];
}

static uint64_t *place_of_number(calling *c, const anf_value *v) {
  uint64_t h = anfi_value_hash(v), *at;
  while (*(at = anfi_map_at(&c->numbers, h)) && !anfi_value_same(name_at(c, *at - 1), v)) h++;
  return at;
}

/* Equal names have one number, by which compiled code compares them. */
static void put_name(calling *c, anf_value *v) {
  size_t own = c->v->low.names.n;
  if (!c->numbers.arena) {
    anfi_map_init(&c->numbers, c->a);
    for (size_t i = 0; i < own; i++) *place_of_number(c, name_at(c, i)) = i + 1;
  }
  uint64_t *at = place_of_number(c, v);
  if (!*at) {
    anfi_push(c->a, &c->names, v);
    *at = own + c->names.n;
  }
  c->slot[c->n++] = (anf_generic){.bits = *at - 1};
}

/* Values and types agree: walked together, by a stack. */
static void put_value(calling *c, anf_value *v) {
  ANFI_VEC(anf_value *) st = {0};
  anfi_push(c->a, &st, v);
  while (st.n) {
    anf_value *x = st.at[--st.n];
    if (x->kind == ANF_VALUE_TENSOR) put_leaf(c, &c->v->low.param.at[c->n], x);
    if (x->kind == ANF_VALUE_STRING || x->kind == ANF_VALUE_TYPE) put_name(c, x);
    bool nest = x->kind == ANF_VALUE_TUPLE || x->kind == ANF_VALUE_RECORD;
    for (size_t i = nest ? x->n : 0; i-- > 0;) anfi_push(c->a, &st, x->u.item[i]);
    if (x->kind != ANF_VALUE_FN) continue;
    const anfi_fn *f = anfi_value_fn(x);
    for (size_t i = (size_t)f->ncapture + f->nbound; i-- > 0;) anfi_push(c->a, &st, f->at[i]);
  }
}

/* ---- out ---- */

/* A leaf of the result: a tensor, for a name its number; and where the value stands. */
typedef struct part {
  anf_value *v, **place;
  bool name;
} part;
typedef ANFI_VEC(part) values;

static anf_value *new_value(calling *c, const anf_type *t) {
  if (anfi_is_name(t)) t = anfi_type_scalar(c->cx, ANF_U64);
  switch ((anf_type_kind)t->kind) {
  case ANF_TYPE_TENSOR: return anfi_value_new_tensor(c->cx, t);
  case ANF_TYPE_TUPLE: return anfi_value_new_tuple(c->cx, t->n);
  case ANF_TYPE_RECORD: return anfi_value_new_record(c->cx, t);
  default: return anfi_value_new_none(c->cx);
  }
}

/* Makes the items of the value at `place`, and lists its leaves. */
static void make_items(calling *c, const anf_type *t, anf_value **place, values *leaves) {
  anf_value *v = *place;
  bool nest = t->kind == ANF_TYPE_TUPLE || t->kind == ANF_TYPE_RECORD;
  if (t->kind == ANF_TYPE_TENSOR || anfi_is_name(t))
    anfi_push(c->a, leaves, ((part){v, place, anfi_is_name(t)}));
  for (uint32_t i = 0; nest && i < t->n; i++) {
    v->u.item[i] = new_value(c, t->items[i]);
    make_items(c, t->items[i], &v->u.item[i], leaves);
  }
}

/* The result with its leaves still zero, at `place`. Only the whole is guarded: each item belongs to what it
 * is in from the moment it is made. */
static void shell(calling *c, const anf_type *t, anf_value **place, values *leaves) {
  anf_value *whole = *place = new_value(c, t);
  anfi_value_guard(whole);
  make_items(c, t, place, leaves);
  anfi_value_unguard(whole);
}

/* Puts strings and types in the place of their numbers. */
static void name_leaves(const calling *c, const values *leaves) {
  for (size_t i = 0; i < leaves->n; i++) {
    const part *l = &leaves->at[i];
    if (!l->name) continue;
    *l->place = anf_value_retain(name_at(c, (size_t)anfi_get_i64(l->v, 0)));
    anf_value_release(l->v);
  }
}

static void make_room(calling *c, const values *leaves) {
  const anfi_leaves *l = &c->v->low.result;
  size_t returned = anfi_returned_leaf(l);
  for (size_t i = 0; i < l->n; i++)
    if (i != returned) c->slot[c->n++].ptr = leaves->at[i].v->data;
}

static void take_returned(const calling *c, const values *leaves) {
  const anfi_leaves *l = &c->v->low.result;
  size_t at = anfi_returned_leaf(l);
  if (at == l->n) return;
  anf_value *v = leaves->at[at].v;
  memcpy(v->data, &c->slot[c->n], anf_dtype_bytes((anf_dtype)v->type->dtype));
}

/* ---- sites ---- */

static bool stopped(const calling *c, int64_t site, int64_t a, int64_t b) {
  if (site < 0 || (size_t)site >= c->v->low.sites.n)
    return anfi_fail(c->cx, anfi_nowhere(), ANF_E0001, "a site that is not there");
  const anfi_site_info *s = &c->v->low.sites.at[site];
  const char *op = anfi_op[s->op].name;
  switch (s->code) {
  case ANF_E0441:
  case ANF_E0443: return anfi_fail(c->cx, s->loc, s->code, (long long)a, (size_t)b);
  case ANF_E0561:
  case ANF_E0442:
    return anfi_fail(c->cx, s->loc, s->code, s->text ? s->text : "the condition is false");
  default: return anfi_fail(c->cx, s->loc, s->code, op, (long long)a, (long long)b);
  }
}

static anf_value *printed(calling *c, const anf_type *t, const uint64_t *leaf, size_t *at) {
  values leaves = {0};
  anf_value *v;
  shell(c, t, &v, &leaves);
  for (size_t i = 0; i < leaves.n; i++) {
    anf_value *x = leaves.at[i].v;
    size_t bytes = x->n * anf_dtype_bytes((anf_dtype)x->type->dtype);
    bool scalar = !x->type->n && anfi_dtype_class((anf_dtype)x->type->dtype) != ANFI_CLASS_COMPLEX;
    const uint64_t *bits = &leaf[(*at)++];
    memcpy(x->data, scalar ? (const void *)bits : (const void *)(uintptr_t)*bits, bytes);
  }
  name_leaves(c, &leaves);
  return v;
}

static void put_printed(calling *c, int64_t site, const uint64_t *leaf, anf_text *out) {
  const anfi_site_info *s = &c->v->low.sites.at[site];
  size_t at = 0;
  for (size_t i = 0; i < s->n; i++) {
    anf_value *v = s->value[i];
    if (i) anfi_putc(out, ' ');
    v = v ? anf_value_retain(v) : printed(c, s->type[i], leaf, &at);
    anfi_value_guard(v);
    if (v->kind == ANF_VALUE_STRING) anfi_put(out, v->u.text, v->n);
    else anfi_put_value(out, v, 0);
    anfi_value_unguard(v);
    anf_value_release(v);
  }
  anfi_putc(out, '\n');
}

/* In a frame of its own: a failure must not jump over the compiled code that is on the stack below. */
static anf_status printed_in_frame(calling *c, int64_t site, const uint64_t *leaf, anf_text *out) {
  ANFI_ENTRY(c->cx, NULL);
  c->a = anfi_scratch(c->cx);
  put_printed(c, site, leaf, out);
  return anfi_leave(c->cx);
}

static void print(void *user, int64_t site, size_t n, const uint64_t *leaf) {
  calling *c = (calling *)user;
  anfi_arena *a = c->a;
  anf_text text = {.cx = c->cx};
  (void)n;
  if (c->o && c->o->print) {
    if (printed_in_frame(c, site, leaf, &text) == ANF_OK)
      c->o->print(c->o->print_user, text.text, text.len);
    else c->lost = true;
  }
  c->a = a;
  anf_text_free(&text);
}

/* ---- the call ---- */

static bool stopped_from_outside(const calling *c, anf_trap_kind k) {
  anfi_loc at = anfi_nowhere();
  switch (k) {
  case ANF_TRAP_CANCELLED: return anfi_fail(c->cx, at, ANF_E0004, "running compiled code");
  case ANF_TRAP_TIME: return anfi_fail(c->cx, at, ANF_E0422, (unsigned long long)c->o->max_ms);
  case ANF_TRAP_STEPS: return anfi_fail(c->cx, at, ANF_E0415, (unsigned long long)c->o->max_steps);
  default: return anfi_fail(c->cx, at, ANF_E0416, (unsigned long long)c->o->max_depth);
  }
}

static bool failed(const calling *c, anf_stream *s, anf_status st) {
  const anf_trap *t = anf_stream_trap(s);
  if (t->kind >= ANF_TRAP_CANCELLED) return stopped_from_outside(c, t->kind);
  if (t->kind == ANF_TRAP_MEMORY) {
    c->cx->over_limit = s->over_limit;
    return anfi_fail_memory(c->cx, c->v->loc);
  }
  if (t->kind == ANF_TRAP_SITE) return stopped(c, t->site, t->a, t->b);
  return anfi_fail_as(c->cx, anf_jit_report(c->cx, c->v->function, s, NULL)) &&
         anfi_fail_as(c->cx, st);
}

bool anfi_variant_failed(anf_ctx *cx, const anfi_variant *v, const anf_run_opts *limits,
                         anf_stream *s, anf_status st) {
  calling c = {.cx = cx, .v = v, .o = limits};
  return failed(&c, s, st);
}

void anfi_variant_put_printed(anf_ctx *cx, const anfi_variant *v, int64_t site,
                              const uint64_t *leaf, anf_text *out) {
  calling c = {.cx = cx, .v = v, .a = anfi_scratch(cx)};
  put_printed(&c, site, leaf, out);
}

static void stop_stream(void *s) { anf_stream_cancel((anf_stream *)s); }

/* Requests to stop reach the stream while the code runs, and not after. */
static anf_status call_code(calling *c, anf_stream *s) {
  anfi_rt_timer timer;
  size_t left = c->cx->max_bytes - c->cx->bytes;
  anf_comm *outside = anf_stream_comm(s);
  anf_stream_set_print(s, print, c);
  if (c->cx->comm) anf_stream_set_comm(s, c->cx->comm);
  anfi_rt_arm(s, c->o->max_steps, c->o->max_depth, left ? left : 1);
  if (c->o->max_ms && !anfi_rt_timer_start(&timer, s, c->o->max_ms)) anfi_throw_nomem(c->cx);
  const anfi_running r = {stop_stream, s}, *outer = anfi_run_begin(c->cx, &r);
  size_t failed = 0;
  anf_status st = c->v->npiece ? anfi_jit_call_batch(c->v->function, s, c->slot, &failed)
                               : anf_jit_call_generic(c->v->function, s, c->slot);
  anfi_run_end(c->cx, outer);
  if (c->o->max_ms) anfi_rt_timer_end(&timer);
  anfi_rt_disarm(s);
  anf_stream_set_comm(s, outside);
  anf_stream_set_print(s, NULL, NULL);
  if (c->lost) anfi_throw_nomem(c->cx);
  if (st != ANF_OK && c->v->npiece) c->v = c->v->piece[failed];
  return st;
}

bool anfi_variant_run(anf_exec *e, anfi_variant *v, size_t n, anf_value *const *args,
                      const anf_run_opts *o, anf_value **result) {
  calling c = {.cx = e->cx, .v = v, .o = o, .a = anfi_scratch(e->cx)};
  values leaves = {0};
  anf_stream *s = anf_stream_of_thread();
  if (!s) anfi_throw_nomem(e->cx);
  c.slot = ANFI_NEW_N(c.a, anf_generic, v->low.param.n + v->low.result.n + 1);
  for (size_t i = 0; i < n; i++) put_value(&c, args[i]);
  anf_value *r;
  shell(&c, v->low.result_type, &r, &leaves);
  anfi_value_guard(r);
  make_room(&c, &leaves);
  anf_status st = call_code(&c, s);
  if (st != ANF_OK) return failed(&c, s, st);
  take_returned(&c, &leaves);
  anfi_value_unguard(r); // a name takes the place of its number, which may be the whole
  name_leaves(&c, &leaves);
  anfi_value_guard(r);
  *result = v->form ? anfi_formed(e->cx, v->form, &v->origins, r) : anf_value_retain(r);
  anfi_value_unguard(r);
  anf_value_release(r);
  return *result != NULL;
}

/* ---- into the host's buffers ---- */

static bool misfit(const calling *c, size_t i, const char *why) {
  return anfi_fail(c->cx, anfi_nowhere(), ANF_E0423, i, why);
}

static bool fits(const calling *c, size_t i, const anf_type *t, const anf_array *a) {
  size_t align = anf_dtype_bytes((anf_dtype)t->dtype), elements = 0;
  if ((unsigned)a->dtype >= ANF_DTYPE_COUNT || // a weak number is an i64 or f64 in memory
      anfi_dtype_settle(a->dtype) != anfi_dtype_settle((anf_dtype)t->dtype))
    return misfit(c, i, "it has another element type");
  if (a->rank != t->n || (a->rank && !a->dims)) return misfit(c, i, "it has another rank");
  for (size_t k = 0; k < t->n; k++)
    if (a->dims[k] != t->dims[k]) return misfit(c, i, "it has other dims");
  if (a->strides) return misfit(c, i, "it has strides");
  anfi_type_elements(t, &elements);
  if (!a->data && elements) return misfit(c, i, "it is NULL");
  return (uintptr_t)a->data % (align < 8 ? align : 8) == 0 || misfit(c, i, "it is not aligned");
}

static bool all_fit(const calling *c, size_t n, const anf_array *out) {
  const anfi_leaves *l = &c->v->low.result;
  if (c->v->form) return misfit(c, 0, "there are functions in the result");
  if (n != l->n) return misfit(c, n < l->n ? n : l->n, "there is not one for each leaf");
  for (size_t i = 0; i < n; i++) {
    if (anfi_is_name(l->at[i].type)) return misfit(c, i, "the leaf is a string or a type");
    if (!fits(c, i, l->at[i].type, &out[i])) return false;
  }
  return true;
}

static anfi_range range_of(const anfi_leaf *l, const void *at, bool written, size_t of) {
  size_t elements = 0, bytes = anf_dtype_bytes((anf_dtype)l->type->dtype);
  anfi_type_elements(l->type, &elements);
  uintptr_t from = (uintptr_t)at;
  return (anfi_range){from, from + elements * bytes, written, written, of};
}

/* Code writes results before it has read all of its arguments. The slots have the arguments. */
static bool all_apart(const calling *c, size_t n, const anf_array *out) {
  const anfi_leaves *param = &c->v->low.param, *result = &c->v->low.result;
  const anfi_range *met[2];
  anfi_range *r = ANFI_NEW_N(c->a, anfi_range, param->n + n);
  size_t k = 0;
  for (size_t i = 0; i < param->n; i++)
    if (!param->at[i].scalar && !anfi_is_name(param->at[i].type))
      r[k++] = range_of(&param->at[i], c->slot[i].ptr, false, i);
  for (size_t i = 0; i < n; i++) r[k++] = range_of(&result->at[i], out[i].data, true, i);
  if (!anfi_ranges_meet(r, k, met)) return true;
  bool both = met[0]->written && met[1]->written;
  return misfit(c, met[met[1]->written]->of,
                both ? "it shares memory with another" : "it shares memory with an argument");
}

bool anfi_variant_run_into(anf_exec *e, anfi_variant *v, size_t n, anf_value *const *args,
                           const anf_run_opts *o, size_t nout, const anf_array *out) {
  calling c = {.cx = e->cx, .v = v, .o = o, .a = anfi_scratch(e->cx)};
  anf_stream *s = anf_stream_of_thread();
  if (!s) anfi_throw_nomem(e->cx);
  if (!all_fit(&c, nout, out)) return false;
  c.slot = ANFI_NEW_N(c.a, anf_generic, v->low.param.n + nout + 1);
  for (size_t i = 0; i < n; i++) put_value(&c, args[i]);
  if (!all_apart(&c, nout, out)) return false;
  size_t returned = anfi_returned_leaf(&v->low.result);
  for (size_t i = 0; i < nout; i++)
    if (i != returned) c.slot[c.n++].ptr = out[i].data;
  anf_status st = call_code(&c, s);
  if (st != ANF_OK) return failed(&c, s, st);
  if (returned < nout)
    memcpy(out[returned].data, &c.slot[c.n], anf_dtype_bytes(out[returned].dtype));
  return true;
}
