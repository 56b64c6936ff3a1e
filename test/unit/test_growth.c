// SPDX-License-Identifier: Apache-2.0
/* Growth: loops over arrays cost as much a round in their gradient at n as at 4 n. A copy of an array in each round would
 * cost 16 times as much in all. Counted are bytes that the interpreter allocates and steps of the lowered code, in the
 * interpreter of Tensor IR; no clock. Each gradient is compared with finite differences and with forward mode, and
 * compiled ones with the interpreter's. The programs below, and random ones, which also find each of the analyses that keep
 * loops linear when it is off:
 *   test_growth                  all of it
 *   test_growth SEED COUNT       random ones alone
 *   test_growth SEED             the text of one
 *   test_growth FILE             those of a file that holds such a text, `(x: f64[N]) { .. }` */
#include "test/random/loops.h"
#include "anfora/tir.h"
#include "test/unit/program.h"

#include <math.h>

typedef struct growth {
  const char *name, *text;
  size_t width;     // of x: f64[N, width]; 0: f64[N]
  bool code;        // only the lowered code's steps count
  unsigned without; // ANFI_WITHOUT_..
} growth;

#define X    "(x: f64[N]) "
#define M    "(x: f64[N, 5]) "
#define TERM "s = s * 0.5 + x[i] * y[i+1] * Sin(d * s) + y[i] * x[i-1] * Tanh(s * d); "
#define LEFT /* a loop that is left with a number of the array that it writes */                   \
  "{ def find(x) { z = 0.3 * x; s = 0.0; for i in 1..len(x) { z = IndexWrite(z, i, 0.5 * z[i-1] "  \
  "+ x[i]); s = s + z[i]; if s > 0.9 * f64(len(x)) { return Sum(z * x) * s } }; Sum(z) * s }; "
#define MIRROR /* a rule that reads two elements */                                                \
  "{ r = custom_jvp(fn (v, i) { v[i] * Sin(v[len(v)-1-i]) }, fn (p, t) { (v, i) = p; (d, e) = t; " \
  "j = len(v)-1-i; (v[i] * Sin(v[j]), d[i] * Sin(v[j]) + v[i] * Cos(v[j]) * d[j]) }); z = 0.3 * "  \
  "x; s = 0.3; "
