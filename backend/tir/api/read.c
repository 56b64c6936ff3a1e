// SPDX-License-Identifier: Apache-2.0
/* The public readers: what a node is, holds and says, nodes compared, and walks over them.
 *   e = a + b: anf_tir_expr_kind(e)   ->   "add"       anf_tir_expr_at(e, 1)   ->   b       of NULL   ->   "" and NULL */
#include "backend/tir/api/api.h"

/* ---- kinds ---- */

static bool in_group(texpr e, const char *g) {
  static const char *const names[] = {[TG_LEAF] = "",
                                      [TG_BINARY] = "binary",
                                      [TG_CMP] = "cmp",
                                      [TG_LOGIC] = "logic",
                                      [TG_OTHER] = ""};
  return *g && strcmp(names[anfi_t_group(e)], g) == 0;
}

anf_tir_dtype anf_tir_type(anf_tir_expr e) { return e ? e->dtype : (anf_tir_dtype){0}; }
const char *anf_tir_expr_kind(anf_tir_expr e) { return e ? anfi_t_kind_names[e->kind] : ""; }
const char *anf_tir_stmt_kind(anf_tir_stmt s) { return s ? anfi_t_stmt_names[s->kind] : ""; }
size_t anf_tir_expr_count(anf_tir_expr e) { return e ? e->n : 0; }
anf_tir_expr anf_tir_expr_at(anf_tir_expr e, size_t i) {
  if (!e) return NULL;
  return i < e->n ? e->in[i] : NULL;
}
bool anf_tir_isa(anf_tir_expr e, const char *kind) {
  if (!e || !kind) return false;
  return strcmp(anfi_t_kind_names[e->kind], kind) == 0;
}
bool anf_tir_instanceof(anf_tir_expr e, const char *k) {
  if (!e || !k) return false;
  return anf_tir_isa(e, k) || in_group(e, k);
}
anf_tir_expr anf_tir_as(anf_tir_expr e, const char *kind) {
  if (!e || !kind) return NULL;
  return anf_tir_isa(e, kind) ? e : NULL;
}
anf_tir_expr anf_tir_dyn_as(anf_tir_expr e, const char *k) {
  if (!e || !k) return NULL;
  return anf_tir_instanceof(e, k) ? e : NULL;
}

/* ---- expressions ---- */

const char *anf_tir_expr_name(anf_tir_expr e) {
  if (!e) return NULL;
  switch ((tkind)e->kind) {
  case TX_var:
  case TX_tensor:
  case TX_func_addr: return e->u.name->s;
  case TX_call: return e->u.name ? e->u.name->s : NULL;
  case TX_intrin_call: return anfi_t_intrins[e->sub].name;
  default: return NULL;
  }
}

size_t anf_tir_expr_rank(anf_tir_expr e) { return e ? e->nidx : 0; }

static size_t values_of(texpr e) { return e->sub ? e->u.list.n : e->u.k.n; }
size_t anf_tir_const_count(anf_tir_expr e) { return anfi_t_isa(e, TX_constant) ? values_of(e) : 0; }

bool anf_tir_const_bits(anf_tir_expr e, size_t i, uint64_t *v) {
  if (!v || i >= anf_tir_const_count(e)) return false;
  *v = e->sub ? anfi_t_list_lane(e, i) : e->u.k.bits[i];
  return true;
}
bool anf_tir_const_i64(anf_tir_expr e, size_t i, int64_t *v) {
  uint64_t bits;
  if (!v || !anf_tir_const_bits(e, i, &bits)) return false;
  if (!anfi_t_is_int(e->dtype) && !anfi_t_is_elem(e->dtype, ANF_TIR_bool)) return false;
  *v = anfi_t_lane_i64(e->dtype, bits);
  return true;
}
bool anf_tir_const_f64(anf_tir_expr e, size_t i, double *v) {
  uint64_t bits;
  if (!v || !anf_tir_const_bits(e, i, &bits)) return false;
  if (!anfi_t_rank_of(e->dtype) && !anfi_t_is_elem(e->dtype, ANF_TIR_bool)) return false;
  *v = anfi_t_lane_f64(e->dtype, bits);
  return true;
}

static bool attr_named(tattrs a, const char *name, int64_t *v) {
  int k = name ? anfi_t_attr_of(name, strlen(name)) : -1;
  return k >= 0 && anfi_t_attr(a, (tattr_key)k, v);
}
bool anf_tir_expr_attr(anf_tir_expr e, const char *name, int64_t *v) {
  return anfi_t_isa(e, TX_intrin_call) && attr_named(e->u.attrs, name, v);
}
bool anf_tir_stmt_attr(anf_tir_stmt s, const char *name, int64_t *v) {
  return s && attr_named(s->attrs, name, v);
}
bool anf_tir_func_attr(anf_tir_func f, const char *name, int64_t *v) {
  return f && attr_named(f->attrs, name, v);
}

