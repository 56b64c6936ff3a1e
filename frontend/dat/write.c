// SPDX-License-Identifier: Apache-2.0
/* Writes .dat: first the tables of the entries that nodes refer to (strings, types, constants), numbered in order of
 * first reference with parts before wholes, then graphs and nodes by id.
 *   def main(x) { x * x }   ->   .. graphs 1: "1 - 1 0 1", nodes 3: "v 0 - 0", "p 0 0 - 2", "a 0 Mul - - 3 2 1 1", ..
 * Linear; no recursion. */
#include "frontend/dat/dat.h"

typedef struct {
  const void *at; // of a type, a value or an attribute record
  bool parts_done;
} visit;

typedef enum { VALUE_ENTRY, ATTRS_ENTRY } entry_kind;
typedef struct {
  const void *at;
  entry_kind kind;
  bool parts_done;
} entry;

typedef struct {
  /* output */
  anf_text *o;
  anf_module *m;
  anf_ctx *cx;
  anfi_arena *a;
  /* numbers */
  anfi_strtab texts;  // strings that are not the module's, numbered after those
  anfi_map type_id;   // type -> 1 + number
  anfi_map entry_id;  // value or attribute record -> 1 + number
  anfi_map record_op; // attribute record -> its op
  /* by number, and what is still to be numbered */
  ANFI_VEC(const anf_type *) types;
  ANFI_VEC(entry) entries;
  ANFI_VEC(visit) type_stack;
  ANFI_VEC(entry) entry_stack;
} writer;

/* ---- numbering ---- */

static uint64_t string_id(writer *w, const anfi_str *s) {
  const anfi_strtab *own = &w->m->strings;
  if (s->id < own->all.n && own->all.at[s->id] == s) return s->id;
  return own->all.n + anfi_intern(&w->texts, s->s, s->len)->id;
}

static uint64_t text_id(writer *w, const char *s) {
  return w->m->strings.all.n + anfi_intern_z(&w->texts, s)->id;
}

static void push_type(writer *w, const anf_type *t) {
  if (t && !anfi_map_find(&w->type_id, anfi_key(t)))
    anfi_push(w->a, &w->type_stack, ((visit){t, false}));
}

static void push_parts(writer *w, const anf_type *t) {
  push_type(w, t->result);
  for (uint32_t i = t->items ? t->n : 0; i-- > 0;) push_type(w, t->items[i]);
}

static void name_parts(writer *w, const anf_type *t) {
  for (uint32_t i = 0; t->names && i < t->n; i++) (void)string_id(w, t->names[i]);
  for (uint32_t i = 0; t->dims && i < t->n; i++)
    if (anf_dim_name(w->cx, t->dims[i])) (void)text_id(w, anf_dim_name(w->cx, t->dims[i]));
}

static void add_type(writer *w, const anf_type *t) {
  push_type(w, t);
  while (w->type_stack.n) {
    visit *top = &w->type_stack.at[w->type_stack.n - 1];
    const anf_type *k = (const anf_type *)top->at;
    if (!top->parts_done) {
      top->parts_done = true;
      push_parts(w, k);
      continue;
    }
    w->type_stack.n--;
    uint64_t *id = anfi_map_at(&w->type_id, anfi_key(k));
    if (*id) continue;
    anfi_push(w->a, &w->types, k);
    *id = w->types.n;
    name_parts(w, k);
  }
}

static void push_entry(writer *w, const void *p, entry_kind kind) {
  if (p && p != &anfi_from_node && !anfi_map_find(&w->entry_id, anfi_key(p)))
    anfi_push(w->a, &w->entry_stack, ((entry){p, kind, false}));
}

static void push_attrs(writer *w, const anfi_attrs *at, uint16_t op) {
  if (!at) return;
  *anfi_map_at(&w->record_op, anfi_key(at)) = op;
  push_entry(w, at, ATTRS_ENTRY);
}

