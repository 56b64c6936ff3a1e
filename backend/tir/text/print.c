// SPDX-License-Identifier: Apache-2.0
/* Tensor IR as text.
 *   a store of f32 1.0 in x at i     ->    x[i] = 1.f
 * What is printed reads back to the same module: every constant shows its type and all of its bits, and a variable whose
 * name would hide another's gets a name of its own. */
#include "backend/tir/tir.h"

#include <math.h>

/* A printed name: that of the variable, and the number after it. */
typedef struct shown_name {
  const anfi_str *name, *base;
  uint32_t number;
} shown_name;

typedef struct printer {
  anf_text *out;
  size_t most; // elements of a list that are written; 0: all
  anfi_arena *a;
  anfi_strtab names;
  anfi_map shown;   // variable or tensor → its printed name
  anfi_map visible; // printed name → 1 while it means something
  anfi_map next;    // name of a variable → the first number after it that may be free
  ANFI_VEC(shown_name) scope;
  uint32_t indent;
} printer;

static void expr(printer *p, texpr e);

static const char *const keywords[] = {
    "func",  "var",    "tensor",   "for",      "in",     "while",    "if",
    "else",  "return", "evaluate", "parallel", "public", "private",  "true",
    "false", "none",   "phi",      "select",   "call",   "INFINITY", "NAN"};

bool anfi_t_is_keyword(const char *s, size_t len) {
  tdtype d;
  for (size_t i = 0; i < ANFI_LEN(keywords) && len; i++)
    if (*keywords[i] == *s && strlen(keywords[i]) == len && memcmp(keywords[i], s, len) == 0)
      return true;
  if ((len > 3 && memcmp(s, "NAN", 3) == 0) || (len > 8 && memcmp(s, "INFINITY", 8) == 0))
    return true;
  return anfi_t_dtype_of(s, len, &d) || anfi_t_intrin_of(s, len) >= 0;
}

/* ---- names ---- */

static const char *name_of(printer *p, texpr v) {
  uint64_t *at = anfi_map_find(&p->shown, anfi_key(v));
  return at ? (const char *)(uintptr_t)*at : v->u.name->s;
}

static const anfi_str *numbered(printer *p, const anfi_str *base, uint32_t k) {
  return anfi_intern_z(&p->names, anfi_sprintf(p->a, "%s_%u", base->s, k));
}

static const char *declare(printer *p, texpr v) {
  const anfi_str *base = anfi_intern(&p->names, v->u.name->s, v->u.name->len), *s = base;
  uint32_t k = (uint32_t)*anfi_map_at(&p->next, anfi_key(base));
  if (k) s = numbered(p, base, k);
  while (*anfi_map_at(&p->visible, anfi_key(s))) s = numbered(p, base, ++k);
  *anfi_map_at(&p->visible, anfi_key(s)) = 1;
  *anfi_map_at(&p->next, anfi_key(base)) = k + 1;
  anfi_push(p->a, &p->scope, ((shown_name){s, base, k}));
  *anfi_map_at(&p->shown, anfi_key(v)) = anfi_key(s->s);
  return s->s;
}

static void leave_to(printer *p, size_t n) {
  while (p->scope.n > n) {
    shown_name s = p->scope.at[--p->scope.n];
    uint64_t *next = anfi_map_at(&p->next, anfi_key(s.base));
    if (*next > s.number) *next = s.number;
    *anfi_map_at(&p->visible, anfi_key(s.name)) = 0;
  }
}

static void start(printer *p, anf_text *out) {
  *p = (printer){.out = out, .a = anfi_scratch(out->cx)};
  anfi_strtab_init(&p->names, p->a);
  anfi_map_init(&p->shown, p->a);
  anfi_map_init(&p->visible, p->a);
  anfi_map_init(&p->next, p->a);
}

/* ---- constants ---- */

static uint64_t nan_bits(tdtype d) {
  return anfi_t_lane_of_f64(d, (double)NAN) & ~(UINT64_C(1) << (anfi_t_bytes(d) * 8 - 1));
}

