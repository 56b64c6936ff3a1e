// SPDX-License-Identifier: Apache-2.0
/* NumPy's .npy: reads and writes one array.
 *   "\x93NUMPY" 1 0 | 118 | {'descr': '<f4', 'fortran_order': False, 'shape': (2,), } | 8 bytes   ->   f32[2]
 * A file is the magic, a version (1 to 3), the length of the header, the header (a Python dictionary with exactly
 * descr, fortran_order and shape) and the elements.
 * INVARIANT: nothing is allocated for elements before the file is known to hold them all. */
#include "anfora/text.h"
#include "ir/ir.h"

typedef struct {
  const char *descr;
  anf_dtype dtype;
} form;
/* Element types in descr, behind the byte order. */
static const form forms[] = {
    {"b1", ANF_BOOL}, {"i1", ANF_I8},  {"i2", ANF_I16}, {"i4", ANF_I32},   {"i8", ANF_I64},
    {"u1", ANF_U8},   {"u2", ANF_U16}, {"u4", ANF_U32}, {"u8", ANF_U64},   {"f2", ANF_F16},
    {"f4", ANF_F32},  {"f8", ANF_F64}, {"c8", ANF_C64}, {"c16", ANF_C128},
};

typedef struct {
  /* text */
  anf_ctx *cx;
  const char *file;
  const char *at, *end; // of the header
  /* keys */
  const char *descr; // NULL: not seen
  int order;         // 1: Fortran, 0: C, -1: not seen
  size_t rank;
  bool has_shape;
  int64_t dims[ANF_MAX_RANK];
} header;

static bool bad(header *h, const char *why) {
  return anfi_fail(h->cx, anfi_nowhere(), ANF_E0340, h->file, why);
}

static bool bad_shape(header *h, const char *why) {
  return anfi_fail(h->cx, anfi_nowhere(), ANF_E0343, h->file, why);
}

/* ---- the header ---- */

static void skip_space(header *h) {
  while (h->at < h->end && (*h->at == ' ' || *h->at == '\n' || *h->at == '\t' || *h->at == '\r'))
    h->at++;
}

static bool take(header *h, char c) {
  skip_space(h);
  if (h->at == h->end || *h->at != c) return false;
  h->at++;
  return true;
}

static bool take_word(header *h, const char *word) {
  size_t n = strlen(word);
  skip_space(h);
  if ((size_t)(h->end - h->at) < n || memcmp(h->at, word, n) != 0) return false;
  h->at += n;
  return true;
}

/* A string between quotes, without escapes: NumPy writes none in headers. */
static const char *take_string(header *h) {
  skip_space(h);
  if (h->at == h->end || (*h->at != '\'' && *h->at != '"')) return NULL;
  char quote = *h->at++;
  const char *close = (const char *)memchr(h->at, quote, (size_t)(h->end - h->at));
  if (!close) return NULL;
  char *s = anfi_strndup(anfi_scratch(h->cx), h->at, (size_t)(close - h->at));
  h->at = close + 1;
  return s;
}

static bool read_dim(header *h, int64_t *out) {
  int64_t v = 0;
  const char *start = h->at;
  for (; h->at < h->end && *h->at >= '0' && *h->at <= '9'; h->at++)
    if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *h->at - '0', &v))
      return bad_shape(h, "a dim does not fit 63 bits");
  if (h->at == start) return bad_shape(h, "a dim must be a natural number");
  if (h->at < h->end && *h->at == 'L') h->at++; // Python 2 wrote so
  *out = v;
  return true;
}

static bool read_shape(header *h) {
  if (!take(h, '(')) return bad(h, "its shape is not a tuple");
  for (h->rank = 0; !take(h, ')'); h->rank++) {
    if (h->rank && !take(h, ',')) return bad(h, "its shape is not a tuple");
    if (take(h, ')')) break; // (3,)
    if (h->rank == ANF_MAX_RANK) return bad_shape(h, "it has more than 16 dims");
    if (!read_dim(h, &h->dims[h->rank])) return false;
  }
  return h->has_shape = true;
}

