// SPDX-License-Identifier: Apache-2.0
/* Loop: the state is variables and buffers; the body is the step itself, so a turn calls nothing.
 *   s = Loop(step, n, s0)   ->   s = s0; for i in (0, n, 1) { s = the body of step with s } */
#include "backend/lower/graph/loop.h"

enum { FIRST_ROUNDS = 8 }; // records; memory for more is mostly found after them

static texpr number(const looping *l, int64_t v) { return anfi_t_int(l->w->t, ANFI_S64, v); }
static texpr index_word(const looping *l, texpr v) { return anfi_t_cast(l->w->t, ANFI_IX, v); }

/* ---- what the node says ---- */

static bool read_attrs(looping *l) {
  anfi_loop_op p = anfi_loop_parts(l->n);
  l->step = p.step;
  l->nw = p.nw;
  l->ns = p.ns;
  l->nx = p.nx;
  l->nout = p.nout;
  l->counted = p.counted;
  l->reverse = p.reverse;
  l->tells = p.rounds;
  l->guarded = p.go != NULL;
  l->arg = l->n->in + p.first_w;
  return l->step || anfi_fail(l->w->cx, anfi_node_loc(l->n), ANF_E0952);
}

/* Element types: of stacks that are read the step's last parameters, of those written the last
 * items of its result. */
static bool find_stacks(looping *l) {
  glow *w = l->w;
  const anf_type *r = l->step->result->type;
  l->x = ANFI_NEW_N(w->a, gstack, l->nx + 1);
  l->out = ANFI_NEW_N(w->a, gstack, l->nout + 1);
  for (size_t i = 0; i < l->nx + l->nout; i++) {
    bool reads = i < l->nx;
    gstack *s = reads ? &l->x[i] : &l->out[i - l->nx];
    const anf_type *t = reads ? l->step->params.at[l->nw + l->ns + i]->type
                              : r->items[r->n - l->nout + (i - l->nx)];
    if (!anfi_glow_leaves(w, t, anfi_node_loc(l->n), &s->leaves)) return false;
    s->type = t;
    s->at = ANFI_NEW_N(w->a, uint64_t, s->leaves.n + 1);
  }
  return true;
}

/* Is it given by the slot of a leaf of the state that lives in another stack? */
static bool is_elsewhere(const looping *l, size_t i) {
  return l->out[i].state && l->place[l->out[i].state - 1].slot != i;
}

static void lay_out(looping *l) {
  enum { MOST = 64 }; // what records are aligned to
  uint64_t *align = ANFI_NEW_N(l->w->a, uint64_t, l->nx + l->nout + 1);
  for (size_t i = 0; i < l->nx; i++)
    l->x[i].bytes = anfi_glow_layout(&l->x[i].leaves, 0, l->x[i].at, align);
  for (size_t i = 0; i < l->nout; i++)
    l->out[i].bytes = anfi_glow_layout(&l->out[i].leaves, 0, l->out[i].at, &align[i]);
  for (int aligned = 1; aligned >= 0; aligned--) // these first: so all are, whatever the rounds
    for (size_t i = 0; i < l->nout; i++) {
      if ((align[i] == MOST) != aligned || is_elsewhere(l, i)) continue;
      l->out[i].before = l->bytes;
      l->bytes += l->out[i].bytes;
    }
}

static bool state_leaves(looping *l, anfi_leaves *out, gval *given) {
  ANFI_VEC(anfi_view *) all = {0};
  for (size_t i = 0; i < l->ns; i++) {
    const anf_node *x = l->arg[l->nw + i].def;
    anfi_leaves own = {0};
    if (!anfi_glow_leaves(l->w, x->type, anfi_node_loc(x), &own)) return false;
    gval v = anfi_glow_value(l->w, l->arg[l->nw + i].def);
    for (size_t k = 0; k < v.n; k++) {
      anfi_push(l->w->a, &all, v.at[k]);
      anfi_push(l->w->a, out, own.at[k]);
    }
  }
  *given = (gval){all.n, all.at};
  return true;
}

/* ---- stacks ---- */

