// SPDX-License-Identifier: Apache-2.0
/* The public entries: each opens a frame, checks its arguments and calls the maker inside.
 *   anf_tir_make_add(m, x, y)   ->   the expression x + y; with x = NULL: NULL, and the module's status is ANF_INVALID */
#include "backend/tir/api/api.h"

static anf_ctx *cx_of(const tmod *m) { return m ? m->t->cx : NULL; }

static tmod *new_module(anf_ctx *cx) {
  tstore *t = anfi_t_store_new(cx);
  return anfi_t_mod_new(t);
}

anf_tir_module *anf_tir_module_new(anf_ctx *cx) {
  if (!cx) return NULL;
  tmod *volatile m = NULL; // set inside the frame, read after it
  ANFI_ENTRY_ELSE(cx, NULL, NULL);
  m = new_module(cx);
  anfi_t_mod_keep(m);
  return anfi_leave(cx) == ANF_OK ? m : NULL;
}
anf_status anf_tir_module_status(const anf_tir_module *m) { return m ? m->status : ANF_INVALID; }

anf_status anf_tir_parse(anf_ctx *cx, const char *text, size_t len, const char *file, anf_diag *d,
                         anf_tir_module **out) {
  ANFI_NEED(d, cx, text, out);
  *out = NULL;
  ANFI_ENTRY(cx, d);
  anfi_source_add(cx, file ? file : "", text, len);
  tmod *m = anfi_t_parse(cx, text, len, file);
  anfi_source_remove(cx, file ? file : "");
  if (!anfi_failed(cx)) anfi_t_mod_keep(*out = m);
  return anfi_leave(cx);
}

static tmod *load(anf_ctx *cx, const char *path) {
  char *text;
  size_t len;
  if (!anfi_os_read(cx, anfi_scratch(cx), path, &text, &len)) return NULL;
  anfi_source_add(cx, path, text, len);
  tmod *m = anfi_t_parse(cx, text, len, path);
  anfi_source_remove(cx, path);
  return m;
}
anf_status anf_tir_load(anf_ctx *cx, const char *path, anf_diag *d, anf_tir_module **out) {
  ANFI_NEED(d, cx, path, out);
  *out = NULL;
  ANFI_ENTRY(cx, d);
  tmod *m = load(cx, path);
  if (!anfi_failed(cx)) anfi_t_mod_keep(*out = m);
  return anfi_leave(cx);
}

anf_status anf_tir_print(const anf_tir_module *m, anf_text *out) {
  ANFI_NEED_ELSE(out ? out->cx : cx_of(m), ANF_INVALID, m, out);
  anfi_text_of(out, cx_of(m));
  ANFI_ENTRY(m->t->cx, NULL);
  anfi_t_print_mod(m, out);
  return anfi_leave(m->t->cx);
}
anf_status anf_tir_print_expr(anf_ctx *cx, anf_tir_expr e, anf_text *out) {
  ANFI_NEED_ELSE(out ? out->cx : cx, ANF_INVALID, cx, e, out);
  anfi_text_of(out, cx);
  ANFI_ENTRY(cx, NULL);
  anfi_t_print_expr(e, out);
  return anfi_leave(cx);
}
anf_status anf_tir_print_stmt(anf_ctx *cx, anf_tir_stmt s, anf_text *out) {
  ANFI_NEED_ELSE(out ? out->cx : cx, ANF_INVALID, cx, s, out);
  anfi_text_of(out, cx);
  ANFI_ENTRY(cx, NULL);
  anfi_t_print_stmt(s, out);
  return anfi_leave(cx);
}

size_t anf_tir_func_count(const anf_tir_module *m) { return m ? m->func.n : 0; }
anf_tir_func anf_tir_func_at(const anf_tir_module *m, size_t i) {
  if (!m) return NULL;
  return i < m->func.n ? m->func.at[i] : NULL;
}
anf_tir_func anf_tir_find(const anf_tir_module *m, const char *name) {
  ANFI_NEED_ELSE(cx_of(m), NULL, m, name);
  return anfi_t_mod_find(m, anfi_interned(&m->t->names, name, strlen(name)));
}
const char *anf_tir_func_name(anf_tir_func f) { return f ? f->name->s : ""; }

