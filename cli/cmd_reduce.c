// SPDX-License-Identifier: Apache-2.0
/* anfora reduce: the smallest program that fails as a given one does.
 *   anfora reduce bad.anf -- ./check.sh {}   ->   the shortest text on which ./check.sh fails in the same way
 * How a program fails is an `outcome`: that of a command on it, or else of running it before and after a pipeline.
 * Each candidate has a frame with diagnostics of its own, so that its errors are not shown. */
#define _POSIX_C_SOURCE 200809L
#include "cli/cli.h"
#include "frontend/load.h"
#include "reduce/reduce.h"

#include "anfora/opt.h"
#include "anfora/run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

typedef enum { GOOD, UNREADABLE, NOT_RUN, NOT_OPTIMISED, DIFFERS, STATUS } how;
static const char *const how_text[] = {"",
                                       "it cannot be read",
                                       "it cannot be run",
                                       "the passes refuse it",
                                       "it gives something else after the passes",
                                       "the command fails"};

typedef struct {
  how how;
  int status;   // of the command
  char code[8]; // "E0442"; "" if there is none
} outcome;

typedef struct {
  /* the command line */
  cli *c;
  const char *function; // NULL until known
  const char *passes;
  uint64_t max_steps;
  /* arguments */
  size_t narg;
  const char **name; // of the parameters of the whole program; arguments go by name
  anf_value **value; // NULL: made from the type
  /* the check */
  char **command;            // NULL: the check of above
  char *file, *folder, *log; // where candidates are written for the command
  outcome want;
} job;

/* ---- the check by running ---- */

enum { DEPTH = 100000, FUEL = 1000000, SECONDS = 60, TRIES = 10000 };

static void take_code(outcome *o, const anf_diag *d) {
  for (size_t i = 0; i < anf_diag_count(d) && !o->code[0]; i++)
    if (anf_diag_at(d, i)->severity == ANF_ERROR)
      snprintf(o->code, sizeof o->code, "%s", anf_diag_at(d, i)->code);
}

static uint64_t next(uint64_t *seed) {
  return *seed = *seed * 6364136223846793005u + 1442695040888963407u;
}

/* A value of the type, small and the same in every run; 2 for other kinds, or without a type. */
static anf_value *sample(anf_ctx *cx, const anf_type *t, const char *name) {
  uint64_t seed = anfi_hash(name, strlen(name), 7);
  int64_t dims[ANF_MAX_RANK];
  if (!t || !anfi_is_tensor(t) || anf_type_dtype(t) == ANF_KEY)
    return anfi_value_new_i64(cx, ANF_INT, 2);
  for (size_t i = 0; i < anf_type_rank(t); i++) {
    int64_t d = anf_type_dim(t, i);
    dims[i] = d >= 0 ? d : d == ANF_DIM_UNKNOWN ? 2 : 3;
  }
  const anf_type *full = anfi_type_tensor(cx, anf_type_dtype(t), anf_type_rank(t), dims);
  anf_value *v = full ? anfi_value_new_tensor(cx, full) : NULL;
  anfi_class class = anfi_dtype_class(anf_type_dtype(t));
  for (size_t i = 0; v && i < v->n && class != ANFI_CLASS_COMPLEX; i++) {
    int64_t k = (int64_t)(next(&seed) >> 60);
    if (class == ANFI_CLASS_FLOAT) anfi_set_f64(v, i, (double)(k - 7) / 4);
    else anfi_set_i64(v, i, class == ANFI_CLASS_BOOL ? k & 1 : k % 5);
  }
  return v;
}

static anf_value *argument(const job *j, const anf_node *param) {
  for (size_t i = 0; i < j->narg; i++)
    if (j->value && strcmp(j->name[i], anf_node_name(param)) == 0)
      return anf_value_retain(j->value[i]);
  return sample(j->c->cx, param->type, anf_node_name(param));
}

