// SPDX-License-Identifier: Apache-2.0
/* validator: verifier: every invariant of a module.
 *
 *   func f(A: [f32 * 4 * 5]): f32 {
 *     A[1] = 1.f             E0822: 'A' has 2 dims, and is indexed by 1 (in f, assign)
 *
 * An error names its path: the function and the statements around it. A bound is an error only if the
 * index is out of range whatever the program does. */
#include "backend/tir/tir.h"

/* Facts about a variable or tensor that was defined, by its number. */
typedef struct known {
  texpr var;             // NULL: nothing
  uint32_t outer;        // parallel depth where it was defined
  bool holds;            // it is true
  bool in_scope, counts; // is it defined here; is it the variable of an open loop?
} known;

/* A step of the way to a place, as text only where there is an error. */
typedef struct waypoint {
  tstmt s;          // NULL: a function or a tensor of the module
  const char *name; // of that
} waypoint;

typedef struct checker {
  /* the module */
  anf_ctx *cx;
  const tmod *m;
  anfi_arena *a;
  /* variables, and the way to the current statement */
  known *var;
  ANFI_VEC(texpr) scope;
  ANFI_VEC(waypoint) path;
  tranges ranges;
  /* the current function */
  tfunc f;
  uint32_t parallel;
  bool ended; // control does not come here
  uint32_t line, col;
} checker;

static const char *text_of(checker *c, waypoint at) {
  if (!at.s) return at.name;
  switch ((tskind)at.s->kind) {
  case TS_define:
    return anfi_sprintf(c->a, "%s %s", at.s->e[0]->kind == TX_tensor ? "tensor" : "var",
                        at.s->e[0]->u.name->s);
  case TS_for_loop: return anfi_sprintf(c->a, "for %s", at.s->e[0]->u.name->s);
  case TS_if_else: return "if";
  case TS_while_loop: return "while";
  case TS_returns: return "return";
  case TS_assign: return "assign";
  case TS_evaluate: return "evaluate";
  default: return "scope";
  }
}

static const char *path(checker *c) {
  const char *s = "";
  for (size_t i = 0; i < c->path.n; i++)
    s = anfi_sprintf(c->a, "%s%s%s", s, i ? ", " : "", text_of(c, c->path.at[i]));
  return s;
}

static bool fail(checker *c, texpr e, anfi_code code, const char *what) {
  bool use = e && e->line && e->kind != TX_var &&
             e->kind != TX_tensor; // those know where they are defined
  uint32_t line = use ? e->line : c->line, col = use ? e->col : c->col;
  return anfi_fail(c->cx, anfi_t_loc(c->m->t, line, col), code, what, path(c));
}

static const char *say(checker *c, tdtype d) { return anfi_t_dtype_str(c->a, d); }

/* ---- scopes ---- */

/* NULL: nothing has defined it so far. */
static known *known_of(checker *c, texpr v) {
  return v->id < c->m->t->next_id && c->var[v->id].var == v ? &c->var[v->id] : NULL;
}

static bool define(checker *c, texpr v) {
  if (v->id >= c->m->t->next_id) return fail(c, v, ANF_E0820, v->u.name->s); // another module's
  if (known_of(c, v)) fail(c, v, ANF_E0821, v->u.name->s);
  c->var[v->id] = (known){.var = v, .outer = c->parallel, .in_scope = true};
  anfi_push(c->a, &c->scope, v);
  if (v->kind == TX_var && anfi_t_is_void(v->dtype))
    return fail(c, v, ANF_E0823, anfi_sprintf(c->a, "'%s' has type void", v->u.name->s));
  return true;
}
static void leave_to(checker *c, size_t n) {
  while (c->scope.n > n) {
    known *k = known_of(c, c->scope.at[--c->scope.n]);
    if (k) k->in_scope = false;
  }
}
static bool is_defined(checker *c, texpr v) {
  const known *k = known_of(c, v);
  return k && k->in_scope;
}

/* ---- expressions ---- */

static bool expr(checker *c, texpr e);

