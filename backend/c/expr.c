// SPDX-License-Identifier: Apache-2.0
/* Expressions in C. A pure expression is nested text; one with an effect becomes a statement before.
 *
 *   A[i] + g(x)     →     f32 t = A[i]; f32 t1 = g(x);  t + t1
 *
 * Operands evaluated before the effect become statements too, so the order is that of Tensor IR. */
#include "backend/c/c.h"

#define SAY(...) anfi_sprintf(c->a, __VA_ARGS__)
#define PUT(...) anfi_putf(c->helper, __VA_ARGS__)

enum { KNOWN = 1, EFFECT = 2, TRAPS = 4 };

static uint32_t own_flags(texpr e) {
  int64_t k;
  if (e->kind == TX_call) return EFFECT;
  if (e->kind == TX_intrin_call && anfi_t_intrins[e->sub].purity == TP_EFFECT) return EFFECT;
  bool division = e->kind == TX_div || e->kind == TX_mod;
  if (division && !anfi_t_is_float(e->dtype) && !(anfi_t_const_i64(e->in[1], &k) && k))
    return TRAPS;
  return 0;
}

static uint32_t flags(cgen *c, texpr e) {
  if (e->kind == TX_tensor || !e->n) return own_flags(e);
  uint64_t *at = anfi_map_find(&c->effect, anfi_key(e));
  if (at) return (uint32_t)*at;
  uint32_t f = KNOWN | own_flags(e);
  for (uint32_t i = 0; i < e->n; i++) f |= flags(c, e->in[i]);
  *anfi_map_at(&c->effect, anfi_key(e)) = f;
  return f;
}

bool anfi_c_needs_stmts(cgen *c, texpr e) { return flags(c, e) & EFFECT || e->depth >= MAX_NEST; }

const char *anfi_c_name(cgen *c, texpr v) {
  uint64_t *at = anfi_map_find(&c->shown, anfi_key(v));
  return at ? (const char *)(uintptr_t)*at : v->u.name->s;
}

const char *anfi_c_temp(cgen *c, tdtype d, const char *value) {
  const char *name = anfi_c_local_name(c, SAY("t%u", ++c->temps)), *t = anfi_c_type(c, d);
  anfi_c_line(c);
  anfi_putf(c->out, "%s%s%s = %s;\n", t, t[strlen(t) - 1] == '*' ? "" : " ", name, value);
  return name;
}

static bool is_stable(texpr e) {
  return e->kind == TX_constant || e->kind == TX_var || e->kind == TX_tensor ||
         e->kind == TX_func_addr;
}

const char *anfi_c_stable(cgen *c, texpr e) {
  const char *s = anfi_c_expr(c, e);
  return is_stable(e) || flags(c, e) & EFFECT ? s : anfi_c_temp(c, e->dtype, s);
}

/* Operands in their order: those before an effect are settled first. */
static void operands(cgen *c, uint32_t n, const texpr *in, const char **out) {
  uint32_t last = 0;
  for (uint32_t i = 0; i < n; i++)
    if (flags(c, in[i]) & EFFECT) last = i;
  for (uint32_t i = 0; i < n; i++)
    out[i] = i < last ? anfi_c_stable(c, in[i]) : anfi_c_expr(c, in[i]);
}

/* ---- memory ---- */

static const char *const *strides_of(cgen *c, texpr tensor) {
  uint64_t *at = anfi_map_find(&c->strides, anfi_key(tensor));
  return at ? (const char *const *)(uintptr_t)*at : NULL;
}

/* Elements from the start: a sum of indices by strides. Indices are 64 bits. */
static const char *offset(cgen *c, texpr e, const char *const *idx) {
  const char *const *stride = strides_of(c, e->in[0]), *s = NULL;
  for (uint32_t k = 0; k < e->nidx; k++) {
    if (anfi_t_is_const(e->in[1 + k], 0)) continue;
    bool unit = !stride || strcmp(stride[k], "1ULL") == 0;
    const char *term = unit ? idx[k] : SAY("%s * %s", idx[k], stride[k]);
    s = s ? SAY("%s + %s", s, term) : term;
  }
  return s ? s : "0";
}

static const char *place(cgen *c, texpr e, const char *const *idx) {
  return SAY("%s[%s]", anfi_c_name(c, e->in[0]), offset(c, e, idx));
}