static anf_status run_once(const job *j, anf_module *m, uint64_t steps, anf_diag *d,
                           anf_value **out) {
  anf_graph *g = anf_module_find(m, j->function);
  if (!g || (g->flags & ANFI_GRAPH_PRIVATE)) return ANF_INVALID;
  anf_value **args = ANFI_NEW_N(anfi_scratch(j->c->cx), anf_value *, g->params.n + 1);
  for (size_t i = 0; i < g->params.n; i++) {
    args[i] = argument(j, g->params.at[i]);
    if (!args[i]) return ANF_INVALID;
    anfi_defer(j->c->cx, ANFI_ALWAYS, anfi_release, args[i]);
  }
  anf_run_opts o = {.size = sizeof o, .max_steps = steps, .max_depth = DEPTH};
  anf_status st = anf_run(g, g->params.n, args, &o, d, out);
  if (st == ANF_OK) anfi_defer(j->c->cx, ANFI_ALWAYS, anfi_release, *out);
  return st;
}

/* The passes make functions the data that they bind: such a result cannot be compared. */
static bool same(const anf_value *a, const anf_value *b) {
  bool function = a->kind == ANF_VALUE_FN;
  for (size_t i = 0; a->kind == ANF_VALUE_TUPLE && i < a->n; i++)
    function |= a->u.item[i]->kind == ANF_VALUE_FN;
  return function || anf_value_same(a, b);
}

/* `first`: result of the program before the passes, which must not change it. */
static how compare(const job *j, anf_module *m, anf_diag *d, outcome *o) {
  anf_value *before = NULL, *after = NULL;
  anf_opt_opts opts = {
      .size = sizeof opts, .fast = j->c->value[OPT_FAST] != NULL, .verify_each = true};
  if (!anf_module_find(m, j->function)) return GOOD;
  anf_status first = run_once(j, m, j->max_steps, d, &before);
  take_code(o, d);
  if (first == ANF_OK) {
    if (anf_optimise(m, j->passes, &opts, d) != ANF_OK) return NOT_OPTIMISED;
    anf_status second = run_once(j, m, 10 * j->max_steps, d, &after);
    return second == ANF_OK && same(before, after) ? GOOD : DIFFERS;
  }
  return o->code[0] ? NOT_RUN : GOOD;
}

typedef struct {
  const job *j;
  const char *text;
  size_t len;
  anf_diag *d;
  outcome o;
} trial;

static void observe(trial *t) {
  anf_ctx *cx = t->j->c->cx;
  anf_module *m = NULL;
  anf_status st = anf_parse_n(cx, t->text, t->len, "case", t->d, &m);
  if (st == ANF_OK) anfi_defer(cx, ANFI_ALWAYS, anfi_free_module, m);
  if (st == ANF_OK) st = anf_verify(m, t->d);
  if (st != ANF_OK) t->o.how = UNREADABLE;
  else if (t->j->function) t->o.how = compare(t->j, m, t->d, &t->o);
  if (t->o.how != GOOD && t->o.how != DIFFERS) take_code(&t->o, t->d);
}

static anf_status observe_framed(trial *t) {
  ANFI_ENTRY(t->j->c->cx, t->d);
  observe(t);
  return anfi_leave(t->j->c->cx);
}

static outcome by_running(const job *j, const char *text, size_t len) {
  trial t = {.j = j, .text = text, .len = len, .d = anf_diag_new(j->c->cx)};
  if (!t.d) anfi_throw_nomem(j->c->cx);
  anf_status st = observe_framed(&t);
  anf_diag_free(t.d);
  if (st == ANF_NOMEM) anfi_throw_nomem(j->c->cx);
  return t.o;
}

/* ---- the check by a command ---- */

/* In the child. A command that hangs is ended; `alarm` outlives exec. */
static void become(char **words, int to) {
  int null = open("/dev/null", O_RDONLY);
  if (null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(to, STDOUT_FILENO) >= 0 &&
      dup2(to, STDERR_FILENO) >= 0) {
    alarm(SECONDS);
    signal(SIGPIPE, SIG_DFL);
    execvp(words[0], words);
  }
  _exit(127);
}

