// SPDX-License-Identifier: Apache-2.0
/* Checkpoints that each rank writes its part of: any number of ranks goes on from them with the bits of a whole checkpoint; parts
 * that are missing, damaged, swapped or of another checkpoint are refused; a process that ends at any rename or removal leaves the
 * checkpoint before or this one. */
#define _GNU_SOURCE // syscall, unlink
#include "test/unit/folder.h"
#include "test/unit/ranks.h"

#include <fcntl.h>
#include <math.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 12, STEPS = 6, HALF = 3, NSTATE = 6 * 8 + 8 + 8 * 4, KILLED = 77 };

static const char program[] =
    "def loss(w: {a: f64[6, 8], b: f64[8], c: f64[8, 4]}, x: f64[%d, 6], y: f64[%d, 4]) {\n"
    "  Mean(Square(Tanh(x @ w.a + w.b) @ w.c - y))\n"
    "}\n"
    "def step(s: {w: {a: f64[6, 8], b: f64[8], c: f64[8, 4]}, m: {a: f64[6, 8], b: f64[8], c: "
    "f64[8, 4]}, n: i32, k: key},\n"
    "         x: f64[%d, 6], y: f64[%d, 4]) {\n"
    "  (l, d) = value_and_grad(loss)(s.w, x, y)\n"
    "  m = {a = 0.9 * s.m.a + d.a, b = 0.9 * s.m.b + d.b, c = 0.9 * s.m.c + d.c}\n"
    "  ({w = {a = s.w.a - 0.1 * m.a, b = s.w.b - 0.1 * m.b, c = s.w.c - 0.1 * m.c}, m = m, n = s.n "
    "+ 1, k = s.k}, {loss = l})\n"
    "}\n";

typedef struct plan {
  uint64_t shard;
  anf_shard_params params;
  const char *split, *load, *whole, *parts; // files
  int from, to;
} plan;

static double number_at(size_t i) { return sin((double)(i * i % 97) + 0.5 * (double)i); }

static anf_status set_state(anf_step *s) {
  anf_status st = ANF_OK;
  for (size_t i = 0; st == ANF_OK && i < anf_step_leaf_count(s, ANF_STATE); i++) {
    anf_array a;
    double x[NSTATE];
    int32_t zero = 0;
    uint64_t key = 42;
    st = anf_step_whole(s, i, &a);
    for (size_t k = 0; k < NSTATE; k++) x[k] = number_at(100 * i + k);
    a.data = a.dtype == ANF_F64 ? (void *)x : a.dtype == ANF_KEY ? (void *)&key : (void *)&zero;
    if (st == ANF_OK) st = anf_step_write(s, ANF_STATE, i, &a, NULL);
  }
  return st;
}

static anf_status read_state(rank *r, anf_step *s) {
  anf_status st = ANF_OK;
  r->out = (double *)calloc(3 * NSTATE, sizeof *r->out);
  for (size_t i = r->nout = 0; st == ANF_OK && i < anf_step_leaf_count(s, ANF_STATE); i++) {
    anf_array a;
    size_t n = 1;
    st = anf_step_whole(s, i, &a);
    for (size_t k = 0; k < a.rank; k++) n *= (size_t)a.dims[k];
    a.data = r->out + r->nout;
    if (st == ANF_OK) st = anf_step_read(s, ANF_STATE, i, &a, NULL);
    r->nout += n;
  }
  r->out[r->nout++] = (double)anf_step_count(s);
  return st;
}

