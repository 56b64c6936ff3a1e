// SPDX-License-Identifier: Apache-2.0
/* The Tensor IR: functions of loops over tensors, between graphs and machine code.
 *
 * Nodes are immutable and live as long as the module, or a module derived from it, that they were
 * made in. A pass makes a new module and leaves its input alone. docs/tensor-ir.md has the
 * language.
 *
 * Example:
 *   anf_tir_module *m = NULL, *lowered = NULL;
 *   const char *text = "func f(a: s32): s32 {\n  return (a + (1 + 2))\n}\n";
 *   anf_status st = anf_tir_parse(cx, text, strlen(text), "inline", d, &m);
 *   if (st == ANF_OK) st = anf_tir_opt(m, "constant_folder", NULL, d, &lowered);
 *   anf_tir_module_free(lowered);
 *   anf_tir_module_free(m);
 */
#ifndef ANFORA_TIR_H
#define ANFORA_TIR_H

#include <assert.h>

#ifdef __cplusplus
#include <initializer_list>
#endif

#include "anfora/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum anf_tir_elem {
  ANF_TIR_void,
  ANF_TIR_bool,
  ANF_TIR_s8,
  ANF_TIR_s16,
  ANF_TIR_s32,
  ANF_TIR_s64,
  ANF_TIR_u8,
  ANF_TIR_u16,
  ANF_TIR_u32,
  ANF_TIR_u64,
  ANF_TIR_index, // 64 bits, unsigned: sizes and offsets
  ANF_TIR_f16,
  ANF_TIR_bf16,
  ANF_TIR_f32,
  ANF_TIR_f64,
  ANF_TIR_generic, // 8 bytes that hold any scalar
  ANF_TIR_ELEM_COUNT
} anf_tir_elem;

/* f32 · f32x16 (16 lanes) · f32x16x4 (a tile, 4 rows of 16 lanes) · f32* (pointer). */
typedef struct anf_tir_dtype {
  uint8_t elem, ptr;
  uint16_t lanes; // 1 for a scalar
  uint16_t rows;  // 0 unless it is a tile
} anf_tir_dtype;

typedef const struct anf_tir_expr_node *anf_tir_expr;
typedef const struct anf_tir_stmt_node *anf_tir_stmt;
typedef const struct anf_tir_func_node *anf_tir_func;
typedef struct anf_tir_module anf_tir_module;

/* ---- modules and text ---- */
ANF_API anf_status anf_tir_parse(anf_ctx *cx, const char *text, size_t len,
                                 const char *ANF_NULLABLE file, anf_diag *d, anf_tir_module **out);
/* Reads a .tir file; "-" is standard input. */
ANF_API anf_status anf_tir_load(anf_ctx *cx, const char *path, anf_diag *d, anf_tir_module **out);
ANF_API anf_status anf_tir_print(const anf_tir_module *m, anf_text *out);
ANF_API void anf_tir_module_free(anf_tir_module *m); // m may be NULL
ANF_API size_t anf_tir_func_count(const anf_tir_module *m);
ANF_API anf_tir_func anf_tir_func_at(const anf_tir_module *m, size_t i);
ANF_API anf_tir_func anf_tir_find(const anf_tir_module *m, const char *name); // or NULL
ANF_API const char *anf_tir_func_name(anf_tir_func f);
ANF_API size_t anf_tir_global_count(const anf_tir_module *m);
ANF_API anf_tir_stmt anf_tir_global_at(const anf_tir_module *m, size_t i); // its define; or NULL
/* The file that lines of the nodes are of, or NULL. */
ANF_API const char *anf_tir_file(const anf_tir_module *m);
/* Checks every invariant; errors give the path in the module. */
ANF_API anf_status anf_tir_verify(const anf_tir_module *m, anf_diag *d);

typedef struct anf_tir_compare_opts {
  size_t size;
  bool names;       // names of variables, tensors and functions must agree too
  bool callees;     // names of called functions need not agree when false and `names` is false
  bool commutative; // a + b equals b + a
  bool ignore_attrs;
} anf_tir_compare_opts;
/* Equal up to the names of variables? If not, and `why` is given, the first difference is appended
 * to it, with the path to it on both sides. */
ANF_API bool anf_tir_equal(const anf_tir_module *a, const anf_tir_module *b,
                           const anf_tir_compare_opts *o, anf_text *ANF_NULLABLE why);
/* The same of nodes. A variable that no side defines within the nodes equals itself alone. */
ANF_API bool anf_tir_equal_expr(anf_ctx *cx, anf_tir_expr a, anf_tir_expr b,
                                const anf_tir_compare_opts *o, anf_text *ANF_NULLABLE why);
ANF_API bool anf_tir_equal_stmt(anf_ctx *cx, anf_tir_stmt a, anf_tir_stmt b,
                                const anf_tir_compare_opts *o, anf_text *ANF_NULLABLE why);
ANF_API bool anf_tir_equal_func(anf_ctx *cx, anf_tir_func a, anf_tir_func b,
                                const anf_tir_compare_opts *o, anf_text *ANF_NULLABLE why);
/* Of functions with their names, globals and module data. Equal modules have equal hashes, whatever
 * their variables and tensors are called. */
ANF_API uint64_t anf_tir_hash(const anf_tir_module *m);

/* ---- passes ---- */
typedef struct anf_tir_opt_opts {
  size_t size;
  bool verify_each;       // the validator runs after every pass
  const char *dump_after; // name of a pass, or "*"
  void (*dump)(void *user, const char *pass, const char *text, size_t len);
  void (*timed)(void *user, const char *pass, uint64_t ns);
  void *user;
  uint32_t max_threads;        // that parallel_workload_dispatcher plans for; default 8
  uint32_t local_tensor_bytes; // larger local tensors go to the heap; default 128
  void (*ran)(void *user, const char *pass,
              bool changed); // after each pass: did it change the module?
  uint64_t
      cache_bytes; // of the last cache: tensors not smaller are written past it by stream_stores; default 32 MiB
} anf_tir_opt_opts;
/* Runs passes in order: "index_flattener constant_folder", or a named pipeline, "default". `*out`
 * is a new module. */
