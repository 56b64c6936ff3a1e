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

ANF_API anf_tir_dtype anf_tir_scalar(anf_tir_elem e);
ANF_API anf_tir_dtype anf_tir_vector(anf_tir_elem e, uint16_t lanes);
ANF_API anf_tir_dtype anf_tir_pointer(anf_tir_elem e);

ANF_API anf_tir_expr anf_tir_make_s32(anf_tir_module *m, int32_t v);
ANF_API anf_tir_expr anf_tir_make_s64(anf_tir_module *m, int64_t v);
ANF_API anf_tir_expr anf_tir_make_index(anf_tir_module *m, uint64_t v);
ANF_API anf_tir_expr anf_tir_make_bool(anf_tir_module *m, bool v);
ANF_API anf_tir_expr anf_tir_make_f32(anf_tir_module *m, float v);
ANF_API anf_tir_expr anf_tir_make_f64(anf_tir_module *m, double v);
ANF_API anf_tir_expr anf_tir_make_var(anf_tir_module *m, anf_tir_dtype t, const char *name);
/* A dense tensor of constant dims. */
ANF_API anf_tir_expr anf_tir_make_tensor(anf_tir_module *m, anf_tir_elem e, const char *name,
                                         size_t rank, const int64_t *dims);
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

/* ---- looking at nodes ---- */
ANF_API anf_tir_dtype anf_tir_type(anf_tir_expr e);
ANF_API const char *anf_tir_expr_kind(anf_tir_expr e); // "add", "indexing", ...
ANF_API const char *anf_tir_stmt_kind(anf_tir_stmt s); // "assign", "for_loop", ...
ANF_API size_t anf_tir_expr_count(anf_tir_expr e);
ANF_API anf_tir_expr anf_tir_expr_at(anf_tir_expr e, size_t i);
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
  size_t rank; // 0: a scalar
  int64_t dims[8];
} anf_tb_arg;
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
ANF_API void anf_tb_assign(anf_tb *b, anf_tir_expr to, anf_tir_expr value);
ANF_API void anf_tb_evaluate(anf_tb *b, anf_tir_expr value);
ANF_API void anf_tb_return(anf_tb *b, anf_tir_expr ANF_NULLABLE value);
ANF_API anf_tir_expr anf_tb_binary(anf_tb *b, const char *kind, anf_tir_expr l, anf_tir_expr r);
ANF_API anf_tir_expr anf_tb_at(anf_tb *b, anf_tir_expr tensor, size_t n, const anf_tir_expr *idx);
ANF_API anf_tir_expr anf_tb_call(anf_tb *b, anf_tir_elem ret, const char *func, size_t n,
                                 const anf_tir_expr *args);
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
 * Numbers are taken as int → s32, long → s64, unsigned long → index, float → f32, double → f64. A
 * `break` out of a body is reported by anf_tb_finish; `continue` ends the body. */
#define ANF_E(b, x)                                                                                \
  _Generic((x), int                                                                                \
           : anf_tb_s32, long                                                                      \
           : anf_tb_s64, unsigned long                                                             \
           : anf_tb_index, bool                                                                    \
           : anf_tb_bool, float                                                                    \
           : anf_tb_f32, double                                                                    \
           : anf_tb_f64, anf_tir_expr                                                              \
           : anf_tb_same)((b), (x))
#define ANF_TB_CAT_(a, b) a##b
#define ANF_TB_CAT(a, b)  ANF_TB_CAT_(a, b)
#define ANF_TB_SCOPE_     ANF_TB_CAT(anf_scope_, __LINE__)
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
    (name), ANF_TB_CAT_(ANF_TIR_, type), sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), {     \
      __VA_ARGS__                                                                                  \
    }                                                                                              \
  }
#define ANF_FUNC(b, ret, name, ...)                                                                \
  ANF_TB_BODY_(anf_tb_func((b), ANF_TB_CAT_(ANF_TIR_, ret), (name),                                \
                           sizeof((anf_tb_arg[]){__VA_ARGS__}) / sizeof(anf_tb_arg),               \
                           (anf_tb_arg[]){__VA_ARGS__}, __FILE__, __LINE__))
#define ANF_FUNC0(b, ret, name)                                                                    \
  ANF_TB_BODY_(anf_tb_func((b), ANF_TB_CAT_(ANF_TIR_, ret), (name), 0, NULL, __FILE__, __LINE__))
#define ANF_TB_LOOP_(opened, i)                                                                    \
  for (anf_tb_scope ANF_TB_SCOPE_ = (opened); anf_tb_open(&ANF_TB_SCOPE_);                         \
       anf_tb_close(&ANF_TB_SCOPE_))                                                               \
    for (anf_tir_expr i = ANF_TB_SCOPE_.var; anf_tb_enter(&ANF_TB_SCOPE_);                         \
         anf_tb_leave(&ANF_TB_SCOPE_))
#define ANF_FOR_STEP(b, i, begin, end, step)                                                       \
  ANF_TB_LOOP_(anf_tb_for((b), #i, ANF_E(b, begin), ANF_E(b, end), ANF_E(b, step), false,          \
                          __FILE__, __LINE__),                                                     \
               i)
#define ANF_FOR(b, i, begin, end)                                                                  \
  ANF_TB_LOOP_(                                                                                    \
      anf_tb_for((b), #i, ANF_E(b, begin), ANF_E(b, end), NULL, false, __FILE__, __LINE__), i)
#define ANF_PFOR(b, i, begin, end)                                                                 \
  ANF_TB_LOOP_(                                                                                    \
      anf_tb_for((b), #i, ANF_E(b, begin), ANF_E(b, end), NULL, true, __FILE__, __LINE__), i)
#define ANF_IF(b, cond)     ANF_TB_BODY_(anf_tb_if((b), ANF_E(b, cond), __FILE__, __LINE__))
#define ANF_ELSE(b)         ANF_TB_BODY_(anf_tb_else((b), __FILE__, __LINE__))
#define ANF_WHILE(b, cond)  ANF_TB_BODY_(anf_tb_while((b), ANF_E(b, cond), __FILE__, __LINE__))
#define ANF_PARAM(b, i)     anf_tb_param((b), (i))
#define ANF_VAR(b, x, type) anf_tir_expr x = anf_tb_var((b), ANF_TB_CAT_(ANF_TIR_, type), #x, NULL)
#define ANF_VAR_INIT(b, x, type, value)                                                            \
  anf_tir_expr x = anf_tb_var((b), ANF_TB_CAT_(ANF_TIR_, type), #x, ANF_E(b, value))
#define ANF_TENSOR(b, A, type, ...)                                                                \
  anf_tir_expr A =                                                                                 \
      anf_tb_tensor((b), ANF_TB_CAT_(ANF_TIR_, type), #A,                                          \
                    sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[]){__VA_ARGS__})
#define ANF_SET(b, to, value)                         anf_tb_assign((b), (to), ANF_E(b, value))
#define ANF_RETURN(b, value)                          anf_tb_return((b), ANF_E(b, value))
#define ANF_RETURN_VOID(b)                            anf_tb_return((b), NULL)
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
  (n), (const anf_tir_expr[]) { ANF_TB_CAT(ANF_TB_CAT(ANF_TB_E, n), _)(b, __VA_ARGS__) }
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
