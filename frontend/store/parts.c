// SPDX-License-Identifier: Apache-2.0
/* safetensors in parts, which several writers have written: a file that names the parts, with the tensors that are whole in it,
 * and beside it a file for each part.
 *
 *   net.safetensors            turn: a, parts: 4, sum and sums: CRC-32, "whole w": "-1 64 128", tensors that are whole
 *   net.safetensors.part-a-0   w: f32[2048]: elements 0 to 2047 of w in row-major order, or a block of its axis
 *
 * Part r of n elements in a row begins at r c, with c = ceil(n / parts); what the last part has past the end is not read.
 * INVARIANT: a part is read after its sum is checked: it is the one that was written with the file that names it. */
#include "anfora/store.h"
#include "frontend/store/store.h"

#include <stdlib.h>
#include <zlib.h>

enum { MOST_PARTS = 1 << 16 };

typedef struct cut {
  const char *name, *text;
  int64_t axis; // -1: in a row
  size_t rank;
  int64_t dims[ANF_MAX_RANK]; // of the whole
  anf_value *whole;           // made when the first part is read
} cut;

typedef struct joining {
  anf_ctx *cx;
  anfi_arena *a;
  const char *path, *step, *sums;
  char turn;
  int64_t parts;
  ANFI_VEC(cut) cut;
} joining;

uint32_t anfi_part_sum(uint32_t sum, const char *name, const void *p, size_t n) {
  sum = (uint32_t)crc32_z(sum, (const Bytef *)name, strlen(name) + 1);
  return n ? (uint32_t)crc32_z(sum, (const Bytef *)p, n) : sum;
}

const char *anfi_part_path(anfi_arena *a, const char *path, char turn, int64_t part) {
  return anfi_sprintf(a, "%s.part-%c-%lld", path, turn, (long long)part);
}

char anfi_part_turn(const char *path) {
  static const char start[] = ANFI_PARTS_START;
  char head[8 + sizeof start];
  bool is = anfi_os_head(path, head, sizeof head) == sizeof head &&
            memcmp(head + 8, start, sizeof start - 1) == 0;
  return is && (head[sizeof head - 1] == 'a' || head[sizeof head - 1] == 'b')
             ? head[sizeof head - 1]
             : 0;
}

static bool bad(const joining *j, const char *path, const char *why) {
  return anfi_fail(j->cx, anfi_nowhere(), ANF_E0351, path, why);
}

static const char *text_of(const anf_value *meta, const char *name) {
  const anf_value *v = anfi_record_item(meta, name);
  return v && v->kind == ANF_VALUE_STRING ? v->u.text : "";
}

/* ---- the file that names the parts ---- */

static bool take_cut(joining *j, const char *name, const char *text) {
  cut c = {.name = name, .text = text};
  char *end;
  c.axis = strtoll(text, &end, 10);
  bool good = end != text;
  for (; good && *end; c.rank++) {
    const char *at = end;
    good = c.rank < ANF_MAX_RANK;
    if (good) c.dims[c.rank] = strtoll(at, &end, 10);
    good = good && end != at && c.dims[c.rank] >= 0;
  }
  good = good && c.axis >= -1 && c.axis < (int64_t)c.rank &&
         anfi_type_checked(j->cx, ANF_C128, c.rank, c.dims) != NULL &&
         (c.axis < 0 || c.dims[c.axis] % j->parts == 0);
  if (good) anfi_push(j->a, &j->cut, c);
  return good || bad(j, j->path, "how a tensor is cut into parts is no text for that");
}

static bool take_cuts(joining *j, const anf_value *meta) {
  static const char start[] = ANFI_PARTS_WHOLE;
  bool good = true;
  for (size_t i = 0; i < meta->n && good; i++) {
    const char *name = meta->type->names[i]->s;
    if (strncmp(name, start, sizeof start - 1) == 0)
      good = take_cut(j, name + sizeof start - 1, meta->u.item[i]->u.text);
  }
  return good;
}

/* The sum of the file itself. */
static bool is_sound(const joining *j, const anf_value *v, const anf_value *meta) {
  const char *seed =
      anfi_sprintf(j->a, "%s %lld %c %s", j->step, (long long)j->parts, j->turn, j->sums);
  uint32_t sum = anfi_part_sum(0, seed, NULL, 0);
  for (size_t i = 0; i < j->cut.n; i++)
    sum = anfi_part_sum(sum, j->cut.at[i].name, j->cut.at[i].text, strlen(j->cut.at[i].text));
  for (size_t i = 0; i < v->n; i++) {
    const anf_value *t = v->u.item[i];
    sum = anfi_part_sum(sum, v->type->names[i]->s, t->data, anfi_type_bytes(t->type));
  }
  return strcmp(anfi_sprintf(j->a, "%08x", sum), text_of(meta, "index")) == 0 ||
         anfi_fail(j->cx, anfi_nowhere(), ANF_E1124, j->path);
}

