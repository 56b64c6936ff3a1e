// SPDX-License-Identifier: Apache-2.0
/* Forward mode: ∂G computes G and the tangent of its result.
 *   f(x) = sin(x * x)
 *   ∂f(x, t) = (sin(y), cos(y) * ẏ),  y = x * x, ẏ = t * x + x * t
 * A spec is G with a mask of the parameter leaves that have tangents (flow.h). Ops go by anfi_jvp_op; loops carry
 * tangents beside their state, stacks have stacks of tangents.
 * INVARIANT: a leaf outside its node's mask has the tangent NULL, zero. A leaf inside may be zero too, and
 * becomes an explicit zero where a call or a loop needs an argument. */
#include "autodiff/flow.h"
#include "base/mark.h"

typedef struct {
  /* the transform */
  anfi_flow f;
  anfi_ad *ad;
  anfi_arena *a;
  ANFI_VEC(anfi_flow_spec *) todo; // specs whose graph is made and still empty
  /* the graph that is being filled */
  anf_graph *g;             // being filled
  anf_node **param, **node; // primals in g: by parameter, by position
  anf_node ***ptan, ***tan; // tangents of their leaves
} forward;

static const anf_type *type_of(const forward *v, const anf_node *n) {
  return anfi_ad_type_of(v->ad, n);
}

static size_t leaves(const forward *v, const anf_node *n) { return anfi_ad_leaves(type_of(v, n)); }

static anf_node *primal(forward *v, const anf_node *n) {
  if (n->kind == ANFI_PARAM) return v->param[n->u.index];
  if (n->kind == ANFI_VALUE) return (anf_node *)(uintptr_t)(const void *)n;
  return v->node[*anfi_map_find(&v->f.local, n->id)];
}

/* One node a leaf, or NULL. */
static anf_node **tangents(forward *v, const anf_node *n) {
  if (n->kind == ANFI_PARAM) return v->ptan[n->u.index];
  if (n->kind == ANFI_VALUE) return ANFI_NEW_N(v->a, anf_node *, leaves(v, n) + 1);
  return v->tan[*anfi_map_find(&v->f.local, n->id)];
}

/* The tangents of the leaves of n in the mask, zeros included; their number. */
static size_t masked(forward *v, const anf_node *n, const bool *mask, anf_node **out) {
  size_t k = leaves(v, n), count = 0;
  if (!anfi_flow_any(mask, k)) return 0;
  anf_node **t = tangents(v, n), **like = ANFI_NEW_N(v->a, anf_node *, k + 1);
  anfi_leaf_nodes(v->ad, v->g, primal(v, n), like);
  for (size_t i = 0; i < k; i++)
    if (mask[i])
      out[count++] = t[i] ? t[i] : anfi_zero_leaf(v->ad, v->g, type_of(v, like[i]), like[i]);
  return count;
}

/* ---- graphs ---- */

static anf_node *param(anf_graph *g, const anf_type *t, uint32_t debug) {
  anf_node *p = anfi_param(g, NULL, t);
  p->type = t;
  p->debug = debug;
  return p;
}

/* The result type of ∂: (result, (tangents of leaves in out..)). */
static const anf_type *result_type(const forward *v, const anf_type *t, const bool *out) {
  size_t k = anfi_ad_leaves(t), n = 0;
  const anf_type **leaf = ANFI_NEW_N(v->a, const anf_type *, k + 1);
  anfi_leaf_types(t, leaf);
  for (size_t i = 0; i < k; i++)
    if (out[i]) leaf[n++] = leaf[i];
  const anf_type *both[2] = {t, anfi_type_tuple(v->ad->m->cx, n, leaf)};
  return anfi_type_tuple(v->ad->m->cx, 2, both);
}

static anf_graph *made(forward *v, anfi_flow_spec *s) {
  if (s->made) return s->made;
  anf_graph *g = s->made = anfi_graph_beside(s->graph, ANFI_TANGENT);
  size_t at = 0;
  for (size_t i = 0; i < s->graph->params.n; i++)
    param(g, type_of(v, s->graph->params.at[i]), s->graph->params.at[i]->debug);
  for (size_t i = 0; i < s->graph->params.n; i++) {
    const anf_node *p = s->graph->params.at[i];
    size_t k = leaves(v, p);
    const anf_type **leaf = ANFI_NEW_N(v->a, const anf_type *, k + 1);
    anfi_leaf_types(type_of(v, p), leaf);
    for (size_t l = 0; l < k; l++)
      if (s->in[at + l]) param(g, leaf[l], p->debug);
    at += k;
  }
  anfi_push(v->a, &v->todo, s);
  return g;
}

