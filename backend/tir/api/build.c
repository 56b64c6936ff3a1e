// SPDX-License-Identifier: Apache-2.0
/* The builder with scopes, behind the macros of anfora/tir.h.
 *
 *   ANF_FOR(b, i, 0, 3) { ANF_SET(b, s, i); }     opens a scope, adds the statement, closes the scope as a for_loop
 *
 * INVARIANT: a body is entered once. Leaving it by `break` skips anf_tb_leave; anf_tb_close of the same body
 * notices. The first error sticks and turns later steps into nothing. */
#include "backend/tir/tir.h"

typedef enum bkind { B_TOP, B_FUNC, B_FOR, B_IF, B_ELSE, B_WHILE } bkind;

typedef struct bscope {
  /* body */
  bkind kind;
  ANFI_VEC(tstmt) seq;
  /* of a loop or branch */
  texpr var, e[3]; // for: begin end step · if, while: condition
  bool parallel;
  /* of a function */
  const char *name, *file;
  int line;
  tdtype ret;
} bscope;

struct anf_tb {
  /* the function */
  anf_ctx *cx;
  tmod *m;
  anfi_arena arena;
  ANFI_VEC(bscope *) stack;
  texpr *param;
  size_t nparam;
  /* the first error */
  anf_status status;
  anfi_code code;          // of the first error
  const char *file, *what; // where it was
  int line;
  const char *from; // the file of the nodes, or NULL; their line is the store's
};

static void sticks(anf_tb *b, anf_status st, anfi_code code, const char *what, const char *file,
                   int line) {
  if (b->status != ANF_OK) return;
  b->status = st;
  b->code = code;
  b->what = what;
  b->file = file;
  b->line = line;
}

static bscope *top(anf_tb *b) { return b->stack.at[b->stack.n - 1]; }

static bscope *push_scope(anf_tb *b, bkind k, const char *file, int line) {
  bscope *s = ANFI_NEW(&b->arena, bscope);
  s->kind = k;
  s->file = file;
  s->line = line;
  anfi_push(&b->arena, &b->stack, s);
  return s;
}

static anf_status first_scope(anf_tb *b) {
  ANFI_ENTRY(b->cx, NULL);
  push_scope(b, B_TOP, "", 0);
  return anfi_leave(b->cx);
}

anf_tb *anf_tb_new(anf_ctx *cx) {
  if (!cx) return NULL;
  anf_tb *b = (anf_tb *)anfi_object(cx, sizeof *b);
  if (!b) return NULL;
  *b = (anf_tb){.cx = cx};
  anfi_arena_init(&b->arena, cx);
  b->m = anf_tir_module_new(cx);
  if (b->m && first_scope(b) == ANF_OK) return b;
  anf_tb_free(b);
  return NULL;
}

void anf_tb_free(anf_tb *b) {
  if (!b) return;
  anf_ctx *cx = b->cx;
  anf_tir_module_free(b->m);
  anfi_arena_free(&b->arena);
  anfi_object_free(cx, b);
}

anf_tir_module *anf_tb_module(anf_tb *b) { return b ? b->m : NULL; }

/* The file of the builder's nodes. */
static anf_status name_file(anf_tb *b, const char *file) {
  ANFI_ENTRY(b->cx, NULL);
  b->m->t->file = b->from = anfi_intern_z(&b->cx->strings, file)->s;
  return anfi_leave(b->cx);
}

static anf_status push_stmt(anf_tb *b, tstmt s) {
  if (!s) return anf_tir_module_status(b->m);
  ANFI_ENTRY(b->cx, NULL);
  anfi_push(&b->arena, &top(b)->seq, s);
  return anfi_leave(b->cx);
}

static void put(anf_tb *b, tstmt s) {
  if (b->status != ANF_OK) return;
  anf_status st = push_stmt(b, s);
  if (st != ANF_OK) sticks(b, st, ANF_E0868, "a statement", top(b)->file, top(b)->line);
}

static texpr checked(anf_tb *b, texpr e) {
  if (!e && b->status == ANF_OK) {
    anf_status st = anf_tir_module_status(b->m);
    sticks(b, st == ANF_OK ? ANF_INVALID : st, ANF_E0868, "an expression", top(b)->file,
           top(b)->line);
  }
  return e;
}

