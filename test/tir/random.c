// SPDX-License-Identifier: Apache-2.0
/* Random tensor programs as text: valid, exactly typed, in bounds, free of races and of reads of
 * what was never written, so that any difference between two runs is a fault of what lies between
 * them. */
#include "test/tir/values.h"

#include <stdarg.h>
#include <stdlib.h>

typedef enum { R_s32, R_index, R_s64, R_u8, R_f32, R_f64, R_bool, R_bf16, R_COUNT } rtype;
static const char *const type_names[] = {"s32", "index", "s64", "u8", "f32", "f64", "bool", "bf16"};
static const char *const suffix[] = {"", "UL", "s64", "u8", "f", "f64", "", "bf16"};

typedef struct rvar {
  char name[12];
  rtype type;
  bool assignable;
  unsigned bound; // a counter: its values are below it; 0 unknown
  unsigned par;   // parallel loops around its definition
} rvar;
typedef struct rtensor {
  char name[12];
  rtype type;
  unsigned rank, dim[3];
  unsigned par;
  int own;      // in a parallel loop: the variable that dim 0 must be indexed by to write, -1 not
                // writable
  bool written; // in the parallel loop at hand: only own slices may be read
} rtensor;

typedef struct rgen {
  uint64_t s;
  char *text;
  size_t n, cap;
  rvar var[64];
  unsigned nvar, nt, names, indent, par;
  rtensor t[32];
  unsigned budget, work; // statements left; product of loops around
  bool bf16;
  unsigned nhelper;
  int counter; // of the parallel loop around, -1 none
} rgen;

static unsigned pick(rgen *g, unsigned n) { return (unsigned)(next_random(&g->s) % n); }
static void out(rgen *g, const char *fmt, ...) {
  char buf[512];
  va_list ap;
  va_start(ap, fmt);
  int n = vsnprintf(buf, sizeof buf, fmt, ap);
  va_end(ap);
  if (g->n + (size_t)n + 1 > g->cap)
    g->text = (char *)realloc(g->text, g->cap = g->cap * 2 + (size_t)n + 256);
  memcpy(g->text + g->n, buf, (size_t)n + 1);
  g->n += (size_t)n;
}
static void line(rgen *g) {
  for (unsigned i = 0; i < g->indent; i++) out(g, "  ");
}
static bool is_float(rtype t) { return t == R_f32 || t == R_f64 || t == R_bf16; }
static rtype any_type(rgen *g) {
  static const rtype common[] = {R_s32, R_index, R_f32,  R_f32, R_s64,
                                 R_u8,  R_f64,   R_bool, R_s32, R_f32};
  return g->bf16 && pick(g, 3) == 0 ? R_bf16 : common[pick(g, 10)];
}

static void constant(rgen *g, rtype t) {
  unsigned v = pick(g, 6);
  if (t == R_bool) out(g, v & 1 ? "true" : "false");
  else if (is_float(t)) out(g, "%u.%u%s", v, pick(g, 2) * 5, suffix[t]);
  else out(g, "%u%s", v, suffix[t]);
}

static void expr(rgen *g, rtype t, unsigned depth);

static int some_var(rgen *g, rtype t, bool to_assign) {
  unsigned from = g->nvar ? pick(g, g->nvar) : 0;
  for (unsigned i = 0; i < g->nvar; i++) {
    unsigned k = (from + i) % g->nvar;
    if (g->var[k].type == t && (!to_assign || (g->var[k].assignable && g->var[k].par == g->par)))
      return (int)k;
  }
  return -1;
}

