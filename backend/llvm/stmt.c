// SPDX-License-Identifier: Apache-2.0
/* Statements to basic blocks.
 *   if (c) { x = 1 }   ->   br c, then, end;  then: store, br end;  end:
 * Code after a return goes to a block without predecessors. */
#include "backend/llvm/llvm.h"

#include <math.h>
#include <string.h>

/* Not 16, which are a vector: unrolled they would leave the loop around to the vectoriser, which makes gathers. */
enum {
  FEW_TURNS = 15,   // of a loop that LLVM may unroll
  MANY_TURNS = 256, // of one whose turns are computed side by side
};
static const double NEST_TURNS = 64; // of all loops of a nest whose outer ones it may unroll

LLVMBasicBlockRef anfi_ll_new_block(lgen *g, const char *name) {
  return ll.AppendBasicBlockInContext(g->c, g->now->fn, name);
}
void anfi_ll_block(lgen *g, LLVMBasicBlockRef at) {
  ll.MoveBasicBlockAfter(at, ll.GetLastBasicBlock(g->now->fn)); // in the order of the text
  ll.PositionBuilderAtEnd(g->b, at);
}

/* ---- the stack ----
 * A function of a recursive group looks at the stack once in a call of it, and not before it is to
 * call on: half of the calls of a recursion are its ends. */

static bool recurs(lgen *g, texpr e) {
  if (e->kind == TX_call) {
    uint64_t *at = e->u.name ? anfi_map_find(&g->l->m->by_name, anfi_key(e->u.name)) : NULL;
    if (!at || g->l->need[*at - 1].recursive || g->l->need[*at - 1].flags & ANF_RT_DEEP)
      return true;
  }
  if (e->kind == TX_tensor) return false;
  for (uint32_t i = 0; i < e->n; i++)
    if (recurs(g, e->in[i])) return true;
  return false;
}

static bool recurs_in(lgen *g, tstmt s) {
  for (int i = 0; i < 4; i++)
    if (s->e[i] && recurs(g, s->e[i])) return true;
  for (uint32_t i = 0; i < s->n; i++)
    if (s->s[i] && recurs_in(g, s->s[i])) return true;
  return false;
}

static void look_at_stack(lgen *g, tstmt s) {
  bool loop = s->kind == TS_for_loop || s->kind == TS_while_loop, need = loop && recurs_in(g, s);
  for (int i = 0; i < 4 && !need; i++) need = s->e[i] && recurs(g, s->e[i]);
  if (need) anfi_ll_check_stack(g);
}

static void define(lgen *g, tstmt s) {
  texpr v = s->e[0];
  if (v->kind == TX_tensor) {
    anfi_ll_define_tensor(g, s);
    return;
  }
  LLVMValueRef x = s->e[1] ? anfi_ll_expr(g, s->e[1]) : NULL;
  if (x && !anfi_t_same(v->dtype, s->e[1]->dtype)) x = anfi_ll_cast(g, v->dtype, s->e[1]->dtype, x);
  anfi_ll_begin_var(g, v, anfi_ll_type(g, v->dtype), x);
}

static void assign(lgen *g, tstmt s) {
  texpr to = s->e[0];
  LLVMValueRef v = anfi_ll_expr(g, s->e[1]);
  if (!anfi_t_same(to->dtype, s->e[1]->dtype)) v = anfi_ll_cast(g, to->dtype, s->e[1]->dtype, v);
  if (to->kind == TX_var) ll.BuildStore(g->b, v, anfi_ll_slot(g, to)->at);
  else if (anfi_t_attr(s->attrs, TA_stream, NULL)) anfi_ll_stream(g, to, v);
  else anfi_ll_store(g, to, v);
}

static void branch(lgen *g, tstmt s) {
  LLVMBasicBlockRef then = anfi_ll_new_block(g, "then"), end = anfi_ll_new_block(g, ""),
                    other = s->s[1] ? anfi_ll_new_block(g, "else") : end;
  ll.BuildCondBr(g->b, anfi_ll_expr(g, s->e[0]), then, other);
  bool before = g->checked;
  anfi_ll_block(g, then);
  anfi_ll_stmt(g, s->s[0]);
  ll.BuildBr(g->b, end);
  g->checked = before;
  if (s->s[1]) {
    anfi_ll_block(g, other);
    anfi_ll_stmt(g, s->s[1]);
    ll.BuildBr(g->b, end);
    g->checked = before;
  }
  anfi_ll_block(g, end);
}