static bool take_index(joining *j, const anf_value *v, const anf_value *meta) {
  char *end;
  const char *parts = text_of(meta, "parts"), *turn = text_of(meta, "turn");
  j->step = text_of(meta, "step");
  j->sums = text_of(meta, "sums");
  j->turn = *turn;
  j->parts = strtoll(parts, &end, 10);
  bool good = *parts && !*end && j->parts > 0 && j->parts <= MOST_PARTS &&
              strlen(j->sums) == 9 * (size_t)j->parts - 1 && (*turn == 'a' || *turn == 'b') &&
              !turn[1];
  if (!good) return bad(j, j->path, "what it says of its parts is not whole");
  return take_cuts(j, meta) && is_sound(j, v, meta);
}

/* ---- parts ---- */

/* Elements of a block of the part, and how many blocks it has. False: it is no part of the whole. */
static bool find_blocks(const joining *j, const cut *c, const anf_type *t, size_t *block,
                        size_t *blocks) {
  size_t n = 1;
  for (size_t i = 0; i < c->rank; i++) n *= (size_t)c->dims[i];
  *blocks = 1;
  *block = (n + (size_t)j->parts - 1) / (size_t)j->parts;
  if (c->axis < 0) return t->n == 1 && t->dims[0] == (int64_t)*block;
  bool same = t->n == c->rank;
  for (size_t i = 0; i < c->rank && same; i++)
    same = t->dims[i] == c->dims[i] / ((int64_t)i == c->axis ? j->parts : 1);
  for (int64_t i = 0; i < c->axis; i++) *blocks *= (size_t)c->dims[i];
  *block = *blocks ? n / (size_t)j->parts / *blocks : 0;
  return same;
}

static void make_whole(const joining *j, cut *c, anf_dtype d) {
  const anf_type *t = anfi_type_checked(j->cx, d, c->rank, c->dims);
  c->whole = anfi_value_new_tensor(j->cx, t);
  anfi_defer(j->cx, ANFI_ALWAYS, anfi_release, c->whole);
}

static bool copy_part(joining *j, cut *c, const anf_value *part, int64_t r, const char *path) {
  size_t blocks, n = 0, block;
  if (!part || !find_blocks(j, c, part->type, &block, &blocks))
    return bad(j, path, "it has no such part of a tensor as the file that names it says");
  if (!c->whole) make_whole(j, c, (anf_dtype)part->type->dtype);
  if (c->whole->type->dtype != part->type->dtype)
    return bad(j, path, "its element type is another than that of the first part");
  size_t size = anf_dtype_bytes((anf_dtype)part->type->dtype),
         all = anfi_type_bytes(c->whole->type);
  block *= size;
  for (size_t i = 0; i < blocks; i++) {
    size_t at = (c->axis < 0 ? (size_t)r : i * (size_t)j->parts + (size_t)r) * block;
    n = at >= all ? 0 : all - at < block ? all - at : block;
    if (n) memcpy(c->whole->data + at, part->data + i * block, n);
  }
  return true;
}

static bool copy_parts(joining *j, const anf_value *v, int64_t r, const char *path) {
  const char *seed = anfi_sprintf(j->a, "%s %lld %lld", j->step, (long long)r, (long long)j->parts);
  uint32_t sum = anfi_part_sum(0, seed, NULL, 0);
  for (size_t i = 0; i < j->cut.n; i++) {
    const anf_value *t = anfi_record_item(v, j->cut.at[i].name);
    if (t) sum = anfi_part_sum(sum, j->cut.at[i].name, t->data, anfi_type_bytes(t->type));
  }
  if (strncmp(anfi_sprintf(j->a, "%08x", sum), j->sums + 9 * r, 8) != 0)
    return anfi_fail(j->cx, anfi_nowhere(), ANF_E1124, path);
  bool good = true;
  for (size_t i = 0; i < j->cut.n && good; i++)
    good = copy_part(j, &j->cut.at[i], anfi_record_item(v, j->cut.at[i].name), r, path);
  return good;
}

static bool read_part(joining *j, int64_t r) {
  anf_value *v = NULL;
  const char *path = anfi_part_path(j->a, j->path, j->turn, r);
  anf_status st = anfi_load_one(j->cx, path, &v, NULL);
  if (st != ANF_OK) return anfi_fail_as(j->cx, st);
  anfi_value_guard(v);
  bool good = copy_parts(j, v, r, path);
  anfi_value_unguard(v);
  anf_value_release(v); // one part at a time is in memory
  return good;
}

anf_value *anfi_parts_join(anf_ctx *cx, const char *path, const anf_value *v,
                           const anf_value *meta) {
  anfi_arena *a = anfi_scratch(cx);
  joining j = {.cx = cx, .a = a, .path = path};
  if (!take_index(&j, v, meta)) return NULL;
  for (int64_t r = 0; r < j.parts; r++)
    if (!read_part(&j, r)) return NULL;
  size_t n = v->n + j.cut.n;
  const char **name = ANFI_NEW_N(a, const char *, n + 1);
  anf_value **all = ANFI_NEW_N(a, anf_value *, n + 1);
  for (size_t i = 0; i < n; i++) {
    name[i] = i < v->n ? v->type->names[i]->s : j.cut.at[i - v->n].name;
    all[i] = i < v->n ? v->u.item[i] : j.cut.at[i - v->n].whole;
    if (i >= v->n && anfi_record_item(v, name[i]))
      return bad(&j, path, "a tensor is whole and in parts"), NULL;
  }
  anf_value *out = anf_value_record(cx, n, name, all);
  if (!out) anfi_throw_nomem(cx);
  return out;
}
