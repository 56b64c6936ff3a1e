// SPDX-License-Identifier: Apache-2.0
/* The command `anfora`: reads the command line by the table, runs one command, and reports the status.
 *   anfora run f.anf --repeat 3 2   ->   command run, value[OPT_REPEAT] = "3", arg = {"f.anf", "2"}   ->   cmd_run
 * Messages go to standard error, results to standard output; a result that could not be written is never a success. */
#define _POSIX_C_SOURCE 200809L
#include "cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- ending ---- */

int cli_usage(const cli *c, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  if (c->wants_json) return cli_json_usage(c, fmt, ap), va_end(ap), EXIT_USAGE;
  fprintf(stderr, "anfora%s%s: ", c->command ? " " : "", c->command ? c->command->name : "");
  vfprintf(stderr, fmt, ap);
  va_end(ap);
  fprintf(stderr, "\nTry: anfora help%s%s\n", c->command ? " " : "",
          c->command ? c->command->name : "");
  return EXIT_USAGE;
}

int cli_status(cli *c, anf_status st) {
  if (c->status == ANF_OK) c->status = st;
  switch (st) {
  case ANF_OK: return EXIT_OK;
  case ANF_INVALID:
  case ANF_IO: return EXIT_INPUT;
  case ANF_UNSUPPORTED: return EXIT_UNSUPPORTED;
  case ANF_LIMIT:
  case ANF_NOMEM:
  case ANF_CANCELLED: return EXIT_RESOURCES;
  case ANF_INTERNAL: break;
  }
  return EXIT_BUG;
}

void cli_put(cli *c, const char *text, size_t len) {
  errno = 0;
  if (fwrite(text, 1, len, stdout) < len && !c->write_errno) c->write_errno = errno;
}

int cli_write(cli *c, const char *text, size_t len) {
  const char *path = c->value[OPT_OUTPUT];
  bool file = path && strcmp(path, "-") != 0, json = c->value[OPT_JSON] != NULL;
  if (file && !anfi_os_write(c->cx, path, text, len)) return cli_status(c, ANF_IO);
  if (json)
    return cli_json_output(c, file ? "file" : "text", file ? path : text,
                           file ? strlen(path) : len);
  if (!file) cli_put(c, text, len);
  return EXIT_OK;
}

int cli_finish(cli *c, anf_status st, anf_text *t) {
  int status = st == ANF_OK ? cli_write(c, t->text ? t->text : "", t->len) : cli_status(c, st);
  anf_text_free(t);
  return status;
}

/* A reader that has gone away (EPIPE) has seen enough: that is no message, but no success either.
 */
static int close_stdout(const cli *c, int status) {
  errno = 0;
  bool bad = ferror(stdout) != 0;
  if (fclose(stdout) != 0) bad = true;
  if (!bad) return status;
  int why = c->write_errno ? c->write_errno : errno;
  if (why && why != EPIPE)
    fprintf(stderr, "anfora: cannot write to standard output: %s\n", strerror(why));
  return status ? status : EXIT_RESOURCES;
}

/* ---- options ---- */

/* Values of getopt_long: letters, and from LONG on the options of the table. */
enum { LONG = 1000 };

typedef struct {
  struct option longs[OPT_COUNT + 1];
  char shorts[3 * OPT_COUNT + 3];
} grammar;

static void make_grammar(const cli_command_info *command, grammar *g) {
  size_t n = 0, k = 0;
  g->shorts[k++] = '-'; // return arguments in order
  g->shorts[k++] = ':'; // distinguish a missing argument from an unknown option
  for (cli_option o = 0; o < OPT_COUNT; o++) {
    const cli_option_info *t = &cli_option_table[o];
    if (!cli_takes(command, o)) continue;
    g->longs[n++] = (struct option){t->name, t->argument ? required_argument : no_argument, NULL,
                                    LONG + (int)o};
    if (!t->letter) continue;
    g->shorts[k++] = t->letter;
    if (t->argument) g->shorts[k++] = ':';
  }
  g->longs[n] = (struct option){0};
  g->shorts[k] = 0;
}

