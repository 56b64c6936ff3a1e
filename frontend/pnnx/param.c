// SPDX-License-Identifier: Apache-2.0
/* PNNX's .param text: a magic number, two counts, an operator a line:
 *   type name nin nout in.. out.. key=value.. @weight=(dims)type $key=operand #operand=(dims)type
 * INVARIANT: what anfi_param_read accepts, anfi_param_write gives back byte by byte if pnnx wrote
 * it. Operands are defined before they are used, so the order of the file is a topological one. */
#include "frontend/pnnx/pnnx.h"

typedef struct {
  /* text */
  anf_pnnx *p;
  anfi_arena *a;
  const char *line, *at, *end; // of the line
  const char *text_end;
  uint32_t lineno;
  const char *counted; // columns of the line are known up to here
  uint32_t col;
  /* operators */
  anf_pnnx_op *op;
  anfi_map op_names;
  ANFI_VEC(uint64_t) own; // by operand: number of the last operator that has it, and where
} reader;

/* A word of the line. */
typedef struct {
  const char *s;
  size_t n;
} word;

static anfi_loc place(const reader *r, const char *at) {
  uint32_t col = 1;
  for (const char *s = r->line; s < at; s++) col += ((unsigned char)*s & 0xc0) != 0x80;
  return (anfi_loc){r->p->file, r->lineno, col};
}

/* The column of a place after the one that was asked for before. */
static uint32_t column(reader *r, const char *at) {
  if (r->counted > at) r->counted = r->line, r->col = 1;
  for (; r->counted < at; r->counted++) r->col += ((unsigned char)*r->counted & 0xc0) != 0x80;
  return r->col;
}

static const char *shown(const reader *r, word w) {
  if (!w.n) return "the end of the line";
  return anfi_sprintf(r->a, "'%.*s%s'", (int)(w.n > 40 ? 40 : w.n), w.s, w.n > 40 ? "..." : "");
}

static bool expected(const reader *r, word w, const char *what) {
  return anfi_fail(r->p->cx, place(r, w.s), ANF_E1031, what, shown(r, w));
}

static char *keep(const reader *r, const char *s, size_t n) {
  return anfi_strndup(&r->p->arena, s, n);
}

/* ---- lines and words ---- */

static bool next_line(reader *r) {
  if (r->lineno && r->end == r->text_end) return false;
  r->line = r->lineno ? r->end + 1 : r->at;
  r->lineno++;
  const char *nl = (const char *)memchr(r->line, '\n', (size_t)(r->text_end - r->line));
  r->end = nl ? nl : r->text_end;
  r->at = r->counted = r->line;
  r->col = 1;
  return true;
}

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

static word next_word(reader *r) {
  while (r->at < r->end && is_blank(*r->at)) r->at++;
  word w = {r->at, 0};
  while (r->at < r->end && !is_blank(*r->at)) r->at++;
  w.n = (size_t)(r->at - w.s);
  return w;
}

static bool parse_u64(const char *s, size_t n, uint64_t *out) {
  *out = 0;
  for (size_t i = 0; i < n; i++)
    if (s[i] < '0' || s[i] > '9' || __builtin_mul_overflow(*out, 10u, out) ||
        __builtin_add_overflow(*out, (uint64_t)(s[i] - '0'), out))
      return false;
  return n > 0;
}

static bool count(reader *r, const char *what, uint64_t *out) {
  word w = next_word(r);
  return parse_u64(w.s, w.n, out) || expected(r, w, what);
}

static bool end_of_line(reader *r) {
  word w = next_word(r);
  return !w.n || expected(r, w, "the end of the line");
}

/* ---- values of parameters ---- */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool starts_number(const char *s, size_t n) {
  return n && (is_digit(s[0]) || (s[0] == '-' && n > 1 && is_digit(s[1])));
}

static bool bad_value(const reader *r, const char *s, size_t n, const char *why) {
  return anfi_fail(r->p->cx, place(r, s), ANF_E1036, shown(r, (word){s, n}), why);
}

static bool integer(const reader *r, const char *s, size_t n, anfi_item *it) {
  bool minus = *s == '-';
  it->kind = ANFI_ITEM_INT;
  for (size_t i = minus; i < n; i++) {
    if (!is_digit(s[i])) return it->kind = ANFI_ITEM_STRING, true; // 3x3
    if (__builtin_mul_overflow(it->i, 10, &it->i) ||
        __builtin_add_overflow(it->i, minus ? '0' - s[i] : s[i] - '0', &it->i))
      return bad_value(r, s, n, "does not fit 64 bits");
  }
  return true;
}