/* ---- calls ---- */

typedef struct {
  anf_node *y, **t;
} pair;

/* Splits the result of ∂. */
static pair take_apart(forward *v, anf_node *both, size_t k, const bool *out) {
  pair p = {anfi_ad_get(v->ad, v->g, both, 0), ANFI_NEW_N(v->a, anf_node *, k + 1)};
  anf_node *t = anfi_ad_get(v->ad, v->g, both, 1);
  size_t at = 0;
  for (size_t i = 0; i < k; i++)
    if (out[i]) p.t[i] = anfi_ad_get(v->ad, v->g, t, at++);
  return p;
}

/* The arguments of n and their tangents, after room for the callee. */
static anf_node **call_args(forward *v, const anf_node *n, bool with_tangents, size_t *count) {
  size_t total = n->nin, k = 1;
  for (uint32_t i = 1; i < n->nin; i++) total += leaves(v, n->in[i].def);
  anf_node **in = ANFI_NEW_N(v->a, anf_node *, total + 1);
  for (uint32_t i = 1; i < n->nin; i++) in[k++] = primal(v, n->in[i].def);
  for (uint32_t i = 1; with_tangents && i < n->nin; i++)
    k += masked(v, n->in[i].def, anfi_flow_mask(&v->f, n->in[i].def), in + k);
  *count = k;
  return in;
}

/* The callee, with tangents (`t`) or without. */
static anf_node *callee_of(forward *v, const anf_node *n, bool t) {
  const anf_node *sw = anfi_flow_choice(n);
  if (!sw) {
    anfi_flow_spec *s = anfi_flow_callee(&v->f, n, 0);
    return anfi_graph_value(t ? made(v, s) : s->graph);
  }
  anf_node **in = ANFI_NEW_N(v->a, anf_node *, sw->nin);
  in[0] = primal(v, sw->in[0].def);
  for (uint32_t k = 1; k < sw->nin; k++) {
    anfi_flow_spec *s = anfi_flow_callee(&v->f, n, k);
    in[k] = anfi_graph_value(t ? made(v, s) : s->graph);
  }
  anf_node *c = anfi_apply(v->g, (anfi_opcode)sw->op, sw->u.attrs, sw->nin, in);
  c->debug = v->ad->how;
  return c;
}

static pair call_of(forward *v, const anf_node *n) {
  size_t k = anfi_ad_leaves(n->type), count;
  const bool *out = anfi_flow_mask(&v->f, n);
  bool t = anfi_flow_any(out, k), again = anfi_is_op(n, ANF_OP_Recompute);
  anf_node **in = call_args(v, n, t, &count), *c;
  in[0] = callee_of(v, n, t);
  c = again ? anfi_apply(v->g, ANF_OP_Recompute, n->u.attrs, count, in)
            : anfi_call(v->g, count, in);
  c->type = t ? result_type(v, n->type, out) : n->type;
  c->debug = v->ad->how;
  if (n->flags & ANFI_NODE_EFFECT) anfi_add_effect(v->g, c);
  return t ? take_apart(v, c, k, out) : (pair){c, ANFI_NEW_N(v->a, anf_node *, k + 1)};
}

/* Custom(f, fwd, bwd, fdata, fwddata, bwddata, args..): fwd(fwddata, (args..), (tangents..)) gives
 * (value, tangent). */
