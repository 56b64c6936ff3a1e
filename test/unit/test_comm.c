// SPDX-License-Identifier: Apache-2.0
/* Communicators of threads: each op against plain loops on every engine, derivatives against the adjoint identity,
 * the order of sums, buckets, and failures. */
#define _DEFAULT_SOURCE // usleep
#include "test/unit/ranks.h"

#include "comm/comm.h"
#include <math.h>
#include <unistd.h>

/* ---- ops against plain loops ---- */

typedef struct op_case {
  const char *call;  // of x; %d: the number of ranks
  size_t more, less; // the result has n * more / less elements; 0: the number of ranks
  double (*want)(int32_t ranks, int32_t me, size_t n, size_t i);
} op_case;

static double x_of(int32_t me, size_t i) { return 1000.0 * me + (double)i + 0.25; }
static double sum_of(int32_t ranks, size_t i) {
  double s = 0;
  for (int32_t q = 0; q < ranks; q++) s += x_of(q, i);
  return s;
}
static double want_sum(int32_t ranks, int32_t me, size_t n, size_t i) {
  return (void)me, (void)n, sum_of(ranks, i);
}
static double want_mean(int32_t ranks, int32_t me, size_t n, size_t i) {
  return (void)me, (void)n, sum_of(ranks, i) / ranks;
}
static double want_last(int32_t ranks, int32_t me, size_t n, size_t i) {
  return (void)me, (void)n, x_of(ranks - 1, i);
}
static double want_first_sum(int32_t ranks, int32_t me, size_t n, size_t i) {
  return (void)n, me ? 0 : sum_of(ranks, i);
}
static double want_gather(int32_t ranks, int32_t me, size_t n, size_t i) {
  return (void)ranks, (void)me, x_of((int32_t)(i / n), i % n);
}
static double want_scatter(int32_t ranks, int32_t me, size_t n, size_t i) {
  return sum_of(ranks, (size_t)me * (n / (size_t)ranks) + i);
}
static double want_mean_scatter(int32_t ranks, int32_t me, size_t n, size_t i) {
  return want_scatter(ranks, me, n, i) / ranks;
}
static double want_all(int32_t ranks, int32_t me, size_t n, size_t i) {
  size_t part = n / (size_t)ranks;
  return x_of((int32_t)(i / part), (size_t)me * part + i % part);
}
static double want_left(int32_t ranks, int32_t me, size_t n, size_t i) {
  return (void)n, x_of((me + ranks - 1) % ranks, i);
}
static double want_chain(int32_t ranks, int32_t me, size_t n, size_t i) {
  return (void)n, (void)ranks, me ? x_of(me - 1, i) : 0;
}

static const op_case cases[] = {
    {"AllReduce(x)", 1, 1, want_sum},
    {"AllReduce(x, mean=true)", 1, 1, want_mean},
    {"Broadcast(x, root=%d - 1)", 1, 1, want_last},
    {"Reduce(x)", 1, 1, want_first_sum},
    {"AllGather(x, ranks=%d)", 0, 1, want_gather},
    {"ReduceScatter(x, ranks=%d)", 1, 0, want_scatter},
    {"ReduceScatter(x, ranks=%d, mean=true)", 1, 0, want_mean_scatter},
    {"AllToAll(x, ranks=%d)", 1, 1, want_all},
    {"SendRecv(x, (CommRank() + 1) %% CommSize(), (CommRank() + CommSize() - 1) %% CommSize())", 1,
     1, want_left},
    {"SendRecv(x, if CommRank() + 1 < CommSize() { CommRank() + 1 } else { -1 }, CommRank() - 1)",
     1, 1, want_chain},
};
enum { CASES = sizeof cases / sizeof *cases };

static size_t length(const op_case *c, int32_t ranks, size_t n) {
  return n * (c->more ? c->more : (size_t)ranks) / (c->less ? c->less : (size_t)ranks);
}

typedef struct job {
  const char *text;
  int engine;
  size_t nin, rows, n, nc; // nc: elements of a second argument, c
} job;

static double c_of(int32_t me, size_t i) { return (double)((i * 7 + (size_t)me * 3) % 11) - 5; }

