// SPDX-License-Identifier: Apache-2.0
/* Tensor IR, inside: nodes, makers, visitors, passes.
 *
 * INVARIANT: nodes never change once made; a module derived from another shares nodes with it, and
 * the store that holds them is counted. INVARIANT: no node is deeper than t->max_depth and none
 * prints larger than MAX_SIZE, so walks may recurse over expressions and statements and stay within
 * a bounded C stack. INVARIANT: bodies of loops, branches and functions are `stmts` nodes; a
 * variable or tensor is its node, whatever its name; a function is its name in the module. */
#ifndef ANFI_TIR_H
#define ANFI_TIR_H

#include "base/base.h"
#include "base/gemm.h"
#include "base/os/map.h"
#include "base/pass.h"
#include "anfora/tir.h"

typedef anf_tir_expr texpr;
typedef anf_tir_stmt tstmt;
typedef anf_tir_func tfunc;
typedef anf_tir_dtype tdtype;
typedef anf_tir_module tmod;

typedef enum tkind {
#define ANF_TIR_EXPR(name, group, text) TX_##name,
#include "backend/tir/expr.def"
#undef ANF_TIR_EXPR
  TX_COUNT
} tkind;
typedef enum tgroup { TG_LEAF, TG_BINARY, TG_CMP, TG_LOGIC, TG_OTHER } tgroup;
typedef enum tskind {
#define ANF_TIR_STMT(name, nexpr, nstmt) TS_##name,
#include "backend/tir/stmt.def"
#undef ANF_TIR_STMT
  TS_COUNT
} tskind;
typedef enum tintrin {
#define ANF_TIR_INTRIN(name, lo, hi, typing, cls, fn) TI_##name,
#include "backend/tir/intrin.def"
#undef ANF_TIR_INTRIN
  TI_COUNT
} tintrin;
typedef enum tattr_key {
#define ANF_TIR_ATTR(name, doc) TA_##name,
#include "backend/tir/attr.def"
#undef ANF_TIR_ATTR
  TA_COUNT
} tattr_key;
#ifdef ANF_HOSTILE
enum { ANFI_T_MANY = 1024 };
#else
enum { ANFI_T_MANY = 8192 }; // statements of straight-line code that are compiled as they stand
#endif
typedef enum tlinkage { TL_local, TL_private, TL_public } tlinkage;
typedef enum tclass { TC_NONE, TC_BOOL, TC_SINT, TC_UINT, TC_FLOAT, TC_GENERIC } tclass;
typedef enum ttyping { TT_SAME, TT_SAME1, TT_BOOLS, TT_ELEM, TT_GIVEN, TT_NONE } ttyping;
typedef enum tpurity { TP_PURE, TP_MATH1, TP_MATH2, TP_MEMORY, TP_EFFECT } tpurity;

typedef struct tattr {
  uint32_t key;
  int64_t value;
} tattr;
typedef struct tattrs {
  const tattr *at; // by key
  uint32_t n;
} tattrs;

struct anf_tir_expr_node {
  /* what it is */
  uint8_t kind; // tkind
  uint8_t sub; // intrin_call: tintrin · ssa_phi: 1 of a loop · constant: 1 a list, as initial value
  uint16_t depth; // of the tree below
  uint32_t size;  // nodes of the tree, saturating
  tdtype dtype;   // tensor: pointer to the element; void: not settled yet
  uint16_t nidx;  // indexing, tensorptr: indices · tensor: rank · call: arguments
  uint32_t n;     // children
  /* name and location */
  uint32_t id; // of a var or tensor: its number in the store
  uint32_t line, col;
  /* payload, by kind */
  union {
    const anfi_str *name; // var, tensor, func_addr; call, NULL through a pointer
    struct {
      const uint64_t *bits;
      uint32_t n;
    } k; // constant: 1 (all lanes) or one for each lane
    struct {
      const unsigned char *data; // elements as they lie in memory
      uint32_t n;
      anfi_os_block
          *block; // that holds them and belongs to the store; NULL: the store's arena does
    } list;       // constant that is a list: 1 (all elements) or one for each element
    tattrs attrs; // intrin_call
  } u;
  /* cast, logic_not: x · binary: l r · select: cond l r · indexing: tensor idx... [mask] ·
   * tensorptr: tensor idx... · tensor: dims... [strides...] · call: args... [pointer]
   * [begin end step]... · the others: all in order */
  texpr in[];
};