static cli_option option_of(int code) {
  if (code >= LONG) return (cli_option)(code - LONG);
  for (cli_option o = 0; o < OPT_COUNT; o++)
    if (cli_option_table[o].letter == code) return o;
  return OPT_COUNT;
}

static int unknown_option(const cli *c, char **argv) {
  if (optopt && optopt < LONG) return cli_usage(c, "there is no option -%c", optopt);
  const char *word = argv[optind - 1];
  size_t n = strcspn(word, "=");
  char name[64];
  snprintf(name, sizeof name, "%.*s", (int)(n < 60 ? n : 60), word);
  if (optopt >= LONG) return cli_usage(c, "the option %s takes no argument", name);
  const char *near = cli_nearest_option(c->command, name + 2);
  if (near) return cli_usage(c, "there is no option %s; did you mean --%s?", name, near);
  return cli_usage(c, "there is no option %s", name);
}

static int set_option(cli *c, cli_option o, const char *value) {
  const cli_option_info *t = &cli_option_table[o];
  if (t->argument && cli_is_choice(t) && !cli_has_word(t->choices, value))
    return cli_usage(c, "--%s must be one of: %s; it is '%s'", t->name, t->choices, value);
  c->value[o] = t->argument ? value : "";
  return EXIT_OK;
}

/* Words with a dash that are no options: -3, -.5, -inf, and -:FUNC of standard input. */
static bool is_plain_word(const char *s) {
  if (*s++ != '-') return false;
  if (*s == ':') return true;
  if (strcmp(s, "inf") == 0 || strcmp(s, "nan") == 0) return true;
  return (*s >= '0' && *s <= '9') || (*s == '.' && s[1] >= '0' && s[1] <= '9');
}

static int add_word(cli *c, const char *word) {
  if (c->command) {
    c->arg[c->narg++] = word;
    return EXIT_OK;
  }
  if ((c->command = cli_find_command(word))) return EXIT_OK;
  const char *near = cli_nearest_command(word);
  if (near) return cli_usage(c, "there is no command '%s'; did you mean '%s'?", word, near);
  return cli_usage(c, "there is no command '%s'", word);
}

static int read_options(cli *c, int argc, char **argv) {
  int status = EXIT_OK, code = 0;
  opterr = 0;
  for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) // before it is known what is wrong
    c->wants_json |= strcmp(argv[i], "--json") == 0;
  while (!status && optind < argc && code != -1) {
    if (is_plain_word(argv[optind])) {
      status = add_word(c, argv[optind++]);
      continue;
    }
    grammar g;
    make_grammar(c->command, &g);
    code = getopt_long(argc, argv, g.shorts, g.longs, NULL);
    if (code == -1) break;
    if (code == 1) status = add_word(c, optarg);
    else if (code == ':')
      status = cli_usage(c, "the option %s needs an argument", argv[optind - 1]);
    else if (code == '?') status = unknown_option(c, argv);
    else status = set_option(c, option_of(code), optarg);
  }
  c->nplain = c->narg;
  while (!status && optind < argc) status = add_word(c, argv[optind++]); // after --
  return status;
}

static bool number(const cli *c, cli_option o, uint64_t min, uint64_t max, uint64_t *out) {
  const char *s = c->value[o];
  if (!s) return true;
  char *end;
  errno = 0;
  unsigned long long v = strtoull(s, &end, 10);
  if (*s < '0' || *s > '9' || *end || errno || v > max || v < min) {
    cli_usage(c, "--%s must be a number from %llu to %llu; it is '%s'", cli_option_table[o].name,
              (unsigned long long)min, (unsigned long long)max, s);
    return false;
  }
  *out = v;
  return true;
}

bool cli_number(const cli *c, cli_option o, uint64_t max, uint64_t *out) {
  return number(c, o, 1, max, out);
}

bool cli_number_or_0(const cli *c, cli_option o, uint64_t max, uint64_t *out) {
  return number(c, o, 0, max, out);
}

