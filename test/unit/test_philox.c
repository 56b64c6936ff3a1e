// SPDX-License-Identifier: Apache-2.0
/* Random numbers at the bottom: Philox against the known answers that Random123 ships
 * (kat_vectors), and the logarithm and the normal quantile against the C library. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "ir/ops/op.h"

static void known_answers(void **state) {
  (void)state;
  static const struct {
    uint32_t counter[4], key[2], want[4];
  } k[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (size_t i = 0; i < sizeof k / sizeof *k; i++) {
    uint32_t out[4];
    anfi_philox4x32(k[i].counter, k[i].key, out);
    for (int w = 0; w < 4; w++) assert_int_equal(out[w], k[i].want[w]);
  }
}

static void streams_are_words_of_blocks(void **state) {
  (void)state;
  uint64_t key = UINT64_C(0x123456789abcdef0);
  for (uint64_t i = 0; i < 16; i++) {
    uint64_t pair = anfi_random_u32(key, 2 * i) | (uint64_t)anfi_random_u32(key, 2 * i + 1) << 32;
    assert_true(anfi_random_u64(key, i) == pair);
  }
  assert_int_not_equal(anfi_random_derive(key, ANFI_RANDOM_SPLIT, 0),
                       anfi_random_derive(key, ANFI_RANDOM_FOLD, 0));
}

static void high_halves_of_products(void **state) {
  (void)state;
  assert_true(anfi_mul_high(UINT64_MAX, UINT64_MAX) == UINT64_MAX - 1);
  assert_true(anfi_mul_high(UINT64_MAX, 1) == 0);
  assert_true(anfi_mul_high(UINT64_C(1) << 63, 6) == 3);
  assert_true(anfi_mul_high(UINT64_C(0x123456789abcdef0), UINT64_C(0xfedcba9876543210)) ==
              UINT64_C(0x121fa00ad77d7422));
}

static double ulps(double a, double b) {
  return fabs(a - b) / (nextafter(fabs(b), INFINITY) - fabs(b));
}

static void logarithm_is_accurate(void **state) {
  (void)state;
  double worst = 0.0;
  for (int i = 0; i < 200000; i++) {
    double x = ldexp((double)anfi_random_u64(1, (uint64_t)i) + 1.0, -64 - i % 60);
    if (x == 1.0) continue;
    double e = ulps(anfi_random_log(x), log(x));
    if (e > worst) worst = e;
  }
  assert_true(worst < 3.0);
}

/* P(X < x) of what the quantile gives is p again, in the middle and far out. */
static void quantile_inverts_the_distribution(void **state) {
  (void)state;
  for (int i = 1; i < 2000; i++) {
    double p = ldexp((double)i / 2000.0, -(i % 50)), x = anfi_random_normal(p);
    assert_true(fabs(0.5 * erfc(-x / sqrt(2.0)) - p) <= 4e-15 * p * (1.0 + x * x));
    assert_true(anfi_random_normal(1.0 - 0.25) == -anfi_random_normal(0.25));
  }
  assert_true(anfi_random_normal(0.5) == 0.0);
}

/* ---- through the op table ---- */

static anf_status run(anf_ctx *cx, anfi_eval *q) {
  ANFI_ENTRY(cx, NULL);
  anfi_eval_op(q);
  return anfi_leave(cx);
}

/* bf16 has 8 bits of precision: all values are multiples of 2^-8 below 1. */
static void uniform_bf16(void **state) {
  (void)state;
  anf_ctx *cx = anf_ctx_new(NULL);
  uint64_t bits = 5;
  int64_t dims[1] = {4096};
  anf_value *key = anf_value_tensor(cx, ANF_KEY, 0, NULL, &bits),
            *shape = anf_value_shape(cx, 1, dims);
  anf_value *type = anf_value_of_type(cx, anf_type_scalar(cx, ANF_BF16));
  const anfi_schema *s = anfi_op_schema(cx, ANF_OP_Uniform);
  anf_value *attr[4] = {shape, type, s->attr[2].initial, s->attr[3].initial};
  anfi_eval q = {.cx = cx, .op = ANF_OP_Uniform, .n = 1, .in = &key, .attr = attr};
  assert_int_equal(run(cx, &q), ANF_OK);
  double sum = 0.0;
  for (size_t i = 0; i < 4096; i++) {
    double x = anf_value_get_f64(q.out, i);
    assert_true(x >= 0.0 && x < 1.0 && x * 256.0 == floor(x * 256.0));
    assert_true(x == (double)(anfi_random_u32(bits, i) >> 24) / 256.0);
    sum += x;
  }
  assert_true(fabs(sum / 4096.0 - 0.5) < 0.02);
  anf_value_release(q.out);
  anf_value_release(key);
  anf_value_release(shape);
  anf_value_release(type);
  anf_ctx_free(cx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(known_answers),
      cmocka_unit_test(streams_are_words_of_blocks),
      cmocka_unit_test(high_halves_of_products),
      cmocka_unit_test(logarithm_is_accurate),
      cmocka_unit_test(quantile_inverts_the_distribution),
      cmocka_unit_test(uniform_bf16),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