ANF_API anf_status anf_tir_opt(const anf_tir_module *m, const char *passes,
                               const anf_tir_opt_opts *o, anf_diag *d, anf_tir_module **out);
ANF_API size_t anf_tir_pass_count(void);
ANF_API const char *anf_tir_pass_name(size_t i);
ANF_API const char *anf_tir_pass_doc(size_t i);
ANF_API const char *anf_tir_pipeline_name(size_t i); // or NULL
/* The passes of a named pipeline, or NULL. */
ANF_API const char *anf_tir_pipeline(const char *name);

/* A pass of the host's own: `func` is called for every function with a body, or `module` once. It makes its nodes in
 * `m`, and gives the same node where nothing changes; NULL, or a module whose status is not ANF_OK, ends the run.
 * The validator runs after it whatever the options say, and nothing that earlier passes had made true is taken on trust:
 * the properties of what it gives are measured. */
typedef struct anf_tir_pass {
  size_t size;
  const char *name; // of letters, digits and _; no other pass or pipeline has it
  const char *doc;
  const char
      *needs; // properties that must hold before, by the words of `anfora passes`: "FLAT CAST"
  anf_tir_func (*func)(void *user, anf_tir_module *m, anf_tir_func f);
  /* `m` has no functions yet: those of `from` go into it by anf_tir_module_add, as they are or made anew. Globals are there. */
  anf_status (*module)(void *user, anf_tir_module *m, const anf_tir_module *from);
  void *user;
} anf_tir_pass;
/* From now on pipelines of this context may name it: those of anf_tir_opt and of engines (anf_jit_opts.passes). Code that
 * was made with it is not kept for later processes. */
ANF_API anf_status anf_tir_pass_register(anf_ctx *cx, const anf_tir_pass *p, anf_diag *d);

/* ---- running, in the checked interpreter ---- */
/* A scalar's bits, or a tensor's memory: borrowed, dense, row-major. */
typedef struct anf_tir_arg {
  union {
    bool b;
    int8_t s8;
    int16_t s16;
    int32_t s32;
    int64_t s64;
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
    float f32;
    double f64;
    uint64_t bits;
  } v;
  void *data;
  size_t bytes; // of data
} anf_tir_arg;

typedef struct anf_tir_run_opts {
  size_t size;
  bool plain;         // checks memory safety only; else also ranks, uninitialised reads, races
  uint64_t max_steps; // before ANF_LIMIT; default none
  uint32_t max_depth; // calls under way; default 10^6
  void (*trace)(void *user, int64_t id, bool leaves); // calls of trace_inserter
  void *user;
  /* Stops and output of the program, by site number: see anfora/rt.h. */
  void (*stop)(void *user, int64_t site, int64_t a, int64_t b);
  void (*print)(void *user, int64_t site, size_t n, const uint64_t *leaf);
  void *
      data; // of a module without globals (module_globals_resolver): shared between runs; __tir_init
            // is the caller's to run. Default: new for each run
  /* The C function of a function without a body, or NULL; with `plain` alone. */
  void *(*find)(void *user, const char *name);
  /* Asked now and then with -1, and by code that counts with ANF_RT_TURN, .. of anfora/rt_abi.h. False: the run ends
   * with ANF_CANCELLED. */
  bool (*go_on)(void *user, int32_t what);
  struct anf_comm *comm; // this rank's (anfora/comm.h); NULL: there is one rank
} anf_tir_run_opts;
ANF_API anf_status anf_tir_run(const anf_tir_module *m, const char *func, size_t n,
                               const anf_tir_arg *args, const anf_tir_run_opts *o, anf_diag *d,
                               anf_tir_arg *ANF_NULLABLE result);
/* The same with values. `*result` is the returned value (None for void); outs[i], if outs
 * is given, is the argument as the function left it. All are new references. */
ANF_API anf_status anf_tir_run_values(const anf_tir_module *m, const char *func, size_t n,
                                      anf_value *const *args, const anf_tir_run_opts *o,
                                      anf_diag *d, anf_value **result,
                                      anf_value **ANF_NULLABLE outs);

/* ---- building: nodes, stateless ----
 * A new, empty module to build in. Every make_* returns NULL, and the module remembers the status,
 * when out of memory, nested too deep, or when an argument is NULL or of a wrong kind. */
ANF_API anf_tir_module *anf_tir_module_new(anf_ctx *cx);
ANF_API anf_status anf_tir_module_status(const anf_tir_module *m);
/* Adds the function, or a tensor definition of the module. */
ANF_API anf_status anf_tir_module_add(anf_tir_module *m, anf_tir_func f);
ANF_API anf_status anf_tir_module_add_global(anf_tir_module *m, anf_tir_stmt define);

/* The same, seen by functions of this module alone. */
ANF_API anf_status anf_tir_module_add_private(anf_tir_module *m, anf_tir_stmt define);
/* A scalar of the module, which is a tensor of one element: adds it, with `value` (a constant) or 0 at first, and gives
 * its place, which is read and assigned like a variable. */
ANF_API anf_tir_expr anf_tir_module_add_scalar(anf_tir_module *m, anf_tir_elem e, const char *name,
                                               anf_tir_expr ANF_NULLABLE value, bool is_private);

ANF_API anf_tir_dtype anf_tir_scalar(anf_tir_elem e);
ANF_API anf_tir_dtype anf_tir_vector(anf_tir_elem e, uint16_t lanes);
ANF_API anf_tir_dtype anf_tir_tile(anf_tir_elem e, uint16_t rows, uint16_t lanes);
ANF_API anf_tir_dtype anf_tir_pointer(anf_tir_elem e);

