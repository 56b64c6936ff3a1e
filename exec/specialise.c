// SPDX-License-Identifier: Apache-2.0
/* What a function is compiled for: types, and values where types do not suffice. And a log that says why it was compiled
 * each time.
 *   f(x, n) = x + n       for (f32[3], i64)
 *   f(x, n) = x[0:n]      for (f32[3], 2): the shape of the result depends on n
 *   log                   "2. (f32[3], 3) in 4.1 ms: n is 3 and was 2" */
#include "exec/exec.h"
#include "exec/partition.h"

bool anfi_exec_fixes(const anf_exec *e, size_t i, const anf_type *t) {
  bool needed = e->fixing && i < 64 && e->needed >> i & 1;
  return (e->fixing == ANFI_FIX_ALL && anfi_may_fix_type(t)) || (needed && anfi_may_fix_needed(t));
}

/* ---- why ---- */

/* The type or value that one argument is compiled for, as text. */
static const char *text_of(anf_exec *e, anfi_arena *a, const anfi_arg *x) {
  anf_text *o = anfi_text_begin(e->cx);
  if (x->fn || x->value) anfi_put_value(o, x->fn ? x->fn : x->value, 0);
  else anfi_put_type(o, e->cx, x->type);
  const char *s = anfi_strndup(a, o->text, o->len);
  anfi_text_done(o);
  return s;
}

static const char *name_of(const anf_exec *e, size_t i) {
  const char *s = e->g && i < e->g->params.n ? anf_node_name(e->g->params.at[i]) : NULL;
  return s && *s ? s : "an argument";
}

static void put_reason(anf_exec *e, const anfi_variant *v, const anfi_variant *before) {
  size_t said = 0;
  if (!before) {
    anfi_puts(&e->log, "the first call");
    return;
  }
  for (size_t i = 0; i < v->narg && i < before->narg; i++)
    if (strcmp(v->arg[i], before->arg[i]) != 0)
      anfi_putf(&e->log, "%s%s is %s and was %s", said++ ? ", " : "", name_of(e, i), v->arg[i],
                before->arg[i]);
  if (!said) anfi_puts(&e->log, "the code for this was dropped");
}

/* Of a program with ever new signatures the log has the newest ones. */
static void shorten(anf_text *log) {
  enum { MOST = 32 << 10 };
  if (log->len <= MOST) return;
  const char *from = strchr(log->text + log->len - MOST / 2, '\n') + 1;
  log->len -= (size_t)(from - log->text);
  memmove(log->text, from, log->len + 1);
}

void anfi_exec_describe(anf_exec *e, anfi_variant *v, size_t n, const anfi_arg *args) {
  v->arg = ANFI_NEW_N(&v->arena, const char *, n + 1);
  v->narg = n;
  for (size_t i = 0; i < n; i++) v->arg[i] = text_of(e, &v->arena, &args[i]);
}

void anfi_exec_log(anf_exec *e, anfi_variant *v, size_t n, const anfi_arg *args, double ms) {
  anfi_exec_describe(e, v, n, args);
  anfi_putf(&e->log, "%zu. (", e->compilations);
  for (size_t i = 0; i < n; i++) anfi_putf(&e->log, "%s%s", i ? ", " : "", v->arg[i]);
  anfi_putf(&e->log, ") in %.1f ms: ", ms);
  put_reason(e, v, e->variant);
  anfi_putc(&e->log, '\n');
  shorten(&e->log);
}

anf_status anf_exec_explain(const anf_exec *e, anf_text *out) {
  ANFI_TEXT_ENTRY(e, out);
  if (e->log.len) anfi_put(out, e->log.text, e->log.len);
  size_t said = 0;
  if (e->fixing)
    anfi_puts(out, "Shapes or attributes depend on values, so code is made for each value of ");
  for (size_t i = 0; e->fixing == ANFI_FIX_NEEDED && i < e->g->params.n && i < 64; i++)
    if (e->needed >> i & 1) anfi_putf(out, "%s%s", said++ ? ", " : "", name_of(e, i));
  if (e->fixing == ANFI_FIX_ALL) anfi_puts(out, "integers, bools, strings and types");
  if (e->fixing) anfi_puts(out, ".\n");
  if (e->partition) anfi_partition_explain(e->partition, out);
  anfi_batch_explain(e, out);
  anfi_seldom_explain(e, out);
  return anfi_leave(e->cx);
}
