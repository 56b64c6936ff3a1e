// SPDX-License-Identifier: Apache-2.0
/* Tensor IR as C11 source, inside.
 *
 * INVARIANT: the C program computes the interpreter's results, bit for bit, and is free of
 * undefined behaviour: integers wrap through unsigned types, divisors are checked, memory is
 * reached through types that may alias. INVARIANT: an expression with an effect is a statement of
 * its own, so that C's order of evaluation never shows. INVARIANT: text nests no deeper than
 * MAX_NEST, which compilers limit. */
#ifndef ANFI_C_H
#define ANFI_C_H

#include "anfora/build.h"
#include "backend/jit/jit.h"

/* The names of a function in C. */
typedef struct cfunc {
  const char *natural; // as hosts call it
  const char *impl;    // takes stream and data first
  const char *wrapper; // with generic arguments; NULL: none
} cfunc;

typedef struct cgen {
  anf_ctx *cx;
  anfi_arena *a;
  const tmod *m;
  const anf_c_opts *o;
  const anfi_jit_aot *aot;   // NULL: not for an object
  const anfi_jit_need *need; // by index in the module
  /* text */
  anf_text *out;         // of the current function
  anf_text *helper;      // helper functions and types of lanes, in order of need
  anf_text *head, *code; // prototypes, functions
  anf_text *body, *tmp;  // statements of the current function; for a moment
  uint32_t indent, temps, line;
  /* names */
  const char *prefix;
  anfi_strtab names;
  anfi_map taken; // C name → 1: means something everywhere in the file
  anfi_map local; // C name → 1 in the current function
  anfi_map have;  // helper name → 1
  /* the current function */
  cfunc *func; // all of them, by index in the module
  tfunc f;
  anfi_map shown;   // variable or tensor → C name
  anfi_map strides; // tensor → const char ** of its strides, in elements
  anfi_map effect;  // expression → 1 none, 2 has one
  const char *top;  // label of its start, for tail calls; NULL: they are calls
  bool traps;       // it may
} cgen;

enum { MAX_NEST = 32 };

/* names.c: a name stays as it is if it is an identifier of C that nothing else has */
void anfi_c_names_init(cgen *c); // names functions, in their order
/* Can a host's C program have a function of this name: is it an identifier that C, its headers and
 * the printed file leave free? */
bool anfi_c_name_is_free(anf_ctx *cx, const char *name);
const char *anfi_c_func(cgen *c, const anfi_str *name);
const char *anfi_c_local_name(cgen *c, const char *name);

/* value.c: types, constants and operations as text */
const char *anfi_c_type(cgen *c, tdtype d);
const char *anfi_c_elem(const cgen *c, texpr tensor); // of what a tensor holds
const char *anfi_c_constant(cgen *c, texpr e);
const char *anfi_c_lane(cgen *c, tdtype d, uint64_t bits);
/* Scalars or lanes alike. `at` says where, if it traps: anfi_c_at. */
const char *anfi_c_bin(cgen *c, tkind k, tdtype d, const char *a, const char *b, const char *at);
bool anfi_c_bin_traps(tkind k, tdtype d,
                      const char *b); // does it need `at`? b: the text of the right side
const char *anfi_c_at(cgen *c, uint32_t line, uint32_t col);
const char *anfi_c_cast(cgen *c, tdtype to, tdtype from, const char *x);
const char *anfi_c_convert(cgen *c, tintrin i, tdtype to, tdtype from, const char *x);
const char *anfi_c_math(cgen *c, tintrin i, tdtype d, uint32_t n, const char *const *in);
const char *anfi_c_not(cgen *c, tdtype d, const char *x);

/* helper.c: functions that the text needs, printed once each */
/* Begins the helper unless it is there; the caller then appends its text to c->helper. */
bool anfi_c_helper(cgen *c, const char *name);
const char *anfi_c_to_int(cgen *c, tdtype to);    // name of a function of double
const char *anfi_c_of_half(cgen *c, tdtype from); // name: f16 or bf16 to f32
const char *anfi_c_to_half(cgen *c, tdtype to);   // name: of double
/* name: bits of a float as an unsigned integer, and back */
const char *anfi_c_bits_of(cgen *c, tdtype d);
const char *anfi_c_of_bits(cgen *c, tdtype d);
const char *anfi_c_int_op(cgen *c, const char *op, tdtype d); // anf_add_s32 and such
const char *anfi_c_clamp(cgen *c, tdtype to, tdtype from);
const char *anfi_c_min_max(cgen *c, tintrin i, tdtype d);
const char *anfi_c_poll(cgen *c);                                  // whether the stream is to stop
const char *anfi_c_check(cgen *c, texpr e, const char *const *in); // of anf_rt_check, in place
const char *anfi_c_trip(cgen *c, tdtype d); // trip count of a loop of (begin, end, step, where)

