// SPDX-License-Identifier: Apache-2.0
/* anfora build: a function as an object file with a header, for programs in C.
 *   anfora build net.anf:f --sig 'f32[4]'   ->   f.o and f.h */
#include "cli/cli.h"
#include "backend/tir/tir.h"
#include "exec/sizes.h"

#include <jansson.h>

static const char *const ending[ANF_BUILD_FORM_COUNT] = {[ANF_BUILD_OBJ] = ".o",
                                                         [ANF_BUILD_HEADER] = ".h",
                                                         [ANF_BUILD_LLVM] = ".ll",
                                                         [ANF_BUILD_ASM] = ".s",
                                                         [ANF_BUILD_C] = ".c"};

/* The words of --emit as bits; 0 after a message. */
static unsigned forms_of(const cli *c) {
  const char *s = c->value[OPT_EMIT];
  unsigned forms = 0;
  if (!s) return 1u << ANF_BUILD_OBJ | 1u << ANF_BUILD_HEADER;
  while (*s) {
    size_t n = strcspn(s, ", ");
    anf_build_form f;
    if (n && !anf_build_form_of(s, n, &f)) {
      cli_usage(c, "--emit takes obj, header, llvm, asm and c, with commas between; not '%.*s'",
                (int)n, s);
      return 0;
    }
    if (n) forms |= 1u << f;
    s += n + (s[n] != 0);
  }
  if (!forms) cli_usage(c, "--emit names nothing");
  return forms;
}

/* The last part of a path, without its ending */
static const char *stem(cli *c, const char *path) {
  const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path,
             *dot = strrchr(base, '.');
  return anfi_strndup(anfi_scratch(c->cx), base,
                      dot && dot > base ? (size_t)(dot - base) : strlen(base));
}

/* Path of the files without their ending: --output without it; else the name. */
static const char *place(cli *c, const char *name) {
  const char *o = c->value[OPT_OUTPUT];
  if (!o) return name;
  size_t n = strlen(o), cut = 0;
  for (int i = 0; i < ANF_BUILD_FORM_COUNT; i++) {
    size_t e = strlen(ending[i]);
    if (n > e && !strcmp(o + n - e, ending[i])) cut = e;
  }
  return anfi_strndup(anfi_scratch(c->cx), o, n - cut);
}

static anf_status write_all(cli *c, const char *where, const anf_text *out, json_t *files) {
  for (int i = 0; i < ANF_BUILD_FORM_COUNT; i++) {
    if (!out[i].cx) continue;
    const char *path = anfi_sprintf(anfi_scratch(c->cx), "%s%s", where, ending[i]);
    if (!anfi_os_write(c->cx, path, out[i].text ? out[i].text : "", out[i].len)) return ANF_IO;
    if (files) cli_json_append(c, files, cli_json_text(c, path, strlen(path)));
  }
  return ANF_OK;
}

/* Without a function's name: that of the file, of standard input that of the output. C has `stdin` itself. */
static const char *name_of_file(cli *c, const char *file) {
  const char *to = c->value[OPT_OUTPUT];
  return stem(c, strcmp(file, "-") != 0 ? file : to ? to : "program");
}

/* `main` is the C program's own. */
static const char *name_of(cli *c, const char *function, const char *file) {
  if (c->value[OPT_NAME]) return c->value[OPT_NAME];
  if (strcmp(function, "main") != 0) return function;
  return c->value[OPT_OUTPUT] ? stem(c, c->value[OPT_OUTPUT]) : name_of_file(c, file);
}

/* The state of a step, if the program says no type for it, has the type of `init`'s result. */
static anf_status step_types(cli *c, anf_module *m, anf_graph *g, const anf_type **types) {
  anf_graph *init = anf_module_find(m, "init");
  bool known = !anf_graph_param_count(g) || anf_node_type(anf_graph_param(g, 0)) || g == init;
  if (known || !init) return cli_types(c, g, types);
  anf_value *key = anf_value_tensor(c->cx, ANF_KEY, 0, NULL, NULL), *s = NULL;
  if (!key) anfi_throw_nomem(c->cx);
  anf_status st = anf_run(init, anf_graph_param_count(init), &key, NULL, c->d, &s);
  anf_value_release(key);
  if (st != ANF_OK) return st;
  const anf_type *state = anf_value_type(c->cx, s);
  anf_value_release(s);
  if (!state) anfi_throw_nomem(c->cx);
  return cli_types_after(c, g, state, types);
}

/* Operations are fused alike at all sizes, up to what a size makes worth it: those of the first are shown. */
static anf_status explain(cli *c, anf_graph *g, size_t n, const anf_type *const *types,
                          const anfi_size_set *sizes, size_t nstate) {
  const anf_type **first = ANFI_NEW_N(anfi_scratch(c->cx), const anf_type *, n + 1);
  for (size_t i = 0; i < n; i++) first[i] = anfi_sizes_type(c->cx, sizes, 0, types[i]);
  return cli_explain(c, g, first, nstate);
}