static uint32_t place(uint32_t line, uint32_t col, uint32_t *out) {
  if (out) *out = col;
  return line;
}
uint32_t anf_tir_expr_line(anf_tir_expr e, uint32_t *col) {
  return e ? place(e->line, e->col, col) : place(0, 0, col);
}
uint32_t anf_tir_stmt_line(anf_tir_stmt s, uint32_t *col) {
  return s ? place(s->line, s->col, col) : place(0, 0, col);
}
uint32_t anf_tir_func_line(anf_tir_func f, uint32_t *col) {
  return f ? place(f->line, f->col, col) : place(0, 0, col);
}

/* ---- statements and functions ---- */

static const struct {
  uint8_t nexpr;
  int8_t nstmt;
} stmt_holds[TS_COUNT] = {
#define ANF_TIR_STMT(name, nexpr, nstmt) {nexpr, nstmt},
#include "backend/tir/stmt.def"
#undef ANF_TIR_STMT
};

size_t anf_tir_stmt_expr_count(anf_tir_stmt s) { return s ? stmt_holds[s->kind].nexpr : 0; }
anf_tir_expr anf_tir_stmt_expr(anf_tir_stmt s, size_t i) {
  return i < anf_tir_stmt_expr_count(s) ? s->e[i] : NULL;
}
size_t anf_tir_stmt_count(anf_tir_stmt s) { return s ? s->n : 0; }
anf_tir_stmt anf_tir_stmt_at(anf_tir_stmt s, size_t i) {
  return i < anf_tir_stmt_count(s) ? s->s[i] : NULL;
}
bool anf_tir_is_parallel(anf_tir_stmt s, uint32_t *num_threads) {
  bool loop = s && s->kind == TS_for_loop;
  if (num_threads) *num_threads = loop ? s->threads : 0;
  return loop && s->sub;
}
bool anf_tir_is_private(anf_tir_stmt s) {
  return s && s->kind == TS_define && s->sub == TL_private;
}
const char *anf_tir_comment(anf_tir_stmt s) { return s && s->comment ? s->comment->s : NULL; }

anf_tir_dtype anf_tir_func_type(anf_tir_func f) { return f ? f->ret : (anf_tir_dtype){0}; }
size_t anf_tir_func_param_count(anf_tir_func f) { return f ? f->n : 0; }
anf_tir_expr anf_tir_func_param(anf_tir_func f, size_t i) {
  return i < anf_tir_func_param_count(f) ? f->param[i] : NULL;
}
anf_tir_stmt anf_tir_func_body(anf_tir_func f) { return f ? f->body : NULL; }

size_t anf_tir_global_count(const anf_tir_module *m) { return m ? m->global.n : 0; }
anf_tir_stmt anf_tir_global_at(const anf_tir_module *m, size_t i) {
  return i < anf_tir_global_count(m) ? m->global.at[i] : NULL;
}
const char *anf_tir_file(const anf_tir_module *m) { return m ? m->t->file : NULL; }

/* ---- comparison of nodes ---- */

bool anfi_t_compare_by(anf_ctx *cx, tcompare *c, const anf_tir_compare_opts *o) {
  anf_tir_compare_opts opts;
  anfi_t_compare_init(c, anfi_scratch(cx));
  if (!ANFI_OPTS_IN(cx, anf_tir_compare_opts, ignore_attrs, o, &opts)) return false;
  c->names = opts.names, c->callees = opts.callees, c->commutative = opts.commutative,
  c->ignore_attrs = opts.ignore_attrs;
  return true;
}

static void say_side(const tcompare *c, const char *side, const void *node, anf_text *why) {
  if (!node) return;
  anfi_puts(why, side);
  if (c->is_expr) anfi_t_print_expr((texpr)node, why);
  else anfi_t_print_stmt((tstmt)node, why);
  if (c->is_expr) anfi_putc(why, '\n');
}

void anfi_t_say_difference(const tcompare *c, bool path, anf_text *why) {
  for (size_t i = c->path.n; path && i-- > 0;) anfi_putf(why, ", %s", c->path.at[i]);
  if (path) anfi_putf(why, ": %s\n", c->what);
  say_side(c, "  left:  ", c->l, why);
  say_side(c, "  right: ", c->r, why);
}

typedef enum { OF_EXPR, OF_STMT, OF_FUNC } compared;