static texpr word(const looping *l, uint64_t v) { return anfi_t_index(l->w->t, v); }

static texpr bytes_of(const looping *l, texpr rounds, uint64_t each) {
  return anfi_low_let(l->w->L, anfi_t_bin(l->w->t, TX_mul, index_word(l, rounds), word(l, each)),
                      "n");
}

/* Where a stack begins in the array at p that has room for so many rounds. */
static texpr base_in(const looping *l, const gstack *s, texpr p, texpr room) {
  if (!s->before) return p;
  return anfi_low_let(l->w->L, anfi_t_add(l->w->t, p, bytes_of(l, room, s->before)), "base");
}

static void open_written(looping *l) {
  glow *w = l->w;
  texpr room = l->counted ? l->rounds : number(l, FIRST_ROUNDS);
  if (l->counted && l->ahead) room = anfi_t_add(w->t, room, number(l, 1));
  texpr p = anfi_glow_keep(w, bytes_of(l, room, l->bytes));
  for (size_t i = 0; i < l->nout; i++) {
    gstack *s = &l->out[i];
    if (is_elsewhere(l, i)) continue;
    s->base = base_in(l, s, p, room);
    if (!l->counted) s->base = anfi_low_var(w->L, ANFI_IX, "base", s->base);
  }
  if (l->counted) return;
  l->base = anfi_low_var(w->L, ANFI_IX, "base", p);
  l->cap = anfi_low_var(w->L, ANFI_S64, "cap", room);
}

static void open_stacks(looping *l) {
  glow *w = l->w;
  for (size_t i = 0; i < l->nx; i++) {
    anfi_view *v = anfi_glow_value(w, l->arg[l->nw + l->ns + i].def).at[0];
    l->x[i].base = word(l, 0);
    if (!v) continue;
    texpr p = anfi_view_value(w->L, v);
    l->x[i].base = anfi_glow_read(w, ANF_TIR_index, p, word(l, STACK_BASE));
  }
  if (l->nout) open_written(l);
}

/* Moves the rounds of a stack to where it begins in the longer array: the last one first, as the places overlap. */
static void move_stack(const looping *l, gstack *s, texpr p, texpr room) {
  glow *w = l->w;
  tstore *t = w->t;
  texpr to = base_in(l, s, p, room), from = base_in(l, s, p, l->cap),
        i = anfi_t_var(t, ANFI_IX, "i");
  if (s->before) {
    texpr n = bytes_of(l, l->cap, s->bytes);
    anfi_low_open(w->L);
    texpr back = anfi_t_add(t, i, word(l, KEPT_WORD));
    texpr at = anfi_low_let(w->L, anfi_t_sub(t, n, back), "at");
    anfi_glow_write(w, to, at, anfi_glow_read(w, ANF_TIR_u64, from, at));
    tstmt body = anfi_low_close(w->L);
    anfi_low_add(w->L, anfi_t_for(t, i, word(l, 0), n, word(l, KEPT_WORD), body, false, 0));
  }
  anfi_low_set(w->L, s->base, to);
}

/* Those that lie farthest first. */
static void move_stacks(const looping *l, texpr p, texpr room) {
  for (uint64_t end = l->bytes; end;) {
    size_t i = 0;
    while (is_elsewhere(l, i) || l->out[i].before + l->out[i].bytes != end || !l->out[i].bytes) i++;
    move_stack(l, &l->out[i], p, room);
    end = l->out[i].before;
  }
}

/* if (i >= cap), for of equals LLVM keeps but one, the array is made twice as long; if a round writes into the next record, one before that */
static void make_room(looping *l) {
  glow *w = l->w;
  if (!l->cap) return;
  anfi_low_open(w->L);
  texpr twice = anfi_low_let(w->L, anfi_t_add(w->t, l->cap, l->cap), "cap");
  texpr in[3] = {anfi_t_cast(w->t, anfi_t_ptr(ANF_TIR_void), l->base),
                 bytes_of(l, l->cap, l->bytes), bytes_of(l, twice, l->bytes)};
  texpr p = anfi_t_rt_call(w->t, TRT_anf_rt_keep_more, 3, in);
  p = anfi_low_let(w->L, anfi_t_cast(w->t, ANFI_IX, p), "p");
  anfi_low_set(w->L, l->base, p);
  move_stacks(l, p, twice);
  anfi_low_set(w->L, l->cap, twice);
  tstmt grow = anfi_low_close(w->L);
  texpr i = l->ahead ? anfi_low_let(w->L, anfi_t_add(w->t, l->i, number(l, 1)), "i") : l->i;
  anfi_low_add(w->L, anfi_t_if(w->t, anfi_t_bin(w->t, TX_cmp_ge, i, l->cap), grow, NULL));
}