static void call(rank *r) {
  const job *j = (const job *)r->user;
  size_t n = j->n * (j->rows ? j->rows : 1), rows[2] = {j->rows, 0}, len[2] = {j->n, j->nc};
  double *x = (double *)malloc((n + 1) * sizeof *x), *c = (double *)malloc((j->nc + 1) * sizeof *c);
  for (size_t i = 0; i < n; i++) x[i] = x_of(r->me, i);
  for (size_t i = 0; i < j->nc; i++) c[i] = c_of(r->me, i);
  call_program(r, j->text, j->engine, j->nin, rows, len, (const double *const[]){x, c});
  free(x);
  free(c);
}

static void write_call(char *out, size_t size, const op_case *c, int32_t ranks) {
  snprintf(out, size, c->call, (int)ranks);
}

static void check_op(const op_case *c, int engine, int32_t ranks, size_t n) {
  char op[200], text[400];
  rank r[MAX_RANKS];
  write_call(op, sizeof op, c, ranks);
  snprintf(text, sizeof text, "def f(x: f64[%zu]) { %s }", n, op);
  run_ranks(ranks, &(anf_comm_opts){.size = sizeof(anf_comm_opts), .timeout_ms = 20000}, call,
            &(job){text, engine, 1, 0, n, 0}, r);
  all_fine(ranks, r);
  for (int32_t k = 0; k < ranks; k++) {
    assert_int_equal(r[k].nout, length(c, ranks, n));
    for (size_t i = 0; i < r[k].nout; i++) {
      double want = c->want(ranks, k, n, i);
      if (r[k].out[i] != want)
        fail_msg("%s, engine %d, rank %d of %d, element %zu: %g, not %g", op, engine, (int)k,
                 (int)ranks, i, r[k].out[i], want);
    }
  }
  free_outs(ranks, r);
}

static void test_ops(void **state) {
  (void)state;
  for (size_t k = 0; k < CASES; k++) {
    for (int32_t ranks = 1; ranks <= 4; ranks++) check_op(&cases[k], BY_INTERP, ranks, 24);
    check_op(&cases[k], BY_INTERP, 3, 9000); // more than one round of messages
    check_op(&cases[k], BY_TIR, 2, 12);
    check_op(&cases[k], BY_LLVM, 3, 12);
    check_op(&cases[k], BY_CJIT, 2, 12);
  }
}

/* ---- derivatives: sum over ranks of <J' c, x> is that of <c, J x> ---- */

static void test_derivatives(void **state) {
  (void)state;
  enum { RANKS = 3, N = 12 };
  for (size_t k = 0; k < CASES; k++) {
    char op[200], text[600];
    rank r[RANKS], t[RANKS];
    size_t nc = length(&cases[k], RANKS, N);
    write_call(op, sizeof op, &cases[k], RANKS);
    snprintf(text, sizeof text,
             "def l(x: f64[%d], c: f64[%zu]) { Sum(%s * c) }\ndef f(x: f64[%d], c: f64[%zu]) { "
             "grad(l)(x, c) }",
             N, nc, op, N, nc);
    run_ranks(RANKS, NULL, call, &(job){text, k % 2 ? BY_LLVM : BY_INTERP, 2, 0, N, nc}, r);
    all_fine(RANKS, r);
    snprintf(text, sizeof text,
             "def o(x: f64[%d]) { %s }\ndef f(x: f64[%d]) { (y, t) = jvp(o, (x,), (x,))\n t }", N,
             op, N);
    run_ranks(RANKS, NULL, call, &(job){text, BY_INTERP, 1, 0, N, 0}, t);
    all_fine(RANKS, t);
    double back = 0, ahead = 0;
    for (int32_t q = 0; q < RANKS; q++) {
      for (size_t i = 0; i < N; i++) back += r[q].out[i] * x_of(q, i);
      for (size_t i = 0; i < nc; i++) {
        assert_true(t[q].out[i] ==
                    cases[k].want(RANKS, q, N, i)); // linear: the tangent is the op of x
        ahead += t[q].out[i] * c_of(q, i);
      }
    }
    if (fabs(back - ahead) > 1e-12 * fabs(ahead)) fail_msg("%s: %.17g and %.17g", op, back, ahead);
    free_outs(RANKS, r);
    free_outs(RANKS, t);
  }
}

/* ---- lanes: each row of a batch as alone ---- */