/* An index below dim, with `extent` lanes after it. */
static void index_expr(rgen *g, unsigned dim, unsigned extent) {
  unsigned limit = dim - extent + 1;
  for (int tries = 0; tries < 4 && g->nvar; tries++) {
    const rvar *v = &g->var[pick(g, g->nvar)];
    if (!v->bound || v->bound > limit) continue;
    if (v->bound < limit && pick(g, 3) == 0)
      out(g, "(%s + %u%s)", v->name, 1 + pick(g, limit - v->bound), suffix[v->type]);
    else out(g, "%s", v->name);
    return;
  }
  int v = pick(g, 3) == 0 ? some_var(g, R_index, false) : -1;
  if (v >= 0) out(g, "(%s %% %uUL)", g->var[v].name, limit);
  else out(g, "%u%s", pick(g, limit), pick(g, 2) ? "UL" : "");
}

static void place(rgen *g, const rtensor *t, unsigned lanes, bool own) {
  out(g, "%s[", t->name);
  for (unsigned k = 0; k < t->rank; k++) {
    if (k) out(g, ", ");
    if (k == 0 && own && g->counter >= 0) out(g, "%s", g->var[g->counter].name);
    else index_expr(g, t->dim[k], k + 1 == t->rank ? lanes : 1);
  }
  if (lanes > 1) out(g, " @ %u", lanes);
  out(g, "]");
}

static bool must_own(const rgen *g, const rtensor *t) { return g->par && t->par < g->par; }

static rtensor *some_tensor(rgen *g, rtype t, bool write, unsigned lanes) {
  unsigned from = g->nt ? pick(g, g->nt) : 0;
  for (unsigned i = 0; i < g->nt; i++) {
    rtensor *x = &g->t[(from + i) % g->nt];
    if (x->type != t || x->dim[x->rank - 1] < lanes) continue;
    if (must_own(g, x) && x->own < 0 && write) continue;
    if (must_own(g, x) && x->own >= 0 && lanes > 1 && x->rank == 1) continue;
    return x;
  }
  return NULL;
}

static void load(rgen *g, rtype t, unsigned lanes) {
  rtensor *x = some_tensor(g, t, false, lanes);
  if (x) place(g, x, lanes, must_own(g, x) && x->own >= 0);
  else if (lanes == 1) constant(g, t);
  else out(g, "(1%s x %u)", is_float(t) ? ".0f" : suffix[t], lanes);
}

static void boolean(rgen *g, unsigned depth) {
  static const char *const cmp[] = {"==", "!=", "<", "<=", ">", ">="};
  rtype t = any_type(g);
  unsigned k = pick(g, 8);
  if (k == 0) out(g, "!"), out(g, "("), boolean(g, depth ? depth - 1 : 0), out(g, ")");
  else if (k == 1 && depth)
    out(g, "("), boolean(g, depth - 1), out(g, pick(g, 2) ? " && " : " || "), boolean(g, depth - 1),
        out(g, ")");
  else {
    if (t == R_bool) t = R_s32;
    out(g, "(");
    expr(g, t, depth ? depth - 1 : 0);
    out(g, " %s ", cmp[pick(g, 6)]);
    expr(g, t, depth ? depth - 1 : 0);
    out(g, ")");
  }
}

static void arithmetic(rgen *g, rtype t, unsigned depth) {
  static const char *const ops[] = {"+", "-", "*", "/", "%"};
  unsigned op = pick(g, 5);
  if (t == R_bf16 && op != 2) op = 0; // differences would make roundings large
  out(g, "(");
  expr(g, t, depth - 1);
  out(g, " %s ", ops[op]);
  if (op >= 3) out(g, is_float(t) ? "%u.0%s" : "%u%s", 1 + pick(g, 5), suffix[t]); // never by 0
  else expr(g, t, depth - 1);
  out(g, ")");
}

static void intrinsic(rgen *g, rtype t, unsigned depth) {
  static const char *const names[] = {"min",     "max",     "abs", "fmadd", "fnmadd",
                                      "int_and", "int_xor", "shl", "shr",   "floor"};
  unsigned k = pick(g, is_float(t) ? 5 : 9);
  if (t == R_bf16) k &= 1;
  unsigned n = k == 2 ? 1 : k == 3 || k == 4 ? 3 : 2;
  out(g, "%s(", names[k]);
  for (unsigned i = 0; i < n; i++) {
    if (i) out(g, ", ");
    expr(g, t, depth - 1);
  }
  out(g, ")");
}

