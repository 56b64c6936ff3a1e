// SPDX-License-Identifier: Apache-2.0
/* anfora cache: the folder of compiled code. */
#include "cli/cli.h"

typedef struct tally {
  uint64_t files, bytes;
  bool show;
} tally;

const anf_jit_opts *cli_jit_options(const cli *c) {
  anf_jit_opts *o = ANFI_NEW(anfi_scratch(c->cx), anf_jit_opts);
  *o = (anf_jit_opts){.size = sizeof *o, .cache_dir = anfi_os_cache_dir(anfi_scratch(c->cx))};
  return o;
}

static bool see(void *user, const anf_jit_cached *file) {
  tally *t = (tally *)user;
  t->files++;
  t->bytes += file->bytes;
  if (t->show) printf("%s %llu\n", file->name, (unsigned long long)file->bytes);
  return true;
}

int cmd_cache(cli *c) {
  const char *what = c->narg ? c->arg[0] : "size", *dir = anfi_os_cache_dir(anfi_scratch(c->cx));
  if (c->narg > 1 || !cli_has_word("list size clear dir", what))
    return cli_usage(c, "it takes one of: list, size, clear, dir");
  if (!dir) {
    puts("off");
    return EXIT_OK;
  }
  if (strcmp(what, "dir") == 0) {
    puts(dir);
    return EXIT_OK;
  }
  tally t = {.show = strcmp(what, "list") == 0};
  anf_status st = anf_jit_cache_visit(c->cx, dir, see, &t, c->d);
  if (st == ANF_OK && strcmp(what, "clear") == 0) st = anf_jit_cache_clear(c->cx, dir, c->d);
  if (st == ANF_OK && strcmp(what, "size") == 0)
    printf("%llu files, %llu bytes\n", (unsigned long long)t.files, (unsigned long long)t.bytes);
  return cli_status(c, st);
}
