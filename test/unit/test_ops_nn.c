// SPDX-License-Identifier: Apache-2.0
/* Ops on functions, tuples and records: what they give, by hand; that partials nest flat; that a
 * key gives one set of numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ir/ops/op.h"

static anf_ctx *cx;
static anf_diag *diag;

static int setup(void **state) {
  (void)state;
  cx = anf_ctx_new(NULL);
  diag = anf_diag_new(cx);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  anf_diag_free(diag);
  anf_ctx_free(cx);
  return 0;
}

static anf_status run(anfi_eval *q) {
  ANFI_ENTRY(cx, diag);
  anfi_eval_op(q);
  return anfi_leave(cx);
}

/* The result, or NULL; attributes are those given, then defaults. */
static anf_value *eval(anfi_opcode op, size_t n, anf_value *const *in, size_t nattr,
                       anf_value *const *given) {
  const anfi_schema *s = anfi_op_schema(cx, op);
  anf_value *attr[8];
  for (uint32_t k = 0; k < s->nattr; k++)
    attr[k] = k < nattr && given[k] ? given[k] : s->attr[k].initial;
  anfi_eval q = {.cx = cx, .op = op, .n = n, .in = in, .attr = attr};
  anf_diag_clear(diag);
  return run(&q) == ANF_OK ? q.out : NULL;
}

static const char *code(void) { return anf_diag_count(diag) ? anf_diag_at(diag, 0)->code : ""; }

/* Compares the printed form and releases the value. */
static void prints(anf_value *v, const char *want) {
  assert_non_null(v);
  anf_text o = {cx, NULL, 0, 0};
  assert_int_equal(anf_value_print(cx, v, 0, &o), ANF_OK);
  assert_string_equal(o.text, want);
  anf_text_free(&o);
  anf_value_release(v);
}

static void release_all(size_t n, anf_value **v) {
  while (n) anf_value_release(v[--n]);
}

#define EVAL(op, n, in, ...)                                                                       \
  eval(ANF_OP_##op, n, in, sizeof((anf_value *[]){NULL, __VA_ARGS__}) / sizeof(anf_value *) - 1,   \
       (anf_value *[]){NULL, __VA_ARGS__} + 1)

static void tuples(void **state) {
  (void)state;
  anf_value *i[6];
  for (int k = 0; k < 6; k++) i[k] = anf_value_i64(cx, k);
  anf_value *minus1 = anf_value_int(cx, -1), *two = anf_value_int(cx, 2),
            *far = anf_value_int(cx, 1000);
  anf_value *t = eval(ANF_OP_MakeTuple, 5, i, 0, NULL), *low = anf_value_int(cx, INT64_MIN);
  prints(anf_value_retain(t), "(0, 1, 2, 3, 4)");
  prints(EVAL(TupleGet, 1, &t, minus1), "4");
  prints(EVAL(TupleLen, 1, &t, NULL), "5");
  prints(EVAL(TupleSet, 2, ((anf_value *[]){t, i[5]}), two), "(0, 1, 5, 3, 4)");
  prints(EVAL(TupleSlice, 1, &t, two, NULL, NULL), "(2, 3, 4)");
  prints(EVAL(TupleSlice, 1, &t, NULL, minus1, two), "(0, 2)");
  prints(EVAL(TupleSlice, 1, &t, NULL, NULL, minus1), "(4, 3, 2, 1, 0)");
  prints(EVAL(TupleSlice, 1, &t, far, low, minus1), "(4, 3, 2, 1, 0)");
  prints(EVAL(TupleSlice, 1, &t, far, NULL, NULL), "()");
  prints(EVAL(TupleSlice, 1, &t, minus1, NULL, low), "(4,)");
  prints(EVAL(TupleConcat, 2, ((anf_value *[]){t, t}), NULL), "(0, 1, 2, 3, 4, 0, 1, 2, 3, 4)");
  prints(eval(ANF_OP_TupleConcat, 0, NULL, 0, NULL), "()");
  prints(eval(ANF_OP_MakeTuple, 0, NULL, 0, NULL), "()");
  release_all(6, i);
  release_all(5, (anf_value *[]){minus1, two, far, low, t});
}

static void choices(void **state) {
  (void)state;
  anf_value *yes = anf_value_bool(cx, true), *no = anf_value_bool(cx, false),
            *a = anf_value_i64(cx, 10), *b = anf_value_f32(cx, 20);
  anf_value *last = anf_value_i64(cx, -1), *t = anf_value_tuple(cx, 2, (anf_value *[]){a, b});
  prints(EVAL(Switch, 3, ((anf_value *[]){yes, a, b}), NULL), "10");
  prints(EVAL(Switch, 3, ((anf_value *[]){no, a, b}), NULL), "20.0");
  prints(EVAL(SwitchLayer, 3, ((anf_value *[]){last, a, b}), NULL), "20.0");
  prints(EVAL(SwitchLayer, 2, ((anf_value *[]){last, t}), NULL), "20.0");
  prints(EVAL(Identity, 1, &t, NULL), "(10, 20.0)");
  prints(EVAL(StopGradient, 1, &t, NULL), "(10, 20.0)");
  prints(EVAL(Assert, 1, &yes, NULL), "None");
  anf_value *said = anf_value_string(cx, "x is small", 10);
  assert_null(EVAL(Assert, 2, ((anf_value *[]){no, said}), NULL));
  assert_string_equal(code(), "E0442");
  assert_string_equal(anf_diag_at(diag, 0)->message, "assertion failed: x is small");
  assert_null(EVAL(Assert, 2, ((anf_value *[]){no, a}), NULL));
  assert_string_equal(code(), "E0501");
  release_all(7, (anf_value *[]){yes, no, a, b, last, t, said});
}

