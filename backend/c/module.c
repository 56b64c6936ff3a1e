// SPDX-License-Identifier: Apache-2.0
/* A module as one C file: prelude, helpers, functions, and three entries for each function. Of `func f(x: s32): s32`:
 *   static s32 f_body(anf_stream *stream, void *data, s32 x)            // what other functions call
 *   void f_0wrapper(anf_stream *stream, void *data, anf_generic *args)  // args[0] is x, args[1] the result
 *   s32 f(s32 p0)                                                       // the C function, on the first instance */
#include "backend/c/c.h"

#define SAY(...)  anfi_sprintf(c->a, __VA_ARGS__)
#define CODE(...) anfi_putf(c->code, __VA_ARGS__)

static const char prelude[] =
    "#include <math.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <string.h>\n\n"
    "#if defined(__GNUC__)\n"
    "#define ANF_ALIAS __attribute__((may_alias))\n"
    "#define ANF_ALIGN(n) __attribute__((aligned(n)))\n"
    "#define ANF_EXPORT __attribute__((visibility(\"default\")))\n"
    "#define ANF_NORETURN __attribute__((noreturn, cold))\n"
    "#define ANF_START __attribute__((constructor))\n"
    "#define ANF_PREFETCH(p) __builtin_prefetch(p)\n"
    "#define ANF_STACK() ((uintptr_t)__builtin_frame_address(0))\n"
    "#pragma GCC diagnostic ignored \"-Wunused-parameter\"\n"
    "#pragma GCC diagnostic ignored \"-Wunused-variable\"\n"
    "#pragma GCC diagnostic ignored \"-Wunused-function\"\n"
    "#else\n#error \"this file is for gcc and clang\"\n#endif\n"
    "#if defined(__clang__)\n#pragma STDC FP_CONTRACT OFF\n#endif\n\n"
    "#if __STDC_VERSION__ < 202311L\n"
    "typedef _Bool bool ANF_ALIAS;\n#define true 1\n#define false 0\n#endif\n"
    "typedef int8_t s8 ANF_ALIAS;\ntypedef int16_t s16 ANF_ALIAS;\n"
    "typedef int32_t s32 ANF_ALIAS;\ntypedef int64_t s64 ANF_ALIAS;\n"
    "typedef uint8_t u8 ANF_ALIAS;\ntypedef uint16_t u16 ANF_ALIAS;\n"
    "typedef uint32_t u32 ANF_ALIAS;\ntypedef uint64_t u64 ANF_ALIAS;\n"
    "#define index anf_index // strings.h has a function of this name\n"
    "typedef uint64_t index ANF_ALIAS;\n"
    "typedef uint16_t f16 ANF_ALIAS;   // bits\ntypedef uint16_t bf16 ANF_ALIAS;  // bits\n"
    "typedef float f32 ANF_ALIAS;\ntypedef double f64 ANF_ALIAS;\n"
    "typedef uint64_t generic ANF_ALIAS;  // any scalar\n"
    "typedef void *pointer ANF_ALIAS;\n\n"
    "typedef struct anf_stream anf_stream;\n"
    "typedef union anf_generic {\n"
    "  bool b;\n  s8 s8;\n  s16 s16;\n  s32 s32;\n  s64 s64;\n  u8 u8;\n  u16 u16;\n"
    "  u32 u32;\n  u64 u64;\n  f32 f32;\n  f64 f64;\n  void *ptr;\n  u64 bits;\n"
    "} anf_generic;\n"
    "#define ANF_PLACE anf_stream *stream, u32 line, u32 col, const char *here\n"
    "#define ANF_AT(l, c) stream, l, c, here\n"
    "#define ANF_TRAP(kind) anf_rt_trap(stream, kind, line, col, here, NULL)\n\n";

/* As anfora/rt.h has them. */
static const char object_types[] =
    "typedef struct anf_site {\n  const char *text, *file;\n  u32 line, col;\n"
    "  const char *print;\n} anf_site;\n"
    "typedef struct anf_object {\n  u64 version;\n  void *data;\n  const void *image;\n"
    "  u64 bytes;\n  const anf_site *site;\n  u64 nsite;\n  const char *file;\n  const char "
    "*needs;\n} anf_object;\n\n";

