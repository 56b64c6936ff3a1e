// SPDX-License-Identifier: Apache-2.0
/* Rewrite rules as data: a pattern, a template and guards, in s-expressions.
 *
 *   (Add x 0)         an op and its arguments; a number matches a constant full of it
 *   x                 a variable; the same name twice must be the same node (or equal constants)
 *   c:const           a variable that must be a constant
 *   (Sum x :axis a)   an attribute; its variable binds the value, for the template too; attributes that
 *                     are not named must be at their defaults
 *   "int x, one_use y"   guards of guard.def on variables, all must hold; `root` is the whole match;
 *                     `exact_or_fast x` makes two rules of a row
 *
 * LAWS: a rule keeps the type (the engine refuses it otherwise); the right side is never dearer;
 * commuted forms of a commutative op are matched by themselves, no twins; floats that
 * change bits need `fast`, or `sums` where the order of an op's sums is its own affair (Einsum). Rewriting ends because each rule lowers (cost, number of nodes, name
 * order).
 *
 * Compiled once for each context, some 200 ns a rule, and indexed by root op. */
#ifndef ANFI_RULE_H
#define ANFI_RULE_H

#include "optimizer/opt.h"

enum { ANFI_RULE_VARS = 12, ANFI_RULE_GUARDS = 6 };

typedef enum anfi_pat_kind {
  ANFI_PAT_OP,
  ANFI_PAT_VAR,
  ANFI_PAT_CONST_VAR,
  ANFI_PAT_NUMBER
} anfi_pat_kind;

typedef struct anfi_pat anfi_pat;
struct anfi_pat {
  anfi_pat_kind kind;
  int var;       // of a variable
  double number; // of a number
  /* of an op */
  anfi_opcode op;
  uint32_t n;
  anfi_pat **in;
  bool twins; // the first two are one variable
  uint32_t nattr;
  struct {
    uint32_t index;   // in the op's schema
    int var;          // binds or uses the value; or -1 and
    anf_value *value; // a constant
  } attr[4];
};

/* Of a rule with `nvar` variables; beyond them nothing is set. */
typedef struct anfi_match {
  anf_node *root;
  uint32_t nvar;
  anf_node *var[ANFI_RULE_VARS];
  anf_value *value[ANFI_RULE_VARS]; // of attribute variables
} anfi_match;

/* Builds the replacement of the match, or returns NULL to decline. */
struct anfi_rewriter;
typedef anf_node *(*anfi_rule_fn)(struct anfi_rewriter *, const anfi_match *);

typedef struct anfi_rule_row { // a row of rules/*.def
  const char *name, *lhs, *rhs, *guards;
  anfi_rule_fn fn;
  const char *file;
} anfi_rule_row;
extern const anfi_rule_row anfi_rule_rows[];
extern const size_t anfi_nrules;

typedef struct anfi_guard_call {
  bool (*holds)(struct anfi_rewriter *, const anfi_match *, const int *vars);
  int vars[3]; // -1: root
  bool root;   // it reads nothing but the root
} anfi_guard_call;

typedef struct anfi_rule {
  /* the rule */
  const anfi_rule_row *row;
  anfi_pat *lhs, *rhs;
  uint32_t nguard;
  anfi_guard_call guard[ANFI_RULE_GUARDS];
  /* where it applies */
  bool fast;        // only when floats may be reassociated
  bool sums;        // products are summed in another order, which is the op's own affair
  bool exact;       // not where result and operands are all of one type of floats
  uint32_t dropped; // bit set of variables that the template leaves out
  uint32_t nvar;
} anfi_rule;

/* A rule of an op, and what it needs among the inputs of a node: constants, results of some op, or
 * twice the same. Most rules are refused by comparing that with what the node has, one bit set with
 * another. */
typedef struct anfi_rule_of_op {
  uint64_t needs;
  const anfi_rule *rule;
} anfi_rule_of_op;

typedef struct anfi_ruleset {
  anfi_rule *rules;
  size_t n;
  struct {
    ANFI_VEC(anfi_rule_of_op) all, free; // free: those that need nothing
    uint64_t needs;                      // of any of them
  } by_op[ANF_OP_COUNT];
} anfi_ruleset;

/* Bit 0: a constant; another: a result of the op, or of one that shares its bit. */
static inline uint64_t anfi_rule_bit(bool constant, uint32_t op) {
  return UINT64_C(1) << (constant ? 0 : 1 + op % 60);
}
#define ANFI_RULE_OPS ((UINT64_C(1) << 61) - 2)
/* Floats may be reassociated; result and operands are not all of one type of floats. */
#define ANFI_RULE_FAST  (UINT64_C(1) << 61)
#define ANFI_RULE_EXACT (UINT64_C(1) << 62)
/* The first two inputs are the same. */
#define ANFI_RULE_TWINS (UINT64_C(1) << 63)

