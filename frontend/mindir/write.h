// SPDX-License-Identifier: Apache-2.0
/* Writing .mindir. */
#ifndef ANFI_MINDIR_WRITE_H
#define ANFI_MINDIR_WRITE_H

#include "frontend/mindir/mindir.h"
#include "frontend/trace/export.h"

typedef struct anfi_mi_beside {
  const char *file; // as the model names it
  anf_text *weights;
} anfi_mi_beside;

typedef struct anfi_mi_writer {
  anf_ctx *cx;
  anf_module *m; // first-order and typed
  anfi_arena *arena;
  anf_analysis *an;
  const char **graph_name; // by id
  anf_text *out;
  anfi_mi_beside *beside; // a file of the weights alone, or NULL
  anfi_strtab encoded;    // PrimitiveProtos without their names, numbered
  anfi_strtab words;      // names given or tried
  /* of the graph being written */
  const anf_graph *g;
  const char *graph;      // its name
  const anf_node *record; // the parameter whose fields are the model's parameters, or NULL
  size_t count;           // nodes so far, for names
  anfi_map named;         // node -> name in the file
  anfi_map places; // node -> name of the i32 places that its primitive gives, of which it has i64
} anfi_mi_writer;

/* write_value.c */
bool anfi_mi_put_tensor(anfi_mi_writer *w, uint32_t field, const char *name, const anf_value *v);
/* The same with the elements in `beside`. */
bool anfi_mi_put_apart(anfi_mi_writer *w, uint32_t field, const char *name, const anf_value *v);
bool anfi_mi_put_tensor_type(anfi_mi_writer *w, uint32_t field, const char *name,
                             const anf_type *t);
/* An AttributeProto with a constant. */
bool anfi_mi_put_attr(anfi_mi_writer *w, uint32_t field, const char *name, const anf_value *v);
/* ... with a type, as `abstract`s say it; false if MindSpore has no word for it: then nothing is written. */
bool anfi_mi_put_abstract(anf_text *o, uint32_t field, const char *name, const anf_type *t);
int64_t anfi_mi_type_number(const anf_type *t); // of TypeId; 0: none

/* write_op.c: the node of an op; its name in the file, or NULL with an error */
const char *anfi_mi_put_apply(anfi_mi_writer *w, const anf_node *n);

/* write_window.c: the attributes of a convolution or pool as fields of a PrimitiveProto */
bool anfi_mi_put_conv(anfi_mi_writer *w, const anf_node *n);
bool anfi_mi_put_pool(anfi_mi_writer *w, const anf_node *n);
bool anfi_mi_pool_is_whole(anfi_mi_writer *w, const anf_node *n); // no window is cut or padded

/* write.c: what write_op.c uses */
const char *anfi_mi_operand(anfi_mi_writer *w, const anf_node *n);
const char *anfi_mi_put_constant(anfi_mi_writer *w, const anf_value *v);
/* A node of the file. `op` is what it calls, `n` NULL or the node whose type and scope it has. */
const char *anfi_mi_put_node(anfi_mi_writer *w, const anf_node *n, const char *op, size_t nin,
                             const char *const *in);
/* "REF::NAME:k" of the primitive. Its attributes, fields 3 of a PrimitiveProto, are what was written since `attrs`,
 * a length of the text, and are taken from there. */
const char *anfi_mi_primitive_ref(anfi_mi_writer *w, const char *op, size_t attrs);
bool anfi_mi_refuse(anfi_mi_writer *w, const anf_node *n, const char *what, const char *name);

#endif
