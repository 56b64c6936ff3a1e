// SPDX-License-Identifier: Apache-2.0
/* Compiled modules and their functions: instances of data for shared code, and calls.
 *   f = anf_jit_get_function(m, "f"); anf_jit_call_generic(f, NULL, args);   // args[0 .. n-1] in, args[n] out
 * A second instance shares the code and has a copy of the data; the natural C function works on the data of the first
 * one alone. */
#include "backend/jit/jit.h"

/* ---- instances ---- */

static bool bind(anf_jit_module *m, const anfi_jit_blocks *blocks) {
  const anfi_jit_code *code = m->code;
  if (!code->naddress) return true;
  m->blocks.at = (anfi_os_block **)anfi_jit_alloc(blocks->n * sizeof *blocks->at);
  if (!m->blocks.at) return false;
  for (; m->blocks.n < blocks->n; m->blocks.n++) m->blocks.at[m->blocks.n] = NULL;
  for (size_t i = 0; i < code->naddress; i++) {
    uint64_t k = code->address[i].number;
    if (k >= blocks->n) return false;
    if (!m->blocks.at[k]) m->blocks.at[k] = anfi_os_block_retain(blocks->at[k]);
    unsigned char *p = anfi_os_block_data(blocks->at[k]);
    memcpy((char *)m->data + code->address[i].offset, &p, sizeof p);
  }
  return true;
}

anf_status anfi_jit_instance(anfi_jit_code *code, const anfi_jit_blocks *blocks,
                             anf_jit_module **out) {
  *out = NULL;
  anf_jit_module *m = (anf_jit_module *)anfi_jit_alloc(sizeof *m);
  if (!m) return ANF_NOMEM;
  atomic_init(&m->refs, 1);
  m->code = code;
  atomic_fetch_add(&code->refs, 1);
  m->data = anfi_jit_alloc(code->image_bytes);
  if (m->data && code->image_bytes) memcpy(m->data, code->image, code->image_bytes);
  if (!m->data || !bind(m, blocks)) {
    anf_jit_module_free(m);
    return ANF_NOMEM;
  }
  m->first = !atomic_exchange(&code->bound, true);
  if (m->first && code->data_slot) *code->data_slot = m->data;
  anf_status st = ANF_OK;
  if (code->init)
    st = anf_rt_enter(NULL, code->init, m->data, NULL, ANF_RT_TRAPS | ANF_RT_DEEP | ANF_RT_STREAM);
  if (st != ANF_OK) anf_jit_module_free(m);
  else *out = m;
  return st;
}

anf_status anf_jit_module_instance(anf_jit_module *m, anf_jit_module **out) {
  if (!m || !out) return ANF_INVALID;
  anf_status st = anfi_jit_instance(m->code, &m->blocks, out);
  if (st == ANF_OK && m->file && !((*out)->file = anfi_jit_strdup(m->file))) {
    anf_jit_module_free(*out);
    *out = NULL;
    st = ANF_NOMEM;
  }
  return st;
}

anf_jit_module *anf_jit_module_retain(anf_jit_module *m) {
  if (m) atomic_fetch_add(&m->refs, 1);
  return m;
}

void anf_jit_module_free(anf_jit_module *m) {
  if (!m || atomic_fetch_sub(&m->refs, 1) != 1) return;
  anfi_jit_free(m->data);
  for (size_t i = 0; i < m->blocks.n; i++) anfi_os_block_release(m->blocks.at[i]);
  anfi_jit_free(m->blocks.at);
  anfi_jit_free(m->file);
  anfi_jit_code_release(m->code);
  anfi_jit_free(m);
}
void anfi_free_code(void *m) { anf_jit_module_free((anf_jit_module *)m); }

/* ---- contents ---- */

static const anfi_jit_entry *find(const anfi_jit_code *c, const char *name) {
  for (size_t i = 0; i < c->nentry; i++)
    if (strcmp(c->entry[i].name, name) == 0) return &c->entry[i];
  return NULL;
}

static void *natural(const anf_jit_module *m, const anfi_jit_entry *f) {
  return f->flags & ANF_RT_DATA && !m->first ? NULL : f->natural;
}

void *anf_jit_get_address_of_symbol(anf_jit_module *m, const char *name) {
  if (!m || !name) return NULL;
  const anfi_jit_code *c = m->code;
  const anfi_jit_entry *f = find(c, name);
  if (f) return natural(m, f);
  for (size_t i = 0; i < c->nglobal; i++)
    if (strcmp(c->global[i].name, name) == 0) return (char *)m->data + c->global[i].offset;
  return c->engine->vt->symbol ? c->engine->vt->symbol(c, name) : NULL;
}

anf_jit_function *anf_jit_get_function(anf_jit_module *m, const char *name) {
  if (!m || !name) return NULL;
  const anfi_jit_entry *e = find(m->code, name);
  anf_jit_function *f = e ? (anf_jit_function *)anfi_jit_alloc(sizeof *f) : NULL;
  if (!f) return NULL;
  atomic_init(&f->refs, 1);
  f->module = anf_jit_module_retain(m);
  f->entry = e;
  return f;
}