texpr anfi_loop_record(const looping *l, const gstack *s, texpr round, uint64_t more) {
  texpr at = anfi_t_bin(l->w->t, TX_mul, index_word(l, round), word(l, s->bytes));
  if (more) at = anfi_t_add(l->w->t, at, word(l, more * s->bytes));
  return anfi_low_let(l->w->L, at, "at");
}

/* How far leaf k of a record is from the base. */
static texpr leaf_at(const looping *l, const gstack *s, texpr record, size_t k) {
  return s->at[k] ? anfi_t_add(l->w->t, record, word(l, s->at[k])) : record;
}

static gval element(looping *l, const gstack *s) {
  glow *w = l->w;
  gval v = anfi_glow_new(w, s->leaves.n);
  texpr p = anfi_loop_record(l, s, l->i, 0);
  for (size_t k = 0; k < v.n; k++) {
    const anfi_leaf *leaf = &s->leaves.at[k];
    texpr at = leaf_at(l, s, p, k);
    v.at[k] = anfi_glow_view(w, leaf,
                             leaf->scalar ? anfi_glow_read(w, leaf->elem, s->base, at)
                                          : anfi_glow_buffer_at(w, leaf, s->base, at));
  }
  return v;
}

/* Points the record's buffers to the round's row. */
static void open_record(looping *l) {
  glow *w = l->w;
  for (size_t i = 0; i < l->nout; i++) {
    gstack *s = &l->out[i];
    texpr *to = ANFI_NEW_N(w->a, texpr, s->leaves.n + 1);
    s->to = to;
    if (s->state) continue;
    s->record = anfi_loop_record(l, s, l->i, 0);
    for (size_t k = 0; k < s->leaves.n; k++)
      if (!s->leaves.at[k].scalar)
        to[k] = anfi_glow_buffer_at(w, &s->leaves.at[k], s->base, leaf_at(l, s, s->record, k));
  }
}

static void push(looping *l, const gstack *s, gval v) {
  glow *w = l->w;
  for (size_t k = 0; k < v.n && !s->state; k++) {
    const anfi_leaf *leaf = &s->leaves.at[k];
    if (leaf->scalar)
      anfi_glow_write(w, s->base, leaf_at(l, s, s->record, k), anfi_glow_atom(w, leaf, v.at[k]));
    else if (v.at[k]) anfi_view_store(w->L, v.at[k], s->to[k]);
  }
}

static anfi_view *close_stack(looping *l, const gstack *s) {
  glow *w = l->w;
  texpr p = anfi_glow_keep(w, word(l, STACK_BYTES)), base = s->base;
  if (s->state) base = l->out[l->place[s->state - 1].slot].base;
  if (s->state && s->later)
    base = anfi_low_let(w->L, anfi_t_add(w->t, base, word(l, s->bytes)), "base");
  texpr rounds = index_word(l, l->counted ? l->rounds : l->next);
  anfi_glow_write(w, p, word(l, STACK_BASE), base);
  anfi_glow_write(w, p, word(l, STACK_ROUNDS), anfi_low_let(w->L, rounds, "n"));
  if (w->tagged) anfi_glow_write(w, p, word(l, KEPT_TAG), anfi_glow_tag(w, s->type, true));
  return anfi_view_scalar(
      w->L, anfi_type_scalar(w->cx, ANF_U64),
      anfi_low_let(w->L, anfi_t_cast(w->t, anfi_t_dt(ANF_TIR_u64), p), "stack"));
}

