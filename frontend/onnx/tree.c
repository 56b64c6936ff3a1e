// SPDX-License-Identifier: Apache-2.0
/* Trees of ai.onnx.ml as tables, which the parameter `trees` of a template is:
 *   nodes_treeids = [0, 0, 0], nodes_nodeids = [0, 1, 2], nodes_modes = [BRANCH_LEQ, LEAF, LEAF], nodes_truenodeids = [1, 0, 0] ..
 *     ->  (split, feature, mode, yes, no, missing, leaf, roots, weights, voted, depth, modes, ids, positive)
 * A row is a node; `yes` and `no` are the rows of its children, of a leaf the leaf itself, so that `depth` steps from the roots end at leaves
 * (Hummingbird's traversal of trees by tables; Nakandala et al. 2020). `leaf` is the row of `weights`, which has a column for each
 * target, and of `voted`, which says where there is a weight; row 0 is of nodes without. `modes` are those that occur, `ids` the
 * targets that have weights, `positive` says that no weight is below zero. */
#include "frontend/onnx/onnx.h"
#include <math.h>

/* In the order of TreeEnsemble's numbers. */
static const char *const mode_names[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE", "BRANCH_GT",
                                         "BRANCH_EQ",  "BRANCH_NEQ", "LEAF"};
enum {
  LEAF = 6,
  MODES = 7,
  SPARSE = 4096
}; // SPARSE: cells of `weights` for each weight of the file

typedef struct {
  size_t n;
  double *at;
  bool wide; // of f64
} column;

typedef struct {
  /* the node */
  const anfi_ox_place *p;
  const anfi_ox_node *n;
  anfi_arena *arena;
  bool by_row; // TreeEnsemble: nodes have no ids
  /* columns of nodes */
  size_t rows, inner; // inner: rows before the leaves, all of them where nodes have ids
  column tree, id, feature, split, missing;
  int64_t *mode, *yes, *no, *leaf;
  anfi_map row; // tree and id -> row + 1
  /* roots and weights */
  int64_t *root, depth;
  size_t roots, leaves, targets;
  anf_value *table, *voted, *ids;
  column target, weight, place; // place: of a weight its row of the table
} forest;

static bool refuse(const forest *f, const char *what, const char *name) {
  return anfi_fail(f->p->b->t->cx, f->p->b->t->loc, ANF_E1176, f->n->op->s, what, name);
}
static bool odd(const forest *f, const char *name) {
  return refuse(f, "trees that contradict themselves:", name);
}

bool anfi_ox_is_of_trees(const char *attr) {
  static const char *const prefix[] = {"nodes_", "target_", "leaf_", "tree_roots"};
  static const char *const whole[] = {"class_ids",     "class_nodeids",           "class_treeids",
                                      "class_weights", "class_weights_as_tensor", "n_targets"};
  for (size_t i = 0; i < ANFI_LEN(prefix); i++)
    if (strncmp(attr, prefix[i], strlen(prefix[i])) == 0) return true;
  for (size_t i = 0; i < ANFI_LEN(whole); i++)
    if (strcmp(attr, whole[i]) == 0) return true;
  return false;
}

/* ---- columns ---- */

static bool of_tensor(forest *f, const anfi_ox_attr *a, column *c) {
  anf_value *v = a->tensor ? anfi_ox_tensor_value(f->p->b->model, a->tensor) : NULL;
  if (!v) return !a->tensor ? odd(f, a->name->s) : false;
  c->n = v->n;
  c->at = ANFI_NEW_N(f->arena, double, c->n + 1);
  c->wide = v->type->dtype == ANF_F64;
  for (size_t i = 0; i < c->n; i++) c->at[i] = anfi_get_f64(v, i);
  anf_value_release(v);
  return true;
}

/* Numbers of an attribute, or of the tensor that stands for it; none where there is neither. */
static bool numbers(forest *f, const char *name, column *c) {
  *c = (column){0};
  const anfi_ox_attr *a = anfi_ox_attr_of(f->p, f->n, name);
  if (!a) a = anfi_ox_attr_of(f->p, f->n, anfi_sprintf(f->arena, "%s_as_tensor", name));
  if (!a) return true;
  if (a->kind == OX_ATTR_TENSOR) return of_tensor(f, a, c);
  bool real = a->kind == OX_ATTR_FLOATS;
  if (!real && a->kind != OX_ATTR_INTS) return odd(f, name);
  c->n = real ? a->reals.n : a->ints.n;
  c->at = ANFI_NEW_N(f->arena, double, c->n + 1);
  for (size_t i = 0; i < c->n; i++) c->at[i] = real ? a->reals.at[i] : (double)a->ints.at[i];
  return true;
}

