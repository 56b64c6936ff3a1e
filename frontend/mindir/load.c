// SPDX-License-Identifier: Apache-2.0
/* Reads a .mindir file: its bytes   ->   messages (read.c)   ->   a module with its graphs (build.c). An encrypted
 * file, big-endian weights and a newer version are refused before anything is built. */
#include "frontend/load.h"
#include "frontend/mindir/mindir.h"

static bool unsupported(const anfi_mi_model *m, const char *what, int64_t number) {
  return anfi_fail(m->cx, (anfi_loc){m->file, 0, 0}, ANF_E1161, what, (long long)number);
}

enum { NEWEST = 3 }; // version of the format: IR_VERSION_WITH_SCALAR_GRAPH_HOLDER

static bool understood(const anfi_mi_model *m) {
  if (m->big_endian) return unsupported(m, "big-endian weights, version", m->version);
  return (m->version >= 0 && m->version <= NEWEST) || unsupported(m, "the version", m->version);
}

/* Files that ms.export(.., enc_key=..) wrote begin with a number that says how: AES-GCM, AES-CBC or SM4-CBC. */
static bool encrypted(const anfi_input *f) {
  const unsigned char *p = (const unsigned char *)f->text;
  return f->len >= 4 && p[0] >= 0xd8 && p[0] <= 0xda && p[1] == 0x5e && p[2] == 0x3a &&
         p[3] == 0x7f;
}

/* MindSpore 1 keeps the parameters of a large model NAME_graph.mindir in NAME_variables/data_0, data_1, .. beside it. */
static bool variables(anfi_mi_model *m) {
  static const char ending[] = "_graph.mindir";
  size_t len = strlen(m->file), cut = sizeof ending - 1;
  if (m->main->params.n || len < cut || strcmp(m->file + len - cut, ending) != 0) return true;
  const char *slash = strrchr(m->file, '/'), *name = slash ? slash + 1 : m->file;
  const char *dir = anfi_sprintf(m->arena, "%.*s", (int)(name - m->file), m->file);
  for (size_t k = 0;; k++) {
    const char *part = anfi_sprintf(m->arena, "%.*s_variables/data_%zu",
                                    (int)(len - cut - (size_t)(name - m->file)), name, k);
    anfi_os_view v;
    uint64_t size;
    char c;
    if (!anfi_os_head(anfi_sprintf(m->arena, "%s%s", dir, part), &c, 1)) return true;
    if (!anfi_os_view_below(m->cx, dir, part, &v)) return false;
    size_t n = v.len;
    anfi_os_view_close(&v);
    char *data = ANFI_NEW_N(m->arena, char, n + 1);
    if (!anfi_os_read_below(m->cx, dir, part, 0, data, n, &size)) return false;
    if (!anfi_mi_read_variables(m, data, n)) return false;
  }
}

anf_module *anfi_read_mindir(anf_ctx *cx, const anfi_input *f) {
  anfi_mi_model m = {.cx = cx,
                     .arena = anfi_scratch(cx),
                     .file = anfi_intern_z(&cx->strings, f->path)->s,
                     .view = f->view};
  if (encrypted(f)) return (void)anfi_fail(cx, (anfi_loc){m.file, 0, 0}, ANF_E1593), NULL;
  if (!anfi_mi_read(&m, f->text, f->len) || !understood(&m) || !variables(&m)) return NULL;
  anfi_mi_tell_passed(&m);
  anf_module *made = anfi_module_new(cx);
  return anfi_mi_module(&m, made) ? made : NULL;
}