static pair custom(forward *v, const anf_node *n) {
  size_t na = n->nin - 6u, k = anfi_ad_leaves(n->type);
  const anf_value *kind = anfi_attr_value(v->ad->m->cx, ANF_OP_Custom, n->u.attrs, 0);
  pair p = {NULL, ANFI_NEW_N(v->a, anf_node *, k + 1)};
  anf_node **x = ANFI_NEW_N(v->a, anf_node *, na + 1), **t = ANFI_NEW_N(v->a, anf_node *, na + 1);
  const char *name = anfi_value_graph(n->in[0].def)->name->s;
  bool rule = strcmp(kind->u.text, "jvp") == 0, closes = false;
  for (uint32_t i = 3; i < 6; i++)
    closes |= anfi_flow_any(anfi_flow_mask(&v->f, n->in[i].def), leaves(v, n->in[i].def));
  if (!rule || closes) {
    anfi_fail(v->ad->m->cx, anfi_node_loc(n), rule ? ANF_E0701 : ANF_E0712, name);
    return p;
  }
  for (size_t i = 0; i < na; i++) {
    const anf_node *arg = n->in[6 + i].def;
    x[i] = primal(v, arg);
    t[i] = anfi_of_leaves(v->ad, v->g, type_of(v, arg), x[i], tangents(v, arg));
  }
  anf_node *args[3] = {primal(v, n->in[4].def), anfi_ad_tuple(v->ad, v->g, na, x),
                       anfi_ad_tuple(v->ad, v->g, na, t)};
  anf_graph *f = anfi_value_graph(n->in[1].def);
  bool good, effects = anfi_rule_effects(v->ad, n, f, &good);
  if (!good) return p;
  anf_node *both = anfi_ad_call(v->ad, v->g, f, NULL, 3, args);
  if (effects || (n->flags & ANFI_NODE_EFFECT)) anfi_add_effect(v->g, both);
  p.y = anfi_ad_get(v->ad, v->g, both, 0);
  anfi_leaf_nodes(v->ad, v->g, anfi_ad_get(v->ad, v->g, both, 1), p.t);
  return p;
}

/* ---- loops ---- */

/* (w.., ẇ.., s.., ṡ.., x.., ẋ..) -> ([again], s'.., ṡ'.., o.., ȯ..), by a call of T(step). */
typedef struct {
  /* the loop */
  forward *v;
  const anfi_flow_loop *p;
  anf_graph *g;
  /* its step with tangents */
  anf_node **x, **t; // the step's parameters; the tangents of their leaves that count
  size_t nt;
  size_t nw, ns, nx, nout; // numbers with tangents
} doubled;

static void step_params(doubled *d, size_t from, size_t n, const bool **mask, bool stacks,
                        size_t *count) {
  const anf_graph *step = d->p->l.step;
  for (size_t i = from; i < from + n; i++)
    d->x[i] = param(d->g, type_of(d->v, step->params.at[i]), step->params.at[i]->debug);
  *count = n;
  for (size_t i = from; i < from + n; i++) {
    const anf_type *t = type_of(d->v, step->params.at[i]);
    size_t k = anfi_ad_leaves(t);
    const anf_type **leaf = ANFI_NEW_N(d->v->a, const anf_type *, k + 1);
    anfi_leaf_types(t, leaf);
    if (stacks && anfi_flow_any(*mask, k)) {
      anfi_leaf_nodes(d->v->ad, d->g, param(d->g, t, 0), d->t + d->nt);
      d->nt += k;
      ++*count;
    }
    for (size_t l = 0; !stacks && l < k; l++)
      if ((*mask)[l]) d->t[d->nt++] = param(d->g, leaf[l], 0), ++*count;
    *mask += k;
  }
}

static void step_result(doubled *d, anf_node *both) {
  forward *v = d->v;
  const anfi_loop_op *l = &d->p->l;
  const anf_type *t = type_of(v, l->step->result);
  const bool *out = d->p->step->out;
  size_t k = anfi_ad_leaves(t), n = 0, first = l->counted ? 0 : 1, at = 0, leaf = 0;
  anf_node **r = ANFI_NEW_N(v->a, anf_node *, t->n + k + 1),
           **tan = ANFI_NEW_N(v->a, anf_node *, k + 1);
  anf_node *y = anfi_ad_get(v->ad, d->g, both, 0), *dy = anfi_ad_get(v->ad, d->g, both, 1);
  for (size_t i = 0; i < k; i++)
    if (out[i]) tan[i] = anfi_ad_get(v->ad, d->g, dy, at++);
  for (size_t i = 0; i < first + l->ns; i++) r[n++] = anfi_ad_get(v->ad, d->g, y, i);
  for (size_t i = 0; i < first + l->ns; i++)
    for (size_t e = leaf + anfi_ad_leaves(t->items[i]); leaf < e; leaf++)
      if (tan[leaf]) r[n++] = tan[leaf];
  for (size_t i = first + l->ns; i < t->n; i++) r[n++] = anfi_ad_get(v->ad, d->g, y, i);
  d->nout = l->nout;
  for (size_t i = first + l->ns; i < t->n; i++) {
    if (d->p->outs[i - first - l->ns]) {
      anf_node *like = anfi_ad_get(v->ad, d->g, y, i);
      r[n++] = anfi_of_leaves(v->ad, d->g, t->items[i], like, tan + leaf);
      d->nout++;
    }
    leaf += anfi_ad_leaves(t->items[i]);
  }
  anfi_set_result(d->g, anfi_ad_tuple(v->ad, d->g, n, r));
}