/* ---- what comes from outside ---- */

static const char *param_types(cgen *c, tfunc f) {
  bool hidden = anfi_t_rt_of(f->name->s) >= 0 && strcmp(f->name->s, "anf_rt_parallel") != 0;
  const char *s = hidden ? "anf_stream *" : "";
  for (uint32_t i = 0; i < f->n; i++) {
    texpr p = f->param[i];
    s = SAY("%s%s%s%s", s, *s ? ", " : "",
            p->kind == TX_tensor ? anfi_c_elem(c, p) : anfi_c_type(c, p->dtype),
            p->kind == TX_tensor ? " *" : "");
  }
  return *s ? s : "void";
}

/* A function, or a variable that whoever loads the code puts its address into. */
static void outside(cgen *c, const char *ret, const char *impl, const char *params,
                    const char *attr) {
  if (c->o->imports) anfi_putf(c->out, "ANF_EXPORT %s%s(*%s)(%s);\n", attr, ret, impl, params);
  else anfi_putf(c->out, "%s%s%s(%s);\n", attr, ret, impl, params);
}

static void outside_functions(cgen *c) {
  if (c->o->imports)
    anfi_puts(c->out, "#define anf_rt_trap anf_import_anf_rt_trap\n"
                      "#define anf_rt_enter anf_import_anf_rt_enter\n");
  outside(c, "void ", "anf_rt_trap", "anf_stream *, s32, u32, u32, const char *, const char *",
          "ANF_NORETURN ");
  if (c->aot)
    outside(c, "s32 ", "anf_object_enter",
            "const anf_object *, anf_stream *, void (*)(anf_stream *, void *, anf_generic *), "
            "anf_generic *, u32",
            "");
  else
    outside(
        c, "s32 ", "anf_rt_enter",
        "anf_stream *, void (*)(anf_stream *, void *, anf_generic *), void *, anf_generic *, u32",
        "");
  for (size_t i = 0; i < c->m->func.n; i++) {
    tfunc f = c->m->func.at[i];
    const char *ret = anfi_c_type(c, f->ret);
    if (f->body) continue;
    outside(c, SAY("%s ", ret), c->func[i].impl, param_types(c, f), "");
  }
}

/* ---- ways in ---- */

static const char *slot(tdtype d) {
  if (d.ptr || anfi_c_is_lanes(d)) return "ptr";
  switch (d.elem) {
  case ANF_TIR_bool: return "b";
  case ANF_TIR_index: return "u64";
  case ANF_TIR_generic: return "bits";
  case ANF_TIR_f16:
  case ANF_TIR_bf16: return "u16";
  default: return anfi_t_elem_names[d.elem];
  }
}

static bool is_natural(tfunc f) {
  if (anfi_c_is_lanes(f->ret)) return false;
  for (uint32_t i = 2; i < f->n; i++)
    if (f->param[i]->kind != TX_tensor && anfi_c_is_lanes(f->param[i]->dtype)) return false;
  return true;
}

static void wrapper(cgen *c, size_t i) {
  tfunc f = c->m->func.at[i];
  bool gives = !anfi_t_is_void(f->ret), lanes = anfi_c_is_lanes(f->ret);
  CODE("ANF_EXPORT void %s(anf_stream *stream, void *data, anf_generic *args) {\n  ",
       c->func[i].wrapper);
  if (lanes) CODE("*(%s *)args[%u].ptr = ", anfi_c_type(c, f->ret), f->n - 2);
  else if (gives) CODE("args[%u].%s = ", f->n - 2, slot(f->ret));
  CODE("%s(stream, data", c->func[i].impl);
  for (uint32_t k = 2; k < f->n; k++) {
    tdtype d = f->param[k]->dtype;
    bool by_address = f->param[k]->kind != TX_tensor && anfi_c_is_lanes(d) && !d.ptr;
    if (by_address) CODE(", *(const %s *)args[%u].ptr", anfi_c_type(c, d), k - 2);
    else CODE(", args[%u].%s", k - 2, slot(d));
  }
  CODE(");\n}\n");
}