static anf_status run_steps(const rank *r, anf_step *s, const plan *p, anf_diag *d) {
  int32_t rows = p->split ? ROWS : ROWS / r->ranks, first = p->split ? 0 : rows * r->me;
  int64_t dx[2] = {rows, 6}, dy[2] = {rows, 4};
  double x[ROWS * 6], y[ROWS * 4];
  anf_array ax = {.dtype = ANF_F64, .rank = 2, .dims = dx, .data = x},
            ay = {.dtype = ANF_F64, .rank = 2, .dims = dy, .data = y};
  anf_status st = anf_step_bind(s, ANF_INPUT, 0, &ax, d);
  if (st == ANF_OK) st = anf_step_bind(s, ANF_INPUT, 1, &ay, d);
  for (int k = p->from; st == ANF_OK && k < p->to; k++) {
    for (size_t i = 0; i < (size_t)rows * 6; i++)
      x[i] = number_at(1000 * (size_t)k + (size_t)first * 6 + i);
    for (size_t i = 0; i < (size_t)rows * 4; i++)
      y[i] = number_at(7000 + 50 * (size_t)k + (size_t)first * 4 + i);
    st = anf_step_run(s, d);
  }
  return st;
}

static void train(rank *r) {
  const plan *p = (const plan *)r->user;
  char text[2000];
  int rows = p->split ? ROWS : ROWS / (int)r->ranks;
  anf_ctx *cx = anf_ctx_new(NULL);
  anf_diag *d = anf_diag_new(cx);
  anf_module *m = NULL;
  anf_step *s = NULL;
  anf_exec_opts how = {.size = sizeof how, .kind = ANF_JIT_INTERP};
  anf_step_opts o = {.size = sizeof o, .exec = &how, .comm = r->comm};
  o.shard = p->shard;
  o.params = p->params;
  o.split = p->split;
  snprintf(text, sizeof text, program, rows, rows, rows, rows);
  anf_status st = anf_parse(cx, text, "parts.anf", d, &m);
  if (st == ANF_OK) st = anf_step_new(anf_module_find(m, "step"), 1, 0, NULL, &o, d, &s);
  if (st == ANF_OK) st = set_state(s);
  if (st == ANF_OK && p->load) {
    st = anf_step_load(s, p->load, d);
    if (st != ANF_OK) read_state(r, s); // it is as it was
  }
  if (st == ANF_OK) st = run_steps(r, s, p, d);
  const char *meta[] = {"note", "the host's"};
  if (st == ANF_OK && p->whole) st = anf_step_save(s, p->whole, d);
  if (st == ANF_OK && p->parts) st = anf_step_save_parts(s, p->parts, 1, meta, d);
  if (st == ANF_OK) st = read_state(r, s);
  report(r, st, d);
  anf_step_free(s);
  anf_module_free(m);
  anf_diag_free(d);
  anf_ctx_free(cx);
}

static void run(int32_t ranks, plan p, rank *r) { run_ranks(ranks, NULL, train, &p, r); }

static bool equal(const rank *a, const rank *b) {
  return a->nout == b->nout && memcmp(a->out, b->out, a->nout * sizeof *a->out) == 0;
}

typedef struct files {
  char folder[TEST_PATH], whole[TEST_PATH + 20], parts[TEST_PATH + 20];
} files;

static files new_files(void) {
  files f;
  assert_true(test_folder(f.folder));
  snprintf(f.whole, sizeof f.whole, "%s/whole", f.folder);
  snprintf(f.parts, sizeof f.parts, "%s/parts", f.folder);
  return f;
}

static bool part_name(const files *f, char turn, int part, char *out) {
  snprintf(out, TEST_PATH + 40, "%s.part-%c-%d", f->parts, turn, part);
  return access(out, F_OK) == 0;
}

/* Of which turns parts are there, and how many. */
static int count_parts(const files *f, char turn) {
  char path[TEST_PATH + 40];
  int n = 0;
  for (int i = 0; i < 16; i++) n += part_name(f, turn, i, path);
  return n;
}

static void remove_files(const files *f) {
  char path[TEST_PATH + 40];
  for (int i = 0; i < 32; i++)
    if (part_name(f, i < 16 ? 'a' : 'b', i % 16, path)) unlink(path);
  unlink(f->whole);
  unlink(f->parts);
  assert_int_equal(rmdir(f->folder), 0);
}

