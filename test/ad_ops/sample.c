// SPDX-License-Identifier: Apache-2.0
/* Reads `.sample` cases (their grammar is in the head of ir/ops/op.def). */
#include "test/ad_ops/sample.h"

#include <stdio.h>
#include <stdlib.h>

double sample_random(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (double)(*state >> 11) / 9007199254740992.0;
}

/* Length of the word at s: up to a space or ';' outside parentheses and brackets. */
static size_t word(const char *s) {
  size_t n = 0;
  for (int depth = 0; s[n] && (depth > 0 || (s[n] != ' ' && s[n] != ';')); n++)
    depth += (s[n] == '(' || s[n] == '[') - (s[n] == ')' || s[n] == ']');
  return n;
}

static void release(void *v) { anf_value_release((anf_value *)v); }

static anf_value *ints(anf_ctx *cx, const char **s) {
  anf_value *items[16];
  size_t n = 0;
  for (++*s; **s != ')';) {
    char *end;
    if (**s == '(') items[n++] = ints(cx, s);
    else {
      items[n++] = anfi_value_new_i64(cx, ANF_INT, strtoll(*s, &end, 10));
      *s = end;
    }
    while (**s == ',' || **s == ' ') ++*s;
  }
  ++*s;
  anf_value *t = anfi_value_new_tuple(cx, n);
  for (size_t i = 0; i < n; i++) t->u.item[i] = items[i];
  return t;
}

static anf_value *attr_value(anf_ctx *cx, const char *s, size_t len) {
  anf_dtype d;
  if (*s == '(') return ints(cx, &s);
  if (len == 4 && memcmp(s, "None", 4) == 0) return anfi_value_new_none(cx);
  if (len == 4 && memcmp(s, "true", 4) == 0) return anfi_value_new_i64(cx, ANF_BOOL, 1);
  if (len == 5 && memcmp(s, "false", 5) == 0) return anfi_value_new_i64(cx, ANF_BOOL, 0);
  if (anfi_dtype_parse(s, len, &d)) return anfi_value_new_type(cx, anfi_type_scalar(cx, d));
  if (strspn(s, "-0123456789") >= len) return anfi_value_new_i64(cx, ANF_INT, strtoll(s, NULL, 10));
  if (strspn(s, "-+.e0123456789") >= len && strpbrk(s, "0123456789") == s + (*s == '-') &&
      *s != '.')
    return anfi_value_new_f64(cx, ANF_FLOAT, strtod(s, NULL));
  return anfi_value_new_string(cx, s, len);
}

static void read_attr(anf_ctx *cx, sample *c, const char *s, size_t len) {
  char name[64];
  size_t n = strcspn(s, "=");
  memcpy(name, s, n);
  name[n] = 0;
  int k = anfi_attr_index(cx, c->op, name);
  if (k < 0) abort();
  c->attr[k] = attr_value(cx, s + n + 1, len - n - 1);
  anfi_defer(cx, ANFI_ALWAYS, release, c->attr[k]);
}

/* nonzero:f32[2,3](a..b). */
static void read_arg(sample *c, const char *s) {
  sample_arg a = {.free = true};
  if (strncmp(s, "None", 4) == 0) {
    a.absent = true;
    c->arg[c->n++] = a;
    return;
  }
  if (strncmp(s, "nonzero:", 8) == 0) s += 8;
  size_t name = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789");
  if (!anfi_dtype_parse(s, name, &a.dtype)) abort();
  s += name;
  if (*s == '[') {
    a.free = false;
    for (s++; *s != ']';) {
      char *end;
      a.dims[a.rank] = strtoll(s, &end, 10);
      if (end == s) a.dims[a.rank] = 3, end++; // a letter
      a.rank++;
      s = *end == ',' ? end + 1 : end;
    }
    s++;
  }
  if (*s == '(') {
    a.limited = true;
    a.lo = strtod(s + 1, NULL);
    a.hi = strtod(strstr(s, "..") + 2, NULL);
  }
  c->nfree += a.free;
  c->arg[c->n++] = a;
}

static void read_word(anf_ctx *cx, sample *c, const char *s, size_t len) {
  if (*s == '(') { // repeated ones
    for (const char *p = s + 1; *p && *p != ')';) {
      size_t n = strcspn(p, " )");
      size_t whole = 0; // a range may follow
      for (int depth = 0; p[whole] && (depth > 0 || (p[whole] != ' ' && p[whole] != ')')); whole++)
        depth += (p[whole] == '(') - (p[whole] == ')');
      if (n) read_arg(c, p);
      p += whole;
      while (*p == ' ') p++;
    }
    return;
  }
  size_t eq = strcspn(s, "=[(");
  if (eq < len && s[eq] == '=') read_attr(cx, c, s, len);
  else read_arg(c, s);
}

bool sample_next(anf_ctx *cx, anfi_opcode op, const char **s, sample *out) {
  while (**s == ' ' || **s == ';') ++*s;
  if (!**s) return false;
  *out = (sample){.op = op};
  const char *from = *s;
  while (**s && **s != ';') {
    size_t len = word(*s);
    read_word(cx, out, *s, len);
    *s += len;
    while (**s == ' ') ++*s;
  }
  size_t len = (size_t)(*s - from);
  snprintf(out->text, sizeof out->text, "%.*s", (int)len, from);
  return true;
}

static const struct {
  size_t rank;
  int64_t dims[3];
} shapes[][3] = {
    {{2, {2, 3}}, {2, {2, 3}}, {2, {2, 3}}}, {{0, {0}}, {0, {0}}, {0, {0}}},
    {{1, {3}}, {2, {2, 3}}, {2, {2, 3}}},    {{2, {2, 1}}, {2, {2, 3}}, {1, {3}}},
    {{2, {2, 3}}, {1, {3}}, {0, {0}}},       {{2, {2, 3}}, {2, {2, 1}}, {2, {1, 3}}},
    {{0, {0}}, {2, {2, 2}}, {1, {2}}},       {{3, {2, 1, 2}}, {2, {3, 1}}, {1, {1}}},
    {{2, {0, 3}}, {1, {3}}, {0, {0}}},       {{1, {1}}, {1, {0}}, {1, {1}}},
};

bool sample_shapes(sample *c, size_t choice) {
  size_t k = 0;
  if (choice >= (c->nfree ? ANFI_LEN(shapes) : 1) || c->nfree > 3) return false;
  for (size_t i = 0; i < c->n; i++) {
    if (!c->arg[i].free || c->arg[i].absent) continue;
    c->arg[i].rank = shapes[choice][k].rank;
    memcpy(c->arg[i].dims, shapes[choice][k].dims, sizeof shapes[choice][k].dims);
    k++;
  }
  return true;
}