static const char *natural_params(cgen *c, tfunc f, bool in_enter) {
  const char *s = "";
  for (uint32_t k = 2; k < f->n; k++) {
    texpr p = f->param[k];
    const char *one = in_enter ? SAY("{.%s = p%u}", slot(p->dtype), k - 2)
                               : anfi_c_declaration(c, p, SAY("p%u", k - 2));
    s = SAY("%s%s%s", s, *s ? ", " : "", one);
  }
  return s;
}

/* A call of a wrapper for the first instance */
static const char *enter(cgen *c, const char *wrapper, const char *data, const char *args,
                         uint32_t flags) {
  if (c->aot)
    return SAY("anf_object_enter(&%s_object, NULL, %s, %s, %u)", c->aot->name, wrapper, args,
               flags);
  return SAY("anf_rt_enter(NULL, %s, %s, %s, %u)", wrapper, data, args, flags);
}

/* The C function of the natural signature. What cannot trap is called as it is. */
static void natural(cgen *c, size_t i) {
  tfunc f = c->m->func.at[i];
  const char *ret = anfi_c_type(c, f->ret), *params = natural_params(c, f, false);
  bool gives = !anfi_t_is_void(f->ret);
  uint32_t flags = c->need[i].flags;
  CODE("ANF_EXPORT %s %s(%s) {\n", ret, c->func[i].natural, *params ? params : "void");
  const char *data = !(flags & ANF_RT_DATA) ? "NULL"
                     : c->aot               ? SAY("%s_object.data", c->aot->name)
                                            : SAY("%s_data", c->prefix);
  if (!(flags & ~(uint32_t)ANF_RT_DATA)) {
    CODE("  %s%s(NULL, %s", gives ? "return " : "", c->func[i].impl, data);
    for (uint32_t k = 2; k < f->n; k++) CODE(", p%u", k - 2);
    CODE(");\n}\n");
    return;
  }
  CODE("  anf_generic args[%u] = {%s%s{.bits = 0}};\n", f->n - 1, natural_params(c, f, true),
       f->n > 2 ? ", " : "");
  CODE("  %s;\n", enter(c, c->func[i].wrapper, data, "args", flags));
  if (gives && f->ret.ptr) CODE("  return (%s)args[%u].ptr;\n", ret, f->n - 2);
  else if (gives) CODE("  return args[%u].%s;\n", f->n - 2, slot(f->ret));
  CODE("}\n");
}

/* ---- module data ---- */

static void words(cgen *c, const tmod *m, const char *attr, const char *name) {
  uint64_t words = (m->image_size + 7) / 8;
  CODE("%sANF_ALIGN(64) %s[%llu] = {", attr, name, (unsigned long long)words);
  for (uint64_t i = 0; i < words; i++) {
    uint64_t w = 0, left = m->image_size - i * 8;
    memcpy(&w, m->image + i * 8, left < 8 ? (size_t)left : 8);
    CODE("%s", i % 4 ? " " : "\n    ");
    if (w) CODE("0x%016llxULL,", (unsigned long long)w);
    else CODE("0,");
  }
  CODE("\n};\n");
}

static void image(cgen *c, const tmod *m) {
  CODE("// tensors of the module as they are at first, and the first instance of them\n");
  words(c, m, "ANF_EXPORT ", SAY("const u64 %s_image", c->prefix));
  CODE("static ANF_ALIGN(64) u64 %s_first[%llu];\n", c->prefix,
       (unsigned long long)(m->image_size + 7) / 8);
}

static const char *quoted(cgen *c, const char *s) {
  const char *r = "\"";
  if (!s) return "NULL";
  for (; *s; s++) {
    bool plain = *s >= ' ' && *s < 127 && *s != '"' && *s != '\\' && *s != '?';
    r = plain ? SAY("%s%c", r, *s) : SAY("%s\\%03o", r, (unsigned char)*s);
  }
  return SAY("%s\"", r);
}

/* Code uses the features of the processor that its compiler was given. */
static const struct {
  const char *name, *macro;
} features[] = {
#define ANF_FEATURE(name, macro, level) {name, #macro},
#include "base/feature.def"
#undef ANF_FEATURE
};

