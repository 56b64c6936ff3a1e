// SPDX-License-Identifier: Apache-2.0
/* Every call of the operating system that concerns a file fails in turn: once, and from then on. What reads a file says so or gives
 * what the file holds; what writes one says so and leaves the old file whole, or the new one is there; no descriptor stays
 * open, no file is left, and the same work succeeds afterwards. Reads and writes that move one byte change nothing. */
#define _DEFAULT_SOURCE // mkdtemp
#include "test/io/wrap.h"
#include "test/unit/folder.h"
#include "test/unit/program.h"
#include "test/unit/trained.h"

#include <dirent.h>
#include <errno.h>
#include <unistd.h>

/* Work on files of a folder. What it reads it describes in `out`; what it writes are the files `written`. */
typedef struct job {
  const char *name;
  anf_status (*work)(world *w, const char *folder, anf_text *out);
  const char *written[2];
  bool cache; // of the code cache: a fault is a warning, and files come and go
} job;

static char folder[TEST_PATH];
static trained training; // that is saved

static const char *in_folder(const char *name) {
  static char path[4][TEST_PATH + 300];
  static unsigned next;
  char *p = path[next++ % 4];
  snprintf(p, sizeof path[0], "%s/%s", folder, name);
  return p;
}

static void put(const char *name, const void *bytes, size_t n) {
  FILE *f = fopen(in_folder(name), "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(bytes, 1, n, f), n);
  assert_int_equal(fclose(f), 0);
}

/* The bytes of a file, which the caller frees; NULL if there is none. */
static char *get(const char *name, size_t *n) {
  FILE *f = fopen(in_folder(name), "rb");
  if (!f) return NULL;
  char *bytes = malloc(1 << 20);
  *n = fread(bytes, 1, 1 << 20, f);
  fclose(f);
  return bytes;
}

/* ---- what is read ---- */

static anf_status describe(world *w, anf_status st, anf_value *v, anf_text *out) {
  if (st == ANF_OK) st = anf_value_print(w->cx, v, 0, out);
  anf_value_release(v);
  return st;
}

static anf_status load(world *w, const char *name, anf_text *out) {
  anf_module *m = NULL;
  anf_status st = anf_load(w->cx, in_folder(name), w->d, &m);
  if (st == ANF_OK) st = anf_print_ir(m, out);
  anf_module_free(m);
  return st;
}
static anf_status read_program(world *w, const char *in, anf_text *out) {
  (void)in;
  return load(w, "main.anf", out);
}
static anf_status read_dat(world *w, const char *in, anf_text *out) {
  (void)in;
  return load(w, "main.dat", out);
}
static anf_status read_model(world *w, const char *in, anf_text *out) {
  (void)in;
  return load(w, "model.mindir", out);
}
static anf_status read_npy(world *w, const char *in, anf_text *out) {
  (void)in;
  anf_value *v = NULL;
  anf_status st = anf_load_npy(w->cx, in_folder("x.npy"), w->d, &v);
  return describe(w, st, v, out);
}
static anf_status read_tensors(world *w, const char *in, anf_text *out) {
  (void)in;
  anf_value *v = NULL;
  anf_status st = anf_load_safetensors(w->cx, in_folder("x.safetensors"), w->d, &v, NULL);
  return describe(w, st, v, out);
}
static anf_status read_checkpoint(world *w, const char *in, anf_text *out) {
  (void)in;
  trained t;
  anf_value *v = NULL;
  start(w, &t, MODEL);
  anf_status st = anf_step_load(t.s, in_folder("kept.safetensors"), w->d);
  if (st == ANF_OK) st = anf_step_get(t.s, 0, w->d, &v);
  stop(&t);
  return describe(w, st, v, out);
}

/* ---- what is written ---- */

static anf_value *vector(world *w) {
  static const float x[5] = {1, 2, 3, 4, 5};
  int64_t dims[] = {5};
  return anf_value_tensor(w->cx, ANF_F32, 1, dims, x);
}
static anf_status write_npy(world *w, const char *in, anf_text *out) {
  (void)in, (void)out;
  anf_value *v = vector(w);
  anf_status st = anf_save_npy(w->cx, v, in_folder("new.npy"), w->d);
  anf_value_release(v);
  return st;
}
static anf_status write_tensors(world *w, const char *in, anf_text *out) {
  (void)in, (void)out;
  const char *name = "x";
  anf_value *v = vector(w), *r = anf_value_record(w->cx, 1, &name, &v);
  anf_status st = anf_save_safetensors(w->cx, r, 0, NULL, in_folder("new.safetensors"), w->d);
  anf_value_release(r);
  anf_value_release(v);
  return st;
}
static anf_status write_checkpoint(world *w, const char *in, anf_text *out) {
  (void)in, (void)out;
  return anf_step_save(training.s, in_folder("checkpoint.safetensors"), w->d);
}

/* ---- the code cache ---- */

static anf_status compile_cached(world *w, const char *in, anf_text *out) {
  anf_value *arg = anf_value_f64(w->cx, 3), *v = NULL;
  anf_module *m = NULL;
  anf_exec *e = NULL;
  char cache[TEST_PATH + 8];
  snprintf(cache, sizeof cache, "%s/cache", in);
  anf_jit_opts j = {.size = sizeof j, .cache_dir = cache, .level = ANF_JIT_O0};
  anf_exec_opts o = {.size = sizeof o, .kind = ANF_JIT_LLVM, .jit = &j};
  anf_status st = anf_parse(w->cx, "def f(x: f64) { x * x + 1.0 }", "f.anf", w->d, &m);
  if (st == ANF_OK) st = anf_compile(anf_module_find(m, "f"), &o, w->d, &e);
  if (st == ANF_OK) st = anf_exec_run(e, 1, &arg, NULL, w->d, &v);
  anf_exec_free(e);
  anf_module_free(m);
  anf_value_release(arg);
  return describe(w, st, v, out);
}

static const job jobs[] = {
    {"a program with an import", read_program, {0}, false},
    {"a graph as .dat", read_dat, {0}, false},
    {"a model with weights in a file of their own", read_model, {0}, false},
    {"an array", read_npy, {0}, false},
    {"tensors", read_tensors, {0}, false},
    {"a checkpoint", read_checkpoint, {0}, false},
    {"writing an array", write_npy, {"new.npy"}, false},
    {"writing tensors", write_tensors, {"new.safetensors"}, false},
    {"writing a checkpoint", write_checkpoint, {"checkpoint.safetensors"}, false},
    {"the code cache", compile_cached, {0}, true},
};

/* ---- one fault ---- */

static size_t entries(const char *path, const char *but) {
  DIR *d = opendir(path);
  size_t n = 0;
  assert_non_null(d);
  for (const struct dirent *e; (e = readdir(d));) n += strcmp(e->d_name, but) != 0;
  closedir(d);
  return n;
}

typedef struct outcome {
  anf_status status;
  anf_text text;
} outcome;

static outcome run_job(world *w, const job *j) {
  outcome o = {ANF_OK, {.cx = w->cx}};
  anf_diag_clear(w->d);
  o.status = j->work(w, folder, &o.text);
  return o;
}

static bool same_text(const anf_text *a, const anf_text *b) {
  return a->len == b->len && (!a->len || memcmp(a->text, b->text, a->len) == 0);
}

static const char *fault_name(int error, bool on) {
  static char s[80];
  snprintf(s, sizeof s, "%s%s", error ? strerror(error) : "cut short",
           on ? ", and all later ones" : "");
  return s;
}

/* Reads say so, or give what is right. */
static void check_told(world *w, const job *j, const outcome *o, const anf_text *right,
                       const char *what) {
  bool error = false;
  for (size_t i = 0; i < anf_diag_count(w->d); i++)
    error |= anf_diag_at(w->d, i)->severity == ANF_ERROR;
  if (o->status == ANF_OK && error) fail_msg("%s: %s: an error, and success", j->name, what);
  if (o->status != ANF_OK && !error) fail_msg("%s: %s: no error is said", j->name, what);
  if (o->status == ANF_INTERNAL || (j->cache && o->status != ANF_OK))
    fail_msg("%s: %s: status %d, %s", j->name, what, (int)o->status, message(w, 0));
  if (o->status == ANF_OK && !same_text(&o->text, right))
    fail_msg("%s: %s: another result", j->name, what);
}

static void write_old(const job *j) {
  for (size_t i = 0; i < 2 && j->written[i]; i++) put(j->written[i], "old", 3);
}

/* A file is what it was, or new; new, if the writer said so. */
static void check_written(const job *j, anf_status st, char *const *whole, const size_t *len,
                          const char *what) {
  for (size_t i = 0; i < 2 && j->written[i]; i++) {
    size_t n = 0;
    char *now = get(j->written[i], &n);
    bool old = now && n == 3 && memcmp(now, "old", 3) == 0,
         new = now &&n == len[i] && memcmp(now, whole[i], n) == 0;
    free(now);
    if (!old && !new) fail_msg("%s: %s: %s is neither old nor new", j->name, what, j->written[i]);
    if (st == ANF_OK && !new) fail_msg("%s: %s: %s was not written", j->name, what, j->written[i]);
  }
}

/* `error` 0: a call is cut short. False: there were fewer calls. */
static bool one_fault(world *w, const job *j, uint64_t at, int error, bool on,
                      const anf_text *right, char *const *whole, const size_t *len) {
  char what[200];
  io_kind kind;
  if (!j->cache) write_old(j);
  size_t open = entries("/proc/self/fd", ""), files = entries(folder, "cache");
  error ? io_fail(at, error, on) : io_cut(at);
  outcome o = run_job(w, j);
  bool hit = io_hit(&kind);
  io_pass();
  snprintf(what, sizeof what, "call %llu (%s) %s", (unsigned long long)at, io_kind_name(kind),
           fault_name(error, on));
  check_told(w, j, &o, right, what);
  check_written(j, o.status, whole, len, what);
  if (!error && o.status != ANF_OK) fail_msg("%s: %s: %s", j->name, what, message(w, 0));
  if (entries("/proc/self/fd", "") != open) fail_msg("%s: %s: a descriptor is open", j->name, what);
  bool removable = !on && kind != IO_REMOVE;
  if (removable && entries(folder, "cache") != files)
    fail_msg("%s: %s: a file is left", j->name, what);
  anf_text_free(&o.text);
  return hit;
}

static void remove_left_over(void) {
  DIR *d = opendir(folder);
  assert_non_null(d);
  for (const struct dirent *e; (e = readdir(d));)
    if (strstr(e->d_name, ".tmp-")) unlink(in_folder(e->d_name));
  closedir(d);
}

static void remove_cache(void) {
  char path[TEST_PATH + 300];
  DIR *d = opendir(in_folder("cache"));
  if (!d) return;
  for (const struct dirent *e; (e = readdir(d));) {
    snprintf(path, sizeof path, "%s/cache/%s", folder, e->d_name);
    unlink(path);
  }
  closedir(d);
  rmdir(in_folder("cache"));
}

/* Each call in turn, in four ways; afterwards the job succeeds. `empty`: from an empty cache. */
static size_t all_faults(world *w, const job *j, bool empty) {
  static const struct {
    int error;
    bool on;
  } way[] = {{EIO, false}, {EMFILE, false}, {ENOSPC, true}, {0, false}};
  char *whole[2] = {NULL, NULL};
  size_t len[2] = {0, 0}, faults = 0;
  outcome right = run_job(w, j);
  if (right.status != ANF_OK) fail_msg("%s: %s", j->name, message(w, 0));
  for (size_t i = 0; i < 2 && j->written[i]; i++) whole[i] = get(j->written[i], &len[i]);
  for (size_t k = 0; k < sizeof way / sizeof *way; k++) {
    uint64_t at = 0;
    do {
      if (empty) remove_cache();
      remove_left_over();
      faults++;
    } while (one_fault(w, j, ++at, way[k].error, way[k].on, &right.text, whole, len));
    if (at == 1) fail_msg("%s: no call was made", j->name);
    remove_left_over();
  }
  outcome again = run_job(w, j);
  check_told(w, j, &again, &right.text, "afterwards");
  assert_int_equal(again.status, ANF_OK);
  anf_text_free(&again.text);
  anf_text_free(&right.text);
  free(whole[0]);
  free(whole[1]);
  return faults;
}

/* ---- the files ---- */

static void write_program(void) {
  static const char program[] =
      "import \"part.anf\" as part\ndef main(x: f64) { part.double(x) + 1.0 }\n";
  static const char part[] = "def double(x) { x * 2.0 }\n";
  put("main.anf", program, sizeof program - 1);
  put("part.anf", part, sizeof part - 1);
}

static void write_dat(world *w) {
  anf_module *m = NULL;
  anf_text t = {.cx = w->cx};
  assert_int_equal(anf_load(w->cx, in_folder("main.anf"), w->d, &m), ANF_OK);
  assert_int_equal(anf_write_dat(m, &t), ANF_OK);
  put("main.dat", t.text, t.len);
  anf_text_free(&t);
  anf_module_free(m);
}

static void write_model(world *w) {
  static const char program[] = "def params() { {w = f32[2, 2]([[1.0, 2.0], [3.0, 4.0]])} }\n"
                                "def main(p: {w: f32[2, 2]}, x: f32[3, 2]) { x @ p.w }\n";
  anf_module *m = NULL;
  anf_text t = {.cx = w->cx}, weights = {.cx = w->cx};
  int64_t two[] = {2, 2}, x[] = {3, 2};
  const char *name = "w";
  const anf_type *tw = anf_type_tensor(w->cx, ANF_F32, 2, two),
                 *types[] = {anf_type_record(w->cx, 1, &name, &tw),
                             anf_type_tensor(w->cx, ANF_F32, 2, x)};
  assert_int_equal(anf_parse(w->cx, program, "model.anf", w->d, &m), ANF_OK);
  anf_status st = anf_write_mindir_beside(anf_module_find(m, "main"), 2, types, "weights.bin", w->d,
                                          &t, &weights);
  if (st != ANF_OK) anf_diag_print(w->d, stderr, false);
  assert_int_equal(st, ANF_OK);
  put("model.mindir", t.text, t.len);
  put("weights.bin", weights.text, weights.len);
  anf_text_free(&t);
  anf_text_free(&weights);
  anf_module_free(m);
}

static void write_tensor_files(world *w) {
  const char *name = "x";
  anf_value *v = vector(w), *r = anf_value_record(w->cx, 1, &name, &v);
  assert_int_equal(anf_save_npy(w->cx, v, in_folder("x.npy"), w->d), ANF_OK);
  assert_int_equal(anf_save_safetensors(w->cx, r, 0, NULL, in_folder("x.safetensors"), w->d),
                   ANF_OK);
  assert_int_equal(anf_step_save(training.s, in_folder("kept.safetensors"), w->d), ANF_OK);
  anf_value_release(r);
  anf_value_release(v);
}

static void remove_all(void) {
  DIR *d = opendir(folder);
  assert_non_null(d);
  remove_cache();
  for (const struct dirent *e; (e = readdir(d));)
    if (e->d_name[0] != '.' || strstr(e->d_name, ".tmp-")) unlink(in_folder(e->d_name));
  closedir(d);
  assert_int_equal(rmdir(folder), 0);
}

static void test_faults(void **state) {
  world *w = *state;
  assert_true(test_folder(folder));
  start(w, &training, MODEL);
  run_steps(w, &training, 2);
  write_program();
  write_dat(w);
  write_model(w);
  write_tensor_files(w);
  for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
    size_t faults = all_faults(w, &jobs[i], false);
    if (jobs[i].cache) faults += all_faults(w, &jobs[i], true);
    print_message("# %s: %zu faults\n", jobs[i].name, faults);
  }
  stop(&training);
  remove_all();
}

int main(void) {
  static const struct CMUnitTest tests[] = {TEST(test_faults)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