static bool bounds(checker *c, texpr e, uint32_t k, uint32_t extent) {
  int64_t dim;
  trange r;
  if (c->ended) return true; // after a check that fails: control never comes to its access
  if (!anfi_t_const_i64(e->in[0]->in[k], &dim) || !anfi_t_range(&c->ranges, e->in[1 + k], &r))
    return true;
  if (r.hi >= 0 && (r.lo < dim - (int64_t)extent + 1 || (e->kind == TX_tensorptr && r.lo <= dim)))
    return true;
  return fail(c, e, ANF_E0826,
              anfi_sprintf(c->a, "index %lld%s of '%s' is outside its dim %lld", (long long)r.lo,
                           extent > 1 ? " with its lanes" : "", e->in[0]->u.name->s,
                           (long long)dim));
}

static bool place(checker *c, texpr e) {
  texpr t = e->in[0];
  if (t->kind != TX_tensor)
    return fail(c, e, ANF_E0823,
                anfi_sprintf(c->a, "only a tensor is indexed, and this is a %s",
                             anfi_t_kind_names[t->kind]));
  if (!is_defined(c, t)) return fail(c, e, ANF_E0820, t->u.name->s);
  if (e->nidx != t->nidx)
    return fail(c, e, ANF_E0822,
                anfi_sprintf(c->a, "'%s' has %u dims, and is indexed by %u", t->u.name->s, t->nidx,
                             e->nidx));
  for (uint32_t i = 1; i <= e->nidx; i++)
    if (!anfi_t_is_int(e->in[i]->dtype) || anfi_t_total(e->in[i]->dtype) != 1)
      return fail(
          c, e->in[i], ANF_E0823,
          anfi_sprintf(c->a, "an index must be one integer, and is %s", say(c, e->in[i]->dtype)));
  if (e->kind == TX_indexing && e->dtype.rows && t->nidx < 2)
    return fail(
        c, e, ANF_E0824,
        anfi_sprintf(c->a, "a tile needs two dims, and '%s' has %u", t->u.name->s, t->nidx));
  texpr mask = e->kind == TX_indexing ? anfi_t_mask(e) : NULL;
  if (mask && !anfi_t_same(mask->dtype, anfi_t_with(e->dtype, ANF_TIR_bool)))
    return fail(c, mask, ANF_E0824,
                anfi_sprintf(c->a, "the mask of %s must be %s, and is %s", say(c, e->dtype),
                             say(c, anfi_t_with(e->dtype, ANF_TIR_bool)), say(c, mask->dtype)));
  for (uint32_t k = 0; k < t->nidx; k++) {
    uint32_t extent = e->kind != TX_indexing || mask      ? 1
                      : k + 1 == t->nidx                  ? e->dtype.lanes
                      : k + 2 == t->nidx && e->dtype.rows ? e->dtype.rows
                                                          : 1;
    if (!bounds(c, e, k, extent)) return false;
  }
  return true;
}

/* Of no type yet: what it is made of differs. A call of what returns nothing, prefetch(p) too, never gets one. */
static bool is_pending(texpr e) {
  bool nothing =
      e->kind == TX_call || (e->kind == TX_intrin_call && anfi_t_intrins[e->sub].typing == TT_NONE);
  return anfi_t_is_void(e->dtype) && !nothing;
}

/* Operands that differ are for auto_caster, but only in what it can bring together. */
static bool mixable(tdtype a, tdtype b) {
  if (!anfi_t_same_shape(a, b) && anfi_t_total(a) != 1 && anfi_t_total(b) != 1) return false;
  if (a.ptr || b.ptr) return a.ptr && b.ptr;
  return (a.elem == b.elem) || (anfi_t_rank_of(a) && anfi_t_rank_of(b));
}

static bool pair(checker *c, texpr e, texpr l, texpr r) {
  tdtype a = l->dtype, b = r->dtype;
  bool pending = is_pending(l) && l->kind != TX_constant;
  pending |= is_pending(r) && r->kind != TX_constant;
  if (pending) return true;
  if (anfi_t_is_void(a) || anfi_t_is_void(b))
    return fail(c, e, ANF_E0823,
                anfi_sprintf(c->a, "an operand of %s has no value", anfi_t_kind_names[e->kind]));
  if (mixable(a, b)) return true;
  bool shape = !anfi_t_same_shape(a, b);
  return fail(c, e, shape ? ANF_E0824 : ANF_E0823,
              anfi_sprintf(c->a, "operands of %s are %s and %s", anfi_t_kind_names[e->kind],
                           say(c, a), say(c, b)));
}

