// SPDX-License-Identifier: Apache-2.0
/* Assembly for people: line information for debuggers becomes the source lines themselves, in front of the
 * instructions that were made of them; directives that say nothing about the code are left out. */
#include "cli/cli.h"

#include <stdlib.h>

typedef struct source {
  const char *path, *text; // text NULL: cannot be read
} source;

typedef struct weaver {
  cli *c;
  anfi_arena *a;
  anf_text out;
  ANFI_VEC(source) file; // by number in the assembly
  unsigned long at_file, at_line;
  bool hidden; // in a section of debuggers
} weaver;

static bool begins(const char *s, const char *word) { return strncmp(s, word, strlen(word)) == 0; }

static void cut(const char *from, const char *to, anfi_arena *a, const char **out) {
  *out = anfi_strndup(a, from, (size_t)(to - from));
}

/* .file N "folder" "name", or .file N "name" */
static void add_file(weaver *w, const char *s) {
  char *end;
  unsigned long n = strtoul(s, &end, 10);
  if (end == s || n > 1000) return;
  source f = {NULL, NULL};
  for (const char *q = strchr(end, '"'), *to; q && (to = strchr(q + 1, '"'));
       q = strchr(to + 1, '"'))
    cut(q + 1, to, w->a, &f.path);
  while (w->file.n <= n) anfi_push(w->a, &w->file, ((source){NULL, NULL}));
  char *text = NULL;
  size_t len;
  FILE *there = f.path ? fopen(f.path, "rb") : NULL; // a program from standard input has no file
  if (there) {
    fclose(there);
    if (anfi_os_read(w->c->cx, w->a, f.path, &text, &len)) f.text = text;
  }
  w->file.at[n] = f;
}

static const char *line_of(const char *text, unsigned long n, size_t *len) {
  while (text && --n && (text = strchr(text, '\n'))) text++;
  *len = text ? strcspn(text, "\r\n") : 0;
  return text;
}

/* .loc FILE LINE COLUMN ... */
static void put_place(weaver *w, const char *s) {
  char *end;
  unsigned long file = strtoul(s, &end, 10), line = strtoul(end, &end, 10);
  if (!line || file >= w->file.n || (file == w->at_file && line == w->at_line)) return;
  size_t len;
  const char *text = line_of(w->file.at[file].text, line, &len);
  w->at_file = file;
  w->at_line = line;
  anfi_putf(&w->out, "# %s:%lu", w->file.at[file].path, line);
  if (text) anfi_putf(&w->out, ": %.*s", (int)len, text);
  anfi_putc(&w->out, '\n');
}

/* Labels that only debuggers refer to, and unwinding */
static bool says_nothing(const char *s) {
  return begins(s, ".Ltmp") || begins(s, ".Lfunc_begin") || begins(s, ".Linfo_string") ||
         begins(s, ".Ldebug") || begins(s, "\t.cfi_") || begins(s, "\t.ident");
}

static void weave_line(weaver *w, const char *s) {
  bool section = begins(s, "\t.section") || begins(s, "\t.text") || begins(s, "\t.data");
  if (section) w->hidden = begins(s, "\t.section\t.debug");
  if (begins(s, "\t.type\t")) w->at_line = 0; // a function begins
  if (begins(s, "\t.file\t")) add_file(w, s + strlen("\t.file\t"));
  else if (begins(s, "\t.loc\t")) put_place(w, s + strlen("\t.loc\t"));
  else if (!w->hidden && !says_nothing(s)) {
    anfi_puts(&w->out, s);
    anfi_putc(&w->out, '\n');
  }
}

static void weave(weaver *w, const char *s) {
  for (size_t len; *s; s += len + (s[len] != 0)) {
    len = strcspn(s, "\n");
    weave_line(w, anfi_strndup(w->a, s, len));
  }
}

void cli_interleave(cli *c, anf_text *assembly) {
  weaver w = {.c = c, .a = anfi_scratch(c->cx), .out = {.cx = c->cx}};
  weave(&w, assembly->text ? assembly->text : "");
  anf_text_free(assembly);
  *assembly = w.out;
}
