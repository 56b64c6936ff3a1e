// SPDX-License-Identifier: Apache-2.0
/* Reads rules.
 *   "(Add x 0)" -> "x"    a pattern {Add, {variable 0, number 0}}, and one bit set of the ops to look for
 * Rules are part of the program, so a mistake in one is an internal error: E0001. */
#include "optimizer/rules/rule.h"

#include <stdlib.h>

const anfi_rule_row anfi_rule_rows[] = {
#define ANF_RULE(name, lhs, rhs, guards)   {#name, lhs, rhs, guards, NULL, RULE_FILE},
#define ANF_RULE_FN(name, lhs, fn, guards) {#name, lhs, NULL, guards, fn, RULE_FILE},
#include "optimizer/rules/all.def"
#undef ANF_RULE
#undef ANF_RULE_FN
};
const size_t anfi_nrules = ANFI_LEN(anfi_rule_rows);

static bool has_static_shape(const anf_type *t) {
  size_t n;
  return anfi_type_elements(t, &n);
}

/* A constant may have come without a type on its node. */
static const anf_type *type_of(const anf_node *n) {
  bool held = !n->type && n->kind == ANFI_VALUE && n->u.value->kind == ANF_VALUE_TENSOR;
  return held ? n->u.value->type : n->type;
}

#define ANF_GUARD(name, nvar, cond)                                                                \
  static bool guard_##name(anfi_rewriter *r, const anfi_match *m, const int *v) {                  \
    anf_node *a = v[0] < 0 ? m->root : m->var[v[0]], *b = nvar < 2   ? a                           \
                                                          : v[1] < 0 ? m->root                     \
                                                                     : m->var[v[1]];               \
    const anf_type *ta = type_of(a), *tb = type_of(b);                                             \
    (void)r, (void)ta, (void)tb;                                                                   \
    return cond;                                                                                   \
  }
#include "optimizer/rules/guard.def"
#undef ANF_GUARD

static const struct {
  const char *name;
  uint32_t nvar;
  bool (*holds)(anfi_rewriter *, const anfi_match *, const int *);
} guards[] = {
#define ANF_GUARD(name, nvar, cond) {#name, nvar, guard_##name},
#include "optimizer/rules/guard.def"
#undef ANF_GUARD
};

typedef struct {
  /* text */
  anf_ctx *cx;
  anfi_arena *a;
  const anfi_rule_row *row;
  const char *at;
  /* variables */
  uint32_t nvar;
  const char *name[ANFI_RULE_VARS]; // of variables, not terminated
  size_t len[ANFI_RULE_VARS];
  /* result */
  bool good;
  bool fast; // take `exact_or_fast` for `fast`
} reader;

static void *bad(reader *r, const char *why) {
  if (r->good)
    anfi_fail(r->cx, anfi_nowhere(), ANF_E0001,
              anfi_sprintf(r->a, "rule %s: %s at '%.20s'", r->row->name, why, r->at));
  r->good = false;
  return NULL;
}

static void skip_space(reader *r) {
  while (*r->at == ' ' || *r->at == '\n') r->at++;
}
static size_t word_length(const char *s) { return strcspn(s, " ()\n,"); }

static int variable(reader *r, const char *s, size_t len, bool defines) {
  for (uint32_t i = 0; i < r->nvar; i++)
    if (r->len[i] == len && memcmp(r->name[i], s, len) == 0) return (int)i;
  if (!defines || r->nvar == ANFI_RULE_VARS) return bad(r, "unknown or too many variables"), 0;
  r->name[r->nvar] = s;
  r->len[r->nvar] = len;
  return (int)r->nvar++;
}

static bool is_number(const char *s) {
  return (*s >= '0' && *s <= '9') || (*s == '-' && s[1] >= '0' && s[1] <= '9') ||
         strncmp(s, "inf", 3) == 0;
}

