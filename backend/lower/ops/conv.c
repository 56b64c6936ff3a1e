// SPDX-License-Identifier: Apache-2.0
/* Convolutions, transposes and both gradients.
 *   Conv1D(x, w)   ->   for o, i: sum: f64 = 0; for c, t: sum += x[c, i + t] * w[o, c, t]; y[o, i] = f32(sum)
 * Floats with more than a few channels go to kernels (gemm/conv_gemm.c), those with few to vectors (conv_rows.c). The rest, integers among them:
 * loops over planes and elements of the kernel (taps), which share one weight along each row, as the interpreter walks
 * them. Reals are summed in double (f32 with `fast`), integers in s64; the bias starts the sum.
 *
 * A tap reads x[o * stride + shift] for the results o where that is inside: bounds that are computed
 * once a tap, so the row itself has no condition. */
#include "backend/lower/low.h"
#include "ir/ops/nn/window.h"

typedef struct walk {
  /* the op */
  anfi_low *L;
  const anfi_low_op *q;
  anfi_conv c;
  const anfi_view *x, *w, *y; // the one that is the result is NULL
  /* what the loops write */
  texpr to, acc; // result; sums of a plane, or a variable
  tdtype type;
  /* sizes and indices */
  uint64_t in, out, kernel; // elements of a plane
  texpr shift[3], lo[3], hi[3], at[3], step[3];
} walk;

static texpr s64(const walk *v, int64_t x) { return anfi_t_int(v->L->t, ANFI_S64, x); }
static texpr bin(const walk *v, tkind k, texpr a, texpr b) { return anfi_t_bin(v->L->t, k, a, b); }
static texpr ix(const walk *v, texpr e) {
  return anfi_low_atom(v->L, anfi_t_cast(v->L->t, ANFI_IX, e));
}

static texpr clip(const walk *v, texpr x, tkind k, texpr edge) {
  x = anfi_low_atom(v->L, x);
  return anfi_low_atom(v->L, anfi_t_select(v->L->t, bin(v, k, x, edge), edge, x));
}

/* The results o of dim d whose input is inside: lo..hi, for the tap whose number is an index. */
static void bounds(walk *v, size_t d, texpr tap) {
  const anfi_window *w = &v->c.win;
  int64_t s = w->stride[d];
  texpr t = anfi_t_mul(v->L->t, anfi_t_cast(v->L->t, ANFI_S64, tap), s64(v, w->dilation[d]));
  texpr shift = v->shift[d] = anfi_low_atom(v->L, anfi_t_sub(v->L->t, t, s64(v, w->before[d])));
  texpr up = bin(v, TX_sub, s64(v, s - 1), shift); // -shift + s - 1
  texpr lo = clip(v, bin(v, TX_div, up, s64(v, s)), TX_cmp_lt, s64(v, 0));
  texpr left = bin(v, TX_sub, s64(v, w->in[d] - 1 + s),
                   shift); // in - 1 - shift, plus s so that it is not negative
  texpr hi = clip(v, bin(v, TX_div, left, s64(v, s)), TX_cmp_gt, s64(v, w->out[d]));
  v->lo[d] = ix(v, lo);
  v->hi[d] = ix(v, clip(v, hi, TX_cmp_lt, lo));
}

/* The place of a row's element in the plane of x: (o * stride + shift) of each dim. */
static texpr input_at(const walk *v) {
  const anfi_window *w = &v->c.win;
  texpr sum = NULL;
  uint64_t step = 1;
  for (size_t d = 3; d-- > 0;) {
    texpr i = anfi_ix_mulc(v->L, v->at[d], (uint64_t)w->stride[d]);
    i = anfi_ix_mulc(v->L, anfi_ix_add(v->L, i, v->step[d]), step);
    sum = sum ? anfi_ix_add(v->L, sum, i) : i;
    step *= (uint64_t)w->in[d];
  }
  return sum;
}

