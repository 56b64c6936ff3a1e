// SPDX-License-Identifier: Apache-2.0
/* The system's permission to use tiles of AMX: their state is large, so Linux keeps it only for processes that asked.
 *   anf_rt_tiles()   ->   true on a processor with AMX, after which tile instructions do not end the process */
#define _GNU_SOURCE // syscall
#include "runtime/rt.h"

#if defined(__linux__) && defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>

enum { ARCH_REQ_XCOMP_PERM = 0x1023, TILE_DATA = 18 }; // asm/prctl.h of Linux 5.16

bool anf_rt_tiles(void) { return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA) == 0; }
#else
bool anf_rt_tiles(void) { return false; }
#endif