static void real(printer *p, tdtype d, uint64_t bits) {
  double v = anfi_t_lane_f64(d, bits);
  bool f32 = d.elem == ANF_TIR_f32;
  const char *suffix = f32 ? "" : anfi_t_elem_names[d.elem];
  if (isnan(v) && bits != nan_bits(d)) {
    anfi_putf(p->out, "%s!0x%llx", anfi_t_elem_names[d.elem], (unsigned long long)bits);
  } else if (!isfinite(v)) {
    anfi_putf(p->out, "%s%s%s", v < 0 ? "-" : "", isnan(v) ? "NAN" : "INFINITY", suffix);
  } else {
    if (d.elem == ANF_TIR_f64) anfi_put_f64(p->out, v);
    else anfi_put_f32(p->out, (float)v);
    if (f32 && p->out->len > 2 && strcmp(p->out->text + p->out->len - 2, ".0") == 0) p->out->len--;
    anfi_puts(p->out, f32 ? "f" : suffix);
  }
}

static void lane(printer *p, tdtype d, uint64_t bits) {
  switch (anfi_t_class(d)) {
  case TC_NONE: anfi_puts(p->out, "none"); return;
  case TC_BOOL: anfi_puts(p->out, bits ? "true" : "false"); return;
  case TC_FLOAT: real(p, d, bits); return;
  case TC_GENERIC: anfi_putf(p->out, "generic!0x%llx", (unsigned long long)bits); return;
  case TC_SINT: anfi_put_i64(p->out, anfi_t_lane_i64(d, bits)); break;
  case TC_UINT:
    if (d.ptr) {
      anfi_putf(p->out, "%s*!0x%llx", anfi_t_elem_names[d.elem], (unsigned long long)bits);
      return;
    }
    anfi_put_u64(p->out, bits);
  }
  if (d.elem == ANF_TIR_index) anfi_puts(p->out, "UL");
  else if (d.elem != ANF_TIR_s32) anfi_puts(p->out, anfi_t_elem_names[d.elem]);
}

static void initial_list(printer *p, texpr e) {
  if (p->most && e->u.list.n > p->most) {
    anfi_putc(p->out, '{');
    anfi_put_elided(p->out, e->u.list.n, e->u.list.data, anfi_t_list_bytes(e));
    anfi_putc(p->out, '}');
    return;
  }
  for (uint32_t i = 0; i < e->u.list.n; i++) {
    anfi_puts(p->out, i ? ", " : "{");
    lane(p, e->dtype, anfi_t_list_lane(e, i));
  }
  anfi_puts(p->out, e->u.list.n ? "}" : "{}");
}

static void constant(printer *p, texpr e) {
  tdtype d = e->dtype;
  bool plain = d.lanes == 1 && !d.rows;
  if (e->sub) {
    initial_list(p, e);
    return;
  }
  if (plain) {
    lane(p, d, e->u.k.bits[0]);
    return;
  }
  if (d.rows && e->u.k.n > 1) anfi_t_put_dtype(p->out, d);
  anfi_putc(p->out, '(');
  for (uint32_t i = 0; i < e->u.k.n; i++) {
    if (i) anfi_puts(p->out, ", ");
    lane(p, d, e->u.k.bits[i]);
  }
  if (e->u.k.n == 1) anfi_putf(p->out, " x %u", (unsigned)d.lanes);
  if (e->u.k.n == 1 && d.rows) anfi_putf(p->out, " x %u", (unsigned)d.rows);
  anfi_putc(p->out, ')');
}

/* ---- expressions ---- */

static void list(printer *p, const texpr *in, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    if (i) anfi_puts(p->out, ", ");
    expr(p, in[i]);
  }
}

static void attrs(printer *p, tattrs a) {
  if (!a.n) return;
  anfi_puts(p->out, " @[");
  for (uint32_t i = 0; i < a.n; i++) {
    if (i) anfi_puts(p->out, ", ");
    anfi_puts(p->out, anfi_t_attr_names[a.at[i].key]);
    if (a.at[i].value == 1) continue;
    anfi_putc(p->out, '=');
    anfi_put_i64(p->out, a.at[i].value);
  }
  anfi_putc(p->out, ']');
}