static doubled doubled_step(forward *v, const anfi_flow_loop *p) {
  const anfi_loop_op *l = &p->l;
  size_t np = l->step->params.n;
  doubled d = {.v = v, .p = p, .g = anfi_graph_beside(l->step, ANFI_TANGENT ANFI_BODY)};
  const bool *mask = p->in;
  d.x = ANFI_NEW_N(v->a, anf_node *, np + p->step->nin + 1);
  d.t = ANFI_NEW_N(v->a, anf_node *, p->step->nin + 1);
  step_params(&d, 0, l->nw, &mask, false, &d.nw);
  step_params(&d, l->nw, l->ns, &mask, false, &d.ns);
  step_params(&d, l->nw + l->ns, l->nx, &mask, true, &d.nx);
  if (d.nt) memcpy(d.x + np, d.t, d.nt * sizeof *d.x);
  const anf_type *t = type_of(v, l->step->result);
  anf_node *both =
      anfi_ad_call(v->ad, d.g, made(v, p->step), result_type(v, t, p->step->out), np + d.nt, d.x);
  step_result(&d, both);
  return d;
}

static anf_node **loop_args(forward *v, const anf_node *n, const anfi_flow_loop *p) {
  const anfi_loop_op *l = &p->l;
  size_t total = n->nin + p->step->nin, k = 0, at = l->first_w;
  anf_node **in = ANFI_NEW_N(v->a, anf_node *, total + 1);
  const size_t part[3] = {l->nw, l->ns, l->nx};
  const bool *mask = p->in;
  for (int s = 0; s < 3; at += part[s++]) {
    for (size_t i = 0; i < part[s]; i++) in[k++] = primal(v, n->in[at + i].def);
    for (size_t i = 0; i < part[s]; i++) {
      const anf_node *arg = n->in[at + i].def;
      if (s == 2) mask = anfi_flow_mask(&v->f, arg);
      k += masked(v, arg, mask, in + k);
      mask += leaves(v, arg);
    }
  }
  return in;
}

/* (s.., ṡ.., stacks.., their tangents.., [rounds]) as the value and its tangents. */
static pair loop_result(forward *v, const anf_node *n, const anfi_flow_loop *p, anf_node *y,
                        size_t ns) {
  const anfi_loop_op *l = &p->l;
  const bool *mask = anfi_flow_mask(&v->f, n);
  size_t k = anfi_ad_leaves(n->type), at = l->ns, leaf = 0, count = 0;
  pair r = {NULL, ANFI_NEW_N(v->a, anf_node *, k + 1)};
  anf_node **x = ANFI_NEW_N(v->a, anf_node *, n->type->n + 1);
  for (size_t i = 0; i < l->ns; i++) x[count++] = anfi_ad_get(v->ad, v->g, y, i);
  for (; leaf < p->ps; leaf++)
    if (mask[leaf]) r.t[leaf] = anfi_ad_get(v->ad, v->g, y, at++);
  at = ns;
  for (size_t i = 0; i < l->nout; i++) x[count++] = anfi_ad_get(v->ad, v->g, y, at++);
  for (size_t i = 0; i < l->nout; i++, leaf++)
    if (p->outs[i]) r.t[leaf] = anfi_ad_get(v->ad, v->g, y, at++);
  if (l->rounds) x[count++] = anfi_ad_get(v->ad, v->g, y, at);
  r.y = anfi_ad_tuple(v->ad, v->g, count, x);
  return r;
}

static pair plain(forward *v, const anf_node *n);

