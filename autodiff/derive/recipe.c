// SPDX-License-Identifier: Apache-2.0
/* Recipes: the formulas of a row compiled for operands that all have one type, as most have.
 *   Sub 1 (Square y), y: f64[3]          step 0: Square(y): f64[3];  step 1: Sub(1, step 0): f64[3]
 * A list of ops with known result types, made once per transform. Following it takes a fraction of the time
 * of building from terms, and makes the same nodes in the same order. */
#include "autodiff/derive/formula.h"
#include "ir/ops/op.h"

enum { STEPS = ANFI_RECIPE_STEPS, ARGS = 4, INPUTS = ANFI_RECIPE_INPUTS };

/* Where an argument comes from: operand `index`, then y and dy after the operands, then results of
 * earlier steps; or a number. */
typedef struct {
  bool is_number;
  uint16_t dtype, index;
  double number;
} source;

typedef struct {
  anfi_opcode op;
  uint32_t n;
  const anf_type *type;
  source in[ARGS];
} step;

struct anfi_recipe {
  anfi_opcode op;
  uint32_t want; // bit set of operands
  uint32_t n, nstep;
  const anf_type *type; // of operands, y and dy
  bool none;            // there is no recipe: formulas must be read
  uint16_t out[INPUTS]; // where the adjoint of each wanted operand is, ...
  uint32_t minus;       // ... or, bit set, its negative
  step at[];
};

/* ---- writing ---- */

typedef struct {
  bool known;
  source from;
} slot;

typedef struct {
  anfi_ad *ad;
  const anfi_formula *f;
  anfi_recipe *r;
  slot *of; // by term
} writer;

static const anf_type *type_at(const anfi_recipe *r, uint32_t index) {
  return index < r->n + 2 ? r->type : r->at[index - r->n - 2].type;
}

static bool write_term(writer *w, uint32_t i);

/* The conjugate of a real is itself; ops on numbers are numbers. */
static bool is_done(writer *w, const anfi_term *t, source *out) {
  double x[2] = {0, 0};
  const source *first = &w->of[t->in[0]].from;
  if (t->op == ANF_OP_Conj && t->n == 1 && !first->is_number) return *out = *first, true;
  for (uint32_t i = 0; i < t->n; i++) {
    if (!w->of[t->in[i]].from.is_number || i == ANFI_LEN(x)) return false;
    x[i] = w->of[t->in[i]].from.number;
  }
  out->is_number = true;
  return t->n && anfi_on_numbers(t->op, x, &out->number);
}

/* Numbers take the type of their neighbours: one that all of these have, or the operands'. */
static void give_types(const anfi_recipe *r, step *s) {
  anf_dtype d = ANF_BOOL;
  for (uint32_t i = 0; i < s->n; i++)
    if (!s->in[i].is_number)
      anfi_dtype_promote(d, (anf_dtype)type_at(r, s->in[i].index)->dtype, &d);
  for (uint32_t i = 0; i < s->n; i++)
    s->in[i].dtype = (uint16_t)(d == ANF_BOOL ? (anf_dtype)r->type->dtype : d);
}

static bool infer(writer *w, step *s) {
  anf_ctx *cx = w->ad->m->cx;
  const anf_type *t[ARGS];
  for (uint32_t i = 0; i < s->n; i++)
    t[i] = s->in[i].is_number ? anfi_type_scalar(cx, (anf_dtype)s->in[i].dtype)
                              : type_at(w->r, s->in[i].index);
  anfi_infer q = {.cx = cx, .op = s->op, .n = s->n, .in = t};
  if (!anfi_infer_op(&q) || q.out->kind != ANF_TYPE_TENSOR) return false;
  s->type = q.out;
  return true;
}

static bool write_op(writer *w, const anfi_term *t, source *out) {
  anfi_recipe *r = w->r;
  if (t->n > ARGS || t->nattr || anfi_op_schema(w->ad->m->cx, t->op)->nattr) return false;
  for (uint32_t i = 0; i < t->n; i++)
    if (!write_term(w, t->in[i])) return false;
  if (is_done(w, t, out)) return true;
  if (r->nstep == STEPS) return false;
  step *s = &r->at[r->nstep];
  *s = (step){.op = t->op, .n = t->n};
  for (uint32_t i = 0; i < t->n; i++) s->in[i] = w->of[t->in[i]].from;
  give_types(r, s);
  if (!infer(w, s)) return false;
  *out = (source){.index = (uint16_t)(r->n + 2 + r->nstep++)};
  return true;
}

static bool write_term(writer *w, uint32_t i) {
  const anfi_term *t = &w->f->terms.at[i];
  source s = {0};
  bool good = !t->many;
  if (w->of[i].known) return true;
  switch (t->kind) {
  case OF_INPUT:
    s.index = (uint16_t)t->index;
    good &= t->index < w->r->n;
    break;
  case OF_Y: s.index = (uint16_t)w->r->n; break;
  case OF_DY:
    s.index = (uint16_t)(w->r->n + 1);
    good &= t->index == 0;
    break;
  case OF_NUMBER:
    s.is_number = true;
    s.number = t->number;
    break;
  case OF_OP: good = good && write_op(w, t, &s); break;
  default: good = false;
  }
  w->of[i] = (slot){true, s};
  return good;
}

/* Negations move into the sums of adjoints, where most become differences. */
static uint32_t without_sign(const anfi_formula *f, uint32_t root, uint32_t i, uint32_t *minus) {
  const anfi_term *t = &f->terms.at[root];
  for (; t->kind == OF_OP && t->op == ANF_OP_Neg && t->n == 1; t = &f->terms.at[root]) {
    root = t->in[0];
    *minus ^= UINT32_C(1) << i;
  }
  return root;
}