anf_status anf_tir_verify(const anf_tir_module *m, anf_diag *d) {
  ANFI_NEED(d, m);
  ANFI_ENTRY(m->t->cx, d);
  anfi_t_validate(m->t->cx, m);
  return anfi_leave(m->t->cx);
}

/* ---- comparison of modules ---- */

static bool equal_parts(const tmod *a, const tmod *b, tcompare *c, size_t *where) {
  for (size_t i = 0; i < a->global.n && i < b->global.n; i++)
    if (!anfi_t_equal_stmt(c, a->global.at[i], b->global.at[i])) return *where = SIZE_MAX, false;
  for (size_t i = 0; i < a->func.n && i < b->func.n; i++)
    if (!anfi_t_equal_func(c, a->func.at[i], b->func.at[i])) return *where = i, false;
  return true;
}

static bool equal(const tmod *a, const tmod *b, const anf_tir_compare_opts *o, anf_text *why) {
  tcompare c;
  size_t where = SIZE_MAX;
  if (!anfi_t_compare_by(a->t->cx, &c, o)) return false;
  bool data = a->image_size == b->image_size && !a->image == !b->image &&
              (!a->image_size || memcmp(a->image, b->image, (size_t)a->image_size) == 0);
  if (!data) {
    if (why) anfi_puts(why, "different module data\n");
    return false;
  }
  bool same = equal_parts(a, b, &c, &where);
  if (same && (a->func.n != b->func.n || a->global.n != b->global.n)) {
    same = false;
    if (why) anfi_puts(why, "different numbers of functions or globals\n");
  } else if (!same && why) {
    if (where == SIZE_MAX) anfi_puts(why, "globals differ\n");
    else anfi_putf(why, "func %s", a->func.at[where]->name->s);
    anfi_t_say_difference(&c, where != SIZE_MAX, why);
  }
  return same;
}

bool anf_tir_equal(const anf_tir_module *a, const anf_tir_module *b, const anf_tir_compare_opts *o,
                   anf_text *why) {
  ANFI_NEED_ELSE(cx_of(a), false, a, b);
  volatile bool same = false;
  ANFI_ENTRY_ELSE(a->t->cx, NULL, false);
  same = equal(a, b, o, why);
  anfi_leave(a->t->cx);
  return same;
}

uint64_t anf_tir_hash(const anf_tir_module *m) {
  if (!m) return 0;
  volatile uint64_t h = 0;
  ANFI_ENTRY_ELSE(m->t->cx, NULL, 0);
  h = anfi_t_hash_mod(m, anfi_scratch(m->t->cx));
  anfi_leave(m->t->cx);
  return h;
}

/* ---- passes, running ---- */

anf_status anf_tir_opt(const anf_tir_module *m, const char *passes, const anf_tir_opt_opts *o,
                       anf_diag *d, anf_tir_module **out) {
  ANFI_NEED(d, m, passes, out);
  *out = NULL;
  ANFI_ENTRY(m->t->cx, d);
  const tmod *r = anfi_t_validate(m->t->cx, m) ? anfi_t_run_passes(m->t->cx, m, passes, o) : NULL;
  if (!anfi_failed(m->t->cx)) anfi_t_mod_keep(*out = (tmod *)(uintptr_t)r);
  return anfi_leave(m->t->cx);
}

anf_status anf_tir_run(const anf_tir_module *m, const char *func, size_t n, const anf_tir_arg *args,
                       const anf_tir_run_opts *o, anf_diag *d, anf_tir_arg *result) {
  ANFI_NEED(d, m, func);
  if (n) ANFI_NEED(d, args);
  ANFI_ENTRY(m->t->cx, d);
  anfi_t_interp(m->t->cx, m, func, n, args, o, result);
  return anfi_leave(m->t->cx);
}

/* ---- makers ---- */

anf_tir_dtype anf_tir_scalar(anf_tir_elem e) { return anfi_t_dt(e); }
anf_tir_dtype anf_tir_vector(anf_tir_elem e, uint16_t lanes) {
  return (tdtype){(uint8_t)e, 0, lanes ? lanes : 1, 0};
}
anf_tir_dtype anf_tir_pointer(anf_tir_elem e) { return anfi_t_ptr(e); }

void anfi_t_remember(tmod *m, anf_status st) {
  if (m->status == ANF_OK) m->status = st;
}

