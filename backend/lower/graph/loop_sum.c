// SPDX-License-Identifier: Apache-2.0
/* Sums of products over the rounds of a loop: s' = s + aᵀ b, where nothing else reads s.
 *   for i: s = s + aᵀ b of round i   ->   for i: A[i] = a; B[i] = b; if 256 rows are there: s += Aᵀ B
 * That is how a derivative gathers the gradient of a matrix, and a round of it reads and writes all of s for a few
 * rows of a and b. So rounds write down their rows of a and b, and each time enough of them are there, one product
 * adds them to s. Sums are taken in the order of the rounds, but in other groups: only loops of derivatives are taken
 * (ANFI_GRAPH_ADJOINT). */
#include "backend/lower/graph/graph.h"

enum { ROWS = 256, FEW_ROWS = 64 }; // of a product; of a round: more is as good as a product

typedef struct noted { // rows of a node, of several rounds
  anf_node *node;
  texpr room, to; // to: where those of the current round go
  uint64_t n;     // elements of a round
} noted;

typedef struct rowsum {
  /* the pattern */
  anf_node *state, *sum, *product, *a, *b; // sum = state + product, which is aᵀ b
  size_t leaf;                             // which the state is
  /* its buffer and sizes */
  texpr room; // where it is
  anf_tir_elem elem;
  uint64_t rows, m, n; // of a round: a is [rows, m], b is [rows, n]
} rowsum;

struct gsums {
  glow *w;
  uint64_t rounds; // that are written down
  texpr count;     // how many are
  ANFI_VEC(rowsum) at;
  ANFI_VEC(noted) noted;
};

/* ---- which ---- */

static bool is_matrix(const anf_type *t, anf_dtype d) {
  return t && t->kind == ANF_TYPE_TENSOR && t->n == 2 && t->dtype == d && t->dims[0] > 0 &&
         t->dims[1] > 0;
}

static bool flag(anf_ctx *cx, const anf_node *n, uint32_t k) {
  return anfi_attr_bool(anfi_attr_value(cx, (anfi_opcode)n->op, n->u.attrs, k));
}

/* x = aᵀ b of few rows, which only the sum reads? */
static bool is_product(const glow *w, const anf_node *x, anf_dtype d) {
  enum { TA, TB };
  return anfi_is_op(x, ANF_OP_MatMul) && anfi_only_user(x) && flag(w->cx, x, TA) &&
         !flag(w->cx, x, TB) && is_matrix(x->in[0].def->type, d) &&
         is_matrix(x->in[1].def->type, d) && x->in[0].def->type->dims[0] <= FEW_ROWS;
}

static bool is_sum(const glow *w, anf_node *state, const anf_node *next, rowsum *r) {
  const anf_type *t = state->type;
  anf_node *add = anfi_only_user(state);
  if (!add || add != next || !anfi_is_op(add, ANF_OP_Add) || !anfi_only_user(add)) return false;
  if (add->type != t || !t || (t->dtype != ANF_F32 && t->dtype != ANF_F64)) return false;
  anf_node *x = add->in[add->in[0].def == state].def;
  if (!is_matrix(t, (anf_dtype)t->dtype) || x->type != t) return false;
  if (!is_product(w, x, (anf_dtype)t->dtype)) return false;
  *r = (rowsum){.state = state, .sum = add, .product = x, .a = x->in[0].def, .b = x->in[1].def};
  r->elem = anfi_lower_elem((anf_dtype)t->dtype);
  r->rows = (uint64_t)r->a->type->dims[0];
  r->m = (uint64_t)t->dims[0], r->n = (uint64_t)t->dims[1];
  anfi_mm whole = {.elem = r->elem, .m = r->m, .n = r->n, .k = ROWS};
  return anfi_low_gemm_wanted(&whole);
}

/* Neither the sum nor its product is computed in a round. */
static void leave_out(glow *w, const rowsum *r) {
  *anfi_map_at(&w->left, r->sum->id) = 1;
  *anfi_map_at(&w->left, r->product->id) = 1;
}

static texpr rows_of(const gsums *s, const anf_node *x) {
  for (size_t i = 0; i < s->noted.n; i++)
    if (s->noted.at[i].node == x) return s->noted.at[i].room;
  return NULL;
}

static void make_room(gsums *s, anf_tir_elem e, anf_node *x) {
  if (rows_of(s, x)) return;
  noted one = {.node = x, .n = anfi_low_elements(x->type)};
  one.room = anfi_low_local(s->w->L, e, s->rounds * one.n, "rows");
  anfi_push(s->w->a, &s->noted, one);
}

gsums *anfi_glow_sums(glow *w, anf_graph *step, size_t first, size_t ns, size_t item) {
  gsums *s = ANFI_NEW(w->a, gsums);
  const anf_node *r = step->result;
  s->w = w;
  if (!(step->flags & ANFI_GRAPH_ADJOINT) || w->uses[step->id] != 1) return s;
  if (!anfi_is_op(r, ANF_OP_MakeTuple)) return s;
  for (size_t i = 0, leaf = 0; i < ns; i++) {
    anf_node *state = step->params.at[first + i];
    rowsum one;
    if (is_sum(w, state, r->in[item + i].def, &one)) {
      one.leaf = leaf;
      anfi_push(w->a, &s->at, one);
    }
    leaf += anfi_leaf_count(state->type);
  }
  for (size_t i = 0; i < s->at.n; i++) leave_out(w, &s->at.at[i]);
  return s;
}

