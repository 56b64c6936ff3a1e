// SPDX-License-Identifier: Apache-2.0
/* Communicators: ranks, one program each, that exchange tensors.
 *
 * A provider moves bytes between ranks: it fills the table anf_comm_link. A communicator is made of one link and
 * does everything else: the order of operations, sums in a fixed order, buckets, time limits, errors that name a
 * rank. One link comes with the library: threads of one process (anf_comm_threads, below).
 *
 * Operations of one communicator run in the order in which they are started, on a thread of its own, which alone
 * calls the link. All ranks must start the same operations in the same order.
 *
 * Two ranks of one process add their numbers.
 *
 * Example:
 *   anf_comm *ranks[2];
 *   anf_comm_opts each_alone = {.size = sizeof each_alone, .bucket_bytes = 1}; // for one thread that plays both ranks
 *   bool made = anf_comm_threads(2, &each_alone, ranks), good = made;
 *   double x[2] = {1, 2};
 *   int64_t ticket[2];
 *   for (int r = 0; good && r < 2; r++)
 *     ticket[r] = anf_comm_start(ranks[r], &(anf_comm_call){.size = sizeof(anf_comm_call), .kind = ANF_COMM_ALL_REDUCE,
 *                                                           .dtype = ANF_F64, .in = &x[r], .out = &x[r], .n = 1});
 *   for (int r = 0; good && r < 2; r++) good = anf_comm_wait(ranks[r], ticket[r], NULL);
 *   for (int r = 0; made && r < 2; r++) anf_comm_free(ranks[r]);
 *   good = good && x[0] == 3 && x[1] == 3;
 */
#ifndef ANFORA_COMM_H
#define ANFORA_COMM_H

#include "anfora/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct anf_comm anf_comm;

/* ---- what went wrong ---- */
typedef enum anf_comm_why {
  ANF_COMM_FINE,
  ANF_COMM_LATE,   // the rank did not take part within the time limit
  ANF_COMM_LOST,   // the rank has ended, or gave up
  ANF_COMM_RANKS,  // the program is made for another number of ranks: `rank` is the number there is
  ANF_COMM_BROKEN, // the link failed, or memory is used up
  ANF_COMM_WHY_COUNT
} anf_comm_why;
typedef struct anf_comm_error {
  anf_comm_why why;
  int32_t rank; // that the others wait for; -1: none in particular
  uint64_t ms;  // how long it was waited for
} anf_comm_error;
ANF_API const char *anf_comm_why_name(anf_comm_why w); // "gave no sign"

/* ---- what a provider fills ----
 * Only the communicator's own thread calls these functions, but for `abort`, `awaited` and `free`. */
typedef struct anf_comm_link {
  size_t size;
  void *user;
  int32_t rank, ranks;
  /* Starts to send the bytes to `peer`, or to receive them. Messages of one pair and tag arrive in their order; a tag
   * is at least 0 and below 2^30. Returns a request, or NULL if the link failed. */
  void *(*start)(void *user, bool send, int32_t peer, int32_t tag, void *at, uint64_t bytes);
  /* Waits for a request for at most so many milliseconds. ANF_COMM_LATE: it is still under way. After any other answer the
   * request is gone. `*rank` is set if another rank than the peer is to blame. */
  anf_comm_why (*wait)(void *user, void *request, uint64_t ms, int32_t *rank);
  void (*cancel)(void *user,
                 void *request); // forgets it, and does not touch its memory from now on
  /* Tells the other ranks that this one gives up, and who is to blame; -1: this one. From any thread. */
  void (*abort)(void *user, int32_t blame);
  /* After a failure: a new link of the ranks that call this within the limit. Sets rank and ranks in `link`.
   * NULL: this link cannot. */
  bool (*reinit)(void *user, uint64_t ms, struct anf_comm_link *link);
  void (*free)(void *user);
  /* The host waits for what is under way, or no longer: while it does, its core is free to look for messages. May be NULL. */
  void (*awaited)(void *user, bool is);
  /* That messages go a slower way than they could, and why, as text that stays; NULL: they do not. */
  const char *note;
} anf_comm_link;

/* ---- communicators ---- */
/* How sums over ranks are added. All ranks choose alike. */
typedef enum anf_comm_order {
  ANF_COMM_BY_RANK, // in pairs of ranks, in 64 bits, rounded once
  /* In the same pairs, but f32 is rounded after each addition; and on 8, 16 .. ranks AllReduces of f32 and f64 take 2 log2(ranks)
   * messages in place of 2 (ranks - 1). The same bits on all ranks and in every run; on two ranks those of ANF_COMM_BY_RANK, unless
   * the sum of a mean is beyond f32. */
  ANF_COMM_FAST,
  ANF_COMM_ORDER_COUNT
} anf_comm_order;
typedef struct anf_comm_opts {
  size_t size;
  uint64_t timeout_ms; // that an operation waits for the other ranks; default 60000
  /* AllReduces are run together until they have this many bytes, or this rank waits for one of them: a thread that plays several
   * ranks must start those of all before it waits, and they must be full. Default 64 KB; 1: each alone. */
  uint64_t bucket_bytes;
  anf_comm_order order;
} anf_comm_opts;

/* A communicator of this link, which it takes and frees. NULL when out of memory, or when the options set what this
 * library does not know; then the link is still the caller's. */
