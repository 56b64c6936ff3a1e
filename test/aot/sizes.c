// SPDX-License-Identifier: Apache-2.0
/* A step that was built for two sizes of a batch does what the steps for each of them do. Reports the first difference. */
#include <stdio.h>
#include <string.h>

#include "half.h"
#include "init.h"
#include "sized.h"
#include "step.h"

static int wrong;
#define EXPECT(claim)                                                                              \
  ((claim) ? (void)0 : (void)(wrong++, printf("line %d: not %s\n", __LINE__, #claim)))

static uint8_t x[32 * 64], y[32];
static init_out first;
static step_state whole, before;
static half_state half;
static sized_state state;

int main(void) {
  const step_rate rate = {.lr = 0.1f, .by = {{7, 0.1f}, 3}};
  step_out a = {0};
  half_out b = {0};
  sized_out c = {0};
  EXPECT(init_run(NULL, 0, &first) == ANF_OK);
  EXPECT(sizeof first == sizeof whole && sizeof half == sizeof whole &&
         sizeof state == sizeof whole);
  memcpy(&whole, &first, sizeof first);
  memcpy(&state, &first, sizeof first);
  for (int i = 0; i < 32; i++) y[i] = (uint8_t)(i % 10);
  for (int i = 0; i < 32 * 64; i++) x[i] = (uint8_t)(i % 64 * (y[i / 64] + 3) % 17 & 15);
  for (int i = 0; i < 4; i++) {
    bool all = i % 2 == 0;
    EXPECT(sized_run(NULL, all ? 32 : 16, &state, x, y, (const sized_rate *)(const void *)&rate,
                     &c) == ANF_OK);
    if (all) EXPECT(step_run(NULL, &whole, x, y, &rate, &a) == ANF_OK);
    memcpy(&half, &whole, sizeof half);
    if (!all)
      EXPECT(half_run(NULL, &half, x, y, (const half_rate *)(const void *)&rate, &b) == ANF_OK);
    memcpy(&whole, &half, sizeof half);
    EXPECT(memcmp(&state, &whole, sizeof whole) == 0 && c.loss == (all ? a.loss : b.loss));
  }
  memcpy(&before, &state, sizeof state);
  EXPECT(sized_run(NULL, 31, &state, x, y, (const sized_rate *)(const void *)&rate, &c) != ANF_OK);
  EXPECT(strstr(anf_stream_trap(anf_stream_of_thread())->text, "B = 31"));
  EXPECT(memcmp(&before, &state, sizeof state) == 0);
  return wrong != 0;
}