ANF_API anf_tir_expr anf_tir_make_s32(anf_tir_module *m, int32_t v);
ANF_API anf_tir_expr anf_tir_make_s64(anf_tir_module *m, int64_t v);
ANF_API anf_tir_expr anf_tir_make_index(anf_tir_module *m, uint64_t v);
ANF_API anf_tir_expr anf_tir_make_bool(anf_tir_module *m, bool v);
ANF_API anf_tir_expr anf_tir_make_f32(anf_tir_module *m, float v);
ANF_API anf_tir_expr anf_tir_make_f64(anf_tir_module *m, double v);
/* Of any type of numbers, all lanes alike: wrapped into an integer's range, rounded to a float's. */
ANF_API anf_tir_expr anf_tir_make_int(anf_tir_module *m, anf_tir_dtype t, int64_t v);
ANF_API anf_tir_expr anf_tir_make_real(anf_tir_module *m, anf_tir_dtype t, double v);
/* By the bits of its lanes, one for all or one for each. Of void: an operand of an intrinsic that is left out. */
ANF_API anf_tir_expr anf_tir_make_bits(anf_tir_module *m, anf_tir_dtype t, size_t n,
                                       const uint64_t *bits);
/* The initial value of a tensor: n elements as they lie in memory, copied; one fills the tensor. */
ANF_API anf_tir_expr anf_tir_make_values(anf_tir_module *m, anf_tir_elem e, size_t n,
                                         const void *data);
ANF_API anf_tir_expr anf_tir_make_var(anf_tir_module *m, anf_tir_dtype t, const char *name);
/* A dense tensor of constant dims. */
ANF_API anf_tir_expr anf_tir_make_tensor(anf_tir_module *m, anf_tir_elem e, const char *name,
                                         size_t rank, const int64_t *dims);
/* A tensor of any dims, with strides in elements or, NULL, dense. A dim or stride is an integer expression, whose value
 * where the tensor is defined counts. Elements of void are addresses. */
ANF_API anf_tir_expr anf_tir_make_tensor_of(anf_tir_module *m, anf_tir_elem e, const char *name,
                                            size_t rank, const anf_tir_expr *dims,
                                            const anf_tir_expr *ANF_NULLABLE strides);
/* `kind` is the name of a binary, comparison or logic expression: "add" … "mod", "cmp_eq" …
 * "logic_or". */
ANF_API anf_tir_expr anf_tir_make_binary(anf_tir_module *m, const char *kind, anf_tir_expr l,
                                         anf_tir_expr r);
ANF_API anf_tir_expr anf_tir_make_add(anf_tir_module *m, anf_tir_expr l, anf_tir_expr r);
ANF_API anf_tir_expr anf_tir_make_sub(anf_tir_module *m, anf_tir_expr l, anf_tir_expr r);
ANF_API anf_tir_expr anf_tir_make_mul(anf_tir_module *m, anf_tir_expr l, anf_tir_expr r);
ANF_API anf_tir_expr anf_tir_make_div(anf_tir_module *m, anf_tir_expr l, anf_tir_expr r);
ANF_API anf_tir_expr anf_tir_make_not(anf_tir_module *m, anf_tir_expr x);
ANF_API anf_tir_expr anf_tir_make_cast(anf_tir_module *m, anf_tir_dtype t, anf_tir_expr x);
ANF_API anf_tir_expr anf_tir_make_select(anf_tir_module *m, anf_tir_expr c, anf_tir_expr l,
                                         anf_tir_expr r);
/* tensor[idx...], with `lanes` neighbours of the last index; `mask` (lanes of bool) may be NULL. */
ANF_API anf_tir_expr anf_tir_make_indexing(anf_tir_module *m, anf_tir_expr tensor, size_t n,
                                           const anf_tir_expr *idx, uint16_t lanes,
                                           anf_tir_expr ANF_NULLABLE mask);
/* tensor[idx...] as a tile of rows by lanes from there. */
ANF_API anf_tir_expr anf_tir_make_tile(anf_tir_module *m, anf_tir_expr tensor, size_t n,
                                       const anf_tir_expr *idx, uint16_t rows, uint16_t lanes,
                                       anf_tir_expr ANF_NULLABLE mask);
ANF_API anf_tir_expr anf_tir_make_tensorptr(anf_tir_module *m, anf_tir_expr tensor, size_t n,
                                            const anf_tir_expr *idx);
ANF_API anf_tir_expr anf_tir_make_call(anf_tir_module *m, const char *func, anf_tir_dtype ret,
                                       size_t n, const anf_tir_expr *args);
/* func(i..., args...) for all i in the ranges at once, which have `ranges` triples begin, end, step. */
ANF_API anf_tir_expr anf_tir_make_parallel_call(anf_tir_module *m, const char *func, size_t n,
                                                const anf_tir_expr *args, size_t ranges,
                                                const anf_tir_expr *triples);
/* Calls through a function pointer. */
ANF_API anf_tir_expr anf_tir_make_call_ptr(anf_tir_module *m, anf_tir_expr fn, anf_tir_dtype ret,
                                           size_t n, const anf_tir_expr *args);
ANF_API anf_tir_expr anf_tir_make_func_addr(anf_tir_module *m, const char *func);
/* `t` is used by intrinsics whose type is given, and by others ignored. */
ANF_API anf_tir_expr anf_tir_make_intrin(anf_tir_module *m, const char *name, anf_tir_dtype t,
                                         size_t n, const anf_tir_expr *args);

/* The intrinsic call with an attribute: "init", "locality" ... */
ANF_API anf_tir_expr anf_tir_expr_with_attr(anf_tir_module *m, anf_tir_expr e, const char *name,
                                            int64_t value);
/* C[M, N] (+)= sum over the batch of A[M, K] B[K, N], then the epilogue, in this order: scales, bias, rhs, ReLU. */
typedef struct anf_tir_brgemm {
  size_t size;
  anf_tir_expr a, b, c;            // addresses (anf_tir_make_tensorptr)
  anf_tir_expr num, m, n, k;       // blocks of the batch and their sizes
  anf_tir_expr lda, ldb, ldc;      // elements from row to row
  anf_tir_expr stride_a, stride_b; // and from block to block
  bool init;                       // from zero; else C is added to
  bool relu;
  anf_tir_expr bias;    // address of [N], of C's type; or NULL
  anf_tir_expr scales;  // address of [N], f32; or NULL
  anf_tir_expr rhs;     // address of [M, N] as C lies; or NULL
  int32_t rhs_op;       // 1 adds, 2 multiplies, 3 takes the greater, 4 the less
  anf_tir_expr entries; // not NULL: a and b are lists of pointers, this many of `num` blocks each
} anf_tir_brgemm;
ANF_API anf_tir_expr anf_tir_make_brgemm(anf_tir_module *m, const anf_tir_brgemm *o);

