// SPDX-License-Identifier: Apache-2.0
/* Programs and modules as text: .anf and .ir (one language), .dat (exact), .dot and .html
 * (pictures).
 *
 * Example:
 *   anf_module *m = NULL;
 *   anf_status st = anf_parse(cx, "def sq(x: f32) -> f32 { x * x }", "sq.anf", NULL, &m);
 *   anf_text out = {cx, NULL, 0, 0};
 *   if (st == ANF_OK) st = anf_print_ir(m, &out);
 *   anf_text_free(&out);
 *   anf_module_free(m);
 */
#ifndef ANFORA_TEXT_H
#define ANFORA_TEXT_H

#include "anfora/ir.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Reads a program (.anf or .ir). `file` is the name in locations. */
ANF_API anf_status anf_parse(anf_ctx *cx, const char *text, const char *ANF_NULLABLE file,
                             anf_diag *d, anf_module **out);
ANF_API anf_status anf_parse_n(anf_ctx *cx, const char *text, size_t len,
                               const char *ANF_NULLABLE file, anf_diag *d, anf_module **out);
/* Reads a program file by its ending (docs/formats.md), else by its first bytes, as .dat, .param and .mindir; "-" reads .anf from
 * standard input. */
ANF_API anf_status anf_load(anf_ctx *cx, const char *path, anf_diag *d, anf_module **out);
/* Imports of programs that the context reads may also lead into this folder; without it they stay in the folder of the
 * program and below it. "/" allows all. */
ANF_API anf_status anf_allow_imports(anf_ctx *cx, const char *folder, anf_diag *d);
/* One value as a command line gives it: 3, 1.5, true, (1, 2), [[1, 2], [3, 4]], "text", None. */
ANF_API anf_status anf_parse_value(anf_ctx *cx, const char *text, anf_diag *d, anf_value **out);
/* A type: f32[2, B], (i64, f32), fn(f32) -> f32. */
ANF_API anf_status anf_parse_type(anf_ctx *cx, const char *text, anf_diag *d, const anf_type **out);

/* Append to `out`, which starts as {cx, NULL, 0, 0}. */
ANF_API anf_status anf_print_ir(anf_module *m, anf_text *out);
/* The same with comments: the place of each node in the source, its scope, and what a graph that a pass made is. */
ANF_API anf_status anf_print_ir_places(anf_module *m, anf_text *out);
ANF_API anf_status anf_write_dat(anf_module *m, anf_text *out);
/* An ONNX model from memory; `file` is for messages, and the folder of external data. */
ANF_API anf_status anf_read_onnx(anf_ctx *cx, const char *data, size_t len,
                                 const char *ANF_NULLABLE file, anf_diag *d, anf_module **out);
/* StableHLO text from memory; `file` is for messages. */
ANF_API anf_status anf_read_stablehlo(anf_ctx *cx, const char *text, size_t len,
                                      const char *ANF_NULLABLE file, anf_diag *d, anf_module **out);
/* A function as an ONNX model for arguments of these types, with all that it calls, derivatives included; tuples become
 * several inputs and outputs. A first parameter that is a record with a function params() is as in anf_write_mindir. */
ANF_API anf_status anf_write_onnx(anf_graph *g, size_t n, const anf_type *const *types, anf_diag *d,
                                  anf_text *out);
/* A function as a StableHLO module for arguments of these types, whose sizes are known: its function is @main, the items of
 * tuples and records are arguments and results of their own. */
ANF_API anf_status anf_write_stablehlo(anf_graph *g, size_t n, const anf_type *const *types,
                                       anf_diag *d, anf_text *out);
/* MindSpore's .mindir from memory; `file` is for messages, and the folder of external weights. */
ANF_API anf_status anf_read_mindir(anf_ctx *cx, const char *data, size_t len,
                                   const char *ANF_NULLABLE file, anf_diag *d, anf_module **out);
/* A function as a .mindir for arguments of these types, with all that it calls. If its first parameter is a record and
 * its module has a function params() that gives one, the fields are the model's parameters; docs/formats.md has the rest.
 */
ANF_API anf_status anf_write_mindir(anf_graph *g, size_t n, const anf_type *const *types,
                                    anf_diag *d, anf_text *out);
/* The same with the parameters' values in a file of their own, which the caller writes to the model's folder; `file` is its name there. */
ANF_API anf_status anf_write_mindir_beside(anf_graph *g, size_t n, const anf_type *const *types,
                                           const char *file, anf_diag *d, anf_text *out,
                                           anf_text *weights);
ANF_API anf_status anf_read_dat(anf_ctx *cx, const char *text, size_t len,
                                const char *ANF_NULLABLE file, anf_diag *d, anf_module **out);

/* One tensor in NumPy's format. Reading takes versions 1 to 3, either byte order, C and Fortran
 * order. */
ANF_API anf_status anf_load_npy(anf_ctx *cx, const char *path, anf_diag *d, anf_value **out);
ANF_API anf_status anf_save_npy(anf_ctx *cx, const anf_value *v, const char *path, anf_diag *d);
/* The same from memory; `file` is the name in messages. */
ANF_API anf_status anf_read_npy(anf_ctx *cx, const void *data, size_t len,
                                const char *ANF_NULLABLE file, anf_diag *d, anf_value **out);

typedef struct anf_view_opts {
  size_t size;
  anf_graph *graph;   // only this graph and those that it refers to; default: all
  uint32_t depth;     // how deep graphs that refer to graphs are drawn; default: no limit
  anf_node *focus;    // only this node and those within `radius` edges
  uint32_t radius;    // default 3
  uint32_t max_nodes; // graphs are folded beyond; default 4000
} anf_view_opts;
ANF_API anf_status anf_write_dot(anf_module *m, const anf_view_opts *o, anf_text *out);

/* Files of a folder, which is made if need be: NN_stage.ir (with places), .dat and .dot of graphs, NN_stage.tir of Tensor IR.
 * Constants of more than 1024 elements are elided in the texts; .dat is exact. */
typedef struct anf_dump {
  size_t size;
  const char *folder;
  uint32_t count;    // of the next stage
  anf_diag *diag;    // where errors go; may be NULL
  anf_status status; // after an error nothing is written any more
} anf_dump;
/* Writes a stage: the hook `stage` of anf_exec_opts, with an anf_dump as its user. m or tir may be NULL.
 *   anf_dump d = {.size = sizeof d, .folder = "out"};
 *   anf_exec_opts o = {.size = sizeof o, .stage = anf_dump_stage, .stage_user = &d}; */
ANF_API void anf_dump_stage(void *dump, anf_ctx *cx, const char *stage, anf_module *ANF_NULLABLE m,
                            const char *ANF_NULLABLE tir);
/* One self-contained page: pan, zoom, fold a graph, search, click a node. */
ANF_API anf_status anf_write_html(anf_module *m, const anf_view_opts *o, anf_text *out);

#ifdef __cplusplus
}
#endif
#endif