/* ---- a turn ---- */

/* Arguments of a round: variables of its own with the values of the state. */
static gval *turn_arguments(looping *l) {
  glow *w = l->w;
  gval *args = ANFI_NEW_N(w->a, gval, l->nw + l->ns + l->nx + 1);
  for (size_t i = 0; i < l->nw; i++) {
    gval v = l->shared[i];
    args[i] = anfi_glow_new(w, v.n);
    for (size_t k = 0; k < v.n; k++) args[i].at[k] = anfi_glow_lent(w, v.at[k]);
  }
  size_t at = 0;
  for (size_t i = 0; i < l->ns; i++) {
    gval v = args[l->nw + i] = anfi_glow_new(w, anfi_leaf_count(l->arg[l->nw + i].def->type));
    for (size_t k = 0; k < v.n; k++, at++) {
      const anfi_leaf *leaf = &l->leaves.at[at];
      texpr e = l->place[at].now;
      if (leaf->scalar) {
        e = anfi_t_var(w->t, e->dtype, e->u.name->s);
        anfi_low_add(w->L, anfi_t_define(w->t, TL_local, e, l->place[at].now));
      }
      v.at[k] = anfi_glow_view(w, leaf, e);
      v.at[k]->owned = l->place[at].linear;
    }
  }
  for (size_t i = 0; i < l->nx; i++) args[l->nw + l->ns + i] = element(l, &l->x[i]);
  return args;
}

/* The leaf whose value, a buffer, leaf k is given as well, if rounds read it. */
static size_t equal_leaf(const looping *l, gval v, const bool *read, size_t k) {
  for (size_t j = 0; j < v.n; j++)
    if (read[j] && v.at[j] == v.at[k] && !l->leaves.at[j].scalar) return j + 1;
  return 0;
}

/* A recursion that became a loop gives its result beside its state, often as a copy of it: a buffer
 * that no round reads and that is given the same as another need not be written. Only of a loop
 * that makes a round whatever it is given. */
static void find_same(looping *l, gval v) {
  bool *read = ANFI_NEW_N(l->w->a, bool, v.n + 1);
  l->same = ANFI_NEW_N(l->w->a, size_t, v.n + 1);
  size_t at = 0;
  for (size_t i = 0; i < l->ns; i++) {
    const anf_node *p = l->step->params.at[l->nw + i];
    for (size_t n = anfi_leaf_count(p->type); n > 0; n--) read[at++] = p->uses != NULL;
  }
  for (size_t k = 0; k < v.n && !l->counted && !l->guarded; k++)
    if (!read[k] && v.at[k] && !l->leaves.at[k].scalar) l->same[k] = equal_leaf(l, v, read, k);
}

static texpr scalar_of(glow *w, anfi_view *v, anf_tir_elem otherwise) {
  return v ? anfi_view_value(w->L, v) : anfi_t_int(w->t, anfi_t_dt(otherwise), 0);
}

/* The number of the round, where anything needs it. */
static void number_round(looping *l) {
  glow *w = l->w;
  if (!l->next) return;
  texpr i = l->next;
  if (l->reverse) i = anfi_t_sub(w->t, i, number(l, 1));
  l->i = anfi_low_let(w->L, i, "i");
  if (i == l->next) { // `next` will be assigned: a copy
    l->i = anfi_t_var(w->t, ANFI_S64, "i");
    anfi_low_add(w->L, anfi_t_define(w->t, TL_local, l->i, l->next));
  }
}

/* Does a round keep memory that nothing needs after it? Then the round releases it: such loops take that of one round. */
static bool keeps_for_itself(const looping *l) {
  if (!l->w->keeps[l->step->id]) return false;
  for (size_t i = 0; i < l->leaves.n; i++)
    if (l->leaves.at[i].boxed) return false;
  for (size_t i = 0; i < l->nout; i++)
    for (size_t k = 0; k < l->out[i].leaves.n; k++)
      if (l->out[i].leaves.at[k].boxed) return false;
  return true;
}