static bool truth(checker *c, texpr e, bool vector) {
  if (anfi_t_is_elem(e->dtype, ANF_TIR_bool) && (vector || anfi_t_total(e->dtype) == 1))
    return true;
  return fail(c, e, ANF_E0823,
              anfi_sprintf(c->a, "a condition must be bool, and is %s", say(c, e->dtype)));
}

static bool fits_param(tdtype want, texpr have, bool tensor) {
  if (want.ptr || tensor) return have->dtype.ptr || anfi_t_is_elem(have->dtype, ANF_TIR_generic);
  if (anfi_t_same(want, have->dtype) || anfi_t_is_elem(want, ANF_TIR_generic)) return true;
  return !have->dtype.ptr && mixable(want, have->dtype) &&
         anfi_t_total(want) >= anfi_t_total(have->dtype) &&
         !anfi_t_is_elem(have->dtype, ANF_TIR_generic);
}

static bool call(checker *c, texpr e) {
  uint32_t npar;
  const texpr *tri = anfi_t_triples(e, &npar);
  for (uint32_t i = 0; i < 3 * npar; i++)
    if (!anfi_t_is_int(tri[i]->dtype))
      return fail(c, tri[i], ANF_E0823, "bounds of a parallel call must be integers");
  if (npar > 8) return fail(c, e, ANF_E0827, "a parallel call has more than 8 dims");
  if (!e->u.name) {
    if (anfi_t_callee_ptr(e)->dtype.ptr) return true;
    return fail(c, e, ANF_E0823,
                anfi_sprintf(c->a, "a function pointer must be a pointer, and is %s",
                             say(c, anfi_t_callee_ptr(e)->dtype)));
  }
  tfunc f = anfi_t_mod_find(c->m, e->u.name);
  if (!f) return fail(c, e, ANF_E0825, e->u.name->s);
  if (f->n != e->nidx + npar)
    return fail(c, e, ANF_E0827,
                anfi_sprintf(c->a, "'%s' takes %u arguments, and is given %u", f->name->s, f->n,
                             e->nidx + npar));
  if (!anfi_t_same(f->ret, e->dtype))
    return fail(c, e, ANF_E0827,
                anfi_sprintf(c->a, "'%s' gives %s, and the call says %s", f->name->s,
                             say(c, f->ret), say(c, e->dtype)));
  if (npar && !anfi_t_is_void(f->ret))
    return fail(c, e, ANF_E0827,
                anfi_sprintf(c->a, "'%s' gives a value, which a parallel call has no place for",
                             f->name->s));
  for (uint32_t i = 0; i < e->nidx; i++) {
    texpr p = f->param[npar + i];
    if (is_pending(e->in[i])) continue;
    if (!fits_param(p->dtype, e->in[i], p->kind == TX_tensor))
      return fail(c, e->in[i], ANF_E0827,
                  anfi_sprintf(c->a, "argument %u of '%s' must be %s, and is %s", i + 1, f->name->s,
                               say(c, p->dtype), say(c, e->in[i]->dtype)));
  }
  return true;
}

static bool gemm_args(checker *c, texpr e) {
  static const char *const wrong[] = {
      [BRGEMM_IS_MATRIX] = "operands A, B and C of brgemm must be pointers",
      [BRGEMM_IS_SIZE] = "sizes and strides of brgemm must be integers",
      [BRGEMM_IS_EPILOGUE] = "bias, scales and rhs of brgemm must be pointers or none"};
  for (uint32_t i = 0; i < BRGEMM_COUNT; i++) {
    texpr x = anfi_t_brgemm_in(e, i);
    bool good = !x ? anfi_t_brgemm_kinds[i] == BRGEMM_IS_EPILOGUE || anfi_t_brgemm_at(e, i) >= e->n
                : anfi_t_brgemm_kinds[i] == BRGEMM_IS_SIZE ? anfi_t_is_int(x->dtype)
                                                           : x->dtype.ptr;
    if (!good)
      return fail(c, e->in[anfi_t_brgemm_at(e, i)], ANF_E0823, wrong[anfi_t_brgemm_kinds[i]]);
  }
  return true;
}