static texpr output_at(const walk *v) {
  texpr sum = NULL;
  uint64_t step = 1;
  for (size_t d = 3; d-- > 0;) {
    texpr i = anfi_ix_mulc(v->L, v->at[d], step);
    sum = sum ? anfi_ix_add(v->L, i, sum) : i;
    step *= (uint64_t)v->c.win.out[d];
  }
  return sum;
}

/* Loops over the rows of a tap; dims of one element have none. */
static void open_rows(walk *v, anfi_loop *l) {
  for (size_t d = 0; d < 3; d++) {
    bool one = v->c.win.out[d] == 1 && v->c.win.in[d] == 1 && v->c.win.kernel[d] == 1 &&
               !v->c.win.before[d];
    v->step[d] = ix(v, v->shift[d]);
    if (one) anfi_low_loop(v->L, &l[d], 1, "o");
    else anfi_low_loop_range(v->L, &l[d], v->lo[d], v->hi[d], 1, "o");
    v->at[d] = l[d].var;
  }
}

static void close_loops(anfi_low *L, anfi_loop *l, size_t n) {
  while (n-- > 0) anfi_low_loop_end(L, &l[n]);
}

static texpr read(const walk *v, const anfi_view *x, texpr plane, texpr at) {
  texpr i = anfi_ix_add(v->L, plane, at);
  return anfi_low_let(v->L, anfi_t_cast(v->L->t, v->type, anfi_low_load(v->L, x->tensor, i)), "a");
}

static void add(const walk *v, texpr at, texpr term) {
  texpr old = anfi_low_load(v->L, v->acc, at);
  anfi_low_put(v->L, v->acc, at, (anfi_elem){anfi_t_add(v->L->t, old, term), NULL}, false);
}

/* All rows of one tap: x, w, y are where their planes start. */
static void tap_rows(walk *v, texpr x, texpr w, texpr y) {
  anfi_low *L = v->L;
  anfi_loop l[3];
  texpr weight = v->w ? read(v, v->w, w, anfi_ix(L, 0)) : NULL;
  open_rows(v, l);
  if (!v->y) add(v, output_at(v), anfi_t_mul(L->t, weight, read(v, v->x, x, input_at(v))));
  else if (!v->x) add(v, input_at(v), anfi_t_mul(L->t, weight, read(v, v->y, y, output_at(v))));
  else {
    texpr a = read(v, v->x, x, input_at(v)), b = read(v, v->y, y, output_at(v));
    anfi_low_set(L, v->acc, anfi_t_add(L->t, v->acc, anfi_t_mul(L->t, a, b)));
  }
  close_loops(L, l, 3);
}

static texpr open_taps(walk *v, anfi_loop *l) {
  anfi_pt p = {0};
  for (size_t d = 0; d < 3; d++) {
    anfi_low_loop(v->L, &l[d], (uint64_t)v->c.win.kernel[d], "tap");
    anfi_pt_push(&p, l[d].var, (uint64_t)v->c.win.kernel[d]);
    bounds(v, d, l[d].var);
  }
  return anfi_pt_linear(v->L, &p);
}

static texpr times(const walk *v, texpr a, uint64_t n) { return anfi_ix_mulc(v->L, a, n); }

/* The plane of sums begins with the bias of its channel, and ends in the result. */
static void begin_plane(walk *v, uint64_t n, texpr channel) {
  const anfi_low_op *q = v->q;
  anfi_loop l;
  const anfi_view *bias = q->op != ANF_OP_ConvGradInput && q->n > 2 ? q->in[2] : NULL;
  texpr init = anfi_low_const(v->L, v->type, 0);
  v->acc = anfi_low_local(v->L, (anf_tir_elem)v->type.elem, n, "acc");
  if (bias)
    init = anfi_low_atom(v->L,
                         anfi_t_cast(v->L->t, v->type, anfi_view_at_flat(v->L, bias, channel).re));
  anfi_low_loop(v->L, &l, n, "o");
  anfi_low_put(v->L, v->acc, l.var, (anfi_elem){init, NULL}, false);
  anfi_low_loop_end(v->L, &l);
}

