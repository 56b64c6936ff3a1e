// SPDX-License-Identifier: Apache-2.0
/* Other libraries' products of f32, of row-major operands, on one thread; those that the machine has.
 * A peer that lays B out before has `prepare`, which is not measured. oneDNN 3 has no symbols but its
 * own to link with, so what is needed of its interface is written here. libxsmm is there only if the
 * build found its static library: its kernels in a loop over panels of B, each as wide and deep as
 * `prepare` found the fastest. */
#ifndef ANF_PEER_GEMM_H
#define ANF_PEER_GEMM_H

#include <dlfcn.h>

#include "bench.h"
typedef void (*peer_product)(int m, int n, int k, const float *a, const float *b, float *c);
enum { PEERS = 4 };
enum { OPENBLAS, ONEDNN, ONEDNN_LAID_OUT, LIBXSMM };
static struct peer {
  const char *name;
  peer_product run;                                     // NULL: it is not here
  bool (*prepare)(int m, int n, int k, const float *b); // false: not for this shape
} peers[PEERS] = {{"openblas", NULL, NULL},
                  {"onednn", NULL, NULL},
                  {"onednn prepacked", NULL, NULL},
                  {"libxsmm prepacked", NULL, NULL}};

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

/* ---- oneDNN 3, with weights in the order that it likes ---- */

enum {
  DNNL_CPU = 1,
  DNNL_IN_ORDER = 1,
  DNNL_F32 = 3,
  DNNL_ANY = 1,
  DNNL_AB = 3,
  DNNL_WEIGHTS = 131
};
enum { DNNL_SRC = 1, DNNL_DST = 17, DNNL_WEI = 33 };
typedef struct dnnl_arg {
  int what;
  void *memory;
} dnnl_arg;
static struct {
  int (*engine_create)(void **, int, size_t);
  int (*stream_create)(void **, void *, unsigned);
  int (*memory_desc_create_with_tag)(void **, int, const int64_t *, int, int);
  int (*matmul_primitive_desc_create)(void **, void *, void *, void *, void *, void *, void *);
  int (*reorder_primitive_desc_create)(void **, const void *, void *, const void *, void *, void *);
  const void *(*primitive_desc_query_md)(void *, int, int);
  int (*primitive_create)(void **, void *);
  int (*primitive_execute)(void *, void *, int, const dnnl_arg *);
  int (*memory_create)(void **, const void *, void *, void *);
  int (*memory_set_data_handle)(void *, void *);
  void *engine, *stream, *matmul, *a, *b, *c;
} dn;

static void *dnnl_desc(int64_t rows, int64_t cols, int tag) {
  void *d = NULL;
  int64_t dims[12] = {rows, cols};
  dn.memory_desc_create_with_tag(&d, 2, dims, DNNL_F32, tag);
  return d;
}

static void *dnnl_memory(const void *desc, const void *at) { // NULL: its own
  void *m = NULL;
  dn.memory_create(&m, desc, dn.engine, at ? (void *)(uintptr_t)at : (void *)(intptr_t)-1);
  return m;
}

static bool prepare_onednn(int m, int n, int k, const float *b) {
  void *a_desc = dnnl_desc(m, k, DNNL_AB), *c_desc = dnnl_desc(m, n, DNNL_AB),
       *rows = dnnl_desc(k, n, DNNL_AB), *pd = NULL, *turn = NULL, *reorder = NULL;
  if (dn.matmul_primitive_desc_create(&pd, dn.engine, a_desc, dnnl_desc(k, n, DNNL_ANY), NULL,
                                      c_desc, NULL))
    return false;
  const void *laid_out = dn.primitive_desc_query_md(pd, DNNL_WEIGHTS, 0);
  dn.primitive_create(&dn.matmul, pd);
  dn.a = dnnl_memory(a_desc, NULL), dn.c = dnnl_memory(c_desc, NULL);
  dn.b = dnnl_memory(laid_out, NULL);
  dn.reorder_primitive_desc_create(&turn, rows, dn.engine, laid_out, dn.engine, NULL);
  dn.primitive_create(&reorder, turn);
  dnnl_arg args[] = {{DNNL_SRC, dnnl_memory(rows, b)}, {DNNL_DST, dn.b}};
  return dn.primitive_execute(reorder, dn.stream, 2, args) == 0;
}

static void by_onednn_laid_out(int m, int n, int k, const float *a, const float *b, float *c) {
  (void)m, (void)n, (void)k, (void)b;
  dn.memory_set_data_handle(dn.a, (void *)(uintptr_t)a);
  dn.memory_set_data_handle(dn.c, c);
  dnnl_arg args[] = {{DNNL_SRC, dn.a}, {DNNL_WEI, dn.b}, {DNNL_DST, dn.c}};
  dn.primitive_execute(dn.matmul, dn.stream, 3, args);
}

