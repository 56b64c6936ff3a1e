// SPDX-License-Identifier: Apache-2.0
/* Functions: what they look like to each other and to C, and their bodies.
 *   f(x), with tensors of the module    ->   f.body(stream, data, x);  f_0wrapper(slots);  f(x) as C calls it
 *   g(x), which needs neither           ->   g itself
 * `f` of the module becomes f.body, which takes the stream and module data only if it needs them. Hard case: functions
 * whose address is taken have stream and data first, always. */
#include "backend/llvm/llvm.h"

enum { FN = -1 }; // LLVMAttributeFunctionIndex

static bool is_entry(tfunc f) { return !anfi_t_attr(f->attrs, TA_is_private, NULL); }
static bool is_init(tfunc f) { return strcmp(f->name->s, "__tir_init") == 0; }

/* A symbol as C sees it; names of functions that code itself uses are theirs alone. */
static const char *symbol(lgen *g, tfunc f) {
  return anfi_jit_builtin(f->name->s) ? anfi_sprintf(g->a, "anf.%s", f->name->s) : f->name->s;
}

static bool any_vector(tfunc f) {
  bool v = anfi_t_total(f->ret) != 1;
  for (uint32_t i = 2; i < f->n; i++)
    v |= !f->param[i]->dtype.ptr && anfi_t_total(f->param[i]->dtype) != 1;
  return v;
}

static void extend_all(lgen *g, LLVMValueRef fn, tfunc f, unsigned first) {
  for (uint32_t i = 2; i < f->n; i++)
    anfi_ll_extend(g, fn, first + i - 1, f->param[i]->dtype, false);
  anfi_ll_extend(g, fn, LLVMAttributeReturnIndex, f->ret, false);
}

static void common(lgen *g, LLVMValueRef fn) {
  anfi_ll_attr(g, fn, (unsigned)FN, "nounwind", false);
  if (g->wide) anfi_ll_text_attr(g, fn, "prefer-vector-width", "512"); // some CPUs' default is 256
  if (g->e->o.debug) {
    unsigned kind = ll.GetEnumAttributeKindForName("uwtable", 7);
    ll.AddAttributeAtIndex(fn, (unsigned)FN, ll.CreateEnumAttribute(g->c, kind, 2));
  }
}

static bool no_expr(tviewer *v, texpr e) { return (void)v, (void)e, false; }
static bool find_loop(tviewer *v, tstmt s) {
  *(bool *)v->user |= s->kind == TS_for_loop || s->kind == TS_while_loop || s->kind == TS_assign;
  return true;
}

bool anfi_ll_is_plain(tfunc f) {
  int64_t level = 1;
  bool works = false;
  tviewer v = {.user = &works, .enter_stmt = find_loop, .enter_expr = no_expr};
  if (!f->body || !anfi_t_attr(f->attrs, TA_inline_level, &level) || level) return false;
  if (anfi_t_attr(f->attrs, TA_once, NULL)) return true;
  anfi_t_view_stmt(&v, f->body);
  return !works;
}

/* Small functions are part of what calls them, so that loops become vector code. Parts of a long
 * function stay apart. */
static void inlining(lgen *g, const lfunc *u) {
  int64_t level = 1;
  if (anfi_t_attr(u->f->attrs, TA_inline_level, &level) && level == 2 && !u->need.recursive)
    anfi_ll_attr(g, u->fn, (unsigned)FN, "alwaysinline", false);
  if (level) return;
  anfi_ll_attr(g, u->fn, (unsigned)FN, "noinline", false);
  if (!u->need.recursive && anfi_ll_is_plain(u->f))
    anfi_ll_attr(g, u->fn, (unsigned)FN, "optnone", false);
}

static bool is_here(const lgen *g, size_t i) { return !g->split || g->split->of[i] == g->group; }
/* Do others than this module of LLVM's see its body? */
static bool is_shared(const lgen *g, size_t i) {
  return g->split && (g->split->shared[i] || !is_here(g, i));
}

static void declare(lgen *g, size_t i) {
  lfunc *u = &g->func[i];
  tfunc f = u->f;
  bool both = u->need.address;
  u->stream = both || u->need.flags & ANF_RT_STREAM;
  u->data = both || u->need.flags & ANF_RT_DATA;
  u->swift = u->stream && !both;
  u->type = anfi_ll_func_type(g, f->ret, u->stream, u->data, f->n - 2, f->param + 2);
  u->itself = !u->stream && !u->data && is_entry(f) && !any_vector(f) && !is_init(f);
  const char *name = u->itself ? symbol(g, f) : anfi_sprintf(g->a, "%s.body", f->name->s);
  u->fn = ll.AddFunction(g->m, name, u->type);
  if (!u->itself && !is_shared(g, i)) ll.SetLinkage(u->fn, LLVMInternalLinkage);
  common(g, u->fn);
  if (is_here(g, i)) inlining(g, u);
  if (u->swift) anfi_ll_attr(g, u->fn, 1, "swiftself", false);
  extend_all(g, u->fn, f, (unsigned)u->stream + u->data);
}