static void read_attr(reader *r, anfi_pat *p, bool defines) {
  size_t len = word_length(++r->at);
  char *name = anfi_strndup(r->a, r->at, len);
  int k = anfi_attr_index(r->cx, p->op, name);
  r->at += len;
  skip_space(r);
  if (k < 0 || p->nattr == ANFI_LEN(p->attr)) {
    bad(r, "no such attribute");
    return;
  }
  len = word_length(r->at);
  p->attr[p->nattr].index = (uint32_t)k;
  p->attr[p->nattr].var = -1;
  bool truth = len == 4 && memcmp(r->at, "true", 4) == 0,
       lie = len == 5 && memcmp(r->at, "false", 5) == 0;
  if (truth || lie) p->attr[p->nattr].value = anfi_value_new_i64(r->cx, ANF_BOOL, truth);
  else if (is_number(r->at))
    p->attr[p->nattr].value = anfi_value_new_i64(r->cx, ANF_INT, strtoll(r->at, NULL, 10));
  else p->attr[p->nattr].var = variable(r, r->at, len, defines);
  anf_value **value = &p->attr[p->nattr++].value;
  if (*value) *value = anfi_value_keep(*value);
  r->at += len;
}

static anfi_pat *read_atom(reader *r, bool defines) {
  anfi_pat *p = ANFI_NEW(r->a, anfi_pat);
  size_t len = word_length(r->at);
  const char *colon = (const char *)memchr(r->at, ':', len);
  if (is_number(r->at)) {
    p->kind = ANFI_PAT_NUMBER;
    p->number = anfi_read_f64(r->at, NULL);
  } else {
    p->kind = colon ? ANFI_PAT_CONST_VAR : ANFI_PAT_VAR;
    p->var = variable(r, r->at, colon ? (size_t)(colon - r->at) : len, defines);
  }
  r->at += len;
  return p;
}

static bool are_twins(const anfi_pat *a, const anfi_pat *b) {
  return a->kind == ANFI_PAT_VAR && b->kind == ANFI_PAT_VAR && a->var == b->var;
}

/* Patterns are a few levels deep: this recursion is bounded by the rules' own text. */
static anfi_pat *read_pattern(reader *r, bool defines) {
  skip_space(r);
  if (*r->at != '(') return read_atom(r, defines);
  anfi_pat *p = ANFI_NEW(r->a, anfi_pat), *in[16];
  size_t len = word_length(++r->at);
  p->op = anfi_op_find(r->cx, r->at, len);
  if (p->op == ANF_OP_NONE) return (anfi_pat *)bad(r, "no such op");
  r->at += len;
  for (skip_space(r); *r->at && *r->at != ')' && r->good; skip_space(r)) {
    if (*r->at == ':') read_attr(r, p, defines);
    else if (p->n == ANFI_LEN(in)) return (anfi_pat *)bad(r, "too many arguments");
    else in[p->n++] = read_pattern(r, defines);
  }
  if (*r->at != ')') return (anfi_pat *)bad(r, "expected )");
  r->at++;
  p->in = ANFI_NEW_N(r->a, anfi_pat *, p->n);
  if (p->n) memcpy(p->in, in, p->n * sizeof *in);
  p->twins = r->good && p->n >= 2 && are_twins(in[0], in[1]);
  return p;
}

static const char EITHER[] = "exact_or_fast";

/* Is it the root (-1), or a variable that is an operand of the root? */
static bool is_operand(const anfi_pat *lhs, int var) {
  for (uint32_t i = 0; var >= 0 && i < lhs->n; i++)
    if (lhs->in[i]->kind == ANFI_PAT_VAR && lhs->in[i]->var == var) return true;
  return var < 0;
}

static bool read_guard(reader *r, anfi_rule *rule) {
  skip_space(r);
  size_t len = word_length(r->at);
  if (len == 4 && memcmp(r->at, "fast", 4) == 0) {
    rule->fast = true;
    r->at += len;
    return true;
  }
  if (len == 4 && memcmp(r->at, "sums", 4) == 0) {
    rule->sums = true;
    r->at += len;
    return true;
  }
  bool either = len == strlen(EITHER) && memcmp(r->at, EITHER, len) == 0;
  if (either && r->fast) {
    rule->fast = true;
    r->at += strcspn(r->at, ",");
    return true;
  }
  for (size_t i = 0; i < ANFI_LEN(guards); i++) {
    bool named = strlen(guards[i].name) == len && memcmp(guards[i].name, r->at, len) == 0;
    bool exact = strcmp(guards[i].name, "exact") == 0;
    if (!named && !(either && exact)) continue;
    if (rule->nguard == ANFI_LEN(rule->guard)) break;
    anfi_guard_call *g = &rule->guard[rule->nguard++];
    g->holds = guards[i].holds;
    g->root = guards[i].nvar == 1;
    r->at += len;
    for (uint32_t k = 0; k < guards[i].nvar; k++) {
      skip_space(r);
      size_t n = word_length(r->at);
      bool root = n == 4 && memcmp(r->at, "root", 4) == 0;
      g->vars[k] = root ? -1 : variable(r, r->at, n, false);
      g->root &= root;
      r->at += n;
    }
    if (exact) rule->exact |= is_operand(rule->lhs, g->vars[0]);
    return r->good;
  }
  return bad(r, "no such guard") != NULL;
}