/* The distance of a tile's rows. */
static const char *row_stride(cgen *c, texpr e) {
  const char *const *stride = strides_of(c, e->in[0]);
  uint32_t rank = e->in[0]->nidx;
  return stride && rank > 1 ? stride[rank - 2] : "0";
}

/* The address of the first lane, as `T + i`: with a mask it may be past the end, where `&T[i]` is undefined. */
static const char *lanes_at(cgen *c, texpr e, const char *const *idx) {
  return SAY("%s + (%s)", anfi_c_name(c, e->in[0]), offset(c, e, idx));
}

static const char *load(cgen *c, texpr e) {
  const char **in = ANFI_NEW_N(c->a, const char *, e->n);
  texpr mask = anfi_t_mask(e);
  operands(c, e->n - 1, e->in + 1, in);
  if (!anfi_c_is_lanes(e->dtype)) {
    const char *s = place(c, e, in);
    return mask ? SAY("(%s ? %s : 0)", in[e->nidx], s) : s;
  }
  const char *name = anfi_c_load(c, e->dtype, mask != NULL, false),
             *row = e->dtype.rows ? SAY(", %s", row_stride(c, e)) : "";
  return SAY("%s(%s%s%s%s)", name, lanes_at(c, e, in), row, mask ? ", " : "",
             mask ? in[e->nidx] : "");
}

/* The statement that stores; `value` is settled. */
const char *anfi_c_store(cgen *c, texpr e, const char *value) {
  const char **in = ANFI_NEW_N(c->a, const char *, e->n);
  texpr mask = anfi_t_mask(e);
  operands(c, e->n - 1, e->in + 1, in);
  if (!anfi_c_is_lanes(e->dtype))
    return SAY("%s%s%s%s = %s", mask ? "if (" : "", mask ? in[e->nidx] : "", mask ? ") " : "",
               place(c, e, in), value);
  const char *name = anfi_c_load(c, e->dtype, mask != NULL, true),
             *row = e->dtype.rows ? SAY(", %s", row_stride(c, e)) : "";
  return SAY("%s(%s%s, %s%s%s)", name, lanes_at(c, e, in), row, value, mask ? ", " : "",
             mask ? in[e->nidx] : "");
}

static const char *address(cgen *c, texpr e) {
  const char **in = ANFI_NEW_N(c->a, const char *, e->n), *at;
  operands(c, e->nidx, e->in + 1, in);
  at = offset(c, e, in);
  return strcmp(at, "0") == 0 ? anfi_c_name(c, e->in[0])
                              : SAY("(%s + (%s))", anfi_c_name(c, e->in[0]), at);
}

/* ---- calls ---- */

const char *anfi_c_list(cgen *c, uint32_t n, const char *const *in) {
  size_t len = 1;
  for (uint32_t i = 0; i < n; i++) len += strlen(in[i]) + 2;
  char *s = (char *)anfi_alloc(c->a, len), *p = s;
  *p = 0;
  for (uint32_t i = 0; i < n; i++) p += sprintf(p, "%s%s", i ? ", " : "", in[i]);
  return s;
}

/* A pointer as the parameter wants it. */
static const char *fit(cgen *c, tdtype want, texpr e, const char *s) {
  bool same = anfi_t_same(want, e->dtype) || !want.ptr || anfi_t_is_elem(e->dtype, ANF_TIR_void);
  return same && !(e->kind == TX_constant && e->dtype.ptr) ? s
                                                           : SAY("(%s)%s", anfi_c_type(c, want), s);
}

static const char *call_pointer(cgen *c, texpr e, const char *const *in) {
  const char *types = "";
  for (uint32_t i = 0; i < e->nidx; i++) {
    tdtype d = e->in[i]->dtype;
    types = SAY("%s%s%s", types, i ? ", " : "", anfi_c_type(c, d));
  }
  return SAY("((%s(*)(%s))(uintptr_t)%s)(%s)", anfi_c_type(c, e->dtype), *types ? types : "void",
             in[e->nidx], anfi_c_list(c, e->nidx, in));
}