static void end_plane(walk *v, uint64_t n, texpr plane) {
  anfi_loop l;
  anfi_low_loop(v->L, &l, n, "o");
  texpr x = anfi_t_cast(v->L->t, anfi_low_dt((anf_dtype)v->q->type->dtype),
                        anfi_low_load(v->L, v->acc, l.var));
  anfi_low_put(v->L, v->to, anfi_ix_add(v->L, plane, l.var), (anfi_elem){x, NULL}, false);
  anfi_low_loop_end(v->L, &l);
}

static texpr sum3(const walk *v, texpr a, texpr b, texpr c) {
  return anfi_low_atom(v->L, anfi_ix_add(v->L, anfi_ix_add(v->L, a, b), c));
}

/* n, then group, then channel within the group on the side of the result; `other` on the other. */
typedef struct channels {
  anfi_loop n, g, mine, other;
} channels;

static void open_channels(walk *v, channels *k, uint64_t mine) {
  anfi_low_loop(v->L, &k->n, (uint64_t)v->c.n, "n");
  k->n.parallel = v->L->o.parallel && !v->L->in_parallel && !k->n.none;
  anfi_low_loop(v->L, &k->g, (uint64_t)v->c.groups, "g");
  anfi_low_loop(v->L, &k->mine, mine, "c");
}

static void close_channels(walk *v, channels *k) {
  anfi_low_loop_end(v->L, &k->mine);
  anfi_low_loop_end(v->L, &k->g);
  anfi_low_loop_end(v->L, &k->n);
}

/* Forward (to y) and the gradient by the input (to x). */
static void to_plane(walk *v, bool forward) {
  uint64_t ci = (uint64_t)v->c.ci, co = (uint64_t)v->c.co, g = (uint64_t)v->c.groups;
  uint64_t mine = forward ? co : ci, size = forward ? v->out : v->in;
  channels k;
  anfi_loop taps[3];
  open_channels(v, &k, mine);
  texpr channel = anfi_ix_add(v->L, times(v, k.g.var, mine), k.mine.var);
  texpr plane =
      anfi_low_atom(v->L, times(v, anfi_ix_add(v->L, times(v, k.n.var, g * mine), channel), size));
  begin_plane(v, size, channel);
  anfi_low_loop(v->L, &k.other, forward ? ci : co, "d");
  texpr i = forward ? k.other.var : k.mine.var, o = forward ? k.mine.var : k.other.var;
  texpr x = times(v, sum3(v, times(v, k.n.var, g * ci), times(v, k.g.var, ci), i), v->in);
  texpr y = times(v, sum3(v, times(v, k.n.var, g * co), times(v, k.g.var, co), o), v->out);
  texpr w = times(v, sum3(v, times(v, k.g.var, co * ci), times(v, o, ci), i), v->kernel);
  texpr tap = open_taps(v, taps);
  tap_rows(v, x, anfi_low_atom(v->L, anfi_ix_add(v->L, w, tap)), y);
  close_loops(v->L, taps, 3);
  anfi_low_loop_end(v->L, &k.other);
  end_plane(v, size, plane);
  close_channels(v, &k);
}

/* ---- all of them ---- */

