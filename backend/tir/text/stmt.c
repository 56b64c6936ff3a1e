// SPDX-License-Identifier: Apache-2.0
/* Parses statements and scopes.
 *   if (x > 0) { y = x } else { y = 0 }   ->   if_else(cmp_gt(x, 0), {assign(y, x)}, {assign(y, 0)})
 * After an error the parser goes on at the next line. */
#include "backend/tir/text/parse.h"

static tstmt stmt(tparser *p);

void anfi_tp_recover(tparser *p, uint32_t line) {
  if (p->tok.line > line && p->last_line < p->tok.line) return; // at the start of a line
  if (p->tok.line > line) line = p->tok.line;
  while (p->tok.kind != K_EOF && p->tok.line == line && !anfi_tp_is(p, "}")) anfi_tp_next(p);
}

tstmt anfi_tp_scope(tparser *p) {
  ANFI_VEC(tstmt) seq = {0};
  size_t mark = p->scope.n;
  anfi_tp_deeper(p, "statement");
  if (!anfi_tp_expect(p, "{")) return p->depth--, NULL;
  while (!anfi_tp_is(p, "}") && p->tok.kind != K_EOF && anfi_more_errors(p->cx)) {
    const anfi_str *comment = anfi_tp_take_comment(p);
    uint32_t line = p->tok.line;
    const char *before = p->tok.s;
    tstmt s = stmt(p);
    if (s) anfi_push(p->a, &seq, comment ? anfi_t_with_comment(p->t, s, comment) : s);
    else {
      anfi_tp_recover(p, line);
      if (p->tok.s == before) anfi_tp_next(p);
    }
  }
  anfi_tp_leave_to(p, mark);
  p->depth--;
  if (!anfi_tp_expect(p, "}")) return NULL;
  return anfi_t_stmts(p->t, seq.n, seq.at);
}

static texpr initial(tparser *p, texpr v) {
  if (anfi_tp_is(p, "{"))
    return anfi_tp_init_list(p, v->sub ? anfi_t_ptr(ANF_TIR_void)
                                       : anfi_t_dt((anf_tir_elem)v->dtype.elem));
  return anfi_tp_expr(p, 0);
}

tstmt anfi_tp_define(tparser *p, tlinkage l) {
  bool tensor = anfi_tp_is(p, "tensor");
  anfi_loc at = anfi_tp_here(p);
  anfi_tp_next(p);
  const anfi_str *name = anfi_tp_ident(p, "a name");
  texpr v = name ? anfi_tp_typed(p, name) : NULL, init = NULL;
  if (!v) return NULL;
  if (tensor != (v->kind == TX_tensor)) {
    anfi_fail(p->cx, at, ANF_E0811, name->s, tensor ? "tensor" : "var",
              tensor ? "[f32 * 10]" : "f32");
    return NULL;
  }
  if (anfi_tp_accept(p, "=") && !(init = initial(p, v))) return NULL;
  anfi_tp_declare(p, name, v);
  anfi_tp_at(p, at);
  return anfi_t_define(p->t, l, v, init);
}

static tstmt for_loop(tparser *p) {
  tdtype d;
  anfi_loc at = anfi_tp_here(p);
  anfi_tp_next(p);
  const anfi_str *name = anfi_tp_ident(p, "a loop variable");
  if (!name) return NULL;
  bool given = anfi_tp_accept(p, ":");
  if (given && !anfi_tp_type(p, &d)) return NULL;
  texprs in = {0};
  if (!anfi_tp_expect(p, "in") || !anfi_tp_expect(p, "(") || !anfi_tp_arguments(p, &in, ")"))
    return NULL;
  if (in.n == 2) anfi_push(p->a, &in, anfi_t_int(p->t, in.at[0]->dtype, 1));
  if (in.n != 3) return anfi_tp_unexpected(p, "(begin, end, step)"), NULL;
  bool parallel = anfi_tp_accept(p, "parallel");
  uint64_t threads = 0;
  if (anfi_tp_accept(p, "(") &&
      !(anfi_tp_count(p, UINT32_MAX, "a number of threads", &threads) && anfi_tp_expect(p, ")")))
    return NULL;
  tattrs a = anfi_tp_attrs(p);
  texpr v = anfi_t_var(p->t, given ? d : in.at[0]->dtype, name->s);
  size_t mark = p->scope.n;
  anfi_tp_declare(p, name, v);
  tstmt body = anfi_tp_scope(p);
  anfi_tp_leave_to(p, mark);
  if (!body) return NULL;
  anfi_tp_at(p, at);
  tstmt s = anfi_t_for(p->t, v, in.at[0], in.at[1], in.at[2], body, parallel, (uint32_t)threads);
  return a.n ? anfi_t_with_attrs(p->t, s, a) : s;
}

static tstmt branch(tparser *p);

static tstmt else_part(tparser *p) {
  if (!anfi_tp_is(p, "if")) return anfi_tp_scope(p);
  anfi_tp_deeper(p, "statement");
  tstmt inner = branch(p);
  p->depth--;
  return inner ? anfi_t_stmts(p->t, 1, &inner) : NULL;
}