ANF_API anf_comm *anf_comm_new(const anf_comm_link *link, const anf_comm_opts *o);
/* n ranks in one process: out[i] is for the thread that is rank i. All are freed one by one, by any thread. False when
 * out of memory. */
ANF_API bool anf_comm_threads(int32_t n, const anf_comm_opts *o, anf_comm **out);
/* Waits until the operations that were started are done, or have failed. c may be NULL. */
ANF_API void anf_comm_free(anf_comm *c);
ANF_API int32_t anf_comm_rank(const anf_comm *c);  // 0 without a communicator (NULL)
ANF_API int32_t anf_comm_ranks(const anf_comm *c); // 1 without
/* The note of its link: why messages go a slower way than they could. NULL: they do not. */
ANF_API const char *ANF_NULLABLE anf_comm_note(const anf_comm *ANF_NULLABLE c);
/* This rank gives up: operations of the others fail, and name `blame`, or this rank if it is -1. */
ANF_API void anf_comm_abort(anf_comm *c, int32_t blame);
/* After a failure: goes on with the ranks that call this within the time limit, which get new numbers in the
 * order of the old ones. False: the link cannot, or no other rank came; the communicator stays as it is. */
ANF_API bool anf_comm_reinit(anf_comm *c);
/* What failed; `why` is ANF_COMM_FINE if nothing did. Every operation after a failure fails alike, until reinit. */
ANF_API void anf_comm_failure(const anf_comm *c, anf_comm_error *out);

/* ---- operations ---- */
typedef enum anf_comm_kind {
  ANF_COMM_ALL_REDUCE,     // out[i] = sum over ranks of in[i]
  ANF_COMM_REDUCE_SCATTER, // part `rank` of that sum: out has n / ranks elements
  ANF_COMM_REDUCE,         // that sum on the rank `root`, zeros elsewhere
  ANF_COMM_ALL_GATHER,     // in of all ranks, one after the other: out has n * ranks elements
  ANF_COMM_BROADCAST,      // in of the rank `root`
  ANF_COMM_ALL_TO_ALL,     // part p of out is part `rank` of in of rank p
  ANF_COMM_SEND_RECV, // sends in to `to`, receives out from `from`; -1: nobody, out is then zeros
  ANF_COMM_KIND_COUNT
} anf_comm_kind;
/* Sums are those of the ranks in pairs, ((0 + 1) + (2 + 3)) and so on: in 64 bits, rounded once, unless the communicator has another
 * order. So they have the same bits in every run. */
typedef struct anf_comm_call {
  size_t size;
  anf_comm_kind kind;
  anf_dtype dtype; // of sums a real or complex number; else anything
  bool mean;       // sums are divided by the number of ranks
  const void *in;  // may be `out` of as many elements
  void *out;
  uint64_t n; // elements of in
  int32_t root, to, from;
  int32_t ranks; // that the caller counts on: another number of ranks is an error; 0: any
} anf_comm_call;
/* Starts an operation, whose memory must stay until anf_comm_wait. Returns its ticket. Without a communicator (NULL)
 * it is the operation of one rank, and done at once. */
ANF_API int64_t anf_comm_start(anf_comm *ANF_NULLABLE c, const anf_comm_call *call);
/* Waits until the operation is done. False: it failed; `e` may be NULL. */
ANF_API bool anf_comm_wait(anf_comm *ANF_NULLABLE c, int64_t ticket, anf_comm_error *e);

/* ---- programs ---- */
/* Programs of the context that the host runs from now on, interpreted or compiled, are this rank; NULL, as at first: there
 * is one rank. Steps have an option of their own (anfora/step.h), and objects run with that of their stream. */
ANF_API void anf_ctx_set_comm(anf_ctx *cx, anf_comm *ANF_NULLABLE c);
struct anf_stream;
ANF_API void anf_stream_set_comm(struct anf_stream *s, anf_comm *ANF_NULLABLE c);
ANF_API anf_comm *anf_stream_comm(const struct anf_stream *s); // or NULL

/* ---- figures ---- */
enum { ANF_COMM_SIZES = 5 };
/* How long an AllReduce takes, the shortest of a few, and the bucket that follows. */
typedef struct anf_comm_curve {
  uint64_t bytes[ANF_COMM_SIZES], ns[ANF_COMM_SIZES]; // 16 KB to 4 MB
  uint64_t bucket_bytes;
} anf_comm_curve;
/* Measures that curve, some tens of ms. Then a bucket has an eighth of what is left of a sweep's gradients, at most bucket_bytes: the
 * smallest with 4 / 5 of the best rate. All ranks call this at once, and take what rank 0 found. False: it failed, or one is alone. */
ANF_API bool anf_comm_tune(anf_comm *ANF_NULLABLE c, anf_comm_curve *ANF_NULLABLE out);

/* What the communicator has done so far. */
typedef struct anf_comm_counts {
  size_t size;
  uint64_t operations, buckets; // AllReduces that ran together are one bucket
  uint64_t bytes;               // sent by this rank
  uint64_t busy_ns, waited_ns;  // that operations took; that anf_comm_wait waited for them
  uint64_t slow;                // operations that went a slower way than they could (anf_comm_note)
  /* Of busy_ns and of waited_ns: before a message of every other rank had come that takes part. The rest is communication. */
  uint64_t late_ns, late_waited_ns;
} anf_comm_counts;
ANF_API void anf_comm_count(const anf_comm *c, anf_comm_counts *out);

#ifdef __cplusplus
}
#endif
#endif
