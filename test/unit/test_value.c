// SPDX-License-Identifier: Apache-2.0
/* Values: what they cost whose parts are shared, which may stand for more items than there are
 * atoms: t1 = (t0, t0), t2 = (t1, t1), ... */
#include "ir/ir.h"
#include "test/unit/program.h"

enum { LEVELS = 200 };

static anf_value *pairs_of(anf_ctx *cx, int64_t first) {
  anf_value *t = anf_value_i64(cx, first);
  for (int i = 0; i < LEVELS; i++) {
    anf_value *pair = anf_value_tuple(cx, 2, (anf_value *[]){t, t});
    assert_non_null(pair);
    anf_value_release(t);
    t = pair;
  }
  return t;
}

/* The same items as pairs_of(cx, 1), but two pairs a level, each of which holds both of the level
 * below: what is shared here is not what is shared there. */
static anf_value *crossed_pairs(anf_ctx *cx) {
  anf_value *a = anf_value_i64(cx, 1), *b = anf_value_i64(cx, 1);
  for (int i = 0; i < LEVELS; i++) {
    anf_value *ab = anf_value_tuple(cx, 2, (anf_value *[]){a, b});
    anf_value *ba = anf_value_tuple(cx, 2, (anf_value *[]){b, a});
    assert_true(ab && ba);
    anf_value_release(a), anf_value_release(b);
    a = ab, b = ba;
  }
  anf_value_release(b);
  return a;
}

static anf_status hash_in_frame(anf_ctx *cx, const anf_value *v, uint64_t *h) {
  ANFI_ENTRY(cx, NULL);
  *h = anfi_value_hash(v);
  return anfi_leave(cx);
}

static uint64_t hash_of(anf_ctx *cx, const anf_value *v) {
  uint64_t h = 0;
  assert_int_equal(hash_in_frame(cx, v, &h), ANF_OK);
  return h;
}

static void test_shared_parts(void **state) {
  anf_ctx *cx = ((world *)*state)->cx;
  anf_value *a = pairs_of(cx, 1), *b = pairs_of(cx, 1), *crossed = crossed_pairs(cx),
            *other = pairs_of(cx, 2);
  assert_true(anf_value_same(a, b));
  assert_true(anf_value_same(a, crossed));
  assert_true(anf_value_same(crossed, a));
  assert_false(anf_value_same(a, other));
  assert_false(anf_value_same(crossed, other));
  assert_ptr_equal(anf_value_type(cx, a), anf_value_type(cx, crossed));
  assert_true(hash_of(cx, a) == hash_of(cx, b));
  assert_true(hash_of(cx, a) == hash_of(cx, crossed));
  anf_value_release(a), anf_value_release(b), anf_value_release(crossed), anf_value_release(other);
}

/* ---- memory of the host ---- */

static void count(void *user) { ++*(int *)user; }

static anf_value *run_by(world *w, const char *text, anf_value *x, bool compiled) {
  anf_module *m = NULL;
  anf_exec *e = NULL;
  anf_value *out = NULL;
  assert_int_equal(anf_parse(w->cx, text, "wrap.anf", w->d, &m), ANF_OK);
  anf_graph *g = anf_module_find(m, "f");
  anf_status st = compiled ? anf_compile(g, NULL, w->d, &e) : anf_run(g, 1, &x, NULL, w->d, &out);
  if (compiled && st == ANF_OK) st = anf_exec_run(e, 1, &x, NULL, w->d, &out);
  assert_int_equal(st, ANF_OK);
  anf_exec_free(e);
  anf_module_free(m);
  return out;
}

