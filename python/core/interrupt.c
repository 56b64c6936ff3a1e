// SPDX-License-Identifier: Apache-2.0
/* Ctrl-C while compiled code runs. Python's own handler of SIGINT sets a flag that the interpreter looks at later:
 * after minutes, if a call takes as long. So ours stands before it while the main thread is in a call: it stops the
 * call, and then calls Python's. Whether that becomes an exception the host's handler decides; if not, the call is made
 * again. Only Python's main thread takes signals; its handlers may be set anew at any time, so each call
 * looks. */
#define _POSIX_C_SOURCE 200809L
#include "core.h"

#include <signal.h>
#include <stdatomic.h>

static struct {
  _Atomic(anf_stream *) stream; // of the call that is under way, or NULL
  _Atomic(anf_ctx *) cx;        // likewise
  atomic_bool came;
  struct sigaction before;
  unsigned long main_thread;
} now;

static void handle(int sig, siginfo_t *info, void *context) {
  anf_stream *s = atomic_load(&now.stream);
  anf_ctx *cx = atomic_load(&now.cx);
  if (s || cx) atomic_store(&now.came, true);
  if (s) anf_stream_cancel(s);
  if (cx) anf_ctx_cancel(cx);
  if (now.before.sa_flags & SA_SIGINFO) now.before.sa_sigaction(sig, info, context);
  else if (now.before.sa_handler != SIG_DFL && now.before.sa_handler != SIG_IGN)
    now.before.sa_handler(sig);
}

static bool is_ours(const struct sigaction *a) {
  return a->sa_flags & SA_SIGINFO && a->sa_sigaction == handle;
}

static void stand_before(const struct sigaction *there) {
  struct sigaction a = *there;
  a.sa_sigaction = handle;
  a.sa_flags |= SA_SIGINFO;
  now.before = *there;
  sigaction(SIGINT, &a, NULL);
}

bool core_interrupts_start(void) {
  PyObject *threading = PyImport_ImportModule("threading"),
           *t = threading ? PyObject_CallMethod(threading, "main_thread", NULL) : NULL,
           *id = t ? PyObject_GetAttrString(t, "ident") : NULL;
  if (id) now.main_thread = PyLong_AsUnsignedLong(id);
  Py_XDECREF(id);
  Py_XDECREF(t);
  Py_XDECREF(threading);
  return !PyErr_Occurred();
}

core_call core_begin(anf_stream *s, anf_ctx *cx) {
  struct sigaction there;
  core_call outer = {false, NULL, NULL};
  if (PyThread_get_thread_ident() != now.main_thread || sigaction(SIGINT, NULL, &there) != 0)
    return outer;
  bool handled =
      (there.sa_flags & SA_SIGINFO) || (there.sa_handler != SIG_DFL && there.sa_handler != SIG_IGN);
  if (!handled) return outer; // Ctrl-C ends the process, or does nothing
  if (!is_ours(&there)) stand_before(&there);
  outer = (core_call){true, atomic_load(&now.stream), atomic_load(&now.cx)};
  atomic_store(&now.came, false);
  atomic_store(&now.stream, s);
  atomic_store(&now.cx, cx);
  return outer;
}

void core_end(core_call outer) {
  if (!outer.watched) return;
  atomic_store(&now.stream, outer.stream);
  atomic_store(&now.cx, outer.cx);
}

bool core_interrupted(core_call outer, anf_status st) {
  return st == ANF_CANCELLED && outer.watched && atomic_exchange(&now.came, false);
}
