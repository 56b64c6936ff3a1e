// SPDX-License-Identifier: Apache-2.0
/* Element types of fewer bits than any here: floats of 8 and 4 bits, integers of 4 and 2. A tensor of them is one of bytes, and
 * the name of its value has the element type in the file:
 *   y = Cast[to = FLOAT8E4M3FN](x);  z = Reshape(y, s);  w = Cast[to = FLOAT](z)
 * y and z are u8; `formats` tells the template of the last Cast that its input's bytes are codes. Operators that convert, move
 * or count elements take narrow tensors; any other would compute with codes, so it is refused. */
#include "frontend/onnx/onnx.h"

typedef struct {
  const char *name;
  anf_dtype stored;
  unsigned bits;
} format;

/* by element type, from OX_FLOAT8E4M3FN on */
static const format formats[] = {{"float8e4m3fn", ANF_U8, 8}, {"float8e4m3fnuz", ANF_U8, 8},
                                 {"float8e5m2", ANF_U8, 8},   {"float8e5m2fnuz", ANF_U8, 8},
                                 {"uint4", ANF_U8, 4},        {"int4", ANF_I8, 4},
                                 {"float4e2m1", ANF_U8, 4},   {"float8e8m0", ANF_U8, 8},
                                 {"uint2", ANF_U8, 2},        {"int2", ANF_I8, 2}};

static const char *const moving[] = {
    "Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten",      "Expand",
    "Slice",    "Gather",  "Concat",    "Split",   "Tile",      "DepthToSpace", "SpaceToDepth"};
static const char *const reading[] = {
    "Cast", "CastLike", "QuantizeLinear", "DequantizeLinear",    "Shape", "Size",
    "If",   "Loop",     "Scan",           "GatherBlockQuantized"};

static const format *format_of(int64_t type) {
  bool is = type >= OX_FLOAT8E4M3FN && type < OX_FLOAT8E4M3FN + (int64_t)ANFI_LEN(formats);
  return is ? &formats[type - OX_FLOAT8E4M3FN] : NULL;
}

bool anfi_ox_narrow_dtype(int64_t type, anf_dtype *d) {
  const format *f = format_of(type);
  if (f) *d = f->stored;
  return f != NULL;
}

unsigned anfi_ox_narrow_bits(int64_t type) {
  const format *f = format_of(type);
  return f ? f->bits : 64;
}

int64_t anfi_ox_narrow(const anfi_ox_place *p, const anfi_str *name) {
  for (; p; p = p->outer) {
    const uint64_t *at = anfi_map_find(&p->narrow, anfi_key(name));
    if (at) return (int64_t)*at;
    if (anfi_map_find(&p->values, anfi_key(name))) return 0;
  }
  return 0;
}

static bool is_among(const anfi_ox_node *n, const char *const *list, size_t len) {
  bool found = false;
  for (size_t i = 0; i < len; i++) found |= strcmp(n->op->s, list[i]) == 0;
  return found;
}

static int64_t input(const anfi_ox_place *p, const anfi_ox_node *n, size_t i) {
  return i < n->in.n && n->in.at[i]->len ? anfi_ox_narrow(p, n->in.at[i]) : 0;
}

static int64_t of_attribute(const anfi_ox_place *p, const anfi_ox_node *n, const char *name) {
  const anfi_ox_attr *a = anfi_ox_attr_of(p, n, name);
  if (!a) return 0;
  return a->tensor ? a->tensor->data_type : a->i;
}

/* The element type that the subgraph in the attribute declares for its output k; 0: none. */
static int64_t of_subgraph(const anfi_ox_place *p, const anfi_ox_node *n, const char *name,
                           size_t k) {
  const anfi_ox_attr *a = anfi_ox_attr_of(p, n, name);
  return a && a->graph && k < a->graph->out.n ? a->graph->out.at[k].elem_type : 0;
}

static int64_t output(const anfi_ox_place *p, const anfi_ox_node *n, size_t k) {
  const char *op = n->op->s;
  if (is_among(n, moving, ANFI_LEN(moving))) return input(p, n, 0);
  if (strcmp(op, "Cast") == 0) return of_attribute(p, n, "to");
  if (strcmp(op, "CastLike") == 0) return input(p, n, 1);
  if (strcmp(op, "QuantizeLinear") == 0)
    return n->in.n > 2 && n->in.at[2]->len ? input(p, n, 2) : of_attribute(p, n, "output_dtype");
  if (strcmp(op, "Constant") == 0 || strcmp(op, "ConstantOfShape") == 0)
    return of_attribute(p, n, "value");
  if (strcmp(op, "If") == 0) return of_subgraph(p, n, "then_branch", k);
  if (strcmp(op, "Loop") == 0) return of_subgraph(p, n, "body", k + 1);
  return strcmp(op, "Scan") == 0 ? of_subgraph(p, n, "body", k) : 0;
}

int64_t anfi_ox_narrow_output(const anfi_ox_place *p, const anfi_ox_node *n, size_t k) {
  int64_t type = output(p, n, k);
  return format_of(type) ? type : 0;
}

bool anfi_ox_takes_narrow(const anfi_ox_place *p, const anfi_ox_node *n) {
  if (is_among(n, moving, ANFI_LEN(moving)) || is_among(n, reading, ANFI_LEN(reading))) return true;
  for (size_t i = 0; i < n->in.n; i++) {
    const format *f = format_of(input(p, n, i));
    if (!f) continue;
    anfi_fail(p->b->t->cx, p->b->t->loc, ANF_E1640, n->op->s, f->name, n->in.at[i]->s);
    anfi_hint(p->b->t->cx, "Cast and DequantizeLinear give numbers of another type");
    return false;
  }
  return true;
}
