// SPDX-License-Identifier: Apache-2.0
/* Ahead-of-time compilation of a graph or of Tensor IR: an object file with a header, or LLVM IR, assembly or C.
 *   def f(x: f32[3]) { x * 2 }     f.o;  f.h: void f(const float *x, float *out)
 *
 * The code is the same as for this process, except that it finds its data and reports its sites by itself
 * (anf_object in anfora/rt.h). */
#include "anfora/build.h"
#include "backend/c/c.h"
#include "exec/rows.h"
#include "exec/sizes.h"

/* One run of the builder. */
typedef struct work {
  /* the request */
  anf_ctx *cx;
  anfi_arena *a;
  anf_build_opts o;
  /* the module */
  const tmod *m;
  anfi_jit_aot aot;
  const anfi_c_doc *doc;
  anfi_size_set sizes; // of symbolic dims
  /* the target */
  anf_target_machine there; // what jit.target says
  anf_jit_opts jit;
  anf_jit_engine *engine; // of o.kind; NULL: not needed yet
} work;

/* The options, those of the engine among them, for a machine that need not be this one. */
static bool read_opts(work *w, const anf_build_opts *given) {
  if (!ANFI_OPTS_IN(w->cx, anf_build_opts, sizes, given, &w->o) ||
      !ANFI_OPTS_IN(w->cx, anf_jit_opts, threads, w->o.jit, &w->jit) ||
      !ANFI_OPTS_IN(w->cx, anf_target_machine, elsewhere, w->jit.target, &w->there))
    return false;
  w->o.jit = NULL;
  w->jit.size = sizeof w->jit;
  w->there.size = sizeof w->there;
  w->there.elsewhere = true;
  if (w->jit.target) w->jit.target = &w->there;
  return true;
}

/* A program that links a function `read` calls it where its C library means its own. */
static bool usable(anf_ctx *cx, const char *name) {
  if (anfi_c_name_is_free(cx, name) && !anfi_c_is_cpp_word(name) && !anfi_jit_builtin(name) &&
      !anfi_os_c_library_has(name))
    return true;
  anfi_fail(cx, anfi_nowhere(), ANF_E0920, name);
  anfi_hint(cx, "give the function another name: the option `name`, of the command --name");
  return false;
}

/* ---- forms ---- */

static anf_jit_engine *engine(work *w, anf_jit_kind k) {
  anf_jit_engine *e = NULL;
  if (w->engine && w->engine->kind == k) return w->engine;
  anf_status st = anf_jit_engine_new(w->cx, k, &w->jit, NULL, &e);
  if (st != ANF_OK) return (void)anfi_fail_as(w->cx, st), NULL;
  anfi_defer(w->cx, ANFI_ALWAYS, anfi_free_engine, e);
  return w->engine = e;
}

static bool lowered(work *w, const anf_jit_engine *e, anfi_jit_lowered *l) {
  *l = (anfi_jit_lowered){0};
  if (!anfi_jit_lower(w->cx, e, w->m, false, l)) return false;
  l->aot = &w->aot;
  for (size_t i = 0; i < l->m->func.n; i++)
    w->aot.constant &= strcmp(l->m->func.at[i]->name->s, "__tir_init") != 0;
  return true;
}

/* C as it would be compiled; no compiler is looked for. */
static bool put_c(work *w, anf_text *out) {
  anf_jit_engine e = {.vt = &anfi_jit_cjit, .kind = ANF_JIT_CJIT, .o = w->jit};
  anfi_jit_lowered l;
  return lowered(w, &e, &l) && e.vt->print(w->cx, &e, &l, "c", out);
}

static bool put_form(work *w, anf_build_form form, anf_text *out) {
  static const char *const printed[] = {[ANF_BUILD_LLVM] = "llvm", [ANF_BUILD_ASM] = "asm"};
  anfi_jit_lowered l;
  if (form == ANF_BUILD_C) return put_c(w, out);
  bool by_llvm = form == ANF_BUILD_LLVM || form == ANF_BUILD_ASM;
  anf_jit_engine *e = engine(w, by_llvm ? ANF_JIT_LLVM : w->o.kind);
  if (!e || !lowered(w, e, &l)) return false;
  if (form == ANF_BUILD_HEADER) return anfi_c_header(w->cx, &l, w->m, w->o.title, w->doc, out);
  if (by_llvm) return e->vt->print(w->cx, e, &l, printed[form], out);
  if (e->vt->object) return e->vt->object(w->cx, e, &l, out);
  return anfi_fail(w->cx, anfi_nowhere(), ANF_E0921, e->vt->name);
}

