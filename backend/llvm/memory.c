// SPDX-License-Identifier: Apache-2.0
/* Variables, tensors, loads and stores.
 *   var x: s32           ->   %x = alloca i32, which mem2reg promotes
 *   tensor t: [f32 * 4 * n]  ->   a pointer, dims and strides, computed at its definition
 *   t[i, j] = 1.f        ->   a store at t + i n + j */
#include "backend/llvm/llvm.h"

lslot *anfi_ll_slot(lgen *g, texpr v) {
  uint64_t *at = anfi_map_find(&g->slots, anfi_key(v));
  return at ? &g->slot.at[*at - 1] : NULL;
}

void anfi_ll_begin_var(lgen *g, texpr v, LLVMTypeRef t, LLVMValueRef x) {
  lslot *s = anfi_ll_slot(g, v);
  if (!s) s = anfi_ll_new_slot(g, v);
  s->type = t;
  if (x && !anfi_map_find(&g->assigned, anfi_key(v))) {
    s->value = x;
    return;
  }
  if (!s->at) s->at = anfi_ll_alloca(g, t, v->u.name->s);
  if (x) ll.BuildStore(g->b, x, s->at);
}

lslot *anfi_ll_new_slot(lgen *g, texpr v) {
  anfi_push(g->a, &g->slot, (lslot){0});
  *anfi_map_at(&g->slots, anfi_key(v)) = g->slot.n;
  return &g->slot.at[g->slot.n - 1];
}

LLVMValueRef anfi_ll_alloca(lgen *g, LLVMTypeRef t, const char *name) {
  return ll.BuildAlloca(g->eb, t, name);
}

/* ---- loads and stores ---- */

enum { LINE = 64 };

static bool is_bool(tdtype d) { return anfi_t_is_elem(d, ANF_TIR_bool); }

LLVMValueRef anfi_ll_load_at(lgen *g, tdtype d, LLVMValueRef p, uint32_t align) {
  LLVMValueRef v = ll.BuildLoad2(g->b, anfi_ll_memory_type(g, d), p, "");
  ll.SetAlignment(v, align);
  return is_bool(d) ? anfi_ll_from_bits(g, d, v) : v;
}

void anfi_ll_store_at(lgen *g, tdtype d, LLVMValueRef p, LLVMValueRef v, uint32_t align) {
  if (is_bool(d)) v = anfi_ll_to_bits(g, d, v);
  ll.SetAlignment(ll.BuildStore(g->b, v, p), align);
}

static uint32_t elem_bytes(texpr t) {
  return t->sub ? 8 : (uint32_t)anfi_t_bytes(anfi_t_dt((anf_tir_elem)t->dtype.elem));
}

static tdtype elem_type(texpr t) {
  tdtype d = t->dtype;
  d.ptr = t->sub;
  d.lanes = 1;
  d.rows = 0;
  return d;
}

static LLVMValueRef as_i64(lgen *g, texpr e) {
  return anfi_ll_cast(g, anfi_t_dt(ANF_TIR_s64), e->dtype, anfi_ll_expr(g, e));
}

/* In a right program the address is in its tensor or at its end (inbounds); of masked lanes it may be elsewhere. */
LLVMValueRef anfi_ll_address(lgen *g, texpr e) {
  texpr t = e->in[0];
  lslot s = *anfi_ll_slot(g, t);
  LLVMValueRef at = NULL;
  for (uint32_t k = 0; k < e->nidx; k++) {
    LLVMValueRef i = as_i64(g, e->in[1 + k]);
    bool dense = ll.IsAConstantInt(s.strides[k]) && ll.ConstIntGetZExtValue(s.strides[k]) == 1;
    if (!dense) i = ll.BuildMul(g->b, i, s.strides[k], "");
    at = at ? ll.BuildAdd(g->b, at, i, "") : i;
  }
  LLVMTypeRef type = anfi_ll_memory_type(g, elem_type(t));
  if (!at) return s.at;
  bool masked = e->kind == TX_indexing && anfi_t_mask(e);
  return masked ? ll.BuildGEP2(g->b, type, s.at, &at, 1, "")
                : ll.BuildInBoundsGEP2(g->b, type, s.at, &at, 1, "");
}

/* ---- masks and tiles ---- */