static bool pointer_arg(checker *c, texpr e, uint32_t i) {
  return e->in[i]->dtype.ptr || fail(c, e->in[i], ANF_E0823,
                                     anfi_sprintf(c->a, "argument %u of %s must be a pointer",
                                                  i + 1, anfi_t_intrins[e->sub].name));
}

static bool same_bytes(tdtype a, tdtype b) {
  return anfi_t_bytes(a) == anfi_t_bytes(b) && anfi_t_same_shape(a, b);
}

/* Sizes of what an intrinsic whose type is given takes and gives. */
static bool given_type(checker *c, texpr e) {
  tdtype d = e->dtype, a = e->n ? e->in[0]->dtype : d;
  bool good = true;
  switch ((tintrin)e->sub) {
  case TI_reinterpret: good = same_bytes(d, a); break;
  case TI_saturated_cast:
  case TI_round_and_cast:
    good = anfi_t_same_shape(d, a) && anfi_t_rank_of(d) && anfi_t_rank_of(a);
    break;
  case TI_broadcast: good = d.elem == a.elem && anfi_t_total(d) % anfi_t_total(a) == 0; break;
  case TI_extract: good = d.elem == a.elem && anfi_t_total(d) <= anfi_t_total(a); break;
  case TI_insert:
    good = anfi_t_same(d, a) && e->in[1]->dtype.elem == d.elem &&
           anfi_t_total(e->in[1]->dtype) <= anfi_t_total(d);
    break;
  case TI_shuffle:
    good = d.elem == a.elem && anfi_t_same(a, e->in[1]->dtype) && e->n == 2 + anfi_t_total(d);
    break;
  case TI_permute: good = d.elem == a.elem && e->n == 1 + anfi_t_total(d); break;
  case TI_permutexvar:
    good = anfi_t_same(d, e->in[1]->dtype) && anfi_t_is_int(a) && anfi_t_same_shape(d, a);
    break;
  case TI_permutex2var:
    good = anfi_t_same(d, a) && anfi_t_same(a, e->in[2]->dtype) && anfi_t_is_int(e->in[1]->dtype) &&
           anfi_t_same_shape(d, e->in[1]->dtype);
    break;
  case TI_gather:
    good = a.ptr && anfi_t_is_int(e->in[1]->dtype) && anfi_t_same_shape(d, e->in[1]->dtype);
    break;
  case TI_read_struct: good = a.ptr && anfi_t_is_int(e->in[1]->dtype); break;
  default: break;
  }
  if (good && !anfi_t_is_void(d)) return true;
  return fail(c, e, ANF_E0824,
              anfi_sprintf(c->a, "%s cannot give %s from %s", anfi_t_intrins[e->sub].name,
                           say(c, d), say(c, a)));
}

static bool intrinsic(checker *c, texpr e) {
  const tintrin_info *in = &anfi_t_intrins[e->sub];
  if (e->n < in->lo || e->n > in->hi)
    return fail(c, e, ANF_E0827, anfi_sprintf(c->a, "%s is given %u arguments", in->name, e->n));
  if (e->sub == TI_brgemm || e->sub == TI_list_brgemm) return gemm_args(c, e);
  if (in->typing == TT_SAME) {
    for (uint32_t i = 1; i < e->n; i++)
      if (!pair(c, e, e->in[0], e->in[i])) return false;
    bool bits = e->sub >= TI_int_and && e->sub <= TI_shr;
    if (bits && !anfi_t_is_int(e->in[0]->dtype) && !anfi_t_is_elem(e->in[0]->dtype, ANF_TIR_bool))
      return fail(c, e, ANF_E0823,
                  anfi_sprintf(c->a, "%s works on integers, and is given %s", in->name,
                               say(c, e->in[0]->dtype)));
    if (in->purity == TP_MATH1 && !anfi_t_rank_of(e->in[0]->dtype) &&
        !anfi_t_is_void(e->in[0]->dtype))
      return fail(c, e, ANF_E0823,
                  anfi_sprintf(c->a, "%s works on numbers, and is given %s", in->name,
                               say(c, e->in[0]->dtype)));
  }
  if (in->typing == TT_GIVEN) return given_type(c, e);
  if (e->sub == TI_write_struct || e->sub == TI_prefetch) return pointer_arg(c, e, 0);
  return true;
}

