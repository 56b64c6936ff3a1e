// SPDX-License-Identifier: Apache-2.0
/* The command in a fork of a program that has LLVM loaded: to start it and to load LLVM is most of the time of a small run. */
#ifndef ANFT_FORK_H
#define ANFT_FORK_H

typedef struct fork_files {
  const char *in, *out, *err;
} fork_files;

void fork_load(void); // once, before the first run

/* Of so many runs one is searched for leaks, where a sanitizer can: that takes as long as a small run. 1 at first. */
extern unsigned fork_leaks_every;

/* Runs the command in a folder; words[0] is its name. Its exit status, or 128 and the signal that ended it: SIGALRM after so many seconds.
 * Minus the error number if it could not start. */
int fork_command(const char *dir, const fork_files *files, unsigned seconds, int count,
                 char **words);

#endif
