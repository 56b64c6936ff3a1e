// SPDX-License-Identifier: Apache-2.0
/* Writing a function as a module of StableHLO, in the form that the reader takes:
 *   def f(x: f32[2], n: i64) { (a, (b, c)) }   ->  func.func public @main(%x, %n) -> three results
 * Tuples and records are their items, of parameters and of results. The program is written as the passes leave it: a choice
 * between functions is an if or case, the op Loop a while. A function with one use is written in place; one with more is
 * a private function. */
#include "frontend/stablehlo/write.h"

#include <ctype.h>

static const anfi_out *new_tensor(anfi_flat *w, const anf_type *t, const char *name) {
  const anf_type *sized = anfi_sw_tensor(w, (anf_dtype)t->dtype, t->n, t->dims);
  return anfi_out_leaf(w, name ? name : anfi_sw_new_name(w), sized);
}

static const anfi_out *any_tensor(anfi_flat *w, const anf_type *t) {
  const anfi_out *zero = anfi_sw_number(w, anfi_dtype_settle((anf_dtype)t->dtype), 0);
  return anfi_sw_broadcast(w, zero, t->n, t->dims);
}

static const anfi_flat_form form = {.refusal = ANF_E1330,
                                    .sized = true,
                                    .nested = 32,
                                    .tensor = new_tensor,
                                    .constant = anfi_sw_constant,
                                    .any = any_tensor,
                                    .select = anfi_sw_select,
                                    .op = anfi_sw_op,
                                    .function = anfi_sw_call_function,
                                    .choice = anfi_sw_choice,
                                    .loop = anfi_sw_loop};

/* ---- functions ---- */

/* A parameter's name, if MLIR can have it and no other has it. */
static const char *parameter_name(anfi_flat *w, const anf_node *p, size_t i, anfi_map *taken) {
  const anfi_str *s = w->m->debugs.at[p->debug].name;
  bool good = s && s->len && (isalpha((unsigned char)s->s[0]) || s->s[0] == '_');
  for (size_t k = 0; good && k < s->len; k++)
    good = isalnum((unsigned char)s->s[k]) || s->s[k] == '_';
  const char *name = good ? anfi_sprintf(w->arena, "%%%s", s->s) : NULL;
  uint64_t *at = name ? anfi_map_at(taken, anfi_key(anfi_intern_z(&w->words, name))) : NULL;
  if (at && !*at && strncmp(name, "%c", 2) != 0) return *at = 1, name; // %c0 is a constant
  return anfi_sprintf(w->arena, "%%arg%zu", i);
}

static void put_signature(anfi_flat *w, anf_text *o, const char *name, bool entry,
                          const anfi_outs *in, const anfi_outs *out) {
  anfi_putf(o, "  func.func %s @%s(", entry ? "public" : "private", name);
  for (size_t i = 0; i < in->n; i++)
    anfi_putf(o, "%s%s: %s", i ? ", " : "", in->at[i]->name, anfi_sw_type(w, in->at[i]->type));
  anfi_putf(o, ") -> (%s) {\n", anfi_sw_types(w, out));
}

static anf_text *new_text(anfi_flat *w) {
  anf_text *t = ANFI_NEW(w->arena, anf_text);
  *t = (anf_text){.cx = w->cx};
  anfi_defer(w->cx, ANFI_ALWAYS, anfi_free_text, t);
  return t;
}

/* The result in the types that the signature says: numbers without an element type are settled. */
static bool put_return(anfi_flat *w, const anfi_out *result, anfi_outs *out) {
  anfi_out_add(w, result, out);
  if (out->n) anfi_sw_line(w, "return %s : %s", anfi_sw_names(w, out), anfi_sw_types(w, out));
  else anfi_sw_line(w, "return");
  return !anfi_failed(w->cx);
}

static bool put_function(anfi_flat *w, const anf_graph *g, const char *name, bool entry,
                         anf_text *whole) {
  const anfi_out **args = ANFI_NEW_N(w->arena, const anfi_out *, g->params.n + 1);
  anfi_outs in = {0}, out = {0};
  anfi_map taken;
  anfi_map_init(&taken, w->arena);
  anfi_map_init(&w->named, w->arena);
  anfi_map_init(&anfi_sw_own_of(w)->constant, w->arena);
  w->count = 0;
  anfi_sw_own_of(w)->indent = 2;
  w->out = new_text(w);
  anfi_sw_own_of(w)->constants = new_text(w);
  for (size_t i = 0; i < g->params.n; i++) {
    const anf_node *p = g->params.at[i];
    if (!(args[i] = anfi_flat_fresh(w, p->type, parameter_name(w, p, i, &taken)))) return false;
    anfi_out_add(w, args[i], &in);
  }
  const anfi_out *result = anfi_flat_body(w, g, args);
  if (!result || !put_return(w, result, &out)) return false;
  put_signature(w, whole, name, entry, &in, &out);
  anfi_put(whole, anfi_sw_own_of(w)->constants->text ? anfi_sw_own_of(w)->constants->text : "",
           anfi_sw_own_of(w)->constants->len);
  anfi_put(whole, w->out->text, w->out->len);
  anfi_puts(whole, "  }\n");
  return !anfi_failed(w->cx);
}

static bool put_module(anfi_flat *w, const anf_graph *g, anf_text *out) {
  anfi_puts(out, "module @anfora {\n");
  if (!put_function(w, g, "main", true, out)) return false;
  for (size_t i = 0; i < w->functions.todo.n; i++) { // grows
    const anf_graph *f = w->functions.todo.at[i];
    if (!put_function(w, f, anfi_flat_name(w, f), false, out)) return false;
  }
  anfi_puts(out, "}\n");
  return true;
}

/* ---- the entry ---- */

extern const unsigned char anfi_templates_stablehlo_export[];
extern const size_t anfi_templates_stablehlo_export_len;

static bool write_stablehlo(anf_graph *g, size_t n, const anf_type *const *types, void *user,
                            anf_text *out) {
  (void)user;
  const anfi_export_form e = {.pipeline = "standard",
                              .name = "export.anf",
                              .text = (const char *)anfi_templates_stablehlo_export,
                              .len = anfi_templates_stablehlo_export_len,
                              .refusal = ANF_E1330};
  anf_graph *copy = anfi_export_prepare(&e, g, n, types);
  if (!copy) return false;
  anfi_sw_own own = {0};
  anfi_flat w;
  anfi_flat_init(&w, &form, &own, copy->module, NULL);
  return put_module(&w, copy, out);
}

anf_status anf_write_stablehlo(anf_graph *g, size_t n, const anf_type *const *types, anf_diag *d,
                               anf_text *out) {
  return anfi_export(write_stablehlo, g, n, types, NULL, d, out);
}
