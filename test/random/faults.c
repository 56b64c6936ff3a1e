// SPDX-License-Identifier: Apache-2.0
/* faults [--part I/N] [--turns N] FOLDER...
 * Allocations refused over the golden corpus and the examples. Each `engines:` line of a golden case, each `# run: run` and each
 * `# try: anfora run` of one argument list is a piece of work for each engine: parse, compile or differentiate, run, print. A turn refuses one
 * of its allocations, or from one on all of them. The work then says ANF_NOMEM, or gives what it gave without a fault, as the
 * same work does on the same context afterwards, and no byte is left.
 *
 *   golden/run/power.anf, engine LLVM, allocations 1, 58, 115, ... of 5,700: refused once, or from then on
 *
 * Allocations of LLVM and of the C compiler's process are their own. With --part every N-th piece runs. What is wrong is
 * printed with the words that make it again: --one FILE FUNCTION WORK ALLOCATION once|on */
#include "anfora/anfora.h"

#include <glob.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct heap {
  uint64_t count, first; // refuses this one; 0: none
  bool on, refused;      // and those after it
  size_t bytes;
} heap;

static void *take(void *user, void *p, size_t old, size_t size) {
  heap *h = (heap *)user;
  if (!p) old = 0;
  if (size > old) {
    h->count++;
    if (h->first && (h->count == h->first || (h->on && h->count > h->first))) {
      h->refused = true;
      return NULL;
    }
  }
  h->bytes = h->bytes - old + size;
  if (size) return realloc(p, size);
  free(p);
  return NULL;
}

enum { INTERP, TIR, LLVM, CJIT, GRADIENT, WRITERS, WORKS, WORDS = 16, TEXT = 1 << 16 };
static const char *const names[WORKS] = {
    "interpreter", "interpreter of Tensor IR", "LLVM", "C compiler", "gradient", "writers"};
/* The C compiler is a process: fewer turns. */
static const unsigned shares[WORKS] = {1, 1, 1, 8, 1, 1};

typedef struct piece {
  const char *file;
  char text[TEXT];               // of the program
  char line[1024], *word[WORDS]; // of the line: function, arguments
  size_t n;
  int work;
} piece;

/* ---- the work ---- */

/* Of all that was printed, and the result. */
static void add_text(void *user, const char *text, size_t len) {
  uint64_t *h = (uint64_t *)user;
  for (size_t i = 0; i < len; i++) *h = (*h ^ (unsigned char)text[i]) * 1099511628211u;
}

static anf_status compiled(const piece *p, anf_graph *g, size_t n, anf_value **arg, anf_diag *d,
                           uint64_t *printed, anf_value **out) {
  static const anf_jit_kind kinds[] = {
      [TIR] = ANF_JIT_INTERP, [LLVM] = ANF_JIT_LLVM, [CJIT] = ANF_JIT_CJIT};
  anf_jit_opts jo = {.size = sizeof jo, .level = ANF_JIT_O0};
  anf_exec_opts eo = {.size = sizeof eo, .kind = kinds[p->work], .jit = &jo};
  anf_run_opts ro = {.size = sizeof ro, .print = add_text, .print_user = printed};
  anf_exec *x = NULL;
  anf_status st = anf_compile(g, &eo, d, &x);
  if (st == ANF_OK) st = anf_exec_run(x, n, arg, &ro, d, out);
  anf_exec_free(x);
  return st;
}

static anf_status differentiated(anf_module *m, anf_graph *g, anf_diag *d) {
  anf_graph *slope = NULL;
  anf_status st = anf_grad(g, NULL, d, &slope);
  return st == ANF_OK ? anf_optimise(m, "standard", NULL, d) : st;
}

static anf_status written(anf_ctx *cx, anf_module *m, anf_diag *d) {
  anf_text ir = {.cx = cx}, dat = {.cx = cx}, html = {.cx = cx};
  anf_module *again = NULL;
  anf_status st = anf_print_ir(m, &ir);
  if (st == ANF_OK) st = anf_write_dat(m, &dat);
  if (st == ANF_OK) st = anf_read_dat(cx, dat.text, dat.len, "again.dat", d, &again);
  if (st == ANF_OK) st = anf_write_html(m, NULL, &html);
  anf_module_free(again);
  anf_text_free(&ir);
  anf_text_free(&dat);
  anf_text_free(&html);
  return st;
}

