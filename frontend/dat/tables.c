// SPDX-License-Identifier: Apache-2.0
/* The tables of a .dat file that nodes refer to: strings, types, constants.
 *   types: tensor f32 1 2   ->   0: f32[2]          constants: tensor 0 3f80000040000000   ->   [1, 2] of type 0
 * INVARIANT: an id is checked against its table before it is used, and tables refer backwards only, so types and
 * values are finite whatever the file says. Parts may be shared, so that a short file could say a type or value of
 * astronomic size; none is read that has more parts than the file has bytes. */
#include "frontend/dat/dat.h"

/* ---- references ---- */

bool anfi_dat_string_ref(anfi_reader *r, const anfi_str **out) {
  uint32_t id;
  if (!SPACE(r) || !OPT(r, "string", r->nstring, &id)) return false;
  *out = id == UINT32_MAX ? NULL : r->strings[id];
  return true;
}

/* A string that outlives the module. */
static bool text_ref(anfi_reader *r, const anfi_str **out) {
  uint32_t id;
  if (!ID(r, "text", r->nstring, &id)) return false;
  if (id < r->nown) return anfi_scan_wrong(&r->s, "a type takes a name from the module");
  *out = r->strings[id];
  return true;
}

bool anfi_dat_type_ref(anfi_reader *r, const anf_type **out) {
  uint32_t id;
  if (!SPACE(r) || !OPT(r, "type", r->ntype, &id)) return false;
  *out = id == UINT32_MAX ? NULL : r->types[id];
  if (*out) r->parts += r->type_parts[id];
  return true;
}

static bool need_type_ref(anfi_reader *r, const anf_type **out) {
  return anfi_dat_type_ref(r, out) && (*out || anfi_scan_expected(&r->s, "a type"));
}

bool anfi_dat_attrs_ref(anfi_reader *r, anfi_opcode op, const anfi_attrs **out) {
  uint32_t id;
  *out = NULL;
  if (!SPACE(r) || !OPT(r, "constant", r->nentry, &id)) return false;
  if (id == UINT32_MAX) return true;
  *out = r->entries[id].attrs;
  r->parts += r->entries[id].parts;
  if (*out && r->entries[id].op == op) return true;
  return anfi_scan_wrong(&r->s, "attributes of another op");
}

bool anfi_dat_value_ref(anfi_reader *r, anf_value **out) {
  uint32_t id;
  if (!SPACE(r) || !ID(r, "constant", r->nentry, &id)) return false;
  *out = r->entries[id].value;
  r->parts += r->entries[id].parts;
  return *out || anfi_scan_wrong(&r->s, "a record of attributes where a value should be");
}

bool anfi_dat_op(anfi_reader *r, anfi_opcode *op) {
  const char *word;
  size_t len;
  if (!SPACE(r) || !anfi_scan_word(&r->s, &word, &len)) return false;
  *op = anfi_op_find(r->cx, word, len);
  if (*op != ANF_OP_NONE) return true;
  char name[64];
  snprintf(name, sizeof name, "%.*s", (int)(len < 60 ? len : 60), word);
  return anfi_fail(r->cx, anfi_nowhere(), ANF_E0201, name);
}

/* The end of a line that makes a type or constant of the parts that were counted since `parts`
 * was 1. */
static bool end_line(anfi_reader *r, uint64_t *parts) {
  *parts = r->parts;
  r->parts = 1;
  if (*parts > r->max_parts)
    return anfi_scan_wrong(&r->s, "a constant or type is larger than the file");
  return EOL(r);
}

static bool is_word(const char *word, size_t len, const char *is) {
  return strlen(is) == len && memcmp(word, is, len) == 0;
}

/* ---- strings ---- */

bool anfi_dat_strings(anfi_reader *r) {
  size_t nown, ntext;
  if (!anfi_scan_section(&r->s, "strings", &nown)) return false;
  for (size_t i = 0; i < nown; i++) {
    r->buf->len = 0;
    if (!anfi_scan_string(&r->s, r->buf) || !EOL(r)) return false;
    if (anfi_intern(&r->m->strings, r->buf->text ? r->buf->text : "", r->buf->len)->id != i)
      return anfi_scan_wrong(&r->s, "the same string twice");
  }
  if (!anfi_scan_section(&r->s, "texts", &ntext)) return false;
  r->nown = nown;
  r->strings = ANFI_NEW_N(r->a, const anfi_str *, nown + ntext);
  for (; r->nstring < nown; r->nstring++) r->strings[r->nstring] = r->m->strings.all.at[r->nstring];
  for (size_t i = 0; i < ntext; i++) {
    r->buf->len = 0;
    if (!anfi_scan_string(&r->s, r->buf) || !EOL(r)) return false;
    r->strings[r->nstring++] =
        anfi_intern(&r->cx->strings, r->buf->text ? r->buf->text : "", r->buf->len);
  }
  return true;
}

