// SPDX-License-Identifier: Apache-2.0
/* The verifier: each test breaks one invariant of a good module behind the library's back, and
 * expects the code that ir/verify.c gives it. The numbers are those of that file's head. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "anfora/anfora.h"
#include "ir/ir.h"
#include "ir/worklist.h"

#include <string.h>

#define NODES(...) ((anf_node *[]){__VA_ARGS__})
#define OP(g, name, ...)                                                                           \
  anf_op((g), (name), sizeof NODES(__VA_ARGS__) / sizeof(anf_node *), NODES(__VA_ARGS__))
#define CALL(g, f, ...)                                                                            \
  anf_call((g), (f), sizeof NODES(__VA_ARGS__) / sizeof(anf_node *), NODES(__VA_ARGS__))
#define CALL0(g, f) anf_call((g), (f), 0, NULL)

/* def main(x, y) { a = Add(x, y); b = Mul(a, 2); c = inner(b); c }
 * def inner(z) { k = Sub(z, main.a); k } */
typedef struct world {
  anf_ctx *cx;
  anf_diag *d;
  anf_module *m;
  anf_graph *main, *inner;
  anf_node *x, *y, *a, *b, *c, *z, *k, *two;
} world;

static int setup(void **state) {
  static world w;
  w.cx = anf_ctx_new(NULL);
  w.d = anf_diag_new(w.cx);
  w.m = anf_module_new(w.cx);
  w.main = anf_graph_new(w.m, "main");
  w.inner = anf_graph_new(w.m, "inner");
  w.x = anf_param(w.main, "x", NULL);
  w.y = anf_param(w.main, "y", NULL);
  w.two = anf_int(w.m, 2);
  w.a = OP(w.main, "Add", w.x, w.y);
  w.b = OP(w.main, "Mul", w.a, w.two);
  w.z = anf_param(w.inner, "z", NULL);
  w.k = OP(w.inner, "Sub", w.z, w.a);
  anf_return(w.inner, w.k);
  w.c = CALL(w.main, anf_graph_node(w.inner), w.b);
  anf_return(w.main, w.c);
  *state = &w;
  return anf_verify(w.m, w.d) == ANF_OK ? 0 : -1;
}

static int teardown(void **state) {
  world *w = (world *)*state;
  anf_module_free(w->m);
  anf_diag_free(w->d);
  anf_ctx_free(w->cx);
  return 0;
}

/* The verifier refuses the module, and its first word is this code with this in the message. */
static void expect(world *w, const char *code, const char *part) {
  anf_diag_clear(w->d);
  assert_int_equal(anf_verify(w->m, w->d), ANF_INVALID);
  const anf_diag_item *it = anf_diag_at(w->d, 0);
  if (strcmp(it->code, code) != 0 || !strstr(it->message, part))
    fail_msg("%s: %s; expected %s with '%s'", it->code, it->message, code, part);
}

static void expect_good(world *w) {
  anf_diag_clear(w->d);
  if (anf_verify(w->m, w->d) != ANF_OK) fail_msg("%s", anf_diag_at(w->d, 0)->message);
}

/* ---- V1, V2 ---- */

static void v1_node_id(void **state) {
  world *w = (world *)*state;
  w->a->id++;
  expect(w, "E0210", "node 3");
  w->a->id--;
}

static void v1_graph_id(void **state) {
  world *w = (world *)*state;
  w->inner->id = 0;
  expect(w, "E0210", "graph 1");
  w->inner->id = 1;
}

static void v2_kinds(void **state) {
  world *w = (world *)*state;
  w->a->kind = ANFI_DEAD;
  expect(w, "E0211", "of no kind");
  w->a->kind = ANFI_APPLY;
  w->a->debug = 1000;
  expect(w, "E0211", "table of places");
  w->a->debug = 0;
  w->two->graph = w->main;
  expect(w, "E0211", "a constant with a graph");
  w->two->graph = NULL;
  w->a->graph = NULL;
  expect(w, "E0211", "belongs to no graph");
  w->a->graph = w->main;
  w->a->kind = ANFI_PARAM;
  expect(w, "E0211", "has inputs");
  w->a->kind = ANFI_APPLY;
  w->a->op = ANF_OP_COUNT;
  expect(w, "E0211", "does not exist");
  w->a->op = ANF_OP_Add;
}

