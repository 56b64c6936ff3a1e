// SPDX-License-Identifier: Apache-2.0
/* Computes single ops for test/ops/numpy_check.py. `op_server --table` prints the op table, one op
 * a line with tabs between columns. Without arguments it answers each line of standard input with
 * one line: Op attr=value ... | value value ...     ->   value   or   error CODE message A value is
 * "f32[2,3]:HEX" (the bytes in memory), "None", or "( value ... )". An attribute's value is a
 * number, true, false, None, (1,2), a type name after @, or a string after '. The line "bytes" is
 * answered with what the context holds. `op_server --faults` fails the 1st, 2nd, ... allocation of
 * each line and answers with how many there were, or with what went wrong. `op_server --lowered`
 * computes by the compiler's lowering instead of the reference kernels. */
#include "lowered.h"
#include "vmapped.h"
#include "written.h"

#include <stdio.h>
#include <stdlib.h>

static enum { REFERENCE, LOWERED, LOWERED_PRINT, VMAPPED, WRITTEN } way; // of computing
static written_form form;                                                // of WRITTEN
static char mode[128]; // of VMAPPED: the first word after the bar

/* An allocator that refuses one allocation when it is told to. */
typedef struct faults {
  size_t countdown; // allocations until the one that is refused; 0: none is
  bool refused;
} faults;

static void *faulty_alloc(void *user, void *p, size_t old, size_t size) {
  faults *h = (faults *)user;
  if ((!p || size > old) && size && h->countdown && --h->countdown == 0) {
    h->refused = true;
    return NULL;
  }
  if (size) return realloc(p, size);
  free(p);
  return NULL;
}

enum { MAX_ARGS = 4096, MAX_ATTRS = 32 };

static void put_column(const char *s) { printf("\t%s", s ? s : ""); }

static void put_table(void) {
  for (int i = 0; i < ANF_OP_COUNT; i++) {
    const anfi_op_info *o = &anfi_op[i];
    printf("%s", o->name);
    put_column(o->family);
    put_column(o->in);
    put_column(o->attrs);
    put_column(o->numpy);
    put_column(o->sample);
    put_column(o->grad);
    printf("\t%d\t%d\t%u\n", o->eval != NULL, o->scalar != NULL, o->flags);
  }
}

/* ---- reading ---- */

