// SPDX-License-Identifier: Apache-2.0
/* The loop of a row block (row_plan.c).
 *
 *   h = Tanh(x); s = Sum(h, axis=1)  →  for i: row h = tanh(x[i, :]); s[i] = sum(row h)
 *
 * Each member is lowered on one row, as if its leading dims were 1. Rows of tensors in memory are views of them; a
 * result that a node outside the block reads is written to a tensor, any other lives for a row. The members of a flat
 * block are lowered as they are; one nest writes the elements of all that nodes outside read. */
#include "backend/lower/graph/graph.h"

typedef struct rows {
  glow *w;
  const gplan *p;
  const growblock *b;
  texpr at;        // the row
  anfi_map view;   // node → its row's view
  anfi_map member; // node → 1 + its index in the plan
  texpr *whole;    // by member: where all rows of its result go, or NULL
} rows;

static const anf_type *row_type(const rows *r, const anf_type *t) {
  int64_t dims[ANF_MAX_RANK];
  for (size_t k = 0; k < t->n; k++) dims[k] = k < r->b->nlead ? 1 : t->dims[k];
  return anfi_type_tensor(r->w->cx, (anf_dtype)t->dtype, t->n, dims);
}

static texpr row_of(const rows *r, texpr whole, anf_dtype d, uint64_t n) {
  anfi_low *L = r->w->L;
  return anfi_low_part(L, whole, anfi_lower_elem(d), anfi_ix_mulc(L, r->at, n), n);
}

/* ---- what comes from outside ---- */

static anfi_elem at_row(anfi_low *L, const anfi_view *v, const anfi_pt *p) {
  const rows *r = (const rows *)v->data;
  anfi_pt whole = {0};
  anfi_pt_push(&whole, r->at, r->b->rows);
  for (uint32_t k = 0; k < p->n; k++) anfi_pt_push(&whole, p->at[k], p->extent[k]);
  return anfi_view_at(L, v->in[0], &whole);
}

/* A matrix of a view of memory, such as Transpose(x, (0, 2, 1, 3)), that a product reads where it is; else NULL. */
static anfi_view *strided_matrix(rows *r, const anfi_view *all, const anf_type *t) {
  anfi_low *L = r->w->L;
  int64_t base = 0, stride[ANF_MAX_RANK];
  size_t lead = r->b->nlead;
  if (!r->b->batch || t->n != lead + 2 || !anfi_view_is_lazy(all) || !all->n) return NULL;
  texpr tensor = anfi_map_strides(all, &base, stride), batch[ANF_MAX_RANK];
  uint64_t height = (uint64_t)t->dims[lead], cols = (uint64_t)t->dims[lead + 1];
  for (size_t k = 0; tensor && k < t->n; k++)
    if (stride[k] < 0) return NULL;
  if (!tensor || base < 0) return NULL;
  uint64_t down = (uint64_t)stride[lead], along = (uint64_t)stride[lead + 1];
  bool forward = along == 1 && down >= cols, backward = down == 1 && along >= height;
  if (!forward && !backward) return NULL;
  anfi_pt p = {0};
  anfi_pt_push(&p, r->at, r->b->rows);
  anfi_pt_dims(L, &p, lead, r->b->lead, batch);
  texpr from = anfi_ix(L, (uint64_t)base);
  for (size_t k = 0; k < lead; k++)
    from = anfi_ix_add(L, from, anfi_ix_mulc(L, batch[k], (uint64_t)stride[k]));
  uint64_t n = (height - 1) * down + (cols - 1) * along + 1;
  texpr part = anfi_low_part(L, tensor, anfi_lower_elem(all->dtype), from, n);
  return anfi_map_matrix(L, t, part, forward ? down : along, !forward);
}