/* A real number, or a complex one as pnnx writes it: 2.000000e+00+-3.000000e+00j. */
static bool real(const reader *r, const char *s, size_t n, anfi_item *it) {
  char *end;
  it->re = anfi_read_f64(it->s, &end);
  it->kind = ANFI_ITEM_REAL;
  if (*end && end[strlen(end) - 1] == 'j') {
    it->im = anfi_read_f64(end + (*end == '+'), &end);
    it->kind = ANFI_ITEM_COMPLEX;
    end += *end == 'j';
  }
  if (*end) it->kind = ANFI_ITEM_STRING;
  else if (it->re - it->re != 0 || it->im - it->im != 0)
    return bad_value(r, s, n, "is above the greatest double");
  return true;
}

static bool item(const reader *r, const char *s, size_t n, anfi_item *it) {
  *it = (anfi_item){.kind = ANFI_ITEM_STRING, .s = keep(r, s, n)};
  if (strcmp(it->s, "None") == 0) it->kind = ANFI_ITEM_NONE;
  else if (strcmp(it->s, "True") == 0 || strcmp(it->s, "False") == 0)
    it->kind = ANFI_ITEM_BOOL, it->i = *s == 'T';
  else if (starts_number(s, n) && !memchr(s, '%', n)) {
    if (memchr(s, '.', n) || memchr(s, 'e', n) || memchr(s, 'j', n)) return real(r, s, n, it);
    return integer(r, s, n, it);
  }
  return true;
}

static bool is_list(const char *s, size_t n) {
  if (n < 2 || memchr(s, '%', n)) return false;
  return (s[0] == '(' && s[n - 1] == ')') || (s[0] == '[' && s[n - 1] == ']');
}

static bool values(const reader *r, anfi_parameter *p, const char *s, size_t n) {
  ANFI_VEC(anfi_item) items = {0};
  anfi_item it;
  p->list = strcmp(p->key, "expr") != 0 && is_list(s, n);
  if (strcmp(p->key, "expr") == 0) it = (anfi_item){.kind = ANFI_ITEM_STRING, .s = p->text};
  else if (!p->list && !item(r, s, n, &it)) return false;
  if (!p->list) anfi_push(&r->p->arena, &items, it);
  for (const char *at = s + 1, *end = s + n - 1; p->list && at < end;) {
    const char *comma = (const char *)memchr(at, ',', (size_t)(end - at));
    if (!comma) comma = end;
    if (!item(r, at, (size_t)(comma - at), &it)) return false;
    anfi_push(&r->p->arena, &items, it);
    at = comma + 1;
  }
  p->item = items.at;
  p->n = items.n;
  return true;
}

/* ---- shapes ---- */

static const struct {
  const char *name;
  anf_dtype dtype; // ANF_DTYPE_COUNT: not an element type of ours
} dtypes[] = {{"f32", ANF_F32},         {"f64", ANF_F64},         {"f16", ANF_F16},
              {"i32", ANF_I32},         {"i64", ANF_I64},         {"i16", ANF_I16},
              {"i8", ANF_I8},           {"u8", ANF_U8},           {"bool", ANF_BOOL},
              {"c64", ANF_C64},         {"c128", ANF_C128},       {"bf16", ANF_BF16},
              {"c32", ANF_DTYPE_COUNT}, {"null", ANF_DTYPE_COUNT}};

static bool bad_shape(const reader *r, const char *at, const char *why) {
  return anfi_fail(r->p->cx, place(r, at), ANF_E1035, why);
}

static bool dim(const reader *r, const char *s, size_t n, int64_t *out) {
  uint64_t v;
  if (n == 1 && *s == '?') return *out = ANF_DIM_UNKNOWN, true;
  if (n > 1 && *s == '%') {
    *out = anfi_dim_symbol(r->p->cx, anfi_intern(&r->p->cx->strings, s + 1, n - 1));
    return true;
  }
  if (!n || !parse_u64(s, n, &v) || v > INT64_MAX)
    return bad_shape(r, s, "a dim is a natural number, ? or % and a name");
  return *out = (int64_t)v, true;
}