static LLVMValueRef masked_call(lgen *g, bool store, tdtype d, LLVMValueRef p, LLVMValueRef mask,
                                LLVMValueRef v, uint32_t align) {
  LLVMTypeRef mem = anfi_ll_memory_type(g, d), vec = mem;
  uint32_t n = anfi_t_total(d);
  if (n == 1) { // the intrinsics take vectors alone
    vec = ll.VectorType(mem, 1);
    mask = ll.BuildBitCast(g->b, mask, ll.VectorType(g->i1, 1), "");
    if (v) v = ll.BuildInsertElement(g->b, ll.GetPoison(vec), v, anfi_ll_i32(g, 0), "");
  }
  LLVMTypeRef over[2] = {vec, g->ptr};
  const char *name = store ? "llvm.masked.store" : "llvm.masked.load";
  unsigned id = ll.LookupIntrinsicID(name, strlen(name));
  LLVMValueRef fn = ll.GetIntrinsicDeclaration(g->m, id, over, 2), a = anfi_ll_i32(g, align);
  LLVMValueRef load[] = {p, a, mask, ll.ConstNull(vec)}, put[] = {v, p, a, mask};
  LLVMValueRef r =
      ll.BuildCall2(g->b, ll.IntrinsicGetType(g->c, id, over, 2), fn, store ? put : load, 4, "");
  return n == 1 && !store ? ll.BuildExtractElement(g->b, r, anfi_ll_i32(g, 0), "") : r;
}

static LLVMValueRef masked_load(lgen *g, tdtype d, LLVMValueRef p, LLVMValueRef mask,
                                uint32_t align) {
  LLVMValueRef v = masked_call(g, false, d, p, mask, NULL, align);
  return is_bool(d) ? anfi_ll_from_bits(g, d, v) : v;
}
static void masked_store(lgen *g, tdtype d, LLVMValueRef p, LLVMValueRef mask, LLVMValueRef v,
                         uint32_t align) {
  if (is_bool(d)) v = anfi_ll_to_bits(g, d, v);
  masked_call(g, true, d, p, mask, v, align);
}

static tdtype row_of(tdtype d) {
  d.rows = 0;
  return d;
}

/* Row k of a tile: its address, and its part of a vector of all lanes */
static LLVMValueRef row_address(lgen *g, texpr e, LLVMValueRef p, uint32_t k) {
  texpr t = e->in[0];
  LLVMValueRef stride = t->nidx > 1 ? anfi_ll_slot(g, t)->strides[t->nidx - 2] : anfi_ll_i64(g, 0),
               at = ll.BuildMul(g->b, stride, anfi_ll_i64(g, k), "");
  return ll.BuildGEP2(g->b, anfi_ll_memory_type(g, elem_type(t)), p, &at, 1, "");
}

static LLVMValueRef row_lanes(lgen *g, tdtype d, LLVMValueRef all, uint32_t k) {
  uint32_t n = d.lanes, total = anfi_t_total(d);
  if (total == n) return all;
  LLVMValueRef r = ll.GetPoison(anfi_ll_vector_of(ll.GetElementType(ll.TypeOf(all)), n));
  for (uint32_t i = 0; i < n; i++)
    r = anfi_ll_put_lane(g, r, n, i, anfi_ll_lane(g, all, total, k * n + i));
  return r;
}

static LLVMValueRef load_tile(lgen *g, texpr e, LLVMValueRef p, LLVMValueRef mask, uint32_t align) {
  tdtype d = e->dtype, row = row_of(d);
  uint32_t n = d.lanes, total = anfi_t_total(d);
  LLVMValueRef r = ll.GetPoison(anfi_ll_type(g, d));
  for (uint32_t k = 0; k < d.rows; k++) {
    LLVMValueRef at = row_address(g, e, p, k),
                 v = mask ? masked_load(g, row, at, row_lanes(g, d, mask, k), align)
                          : anfi_ll_load_at(g, row, at, align);
    for (uint32_t i = 0; i < n; i++)
      r = anfi_ll_put_lane(g, r, total, k * n + i, anfi_ll_lane(g, v, n, i));
  }
  return r;
}

LLVMValueRef anfi_ll_load(lgen *g, texpr e, bool is_volatile) {
  texpr m = anfi_t_mask(e);
  uint32_t align = elem_bytes(e->in[0]);
  LLVMValueRef p = anfi_ll_address(g, e), mask = m ? anfi_ll_expr(g, m) : NULL, v;
  if (e->dtype.rows) return load_tile(g, e, p, mask, align);
  if (mask) return masked_load(g, e->dtype, p, mask, align);
  v = ll.BuildLoad2(g->b, anfi_ll_memory_type(g, e->dtype), p, "");
  ll.SetAlignment(v, align);
  if (is_volatile) ll.SetVolatile(v, 1);
  return is_bool(e->dtype) ? anfi_ll_from_bits(g, e->dtype, v) : v;
}