static void v2_foreign_graph(void **state) {
  world *w = (world *)*state;
  anf_module *other = anf_module_new(w->cx);
  w->a->graph = anf_graph_new(other, "other");
  expect(w, "E0211", "another module");
  w->a->graph = w->main;
  anf_module_free(other);
}

static void v2_empty_call(void **state) {
  world *w = (world *)*state;
  anf_node *n = anfi_node_blank(w->m, ANFI_CALL, w->main, 0);
  expect(w, "E0211", "calls nothing");
  w->m->nodes.at[n->id] = NULL;
}

/* ---- V3, V4 ---- */

static void v3_missing_input(void **state) {
  world *w = (world *)*state;
  anf_node *def = w->a->in[0].def;
  w->a->in[0].def = NULL;
  expect(w, "E0212", "is missing");
  w->a->in[0].def = def;
}

static void v3_foreign_input(void **state) {
  world *w = (world *)*state;
  anf_module *other = anf_module_new(w->cx);
  anf_node *was = w->b->in[1].def;
  w->b->in[1].def = anf_int(other, 1);
  expect(w, "E0212", "not in the module");
  w->b->in[1].def = was;
  anf_module_free(other);
}

static void v3_wrong_user(void **state) {
  world *w = (world *)*state;
  w->a->in[1].user = w->b;
  expect(w, "E0212", "another user");
  w->a->in[1].user = w->a;
}

static void v3_removed_graph(void **state) {
  world *w = (world *)*state;
  anf_graph *gone = anf_graph_new(w->m, "gone");
  anf_node *n = OP(gone, "Neg", w->two);
  anf_return(gone, n);
  anfi_graph_remove(gone);
  expect_good(w); // what it left behind does no harm
  anf_node_set_input(w->b, 2, n);
  expect(w, "E0212", "was removed");
}

static void v4_lost_use(void **state) {
  world *w = (world *)*state;
  w->x->uses = NULL; // the edge from a is still there
  expect(w, "E0213", "lack an edge");
}

static void v4_broken_link(void **state) {
  world *w = (world *)*state;
  anfi_use **link = w->a->in[0].link;
  w->a->in[0].link = &w->y->uses;
  expect(w, "E0213", "both ways");
  w->a->in[0].link = link;
}

static void v4_foreign_use(void **state) {
  world *w = (world *)*state;
  w->y->uses = w->x->uses; // the edge is one to x
  expect(w, "E0213", "another node");
}

static void v4_cyclic_list(void **state) {
  world *w = (world *)*state;
  anfi_use *u = w->x->uses;
  u->next = u;
  expect(w, "E0213", "both ways");
  u->next = NULL;
}

/* ---- V5, V6 ---- */

static void v5_siblings(void **state) {
  world *w = (world *)*state;
  anf_graph *other = anf_graph_new(w->m, "other");
  anf_node *p = anf_param(other, "p", NULL);
  anf_return(other, OP(other, "Neg", p));
  anf_return(w->inner, OP(w->inner, "Add", w->k, p));
  expect_good(w); // main calls inner, so main stands in other, and inner in both
  anf_return(w->main, w->b);
  expect(w, "E0214", "does not enclose"); // now neither of main and other stands in the other
}

static void v5_cycle_of_parents(void **state) {
  world *w = (world *)*state;
  anf_return(w->main, OP(w->main, "Add", w->c, w->z)); // and inner captures from main
  expect(w, "E0214", "does not enclose");
}

static void v6_direct(void **state) {
  world *w = (world *)*state;
  anf_node_set_input(w->a, 1, w->b);
  expect(w, "E0215", "needs itself");
}

static void v6_through_capture(void **state) {
  world *w = (world *)*state;
  anf_node_set_input(w->k, 2, w->c); // inner captures c, which calls inner
  expect(w, "E0215", "needs itself");
}

