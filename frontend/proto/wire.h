// SPDX-License-Identifier: Apache-2.0
/* Protocol Buffers' wire format, read in place: nothing is copied, so the weights of a model stay where the file is
 * mapped. protobuf-c was weighed: it copies every byte field and builds the whole tree before a reader sees any of it.
 *
 *   anfi_wire w = anfi_wire_of(data, len);
 *   anfi_wire_field f;
 *   while (anfi_wire_next(&w, &f))
 *     switch (f.number) { case 1: name = f; break; ... }
 *   if (w.bad) ... // cut short, or no message at all
 *
 * Integers are `f.u`; strings, bytes, messages and packed lists are `f.data`, `f.len`. */
#ifndef ANFI_PROTO_WIRE_H
#define ANFI_PROTO_WIRE_H

#include "base/base.h"

typedef struct anfi_wire {
  const unsigned char *p, *end;
  bool bad;
} anfi_wire;

typedef enum anfi_wire_type {
  ANFI_WIRE_VARINT = 0,
  ANFI_WIRE_64 = 1,
  ANFI_WIRE_BYTES = 2,
  ANFI_WIRE_32 = 5
} anfi_wire_type;

typedef struct anfi_wire_field {
  uint32_t number;
  anfi_wire_type type;
  uint64_t u;       // varint, or the bits of a fixed number
  const char *data; // bytes
  size_t len;
} anfi_wire_field;

anfi_wire anfi_wire_of(const char *data, size_t len);
bool anfi_wire_next(anfi_wire *w, anfi_wire_field *f);
/* Appends the numbers of a repeated field, packed or one at a time. False if the list is cut short. */
typedef ANFI_VEC(int64_t) anfi_wire_ints;
typedef ANFI_VEC(double) anfi_wire_reals;
bool anfi_wire_add_ints(const anfi_wire_field *f, anfi_arena *a, anfi_wire_ints *to);
bool anfi_wire_add_reals(const anfi_wire_field *f, anfi_wire_type each, anfi_arena *a,
                         anfi_wire_reals *to); // each is 32 or 64 bits wide
float anfi_wire_float(uint64_t u);
double anfi_wire_double(uint64_t u);

/* Writing: fields are appended to a text. A message within it is written between open and close:
 *   size_t at = anfi_wire_open(o, 7);  ...  anfi_wire_close(o, at); */
size_t anfi_wire_open(anf_text *o, uint32_t number);
void anfi_wire_close(anf_text *o, size_t at);
void anfi_wire_put_varint(anf_text *o, uint32_t number, uint64_t v);
void anfi_wire_put_bytes(anf_text *o, uint32_t number, const char *p, size_t n);
void anfi_wire_put_text(anf_text *o, uint32_t number, const char *s);
void anfi_wire_put_float(anf_text *o, uint32_t number, float v);
void anfi_wire_put_double(anf_text *o, uint32_t number, double v);

#endif
