// SPDX-License-Identifier: Apache-2.0
/* Other libraries' products of f32, of row-major operands, on one thread; those that the machine has. */
#ifndef ANF_PEER_GEMM_H
#define ANF_PEER_GEMM_H

#include <dlfcn.h>

#include "bench.h"
typedef void (*peer_product)(int m, int n, int k, const float *a, const float *b, float *c);
enum { PEERS = 2 };
static struct peer {
  const char *name;
  peer_product run; // NULL: it is not here
} peers[PEERS] = {{"openblas", NULL}, {"onednn", NULL}};

static const float peer_one = 1, peer_zero = 0;

/* A function of a library; f is a pointer to one. */
static bool peer_find(void *lib, const char *name, void *f) {
  void *p = lib ? dlsym(lib, name) : NULL;
  memcpy(f, &p, sizeof p);
  return p != NULL;
}

static void (*sgemm)(const char *, const char *, const int *, const int *, const int *,
                     const float *, const float *, const int *, const float *, const int *,
                     const float *, float *, const int *);
static void by_openblas(int m, int n, int k, const float *a, const float *b, float *c) {
  // by columns: the transposed product
  sgemm("N", "N", &n, &m, &k, &peer_one, b, &n, a, &k, &peer_zero, c, &n);
}

static int (*dnnl_sgemm)(char, char, int64_t, int64_t, int64_t, float, const float *, int64_t,
                         const float *, int64_t, float, float *, int64_t);
static void by_onednn(int m, int n, int k, const float *a, const float *b, float *c) {
  dnnl_sgemm('N', 'N', m, n, k, 1, a, k, b, n, 0, c, n);
}

static void find_peers(void) {
  void (*threads)(int);
  setenv("OMP_NUM_THREADS", "1", 1);
  void *blas = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL),
       *dnnl = dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (peer_find(blas, "openblas_set_num_threads", &threads)) threads(1);
  if (peer_find(blas, "sgemm_", &sgemm)) peers[0].run = by_openblas;
  if (peer_find(dnnl, "dnnl_sgemm", &dnnl_sgemm)) peers[1].run = by_onednn;
}

#endif
