// SPDX-License-Identifier: Apache-2.0
/* The protocol of GradBench's C++ tools.
 *   EVAL input.json FUNCTION   ->   line 1: the result as JSON; then {"name": "evaluate", ..} for each run
 * A parameter of a function takes the field of its name, wherever it stands in the input. If the program has
 * `prepare`, fields of its result come first; `FUNCTION_output` shapes the result after it was timed. */
#include "json.h"

#include <anfora/anfora.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

typedef struct {
  anf_ctx *cx;
  anf_diag *d;
  anf_module *m;
  json *input;
  anf_value *prepared;
  char missing[128];
} driver;

static long now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000L + t.tv_nsec;
}

/* ---- JSON to values ---- */

/* The dims of nested lists; a list without items has the dims that the type declares for the others. */
static void dims_of(const json *j, const anf_type *t, int64_t *dims) {
  for (size_t i = 0; i < anf_type_rank(t); i++) {
    bool list = j && j->kind == JSON_LIST;
    dims[i] = list ? (int64_t)j->n : anf_type_dim(t, i) < 0 ? 0 : anf_type_dim(t, i);
    j = list && j->n ? j->item[0] : NULL;
  }
}

static bool put_numbers(const json *j, anf_dtype d, unsigned char **to, const unsigned char *end) {
  if (j->kind == JSON_LIST) {
    for (size_t i = 0; i < j->n; i++)
      if (!put_numbers(j->item[i], d, to, end)) return false;
    return true;
  }
  if (*to + anf_dtype_bytes(d) > end) return false; // lists of different lengths
  double x = j->number;
  int64_t i = (int64_t)x;
  if (d == ANF_F64) memcpy(*to, &x, sizeof x);
  else if (d == ANF_I64) memcpy(*to, &i, sizeof i);
  else **to = x != 0;
  *to += anf_dtype_bytes(d);
  return true;
}

static anf_value *value_of(driver *v, const json *j, const anf_type *t) {
  int64_t dims[8];
  anf_dtype d = t ? anf_type_dtype(t) : ANF_F64;
  if (!t || anf_type_get_kind(t) != ANF_TYPE_TENSOR || anf_type_rank(t) > 8) return NULL;
  size_t n = anf_dtype_bytes(d);
  dims_of(j, t, dims);
  for (size_t i = 0; i < anf_type_rank(t); i++) n *= (size_t)dims[i];
  unsigned char *data = malloc(n + 1), *to = data;
  bool fits = data && put_numbers(j, d, &to, data + n) && to == data + n;
  anf_value *x = fits ? anf_value_tensor(v->cx, d, anf_type_rank(t), dims, data) : NULL;
  free(data);
  return x;
}

static anf_value *argument(driver *v, anf_node *param, bool only) {
  const char *name = anf_node_name(param);
  anf_value *x = v->prepared ? anf_value_field(v->prepared, name) : NULL;
  if (x) return anf_value_retain(x);
  const json *j = v->input->kind == JSON_OBJECT ? json_find(v->input, name)
                  : only                        ? v->input
                                                : NULL;
  x = j ? value_of(v, j, anf_node_type(param)) : NULL;
  if (!x) snprintf(v->missing, sizeof v->missing, "the input gives no '%s' that fits", name);
  return x;
}

/* ---- values to JSON ---- */

static void print_tensor(const anf_value *x, const anf_type *t, size_t dim, size_t *at) {
  if (dim == anf_type_rank(t)) {
    if (anf_type_dtype(t) == ANF_F64) printf("%.17g", anf_value_get_f64(x, (*at)++));
    else printf("%lld", (long long)anf_value_get_i64(x, (*at)++));
    return;
  }
  for (int64_t i = 0; i < anf_type_dim(t, dim); i++) {
    fputs(i ? ", " : "[", stdout);
    print_tensor(x, t, dim + 1, at);
  }
  fputs(anf_type_dim(t, dim) ? "]" : "[]", stdout);
}

static void print_value(driver *v, const anf_value *x) {
  const anf_type *t = anf_value_type(v->cx, x);
  size_t at = 0;
  if (anf_type_get_kind(t) == ANF_TYPE_TENSOR) {
    print_tensor(x, t, 0, &at);
    return;
  }
  bool record = anf_type_get_kind(t) == ANF_TYPE_RECORD;
  for (size_t i = 0; i < anf_type_count(t); i++) {
    fputs(i ? ", " : record ? "{" : "[", stdout);
    if (record) printf("\"%s\": ", anf_type_field(t, i));
    print_value(v, anf_value_at(x, i));
  }
  fputs(record ? "}" : "]", stdout);
}