bool anfi_glow_sums_has(const gsums *s, const anf_node *state) {
  for (size_t i = 0; i < s->at.n; i++)
    if (s->at.at[i].state == state) return true;
  return false;
}

void anfi_glow_sums_open(gsums *s, const texpr *room) {
  glow *w = s->w;
  uint64_t rows = 1; // the most of any
  if (!s->at.n) return;
  for (size_t i = 0; i < s->at.n; i++)
    if (s->at.at[i].rows > rows) rows = s->at.at[i].rows;
  s->rounds = ROWS / rows;
  s->count = anfi_low_var(w->L, ANFI_S64, "noted", anfi_t_int(w->t, ANFI_S64, 0));
  for (size_t i = 0; i < s->at.n; i++) {
    rowsum *one = &s->at.at[i];
    one->room = room[one->leaf];
    make_room(s, one->elem, one->a);
    make_room(s, one->elem, one->b);
  }
}

/* ---- in a round ---- */

/* The address of the next round's rows. */
static texpr place(const gsums *s, const noted *x) {
  tstore *t = s->w->t;
  texpr at = anfi_t_bin(t, TX_mul, anfi_t_cast(t, ANFI_IX, s->count), anfi_t_index(t, x->n));
  return anfi_low_let(s->w->L, at, "at");
}

void anfi_glow_sums_begin(const gsums *s) {
  glow *w = s->w;
  for (size_t i = 0; i < s->at.n; i++) w->env[s->at.at[i].sum->id] = w->env[s->at.at[i].state->id];
  for (size_t i = 0; i < s->noted.n; i++) {
    noted *x = &s->noted.at[i];
    anf_tir_elem e = anfi_lower_elem((anf_dtype)x->node->type->dtype);
    x->to = anfi_low_part(w->L, x->room, e, place(s, x), x->n);
    anfi_glow_wish(w, x->node->graph, x->node, 0, x->to);
  }
}

/* Adds the rows written so far to the sums: one product, traced as the product of each round would have been. */
static void add_up(const gsums *s) {
  anfi_low *L = s->w->L;
  bool traced = s->w->o->regions;
  for (size_t i = 0; i < s->at.n; i++) {
    const rowsum *r = &s->at.at[i];
    anfi_mm q = {.elem = r->elem, .m = r->m, .n = r->n, .k = s->rounds * r->rows};
    q.lda = r->m, q.ldb = q.ldc = r->n;
    q.ta = true;
    q.a = rows_of(s, r->a), q.b = rows_of(s, r->b), q.c = q.rhs = r->room;
    q.a0 = q.b0 = q.c0 = anfi_ix(L, 0);
    size_t region = traced ? anfi_glow_region_begin(s->w, r->product) : 0;
    if (traced) s->w->out->regions.at[region].flops *= (double)s->rounds;
    anfi_low_gemm(L, &q);
    if (traced) anfi_glow_region_end(s->w, region);
  }
}

void anfi_glow_sums_round(const gsums *s) {
  glow *w = s->w;
  tstore *t = w->t;
  if (!s->at.n) return;
  for (size_t i = 0; i < s->noted.n; i++)
    anfi_view_store(w->L, anfi_glow_value(w, s->noted.at[i].node).at[0], s->noted.at[i].to);
  anfi_low_set(w->L, s->count, anfi_t_add(t, s->count, anfi_t_int(t, ANFI_S64, 1)));
  anfi_low_if(w->L);
  add_up(s);
  anfi_low_set(w->L, s->count, anfi_t_int(t, ANFI_S64, 0));
  texpr all = anfi_t_int(t, ANFI_S64, (int64_t)s->rounds);
  anfi_low_if_end(w->L, anfi_t_bin(t, TX_cmp_eq, s->count, all));
}

/* ---- after the loop ---- */

static void clear(const gsums *s, const noted *x) {
  anfi_low *L = s->w->L;
  anfi_loop l;
  anfi_low_loop_range(L, &l, place(s, x), anfi_ix(L, s->rounds * x->n), 1, "i");
  texpr zero = anfi_low_const(L, anfi_low_dt((anf_dtype)x->node->type->dtype), 0);
  anfi_low_put(L, x->room, l.var, (anfi_elem){zero, NULL}, false);
  anfi_low_loop_end(L, &l);
}

/* Rounds that are missing have rows of zeros. */
void anfi_glow_sums_end(const gsums *s) {
  anfi_low *L = s->w->L;
  if (!s->at.n) return;
  anfi_low_if(L);
  for (size_t i = 0; i < s->noted.n; i++) clear(s, &s->noted.at[i]);
  add_up(s);
  anfi_low_if_end(L, anfi_t_lt(L->t, anfi_t_int(L->t, ANFI_S64, 0), s->count));
}