static void say_bad(tmod *m, const char *maker) {
  anfi_t_remember(m, ANF_INVALID);
  anfi_frame f;
  anfi_enter(m->t->cx, NULL, &f);
  if (!setjmp(f.jump)) anfi_fail(m->t->cx, anfi_nowhere(), ANF_E0005, maker);
  anfi_leave(m->t->cx);
}
void *anfi_t_bad(tmod *m, const char *maker) {
  if (m) say_bad(m, maker);
  return NULL;
}

bool anfi_t_all_given(size_t n, const void *const *p) {
  for (size_t i = 0; i < n; i++)
    if (!p || !p[i]) return false;
  return true;
}

anf_status anf_tir_module_add(anf_tir_module *m, anf_tir_func f) {
  ANFI_NEED_ELSE(cx_of(m), ANF_INVALID, m, f);
  if (!f) return m->status != ANF_OK ? m->status : ANF_INVALID;
  ANFI_ENTRY(m->t->cx, NULL);
  anfi_t_mod_add(m, f);
  return anfi_leave(m->t->cx);
}
static anf_status add_global(tmod *m, tstmt define, tlinkage l) {
  if (!m || !define || define->kind != TS_define || define->e[0]->kind != TX_tensor)
    return ANF_INVALID;
  ANFI_ENTRY(m->t->cx, NULL);
  anfi_push(&m->t->arena, &m->global, anfi_t_define(m->t, l, define->e[0], define->e[1]));
  return anfi_leave(m->t->cx);
}
anf_status anf_tir_module_add_global(anf_tir_module *m, anf_tir_stmt define) {
  return add_global(m, define, TL_public);
}
anf_status anf_tir_module_add_private(anf_tir_module *m, anf_tir_stmt define) {
  return add_global(m, define, TL_private);
}

texpr anf_tir_make_s32(tmod *m, int32_t v) { MAKE(texpr, anfi_t_s32(m->t, v)); }
texpr anf_tir_make_s64(tmod *m, int64_t v) {
  MAKE(texpr, anfi_t_int(m->t, anfi_t_dt(ANF_TIR_s64), v));
}
texpr anf_tir_make_index(tmod *m, uint64_t v) { MAKE(texpr, anfi_t_index(m->t, v)); }
texpr anf_tir_make_bool(tmod *m, bool v) { MAKE(texpr, anfi_t_bool(m->t, v)); }
texpr anf_tir_make_f32(tmod *m, float v) {
  MAKE(texpr, anfi_t_real(m->t, anfi_t_dt(ANF_TIR_f32), (double)v));
}
texpr anf_tir_make_f64(tmod *m, double v) {
  MAKE(texpr, anfi_t_real(m->t, anfi_t_dt(ANF_TIR_f64), v));
}
texpr anf_tir_make_var(tmod *m, tdtype t, const char *name) {
  if (!name || t.elem >= ANF_TIR_ELEM_COUNT || !t.lanes) return (texpr)bad(m);
  MAKE(texpr, anfi_t_var(m->t, t, name));
}
static bool good_dims(size_t rank, const int64_t *dims) {
  for (size_t i = 0; i < rank; i++)
    if (dims[i] < 0) return false;
  return true;
}
static texpr dense_tensor(tstore *t, anf_tir_elem e, const char *name, size_t rank,
                          const int64_t *dims) {
  texpr *d = ANFI_NEW_N(&t->arena, texpr, rank);
  for (size_t i = 0; i < rank; i++) d[i] = anfi_t_index(t, (uint64_t)dims[i]);
  return anfi_t_tensor(t, e, false, name, (uint32_t)rank, d, NULL);
}
texpr anf_tir_make_tensor(tmod *m, anf_tir_elem e, const char *name, size_t rank,
                          const int64_t *dims) {
  bool good = name && rank && rank <= 1024 && dims && e < ANF_TIR_ELEM_COUNT && e != ANF_TIR_void;
  if (!good || !good_dims(rank, dims)) return (texpr)bad(m);
  MAKE(texpr, dense_tensor(m->t, e, name, rank, dims));
}

