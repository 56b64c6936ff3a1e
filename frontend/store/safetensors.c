// SPDX-License-Identifier: Apache-2.0
/* safetensors: the length of a header in 8 bytes, little endian; the header, an object of JSON; the bytes.
 *   {"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}} and 8 bytes   ->   the record {w = a tensor of f32[2]}
 * The header's form is fixed and flat, so it is read by itself, and the library needs no reader of JSON.
 * INVARIANT: every range is checked against the file before anything is allocated for it. */
#include "anfora/store.h"
#include "frontend/store/store.h"

#include <stdlib.h>

enum { MAX_HEADER = 100 << 20 }; // bytes, as the format has it

static const struct {
  const char *name;
  anf_dtype dtype;
} kinds[] = {
    {"BOOL", ANF_BOOL}, {"I8", ANF_I8},   {"I16", ANF_I16},   {"I32", ANF_I32},
    {"I64", ANF_I64},   {"U8", ANF_U8},   {"U16", ANF_U16},   {"U32", ANF_U32},
    {"U64", ANF_U64},   {"F16", ANF_F16}, {"BF16", ANF_BF16}, {"F32", ANF_F32},
    {"F64", ANF_F64},   {"C64", ANF_C64}, {"U64", ANF_KEY}, // read as the first of its name
};

/* ---- reading the header ---- */

typedef struct reader {
  anf_ctx *cx;
  anfi_arena *a;
  const char *file, *at, *end; // of the header
  const char *data;
  size_t left; // bytes of data
} reader;

typedef struct entry {
  const char *name, *dtype;
  size_t rank;
  int64_t dims[ANF_MAX_RANK];
  uint64_t from, to;
  bool has_shape, has_range;
} entry;

static bool bad(reader *r, const char *why) {
  return anfi_fail(r->cx, anfi_nowhere(), ANF_E0351, r->file, why);
}

static void space(reader *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r'))
    r->at++;
}
static bool take(reader *r, char c) {
  space(r);
  if (r->at == r->end || *r->at != c) return false;
  r->at++;
  return true;
}

static bool hex4(reader *r, uint32_t *out) {
  *out = 0;
  if (r->end - r->at < 4) return false;
  for (int i = 0; i < 4; i++) {
    char c = *r->at++;
    uint32_t v = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                 : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
                 : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
                                        : 16;
    if (v == 16) return false;
    *out = *out << 4 | v;
  }
  return true;
}

static void put_utf8(anf_text *o, uint32_t c) {
  if (c < 0x80) anfi_putc(o, (char)c);
  else if (c < 0x800) anfi_putc(o, (char)(0xc0 | c >> 6)), anfi_putc(o, (char)(0x80 | (c & 0x3f)));
  else {
    if (c < 0x10000) anfi_putc(o, (char)(0xe0 | c >> 12));
    else anfi_putc(o, (char)(0xf0 | c >> 18)), anfi_putc(o, (char)(0x80 | (c >> 12 & 0x3f)));
    anfi_putc(o, (char)(0x80 | (c >> 6 & 0x3f)));
    anfi_putc(o, (char)(0x80 | (c & 0x3f)));
  }
}

static bool escape(reader *r, anf_text *o) {
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  uint32_t c, low;
  if (r->at == r->end) return false;
  char e = *r->at++;
  const char *p = e ? strchr(from, e) : NULL;
  if (p) return anfi_putc(o, to[p - from]), true;
  if (e != 'u' || !hex4(r, &c)) return false;
  if (c >= 0xd800 && c < 0xdc00) { // the first of two
    if (r->end - r->at < 2 || r->at[0] != '\\' || r->at[1] != 'u') return false;
    r->at += 2;
    if (!hex4(r, &low) || low < 0xdc00 || low > 0xdfff) return false;
    c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
  }
  if (!c || (c >= 0xdc00 && c < 0xe000)) return false; // a name ends at 0
  put_utf8(o, c);
  return true;
}

