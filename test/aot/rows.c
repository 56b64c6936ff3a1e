// SPDX-License-Identifier: Apache-2.0
/* A batch of any size gives for each row what the row alone gives, and touches nothing else. Reports the first difference. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "heads.h"
#include "image.h"
#include "net.h"
#include "one_heads.h"
#include "one_image.h"
#include "one_net.h"
#include "one_slopes.h"
#include "one_turned.h"
#include "one_words.h"
#include "slopes.h"
#include "turned.h"
#include "words.h"

enum { MOST = 150 };
static int wrong;
#define EXPECT(claim)                                                                              \
  ((claim) ? (void)0 : (void)(wrong++, printf("line %d: not %s\n", __LINE__, #claim)))

static float number(int i) { return (float)(i * 7919 % 101) * 0.02f - 1; }

static void fill(float *x, int n) {
  for (int i = 0; i < n; i++) x[i] = number(i);
}

/* Rows of `got` are those of `want`, and the row behind them is as it was. */
static int same(const float *got, const float *want, int64_t rows, int n) {
  for (int64_t i = 0; i < rows * n; i++)
    if (fabsf(got[i] - want[i]) > 1e-5f) return 0;
  for (int i = 0; i < n; i++)
    if (got[rows * n + i] != 77.0f) return 0;
  return 1;
}

static void clear(float *x, int n) {
  for (int i = 0; i < n; i++) x[i] = 77.0f;
}

static void net_of(int64_t rows) {
  static float w[48], b[8], v[64], c[8], x[MOST * 6], near[2][(MOST + 1) * 8], loss[2][MOST + 1],
      h[2][(MOST + 1) * 8];
  static int64_t most[2][MOST + 1];
  static int32_t y[MOST];
  fill(w, 48), fill(b, 8), fill(v, 64), fill(c, 8), fill(x, MOST * 6);
  for (int i = 0; i < MOST; i++) y[i] = i * 5 % 8;
  clear(near[0], (MOST + 1) * 8), clear(loss[0], MOST + 1), clear(h[0], (MOST + 1) * 8);
  EXPECT(net_on(NULL, rows, w, b, v, c, x, y, most[0], near[0], loss[0], h[0]) == ANF_OK);
  for (int64_t i = 0; i < rows; i++)
    EXPECT(one_net_on(NULL, 1, w, b, v, c, x + 6 * i, y + i, most[1] + i, near[1] + 8 * i,
                      loss[1] + i, h[1] + 8 * i) == ANF_OK);
  EXPECT(memcmp(most[0], most[1], (size_t)rows * sizeof **most) == 0);
  EXPECT(same(near[0], near[1], rows, 8) && same(loss[0], loss[1], rows, 1) &&
         same(h[0], h[1], rows, 8));
}

static void image_of(int64_t rows) {
  static float w[54], x[MOST * 72], out[2][(MOST + 1) * 14];
  fill(w, 54), fill(x, MOST * 72);
  clear(out[0], (MOST + 1) * 14);
  EXPECT(image_on(NULL, rows, x, w, out[0]) == ANF_OK);
  for (int64_t i = 0; i < rows; i++)
    EXPECT(one_image_on(NULL, 1, x + 72 * i, w, out[1] + 14 * i) == ANF_OK);
  EXPECT(same(out[0], out[1], rows, 14));
}

static void words_of(int64_t rows) {
  static float table[40], out[2][(MOST + 1) * 4];
  static int32_t ids[MOST * 5];
  fill(table, 40);
  for (int i = 0; i < MOST * 5; i++) ids[i] = i * 3 % 10;
  clear(out[0], (MOST + 1) * 4);
  EXPECT(words_on(NULL, rows, table, ids, 3.0f, out[0]) == ANF_OK);
  for (int64_t i = 0; i < rows; i++)
    EXPECT(one_words_on(NULL, 1, table, ids + 5 * i, 3.0f, out[1] + 4 * i) == ANF_OK);
  EXPECT(same(out[0], out[1], rows, 4));
}

/* Elements of two numbers, of a byte, and bools */
static void turned_of(int64_t rows) {
  static float z[MOST * 6], out[2][(MOST + 1) * 6];
  static bool k[MOST], not_k[2][MOST + 1];
  static uint8_t n[MOST * 2], more[2][(MOST + 1) * 2];
  fill(z, MOST * 6);
  for (int i = 0; i < MOST; i++) k[i] = i % 3 == 0;
  for (int i = 0; i < 2 * MOST; i++) n[i] = (uint8_t)(i * 11);
  clear(out[0], (MOST + 1) * 6);
  EXPECT(turned_on(NULL, rows, z, k, n, out[0], not_k[0], more[0]) == ANF_OK);
  for (int64_t i = 0; i < rows; i++)
    EXPECT(one_turned_on(NULL, 1, z + 6 * i, k + i, n + 2 * i, out[1] + 6 * i, not_k[1] + i,
                         more[1] + 2 * i) == ANF_OK);
  EXPECT(same(out[0], out[1], rows, 6));
  EXPECT(memcmp(not_k[0], not_k[1], (size_t)rows) == 0 &&
         memcmp(more[0], more[1], 2 * (size_t)rows) == 0);
}

static void heads_of(int64_t rows) {
  static float w[64], x[MOST * 32], out[2][(MOST + 1) * 32];
  fill(w, 64), fill(x, MOST * 32);
  clear(out[0], (MOST + 1) * 32);
  EXPECT(heads_on(NULL, rows, x, w, out[0]) == ANF_OK);
  for (int64_t i = 0; i < rows; i++)
    EXPECT(one_heads_on(NULL, 1, x + 32 * i, w, out[1] + 32 * i) == ANF_OK);
  EXPECT(same(out[0], out[1], rows, 32));
}

static void slopes_of(int64_t rows) {
  static float w[16], x[MOST * 4], out[2][(MOST + 1) * 4];
  fill(w, 16), fill(x, MOST * 4);
  clear(out[0], (MOST + 1) * 4);
  EXPECT(slopes_on(NULL, rows, x, w, out[0]) == ANF_OK);
  for (int64_t i = 0; i < rows; i++)
    EXPECT(one_slopes_on(NULL, 1, x + 4 * i, w, out[1] + 4 * i) == ANF_OK);
  EXPECT(same(out[0], out[1], rows, 4));
}

int main(void) {
  static const int64_t sizes[] = {0, 1, 2, 7, 8, 9, 63, 64, 65, 72, 127, 128, 150};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    net_of(sizes[i]), image_of(sizes[i]), words_of(sizes[i]), turned_of(sizes[i]);
    heads_of(sizes[i]), slopes_of(sizes[i]);
  }
  EXPECT(words_on(NULL, -1, NULL, NULL, 1, NULL) != ANF_OK);
  EXPECT(strstr(anf_stream_trap(anf_stream_of_thread())->text, "B = -1"));
  EXPECT(net_SIZES == 3 && net_sizes[0][0] == 1 && net_sizes[2][0] == 64);
  return wrong != 0;
}