static int hex_digit(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

static anf_value *read_tensor(anf_ctx *cx, const char **s) {
  int64_t dims[ANF_MAX_RANK];
  size_t rank = 0, len = strcspn(*s, "[");
  anf_dtype d = ANF_F32;
  if (!anfi_dtype_parse(*s, len, &d)) exit(2);
  for (*s += len; **s != ']';) {
    char *end;
    if ((*s)[1] == ']') {
      ++*s;
      break;
    }
    dims[rank++] = strtoll(*s + 1, &end, 10);
    *s = end;
  }
  *s += 2;
  size_t n = strcspn(*s, " )");
  unsigned char *data = (unsigned char *)malloc(n / 2 + 1);
  for (size_t i = 0; i < n / 2; i++)
    data[i] = (unsigned char)(hex_digit((*s)[2 * i]) * 16 + hex_digit((*s)[2 * i + 1]));
  *s += n;
  anf_value *v = anf_value_tensor(cx, d, rank, dims, data);
  free(data);
  return v;
}

static anf_value *read_value(anf_ctx *cx, const char **s);

static anf_value *read_tuple(anf_ctx *cx, const char **s) {
  anf_value *items[64];
  size_t n = 0;
  for (*s += 1;;) {
    while (**s == ' ') ++*s;
    if (**s == ')') break;
    items[n++] = read_value(cx, s);
  }
  ++*s;
  anf_value *t = anf_value_tuple(cx, n, items);
  while (n) anf_value_release(items[--n]);
  return t;
}

static anf_value *read_value(anf_ctx *cx, const char **s) {
  if (**s == '(') return read_tuple(cx, s);
  if (strncmp(*s, "None", 4) == 0) return *s += 4, anf_value_none(cx);
  return read_tensor(cx, s);
}

/* A tuple of integers and tuples; *s is left behind it. */
static anf_value *read_ints(anf_ctx *cx, const char **s) {
  anf_value *items[64] = {NULL};
  size_t n = 0;
  for (++*s; **s != ')' && n < 64;) {
    char *end;
    if (**s == '(') {
      items[n++] = read_ints(cx, s);
    } else {
      items[n++] = anf_value_int(cx, strtoll(*s, &end, 10));
      *s = end;
    }
    if (**s == ',') ++*s;
  }
  ++*s;
  anf_value *t = anf_value_tuple(cx, n, items);
  while (n) anf_value_release(items[--n]);
  return t;
}

static anf_value *read_attr(anf_ctx *cx, const char *s) {
  size_t len = strcspn(s, " ");
  anf_dtype d;
  if (s[0] == '(') return read_ints(cx, &s);
  if (s[0] == '\'') return anf_value_string(cx, s + 1, len - 1);
  if (s[0] == '@')
    return anf_value_of_type(
        cx, anf_type_scalar(cx, anfi_dtype_parse(s + 1, len - 1, &d) ? d : ANF_F32));
  if (strncmp(s, "None", 4) == 0) return anf_value_none(cx);
  if (s[0] == 't' || (s[0] == 'f' && s[1] == 'a')) return anf_value_bool(cx, s[0] == 't');
  if (strcspn(s, ".en") < len) return anf_value_float(cx, strtod(s, NULL));
  return anf_value_int(cx, strtoll(s, NULL, 10));
}

/* ---- writing ---- */

static void put_tensor(const anf_value *v) {
  printf("%s[", anf_dtype_name(anf_value_dtype(v)));
  for (size_t i = 0; i < anf_value_rank(v); i++)
    printf(i ? ",%lld" : "%lld", (long long)anf_value_dim(v, i));
  printf("]:");
  const unsigned char *p = (const unsigned char *)anf_value_data(v);
  size_t n = anf_value_elements(v) * anf_dtype_bytes(anf_value_dtype(v));
  for (size_t i = 0; i < n; i++) printf("%02x", p[i]);
}

static void put_value(const anf_value *v) {
  if (anf_value_get_kind(v) == ANF_VALUE_TENSOR) put_tensor(v);
  else if (anf_value_get_kind(v) == ANF_VALUE_TUPLE) {
    printf("( ");
    for (size_t i = 0; i < anf_value_count(v); i++) put_value(anf_value_at(v, i)), printf(" ");
    printf(")");
  } else printf("None");
}

/* ---- one line ---- */

typedef struct {
  anf_value *in[MAX_ARGS], *attr[MAX_ATTRS];
  size_t n, nattr;
  bool own[MAX_ATTRS];
} request;

static anf_status compute(anf_ctx *cx, anfi_eval *q, anf_diag *d) {
  ANFI_ENTRY(cx, d);
  if (way == REFERENCE) anfi_eval_op(q);
  else if (way == WRITTEN) run_written(q, form);
  else if (way == VMAPPED) run_vmapped(q, mode);
  else run_lowered(q, way == LOWERED_PRINT);
  return anfi_leave(cx);
}

static anf_status compute_in(anf_ctx *cx, anfi_opcode op, const request *r, bool print) {
  anf_diag *d = anf_diag_new(cx);
  if (!d) return ANF_NOMEM;
  anfi_eval q = {.cx = cx, .op = op, .n = r->n, .in = r->in, .attr = r->attr};
  anf_status st = compute(cx, &q, d);
  const anf_diag_item *first = anf_diag_at(d, 0);
  if (print && st != ANF_OK)
    printf("error %s %s", first ? first->code : anf_status_name(st), first ? first->message : "");
  else if (print) put_value(q.out);
  anf_value_release(q.out);
  anf_diag_free(d);
  return st;
}

/* Fails each allocation in turn, on one context that has computed the op before. */
static void fault_each(anf_ctx *cx, faults *h, anfi_opcode op, const request *r) {
  anf_status good = compute_in(cx, op, r, false), st;
  size_t before = anf_ctx_bytes(cx), k = 0;
  do {
    h->countdown = ++k;
    h->refused = false;
    st = compute_in(cx, op, r, false);
    h->countdown = 0;
    if (anf_ctx_bytes(cx) != before) {
      printf("allocation %zu leaks %lld bytes\n", k, (long long)(anf_ctx_bytes(cx) - before));
      return;
    }
  } while (h->refused && st == ANF_NOMEM);
  if (h->refused || st != good)
    printf("allocation %zu failed, status %s\n", k, anf_status_name(st));
  else printf("%zu allocations\n", k - 1);
}

static void read_request(anf_ctx *cx, anfi_opcode op, const char *s, request *r) {
  const anfi_schema *sc = anfi_op_schema(cx, op);
  *r = (request){.nattr = sc->nattr};
  for (uint32_t k = 0; k < sc->nattr; k++) r->attr[k] = sc->attr[k].initial;
  for (s += strcspn(s, " ") + 1; *s != '|'; s += strcspn(s, " ") + 1) {
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(s, "="), s);
    int k = anfi_attr_index(cx, op, name);
    if (k < 0) exit(2);
    r->attr[k] = read_attr(cx, s + strlen(name) + 1);
    r->own[k] = true;
  }
  if (way == VMAPPED) {
    s += strspn(s, "| ");
    snprintf(mode, sizeof mode, "%.*s", (int)strcspn(s, " "), s);
    s += strlen(mode) - 1;
  }
  for (s++; *s && r->n < MAX_ARGS;) {
    while (*s == ' ') s++;
    if (*s) r->in[r->n++] = read_value(cx, &s);
  }
}