static const char *take_string(reader *r) {
  anf_text *o = anfi_text_begin(r->cx);
  bool good = take(r, '"');
  while (good && r->at < r->end && *r->at != '"') {
    size_t n = *r->at == '\\' ? 0 : anfi_utf8_len(r->at, (size_t)(r->end - r->at));
    if (n && (unsigned char)*r->at >= 0x20) anfi_put(o, r->at, n), r->at += n;
    else if (*r->at == '\\') r->at++, good = escape(r, o);
    else good = false;
  }
  good = good && r->at < r->end && *r->at++ == '"';
  const char *s = good ? anfi_strndup(r->a, o->text ? o->text : "", o->len) : NULL;
  anfi_text_done(o);
  return s;
}

static bool take_number(reader *r, uint64_t *out) {
  const char *start = (space(r), r->at);
  for (*out = 0; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++)
    if (__builtin_mul_overflow(*out, 10, out) ||
        __builtin_add_overflow(*out, (uint64_t)(*r->at - '0'), out))
      return false;
  return r->at > start && *out <= INT64_MAX;
}

static bool take_shape(reader *r, entry *e) {
  if (!take(r, '[')) return false;
  for (e->rank = 0; !take(r, ']'); e->rank++) {
    uint64_t v;
    if ((e->rank && !take(r, ',')) || e->rank == ANF_MAX_RANK || !take_number(r, &v)) return false;
    e->dims[e->rank] = (int64_t)v;
  }
  return e->has_shape = true;
}

static bool take_range(reader *r, entry *e) {
  return e->has_range = take(r, '[') && take_number(r, &e->from) && take(r, ',') &&
                        take_number(r, &e->to) && take(r, ']');
}

static bool take_entry(reader *r, entry *e) {
  if (!take(r, '{')) return bad(r, "what its header says of a tensor is no object");
  for (bool first = true; !take(r, '}'); first = false) {
    if (!first && !take(r, ',')) return bad(r, "its header is cut off or no JSON");
    const char *key = take_string(r);
    if (!key || !take(r, ':')) return bad(r, "its header is cut off or no JSON");
    bool good = false;
    if (strcmp(key, "dtype") == 0) good = (e->dtype = take_string(r)) != NULL;
    else if (strcmp(key, "shape") == 0) good = take_shape(r, e);
    else if (strcmp(key, "data_offsets") == 0) good = take_range(r, e);
    if (!good) return bad(r, "a tensor has no dtype, shape and data_offsets as they should be");
  }
  return (e->dtype && e->has_shape && e->has_range) ||
         bad(r, "a tensor has no dtype, shape and data_offsets as they should be");
}

/* ---- tensors ---- */

typedef struct range {
  uint64_t from, to;
} range;
typedef struct fields {
  ANFI_VEC(const char *) name;
  ANFI_VEC(anf_value *) value;
  ANFI_VEC(range) range; // of a tensor's bytes
} fields;

static bool add(reader *r, fields *f, const char *name, anf_value *v) {
  anfi_defer(r->cx, ANFI_ALWAYS, anfi_release, v);
  anfi_push(r->a, &f->name, name);
  anfi_push(r->a, &f->value, v);
  return true;
}

static bool add_tensor(reader *r, const entry *e, fields *f) {
  size_t k = 0, n = 0, need;
  while (k < ANFI_LEN(kinds) && strcmp(kinds[k].name, e->dtype) != 0) k++;
  if (k == ANFI_LEN(kinds)) return anfi_fail(r->cx, anfi_nowhere(), ANF_E0341, r->file, e->dtype);
  const anf_type *t = anfi_type_checked(r->cx, kinds[k].dtype, e->rank, e->dims);
  if (!t || !anfi_type_elements(t, &n) ||
      __builtin_mul_overflow(n, anf_dtype_bytes(kinds[k].dtype), &need))
    return bad(r, "a tensor's size overflows");
  if (e->from > e->to || e->to > r->left) return bad(r, "a tensor's bytes are not in the file");
  if (e->to - e->from != need) return bad(r, "a tensor has more or fewer bytes than its shape");
  anfi_push(r->a, &f->range, ((range){e->from, e->to}));
  anf_value *v = anfi_value_new_tensor(r->cx, t);
  if (need) memcpy(v->data, r->data + e->from, need);
  for (size_t i = 0; kinds[k].dtype == ANF_BOOL && i < n; i++) v->data[i] = v->data[i] != 0;
  return add(r, f, e->name, v);
}