static void v6_dead_code(void **state) {
  world *w = (world *)*state;
  anf_node *p = OP(w->main, "Neg", w->x), *q = OP(w->main, "Neg", p);
  anf_node_set_input(p, 1, q);
  expect(w, "E0215", "needs itself");
}

static void v6_effects(void **state) {
  world *w = (world *)*state;
  anf_effect(w->main, w->b);
  anf_effect(w->main, w->a); // after b, which needs it
  expect(w, "E0215", "needs itself");
}

/* ---- V7 to V11 ---- */

static void v7_no_result(void **state) {
  world *w = (world *)*state;
  anf_graph *empty = anf_graph_new(w->m, "empty");
  expect(w, "E0216", "has no result");
  (void)empty;
}

static void v7_foreign_result(void **state) {
  world *w = (world *)*state;
  anf_module *other = anf_module_new(w->cx);
  anf_node *was = w->inner->result;
  w->inner->result = anf_int(other, 1);
  expect(w, "E0216", "not in the module");
  w->inner->result = was;
  anf_module_free(other);
}

static void v7_removed_result(void **state) {
  world *w = (world *)*state;
  anf_graph *gone = anf_graph_new(w->m, "gone");
  anf_node *n = OP(gone, "Neg", w->two);
  anf_return(gone, n);
  anfi_graph_remove(gone);
  anf_return(w->inner, n);
  expect(w, "E0216", "was removed");
}

static void v7_miscounted(void **state) {
  world *w = (world *)*state;
  w->inner->result = w->z;
  expect(w, "E0216", "counts");
}

static void v8_op_arity(void **state) {
  world *w = (world *)*state;
  w->a->op = ANF_OP_Neg; // which takes one argument
  expect(w, "E0202", "Neg does not take 2");
}

static void v8_graph_arity(void **state) {
  world *w = (world *)*state;
  anf_return(w->main, CALL(w->main, anf_graph_node(w->inner), w->b, w->b));
  expect(w, "E0217", "takes 1 arguments, and is called with 2");
}

static void v8_bare_primitive(void **state) {
  world *w = (world *)*state;
  anf_node_set_input(w->c, 0, anf_op_node(w->m, "Neg"));
  expect(w, "E0211", "CALL of a primitive");
}

static anfi_attrs *attrs(world *w, uint32_t n) {
  anfi_frame f;
  anfi_enter(w->cx, NULL, &f);
  anfi_attrs *at =
      (anfi_attrs *)anfi_zalloc(&w->m->arena, sizeof *at + (n + 1) * sizeof(anf_value *));
  anfi_leave(w->cx);
  at->n = n;
  return at;
}

static void v9_record_length(void **state) {
  world *w = (world *)*state;
  w->a->u.attrs = attrs(w, 3); // Add has no attributes
  expect(w, "E0218", "not as many");
}

static void v9_too_many_nodes(void **state) {
  world *w = (world *)*state;
  anf_node *t = anf_tuple_get(w->main, w->x, 0);
  anfi_attrs *at = attrs(w, 1);
  at->at[0] = &anfi_from_node;
  t->u.attrs = at; // the index is given by the only input, so the argument is missing
  expect(w, "E0202", "TupleGet does not take 0");
  anf_node *none = anf_op(w->main, "MakeTuple", 0, NULL);
  none->op = ANF_OP_TupleGet;
  none->u.attrs = at;
  anf_diag_clear(w->d);
  t->u.attrs = NULL; // and now one lacks an attribute, and the other an input
  assert_int_equal(anf_verify(w->m, w->d), ANF_INVALID);
  assert_string_equal(anf_diag_at(w->d, 0)->code, "E0206");
  assert_string_equal(anf_diag_at(w->d, 1)->code, "E0218");
}

static void v9_attribute_type(void **state) {
  world *w = (world *)*state;
  anf_node *t = anf_tuple_get(w->main, w->x, 0);
  anfi_attrs *at = attrs(w, 1);
  at->at[0] = anf_value_string(w->cx, "one", 3);
  t->u.attrs = at;
  expect(w, "E0205", "index");
  anf_value_release(at->at[0]);
}

