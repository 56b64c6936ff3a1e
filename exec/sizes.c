// SPDX-License-Identifier: Apache-2.0
/* Sizes of symbolic dims: reads them, gives types their sizes, joins what was lowered for each combination.
 *   f(x: f32[B,4]) for "B=1,8-9"     f_1, f_8 and f_9 for f32[1,4], f32[8,4], f32[9,4], and f(B, x), which calls one */
#include "exec/sizes.h"
#include "backend/lower/low.h"

#include <stdlib.h>

/* ---- symbols ---- types nest no deeper than their text may, so walks recurse */

static void add_symbol(anf_ctx *cx, anfi_arena *a, anfi_size_set *s, int64_t dim) {
  const char *name = anf_dim_name(cx, dim);
  for (size_t i = 0; i < s->ndim; i++)
    if (s->dim[i] == dim) return;
  if (!name) return; // a dim without a name: lowering says that its size is not known
  s->dim =
      (int64_t *)anfi_grow(a, s->dim, s->ndim * sizeof *s->dim, (s->ndim + 1) * sizeof *s->dim);
  s->name = (const char **)anfi_grow(a, s->name, s->ndim * sizeof *s->name,
                                     (s->ndim + 1) * sizeof *s->name);
  s->dim[s->ndim] = dim;
  s->name[s->ndim++] = name;
}

static void find_symbols(anf_ctx *cx, anfi_arena *a, anfi_size_set *s, const anf_type *t) {
  bool tensor = t->kind == ANF_TYPE_TENSOR;
  for (uint32_t i = 0; i < t->n; i++)
    if (!tensor) find_symbols(cx, a, s, t->items[i]);
    else if (t->dims[i] < 0) add_symbol(cx, a, s, t->dims[i]);
}

const anf_type *anfi_sizes_type(anf_ctx *cx, const anfi_size_set *s, size_t row,
                                const anf_type *t) {
  anfi_arena *a = anfi_scratch(cx);
  if (t->kind == ANF_TYPE_TENSOR) {
    int64_t *dims = ANFI_NEW_N(a, int64_t, t->n + 1);
    for (uint32_t i = 0; i < t->n; i++) {
      dims[i] = t->dims[i];
      for (size_t k = 0; k < s->ndim; k++)
        if (dims[i] == s->dim[k]) dims[i] = s->at[row * s->ndim + k];
    }
    return anfi_type_tensor(cx, (anf_dtype)t->dtype, t->n, dims);
  }
  if (t->kind != ANF_TYPE_TUPLE && t->kind != ANF_TYPE_RECORD) return t;
  const anf_type **items = ANFI_NEW_N(a, const anf_type *, t->n + 1);
  for (uint32_t i = 0; i < t->n; i++) items[i] = anfi_sizes_type(cx, s, row, t->items[i]);
  return t->kind == ANF_TYPE_TUPLE ? anfi_type_tuple(cx, t->n, items)
                                   : anfi_type_record(cx, t->n, t->names, items);
}

/* ---- text: NAME=SIZE,SIZE-SIZE,... NAME=... ---- */

typedef ANFI_VEC(int64_t) numbers;

static const char *number(const char *p, int64_t *out) {
  *out = 0;
  if (*p < '0' || *p > '9') return NULL;
  for (; *p >= '0' && *p <= '9'; p++)
    if ((*out = *out * 10 + (*p - '0')) > INT32_MAX) return NULL;
  return p;
}

/* A size or a range; NULL: it is none. */
static const char *sizes(const char *p, anfi_arena *a, numbers *to) {
  int64_t first, last;
  if (!(p = number(p, &first))) return NULL;
  last = first;
  if (*p == '-' && !(p = number(p + 1, &last))) return NULL;
  if (last < first || last - first >= ANFI_SIZES_MOST) return NULL;
  for (int64_t v = first; v <= last; v++) {
    bool known = false;
    for (size_t i = 0; i < to->n; i++) known |= to->at[i] == v;
    if (!known) anfi_push(a, to, v);
  }
  return p;
}

