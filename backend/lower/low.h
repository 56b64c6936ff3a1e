// SPDX-License-Identifier: Apache-2.0
/* Lowering of ops, inside: what families of ops share.
 *
 * A point is where an element function is asked: digits of a mixed radix, outermost first, whose
 * extents multiply to the number of elements of the view. Loops over collapsed dims are points of
 * fewer digits than the view has dims; a view that keeps the row-major order hands its point on as
 * it is, and one that needs its own dims asks for them.
 *
 * INVARIANT: index expressions are pure trees of loop variables and constants, of type index, and
 * small (anfi_ix_trim); values are variables or constants (atoms). A value is defined in the
 * outermost list that has all it depends on and is not outside of a branch or of lists that were
 * there before the op. */
#ifndef ANFI_LOW_H
#define ANFI_LOW_H

#include "backend/kernel/kernel.h"
#include "backend/lower/op.h"
#include "ir/ops/op.h"

typedef struct anfi_elem {
  texpr re, im; // im: of complex ones alone
} anfi_elem;

enum { ANFI_PT_MAX = 2 * ANF_MAX_RANK + 2 };
typedef struct anfi_pt {
  uint32_t n;
  texpr at[ANFI_PT_MAX];
  uint64_t extent[ANFI_PT_MAX];
} anfi_pt;

typedef enum anfi_view_kind {
  VIEW_SCALAR, // `value`, the same at every point
  VIEW_BUFFER, // `tensor`
  VIEW_LAZY    // computed by `at`
} anfi_view_kind;
typedef enum anfi_order {
  ORDER_OWN,   // asks for its own dims
  ORDER_FLAT,  // same elements in the same order as input 0: hands on the point
  ORDER_POINT, // pointwise: inputs broadcast
  ORDER_ANY    // asks for the number of the element alone
} anfi_order;
typedef anfi_elem (*anfi_at)(anfi_low *L, const anfi_view *v, const anfi_pt *pt);

struct anfi_view {
  /* what it is */
  uint32_t id;
  uint8_t kind, order;
  bool complex, owned; // owned: the buffer holds this value alone (graph/linear.c)
  uint16_t depth;      // of views below that are computed when read
  const anf_type *type;
  anf_dtype dtype;
  uint64_t n; // elements
  /* its elements, where known or stored */
  anfi_elem value;
  texpr tensor;
  const anf_value *constant; // that the buffer holds, or NULL
  /* the op that computes them */
  anfi_at at;
  anfi_opcode op;
  anfi_loc loc;
  size_t nin;
  anfi_view **in;
  anf_value *const *attr;
  void *data; // the hook's own
  /* how it is written */
  void (*store)(anfi_low *L, const anfi_view *v, texpr to); // NULL: element by element
  /* A product that is fused into its consumer `root`: writes root, as its epilogue. Nobody else may ask for an
   * element of the product before root is written. */
  void (*write_fused)(anfi_low *L, const anfi_view *v, const anfi_view *root, texpr to);
};

/* Is it computed where it is read? Until the list is closed in which it was forced, it is not. */
static inline bool anfi_view_is_lazy(const anfi_view *v) {
  return v->kind == VIEW_LAZY && !v->tensor;
}
/* Is it in memory, by its kind or since it was forced? */
static inline bool anfi_view_in_memory(const anfi_view *v) {
  return v->kind != VIEW_SCALAR && v->tensor;
}

typedef struct anfi_memo {
  const anfi_view *view;
  anfi_elem value;
  uint32_t n;
  struct {
    texpr at;
    uint64_t extent;
  } pt[]; // a whole anfi_pt would be half a kB
} anfi_memo;

typedef struct anfi_low_scope {
  ANFI_VEC(tstmt) list;
  bool barrier;                 // values that depend on less stay here all the same
  ANFI_VEC(uint64_t) made;      // keys of memos whose variables are defined here
  ANFI_VEC(anfi_view *) forced; // written to buffers that are defined here
} anfi_low_scope;

/* A result of a pass over a row (rows.c), good while its list is open. */
typedef struct anfi_row_memo {
  const anfi_view *x;
  int what;
  uint64_t size; // of the row
  const anfi_low_scope *scope;
  size_t depth;
  texpr value;
} anfi_row_memo;

/* A loop-invariant B, packed before the loop (prepack.c). */
typedef struct anfi_packed_b {
  texpr b, panels;
  uint64_t n, k, ldb, nr;
} anfi_packed_b;