static bool read_entry(header *h) {
  const char *key = take_string(h);
  if (!key || !take(h, ':')) return bad(h, "its header is not a dictionary");
  if (strcmp(key, "descr") == 0 && !h->descr) {
    skip_space(h);
    if (h->at < h->end && (*h->at == '[' || *h->at == '('))
      return anfi_fail(h->cx, anfi_nowhere(), ANF_E0341, h->file, "record");
    return (h->descr = take_string(h)) || bad(h, "its descr is not a string");
  }
  if (strcmp(key, "shape") == 0 && !h->has_shape) return read_shape(h);
  if (strcmp(key, "fortran_order") == 0 && h->order < 0) {
    h->order = take_word(h, "True") ? 1 : take_word(h, "False") ? 0 : -1;
    return h->order >= 0 || bad(h, "its fortran_order is neither True nor False");
  }
  return bad(h, "its header has an entry that is not known, or one twice");
}

static bool read_header(header *h) {
  if (!take(h, '{')) return bad(h, "its header is not a dictionary");
  while (!take(h, '}')) {
    if (!read_entry(h)) return false;
    if (!take(h, ',') && (h->at == h->end || *h->at != '}'))
      return bad(h, "its header is not a dictionary");
  }
  skip_space(h);
  if (h->at != h->end) return bad(h, "there is something after the dictionary of its header");
  if (!h->descr || !h->has_shape || h->order < 0)
    return bad(h, "its header lacks descr, shape or fortran_order");
  return true;
}

/* Finds the header and the data in the file. */
static bool split(header *h, const char *text, size_t len, const char **data, size_t *left) {
  const unsigned char *p = (const unsigned char *)text;
  if (len < 10 || memcmp(p, "\x93NUMPY", 6) != 0)
    return bad(h, "it does not begin with \\x93NUMPY");
  if (p[6] < 1 || p[6] > 3) return bad(h, "its version is not 1, 2 or 3");
  size_t start = p[6] == 1 ? 10 : 12, n = (size_t)p[8] | (size_t)p[9] << 8;
  if (len < start) return bad(h, "its header is cut off");
  if (start == 12) n |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
  if (n > len - start) return bad(h, "its header is cut off");
  h->at = text + start;
  h->end = h->at + n;
  *data = h->end;
  *left = len - start - n;
  return true;
}

/* ---- the elements ---- */

static bool is_big_endian(void) {
  const uint16_t one = 1;
  uint8_t first;
  memcpy(&first, &one, 1);
  return first == 0;
}

static bool find_form(header *h, anf_dtype *dtype, bool *swap) {
  const char *s = h->descr;
  bool known = s[0] && strchr("<>|=", s[0]);
  for (size_t i = 0; known && i < ANFI_LEN(forms); i++) {
    if (strcmp(s + 1, forms[i].descr) != 0) continue;
    *dtype = forms[i].dtype;
    *swap = (s[0] == '<' && is_big_endian()) || (s[0] == '>' && !is_big_endian());
    return true;
  }
  return anfi_fail(h->cx, anfi_nowhere(), ANF_E0341, h->file, s);
}

/* Reverses the bytes of each of n words. */
static void swap_bytes(unsigned char *p, size_t n, size_t word) {
  for (size_t i = 0; i < n; i++, p += word)
    for (size_t k = 0; k < word / 2; k++) {
      unsigned char t = p[k];
      p[k] = p[word - 1 - k];
      p[word - 1 - k] = t;
    }
}

/* Copies elements in Fortran order to C order: an odometer over C order that knows the other
 * offset. */
static void copy_fortran(const header *h, unsigned char *to, const char *from, size_t n,
                         size_t size) {
  size_t at[ANF_MAX_RANK] = {0}, stride[ANF_MAX_RANK], offset = 0, step = 1;
  for (size_t i = 0; i < h->rank; i++) stride[i] = step, step *= (size_t)h->dims[i];
  for (size_t i = 0; i < n; i++, to += size) {
    memcpy(to, from + offset * size, size);
    for (size_t k = h->rank; k-- > 0;) {
      offset += stride[k];
      if (++at[k] < (size_t)h->dims[k]) break;
      offset -= stride[k] * at[k];
      at[k] = 0;
    }
  }
}

static size_t word_bytes(anf_dtype d) { // what the byte order is about: a part of a complex number
  return d == ANF_C64 || d == ANF_C128 ? anf_dtype_bytes(d) / 2 : anf_dtype_bytes(d);
}

