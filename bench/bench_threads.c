// SPDX-License-Identifier: Apache-2.0
/* What it costs to give a loop to two threads and to wait for both, for loops that do almost nothing
 * and for loops of some 10 microseconds, one right after the other or with pauses in which threads
 * may fall asleep. Beside it OpenMP and pthreadpool (twin_threads.c), in turn. */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <unistd.h>

#include "anfora/rt_abi.h"
#include "bench.h"

enum { THREADS = 2, CALLS = 2000, TURNS = 9 };

typedef void (*body)(void *data, long i);
typedef void (*region)(body f, void *data, long n);

/* ---- the work: as many rounds of a chain that no compiler shortens ---- */

typedef struct work {
  long rounds;
  double sum[THREADS * 8]; // each its own line of the cache
} work;

static void run_body(void *data, long i) {
  work *w = (work *)data;
  volatile double x = 1;
  for (long k = 0; k < w->rounds; k++) x = x * 0.5 + 1;
  w->sum[i * 8] += x;
}

/* ---- those that are compared ---- */

static anf_stream *stream;
static body ours_body;
static void ours_item(anf_stream *s, void *data, int64_t i, void *env) {
  (void)s, (void)env;
  ours_body(data, (long)i);
}
static void ours(body f, void *data, long n) {
  void (*item)(anf_stream *, void *, int64_t, void *) = ours_item;
  void *closure;
  memcpy(&closure, &item, sizeof closure);
  ours_body = f;
  anf_rt_parallel(closure, stream, data, NULL, 0, n, 1, 0);
}

typedef struct peer {
  const char *name, *flags;
  region run;
} peer;
static peer peers[] = {
    {"Anfora", NULL, ours},
    {"OpenMP", "-fopenmp", NULL},
    {"pthreadpool", "-DPTHREADPOOL -lpthreadpool", NULL},
};
enum { PEERS = sizeof peers / sizeof *peers };

static void compile_twin(peer *p) {
  char file[256], line[1024];
  const char *in = getenv("TMPDIR");
  snprintf(file, sizeof file, "%s/anf_threads_%d.so", in && *in ? in : "/tmp", (int)getpid());
  snprintf(line, sizeof line, "gcc -O2 -fPIC -shared -o %s %s %s 2>/dev/null", file,
           BENCH_DIR "/twin_threads.c", p->flags);
  void *lib = system(line) == 0 ? dlopen(file, RTLD_NOW | RTLD_LOCAL) : NULL;
  unlink(file);
  void *at = lib ? dlsym(lib, "region") : NULL;
  if (at) memcpy(&p->run, &at, sizeof at);
  else printf("  (no %s)\n", p->name);
}

/* ---- the clock ---- */

static void wait_for(double seconds) {
  struct timespec t = {0, (long)(seconds * 1e9)};
  if (seconds > 0) nanosleep(&t, NULL);
}

/* Seconds a call takes, without the pauses. */
static double once(const peer *p, long rounds, double pause) {
  work w = {.rounds = rounds};
  double all = 0;
  int calls = pause > 0 ? CALLS / 20 : CALLS;
  wait_for(50e-3); // until the threads of the one before sleep
  for (int i = 0; i < calls; i++) {
    wait_for(pause);
    double start = bench_now();
    p->run(run_body, &w, THREADS);
    all += bench_now() - start;
  }
  for (int i = 0; i < THREADS; i++) bench_check(w.sum[i * 8] >= calls, "an iteration was lost");
  return all / calls;
}

static void measure(const char *what, long rounds, double pause) {
  double sample[PEERS][TURNS];
  for (int k = 0; k < TURNS; k++)
    for (int i = 0; i < PEERS; i++)
      if (peers[i].run) sample[i][k] = once(&peers[i], rounds, pause) * 1e6;
  printf("%s\n", what);
  for (int i = 0; i < PEERS; i++)
    if (peers[i].run) bench_line(peers[i].name, "us", TURNS, sample[i], 0);
}

int main(void) {
  anf_stream_opts o = {.size = sizeof o, .threads = THREADS};
  stream = anf_stream_new(&o);
  bench_check(stream != NULL, "there is no stream");
  for (int i = 1; i < PEERS; i++) compile_twin(&peers[i]);
  measure("nothing to do", 0, 0);
  measure("some 10 us each", 2500, 0);
  measure("the same, 100 us after the one before", 2500, 100e-6);
  measure("the same, 2 ms after the one before", 2500, 2e-3);
  anf_stream_free(stream);
  return bench_bad;
}