/* ---- types ---- */

static bool read_dim(anfi_reader *r, int64_t *dim) {
  uint64_t v;
  const anfi_str *name = NULL;
  if (!SPACE(r)) return false;
  if (anfi_scan_skip(&r->s, '?')) {
    *dim = ANF_DIM_UNKNOWN;
    return true;
  }
  if (anfi_scan_skip(&r->s, '$')) {
    if (!text_ref(r, &name)) return false;
    *dim = anfi_dim_symbol(r->cx, name);
    return true;
  }
  if (!anfi_scan_num(&r->s, &v)) return false;
  *dim = v > INT64_MAX ? INT64_MAX : (int64_t)v; // too big a size is refused with the type
  return true;
}

static bool read_tensor_type(anfi_reader *r, const anf_type **out) {
  const char *word;
  size_t len, rank;
  anf_dtype d;
  int64_t dims[ANF_MAX_RANK];
  if (!SPACE(r) || !anfi_scan_word(&r->s, &word, &len)) return false;
  if (!anfi_dtype_parse(word, len, &d)) return anfi_scan_expected(&r->s, "an element type");
  if (!SPACE(r) || !anfi_scan_count(&r->s, "dims", &rank)) return false;
  if (rank > ANF_MAX_RANK) return anfi_scan_expected(&r->s, "a rank of at most 16");
  for (size_t i = 0; i < rank; i++)
    if (!read_dim(r, &dims[i])) return false;
  *out = anfi_type_checked(r->cx, d, rank, dims);
  return *out || anfi_scan_expected(&r->s, "dims whose product is a size");
}

/* pattern number; pattern ranks f32 */
static bool read_pattern(anfi_reader *r, const anf_type **out) {
  const char *word;
  size_t len;
  anf_dtype d = (anf_dtype)0;
  anf_pattern p = ANF_PATTERN_RANKS;
  if (!SPACE(r) || !anfi_scan_word(&r->s, &word, &len)) return false;
  if (is_word(word, len, "ranks")) {
    if (!SPACE(r) || !anfi_scan_word(&r->s, &word, &len)) return false;
    if (!anfi_dtype_parse(word, len, &d)) return anfi_scan_expected(&r->s, "an element type");
  } else if (!anfi_pattern_parse(anfi_strndup(r->a, word, len), &p) || p == ANF_PATTERN_ANY) {
    return anfi_scan_expected(&r->s, "a pattern: number, tensor, tuple, record or ranks");
  }
  *out = anfi_type_pattern(r->cx, p, d);
  return true;
}

static bool names_differ(anfi_reader *r, size_t n, const anfi_str *const *names) {
  anfi_map seen;
  anfi_map_init(&seen, r->a);
  for (size_t i = 0; i < n; i++) {
    uint64_t *at = anfi_map_at(&seen, names[i]->id);
    if (*at) return anfi_scan_wrong(&r->s, "a record type with the same field twice");
    *at = 1;
  }
  return true;
}

static bool read_compound_type(anfi_reader *r, anf_type_kind kind, const anf_type **out) {
  size_t n;
  const anf_type *result = NULL;
  if (!SPACE(r) || !anfi_scan_count(&r->s, "parts", &n)) return false;
  const anf_type **items = ANFI_NEW_N(r->a, const anf_type *, n);
  const anfi_str **names = kind == ANF_TYPE_RECORD ? ANFI_NEW_N(r->a, const anfi_str *, n) : NULL;
  for (size_t i = 0; i < n; i++) {
    if (names && (!SPACE(r) || !text_ref(r, &names[i]))) return false;
    if (!need_type_ref(r, &items[i])) return false;
  }
  if (kind == ANF_TYPE_FN && !need_type_ref(r, &result)) return false;
  if (names && !names_differ(r, n, names)) return false;
  *out = kind == ANF_TYPE_TUPLE    ? anfi_type_tuple(r->cx, n, items)
         : kind == ANF_TYPE_RECORD ? anfi_type_record(r->cx, n, names, items)
                                   : anfi_type_fn(r->cx, n, items, result);
  return true;
}

