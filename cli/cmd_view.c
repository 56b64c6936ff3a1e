// SPDX-License-Identifier: Apache-2.0
/* anfora view: drawings.
 *   anfora view f.anf -o f.svg   ->   dot -Tsvg -o f.svg, its input an unnamed file with the graph
 * Graphviz's `dot` is started without a shell, so that no name in a program can become part of a command. */
#define _POSIX_C_SOURCE 200809L
#include "cli/cli.h"
#include "ir/ir.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

typedef enum { FORM_DOT, FORM_HTML, FORM_PICTURE } form;

static const char *ending(const char *path) {
  const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
  return dot ? dot + 1 : "";
}

/* ---- graphviz ---- */

static anf_status failed(cli *c, const char *what) {
  anfi_fail(c->cx, anfi_nowhere(), ANF_E0019, "dot", what);
  return ANF_IO;
}

/* In the child: reads the file, writes to the path. Only calls that are safe after fork. */
static void become_dot(int from, const char *type, const char *path) {
  char *const words[] = {"dot", (char *)(uintptr_t)type, "-o", (char *)(uintptr_t)path, NULL};
  signal(SIGPIPE, SIG_DFL);
  if (lseek(from, 0, SEEK_SET) == 0 && dup2(from, STDIN_FILENO) >= 0) execvp("dot", words);
  _exit(errno == ENOENT ? 127 : 126);
}

static anf_status run_dot(cli *c, FILE *from, const char *type, const char *path) {
  pid_t pid = fork();
  if (pid < 0) return failed(c, strerror(errno));
  if (pid == 0) become_dot(fileno(from), type, path);
  int st = 0;
  while (waitpid(pid, &st, 0) < 0)
    if (errno != EINTR) return failed(c, strerror(errno));
  if (WIFEXITED(st) && WEXITSTATUS(st) == 0) return ANF_OK;
  if (WIFEXITED(st) && WEXITSTATUS(st) == 127) {
    anfi_fail(c->cx, anfi_nowhere(), ANF_E0018, "dot", "graphviz");
    return ANF_UNSUPPORTED;
  }
  return failed(c, WIFEXITED(st) ? "it ended with an error" : "it was killed");
}

static anf_status draw(cli *c, const anf_text *dot, const char *type, const char *path) {
  FILE *f = tmpfile();
  if (!f) return failed(c, strerror(errno));
  bool good = fwrite(dot->text, 1, dot->len, f) == dot->len && fflush(f) == 0;
  anf_status st = good ? run_dot(c, f, type, path) : failed(c, strerror(errno));
  fclose(f);
  return st;
}

/* ---- which node ---- */

/* "#12", "%3", "name" or "graph.name", in the names of print --as ir. */
static anf_node *find_node(cli *c, anf_module *m, const char *word) {
  char *end = NULL;
  if (word[0] == '#' && word[1]) {
    unsigned long long id = strtoull(word + 1, &end, 10);
    return *end || id >= m->nodes.n ? NULL : m->nodes.at[id];
  }
  anfi_names names = anfi_unique_names(m, anfi_analyse(m), anfi_scratch(c->cx));
  anf_node *found = NULL;
  size_t count = 0;
  for (size_t i = 0; i < m->nodes.n; i++) {
    anf_node *n = m->nodes.at[i];
    if (!n || !n->graph) continue;
    const char *graph = names.graph[n->graph->id], *name = names.node[n->id];
    size_t k = strlen(graph);
    bool full = strncmp(word, graph, k) == 0 && word[k] == '.' && strcmp(word + k + 1, name) == 0;
    if (full) return n;
    if (strcmp(word, name) == 0) found = n, count++;
  }
  return count == 1 ? found : NULL;
}

static anf_status read_options(cli *c, anf_module *m, cli_target t, anf_view_opts *o) {
  const char *focus = c->value[OPT_FOCUS];
  if (t.function && !(o->graph = cli_function(c, m, t))) return ANF_INVALID;
  if (!focus) return ANF_OK;
  o->focus = find_node(c, m, focus);
  if (!o->focus) anfi_fail(c->cx, anfi_nowhere(), ANF_E0017, focus);
  return o->focus ? ANF_OK : ANF_INVALID;
}

/* ---- drawing ---- */

static int write_view(cli *c, anf_module *m, const anf_view_opts *o, form f, const char *path) {
  anf_text t = {.cx = c->cx};
  anf_status st = f == FORM_HTML ? anf_write_html(m, o, &t) : anf_write_dot(m, o, &t);
  if (st == ANF_OK && f == FORM_PICTURE) {
    const char *type = anfi_sprintf(anfi_scratch(c->cx), "-T%s", ending(path));
    st = draw(c, &t, type, path);
  } else if (st == ANF_OK && !anfi_os_write(c->cx, path, t.text, t.len)) st = ANF_IO;
  anf_text_free(&t);
  return cli_status(c, st);
}

static bool form_of(const char *path, form *f) {
  const char *end = ending(path);
  *f = strcmp(end, "dot") == 0 ? FORM_DOT : strcmp(end, "html") == 0 ? FORM_HTML : FORM_PICTURE;
  return *f != FORM_PICTURE || cli_has_word("svg png pdf", end);
}

int cmd_view(cli *c) {
  form f;
  uint64_t depth = 0, radius = 0, max_nodes = 0;
  if (c->narg != 1) return cli_usage(c, "it takes one file");
  if (!cli_number(c, OPT_DEPTH, UINT32_MAX, &depth) ||
      !cli_number(c, OPT_RADIUS, UINT32_MAX, &radius) ||
      !cli_number(c, OPT_MAX_NODES, UINT32_MAX, &max_nodes))
    return EXIT_USAGE;
  cli_target t = cli_split(c, c->arg[0]);
  const char *slash = strrchr(t.file, '/'), *name = slash ? slash + 1 : t.file,
             *path = c->value[OPT_OUTPUT];
  if (strcmp(name, "-") == 0) name = "stdin";
  if (!path) path = anfi_sprintf(anfi_scratch(c->cx), "%s.html", name);
  if (!form_of(path, &f))
    return cli_usage(c, "the output must end in .svg, .png, .pdf, .dot or .html; it is '%s'", path);
  anf_view_opts o = {.size = sizeof o,
                     .depth = (uint32_t)depth,
                     .radius = (uint32_t)radius,
                     .max_nodes = (uint32_t)max_nodes};
  anf_module *m = NULL;
  anf_status st = cli_load(c, t.file, &m);
  if (st == ANF_OK) st = read_options(c, m, t, &o);
  if (st != ANF_OK) return cli_status(c, st);
  int status = write_view(c, m, &o, f, path);
  if (status == EXIT_OK && c->value[OPT_JSON])
    return cli_json_output(c, "file", path, strlen(path));
  if (status == EXIT_OK && !c->value[OPT_OUTPUT]) printf("%s\n", path);
  return status;
}