static bool write_all(anfi_ad *ad, const anfi_formula *f, anfi_recipe *r) {
  writer w = {ad, f, r, ANFI_NEW_N(ad->arena, slot, f->terms.n + 1)};
  for (uint32_t i = 0; i < r->n; i++) {
    if (!(r->want >> i & 1)) continue;
    if (anfi_formula_says(f, i) != ANFI_DERIVATIVE) return false;
    uint32_t root = without_sign(f, (uint32_t)anfi_formula_root(f, i), i, &r->minus);
    if (!write_term(&w, root)) return false;
    const source *s = &w.of[root].from;
    if (s->is_number || type_at(r, s->index) != r->type) return false;
    r->out[i] = s->index;
  }
  return true;
}

/* In a frame of its own: failing to compile is no error, the formula is built from terms instead. */
static anf_status write_quietly(anfi_ad *ad, const anfi_formula *f, anfi_recipe *r) {
  anf_ctx *cx = ad->m->cx;
  anf_diag *nothing = NULL;
  ANFI_ENTRY(cx, nothing);
  cx->frame->diag = NULL;
  r->none = !write_all(ad, f, r);
  return anfi_leave(cx);
}

static bool is_common(const anf_type *t) {
  size_t n;
  return t && t->kind == ANF_TYPE_TENSOR && anfi_type_elements(t, &n) &&
         anfi_dtype_class((anf_dtype)t->dtype) == ANFI_CLASS_FLOAT;
}

static const anfi_recipe *new_recipe(anfi_ad *ad, anfi_opcode op, uint32_t want, uint32_t n,
                                     const anf_type *t) {
  anfi_recipe *r = (anfi_recipe *)anfi_zalloc(ad->arena, sizeof *r + STEPS * sizeof(step));
  *r = (anfi_recipe){.op = op, .want = want, .n = n, .type = t, .none = true};
  const anfi_formula *f = anfi_formula_of_row(ad, op); // which holds on to constants of this frame
  if (!f || anfi_op_schema(ad->m->cx, op)->nattr) return r;
  anf_status st = write_quietly(ad, f, r);
  if (st == ANF_NOMEM) anfi_throw_nomem(ad->m->cx);
  r->none |= st != ANF_OK;
  return r;
}

/* ---- following ---- */

static const anfi_recipe *write_recipe(anfi_ad *ad, const anfi_recipe **at, anfi_opcode op,
                                       uint32_t n, const anf_type *t, uint32_t want) {
  if (n > INPUTS || !is_common(t)) return NULL;
  *at = new_recipe(ad, op, want, n, t);
  ad->common = t;
  return (*at)->none ? NULL : *at;
}

const anfi_recipe *anfi_recipe_for(anfi_ad *ad, anfi_opcode op, uint32_t n, const anf_type *t,
                                   uint32_t want) {
  const anfi_recipe **at = &ad->recipe[(t->hash ^ op ^ want * 67) % ANFI_AD_TYPES], *r = *at;
  if (!r || r->type != t || r->op != op || r->want != want || r->n != n)
    return write_recipe(ad, at, op, n, t, want);
  return r->none ? NULL : r;
}

const anfi_recipe *anfi_recipe_of(const anfi_derive *q) {
  anfi_ad *ad = q->ad;
  const anf_type *t = q->y->type;
  uint32_t want = 0;
  if (q->ndy != 1 || q->n > INPUTS || q->n != q->primal->nin || q->dy[0]->type != t) return NULL;
  for (uint32_t i = 0; i < q->n; i++) {
    if (anfi_ad_type_of(ad, q->in[i]) != t) return NULL;
    want |= (uint32_t)q->want[i] << i;
  }
  return t ? anfi_recipe_for(ad, q->op, (uint32_t)q->n, t, want) : NULL;
}

bool anfi_recipe_make(anfi_ad *ad, anf_graph *g, const anfi_recipe *r, anf_node **at,
                      anf_node **out) {
  anf_node *arg[ARGS], **made = at + r->n + 2;
  anfi_apply_of of = anfi_ad_next(ad, g);
  for (uint32_t k = 0; k < r->nstep; k++) {
    const step *s = &r->at[k];
    for (uint32_t i = 0; i < s->n; i++)
      arg[i] = s->in[i].is_number ? anfi_ad_number(ad, (anf_dtype)s->in[i].dtype, s->in[i].number)
                                  : at[s->in[i].index];
    of.op = (uint16_t)s->op;
    of.type = s->type;
    if (!(made[k] = anfi_ad_apply_typed(ad, &of, s->n, arg))) return false;
  }
  for (uint32_t i = 0; i < r->n; i++)
    if (r->want >> i & 1) out[i] = at[r->out[i]];
  return true;
}

uint32_t anfi_recipe_minus(const anfi_recipe *r) { return r->minus; }

bool anfi_recipe_follow(const anfi_derive *q, const anfi_recipe *r) {
  anf_node *at[ANFI_RECIPE_PLACES];
  for (uint32_t i = 0; i < r->n; i++) at[i] = q->in[i];
  at[r->n] = q->y;
  at[r->n + 1] = q->dy[0];
  if (!anfi_recipe_make(q->ad, q->g, r, at, q->out)) return false;
  for (uint32_t i = 0; r->minus >> i; i++)
    if (r->minus >> i & 1 && !(q->out[i] = anfi_ad_apply1(q->ad, q->g, ANF_OP_Neg, q->out[i])))
      return false;
  return true;
}