static bool node(checker *c, texpr e) {
  switch ((tkind)e->kind) { /* dispatch */
  case TX_var: return is_defined(c, e) || fail(c, e, ANF_E0820, e->u.name->s);
  case TX_tensor: return is_defined(c, e) || fail(c, e, ANF_E0820, e->u.name->s);
  case TX_constant:
    if (e->sub)
      return fail(c, e, ANF_E0823, "a list of values is only an initial value of a tensor");
    return e->u.k.n == 1 || e->u.k.n == anfi_t_total(e->dtype) ||
           fail(c, e, ANF_E0824, "a constant has another number of values than its type lanes");
  case TX_cast:
    if (anfi_t_is_void(e->dtype) || anfi_t_total(e->dtype) != anfi_t_total(e->in[0]->dtype))
      return fail(
          c, e, ANF_E0824,
          anfi_sprintf(c->a, "cast of %s to %s", say(c, e->in[0]->dtype), say(c, e->dtype)));
    return !anfi_t_is_void(e->in[0]->dtype) || is_pending(e->in[0]) ||
           fail(c, e, ANF_E0823, "cast of what has no value");
  case TX_logic_and:
  case TX_logic_or:
    return truth(c, e->in[0], true) && truth(c, e->in[1], true) && pair(c, e, e->in[0], e->in[1]);
  case TX_logic_not: return truth(c, e->in[0], true);
  case TX_select:
    if (!truth(c, e->in[0], true) || !pair(c, e, e->in[1], e->in[2])) return false;
    return anfi_t_total(e->in[0]->dtype) == 1 ||
           anfi_t_same_shape(e->in[0]->dtype, e->in[1]->dtype) || anfi_t_is_void(e->dtype) ||
           fail(c, e, ANF_E0824,
                anfi_sprintf(c->a, "select of %s by %s", say(c, e->in[1]->dtype),
                             say(c, e->in[0]->dtype)));
  case TX_indexing:
  case TX_tensorptr: return place(c, e);
  case TX_call: return call(c, e);
  case TX_intrin_call: return intrinsic(c, e);
  case TX_func_addr: return anfi_t_mod_find(c->m, e->u.name) || fail(c, e, ANF_E0825, e->u.name->s);
  case TX_ssa_phi: return fail(c, e, ANF_E0831, "a phi");
  default: return pair(c, e, e->in[0], e->in[1]);
  }
}

static bool expr(checker *c, texpr e) {
  uint32_t from = e->kind == TX_indexing || e->kind == TX_tensorptr ? 1 : 0;
  if (e->kind != TX_tensor)
    for (uint32_t i = from; i < e->n; i++)
      if (!expr(c, e->in[i])) return false;
  return node(c, e);
}

/* ---- statements: does control never pass the end of one? ---- */

static bool stmt(checker *c, tstmt s);

static bool dims(checker *c, texpr t) {
  for (uint32_t i = 0; i < t->n; i++) {
    int64_t d;
    if (!expr(c, t->in[i])) return false;
    if (!anfi_t_is_int(t->in[i]->dtype) || anfi_t_total(t->in[i]->dtype) != 1)
      return fail(c, t, ANF_E0823,
                  anfi_sprintf(c->a, "dims of '%s' must be integers", t->u.name->s));
    if (anfi_t_const_i64(t->in[i], &d) && d < 0)
      return fail(c, t, ANF_E0826, anfi_sprintf(c->a, "'%s' has a negative dim", t->u.name->s));
  }
  if (t->dtype.elem == ANF_TIR_void && !t->sub)
    return fail(c, t, ANF_E0823,
                anfi_sprintf(c->a, "'%s' has elements of type void", t->u.name->s));
  return true;
}

static bool phi(checker *c, texpr e, texpr v) {
  for (uint32_t i = 0; i < e->n; i++)
    if (!anfi_t_same(e->in[i]->dtype, v->dtype))
      return fail(c, e, ANF_E0831, "values of a phi differ in type");
  return e->n == 2 || fail(c, e, ANF_E0831, "a phi joins two values");
}

