// SPDX-License-Identifier: Apache-2.0
/* A folder of a test's own, where temporary files belong on this machine. */
#ifndef ANF_TEST_FOLDER_H
#define ANF_TEST_FOLDER_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { TEST_PATH = 512 };

/* Makes it, empty. False if that fails, or if its path is too long. */
static inline bool test_folder(char path[TEST_PATH]) {
  const char *in = getenv("TMPDIR");
  int n = snprintf(path, TEST_PATH, "%s/anfora-XXXXXX", in && *in ? in : "/tmp");
  return n > 0 && n < TEST_PATH && mkdtemp(path);
}

#endif