static pair loop(forward *v, const anf_node *n) {
  anfi_flow_loop p = anfi_flow_loop_of(&v->f, n);
  if (!anfi_flow_any(p.step->out, p.step->nout)) return plain(v, n);
  doubled d = doubled_step(v, &p);
  anfi_loop_op l = p.l;
  l.step = d.g;
  l.nw = d.nw;
  l.ns = d.ns;
  l.nx = d.nx;
  l.nout = d.nout;
  if (l.n) l.n = primal(v, l.n);
  if (l.go) l.go = primal(v, l.go);
  anf_node *y = anfi_ad_loop(v->ad, v->g, &l, loop_args(v, n, &p));
  if (n->flags & ANFI_NODE_EFFECT) anfi_add_effect(v->g, y);
  return loop_result(v, n, &p, y, d.ns);
}

/* ---- ops ---- */

static anf_node **primals(forward *v, const anf_node *n) {
  anf_node **in = ANFI_NEW_N(v->a, anf_node *, n->nin + 1u);
  for (uint32_t i = 0; i < n->nin; i++)
    in[i] = anfi_value_graph(n->in[i].def) ? n->in[i].def : primal(v, n->in[i].def);
  return in;
}

/* The same on primals; no tangents. */
static pair plain(forward *v, const anf_node *n) {
  anf_node *y = anfi_apply(v->g, (anfi_opcode)n->op, n->u.attrs, n->nin, primals(v, n));
  y->type = n->type;
  y->debug = n->debug;
  if (n->flags & ANFI_NODE_EFFECT) anfi_add_effect(v->g, y);
  return (pair){y, ANFI_NEW_N(v->a, anf_node *, anfi_ad_leaves(n->type) + 1)};
}

/* A choice of data: of tangents the same. One of two sizes has a type of unknown dims, which no branch has. */
static pair choice_of_data(forward *v, const anf_node *n) {
  pair p = plain(v, n);
  size_t k = anfi_ad_leaves(n->type);
  const anf_type **types = ANFI_NEW_N(v->a, const anf_type *, k + 1);
  anfi_leaf_types(n->type, types);
  const bool *mask = anfi_flow_mask(&v->f, n);
  anf_node ***branch = ANFI_NEW_N(v->a, anf_node **, n->nin + 1u), **in;
  for (uint32_t i = 1; i < n->nin; i++) {
    branch[i] = ANFI_NEW_N(v->a, anf_node *, k + 1);
    masked(v, n->in[i].def, mask, branch[i]);
  }
  for (size_t l = 0, at = 0; l < k; l++) {
    if (!mask[l]) continue;
    in = ANFI_NEW_N(v->a, anf_node *, n->nin + 1u);
    in[0] = p.y->in[0].def;
    for (uint32_t i = 1; i < n->nin; i++) in[i] = branch[i][at];
    at++;
    p.t[l] = anfi_ad_typed(v->ad, anfi_apply(v->g, (anfi_opcode)n->op, n->u.attrs, n->nin, in),
                           types[l]);
  }
  return p;
}

/* Boxes and stacks: the tangent has the structure of the primal. */
static pair of_residual(forward *v, const anf_node *n) {
  pair p = plain(v, n);
  const anf_node *x = n->in[0].def;
  anf_node **t = tangents(v, x), *d;
  if (!anfi_flow_any(anfi_flow_mask(&v->f, n), anfi_ad_leaves(n->type))) return p;
  if (n->op == ANF_OP_ResidualAdd) {
    p.t[0] = anfi_add_leaf(v->ad, v->g, t[0], tangents(v, n->in[1].def)[0]);
    return p;
  }
  if (n->op == ANF_OP_ResidualSelect || n->op == ANF_OP_ResidualSpread) {
    anf_node *in[3] = {NULL, NULL, p.y->in[n->nin - 1].def};
    for (uint32_t i = 0; i + 1 < n->nin; i++) {
      anf_node *like = p.y->in[i].def, *dx = tangents(v, n->in[i].def)[0];
      in[i] = dx ? dx : anfi_zero_leaf(v->ad, v->g, n->type, like);
    }
    if (n->nin == 2) in[1] = in[2];
    p.t[0] = anfi_ad_typed(v->ad, anfi_apply(v->g, (anfi_opcode)n->op, NULL, n->nin, in), n->type);
  } else if (n->op == ANF_OP_Box) {
    d = anfi_of_leaves(v->ad, v->g, type_of(v, x), primal(v, x), t);
    p.t[0] = anfi_ad_typed(v->ad, anfi_apply(v->g, ANF_OP_Box, NULL, 1, &d), n->type);
  } else if (t[0]) {
    d = anfi_ad_typed(v->ad, anfi_apply(v->g, ANF_OP_Unbox, n->u.attrs, 1, &t[0]), n->type);
    anfi_leaf_nodes(v->ad, v->g, d, p.t);
  }
  return p;
}

