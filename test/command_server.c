// SPDX-License-Identifier: Apache-2.0
/* Runs the command for tests in Python (command.py), each time in a fork.
 * A request is a row of texts that end with a zero byte: folder, files for standard input, output and error, seconds, number of
 * words, the words. The answer is a line with the exit status. */
#define _XOPEN_SOURCE 700
#include "fork.h"

#include <stdio.h>
#include <stdlib.h>

static char *text(void) {
  char *at = NULL;
  size_t room = 0;
  if (getdelim(&at, &room, 0, stdin) >= 0) return at;
  free(at);
  return NULL;
}

static unsigned number(void) {
  char *at = text();
  unsigned n = at ? (unsigned)strtoul(at, NULL, 10) : 0;
  free(at);
  return n;
}

int main(void) {
  static char **words, *place[4]; // what a fork inherits is no leak of it here
  fork_load();
  fork_leaks_every = 5;
  while ((place[0] = text())) {
    for (int i = 1; i < 4; i++)
      if (!(place[i] = text())) return 2;
    unsigned seconds = number(), n = number();
    if (!(words = (char **)calloc((size_t)n + 2, sizeof *words))) return 2;
    words[0] = (char *)"anfora";
    for (unsigned i = 1; i <= n; i++)
      if (!(words[i] = text())) return 2;
    fork_files files = {place[1], place[2], place[3]};
    printf("%d\n", fork_command(place[0], &files, seconds, (int)n + 1, words));
    fflush(stdout);
    for (unsigned i = 1; i <= n; i++) free(words[i]);
    free(words);
    for (int i = 0; i < 4; i++) free(place[i]);
  }
  return 0;
}
