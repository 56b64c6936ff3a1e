// SPDX-License-Identifier: Apache-2.0
/* The worklist of inference: specialisations to evaluate, those of callees first, a heap.
 *   def main() { t = (); for i in 0..3 { t = TupleConcat(t, (i,)) }; t[2] }
 * The loop settles, one specialisation a round, before main asks for an item of what it gives. First come, first served
 * within a component of the call graph. */
#include "optimizer/infer/infer.h"

static bool before(const anfi_inference *q, const anfi_spec *a, const anfi_spec *b) {
  uint32_t sa = q->an->graphs[a->graph->id].scc, sb = q->an->graphs[b->graph->id].scc;
  return sa != sb ? sa < sb : a->turn < b->turn;
}

void anfi_resume_spec(anfi_inference *q, anfi_spec *s) {
  if (s->queued) return;
  s->queued = true;
  anfi_push(q->arena, &q->queue, s);
  size_t i = q->queue.n - 1;
  for (; i && before(q, s, q->queue.at[(i - 1) / 2]); i = (i - 1) / 2)
    q->queue.at[i] = q->queue.at[(i - 1) / 2];
  q->queue.at[i] = s;
}

void anfi_enqueue_spec(anfi_inference *q, anfi_spec *s) {
  if (!s->queued) s->turn = q->turn++;
  anfi_resume_spec(q, s);
}

anfi_spec *anfi_next_spec(anfi_inference *q) {
  if (!q->queue.n) return NULL;
  anfi_spec *first = q->queue.at[0], *last = q->queue.at[--q->queue.n];
  size_t i = 0, n = q->queue.n;
  for (size_t k; (k = 2 * i + 1) < n; i = k) {
    if (k + 1 < n && before(q, q->queue.at[k + 1], q->queue.at[k])) k++;
    if (!before(q, q->queue.at[k], last)) break;
    q->queue.at[i] = q->queue.at[k];
  }
  if (n) q->queue.at[i] = last;
  first->queued = false;
  return first;
}