static size_t index_of(const anfi_size_set *s, const char *name, size_t len) {
  size_t i = 0;
  while (i < s->ndim && (strlen(s->name[i]) != len || memcmp(s->name[i], name, len) != 0)) i++;
  return i;
}

static bool unknown_name(anf_ctx *cx, anfi_arena *a, const anfi_size_set *s, const char *p,
                         size_t len) {
  const char *all = "";
  for (size_t i = 0; i < s->ndim; i++)
    all = anfi_sprintf(a, "%s%s%s", all, i ? ", " : "", s->name[i]);
  anfi_fail(cx, anfi_nowhere(), ANF_E1581, anfi_strndup(a, p, len));
  if (s->ndim) anfi_hint(cx, "they name %s", all);
  return false;
}

static bool is_any(const char *p) {
  return strncmp(p, "any", 3) == 0 && (!p[3] || p[3] == ' ' || p[3] == ',');
}

static bool read_words(anf_ctx *cx, anfi_arena *a, const char *text, anfi_size_set *s,
                       numbers *list) {
  for (const char *p = text; p && *p;) {
    size_t len = strcspn(p, "= ");
    const char *name = p;
    p += len;
    if (!len) {
      p += strspn(p, " ");
      if (*p != '=') continue;
    }
    if (!len || *p != '=') return anfi_fail(cx, anfi_nowhere(), ANF_E1580, text);
    size_t at = index_of(s, name, len);
    if (at == s->ndim) return unknown_name(cx, a, s, name, len);
    do p = is_any(p + 1) ? (s->any = true, p + 4) : sizes(p + 1, a, &list[at]);
    while (p && *p == ',');
    if (!p || (*p && *p != ' ')) return anfi_fail(cx, anfi_nowhere(), ANF_E1580, text);
  }
  return true;
}

static int by_size(const void *x, const void *y) {
  int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
  return (a > b) - (a < b);
}

/* Pieces of any number: 1, and each some of the one before. */
static bool read_pieces(anf_ctx *cx, anfi_arena *a, const anfi_size_set *s, numbers *list) {
  static const int64_t usual[] = {1, 8, 64};
  size_t n = list->n ? 0 : ANFI_LEN(usual);
  for (size_t i = 0; i < n; i++) anfi_push(a, list, usual[i]);
  qsort(list->at, list->n, sizeof *list->at, by_size);
  bool good = s->ndim == 1 && list->n > 1 && list->at[0] == 1;
  for (size_t i = 1; good && i < list->n; i++) good = list->at[i] % list->at[i - 1] == 0;
  return good || anfi_fail(cx, anfi_nowhere(), ANF_E1596);
}

/* Rows: the last name's sizes change fastest. */
static void combine(anfi_arena *a, anfi_size_set *s, const numbers *list) {
  s->at = ANFI_NEW_N(a, int64_t, s->n * s->ndim + 1);
  for (size_t row = 0; row < s->n; row++)
    for (size_t k = s->ndim, rest = row; k-- > 0; rest /= list[k].n)
      s->at[row * s->ndim + k] = list[k].at[rest % list[k].n];
}

bool anfi_sizes_read(anf_ctx *cx, anfi_arena *a, const char *text, size_t n,
                     const anf_type *const *types, anfi_size_set *s) {
  *s = (anfi_size_set){.n = 1};
  for (size_t i = 0; i < n; i++) find_symbols(cx, a, s, types[i]);
  numbers *list = ANFI_NEW_N(a, numbers, s->ndim + 1);
  if (!read_words(cx, a, text, s, list)) return false;
  if (s->any && !read_pieces(cx, a, s, list)) return false;
  for (size_t i = 0; i < s->ndim; i++) {
    if (!list[i].n) return anfi_fail(cx, anfi_nowhere(), ANF_E1582, s->name[i]);
    s->n *= list[i].n;
    if (s->n > ANFI_SIZES_MOST)
      return anfi_fail(cx, anfi_nowhere(), ANF_E1583, (int)ANFI_SIZES_MOST);
  }
  combine(a, s, list);
  return true;
}