struct anf_tir_stmt_node {
  /* what it is */
  uint8_t kind; // tskind
  uint8_t sub;  // define: tlinkage · for_loop: 1 parallel · stmts: 1 is spliced into its parent
  uint16_t depth;
  uint32_t size;
  /* location */
  uint32_t line, col;
  /* payload */
  uint32_t threads; // for_loop: hint, 0 none
  uint32_t n;       // statements held
  tattrs attrs;
  const anfi_str *comment;
  texpr e[4]; // absent ones are NULL
  tstmt s[];
};

struct anf_tir_func_node {
  const anfi_str *name;
  tdtype ret;
  uint32_t n;
  const texpr *param;
  tstmt body; // NULL: defined elsewhere
  tattrs attrs;
  const anfi_str *comment;
  uint32_t line, col;
};

/* Where nodes live. */
typedef struct tstore {
  anf_ctx *cx;
  anfi_arena arena;
  anfi_strtab names;
  uint32_t next_id, refs;
  uint32_t max_depth;
  uint32_t line, col; // given to nodes made now
  const char *file;   // where it all came from, or NULL
  ANFI_VEC(anfi_os_block *) blocks;
  const anfi_str *named; // the name that was asked for last
} tstore;

/* The address of the list's block is to be written at this offset of the module data. */
typedef struct tbound {
  uint64_t offset;
  texpr list;
} tbound;

struct anf_tir_module {
  /* functions and global tensors */
  tstore *t;
  ANFI_VEC(tfunc) func;
  ANFI_VEC(tstmt) global; // defines of tensors
  anfi_map by_name;       // interned name → 1 + place in func
  /* properties */
  uint32_t props; // TPROP_*: what passes have made true
  /* module data */
  const uint8_t *image; // after module_globals_resolver: initial module data, or NULL
  uint64_t image_size;
  bool
      binds; // module_globals_resolver: private lists in blocks are no part of the image, but of `bound`
  ANFI_VEC(tbound) bound;
  /* building */
  anf_status status; // of building
  anf_ctx *cx;
  bool keep;
  bool stops, counts; // engines make code that can be stopped, that counts turns and calls
};

static inline bool anfi_t_is_bound(tstmt global) {
  texpr init = global->e[1];
  return global->sub == TL_private && init && init->kind == TX_constant && init->sub &&
         init->u.list.block;
}

/* dtype.c */
extern const char *const anfi_t_elem_names[ANF_TIR_ELEM_COUNT];
tclass anfi_t_class(tdtype t); // of a pointer: TC_UINT
size_t anfi_t_bytes(tdtype t); // of one lane
int anfi_t_rank_of(tdtype t);  // in promotion, 0 none
static inline tdtype anfi_t_dt(anf_tir_elem e) { return (tdtype){(uint8_t)e, 0, 1, 0}; }
static inline tdtype anfi_t_ptr(anf_tir_elem e) { return (tdtype){(uint8_t)e, 1, 1, 0}; }
static inline bool anfi_t_same(tdtype a, tdtype b) {
  return a.elem == b.elem && a.ptr == b.ptr && a.lanes == b.lanes && a.rows == b.rows;
}
static inline bool anfi_t_same_shape(tdtype a, tdtype b) {
  return a.lanes == b.lanes && a.rows == b.rows;
}
static inline bool anfi_t_is_void(tdtype t) { return t.elem == ANF_TIR_void && !t.ptr; }
static inline bool anfi_t_is_elem(tdtype t, anf_tir_elem e) { return t.elem == e && !t.ptr; }
static inline uint32_t anfi_t_total(tdtype t) { return (uint32_t)t.lanes * (t.rows ? t.rows : 1u); }
static inline tdtype anfi_t_with(tdtype shape, anf_tir_elem e) {
  shape.elem = (uint8_t)e, shape.ptr = 0;
  return shape;
}
bool anfi_t_is_int(tdtype t); // s8 … index, any lanes
bool anfi_t_is_float(tdtype t);
static inline bool anfi_t_elem_is_half(anf_tir_elem e) {
  return e == ANF_TIR_f16 || e == ANF_TIR_bf16;
}
bool anfi_t_is_half(tdtype t);
tdtype anfi_t_accumulator(tdtype t); // what sums of it are computed in: f32 for one half
/* Elements of values: void for a type that has no element of its own (complex numbers, keys). */
anf_tir_elem anfi_t_elem_of(anf_dtype d);
anf_dtype anfi_t_value_dtype(tdtype t);
void anfi_t_put_dtype(anf_text *out, tdtype t);
const char *anfi_t_dtype_str(anfi_arena *a, tdtype t);
/* "f32x16x4": the element and shape that a name spells; false if it spells none */
bool anfi_t_dtype_of(const char *s, size_t len, tdtype *t);