static void cast(rgen *g, rtype t, unsigned depth) {
  rtype from = any_type(g);
  while (from == t || (t != R_bf16 && from == R_bf16))
    from = from == R_f32 && t == R_f32 ? R_s32 : (rtype)pick(g, R_bf16);
  out(g, "%s(", type_names[t]);
  expr(g, from, depth - 1);
  out(g, ")");
}

static void expr(rgen *g, rtype t, unsigned depth) {
  int v;
  if (t == R_bool) {
    if (depth && pick(g, 3)) boolean(g, depth);
    else if ((v = some_var(g, t, false)) >= 0) out(g, "%s", g->var[v].name);
    else constant(g, t);
    return;
  }
  switch (depth ? pick(g, 12) : pick(g, 3)) {
  case 0: constant(g, t); return;
  case 1:
  case 2:
    if ((v = some_var(g, t, false)) >= 0) out(g, "%s", g->var[v].name);
    else constant(g, t);
    return;
  case 3:
  case 4: load(g, t, 1); return;
  case 5: intrinsic(g, t, depth); return;
  case 6:
    out(g, "select(");
    boolean(g, depth - 1);
    out(g, ", ");
    expr(g, t, depth - 1);
    out(g, ", ");
    expr(g, t, depth - 1);
    out(g, ")");
    return;
  case 7: cast(g, t, depth); return;
  case 8:
    if (t == R_f32 && g->nhelper) {
      unsigned k = pick(g, 2 * g->nhelper);
      if (k < g->nhelper) out(g, "helper%u(", k);
      else out(g, "call(&helper%u: f32, ", k - g->nhelper);
      expr(g, R_f32, depth - 1);
      out(g, ", ");
      expr(g, R_s32, depth - 1);
      out(g, ")");
      return;
    }
    if (t == R_f32 && depth > 1) {
      out(g, "reduce_add(");
      load(g, R_f32, 4);
      out(g, ")");
      return;
    }
    arithmetic(g, t, depth);
    return;
  default: arithmetic(g, t, depth);
  }
}

/* ---- statements ---- */

static void body(rgen *g, unsigned most);

static rvar *new_var(rgen *g, rtype t, const char *prefix) {
  if (g->nvar == 64) return NULL;
  rvar *v = &g->var[g->nvar++];
  *v = (rvar){.type = t, .par = g->par};
  snprintf(v->name, sizeof v->name, "%s%u", prefix, g->names++ % 100000);
  return v;
}

static void define(rgen *g) {
  rtype t = any_type(g);
  rvar *v = new_var(g, t, "v");
  if (!v) return;
  v->type = R_COUNT; // not visible in its own value
  out(g, "var %s: %s = ", v->name, type_names[t]);
  expr(g, t, 3);
  out(g, "\n");
  v->type = t;
  v->assignable = true;
}

static void assign(rgen *g) {
  rtype t = any_type(g);
  int v = pick(g, 2) ? some_var(g, t, true) : -1;
  rtensor *x = v < 0 ? some_tensor(g, t, true, 1) : NULL;
  if (v >= 0) out(g, "%s = ", g->var[v].name);
  else if (x) place(g, x, 1, must_own(g, x)), out(g, " = ");
  else {
    define(g);
    return;
  }
  expr(g, t, 4);
  out(g, "\n");
}

