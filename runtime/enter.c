// SPDX-License-Identifier: Apache-2.0
/* Into compiled code and out of it: calls under protection, the deep stack, traps.
 * INVARIANT: s->frame is the innermost call under protection whose C frame is still there. */
#include "comm/comm.h"
#include "runtime/rt.h"

#include <stdio.h>
#include <string.h>

anf_status anfi_rt_protect(anf_stream *s, void (*f)(void *), void *arg) {
  anfi_rt_frame frame;
  frame.outer = s->frame;
  frame.mark = anf_rt_mark(s);
  s->trap.kind = ANF_TRAP_NONE;
  s->trap.status = ANF_OK;
  s->frame = &frame;
  if (RT_SETJMP(frame.jump)) {
    s->frame = frame.outer;
    anfi_comm_drain(s->comm);
    anf_rt_release(s, frame.mark);
    s->nleaf = 0;
    return s->trap.status;
  }
  f(arg);
  s->frame = frame.outer;
  return ANF_OK;
}

typedef struct call {
  anf_stream *s;
  anf_rt_wrapper f;
  void *data;
  anf_generic *args;
  anf_status status;
} call;

static void run(void *p) {
  const call *c = (const call *)p;
  c->f(c->s, c->data, c->args);
}
static void run_protected(void *p) {
  call *c = (call *)p;
  c->status = anfi_rt_protect(c->s, run, c);
}

static anf_status no_memory(anf_stream *s) {
  s->trap = (anf_trap){.kind = ANF_TRAP_MEMORY, .status = ANF_NOMEM, .func = "", .file = ""};
  return ANF_NOMEM;
}

/* Runs on the deep stack, unless it is there already. */
static anf_status deep(call *c) {
  anf_stream *s = c->s;
  if (s->on_stack) return anfi_rt_protect(s, run, c);
  if (!s->stack && !(s->stack = anfi_rt_stack_new(s->o.stack_bytes))) return no_memory(s);
  anfi_rt_limit(s, (uintptr_t)s->stack + RT_MARGIN);
  s->on_stack = true;
  bool ran = anfi_rt_call_on(s->stack, s->o.stack_bytes, run_protected, c);
  s->on_stack = false;
  anfi_rt_limit(s, 0);
  return ran ? c->status : no_memory(s);
}

anf_status anf_rt_enter(anf_stream *s, anf_rt_wrapper f, void *data, anf_generic *args,
                        uint32_t flags) {
  if (!(flags & (ANF_RT_TRAPS | ANF_RT_DEEP | ANF_RT_STREAM))) {
    f(s, data, args);
    return ANF_OK;
  }
  if (!s && !(s = anf_stream_of_thread())) return ANF_NOMEM;
  if (s && !s->frame) anfi_rt_keep_reset(s);
  anfi_rt_begin(s);
  call c = {s, f, data, args, ANF_OK};
  if (flags & ANF_RT_DEEP && !s->parent) return deep(&c);
  if (flags & (ANF_RT_TRAPS | ANF_RT_DEEP)) return anfi_rt_protect(s, run, &c);
  f(s, data, args);
  return ANF_OK;
}

/* ---- traps ---- */

static anf_status status_of(int32_t kind) {
  switch ((anf_trap_kind)kind) {
  case ANF_TRAP_CANCELLED: return ANF_CANCELLED;
  case ANF_TRAP_DEPTH:
  case ANF_TRAP_MEMORY:
  case ANF_TRAP_TIME:
  case ANF_TRAP_STEPS:
  case ANF_TRAP_CALLS: return ANF_LIMIT;
  default: return ANF_INVALID;
  }
}

/* Code sees only that the limit of its stack is passed: the stream, or that of the pool's owner, says why. */
static int32_t reason(const anf_stream *s, int32_t kind) {
  if ((kind != ANF_TRAP_DEPTH && kind != ANF_TRAP_CANCELLED) || !anfi_rt_stopped(s)) return kind;
  int why = atomic_load(&(s->parent ? s->parent : s)->stop);
  return why ? why : ANF_TRAP_CANCELLED;
}

void anfi_rt_rethrow(anf_stream *s) { RT_LONGJMP(s->frame->jump); }

void anf_rt_trap(anf_stream *s, int32_t kind, uint32_t line, uint32_t col, const char *func,
                 const char *text) {
  anf_trap *t = &s->trap;
  kind = reason(s, kind);
  t->kind = (anf_trap_kind)kind;
  t->status = status_of(kind);
  t->line = line;
  t->col = col;
  t->func = func ? func : "";
  t->file = "";
  snprintf(t->text, sizeof t->text, "%s", text ? text : "");
  anfi_rt_rethrow(s);
}

void anf_rt_tell(anf_stream *s, const anf_trap *t) { s->trap = *t; }

void anf_rt_check(anf_stream *s, uint64_t index, uint64_t bound, int32_t line) {
  if (index >= bound) anf_rt_trap(s, ANF_TRAP_BOUNDS, (uint32_t)line, 0, NULL, NULL);
}

void anf_rt_trace(anf_stream *s, int64_t id, int32_t leaves) {
  if (s->o.trace) s->o.trace(s->o.user, id, leaves != 0);
}