static const char *call(cgen *c, texpr e) {
  const char **in = ANFI_NEW_N(c->a, const char *, e->n + 1u);
  operands(c, e->n, e->in, in);
  if (!e->u.name) return call_pointer(c, e, in);
  uint64_t *at = anfi_map_find(&c->m->by_name, anfi_key(e->u.name));
  tfunc f = at ? c->m->func.at[*at - 1] : NULL;
  if (!f)
    return anfi_fail(c->cx, anfi_t_loc(c->m->t, e->line, e->col), ANF_E0864, e->u.name->s), "0";
  for (uint32_t i = 0; i < e->nidx && i < f->n; i++)
    in[i] = fit(c, f->param[i]->dtype, e->in[i], in[i]);
  int rt = f->body ? -1 : anfi_t_rt_of(f->name->s);
  if (rt == TRT_anf_rt_check && e->nidx == 3) return anfi_c_check(c, e, in);
  if (rt == TRT_anf_rt_poll && !e->nidx) return anfi_c_poll(c);
  bool hidden = rt >= 0 && rt != TRT_anf_rt_parallel; // the stream comes first, unseen
  return SAY("%s(%s%s%s)", c->func[*at - 1].impl, hidden ? "stream" : "",
             hidden && e->nidx ? ", " : "", anfi_c_list(c, e->nidx, in));
}

/* Functions behind pointers take stream and data; one from outside does not. */
static const char *func_addr(cgen *c, texpr e) {
  tfunc f = anfi_t_mod_find(c->m, e->u.name);
  const char *impl = anfi_c_func(c, e->u.name);
  if (!f || f->body) return SAY("((void *)(uintptr_t)%s)", impl);
  const char *name = SAY("anf_thunk_%s", impl), *args = "";
  tdtype d = f->ret;
  if (anfi_c_helper(c, name)) {
    PUT("static %s %s(anf_stream *stream, void *data", anfi_c_type(c, d), name);
    for (uint32_t i = 0; i < f->n; i++) {
      PUT(", %s p%u", anfi_c_type(c, f->param[i]->dtype), i);
      args = SAY("%s%sp%u", args, i ? ", " : "", i);
    }
    PUT(") {\n  %s%s(%s);\n}\n", anfi_t_is_void(d) ? "" : "return ", impl, args);
  }
  return SAY("((void *)(uintptr_t)%s)", name);
}

/* ---- intrinsics ---- */

static const char *read_struct(cgen *c, tdtype d, bool store) {
  const char *t = anfi_c_is_lanes(d) ? anfi_c_type(c, d)
                  : d.ptr            ? "pointer"
                                     : anfi_t_elem_names[d.elem],
             *name = SAY("anf_%s_%s", store ? "write" : "read", t);
  if (!anfi_c_helper(c, name)) return name;
  if (store)
    PUT("static inline void %s(void *p, %s x, u64 at) {\n"
        "  memcpy((char *)p + (ptrdiff_t)at, &x, sizeof x);\n}\n",
        name, t);
  else
    PUT("static inline %s %s(const void *p, u64 at) {\n  %s x;\n"
        "  memcpy(&x, (const char *)p + (ptrdiff_t)at, sizeof x);\n  return x;\n}\n",
        t, name, t);
  return name;
}

static const char *gather(cgen *c, texpr e, const char *const *in) {
  const char *elem = anfi_t_elem_names[e->dtype.elem];
  if (!anfi_c_is_lanes(e->dtype)) return SAY("((const %s *)%s)[(ptrdiff_t)%s]", elem, in[0], in[1]);
  const tdtype t[] = {anfi_t_ptr((anf_tir_elem)e->dtype.elem), e->in[1]->dtype};
  const char *name = SAY("anf_gather_%s_%s", anfi_c_lanes_type(c, e->dtype),
                         anfi_c_lanes_type(c, e->in[1]->dtype));
  return SAY("%s(%s, %s)", anfi_c_lanewise(c, name, e->dtype, 2, t, "a[(ptrdiff_t)b.v[k]]", false),
             fit(c, t[0], e->in[0], in[0]), in[1]);
}

static const char *effect(cgen *c, texpr e, const char *const *in) {
  switch ((tintrin)e->sub) {
  case TI_write_struct: {
    tdtype d = e->in[1]->dtype;
    return SAY("%s(%s, %s, (u64)%s)", read_struct(c, d, true), in[0], in[1], in[2]);
  }
  case TI_prefetch: return SAY("ANF_PREFETCH(%s)", in[0]);
  case TI_volatile_load: {
    texpr at = e->in[0];
    if (at->kind != TX_indexing || anfi_c_is_lanes(at->dtype)) return in[0];
    return SAY("*(const volatile %s *)&%s", anfi_c_elem(c, at->in[0]), in[0]);
  }
  case TI_brgemm:
  case TI_list_brgemm: return anfi_c_gemm(c, e, in);
  default:
    anfi_fail(c->cx, anfi_t_loc(c->m->t, e->line, e->col), ANF_E0001, anfi_t_intrins[e->sub].name);
    return "0";
  }
}

