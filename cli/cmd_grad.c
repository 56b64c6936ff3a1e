// SPDX-License-Identifier: Apache-2.0
/* anfora grad: the gradient of a function, as a program, or alone as a model (.mlir, .onnx, .mindir).
 *   anfora grad sq.anf, where def sq(x: f32[]) { x * x }   ->   .. def grad_sq(x: f32) { %1 = Add(x, x) return %1 } */
#include "cli/cli.h"
#include "ir/ir.h"

#include "anfora/grad.h"
#include "anfora/opt.h"

anf_status cli_grad(cli *c, anf_graph *g, bool value, anf_graph **out) {
  anf_grad_opts o = {.size = sizeof o,
                     .wrt = c->value[OPT_WRT],
                     .value = value,
                     .has_aux = c->value[OPT_HAS_AUX] != NULL,
                     .allow_int = c->value[OPT_ALLOW_INT] != NULL};
  return anf_grad(g, &o, c->d, out);
}

static void dump_pass(void *user, anf_module *m, const char *pass, double ms, uint64_t rewrites) {
  cli *c = (cli *)user;
  (void)ms;
  if (rewrites || strcmp(pass, "specialise") == 0) anf_dump_stage(&c->dump, c->cx, pass, m, NULL);
}

static anf_status write_program(cli *c, anf_module *m, const anf_graph *f, const anf_graph *g,
                                anf_text *out) {
  cli_hide_others(m, f, g); // the passes drop the rest of the file
  anf_opt_opts o = {.size = sizeof o};
  if (cli_dump(c)) o.after = dump_pass, o.user = c;
  anf_status st =
      anf_optimise(m, c->value[OPT_PASSES] ? c->value[OPT_PASSES] : "standard", &o, c->d);
  if (st == ANF_OK) st = c->dump.status;
  return st == ANF_OK ? cli_print_ir(c, m, out) : st;
}

int cmd_grad(cli *c) {
  anf_module *m = NULL;
  anf_graph *made = NULL;
  anf_text out = {.cx = c->cx};
  if (c->narg != 1) return cli_usage(c, "it takes one function");
  cli_target t = cli_split(c, c->arg[0]);
  anf_status st = cli_load(c, t.file, &m);
  anf_graph *f = st == ANF_OK ? cli_function(c, m, t) : NULL;
  if (st == ANF_OK && !f) st = ANF_INVALID;
  if (st == ANF_OK && c->value[OPT_SIG]) st = cli_declare(c, f, c->value[OPT_SIG]);
  if (st == ANF_OK) st = cli_grad(c, f, c->value[OPT_VALUE] != NULL, &made);
  const char *to = c->value[OPT_OUTPUT];
  if (st == ANF_OK)
    st = cli_is_model(to) ? cli_write_model(c, made, to, &out) : write_program(c, m, f, made, &out);
  return cli_finish(c, st, &out);
}