/* The gradient by the weights: one sum a tap. */
static void to_weight(walk *v) {
  anfi_low *L = v->L;
  uint64_t ci = (uint64_t)v->c.ci, co = (uint64_t)v->c.co, g = (uint64_t)v->c.groups;
  anfi_loop l[3], taps[3], n;
  anfi_low_loop(L, &l[0], g, "g");
  anfi_low_loop(L, &l[1], co, "o");
  anfi_low_loop(L, &l[2], ci, "i");
  if (L->o.parallel && !L->in_parallel) anfi_low_share(l, 3);
  texpr w =
      times(v, sum3(v, times(v, l[0].var, co * ci), times(v, l[1].var, ci), l[2].var), v->kernel);
  texpr tap = open_taps(v, taps);
  v->acc = anfi_low_var(L, v->type, "sum", anfi_low_const(L, v->type, 0));
  if (v->c.n) {
    anfi_low_loop(L, &n, (uint64_t)v->c.n, "n");
    texpr x = times(v, sum3(v, times(v, n.var, g * ci), times(v, l[0].var, ci), l[2].var), v->in);
    texpr y = times(v, sum3(v, times(v, n.var, g * co), times(v, l[0].var, co), l[1].var), v->out);
    tap_rows(v, x, NULL, y);
    anfi_low_loop_end(L, &n);
  }
  texpr sum = anfi_t_cast(L->t, anfi_low_dt((anf_dtype)v->q->type->dtype), v->acc);
  anfi_low_put(L, v->to, anfi_ix_add(L, w, tap), (anfi_elem){sum, NULL}, false);
  close_loops(L, taps, 3);
  close_loops(L, l, 3);
}

anfi_infer anfi_low_infer(anfi_low *L, const anfi_low_op *q) {
  const anf_type **types = ANFI_NEW_N(L->a, const anf_type *, q->n + 1);
  for (size_t i = 0; i < q->n; i++)
    types[i] = q->in[i] ? q->in[i]->type : anfi_type_simple(L->cx, ANF_TYPE_NONE);
  return (anfi_infer){
      .cx = L->cx, .op = q->op, .loc = q->loc, .n = q->n, .in = types, .attr = q->attr};
}

static uint64_t volume(const int64_t *d) { return (uint64_t)(d[0] * d[1] * d[2]); }

static const anfi_view *held(anfi_low *L, anfi_view *v) {
  anfi_view_force(L, v);
  return v;
}

enum { CONV_ATTRS = 4 }; // stride, padding, dilation, groups

/* The convolution as kernels do it. False: the types are not alike. */
static bool kernel_work(const walk *v, anfi_conv_work *k) {
  const anfi_low_op *q = v->q;
  anf_dtype d = (anf_dtype)q->type->dtype;
  bool bias =
      q->op != ANF_OP_ConvGradInput && q->op != ANF_OP_ConvGradWeight && q->n > 2 && q->in[2];
  for (size_t i = 0; i < q->n; i++)
    if (q->in[i] && q->in[i]->dtype != d) return false;
  *k = (anfi_conv_work){.elem = anfi_lower_elem(d), .to = v->to};
  k->way = !v->y ? ANFI_CONV_FORWARD : !v->x ? ANFI_CONV_BY_INPUT : ANFI_CONV_BY_WEIGHTS;
  if (v->x) k->x = v->x->tensor;
  if (v->w) k->w = v->w->tensor, k->const_w = v->w->constant;
  if (v->y) k->y = v->y->tensor;
  if (bias) k->bias = anfi_view_force(v->L, q->in[2]);
  return anfi_low_conv_gemm_wanted(&v->c, k) || anfi_low_conv_rows_wanted(&v->c, k);
}

static void do_kernel_work(anfi_low *L, const anfi_conv *c, const anfi_conv_work *k) {
  if (anfi_low_conv_gemm_wanted(c, k)) anfi_low_conv_gemm(L, c, k);
  else anfi_low_conv_rows(L, c, k);
}

/* May it have an epilogue? */
static bool may_fuse(const anfi_conv *c, const anfi_conv_work *k) {
  if (anfi_low_conv_gemm_wanted(c, k)) return true;
  return anfi_low_conv_rows_wanted(c, k) && anfi_low_conv_rows_fuses(c);
}

