// SPDX-License-Identifier: Apache-2.0
/* A module read node by node and built anew, by the public interface alone. */
#ifndef ANF_TEST_TIR_COPY_H
#define ANF_TEST_TIR_COPY_H

#include "anfora/anfora.h"
#include "anfora/tir.h"

/* NULL where a maker refused. */
anf_tir_module *tir_copy(anf_ctx *cx, const anf_tir_module *from);

#endif