static bool put_forms(work *w, unsigned forms, anf_text *out) {
  for (int i = 0; i < ANF_BUILD_FORM_COUNT; i++) {
    if (!(forms >> i & 1)) continue;
    out[i].cx = w->cx;
    if (!put_form(w, (anf_build_form)i, &out[i])) return false;
  }
  return true;
}

/* ---- Tensor IR ---- */

static void build_tir(const tmod *m, unsigned forms, const anf_build_opts *given, anf_text *out) {
  work w = {.cx = m->t->cx, .a = anfi_scratch(m->t->cx), .m = m};
  if (!anfi_t_validate(w.cx, m) || !read_opts(&w, given)) return;
  const char *first = NULL;
  for (size_t i = 0; i < m->func.n; i++) {
    tfunc f = m->func.at[i];
    bool seen = f->body && !anfi_t_attr(f->attrs, TA_is_private, NULL) &&
                strcmp(f->name->s, "__tir_init") != 0;
    if (!seen) continue;
    if (!usable(w.cx, f->name->s)) return;
    if (!first) first = f->name->s;
  }
  if (!first) {
    anfi_fail(w.cx, anfi_nowhere(), ANF_E0922);
    return;
  }
  w.aot = (anfi_jit_aot){.name = w.o.name ? w.o.name : first, .file = m->t->file};
  if (usable(w.cx, anfi_sprintf(w.a, "%s_object", w.aot.name))) put_forms(&w, forms, out);
}

anf_status anf_build_tir(const anf_tir_module *m, unsigned forms, const anf_build_opts *o,
                         anf_diag *d, anf_text *out) {
  ANFI_NEED(d, m, out);
  ANFI_ENTRY(m->t->cx, d);
  build_tir(m, forms, o, out);
  return anfi_leave(m->t->cx);
}

/* ---- graphs ---- */

/* The message of a code with the bytes 1 and 2 for the numbers that the program reports. */
static const char *message(anfi_arena *a, const anfi_site_info *s) {
  const char *in = anfi_code_text(s->code), *word = s->text ? s->text
                                                    : s->code == ANF_E0442
                                                        ? "the condition is false"
                                                        : anfi_op[s->op].name;
  char *out = (char *)anfi_alloc(a, strlen(in) + strlen(word) + 1), *p = out;
  char number = 1;
  while (*in) {
    if (*in != '%') {
      *p++ = *in++;
      continue;
    }
    in++;
    in += strspn(in, "-+ #0123456789.lhzjt");
    if (*in == 's') p += sprintf(p, "%s", word);
    else if (*in == '%') *p++ = '%';
    else *p++ = number++;
    in += *in != 0;
  }
  *p = 0;
  return out;
}

/* Appends the sites of a program to the object's. */
static void describe_sites(work *w, const anfi_lowered *low) {
  size_t had = w->aot.nsite;
  anf_site *site = ANFI_NEW_N(w->a, anf_site, had + low->sites.n + 1);
  if (had) memcpy(site, w->aot.site, had * sizeof *site);
  for (size_t i = 0; i < low->sites.n; i++) {
    const anfi_site_info *s = &low->sites.at[i];
    bool fails = s->kind == ANFI_SITE_FAIL;
    site[had + i] = (anf_site){fails ? message(w->a, s) : NULL, s->loc.file, s->loc.line,
                               s->loc.col, fails ? NULL : anfi_site_print(w->a, low, s)};
  }
  w->aot.site = site;
  w->aot.nsite = had + low->sites.n;
}

static void put_outs(const anfi_lowered *low, anf_text *t) {
  size_t returned = anfi_returned_leaf(&low->result);
  if (low->result.n < 2 && returned < low->result.n) return;
  anfi_puts(t, returned < low->result.n ? "\n * It returns" : "\n * The result goes to `out`");
  if (returned < low->result.n)
    anfi_putf(t,
              " number %zu of the result's %zu parts; the others go to the parameters `out` in "
              "their order",
              returned, low->result.n);
  anfi_puts(t, ". Tensors are dense and in C's order.");
}