static void test_lanes(void **state) {
  (void)state;
  enum { RANKS = 2, N = 4, ROWS = 3 };
  for (size_t k = 0; k < CASES; k++) {
    char op[200], text[600];
    rank r[RANKS];
    size_t each = length(&cases[k], RANKS, N);
    write_call(op, sizeof op, &cases[k], RANKS);
    snprintf(text, sizeof text, "def o(x: f64[%d]) { %s }\ndef f(x: f64[%d, %d]) { vmap(o)(x) }", N,
             op, ROWS, N);
    run_ranks(RANKS, NULL, call, &(job){text, BY_LLVM, 1, ROWS, N, 0}, r);
    all_fine(RANKS, r);
    for (int32_t q = 0; q < RANKS; q++) {
      assert_int_equal(r[q].nout, ROWS * each);
      for (size_t i = 0; i < r[q].nout;
           i++) // x of row k is x of row 0 and N k: each op adds up as many as a row of ones
        if (cases[k].want == want_gather) {
          size_t row = i / each, at = i % each;
          assert_true(r[q].out[i] == x_of((int32_t)(at / N), row * N + at % N));
        } else if (cases[k].want == want_sum) assert_true(r[q].out[i] == sum_of(RANKS, i));
        else if (cases[k].want == want_scatter) {
          size_t row = i / each, at = i % each;
          assert_true(r[q].out[i] == sum_of(RANKS, row * N + (size_t)q * each + at));
        } else if (cases[k].want == want_left) assert_true(r[q].out[i] == x_of((q + 1) % RANKS, i));
    }
    free_outs(RANKS, r);
  }
}

/* ---- the order of sums: pairs of ranks, in f64, rounded once ---- */

static void reduce_once(rank *r) {
  const anf_comm_call *k = (const anf_comm_call *)r->user;
  anf_comm_call mine = *k;
  size_t bytes = (size_t)k->n * anf_dtype_bytes(k->dtype);
  anf_comm_error e;
  r->nout = (size_t)k->n;
  r->out = (double *)calloc(k->n + 1, 16);
  mine.in = (const char *)k->in + (size_t)r->me * bytes;
  mine.out = r->out;
  r->status = anf_comm_wait(r->comm, anf_comm_start(r->comm, &mine), &e) ? ANF_OK : ANF_INVALID;
}

static void test_order_of_sums(void **state) {
  (void)state;
  rank r[4];
  const double big = 9007199254740992.0; // 2^53: adding 1 is lost
  double x[4] = {big, 1, 1, 1};
  run_ranks(4, NULL, reduce_once,
            &(anf_comm_call){.size = sizeof(anf_comm_call),
                             .kind = ANF_COMM_ALL_REDUCE,
                             .dtype = ANF_F64,
                             .in = x,
                             .n = 1},
            r);
  all_fine(4, r);
  for (int i = 0; i < 4; i++) assert_true(r[i].out[0] == big + 2); // (big + 1) + (1 + 1)
  free_outs(4, r);
  float y[3] = {16777216, 1, 1}; // 2^24: rounded once, in f64
  run_ranks(3, NULL, reduce_once,
            &(anf_comm_call){.size = sizeof(anf_comm_call),
                             .kind = ANF_COMM_ALL_REDUCE,
                             .dtype = ANF_F32,
                             .in = y,
                             .n = 1},
            r);
  all_fine(3, r);
  for (int i = 0; i < 3; i++) assert_true(*(float *)r[i].out == 16777218);
  free_outs(3, r);
  int8_t z[2] = {100, 100}; // wraps
  run_ranks(2, NULL, reduce_once,
            &(anf_comm_call){.size = sizeof(anf_comm_call),
                             .kind = ANF_COMM_ALL_REDUCE,
                             .dtype = ANF_I8,
                             .in = z,
                             .n = 1},
            r);
  all_fine(2, r);
  assert_int_equal(*(int8_t *)r[1].out, -56);
  free_outs(2, r);
  uint16_t h[4] = {
      0x3c00,
      0x3c00,
      0x4000,
      0x3c00,
  }; // f16: 1, 1 | 2, 1; the mean
  run_ranks(2, NULL, reduce_once,
            &(anf_comm_call){.size = sizeof(anf_comm_call),
                             .kind = ANF_COMM_ALL_REDUCE,
                             .dtype = ANF_F16,
                             .mean = true,
                             .in = h,
                             .n = 2},
            r);
  all_fine(2, r);
  assert_int_equal(((uint16_t *)r[0].out)[0], 0x3e00); // 1.5
  assert_int_equal(((uint16_t *)r[0].out)[1], 0x3c00);
  free_outs(2, r);
}