static bool read_type(anfi_reader *r, const anf_type **out) {
  static const struct {
    const char *word;
    anf_type_kind kind;
  } kinds[] = {{"tuple", ANF_TYPE_TUPLE}, {"record", ANF_TYPE_RECORD}, {"fn", ANF_TYPE_FN},
               {"none", ANF_TYPE_NONE},   {"string", ANF_TYPE_STRING}, {"type", ANF_TYPE_TYPE},
               {"box", ANF_TYPE_BOX},     {"stack", ANF_TYPE_STACK},   {"any", ANF_TYPE_ANY}};
  const char *word;
  size_t len;
  if (!anfi_scan_word(&r->s, &word, &len)) return false;
  if (is_word(word, len, "tensor")) return read_tensor_type(r, out);
  if (is_word(word, len, "pattern")) return read_pattern(r, out);
  for (size_t i = 0; i < ANFI_LEN(kinds); i++) {
    if (!is_word(word, len, kinds[i].word)) continue;
    if (kinds[i].kind <= ANF_TYPE_FN) return read_compound_type(r, kinds[i].kind, out);
    *out = anfi_type_simple(r->cx, kinds[i].kind);
    return true;
  }
  r->s.at = word;
  return anfi_scan_expected(&r->s, "a kind of type");
}

bool anfi_dat_types(anfi_reader *r) {
  size_t n;
  if (!anfi_scan_section(&r->s, "types", &n)) return false;
  r->types = ANFI_NEW_N(r->a, const anf_type *, n);
  r->type_parts = ANFI_NEW_N(r->a, uint64_t, n);
  r->parts = 1;
  for (; r->ntype < n; r->ntype++)
    if (!read_type(r, &r->types[r->ntype]) || !end_line(r, &r->type_parts[r->ntype])) return false;
  return true;
}

/* ---- constants ---- */

static bool read_number(anfi_reader *r, size_t bytes, void *to) {
  uint64_t x = 0;
  for (size_t k = 0; k < 2 * bytes; k++, r->s.at++) {
    int d = anfi_dat_hex(*r->s.at);
    if (d < 0) return anfi_scan_expected(&r->s, "a digit of 0-9 a-f");
    x = x << 4 | (uint64_t)d;
  }
  if (bytes == 1) *(uint8_t *)to = (uint8_t)x;
  else if (bytes == 2) *(uint16_t *)to = (uint16_t)x;
  else if (bytes == 4) *(uint32_t *)to = (uint32_t)x;
  else *(uint64_t *)to = x;
  return true;
}

static bool read_elements(anfi_reader *r, anf_value *v) {
  anf_dtype d = (anf_dtype)v->type->dtype;
  size_t bytes = anf_dtype_bytes(d), n = v->n;
  if (anfi_dtype_class(d) == ANFI_CLASS_COMPLEX) bytes /= 2, n *= 2;
  for (size_t i = 0; i < n; i++)
    if (!read_number(r, bytes, v->data + i * bytes)) return false;
  for (size_t i = 0; d == ANF_BOOL && i < n; i++)
    if (v->data[i] > 1) return anfi_scan_wrong(&r->s, "a bool that is neither 0 nor 1");
  return true;
}

/* The value is the module's before it is filled, so that it is freed whatever happens. */
static anf_value *held(anfi_reader *r, anf_value *v) {
  anfi_hold(r->m, v);
  return v;
}

static bool read_tensor(anfi_reader *r, anf_value **out) {
  const anf_type *t;
  size_t n;
  if (!need_type_ref(r, &t) || !SPACE(r)) return false;
  if (t->kind != ANF_TYPE_TENSOR || !anfi_type_elements(t, &n))
    return anfi_scan_wrong(&r->s, "a tensor of a type that is not one of known dims");
  size_t left = (size_t)(r->s.end - r->s.at), digits = n * 2 * anf_dtype_bytes((anf_dtype)t->dtype);
  if (digits > left)
    return anfi_scan_expected(&r->s, "as many digits as the type has elements for");
  if (!n && !anfi_scan_skip(&r->s, '-')) return anfi_scan_expected(&r->s, "'-' for no elements");
  *out = held(r, anfi_value_new_tensor(r->cx, t));
  return read_elements(r, *out);
}

static bool read_items(anfi_reader *r, size_t n, anf_value **items) {
  for (size_t i = 0; i < n; i++) {
    anf_value *v;
    if (!anfi_dat_value_ref(r, &v)) return false;
    items[i] = anf_value_retain(v);
  }
  return true;
}

static bool read_tuple(anfi_reader *r, anf_value **out) {
  size_t n;
  if (!SPACE(r) || !anfi_scan_count(&r->s, "items", &n)) return false;
  *out = held(r, anfi_value_new_tuple(r->cx, n));
  return read_items(r, n, (*out)->u.item);
}

static bool read_record(anfi_reader *r, anf_value **out) {
  const anf_type *t;
  if (!need_type_ref(r, &t)) return false;
  if (t->kind != ANF_TYPE_RECORD)
    return anfi_scan_wrong(&r->s, "a record of a type that is not a record's");
  if (t->n > (size_t)(r->s.end - r->s.at) / 2)
    return anfi_scan_expected(&r->s, "an item for each field");
  *out = held(r, anfi_value_new_record(r->cx, t));
  return read_items(r, t->n, (*out)->u.item);
}

