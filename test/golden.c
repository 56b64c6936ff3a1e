// SPDX-License-Identifier: Apache-2.0
/* The golden runner: golden FOLDER... [--bless] [--round-trip] [--must-fail] [--filter WORD] [--jobs N]
 *
 * A case is a file of a FOLDER. Its head says how to run the command on it, `---` ends the program,
 * and what follows is the expected output (test/README.md describes the form). The program goes to
 * a file of the case's own name in a fresh folder where the command runs, so places in diagnostics
 * are short and line numbers are those of the case. Speaks TAP.
 * Each run of the command is a fork that has LLVM loaded (fork.h).
 *   --bless       rewrites the expected output
 *   --round-trip  prints each program as .ir and .dat, reads both back, and wants the same text
 *   --must-fail   the negative control: turns every verdict round */
#define _XOPEN_SOURCE 700
#include "fork.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_RUNS = 32, MAX_WORDS = 64, TIME_LIMIT = 120, SHOWN_LINES = 60 };

typedef struct {
  char *at;
  size_t n;
} text;

typedef struct {
  const char *args;
  size_t len;
  int status;       // that it must end with
  bool with_errors; // a status was given: standard error is part of the output
  bool engines;     // `run` with each engine
} run;

typedef struct {
  const char *path, *name; // name: the last part of the path
  text file;
  size_t body, sep, expected; // offsets: program, its end, text after `---`
  run runs[MAX_RUNS];
  size_t nrun;
  bool has_why, too_many;
} test_case;

typedef struct {
  const char *filter;
  bool bless, round_trip, must_fail;
  long jobs;
} options;

typedef struct {
  char **at;
  size_t n;
} list;

static void die(const char *what, const char *name) {
  fprintf(stderr, "golden: %s %s: %s\n", what, name, strerror(errno));
  exit(2);
}

static void *more(void *p, size_t size) {
  void *q = realloc(p, size);
  if (!q) die("memory", "");
  return q;
}

static void append(text *t, const char *s, size_t n) {
  t->at = (char *)more(t->at, t->n + n + 1);
  if (n) memcpy(t->at + t->n, s, n);
  t->n += n;
  t->at[t->n] = 0;
}

static char *format(const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  char buf[4096];
  vsnprintf(buf, sizeof buf, fmt, ap);
  va_end(ap);
  text t = {0};
  append(&t, buf, strlen(buf));
  return t.at;
}

/* ---- files ---- */

static void read_into(text *t, const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f) die("cannot read", path);
  char buf[65536];
  append(t, "", 0);
  for (size_t n; (n = fread(buf, 1, sizeof buf, f)) > 0;) append(t, buf, n);
  fclose(f);
}

static void write_file(const char *path, const char *s, size_t n) {
  FILE *f = fopen(path, "wb");
  if (!f || fwrite(s, 1, n, f) != n || fclose(f) != 0) die("cannot write", path);
}

static void remove_folder(const char *dir) { // it has no folders in it
  DIR *d = opendir(dir);
  for (struct dirent *e; d && (e = readdir(d));) {
    char *path = format("%s/%s", dir, e->d_name);
    if (e->d_name[0] != '.' || e->d_name[1] == 's') unlink(path);
    free(path);
  }
  if (d) closedir(d);
  if (rmdir(dir) != 0) die("cannot remove", dir);
}

static bool ends_with(const char *s, const char *end) {
  size_t n = strlen(s), m = strlen(end);
  return n >= m && strcmp(s + n - m, end) == 0;
}

