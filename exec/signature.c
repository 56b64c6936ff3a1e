// SPDX-License-Identifier: Apache-2.0
/* Signatures: the words that a variant is looked up by.
 *
 *   (f32[4], 3)  →  type f32[4], type i64      the value 3 only where code is specialised to values
 *
 * A function argument adds its graph and the signature of its captures. Function values nest without bound, so
 * walks use a worklist. */
#include "exec/exec.h"

static void push_bytes(anfi_arena *a, anfi_sig *out, size_t n, const void *data) {
  anfi_push(a, &out->word, n);
  for (size_t i = 0; i < n; i += sizeof(uint64_t)) {
    uint64_t w = 0;
    memcpy(&w, (const char *)data + i, n - i < sizeof w ? n - i : sizeof w);
    anfi_push(a, &out->word, w);
  }
}

/* A value that its type does not determine; tuples and records are walked in order. */
static void push_value(anfi_arena *a, anfi_sig *out, const anf_value *v) {
  ANFI_VEC(const anf_value *) st = {0};
  anfi_push(a, &st, v);
  anfi_push(a, &out->word, UINT64_MAX);
  while (st.n) {
    const anf_value *x = st.at[--st.n];
    switch (x->kind) {
    case ANF_VALUE_TENSOR:
      push_bytes(a, out, anf_dtype_bytes((anf_dtype)x->type->dtype), x->data);
      break;
    case ANF_VALUE_STRING: push_bytes(a, out, x->n, x->u.text); break;
    case ANF_VALUE_TYPE: anfi_push(a, &out->word, anfi_key(x->type)); break;
    case ANF_VALUE_TUPLE:
    case ANF_VALUE_RECORD:
      for (size_t i = x->n; i-- > 0;) anfi_push(a, &st, (const anf_value *)x->u.item[i]);
      break;
    default: break;
    }
  }
}

bool anfi_exec_sig(const anf_exec *e, anfi_arena *a, size_t n, const anfi_arg *args,
                   anfi_sig *out) {
  anf_ctx *cx = e->cx;
  ANFI_VEC(anfi_arg) st = {0};
  for (size_t i = n; i-- > 0;) anfi_push(a, &st, args[i]);
  while (st.n) {
    anfi_arg x = st.at[--st.n];
    anfi_push(a, &out->word, x.fixed ? anfi_key(x.fixed) : anfi_key(x.type));
    if (x.value) push_value(a, out, x.value);
    if (!x.fn) continue;
    const anfi_fn *f = anfi_value_fn(x.fn);
    anfi_push(a, &out->word, anfi_key(f->graph));
    anfi_push(a, &out->word, (uint64_t)f->op << 32 | f->ncapture);
    anfi_push(a, &out->word, anfi_key(f->attrs));
    anfi_push(a, &out->word, f->nbound);
    for (uint32_t i = f->ncapture + f->nbound; i-- > 0;) {
      anf_value *v = f->at[i];
      bool is_fn = v->kind == ANF_VALUE_FN;
      const anf_type *t = is_fn ? NULL : anf_value_type(cx, v);
      if (!is_fn && !t) anfi_throw_nomem(cx);
      anfi_push(a, &st, ((anfi_arg){.type = t, .fn = is_fn ? v : NULL}));
    }
  }
  if (e->counts) anfi_push(a, &out->word, 1);
  return true;
}
