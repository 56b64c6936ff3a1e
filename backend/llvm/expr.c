// SPDX-License-Identifier: Apache-2.0
/* Expressions to values of LLVM.
 *   (x[i] * 2.f)   ->   a load, then fmul
 * Nesting is bounded, so they are walked by recursion. */
#include "backend/llvm/kernel/emit.h"

LLVMValueRef anfi_ll_unsupported(lgen *g, texpr e, const char *what) {
  uint32_t line = e->line ? e->line : g->line, col = e->line ? e->col : g->col;
  anfi_fail(g->cx, anfi_t_loc(g->l->m->t, line, col), ANF_E0913, what, g->now->f->name->s);
  return ll.GetPoison(anfi_t_is_void(e->dtype) ? g->ptr : anfi_ll_type(g, e->dtype));
}

static LLVMValueRef *all(lgen *g, texpr e) {
  LLVMValueRef *v = ANFI_NEW_N(g->a, LLVMValueRef, e->n + 1u);
  for (uint32_t i = 0; i < e->n; i++) v[i] = anfi_ll_expr(g, e->in[i]);
  return v;
}

/* The second operand is skipped where it could be noticed that it is not. */
static LLVMValueRef short_circuit(lgen *g, texpr e) {
  LLVMValueRef a = anfi_ll_expr(g, e->in[0]);
  if (anfi_t_total(e->dtype) != 1 || (anfi_t_pure(e->in[1]) && !anfi_t_may_trap(e->in[1])))
    return anfi_ll_bin(g, (tkind)e->kind, e->dtype, a, anfi_ll_expr(g, e->in[1]));
  bool is_and = e->kind == TX_logic_and;
  LLVMBasicBlockRef more = anfi_ll_new_block(g, ""), end = anfi_ll_new_block(g, ""),
                    from[2] = {ll.GetInsertBlock(g->b), NULL};
  ll.BuildCondBr(g->b, a, is_and ? more : end, is_and ? end : more);
  anfi_ll_block(g, more);
  LLVMValueRef in[2] = {ll.ConstInt(g->i1, is_and ? 0 : 1, 0), anfi_ll_expr(g, e->in[1])};
  from[1] = ll.GetInsertBlock(g->b);
  ll.BuildBr(g->b, end);
  anfi_ll_block(g, end);
  LLVMValueRef phi = ll.BuildPhi(g->b, g->i1, "");
  ll.AddIncoming(phi, in, from, 2);
  return phi;
}

static LLVMValueRef offset(lgen *g, texpr e, LLVMValueRef p, LLVMValueRef off, tdtype d) {
  (void)e;
  off = anfi_ll_cast(g, anfi_t_dt(ANF_TIR_s64), d, off);
  return ll.BuildGEP2(g->b, g->i8, p, &off, 1, "");
}

static LLVMValueRef prefetch(lgen *g, texpr e, LLVMValueRef p) {
  int64_t locality = 3;
  anfi_t_attr(e->u.attrs, TA_locality, &locality);
  LLVMValueRef in[] = {p, anfi_ll_i32(g, 0), anfi_ll_i32(g, (uint64_t)locality & 3),
                       anfi_ll_i32(g, 1)};
  return anfi_ll_intrinsic(g, "llvm.prefetch", g->ptr, 4, in);
}

static LLVMValueRef intrinsic(lgen *g, texpr e) {
  bool is_volatile = e->sub == TI_volatile_load && e->in[0]->kind == TX_indexing;
  if (is_volatile) return anfi_ll_load(g, e->in[0], true);
  if (e->sub == TI_brgemm || e->sub == TI_list_brgemm) return anfi_kernel_call(g, e);
  LLVMValueRef *v = all(g, e);
  if (anfi_t_lanewise((tintrin)e->sub)) return anfi_ll_lanewise(g, e, v);
  switch ((tintrin)e->sub) { /* dispatch */
  case TI_reduce_add:
  case TI_reduce_mul:
  case TI_reduce_max:
  case TI_reduce_min: return anfi_ll_reduce(g, e, v[0]);
  case TI_reinterpret:
  case TI_saturated_cast:
  case TI_round_and_cast: return anfi_ll_convert(g, e, v[0]);
  case TI_constant_load:
  case TI_volatile_load: return v[0];
  case TI_gather: return anfi_ll_gather(g, e, v);
  case TI_read_struct:
    return anfi_ll_load_at(g, e->dtype, offset(g, e, v[0], v[1], e->in[1]->dtype), 1);
  case TI_write_struct:
    anfi_ll_store_at(g, e->in[1]->dtype, offset(g, e, v[0], v[2], e->in[2]->dtype), v[1], 1);
    return NULL;
  case TI_prefetch: return prefetch(g, e, v[0]);
  default: return anfi_ll_shuffle(g, e, v);
  }
}

static LLVMValueRef variable(lgen *g, texpr e) {
  if (e == g->now->f->param[0]) return g->stream ? g->stream : ll.ConstNull(g->ptr);
  if (e == g->now->f->param[1]) return g->data ? g->data : ll.ConstNull(g->ptr);
  const lslot *s = anfi_ll_slot(g, e);
  return s->value ? s->value : ll.BuildLoad2(g->b, s->type, s->at, "");
}

LLVMValueRef anfi_ll_expr(lgen *g, texpr e) {
  LLVMValueRef v[3];
  switch ((tkind)e->kind) { /* dispatch */
  case TX_constant: return anfi_ll_constant(g, e);
  case TX_var: return variable(g, e);
  case TX_tensor: return anfi_ll_slot(g, e)->at;
  case TX_cast: return anfi_ll_cast(g, e->dtype, e->in[0]->dtype, anfi_ll_expr(g, e->in[0]));
  case TX_logic_and:
  case TX_logic_or: return short_circuit(g, e);
  case TX_logic_not: return ll.BuildNot(g->b, anfi_ll_expr(g, e->in[0]), "");
  case TX_select:
    for (int i = 0; i < 3; i++) v[i] = anfi_ll_expr(g, e->in[i]);
    return ll.BuildSelect(g->b, v[0], v[1], v[2], "");
  case TX_indexing: return anfi_ll_load(g, e, false);
  case TX_tensorptr: return anfi_ll_address(g, e);
  case TX_call: return anfi_ll_call(g, e);
  case TX_intrin_call: return intrinsic(g, e);
  case TX_func_addr: return anfi_ll_func_addr(g, e->u.name);
  case TX_ssa_phi: return anfi_ll_unsupported(g, e, "a phi"); // dessa_transform has been run
  default:
    for (int i = 0; i < 2; i++) v[i] = anfi_ll_expr(g, e->in[i]);
    return anfi_ll_binary(g, e, v[0], v[1]);
  }
}