static bool find_onednn_3(void *lib) {
#define FIND(f) peer_find(lib, "dnnl_" #f, &dn.f)
  return FIND(engine_create) && FIND(stream_create) && FIND(memory_desc_create_with_tag) &&
         FIND(matmul_primitive_desc_create) && FIND(reorder_primitive_desc_create) &&
         FIND(primitive_desc_query_md) && FIND(primitive_create) && FIND(primitive_execute) &&
         FIND(memory_create) && FIND(memory_set_data_handle) &&
         dn.engine_create(&dn.engine, DNNL_CPU, 0) == 0 &&
         dn.stream_create(&dn.stream, dn.engine, DNNL_IN_ORDER) == 0;
#undef FIND
}

/* ---- libxsmm ---- */

#ifdef HAVE_LIBXSMM
#include <libxsmm.h>
static struct {
  libxsmm_smmfunction_reducebatch_strd kernel;
  float *b;
  int mb, nb, kb;
} xs;

static void by_libxsmm(int m, int n, int k, const float *a, const float *b, float *c) {
  (void)b;
  unsigned long long count = (unsigned long long)(k / xs.kb);
  for (int i = 0; i < m; i += xs.mb)
    for (int j = 0; j < n; j += xs.nb)
      xs.kernel(xs.b + (size_t)j * (size_t)k, a + (size_t)i * (size_t)k,
                c + (size_t)i * (size_t)n + j, &count);
}

/* By columns again: its A is our panel of B. */
static bool libxsmm_cut(int n, int k, int mb, int nb, int kb) {
  int bytes = (int)sizeof(float);
  xs.mb = mb, xs.nb = nb, xs.kb = kb;
  xs.kernel = libxsmm_smmdispatch_reducebatch_strd(nb, mb, kb, kb * nb * bytes, kb * bytes, &nb, &k,
                                                   &n, &peer_one, &peer_zero, NULL, NULL);
  return xs.kernel != NULL;
}

static void libxsmm_lay_out(int n, int k, const float *b) {
  for (int j = 0; j < n; j += xs.nb)
    for (int p = 0; p < k; p++)
      memcpy(xs.b + (size_t)j * (size_t)k + (size_t)p * (size_t)xs.nb,
             b + (size_t)p * (size_t)n + j, (size_t)xs.nb * sizeof *b);
}

static double libxsmm_seconds(int m, int n, int k, const float *a, float *c) {
  double best = 1e9;
  for (int i = 0; i < 5; i++) {
    double start = bench_cpu();
    by_libxsmm(m, n, k, a, NULL, c);
    if (bench_cpu() - start < best) best = bench_cpu() - start;
  }
  return best;
}

static bool prepare_libxsmm(int m, int n, int k, const float *b) {
  static const int down[] = {1024, 256, 128, 64, 32, 4, 1}, wide[] = {64, 48, 32, 10},
                   deep[] = {1024, 512, 256, 128, 64, 16};
  int found[3] = {0};
  double best = 1e9, s;
  size_t room = (size_t)n * (size_t)k;
  float *a = (float *)calloc((size_t)m * (size_t)k, sizeof *a),
        *c = (float *)calloc((size_t)m * (size_t)n, sizeof *c);
  free(xs.b);
  xs.b = (float *)aligned_alloc(64, (room * sizeof *xs.b + 63) / 64 * 64);
  if (!a || !c || !xs.b) exit(2);
  for (size_t x = 0; x < 7 * 4 * 6; x++) {
    int mb = down[x % 7], nb = wide[x / 7 % 4], kb = deep[x / 28];
    if (m % mb || n % nb || k % kb || !libxsmm_cut(n, k, mb, nb, kb)) continue;
    libxsmm_lay_out(n, k, b);
    if ((s = libxsmm_seconds(m, n, k, a, c)) < best)
      best = s, found[0] = mb, found[1] = nb, found[2] = kb;
  }
  free(a), free(c);
  if (!found[0] || !libxsmm_cut(n, k, found[0], found[1], found[2])) return false;
  libxsmm_lay_out(n, k, b);
  return true;
}
#endif

/* ---- all ---- */

static void find_peers(void) {
  void (*threads)(int);
  setenv("OMP_NUM_THREADS", "1", 1);
  // it knows CPUs by their names, and may take one that it does not know for one with less
  if (BENCH_AVX512) setenv("OPENBLAS_CORETYPE", "SkylakeX", 1);
  void *blas = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL),
       *dnnl = dlopen("libdnnl.so.3", RTLD_NOW | RTLD_LOCAL);
  if (peer_find(blas, "openblas_set_num_threads", &threads)) threads(1);
  if (peer_find(blas, "sgemm_", &sgemm)) peers[OPENBLAS].run = by_openblas;
  if (find_onednn_3(dnnl)) {
    peers[ONEDNN_LAID_OUT].run = by_onednn_laid_out;
    peers[ONEDNN_LAID_OUT].prepare = prepare_onednn;
  } else dnnl = dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (peer_find(dnnl, "dnnl_sgemm", &dnnl_sgemm)) peers[ONEDNN].run = by_onednn;
#ifdef HAVE_LIBXSMM
  peers[LIBXSMM].run = by_libxsmm, peers[LIBXSMM].prepare = prepare_libxsmm;
#endif
}

#endif
