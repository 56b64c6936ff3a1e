// SPDX-License-Identifier: Apache-2.0
/* anfora help, version, explain: commands that need no program.
 *   anfora explain E0803   ->   E0803: '...' is not defined here, an explanation, Status: ANF_INVALID */
#include "cli/cli.h"

#include <jansson.h>

int cmd_help(cli *c) {
  anf_text out = {.cx = c->cx};
  if (c->narg > 1) return cli_usage(c, "one command at a time");
  const cli_command_info *about = c->narg ? cli_find_command(c->arg[0]) : NULL;
  if (c->narg && !about) {
    const char *near = cli_nearest_command(c->arg[0]);
    if (near) return cli_usage(c, "there is no command '%s'; did you mean '%s'?", c->arg[0], near);
    return cli_usage(c, "there is no command '%s'", c->arg[0]);
  }
  bool form = c->value[OPT_MAN] || c->value[OPT_BASH] || c->value[OPT_ZSH];
  if (c->value[OPT_JSON] && !form) return cli_help_json(c, about);
  if (c->value[OPT_MAN]) cli_man(&out);
  else if (c->value[OPT_BASH]) cli_bash(&out);
  else if (c->value[OPT_ZSH]) cli_zsh(&out);
  else cli_help(about, &out);
  return cli_finish(c, ANF_OK, &out);
}

int cmd_version(cli *c) {
  if (c->narg) return cli_usage(c, "it takes no arguments");
  if (c->value[OPT_JSON])
    return cli_json_output(c, "version", anf_version(), strlen(anf_version()));
  printf("anfora %s\n", anf_version());
  return EXIT_OK;
}

/* ---- explain ---- */

typedef struct {
  const char *code, *status, *text, *explanation;
} message;

static const message messages[] = {
#define ANF_MSG(code, class, text, explanation) {#code, #class, text, explanation},
#include "base/diag.def"
#undef ANF_MSG
};

/* The text with "..." where a message has words, N where it has a number. */
static const char *readable(cli *c, const char *format) {
  anf_text t = {.cx = c->cx};
  for (const char *s = format; *s; s++) {
    if (*s != '%' || *++s == '%') {
      anfi_putc(&t, *s);
      continue;
    }
    s += strspn(s, "#0- +'.*123456789hljzt");
    anfi_puts(&t, strchr("diouxX", *s) ? "N" : strchr("eEfFgG", *s) ? "X" : "...");
  }
  const char *text = anfi_strndup(anfi_scratch(c->cx), t.text ? t.text : "", t.len);
  anf_text_free(&t);
  return text;
}

static void put_message_json(cli *c, json_t *list, const message *m) {
  json_t *o = json_object();
  cli_json_put(c, o, "code", json_string(m->code));
  cli_json_put(c, o, "status", json_string(m->status));
  cli_json_put(c, o, "text", json_string(readable(c, m->text)));
  cli_json_put(c, o, "explanation", json_string(m->explanation));
  if (json_array_append_new(list, o) != 0) anfi_throw_nomem(c->cx);
}

int cmd_explain(cli *c) {
  if (c->narg > 1) return cli_usage(c, "one code at a time");
  bool json = c->value[OPT_JSON] != NULL, found = false;
  json_t *list = json ? json_array() : NULL;
  for (size_t i = 0; i < ANFI_LEN(messages); i++) {
    const message *m = &messages[i];
    if (c->narg && strcmp(m->code, c->arg[0]) != 0) continue;
    found = true;
    if (json) put_message_json(c, list, m);
    else if (c->narg)
      printf("%s: %s\n\n%s\nStatus: %s\n", m->code, readable(c, m->text), m->explanation,
             m->status);
    else printf("%s  %s\n", m->code, readable(c, m->text));
  }
  if (!found) {
    json_decref(list);
    return cli_usage(c, "there is no code '%s'; without a code all are listed", c->arg[0]);
  }
  if (!json) return EXIT_OK;
  json_t *o = json_object();
  cli_json_put(c, o, "codes", list);
  return cli_json_write(c, o);
}