ANF_API anf_tir_stmt anf_tir_make_stmts_unattached(anf_tir_module *m, size_t n,
                                                   const anf_tir_stmt *s);
ANF_API anf_tir_stmt anf_tir_make_define_unattached(anf_tir_module *m, anf_tir_expr var,
                                                    anf_tir_expr ANF_NULLABLE init);
ANF_API anf_tir_stmt anf_tir_make_assign_unattached(anf_tir_module *m, anf_tir_expr to,
                                                    anf_tir_expr value);
ANF_API anf_tir_stmt anf_tir_make_if_else_unattached(anf_tir_module *m, anf_tir_expr cond,
                                                     anf_tir_stmt then_,
                                                     anf_tir_stmt ANF_NULLABLE else_);
ANF_API anf_tir_stmt anf_tir_make_for_unattached(anf_tir_module *m, anf_tir_expr var,
                                                 anf_tir_expr begin, anf_tir_expr end,
                                                 anf_tir_expr ANF_NULLABLE step, anf_tir_stmt body,
                                                 bool parallel, uint32_t num_threads);
ANF_API anf_tir_stmt anf_tir_make_while_unattached(anf_tir_module *m, anf_tir_expr cond,
                                                   anf_tir_stmt body);
ANF_API anf_tir_stmt anf_tir_make_evaluate_unattached(anf_tir_module *m, anf_tir_expr value);
ANF_API anf_tir_stmt
anf_tir_make_return_unattached(anf_tir_module *m,
                               anf_tir_expr ANF_NULLABLE value); // value may be NULL
/* body NULL makes a declaration. */
ANF_API anf_tir_func anf_tir_make_func(anf_tir_module *m, const char *name, anf_tir_dtype ret,
                                       size_t n, const anf_tir_expr *params,
                                       anf_tir_stmt ANF_NULLABLE body);
/* The statement or function with an attribute of docs/tensor-ir.md: "unroll_loop", "inline_level" ... */
ANF_API anf_tir_stmt anf_tir_with_attr(anf_tir_module *m, anf_tir_stmt s, const char *name,
                                       int64_t value);
ANF_API anf_tir_func anf_tir_func_with_attr(anf_tir_module *m, anf_tir_func f, const char *name,
                                            int64_t value);
/* The same kind of node with other children, as many as it has. */
ANF_API anf_tir_expr anf_tir_remake(anf_tir_module *m, anf_tir_expr e, const anf_tir_expr *in);
/* Attributes, comment and place stay. e[i] and s[i] take the places of anf_tir_stmt_expr and anf_tir_stmt_at; what may be
 * absent may be NULL. */
ANF_API anf_tir_stmt anf_tir_remake_stmt(anf_tir_module *m, anf_tir_stmt s,
                                         const anf_tir_expr *ANF_NULLABLE e,
                                         const anf_tir_stmt *ANF_NULLABLE sub);
ANF_API anf_tir_func anf_tir_remake_func(anf_tir_module *m, anf_tir_func f,
                                         anf_tir_stmt ANF_NULLABLE body);

/* Copy on write. A hook gets a node after what it holds and gives what takes its place, or the node itself. A variable or
 * tensor that is replaced where it is defined is replaced wherever it is used. The result is the same node where nothing
 * changed; NULL if a hook gave no expression or a maker failed. */
typedef struct anf_tir_visitor {
  size_t size;
  anf_tir_expr (*expr)(void *user, anf_tir_module *m, anf_tir_expr e);
  anf_tir_stmt (*stmt)(void *user, anf_tir_module *m, anf_tir_stmt s); // NULL takes it away
  void *user;
} anf_tir_visitor;
ANF_API anf_tir_expr anf_tir_visit_expr(anf_tir_module *m, anf_tir_expr e,
                                        const anf_tir_visitor *v);
ANF_API anf_tir_stmt anf_tir_visit_stmt(anf_tir_module *m, anf_tir_stmt s,
                                        const anf_tir_visitor *v);
ANF_API anf_tir_func anf_tir_visit_func(anf_tir_module *m, anf_tir_func f,
                                        const anf_tir_visitor *v);

/* ---- looking at nodes ---- */
ANF_API anf_tir_dtype anf_tir_type(anf_tir_expr e);
ANF_API const char *anf_tir_expr_kind(anf_tir_expr e); // "add", "indexing", ...
ANF_API const char *anf_tir_stmt_kind(anf_tir_stmt s); // "assign", "for_loop", ...
/* The name of a variable, tensor, called function, intrinsic or function address; else NULL. */
ANF_API const char *anf_tir_expr_name(anf_tir_expr e);
/* What an expression holds, in order. tensor: dims, then strides if it has some · indexing and tensorptr: tensor, indices,
 * then the mask if there is one · call: arguments, the pointer if it goes through one, begin, end and step of each range. */