#define ANFI_LOW_CHANGES (UINT64_C(1) << 32)

struct anfi_low {
  /* the module, and options */
  anf_ctx *cx;
  anfi_arena *a;
  tmod *m;
  tstore *t;
  anfi_low_opts o;
  uint32_t next_view;
  /* open lists of statements, and variables */
  ANFI_VEC(anfi_low_scope *) scope;
  /* By id of a variable, from the first one that was made for this function: 1 + number of the list
   * that it is defined in, | ANFI_LOW_CHANGES; 0: of another function, or nothing is known. */
  ANFI_VEC(uint64_t) depth;
  uint32_t first_var;
  /* values that were computed */
  anfi_map memo;      // key → anfi_memo
  anfi_map constants; // hash of a constant → view
  anfi_map row_memo;  // key → anfi_row_memo
  bool in_parallel;
  /* packed operands, exchanges */
  ANFI_VEC(anfi_packed_b) packed;
  ANFI_VEC(struct anfi_low_exchange *)
  exchange;                       // operations of a communicator, in the order of their start
  size_t awaited;                 // how many of them are waited for
  anfi_map exchanged;             // node id → 1 + number of its operation
  ANFI_VEC(anfi_in_step) in_step; // of nests that stand in the outermost list
};

/* emit.c: types */
static inline tdtype anfi_low_dt(anf_dtype d) { return anfi_t_dt(anfi_lower_elem(d)); }
static inline bool anfi_low_complex(anf_dtype d) {
  return anfi_dtype_class(d) == ANFI_CLASS_COMPLEX;
}
#define ANFI_IX   anfi_t_dt(ANF_TIR_index)
#define ANFI_F64  anfi_t_dt(ANF_TIR_f64)
#define ANFI_S64  anfi_t_dt(ANF_TIR_s64)
#define ANFI_BOOL anfi_t_dt(ANF_TIR_bool)

/* emit.c: depths of variables */
uint64_t anfi_low_depth(const anfi_low *L, texpr v);
void anfi_low_set_depth(anfi_low *L, texpr v, uint64_t depth);

/* emit.c: values. An expression as an atom, defined as far out as its operands allow. */
texpr anfi_low_atom(anfi_low *L, texpr e);
/* A variable that will be assigned; it lives in the innermost list. */
texpr anfi_low_var(anfi_low *L, tdtype d, const char *name, texpr init);
/* n elements of a tensor from one on, as a tensor that is defined here. */
texpr anfi_low_part(anfi_low *L, texpr tensor, anf_tir_elem e, texpr from, uint64_t n);
void anfi_low_set(anfi_low *L, texpr to, texpr value);
/* to[i] = value; a complex element takes two places. */
void anfi_low_put(anfi_low *L, texpr to, texpr i, anfi_elem value, bool complex);
/* Part number i, of n elements, of the result `to` is what `from` has, cast to the result's type. */
void anfi_low_put_part(anfi_low *L, const anfi_low_op *q, texpr from, texpr to, texpr i,
                       uint64_t n);
texpr anfi_low_load(anfi_low *L, texpr tensor, texpr i); // never moved: memory that is written too
texpr anfi_low_const(anfi_low *L, tdtype d, double v);
bool anfi_low_is_atom(texpr e);
/* The bool expression holds: the program ends with this error. */
void anfi_low_trap(anfi_low *L, texpr bad, anfi_code code, anfi_opcode op, anfi_loc loc, texpr a,
                   texpr b);

/* emit.c: loops and branches. A loop that turns once is none: `var` is 0. */
typedef struct anfi_loop {
  texpr var, begin, end;
  uint64_t extent, step;
  bool none, parallel;
} anfi_loop;
void anfi_low_loop(anfi_low *L, anfi_loop *l, uint64_t extent, const char *name);
void anfi_low_loop_range(anfi_low *L, anfi_loop *l, texpr begin, texpr end, uint64_t step,
                         const char *name);
void anfi_low_loop_end(anfi_low *L, anfi_loop *l);
/* Of loops in one another whose turns are independent, the outer ones, as many as give threads enough turns, become parallel:
 * nested_parallel_flattener makes them one, and parallel_workload_dispatcher says how many threads are worth it. */