static anf_status run_piece(anf_ctx *cx, const piece *p, anf_module *m, anf_diag *d,
                            uint64_t *printed) {
  anf_value *arg[WORDS] = {NULL}, *out = NULL;
  anf_run_opts ro = {.size = sizeof ro,
                     .max_steps = 200000,
                     .max_depth = 1000,
                     .print = add_text,
                     .print_user = printed};
  anf_text shown = {.cx = cx};
  anf_graph *g = anf_module_find(m, p->word[0]);
  anf_status st = g ? ANF_OK : ANF_INVALID;
  for (size_t i = 1; i < p->n && st == ANF_OK; i++)
    st = anf_parse_value(cx, p->word[i], d, &arg[i - 1]);
  if (st == ANF_OK && p->work == INTERP) st = anf_run(g, p->n - 1, arg, &ro, d, &out);
  else if (st == ANF_OK && p->work == GRADIENT) st = differentiated(m, g, d);
  else if (st == ANF_OK && p->work == WRITERS) st = written(cx, m, d);
  else if (st == ANF_OK) st = compiled(p, g, p->n - 1, arg, d, printed, &out);
  if (st == ANF_OK && out) st = anf_value_print(cx, out, 0, &shown);
  if (st == ANF_OK) add_text(printed, shown.text ? shown.text : "", shown.len);
  anf_text_free(&shown);
  anf_value_release(out);
  for (size_t i = 0; i < WORDS; i++) anf_value_release(arg[i]);
  return st;
}

static anf_status work(anf_ctx *cx, const piece *p, uint64_t *printed) {
  *printed = 0;
  anf_diag *d = anf_diag_new(cx);
  if (!d) return ANF_NOMEM;
  anf_module *m = NULL;
  anf_status st = anf_parse(cx, p->text, p->file, d, &m);
  if (st == ANF_OK) st = run_piece(cx, p, m, d, printed);
  anf_module_free(m);
  anf_diag_free(d);
  return st;
}

/* ---- turns ---- */

static bool complain(const piece *p, const heap *h, const char *what) {
  printf("# %s: %s\n#   --one %s %s %d %llu %s\n", names[p->work], what, p->file, p->word[0],
         p->work, (unsigned long long)h->first, h->on ? "on" : "once");
  return false;
}

static bool turn(const piece *p, uint64_t expected, uint64_t first, bool on) {
  uint64_t printed = 0, later = 0;
  heap h = {.first = first, .on = on};
  anf_ctx_opts o = {.size = sizeof o, .allocator = {take, &h}};
  anf_ctx *cx = anf_ctx_new(&o);
  if (!cx) return h.bytes == 0 || complain(p, &h, "anf_ctx_new leaks");
  anf_status st = work(cx, p, &printed);
  bool refused = h.refused;
  uint64_t was = h.first;
  h.first = 0;
  anf_status again = work(cx, p, &later);
  h.first = was;
  anf_ctx_free(cx);
  if (!refused) return true; // threads and caches of the process: fewer allocations than before
  bool other = st == ANF_OK && printed == expected; // another way, as where inference begins again
  if (st != ANF_NOMEM && !other) return complain(p, &h, anf_status_name(st));
  if (again != ANF_OK || later != expected)
    return complain(p, &h, "the same work fails on the same context afterwards");
  return h.bytes == 0 || complain(p, &h, "something leaks");
}

static uint64_t rng = 88172645463325252u;
static uint64_t draw(uint64_t n) {
  rng ^= rng << 13, rng ^= rng >> 7, rng ^= rng << 17;
  return rng % n;
}

/* Of --one. */
static const char *only_function;
static int only_work;
static uint64_t only_first;
static bool only_on;

typedef struct totals {
  size_t pieces, turns, skipped, failed;
} totals;

static void try_piece(const piece *p, unsigned turns, totals *t) {
  heap h = {0};
  anf_ctx_opts o = {.size = sizeof o, .allocator = {take, &h}};
  anf_ctx *cx = anf_ctx_new(&o);
  uint64_t own = h.count;
  uint64_t printed = 0;
  anf_status st = work(cx, p, &printed);
  uint64_t all = h.count;
  anf_ctx_free(cx);
  if (h.bytes) t->failed++, complain(p, &h, "leaks without a fault");
  if (st != ANF_OK) {
    t->skipped++;
    return;
  }
  t->pieces++;
  if (only_function) {
    t->turns++, t->failed += !turn(p, printed, only_first, only_on);
    return;
  }
  turns = (turns + shares[p->work] - 1) / shares[p->work];
  for (unsigned i = 0; i < turns; i++) { // each in a part of its own
    uint64_t from = own + (all - own) * i / turns, to = own + (all - own) * (i + 1) / turns;
    if (to > from) t->turns++, t->failed += !turn(p, printed, from + 1 + draw(to - from), draw(2));
  }
}