ANF_API size_t anf_tir_expr_count(anf_tir_expr e);
ANF_API anf_tir_expr anf_tir_expr_at(anf_tir_expr e, size_t i);
/* Dims of a tensor, indices of an indexing or tensorptr, arguments of a call. */
ANF_API size_t anf_tir_expr_rank(anf_tir_expr e);
/* Values of a constant: 1 for all lanes or elements, else one for each; 0: it is no constant. */
ANF_API size_t anf_tir_const_count(anf_tir_expr e);
/* False if there is no such value; the first also if it is no integer or bool. */
ANF_API bool anf_tir_const_i64(anf_tir_expr e, size_t i, int64_t *v);
ANF_API bool anf_tir_const_f64(anf_tir_expr e, size_t i, double *v);
ANF_API bool anf_tir_const_bits(anf_tir_expr e, size_t i, uint64_t *v); // zero-extended
/* The value of an attribute; false if it is not there. */
ANF_API bool anf_tir_expr_attr(anf_tir_expr e, const char *name, int64_t *ANF_NULLABLE v);
ANF_API bool anf_tir_stmt_attr(anf_tir_stmt s, const char *name, int64_t *ANF_NULLABLE v);
ANF_API bool anf_tir_func_attr(anf_tir_func f, const char *name, int64_t *ANF_NULLABLE v);
/* Line and column in anf_tir_file; 0: unknown. */
ANF_API uint32_t anf_tir_expr_line(anf_tir_expr e, uint32_t *ANF_NULLABLE col);
ANF_API uint32_t anf_tir_stmt_line(anf_tir_stmt s, uint32_t *ANF_NULLABLE col);
ANF_API uint32_t anf_tir_func_line(anf_tir_func f, uint32_t *ANF_NULLABLE col);

/* Expressions of a statement. define: variable or tensor, initial value · assign: place, value · if_else, while_loop:
 * condition · for_loop: variable, begin, end, step · evaluate, returns: value. NULL: absent, or past the end. */
ANF_API size_t anf_tir_stmt_expr_count(anf_tir_stmt s);
ANF_API anf_tir_expr anf_tir_stmt_expr(anf_tir_stmt s, size_t i);
/* Statements of it. stmts: the sequence · if_else: then, else or NULL · loops: the body. */
ANF_API size_t anf_tir_stmt_count(anf_tir_stmt s);
ANF_API anf_tir_stmt anf_tir_stmt_at(anf_tir_stmt s, size_t i);
ANF_API bool anf_tir_is_parallel(anf_tir_stmt loop, uint32_t *ANF_NULLABLE num_threads);
ANF_API bool anf_tir_is_private(anf_tir_stmt define);    // of a global
ANF_API const char *anf_tir_comment(anf_tir_stmt s);     // before it in the text; or NULL
ANF_API anf_tir_dtype anf_tir_func_type(anf_tir_func f); // of the result
ANF_API size_t anf_tir_func_param_count(anf_tir_func f);
ANF_API anf_tir_expr anf_tir_func_param(anf_tir_func f, size_t i);
ANF_API anf_tir_stmt anf_tir_func_body(anf_tir_func f); // NULL: declared, not defined

/* All nodes below, from outside to inside and in the order of the text. False from a hook: what the node holds is left
 * out. A tensor is one node where it is used; dims are below its define. */
typedef struct anf_tir_viewer {
  size_t size;
  bool (*enter_expr)(void *user, anf_tir_expr e);
  bool (*enter_stmt)(void *user, anf_tir_stmt s);
  void (*leave_stmt)(void *user, anf_tir_stmt s);
  void *user;
} anf_tir_viewer;
ANF_API anf_status anf_tir_view_expr(anf_ctx *cx, anf_tir_expr e, const anf_tir_viewer *v);
ANF_API anf_status anf_tir_view_stmt(anf_ctx *cx, anf_tir_stmt s, const anf_tir_viewer *v);
ANF_API anf_status anf_tir_view_func(anf_ctx *cx, anf_tir_func f, const anf_tir_viewer *v);

/* Is it of this kind, or of this group of kinds: "binary", "cmp", "logic"? */
ANF_API bool anf_tir_isa(anf_tir_expr e, const char *kind);
ANF_API bool anf_tir_instanceof(anf_tir_expr e, const char *kind_or_group);
/* The node itself if it is of the kind (or group, in dyn_as), else NULL. */
ANF_API anf_tir_expr anf_tir_as(anf_tir_expr e, const char *kind);
ANF_API anf_tir_expr anf_tir_dyn_as(anf_tir_expr e, const char *kind_or_group);
/* The node itself where the caller knows its kind: static_as does not look, checked_as does unless
 * NDEBUG is set. */
static inline anf_tir_expr anf_tir_static_as(anf_tir_expr e, const char *kind_or_group) {
  return (void)kind_or_group, e;
}
static inline anf_tir_expr anf_tir_checked_as(anf_tir_expr e, const char *kind_or_group) {
  assert(anf_tir_instanceof(e, kind_or_group));
  return (void)kind_or_group, e;
}
static inline bool anf_tir_ptr_same(anf_tir_expr a, anf_tir_expr b) { return a == b; }
ANF_API anf_status anf_tir_print_expr(anf_ctx *cx, anf_tir_expr e, anf_text *out);
ANF_API anf_status anf_tir_print_stmt(anf_ctx *cx, anf_tir_stmt s, anf_text *out);

/* ---- building: a builder with a stack of scopes ----
 * Statements go into the innermost open scope. The first error sticks; anf_tb_finish reports it. */
typedef struct anf_tb anf_tb;
ANF_API anf_tb *anf_tb_new(anf_ctx *cx);
ANF_API void anf_tb_free(anf_tb *b);
ANF_API anf_tir_module *
anf_tb_module(anf_tb *b); // where make_* of this builder's nodes go; owned by it
/* Ends building and gives the module. Fails if a scope is open, was left by `break`, or a step had failed. */
ANF_API anf_status anf_tb_finish(anf_tb *b, anf_diag *d, anf_tir_module **out);
/* Takes the statements pushed outside of functions, as one scope. */
ANF_API anf_tir_stmt anf_tb_take(anf_tb *b);

typedef struct anf_tb_arg {
  const char *name;
  anf_tir_elem elem;
  size_t rank;     // 0: a scalar
  int64_t dims[8]; // ANF_DIM(i): the value of parameter i, before this one
} anf_tb_arg;
#define ANF_DIM(i) (-1 - (int64_t)(i))
/* What a body of an easy-build macro holds on to: one pass through it, seen to its end. */
typedef struct anf_tb_scope {
  anf_tb *b;
  anf_tir_expr var;
  uint32_t depth;
  int state;
} anf_tb_scope;
ANF_API anf_tb_scope anf_tb_func(anf_tb *b, anf_tir_elem ret, const char *name, size_t n,
                                 const anf_tb_arg *args, const char *ANF_NULLABLE file, int line);