static const growth cases[] = {
    {"differences", X "{ s = 0.0; for i in 1..len(x) { d = x[i] - x[i-1]; s = s + d * d }; s }", 0,
     false, 0},
    {"branch",
     X "{ s = 0.0; for i in 1..len(x) { if x[i] > 0.5 { d = x[i] - x[i-1]; s = s + d * d } }; s }",
     0, false, 0},
    {"branches",
     X "{ s = 0.0; for i in 1..len(x) { if x[i] > 0.5 { s = s + x[i] * x[i-1] } else { if x[i] > "
       "0.25 { s = s - x[i] } } }; s }",
     0, false, 0},
    {"nest",
     M "{ s = 0.0; for i in 0..len(x) { for j in 0..5 { s = s + x[i, j] * x[i, j] * x[i, 0] } }; s "
       "}",
     5, false, 0},
    {"rows", M "{ s = 0.0; for i in 0..len(x) { r = x[i]; s = s + Sum(r * r) * r[0] }; s }", 5,
     false, 0},
    {"window", X "{ s = 0.0; for i in 0..len(x)-3 { s = s + Sum(x[i:i+3] * x[i+1]) * x[i] }; s }",
     0, false, 0},
    {"calls",
     X "{ def h(v, i) { if i > 0 { v[i] * v[i-1] } else { v[i] } }; s = 0.0; for i in 0..len(x) { "
       "s = s + h(x, i) * h(x, len(x) - 1 - i) }; s }",
     0, false, 0},
    {"checkpoints of calls",
     X
     "{ def h(x, i, s) { if s > 0.5 { s * 0.5 + x[i] * x[i-1] * Sin(s) } else { s + x[i] } }; "
     "def g(x, i, s) { for j in 0..2 { s = checkpoint(h, keep=\"all\")(x, i, s) * x[i-j] }; s }; s "
     "= 1.0; for i in 1..len(x) { if x[i] > 0.3 { s = checkpoint(g)(x, i, s) + x[i-1] } }; s }",
     0, false, 0},
    {"tail",
     X "{ def t(i, s) { if i == len(x) { s } else { t(i + 1, s + x[i] * s * 0.001) } }; t(0, 1.0) "
       "}",
     0, false, 0},
    {"inner",
     X "{ s = 1.0; i = 0; while i < len(x) and s < 1e9 { for j in 0..3 { s = s + x[i] * 1e-4 * "
       "x[(i + j) % len(x)] * s }; i = i + 1 }; s }",
     0, false, 0},
    {"fill",
     X "{ z = 0.0 * x; for i in 1..len(x) { z = IndexWrite(z, i, x[i] * x[i-1]) }; Sum(z * z) }", 0,
     false, 0},
    {"recurrence",
     X "{ z = 0.0 * x; for i in 1..len(x) { z = IndexWrite(z, i, x[i] * z[i-1] + 1.0) }; Sum(z * "
       "z) }",
     0, false, 0},
    {"fill rows",
     M "{ z = 0.0 * x; for i in 1..len(x) { z = IndexWrite(z, i, x[i] * z[i-1] + 1.0, axis=0) }; "
       "Sum(z * z) }",
     5, false, 0},
    {"swaps",
     X "{ z = x * 1.0; for i in 1..len(x) { a = z[i-1]; b = z[i]; if a > b { z = IndexWrite(z, "
       "i-1, b); z = IndexWrite(z, i, a) } }; Sum(z * z * z[0]) }",
     0, false, 0},
    {"read by a branch, written after it",
     X "{ z = 0.3 * x; for i in 1..len(x) { u = if i % 2 == 0 { z[i] * x[i] } else { x[i] }; z = "
       "IndexWrite(z, i, 0.5 * u) }; Sum(z * z) }",
     0, false, 0},
    {"written by a branch, read by one in it",
     X "{ z = 0.3 * x; s = 0.3; for i in 1..len(x) { if i % 2 == 0 { z = IndexWrite(z, i, x[i] * "
       "s); if x[i] > 0.4 { s = s * 0.8 + z[i] } } }; s + Sum(z * z) }",
     0, false, 0},
    {"read by an inner loop, written after it",
     X "{ z = 0.3 * x; for i in 1..len(x) { s = 0.0; for j in 0..3 { s = s + z[(i + j) % len(x)] * "
       "x[j] }; z = IndexWrite(z, i, 0.5 * s) }; Sum(z * z) }",
     0, true, 0},
    {"histogram",
     X "{ h = Zeros((10,), dtype=f64); for i in 0..len(x) { k = cast(x[i] * 10.0, i64); h = "
       "IndexWrite(h, k, x[i] * x[i], mode=\"add\") }; Sum(h * h) }",
     0, false, 0},
    {"recursion",
     X "{ def r(l, h) { if h - l == 1 { x[l] * x[l] } else { m = (l + h) // 2; r(l, m) * 0.5 + "
       "r(m, h) * x[m] } }; r(0, len(x)) }",
     0, false, 0},
    {"an array twice, in a loop",
     X "{ def g(x, y, i) { s = 0.0; j = i; while j < i + 3 { d = x[j] - y[j-1]; s = s + d * d * "
       "y[j]; j = j + 1 }; s }; s = 0.0; for i in 1..len(x)-3 { s = s + g(x, x, i); if s > 0.3 { "
       "s = s - g(x, x, i + 1) } }; s }",
     0, true, 0},
    {"an array twice, in calls", // of a function that is too large to be inlined
     X "{ def g(x, y, i) { d = x[i] - y[i-1]; s = d * y[i] + x[i+1]; " TERM TERM TERM TERM
       "s }; def h(x, y, i) { g(x, y, i) * g(x, x, i) + g(y, x, i) }; s = 0.0; for i in "
       "1..len(x)-1 { s = s + h(x, x, i); if s > 0.3 { s = s - h(x, x, i) } }; s }",
     0, true, 0},
    {"exchange",
     X "{ u = x * 1.0; v = x * 0.5; for i in 1..len(x) { w = IndexWrite(u, i, x[i] * v[i-1]); u = "
       "v; v = w }; Sum(u * v * v) }",
     0, false, 0},
    {"exchange of three, by branches",
     X
     "{ u = x * 1.0; v = x * 0.5; w = x * 0.3; i = 1; while i < len(x) { t = if x[i] > 0.4 { "
     "IndexWrite(u, i, x[i] * v[i-1]) } else { u }; u = v; v = IndexWrite(w, i-1, w[i] * w[i-1]); "
     "w = t; i = i + 1 }; Sum(u * v * w) }",
     0, true, 0},
    {"exchange in a branch", // of one that the other branch writes
     X "{ u = x * 1.0; v = x * 0.5; for i in 1..len(x) { if x[i] > 0.5 { w = IndexWrite(u, i, x[i] "
       "* v[i-1]); u = v; v = w } else { u = IndexWrite(u, i, x[i] + 0.5 * v[i-1]) } }; Sum(u * v "
       "* v) }",
     0, true, 0},
    {"exchange alone in a branch, in an inner loop, in an outer one",
     X "{ u = x * 1.0; v = x * 0.5; i = 1; while i < len(x) { k = i; while k < i + 2 and x[i] > "
       "0.3 { if x[i] > 0.6 { (u, v) = (v, u) }; v = IndexWrite(v, i, x[i] * u[i-1] + 0.5 * v[i]); "
       "(u, v) "
       "= (v, u); k = k + 1 }; (u, v) = (v, u); i = i + 1 }; Sum(u * v * v) }",
     0, true, 0},
    {"exchange in a branch of an inner loop, beside an array that it passes on",
     X "{ u = x * 1.0; v = x * 0.5; w = x * 0.3; for i in 1..len(x) { for j in 0..3 { if i % 2 == "
       "0 { (u, v, w) = (v, u, w) } }; u = IndexWrite(u, i, x[i] * x[i-1]) }; Sum(u * v * w) }",
     0, false, 0},
    {"exchange of three in nested branches",
     X
     "{ u = x * 1.0; v = x * 0.5; w = x * 0.25; for i in 1..len(x) { if x[i] > 0.6 { y = u; u = v; "
     "v = w; w "
     "= y } else { if x[i] > 0.3 { (u, w) = (w, u) } }; u = IndexWrite(u, i, x[i] * v[i-1] + w[i]) "
     "}; Sum(u * v * w) }",
     0, true, 0},
    {"exchange in branches, of arrays that nothing writes",
     X "{ u = x * 1.0; v = x * 0.5; s = 0.0; for i in 1..len(x) { if x[i] > 0.5 { (u, v) = (v, u) "
       "}; if u[0] > 0.3 { (u, v) = (v, u) }; s = s + u[i] * v[i-1] }; s }",
     0, true, 0},
    {"return of what a loop writes",
     X "{ def fill(x) { z = 0.3 * x; for i in 1..len(x) { z = IndexWrite(z, i, 0.5 * z[i-1] + "
       "x[i]); if z[i] > 1.97 { return z } }; z * 2.0 }; z = fill(x); Sum(z * z) }",
     0, true, 0},
    {"return of a number of the whole array", X LEFT "find(x) }", 0, false, 0},
    {"returns of several numbers, of arrays that rounds exchange",
     X
     "{ def find(x) { u = x * 1.0; v = 0.5 * x; s = 0.0; for i in 1..len(x) { w = IndexWrite(u, i, "
     "x[i] * v[i-1]); u = v; v = w; s = s + u[i] * v[i]; if s > 0.3 * f64(len(x)) { return Sum(u "
     "* x) }; if s < -1e9 { return Sum(u * v) * s }; if x[i] > 2.0 { return x[i] } }; Sum(u * v * "
     "v) + s }; find(x) }",
     0, false, 0},
    {"return of a number of the whole array, second order", X LEFT "Sum(grad(find)(x) ** 2) }", 0,
     true, 0},
    {"return of a number of the whole array, in a batch",
     X LEFT "Sum(vmap(find)(Stack(x, x * 0.5, x * 0.1)) ** 2) }", 0, true, 0},
    {"searches that return, in a loop",
     X
     "{ def find(x, k) { j = k; while j < k + 5 { if x[j % len(x)] > x[k] { return x[j % len(x)] * "
     "x[k] }; j = j + 1 }; x[k] }; s = 0.0; for i in 0..len(x) { s = s + find(x, i) * x[i] }; s }",
     0, false, 0},
    {"a candidate that is taken or dropped",
     X
     "{ z = 0.5 * x; best = 1.0; for i in 1..len(x) { c = IndexWrite(z, i, x[i] * z[i-1] + 0.3); e "
     "= Abs(c[i] - 0.8 * c[i-1]); if e < best { z = c; best = e * 0.9 + 0.1 } }; Sum(z * z) + best "
     "}",
     0, true, 0},
    {"a candidate of two writes", // as two elements are exchanged
     X "{ z = 0.5 * x; best = 0.4; for i in 1..len(x) { c = IndexWrite(IndexWrite(z, i, z[i-1]), "
       "i-1, z[i] * 0.9); e = c[i] * x[i] - 0.8 * c[i-1]; z = if e < best { c } else { z }; best = "
       "0.5 * best + 0.5 * e }; Sum(z * z) + best }",
     0, true, 0},
    {"a candidate of a row",
     M
     "{ z = 0.5 * x; best = 1e9; for i in 1..len(x) { c = IndexWrite(z, i, x[i] * z[i-1], axis=0, "
     "mode=\"add\"); e = Sum(c[i] * x[i]); if e >= best { } else { z = c; best = e * 0.9 + 0.1 } "
     "}; Sum(z * z) + best }",
     5, true, 0},
    {"a candidate that nested branches take",
     X
     "{ z = 0.5 * x; acc = 0.1; for i in 1..len(x) { c = IndexWrite(z, i, z[i] + 0.3 * x[i-1] - "
     "0.15); a = c[i] - x[i] + 0.2; if a > 0.0 { z = c; acc = 0.9 * acc + 0.1 * a * a } else { if "
     "x[i] > 0.7 { z = c } } }; Sum(z * z) + acc }",
     0, true, 0},
    {"candidates of two arrays, in nested branches",
     X
     "{ z = 0.5 * x; w = 0.25 * x; for i in 1..len(x) { if x[i] > 0.3 { c = IndexWrite(z, i, "
     "w[i-1] * x[i]); if c[i] > 0.2 * z[i-1] { z = c } else { d = IndexWrite(w, i-1, 0.5 * z[i]); "
     "if d[i-1] < x[i] { w = d } } } }; Sum(z * w * z) }",
     0, true, 0},
    {"candidates that a branch gives, beside a branch that reads",
     X
     "{ z = 0.3 * x; s = 0.3; for i in 1..len(x) { if x[i] > 0.3 { c = IndexWrite(z, i, 0.5 * "
     "x[i]); "
     "if 0.5 * c[i] < 0.7 * (if i % 4 == 0 { x[i-1] } else { z[(i * 3 + 1) % len(x)] }) { z = c; s "
     "= 0.7 * s } } }; s + Mean(z * z) }",
     0, true, 0},
    {"exits that take one array of two",
     X
     "{ z = 0.3 * x; l = 0.2 * x; def q(z, l) { for i in 1..len(x) { l = IndexWrite(l, i, 0.9); a "
     "= "
     "z[i]; b = z[i-1]; if a > b { z = IndexWrite(z, i, b); z = IndexWrite(z, i-1, a) }; if x[i] > "
     "0.7 and 3 * i > 2 * len(x) { return Mean(z * x) } }; Mean(z * l) }; q(z, l) + Mean(z * z) }",
     0, true, 0},
    {"exits that take an array of an inner loop",
     X "{ def q(z, l) { for i in 1..len(x) { l = IndexWrite(l, i, x[i]); for j in 0..3 { a = z[i]; "
       "b = "
       "z[i-1]; if a > b { z = IndexWrite(z, i, b); z = IndexWrite(z, i-1, a) } }; if 3 * i > 2 * "
       "len(x) and i % 3 == 0 { return Mean(z * x) } }; Mean(z * l) }; q(0.3 * x, 0.2 * x) }",
     0, true, 0},
    {"exits that take one of two that are exchanged",
     X "{ def q(z, l) { for i in 1..len(x) { s = l[i]; l = IndexWrite(l, i, 0.4); if x[i] > 0.2 { "
       "(z, "
       "l) = (l, z) }; if s < 0.0 { return z[i] * x[i] } }; Mean(z * l) }; q(0.3 * x, 0.2 * x) }",
     0, true, 0},
    {"nested branches pass an array on",
     X
     "{ z = 0.3 * x; l = 0.2 * x; m = 0.1 * x; for i in 1..len(x) { for j in 0..3 { if i % 4 == 0 "
     "{ "
     "z = z } else { if i % 2 == 0 { (z, l, m) = (l, z, m) } } }; (z, l) = (l, z) }; Mean(z * z * "
     "z) + Mean(l * x) + Mean(m * x * x) }",
     0, true, 0},
    {"second order of branches in an inner loop",
     X "{ def d(x) { s = 0.0; for i in 1..len(x) { for j in 0..3 { if x[(i + j) % len(x)] > 0.5 { "
       "s = "
       "s + x[i] * x[j] * x[i] } } }; s }; Mean(grad(d)(x) ** 2) }",
     0, true, 0},
    {"the best state is copied",
     X "{ z = x * 1.0; best = z; fb = 1e9; for i in 1..len(x) { z = IndexWrite(z, i, 0.5 * z[i-1] "
       "+ x[i]); a = Abs(z[i] - 1.0); if a < fb { fb = a; best = z } }; Sum(best * best * x[0]) + "
       "fb }",
     0, true, 0},
    {"exchange by choices", // written as two of them
     X
     "{ u = x * 1.0; v = x * 0.5; for i in 1..len(x) { c = x[i] > 0.5; a = if c { v } else { u }; "
     "b = if c { u } else { v }; u = IndexWrite(a, i, x[i] * b[i-1] + 0.5 * a[i]); v = "
     "IndexWrite(b, i - 1, u[i] * 0.5) }; Sum(u * v * v) }",
     0, true, 0},
    {"exchange by choices, and back",
     X
     "{ u = x * 1.0; v = x * 0.5; for i in 1..len(x) { s = if i % 2 == 0 { u } else { v }; d = if "
     "i % 2 != 0 { u } else { v }; d = IndexWrite(d, i, x[i] * s[i-1]); u = if i % 2 == 0 { s } "
     "else { d }; v = if i % 2 == 0 { d } else { s } }; Sum(u * v * v) }",
     0, true, 0},
    {"exchange of three by choices",
     X
     "{ u = x * 1.0; v = x * 0.5; w = 0.3 * x; for i in 1..len(x) { c = x[i] > 0.5; a = if c { v } "
     "else { u }; b = if c { w } else { v }; d = if not c { w } else { u }; u = IndexWrite(a, i, "
     "x[i] * b[i-1] + d[i]); v = b; w = d }; Sum(u * v * w) }",
     0, true, 0},
    {"read of a chosen one of two",
     X "{ u = x * 1.0; v = x * 0.5; for i in 1..len(x) { s = if i % 2 == 0 { u } else { v }; a = "
       "s[i-1] + s[i] * 0.5; if i % 2 == 0 { v = IndexWrite(v, i, a) } else { u = IndexWrite(u, i, "
       "a) } }; Sum(u * v * v) * 1e-3 }",
     0, true, 0},
    {"recursion that writes", // depth first, in order
     X
     "{ n = len(x); def visit(k, a) { if k >= n { a } else { a = IndexWrite(a, k, a[k] * x[k // 2] "
     "+ 0.5 * a[(k + 1) % n]); a = visit(2 * k + 1, a); visit(2 * k + 2, a) } }; z = visit(0, x * "
     "1.0); Sum(z * z) }",
     0, true, 0},
    {"two exits", // of a recursion
     X
     "{ def go(a, k) { if k >= len(x) { a } else { if a[k] > 2.0 { IndexWrite(a, 0, x[k]) } else { "
     "go(IndexWrite(a, k, a[k] * x[k]), k + 1) } } }; z = go(x * 1.0, 0); Sum(z * z) }",
     0, true, 0},
    {"left by a break", // as Python's loops are
     X
     "{ def go(i, a, s) { if i < len(x) { a = IndexWrite(a, i, a[i-1] * 0.5 + x[i]); s = s + a[i]; "
     "if s > 1e9 { s } else { go(i + 1, a, s) } } else { s } }; go(1, x * 1.0, 0.0) }",
     0, true, 0},
    {"states of a machine",
     X
     "{ n = len(x); def p(a, b, k) { if k >= n { (a, b) } else { q(IndexWrite(a, k, a[k] * x[k]), "
     "b, k + 1) } }; def q(a, b, k) { if k >= n { (a, b) } else { if x[k] > 0.5 { p(b, "
     "IndexWrite(a, k, a[k] + b[k-1]), k + 1) } else { q(a, b, k + 1) } } }; (a, b) = p(x * 1.0, x "
     "* 0.5, 0); Sum(a * b * b) }",
     0, true, 0},
    {"exchange of rows", // as in the distance of two words
     X "{ u = x * 1.0; v = 0.0 * x; for i in 0..3 { for j in 1..len(x) { a = v[j-1] * 0.3; b = "
       "u[j] * x[j]; v = IndexWrite(v, j, if a > b { a } else { b }) }; w = u; u = v; v = w }; "
       "Sum(u * v) }",
     0, true, 0},
    {"exchange of stages", // of which one is read by an inner loop
     M "{ u = x * 1.0; v = 0.5 * x; for i in 1..len(x) { for j in 0..5 { u = IndexWrite(u, i * 5 + "
       "j, v[i-1, j] * x[i, j]) }; w = u; u = v; v = w }; Sum(u * v) }",
     5, true, 0},
    {"slices",
     X "{ z = x * 1.0; for i in 1..len(x) { z = IndexWrite(z, i, z[i-1] * 0.5 + Sum(z[0:2]) * "
       "x[i] * 1e-3) }; Sum(z * z) }",
     0, false, 0},
    {"lists", // as Python's lists are filled
     X "{ put = fn (k) { fn (b, e) { b = Where(false, Reshape(e, b.shape[1:]), b); IndexWrite(b, "
       "k, CastLike(e, b), axis=0) } }; l = (0.0 * x, 0.0 * x); t = 1.0; for i in 0..len(x) { t = "
       "t + x[i] * t * 1e-3; l = hyper_map(put(i), l, (t, t * x[i])) }; s = 0.0; for i in "
       "0..len(x) { s = s + l[0][i] * l[1][i] }; s }",
     0, false, 0},
    {"nearest", // k-means, number by number: the distance of each row from the nearest of three
     M
     "{ s = 0.0; for i in 0..len(x) { best = 1e9; for k in 0..3 { d = 0.0; for j in 0..5 { t = "
     "x[i, j] - x[k, j]; d = d + t * t * x[i, 0] }; if d < best { best = d } }; s = s + best }; s "
     "}",
     5, false, 0},
    {"logarithms of sums", // as in mixtures of Gaussians
     M
     "{ s = 0.0; for i in 0..len(x) { m = -1e9; for j in 0..5 { if x[i, j] > m { m = x[i, j] } }; "
     "e = 0.0; for j in 0..5 { e = e + Exp(x[i, j] - m) }; s = s + Log(e) + m * x[0, 0] }; s }",
     5, false, 0},
    {"slices written", // by the numbers of their elements, as x[a:b] = v of Python
     X "{ z = 0.0 * x; for i in 0..len(x)//4 { k = Arange(len(x))[i*4:i*4+4]; z = IndexWrite(z, k, "
       "x[i*4:i*4+4] * x[i]) }; Sum(z * z) }",
     0, true, 0},
    {"parts of rows written",
     M "{ z = 0.0 * x; for i in 1..len(x) { k = Reshape(Arange(x.size), x.shape)[i, 1:]; z = "
       "IndexWrite(z, k, x[i, :-1] * z[i-1, 1:]) }; Sum(z * z) }",
     5, true, 0},
    {"steps of a differential equation",
     X
     "{ y = x * 1.0; for t in 0..3 { k = 0.0 * x; for i in 0..len(x) { k = IndexWrite(k, i, y[i] * "
     "y[i] * 0.1 - x[i]) }; for i in 0..len(x) { y = IndexWrite(y, i, y[i] + 0.1 * k[i]) } }; "
     "Sum(y * y) }",
     0, false, 0},
    {"forward over reverse",
     X "{ def d(x) { s = 0.0; for i in 1..len(x) { if x[i] > 0.5 { s = s + x[i] * x[i-1] * x[i] } "
       "}; s }; Sum(hvp(d, (x,), (x,))[0]) }",
     0, false, 0},
    {"batch",
     X "{ def d(x) { s = 0.0; for i in 1..len(x) { s = s + x[i] * x[i-1] }; s }; "
       "Sum(vmap(d)(Stack(x, x * 0.5))) }",
     0, false, 0},
    {"batch of branches",
     X "{ def d(x) { s = 0.0; for i in 1..len(x) { if x[i] > 0.5 { s = s + x[i] * x[i-1] } }; s }; "
       "Sum(vmap(d)(Stack(x, x * 0.5))) }",
     0, false, 0},
    {"batch of gradients",
     X "{ def d(x) { s = 0.0; for i in 1..len(x) { if x[i] > 0.5 { s = s + x[i] * x[i-1] * x[i] } "
       "}; s }; Sum(vmap(grad(d))(Stack(x, x * 0.5)) ** 2) }",
     0, false, 0},
    {"batch of fills",
     X "{ def d(x) { z = x; for i in 1..len(x) { if x[i] > 0.5 { z = IndexWrite(z, i, z[i-1] * "
       "x[i]) } }; z }; Sum(vmap(d)(Stack(x, x * 0.5)) ** 2) }",
     0, false, 0},
    {"batch of searches", // each lane has a number of rounds of its own
     X
     "{ def d(x, e) { i = 0; s = 0.0; while i < len(x) and s < e { s = s + x[i] * x[i]; i = i + 1 "
     "}; s }; Sum(vmap(d, in_axes=(None, 0))(x, [10.0, 1e9, 20.0])) }",
     0, false, 0},
    {"second order",
     X "{ def d(x) { s = 0.0; for i in 1..len(x) { s = s + x[i] * x[i-1] * x[i] }; s }; "
       "Sum(grad(d)(x) ** 2) }",
     0, false, 0},
    {"read by a branch that writes another, written after it",
     X "{ z = 0.3 * x; l = 0.0 * x; s = 0.3; for i in 1..len(x) { if i % 3 == 0 { l = "
       "IndexWrite(l, i, s); s = 0.5 * s + 0.1 * z[i] }; z = IndexWrite(z, i, z[i-1]) }; s + Sum(z "
       "* z) + Sum(l * l) }",
     0, true, 0},
    {"read by a branch that writes another, swapped after it",
     X "{ z = 0.3 * x; l = 0.0 * x; s = 0.3; for i in 1..len(x) { if i % 3 == 0 { l = "
       "IndexWrite(l, i, s); s = 0.5 * s + 0.1 * l[len(x)-1-i] + 0.1 * Sin(z[i]) }; a = z[i]; b = "
       "z[i-1]; if a > b { z = IndexWrite(z, i, b); z = IndexWrite(z, i-1, a) } }; s + Sum(z * z) "
       "+ Sum(l * l) }",
     0, true, 0},
    {"read by a branch in a branch, written after it",
     X "{ z = 0.3 * x; for i in 1..len(x) { if i % 2 == 0 { z = IndexWrite(z, i, if i % 3 == 0 { "
       "0.5 } else { Tanh(z[i]) }) } else { if z[i-1] > 0.43 { z = IndexWrite(z, i, z[i-1]) } } "
       "}; Sum(z * z) }",
     0, true, 0},
    {"read by a branch in an inner loop",
     X "{ z = 0.3 * x; s = 0.5; for i in 1..len(x) { z = IndexWrite(z, i-1, x[i]); for j in 0..3 { "
       "if i % 3 == 0 { s = 0.8 * s + 0.1 * x[i] * z[i] * Tanh(s) } } }; s + Sum(z * z) }",
     0, true, 0},
    {"read by an inner loop in a branch",
     X "{ z = 0.3 * x; s = 0.5; for i in 1..len(x) { if x[i] > 0.3 { for j in 0..3 { s = 0.8 * s + "
       "0.1 * z[(i + j) % len(x)] * Tanh(s) } }; z = IndexWrite(z, i, s) }; s + Sum(z * z) }",
     0, true, 0},
    {"products and extremes at a place",
     X "{ z = 0.7 * x; for i in 1..len(x) { z = IndexWrite(z, i, x[i-1] * z[i-1] + 0.5, "
       "mode=\"mul\"); if x[i] > 0.5 { z = IndexWrite(z, i, 0.9 * z[i-1], mode=\"max\") } else { z "
       "= IndexWrite(z, i-1, z[i] * x[i], mode=\"min\") } }; Sum(z * z) }",
     0, true, 0},
    {"a rule of custom_jvp that reads arrays",
     X
     "{ def h(v, i) { v[i] * v[i-1] }; r = custom_jvp(h, fn (p, t) { (v, i) = p; (d, e) = t; "
     "(h(v, i), d[i] * v[i-1] + v[i] * d[i-1]) }); z = 0.3 * x; s = 0.3; for i in 1..len(x) { s = "
     "0.5 * s + r(z, i) + r(x, i); z = IndexWrite(z, i, 0.5 * s) }; s }",
     0, true, 0},
    {"a rule of custom_jvp and reads of one array in an inner loop, with its length",
     X MIRROR "for i in 1..len(x) { for j in 0..3 { s = 0.8 * s + r(z, (i + j) % len(x)) - z[j] * "
              "x[j] }; z = IndexWrite(z, i, x[i]) }; s + Mean(z) }",
     0, true, 0},
    {"a rule of custom_jvp that reads an array of which a candidate is taken, with a state",
     X MIRROR "for i in 1..len(x) { s = 0.8 * s + 0.1 * r(z, i - 1); c = IndexWrite(z, i, 0.5 * "
              "x[i-1]); if c[0] < s { z = c; s = 0.7 * s } }; s + Mean(z * z) }",
     0, true, 0},
};

