// SPDX-License-Identifier: Apache-2.0
/* dessa_transform: out of single assignment: a phi becomes a variable that every incoming path assigns at its end.
 *
 *   var a_2 = phi(a_1, a_3 loop)   →   var a_2 = a_1                     before the loop
 *                                      a_2 = a_3                         at the end of the body
 *
 * The phi after a loop shares the variable of the loop's own phi. Two phis of a loop that swap their values
 * are read before either is written (the swap problem of Briggs et al.). */
#include "backend/tir/tir.h"

typedef ANFI_VEC(tstmt) svec;
typedef struct user {
  tstore *t;
  anfi_arena *a;
  tvisitor names; // phis that are another variable
} user;

static bool is_phi(tstmt s, bool loop) {
  return s->kind == TS_define && anfi_t_isa(s->e[1], TX_ssa_phi) && s->e[1]->sub == loop;
}
static bool ends(tstmt body) { return body->n && body->s[body->n - 1]->kind == TS_returns; }

static tstmt stmt(user *u, tstmt s);

static void push(user *u, svec *v, tstmt s) { anfi_push(u->a, v, s); }

static tstmt extended(user *u, tstmt body, const svec *more) {
  if (!more->n || ends(body)) return body;
  tstmt two[] = {anfi_t_splice(u->t, body->n, body->s), anfi_t_splice(u->t, more->n, more->at)};
  return anfi_t_stmts(u->t, 2, two);
}

static void branch(user *u, tstmt s, const tstmt *phi, uint32_t n, svec *out) {
  svec a = {0}, b = {0};
  for (uint32_t i = 0; i < n; i++) {
    texpr v = phi[i]->e[0], in = phi[i]->e[1];
    push(u, out, anfi_t_define(u->t, TL_local, v, NULL));
    push(u, &a, anfi_t_assign(u->t, v, in->in[0]));
    push(u, &b, anfi_t_assign(u->t, v, in->in[1]));
  }
  tstmt x = stmt(u, s), none = anfi_t_stmts(u->t, 0, NULL);
  const tstmt sub[] = {extended(u, x->s[0], &a),
                       n ? extended(u, x->s[1] ? x->s[1] : none, &b) : x->s[1]};
  push(u, out, n ? anfi_t_remake_stmt(u->t, x, x->e, sub) : x);
}

static void loop(user *u, tstmt s, const tstmt *phi, uint32_t n, svec *out) {
  tstmt body = s->s[0];
  uint32_t heads = 0;
  svec read = {0}, write = {0}, rest = {0};
  while (heads < body->n && is_phi(body->s[heads], true)) heads++;
  for (uint32_t i = 0; i < n; i++) {
    texpr v = phi[i]->e[0], in = phi[i]->e[1], same = NULL;
    for (uint32_t k = 0; k < heads && !same; k++)
      if (body->s[k]->e[1]->in[0] == in->in[0] && body->s[k]->e[1]->in[1] == in->in[1])
        same = body->s[k]->e[0];
    if (same) {
      anfi_t_map_var(&u->names, v, same);
      continue;
    }
    push(u, out, anfi_t_define(u->t, TL_local, v, in->in[0]));
    push(u, &read, anfi_t_assign(u->t, v, in->in[1]));
  }
  for (uint32_t k = 0; k < heads; k++) {
    texpr v = body->s[k]->e[0], in = body->s[k]->e[1], end = in->in[1];
    push(u, out, anfi_t_define(u->t, TL_local, v, in->in[0]));
    bool crossing = false;
    for (uint32_t o = 0; o < heads; o++) crossing |= o != k && body->s[o]->e[0] == end;
    if (crossing) {
      texpr tmp = anfi_t_var(u->t, v->dtype, anfi_sprintf(u->a, "%s_t", v->u.name->s));
      push(u, &read, anfi_t_define(u->t, TL_local, tmp, end));
      end = tmp;
    }
    if (end != v) push(u, &write, anfi_t_assign(u->t, v, end));
  }
  tstmt inner = stmt(u, anfi_t_stmts(u->t, body->n - heads, body->s + heads));
  push(u, &rest, anfi_t_splice(u->t, read.n, read.at));
  push(u, &rest, anfi_t_splice(u->t, write.n, write.at));
  tstmt whole = read.n + write.n ? extended(u, inner, &rest) : inner;
  push(u, out, anfi_t_remake_stmt(u->t, s, s->e, &whole));
}

static tstmt sequence(user *u, tstmt s) {
  svec out = {0};
  for (uint32_t i = 0; i < s->n; i++) {
    uint32_t n = 0;
    tstmt x = s->s[i];
    while (i + 1 + n < s->n && is_phi(s->s[i + 1 + n], false)) n++;
    if (x->kind == TS_if_else) branch(u, x, s->s + i + 1, n, &out);
    else if (x->kind == TS_for_loop || x->kind == TS_while_loop) loop(u, x, s->s + i + 1, n, &out);
    else push(u, &out, x->kind == TS_stmts ? stmt(u, x) : x), n = 0;
    i += n;
  }
  return anfi_t_stmts(u->t, out.n, out.at);
}

static tstmt stmt(user *u, tstmt s) {
  if (s->kind == TS_stmts) return sequence(u, s);
  tstmt sub[2] = {0};
  for (uint32_t i = 0; i < s->n; i++) sub[i] = s->s[i] ? sequence(u, s->s[i]) : NULL;
  return s->n ? anfi_t_remake_stmt(u->t, s, s->e, sub) : s;
}

tfunc anfi_t_pass_dessa_transform(tpass_cx *p, tfunc f) {
  user u = {.t = p->t, .a = p->scratch};
  anfi_t_visitor_init(&u.names, p->t, p->scratch, &u);
  tstmt body = sequence(&u, f->body);
  return anfi_t_with_body(p->t, f, anfi_t_visit_stmt(&u.names, body));
}
