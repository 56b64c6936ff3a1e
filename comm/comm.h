// SPDX-License-Identifier: Apache-2.0
/* Communicators, inside.
 *
 * Glossary
 *   link      what moves bytes between two ranks (anf_comm_link)
 *   part      the memory of one tensor in an operation
 *   bucket    AllReduces that run as one operation over the concatenation of their parts
 *   ticket    number of an operation, from 1; those of one bucket share it
 * INVARIANT: the communicator's thread alone calls the link, one operation after the other, in the order of tickets. */
#ifndef ANFI_COMM_H
#define ANFI_COMM_H

#include <pthread.h>

#include "anfora/comm.h"

typedef struct anfi_comm_part {
  const char *in;
  char *out;
  uint64_t n; // elements of in
} anfi_comm_part;

typedef struct anfi_comm_job {
  struct anfi_comm_job *next;
  int64_t ticket;
  anf_comm_call call; // of the first part
  size_t npart, cap;
  anfi_comm_part *part;
  uint64_t n; // elements of all parts
} anfi_comm_job;

typedef struct anfi_comm_request {
  void *request; // NULL: done
  int32_t peer;
  bool send;
} anfi_comm_request;

/* An operation, or a bucket of them, has run; times in ns of the clock. Called on the communicator's thread, before those
 * who wait for the operation go on. */
typedef struct anfi_comm_watch {
  void (*fn)(void *user, anf_comm_kind k, uint64_t bytes, uint64_t from, uint64_t to);
  void *user;
} anfi_comm_watch;

/* What is started between two waits, as a backward sweep starts its gradients: in bytes of AllReduces. */
typedef struct anfi_comm_round {
  uint64_t least; // of a bucket, once anf_comm_tune has measured; 0: buckets have bucket_bytes
  uint64_t begun, closed; // so far, and what is in full buckets of it
  uint64_t expected;      // of a round: as much as rounds before had
  int64_t first;          // ticket of the round
} anfi_comm_round;

struct anf_comm {
  anf_comm_link link;
  anf_comm_opts o;
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t work, done; // for the thread; for those who wait
  /* guarded by the lock */
  anfi_comm_job *first, **last; // to be run
  anfi_comm_job *open;          // a bucket that is being filled: it has the next ticket
  int64_t next, ended;          // ticket of the next operation; of the last one that is done
  anfi_comm_round round;
  bool quit;
  anf_comm_error failed;
  int64_t failed_at; // the first operation that failed
  anf_comm_counts counts;
  anfi_comm_watch watch; // hears of what has run
  uint64_t waits_since;  // when the host began to wait; 0: it does not
  /* of the host's thread */
  uint64_t agreed;   // a sum of the rows of a step that all ranks were found to have alike; 0: none
  uint32_t patience; // of anfi_comm_give_turn
  /* the thread's own */
  uint32_t turn;              // of operations that all ranks take part in
  uint32_t *sent, *received;  // by peer: messages of SendRecv
  const void **from;          // by rank: the summands
  anfi_comm_request *request; // under way
  size_t nrequest, request_cap;
  uint64_t moved; // bytes that the current operation has sent
  uint64_t heard; // when it had a message of each rank that sends one; 0: not yet
  char *staging;  // what the other ranks sent
  size_t staging_bytes;
};

/* comm.c: c may be NULL. */
void anfi_comm_set_watch(anf_comm *c, anfi_comm_watch w);
/* comm.c: waits until nothing that was started is under way. What is in an open bucket is forgotten. */
void anfi_comm_drain(anf_comm *c);

/* A number of ranks, or of a rank, as code has it. Out of range: INT32_MAX, which is no rank. */
static inline int32_t anfi_comm_number(int64_t x) {
  return x >= -1 && x < INT32_MAX ? (int32_t)x : INT32_MAX;
}

/* tune.c: how many bytes the bucket that is open shall have. With the lock held. */
uint64_t anfi_comm_bucket(const anf_comm *c);

/* collective.c: runs the operation on the communicator's thread. False: `e` says why. */
bool anfi_comm_run(anf_comm *c, const anfi_comm_job *j, anf_comm_error *e);
/* The operation of one rank alone. */
void anfi_comm_alone(const anf_comm_call *call);

/* sum.c: to[i] = the sum of from[0][i], .. in pairs, divided by `divisor`. `to` may be one of them. Complex numbers are pairs of reals. */
uint64_t anfi_comm_bytes(anf_dtype d); // of an element
void anfi_comm_sum(anf_dtype d, anf_comm_order order, int32_t nfrom, const void *const *from,
                   uint64_t n, double divisor, void *to);

/* exchange.c: messages of one operation. Requests are collected until anfi_comm_finish waits for all of them. */
bool anfi_comm_post(anf_comm *c, bool send, int32_t peer, int32_t tag, const void *at,
                    uint64_t bytes, anf_comm_error *e);
bool anfi_comm_finish(anf_comm *c, uint64_t end,
                      anf_comm_error *e);             // until this time, in ns of the clock
char *anfi_comm_staging(anf_comm *c, uint64_t bytes); // NULL: no memory
uint64_t anfi_comm_now(void);                         // ns of a monotonic clock
struct timespec;
void anfi_comm_deadline(uint64_t ms, struct timespec *out); // of that clock
bool anfi_comm_sync_init(pthread_mutex_t *lock, pthread_cond_t *const *cond, size_t n);

/* shared.c: the link of a rank to those of other processes of this machine that call it with the same path, of a file of
 * theirs alone that is empty or not there. False: there are too many ranks, or no room for the file. It has no reinit. */
bool anfi_comm_shared(const char *path, int32_t rank, int32_t ranks, anf_comm_link *out);

/* turns.c: the calling thread runs soon after it wakes, and not for long, beside others that compute. Linux 6.12 knows of it. */
void anfi_comm_short_turns(void);
/* The calling thread, which computes, lets one whose turn it is run at once. */
void anfi_comm_give_turn(uint32_t *patience);

#endif
