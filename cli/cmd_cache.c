// SPDX-License-Identifier: Apache-2.0
/* anfora cache: the folder of compiled code.
 *   anfora cache size   ->   12 files, 345678 bytes */
#include "cli/cli.h"

#include <jansson.h>

typedef struct tally {
  cli *c;
  uint64_t files, bytes;
  bool show;
  json_t *list; // of --json, or NULL
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
  if (t->list) {
    json_t *j = json_object();
    cli_json_put(t->c, j, "name", json_string(file->name));
    cli_json_put(t->c, j, "bytes", json_integer((json_int_t)file->bytes));
    cli_json_put(t->c, j, "used", json_integer((json_int_t)file->used));
    cli_json_append(t->c, t->list, j);
  } else if (t->show) printf("%s %llu\n", file->name, (unsigned long long)file->bytes);
  return true;
}

/* {"folder": .., "count": .., "bytes": ..}, of `list` also "files": [..]; a cache that is off has no folder. */
static int tell_json(cli *c, const char *dir, tally *t) {
  json_t *j = json_object();
  cli_json_put(c, j, "folder", dir ? cli_json_text(c, dir, strlen(dir)) : json_null());
  cli_json_put(c, j, "count", json_integer((json_int_t)t->files));
  if (t->list) cli_json_put(c, j, "files", t->list);
  cli_json_put(c, j, "bytes", json_integer((json_int_t)t->bytes));
  return cli_json_write(c, j);
}

int cmd_cache(cli *c) {
  const char *what = c->narg ? c->arg[0] : "size", *dir = anfi_os_cache_dir(anfi_scratch(c->cx));
  bool json = c->value[OPT_JSON] != NULL, dir_only = strcmp(what, "dir") == 0;
  if (c->narg > 1 || !cli_has_word("list size clear dir", what))
    return cli_usage(c, "it takes one of: list, size, clear, dir");
  tally t = {.c = c, .show = strcmp(what, "list") == 0};
  if (json && t.show) t.list = json_array();
  if (!dir || (dir_only && !json)) {
    if (json) return tell_json(c, dir, &t);
    puts(dir ? dir : "off");
    return EXIT_OK;
  }
  bool clear = strcmp(what, "clear") == 0;
  anf_status st = clear ? anf_jit_cache_clear(c->cx, dir, c->d) : ANF_OK;
  if (st == ANF_OK && (json || !clear)) st = anf_jit_cache_visit(c->cx, dir, see, &t, c->d);
  if (st != ANF_OK) {
    json_decref(t.list);
    return cli_status(c, st);
  }
  if (json) return tell_json(c, dir, &t);
  if (strcmp(what, "size") == 0)
    printf("%llu files, %llu bytes\n", (unsigned long long)t.files, (unsigned long long)t.bytes);
  return EXIT_OK;
}
