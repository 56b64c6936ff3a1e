// SPDX-License-Identifier: Apache-2.0
/* ir_simplifier: control flow that is decided at compile time.
 *
 *   if (true) { A } else { B }    →     A
 *   for i in (2, 3, 1) { A[i] }   →     A[2]
 *   return n;  A[0] = 6.f         →     return n
 *
 * Nested scopes become one; a branch with an empty then-side is negated; statements that do nothing or are
 * unreachable go. */
#include "backend/tir/tir.h"

static bool quiet(texpr e) { return anfi_t_pure(e) && !anfi_t_may_trap(e); }

static tstmt open_up(tvisitor *v, tstmt body) { return anfi_t_splice(v->t, body->n, body->s); }

static tstmt branch(tvisitor *v, tstmt s) {
  int64_t c;
  if (anfi_t_const_i64(s->e[0], &c))
    return c ? open_up(v, s->s[0]) : s->s[1] ? open_up(v, s->s[1]) : NULL;
  bool no_else = !s->s[1] || !s->s[1]->n;
  if (!s->s[0]->n && no_else) return quiet(s->e[0]) ? NULL : anfi_t_eval(v->t, s->e[0]);
  if (!s->s[0]->n) return anfi_t_if(v->t, anfi_t_not(v->t, s->e[0]), s->s[1], NULL);
  return s->s[1] && no_else ? anfi_t_remake_stmt(v->t, s, s->e, (const tstmt[]){s->s[0], NULL}) : s;
}

static tstmt loop(tvisitor *v, tstmt s) {
  int64_t b, e, step;
  if (!anfi_t_loop_bounds(s, &b, &e, &step)) {
    int64_t k;
    bool nothing =
        !s->s[0]->n && quiet(s->e[1]) && quiet(s->e[2]) && anfi_t_const_i64(s->e[3], &k) && k > 0;
    return nothing ? NULL : s;
  }
  uint64_t n = anfi_t_trip(b, e, step);
  if (!n || !s->s[0]->n) return NULL;
  if (n > 1) return s;
  return open_up(v, anfi_t_subst_stmt(v->t, v->scratch, s->s[0], s->e[0], s->e[1]));
}

/* Statements after a return are never reached: they go. */
static tstmt sequence(tvisitor *v, tstmt s) {
  ANFI_VEC(tstmt) out = {0};
  bool changed = false;
  for (uint32_t i = 0; i < s->n; i++) {
    bool nested = s->s[i]->kind == TS_stmts;
    changed |= nested;
    tstmt x = nested ? open_up(v, s->s[i]) : s->s[i];
    anfi_push(v->scratch, &out, x);
    bool ends = x->kind == TS_returns || (nested && x->n && x->s[x->n - 1]->kind == TS_returns);
    if (!ends) continue;
    changed |= i + 1 < s->n;
    break;
  }
  return changed ? anfi_t_stmts(v->t, out.n, out.at) : s;
}

static tstmt simplify(tvisitor *v, tstmt s) {
  switch ((tskind)s->kind) {
  case TS_stmts: return s->sub ? s : sequence(v, s);
  case TS_if_else: return branch(v, s);
  case TS_for_loop: return loop(v, s);
  case TS_while_loop: return anfi_t_is_const(s->e[0], 0) ? NULL : s;
  case TS_evaluate: return quiet(s->e[0]) ? NULL : s;
  default: return s;
  }
}

tfunc anfi_t_pass_ir_simplifier(tpass_cx *p, tfunc f) {
  tvisitor v;
  anfi_t_visitor_init(&v, p->t, p->scratch, p);
  v.stmt = simplify;
  return anfi_t_visit_func(&v, f);
}