/* ---- buckets: many AllReduces together, and the bytes that are sent ---- */

enum { PARTS = 40, PART = 301 };

static anf_comm_counts reduce_parts(rank *r) {
  double x[PARTS][PART];
  int64_t ticket[PARTS];
  r->status = ANF_OK;
  for (int p = 0; p < PARTS; p++) {
    for (int i = 0; i < PART; i++) x[p][i] = x_of(r->me, (size_t)(p * PART + i));
    ticket[p] = anf_comm_start(r->comm, &(anf_comm_call){.size = sizeof(anf_comm_call),
                                                         .kind = ANF_COMM_ALL_REDUCE,
                                                         .dtype = ANF_F64,
                                                         .in = x[p],
                                                         .out = x[p],
                                                         .n = PART});
  }
  for (int p = PARTS; p-- > 0;)
    if (!anf_comm_wait(r->comm, ticket[p], NULL)) r->status = ANF_INVALID;
  for (int p = 0; p < PARTS; p++)
    for (int i = 0; i < PART; i++)
      if (x[p][i] != sum_of(r->ranks, (size_t)(p * PART + i))) r->status = ANF_INTERNAL;
  anf_comm_counts n = {.size = sizeof n};
  anf_comm_count(r->comm, &n);
  return n;
}

static void reduce_many(rank *r) {
  const uint64_t *want = (const uint64_t *)r->user; // operations run together
  anf_comm_counts n = reduce_parts(r);
  uint64_t least =
      2 * PARTS * PART * sizeof(double) * ((uint64_t)r->ranks - 1) / (uint64_t)r->ranks;
  if (n.operations != PARTS || n.buckets != *want)
    snprintf(r->message, sizeof r->message, "%d buckets", (int)n.buckets), r->status = ANF_LIMIT;
  if (*want == 1 && (n.bytes < least - 64 || n.bytes > least + 64))
    snprintf(r->message, sizeof r->message, "%d bytes, not %d", (int)n.bytes, (int)least),
        r->status = ANF_LIMIT;
}

static void test_buckets(void **state) {
  (void)state;
  rank r[4];
  static const struct {
    uint64_t bytes, buckets;
  } with[] = {{1, PARTS}, {PART * 8 * 2, PARTS / 2}, {1 << 20, 1}};
  for (size_t i = 0; i < 3; i++)
    for (int32_t ranks = 2; ranks <= 4; ranks++) {
      run_ranks(ranks,
                &(anf_comm_opts){.size = sizeof(anf_comm_opts), .bucket_bytes = with[i].bytes},
                reduce_many, &with[i].buckets, r);
      all_fine(ranks, r);
    }
}

/* What rank 0 waits for rank 1, which begins 100 ms after it, is no communication. */
static pthread_barrier_t begun;

static void reduce_late(rank *r) {
  double x = 1;
  anf_comm_call k = {.size = sizeof k, .kind = ANF_COMM_ALL_REDUCE, .dtype = ANF_F64, .n = 1};
  k.in = k.out = &x;
  if (r->me) pthread_barrier_wait(&begun), usleep(100000);
  int64_t ticket = anf_comm_start(r->comm, &k);
  if (!r->me) pthread_barrier_wait(&begun);
  r->status = anf_comm_wait(r->comm, ticket, NULL) ? ANF_OK : ANF_INVALID;
  anf_comm_counts n = {.size = sizeof n};
  anf_comm_count(r->comm, &n);
  bool some = r->me || (n.late_ns > 0 && n.late_waited_ns > 0);
  bool good = some && n.late_ns <= n.busy_ns && n.late_waited_ns <= n.waited_ns;
  snprintf(r->message, sizeof r->message, "%d of %d us, %d of %d", (int)(n.late_ns / 1000),
           (int)(n.busy_ns / 1000), (int)(n.late_waited_ns / 1000), (int)(n.waited_ns / 1000));
  if (!good) r->status = ANF_LIMIT;
}