static void place(printer *p, texpr e) {
  if (e->in[0]->kind == TX_tensor) anfi_puts(p->out, name_of(p, e->in[0]));
  else expr(p, e->in[0]);
  anfi_putc(p->out, '[');
  list(p, e->in + 1, e->nidx);
  if (e->kind == TX_indexing) {
    if (e->dtype.rows)
      anfi_putf(p->out, " @ %ux%u", (unsigned)e->dtype.lanes, (unsigned)e->dtype.rows);
    else if (e->dtype.lanes != 1) anfi_putf(p->out, " @ %u", (unsigned)e->dtype.lanes);
    if (anfi_t_mask(e)) {
      anfi_puts(p->out, " M= ");
      expr(p, anfi_t_mask(e));
    }
  }
  anfi_putc(p->out, ']');
}

static void call(printer *p, texpr e) {
  uint32_t npar;
  const texpr *tri = anfi_t_triples(e, &npar);
  if (e->u.name) {
    anfi_putf(p->out, "%s(", e->u.name->s);
  } else {
    anfi_puts(p->out, "call(");
    expr(p, anfi_t_callee_ptr(e));
    anfi_puts(p->out, ": ");
    anfi_t_put_dtype(p->out, e->dtype);
    if (e->nidx) anfi_puts(p->out, ", ");
  }
  list(p, e->in, e->nidx);
  anfi_putc(p->out, ')');
  if (!npar) return;
  anfi_puts(p->out, "@parallel(");
  for (uint32_t i = 0; i < npar; i++) {
    anfi_putc(p->out, '[');
    list(p, tri + 3 * i, 3);
    anfi_puts(p->out, "], ");
  }
  anfi_putc(p->out, ')');
}

static void intrin(printer *p, texpr e) {
  uint32_t n = e->n;
  anfi_puts(p->out, anfi_t_intrins[e->sub].name);
  if (anfi_t_intrins[e->sub].typing == TT_GIVEN) {
    anfi_putc(p->out, '<');
    anfi_t_put_dtype(p->out, e->dtype);
    anfi_putc(p->out, '>');
  }
  anfi_putc(p->out, '(');
  list(p, e->in, n);
  anfi_putc(p->out, ')');
  attrs(p, e->u.attrs);
}

static void expr(printer *p, texpr e) {
  switch ((tkind)e->kind) { /* dispatch */
  case TX_constant: constant(p, e); break;
  case TX_var:
  case TX_tensor: anfi_puts(p->out, name_of(p, e)); break;
  case TX_cast:
    anfi_t_put_dtype(p->out, e->dtype);
    anfi_putc(p->out, '(');
    expr(p, e->in[0]);
    anfi_putc(p->out, ')');
    break;
  case TX_logic_not:
    anfi_putc(p->out, '!');
    expr(p, e->in[0]);
    break;
  case TX_select:
    anfi_puts(p->out, "select(");
    list(p, e->in, 3);
    anfi_putc(p->out, ')');
    break;
  case TX_indexing: place(p, e); break;
  case TX_tensorptr:
    anfi_putc(p->out, '&');
    place(p, e);
    break;
  case TX_call: call(p, e); break;
  case TX_intrin_call: intrin(p, e); break;
  case TX_func_addr: anfi_putf(p->out, "&%s", e->u.name->s); break;
  case TX_ssa_phi:
    anfi_puts(p->out, "phi(");
    list(p, e->in, e->n);
    anfi_puts(p->out, e->sub ? " loop)" : ")");
    break;
  default: // binary, comparison, logic
    anfi_putc(p->out, '(');
    expr(p, e->in[0]);
    anfi_putf(p->out, " %s ", anfi_t_kind_text[e->kind]);
    expr(p, e->in[1]);
    anfi_putc(p->out, ')');
  }
}

/* ---- definitions and statements ---- */

