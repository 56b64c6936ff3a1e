// SPDX-License-Identifier: Apache-2.0
/* All that hosts need: #include <anfora/anfora.h> and link with `pkg-config --cflags --libs anfora`. Apart are
 * anfora/tir.h, the Tensor IR, and anfora/rt_abi.h, what compiled code calls. */
#ifndef ANFORA_H
#define ANFORA_H

#include "anfora/base.h"
#include "anfora/build.h"
#include "anfora/comm.h"
#include "anfora/debug.h"
#include "anfora/exec.h"
#include "anfora/expr.h"
#include "anfora/grad.h"
#include "anfora/host.h"
#include "anfora/ir.h"
#include "anfora/opt.h"
#include "anfora/pnnx.h"
#include "anfora/run.h"
#include "anfora/step.h"
#include "anfora/store.h"
#include "anfora/text.h"
#include "anfora/types.h"

#endif