void anfi_low_share(anfi_loop *l, size_t n);
/* cost.c: of a turn of a loop, about the scalar operations of it */
int64_t anfi_low_cost(tstmt turn);
void anfi_low_if(anfi_low *L);                                   // opens the branch
void anfi_low_if_end(anfi_low *L, texpr cond);                   // if (cond) what was added since
void anfi_low_if_else_end(anfi_low *L, texpr cond, tstmt then_); // ... else what was added since
tstmt anfi_low_then(anfi_low *L); // closes the branch, to be given to the above
/* Of n blocks the last may be shorter. Calls the body once for each size, in branches that block number i chooses
 * between, or once if all are alike:
 *   anfi_sizes s = {.full = 64, .last = 10};
 *   while (anfi_low_each_size(L, &s, i, n)) body(L, s.size); */
typedef struct anfi_sizes {
  uint64_t full, last, size;
  uint32_t turn;
  tstmt then_;
} anfi_sizes;
bool anfi_low_each_size(anfi_low *L, anfi_sizes *s, texpr i, uint64_t n);

/* emit.c: indices, folded */
texpr anfi_ix(anfi_low *L, uint64_t v);
texpr anfi_ix_add(anfi_low *L, texpr a, texpr b);
texpr anfi_ix_addc(anfi_low *L, texpr a, int64_t c); // wraps below 0
texpr anfi_ix_mulc(anfi_low *L, texpr a, uint64_t c);
texpr anfi_ix_divc(anfi_low *L, texpr a, uint64_t c);
texpr anfi_ix_modc(anfi_low *L, texpr a, uint64_t c);
texpr anfi_ix_trim(anfi_low *L, texpr e);

/* emit.c: points */
void anfi_pt_push(anfi_pt *p, texpr at, uint64_t extent);
anfi_pt anfi_pt_of(size_t rank, const int64_t *dims, const texpr *at);
anfi_pt anfi_pt_flat(texpr at, uint64_t extent);
texpr anfi_pt_linear(anfi_low *L, const anfi_pt *p);
/* Index along each dim. */
void anfi_pt_dims(anfi_low *L, const anfi_pt *p, size_t rank, const int64_t *dims, texpr *at);

/* view.c */
anfi_view *anfi_view_new(anfi_low *L, const anf_type *t, anfi_view_kind k);
anfi_view *anfi_view_lazy(anfi_low *L, const anfi_low_op *q, anfi_order order, anfi_at at);
anfi_elem anfi_view_zero(anfi_low *L, const anfi_view *v); // a zero of its element type
anfi_elem anfi_view_at(anfi_low *L, const anfi_view *v, const anfi_pt *p);
/* Computes a view of one element here, unless it was computed before; from now on it is that value. */
void anfi_view_settle(anfi_low *L, anfi_view *v);
anfi_elem anfi_view_at_dims(anfi_low *L, const anfi_view *v, const texpr *at); // one for each dim
anfi_elem anfi_view_at_flat(anfi_low *L, const anfi_view *v, texpr at);
/* A real element as this type (of the Tensor IR's elements), rounded once. */
texpr anfi_view_real(anfi_low *L, const anfi_view *v, const anfi_pt *p, tdtype as);
/* The element at this point is `value`, and need not be computed again. */
void anfi_view_know(anfi_low *L, const anfi_view *v, const anfi_pt *p, texpr value);
/* The product among what the nest of v computes that has not been written, or NULL: fuse.c leaves one
 * at most. */
const anfi_view *anfi_view_product(anfi_low *L, const anfi_view *v);
/* Element of a view that broadcasts to `dims`. */
anfi_elem anfi_view_at_broadcast(anfi_low *L, const anfi_view *v, size_t rank, const int64_t *dims,
                                 const anfi_pt *p);
/* Loops over the elements of v: few, of the largest extents that what it reads allows. `cut`: more
 * places where dims must not run together, as products of the extents after them. */
typedef struct anfi_nest {
  uint32_t n;
  anfi_loop loop[ANFI_PT_MAX];
  anfi_pt pt;
} anfi_nest;
/* The extents of such loops. The given cuts are kept, others as far as they fit. */
uint32_t anfi_view_digits(anfi_low *L, const anfi_view *v, size_t ncut, const uint64_t *cut,
                          uint64_t *extent);
void anfi_nest_open(anfi_low *L, anfi_nest *n, const anfi_view *v, size_t ncut,
                    const uint64_t *cut);