void anfi_ll_declare_all(lgen *g) {
  const tmod *m = g->l->m;
  g->func = ANFI_NEW_N(g->a, lfunc, m->func.n);
  anfi_map_init(&g->elsewhere, g->a);
  for (size_t i = 0; i < m->func.n; i++) {
    g->func[i].f = m->func.at[i];
    g->func[i].need = g->l->need[i];
    if (m->func.at[i]->body && is_here(g, i)) declare(g, i);
  }
}

const lfunc *anfi_ll_own(lgen *g, const anfi_str *name) {
  uint64_t *at = name ? anfi_map_find(&g->l->m->by_name, anfi_key(name)) : NULL;
  if (!at || !g->func[*at - 1].f->body) return NULL;
  if (!g->func[*at - 1].fn) {
    declare(g, *at - 1);
    *anfi_map_at(&g->elsewhere, anfi_key(g->func[*at - 1].fn)) = 1;
  }
  return &g->func[*at - 1];
}

bool anfi_ll_is_elsewhere(const lgen *g, LLVMValueRef fn) {
  return anfi_map_find(&g->elsewhere, anfi_key(fn)) != NULL;
}

/* ---- bodies ---- */

static LLVMValueRef stack_pointer(lgen *g) {
  const char *reg = strncmp(g->e->target.triple, "x86_64", 6) == 0    ? "rsp"
                    : strncmp(g->e->target.triple, "aarch64", 7) == 0 ? "sp"
                                                                      : NULL;
  if (!reg) return ll.BuildPtrToInt(g->b, anfi_ll_alloca(g, g->i8, "here"), g->i64, "");
  LLVMMetadataRef s = ll.MDStringInContext2(g->c, reg, strlen(reg)),
                  n = ll.MDNodeInContext2(g->c, &s, 1);
  LLVMValueRef in = ll.MetadataAsValue(g->c, n);
  return anfi_ll_intrinsic(g, "llvm.read_register", g->i64, 1, &in);
}

void anfi_ll_check_stack(lgen *g) {
  g->checked = true;
  LLVMValueRef off = anfi_ll_i64(g, ANF_RT_STACK_LIMIT),
               p = ll.BuildGEP2(g->b, g->i8, g->stream, &off, 1, ""),
               limit = ll.BuildLoad2(g->b, g->i64, p, ""),
               low = ll.BuildICmp(g->b, LLVMIntULT, stack_pointer(g), limit, "");
  anfi_ll_trap_if(g, low, ANF_TRAP_DEPTH, g->now->f->line, g->now->f->col);
}

typedef struct finder {
  tfunc f;
  bool found;
} finder;
static bool find_tail(tviewer *v, tstmt s) {
  finder *u = (finder *)v->user;
  u->found |= anfi_jit_self_tail(u->f, s);
  return !u->found;
}
static bool has_self_tail(tfunc f) {
  finder u = {f, false};
  tviewer v = {.user = &u, .enter_stmt = find_tail, .enter_expr = no_expr};
  if (!anfi_jit_has_local_tensors(f)) anfi_t_view_stmt(&v, f->body);
  return u.found;
}

/* ---- variables ---- */

static void has_place(lgen *g, texpr v) { *anfi_map_at(&g->assigned, anfi_key(v)) = 1; }

static bool see_assigned(tviewer *v, tstmt s) {
  bool var =
      (s->kind == TS_assign || (s->kind == TS_define && !s->e[1])) && s->e[0]->kind == TX_var;
  lgen *g = (lgen *)v->user;
  if (var) has_place(g, s->e[0]);
  g->streams |= anfi_t_attr(s->attrs, TA_stream, NULL);
  return true;
}

/* Finds the variables that a statement assigns; of a function with a tail call to itself, its parameters too. */
static void find_assigned(lgen *g, tfunc f) {
  tviewer v = {.user = g, .enter_stmt = see_assigned, .enter_expr = no_expr};
  anfi_map_init(&g->assigned, g->a);
  anfi_t_view_stmt(&v, f->body);
  for (uint32_t i = 0; g->self_tail && i < f->n; i++) has_place(g, f->param[i]);
}

/* INVARIANT: slot i is that of parameter i, for anfi_ll_tail_call. */
static void parameters(lgen *g, const lfunc *u) {
  tfunc f = u->f;
  unsigned k = (unsigned)u->stream + u->data;
  for (uint32_t i = 0; i < f->n; i++) {
    LLVMTypeRef t = anfi_ll_type(g, f->param[i]->dtype);
    if (i < 2) anfi_ll_new_slot(g, f->param[i]);
    else anfi_ll_begin_var(g, f->param[i], t, ll.GetParam(u->fn, k + i - 2));
  }
}