/* ---- one program ---- */

typedef struct counts {
  size_t allocated;     // bytes in all
  uint64_t steps;       // of the lowered code: turns of its loops and calls, by 4096
  uint64_t value_steps; // of that of the function alone
} counts;

static void *count_alloc(void *user, void *p, size_t old, size_t size) {
  if (size > (p ? old : 0)) ((counts *)user)->allocated += size - (p ? old : 0);
  if (size) return realloc(p, size);
  free(p);
  return NULL;
}

static bool count_steps(void *user, int32_t what) { // asked with -1 each 4096 steps
  ((counts *)user)->steps += what < 0;
  return true;
}

typedef struct program {
  anf_ctx *cx;
  anf_diag *d;
  anf_module *m;
  anf_graph *f, *gradient, *forward;
  counts counts;
  size_t width;
} program;

static void load(program *p, const growth *c) {
  anf_ctx_opts o = {.size = sizeof o, .allocator = {count_alloc, &p->counts}};
  p->width = c->width;
  p->cx = anf_ctx_new(&o);
  p->cx->without = c->without;
  p->d = anf_diag_new(p->cx);
  static const char form[] = "def f%s\ndef t(x, d) { jvp(f, (x,), (d,))[1] }\n";
  size_t room = sizeof form + strlen(c->text);
  char *text = malloc(room);
  snprintf(text, room, form, c->text);
  anf_status st = anf_parse(p->cx, text, "growth.anf", p->d, &p->m);
  if (st == ANF_OK) st = anf_grad(p->f = anf_module_find(p->m, "f"), NULL, p->d, &p->gradient);
  free(text);
  if (st != ANF_OK) anf_diag_print(p->d, stderr, false);
  assert_int_equal(st, ANF_OK);
  p->forward = anf_module_find(p->m, "t");
}

