// SPDX-License-Identifier: Apache-2.0
/* A model of another format as a program that trains it: text of the language that imports the file.
 *   anfora train net.mindir --loss mse --optimizer sgd --rate 0.1
 *   ->  import nn, optim
 *       import "net.mindir" as model
 *       def init() { p = model.params(); {p = p, opt = ()} }
 *       def step(s, x: f32[5, 8], y) {
 *         (l, g) = value_and_grad(fn (p) { nn.mse(model.net(p, x), y) })(s.p)
 *         (p, opt) = (optim.sgd(s.p, g, 0.1), ())
 *         ({p = p, opt = opt}, {loss = l})
 *       }
 * A model that is a training step itself, net(params, x..) -> (params, loss), is the step. With --loss, a model that assigns to
 * parameters, such as running averages of batch normalisation, keeps what it assigns, and the optimiser has the others:
 *         (((l, q), g) = value_and_grad(fn (p) { (q, r) = model.net(p, x); (nn.mse(r, y), q) }, has_aux=true)(s.p)
 *         ({p = {w = p.w, mean = q.mean}, opt = opt}, {loss = l}) */
#include "cli/train/train.h"

#include <string.h>

#include "frontend/load.h"
#include "ir/ir.h"

static const struct {
  const char *name, *init, *update; // update: with the rate in place of R
} optimizers[] = {
    {"sgd", "()", "(optim.sgd(s.p, g, R), ())"},
    {"momentum", "optim.momentum_init(p)", "optim.momentum(s.p, g, s.opt, R, 0.9)"},
    {"nesterov", "optim.nesterov_init(p)", "optim.nesterov(s.p, g, s.opt, R, 0.9)"},
    {"rmsprop", "optim.rmsprop_init(p)", "optim.rmsprop(s.p, g, s.opt, R)"},
    {"adam", "optim.adam_init(p)", "optim.adam(s.p, g, s.opt, R)"},
    {"adamw", "optim.adamw_init(p)", "optim.adamw(s.p, g, s.opt, R, 0.01)"},
};

static void put_name(anf_text *o, const anf_node *param) {
  const anfi_str *s = param->graph->module->debugs.at[param->debug].name;
  anfi_put_quoted(o, s->s, s->len, '`');
}

static bool has_param(const anf_graph *g, const char *name) {
  for (size_t i = 0; i < g->params.n; i++) {
    const anf_node *p = g->params.at[i];
    if (strcmp(p->graph->module->debugs.at[p->debug].name->s, name) == 0) return true;
  }
  return false;
}

/* x: f32[5, 8], .. as parameters, or the names alone. */
static void put_inputs(anf_text *o, anf_graph *net, bool types) {
  for (size_t i = 1; i < net->params.n; i++) {
    anfi_puts(o, ", ");
    put_name(o, net->params.at[i]);
    if (!types || !net->params.at[i]->type) continue;
    anfi_puts(o, ": ");
    anfi_put_type(o, net->module->cx, net->params.at[i]->type);
  }
}

/* The record {..} of new parameters that a model gives beside its result, or NULL. */
static const anf_node *assigned(const anf_graph *net) {
  const anf_node *r = net->result;
  bool pair = r && anfi_is_op(r, ANF_OP_MakeTuple) && r->nin == 2;
  return pair && anfi_is_op(r->in[0].def, ANF_OP_MakeRecord) ? r->in[0].def : NULL;
}

/* Is the item of that record the parameter as it was? */
static bool is_kept(const anf_graph *net, const anf_node *item) {
  return anfi_is_op(item, ANF_OP_RecordGet) && item->in[0].def == net->params.at[0];
}

static void put_field(anf_text *o, const char *of, const anfi_str *name) {
  anfi_puts(o, of);
  anfi_put_quoted(o, name->s, name->len, '`');
}

/* {a = p.a, mean = q.mean}: what the model assigns to is of q. */
static void put_merged(anf_text *o, const anf_graph *net, const anf_node *fresh) {
  const anf_type *t = net->params.at[0]->type;
  for (uint32_t i = 0; i < t->n; i++) {
    put_field(o, i ? ", " : "{", t->names[i]);
    put_field(o, is_kept(net, fresh->in[i].def) ? " = p." : " = q.", t->names[i]);
  }
  anfi_puts(o, "}");
}

