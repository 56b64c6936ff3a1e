// SPDX-License-Identifier: Apache-2.0
/* Sites: compiled programs tell their host by numbers why they stop and what they print.
 *   Print(x)   ->   anf_rt_put(s, bits of x); anf_rt_print(s, 3)   ->   the host's function with site 3 and one leaf */
#include "runtime/rt.h"

#include <stdlib.h>

void anf_rt_stop(anf_stream *s, int64_t site, int64_t a, int64_t b) {
  s->trap.site = site;
  s->trap.a = a;
  s->trap.b = b;
  anf_rt_trap(s, ANF_TRAP_SITE, 0, 0, NULL, NULL);
}

void anf_stream_set_print(anf_stream *s,
                          void (*print)(void *user, int64_t site, size_t n, const uint64_t *leaf),
                          void *user) {
  if (!s) return;
  s->print = print;
  s->print_user = user;
}

void anf_rt_put(anf_stream *s, uint64_t bits) {
  if (s->nleaf == s->leaf_cap) {
    size_t cap = s->leaf_cap ? 2 * s->leaf_cap : 16;
    uint64_t *leaf = (uint64_t *)realloc(s->leaf, cap * sizeof *leaf);
    if (!leaf) anf_rt_trap(s, ANF_TRAP_MEMORY, 0, 0, NULL, NULL);
    s->leaf = leaf;
    s->leaf_cap = cap;
  }
  s->leaf[s->nleaf++] = bits;
}

void anf_rt_put_tensor(anf_stream *s, void *p, uint64_t bytes) {
  (void)bytes;
  anf_rt_put(s, (uint64_t)(uintptr_t)p);
}

void anf_rt_print(anf_stream *s, int64_t site) {
  const anf_object *o = s->object;
  const char *text = o && (uint64_t)site < o->nsite ? o->site[site].print : NULL;
  if (s->print) s->print(s->print_user, site, s->nleaf, s->leaf);
  else if (text) anfi_rt_put_site(stdout, text, s->nleaf, s->leaf);
  s->nleaf = 0;
}