/* The variables of a pattern, as a bit set; as deep as the pattern. */
static uint32_t variables(const anfi_pat *p) {
  if (p->kind == ANFI_PAT_VAR || p->kind == ANFI_PAT_CONST_VAR) return 1u << p->var;
  uint32_t set = 0;
  for (uint32_t i = 0; i < p->n; i++) set |= variables(p->in[i]);
  return set;
}

static bool read_rule(reader *r, anfi_rule *rule) {
  const anfi_rule_row *row = rule->row = r->row;
  r->at = row->lhs;
  rule->lhs = read_pattern(r, true);
  if (row->rhs) {
    r->at = row->rhs;
    rule->rhs = read_pattern(r, false);
  }
  for (r->at = row->guards; r->good && *r->at; r->at += *r->at == ',') {
    if (!read_guard(r, rule)) return false;
    skip_space(r);
  }
  rule->nvar = r->nvar;
  if (r->good && rule->rhs) rule->dropped = variables(rule->lhs) & ~variables(rule->rhs);
  if (r->good && rule->lhs->kind != ANFI_PAT_OP) bad(r, "the pattern must start with an op");
  return r->good;
}

bool anfi_rule_has_fast(const anfi_rule_row *row) { return strstr(row->guards, EITHER) != NULL; }

bool anfi_rule_parse(anf_ctx *cx, anfi_arena *a, const anfi_rule_row *row, bool fast,
                     anfi_rule *out) {
  reader r = {.cx = cx, .a = a, .row = row, .good = true, .fast = fast};
  return read_rule(&r, out);
}

static uint64_t needs(const anfi_rule *rule) {
  const anfi_pat *lhs = rule->lhs;
  uint64_t bits = (rule->fast ? ANFI_RULE_FAST : 0) | (rule->exact ? ANFI_RULE_EXACT : 0);
  for (uint32_t i = 0; i < lhs->n; i++) {
    const anfi_pat *p = lhs->in[i];
    if (p->kind != ANFI_PAT_VAR) bits |= anfi_rule_bit(p->kind != ANFI_PAT_OP, p->op);
  }
  return lhs->twins ? bits | ANFI_RULE_TWINS : bits;
}

static void index_rule(anfi_arena *a, anfi_ruleset *set, const anfi_rule *rule) {
  anfi_rule_of_op of = {needs(rule), rule};
  anfi_push(a, &set->by_op[rule->lhs->op].all, of);
  if (!of.needs) anfi_push(a, &set->by_op[rule->lhs->op].free, of);
  set->by_op[rule->lhs->op].needs |= of.needs;
}

const anfi_ruleset *anfi_rules(anf_ctx *cx) {
  anfi_arena *a = &cx->arena;
  if (cx->rules) return cx->rules;
  anfi_ruleset *set = ANFI_NEW(a, anfi_ruleset);
  set->rules = ANFI_NEW_N(a, anfi_rule, 2 * anfi_nrules);
  for (size_t i = 0; i < anfi_nrules; i++)
    for (int fast = 0; fast <= anfi_rule_has_fast(&anfi_rule_rows[i]); fast++) {
      anfi_rule *rule = &set->rules[set->n++];
      if (!anfi_rule_parse(cx, a, &anfi_rule_rows[i], fast, rule)) return NULL;
      index_rule(a, set, rule);
    }
  return cx->rules = set;
}
