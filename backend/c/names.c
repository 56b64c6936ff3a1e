// SPDX-License-Identifier: Apache-2.0
/* Names for C. Tensor IR allows dots and any UTF-8 in names, C does not, and C reserves names.
 *
 *   a.b → a_b      f32 (a type in C, too) → f32_      a second a_b → a_b_1
 *
 * INVARIANT: the name of a function depends on the names of the module's functions alone. */
#include "backend/c/c.h"
#include "base/mark.h"

/* Words of C, and what the printed file takes from the standard headers. */
static const char *const reserved[] = {"auto",
                                       "break",
                                       "case",
                                       "char",
                                       "const",
                                       "continue",
                                       "default",
                                       "do",
                                       "double",
                                       "else",
                                       "enum",
                                       "extern",
                                       "float",
                                       "for",
                                       "goto",
                                       "if",
                                       "inline",
                                       "int",
                                       "long",
                                       "register",
                                       "restrict",
                                       "return",
                                       "short",
                                       "signed",
                                       "sizeof",
                                       "static",
                                       "struct",
                                       "switch",
                                       "typedef",
                                       "typeof",
                                       "union",
                                       "unsigned",
                                       "void",
                                       "volatile",
                                       "while",
                                       "asm",
                                       "alignas",
                                       "alignof",
                                       "bool",
                                       "true",
                                       "false",
                                       "linux",
                                       "unix",
                                       "main",
                                       "memcpy",
                                       "memset",
                                       "memmove",
                                       "memcmp",
                                       "memchr",
                                       "strlen",
                                       "strcpy",
                                       "strcat",
                                       "strcmp",
                                       "strchr",
                                       "strncpy",
                                       "strncmp",
                                       "strncat",
                                       "strrchr",
                                       "strstr",
                                       "strtok",
                                       "strspn",
                                       "strcspn",
                                       "strpbrk",
                                       "strcoll",
                                       "strxfrm",
                                       "strerror",
                                       "strdup",
                                       "strndup",
                                       "malloc",
                                       "calloc",
                                       "realloc",
                                       "free",
                                       "abort",
                                       "exit",
                                       "abs",
                                       "labs",
                                       "llabs",
                                       "div",
                                       "ldiv",
                                       "printf",
                                       "puts",
                                       "putchar",
                                       "scanf",
                                       "index",
                                       "rindex",
                                       "nan",
                                       "fma",
                                       "fmin",
                                       "fmax",
                                       "fdim",
                                       "fabs",
                                       "cbrt",
                                       "exp10",
                                       "erfc",
                                       "tgamma",
                                       "gamma",
                                       "nearbyint",
                                       "lround",
                                       "llround",
                                       "lrint",
                                       "llrint",
                                       "ldexp",
                                       "frexp",
                                       "modf",
                                       "ilogb",
                                       "logb",
                                       "log10",
                                       "scalb",
                                       "scalbn",
                                       "scalbln",
                                       "hypot",
                                       "remainder",
                                       "remquo",
                                       "rint",
                                       "nextafter",
                                       "nexttoward",
                                       "isnan",
                                       "isinf",
                                       "isfinite",
                                       "isnormal",
                                       "signbit",
                                       "fpclassify",
                                       "isgreater",
                                       "isless",
                                       "islessgreater",
                                       "isunordered",
                                       "isgreaterequal",
                                       "islessequal",
                                       "significand",
                                       "drem",
                                       "finite",
                                       "j0",
                                       "j1",
                                       "jn",
                                       "y0",
                                       "y1",
                                       "yn",
                                       "signgam",
                                       "pow10",
                                       "sincos",
                                       "NULL",
                                       "INFINITY",
                                       "NAN",
                                       "HUGE_VAL",
                                       "offsetof",
                                       "M_E",
                                       "M_PI",
                                       "bcmp",
                                       "bcopy",
                                       "bzero",
                                       "ffs",
                                       "generic",
                                       "pointer",
                                       "stream",
                                       "data",
                                       "here"};

static const char *const math[] = {
#define ANF_TIR_INTRIN(name, lo, hi, typing, cls, fn) #fn,
#include "backend/tir/intrin.def"
#undef ANF_TIR_INTRIN
};