static bool initial(checker *c, tstmt s) {
  texpr v = s->e[0], init = s->e[1];
  if (init->kind == TX_ssa_phi) return phi(c, init, v);
  if (v->kind == TX_tensor) {
    if (init->kind == TX_constant && init->sub) {
      uint64_t n;
      if (init->dtype.elem != (v->sub ? ANF_TIR_void : v->dtype.elem))
        return fail(c, v, ANF_E0823, "initial values of another type");
      if (anfi_t_const_elems(v, &n) && init->u.list.n > 1 && init->u.list.n != n)
        return fail(c, v, ANF_E0822,
                    anfi_sprintf(c->a, "'%s' has %llu elements and %u initial values", v->u.name->s,
                                 (unsigned long long)n, init->u.list.n));
      return true;
    }
    return expr(c, init) &&
           (init->dtype.ptr || fail(c, init, ANF_E0823, "a view is made of a pointer"));
  }
  if (!expr(c, init)) return false;
  bool pending = is_pending(init);
  return pending || fits_param(v->dtype, init, false) ||
         fail(c, init, anfi_t_same_shape(v->dtype, init->dtype) ? ANF_E0823 : ANF_E0824,
              anfi_sprintf(c->a, "'%s' is %s, and its initial value %s", v->u.name->s,
                           say(c, v->dtype), say(c, init->dtype)));
}

static bool assign(checker *c, tstmt s) {
  texpr to = s->e[0], value = s->e[1];
  if (!expr(c, value) || !expr(c, to)) return false;
  if (to->kind == TX_var) {
    const known *k = known_of(c, to);
    if (k && k->counts)
      return fail(c, to, ANF_E0828, anfi_sprintf(c->a, "the loop variable '%s'", to->u.name->s));
    if (k && k->outer < c->parallel)
      return fail(c, to, ANF_E0828,
                  anfi_sprintf(c->a, "'%s', from outside of the parallel loop", to->u.name->s));
  } else if (to->kind != TX_indexing) return fail(c, to, ANF_E0828, "this");
  bool pending = is_pending(value);
  if (pending || fits_param(to->dtype, value, false)) return true;
  bool shape = !anfi_t_same_shape(to->dtype, value->dtype);
  return fail(c, to, shape ? ANF_E0824 : ANF_E0823,
              anfi_sprintf(c->a, "%s is assigned to %s", say(c, value->dtype), say(c, to->dtype)));
}

static void for_loop(checker *c, tstmt s) {
  int64_t step;
  size_t mark = c->scope.n;
  bool good = true;
  for (int i = 1; i < 4 && good; i++) {
    good = expr(c, s->e[i]);
    if (good && !anfi_t_is_int(s->e[i]->dtype) && !anfi_t_is_void(s->e[i]->dtype))
      good = fail(c, s->e[i], ANF_E0823, "bounds of a loop must be integers");
  }
  if (good && anfi_t_const_i64(s->e[3], &step) && step <= 0)
    fail(c, s->e[3], ANF_E0833, s->e[0]->u.name->s);
  c->parallel += s->sub;
  define(c, s->e[0]);
  if (!anfi_t_is_int(s->e[0]->dtype) || anfi_t_total(s->e[0]->dtype) != 1)
    fail(c, s->e[0], ANF_E0823, "a loop variable must be an integer");
  known *k = known_of(c, s->e[0]);
  if (k) k->counts = true;
  anfi_t_ranges_loop(&c->ranges, s);
  stmt(c, s->s[0]);
  if (k) k->counts = false;
  c->parallel -= s->sub;
  leave_to(c, mark);
}

static bool is_phi(tstmt s) { return s->kind == TS_define && anfi_t_isa(s->e[1], TX_ssa_phi); }

/* Loop phis stand first in a loop's body, others right behind the branch or loop that they join. */
static void phi_places(checker *c, tstmt seq, bool loop_body) {
  for (uint32_t i = 0; i < seq->n; i++) {
    if (!is_phi(seq->s[i])) continue;
    uint32_t k = i;
    while (k && is_phi(seq->s[k - 1]) && seq->s[k - 1]->e[1]->sub == seq->s[i]->e[1]->sub) k--;
    bool good = seq->s[i]->e[1]->sub ? loop_body && k == 0 : k > 0;
    if (good && !seq->s[i]->e[1]->sub) {
      tskind before = (tskind)seq->s[k - 1]->kind;
      good = before == TS_if_else || before == TS_for_loop || before == TS_while_loop;
    }
    if (!good) fail(c, seq->s[i]->e[1], ANF_E0831, "a phi");
  }
}