/* tables, node.c */
typedef struct tintrin_info {
  const char *name;
  uint8_t lo, hi;
  ttyping typing;
  tpurity purity;
} tintrin_info;
extern const tintrin_info anfi_t_intrins[TI_COUNT];
extern const char *const anfi_t_attr_names[TA_COUNT];
extern const char *const anfi_t_kind_names[TX_COUNT];
extern const char *const anfi_t_kind_text[TX_COUNT];
extern const char *const anfi_t_stmt_names[TS_COUNT];
tgroup anfi_t_group(texpr e);
int anfi_t_intrin_of(const char *s, size_t len); // -1 if none
int anfi_t_attr_of(const char *s, size_t len);
double anfi_t_math(tintrin i, double a, double b); // of MATH1 and MATH2
static inline bool anfi_t_isa(texpr e, tkind k) { return e && e->kind == k; }

/* node.c: makers. A failure jumps to the frame. */
tstore *anfi_t_store_new(anf_ctx *cx);
void anfi_t_store_release(tstore *t);
/* Takes a reference of its own to the store. The frame frees the module unless it is kept. */
tmod *anfi_t_mod_new(tstore *t);
void anfi_free_tir(void *m);   // a cleanup
void anfi_t_mod_drop(tmod *m); // lets go of its store before the frame ends
void anfi_t_mod_add(tmod *m, tfunc f);
void anfi_t_mod_replace(tmod *m, size_t i, tfunc f); // of the same name
static inline void anfi_t_mod_keep(tmod *m) { m->keep = true; }
tfunc anfi_t_mod_find(const tmod *m, const anfi_str *name);
/* A module with the globals, properties and data of `m`, and no functions. */
tmod *anfi_t_mod_like(const tmod *m);
/* A name for a function that `m` lacks: base, base_1, ... */
const anfi_str *anfi_t_fresh_func(const tmod *m, const char *base);
const anfi_str *anfi_t_name(tstore *t, const char *s); // made an identifier that is no keyword

texpr anfi_t_bits(tstore *t, tdtype d, uint32_t n, const uint64_t *bits);
/* Initial values: of the bits of lanes; of elements as they lie in memory, copied; of the elements of a block. */
texpr anfi_t_list(tstore *t, tdtype d, uint32_t n, const uint64_t *bits);
texpr anfi_t_list_copy(tstore *t, tdtype d, uint32_t n, const unsigned char *data);
texpr anfi_t_list_block(tstore *t, tdtype d, uint32_t n, anfi_os_block *b);
size_t anfi_t_list_width(tdtype d); // bytes of one
static inline bool anfi_t_is_list(texpr e) { return e && e->kind == TX_constant && e->sub; }
uint64_t anfi_t_list_lane(texpr list, uint64_t i); // of every i, if there is one for all
static inline size_t anfi_t_list_bytes(texpr list) {
  return list->u.list.n * anfi_t_list_width(list->dtype);
}
texpr anfi_t_int(tstore *t, tdtype d, int64_t v); // of any class of number: 3 or 3.f
texpr anfi_t_real(tstore *t, tdtype d, double v);
texpr anfi_t_none(tstore *t);
static inline texpr anfi_t_s32(tstore *t, int32_t v) {
  return anfi_t_int(t, anfi_t_dt(ANF_TIR_s32), v);
}
static inline texpr anfi_t_index(tstore *t, uint64_t v) {
  return anfi_t_int(t, anfi_t_dt(ANF_TIR_index), (int64_t)v);
}
static inline texpr anfi_t_bool(tstore *t, bool v) {
  return anfi_t_int(t, anfi_t_dt(ANF_TIR_bool), v);
}
texpr anfi_t_var(tstore *t, tdtype d, const char *name);
/* strides NULL: dense. Dims and strides are of type index. */
texpr anfi_t_tensor(tstore *t, anf_tir_elem e, bool ptr, const char *name, uint32_t rank,
                    const texpr *dims, const texpr *strides);