ANF_API anf_tb_scope anf_tb_for(anf_tb *b, const char *name, anf_tir_expr begin, anf_tir_expr end,
                                anf_tir_expr ANF_NULLABLE step, bool parallel,
                                const char *ANF_NULLABLE file, int line);
ANF_API anf_tb_scope anf_tb_if(anf_tb *b, anf_tir_expr cond, const char *ANF_NULLABLE file,
                               int line);
ANF_API anf_tb_scope anf_tb_else(anf_tb *b, const char *ANF_NULLABLE file, int line);
ANF_API anf_tb_scope anf_tb_while(anf_tb *b, anf_tir_expr cond, const char *ANF_NULLABLE file,
                                  int line);
ANF_API bool anf_tb_enter(anf_tb_scope *s);
ANF_API void anf_tb_leave(anf_tb_scope *s);
ANF_API bool anf_tb_open(anf_tb_scope *s);
ANF_API void anf_tb_close(anf_tb_scope *s);
ANF_API anf_tir_expr anf_tb_param(anf_tb *b, size_t i);
ANF_API anf_tir_expr anf_tb_var(anf_tb *b, anf_tir_elem e, const char *name,
                                anf_tir_expr ANF_NULLABLE init);
ANF_API anf_tir_expr anf_tb_tensor(anf_tb *b, anf_tir_elem e, const char *name, size_t rank,
                                   const int64_t *dims);
/* Of any dims, with strides or dense (NULL); a view of `of`, an address, if that is given. */
ANF_API anf_tir_expr anf_tb_tensor_of(anf_tb *b, anf_tir_elem e, const char *name, size_t rank,
                                      const anf_tir_expr *dims,
                                      const anf_tir_expr *ANF_NULLABLE strides,
                                      anf_tir_expr ANF_NULLABLE of);
/* Where the nodes that follow are from, for findings and traps. Lines count in the file that was named first. */
ANF_API void anf_tb_place(anf_tb *b, const char *file, int line);
ANF_API void anf_tb_assign(anf_tb *b, anf_tir_expr to, anf_tir_expr value);
ANF_API void anf_tb_evaluate(anf_tb *b, anf_tir_expr value);
ANF_API void anf_tb_return(anf_tb *b, anf_tir_expr ANF_NULLABLE value);
ANF_API anf_tir_expr anf_tb_binary(anf_tb *b, const char *kind, anf_tir_expr l, anf_tir_expr r);
ANF_API anf_tir_expr anf_tb_at(anf_tb *b, anf_tir_expr tensor, size_t n, const anf_tir_expr *idx);
ANF_API anf_tir_expr anf_tb_call(anf_tb *b, anf_tir_elem ret, const char *func, size_t n,
                                 const anf_tir_expr *args);
ANF_API anf_tir_expr anf_tb_int(anf_tb *b, anf_tir_elem e, int64_t v);
ANF_API anf_tir_expr anf_tb_s32(anf_tb *b, int v);
ANF_API anf_tir_expr anf_tb_s64(anf_tb *b, long v);
ANF_API anf_tir_expr anf_tb_index(anf_tb *b, unsigned long v);
ANF_API anf_tir_expr anf_tb_bool(anf_tb *b, bool v);
ANF_API anf_tir_expr anf_tb_f32(anf_tb *b, float v);
ANF_API anf_tir_expr anf_tb_f64(anf_tb *b, double v);
ANF_API anf_tir_expr anf_tb_same(anf_tb *b, anf_tir_expr e);

/* The easy-build macros: C11.
 *   anf_tb *b = anf_tb_new(cx);
 *   ANF_FUNC(b, f32, "some_func", ANF_ARG("idx", s32), ANF_ARG_TENSOR("A", f32, 100, 200)) {
 *     anf_tir_expr idx = ANF_PARAM(b, 0), A = ANF_PARAM(b, 1);
 *     ANF_VAR(b, x, f32);
 *     ANF_SET(b, x, 0);
 *     ANF_FOR(b, i, 0, 200) { ANF_SET(b, x, ANF_ADD(b, x, ANF_AT(b, A, idx, i))); }
 *     ANF_RETURN(b, x);
 *   }
 * Numbers are taken as their C type says: int → s32, unsigned char → u8, long and long long → s64, unsigned long and
 * unsigned long long → index, float → f32, double → f64. A `break` out of a body is reported by anf_tb_finish; `continue`
 * ends the body. */