static bool sequence(checker *c, tstmt s) {
  size_t mark = c->scope.n;
  bool before = c->ended, ended = false;
  for (uint32_t i = 0; i < s->n && anfi_more_errors(c->cx); i++) {
    ended |= stmt(c, s->s[i]);
    c->ended |= ended;
  }
  c->ended = before;
  leave_to(c, mark);
  return ended;
}

/* Is the condition true for all values of what it is of? */
static bool holds(checker *c, texpr e) {
  trange x, y;
  if (anfi_t_is_const(e, 1)) return true;
  if (e->kind == TX_var) return known_of(c, e) && known_of(c, e)->holds;
  if (e->kind == TX_logic_or) return holds(c, e->in[0]) || holds(c, e->in[1]);
  if (e->kind == TX_logic_and) return holds(c, e->in[0]) && holds(c, e->in[1]);
  if (anfi_t_group(e) != TG_CMP || !anfi_t_range(&c->ranges, e->in[0], &x) ||
      !anfi_t_range(&c->ranges, e->in[1], &y))
    return false;
  switch ((tkind)e->kind) {
  case TX_cmp_lt: return x.hi < y.lo;
  case TX_cmp_le: return x.hi <= y.lo;
  case TX_cmp_gt: return x.lo > y.hi;
  case TX_cmp_ge: return x.lo >= y.hi;
  default: return false;
  }
}

static bool stops(texpr e) {
  return e->kind == TX_call && e->u.name &&
         strcmp(e->u.name->s, anfi_t_rt[TRT_anf_rt_stop].name) == 0;
}

/* A check of an index that is known to be outside ends the sequence that it is in. */
static bool branches(checker *c, tstmt s) {
  bool good = expr(c, s->e[0]) && truth(c, s->e[0], false);
  bool yes = stmt(c, s->s[0]), no = s->s[1] && stmt(c, s->s[1]);
  return yes && (no || (good && holds(c, s->e[0])));
}

/* Phi values come from inside of what they join: they are out of scope, but were defined. */
static void while_loop(checker *c, tstmt s) {
  size_t mark = c->scope.n;
  for (uint32_t i = 0; i < s->s[0]->n && is_phi(s->s[0]->s[i]); i++)
    define(c, s->s[0]->s[i]->e[0]); // the condition sees the loop's phis
  if (expr(c, s->e[0])) truth(c, s->e[0], false);
  while (c->scope.n > mark) { // its body is to define them
    texpr v = c->scope.at[--c->scope.n];
    if (known_of(c, v)) c->var[v->id] = (known){0};
  }
  stmt(c, s->s[0]);
}

static void returns(checker *c, tstmt s) {
  if (s->e[0] && !expr(c, s->e[0])) return;
  tdtype d = s->e[0] ? s->e[0]->dtype : anfi_t_dt(ANF_TIR_void);
  bool pending = s->e[0] && is_pending(s->e[0]);
  if (pending || anfi_t_same(c->f->ret, d) ||
      (s->e[0] && !anfi_t_is_void(c->f->ret) && fits_param(c->f->ret, s->e[0], false)))
    return;
  fail(c, s->e[0], ANF_E0830,
       anfi_sprintf(c->a, "'%s' gives %s, and returns %s", c->f->name->s, say(c, c->f->ret),
                    say(c, d)));
}

static bool stmt(checker *c, tstmt s) {
  uint32_t line = c->line, col = c->col;
  bool ended = s->kind == TS_returns || (s->kind == TS_while_loop && anfi_t_is_const(s->e[0], 1));
  if (s->line) c->line = s->line, c->col = s->col;
  if (s->kind != TS_stmts) anfi_push(c->a, &c->path, ((waypoint){.s = s}));
  switch ((tskind)s->kind) { /* dispatch */
  case TS_stmts: ended = sequence(c, s); break;
  case TS_define:
    if (s->sub != TL_local) fail(c, s->e[0], ANF_E0832, s->e[0]->u.name->s);
    if (s->e[0]->kind == TX_tensor) dims(c, s->e[0]);
    if (s->e[1]) initial(c, s);
    define(c, s->e[0]);
    if (s->e[1] && s->e[0]->kind == TX_var && known_of(c, s->e[0]))
      known_of(c, s->e[0])->holds =
          anfi_t_is_elem(s->e[0]->dtype, ANF_TIR_bool) && holds(c, s->e[1]);
    break;
  case TS_assign: assign(c, s); break;
  case TS_if_else: ended = branches(c, s); break;
  case TS_for_loop: for_loop(c, s); break;
  case TS_while_loop: while_loop(c, s); break;
  case TS_evaluate:
    expr(c, s->e[0]);
    ended = stops(s->e[0]);
    break;
  case TS_returns:
    if (c->parallel) fail(c, s->e[0], ANF_E0828, "the result, by a return out of a parallel loop");
    returns(c, s);
    break;
  case TS_COUNT: break;
  }
  bool loop = s->kind == TS_for_loop || s->kind == TS_while_loop;
  for (uint32_t i = 0; i < s->n && s->kind != TS_stmts; i++)
    if (s->s[i]) phi_places(c, s->s[i], loop);
  if (s->kind != TS_stmts) c->path.n--;
  c->line = line;
  c->col = col;
  return ended;
}

