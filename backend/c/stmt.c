// SPDX-License-Identifier: Apache-2.0
/* Statements of Tensor IR as statements of C.
 *   for i in (0UL, 8UL, 1UL) { y[i] = x[i] }   ->   for (index i = 0ULL; i < 8ULL; i++) { y[i] = x[i]; }
 * Bounds are computed once; a loop whose variable could overflow counts its iterations instead. The source line of a
 * statement is a comment after it, or in a #line. */
#include "backend/c/c.h"

#define SAY(...) anfi_sprintf(c->a, __VA_ARGS__)

static void stmt(cgen *c, tstmt s);

void anfi_c_line(cgen *c) {
  for (uint32_t i = 0; i < c->indent; i++) anfi_puts(c->out, "  ");
}

/* ---- lines and comments ---- */

static void comment(cgen *c, const anfi_str *text) {
  if (!text) return;
  for (const char *s = text->s; *s;) {
    size_t n = strcspn(s, "\n");
    bool joins = n && s[n - 1] == '\\'; // would swallow the next line
    anfi_c_line(c);
    anfi_puts(c->out, "// ");
    anfi_put(c->out, s, n);
    anfi_puts(c->out, joins ? ".\n" : "\n");
    s += n + (s[n] == '\n');
  }
}

/* "file" as a literal of C */
static const char *quoted(cgen *c, const char *s) {
  char *q = (char *)anfi_alloc(c->a, strlen(s) * 2 + 3), *p = q;
  *p++ = '"';
  for (; *s; s++) {
    if (*s == '"' || *s == '\\') *p++ = '\\';
    if ((unsigned char)*s >= ' ') *p++ = *s;
  }
  *p++ = '"', *p = 0;
  return q;
}

static void before(cgen *c, uint32_t line) {
  if (!c->o->line_directives || !line || line == c->line) return;
  anfi_putf(c->out, "#line %u %s\n", line, quoted(c, c->m->t->file ? c->m->t->file : ""));
  c->line = line;
}

/* Ends a line of text. */
static void after(cgen *c, uint32_t line) {
  if (!c->o->line_directives && line && line != c->line) {
    anfi_putf(c->out, "  // :%u", line);
    c->line = line;
  }
  anfi_putc(c->out, '\n');
}

/* ---- definitions ---- */

static const char *gap(const char *type) { return type[strlen(type) - 1] == '*' ? "" : " "; }

const char *anfi_c_declaration(cgen *c, texpr v, const char *name) {
  if (v->kind == TX_tensor) {
    const char *e = anfi_c_elem(c, v);
    return SAY("%s *%s", e, name);
  }
  const char *t = anfi_c_type(c, v->dtype);
  return SAY("%s%s%s", t, gap(t), name);
}

static const char *show(cgen *c, texpr v) {
  const char *name = anfi_c_local_name(c, v->u.name->s);
  *anfi_map_at(&c->shown, anfi_key(v)) = anfi_key(name);
  return name;
}

static const char *as_index(cgen *c, texpr e) {
  return anfi_c_cast(c, anfi_t_dt(ANF_TIR_index), e->dtype, anfi_c_stable(c, e));
}

/* Distances of neighbours in each dim, as text: constants, or variables that keep what the dims were
 * when the tensor was defined. */