/* What is saved, by how many ranks. */
static const struct {
  int32_t ranks;
  plan p;
} ways[] = {{4, {.shard = 1}},
            {3, {.shard = 1, .params = ANF_PARAMS_AGAIN}},
            {2, {.split = "w.a=column, w.c=row"}},
            {4, {.split = "w.a=1"}}};

static void test_resumes(void **state) {
  (void)state;
  rank r[MAX_RANKS], whole[MAX_RANKS];
  for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
    files f = new_files();
    plan first = ways[w].p;
    first.to = HALF;
    first.whole = f.whole;
    first.parts = f.parts;
    run(ways[w].ranks, first, r);
    all_fine(ways[w].ranks, r);
    free_outs(ways[w].ranks, r);
    assert_int_equal(count_parts(&f, 'a'), ways[w].ranks);
    for (int32_t ranks = 1; ranks <= 4; ranks++)
      for (int how = 0; how < 3; how++) {
        plan p = {.shard = how > 0,
                  .params = how == 2 ? ANF_PARAMS_ONCE : ANF_PARAMS_WHOLE,
                  .load = f.whole,
                  .from = HALF,
                  .to = STEPS};
        run(ranks, p, whole);
        p.load = f.parts;
        run(ranks, p, r);
        all_fine(ranks, whole);
        all_fine(ranks, r);
        for (int32_t i = 0; i < ranks; i++) assert_true(equal(&r[i], &whole[i]));
        assert_true(r[0].out[r[0].nout - 1] == (double)STEPS);
        free_outs(ranks, whole);
        free_outs(ranks, r);
      }
    remove_files(&f);
  }
}

/* Files of other parts go: those before, those of more ranks, and all when a whole checkpoint takes their place. */
static void test_what_is_left(void **state) {
  (void)state;
  rank r[MAX_RANKS];
  files f = new_files();
  static const int32_t ranks[] = {4, 2, 3, 1};
  for (int i = 0; i < 4; i++) {
    run(ranks[i], (plan){.shard = 1, .to = 1, .parts = f.parts}, r);
    all_fine(ranks[i], r);
    free_outs(ranks[i], r);
    bool b = i % 2;
    assert_int_equal(count_parts(&f, b ? 'b' : 'a'), i < 3 ? ranks[i] : 0); // one rank has no parts
    assert_int_equal(count_parts(&f, b ? 'a' : 'b'), 0);
  }
  remove_files(&f);
}

/* ---- refusals ---- */

static void refused(const files *f, const char *code, const char *name) {
  rank r[2], as_it_was[2];
  run(2, (plan){.shard = 1}, as_it_was);
  run(2, (plan){.shard = 1, .load = f->parts}, r);
  for (int i = 0; i < 2; i++) {
    assert_int_not_equal(r[i].status, ANF_OK);
    assert_string_equal(r[i].code, code);
    if (!strstr(r[i].message, name)) fail_msg("%s: %s", name, r[i].message);
    assert_true(equal(&r[i], &as_it_was[i]));
  }
  free_outs(2, r);
  free_outs(2, as_it_was);
}

static void flip(const char *path, long at, bool from_end) {
  FILE *file = fopen(path, "r+b");
  assert_non_null(file);
  assert_int_equal(fseek(file, from_end ? -at : at, from_end ? SEEK_END : SEEK_SET), 0);
  int c = fgetc(file);
  assert_int_equal(fseek(file, -1, SEEK_CUR), 0);
  fputc(c ^ 1, file);
  fclose(file);
}