static void unload(program *p) {
  anf_module_free(p->m);
  anf_diag_free(p->d);
  anf_ctx_free(p->cx);
}

/* x + h d, numbers between 0 and 1, for rows of the width; the direction itself if `h` is infinite. */
static anf_value *point(const program *p, size_t n, double h) {
  size_t width = p->width ? p->width : 1;
  double *x = malloc(n * width * sizeof *x);
  for (size_t i = 0; i < n * width; i++) {
    double at = 0.5 + 0.49 * sin(1.7 * (double)i + 0.4), dir = cos(0.9 * (double)i);
    x[i] = isinf(h) ? dir : at + h * dir;
  }
  int64_t dims[2] = {(int64_t)n, (int64_t)width};
  anf_value *v = anf_value_tensor(p->cx, ANF_F64, p->width ? 2 : 1, dims, x);
  free(x);
  return v;
}

static anf_value *run_graph(program *p, anf_graph *g, size_t nargs, anf_value **args) {
  anf_value *v = NULL;
  anf_status st = anf_run(g, nargs, args, NULL, p->d, &v);
  if (st != ANF_OK) anf_diag_print(p->d, stderr, false);
  assert_int_equal(st, ANF_OK);
  for (size_t i = 0; i < nargs; i++) anf_value_release(args[i]);
  return v;
}

