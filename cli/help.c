// SPDX-License-Identifier: Apache-2.0
/* Help, the manual page and completions of bash and zsh, all derived from the table of option.def.
 *   the row of --json   ->   a line of help, a .TP of the manual page, a word of the completions */
#include "cli/cli.h"
#include "frontend/load.h"
#include "ir/ir.h"

#include "anfora/opt.h"

const cli_fact cli_statuses[] = {
#define CLI_STATUS(number, text) {#number, text},
#include "cli/option.def"
#undef CLI_STATUS
    {NULL, NULL}};
const cli_fact cli_variables[] = {
#define CLI_VARIABLE(name, text) {name, text},
#include "cli/option.def"
#undef CLI_VARIABLE
    {NULL, NULL}};

/* ---- help ---- */

enum { WIDTH = 96, COLUMN = 26 };

static void spaces(anf_text *o, size_t n) {
  while (n--) anfi_putc(o, ' ');
}

/* Words from column `at` on, broken before WIDTH and then indented; '\n' begins a new paragraph. */
static void wrap(anf_text *o, const char *s, size_t at, size_t indent) {
  while (*s) {
    size_t n = strcspn(s, " \n");
    if (at > indent && at + 1 + n > WIDTH) {
      anfi_putc(o, '\n');
      spaces(o, at = indent);
    } else if (at > indent) anfi_putc(o, ' '), at++;
    anfi_put(o, s, n);
    at += n;
    s += n;
    if (*s == '\n') {
      anfi_putc(o, '\n');
      spaces(o, at = indent);
    }
    if (*s) s++;
  }
  anfi_putc(o, '\n');
}

/* "  left    text", the text in its column, or below if the left side is long. */
static void row(anf_text *o, const char *left, const char *text) {
  size_t n = strlen(left) + 2;
  anfi_putf(o, "  %s", left);
  if (n + 2 > COLUMN) anfi_putc(o, '\n'), n = 0;
  spaces(o, COLUMN - n);
  wrap(o, text, COLUMN, COLUMN);
}

static void option_name(const cli_option_info *t, char *buf, size_t size) {
  char letter[8] = "";
  if (t->letter) snprintf(letter, sizeof letter, "-%c, ", t->letter);
  snprintf(buf, size, "%s--%s%s%s", letter, t->name, t->argument ? " " : "",
           t->argument ? t->argument : "");
}

static bool is_global(cli_option o) {
  return strchr("*-", cli_option_table[o].commands[0]) != NULL;
}

static void options(anf_text *out, const cli_command_info *command) {
  for (int pass = 0; pass < 2; pass++) // the command's own first
    for (cli_option o = 0; o < OPT_COUNT; o++) {
      char left[64];
      if (is_global(o) != (pass == 1) || !cli_takes(command, o)) continue;
      option_name(&cli_option_table[o], left, sizeof left);
      row(out, left, cli_option_table[o].help);
    }
}

static void facts(anf_text *out, const char *title, const cli_fact *f) {
  anfi_putf(out, "\n%s\n", title);
  for (; f->name; f++) row(out, f->name, f->text);
}

static void general_help(anf_text *out) {
  const anfi_format *format;
  anfi_puts(out, "usage: anfora COMMAND [OPTION...] [ARGUMENT...]\n\nCommands\n");
  for (size_t i = 0; i < cli_command_count; i++)
    row(out, cli_command[i].name, cli_command[i].summary);
  anfi_puts(out, "\nOptions of every command\n");
  options(out, NULL);
  anfi_puts(out, "\nFiles\n");
  for (size_t i = 0; (format = anfi_format_at(i)); i++) row(out, format->ending, format->doc);
  facts(out, "Exit status", cli_statuses);
  facts(out, "Environment", cli_variables);
  anfi_puts(out, "\nanfora help COMMAND tells the rest.\n");
}

void cli_help(const cli_command_info *command, anf_text *out) {
  if (!command) {
    general_help(out);
    return;
  }
  anfi_putf(out, "usage: anfora %s [OPTION...]%s%s\n\n", command->name,
            command->arguments[0] ? " " : "", command->arguments);
  anfi_putf(out, "anfora %s: %s\n\n", command->name, command->summary);
  wrap(out, command->text, 0, 0);
  anfi_puts(out, "\nOptions\n");
  options(out, command);
}

/* ---- manual page ---- */

/* Text of roff: a backslash and a dash are escaped, a line never begins with a control character.
 */
