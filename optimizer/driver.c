// SPDX-License-Identifier: Apache-2.0
/* Pipelines: "inline (simplify cse dce)*" runs inline, and then the group until it changes nothing.
 * Parsing, timing, dumps, verification and bisection of rewrites are done here; a pass does none of them. What
 * a pass needs, makes and breaks is checked against its row in pass.def before it runs. */
#include "optimizer/rules/rule.h"

#include "anfora/opt.h"

typedef struct {
  const char *name, *doc;
  bool (*run)(anfi_pass *);
  uint32_t need, make, kill;
  bool once; // finds nothing more right after itself
} pass_row;

#define ANF_PASS(nm, ...) {.name = #nm, .run = anfi_opt_##nm, __VA_ARGS__},
static const pass_row passes[] = {
#include "optimizer/pass.def"
};
#undef ANF_PASS

static const struct {
  const char *name, *text;
} pipelines[] = {
#define ANF_PIPELINE(name, text) {#name, text},
#include "optimizer/pipeline.def"
#undef ANF_PIPELINE
};

const char *anf_pass_name(size_t i, const char **doc) {
  if (i >= ANFI_LEN(passes)) return NULL;
  if (doc) *doc = passes[i].doc;
  return passes[i].name;
}

const char *anf_pipeline_name(size_t i, const char **text) {
  if (i >= ANFI_LEN(pipelines)) return NULL;
  if (text) *text = pipelines[i].text;
  return pipelines[i].name;
}

const char *anf_rule_name(size_t i, const char **lhs, const char **rhs, const char **guards,
                          const char **file) {
  if (i >= anfi_nrules) return NULL;
  const anfi_rule_row *r = &anfi_rule_rows[i];
  if (lhs) *lhs = r->lhs;
  if (rhs) *rhs = r->rhs;
  if (guards) *guards = r->guards;
  if (file) *file = r->file;
  return r->name;
}

/* One step of a parsed pipeline. A group's steps lie between OPEN and CLOSE; CLOSE knows its OPEN.
 */
typedef enum { STEP_PASS, STEP_OPEN, STEP_CLOSE } step_kind;
typedef struct {
  step_kind kind;
  const pass_row *pass;
  size_t open;       // of CLOSE: its OPEN
  uint64_t rewrites; // of OPEN: the count when the round began
} step;

typedef struct {
  anf_ctx *cx;
  anfi_arena *a;
  ANFI_VEC(step) steps;
  ANFI_VEC(size_t) open;
} plan;

enum { MAX_EXPANSION = 8, MAX_ROUNDS = 32 };

static const char *any_name(void *user, size_t i) {
  (void)user;
  size_t np = ANFI_LEN(passes);
  return i < np ? passes[i].name : i - np < ANFI_LEN(pipelines) ? pipelines[i - np].name : NULL;
}

static bool parse(plan *p, const char *text, int depth);

static bool parse_word(plan *p, const char *w, size_t len, int depth) {
  for (size_t i = 0; i < ANFI_LEN(passes); i++)
    if (strlen(passes[i].name) == len && memcmp(passes[i].name, w, len) == 0) {
      anfi_push(p->a, &p->steps, ((step){.kind = STEP_PASS, .pass = &passes[i]}));
      return true;
    }
  for (size_t i = 0; i < ANFI_LEN(pipelines); i++)
    if (strlen(pipelines[i].name) == len && memcmp(pipelines[i].name, w, len) == 0 &&
        depth < MAX_EXPANSION)
      return parse(p, pipelines[i].text, depth + 1);
  const char *word = anfi_strndup(p->a, w, len), *near = anfi_nearest(word, any_name, NULL);
  anfi_fail(p->cx, anfi_nowhere(), ANF_E0601, word);
  if (near) anfi_hint(p->cx, "did you mean '%s'?", near);
  return false;
}

static bool parse(plan *p, const char *s, int depth) {
  size_t outer = p->open.n;
  while (*s) {
    if (*s == '(') {
      anfi_push(p->a, &p->open, p->steps.n);
      anfi_push(p->a, &p->steps, ((step){.kind = STEP_OPEN}));
      s++;
    } else if (*s == ')') {
      if (p->open.n == outer || s[1] != '*') return anfi_fail(p->cx, anfi_nowhere(), ANF_E0602, s);
      anfi_push(p->a, &p->steps, ((step){.kind = STEP_CLOSE, .open = p->open.at[--p->open.n]}));
      s += 2;
    } else if (*s == ' ' || *s == ',' || *s == '\n') s++;
    else {
      size_t len = strcspn(s, " ,\n()");
      if (!parse_word(p, s, len, depth)) return false;
      s += len;
    }
  }
  return p->open.n == outer || anfi_fail(p->cx, anfi_nowhere(), ANF_E0602, "");
}

/* What a pass needs and no earlier step made. A module that comes in may hold anything already, so
 * the first need of a property is checked on the module, not on the text. */