static void v10_parameters(void **state) {
  world *w = (world *)*state;
  w->main->params.at[0] = w->a;
  expect(w, "E0219", "no parameter node");
  w->main->params.at[0] = w->z;
  expect(w, "E0219", "another graph");
  w->main->params.at[0] = w->x;
  w->y->u.index = 0;
  expect(w, "E0219", "another position");
  w->y->u.index = 1;
  w->main->params.n = 1;
  expect(w, "E0219", "not in the graph's list");
  w->main->params.n = 2;
  expect_good(w);
}

static void v11_effects(void **state) {
  world *w = (world *)*state;
  anf_effect(w->main, w->c);
  expect_good(w);
  w->c->flags = 0;
  expect(w, "E0220", "does not say so");
  w->c->flags = ANFI_NODE_EFFECT;
  w->b->flags = ANFI_NODE_EFFECT;
  expect(w, "E0220", "in no list");
  w->b->flags = 0;
  w->main->effects.at[0] = w->k;
  expect(w, "E0220", "no call of its own");
  w->main->effects.at[0] = w->c;
  anf_effect(w->main, w->b);
  w->main->effects.at[1] = w->c;
  expect(w, "E0220", "listed twice");
}

/* ---- V14 ---- */

static void v14_todo(void **state) {
  world *w = (world *)*state;
  w->m->work[w->b->id] &= (uint8_t)~ANFI_WORK_SIMPLIFY;
  expect(w, "E0223", "may not be simple");
  w->m->work[w->b->id] = ANFI_WORK_SIMPLIFY;
  expect(w, "E0223", "may equal another");
  w->m->work[w->b->id] = ANFI_WORK_ALL;
  anf_return(w->main, w->b);
  w->m->work[w->c->id] = ANFI_WORK_ALL & ~ANFI_WORK_DCE;
  expect(w, "E0223", "is unused");
}

/* ---- V12, V13 ---- */

static void v12_foreign_function(void **state) {
  world *w = (world *)*state;
  anf_module *other = anf_module_new(w->cx);
  anf_node *f = anf_graph_node(anf_graph_new(other, "f"));
  anf_value *t = anf_value_tuple(w->cx, 1, (anf_value *[]){f->u.value});
  anf_return(w->inner, anf_constant(w->m, t));
  expect(w, "E0221", "another module");
  anf_value_release(t);
  anf_module_free(other);
  w->inner->result = NULL; // the constant is not to be looked at again
}

static void v12_removed_function(void **state) {
  world *w = (world *)*state;
  anf_graph *gone = anf_graph_new(w->m, "gone");
  anf_node *f = anf_graph_node(gone);
  anf_value *t = anf_value_tuple(w->cx, 1, (anf_value *[]){f->u.value});
  anf_node *n = anf_constant(w->m, t);
  anf_value_release(t);
  anf_return(w->inner, n);
  anfi_graph_remove(gone);
  expect(w, "E0221", "was removed");
}

static void v12_wrong_op(void **state) {
  world *w = (world *)*state;
  anf_node *f = anf_op_node(w->m, "Neg");
  f->op = ANF_OP_Add;
  expect(w, "E0221", "does not hold the op");
  f->op = ANF_OP_Neg;
}

static void v12_self(void **state) {
  world *w = (world *)*state;
  anf_node *self = w->inner->self;
  w->inner->self = w->two;
  expect(w, "E0221", "not the graph's");
  w->inner->self = self;
}

static void v13_types(void **state) {
  world *w = (world *)*state;
  const anf_type *f32 = anf_type_scalar(w->cx, ANF_F32);
  const anf_type *row = anf_type_tensor(w->cx, ANF_F32, 1, (int64_t[]){4});
  const anf_type *pair = anf_type_tuple(w->cx, 2, (const anf_type *[]){f32, row});
  anf_node *s = anf_switch(w->main, w->x, w->b, w->b), *call = CALL0(w->main, w->y);
  anf_node *item = anf_tuple_get(w->main, w->a, 1);
  anf_node_set_type(w->x, f32);
  anf_node_set_type(w->a, pair);
  anf_node_set_type(w->y, anf_type_fn(w->cx, 0, NULL, f32));
  (void)s, (void)call, (void)item;
  expect_good(w);
  anf_node_set_type(w->x, row);
  expect(w, "E0222", "switches on what is no scalar, and has type f32[4]");
  anf_node_set_type(w->x, f32);
  anf_node_set_type(w->y, f32);
  expect(w, "E0222", "calls what is no function");
  anf_node_set_type(w->y, NULL);
  anf_node_set_type(w->a, anf_type_tuple(w->cx, 1, &f32));
  expect(w, "E0222", "not there, and has type (f32,)");
  anf_node_set_type(w->a, f32);
  expect(w, "E0222", "no tuple");
}