/* The kind, if it is one of two operands; -1 otherwise. */
static int kind_of(const char *s) {
  for (int i = 0; s && i < TX_COUNT; i++)
    if (strcmp(anfi_t_kind_names[i], s) == 0) return i;
  return -1;
}
texpr anf_tir_make_binary(tmod *m, const char *kind, texpr l, texpr r) {
  int k = kind_of(kind);
  if (!l || !r || k < TX_add || k > TX_logic_or) return (texpr)bad(m);
  MAKE(texpr, anfi_t_bin(m->t, (tkind)k, l, r));
}
texpr anf_tir_make_add(tmod *m, texpr l, texpr r) { return anf_tir_make_binary(m, "add", l, r); }
texpr anf_tir_make_sub(tmod *m, texpr l, texpr r) { return anf_tir_make_binary(m, "sub", l, r); }
texpr anf_tir_make_mul(tmod *m, texpr l, texpr r) { return anf_tir_make_binary(m, "mul", l, r); }
texpr anf_tir_make_div(tmod *m, texpr l, texpr r) { return anf_tir_make_binary(m, "div", l, r); }
texpr anf_tir_make_not(tmod *m, texpr x) {
  if (!x) return (texpr)bad(m);
  MAKE(texpr, anfi_t_not(m->t, x));
}
texpr anf_tir_make_cast(tmod *m, tdtype t, texpr x) {
  if (!x || t.elem >= ANF_TIR_ELEM_COUNT || !t.lanes) return (texpr)bad(m);
  MAKE(texpr, anfi_t_cast(m->t, t, x));
}
texpr anf_tir_make_select(tmod *m, texpr c, texpr l, texpr r) {
  if (!c || !l || !r) return (texpr)bad(m);
  MAKE(texpr, anfi_t_select(m->t, c, l, r));
}
texpr anf_tir_make_indexing(tmod *m, texpr tensor, size_t n, const texpr *idx, uint16_t lanes,
                            texpr mask) {
  if (!anfi_t_isa(tensor, TX_tensor) || !n || n > UINT16_MAX || !lanes || !GIVEN(n, idx))
    return (texpr)bad(m);
  MAKE(texpr, anfi_t_at(m->t, tensor, (uint32_t)n, idx, lanes, 0, mask));
}
texpr anf_tir_make_tensorptr(tmod *m, texpr tensor, size_t n, const texpr *idx) {
  if (!anfi_t_isa(tensor, TX_tensor) || n > UINT16_MAX || !GIVEN(n, idx)) return (texpr)bad(m);
  MAKE(texpr, anfi_t_addr(m->t, tensor, (uint32_t)n, idx));
}
texpr anf_tir_make_call(tmod *m, const char *func, tdtype ret, size_t n, const texpr *args) {
  if (!func || n > UINT16_MAX || !GIVEN(n, args)) return (texpr)bad(m);
  MAKE(texpr, anfi_t_call(m->t, anfi_t_name(m->t, func), ret, (uint32_t)n, args));
}
texpr anf_tir_make_parallel_call(tmod *m, const char *func, size_t n, const texpr *args,
                                 size_t ranges, const texpr *triples) {
  if (!func || n > UINT16_MAX || !ranges || ranges > 8 || !GIVEN(n, args) ||
      !GIVEN(3 * ranges, triples))
    return (texpr)bad(m);
  MAKE(texpr, anfi_t_call_par(m->t, anfi_t_name(m->t, func), anfi_t_dt(ANF_TIR_void), (uint32_t)n,
                              args, (uint32_t)ranges, triples));
}
texpr anf_tir_make_call_ptr(tmod *m, texpr fn, tdtype ret, size_t n, const texpr *args) {
  if (!fn || n > UINT16_MAX || !GIVEN(n, args)) return (texpr)bad(m);
  MAKE(texpr, anfi_t_call_ptr(m->t, fn, ret, (uint32_t)n, args));
}
texpr anf_tir_make_func_addr(tmod *m, const char *func) {
  if (!func) return (texpr)bad(m);
  MAKE(texpr, anfi_t_func_addr(m->t, anfi_t_name(m->t, func)));
}
texpr anf_tir_make_intrin(tmod *m, const char *name, tdtype t, size_t n, const texpr *args) {
  int i = name ? anfi_t_intrin_of(name, strlen(name)) : -1;
  if (i < 0 || n < anfi_t_intrins[i].lo || n > anfi_t_intrins[i].hi || !GIVEN(n, args))
    return (texpr)bad(m);
  MAKE(texpr, anfi_t_intrin(m->t, (tintrin)i, t, (uint32_t)n, args, (tattrs){0}));
}
static int attr_of(const char *name) { return name ? anfi_t_attr_of(name, strlen(name)) : -1; }
static tfunc func_with(tstore *t, tfunc f, tattr_key k, int64_t value) {
  struct anf_tir_func_node *r = ANFI_NEW(&t->arena, struct anf_tir_func_node);
  *r = *f;
  r->attrs = anfi_t_attr_set(t, f->attrs, k, value);
  return r;
}
tstmt anf_tir_with_attr(tmod *m, tstmt s, const char *name, int64_t value) {
  int k = attr_of(name);
  if (!s || k < 0) return (tstmt)bad(m);
  MAKE(tstmt, anfi_t_with_attrs(m->t, s, anfi_t_attr_set(m->t, s->attrs, (tattr_key)k, value)));
}
tfunc anf_tir_func_with_attr(tmod *m, tfunc f, const char *name, int64_t value) {
  int k = attr_of(name);
  if (!f || k < 0) return (tfunc)bad(m);
  MAKE(tfunc, func_with(m->t, f, (tattr_key)k, value));
}
texpr anf_tir_remake(tmod *m, texpr e, const texpr *in) {
  if (!m || !e || !GIVEN(e->n, in)) return (texpr)bad(m);
  MAKE(texpr, anfi_t_remake(m->t, e, in));
}