static bool column_of(forest *f, const char *name, size_t n, column *c) {
  return numbers(f, name, c) && (c->n == n || odd(f, name));
}

/* Whole and in 0 .. end - 1. */
static bool index_of(double x, size_t end, int64_t *out) {
  bool good = x >= 0 && x < (double)end && x == floor(x);
  *out = good ? (int64_t)x : 0;
  return good;
}

/* ---- nodes ---- */

static bool key_of(double tree, double id, uint64_t *key) {
  int64_t t, i;
  if (!index_of(tree, UINT32_MAX, &t) || !index_of(id, UINT32_MAX, &i)) return false;
  *key = ((uint64_t)t << 32 | (uint64_t)i) + 1;
  return true;
}

static bool row_of(const forest *f, double tree, double id, int64_t *out) {
  uint64_t key;
  const uint64_t *at = key_of(tree, id, &key) ? anfi_map_find(&f->row, key) : NULL;
  if (at) *out = (int64_t)*at - 1;
  return at != NULL;
}

static bool ids(forest *f) {
  uint64_t key;
  anfi_map_init(&f->row, f->arena);
  for (size_t i = 0; i < f->rows; i++) {
    if (!key_of(f->tree.at[i], f->id.at[i], &key) || anfi_map_find(&f->row, key))
      return odd(f, "nodes_nodeids");
    *anfi_map_at(&f->row, key) = i + 1;
  }
  return true;
}

static bool modes_by_name(forest *f) {
  const anfi_ox_attr *a = anfi_ox_attr_of(f->p, f->n, "nodes_modes");
  if (!a || a->kind != OX_ATTR_STRINGS || a->strings.n != f->rows) return odd(f, "nodes_modes");
  for (size_t i = 0; i < f->rows; i++) {
    int64_t m = 0;
    while (m < MODES && strcmp(mode_names[m], a->strings.at[i]->s) != 0) m++;
    if (m == MODES) return refuse(f, "a node", a->strings.at[i]->s);
    f->mode[i] = m;
  }
  return true;
}

static bool modes_by_number(forest *f) {
  column c;
  if (!column_of(f, "nodes_modes", f->inner, &c)) return false;
  for (size_t i = 0; i < f->rows; i++) {
    f->mode[i] = LEAF;
    if (i < f->inner && !index_of(c.at[i], LEAF, &f->mode[i]))
      return refuse(f, "a node", "BRANCH_MEMBER");
  }
  return true;
}

/* Of an inner node the row of a child. */
static bool child_of(forest *f, bool yes, int64_t *to) {
  const char *name = yes ? "nodes_truenodeids" : "nodes_falsenodeids";
  column c, leaf = {0};
  if (!column_of(f, name, f->inner, &c)) return false;
  if (f->by_row && !column_of(f, yes ? "nodes_trueleafs" : "nodes_falseleafs", f->inner, &leaf))
    return false;
  for (size_t i = 0; i < f->rows; i++) {
    bool found = true;
    size_t inner = f->inner, leaves = f->rows - inner;
    if (f->mode[i] == LEAF) to[i] = (int64_t)i;
    else if (!f->by_row) found = row_of(f, f->tree.at[i], c.at[i], &to[i]);
    else if ((found = index_of(c.at[i], leaf.at[i] != 0 ? leaves : inner, &to[i])))
      to[i] += leaf.at[i] != 0 ? (int64_t)inner : 0;
    if (!found) return odd(f, name);
  }
  return true;
}

static bool nodes(forest *f) {
  if (!numbers(f, f->by_row ? "nodes_featureids" : "nodes_treeids", &f->tree)) return false;
  f->inner = f->rows = f->tree.n;
  if (f->by_row) {
    if (!numbers(f, "leaf_weights", &f->weight)) return false;
    f->rows += f->weight.n;
  }
  if (!f->rows) return odd(f, "no nodes");
  int64_t **table[] = {&f->mode, &f->yes, &f->no, &f->leaf, &f->root};
  for (size_t k = 0; k < ANFI_LEN(table); k++) *table[k] = ANFI_NEW_N(f->arena, int64_t, f->rows);
  if (!column_of(f, "nodes_featureids", f->inner, &f->feature)) return false;
  if (!column_of(f, f->by_row ? "nodes_splits" : "nodes_values", f->inner, &f->split)) return false;
  if (!numbers(f, "nodes_missing_value_tracks_true", &f->missing)) return false;
  if (f->missing.n && f->missing.n != f->inner) return odd(f, "nodes_missing_value_tracks_true");
  if (!f->by_row && (!column_of(f, "nodes_nodeids", f->rows, &f->id) || !ids(f))) return false;
  return (f->by_row ? modes_by_number(f) : modes_by_name(f)) && child_of(f, true, f->yes) &&
         child_of(f, false, f->no);
}

