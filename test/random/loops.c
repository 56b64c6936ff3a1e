// SPDX-License-Identifier: Apache-2.0
/* Values stay near 1, so that differences tell a wrong derivative from rounding: sums decay, products have a factor
 * below 1. Indices stay between 0 and len(x) - 1: i goes from 1, j from 0 to 2. */
#include "test/random/loops.h"

#include "test/random/generate.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct maker {
  uint64_t state;
  char *text;
  size_t n, room, left; // bytes written, bytes there are, statements to write
  const char *i, *j;    // the names of indices that are bound, or NULL
  int locals, functions, parts, depth;
  bool inside; // of a function that has its own state: it names x alone
} maker;

static void put(maker *m, const char *format, ...) {
  va_list args;
  if (m->room - m->n < 256) {
    m->room = 2 * m->room + 1024;
    m->text = realloc(m->text, m->room);
    if (!m->text) abort();
  }
  va_start(args, format);
  m->n += (size_t)vsnprintf(m->text + m->n, m->room - m->n, format, args);
  va_end(args);
}

static unsigned below(maker *m, unsigned n) { return (unsigned)(generate_next(&m->state) % n); }

/* ---- numbers ---- */

static void put_index(maker *m) {
  static const char *const at[] = {"%s", "%s", "%s - 1", "(%s * 3 + 1) %% len(x)",
                                   "len(x) - 1 - %s"};
  unsigned k = below(m, m->j ? 7 : 5);
  if (!m->i) put(m, "%u", below(m, 3));
  else if (k == 5) put(m, "(%s + %s) %% len(x)", m->i, m->j);
  else if (k == 6) put(m, "%s", m->j);
  else if (k == 2 && m->inside) put(m, "(%s + len(x) - 1) %% len(x)", m->i);
  else put(m, at[k], m->i);
}

static void put_number(maker *m, int depth);

static void put_read(maker *m) {
  put(m, !m->inside && below(m, 3) == 0 ? "z[" : "x[");
  put_index(m);
  put(m, "]");
}

static void put_condition(maker *m, int depth) {
  switch (below(m, 3)) {
  case 0:
    put(m, "x[");
    put_index(m);
    put(m, "] > 0.%u", 2 + below(m, 6));
    return;
  case 1:
    if (m->i) {
      put(m, "%s %% %u == 0", m->i, 2 + below(m, 3));
      return;
    } // fallthrough
  default: put_number(m, depth - 1); put(m, " > 0.%u3", below(m, 6));
  }
}

/* Of x or z, by a rule, or checkpointed. */
static void put_rule(maker *m) {
  if (below(m, 4) == 0) put(m, "checkpoint(rule)(x, ");
  else put(m, !m->inside && below(m, 2) ? "rule(z, " : "rule(x, ");
  put_index(m);
  put(m, ")");
}

static void put_call(maker *m, int depth) {
  if (below(m, 4) == 0) {
    put_rule(m);
    return;
  }
  put(m, "h%u(x, ", below(m, (unsigned)m->functions));
  put_index(m);
  put(m, ", fn (a) { a * ");
  put_number(m, depth - 1);
  put(m, " })");
}

static void put_atom(maker *m) {
  unsigned k = below(m, m->locals ? 6 : 5);
  if (k == 5) put(m, "u%u", below(m, (unsigned)m->locals));
  else if (k == 4) put(m, "0.%u", 1 + below(m, 9));
  else if (k >= 2 || m->inside) put_read(m);
  else put(m, k ? "s" : "t");
}

static void put_pair(maker *m, const char *before, const char *between, const char *after,
                     int depth) {
  put(m, "%s", before);
  put_number(m, depth - 1);
  put(m, "%s", between);
  put_number(m, depth - 1);
  put(m, "%s", after);
}

static void put_choice(maker *m, const char *before, const char *then, const char *other,
                       const char *after, int depth) {
  put(m, "%s", before);
  put_condition(m, depth - 1);
  put_pair(m, then, other, after, depth);
}