static bool turn(looping *l) {
  glow *w = l->w;
  gval v;
  anfi_low_open(w->L);
  number_round(l);
  w->turn = l->step;
  if (l->nout) make_room(l);
  texpr mark = NULL;
  if (keeps_for_itself(l))
    mark = anfi_low_let(w->L, anfi_t_rt_call(w->t, TRT_anf_rt_keep_mark, 0, NULL), "mark");
  anfi_loop_state_now(l);
  open_record(l);
  const gval *args = turn_arguments(l);
  for (size_t i = 0; i < l->step->params.n; i++) w->env[l->step->params.at[i]->id] = args[i];
  anfi_loop_state_wish(l);
  anfi_glow_sums_begin(l->sums);
  if (!anfi_glow_body(w, l->step, args, NULL, false, &v)) return false;
  size_t at = l->counted ? 0 : 1, n = l->leaves.n;
  texpr again = l->counted ? NULL : scalar_of(w, v.at[0], ANF_TIR_bool);
  size_t from = at + n;
  for (size_t i = 0; i < l->nout; i++) {
    push(l, &l->out[i], (gval){l->out[i].leaves.n, v.at + from});
    from += l->out[i].leaves.n;
  }
  anfi_glow_sums_round(l->sums);
  find_same(l, (gval){n, v.at + at});
  anfi_loop_state_next(l, (gval){n, v.at + at});
  if (mark)
    anfi_low_add(w->L, anfi_t_eval(w->t, anfi_t_rt_call(w->t, TRT_anf_rt_keep_release, 1, &mark)));
  if (l->next)
    anfi_low_set(w->L, l->next, l->reverse ? l->i : anfi_t_add(w->t, l->i, number(l, 1)));
  if (again) anfi_low_set(w->L, l->again, again);
  return true;
}

/* ---- the whole ---- */

/* The most that a number can be, as far as its node tells; -1: not known. */
static int64_t most_of(const looping *l, anf_node *n, int deep) {
  enum { DEEPEST = 4 };
  if (anfi_is_op(n, ANF_OP_Switch) && n->nin == 3 && deep < DEEPEST) {
    int64_t a = most_of(l, n->in[1].def, deep + 1), b = most_of(l, n->in[2].def, deep + 1);
    return a < 0 || b < 0 ? -1 : a > b ? a : b;
  }
  const gval v = anfi_glow_value(l->w, n);
  int64_t most;
  bool known = v.n == 1 && v.at[0] && anfi_t_const_i64(anfi_view_value(l->w->L, v.at[0]), &most);
  return known && most > 0 ? most : known - 1;
}

static texpr start(looping *l) {
  glow *w = l->w;
  if (l->counted) {
    texpr n = scalar_of(w, anfi_glow_value(w, l->n->in[1].def).at[0], ANF_TIR_s64);
    n = anfi_low_let(w->L, anfi_t_cast(w->t, ANFI_S64, n), "n");
    texpr none = anfi_t_lt(w->t, n, number(l, 0));
    l->rounds = anfi_low_let(w->L, anfi_t_select(w->t, none, number(l, 0), n), "n");
  }
  if (l->counted || l->nout || l->tells)
    l->next = anfi_low_var(w->L, ANFI_S64, "next", l->reverse ? l->rounds : number(l, 0));
  open_stacks(l);
  if (!l->counted) {
    texpr go = anfi_t_bool(w->t, true);
    if (l->guarded) go = scalar_of(w, anfi_glow_value(w, l->n->in[1].def).at[0], ANF_TIR_bool);
    l->again = anfi_low_var(w->L, ANFI_BOOL, "again", go);
    return l->again;
  }
  return l->reverse ? anfi_t_lt(w->t, number(l, 0), l->next) : anfi_t_lt(w->t, l->next, l->rounds);
}