static anfi_view *given_row(rows *r, anf_node *n) {
  uint64_t *known = anfi_map_at(&r->view, anfi_key(n));
  anfi_low *L = r->w->L;
  if (*known) return (anfi_view *)(uintptr_t)*known;
  anfi_view *all = anfi_glow_value(r->w, n).at[0], *v;
  const anf_type *t = row_type(r, n->type);
  if (all->kind == VIEW_SCALAR) {
    v = anfi_view_new(L, t, VIEW_SCALAR);
    v->value = all->value;
  } else if (all->tensor)
    v = anfi_view_buffer(L, t, row_of(r, all->tensor, all->dtype, anfi_low_elements(t)));
  else if (!(v = strided_matrix(r, all, t))) {
    anfi_low_op q = {.type = t, .n = 1, .in = &all, .loc = anfi_node_loc(n)};
    v = anfi_view_lazy(L, &q, ORDER_FLAT, at_row);
    v->data = r;
  }
  *anfi_map_at(&r->view, anfi_key(n)) = anfi_key(v);
  return v;
}

static anfi_view *input(rows *r, const anf_node *n, size_t i) {
  anf_node *x = n->in[i].def;
  if (x->type->kind != ANF_TYPE_TENSOR) return NULL;
  switch (anfi_glow_row_way(r->w, r->b, n, i)) {
  case ROW_OWN: return given_row(r, x);
  case ROW_TYPE: return anfi_view_new(r->w->L, x->type, VIEW_SCALAR); // asked for its type alone
  default: return anfi_glow_value(r->w, x).at[0];
  }
}

/* ---- members ---- */

static bool lower_member(rows *r, size_t i) {
  glow *w = r->w;
  anf_node *n = r->p->node[i];
  const anfi_schema *s = anfi_op_schema(w->cx, (anfi_opcode)n->op);
  anfi_view **in = ANFI_NEW_N(w->a, anfi_view *, n->nin + 1), *out = NULL;
  anf_value **attr = ANFI_NEW_N(w->a, anf_value *, s->nattr + 1);
  texpr *to = ANFI_NEW(w->a, texpr), whole = r->whole[i - r->b->from];
  anfi_loc at = anfi_node_loc(n);
  w->t->line = at.line;
  w->t->col = at.col;
  for (size_t k = 0; k < n->nin; k++) in[k] = input(r, n, k);
  for (uint32_t k = 0; k < s->nattr; k++)
    attr[k] = anfi_attr_value(w->cx, (anfi_opcode)n->op, n->u.attrs, k);
  anfi_low_op q = {.op = (anfi_opcode)n->op,
                   .loc = at,
                   .type = row_type(r, n->type),
                   .n = n->nin,
                   .in = in,
                   .attr = attr,
                   .inlined = anfi_fuse_inlined(r->p->inlined, i),
                   .to = whole ? to : NULL};
  if (whole) *to = row_of(r, whole, (anf_dtype)n->type->dtype, anfi_low_elements(q.type));
  if (!anfi_lower_op(w->L, &q, &out)) return false;
  *anfi_map_at(&r->view, anfi_key(n)) = anfi_key(out);
  return true;
}

/* Is it read by anything but the block, or by a member that consumers after the block compute again? */
static bool leaves_block(const rows *r, const bool *leaves, const anf_node *n) {
  if (anfi_is_result(n->graph->module, n)) return true;
  for (const anfi_use *u = n->uses; u; u = u->next) {
    const uint64_t *at = anfi_map_find(&r->member, anfi_key(u->user));
    if (!at || !*at) return true;
    size_t user = (size_t)*at - 1 - r->b->from;
    if (leaves[user] && !r->whole[user]) return true;
  }
  return false;
}

/* Do consumers after the block compute it again (is_cheap_again in fuse.c)? */
static bool is_again(const rows *r, size_t i) {
  return !r->b->flat && anfi_fuse_inlined(r->p->inlined, i);
}

/* The buffer that the node's elements are wanted in, by itself or by a reshape of it that is a result; or NULL. */
static texpr wanted_in(const rows *r, const anf_node *n) {
  const glow *w = r->w;
  while (!w->to[n->id] || !w->to[n->id][0]) {
    const anf_node *user = n->uses && !n->uses->next ? n->uses->user : NULL;
    if (!user || !(anfi_op_of(user)->flags & ANFI_IN_ORDER) ||
        anfi_op_of(user)->lower != ANFI_LOWER_INDEX_MAP || r->p->in_place ||
        user->type->dtype != n->type->dtype || anfi_is_result(n->graph->module, n))
      return NULL;
    n = user;
  }
  return w->to[n->id][0];
}

