// SPDX-License-Identifier: Apache-2.0
/* Random tensor programs as text: names, types, and places in memory. */
#include "test/tir/random.h"

#include <stdarg.h>
#include <stdlib.h>

const char *const rg_type[R_COUNT] = {"bool", "s8",  "s16",   "s32", "s64",  "u8",  "u16",
                                      "u32",  "u64", "index", "f16", "bf16", "f32", "f64"};
const char *const rg_suffix[R_COUNT] = {"",    "s8",  "s16", "",    "s64",  "u8", "u16",
                                        "u32", "u64", "UL",  "f16", "bf16", "f",  "f64"};

unsigned rg_pick(rgen *g, unsigned n) { return n ? (unsigned)(next_random(&g->s) % n) : 0; }
unsigned rg_id(rgen *g) { return g->names++ % 100000; }
void rg_out(rgen *g, const char *fmt, ...) {
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
void rg_line(rgen *g) {
  for (unsigned i = 0; i < g->indent; i++) rg_out(g, "  ");
}

/* ---- types, names ---- */

rtype rg_any_type(rgen *g) {
  static const rtype common[] = {R_s32, R_index, R_f32,  R_f32, R_s64,
                                 R_u8,  R_f64,   R_bool, R_s32, R_f32},
                     rare[] = {R_s8, R_s16, R_u16, R_u32, R_u64};
  if (g->half && rg_pick(g, 3) == 0) return rg_pick(g, 3) ? R_bf16 : R_f16;
  return rg_pick(g, 9) ? common[rg_pick(g, 10)] : rare[rg_pick(g, 5)];
}
rtype rg_number_type(rgen *g) {
  rtype t = rg_any_type(g);
  return t == R_bool ? R_s32 : t;
}

void rg_constant(rgen *g, rtype t) {
  unsigned v = rg_pick(g, 6);
  if (t == R_bool) rg_out(g, v & 1 ? "true" : "false");
  else if (rg_is_float(t)) rg_out(g, "%u.%u%s", v, rg_pick(g, 2) * 5, rg_suffix[t]);
  else rg_out(g, "%u%s", v, rg_suffix[t]);
}

int rg_some_var(rgen *g, rtype t, bool to_assign) {
  unsigned from = g->nvar ? rg_pick(g, g->nvar) : 0;
  for (unsigned i = 0; i < g->nvar; i++) {
    unsigned k = (from + i) % g->nvar;
    const rvar *v = &g->var[k];
    if (v->type == t && v->lanes == 1 && (!to_assign || (v->assignable && v->par == g->par)))
      return (int)k;
  }
  return -1;
}

rvar *rg_new_var(rgen *g, rtype t, const char *prefix) {
  if (g->nvar == 64) return NULL;
  rvar *v = &g->var[g->nvar++];
  *v = (rvar){.type = t, .lanes = 1, .par = g->par};
  snprintf(v->name, sizeof v->name, "%s%u", prefix, rg_id(g));
  return v;
}

/* ---- places ---- */

bool rg_must_own(const rgen *g, const rtensor *t) { return g->par && t->par < g->par; }

rtensor *rg_some_tensor(rgen *g, rtype t, bool write, unsigned lanes) {
  unsigned from = g->nt ? rg_pick(g, g->nt) : 0;
  for (unsigned i = 0; i < g->nt; i++) {
    rtensor *x = &g->t[(from + i) % g->nt];
    if (x->type != t || x->dim[x->rank - 1] < lanes || (x->strided && lanes > 1)) continue;
    if (rg_must_own(g, x) && (x->own == -2 || (x->own < 0 && write))) continue;
    if (rg_must_own(g, x) && x->own >= 0 && lanes > 1 && x->rank == 1) continue;
    return x;
  }
  return NULL;
}

void rg_index(rgen *g, unsigned dim, unsigned extent) { // of `extent` lanes or rows
  unsigned limit = dim - extent + 1;
  for (int tries = 0; tries < 4 && g->nvar; tries++) {
    const rvar *v = &g->var[rg_pick(g, g->nvar)];
    if (!v->bound || v->bound > limit) continue;
    if (v->bound < limit && rg_pick(g, 3) == 0)
      rg_out(g, "(%s + %u%s)", v->name, 1 + rg_pick(g, limit - v->bound), rg_suffix[v->type]);
    else rg_out(g, "%s", v->name);
    return;
  }
  int v = rg_pick(g, 3) == 0 ? rg_some_var(g, R_index, false) : -1;
  if (v >= 0) rg_out(g, "(%s %% %uUL)", g->var[v].name, limit);
  else rg_out(g, "%u%s", rg_pick(g, limit), rg_pick(g, 2) ? "UL" : "");
}

void rg_place(rgen *g, const rtensor *t, unsigned lanes, unsigned rows, bool own) {
  rg_out(g, "%s[", t->name);
  for (unsigned k = 0; k < t->rank; k++) {
    unsigned extent = k + 1 == t->rank ? lanes : k + 2 == t->rank && rows ? rows : 1;
    if (k) rg_out(g, ", ");
    if (k == 0 && own && g->counter >= 0) rg_out(g, "%s", g->var[g->counter].name);
    else rg_index(g, t->dim[k], extent);
  }
  if (rows) rg_out(g, " @ %ux%u", lanes, rows);
  else if (lanes > 1) rg_out(g, " @ %u", lanes);
  rg_out(g, "]");
}

void rg_load(rgen *g, rtype t, unsigned lanes) {
  rtensor *x = rg_some_tensor(g, t, false, lanes);
  bool loud = lanes == 1 && rg_pick(g, 20) == 0;
  if (x && loud) rg_out(g, "volatile_load(");
  if (x) rg_place(g, x, lanes, 0, rg_must_own(g, x) && x->own >= 0);
  else if (lanes == 1) rg_constant(g, t);
  else rg_out(g, "(1%s%s x %u)", rg_is_float(t) ? ".0" : "", rg_suffix[t], lanes);
  if (x && loud) rg_out(g, ")");
}

rtensor *rg_addressed(rgen *g, rtype t, unsigned rank) {
  for (unsigned i = 0, from = rg_pick(g, g->nt); i < g->nt; i++) {
    rtensor *x = &g->t[(from + i) % g->nt];
    if (x->type == t && (!rank || x->rank == rank) && !x->strided && !rg_must_own(g, x)) return x;
  }
  return NULL;
}

void rg_address(rgen *g, const rtensor *t) {
  rg_out(g, "&%s[", t->name);
  for (unsigned k = 0; k < t->rank; k++) rg_out(g, "%s0UL", k ? ", " : "");
  rg_out(g, "]");
}