static void roff(anf_text *o, const char *s) {
  bool start = !o->len || o->text[o->len - 1] == '\n';
  for (; *s; s++) {
    if (start && (*s == '.' || *s == '\'')) anfi_puts(o, "\\&");
    start = *s == '\n';
    if (*s == '\\') anfi_puts(o, "\\e");
    else if (*s == '-') anfi_puts(o, "\\-");
    else if (*s == '\n') anfi_puts(o, "\n.br\n");
    else anfi_putc(o, *s);
  }
}

static void roff_item(anf_text *o, const char *bold, const char *plain, const char *text) {
  anfi_puts(o, ".TP\n\\fB");
  roff(o, bold);
  anfi_puts(o, "\\fR");
  if (plain && plain[0]) {
    anfi_puts(o, " \\fI");
    roff(o, plain);
    anfi_puts(o, "\\fR");
  }
  anfi_putc(o, '\n');
  roff(o, text);
  anfi_putc(o, '\n');
}

static void roff_options(anf_text *out, const cli_command_info *command) {
  for (cli_option o = 0; o < OPT_COUNT; o++) {
    const cli_option_info *t = &cli_option_table[o];
    if (is_global(o) != !command || !cli_takes(command, o)) continue;
    anfi_puts(out, ".TP\n\\fB");
    if (t->letter) anfi_putf(out, "\\-%c\\fR, \\fB", t->letter);
    anfi_puts(out, "\\-\\-");
    roff(out, t->name);
    anfi_puts(out, "\\fR");
    if (t->argument) anfi_putf(out, " \\fI%s\\fR", t->argument);
    anfi_putc(out, '\n');
    roff(out, t->help);
    anfi_putc(out, '\n');
  }
}

static void roff_facts(anf_text *o, const char *title, const cli_fact *f) {
  anfi_putf(o, ".SH %s\n", title);
  for (; f->name; f++) roff_item(o, f->name, "", f->text);
}

void cli_man(anf_text *o) {
  const anfi_format *format;
  anfi_putf(o, ".TH ANFORA 1 \"\" \"Anfora %s\" \"User Commands\"\n", anf_version());
  anfi_puts(o, ".SH NAME\nanfora \\- run, check, print and draw functional tensor programs\n");
  anfi_puts(o,
            ".SH SYNOPSIS\n.B anfora\n\\fICOMMAND\\fR [\\fIOPTION\\fR...] [\\fIARGUMENT\\fR...]\n");
  anfi_puts(o, ".SH COMMANDS\n");
  for (size_t i = 0; i < cli_command_count; i++) {
    const cli_command_info *c = &cli_command[i];
    anfi_putf(o, ".SS %s\n.B anfora %s\n", c->name, c->name);
    if (c->arguments[0]) anfi_putf(o, "[\\fIOPTION\\fR...] \\fI%s\\fR\n", c->arguments);
    anfi_puts(o, ".PP\n");
    roff(o, c->text);
    anfi_putc(o, '\n');
    roff_options(o, c);
  }
  anfi_puts(o, ".SH OPTIONS OF EVERY COMMAND\n");
  roff_options(o, NULL);
  anfi_puts(o, ".SH FILES\n");
  for (size_t i = 0; (format = anfi_format_at(i)); i++)
    roff_item(o, format->ending, "", format->doc);
  roff_facts(o, "EXIT STATUS", cli_statuses);
  roff_facts(o, "ENVIRONMENT", cli_variables);
}

/* ---- completions ---- */

static void all_commands(anf_text *o) {
  for (size_t i = 0; i < cli_command_count; i++)
    anfi_putf(o, "%s%s", i ? " " : "", cli_command[i].name);
}

/* The words that an argument may be, or that are suggested for it: one after the other. */
static void put_names(anf_text *o, const char *(*name_of)(size_t i, const char **doc)) {
  const char *name, *doc;
  for (size_t i = 0; (name = name_of(i, &doc)); i++) anfi_putf(o, " %s", name);
}

static void values(anf_text *o, const cli_option_info *t) {
  if (strcmp(t->choices, "PASS") != 0) {
    anfi_puts(o, t->choices + (t->choices[0] == '+'));
    return;
  }
  anfi_puts(o, "standard");
  put_names(o, anf_pass_name);
  put_names(o, anf_pipeline_name);
}

static bool is_file(const cli_option_info *t) { return strcmp(t->choices, "FILE") == 0; }

static void bash_choices(anf_text *o) {
  for (cli_option k = 0; k < OPT_COUNT; k++) {
    const cli_option_info *t = &cli_option_table[k];
    if (!t->argument) continue;
    anfi_putf(o, "    --%s", t->name);
    if (t->letter) anfi_putf(o, " | -%c", t->letter);
    anfi_puts(o, ") COMPREPLY=($(compgen ");
    if (is_file(t)) anfi_puts(o, "-f");
    else {
      anfi_puts(o, "-W '");
      values(o, t);
      anfi_putc(o, '\'');
    }
    anfi_puts(o, " -- \"$word\")); return ;;\n");
  }
}