static uint32_t properties(anf_module *m) {
  const anf_analysis *an = anfi_analyse(m);
  bool closed = true, typed = true;
  for (size_t i = 0; i < m->graphs.n; i++) {
    const anfi_graph_info *gi = &an->graphs[i];
    closed &= gi->free.n == 0;
    for (size_t k = 0; k < gi->order.n; k++)
      typed &= gi->order.at[k]->type || anfi_is_op(gi->order.at[k], ANF_OP_Switch) ||
               anfi_is_op(gi->order.at[k], ANF_OP_SwitchLayer);
  }
  return (closed ? ANFI_CLOSED : 0u) | (typed && closed ? ANFI_TYPED | ANFI_FIRST_ORDER : 0u);
}

static bool run_pass(anfi_pass *p, const pass_row *row, uint32_t *have, const anf_opt_opts *o) {
  anf_module *m = p->m;
  if ((row->need & *have) != row->need)
    return anfi_fail(m->cx, anfi_nowhere(), ANF_E0603, row->name);
  uint64_t before = p->rewrites, start = anfi_os_now_ns();
  anfi_reuse_deleted(m);
  if (!row->run(p)) return false;
  *have = (*have | row->make) & ~row->kill;
  double ms = (double)(anfi_os_now_ns() - start) / 1e6;
  bool typed = (row->need | row->make) & ANFI_TYPED; // before, a program's own faults may be left
  if ((o->verify_each || (ANFI_VERIFY && typed)) && !anfi_verify(m)) {
    anfi_note(m->cx, anfi_nowhere(), "after the pass '%s'", row->name);
    return false;
  }
  if (o->after) o->after(o->user, m, row->name, ms, p->rewrites - before);
  return anfi_go_on(m->cx, row->name, 0.0);
}

typedef struct {
  anfi_pass *pass;
  const pass_row *row;
  uint32_t *have;
  const anf_opt_opts *o;
} one_pass;

/* Each pass in a frame of its own: its scratch memory goes when it ends. */
static anf_status run_framed(const one_pass *r) {
  ANFI_ENTRY(r->pass->m->cx, NULL);
  run_pass(r->pass, r->row, r->have, r->o);
  return anfi_leave(r->pass->m->cx);
}

static size_t index_of(bool (*run)(anfi_pass *)) {
  size_t i = 0;
  while (passes[i].run != run) i++;
  return i;
}

/* A pass that found nothing to do would find nothing again while the module stays as it is. */
static void note_idle(uint64_t *idle, const pass_row *row, uint64_t before, uint64_t after) {
  if (row->make) memset(idle, 0, ANFI_LEN(passes) * sizeof *idle); // changes without counting
  else idle[row - passes] = row->once || before == after ? after + 1 : 0;
}

static bool run_plan(plan *p, anfi_pass *pass, uint32_t have, const anf_opt_opts *o) {
  uint64_t idle[ANFI_LEN(passes)] = {
      0}; // by pass: 1 + the count of rewrites at which it found nothing
  size_t *rounds = ANFI_NEW_N(p->a, size_t, p->steps.n);
  for (size_t i = 0; i < p->steps.n; i++) {
    step *s = &p->steps.at[i];
    if (s->kind == STEP_OPEN) s->rewrites = pass->rewrites;
    if (s->kind == STEP_CLOSE) {
      step *open = &p->steps.at[s->open];
      bool again = pass->rewrites != open->rewrites && ++rounds[i] < MAX_ROUNDS;
      open->rewrites = pass->rewrites;
      if (again) i = s->open;
      else rounds[i] = 0;
    }
    if (s->kind != STEP_PASS || idle[s->pass - passes] == pass->rewrites + 1) continue;
    uint64_t before = pass->rewrites;
    pass->swept = idle[index_of(anfi_opt_dce)] == before + 1;
    one_pass one = {pass, s->pass, &have, o};
    anf_status st = run_framed(&one);
    if (st != ANF_OK) return anfi_fail_as(p->cx, st);
    note_idle(idle, s->pass, before, pass->rewrites);
  }
  return true;
}

static bool optimise(anf_module *m, const char *pipeline, const anf_opt_opts *o) {
  plan p = {.cx = m->cx, .a = anfi_scratch(m->cx)};
  anfi_pass pass = {
      .m = m, .fast = o->fast, .limit = o->bisect_limit ? o->bisect_limit : UINT64_MAX};
  return parse(&p, pipeline, 0) && run_plan(&p, &pass, properties(m), o);
}

anf_status anf_optimise(anf_module *m, const char *pipeline, const anf_opt_opts *o, anf_diag *d) {
  anf_opt_opts opts = {0};
  if (o) memcpy(&opts, o, o->size && o->size < sizeof opts ? o->size : sizeof opts);
  if (m->status != ANF_OK) return m->status;
  ANFI_ENTRY(m->cx, d);
  optimise(m, pipeline, &opts);
  return anfi_leave(m->cx);
}

anf_status anf_specialise(anf_module *m, anf_graph *g, size_t n, const anf_type *const *types,
                          anf_diag *d, anf_graph **out) {
  if (m->status != ANF_OK) return m->status;
  ANFI_ENTRY(m->cx, d);
  anfi_pass p = {.m = m, .limit = UINT64_MAX};
  if (n != g->params.n) anfi_fail(m->cx, anfi_nowhere(), ANF_E0510, g->name->s, g->params.n, n);
  else if (anfi_opt_lift(&p) && anfi_specialise(m, 1, &g, &types)) *out = g;
  return anfi_leave(m->cx);
}