static void strides(cgen *c, texpr v) {
  const char **s = ANFI_NEW_N(c->a, const char *, v->nidx + 1u), *product = "1ULL";
  const char *name = anfi_c_name(c, v);
  int64_t k, constant = 1;
  bool known = true;
  for (uint32_t i = v->nidx; i-- > 0;) {
    if (anfi_t_has_strides(v)) {
      texpr e = v->in[v->nidx + i];
      s[i] = anfi_t_const_i64(e, &k) ? SAY("%lluULL", (unsigned long long)k)
                                     : anfi_c_temp(c, anfi_t_dt(ANF_TIR_index), as_index(c, e));
      continue;
    }
    s[i] = known ? SAY("%lluULL", (unsigned long long)constant) : product;
    if (!i) break;
    if (known && anfi_t_const_i64(v->in[i], &k)) {
      constant = (int64_t)((uint64_t)constant * (uint64_t)k);
      continue;
    }
    const char *dim = as_index(c, v->in[i]),
               *var = anfi_c_local_name(c, SAY("%s_s%u", name, i - 1));
    anfi_c_line(c);
    anfi_putf(c->out, "index %s = %s * %s;\n", var, s[i], dim);
    known = false;
    product = var;
  }
  *anfi_map_at(&c->strides, anfi_key(v)) = anfi_key(s);
}

/* The elements of a local tensor: constant, for passes have others allocated (module.c, make_ready). */
static uint64_t elements(cgen *c, texpr v) {
  uint64_t n = 1;
  if (anfi_t_const_elems(v, &n)) return n;
  anfi_fail(c->cx, anfi_t_loc(c->m->t, v->line, v->col), ANF_E0001,
            "a local tensor whose size is not known was not allocated");
  return 1;
}

static void initial(cgen *c, texpr v, texpr list, const char *name) {
  uint64_t n = elements(c, v);
  tdtype d = list->dtype;
  bool zero = list->u.list.n == 1 && !anfi_t_list_lane(list, 0);
  if (list->u.list.n == 1 && !zero) {
    const char *k = anfi_c_local_name(c, "k");
    anfi_puts(c->out, ";\n");
    anfi_c_line(c);
    anfi_putf(c->out, "for (index %s = 0; %s < %llu; %s++) %s[%s] = %s;", k, k,
              (unsigned long long)n, k, name, k, anfi_c_lane(c, d, anfi_t_list_lane(list, 0)));
    return;
  }
  anfi_puts(c->out, " = {");
  for (uint32_t i = 0; i < list->u.list.n && n; i++) {
    if (i && i % 16 == 0) anfi_puts(c->out, "\n      ");
    anfi_putf(c->out, "%s%s", i ? ", " : "", anfi_c_lane(c, d, anfi_t_list_lane(list, i)));
  }
  anfi_puts(c->out, n ? "};" : "0};");
}

static void define_tensor(cgen *c, tstmt s) {
  texpr v = s->e[0], init = s->e[1];
  bool list = init && init->kind == TX_constant && init->sub;
  const char *elem = anfi_c_elem(c, v), *from = init && !list ? anfi_c_expr(c, init) : NULL,
             *name = show(c, v);
  before(c, s->line);
  anfi_c_line(c);
  if (from) {
    anfi_putf(c->out, "%s *%s = (%s *)%s;", elem, name, elem, from);
  } else {
    uint64_t n = elements(c, v);
    anfi_putf(c->out, "ANF_ALIGN(64) %s %s[%llu]", elem, name, (unsigned long long)(n ? n : 1));
    if (list) initial(c, v, init, name);
    else anfi_putc(c->out, ';');
  }
  after(c, s->line);
  strides(c, v);
}

static void define(cgen *c, tstmt s) {
  texpr v = s->e[0];
  if (v->kind == TX_tensor) {
    define_tensor(c, s);
    return;
  }
  before(c, s->line);
  const char *x = s->e[1] ? anfi_c_root(c, s->e[1]) : anfi_c_is_lanes(v->dtype) ? "{{0}}" : "0";
  if (v->dtype.ptr && s->e[1]) x = SAY("(%s)%s", anfi_c_type(c, v->dtype), x);
  anfi_c_line(c);
  anfi_putf(c->out, "%s = %s;", anfi_c_declaration(c, v, show(c, v)), x);
  after(c, s->line);
}