/* The data of an object file, and what it says of itself. */
static void object(cgen *c) {
  const anfi_jit_aot *o = c->aot;
  const tmod *m = c->m;
  CODE("\n");
  if (m->image_size && !o->constant) words(c, m, "static ", "u64 anf_data");
  if (m->image_size) words(c, m, "static ", "const u64 anf_image");
  if (o->nsite) CODE("static const anf_site anf_sites[%zu] = {\n", o->nsite);
  for (size_t i = 0; i < o->nsite; i++)
    CODE("    {%s, %s, %u, %u, %s},\n", quoted(c, o->site[i].text), quoted(c, o->site[i].file),
         o->site[i].line, o->site[i].col, quoted(c, o->site[i].print));
  if (o->nsite) CODE("};\n");
  CODE("static const char anf_needs[] = \"\"\n");
  for (size_t i = 0; i < ANFI_LEN(features); i++)
    CODE("#ifdef %s\n\"%s%s\"\n#endif\n", features[i].macro, features[i].name, ",");
  CODE(";\nANF_EXPORT const anf_object %s_object = {%d, %s, %s, %llu, %s, %zu, %s, anf_needs};\n\n",
       o->name, ANF_RT_VERSION,
       !m->image_size ? "NULL"
       : o->constant  ? "(void *)(uintptr_t)anf_image"
                      : "anf_data",
       m->image_size && !o->constant ? "anf_image" : "NULL", (unsigned long long)m->image_size,
       o->nsite ? "anf_sites" : "NULL", o->nsite, quoted(c, o->file));
}

/* The natural functions work on the data of the first instance, which is ready before main. */
static void module_data(cgen *c, const char *init) {
  const tmod *m = c->m;
  bool own = m->image_size && !c->o->imports && !c->aot;
  if (own) image(c, m);
  if (c->aot) object(c);
  else CODE("ANF_EXPORT void *%s_data%s;\n", c->prefix, own ? SAY(" = %s_first", c->prefix) : "");
  if (!own && (!init || c->o->imports)) return;
  CODE("static ANF_START void %s_start(void) {\n", c->prefix);
  if (own)
    CODE("  memcpy(%s_first, %s_image, %llu);\n", c->prefix, c->prefix,
         (unsigned long long)m->image_size);
  if (init) {
    CODE("  anf_generic none[1] = {{.bits = 0}};\n  %s;\n",
         enter(c, init, SAY("%s_data", c->prefix), "none",
               ANF_RT_TRAPS | ANF_RT_STREAM | ANF_RT_DATA));
  }
  CODE("}\n");
}

/* ---- all ---- */

static void start(cgen *c, anf_ctx *cx, const anfi_jit_lowered *l, const anf_c_opts *o) {
  *c = (cgen){.cx = cx, .a = anfi_scratch(cx), .m = l->m, .o = o, .aot = l->aot, .need = l->need};
  c->prefix = o->prefix ? o->prefix : "anf_module";
  c->helper = anfi_text_begin(cx), c->code = anfi_text_begin(cx), c->body = anfi_text_begin(cx),
  c->tmp = anfi_text_begin(cx);
  c->head = anfi_text_begin(cx);
  anfi_map_init(&c->have, c->a);
  anfi_map_init(&c->shown, c->a);
  anfi_map_init(&c->strides, c->a);
  anfi_map_init(&c->effect, c->a);
  anfi_c_names_init(c);
}

/* Prototypes come first, so that functions may call each other whatever their order. */
static void functions(cgen *c) {
  const tmod *m = c->m;
  for (size_t i = 0; i < m->func.n; i++) {
    if (!m->func.at[i]->body) continue;
    c->out = c->code;
    CODE("\n");
    anfi_c_body(c, m->func.at[i], &c->need[i]);
    anfi_putf(c->head, "static %s;\n", anfi_c_prototype(c, m->func.at[i]));
  }
}