texpr anfi_t_tensor1(tstore *t, anf_tir_elem e, const char *name, uint64_t n);
texpr anfi_t_bin(tstore *t, tkind k, texpr l, texpr r); // BINARY, CMP and LOGIC
static inline texpr anfi_t_add(tstore *t, texpr l, texpr r) { return anfi_t_bin(t, TX_add, l, r); }
static inline texpr anfi_t_sub(tstore *t, texpr l, texpr r) { return anfi_t_bin(t, TX_sub, l, r); }
static inline texpr anfi_t_mul(tstore *t, texpr l, texpr r) { return anfi_t_bin(t, TX_mul, l, r); }
static inline texpr anfi_t_lt(tstore *t, texpr l, texpr r) {
  return anfi_t_bin(t, TX_cmp_lt, l, r);
}
texpr anfi_t_cast(tstore *t, tdtype d, texpr x); // x itself if it is of the type
texpr anfi_t_not(tstore *t, texpr x);
texpr anfi_t_select(tstore *t, texpr c, texpr l, texpr r);
texpr anfi_t_at(tstore *t, texpr tensor, uint32_t n, const texpr *idx, uint16_t lanes,
                uint16_t rows, texpr mask);
texpr anfi_t_addr(tstore *t, texpr tensor, uint32_t n, const texpr *idx);
texpr anfi_t_call(tstore *t, const anfi_str *name, tdtype ret, uint32_t n, const texpr *args);
texpr anfi_t_call_ptr(tstore *t, texpr fn, tdtype ret, uint32_t n, const texpr *args);
/* The same call in parallel, for each of npar triples begin, end, step */
texpr anfi_t_call_par(tstore *t, const anfi_str *name, tdtype ret, uint32_t n, const texpr *args,
                      uint32_t npar, const texpr *triples);
texpr anfi_t_intrin(tstore *t, tintrin i, tdtype given, uint32_t n, const texpr *args,
                    tattrs attrs);
/* brgemm.c: operands of brgemm and list_brgemm by name (BRGEMM_A..), NULL for none */
extern const anfi_brgemm_kind anfi_t_brgemm_kinds[BRGEMM_COUNT];
bool anfi_t_is_brgemm(texpr e);
uint32_t anfi_t_brgemm_at(texpr e,
                          uint32_t operand); // its argument; beyond e->n where there is none
texpr anfi_t_brgemm_in(texpr e, uint32_t operand);
int64_t anfi_t_brgemm_flags(tattrs a);                   // GEMM_INIT and so on
void anfi_t_brgemm_types(texpr e, anf_tir_elem type[3]); // of A, B, C; lists hold what C holds
texpr anfi_t_brgemm(tstore *t, const texpr *operand,
                    tattrs a); // of BRGEMM_COUNT operands; with len, of lists
texpr anfi_t_intrin2(tstore *t, tintrin i, texpr a, texpr b);
texpr anfi_t_func_addr(tstore *t, const anfi_str *name);
texpr anfi_t_phi(tstore *t, uint32_t n, const texpr *values, bool loop);
texpr anfi_t_remake(tstore *t, texpr e, const texpr *in);
/* With another type, same children: for constants by number, for others the type is just set. */
texpr anfi_t_retype(tstore *t, texpr e, tdtype d);

tstmt anfi_t_stmts(tstore *t, size_t n, const tstmt *s); // splices those marked
tstmt anfi_t_splice(tstore *t, size_t n, const tstmt *s);
tstmt anfi_t_define(tstore *t, tlinkage l, texpr var, texpr init);
tstmt anfi_t_assign(tstore *t, texpr to, texpr value);
tstmt anfi_t_if(tstore *t, texpr cond, tstmt then_, tstmt else_);
tstmt anfi_t_for(tstore *t, texpr var, texpr b, texpr e, texpr step, tstmt body, bool parallel,
                 uint32_t threads);
tstmt anfi_t_while(tstore *t, texpr cond, tstmt body);
tstmt anfi_t_eval(tstore *t, texpr value);
tstmt anfi_t_return(tstore *t, texpr value);
tstmt anfi_t_remake_stmt(tstore *t, tstmt s, const texpr *e, const tstmt *sub);
tstmt anfi_t_body(tstore *t, tstmt s); // a stmts node: s itself, or one around it
tfunc anfi_t_func(tstore *t, const anfi_str *name, tdtype ret, uint32_t n, const texpr *param,
                  tstmt body, tattrs attrs);
tfunc anfi_t_with_body(tstore *t, tfunc f, tstmt body);

