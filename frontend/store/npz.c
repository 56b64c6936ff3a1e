// SPDX-License-Identifier: Apache-2.0
/* NumPy's archives of arrays: a zip whose entries are .npy files.
 *   all.npz with w.npy and b.npy   ->   the record {w = .., b = ..} */
#include "anfora/store.h"
#include "anfora/text.h"
#include "frontend/store/store.h"
#include "frontend/store/zip.h"

static anf_value *read_entry(anf_ctx *cx, const char *path, const anfi_zip_entry *e,
                             const char **name) {
  anfi_arena *a = anfi_scratch(cx);
  size_t n = e->name_len;
  if (n > 4 && memcmp(e->name + n - 4, ".npy", 4) == 0) n -= 4;
  *name = anfi_strndup(a, e->name, n);
  anf_value *v = NULL;
  const char *where = anfi_sprintf(a, "%s: %s", path, *name);
  anf_status st = anf_read_npy(cx, e->data, e->size, where, NULL, &v);
  if (st != ANF_OK) return anfi_fail_as(cx, st), NULL;
  anfi_defer(cx, ANFI_ALWAYS, anfi_release, v);
  return v;
}

static anf_value *load(anf_ctx *cx, const char *path) {
  anfi_arena *a = anfi_scratch(cx);
  char *text;
  size_t len;
  anfi_zip z = {0};
  if (!anfi_os_read(cx, a, path, &text, &len) || !anfi_zip_read(cx, a, path, text, len, &z))
    return NULL;
  size_t n = z.entries.n;
  const char **name = ANFI_NEW_N(a, const char *, n + 1);
  anf_value **v = ANFI_NEW_N(a, anf_value *, n + 1);
  for (size_t i = 0; i < n; i++)
    if (!(v[i] = read_entry(cx, path, &z.entries.at[i], &name[i]))) return NULL;
  return anfi_store_record(cx, path, n, name, v);
}

anf_status anf_load_npz(anf_ctx *cx, const char *path, anf_diag *d, anf_value **out) {
  ANFI_NEED(d, cx, path, out);
  *out = NULL;
  ANFI_ENTRY(cx, d);
  *out = load(cx, path);
  return anfi_leave(cx);
}