/* ---- words ---- */

static const char *tag_of_row(anfi_arena *a, const anfi_size_set *s, size_t row) {
  const char *t = "";
  for (size_t k = 0; k < s->ndim; k++)
    t = anfi_sprintf(a, "%s%s%lld", t, k ? "_" : "", (long long)s->at[row * s->ndim + k]);
  return t;
}

const char *anfi_sizes_words(anfi_arena *a, const anfi_size_set *s, size_t row) {
  const char *t = "";
  for (size_t k = 0; k < s->ndim; k++)
    t = anfi_sprintf(a, "%s%s%s = %lld", t, k ? ", " : "", s->name[k],
                     (long long)s->at[row * s->ndim + k]);
  return t;
}

const char *anfi_sizes_list(anfi_arena *a, const anfi_size_set *s) {
  const char *t = "";
  for (size_t k = 0; k < s->ndim; k++) {
    const char *before = "";
    t = anfi_sprintf(a, "%s%s%s = %s", t, k ? " and " : "", s->name[k],
                     s->any ? "any, in pieces of " : "");
    for (size_t row = 0; row < s->n; row++) {
      int64_t v = s->at[row * s->ndim + k];
      bool seen = false;
      for (size_t i = 0; i < row; i++) seen |= s->at[i * s->ndim + k] == v;
      if (!seen) t = anfi_sprintf(a, "%s%s%lld", t, before, (long long)v), before = ", ";
    }
  }
  return t;
}

/* ---- types of all rows ---- */

typedef struct joiner {
  anf_ctx *cx;
  anfi_arena *a;
  const anfi_size_set *s;
  const anfi_lowered *const *rows;
} joiner;

/* The symbol that has these sizes, else -1. */
static int64_t symbol_of(const joiner *j, const int64_t *size) {
  for (size_t k = 0; k < j->s->ndim; k++) {
    bool same = true;
    for (size_t row = 0; row < j->s->n; row++) same &= size[row] == j->s->at[row * j->s->ndim + k];
    if (same) return j->s->dim[k];
  }
  return -1;
}

static int64_t dim_of_rows(const joiner *j, const anf_type *const *t, uint32_t i) {
  int64_t *size = ANFI_NEW_N(j->a, int64_t, j->s->n);
  bool same = true;
  for (size_t row = 0; row < j->s->n; row++) {
    size[row] = t[row]->dims[i];
    same &= size[row] == size[0];
  }
  return same ? size[0] : symbol_of(j, size);
}

/* NULL: rows have types of other kinds. */
static const anf_type *type_of_rows(const joiner *j, const anf_type *const *t) {
  const anf_type *first = t[0];
  bool same = true;
  for (size_t row = 1; row < j->s->n; row++) {
    same &= t[row] == first;
    if (t[row]->kind != first->kind || t[row]->n != first->n || t[row]->dtype != first->dtype)
      return NULL;
  }
  if (same) return first;
  if (first->kind == ANF_TYPE_TENSOR) {
    int64_t *dims = ANFI_NEW_N(j->a, int64_t, first->n + 1);
    for (uint32_t i = 0; i < first->n; i++) dims[i] = dim_of_rows(j, t, i);
    return anfi_type_tensor(j->cx, (anf_dtype)first->dtype, first->n, dims);
  }
  const anf_type **items = ANFI_NEW_N(j->a, const anf_type *, first->n + 1),
                 **of = ANFI_NEW_N(j->a, const anf_type *, j->s->n);
  if (first->kind != ANF_TYPE_TUPLE && first->kind != ANF_TYPE_RECORD) return NULL;
  for (uint32_t i = 0; i < first->n; i++) {
    for (size_t row = 0; row < j->s->n; row++) of[row] = t[row]->items[i];
    if (!(items[i] = type_of_rows(j, of))) return NULL;
  }
  return first->kind == ANF_TYPE_TUPLE ? anfi_type_tuple(j->cx, first->n, items)
                                       : anfi_type_record(j->cx, first->n, first->names, items);
}