static void put_number(maker *m, int depth) {
  unsigned k = depth <= 0 ? 0 : below(m, 9);
  switch (k) {
  case 1:
  case 2: put_pair(m, "0.7 * (", ") * (", ")", depth); return;
  case 3: put_pair(m, "0.5 * (", " + ", ")", depth); return;
  case 4: put_pair(m, "(", " - ", ")", depth); return;
  case 5:
    put(m, below(m, 2) ? "Sin(" : "Tanh(");
    put_number(m, depth - 1);
    put(m, ")");
    return;
  case 6: put_choice(m, "Where(", ", ", ", ", ")", depth); return;
  case 7: put_choice(m, "(if ", " { ", " } else { ", " })", depth); return;
  case 8:
    if (m->functions) {
      put_call(m, depth);
      return;
    } // fallthrough
  default: put_atom(m);
  }
}

/* ---- statements ---- */

static void put_body(maker *m, unsigned most);

static void put_write(maker *m) {
  put(m, "z = IndexWrite(z, ");
  put_index(m);
  put(m, ", 0.5 * ");
  put_number(m, 2);
  static const char *const modes[] = {"add", "mul", "max", "min"};
  if (below(m, 2)) put(m, "); ");
  else put(m, ", mode=\"%s\"); ", modes[below(m, 4)]);
}

static void put_swap(maker *m) {
  int k = m->locals;
  put(m,
      "(a%d, b%d) = (z[%s], z[%s - 1]); if a%d > b%d { z = IndexWrite(z, %s, b%d); z = "
      "IndexWrite(z, %s - 1, a%d) }; ",
      k, k, m->i, m->i, k, k, m->i, k, m->i, k);
}

static void put_branch(maker *m) {
  int locals = m->locals;
  put(m, "if ");
  put_condition(m, 2);
  put(m, " { ");
  put_body(m, 2);
  m->locals = locals;
  put(m, "}");
  if (below(m, 2)) {
    put(m, " else { ");
    put_body(m, 2);
    put(m, "}");
  }
  m->locals = locals;
  put(m, "; ");
}

static void put_inner(maker *m) {
  int locals = m->locals;
  put(m, "for j in 0..3 { ");
  m->j = "j";
  put_body(m, 2);
  m->j = NULL;
  m->locals = locals;
  put(m, "}; ");
}

static void put_state(maker *m) {
  const char *name = below(m, 2) ? "s" : "t";
  put(m, "%s = 0.8 * %s + 0.1 * ", name, name);
  put_number(m, 3);
  put(m, "; ");
}

/* Two arrays, or one of them with a third. */
static void put_exchange(maker *m) {
  put(m, below(m, 2) ? "l = (l[1], l[0]); " : "(z, l) = (l[0], (z, l[1])); ");
}

/* z with an element or two written, which is taken or dropped. */
static void put_candidate(maker *m) {
  int k = m->locals;
  put(m, "c%d = IndexWrite(z, ", k);
  put_index(m);
  put(m, ", 0.5 * ");
  put_number(m, 2);
  put(m, "); ");
  if (below(m, 2)) put(m, "c%d = IndexWrite(c%d, %s - 1, 0.9 * z[%s]); ", k, k, m->i, m->i);
  put(m, "if 0.5 * c%d[", k);
  put_index(m);
  put(m, "] < ");
  put_number(m, 2);
  put(m, below(m, 2) ? " { z = c%d; s = 0.7 * s }; " : " { z = c%d }; ", k);
}

static void put_statement(maker *m) {
  switch (below(m, 11)) {
  case 0:
    put(m, "u%d = ", m->locals);
    put_number(m, 3);
    m->locals++;
    put(m, "; ");
    return;
  case 1:
  case 2: put_write(m); return;
  case 3:
  case 4:
    if (m->depth < 3) {
      m->depth++;
      put_branch(m);
      m->depth--;
      return;
    } // fallthrough
  case 5:
    if (m->depth < 3 && !m->j) {
      m->depth++;
      put_inner(m);
      m->depth--;
      return;
    } // fallthrough
  case 6:
    if (m->i) {
      put_swap(m);
      return;
    } // fallthrough
  case 7:
    put(m, "l = hyper_map(put(%s), l, (", m->i);
    put_number(m, 2);
    put(m, ", s)); s = 0.5 * s + 0.1 * l[0][");
    put_index(m);
    put(m, "]; ");
    return;
  case 8: put_exchange(m); return;
  case 9: put_candidate(m); return;
  default: put_state(m);
  }
}

static void put_body(maker *m, unsigned most) {
  for (unsigned n = 1 + below(m, most); n--;) {
    put_statement(m);
    m->left -= m->left > 0;
  }
  if (m->left) put_state(m);
}

/* ---- loops and recursions ---- */

/* Every third loop exchanges two arrays in each of its rounds. */
static bool exchanges(maker *m) { return below(m, 3) == 0; }