static tstmt branch(tparser *p) {
  anfi_loc at = anfi_tp_here(p);
  anfi_tp_next(p);
  texpr c = anfi_tp_unary(p);
  if (!c) return NULL;
  tattrs a = anfi_tp_attrs(p);
  tstmt then_ = anfi_tp_scope(p), else_ = NULL;
  if (!then_ || (anfi_tp_accept(p, "else") && !(else_ = else_part(p)))) return NULL;
  anfi_tp_at(p, at);
  tstmt s = anfi_t_if(p->t, c, then_, else_);
  return a.n ? anfi_t_with_attrs(p->t, s, a) : s;
}

typedef struct spot {
  const char *p;
  uint32_t line, col;
  token tok;
} spot;
static spot mark_spot(const tparser *p) { return (spot){p->p, p->line, p->col, p->tok}; }
static void go_to(tparser *p, spot s) {
  p->p = s.p;
  p->line = s.line;
  p->col = s.col;
  p->tok = s.tok;
}

/* The body comes first: the condition may use the phis that it begins with. */
static tstmt while_loop(tparser *p) {
  anfi_loc at = anfi_tp_here(p);
  anfi_tp_next(p);
  spot condition = mark_spot(p);
  while (!anfi_tp_is(p, "{") && !anfi_tp_is(p, "}") && p->tok.kind != K_EOF) anfi_tp_next(p);
  tstmt body = anfi_tp_scope(p);
  if (!body) return NULL;
  spot end = mark_spot(p);
  size_t mark = p->scope.n;
  for (uint32_t i = 0;
       i < body->n && body->s[i]->kind == TS_define && anfi_t_isa(body->s[i]->e[1], TX_ssa_phi);
       i++)
    anfi_tp_declare(p, body->s[i]->e[0]->u.name, body->s[i]->e[0]);
  go_to(p, condition);
  texpr c = anfi_tp_unary(p);
  tattrs a = anfi_tp_attrs(p);
  anfi_tp_leave_to(p, mark);
  if (c && !anfi_tp_is(p, "{")) anfi_tp_unexpected(p, "'{'");
  bool good = c && anfi_tp_is(p, "{");
  go_to(p, end);
  if (!good) return NULL;
  anfi_tp_at(p, at);
  tstmt s = anfi_t_while(p->t, c, body);
  return a.n ? anfi_t_with_attrs(p->t, s, a) : s;
}

static tstmt evaluate(tparser *p) {
  anfi_loc at = anfi_tp_here(p);
  anfi_tp_next(p);
  if (!anfi_tp_expect(p, "{")) return NULL;
  texpr e = anfi_tp_expr(p, 0);
  if (!e || !anfi_tp_expect(p, "}")) return NULL;
  anfi_tp_at(p, at);
  return anfi_t_eval(p->t, e);
}

static tstmt returns(tparser *p) {
  anfi_loc at = anfi_tp_here(p);
  anfi_tp_next(p);
  texpr e = NULL;
  bool starts_stmt = anfi_tp_is(p, "}") || (p->tok.line > at.line);
  if (!starts_stmt && !(e = anfi_tp_expr(p, 0))) return NULL;
  anfi_tp_at(p, at);
  return anfi_t_return(p->t, e);
}

static tstmt assign_or_call(tparser *p) {
  anfi_loc at = anfi_tp_here(p);
  texpr l = anfi_tp_unary(p);
  if (!l) return NULL;
  anfi_tp_at(p, at);
  if ((l->kind == TX_call || l->kind == TX_intrin_call) && !anfi_tp_is(p, "="))
    return anfi_t_eval(p->t, l);
  if (!anfi_tp_expect(p, "=")) return NULL;
  if (l->kind != TX_var && l->kind != TX_indexing) {
    anfi_fail(p->cx, at, ANF_E0812);
    return NULL;
  }
  texpr r = anfi_tp_expr(p, 0);
  if (!r) return NULL;
  anfi_tp_at(p, at);
  return anfi_t_assign(p->t, l, r);
}

static tstmt stmt(tparser *p) {
  if (anfi_tp_is(p, "{")) return anfi_tp_scope(p);
  if (anfi_tp_is(p, "for")) return for_loop(p);
  if (anfi_tp_is(p, "if")) return branch(p);
  if (anfi_tp_is(p, "while")) return while_loop(p);
  tstmt s;
  if (anfi_tp_is(p, "var") || anfi_tp_is(p, "tensor")) s = anfi_tp_define(p, TL_local);
  else if (anfi_tp_is(p, "evaluate")) s = evaluate(p);
  else if (anfi_tp_is(p, "return")) s = returns(p);
  else s = assign_or_call(p);
  if (!s || !anfi_tp_is(p, "@")) return s;
  tattrs a = anfi_tp_attrs(p);
  return a.n ? anfi_t_with_attrs(p->t, s, a) : s;
}