static void make_room(rows *r) {
  glow *w = r->w;
  bool *leaves = ANFI_NEW_N(w->a, bool, r->b->to - r->b->from + 1);
  for (size_t i = r->b->to; i-- > r->b->from;) {
    const anf_node *n = r->p->node[i];
    leaves[i - r->b->from] = leaves_block(r, leaves, n);
    if (!leaves[i - r->b->from] || is_again(r, i)) continue;
    texpr wanted = wanted_in(r, n);
    anf_tir_elem e = anfi_lower_elem((anf_dtype)n->type->dtype);
    r->whole[i - r->b->from] =
        wanted ? wanted : anfi_low_local(w->L, e, anfi_low_elements(n->type), "y");
  }
}

static uint64_t largest(const rows *r) {
  uint64_t most = 0;
  for (size_t i = r->b->from; i < r->b->to; i++) {
    uint64_t n = anfi_low_elements(r->p->node[i]->type);
    if (n > most) most = n;
  }
  return most;
}

/* A product that is fused into its consumers is computed in tiles, not in rows: it is written first. */
static void write_products(rows *r) {
  anfi_low *L = r->w->L;
  for (size_t i = r->b->from; i < r->b->to; i++)
    for (size_t k = 0; k < r->p->node[i]->nin; k++) {
      anf_node *x = r->p->node[i]->in[k].def;
      if (x->type->kind != ANF_TYPE_TENSOR || anfi_map_find(&r->member, anfi_key(x))) continue;
      if (anfi_low_asks_type(r->p->node[i], k)) continue; // it may come later
      anfi_view *v = anfi_glow_value(r->w, x).at[0];
      if (v && anfi_view_product(L, v)) anfi_view_force(L, v);
    }
}

/* ---- flat blocks ---- */

static bool lower_flat(rows *r, size_t i) {
  glow *w = r->w;
  anf_node *n = r->p->node[i];
  const anfi_schema *s = anfi_op_schema(w->cx, (anfi_opcode)n->op);
  anfi_view **in = ANFI_NEW_N(w->a, anfi_view *, n->nin + 1);
  anf_value **attr = ANFI_NEW_N(w->a, anf_value *, s->nattr + 1);
  gval out = anfi_glow_new(w, 1);
  for (size_t k = 0; k < n->nin; k++)
    in[k] = anfi_low_asks_type(n, k) ? anfi_view_new(w->L, n->in[k].def->type, VIEW_SCALAR)
                                     : anfi_glow_value(w, n->in[k].def).at[0];
  for (uint32_t k = 0; k < s->nattr; k++)
    attr[k] = anfi_attr_value(w->cx, (anfi_opcode)n->op, n->u.attrs, k);
  anfi_low_op q = {.op = (anfi_opcode)n->op,
                   .loc = anfi_node_loc(n),
                   .type = n->type,
                   .n = n->nin,
                   .in = in,
                   .attr = attr,
                   .inlined = true};
  w->t->line = q.loc.line;
  w->t->col = q.loc.col;
  if (!anfi_lower_op(w->L, &q, out.at)) return false;
  w->env[n->id] = out;
  return true;
}

static void write_flat(rows *r) {
  anfi_low *L = r->w->L;
  size_t n = r->b->to - r->b->from, k = 0;
  anfi_view **all = ANFI_NEW_N(r->w->a, anfi_view *, n + 1);
  anfi_nest nest;
  for (size_t i = 0; i < n; i++)
    if (r->whole[i]) all[k++] = r->w->env[r->p->node[r->b->from + i]->id].at[0];
  anfi_low_op q = {.type = all[0]->type, .n = k, .in = all, .loc = all[0]->loc};
  anfi_nest_open(L, &nest, anfi_view_lazy(L, &q, ORDER_POINT, NULL), 0, NULL);
  for (size_t i = 0; i < n; i++) {
    if (!r->whole[i]) continue;
    const anfi_view *v = r->w->env[r->p->node[r->b->from + i]->id].at[0];
    anfi_low_put(L, r->whole[i], anfi_pt_linear(L, &nest.pt), anfi_view_at(L, v, &nest.pt), false);
  }
  anfi_nest_close(L, &nest);
}