static anf_value *make(header *h, anf_dtype dtype, bool swap, const char *data, size_t left) {
  const anf_type *t = anfi_type_checked(h->cx, dtype, h->rank, h->dims);
  size_t n = 0, size = anf_dtype_bytes(dtype), need;
  if (!t || !anfi_type_elements(t, &n) || __builtin_mul_overflow(n, size, &need))
    return bad_shape(h, "its size overflows"), NULL;
  if (need > left) return anfi_fail(h->cx, anfi_nowhere(), ANF_E0342, h->file, left, need), NULL;
  if (need < left) return bad(h, "there is something after its data"), NULL;
  anf_value *v = anfi_value_new_tensor(h->cx, t);
  if (h->order == 1 && h->rank > 1) copy_fortran(h, v->data, data, n, size);
  else if (need) memcpy(v->data, data, need);
  if (swap) swap_bytes(v->data, need / word_bytes(dtype), word_bytes(dtype));
  for (size_t i = 0; dtype == ANF_BOOL && i < n; i++) v->data[i] = v->data[i] != 0;
  return v;
}

static anf_value *read_array(anf_ctx *cx, const char *text, size_t len, const char *file) {
  header h = {.cx = cx, .file = file, .order = -1};
  const char *data = NULL;
  size_t left = 0;
  anf_dtype dtype = ANF_BOOL;
  bool swap = false;
  if (!split(&h, text, len, &data, &left) || !read_header(&h) || !find_form(&h, &dtype, &swap))
    return NULL;
  return make(&h, dtype, swap, data, left);
}

anf_status anf_read_npy(anf_ctx *cx, const void *data, size_t len, const char *file, anf_diag *d,
                        anf_value **out) {
  ANFI_NEED(d, cx, data, out);
  ANFI_ENTRY(cx, d);
  *out = read_array(cx, (const char *)data, len, file);
  return anfi_leave(cx);
}

static anf_value *load(anf_ctx *cx, const char *path) {
  char *text;
  size_t len;
  if (!anfi_os_read(cx, anfi_scratch(cx), path, &text, &len)) return NULL;
  return read_array(cx, text, len, path);
}

anf_status anf_load_npy(anf_ctx *cx, const char *path, anf_diag *d, anf_value **out) {
  ANFI_NEED(d, cx, path, out);
  ANFI_ENTRY(cx, d);
  *out = load(cx, path);
  return anfi_leave(cx);
}

/* ---- writing ---- */

static const char *form_of(anf_dtype d) {
  d = anfi_dtype_settle(d);
  for (size_t i = 0; i < ANFI_LEN(forms); i++)
    if (forms[i].dtype == d) return forms[i].descr;
  return NULL;
}

/* The header is padded so that the data is aligned to 64 bytes, as NumPy does. */
static void put_header(anf_text *t, const anf_value *v, const char *descr) {
  size_t rank = anf_value_rank(v);
  char order = anf_dtype_bytes(anf_value_dtype(v)) == 1 ? '|' : is_big_endian() ? '>' : '<';
  anfi_put(t, "\x93NUMPY\x01\x00\x00\x00", 10);
  anfi_putf(t, "{'descr': '%c%s', 'fortran_order': False, 'shape': (", order, descr);
  for (size_t i = 0; i < rank; i++) {
    anfi_puts(t, i ? ", " : "");
    anfi_put_i64(t, anf_value_dim(v, i));
  }
  anfi_puts(t, rank == 1 ? ",), }" : "), }");
  while (t->len % 64 != 63) anfi_putc(t, ' ');
  anfi_putc(t, '\n');
  size_t n = t->len - 10;
  t->text[8] = (char)(n & 0xff);
  t->text[9] = (char)(n >> 8);
}

static bool save(anf_ctx *cx, const anf_value *v, const char *path) {
  if (v->kind != ANF_VALUE_TENSOR)
    return anfi_fail(cx, anfi_nowhere(), ANF_E0344, "that is no number");
  const char *descr = form_of(anf_value_dtype(v));
  if (!descr) return anfi_fail(cx, anfi_nowhere(), ANF_E0344, anf_dtype_name(anf_value_dtype(v)));
  anf_text *t = ANFI_NEW(anfi_scratch(cx), anf_text);
  t->cx = cx;
  anfi_defer(cx, ANFI_ALWAYS, anfi_free_text, t);
  put_header(t, v, descr);
  anfi_put(t, (const char *)v->data, v->n * anf_dtype_bytes(anf_value_dtype(v)));
  return anfi_os_write(cx, path, t->text, t->len);
}

anf_status anf_save_npy(anf_ctx *cx, const anf_value *v, const char *path, anf_diag *d) {
  ANFI_NEED(d, cx, v, path);
  ANFI_ENTRY(cx, d);
  save(cx, v, path);
  return anfi_leave(cx);
}
