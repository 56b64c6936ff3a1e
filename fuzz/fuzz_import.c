// SPDX-License-Identifier: Apache-2.0
/* Programs that import files: the input is cut at lines that begin with `---` into the files of a folder, of which
 * the first is read. They are refused with a reason, or give a module that is whole. */
#define _DEFAULT_SOURCE // mkdtemp
#include "fuzz.h"

#include "test/unit/folder.h"

#include <sys/stat.h>
#include <unistd.h>

enum { FILES = 4, PATH = TEST_PATH + 16 };
static const char *const names[FILES] = {"main.anf", "a.anf", "b.anf", "sub/c.anf"};

static char folder[TEST_PATH];

static void remove_folder(void) {
  char path[PATH];
  for (size_t i = 0; i < FILES; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    unlink(path);
  }
  snprintf(path, sizeof path, "%s/sub", folder);
  rmdir(path);
  rmdir(folder);
}

static void make_folder(void) {
  char path[PATH];
  if (*folder) return;
  FUZZ_CHECK(test_folder(folder));
  snprintf(path, sizeof path, "%s/sub", folder);
  FUZZ_CHECK(mkdir(path, 0700) == 0);
  atexit(remove_folder);
}

static void put(const char *name, const char *text, size_t n) {
  char path[PATH];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = fopen(path, "wb");
  FUZZ_CHECK(f && fwrite(text, 1, n, f) == n);
  FUZZ_CHECK(fclose(f) == 0);
}

/* Where the next file begins: behind a line that starts with three minus signs. */
static size_t next_file(const char *text, size_t size, size_t at, size_t *end) {
  for (; at < size; at++) {
    bool line = (!at || text[at - 1] == '\n') && size - at >= 3 && memcmp(text + at, "---", 3) == 0;
    if (!line) continue;
    *end = at;
    while (at < size && text[at] != '\n') at++;
    return at < size ? at + 1 : size;
  }
  *end = size;
  return size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *text = (const char *)data;
  char path[PATH];
  make_folder();
  for (size_t i = 0, at = 0; i < FILES; i++) {
    size_t end, from = at;
    at = next_file(text, size, from, &end);
    put(names[i], text + from, end - from);
  }
  anf_ctx *cx = fuzz_shared_ctx();
  anf_diag *d = anf_diag_new(cx);
  anf_module *m = NULL;
  snprintf(path, sizeof path, "%s/%s", folder, names[0]);
  anf_status st = anf_load(cx, path, d, &m);
  fuzz_status(st, d);
  FUZZ_CHECK((st == ANF_OK) == (m != NULL));
  if (m) FUZZ_CHECK(anf_verify(m, NULL) == ANF_OK);
  anf_module_free(m);
  anf_diag_free(d);
  return 0;
}