void anfi_ll_store(lgen *g, texpr e, LLVMValueRef v) {
  texpr m = anfi_t_mask(e);
  tdtype d = e->dtype, row = row_of(d);
  uint32_t align = elem_bytes(e->in[0]);
  LLVMValueRef p = anfi_ll_address(g, e), mask = m ? anfi_ll_expr(g, m) : NULL;
  if (!d.rows) {
    if (mask) masked_store(g, d, p, mask, v, align);
    else anfi_ll_store_at(g, d, p, v, align);
    return;
  }
  for (uint32_t k = 0; k < d.rows; k++) {
    LLVMValueRef at = row_address(g, e, p, k), part = row_lanes(g, d, v, k);
    if (mask) masked_store(g, row, at, row_lanes(g, d, mask, k), part, align);
    else anfi_ll_store_at(g, row, at, part, align);
  }
}

/* !nontemporal: LLVM has instructions for whole vectors in aligned memory alone, and drops the wish elsewhere. */
void anfi_ll_stream(lgen *g, texpr e, LLVMValueRef v) {
  tdtype d = e->dtype;
  uint64_t bytes = (uint64_t)anfi_t_total(d) * elem_bytes(e->in[0]);
  if (d.rows || anfi_t_mask(e) || is_bool(d) || bytes < 16 || bytes > LINE ||
      (bytes & (bytes - 1))) {
    anfi_ll_store(g, e, v);
    return;
  }
  LLVMValueRef p = anfi_ll_address(g, e), bits = ll.BuildPtrToInt(g->b, p, g->i64, ""),
               low = ll.BuildAnd(g->b, bits, anfi_ll_i64(g, bytes - 1), ""),
               one = anfi_ll_i32(g, 1);
  LLVMBasicBlockRef aligned = anfi_ll_new_block(g, "stream"), other = anfi_ll_new_block(g, ""),
                    end = anfi_ll_new_block(g, "");
  ll.BuildCondBr(g->b, ll.BuildICmp(g->b, LLVMIntEQ, low, anfi_ll_i64(g, 0), ""), aligned, other);
  anfi_ll_block(g, aligned);
  LLVMValueRef past = ll.BuildStore(g->b, v, p);
  LLVMMetadataRef yes = ll.ValueAsMetadata(one), node = ll.MDNodeInContext2(g->c, &yes, 1);
  ll.SetAlignment(past, (unsigned)bytes);
  ll.SetMetadata(past, ll.GetMDKindIDInContext(g->c, "nontemporal", 11),
                 ll.MetadataAsValue(g->c, node));
  ll.BuildBr(g->b, end);
  anfi_ll_block(g, other);
  LLVMValueRef usual = ll.BuildStore(g->b, v, p);
  ll.SetAlignment(usual, elem_bytes(e->in[0]));
  ll.SetVolatile(usual, 1); // else LLVM makes one ordinary store of the two
  ll.BuildBr(g->b, end);
  anfi_ll_block(g, end);
}

void anfi_ll_fence(lgen *g) {
  ll.BuildFence(g->b, LLVMAtomicOrderingSequentiallyConsistent, 0, "");
}

LLVMValueRef anfi_ll_gather(lgen *g, texpr e, const LLVMValueRef *v) {
  uint32_t n = anfi_t_total(e->dtype);
  tdtype one = e->dtype, idx = anfi_t_dt((anf_tir_elem)e->in[1]->dtype.elem);
  one.lanes = 1, one.rows = 0;
  LLVMValueRef r = ll.GetPoison(anfi_ll_type(g, e->dtype));
  for (uint32_t k = 0; k < n; k++) {
    LLVMValueRef at = anfi_ll_cast(g, anfi_t_dt(ANF_TIR_s64), idx, anfi_ll_lane(g, v[1], n, k)),
                 p = ll.BuildGEP2(g->b, anfi_ll_memory_type(g, one), v[0], &at, 1, "");
    r = anfi_ll_put_lane(g, r, n, k, anfi_ll_load_at(g, one, p, (uint32_t)anfi_t_bytes(one)));
  }
  return r;
}

/* ---- tensors ---- */

static void shape(lgen *g, texpr v, lslot *s) {
  s->dim = ANFI_NEW_N(g->a, LLVMValueRef, v->nidx + 1u);
  s->strides = ANFI_NEW_N(g->a, LLVMValueRef, v->nidx + 1u);
  for (uint32_t k = 0; k < v->nidx; k++) s->dim[k] = as_i64(g, v->in[k]);
  if (anfi_t_has_strides(v)) {
    for (uint32_t k = 0; k < v->nidx; k++) s->strides[k] = as_i64(g, v->in[v->nidx + k]);
    return;
  }
  LLVMValueRef stride = anfi_ll_i64(g, 1);
  for (uint32_t k = v->nidx; k-- > 0;) {
    s->strides[k] = stride;
    stride = ll.BuildMul(g->b, stride, s->dim[k], "");
  }
}

