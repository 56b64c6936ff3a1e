// SPDX-License-Identifier: Apache-2.0
/* anfora train --ranks: the command runs once for each rank, in a context of its own.
 *   anfora train --ranks 4                  four threads
 *   mpirun -n 4 anfora train --ranks 4      four processes
 *   mpirun -n 2 anfora train --ranks 4      two processes of two threads
 * Sums are those of four ranks each time, so all three give the same bits. Rank 0 alone writes. */
#include "cli/train/train.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "anfora/mpi.h"
#include "ir/ops/op.h"

typedef struct member {
  cli c;
  pthread_t thread;
  int status;
} member;

/* ---- ranks of this process ---- */

/* Processes that a launcher of MPI started; 1: there is none. */
static uint64_t processes(void) {
  static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
  for (size_t i = 0; i < ANFI_LEN(names); i++) {
    const char *s = getenv(names[i]);
    unsigned long long n = s ? strtoull(s, NULL, 10) : 0;
    if (n > 0 && n < INT32_MAX) return n;
  }
  return 1;
}

typedef const char *(*links_fn)(int32_t, anf_comm_link *);

/* Open MPI loads parts of itself that look for its symbols: they must be global. */
static bool load_mpi(cli *c, links_fn *out) {
  const char *name = getenv("ANFORA_MPI");
  void *lib = dlopen(name ? name : "libanfora_mpi.so.0", RTLD_NOW | RTLD_GLOBAL);
  void *f = lib ? dlsym(lib, "anf_mpi_links") : NULL;
  const char *why = f ? NULL : dlerror();
  if (!f) return anfi_fail(c->cx, anfi_nowhere(), ANF_E1387, why ? why : "dlopen");
  memcpy(out, &f, sizeof f);
  return true;
}

static bool connect_mpi(cli *c, int32_t ranks, int32_t n, const anf_comm_opts *o, anf_comm **out) {
  links_fn links = NULL;
  anf_comm_link *link = ANFI_NEW_N(anfi_scratch(c->cx), anf_comm_link, (size_t)n);
  if (!load_mpi(c, &links)) return false;
  const char *problem = links(n, link);
  if (!problem && link[0].ranks != ranks)
    problem = "it has another number of processes than its launcher says";
  if (problem) return anfi_fail(c->cx, anfi_nowhere(), ANF_E1388, problem);
  for (int32_t i = 0; i < n; i++)
    if (!(out[i] = anf_comm_new(&link[i], o))) anfi_throw_nomem(c->cx);
  return true;
}

/* The communicators of this process's ranks; *n: how many. */
static bool connect(cli *c, uint64_t ranks, uint64_t seconds, uint64_t bucket, size_t *n,
                    anf_comm ***out) {
  uint64_t all = processes();
  anf_comm_opts o = {.size = sizeof o, .timeout_ms = seconds * 1000, .bucket_bytes = bucket};
  o.order = c->value[OPT_FAST_SUMS] ? ANF_COMM_FAST : ANF_COMM_BY_RANK;
  if (ranks % all) return anfi_fail(c->cx, anfi_nowhere(), ANF_E1386, ranks, all);
  *n = (size_t)(ranks / all);
  *out = ANFI_NEW_N(anfi_scratch(c->cx), anf_comm *, *n);
  if (all > 1) return connect_mpi(c, (int32_t)ranks, (int32_t)*n, &o, *out);
  if (!anf_comm_threads((int32_t)*n, &o, *out)) anfi_throw_nomem(c->cx);
  return true;
}

/* ---- running ---- */

static void *run_rank(void *p) {
  member *m = (member *)p;
  anf_comm_error e;
  m->status = cli_begin(&m->c);
  anf_comm_failure(m->c.comm, &e);
  bool ended = !m->status || m->status > 128; // 128 + a signal: with the others
  if (!ended && e.why == ANF_COMM_FINE) anf_comm_abort(m->c.comm, -1);
  return NULL;
}

/* The same command as rank `comm`. */
static cli of_rank(const cli *c, anf_comm *comm) {
  static const cli_option writes[] = {OPT_CURVE, OPT_GRAPHS, OPT_JSON, OPT_DUMP};
  cli r = *c;
  r.comm = comm;
  r.cx = NULL;
  r.d = NULL;
  r.status = ANF_OK;
  for (size_t i = 0; i < ANFI_LEN(writes) && anf_comm_rank(comm); i++) r.value[writes[i]] = NULL;
  return r;
}