static void vector_assign(rgen *g) {
  rtensor *x = some_tensor(g, R_f32, true, 4);
  if (!x || (must_own(g, x) && x->rank == 1)) {
    assign(g);
    return;
  }
  place(g, x, 4, must_own(g, x));
  if (pick(g, 4) == 0) {
    g->n--; // the bracket
    out(g, " M= (");
    load(g, R_f32, 4);
    out(g, " < ");
    load(g, R_f32, 4);
    out(g, ")]");
  }
  out(g, " = (");
  load(g, R_f32, 4);
  out(g, pick(g, 2) ? " + " : " * ");
  if (pick(g, 2)) load(g, R_f32, 4);
  else out(g, "broadcast<f32x4>("), expr(g, R_f32, 1), out(g, ")");
  out(g, ")\n");
}

static void tensor(rgen *g) {
  if (g->nt >= 30) {
    define(g);
    return;
  }
  rtensor t = {.type = any_type(g), .rank = 1 + pick(g, 3), .par = g->par, .own = 0};
  if (t.type == R_bool) t.type = R_s32;
  unsigned id = g->names++ % 100000, named = pick(g, 6) == 0 ? pick(g, t.rank) : 9;
  snprintf(t.name, sizeof t.name, "T%u", id);
  for (unsigned k = 0; k < t.rank; k++) t.dim[k] = 2 + pick(g, 7);
  if (named < t.rank) out(g, "var d%u: s32 = %u\n", id, t.dim[named]), line(g);
  out(g, "tensor %s: [%s", t.name, type_names[t.type]);
  for (unsigned k = 0; k < t.rank; k++)
    if (k == named) out(g, " * d%u", id);
    else out(g, " * %u", t.dim[k]);
  out(g, "] = {");
  unsigned n = t.rank == 1 && named > t.rank && pick(g, 2) ? t.dim[0] : 1;
  for (unsigned k = 0; k < n; k++)
    out(g, "%s%u%s", k ? ", " : "", pick(g, 3), is_float(t.type) ? pick(g, 2) ? ".0f" : ".5f" : "");
  out(g, "}\n");
  if (named < t.rank && pick(g, 2)) line(g), out(g, "d%u = 1\n", id); // the tensor keeps its dims
  g->t[g->nt++] = t;
}

/* A tensor of one dim of at least 4 that may be written here as a whole. */
static rtensor *some_row(rgen *g) {
  for (unsigned i = 0, from = pick(g, g->nt); i < g->nt; i++) {
    rtensor *x = &g->t[(from + i) % g->nt];
    if (x->type == R_f32 && x->rank == 1 && x->dim[0] >= 4 && !must_own(g, x)) return x;
  }
  return NULL;
}

static void assign(rgen *g);

/* Calls that write memory: of a function that gives a value, of one for each i at once. */
static void effect(rgen *g) {
  rtensor *x = some_row(g);
  if (!x) {
    assign(g);
    return;
  }
  unsigned n = 1 + pick(g, 4), id = g->names++ % 100000;
  if (pick(g, 2)) out(g, "var e%u: f32 = poke(%s, ", id, x->name), expr(g, R_f32, 2), out(g, ")\n");
  else
    out(g, "spread(%s, ", x->name), expr(g, R_f32, 2),
        out(g, ")@parallel([0UL, %uUL, 1UL], [0, 2, 1])\n", n);
}

/* A view of the last dim of a tensor that may be written here. */
static void view(rgen *g) {
  rtensor *x = some_tensor(g, any_type(g), true, 1);
  if (!x || x->rank < 2 || must_own(g, x) || g->nt >= 30) {
    assign(g);
    return;
  }
  rtensor t = {.type = x->type, .rank = 1, .par = g->par, .own = 0, .dim = {x->dim[x->rank - 1]}};
  snprintf(t.name, sizeof t.name, "V%u", g->names++ % 100000);
  out(g, "tensor %s: [%s * %u] = &%s[", t.name, type_names[t.type], t.dim[0], x->name);
  for (unsigned k = 0; k + 1 < x->rank; k++) index_expr(g, x->dim[k], 1), out(g, ", ");
  out(g, "0UL]\n");
  g->t[g->nt++] = t;
}