static void test_late(void **state) {
  (void)state;
  rank r[2];
  pthread_barrier_init(&begun, NULL, 2);
  run_ranks(2, NULL, reduce_late, NULL, r);
  pthread_barrier_destroy(&begun);
  all_fine(2, r);
}

/* Once the link is measured, and from the second round on, each bucket has an eighth of what is left. */
static void reduce_rounds(rank *r) {
  static const uint64_t want[] = {1, 15, 29}; // 40 parts, then 5, 5, 4, 4, 3, 3 and 8 * 2
  if (!anf_comm_tune(r->comm, NULL)) r->status = ANF_INVALID;
  anf_comm_counts before = {.size = sizeof before};
  anf_comm_count(r->comm, &before);
  r->comm->o.bucket_bytes = 1 << 20;
  r->comm->round.least = 2 * PART * sizeof(double);
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    anf_comm_counts n = reduce_parts(r);
    if (n.buckets - before.buckets == want[i]) continue;
    snprintf(r->message, sizeof r->message, "%d buckets", (int)(n.buckets - before.buckets));
    r->status = ANF_LIMIT;
  }
}

static void test_rounds(void **state) {
  (void)state;
  rank r[3];
  run_ranks(3, NULL, reduce_rounds, NULL, r);
  all_fine(3, r);
}

/* ---- failures name a rank ---- */

static const char program[] = "def f(x: f64[6]) { AllReduce(x * x) + AllReduce(x) }";

enum { HANGS, LEAVES, GIVES_UP, OTHER_PROGRAM, OTHER_RANKS, FAILURES };

static void fail_at_rank_2(rank *r) {
  int how = *(const int *)r->user;
  if (r->me == 2 && how == HANGS) usleep(2500000);
  if (r->me == 2 && how == GIVES_UP) anf_comm_abort(r->comm, -1);
  if (r->me == 2 && how <= GIVES_UP) return;
  const char *text = how == OTHER_RANKS ? "def f(x: f64[6]) { AllGather(x, ranks=2) }"
                     : how == OTHER_PROGRAM && r->me == 2
                         ? "def f(x: f64[6]) { Broadcast(x) + AllReduce(x) }"
                         : program;
  r->user = &(job){
      text,
      how == LEAVES ? BY_LLVM : how == GIVES_UP ? BY_CJIT : how == OTHER_RANKS ? BY_TIR : BY_INTERP,
      1,
      0,
      6,
      0};
  call(r);
}

static void test_failures(void **state) {
  (void)state;
  static const char *const code[FAILURES] = {"E1200", "E1201", "E1201", "E120", "E1202"};
  for (int how = 0; how < FAILURES; how++) {
    rank r[4];
    anf_comm *comm[4];
    anf_comm_opts o = {.size = sizeof o,
                       .timeout_ms = how == HANGS || how == OTHER_PROGRAM ? 1000 : 20000};
    assert_true(anf_comm_threads(4, &o, comm));
    if (how == LEAVES) {
      anf_comm_free(comm[2]);
      comm[2] = NULL;
    }
    run_ranks_on(4, comm, fail_at_rank_2, &how, r);
    for (int32_t i = 0; i < 4; i++) {
      if (i == 2 && how <= GIVES_UP) continue;
      assert_int_equal(r[i].status, ANF_INVALID);
      bool late =
          how == HANGS && strcmp(r[i].code, "E1201") == 0; // told so by one that waited longer
      if (strncmp(r[i].code, code[how], strlen(code[how])) != 0 && !late)
        fail_msg("rank %d, case %d: %s %s", (int)i, how, r[i].code, r[i].message);
      if (how < OTHER_PROGRAM && !strstr(r[i].message, "rank 2"))
        fail_msg("case %d: %s", how, r[i].message);
    }
    free_outs(4, r);
    for (int i = 0; i < 4; i++) anf_comm_free(comm[i]);
  }
}

/* Rank 0 waits for 1, which waits for 2, which waits for 3, which does nothing. Rank 0's time ends first. */
static void wait_in_a_row(rank *r) {
  double x = 1;
  if (r->me == 3) return;
  usleep(30000u * (unsigned)r->me);
  anf_comm_call k = {.size = sizeof k,
                     .kind = ANF_COMM_SEND_RECV,
                     .dtype = ANF_F64,
                     .in = &x,
                     .out = &x,
                     .n = 1,
                     .from = r->me + 1,
                     .to = -1};
  anf_comm_error e;
  bool good = anf_comm_wait(r->comm, anf_comm_start(r->comm, &k), &e);
  r->status = !good && e.rank == 3 ? ANF_OK : ANF_INVALID;
}