/* Names of leaves in C: those of p: ({w: f32[2]}, i64) are p_0_w and p_1. Types nest no deeper than their text may. */
typedef ANFI_VEC(const char *) leaf_names;

static void name_leaves(work *w, const anf_type *t, const char *path, leaf_names *out) {
  bool record = t->kind == ANF_TYPE_RECORD, nest = record || t->kind == ANF_TYPE_TUPLE;
  if (t->kind == ANF_TYPE_TENSOR) anfi_push(w->a, out, path);
  for (uint32_t i = 0; nest && i < t->n; i++)
    name_leaves(w, t->items[i],
                record ? anfi_sprintf(w->a, "%s_%s", path, t->names[i]->s)
                       : anfi_sprintf(w->a, "%s_%u", path, i),
                out);
}

/* Of parameters, then of the memory that results go to; NULL if the function takes something else. */
static const char **parameter_names(work *w, const anfi_lowered *low, const anf_graph *g, size_t n,
                                    const anf_type *const *types) {
  leaf_names all = {0}, out = {0};
  for (size_t i = 0; i < w->sizes.ndim; i++) anfi_push(w->a, &all, w->sizes.name[i]);
  for (size_t i = 0; i < n; i++) {
    const char *p = anf_node_name(g->params.at[i]);
    name_leaves(w, types[i], p && *p ? p : "x", &all);
  }
  name_leaves(w, low->result_type, "out", &out);
  if (all.n != w->sizes.ndim + low->param.n || out.n != low->result.n) return NULL;
  for (size_t i = 0; i < out.n; i++)
    if (i != anfi_returned_leaf(&low->result)) anfi_push(w->a, &all, out.at[i]);
  return all.at;
}

/* Comment on a parameter's memory where sizes are arguments: "[B, 8] of f32", or the numbers of elements
 * in the order of the rows. */
static const char *note_leaf(work *w, const anfi_lowered *const *rows, bool result, size_t i,
                             const anfi_leaf *l) {
  anf_text *t = anfi_text_begin(w->cx);
  bool known = true;
  for (uint32_t k = 0; k < l->type->n; k++) known &= l->type->dims[k] != -1;
  if (l->scalar) return NULL;
  for (size_t row = 0; row < w->sizes.n && !known; row++)
    anfi_putf(t, "%s%llu", row ? ", " : "",
              (unsigned long long)(result ? &rows[row]->result : &rows[row]->param)->at[i].n);
  if (!known) anfi_putf(t, " of %s", anf_dtype_name((anf_dtype)l->type->dtype));
  else anfi_put_type(t, w->cx, l->type);
  const char *s = anfi_strndup(w->a, t->text, t->len);
  anfi_text_done(t);
  return s;
}

/* "enum { f_SIZES = 2 };" and a row of f_sizes for each combination */
static const char *table_of_sizes(work *w, const char *name) {
  const anfi_size_set *z = &w->sizes;
  anf_text *t = anfi_text_begin(w->cx);
  anfi_putf(t, "enum { %s_SIZES = %zu };\nstatic const int64_t %s_sizes[%s_SIZES][%zu] = {", name,
            z->n, name, name, z->ndim);
  for (size_t row = 0; row < z->n; row++) {
    anfi_puts(t, row ? ", {" : "{");
    for (size_t k = 0; k < z->ndim; k++)
      anfi_putf(t, "%s%lld", k ? ", " : "", (long long)z->at[row * z->ndim + k]);
    anfi_puts(t, "}");
  }
  anfi_puts(t, "};\n");
  const char *s = anfi_strndup(w->a, t->text, t->len);
  anfi_text_done(t);
  return s;
}

static void note_leaves(work *w, const anfi_lowered *low, const anfi_lowered *const *rows,
                        anfi_c_doc *doc) {
  size_t at = w->sizes.ndim;
  doc->note = ANFI_NEW_N(w->a, const char *, at + low->param.n + low->result.n + 1);
  for (size_t i = 0; i < low->param.n; i++)
    doc->note[at++] = note_leaf(w, rows, false, i, &low->param.at[i]);
  for (size_t i = 0; i < low->result.n; i++)
    if (i != anfi_returned_leaf(&low->result))
      doc->note[at++] = note_leaf(w, rows, true, i, &low->result.at[i]);
}