static const char *ways_in(cgen *c) {
  const char *init = NULL;
  CODE("\n// for hosts\n");
  for (size_t i = 0; i < c->m->func.n; i++)
    if (c->func[i].wrapper) wrapper(c, i);
  for (size_t i = 0; i < c->m->func.n; i++)
    if (c->func[i].wrapper && strcmp(c->m->func.at[i]->name->s, "__tir_init") == 0)
      init = c->func[i].wrapper;
  module_data(c, init);
  for (size_t i = 0; i < c->m->func.n; i++) {
    bool inside = !c->func[i].wrapper || c->func[i].wrapper == init;
    if (!inside && is_natural(c->m->func.at[i])) natural(c, i);
    else if (c->func[i].wrapper) c->func[i].natural = NULL;
  }
  return init;
}

bool anfi_c_print(anf_ctx *cx, const anfi_jit_lowered *l, const anf_c_opts *o, anf_text *out,
                  anfi_c_names *names) {
  cgen gen, *c = &gen;
  start(c, cx, l, o);
  functions(c);
  const char *init = ways_in(c);
  if (o->title) anfi_putf(out, "// %s\n", o->title);
  anfi_puts(out, "// C11 for gcc and clang, with -ffp-contract=off; link with libanfora_rt.\n");
  anfi_puts(out, prelude);
  if (c->aot) anfi_puts(out, object_types);
  c->out = out;
  outside_functions(c);
  anfi_putc(out, '\n');
  if (c->helper->text) anfi_put(out, c->helper->text, c->helper->len);
  anfi_putc(out, '\n');
  if (c->head->text) anfi_put(out, c->head->text, c->head->len);
  anfi_put(out, c->code->text, c->code->len);
  if (names) *names = (anfi_c_names){c->func, SAY("%s_data", c->prefix), init};
  return !anfi_failed(cx);
}

/* ---- readiness ---- */

static bool find_large(tviewer *v, tstmt s) {
  uint64_t n = 0, *limit = (uint64_t *)v->user;
  if (s->kind != TS_define || s->e[0]->kind != TX_tensor) return true;
  bool list = s->e[1] && s->e[1]->kind == TX_constant && s->e[1]->sub;
  texpr t = s->e[0];
  if ((s->e[1] && !list) || (anfi_t_const_elems(t, &n) && n <= *limit / 8)) return true;
  return *limit = 0, false;
}

/* Are there local tensors that the stack should not have? */
static bool has_large(const tmod *m, uint64_t limit) {
  tviewer v = {.user = &limit, .enter_stmt = find_large};
  for (size_t i = 0; i < m->func.n; i++)
    if (m->func.at[i]->body) anfi_t_view_stmt(&v, m->func.at[i]->body);
  return !limit;
}

/* The passes that bring any module into the form that is printed. NULL: failed. */
static const tmod *make_ready(anf_ctx *cx, const tmod *m, const anf_c_opts *o) {
  anf_tir_opt_opts opts = {.size = sizeof opts, .local_tensor_bytes = o->stack_bytes};
  const char *phis = anfi_t_measure(m) & TPROP_NO_PHI ? "" : "auto_caster dessa_transform ",
             *heap = has_large(m, o->stack_bytes)
                         ? "index_flattener auto_caster tensor_init local_tensor_lowering_cpu "
                         : "";
  return anfi_t_run_passes(
      cx, m,
      anfi_sprintf(anfi_scratch(cx),
                   "validator %sauto_caster %smodule_globals_resolver auto_caster", phis, heap),
      &opts);
}

static void print_any(anf_ctx *cx, const tmod *m, const anf_c_opts *given, anf_text *out) {
  anf_c_opts o;
  if (!ANFI_OPTS_IN(cx, anf_c_opts, stack_bytes, given, &o)) return;
  if (!o.stack_bytes) o.stack_bytes = 4096;
  m = make_ready(cx, m, &o);
  anfi_jit_lowered l = {.m = m};
  if (!m) return;
  l.need = anfi_jit_needs(cx, m);
  anfi_c_print(cx, &l, &o, out, NULL);
}

anf_status anf_tir_print_c(const anf_tir_module *m, const anf_c_opts *o, anf_diag *d,
                           anf_text *out) {
  ANFI_NEED(d, m, out);
  anfi_text_of(out, m->t->cx);
  ANFI_ENTRY(m->t->cx, d);
  print_any(m->t->cx, m, o, out);
  return anfi_leave(m->t->cx);
}
