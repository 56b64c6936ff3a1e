// SPDX-License-Identifier: Apache-2.0
/* A child of fork has all memory of its parent and one of its threads: who owns threads compares the number
 * of forks then and now. */
#ifndef ANFI_OS_FORK_H
#define ANFI_OS_FORK_H

#include <stdbool.h>

/* How many forks lie between this process and the one that asked first. False: they cannot be counted. */
bool anfi_os_forks(unsigned *n);

#endif
