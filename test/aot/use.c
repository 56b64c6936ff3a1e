// SPDX-License-Identifier: Apache-2.0
/* Uses what test_build.py has built, linked with libanfora_rt alone. Reports the first difference. */
#define _POSIX_C_SOURCE 200809L // nanosleep
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "affine.h"
#include "careful.h"
#include "data.h"
#include "endless.h"
#include "fib.h"
#include "forever.h"
#include "program.h"
#include "shown.h"
#include "sized.h"
#include "small.h"
#include "square.h"
#include "spread.h"
#include "wide.h"

static int wrong;
#define EXPECT(claim)                                                                              \
  ((claim) ? (void)0 : (void)(wrong++, printf("line %d: not %s\n", __LINE__, #claim)))

int32_t help(int32_t a) { return 10 * a; }

static void numbers(void) {
  int64_t r = 0;
  EXPECT(fib(20) == 6765);
  EXPECT(fib_on(NULL, 10, &r) == ANF_OK && r == 55);
  int8_t less = 0;
  bool no = true;
  uint16_t twice = 0;
  // 1.5 as bfloat16 is 0x3fc0, 3 is 0x4040
  EXPECT(small(-128, 65535, true, 0x3fc0, &less, &no, &twice) == 0);
  EXPECT(less == 127 && !no && twice == 0x4040);
}

static void tensors(void) {
  const float w[6] = {1, 2, 3, 4, 5, 6}, x[3] = {1, 10, 100}, b[2] = {0.5f, -0.5f};
  float y[2];
  int64_t k[3];
  EXPECT(affine(w, x, b, 2, y, k) == 2 * (321.5f + 653.5f));
  EXPECT(y[0] == 321.5f && y[1] == 653.5f && k[0] == 10 && k[2] == 30);
  const double v[4] = {1, -2, 3, 0.5};
  double g[4], value = 0;
  EXPECT(square_on(NULL, v, g, &value) == ANF_OK);
  EXPECT(value == 14.25 && g[0] == 2 && g[1] == -4 && g[2] == 6 && g[3] == 1);
}

static void contraction(void) {
  static float x[64 * 48], y[48 * 80], z[64 * 80];
  for (int i = 0; i < 64 * 48; i++) x[i] = (float)(i % 7 - 3);
  for (int i = 0; i < 48 * 80; i++) y[i] = (float)(i % 5 - 2);
  wide(x, y, z);
  int bad = 0;
  for (int i = 0; i < 64; i++)
    for (int j = 0; j < 80; j++) {
      float s = 0; // small integers: exact in any order
      for (int k = 0; k < 48; k++) s += x[i * 48 + k] * y[k * 80 + j];
      bad += z[i * 80 + j] != (s > 0 ? s : 0);
    }
  EXPECT(bad == 0);
}

/* Built with --threads: the stream says how many, and the bits do not depend on it. */
static void threads(void) {
  enum { M = 256, K = 512, N = 256 };
  static float x[M * K], y[K * N], z[3][M * N];
  static const uint32_t many[3] = {1, 2, 7};
  for (int i = 0; i < M * K; i++) x[i] = (float)(i % 13) * 0.1f;
  for (int i = 0; i < K * N; i++) y[i] = (float)(i % 11) * 0.3f - 1.5f;
  for (int i = 0; i < 3; i++) {
    anf_stream *s =
        anf_stream_new(&(anf_stream_opts){.size = sizeof(anf_stream_opts), .threads = many[i]});
    EXPECT(anf_stream_threads(s) == many[i] && spread_on(s, x, y, z[i]) == ANF_OK);
    anf_stream_free(s);
  }
  EXPECT(memcmp(z[0], z[1], sizeof z[0]) == 0 && memcmp(z[0], z[2], sizeof z[0]) == 0);
  double sum = 0;
  for (int k = 0; k < K; k++) sum += (double)x[5 * K + k] * (double)y[k * N + 3];
  double want = (sum > 0 ? sum : 0) + 1, got = (double)z[2][5 * N + 3];
  EXPECT(got > want - 1e-3 && got < want + 1e-3);
}

static int printed;
static void print(void *user, int64_t site, size_t n, const uint64_t *leaf) {
  const anf_site *s = &program_object.site[site];
  printed++;
  EXPECT(user == &printed && n == 1 && (int32_t)leaf[0] == 7);
  EXPECT(program_object.nsite > (uint64_t)site && !s->text && s->line == 5);
}

static void expect_trap(const anf_stream *s, anf_trap_kind kind, const char *text, const char *file,
                        unsigned line) {
  const anf_trap *t = anf_stream_trap(s);
  EXPECT(t->kind == kind);
  if (strcmp(t->text, text) != 0) printf("'%s'\n", t->text);
  EXPECT(strcmp(t->text, text) == 0);
  EXPECT(strlen(t->file) >= strlen(file) &&
         strcmp(t->file + strlen(t->file) - strlen(file), file) == 0);
  EXPECT(t->line == line);
}

static void traps(void) {
  anf_stream_opts o = {.size = sizeof o, .stack_bytes = 1 << 20};
  anf_stream *s = anf_stream_new(&o);
  int32_t q = 1;
  anf_stream_set_print(s, print, &printed);
  EXPECT(program_on(s, 7, 2, &q) == ANF_OK && q == 3);
  EXPECT(program_on(s, 7, 0, &q) == ANF_INVALID && q == 3);
  EXPECT(printed == 2);
  expect_trap(s, ANF_TRAP_SITE, "FloorDiv divides an integer by zero", "program.anf", 5);
  const float t[3] = {5, 6, 7};
  float e = 0;
  EXPECT(careful_on(s, 2, t, &e) == ANF_OK && e == 7);
  EXPECT(careful_on(s, 0, t, &e) == ANF_INVALID);
  expect_trap(s, ANF_TRAP_SITE, "assertion failed: n is \"positive\"?\?/", "program.anf", 6);
  EXPECT(careful_on(s, 3, t, &e) == ANF_INVALID);
  EXPECT(strstr(anf_stream_trap(s)->text, "3"));
  EXPECT(careful(0, t) == 0);
  expect_trap(anf_stream_of_thread(), ANF_TRAP_SITE, "assertion failed: n is \"positive\"?\?/",
              "program.anf", 6);
  int64_t deep = 0;
  EXPECT(forever_on(s, 1, &deep) == ANF_LIMIT);
  expect_trap(s, ANF_TRAP_DEPTH, "too many calls under way", "program.anf", 7);
  anf_stream_free(s);
}

static void *cancels(void *s) {
  nanosleep(&(struct timespec){0, 20000000}, NULL);
  anf_stream_cancel((anf_stream *)s);
  return NULL;
}

/* Another thread stops what would never end; the stream serves the next call. */
static void is_stopped(void) {
  anf_stream *s = anf_stream_new(NULL);
  pthread_t t;
  double r = 0;
  EXPECT(pthread_create(&t, NULL, cancels, s) == 0);
  EXPECT(endless_on(s, 100, 1.0, &r) == ANF_CANCELLED);
  EXPECT(pthread_join(t, NULL) == 0);
  EXPECT(anf_stream_trap(s)->kind == ANF_TRAP_CANCELLED);
  EXPECT(endless_on(s, 2, 1.0, &r) == ANF_OK && r > 1.0);
  anf_stream_free(s);
}

/* Without anyone who listens: to standard output */
static void shows(void) {
  const float t[6] = {0.1f, 2, 3, 4, 5, 1e20f};
  const uint16_t h[2] = {0x3fc0, 0x4010}; // 1.5 and 2.25
  EXPECT(shown(7, t, h, NULL, true) == 7);
}

/* Code and data are apart: one more instance of the same object */
static void instances(void) {
  EXPECT(next(10) == 10);
  EXPECT(next(5) == 11);
  anf_object mine = data_object;
  EXPECT(mine.image && mine.bytes >= 16 + 400000);
  mine.data = aligned_alloc(64, (size_t)(mine.bytes + 63) / 64 * 64);
  if (!mine.data) exit(9);
  memcpy(mine.data, mine.image, (size_t)mine.bytes);
  anf_generic args[2] = {{.s64 = 10}, {.bits = 0}};
  EXPECT(anf_object_enter(&mine, NULL, next_0wrapper, args, ANF_RT_TRAPS | ANF_RT_STREAM) ==
         ANF_OK);
  EXPECT(args[1].s64 == 10);
  EXPECT(next(0) == 11);
  free(mine.data);
  EXPECT(touch(99999) == 0.5f && touch(99999) == 1);
  EXPECT(helped(4) == 41);
  mine.version++;
  EXPECT(anf_object_enter(&mine, NULL, next_0wrapper, args, 0) == ANF_UNSUPPORTED);
}

/* Code for a processor that this one is not, and such as a later Anfora knows: no instruction of it runs. */
static void processors(void) {
  anf_generic args[2] = {{.s64 = 1}, {.bits = 0}};
  anf_object mine = data_object;
  EXPECT(mine.needs != NULL);
  mine.needs = "";
  EXPECT(anf_object_enter(&mine, NULL, next_0wrapper, args, ANF_RT_TRAPS | ANF_RT_STREAM) ==
         ANF_OK);
  for (int flags = 0; flags < 2; flags++) {
    mine.needs = "sse3,no_such_feature,sse3";
    EXPECT(anf_object_enter(&mine, NULL, next_0wrapper, args,
                            flags ? ANF_RT_TRAPS | ANF_RT_STREAM : 0) == ANF_UNSUPPORTED);
    const anf_trap *t = anf_stream_trap(anf_stream_of_thread());
    EXPECT(t->status == ANF_UNSUPPORTED && strstr(t->text, "lacks no_such_feature,"));
  }
}

static void count_prints(void *user, int64_t site, size_t n, const uint64_t *leaf) {
  (void)site;
  *(int64_t *)user = n ? (int64_t)leaf[0] : -1;
}

/* Sizes of dims are arguments: every combination has the numbers of a program for it alone. */
static void sizes(void) {
  float x[9], y[12], twice[24], sum = 0;
  double product[6];
  int64_t rows = 0;
  anf_stream *s = anf_stream_new(NULL);
  anf_stream_set_print(s, count_prints, &rows);
  for (int i = 0; i < 9; i++) x[i] = (float)(i + 1);
  for (int i = 0; i < 12; i++) y[i] = (float)(2 * i);
  EXPECT(sized_SIZES == 4 && sized_sizes[1][0] == 1 && sized_sizes[1][1] == 4);
  for (int at = 0; at < sized_SIZES; at++) {
    int64_t B = sized_sizes[at][0], T = sized_sizes[at][1], n = B * T;
    EXPECT(sized_on(s, B, T, x, y, 1, product, twice, &sum) == ANF_OK);
    EXPECT(sum == (float)(n * (n - 1)) / 2); // twice the sum of 0..n-1, halved
    EXPECT(rows == B);
    EXPECT(product[0] == 22 && product[1] == 28 && (B == 1 || product[4] == 76));
    EXPECT(memcmp(twice, y, (size_t)n * sizeof *y) == 0);
    EXPECT(memcmp(twice + n, y, (size_t)n * sizeof *y) == 0);
  }
  EXPECT(sized_object.bytes == 64); // the table of six numbers is there once
  EXPECT(sized_on(s, 2, 4, x, y, 1, product, twice, &sum) == ANF_INVALID);
  expect_trap(s, ANF_TRAP_SITE,
              "sized was not built for B = 2, T = 4 (only for B = 1, 3 and T = 1, 4)",
              "program.anf", 30);
  x[0] = 100;
  EXPECT(sized_on(s, 3, 1, x, y, 1, product, twice, &sum) == ANF_INVALID);
  expect_trap(s, ANF_TRAP_SITE, "assertion failed: x is too large", "program.anf", 28);
  anf_stream_free(s);
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "shown") == 0) {
    shows();
    return wrong != 0;
  }
  numbers();
  tensors();
  contraction();
  sizes();
  threads();
  traps();
  is_stopped();
  instances();
  processors();
  return wrong != 0;
}