/* Does control never pass the end of the statement, whatever is known of its conditions? */
static bool never_ends(tstmt s) {
  if (s->kind == TS_returns) return true;
  for (uint32_t i = 0; s->kind == TS_stmts && i < s->n; i++)
    if (never_ends(s->s[i])) return true;
  if (s->kind == TS_if_else) return s->s[1] && never_ends(s->s[0]) && never_ends(s->s[1]);
  return s->kind == TS_while_loop && anfi_t_is_const(s->e[0], 1);
}

static void function(checker *c, tfunc f) {
  size_t mark = c->scope.n;
  c->f = f;
  c->line = f->line;
  c->col = f->col;
  anfi_push(c->a, &c->path, ((waypoint){.name = f->name->s}));
  if (anfi_t_mod_find(c->m, f->name) != f) fail(c, NULL, ANF_E0829, f->name->s);
  for (uint32_t i = 0; i < f->n; i++) {
    if (f->param[i]->kind == TX_tensor) dims(c, f->param[i]);
    define(c, f->param[i]);
  }
  if (f->body) {
    stmt(c, f->body);
    phi_places(c, f->body, false);
    if (!anfi_t_is_void(f->ret) && !never_ends(f->body)) fail(c, NULL, ANF_E0834, f->name->s);
  }
  c->path.n--;
  leave_to(c, mark);
}

static void global(checker *c, tstmt s) {
  texpr v = s->e[0];
  uint64_t n;
  c->line = s->line;
  c->col = s->col;
  anfi_push(c->a, &c->path, ((waypoint){.name = anfi_sprintf(c->a, "tensor %s", v->u.name->s)}));
  if (v->kind != TX_tensor || s->sub == TL_local || !anfi_t_const_elems(v, &n))
    fail(c, v, ANF_E0832, v->u.name->s);
  else if (s->e[1] && (s->e[1]->kind != TX_constant || !s->e[1]->sub))
    fail(c, v, ANF_E0832, v->u.name->s);
  else if (s->e[1]) initial(c, s);
  define(c, v);
  c->path.n--;
}

static void purity(checker *c) {
  const char *why = NULL;
  size_t i = anfi_t_wrongly_pure(c->m, c->a, &why);
  if (i == SIZE_MAX) return;
  tfunc f = c->m->func.at[i];
  anfi_fail(c->cx, anfi_t_loc(c->m->t, f->line, f->col), ANF_E0835, f->name->s, why, f->name->s);
}

bool anfi_t_validate(anf_ctx *cx, const tmod *m) {
  checker *c = ANFI_NEW(anfi_scratch(cx), checker);
  c->cx = cx;
  c->m = m;
  c->a = anfi_scratch(cx);
  c->var = ANFI_NEW_N(c->a, known, m->t->next_id);
  anfi_t_ranges_init(&c->ranges, c->a);
  uint32_t before = cx->frame->nerror;
  for (size_t i = 0; i < m->global.n; i++) global(c, m->global.at[i]);
  for (size_t i = 0; i < m->func.n && anfi_more_errors(cx); i++) function(c, m->func.at[i]);
  if (cx->frame->nerror == before) purity(c);
  return cx->frame->nerror == before;
}

const tmod *anfi_t_pass_validator(tpass_cx *p, const tmod *m) {
  return anfi_t_validate(p->cx, m) ? m : NULL;
}
