// SPDX-License-Identifier: Apache-2.0
/* Recipes: the evaluation of a row's formulas, recorded for operands that all have one type, as most have.
 *   Sub 1 (Square y), y: f64[3]          step 0: Square(y): f64[3];  step 1: Sub(1, step 0): f64[3]
 * A list of ops with known result types, made once per transform. Following it takes a fraction of the time
 * of an evaluation (evaluate.c), and makes the same nodes in the same order. */
#include "autodiff/derive/formula.h"
#include "ir/ops/op.h"

enum { STEPS = ANFI_RECIPE_STEPS, ARGS = 4, INPUTS = ANFI_RECIPE_INPUTS };

/* An argument of a step: `index` counts the operands, then y and dy, then results of
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
  /* key */
  anfi_opcode op;
  uint32_t want; // bit set of operands
  uint32_t n, nstep;
  const anf_type *type; // of operands, y and dy
  /* program */
  bool none;            // there is no recipe: formulas must be read
  uint16_t out[INPUTS]; // where the adjoint of each wanted operand is, ...
  uint32_t minus;       // ... or, bit set, its negative
  step at[];
};

/* ---- recording: the steps of an evaluation ---- */

static const anf_type *type_at(const anfi_recipe *r, uint32_t index) {
  return index < r->n + 2 ? r->type : r->at[index - r->n - 2].type;
}

bool anfi_recipe_place(const anfi_recipe *r, const anfi_term *t, anfi_operand *out) {
  uint32_t at = t->kind == OF_INPUT ? t->index : t->kind == OF_Y ? r->n : r->n + 1;
  bool good = t->kind == OF_INPUT ? at < r->n && !t->many
                                  : t->kind == OF_Y || (t->kind == OF_DY && t->index == 0);
  out->place = (uint16_t)at;
  out->type = r->type;
  return good;
}

static bool infer(anf_ctx *cx, const anfi_recipe *r, step *s) {
  const anf_type *t[ARGS];
  for (uint32_t i = 0; i < s->n; i++)
    t[i] = s->in[i].is_number ? anfi_type_scalar(cx, (anf_dtype)s->in[i].dtype)
                              : type_at(r, s->in[i].index);
  anfi_infer q = {.cx = cx, .op = s->op, .n = s->n, .in = t};
  if (!anfi_infer_op(&q) || q.out->kind != ANF_TYPE_TENSOR) return false;
  s->type = q.out;
  return true;
}

bool anfi_recipe_step(anfi_evaluation *e, const anfi_term *t, anf_dtype number, anfi_operand *out) {
  anfi_recipe *r = e->recipe;
  if (t->n > ARGS || anfi_op_schema(e->ad->m->cx, t->op)->nattr || r->nstep == STEPS) return false;
  step *s = &r->at[r->nstep];
  *s = (step){.op = t->op, .n = t->n};
  for (uint32_t i = 0; i < t->n; i++) {
    const anfi_operand *o = &e->at[t->in[i]];
    if (!o->known) return false; // a repeated input
    s->in[i] = (source){o->is_number, (uint16_t)number, o->place, o->number};
  }
  if (!infer(e->ad->m->cx, r, s)) return false;
  out->type = s->type;
  out->place = (uint16_t)(r->n + 2 + r->nstep++);
  return true;
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

static bool record_all(anfi_ad *ad, const anfi_formula *f, anfi_recipe *r) {
  anfi_evaluation e = {.ad = ad, .f = f, .recipe = r, .of_dy = (anf_dtype)r->type->dtype};
  e.at = ANFI_NEW_N(ad->arena, anfi_operand, f->terms.n + 1);
  for (uint32_t i = 0; i < r->n; i++) {
    if (!(r->want >> i & 1)) continue;
    if (anfi_formula_says(f, i) != ANFI_DERIVATIVE) return false;
    uint32_t root = without_sign(f, (uint32_t)anfi_formula_root(f, i), i, &r->minus);
    if (!anfi_evaluate(&e, root) || e.at[root].type != r->type) return false;
    r->out[i] = e.at[root].place;
  }
  return true;
}

/* In a frame of its own: failing to record is no error, the formula is built from terms instead. */
static anf_status record_quietly(anfi_ad *ad, const anfi_formula *f, anfi_recipe *r) {
  anf_ctx *cx = ad->m->cx;
  anf_diag *nothing = NULL;
  ANFI_ENTRY(cx, nothing);
  cx->frame->diag = NULL;
  r->none = !record_all(ad, f, r);
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
  anf_status st = record_quietly(ad, f, r);
  if (st == ANF_NOMEM) anfi_throw_nomem(ad->m->cx);
  r->none |= st != ANF_OK;
  return r;
}

/* ---- following ---- */

static const anfi_recipe *record_recipe(anfi_ad *ad, const anfi_recipe **at, anfi_opcode op,
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
    return record_recipe(ad, at, op, n, t, want);
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
