// SPDX-License-Identifier: Apache-2.0
/* Imports of a program: `import nn` is a module of the library, `import "net.anf" as n` a file beside it.
 *   nn.dense(x, w)   ->   a call of the private graph dense, made when it is first used
 * A file of another format, `import "net.mindir"`, is a module whose graphs are copied when they are used. Each file
 * is a unit, read once however often it is imported. All units share one table of words; files may import each other,
 * for they hold functions alone. */
#include "frontend/anf/lib.h"

#include <errno.h>

#include "anfora/text.h"
#include "frontend/anf/anf.h"
#include "frontend/load.h"

enum { MOST_BYTES = 64 << 20 }; // of an imported file

/* ---- reading ---- */

static const char *lib_name(void *user, size_t i) {
  (void)user;
  return anfi_lib[i].name;
}

static unit *unit_of(parser *p, const char *file) {
  for (size_t i = 0; i < p->units.n; i++)
    if (strcmp(p->units.at[i]->file, file) == 0) return p->units.at[i];
  return NULL;
}

static unit *new_unit(parser *p, const char *file, const char *text, size_t len) {
  unit *u = ANFI_NEW(p->a, unit);
  *u = (unit){.file = file, .text = text, .len = len};
  anfi_push(p->a, &p->units, u);
  return u;
}

bool anfi_hint_library(anf_ctx *cx, const char *name) {
  for (const anfi_lib_module *l = anfi_lib; l->name; l++)
    if (strcmp(l->name, name) == 0)
      return anfi_hint(cx,
                       "a module of the library is imported first, and used as %s.name: import %s",
                       name, name),
             true;
  return false;
}

static unit *library_unit(parser *p, const import *im) {
  for (const anfi_lib_module *l = anfi_lib; l->name; l++) {
    if (strcmp(l->name, im->word->s) != 0) continue;
    unit *u = unit_of(p, l->file);
    if (u) return u;
    anfi_source_add(p->cx, l->file, (const char *)l->text, l->len);
    return new_unit(p, l->file, (const char *)l->text, l->len);
  }
  anfi_fail(p->cx, (anfi_loc){p->lx.file, im->line, im->col}, ANF_E0145, im->word->s);
  const char *near = anfi_nearest(im->word->s, lib_name, NULL);
  if (near)
    anfi_hint(p->cx, "did you mean '%s'? A file is imported as \"%s.anf\"", near, im->word->s);
  else anfi_hint(p->cx, "a file is imported as \"%s.anf\"", im->word->s);
  return NULL;
}

/* A file by its identity: `./net.anf` and `../here/net.anf` may be one, and cycles of imports end. */
static unit *unit_of_file(parser *p, const char *path) {
  anfi_file_id id = anfi_os_file_id(path);
  for (size_t i = 0; i < p->units.n; i++)
    if (anfi_os_same_file(&p->units.at[i]->id, &id)) return p->units.at[i];
  return NULL;
}

/* Beside the file that imports it. */
static const char *path_of(parser *p, const char *from, const char *path) {
  const char *slash = strrchr(from, '/');
  if (path[0] == '/' || !slash) return path;
  return anfi_sprintf(p->a, "%.*s/%s", (int)(slash - from), from, path);
}

/* A model, or another program that is no text of the language. */
static unit *model_unit(parser *p, anf_module *m, const char *path, anfi_loc loc) {
  unit *u = new_unit(p, anfi_intern_z(&p->cx->strings, path)->s, "", 0);
  u->id = anfi_os_file_id(path);
  if (!(u->model = anfi_load_file(p->cx, path, false)))
    return anfi_note(p->cx, loc, "it is imported here"), NULL;
  anfi_module_own(m, u->model);
  return u;
}

/* Is the file in the folder of the program, or in one that the host allows? A file that is not there is reported by who
 * reads it. */
static bool may_import(const parser *p, const char *path) {
  const char *real = anfi_os_real_path(p->a, path);
  const char *program = anfi_os_real_path(p->a, p->units.at[0]->file);
  if (!real || !program) return true;
  const char *slash = strrchr(program, '/');
  if (anfi_os_is_in_folder(real, anfi_strndup(p->a, program, (size_t)(slash - program))))
    return true;
  for (size_t i = 0; i < p->cx->imports.n; i++)
    if (anfi_os_is_in_folder(real, p->cx->imports.at[i])) return true;
  return false;
}

static void outside(parser *p, const import *im, anfi_loc loc) {
  const char *real = anfi_os_real_path(p->a, path_of(p, p->lx.file, im->path));
  anfi_fail(p->cx, loc, ANF_E0151, im->path);
  anfi_hint(p->cx, "if that is meant: --imports %.*s", (int)(strrchr(real, '/') - real), real);
}

static unit *file_unit(parser *p, anf_module *m, const import *im) {
  anfi_loc loc = {p->lx.file, im->line, im->col};
  const char *path = path_of(p, p->lx.file, im->path);
  char *text;
  size_t len;
  if (!p->files) return (void)anfi_fail(p->cx, loc, ANF_E0146, im->path), NULL;
  unit *u = unit_of_file(p, path);
  if (u) return u;
  if (!may_import(p, path)) return outside(p, im, loc), NULL;
  const anfi_format *format = anfi_format_by_ending(path);
  if (format && !format->text) return model_unit(p, m, path, loc);
  if (!anfi_os_read_source(p->cx, p->a, path, MOST_BYTES, &text, &len) ||
      !anfi_anf_check_length(p->cx, path, text, len))
    return anfi_note(p->cx, loc, "it is imported here"), NULL;
  const char *own = anfi_strndup(&m->arena, text, len);
  anfi_push(&m->arena, &m->imported, own);
  anfi_source_add(p->cx, path, own, len);
  u = new_unit(p, anfi_intern_z(&p->cx->strings, path)->s, own, len);
  u->id = anfi_os_file_id(path);
  return u;
}