static void push_value_parts(writer *w, const anf_value *v) {
  if (v->kind == ANF_VALUE_FN) {
    const anfi_fn *f = anfi_value_fn(v);
    push_attrs(w, f->attrs, f->op);
    for (size_t i = v->n; i-- > 0;) push_entry(w, f->at[i], VALUE_ENTRY);
  }
  if (v->kind == ANF_VALUE_TUPLE || v->kind == ANF_VALUE_RECORD)
    for (size_t i = v->n; i-- > 0;) push_entry(w, v->u.item[i], VALUE_ENTRY);
}

static void push_entry_parts(writer *w, entry e) {
  if (e.kind == VALUE_ENTRY) {
    push_value_parts(w, (const anf_value *)e.at);
    return;
  }
  const anfi_attrs *at = (const anfi_attrs *)e.at;
  for (uint32_t k = at->n; k-- > 0;) push_entry(w, at->at[k], VALUE_ENTRY);
}

static void drain_entries(writer *w) {
  while (w->entry_stack.n) {
    entry *top = &w->entry_stack.at[w->entry_stack.n - 1], e = *top;
    if (!e.parts_done) {
      top->parts_done = true;
      push_entry_parts(w, e);
      continue;
    }
    w->entry_stack.n--;
    uint64_t *id = anfi_map_at(&w->entry_id, anfi_key(e.at));
    if (*id) continue;
    anfi_push(w->a, &w->entries, e);
    *id = w->entries.n;
    if (e.kind == VALUE_ENTRY) add_type(w, ((const anf_value *)e.at)->type);
  }
}

/* A live node: neither it nor its graph was removed. */
static bool is_kept(const anf_node *n) {
  if (!n) return false;
  if (n->graph) return !n->graph->removed;
  const anf_graph *k = anfi_value_graph(n);
  return !k || !k->removed;
}

static void collect(writer *w) {
  anf_module *m = w->m;
  for (size_t i = 0; i < m->debugs.n; i++) {
    const anfi_debug *d = &m->debugs.at[i];
    const anfi_str *s[] = {d->file, d->name, d->scope};
    for (size_t k = 0; k < ANFI_LEN(s); k++)
      if (s[k]) (void)string_id(w, s[k]);
    if (d->how) (void)text_id(w, d->how);
  }
  for (size_t i = 0; i < m->graphs.n; i++) {
    if (!m->graphs.at[i]) continue;
    (void)string_id(w, m->graphs.at[i]->name);
    add_type(w, m->graphs.at[i]->result_type);
  }
  for (size_t i = 0; i < m->nodes.n; i++) {
    const anf_node *n = m->nodes.at[i];
    if (!is_kept(n)) continue;
    add_type(w, n->type);
    if (n->kind == ANFI_VALUE) push_entry(w, n->u.value, VALUE_ENTRY);
    if (n->kind == ANFI_APPLY) push_attrs(w, n->u.attrs, n->op);
    drain_entries(w);
  }
}

/* ---- lines ---- */

static void put_num(writer *w, uint64_t v) {
  anfi_putc(w->o, ' ');
  anfi_put_u64(w->o, v);
}

/* A number counted from 1 in a map, 0 and absence being none. */
static void put_id(writer *w, const anfi_map *map, const void *p) {
  const uint64_t *id = p ? anfi_map_find(map, anfi_key(p)) : NULL;
  if (id) put_num(w, *id - 1);
  else anfi_puts(w->o, " -");
}

static void put_string_id(writer *w, const anfi_str *s) {
  if (s) put_num(w, string_id(w, s));
  else anfi_puts(w->o, " -");
}

static void put_section(writer *w, const char *name, size_t n) {
  anfi_puts(w->o, name);
  put_num(w, n);
  anfi_putc(w->o, '\n');
}

static void put_strings(writer *w, const char *section, const anfi_strtab *t) {
  put_section(w, section, t->all.n);
  for (size_t i = 0; i < t->all.n; i++) {
    anfi_put_quoted(w->o, t->all.at[i]->s, t->all.at[i]->len, '"');
    anfi_putc(w->o, '\n');
  }
}