void anf_tb_place(anf_tb *b, const char *file, int line) {
  if (!b) return;
  tstore *t = b->m->t;
  anf_status st = !b->from && file ? name_file(b, file) : ANF_OK;
  if (st != ANF_OK) sticks(b, st, ANF_E0868, "a place", file, line);
  bool known = b->from && file && strcmp(b->from, file) == 0 && line > 0;
  t->line = known ? (uint32_t)line : 0;
  t->col = known ? 1 : 0;
}

static anf_status open_scope(anf_tb *b, bkind k, const char *file, int line) {
  ANFI_ENTRY(b->cx, NULL);
  push_scope(b, k, file, line);
  return anfi_leave(b->cx);
}

static anf_tb_scope opened(anf_tb *b, bkind k, const char *file, int line) {
  anf_tb_scope s = {b, NULL, 0, 3}; // 0 open, 1 in its body, 2 body left, 3 done
  if (b->status != ANF_OK) return s;
  anf_tb_place(b, file, line);
  anf_status st = open_scope(b, k, file, line);
  if (st != ANF_OK) {
    sticks(b, st, ANF_E0868, "a scope", file, line);
    return s;
  }
  s.depth = (uint32_t)b->stack.n;
  s.state = 0;
  return s;
}

bool anf_tb_open(anf_tb_scope *s) { return s ? s->state == 0 : false; }
bool anf_tb_enter(anf_tb_scope *s) {
  if (!s) return false;
  if (s->state) return false;
  s->state = 1;
  return true;
}
void anf_tb_leave(anf_tb_scope *s) {
  if (!s) return;
  s->state = 2;
}

static tstmt close_stmt(anf_tb *b, bscope *s, tstmt body) {
  tmod *m = b->m;
  switch (s->kind) {
  case B_FOR:
    return anf_tir_make_for_unattached(m, s->var, s->e[0], s->e[1], s->e[2], body, s->parallel, 0);
  case B_IF: return anf_tir_make_if_else_unattached(m, s->e[0], body, NULL);
  case B_WHILE: return anf_tir_make_while_unattached(m, s->e[0], body);
  default: return body;
  }
}

/* The `if` before an `else` is made anew with both. */
static void close_else(anf_tb *b, tstmt body) {
  bscope *s = top(b);
  tstmt before = s->seq.n ? s->seq.at[s->seq.n - 1] : NULL;
  if (!before || before->kind != TS_if_else || before->s[1]) {
    sticks(b, ANF_INVALID, ANF_E0867, "", s->file, s->line);
    return;
  }
  tstmt both = anf_tir_make_if_else_unattached(b->m, before->e[0], before->s[0], body);
  if (both) s->seq.at[s->seq.n - 1] = both;
}

void anf_tb_close(anf_tb_scope *k) {
  if (!k || !k->b) return;
  anf_tb *b = k->b;
  int left = k->state;
  k->state = 3;
  if (b->stack.n < k->depth) return;
  bscope *s = b->stack.at[k->depth - 1];
  if (left != 2 || b->stack.n != k->depth) sticks(b, ANF_INVALID, ANF_E0866, "", s->file, s->line);
  b->stack.n = k->depth - 1;
  if (b->status != ANF_OK) return;
  anf_tb_place(b, s->file, s->line);
  tstmt body = anf_tir_make_stmts_unattached(b->m, s->seq.n, s->seq.at);
  if (s->kind == B_ELSE) close_else(b, body);
  else if (s->kind != B_FUNC) put(b, close_stmt(b, s, body));
  else {
    tfunc f = body ? anf_tir_make_func(b->m, s->name, s->ret, b->nparam, b->param, body) : NULL;
    anf_status st = f ? anf_tir_module_add(b->m, f) : anf_tir_module_status(b->m);
    if (st != ANF_OK) sticks(b, st, ANF_E0868, "a function", s->file, s->line);
  }
}

static anf_status room_for_params(anf_tb *b, size_t n) {
  ANFI_ENTRY(b->cx, NULL);
  b->param = ANFI_NEW_N(&b->arena, texpr, n + 1);
  b->nparam = n;
  return anfi_leave(b->cx);
}