static int by_start(const void *a, const void *b) {
  const range *x = (const range *)a, *y = (const range *)b;
  return x->from != y->from ? (x->from > y->from) - (x->from < y->from)
                            : (x->to > y->to) - (x->to < y->to);
}

/* Each byte of the data is one tensor's, as the format has it: so a small file makes no large values. */
static bool ranges_fit(reader *r, fields *f) {
  uint64_t at = 0;
  if (f->range.n) qsort(f->range.at, f->range.n, sizeof *f->range.at, by_start);
  for (size_t i = 0; i < f->range.n; i++) {
    if (f->range.at[i].from != at)
      return bad(r, f->range.at[i].from < at ? "the bytes of tensors overlap"
                                             : "bytes between tensors are no tensor's");
    at = f->range.at[i].to;
  }
  return at == r->left || bad(r, "bytes behind the tensors are no tensor's");
}

static bool take_meta(reader *r, fields *f) {
  if (!take(r, '{')) return bad(r, "its __metadata__ is no object");
  for (bool first = true; !take(r, '}'); first = false) {
    if (!first && !take(r, ',')) return bad(r, "its header is cut off or no JSON");
    const char *key = take_string(r), *s = key && take(r, ':') ? take_string(r) : NULL;
    if (!s) return bad(r, "its __metadata__ are not all texts");
    add(r, f, key, anfi_value_new_string(r->cx, s, strlen(s)));
  }
  return true;
}

anf_value *anfi_store_record(anf_ctx *cx, const char *file, size_t n, const char *const *name,
                             anf_value *const *v) {
  anfi_strtab names;
  anfi_strtab_init(&names, anfi_scratch(cx));
  for (size_t i = 0; i < n; i++)
    if (anfi_intern_z(&names, name[i])->id != i)
      return anfi_fail(cx, anfi_nowhere(), ANF_E0350, file, name[i]), NULL;
  anf_value *r = anf_value_record(cx, n, name, v);
  if (!r) anfi_throw_nomem(cx);
  return r;
}

static anf_value *record_of(const reader *r, const fields *f) {
  return anfi_store_record(r->cx, r->file, f->name.n, f->name.at, f->value.at);
}

static bool take_header(reader *r, fields *all, fields *meta) {
  if (!take(r, '{')) return bad(r, "its header is no object");
  for (bool first = true; !take(r, '}'); first = false) {
    if (!first && !take(r, ',')) return bad(r, "its header is cut off or no JSON");
    entry e = {.name = take_string(r)};
    if (!e.name || !take(r, ':')) return bad(r, "its header is cut off or no JSON");
    bool good = strcmp(e.name, "__metadata__") == 0 ? take_meta(r, meta)
                                                    : take_entry(r, &e) && add_tensor(r, &e, all);
    if (!good) return false;
  }
  space(r);
  return r->at == r->end || bad(r, "there is something after the object of its header");
}

static void read_all(anf_ctx *cx, const char *p, size_t len, const char *file, anf_value **out,
                     anf_value **meta) {
  reader r = {.cx = cx, .a = anfi_scratch(cx), .file = file};
  fields all = {0}, texts = {0};
  uint64_t n = 0;
  for (size_t i = 8; len >= 8 && i-- > 0;) n = n << 8 | (unsigned char)p[i];
  if (len < 8 || n > MAX_HEADER || n > len - 8) {
    bad(&r, "the length of its header cannot be");
    return;
  }
  r.at = p + 8;
  r.end = r.data = r.at + n;
  r.left = len - 8 - (size_t)n;
  if (!take_header(&r, &all, &texts)) return;
  anf_value *v = record_of(&r, &all);
  if (!v) return;
  if (!ranges_fit(&r, &all)) {
    anf_value_release(v);
    return;
  }
  if (meta) {
    anfi_value_guard(v);
    *meta = record_of(&r, &texts);
    anfi_value_unguard(v);
  }
  if (anfi_failed(cx)) anf_value_release(v);
  else *out = v;
}