static anf_status build_graph(cli *c, cli_target t, unsigned forms, anf_build_opts *o,
                              uint64_t nstate, anfi_size_set *sizes, anf_text *out) {
  anf_module *m = NULL;
  anf_status st = cli_load(c, t.file, &m);
  if (st == ANF_OK) st = anf_verify(m, c->d);
  if (st != ANF_OK) return st;
  anf_graph *g = cli_function(c, m, t);
  if (!g) return ANF_INVALID;
  o->name = name_of(c, anf_graph_name(g), t.file);
  bool value = c->value[OPT_VALUE_AND_GRAD] != NULL;
  const anf_type **types =
      ANFI_NEW_N(anfi_scratch(c->cx), const anf_type *, anf_graph_param_count(g) + 1);
  bool step = c->value[OPT_STATE] != NULL;
  st = step ? step_types(c, m, g, types) : cli_types(c, g, types);
  if (st == ANF_OK && (value || c->value[OPT_GRAD])) st = cli_grad(c, g, value, &g);
  if (st != ANF_OK) return st;
  size_t n = anf_graph_param_count(g);
  if (!anfi_sizes_read(c->cx, anfi_scratch(c->cx), o->sizes, n, types, sizes)) return ANF_INVALID;
  if (c->value[OPT_EXPLAIN]) st = explain(c, g, n, types, sizes, step ? nstate : 0);
  if (st != ANF_OK) return st;
  if (step) return anf_build_step(g, nstate, n, types, forms, o, c->d, out);
  return anf_build_graph(g, n, types, forms, o, c->d, out);
}

static anf_status build_tir(cli *c, cli_target t, unsigned forms, anf_build_opts *o,
                            anf_text *out) {
  anf_tir_module *m = NULL;
  anf_status st = cli_load_tir(c, t.file, &m);
  if (st != ANF_OK) return st;
  o->name = c->value[OPT_NAME] ? c->value[OPT_NAME] : name_of_file(c, t.file);
  return anf_build_tir(m, forms, o, c->d, out);
}

bool cli_cpu(cli *c, anf_target_machine *tm) {
  const char *cpu = c->value[OPT_CPU];
  *tm = (anf_target_machine){.size = sizeof *tm};
  if (cpu && strcmp(cpu, "native") != 0) tm->cpu = cpu;
  tm->triple = c->value[OPT_TARGET];
  return true;
}

static bool read_opts(cli *c, anf_build_opts *o, anf_target_machine *tm) {
  *o = (anf_build_opts){.size = sizeof *o, .fast = c->value[OPT_FAST] != NULL};
  anf_jit_opts *jit = ANFI_NEW(anfi_scratch(c->cx), anf_jit_opts);
  *jit = (anf_jit_opts){.size = sizeof *jit, .debug = c->value[OPT_DEBUG] != NULL};
  o->jit = jit;
  o->tune = c->value[OPT_TUNE] != NULL;
  o->stops = c->value[OPT_STOPPABLE] != NULL;
  o->sizes = c->value[OPT_SIZES];
  if (cli_dump(c)) o->stage = anf_dump_stage, o->stage_user = &c->dump;
  uint64_t threads = 1;
  if (!cli_number(c, OPT_THREADS, 1024, &threads)) return false;
  o->parallel = threads > 1;
  if (o->tune) jit->cache_dir = anfi_os_cache_dir(anfi_scratch(c->cx));
  const char *by = c->value[OPT_BACKEND];
  if (by && !anf_jit_kind_of(by, &o->kind)) o->kind = ANF_JIT_INTERP; // "tir"
  if (!cli_cpu(c, tm)) return false;
  if (!o->tune || tm->cpu || tm->triple) jit->target = tm; // else of this machine
  return true;
}

/* "f: code for 3 combinations of sizes (B = 1, 8, 32)"; in JSON the combinations one by one */
static void tell_sizes(cli *c, const char *name, const anfi_size_set *s, json_t *j) {
  anfi_arena *a = anfi_scratch(c->cx);
  if (!s->ndim) return;
  if (!j && s->any) {
    printf("%s: code for %s\n", name, anfi_sizes_list(a, s));
    return;
  }
  if (!j) {
    printf("%s: code for %zu combination%s of sizes (%s)\n", name, s->n, &"s"[s->n == 1],
           anfi_sizes_list(a, s));
    return;
  }
  json_t *rows = json_array();
  for (size_t row = 0; row < s->n; row++) {
    const char *words = anfi_sizes_words(a, s, row);
    cli_json_append(c, rows, cli_json_text(c, words, strlen(words)));
  }
  cli_json_put(c, j, "sizes", rows);
}

int cmd_build(cli *c) {
  anf_build_opts o;
  anf_target_machine tm;
  anf_text out[ANF_BUILD_FORM_COUNT] = {{0}};
  if (c->narg != 1) return cli_usage(c, "it takes one file");
  unsigned forms = forms_of(c);
  uint64_t nstate = 0;
  anfi_size_set sizes = {0};
  if (!forms || !read_opts(c, &o, &tm)) return EXIT_USAGE;
  if (!cli_number_or_0(c, OPT_STATE, UINT32_MAX, &nstate)) return EXIT_USAGE;
  cli_target t = cli_split(c, c->arg[0]);
  o.title = cli_source(c->arg[0]);
  anf_status st = cli_is_tir(c, t.file) ? build_tir(c, t, forms, &o, out)
                                        : build_graph(c, t, forms, &o, nstate, &sizes, out);
  if (st == ANF_OK) st = c->dump.status;
  json_t *files = c->value[OPT_JSON] ? json_array() : NULL;
  if (st == ANF_OK) st = write_all(c, place(c, o.name), out, files);
  for (int i = 0; i < ANF_BUILD_FORM_COUNT; i++)
    if (out[i].cx) anf_text_free(&out[i]);
  if (st == ANF_OK && !files) tell_sizes(c, o.name, &sizes, NULL);
  if (st != ANF_OK || !files) {
    json_decref(files);
    return cli_status(c, st);
  }
  json_t *j = json_object();
  tell_sizes(c, o.name, &sizes, j);
  cli_json_put(c, j, "files", files);
  return cli_json_write(c, j);
}