/* A negative dim is the value of a parameter before this one: ANF_DIM. */
static texpr param_tensor(anf_tb *b, const anf_tb_arg *a, size_t before) {
  texpr dim[ANFI_LEN(a->dims)];
  if (a->rank > ANFI_LEN(dim)) return NULL;
  for (size_t i = 0; i < a->rank; i++) {
    int64_t d = a->dims[i];
    if (d < 0 && (size_t) - (d + 1) >= before) return NULL;
    dim[i] = d < 0 ? b->param[-(d + 1)] : anf_tir_make_index(b->m, (uint64_t)d);
  }
  return anf_tir_make_tensor_of(b->m, a->elem, a->name, a->rank, dim, NULL);
}

anf_tb_scope anf_tb_func(anf_tb *b, anf_tir_elem ret, const char *name, size_t n,
                         const anf_tb_arg *args, const char *file, int line) {
  if (!b || (n && !args)) return (anf_tb_scope){0};
  anf_tb_scope s = opened(b, B_FUNC, file, line);
  if (s.state) return s;
  top(b)->name = name;
  top(b)->ret = anfi_t_dt(ret);
  anf_status st = room_for_params(b, n);
  if (st != ANF_OK) return sticks(b, st, ANF_E0868, "parameters", file, line), s;
  for (size_t i = 0; i < n; i++) {
    const anf_tb_arg *a = &args[i];
    b->param[i] = checked(b, a->rank ? param_tensor(b, a, i)
                                     : anf_tir_make_var(b->m, anfi_t_dt(a->elem), a->name));
  }
  return s;
}

anf_tb_scope anf_tb_for(anf_tb *b, const char *name, texpr begin, texpr end, texpr step,
                        bool parallel, const char *file, int line) {
  if (!b) return (anf_tb_scope){0};
  anf_tb_scope s = opened(b, B_FOR, file, line);
  if (s.state) return s;
  bscope *k = top(b);
  k->parallel = parallel;
  k->e[0] = checked(b, begin);
  k->e[1] = checked(b, end);
  if (!k->e[0] || !k->e[1]) return s;
  s.var = k->var = checked(b, anf_tir_make_var(b->m, begin->dtype, name));
  if (!step) step = anf_tir_make_int(b->m, begin->dtype, 1);
  k->e[2] = checked(b, step);
  return s;
}

static anf_tb_scope with_condition(anf_tb *b, bkind k, texpr cond, const char *file, int line) {
  anf_tb_scope s = opened(b, k, file, line);
  if (!s.state) top(b)->e[0] = checked(b, cond);
  return s;
}
anf_tb_scope anf_tb_if(anf_tb *b, texpr cond, const char *file, int line) {
  if (!b) return (anf_tb_scope){0};
  return with_condition(b, B_IF, cond, file, line);
}
anf_tb_scope anf_tb_while(anf_tb *b, texpr cond, const char *file, int line) {
  if (!b) return (anf_tb_scope){0};
  return with_condition(b, B_WHILE, cond, file, line);
}
anf_tb_scope anf_tb_else(anf_tb *b, const char *file, int line) {
  if (!b) return (anf_tb_scope){0};
  return opened(b, B_ELSE, file, line);
}