static void assign(cgen *c, tstmt s) {
  texpr to = s->e[0], value = s->e[1];
  bool var = to->kind == TX_var, order = anfi_c_needs_stmts(c, value);
  before(c, s->line);
  const char *x = var ? anfi_c_root(c, value) : order ? anfi_c_stable(c, value) : NULL;
  if (!var && !x) { // what the place does comes after the value
    bool effect = false;
    for (uint32_t i = 1; i < to->n; i++) effect |= anfi_c_needs_stmts(c, to->in[i]);
    x = effect ? anfi_c_stable(c, value) : anfi_c_expr(c, value);
  }
  if (value->dtype.ptr && var) x = SAY("(%s)%s", anfi_c_type(c, to->dtype), x);
  const char *text = var ? SAY("%s = %s", anfi_c_name(c, to), x) : anfi_c_store(c, to, x);
  anfi_c_line(c);
  anfi_putf(c->out, "%s;", text);
  after(c, s->line);
}

/* ---- control ---- */

static void scope(cgen *c, tstmt s) {
  c->indent++;
  for (uint32_t i = 0; i < s->n; i++) stmt(c, s->s[i]);
  c->indent--;
}

static void close_brace(cgen *c) {
  anfi_c_line(c);
  anfi_puts(c->out, "}\n");
}

/* A condition without the parentheses that a binary one brings. */
static const char *bare(cgen *c, texpr e, const char *s) {
  size_t n = strlen(s);
  tgroup g = anfi_t_group(e);
  bool wrapped = (g == TG_CMP || g == TG_LOGIC) && n > 2 && s[0] == '(' && s[n - 1] == ')' &&
                 !anfi_c_needs_stmts(c, e);
  return wrapped ? anfi_strndup(c->a, s + 1, n - 2) : s;
}

static void branch(cgen *c, tstmt s) {
  before(c, s->line);
  const char *cond = anfi_c_expr(c, s->e[0]);
  anfi_c_line(c);
  anfi_putf(c->out, "if (%s) {", bare(c, s->e[0], cond));
  after(c, s->line);
  scope(c, s->s[0]);
  if (s->s[1]) {
    anfi_c_line(c);
    anfi_puts(c->out, "} else {\n");
    scope(c, s->s[1]);
  }
  close_brace(c);
}

/* `while (cond)` may be assumed to end if cond is no constant (C11 6.8.5); `for (;;)` may not. */
static void while_loop(cgen *c, tstmt s) {
  before(c, s->line);
  anfi_c_line(c);
  anfi_puts(c->out, "for (;;) {");
  after(c, s->line);
  c->indent++;
  const char *cond = anfi_c_expr(c, s->e[0]);
  anfi_c_line(c);
  anfi_putf(c->out, "if (!(%s)) break;\n", bare(c, s->e[0], cond));
  c->indent--;
  scope(c, s->s[0]);
  close_brace(c);
}

/* Does counting up to the end never pass the greatest number? */
static bool counts_safely(tdtype d, texpr end, int64_t step) {
  int64_t e;
  unsigned bits = (unsigned)anfi_t_bytes(d) * 8;
  uint64_t most = UINT64_MAX >> (64 - bits + (anfi_t_class(d) == TC_SINT));
  if (step == 1) return true;
  if (!anfi_t_const_i64(end, &e)) return false;
  bool low = anfi_t_class(d) == TC_SINT && e < 0;
  return low || ((uint64_t)e <= most && (uint64_t)step <= most - (uint64_t)e);
}