/* May tensor `param`, as calls count them, share the buffer of another one (inplace_hint)? */
bool anfi_t_shares_buffer(tfunc f, uint32_t param);
tfunc anfi_t_func_without(tstore *t, tfunc f, tattr_key k); // that attribute
bool anfi_t_attr(tattrs a, tattr_key k, int64_t *value);    // value may be NULL
tattrs anfi_t_attr_set(tstore *t, tattrs a, tattr_key k, int64_t value);
tattrs anfi_t_attr_del(tstore *t, tattrs a, tattr_key k);
tstmt anfi_t_with_attrs(tstore *t, tstmt s, tattrs a);
tstmt anfi_t_with_comment(tstore *t, tstmt s, const anfi_str *comment);

/* Questions about nodes */
bool anfi_t_const_i64(texpr e, int64_t *v); // a scalar integer or bool constant
bool anfi_t_is_const(texpr e, int64_t v);
static inline bool anfi_t_has_strides(texpr tensor) { return tensor->n > tensor->nidx; }
bool anfi_t_const_elems(texpr tensor, uint64_t *n); // product of constant dims, if it fits
static inline texpr anfi_t_mask(texpr at) {
  return at->n > at->nidx + 1u ? at->in[at->n - 1] : NULL;
}
static inline texpr anfi_t_callee_ptr(texpr call) {
  return call->u.name ? NULL : call->in[call->nidx];
}
static inline const texpr *anfi_t_triples(texpr call, uint32_t *n) {
  uint32_t at = call->nidx + (call->u.name ? 0u : 1u);
  *n = (call->n - at) / 3;
  return call->in + at;
}
bool anfi_t_pure(texpr e); // no effect, no memory read, no call: may be moved, repeated, dropped
bool anfi_t_no_effect(texpr e); // may be dropped or repeated, not moved over writes
bool anfi_t_may_trap(texpr e);  // integer division, memory: may not run where it did not
/* Does the tree use this variable or tensor? */
bool anfi_t_uses(texpr e, texpr var);

/* visit.c: copy on write */
typedef struct tvisitor {
  /* hooks */
  tstore *t;
  void *user;
  texpr (*expr)(struct tvisitor *v, texpr e);  // after its children; the replacement
  tstmt (*enter)(struct tvisitor *v, tstmt s); // before; another statement to visit, or the same
  tstmt (*stmt)(struct tvisitor *v, tstmt s);  // after; NULL deletes it
  /* state of the walk */
  anfi_map map;        // variables and tensors replaced everywhere
  ANFI_VEC(tstmt) pre; // what the hooks want before the current statement
  uint32_t def_depth;  // > 0 while at the target of a define or for
  uint32_t lvalue;     // > 0 for the node that an assign writes
  bool fresh;          // every definition gets a new variable (a copy)
  bool in_while;       // at the condition of a while: `pre` has no place
  anfi_arena *scratch;
} tvisitor;
void anfi_t_visitor_init(tvisitor *v, tstore *t, anfi_arena *scratch, void *user);
texpr anfi_t_visit_expr(tvisitor *v, texpr e);
tstmt anfi_t_visit_stmt(tvisitor *v, tstmt s);
tfunc anfi_t_visit_func(tvisitor *v, tfunc f);
/* Every function of m with its expressions replaced, appended to out. */
void anfi_t_visit_exprs(tstore *t, anfi_arena *scratch, const tmod *m, tmod *out,
                        texpr (*expr)(tvisitor *v, texpr e), void *user);
void anfi_t_map_var(tvisitor *v, texpr from, texpr to);
texpr anfi_t_mapped(const tvisitor *v, texpr from); // NULL if not
/* A statement with every definition in it renamed to a new variable */
tstmt anfi_t_copy_stmt(tstore *t, anfi_arena *scratch, tstmt s, texpr from, texpr to);
/* `from` replaced by `to` in a statement */
tstmt anfi_t_subst_stmt(tstore *t, anfi_arena *scratch, tstmt s, texpr from, texpr to);

typedef struct tviewer {
  void *user;
  bool (*enter_expr)(struct tviewer *v, texpr e); // false: leave its children out
  bool (*enter_stmt)(struct tviewer *v, tstmt s);
  void (*leave_stmt)(struct tviewer *v, tstmt s);
  uint32_t loop_depth;
  uint32_t lvalue; // > 0 for the node that an assign writes
} tviewer;
void anfi_t_view_expr(tviewer *v, texpr e);
void anfi_t_view_stmt(tviewer *v, tstmt s);
/* A deep copy in another store. */
tmod *anfi_t_clone(const tmod *m, tstore *to);
void anfi_t_import(tmod *to, const tmod *from); // copies of from's functions
/* Adds copies of all that `from` has. A function f becomes f_TAG; one that is declared only stays, and is there once, as
 * is a private table of the same elements (`tables`: those of the merges before; empty at first). */