/* "(2,?,%h)f32"; *type is NULL for an element type that is not known. */
static bool shape(const reader *r, const char *s, size_t n, const anf_type **type) {
  int64_t dims[ANF_MAX_RANK];
  size_t rank = 0;
  const char *end = s + n, *close = (const char *)memchr(s, ')', n);
  if (!n || *s != '(' || !close) return bad_shape(r, s, "it starts with dims in brackets");
  for (const char *at = s + 1; at <= close && close > s + 1;) { // "()" has no dims
    const char *comma = (const char *)memchr(at, ',', (size_t)(close - at));
    if (!comma) comma = close;
    if (rank == ANF_MAX_RANK) return bad_shape(r, at, "it has more than 16 dims");
    if (!dim(r, at, (size_t)(comma - at), &dims[rank++])) return false;
    at = comma + 1;
  }
  size_t k = 0, len = (size_t)(end - close - 1);
  while (k < ANFI_LEN(dtypes) &&
         !(strlen(dtypes[k].name) == len && memcmp(dtypes[k].name, close + 1, len) == 0))
    k++;
  if (k == ANFI_LEN(dtypes)) return bad_shape(r, close + 1, "this is no element type");
  *type = NULL;
  if (dtypes[k].dtype == ANF_DTYPE_COUNT) return true;
  for (size_t i = 0, have = 16; i < rank; i++)
    if (dims[i] > 0 && __builtin_mul_overflow(have, (uint64_t)dims[i], &have))
      return bad_shape(r, s, "its size overflows");
  *type = anfi_type_tensor(r->p->cx, dtypes[k].dtype, rank, dims);
  return true;
}

/* ---- the parts of a line ---- */

static uint64_t *operand_slot(reader *r, word w) {
  return anfi_map_at(&r->p->by_name, anfi_intern(&r->p->strings, w.s, w.n)->id);
}

/* Notes that the operand stands at place i of this operator, if it stands at none before. */
static void note_own(reader *r, uint64_t operand, uint64_t i) {
  uint64_t mine = (uint64_t)(r->p->ops.n + 1) << 32;
  if ((r->own.at[operand] & ~(uint64_t)UINT32_MAX) != mine) r->own.at[operand] = mine | i;
}

static bool inputs(reader *r, uint64_t n) {
  r->op->in = ANFI_NEW_N(&r->p->arena, uint32_t, n + 1);
  r->op->in_name = ANFI_NEW_N(&r->p->arena, const char *, n + 1);
  r->op->in_used = ANFI_NEW_N(&r->p->arena, bool, n + 1);
  for (uint64_t i = 0; i < n; i++) {
    word w = next_word(r);
    if (!w.n) return expected(r, w, "the name of an input");
    const anfi_str *name = anfi_interned(&r->p->strings, w.s, w.n);
    uint64_t *at = name ? anfi_map_find(&r->p->by_name, name->id) : NULL;
    if (!at || !*at) return anfi_fail(r->p->cx, place(r, w.s), ANF_E1033, shown(r, w));
    r->op->in[i] = (uint32_t)(*at - 1);
    note_own(r, *at - 1, i);
  }
  return true;
}

static bool outputs(reader *r, uint64_t n) {
  r->op->out = ANFI_NEW_N(&r->p->arena, uint32_t, n + 1);
  for (uint64_t i = 0; i < n; i++) {
    word w = next_word(r);
    if (!w.n) return expected(r, w, "the name of an output");
    uint64_t *at = operand_slot(r, w);
    if (*at) return anfi_fail(r->p->cx, place(r, w.s), ANF_E1034, "operand", shown(r, w));
    *at = r->p->operands.n + 1;
    r->op->out[i] = (uint32_t)r->p->operands.n;
    anfi_pnnx_operand o = {.name = anfi_intern(&r->p->strings, w.s, w.n),
                           .producer = (uint32_t)r->p->ops.n};
    anfi_push(&r->p->arena, &r->p->operands, o);
    anfi_push(r->a, &r->own, 0);
    note_own(r, r->op->out[i], r->op->nin + i);
  }
  return true;
}

static bool parameter(reader *r, word key, word value) {
  anfi_parameter p = {
      .key = keep(r, key.s, key.n), .text = keep(r, value.s, value.n), .col = column(r, value.s)};
  if (anfi_pnnx_param(r->op, p.key))
    return anfi_fail(r->p->cx, place(r, key.s), ANF_E1034, "parameter", shown(r, key));
  if (!values(r, &p, value.s, value.n)) return false;
  anfi_push(&r->p->arena, &r->op->params, p);
  return true;
}