/* a @ b of invariant b, as its kernels are asked for it */
static bool is_kept(const looping *l, const anf_node *x, const anf_node *b, anfi_mm *q) {
  enum { TA, TB };
  const anf_type *t = b->type, *r = x->type;
  if (!anfi_is_op(x, ANF_OP_MatMul) || x->in[1].def != b || !t || t->n != 2 || !r) return false;
  anf_dtype d = (anf_dtype)t->dtype;
  if (r->dtype != d || (d != ANF_F32 && d != ANF_F64) || r->n < 2 || t->dims[1] <= 0) return false;
  q->ta = anfi_attr_bool(anfi_attr_value(l->w->cx, ANF_OP_MatMul, x->u.attrs, TA));
  q->tb = anfi_attr_bool(anfi_attr_value(l->w->cx, ANF_OP_MatMul, x->u.attrs, TB));
  if (q->ta || q->tb) return false;
  q->elem = anfi_lower_elem(d);
  q->k = (uint64_t)t->dims[0], q->n = q->ldb = q->ldc = (uint64_t)t->dims[1], q->lda = q->k;
  q->m = anfi_low_elements(r) / q->n;
  return anfi_low_gemm_wanted(q);
}

/* Right factors that all rounds share are packed once for them. */
static size_t keep_factors(const looping *l) {
  glow *w = l->w;
  size_t kept = w->L->packed.n;
  for (size_t i = 0; i < l->nw; i++) {
    const anf_node *b = l->step->params.at[i];
    for (const anfi_use *u = b->uses; u; u = u->next) {
      anfi_mm q = {0};
      if (!is_kept(l, u->user, b, &q)) continue;
      q.b = anfi_glow_value(w, l->arg[i].def).at[0]->tensor;
      if (q.b) anfi_low_gemm_prepack(w->L, &q);
      break;
    }
  }
  return kept;
}

/* (s.., stacks.., number of rounds) */
static gval result(looping *l) {
  glow *w = l->w;
  gval s = anfi_loop_state_result(l), v = anfi_glow_new(w, s.n + l->nout + l->tells);
  for (size_t i = 0; i < s.n; i++) v.at[i] = s.at[i];
  for (size_t i = 0; i < l->nout; i++) v.at[s.n + i] = close_stack(l, &l->out[i]);
  if (l->tells)
    v.at[s.n + l->nout] =
        anfi_view_scalar(w->L, anfi_type_scalar(w->cx, ANF_I64), l->counted ? l->rounds : l->next);
  return v;
}

static bool settle_invariants(looping *l) {
  l->shared = ANFI_NEW_N(l->w->a, gval, l->nw + 1);
  for (size_t i = 0; i < l->nw; i++) {
    anfi_leaves own = {0};
    anf_node *x = l->arg[i].def;
    if (!anfi_glow_leaves(l->w, x->type, anfi_node_loc(x), &own)) return false;
    anfi_glow_settle(l->w, &own, l->shared[i] = anfi_glow_value(l->w, x));
  }
  return true;
}

bool anfi_glow_loop(glow *w, anf_node *n, gval *out) {
  looping l = {.w = w, .n = n};
  gval given;
  if (!read_attrs(&l) || !find_stacks(&l)) return false;
  if (!settle_invariants(&l) || !state_leaves(&l, &l.leaves, &given)) return false;
  l.sums = anfi_glow_sums(w, l.step, l.nw, l.ns, l.counted ? 0 : 1);
  anfi_loop_state_plan(&l);
  lay_out(&l);
  texpr cond = start(&l);
  anfi_loop_state_begin(&l, given);
  texpr *room = ANFI_NEW_N(w->a, texpr, l.leaves.n + 1);
  for (size_t i = 0; i < l.leaves.n; i++) room[i] = l.place[i].room;
  anfi_glow_sums_open(l.sums, room);
  size_t kept = keep_factors(&l);
  int64_t most = l.counted ? most_of(&l, n->in[1].def, 0) : -1;
  if (!turn(&l)) return false;
  anfi_low_gemm_drop_packed(w->L, kept);
  tstmt s = anfi_t_while(w->t, cond, anfi_low_close(w->L));
  if (most > 0) s = anfi_t_with_attrs(w->t, s, anfi_t_attr_set(w->t, s->attrs, TA_turns, most));
  anfi_low_add(w->L, s);
  anfi_glow_sums_end(l.sums);
  *out = result(&l);
  return true;
}