static bool is_digits(const char *s, int n) {
  for (int i = 0; i < n; i++)
    if (s[i] < '0' || s[i] > '9') return false;
  return s[n] < '0' || s[n] > '9';
}

static void find_code(outcome *o, int fd) {
  char text[1 << 14];
  ssize_t n = lseek(fd, 0, SEEK_SET) == 0 ? read(fd, text, sizeof text - 1) : 0;
  text[n > 0 ? n : 0] = 0;
  for (const char *p = text; (p = strchr(p, 'E')); p++)
    if (is_digits(p + 1, 4)) {
      memcpy(o->code, p, 5);
      return;
    }
}

static void cannot(const job *j, const char *what) {
  anfi_fail(j->c->cx, anfi_nowhere(), ANF_E0019, j->command[0], what);
}

static outcome by_command(const job *j, const char *text, size_t len) {
  outcome o = {0};
  if (!anfi_os_write(j->c->cx, j->file, text, len)) return o;
  int fd = open(j->log, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), st = 0;
  pid_t pid = fd < 0 ? -1 : fork();
  if (pid == 0) become(j->command, fd);
  while (pid > 0 && waitpid(pid, &st, 0) < 0 && errno == EINTR) {
  }
  if (pid < 0) cannot(j, strerror(errno));
  else if (WIFEXITED(st) && WEXITSTATUS(st) == 127) cannot(j, "it cannot be started");
  else o.status = WIFEXITED(st) ? WEXITSTATUS(st) : 128 + WTERMSIG(st);
  if (o.status) {
    o.how = STATUS;
    find_code(&o, fd);
  }
  if (fd >= 0) close(fd);
  return o;
}

static void remove_files(void *user) {
  const job *j = (const job *)user;
  unlink(j->file);
  unlink(j->log);
  rmdir(j->folder);
}

/* `{}` in a word of the command is the candidate's file. */
static char *with_file(anfi_arena *a, const char *word, const char *file) {
  const char *at = strstr(word, "{}");
  return at ? anfi_sprintf(a, "%.*s%s%s", (int)(at - word), word, file, at + 2)
            : anfi_strndup(a, word, strlen(word));
}

static anf_status prepare_command(job *j, const char *path, const char *const *words, size_t n) {
  anfi_arena *a = anfi_scratch(j->c->cx);
  const char *tmp = getenv("TMPDIR"), *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  j->folder = anfi_sprintf(a, "%s/anfora-XXXXXX", tmp && *tmp ? tmp : "/tmp");
  j->command = ANFI_NEW_N(a, char *, n + 1);
  if (!mkdtemp(j->folder)) {
    anfi_fail(j->c->cx, anfi_nowhere(), ANF_E0301, "make the folder", j->folder, strerror(errno));
    return ANF_IO;
  }
  j->file = anfi_sprintf(a, "%s/%s", j->folder, strcmp(name, "-") == 0 ? "case.anf" : name);
  j->log = anfi_sprintf(a, "%s/output of the command", j->folder);
  anfi_defer(j->c->cx, ANFI_ALWAYS, remove_files, j);
  for (size_t i = 0; i < n; i++) j->command[i] = with_file(a, words[i], j->file);
  return ANF_OK;
}

/* ---- the command ---- */

static outcome check(const job *j, const char *text, size_t len) {
  return j->command ? by_command(j, text, len) : by_running(j, text, len);
}

static bool fails(void *user, const char *text, size_t len) {
  const job *j = (const job *)user;
  outcome o = check(j, text, len);
  return o.how == j->want.how && o.status == j->want.status && strcmp(o.code, j->want.code) == 0;
}

