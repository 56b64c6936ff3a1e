// SPDX-License-Identifier: Apache-2.0
/* A module made anew by the functions of anfora/ir.h, as a host makes one: what they cannot say gets lost, and what they
 * check or make otherwise than the parser does shows.
 *
 *     anf_module *built = rebuild(m); // f(x) { x + 1 }: anf_param, anf_int, anf_op(g, "Add", ..), anf_return
 */
#ifndef TEST_REBUILD_H
#define TEST_REBUILD_H

#include "anfora/ir.h"

anf_module *rebuild(anf_module *from); // anf_module_status of it says whether that went well

#endif