void anfi_nest_close(anfi_low *L, anfi_nest *n);
/* New buffer for a result, or the one wanted. */
texpr anfi_low_result(anfi_low *L, const anfi_low_op *q, size_t i, const anf_type *t);
anfi_view *anfi_view_of_result(anfi_low *L, const anf_type *t, texpr buffer);
uint64_t anfi_low_elements(const anf_type *t);
/* The constant that an attribute or value holds, as a literal of the dtype. */
anfi_elem anfi_low_literal(anfi_low *L, const anf_value *v, size_t i, anf_dtype d);

/* scalar.c */
/* The op's scalar code on these elements (of the inputs' dtypes); the result is of out's dtype. */
anfi_elem anfi_scalar_emit(anfi_low *L, anfi_opcode op, anfi_loc loc, anf_value *const *attr,
                           size_t n, const anfi_elem *in, const anf_type *const *types,
                           const anf_type *out);
/* Does the emitter know all of it, for these types? */
bool anfi_scalar_supported(anf_ctx *cx, anfi_opcode op, size_t n, const anf_type *const *types,
                           const anf_type *out);
/* The greater, or smaller: NaN if one is, the first of equals. Atoms. */
texpr anfi_low_max(anfi_low *L, texpr a, texpr b, bool greatest);
/* The conversion of the op Cast. */
anfi_elem anfi_scalar_cast(anfi_low *L, anfi_elem x, anf_dtype from, anf_dtype to);
/* code.c: an element of a Cast of limited reals to an integer, or of such an integer to a real; false: it is neither. */
bool anfi_low_code_at(anfi_low *L, const anfi_view *v, const anfi_pt *p, anfi_elem *out);

/* host.c */
void anfi_lower_host_declare(anfi_arena *a, tmod *m, const anfi_host *h);

/* point.c: are the elements of v those of its input, in the same order, as of a Reshape? */
bool anfi_view_is_same(const anfi_view *v);

/* map.c: the buffer that v reads, where it starts and by which stride for each dim of v; or NULL. */
texpr anfi_map_strides(const anfi_view *v, int64_t *base, int64_t *stride);
/* A matrix of type t, dims before the last two being 1, whose rows, or columns if it is transposed, are ld apart in memory. */
anfi_view *anfi_map_matrix(anfi_low *L, const anf_type *t, texpr tensor, uint64_t ld,
                           bool transposed);
anfi_elem anfi_low_choose(anfi_low *L, texpr cond, anfi_elem a, anfi_elem b);

/* gather.c */
/* An index (an atom of dtype d) as a position in 0..size, checked. */
texpr anfi_low_position(anfi_low *L, texpr x, anf_dtype d, uint64_t size, anfi_opcode op,
                        anfi_loc loc);
texpr anfi_low_clamped(anfi_low *L, const anfi_view *start, int64_t size, int64_t dim);

/* view.c: a constant tensor of the module; n > 0 */
texpr anfi_low_table(anfi_low *L, tdtype d, uint64_t n, const uint64_t *bits);
/* Zeroed memory that the caller fills, until the frame is left; a table that shares it. */
anfi_os_block *anfi_low_block(anfi_low *L, size_t bytes);
texpr anfi_low_block_table(anfi_low *L, tdtype d, uint64_t n, anfi_os_block *b);
/* reduce.c: in how many slices it reduces its input; 0: as a whole */
uint64_t anfi_low_slices(const anf_node *n);

/* reduce.c: Mean or Max along all dims but the first two, which become 1. */
bool anfi_lower_reduce_planes(anfi_low *L, const anfi_low_op *q, anfi_opcode op, anfi_view **out);
/* fuse.c: a view that products alone read, where it is in memory */
bool anfi_low_is_operand(const anf_node *n);
/* fuse.c: may it be computed where it is read? */
bool anfi_low_may_inline(const anf_node *n);
/* fuse/prologue.c: is the left operand of this product computed while the product packs it, and in which order? */
typedef enum anfi_prologue_way {
  PROLOGUE_NONE,
  PROLOGUE_BY_ROWS, // memory is read along K
  PROLOGUE_BY_K     // memory is read along the rows of the operand
} anfi_prologue_way;
anfi_prologue_way anfi_low_prologue(const anf_node *product, bool in_place);
bool anfi_low_is_prologue(const anf_node *n); // of the product that reads it
/* Is its right operand computed of less memory than it has, such as weights of bytes or of 4 bits, while it is packed? */
bool anfi_low_computes_right(const anf_node *product, bool in_place);
/* fuse.c: may it have an epilogue? Does it multiply bytes, and sum them in i32? */
bool anfi_low_is_product(const anf_node *n);
bool anfi_low_is_of_bytes(const anf_node *n);
/* fuse.c: of a product of a few rows, is b bytes that are widened to f32, less a zero point perhaps? They are read as bytes. */
bool anfi_low_widens_weights(const anf_node *n);
/* fuse.c: is input i asked for its type alone? */
bool anfi_low_asks_type(const anf_node *n, size_t i);
/* The parameter that the node is a part of, or NULL. */
const anf_node *anfi_low_given(const anf_node *n);
/* conv.c: the question as the plans of windows ask it */
anfi_infer anfi_low_infer(anfi_low *L, const anfi_low_op *q);