/* Leaves with the types of all rows, and the most elements. */
static bool join_leaves(joiner *j, bool result, anfi_leaves *out) {
  const anfi_leaves *first = result ? &j->rows[0]->result : &j->rows[0]->param;
  const anf_type **t = ANFI_NEW_N(j->a, const anf_type *, j->s->n);
  *out = (anfi_leaves){0};
  for (size_t i = 0; i < first->n; i++) {
    anfi_leaf l = first->at[i];
    for (size_t row = 0; row < j->s->n; row++) {
      const anfi_leaves *of = result ? &j->rows[row]->result : &j->rows[row]->param;
      if (of->n != first->n || of->at[i].scalar != l.scalar) return false;
      t[row] = of->at[i].type;
      if (of->at[i].n > l.n) l.n = of->at[i].n;
    }
    if (!(l.type = type_of_rows(j, t))) return false;
    anfi_push(j->a, out, l);
  }
  return true;
}

static bool join_types(joiner *j, const char *name, anfi_loc loc, anfi_lowered *out) {
  const anf_type **t = ANFI_NEW_N(j->a, const anf_type *, j->s->n);
  for (size_t row = 0; row < j->s->n; row++) t[row] = j->rows[row]->result_type;
  out->result_type = type_of_rows(j, t);
  if (out->result_type && join_leaves(j, false, &out->param) && join_leaves(j, true, &out->result))
    return true;
  return anfi_fail(j->cx, loc, ANF_E1584, name);
}

/* ---- the function in front ---- */

static texpr s64(tstore *t, int64_t v) { return anfi_t_int(t, ANFI_S64, v); }

/* A tensor parameter of as many elements as the sizes say; it is only handed on. */
static texpr tensor(const joiner *j, tstore *t, texpr const *size, const anfi_leaf *l,
                    const char *name) {
  texpr n = anfi_t_index(t, 1);
  bool fixed = true;
  for (uint32_t i = 0; i < l->type->n; i++) {
    int64_t d = l->type->dims[i];
    for (size_t k = 0; d < 0 && k < j->s->ndim; k++)
      if (d == j->s->dim[k] || d == -1) {
        n = anfi_t_mul(t, n, anfi_t_cast(t, anfi_t_dt(ANF_TIR_index), size[k]));
        fixed = false;
        break;
      }
  }
  if (fixed) return anfi_t_tensor1(t, l->elem, name, l->n);
  return anfi_t_tensor(t, l->elem, false, name, 1, &n, NULL);
}

/* if (B == 1 && T == 8) return f_1_8(...) */
static tstmt choice(const joiner *j, tstore *t, texpr const *size, size_t row, tfunc f,
                    texpr const *args) {
  texpr cond = NULL;
  for (size_t k = 0; k < j->s->ndim; k++) {
    texpr is = anfi_t_bin(t, TX_cmp_eq, size[k], s64(t, j->s->at[row * j->s->ndim + k]));
    cond = cond ? anfi_t_bin(t, TX_logic_and, cond, is) : is;
  }
  texpr call = anfi_t_call(t, f->name, f->ret, f->n, args);
  tstmt s[2] = {anfi_t_is_void(f->ret) ? anfi_t_eval(t, call) : anfi_t_return(t, call), NULL};
  if (anfi_t_is_void(f->ret)) s[1] = anfi_t_return(t, NULL);
  return anfi_t_if(t, cond, anfi_t_stmts(t, s[1] ? 2 : 1, s), NULL);
}

