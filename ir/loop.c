// SPDX-License-Identifier: Apache-2.0
/* Reads a Loop node's attributes once (loop.h); all passes, derivatives and the lowering start here. */
#include "ir/loop.h"

size_t anfi_loop_attr(const anf_node *loop, uint32_t k) {
  const anf_value *v = anfi_attr_value(loop->graph->module->cx, ANF_OP_Loop, loop->u.attrs, k);
  return v ? (size_t)anfi_get_i64(v, 0) : 0;
}

anfi_loop_op anfi_loop_parts(const anf_node *loop) {
  bool counted = anfi_loop_attr(loop, ANFI_LOOP_COUNTED),
       guarded = anfi_loop_attr(loop, ANFI_LOOP_GUARDED);
  anfi_loop_op l = {.step = anfi_value_graph(loop->in[0].def),
                    .n = counted ? loop->in[1].def : NULL,
                    .go = guarded ? loop->in[1].def : NULL,
                    .nw = anfi_loop_attr(loop, ANFI_LOOP_INVARIANT),
                    .nx = anfi_loop_attr(loop, ANFI_LOOP_STACKS),
                    .nout = anfi_loop_attr(loop, ANFI_LOOP_OUTS),
                    .counted = counted,
                    .reverse = anfi_loop_attr(loop, ANFI_LOOP_REVERSE),
                    .rounds = anfi_loop_attr(loop, ANFI_LOOP_ROUNDS),
                    .loop = loop,
                    .first_w = counted || guarded ? 2 : 1};
  l.ns = loop->nin - l.first_w - l.nw - l.nx;
  return l;
}