/* Options that say nothing without others, or say nothing at all, are wrong use. */
static int check_options(const cli *c) {
  static const struct {
    cli_option option, one, other;
  } need[] = {
#define CLI_NEED(id, one, other) {OPT_##id, OPT_##one, OPT_##other},
#include "cli/option.def"
#undef CLI_NEED
  };
  static const cli_option lists[] = {OPT_WRT, OPT_FIX};
  const cli_option_info *t = cli_option_table;
  for (size_t i = 0; i < ANFI_LEN(need); i++) {
    cli_option o = need[i].option, one = need[i].one, other = need[i].other;
    if (!c->value[o] || c->value[one] || c->value[other] || !cli_takes(c->command, one)) continue;
    const char *argument = t[one].argument;
    return cli_usage(c, "--%s needs --%s%s%s%s%s", t[o].name, t[one].name, argument ? " " : "",
                     argument ? argument : "", one != other ? " or --" : "",
                     one != other ? t[other].name : "");
  }
  for (size_t i = 0; i < ANFI_LEN(lists); i++) {
    const char *s = c->value[lists[i]];
    if (s && !s[strspn(s, " ,")]) return cli_usage(c, "--%s names nothing", t[lists[i]].name);
  }
  return EXIT_OK;
}

static bool wants_colour(const cli *c) {
  const char *when = c->value[OPT_COLOR], *off = getenv("NO_COLOR"), *term = getenv("TERM");
  if (when && strcmp(when, "auto") != 0) return strcmp(when, "always") == 0;
  return !(off && *off) && !(term && strcmp(term, "dumb") == 0) && isatty(STDERR_FILENO);
}

/* ---- running ---- */

static int run_command(cli *c) {
  if (c->value[OPT_VERSION]) return cmd_version(c);
  if (!c->value[OPT_HELP] && c->command) return c->command->run(c);
  if (c->value[OPT_JSON]) return cli_help_json(c, c->command);
  anf_text out = {.cx = c->cx};
  cli_help(c->command, &out);
  fwrite(out.text, 1, out.len, stdout);
  anf_text_free(&out);
  return EXIT_OK;
}

static anf_status guarded(cli *c, int (*fn)(cli *), int *status) {
  ANFI_ENTRY(c->cx, c->d);
  *status = fn(c);
  return anfi_leave(c->cx);
}

static int tell_errors_json(cli *c) { return cli_json_write(c, cli_json_errors(c)); }

static void tell_errors(cli *c, int status) {
  int ignored = 0;
  bool json = c->value[OPT_JSON] && status != EXIT_OK && status != EXIT_USAGE;
  if (json && guarded(c, tell_errors_json, &ignored) == ANF_OK) return;
  anf_diag_print(c->d, stderr, c->colour);
  if (c->status == ANF_NOMEM && !anf_diag_count(c->d)) fputs("anfora: out of memory\n", stderr);
}

int cli_begin(cli *c) {
  int status = EXIT_OK;
  c->cx = anf_ctx_new(NULL);
  c->d = c->cx ? anf_diag_new(c->cx) : NULL;
  if (!c->d) return EXIT_RESOURCES;
  anf_status st = guarded(c, run_command, &status);
  return st != ANF_OK ? cli_status(c, st) : status;
}

void cli_end(cli *c, int status, bool tells) {
  if (c->d && tells) tell_errors(c, status);
  else if (!c->d) fputs("anfora: out of memory\n", stderr);
  if (c->d) anf_diag_free(c->d);
  anf_ctx_free(c->cx);
}

int cli_main(int argc, char **argv) {
  signal(SIGPIPE, SIG_IGN);
  cli c = {0};
  c.arg = (const char **)calloc((size_t)argc + 1, sizeof *c.arg);
  if (!c.arg) return EXIT_RESOURCES;
  int status = read_options(&c, argc, argv);
  bool asked = c.command || c.value[OPT_HELP] || c.value[OPT_VERSION];
  if (!status && !asked) status = cli_usage(&c, "a command is needed");
  if (!status && c.command && !c.value[OPT_HELP]) status = check_options(&c);
  c.colour = wants_colour(&c);
  if (!status) {
    status = cli_begin(&c);
    cli_end(&c, status, true);
  }
  free(c.arg);
  return close_stdout(&c, status);
}