static void put_sizes(work *w, anf_text *t) {
  const char *list = anfi_sizes_list(w->a, &w->sizes);
  if (w->sizes.any) anfi_putf(t, "\n * Built for %s.", list);
  else
    anfi_putf(t, "\n * Built for %zu combination%s of sizes: %s. Others stop it.", w->sizes.n,
              &"s"[w->sizes.n == 1], list);
}

/* The comment above the function in the header. */
static anfi_c_doc *documented(work *w, const anfi_lowered *low, const char *name,
                              const anf_graph *g, size_t n, const anf_type *const *types) {
  anf_text *t = anfi_text_begin(w->cx);
  anfi_c_doc *doc = ANFI_NEW(w->a, anfi_c_doc);
  anfi_putf(t, "%s(", name);
  for (size_t i = 0; i < n; i++) {
    const char *p = anf_node_name(g->params.at[i]);
    anfi_putf(t, "%s%s: ", i ? ", " : "", p && *p ? p : "x");
    anfi_put_type(t, w->cx, types[i]);
  }
  anfi_puts(t, ") -> ");
  anfi_put_type(t, w->cx, low->result_type);
  put_outs(low, t);
  if (w->sizes.ndim) put_sizes(w, t);
  doc->text = anfi_strndup(w->a, t->text, t->len);
  doc->nin = (uint32_t)(w->sizes.ndim + low->param.n);
  doc->name = parameter_names(w, low, g, n, types);
  anfi_text_done(t);
  return doc;
}

/* One program: the graph and what it is built for */
typedef struct program {
  anf_graph *g;
  size_t n;
  const anf_type *const *types;
  unsigned forms;
  const char *name;
  const anfi_build_hooks *hooks;
} program;

static bool give_engine(work *w, const program *p, anf_exec_opts *eo) {
  bool needed = p->forms & 1u << ANF_BUILD_OBJ || eo->tune;
  return !needed || (eo->engine = engine(w, w->o.kind)) != NULL;
}

/* The program for the sizes of a row; its sites begin at `first`. Blocks of products are those of the machine that the
 * object is for, as in a process. NULL with a finding. */
static anfi_variant *lower(work *w, const program *p, size_t row, size_t first) {
  anfi_variant *v = ANFI_NEW(w->a, anfi_variant);
  anf_exec_opts eo = {.size = sizeof eo,
                      .fast = w->o.fast,
                      .parallel = w->o.parallel,
                      .pipeline = w->o.pipeline,
                      .tune = w->o.tune,
                      .stage = w->o.stage,
                      .stage_user = w->o.stage_user};
  anfi_arg *args = ANFI_NEW_N(w->a, anfi_arg, p->n + 1);
  for (size_t i = 0; i < p->n; i++)
    args[i].type = anfi_sizes_type(w->cx, &w->sizes, row, p->types[i]);
  anfi_arena_init(&v->arena, w->cx);
  anfi_defer(w->cx, ANFI_ALWAYS, anfi_free_arena, &v->arena);
  if (!give_engine(w, p, &eo)) return NULL;
  v->name = p->name;
  v->job = (anfi_job){.nstate = p->hooks->nstate,
                      .edit = p->hooks->edit,
                      .user = p->hooks->user,
                      .first_site = first};
  if (!anfi_exec_lower(w->cx, p->g, p->n, args, &eo, v)) return NULL;
  if (!anfi_lowered_is_plain(&v->low, v->loc)) return NULL;
  if (v->form) return anfi_fail(w->cx, anfi_nowhere(), ANF_E0923, p->name), NULL;
  return v;
}

/* The last site: the message of the dispatching function when no row has the sizes. */
static void describe_front(work *w, const program *p, anfi_loc loc) {
  const anfi_size_set *s = &w->sizes;
  const char *got = anfi_sprintf(w->a, "%s = \1", s->name[0]);
  if (s->ndim > 1) got = anfi_sprintf(w->a, "%s, %s = \2", got, s->name[1]);
  anf_site *site = ANFI_NEW_N(w->a, anf_site, w->aot.nsite + 1);
  if (w->aot.nsite) memcpy(site, w->aot.site, w->aot.nsite * sizeof *site);
  site[w->aot.nsite++] =
      (anf_site){anfi_sprintf(w->a, "%s was not built for %s%s (only for %s)", p->name, got,
                              s->ndim > 2 ? " and so on" : "", anfi_sizes_list(w->a, s)),
                 loc.file, loc.line, loc.col, NULL};
  w->aot.site = site;
}