/* Tensors among the parameters: their places are read here, where self tail calls come back to. */
static void tensor_parameters(lgen *g, const lfunc *u) {
  tfunc f = u->f;
  unsigned k = (unsigned)u->stream + u->data;
  for (uint32_t i = 2; i < f->n; i++) {
    if (f->param[i]->kind != TX_tensor) continue;
    LLVMValueRef p = g->self_tail ? ll.BuildLoad2(g->b, g->ptr, g->slot.at[i].at, "")
                                  : ll.GetParam(u->fn, k + i - 2);
    anfi_ll_tensor_param(g, f->param[i], p);
    if (!g->self_tail && !anfi_t_shares_buffer(f, i - 2))
      anfi_ll_attr(g, u->fn, k + i - 1, "noalias", false);
  }
}

static void body(lgen *g, const lfunc *u) {
  tfunc f = u->f;
  g->now = u;
  g->slot.n = 0;
  g->mark.n = 0;
  anfi_map_init(&g->slots, g->a);
  g->self_tail = has_self_tail(f);
  g->streams = false;
  find_assigned(g, f);
  g->streams &= !u->need.turn || u->need.called;
  g->line = f->line, g->col = f->col;
  g->stream = u->stream ? ll.GetParam(u->fn, 0) : NULL;
  g->data = u->data ? ll.GetParam(u->fn, u->stream) : NULL;
  LLVMBasicBlockRef entry = anfi_ll_new_block(g, "entry"), start = anfi_ll_new_block(g, "start");
  ll.PositionBuilderAtEnd(g->eb, entry);
  ll.PositionBuilderAtEnd(g->b, start);
  anfi_ll_debug_func(g, f, u->fn, f->name->s);
  g->func_name = u->need.flags & ANF_RT_TRAPS ? ll.BuildGlobalStringPtr(g->b, f->name->s, "name")
                                              : ll.ConstNull(g->ptr);
  parameters(g, u);
  g->checked = !u->need.recursive;
  g->again = anfi_ll_new_block(g, "again");
  ll.BuildBr(g->b, g->again);
  anfi_ll_block(g, g->again);
  tensor_parameters(g, u);
  anfi_ll_stmt(g, f->body);
  if (g->streams) anfi_ll_fence(g);
  if (anfi_t_is_void(f->ret)) ll.BuildRetVoid(g->b);
  else ll.BuildRet(g->b, ll.ConstNull(anfi_ll_type(g, f->ret)));
  ll.BuildBr(g->eb, start);
}

/* ---- by slots ---- */

static LLVMValueRef slot_at(lgen *g, LLVMValueRef args, uint32_t i) {
  LLVMValueRef at = anfi_ll_i64(g, i);
  return ll.BuildInBoundsGEP2(g->b, g->i64, args, &at, 1, "");
}

static LLVMValueRef call_body(lgen *g, const lfunc *u, LLVMValueRef stream, LLVMValueRef data,
                              LLVMValueRef *in) {
  uint32_t k = 0, n = u->f->n - 2;
  LLVMValueRef *all = ANFI_NEW_N(g->a, LLVMValueRef, n + 2);
  if (u->stream) all[k++] = stream;
  if (u->data) all[k++] = data;
  for (uint32_t i = 0; i < n; i++) all[k + i] = in[i];
  LLVMValueRef c = ll.BuildCall2(g->b, u->type, u->fn, all, k + n, "");
  if (u->swift) anfi_ll_attr(g, c, 1, "swiftself", true);
  for (uint32_t i = 0; i < n; i++) anfi_ll_extend(g, c, k + i + 1, u->f->param[i + 2]->dtype, true);
  anfi_ll_extend(g, c, LLVMAttributeReturnIndex, u->f->ret, true);
  return c;
}

/* A result in a slot is its bits, zero-extended; of more than one lane it goes where the slot points */
static void put_result(lgen *g, tdtype d, LLVMValueRef slot, LLVMValueRef v) {
  if (anfi_t_is_void(d)) return;
  if (anfi_t_total(d) == 1) {
    v = anfi_ll_cast(g, anfi_t_dt(ANF_TIR_generic), d, v);
    ll.BuildStore(g->b, v, slot);
    return;
  }
  LLVMValueRef p = ll.BuildLoad2(g->b, g->ptr, slot, "");
  anfi_ll_store_at(g, d, p, v, 1);
}

static LLVMValueRef start_function(lgen *g, const char *name, LLVMTypeRef t) {
  LLVMValueRef fn = ll.AddFunction(g->m, name, t);
  common(g, fn);
  ll.PositionBuilderAtEnd(g->b, ll.AppendBasicBlockInContext(g->c, fn, ""));
  return fn;
}