/* Many faults are reported together, up to the limit, and the walk ends. */
static void many_faults(void **state) {
  world *w = (world *)*state;
  for (int i = 0; i < 100; i++) OP(w->main, "Add", w->x, w->y)->op = ANF_OP_Neg;
  anf_diag_clear(w->d);
  assert_int_equal(anf_verify(w->m, w->d), ANF_INVALID);
  assert_int_equal(anf_diag_count(w->d), 20);
}

/* A graph as deep as it is large, and functions nested as deep, on a small stack. */
static void deep(void **state) {
  world *w = (world *)*state;
  enum { DEEP = 200000, NESTED = 300 };
  anf_node *n = w->x;
  for (int i = 0; i < DEEP; i++) n = OP(w->main, "Neg", n);
  anf_return(w->main, n);
  anf_graph *outer = anf_graph_new(w->m, "nest");
  anf_node *p = anf_param(outer, "p", NULL);
  for (int i = 0; i < NESTED; i++) {
    anf_graph *g = anf_graph_new(w->m, "nest");
    anf_node *q = OP(g, "Neg", p);
    anf_return(outer, CALL0(outer, anf_graph_node(g)));
    outer = g;
    p = q;
  }
  anf_return(outer, p);
  expect_good(w);
}

static void attributes_of_loop(void **state) {
  static const char *const name[ANFI_LOOP_ATTRS] = {
      [ANFI_LOOP_INVARIANT] = "invariant", [ANFI_LOOP_STACKS] = "stacks",
      [ANFI_LOOP_OUTS] = "outs",           [ANFI_LOOP_COUNTED] = "counted",
      [ANFI_LOOP_REVERSE] = "reverse",     [ANFI_LOOP_ROUNDS] = "rounds",
      [ANFI_LOOP_GUARDED] = "guarded"};
  anf_ctx *cx = anf_ctx_new(NULL);
  const anfi_schema *s = anfi_op_schema(cx, ANF_OP_Loop);
  (void)state;
  assert_int_equal(s->nattr, ANFI_LOOP_ATTRS);
  for (uint32_t i = 0; i < s->nattr; i++) assert_string_equal(s->attr[i].name->s, name[i]);
  anf_ctx_free(cx);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(v1_node_id),
      TEST(v1_graph_id),
      TEST(v2_kinds),
      TEST(v2_foreign_graph),
      TEST(v2_empty_call),
      TEST(v3_missing_input),
      TEST(v3_foreign_input),
      TEST(v3_wrong_user),
      TEST(v3_removed_graph),
      TEST(v4_lost_use),
      TEST(v4_broken_link),
      TEST(v4_foreign_use),
      TEST(v4_cyclic_list),
      TEST(v5_siblings),
      TEST(v5_cycle_of_parents),
      TEST(v6_direct),
      TEST(v6_through_capture),
      TEST(v6_dead_code),
      TEST(v6_effects),
      TEST(v7_no_result),
      TEST(v7_foreign_result),
      TEST(v7_removed_result),
      TEST(v7_miscounted),
      TEST(v8_op_arity),
      TEST(v8_graph_arity),
      TEST(v8_bare_primitive),
      TEST(v9_record_length),
      TEST(v9_too_many_nodes),
      TEST(v9_attribute_type),
      TEST(v10_parameters),
      TEST(v11_effects),
      TEST(v12_foreign_function),
      TEST(v12_removed_function),
      TEST(v12_wrong_op),
      TEST(v12_self),
      TEST(v13_types),
      TEST(v14_todo),
      TEST(many_faults),
      TEST(deep),
      cmocka_unit_test(attributes_of_loop),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