static anf_value *run_code(program *p, anf_jit_kind kind, size_t n) {
  anf_exec_opts o = {.size = sizeof o, .kind = kind};
  anf_exec *e = NULL;
  anf_value *x = point(p, n, 0), *v = NULL;
  anf_status st = anf_compile(p->gradient, &o, p->d, &e);
  if (st == ANF_OK) st = anf_exec_run(e, 1, &x, NULL, p->d, &v);
  if (st != ANF_OK) anf_diag_print(p->d, stderr, false);
  assert_int_equal(st, ANF_OK);
  anf_value_release(x);
  anf_exec_free(e);
  return v;
}

/* Steps of the lowered code of the function or its gradient for f64[n] or rows of the width, all of its copies and sums counted. */
static uint64_t count_code(program *p, bool gradient, size_t n) {
  int64_t dims[2] = {(int64_t)n, (int64_t)p->width};
  size_t bytes = n * (p->width ? p->width : 1) * sizeof(double);
  const anf_type *t = anf_type_tensor(p->cx, ANF_F64, p->width ? 2 : 1, dims);
  anf_text text = {.cx = p->cx};
  anf_tir_module *m = NULL;
  anf_value *x = point(p, n, 0);
  anf_tir_arg args[2] = {{.data = (void *)(uintptr_t)anf_value_data(x), .bytes = bytes},
                         {.data = malloc(bytes), .bytes = bytes}};
  anf_tir_arg number = {0};
  anf_tir_run_opts o = {.size = sizeof o, .plain = true, .user = &p->counts, .go_on = count_steps};
  p->counts.steps = 0;
  anf_status st = anf_lowered_print(gradient ? p->gradient : p->f, 1, &t, "tir", NULL, p->d, &text);
  if (st == ANF_OK) st = anf_tir_parse(p->cx, text.text, text.len, "growth.tir", p->d, &m);
  if (st == ANF_OK && gradient) st = anf_tir_run(m, "grad_f", 2, args, &o, p->d, NULL);
  if (st == ANF_OK && !gradient) st = anf_tir_run(m, "f", 1, args, &o, p->d, &number);
  if (st != ANF_OK) anf_diag_print(p->d, stderr, false);
  assert_int_equal(st, ANF_OK);
  free(args[1].data);
  anf_value_release(x);
  anf_tir_module_free(m);
  anf_text_free(&text);
  return p->counts.steps;
}