static void for_loop(cgen *c, tstmt s) {
  tdtype d = s->e[0]->dtype;
  const char *bound[3], *type = anfi_c_type(c, d);
  int64_t step = 0;
  bool known = anfi_t_const_i64(s->e[3], &step) && step > 0;
  before(c, s->line);
  bool effects = anfi_c_needs_stmts(c, s->e[2]) || anfi_c_needs_stmts(c, s->e[3]);
  bound[0] = effects ? anfi_c_stable(c, s->e[1]) : anfi_c_expr(c, s->e[1]);
  for (int i = 1; i < 3; i++) // these are computed once
    bound[i] = s->e[1 + i]->kind == TX_constant ? anfi_c_expr(c, s->e[1 + i])
                                                : anfi_c_temp(c, d, anfi_c_expr(c, s->e[1 + i]));
  const char *v = show(c, s->e[0]), *note = s->sub ? "  // in any order" : "";
  if (known && counts_safely(d, s->e[2], step)) {
    anfi_c_line(c);
    if (step == 1)
      anfi_putf(c->out, "for (%s %s = %s; %s < %s; %s++) {%s", type, v, bound[0], v, bound[1], v,
                note);
    else
      anfi_putf(c->out, "for (%s %s = %s; %s < %s; %s += %s) {%s", type, v, bound[0], v, bound[1],
                v, bound[2], note);
    after(c, s->line);
    scope(c, s->s[0]);
    close_brace(c);
    return;
  }
  const char *n = anfi_c_local_name(c, SAY("%s_n", v)), *b = anfi_c_temp(c, d, bound[0]);
  anfi_c_line(c);
  anfi_putf(c->out, "u64 %s = %s(%s, %s, %s, %s);\n", n, anfi_c_trip(c, d), b, bound[1], bound[2],
            anfi_c_at(c, s->line, s->col));
  anfi_c_line(c);
  anfi_putf(c->out, "for (%s %s = %s; %s--; %s = %s) {%s", type, v, b, n, v,
            anfi_c_bin(c, TX_add, d, v, bound[2], ""), note);
  after(c, s->line);
  scope(c, s->s[0]);
  close_brace(c);
}

/* ---- calls and returns ---- */

/* return f(...) inside f is a jump to its start: it takes no stack at any level of optimisation. */
static void tail_call(cgen *c, texpr e) {
  const char **v = ANFI_NEW_N(c->a, const char *, e->nidx + 1u);
  for (uint32_t i = 2; i < e->nidx; i++) {
    const char *x = anfi_c_expr(c, e->in[i]);
    texpr p = c->f->param[i];
    if (p->dtype.ptr) x = SAY("(%s)%s", p->sub ? "pointer *" : anfi_c_type(c, p->dtype), x);
    v[i] = p->kind == TX_tensor ? x : anfi_c_temp(c, p->dtype, x);
    if (p->kind != TX_tensor) continue;
    v[i] = anfi_c_local_name(c, SAY("t%u", ++c->temps));
    anfi_c_line(c);
    anfi_putf(c->out, "%s = %s;\n", anfi_c_declaration(c, p, v[i]), x);
  }
  for (uint32_t i = 2; i < e->nidx; i++) {
    anfi_c_line(c);
    anfi_putf(c->out, "%s = %s;\n", anfi_c_name(c, c->f->param[i]), v[i]);
  }
  anfi_c_line(c);
  anfi_putf(c->out, "goto %s;\n", c->top);
}

static void returns(cgen *c, tstmt s) {
  before(c, s->line);
  if (c->top && anfi_jit_self_tail(c->f, s)) {
    tail_call(c, s->e[0]);
    return;
  }
  const char *x = s->e[0] ? anfi_c_root(c, s->e[0]) : NULL;
  if (x && s->e[0]->dtype.ptr) x = SAY("(%s)%s", anfi_c_type(c, c->f->ret), x);
  anfi_c_line(c);
  if (x) anfi_putf(c->out, "return %s;", x);
  else anfi_puts(c->out, "return;");
  after(c, s->line);
}

static void evaluate(cgen *c, tstmt s) {
  before(c, s->line);
  const char *x = anfi_c_root(c, s->e[0]);
  bool value = !anfi_t_is_void(s->e[0]->dtype);
  anfi_c_line(c);
  anfi_putf(c->out, "%s%s;", value ? "(void)" : "", x);
  after(c, s->line);
}