/* ---- roots: the first node of each tree ---- */

static bool find_roots(forest *f) {
  column c = {0};
  if (f->by_row && !numbers(f, "tree_roots", &c)) return false;
  if (c.n > f->rows) return odd(f, "tree_roots");
  for (size_t i = 0; i < c.n; i++, f->roots++)
    if (!index_of(c.at[i], f->inner, &f->root[i])) return odd(f, "tree_roots");
  for (size_t i = 0; !f->by_row && i < f->rows; i++)
    if (!i || f->tree.at[i] != f->tree.at[i - 1]) f->root[f->roots++] = (int64_t)i;
  return f->roots || odd(f, "no roots");
}

/* By levels; a node that is met a second time would make a circle or a graph. */
static bool find_depth(forest *f) {
  int64_t *queue = ANFI_NEW_N(f->arena, int64_t, f->rows + f->roots);
  bool *met = ANFI_NEW_N(f->arena, bool, f->rows);
  size_t end = f->roots;
  memcpy(queue, f->root, f->roots * sizeof *queue);
  for (size_t from = 0, to = end; from < to; from = to, to = end) {
    for (size_t k = from; k < to; k++) {
      size_t i = (size_t)queue[k];
      if (f->mode[i] == LEAF) continue;
      if (met[i]) return odd(f, "a node that two others lead to");
      met[i] = true;
      int64_t next[] = {f->yes[i], f->no[i]};
      for (size_t j = 0; j < 2; j++)
        if (f->mode[next[j]] != LEAF && end < f->rows + f->roots) queue[end++] = next[j];
    }
    f->depth++;
  }
  return true;
}

/* ---- weights ---- */

static bool leaf_rows(forest *f, const char *kind) {
  column tree, id;
  if (f->by_row) {
    for (size_t i = f->inner; i < f->rows; i++) f->leaf[i] = (int64_t)++f->leaves;
    return column_of(f, "leaf_targetids", f->leaves, &f->target);
  }
  if (!numbers(f, anfi_sprintf(f->arena, "%s_weights", kind), &f->weight) ||
      !column_of(f, anfi_sprintf(f->arena, "%s_treeids", kind), f->weight.n, &tree) ||
      !column_of(f, anfi_sprintf(f->arena, "%s_nodeids", kind), f->weight.n, &id) ||
      !column_of(f, anfi_sprintf(f->arena, "%s_ids", kind), f->weight.n, &f->target))
    return false;
  for (size_t j = 0; j < f->weight.n; j++) {
    int64_t i;
    if (!row_of(f, tree.at[j], id.at[j], &i)) return odd(f, "weights of a node that is not there");
    if (!f->leaf[i]) f->leaf[i] = (int64_t)++f->leaves;
    tree.at[j] = (double)f->leaf[i];
  }
  f->place = tree;
  return true;
}