/* ---- calls ---- */

typedef struct {
  anf_graph *g;
  anf_exec *e;
  anf_value **arg, *result;
  size_t n;
} call;

static void call_free(call *c) {
  for (size_t i = 0; c->arg && i < c->n; i++) anf_value_release(c->arg[i]);
  free(c->arg);
  anf_value_release(c->result);
  anf_exec_free(c->e);
  *c = (call){0};
}

static bool call_run(driver *v, call *c) {
  anf_value_release(c->result);
  c->result = NULL;
  return anf_exec_run(c->e, c->n, c->arg, NULL, v->d, &c->result) == ANF_OK;
}

/* Compiled and run once, with `given` or the fields of the input. */
static bool call_begin(driver *v, call *c, const char *name, anf_value *given) {
  anf_exec_opts o = ANF_INIT(anf_exec_opts);
#ifdef MULTITHREADED
  o.parallel = true;
#endif
  *c = (call){.g = anf_module_find(v->m, name)};
  if (!c->g)
    return snprintf(v->missing, sizeof v->missing, "there is no function '%s'", name), false;
  c->n = anf_graph_param_count(c->g);
  c->arg = calloc(c->n + 1, sizeof *c->arg);
  if (!c->arg) return false;
  for (size_t i = 0; i < c->n; i++) {
    c->arg[i] = given ? anf_value_retain(given) : argument(v, anf_graph_param(c->g, i), c->n == 1);
    if (!c->arg[i]) return false;
  }
  return anf_compile(c->g, &o, v->d, &c->e) == ANF_OK && call_run(v, c);
}

static double option(const driver *v, const char *name, double otherwise) {
  const json *j = v->input->kind == JSON_OBJECT ? json_find(v->input, name) : NULL;
  return j && j->kind == JSON_NUMBER ? j->number : otherwise;
}

/* Runs until both limits are reached; a timing a line, the result before them. */
static bool evaluate(driver *v, call *c, const char *function, long prepare) {
  char output[96];
  call shape = {0};
  long *ns = NULL, total = 0;
  size_t n = 0;
  snprintf(output, sizeof output, "%s_output", function);
  while ((double)n < option(v, "min_runs", 1) ||
         (double)total < 1e9 * option(v, "min_seconds", 0)) {
    long *more = n & (n - 1) ? ns : realloc(ns, (n ? 2 * n : 1) * sizeof *ns), start = now_ns();
    if (!more || !call_run(v, c)) return free(more ? more : ns), false;
    ns = more;
    total += ns[n++] = now_ns() - start;
  }
  bool shaped = anf_module_find(v->m, output) != NULL,
       ok = !shaped || call_begin(v, &shape, output, c->result);
  if (ok) {
    print_value(v, shaped ? shape.result : c->result);
    printf("\n{\"name\": \"prepare\", \"nanoseconds\": %ld}\n", prepare);
    for (size_t i = 0; i < n; i++)
      printf("{\"name\": \"evaluate\", \"nanoseconds\": %ld}\n", ns[i]);
  }
  call_free(&shape);
  free(ns);
  return ok;
}

static bool run(driver *v, const char *file, const char *function) {
  call prepare = {0}, c = {0};
  v->input = json_read(file);
  if (!v->input)
    return snprintf(v->missing, sizeof v->missing, "'%.100s' is not JSON", file), false;
  long start = now_ns();
  bool ok = anf_load(v->cx, PROGRAM, v->d, &v->m) == ANF_OK;
  if (ok && anf_module_find(v->m, "prepare")) {
    ok = call_begin(v, &prepare, "prepare", NULL);
    v->prepared = prepare.result;
  }
  ok = ok && call_begin(v, &c, function, NULL) && evaluate(v, &c, function, now_ns() - start);
  call_free(&c);
  call_free(&prepare);
  return ok;
}

int main(int argc, char **argv) {
  if (argc != 3) return fprintf(stderr, "usage: %s FILE FUNCTION\n", argv[0]), 2;
  driver v = {.cx = anf_ctx_new(NULL)};
  v.d = anf_diag_new(v.cx);
  bool ok = run(&v, argv[1], argv[2]);
  if (*v.missing) fprintf(stderr, "%s\n", v.missing);
  anf_diag_print(v.d, stderr, false);
  json_free(v.input);
  anf_module_free(v.m);
  anf_diag_free(v.d);
  anf_ctx_free(v.cx);
  return !ok;
}