/* transpose.c: to[to0 + col * to_ld + row] = from[from0 + row * from_ld + col], of no bools. inner, unless 0: column
 * a * inner + b goes to the place of column b * (cols / inner) + a. */
typedef struct anfi_transposed {
  anf_tir_elem elem;
  texpr from, to, from0, to0;
  uint64_t rows, cols, from_ld, to_ld, inner;
} anfi_transposed;
void anfi_low_transpose(anfi_low *L, const anfi_transposed *q);

/* transposed.c: writes v in squares, if it reads large tensors transposed. */
bool anfi_low_store_transposed(anfi_low *L, const anfi_view *v, texpr to);
/* map.c: the code of so many bits from bit `from` of a byte, or of each lane's, as s32; of s8 its topmost bit is the sign. */
texpr anfi_low_code_of(anfi_low *L, texpr byte, texpr from, unsigned bits);

/* Of these there are kernels that sum in i32. */
static inline bool anfi_low_byte(anf_dtype d) { return d == ANF_I8 || d == ANF_U8; }

/* Loops over fewer elements run in order; of others parallel_workload_dispatcher decides by their cost. */
enum { ANFI_PARALLEL_WORK = 1 << 10 };
enum { ANFI_PARALLEL_MACS = 1 << 20 }; // fewer products are done before other threads are awake

/* gemm/prologue.c: A of a product is computed while it is packed. The element of row i and step k is `v` at the batch's digits, i
 * and k; or k and i, if v is stored K by M. */
typedef struct anfi_prologue {
  const anfi_view *v;
  anfi_pt batch;
  uint64_t rows, steps;
  bool transposed;
} anfi_prologue;

/* gemm.c: c[m, n] = sum over k of a[m, k] b[k, n], then the epilogue: + bias[n], + rhs[m, n], Relu */
typedef struct anfi_mm {
  /* types: of the result; of a and b if they are bytes, else void: then elem is theirs, too */
  anf_tir_elem elem;
  anf_tir_elem bytes_a, bytes_b;
  uint64_t m, n, k;
  /* operands: tensors, where they start, leading dims; a stored k by m, b stored n by k */
  texpr a, b, c;
  texpr a0, b0, c0;
  uint64_t lda, ldb, ldc;
  bool ta, tb;
  const anfi_prologue
      *prologue;              // computes a, which is NULL; or NULL. ta: its packed copy is K by M
  const anfi_prologue *right; // computes b, of k rows and n steps, which is NULL; or NULL
  const anf_value *const_b;   // the value of b, if that is a constant
  bool small;                 // of which no byte is outside [-64, 64]
  /* b holds bytes, m is small: its elements are b - zero, of f32; zero: one number or n of them, or NULL. A byte has codes of
   * `bits` for consecutive steps of k, the first in the lowest; fewer than 8 where b is stored k by n */
  bool weights;
  unsigned bits;
  texpr zero;
  uint64_t zeros;
  bool serial; // within a parallel loop
  /* epilogue: NULL for none; bias_in_sum: the bias is added before the sum is rounded */
  texpr bias, rhs;
  bool bias_in_sum, relu;
  /* ..or instead of writing c: what to do with the element of row i and column j */
  void (*store_element)(anfi_low *L, const struct anfi_mm *q, texpr i, texpr j, texpr value);
  void *user;
} anfi_mm;
bool anfi_low_gemm_wanted(const anfi_mm *q); // false: plain loops are as good
void anfi_low_gemm(anfi_low *L, const anfi_mm *q);
bool anfi_low_gemm_cuts_k(const anfi_low *L, const anfi_mm *q); // then c is written more than once
/* Do kernels round to bf16, the sum and each step of the epilogue? */
bool anfi_low_gemm_rounds(const anfi_low *L, const anfi_mm *q);
/* The b of such products is invariant until anfi_low_gemm_drop_packed: packs it once, if that helps.
 * `before`: L->packed.n as it was */