static void open_scope(rgen *g, unsigned most) {
  unsigned nv = g->nvar, nt = g->nt;
  out(g, "{\n");
  g->indent++;
  body(g, most);
  g->indent--;
  line(g);
  out(g, "}");
  g->nvar = nv;
  g->nt = nt;
}

static void branch(rgen *g) {
  out(g, "if (");
  boolean(g, 2);
  out(g, ") ");
  if (!g->par && pick(g, 10) == 0) {
    out(g, "{\n");
    g->indent++;
    line(g);
    out(g, "return ");
    expr(g, R_f32, 2);
    out(g, "\n");
    g->indent--;
    line(g);
    out(g, "}\n");
    return;
  }
  open_scope(g, 3);
  if (pick(g, 2)) out(g, " else "), open_scope(g, 3);
  out(g, "\n");
}

static void branch_on_counter(rgen *g) {
  for (unsigned i = g->nvar; i-- > 0;) {
    if (!g->var[i].bound) continue;
    out(g, "if (%s %s %u%s) ", g->var[i].name,
        pick(g, 2) ? "<" : ">=", pick(g, g->var[i].bound + 2), suffix[g->var[i].type]);
    open_scope(g, 2);
    if (pick(g, 2)) out(g, " else "), open_scope(g, 2);
    out(g, "\n");
    return;
  }
  branch(g);
}

static void loop(rgen *g, bool parallel) {
  unsigned nv = g->nvar, n = 1 + pick(g, 8), step = pick(g, 4) ? 1 : 2, work = g->work;
  rtype t = pick(g, 2) ? R_index : R_s32;
  if (g->work * n > 3000) {
    assign(g);
    return;
  }
  rvar *v = new_var(g, t, "i");
  if (!v) return;
  if (parallel) step = 1;
  out(g, "for %s in (0%s, %u%s, %u%s)", v->name, suffix[t], n, suffix[t], step, suffix[t]);
  unsigned par = g->par;
  int counter = g->counter;
  rtensor saved[32];
  memcpy(saved, g->t, sizeof saved);
  if (parallel) {
    out(g, " parallel");
    g->par++;
    g->counter = (int)(v - g->var);
    for (unsigned k = 0; k < g->nt; k++)
      g->t[k].own =
          g->t[k].name[0] != 'V' && g->t[k].own >= 0 && g->t[k].dim[0] >= n && pick(g, 2) ? 0 : -1;
    for (unsigned k = 0; k < g->nt; k++) // a view is its tensor under another name
      if (g->t[k].name[0] == 'V')
        for (unsigned o = 0; o < g->nt; o++) g->t[o].own = -1;
  } else if (pick(g, 5) == 0) out(g, " @[unroll_loop=%u]", pick(g, 4));
  else if (pick(g, 5) == 0) out(g, " @[merge_loop]");
  v->bound = n;
  g->work *= n;
  out(g, " ");
  open_scope(g, 4);
  out(g, "\n");
  g->work = work;
  g->par = par;
  g->counter = counter;
  for (unsigned k = 0; k < g->nt; k++) g->t[k].own = saved[k].own;
  g->nvar = nv;
}

static void while_loop(rgen *g) {
  unsigned nv = g->nvar, n = 1 + pick(g, 4), work = g->work;
  rvar *v = new_var(g, R_s32, "w");
  if (!v) return;
  v->type = R_COUNT; // nobody else touches it
  out(g, "var %s: s32 = 0\n", v->name);
  line(g);
  out(g, "while (%s < %u) {\n", v->name, n);
  g->indent++;
  g->work *= n;
  line(g);
  out(g, "%s = (%s + 1)\n", v->name, v->name);
  unsigned nt = g->nt, inner = g->nvar;
  if (g->work < 3000) body(g, 3);
  g->nt = nt;
  g->nvar = inner;
  g->indent--;
  line(g);
  out(g, "}\n");
  g->work = work;
  g->nvar = nv;
}