static void dim(printer *p, texpr e) {
  if (e->kind == TX_constant && anfi_t_is_elem(e->dtype, ANF_TIR_index))
    anfi_put_u64(p->out, e->u.k.bits[0]);
  else if (e->kind == TX_constant) { // parentheses keep the type of a constant that is no index
    anfi_putc(p->out, '(');
    expr(p, e);
    anfi_putc(p->out, ')');
  } else expr(p, e);
}

static void tensor_type(printer *p, texpr v) {
  anfi_putf(p->out, "[%s%s", v->sub ? "void" : anfi_t_elem_names[v->dtype.elem], v->sub ? "*" : "");
  for (uint32_t i = 0; i < v->n; i++) {
    anfi_puts(p->out, i == v->nidx ? " : " : " * ");
    dim(p, v->in[i]);
  }
  anfi_putc(p->out, ']');
}

/* A declared name hides none that is visible, so what follows it may be printed after it. */
static void typed_name(printer *p, texpr v) {
  anfi_putf(p->out, "%s: ", declare(p, v));
  if (v->kind == TX_tensor) tensor_type(p, v);
  else anfi_t_put_dtype(p->out, v->dtype);
}

static void new_line(printer *p) {
  for (uint32_t i = 0; i < p->indent; i++) anfi_puts(p->out, "  ");
}

static void comment(printer *p, const anfi_str *c) {
  if (!c) return;
  for (const char *s = c->s;;) {
    const char *eol = strchr(s, '\n');
    size_t n = eol ? (size_t)(eol - s) : strlen(s);
    new_line(p);
    anfi_puts(p->out, n ? "// " : "//");
    anfi_put(p->out, s, n);
    anfi_putc(p->out, '\n');
    if (!eol) return;
    s = eol + 1;
  }
}

static void stmt(printer *p, tstmt s);

static void scope(printer *p, tstmt s) {
  size_t mark = p->scope.n;
  anfi_puts(p->out, "{\n");
  p->indent++;
  for (uint32_t i = 0; i < s->n; i++) {
    comment(p, s->s[i]->comment);
    new_line(p);
    stmt(p, s->s[i]);
    anfi_putc(p->out, '\n');
  }
  p->indent--;
  new_line(p);
  anfi_putc(p->out, '}');
  leave_to(p, mark);
}

static void define(printer *p, tstmt s) {
  static const char *const linkage[] = {"", "private ", "public "};
  anfi_putf(p->out, "%s%s ", linkage[s->sub], s->e[0]->kind == TX_tensor ? "tensor" : "var");
  typed_name(p, s->e[0]);
  if (!s->e[1]) return;
  anfi_puts(p->out, " = ");
  expr(p, s->e[1]);
}

static void loop(printer *p, tstmt s) {
  size_t mark = p->scope.n;
  texpr v = s->e[0];
  anfi_putf(p->out, "for %s", declare(p, v));
  if (!anfi_t_same(v->dtype, s->e[1]->dtype)) {
    anfi_puts(p->out, ": ");
    anfi_t_put_dtype(p->out, v->dtype);
  }
  anfi_puts(p->out, " in (");
  list(p, s->e + 1, 3);
  anfi_putc(p->out, ')');
  if (s->sub) anfi_puts(p->out, " parallel");
  if (s->threads) anfi_putf(p->out, " (%u)", s->threads);
  attrs(p, s->attrs);
  anfi_putc(p->out, ' ');
  scope(p, s->s[0]);
  leave_to(p, mark);
}

/* The condition of a branch, in one pair of parentheses. */
static void condition(printer *p, texpr c) {
  bool has =
      anfi_t_group(c) == TG_BINARY || anfi_t_group(c) == TG_CMP || anfi_t_group(c) == TG_LOGIC;
  if (!has) anfi_putc(p->out, '(');
  expr(p, c);
  anfi_puts(p->out, has ? "" : ")");
}

