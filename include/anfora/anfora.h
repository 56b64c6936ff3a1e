// SPDX-License-Identifier: Apache-2.0
/* Everything: #include <anfora/anfora.h> and link with `pkg-config --cflags --libs anfora`. */
#ifndef ANFORA_H
#define ANFORA_H

#include "anfora/base.h"
#include "anfora/build.h"
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
#include "anfora/tir.h"
#include "anfora/types.h"

#endif