static bool weights(forest *f) {
  const anfi_ox_attr *a = anfi_ox_attr_of(f->p, f->n, "n_targets");
  const anfi_ox_attr *labels = anfi_ox_attr_of(f->p, f->n, "classlabels_int64s");
  const anfi_ox_attr *words = anfi_ox_attr_of(f->p, f->n, "classlabels_strings");
  bool classes = labels || words;
  if (!leaf_rows(f, classes ? "class" : "target")) return false;
  int64_t n = labels ? (int64_t)labels->ints.n : words ? (int64_t)words->strings.n : a ? a->i : 1;
  size_t most = (f->weight.n + 16) * SPARSE / (f->leaves + 1);
  if (n < 1 || (uint64_t)n > most)
    return refuse(f, "so many targets,", anfi_sprintf(f->arena, "%lld", (long long)n));
  f->targets = (size_t)n;
  int64_t dims[] = {(int64_t)f->leaves + 1, n}, *seen = ANFI_NEW_N(f->arena, int64_t, f->targets);
  anf_ctx *cx = f->p->b->t->cx;
  const anf_type *type = anfi_type_tensor(cx, f->weight.wide ? ANF_F64 : ANF_F32, 2, dims);
  const anf_type *votes = anfi_type_tensor(cx, ANF_BOOL, 2, dims);
  f->table = anfi_trace_hold(f->p->b->t, anfi_value_new_tensor(cx, type));
  f->voted = anfi_trace_hold(f->p->b->t, anfi_value_new_tensor(cx, votes));
  for (size_t j = 0; j < f->weight.n; j++) {
    int64_t c;
    if (!index_of(f->target.at[j], f->targets, &c)) return odd(f, "the target of a weight");
    size_t at = (f->by_row ? j + 1 : (size_t)f->place.at[j]) * f->targets + (size_t)c;
    anfi_set_f64(f->table, at, anfi_get_f64(f->table, at) + f->weight.at[j]);
    f->voted->data[at] = 1;
    seen[c] = 1;
  }
  size_t k = 0;
  for (size_t c = 0; c < f->targets; c++)
    if (seen[c]) seen[k++] = (int64_t)c;
  f->ids = anfi_trace_hold(f->p->b->t, anfi_value_new_ints(cx, k, seen));
  return true;
}

/* ---- the tables ---- */

static const anfi_traced *whole(const forest *f, size_t n, const int64_t *x) {
  anf_ctx *cx = f->p->b->t->cx;
  int64_t dims[] = {(int64_t)n};
  anf_value *v = anfi_value_new_tensor(cx, anfi_type_tensor(cx, ANF_I64, 1, dims));
  for (size_t i = 0; i < n; i++) anfi_set_i64(v, i, x[i]);
  return anfi_traced_value(f->p->b->t, v);
}

/* A column, zeros for leaves after it. */
static const anfi_traced *table(const forest *f, const column *c, anf_dtype d) {
  anf_ctx *cx = f->p->b->t->cx;
  int64_t dims[] = {(int64_t)f->rows};
  anf_value *v = anfi_value_new_tensor(cx, anfi_type_tensor(cx, d, 1, dims));
  for (size_t i = 0; i < c->n; i++) anfi_set_f64(v, i, c->at[i]);
  return anfi_traced_value(f->p->b->t, v);
}

static const anfi_traced *held(anfi_trace *t, anf_value *v) {
  anf_value_retain(v);
  return anfi_traced_value(t, v);
}

static const anfi_traced *all_tables(forest *f) {
  anfi_trace *t = f->p->b->t;
  int64_t has[MODES] = {0}, modes[MODES];
  size_t k = 0;
  bool positive = true;
  for (size_t i = 0; i < f->rows; i++) has[f->mode[i]] = 1;
  for (int64_t m = 0; m < LEAF; m++)
    if (has[m]) modes[k++] = m;
  for (size_t j = 0; j < f->weight.n; j++) positive &= !(f->weight.at[j] < 0);
  for (size_t i = 0; i < f->feature.n; i++)
    if (f->mode[i] == LEAF) f->feature.at[i] = 0; // never read, whatever the file says
  const anfi_traced *item[] = {
      table(f, &f->split, f->split.wide ? ANF_F64 : ANF_F32),
      table(f, &f->feature, ANF_I64),
      whole(f, f->rows, f->mode),
      whole(f, f->rows, f->yes),
      whole(f, f->rows, f->no),
      f->missing.n ? table(f, &f->missing, ANF_BOOL) : anfi_traced_none(t),
      whole(f, f->rows, f->leaf),
      whole(f, f->roots, f->root),
      held(t, f->table),
      held(t, f->voted),
      anfi_traced_int(t, f->depth),
      anfi_traced_value(t, anfi_value_new_ints(t->cx, k, modes)),
      held(t, f->ids),
      anfi_traced_int(t, positive),
  };
  return anfi_traced_tuple(t, ANFI_LEN(item), item);
}

const anfi_traced *anfi_ox_trees(const anfi_ox_place *p, const anfi_ox_node *n) {
  forest f = {
      .p = p, .n = n, .arena = p->b->t->arena, .by_row = strcmp(n->op->s, "TreeEnsemble") == 0};
  bool good = nodes(&f) && find_roots(&f) && find_depth(&f) && weights(&f);
  return good ? all_tables(&f) : NULL;
}