void cli_bash(anf_text *o) {
  anfi_puts(o,
            "# bash completion for anfora; written by `anfora help --bash`\n"
            "_anfora() {\n"
            "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command= w\n"
            "  if [ \"$word\" = = ]; then word=; fi # --option=value is three words\n"
            "  if [ \"$before\" = = ]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
            "  for w in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
            "    case $w in -*) ;; *) command=$w; break ;; esac\n"
            "  done\n"
            "  case $before in\n");
  bash_choices(o);
  anfi_puts(o, "  esac\n  if [ -z \"$command\" ]; then\n    COMPREPLY=($(compgen -W '");
  all_commands(o);
  for (cli_option k = 0; k < OPT_COUNT; k++)
    if (is_global(k)) anfi_putf(o, " --%s", cli_option_table[k].name);
  anfi_puts(o, "' -- \"$word\"))\n    return\n  fi\n  local options=\n  case $command in\n");
  for (size_t i = 0; i < cli_command_count; i++) {
    anfi_putf(o, "    %s) options='", cli_command[i].name);
    for (cli_option k = 0; k < OPT_COUNT; k++)
      if (cli_takes(&cli_command[i], k)) anfi_putf(o, "--%s ", cli_option_table[k].name);
    anfi_puts(o, "' ;;\n");
  }
  anfi_puts(o, "  esac\n"
               "  case $command:$word in\n"
               "    *:-*) COMPREPLY=($(compgen -W \"$options\" -- \"$word\")) ;;\n    help:*) "
               "COMPREPLY=($(compgen -W '");
  all_commands(o);
  anfi_puts(o, "' -- \"$word\")) ;;\n"
               "    cache:*) COMPREPLY=($(compgen -W 'list size clear dir' -- \"$word\")) ;;\n"
               "    ops:*) COMPREPLY=($(compgen -W '");
  for (size_t i = 0; i < ANF_OP_COUNT; i++) anfi_putf(o, "%s%s", i ? " " : "", anfi_op[i].name);
  anfi_puts(o, "' -- \"$word\")) ;;\n"
               "    *) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n"
               "  esac\n}\ncomplete -o filenames -F _anfora anfora\n");
}

/* Help texts go between single quotes and in brackets. */
static void zsh_text(anf_text *o, const char *s) {
  for (; *s; s++) {
    if (*s == '\'') anfi_puts(o, "'\\''");
    else if (strchr("[]:\\", *s)) anfi_putf(o, "\\%c", *s);
    else anfi_putc(o, *s);
  }
}

static void zsh_option(anf_text *o, const cli_option_info *t) {
  anfi_putf(o, " \\\n        '--%s%s[", t->name, t->argument ? "=" : ""); // --name value, or with =
  zsh_text(o, t->help);
  anfi_putc(o, ']');
  if (t->argument && is_file(t)) anfi_putf(o, ":%s:_files", t->argument);
  else if (t->argument && t->choices[0]) {
    anfi_putf(o, ":%s:(", t->argument);
    values(o, t);
    anfi_putc(o, ')');
  } else if (t->argument) anfi_putf(o, ":%s:", t->argument);
  anfi_putc(o, '\'');
}

void cli_zsh(anf_text *o) {
  anfi_puts(o, "#compdef anfora\n# zsh completion for anfora; written by `anfora help --zsh`\n"
               "_anfora() {\n  local -a commands\n  commands=(\n");
  for (size_t i = 0; i < cli_command_count; i++) {
    anfi_putf(o, "    '%s:", cli_command[i].name);
    zsh_text(o, cli_command[i].summary);
    anfi_puts(o, "'\n");
  }
  anfi_puts(o,
            "  )\n  if ((CURRENT == 2)); then\n    _describe command commands\n    return\n  fi\n"
            "  case $words[2] in\n");
  for (size_t i = 0; i < cli_command_count; i++) {
    anfi_putf(o, "    %s)\n      _arguments", cli_command[i].name);
    for (cli_option k = 0; k < OPT_COUNT; k++)
      if (cli_takes(&cli_command[i], k)) zsh_option(o, &cli_option_table[k]);
    anfi_puts(o, " \\\n        '*: :_files' ;;\n");
  }
  anfi_puts(o, "  esac\n}\n_anfora \"$@\"\n");
}