static void put_for(maker *m) {
  put(m, "  for i in 1..len(x) { ");
  put_body(m, 4);
  put(m, exchanges(m) ? "l = (l[1], l[0]) }\n" : "}\n");
}

static void put_while(maker *m) {
  put(m, "  i = 1\n  go = true\n  while go { ");
  put_body(m, 4);
  if (exchanges(m)) put(m, "l = (l[1], l[0]); ");
  put(m, "i = i + 1; if i >= len(x) { go = false } }\n");
}

static void put_tail(maker *m) {
  int k = m->parts;
  put(m, "  def r%d(i, s, t, z, l) { if i >= len(x) { (s, t, z, l) } else { ", k);
  put_body(m, 3);
  put(m, "r%d(i + 1, s, t, z, %s) } }\n", k, exchanges(m) ? "(l[1], l[0])" : "l");
  put(m, "  (s, t, z, l) = r%d(1, s, t, z, l)\n", k);
}

/* A loop that may be left with a number of the arrays that it writes. */
static void put_search(maker *m) {
  int k = m->parts;
  put(m, "  def q%d(s, t, z, l) { for i in 1..len(x) { ", k);
  put_body(m, 3);
  put(m, "if 3 * i > 2 * len(x) and ");
  put_condition(m, 2);
  put(m, " { return 0.5 * s + Mean(z * x) }; ");
  if (below(m, 2)) put(m, "if s < 0.0 { return 0.5 * s + z[i] * x[i] }; ");
  put(m, exchanges(m) ? "l = (l[1], l[0]) }; " : "}; ");
  put(m, "0.7 * t + Mean(z * l[0]) }\n  s = 0.5 * s + 0.5 * q%d(s, t, z, l)\n", k);
}

static void put_halves(maker *m) {
  int k = m->parts;
  m->inside = true;
  put(m, "  def d%d(i, o) { if o - i == 1 { ", k);
  put_number(m, 3);
  put(m, " } else { m = (i + o) // 2; 0.6 * d%d(i, m) + 0.4 * d%d(m, o) * x[m] } }\n", k, k);
  put(m, "  s = 0.5 * s + 0.5 * d%d(1, len(x))\n", k);
  m->inside = false;
}

static void put_lanes(maker *m) {
  put(m, "  t = 0.5 * t + 0.5 * Mean(vmap(fn (i) { ");
  put_number(m, 3);
  put(m, " })(Arange(1, len(x))))\n");
}

static void put_function(maker *m) {
  m->inside = true;
  put(m, "  def h%d(x, i, f) { ", m->functions);
  put_number(m, 2);
  put(m, " + f(x[i]) }\n");
  m->inside = false;
  m->functions++;
}

static void put_part(maker *m) {
  static void (*const kinds[])(maker *) = {put_for,  put_for,    put_while, put_search,
                                           put_tail, put_halves, put_lanes};
  if (below(m, 3) == 0) put_function(m);
  m->locals = 0;
  m->i = "i";
  m->parts++;
  kinds[below(m, sizeof kinds / sizeof *kinds)](m);
  m->i = NULL;
  m->locals = 0;
}

char *generate_loops(uint64_t seed, size_t size) {
  maker m = {.state = seed, .left = size};
  m.state =
      generate_next(&m.state); // streams of neighbours would be one stream, shifted by a number
  put(&m,
      "(x: f64[N]) {\n  put = fn (k) { fn (b, e) { b = Where(false, Reshape(e, b.shape[1:]), b); "
      "IndexWrite(b, k, CastLike(e, b), axis=0) } }\n"
      "  rule = custom_jvp(fn (v, i) { v[i] * Sin(v[len(v)-1-i]) }, fn (p, q) { (v, i) = p; (d, e) "
      "= q; j = "
      "len(v)-1-i; (v[i] * Sin(v[j]), d[i] * Sin(v[j]) + v[i] * Cos(v[j]) * d[j]) })\n"
      "  z = 0.3 * x\n  l = (0.0 * x, 0.0 * x)\n  s = 0.3\n  t = 0.7\n");
  m.i = "i";
  put_function(&m);
  do {
    put_part(&m);
    m.left -= m.left > 2 ? 2 : m.left;
  } while (m.left);
  put(&m, "  s + t + Mean(z * z) + 0.1 * Mean(l[0] * l[1])\n}");
  return m.text;
}
