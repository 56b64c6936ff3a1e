// SPDX-License-Identifier: Apache-2.0
/* Values and diagnostics as JSON.
 *   (1, [2.5, nan])   ->   [1, [2.5, "nan"]]          {a = true}   ->   {"a": true}
 * A value nests at most MAX_DEPTH deep here, so that neither this file nor a reader of the result runs out of stack;
 * numbers that JSON has not are strings. */
#include "cli/cli.h"
#include "ir/ir.h"

#include <jansson.h>
#include <math.h>

enum { MAX_DEPTH = 500 };

/* NULL from jansson is out of memory: nothing else can fail with these arguments. */
static json_t *need(cli *c, json_t *j) {
  if (!j) anfi_throw_nomem(c->cx);
  return j;
}

void cli_json_put(cli *c, json_t *object, const char *key, json_t *value) {
  if (json_object_set_new(object, key, need(c, value)) != 0) anfi_throw_nomem(c->cx);
}

static void append(cli *c, json_t *list, json_t *value) {
  if (json_array_append_new(list, value) != 0) anfi_throw_nomem(c->cx);
}

/* Text that may not be UTF-8: invalid bytes become U+FFFD. */
static json_t *string(cli *c, const char *s, size_t n) {
  anf_text t = {.cx = c->cx};
  for (size_t i = 0; i < n;) {
    size_t k = anfi_utf8_len(s + i, n - i);
    anfi_put(&t, k ? s + i : "\xef\xbf\xbd", k ? k : 3);
    i += k ? k : 1;
  }
  json_t *j = need(c, json_stringn(t.text ? t.text : "", t.len));
  anf_text_free(&t);
  return j;
}

json_t *cli_json_text(cli *c, const char *s, size_t n) { return string(c, s, n); }

void cli_json_append(cli *c, json_t *list, json_t *value) { append(c, list, need(c, value)); }

int cli_json_output(cli *c, const char *key, const char *s, size_t n) {
  json_t *j = need(c, json_object());
  cli_json_put(c, j, key, string(c, s, n));
  return cli_json_write(c, j);
}

static json_t *real(cli *c, double x) {
  if (isfinite(x)) return need(c, json_real(x));
  return need(c, json_string(isnan(x) ? "nan" : x > 0 ? "inf" : "-inf"));
}

static json_t *natural(cli *c, uint64_t x) {
  char buf[24];
  if (x <= INT64_MAX) return need(c, json_integer((json_int_t)x));
  snprintf(buf, sizeof buf, "%llu", (unsigned long long)x);
  return need(c, json_string(buf));
}

static json_t *complex_pair(cli *c, double re, double im) {
  json_t *j = need(c, json_array());
  append(c, j, real(c, re));
  append(c, j, real(c, im));
  return j;
}

static json_t *element(cli *c, const anf_value *v, size_t i) {
  const void *p = anf_value_data(v);
  switch (anf_value_dtype(v)) {
  case ANF_BOOL: return need(c, json_boolean(anf_value_get_i64(v, i) != 0));
  case ANF_F16:
  case ANF_BF16:
  case ANF_F32:
  case ANF_F64:
  case ANF_FLOAT: return real(c, anf_value_get_f64(v, i));
  case ANF_C64:
    return complex_pair(c, (double)((const float *)p)[2 * i],
                        (double)((const float *)p)[2 * i + 1]);
  case ANF_COMPLEX:
  case ANF_C128: return complex_pair(c, ((const double *)p)[2 * i], ((const double *)p)[2 * i + 1]);
  case ANF_U64:
  case ANF_KEY: return natural(c, ((const uint64_t *)p)[i]);
  default: return need(c, json_integer((json_int_t)anf_value_get_i64(v, i)));
  }
}

/* Recursion by rank, which is at most ANF_MAX_RANK. */
static json_t *tensor(cli *c, const anf_value *v, size_t axis, size_t *at) {
  if (axis == anf_value_rank(v)) return element(c, v, (*at)++);
  json_t *list = need(c, json_array());
  for (int64_t i = 0; i < anf_value_dim(v, axis); i++) append(c, list, tensor(c, v, axis + 1, at));
  return list;
}

static json_t *type_name(cli *c, const anf_type *t) {
  anf_text o = {.cx = c->cx};
  if (anf_type_print(c->cx, t, &o) != ANF_OK) anfi_throw_nomem(c->cx);
  json_t *j = string(c, o.text, o.len);
  anf_text_free(&o);
  return j;
}

static json_t *printed(cli *c, const anf_value *v) {
  anf_text o = {.cx = c->cx};
  if (anf_value_print(c->cx, v, 0, &o) != ANF_OK) anfi_throw_nomem(c->cx);
  json_t *j = string(c, o.text, o.len);
  anf_text_free(&o);
  return j;
}

