// SPDX-License-Identifier: Apache-2.0
/* Progress of training: a bar on a terminal, else nothing between the lines of epochs; and the curve of the loss as
 * SVG.
 *   step 250 of 1000   ->   [######..................] 250/1000  loss 0.5120  800 steps/s */
#include <math.h>

#include "cli/train/train.h"

enum { BAR = 24, WIDTH = 640, HEIGHT = 360, LEFT = 56, RIGHT = 56, TOP = 40, BOTTOM = 40 };

static void bar(char *out, double part) {
  int full = (int)(part * (int)BAR);
  for (int i = 0; i < BAR; i++) out[i] = i < full ? '#' : '.';
  out[BAR] = 0;
}

void train_show(train_log *log, double loss, double accuracy, bool last) {
  uint64_t now = anfi_os_now_ns();
  double keep = log->done > 1 ? 0.95 : 0.0;
  log->smooth_loss = keep * log->smooth_loss + (1.0 - keep) * loss;
  log->smooth_accuracy = keep * log->smooth_accuracy + (1.0 - keep) * accuracy;
  if (!log->terminal || (!last && now - log->shown < 100000000)) return;
  char b[BAR + 1], words[64] = "";
  log->shown = now;
  bar(b, (double)log->done / (double)log->nstep);
  if (!isnan(accuracy)) snprintf(words, sizeof words, "  accuracy %.3f", log->smooth_accuracy);
  fprintf(stderr, "\r[%s] %zu/%zu  loss %.4f%s  %.0f steps/s ", b, log->done, log->nstep,
          log->smooth_loss, words, (double)log->done / ((double)(now - log->start + 1) / 1e9));
  if (last) fputc('\n', stderr);
}

/* ---- the curve ---- */

typedef struct axis {
  double lo, hi;
} axis;

static double x_of(const train_log *log, double step) {
  const int width = WIDTH - LEFT - RIGHT;
  return (int)LEFT + width * step / (double)(log->loss.n > 1 ? log->loss.n - 1 : 1);
}
static double y_of(axis a, double v) {
  const int height = HEIGHT - TOP - BOTTOM;
  return (int)TOP + height * (1.0 - (v - a.lo) / (a.hi - a.lo));
}

static axis range(const double *v, size_t n, double lo) {
  axis a = {lo, lo};
  for (size_t i = 0; i < n; i++)
    if (isfinite(v[i]) && v[i] > a.hi) a.hi = v[i];
    else if (isfinite(v[i]) && v[i] < a.lo) a.lo = v[i];
  if (a.hi - a.lo < 1e-12) a.hi = a.lo + 1.0;
  return a;
}

static void put_ticks(anf_text *o, axis a, double x, const char *anchor, const char *colour) {
  for (int i = 0; i <= 4; i++) {
    double v = a.lo + (a.hi - a.lo) * i / 4;
    anfi_putf(o, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" fill=\"%s\">%.3g</text>\n", x,
              y_of(a, v) + 4, anchor, colour, v);
  }
}

/* At most a point for each pixel: means of what falls on it. */
static void put_losses(anf_text *o, const train_log *log, axis a) {
  size_t n = log->loss.n, each = n / (WIDTH - LEFT - RIGHT) + 1;
  anfi_puts(o, "<polyline fill=\"none\" stroke=\"#1f5fa8\" stroke-width=\"1.5\" points=\"");
  for (size_t i = 0; i < n; i += each) {
    double sum = 0;
    size_t k = 0;
    for (; k < each && i + k < n; k++) sum += log->loss.at[i + k];
    if (isfinite(sum))
      anfi_putf(o, "%.1f,%.1f ", x_of(log, (double)i + (double)(k - 1) / 2),
                y_of(a, sum / (double)k));
  }
  anfi_puts(o, "\"/>\n");
}

static void put_tests(anf_text *o, const train_log *log, axis a) {
  anfi_puts(o, "<polyline fill=\"none\" stroke=\"#b3541e\" stroke-width=\"1.5\" points=\"");
  for (size_t i = 0; i < log->test.n; i++)
    anfi_putf(o, "%.1f,%.1f ", x_of(log, (double)log->test_at.at[i] - 1), y_of(a, log->test.at[i]));
  anfi_puts(o, "\"/>\n");
}

static void put_escaped(anf_text *o, const char *s) {
  for (; *s; s++)
    if (*s == '<') anfi_puts(o, "&lt;");
    else if (*s == '&') anfi_puts(o, "&amp;");
    else anfi_putc(o, *s);
}

void train_curve(const train_log *log, const char *title, anf_text *o) {
  axis loss = range(log->loss.at, log->loss.n, 0.0), test = range(log->test.at, log->test.n, 0.0);
  anfi_putf(o,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "font-family=\"sans-serif\" font-size=\"11\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
            "<text x=\"%d\" y=\"20\" font-size=\"14\">",
            WIDTH, HEIGHT, LEFT);
  put_escaped(o, title);
  anfi_putf(o,
            "</text>\n<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" "
            "stroke=\"#999\"/>\n",
            LEFT, TOP, WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
  put_ticks(o, loss, LEFT - 6, "end", "#1f5fa8");
  put_losses(o, log, loss);
  if (log->test.n) {
    put_ticks(o, test, WIDTH - RIGHT + 6, "start", "#b3541e");
    put_tests(o, log, test);
    anfi_putf(o,
              "<text x=\"%d\" y=\"20\" text-anchor=\"end\" fill=\"#b3541e\">%s, held out</text>\n",
              WIDTH - RIGHT, log->test_name);
  }
  anfi_putf(o, "<text x=\"%d\" y=\"%d\" fill=\"#1f5fa8\">loss</text>\n", LEFT, TOP - 6);
  anfi_putf(o, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%zu steps</text>\n</svg>\n",
            WIDTH - RIGHT, HEIGHT - 16, log->loss.n);
}
