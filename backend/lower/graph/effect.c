// SPDX-License-Identifier: Apache-2.0
/* Effects, and what stops a program: calls of the run time with the number of a site.
 *   assert(x > 0, "positive")    ->    if (!(x > 0)) { anf_rt_stop(7, 0, 0) }     site 7: E0442, its location and text
 * Sites are in a table beside the code, so that code holds neither texts nor locations. */
#include "backend/lower/graph/graph.h"

static texpr number(glow *w, int64_t v) { return anfi_t_int(w->t, ANFI_S64, v); }

static int64_t new_site(glow *w, anfi_site_info s) {
  anfi_push(w->keep, &w->out->sites, s);
  return (int64_t)(w->o->first_site + w->out->sites.n) - 1;
}

int64_t anfi_glow_sites(void *user, size_t n, const anfi_code *code, anfi_opcode op, anfi_loc loc) {
  glow *w = (glow *)user;
  for (size_t i = 0; i < n; i++)
    new_site(w, (anfi_site_info){
                    .kind = ANFI_SITE_FAIL, .loc = loc, .code = code[i], .op = (uint16_t)op});
  return (int64_t)(w->o->first_site + w->out->sites.n - n);
}

static void stop_if(glow *w, texpr bad, int64_t site, texpr a, texpr b) {
  texpr in[3] = {number(w, site), a ? anfi_t_cast(w->t, ANFI_S64, a) : number(w, 0),
                 b ? anfi_t_cast(w->t, ANFI_S64, b) : number(w, 0)};
  anfi_low_open(w->L);
  anfi_low_add(w->L, anfi_t_eval(w->t, anfi_t_rt_call(w->t, TRT_anf_rt_stop, 3, in)));
  anfi_low_add(w->L, anfi_t_if(w->t, bad, anfi_low_close(w->L), NULL));
}

void anfi_glow_trap(anfi_low *L, void *user, texpr bad, anfi_code code, anfi_opcode op,
                    anfi_loc loc, texpr a, texpr b) {
  glow *w = (glow *)user;
  (void)L;
  stop_if(w, bad,
          new_site(w,
                   (anfi_site_info){
                       .kind = ANFI_SITE_FAIL, .loc = loc, .code = code, .op = (uint16_t)op}),
          a, b);
}

/* In place of the message steps write the number of the output that the condition is about, and inference the type
 * whose range it is about. */
bool anfi_glow_assert(glow *w, anf_node *n) {
  anf_node *message = anfi_arg_count(n) > 1 ? n->in[1].def : NULL;
  const anf_value *text = message && message->kind == ANFI_VALUE ? message->u.value : NULL;
  int64_t output;
  bool numbered = text && anfi_value_is_int(text, &output),
       type = text && text->kind == ANF_VALUE_TYPE; // of numbers that are outside
  gval c = anfi_glow_value(w, n->in[0].def);
  if (!c.at[0]) return true;
  texpr cond = anfi_view_value(w->L, c.at[0]);
  int64_t site =
      new_site(w, (anfi_site_info){.kind = ANFI_SITE_FAIL,
                                   .loc = anfi_node_loc(n),
                                   .code = numbered ? ANF_E1117
                                           : type   ? ANF_E0561
                                                    : ANF_E0442,
                                   .op = ANF_OP_Assert,
                                   .text = type ? anf_dtype_name((anf_dtype)text->type->dtype)
                                           : text && text->kind == ANF_VALUE_STRING && text->n
                                               ? anfi_strndup(w->keep, text->u.text, text->n)
                                               : NULL});
  stop_if(w, anfi_t_bin(w->t, TX_cmp_eq, cond, anfi_t_int(w->t, cond->dtype, 0)), site,
          numbered ? number(w, output) : NULL, NULL);
  return true;
}

/* Puts the leaves of one argument into the stream's message. */
static bool put_leaves(glow *w, anf_node *arg) {
  anfi_leaves l = {0};
  gval v = anfi_glow_value(w, arg);
  if (!anfi_glow_leaves(w, arg->type, anfi_node_loc(arg), &l)) return false;
  for (size_t i = 0; i < v.n; i++) {
    texpr e = anfi_glow_atom(w, &l.at[i], v.at[i]), zero = anfi_t_index(w->t, 0);
    if (l.at[i].scalar) {
      texpr bits = anfi_t_cast(w->t, anfi_t_dt(ANF_TIR_generic), e);
      anfi_low_add(w->L, anfi_t_eval(w->t, anfi_t_rt_call(w->t, TRT_anf_rt_put, 1, &bits)));
      continue;
    }
    texpr in[2] = {anfi_t_cast(w->t, anfi_t_ptr(ANF_TIR_void), anfi_t_addr(w->t, e, 1, &zero)),
                   anfi_t_index(w->t, l.at[i].n * anfi_t_bytes(anfi_t_dt(l.at[i].elem)))};
    anfi_low_add(w->L, anfi_t_eval(w->t, anfi_t_rt_call(w->t, TRT_anf_rt_put_tensor, 2, in)));
  }
  return true;
}

bool anfi_glow_print(glow *w, anf_node *n) {
  anfi_site_info s = {.kind = ANFI_SITE_PRINT,
                      .loc = anfi_node_loc(n),
                      .op = ANF_OP_Print,
                      .n = n->nin,
                      .type = ANFI_NEW_N(w->keep, const anf_type *, n->nin + 1),
                      .value = ANFI_NEW_N(w->keep, anf_value *, n->nin + 1)};
  for (uint32_t i = 0; i < n->nin; i++) {
    anf_node *x = n->in[i].def;
    if (x->kind == ANFI_VALUE) s.value[i] = x->u.value;
    else if (!(s.type[i] = x->type) || !put_leaves(w, x)) return false;
  }
  texpr site = number(w, new_site(w, s));
  anfi_low_add(w->L, anfi_t_eval(w->t, anfi_t_rt_call(w->t, TRT_anf_rt_print, 1, &site)));
  return true;
}