static void put_front(joiner *j, tmod *m, const char *name, tfunc const *f, anfi_lowered *out) {
  tstore *t = m->t;
  size_t nd = j->s->ndim, returned = anfi_returned_leaf(&out->result);
  texpr *param = ANFI_NEW_N(j->a, texpr, nd + f[0]->n + 1);
  uint32_t at = 0;
  for (size_t k = 0; k < nd; k++) param[at++] = anfi_t_var(t, ANFI_S64, j->s->name[k]);
  for (uint32_t i = 0, r = 0; i < f[0]->n; i++) {
    if (i >= out->param.n && r == returned) r++;
    const anfi_leaf *l = i < out->param.n ? &out->param.at[i] : &out->result.at[r++];
    texpr p = f[0]->param[i];
    const char *called = p->u.name->s;
    param[at++] =
        p->kind == TX_tensor ? tensor(j, t, param, l, called) : anfi_t_var(t, p->dtype, called);
  }
  tstmt *s = ANFI_NEW_N(j->a, tstmt, j->s->n + 2);
  size_t n = 0;
  for (; n < j->s->n; n++) s[n] = choice(j, t, param, n, f[n], param + nd);
  texpr stop[3] = {s64(t, (int64_t)out->sites.n), param[0], nd > 1 ? param[1] : s64(t, 0)};
  s[n++] = anfi_t_eval(t, anfi_t_rt_call(t, TRT_anf_rt_stop, 3, stop));
  if (!anfi_t_is_void(f[0]->ret)) s[n++] = anfi_t_return(t, anfi_t_int(t, f[0]->ret, 0));
  anfi_t_mod_add(m, anfi_t_func(t, anfi_intern_z(&t->names, name), f[0]->ret, at, param,
                                anfi_t_body(t, anfi_t_stmts(t, n, s)), (tattrs){0}));
}

/* ---- the function in front of pieces ---- */

typedef struct pieces {
  joiner *j;
  tstore *t;
  texpr size;    // the parameter B
  texpr *arg;    // of the function in front, after B
  uint64_t *row; // elements of a row of each; 0: the same for all pieces
  size_t n;
} pieces;

static texpr as_index(tstore *t, texpr x) { return anfi_t_cast(t, anfi_t_dt(ANF_TIR_index), x); }

static bool is_rows(const joiner *j, const anfi_leaf *l) {
  return l->type->n && l->type->dims[0] == j->s->dim[0];
}

/* A call of f for the rows from `first` on */
static tstmt call_piece(const pieces *p, tfunc f, texpr first) {
  texpr *in = ANFI_NEW_N(p->j->a, texpr, p->n + 1);
  for (size_t i = 0; i < p->n; i++) {
    texpr at =
        p->row[i] ? anfi_t_mul(p->t, as_index(p->t, first), anfi_t_index(p->t, p->row[i])) : NULL;
    in[i] = at ? anfi_t_addr(p->t, p->arg[i], 1, &at) : p->arg[i];
  }
  return anfi_t_eval(p->t, anfi_t_call(p->t, f->name, f->ret, f->n, in));
}

/* for (i = 0; i < (B mod the piece before) / size; i++) f(rows from B - B mod the piece before + i * size) */
static tstmt loop_pieces(const pieces *p, size_t k, tfunc f) {
  const anfi_size_set *s = p->j->s;
  tstore *t = p->t;
  texpr i = anfi_t_var(t, ANFI_S64, "piece"), left = p->size, from = s64(t, 0),
        size = s64(t, s->at[k]);
  if (k + 1 < s->n) {
    left = anfi_t_bin(t, TX_mod, p->size, s64(t, s->at[k + 1]));
    from = anfi_t_sub(t, p->size, left);
  }
  texpr first = anfi_t_add(t, from, anfi_t_mul(t, i, size));
  tstmt call = call_piece(p, f, first);
  return anfi_t_for(t, i, s64(t, 0), anfi_t_bin(t, TX_div, left, size), s64(t, 1),
                    anfi_t_body(t, call), false, 0);
}