static bool flat_nest(rows *r) {
  bool good = true;
  for (size_t i = r->b->from; i < r->b->to && good; i++) good = lower_flat(r, i);
  if (good) write_flat(r);
  return good;
}

/* ---- all ---- */

/* Members that consumers after the block compute again stand for their expressions, as do the inputs of these. */
static bool tell_again(rows *r, size_t i) {
  const anf_node *n = r->p->node[i];
  if (!is_again(r, i)) return true;
  for (size_t k = 0; k < n->nin; k++) {
    const anf_node *x = n->in[k].def;
    if (anfi_map_find(&r->member, anfi_key(x)) && !r->w->env[x->id].at[0]) return true;
  }
  return lower_flat(r, i);
}

static bool tell_results(rows *r) {
  bool good = true;
  for (size_t i = r->b->from; i < r->b->to && good; i++) {
    anf_node *n = r->p->node[i];
    gval v = anfi_glow_new(r->w, 1);
    texpr whole = r->whole[i - r->b->from];
    v.at[0] = whole ? anfi_view_buffer(r->w->L, n->type, whole) : NULL;
    if (whole) v.at[0]->owned = anfi_lower_is_scalar((anfi_opcode)n->op) && !wanted_in(r, n);
    r->w->env[n->id] = v;
    good = tell_again(r, i);
  }
  return good;
}

/* Right operands that all matrices share are packed once for them. Gives how many were packed before. */
static size_t pack_shared(rows *r) {
  glow *w = r->w;
  size_t packed = w->L->packed.n;
  for (size_t i = r->b->from; i < r->b->to; i++) {
    const anf_node *n = r->p->node[i];
    if (!anfi_is_op(n, ANF_OP_MatMul) || anfi_glow_row_way(w, r->b, n, 1) != ROW_WHOLE) continue;
    const anf_type *t = n->in[1].def->type;
    anfi_view *b = anfi_glow_value(w, n->in[1].def).at[0];
    bool ta = anfi_attr_bool(anfi_attr_value(w->cx, ANF_OP_MatMul, n->u.attrs, 0));
    bool tb = anfi_attr_bool(anfi_attr_value(w->cx, ANF_OP_MatMul, n->u.attrs, 1));
    if (!b || !anfi_view_in_memory(b) || ta || tb) continue;
    anfi_mm q = {.elem = anfi_lower_elem((anf_dtype)n->type->dtype), .b = b->tensor};
    q.m = (uint64_t)n->type->dims[n->type->n - 2];
    q.k = q.lda = (uint64_t)t->dims[0], q.n = q.ldb = q.ldc = (uint64_t)t->dims[1];
    if (t->dtype == n->type->dtype && anfi_low_gemm_wanted(&q)) anfi_low_gemm_prepack(w->L, &q);
  }
  return packed;
}

static bool row_loop(rows *r) {
  anfi_low *L = r->w->L;
  anfi_loop l;
  bool good = true, before = L->in_parallel;
  write_products(r);
  size_t packed = pack_shared(r);
  anfi_low_loop(L, &l, r->b->rows, "row");
  l.parallel = L->o.parallel && !before && largest(r) >= ANFI_PARALLEL_WORK;
  L->in_parallel |= l.parallel;
  r->at = l.var;
  for (size_t i = r->b->from; i < r->b->to && good; i++) good = lower_member(r, i);
  anfi_low_loop_end(L, &l);
  anfi_low_gemm_drop_packed(L, packed);
  L->in_parallel = before;
  return good;
}

bool anfi_glow_rows(glow *w, const gplan *p, const growblock *b) {
  rows *r = ANFI_NEW(w->a, rows);
  *r = (rows){.w = w, .p = p, .b = b, .whole = ANFI_NEW_N(w->a, texpr, b->to - b->from + 1)};
  anfi_map_init(&r->view, w->a);
  anfi_map_init(&r->member, w->a);
  for (size_t i = b->from; i < b->to; i++) *anfi_map_at(&r->member, anfi_key(p->node[i])) = i + 1;
  make_room(r);
  return (b->flat ? flat_nest(r) : row_loop(r)) && tell_results(r);
}