#ifdef __cplusplus
extern "C++" {
#define ANF_TB_NUMBER(type, elem)                                                                  \
  inline anf_tir_expr anf_tb_e(anf_tb *b, type v) { return anf_tb_int(b, elem, (int64_t)v); }
ANF_TB_NUMBER(char, (char)-1 < 0 ? ANF_TIR_s8 : ANF_TIR_u8)
ANF_TB_NUMBER(signed char, ANF_TIR_s8)
ANF_TB_NUMBER(unsigned char, ANF_TIR_u8)
ANF_TB_NUMBER(short, ANF_TIR_s16)
ANF_TB_NUMBER(unsigned short, ANF_TIR_u16)
ANF_TB_NUMBER(int, ANF_TIR_s32)
ANF_TB_NUMBER(unsigned, ANF_TIR_u32)
ANF_TB_NUMBER(long, ANF_TIR_s64)
ANF_TB_NUMBER(unsigned long, ANF_TIR_index)
ANF_TB_NUMBER(long long, ANF_TIR_s64)
ANF_TB_NUMBER(unsigned long long, ANF_TIR_index)
ANF_TB_NUMBER(bool, ANF_TIR_bool)
#undef ANF_TB_NUMBER
inline anf_tir_expr anf_tb_e(anf_tb *b, float v) { return anf_tb_f32(b, v); }
inline anf_tir_expr anf_tb_e(anf_tb *b, double v) { return anf_tb_f64(b, v); }
inline anf_tir_expr anf_tb_e(anf_tb *b, anf_tir_expr e) { return anf_tb_same(b, e); }
}
#define ANF_E(b, x)           anf_tb_e((b), (x))
#define ANF_TB_ARRAY_(T, ...) std::initializer_list<T>{__VA_ARGS__}.begin()
#define ANF_TB_LEN_(T, ...)   std::initializer_list<T>{__VA_ARGS__}.size()
#else
static inline anf_tir_expr anf_tb_char_(anf_tb *b, char v) {
  return anf_tb_int(b, (char)-1 < 0 ? ANF_TIR_s8 : ANF_TIR_u8, v);
}
static inline anf_tir_expr anf_tb_s8_(anf_tb *b, signed char v) {
  return anf_tb_int(b, ANF_TIR_s8, v);
}
static inline anf_tir_expr anf_tb_u8_(anf_tb *b, unsigned char v) {
  return anf_tb_int(b, ANF_TIR_u8, v);
}
static inline anf_tir_expr anf_tb_s16_(anf_tb *b, short v) { return anf_tb_int(b, ANF_TIR_s16, v); }
static inline anf_tir_expr anf_tb_u16_(anf_tb *b, unsigned short v) {
  return anf_tb_int(b, ANF_TIR_u16, v);
}
static inline anf_tir_expr anf_tb_u32_(anf_tb *b, unsigned v) {
  return anf_tb_int(b, ANF_TIR_u32, v);
}
static inline anf_tir_expr anf_tb_s64_(anf_tb *b, long long v) {
  return anf_tb_int(b, ANF_TIR_s64, v);
}
static inline anf_tir_expr anf_tb_index_(anf_tb *b, unsigned long long v) {
  return anf_tb_int(b, ANF_TIR_index, (int64_t)v);
}
// clang-format off
#define ANF_E(b, x)                                                                                \
  _Generic((x),                                                                                    \
      char: anf_tb_char_, signed char: anf_tb_s8_, unsigned char: anf_tb_u8_,                      \
      short: anf_tb_s16_, unsigned short: anf_tb_u16_, int: anf_tb_s32, unsigned: anf_tb_u32_,     \
      long: anf_tb_s64, unsigned long: anf_tb_index,                                               \
      long long: anf_tb_s64_, unsigned long long: anf_tb_index_, bool: anf_tb_bool,                \
      float: anf_tb_f32, double: anf_tb_f64, anf_tir_expr: anf_tb_same)((b), (x))
// clang-format on
#define ANF_TB_ARRAY_(T, ...)                                                                      \
  (T[]) { __VA_ARGS__ }
#define ANF_TB_LEN_(T, ...) (sizeof((T[]){__VA_ARGS__}) / sizeof(T))
#endif
#define ANF_TIR__Bool     ANF_TIR_bool // where `bool` is a macro
#define ANF_TB_CAT_(a, b) a##b
#define ANF_TB_CAT(a, b)  ANF_TB_CAT_(a, b)
#define ANF_TB_SCOPE_     ANF_TB_CAT(anf_scope_, __LINE__)
#define ANF_TB_HERE_(b)   anf_tb_place((b), __FILE__, __LINE__)
#define ANF_TB_BODY_(opened)                                                                       \
  for (anf_tb_scope ANF_TB_SCOPE_ = (opened); anf_tb_open(&ANF_TB_SCOPE_);                         \
       anf_tb_close(&ANF_TB_SCOPE_))                                                               \
    for (; anf_tb_enter(&ANF_TB_SCOPE_); anf_tb_leave(&ANF_TB_SCOPE_))
#define ANF_ARG(name, type)                                                                        \
  {                                                                                                \
    (name), ANF_TB_CAT_(ANF_TIR_, type), 0, { 0 }                                                  \
  }
#define ANF_ARG_TENSOR(name, type, ...)                                                            \
  {                                                                                                \
    (name), ANF_TB_CAT_(ANF_TIR_, type), ANF_TB_LEN_(int64_t, __VA_ARGS__), { __VA_ARGS__ }        \
  }
#define ANF_FUNC(b, ret, name, ...)                                                                \
  ANF_TB_BODY_(anf_tb_func((b), ANF_TB_CAT_(ANF_TIR_, ret), (name),                                \
                           ANF_TB_LEN_(anf_tb_arg, __VA_ARGS__),                                   \
                           ANF_TB_ARRAY_(anf_tb_arg, __VA_ARGS__), __FILE__, __LINE__))
#define ANF_FUNC0(b, ret, name)                                                                    \
  ANF_TB_BODY_(anf_tb_func((b), ANF_TB_CAT_(ANF_TIR_, ret), (name), 0, NULL, __FILE__, __LINE__))
#define ANF_TB_LOOP_(opened, i)                                                                    \
  for (anf_tb_scope ANF_TB_SCOPE_ = (opened); anf_tb_open(&ANF_TB_SCOPE_);                         \
       anf_tb_close(&ANF_TB_SCOPE_))                                                               \
    for (anf_tir_expr i = ANF_TB_SCOPE_.var; anf_tb_enter(&ANF_TB_SCOPE_);                         \
         anf_tb_leave(&ANF_TB_SCOPE_))
#define ANF_FOR_STEP(b, i, begin, end, step)                                                       \
  ANF_TB_LOOP_((ANF_TB_HERE_(b), anf_tb_for((b), #i, ANF_E(b, begin), ANF_E(b, end),               \
                                            ANF_E(b, step), false, __FILE__, __LINE__)),           \
               i)
#define ANF_FOR(b, i, begin, end)                                                                  \
  ANF_TB_LOOP_((ANF_TB_HERE_(b), anf_tb_for((b), #i, ANF_E(b, begin), ANF_E(b, end), NULL, false,  \
                                            __FILE__, __LINE__)),                                  \
               i)
