// SPDX-License-Identifier: Apache-2.0
/* Calls from programs that XLA compiled, without Python: the handler of XLA's foreign functions.
 *   a custom call with plan = address, x and room for y   ->   handle(frame)   ->   plan_run(plan, 1, {x}, 1, ..)
 * The structures are those of XLA's C interface (xla/ffi/api/c_api.h of jaxlib), which keeps what is here in all of
 * its versions 0.x; each begins with its size and a list of extensions. A plan is never freed. */
#include "core.h"

typedef struct extension {
  size_t size;
  int type; // 1: the metadata of the handler are asked for
  struct extension *next;
} extension;

typedef struct version {
  size_t size;
  extension *extensions;
  int major, minor;
} version;

typedef struct metadata {
  size_t size;
  version version;
  uint32_t traits;
} metadata;

typedef struct metadata_extension {
  extension base;
  metadata *metadata;
} metadata_extension;

typedef struct error_args {
  size_t size;
  extension *extensions;
  const char *message;
  int code;
} error_args;

typedef struct api {
  size_t size;
  extension *extensions;
  version version;
  const void *internal;
  void *(*new_error)(error_args *args);
} api;

typedef struct buffer {
  size_t size;
  extension *extensions;
  int dtype;
  void *data;
  int64_t rank, *dims;
} buffer;

typedef struct buffers {
  size_t size;
  extension *extensions;
  int64_t n;
  int *types;
  buffer **at;
} buffers;

typedef struct span {
  const char *s;
  size_t len;
} span;

typedef struct scalar {
  int dtype;
  void *value;
} scalar;

typedef struct attributes {
  size_t size;
  extension *extensions;
  int64_t n;
  int *types;
  span **names;
  void **at;
} attributes;

typedef struct frame {
  size_t size;
  extension *extensions;
  const api *api;
  void *context;
  int stage;
  buffers args, results;
  attributes attrs;
} frame;

enum { METADATA = 1, EXECUTE = 3, SCALAR = 3, INTERNAL = 13 };

static void *failure(const frame *f, const char *message) {
  error_args e = {.size = sizeof e, .message = message, .code = INTERNAL};
  return f->api->new_error(&e);
}

/* Numbers go by value, all else by address. */
static anf_generic argument(const buffer *b) {
  enum { PRED = 1, S8, S16, S32, U8 = 6, U16, U32, F16 = 10, F32, C64 = 15, BF16, C128 = 18 };
  anf_generic g = {.bits = 0};
  if (b->rank || b->dtype == C64 || b->dtype == C128) return g.ptr = b->data, g;
  switch (b->dtype) {
  case PRED:
  case S8:
  case U8: memcpy(&g, b->data, 1); break;
  case S16:
  case U16:
  case F16:
  case BF16: memcpy(&g, b->data, 2); break;
  case S32:
  case U32:
  case F32: memcpy(&g, b->data, 4); break;
  default: memcpy(&g, b->data, 8);
  }
  return g;
}

static void *result(void *results, size_t i) { return ((buffer **)results)[i]->data; }

/* Messages inside XLA's program are constant; the interpreter, outside of it, says what failed. */
static const char *reason(anf_status st) {
  return st == ANF_NOMEM ? "anfora: no memory"
                         : "anfora: the function failed; called outside of jit it says where";
}

static const void *plan_of(const attributes *a) {
  int64_t address = 0;
  for (int64_t i = 0; i < a->n; i++)
    if (a->types[i] == SCALAR && a->names[i]->len == 4 && memcmp(a->names[i]->s, "plan", 4) == 0)
      memcpy(&address, ((const scalar *)a->at[i])->value, sizeof address);
  return (const void *)(intptr_t)address;
}

static void *handle(frame *f) {
  if (f->extensions && f->extensions->type == METADATA) {
    metadata *m = ((metadata_extension *)f->extensions)->metadata;
    m->version = (version){
        .size = sizeof m->version, .major = f->api->version.major, .minor = f->api->version.minor};
    m->traits = 0;
    return NULL;
  }
  if (f->stage != EXECUTE) return NULL;
  enum { FEW = 32 };
  anf_generic slot0[FEW], *slot = slot0;
  const void *p = plan_of(&f->attrs);
  size_t n = (size_t)f->args.n, room = plan_slots(p);
  if (room > FEW) slot = (anf_generic *)malloc(room * sizeof *slot);
  if (!slot) return failure(f, "anfora: no memory");
  for (size_t i = 0; i < n; i++) slot[i] = argument(f->args.at[i]);
  anf_status st = plan_run(p, n, slot, (size_t)f->results.n, result, f->results.at);
  if (slot != slot0) free(slot);
  return st == ANF_OK ? NULL : failure(f, reason(st));
}

/* ffi_handler() -> the capsule that jax.ffi.register_ffi_target takes */
PyObject *ffi_handler(PyObject *module, PyObject *args) {
  (void)module, (void)args;
  void *(*f)(frame *) = handle;
  void *p;
  memcpy(&p, &f, sizeof p);
  return PyCapsule_New(p, "xla._CUSTOM_CALL_TARGET", NULL);
}
