// SPDX-License-Identifier: Apache-2.0
/* Pipelines: parsed to a flat list of steps, then run step by step.
 *
 *   "(simplify cse)* dce"   →   OPEN  simplify  cse  CLOSE  dce
 *
 * CLOSE goes back to its OPEN while a round rewrites something. A pass that found nothing to do is
 * left out until something is rewritten. */
#include "base/pass.h"

typedef enum { STEP_PASS, STEP_OPEN, STEP_CLOSE } step_kind;
typedef struct {
  step_kind kind;
  size_t pass;
  size_t open;       // of CLOSE: its OPEN
  uint64_t rewrites; // of OPEN: the count when the round began
  uint64_t ending;   // likewise, of passes that end
} step;

typedef struct {
  anf_ctx *cx;
  const anfi_pass_set *set;
  anfi_arena *a;
  ANFI_VEC(step) steps;
  ANFI_VEC(size_t) open;
  size_t unverified; // 1 + the pass that ran last, if nothing was verified after it
} plan;

enum { MAX_EXPANSION = 8, MAX_ROUNDS = 32 };

/* ---- parsing ---- */

static const char *any_name(void *user, size_t i) {
  const anfi_pass_set *s = (const anfi_pass_set *)user;
  if (i < s->npass) return s->pass[i].name;
  return i - s->npass < s->npipeline ? s->pipeline[i - s->npass].name : NULL;
}

static bool parse(plan *p, const char *text, int depth);

static bool parse_word(plan *p, const char *w, size_t len, int depth) {
  const anfi_pass_set *set = p->set;
  const char *word = anfi_strndup(p->a, w, len);
  for (size_t i = 0; i < set->npass; i++)
    if (strcmp(set->pass[i].name, word) == 0) {
      anfi_push(p->a, &p->steps, ((step){.kind = STEP_PASS, .pass = i}));
      return true;
    }
  for (size_t i = 0; i < set->npipeline; i++)
    if (strcmp(set->pipeline[i].name, word) == 0 && depth < MAX_EXPANSION)
      return parse(p, set->pipeline[i].text, depth + 1);
  anfi_fail(p->cx, anfi_nowhere(), ANF_E0601, word);
  anfi_suggest(p->cx, word, any_name, (void *)(uintptr_t)set);
  return false;
}

static bool parse(plan *p, const char *s, int depth) {
  size_t outer = p->open.n;
  while (*s) {
    size_t len = strcspn(s, " ,\t\n()");
    if (len) {
      if (!parse_word(p, s, len, depth)) return false;
      s += len;
    } else if (*s == '(') {
      anfi_push(p->a, &p->open, p->steps.n);
      anfi_push(p->a, &p->steps, ((step){.kind = STEP_OPEN}));
      s++;
    } else if (*s == ')') {
      if (p->open.n == outer || s[1] != '*') return anfi_fail(p->cx, anfi_nowhere(), ANF_E0602, s);
      anfi_push(p->a, &p->steps, ((step){.kind = STEP_CLOSE, .open = p->open.at[--p->open.n]}));
      s += 2;
    } else s++;
  }
  return p->open.n == outer || anfi_fail(p->cx, anfi_nowhere(), ANF_E0602, "");
}

/* ---- running ---- */

/* Reports the first property that the pass needs and the module lacks, and who makes it. */
static bool check_needs(anfi_pass_run *r, const anfi_pass_info *pass) {
  uint32_t lacks = pass->need & ~r->have;
  if (!lacks) return true;
  uint32_t bit = 0;
  while (!(lacks >> bit & 1)) bit++;
  anfi_fail(r->cx, anfi_nowhere(), ANF_E0603, pass->name, r->set->property[bit]);
  for (size_t i = 0; i < r->set->npass; i++)
    if (r->set->pass[i].make >> bit & 1) anfi_hint(r->cx, "run %s before it", r->set->pass[i].name);
  return false;
}

bool anfi_pass_is_settled(const anfi_pass_run *r, size_t pass) {
  return r->unchanged[pass] == r->rewrites + 1;
}

/* A pass with properties to make may change the module without counting a rewrite. */
static void note_unchanged(anfi_pass_run *r, size_t pass, uint64_t before) {
  const anfi_pass_info *row = &r->set->pass[pass];
  if (row->make) memset(r->unchanged, 0, r->set->npass * sizeof *r->unchanged);
  else r->unchanged[pass] = row->once || before == r->rewrites ? r->rewrites + 1 : 0;
}

static bool verify_now(anfi_pass_run *r, plan *p, size_t pass) {
  p->unverified = 0;
  if (r->verify(r, pass)) return true;
  anfi_note(r->cx, anfi_nowhere(), "after the pass '%s'", r->set->pass[pass].name);
  return false;
}

/* A build that checks everything leaves out passes that say that they changed nothing, until
 * the end. */
static bool verify(anfi_pass_run *r, plan *p, size_t pass, bool changed) {
  if (r->verify_each || (ANFI_VERIFY && changed)) return verify_now(r, p, pass);
  if (ANFI_VERIFY) p->unverified = pass + 1;
  return true;
}

static bool run_pass(anfi_pass_run *r, plan *p, size_t pass) {
  const anfi_pass_info *row = &r->set->pass[pass];
  if (!check_needs(r, row)) return false;
  uint64_t before = r->rewrites, start = anfi_os_now_ns();
  uint32_t had = r->have;
  if (!(row->idle & r->have) && !r->run(r, pass)) return false;
  if (r->rewrites != before) r->have &= ~row->kill;
  r->have |= row->make;
  if (row->ends) r->ending += r->rewrites - before;
  uint64_t ns = anfi_os_now_ns() - start;
  note_unchanged(r, pass, before);
  if (!verify(r, p, pass, r->rewrites != before || r->have != had)) return false;
  r->after(r, pass, ns, r->rewrites - before);
  return anfi_go_on(r->cx, row->name, 0.0);
}

/* At the end of a group: the step to go on from. Rounds with a rewrite of a pass that ends are not limited. */
static size_t close_group(anfi_pass_run *r, plan *p, size_t at, size_t *rounds) {
  step *open = &p->steps.at[p->steps.at[at].open];
  if (r->ending != open->ending) rounds[at] = 0;
  bool again = r->rewrites != open->rewrites && ++rounds[at] < MAX_ROUNDS;
  open->rewrites = r->rewrites;
  open->ending = r->ending;
  if (!again) rounds[at] = 0;
  return again ? p->steps.at[at].open : at;
}

bool anfi_run_pipeline(anfi_pass_run *r, const char *text) {
  plan p = {.cx = r->cx, .set = r->set, .a = anfi_scratch(r->cx)};
  if (!parse(&p, text, 0)) return false;
  size_t *rounds = ANFI_NEW_N(p.a, size_t, p.steps.n);
  r->unchanged = ANFI_NEW_N(p.a, uint64_t, r->set->npass);
  for (size_t i = 0; i < p.steps.n; i++) {
    step *s = &p.steps.at[i];
    if (s->kind == STEP_OPEN) s->rewrites = r->rewrites, s->ending = r->ending;
    else if (s->kind == STEP_CLOSE) i = close_group(r, &p, i, rounds);
    else if (!anfi_pass_is_settled(r, s->pass) && !run_pass(r, &p, s->pass)) return false;
  }
  return !p.unverified || verify_now(r, &p, p.unverified - 1);
}