texpr anf_tb_param(anf_tb *b, size_t i) {
  if (!b) return NULL;
  if (i < b->nparam) return b->param[i];
  sticks(b, ANF_INVALID, ANF_E0868, "a parameter that there is not", top(b)->file, top(b)->line);
  return NULL;
}
texpr anf_tb_var(anf_tb *b, anf_tir_elem e, const char *name, texpr init) {
  if (!b) return NULL;
  texpr v = checked(b, anf_tir_make_var(b->m, anfi_t_dt(e), name));
  if (v) put(b, anf_tir_make_define_unattached(b->m, v, init));
  return v;
}
texpr anf_tb_tensor(anf_tb *b, anf_tir_elem e, const char *name, size_t rank, const int64_t *dims) {
  if (!b) return NULL;
  texpr v = checked(b, anf_tir_make_tensor(b->m, e, name, rank, dims));
  if (v) put(b, anf_tir_make_define_unattached(b->m, v, NULL));
  return v;
}
texpr anf_tb_tensor_of(anf_tb *b, anf_tir_elem e, const char *name, size_t rank, const texpr *dims,
                       const texpr *strides, texpr of) {
  if (!b) return NULL;
  texpr v = checked(b, anf_tir_make_tensor_of(b->m, e, name, rank, dims, strides));
  if (v) put(b, anf_tir_make_define_unattached(b->m, v, of));
  return v;
}
void anf_tb_assign(anf_tb *b, texpr to, texpr value) {
  if (!b) return;
  put(b, anf_tir_make_assign_unattached(b->m, to, value));
}
void anf_tb_evaluate(anf_tb *b, texpr value) {
  if (!b) return;
  put(b, anf_tir_make_evaluate_unattached(b->m, value));
}
void anf_tb_return(anf_tb *b, texpr value) {
  if (!b) return;
  put(b, anf_tir_make_return_unattached(b->m, value));
}
texpr anf_tb_binary(anf_tb *b, const char *kind, texpr l, texpr r) {
  if (!b) return NULL;
  return checked(b, anf_tir_make_binary(b->m, kind, l, r));
}
texpr anf_tb_at(anf_tb *b, texpr tensor, size_t n, const texpr *idx) {
  if (!b) return NULL;
  return checked(b, anf_tir_make_indexing(b->m, tensor, n, idx, 1, NULL));
}
texpr anf_tb_call(anf_tb *b, anf_tir_elem ret, const char *func, size_t n, const texpr *args) {
  if (!b) return NULL;
  return checked(b, anf_tir_make_call(b->m, func, anfi_t_dt(ret), n, args));
}
texpr anf_tb_int(anf_tb *b, anf_tir_elem e, int64_t v) {
  return b ? checked(b, anf_tir_make_int(b->m, anfi_t_dt(e), v)) : NULL;
}
texpr anf_tb_s32(anf_tb *b, int v) { return b ? checked(b, anf_tir_make_s32(b->m, v)) : NULL; }
texpr anf_tb_s64(anf_tb *b, long v) { return b ? checked(b, anf_tir_make_s64(b->m, v)) : NULL; }
texpr anf_tb_index(anf_tb *b, unsigned long v) {
  if (!b) return NULL;
  return checked(b, anf_tir_make_index(b->m, v));
}
texpr anf_tb_bool(anf_tb *b, bool v) { return b ? checked(b, anf_tir_make_bool(b->m, v)) : NULL; }
texpr anf_tb_f32(anf_tb *b, float v) { return b ? checked(b, anf_tir_make_f32(b->m, v)) : NULL; }
texpr anf_tb_f64(anf_tb *b, double v) { return b ? checked(b, anf_tir_make_f64(b->m, v)) : NULL; }
texpr anf_tb_same(anf_tb *b, texpr e) { return b ? checked(b, e) : NULL; }

anf_tir_stmt anf_tb_take(anf_tb *b) {
  if (!b) return NULL;
  if (b->status != ANF_OK) return NULL;
  tstmt s = anf_tir_make_stmts_unattached(b->m, top(b)->seq.n, top(b)->seq.at);
  top(b)->seq.n = 0;
  return s;
}

static anf_status report(anf_tb *b, anf_diag *d) {
  ANFI_ENTRY(b->cx, d);
  const char *file = b->file ? anfi_intern_z(&b->cx->strings, b->file)->s : NULL;
  anfi_fail(b->cx, (anfi_loc){file, (uint32_t)b->line, 1}, b->code, b->what);
  anf_status st = anfi_leave(b->cx);
  return st == ANF_NOMEM ? st : b->status;
}

anf_status anf_tb_finish(anf_tb *b, anf_diag *d, anf_tir_module **out) {
  ANFI_NEED(d, b, out);
  *out = NULL;
  if (b->stack.n != 1) sticks(b, ANF_INVALID, ANF_E0866, "", top(b)->file, top(b)->line);
  if (b->status != ANF_OK) return report(b, d);
  tmod *fresh = anf_tir_module_new(b->cx);
  if (!fresh) return ANF_NOMEM;
  *out = b->m;
  b->from = NULL;
  b->m = fresh;
  return ANF_OK;
}