anf_status anf_read_safetensors(anf_ctx *cx, const void *data, size_t len, const char *file,
                                anf_diag *d, anf_value **out, anf_value **meta) {
  ANFI_NEED(d, cx, data, out);
  *out = NULL;
  if (meta) *meta = NULL;
  ANFI_ENTRY(cx, d);
  read_all(cx, (const char *)data, len, file, out, meta);
  return anfi_leave(cx);
}

static void load_one(anf_ctx *cx, const char *path, anf_value **out, anf_value **meta) {
  char *text;
  size_t len;
  if (anfi_os_read(cx, anfi_scratch(cx), path, &text, &len))
    read_all(cx, text, len, path, out, meta);
}

anf_status anfi_load_one(anf_ctx *cx, const char *path, anf_value **out, anf_value **meta) {
  ANFI_ENTRY(cx, NULL);
  load_one(cx, path, out, meta);
  return anfi_leave(cx);
}

static bool names_parts(const anf_value *meta) {
  unsigned seen = 0;
  for (size_t i = 0; i < meta->n; i++) {
    const char *name = meta->type->names[i]->s;
    seen |= (strcmp(name, "turn") == 0 ? 1U : 0) | (strcmp(name, "index") == 0 ? 2U : 0);
  }
  return seen == 3;
}

static void load(anf_ctx *cx, const char *path, anf_value **out, anf_value **meta) {
  anf_value *v = NULL, *about = NULL;
  anf_status st = anfi_load_one(cx, path, &v, &about);
  if (st != ANF_OK) {
    anfi_fail_as(cx, st);
    return;
  }
  anfi_defer(cx, ANFI_ALWAYS, anfi_release, v);
  anfi_defer(cx, ANFI_ALWAYS, anfi_release, about);
  *out = names_parts(about) ? anfi_parts_join(cx, path, v, about) : anf_value_retain(v);
  if (*out && meta) *meta = anf_value_retain(about);
}

anf_status anf_load_safetensors(anf_ctx *cx, const char *path, anf_diag *d, anf_value **out,
                                anf_value **meta) {
  ANFI_NEED(d, cx, path, out);
  *out = NULL;
  if (meta) *meta = NULL;
  ANFI_ENTRY(cx, d);
  load(cx, path, out, meta);
  return anfi_leave(cx);
}

/* ---- writing ---- */

typedef struct writer {
  anf_ctx *cx;
  anfi_arena *a;
  anf_text *head;
  ANFI_VEC(anfi_bytes)
  part;        // of the file; the first two are the length of the header and the header
  uint64_t at; // bytes of data so far
} writer;

static void put_string(anf_text *o, const char *s) {
  anfi_putc(o, '"');
  for (; *s; s++) {
    if (*s == '"' || *s == '\\') anfi_putc(o, '\\'), anfi_putc(o, *s);
    else if ((unsigned char)*s < 0x20) anfi_putf(o, "\\u%04x", (unsigned)(unsigned char)*s);
    else anfi_putc(o, *s);
  }
  anfi_putc(o, '"');
}

static bool put_tensor(writer *w, const anfi_stored *t) {
  anf_dtype d = anfi_dtype_settle((anf_dtype)t->type->dtype);
  size_t k = 0, n = 1;
  while (k < ANFI_LEN(kinds) && kinds[k].dtype != d) k++;
  if (k == ANFI_LEN(kinds) || !anfi_type_elements(t->type, &n))
    return anfi_fail(w->cx, anfi_nowhere(), ANF_E0352, t->name, anf_dtype_name(d));
  size_t bytes = n * anf_dtype_bytes(d);
  if (w->head->len > 1) anfi_putc(w->head, ',');
  put_string(w->head, t->name);
  anfi_putf(w->head, ":{\"dtype\":\"%s\",\"shape\":[", kinds[k].name);
  for (uint32_t i = 0; i < t->type->n; i++)
    anfi_putf(w->head, "%s%lld", i ? "," : "", (long long)t->type->dims[i]);
  anfi_putf(w->head, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)w->at,
            (unsigned long long)(w->at + bytes));
  w->at += bytes;
  anfi_push(w->a, &w->part, ((anfi_bytes){t->data, bytes}));
  return true;
}

typedef struct item {
  const anf_value *v;
  const char *name;
} item;
typedef ANFI_VEC(anfi_stored) tensors;