/* The rank whose error is shown: not one that failed because another had left, if there is another. */
static size_t teller(const member *m, size_t n) {
  size_t first = n;
  for (size_t i = 0; i < n; i++) {
    if (!m[i].status) continue;
    if (first == n) first = i;
    bool left = m[i].c.d && anf_diag_count(m[i].c.d) &&
                strcmp(anf_diag_at(m[i].c.d, 0)->code, "E1201") == 0;
    if (!left) return i;
  }
  return first < n ? first : 0;
}

static int run_members(cli *c, member *m, size_t n) {
  size_t started = 0;
  while (started < n && pthread_create(&m[started].thread, NULL, run_rank, &m[started]) == 0)
    started++;
  if (started < n) anf_comm_abort(m[started].c.comm, -1);
  for (size_t i = 0; i < started; i++) pthread_join(m[i].thread, NULL);
  size_t who = teller(m, started);
  int status = started < n ? EXIT_RESOURCES : m[who].status;
  c->write_errno = m[0].c.write_errno;
  for (size_t i = 0; i < started; i++) cli_end(&m[i].c, m[i].status, i == who);
  return status;
}

bool train_is_alone(const cli *c) {
  uint64_t n = processes();
  if (n == 1) return true;
  cli_usage(c, "%llu processes were started: --ranks %llu trains on them together",
            (unsigned long long)n, (unsigned long long)n);
  return false;
}

int train_on_ranks(cli *c) {
  uint64_t ranks = 1, seconds = 60, bucket = 0;
  size_t n = 0;
  anf_comm **comm = NULL;
  if (!cli_number(c, OPT_RANKS, 1024, &ranks) ||
      !cli_number(c, OPT_TIMEOUT, UINT32_MAX / 1000, &seconds) ||
      !cli_number(c, OPT_BUCKET, INT64_MAX, &bucket))
    return EXIT_USAGE;
  if (strcmp(cli_split(c, c->arg[0]).file, "-") == 0)
    return cli_usage(c, "each rank reads the program: standard input is read once");
  if (!connect(c, ranks, seconds, bucket, &n, &comm)) return cli_status(c, ANF_INVALID);
  member *m = ANFI_NEW_N(anfi_scratch(c->cx), member, n);
  for (size_t i = 0; i < n; i++) m[i].c = of_rank(c, comm[i]);
  int status = run_members(c, m, n);
  for (size_t i = 0; i < n; i++) anf_comm_free(comm[i]);
  return status;
}

/* ---- together ---- */

bool train_meet(cli *c) {
  float x = 0;
  anf_comm_error e;
  anf_comm_call k = {
      .size = sizeof k, .kind = ANF_COMM_ALL_REDUCE, .dtype = ANF_F32, .in = &x, .out = &x, .n = 1};
  if (anf_comm_wait(c->comm, anf_comm_start(c->comm, &k), &e)) return true;
  return anfi_fail(c->cx, anfi_nowhere(), anfi_collective_code(e.why), "AllReduce",
                   (long long)e.rank, (long long)e.ms);
}

void train_ask(const cli *c, train_ending *e, bool asked) {
  e->asked = (float)asked;
  e->ticket = 0;
  if (!c->comm || !c->value[OPT_SAVE]) return; // signals are noted for --save
  anf_comm_call k = {
      .size = sizeof k,
      .kind = ANF_COMM_ALL_REDUCE,
      .dtype = ANF_F32, // a mean of f32, as gradients are: it goes with the first of their buckets
      .mean = true,
      .in = &e->asked,
      .out = &e->asked,
      .n = 1};
  e->ticket = anf_comm_start(c->comm, &k);
}

bool train_answer(const cli *c, train_ending *e, bool good) {
  anf_comm_error why;
  if (!good && c->comm) {
    anf_comm_failure(c->comm, &why);
    if (why.why == ANF_COMM_FINE)
      anf_comm_abort(c->comm, -1); // or it would wait for this rank's next operation
  }
  return (!c->comm || anf_comm_wait(c->comm, e->ticket, NULL)) && good;
}
