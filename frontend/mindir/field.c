// SPDX-License-Identifier: Apache-2.0
/* Fields of messages by field.def: those that are read come out; the others are counted, or refused by name.
 *   ModelProto.preprocessor, a row with REPORTED   ->   passed over; one warning W0102 when the file is read */
#include "frontend/mindir/mindir.h"

enum { FIELDS = 21 }; // numbers of rows are less
enum { NUMBERS_PACKED = 16, ENCODING_VARINT = ANFI_WIRE_VARINT, ENCODING_BYTES = ANFI_WIRE_BYTES };
enum { ENCODING_FIXED32 = ANFI_WIRE_32, ENCODING_FIXED64 = ANFI_WIRE_64 };
enum { ENCODING_NUMBERS = NUMBERS_PACKED };
typedef enum { NEWER, READ, IDLE, REPORTED, REFUSED } fate;

typedef struct {
  const char *message, *name;
  uint8_t encoding, fate;
} row;

static const row rows[][FIELDS] = {
#define MINDIR_FIELD(message, number, name, encoding, fate)                                        \
  [MI_##message][number] = {#message, #name, ENCODING_##encoding, fate},
#include "frontend/mindir/field.def"
#undef MINDIR_FIELD
};

/* Fields that are passed over, for one warning each: how often the file has them. */
typedef struct {
  const char *message, *name;
  size_t count;
} passed;
struct anfi_mi_passed {
  anfi_map at; // message and number -> 1 + index
  ANFI_VEC(passed) all;
};

void anfi_mi_pass(anfi_mi_fields *it, uint32_t number) {
  const row *known =
      number < FIELDS && rows[it->message][number].name ? &rows[it->message][number] : NULL;
  anfi_mi_model *m = it->model;
  if (!m->passed) {
    m->passed = ANFI_NEW(m->arena, anfi_mi_passed);
    *m->passed = (anfi_mi_passed){0};
    anfi_map_init(&m->passed->at, m->arena);
  }
  uint64_t *at = anfi_map_at(&m->passed->at, (uint64_t)(it->message + 1) << 32 | number);
  if (!*at) {
    passed p = {rows[it->message][1].message, known ? known->name : NULL, 0};
    if (!p.name) p.name = anfi_sprintf(m->arena, "%u", number);
    anfi_push(m->arena, &m->passed->all, p);
    *at = m->passed->all.n;
  }
  m->passed->all.at[*at - 1].count++;
}

static bool refuse(anfi_mi_fields *it, const row *known) {
  it->w.bad = true;
  return anfi_fail(it->model->cx, (anfi_loc){it->model->file, 0, 0}, ANF_E1592, known->name,
                   known->message);
}

static bool encoded_so(const row *known, anfi_wire_type type) {
  return known->encoding == NUMBERS_PACKED || known->encoding == type;
}

anfi_mi_fields anfi_mi_fields_of(anfi_mi_model *m, anfi_mi_message message, const char *data,
                                 size_t len) {
  return (anfi_mi_fields){m, message, anfi_wire_of(data, len)};
}

bool anfi_mi_next(anfi_mi_fields *it, anfi_wire_field *f) {
  while (anfi_wire_next(&it->w, f)) {
    const row *known = f->number < FIELDS ? &rows[it->message][f->number] : NULL;
    if (!known || known->fate == NEWER) anfi_mi_pass(it, f->number);
    else if (!encoded_so(known, f->type)) return !(it->w.bad = true);
    else if (known->fate == READ) return true;
    else if (known->fate == REPORTED) anfi_mi_pass(it, f->number);
    else if (known->fate == REFUSED) return refuse(it, known);
  }
  return false;
}

void anfi_mi_tell_passed(anfi_mi_model *m) {
  for (size_t i = 0; m->passed && i < m->passed->all.n; i++) {
    const passed *p = &m->passed->all.at[i];
    anfi_warn(m->cx, (anfi_loc){m->file, 0, 0}, ANF_W0102, p->name, p->message, p->count);
  }
}
