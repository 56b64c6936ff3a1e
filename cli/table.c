// SPDX-License-Identifier: Apache-2.0
/* The table of commands and options (option.def), and questions to it.
 *   cli_takes(cli_find_command("run"), OPT_REPEAT)   ->   true          cli_nearest_command("rum")   ->   "run" */
#include "cli/cli.h"

const cli_command_info cli_command[] = {
#define CLI_COMMAND(name, arguments, summary, text) {#name, arguments, summary, text, cmd_##name},
#include "cli/option.def"
#undef CLI_COMMAND
};
const size_t cli_command_count = ANFI_LEN(cli_command);

const cli_option_info cli_option_table[OPT_COUNT] = {
#define CLI_OPTION(id, commands, name, letter, argument, choices, help)                            \
  {commands, name, letter, argument, choices, help},
#include "cli/option.def"
#undef CLI_OPTION
};

const cli_command_info *cli_find_command(const char *name) {
  for (size_t i = 0; i < cli_command_count; i++)
    if (strcmp(cli_command[i].name, name) == 0) return &cli_command[i];
  return NULL;
}

bool cli_has_word(const char *list, const char *word) {
  return anfi_has_word(list, word, strlen(word));
}

bool cli_is_choice(const cli_option_info *t) {
  return t->choices[0] >= 'a' && t->choices[0] <= 'z';
}

bool cli_takes(const cli_command_info *command, cli_option o) {
  const char *list = cli_option_table[o].commands;
  if (strcmp(list, "*") == 0) return true;
  return command ? cli_has_word(list, command->name) : strcmp(list, "-") == 0;
}

static const char *command_name(void *user, size_t i) {
  (void)user;
  return i < cli_command_count ? cli_command[i].name : NULL;
}

const char *cli_nearest_command(const char *word) { return anfi_nearest(word, command_name, NULL); }

typedef struct {
  const char *name[OPT_COUNT + 1];
} names;

static const char *option_name(void *user, size_t i) { return ((names *)user)->name[i]; }

const char *cli_nearest_option(const cli_command_info *in, const char *word) {
  names list = {{0}};
  size_t n = 0;
  for (cli_option o = 0; o < OPT_COUNT; o++)
    if (cli_takes(in, o)) list.name[n++] = cli_option_table[o].name;
  return anfi_nearest(word, option_name, &list);
}