void anfi_t_merge(tmod *to, const tmod *from, const char *tag, anfi_map *tables);
void anfi_t_drop_unread(tmod *m); // private tables

/* compare.c */
typedef struct tcompare {
  anfi_map map; // left variable or tensor → right
  anfi_map back;
  bool names, callees, commutative, ignore_attrs;
  const void *l, *r; // the first nodes that differ
  bool is_expr;
  const char *what;            // how
  ANFI_VEC(const char *) path; // innermost last
} tcompare;
void anfi_t_compare_init(tcompare *c, anfi_arena *scratch);
bool anfi_t_equal_expr(tcompare *c, texpr a, texpr b);
bool anfi_t_equal_stmt(tcompare *c, tstmt a, tstmt b);
bool anfi_t_equal_func(tcompare *c, tfunc a, tfunc b);
/* Same nodes or trees; variables by identity. */
bool anfi_t_identical(texpr a, texpr b);
uint64_t anfi_t_hash_expr(texpr e);                           // variables by identity
uint64_t anfi_t_hash_func(tfunc f, anfi_arena *scratch);      // up to names of variables
uint64_t anfi_t_hash_mod(const tmod *m, anfi_arena *scratch); // with globals and module data

/* print.c */
void anfi_t_print_mod(const tmod *m, anf_text *out);
void anfi_t_print_brief(const tmod *m, anf_text *out); // large constants are elided
void anfi_t_print_func(tfunc f, anf_text *out);
void anfi_t_print_stmt(tstmt s, anf_text *out);
void anfi_t_print_expr(texpr e, anf_text *out);
const char *anfi_t_expr_str(anfi_arena *a, texpr e); // shortened
bool anfi_t_is_keyword(const char *s, size_t len);

/* parse.c */
tmod *anfi_t_parse(anf_ctx *cx, const char *text, size_t len, const char *file);

/* value.c: what the operations mean, one lane at a time. Bits are the element's, zero-extended. */
uint64_t anfi_t_lane_of_i64(tdtype d, int64_t v);
uint64_t anfi_t_lane_of_f64(tdtype d, double v); // floats round, integers saturate, NaN gives 0
int64_t anfi_t_lane_i64(tdtype d, uint64_t bits);
double anfi_t_lane_f64(tdtype d, uint64_t bits);
uint64_t anfi_t_lane_cast(tdtype to, tdtype from, uint64_t bits);
/* BINARY, CMP, LOGIC. False: integer division by zero. */
bool anfi_t_lane_bin(tkind k, tdtype d, uint64_t a, uint64_t b, uint64_t *r);
/* Intrinsics that work lane by lane. */
uint64_t anfi_t_lane_intrin(tintrin i, tdtype d, uint64_t a, uint64_t b, uint64_t c);
uint64_t anfi_t_lane_convert(tintrin i, tdtype to, tdtype from,
                             uint64_t bits); // the three conversions
bool anfi_t_lanewise(tintrin i);

/* loop.c: transforms of a for_loop with constant step. Each gives a statement to put in the place
 * of its input and records old → new nodes in `map`, if given (keys and values are node addresses).
 * NULL: does not apply. */
typedef struct tloop_map {
  anfi_map map;
} tloop_map;
bool anfi_t_loop_bounds(tstmt loop, int64_t *b, int64_t *e, int64_t *step); // all constant
uint64_t anfi_t_trip(int64_t b, int64_t e, int64_t step);
/* for i in (b, e, s) → for i_o in (b, e, s * block) for i in (i_o, i_o + s * block or e, s) */
tstmt anfi_t_loop_split(tstore *t, anfi_arena *s, tstmt loop, int64_t block, tloop_map *map);
/* The loop and the one that is all of its body → one over both */
tstmt anfi_t_loop_fuse(tstore *t, anfi_arena *s, tstmt loop, tloop_map *map);
/* n loops directly in one another, the new outermost first: order[k] is its old depth */
tstmt anfi_t_loop_reorder(tstore *t, anfi_arena *s, tstmt loop, uint32_t n, const uint32_t *order,
                          tloop_map *map);