/* ---- the corpus ---- */

/* `engines: {}:name 1.0 [2.0,3.0] "a text"`: words end at blanks outside of quotes. False: the line asks for something else. */
static bool take_words(piece *p, const char *line) {
  snprintf(p->line, sizeof p->line, "%.*s", (int)strcspn(line, "\n"), line);
  p->n = 0;
  for (char *s = p->line; *s;) {
    while (*s == ' ') s++;
    if (!*s) break;
    char quote = *s == '\'' || *s == '"' ? *s++ : ' ';
    if (p->n == WORDS || *s == '-') return false; // an option, or a number below 0
    p->word[p->n++] = s;
    s += strcspn(s, quote == ' ' ? " " : quote == '"' ? "\"" : "'");
    if (*s) *s++ = 0;
  }
  if (!p->n) return false;
  static char main_name[] = "main";
  char *function = strchr(p->word[0], ':');
  p->word[0] = function ? function + 1 : main_name;
  return true;
}

static bool read_text(piece *p, const char *path) {
  FILE *f = fopen(path, "rb");
  size_t n = f ? fread(p->text, 1, TEXT - 1, f) : 0;
  if (f) fclose(f);
  p->text[n] = 0;
  char *end = strstr(p->text, "\n---"); // the expected output follows
  if (end) end[1] = 0;
  p->file = path;
  return n > 0;
}

typedef struct choice {
  size_t part, of, seen;
  unsigned turns;
  totals t;
} choice;

static void try_line(choice *c, piece *p, const char *line) {
  if (!take_words(p, line)) return;
  if (only_function && strcmp(only_function, p->word[0]) != 0) return;
  for (p->work = 0; p->work < WORKS; p->work++)
    if ((!only_function || p->work == only_work) && c->seen++ % c->of == c->part)
      try_piece(p, c->turns, &c->t);
}

static void try_file(choice *c, const char *path) {
  static piece p;
  static const char *const heads[] = {" engines: ", " run: run ", " try: anfora run "};
  if (!read_text(&p, path)) return;
  for (char *s = p.text; (*s == '#' || *s == '/') && s;
       s = strchr(s, '\n') ? strchr(s, '\n') + 1 : s + strlen(s)) {
    const char *after = s + strspn(s, "#/");
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
      if (strncmp(after, heads[i], strlen(heads[i])) == 0)
        try_line(c, &p, after + strlen(heads[i]));
  }
}

static void try_folder(choice *c, const char *folder) {
  char pattern[1024];
  glob_t g;
  snprintf(pattern, sizeof pattern, "%s/*/*.anf", folder);
  int none = glob(pattern, 0, NULL, &g);
  snprintf(pattern, sizeof pattern, "%s/*.anf", folder);
  if (glob(pattern, none ? 0 : GLOB_APPEND, NULL, &g) != 0 && none) return;
  for (size_t i = 0; i < g.gl_pathc; i++) try_file(c, g.gl_pathv[i]);
  globfree(&g);
}

int main(int argc, char **argv) {
  choice c = {.part = 0, .of = 1, .turns = 40};
  setvbuf(stdout, NULL, _IOLBF, 0);
  printf("1..1\n");
  for (int i = 1; i < argc; i++) {
    bool more = i + 1 < argc;
    if (more && strcmp(argv[i], "--part") == 0) {
      char *end;
      c.part = strtoul(argv[++i], &end, 10);
      c.of = *end == '/' ? strtoul(end + 1, NULL, 10) : 1;
    } else if (more && strcmp(argv[i], "--turns") == 0)
      c.turns = (unsigned)strtoul(argv[++i], NULL, 10);
    else if (i + 5 < argc && strcmp(argv[i], "--one") == 0) {
      only_function = argv[i + 2], only_work = atoi(argv[i + 3]);
      only_first = strtoull(argv[i + 4], NULL, 10), only_on = strcmp(argv[i + 5], "on") == 0;
      try_file(&c, argv[i + 1]);
      i += 5;
    } else try_folder(&c, argv[i]);
  }
  bool good = !c.t.failed && c.t.turns;
  printf("%s 1 - %zu allocations refused in %zu pieces of work (%zu end otherwise without a "
         "fault), %zu wrong\n",
         good ? "ok" : "not ok", c.t.turns, c.t.pieces, c.t.skipped, c.t.failed);
  return !good;
}