static void while_loop(lgen *g, tstmt s) {
  LLVMBasicBlockRef head = anfi_ll_new_block(g, "while"), body = anfi_ll_new_block(g, "do"),
                    end = anfi_ll_new_block(g, "");
  ll.BuildBr(g->b, head);
  anfi_ll_block(g, head);
  ll.BuildCondBr(g->b, anfi_ll_expr(g, s->e[0]), body, end);
  anfi_ll_block(g, body);
  anfi_ll_stmt(g, s->s[0]);
  ll.BuildBr(g->b, head);
  anfi_ll_block(g, end);
}

static LLVMMetadataRef property(lgen *g, const char *key, const uint64_t *value) {
  LLVMMetadataRef in[2] = {ll.MDStringInContext2(g->c, key, strlen(key)),
                           value ? ll.ValueAsMetadata(anfi_ll_i32(g, *value)) : NULL};
  return ll.MDNodeInContext2(g->c, in, value ? 2 : 1);
}

/* Loops of more than a few turns stay loops, and so do those of a few that have loops inside, unless the
 * whole nest is small: what unrolling them gains is less than the time that it takes to compile what it
 * makes, as each copy of an inner loop becomes vectors, a remainder and a rest. But where a turn is a long
 * chain of arithmetic, vectors of several turns are computed side by side, for a processor does not look
 * far enough ahead to find the next turn's. `back` is the jump to the start. */
static void shape_loop(lgen *g, LLVMValueRef back, uint64_t side_by_side, uint64_t lanes) {
  LLVMMetadataRef self = ll.TemporaryMDNode(g->c, NULL, 0),
                  in[4] = {self}; // a loop's node has itself first
  size_t n = 1;
  in[n++] = property(g, "llvm.loop.unroll.disable", NULL);
  if (side_by_side > 1) in[n++] = property(g, "llvm.loop.interleave.count", &side_by_side);
  if (lanes) in[n++] = property(g, "llvm.loop.vectorize.width", &lanes);
  LLVMMetadataRef node = ll.MDNodeInContext2(g->c, in, n);
  ll.MetadataReplaceAllUsesWith(self, node);
  ll.SetMetadata(back, ll.GetMDKindIDInContext(g->c, "llvm.loop", 9),
                 ll.MetadataAsValue(g->c, node));
}

/* Of a turn of so many operations on floats; the longest need the registers for themselves. */
static uint64_t vectors_at_once(uint64_t floats) { return floats < 12 ? 1 : floats <= 80 ? 4 : 2; }

/* LLVM takes conversions of f16 for costlier than they are and makes vectors of four: the lanes of a whole vector of floats.
 * 0: its choice. */
static uint64_t lanes_of_halves(const lgen *g, uint64_t halves, int64_t turns) {
  int64_t lanes = g->wide ? 16 : 8;
  return halves && turns >= 2 * lanes ? (uint64_t)lanes : 0;
}

/* How many turns a loop has, if that is known; else INT64_MAX. */
static int64_t turns_of(tstmt s) {
  int64_t b, e, step;
  bool known = anfi_t_const_i64(s->e[1], &b) && anfi_t_const_i64(s->e[2], &e) &&
               anfi_t_const_i64(s->e[3], &step) && step > 0;
  return known ? (e - b) / step : INT64_MAX;
}

/* The number of turns is settled at the start, so a bound at the edge of the type does no harm: the
 * last value is known, and what would come after it is never computed with. */