static void stmt(cgen *c, tstmt s) {
  comment(c, s->comment);
  switch ((tskind)s->kind) { /* dispatch */
  case TS_stmts:
    anfi_c_line(c);
    anfi_puts(c->out, "{\n");
    scope(c, s);
    close_brace(c);
    break;
  case TS_define: define(c, s); break;
  case TS_assign: assign(c, s); break;
  case TS_if_else: branch(c, s); break;
  case TS_for_loop: for_loop(c, s); break;
  case TS_while_loop: while_loop(c, s); break;
  case TS_evaluate: evaluate(c, s); break;
  case TS_returns: returns(c, s); break;
  case TS_COUNT: break;
  }
}

/* ---- functions ---- */

static void parameters(cgen *c, tfunc f) {
  anfi_map_init(&c->local, c->a);
  *anfi_map_at(&c->shown, anfi_key(f->param[0])) = anfi_key("stream");
  *anfi_map_at(&c->shown, anfi_key(f->param[1])) = anfi_key("data");
  for (uint32_t i = 2; i < f->n; i++) show(c, f->param[i]);
}

static bool find_tail(tviewer *v, tstmt s) {
  tfunc *f = (tfunc *)v->user;
  if (*f && anfi_jit_self_tail(*f, s)) *f = NULL;
  return *f != NULL;
}
static bool no_expr(tviewer *v, texpr e) { return (void)v, (void)e, false; }

static bool tail_calls(tfunc f) {
  tfunc left = f;
  tviewer v = {.user = &left, .enter_stmt = find_tail, .enter_expr = no_expr};
  if (anfi_jit_has_local_tensors(f)) return false;
  anfi_t_view_stmt(&v, f->body);
  return !left;
}

const char *anfi_c_prototype(cgen *c, tfunc f) {
  const char *ret = anfi_c_type(c, f->ret),
             *alone = tail_calls(f) ? "" : "restrict ", // what is assigned to must not be
                 *s = SAY("%s%s%s(anf_stream *stream, void *data", ret, gap(ret),
                          anfi_c_func(c, f->name));
  for (uint32_t i = 2; i < f->n; i++) {
    texpr p = f->param[i];
    const char *name = anfi_c_name(c, p);
    const char *how = anfi_t_shares_buffer(f, i - 2) ? "" : alone;
    s = p->kind == TX_tensor ? SAY("%s, %s *%s%s", s, anfi_c_elem(c, p), how, name)
                             : SAY("%s, %s", s, anfi_c_declaration(c, p, name));
  }
  return SAY("%s)", s);
}

static void check_stack(cgen *c) {
  anfi_c_line(c);
  anfi_putf(c->out, "if (ANF_STACK() < *(const uintptr_t *)stream) ANF_TRAP(%d);\n",
            (int)ANF_TRAP_DEPTH);
  c->traps = true;
}

void anfi_c_body(cgen *c, tfunc f, const anfi_jit_need *need) {
  anf_text *all = c->out;
  c->temps = c->line = 0;
  c->traps = false;
  c->f = f;
  parameters(c, f);
  c->top = tail_calls(f) ? anfi_c_local_name(c, "top") : NULL;
  comment(c, f->comment);
  anfi_putf(all, "static %s {\n", anfi_c_prototype(c, f));
  c->indent = 1;
  c->out = c->body;
  c->body->len = 0;
  if (need->recursive) check_stack(c);
  if (c->top) anfi_putf(c->out, "%s:;\n", c->top);
  for (uint32_t i = 2; i < f->n; i++)
    if (f->param[i]->kind == TX_tensor) strides(c, f->param[i]);
  for (uint32_t i = 0; i < f->body->n; i++) stmt(c, f->body->s[i]);
  c->out = all;
  if (c->traps)
    anfi_putf(all, "  const u32 line = %u, col = %u;\n  static const char here[] = %s;\n", f->line,
              f->col, quoted(c, f->name->s));
  if (c->body->len) anfi_put(all, c->body->text, c->body->len);
  anfi_puts(all, "}\n");
  c->indent = 0;
}
