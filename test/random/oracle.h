// SPDX-License-Identifier: Apache-2.0
/* One program, every engine: values, refusals and printed text must be the interpreter's.
 *
 *     oracle *o = oracle_new();
 *     oracle_try(o, "def main(x: f64) { f = Sin; f(x, x) }", 1, args, ORACLE_ALL);    // 0: all agree
 *
 * The graphs that are read must be whole. An engine may refuse as unsupported, or for a limit, what another runs: such programs are counted. */
#ifndef TEST_ORACLE_H
#define TEST_ORACLE_H

#include "anfora/anfora.h"

/* The second to last three run what is made anew by the functions of anfora/ir.h (rebuild.h), in place of what was read; the last
 * what the pipeline "standard" made of what was read, which compiling then optimises once more. */
enum {
  ORACLE_INTERP,
  ORACLE_TIR,
  ORACLE_LLVM_O0,
  ORACLE_LLVM,
  ORACLE_CJIT,
  ORACLE_BUILT,
  ORACLE_BUILT_TIR,
  ORACLE_BUILT_LLVM,
  ORACLE_STANDARD_TIR,
  ORACLE_ENGINES
};
enum {
  ORACLE_ALL = (1 << ORACLE_ENGINES) - 1,
  ORACLE_FAST = 1 << ORACLE_INTERP | 1 << ORACLE_TIR | 1 << ORACLE_BUILT
};

typedef struct oracle {
  anf_ctx *cx;
  anf_diag *d;
  anf_jit_engine *engine[ORACLE_ENGINES];
  size_t tried, ran, refused, unsupported, differ; // programs
  size_t pairs, values;                            // of oracle_equal, and those that have a value
  size_t shown;                                    // of those that differ, in full
  bool
      several; // programs have several errors: a compiler finds those of types before it runs, in any branch
  size_t earlier;
  size_t unused;        // an error is in a value that nothing uses
  const char *function; // that is run; NULL: main
  anf_value *callee;    // borrowed: run in place of a function of the text
  uint64_t max_steps;   // of the interpreter; 0: a million
} oracle;

oracle *oracle_new(void); // NULL with the reason on standard error
void oracle_free(oracle *o);

/* Runs the function of the text by the engines of a set of bits, the interpreter always. Whatever differs is printed as
 * a TAP comment; the number of engines that differ is returned. */
int oracle_try(oracle *o, const char *text, size_t n, anf_value *const *args, unsigned engines);

/* Does the interpreter refuse the program with this code? */
bool oracle_refuses(oracle *o, const char *text, size_t n, anf_value *const *args,
                    const char *code);

/* The same for two texts that mean the same, by one engine. Places may differ. */
bool oracle_equal(oracle *o, const char *text, const char *variant, size_t n,
                  anf_value *const *args, int engine);

#endif