static void stmt(printer *p, tstmt s) {
  switch ((tskind)s->kind) { /* dispatch */
  case TS_stmts: scope(p, s); break;
  case TS_define: define(p, s); break;
  case TS_assign:
    expr(p, s->e[0]);
    anfi_puts(p->out, " = ");
    expr(p, s->e[1]);
    break;
  case TS_if_else:
    anfi_puts(p->out, "if ");
    condition(p, s->e[0]);
    attrs(p, s->attrs);
    anfi_putc(p->out, ' ');
    scope(p, s->s[0]);
    if (!s->s[1]) return;
    anfi_puts(p->out, " else ");
    scope(p, s->s[1]);
    return;
  case TS_for_loop: loop(p, s); return;
  case TS_while_loop:
    anfi_puts(p->out, "while ");
    condition(p, s->e[0]);
    attrs(p, s->attrs);
    anfi_putc(p->out, ' ');
    scope(p, s->s[0]);
    return;
  case TS_evaluate:
    anfi_puts(p->out, "evaluate{");
    expr(p, s->e[0]);
    anfi_putc(p->out, '}');
    break;
  case TS_returns:
    anfi_puts(p->out, "return");
    if (!s->e[0]) break;
    anfi_putc(p->out, ' ');
    expr(p, s->e[0]);
    break;
  case TS_COUNT: break;
  }
  attrs(p, s->attrs);
}

static void function(printer *p, tfunc f) {
  size_t mark = p->scope.n;
  comment(p, f->comment);
  anfi_putf(p->out, "func %s(", f->name->s);
  for (uint32_t i = 0; i < f->n; i++) {
    if (i) anfi_puts(p->out, ", ");
    typed_name(p, f->param[i]);
  }
  anfi_puts(p->out, "): ");
  anfi_t_put_dtype(p->out, f->ret);
  attrs(p, f->attrs);
  if (f->body) {
    anfi_putc(p->out, ' ');
    scope(p, f->body);
  }
  anfi_putc(p->out, '\n');
  leave_to(p, mark);
}

static void image(printer *p, const tmod *m) {
  bool whole = !p->most || m->image_size <= p->most;
  anfi_putf(p->out, "data %llu {", (unsigned long long)m->image_size);
  if (!whole) anfi_put_elided(p->out, m->image_size, m->image, m->image_size);
  for (uint64_t i = 0; whole && i < m->image_size; i++)
    anfi_putf(p->out, "%s%02x", i % 40 ? "" : "\n  ", m->image[i]);
  anfi_puts(p->out, "\n}\n");
}

static void module(const tmod *m, anf_text *out, size_t most) {
  printer p;
  start(&p, out);
  p.most = most;
  if (m->image) image(&p, m);
  for (size_t i = 0; i < m->global.n; i++) {
    comment(&p, m->global.at[i]->comment);
    stmt(&p, m->global.at[i]);
    anfi_putc(out, '\n');
  }
  for (size_t i = 0; i < m->func.n; i++) {
    if (i || m->global.n || m->image) anfi_putc(out, '\n');
    function(&p, m->func.at[i]);
  }
}
void anfi_t_print_mod(const tmod *m, anf_text *out) { module(m, out, 0); }
void anfi_t_print_brief(const tmod *m, anf_text *out) { module(m, out, ANFI_SHOWN_ELEMENTS); }

void anfi_t_print_func(tfunc f, anf_text *out) {
  printer p;
  start(&p, out);
  function(&p, f);
}
void anfi_t_print_stmt(tstmt s, anf_text *out) {
  printer p;
  start(&p, out);
  stmt(&p, s);
  anfi_putc(out, '\n');
}
void anfi_t_print_expr(texpr e, anf_text *out) {
  printer p;
  start(&p, out);
  expr(&p, e);
}

const char *anfi_t_expr_str(anfi_arena *a, texpr e) {
  enum { SHOWN = 160 };
  if (e->size > 60) return anfi_sprintf(a, "a %s of %u nodes", anfi_t_kind_names[e->kind], e->size);
  anf_text *out = ANFI_NEW(a, anf_text);
  out->cx = a->cx;
  anfi_defer(a->cx, ANFI_ALWAYS, anfi_free_text, out);
  anfi_t_print_expr(e, out);
  bool cut = out->len > SHOWN;
  return anfi_sprintf(a, "%.*s%s", (int)(cut ? SHOWN : out->len), out->text, cut ? "..." : "");
}