/* Tangents follow the parts of values. */
static pair parts_of(forward *v, const anf_node *n, const anfi_flow_from *from) {
  pair p = {NULL, ANFI_NEW_N(v->a, anf_node *, anfi_ad_leaves(n->type) + 1)};
  for (size_t i = 0; i < anfi_ad_leaves(n->type); i++)
    p.t[i] = tangents(v, n->in[from[i].in].def)[from[i].part];
  if (n->op == ANF_OP_TupleGet)
    p.y = anfi_ad_get(v->ad, v->g, primal(v, n->in[0].def), anfi_flow_item(&v->f, n));
  else p.y = plain(v, n).y;
  return p;
}

static pair by_op(forward *v, const anf_node *n) {
  pair p = plain(v, n);
  anf_node **tin = ANFI_NEW_N(v->a, anf_node *, n->nin + 1u);
  size_t places = n->type->kind == ANF_TYPE_TUPLE ? n->type->n : 1, at = 0;
  if (!anfi_flow_any(anfi_flow_mask(&v->f, n), anfi_ad_leaves(n->type))) return p;
  for (uint32_t i = 0; i < n->nin; i++)
    if (leaves(v, n->in[i].def) == 1) tin[i] = tangents(v, n->in[i].def)[0];
  anf_node **ty = ANFI_NEW_N(v->a, anf_node *, places + 1), **in = primals(v, n);
  if (!anfi_jvp_op(v->ad, v->g, n, in, p.y, tin, ty)) return (pair){NULL, NULL};
  for (size_t i = 0; i < places; i++) {
    const anf_type *t = n->type->kind == ANF_TYPE_TUPLE ? n->type->items[i] : n->type;
    if (anfi_is_leaf(t)) p.t[at++] = ty[i];
  }
  return p;
}

static pair apply_of(forward *v, const anf_node *n) {
  const anfi_flow_from *from;
  switch (n->op) {
  case ANF_OP_Loop: return loop(v, n);
  case ANF_OP_Recompute: return call_of(v, n);
  case ANF_OP_Undef:
  case ANF_OP_ResidualZeros: return plain(v, n);
  case ANF_OP_Box:
  case ANF_OP_Unbox:
  case ANF_OP_ResidualAdd:
  case ANF_OP_ResidualSelect:
  case ANF_OP_ResidualSpread: return of_residual(v, n);
  case ANF_OP_Switch:
  case ANF_OP_SwitchLayer: return choice_of_data(v, n);
  case ANF_OP_Custom:
    if (anfi_flow_any(anfi_flow_mask(&v->f, n), anfi_ad_leaves(n->type))) return custom(v, n);
    return plain(v, n);
  default: from = anfi_flow_parts(&v->f, n); return from ? parts_of(v, n, from) : by_op(v, n);
  }
}

static void open_params(forward *v, const anfi_flow_spec *s) {
  size_t np = s->graph->params.n, at = 0, next = np;
  v->param = v->g->params.at;
  v->ptan = ANFI_NEW_N(v->a, anf_node **, np + 1);
  for (size_t i = 0; i < np; i++) {
    size_t k = leaves(v, s->graph->params.at[i]);
    v->ptan[i] = ANFI_NEW_N(v->a, anf_node *, k + 1);
    for (size_t l = 0; l < k; l++)
      if (s->in[at + l]) v->ptan[i][l] = v->g->params.at[next++];
    at += k;
  }
}

static bool fill(forward *v, anfi_flow_spec *s) {
  const anfi_node_vec *order = anfi_flow_order(&v->f, s->graph);
  anfi_flow_visit(&v->f, s);
  v->g = s->made;
  open_params(v, s);
  v->node = ANFI_NEW_N(v->a, anf_node *, order->n + 1);
  v->tan = ANFI_NEW_N(v->a, anf_node **, order->n + 1);
  for (size_t i = 0; i < order->n; i++) {
    const anf_node *n = order->at[i];
    if (anfi_flow_is_callee(n)) continue;
    v->ad->at = n;
    v->ad->how = anfi_debug_derive(v->ad->m, n->debug, "tangent of");
    pair p = n->kind == ANFI_CALL ? call_of(v, n) : apply_of(v, n);
    if (!p.y) return false;
    v->node[i] = p.y;
    v->tan[i] = p.t;
  }
  const anf_node *r = s->graph->result;
  anf_node **t = ANFI_NEW_N(v->a, anf_node *, s->nout + 1), *both[2];
  size_t n = masked(v, r, s->out, t);
  both[0] = primal(v, r);
  both[1] = anfi_ad_tuple(v->ad, v->g, n, t);
  anfi_set_result(v->g, anfi_ad_tuple(v->ad, v->g, 2, both));
  return true;
}