/* Equal bounds: one loop with both bodies */
tstmt anfi_t_loop_merge(tstore *t, anfi_arena *s, tstmt a, tstmt b, tloop_map *map);
/* factor 0: wholly. A remainder loop follows where the factor does not divide. */
tstmt anfi_t_loop_unroll(tstore *t, anfi_arena *s, tstmt loop, int64_t factor, tloop_map *map);
/* Two parallel loops → one over the iterations of both, with a branch */
tstmt anfi_t_loop_parallel_merge(tstore *t, anfi_arena *s, tstmt a, tstmt b, tloop_map *map);
/* A statement that is f(args)@parallel(...) → parallel loops around f(i..., args); others stay */
tstmt anfi_t_call_loops(tstore *t, anfi_arena *s, const tmod *m, tstmt call);
tstmt anfi_t_map_stmt(const tloop_map *m, tstmt old); // NULL: not recorded

/* pure.c: calls of a function that touches no memory but its own; of one that also ends and cannot trap */
typedef enum tpure { PURE_NO, PURE, PURE_TOTAL } tpure;
void anfi_t_infer_pure(const tmod *m, anfi_arena *a, tpure *out); // by place in m->func
/* A function whose attribute claims more than holds, and why; SIZE_MAX: none. */
size_t anfi_t_wrongly_pure(const tmod *m, anfi_arena *a, const char **why);
tpure anfi_t_pure_call(const tmod *m, texpr call); // by the callee's attribute

/* analyse.c: what statements touch. Distinct tensor parameters do not overlap, unless neither is
 * written. */
typedef struct talias {
  tstore *t;
  anfi_arena *scratch;
  anfi_map root;     // tensor → what it is a view of, itself if of none, absent: unknown
  anfi_map escaped;  // roots whose address is stored, cast, or handed to a call
  anfi_map kept;     // roots whose address is stored, cast or returned: not only lent to a call
  anfi_map local;    // roots that the function defines
  anfi_map where;    // variable or tensor → its define, or the for_loop it counts
  anfi_map assigned; // variable → how often it is assigned
  const tmod *m;     // whose functions are called, or NULL: every call may do anything
} talias;
void anfi_t_alias_init(talias *a, tstore *t, anfi_arena *scratch, tfunc f);
texpr anfi_t_root(const talias *a, texpr tensor); // NULL unknown
bool anfi_t_is_local(const talias *a,
                     texpr root); // defined in the function and seen whole: no escape
bool anfi_t_is_confined(const talias *a, texpr root); // the same, or lent to calls
uint32_t anfi_t_assigned(const talias *a, texpr var);
typedef struct teffects {
  anfi_map seen; // 1 read, 2 written, of roots and variables
  ANFI_VEC(texpr) all;
  bool reads_unknown, writes_unknown; // memory through pointers and calls
  bool effect;                        // output, traps of the run time, anything that is no memory
  bool returns;
} teffects;
void anfi_t_effects_init(teffects *e, anfi_arena *scratch);
void anfi_t_effects_expr(teffects *e, const talias *a, texpr x);
void anfi_t_effects_stmt(teffects *e, const talias *a, tstmt s);
bool anfi_t_reads(const teffects *e, const talias *a,
                  texpr x); // variable or root; NULL: unknown memory
bool anfi_t_writes(const teffects *e, const talias *a, texpr x);
/* Is something in x written: memory that it loads from, or, with `variables`, one of its variables? */
bool anfi_t_writes_part(const teffects *e, const talias *a, texpr x, bool variables);
/* Does the order of the two matter? */
bool anfi_t_conflict(const teffects *x, const teffects *y, const talias *a);
/* e = coef * var + rest, where rest does not use var; false if it is not so. NULL rest: 0. */
bool anfi_t_affine(tstore *t, texpr e, texpr var, int64_t *coef, texpr *rest);
/* Least and greatest value, as far as constants and enclosing loops show. */
typedef struct trange {
  int64_t lo, hi;
} trange;
typedef struct tranges {
  anfi_map at; // loop variable → its trange
  anfi_arena *a;
} tranges;
void anfi_t_ranges_init(tranges *r, anfi_arena *a);
void anfi_t_ranges_loop(tranges *r, tstmt loop); // enters the variable of the loop
bool anfi_t_range(const tranges *r, texpr e, trange *out);

/* dims.c: the function with dims of tensors that no assignment after their definition changes, for
 * passes that write dims anywhere else */
tfunc anfi_t_settle_dims(tstore *t, anfi_arena *scratch, tfunc f);