/* ---- growth ---- */

static counts cost(const growth *c, size_t n) {
  program p = {0};
  load(&p, c);
  counts r = {0};
  if (!c->code) {
    anf_value *x = point(&p, n, 0);
    p.counts.allocated = 0;
    anf_value_release(run_graph(&p, p.gradient, 1, &x));
    r.allocated = p.counts.allocated;
  }
  r.value_steps = count_code(&p, false, n);
  r.steps = count_code(&p, true, n);
  unload(&p);
  return r;
}

static bool is_linear(uint64_t one, uint64_t four) { return four <= 5 * one + 16; }

static void check_steps(const char *name, const char *what, uint64_t one, uint64_t four) {
  if (!is_linear(one, four))
    fail_msg("%s: %s takes %llu steps at n and %llu at 4 n, by 4096", name, what,
             (unsigned long long)one, (unsigned long long)four);
}

static void grows_linearly(void **state) {
  const growth *c = *state;
  enum { N = 600, STEPS_N = 300 };
  size_t n = c->code ? STEPS_N : c->width ? N / c->width : N;
  counts one = cost(c, n), four = cost(c, 4 * n);
  if (four.allocated > 5 * one.allocated)
    fail_msg("%s: the interpreter allocates %zu bytes at n and %zu at 4 n", c->name, one.allocated,
             four.allocated);
  check_steps(c->name, "the gradient's code", one.steps, four.steps);
  check_steps(c->name, "the function's code", one.value_steps, four.value_steps);
}

