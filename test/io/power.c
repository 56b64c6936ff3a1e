// SPDX-License-Identifier: Apache-2.0
/* The power fails while a checkpoint is saved, or a program's code is put into the cache. What was done to files is recorded
 * once; then each moment is tried, with what a disk may have kept by then: of names, those that were synchronised with their
 * folder and some that came after, in order; of bytes, those that were synchronised and none, half or all of the others. From
 * each such folder the checkpoint is the old or the new one, the new one once the call has returned, and the program runs. */
#define _DEFAULT_SOURCE // mkdtemp
#include "test/io/wrap.h"
#include "test/unit/folder.h"
#include "test/unit/program.h"
#include "test/unit/trained.h"

#include <dirent.h>
#include <unistd.h>

/* ---- a folder, as a disk has it ---- */

enum { FILES = 16 };

typedef struct file {
  char *bytes;
  size_t n, synced;
} file;

typedef struct name {
  char text[256];
  int file; // its number; -1: no file has this name any more
} name;

/* Changes of names that the disk need not have yet come after those that it has. */
typedef struct disk {
  file file[FILES];
  size_t nfile;
  name change[4 * FILES];
  size_t nchange, safe;
} disk;

static void change_name(disk *d, const char *text, int at) {
  name *n = &d->change[d->nchange++];
  snprintf(n->text, sizeof n->text, "%s", text);
  n->file = at;
}

/* The file of a name after the first `n` changes. */
static int named(const disk *d, size_t n, const char *text) {
  int f = -1;
  for (size_t i = 0; i < n; i++)
    if (strcmp(d->change[i].text, text) == 0) f = d->change[i].file;
  return f;
}

static int new_file(disk *d) {
  assert_true(d->nfile < FILES && d->nchange + 2 < 4 * FILES);
  return (int)d->nfile++;
}

static void append(file *f, const char *p, size_t n) {
  f->bytes = realloc(f->bytes, f->n + n + 1);
  assert_non_null(f->bytes);
  memcpy(f->bytes + f->n, p, n);
  f->n += n;
}

static void apply(disk *d, const io_event *e) {
  int f = named(d, d->nchange, e->name);
  switch (e->what) {
  case IO_CREATED: change_name(d, e->name, new_file(d)); break;
  case IO_WRITTEN: append(&d->file[f], e->bytes, e->n); break;
  case IO_SYNCED: d->file[f].synced = d->file[f].n; break;
  case IO_DIR_SYNCED: d->safe = d->nchange; break;
  case IO_RENAMED:
    change_name(d, e->to, f);
    change_name(d, e->name, -1);
    break;
  case IO_REMOVED: change_name(d, e->name, -1); break;
  }
}

static void free_disk(disk *d) {
  for (size_t i = 0; i < d->nfile; i++) free(d->file[i].bytes);
  *d = (disk){0};
}

/* ---- what is left of it ---- */

typedef enum kept { NOTHING, HALF, ALL, KEPT } kept; // of bytes that were not synchronised

static void put(const char *folder, const char *text, const char *p, size_t n) {
  char path[TEST_PATH + 300];
  snprintf(path, sizeof path, "%s/%s", folder, text);
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  assert_int_equal(n ? fwrite(p, 1, n, f) : 0, n);
  assert_int_equal(fclose(f), 0);
}

static void put_disk(const disk *d, const char *folder, size_t names, kept k) {
  for (size_t i = 0; i < names; i++) {
    int at = named(d, names, d->change[i].text);
    if (at < 0) continue;
    const file *f = &d->file[at];
    size_t loose = f->n - f->synced;
    put(folder, d->change[i].text, f->bytes,
        f->synced + (k == NOTHING ? 0
                     : k == HALF  ? loose / 2
                                  : loose));
  }
}

static void clear_folder(const char *folder) {
  char path[TEST_PATH + 300];
  DIR *d = opendir(folder);
  if (!d) return;
  for (const struct dirent *e; (e = readdir(d));) {
    snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) unlink(path);
  }
  closedir(d);
}

/* Calls `look` for each state that the disk may be in at some moment; `done`: the call had returned. */
typedef void looker(void *user, const char *folder, bool done);

static size_t each_state(const disk *before, const char *folder, looker *look, void *user) {
  size_t n, states = 0;
  const io_event *event = io_recorded(&n);
  disk d = {0};
  for (size_t i = 0; i < before->nfile; i++) {
    append(&d.file[new_file(&d)], before->file[i].bytes, before->file[i].n);
    d.file[i].synced = d.file[i].n;
    change_name(&d, before->change[i].text, (int)i);
  }
  d.safe = d.nchange;
  for (size_t i = 0; i <= n; i++) {
    for (size_t names = d.safe; names <= d.nchange; names++)
      for (kept k = NOTHING; k < KEPT; k++) {
        clear_folder(folder);
        put_disk(&d, folder, names, k);
        look(user, folder, i == n);
        states++;
      }
    if (i < n) apply(&d, &event[i]);
  }
  free_disk(&d);
  clear_folder(folder);
  return states;
}

