// SPDX-License-Identifier: Apache-2.0
/* A reader of JSON, enough for the inputs of GradBench. */
#ifndef GRADBENCH_JSON_H
#define GRADBENCH_JSON_H

#include <stdbool.h>
#include <stdlib.h>

typedef enum {
  JSON_NUMBER,
  JSON_TEXT,
  JSON_LIST,
  JSON_OBJECT
} json_kind; // true, false and null are numbers

typedef struct json {
  json_kind kind;
  double number;
  char *text;  // of TEXT
  size_t n;    // of LIST and OBJECT
  char **name; // of OBJECT
  struct json **item;
} json;

json *json_read(const char *file); // NULL: not read, or not JSON
const json *json_find(const json *j,
                      const char *name); // the first field of that name, also in fields; NULL: none
void json_free(json *j);

#endif