static void records(void **state) {
  (void)state;
  anf_value *x = anf_value_string(cx, "x", 1), *y = anf_value_string(cx, "y", 1),
            *z = anf_value_string(cx, "z", 1);
  anf_value *v[2] = {anf_value_i64(cx, 1), anf_value_f32(cx, 2)};
  anf_value *names = anf_value_tuple(cx, 2, (anf_value *[]){x, y}),
            *twice = anf_value_tuple(cx, 2, (anf_value *[]){x, x});
  anf_value *r = EVAL(MakeRecord, 2, v, names);
  prints(anf_value_retain(r), "{x = 1, y = 2.0}");
  prints(EVAL(RecordGet, 1, &r, y), "2.0");
  anf_value *s = EVAL(RecordSet, 2, ((anf_value *[]){r, v[1]}), x);
  anf_text o = {cx, NULL, 0, 0};
  assert_int_equal(anf_type_print(cx, anf_value_type(cx, s), &o), ANF_OK);
  assert_string_equal(o.text, "{x: f32, y: f32}");
  anf_text_free(&o);
  prints(s, "{x = 2.0, y = 2.0}");
  assert_null(EVAL(MakeRecord, 2, v, twice));
  assert_string_equal(code(), "E0542");
  assert_null(EVAL(RecordGet, 1, &r, z));
  assert_string_equal(code(), "E0523");
  assert_null(EVAL(RecordSet, 2, ((anf_value *[]){r, r}), z));
  assert_string_equal(code(), "E0523");
  release_all(8, (anf_value *[]){x, y, z, v[0], v[1], names, twice, r});
}

static anf_value *primitive(anfi_opcode op) {
  ANFI_ENTRY_ELSE(cx, diag, NULL);
  anf_value *f = anfi_value_new_fn(cx, NULL, (uint16_t)op, NULL, 0, 0);
  return anfi_leave(cx) == ANF_OK ? f : NULL;
}

/* Partial(Partial(Add, 1), 2) holds both arguments in order, and leaves the first partial as it
 * was. */
static void partials_are_flat(void **state) {
  (void)state;
  anf_value *add = primitive(ANF_OP_Add), *one = anf_value_i64(cx, 1), *two = anf_value_i64(cx, 2);
  anf_value *f = EVAL(Partial, 2, ((anf_value *[]){add, one}), NULL);
  anf_value *g = EVAL(Partial, 2, ((anf_value *[]){f, two}), NULL),
            *same = EVAL(Partial, 1, &g, NULL);
  assert_int_equal(anfi_value_fn(f)->nbound, 1);
  assert_int_equal(anfi_value_fn(g)->nbound, 2);
  assert_int_equal(anfi_value_fn(g)->op, ANF_OP_Add);
  assert_ptr_equal(anfi_value_fn(g)->at[0], one);
  assert_ptr_equal(anfi_value_fn(g)->at[1], two);
  assert_ptr_equal(same, g);
  release_all(6, (anf_value *[]){add, one, two, f, g, same});
}

/* Long numbers of draws: mean, variance and the shares of classes are those of the distributions.
 */
static double mean_of(anf_value *v, double power) {
  double sum = 0.0;
  for (size_t i = 0; i < anf_value_elements(v); i++) {
    double x = anf_value_get_f64(v, i);
    sum += power == 1.0 ? x : x * x;
  }
  return sum / (double)anf_value_elements(v);
}

static void near(double x, double want, double by) { assert_true(x > want - by && x < want + by); }

static void distributions(void **state) {
  (void)state;
  uint64_t seed = 99;
  int64_t n = 100000, two = 2;
  float half = 0.25f, logits[2] = {0.0f, 1.0986123f};
  anf_value *key = anf_value_tensor(cx, ANF_KEY, 0, NULL, &seed),
            *shape = anf_value_shape(cx, 1, &n);
  anf_value *p = anf_value_f32(cx, half), *l = anf_value_tensor(cx, ANF_F32, 1, &two, logits), *v;
  v = EVAL(Normal, 1, &key, shape);
  near(mean_of(v, 1.0), 0.0, 0.02);
  near(mean_of(v, 2.0), 1.0, 0.03);
  anf_value_release(v);
  v = EVAL(Uniform, 1, &key, shape);
  near(mean_of(v, 1.0), 0.5, 0.01);
  near(mean_of(v, 2.0), 1.0 / 3.0, 0.01);
  anf_value_release(v);
  v = EVAL(Bernoulli, 2, ((anf_value *[]){key, p}), shape);
  near(mean_of(v, 1.0), 0.25, 0.01);
  anf_value_release(v);
  v = EVAL(Categorical, 2, ((anf_value *[]){key, l}), NULL, shape);
  near(mean_of(v, 1.0), 0.75, 0.01);
  anf_value_release(v);
  release_all(4, (anf_value *[]){key, shape, p, l});
}

/* Derived keys differ from each other and from their parent. */
static void keys_differ(void **state) {
  (void)state;
  uint64_t seed = 1;
  anf_value *key = anf_value_tensor(cx, ANF_KEY, 0, NULL, &seed), *n = anf_value_int(cx, 1000);
  anf_value *keys = EVAL(SplitKey, 1, &key, n);
  const uint64_t *k = (const uint64_t *)anf_value_data(keys);
  for (int i = 0; i < 1000; i++) {
    assert_true(k[i] != seed);
    for (int j = 0; j < i; j++) assert_true(k[i] != k[j]);
  }
  release_all(3, (anf_value *[]){key, n, keys});
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tuples),        cmocka_unit_test(choices),
      cmocka_unit_test(records),       cmocka_unit_test(partials_are_flat),
      cmocka_unit_test(distributions), cmocka_unit_test(keys_differ),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