/* lanes.c: vectors and tiles, structures of their lanes */
bool anfi_c_is_lanes(tdtype d);
const char *anfi_c_lanes_type(cgen *c, tdtype d);
/* name: result lane k is what `lane` says of a.v[k], b.v[k], c.v[k] */
const char *anfi_c_lanewise(cgen *c, const char *name, tdtype ret, uint32_t n, const tdtype *in,
                            const char *lane, bool traps);
const char *anfi_c_splat(cgen *c, tdtype d);
const char *anfi_c_load(cgen *c, tdtype d, bool masked, bool store);
const char *anfi_c_lanes_intrin(cgen *c, texpr e, const char *const *in);
const char *anfi_c_select_lanes(cgen *c, texpr e, const char *const *in);

/* gemm.c */
const char *anfi_c_gemm(cgen *c, texpr e, const char *const *in);

/* expr.c */
const char *anfi_c_expr(cgen *c, texpr e);   // may print statements that come before
const char *anfi_c_root(cgen *c, texpr e);   // the whole of a statement: a call stays in it
const char *anfi_c_stable(cgen *c, texpr e); // text that stays true whatever runs before its use
bool anfi_c_needs_stmts(cgen *c, texpr e);
const char *anfi_c_temp(cgen *c, tdtype d, const char *value);
const char *anfi_c_name(cgen *c, texpr v);

const char *anfi_c_store(cgen *c, texpr to, const char *value); // a settled value

const char *anfi_c_list(cgen *c, uint32_t n, const char *const *in); // "a, b"

/* stmt.c */
void anfi_c_line(cgen *c); // begins a line
void anfi_c_body(cgen *c, tfunc f, const anfi_jit_need *need);
const char *anfi_c_declaration(cgen *c, texpr v, const char *name); // of a variable or parameter

/* module.c */
const char *anfi_c_prototype(cgen *c, tfunc f);
/* The names of a printed module in C. */
typedef struct anfi_c_names {
  cfunc *func;      // by place in the module; natural NULL: none
  const char *data; // variable that points to the first instance's data
  const char *init; // wrapper of __tir_init, or NULL
} anfi_c_names;
/* Prints a module whose functions take stream and data first, as module_globals_resolver leaves it.
 * `names`, in the scratch arena, may be NULL. */
bool anfi_c_print(anf_ctx *cx, const anfi_jit_lowered *l, const anf_c_opts *o, anf_text *out,
                  anfi_c_names *names);
/* header.c: the header of the object file of l->aot. `given` is the module as it was made, whose
 * parameters have names and dims. */
typedef struct anfi_c_doc {
  const char *text;   // of the comment above the function
  uint32_t nin;       // how many parameters come before those that results go to
  const char **name;  // of all parameters in C, or NULL: as in the module
  const char **note;  // what each tensor parameter holds, or NULL: as in the module
  const char *before; // declarations above the comment, or NULL
  /* Says itself how hosts call the function; NULL: by its natural form, by slots and on a stream. */
  void (*put)(cgen *c, tfunc f, uint32_t flags, const struct anfi_c_doc *doc);
  const void *user;
  const void *low; // the lowered program, for `put`
  size_t nsize;    // how many of the first parameters are sizes of dims
} anfi_c_doc;
/* Types of hosts: "float", and the member of anf_generic for it, "f32" */
const char *anfi_c_host_type(tdtype d);
const char *anfi_c_slot(tdtype d);
bool anfi_c_header(anf_ctx *cx, const anfi_jit_lowered *l, const tmod *given, const char *title,
                   const anfi_c_doc *doc, anf_text *out);
bool anfi_c_is_cpp_word(const char *s);

#endif