/* Do random programs find an analysis that is off? */
static void is_found(void **state) {
  enum { N = 200, SEEDS = 40 };
  growth c = *(const growth *)*state;
  bool found = false;
  for (uint64_t seed = 1; !found && seed <= SEEDS; seed++) {
    char *text = generate_loops(seed, 4 + seed % 9);
    c.text = text;
    found = !is_linear(cost(&c, N).steps, cost(&c, 4 * N).steps);
    free(text);
  }
  assert_true(found);
}

/* ---- values ---- */

static double take_number(anf_value *v) {
  double x = anf_value_get_f64(v, 0);
  anf_value_release(v);
  return x;
}

static double number(program *p, size_t n, double h) {
  anf_value *x = point(p, n, h);
  return take_number(run_graph(p, p->f, 1, &x));
}

static void near(const char *name, const char *what, double x, double y, double tolerance) {
  if (!(fabs(x - y) <= tolerance * (1 + fabs(y))))
    fail_msg("%s: %s gives %.17g instead of %.17g", name, what, x, y);
}

/* The gradient of compiled code for n elements or rows, against the interpreter's. */
static void compiled_is_right(program *p, const char *name, size_t n) {
  static const anf_jit_kind kinds[] = {ANF_JIT_INTERP, ANF_JIT_LLVM};
  anf_value *x = point(p, n, 0), *g = run_graph(p, p->gradient, 1, &x);
  for (size_t k = 0; k < 2; k++) {
    anf_value *v = run_code(p, kinds[k], n);
    for (size_t i = 0; i < n * (p->width ? p->width : 1); i++)
      near(name, anf_jit_kind_name(kinds[k]), anf_value_get_f64(v, i), anf_value_get_f64(g, i),
           1e-12);
    anf_value_release(v);
  }
  anf_value_release(g);
}

