// SPDX-License-Identifier: Apache-2.0
/* The graph IR: modules of functional graphs.
 *
 * A module owns graphs and nodes. A node is a Value (a constant), a Parameter, or a CNode: a call
 * whose input 0 is the callee (a primitive, a graph, or any node that yields a function) and
 * whose further inputs are the arguments. A node belongs to one graph; a node that another graph
 * uses is that graph's free variable, captured by value. `Switch` selects a function and does not
 * call it.
 *
 * Building: functions that make nodes return NULL on failure and take NULL inputs for "already
 * failed", so a whole graph is built without a check per line; anf_module_status gives the result
 * at the end, and anf_module_diag the reasons. Nodes and graphs live until the module is freed.
 *
 * Example (fibonacci of a functional IR, where branches are graphs and Switch picks one):
 *   anf_module *m = anf_module_new(cx);
 *   anf_graph *fib = anf_graph_new(m, "fibonacci");
 *   anf_node *n = anf_param(fib, "n", anf_type_scalar(cx, ANF_I64));
 *   anf_graph *yes = anf_graph_new(m, "✓fibonacci"), *no = anf_graph_new(m, "✗fibonacci");
 *   anf_return(yes, n);
 *   anf_node *one = anf_int(m, 1), *two = anf_int(m, 2), *f = anf_graph_node(fib);
 *   anf_node *a = anf_call(no, f, 1, (anf_node *[]){anf_op(no, "Sub", 2, (anf_node *[]){n, one})});
 *   anf_node *b = anf_call(no, f, 1, (anf_node *[]){anf_op(no, "Sub", 2, (anf_node *[]){n, two})});
 *   anf_return(no, anf_op(no, "Add", 2, (anf_node *[]){a, b}));
 *   anf_node *small = anf_op(fib, "Less", 2, (anf_node *[]){n, two});
 *   anf_node *pick = anf_switch(fib, small, anf_graph_node(yes), anf_graph_node(no));
 *   anf_return(fib, anf_call(fib, pick, 0, NULL));
 *   bool good = anf_module_status(m) == ANF_OK && anf_verify(m, NULL) == ANF_OK;
 *   anf_module_free(m);
 */
#ifndef ANFORA_IR_H
#define ANFORA_IR_H

#include "anfora/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct anf_module anf_module;
typedef struct anf_graph anf_graph;
typedef struct anf_node anf_node;

typedef enum anf_node_kind { ANF_NODE_VALUE, ANF_NODE_PARAM, ANF_NODE_CNODE } anf_node_kind;

/* ---- modules ---- */
ANF_API anf_module *anf_module_new(anf_ctx *cx); // NULL when out of memory
ANF_API void anf_module_free(anf_module *m);
ANF_API anf_ctx *anf_module_ctx(const anf_module *m);
/* The first failure of a building function on this module, or ANF_OK. */
ANF_API anf_status anf_module_status(const anf_module *m);
/* What building functions found wrong; borrowed. */
ANF_API const anf_diag *anf_module_diag(const anf_module *m);
ANF_API size_t anf_module_graph_count(const anf_module *m);
ANF_API anf_graph *anf_module_graph(const anf_module *m, size_t i);        // in order of creation
ANF_API anf_graph *anf_module_find(const anf_module *m, const char *name); // NULL if there is none
/* One more than the greatest node id: the size of a table by node id. */
ANF_API size_t anf_module_node_limit(const anf_module *m);
ANF_API anf_node *anf_module_node(const anf_module *m, size_t id); // NULL if it was removed

/* ---- graphs ---- */
/* A new graph without parameters or return. Names need not differ; printing makes them differ. */
ANF_API anf_graph *anf_graph_new(anf_module *m, const char *ANF_NULLABLE name);
ANF_API const char *anf_graph_name(const anf_graph *g);
ANF_API anf_module *anf_graph_module(const anf_graph *g);
ANF_API size_t anf_graph_param_count(const anf_graph *g);
ANF_API anf_node *anf_graph_param(const anf_graph *g, size_t i);
/* The node whose value the graph gives; NULL while it is not set. */
ANF_API anf_node *anf_graph_result(const anf_graph *g);
/* The declared type of the result, or NULL. */
ANF_API void anf_graph_set_result_type(anf_graph *g, const anf_type *ANF_NULLABLE t);
ANF_API const anf_type *anf_graph_result_type(const anf_graph *g);
ANF_API void anf_graph_set_name(anf_graph *g, const char *ANF_NULLABLE name);
/* Where it was written, for what is reported of its parameters and its result. */
ANF_API void anf_graph_set_loc(anf_graph *g, const char *ANF_NULLABLE file, uint32_t line,
                               uint32_t col);
