// SPDX-License-Identifier: Apache-2.0
/* Objects, which are programs compiled ahead of time: their functions are entered with the object's data and sites, so
 * that a trap has a message.
 *   a stop at site 2 with 5 and 4, the text of site 2 being "index \1 of \2 rows"   ->   trap.text "index 5 of 4 rows" */
#include "runtime/rt.h"

#include <stdio.h>
#include <string.h>

/* The text with numbers in the place of the bytes 1 and 2, cut to the room that there is. */
static void fill(char *out, size_t room, const char *text, int64_t a, int64_t b) {
  size_t n = 0;
  for (const char *p = text; *p && n + 1 < room; p++) {
    if (*p != 1 && *p != 2) {
      out[n++] = *p;
      continue;
    }
    int len = snprintf(out + n, room - n, "%lld", (long long)(*p == 1 ? a : b));
    n = len < 0 || (size_t)len >= room - n ? room - 1 : n + (size_t)len;
  }
  out[n] = 0;
}

static void tell(const anf_object *o, anf_trap *t) {
  t->file = o->file ? o->file : "";
  if (t->kind != ANF_TRAP_SITE) {
    char more[sizeof t->text];
    memcpy(more, t->text, sizeof more);
    snprintf(t->text, sizeof t->text, "%s%s%.180s", anf_trap_words(t->kind), *more ? ": " : "",
             more);
    return;
  }
  if (t->site < 0 || (uint64_t)t->site >= o->nsite) return;
  const anf_site *s = &o->site[t->site];
  fill(t->text, sizeof t->text, s->text ? s->text : "", t->a, t->b);
  if (s->file) t->file = s->file;
  t->line = s->line;
  t->col = s->col;
}

/* Its functions tell sites of the stream: they are this object's, until the call ends. */
static anf_status enter(const anf_object *o, anf_stream *s, anf_rt_wrapper f, anf_generic *args,
                        uint32_t flags) {
  const anf_object *outer = s->object;
  s->object = o;
  anf_status st = anf_rt_enter(s, f, o->data, args, flags);
  s->object = outer;
  if (st != ANF_OK) tell(o, &s->trap);
  return st;
}

/* Objects of version 2 do not say what they need. The one that was examined last is most often the next. */
static bool can_run(const anf_object *o, anf_stream *s) {
  static const char *_Atomic good;
  size_t n;
  if (o->version < 3 || !o->needs || o->needs == atomic_load_explicit(&good, memory_order_relaxed))
    return true;
  const char *lacks = anfi_rt_lacks(o->needs, &n);
  if (!lacks) {
    atomic_store_explicit(&good, o->needs, memory_order_relaxed);
    return true;
  }
  anf_trap t = {
      .kind = ANF_TRAP_HOST, .status = ANF_UNSUPPORTED, .func = "", .file = o->file ? o->file : ""};
  snprintf(t.text, sizeof t.text, "this processor lacks %.*s, which the code was built for", (int)n,
           lacks);
  if (s || (s = anf_stream_of_thread())) anf_rt_tell(s, &t);
  return false;
}

anf_status anf_object_enter(const anf_object *o, anf_stream *s, anf_rt_wrapper f, anf_generic *args,
                            uint32_t flags) {
  if (!args || !f) return ANF_INVALID;
  if (o->version < 2 || o->version > ANF_RT_VERSION || !can_run(o, s)) return ANF_UNSUPPORTED;
  if (!(flags & (ANF_RT_TRAPS | ANF_RT_DEEP | ANF_RT_STREAM)))
    return anf_rt_enter(s, f, o->data, args, flags);
  if (!s && !(s = anf_stream_of_thread())) return ANF_NOMEM;
  return enter(o, s, f, args, flags);
}
