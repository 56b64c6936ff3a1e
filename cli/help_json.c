// SPDX-License-Identifier: Apache-2.0
/* The table of commands and options as JSON: what help, the manual page and completions say, for programs.
 *   anfora help check --json   ->   {"name": "check", "arguments": "FILE...", .., "options": [{"name": "help", ..}]} */
#include "cli/cli.h"
#include "frontend/load.h"

#include "anfora/opt.h"
#include <jansson.h>

static json_t *text_of(cli *c, const char *s) {
  return s ? cli_json_text(c, s, strlen(s)) : json_null();
}

static void put_text(cli *c, json_t *o, const char *key, const char *s) {
  cli_json_put(c, o, key, text_of(c, s));
}

static void add_names(cli *c, json_t *list, const char *(*name_of)(size_t i, const char **doc)) {
  const char *name, *doc;
  for (size_t i = 0; (name = name_of(i, &doc)); i++) cli_json_append(c, list, text_of(c, name));
}

/* The words that an argument may be, or that are suggested for it. */
static json_t *choices(cli *c, const cli_option_info *t) {
  json_t *list = json_array();
  const char *s = t->choices + (t->choices[0] == '+');
  if (strcmp(s, "FILE") == 0) return list;
  if (strcmp(s, "PASS") == 0)
    return add_names(c, list, anf_pass_name), add_names(c, list, anf_pipeline_name), list;
  while (*s) {
    size_t n = strcspn(s, " ");
    cli_json_append(c, list, cli_json_text(c, s, n));
    s += n + (s[n] != 0);
  }
  return list;
}

static json_t *option(cli *c, const cli_option_info *t) {
  json_t *o = json_object();
  put_text(c, o, "name", t->name);
  cli_json_put(c, o, "letter", t->letter ? cli_json_text(c, &t->letter, 1) : json_null());
  put_text(c, o, "argument", t->argument);
  cli_json_put(c, o, "choices", choices(c, t));
  cli_json_put(c, o, "closed", json_boolean(cli_is_choice(t))); // no other word is taken
  cli_json_put(c, o, "file", json_boolean(strcmp(t->choices, "FILE") == 0));
  put_text(c, o, "help", t->help);
  return o;
}

static json_t *command(cli *c, const cli_command_info *of) {
  json_t *o = json_object(), *list = json_array();
  put_text(c, o, "name", of->name);
  put_text(c, o, "arguments", of->arguments);
  put_text(c, o, "summary", of->summary);
  put_text(c, o, "text", of->text);
  for (cli_option k = 0; k < OPT_COUNT; k++)
    if (cli_takes(of, k)) cli_json_append(c, list, option(c, &cli_option_table[k]));
  cli_json_put(c, o, "options", list);
  return o;
}

static json_t *facts(cli *c, const cli_fact *f) {
  json_t *o = json_object();
  for (; f->name; f++) put_text(c, o, f->name, f->text);
  return o;
}

static json_t *files(cli *c) {
  json_t *o = json_object();
  const anfi_format *f;
  for (size_t i = 0; (f = anfi_format_at(i)); i++) put_text(c, o, f->ending, f->doc);
  return o;
}

int cli_help_json(cli *c, const cli_command_info *about) {
  if (about) return cli_json_write(c, command(c, about));
  json_t *o = json_object(), *list = json_array();
  for (size_t i = 0; i < cli_command_count; i++)
    cli_json_append(c, list, command(c, &cli_command[i]));
  cli_json_put(c, o, "commands", list);
  cli_json_put(c, o, "files", files(c));
  cli_json_put(c, o, "statuses", facts(c, cli_statuses));
  cli_json_put(c, o, "variables", facts(c, cli_variables));
  return cli_json_write(c, o);
}
