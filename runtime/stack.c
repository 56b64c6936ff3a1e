// SPDX-License-Identifier: Apache-2.0
/* A large stack for recursion, and calls on it.
 *   stack = anfi_rt_stack_new(256 << 20); anfi_rt_call_on(stack, 256 << 20, f, x)   ->   f(x) with 256 MB of stack
 * On processors that are known here the stack pointer is moved; elsewhere, and under sanitizers, which watch stacks, a
 * thread of its own has the stack. */
#define _DEFAULT_SOURCE // MAP_ANONYMOUS
#include "runtime/rt.h"

#include <pthread.h>
#include <sys/mman.h>

enum { GUARD = 64 << 10 };

char *anfi_rt_stack_new(size_t bytes) {
  void *p =
      mmap(NULL, bytes + GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return NULL;
  if (mprotect((char *)p + GUARD, bytes, PROT_READ | PROT_WRITE) == 0) return (char *)p + GUARD;
  munmap(p, bytes + GUARD);
  return NULL;
}

void anfi_rt_stack_free(char *stack, size_t bytes) { munmap(stack - GUARD, bytes + GUARD); }

#if defined(__x86_64__) && defined(__GNUC__) && !defined(RT_WATCHED)
bool anfi_rt_call_on(char *stack, size_t bytes, void (*f)(void *), void *arg) {
  char *top = stack + bytes;
  __asm__ volatile("movq %%rsp, %%rbx\n\t"
                   "movq %[top], %%rsp\n\t"
                   "call *%[f]\n\t"
                   "movq %%rbx, %%rsp\n\t"
                   : "+D"(arg), [top] "+r"(top), [f] "+r"(f)
                   :
                   : "rbx", "rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "xmm0", "xmm1",
                     "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
                     "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "memory", "cc");
  return true;
}
#elif defined(__aarch64__) && defined(__GNUC__) && !defined(RT_WATCHED)
bool anfi_rt_call_on(char *stack, size_t bytes, void (*f)(void *), void *arg) {
  register void *x0 __asm__("x0") = arg;
  char *top = stack + bytes;
  __asm__ volatile("mov x19, sp\n\t"
                   "mov sp, %[top]\n\t"
                   "blr %[f]\n\t"
                   "mov sp, x19\n\t"
                   : "+r"(x0), [top] "+r"(top), [f] "+r"(f)
                   :
                   : "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12",
                     "x13", "x14", "x15", "x16", "x17", "x19", "x30", "v0", "v1", "v2", "v3", "v4",
                     "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16",
                     "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27",
                     "v28", "v29", "v30", "v31", "memory", "cc");
  return true;
}
#else
typedef struct job {
  void (*f)(void *);
  void *arg;
} job;

static void *start(void *p) {
  const job *j = (const job *)p;
  j->f(j->arg);
  return NULL;
}

bool anfi_rt_call_on(char *stack, size_t bytes, void (*f)(void *), void *arg) {
  job j = {f, arg};
  pthread_attr_t attr;
  pthread_t thread;
  if (pthread_attr_init(&attr) != 0) return false;
  bool good = pthread_attr_setstack(&attr, stack, bytes) == 0 &&
              pthread_create(&thread, &attr, start, &j) == 0;
  pthread_attr_destroy(&attr);
  return good && pthread_join(thread, NULL) == 0;
}
#endif