/* Parts of what a node of type t has: by its type, an input, the first two inputs. */
static inline uint64_t anfi_rule_type(const anf_type *t) {
  return t && t->kind == ANF_TYPE_TENSOR && t->varies ? 0 : ANFI_RULE_EXACT;
}
static inline uint64_t anfi_rule_input(const anf_type *t, const anf_node *x) {
  uint64_t bit = anfi_rule_bit(x->kind == ANFI_VALUE, x->op);
  return x->type == t ? bit : bit | ANFI_RULE_EXACT;
}
static inline uint64_t anfi_rule_twins(const anf_node *a, const anf_node *b) {
  bool alike = a == b || (a->kind == ANFI_VALUE && b->kind == ANFI_VALUE); // equal numbers, perhaps
  return alike ? ANFI_RULE_TWINS : 0;
}
static inline uint64_t anfi_rule_has(const anf_type *t, size_t n, anf_node *const *in) {
  uint64_t has = anfi_rule_type(t);
  for (size_t i = 0; i < n; i++) has |= anfi_rule_input(t, in[i]);
  return n >= 2 ? has | anfi_rule_twins(in[0], in[1]) : has;
}

/* parse.c: all rules, parsed once for each context; a row that does not parse is an internal
 * error that names it: NULL */
const anfi_ruleset *anfi_rules(anf_ctx *cx);
/* One row. With the guard `exact_or_fast x` a row is two rules: one with `exact x`, and the one for `fast`. */
bool anfi_rule_has_fast(const anfi_rule_row *row);
bool anfi_rule_parse(anf_ctx *cx, anfi_arena *a, const anfi_rule_row *row, bool fast,
                     anfi_rule *out);

/* rewrite.c */
enum { ANFI_RULE_KNOWN = 256 };
typedef struct anfi_rule_known { // does any rule of the op ask for no more than that?
  uint64_t has;
  uint32_t op; // 1 more
  bool any;
} anfi_rule_known;
typedef struct anfi_rewriter {
  anfi_pass *pass;
  anf_module *m;
  anfi_arena *arena;
  const anfi_ruleset *set;
  ANFI_VEC(anf_node *) todo;
  uint32_t *fired; // by rule, for --trace and tests
  anfi_rule_known known[ANFI_RULE_KNOWN];
} anfi_rewriter;
/* Applies all rules until none fires. */
bool anfi_opt_simplify(anfi_pass *p);
/* A node without attributes for which no rule fires now, and that equals no other where that was easy
 * to see: then the passes need not look at it, but for what of->todo says. Or one that was there and
 * equals it. r needs only the module, the set and a pass; `has` is what anfi_rule_has says. For what
 * makes many nodes. */
anf_node *anfi_make_clean(anfi_rewriter *r, const anfi_apply_of *of, size_t n, anf_node *const *in,
                          uint64_t has);
/* A node with its type inferred; folds nothing. For templates and hooks. */
anf_node *anfi_rewrite_apply(anfi_rewriter *r, anf_node *near, anfi_opcode op,
                             const anfi_attrs *attrs, size_t n, anf_node *const *in);
anf_node *anfi_rewrite_const(anfi_rewriter *r, anf_value *v); // takes the reference
/* Are they one node, or equal constants? So a variable of a rule is met twice. */
bool anfi_rewrite_same(const anf_node *a, const anf_node *b);
/* A constant like `like` full of x. */
anf_node *anfi_rewrite_number(anfi_rewriter *r, const anf_type *like, double x);
/* shape.c */
anf_node *anfi_rewrite_transpose(anfi_rewriter *r, anf_node *near, anf_node *x, const int64_t *perm,
                                 uint32_t n); // x itself if it stays as it is
anf_node *anfi_rewrite_matmul(anfi_rewriter *r, anf_node *near, anf_node *a, bool ta, anf_node *b,
                              bool tb);
/* Tries one rule at one node; the replacement, or NULL. For tests of single rules. */
anf_node *anfi_rule_try(anfi_rewriter *r, const anfi_rule *rule, anf_node *n);

// Hooks that rows of the rules name.
#define ANF_RULE(name, lhs, rhs, guards)
#define ANF_RULE_FN(name, lhs, hook, guards) anf_node *hook(anfi_rewriter *r, const anfi_match *m);
#include "optimizer/rules/all.def"
#undef ANF_RULE
#undef ANF_RULE_FN

#endif
