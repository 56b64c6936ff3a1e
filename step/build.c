// SPDX-License-Identifier: Apache-2.0
/* Training steps ahead of time: the function of an anf_step, which itself copies the state that cannot be donated.
 *   def step(p, x) { (p - 0.1 * grad(loss)(p, x), loss(p, x)) }
 *   step_run(stream, &state, x, &out)     writes the new p over the old
 */
#include "step/build.h"

static void edit(void *user, anfi_variant *v) {
  anfi_step_built *b = (anfi_step_built *)user;
  size_t n = v->low.first[b->nstate];
  b->given = ANFI_NEW_N(v->low.arena, bool, n + 1);
  const anf_type *out = anfi_step_outputs(b->g, b->nstate, b->param, v->low.result_type);
  if (!out) return;
  if (b->out && b->out != out) {
    anfi_fail(b->g->module->cx, v->loc, ANF_E1584, b->g->name->s);
    return;
  }
  b->out = out;
  bool commits = anfi_step_donate(v, n, b->given, b->stops);
  anfi_step_copy_back(v, n, b->given, b->stops && !commits);
}

static void build(anf_graph *g, size_t nstate, size_t n, const anf_type *const *types,
                  unsigned forms, const anf_build_opts *o, anf_text *out) {
  anf_ctx *cx = g->module->cx;
  anfi_step_built b = {.g = g, .nstate = nstate};
  anf_build_opts given;
  if (!ANFI_OPTS_IN(cx, anf_build_opts, sizes, o, &given)) return;
  b.stops = given.stops;
  if (nstate > g->params.n) {
    anfi_fail(cx, anfi_nowhere(), ANF_E1119, nstate, g->name->s, g->params.n);
    return;
  }
  b.param = ANFI_NEW_N(anfi_scratch(cx), const anf_type *, n + 1);
  for (size_t i = 0; i < n; i++) b.param[i] = anfi_step_settled(cx, types[i]);
  anfi_build_hooks h = {.nstate = nstate, .edit = edit, .put = anfi_step_put, .user = &b};
  anfi_build_graph(g, n, b.param, forms, o, &h, out);
}

anf_status anf_build_step(anf_graph *g, size_t nstate, size_t n, const anf_type *const *types,
                          unsigned forms, const anf_build_opts *o, anf_diag *d, anf_text *out) {
  ANFI_NEED(d, g, out);
  if (n) ANFI_NEED(d, types);
  for (size_t i = 0; i < n; i++) ANFI_NEED(d, types[i]);
  ANFI_ENTRY(g->module->cx, d);
  build(g, nstate, n, types, forms, o, out);
  return anfi_leave(g->module->cx);
}