/* property.c: what holds of a module */
enum {
#define ANF_TIR_PROPERTY(name, text) TPROP_BIT_##name,
#include "backend/tir/passes/property.def"
#undef ANF_TIR_PROPERTY
  TPROP_COUNT
};
enum {
#define ANF_TIR_PROPERTY(name, text) TPROP_##name = 1 << TPROP_BIT_##name,
#include "backend/tir/passes/property.def"
#undef ANF_TIR_PROPERTY
  TPROP_ALL = (1 << TPROP_COUNT) - 1
};
uint32_t anfi_t_measure(const tmod *m);
/* Of the properties that the module should have, those that a node contradicts. */
uint32_t anfi_t_contradicted(const tmod *m, uint32_t have);
bool anfi_t_computes_in_half(texpr e);                        // f16 or bf16
bool anfi_t_properties_of(const char *words, uint32_t *bits); // "FLAT CAST"; false: a word is none

/* passes: passes/pass.def, passes/pass.c */
typedef struct tpass_cx {
  anf_ctx *cx;
  tstore *t;
  anfi_arena *scratch; // emptied after the pass
  const tmod *m;       // the input module
  const anf_tir_opt_opts *opts;
  bool failed;
} tpass_cx;
/* loop.c: neighbouring statements x, y become what `merge` gives; NULL: they stay two */
typedef tstmt tmerge(tvisitor *v, const talias *a, tstmt x, tstmt y);
tfunc anfi_t_merge_neighbours(tpass_cx *p, tfunc f, tmerge *merge);
/* The properties are measured first: a text need not tell the truth about itself. */
const tmod *anfi_t_run_passes(anf_ctx *cx, const tmod *m, const char *passes,
                              const anf_tir_opt_opts *o);
/* On what anfi_t_run_passes gave, whose properties are known. */
const tmod *anfi_t_run_more(anf_ctx *cx, const tmod *m, const char *passes,
                            const anf_tir_opt_opts *o);
bool anfi_t_validate(anf_ctx *cx, const tmod *m); // passes/validator.c
anfi_loc anfi_t_loc(const tstore *t, uint32_t line, uint32_t col);
#define TPASS_MODULE(name)      const tmod *anfi_t_pass_##name(tpass_cx *p, const tmod *m);
#define TPASS_FUNC(name)        tfunc anfi_t_pass_##name(tpass_cx *p, tfunc f);
#define ANF_TIR_PASS_M(nm, ...) TPASS_MODULE(nm)
#define ANF_TIR_PASS_F(nm, ...) TPASS_FUNC(nm)
#include "backend/tir/passes/pass.def"
#undef ANF_TIR_PASS_M
#undef ANF_TIR_PASS_F

/* host.c: passes that the host registered with the context, in order */
typedef struct thostpass {
  struct thostpass *next;
  anfi_pass_info row;
  anf_tir_pass host;
} thostpass;
const thostpass *anfi_t_host_passes(const anf_ctx *cx);
/* What it gives, verified; m itself where nothing changed; NULL: failed, with a finding. */
const tmod *anfi_t_run_host(tpass_cx *p, const thostpass *h, const tmod *m);
/* Does the pipeline name a pass of the host? */
bool anfi_t_names_host(const anf_ctx *cx, const char *pipeline);

/* runtime.c: functions of the run time that passes call */
typedef struct trt_func {
  const char *name;
  tdtype ret;
  uint32_t n;
  tdtype param[16];
} trt_func;
extern const trt_func anfi_t_rt[];
extern const size_t anfi_t_nrt;
typedef enum trt {
#define ANF_TIR_RT(name, ...) TRT_##name,
#include "backend/tir/runtime.def"
#undef ANF_TIR_RT
  TRT_COUNT
} trt;
int anfi_t_rt_of(const char *name); // -1 if none
/* A call of it; the pass adds the declaration with anfi_t_declare_rt. */
texpr anfi_t_rt_call(tstore *t, trt f, uint32_t n, const texpr *args);
/* Declares what m's functions call of the run time and m does not declare yet. */
void anfi_t_declare_rt(tmod *m);

/* interp.c */
bool anfi_t_interp(anf_ctx *cx, const tmod *m, const char *func, size_t n, const anf_tir_arg *args,
                   const anf_tir_run_opts *o, anf_tir_arg *result);

/* run_values.c: a call with values, by whatever runs it: `call` gets the arguments' bits and memory,
 * and gives the result's bits. Of an f that is NULL it only says why. False: failed, with a code. */
typedef bool (*anfi_t_caller)(anf_ctx *cx, void *user, size_t n, const anf_tir_arg *in,
                              anf_tir_arg *result);
void anfi_t_call_values(anf_ctx *cx, tfunc f, size_t n, anf_value *const *args, anfi_t_caller call,
                        void *user, anf_value **result, anf_value **outs);

#endif