bool anfi_low_conv_by_kernels(const anf_node *n) {
  anf_ctx *cx = n->graph->module->cx;
  const anf_type *in[3] = {NULL};
  anf_value *attr[CONV_ATTRS] = {NULL};
  anfi_conv c;
  size_t narg = anfi_arg_count(n);
  if (narg > ANFI_LEN(in) || !n->type || n->type->kind != ANF_TYPE_TENSOR) return false;
  for (size_t i = 0; i < narg; i++) {
    size_t all;
    if (!(in[i] = n->in[i].def->type)) return false;
    if (in[i]->kind == ANF_TYPE_NONE) continue;
    if (in[i]->kind != ANF_TYPE_TENSOR || in[i]->dtype != n->type->dtype) return false;
    if (!anfi_type_elements(in[i], &all)) return false;
  }
  for (uint32_t k = 0; k < ANFI_LEN(attr); k++)
    if (!(attr[k] = anfi_attr_value(cx, (anfi_opcode)n->op, n->u.attrs, k))) return false;
  anfi_infer q = {.cx = cx, .op = (anfi_opcode)n->op, .n = narg, .in = in, .attr = attr};
  q.loc = anfi_node_loc(n);
  anfi_conv_work k = {.elem = anfi_lower_elem((anf_dtype)n->type->dtype), .way = ANFI_CONV_FORWARD};
  return anfi_conv_plan(&q, &c) && may_fuse(&c, &k);
}

/* ---- fused into a consumer ---- */

typedef struct fused {
  anfi_conv c;
  anfi_conv_work work;
  const anf_node *node;
} fused;

static void write_work(anfi_low *L, const anfi_view *v, const anfi_view *root, texpr to) {
  const fused *f = (const fused *)v->data;
  anfi_conv_work work = f->work;
  bool traced = f->node && L->o.region_begin;
  work.product = v, work.root = root, work.to = to;
  size_t region = traced ? L->o.region_begin(L->o.user, f->node) : 0;
  do_kernel_work(L, &f->c, &work);
  if (traced) L->o.region_end(L->o.user, region);
}
static void store_work(anfi_low *L, const anfi_view *v, texpr to) { write_work(L, v, NULL, to); }

static anfi_view *fused_conv(const walk *v, const anfi_conv_work *k) {
  anfi_view *y = anfi_view_new(v->L, v->q->type, VIEW_LAZY);
  fused *f = ANFI_NEW(v->L->a, fused);
  *f = (fused){v->c, *k, v->q->node};
  y->order = ORDER_OWN;
  y->op = v->q->op;
  y->store = store_work, y->write_fused = write_work;
  y->data = f;
  return y;
}

bool anfi_lower_conv(anfi_low *L, const anfi_low_op *q, anfi_view **out) {
  walk v = {.L = L, .q = q};
  anfi_infer t = anfi_low_infer(L, q);
  if (!anfi_conv_plan(&t, &v.c)) return false;
  bool weight = q->op == ANF_OP_ConvGradWeight;
  bool forward = anfi_is_conv(q->op);
  tdtype d = anfi_low_dt((anf_dtype)q->type->dtype);
  v.type = !anfi_t_is_float(d)                  ? ANFI_S64
           : L->o.fast && d.elem != ANF_TIR_f64 ? anfi_t_dt(ANF_TIR_f32)
                                                : ANFI_F64;
  if (forward && anfi_low_conv_bytes(L, q, &v.c, out)) return true;
  v.in = volume(v.c.win.in);
  v.out = volume(v.c.win.out);
  v.kernel = volume(v.c.win.kernel);
  bool any = anfi_low_elements(q->type) > 0, fuse = forward && q->inlined && !L->o.no_fuse;
  if (any && (forward || weight)) v.x = held(L, q->in[0]);
  if (any && !weight) v.w = held(L, q->in[1]);
  if (any && !forward) v.y = held(L, q->in[weight ? 1 : 0]);
  anfi_conv_work k;
  bool kernels = any && kernel_work(&v, &k);
  if (kernels && fuse && may_fuse(&v.c, &k) && !(q->to && q->to[0])) {
    out[0] = fused_conv(&v, &k);
    return true;
  }
  v.to = k.to = anfi_low_result(L, q, 0, q->type);
  out[0] = anfi_view_of_result(L, q->type, v.to);
  if (!any) return true;
  if (kernels) do_kernel_work(L, &v.c, &k);
  else if (weight) to_weight(&v);
  else to_plane(&v, forward);
  return true;
}