static void put_dim(writer *w, int64_t d) {
  const char *name = anf_dim_name(w->cx, d);
  if (name) {
    anfi_puts(w->o, " $");
    anfi_put_u64(w->o, text_id(w, name));
  } else if (d < 0) anfi_puts(w->o, " ?");
  else put_num(w, (uint64_t)d);
}

static void put_pattern(writer *w, const anf_type *t) {
  if (t->pattern == ANF_PATTERN_RANKS)
    anfi_putf(w->o, "pattern ranks %s\n", anf_dtype_name((anf_dtype)t->dtype));
  else anfi_putf(w->o, "pattern %s\n", anfi_pattern_name((anf_pattern)t->pattern));
}

static void put_type(writer *w, const anf_type *t) {
  static const char *const kinds[] = {"tensor", "tuple", "record", "fn",    "none",
                                      "string", "type",  "box",    "stack", "any"};
  if (t->pattern) {
    put_pattern(w, t);
    return;
  }
  anfi_puts(w->o, kinds[t->kind]);
  if (t->kind == ANF_TYPE_TENSOR) anfi_putf(w->o, " %s", anf_dtype_name((anf_dtype)t->dtype));
  if (t->kind <= ANF_TYPE_FN) put_num(w, t->n);
  for (uint32_t i = 0; t->dims && i < t->n; i++) put_dim(w, t->dims[i]);
  for (uint32_t i = 0; t->items && i < t->n; i++) {
    if (t->names) put_string_id(w, t->names[i]);
    put_id(w, &w->type_id, t->items[i]);
  }
  if (t->kind == ANF_TYPE_FN) put_id(w, &w->type_id, t->result);
  anfi_putc(w->o, '\n');
}

/* Each element as a number in hex, most significant digit first: the same on every host. Complex
 * numbers are two. */
static void put_hex(writer *w, const anf_value *v) {
  static const char digits[] = "0123456789abcdef";
  size_t bytes = anf_dtype_bytes((anf_dtype)v->type->dtype), n = v->n;
  if (anfi_dtype_class((anf_dtype)v->type->dtype) == ANFI_CLASS_COMPLEX) bytes /= 2, n *= 2;
  char hex[16];
  anfi_putc(w->o, ' ');
  if (!n) anfi_putc(w->o, '-');
  for (size_t i = 0; i < n; i++) {
    const unsigned char *p = v->data + i * bytes;
    uint64_t x = 0;
    if (bytes == 1) x = *p;
    else if (bytes == 2) x = *(const uint16_t *)(const void *)p;
    else if (bytes == 4) x = *(const uint32_t *)(const void *)p;
    else x = *(const uint64_t *)(const void *)p;
    for (size_t k = 2 * bytes; k-- > 0; x >>= 4) hex[k] = digits[x & 15];
    anfi_put(w->o, hex, 2 * bytes);
  }
}

static bool cannot_save(writer *w, const char *why) {
  return anfi_fail(w->cx, anfi_nowhere(), ANF_E0318, why);
}

static void put_fn(writer *w, const anf_value *v) {
  const anfi_fn *f = anfi_value_fn(v);
  if (f->graph) {
    if (f->graph->module != w->m || f->graph->removed)
      cannot_save(w, "a constant is a function of another module, or one that was removed");
    anfi_puts(w->o, "graph");
    put_num(w, f->graph->id);
  } else {
    anfi_putf(w->o, "op %s", anfi_op[f->op].name);
    put_id(w, &w->entry_id, f->attrs);
  }
  put_num(w, f->ncapture);
  put_num(w, f->nbound);
  for (size_t i = 0; i < v->n; i++) put_id(w, &w->entry_id, f->at[i]);
}