/* All cases below a folder. */
static void collect(list *l, const char *path, const char *filter) {
  struct stat st;
  if (stat(path, &st) != 0) die("cannot read", path);
  if (S_ISDIR(st.st_mode)) {
    DIR *d = opendir(path);
    if (!d) die("cannot read", path);
    for (struct dirent *e; (e = readdir(d));) {
      if (e->d_name[0] == '.') continue;
      char *inner = format("%s/%s", path, e->d_name);
      collect(l, inner, filter);
      free(inner);
    }
    closedir(d);
  } else if ((ends_with(path, ".anf") || ends_with(path, ".ir") || ends_with(path, ".dat")) &&
             strstr(path, filter)) {
    l->at = (char **)more(l->at, (l->n + 1) * sizeof *l->at);
    l->at[l->n++] = format("%s", path);
  }
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* ---- the head of a case ---- */

static bool has_key(const char *line, size_t n, const char *key, const char **rest) {
  size_t k = strlen(key);
  while (n && (*line == '/' || *line == '#' || *line == ' ')) line++, n--;
  if (n < k || memcmp(line, key, k) != 0) return false;
  *rest = line + k;
  return true;
}

static void read_head_line(test_case *c, const char *line, size_t n) {
  const char *rest;
  bool engines = has_key(line, n, "engines: ", &rest);
  if (engines || has_key(line, n, "run: ", &rest)) {
    c->too_many = c->nrun == MAX_RUNS;
    if (!c->too_many)
      c->runs[c->nrun++] = (run){rest, (size_t)(line + n - rest), 0, false, engines};
  } else if (has_key(line, n, "why: ", &rest)) c->has_why = true;
  else if (has_key(line, n, "status: ", &rest) && c->nrun) {
    c->runs[c->nrun - 1].status = atoi(rest);
    c->runs[c->nrun - 1].with_errors = true;
  }
}

/* Comment lines at the top are the head. In .dat, which has no comments, the head is no part of the
 * program; elsewhere it is, so that line numbers are those of the file. */
static void read_head(test_case *c) {
  const char *p = c->file.at, *end = p + c->file.n;
  while (p < end && (strncmp(p, "//", 2) == 0 || *p == '#')) {
    const char *eol = (const char *)memchr(p, '\n', (size_t)(end - p));
    if (!eol) eol = end;
    read_head_line(c, p, (size_t)(eol - p));
    p = eol < end ? eol + 1 : end;
  }
  c->body = ends_with(c->path, ".dat") ? (size_t)(p - c->file.at) : 0;
}

static void read_case(test_case *c, const char *path) {
  *c = (test_case){.path = path, .name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path};
  read_into(&c->file, path);
  read_head(c);
  const char *sep = NULL;
  for (const char *p = c->file.at; (p = strstr(p, "\n---\n")) && !sep;) sep = p;
  c->sep = sep ? (size_t)(sep + 1 - c->file.at) : c->file.n;
  c->expected = sep ? c->sep + 4 : c->file.n;
}

/* ---- running the command ---- */

/* Splits at spaces; single and double quotes group. `{}` is the case's file, `{dir}` its folder. */
static size_t split(const test_case *c, const char *s, size_t n, char **words) {
  size_t count = 0;
  for (size_t i = 0; i < n && count < MAX_WORDS;) {
    if (s[i] == ' ') {
      i++;
      continue;
    }
    text w = {0};
    append(&w, "", 0);
    for (char quote = 0; i < n && (quote || s[i] != ' '); i++) {
      if (!quote && (s[i] == '"' || s[i] == '\'')) quote = s[i];
      else if (quote && s[i] == quote) quote = 0;
      else if (i + 2 <= n && memcmp(s + i, "{}", 2) == 0) append(&w, c->name, strlen(c->name)), i++;
      else if (i + 5 <= n && memcmp(s + i, "{dir}", 5) == 0)
        append(&w, c->path, (size_t)(c->name - c->path) - 1), i += 4;
      else append(&w, s + i, 1);
    }
    words[count++] = w.at;
  }
  return count;
}

static int anfora(const test_case *c, const char *dir, const char *args, size_t n, text *out,
                  text *err) {
  char *words[MAX_WORDS + 2] = {format("anfora")};
  size_t count = split(c, args, n, words + 1);
  char *out_path = format("%s/.stdout", dir), *err_path = format("%s/.stderr", dir);
  fork_files files = {"/dev/null", out_path, err_path};
  int status = fork_command(dir, &files, TIME_LIMIT, (int)count + 1, words);
  read_into(out, out_path);
  read_into(err, err_path);
  free(out_path), free(err_path);
  for (size_t i = 0; i <= count; i++) free(words[i]);
  return status;
}

/* ---- verdicts ---- */

static void note(text *to, const char *head, const char *s, size_t n) {
  append(to, "# ", 2);
  append(to, head, strlen(head));
  append(to, "\n", 1);
  int lines = 0;
  for (const char *p = s; p < s + n && lines < SHOWN_LINES; lines++) {
    const char *eol = (const char *)memchr(p, '\n', (size_t)(s + n - p));
    size_t len = (size_t)((eol ? eol : s + n) - p);
    append(to, "#   ", 4);
    append(to, p, len < 400 ? len : 400);
    append(to, "\n", 1);
    p += len + 1;
  }
  if (lines == SHOWN_LINES) append(to, "#   (and more)\n", 15);
}

static bool same(text a, const char *s, size_t n) { return a.n == n && memcmp(a.at, s, n) == 0; }

/* The file, line and column of the first message. */
static size_t place_length(text err) {
  const char *end = err.n ? strstr(err.at, " error ") : NULL;
  return end ? (size_t)(end - err.at) : 0;
}

static bool is_refused_alike(text a, text b) {
  size_t n = place_length(a);
  return n == place_length(b) && (!n || memcmp(a.at, b.at, n) == 0);
}

/* `args` with one engine. Its output goes to `out` and `err`; false with a note when it ends in another way
 * than it must. */
static bool run_one(const test_case *c, const char *dir, const run *r, const char *args, text *out,
                    text *err, text *notes) {
  int status = anfora(c, dir, args, strlen(args), out, err);
  if (status == r->status && (!err->n || r->with_errors)) return true;
  char *head = format("%s ended with status %d, not %d; standard error:", args, status, r->status);
  note(notes, head, err->at, err->n);
  free(head);
  return false;
}

/* What the interpreter writes, all engines write; what it refuses, they refuse at the same place. */
static bool run_engines(const test_case *c, const char *dir, const run *r, text *out, text *err,
                        text *notes) {
  static const char *const engine[] = {"interp", "tir", "llvm", "cjit"};
  bool good = true;
  for (size_t i = 0; i < sizeof engine / sizeof *engine; i++) {
    char *args = format("run --backend %s %.*s", engine[i], (int)r->len, r->args);
    text o1 = {0}, e1 = {0};
    good = run_one(c, dir, r, args, i ? &o1 : out, i ? &e1 : err, notes) && good;
    if (i && (!same(o1, out->at, out->n) || !is_refused_alike(e1, *err))) {
      note(notes, args, o1.at, o1.n);
      note(notes, "  standard error:", e1.at, e1.n);
      note(notes, "but the interpreter:", out->at, out->n);
      note(notes, "  standard error:", err->at, err->n);
      good = false;
    }
    free(o1.at), free(e1.at), free(args);
  }
  return good;
}

/* Runs every line of the head; false with a note when one ends in another way than it must. */
static bool run_all(const test_case *c, const char *dir, text *got, text *notes) {
  bool good = true;
  for (size_t i = 0; i < c->nrun; i++) {
    const run *r = &c->runs[i];
    text out = {0}, err = {0};
    char *args = format("%.*s", (int)r->len, r->args);
    good = (r->engines ? run_engines(c, dir, r, &out, &err, notes)
                       : run_one(c, dir, r, args, &out, &err, notes)) &&
           good;
    append(got, out.at, out.n);
    if (r->with_errors) append(got, err.at, err.n);
    free(out.at), free(err.at), free(args);
  }
  if (got->n && got->at[got->n - 1] != '\n') append(got, "\n", 1);
  return good;
}

static void bless(const test_case *c, text got) {
  text whole = {0};
  append(&whole, c->file.at, c->sep);
  append(&whole, "---\n", 4);
  append(&whole, got.at, got.n);
  write_file(c->path, whole.at, whole.n);
  printf("# wrote %s\n", c->path);
  free(whole.at);
}

static bool golden(const options *o, const test_case *c, const char *dir, text *notes) {
  if (!c->nrun) return note(notes, "the head has no `run:` line", "", 0), false;
  if (c->too_many)
    return note(notes, "the head has more `run:` lines than a case may have", "", 0), false;
  if (!c->has_why) return note(notes, "the head has no `why:` line", "", 0), false;
  text got = {0};
  append(&got, "", 0);
  bool good = run_all(c, dir, &got, notes);
  const char *expected = c->file.at + c->expected;
  size_t n = c->file.n - c->expected;
  bool equal = same(got, expected, n) && c->expected != c->sep;
  if (!equal && o->bless && good) bless(c, got), equal = true;
  if (!equal) {
    note(notes, "expected:", expected, n);
    note(notes, "got:", got.at, got.n);
  }
  free(got.at);
  return good && equal;
}

/* `print FROM --as FORM`, kept as the file TO. */
static bool print_as(const test_case *c, const char *dir, const char *from, const char *form,
                     const char *to, text *out, text *notes) {
  char *args = format("print %s --as %s", from, form), *path = format("%s/%s", dir, to);
  text err = {0};
  *out = (text){0};
  int status = anfora(c, dir, args, strlen(args), out, &err);
  write_file(path, out->at, out->n);
  if (status != 0) note(notes, args, err.at, err.n);
  free(args), free(path), free(err.at);
  return status == 0;
}

static bool want_same(text a, text b, const char *what, text *notes) {
  if (same(a, b.at, b.n)) return true;
  note(notes, what, a.at, a.n);
  note(notes, "and then:", b.at, b.n);
  return false;
}

static bool round_trip(const test_case *c, const char *dir, text *notes) {
  text ir, ir2, ir3, dat, dat2;
  bool good = print_as(c, dir, "{}", "ir", "1.ir", &ir, notes);
  good = print_as(c, dir, "1.ir", "ir", "2.ir", &ir2, notes) && good;
  good = print_as(c, dir, "{}", "dat", "1.dat", &dat, notes) && good;
  good = print_as(c, dir, "1.dat", "dat", "2.dat", &dat2, notes) && good;
  good = print_as(c, dir, "1.dat", "ir", "3.ir", &ir3, notes) && good;
  if (good)
    good = want_same(ir, ir2, ".ir changes when it is read back:", notes) &&
           want_same(dat, dat2, ".dat changes when it is read back:", notes) &&
           want_same(ir, ir3, "another .ir comes from the .dat:", notes);
  free(ir.at), free(ir2.at), free(ir3.at), free(dat.at), free(dat2.at);
  return good;
}

/* Programs that `check` refuses have no module to go round with. */
static bool is_refused(const test_case *c, const char *dir) {
  text out = {0}, err = {0};
  int status = anfora(c, dir, "check {}", 8, &out, &err);
  free(out.at), free(err.at);
  return status == 1;
}

static char *new_folder(void) {
  const char *base = getenv("TMPDIR");
  char *dir = format("%s/golden-XXXXXX", base && *base ? base : "/tmp");
  if (!mkdtemp(dir)) die("cannot make", dir);
  return dir;
}

/* True if the case passes, or has nothing to say in this mode. */
static bool run_case(const options *o, const char *path) {
  test_case c;
  read_case(&c, path);
  char *dir = new_folder(), *program = format("%s/%s", dir, c.name);
  write_file(program, c.file.at + c.body, c.sep - c.body);
  text notes = {0};
  append(&notes, "", 0);
  bool skip = o->round_trip && is_refused(&c, dir), good = true;
  if (!skip) {
    good = o->round_trip ? round_trip(&c, dir, &notes) : golden(o, &c, dir, &notes);
    if (o->must_fail) good = !good;
    printf("%s - %s\n", good ? "ok" : "not ok", path);
    if (!good) fputs(notes.at, stdout);
  }
  remove_folder(dir);
  free(notes.at), free(program), free(dir), free(c.file.at);
  return good;
}

/* ---- all of them ---- */

/* Each worker takes a run of neighbours and writes to a file of its own, so that the order stays.
 */
static FILE *start_worker(const options *o, list cases, size_t from, size_t to) {
  FILE *out = tmpfile();
  if (!out) die("cannot make", "a temporary file");
  fflush(NULL);
  pid_t pid = fork();
  if (pid < 0) die("cannot", "fork");
  if (pid) return out;
  if (dup2(fileno(out), 1) < 0) _exit(2);
  bool good = true;
  for (size_t i = from; i < to; i++) good = run_case(o, cases.at[i]) && good;
  fflush(stdout);
  _exit(good ? 0 : 1);
}

static void show(FILE *f, size_t *count) {
  char line[8192];
  bool start = true;
  rewind(f);
  while (fgets(line, sizeof line, f)) {
    if (start && (strncmp(line, "ok", 2) == 0 || strncmp(line, "not ok", 6) == 0)) ++*count;
    start = strchr(line, '\n') != NULL;
    fputs(line, stdout);
  }
  fclose(f);
}

static int run_list(const options *o, list cases) {
  size_t jobs = (size_t)o->jobs, count = 0;
  static FILE **out; // what a fork inherits is no leak of it where a static variable has it
  out = (FILE **)more(NULL, jobs * sizeof *out);
  for (size_t i = 0; i < jobs; i++)
    out[i] = start_worker(o, cases, cases.n * i / jobs, cases.n * (i + 1) / jobs);
  int worst = 0;
  for (int st; wait(&st) > 0;)
    if (!WIFEXITED(st) || WEXITSTATUS(st) > worst) worst = WIFEXITED(st) ? WEXITSTATUS(st) : 2;
  for (size_t i = 0; i < jobs; i++) show(out[i], &count);
  free(out);
  printf("1..%zu\n", count);
  return worst;
}

static int usage(void) {
  fputs("golden FOLDER... [--bless] [--round-trip] [--must-fail] [--filter WORD] [--jobs N] "
        "[--leaks-every N]\n",
        stderr);
  return 2;
}

static bool read_options(options *o, int argc, char **argv, list *folders) {
  for (int i = 1; i < argc; i++) {
    const char *a = argv[i], *next = i + 1 < argc ? argv[i + 1] : NULL;
    if (strcmp(a, "--bless") == 0) o->bless = true;
    else if (strcmp(a, "--round-trip") == 0) o->round_trip = true;
    else if (strcmp(a, "--must-fail") == 0) o->must_fail = true;
    else if (strcmp(a, "--filter") == 0 && next) o->filter = argv[++i];
    else if (strcmp(a, "--jobs") == 0 && next) o->jobs = atol(argv[++i]);
    else if (strcmp(a, "--leaks-every") == 0 && next) fork_leaks_every = (unsigned)atol(argv[++i]);
    else if (a[0] == '-') return false;
    else folders->at[folders->n++] = argv[i];
  }
  return folders->n && o->jobs > 0 && fork_leaks_every > 0;
}

int main(int argc, char **argv) {
  const char *filter = getenv("TEST_FILTER");
  options o = {.filter = filter ? filter : "", .jobs = sysconf(_SC_NPROCESSORS_ONLN)};
  static list folders, cases;
  folders.at = (char **)more(NULL, (size_t)argc * sizeof(char *));
  if (!read_options(&o, argc, argv, &folders)) return usage();
  for (size_t i = 0; i < folders.n; i++) collect(&cases, folders.at[i], o.filter);
  if (cases.n) qsort(cases.at, cases.n, sizeof *cases.at, by_name);
  // what a sanitizer finds must not look like an exit status of the command's own
  setenv("ASAN_OPTIONS", "exitcode=99", 0);
  setenv("UBSAN_OPTIONS", "halt_on_error=1:print_stacktrace=1:exitcode=99", 0);
  setenv("TSAN_OPTIONS", "exitcode=99", 0);
  setenv("NO_COLOR", "1", 1);
  if (!o.round_trip) fork_load();
  int status = run_list(&o, cases);
  for (size_t i = 0; i < cases.n; i++) free(cases.at[i]);
  free(cases.at), free(folders.at);
  return status;
}