static bool weight(reader *r, word key, word value) {
  anfi_weight w = {.op = r->op,
                   .key = keep(r, key.s, key.n),
                   .shape = keep(r, value.s, value.n),
                   .col = column(r, value.s)};
  if (anfi_pnnx_weight(r->op, w.key))
    return anfi_fail(r->p->cx, place(r, key.s), ANF_E1034, "weight", shown(r, key));
  if (!shape(r, value.s, value.n, &w.type)) return false;
  if (!w.type) return anfi_fail(r->p->cx, place(r, value.s), ANF_E1044, shown(r, value));
  size_t n;
  if (!anfi_type_elements(w.type, &n))
    return bad_shape(r, value.s, "the dims of a weight are known");
  anfi_push(&r->p->arena, &r->op->weights, w);
  return true;
}

/* The operand of this operator that is called so, as an index into in (or in, then out). */
static bool own_operand(reader *r, word w, size_t among, size_t *out) {
  const anfi_str *name = anfi_interned(&r->p->strings, w.s, w.n);
  uint64_t *at = name ? anfi_map_find(&r->p->by_name, name->id) : NULL;
  uint64_t own = at && *at ? r->own.at[*at - 1] : 0;
  *out = (uint32_t)own;
  if (own >> 32 == r->p->ops.n + 1 && *out < among) return true;
  return anfi_fail(r->p->cx, place(r, w.s), ANF_E1037, shown(r, w));
}

/* An operand may serve two arguments, `$a=3 $b=3`: each takes the next place that it has. */
static bool input_key(reader *r, word key, word value) {
  size_t i;
  if (!own_operand(r, value, r->op->nin, &i)) return false;
  uint32_t which = r->op->in[i];
  while (i < r->op->nin && (r->op->in_name[i] || r->op->in[i] != which)) i++;
  if (i == r->op->nin) return anfi_fail(r->p->cx, place(r, value.s), ANF_E1037, shown(r, value));
  r->op->in_name[i] = keep(r, key.s, key.n);
  return true;
}

static bool operand_shape(reader *r, word key, word value) {
  size_t i;
  const anf_type *type;
  const anf_pnnx_op *op = r->op;
  if (!own_operand(r, key, op->nin + op->nout, &i) || !shape(r, value.s, value.n, &type))
    return false;
  anfi_pnnx_operand *o = &r->p->operands.at[i < op->nin ? op->in[i] : op->out[i - op->nin]];
  if (o->shape && (strlen(o->shape) != value.n || memcmp(o->shape, value.s, value.n) != 0))
    return anfi_fail(r->p->cx, place(r, value.s), ANF_E1038, shown(r, key), o->shape,
                     shown(r, value));
  if (!o->shape) o->shape = keep(r, value.s, value.n);
  o->type = type;
  return true;
}

static bool assignment(reader *r, word w) {
  const char *eq = (const char *)memchr(w.s, '=', w.n);
  if (!eq || eq == w.s) return expected(r, w, "key=value");
  bool mark = *w.s == '@' || *w.s == '$' || *w.s == '#';
  word key = {w.s + mark, (size_t)(eq - w.s) - mark},
       value = {eq + 1, w.n - (size_t)(eq + 1 - w.s)};
  if (!key.n) return expected(r, w, "key=value");
  switch (*w.s) {
  case '@': return weight(r, key, value);
  case '$': return input_key(r, key, value);
  case '#': return operand_shape(r, key, value);
  default: return parameter(r, key, value);
  }
}

static bool operands_fit(reader *r, uint64_t nin, uint64_t nout, const char *at) {
  uint64_t most = (uint64_t)(r->end - r->line); // a name has a byte
  if (nin <= most && nout <= most) return true;
  return anfi_fail(r->p->cx, place(r, at), ANF_E1039);
}

static bool operator(reader *r) {
  anf_pnnx_op *op = r->op = ANFI_NEW(&r->p->arena, anf_pnnx_op);
  uint64_t nin, nout;
  word type = next_word(r), name = next_word(r);
  if (!name.n) return expected(r, name, "the name of an operator");
  op->model = r->p;
  op->line = r->lineno;
  op->type = anfi_intern(&r->p->strings, type.s, type.n)->s;
  op->name = keep(r, name.s, name.n);
  uint64_t *seen = anfi_map_at(&r->op_names, anfi_intern(&r->p->strings, name.s, name.n)->id);
  if (*seen) return anfi_fail(r->p->cx, place(r, name.s), ANF_E1034, "operator", shown(r, name));
  *seen = 1;
  const char *counts = r->at;
  if (!count(r, "the number of inputs", &nin) || !count(r, "the number of outputs", &nout) ||
      !operands_fit(r, nin, nout, counts))
    return false;
  op->nin = (uint32_t)nin;
  op->nout = (uint32_t)nout;
  if (!inputs(r, nin) || !outputs(r, nout)) return false;
  for (word w = next_word(r); w.n; w = next_word(r))
    if (!assignment(r, w)) return false;
  if (strcmp(op->type, "pnnx.Input") == 0)
    anfi_push(&r->p->arena, &r->p->input, (uint32_t)r->p->ops.n);
  anfi_push(&r->p->arena, &r->p->ops, op);
  return true;
}

