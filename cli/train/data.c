// SPDX-License-Identifier: Apache-2.0
/* Batches: rows of arrays, in an order that depends on the seed and the epoch alone.
 *   train_shuffle of 4 rows   ->   order, say {2, 0, 3, 1}; train_fill(&set, 2)   ->   a batch of two, rows 3 and 1 */
#include "cli/train/train.h"
#include "ir/ir.h"

static anf_value *rows_of(cli *c, const char *text, size_t from, size_t n, size_t window) {
  int64_t dims[2] = {(int64_t)n, (int64_t)window};
  anf_value *v = anfi_value_new_tensor(c->cx, anfi_type_tensor(c->cx, ANF_U8, 2, dims));
  for (size_t i = 0; i < n; i++)
    memcpy(v->data + i * window, text + (from + i) * (window - 1), window);
  anfi_defer(c->cx, ANFI_ALWAYS, anfi_release, v);
  return v;
}

static anf_value *text_rows(cli *c, const char *path, size_t window) {
  static const char *const names[] = {"text", "text_test"};
  char *text;
  size_t len;
  if (!anfi_os_read(c->cx, anfi_scratch(c->cx), path, &text, &len)) return NULL;
  size_t rows = len ? (len - 1) / (window - 1) : 0, held = rows / 10;
  if (!held) return anfi_fail(c->cx, anfi_nowhere(), ANF_E0024, path, len, 10 * window), NULL;
  anf_value *v[2] = {rows_of(c, text, 0, rows - held, window),
                     rows_of(c, text, rows - held, held, window)};
  anf_value *r = anf_value_record(c->cx, 2, names, v);
  if (!r) anfi_throw_nomem(c->cx);
  return r;
}

anf_value *train_data(cli *c, const char *path, size_t window) {
  size_t n = strlen(path);
  bool npz = n > 4 && strcmp(path + n - 4, ".npz") == 0;
  anf_value *v = NULL;
  if (!npz) v = text_rows(c, path, window);
  else if (anf_load_npz(c->cx, path, c->d, &v) != ANF_OK) return NULL;
  if (v) anfi_defer(c->cx, ANFI_ALWAYS, anfi_release, v);
  return v;
}

static bool take(cli *c, const anf_value *data, const char *name, train_set *set, train_input *in) {
  in->data = anfi_record_item(data, name);
  if (!in->data) {
    anfi_fail(c->cx, anfi_nowhere(), ANF_E0021, name);
    for (size_t i = 0; i < data->n; i++)
      anfi_note(c->cx, anfi_nowhere(), "it has '%s'", data->type->names[i]->s);
    return false;
  }
  const anf_type *t = in->data->type;
  size_t rows = t->n ? (size_t)t->dims[0] : 0;
  if (!set->batch) set->batch = rows;
  if (!set->rows) set->rows = rows;
  if (!rows || rows != set->rows || rows < set->batch)
    return anfi_fail(c->cx, anfi_nowhere(), ANF_E0022, name, rows,
                     rows == set->rows ? set->batch : set->rows);
  int64_t dims[ANF_MAX_RANK];
  if (t->n) memcpy(dims, t->dims, t->n * sizeof *dims);
  dims[0] = (int64_t)set->batch;
  in->type = anfi_type_tensor(c->cx, (anf_dtype)t->dtype, t->n, dims);
  in->row = in->data->n / rows * anf_dtype_bytes((anf_dtype)t->dtype);
  in->batch = (char *)anfi_alloc(anfi_scratch(c->cx), in->row * set->batch + 1);
  return true;
}

bool train_find(cli *c, const anf_value *data, anf_graph *g, const char *suffix, size_t batch,
                train_set *out) {
  anfi_arena *a = anfi_scratch(c->cx);
  *out = (train_set){.batch = batch, .n = g->params.n - 1};
  out->in = ANFI_NEW_N(a, train_input, out->n + 1);
  for (size_t i = 0; i < out->n; i++) {
    const char *name = anfi_sprintf(a, "%s%s", anf_node_name(g->params.at[i + 1]), suffix);
    if (!take(c, data, name, out, &out->in[i])) return false;
  }
  out->order = ANFI_NEW_N(a, uint32_t, out->rows + 1);
  for (size_t i = 0; i < out->rows; i++) out->order[i] = (uint32_t)i;
  return true;
}

bool train_bind(cli *c, anf_step *s, train_set *set) {
  size_t first = anf_step_leaf_count(s, ANF_INPUT) - set->n;
  for (size_t i = 0; i < set->n; i++) {
    const anf_type *t = set->in[i].type;
    anf_array a = {.dtype = (anf_dtype)t->dtype, .rank = t->n, .dims = t->dims};
    a.data = set->in[i].batch;
    if (anf_step_bind(s, ANF_INPUT, first + i, &a, c->d) != ANF_OK) return false;
  }
  return true;
}

/* splitmix64 */
static uint64_t next(uint64_t *x) {
  uint64_t z = *x += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

void train_shuffle(train_set *set, uint64_t seed, uint64_t epoch) {
  uint64_t x = seed ^ epoch << 32;
  for (size_t i = 0; i < set->rows; i++) set->order[i] = (uint32_t)i;
  for (size_t i = set->rows; i > 1; i--) {
    size_t k = (size_t)(next(&x) % i);
    uint32_t t = set->order[i - 1];
    set->order[i - 1] = set->order[k];
    set->order[k] = t;
  }
}

void train_fill(train_set *set, size_t row) {
  for (size_t i = 0; i < set->n; i++)
    for (size_t k = 0; k < set->batch; k++) {
      const train_input *in = &set->in[i];
      memcpy(in->batch + k * in->row, in->data->data + set->order[row + k] * in->row, in->row);
    }
}
