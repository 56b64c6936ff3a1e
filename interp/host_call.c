// SPDX-License-Identifier: Apache-2.0
/* Calls of the host's C functions from the interpreter, through libffi.
 *   Hypot2(3.0, 4.0), registered with double hypot2(double, double)   ->   ffi_call with two doubles   ->   its result
 * Nothing is allocated between the call and its return, so that no jump crosses frames of C. */
#include "ir/ops/op.h"

#include <ffi.h>

#include "anfora/host.h"

static ffi_type *c_type(int t) {
  switch (t) {
  case ANFI_C_VOID: return &ffi_type_void;
  case ANFI_C_POINTER: return &ffi_type_pointer;
  case ANFI_C_INT: return &ffi_type_sint;
  case ANF_BOOL:
  case ANF_U8: return &ffi_type_uint8;
  case ANF_U16: return &ffi_type_uint16;
  case ANF_U32: return &ffi_type_uint32;
  case ANF_U64: return &ffi_type_uint64;
  case ANF_I8: return &ffi_type_sint8;
  case ANF_I16: return &ffi_type_sint16;
  case ANF_I32: return &ffi_type_sint32;
  case ANF_I64: return &ffi_type_sint64;
  case ANF_F32: return &ffi_type_float;
  case ANF_F64: return &ffi_type_double;
  default: return NULL;
  }
}

struct anfi_c_signature {
  ffi_cif cif;
  size_t n;
  ffi_type *type[]; // of the arguments
};

size_t anfi_c_signature_bytes(size_t n) {
  return sizeof(anfi_c_signature) + (n + 1) * sizeof(ffi_type *);
}

bool anfi_c_prepare(anfi_c_signature *s, int result_type, size_t n, const int *types) {
  ffi_type *ret = c_type(result_type);
  if (!ret || n > ANFI_C_MOST) return false;
  s->n = n;
  for (size_t i = 0; i < n; i++)
    if (!(s->type[i] = c_type(types[i]))) return false;
  return ffi_prep_cif(&s->cif, FFI_DEFAULT_ABI, (unsigned)n, ret, s->type) == FFI_OK;
}

/* The first bytes of a slot: machines with libffi's x86 and Arm back ends are little-endian. */
void anfi_c_call(const anfi_c_signature *s, void (*function)(void), uint64_t *slot, void **at,
                 uint64_t *result) {
  for (size_t i = 0; i < s->n; i++) at[i] = &slot[i];
  *result = 0;
  ffi_call((ffi_cif *)(uintptr_t)&s->cif, function, result, at);
}

/* ---- the op ---- */

typedef struct calling {
  anfi_eval *q;
  const anfi_host *h;
  const anf_type **types; // of the arguments
  anf_value **in, **out;
  uint64_t *slot;
  void **at;
  int *kind;
} calling;

/* Arguments as the signature has them; numbers without a type take one. */
static void take_arguments(calling *c) {
  for (size_t i = 0; i < c->q->n; i++) {
    anf_dtype d = (anf_dtype)c->h->type->items[i]->dtype;
    c->in[i] = anfi_value_cast(c->q->in[i], d);
    anfi_value_guard(c->in[i]);
    c->types[i] = c->in[i]->type;
  }
}

static void make_results(calling *c) {
  anfi_eval *q = c->q;
  if (q->type->kind == ANF_TYPE_TENSOR) {
    c->out[0] = q->out;
    return;
  }
  q->out = anfi_value_new_tuple(q->cx, c->h->nout);
  anfi_value_guard(q->out);
  for (size_t i = 0; i < c->h->nout; i++)
    c->out[i] = q->out->u.item[i] = anfi_value_new_tensor(q->cx, q->type->items[i]);
  anfi_value_unguard(q->out);
}

static void put_slot(calling *c, size_t k) {
  const anfi_host_slot *s = &c->h->slot[k];
  if (s->kind == ANFI_HOST_DIM) {
    c->kind[k] = (int)s->dtype;
    c->slot[k] = (uint64_t)anfi_host_dim(c->h, c->types, s->dim);
    return;
  }
  const anf_value *v = s->kind == ANFI_HOST_ARG ? c->in[s->i] : c->out[s->i];
  bool by_value = s->kind == ANFI_HOST_ARG && anfi_host_by_value(v->type);
  c->kind[k] = by_value ? (int)v->type->dtype : ANFI_C_POINTER;
  c->slot[k] = anfi_key(v->data);
  if (!by_value) return;
  c->slot[k] = 0;
  memcpy(&c->slot[k], v->data, anf_dtype_bytes((anf_dtype)v->type->dtype));
}

/* Made once; it lives as long as the op. */
static const anfi_c_signature *signature(const calling *c, int ret) {
  const anfi_host *h = c->h;
  if (*h->call) return *h->call;
  anfi_c_signature *s =
      (anfi_c_signature *)anfi_alloc(&c->q->cx->arena, anfi_c_signature_bytes(h->nslot));
  return anfi_c_prepare(s, ret, h->nslot, c->kind) ? *h->call = s : NULL;
}

static bool call(calling *c) {
  const anfi_host *h = c->h;
  bool status = h->flags & ANF_HOST_STATUS;
  int ret = status                  ? ANFI_C_INT
            : h->returned < h->nout ? (int)h->out[h->returned]->dtype
                                    : ANFI_C_VOID;
  uint64_t r;
  for (size_t k = 0; k < h->nslot; k++) put_slot(c, k);
  const anfi_c_signature *how = signature(c, ret);
  if (!how) return anfi_fail(c->q->cx, c->q->loc, ANF_E0231, h->name->s, "libffi cannot call it");
  anfi_c_call(how, h->function, c->slot, c->at, &r);
  if (status && (int32_t)r)
    return anfi_fail(c->q->cx, c->q->loc, ANF_E0444, anfi_op[c->q->op].name, (long long)(int32_t)r);
  if (h->returned < h->nout)
    memcpy(c->out[h->returned]->data, &r, anf_dtype_bytes((anf_dtype)h->out[h->returned]->dtype));
  return true;
}

bool anfi_eval_host(anfi_eval *q) {
  const anfi_host *h = anfi_host_of(q->cx, q->attr[0], q->loc);
  if (!h) return false;
  calling c = {.q = q,
               .h = h,
               .types = ANFI_NEW_N(q->scratch, const anf_type *, q->n + 1),
               .in = ANFI_NEW_N(q->scratch, anf_value *, q->n + 1),
               .out = ANFI_NEW_N(q->scratch, anf_value *, h->nout + 1),
               .slot = ANFI_NEW_N(q->scratch, uint64_t, h->nslot + 1),
               .at = ANFI_NEW_N(q->scratch, void *, h->nslot + 1),
               .kind = ANFI_NEW_N(q->scratch, int, h->nslot + 1)};
  take_arguments(&c);
  make_results(&c);
  bool good = call(&c);
  for (size_t i = 0; i < q->n; i++) {
    anfi_value_unguard(c.in[i]);
    anf_value_release(c.in[i]);
  }
  return good;
}