static LLVMValueRef wrapper(lgen *g, const lfunc *u) {
  tfunc f = u->f;
  LLVMTypeRef t[3] = {g->ptr, g->ptr, g->ptr};
  const char *name = anfi_sprintf(g->a, "%s_0wrapper", f->name->s);
  LLVMValueRef fn = start_function(g, name, ll.FunctionType(g->none, t, 3, 0)),
               args = ll.GetParam(fn, 2), *in = ANFI_NEW_N(g->a, LLVMValueRef, f->n);
  anfi_ll_debug_func(g, f, fn, name);
  for (uint32_t i = 2; i < f->n; i++) {
    tdtype d = f->param[i]->dtype;
    LLVMValueRef p = slot_at(g, args, i - 2);
    bool vector = !d.ptr && anfi_t_total(d) != 1;
    if (vector) p = ll.BuildLoad2(g->b, g->ptr, p, "");
    in[i - 2] = anfi_ll_load_at(g, d, p, vector ? 1 : 8);
  }
  LLVMValueRef r = call_body(g, u, ll.GetParam(fn, 0), ll.GetParam(fn, 1), in);
  if (!anfi_t_is_void(f->ret)) put_result(g, f->ret, slot_at(g, args, f->n - 2), r);
  ll.BuildRetVoid(g->b);
  return fn;
}

/* ---- as C calls it ---- */

static LLVMValueRef data_variable(lgen *g) {
  if (g->data_var) return g->data_var;
  g->data_var = ll.AddGlobal(g->m, g->ptr, "__anf_data");
  if (!g->group) ll.SetInitializer(g->data_var, ll.ConstNull(g->ptr)); // the first group's
  return g->data_var;
}

/* Calls the wrapper with the thread's own stream and the first instance's data. */
void anfi_ll_enter(lgen *g, LLVMValueRef wrapper, LLVMValueRef args, uint32_t flags) {
  LLVMTypeRef t[5] = {g->ptr, g->ptr, g->ptr, g->ptr, g->i32},
              type = ll.FunctionType(g->i32, t, 5, 0);
  LLVMValueRef none = ll.ConstNull(g->ptr), bits = anfi_ll_i32(g, flags);
  if (g->object) {
    LLVMValueRef in[5] = {g->object, none, wrapper, args, bits};
    ll.BuildCall2(g->b, type, anfi_ll_extern(g, "anf_object_enter", type), in, 5, "");
    return;
  }
  LLVMValueRef data =
      flags & ANF_RT_DATA ? ll.BuildLoad2(g->b, g->ptr, data_variable(g), "") : none;
  LLVMValueRef in[5] = {none, wrapper, data, args, bits};
  ll.BuildCall2(g->b, type, anfi_ll_extern(g, "anf_rt_enter", type), in, 5, "");
}

/* Enters through the wrapper, under the protection of the run time. */
static void natural(lgen *g, const lfunc *u, LLVMValueRef by_slots) {
  tfunc f = u->f;
  uint32_t n = f->n - 2;
  LLVMValueRef fn =
      start_function(g, symbol(g, f), anfi_ll_func_type(g, f->ret, false, false, n, f->param + 2));
  extend_all(g, fn, f, 0);
  LLVMValueRef args = ll.BuildAlloca(g->b, ll.ArrayType2(g->i64, n + 1), "args");
  ll.BuildStore(g->b, anfi_ll_i64(g, 0), slot_at(g, args, n));
  for (uint32_t i = 0; i < n; i++) {
    LLVMValueRef v =
        anfi_ll_cast(g, anfi_t_dt(ANF_TIR_generic), f->param[i + 2]->dtype, ll.GetParam(fn, i));
    ll.BuildStore(g->b, v, slot_at(g, args, i));
  }
  anfi_ll_enter(g, by_slots, args, u->need.flags);
  if (anfi_t_is_void(f->ret)) ll.BuildRetVoid(g->b);
  else ll.BuildRet(g->b, anfi_ll_load_at(g, f->ret, slot_at(g, args, n), 8));
}

void anfi_ll_define_all(lgen *g) {
  size_t n = g->l->m->func.n;
  if (g->split && !g->group) data_variable(g);
  for (size_t i = 0; i < n && !anfi_failed(g->cx); i++) {
    const lfunc *u = &g->func[i];
    if (!u->f->body || !is_here(g, i)) continue;
    body(g, u);
    anfi_ll_debug_none(g);
    if (!is_entry(u->f) && !is_init(u->f)) continue;
    LLVMValueRef by_slots = wrapper(g, u);
    anfi_ll_debug_none(g);
    if (is_init(u->f) && g->object) anfi_ll_object_start(g, by_slots);
    if (is_init(u->f) || any_vector(u->f)) continue;
    if (!u->itself) natural(g, u, by_slots);
  }
}