/* A disk with one file, all of it there for good. */
static disk disk_of(const char *folder, const char *text) {
  char path[TEST_PATH + 300], bytes[4096];
  disk d = {0};
  snprintf(path, sizeof path, "%s/%s", folder, text);
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  int at = new_file(&d);
  for (size_t n; (n = fread(bytes, 1, sizeof bytes, f)) > 0;) append(&d.file[at], bytes, n);
  fclose(f);
  change_name(&d, text, at);
  return d;
}

/* ---- checkpoints ---- */

typedef struct saved {
  world *w;
  trained *t;  // the training whose checkpoint it is, at `step`
  size_t step; // of the new checkpoint; the old one is a step before
  size_t old, new;
} saved;

static void look_at_checkpoint(void *user, const char *folder, bool done) {
  saved *s = (saved *)user;
  char path[TEST_PATH + 300];
  trained again;
  snprintf(path, sizeof path, "%s/c.safetensors", folder);
  start(s->w, &again, MODEL);
  anf_status st = anf_step_load(again.s, path, s->w->d);
  if (st != ANF_OK) fail_msg("the checkpoint is lost: %s", message(s->w, 0));
  size_t step = (size_t)anf_step_count(again.s);
  if (step != s->step && step != s->step - 1) fail_msg("a checkpoint of step %zu", step);
  if (done && step != s->step) fail_msg("saved, and gone again");
  s->old += step != s->step;
  s->new += step == s->step;
  run_steps(s->w, &again, (int)(s->step - step));
  check_same(s->t->s, again.s);
  stop(&again);
}

static void test_checkpoint(void **state) {
  world *w = *state;
  char folder[TEST_PATH], path[TEST_PATH + 32];
  trained t;
  assert_true(test_folder(folder));
  snprintf(path, sizeof path, "%s/c.safetensors", folder);
  start(w, &t, MODEL);
  run_steps(w, &t, 2);
  assert_int_equal(anf_step_save(t.s, path, w->d), ANF_OK);
  disk before = disk_of(folder, "c.safetensors");
  run_steps(w, &t, 1);
  io_record();
  assert_int_equal(anf_step_save(t.s, path, w->d), ANF_OK);
  saved s = {w, &t, 3, 0, 0};
  size_t states = each_state(&before, folder, look_at_checkpoint, &s);
  print_message("# %zu states of the disk: %zu with the old checkpoint, %zu with the new one\n",
                states, s.old, s.new);
  assert_true(s.old > 0 && s.new > 0);
  free_disk(&before);
  io_forget();
  stop(&t);
  assert_int_equal(rmdir(folder), 0);
}

/* ---- the code cache: nothing is synchronised, so that a file may hold anything ---- */

typedef struct cached {
  world *w;
  size_t damaged;
} cached;

static void run_cached(world *w, const char *folder) {
  anf_value *arg = anf_value_f64(w->cx, 3), *v = NULL;
  anf_module *m = NULL;
  anf_exec *e = NULL;
  anf_jit_opts j = {.size = sizeof j, .cache_dir = folder, .level = ANF_JIT_O0};
  anf_exec_opts o = {.size = sizeof o, .kind = ANF_JIT_LLVM, .jit = &j};
  anf_diag_clear(w->d);
  assert_int_equal(anf_parse(w->cx, "def f(x: f64) { x * x + 1.0 }", "f.anf", w->d, &m), ANF_OK);
  assert_int_equal(anf_compile(anf_module_find(m, "f"), &o, w->d, &e), ANF_OK);
  assert_int_equal(anf_exec_run(e, 1, &arg, NULL, w->d, &v), ANF_OK);
  assert_true(anf_value_get_f64(v, 0) == 10.0);
  anf_value_release(v);
  anf_value_release(arg);
  anf_exec_free(e);
  anf_module_free(m);
}

static void look_at_cache(void *user, const char *folder, bool done) {
  cached *c = (cached *)user;
  (void)done;
  run_cached(c->w, folder);
  for (size_t i = 0; i < anf_diag_count(c->w->d); i++)
    c->damaged += strcmp(anf_diag_at(c->w->d, i)->code, "W0902") == 0;
}

static void test_cache(void **state) {
  world *w = *state;
  char folder[TEST_PATH];
  disk before = {0};
  cached c = {w, 0};
  assert_true(test_folder(folder));
  io_record();
  run_cached(w, folder);
  size_t states = each_state(&before, folder, look_at_cache, &c);
  print_message("# %zu states of the disk, %zu of them with a damaged file, which was made again\n",
                states, c.damaged);
  assert_true(c.damaged > 0);
  io_forget();
  assert_int_equal(rmdir(folder), 0);
}

int main(void) {
  static const struct CMUnitTest tests[] = {TEST(test_checkpoint), TEST(test_cache)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