/* Elements stay where they are, nothing writes to them, and their end is told once. */
static void test_wrap(void **state) {
  world *w = *state;
  double x[6] = {1, 2, 3, 4, 5, 6};
  int64_t dims[2] = {2, 3}, turned[2] = {1, 2};
  int freed = 0;
  anf_array a = {.dtype = ANF_F64, .rank = 2, .dims = dims, .data = x};
  anf_value *v = anf_value_wrap(w->cx, &a, count, &freed), *out;
  assert_ptr_equal(anf_value_data(v), x);
  for (int k = 0; k < 2; k++) {
    out = run_by(
        w, "def f(x: f64[2, 3]) { y = IndexWrite(x, 0, Full(9.0, (3,)), axis=0); Sum(y) + 15.0 }",
        v, k == 1);
    assert_true(anf_value_get_f64(out, 0) == 57.0);
    assert_true(x[0] == 1 && x[5] == 6);
    anf_value_release(out);
    out = run_by(w, "def f(x) { x }", v, k == 1);
    assert_true(anf_value_same(out, v));
    anf_value_release(out);
  }
  anf_module *m = anf_module_new(w->cx);
  anf_node *n = anf_constant(m, v); // which holds a reference, or a copy
  assert_true(anf_value_same(anf_node_value(n), v));
  anf_value_release(v);
  anf_module_free(m);
  assert_int_equal(freed, 1);
  a.strides = turned;
  assert_null(anf_value_wrap(w->cx, &a, count, &freed));
  assert_string_equal(anf_diag_at(anf_ctx_diag(w->cx), 0)->code, "E1351");
  v = anf_value_array(w->cx, &a); // columns: 1 3 5, 2 4 6
  static const double want[] = {1, 3, 5, 2, 4, 6};
  assert_memory_equal(anf_value_data(v), want, sizeof want);
  anf_value_release(v);
  a = (anf_array){.dtype = ANF_F32, .rank = 1, .dims = dims, .data = (char *)x + 1};
  assert_null(anf_value_wrap(w->cx, &a, count, &freed));
  a.data = NULL;
  assert_null(anf_value_array(w->cx, &a));
  assert_int_equal(freed, 1);
}

/* DLPack's structures, written out. */
typedef struct managed {
  void *data;
  int32_t device, id, ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t offset;
  void *ctx;
  void (*deleter)(struct managed *);
} managed;
typedef struct versioned {
  uint32_t major, minor;
  void *ctx;
  void (*deleter)(struct versioned *);
  uint64_t flags;
  void *data;
  int32_t device, id, ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t offset;
} versioned;

static void deleted(managed *m) { ++*(int *)m->ctx; }

static void test_dlpack(void **state) {
  world *w = *state;
  float x[7] = {9, 1, 2, 3, 4, 5, 6};
  int64_t shape[2] = {2, 3}, turned[2] = {1, 2};
  int freed = 0;
  managed t = {
      .data = x, .device = 1, .ndim = 2, .code = 2, .bits = 32, .lanes = 1, .shape = shape};
  t.offset = 4, t.ctx = &freed, t.deleter = deleted;
  anf_value *v = NULL, *back = NULL;
  assert_int_equal(anf_value_from_dlpack(w->cx, &t, false, w->d, &v), ANF_OK);
  assert_ptr_equal(anf_value_data(v), x + 1);
  versioned *lent = anf_value_to_dlpack(v, true);
  assert_ptr_equal(lent->data, x + 1);
  assert_int_equal(lent->flags & 1, 1); // read only
  anf_value_release(v);
  assert_int_equal(freed, 0); // lent holds it
  assert_int_equal(anf_value_from_dlpack(w->cx, lent, true, w->d, &back), ANF_OK);
  assert_int_equal(anf_value_dim(back, 1), 3);
  assert_true(anf_value_get_f64(back, 5) == 6.0);
  managed *copy = anf_value_to_dlpack(back, false);
  anf_value_release(back);
  assert_int_equal(freed, 1);
  ((float *)copy->data)[0] = 8.0F; // the consumer's own
  assert_true(x[1] == 1.0F && copy->shape[0] == 2 && copy->bits == 32);
  copy->deleter(copy);
  t.strides = turned;
  assert_int_equal(anf_value_from_dlpack(w->cx, &t, false, w->d, &v), ANF_OK); // copied at once
  assert_int_equal(freed, 2);
  assert_true(anf_value_get_f64(v, 1) == 3.0);
  anf_value_release(v);
  t.device = 2;
  anf_diag_clear(w->d);
  assert_int_equal(anf_value_from_dlpack(w->cx, &t, false, w->d, &v), ANF_INVALID);
  assert_string_equal(anf_diag_at(w->d, 0)->code, "E1118");
  assert_int_equal(freed, 2);
  v = anf_value_key(w->cx, 7);
  assert_null(anf_value_to_dlpack(v, true));
  assert_null(anf_value_to_dlpack(v, false));
  anf_value_release(v);
}

int main(int argc, char **argv) {
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  const struct CMUnitTest tests[] = {TEST(test_shared_parts), TEST(test_wrap), TEST(test_dlpack)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
