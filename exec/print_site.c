// SPDX-License-Identifier: Apache-2.0
/* What a Print of a program shows, as text for the table of sites of an object (anf_site in anfora/rt.h).
 *   Print("loss", y), y: f32[2]     text: "loss ", then a mark with f32[2] where the numbers go
 * Code passes the numbers along when it runs. INVARIANT: libanfora_rt makes of it what put_printed in call.c makes of
 * the same values. */
#include "exec/exec.h"

typedef struct writer {
  anf_ctx *cx;
  const anfi_lowered *low;
  anf_text *out;
} writer;

/* Literal text; bytes with a meaning in sites are escaped. */
static void put_text(writer *w, const char *s, size_t n) {
  for (size_t i = 0; i < n; i++) {
    bool plain = (unsigned char)s[i] > ANF_SITE_ESCAPE;
    if (!plain) anfi_putc(w->out, ANF_SITE_ESCAPE);
    anfi_putc(w->out, (char)(plain ? s[i] : s[i] + '@'));
  }
}

static void put_value(writer *w, const anf_value *v, bool outside) {
  anf_text *t = anfi_text_begin(w->cx);
  if (outside && v->kind == ANF_VALUE_STRING) {
    put_text(w, v->u.text, v->n);
    return;
  }
  anfi_put_value(t, v, 0);
  put_text(w, t->text, t->len);
  anfi_text_done(t);
}

/* One of the program's strings or types: code passes which. */
static void put_names(writer *w, bool outside) {
  anfi_putc(w->out, ANF_SITE_CHOICE);
  for (size_t i = 0; i < w->low->names.n; i++) {
    put_value(w, w->low->names.at[i], outside);
    anfi_putc(w->out, ANF_SITE_NEXT);
  }
  anfi_putc(w->out, ANF_SITE_END);
}

static void put_leaf(writer *w, const anf_type *t) {
  anf_dtype d = anfi_dtype_settle((anf_dtype)t->dtype);
  bool pair = !t->n && anfi_dtype_class(d) == ANFI_CLASS_COMPLEX, key = !t->n && d == ANF_KEY;
  if (pair || key) anfi_put_type(w->out, w->cx, t);
  if (key) anfi_putc(w->out, '(');
  anfi_putf(w->out, "%c%s", ANF_SITE_LEAF, anf_dtype_name(d));
  if (pair) anfi_puts(w->out, "[]"); // passed by address, as a tensor
  for (uint32_t i = 0; i < t->n; i++)
    anfi_putf(w->out, "%c%lld", i ? ',' : '[', (long long)t->dims[i]);
  anfi_puts(w->out, t->n ? "]" : "");
  anfi_putc(w->out, ANF_SITE_END);
  if (key) anfi_putc(w->out, ')');
}

/* Types nest no deeper than inference allows. */
static void put_type(writer *w, const anf_type *t, bool outside) {
  bool record = t->kind == ANF_TYPE_RECORD;
  switch ((anf_type_kind)t->kind) {
  case ANF_TYPE_TENSOR: put_leaf(w, t); return;
  case ANF_TYPE_STRING:
  case ANF_TYPE_TYPE: put_names(w, outside); return;
  case ANF_TYPE_TUPLE:
  case ANF_TYPE_RECORD: break;
  default: anfi_puts(w->out, "None"); return;
  }
  anfi_putc(w->out, record ? '{' : '(');
  for (uint32_t i = 0; i < t->n; i++) {
    if (i) anfi_puts(w->out, ", ");
    if (record) {
      anfi_put_name(w->out, t->names[i]->s, t->names[i]->len);
      anfi_puts(w->out, " = ");
    }
    put_type(w, t->items[i], false);
  }
  anfi_puts(w->out, record ? "}" : t->n == 1 ? ",)" : ")");
}

const char *anfi_site_print(anfi_arena *a, const anfi_lowered *low, const anfi_site_info *s) {
  anf_text *t = anfi_text_begin(low->cx);
  writer w = {low->cx, low, t};
  for (size_t i = 0; i < s->n; i++) {
    if (i) anfi_putc(t, ' ');
    if (s->value[i]) put_value(&w, s->value[i], true);
    else put_type(&w, s->type[i], true);
  }
  anfi_putc(t, '\n');
  const char *text = anfi_strndup(a, t->text, t->len);
  anfi_text_done(t);
  return text;
}