/* The parser at the start of a unit's text; words and everything found so far stay. */
static void enter(parser *p, const unit *u) {
  anfi_lex_init(&p->lx, p->cx, p->a, &p->words, u->file, u->text, (uint32_t)u->len);
  p->panic = false;
  p->inside = 0;
  p->prev_end = 0; // in this text
  anfi_lex_next(&p->lx, &p->t);
}

void anfi_anf_read_imports(parser *p, anf_module *m) {
  unit *first = ANFI_NEW(p->a, unit);
  *first = (unit){.file = p->lx.file, .top = p->top, .imports = p->imports, .lx = p->lx};
  if (p->files) first->id = anfi_os_file_id(p->lx.file);
  anfi_push(p->a, &p->units, first);
  for (size_t i = 0; i < p->units.n && anfi_more_errors(p->cx); i++) {
    unit *u = p->units.at[i];
    if (u->model) continue;
    if (i) {
      enter(p, u);
      p->top = (funcs){0};
      memset(&p->imports, 0, sizeof p->imports);
      anfi_parse_module(p);
      u->top = p->top;
      u->imports = p->imports;
      u->lx = p->lx;
    }
    for (size_t k = 0; k < u->top.n; k++) u->top.at[k]->unit = u;
    for (size_t k = 0; k < u->imports.n; k++) {
      import *im = &u->imports.at[k];
      im->unit = im->path ? file_unit(p, m, im) : library_unit(p, im);
    }
  }
  p->lx = first->lx;
  p->top = first->top;
}

static void allow(anf_ctx *cx, const char *folder) {
  const char *real = anfi_os_real_path(&cx->arena, folder);
  if (real) anfi_push(&cx->arena, &cx->imports, real);
  else anfi_fail(cx, anfi_nowhere(), ANF_E0301, "read", folder, strerror(errno));
}

anf_status anf_allow_imports(anf_ctx *cx, const char *folder, anf_diag *d) {
  ANFI_NEED(d, cx, folder);
  ANFI_ENTRY(cx, d);
  allow(cx, folder);
  return anfi_leave(cx);
}

/* ---- lowering ---- */

/* Binds the names of the unit and unbinds those of the one before. */
void anfi_anf_enter_unit(lower *lw, unit *u) {
  if (lw->unit)
    for (size_t i = 0; i < lw->unit->top.n; i++)
      lw->bind[lw->unit->top.at[i]->name->id] = (binding){0};
  lw->unit = u;
  lw->p->lx = u->lx;
  lw->file = anfi_intern_z(&lw->m->strings, u->file);
  for (size_t i = 0; i < u->top.n; i++) {
    func *f = u->top.at[i];
    binding *b = &lw->bind[f->name->id];
    if (b->state == B_DEF) {
      anfi_fail(lw->cx, (anfi_loc){u->file, f->line, f->col}, ANF_E0112, f->name->s);
      anfi_note(lw->cx, (anfi_loc){u->file, b->def->line, b->def->col}, "the other one is here");
    }
    f->complete = true;
    *b = (binding){.state = B_DEF, .def = f};
  }
}

typedef struct names {
  const unit *u;
} names;

static const char *func_name(void *user, size_t i) {
  const unit *u = ((const names *)user)->u;
  if (u->model)
    return i < u->model->graphs.n && u->model->graphs.at[i] ? u->model->graphs.at[i]->name->s
                                                            : NULL;
  return i < u->top.n ? u->top.at[i]->name->s : NULL;
}

/* A graph of a model as a private graph of this module, copied when it is first used. */
static anf_graph *merged(lower *lw, unit *from, const char *name) {
  anf_graph *g = from->model ? anf_module_find(from->model, name) : NULL;
  if (!g) return NULL;
  if (!from->merge) from->merge = anfi_merge_new(lw->m, from->model);
  size_t before = lw->m->graphs.n;
  g = anfi_merge_graph(from->merge, g);
  for (size_t i = before; i < lw->m->graphs.n; i++) {
    lw->m->graphs.at[i]->flags |= ANFI_GRAPH_PRIVATE;
    anfi_push(lw->p->a, &lw->marks, ((struct mark){lw->m->graphs.at[i]->name, 0}));
  }
  return g;
}

bool anfi_anf_imported(lower *lw, const ast *owner, const ast *field, anf_node **out) {
  unit *from = NULL;
  for (size_t i = 0; lw->unit && i < lw->unit->imports.n && !from; i++)
    if (lw->unit->imports.at[i].word == owner->u.word) from = lw->unit->imports.at[i].unit;
  if (!from) return false;
  for (size_t i = 0; i < from->top.n; i++)
    if (from->top.at[i]->name == field->u.word)
      return *out = anfi_graph_value(anfi_anf_graph_of(lw, from->top.at[i])), true;
  anf_graph *g = merged(lw, from, field->u.word->s);
  if (g) return *out = anfi_graph_value(g), true;
  anfi_fail(lw->cx, anfi_anf_loc(lw, field), ANF_E0147, owner->u.word->s, field->u.word->s);
  names n = {from};
  anfi_suggest(lw->cx, field->u.word->s, func_name, &n);
  return *out = lw->bad, true;
}

void anfi_anf_fill_imported(lower *lw) {
  while (lw->pending.n && anfi_more_errors(lw->cx)) {
    func *f = lw->pending.at[--lw->pending.n];
    if (f->unit != lw->unit) anfi_anf_enter_unit(lw, f->unit);
    anfi_anf_def(lw, f);
  }
}