static void test_blame(void **state) {
  (void)state;
  rank r[4];
  run_ranks(4, &(anf_comm_opts){.size = sizeof(anf_comm_opts), .timeout_ms = 500}, wait_in_a_row,
            NULL, r);
  for (int i = 0; i < 3; i++) assert_int_equal(r[i].status, ANF_OK);
}

/* ---- a link that breaks ---- */

static void *broken_start(void *user, bool send, int32_t peer, int32_t tag, void *at,
                          uint64_t bytes) {
  (void)send, (void)peer, (void)tag, (void)at, (void)bytes;
  return user;
}
static anf_comm_why broken_wait(void *user, void *request, uint64_t ms, int32_t *who) {
  (void)user, (void)request, (void)ms, (void)who;
  return ANF_COMM_BROKEN;
}
static void broken_cancel(void *user, void *request) { (void)user, (void)request; }
static void broken_abort(void *user, int32_t blame) { (void)user, (void)blame; }
static void broken_free(void *user) { (void)user; }

static void test_broken_link(void **state) {
  (void)state;
  int user = 0;
  anf_comm_link link = {.size = sizeof link,
                        .user = &user,
                        .ranks = 2,
                        .start = broken_start,
                        .wait = broken_wait,
                        .cancel = broken_cancel,
                        .abort = broken_abort,
                        .free = broken_free};
  anf_comm *c = anf_comm_new(&link, NULL);
  assert_non_null(c);
  rank r[1];
  run_ranks_on(1, &c, call, &(job){program, BY_TIR, 1, 0, 6, 0}, r);
  assert_string_equal(r[0].code, "E1203");
  assert_false(anf_comm_reinit(c)); // the link cannot
  anf_comm_free(c);
}

/* ---- going on without a rank ---- */

static void go_on(rank *r) {
  if (r->me == 1) {
    usleep(1500000);
    r->status = anf_comm_reinit(r->comm) ? ANF_INTERNAL
                                         : ANF_OK; // too late: the others are a world of their own
    return;
  }
  double x = r->me + 1;
  anf_comm_call k = {
      .size = sizeof k, .kind = ANF_COMM_ALL_REDUCE, .dtype = ANF_F64, .in = &x, .out = &x, .n = 1};
  anf_comm_error e;
  bool first = anf_comm_wait(r->comm, anf_comm_start(r->comm, &k), &e);
  r->status = !first && e.rank == 1 && anf_comm_reinit(r->comm) ? ANF_OK : ANF_INVALID;
  if (anf_comm_ranks(r->comm) != 2 || anf_comm_rank(r->comm) != r->me / 2) r->status = ANF_LIMIT;
  x = r->me + 1;
  if (!anf_comm_wait(r->comm, anf_comm_start(r->comm, &k), &e) || x != 4) r->status = ANF_IO;
}

static void test_reinit(void **state) {
  (void)state;
  rank r[3];
  run_ranks(3, &(anf_comm_opts){.size = sizeof(anf_comm_opts), .timeout_ms = 300}, go_on, NULL, r);
  for (int i = 0; i < 3; i++) assert_int_equal(r[i].status, ANF_OK);
}

static void test_refused(void **state) {
  (void)state;
  anf_comm *c[1];
  struct {
    anf_comm_opts o;
    char more[8];
  } newer = {{.size = sizeof newer}, {1}};
  assert_false(anf_comm_threads(1, &newer.o, c));
  assert_false(anf_comm_threads(0, NULL, c));
  assert_null(anf_comm_new(NULL, NULL));
  assert_int_equal(anf_comm_ranks(NULL), 1);
  anf_comm_free(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ops),     cmocka_unit_test(test_derivatives),
      cmocka_unit_test(test_lanes),   cmocka_unit_test(test_order_of_sums),
      cmocka_unit_test(test_buckets), cmocka_unit_test(test_late),
      cmocka_unit_test(test_rounds),  cmocka_unit_test(test_failures),
      cmocka_unit_test(test_blame),   cmocka_unit_test(test_broken_link),
      cmocka_unit_test(test_reinit),  cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