static void put_value(writer *w, const anf_value *v) {
  switch ((anf_value_kind)v->kind) {
  case ANF_VALUE_NONE: anfi_puts(w->o, "none"); break;
  case ANF_VALUE_TENSOR:
    anfi_puts(w->o, "tensor");
    put_id(w, &w->type_id, v->type);
    put_hex(w, v);
    break;
  case ANF_VALUE_STRING:
    anfi_puts(w->o, "string ");
    anfi_put_quoted(w->o, v->u.text, v->n, '"');
    break;
  case ANF_VALUE_TYPE:
    anfi_puts(w->o, "type");
    put_id(w, &w->type_id, v->type);
    break;
  case ANF_VALUE_TUPLE:
    anfi_puts(w->o, "tuple");
    put_num(w, v->n);
    break;
  case ANF_VALUE_RECORD:
    anfi_puts(w->o, "record");
    put_id(w, &w->type_id, v->type);
    break;
  case ANF_VALUE_FN: put_fn(w, v); break;
  case ANF_VALUE_BOX: // never constants: their ops are not folded
  case ANF_VALUE_STACK: anfi_puts(w->o, "none"); break;
  }
  if (v->kind == ANF_VALUE_TUPLE || v->kind == ANF_VALUE_RECORD)
    for (size_t i = 0; i < v->n; i++) put_id(w, &w->entry_id, v->u.item[i]);
  anfi_putc(w->o, '\n');
}

static void put_attrs(writer *w, const anfi_attrs *at) {
  uint64_t op = *anfi_map_find(&w->record_op, anfi_key(at));
  const anfi_schema *s = anfi_op_schema(w->cx, (anfi_opcode)op);
  anfi_putf(w->o, "attrs %s", anfi_op[op].name);
  for (uint32_t k = 0; k < at->n; k++) {
    if (!at->at[k]) continue;
    anfi_putf(w->o, " %s", s->attr[k].name->s);
    if (at->at[k] == &anfi_from_node) anfi_puts(w->o, " @");
    else put_id(w, &w->entry_id, at->at[k]);
  }
  anfi_putc(w->o, '\n');
}

static void put_debug(writer *w, const anfi_debug *d) {
  anfi_put_u64(w->o, d->line);
  put_num(w, d->col);
  put_string_id(w, d->file);
  put_string_id(w, d->name);
  put_string_id(w, d->scope);
  put_num(w, d->origin);
  if (d->how) put_num(w, text_id(w, d->how));
  else anfi_puts(w->o, " -");
  anfi_putc(w->o, '\n');
}

static void put_types(writer *w) {
  put_section(w, "types", w->types.n);
  for (size_t i = 0; i < w->types.n; i++) put_type(w, w->types.at[i]);
}

static void put_places(writer *w) {
  put_section(w, "places", w->m->debugs.n);
  for (size_t i = 0; i < w->m->debugs.n; i++) put_debug(w, &w->m->debugs.at[i]);
}

static void put_graphs(writer *w) {
  put_section(w, "graphs", w->m->graphs.n);
  for (size_t i = 0; i < w->m->graphs.n; i++) {
    const anf_graph *g = w->m->graphs.at[i];
    if (g) {
      anfi_put_u64(w->o, string_id(w, g->name));
      put_id(w, &w->type_id, g->result_type);
      put_num(w, g->debug);
      put_num(w, g->flags);
      put_num(w, g->params.n);
    } else anfi_putc(w->o, '-');
    anfi_putc(w->o, '\n');
  }
}

static void put_constants(writer *w) {
  put_section(w, "constants", w->entries.n);
  for (size_t i = 0; i < w->entries.n; i++) {
    entry e = w->entries.at[i];
    if (e.kind == VALUE_ENTRY) put_value(w, (const anf_value *)e.at);
    else put_attrs(w, (const anfi_attrs *)e.at);
  }
}

static char value_letter(const writer *w, const anf_node *n) {
  const anf_graph *k = anfi_value_graph(n);
  if (k && k->self == n) return 'V';
  if (n->op == ANF_OP_NONE) return 'v';
  return w->m->op_nodes[n->op] == n ? 'O' : 'o';
}

