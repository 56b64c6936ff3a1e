// SPDX-License-Identifier: Apache-2.0
/* Call groups: graphs that one call may reach, because they are branches of one Switch, share a
 * signature. A group is open when something else than a call sees one of its graphs (the host, an
 * unknown use); the signature of a closed group may be changed, at all its graphs and calls
 * together. Groups whose results are each other's, by a call in result position, form a result
 * class: all have one result type, so that such calls stay in tail position. */
#ifndef ANFI_GROUP_H
#define ANFI_GROUP_H

#include "optimizer/opt.h"

typedef struct anfi_group {
  ANFI_VEC(anf_graph *) graphs;
  ANFI_VEC(anf_node *) calls;
  bool open;
  uint32_t result_class; // the representative group of the class
  bool result_open; // of the class: some group in it is open, or some result cannot be taken apart
  ANFI_VEC(anf_graph *) in_class; // of a class: all graphs in it
} anfi_group;

typedef struct anfi_groups {
  anfi_group *at;
  uint32_t n;
  uint32_t *of_graph; // graph id -> group
} anfi_groups;

/* In a closed, first-order module. */
void anfi_find_groups(anf_module *m, anfi_arena *a, anfi_groups *out);
/* The group that a call reaches, or NULL when its callee is no graph and no Switch of graphs. */
anfi_group *anfi_group_of_call(const anfi_groups *gs, const anf_node *call);
/* The functions that the callee of a call may be; `at` has room for as many as the callee has
 * inputs. */
size_t anfi_call_targets(const anf_node *call, anf_graph **at);

#endif
