// SPDX-License-Identifier: Apache-2.0
/* Numbers as text and back: with a decimal point, whatever locale the host has set; in the shortest form that reads
 * back exactly. The run time prints by this too, so it needs no context.
 *   0.1f   ->   "0.1"          1.0   ->   "1.0"          1.0 / 3   ->   "0.3333333333333333" */
#define _DEFAULT_SOURCE // newlocale
#include "base/base.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>

/* The C locale for this thread, for as long as it takes. Making it costs nothing in glibc. */
typedef struct {
  locale_t c, before;
} plain_numbers;

static plain_numbers begin_plain(void) {
  locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  return (plain_numbers){c, c ? uselocale(c) : (locale_t)0};
}

static void end_plain(plain_numbers p) {
  if (!p.c) return;
  uselocale(p.before);
  freelocale(p.c);
}

double anfi_read_f64(const char *s, char **end) {
  plain_numbers p = begin_plain();
  double v = strtod(s, end);
  end_plain(p);
  return v;
}

float anfi_read_f32(const char *s, char **end) {
  plain_numbers p = begin_plain();
  float v = strtof(s, end);
  end_plain(p);
  return v;
}

void anfi_format_f64(char *buf, size_t size, int digits, double v) {
  plain_numbers p = begin_plain();
  snprintf(buf, size, "%.*g", digits, v);
  end_plain(p);
}

/* A float's text always shows that it is one: "1.0", "1e+300", "inf". */
static size_t real(char *buf) {
  if (!strpbrk(buf, ".einf")) strcat(buf, ".0");
  return strlen(buf);
}

static bool special(char *buf, double v) {
  if (isfinite(v)) return false;
  strcpy(buf, isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
  return true;
}

size_t anfi_text_f64(char *buf, double v) {
  if (special(buf, v)) return strlen(buf);
  for (int p = fabs(v) < DBL_MIN ? 1 : DBL_DIG; p <= 17; p++) { // subnormals need fewer digits
    anfi_format_f64(buf, ANFI_NUMBER, p, v);
    if (anfi_read_f64(buf, NULL) == v) break;
  }
  return real(buf);
}

size_t anfi_text_f32(char *buf, float v) {
  if (special(buf, (double)v)) return strlen(buf);
  for (int p = fabsf(v) < FLT_MIN ? 1 : FLT_DIG; p <= 9; p++) {
    anfi_format_f64(buf, ANFI_NUMBER, p, (double)v);
    if (anfi_read_f32(buf, NULL) == v) break;
  }
  return real(buf);
}

size_t anfi_text_half(char *buf, uint16_t h, bool brain) {
  double v = (double)(brain ? anfi_bf16_to_f32(h) : anfi_f16_to_f32(h));
  for (int p = 1; p <= 9 && isfinite(v); p++) {
    anfi_format_f64(buf, ANFI_NUMBER, p, v);
    double back = anfi_read_f64(buf, NULL);
    if ((brain ? anfi_f64_to_bf16(back) : anfi_f64_to_f16(back)) == h)
      return anfi_text_f64(buf, back);
  }
  return anfi_text_f64(buf, v);
}