tstmt anf_tir_make_stmts_unattached(tmod *m, size_t n, const tstmt *s) {
  if (!GIVEN(n, s)) return (tstmt)bad(m);
  MAKE(tstmt, anfi_t_stmts(m->t, n, s));
}
tstmt anf_tir_make_define_unattached(tmod *m, texpr var, texpr init) {
  if (!var || (var->kind != TX_var && var->kind != TX_tensor)) return (tstmt)bad(m);
  MAKE(tstmt, anfi_t_define(m->t, TL_local, var, init));
}
tstmt anf_tir_make_assign_unattached(tmod *m, texpr to, texpr value) {
  if (!to || !value || (to->kind != TX_var && to->kind != TX_indexing)) return (tstmt)bad(m);
  MAKE(tstmt, anfi_t_assign(m->t, to, value));
}
tstmt anf_tir_make_if_else_unattached(tmod *m, texpr cond, tstmt then_, tstmt else_) {
  if (!cond || !then_) return (tstmt)bad(m);
  MAKE(tstmt, anfi_t_if(m->t, cond, then_, else_));
}
tstmt anf_tir_make_for_unattached(tmod *m, texpr var, texpr begin, texpr end, texpr step,
                                  tstmt body, bool parallel, uint32_t num_threads) {
  if (!anfi_t_isa(var, TX_var) || !begin || !end || !step || !body) return (tstmt)bad(m);
  MAKE(tstmt, anfi_t_for(m->t, var, begin, end, step, body, parallel, num_threads));
}
tstmt anf_tir_make_while_unattached(tmod *m, texpr cond, tstmt body) {
  if (!cond || !body) return (tstmt)bad(m);
  MAKE(tstmt, anfi_t_while(m->t, cond, body));
}
tstmt anf_tir_make_evaluate_unattached(tmod *m, texpr value) {
  if (!value) return (tstmt)bad(m);
  MAKE(tstmt, anfi_t_eval(m->t, value));
}
tstmt anf_tir_make_return_unattached(tmod *m, texpr value) {
  MAKE(tstmt, anfi_t_return(m->t, value));
}
tfunc anf_tir_make_func(tmod *m, const char *name, tdtype ret, size_t n, const texpr *params,
                        tstmt body) {
  bool good = name && n <= UINT16_MAX && GIVEN(n, params);
  for (size_t i = 0; good && i < n; i++)
    good = params[i]->kind == TX_var || params[i]->kind == TX_tensor;
  if (!good) return (tfunc)bad(m);
  MAKE(tfunc,
       anfi_t_func(m->t, anfi_t_name(m->t, name), ret, (uint32_t)n, params, body, (tattrs){0}));
}