static bool read_fn(anfi_reader *r, bool graph, size_t ngraph, anf_value **out) {
  size_t ncapture, nbound;
  uint32_t g = 0;
  anfi_opcode op = ANF_OP_NONE;
  const anfi_attrs *attrs = NULL;
  if (graph) {
    if (!SPACE(r) || !ID(r, "graph", ngraph, &g)) return false;
    if (!r->m->graphs.at[g]) return anfi_scan_none(&r->s, "graph", g);
  } else if (!anfi_dat_op(r, &op) || !anfi_dat_attrs_ref(r, op, &attrs)) return false;
  if (!SPACE(r) || !anfi_scan_count(&r->s, "captures", &ncapture)) return false;
  if (!SPACE(r) || !anfi_scan_count(&r->s, "bound arguments", &nbound)) return false;
  *out = held(r, anfi_value_new_fn(r->cx, graph ? r->m->graphs.at[g] : NULL, (uint16_t)op, attrs,
                                   (uint32_t)ncapture, (uint32_t)nbound));
  return read_items(r, ncapture + nbound, anfi_value_fn(*out)->at);
}

static bool read_attr(anfi_reader *r, anfi_opcode op, anfi_attrs *at, uint32_t *next) {
  const anfi_schema *s = anfi_op_schema(r->cx, op);
  const char *word;
  size_t len;
  if (!anfi_scan_word(&r->s, &word, &len)) return false;
  while (*next < s->nattr && !is_word(word, len, s->attr[*next].name->s)) ++*next;
  if (*next == s->nattr)
    return anfi_scan_expected(&r->s, "an attribute of the op, in the op's order");
  uint32_t k = (*next)++;
  const char *before = r->s.at;
  if (!SPACE(r)) return false;
  if (anfi_scan_skip(&r->s, '@')) {
    at->at[k] = &anfi_from_node;
    return true;
  }
  r->s.at = before;
  return anfi_dat_value_ref(r, &at->at[k]) &&
         anfi_attr_check(r->cx, op, k, at->at[k], anfi_nowhere());
}

static bool read_attrs(anfi_reader *r, anfi_dat_entry *e) {
  anfi_opcode op;
  uint32_t next = 0;
  if (!anfi_dat_op(r, &op)) return false;
  const anfi_schema *s = anfi_op_schema(r->cx, op);
  anfi_attrs *at =
      (anfi_attrs *)anfi_zalloc(&r->m->arena, sizeof *at + s->nattr * sizeof(anf_value *));
  at->n = s->nattr;
  while (anfi_scan_skip(&r->s, ' '))
    if (!read_attr(r, op, at, &next)) return false;
  for (uint32_t k = 0; k < s->nattr; k++)
    if (!at->at[k] && !s->attr[k].initial)
      return anfi_scan_wrong(&r->s, "attributes without one that is needed");
  e->op = op;
  e->attrs = at;
  return true;
}

static bool read_entry(anfi_reader *r, size_t ngraph, anfi_dat_entry *e) {
  const char *word;
  size_t len;
  const anf_type *t;
  if (!anfi_scan_word(&r->s, &word, &len)) return false;
  if (is_word(word, len, "tensor")) return read_tensor(r, &e->value);
  if (is_word(word, len, "tuple")) return read_tuple(r, &e->value);
  if (is_word(word, len, "record")) return read_record(r, &e->value);
  if (is_word(word, len, "attrs")) return read_attrs(r, e);
  if (is_word(word, len, "graph")) return read_fn(r, true, ngraph, &e->value);
  if (is_word(word, len, "op")) return read_fn(r, false, ngraph, &e->value);
  if (is_word(word, len, "none")) {
    e->value = held(r, anfi_value_new_none(r->cx));
    return true;
  }
  if (is_word(word, len, "type")) {
    if (!need_type_ref(r, &t)) return false;
    e->value = held(r, anfi_value_new_type(r->cx, t));
    return true;
  }
  if (is_word(word, len, "string")) {
    r->buf->len = 0;
    if (!SPACE(r) || !anfi_scan_string(&r->s, r->buf)) return false;
    e->value = held(r, anfi_value_new_string(r->cx, r->buf->text ? r->buf->text : "", r->buf->len));
    return true;
  }
  r->s.at = word;
  return anfi_scan_expected(&r->s, "a kind of constant");
}

bool anfi_dat_constants(anfi_reader *r) {
  size_t n;
  if (!anfi_scan_section(&r->s, "constants", &n)) return false;
  r->entries = ANFI_NEW_N(r->a, anfi_dat_entry, n);
  r->parts = 1;
  for (; r->nentry < n; r->nentry++) {
    anfi_dat_entry *e = &r->entries[r->nentry];
    if (!read_entry(r, r->m->graphs.n, e) || !end_line(r, &e->parts)) return false;
  }
  return true;
}