static const char *intrinsic(cgen *c, texpr e) {
  const char **in = ANFI_NEW_N(c->a, const char *, e->n + 1u);
  operands(c, e->n, e->in, in);
  if (anfi_t_lanewise((tintrin)e->sub))
    return anfi_c_math(c, (tintrin)e->sub, e->in[0]->dtype, e->n, in);
  switch ((tintrin)e->sub) {
  case TI_reinterpret:
  case TI_saturated_cast:
  case TI_round_and_cast:
    return anfi_c_convert(c, (tintrin)e->sub, e->dtype, e->in[0]->dtype, in[0]);
  case TI_read_struct: return SAY("%s(%s, (u64)%s)", read_struct(c, e->dtype, false), in[0], in[1]);
  case TI_gather: return gather(c, e, in);
  case TI_constant_load: return in[0];
  default: break;
  }
  return anfi_t_intrins[e->sub].purity == TP_EFFECT ? effect(c, e, in)
                                                    : anfi_c_lanes_intrin(c, e, in);
}

/* ---- all ---- */

/* The second operand runs only where it must, and needs statements. */
static const char *short_circuit(cgen *c, texpr e) {
  const char *t = anfi_c_temp(c, e->dtype, anfi_c_expr(c, e->in[0]));
  anfi_c_line(c);
  anfi_putf(c->out, "if (%s%s) {\n", e->kind == TX_logic_and ? "" : "!", t);
  c->indent++;
  const char *r = anfi_c_expr(c, e->in[1]);
  anfi_c_line(c);
  anfi_putf(c->out, "%s = %s;\n", t, r);
  c->indent--;
  anfi_c_line(c);
  anfi_puts(c->out, "}\n");
  return t;
}

/* Both branches are computed: those that may trap before. */
static const char *choose(cgen *c, texpr e) {
  const char *in[3];
  bool traps = (flags(c, e->in[1]) | flags(c, e->in[2])) & TRAPS;
  operands(c, 3, e->in, in);
  if (traps)
    for (int i = 1; i < 3; i++)
      if (flags(c, e->in[i]) & TRAPS) in[i] = anfi_c_temp(c, e->in[i]->dtype, in[i]);
  if (e->dtype.ptr)
    for (int i = 1; i < 3; i++) in[i] = SAY("(%s)%s", anfi_c_type(c, e->dtype), in[i]);
  return anfi_c_select_lanes(c, e, in);
}

static const char *binary(cgen *c, texpr e) {
  const char *in[2];
  bool logic = e->kind == TX_logic_and || e->kind == TX_logic_or;
  if (logic && anfi_t_total(e->dtype) == 1 && anfi_c_needs_stmts(c, e->in[1]))
    return short_circuit(c, e);
  operands(c, 2, e->in, in);
  tkind k = (tkind)e->kind;
  tdtype d = e->in[0]->dtype;
  bool traps = anfi_c_bin_traps(k, d, in[1]);
  return anfi_c_bin(c, k, d, in[0], in[1], traps ? anfi_c_at(c, e->line, e->col) : "");
}

const char *anfi_c_root(cgen *c, texpr e) {
  switch ((tkind)e->kind) { /* dispatch */
  case TX_constant: return anfi_c_constant(c, e);
  case TX_var:
  case TX_tensor: return anfi_c_name(c, e);
  case TX_cast: return anfi_c_cast(c, e->dtype, e->in[0]->dtype, anfi_c_expr(c, e->in[0]));
  case TX_logic_not: return anfi_c_not(c, e->dtype, anfi_c_expr(c, e->in[0]));
  case TX_select: return choose(c, e);
  case TX_indexing: return load(c, e);
  case TX_call: return call(c, e);
  case TX_tensorptr: return address(c, e);
  case TX_intrin_call: return intrinsic(c, e);
  case TX_func_addr: return func_addr(c, e);
  default: return binary(c, e);
  }
}

const char *anfi_c_expr(cgen *c, texpr e) {
  const char *s = anfi_c_root(c, e);
  bool effect = own_flags(e) & EFFECT, deep = e->depth % MAX_NEST == 0;
  if ((!effect && !deep) || anfi_t_is_void(e->dtype)) return s;
  return anfi_c_temp(c, e->dtype, s);
}