static void test_refused(void **state) {
  (void)state;
  rank r[MAX_RANKS];
  files f = new_files();
  char path[TEST_PATH + 40], other[TEST_PATH + 40];
  run(3, (plan){.shard = 1, .to = 1, .parts = f.parts}, r);
  free_outs(3, r);
  for (int i = 0; i < 3; i++) {
    assert_true(part_name(&f, 'a', i, path));
    flip(path, 1, true); // of a tensor
    refused(&f, "E1124", ".part-a-");
    flip(path, 1, true);
    snprintf(other, sizeof other, "%s/aside", f.folder);
    assert_int_equal(rename(path, other), 0);
    refused(&f, "E0301", ".part-a-");
    assert_int_equal(rename(other, path), 0);
  }
  flip(f.parts, 1, true);
  refused(&f, "E1124", "parts");
  flip(f.parts, 1, true);
  part_name(&f, 'a', 0, path);
  part_name(&f, 'a', 1, other);
  assert_int_equal(syscall(SYS_renameat2, AT_FDCWD, path, AT_FDCWD, other, 2 /* exchange */), 0);
  refused(&f, "E1124", ".part-a-0");
  assert_int_equal(syscall(SYS_renameat2, AT_FDCWD, path, AT_FDCWD, other, 2), 0);
  assert_int_equal(truncate(path, 100), 0);
  refused(&f, "E0351", ".part-a-0");
  remove_files(&f);
}

static void test_cannot_write(void **state) {
  (void)state;
  rank r[3];
  run(3, (plan){.shard = 1, .to = 1, .parts = "/nowhere/at/all"}, r);
  for (int i = 0; i < 3; i++) assert_string_equal(r[i].code, "E0301");
  free_outs(3, r);
}

/* ---- processes that end ---- */

static _Atomic int left_to_live = -1; // renames and removals

static void live_or_die(void) {
  if (atomic_load(&left_to_live) >= 0 && atomic_fetch_sub(&left_to_live, 1) == 0) _exit(KILLED);
}
__attribute__((visibility("default"))) int rename(const char *from, const char *to) {
  live_or_die();
  return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}
__attribute__((visibility("default"))) int unlink(const char *path) {
  live_or_die();
  return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

/* Saves a state of STEPS steps over one of HALF; false: it ended before. */
static bool save_in_child(const files *f, int32_t ranks, int events) {
  pid_t child = fork();
  assert_true(child >= 0);
  if (!child) {
    rank r[MAX_RANKS];
    atomic_store(&left_to_live, events);
    run(ranks, (plan){.shard = 1, .params = ANF_PARAMS_AGAIN, .to = STEPS, .parts = f->parts}, r);
    _exit(r[0].status != ANF_OK);
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  if (WEXITSTATUS(status) != KILLED) assert_int_equal(WEXITSTATUS(status), 0);
  return WEXITSTATUS(status) == 0;
}

static void test_ends_anywhere(void **state) {
  (void)state;
  rank r[MAX_RANKS], old[MAX_RANKS], new[MAX_RANKS];
  int seen[2] = {0};
  plan p = {.shard = 1, .params = ANF_PARAMS_AGAIN, .to = HALF};
  run(3, p, old);
  p.to = STEPS;
  run(4, p, new);
  bool done = false;
  for (int events = 0; !done; events++) {
    files f = new_files();
    p = (plan){.shard = 1, .to = HALF, .parts = f.parts};
    run(3, p, r);
    all_fine(3, r);
    free_outs(3, r);
    done = save_in_child(&f, 4, events);
    p = (plan){.shard = 1, .load = f.parts};
    run(2, p, r);
    all_fine(2, r);
    bool is_new = r[0].out[r[0].nout - 1] == (double)STEPS;
    assert_true(equal(&r[0], is_new ? &new[0] : &old[0]));
    seen[is_new]++;
    free_outs(2, r);
    assert_true(save_in_child(&f, 4, -1)); // over what is left
    assert_int_equal(count_parts(&f, 'a') + count_parts(&f, 'b'), 4);
    remove_files(&f);
    assert_in_range(events, 0, 40);
  }
  assert_true(seen[0] >= 5 && seen[1] >= 3); // parts and the file that names them; removals
  free_outs(3, old);
  free_outs(4, new);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_resumes), cmocka_unit_test(test_what_is_left),
      cmocka_unit_test(test_refused), cmocka_unit_test(test_cannot_write),
      cmocka_unit_test(test_ends_anywhere)};
  return cmocka_run_group_tests_name("parts", tests, NULL, NULL);
}