static void is_right(void **state) {
  const growth *c = *state;
  enum { N = 9, LARGE = 70 }; // arrays that loops exchange have 64 numbers and more
  const double h = 1e-6;
  size_t n = N * (c->width ? c->width : 1);
  program p = {0};
  load(&p, c);
  anf_value *x = point(&p, N, 0), *dir = point(&p, N, INFINITY);
  anf_value *tangent[2] = {point(&p, N, 0), point(&p, N, INFINITY)};
  anf_value *g = run_graph(&p, p.gradient, 1, &x);
  double along = 0;
  for (size_t i = 0; i < n; i++) along += anf_value_get_f64(g, i) * anf_value_get_f64(dir, i);
  near(c->name, "the gradient", along, (number(&p, N, h) - number(&p, N, -h)) / (2 * h), 1e-7);
  near(c->name, "forward mode", take_number(run_graph(&p, p.forward, 2, tangent)), along, 1e-12);
  anf_value_release(g);
  compiled_is_right(&p, c->name, N);
  compiled_is_right(&p, c->name, LARGE);
  anf_value_release(dir);
  unload(&p);
}

/* ---- all ---- */

static const growth off[] = {{"linear buffers", NULL, 0, true, ANFI_WITHOUT_LINEAR},
                             {"reads first", NULL, 0, true, ANFI_WITHOUT_READS_FIRST},
                             {"sums of adjoints", NULL, 0, true, ANFI_WITHOUT_SUMS}};

static size_t add(struct CMUnitTest *to, const growth *c) {
  static const char *const what[] = {"grows linearly", "is right"};
  size_t n = 0;
  for (size_t k = 0; k < 2; k++) {
    char *name = malloc(64);
    snprintf(name, 64, "%s %s", c->name, what[k]);
    to[n++] =
        (struct CMUnitTest){name, k ? is_right : grows_linearly, NULL, NULL, (void *)(uintptr_t)c};
  }
  return n;
}

static size_t add_off(struct CMUnitTest *to, const growth *c) {
  char *name = malloc(64);
  snprintf(name, 64, "%s that are off are found", c->name);
  *to = (struct CMUnitTest){name, is_found, NULL, NULL, (void *)(uintptr_t)c};
  return 1;
}

static size_t add_random(struct CMUnitTest *to, growth *c, uint64_t seed) {
  char *name = malloc(32);
  snprintf(name, 32, "random %llu", (unsigned long long)seed);
  *c = (growth){name, generate_loops(seed, 4 + seed % 9), 0, true, 0};
  return add(to, c);
}

/* The program in a file: growth and values. */
static size_t add_file(struct CMUnitTest *to, growth *c, const char *path) {
  enum { MOST = 1 << 16 };
  char *text = calloc(1, MOST), *name = malloc(strlen(path) + 1);
  FILE *f = fopen(path, "rb");
  if (f && fread(text, 1, MOST - 1, f)) fclose(f);
  *c = (growth){strcpy(name, path), text, 0, true, 0};
  return add(to, c);
}

int main(int argc, char **argv) {
  enum { COUNT = sizeof cases / sizeof *cases, OFF = sizeof off / sizeof *off, SEEDS = 8 };
  bool some = argc == 3 && strcmp(argv[1], "--every") == 0; // one in so many of its own
  size_t every = some ? strtoull(argv[2], NULL, 10) : 1;
  if (some) argc = 1;
  bool file = argc == 2 && (*argv[1] < '0' || *argv[1] > '9');
  uint64_t seed = argc > 1 && !file ? strtoull(argv[1], NULL, 10) : 1;
  size_t fixed = argc > 1 ? 0 : COUNT, random = file       ? 1
                                                : argc > 2 ? strtoull(argv[2], NULL, 10)
                                                           : SEEDS;
  if (argc == 2 && !file) {
    char *text = generate_loops(seed, 4 + seed % 9);
    printf("def f%s\n", text);
    free(text);
    return 0;
  }
  struct CMUnitTest *tests = calloc(2 * (fixed + random) + OFF, sizeof *tests);
  growth *made = calloc(random, sizeof *made);
  size_t n = 0;
  for (size_t i = 0; i < fixed; i += every ? every : 1) n += add(tests + n, &cases[i]);
  for (size_t i = 0; fixed && i < OFF; i++) n += add_off(tests + n, &off[i]);
  if (file) n = add_file(tests, made, argv[1]);
  for (size_t i = 0; i < random && !file; i++) n += add_random(tests + n, &made[i], seed + i);
  int failed = _cmocka_run_group_tests("growth", tests, n, NULL, NULL);
  for (size_t i = 0; i < n; i++) free((void *)(uintptr_t)tests[i].name);
  for (size_t i = 0; i < random; i++) {
    free((void *)(uintptr_t)made[i].name);
    free((void *)(uintptr_t)made[i].text);
  }
  free(tests);
  free(made);
  return failed;
}