/* The parameters after B, with as many elements as B says */
static void take_leaves(pieces *p, tfunc f, const anfi_lowered *const *rows, anfi_lowered *out) {
  for (uint32_t i = 0; i < f->n; i++) {
    bool result = i >= out->param.n;
    size_t at = result ? i - out->param.n : i;
    const anfi_leaf *l = result ? &out->result.at[at] : &out->param.at[at];
    const anfi_leaf *one = result ? &rows[0]->result.at[at] : &rows[0]->param.at[at];
    texpr q = f->param[i], n;
    p->row[i] = is_rows(p->j, l) ? one->n : 0;
    if (q->kind != TX_tensor) p->arg[i] = anfi_t_var(p->t, q->dtype, q->u.name->s);
    else if (!p->row[i]) p->arg[i] = anfi_t_tensor1(p->t, l->elem, q->u.name->s, one->n);
    else {
      n = anfi_t_mul(p->t, as_index(p->t, p->size), anfi_t_index(p->t, p->row[i]));
      p->arg[i] = anfi_t_tensor(p->t, l->elem, false, q->u.name->s, 1, &n, NULL);
    }
  }
}

static void put_pieces(joiner *j, tmod *m, const char *name, tfunc const *f,
                       const anfi_lowered *const *rows, anfi_lowered *out) {
  tstore *t = m->t;
  texpr *param = ANFI_NEW_N(j->a, texpr, f[0]->n + 2);
  pieces p = {.j = j,
              .t = t,
              .size = anfi_t_var(t, ANFI_S64, j->s->name[0]),
              .arg = param + 1,
              .n = f[0]->n};
  p.row = ANFI_NEW_N(j->a, uint64_t, f[0]->n + 1);
  param[0] = p.size;
  take_leaves(&p, f[0], rows, out);
  tstmt *s = ANFI_NEW_N(j->a, tstmt, j->s->n + 1);
  texpr stop[3] = {s64(t, (int64_t)out->sites.n), p.size, s64(t, 0)};
  size_t n = 0;
  s[n++] =
      anfi_t_if(t, anfi_t_lt(t, p.size, s64(t, 0)),
                anfi_t_body(t, anfi_t_eval(t, anfi_t_rt_call(t, TRT_anf_rt_stop, 3, stop))), NULL);
  for (size_t k = j->s->n; k-- > 0;) s[n++] = loop_pieces(&p, k, f[k]);
  anfi_t_mod_add(m, anfi_t_func(t, anfi_intern_z(&t->names, name), f[0]->ret, f[0]->n + 1, param,
                                anfi_t_body(t, anfi_t_stmts(t, n, s)), (tattrs){0}));
}

bool anfi_sizes_join(anf_ctx *cx, anfi_arena *a, const anfi_size_set *s,
                     const anfi_lowered *const *rows, const char *name, anfi_loc loc,
                     anfi_lowered *out) {
  joiner j = {cx, a, s, rows};
  *out = (anfi_lowered){.cx = cx, .arena = a, .entry = name};
  if (!join_types(&j, name, loc, out)) return false;
  tstore *t = anfi_t_store_new(cx);
  tmod *m = anfi_t_mod_new(t);
  tfunc *f = ANFI_NEW_N(a, tfunc, s->n);
  anfi_map tables;
  anfi_map_init(&tables, a);
  t->file = rows[0]->module->t->file;
  for (size_t row = 0; row < s->n; row++) {
    const anfi_lowered *l = rows[row];
    size_t first = m->func.n;
    anfi_t_merge(m, l->module, tag_of_row(a, s, row), &tables);
    while (anfi_t_attr(m->func.at[first]->attrs, TA_is_private, NULL) || !m->func.at[first]->body)
      first++;
    tfunc entry = f[row] = m->func.at[first];
    struct anf_tir_func_node *hidden = ANFI_NEW(&t->arena, struct anf_tir_func_node);
    *hidden = *entry;
    hidden->attrs = anfi_t_attr_set(t, entry->attrs, TA_is_private, 1);
    anfi_t_mod_replace(m, first, hidden);
    for (size_t i = 0; i < l->sites.n; i++) anfi_push(a, &out->sites, l->sites.at[i]);
    out->recursive |= l->recursive;
  }
  if (s->any) put_pieces(&j, m, name, f, rows, out);
  else put_front(&j, m, name, f, out);
  anfi_t_declare_rt(m);
  out->module = m;
  out->first = rows[0]->first;
  return true;
}