static void serve(anf_ctx *cx, const char *line, faults *h) {
  static request r;
  anfi_opcode op = anfi_op_find(cx, line, strcspn(line, " "));
  if (op == ANF_OP_NONE) {
    printf("error no such op\n");
    return;
  }
  read_request(cx, op, line, &r);
  if (h) fault_each(cx, h, op, &r);
  else compute_in(cx, op, &r, true), putchar('\n');
  for (size_t k = 0; k < r.nattr; k++)
    if (r.own[k]) anf_value_release(r.attr[k]);
  while (r.n) anf_value_release(r.in[--r.n]);
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "--lowered") == 0) way = LOWERED;
  if (argc > 1 && strcmp(argv[1], "--lowered-print") == 0) way = LOWERED_PRINT;
  if (argc > 1 && strcmp(argv[1], "--vmap") == 0) way = VMAPPED;
  static const char *const written[] = {"--mindir", "--onnx", "--stablehlo"};
  for (size_t i = 0; argc > 1 && i < ANFI_LEN(written); i++)
    if (strcmp(argv[1], written[i]) == 0) way = WRITTEN, form = (written_form)i;
  bool faulty = argc > 1 && strcmp(argv[1], "--faults") == 0;
  if (argc > 1 && strcmp(argv[1], "--table") == 0) {
    put_table();
    return 0;
  }
  faults heap = {0};
  anf_ctx_opts o = {.size = sizeof o, .allocator = {faulty_alloc, &heap}, .max_bytes = 1 << 28};
  anf_ctx *cx = anf_ctx_new(&o);
  size_t cap = 0, len = 0;
  setvbuf(stdout, NULL, _IOLBF, 1 << 16); // a crash leaves the answers before it
  char *line = NULL;
  for (int c = getchar(); c != EOF; c = getchar()) {
    if (len + 1 >= cap) line = (char *)realloc(line, cap = cap ? cap * 2 : 256);
    if (c != '\n') {
      line[len++] = (char)c;
      continue;
    }
    line[len] = 0;
    len = 0;
    if (strcmp(line, "bytes") == 0) printf("%zu\n", anf_ctx_bytes(cx));
    else serve(cx, line, faulty ? &heap : NULL);
  }
  free(line);
  anf_ctx_free(cx);
  return 0;
}