/* Removes the graph from its module; nothing may use it any more. */
ANF_API anf_status anf_graph_remove(anf_graph *g);

/* ---- making nodes: NULL in, NULL out ---- */
ANF_API anf_node *anf_param(anf_graph *g, const char *ANF_NULLABLE name,
                            const anf_type *ANF_NULLABLE t); // t may be NULL
/* A call. `callee` is any node; a constant primitive is folded into the node. */
ANF_API anf_node *anf_call(anf_graph *g, anf_node *callee, size_t n, anf_node *const *args);
/* The call of a primitive by its name in `anfora ops`, attributes at their defaults. */
ANF_API anf_node *anf_op(anf_graph *g, const char *op, size_t n, anf_node *const *args);

/* An attribute by name: a constant, or a node when it is known only when the program runs. */
typedef struct anf_attr {
  const char *name;
  anf_value *value; // borrowed
  anf_node *node;   // used if `value` is NULL
} anf_attr;
ANF_API anf_node *anf_op_attrs(anf_graph *g, const char *op, size_t n, anf_node *const *args,
                               size_t nattr, const anf_attr *attrs);
/* Constants. A module keeps one node for each graph and for each primitive without attributes. */
ANF_API anf_node *anf_constant(anf_module *m, anf_value *v); // borrows v
ANF_API anf_node *anf_int(anf_module *m, int64_t v);         // a weak number
ANF_API anf_node *anf_float(anf_module *m, double v);        // a weak number
ANF_API anf_node *anf_graph_node(anf_graph *g);
ANF_API anf_node *anf_op_node(anf_module *m, const char *op);
/* Common calls. */
ANF_API anf_node *anf_switch(anf_graph *g, anf_node *cond, anf_node *f, anf_node *h);
ANF_API anf_node *anf_tuple(anf_graph *g, size_t n, anf_node *const *items);
ANF_API anf_node *anf_tuple_get(anf_graph *g, anf_node *t, size_t i);
ANF_API anf_node *anf_record(anf_graph *g, size_t n, const char *const *names,
                             anf_node *const *items);
ANF_API anf_node *anf_field(anf_graph *g, anf_node *record, const char *name);
/* The value of one of two graphs without parameters, which may capture nodes of g. */
ANF_API anf_node *anf_if(anf_graph *g, anf_node *cond, anf_graph *then_, anf_graph *else_);
/* A loop that carries n values: while cond(values..) holds, they become what body(values..) gives, a tuple; of one
 * value, itself. The same form holds the values after the loop. */
ANF_API anf_node *anf_while(anf_graph *g, size_t n, anf_node *const *init, anf_graph *cond,
                            anf_graph *body);
ANF_API anf_node *anf_partial(anf_graph *g, anf_node *f, size_t n, anf_node *const *args);
/* Sets the result of the graph. May be called again. */
ANF_API anf_status anf_return(anf_graph *g, anf_node *n);
/* Adds an effectful call (Print, Assert, a call of a function that has effects) to the graph's
 * order of effects: effects run in this order, even if nothing uses their value. */
ANF_API anf_status anf_effect(anf_graph *g, anf_node *n);

#ifndef __cplusplus
/* A number of nodes and the nodes, for what takes both: anf_op(g, "Add", ANF_NODES(x, y)). */
#define ANF_NODES(...)                                                                             \
  sizeof((anf_node *[]){__VA_ARGS__}) / sizeof(anf_node *), (anf_node *[]) { __VA_ARGS__ }
/* The call of a primitive: ANF_APPLY(g, "Add", x, y). */
#define ANF_APPLY(g, op, ...) anf_op((g), (op), ANF_NODES(__VA_ARGS__))
#endif

/* ---- the primitives ---- */
ANF_API size_t anf_op_count(void);
ANF_API const char *anf_op_name(size_t i); // NULL past the end
/* What docs/ops.md says of one. */
typedef struct anf_op_info {
  size_t size;
  const char *name, *family;
  const char *inputs; // "a b", "x bias?", "xs*"
  const char *attrs;  // "axis:ints? keepdims:bool=false"
  const char *doc;
  bool differentiable; // by arguments that are floats
} anf_op_info;
/* Fills *out, as much as its size says. False: there is none of that name. */
ANF_API bool anf_op_describe(anf_ctx *cx, const char *name, anf_op_info *out);

