// SPDX-License-Identifier: Apache-2.0
/* Checkpoints in parts: each rank writes what it holds of the sharded state, and rank 0 a file that names the parts, with the
 * leaves that all hold (frontend/store/parts.c says how they look, and reads them).
 *
 *   rank 0: turn, Broadcast | each rank: its part, on the disk | AllGather of sums | rank 0: the file that names them |
 *   rank 0 removes the parts that were named before
 *
 * INVARIANT: a file that is named is neither written to nor removed before another set is named, whose files have other names:
 * wherever the ranks end, the checkpoint before is whole, or this one. */
#include "anfora/store.h"
#include "frontend/store/store.h"
#include "step/step.h"

typedef struct outcome { // of a rank
  uint64_t sum, good;
} outcome;

typedef struct saving {
  const anf_step *s;
  anfi_arena *a;
  const char *path, *step, *sums;
  char turn;
  size_t nmore; // texts of the host
  const char *const *more;
} saving;

static bool exchange(const anf_step *s, anf_comm_kind kind, const char *name, const void *in,
                     void *out, uint64_t n) {
  anf_comm_error e;
  anf_comm_call k = {
      .size = sizeof k, .kind = kind, .dtype = ANF_U64, .in = in, .out = out, .n = n};
  if (anf_comm_wait(s->o.comm, anf_comm_start(s->o.comm, &k), &e)) return true;
  if (!anfi_failed(s->cx))
    anfi_fail(s->cx, anfi_nowhere(), anfi_collective_code(e.why), name, (long long)e.rank,
              (long long)e.ms);
  return false;
}

/* The tensors whose leaves are sharded, or those that are not. */
static size_t tensors(const saving *k, bool sharded, anfi_stored *out) {
  size_t n = 0;
  for (size_t i = 0; i < k->s->nleaf[ANF_STATE]; i++) {
    const anfi_step_leaf *l = &k->s->leaf[ANF_STATE][i];
    if (sharded == (l->whole != NULL)) out[n++] = (anfi_stored){l->name, l->type, l->at};
  }
  return n;
}

static uint32_t sum_of(uint32_t sum, size_t n, const anfi_stored *t) {
  for (size_t i = 0; i < n; i++)
    sum = anfi_part_sum(sum, t[i].name, t[i].data, anfi_type_bytes(t[i].type));
  return sum;
}

static outcome write_part(const saving *k) {
  const anf_step *s = k->s;
  anfi_stored *t = ANFI_NEW_N(k->a, anfi_stored, s->nleaf[ANF_STATE] + 1);
  size_t n = tensors(k, true, t);
  const char *seed = anfi_sprintf(k->a, "%s %d %d", k->step, s->rank, s->ranks);
  const char *meta[] = {"format", "anfora", "step",
                        k->step,  "part",   anfi_sprintf(k->a, "%d", s->rank)};
  const char *path = anfi_part_path(k->a, k->path, k->turn, s->rank);
  bool good = anfi_save_fetched(s->cx, n, t, 3, meta, path, NULL, NULL);
  return (outcome){sum_of(anfi_part_sum(0, seed, NULL, 0), n, t), good};
}

/* "-1 64 128": its axis, and the dims of the whole. */
static const char *cut_of(const saving *k, const anfi_step_leaf *l) {
  anf_text *o = anfi_text_begin(k->s->cx);
  anfi_putf(o, "%d", l->axis);
  for (uint32_t i = 0; i < l->whole->n; i++) anfi_putf(o, " %lld", (long long)l->whole->dims[i]);
  const char *text = anfi_strndup(k->a, o->text, o->len);
  anfi_text_done(o);
  return text;
}