static void put_node(writer *w, const anf_node *n) {
  switch ((anfi_kind)n->kind) {
  case ANFI_VALUE:
    anfi_putc(w->o, value_letter(w, n));
    put_id(w, &w->entry_id, n->u.value);
    break;
  case ANFI_PARAM:
    anfi_putc(w->o, 'p');
    put_num(w, n->graph->id);
    put_num(w, n->u.index);
    break;
  case ANFI_APPLY:
    anfi_putc(w->o, 'a');
    put_num(w, n->graph->id);
    anfi_putc(w->o, ' ');
    anfi_puts(w->o, anfi_op_of(n)->name);
    put_id(w, &w->entry_id, n->u.attrs);
    break;
  default:
    anfi_putc(w->o, 'c');
    put_num(w, n->graph->id);
    break;
  }
  put_id(w, &w->type_id, n->type);
  put_num(w, n->debug);
  if (anfi_is_cnode(n)) put_num(w, n->nin);
  for (uint32_t i = 0; i < n->nin; i++) {
    if (!is_kept(n->in[i].def)) cannot_save(w, "a node uses one of a graph that was removed");
    put_num(w, n->in[i].def->id);
  }
  anfi_putc(w->o, '\n');
}

static void put_nodes(writer *w) {
  put_section(w, "nodes", w->m->nodes.n);
  for (size_t i = 0; i < w->m->nodes.n; i++) {
    if (is_kept(w->m->nodes.at[i])) put_node(w, w->m->nodes.at[i]);
    else anfi_puts(w->o, "-\n");
  }
}

static void put_results(writer *w) {
  put_section(w, "results", w->m->graphs.n);
  for (size_t i = 0; i < w->m->graphs.n; i++) {
    const anf_graph *g = w->m->graphs.at[i];
    if (g && g->result) anfi_put_u64(w->o, g->result->id);
    else anfi_putc(w->o, '-');
    for (size_t k = 0; g && k < g->effects.n; k++) put_num(w, g->effects.at[k]->id);
    anfi_putc(w->o, '\n');
  }
}

void anfi_dat_put_captures(anf_text *o, anf_module *m) {
  const anf_analysis *an = anfi_analyse(m);
  writer w = {.o = o, .m = m, .cx = m->cx};
  put_section(&w, "captures", m->graphs.n);
  for (size_t i = 0; i < m->graphs.n; i++) {
    const anfi_graph_info *g = &an->graphs[i];
    if (g->parent) anfi_put_u64(o, g->parent->id);
    else anfi_putc(o, '-');
    for (size_t k = 0; k < g->free.n; k++) put_num(&w, g->free.at[k]->id);
    anfi_putc(o, '\n');
  }
}

static void write_dat(anf_text *o, anf_module *m) {
  size_t start = o->len;
  anfi_arena *a = anfi_scratch(m->cx);
  writer w = {.o = o, .m = m, .cx = m->cx, .a = a};
  anfi_strtab_init(&w.texts, a);
  anfi_map_init(&w.type_id, a);
  anfi_map_init(&w.entry_id, a);
  anfi_map_init(&w.record_op, a);
  collect(&w);
  anfi_putf(o, ANFI_DAT_MAGIC "%d\n", (int)ANFI_DAT_VERSION);
  put_strings(&w, "strings", &m->strings);
  put_strings(&w, "texts", &w.texts);
  put_types(&w);
  put_places(&w);
  put_graphs(&w);
  put_constants(&w);
  put_nodes(&w);
  put_results(&w);
  anfi_dat_put_captures(o, m);
  uint64_t sum = anfi_hash(o->text + start, o->len - start, 0);
  anfi_putf(o, ANFI_DAT_CHECKSUM "%016llx\n", (unsigned long long)sum);
}

anf_status anf_write_dat(anf_module *m, anf_text *out) {
  ANFI_TEXT_ENTRY(m, out);
  write_dat(out, m);
  return anfi_leave(m->cx);
}