/* The function that is run, and its arguments; a program that cannot be read has none. */
static anf_status prepare_run(job *j, cli_target t, const char *text, size_t len) {
  cli *c = j->c;
  anf_diag *d = anf_diag_new(c->cx);
  anf_module *m = NULL;
  if (!d) anfi_throw_nomem(c->cx);
  anf_status st = anf_parse_n(c->cx, text, len, t.file, d, &m);
  anf_diag_free(d);
  if (st != ANF_OK) return ANF_OK;
  anfi_defer(c->cx, ANFI_ALWAYS, anfi_free_module, m);
  anf_graph *g = cli_function(c, m, t);
  if (!g) return ANF_INVALID;
  j->function = g->name->s;
  j->narg = g->params.n;
  j->name = ANFI_NEW_N(anfi_scratch(c->cx), const char *, j->narg + 1);
  for (size_t i = 0; i < j->narg; i++) j->name[i] = anf_node_name(g->params.at[i]);
  return c->nplain > 1 ? cli_arguments(c, g, c->arg + 1, c->nplain - 1, &j->value) : ANF_OK;
}

static int reduce(job *j, const char *text, size_t len) {
  cli *c = j->c;
  uint64_t tries = TRIES;
  if (!cli_number(c, OPT_MAX_TRIES, UINT64_MAX, &tries)) return EXIT_USAGE;
  j->want = check(j, text, len);
  if (anfi_failed(c->cx)) return EXIT_INPUT;
  if (j->want.how == GOOD) {
    anfi_fail(c->cx, anfi_nowhere(), ANF_E0605, c->arg[0]);
    return EXIT_INPUT;
  }
  anfi_reducer r = {.cx = c->cx, .fails = fails, .user = j, .max_tries = tries};
  const char *small = anfi_reduce(&r, text, len);
  fprintf(stderr, "%s%s%s: %zu bytes to %zu%s\n", how_text[j->want.how],
          j->want.code[0] ? " with " : "", j->want.code, len, strlen(small),
          r.tries >= tries ? ", stopped by --max-tries" : "");
  return cli_write(c, small, strlen(small));
}

/* The text of the program; of other formats the .ir text of their module. */
static anf_status read_text(cli *c, const char *file, char **text, size_t *len) {
  bool input = strcmp(file, "-") == 0;
  if (input && !cli_read_input(c)) return ANF_IO;
  const anfi_format *format =
      input ? anfi_format_of_input(c->input, c->input_len) : anfi_format_of(file);
  if (input && format->text) return *text = c->input, *len = c->input_len, ANF_OK;
  if (!format || format->text)
    return anfi_os_read(c->cx, anfi_scratch(c->cx), file, text, len) ? ANF_OK : ANF_IO;
  anf_module *m = NULL;
  anf_text t = {.cx = c->cx};
  anf_status st = cli_load(c, file, &m);
  if (st == ANF_OK) st = anf_print_ir(m, &t);
  if (st == ANF_OK) *text = anfi_strndup(anfi_scratch(c->cx), t.text ? t.text : "", *len = t.len);
  anf_text_free(&t);
  return st;
}

int cmd_reduce(cli *c) {
  if (!c->nplain) return cli_usage(c, "it takes a file");
  size_t nword = c->narg - c->nplain, len = 0;
  if (nword && c->nplain > 1) return cli_usage(c, "arguments and a command cannot both be given");
  if (nword && c->value[OPT_PASSES])
    return cli_usage(c, "--passes and a command cannot both be given");
  if (nword && cli_names_function(c, c->arg[0]))
    return cli_usage(c,
                     "a COMMAND is given the whole file, and names the function: FILE -- COMMAND "
                     "{}%s",
                     strrchr(c->arg[0], ':'));
  job *j = ANFI_NEW(anfi_scratch(c->cx), job);
  cli_target t = nword ? (cli_target){c->arg[0], NULL} : cli_split(c, c->arg[0]);
  char *text = NULL;
  *j = (job){.c = c,
             .passes = c->value[OPT_PASSES] ? c->value[OPT_PASSES] : "standard",
             .max_steps = FUEL};
  if (!cli_number(c, OPT_MAX_STEPS, UINT64_MAX / 10, &j->max_steps)) return EXIT_USAGE;
  anf_status st = read_text(c, t.file, &text, &len);
  if (st == ANF_OK && nword) st = prepare_command(j, t.file, c->arg + c->nplain, nword);
  else if (st == ANF_OK) st = prepare_run(j, t, text, len);
  return st == ANF_OK ? reduce(j, text, len) : cli_status(c, st);
}
