// SPDX-License-Identifier: Apache-2.0
/* Builders of several nodes: tuples, records, choices, loops. They are made of the public ones, and fail as these do: NULL
 * in, NULL out, and the module knows.
 *
 *   anf_if(g, c, yes, no)            Switch(c, yes, no)()
 *   anf_while(g, {x}, cond, body)    loop(x), where loop(x) = Switch(cond(x), again, stop)(), again = loop(body(x)), stop = x */
#include "ir/ir.h"

anf_node *anf_switch(anf_graph *g, anf_node *cond, anf_node *f, anf_node *h) {
  return anf_op(g, "Switch", 3, (anf_node *[]){cond, f, h});
}

anf_node *anf_tuple(anf_graph *g, size_t n, anf_node *const *items) {
  return anf_op(g, "MakeTuple", n, items);
}

anf_node *anf_tuple_get(anf_graph *g, anf_node *t, size_t i) {
  anf_value *k = g ? anf_value_int(g->module->cx, (int64_t)i) : NULL;
  anf_node *n = k ? anf_op_attrs(g, "TupleGet", 1, &t, 1, &(anf_attr){"index", k, NULL}) : NULL;
  anf_value_release(k);
  return n;
}

anf_node *anf_record(anf_graph *g, size_t n, const char *const *names, anf_node *const *items) {
  ANFI_NEED_ELSE(g ? g->module->cx : NULL, NULL, g);
  anf_ctx *cx = g->module->cx;
  if (n) ANFI_NEED_ELSE(cx, NULL, names);
  anf_value **word = (anf_value **)anfi_raw(cx, NULL, 0, (n + 1) * sizeof *word);
  size_t made = 0;
  while (word && made < n && names[made] &&
         (word[made] = anf_value_string(cx, names[made], strlen(names[made]))))
    made++;
  anf_value *all = word && made == n ? anf_value_tuple(cx, n, word) : NULL;
  anf_node *r = anf_op_attrs(g, "MakeRecord", n, items, 1, &(anf_attr){"names", all, NULL});
  anf_value_release(all);
  for (size_t i = 0; i < made; i++) anf_value_release(word[i]);
  anfi_raw(cx, word, (n + 1) * sizeof *word, 0);
  return r;
}

anf_node *anf_field(anf_graph *g, anf_node *record, const char *name) {
  ANFI_NEED_ELSE(g ? g->module->cx : NULL, NULL, g, name);
  anf_value *word = anf_value_string(g->module->cx, name, strlen(name));
  anf_node *n = anf_op_attrs(g, "RecordGet", 1, &record, 1, &(anf_attr){"field", word, NULL});
  anf_value_release(word);
  return n;
}

anf_node *anf_if(anf_graph *g, anf_node *cond, anf_graph *then_, anf_graph *else_) {
  const anf_graph *any = g ? g : then_ ? then_ : else_;
  ANFI_NEED_ELSE(any ? any->module->cx : NULL, NULL, g, then_, else_);
  anf_node *f = anf_switch(g, cond, anf_graph_node(then_), anf_graph_node(else_));
  return anf_call(g, f, 0, NULL);
}

/* The carried values of a loop: one is itself, several are a tuple. */
static anf_node *carried(anf_graph *g, size_t n, anf_node *const *values) {
  return n == 1 ? values[0] : anf_tuple(g, n, values);
}

/* again(): the loop with what the body makes of its values. */
static anf_graph *again(anf_graph *loop, anf_graph *body, size_t n, anf_node *const *values) {
  anf_module *m = loop->module;
  anf_graph *g = anf_graph_new(m, "again");
  anf_node *next = anf_call(g, anf_graph_node(body), n, values);
  anf_node **part = (anf_node **)anfi_raw(m->cx, NULL, 0, (n + 1) * sizeof *part);
  for (size_t i = 0; part && i < n; i++) part[i] = n == 1 ? next : anf_tuple_get(g, next, i);
  if (g) anf_return(g, part ? anf_call(g, anf_graph_node(loop), n, part) : NULL);
  anfi_raw(m->cx, part, (n + 1) * sizeof *part, 0);
  return g;
}

anf_node *anf_while(anf_graph *g, size_t n, anf_node *const *init, anf_graph *cond,
                    anf_graph *body) {
  const anf_graph *any = g ? g : cond ? cond : body;
  ANFI_NEED_ELSE(any ? any->module->cx : NULL, NULL, g, cond, body);
  anf_graph *loop = anf_graph_new(g->module, "loop"), *stop = anf_graph_new(g->module, "stop");
  for (size_t i = 0; i < n; i++) anf_param(loop, NULL, NULL);
  if (!loop || !stop || loop->params.n != n) return NULL;
  anf_return(stop, carried(stop, n, loop->params.at));
  anf_graph *more = again(loop, body, n, loop->params.at);
  anf_node *c = anf_call(loop, anf_graph_node(cond), n, loop->params.at);
  anf_return(loop, anf_if(loop, c, more, stop));
  return anf_call(g, anf_graph_node(loop), n, init);
}