/* ---- looking at nodes ---- */
ANF_API anf_node_kind anf_node_get_kind(const anf_node *n);
ANF_API uint32_t anf_node_id(const anf_node *n);
ANF_API anf_graph *anf_node_graph(const anf_node *n);     // NULL for a constant
ANF_API const anf_type *anf_node_type(const anf_node *n); // NULL when not known
ANF_API void anf_node_set_type(anf_node *n, const anf_type *ANF_NULLABLE t);
ANF_API const char *anf_node_name(const anf_node *n); // "" when it has none
ANF_API void anf_node_set_name(anf_node *n, const char *ANF_NULLABLE name);
/* The primitive that a CNode calls or a constant holds, such as "Add"; NULL if it is not one. */
ANF_API const char *anf_node_op(const anf_node *n);
/* The graph that a CNode calls directly or a constant holds; NULL if it is not one. */
ANF_API anf_graph *anf_node_callee_graph(const anf_node *n);
ANF_API const anf_value *anf_node_value(const anf_node *n); // of a constant, borrowed
/* Inputs of a CNode: 0 is the callee, then the arguments, then attributes given by nodes. */
ANF_API size_t anf_node_input_count(const anf_node *n);
ANF_API anf_node *anf_node_input(const anf_node *n, size_t i);
/* The attribute's constant value, borrowed; NULL if it is given by a node or there is none such. */
ANF_API const anf_value *anf_node_attr(const anf_node *n, const char *name);
/* Where it was written; line 0 when not known. */
ANF_API const char *anf_node_file(const anf_node *n);
ANF_API uint32_t anf_node_line(const anf_node *n);
ANF_API uint32_t anf_node_col(const anf_node *n);
ANF_API void anf_node_set_loc(anf_node *n, const char *ANF_NULLABLE file, uint32_t line,
                              uint32_t col);
/* Grouping of nodes, such as "encoder/layer0"; "" when it has none. */
ANF_API const char *anf_node_scope(const anf_node *n);
ANF_API void anf_node_set_scope(anf_node *n, const char *ANF_NULLABLE scope);

/* Uses: iterate with anf_node_first_use and anf_use_next; `user` uses the node as input `index`.
 * A constant primitive has no use list. Using as a graph's result is counted by anf_node_is_used.
 */
typedef struct anf_use anf_use;
ANF_API const anf_use *anf_node_first_use(const anf_node *n);
ANF_API const anf_use *anf_use_next(const anf_use *u);
ANF_API anf_node *anf_use_user(const anf_use *u);
ANF_API size_t anf_use_index(const anf_use *u);
ANF_API bool anf_node_is_used(const anf_node *n);

/* ---- changing ---- */
ANF_API anf_status anf_node_set_input(anf_node *n, size_t i, anf_node *to);
/* Every use of `n`, results of graphs too, becomes a use of `by`. */
ANF_API anf_status anf_node_replace(anf_node *n, anf_node *by);
/* Makes n a node of the graph `to`; n is no parameter. */
ANF_API anf_status anf_node_move(anf_node *n, anf_graph *to);
/* Removes nodes that no result, effect or used node needs. Returns how many. */
ANF_API size_t anf_module_sweep(anf_module *m);
/* A copy of g and of the graphs nested in it (those that capture from the copied ones), in its
 * module. What they capture from outside stays captured. */
ANF_API anf_graph *anf_graph_clone(anf_graph *g);

/* ---- analyses: results are owned by the object; free it when done ---- */
typedef struct anf_analysis anf_analysis;
/* Free variables, parents and the call graph of the whole module, as it is now. */
ANF_API anf_status anf_analyse(anf_module *m, anf_diag *d, anf_analysis **out);
ANF_API void anf_analysis_free(anf_analysis *a);
/* Nodes of other graphs that g, or a graph that it refers to, captures: in order of first use. */
ANF_API size_t anf_free_count(const anf_analysis *a, const anf_graph *g);
ANF_API anf_node *anf_free_at(const anf_analysis *a, const anf_graph *g, size_t i);
/* The innermost graph that owns a free variable of g; NULL if g is closed. */
ANF_API anf_graph *anf_parent(const anf_analysis *a, const anf_graph *g);
/* Graphs that g refers to, each once. */
ANF_API size_t anf_callee_count(const anf_analysis *a, const anf_graph *g);
ANF_API anf_graph *anf_callee_at(const anf_analysis *a, const anf_graph *g, size_t i);
/* The strongly connected component of g, numbered so that callees have lower numbers. */
ANF_API size_t anf_scc(const anf_analysis *a, const anf_graph *g);
ANF_API bool anf_is_recursive(const anf_analysis *a, const anf_graph *g);
/* The CNodes of g that its result and effects need, each after its inputs (captures included). */
ANF_API size_t anf_order_count(const anf_analysis *a, const anf_graph *g);
ANF_API anf_node *anf_order_at(const anf_analysis *a, const anf_graph *g, size_t i);

/* Checks every invariant of the module (ir/verify.c lists them). */
ANF_API anf_status anf_verify(anf_module *m, anf_diag *d);

#ifdef __cplusplus
}
#endif
#endif