static bool compare(anf_ctx *cx, compared kind, const void *a, const void *b,
                    const anf_tir_compare_opts *o, anf_text *why) {
  tcompare c;
  if (!anfi_t_compare_by(cx, &c, o)) return false;
  bool same = kind == OF_EXPR   ? anfi_t_equal_expr(&c, (texpr)a, (texpr)b)
              : kind == OF_STMT ? anfi_t_equal_stmt(&c, (tstmt)a, (tstmt)b)
                                : anfi_t_equal_func(&c, (tfunc)a, (tfunc)b);
  if (same || !why) return same;
  static const char *const names[] = {"expression", "statement", "function"};
  anfi_puts(why, names[kind]);
  anfi_t_say_difference(&c, true, why);
  return false;
}

static bool equal(anf_ctx *cx, compared kind, const void *a, const void *b,
                  const anf_tir_compare_opts *o, anf_text *why) {
  if (why) anfi_text_of(why, cx);
  volatile bool same = false;
  ANFI_ENTRY_ELSE(cx, NULL, false);
  same = compare(cx, kind, a, b, o, why);
  anfi_leave(cx);
  return same;
}

bool anf_tir_equal_expr(anf_ctx *cx, anf_tir_expr a, anf_tir_expr b, const anf_tir_compare_opts *o,
                        anf_text *why) {
  ANFI_NEED_ELSE(cx, false, cx, a, b);
  return equal(cx, OF_EXPR, a, b, o, why);
}
bool anf_tir_equal_stmt(anf_ctx *cx, anf_tir_stmt a, anf_tir_stmt b, const anf_tir_compare_opts *o,
                        anf_text *why) {
  ANFI_NEED_ELSE(cx, false, cx, a, b);
  return equal(cx, OF_STMT, a, b, o, why);
}
bool anf_tir_equal_func(anf_ctx *cx, anf_tir_func a, anf_tir_func b, const anf_tir_compare_opts *o,
                        anf_text *why) {
  ANFI_NEED_ELSE(cx, false, cx, a, b);
  return equal(cx, OF_FUNC, a, b, o, why);
}

/* ---- walks ---- */

static bool enter_expr(tviewer *v, texpr e) {
  const anf_tir_viewer *host = (const anf_tir_viewer *)v->user;
  return host->enter_expr ? host->enter_expr(host->user, e) : true;
}
static bool enter_stmt(tviewer *v, tstmt s) {
  const anf_tir_viewer *host = (const anf_tir_viewer *)v->user;
  if (host->enter_stmt && !host->enter_stmt(host->user, s)) return false;
  bool defines = s->kind == TS_define || s->kind == TS_for_loop; // which a view does not show
  if (defines && host->enter_expr) host->enter_expr(host->user, s->e[0]);
  return true;
}
static void leave_stmt(tviewer *v, tstmt s) {
  const anf_tir_viewer *host = (const anf_tir_viewer *)v->user;
  if (host->leave_stmt) host->leave_stmt(host->user, s);
}

static void view(anf_ctx *cx, compared kind, const void *node, const anf_tir_viewer *given) {
  anf_tir_viewer host;
  if (!ANFI_OPTS_IN(cx, anf_tir_viewer, user, given, &host)) return;
  tviewer v = {
      .user = &host, .enter_expr = enter_expr, .enter_stmt = enter_stmt, .leave_stmt = leave_stmt};
  tfunc f = kind == OF_FUNC ? (tfunc)node : NULL;
  for (uint32_t i = 0; f && i < f->n; i++) anfi_t_view_expr(&v, f->param[i]);
  if (kind == OF_EXPR) anfi_t_view_expr(&v, (texpr)node);
  else if (kind == OF_STMT) anfi_t_view_stmt(&v, (tstmt)node);
  else if (f->body) anfi_t_view_stmt(&v, f->body);
}

anf_status anf_tir_view_expr(anf_ctx *cx, anf_tir_expr e, const anf_tir_viewer *v) {
  ANFI_NEED_ELSE(cx, ANF_INVALID, cx, e, v);
  ANFI_ENTRY(cx, NULL);
  view(cx, OF_EXPR, e, v);
  return anfi_leave(cx);
}
anf_status anf_tir_view_stmt(anf_ctx *cx, anf_tir_stmt s, const anf_tir_viewer *v) {
  ANFI_NEED_ELSE(cx, ANF_INVALID, cx, s, v);
  ANFI_ENTRY(cx, NULL);
  view(cx, OF_STMT, s, v);
  return anfi_leave(cx);
}
anf_status anf_tir_view_func(anf_ctx *cx, anf_tir_func f, const anf_tir_viewer *v) {
  ANFI_NEED_ELSE(cx, ANF_INVALID, cx, f, v);
  ANFI_ENTRY(cx, NULL);
  view(cx, OF_FUNC, f, v);
  return anfi_leave(cx);
}