/* All rows, joined; `low` is the whole. */
static bool lower_rows(work *w, const program *p, anfi_lowered *low, anfi_c_doc **doc) {
  const anfi_lowered **rows = ANFI_NEW_N(w->a, const anfi_lowered *, w->sizes.n);
  anfi_loc loc = {0};
  for (size_t row = 0; row < w->sizes.n; row++) {
    anfi_variant *v = lower(w, p, row, w->aot.nsite);
    if (!v) return false;
    describe_sites(w, &v->low);
    rows[row] = &v->low;
    loc = v->loc;
  }
  if (!w->sizes.ndim) *low = *rows[0];
  else if (!anfi_sizes_join(w->cx, w->a, &w->sizes, rows, p->name, loc, low)) return false;
  else describe_front(w, p, loc);
  *doc = documented(w, low, p->name, p->g, p->n, p->types);
  if (!w->sizes.ndim) return true;
  note_leaves(w, low, rows, *doc);
  (*doc)->before = table_of_sizes(w, p->name);
  return true;
}

/* A batch may be its pieces one after the other; a step's outputs are of the whole batch. */
static bool in_pieces(const work *w, const program *p) {
  if (p->hooks->edit) return anfi_fail(w->cx, anfi_node_loc(p->g->result), ANF_E1597);
  return anfi_rows_apart(p->g, p->n, p->types, w->sizes.dim[0], w->sizes.name[0]);
}

void anfi_build_graph(anf_graph *g, size_t n, const anf_type *const *types, unsigned forms,
                      const anf_build_opts *given, const anfi_build_hooks *h, anf_text *out) {
  anf_ctx *cx = g->module->cx;
  work w = {.cx = cx, .a = anfi_scratch(cx)};
  anfi_lowered low;
  anfi_c_doc *doc = NULL;
  if (!read_opts(&w, given)) return;
  program p = {g, n, types, forms, w.o.name ? w.o.name : g->name->s, h};
  if (!usable(cx, p.name) || !anfi_sizes_read(cx, w.a, w.o.sizes, n, types, &w.sizes)) return;
  if (w.sizes.any && !in_pieces(&w, &p)) return;
  if (!lower_rows(&w, &p, &low, &doc)) return;
  low.module->stops = w.o.stops;
  w.m = low.module;
  w.aot.name = p.name;
  w.aot.file = w.m->t->file;
  w.aot.constant = true;
  doc->put = h->put;
  doc->user = h->user;
  doc->low = &low;
  doc->nsize = w.sizes.ndim;
  w.doc = doc;
  put_forms(&w, forms, out);
}

anf_status anf_build_graph(anf_graph *g, size_t n, const anf_type *const *types, unsigned forms,
                           const anf_build_opts *o, anf_diag *d, anf_text *out) {
  ANFI_NEED(d, g, out);
  if (n) ANFI_NEED(d, types);
  for (size_t i = 0; i < n; i++) ANFI_NEED(d, types[i]);
  static const anfi_build_hooks none = {0};
  ANFI_ENTRY(g->module->cx, d);
  anfi_build_graph(g, n, types, forms, o, &none, out);
  return anfi_leave(g->module->cx);
}

const char *anf_build_form_name(anf_build_form f) {
  static const char *const names[ANF_BUILD_FORM_COUNT] = {"obj", "header", "llvm", "asm", "c"};
  return (unsigned)f < ANF_BUILD_FORM_COUNT ? names[f] : "";
}
bool anf_build_form_of(const char *name, size_t len, anf_build_form *out) {
  if (!name || !out) return false;
  for (int i = 0; i < ANF_BUILD_FORM_COUNT; i++) {
    const char *s = anf_build_form_name((anf_build_form)i);
    if (strlen(s) == len && memcmp(s, name, len) == 0) return *out = (anf_build_form)i, true;
  }
  return false;
}