void anfi_low_gemm_prepack(anfi_low *L, const anfi_mm *q);
void anfi_low_gemm_drop_packed(anfi_low *L, size_t before);

/* Operands num, m, n, k, lda, ldb, ldc, stride_a, stride_b of a brgemm. */
void anfi_low_gemm_sizes(anfi_low *L, texpr *in, const uint64_t *size);

/* epilogue.c: the sum of row i and column j is done: applies the epilogue and stores the element. */
void anfi_low_gemm_epilogue(anfi_low *L, const anfi_mm *q, texpr i, texpr j, texpr sum);

/* split_k.c: the results, of sums [slices, m, n] (anfi_mm_split_k), each slice added to those before */
void anfi_low_add_split_k(anfi_low *L, const anfi_mm *q, texpr sums);

/* matvec.c: products with one row or one column, as dot products of rows in memory */
bool anfi_low_is_matvec(const anfi_mm *q);
void anfi_low_matvec(anfi_low *L, const anfi_mm *q);
/* weights.c: x[m, k] @ w[k, n] of a few rows, w of bytes or as it is stored */
bool anfi_low_is_few_rows(const anfi_mm *q);
void anfi_low_weights(anfi_low *L, const anfi_mm *q);

/* conv_gemm.c: convolutions by kernels. False: plain loops do it. */
typedef enum anfi_conv_way {
  ANFI_CONV_FORWARD,
  ANFI_CONV_BY_INPUT,
  ANFI_CONV_BY_WEIGHTS
} anfi_conv_way;
typedef struct anfi_conv_work {
  anfi_conv_way way;
  anf_tir_elem elem;        // of all
  texpr x, w, y, bias, to;  // tensors; the one that is the result is `to`, a bias that is not NULL
  const anf_value *const_w; // the value of w, if that is a constant
  /* A forward one that is fused into its consumer `root`, which is written to `to`, or NULL for both. */
  const anfi_view *product, *root;
} anfi_conv_work;
struct anfi_conv;
bool anfi_low_conv_gemm_wanted(const struct anfi_conv *c, const anfi_conv_work *q);
/* conv.c: do kernels take this convolution, of floats and forward? */
bool anfi_low_conv_by_kernels(const anf_node *n);
bool anfi_low_conv_gemm(anfi_low *L, const struct anfi_conv *c, const anfi_conv_work *q);
/* conv_rows.c: of few channels, by vectors along rows of results. May it be fused into its consumer? */
bool anfi_low_conv_rows_wanted(const struct anfi_conv *c, const anfi_conv_work *q);
bool anfi_low_conv_rows_fuses(const struct anfi_conv *c);
void anfi_low_conv_rows(anfi_low *L, const struct anfi_conv *c, const anfi_conv_work *q);
/* conv_bytes.c: of bytes, summed in i32. False: it is another one. */
bool anfi_low_conv_bytes(anfi_low *L, const anfi_low_op *q, const struct anfi_conv *c,
                         anfi_view **out);

/* norm.c */
bool anfi_lower_fill_zero(anfi_low *L, const anfi_low_op *q, texpr to);

/* helper.c: functions of the module, written in Tensor IR, added when first called */
typedef struct anfi_helper {
  const char *name;
  const char *needs; // other helpers that it calls, and those that they call
  const char *text;
} anfi_helper;
/* The function of f32 or f64 that loops over elements call for an intrinsic, or NULL. */
const char *anfi_low_math_name(tintrin f, tdtype t);
texpr anfi_low_help(anfi_low *L, const char *name, tdtype ret, uint32_t n, const texpr *args);

bool anfi_lower_pointwise(anfi_low *L, const anfi_low_op *q, anfi_view **out);
#define ANF_LOWER(op, hook)                                                                        \
  bool anfi_lower_##hook(anfi_low *L, const anfi_low_op *q, anfi_view **out);
#include "backend/lower/ops/lower.def"
#undef ANF_LOWER

#endif