/* The tensors of a value, by path. */
static bool collect(writer *w, const anf_value *v, tensors *out) {
  ANFI_VEC(item) st = {0};
  anfi_push(w->a, &st, ((item){v, ""}));
  while (st.n) {
    item x = st.at[--st.n];
    bool record = x.v->kind == ANF_VALUE_RECORD, nest = record || x.v->kind == ANF_VALUE_TUPLE;
    if (!nest && (x.v->kind != ANF_VALUE_TENSOR || !*x.name))
      return anfi_fail(w->cx, anfi_nowhere(), ANF_E0352, *x.name ? x.name : "the value",
                       "no tensor");
    if (!nest) anfi_push(w->a, out, ((anfi_stored){x.name, x.v->type, x.v->data}));
    for (size_t i = nest ? x.v->n : 0; i-- > 0;) {
      const char *dot = *x.name ? "." : "";
      const char *name = record ? anfi_sprintf(w->a, "%s%s%s", x.name, dot, x.v->type->names[i]->s)
                                : anfi_sprintf(w->a, "%s%s%zu", x.name, dot, i);
      anfi_push(w->a, &st, ((item){x.v->u.item[i], name}));
    }
  }
  return true;
}

static void put_meta(anf_text *head, size_t n, const char *const *meta) {
  for (size_t i = 0; i < n; i++) {
    anfi_puts(head, i ? "," : "\"__metadata__\":{");
    put_string(head, meta[2 * i]);
    anfi_putc(head, ':');
    put_string(head, meta[2 * i + 1]);
  }
  if (n) anfi_putc(head, '}');
}

static writer new_writer(anf_ctx *cx) {
  return (writer){.cx = cx, .a = anfi_scratch(cx), .head = anfi_text_begin(cx)};
}

/* The header is two parts of the file. */
typedef struct fetching {
  const void *(*fetch)(void *user, size_t i);
  void *user;
} fetching;
static const void *fetch_part(void *p, size_t i) {
  const fetching *f = (const fetching *)p;
  return f->fetch(f->user, i - 2);
}

static bool write_tensors(writer *w, size_t n, const anfi_stored *t, size_t nmeta,
                          const char *const *meta, const char *path, fetching f) {
  uint8_t len[8];
  anfi_push(w->a, &w->part, ((anfi_bytes){len, sizeof len}));
  anfi_push(w->a, &w->part, (anfi_bytes){0});
  anfi_putc(w->head, '{');
  put_meta(w->head, nmeta, meta);
  for (size_t i = 0; i < n; i++)
    if (!put_tensor(w, &t[i])) return false;
  anfi_putc(w->head, '}');
  while (w->head->len % 8) anfi_putc(w->head, ' ');
  for (int i = 0; i < 8; i++) len[i] = (uint8_t)((uint64_t)w->head->len >> 8 * i & 0xff);
  w->part.at[1] = (anfi_bytes){w->head->text, w->head->len};
  anfi_part_source from = {fetch_part, &f};
  return anfi_os_write_parts_from(w->cx, path, w->part.n, w->part.at, f.fetch ? &from : NULL, true);
}

bool anfi_save_fetched(anf_ctx *cx, size_t n, const anfi_stored *t, size_t nmeta,
                       const char *const *meta, const char *path,
                       const void *(*fetch)(void *user, size_t i), void *user) {
  writer w = new_writer(cx);
  return write_tensors(&w, n, t, nmeta, meta, path, (fetching){fetch, user});
}

static void save(anf_ctx *cx, const anf_value *v, size_t nmeta, const char *const *meta,
                 const char *path) {
  writer w = new_writer(cx);
  tensors all = {0};
  if (collect(&w, v, &all))
    write_tensors(&w, all.n, all.at, nmeta, meta, path, (fetching){NULL, NULL});
}

anf_status anf_save_safetensors(anf_ctx *cx, const anf_value *v, size_t nmeta,
                                const char *const *meta, const char *path, anf_diag *d) {
  ANFI_NEED(d, cx, v, path);
  if (nmeta) ANFI_NEED(d, meta);
  ANFI_ENTRY(cx, d);
  save(cx, v, nmeta, meta, path);
  return anfi_leave(cx);
}