static bool wrong_count(const reader *r, uint64_t said, const char *what, size_t have) {
  anfi_loc at = {r->p->file, 2, 1};
  return anfi_fail(r->p->cx, at, ANF_E1032, (unsigned long long)said, what, have);
}

static bool header(reader *r, uint64_t *nop, uint64_t *noperand) {
  word magic = next_line(r) ? next_word(r) : (word){r->line, 0};
  if (magic.n != 7 || memcmp(magic.s, "7767517", 7) != 0)
    return anfi_fail(r->p->cx, place(r, magic.s), ANF_E1030, shown(r, magic));
  if (!end_of_line(r)) return false;
  if (!next_line(r)) return expected(r, (word){r->end, 0}, "a line with two counts");
  return count(r, "the number of operators", nop) && count(r, "the number of operands", noperand) &&
         end_of_line(r);
}

bool anfi_param_read(anf_pnnx *p, const char *text, size_t len) {
  reader r = {.p = p, .a = anfi_scratch(p->cx), .line = text, .at = text, .end = text};
  uint64_t nop, noperand;
  r.text_end = text + len;
  anfi_map_init(&r.op_names, r.a);
  if (!header(&r, &nop, &noperand)) return false;
  while (next_line(&r)) {
    word w = next_word(&r);
    if (!w.n) continue;
    if (p->ops.n == nop)
      return anfi_fail(p->cx, place(&r, w.s), ANF_E1032, (unsigned long long)nop, "operators",
                       p->ops.n + 1);
    r.at = r.line;
    if ((p->ops.n & 1023) == 0 && !anfi_go_on(p->cx, "reading", 0)) return false;
    if (!operator(&r)) return false;
  }
  if (p->ops.n != nop) return wrong_count(&r, nop, "operators", p->ops.n);
  return p->operands.n == noperand || wrong_count(&r, noperand, "operands", p->operands.n);
}

/* ---- looking up ---- */

anfi_parameter *anfi_pnnx_param(const anf_pnnx_op *op, const char *key) {
  for (size_t i = 0; i < op->params.n; i++)
    if (strcmp(op->params.at[i].key, key) == 0) return &op->params.at[i];
  return NULL;
}

anfi_weight *anfi_pnnx_weight(const anf_pnnx_op *op, const char *key) {
  for (size_t i = 0; i < op->weights.n; i++)
    if (strcmp(op->weights.at[i].key, key) == 0) return &op->weights.at[i];
  return NULL;
}

/* ---- writing ---- */

static void put_operator(anf_text *o, const anf_pnnx *p, const anf_pnnx_op *op) {
  anfi_putf(o, "%-24s %-24s %u %u", op->type, op->name, op->nin, op->nout);
  for (uint32_t i = 0; i < op->nin; i++) anfi_putf(o, " %s", p->operands.at[op->in[i]].name->s);
  for (uint32_t i = 0; i < op->nout; i++) anfi_putf(o, " %s", p->operands.at[op->out[i]].name->s);
  for (size_t i = 0; i < op->params.n; i++)
    anfi_putc(o, ' '), anfi_puts(o, op->params.at[i].key), anfi_putc(o, '='),
        anfi_puts(o, op->params.at[i].text);
  for (size_t i = 0; i < op->weights.n; i++)
    anfi_putf(o, " @%s=%s", op->weights.at[i].key, op->weights.at[i].shape);
  for (uint32_t i = 0; i < op->nin; i++)
    if (op->in_name[i]) anfi_putf(o, " $%s=%s", op->in_name[i], p->operands.at[op->in[i]].name->s);
  for (uint32_t i = 0; i < op->nin + op->nout; i++) {
    const anfi_pnnx_operand *x = &p->operands.at[i < op->nin ? op->in[i] : op->out[i - op->nin]];
    if (x->shape) anfi_putf(o, " #%s=%s", x->name->s, x->shape);
  }
  anfi_putc(o, '\n');
}

void anfi_param_write(anf_text *o, const anf_pnnx *p) {
  anfi_putf(o, "7767517\n%zu %zu\n", p->ops.n, p->operands.n);
  for (size_t i = 0; i < p->ops.n; i++) put_operator(o, p, p->ops.at[i]);
}
