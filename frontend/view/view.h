// SPDX-License-Identifier: Apache-2.0
/* Pictures of modules: selection (select.c), as text for graphviz (dot.c), as a page (html.c).
 * Names are those of print --as ir, so that a picture can be read beside the text. */
#ifndef ANFI_VIEW_H
#define ANFI_VIEW_H

#include "anfora/text.h"
#include "ir/ir.h"

typedef struct anfi_view_graph {
  anf_graph *graph;
  bool drawn;                 // at all; else only its name where it is referred to
  bool open;                  // its nodes are drawn; else it is a box
  uint32_t depth;             // 0: no drawn graph refers to it
  size_t total;               // parameters and CNodes that it has
  ANFI_VEC(anf_node *) nodes; // drawn nodes: parameters, then CNodes after their operands
} anfi_view_graph;

typedef struct anfi_view {
  anf_module *m;
  anfi_arena *a;
  const anf_analysis *an;
  anfi_names names;
  anfi_view_graph *graph;      // by id
  ANFI_VEC(anf_graph *) order; // drawn graphs, callers first
  uint8_t *drawn;              // by node id
  size_t nnode;                // drawn
} anfi_view;

/* Lives until the frame is left. `max_nodes` replaces a 0 in the options. */
anfi_view *anfi_view_select(anf_module *m, const anf_view_opts *o, uint32_t max_nodes);

/* Display text: one line, at most `max` characters, valid UTF-8 without control characters. */
typedef struct anfi_label {
  anfi_view *view;
  anf_text text, raw; // the last label, and before it was made fit
} anfi_label;
anfi_label *anfi_view_label(anfi_view *v); // lives until the frame is left
const char *anfi_view_clean(anfi_label *l, const char *s, size_t max);
const char *anfi_shown_type(anfi_label *l, const anf_type *t, size_t max);
const char *anfi_shown_value(anfi_label *l, const anf_value *v, size_t max);
/* A CNode's title: the primitive or graph that it calls, or "call". */
const char *anfi_view_title(anfi_label *l, const anf_node *n, size_t max);

#endif
