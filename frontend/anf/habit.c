// SPDX-License-Identifier: Apache-2.0
/* Hints for habits of other languages (habit.def).
 *   a && b   ->   after the error: "'and' of bools is written a and b" */
#include "frontend/anf/anf.h"

static const struct {
  const char *expected, *text, *hint; // expected: NULL is anything
} habits[] = {
#define ANF_HABIT(text, hint)              {NULL, text, hint},
#define ANF_HABIT_AT(expected, text, hint) {expected, text, hint},
#include "frontend/anf/habit.def"
#undef ANF_HABIT
#undef ANF_HABIT_AT
};

static bool hint(anf_ctx *cx, const char *expected, const char *text, size_t n) {
  for (size_t i = 0; i < ANFI_LEN(habits); i++) {
    if (strncmp(text, habits[i].text, n) != 0 || habits[i].text[n] != 0) continue;
    if (habits[i].expected && (!expected || strcmp(expected, habits[i].expected) != 0)) continue;
    anfi_hint(cx, "%s", habits[i].hint);
    return true;
  }
  return false;
}

bool anfi_hint_habit(anf_ctx *cx, const char *text) { return hint(cx, NULL, text, strlen(text)); }

static bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* The begin of the word, or of the run of operators, that ends at `end`. */
static uint32_t run_before(const char *text, uint32_t end) {
  uint32_t at = end;
  if (at && is_word(text[at - 1]))
    while (at && is_word(text[at - 1])) at--;
  else
    while (at && !is_word(text[at - 1]) && !strchr(" \t\n()[]{},;\"'`", text[at - 1])) at--;
  return at;
}

void anfi_hint_stop(const parser *p, const char *expected) {
  const char *text = p->lx.text;
  uint32_t off = p->t.off, len = p->t.len, end = p->prev_end, from = run_before(text, end);
  if (hint(p->cx, expected, text + off, len) || from == end) return;
  if (end == off && hint(p->cx, NULL, text + from, off + len - from)) return; // "&" before "&"
  hint(p->cx, NULL, text + from, end - from);
}