size_t anf_jit_module_func_count(const anf_jit_module *m) { return m ? m->code->nentry : 0; }
const char *anf_jit_module_func_name(const anf_jit_module *m, size_t i) {
  if (!m) return NULL;
  return i < m->code->nentry ? m->code->entry[i].name : NULL;
}
size_t anf_jit_module_global_count(const anf_jit_module *m) { return m ? m->code->nglobal : 0; }
anf_jit_global anf_jit_module_global(const anf_jit_module *m, size_t i) {
  if (!m) return (anf_jit_global){0};
  return i < m->code->nglobal ? m->code->global[i] : (anf_jit_global){0};
}
void *anf_jit_module_data(const anf_jit_module *m) { return m ? m->data : NULL; }
size_t anf_jit_module_data_bytes(const anf_jit_module *m) { return m ? m->code->image_bytes : 0; }
size_t anf_jit_module_temp_count(const anf_jit_module *m) { return m ? m->code->ntemp : 0; }
const char *anf_jit_module_temp(const anf_jit_module *m, size_t i) {
  if (!m) return NULL;
  return i < m->code->ntemp ? m->code->temp[i] : NULL;
}

/* ---- functions ---- */

anf_jit_function *anf_jit_function_retain(anf_jit_function *f) {
  if (f) atomic_fetch_add(&f->refs, 1);
  return f;
}

void anf_jit_function_free(anf_jit_function *f) {
  if (!f || atomic_fetch_sub(&f->refs, 1) != 1) return;
  anfi_jit_batch_free(f->batch);
  anf_jit_module_free(f->module);
  anfi_jit_free(f);
}
void anfi_free_function(void *f) { anf_jit_function_free((anf_jit_function *)f); }
const char *anf_jit_function_name(const anf_jit_function *f) { return f ? f->entry->name : ""; }
size_t anf_jit_function_arity(const anf_jit_function *f) { return f ? f->entry->n : 0; }
void *anf_jit_get_function_pointer(const anf_jit_function *f) {
  if (!f || f->batch) return NULL;
  return natural(f->module, f->entry);
}
void *anf_jit_get_module_data(const anf_jit_function *f) { return f ? f->module->data : NULL; }
anf_jit_module *anf_jit_function_module(const anf_jit_function *f) { return f ? f->module : NULL; }

anf_status anf_jit_call_generic_data(const anf_jit_function *f, anf_stream *s, void *data,
                                     anf_generic *args) {
  if (!f || f->batch || !data || !args) return ANF_INVALID;
  const anfi_jit_entry *e = f->entry;
  if (e->wrapper) return anf_rt_enter(s, e->wrapper, data, args, e->flags);
  if (!s && !(s = anf_stream_of_thread())) return ANF_NOMEM;
  return f->module->code->engine->vt->call(f->module->code, e, s, data, args);
}

anf_status anf_jit_call_generic(const anf_jit_function *f, anf_stream *s, anf_generic *args) {
  size_t failed;
  if (!f || !args) return ANF_INVALID;
  if (f->batch) return anfi_jit_call_batch(f, s, args, &failed);
  return anf_jit_call_generic_data(f, s, f->module->data, args);
}

/* ---- reports ---- */

void anfi_jit_report(anf_ctx *cx, const anf_jit_function *f, const anf_stream *s) {
  static const uint16_t codes[ANF_TRAP_KIND_COUNT] = {
      [ANF_TRAP_DIVISION] = ANF_E0858, [ANF_TRAP_BOUNDS] = ANF_E0852,
      [ANF_TRAP_STEP] = ANF_E0861,     [ANF_TRAP_DEPTH] = ANF_E0856,
      [ANF_TRAP_MEMORY] = ANF_E0857,   [ANF_TRAP_SITE] = ANF_E0870,
      [ANF_TRAP_HOST] = ANF_E0905,     [ANF_TRAP_CANCELLED] = ANF_E0004,
      [ANF_TRAP_TIME] = ANF_E0004,     [ANF_TRAP_STEPS] = ANF_E0004,
      [ANF_TRAP_CALLS] = ANF_E0004};
  if (!s) s = anf_stream_of_thread();
  if (!s) anfi_throw_nomem(cx);
  const anf_trap *t = anf_stream_trap(s);
  if (t->kind == ANF_TRAP_NONE) return;
  const char *what = t->text[0]                      ? t->text
                     : t->kind == ANF_TRAP_BOUNDS    ? "a tensor"
                     : t->kind == ANF_TRAP_MEMORY    ? "what it computes"
                     : t->kind == ANF_TRAP_DEPTH     ? t->func
                     : t->kind >= ANF_TRAP_CANCELLED ? "running compiled code"
                                                     : "";
  const char *file = t->line ? f->module->file : NULL;
  anfi_fail(cx, (anfi_loc){file, t->line, t->col}, (anfi_code)codes[t->kind], what,
            t->func[0] ? t->func : f->entry->name);
}

anf_status anf_jit_report(anf_ctx *cx, const anf_jit_function *f, const anf_stream *s,
                          anf_diag *d) {
  ANFI_NEED(d, cx, f);
  ANFI_ENTRY(cx, d);
  anfi_jit_report(cx, f, s);
  return anfi_leave(cx);
}