static void for_loop(lgen *g, tstmt s) {
  texpr v = s->e[0];
  tdtype d = v->dtype;
  bool is_signed = anfi_t_class(d) == TC_SINT;
  LLVMTypeRef t = anfi_ll_type(g, d);
  LLVMValueRef b = anfi_ll_expr(g, s->e[1]), e = anfi_ll_expr(g, s->e[2]),
               st = anfi_ll_expr(g, s->e[3]), one = anfi_ll_int(t, 1), zero = ll.ConstNull(t);
  int64_t step = 0;
  if (!(anfi_t_const_i64(s->e[3], &step) && step > 0))
    anfi_ll_trap_if(g, ll.BuildICmp(g->b, is_signed ? LLVMIntSLE : LLVMIntEQ, st, zero, ""),
                    ANF_TRAP_STEP, s->line, s->col);
  LLVMBasicBlockRef pre = anfi_ll_new_block(g, ""), head = anfi_ll_new_block(g, "for"),
                    more = anfi_ll_new_block(g, ""), end = anfi_ll_new_block(g, "");
  ll.BuildCondBr(g->b, ll.BuildICmp(g->b, is_signed ? LLVMIntSLT : LLVMIntULT, b, e, ""), pre, end);
  anfi_ll_block(g, pre);
  LLVMValueRef last = ll.BuildSub(g->b, e, one, "");
  if (step != 1) { // b + (e - b - 1) / step * step
    LLVMValueRef turns = ll.BuildUDiv(g->b, ll.BuildSub(g->b, last, b, ""), st, "");
    last = ll.BuildAdd(g->b, b, ll.BuildMul(g->b, turns, st, ""), "");
  }
  ll.BuildBr(g->b, head);
  anfi_ll_block(g, head);
  LLVMValueRef i = ll.BuildPhi(g->b, t, v->u.name->s);
  anfi_ll_begin_var(g, v, t, i);
  uint64_t floats = g->floats, halves = g->halves;
  double beside = g->turns;
  g->turns = 0;
  anfi_ll_stmt(g, s->s[0]);
  floats = g->turns > 0 ? 0 : g->floats - floats; // of a loop with none inside
  halves = g->turns > 0 ? 0 : g->halves - halves;
  ll.BuildCondBr(g->b, ll.BuildICmp(g->b, LLVMIntEQ, i, last, ""), end, more);
  anfi_ll_block(g, more);
  LLVMValueRef next = is_signed ? ll.BuildNSWAdd(g->b, i, st, "") : ll.BuildNUWAdd(g->b, i, st, "");
  LLVMValueRef back = ll.BuildBr(g->b, head);
  int64_t turns = turns_of(s);
  double nest = fmax((double)turns, 1) * fmax(g->turns, 1);
  if (turns > FEW_TURNS || (g->turns > 0 && nest > NEST_TURNS))
    shape_loop(g, back, turns < MANY_TURNS ? 1 : vectors_at_once(floats),
               lanes_of_halves(g, halves, turns));
  g->turns = beside + nest;
  ll.AddIncoming(i, &b, &pre, 1);
  ll.AddIncoming(i, &next, &more, 1);
  anfi_ll_block(g, end);
}

static void release(lgen *g, LLVMValueRef mark) {
  anfi_ll_call_rt(g, "anf_rt_release", g->none, 1, &mark);
}

/* Stream memory that the scope allocates is given back at its end, or by a return inside. */
static void sequence(lgen *g, tstmt s) {
  bool takes = false;
  for (uint32_t i = 0; i < s->n; i++) takes |= anfi_jit_on_heap(s->s[i]);
  if (takes) anfi_push(g->a, &g->mark, anfi_ll_call_rt(g, "anf_rt_mark", g->i64, 0, NULL));
  for (uint32_t i = 0; i < s->n; i++) anfi_ll_stmt(g, s->s[i]);
  if (takes) release(g, g->mark.at[--g->mark.n]);
}

static void returns(lgen *g, tstmt s) {
  tdtype ret = g->now->f->ret;
  if (g->streams) anfi_ll_fence(g);
  if (anfi_ll_tail_call(g, s)) {
    anfi_ll_block(g, anfi_ll_new_block(g, "dead"));
    return;
  }
  LLVMValueRef v = s->e[0] ? anfi_ll_expr(g, s->e[0]) : NULL;
  if (v && !anfi_t_is_void(ret) && !anfi_t_same(ret, s->e[0]->dtype))
    v = anfi_ll_cast(g, ret, s->e[0]->dtype, v);
  if (g->mark.n) release(g, g->mark.at[0]);
  if (anfi_t_is_void(ret)) ll.BuildRetVoid(g->b);
  else ll.BuildRet(g->b, v ? v : ll.ConstNull(anfi_ll_type(g, ret)));
  anfi_ll_block(g, anfi_ll_new_block(g, "dead"));
}

void anfi_ll_stmt(lgen *g, tstmt s) {
  if (s->line) {
    g->line = s->line, g->col = s->col;
    anfi_ll_debug_place(g, s->line, s->col);
  }
  if (!g->checked && s->kind != TS_stmts) look_at_stack(g, s);
  switch ((tskind)s->kind) { /* dispatch */
  case TS_stmts: sequence(g, s); break;
  case TS_define: define(g, s); break;
  case TS_assign: assign(g, s); break;
  case TS_if_else: branch(g, s); break;
  case TS_for_loop: for_loop(g, s); break;
  case TS_while_loop: while_loop(g, s); break;
  case TS_evaluate: anfi_ll_expr(g, s->e[0]); break;
  case TS_returns: returns(g, s); break;
  case TS_COUNT: break;
  }
}