#define ANF_PFOR(b, i, begin, end)                                                                 \
  ANF_TB_LOOP_((ANF_TB_HERE_(b), anf_tb_for((b), #i, ANF_E(b, begin), ANF_E(b, end), NULL, true,   \
                                            __FILE__, __LINE__)),                                  \
               i)
#define ANF_IF(b, cond)                                                                            \
  ANF_TB_BODY_((ANF_TB_HERE_(b), anf_tb_if((b), ANF_E(b, cond), __FILE__, __LINE__)))
#define ANF_ELSE(b) ANF_TB_BODY_(anf_tb_else((b), __FILE__, __LINE__))
#define ANF_WHILE(b, cond)                                                                         \
  ANF_TB_BODY_((ANF_TB_HERE_(b), anf_tb_while((b), ANF_E(b, cond), __FILE__, __LINE__)))
#define ANF_PARAM(b, i) anf_tb_param((b), (i))
#define ANF_VAR(b, x, type)                                                                        \
  anf_tir_expr x = (ANF_TB_HERE_(b), anf_tb_var((b), ANF_TB_CAT_(ANF_TIR_, type), #x, NULL))
#define ANF_VAR_INIT(b, x, type, value)                                                            \
  anf_tir_expr x =                                                                                 \
      (ANF_TB_HERE_(b), anf_tb_var((b), ANF_TB_CAT_(ANF_TIR_, type), #x, ANF_E(b, value)))
#define ANF_TENSOR(b, A, type, ...)                                                                \
  anf_tir_expr A = (ANF_TB_HERE_(b), anf_tb_tensor((b), ANF_TB_CAT_(ANF_TIR_, type), #A,           \
                                                   ANF_TB_LEN_(int64_t, __VA_ARGS__),              \
                                                   ANF_TB_ARRAY_(int64_t, __VA_ARGS__)))
/* Dims are expressions or numbers, up to 8. */
#define ANF_TENSOR_OF(b, A, type, ...)                                                             \
  anf_tir_expr A = (ANF_TB_HERE_(b), anf_tb_tensor_of((b), ANF_TB_CAT_(ANF_TIR_, type), #A,        \
                                                      ANF_TB_LIST(b, __VA_ARGS__), NULL, NULL))
#define ANF_SET(b, to, value)                         (ANF_TB_HERE_(b), anf_tb_assign((b), (to), ANF_E(b, value)))
#define ANF_EVAL(b, value)                            (ANF_TB_HERE_(b), anf_tb_evaluate((b), (value)))
#define ANF_RETURN(b, value)                          (ANF_TB_HERE_(b), anf_tb_return((b), ANF_E(b, value)))
#define ANF_RETURN_VOID(b)                            (ANF_TB_HERE_(b), anf_tb_return((b), NULL))
#define ANF_BIN(b, kind, x, y)                        anf_tb_binary((b), kind, ANF_E(b, x), ANF_E(b, y))
#define ANF_ADD(b, x, y)                              ANF_BIN(b, "add", x, y)
#define ANF_SUB(b, x, y)                              ANF_BIN(b, "sub", x, y)
#define ANF_MUL(b, x, y)                              ANF_BIN(b, "mul", x, y)
#define ANF_DIV(b, x, y)                              ANF_BIN(b, "div", x, y)
#define ANF_MOD(b, x, y)                              ANF_BIN(b, "mod", x, y)
#define ANF_EQ(b, x, y)                               ANF_BIN(b, "cmp_eq", x, y)
#define ANF_NE(b, x, y)                               ANF_BIN(b, "cmp_ne", x, y)
#define ANF_LT(b, x, y)                               ANF_BIN(b, "cmp_lt", x, y)
#define ANF_LE(b, x, y)                               ANF_BIN(b, "cmp_le", x, y)
#define ANF_GT(b, x, y)                               ANF_BIN(b, "cmp_gt", x, y)
#define ANF_GE(b, x, y)                               ANF_BIN(b, "cmp_ge", x, y)
#define ANF_TB_E1_(b, x)                              ANF_E(b, x)
#define ANF_TB_E2_(b, x, ...)                         ANF_E(b, x), ANF_TB_E1_(b, __VA_ARGS__)
#define ANF_TB_E3_(b, x, ...)                         ANF_E(b, x), ANF_TB_E2_(b, __VA_ARGS__)
#define ANF_TB_E4_(b, x, ...)                         ANF_E(b, x), ANF_TB_E3_(b, __VA_ARGS__)
#define ANF_TB_E5_(b, x, ...)                         ANF_E(b, x), ANF_TB_E4_(b, __VA_ARGS__)
#define ANF_TB_E6_(b, x, ...)                         ANF_E(b, x), ANF_TB_E5_(b, __VA_ARGS__)
#define ANF_TB_E7_(b, x, ...)                         ANF_E(b, x), ANF_TB_E6_(b, __VA_ARGS__)
#define ANF_TB_E8_(b, x, ...)                         ANF_E(b, x), ANF_TB_E7_(b, __VA_ARGS__)
#define ANF_TB_COUNT_(a, b, c, d, e, f, g, h, n, ...) n
#define ANF_TB_COUNT(...)                             ANF_TB_COUNT_(__VA_ARGS__, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define ANF_TB_LIST_(b, n, ...)                                                                    \
  (n), ANF_TB_ARRAY_(anf_tir_expr, ANF_TB_CAT(ANF_TB_CAT(ANF_TB_E, n), _)(b, __VA_ARGS__))
#define ANF_TB_LIST(b, ...) ANF_TB_LIST_(b, ANF_TB_COUNT(__VA_ARGS__), __VA_ARGS__)
/* A[i, j]: up to 8 indices */
#define ANF_AT(b, A, ...) anf_tb_at((b), (A), ANF_TB_LIST(b, __VA_ARGS__))
/* f(x, y): up to 8 arguments */
#define ANF_CALL(b, ret, name, ...)                                                                \
  anf_tb_call((b), ANF_TB_CAT_(ANF_TIR_, ret), (name), ANF_TB_LIST(b, __VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