void anfi_ll_tensor_param(lgen *g, texpr v, LLVMValueRef p) {
  lslot s = {.at = p};
  shape(g, v, &s);
  *anfi_ll_new_slot(g, v) = s;
}

/* Memory in the frame, or of the stream until the end of the scope. */
static LLVMValueRef room(lgen *g, texpr v, const lslot *s, bool on_heap) {
  uint64_t n = 0;
  LLVMTypeRef t = anfi_ll_memory_type(g, elem_type(v));
  LLVMValueRef bytes = anfi_ll_i64(g, elem_bytes(v));
  if (on_heap) {
    for (uint32_t k = 0; k < v->nidx; k++) bytes = ll.BuildMul(g->b, bytes, s->dim[k], "");
    return anfi_ll_call_rt(g, "anf_rt_alloc", g->ptr, 1, &bytes);
  }
  anfi_t_const_elems(v, &n);
  LLVMValueRef p = anfi_ll_alloca(g, ll.ArrayType2(t, n ? n : 1), v->u.name->s);
  ll.SetAlignment(p, n * elem_bytes(v) < LINE
                         ? 8
                         : LINE); // else a recursion's frames would be lines of numbers
  return p;
}

/* for (i = 0; i < n; i++) p[i] = x */
static void fill(lgen *g, LLVMTypeRef t, LLVMValueRef p, LLVMValueRef n, LLVMValueRef x) {
  LLVMBasicBlockRef before = ll.GetInsertBlock(g->b), head = anfi_ll_new_block(g, "fill"),
                    body = anfi_ll_new_block(g, ""), end = anfi_ll_new_block(g, "");
  ll.BuildBr(g->b, head);
  anfi_ll_block(g, head);
  LLVMValueRef i = ll.BuildPhi(g->b, g->i64, "");
  ll.BuildCondBr(g->b, ll.BuildICmp(g->b, LLVMIntULT, i, n, ""), body, end);
  anfi_ll_block(g, body);
  ll.BuildStore(g->b, x, ll.BuildInBoundsGEP2(g->b, t, p, &i, 1, ""));
  LLVMValueRef next = ll.BuildAdd(g->b, i, anfi_ll_i64(g, 1), ""), zero = anfi_ll_i64(g, 0);
  ll.BuildBr(g->b, head);
  ll.AddIncoming(i, &zero, &before, 1);
  ll.AddIncoming(i, &next, &body, 1);
  anfi_ll_block(g, end);
}

/* The values that a list names, each at its place; one value is for all. */
static void initial(lgen *g, texpr v, const lslot *s, texpr list) {
  tdtype d = elem_type(v);
  LLVMTypeRef t = anfi_ll_memory_type(g, d);
  if (list->u.list.n == 1) {
    uint64_t bits = anfi_t_list_lane(list, 0);
    LLVMValueRef n = anfi_ll_i64(g, 1), x = anfi_ll_bits_constant(g, d, &bits, 1);
    for (uint32_t k = 0; k < v->nidx; k++) n = ll.BuildMul(g->b, n, s->dim[k], "");
    fill(g, t, s->at, n, is_bool(d) ? anfi_ll_to_bits(g, d, x) : x);
    return;
  }
  for (uint32_t i = 0; i < list->u.list.n; i++) {
    uint64_t bits = anfi_t_list_lane(list, i);
    LLVMValueRef at = anfi_ll_i64(g, i), x = anfi_ll_bits_constant(g, d, &bits, 1);
    anfi_ll_store_at(g, d, ll.BuildInBoundsGEP2(g->b, t, s->at, &at, 1, ""), x, elem_bytes(v));
  }
}

void anfi_ll_define_tensor(lgen *g, tstmt define) {
  texpr v = define->e[0], init = define->e[1];
  lslot s = {0};
  bool list = init && init->kind == TX_constant && init->sub;
  shape(g, v, &s);
  if (init && !list)
    s.at = anfi_ll_cast(g, anfi_t_ptr(ANF_TIR_void), init->dtype, anfi_ll_expr(g, init));
  else s.at = room(g, v, &s, anfi_jit_on_heap(define));
  if (list) initial(g, v, &s, init);
  lslot *have = anfi_ll_slot(g, v);
  if (!have) have = anfi_ll_new_slot(g, v);
  *have = s;
}