static void body(rgen *g, unsigned most) {
  for (unsigned n = 1 + pick(g, most); n-- > 0 && g->budget;) {
    g->budget--;
    line(g);
    switch (pick(g, 16)) {
    case 0:
    case 1: define(g); break;
    case 2: tensor(g); break;
    case 3: view(g); break;
    case 4: branch(g); break;
    case 5: branch_on_counter(g); break;
    case 6:
    case 7: loop(g, false); break;
    case 8: loop(g, g->par == 0 || pick(g, 3) == 0); break;
    case 9: while_loop(g); break;
    case 10: vector_assign(g); break;
    case 11: effect(g); break;
    default: assign(g);
    }
  }
}

static void function(rgen *g, unsigned k, unsigned size) {
  g->nvar = g->nt = 0;
  g->budget = size;
  g->work = 1;
  g->counter = -1;
  g->par = 0;
  out(g, "func f%u(n: s32, x: f32, k: index", k);
  *new_var(g, R_s32, "") = (rvar){"n", R_s32, true, 0, 0};
  *new_var(g, R_s32, "") = (rvar){"x", R_f32, true, 0, 0};
  *new_var(g, R_s32, "") = (rvar){"k", R_index, true, 0, 0};
  for (unsigned i = 0; i < 3; i++) {
    rtensor t = {.type = i == 0 ? R_f32 : any_type(g), .rank = 1 + pick(g, 3), .own = 0};
    if (t.type == R_bool) t.type = R_s32;
    snprintf(t.name, sizeof t.name, "A%u", i);
    out(g, ", %s: [%s", t.name, type_names[t.type]);
    for (unsigned d = 0; d < t.rank; d++) out(g, " * %u", t.dim[d] = 4 + pick(g, 5));
    out(g, "]");
    g->t[g->nt++] = t;
  }
  g->t[g->nt++] = (rtensor){"G0", R_f32, 1, {8}, 0, 0, false};
  g->t[g->nt++] = (rtensor){"G1", R_s32, 2, {4, 3}, 0, 0, false};
  out(g, "): f32 {\n");
  g->indent = 1;
  while (g->budget) body(g, 8);
  line(g);
  out(g, "return ");
  expr(g, R_f32, 3);
  out(g, "\n}\n");
}

char *random_module(uint64_t seed, unsigned size, bool bf16) {
  rgen g = {.s = seed, .bf16 = bf16};
  g.counter = -1;
  out(&g,
      "private tensor G0: [f32 * 8] = {1.f, 2.f, 3.f, 4.f, 5.f, 6.f, 7.f, 8.f}\n"
      "public tensor G1: [s32 * 4 * 3] = {2}\n"
      "func poke(B: [f32 * 4], x: f32): f32 @[is_private%s] {\n  B[1UL] = (x + G0[2UL])\n"
      "  return B[2UL]\n}\n",
      pick(&g, 2) ? ", inline_level=2" : "");
  out(&g, "func spread(i: index, j: s32, B: [f32 * 4], x: f32): void @[is_private] {\n"
          "  if (j == 1) {\n    B[i] = (x * f32(i))\n  }\n}\n");
  for (unsigned k = 0; k < 2; k++) {
    g.nvar = g.nt = 0;
    out(&g, "func helper%u(a: f32, b: s32): f32 @[inline_level=%u, is_private%s] {\n", k, k ? 2 : 0,
        pick(&g, 2) ? ", pure" : "");
    *new_var(&g, R_f32, "") = (rvar){"a", R_f32, false, 0, 0};
    *new_var(&g, R_s32, "") = (rvar){"b", R_s32, false, 0, 0};
    out(&g, "  var r: f32 = ");
    expr(&g, R_f32, 2);
    out(&g, "\n  if (b > 2) {\n    r = (r + ");
    expr(&g, R_f32, 2);
    out(&g, ")\n  }\n  return r\n}\n");
  }
  g.nhelper = 2;
  function(&g, 0, size);
  return g.text;
}