static bool plain(const char *s) {
  if (!*s || (*s >= '0' && *s <= '9')) return false;
  for (; *s; s++)
    if (!(*s == '_' || (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') ||
          (*s >= '0' && *s <= '9')))
      return false;
  return true;
}

/* Letters, digits and _ of ASCII; the marks of branches and loops by words. */
static const char *identifier(anfi_arena *a, const char *s) {
  if (plain(s)) return s;
  char *out = (char *)anfi_alloc(a, strlen(s) * 8 + 2), *p = out;
  if (*s >= '0' && *s <= '9') *p++ = '_';
  while (*s) {
    size_t n;
    const char *word = anfi_mark_word(s, &n);
    if (word) {
      p += sprintf(p, "%s", word);
      s += n;
      continue;
    }
    char one[2] = {*s++, 0};
    if (*one >= '0' && *one <= '9') *p++ = *one;
    else if (plain(one)) *p++ = *one;
    else p += sprintf(p, *one == '.' ? "_" : "x%02x", (unsigned char)*one);
  }
  *p = 0;
  return out;
}

static void take(cgen *c, const char *name) {
  *anfi_map_at(&c->taken, anfi_key(anfi_intern_z(&c->names, name))) = 1;
}

/* Names that begin so are the file's own or the implementation's. */
static bool is_ours(const char *s) {
  return strncmp(s, "anf_", 4) == 0 || s[0] == '_' || strncmp(s, "atomic_", 7) == 0 ||
         (strlen(s) > 2 && strcmp(s + strlen(s) - 2, "_t") == 0);
}

static const char *unique(cgen *c, const char *name, anfi_map *also, bool keep_ours) {
  const char *base = identifier(c->a, name);
  tdtype d;
  if (!keep_ours && is_ours(base)) base = anfi_sprintf(c->a, "x%s", base);
  if (anfi_t_dtype_of(base, strlen(base), &d)) base = anfi_sprintf(c->a, "%s_", base);
  const anfi_str *s = anfi_intern_z(&c->names, base);
  for (uint32_t k = 1;
       anfi_map_find(&c->taken, anfi_key(s)) || (also && anfi_map_find(also, anfi_key(s))); k++)
    s = anfi_intern_z(&c->names, anfi_sprintf(c->a, "%s_%u", base, k));
  *anfi_map_at(also ? also : &c->taken, anfi_key(s)) = 1;
  return s->s;
}

const char *anfi_c_local_name(cgen *c, const char *name) {
  return unique(c, name, &c->local, false);
}

const char *anfi_c_func(cgen *c, const anfi_str *name) {
  uint64_t *at = anfi_map_find(&c->m->by_name, anfi_key(name));
  return at ? c->func[*at - 1].impl : name->s;
}

/* Symbols of a name that is one in C, and that nothing else has, are NAME and NAME_0wrapper. */
static void name_function(cgen *c, tfunc f, cfunc *out) {
  bool ours = !f->body || strncmp(f->name->s, "__tir_", 6) == 0;
  out->natural = unique(c, f->name->s, NULL, ours);
  out->impl = out->natural;
  if (!f->body && c->o->imports) out->impl = anfi_sprintf(c->a, "anf_import_%s", out->natural);
  if (!f->body || anfi_t_attr(f->attrs, TA_is_private, NULL)) return;
  out->impl = unique(c, anfi_sprintf(c->a, "%s_body", out->natural), NULL, ours);
  out->wrapper = unique(c, anfi_sprintf(c->a, "%s_0wrapper", out->natural), NULL, ours);
}

void anfi_c_names_init(cgen *c) {
  anfi_strtab_init(&c->names, c->a);
  anfi_map_init(&c->taken, c->a);
  for (size_t i = 0; i < ANFI_LEN(reserved); i++) take(c, reserved[i]);
  for (size_t i = 0; i < ANFI_LEN(math); i++) {
    take(c, math[i]);
    take(c, anfi_sprintf(c->a, "%sf", math[i]));
    take(c, anfi_sprintf(c->a, "%sl", math[i]));
  }
  c->func = ANFI_NEW_N(c->a, cfunc, c->m->func.n);
  for (size_t i = 0; i < c->m->func.n; i++) name_function(c, c->m->func.at[i], &c->func[i]);
}

bool anfi_c_name_is_free(anf_ctx *cx, const char *name) {
  static const tmod none;
  cgen c = {.cx = cx, .a = anfi_scratch(cx), .m = &none};
  anfi_c_names_init(&c);
  return strcmp(unique(&c, name, NULL, false), name) == 0;
}
