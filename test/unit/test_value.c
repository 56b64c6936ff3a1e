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

int main(int argc, char **argv) {
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  const struct CMUnitTest tests[] = {TEST(test_shared_parts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
