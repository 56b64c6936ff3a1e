// SPDX-License-Identifier: Apache-2.0
/* The C header of an object file, for C11 and C++11. Of `func relu(x: [f32 * 4], y: [f32 * 4]): void` it has
 *   void relu(float *x, float *y);                                              // the natural form
 *   void relu_0wrapper(anf_stream *stream, void *data, anf_generic *args);      // arguments in slots
 *   anf_status relu_on(anf_stream *stream, float *x, float *y);                 // on a stream, with a status */
#include "backend/c/c.h"

#define SAY(...) anfi_sprintf(c->a, __VA_ARGS__)
#define OUT(...) anfi_putf(c->out, __VA_ARGS__)

static const char *const cpp_words[] = {
    "and",      "and_eq",    "asm",           "bitand",    "bitor",     "catch",        "char16_t",
    "char32_t", "char8_t",   "class",         "co_await",  "co_return", "co_yield",     "compl",
    "concept",  "consteval", "constexpr",     "constinit", "decltype",  "delete",       "explicit",
    "export",   "friend",    "mutable",       "namespace", "new",       "noexcept",     "not",
    "not_eq",   "nullptr",   "operator",      "or",        "or_eq",     "private",      "protected",
    "public",   "requires",  "static_assert", "template",  "this",      "thread_local", "throw",
    "try",      "typeid",    "typename",      "using",     "virtual",   "wchar_t",      "xor",
    "xor_eq"};

bool anfi_c_is_cpp_word(const char *s) {
  for (size_t i = 0; i < ANFI_LEN(cpp_words); i++)
    if (strcmp(cpp_words[i], s) == 0) return true;
  return false;
}

const char *anfi_c_host_type(tdtype d) {
  static const char *const names[ANF_TIR_ELEM_COUNT] = {
      [ANF_TIR_void] = "void",       [ANF_TIR_bool] = "bool",      [ANF_TIR_s8] = "int8_t",
      [ANF_TIR_s16] = "int16_t",     [ANF_TIR_s32] = "int32_t",    [ANF_TIR_s64] = "int64_t",
      [ANF_TIR_u8] = "uint8_t",      [ANF_TIR_u16] = "uint16_t",   [ANF_TIR_u32] = "uint32_t",
      [ANF_TIR_u64] = "uint64_t",    [ANF_TIR_index] = "uint64_t", [ANF_TIR_f16] = "uint16_t",
      [ANF_TIR_bf16] = "uint16_t",   [ANF_TIR_f32] = "float",      [ANF_TIR_f64] = "double",
      [ANF_TIR_generic] = "uint64_t"};
  return d.ptr ? "void *" : names[d.elem];
}

const char *anfi_c_slot(tdtype d) {
  static const char *const names[ANF_TIR_ELEM_COUNT] = {
      [ANF_TIR_bool] = "b",    [ANF_TIR_s8] = "s8",   [ANF_TIR_s16] = "s16",
      [ANF_TIR_s32] = "s32",   [ANF_TIR_s64] = "s64", [ANF_TIR_u8] = "u8",
      [ANF_TIR_u16] = "u16",   [ANF_TIR_u32] = "u32", [ANF_TIR_u64] = "u64",
      [ANF_TIR_index] = "u64", [ANF_TIR_f16] = "f16", [ANF_TIR_bf16] = "bf16",
      [ANF_TIR_f32] = "f32",   [ANF_TIR_f64] = "f64", [ANF_TIR_generic] = "bits"};
  return d.ptr ? "ptr" : names[d.elem];
}

/* One parameter of the host's view */
typedef struct hparam {
  const char *name, *type, *note;
  tdtype dtype;
  bool tensor;
} hparam;

/* Number of elements and element type of a tensor, as a comment; "" for a scalar. */
static const char *note(cgen *c, texpr p) {
  uint64_t n;
  if (p->kind != TX_tensor) return "";
  const char *e = p->sub ? "generic" : anfi_t_elem_names[p->dtype.elem];
  return anfi_t_const_elems(p, &n) ? SAY(" /* %llu of %s */", (unsigned long long)n, e)
                                   : SAY(" /* %s */", e);
}

static hparam *params_of(cgen *c, tfunc f, const anfi_c_doc *doc) {
  hparam *p = ANFI_NEW_N(c->a, hparam, f->n + 1);
  static const char *const ours[] = {"object", "args", "result", "status"};
  anfi_map_init(&c->local, c->a);
  for (size_t i = 0; i < ANFI_LEN(ours); i++) anfi_c_local_name(c, ours[i]);
  for (uint32_t i = 0; i < f->n; i++) {
    texpr x = f->param[i];
    const char *name = doc && doc->name ? doc->name[i] : x->u.name->s;
    bool tensor = x->kind == TX_tensor;
    tdtype d = tensor && x->sub ? anfi_t_dt(ANF_TIR_generic) : x->dtype;
    p[i].dtype = x->dtype;
    p[i].tensor = tensor;
    p[i].name = anfi_c_local_name(c, anfi_c_is_cpp_word(name) ? SAY("%s_", name) : name);
    p[i].note = doc && doc->note && doc->note[i] ? SAY(" /* %s */", doc->note[i]) : note(c, x);
    if (tensor) d.ptr = 0;
    p[i].type = tensor ? SAY("%s%s *", doc && i < doc->nin ? "const " : "", anfi_c_host_type(d))
                       : anfi_c_host_type(d);
  }
  return p;
}