static json_t *function(cli *c, const anf_value *v) {
  json_t *j = need(c, json_object());
  cli_json_put(c, j, "function", printed(c, v));
  return j;
}

static json_t *convert(cli *c, const anf_value *v, size_t depth);

static json_t *items(cli *c, const anf_value *v, size_t depth) {
  bool record = anf_value_get_kind(v) == ANF_VALUE_RECORD;
  const anf_type *t = record ? anf_value_type(c->cx, v) : NULL;
  json_t *j = need(c, record ? json_object() : json_array());
  for (size_t i = 0; i < anf_value_count(v); i++) {
    json_t *item = convert(c, anf_value_at(v, i), depth + 1);
    if (record) cli_json_put(c, j, anf_type_field(t, i), item);
    else append(c, j, item);
  }
  return j;
}

static json_t *convert(cli *c, const anf_value *v, size_t depth) {
  size_t at = 0;
  if (depth == MAX_DEPTH) {
    if (!anfi_failed(c->cx)) anfi_fail(c->cx, anfi_nowhere(), ANF_E0016, (unsigned)MAX_DEPTH);
    return need(c, json_null());
  }
  switch (anf_value_get_kind(v)) {
  case ANF_VALUE_NONE: return need(c, json_null());
  case ANF_VALUE_TENSOR: return tensor(c, v, 0, &at);
  case ANF_VALUE_STRING: return string(c, v->u.text, v->n);
  case ANF_VALUE_TUPLE:
  case ANF_VALUE_RECORD: return items(c, v, depth);
  case ANF_VALUE_TYPE:
  case ANF_VALUE_BOX:
  case ANF_VALUE_STACK: return printed(c, v);
  case ANF_VALUE_FN: break;
  }
  return function(c, v);
}

json_t *cli_json_real(cli *c, double x) { return real(c, x); }

json_t *cli_json_value(cli *c, const anf_value *v) { return convert(c, v, 0); }

json_t *cli_json_type(cli *c, const anf_value *v) { return type_name(c, anf_value_type(c->cx, v)); }

static json_t *diagnostic(cli *c, const anf_diag_item *it) {
  static const char *const severity[] = {"note", "warning", "error"};
  json_t *j = need(c, json_object());
  cli_json_put(c, j, "severity", json_string(severity[it->severity]));
  cli_json_put(c, j, "code", json_string(it->code));
  cli_json_put(c, j, "message", string(c, it->message, strlen(it->message)));
  cli_json_put(c, j, "file", string(c, it->file, strlen(it->file)));
  cli_json_put(c, j, "line", json_integer(it->line));
  cli_json_put(c, j, "col", json_integer(it->col));
  cli_json_put(c, j, "hint", string(c, it->hint, strlen(it->hint)));
  return j;
}

json_t *cli_json_errors(cli *c) {
  json_t *list = need(c, json_array()), *j = need(c, json_object());
  for (size_t i = 0; i < anf_diag_count(c->d); i++)
    append(c, list, diagnostic(c, anf_diag_at(c->d, i)));
  cli_json_put(c, j, "error", list);
  cli_json_put(c, j, "status", json_string(anf_status_name(c->status)));
  return j;
}

void cli_json_usage(const cli *c, const char *fmt, va_list ap) {
  char message[1024], clean[3 * sizeof message] = "", hint[64];
  vsnprintf(message, sizeof message, fmt, ap);
  for (size_t i = 0, n = strlen(message); i < n;) {
    size_t k = anfi_utf8_len(message + i, n - i);
    if (k) strncat(clean, message + i, k);
    else strcat(clean, "\xef\xbf\xbd");
    i += k ? k : 1;
  }
  snprintf(hint, sizeof hint, "anfora help%s%s", c->command ? " " : "",
           c->command ? c->command->name : "");
  json_t *j = json_pack("{s:[{s:s, s:s, s:s, s:s, s:i, s:i, s:s}], s:s}", "error", "severity",
                        "error", "code", "", "message", clean, "file", "", "line", 0, "col", 0,
                        "hint", hint, "status", "usage");
  json_dumpf(j, stdout, 0);
  putchar('\n');
  json_decref(j);
}

static int to_stdout(const char *s, size_t n, void *user) {
  cli_put((cli *)user, s, n);
  return 0;
}

int cli_json_write(cli *c, json_t *object) {
  json_dump_callback(object, to_stdout, c, 0); // a failure is reported at the end
  putchar('\n');
  json_decref(object);
  return EXIT_OK;
}
