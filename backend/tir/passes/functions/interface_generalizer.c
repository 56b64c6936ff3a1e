// SPDX-License-Identifier: Apache-2.0
/* interface_generalizer: one calling convention for hosts: a wrapper that takes all arguments as 8-byte slots.
 *
 *   f(a: s32, A: [f32 * 4]): f32   →   f_0wrapper(args: [generic * 3]) {
 *                                        args[2] = generic(f(s32(args[0]), f32*(args[1])))
 *                                      }
 *
 * The slot after the arguments receives the result. */
#include "backend/tir/tir.h"

static bool fits_slot(tdtype d) { return anfi_t_total(d) == 1; }

static bool wanted(const tmod *m, tfunc f) {
  if (!f->body || anfi_t_attr(f->attrs, TA_is_private, NULL) ||
      anfi_t_attr(f->attrs, TA_wrapper, NULL))
    return false;
  for (uint32_t i = 0; i < f->n; i++)
    if (!f->param[i]->dtype.ptr && !fits_slot(f->param[i]->dtype)) return false;
  const char *name = anfi_sprintf(&m->t->arena, "%s_0wrapper", f->name->s);
  return fits_slot(f->ret) && !anfi_t_mod_find(m, anfi_intern_z(&m->t->names, name));
}

static tfunc wrapper(tstore *t, tfunc f) {
  bool gives = !anfi_t_is_void(f->ret);
  uint32_t slots = f->n + gives;
  texpr args = anfi_t_tensor1(t, ANF_TIR_generic, "args", slots ? slots : 1),
        *in = ANFI_NEW_N(&t->arena, texpr, f->n);
  for (uint32_t i = 0; i < f->n; i++) {
    texpr at = anfi_t_index(t, i);
    in[i] = anfi_t_cast(t, f->param[i]->dtype, anfi_t_at(t, args, 1, &at, 1, 0, NULL));
  }
  texpr call = anfi_t_call(t, f->name, f->ret, f->n, in), last = anfi_t_index(t, f->n);
  tstmt s = gives ? anfi_t_assign(t, anfi_t_at(t, args, 1, &last, 1, 0, NULL),
                                  anfi_t_cast(t, anfi_t_dt(ANF_TIR_generic), call))
                  : anfi_t_eval(t, call);
  const char *name = anfi_sprintf(&t->arena, "%s_0wrapper", f->name->s);
  return anfi_t_func(t, anfi_intern_z(&t->names, name), anfi_t_dt(ANF_TIR_void), 1, &args, s,
                     anfi_t_attr_set(t, (tattrs){0}, TA_wrapper, 1));
}

const tmod *anfi_t_pass_interface_generalizer(tpass_cx *p, const tmod *m) {
  tmod *o = anfi_t_mod_like(m);
  for (size_t i = 0; i < m->func.n; i++) {
    anfi_t_mod_add(o, m->func.at[i]);
    if (wanted(m, m->func.at[i])) anfi_t_mod_add(o, wrapper(p->t, m->func.at[i]));
  }
  return o;
}
