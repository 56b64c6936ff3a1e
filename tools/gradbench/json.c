// SPDX-License-Identifier: Apache-2.0
/* A reader of JSON by recursive descent; inputs nest five deep, and 64 is the limit.
 *   {"x": [1, 2]}   ->   JSON_OBJECT with name "x" and item JSON_LIST of two JSON_NUMBERs */
#include "json.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DEEPEST = 64 };

typedef struct {
  const char *at;
  int depth;
} reader;

static void skip_space(reader *r) { r->at += strspn(r->at, " \t\r\n"); }

static bool take(reader *r, char c) {
  skip_space(r);
  if (*r->at != c) return false;
  r->at++;
  return true;
}

static json *parse(reader *r);

static char *parse_text(reader *r) {
  if (!take(r, '"')) return NULL;
  const char *from = r->at;
  while (*r->at && *r->at != '"') r->at += r->at[0] == '\\' && r->at[1] ? 2 : 1;
  char *s = *r->at ? calloc((size_t)(r->at - from) + 1, 1) : NULL;
  if (s) memcpy(s, from, (size_t)(r->at++ - from)); // escapes stay as they are
  return s;
}

/* Room for one more item, and its name. */
static bool grow(json *j) {
  if (j->n & (j->n - 1)) return true;
  size_t room = j->n ? 2 * j->n : 1;
  json **item = realloc(j->item, room * sizeof *item);
  if (item) j->item = item;
  char **name = item && j->kind == JSON_OBJECT ? realloc(j->name, room * sizeof *name) : NULL;
  if (name) j->name = name;
  return item && (name || j->kind == JSON_LIST);
}

static bool parse_item(reader *r, json *j) {
  if (!grow(j)) return false;
  char *name = j->kind == JSON_OBJECT ? parse_text(r) : NULL;
  json *x = j->kind == JSON_LIST || (name && take(r, ':')) ? parse(r) : NULL;
  if (!x) return free(name), false;
  if (name) j->name[j->n] = name;
  j->item[j->n++] = x;
  return true;
}

static bool parse_items(reader *r, json *j, char end) {
  if (take(r, end)) return true;
  do
    if (!parse_item(r, j)) return false;
  while (take(r, ','));
  return take(r, end);
}

static bool parse_number(reader *r, json *j) {
  static const char *const words[] = {"false", "true", "null", "NaN", "Infinity", "-Infinity"};
  static const double values[] = {0, 1, 0, NAN, INFINITY, -INFINITY};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    size_t n = strlen(words[i]);
    if (strncmp(r->at, words[i], n) != 0) continue;
    r->at += n;
    j->number = values[i];
    return true;
  }
  char *end;
  j->number = strtod(r->at, &end);
  bool read = end != r->at && (isdigit((unsigned char)*r->at) || *r->at == '-');
  r->at = end;
  return read;
}

static bool fill(reader *r, json *j) {
  skip_space(r);
  if (*r->at == '"') {
    j->kind = JSON_TEXT;
    return (j->text = parse_text(r)) != NULL;
  }
  bool list = *r->at == '[';
  if (!list && *r->at != '{') return parse_number(r, j);
  j->kind = list ? JSON_LIST : JSON_OBJECT;
  r->at++;
  return ++r->depth <= DEEPEST && parse_items(r, j, list ? ']' : '}') && r->depth--;
}

static json *parse(reader *r) {
  json *j = calloc(1, sizeof *j);
  if (j && fill(r, j)) return j;
  return json_free(j), NULL;
}

static char *contents(const char *file) {
  FILE *f = fopen(file, "rb");
  long n = f && fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;
  char *s = n >= 0 ? calloc((size_t)n + 1, 1) : NULL;
  if (s) {
    rewind(f);
    if (fread(s, 1, (size_t)n, f) != (size_t)n) free(s), s = NULL;
  }
  if (f) fclose(f);
  return s;
}

json *json_read(const char *file) {
  char *s = contents(file);
  reader r = {s, 0};
  json *j = s ? parse(&r) : NULL;
  if (j) skip_space(&r);
  if (j && *r.at) json_free(j), j = NULL;
  free(s);
  return j;
}

const json *json_find(const json *j, const char *name) {
  if (j->kind != JSON_OBJECT) return NULL;
  for (size_t i = 0; i < j->n; i++)
    if (strcmp(j->name[i], name) == 0) return j->item[i];
  for (size_t i = 0; i < j->n; i++) {
    const json *x = json_find(j->item[i], name);
    if (x) return x;
  }
  return NULL;
}

void json_free(json *j) {
  if (!j) return;
  for (size_t i = 0; i < j->n; i++) {
    json_free(j->item[i]);
    if (j->name) free(j->name[i]);
  }
  free(j->item);
  free(j->name);
  free(j->text);
  free(j);
}