/* ---- the transform ---- */

/* T(params.., one tangent a leaf of `mask`..) -> (result, (one tangent a leaf of *out..)).
 * `out` is a mask over the leaves of g's result: tangents of others are zero. NULL after an error. */
static anf_graph *jvp_graph(anfi_ad *ad, anf_graph *g, const bool *mask, const bool **out) {
  forward *v = ANFI_NEW(ad->arena, forward);
  v->ad = ad;
  v->a = ad->arena;
  const anfi_flow_rules rules = {
      .count = anfi_ad_leaves, .op = anfi_flow_leaf_op, .all = anfi_flow_all_leaves};
  anfi_flow_spec *root = anfi_flow_solve(&v->f, ad, &rules, g, mask);
  anf_graph *t = made(v, root);
  while (v->todo.n)
    if (!fill(v, v->todo.at[--v->todo.n])) return NULL;
  *out = root->out;
  return t;
}

/* ---- Derive nodes: (value, tangent of the value's type) ---- */

/* The tangent of each parameter of the target, NULL where none is given; where its leaves start, and
 * the mask over all of them. */
static anf_node **given(forward *v, const anf_node *n, const anf_graph *f, size_t *first,
                        bool *mask) {
  const anf_value *wrt = anfi_attr_value(v->ad->m->cx, ANF_OP_Derive, n->u.attrs, 1);
  bool one = wrt->kind != ANF_VALUE_TUPLE;
  size_t np = f->params.n;
  anf_node **t = ANFI_NEW_N(v->a, anf_node *, np + 1);
  for (size_t i = 0; i < np; i++) first[i + 1] = first[i] + leaves(v, f->params.at[i]);
  for (size_t i = 0; i < (one ? 1 : wrt->n); i++) {
    size_t p = (size_t)anfi_get_i64(one ? wrt : wrt->u.item[i], 0);
    t[p] = n->in[1 + np + i].def;
    for (size_t k = first[p]; k < first[p + 1]; k++) mask[k] = true;
  }
  return t;
}

anf_node *anfi_expand_jvp(anfi_ad *ad, anf_node *n) {
  forward v = {.ad = ad, .a = ad->arena, .g = n->graph};
  anf_graph *f = anfi_value_graph(n->in[0].def);
  ad->ordered = n->flags & ANFI_NODE_EFFECT;
  if (!ad->ordered) f = anfi_without_effects(ad, f);
  size_t np = f->params.n, count = np, total = 0;
  for (size_t i = 0; i < np; i++) total += leaves(&v, f->params.at[i]);
  size_t *first = ANFI_NEW_N(v.a, size_t, np + 1);
  bool *mask = ANFI_NEW_N(v.a, bool, total + 1);
  const bool *out;
  anf_node **dx = given(&v, n, f, first, mask), **in = ANFI_NEW_N(v.a, anf_node *, np + total + 1);
  anf_graph *t = jvp_graph(ad, f, mask, &out);
  if (!t) return NULL;
  ad->how = anfi_debug_derive(ad->m, n->debug, "tangent of");
  for (size_t i = 0; i < np; i++) in[i] = n->in[i + 1].def;
  for (size_t i = 0; i < np; i++) {
    if (!dx[i]) continue;
    anfi_leaf_nodes(ad, v.g, dx[i], in + count);
    count += first[i + 1] - first[i];
  }
  const anf_type *y = type_of(&v, f->result);
  anf_node *both = anfi_ad_call(ad, v.g, t, result_type(&v, y, out), count, in);
  anfi_expand_effect(n, both);
  pair p = take_apart(&v, both, anfi_ad_leaves(y), out);
  anf_node *r[2] = {p.y, anfi_of_leaves(ad, v.g, y, p.y, p.t)};
  return anfi_ad_tuple(ad, v.g, 2, r);
}