/* (l, g) = value_and_grad(..)(s.p) */
static void put_gradient(cli *c, anf_text *o, anf_graph *net, const char *target, bool assigns) {
  anfi_puts(o, assigns ? "  ((l, q), g) = value_and_grad(fn (p) { (q, r) = model.net(p"
                       : "  (l, g) = value_and_grad(fn (p) { r = model.net(p");
  put_inputs(o, net, false);
  anfi_putf(o,
            assigns ? "); (nn.%s(r, %s), q) }, has_aux=true)(s.p)\n" : "); nn.%s(r, %s) })(s.p)\n",
            c->value[OPT_LOSS], target);
}

static bool put_training(cli *c, anf_text *o, anf_graph *net) {
  const anf_node *fresh = assigned(net);
  const char *rate = c->value[OPT_RATE] ? c->value[OPT_RATE] : "0.001";
  const char *kind = c->value[OPT_OPTIMIZER] ? c->value[OPT_OPTIMIZER] : "adam";
  const char *target = has_param(net, "y") ? "target" : "y";
  size_t k = 0;
  while (k < ANFI_LEN(optimizers) && strcmp(optimizers[k].name, kind) != 0) k++;
  if (k == ANFI_LEN(optimizers))
    return anfi_fail(c->cx, anfi_nowhere(), ANF_E0001, kind); // option.def lists the names
  const char *update = optimizers[k].update, *r = strstr(update, " R") + 1;
  anfi_putf(o, "def init() { p = model.params(); {p = p, opt = %s} }\ndef step(s",
            optimizers[k].init);
  put_inputs(o, net, true);
  anfi_putf(o, ", %s) {\n", target);
  put_gradient(c, o, net, target, fresh != NULL);
  anfi_putf(o, "  (p, opt) = %.*s%s%s\n  ({p = ", (int)(r - update), update, rate, r + 1);
  if (fresh) put_merged(o, net, fresh);
  else anfi_puts(o, "p");
  anfi_puts(o, ", opt = opt}, {loss = l})\n}\n");
  return true;
}

static bool put_own_step(anf_text *o, anf_graph *net) {
  anfi_puts(o, "def init() { model.params() }\ndef step(s");
  put_inputs(o, net, true);
  anfi_puts(o, ") {\n  (p, l) = model.net(s");
  put_inputs(o, net, false);
  anfi_puts(o, ")\n  (p, {loss = l})\n}\n");
  return true;
}

static anf_status parse(cli *c, const anf_text *o, anf_module **m) {
  ANFI_ENTRY(c->cx, c->d);
  *m = anfi_read_anf(c->cx, &(anfi_input){.path = "<training>", .text = o->text, .len = o->len});
  return anfi_leave(c->cx);
}

static void free_text(void *t) { anf_text_free((anf_text *)t); }

anf_module *train_model(cli *c, const char *file, anf_module *model) {
  anf_graph *net = anf_module_find(model, "net");
  bool own = anf_module_find(model, "step") != NULL;
  if (!net || !anf_module_find(model, "params") || (!own && !c->value[OPT_LOSS])) return model;
  anf_text *o = ANFI_NEW(anfi_scratch(c->cx), anf_text);
  *o = (anf_text){.cx = c->cx};
  anfi_defer(c->cx, ANFI_ALWAYS, free_text, o);
  anfi_puts(o, "import nn, optim\nimport ");
  anfi_put_quoted(o, file, strlen(file), '"');
  anfi_puts(o, " as model\n");
  if (c->value[OPT_LOSS] ? !put_training(c, o, net) : !put_own_step(o, net)) return NULL;
  anf_module *m = NULL;
  if (parse(c, o, &m) != ANF_OK) return NULL;
  anfi_defer(c->cx, ANFI_ALWAYS, anfi_free_module, m);
  return m;
}
