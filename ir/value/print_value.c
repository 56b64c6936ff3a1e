// SPDX-License-Identifier: Apache-2.0
/* Constants as text, in two forms.
 *   f32[1, 2] of 1 and 2    short, of results: [[1.0, 2.0]]      exact, of programs: f32[1, 2]([[1.0, 2.0]])
 * The exact form says the type wherever it is not that of a literal; docs/language.md has the table. Values nest without
 * bound, so the unwritten parts are on an explicit stack. */
#include "ir/ir.h"
#include "ir/value/mapped.h"

/* ---- names and strings ---- */

static bool is_name_byte(unsigned char c, bool first) {
  if (c >= 0x80 || c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return true;
  return !first && c >= '0' && c <= '9';
}

static bool is_reserved(const char *s, size_t len) {
  static const char *const words[] = {
#define ANF_WORD(w) #w,
#include "ir/word.def"
#undef ANF_WORD
  };
  for (size_t i = 0; i < ANFI_LEN(words); i++)
    if (strlen(words[i]) == len && memcmp(words[i], s, len) == 0) return true;
  anf_dtype d;
  return anfi_dtype_parse(s, len, &d) && d != ANF_KEY;
}

bool anfi_is_plain_name(const char *s, size_t len) {
  if (!len || is_reserved(s, len)) return false;
  for (size_t i = 0, n; i < len; i += n) {
    n = anfi_utf8_len(s + i, len - i);
    if (!n || !is_name_byte((unsigned char)s[i], i == 0)) return false;
  }
  return true;
}

static void put_escape(anf_text *o, unsigned char c) {
  switch (c) {
  case '\n': anfi_puts(o, "\\n"); break;
  case '\t': anfi_puts(o, "\\t"); break;
  case '\r': anfi_puts(o, "\\r"); break;
  case '"':
  case '`':
  case '\\':
    anfi_putc(o, '\\');
    anfi_putc(o, (char)c);
    break;
  default: anfi_putf(o, "\\x%02x", c); break;
  }
}

void anfi_put_quoted(anf_text *o, const char *s, size_t len, char quote) {
  anfi_putc(o, quote);
  size_t done = 0;
  for (size_t i = 0, n; i < len; i += n) {
    unsigned char c = (unsigned char)s[i];
    n = anfi_utf8_len(s + i, len - i);
    if (n && c >= 0x20 && c != 0x7f && c != '\\' && c != (unsigned char)quote) continue;
    n = 1;
    anfi_put(o, s + done, i - done);
    put_escape(o, c);
    done = i + 1;
  }
  anfi_put(o, s + done, len - done);
  anfi_putc(o, quote);
}

void anfi_put_name(anf_text *o, const char *s, size_t len) {
  if (anfi_is_plain_name(s, len)) anfi_put(o, s, len);
  else anfi_put_quoted(o, s, len, '`');
}

/* ---- elements ---- */

static void put_half(anf_text *o, uint16_t h, bool brain) {
  char buf[ANFI_NUMBER];
  anfi_put(o, buf, anfi_text_half(buf, h, brain));
}

static void put_complex(anf_text *o, const anf_value *v, size_t i) {
  bool wide = v->type->dtype != ANF_C64;
  anfi_putc(o, '(');
  for (size_t k = 2 * i; k < 2 * i + 2; k++) {
    if (k & 1) anfi_puts(o, ", ");
    if (wide) anfi_put_f64(o, anfi_get_f64(v, k));
    else anfi_put_f32(o, (float)anfi_get_f64(v, k));
  }
  anfi_putc(o, ')');
}

static void put_element(anf_text *o, const anf_value *v, size_t i) {
  const void *p = v->data;
  switch ((anf_dtype)v->type->dtype) {
  case ANF_BOOL: anfi_puts(o, ((const uint8_t *)p)[i] ? "true" : "false"); break;
  case ANF_F16: put_half(o, ((const uint16_t *)p)[i], false); break;
  case ANF_BF16: put_half(o, ((const uint16_t *)p)[i], true); break;
  case ANF_F32: anfi_put_f32(o, ((const float *)p)[i]); break;
  case ANF_F64:
  case ANF_FLOAT: anfi_put_f64(o, ((const double *)p)[i]); break;
  case ANF_C64:
  case ANF_C128:
  case ANF_COMPLEX: put_complex(o, v, i); break;
  case ANF_U64: anfi_put_u64(o, ((const uint64_t *)p)[i]); break;
  case ANF_KEY: anfi_putf(o, "0x%016llx", (unsigned long long)((const uint64_t *)p)[i]); break;
  default: anfi_put_i64(o, anfi_get_i64(v, i)); break;
  }
}

/* ---- tensors: nested lists, row-major ---- */

/* Brackets to open before element `i` of the innermost rows, or to close after it: as many trailing
 * dims as i is a multiple of. */
static size_t rows_at(const anf_type *t, size_t i) {
  size_t k = 0, size = 1;
  while (k < t->n && (size *= (size_t)t->dims[t->n - 1 - k], i % size == 0)) k++;
  return k;
}

static void put_brackets(anf_text *o, size_t n, char c) {
  for (size_t k = 0; k < n; k++) anfi_putc(o, c);
}

static void put_rows(anf_text *o, const anf_value *v, size_t max_items) {
  size_t end = max_items && v->n > max_items ? max_items : v->n, open = v->type->n;
  for (size_t i = 0; i < end; i++) {
    size_t rows = rows_at(v->type, i);
    if (i) {
      put_brackets(o, rows, ']');
      anfi_puts(o, ", ");
    }
    put_brackets(o, i ? rows : open, '[');
    put_element(o, v, i);
  }
  if (end < v->n) anfi_puts(o, ", …");
  put_brackets(o, open, ']');
}

static void put_list(anf_text *o, const anf_value *v, size_t max_items) {
  if (v->type->n == 0) put_element(o, v, 0);
  else if (v->n) put_rows(o, v, max_items);
  else anfi_puts(o, "[]"); // the type, not the brackets, says how many rows there are
}

/* Is the element type that of a literal, so that the text alone says it? */
static bool is_literal(const anf_value *v) {
  uint8_t d = v->type->dtype;
  return v->type->n == 0 && (d == ANF_BOOL || d == ANF_INT || d == ANF_FLOAT);
}

static void put_tensor(anf_text *o, const anf_value *v, size_t max_items, bool exact) {
  bool complex_scalar =
      v->type->n == 0 && anfi_dtype_class((anf_dtype)v->type->dtype) == ANFI_CLASS_COMPLEX;
  bool key_scalar = v->type->n == 0 && v->type->dtype == ANF_KEY;
  bool typed = complex_scalar || key_scalar || (exact && !is_literal(v));
  if (typed) anfi_put_type(o, v->cx, v->type);
  if (typed && !complex_scalar) anfi_putc(o, '(');
  if (exact && max_items && v->n > max_items) anfi_put_elided(o, v->n, v->data, anfi_value_size(v));
  else put_list(o, v, max_items);
  if (typed && !complex_scalar) anfi_putc(o, ')');
}

/* ---- everything else, from a stack of unwritten parts ---- */

typedef struct {
  anf_text *o;
  size_t max_items;
  bool exact;
  const anfi_names *names;
  anfi_pending *pending;
} writer;

static void later(writer *w, anfi_piece p) {
  if (!w->pending->arena) w->pending->arena = anfi_scratch(w->o->cx);
  anfi_push(w->pending->arena, &w->pending->st, p);
}

static void later_text(writer *w, const char *text) { later(w, (anfi_piece){.text = text}); }

/* Pushed in reverse, since the stack's top is written first. */
static void put_items(writer *w, const anf_value *v) {
  bool record = v->kind == ANF_VALUE_RECORD;
  anfi_putc(w->o, record ? '{' : '(');
  later_text(w, record ? "}" : v->n == 1 ? ",)" : ")");
  for (size_t i = v->n; i-- > 0;) {
    later(w, (anfi_piece){.value = v->u.item[i]});
    if (record) {
      later_text(w, " = ");
      later(w, (anfi_piece){.name = v->type->names[i]});
    }
    if (i) later_text(w, ", ");
  }
}

static void put_code(writer *w, const anfi_fn *f) {
  if (!f->graph) anfi_puts(w->o, anfi_op[f->op].name);
  else if (w->names && w->names->graph[f->graph->id])
    anfi_puts(w->o, w->names->graph[f->graph->id]);
  else anfi_put_name(w->o, f->graph->name->s, f->graph->name->len);
}

static void later_attrs(writer *w, const anfi_fn *f) {
  const anfi_schema *s = f->graph ? NULL : anfi_op_schema(w->o->cx, (anfi_opcode)f->op);
  for (uint32_t k = s && f->attrs ? f->attrs->n : 0; k-- > 0;) {
    if (!f->attrs->at[k]) continue;
    later(w, (anfi_piece){.value = f->attrs->at[k]});
    later_text(w, "=");
    later(w, (anfi_piece){.name = s->attr[k].name});
    later_text(w, ", ");
  }
}

/* Captures of a closure are not shown: a constant of a program has none. */
static void put_fn(writer *w, const anf_value *v) {
  const anfi_fn *f = anfi_value_fn(v);
  if (!f->attrs && !f->nbound) {
    put_code(w, f);
    return;
  }
  anfi_puts(w->o, "partial(");
  put_code(w, f);
  later_text(w, ")");
  later_attrs(w, f);
  for (uint32_t i = f->nbound; i-- > 0;) {
    later(w, (anfi_piece){.value = f->at[f->ncapture + i]});
    later_text(w, ", ");
  }
}

static void put_type_value(anf_text *o, const anf_type *t) {
  bool bare = t->kind == ANF_TYPE_TENSOR && !(t->n == 0 && t->dtype == ANF_KEY);
  if (!bare) anfi_puts(o, "type(");
  anfi_put_type(o, o->cx, t);
  if (!bare) anfi_putc(o, ')');
}

/* Of a stack the height says enough: no program has one as a constant. */
static void put_kept(writer *w, const anf_value *v, const char *word) {
  anfi_putf(w->o, "%s(", word);
  if (v->kind == ANF_VALUE_STACK) anfi_put_u64(w->o, v->n);
  later_text(w, ")");
  if (v->kind == ANF_VALUE_BOX && v->n) later(w, (anfi_piece){.value = v->u.item[0]});
}

static void put_one(writer *w, const anf_value *v) {
  switch ((anf_value_kind)v->kind) {
  case ANF_VALUE_NONE: anfi_puts(w->o, "None"); break;
  case ANF_VALUE_TENSOR: put_tensor(w->o, v, w->max_items, w->exact); break;
  case ANF_VALUE_STRING: anfi_put_quoted(w->o, v->u.text, v->n, '"'); break;
  case ANF_VALUE_TUPLE:
  case ANF_VALUE_RECORD: put_items(w, v); break;
  case ANF_VALUE_TYPE: put_type_value(w->o, v->type); break;
  case ANF_VALUE_FN: put_fn(w, v); break;
  case ANF_VALUE_BOX: put_kept(w, v, "box"); break;
  case ANF_VALUE_STACK: put_kept(w, v, "stack"); break;
  }
}

static void put_all(writer *w, const anf_value *v) {
  put_one(w, v);
  while (w->pending->st.n) {
    anfi_piece p = w->pending->st.at[--w->pending->st.n];
    if (p.text) anfi_puts(w->o, p.text);
    else if (p.name) anfi_put_name(w->o, p.name->s, p.name->len);
    else put_one(w, p.value);
  }
}

void anfi_put_value(anf_text *o, const anf_value *v, size_t max_items) {
  put_all(&(writer){.o = o, .max_items = max_items, .pending = &(anfi_pending){0}}, v);
}

void anfi_put_constant(anf_text *o, const anf_value *v, const anfi_names *names,
                       anfi_pending *pending, size_t most) {
  put_all(&(writer){.o = o, .max_items = most, .exact = true, .names = names, .pending = pending},
          v);
}