static void put_params(cgen *c, const hparam *p, uint32_t n, bool notes) {
  for (uint32_t i = 0; i < n; i++)
    OUT("%s%s%s%s%s", i ? ", " : "", p[i].type, p[i].type[strlen(p[i].type) - 1] == '*' ? "" : " ",
        p[i].name, notes ? p[i].note : "");
}

/* NAME_on: fills the slots, enters, takes the result. */
static void put_on(cgen *c, const char *name, tfunc f, const hparam *p, uint32_t flags) {
  bool gives = !anfi_t_is_void(f->ret);
  OUT("static inline anf_status %s_on(anf_stream *stream%s", name, f->n ? ", " : "");
  put_params(c, p, f->n, false);
  if (gives) OUT(", %s *result", anfi_c_host_type(f->ret));
  OUT(") {\n  anf_generic args[%u];\n", f->n + 1);
  for (uint32_t i = 0; i < f->n; i++) {
    OUT("  args[%u].bits = 0;\n", i);
    if (p[i].tensor) OUT("  args[%u].ptr = (void *)(uintptr_t)%s;\n", i, p[i].name);
    else OUT("  args[%u].%s = %s;\n", i, anfi_c_slot(p[i].dtype), p[i].name);
  }
  OUT("  args[%u].bits = 0;\n", f->n);
  OUT("  anf_status status = anf_object_enter(&%s_object, stream, %s_0wrapper, args, %u);\n",
      c->aot->name, name, flags);
  if (gives) OUT("  if (status == ANF_OK) *result = args[%u].%s;\n", f->n, anfi_c_slot(f->ret));
  OUT("  return status;\n}\n");
}

static bool is_natural(tfunc f) {
  if (anfi_t_total(f->ret) != 1) return false;
  for (uint32_t i = 0; i < f->n; i++)
    if (f->param[i]->kind != TX_tensor && !f->param[i]->dtype.ptr &&
        anfi_t_total(f->param[i]->dtype) != 1)
      return false;
  return true;
}

static void put_function(cgen *c, tfunc f, uint32_t flags, const anfi_c_doc *doc) {
  const char *name = f->name->s;
  if (doc && doc->before) OUT("\n%s", doc->before);
  if (doc) OUT("\n/* %s */\n", doc->text);
  else OUT("\n");
  if (is_natural(f)) {
    hparam *p = params_of(c, f, doc);
    OUT("%s %s(", anfi_c_host_type(f->ret), name);
    if (f->n) put_params(c, p, f->n, true);
    else OUT("void");
    OUT(");\n");
    OUT("void %s_0wrapper(anf_stream *stream, void *data, anf_generic *args);\n", name);
    put_on(c, name, f, p, flags);
  } else OUT("void %s_0wrapper(anf_stream *stream, void *data, anf_generic *args);\n", name);
}

/* The name in capitals, for the guard */
static const char *capitals(cgen *c, const char *s) {
  char *r = anfi_strndup(c->a, s, strlen(s));
  for (char *p = r; *p; p++)
    if (*p >= 'a' && *p <= 'z') *p = (char)(*p - 'a' + 'A');
  return r;
}

static void put_head(cgen *c, const char *guard, const char *title, bool natural) {
  OUT("// Made by Anfora%s%s. Link with its object file, libanfora_rt and libm.\n",
      title ? " from " : "", title ? title : "");
  if (natural)
    OUT("// Functions return 0 if they are stopped; anf_stream_trap of the thread's stream says "
        "why.\n"
        "// Those with _on run on a stream (NULL: the thread's) and return a status.\n");
  OUT("#ifndef %s_H\n#define %s_H\n\n#include <anfora/rt.h>\n\n", guard, guard);
  OUT("#ifdef __cplusplus\nextern \"C\" {\n#endif\n\nextern const anf_object %s_object;\n",
      c->aot->name);
}

bool anfi_c_header(anf_ctx *cx, const anfi_jit_lowered *l, const tmod *given, const char *title,
                   const anfi_c_doc *doc, anf_text *out) {
  anf_c_opts o = {.size = sizeof o};
  cgen gen = {.cx = cx,
              .a = anfi_scratch(cx),
              .m = given,
              .o = &o,
              .aot = l->aot,
              .need = l->need,
              .out = out},
       *c = &gen;
  anfi_c_names_init(c);
  const char *guard = capitals(c, l->aot->name);
  bool own = doc && doc->put;
  put_head(c, guard, title, !own);
  for (size_t i = 0; i < l->m->func.n; i++) {
    tfunc f = l->m->func.at[i], g = anf_tir_find(given, f->name->s);
    bool hidden = !f->body || anfi_t_attr(f->attrs, TA_is_private, NULL) ||
                  strcmp(f->name->s, "__tir_init") == 0;
    if (hidden || !g) continue;
    if (own) doc->put(c, g, l->need[i].flags, doc);
    else put_function(c, g, l->need[i].flags, doc);
  }
  OUT("\n#ifdef __cplusplus\n}\n#endif\n#endif\n");
  return !anfi_failed(cx);
}
