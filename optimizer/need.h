// SPDX-License-Identifier: Apache-2.0
/* Shared by need.c and need_box.c. */
#ifndef ANFI_NEED_H
#define ANFI_NEED_H

#include "optimizer/opt.h"

/* Boxes of one type of contents, a tuple. */
typedef struct anfi_boxes {
  const anf_type *type;
  bool *item; // those that are needed
  anfi_node_vec made, opened;
} anfi_boxes;

typedef struct anfi_box_classes {
  ANFI_VEC(anfi_boxes) at; // none: boxes stay as they are
  anfi_map of_type;        // 1 + number of the class
} anfi_box_classes;

anfi_box_classes anfi_find_boxes(anf_module *m, anfi_arena *a);
/* The class of a Box or Unbox; NULL: none, or another node. */
anfi_boxes *anfi_boxes_of(const anfi_box_classes *b, const anf_node *n);
bool anfi_boxed_any(const anfi_boxes *c); // is an item needed?
void anfi_shrink_boxes(const anfi_box_classes *b, anfi_pass *p, anfi_arena *a);

#endif