static bool write_index(const saving *k) {
  const anf_step *s = k->s;
  ANFI_VEC(const char *) meta = {0};
  anfi_stored *t = ANFI_NEW_N(k->a, anfi_stored, s->nleaf[ANF_STATE] + 1);
  const char *turn = anfi_sprintf(k->a, "%c", k->turn), *parts = anfi_sprintf(k->a, "%d", s->ranks);
  const char *start[] = {"turn",  turn,    "format", "anfora", "step",
                         k->step, "parts", parts,    "sums",   k->sums};
  const char *seed = anfi_sprintf(k->a, "%s %s %s %s", k->step, parts, turn, k->sums);
  uint32_t sum = anfi_part_sum(0, seed, NULL, 0);
  for (size_t i = 0; i < ANFI_LEN(start); i++) anfi_push(k->a, &meta, start[i]);
  for (size_t i = 0; i < 2 * k->nmore; i++) anfi_push(k->a, &meta, k->more[i]);
  for (size_t i = 0; i < s->nleaf[ANF_STATE]; i++) {
    const anfi_step_leaf *l = &s->leaf[ANF_STATE][i];
    if (!l->whole) continue;
    const char *text = cut_of(k, l);
    anfi_push(k->a, &meta, anfi_sprintf(k->a, "%s%s", ANFI_PARTS_WHOLE, l->name));
    anfi_push(k->a, &meta, text);
    sum = anfi_part_sum(sum, l->name, text, strlen(text));
  }
  size_t n = tensors(k, false, t);
  anfi_push(k->a, &meta, "index");
  anfi_push(k->a, &meta, anfi_sprintf(k->a, "%08x", sum_of(sum, n, t)));
  return anfi_save_fetched(s->cx, n, t, meta.n / 2, meta.at, k->path, NULL, NULL);
}

static bool there(const char *path) {
  char c;
  return anfi_os_head(path, &c, 1) == 1;
}

/* Not that of the file that is there; of one that says nothing of itself, that of which no part is there. */
static char next_turn(anfi_arena *a, const char *path) {
  char turn = anfi_part_turn(path);
  return turn ? (turn == 'a' ? 'b' : 'a') : there(anfi_part_path(a, path, 'a', 0)) ? 'b' : 'a';
}

/* From part r on. The last goes first, so that they stay without a gap. */
static void remove_parts(anfi_arena *a, const char *path, char turn, int64_t r) {
  int64_t end = r;
  while (there(anfi_part_path(a, path, turn, end))) end++;
  while (end-- > r) anfi_os_remove(anfi_part_path(a, path, turn, end));
}

void anfi_step_remove_parts(anf_ctx *cx, const char *path) {
  remove_parts(anfi_scratch(cx), path, 'a', 0);
  remove_parts(anfi_scratch(cx), path, 'b', 0);
}

static bool all_good(const saving *k, const outcome *all) {
  bool good = true;
  for (int32_t r = 0; r < k->s->ranks; r++) good &= all[r].good != 0;
  return good;
}

static void save_parts(saving *k) {
  const anf_step *s = k->s;
  uint64_t turn = s->rank ? 0 : (uint64_t)next_turn(k->a, k->path);
  if (!anfi_step_together(s) || !exchange(s, ANF_COMM_BROADCAST, "Broadcast", &turn, &turn, 1))
    return;
  k->turn = (char)turn;
  outcome mine = write_part(k), *all = ANFI_NEW_N(k->a, outcome, (size_t)s->ranks);
  if (!exchange(s, ANF_COMM_ALL_GATHER, "AllGather", &mine, all, 2)) return;
  k->sums = "";
  for (int32_t r = 0; r < s->ranks; r++)
    k->sums = anfi_sprintf(k->a, "%s%s%08x", k->sums, r ? " " : "", (unsigned)all[r].sum);
  uint64_t good = all_good(k, all);
  if (good && !s->rank) good = write_index(k);
  if (!exchange(s, ANF_COMM_BROADCAST, "Broadcast", &good, &good, 1)) return;
  if (!good && !anfi_failed(s->cx)) anfi_fail(s->cx, anfi_nowhere(), ANF_E1228, k->path);
  if (!good || s->rank) return;
  remove_parts(k->a, k->path, k->turn == 'a' ? 'b' : 'a', 0);
  remove_parts(k->a, k->path, k->turn, s->ranks); // of more ranks than there are now
}

static void save(const anf_step *s, const char *path, size_t nmore, const char *const *more) {
  saving k = {.s = s, .a = anfi_scratch(s->cx), .path = path, .nmore = nmore, .more = more};
  k.step = anfi_sprintf(k.a, "%llu", (unsigned long long)s->count);
  save_parts(&k);
}

anf_status anf_step_save_parts(const anf_step *s, const char *path, size_t nmeta,
                               const char *const *meta, anf_diag *d) {
  ANFI_NEED(d, s, path);
  if (nmeta) ANFI_NEED(d, meta);
  bool saves = anfi_step_saves_together(s) || !s->o.comm || !s->rank;
  if (!s->nsharded) return saves ? anf_step_save(s, path, d) : ANF_OK;
  ANFI_ENTRY(s->cx, d);
  if (anfi_step_idle(s)) save(s, path, nmeta, meta);
  return anfi_leave(s->cx);
}
