// SPDX-License-Identifier: Apache-2.0
/* Attributes as MindSpore 1 wrote them: the text ref_attr_name says what the repeated fields are, which later files say by
 * nested attributes. What it says becomes those, so that nothing else knows of it.
 *   scalar:value0                       one number or text: i, f, d or s
 *   scalar:Tuple[value1,List[value2,]]  valueK is the number K of ints, floats, strings, or the type of tensors
 *   type:value0    tensor:value0        the type of the tensor, the tensor itself
 *   shape:Tuple[t0,t1,]                 the type of a node's result, of tensors with these names
 *   none    Monad:UMonad    Monad:IOMonad */
#include "frontend/mindir/mindir.h"

enum { MAX_NESTING = 32 };

typedef struct {
  anfi_mi_model *m;
  const anfi_mi_attr *a;
  const char *p; // what is left of the text
  int depth;
  bool types; // words are names of tensors
} reading;

static bool starts(const char **p, const char *word) {
  size_t n = strlen(word);
  if (strncmp(*p, word, n) != 0) return false;
  *p += n;
  return true;
}

static anfi_mi_attr *new_part(const reading *s, int64_t type) {
  anfi_mi_attr *part = ANFI_NEW(s->m->arena, anfi_mi_attr);
  *part = (anfi_mi_attr){.name = anfi_intern_z(&s->m->cx->strings, ""), .type = type};
  return part;
}

static anfi_mi_attr *tensor_part(const reading *s, anfi_mi_tensor *t) {
  anfi_mi_attr *part = new_part(s, MI_TENSORS);
  anfi_push(s->m->arena, &part->tensors, t);
  return part;
}

static anfi_mi_attr *named_tensor(const reading *s, const char *word, size_t len) {
  for (size_t i = 0; i < s->a->tensors.n; i++) {
    const anfi_str *name = s->a->tensors.at[i]->name;
    if (name->len == len && memcmp(name->s, word, len) == 0)
      return tensor_part(s, s->a->tensors.at[i]);
  }
  return NULL;
}

/* valueK: the number K of the list that there is, counted from one. */
static anfi_mi_attr *numbered(const reading *s, const char *word, size_t len) {
  const anfi_mi_attr *a = s->a;
  size_t k = 0, i = 5;
  if (len < 6 || memcmp(word, "value", 5) != 0) return NULL;
  for (; i < len && word[i] >= '0' && word[i] <= '9' && k < SIZE_MAX / 16; i++)
    k = 10 * k + (size_t)(word[i] - '0');
  if (i < len || !k--) return NULL;
  anfi_mi_attr *part = new_part(s, a->type);
  if (k < a->tensors.n) return tensor_part(s, a->tensors.at[k]);
  if (k < a->ints.n) return part->i = a->ints.at[k], part->has_int = true, part;
  if (k < a->reals.n) return part->f = a->reals.at[k], part->has_real = true, part;
  if (k < a->strings.n) return part->text = a->strings.at[k], part;
  return NULL;
}

static anfi_mi_attr *part(reading *s);

/* [a,b,], after the bracket. */
static anfi_mi_attr *sequence(reading *s, int64_t type) {
  anfi_mi_attr *all = new_part(s, type);
  for (anfi_mi_attr *item; *s->p && *s->p != ']';) {
    if (starts(&s->p, ",")) continue;
    if (!(item = part(s))) return NULL;
    anfi_push(s->m->arena, &all->values, item);
  }
  return starts(&s->p, "]") ? all : NULL;
}

/* Recursion is over brackets, which it counts. */
static anfi_mi_attr *part(reading *s) {
  anfi_mi_attr *found = NULL;
  if (++s->depth < MAX_NESTING && (starts(&s->p, "Tuple[") || starts(&s->p, "[")))
    found = sequence(s, MI_TUPLE);
  else if (s->depth < MAX_NESTING && starts(&s->p, "List[")) found = sequence(s, MI_LIST);
  else if (s->depth < MAX_NESTING) {
    size_t len = strcspn(s->p, "[],");
    found = s->types ? named_tensor(s, s->p, len) : numbered(s, s->p, len);
    s->p += len;
  }
  s->depth--;
  return found;
}

static bool as_part(anfi_mi_attr *a, const anfi_mi_attr *found) {
  if (!found) return false;
  const anfi_str *name = a->name;
  *a = *found;
  a->name = name;
  return true;
}

/* Without tensors it says nothing, as of a monad. */
static bool as_shape(reading *s, anfi_mi_attr *a) {
  s->types = true;
  a->name = anfi_intern_z(&s->m->cx->strings, "shape");
  a->type = MI_UNDEFINED;
  if (!a->tensors.n) return true;
  if (!strchr(s->p, '[')) return as_part(a, tensor_part(s, a->tensors.at[0]));
  return as_part(a, part(s));
}

static bool as_tensor(anfi_mi_attr *a) {
  a->type = MI_TENSORS;
  return a->tensors.n == 1;
}

static bool unfolded(reading *s, anfi_mi_attr *a) {
  if (starts(&s->p, "shape:")) return as_shape(s, a);
  if (starts(&s->p, "type:") || starts(&s->p, "tensor:")) return as_tensor(a);
  if (starts(&s->p, "none")) return a->type = MI_NONE, true;
  if (starts(&s->p, "Monad:")) return a->type = strstr(s->p, "IO") ? MI_IOMONAD : MI_UMONAD, true;
  if (!starts(&s->p, "scalar:")) return false;
  return strncmp(s->p, "value0", 6) == 0 || as_part(a, part(s));
}

bool anfi_mi_unfold(anfi_mi_model *m, anfi_mi_attr *a, const anfi_str *form) {
  anfi_mi_attr whole = *a;
  reading s = {.m = m, .a = &whole, .p = form->s};
  return unfolded(&s, a) ||
         anfi_fail(m->cx, (anfi_loc){m->file, 0, 0}, ANF_E1592,
                   anfi_sprintf(m->arena, "ref_attr_name '%s'", form->s), "AttributeProto");
}
